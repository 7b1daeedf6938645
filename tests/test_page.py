"""The inventory of all runs: whole, escaped, the same each time, asking nothing of the network; in
a browser too.
"""

import base64
import copy
import errno
import io
import json
import os
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from unittest.mock import Mock
from urllib.parse import unquote

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from PIL import Image

from lib import paths
from lib.engine.files import replace
from lib.engine.stats import Estimate
from lib.publish import __main__ as command, controls, notebooks, page as pages
from lib.publish.judged import judged
from lib.publish.papers import CLAIMS, PAPERS, RETRAININGS
from lib.publish.records import is_about_bert
from lib.results import runs
from lib.run import Run
from lib.verdict import Outcome, Verdict, read

EMPTY = {"meta", "link", "img", "br", "input"}  # elements that are never closed
NASTY = 'a < b & "c" <script>alert(1)</script> {{ 7 * 7 }} é'


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

    def verdicts(self):
        """Of claims and numbers: (run, notebook, kind, cells), in order."""
        return [
            (
                a["data-run"],
                a["data-notebook"],
                a["data-verdict"],
                [" ".join(cell.split()) for cell in cells],
            )
            for a, cells in self.rows
            if "data-verdict" in a
        ]


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


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Folders of its own for figures, notebooks and build; a function that makes the page."""
    for name in ("FIGURES", "NOTEBOOKS", "BUILD"):
        monkeypatch.setattr(paths, name, tmp_path / name.lower())

    def made():
        article = pages.write({folder.name: folder for folder in paths.FIGURES.iterdir()})
        return Page(article.with_name("inventory.html").read_text("utf-8"))

    return made


def said(claim, outcome, on, reason="", found=""):
    return Verdict(claim, outcome, on=on, reason=reason, found=found)


NEAR, LAYERS = "heads-small-set", "heads-all-layers"
NO_CONTROLS = [f"{controls.NAMES[name]}: {controls.NOT_RUN}" for name in CLAIMS[NEAR].controls]
UNTRAINED = f"controls {'; '.join(NO_CONTROLS)}"


@pytest.fixture(scope="module")
def stored():
    """The page of what is in the repository, as text and taken apart. Notebook 02's pictures are
    packed, which takes long, and the others are blank.
    """
    blank, picture = (
        f"data:image/png;base64,{base64.b64encode(png()).decode()}",
        pages.Result.picture,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            pages.Result,
            "picture",
            lambda self: picture(self) if "02_" in self.name else (blank, 40, 20),
        )
        text = pages.render(runs(), [])
    return text, Page(text)


def test_everything_stored_is_on_the_page(stored):
    page = stored[1]
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(ids) == len(set(ids))
    rows = Counter((run, number) for run, number, *_ in page.verdicts())
    for run, folder in runs().items():
        for file in folder.glob("*/[0-9][0-9].json"):
            if file.parent.name == "numbers":
                rows[run, file.stem] -= len(json.loads(file.read_text()))
            elif file.parent.name == "claims":
                tests = read(file)
                if run.startswith(RETRAININGS):  # whose decoder is untrained
                    tests = [one for one in tests if is_about_bert(one)]
                rows[run, file.stem] -= len(tests)
        for file in folder.glob("[0-9][0-9]_*.json"):
            kept_apart = json.loads(file.read_text())["kind"] in ("claims", "numbers")
            assert kept_apart or f"{run}.{file.stem}" in ids
    assert not any(rows.values())


def test_the_page_stands_alone_and_can_be_read_by_all(stored):
    text, page = stored
    citations = {paper.address for paper in PAPERS.values()}
    for tag, attributes in page.elements:
        for name in ("src", "href", "srcset", "action", "data", "poster"):
            value = attributes.get(name, "")
            outside = "//" in value and not value.startswith("data:")
            assert not outside or (tag == "a" and value in citations), value
    assert "@import" not in text and "url(" not in text and not page.all("iframe")
    assert [a["rel"] for a in page.all("link")] == ["icon"]
    packed = [len(image["src"]) for image in page.all("img") if "image/png" in image["src"]]
    assert (
        len(packed) > 10 and sum(packed) / len(packed) * len(page.all("img")) < 15e6
    )  # what the page would have
    assert all(image["alt"].strip() for image in page.all("img")) and all(
        "scope" in head for head in page.all("th")
    )
    assert len(page.all("label")) == len(page.all("select")) + len(page.all("input")) > 0
    ids = {a.get("id") for _, a in page.elements}
    beside = {"index.html", "board.html"}
    for target in {unquote(link["href"]) for link in page.all("a")} - beside:
        there = (
            target[1:] in ids
            if target.startswith("#")
            else (paths.BUILD / "report" / target).resolve().is_file()
        )
        assert there or target.startswith("https:"), target


def test_the_same_files_give_the_same_page(project):
    """Whatever order sets and folders are read in."""
    for run in ("b", "a"):
        folder = paths.FIGURES / run
        add(folder, "03_fig", png(), caption="f", models={"m": "1", "n": "2"})
        Run(out=folder).judged(
            "02",
            [
                said(NEAR, Outcome.SUPPORTED, "m"),
                said(LAYERS, Outcome.CONTRADICTED, "m"),
                said(NEAR, Outcome.CONTRADICTED, "n"),
            ],
        )
    text = pages.render(runs(), [])
    assert text == pages.render(dict(reversed(runs().items())), [])
    rows = Page(text).verdicts()
    assert [(run, kind, cells[0].split()[0]) for run, _, kind, cells in rows] == [
        ("a", "supported", "m"),
        ("b", "supported", "m"),
        ("a", "contradicted", "n"),
        ("b", "contradicted", "n"),
        ("a", "contradicted", "m"),
        ("b", "contradicted", "m"),
    ]


def test_names_and_captions_are_escaped_whatever_they_hold(project):
    folder = paths.FIGURES / "mini"
    add(
        folder,
        "02_fig",
        png(),
        caption=NASTY,
        models={NASTY: "sha256:1"},
        command=NASTY,
        data={"mini": "ab12"},
        seed=0,
    )
    add(folder, "02_table", f'what\n"{NASTY.replace(chr(34), chr(34) * 2)}"\n', caption=NASTY)
    Run(out=folder).judged("02", [said(NEAR, Outcome.SUPPORTED, "<b>bold</b>", "<i>")])
    page = project()
    assert page.all("img")[0]["alt"] == NASTY and page.text.count(NASTY) == 5
    assert "datamini ab12" in page.text.replace("\n", "") and "seed0" in page.text.replace("\n", "")
    assert len(page.all("script")) == 1 and not page.all("b")
    assert page.verdicts()[0][3] == [
        "<b>bold</b> our sentences",
        "supported <i>",
        f"{UNTRAINED} figures of 02",
    ]


def test_board_claims_and_numbers(project):
    for run, outcome in ("mini", Outcome.CONTRADICTED), ("paper", Outcome.SUPPORTED):
        made = Run(out=paths.FIGURES / run)
        made.judged(
            "02",
            [
                said(NEAR, outcome, "m", "as shown", "3 of 4"),
                said(NEAR, Outcome.SUPPORTED, "n"),
                said(LAYERS, Outcome.NOT_APPLICABLE, "m", "no layers"),
            ],
        )
        made.compared(
            "04",
            "bias_a_head",
            {
                ("Table 1", "full", "SEAT"): (f"1.3 of {run}", "differs: a choice"),
                ("Table 1", "full", "PPPL"): ("", "not run (lost)"),
            },
        )
        add(
            made.out,
            "02_small_set",
            png(),
            caption="f",
            kind="figure",
            finding="Heads rise",
        )
        add(made.out, "02_claims", "claim,verdict\n", kind="claims")
    page = project()
    assert [(*row[:3], row[3][1:]) for row in page.verdicts()][:2] == [
        (
            run,
            "02",
            kind,
            [f"{kind} as shown", f"3 of 4 {UNTRAINED} figure {run}.02_small_set"],
        )
        for run, kind in (("mini", "contradicted"), ("paper", "supported"))
    ]
    assert page.verdicts()[-4:-2] == [
        (
            run,
            "04",
            "differs",
            ["Table 1, full, SEAT", "1.35", f"1.3 of {run}", name, "differs a choice"],
        )
        for run, name in (("mini", "our sentences"), ("paper", "the papers' models"))
    ]
    assert page.all("img")[0]["alt"] == "Heads rise. f"
    ids = [a.get("id") for _, a in page.elements]
    assert "mini.02_claims" not in ids and "#paper.02_small_set" in [
        a["href"] for a in page.all("a")
    ]
    rows = {
        cells[0].split("  ")[0]: [" ".join(cell.split()) for cell in cells[1:]]
        for a, cells in page.rows
        if "data-verdicts" in a
    }
    for claim, cells in (
        (
            NEAR,
            [
                "mixed 1 supported, 1 contradicted",
                "supported",
                "figure paper.02_small_set",
            ],
        ),
        (LAYERS, ["not applicable", "not applicable", "figures of 02"]),
    ):
        assert (
            rows[
                next(text for text in rows if text.startswith(pages.scoreboard.CLAIMS[claim].says))
            ]
            == cells
        )


def test_a_small_drawing_is_shown_as_it_is_and_what_was_not_stored_is_said(project):
    add(paths.FIGURES / "mini", "02_fig1_of_all", png(300, 100))
    add(paths.FIGURES / "mini", "02_empty", "")
    for content, kind in ("<svg/>", "svg+xml"), ("<svg>" + " " * 10_000 + "</svg>", "png"):
        (paths.FIGURES / "mini" / "02_fig1_of_all.svg").write_text(content)
        page = project()
        (image,) = page.all("img")
        assert (
            image["src"].startswith(f"data:image/{kind};base64,") and "no caption" in image["alt"]
        )
        assert (image["width"], image["height"]) == ("300", "100") and page.text.count(
            "no provenance was stored"
        ) == 2


def test_executed_notebooks_are_linked_where_they_are(project):
    for run in ("mini", "mini-real"):
        add(paths.FIGURES / run, "02_fig", png())
    paths.NOTEBOOKS.mkdir()
    (paths.NOTEBOOKS / "02_heads.ipynb").touch()
    replace(paths.BUILD / "mini" / "02_heads.html", b"")
    replace(
        paths.BUILD / "mini" / "02_heads.ipynb",
        json.dumps(
            {
                "metadata": {
                    "papermill": {"end_time": "2026-01-02T03:04:05.678+00:00", "duration": 61.4}
                }
            }
        ).encode(),
    )
    page = project()
    assert (
        page.text.count("2026-01-02 03:04 UTC, 61 s") == 2
    )  # in the list of notebooks, and with the figure
    links = [
        a["href"]
        for a in page.all("a")
        if a["href"].endswith(".html") and a["href"] not in ("index.html", "board.html")
    ]
    assert (
        links == ["../mini/02_heads.html"]
        and (paths.BUILD / "report" / links[0]).resolve().is_file()
    )
    assert "02 Heads" in page.text


def test_errors_are_one_sentence(project, monkeypatch, capsys):
    assert (
        command.main(["report"]) == 2 and "make them with ./reproduce.sh" in capsys.readouterr().err
    )
    add(paths.FIGURES / "mini", "02_fig", png(), caption="c")
    assert runs() == {}  # has no finished notebook yet
    estimate = Estimate(0.6, 0.5, 0.7, 10)
    decided = Verdict("heads-near-zero", Outcome.SUPPORTED, estimate=estimate, threshold=0.5)
    Run(out=paths.FIGURES / "mini").judged("02", [decided])
    report = paths.BUILD / "report" / "index.html"
    assert command.main(["report"]) == 0 and capsys.readouterr().out == f"The report: {report}\n"
    before = report.read_bytes()
    for number, said in (
        (errno.ENOSPC, f"The disk is full, {report} could not"),
        (errno.EROFS, "The report could not be written (Read-only file system): make "),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(
                Path, "write_bytes", Mock(side_effect=OSError(number, os.strerror(number)))
            )
            assert command.main(["report"]) == 2
        printed = capsys.readouterr().err
        assert (
            printed.startswith(said) and printed.count("\n") == 1 and report.read_bytes() == before
        )


def test_the_inventory_has_the_tests_that_are_judged_and_those_of_cards():
    """Of retrainings what is about their BERT alone: their decoder is untrained."""
    stored = runs()
    folders = {name: stored[name] for name in ("mini", "null", "trainings-seed1")}
    rows = list(pages._claim_rows(folders, set()))
    found = Counter(row["run"] for row in rows)
    assert found == {run: len(tests) for run, tests in judged(folders).items()} | {
        "mini": len(judged(folders)["mini"]) + 5  # of cards, in notebook 01
    }
    assert [row["number"] for row in rows] == sorted(row["number"] for row in rows)
    of_retraining = [row for row in rows if row["run"] == "trainings-seed1"]
    assert not any("gpt2" in row["where"] for row in of_retraining)


def test_what_is_damaged_is_left_out_and_said_and_what_a_control_bears_out_is_shown_apart(
    project, capsys
):
    mini, other = paths.FIGURES / "mini", paths.FIGURES / "other"
    for run, model in {"mini": "mini-bert", "null": "null"}.items():
        shown = Verdict(
            NEAR,
            Outcome.SUPPORTED,
            on="m",
            estimate=Estimate(0.9, 0.8, 0.95),
            threshold=0.5,
            models=[model],
        )
        Run(out=paths.FIGURES / run).judged("02", [shown])
    for name, content in {
        "02_good": png(),
        "02_half": b"half a picture",
        "02_json": png(),
        "02_binary": "",
    }.items():
        add(mini, name, content, caption="c", command="./reproduce.sh --only 02")
    (mini / "02_json.json").write_text("[1]")
    (mini / "02_binary.csv").write_bytes(b"\xff\xfe\x00")
    add(other, "02_fig", png())
    replace(other / "claims" / "02.json", b"[{")
    page = project()
    told = capsys.readouterr().err
    for name in ("02_half.png", "02_json.json", "02_binary.csv"):
        place = os.path.relpath(mini / name, paths.ROOT)
        sentence = f"{place} is damaged: restore it with `git checkout {place}`, or make it again with `./reproduce.sh "
        assert told.count(sentence) == page.text.count(sentence) == 1
    assert "The run other is left out." in told and told.count("\n") == 4
    board = next(
        cells
        for a, cells in page.rows
        if "data-verdicts" in a and cells[0].startswith(CLAIMS[NEAR].says)
    )
    assert "matched by controls" in " ".join(board[1].split())
    assert "untrained networks: 100 % of it" in board[0]
    assert {figure["id"] for figure in page.all("figure")} == {"mini.02_good", "mini.02_json"}


# ---- in a real browser

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
def address(tmp_path_factory):
    """A page of two runs and three notebooks, with a board, a wide table and a wide figure."""
    root = tmp_path_factory.mktemp("report")
    for run in ("mini", "mini-real"):
        made = Run(out=root / run)
        both = [
            said(NEAR, Outcome.SUPPORTED, "m", found="one"),
            said(NEAR, Outcome.CONTRADICTED, "n", found="two"),
        ]
        made.judged("02", [*both, said(LAYERS, Outcome.SUPPORTED, "m", "why", "three")])
        made.compared("04", "bias_a_head", {("Table 1", "full", "SEAT"): ("1.2", "not comparable")})
        names, values = (
            ",".join(f"{text}_{i}" for i in range(20))
            for text in ("a_long_name", "a rather long value")
        )
        add(made.out, "07_wide", f"{names}\n{values}\n")
        add(made.out, "02_fig1", png(2000, 400), caption="All heads, ranked.")
    (root / "index.html").write_text(
        pages.render({run: root / run for run in ("mini", "mini-real")}, []), "utf-8"
    )
    return (root / "index.html").as_uri()


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


def test_the_page_of_the_repository_loads_without_a_complaint_or_a_request(
    chromium, stored, tmp_path
):
    file = tmp_path / "index.html"
    file.write_text(stored[0], encoding="utf-8")
    chromium.look(1280)
    chromium.open(file.as_uri())
    loaded = (
        "Promise.all([...document.images].map(image => image.decode())).then(all => all.length)"
    )
    assert chromium.run(loaded) == chromium.run("document.images.length") > 0
    assert chromium.complaints == []
    assert [url for url in chromium.requests if not url.startswith("data:")] == [file.as_uri()]
    for width in (360, 768):
        chromium.look(width)
        assert chromium.run("document.documentElement.scrollWidth") == width


def test_filters_and_a_figure_that_is_enlarged_and_closed_again(page, address):
    opened = "document.getElementById('large').open && document.querySelector('#large img').alt"
    page.run("document.querySelector('figure .enlarge').click()")
    assert page.run(opened) == "All heads, ranked."
    page.run("document.querySelector('#large button').click()")
    assert page.run(opened) is False
    everything = shown(page)
    assert len(everything) == 2 * (3 + 1 + 1)  # claims, a figure, a table; numbers are folded away
    choose(page, "run", "mini-real")
    assert sorted(shown(page)) == sorted(
        item for item in everything if item.startswith("mini-real/")
    )
    choose(page, "verdict", "contradicted")
    assert shown(page) == ["mini-real/02/contradicted", "mini-real/02/-", "mini-real/07/-"]
    choose(page, "notebook", "02")
    assert shown(page) == ["mini-real/02/contradicted", "mini-real/02/-"]
    assert page.run("location.hash") == "#run=mini-real&notebook=02&verdict=contradicted"
    board = "[...document.querySelectorAll('.board thead th')].filter(e => e.checkVisibility()).map(e => e.textContent)"
    assert set(page.run(board)) <= {"Claim", "the papers' data", "Behind it"}
    page.run(
        "document.querySelector('button[type=reset]').click(); new Promise(done => setTimeout(done, 50))"
    )
    assert (
        shown(page) == everything and page.run("document.querySelector('output').textContent") == ""
    )
    choose(page, "text", "table 1")  # unfolds the numbers
    assert shown(page) == ["mini/04/not comparable", "mini-real/04/not comparable"]
    choose(page, "text", "no such words")
    assert (
        shown(page) == []
        and page.run("document.querySelector('output').textContent") == "Nothing fits"
    )
    assert page.run(
        "document.getElementById('mini.02_fig1').hidden"
    )  # a link to what is filtered away shows it
    page.run("location.hash = '#mini.02_fig1'; new Promise(done => setTimeout(done, 100))")
    assert page.run("document.getElementById('mini.02_fig1').checkVisibility()")
    page.open(f"{address}#verdict=contradicted&run=mini")  # a view can be sent
    assert shown(page, "tr[data-run]") == ["mini/02/contradicted"]


def test_words_stand_out_and_a_phone_scrolls_one_way_only(page, address):
    """4.5 to 1, as WCAG 2 asks of text; in print without the filters, and without scripts all is
    there.
    """
    for scheme in ("light", "dark"):
        page.look(1280, scheme=scheme)
        page.open(address)
        assert page.run(LOW_CONTRAST) == []
    page.look(1280, scheme="dark", media="print")
    assert not page.run("document.forms.filters.checkVisibility()")
    page.ask("Emulation.setScriptExecutionDisabled", value=True)
    page.open(address)
    assert len(shown(page)) == 10 and not page.run("document.forms.filters.checkVisibility()")
    page.ask("Emulation.setScriptExecutionDisabled", value=False)
    page.look(1280)
    page.open(address)
    page.run("document.querySelectorAll('details').forEach(each => each.open = true)")
    for width in (320, 768):
        page.look(width)
        assert page.run("document.documentElement.scrollWidth") == width


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
