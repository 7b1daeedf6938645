"""What the tests of Projective methods measure: estimates with 95 % intervals, by notebook.

07   SS, s and d, over triples
08   projections, S and D, over triple pairs
09   inference: accuracy over pairs of the task, eta over occupations

Notebooks put them into rows of tests; data/claims.csv has the thresholds. Choices that the paper
leaves open are the constants below. A claim that counts several things, "all of 24", is measured as
their share, ties apart: "all" is a share of 1. A best setting is chosen on one half of the items
and judged on the other (split_half.py). What a precondition asks is "" where it is met, else why
not, as `claims.Test.needs` has it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from companion.claims import Beside
from companion.projective import split_half, tables
from companion.projective.split_half import EVERY, OF_LEVEL, PLACE, SENT_DEBIAS, Best, Halves
from lib.engine import nsp, stats
from lib.engine.stats import Estimate
from lib.projective import nli, triples
from lib.projective.projection import LEVELS, Cut, Level, Setting

RANDOM = "random directions"  # of equal rank, weight and place
SAME = 1e-6  # a smaller difference is none: of a model that gives one answer to everything
# The variants of claims on triples, where both of the authors' files are read: the paper reads the
# development file alone. Of more triples more is known, so that both files decide.
BOTH_FILES = "both files"
PAPERS_FILE = "the paper's file"
# "almost indistinguishable": less than a hundredth of the spread of p(next), which is from 2.5 to
# 97.5 % of all sentences.
HAIR = 0.01
# "s close to 0": within a fifth of the mean of the highest tenth of |s|. Of normally distributed s
# 32 % lie there, of doubly exponential ones 48 %: most is a longer tail than either.
CLOSE = 0.2
# So many triples have to be read right, as Table 1's is, before a share of them says anything.
ENOUGH = 10
ALWAYS = 4 / 6  # the accuracy of calling every sentence of a triple pair the next one
BLIND = "next sentences are told from unrelated ones no better than by chance"  # what reads not
TASK_PAIRS = "pairs of the task"
# Which of the six sentences of nsp.COLUMNS belong to their context.
BELONGS = np.array([not name.endswith("unrelated") for name in nsp.COLUMNS])
# The four ways to cut at a place, in Table 7's order; HARD2 is two components whole, the paper's
# (0, 1).
HARD1 = Cut(weighted=False, second=False)
HARD2 = Cut(weighted=False, second=True)
WEIGHTED1 = Cut(weighted=True, second=False)
WEIGHTED2 = Cut(weighted=True, second=True)
CUTS = (HARD1, HARD2, WEIGHTED1, WEIGHTED2)


def files(context_ids: Sequence[int]) -> dict[str, np.ndarray]:
    """Which triples a claim is tested on, a mask by variant; "" where there is but one."""
    is_papers = triples.is_papers(context_ids)
    every = np.ones(len(is_papers), dtype=bool)
    if is_papers.all():
        return {"": every}
    return {BOTH_FILES: every, PAPERS_FILE: is_papers}


def unless(is_met: bool, why: str) -> str:
    """A precondition, as `claims.Test.needs` has it."""
    return "" if is_met else why


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


def beside_random(shares: np.ndarray, of_random: np.ndarray, n: int, unit: str) -> Beside:
    """A share beside the same under random directions."""
    difference = of_shares(shares - of_random, n, unit)
    return Beside(RANDOM, of_shares(of_random, n, unit), difference)


def beyond_random(best: Best) -> Beside:
    """What a best setting does beside random directions."""
    return Beside(RANDOM, best.random, best.beyond)


# ---- notebook 07: triples as a model judges them, triples.frame
def needs_of_triples(p_next: pd.DataFrame) -> dict[str, str]:
    """The model has to differ between sentences, and to tell which of them follow."""
    is_right = _is_right(p_next)
    share_right = stats.bootstrap(
        lambda belong, other: (belong.mean() + other.mean()) / 2,
        is_right[:, BELONGS].mean(1),
        is_right[:, ~BELONGS].mean(1),
        draws=split_half.DRAWS,
    )
    differs = np.ptp(p_next[nsp.COLUMNS].to_numpy()) > SAME
    return {
        "differs": unless(differs, "p(next) is the same for all sentences"),
        "reads": unless(share_right.low > 0.5, f"{BLIND}: {share_right} of both kinds"),
    }


def _is_right(p_next: pd.DataFrame) -> np.ndarray:
    """Whether each of the six sentences is called rightly the next one, or not."""
    return (p_next[nsp.COLUMNS].to_numpy() > 0.5) == BELONGS


def is_counted(p_next: pd.DataFrame) -> np.ndarray:
    """Which triples SS counts, of those that are read right.

    Read right: both sentences that belong are called the next one and the unrelated one is not, as
    in the paper's Table 1.
    """
    is_read_right = _is_right(p_next)[:, :3].all(axis=1)
    return (p_next["stereo"] > p_next["anti"]).to_numpy() & is_read_right


def too_few(counted: np.ndarray) -> str:
    """A precondition: SS counts so many triples that a share of them says something."""
    n = int(counted.sum())
    return unless(n >= ENOUGH, f"SS counts {n} triples that are read right")


def by_a_hair(p_next: pd.DataFrame) -> Estimate:
    """Of the triples that SS counts, the share that is preferred by next to nothing."""
    spread = np.ptp(np.quantile(p_next[nsp.COLUMNS].to_numpy(), [0.025, 0.975]))
    return _share_of_counted(p_next, p_next["stereo"] - p_next["anti"] < HAIR * spread)


def in_the_twin(p_next: pd.DataFrame) -> Estimate:
    """Of the triples that SS counts, the share that prefers the same sentence after the swap."""
    return _share_of_counted(p_next, p_next["gs_stereo"] > p_next["gs_anti"])


def _share_of_counted(p_next: pd.DataFrame, hits: pd.Series) -> Estimate:
    counted = is_counted(p_next)
    if too_few(counted):
        return Estimate(np.nan)
    share = stats.bootstrap(np.mean, hits.to_numpy()[counted].astype(float))
    return replace(share, unit="triples read right")


def near_zero(p_next: pd.DataFrame) -> Estimate:
    """The share of all triple pairs that have an s close to 0, as the paper says it of them."""

    def share_close(size):
        return np.mean(size <= CLOSE * nsp.top_mean(size))

    size = np.abs(nsp.strengths(p_next))
    return replace(stats.bootstrap(share_close, size), unit=split_half.TRIPLE_PAIRS)


def flips(p_next: pd.DataFrame) -> np.ndarray:
    """Whether the swap flips the call of a sentence: p(next) crosses .5; [triples, 3]."""
    is_called_next = p_next[nsp.COLUMNS].to_numpy() > 0.5
    return is_called_next[:, :3] != is_called_next[:, 3:]


def unrelated_flips(p_next: pd.DataFrame) -> Estimate:
    """By how much more often the swap flips an unrelated sentence than the mean of the others."""
    stereo, anti, unrelated = flips(p_next).astype(float).T
    gap = stats.bootstrap(
        lambda u, a, b: u.mean() - (a.mean() + b.mean()) / 2, unrelated, stereo, anti
    )
    return replace(gap, unit=split_half.TRIPLE_PAIRS)


def above_opposite(p_next: pd.DataFrame) -> Estimate:
    """By how much Strength exceeds its opposite."""
    lead = triples.strength_lead(nsp.strengths(p_next))
    return replace(lead, unit=split_half.TRIPLE_PAIRS)


# ---- notebook 08: what projection.measure returned, under the first fit
def is_biased(measured: dict) -> str:
    """Claims on S ask for a stereotype to remove."""
    lead = triples.strength_lead(measured["s"][0, 0])
    return unless(lead.is_above(), f"S is not above its opposite: by {lead:z.2f}")


def reads(measured: dict) -> str:
    """Claims on D ask for a model that tells next sentences from unrelated ones."""
    share_right = stats.bootstrap(np.mean, measured["accuracy"][0, 0], draws=split_half.DRAWS)
    return unless(share_right.low > ALWAYS, f"{BLIND}: {share_right} right")


def relative_change(halves: Halves, chosen: Sequence[int]) -> Estimate:
    """What a setting changes of S or D, as a share of base's."""
    with np.errstate(invalid="ignore"):  # 0 of 0
        return halves.estimate(halves.fitted(chosen) / halves.of_base() - 1)


