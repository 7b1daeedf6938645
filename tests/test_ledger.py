"""The ledger on made-up rows: how control runs join, marks, what claims come to, trainings."""

import tempfile
from pathlib import Path

import numpy as np
import pytest

from companion import claims, ledger
from companion.claims import Beside, Test
from lib.engine.stats import Estimate
from tests.tiny import refusal

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
            folder = place_of_runs / run
            folders.setdefault(run, folder)
            place = folder / "draws" / draw if draw else folder
            for notebook in {claims.claims()[one.claim].notebook for one in tests}:
                own = [one for one in tests if claims.claims()[one.claim].notebook == notebook]
                claims.write(place / "claims" / f"{notebook}.json", own)
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


def test_decided_tests_decide_where_they_agree(table):
    def came_to(*tests):
        return only(ledger.cells(table(mini=list(tests))))

    both = came_to(small(*HIGH), small(*WIDE, model="mini-gpt2"))
    assert (both["outcome"], both["counts"]) == ("supported", {"supported": 1, "undecided": 1})
    assert came_to(small(*HIGH), small(*LOW, model="mini-gpt2"))["outcome"] == "undecided"
    assert came_to(small(*HIGH), Test(SMALL, untested="no"))["outcome"] == "supported"
    other = came_to(small(*HIGH), small(*LOW, variant="ablation"))
    assert (other["outcome"], other["variant"]) == ("supported", "gradient")


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


def test_how_much_data_would_decide_follows_from_the_root_of_n(table):
    """The nearer end, .4, has to come from .1 below the value to less than .05: four times."""
    tests = table(mini=[small(0.55, 0.45, 0.65)])
    assert ledger.board(tests).set_index("claim").loc[SMALL, "needed"] == pytest.approx(4, rel=0.03)
    tests = table(mini=[small(0.5, 0.4, 0.6)])  # on the threshold
    assert np.isnan(ledger.board(tests).set_index("claim").loc[SMALL, "needed"])


def test_an_unknown_claim_in_a_record_is_named(tmp_path):
    claims.write(tmp_path / "claims" / "02.json", [Test("no-claim")])
    said = refusal(ledger.table, {"mini": tmp_path})
    assert "figures/mini/claims tests 'no-claim'" in said
