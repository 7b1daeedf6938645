"""What notebook 09 says of the 76 classifiers: fairness, accuracy, and what its tests measure.

A row each, as in Table 7. `measured` is what nli.measure returned, in `scores` for one fit
(`nli.under`). The column SNLI is the accuracy at the task itself: on SNLI's test set with data
"paper", on data/demo's pairs with "mini". eta is resampled over occupations, accuracy over the
task's pairs. What a precondition asks is "" where it is met, else why not.
"""

import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from companion.claims import Beside
from companion.projective import halves
from companion.projective.halves import Halves
from companion.projective.stereoset import SAME
from companion.projective.table7 import ABOUT, EVERY, NAMES, OF_LEVEL, SENT_DEBIAS
from lib.engine import folders, stats
from lib.engine.stats import Estimate
from lib.projective import nli
from lib.projective.projection import LEVELS, Level

TASK_PAIRS = "pairs of the task"
# Where a classifier's training pairs are from, by what its record calls their source.
LEARNED_FROM = {
    "hub": "SNLI's training pairs",
    "files": "the training pairs that can be had as files",
}
ENDS = ("", " low", " high")  # of the columns that hold a number and its 95 % interval


def scores(measured: dict, draws: int = 500) -> pd.DataFrame:
    """Fairness and accuracy of every model with 95 % intervals, and the columns of ABOUT.

    Columns: parity and eta, where all contexts have to agree; majority and `eta majority`, where
    most of them do; accuracy; SNLI. `... low` and `... high` are the ends of the interval: over
    occupations, of SNLI over its pairs.
    """
    neutral, agree = nli.by_model(measured)
    drawn = halves.weights(neutral.shape[1], draws, np.random.default_rng(0))
    accuracy = drawn @ neutral.T  # [1 + draws, 76], as are the next two
    parity = drawn @ (agree == 1).T
    majority = drawn @ (agree > 0.5).T
    samples = {
        "parity": parity,
        "majority": majority,
        "accuracy": accuracy,
        "eta": accuracy * parity,
        "eta majority": accuracy * majority,
    }
    columns = {}
    for name, values in samples.items():
        low, high = np.quantile(values[1:], stats.ENDS, axis=0)
        columns |= {name: values[0], f"{name} low": low, f"{name} high": high}
    snli = np.transpose([tuple(stats.wilson(right)) for right in measured["right"]])
    columns |= {f"SNLI{end}": values for end, values in zip(ENDS, snli)}
    return ABOUT.assign(**columns)


def most(scores: pd.DataFrame) -> pd.DataFrame:
    """The same scores with parity where most contexts agree: in `parity` and `eta`."""
    columns = {}
    for end in ENDS:
        columns["parity" + end] = scores["majority" + end]
        columns["eta" + end] = scores["eta majority" + end]
    return scores.assign(**columns)


def estimate(row: pd.Series, column: str) -> Estimate:
    """A number of one row of `scores` with its interval."""
    return Estimate(*[row[column + end] for end in ENDS])


def best(scores: pd.DataFrame, base: float, relative: bool = False) -> pd.Series | None:
    """The viable model of highest eta, of equals the most accurate one; None where none is viable.

    Viable is within 5 points, or 5 % where `relative`, of the accuracy `base`.
    """
    kept = scores[nli.viable(scores["SNLI"], base, relative=relative)]
    if kept.empty:
        return None
    return kept.sort_values(["eta", "SNLI"], ascending=False).iloc[0]


def viability(scores: pd.DataFrame) -> np.ndarray:
    """Whether each model is viable: "yes" within 5 % of base, "in points" within 5 points, or "no".

    What is within 5 % of base is within 5 points of it too.
    """
    base = scores.loc["Base", "SNLI"]
    in_points = nli.viable(scores["SNLI"], base)
    in_percent = nli.viable(scores["SNLI"], base, relative=True)
    return np.where(in_percent, "yes", np.where(in_points, "in points", "no"))


def gains(scores: pd.DataFrame) -> pd.DataFrame:
    """The 37 pairs of models that differ in np alone: level, SNLI at np = 0 and 1, increase."""
    # Models of either np are in the same order.
    without = scores[scores["np"] == 0].reset_index()
    weighted = scores[scores["np"] == 1].reset_index()
    both = {"level": without["level"], "np = 0": without["SNLI"], "np = 1": weighted["SNLI"]}
    return pd.DataFrame(both).assign(increase=weighted["SNLI"] - without["SNLI"])


# ---- what the claims' tests measure: accuracy at the task
def needs(measured: dict) -> dict[str, str]:
    """The base model has to differ between pairs, and to know the task."""
    right = measured["right"][0][0]
    share_right = stats.wilson(right)
    differs = np.ptp(measured["probabilities"][0][0], axis=0).max() > SAME
    guesses = f"the classifier does not know the task: {share_right} of {len(right)} right"
    return {
        "differs": "" if differs else "the classifier gives all pairs the same probabilities",
        "task": "" if share_right.low > 1 / 3 else guesses,
    }


