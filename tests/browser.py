"""A headless Chromium, spoken to in its own protocol (DevTools) over the websocket client that
Jupyter brings.
"""

import json
import shutil
import subprocess
import time

import websocket

PROGRAM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
    "--remote-allow-origins=*",
]

# Elements whose words do not stand out from what is behind them, by WCAG 2's AA.
LOW_CONTRAST = """{
    const linear = v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4
    const light = color => {
      const [r, g, b] = color.match(/[\\d.]+/g).map(v => linear(v / 255))
      return .2126 * r + .7152 * g + .0722 * b + .05 }
    const behind = e => {
      const color = getComputedStyle(e).backgroundColor
      return color.endsWith(", 0)") ? behind(e.parentElement) : color }
    const ratio = e => {
      const [a, b] = [light(getComputedStyle(e).color), light(behind(e))]
      return Math.max(a, b) / Math.min(a, b) };
    [...document.querySelectorAll("p, h1, h2, h3, a, th, td, small, .chip, .run, summary, dt, dd, code")]
      .filter(e => e.checkVisibility() && ratio(e) < 4.5).map(e => e.outerHTML)
}"""


class Browser:
    """One page. `complaints` are what the console and uncaught errors said, `requests` the
    addresses it asked for.
    """

    def __init__(self, folder):
        self.complaints, self.requests, self.count = [], [], 0
        with open(folder / "log", "w") as log:
            self.process = subprocess.Popen(
                [PROGRAM, *FLAGS, f"--user-data-dir={folder}", "about:blank"],
                stdout=log,
                stderr=log,
            )
        said, deadline = (
            folder / "DevToolsActivePort",
            time.time() + 60,
        )  # where it listens: a port and a path
        while not (said.exists() and len(said.read_text().split()) == 2):
            if self.process.poll() is not None or time.time() > deadline:
                self.process.kill()
                raise RuntimeError(
                    "Chromium did not start:\n" + (folder / "log").read_text()[-1000:]
                )
            time.sleep(0.05)
        port, path = said.read_text().split()
        self.socket = websocket.create_connection(f"ws://127.0.0.1:{port}{path}", timeout=60)
        self.session = None
        target = next(
            t for t in self.ask("Target.getTargets")["targetInfos"] if t["type"] == "page"
        )["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method, **parameters):
        """The browser's answer to one command; what it reports meanwhile is noted."""
        self.count += 1
        message = {"id": self.count, "method": method, "params": parameters}
        self.socket.send(
            json.dumps(message | ({"sessionId": self.session} if self.session else {}))
        )
        while True:
            answer = self._next()
            if answer.get("id") == self.count:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def open(self, address):
        """Load a page, to the end."""
        self.ask("Page.navigate", url="about:blank")  # or another #fragment would be no new page
        self._until("Page.loadEventFired")
        self.complaints.clear()
        self.requests.clear()
        self.ask("Page.navigate", url=address)
        self._until("Page.loadEventFired")

    def run(self, script):
        """The value of a JavaScript expression, once it is there."""
        answer = self.ask(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"].get("description", script))
        return answer["result"].get("value")

    def check_that_it_can_be_read(self):
        """In light and dark, and on a phone, which scrolls one way only."""
        self.run("document.querySelectorAll('details').forEach(each => each.open = true)")
        for scheme in ("light", "dark"):
            self.look(1200, scheme=scheme)
            assert self.run(LOW_CONTRAST) == []
        self.look(360)
        self.run("new Promise(done => setTimeout(done, 100))")
        assert self.run("document.documentElement.scrollWidth") == 360
        self.look(1200)

    def look(self, width, height=900, scheme="light", media=""):
        """As a window of this width, in this colour scheme."""
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        self.ask(
            "Emulation.setEmulatedMedia",
            media=media,
            features=[{"name": "prefers-color-scheme", "value": scheme}],
        )

    def close(self):
        self.socket.close()
        self.process.terminate()
        self.process.wait(timeout=30)

    def _next(self):
        message = json.loads(self.socket.recv())
        seen, about = message.get("method"), message.get("params", {})
        if seen in ("Runtime.exceptionThrown", "Log.entryAdded") or (
            seen == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning")
        ):
            self.complaints.append(str(about))
        elif seen == "Network.requestWillBeSent":
            self.requests.append(about["request"]["url"])
        return message

    def _until(self, event):
        while self._next().get("method") != event:
            pass
