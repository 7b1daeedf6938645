"""Statistics by hand: intervals that cover, trainings, differences, ranks."""

import math

import numpy as np
import pytest

from lib.engine import stats
from lib.engine.stats import Estimate
from tests.tiny import refusal


def test_intervals_cover_the_truth_of_few_values_are_students_and_of_a_share_the_bootstraps():
    rng = np.random.default_rng(0)
    samples = rng.normal(3, 1, (60, 40))
    estimates = [stats.bootstrap(np.mean, sample, draws=400) for sample in samples]
    assert (
        50 <= sum(estimate.low < 3 < estimate.high for estimate in estimates) <= 60
    )  # about 95 % of 60
    assert stats.bootstrap(np.mean, samples[0], draws=100) == stats.bootstrap(
        np.mean, samples[0], draws=100
    )
    for few in ((), ([],), ([1.0],)):
        assert "two values or more" in refusal(stats.bootstrap, np.mean, *few)
    x = np.arange(30.0)  # pairs are kept together
    assert tuple(stats.bootstrap(stats.rank_correlation, x, x, draws=50)) == pytest.approx(
        (1, 1, 1)
    )
    estimate = stats.mean(
        [-0.028, -0.025, -0.029, -0.112, -0.015]
    )  # by hand: mean -.0418, sd .0397, t(4) 2.776
    assert tuple(estimate) == pytest.approx((-0.0418, -0.0911, 0.0075), abs=2e-4)
    hits = np.arange(40) < 13
    exact, drawn = stats.share(hits), stats.bootstrap(np.mean, hits.astype(float), draws=5_000)
    assert tuple(exact) == pytest.approx(tuple(drawn), abs=0.026)  # one hit of 40, and a little
    assert tuple(stats.share([True] * 9)) == (1, 1, 1) and tuple(stats.share([False] * 9)) == (
        0,
        0,
        0,
    )


def test_over_trainings_items_are_counted_once_and_another_training_is_less_sure():
    exact = [Estimate(value, value, value) for value in (1, 2, 3)]
    mean, another = stats.over_trainings(exact)
    assert (mean.value, mean.n, mean.unit) == (2, 3, "trainings")
    assert tuple(mean) == pytest.approx(tuple(stats.mean([1, 2, 3])), abs=0.2)  # Student's
    reach = [one.high - one.low for one in (mean, another)]
    assert reach[1] / reach[0] == pytest.approx(math.sqrt(1 + 3))  # sqrt(1 + 1/n) / sqrt(1/n)
    alike, one_more = stats.over_trainings([Estimate(1, 0.02, 1.98)] * 5)
    assert tuple(alike) == pytest.approx((1, 0.02, 1.98), abs=0.03)  # no more than one tells
    assert tuple(one_more) == tuple(alike)


@pytest.mark.parametrize("of_trainings, of_items", [(1.0, 0.0), (1.0, 0.5), (0.2, 1.0)])
def test_an_interval_over_trainings_has_the_truth_about_as_often_as_it_says(of_trainings, of_items):
    rng = np.random.default_rng(1)
    has = {"mean": 0, "another": 0}
    for _ in range(300):
        items = rng.normal(0, of_items)  # the same for all trainings
        values = items + rng.normal(0, of_trainings, 10)
        reach = 1.96 * of_items
        each = [Estimate(value, value - reach, value + reach) for value in values]
        mean, another = stats.over_trainings(each, draws=4_000)
        has["mean"] += mean.low < 0 < mean.high
        has["another"] += another.low < rng.normal(0, of_trainings) < another.high
    assert all(found >= 0.91 * 300 for found in has.values())


def test_a_difference_of_two_estimates_adds_the_squares_of_their_reaches():
    found = stats.difference(Estimate(5.0, 2.0, 9.0, n=7), Estimate(1.0, -2.0, 5.0))
    assert tuple(found) == pytest.approx((4.0, -1.0, 9.0))  # 3, 4 -> 5 below; 4, 3 -> 5 above
    assert found.n == 7
    exact = stats.difference(Estimate(5.0), Estimate(1.0, -2.0, 5.0))
    assert tuple(exact) == pytest.approx((4.0, 0.0, 7.0))
    assert math.isnan(stats.difference(Estimate(5.0, 4.0, 6.0), Estimate(math.nan)).low)


def test_estimates_print_and_move_lines_have_slopes_and_the_first_few_hold_what_is_always_there():
    estimate = stats.Estimate(0.123, -0.2, 0.4)
    assert str(estimate) == "0.12 [-0.20, 0.40]" and f"{stats.Estimate(-0.001):z.2f}" == "0.00"
    assert tuple(1 - estimate) == pytest.approx((0.877, 0.6, 1.2))
    assert tuple(estimate * 2) == pytest.approx((0.246, -0.4, 0.8))
    x = np.arange(5.0)
    assert stats.slope(x, 2 * x + 1) == pytest.approx(2)
    assert stats.rank_correlation(x, np.exp(x)) == pytest.approx(1)
    assert stats.first(range(5), 0) == range(5) and stats.first(list(range(5)), 9) == [
        0,
        1,
        2,
        3,
        4,
    ]
    firsts = [
        stats.first(list(range(20)), n, always) for n, always in ((4, [19, 3]), (2, [19, 3, 9]))
    ]
    assert firsts == [[0, 1, 3, 19], [3, 9, 19]]
