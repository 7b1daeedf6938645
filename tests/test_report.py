"""The report: the board has every claim and every test of it; the article travels with what its
script draws, and its controls change what is drawn, in a real browser.
"""

import re
import shutil
from pathlib import Path

import pytest
from bs4 import BeautifulSoup

from companion import claims, ledger
from companion.claims import Beside, Test
from companion.report import page as pages
from companion.results import runs
from lib import paths
from lib.engine.stats import Estimate
from tests.tiny import keep_tests

SMALL, SEAT, COST = "heads-small-set", "mask-top3-seat", "mask-top3-pppl"
RANDOM = Beside("random heads", Estimate(-0.05, -0.06, -0.04), Estimate(-0.15, -0.2, -0.1))
TESTS = [
    Test(SMALL, Estimate(0.4, 0.3, 0.45, 10), "mini-bert", variant="gradient"),
    Test(SEAT, Estimate(-0.2, -0.3, -0.1, 165, "words"), "mini-bert", beside=RANDOM),
    Test(COST, Estimate(5490, 3770, 7710, 20), "mini-bert", variant="<b>"),
]


@pytest.fixture
def opened(chromium, tmp_path):
    """A function that opens a page; nothing may be fetched, and no complaint made in the end."""
    file = tmp_path / "page.html"

    def open_(text):
        file.write_text(text, encoding="utf-8")
        chromium.look(1280)
        chromium.open(file.as_uri())
        return chromium

    yield open_
    assert chromium.complaints == []
    asked = {one.partition("#")[0] for one in chromium.requests if not one.startswith("data:")}
    assert asked <= {file.as_uri()}


def text_of(element) -> str:
    return " ".join(element.get_text(" ").split())


# ---- the board
@pytest.fixture(scope="module")
def board(tmp_path_factory):
    """The board on made-up tests of one run, as text."""
    folder = keep_tests(tmp_path_factory.mktemp("mini"), *TESTS)
    folders = {"mini": folder}
    return pages.board(folders, ledger.table(folders))


def test_the_board_has_a_line_a_claim_and_every_test_of_it(board):
    page = BeautifulSoup(board, "html.parser")
    lines = {one["id"]: one for one in page.select("tbody[data-outcome]")}
    assert set(lines) == {one.id for one in claims.claims().values() if one.paper}
    came_to = {id: line["data-outcome"] for id, line in lines.items() if id in (SMALL, SEAT, COST)}
    assert came_to == {SMALL: "contradicted", SEAT: "supported", COST: "contradicted"}
    assert lines["lower-s"]["data-outcome"] == "not tested"
    said = [text_of(cell) for cell in lines[SEAT].select(".claim > td")]
    assert said[1:4] == ["supported ‡", "-0.2 [-0.3, -0.1] 165 words", "mini-bert, gender our sentences"]
    assert said[4].startswith("random heads -0.05 [-0.06, -0.04]") and "networks not run" in said[4]
    below = text_of(lines[COST].select_one(".tests"))
    assert "All 1 tests of it" in below and "5,490 [3,770, 7,710]" in below and "1.05" in below
    assert "&lt;b&gt;" in board and "<b>" not in board


# ---- the article
SHOT = """[...document.querySelectorAll("figure, .none")].map(e => e.outerHTML).join()"""
SET = """const set = (field, value) => { field.type === "checkbox" ? field.checked = value : field.value = value
    field.dispatchEvent(new Event("input", {bubbles: true})) };"""
HEADS = """model,bias,layer,head,score,low,high,ablation
mini-bert,gender,1,1,0.2,0.1,0.3,-0.1
mini-bert,gender,1,2,0.1,-0.1,0.3,0.02
mini-bert,gender,2,1,-0.2,-0.3,-0.1,0.1
"""
ATTENTION = """model,layer,head,sentence,tokens,weights
mini-bert,1,1,stereotyped,she cooks,0.5 0.5 0.25 0.75
"""
# Groups of means +1 and -1 and variance 1/2: of 100 sentences t is 0 at half and half, sqrt(200)
# at one end.
MEANS = """figure,heads,unit,n,difference,low,high,t,p
4a m gender,biased,sentence,100,0,-0.2,0.2,0,1
4a m gender,biased,female only,50,1,0.8,1.2,10,0
4a m gender,biased,male only,50,-1,-1.2,-0.8,-10,1
4a m gender,regular,sentence,100,0,-0.2,0.2,0,1
4a m gender,regular,female only,50,2,1.8,2.2,20,0
4a m gender,regular,male only,50,-1,-1.2,-0.8,-10,1
4b m gender,biased,sentence,9,1,1,1,1,1
4b m gender,biased,female only,5,1,.9,1.1,9,1
4b m gender,biased,male only,4,1,.9,1.1,9,1
"""
MITIGATIONS = """mitigation,measure,value,change,change low,change high,change n,overturned
none,SEAT,1.0,0,0,0,9,False
none,PPPL,2.0,0,0,0,9,False
mask,SEAT,0.5,-0.5,-0.6,-0.4,9,False
mask,PPPL,2.0,0.0,-0.1,0.1,9,False
prompt,SEAT,,,,,,False
prompt,PPPL,,,,,,False
"""


