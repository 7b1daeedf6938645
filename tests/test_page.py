"""Pages of executed notebooks: nothing is fetched, nothing is cut off, words stand out."""

import base64
import copy
import io
import re
import time

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from PIL import Image

from companion import notebooks
from companion.run import Run
from lib import paths
from tests.browser import LOW_CONTRAST


def png(width=40, height=20):
    content = io.BytesIO()
    Image.new("RGB", (width, height), "white").save(content, "PNG")
    return content.getvalue()


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
            new_markdown_cell("![Four levels](../figures/projective_fig1.svg)"),
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
    assert "@import" not in text and "url(" not in text and len(text) < 100_000
    assert '<img alt="Four levels" src="data:image/svg+xml;base64,' in text and "../figures" not in text
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
