"""Estimates of notebooks 02 and 03: on numbers that a person can check."""

import numpy as np
import pandas as pd
import pytest
import torch

from companion.bias_a_head import estimators
from lib.engine import stats

pytestmark = pytest.mark.usefixtures(
    "few_draws"
)  # intervals are far from what they decide, or hold it


# 02: head scores


def result(scores, folds=None, seat=1.0, p=0.001):
    scores, side = np.asarray(scores, dtype=float), np.linspace(-1, 1, 20)
    folds = np.repeat(scores[None], 4, 0) if folds is None else np.asarray(folds, dtype=float)
    return {
        "seat": seat,
        "p": p,
        "scores": scores,
        "folds": folds,
        "in_x": np.arange(40) < 20,
        "s": np.concatenate([side + seat, side]),
    }


def test_intervals_and_what_stands_out_by_hand():
    # one head's folds are 1, 2, 3: deviation 1, Student's t of two degrees of freedom 4.3027
    frame = estimators.intervals(result([[2.0, 5.0]], [[[1.0, 5.0]], [[2.0, 5.0]], [[3.0, 5.0]]]))
    assert list(frame["head"]) == [2, 1] and list(frame["layer"]) == [1, 1]
    assert frame.high[1] - 2 == pytest.approx(4.3027 / 3**0.5, abs=1e-4) == 2 - frame.low[1]
    assert frame.low[0] == frame.high[0] == 5
    # quartiles of 0 .. 8 are 2 and 6: the fences are at -4 and 12
    assert estimators.outliers(np.array([0.0, 1, 2, 3, 4, 5, 6, 7, 8])) == (0, 0)
    assert estimators.outliers(np.array([-50.0, 1, 2, 3, 4, 5, 6, 7, 50])) == (1, 1)


def test_redrawn_seats_agree_with_the_interval_for_few_words():
    measured = result(np.zeros((1, 1)), seat=0.5)
    drawn = estimators.resampled_seats(measured, draws=200)
    size = (measured["s"][:20].mean() - measured["s"][20:].mean()) / measured["s"].std(ddof=1)
    found = estimators.percentile_interval(size, drawn)
    few = estimators.seat_interval(measured | {"seat": size})
    assert found.low < size < found.high and drawn.shape == (200,)
    assert (few.low, few.high) == pytest.approx((found.low, found.high), abs=0.15)
    rows = measured | {"s": np.stack([measured["s"], -measured["s"]])}
    both = estimators.resampled_seats(rows, draws=200)
    np.testing.assert_allclose(both, np.stack([drawn, -drawn], 1))


def test_what_the_highest_heads_carry_by_hand_and_of_noise():
    scores = np.array([[6.0, 2, 1, 1, -1, -1, -1, -1, -1, -1]])
    share, chance = estimators.share_carried(result(scores), 0.1)
    assert (share.value, share.low, share.high, chance) == pytest.approx((0.6, 0.6, 0.6, 0.25))
    noise = np.random.default_rng(0).normal(size=(10, 12, 12))
    share, chance = estimators.share_carried(result(noise.mean(0), noise), 0.1)
    assert not share.low > chance  # heads chosen on noise carry nothing over
    s, in_x = np.repeat(result(scores)["s"][None], 11, 0), result(scores)["in_x"]
    s[1, in_x] -= 0.5  # only the first head matters
    ablation = {"gradient": scores[0], "ablation": scores[0], "s": s, "in_x": in_x}
    found = estimators.share_carried_by_ablation(ablation, 0.1)
    assert tuple(found) == pytest.approx((0.6, 1, 1))


