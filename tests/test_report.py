"""The page of all runs: whole, escaped, the same each time, and asking nothing of the network."""

import csv
import errno
import io
import json
import os
import subprocess
import sys
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from lib import CompanionError, paths
from lib.publish import report, reproduce

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
        return [(a["data-run"], a["data-notebook"], a["data-verdict"], [" ".join(cell.split()) for cell in cells])
                for a, cells in self.rows if "data-verdict" in a]


def png(width=40, height=20):
    content = io.BytesIO()
    Image.new("RGB", (width, height), "white").save(content, "PNG")
    return content.getvalue()


class Project:
    """Folders of its own for figures, notebooks and build."""

    def add(self, run, name, content, **made):
        folder = paths.FIGURES / run
        folder.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            (folder / f"{name}.png").write_bytes(content)
        else:
            (folder / f"{name}.csv").write_text(content)
        if made:
            (folder / f"{name}.json").write_text(json.dumps(made))

    def page(self):
        return Page(report.write().read_text(encoding="utf-8"))


@pytest.fixture
def project(tmp_path, monkeypatch):
    for name in ("FIGURES", "NOTEBOOKS", "BUILD"):
        monkeypatch.setattr(paths, name, tmp_path / name.lower())
    return Project()


@pytest.fixture(scope="module")
def stored():
    """The page of what is in the repository, and the files that were there."""
    files = [(run, file) for run, folder in report.runs().items() for file in folder.glob("[0-9]*.*")]
    text = report.render(report.collect(report.runs()))
    return files, text, Page(text)


def test_everything_stored_is_on_the_page(stored):
    files, _, page = stored
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(ids) == len(set(ids))
    verdicts = Counter((run, number) for run, number, *_ in page.verdicts())
    for run, file in files:
        if file.suffix == ".png":
            assert f"{run}.{file.stem}" in ids
        elif file.suffix == ".csv":
            table = list(csv.reader(file.open(newline="")))
            columns = set(table[0])
            if report.BOARD <= columns:
                continue
            told = columns & {"claim", "presupposed", "paper"} and any(name.startswith("verdict") for name in columns)
            verdicts[run, file.name[:2]] -= len(table) - 1 if told else 0
            assert told or f"{run}.{file.stem}" in ids
    assert verdicts.total() == 0 and not any(verdicts.values())


def test_the_page_stands_alone(stored):
    _, text, page = stored
    citations = {address for _, address, *_ in report.PAPERS.values()}
    for tag, attributes in page.elements:
        for name in ("src", "href", "srcset", "action", "data", "poster"):
            value = attributes.get(name, "")
            outside = "//" in value and not value.startswith("data:")
            assert not outside or (tag == "a" and value in citations), value
    assert "@import" not in text and "url(" not in text and not page.all("iframe")
    assert [a["rel"] for a in page.all("link")] == ["icon"]
    assert len(text) < 15e6


def test_links_lead_somewhere(stored):
    page = stored[-1]
    ids = {a.get("id") for _, a in page.elements}
    for link in page.all("a"):
        target = unquote(link["href"])
        if target.startswith("#"):
            assert target[1:] in ids, target
        elif not target.startswith("https:"):
            assert (paths.BUILD / "report" / target).resolve().is_file(), target


def test_it_can_be_read_by_all(stored):
    page = stored[-1]
    assert all(image["alt"].strip() for image in page.all("img")) and page.all("img")
    assert all("scope" in head for head in page.all("th"))
    assert {"header", "main", "nav", "footer", "title", "h1"} <= {tag for tag, _ in page.elements}
    assert page.all("html") == [{"lang": "en"}]
    assert len(page.all("label")) == len(page.all("select")) + len(page.all("input")) > 0