def render(folders):
    return pages.article(folders, ledger.table(folders))


@pytest.fixture
def made_up(tmp_path):
    """The article of two runs with every table that a figure can be drawn from."""
    folder = tmp_path / "mini"
    folder.mkdir()
    for name in pages.TABLES:
        shutil.copy(paths.FIGURES / "mini" / f"{name}.csv", folder)
    tables = {"02_heads": HEADS, "03_attention": ATTENTION, "03_tests": MEANS}
    for name, text in tables.items():
        (folder / f"{name}.csv").write_text(text)
    shutil.copytree(folder, tmp_path / "mini-real")
    (tmp_path / "mini-real" / "12_mitigations.csv").write_text(MITIGATIONS)
    return render({run: tmp_path / run for run in ("mini", "mini-real")})


def test_the_article_travels_with_the_tables_that_its_script_names():
    script = (Path(pages.__file__).parent / "article.html").read_text(encoding="utf-8")
    assert sorted(set(re.findall(r'"(\d\d_\w+)"', script))) == sorted(pages.TABLES)


def test_the_article_of_the_repository_draws_every_figure(opened):
    text = render(runs())
    assert len(text.encode()) < 6e6 and "@import" not in text and "url(" not in text
    page = opened(text)
    drawn = page.run("""[...document.querySelectorAll("section figure")].filter(e => e.checkVisibility()).map(e => [
        e.querySelector("svg").getAttribute("aria-label"), e.querySelector(".finding").textContent,
        e.querySelectorAll("svg *").length, e.querySelectorAll("tbody tr").length])""")
    assert len(drawn) == 5
    for words, finding, shapes, rows in drawn:
        assert finding and finding in words and shapes > 5 and rows
        assert not re.search("NaN|undefined", words)
    page.check_that_it_can_be_read()


def test_every_control_changes_what_is_drawn(opened, made_up):
    page = opened(made_up)
    fields = page.run("""[...document.forms].flatMap((form, i) => [...form.elements].map((e, j) => [
        i, j, (form.closest("section")?.id ?? "all") + " " + e.name, e.tagName])).filter(e => e[3] !== "FIELDSET")""")
    assert len(fields) == 1 + 4 + 3 + 9 + 3 + 1  # the run, and of each section
    for form, place, name, _ in fields:
        before, after, back = page.run(f"""{{ {SET}
            const field = document.forms[{form}].elements[{place}], before = {SHOT}
            const old = field.type === "checkbox" ? field.checked : field.value
            const choice = [...field.options ?? []].find(each => each.value !== old)?.value
            set(field, {{ checkbox: !old, range: "90" }}[field.type] ?? choice)
            const after = {SHOT}
            set(field, old);
            [before, after, {SHOT}] }}""")
        assert before == back, name
        assert before != after, name


def test_the_slider_moves_t_as_the_formula_does_and_by_keys(opened, made_up):
    page = opened(made_up)
    told = "document.querySelector('#swaps .detail').textContent"
    assert "At 50 % about women, t would be 0.0." in page.run(told)
    page.run(f"{{ {SET} set(document.querySelector('#swaps input'), 100) }}")
    assert "At 100 % about women, t would be 14.1." in page.run(told)
    page.run("document.querySelector('#swaps input').focus()")
    key = {"key": "ArrowLeft", "code": "ArrowLeft", "windowsVirtualKeyCode": 37}
    for kind in ("keyDown", "keyUp"):
        page.ask("Input.dispatchKeyEvent", type=kind, **key)
    assert "At 99 % about women" in page.run(told)


