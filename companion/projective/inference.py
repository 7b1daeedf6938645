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
    _, n_occupations = neutral.shape
    drawn = halves.weights(n_occupations, draws, 0)
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
        columns[name] = values[0]
        columns[f"{name} low"] = low
        columns[f"{name} high"] = high
    of_task = [stats.wilson(right) for right in measured["right"]]
    columns["SNLI"] = [one.value for one in of_task]
    columns["SNLI low"] = [one.low for one in of_task]
    columns["SNLI high"] = [one.high for one in of_task]
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
    ends = [row[column + end] for end in ENDS]
    return Estimate(*ends)


def best(scores: pd.DataFrame, base: float, relative: bool = False) -> pd.Series | None:
    """The viable model of highest eta, of equals the most accurate one; None where none is viable.

    Viable is within 5 points, or 5 % where `relative`, of the accuracy `base`.
    """
    is_viable = nli.viable(scores["SNLI"], base, relative=relative)
    if not is_viable.any():
        return None
    ranked = scores[is_viable].sort_values(["eta", "SNLI"], ascending=False)
    return ranked.iloc[0]


def viability(scores: pd.DataFrame) -> np.ndarray:
    """Whether each model is viable: "yes" within 5 % of base, "in points" within 5 points, or "no".

    What is within 5 % of base is within 5 points of it too.
    """
    base = scores.loc["Base", "SNLI"]
    in_points = nli.viable(scores["SNLI"], base)
    in_percent = nli.viable(scores["SNLI"], base, relative=True)
    return np.select([in_percent, in_points], ["yes", "in points"], "no")


def gains(scores: pd.DataFrame) -> pd.DataFrame:
    """The 37 pairs of models that differ in np alone: level, SNLI at np = 0 and 1, increase."""
    # Models of either np are in the same order.
    without = scores[scores["np"] == 0].reset_index()
    weighted = scores[scores["np"] == 1].reset_index()
    return pd.DataFrame(
        {
            "level": without["level"],
            "np = 0": without["SNLI"],
            "np = 1": weighted["SNLI"],
            "increase": weighted["SNLI"] - without["SNLI"],
        }
    )


# ---- what the claims' tests measure: accuracy at the task
def needs(measured: dict) -> dict[str, str]:
    """The base model has to differ between pairs, and to know the task."""
    right = measured["right"][0][0]
    share_right = stats.wilson(right)
    spread = np.ptp(measured["probabilities"][0][0], axis=0)
    why_not = {"differs": "", "task": ""}
    differs = spread.max() > SAME
    if not differs:
        why_not["differs"] = "the classifier gives all pairs the same probabilities"
    knows = share_right.low > 1 / 3
    if not knows:
        found = f"{share_right} of {len(right)} right"
        why_not["task"] = f"the classifier does not know the task: {found}"
    return why_not


@dataclass(frozen=True)
class Accuracy:
    """The accuracy of the 76 models at the task, and which are viable: the sample, then others."""

    accuracy: np.ndarray  # [1 + draws, 76]
    viable: np.ndarray  # [1 + draws, 76]
    n: int  # pairs of the task

    @classmethod
    def of(cls, measured: dict, fit: str, draws: int | None = None) -> "Accuracy":
        if draws is None:
            draws = halves.DRAWS
        right = nli.under(measured, fit)["right"].astype(float)
        _, n_pairs = right.shape
        accuracy = halves.weights(n_pairs, draws, 0) @ right.T
        base = accuracy[:, :1]
        viable = nli.viable(accuracy, base)
        return cls(accuracy, viable, n_pairs)

    def viable_at(self, *levels: Level, weighted: int | None = None) -> np.ndarray:
        """How many models of some levels are viable, of one np where it is given: [1 + draws]."""
        kept = ABOUT["level"].isin(levels)
        if weighted is not None:
            kept &= ABOUT["np"] == weighted
        return self.viable[:, kept.to_numpy()].sum(1)

    def some_at(self, *levels: Level) -> str:
        """A precondition: one of these levels has a viable model."""
        if self.viable_at(*levels)[0] > 0:
            return ""
        return f"none is viable at {' or '.join(levels)}"

    def share(self, shares: np.ndarray) -> Estimate:
        return halves.of_shares(shares, self.n, TASK_PAIRS)

    def gains(self) -> np.ndarray:
        """What weighting at SENT adds to accuracy: 37 pairs of models differ in it alone."""
        np_of_model = ABOUT["np"].to_numpy()
        weighted = self.accuracy[:, np_of_model == 1]
        unweighted = self.accuracy[:, np_of_model == 0]
        return weighted - unweighted

    def share_gaining(self) -> Estimate:
        return self.share(halves.share_met(self.gains().T))

    def mean_gain(self) -> Estimate:
        return stats.redrawn(self.gains().mean(1), self.n, TASK_PAIRS)

    def as_said_at_layer_12(self) -> Estimate:
        """Of 8 models at layer 12, the share as said: viable if and only if they weight at SENT."""
        weighted = self.viable_at(Level.LAYER_12, weighted=1)
        unweighted = self.viable_at(Level.LAYER_12, weighted=0)
        as_said = weighted + (4 - unweighted)
        return self.share(as_said / 8)

    def weighted_among_deep(self) -> Estimate:
        """The share of the viable models at layer 11 and + attn that weight at SENT."""
        deep = (Level.LAYER_11, Level.ATTENTION)
        every = self.viable_at(*deep)
        weighted = self.viable_at(*deep, weighted=1)
        shares = weighted / np.maximum(every, 1)
        shares[every == 0] = np.nan
        return self.share(shares)

    def steps_falling(self) -> Estimate:
        """At what share of 3 steps inwards the mean accuracy of a level falls."""
        means = [self.accuracy[:, OF_LEVEL[level]].mean(1) for level in LEVELS]
        losses = -np.diff(means, axis=0)
        return self.share(halves.share_met(losses))

    def lost_to_attention(self) -> Estimate:
        """How much smaller the viable share of 32 settings is with attention than at layer 11."""
        without = self.viable_at(Level.LAYER_11)
        attention = self.viable_at(Level.ATTENTION)
        return self.share((without - attention) / 32)


