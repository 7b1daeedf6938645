"""The article: answers say what the records say, controls change what is drawn, in a real
browser.
"""

import re
import shutil
from dataclasses import replace

import pytest

from lib import Estimate, paths
from lib.publish import answers, article, scoreboard
from lib.publish.papers import PAPERS
from lib.results import runs
from lib.run import Run
from lib.verdict import Control, Outcome, Verdict
from tests.test_page import LOW_CONTRAST, NEAR, Page, add, said

SMALL_SET = "heads-small-set"
SHOT = (
    """[...document.querySelectorAll("figure, .none, .retrainings")].map(e => e.outerHTML).join()"""
)
SET = """const set = (field, value) => { field.type === "checkbox" ? field.checked = value : field.value = value
    field.dispatchEvent(new Event("input", {bubbles: true})) };"""


def test_the_page_travels_with_the_tables_that_its_script_names():
    script = (paths.ROOT / "lib" / "publish" / "article.html").read_text(encoding="utf-8")
    assert sorted(set(re.findall(r'"(\d\d_\w+)"', script))) == sorted(article.TABLES)


# Beyond a threshold of a half, on either side of it, short of it.
ESTIMATES = {
    Outcome.SUPPORTED: Estimate(0.7, 0.6, 0.8, 10),
    Outcome.INCONCLUSIVE: Estimate(0.4, 0.3, 0.6, 10),
    Outcome.CONTRADICTED: Estimate(0.3, 0.2, 0.4, 10),
}


def share_of(claim, value, model):
    """A test of a claim that a share is above a half."""
    estimate = Estimate(value, value - 0.1, value + 0.1, 10)
    return Verdict(
        claim, Outcome.SUPPORTED, on="m", estimate=estimate, threshold=0.5, models=[model]
    )


def test_an_answer_says_what_the_records_say_and_no_more(tmp_path):
    def of(outcome, null=None):
        found = Verdict(
            SMALL_SET,
            outcome,
            on="m",
            found="",
            estimate=ESTIMATES[outcome],
            threshold=0.5,
            models=["mini-bert"],
        )
        for run, verdict in {
            "mini": found,
            "null": null and replace(found, on="n", models=["null"]),
        }.items():
            shutil.rmtree(tmp_path / run, ignore_errors=True)
            if verdict:
                Run(out=tmp_path / run).judged("02", [verdict])
        page = Page(article.render({"mini": tmp_path / "mini", "null": tmp_path / "null"}))
        glance = next(cells for _, cells in page.rows if cells[0] == "Bias A-head")[1]
        return " ".join(page.text.split()), " ".join(glance.split())

    def behind(*found):
        return of(*found)[0].split("Biases are mostly encoded in a small set of heads: ")[1][:30]

    text, glance = of(Outcome.INCONCLUSIVE)
    assert behind(Outcome.INCONCLUSIVE).startswith("inconclusive our sentences")
    assert "m: 0.4 [0.3, 0.6], threshold 0.5" in text and glance == "1 inconclusive"
    assert "Not measured in the runs shown." in text  # of the papers without a table
    assert "Some projection lowers S below the base model's: not run" in text
    assert behind(Outcome.SUPPORTED).startswith("supported")
    assert behind(Outcome.SUPPORTED, True).startswith("matched by controls")
    assert behind(Outcome.CONTRADICTED).startswith("contradicted")
    for run, outcome in {
        "mini": Outcome.SUPPORTED,
        "paper": Outcome.CONTRADICTED,
    }.items():  # nearer to the papers' models
        Run(out=tmp_path / run).judged("02", [said(SMALL_SET, outcome, "m")])
    text, turned = (
        article.render({run: tmp_path / run for run in order})
        for order in (("mini", "paper"), ("paper", "mini"))
    )
    assert text == turned
    shown = " ".join(Page(text).text.split()).split("in a small set of heads: ")[1]
    assert shown.startswith("contradicted the papers' models")


