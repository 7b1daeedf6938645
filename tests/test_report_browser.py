"""The page of all runs in a real browser: no complaints, no requests, filters, dark mode, phone and print."""

import base64

import browser
import pytest

from lib.publish import report

if browser.PROGRAM is None:
    pytest.skip("Chromium is not installed: on Debian, apt-get install chromium", allow_module_level=True)

CLAIMS = """claim,model,ours,verdict
heads < tails,m,one,holds
heads < tails,n,two,fails
layers rise,m,three,holds (within chance)
"""
NUMBERS = "table,row,paper,ours,difference,verdict\n1,x,1.5,1.2,-0.3,other model\n1,y,1.5,,,not run (lost)\n"
WIDE = ",".join(f"a_long_name_{i}" for i in range(20)) + "\n" + ",".join(["a rather long value"] * 20) + "\n"
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


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    it = browser.Browser(tmp_path_factory.mktemp("profile"))
    yield it
    it.close()


def folders(root):
    """Two runs that have stored nothing yet."""
    runs = {run: root / run for run in ("mini", "mini-real")}
    for run in runs.values():
        run.mkdir()
    return runs


def written(root, runs):
    """The address of the page on these runs."""
    page = root / "index.html"
    page.write_text(report.render(report.collect(runs)), encoding="utf-8")
    return page.as_uri()


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """A page of two runs and three notebooks, with a wide table and a wide figure."""
    from PIL import Image

    folder = tmp_path_factory.mktemp("report")
    runs = folders(folder)
    for run in runs.values():
        for name, content in ("02_claims", CLAIMS), ("04_paper", NUMBERS), ("07_wide", WIDE), ("07_claims", CLAIMS):
            (run / f"{name}.csv").write_text(content)
        Image.new("RGB", (2000, 400), "#0072B2").save(run / "02_fig1.png")
        (run / "02_fig1.json").write_text('{"caption": "All heads, ranked."}')
    return written(folder, runs)


@pytest.fixture(scope="module")
def scoreboard(tmp_path_factory):
    """The same with a scoreboard."""
    folder = tmp_path_factory.mktemp("scoreboard")
    runs = folders(folder)
    for run in runs.values():
        (run / "02_claims.csv").write_text(CLAIMS)
    (runs["mini"] / "12_claims.csv").write_text(
        "id,source,made in,claim,tested by,figure,mini,mini-real\n"
        "a,Bias A-head,5,heads rise,02,,holds,fails\nb,Bias A-head,6,tails rise,02,,in part (1 of 2),not run\n"
        "c,Counteracts,1,words move,11,,fails,holds\n")
    return written(folder, runs)


@pytest.fixture
def page(chromium, address):
    chromium.look(1280)
    chromium.open(address)
    yield chromium
    assert chromium.complaints == []


def shown(page, kind="[data-run]"):
    """run/notebook/verdict of everything that is not hidden."""
    return page.run(f"""[...document.querySelectorAll('{kind}')].filter(e => e.checkVisibility())
        .map(e => [e.dataset.run, e.dataset.notebook, e.dataset.verdict ?? "-"].join("/"))""")


def choose(page, name, value):
    """As a reader would: set a field, and have it tell the page."""
    page.run(f"""{{ const field = document.forms.filters.elements["{name}"]; field.value = "{value}";
        field.dispatchEvent(new Event("input", {{bubbles: true}})) }}""")


def test_the_page_of_the_repository_loads_without_a_complaint_or_a_request(chromium, tmp_path):
    file = tmp_path / "index.html"
    file.write_text(report.render(report.collect(report.runs())), encoding="utf-8")
    chromium.look(1280)
    chromium.open(file.as_uri())
    loaded = "Promise.all([...document.images].map(image => image.decode())).then(all => all.length)"
    assert chromium.run(loaded) == chromium.run("document.images.length") > 0
    assert chromium.complaints == []
    assert [url for url in chromium.requests if not url.startswith("data:")] == [file.as_uri()]
    assert chromium.run("[...document.images].every(image => image.alt && image.naturalWidth > 0)")
    for width in (360, 768):
        chromium.look(width)
        assert chromium.run("document.documentElement.scrollWidth") == width


def test_complaints_would_be_seen(chromium, tmp_path):
    """What the other tests rest on."""
    file = tmp_path / "bad.html"
    file.write_text("<img src='missing.png'><script>console.error('no'); nowhere()</script>")
    chromium.open(file.as_uri())
    assert len(chromium.complaints) == 3 and any(url.endswith("missing.png") for url in chromium.requests)


def test_filters(page):
    everything = shown(page)
    assert len(everything) == 2 * (3 + 3 + 1 + 1)  # claims twice, a figure, a table; numbers are folded away
    choose(page, "run", "mini-real")
    assert sorted(shown(page)) == sorted(item for item in everything if item.startswith("mini-real/"))
    choose(page, "verdict", "fails")
    assert shown(page) == ["mini-real/02/fails", "mini-real/07/fails", "mini-real/02/-", "mini-real/07/-"]
    choose(page, "notebook", "02")
    assert shown(page) == ["mini-real/02/fails", "mini-real/02/-"]
    assert page.run("document.querySelector('output').textContent") == "2 of 20"
    assert page.run("location.hash") == "#run=mini-real&notebook=02&verdict=fails"
    assert page.run("[...document.querySelectorAll('#claims h3')].filter(e => e.checkVisibility()).length") == 1
    page.run("document.querySelector('button[type=reset]').click(); new Promise(done => setTimeout(done, 50))")
    assert shown(page) == everything and page.run("document.querySelector('output').textContent") == ""