# ---- eta over halves of the occupations, halves.of_fairness
def viable_on_both(of_halves: Halves, *levels: Level) -> str:
    """A precondition: each of these levels has a viable model on both halves."""
    lacking = [level for level in levels if not of_halves.choose(OF_LEVEL[level])]
    if not lacking:
        return ""
    return f"none is viable on both halves at {', '.join(lacking)}"


def two_viable(of_halves: Halves) -> str:
    """A precondition of choosing among viable models."""
    fewest = min(viable[2:].sum() for viable in of_halves.viable)
    if fewest > 1:
        return ""
    return "fewer than two models are viable on one of the halves"


def eta_rises(of_halves: Halves) -> tuple[Estimate, Beside]:
    """At what share of 2 steps from SENT to layer 11 the best viable eta rises."""
    best = []
    for level in LEVELS[:3]:
        chosen = of_halves.choose(OF_LEVEL[level])
        best.append(of_halves.judged(chosen))
    return of_halves.steps(np.diff(best, axis=0))


def attention_gains(of_halves: Halves) -> Estimate:
    """By how much the best viable model with attention is fairer than the best without."""
    with_attention = OF_LEVEL[Level.ATTENTION]
    others = [i for level in LEVELS[:3] for i in OF_LEVEL[level]]
    best = of_halves.fitted(of_halves.choose(with_attention))
    best_other = of_halves.fitted(of_halves.choose(others))
    return of_halves.estimate(best - best_other)


def sent_debias_gains(of_halves: Halves) -> Estimate:
    return of_halves.does([SENT_DEBIAS, SENT_DEBIAS]).change


def lost_by_lowest_s(of_halves: Halves, strength: pd.Series) -> Estimate:
    """How much eta the viable model of lowest S has less than the best viable one.

    strength   S of the 76 models, by name
    """
    s = strength.loc[NAMES].to_numpy()
    lowest_s = of_halves.choose(EVERY, worth=-s)
    best = of_halves.choose(EVERY)
    lost = of_halves.fitted(best) - of_halves.fitted(lowest_s)
    return of_halves.estimate(lost)


def rho_within(
    measured: dict, fit: str, agree: str, strength: pd.Series
) -> dict[int | str, Estimate]:
    """Spearman's rho of Strength and eta: over all 76 models ("all"), within np = 0 and np = 1.

    The models are points of one grid, not a random sample: the interval says how far rho depends on
    single models.
    """
    neutral, same = nli.by_model(nli.under(measured, fit))
    accuracy = neutral.mean(-1)
    parity = halves.has_parity(same, agree).mean(-1)
    eta = accuracy * parity
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
    folder, _ = folders.locate(name)
    record = folder / "training.json"
    if folders.draw_of(name) or not record.is_file():
        return ""
    made = json.loads(record.read_text(encoding="utf-8"))
    if made.get("source") not in LEARNED_FROM:
        return ""
    source = LEARNED_FROM[made["source"]]
    n_train = made["pairs"]["train"]
    n_held_out = made["pairs"]["validation"]
    return (
        f"{Path(name).name} learned from {n_train:,} pairs: {source}, "
        f"and SNLI's validation pairs but for {n_held_out:,} held out and others of their premises."
    )
