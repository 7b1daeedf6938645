"""What notebook 08 says of the 76 models: S and D, and what the claims' tests measure of them.

`measured` is what projection.measure returned, looked at under one fit. Triple pairs are
resampled. What a precondition asks is "" where it is met, else why not, as `claims.Test.needs` has
it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from companion.claims import Beside
from companion.projective import halves
from companion.projective.halves import Halves
from companion.projective.stereoset import BLIND
from companion.projective.table7 import ABOUT, CUTS, EVERY, HARD2, MODELS, OF_LEVEL, PLACE
from lib.engine import stats
from lib.engine.stats import Estimate
from lib.projective import triples
from lib.projective.projection import LEVELS, WRITTEN, Level, Setting
from lib.text import factual

ALWAYS = 4 / 6  # the accuracy of calling every sentence of a triple pair the next one


def by_model(measured: dict, fit: str = WRITTEN) -> pd.DataFrame:
    """S, D, next-sentence accuracy under one fit, and the columns of ABOUT, a row per model."""
    at = measured["fits"].index(fit)
    return ABOUT.assign(
        S=halves.tops(measured["s"][at]),
        D=halves.tops(measured["d"][at]),
        accuracy=measured["accuracy"][at].mean(-1),
    )


def facts_row(
    model: str, kind: str, odds: np.ndarray, before: np.ndarray, draws: int = 2_000
) -> dict[str, str | float | Estimate]:
    """One row of the table of factual gender, the mean of several draws [draws, sentences]."""
    shares = (odds > 0).mean(0)  # of the draws, in which a sentence is right
    right = stats.bootstrap(np.mean, shares.reshape(-1, 2).mean(1), draws=draws)
    return {
        "model": model,
        "directions": kind,
        "right": right,
        "change": right.value - (before > 0).mean(),
        "change of log odds": factual.knowledge(odds.mean(0), before, draws).odds,
    }


# ---- what the claims' tests measure
def is_biased(measured: dict) -> str:
    """Claims on S ask for a stereotype to remove."""
    lead = triples.strength_lead(measured["s"][0, 0])
    return "" if lead.is_above() else f"S is not above its opposite: by {lead:z.2f}"


def reads(measured: dict) -> str:
    """Claims on D ask for a model that tells next sentences from unrelated ones."""
    share_right = stats.bootstrap(np.mean, measured["accuracy"][0, 0], draws=halves.DRAWS)
    return "" if share_right.low > ALWAYS else f"{BLIND}: {share_right} right"


def relative_change(of_halves: Halves, chosen: Sequence[int]) -> Estimate:
    """What a setting changes of S or D, as a share of base's."""
    with np.errstate(invalid="ignore"):  # 0 of 0
        return of_halves.estimate(of_halves.fitted(chosen) / of_halves.of_base() - 1)


def deeper_is_lower(of_halves: Halves) -> tuple[Estimate, Beside]:
    """At what share of 3 steps inwards the best setting of a level is below the best before it."""
    best = [of_halves.judged(of_halves.choose(OF_LEVEL[level])) for level in LEVELS]
    return of_halves.steps(-np.diff(best, axis=0))


def search_gains(of_halves: Halves) -> Estimate:
    """By how much the best of all 74 is below the best that takes out one component whole at each
    place.
    """
    plain = of_halves.fitted(of_halves.choose([i for i in EVERY if _is_plain(MODELS[i])]))
    return of_halves.estimate(plain - of_halves.fitted(of_halves.choose(EVERY)))


def _is_plain(setting: Setting) -> bool:
    """Whether one component is taken out whole at each place."""
    return {setting.tokens, setting.cls, setting.sent} <= {None, CUTS[0]}


@dataclass(frozen=True)
class Resampled:
    """S of the 76 models over all triple pairs, and over bootstrap samples of them."""

    S: np.ndarray  # [1 + draws, 76]
    of_random: np.ndarray  # [random choices, 1 + draws, 76]
    s: np.ndarray  # of the triple pairs, [76, pairs]
    rows: np.ndarray  # the triple pairs of each sample

    @classmethod
    def of(cls, measured: dict, draws: int | None = None) -> "Resampled":
        draws = halves.DRAWS if draws is None else draws
        rows = halves.resampled(measured["s"].shape[-1], draws, np.random.default_rng(0))
        first = measured | {"s": measured["s"][:1]}
        S, *of_random = halves.top_means(first, "s", rows)
        return cls(S=S, of_random=np.array(of_random), s=measured["s"][0], rows=rows)

    @property
    def items(self) -> tuple[int, str]:
        """How many were resampled, and what."""
        return self.s.shape[-1], halves.TRIPLE_PAIRS

    def share(self, differences: Sequence[np.ndarray]) -> Estimate:
        """The share of things [things, samples] that are above 0."""
        return halves.of_shares(halves.share_met(differences), *self.items)

    def extension_lowers(self, weighted: bool) -> Estimate:
        """Of 4 extensions of SENT to layer 12, the share as said: all lower S but HARD2.

        weighted   the paper's np = 1
        """
        sent = OF_LEVEL[Level.SENT][weighted]
        as_said = []
        for cut in CUTS:
            extended = PLACE[replace(MODELS[sent], cls=cut)]
            fall = self.S[:, sent] - self.S[:, extended]
            as_said.append(-fall if cut == HARD2 else fall)
        return self.share(as_said)

    def hard2_is_worst(self) -> Estimate:
        """Of 8 settings with HARD2 at layer 11, the share with a higher S than all other cuts."""
        above = []
        for setting in _deep_settings(with_hard2=True):
            others = [PLACE[replace(setting, tokens=cut)] for cut in CUTS if cut != HARD2]
            above.append(self.S[:, PLACE[setting]] - self.S[:, others].max(1))
        return self.share(above)

    def attention_lowers(self) -> tuple[Estimate, Beside]:
        """Of the 24 settings at layer 11 without HARD2, the share whose S attention lowers."""
        shares, *of_random = [
            halves.share_met(_lowered_by_attention(S, with_hard2=False))
            for S in (self.S, *self.of_random)
        ]
        return halves.beside_random(shares, np.mean(of_random, axis=0), *self.items)

    def attention_does_not(self) -> Estimate:
        """Of the 8 settings at layer 11 with HARD2, the share whose S attention raises."""
        return self.share(-_lowered_by_attention(self.S, with_hard2=True))

    def ranks_kept(self) -> Estimate:
        """How alike models rank by S at 10 %, and at 5 % or 20 %: the lower Spearman's rho."""
        at_5 = stats.rank_correlation(self.S, halves.tops(self.s[:, self.rows], 0.05).T)
        at_20 = stats.rank_correlation(self.S, halves.tops(self.s[:, self.rows], 0.2).T)
        return stats.redrawn(np.minimum(at_5, at_20), *self.items)


def _lowered_by_attention(S: np.ndarray, with_hard2: bool) -> np.ndarray:
    """How far attention lowers S of the 8 settings at layer 11 with HARD2, or of the other 24."""
    falls = []
    for setting in _deep_settings(with_hard2):
        falls.append(S[:, PLACE[setting]] - S[:, PLACE[replace(setting, attention=True)]])
    return np.array(falls)


def _deep_settings(with_hard2: bool) -> list[Setting]:
    """The settings of layer 11 that have HARD2 at the tokens, or those that have not."""
    deep = [MODELS[i] for i in OF_LEVEL[Level.LAYER_11]]
    return [setting for setting in deep if (setting.tokens == HARD2) == with_hard2]