def test_search_finds_words_anywhere_and_unfolds_numbers(page):
    choose(page, "text", "LAYERS rise")
    assert shown(page) == ["mini/02/holds", "mini-real/02/holds", "mini/07/holds", "mini-real/07/holds"]
    choose(page, "text", "table 1")
    assert shown(page) == ["mini/04/other model", "mini-real/04/other model", "mini/04/not run", "mini-real/04/not run"]
    choose(page, "text", "no such words")
    assert shown(page) == [] and page.run("document.querySelector('output').textContent") == "Nothing fits"


def test_the_scoreboard_is_filtered_too(chromium, scoreboard):
    def board():
        rows = chromium.run("""[...document.querySelectorAll('.board tbody tr')].filter(e => e.checkVisibility())
            .map(row => [...row.cells].filter(e => e.checkVisibility()).map(e => e.textContent.trim()))""")
        return [[cells[0].split(" ")[0], *cells[1:-1]] for cells in rows]

    chromium.look(1280)
    chromium.open(scoreboard)
    assert board() == [["heads", "holds", "fails"], ["tails", "in part 1 of 2", "not run"], ["words", "fails", "holds"]]
    choose(chromium, "verdict", "fails")
    assert board() == [["heads", "holds", "fails"], ["words", "fails", "holds"]]
    choose(chromium, "run", "mini-real")
    assert board() == [["heads", "fails"]]
    choose(chromium, "verdict", "")
    assert board() == [["heads", "fails"], ["tails", "not run"], ["words", "holds"]]
    choose(chromium, "text", "words")
    assert board() == [["words", "holds"]]
    choose(chromium, "notebook", "02")
    assert board() == []
    for width in (320, 390):
        chromium.look(width)
        chromium.open(scoreboard)
        assert chromium.run("document.documentElement.scrollWidth") == width
    assert chromium.complaints == []


def test_a_view_can_be_sent(page, address):
    page.open(f"{address}#verdict=fails&run=mini")
    assert shown(page, "tr[data-run]") == ["mini/02/fails", "mini/07/fails"]
    assert page.run("document.forms.filters.elements.verdict.value") == "fails"


def test_a_link_to_a_figure_that_is_filtered_away_shows_it(page):
    choose(page, "text", "layers")
    assert page.run("document.getElementById('mini.02_fig1').hidden")
    page.run("location.hash = '#mini.02_fig1'; new Promise(done => setTimeout(done, 100))")
    assert page.run("document.getElementById('mini.02_fig1').checkVisibility()")


def test_light_dark_and_print(page):
    def brightness(of):
        return page.run(f"getComputedStyle(document.body).{of}.match(/\\d+/g).slice(0, 3).reduce((a, b) => +a + +b)")

    for scheme, darker, lighter in ("light", "color", "backgroundColor"), ("dark", "backgroundColor", "color"):
        page.look(1280, scheme=scheme)
        assert brightness(darker) < 200 and brightness(lighter) > 550
    page.look(1280, scheme="dark", media="print")
    assert brightness("backgroundColor") == 765 and brightness("color") == 0
    assert not page.run("document.forms.filters.checkVisibility()")
    assert base64.b64decode(page.ask("Page.printToPDF")["data"]).startswith(b"%PDF")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_stand_out_from_what_is_behind_them(chromium, address, scoreboard, scheme):
    """4.5 to 1, as WCAG 2 asks of text."""
    chromium.look(1280, scheme=scheme)
    for page in (address, scoreboard):
        chromium.open(page)
        assert chromium.run(LOW_CONTRAST) == []


@pytest.mark.parametrize("width", [320, 375, 768])
def test_a_phone_scrolls_one_way_only(page, width):
    page.look(width)
    assert page.run("document.documentElement.scrollWidth") == width
    page.run("document.querySelectorAll('details').forEach(each => each.open = true)")
    assert page.run("document.documentElement.scrollWidth") == width


def test_the_keyboard_reaches_the_filters_and_is_seen(page):
    seen = []
    for _ in range(30):
        for kind in ("keyDown", "keyUp"):
            page.ask("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)
        seen.append(page.run("[document.activeElement.name || document.activeElement.className,"
                             " getComputedStyle(document.activeElement).outlineStyle]"))
    assert seen[0] == ["skip", "solid"]
    fields = ["run", "notebook", "verdict", "text"]
    assert [name for name, _ in seen if name in fields] == fields
    assert all(outline == "solid" for _, outline in seen)


def test_without_scripts_everything_is_there(chromium, address):
    chromium.ask("Emulation.setScriptExecutionDisabled", value=True)
    try:
        chromium.open(address)
        assert len(shown(chromium)) == 16 and not chromium.run("document.forms.filters.checkVisibility()")
    finally:
        chromium.ask("Emulation.setScriptExecutionDisabled", value=False)