@dataclass(frozen=True)
class Accuracy:
    """The accuracy of the 76 models at the task, and which are viable: the sample, then others."""

    accuracy: np.ndarray  # [1 + draws, 76]
    viable: np.ndarray  # [1 + draws, 76]
    n: int  # pairs of the task

    @classmethod
    def of(cls, measured: dict, fit: str, draws: int | None = None) -> "Accuracy":
        draws = halves.DRAWS if draws is None else draws
        right = nli.under(measured, fit)["right"].astype(float)
        accuracy = halves.weights(right.shape[1], draws, 0) @ right.T
        return cls(accuracy, nli.viable(accuracy, accuracy[:, :1]), right.shape[1])

    def viable_at(self, *levels: Level, weighted: int | None = None) -> np.ndarray:
        """How many models of some levels are viable, of one np where it is given: [1 + draws]."""
        kept = ABOUT["level"].isin(levels)
        if weighted is not None:
            kept &= ABOUT["np"] == weighted
        return self.viable[:, kept.to_numpy()].sum(1)

    def some_at(self, *levels: Level) -> str:
        """A precondition: one of these levels has a viable model."""
        return "" if self.viable_at(*levels)[0] > 0 else f"none is viable at {' or '.join(levels)}"

    def share(self, shares: np.ndarray) -> Estimate:
        return halves.of_shares(shares, self.n, TASK_PAIRS)

    def gains(self) -> np.ndarray:
        """What weighting at SENT adds to accuracy: 37 pairs of models differ in it alone."""
        np_of_model = ABOUT["np"].to_numpy()
        return self.accuracy[:, np_of_model == 1] - self.accuracy[:, np_of_model == 0]

    def share_gaining(self) -> Estimate:
        return self.share(halves.share_met(self.gains().T))

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
        return self.share(halves.share_met(-np.diff(steps, axis=0)))

    def lost_to_attention(self) -> Estimate:
        """How much smaller the viable share of 32 settings is with attention than at layer 11."""
        without = self.viable_at(Level.LAYER_11)
        return self.share((without - self.viable_at(Level.ATTENTION)) / 32)


# ---- eta over halves of the occupations, halves.of_fairness
def viable_on_both(of_halves: Halves, *levels: Level) -> str:
    """A precondition: each of these levels has a viable model on both halves."""
    lacking = [level for level in levels if not of_halves.choose(OF_LEVEL[level])]
    return f"none is viable on both halves at {', '.join(lacking)}" if lacking else ""


def two_viable(of_halves: Halves) -> str:
    """A precondition of choosing among viable models."""
    fewest = min(viable[2:].sum() for viable in of_halves.viable)
    return "" if fewest > 1 else "fewer than two models are viable on one of the halves"


def eta_rises(of_halves: Halves) -> tuple[Estimate, Beside]:
    """At what share of 2 steps from SENT to layer 11 the best viable eta rises."""
    best = [of_halves.judged(of_halves.choose(OF_LEVEL[level])) for level in LEVELS[:3]]
    return of_halves.steps(np.diff(best, axis=0))


def attention_gains(of_halves: Halves) -> Estimate:
    """By how much the best viable model with attention is fairer than the best without."""
    without = [i for level in LEVELS[:3] for i in OF_LEVEL[level]]
    attention = of_halves.fitted(of_halves.choose(OF_LEVEL[Level.ATTENTION]))
    return of_halves.estimate(attention - of_halves.fitted(of_halves.choose(without)))


def sent_debias_gains(of_halves: Halves) -> Estimate:
    return of_halves.does([SENT_DEBIAS, SENT_DEBIAS]).change


def lost_by_lowest_s(of_halves: Halves, strength: pd.Series) -> Estimate:
    """How much eta the viable model of lowest S has less than the best viable one.

    strength   S of the 76 models, by name
    """
    lowest_s = of_halves.choose(EVERY, worth=-strength.loc[NAMES].to_numpy())
    best = of_halves.fitted(of_halves.choose(EVERY))
    return of_halves.estimate(best - of_halves.fitted(lowest_s))


def rho_within(
    measured: dict, fit: str, agree: str, strength: pd.Series
) -> dict[int | str, Estimate]:
    """Spearman's rho of Strength and eta: over all 76 models ("all"), within np = 0 and np = 1.

    The models are points of one grid, not a random sample: the interval says how far rho depends on
    single models.
    """
    neutral, same = nli.by_model(nli.under(measured, fit))
    eta = neutral.mean(-1) * halves.has_parity(same, agree).mean(-1)
    s = strength.loc[NAMES].to_numpy()
    np_of_model = ABOUT["np"].to_numpy()
    scopes = {"all": slice(None), 0: np_of_model == 0, 1: np_of_model == 1}
    found = {}
    for scope, kept in scopes.items():
        rho = stats.bootstrap(stats.rank_correlation, s[kept], eta[kept], draws=halves.DRAWS)
        found[scope] = replace(rho, unit="models")
    return found


def learned_from(name: str) -> str:
    """What a classifier that was made here was trained on, in a sentence; "" of any other."""
    record = folders.locate(name)[0] / "training.json"
    if folders.draw_of(name) or not record.is_file():
        return ""
    made = json.loads(record.read_text(encoding="utf-8"))
    if made.get("source") not in LEARNED_FROM:
        return ""
    pairs = made["pairs"]
    return (
        f"{Path(name).name} learned from {pairs['train']:,} pairs: {LEARNED_FROM[made['source']]}, "
        f"and SNLI's validation pairs but for {pairs['validation']:,} held out and others of their "
        "premises."
    )
