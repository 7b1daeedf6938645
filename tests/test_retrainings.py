"""Claims with another training in mind: counts, means with their variance, and heads by their
place.
"""

from dataclasses import replace as changed

import numpy as np
import pandas as pd
import pytest

from lib.engine import stats
from lib.engine.files import replace
from lib.engine.stats import Estimate
from lib.publish import retrainings, scoreboard
from lib.publish.papers import CLAIMS
from lib.run import Run
from lib.verdict import Control, Outcome, Verdict

NEAR, LAYERS, ORDER = "heads-small-set", "heads-all-layers", "seat-order"  # of notebook 02
ENDS = [Estimate(value, value - 0.098, value + 0.098) for value in (0.7, 0.8, 0.9)]


@pytest.fixture
def folder(tmp_path):
    """A function that stores a run: its verdicts of notebook 02."""

    def store(run, *verdicts):
        made = Run(out=tmp_path / run)
        made.judged("02", verdicts)
        return made.out

    return store


def test_in_how_many_retrainings_a_claim_is_supported(folder):
    folders = {}
    for run, near in (
        ("mini", Outcome.SUPPORTED),
        ("mini-real", Outcome.SUPPORTED),
        ("trainings-seed1", Outcome.INCONCLUSIVE),
        ("trainings-seed2", Outcome.SUPPORTED),
    ):
        folders[run] = folder(
            run,
            Verdict(NEAR, near, "mini-bert", models=["mini-bert"]),
            Verdict(LAYERS, Outcome.SUPPORTED, "mini-bert"),
            Verdict(NEAR, Outcome.CONTRADICTED, "mini-gpt2", models=["mini-gpt2"]),
            Verdict(ORDER, Outcome.NOT_APPLICABLE),
        )
    table = retrainings.by_claim(folders)
    assert table.set_index("id")["supported in"].to_dict() == {NEAR: "1 of 2", LAYERS: "2 of 2"}
    assert "mini" not in table
    assert retrainings.by_claim({"mini-real": folders["mini-real"]}).empty


@pytest.fixture
def stored(folder):
    """A function that stores a run with three tests: by an interval, not applicable, and by a
    value alone.
    """

    def store(run, near, control=None):
        return folder(
            run,
            Verdict(
                NEAR,
                Outcome.SUPPORTED,
                f"{run}, gender",
                estimate=near,
                threshold=0.5,
                models=[run.removeprefix("trainings-")],
                control=control,
            ),
            Verdict(
                LAYERS,
                Outcome.NOT_APPLICABLE,
                "m, gender",
                estimate=Estimate(3, 2, 4),
                threshold=12.0,
                models=["m"],
                preconditions={"SEAT of gender": False},
            ),
            Verdict(
                LAYERS,
                Outcome.INCONCLUSIVE,
                run,
                estimate=Estimate(2),
                threshold=12.0,
                models=[run.removeprefix("trainings-")],
            ),
        )

    return store


@pytest.fixture
def three(stored):
    return {
        f"trainings-seed{i}": stored(f"trainings-seed{i}", near) for i, near in enumerate(ENDS, 1)
    }


def test_a_claim_is_judged_by_the_mean_over_retrainings(three):
    (row,) = retrainings.across(three).to_dict("records")
    assert (row["id"], row["on"], row["outcome"]) == (NEAR, "gender", "supported")
    assert row["supported in"] == "3 of 3" and row["mean"].low > 0.5
    assert row["share"] == pytest.approx((0.75, 0.8))


def test_retrainings_that_differ_widely_are_inconclusive(three, stored):
    three["trainings-seed3"] = stored("trainings-seed3", Estimate(0.1, 0.002, 0.198))
    (row,) = retrainings.across(three).to_dict("records")
    assert row["outcome"] == "inconclusive"