def test_the_same_files_give_the_same_page(project):
    """Whatever order sets and folders are read in."""
    for run in ("b", "a"):
        project.add(run, "03_fig", png(), caption="f", models={"m": "1", "n": "2"})
        project.add(run, "02_claims", "claim,model,verdict\nc,m,holds\nd,m,fails\nc,n,fails\n")
    code = [f"paths.{name} = pathlib.Path({str(getattr(paths, name))!r})" for name in ("FIGURES", "NOTEBOOKS", "BUILD")]
    code = ["import pathlib", "from lib import paths, report", *code, "report.write()"]
    pages = []
    for seed in ("1", "2"):
        subprocess.run([sys.executable, "-c", "\n".join(code)], check=True, cwd=paths.ROOT,
                       env=os.environ | {"PYTHONHASHSEED": seed})
        pages.append((paths.BUILD / "report" / "index.html").read_bytes())
    assert pages[0] == pages[1] == report.write().read_bytes()
    rows = Page(pages[0].decode()).verdicts()
    assert [(run, kind, cells[0].split()[0]) for run, _, kind, cells in rows] == [
        ("a", "holds", "m"), ("b", "holds", "m"), ("a", "fails", "n"), ("b", "fails", "n"),
        ("a", "fails", "m"), ("b", "fails", "m")]


def test_names_and_captions_are_escaped_whatever_they_hold(project):
    project.add("mini", "02_fig", png(), caption=NASTY, models={NASTY: "sha256:1"}, command=NASTY)
    project.add("mini", "02_table", f'what\n"{NASTY.replace(chr(34), chr(34) * 2)}"\n', caption=NASTY)
    project.add("mini", "02_claims", 'claim,verdict\n"<b>bold</b>","holds (<i>)"\n', caption="c")
    page = project.page()
    assert page.all("img")[0]["alt"] == NASTY and page.text.count(NASTY) == 5
    assert len(page.all("script")) == 1 and not page.all("b") and "<b>bold</b>" in page.text
    assert page.verdicts()[0][3] == ["mini", "holds <i>", "figures all of 02"]


def test_claims_of_every_shape(project):
    project.add("mini", "03_fig4a", png(), caption="f")
    project.add("mini", "03_claims", "claim,figure,model,bias,t,verdict\nc,4a,m,race,1.5,fails\n"
                "c,9,m,,,holds (within chance)\n")
    project.add("mini", "04_claims", "claim,paper,ours,verdict\nd,+1,2,holds\n", models={"m1": "x", "m2": "y"})
    project.add("mini", "02_claims", "claim,where,ours,verdict\ne,here,5,no idea\n")
    project.add("mini", "01_checks", "presupposed,model,verdict\nf,m,cannot be tested: no data\n")
    page = project.page()
    assert page.verdicts() == [
        ("mini", "01", "cannot be tested", ["m mini", "cannot be tested no data", "figures all of 01"]),
        ("mini", "02", "other", ["here mini", "other no idea", "5 figures all of 02"]),
        ("mini", "03", "fails", ["m, race mini", "fails", "1.5 figure 4a"]),
        ("mini", "03", "holds", ["m mini", "holds within chance", "figures all of 03"]),
        ("mini", "04", "holds", ["m1, m2 mini", "holds", "paper +1; ours 2 figures all of 04"])]
    assert "#mini.03_fig4a" in [a["href"] for a in page.all("a")]
    glance = [cells for _, cells in page.rows if cells[0].startswith("Bias A-head")]
    assert glance[0][1].split() == "2 hold (1 within chance), 1 fail, 1 other".split()


def test_the_first_of_several_verdicts_counts(project):
    header = """claim,t,"verdict, paper's test","verdict, balanced",where"""
    project.add("mini", "03_claims", f"{header}\nc,2,holds,fails,m\n")
    evidence = "t 2; verdict, balanced fails figures all of 03"
    assert project.page().verdicts() == [("mini", "03", "holds", ["m mini", "holds", evidence])]


