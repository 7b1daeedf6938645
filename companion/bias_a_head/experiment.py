"""Notebook 03's experiment of a run: heads that are called biased, on sentences and their twins.

    one = experiment.of(run, "mini-bert", "gender", "mini")
    one.favours("biased"), one.contrast     the paper's test; biased heads less regular ones

It joins what heads.py says of the heads of a model with what counter.py measures of them.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd
import torch

from lib.bias_a_head import counter, heads
from lib.engine import stats


@dataclass(frozen=True)
class Experiment:
    """One panel of Fig. 4: what the heads of a model do on sentence pairs on a bias."""

    model: str
    bias: str
    scored: dict  # of heads.measure
    pairs: pd.DataFrame
    weights: dict[str, torch.Tensor]  # of counter.attention

    @property
    def kinds(self) -> dict[str, list[tuple[int, int]]]:
        """Biased heads have a positive score, regular ones a negative one; highest first.

        A kind of which there is no head is left out.
        """
        scores = self.scored["scores"]
        both = {"biased": heads.positive(scores), "regular": heads.positive(-scores)}
        return {kind: chosen for kind, chosen in both.items() if chosen}

    @cached_property
    def tests(self) -> dict[str, pd.DataFrame]:
        """The paper's test of either kind of heads, and the same by other units."""
        raw = self.weights["raw"]
        return {kind: counter.test(raw, chosen, self.pairs) for kind, chosen in self.kinds.items()}

    def favours(self, kind: str) -> stats.Estimate:
        """By how much this kind of heads attends more to the original, as the paper tests it: in
        percentage points of attention.
        """
        row = self.tests[kind].loc["sentence"]
        ends = (float(row[name]) for name in ("difference", "low", "high"))
        return stats.Estimate(*ends, n=int(row["n"]), unit="sentences") * 100

    @cached_property
    def shifts(self) -> dict[tuple[str, str], stats.Estimate]:
        """counter.shifts, with both groups of people weighted alike."""
        added = {}
        for variant in counter.VARIANTS:
            added[variant] = counter.cells(self.weights[variant], self.pairs)
        return counter.shifts(added, self.kinds)

    @property
    def contrast(self) -> stats.Estimate | None:
        """By how much more biased heads react than regular ones, in percentage points."""
        return self.shifts.get(("raw", "contrast"))

    @cached_property
    def by_head(self) -> pd.DataFrame:
        """counter.per_head, of raw weights."""
        return counter.per_head(self.weights["raw"])


def of(run, name: str, bias: str, source: str) -> Experiment:
    """The experiment of a `Run` on a model and a bias; source: as in counter.sentences."""
    scored = run.measured(heads.measure, *heads.arguments(run, name, bias))
    n = run.sizes.counter_sentences
    pairs, weights = run.measured(counter.measure, name, bias, source, n, run.seed)
    return Experiment(name, bias, scored, pairs, weights)


def falls(on: np.ndarray, scores: np.ndarray) -> tuple[stats.Estimate, stats.Estimate]:
    """By how much biased heads look away from a swapped word, and regular ones; nan where there are
    no two of either.

    on   [2 (original, counter), n_layers, n_heads], the weight on the attribute
    """
    fall = on[0] - on[1]
    groups = fall[scores > 0], fall[scores < 0]
    if min(map(len, groups)) < 2:
        return stats.Estimate(np.nan), stats.Estimate(np.nan)
    biased, regular = (replace(stats.mean(group), unit="heads") for group in groups)
    return biased, regular