def deeper_is_lower(halves: Halves) -> tuple[Estimate, Beside]:
    """At what share of 3 steps inwards the best setting of a level is below the best before it."""
    steps = [halves.judged(halves.choose(OF_LEVEL[level])) for level in LEVELS]
    falls = -np.diff(steps, axis=0)  # [3, 1 + random choices, 1 + draws]
    return _steps(halves, falls)


def _steps(halves: Halves, steps: np.ndarray) -> tuple[Estimate, Beside]:
    """The share of steps [steps, 1 + random choices, 1 + draws] above 0, beside random ones."""
    shares = share_met(steps[:, 0])
    of_random = share_met(steps[:, 1:].mean(1))
    items = (halves.n, halves.unit)
    return of_shares(shares, *items), beside_random(shares, of_random, *items)


def search_gains(halves: Halves) -> Estimate:
    """By how much the best of all 74 is below the best that takes out one component whole at each
    place.
    """
    plain = halves.fitted(halves.choose(split_half.PLAIN))
    return halves.estimate(plain - halves.fitted(halves.choose(EVERY)))


@dataclass(frozen=True)
class Resampled:
    """S of the 76 models over all triple pairs, and over bootstrap samples of them."""

    S: np.ndarray  # [1 + draws, 76]
    of_random: np.ndarray  # [random choices, 1 + draws, 76]
    s: np.ndarray  # of the triple pairs, [76, pairs]
    rows: np.ndarray  # the triple pairs of each sample

    @classmethod
    def of(cls, measured: dict, draws: int | None = None) -> "Resampled":
        draws = split_half.DRAWS if draws is None else draws
        n = measured["s"].shape[-1]
        rows = split_half.resampled_rows(n, draws, np.random.default_rng(0))
        first = measured | {"s": measured["s"][:1]}
        S, *of_random = split_half.top_means(first, "s", rows)
        return cls(S=S, of_random=np.array(of_random), s=measured["s"][0], rows=rows)

    def share(self, differences: np.ndarray) -> Estimate:
        """The share of things [things, samples] that are above 0."""
        return self._of_shares(share_met(differences))

    def _of_shares(self, shares: np.ndarray) -> Estimate:
        return of_shares(shares, self.s.shape[-1], split_half.TRIPLE_PAIRS)

    def extension_lowers(self, weighted: bool) -> Estimate:
        """Of 4 extensions of SENT to layer 12, the share as said: all lower S but HARD2.

        weighted   the paper's np = 1
        """
        sent = OF_LEVEL[Level.SENT][weighted]
        as_said = []
        for cut in CUTS:
            extended = PLACE[replace(tables.MODELS[sent], cls=cut)]
            fall = self.S[:, sent] - self.S[:, extended]
            as_said.append(-fall if cut == HARD2 else fall)
        return self.share(np.array(as_said))

    def hard2_is_worst(self) -> Estimate:
        """Of 8 settings with HARD2 at layer 11, the share with a higher S than all other cuts."""
        above = []
        for setting in _deep_settings(with_hard2=True):
            others = [PLACE[replace(setting, tokens=cut)] for cut in CUTS if cut != HARD2]
            above.append(self.S[:, PLACE[setting]] - self.S[:, others].max(1))
        return self.share(np.array(above))

    def attention_lowers(self) -> tuple[Estimate, Beside]:
        """Of the 24 settings at layer 11 without HARD2, the share whose S attention lowers."""
        shares = share_met(_lowered_by_attention(self.S, with_hard2=False))
        each = [share_met(_lowered_by_attention(S, with_hard2=False)) for S in self.of_random]
        items = (self.s.shape[-1], split_half.TRIPLE_PAIRS)
        return of_shares(shares, *items), beside_random(shares, np.mean(each, axis=0), *items)

    def attention_does_not(self) -> Estimate:
        """Of the 8 settings at layer 11 with HARD2, the share whose S attention raises."""
        return self.share(-_lowered_by_attention(self.S, with_hard2=True))

    def ranks_kept(self) -> Estimate:
        """How alike models rank by S at 10 %, and at 5 % or 20 %: the lower Spearman's rho."""
        at_5 = stats.rank_correlation(self.S, tables.tops(self.s[:, self.rows], 0.05).T)
        at_20 = stats.rank_correlation(self.S, tables.tops(self.s[:, self.rows], 0.2).T)
        lower = np.minimum(at_5, at_20)
        return stats.redrawn(lower, self.s.shape[-1], split_half.TRIPLE_PAIRS)


