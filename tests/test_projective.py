"""The 76 models: Table 7 as printed, halves that choose and judge, and what notebook 08 tests.

Claims are tested on numbers that are made to support or to contradict them.
"""

import numpy as np
import pytest

from companion import printed
from companion.projective import halves, inference, projections, table7
from companion.projective.table7 import EVERY, OF_LEVEL, PAPER, SENT_DEBIAS
from lib.engine import nsp
from lib.projective.projection import WRITTEN, Level

PRINTED = table7.as_printed()
DRAWS = 40


# ---- Table 7


def test_table_6_follows_from_table_7():
    """Means, increase and its standard deviation (ddof 1) of 37 pairs, up to rounding."""
    pairs = inference.gains(PRINTED)
    theirs = printed.printed(PAPER, "Table 6")
    groups = [*pairs.groupby("level", sort=False), ("All", pairs)]
    assert [len(group) for _, group in groups] == [1, 4, 16, 16, 37]
    for level, group in groups:
        ours = group.mean(numeric_only=True).to_dict()
        ours["sd"] = group["increase"].std(ddof=1)
        for column, number in ours.items():
            assert number == pytest.approx(theirs.loc[level, column], abs=1.6e-4, nan_ok=True)


# ---- several things that are counted
def test_a_share_of_things_leaves_ties_and_what_has_no_value_apart():
    differences = np.array([[0.1, 0.1, 0.0], [-0.1, 0.1, 0.0], [0.0, -0.1, np.nan], [0.3, 1, 1e-9]])
    shares = halves.share_met(differences)
    assert shares[:2] == pytest.approx([2 / 3, 3 / 4])
    assert np.isnan(shares[2])


@pytest.mark.parametrize(
    "drawn, low, high",
    [
        ([1.0] * 98 + [0.5] * 2, 1, 1),  # in .975 or more of samples all are
        ([1.0] * 97 + [0.5] * 3, 0.5, 1),
        ([1.0] * 2 + [0.5] * 98, 0.5, 0.5),  # in .025 or fewer
        ([np.nan] * 50 + [1.0] * 50, 1, 1),  # of the samples that have a share
    ],
)
def test_a_share_has_its_interval_over_the_samples_that_have_one(drawn, low, high):
    found = halves.of_shares(np.array([drawn[-1], *drawn]), 100, "things")
    assert (found.low, found.high, found.n, found.unit) == (low, high, 100, "things")
    nothing = halves.of_shares(np.full(5, np.nan), 100, "things")
    assert np.isnan(nothing.value) and not nothing.has_interval


# ---- notebook 08
def stereotyped(strength, distance=None, pairs=40):
    """What projection.measure gives where triple pairs of a model differ by little.

    So S is above its opposite, and intervals have a width. Random directions change nothing.
    """
    spread = 1 + 0.02 * np.random.default_rng(0).normal(size=pairs)
    s = np.asarray(strength, float)[None, :, None] * spread
    d = s if distance is None else np.asarray(distance, float)[None, :, None] * spread
    random = {key: np.repeat(values[:, :1], 76, 1).repeat(2, 0) for key, values in (("s", s), ("d", d))}
    return {
        "fits": [WRITTEN],
        "triples": np.arange(pairs),
        "s": s,
        "d": d,
        "accuracy": np.ones_like(s),
        "random": random | {"accuracy": np.ones_like(random["s"])},
    }


def halves_of(measured, column):
    return halves.of_bias(measured, column, DRAWS)[WRITTEN]


def test_strength_and_distance_of_a_model_are_those_of_nsp():
    measured = stereotyped(np.zeros(76), pairs=23)
    measured["s"], measured["d"] = np.random.default_rng(0).normal(size=(2, 1, 76, 23))
    frame = projections.by_model(measured)
    for i in (0, 5, 75):
        assert frame["S"].iloc[i] == pytest.approx(nsp.top_mean(measured["s"][0, i]))
        assert frame["D"].iloc[i] == pytest.approx(nsp.top_mean(measured["d"][0, i]))


def test_the_papers_own_numbers_do_what_it_says_of_them():
    measured = stereotyped(PRINTED["S"], PRINTED["D"])
    assert projections.is_biased(measured) == "" == projections.reads(measured)
    S, D = halves_of(measured, "S"), halves_of(measured, "D")
    for found, column in ((S, "S"), (D, "D")):
        best = found.best(EVERY)
        assert table7.named(best.chosen) == PRINTED[column][2:].idxmin()
        fall = PRINTED[column].iloc[0] - PRINTED[column][2:].min()
        assert best.change.value == pytest.approx(fall, rel=0.05)
        assert best.beside.difference == best.change  # random directions change nothing
        deeper, beside = projections.deeper_is_lower(found)
        assert deeper.value == 1 and np.isnan(beside.estimate.value)  # all random steps tie
    little = projections.relative_change(S, S.choose(OF_LEVEL[Level.SENT]))
    assert little.value == pytest.approx(0.3077 / 0.3069 - 1)
    sent_debias = projections.relative_change(D, [SENT_DEBIAS, SENT_DEBIAS])
    assert sent_debias.value == pytest.approx(0.7014 / 0.7052 - 1)
    assert projections.search_gains(S).value == pytest.approx(0.220 - 0.193, abs=2e-3)
    assert projections.search_gains(D).value == pytest.approx(0.422 - 0.368, abs=3e-3)


