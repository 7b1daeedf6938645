"""Numbers with their uncertainty: thin covers over scipy, so that every notebook asks the same way."""

from typing import NamedTuple

import numpy as np

from lib import Lazy

stats = Lazy("scipy.stats")


class Estimate(NamedTuple):
    """A value and its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self):
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


def bootstrap(statistic, *samples, draws: int = 2_000, seed: int = 0) -> Estimate:
    """statistic(*samples) with a percentile interval over rows drawn with replacement, the samples kept paired."""
    found = stats.bootstrap(samples, statistic, paired=True, vectorized=False, method="percentile",
                            n_resamples=draws, rng=np.random.default_rng(seed)).confidence_interval
    return Estimate(float(statistic(*samples)), float(found.low), float(found.high))


def mean(sample) -> Estimate:
    """The mean with Student's interval: for few values, of which a bootstrap would make too narrow a one."""
    middle, n = np.mean(sample), len(sample)
    reach = stats.t.ppf(.975, n - 1) * np.std(sample, ddof=1) / np.sqrt(n)
    return Estimate(float(middle), float(middle - reach), float(middle + reach))


def share(hits) -> Estimate:
    """The share of true ones with the interval of a bootstrap over them, exactly: so many drawn anew from n hold a
    binomial number of hits."""
    n, value = len(hits), float(np.mean(hits))
    low, high = stats.binom.ppf([.025, .975], n, value) / n
    return Estimate(value, float(low), float(high))


def slope(x, y) -> float:
    """Of the least-squares line of y on x."""
    return stats.linregress(x, y).slope


def rank_correlation(x, y) -> float:
    """Spearman's rho."""
    return stats.spearmanr(x, y).statistic
