"""Numbers with their uncertainty, asked for in one way everywhere: thin covers over scipy.

gap = stats.bootstrap(difference, before, after)       # an Estimate: value, 95 % interval, n
f"{gap}", f"{gap:+.3f}", gap - .05, -gap               # printed and shifted with its interval"""

import math
import warnings
from dataclasses import dataclass, replace

import numpy as np

from lib import CompanionError, Lazy

stats = Lazy("scipy.stats")
SETTLED = 6  # decimals that machines agree in but for rounding


@dataclass(frozen=True)
class Estimate:
    """A value with its 95 % interval. Unrounded: rounding is for whoever prints it."""

    value: float
    low: float = math.nan  # nan: no interval is known
    high: float = math.nan
    n: int = 0  # how many items it is over; 0: unknown
    unit: str = ""

    @property
    def has_interval(self) -> bool:
        return not (math.isnan(self.low) or math.isnan(self.high))

    def is_above(self, threshold: float = 0.0) -> bool:
        """Whether the whole interval is."""
        return bool(settled(self.low - threshold) > 0)

    def is_below(self, threshold: float = 0.0) -> bool:
        """Whether the whole interval is."""
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
        """value [low, high], each by the format of a float, .2f unless told: "z.2f" writes no -0.00."""
        value, low, high = (format(number, spec or ".2f") for number in self)
        return f"{value} [{low}, {high}]" if self.has_interval else value

    def __str__(self):
        return format(self, "")


def settled(values):
    """Numbers without the digits that differ from machine to machine (tolerance.py), for what hangs on an edge:
    a sign, a rank, the name of the lowest. What is equal but for rounding is equal then."""
    return np.round(values, SETTLED)


def bootstrap(statistic, *samples, draws: int = 2_000, seed: int = 0) -> Estimate:
    """statistic(*samples) with a percentile interval over rows drawn with replacement, the samples kept paired.
    One that takes an axis is computed of all draws at once."""
    if not samples or len(samples[0]) < 2:
        raise CompanionError(
            "There is too little to draw from: a bootstrap needs two values or more."
        )
    if len({len(sample) for sample in samples}) > 1:
        raise CompanionError(
            f"The samples have {' and '.join(str(len(sample)) for sample in samples)} values: a "
            "paired bootstrap needs as many of each."
        )
    if any(np.isnan(np.asarray(sample, dtype=float)).any() for sample in samples):
        raise CompanionError(
            "A sample has values that are not numbers (nan): leave those items out first."
        )
    with warnings.catch_warnings():
        # of draws in which all values are the same: they have no statistic, and the estimate then no interval
        warnings.simplefilter("ignore", stats.DegenerateDataWarning)
        interval = stats.bootstrap(
            samples,
            statistic,
            paired=True,
            method="percentile",
            n_resamples=draws,
            rng=np.random.default_rng(seed),
        ).confidence_interval
    return Estimate(
        float(statistic(*samples)), float(interval.low), float(interval.high), len(samples[0])
    )


def redrawn(drawn, n: int = 0, unit: str = "", method: str = "linear") -> Estimate:
    """A statistic of the sample, drawn[0], with the middle 95 % of what it is in samples drawn again, the others."""
    return Estimate(
        float(drawn[0]), *map(float, np.quantile(drawn[1:], [0.025, 0.975], method=method)), n, unit
    )


def mean(sample) -> Estimate:
    """The mean with Student's interval: for few values, for which a bootstrap's interval would be too narrow."""
    middle, n = np.mean(sample), len(sample)
    reach = stats.t.ppf(0.975, n - 1) * np.std(sample, ddof=1) / np.sqrt(n)
    return Estimate(float(middle), float(middle - reach), float(middle + reach), n)


def over_trainings(
    estimates: list[Estimate], draws: int = 10_000, seed: int = 0
) -> tuple[Estimate, tuple]:
    """One quantity in several trainings: its mean, and what share of its variance is theirs, at least and at most.

    The interval is of another training on other items: trainings and items are drawn together. The mean over trainings
    varies as Student's t, since so few values drawn from themselves vary too little; items are the same in all, so that
    one draw of them moves every training by its own standard error. Of how alike items act in all trainings nothing is
    known. The higher share takes them to act quite alike, so that all that differs is the training's; the lower one to
    act independently, so that they differ too. What differs is counted with the trainings and items are added: the
    interval is rather too wide than too narrow."""
    if len(estimates) < 2:
        raise CompanionError(
            f"{len(estimates)} trainings tell nothing of another one: give two or more."
        )
    values, low, high = np.array([list(each) for each in estimates]).T
    n, errors, rng = len(values), (high - low) / 2 / 1.96, np.random.default_rng(seed)
    between, within = values.var(ddof=1), np.mean(errors**2)
    luck, items = (
        math.sqrt(between / n) * rng.standard_t(n - 1, draws),
        np.mean(errors) * rng.normal(size=draws),
    )
    shares = (
        max(0.0, 1 - within / between) if between else 0.0,
        between / (between + within) if between else 0.0,
    )
    ends = values.mean() + np.quantile(luck + items, [0.025, 0.975])
    return Estimate(float(values.mean()), *map(float, ends), n, "trainings"), shares


def share(hits) -> Estimate:
    """The share of true values with the exact interval of a bootstrap: hits among n values drawn are binomial."""
    n, value = len(hits), float(np.mean(hits))
    low, high = stats.binom.ppf([0.025, 0.975], n, value) / n
    return Estimate(value, float(low), float(high), n)


def wilson(hits) -> Estimate:
    """The share of true values with Wilson's interval, right near 0 and 1 and for few values; nan of none."""
    if not len(hits):
        return Estimate(math.nan)
    ends = stats.binomtest(int(np.sum(hits)), len(hits)).proportion_ci(method="wilson")
    return Estimate(float(np.mean(hits)), float(ends.low), float(ends.high), len(hits))


def first(items, n: int, always=()):
    """The first n (0: all) of a list or a table, those at the places `always` among them: for a try on few items."""
    if not n or len(items) <= n:
        return items
    chosen = sorted(
        [*always, *(i for i in range(len(items)) if i not in set(always))][: max(n, len(always))]
    )
    return items.iloc[chosen] if hasattr(items, "iloc") else [items[i] for i in chosen]


def slope(x, y, axis: int = -1):
    """Of the least-squares line of y on x, along the last axis."""
    x = x - np.mean(x, axis, keepdims=True)
    return np.sum(x * y, axis) / np.sum(x * x, axis)


def rank_correlation(x, y, axis: int = -1):
    """Spearman's rho along the last axis; nan where all values are the same, or one is missing."""
    x, y = (
        stats.rankdata(values, axis=axis) - (np.shape(values)[axis] + 1) / 2 for values in (x, y)
    )
    with np.errstate(invalid="ignore"):
        return np.sum(x * y, axis) / np.sqrt(np.sum(x * x, axis) * np.sum(y * y, axis))
