"""The board: cells, counts and controls of made-up runs; what is stored adds up; today's claims
judge it.
"""

import re
from dataclasses import replace as changed

import pytest

from lib import results, verdict
from lib.engine.stats import Estimate
from lib.publish import cells, papers, records, scoreboard
from lib.publish.cells import KINDS
from lib.publish.papers import CLAIMS, PAPERS
from lib.publish.scoreboard import NO_CONTROL
from lib.run import Run
from lib.verdict import MATCHED, NOT_TESTABLE, Control, Outcome, Verdict
from tests.tiny import refusal

SUPPORTED, CONTRADICTED, INCONCLUSIVE, NOT_APPLICABLE, NOT_RUN = Outcome
NEAR, LAYERS, ORDER = "heads-near-zero", "heads-all-layers", "seat-order"  # of notebook 02


def said(claim, outcome, on="mini-bert", reason="", models=()):
    """A verdict without an estimate, which nothing can judge again."""
    return Verdict(claim, outcome, on=on, found="1 of 2", reason=reason, models=list(models))


@pytest.fixture
def folder(tmp_path):
    """A function that stores a run: its verdicts of notebook 02."""

    def store(run, *verdicts):
        made = Run(out=tmp_path / run)
        made.judged("02", verdicts)
        return made.out

    return store


# ---- what is stored
def test_every_claim_has_a_notebook_and_a_figure_or_a_reason():
    assert list(dict.fromkeys(claim.paper for claim in CLAIMS.values())) == list(PAPERS)
    for claim in CLAIMS.values():
        assert bool(claim.not_testable) == (not claim.notebook) == (not claim.figure), claim.id
        assert claim.figure[:2] == claim.notebook, claim.id


def test_every_testable_claim_is_tested_in_the_stored_run():
    tested = {one.claim for one in records.verdicts()["mini"]}
    assert tested == {claim.id for claim in CLAIMS.values() if not claim.not_testable}


def test_the_board_has_every_claim_and_every_run_that_decides_something():
    table = scoreboard.board()
    stored = [run for run in results.runs() if not records.control_of(run)]
    assert len(table) == len(CLAIMS)
    assert [run for run in stored if run not in table] == ["mini-smollm2-135m-instruct"]
    for run in set(stored) & set(table):
        assert set(cells.kinds(table[run])) <= set(map(str, KINDS))


def test_todays_claims_give_every_stored_verdict_the_outcome_that_its_notebook_gave():
    """Until a threshold is edited: then runs follow, and their notebooks are run again in time."""
    for run, folder in results.runs().items():
        is_control = bool(records.control_of(run))
        files = [*folder.glob("claims/*.json"), *folder.glob("draws/*/claims/*.json")]
        for file in files:
            for one in verdict.read(file):
                if one.claim in CLAIMS:
                    assert records.rejudged(CLAIMS[one.claim], one, is_control) == one, (run, one)


# ---- judged again
def test_an_edited_threshold_changes_a_stored_verdict():
    kept = Verdict(NEAR, SUPPORTED, estimate=Estimate(0.7, 0.6, 0.8), threshold=0.5)
    stricter = changed(CLAIMS[NEAR], threshold=0.9)
    found = records.rejudged(stricter, kept)
    assert (found.outcome, found.threshold) == (CONTRADICTED, 0.9)


def test_a_threshold_from_the_data_stays():
    claim = changed(CLAIMS[NEAR], threshold_from_data=True)
    kept = Verdict(NEAR, SUPPORTED, estimate=Estimate(12, 12, 12), threshold=12.0)
    assert records.rejudged(changed(claim, threshold=99.0), kept).threshold == 12.0


def test_a_count_under_an_older_threshold_is_flagged():
    kept = Verdict(NEAR, SUPPORTED, estimate=Estimate(3.0), threshold=2.0, samples_met=0.99)
    found = records.rejudged(changed(CLAIMS[NEAR], threshold=3.0), kept)
    assert found.outcome == SUPPORTED and found.remark == records.OLDER_THRESHOLD


def test_preconditions_that_were_not_met_still_are_not_unless_it_is_a_control():
    kept = Verdict(
        NEAR,
        NOT_APPLICABLE,
        reason="gender is not significant",
        estimate=Estimate(0.7, 0.6, 0.8),
        threshold=0.5,
        preconditions={"SEAT of gender": False},
    )
    assert records.rejudged(CLAIMS[NEAR], kept) == kept
    assert records.rejudged(CLAIMS[NEAR], kept, is_control=True).outcome == SUPPORTED


def test_a_claim_that_no_paper_has_is_named(folder):
    said_of = {"mini": folder("mini", said("pigs-fly", SUPPORTED))}
    assert "'pigs-fly'" in refusal(scoreboard.board, said_of)