def _lowered_by_attention(S: np.ndarray, with_hard2: bool) -> np.ndarray:
    """How far attention lowers S of the 8 settings at layer 11 with HARD2, or of the other 24."""
    falls = []
    for setting in _deep_settings(with_hard2):
        falls.append(S[:, PLACE[setting]] - S[:, PLACE[replace(setting, attention=True)]])
    return np.array(falls)


def _deep_settings(with_hard2: bool) -> list[Setting]:
    """The settings of layer 11 that have HARD2 at the tokens, or those that have not."""
    deep = [tables.MODELS[i] for i in OF_LEVEL[Level.LAYER_11]]
    return [setting for setting in deep if (setting.tokens == HARD2) == with_hard2]


# ---- notebook 09: what nli.measure returned, accuracy at the task
def needs_of_inference(measured: dict) -> dict[str, str]:
    """The base model has to differ between pairs, and to know the task."""
    right = measured["right"][0][0]
    share_right = stats.wilson(right)
    differs = np.ptp(measured["probabilities"][0][0], axis=0).max() > SAME
    guesses = f"the classifier does not know the task: {share_right} of {len(right)} right"
    return {
        "differs": unless(differs, "the classifier gives all pairs the same probabilities"),
        "task": unless(share_right.low > 1 / 3, guesses),
    }


