"""The best setting, chosen on one half of the items and judged on the other, both ways.

    halves.of_bias(measured, "S")[WRITTEN].best(EVERY)    by S or D
    halves.of_fairness(measured).best(EVERY)              by eta
    halves.of_bias(measured, "S", whole=True)[MANY].does([1])    chosen on nothing: of all items

The best of many settings is below base on the items that chose it even if settings do nothing but
scatter. So what it does is measured on the other items, and held against random directions of the
same rank, weight and place. A claim that counts several things, "all of 24", is measured as their
share, ties apart: "all" is a share of 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from companion.claims import Beside
from companion.projective.table7 import BASE
from lib.engine import stats
from lib.engine.stats import Estimate
from lib.projective import nli

# What is resampled.
TRIPLE_PAIRS = "triple pairs"
OCCUPATIONS = "occupations"
DRAWS = 500  # bootstrap samples, where a caller does not say how many
AGREE = ("all", "most")  # contexts of an occupation that has parity: the two analysis variants
RANDOM = "random directions"  # of equal rank, weight and place


@dataclass(frozen=True)
class Best:
    """What the best setting of some does, chosen on one half and judged on the other, both ways."""

    chosen: Sequence[int]  # on either half; none where no model is viable
    judged: Estimate  # its S, D or eta
    change: Estimate  # by how much this is better than base
    random: Estimate  # the same under random directions
    beyond: Estimate  # change less random

    @property
    def estimates(self) -> tuple[Estimate, ...]:
        return self.judged, self.change, self.random, self.beyond

    @property
    def beside(self) -> Beside:
        return Beside(RANDOM, self.random, self.beyond)


@dataclass(frozen=True)
class Halves:
    """A measure of models on two halves of the items: chosen on one, judged on the other.

    Or on one part, all of them, where nothing is chosen.
    """

    # Of each half [1 + random choices, 1 + draws, models]: fitted directions first, the sample
    # first.
    values: list[np.ndarray]
    worth: list[np.ndarray]  # of each half [models]: the highest is chosen
    viable: list[np.ndarray]  # of each half [models]: among these
    n: int  # items
    unit: str  # what they are
    better: int  # 1 where higher is better, -1 where lower is

    def choose(self, among: Sequence[int], worth: np.ndarray | None = None) -> list[int]:
        """For each half, the best model by the other half; [] where none is viable on one of them.

        worth   to choose by, in place of the halves' own
        """
        chosen = []
        for other in (1, 0):
            values = self.worth[other] if worth is None else worth
            viable = [i for i in among if self.viable[other][i]]
            if not viable:
                return []
            chosen.append(max(viable, key=lambda i: values[i]))
        return chosen

    def judged(self, chosen: Sequence[int]) -> np.ndarray:
        """The mean over both halves, [1 + random choices, 1 + draws]; nan where nothing was chosen.

        chosen   the model to judge on the first half, and on the second
        """
        if not chosen:
            return self.judged([BASE, BASE]) * np.nan
        of_halves = [values[..., i] for values, i in zip(self.values, chosen)]
        return np.mean(of_halves, axis=0)

    def fitted(self, chosen: Sequence[int]) -> np.ndarray:
        """`judged` under the fitted directions alone: [1 + draws]."""
        return self.judged(chosen)[0]

    def of_base(self) -> np.ndarray:
        return self.fitted([BASE, BASE])

    def estimate(self, drawn: np.ndarray) -> Estimate:
        """A quantity [1 + draws] with its interval over the items."""
        return stats.redrawn(drawn, self.n, self.unit)

    def best(self, among: Sequence[int]) -> Best:
        """What the best of some models does."""
        return self.does(self.choose(among))

    def does(self, chosen: Sequence[int]) -> Best:
        """What the models do that were chosen on either half."""
        fitted, *of_random = self.judged(chosen)
        random = np.mean(of_random, axis=0)
        base = self.of_base()
        return Best(
            chosen=chosen,
            judged=self.estimate(fitted),
            change=self.estimate(self.better * (fitted - base)),
            random=self.estimate(self.better * (random - base)),
            beyond=self.estimate(self.better * (fitted - random)),
        )

    def steps(self, steps: np.ndarray) -> tuple[Estimate, Beside]:
        """The share of steps [steps, 1 + random choices, 1 + draws] above 0, beside random ones."""
        of_random = steps[:, 1:].mean(1)
        return beside_random(share_met(steps[:, 0]), share_met(of_random), self.n, self.unit)


def split(n: int, rng: np.random.Generator) -> list[np.ndarray]:
    """The numbers below n, in two halves drawn at random."""
    return np.split(rng.permutation(n), [n // 2])


def resampled(n: int, draws: int, rng: np.random.Generator) -> np.ndarray:
    """The numbers below n, then bootstrap samples of them: [1 + draws, n].

    Numbers and not weights (`weights`): the mean of the highest tenth needs the values.
    """
    return np.vstack([np.arange(n), stats.bootstrap_indices(n, draws, rng)])


def weights(n: int, draws: int, seed: int | np.random.Generator) -> np.ndarray:
    """Weights of n items that sum to 1: first the sample itself, then bootstrap samples of it.

    Shape [1 + draws, n]: a product with values [n] gives their mean and its bootstrap samples.
    """
    return np.vstack([np.ones(n), stats.bootstrap_weights(n, draws, seed)]) / n


# ---- several things that are counted
def share_met(differences: np.ndarray) -> np.ndarray:
    """Of several things [things, samples], the share whose difference is above 0; [samples].

    Ties are apart, as is what has no value: they are neither above 0 nor below it. nan where all
    are.
    """
    values = stats.settled(np.asarray(differences, dtype=float))
    above = (values > 0).sum(0)
    decided = above + (values < 0).sum(0)
    return np.where(decided > 0, above / np.maximum(decided, 1), np.nan)


def of_shares(shares: np.ndarray, n: int, unit: str) -> Estimate:
    """The sample's share, shares[0], with its interval over those bootstrap samples that have one.

    n, unit   the items that were resampled
    """
    value, *drawn = np.asarray(shares, dtype=float)
    known = [share for share in drawn if not np.isnan(share)]
    if np.isnan(value) or not known:
        return Estimate(np.nan, n=n, unit=unit)
    # No mean of two neighbours: a share of three things is 0, a third, two thirds or 1.
    return stats.redrawn([value, *known], n, unit, method="inverted_cdf")


def beside_random(
    shares: np.ndarray, of_random: np.ndarray, n: int, unit: str
) -> tuple[Estimate, Beside]:
    """A share, and the same under random directions."""
    difference = of_shares(shares - of_random, n, unit)
    beside = Beside(RANDOM, of_shares(of_random, n, unit), difference)
    return of_shares(shares, n, unit), beside


# ---- S and D over the triple pairs
def tops(values: np.ndarray, share: float = 0.1) -> np.ndarray:
    """nsp.top_mean along the last dimension."""
    n = max(1, round(values.shape[-1] * share))
    return np.partition(values, -n, axis=-1)[..., -n:].mean(-1)


def top_means(measured: dict, key: str, rows: np.ndarray) -> np.ndarray:
    """S or D of samples of the triple pairs: [fits and then random choices, samples, models].

    key   "s" or "d"
    rows  the triple pairs of each sample, [samples, pairs]
    """
    directions = [*measured[key], *measured["random"][key]]
    return np.array([tops(values[:, rows]).T for values in directions])


def of_bias(
    measured: dict, column: str, draws: int | None = None, whole: bool = False
) -> dict[str, Halves]:
    """S or D over halves of the triple pairs, by fit.

    measured   of projection.measure or leace.measure
    draws      bootstrap samples; DRAWS where it is left out
    whole      over all triple pairs at once, since nothing is chosen
    """
    draws = DRAWS if draws is None else draws
    rng = np.random.default_rng(0)
    n = measured["s"].shape[-1]
    by_part = []
    for part in [np.arange(n)] if whole else split(n, rng):
        rows = part[resampled(len(part), draws, rng)]
        by_part.append(top_means(measured, column.lower(), rows))
    n_fits = len(measured["fits"])
    found = {}
    for at, fit in enumerate(measured["fits"]):
        found[fit] = Halves(
            values=[np.concatenate([part[[at]], part[n_fits:]]) for part in by_part],
            worth=[-part[at, 0] for part in by_part],
            viable=[np.ones(part.shape[-1], dtype=bool) for part in by_part],
            n=n,
            unit=TRIPLE_PAIRS,
            better=-1,
        )
    return found


# ---- eta over the occupations
def of_fairness(
    measured: dict,
    fit: str = nli.PAIRS,
    agree: str = "most",
    draws: int | None = None,
    whole: bool = False,
) -> Halves:
    """eta over halves of the occupations; viable by halves of the pairs of the task.

    Viable is within 5 points of base. Of equal etas the more accurate model is chosen.
    measured   of nli.measure or leace.measure_nli
    agree      one of AGREE
    draws      bootstrap samples; DRAWS where it is left out
    whole      over all occupations at once, since nothing is chosen
    """
    draws = DRAWS if draws is None else draws
    rng = np.random.default_rng(0)
    of_fit = nli.under(measured, fit)
    own_neutral, own_agree = nli.by_model(of_fit)
    # [1 + random choices, models, occupations]
    neutral = np.concatenate([own_neutral[None], measured["random"]["neutral"]])
    parity = has_parity(np.concatenate([own_agree[None], measured["random"]["agree"]]), agree)
    n = neutral.shape[-1]
    right = of_fit["right"]
    values = []
    for part in [np.arange(n)] if whole else split(n, rng):
        drawn = weights(len(part), draws, rng)
        values.append(eta_of_samples(drawn, neutral[..., part], parity[..., part].astype(float)))
    pairs = right.shape[1]
    parts = [np.arange(pairs)] if whole else split(pairs, rng)
    accuracy = [right[:, part].mean(1) for part in parts]
    return Halves(
        values=values,
        worth=[etas[0, 0] + 1e-9 * own for etas, own in zip(values, accuracy)],
        viable=[nli.viable(own, own[BASE]) for own in accuracy],
        n=n,
        unit=OCCUPATIONS,
        better=1,
    )


def has_parity(same: np.ndarray, agree: str) -> np.ndarray:
    """Whether an occupation has parity, by the share of its contexts that agree.

    agree   one of AGREE: all of them, or most
    """
    return same == 1 if agree == "all" else same > 0.5


def eta_of_samples(drawn: np.ndarray, neutral: np.ndarray, parity: np.ndarray) -> np.ndarray:
    """Equation 4 in samples of the occupations: [directions, samples, models].

    drawn             weights of the samples, [samples, occupations]
    neutral, parity   [directions, models, occupations]
    """
    etas = []
    for of_neutral, of_parity in zip(neutral, parity):
        etas.append((drawn @ of_neutral.T) * (drawn @ of_parity.T))
    return np.array(etas)
