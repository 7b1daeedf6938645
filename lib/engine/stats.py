"""Numbers with their uncertainty, computed in one way everywhere: thin covers over scipy.

gap = stats.bootstrap(difference, before, after)       # an Estimate: value, 95 % interval, n
f"{gap}", f"{gap:+.3f}", gap - .05, -gap               # printed and shifted with its interval
"""

import math
import warnings
from collections.abc import Sequence, Sized
from dataclasses import dataclass, replace

import numpy as np
import scipy.stats

from lib import CompanionError

SETTLED = 6  # decimals in which machines agree but for rounding
ENDS = [0.025, 0.975]  # the quantiles of a 95 % interval


@dataclass(frozen=True)
class Estimate:
    """A value with its 95 % interval. Unrounded: rounding is for whoever prints it."""

    value: float
    low: float = math.nan  # nan: no interval is known
    high: float = math.nan
    n: int = 0  # over how many items; 0: unknown
    unit: str = ""

    @property
    def has_interval(self) -> bool:
        return not (math.isnan(self.low) or math.isnan(self.high))

    @property
    def is_damaged(self) -> bool:
        """Whether nothing can have computed it: one end alone, or a value that is nan between ends,
        or outside of them by more than half the interval. A bootstrap's interval may just miss it.
        """
        if not self.has_interval:
            return math.isnan(self.low) != math.isnan(self.high)
        room = 0.5 * (self.high - self.low) + 10**-SETTLED * max(1, abs(self.value))
        is_near = self.low - room <= self.value <= self.high + room
        return not (self.low <= self.value <= self.high or is_near)

    def is_above(self, threshold: float = 0.0) -> bool:
        """Whether the whole interval is above a threshold."""
        return bool(settled(self.low - threshold) > 0)

    def is_below(self, threshold: float = 0.0) -> bool:
        """Whether the whole interval is below a threshold."""
        return bool(settled(self.high - threshold) < 0)

    def __iter__(self):
        """Unpacks into value, low, high."""
        return iter((self.value, self.low, self.high))

    def __add__(self, amount: float) -> "Estimate":
        return replace(
            self, value=self.value + amount, low=self.low + amount, high=self.high + amount
        )

    def __sub__(self, amount: float) -> "Estimate":
        return self + -amount

    def __rsub__(self, start: float) -> "Estimate":
        return -self + start

    def __neg__(self) -> "Estimate":
        return replace(self, value=-self.value, low=-self.high, high=-self.low)

    def __mul__(self, factor: float) -> "Estimate":
        """In other units; `factor` is positive."""
        return replace(
            self, value=self.value * factor, low=self.low * factor, high=self.high * factor
        )

    def __format__(self, spec: str) -> str:
        """value [low, high], each in a float's format; .2f by default. "z.2f" writes no -0.00."""
        value, low, high = (format(number, spec or ".2f") for number in self)
        return f"{value} [{low}, {high}]" if self.has_interval else value

    def __str__(self):
        return format(self, "")


def settled(values):
    """Numbers rounded to the digits in which all machines agree (tolerance.py).

    For what depends on which side of an edge a number lies: a sign, a rank, the name of the lowest.
    Numbers that differ by rounding alone are equal then.
    """
    return np.round(values, SETTLED)


def bootstrap(statistic, *samples, draws: int = 2_000, seed: int = 0) -> Estimate:
    """statistic(*samples) with a percentile interval of a paired bootstrap over rows.

    A statistic that takes an `axis` is computed for all draws at once.
    """
    _check_samples(samples)
    with warnings.catch_warnings():
        # If all values of a draw are the same, it has no statistic, and the estimate no interval.
        warnings.simplefilter("ignore", scipy.stats.DegenerateDataWarning)
        interval = scipy.stats.bootstrap(
            samples,
            statistic,
            paired=True,
            method="percentile",
            n_resamples=draws,
            rng=np.random.default_rng(seed),
        ).confidence_interval
    return Estimate(
        value=float(statistic(*samples)),
        low=float(interval.low),
        high=float(interval.high),
        n=len(samples[0]),
    )


def _check_samples(samples: tuple):
    """Refuse samples that a paired bootstrap cannot draw from."""
    if not samples or not isinstance(samples[0], Sized) or len(samples[0]) < 2:
        raise CompanionError(
            "There is too little to draw from: a bootstrap needs two values or more."
        )
    sizes = [len(sample) for sample in samples]
    if len(set(sizes)) > 1:
        raise CompanionError(
            f"The samples have {' and '.join(map(str, sizes))} values: a "
            "paired bootstrap needs as many of each."
        )
    for sample in samples:
        try:
            has_all = not np.isnan(np.asarray(sample, dtype=float)).any()
        except (TypeError, ValueError):
            has_all = False
        if not has_all:
            raise CompanionError(
                "A sample has values that are not numbers, or nan: leave those items out first."
            )


def bootstrap_weights(n: int, draws: int, seed: int | np.random.Generator = 0) -> np.ndarray:
    """How often each of n items is drawn in each bootstrap resample: counts [draws, n].

    A resample draws n items with replacement, all equally likely, so that each row sums to n and is
    multinomial. A mean over a resample is then a weighted mean: for values [n], the means of all
    resamples are weights @ values / n.

    seed   a number, or a generator that is drawn from further: for independent resamples of
           several groups
    """
    return np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), draws)