def test_layers_are_counted_by_their_best_head_and_by_its_interval():
    rows = [
        (1, 0.2, 0.1, 0.3),  # surely biased
        (1, -0.2, -0.3, -0.1),
        (2, 0.1, -0.1, 0.3),  # biased by its score alone
        (3, -0.1, -0.2, 0.1),  # may be biased
        (4, -0.2, -0.3, -0.1),  # surely not
    ]
    frame = pd.DataFrame(rows, columns=["layer", "score", "low", "high"])
    assert estimators.layers_with_biased_heads(frame) == stats.Estimate(2, 1, 3, 4, "layers")


@pytest.mark.parametrize(
    "p, why", [(0.049, ""), (0.05, "race is not significant: SEAT 1.00, p 0.05")]
)
def test_a_bias_is_there_where_seat_is_significant(p, why):
    assert estimators.needs_seat(result([[1.0]], p=p), "race") == {"SEAT of race": why}


def test_heads_are_counted_by_hand():
    """Of 40 heads `tail` has 12 positive ones, 6 of them large, three in each layer; `flat` has 20,
    all of its second layer's below those of the first.
    """
    large = [2.0, 1.9, 1.7, 0.02, 0.02, 0.02]
    scores = np.linspace(-0.05, -0.01, 40).reshape(2, 20)
    scores[:, :6] = large
    tail, flat = result(scores, seat=-2.0), result(np.linspace(1, -1, 40).reshape(2, 20))
    assert estimators.near_zero(tail).value == 34 / 40
    assert estimators.near_zero(flat).value == 2 / 40
    assert tuple(estimators.standing_out(tail)) == (6, 6, 6)
    assert tuple(estimators.more_biased(flat, tail)) == (8, 8, 8)
    assert tuple(estimators.more_to_the_left(result(-scores), tail)) == (6, 6, 6)
    upper, chance = estimators.in_upper_half(result(flat["scores"][::-1]))
    assert (tuple(upper), upper.n, chance) == ((10, 10, 10), 10, 5)
    assert estimators.in_upper_half(flat)[0].value == 0
    weak = result(scores, seat=0.5)
    assert tuple(estimators.seat_change(weak, weak)) == (0, 0, 0)
    lower = estimators.seat_change(tail, weak)
    assert lower.value == -1.5 and lower.n == 40 and lower.high < 0


def test_heads_that_were_tried_are_told_from_all_that_there_are():
    ablation = {"gradient": np.array([1.0, -1, 2, -2]), "ablation": np.array([1.0, -1, -2, -2])}
    of_all, of_some = (estimators.same_sign(ablation, n_heads) for n_heads in (4, 144))
    assert (of_all.value, of_all.unit, of_some.unit) == (0.75, "heads", "heads tried")


# 03: the counter-stereotype test


def test_kinds_of_heads_and_their_contrast_by_hand():
    """Head 1-1 attends to the original by .2 more, head 1-2 to the counter by .1; both in women's
    and men's sentences of two patterns. So biased less regular heads come to 30 points.
    """
    scores = np.array([[0.5, -0.2, 0.0]])
    weights = torch.zeros(4, 2, 1, 3)
    weights[:, 0, 0, 0] = 0.2
    weights[:, 1, 0, 1] = 0.1
    pairs = pd.DataFrame({"attribute": ["women", "men"] * 2, "counterpart": ["men", "women"] * 2})
    pairs = pairs.assign(target=list("abcd"), group=["female", "male"] * 2, pattern_id=[1, 1, 2, 2])
    both = {"raw": weights, "min-max": weights}
    one = estimators.Experiment("m", "gender", {"scores": scores}, pairs, both)
    assert one.kinds == {"biased": [(1, 1)], "regular": [(1, 2)]}
    assert list(one.shifts["raw", "contrast"]) == pytest.approx([30, 30, 30])
    assert one.favours("biased").value == pytest.approx(20)
    assert (one.by_head["t"] > 0).tolist() == [True, False, False]
    alone = estimators.Experiment("m", "gender", {"scores": abs(scores)}, pairs, both)
    assert list(alone.kinds) == ["biased"] and ("raw", "contrast") not in alone.shifts
