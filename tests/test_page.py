"""The report: the board has every claim and every test of it; pages of executed notebooks."""

import base64
import copy
import errno
import io
import json
import os
import re
import time
from html.parser import HTMLParser
from pathlib import Path
from unittest.mock import Mock

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from PIL import Image

from companion import claims, ledger, notebooks
from companion.claims import Beside, Test
from companion.report import page as pages
from companion.results import runs
from companion.run import Run
from lib import paths
from lib.engine.files import replace
from lib.engine.stats import Estimate
from tests.tiny import refusal

SMALL, SEAT, COST = "heads-small-set", "mask-top3-seat", "mask-top3-pppl"
RANDOM = Beside("random heads", Estimate(-0.05, -0.06, -0.04), Estimate(-0.15, -0.2, -0.1))
TESTS = [
    Test(SMALL, Estimate(0.4, 0.3, 0.45, 10), "mini-bert", variant="gradient"),
    Test(SEAT, Estimate(-0.2, -0.3, -0.1, 165, "words"), "mini-bert", beside=RANDOM),
    Test(COST, Estimate(5490, 3770, 7710, 20), "mini-bert", variant="<b>"),
]


EMPTY = {"meta", "link", "img", "br", "input"}  # elements that are never closed


class Page(HTMLParser):
    """Elements as (name, attributes), the text of the whole, and the cells of every table row."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.open, self.text, self.rows = [], [], "", []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in EMPTY:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append((dict(attributes), []))
        elif tag in ("td", "th"):
            self.rows[-1][1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"</{tag}> closes another element"

    def handle_data(self, data):
        if not {"style", "script"} & set(self.open):
            self.text += data
            if {"td", "th"} & set(self.open):
                self.rows[-1][1][-1] += data

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def png(width=40, height=20):
    content = io.BytesIO()
    Image.new("RGB", (width, height), "white").save(content, "PNG")
    return content.getvalue()


def add(folder, name, content, **made):
    """A figure or a table as a run stores it."""
    replace(
        folder / f"{name}.{'png' if isinstance(content, bytes) else 'csv'}",
        content if isinstance(content, bytes) else content.encode(),
    )
    if made:
        replace(folder / f"{name}.json", json.dumps(made).encode())


def keep(folder, *tests):
    """Tests as notebooks of a run keep them; the folder."""
    by_notebook = {}
    for test in tests:
        by_notebook.setdefault(claims.claims()[test.claim].notebook, []).append(test)
    for notebook, own in by_notebook.items():
        claims.write(folder / "claims" / f"{notebook}.json", own)
    return folder


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
def board(tmp_path_factory):
    """The board on made-up tests of one run, as text."""
    folder = keep(tmp_path_factory.mktemp("mini"), *TESTS)
    add(folder, "04_table1_plane", png())
    folders = {"mini": folder}
    return pages.board(folders, ledger.table(folders))


def test_the_board_has_a_line_a_claim_and_says_its_size_and_what_controls_show(board):
    page = Page(board)
    lines = {a["id"]: a["data-outcome"] for a in page.all("tbody") if "data-outcome" in a}
    assert len(lines) == sum(bool(claim.paper) for claim in claims.claims().values())
    assert (lines[SMALL], lines[SEAT], lines[COST]) == ("contradicted", "supported", "contradicted")
    assert lines["lower-s"] == "not tested"
    (line,) = [
        cells for _, cells in page.rows if cells and cells[0].startswith("Masking the Top-3 lowers")
    ]
    said = [" ".join(cell.split()) for cell in line]
    assert said[1] == "supported ‡"
    assert said[2] == "-0.2 [-0.3, -0.1] 165 words"
    assert said[3] == "mini-bert, gender our sentences"
    assert said[4].startswith("random heads -0.05 [-0.06, -0.04]") and "networks not run" in said[4]


def test_what_tests_hold_is_escaped_and_pictures_that_are_there_are_linked(board):
    assert "&lt;b&gt;" in board and "<b>" not in board
    linked = [a["href"] for a in Page(board).all("a") if a["href"].endswith(".png")]
    assert linked and all(one.endswith("04_table1_plane.png") for one in linked)


def test_every_test_of_a_claim_is_below_its_line(board):
    (rows,) = re.findall(f'<tbody id="{COST}".*?</table>', board, re.DOTALL)
    assert "All 1 tests of it" in rows and "5,490 [3,770, 7,710]" in rows and "1.05" in rows


@pytest.fixture
def opened(chromium, board, tmp_path):
    """A function that opens the board; no complaint and no request may have been made."""
    file = tmp_path / "board.html"
    file.write_text(board, encoding="utf-8")

    def open_(width=1280, scheme="light", at=""):
        chromium.look(width, scheme=scheme)
        chromium.open(file.as_uri() + at)
        return chromium

    yield open_
    assert chromium.complaints == []


def test_the_board_is_filtered_and_a_claim_that_is_asked_for_is_open(opened):
    page = opened(at=f"#{SEAT}")
    shown = "[...document.querySelectorAll('tbody[data-outcome]')].filter(e => e.checkVisibility()).map(e => e.id)"
    assert page.run(f"document.querySelector('#{SEAT} details').open")
    assert len(page.run(shown)) > 80
    choose = """(name, value) => { const field = document.forms.filters.elements[name]; field.value = value
        field.dispatchEvent(new Event("input", {bubbles: true})) }"""
    page.run(f"({choose})('outcome', 'contradicted')")
    assert page.run(shown) == [SMALL, COST]
    page.run(f"({choose})('words', 'PPPL top-3')")
    assert page.run(shown) == [COST]
    assert page.run("document.querySelector('output').textContent").startswith("1 of ")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_of_the_board_stand_out_and_a_phone_scrolls_one_way_only(opened, scheme):
    page = opened(scheme=scheme)
    page.run("document.querySelectorAll('details').forEach(each => each.open = true)")
    assert page.run(LOW_CONTRAST) == []
    page.look(360)
    assert page.run("document.documentElement.scrollWidth") == 360


def test_a_report_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    for name in ("FIGURES", "NOTEBOOKS", "BUILD"):
        monkeypatch.setattr(paths, name, tmp_path / name.lower())
    keep(paths.FIGURES / "mini", TESTS[0])
    assert list(runs()) == ["mini"]
    report = pages.write()
    before = report.read_bytes()
    with monkeypatch.context() as patch:
        failed = Mock(side_effect=OSError(errno.EROFS, os.strerror(errno.EROFS)))
        patch.setattr(Path, "write_bytes", failed)
        said = refusal(pages.write)
    assert said.startswith("The report could not be written (Read-only file system): make ")
    assert report.read_bytes() == before


# ---- executed notebooks

CLIPPED = """[...document.querySelectorAll("body *")].filter(e => {
    const scrolls = p => ["auto", "scroll"].includes(getComputedStyle(p).overflowX)
    const parents = []
    for (let p = e.parentElement; p; p = p.parentElement) parents.push(p)
    return e.checkVisibility() && e.getBoundingClientRect().right > innerWidth + 1 && !parents.some(scrolls)
}).map(e => e.outerHTML.slice(0, 100))"""


@pytest.fixture(scope="module")
def executed():
    """A notebook with a formula, links, short and long code, a wide line, table and figure."""
    figure = new_output(
        "display_data",
        {"image/png": base64.b64encode(png(1400, 300)).decode()},
        metadata={"image/png": {"alt": "Scores < 0, by head."}},
    )
    cells = "".join(f"<td>a long cell {i}</td>" for i in range(30))
    table = new_output("display_data", {"text/html": f"<table border='1'><tr>{cells}</tr></table>"})
    wide = " + ".join(f"x_{{{i}}}" for i in range(60))
    widget = new_output(
        "display_data", {notebooks.WIDGET: {"model_id": "1"}, "text/plain": "Box()"}
    )
    printed = new_output("stream", name="stdout", text="a long line of text " * 40)
    return new_notebook(
        cells=[
            new_markdown_cell("# 02 · <Heads>\n\n[03](03_next.ipynb#x) and [limits](../LIMITS.md)"),
            new_markdown_cell(
                f"Half is $\\frac{{1}}{{2}}$, without $w_{{\\setminus i}}$, and\n\n$$y = {wide}$$\n"
            ),
            new_markdown_cell("|" + "a column|" * 20 + "\n|" + "-|" * 20 + "\n|" + "a value|" * 20),
            new_code_cell("draw()  # " + "words " * 60, outputs=[figure, printed]),
            new_code_cell("\n".join(f"line_{i} = '{i}'" for i in range(8)), outputs=[table]),
            new_code_cell(
                "\n".join(f"def f_{i}(): return {i}" for i in range(9)), outputs=[widget]
            ),
        ]
    )


def test_the_page_of_a_notebook_fetches_nothing_and_describes_its_figures(executed):
    text = notebooks.as_page(copy.deepcopy(executed)).decode()
    assert (
        text.count("<math") == 3
        and "<mi>\\</mi>" in text
        and "<mfrac>" in text
        and "$" not in text.split("<body")[1]
    )
    assert 'alt="Scores &lt; 0, by head."' in text and "<script" not in text
    assert "@import" not in text and "url(" not in text and len(text) < 60_000
    links = re.findall('<a href="([^#][^"]*)"', text)
    assert links == ["03_next.html#x", "../../LIMITS.md"]
    assert "<title>02 · &lt;Heads&gt;</title>" in text
    assert "open in Jupyter" in text and "Box()" not in text


@pytest.mark.parametrize("typed", ["costs $5 and \\frac{ $", "$x^$", "$\\sqrt$", "$\\left( x$"])
def test_what_is_no_formula_stays_as_it_was_typed(typed):
    text = notebooks.as_page(new_notebook(cells=[new_markdown_cell(typed)])).decode()
    assert typed.split("$")[1].strip() in text and "<math" not in text


def test_pictures_of_other_kinds_and_without_a_caption_fail_no_page():
    """In version 0.19.0 they ended a notebook that had run well."""
    of_png = {"image/png": base64.b64encode(png()).decode()}
    svg = {"image/svg+xml": "<svg xmlns='http://www.w3.org/2000/svg'></svg>"}
    outputs = [new_output("display_data", data) for data in (svg, of_png)]
    cells = [new_markdown_cell('<img src="x.png">'), new_code_cell("draw()", outputs=outputs)]
    text = notebooks.as_page(new_notebook(cells=cells)).decode()
    assert 'alt="a figure, described above it"' in text and "data:image/svg+xml" in text


def test_no_script_of_a_notebook_runs_in_its_page(chromium, tmp_path):
    """Whatever a notebook of somebody else shows."""
    ran = "document.title = 'ran'"
    shown = [
        f"<script>{ran}</script>",
        f'<img src="x.png" onerror="{ran}">',
        f'<svg onload="{ran}"></svg>',
        f'<a id="link" href="javascript:{ran}">a link</a>',
        f'<iframe srcdoc="<script>parent.{ran}</script>"></iframe>',
    ]
    outputs = [new_output("display_data", {"text/html": html}) for html in shown]
    page = notebooks.as_page(new_notebook(cells=[new_code_cell("1", outputs=outputs)]))
    (tmp_path / "page.html").write_bytes(page)
    chromium.open((tmp_path / "page.html").as_uri())
    chromium.run("document.querySelector('#link').click()")
    time.sleep(0.5)
    assert chromium.run("document.title") != "ran"
    chromium.complaints.clear()  # of all that was refused


@pytest.mark.parametrize(
    "parameters, models",
    [
        (dict(), ""),
        (dict(data="paper"), ""),
        (dict(profile="paper"), "bert-base, bert-base-cda"),
        (dict(profile="null"), "null, null-"),
        (dict(model="mini-roberta"), "mini-roberta"),
    ],
)
def test_the_page_of_other_models_says_whose_its_text_is(parameters, models, executed):
    """*Ours, in small models* heads the pages of the papers' models too."""
    (file,) = paths.NOTEBOOKS.glob("02_*.ipynb")
    named = notebooks.Notebook(file, Run(**parameters))._other_models
    assert models in named and bool(named) == bool(models)
    text = notebooks.as_page(copy.deepcopy(executed), named).decode()
    assert ("what it says of <em>ours</em> is theirs" in text) == bool(named) and named in text