@pytest.mark.parametrize(
    "claim, values, ends",
    [
        ("heads-near-zero", (0.97, 0.99, 1.0), (None, 1)),  # a share
        ("mask-all-pppl", (20, 150, 80), (0, None)),  # a ratio
        ("np-all", (0.98, 0.99, 0.9), (None, 1)),
        ("heads-all-layers", (12, 12, 11), (None, 12)),
        ("uncorrelated", (0.9, -0.9, 0.9), (-1, 1)),
        ("mask-top3-seat", (-3, 0, 3), (None, None)),
    ],
)
def test_a_mean_over_retrainings_reaches_no_further_than_can_be(claim, values, ends):
    tests = []
    for value in values:
        estimate = Estimate(value, value - 0.01, value + 0.01)
        tests.append(Verdict(claim, Outcome.SUPPORTED, estimate=estimate, threshold=0.5))
    mean, _ = stats.over_trainings([one.estimate for one in tests])
    found = retrainings._over_intervals(retrainings.Paired(CLAIMS[claim], tuple(tests))).estimate
    for end, free, bound in zip((found.low, found.high), (mean.low, mean.high), ends, strict=True):
        assert end == (free if bound is None else bound)


def test_no_more_than_the_control_is_matched(three, stored):
    control = Control("random heads", Estimate(0.7), Estimate(0.0, -0.1, 0.1))
    alike = {run: stored(run, ENDS[0], control) for run in three}
    assert retrainings.across(alike)["outcome"].tolist() == ["matched by controls"]


def test_two_retrainings_are_too_few(three):
    assert retrainings.across(dict(list(three.items())[:2])).empty


def test_a_row_for_a_plot_is_in_half_widths_of_its_interval(three):
    (row,) = retrainings.across(three).to_dict("records")
    mean, each = retrainings.towards(row)
    assert mean.high - mean.low == pytest.approx(2)
    assert each[:2] == pytest.approx([mean.value * 2 / 3, mean.value])


def test_what_is_left_in_words(three, stored):
    over = retrainings.across(three)
    sentence = retrainings.in_a_sentence(over)
    assert "1 of 1 tests are supported and 0 contradicted; 75% to 80% of the variance" in sentence
    bundled = three | {"mini": stored("mini", ENDS[0])}
    lasting = scoreboard.lasting(over, bundled)
    assert lasting == "Of 1 claims supported in the bundled model, 1 is supported over retrainings"
    published = three | {"published": stored("published", ENDS[0])}
    assert scoreboard.lasting(over, published).startswith("Of 0 claims")
    board = scoreboard.board(bundled).set_index("id")
    assert board.loc[NEAR, "retrainings"] == "supported in 3 of 3; over them supported"


@pytest.fixture
def heads(tmp_path):
    """Four retrainings: two alike, one with its layers turned round, one with other heads in each
    layer.
    """
    scores = np.random.default_rng(0).normal(size=(12, 12)) + 3 * np.arange(12)[:, None]
    moved = {
        "seed1": scores,
        "seed2": scores,
        "seed3": scores[::-1],
        "seed4": np.roll(scores, 5, axis=1),
    }
    folders = {}
    for name, table in moved.items():
        rows = [(name, "race", 1, 1, 9.0)]
        for (layer, head), value in np.ndenumerate(table):
            rows.append((name, "gender", layer + 1, head + 1, value))
        rows.append(("gpt", "gender", 1, 1, 9.0))
        frame = pd.DataFrame(rows, columns=["model", "bias", "layer", "head", "score"])
        folders[f"trainings-{name}"] = tmp_path / f"trainings-{name}"
        file = tmp_path / f"trainings-{name}" / "02_heads.csv"
        replace(file, frame.to_csv(index=False).encode())
    return folders


def test_what_heads_of_one_retraining_say_of_another(heads, tmp_path):
    found = retrainings.heads_across(heads).set_index("retrainings")
    same = found.loc["seed1, seed2", ["heads", "heads within layers", "layers"]]
    assert same.tolist() == [1, 1, 1]
    turned = found.loc["seed1, seed3"]
    assert turned["layers"] == -1 and turned["the ten highest"] < -1
    among = found.loc["seed1, seed4"]  # the same layers, other heads in them
    assert among["layers"] == 1 and among["heads"] > 0.8 and abs(among["heads within layers"]) < 0.2
    mean = found["layers"].iloc[:6].mean()
    assert len(found) == 7 and found.loc["mean", "layers"] == pytest.approx(mean, abs=0.01)
    assert retrainings.heads_across({"paper": tmp_path}).empty


