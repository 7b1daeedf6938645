"""How long the model in the page takes, in headless Chromium: python -m benchmarks.page [--map]

An answer is what a change asks: the sentence, its control and its fact, each through the changed
model; layers below the change are kept. Times are of the processor (all of Chromium's processes,
from /proc) beside the clock's, since other work on the machine disturbs the clock alone.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path
from statistics import median

from companion import trypage
from tests.browser import Browser

SENTENCE = "The {} from the old town said that [MASK] was late."
JOBS = ("nurse", "doctor", "farmer", "pilot", "teacher", "baker", "lawyer", "guard")
ASK = "call('ask', {{sentence: {!r}, front: {!r}, change: {{off: {}, out: false, look: '12-1'}}}})"


def processor_time(browser: Browser) -> float:
    """Seconds of processor time of the browser and the processes that it has started."""
    family = {browser.process.pid}
    ticks = 0
    for stat in sorted(Path("/proc").glob("[0-9]*/stat"), key=lambda file: int(file.parent.name)):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        pid, parent = int(stat.parent.name), int(fields[1])
        if pid in family or parent in family:
            family.add(pid)
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def timed(browser: Browser, script: str) -> tuple[float, float]:
    """(processor time, clock) of a script, in seconds."""
    before, start = processor_time(browser), time.perf_counter()
    browser.run(script)
    return processor_time(browser) - before, time.perf_counter() - start


def report(name: str, times: list[tuple[float, float]]):
    processor, clock = zip(*times)
    print(
        f"{name:58} {1000 * median(processor):7.0f} ms of processor time "
        f"({1000 * min(processor):.0f} to {1000 * max(processor):.0f}), "
        f"clock {1000 * median(clock):.0f} ms",
        flush=True,
    )


def main():
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--map", action="store_true", help="also all 144 heads, one by one")
    arguments = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        start = time.process_time()
        file = trypage.write(Path(folder) / "try.html")
        print(f"made in {time.process_time() - start:.1f} s; {file.stat().st_size / 1e6:.1f} MB")
        profile = Path(folder) / "profile"
        profile.mkdir()
        browser = Browser(profile)
        try:
            browser.look(1200)
            browser.socket.settimeout(600)
            measure(browser, file, arguments.map)
        finally:
            browser.close()


def measure(browser: Browser, file: Path, with_map: bool):
    start = processor_time(browser), time.perf_counter()
    browser.open(file.as_uri())
    browser.run("opened")
    took = processor_time(browser) - start[0], time.perf_counter() - start[1]
    report("opened, with its first answer", [took])
    sentences = [SENTENCE.format(job) for job in JOBS]
    first = [timed(browser, ASK.format(one, "", [])) for one in sentences]
    tokens = browser.run(f"call('encode', {{texts: {sentences[:1]}}})")[0]
    report(f"a new sentence of {len(tokens)} tokens", first)
    low = [timed(browser, ASK.format(one, "", ["1-1"])) for one in sentences]
    report("the same with a head of layer 1 off", low)
    high = [timed(browser, ASK.format(one, "", ["12-9"])) for one in sentences]
    report("the same with a head of layer 12 off", high)
    heads = [f"set({{off: ['1-{n}']}})" for n in range(1, 9)]
    report("all that is shown, after a head of layer 1", [timed(browser, one) for one in heads])
    if with_map:
        browser.run("set({...START})")
        report("all 144 heads one by one, three sentences", [timed(browser, "tryAll()")])


if __name__ == "__main__":
    main()
