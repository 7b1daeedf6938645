"""Titles say what their figure shows: one finding, at most two numbers, never what noise says."""

import re

import numpy as np
import pandas as pd
import pytest

from lib.bias_a_head import figures as bias_figures, tables as bias_tables
from lib.engine.stats import Estimate
from lib.projective import figures as projective_figures
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


def test_what_masks_do_is_said_as_far_as_intervals_tell():
    cost = Estimate(1.0567, 1.0, 1.1)
    title = bias_figures.plane_title(3, DOWN, cost)
    assert title == (
        "Masking the top 3 heads lowers SEAT by 0.20 and makes PPPL 1.06 times as high"
    )
    assert "does not clearly change SEAT" in bias_figures.plane_title(3, OPEN, cost)
    assert bias_figures.seat_moves(UP) == "raises SEAT by 0.20"
    lpbs_title = bias_figures.lpbs_title
    beyond = lpbs_title(DOWN, DOWN, 1.5)
    assert beyond == "Masking top heads lowers LPBS by 0.20, more than as many random heads do"
    assert lpbs_title(DOWN, OPEN, 1.5).endswith("not clearly more than as many random heads do")
    assert lpbs_title(DOWN, DOWN, 89.6).endswith("PPPL is up to 89.6 times the full model's")
    assert lpbs_title(OPEN, DOWN, 1.5) == "Masking top heads does not clearly lower LPBS"
    louder = bias_figures.amplified_title(3, DOWN, DOWN)
    assert louder.endswith("lowers SEAT by 0.20, more than random heads do")
    assert bias_figures.amplified_title(3, DOWN, UP).endswith("no more than random heads do")
    assert bias_figures.amplified_title(3, UP, UP).endswith("by 0.20, more than random heads do")
    assert bias_figures.amplified_title(3, OPEN, DOWN).endswith("does not clearly change SEAT")


def test_facts_under_masks_are_said_with_what_is_left_of_them():
    moved = {"Top-3": OPEN, "Dose": Estimate(-0.4, -0.5, -0.3)}
    title = bias_figures.factual_title(3, 45, moved, 0.9)
    assert title == (
        "Masking 45 top heads makes the pronouns of queens and kings a coin toss; masking the top 3 "
        "leaves them alone"
    )
    title = bias_figures.factual_title(3, 45, moved | {"Top-3": DOWN}, 0.9)
    assert (
        title.endswith("a coin toss; masking the top 3 leaves 70% right") and n_numbers(title) == 2
    )
    title = bias_figures.factual_title(3, 45, {"Top-3": OPEN, "Dose": DOWN}, 0.9)
    assert title.startswith("Masking 45 top heads leaves 70% of the pronouns of queens and kings")
    assert "not asked" in bias_figures.factual_title(3, 45, moved, np.nan)


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
    ("every", "random", "title"),
    [
        (DOWN, OPEN, "costs 20.0 GLUE points"),
        (DOWN, DOWN, "costs 20.0 GLUE points, as many random ones 20.0"),
        (DOWN, None, "costs 20.0 GLUE points"),
        (OPEN, None, "does not clearly change the GLUE scores"),
    ],
)
def test_what_masking_costs_is_said_beside_random_heads(every, random, title):
    assert bias_figures.glue_title(every, random) == f"Masking all 'biased' heads {title}"


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


def occupations(n_above: int, n: int = 10) -> pd.DataFrame:
    gap = np.where(np.arange(n) < n_above, 0.1, -0.1)
    return pd.DataFrame({"female": 0.5 + gap, "male": 0.5})


def test_a_gap_that_changes_its_direction_is_not_just_narrowed():
    turned = {"Base": occupations(8), "SENT 1": occupations(3)}
    title = projective_figures.occupations_title(turned, DOWN)
    assert title == (
        "SENT 1 shrinks the man-woman gap and reverses its direction: above the diagonal 8 become 3"
    )
    kept = {"Base": occupations(8), "SENT 1": occupations(7)}
    title = projective_figures.occupations_title(kept, DOWN)
    assert title == "SENT 1 shrinks the man-woman gap by 0.20"
    title = projective_figures.occupations_title(kept, OPEN)
    assert title == "SENT 1 does not clearly change the man-woman gap"


def test_a_correlation_is_said_as_far_as_its_interval_tells():
    title = projective_figures.strength_title(Estimate(-0.55, -0.7, -0.34))
    assert title == "Lower Strength goes with fairer inference (rho -0.55 over 76 models)"
    assert "less fair" in projective_figures.strength_title(UP)
    assert projective_figures.strength_title(OPEN).startswith(
        "Strength and fairness in inference show no clear rank correlation (rho 0.10"
    )


def gains(n_up: int, n: int = 37) -> pd.DataFrame:
    return pd.DataFrame({"increase": np.where(np.arange(n) < n_up, 0.01, 0.0)})


def test_pairs_that_gain_accuracy_are_counted_here_and_as_printed():
    title = projective_figures.table6_title
    assert title(gains(23), gains(37)) == (
        "Weighting the sentence projection raises accuracy in 23 of 37 pairs of models here, in all "
        "as printed"
    )
    assert title(gains(23), gains(30)).endswith("in 30 as printed")