def bootstrap_indices(n: int, draws: int, seed: int | np.random.Generator = 0) -> np.ndarray:
    """Which of n items are drawn in each bootstrap resample: indices [draws, n].

    For statistics that are no weighted sum; otherwise `bootstrap_weights` is faster. `seed` as
    there.
    """
    return np.random.default_rng(seed).integers(n, size=(draws, n))


def redrawn(drawn, n: int = 0, unit: str = "", method: str = "linear") -> Estimate:
    """The statistic of a sample with the percentile interval of its resamples.

    drawn    the sample's statistic, drawn[0], then that of each resample
    method   how numpy.quantile interpolates
    """
    low, high = np.quantile(drawn[1:], ENDS, method=method)
    return Estimate(float(drawn[0]), float(low), float(high), n, unit)


def mean(sample) -> Estimate:
    """The mean with Student's interval: for few values a bootstrap's would be too narrow."""
    middle = np.mean(sample)
    n = len(sample)
    reach = scipy.stats.t.ppf(0.975, n - 1) * np.std(sample, ddof=1) / np.sqrt(n)
    return Estimate(float(middle), float(middle - reach), float(middle + reach), n)


def difference(one: Estimate, other: Estimate) -> Estimate:
    """The difference of two estimates of separate samples, by MOVER (Zou and Donner 2008).

    Its interval needs no more than theirs: the distances from value to end are added as squares.
    Of paired samples it is too wide where items act alike in both. A value without an interval is
    taken to be exact.
    """
    first, second = (
        each if each.has_interval else replace(each, low=each.value, high=each.value)
        for each in (one, other)
    )
    value = first.value - second.value
    below = math.hypot(first.value - first.low, second.high - second.value)
    above = math.hypot(first.high - first.value, second.value - second.low)
    return Estimate(value, value - below, value + above, n=one.n, unit=one.unit)


def over_trainings(
    estimates: list[Estimate], draws: int = 10_000, seed: int = 0
) -> tuple[Estimate, Estimate]:
    """The mean of a quantity over trainings, and the same with the interval of one training more.

    Trainings and items are drawn together. All trainings have the same items, so that one draw of
    items moves every training by its own standard error. For the mean only the spread between
    trainings that items do not explain is counted beside it, so that items count once; for one more
    training all of it is, since how alike items act in all trainings is unknown. Trainings vary as
    Student's t, since a bootstrap of so few values varies too little.
    """
    if len(estimates) < 2:
        raise CompanionError(
            f"{len(estimates)} trainings tell nothing of another one: give two or more."
        )
    values, low, high = np.array([list(estimate) for estimate in estimates]).T
    n = len(values)
    of_items = np.mean(((high - low) / 2 / 1.96) ** 2)
    spread = values.var(ddof=1)
    rng = np.random.default_rng(seed)
    of_training = rng.standard_t(n - 1, draws)
    of_item = math.sqrt(of_items) * rng.normal(size=draws)
    found = []
    for variance in (max(0.0, spread - of_items) / n, spread * (1 + 1 / n)):
        ends = values.mean() + np.quantile(math.sqrt(variance) * of_training + of_item, ENDS)
        found.append(Estimate(float(values.mean()), *map(float, ends), n, "trainings"))
    mean, another = found
    return mean, another


def share(hits) -> Estimate:
    """The share of true values with the exact interval of a bootstrap.

    The number of hits among n values drawn with replacement is binomial.
    """
    n = len(hits)
    value = float(np.mean(hits))
    low, high = scipy.stats.binom.ppf(ENDS, n, value) / n
    return Estimate(value, float(low), float(high), n)


def wilson(hits) -> Estimate:
    """The share of true values with Wilson's interval, nan if there are no values.

    This interval is right near 0 and 1 too, and for few values.
    """
    n = len(hits)
    if not n:
        return Estimate(math.nan)
    interval = scipy.stats.binomtest(int(np.sum(hits)), n).proportion_ci(method="wilson")
    return Estimate(float(np.mean(hits)), float(interval.low), float(interval.high), n)


def scattered(values: np.ndarray, places: Sequence[int], n: int) -> np.ndarray:
    """The values at their places among n, nan at all others: what a sample computes of a whole."""
    whole = np.full((n, *np.shape(values)[1:]), np.nan)
    whole[list(places)] = values
    return whole


def first(items, n: int, always=()):
    """The first n (0: all) items of a list or a table, for a trial on few.

    always   places of items that are among them in any case
    """
    if not n or len(items) <= n:
        return items
    others = [place for place in range(len(items)) if place not in always]
    chosen = sorted([*always, *others][: max(n, len(always))])
    if hasattr(items, "iloc"):
        return items.iloc[chosen]
    return [items[place] for place in chosen]


def slope(x, y, axis: int = -1):
    """The slope of the least-squares line of y on x, along the last axis."""
    x = x - np.mean(x, axis, keepdims=True)
    return np.sum(x * y, axis) / np.sum(x * x, axis)


def rank_correlation(x, y, axis: int = -1):
    """Spearman's rho along the last axis; nan where all values are the same, or one is missing."""
    x_ranks = _centred_ranks(x, axis)
    y_ranks = _centred_ranks(y, axis)
    with np.errstate(invalid="ignore"):
        product = np.sum(x_ranks * y_ranks, axis)
        size = np.sqrt(np.sum(x_ranks * x_ranks, axis) * np.sum(y_ranks * y_ranks, axis))
        return product / size


def _centred_ranks(values, axis: int) -> np.ndarray:
    """Ranks along an axis, minus their mean."""
    n = np.shape(values)[axis]
    return scipy.stats.rankdata(values, axis=axis) - (n + 1) / 2
