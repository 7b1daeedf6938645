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


def png(width=40, height=20):
    content = io.BytesIO()
    Image.new("RGB", (width, height), "white").save(content, "PNG")
    return content.getvalue()


# ---- executed notebooks


@pytest.fixture(scope="module")
def executed():
    """A notebook with a formula, links, short and long code, a wide line, table and figure."""
    figure = new_output(
        "display_data",
        {"image/png": base64.b64encode(png(1400, 300)).decode()},
        metadata={"image/png": {"alt": "Scores < 0, by head."}},
    )
    return new_notebook(
        cells=[
            new_markdown_cell("# 02 · <Heads>\n\n[03](03_next.ipynb#x) and [limits](../LIMITS.md)"),
            new_markdown_cell("![Four levels](../figures/projective_fig1.svg)"),
            new_markdown_cell("Half is $\\frac{1}{2}$, without $w_{\\setminus i}$, and\n\n$$y = x$$\n"),
            new_code_cell("draw()", outputs=[figure]),
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


@pytest.mark.parametrize("typed", ["costs $5 and \\frac{ $", "$\\left( x$"])
def test_what_is_no_formula_stays_as_it_was_typed(typed):
    text = notebooks.as_page(new_notebook(cells=[new_markdown_cell(typed)])).decode()
    assert typed.split("$")[1].strip() in text and "<math" not in text


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


