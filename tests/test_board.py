"""The board for readers: sorted, with sizes, what controls show, and published models where
stored.
"""

import re

import pytest

from lib.engine.stats import Estimate
from lib.publish import board, headlines, scoreboard
from lib.publish.cells import in_paper
from lib.publish.papers import CLAIMS, PAPERS
from lib.run import Run
from lib.verdict import NOT_TESTABLE, Control, Outcome, Verdict

SMALL, SEAT, COST = "heads-small-set", "mask-top3-seat", "mask-top3-pppl"


@pytest.fixture
def folders(tmp_path):
    """A function that stores a run: its verdicts."""

    def store(**runs):
        found = {}
        for name, tests in runs.items():
            made = Run(out=tmp_path / name)
            for notebook in {CLAIMS[one.claim].notebook for one in tests}:
                mine = [one for one in tests if CLAIMS[one.claim].notebook == notebook]
                made.judged(notebook, mine)
            found[name.replace("_", "-")] = made.out
        return found

    return store


def test_of(claim, *ends, **fields):
    fields = {"models": ["mini-bert"], "on": "mini-bert"} | fields
    return Verdict(claim, Outcome.SUPPORTED, estimate=Estimate(*ends, n=9), **fields)


test_of.__test__ = False

RANDOM = Control("random heads", Estimate(-0.05, -0.06, -0.04), Estimate(-0.15, -0.2, -0.1))
TESTS = [
    test_of(SMALL, 0.4, 0.3, 0.45, variant="gradient"),
    test_of(SEAT, -0.2, -0.3, -0.1, control=RANDOM),
    test_of(COST, 5490, 3770, 7710),
]


def test_claims_are_sorted_by_paper_and_by_what_they_came_to(folders):
    rows = board.table(folders(mini=TESTS))
    assert len(rows) == len(CLAIMS)
    assert list(dict.fromkeys(rows["paper"])) == [paper.title for paper in PAPERS.values()]
    first = rows.head(4)
    assert first["kind"].tolist() == ["supported", "contradicted", "contradicted", NOT_TESTABLE]
    assert first["id"].tolist()[0] == SEAT
    of_last = rows.loc[rows["paper"] == rows["paper"].iloc[-1], "kind"]
    assert of_last.tolist() == [NOT_TESTABLE] * 2 + ["not run"] * (len(of_last) - 2)


def test_size_controls_and_runs_are_told(folders):
    rows = board.table(folders(mini=TESTS[:2], mini_real=TESTS[1:])).set_index("id")
    told = rows.loc[SEAT]
    assert told["size"] == "-0.2 [-0.3, -0.1]"
    assert told["controls"].startswith("random heads: 25 %; untrained networks: control not run")
    assert (told["on"], told["other"]) == ("mini-bert, our sentences", "supported")
    cost = rows.loc[COST]  # one run alone tests it
    assert (cost["size"], cost["controls"]) == ("5,490 [3,770, 7,710]", "none is asked")
    assert (cost["on"], cost["other"]) == ("mini-bert, the papers' data", "not run")
    assert rows.loc[SMALL, "other"] == "not run"


def test_a_run_that_could_test_nothing_has_a_board_too(folders):
    not_run = [
        Verdict(claim, Outcome.NOT_RUN, on="m", reason="no heads") for claim in (SMALL, SEAT)
    ]
    of_one = folders(mini=not_run)
    assert set(board.table(of_one)["kind"]) == {"not run", NOT_TESTABLE}
    assert headlines.as_markdown(of_one) and scoreboard.summary(of_one) and board.page(of_one)


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ("0.26 [0.21, 0.31] points", ("0.26 [0.21, 0.31] points", "")),
        ("37 of 37", ("37", "37 of 37")),
        ("k = 3 supported; k = 5 contradicted; full 0.4 [0.3, 0.5]",
         ("0.4 [0.3, 0.5]", "k = 3 supported; k = 5 contradicted")),
    ],
)  # fmt: skip
def test_a_number_with_its_unit_comes_first(found, told):
    assert board.told_first(found, "37") == told


def test_a_figure_of_a_paper_is_named_in_full():
    assert in_paper("4a mini-bert gender") == "Fig. 4a, mini-bert gender"
    assert in_paper("inconclusive on n13 mini-gpt2 race") == (
        "inconclusive on footnote 13, mini-gpt2 race"
    )
    assert in_paper("mini-bert, gender") == "mini-bert, gender"


def test_published_models_have_a_column_where_they_are_stored(folders):
    rows = board.table(folders(mini=TESTS))
    assert "published" not in board.columns_told(rows)
    rows = board.table(folders(mini=TESTS, published=TESTS[:1]))
    assert "Tests on published models" in board.for_notebook(rows)
    assert rows.set_index("id").loc[SMALL, "published"] == "1 contradicted"


def test_the_page_escapes_and_links_pictures_that_are_there(folders, monkeypatch):
    found = '<b>"a"</b>'
    tests = [test_of(SEAT, -0.2, -0.3, -0.1, found=found)]
    figure = f"mini.{CLAIMS[SEAT].figure}"
    page = board.page(folders(mini=tests), frozenset([figure]))
    assert found not in page and "&lt;b&gt;" in page
    assert f'href="inventory.html#{figure}"' in page
    assert len(re.findall('<tr id="', page)) == len(CLAIMS)
    assert "inventory.html#" not in board.page(folders(mini=tests))
    assert "1 supported" in page


def test_claims_of_this_project_are_marked_and_counted_apart(folders):
    rows = board.table(folders(mini=TESTS)).set_index("id")
    twin = rows.loc["ss-twin", "claim"]
    assert twin == f"{CLAIMS['ss-twin'].says} (this project's claim)"
    assert rows.loc[SEAT, "claim"] == CLAIMS[SEAT].says
    of_papers = {"id": SEAT, "kind": "supported"}
    ours = {"id": "ss-twin", "kind": "not run"}
    assert board.counted([of_papers, ours]) == (
        "1 claims: 1 supported; beside them 1 of this project: 1 not run"
    )