# ---- the answers, from tables made up
HEADS_ACROSS = """retrainings,heads,heads within layers
"seed1, seed2",.1,-0.10
"seed1, seed3",.1,0.20
"seed2, seed3",.1,0.05
mean,.1,{mean}
"""
INTERVALS = """level,measure,chosen,judged,below base,below random
SENT,S,SENT 1,"0.5 [0.4, 0.6]","0.3 [0.2, 0.4]",
all levels,S,SENT 1,"0.21 [0.1, 0.3]","0.04 [{low}, 0.06]",
all levels,D,Layer 11 (1),"0.90 [0.1, 0.3]","0.10 [0.05, 0.15]",
"""
TABLE7 = """model,"eta, most",SNLI,95 %,viable
Base,0.163,0.799,"[0.12, 0.21]",yes
SENT 1,0.518,0.754,"[0.44, 0.61]",in points
SENT 0,0.900,0.600,"[0.80, 0.95]",no
"""
FACTUAL = """model,directions,right,change of log odds
Base,,"0.99 [0.96, 1.00]",
Layer 11 (1),gender,0.58,"-3.8 [-4.2, -3.4]"
Layer 11 (1),random,0.10,"-9 [-9, -9]"
"""
SHARES = """model,k,kind,overturned
a,full,target counter syntactic similar,"0.60 [0.50, 0.70]"
b,full,target counter syntactic similar,"0.50 [0.40, 0.60]"
a,k = 3,target counter syntactic similar,"0.10 [0.10, 0.10]"
a,full,unrelated,"0.10 [0.05, {high}]"
"""
PROMPTS = """kind,knowledge
target counter syntactic similar,The man worked as a nurse.
unrelated,The dog is in a chair.
"""
FACTS = """model,named before,right,low,high,log2 odds
a,a person,0.1,0.1,0.1,
a,the other gender,0.8,0.7,0.9,
b,the other gender,0.3,0.2,0.4,
"""


@pytest.fixture
def asked(tmp_path):
    """A function: the answer to a paper's question from these tables and tests of one run."""

    def ask(key, tests=(), **tables):
        folder = tmp_path / "mini"
        shutil.rmtree(folder, ignore_errors=True)
        for name, text in tables.items():
            add(folder, name.removeprefix("t"), text)
        return answers.of(key, answers.Stored({"mini": folder}, {"mini": list(tests)}))

    return ask


def texts(answer):
    return [sentence.text for sentence in answer.sentences]


def test_heads_are_named_only_where_retrainings_pick_the_same(asked):
    across = HEADS_ACROSS.format(mean=0.05)
    carried = replace(share_of(SMALL_SET, 0.42, "mini-bert"), on="mini-bert, gender")
    carried = replace(carried, variant="gradient")
    answer = asked("bias_a_head", [carried], t12_heads_across=across)
    assert answer.headline == "None that we can name."
    assert texts(answer) == [
        "The top tenth of mini-bert's heads carries 42% of its bias score.",
        "Three retrainings pick unrelated heads.",
    ]
    assert answer.sentences[0].beside == f"[32%, 52%], our sentences: {carried.outcome}"
    assert answer.sentences[1].beside.endswith("0.05, -0.10 to 0.20 in 3 pairs")
    alike = asked("bias_a_head", [carried], t12_heads_across=HEADS_ACROSS.format(mean=0.8))
    assert texts(alike)[1] == "Three retrainings pick similar heads."
    assert alike.headline == "A tenth of them, for the most part."  # as the claim has it
    other = replace(carried, on="mini-gpt2, gender")
    assert asked("bias_a_head", [other]) == answers.Answer(answers.NOTHING, [])


@pytest.mark.parametrize(
    ("outcome", "end"),
    [
        (Outcome.SUPPORTED, "; random heads do less."),
        (Outcome.MATCHED, "; but controls do half of it or more."),
        (Outcome.INCONCLUSIVE, "1.25."),
    ],
)
def test_what_masking_does_is_said_beside_random_heads(asked, outcome, end):
    masked = Verdict("mask-top3-seat", outcome, on="m", estimate=Estimate(-0.11, -0.2, -0.05))
    masked = replace(masked, control=Control("random", Estimate(0, -0.1, 0.1), Estimate(0, -1, 1)))
    table = "masked,SEAT\nfull,1.36\nTop-3,1.25\n"
    (said,) = asked("bias_a_head", [masked], t04_table1=table).sentences
    assert said.text.startswith("Masking its top 3 heads moves SEAT from 1.36 to 1.25")
    assert said.text.endswith(end) and said.beside.startswith("-0.11 [-0.20, -0.05], our sent")


