"""Titles say what their figure shows: one finding, at most two numbers, never what noise says."""

import re

import numpy as np
import pandas as pd
import pytest

from lib.bias_a_head import figures as bias_figures, tables as bias_tables
from lib.counteracts import figures as cloze_figures
from lib.engine.stats import Estimate
from lib.publish import figures as board_figures
from lib.together import Role

UP = Estimate(0.2, 0.1, 0.3)
DOWN = Estimate(-0.2, -0.3, -0.1)
OPEN = Estimate(0.1, -0.1, 0.3)


def n_numbers(title: str) -> int:
    """Numbers in a title, those of models' names aside."""
    return len(re.findall(r"(?<![\w-])-?\d+(\.\d+)?", title.replace("top 3", "")))


def test_heads_above_zero_are_counted_beside_what_chance_gives():
    """Of 40 heads 2.5 % are 1; a low end of 0 is not above it."""
    gender = pd.DataFrame({"low": [0.1] * 7 + [0.0] + [-0.1] * 32})
    race = pd.DataFrame({"low": [0.1] * 2 + [-0.1] * 38})
    title = bias_figures.fig2_title({("a", "gender"): gender, ("b", "race"): race})
    assert title == "In a 7 heads reliably raise SEAT, where chance gives about 1"
    assert bias_figures.fig2_title({("b", "race"): race}).startswith("In b on race 2 heads")
    beside = bias_figures.fig2_title({("a", "gender"): gender}, untrained=6)
    assert beside == "In a 7 heads reliably raise SEAT, in an untrained network 6"


def test_a_share_with_a_wide_interval_is_not_in_the_title():
    clear, noisy = Estimate(0.42, 0.33, 0.51), Estimate(0.75, -0.28, 1.79)
    title = bias_figures.small_set_title({("a", "gender"): clear, ("b", "gender"): noisy})
    assert title == (
        "A tenth of the heads carries 42% of the bias score in a; the other panels are too noisy to "
        "say"
    )
    assert "no panel can tell" in bias_figures.small_set_title({("b", "race"): noisy})
    both = bias_figures.small_set_title({("a", "gender"): clear, ("b", "race"): clear})
    assert both.endswith("42% of the bias score in a and 42% in b on race")


def test_heads_that_stand_out_are_counted_by_model():
    counts = {"a": Estimate(2, 1, 5, 144), "b": Estimate(8, 5, 9, 144)}
    title = bias_figures.fig1_title(counts)
    assert title == "In a 2 heads stand out for a high bias score, in b 8"
    assert bias_figures.fig1_title({"b": counts["b"]}).startswith("In b 8 heads stand out")


def test_the_gradient_is_said_beside_two_kinds_of_patches():
    same = {
        kind: {"same sentences": Estimate(rank)} for kind, rank in (("zero", 0.9), ("swapped", 0.2))
    }
    assert bias_figures.patching_title(same, "a") == (
        "In a the gradient ranks heads as switching them off does (0.90), hardly as swapping gender "
        "does (0.20)"
    )


@pytest.mark.parametrize(
    ("biased", "regular", "contrast", "end"),
    [
        (-0.1, -0.2, UP, "neither group of heads attends more to the stereotyped pair"),
        (0.0, 0.0, UP, "neither group of heads attends more to the stereotyped pair"),
        (0.2, 0.1, UP, "biased heads favour the stereotyped pair more than regular ones do"),
        (0.1, 0.2, DOWN, "biased heads favour the stereotyped pair less than regular ones do"),
        (0.1, 0.1, OPEN, "no more than regular ones do, as far as can be told"),
    ],
)
def test_more_than_regular_heads_is_no_finding_where_neither_favours(
    biased, regular, contrast, end
):
    tests = {}
    for kind, low in {"biased": biased, "regular": regular}.items():
        tests[kind] = pd.DataFrame({"low": [low]}, index=["sentence"])
    title = bias_figures.fig4_title(tests, contrast, "m", "race")
    assert title.startswith("m, race: ") and title.endswith(end)


def resampled(spread: float, seat: float) -> dict:
    """What a title reads of heads.measure: scores of 4 heads in 6 folds, all alike."""
    scores = np.array([[-spread, spread], [-spread, spread]])
    return {"seat": seat, "scores": scores, "folds": np.repeat(scores[None], 6, axis=0)}


