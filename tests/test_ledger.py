"""The ledger on made-up rows: how control runs join, marks, what claims come to, trainings."""

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from companion import claims, ledger
from companion.claims import Beside, Outcome, Test, outcome
from lib.engine import folders
from lib.engine.stats import Estimate
from tests.tiny import keep_tests, refusal

SMALL, TAIL, COST, TWIN = "heads-small-set", "heads-right-tail", "mask-top3-pppl", "ss-twin"
HIGH, LOW, WIDE = (0.7, 0.6, 0.8), (0.3, 0.2, 0.4), (0.5, 0.3, 0.7)


def small(*ends, model="mini-bert", bias="gender", variant="gradient", **fields) -> Test:
    """A test of whether a share is above a half."""
    return Test(SMALL, Estimate(*ends, n=10), model, bias=bias, variant=variant, **fields)


@pytest.fixture
def table(tmp_path):
    """A function: the ledger of {run: tests}; null__1 is another draw of null."""

    def made(**runs):
        folders = {}
        place_of_runs = Path(tempfile.mkdtemp(dir=tmp_path))
        for name, tests in runs.items():
            run, _, draw = name.replace("_real", "-real").replace("_seed", "-seed").partition("__")
            folder = folders.setdefault(run, place_of_runs / run)
            keep_tests(folder / "draws" / draw if draw else folder, *tests)
        return ledger.table(folders)

    return made


def only(rows, run="mini", **fields):
    """The one row of a run."""
    rows = rows[rows["run"] == run]
    for name, value in fields.items():
        rows = rows[rows[name] == value]
    (row,) = rows.to_dict("records")
    return row


def shown(row, name="untrained networks") -> Beside:
    (one,) = [one for one in row["controls"] if one.name == name]
    return one


def test_a_test_is_held_against_the_mean_of_all_draws(table):
    draws = {f"null__{k}": [small(value, 0, 1, model="null")] for k, value in enumerate((0.1, 0.3))}
    row = only(table(mini=[small(*HIGH)], null=[small(0.2, 0, 1, model="null")], **draws))
    assert shown(row).estimate.value == pytest.approx(0.2)
    assert shown(row).estimate.n == 3
    assert row["outcome"] == "supported"
    assert shown(row, "the gender-swapped model").idle == "not run"
    as_much = [small(0.69, 0.5, 0.8, model="null")]
    assert only(table(mini=[small(*HIGH)], null=as_much))["outcome"] == "undecided"


def test_controls_join_by_bias_family_and_variant(table):
    other = [
        small(0.1, 0, 0.2, model="null"),
        small(0.4, 0.3, 0.5, model="null", variant="ablation"),
        small(0.3, 0.2, 0.4, model="null", bias="race"),
        small(0.2, 0.1, 0.3, model="null-gpt2"),
    ]
    mine = [
        small(*HIGH),
        small(*HIGH, variant="ablation"),
        small(*HIGH, variant="ablation, on few"),  # refines the one that there is
        small(*HIGH, variant="new"),  # of any
        small(*HIGH, bias="race"),
        small(*HIGH, model="mini-gpt2"),
        small(*HIGH, model="mini-roberta"),  # no such network was run
    ]
    rows = table(mini=mine, null=other)
    found = [shown(row) for row in rows[rows["run"] == "mini"].to_dict("records")]
    values = [one.estimate.value for one in found[:6]]
    assert values == pytest.approx([0.1, 0.4, 0.4, 0.1, 0.3, 0.2])
    assert found[6].idle == "not run"


def test_a_new_control_is_a_line_of_controls_a_model_and_a_name_in_a_column(table, monkeypatch):
    claim = claims.claims()[SMALL]
    monkeypatch.setitem(ledger.CONTROLS, "shuffled", "a model of shuffled words")
    monkeypatch.setitem(folders.REGISTRY, "shuffled", folders.REGISTRY["balanced"])
    monkeypatch.setitem(
        claims.claims(), SMALL, replace(claim, controls=(*claim.controls, "shuffled"))
    )
    row = only(table(mini=[small(*HIGH)], shuffled=[small(0.1, 0, 0.2, model="shuffled")]))
    assert shown(row, "a model of shuffled words").estimate.value == pytest.approx(0.1)