@dataclass(frozen=True)
class Accuracy:
    """The accuracy of the 76 models at the task, and which are viable: the sample, then others."""

    accuracy: np.ndarray  # [1 + draws, 76]
    viable: np.ndarray  # [1 + draws, 76]
    n: int  # pairs of the task

    @classmethod
    def of(cls, measured: dict, fit: str, draws: int | None = None) -> "Accuracy":
        draws = split_half.DRAWS if draws is None else draws
        right = nli.under(measured, fit)["right"].astype(float)
        accuracy = tables.weights(right.shape[1], draws, 0) @ right.T
        return cls(accuracy, nli.viable(accuracy, accuracy[:, :1]), right.shape[1])

    def viable_at(self, *levels: Level, weighted: int | None = None) -> np.ndarray:
        """How many models of some levels are viable, of one np where it is given: [1 + draws]."""
        kept = tables.ABOUT["level"].isin(levels)
        if weighted is not None:
            kept &= tables.ABOUT["np"] == weighted
        return self.viable[:, kept.to_numpy()].sum(1)

    def some_at(self, *levels: Level) -> str:
        """A precondition: one of these levels has a viable model."""
        why = f"none is viable at {' or '.join(levels)}"
        return unless(self.viable_at(*levels)[0] > 0, why)

    def share(self, shares: np.ndarray) -> Estimate:
        return of_shares(shares, self.n, TASK_PAIRS)

    def gains(self) -> np.ndarray:
        """What weighting at SENT adds to accuracy: 37 pairs of models differ in it alone."""
        is_weighted = (tables.ABOUT["np"] == 1).to_numpy()
        is_unweighted = (tables.ABOUT["np"] == 0).to_numpy()
        return self.accuracy[:, is_weighted] - self.accuracy[:, is_unweighted]

    def share_gaining(self) -> Estimate:
        return self.share(share_met(self.gains().T))

    def mean_gain(self) -> Estimate:
        return stats.redrawn(self.gains().mean(1), self.n, TASK_PAIRS)

    def as_said_at_layer_12(self) -> Estimate:
        """Of 8 models at layer 12, the share as said: viable if and only if they weight at SENT."""
        weighted = self.viable_at(Level.LAYER_12, weighted=1)
        unweighted = self.viable_at(Level.LAYER_12, weighted=0)
        return self.share((weighted + 4 - unweighted) / 8)

    def weighted_among_deep(self) -> Estimate:
        """The share of the viable models at layer 11 and + attn that weight at SENT."""
        every = self.viable_at(Level.LAYER_11, Level.ATTENTION)
        weighted = self.viable_at(Level.LAYER_11, Level.ATTENTION, weighted=1)
        return self.share(np.where(every > 0, weighted / np.maximum(every, 1), np.nan))

    def steps_falling(self) -> Estimate:
        """At what share of 3 steps inwards the mean accuracy of a level falls."""
        steps = np.array([self.accuracy[:, OF_LEVEL[level]].mean(1) for level in LEVELS])
        return self.share(share_met(-np.diff(steps, axis=0)))

    def lost_to_attention(self) -> Estimate:
        """How much smaller the viable share of 32 settings is with attention than at layer 11."""
        without = self.viable_at(Level.LAYER_11)
        return self.share((without - self.viable_at(Level.ATTENTION)) / 32)


