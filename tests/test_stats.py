"""Statistics against answers worked out by hand."""

import numpy as np
import pytest

from lib import CompanionError
from lib.engine import stats


def test_bootstrap_covers_the_truth_and_is_seeded():
    rng = np.random.default_rng(0)
    samples = rng.normal(3, 1, (60, 40))
    estimates = [stats.bootstrap(np.mean, sample, draws=400) for sample in samples]
    assert 50 <= sum(estimate.low < 3 < estimate.high for estimate in estimates) <= 60  # about 95 % of 60
    assert stats.bootstrap(np.mean, samples[0], draws=100) == stats.bootstrap(np.mean, samples[0], draws=100)
    x = np.arange(30.)  # pairs are kept together
    assert tuple(stats.bootstrap(stats.rank_correlation, x, x, draws=50)) == pytest.approx((1, 1, 1))


@pytest.mark.parametrize("samples", [(), ([],), ([1.],)])
def test_too_little_to_draw_from_is_said(samples):
    with pytest.raises(CompanionError, match="two values or more"):
        stats.bootstrap(np.mean, *samples)


def test_estimates_print_and_move_lines_have_slopes_and_the_first_few_hold_what_is_always_there():
    estimate = stats.Estimate(.123, -.2, .4)
    assert str(estimate) == "0.12 [-0.20, 0.40]" and f"{stats.Estimate(-.001):z.2f}" == "0.00"
    assert tuple(1 - estimate) == pytest.approx((.877, .6, 1.2))
    assert tuple(estimate * 2) == pytest.approx((.246, -.4, .8))
    x = np.arange(5.)
    assert stats.slope(x, 2 * x + 1) == pytest.approx(2)
    assert stats.rank_correlation(x, np.exp(x)) == pytest.approx(1)
    assert stats.first(range(5), 0) == range(5) and stats.first(list(range(5)), 9) == [0, 1, 2, 3, 4]
    assert stats.first(list(range(20)), 4, [19, 3]) == [0, 1, 3, 19]
    assert stats.first(list(range(20)), 2, [19, 3, 9]) == [3, 9, 19]


def test_the_interval_of_a_few_values_is_students_and_of_a_share_the_bootstraps():
    estimate = stats.mean([-.028, -.025, -.029, -.112, -.015])  # by hand: mean -.0418, sd .0397, t(4) 2.776
    assert tuple(estimate) == pytest.approx((-.0418, -.0911, .0075), abs=2e-4)
    hits = np.arange(40) < 13
    exact, drawn = stats.share(hits), stats.bootstrap(np.mean, hits.astype(float), draws=5_000)
    assert tuple(exact) == pytest.approx(tuple(drawn), abs=.026)  # one hit of 40, and a little
    assert tuple(stats.share([True] * 9)) == (1, 1, 1) and tuple(stats.share([False] * 9)) == (0, 0, 0)