def test_the_scoreboard_links_each_claim_to_its_figure(project):
    board = ("id,source,made in,claim,tested by,figure,mini,mini-real\n"
             "a,Bias A-head,5.1,heads < tails,02,02_fig1,in part (1 of 3),holds\n"
             "b,Bias A-head,6,layers rise,02,02_fig2,fails (within chance),not run\n"
             "c,Counteracts,4,words move,11,,cannot be tested,cannot be tested\n")
    for run in ("mini", "mini-real"):
        project.add(run, "02_fig1", png(), caption="f")
    project.add("mini", "12_claims", board, caption="c", command="./reproduce.sh --only 12")
    page = project.page()
    assert page.text.count("./reproduce.sh --only 12") == 1
    rows = [(a, [" ".join(cell.split()) for cell in cells]) for a, cells in page.rows if "data-verdicts" in a]
    assert [cells for _, cells in rows] == [
        ["heads < tails 5.1", "in part 1 of 3", "holds", "figure mini-real.02_fig1"],
        ["layers rise 6", "fails within chance", "not run", "figures of 02"],
        ["words move 4", "cannot be tested", "cannot be tested", "none"]]
    assert rows[0][0] == {"data-notebook": "02", "data-verdicts": "mini:in part|mini-real:holds|"}
    assert "#mini-real.02_fig1" in [a["href"] for a in page.all("a")]
    glance = {cells[0].split("\n")[0]: [" ".join(cell.split()) for cell in cells[1:]] for _, cells in page.rows[1:3]}
    assert glance == {"Bias A-head": ["1 in part, 1 fail (1 within chance)", "1 hold, 1 not run"],
                      "Counteracts": ["1 cannot be tested", "1 cannot be tested"]}


def test_a_figure_is_told_in_words(project):
    project.add("mini", "02_fig", png(), caption="All heads.")
    drawing = paths.FIGURES / "mini" / "02_fig.svg"
    drawing.write_text('<!-- an axis -->\n <g transform="translate(5 5) scale(0.1 -0.1)">\n'
                       '<!-- Every head -->\n <g style="fill: #262626" transform="scale(0.12 -0.12)"></g>\n'
                       '<!-- &lt; 3 falls -->\n <g style="fill: #262626" transform="scale(0.12 -0.12)">' + " " * 9000)
    assert project.page().all("img")[0]["alt"] == "Every head < 3 falls. All heads."


def test_numbers_of_two_runs_stand_side_by_side(project):
    numbers = "table,row,paper,ours,difference,verdict\n1,x,1.5,{},{},{}\nTable 1,y,,2,,not run (it is lost)\n"
    project.add("mini", "04_paper", numbers.format("1.0", "-0.5", "other model"))
    project.add("paper", "04_paper", numbers.format("1.5", "0", "matches"))
    assert project.page().verdicts() == [
        ("mini", "04", "other model", ["Table 1, x", "1.5", "1.0", "-0.5", "mini", "other model"]),
        ("paper", "04", "matches", ["Table 1, x", "1.5", "1.5", "0", "paper", "matches"]),
        ("mini", "04", "not run", ["Table 1, y", "", "2", "", "mini", "not run it is lost"]),
        ("paper", "04", "not run", ["Table 1, y", "", "2", "", "paper", "not run it is lost"])]


def test_what_was_not_stored_is_said(project):
    project.add("mini", "02_fig1_of_all", png())
    project.add("mini", "02_empty", "")
    page = project.page()
    assert [image["alt"] for image in page.all("img")] == ["Fig1 of all (no caption was stored)."]
    assert page.text.count("no provenance was stored with it") == 2


def test_provenance_is_told(project):
    project.add("mini", "02_fig", png(), caption="c", models={"mini-bert": "sha256:12"}, data={"mini": "ab12"}, seed=0,
                command="./reproduce.sh --only 02", versions={"torch": "2.13.0", "numpy": "2"})
    text = " ".join(project.page().text.split())
    for part in ("models mini-bert sha256:12", "data mini ab12", "seed 0", "command ./reproduce.sh --only 02",
                 "versions torch 2.13.0, numpy 2"):
        assert part.replace(" ", "") in text.replace(" ", "")


def test_the_smaller_of_drawing_and_pixels_is_shown_as_it_is(project):
    project.add("mini", "02_fig", png(300, 100))
    drawing = paths.FIGURES / "mini" / "02_fig.svg"
    image = project.page().all("img")[0]
    assert image["src"].startswith("data:image/webp;base64,") and (image["width"], image["height"]) == ("300", "100")
    drawing.write_text("<svg/>")
    assert project.page().all("img")[0]["src"] == "data:image/svg+xml;base64,PHN2Zy8+"
    drawing.write_text("<svg>" + " " * 10_000 + "</svg>")
    assert project.page().all("img")[0]["src"].startswith("data:image/webp")


