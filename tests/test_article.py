"""The article: it travels with what its script draws, and its controls change what is drawn, in a
real browser.
"""

import re
import shutil

import pytest

from companion import ledger
from companion.claims import Test
from companion.papers import PAPERS
from companion.report import article
from companion.results import runs
from lib import Estimate, paths
from tests.test_page import LOW_CONTRAST, Page, add, keep

SMALL, TAIL = "heads-small-set", "heads-right-tail"
SHOT = (
    """[...document.querySelectorAll("figure, .none, .retrainings")].map(e => e.outerHTML).join()"""
)
SET = """const set = (field, value) => { field.type === "checkbox" ? field.checked = value : field.value = value
    field.dispatchEvent(new Event("input", {bubbles: true})) };"""


def test_the_page_travels_with_the_tables_that_its_script_names():
    script = (paths.ROOT / "lib" / "publish" / "article.html").read_text(encoding="utf-8")
    assert sorted(set(re.findall(r'"(\d\d_\w+)"', script))) == sorted(article.TABLES)


def near(claim, value, model, variant=""):
    return Test(claim, Estimate(value, value - 0.1, value + 0.1, 10), model, variant=variant)


def render(folders):
    return article.render(folders, ledger.table(folders))


# ---- in a real browser


@pytest.fixture
def opened(chromium, tmp_path):
    """A function that opens the article on {run: folder}; no complaint may have been made in the
    end.
    """

    def open_(folders, width=1280, scheme="light"):
        file = tmp_path / "index.html"
        file.write_text(render(folders), encoding="utf-8")
        chromium.look(width, scheme=scheme)
        chromium.open(file.as_uri())
        return chromium

    yield open_
    assert chromium.complaints == []
    fetched = [one for one in chromium.requests if not one.startswith("data:")]
    assert fetched == [(tmp_path / "index.html").as_uri()]


MITIGATIONS = """mitigation,measure,value,change,change low,change high,change n,overturned
none,SEAT,1.0,0,0,0,9,False
none,PPPL,2.0,0,0,0,9,False
mask,SEAT,0.5,-0.5,-0.6,-0.4,9,False
mask,PPPL,2.0,0.0,-0.1,0.1,9,False
prompt,SEAT,,,,,,False
prompt,PPPL,,,,,,False
"""
SLOPES = """kind,mini-bert,mini-bert low,mini-bert high
base,0.19,0.13,0.24
target syntactic similar,0.10,0.05,0.15
"""


@pytest.fixture
def made_up(tmp_path):
    """Two runs with every table that a figure can be drawn from, and a control."""
    folder = tmp_path / "mini"
    for name in set(article.TABLES) - {
        "11_occupations"
    }:  # where it is stored there is no choice of k
        if (file := paths.ROOT / "figures" / "mini" / f"{name}.csv").is_file():
            folder.mkdir(exist_ok=True)
            shutil.copy(file, folder)
    add(
        folder,
        "02_heads",
        "model,bias,layer,head,score,low,high,ablation\nmini-bert,gender,1,1,0.2,0.1,0.3,-0.1\n"
        "mini-bert,gender,1,2,0.1,-0.1,0.3,0.02\nmini-bert,gender,2,1,-0.2,-0.3,-0.1,0.1\n",
    )
    add(
        folder,
        "03_attention",
        "model,layer,head,sentence,tokens,weights\n"
        "mini-bert,1,1,stereotyped,she cooks,0.5 0.5 0.25 0.75\nmini-bert,1,1,swapped,he cooks,1 0 0 1\n",
    )
    add(
        folder,
        "03_tests",
        "figure,heads,unit,n,difference,low,high,t,p\n"
        + "".join(
            f"4a m gender,{heads},sentence,100,0,-0.2,0.2,0,1\n"
            f"4a m gender,{heads},female only,50,{up},0.8,1.2,{10 * up},0\n"
            f"4a m gender,{heads},male only,50,-1,-1.2,-0.8,-10,1\n"
            for heads, up in {"biased": 1, "regular": 2}.items()
        )
        + "4b m gender,biased,sentence,9,1,1,1,1,1\n4b m gender,biased,female only,5,1,.9,1.1,9,1\n"
        "4b m gender,biased,male only,4,1,.9,1.1,9,1\n",
    )
    shutil.copytree(folder, tmp_path / "mini-real")
    add(
        tmp_path / "mini-real",
        "12_mitigations",
        MITIGATIONS,
    )
    add(folder, "12_mitigations", MITIGATIONS)
    add(folder, "11_slopes_table", SLOPES)
    own = [
        near(SMALL, 0.7, "mini-bert", "gradient"),  # an untrained network does as much
        near(TAIL, 5, "mini-bert"),
        near("ss-twin", 0.7, "mini-bert", "both files"),
    ]
    for run in ("mini", "mini-real"):
        keep(tmp_path / run, *own)
    untrained = [near(SMALL, 0.7, "null", "gradient"), near(TAIL, 0.5, "null")]
    keep(tmp_path / "null", *untrained)
    trainings = [f"trainings-seed{n}" for n in (1, 2, 3)]
    for run, value in zip(trainings, (5, 5.1, 5.2)):
        keep(tmp_path / run, near(TAIL, value, "mini-bert"))
    return {run: tmp_path / run for run in ("mini", "mini-real", "null", *trainings)}


