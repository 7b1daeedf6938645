"""The best setting, chosen on one half of the items and judged on the other, both ways.

    split_half.of_bias(measured, "S")[WRITTEN].best(split_half.EVERY)    by S or D
    split_half.of_fairness(measured).best(split_half.EVERY)              by eta

The best of many settings is below base on the items that chose it even if settings do nothing but
scatter. So what it does is measured on the other items, and held against random directions of the
same rank, weight and place. Models go by their number in tables.MODELS: 0 is base, 1 sent-debias.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from companion.projective import tables
from lib.engine import stats
from lib.engine.stats import Estimate
from lib.projective import nli
from lib.projective.projection import LEVELS, Setting

# What is resampled.
TRIPLE_PAIRS = "triple pairs"
OCCUPATIONS = "occupations"
DRAWS = 500  # bootstrap samples, where a caller does not say how many
AGREE = ("all", "most")  # contexts of an occupation that has parity: the two analysis variants

BASE = 0
SENT_DEBIAS = 1
PLACE = {setting: i for i, setting in enumerate(tables.MODELS)}
EVERY = list(range(2, len(tables.MODELS)))  # the 74


def _of_level(level: str) -> list[int]:
    """The places of a level's settings among the 76 models."""
    return [i for i in EVERY if tables.MODELS[i].level == level]


OF_LEVEL = {level: _of_level(level) for level in LEVELS}


def _is_plain(setting: Setting) -> bool:
    """Whether one component is taken out whole at each place."""
    cuts = [cut for cut in (setting.tokens, setting.cls, setting.sent) if cut]
    return not any(cut.weighted or cut.second for cut in cuts)


PLAIN = [i for i in EVERY if _is_plain(tables.MODELS[i])]


@dataclass(frozen=True)
class Best:
    """What the best setting of some does, chosen on one half and judged on the other, both ways."""

    settings: tuple[str, ...]  # chosen on either half; none where no model is viable
    judged: Estimate  # its S, D or eta
    change: Estimate  # by how much this is better than base
    random: Estimate  # the same under random directions
    beyond: Estimate  # change less random

    @property
    def estimates(self) -> tuple[Estimate, ...]:
        return self.judged, self.change, self.random, self.beyond


@dataclass(frozen=True)
class Halves:
    """A measure of the 76 models on two halves of the items: chosen on one, judged on the other."""

    # Of each half [1 + random choices, 1 + draws, 76]: fitted directions first, the sample first.
    values: list[np.ndarray]
    worth: list[np.ndarray]  # of each half [76]: the highest is chosen
    viable: list[np.ndarray]  # of each half [76]: among these
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
        first, second = chosen or (BASE, BASE)
        mean = np.mean([self.values[0][..., first], self.values[1][..., second]], axis=0)
        return mean if chosen else mean * np.nan

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
        chosen = self.choose(among)
        fitted, *of_random = self.judged(chosen)
        random = np.mean(of_random, axis=0)
        base = self.of_base()
        return Best(
            settings=names(chosen),
            judged=self.estimate(fitted),
            change=self.estimate(self.better * (fitted - base)),
            random=self.estimate(self.better * (random - base)),
            beyond=self.estimate(self.better * (fitted - random)),
        )


def names(chosen: Sequence[int]) -> tuple[str, ...]:
    """The names of the models chosen on either half, one where they are the same."""
    return tuple(dict.fromkeys(tables.NAMES[i] for i in chosen))


def split(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The numbers below n, in two halves drawn at random."""
    first, second = np.split(rng.permutation(n), [n // 2])
    return first, second


def resampled_rows(n: int, draws: int, rng: np.random.Generator) -> np.ndarray:
    """The numbers below n, then bootstrap samples of them: [1 + draws, n].

    Numbers and not weights (`tables.weights`): the mean of the highest tenth needs the values.
    """
    return np.vstack([np.arange(n), stats.bootstrap_indices(n, draws, rng)])


# ---- S and D over halves of the triple pairs
def top_means(measured: dict, key: str, rows: np.ndarray) -> np.ndarray:
    """S or D of samples of the triple pairs: [fits and then random choices, samples, 76].

    key   "s" or "d"
    rows  the triple pairs of each sample, [samples, pairs]
    """
    directions = [*measured[key], *measured["random"][key]]
    return np.array([tables.tops(values[:, rows]).T for values in directions])


def of_bias(measured: dict, column: str, draws: int | None = None) -> dict[str, Halves]:
    """S or D over halves of the triple pairs, by fit.

    measured   of projection.measure
    draws      bootstrap samples; DRAWS where it is left out
    """
    draws = DRAWS if draws is None else draws
    rng = np.random.default_rng(0)
    n = measured["s"].shape[-1]
    fits = measured["fits"]
    by_half = []
    for half in split(n, rng):
        rows = half[resampled_rows(len(half), draws, rng)]
        by_half.append(top_means(measured, column.lower(), rows))
    all_viable = np.ones(len(tables.MODELS), bool)
    found = {}
    for at, fit in enumerate(fits):
        values = []
        for half in by_half:
            fitted, random = half[[at]], half[len(fits) :]
            values.append(np.concatenate([fitted, random]))
        found[fit] = Halves(
            values=values,
            worth=[-half[at, 0] for half in by_half],
            viable=[all_viable, all_viable],
            n=n,
            unit=TRIPLE_PAIRS,
            better=-1,
        )
    return found


# ---- eta over halves of the occupations
def of_fairness(
    measured: dict, fit: str = nli.PAIRS, agree: str = "most", draws: int | None = None
) -> Halves:
    """eta over halves of the occupations; viable by halves of the pairs of the task.

    Viable is within 5 points of base. Of equal etas the more accurate model is chosen.
    measured   of nli.measure
    agree      one of AGREE
    draws      bootstrap samples; DRAWS where it is left out
    """
    draws = DRAWS if draws is None else draws
    rng = np.random.default_rng(0)
    of_fit = nli.under(measured, fit)
    own_neutral, own_agree = nli.by_model(of_fit)
    # [1 + random choices, 76, occupations]
    neutral = np.concatenate([own_neutral[None], measured["random"]["neutral"]])
    parity = has_parity(np.concatenate([own_agree[None], measured["random"]["agree"]]), agree)
    n = neutral.shape[-1]
    values = []
    for half in split(n, rng):
        weights = tables.weights(len(half), draws, rng)
        values.append(eta_of_samples(weights, neutral[..., half], parity[..., half].astype(float)))
    accuracy = []
    for half in split(of_fit["right"].shape[1], rng):
        accuracy.append(of_fit["right"][:, half].mean(1))
    worth = []
    for etas, right in zip(values, accuracy):
        worth.append(etas[0, 0] + 1e-9 * right)
    return Halves(
        values=values,
        worth=worth,
        viable=[nli.viable(right, right[BASE]) for right in accuracy],
        n=n,
        unit=OCCUPATIONS,
        better=1,
    )


def has_parity(same: np.ndarray, agree: str) -> np.ndarray:
    """Whether an occupation has parity, by the share of its contexts that agree.

    agree   one of AGREE: all of them, or most
    """
    return same == 1 if agree == "all" else same > 0.5


def eta_of_samples(weights: np.ndarray, neutral: np.ndarray, parity: np.ndarray) -> np.ndarray:
    """Equation 4 in samples of the occupations: [directions, samples, 76].

    weights           [samples, occupations]
    neutral, parity   [directions, 76, occupations]
    """
    etas = []
    for of_neutral, of_parity in zip(neutral, parity):
        etas.append((weights @ of_neutral.T) * (weights @ of_parity.T))
    return np.array(etas)