def counts(measured) -> dict:
    """What is counted on S."""
    every = projections.Resampled.of(measured, DRAWS)
    attention, beside = every.attention_lowers()
    return {
        "np = 0": every.extension_lowers(weighted=False),
        "np = 1": every.extension_lowers(weighted=True),
        "worst": every.hard2_is_worst(),
        "attention": attention,
        "spoilt": every.attention_does_not(),
        "beside": beside,
    }


def test_what_is_counted_on_s_is_all_in_the_papers_numbers_and_none_turned_round():
    as_printed = counts(stereotyped(PRINTED["S"]))
    turned = counts(stereotyped(1 - PRINTED["S"]))
    for name in ("np = 0", "np = 1", "worst", "attention", "spoilt"):
        assert (as_printed[name].value, as_printed[name].low) == (1, 1), name
        assert turned[name].value <= 0.25 and turned[name].high < 1, name
        assert (as_printed[name].n, as_printed[name].unit) == (40, "triple pairs")


def test_of_the_extensions_one_that_does_otherwise_is_a_quarter():
    S = PRINTED["S"].copy()
    S["SENT 1"] = 0.3
    S[["Layer 12 (0, 0, 1)", "Layer 12 (1, 0, 1)"]] = 0.2
    S["Layer 12 (0, 1, 1)"] = 0.4  # two components whole: does not lower, as said
    S["Layer 12 (1, 1, 1)"] = 0.4  # does not either
    assert counts(stereotyped(S))["np = 1"].value == 3 / 4


def test_that_deeper_is_lower_is_found_in_no_step_where_s_rises():
    rising = halves_of(stereotyped(np.linspace(0.1, 0.2, 76)), "S")
    deeper, _ = projections.deeper_is_lower(rising)
    assert (deeper.value, deeper.high) == (0, 0)
    assert rising.best(EVERY).change.high < 0  # the best is worse, if by little


def test_what_random_directions_do_as_well_is_nothing_beyond_them():
    measured = stereotyped(PRINTED["S"], PRINTED["D"])
    measured["random"] = {key: measured[key].repeat(2, 0) for key in ("s", "d", "accuracy")}
    S = halves_of(measured, "S")
    for beside in (
        S.best(EVERY).beside,
        projections.deeper_is_lower(S)[1],
        counts(measured)["beside"],
    ):
        assert tuple(beside.difference) == pytest.approx((0, 0, 0)) and beside.estimate.value > 0


def test_claims_on_s_are_not_tested_where_s_is_not_above_its_opposite():
    measured = stereotyped(PRINTED["S"], PRINTED["D"])
    measured["s"] = measured["s"] * np.where(np.arange(40) % 2, 1, -1)
    assert projections.is_biased(measured).startswith("S is not above its opposite")
    measured["accuracy"] = measured["accuracy"] * 4 / 6  # all are called the next one
    assert projections.reads(measured).startswith("next sentences are told from unrelated ones no")


def test_ranks_are_kept_where_settings_scale_s_and_not_where_they_move_its_tail():
    every = projections.Resampled.of(stereotyped(PRINTED["S"]), DRAWS)
    assert every.ranks_kept().value == pytest.approx(1)
    measured = stereotyped(PRINTED["S"])
    measured["s"][0][:, 0] = 10 - PRINTED["S"]  # the highest pair is the other way round
    assert projections.Resampled.of(measured, DRAWS).ranks_kept().low < 0.9


def test_the_best_setting_is_judged_on_the_half_that_did_not_choose_it():
    """Settings differ by luck alone: the best is below base in sample, not where it is judged."""
    measured = stereotyped(np.full(76, 0.2), pairs=200)
    rng = np.random.default_rng(0)
    measured["s"] = 0.2 + 0.1 * rng.normal(size=measured["s"].shape)
    found = halves_of(measured, "S")
    best = found.best(EVERY)
    in_sample = projections.by_model(measured)["S"]
    assert in_sample[2:].min() < in_sample.iloc[0] - 0.02
    assert best.change.low < 0 < best.change.high
    first, second = halves.split(200, np.random.default_rng(0))
    on_first = halves.tops(measured["s"][0][:, first])
    on_second = halves.tops(measured["s"][0][:, second])
    assert best.chosen == [2 + on_second[2:].argmin(), 2 + on_first[2:].argmin()]


def test_over_all_triples_at_once_nothing_is_chosen():
    """What LEACE is judged by: a value, its fall, that of random ones, and the difference."""
    rng = np.random.default_rng(0)
    measured = {"fits": ["one"], "d": rng.random((1, 4, 20)), "random": {"d": rng.random((3, 4, 20))}}
    measured["s"] = measured["d"]
    found = halves.of_bias(measured, "D", DRAWS, whole=True)["one"].does([2])
    value, base = (nsp.top_mean(measured["d"][0, i]) for i in (2, 0))
    random = np.mean([nsp.top_mean(values[2]) for values in measured["random"]["d"]])
    expected = [value, base - value, base - random, random - value]
    assert [one.value for one in found.estimates] == pytest.approx(expected)
    assert found.judged.low < value < found.judged.high and found.judged.n == 20


def test_the_table_of_factual_gender_by_hand():
    """Two pairs of sentences, base right in three of four; 3 is taken off the odds, or 1 added."""
    before = np.array([2.0, 2.0, 2.0, -2.0])
    own = projections.facts_row("a", "gender", before[None] - 3, before, draws=20)
    assert (own["right"].value, own["change"]) == (0, -0.75)
    assert tuple(own["change of log odds"]) == (-3, -3, -3)
    drawn = projections.facts_row("a", "random", np.array([before - 1, before + 1]), before, draws=20)
    assert (drawn["right"].value, drawn["change"], drawn["change of log odds"].value) == (0.75, 0, 0)