# ---- eta over halves of the occupations, split_half.of_fairness
def viable_on_both(halves: Halves, *levels: Level) -> str:
    """A precondition: each of these levels has a viable model on both halves."""
    lacking = [level for level in levels if not halves.choose(OF_LEVEL[level])]
    return unless(not lacking, f"none is viable on both halves at {', '.join(lacking)}")


def eta_rises(halves: Halves) -> tuple[Estimate, Beside]:
    """At what share of 2 steps from SENT to layer 11 the best viable eta rises."""
    steps = [halves.judged(halves.choose(OF_LEVEL[level])) for level in LEVELS[:3]]
    return _steps(halves, np.diff(steps, axis=0))


def attention_gains(halves: Halves) -> Estimate:
    """By how much the best viable model with attention is fairer than the best without."""
    without = [i for level in LEVELS[:3] for i in OF_LEVEL[level]]
    attention = halves.fitted(halves.choose(OF_LEVEL[Level.ATTENTION]))
    return halves.estimate(attention - halves.fitted(halves.choose(without)))


def sent_debias_gains(halves: Halves) -> Estimate:
    return halves.estimate(halves.fitted([SENT_DEBIAS, SENT_DEBIAS]) - halves.of_base())


def lost_by_lowest_s(halves: Halves, strength: pd.Series) -> Estimate:
    """How much eta the viable model of lowest S has less than the best viable one.

    strength   S of the 76 models, by name
    """
    lowest_s = halves.choose(EVERY, worth=-strength.loc[tables.NAMES].to_numpy())
    return halves.estimate(halves.fitted(halves.choose(EVERY)) - halves.fitted(lowest_s))


def two_viable(halves: Halves) -> str:
    """A precondition of choosing among viable models."""
    fewest = min(viable[2:].sum() for viable in halves.viable)
    return unless(fewest > 1, "fewer than two models are viable on one of the halves")


def rho_within(
    measured: dict, fit: str, agree: str, strength: pd.Series
) -> dict[int | str, Estimate]:
    """Spearman's rho of Strength and eta: over all 76 models ("all"), within np = 0 and np = 1.

    The models are points of one grid, not a random sample: the interval says how far rho depends on
    single models.
    """
    neutral, same = nli.by_model(nli.under(measured, fit))
    eta = neutral.mean(-1) * split_half.has_parity(same, agree).mean(-1)
    s = strength.loc[tables.NAMES].to_numpy()
    np_of_model = tables.ABOUT["np"].to_numpy()
    scopes = {"all": slice(None), 0: np_of_model == 0, 1: np_of_model == 1}
    found = {}
    for scope, kept in scopes.items():
        rho = stats.bootstrap(stats.rank_correlation, s[kept], eta[kept], draws=split_half.DRAWS)
        found[scope] = replace(rho, unit="models")
    return found