def test_controls_are_of_the_same_data_where_there_are_any(table):
    runs = {"mini_real": [small(*HIGH)], "null": [small(0.1, 0, 0.2, model="null")]}
    assert shown(only(table(**runs), "mini-real")).estimate.value == pytest.approx(0.1)
    runs["null_real"] = [small(0.4, 0.3, 0.5, model="null")]
    assert shown(only(table(**runs), "mini-real")).estimate.value == pytest.approx(0.4)


def test_a_control_that_cannot_show_it_says_why(table):
    def idle(**runs):
        row = only(table(mini=[small(*HIGH)], **runs))
        return [one.idle for one in row["controls"]]

    unable = small(0.1, 0, 0.2, model="null", needs={"language": "PPPL"})
    assert idle(null=[unable])[0] == "cannot show it (language: not met)"
    same = {f"null__{k}": [small(0.1, 0.1, 0.1, model="null")] for k in (1, 2)}
    assert idle(null=[small(0.1, 0.1, 0.1, model="null")], **same)[0] == "the same in every draw"
    biased = small(0.1, 0, 0.2, model="balanced-seed1", needs={"SEAT of gender": ""})
    assert idle(balanced=[biased])[1] == "has the bias itself (SEAT of gender)"
    free = small(0.1, 0, 0.2, model="balanced-seed1", needs={"SEAT of gender": "p .9"})
    assert idle(balanced=[free])[1] == ""


def test_a_control_run_is_judged_whatever_is_not_there(table):
    rows = table(null=[small(*HIGH, model="null", needs={"SEAT of gender": "p .9"})])
    assert only(rows, "null")["outcome"] == "supported"
    rows = table(mini=[small(*HIGH, needs={"SEAT of gender": "p .9"})])
    assert only(rows)["outcome"] == "not tested"


@given(st.lists(st.sampled_from(list(Outcome)), min_size=1))
def test_decided_tests_decide_where_they_agree(outcomes):
    """However many are undecided or not tested beside them, and in whatever order."""
    found = ledger.combined(outcomes)
    decided = {one for one in outcomes if one in ledger.DECIDED}
    assert ({found} == decided) == (len(decided) == 1)
    assert (found == Outcome.NOT_TESTED) == (set(outcomes) == {Outcome.NOT_TESTED})
    assert ledger.combined([*outcomes[::-1], Outcome.UNDECIDED]) in (found, Outcome.UNDECIDED)


def test_the_papers_own_reading_decides(table):
    both = [small(*HIGH), small(*WIDE, model="mini-gpt2"), small(*LOW, variant="ablation")]
    cell = only(ledger.cells(table(mini=both)))
    assert (cell["outcome"], cell["variant"]) == ("supported", "gradient")
    assert cell["counts"] == {"supported": 1, "undecided": 1}


def test_marks_say_what_an_outcome_lacks(table):
    def marks(own, **runs):
        return only(ledger.cells(table(mini=own, **runs)))["marks"]

    null = [small(0.1, 0, 0.2, model="null")]
    again = {f"trainings_seed{k}": [small(*HIGH)] for k in range(3)}
    assert marks([small(*HIGH)]) == "†‡"  # no control ran, one training
    assert marks([small(*HIGH)], null=null) == "‡"
    assert marks([small(*HIGH)], null=null, **again) == ""
    assert marks([small(*HIGH), small(*LOW, variant="ablation")], null=null, **again) == "§"
    cost = Test(COST, Estimate(1.0, 0.9, 1.02), "mini-bert")
    assert marks([cost]) == "‡"  # meets no control
    assert marks([small(*WIDE)]) == ""