def test_heads_of_retrainings_in_a_sentence(heads, tmp_path):
    """Of the six pairs' rank correlations, those that one layer's order makes lie beyond chance."""
    table = retrainings.heads_across(heads)
    n = len(retrainings._head_scores(heads)["seed1"].to_numpy().ravel())
    each = table["heads"].tolist()[:-1]
    beyond = [rho for rho in each if rho**2 * (n - 1) > 1.96**2]
    said = retrainings.heads_in_a_sentence(heads)
    assert said.startswith("Between 6 pairs") and beyond
    assert f"is {table['heads'].iloc[-1]:z.2f} on average" in said
    assert f") in {len(beyond)};" in said
    assert retrainings.heads_in_a_sentence({"paper": tmp_path}).startswith("Fewer than three")


def test_what_lasts_is_a_row_per_supported_claim(three, stored):
    lasts = retrainings.supported(retrainings.across(three), three)
    (row,) = lasts.to_dict("records")
    assert row["claim"] == CLAIMS[NEAR].says and row["on"] == "gender"
    assert row["mean"].startswith("0.8 [0.") and row["supported in"] == "3 of 3"
    assert row["bundled"] == "not run"
    bundled = three | {"mini-real": stored("mini-real", Estimate(0.2, 0.1, 0.3))}
    (row,) = retrainings.supported(retrainings.across(bundled), bundled).to_dict("records")
    assert row["bundled"] == "contradicted"
    three["trainings-seed3"] = stored("trainings-seed3", Estimate(0.1, 0.002, 0.198))
    assert retrainings.supported(retrainings.across(three), three).empty


# ---- controls and margins, as the bundled model's tests have
def test_control_models_that_show_as_much_match_retrainings_too(three, stored, tmp_path):
    """Three draws of untrained networks with means .7, .8, .9 show what the retrainings show."""
    untrained = [stored(f"null@{i}", near) for i, near in enumerate(ENDS, 1)]
    draws = tmp_path / "null" / "draws"
    draws.mkdir(parents=True)
    for i, folder in enumerate(untrained, 1):
        folder.rename(draws / str(i))
    held = three | {"null": tmp_path / "null"}
    (row,) = retrainings.across(held).to_dict("records")
    assert row["outcome"] == "matched by controls"
    assert row["reason"] == "untrained networks: 100 % of it"
    assert retrainings.by_claim(held | {"mini-real": three["trainings-seed1"]}).set_index("id").loc[
        NEAR, "supported in"
    ] == ("0 of 3")
    assert retrainings.not_across(held)[NEAR] == "not across retrainings"
    assert NEAR not in retrainings.not_across(three)


def test_a_margin_from_the_data_is_the_mean_of_the_retrainings(monkeypatch, three, stored):
    """[.62, .98] around .8 is next to nothing within a margin of .5 around a threshold of .5."""
    claim = changed(CLAIMS[NEAR], margin_from_data=True)
    tests = []
    for near in ENDS:
        tests.append(
            Verdict(NEAR, Outcome.SUPPORTED, estimate=near, threshold=0.5, margin=near.value * 0.7)
        )
    one = retrainings._over_intervals(retrainings.Paired(claim, tuple(tests)))
    assert one.margin == pytest.approx(0.56) and one.outcome == Outcome.NO_EFFECT


def test_a_control_over_retrainings_is_idle_where_it_is_in_one():
    working = Control("untrained networks", Estimate(0.1, 0.0, 0.2), Estimate(0.6, 0.5, 0.7))
    idle = Control("untrained networks", Estimate(np.nan), Estimate(np.nan), "cannot show it")
    assert retrainings._mean_control([working, idle]).why_idle == "cannot show it"
    assert retrainings._mean_control([working, working]).difference.value == pytest.approx(0.6)