def test_long_code_is_folded_and_short_code_is_not(chromium, executed, tmp_path):
    file = tmp_path / "page.html"
    file.write_bytes(notebooks.as_page(copy.deepcopy(executed)))
    chromium.look(1200)
    chromium.open(file.as_uri())
    assert chromium.run(
        "[...document.querySelectorAll('details summary')].map(e => e.textContent)"
    ) == ["code 9 lines"]
    code = "[...document.querySelectorAll('.highlight')].map(e => e.checkVisibility())"
    assert chromium.run(code) == [True, True, False]
    chromium.run("document.querySelector('summary').click()")
    assert chromium.run(code) == [True, True, True]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_of_a_notebook_is_cut_off_on_a_phone_and_words_stand_out(
    chromium, executed, tmp_path, scheme
):
    """What is wider than the window scrolls within its own box."""
    file = tmp_path / "page.html"
    file.write_bytes(notebooks.as_page(copy.deepcopy(executed)))
    for width in (390, 1200):
        chromium.look(width, scheme=scheme)
        chromium.open(file.as_uri())
        chromium.run("document.querySelectorAll('details').forEach(each => each.open = true)")
        assert chromium.run("document.documentElement.scrollWidth") == width
        assert chromium.run(CLIPPED) == []
        of_code = LOW_CONTRAST.replace('"p, h1', '".highlight span:not(.w), p, h1')
        assert chromium.run(of_code) == []
    chromium.look(390, scheme=scheme)
    wide = """["pre", ".jp-RenderedHTML table", ".jp-RenderedImage", ".formula"].filter(name => {
        const element = document.querySelector(name)
        return element.scrollWidth > element.clientWidth })"""
    assert len(chromium.run(wide)) == 4  # there is something to scroll in each
    background = chromium.run("getComputedStyle(document.body).backgroundColor")
    is_dark = sum(map(int, re.findall(r"\d+", background))) < 150
    assert is_dark == (scheme == "dark")
    assert chromium.complaints == []