def test_the_article_of_the_repository_stands_alone_and_can_be_read_by_all(opened):
    text = render(runs())
    assert len(text.encode()) < 6e6 and "@import" not in text and "url(" not in text
    page, cited = Page(text), {paper.address for paper in PAPERS.values()}
    assert {a["href"] for a in page.all("a") if "//" in a["href"]} == cited
    linked = {
        a["href"][-40:] for a in page.all("a") if re.search(r"\d\d_\w+\.(html|ipynb)", a["href"])
    }
    assert len(linked) >= 9  # each section has a notebook
    assert "board.html" in {a["href"] for a in page.all("a")} and all(
        "scope" in head for head in page.all("th")
    )
    for scheme in ("light", "dark"):
        shown = opened(runs(), scheme=scheme)
        assert shown.run(LOW_CONTRAST) == []
    drawn = shown.run("""[...document.querySelectorAll("section figure")].filter(e => e.checkVisibility()).map(e => [
        e.querySelector("svg").getAttribute("aria-label"), e.querySelector(".finding").textContent,
        e.querySelectorAll("svg *").length, e.querySelectorAll("tbody tr").length])""")
    assert len(drawn) == 6
    for words, finding, shapes, rows in drawn:
        assert (
            finding
            and finding in words
            and "NaN" not in words + finding
            and "undefined" not in words + finding
        )
        assert shapes > 5 and (rows or "No control was run" in finding)
    named = "[...document.querySelectorAll('select, input')].every(e => e.closest('label').textContent.trim())"
    assert shown.run(named)
    shown.run("document.querySelectorAll('details').forEach(each => each.open = true)")
    for width in (360, 768):
        shown.look(width)
        assert shown.run("new Promise(done => setTimeout(done, 100))") is None
        assert shown.run("document.documentElement.scrollWidth") == width


def test_every_control_changes_what_is_drawn(opened, made_up):
    page = opened(made_up)
    names = page.run("""[...document.forms].flatMap((form, i) => [...form.elements].map((e, j) => [
        i, j, (form.closest("section")?.id ?? "all") + " " + e.name, e.tagName])).filter(e => e[3] !== "FIELDSET")""")
    assert len(names) == 1 + 4 + 3 + 9 + 4 + 3 + 1  # the run, and of each section
    for form, place, name, _ in names:
        before, after, back = page.run(f"""{{ {SET}
            const field = document.forms[{form}].elements[{place}], before = {SHOT}
            const old = field.type === "checkbox" ? field.checked : field.value
            const choice = [...field.options ?? []].find(each => each.value !== old)?.value
            set(field, {{ checkbox: !old, range: "90" }}[field.type] ?? choice)
            const after = {SHOT}
            set(field, old);
            [before, after, {SHOT}] }}""")
        assert before != after, name
        assert before == back, name


def test_heads_are_hidden_chosen_and_shown_with_their_attention(opened, made_up):
    page = opened(made_up)
    scored = "document.querySelectorAll('#heads rect.hot').length"
    assert page.run(scored) == 3
    page.run("document.forms[1].elements.hide.click()")
    assert page.run(scored) == 2  # 1-2 includes 0
    first = "document.querySelector('#heads rect.hot')"
    lowest = "[...document.querySelectorAll('#heads rect.head')].map(e => +e.getAttribute('y'))"
    assert page.run(
        f"{first}.getAttribute('y') == Math.max(...{lowest})"
    )  # layer 1 is at the bottom
    page.run(f"{first}.dispatchEvent(new Event('click'))")
    assert "score +0.2000 [+0.1000, +0.3000]" in page.run(
        "document.querySelector('#heads .detail').textContent"
    )
    assert page.run("[...document.querySelectorAll('.maps td[title]')].map(e => e.title)")[:4] == [
        "she to she: 0.50",
        "she to cooks: 0.50",
        "cooks to she: 0.25",
        "cooks to cooks: 0.75",
    ]