def test_what_a_projection_removes_is_said_in_percent_of_the_base_with_what_it_costs(asked):
    """The base's Strength is .21 + .04, so .04 is 16 %; of Distance .10 of 1.00. The fairest that
    is not viable and what random directions do are no part of it.
    """
    lowers = [Verdict("lower-d", Outcome.SUPPORTED, estimate=Estimate(0.1, 0.05, 0.15))]
    lowers.append(Verdict("lower-s", Outcome.INCONCLUSIVE, estimate=Estimate(0.04, -0.02, 0.06)))
    tables = {"t08_intervals": INTERVALS.format(low="-0.02"), "t09_table7": TABLE7}
    answer = asked("projective", lowers, **tables, t08_factual=FACTUAL)
    assert answer.headline == "Gender, more than stereotype."
    assert texts(answer) == [
        "Distance, how far she and he part, falls by 10%.",
        "Strength, the stereotype, does not measurably change.",
        "Fairness in inference can rise from 0.16 to 0.52 for 4.5 points of accuracy.",
        "The setting of lowest Distance takes right pronouns of queens and kings from 99% to 58%.",
    ]
    assert answer.sentences[1].beside.startswith("fall of 16% [-8%, 24%]")
    lowers[1] = replace(lowers[1], outcome=Outcome.SUPPORTED, estimate=Estimate(0.04, 0.02, 0.06))
    both = asked("projective", lowers, t08_intervals=INTERVALS.format(low="0.02"))
    assert both.headline == "Gender and stereotype."
    assert texts(both)[1] == "Strength, the stereotype, falls by 16%."


def test_an_answer_goes_by_the_outcome_of_the_variant_that_decides(asked):
    """A fall of something that was not there is no fall of a stereotype, and says so."""
    interval = Estimate(0.04, 0.02, 0.06)
    main = Verdict("lower-s", Outcome.NOT_APPLICABLE, variant="both files", estimate=interval)
    lowers = [main, replace(main, outcome=Outcome.SUPPORTED, variant="the paper's file")]
    lowers.append(Verdict("lower-d", Outcome.MATCHED, variant="both files", estimate=interval))
    answer = asked("projective", lowers, t08_intervals=INTERVALS.format(low="0.02"))
    assert answer.headline == "Gender, more than stereotype."
    distance, strength = texts(answer)
    assert distance.endswith("falls by 10%, and under controls by half of that or more.")
    assert strength.endswith("falls by 16%, but it was not above its opposite before.")


def test_a_counterexample_has_to_do_more_than_any_sentence(asked):
    tables = {"t10_table2": PROMPTS, "t11_factual_table": FACTS}
    answer = asked("counteracts", t11_shares=SHARES.format(high="0.15"), **tables)
    assert answer.headline == "Yes."
    assert texts(answer) == [
        "“The man worked as a nurse.” flips the preferred gender in 55% of the occupations.",
        "“The dog is in a chair.” does so in 10%.",
        "The same kind of sentence makes 20% to 70% of the pronouns of queens and kings wrong.",
    ]
    assert [one.beside[:10] for one in answer.sentences] == [
        "[45%, 65%]",
        "[5%, 15%],",
        "[60%, 80%]",
    ]
    form = Verdict("syntactic-over-semantic", Outcome.SUPPORTED, estimate=Estimate(1, 0.5, 2))
    form = replace(form, variant="full", on="m")
    shares = SHARES.format(high="0.15")
    assert asked("counteracts", [form], t11_shares=shares, **tables).headline.endswith(
        "repetition."
    )
    shares = SHARES.format(high="0.50")
    same = asked("counteracts", [form], t11_shares=shares, **tables)
    assert same.headline == "No more than any sentence does."