def test_over_trainings_the_mean_is_judged_and_another_training_is_wider(table):
    values = (0.93, 0.96, 0.99)
    runs = {
        f"trainings_seed{k}": [small(value, value - 0.1, value + 0.1)]
        for k, value in enumerate(values)
    }
    (row,) = ledger.trainings(table(**runs)).to_dict("records")
    mean, another = row["mean"], row["another"]
    assert mean.value == pytest.approx(0.96)
    assert another.low <= mean.low < mean.value <= mean.high <= another.high
    assert another.high <= claims.claims()[SMALL].high
    assert row["outcome"] == "supported"
    two = {run: runs[run] for run in list(runs)[:2]}
    assert ledger.trainings(table(**two)).empty  # too few say nothing of another


def test_shares_over_trainings_stay_shares(table):
    share = [Test("heads-near-zero", Estimate(0.99, 0.9, 1.0), "mini-bert") for _ in range(3)]
    runs = {f"trainings_seed{k}": [one] for k, one in enumerate(share)}
    (row,) = ledger.trainings(table(**runs)).to_dict("records")
    assert row["mean"].high <= 1.0 and row["another"].high <= 1.0


def test_the_board_tells_our_sentences_or_real_text_where_it_alone_can(table):
    twin = Test(TWIN, Estimate(*HIGH), "mini-bert", variant="both files")
    tests = table(
        mini=[small(*HIGH), Test(TWIN, untested="no triples", variant="both files")],
        mini_real=[small(*LOW), twin],
        published=[small(*HIGH, model="a"), small(*WIDE, model="b")],
        published_more=[small(*HIGH, model="a")],  # again, which counts once
    )
    board = ledger.board(tests).set_index("claim")
    own = board.loc[SMALL]
    assert (own["run"], own["outcome"], own["other"]) == ("mini", "supported", "contradicted")
    assert own["size"].value == 0.7 and own["over"] == ""
    assert own["published"] == {"supported": 1, "undecided": 1}
    assert (board.loc[TWIN, "run"], board.loc[TWIN, "outcome"]) == ("mini-real", "supported")
    assert board.loc["fast", "outcome"] == "not tested" and "benchmark" in board.loc["fast", "why"]


@given(*[st.floats(0.05, 0.95).map(lambda x: round(x, 3))] * 3, st.floats(-0.3, 0.3))
def test_as_much_data_as_is_said_decides_and_less_does_not(low, value, high, beyond):
    """Intervals shrink with the root of n, those of controls too."""
    low, value, high = sorted([low, value, high])
    beside = Beside("random heads", Estimate(0.5), Estimate(beyond, beyond - 0.2, beyond + 0.2))
    row = {"test": small(value, low, high), "controls": [beside], "claim": SMALL}

    def came_to(times):
        def narrower(one):
            ends = (one.value + (end - one.value) / times**0.5 for end in (one.low, one.high))
            return Estimate(one.value, *ends)

        control = replace(beside, difference=narrower(beside.difference))
        test = small(*narrower(row["test"].estimate))
        return outcome(claims.claims()[SMALL], test, [control])[0]

    times = ledger.needed(row | {"outcome": came_to(1)})
    if not np.isnan(times):
        assert came_to(1) == Outcome.UNDECIDED
        assert came_to(times * 1.001) in ledger.DECIDED
        assert came_to(max(1, times / 1.03)) == Outcome.UNDECIDED
    elif came_to(1) == Outcome.UNDECIDED:  # or by a hair: on an edge
        assert came_to(99) == Outcome.UNDECIDED or came_to(1 + 1e-4) in ledger.DECIDED


def test_an_unknown_claim_in_a_record_is_named(tmp_path):
    claims.write(tmp_path / "claims" / "02.json", [Test("no-claim")])
    said = refusal(ledger.table, {"mini": tmp_path})
    assert "figures/mini/claims tests 'no-claim'" in said
