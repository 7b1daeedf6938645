"""Titles say what their figure shows: one finding, at most two numbers, never what noise says."""

import re

import numpy as np
import pandas as pd
import pytest

from lib.bias_a_head import figures as bias_figures, tables as bias_tables
from lib.counteracts import figures as cloze_figures
from lib.engine.stats import Estimate
from lib.projective import figures as projective_figures

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
    assert title == (
        "In a 7 of 40 heads reliably raise the bias score (about 1 expected by chance); "
        "in b on race, 2"
    )


def test_a_share_with_a_wide_interval_is_not_in_the_title():
    clear, noisy = Estimate(0.42, 0.33, 0.51), Estimate(0.75, -0.28, 1.79)
    title = bias_figures.small_set_title({("a", "gender"): clear, ("b", "gender"): noisy})
    assert title == (
        "A tenth of the heads carries 42% of a's bias score; the other panels are too noisy to say"
    )
    assert "no panel can tell" in bias_figures.small_set_title({("b", "race"): noisy})
    both = bias_figures.small_set_title({("a", "gender"): clear, ("b", "race"): clear})
    assert both.endswith("42% of a's bias score and 42% of b's (race) bias score")


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


@pytest.mark.parametrize(
    ("every", "beyond", "title"),
    [
        (DOWN, OPEN, "costs 20.0 GLUE points; as many random heads are not shown to cost less"),
        (DOWN, DOWN, "costs 20.0 GLUE points; as many random heads cost less"),
        (DOWN, None, "costs 20.0 GLUE points"),
        (OPEN, None, "does not clearly change the GLUE scores"),
    ],
)
def test_what_masking_costs_is_said_beside_random_heads(every, beyond, title):
    assert bias_figures.glue_title(every, beyond) == f"Masking all 'biased' heads {title}"


def resampled(spread: float, seat: float) -> dict:
    """What a title reads of heads.measure: scores of 4 heads in 6 folds, all alike."""
    scores = np.array([[-spread, spread], [-spread, spread]])
    return {"seat": seat, "scores": scores, "folds": np.repeat(scores[None], 6, axis=0)}


def test_chat_tuning_is_said_of_seat_and_of_the_spread_of_heads(monkeypatch):
    def with_resamples(result):
        return np.concatenate([result["scores"][None], result["folds"]])

    monkeypatch.setattr(bias_tables, "with_resamples", with_resamples)
    wide, narrow = resampled(0.4, 1.2), resampled(0.1, 1.36)
    title = bias_figures.fig67_title(wide, narrow, UP)
    assert (
        title == "Chat tuning raises SEAT from 1.20 to 1.36 and narrows the spread of head scores"
    )
    assert bias_figures.fig67_title(narrow, wide, DOWN).endswith("widens the spread of head scores")
    same = bias_figures.fig67_title(wide, wide, OPEN)
    assert "leaves SEAT at about 1.20 and does not clearly change the spread" in same


def test_heads_above_the_upper_fence_are_those_that_stand_out():
    """Quartiles of 0 to 8 are 2 and 6: the fence is at 12."""
    scores = np.array([*range(8), 8.0])
    assert bias_tables.upper_fence(scores) == 12
    scores = np.random.default_rng(0).standard_t(2, (12, 12))
    _, right = bias_tables.outliers(scores)
    assert (scores > bias_tables.upper_fence(scores)).sum() == right > 0


def occupations(n_above: int, n: int = 10) -> pd.DataFrame:
    gap = np.where(np.arange(n) < n_above, 0.1, -0.1)
    return pd.DataFrame({"female": 0.5 + gap, "male": 0.5})


def test_a_gap_that_changes_its_direction_is_not_just_narrowed():
    turned = {"Base": occupations(8), "SENT 1": occupations(3)}
    title = projective_figures.occupations_title(turned, DOWN)
    assert title == (
        "The projection shrinks the man-woman gap and reverses its direction: above the diagonal "
        "8 become 3"
    )
    kept = {"Base": occupations(8), "SENT 1": occupations(7)}
    title = projective_figures.occupations_title(kept, OPEN)
    assert title == "The projection does not clearly change the man-woman gap"


def test_a_correlation_of_one_fit_is_said_beside_the_other():
    title = projective_figures.strength_title(
        Estimate(-0.55, -0.7, -0.34), Estimate(0.11, -0.1, 0.3)
    )
    assert title == (
        "Lower Strength goes with fairer inference in this fit (rho -0.55), not in the other (0.11)"
    )
    assert "and in the other" in projective_figures.strength_title(DOWN, DOWN)
    assert "Strength does not tell" in projective_figures.strength_title(OPEN, DOWN)
    assert "less fair" in projective_figures.strength_title(UP, UP)


def test_distance_is_cut_in_percent_of_the_base_as_printed_and_here():
    theirs = pd.DataFrame({"D": [0.8, 0.1, 0.4, 0.6]})  # sent-debias is none of the 74
    ours = pd.DataFrame({"D": [0.26]})
    falls = {"D": Estimate(0.026, 0.009, 0.046), "S": OPEN}
    title = projective_figures.plane_title(theirs, falls, ours)
    assert title == (
        "Projections cut Distance by up to 50% as printed (left), by 10% here (right); Strength not "
        "clearly here"
    )
    assert "not clearly here (right)" in projective_figures.plane_title(
        theirs, falls | {"D": OPEN}, ours
    )


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
    assert title == "How a prompt is written turns 1 of 3 preferences round in a, none in b"
    assert cloze_figures._turned_round({"b": steady}).endswith("turns no preference round")


@pytest.mark.parametrize(
    "title",
    [
        bias_figures.glue_title(DOWN, OPEN),
        projective_figures.strength_title(DOWN, OPEN),
        projective_figures.occupations_title({"a": occupations(8), "b": occupations(3)}, DOWN),
        bias_figures.small_set_title({("a", "gender"): Estimate(0.42, 0.33, 0.51)}),
    ],
)
def test_a_title_has_at_most_two_numbers_and_no_interval(title):
    assert n_numbers(title) <= 2 and "[" not in title