def test_executed_notebooks_are_linked_where_they_are(project):
    for run in ("mini", "mini-real"):
        project.add(run, "02_fig", png())
    paths.NOTEBOOKS.mkdir()
    (paths.NOTEBOOKS / "02_heads.ipynb").touch()
    (paths.BUILD / "mini").mkdir(parents=True)
    (paths.BUILD / "mini" / "02_heads.html").touch()
    (paths.BUILD / "mini" / "02_heads.ipynb").write_text(json.dumps({"metadata": {"papermill": {
        "end_time": "2026-01-02T03:04:05.678+00:00", "duration": 61.4}}}))
    page = project.page()
    assert page.text.count("2026-01-02 03:04 UTC, 61 s") == 2  # in the list of notebooks, and with the figure
    links = [a["href"] for a in page.all("a") if a["href"].endswith(".html")]
    assert links == ["../mini/02_heads.html"] and (paths.BUILD / "report" / links[0]).resolve().is_file()
    assert "02 Heads" in page.text


def test_long_tables_are_cut_and_two_headers_are_one(project):
    project.add("mini", "02_long", "n\n" + "".join(f"{i}\n" for i in range(100)))
    project.add("mini", "02_wide", ",a,a,b\ntest,x,y,x\nk,,,\n0,1,2,3\n")
    page = project.page()
    assert f"The first {report.TABLE_ROWS} of 100 rows." in page.text
    assert ["k", "a: x", "a: y", "b: x"] in [cells for _, cells in page.rows]


def test_errors_are_one_sentence(project, monkeypatch, capsys):
    assert reproduce.main(["report"]) == 2
    assert capsys.readouterr().err == "There are no figures to report on: make them with ./reproduce.sh.\n"

    project.add("mini", "02_fig", png(), caption="c")
    assert reproduce.main(["report"]) == 0
    assert capsys.readouterr().out == f"All of it on one page: {paths.BUILD / 'report' / 'index.html'}\n"
    before = (paths.BUILD / "report" / "index.html").read_bytes()

    for number, said in ((errno.ENOSPC, f"The disk is full, {paths.BUILD / 'report' / 'index.html'} could not"),
                         (errno.EROFS, "The report could not be written (Read-only file system): make ")):
        def refuse(path, content):
            raise OSError(number, os.strerror(number))

        with monkeypatch.context() as patch:
            patch.setattr(Path, "write_bytes", refuse)
            assert reproduce.main(["report"]) == 2
        printed = capsys.readouterr().err
        assert printed.startswith(said) and printed.count("\n") == 1
        assert (paths.BUILD / "report" / "index.html").read_bytes() == before

    project.add("mini", "02_fig", b"half a picture")
    with pytest.raises(CompanionError, match="mini/02_fig.png is no picture any more: make it again with"):
        report.write()
    (paths.FIGURES / "mini" / "02_fig.json").write_text("<<<<<<< HEAD")
    with pytest.raises(CompanionError, match="mini/02_fig.json is not JSON any more"):
        report.write()


@given(st.sampled_from(report.VERDICTS), st.text(st.characters(codec="utf-8", exclude_characters="():,;"), max_size=20))
def test_a_verdict_is_a_kind_and_a_reason(kind, reason):
    reason = reason.strip()
    assert report.verdict(kind) == (kind, "")
    assert report.verdict(f"{kind} ({reason})") == (kind, reason)
    assert report.verdict(f"{kind}: {reason}") == (kind, reason)


def test_words_that_only_begin_like_a_verdict_are_none():
    assert report.verdict("holdsome") == ("other", "holdsome") and report.verdict("") == ("other", "")


@pytest.mark.parametrize("number, paper", [("02", "Bias A-head"), ("06", "Bias A-head"), ("07", "Projective Methods"),
                                           ("11", "Counteracts"), ("01", report.ALL_PAPERS), ("12", report.ALL_PAPERS)])
def test_which_paper_a_notebook_is_on(number, paper):
    assert report.paper_of(number) == paper