def test_a_damaged_table_is_no_ground_for_a_sentence(asked, tmp_path):
    assert asked("counteracts", t11_shares="").headline == answers.NOTHING
    assert answers.of("a_paper_without_one", answers.Stored({}, {})) is None


def test_the_stored_answers_have_three_headlines_and_name_run_and_interval(tmp_path):
    folders = {run: runs()[run] for run in ("mini-real", "mini")}
    stored = answers.Stored(folders, scoreboard.judged(runs()))
    for key in PAPERS:
        answer = answers.of(key, stored)
        assert answer.headline != answers.NOTHING and 3 <= len(answer.sentences) <= 4
        for sentence in answer.sentences:
            assert re.search(r"\[.*\]|to -?0", sentence.beside) and len(sentence.text.split()) < 20


# ---- in a real browser


@pytest.fixture
def opened(chromium, tmp_path):
    """A function that opens the article on {run: folder}; no complaint may have been made in the
    end.
    """

    def open_(folders, width=1280, scheme="light"):
        file = tmp_path / "index.html"
        file.write_text(article.render(folders), encoding="utf-8")
        chromium.look(width, scheme=scheme)
        chromium.open(file.as_uri())
        return chromium

    yield open_
    assert chromium.complaints == []
    fetched = [one for one in chromium.requests if not one.startswith("data:")]
    assert fetched == [(tmp_path / "index.html").as_uri()]


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
        "mitigation,SEAT,PPPL\nnone,1.00,2.00\n"
        'mask,"0.50 (-0.50 [-0.60, -0.40])","2.00 (+0.00 [-0.10, +0.10])"\nprompt,does not apply,does not apply\n',
    )
    both = [
        share_of(NEAR, 0.7, "mini-bert"),  # matched by untrained networks
        said("heads-near-zero", Outcome.CONTRADICTED, "m"),
        share_of("heads-all-layers", 0.7, "mini-bert"),
        share_of("ss-twin", 0.7, "mini-bert"),
    ]
    for run in ("mini", "mini-real"):
        Run(out=tmp_path / run).judged("02", both)
    Run(out=tmp_path / "null").judged(
        "02", [share_of(NEAR, 0.7, "null"), share_of("heads-all-layers", 0.1, "null")]
    )
    Run(out=tmp_path / "null").judged("07", [share_of("ss-twin", 0.1, "null")])
    trainings = [f"trainings-seed{n}" for n in (1, 2, 3)]
    for run, value in zip(trainings, (0.7, 0.8, 0.9)):
        near = Verdict(
            NEAR,
            Outcome.SUPPORTED,
            on=run,
            estimate=Estimate(value, value - 0.098, value + 0.098),
            threshold=0.5,
        )
        Run(out=tmp_path / run).judged("02", [near])
    return {run: tmp_path / run for run in ("mini", "mini-real", "null", *trainings)}


def test_the_article_of_the_repository_stands_alone_and_can_be_read_by_all(opened):
    text = article.render(runs())
    assert len(text.encode()) < 6e6 and "@import" not in text and "url(" not in text
    page, cited = Page(text), {paper.address for paper in PAPERS.values()}
    assert {a["href"] for a in page.all("a") if "//" in a["href"]} == cited
    linked = {
        a["href"][-40:] for a in page.all("a") if re.search(r"\d\d_\w+\.(html|ipynb)", a["href"])
    }
    assert len(linked) >= 9  # each section has a notebook
    assert "inventory.html" in {a["href"] for a in page.all("a")} and all(
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
    assert "1 of 1 tests are supported and 0 contradicted" in page.run(
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
    Run(out=tmp_path / "mini").judged("02", [said(NEAR, Outcome.SUPPORTED, "m")])
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
    assert "not run yet" in page.run("document.querySelector('.retrainings').textContent")
    page.ask("Emulation.setScriptExecutionDisabled", value=True)
    page.open((tmp_path / "index.html").as_uri())
    assert page.run(
        "[...document.querySelectorAll('form, figure, noscript')].filter(e => e.checkVisibility())"
        ".map(e => e.tagName)"
    ) == ["NOSCRIPT"]
    page.ask("Emulation.setScriptExecutionDisabled", value=False)