def test_names_of_occupations_stand_apart():
    table = pd.DataFrame({"male": [0.9, 0.91, 0.2, 0.9], "female": [0.1, 0.1, 0.5, 0.3]})
    assert projective_figures._apart(table, np.array([1, 0, 3, 2])) == [1, 3, 2]


def test_distance_is_lowered_in_percent_of_the_base_as_printed_and_here():
    theirs = pd.DataFrame({"D": [0.8, 0.1, 0.4, 0.6]})  # sent-debias is none of the 74
    ours = pd.DataFrame({"D": [0.26]})
    falls = {"D": Estimate(0.026, 0.009, 0.046), "S": OPEN}
    title = projective_figures.plane_title(theirs, falls, ours)
    assert title == (
        "The best setting lowers Distance by 50% in the paper; here, on triples that did not choose "
        "it, by 10%; Strength not clearly"
    )
    assert "choose it, not clearly;" in projective_figures.plane_title(
        theirs, falls | {"D": OPEN}, ours
    )


def test_strength_is_said_to_exceed_its_opposite_where_the_interval_does():
    title = projective_figures.distributions_title
    assert title(UP) == "Strength exceeds its opposite, that of anti-stereotypes: by 0.20"
    assert "does not clearly exceed" in title(OPEN) and "falls short of" in title(DOWN)


def test_what_is_lowered_beyond_random_directions_is_named():
    said = projective_figures.control_title
    assert said({"S": OPEN, "D": UP}).endswith("the best of 74 settings lowers Distance")
    assert said({"S": OPEN, "D": DOWN}).endswith("not clearly lower Strength or Distance")


def test_the_fit_decides_which_setting_is_best_unless_ranks_are_the_same():
    ranks = pd.DataFrame({"rho of S": [1.0, 0.17], "rho of D": [1.0, 0.95]})
    title = projective_figures.choices_title
    assert title(ranks) == (
        "Which setting ranks best depends on how directions are found: rank correlations fall to 0.17 "
        "by Strength, 0.95 by Distance"
    )
    assert "hardly depends" in title(ranks + 1)


def fairness_of(*rows) -> pd.DataFrame:
    """Base, sent-debias and projections: (eta, accuracy), each eta known to .05 either way."""
    eta, accuracy = np.array(rows).T
    columns = {"eta": eta, "eta low": eta - 0.05, "eta high": eta + 0.05, "SNLI": accuracy}
    return pd.DataFrame(columns)


def test_a_fairer_projection_has_to_keep_the_accuracy():
    title = projective_figures.tradeoff_title
    fairer = fairness_of([0.1, 0.8], [0.1, 0.8], [0.5, 0.78], [0.9, 0.5])
    assert title(fairer) == (
        "The fairest projection that keeps the accuracy raises fairness from 0.10 to 0.50"
    )
    noisy = fairness_of([0.1, 0.8], [0.9, 0.8], [0.15, 0.8])
    assert title(noisy).startswith("No projection that keeps the accuracy")
    dear = fairness_of([0.1, 0.8], [0.1, 0.8], [0.9, 0.5])
    assert title(dear) == "All 1 projections make inference fairer, but none keeps the accuracy"
    some = fairness_of([0.1, 0.8], [0.1, 0.8], [0.9, 0.5], [0.15, 0.5], [0.1, 0.5])
    assert title(some) == "1 of 3 projections make inference fairer, but none keeps the accuracy"
    both = fairness_of([0.1, 0.8], [0.4, 0.8], [0.9, 0.5])
    assert title(both).endswith("none keeps the accuracy; the baseline sent-debias does both")
    useless = fairness_of([0.1, 0.8], [0.1, 0.8], [0.1, 0.5])
    assert title(useless) == "Of 1 projections none keeps the accuracy"


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


@pytest.mark.parametrize(
    "title",
    [
        bias_figures.glue_title(DOWN, DOWN),
        bias_figures.plane_title(3, DOWN, Estimate(1.06, 1.0, 1.1)),
        bias_figures.amplified_title(3, DOWN, DOWN),
        bias_figures.lpbs_title(DOWN, DOWN, 89.6),
        bias_figures.factual_title(3, 45, {"Top-3": OPEN, "Dose": DOWN}, 0.9),
        bias_figures.fig1_title({"a": Estimate(2, 1, 5, 144), "b": Estimate(8, 5, 9, 144)}),
        projective_figures.strength_title(DOWN),
        projective_figures.distributions_title(UP),
        projective_figures.table6_title(gains(23), gains(37)),
        projective_figures.occupations_title({"a": occupations(8), "b": occupations(3)}, DOWN),
        bias_figures.small_set_title({("a", "gender"): Estimate(0.42, 0.33, 0.51)}),
    ],
)
def test_a_title_has_at_most_two_numbers_and_no_interval(title):
    assert n_numbers(title) <= 2 and "[" not in title