def test_the_slider_moves_t_as_the_formula_does_and_by_keys(opened, made_up):
    """Groups of means +1 and -1 and variance 1/2: of 100 sentences t is 0 at half and half,
    sqrt(200) at one end.
    """
    page = opened(made_up)
    told = "document.querySelector('#swaps .detail').textContent"
    assert "At 50 % about women, t would be 0.0." in page.run(told)
    page.run(f"{{ {SET} set(document.querySelector('#swaps input'), 100) }}")
    assert "At 100 % about women, t would be 14.1." in page.run(told)
    page.run("document.querySelector('#swaps input').focus()")
    for kind in ("keyDown", "keyUp"):
        page.ask(
            "Input.dispatchKeyEvent",
            type=kind,
            key="ArrowLeft",
            code="ArrowLeft",
            windowsVirtualKeyCode=37,
        )
    assert "At 99 % about women" in page.run(told)


def test_retrainings_of_one_model_stand_beside_each_other(opened, made_up):
    page = opened(made_up)
    page.run(f"{{ {SET} set(document.querySelector('#controls select[name=what]'), 'again') }}")
    assert "1 of 1 tests are supported by their mean over 3 retrainings, 0" in page.run(
        "document.querySelector('#controls .finding').textContent"
    )
    assert (
        page.run("document.querySelectorAll('#controls svg path[stroke]').length") == 1 + 3
    )  # interval, retrainings


def test_an_occupation_is_chosen_where_they_are_stored(opened, made_up):
    add(
        made_up["mini-real"],
        "11_occupations",
        "model,occupation,percent_women,kind,female,male\n"
        + "".join(
            f"mini-bert,{job},50,{kind},{female},0.1\n"
            for job, female in {"cook": 0.2, "nurse": 0.4}.items()
            for kind in ("base", "target syntactic similar")
        ),
    )
    page = opened(made_up)
    assert page.run("[...document.forms[4].elements.job.options].map(o => o.value)") == [
        "cook",
        "nurse",
    ]
    assert page.run("document.forms[4].elements.job.value") == "nurse"  # as its text has it
    page.run(f"{{ {SET} set(document.forms[4].elements.job, 'cook') }}")
    assert page.run("document.querySelector('#cloze tbody').textContent").count("0.200") == 2


def test_what_no_run_has_stored_is_said(opened, tmp_path):
    keep(tmp_path / "mini", Test(SMALL, untested="no heads"))
    add(
        tmp_path / "mini",
        "08_table7",
        'model,"S, paper",S,"D, paper",D\nBase,.3,.2,.7,\nSENT 1,.2,,.6,.5\n',
    )
    page = opened({"mini": tmp_path / "mini"})
    shown = "[...document.querySelectorAll('section')].map(e => [e.id, e.querySelector('figure')?.checkVisibility()])"
    assert dict(page.run(shown)) == {
        "heads": False,
        "swaps": False,
        "projections": True,
        "cloze": False,
        "controls": True,
        "remedies": False,
        "glance": None,
    }
    assert (
        page.run("[...document.querySelectorAll('.none')].filter(e => e.checkVisibility()).length")
        == 4
    )
    assert (
        page.run("document.querySelectorAll('#projections path.model').length") == 2
    )  # of the paper; ours are half
    assert "No control was run" in page.run(
        "document.querySelector('#controls .finding').textContent"
    )
    assert "not run, so" in page.run("document.querySelector('.retrainings').textContent")
    page.ask("Emulation.setScriptExecutionDisabled", value=True)
    page.open((tmp_path / "index.html").as_uri())
    assert page.run(
        "[...document.querySelectorAll('form, figure, noscript')].filter(e => e.checkVisibility())"
        ".map(e => e.tagName)"
    ) == ["NOSCRIPT"]
    page.ask("Emulation.setScriptExecutionDisabled", value=False)