def test_chat_tuning_is_said_of_seat_and_of_the_spread_of_heads(monkeypatch):
    def with_resamples(result):
        return np.concatenate([result["scores"][None], result["folds"]])

    monkeypatch.setattr(bias_tables, "with_resamples", with_resamples)
    wide, narrow = resampled(0.4, 1.2), resampled(0.1, 1.36)
    title = bias_figures.fig67_title
    assert title(wide, narrow, UP) == "Chat tuning raises SEAT from 1.20 to 1.36"
    assert title(narrow, wide, DOWN) == "Chat tuning lowers SEAT from 1.36 to 1.20"
    assert title(wide, wide, OPEN) == "Chat tuning leaves SEAT at about 1.20"
    assert list(bias_figures.spread_change(wide, narrow)) == pytest.approx([0.25] * 3)


def test_heads_above_the_upper_fence_are_those_that_stand_out():
    """Quartiles of 0 to 8 are 2 and 6: the fence is at 12."""
    scores = np.array([*range(8), 8.0])
    assert bias_tables.upper_fence(scores) == 12
    scores = np.random.default_rng(0).standard_t(2, (12, 12))
    _, right = bias_tables.outliers(scores)
    assert (scores > bias_tables.upper_fence(scores)).sum() == right > 0


def remedies(*rows) -> pd.DataFrame:
    """(remedy, measure, change), each change known to .05 either way."""
    table = pd.DataFrame(rows, columns=["mitigation", "measure", "change"])
    ends = {"low": table["change"] - 0.05, "high": table["change"] + 0.05}
    return table.assign(role=Role.REMEDY, overturned=False, **ends)


def test_remedies_are_said_to_improve_all_or_not_and_to_have_a_price():
    title = board_figures.effects_title
    both = [("a", "SEAT", -0.2), ("a", "cloze gap", -0.2), ("a", "PPPL", 0.2)]
    one = [("b", "SEAT", -0.2), ("b", "cloze gap", 0.0), ("b", "PPPL", 0.2)]
    free = [("c", "SEAT", 0.0), ("c", "cloze gap", 0.0), ("c", "PPPL", 0.0)]
    paid = "measures of bias, and each has its price"
    assert title(remedies(*both, *one)) == f"a improves all 2 {paid}"
    assert title(remedies(*one)) == f"No remedy improves all 2 {paid}"
    assert title(remedies(*one, *free)) == "No remedy improves all 2 measures of bias"


def margins(*rows: list[float]) -> pd.DataFrame:
    return pd.DataFrame(rows)


def test_crosses_and_title_of_the_sensitivity_figure_go_by_one_rule():
    """A change of sign near 0 is no preference turned round."""
    table = margins([0.5, 0.05, -0.5], [0.4, -0.05, 0.05], [-0.2, 0.5, -0.3])
    assert cloze_figures._flips(table).to_numpy().tolist() == [
        [False, False, False],
        [False, False, False],
        [True, False, False],
    ]
    steady = margins([0.5, 0.5, 0.5], [0.4, 0.4, 0.05])
    title = cloze_figures._turned_round({"a": table, "b": steady})
    assert title == (
        "Prompts and words to count: another choice turns 1 of 3 preferences round in a, none in b"
    )
    assert "no other choice turns" in cloze_figures._turned_round({"b": steady})


@pytest.mark.parametrize(
    "title",
    [
        bias_figures.fig1_title({"a": Estimate(2, 1, 5, 144), "b": Estimate(8, 5, 9, 144)}),
        bias_figures.small_set_title({("a", "gender"): Estimate(0.42, 0.33, 0.51)}),
    ],
)
def test_a_title_has_at_most_two_numbers_and_no_interval(title):
    assert n_numbers(title) <= 2 and "[" not in title


def test_a_runner_up_within_the_interval_is_named_beside_the_first():
    def ratios(kind: str, *values: float) -> list[tuple]:
        return [(f"job {i}", kind, "female", value) for i, value in enumerate(values)]

    rows = ratios("target semantic similar", 1.2, 1.4, 1.6)
    near = ratios("target counter semantic similar", 1.3, 1.3, 1.4)
    far = ratios("unrelated", 0.5, 0.5, 0.6)

    def title(*rows: tuple) -> str:
        columns = ["occupation", "kind", "gender", "ratio"]
        return cloze_figures._what_gains_most(pd.DataFrame(rows, columns=columns))[0]

    first = "Gendered words that stay likely gain most after an example of another form, 1.4 times"
    assert title(*rows, *far) == first
    assert title(*rows, *near, *far) == (
        f"{first}; not clearly more than after a counterexample of another form"
    )
    # after SmolLM2's base prompts no kind makes gendered words likelier
    assert (
        title(*far)
        == "Gendered words that stay likely lose least after an unrelated sentence, 0.5 times"
    )
    lost = ratios("target semantic similar", 0.5, 0.6, 0.6)
    assert title(*far, *lost).endswith("times; not clearly less than after an unrelated sentence")