# ---- cells and counts
@pytest.mark.parametrize(
    "outcomes, text, kind",
    [
        ([SUPPORTED], "supported", SUPPORTED),
        ([SUPPORTED, CONTRADICTED, NOT_APPLICABLE], "mixed (1 of 3)", "mixed"),
        ([], "not run", NOT_RUN),
    ],
)
def test_one_cell_of_several_verdicts(outcomes, text, kind):
    tests = [said(NEAR, outcome) for outcome in outcomes]
    cell = cells.Cell.of(CLAIMS[NEAR], tests)
    assert (str(cell), cell.kind) == (text, kind)
    assert cell.reason == text.removeprefix(kind).strip(" ()")
    matched = cells.Cell.of(CLAIMS[NEAR], tests, is_matched=True)
    if SUPPORTED in outcomes:
        assert (str(matched), matched.kind) == (f"{text}, {MATCHED}", MATCHED)
    else:  # there is nothing that a control could match
        assert (str(matched), matched.kind) == (text, kind)


def test_runs_stand_side_by_side(folder):
    folders = {
        "mini": folder(
            "mini",
            said(ORDER, SUPPORTED),
            said(NEAR, SUPPORTED),
            said(NEAR, CONTRADICTED, "mini-gpt2"),
            said(LAYERS, CONTRADICTED),
        ),
        "paper": folder("paper", said(NEAR, SUPPORTED)),
        "none": folder("none", said(NEAR, NOT_RUN, reason="why")),
    }
    board = scoreboard.board(folders).set_index("id")
    assert "none" not in board and len(board) == len(CLAIMS)
    assert board.loc[[NEAR, LAYERS, "fast"], ["mini", "paper"]].to_numpy().tolist() == [
        ["mixed (1 of 2)", "supported"],
        ["contradicted", "not run"],
        [NOT_TESTABLE, NOT_TESTABLE],
    ]
    rows = scoreboard.evidence(folders)
    assert [NEAR, "mini", "mini-bert", "1 of 2", "supported"] in rows.iloc[
        :, :5
    ].to_numpy().tolist()
    order = sorted([ORDER, NEAR, NEAR, LAYERS], key=lambda id: not CLAIMS[id].short)
    assert rows["id"].tolist() == [*order, NEAR, NEAR]  # what its own table leaves out comes last


def test_claims_are_counted_by_paper_and_run(folder):
    one = [said(NEAR, SUPPORTED), said(LAYERS, CONTRADICTED), said(ORDER, INCONCLUSIVE)]
    other = [said(NEAR, SUPPORTED), said(NEAR, CONTRADICTED), said(LAYERS, NOT_APPLICABLE)]
    folders = {"mini": folder("mini", *one), "paper": folder("paper", *other)}
    lines = []
    for line in scoreboard.summary(folders).splitlines():
        lines.append([cell.strip() for cell in line.strip("|").split("|")])
    ours = sum(claim.paper == "bias_a_head" for claim in CLAIMS.values())
    assert lines[2] == [
        "*Bias A-head*",
        str(ours),
        f"1 supported, 1 contradicted, 1 inconclusive, {ours - 3} not run",
        f"1 mixed, 1 not applicable, {ours - 2} not run",
    ]
    assert lines[4][2:] == ["not run", "not run"] and lines[5][1] == str(len(CLAIMS))


def test_what_stands_behind_a_verdict(folder):
    control = Control("random heads", Estimate(0.1), Estimate(0.4, 0.2, 0.6))
    by_interval = Verdict(
        NEAR,
        SUPPORTED,
        "m",
        "70 %",
        estimate=Estimate(0.7, 0.6, 0.8),
        threshold=0.5,
        control=control,
        preconditions={"SEAT": True},
    )
    by_count = Verdict(
        NEAR,
        NOT_APPLICABLE,
        "n",
        "3 of 4",
        reason="b is not there",
        estimate=Estimate(3),
        threshold=0.5,
        samples_met=0.981,
        preconditions={"a": True, "b": False},
    )
    rows = scoreboard.evidence({"mini": folder("mini", by_interval, by_count)})
    columns = ["interval", "preconditions", "control", "controls"]
    none = "; ".join(f"{name}: {NO_CONTROL}" for name in CLAIMS[NEAR].controls)
    assert rows[columns].to_numpy().tolist() == [
        ["0.7 [0.6, 0.8]", "SEAT met", "random heads 0.1, difference 0.4 [0.2, 0.6]", none],
        ["met in 98.1% of samples", "a met, b not met", "", none],
    ]


# ---- controls
@pytest.fixture
def controlled(folder, monkeypatch):
    """A function that stores mini, which supports NEAR and contradicts LAYERS, with draws of
    untrained networks, which can test both, and a gender-swapped model, which can test NEAR. Gives
    what the board says of NEAR and LAYERS.
    """
    both = changed(CLAIMS[NEAR], controls=("null", "balanced"))
    monkeypatch.setitem(CLAIMS, NEAR, both)
    monkeypatch.setitem(CLAIMS, LAYERS, changed(CLAIMS[LAYERS], controls=("null",)))

    def board(draws=(), swapped=(), null="null"):
        folders = {"mini": folder("mini", said(NEAR, SUPPORTED), said(LAYERS, CONTRADICTED))}
        for k, outcomes in enumerate(draws):
            tests = [said(NEAR, SUPPORTED, models=["mini-gpt2"])]  # not of the control itself
            for outcome in outcomes:
                tests += [said(claim, outcome, models=[f"null@{k}"]) for claim in (NEAR, LAYERS)]
            place = folder(f"{null}/draws/{k}" if k else null, *tests)
            folders.setdefault(null, place)
        if swapped:
            folders["balanced"] = folder("balanced", *swapped)
        table = scoreboard.board(folders).set_index("id")
        assert null not in table and "balanced" not in table
        return table.loc[[NEAR, LAYERS], ["mini", "controls"]].to_numpy().tolist()

    return board


def test_a_control_that_was_not_run_is_said(controlled):
    assert controlled() == [
        ["supported", f"null: {NO_CONTROL}; balanced: {NO_CONTROL}"],
        ["contradicted", f"null: {NO_CONTROL}"],
    ]


def test_only_applicable_tests_of_the_control_itself_count(controlled):
    draws = [[SUPPORTED, CONTRADICTED], [SUPPORTED, NOT_APPLICABLE]]
    assert controlled(draws, null="null-real")[1][1] == f"{MATCHED}; null: 2 of 3 support it"


def test_one_test_of_the_gender_swapped_model_matches_a_claim(controlled):
    ours = said(NEAR, SUPPORTED, "balanced, gender", models=["models/balanced"])
    race = said(NEAR, SUPPORTED, "balanced, race", models=["balanced"])
    other = said(NEAR, SUPPORTED, "mini-gpt2, gender", models=["mini-gpt2"])
    assert controlled([[CONTRADICTED]], [ours, race, other])[0] == [
        f"supported, {MATCHED}",
        f"{MATCHED}; null: 0 of 1 support it; balanced: 1 of 1 support it",
    ]
    inconclusive_one = said(NEAR, INCONCLUSIVE, models=["balanced"])
    assert controlled([[CONTRADICTED]], [inconclusive_one, race, other])[0] == [
        "supported",
        "null: 0 of 1 support it; balanced: 0 of 1 support it",
    ]


@pytest.mark.parametrize(
    "supported, n, is_matched",
    [
        (0, 1, False),
        (1, 1, True),
        (0, 10, False),
        (1, 10, False),
        (2, 10, True),
        (10, 10, True),
        (2, 20, False),
        (3, 20, True),
    ],
)
def test_untrained_networks_may_support_a_claim_as_often_as_chance_has_it(
    controlled, supported, n, is_matched
):
    """95 % of binomials of 10 and .025 are at most 1, of 20 at most 2."""
    draws = [[SUPPORTED if k < supported else INCONCLUSIVE] for k in range(n)]
    near, layers = controlled(draws)
    opening = f"{MATCHED}; " if is_matched else ""
    assert near == [
        f"supported, {MATCHED}" if is_matched else "supported",
        f"{opening}null: {supported} of {n} support it; balanced: {NO_CONTROL}",
    ]
    assert layers == ["contradicted", f"{opening}null: {supported} of {n} support it"]


def test_controls_are_no_column_but_stand_in_the_evidence(folder):
    null = [said(NEAR, SUPPORTED, models=["null"]), said(ORDER, CONTRADICTED, models=["null"])]
    folders = {
        "mini": folder("mini", said(NEAR, SUPPORTED), said(ORDER, SUPPORTED)),
        "null": folder("null", *null),
    }
    counts = scoreboard.summary(folders)
    assert re.search(rf"\| 1 supported, 1 {MATCHED}, \d+ not run \|", counts)
    assert "`null`" not in counts
    assert set(scoreboard.evidence(folders)["run"]) == {"mini", "null"}


@pytest.mark.parametrize(
    "control, names",
    [
        ("null", "null null-real mini-null mini-null-3-1a2b3c"),
        ("balanced", "balanced mini-real-balanced"),
        ("", "mini mini-real mini-nullable paper"),
    ],
)
def test_which_runs_are_controls(control, names):
    assert {records.control_of(run) for run in names.split()} == {control}


def test_readers_see_what_a_run_is():
    assert papers.run_name("mini") == "our sentences"
    assert papers.run_name("null") == "untrained control"
    assert papers.run_name("trainings-seed3") == "retraining 3"
    assert papers.run_name("mini-roberta-base") == "mini-roberta-base"
