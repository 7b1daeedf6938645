"""Estimates of notebooks 02 to 04 and 06, and of cards: of heads, patches and attention.

result   what heads.measure returns
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd
import torch
from scipy import stats as scipy_stats

from lib.bias_a_head import counter, heads, patching
from lib.engine import stats

CHANCE = 0.05  # p of SEAT below which a model is called biased at all, and its heads after it
# Of |SEAT|: what a head of "no major effect" changes at most, as far as the gradient predicts.
NO_EFFECT = 0.05
SMALL = 0.1  # of all heads: "a small set" (the paper masks 3 of 144)
HIGHEST = 10  # heads on race whose layers are counted


# ---- numbers as text
def three_digits(value: float) -> float:
    """A value rounded to three digits, so that a p of a permutation test is never 0."""
    return float(f"{value:.3g}")


def p_text(p: float) -> str:
    """Two digits after the point, or what p is below: sampled p-values vary a little."""
    if p < 0.001:
        return "< .001"
    if p < 0.01:
        return "< .01"
    return f"{p:.2f}"


# ---- whether there is a bias that heads could carry
def needs_seat(result: dict, bias: str) -> dict[str, str]:
    """What a claim on heads needs: SEAT of this bias is significant ("", or why not)."""
    why_not = ""
    is_significant = result["p"] < CHANCE
    if not is_significant:
        why_not = f"{bias} is not significant: {seat_text(result)}"
    return {f"SEAT of {bias}": why_not}


def seat_text(result: dict) -> str:
    """SEAT 0.31, p < .001: as panels and reasons show it."""
    return f"SEAT {result['seat']:.2f}, p {p_text(result['p'])}"


def panel_text(result: dict) -> str:
    """The same for a panel; it says so where nothing on it is tested."""
    text = seat_text(result)
    is_significant = result["p"] < CHANCE
    if not is_significant:
        text += "\nnot tested: SEAT not significant"
    return text


# ---- 02, 06: scores of heads and SEAT, with their uncertainty
def intervals(result: dict) -> pd.DataFrame:
    """One row per head, highest score first: layer, head, score, low, high.

    The 95 % interval is Student's over the folds: the spread of the scores on each fold's contexts
    says how far a score depends on the sentences taken.
    """
    scores = result["scores"]
    reach = _reach(result["folds"])
    layer, head = np.indices(scores.shape) + 1
    columns = {
        "layer": layer,
        "head": head,
        "score": stats.settled(scores.astype(float)),
        "low": stats.settled((scores - reach).astype(float)),
        "high": stats.settled((scores + reach).astype(float)),
    }
    frame = pd.DataFrame({name: values.ravel() for name, values in columns.items()})
    return frame.sort_values("score", ascending=False, kind="stable", ignore_index=True)


def _reach(folds: np.ndarray) -> np.ndarray:
    """Half the width of Student's 95 % interval over folds [n_folds, ...]."""
    n = len(folds)
    quantile = scipy_stats.t.ppf(0.975, n - 1)
    return quantile * folds.std(0, ddof=1) / np.sqrt(n)


def why_seat_differs(run) -> str:
    """Why |SEAT| of the paper's own model may not be the printed one: what a run does otherwise."""
    corpus = "" if run.news == "news_commentary" else "other corpus of contexts, "
    at_most = f"at most {run.sizes.heads_contexts} sentences a word"
    return f"{corpus}{at_most}, target words averaged over them too"


def above_zero(folds: np.ndarray) -> np.ndarray:
    """For each head, whether Student's 95 % interval of its score over folds lies above 0."""
    if len(folds) < 2:
        return np.zeros(folds.shape[1:], dtype=bool)
    return folds.mean(0) > _reach(folds)


def heads_including_zero(frame: pd.DataFrame) -> list[tuple[int, int]]:
    """(layer, head) of the heads in `intervals` whose interval includes zero."""
    includes_zero = (frame.low <= 0) & (frame.high >= 0)
    chosen = frame.loc[includes_zero, ["layer", "head"]]
    return list(chosen.itertuples(index=False, name=None))


def with_resamples(result: dict, draws: int = 1_000) -> np.ndarray:
    """[1 + draws, n_layers, n_heads]: the scores, and what they were, had other folds been drawn
    (with replacement).
    """
    scores = result["scores"]
    folds = result["folds"]
    n = len(folds)
    shares = stats.bootstrap_weights(n, draws) / n
    deviations = folds - folds.mean(0)
    changes = np.einsum("df,flh->dlh", shares, deviations)
    return np.concatenate([scores[None], scores + changes])


def resampled_seats(result: dict, draws: int = 1_000, seed: int = 0) -> np.ndarray:
    """[draws, ...]: SEAT, had other target words been drawn, of X and of Y as many as there are.

    s may have an axis before the words; then it is SEAT of each row. In ablations these are the
    full model and the model without each head.
    """
    in_x = result["in_x"]
    in_y = ~in_x
    n = len(in_x)
    rng = np.random.default_rng(seed)
    counts = np.zeros((draws, n))
    for side in (in_x, in_y):
        counts[:, side] = stats.bootstrap_weights(side.sum(), draws, rng)
    n_x = in_x.sum()
    n_y = in_y.sum()
    sign = np.where(in_x, 1 / n_x, -1 / n_y)
    s = result["s"].T
    difference = (counts * sign) @ s
    total = counts @ s
    of_squares = counts @ s**2
    variance = (of_squares - total**2 / n) / (n - 1)
    return difference / np.sqrt(variance)


def percentile_interval(value: float, resampled: np.ndarray, **about) -> stats.Estimate:
    """A value with the middle 95 % of what it is in resamples; counts stay whole numbers."""
    return stats.redrawn([value, *resampled], method="inverted_cdf", **about)


def interval_of_count(counts: np.ndarray, n: int = 0) -> stats.Estimate:
    """A number of heads, of n, from counts [1 + draws]: as measured, then in resamples."""
    return percentile_interval(counts[0], counts[1:], n=n, unit="heads")


def seat_interval(result: dict) -> stats.Estimate:
    """SEAT with Welch's interval of the difference of means, in s's deviation: for few words."""
    s = result["s"]
    in_x = result["in_x"]
    difference = scipy_stats.ttest_ind(s[in_x], s[~in_x], equal_var=False)
    interval = difference.confidence_interval()
    deviation = s.std(ddof=1)
    low = float(interval.low / deviation)
    high = float(interval.high / deviation)
    return stats.Estimate(result["seat"], low, high, len(s), "words")


def seat_change(base: dict, other: dict) -> stats.Estimate:
    """|SEAT| of the other model minus the base's; the same target words are resampled for both."""
    size = np.abs(resampled_seats(other))
    size_of_base = np.abs(resampled_seats(base))
    resampled = size - size_of_base
    change = abs(other["seat"]) - abs(base["seat"])
    n_words = len(base["s"])
    return percentile_interval(change, resampled, n=n_words, unit="target words")


def near_zero(result: dict) -> stats.Estimate:
    """The share of heads whose whole interval lies within NO_EFFECT of |SEAT|."""
    frame = intervals(result)
    most = NO_EFFECT * abs(result["seat"])
    is_near = (frame["low"] > -most) & (frame["high"] < most)
    return replace(stats.wilson(is_near), unit="heads")


def more_biased(result: dict, other: dict) -> stats.Estimate:
    """How many more heads have a positive score than in another model, on the same sentences."""
    here = stats.settled(with_resamples(result)) > 0
    there = stats.settled(with_resamples(other)) > 0
    more = here.sum((1, 2)) - there.sum((1, 2))
    return interval_of_count(more, result["scores"].size)


def more_to_the_left(result: dict, other: dict) -> stats.Estimate:
    """How many more heads lie below the lower fence than in another model."""
    here, _ = outliers(with_resamples(result), (1, 2))
    there, _ = outliers(with_resamples(other), (1, 2))
    return interval_of_count(here - there, result["scores"].size)


def in_upper_half(result: dict) -> tuple[stats.Estimate, float]:
    """How many of the HIGHEST heads are in the upper half of the layers, and how many of as many
    random ones would be.
    """
    n_layers, n_heads = result["scores"].shape
    n_top = min(HIGHEST, n_layers * n_heads)
    resamples = with_resamples(result)
    flat = resamples.reshape(len(resamples), -1)
    top = np.argsort(-flat, axis=1, kind="stable")[:, :n_top]
    layer = top // n_heads
    n_upper = (layer >= n_layers / 2).sum(1)
    expected = n_top * (n_layers // 2) / n_layers
    return interval_of_count(n_upper, n_top), expected


def same_sign(ablation: dict, n_heads: int = 0) -> stats.Estimate:
    """The share of heads whose gradient has the sign of what switching the head off does.

    n_heads   of the model, of which some may not have been tried
    """
    predicted = stats.settled(ablation["gradient"]) > 0
    found = stats.settled(ablation["ablation"]) > 0
    unit = "heads tried" if len(found) < n_heads else "heads"
    return replace(stats.wilson(predicted == found), unit=unit)


def fences(scores: np.ndarray, axis=None) -> tuple[np.ndarray, np.ndarray]:
    """Tukey's, 1.5 interquartile ranges off the quartiles: beyond the upper one a head stands
    out.
    """
    low, high = np.quantile(scores, [0.25, 0.75], axis=axis, keepdims=True)
    reach = 1.5 * (high - low)
    return low - reach, high + reach


def upper_fence(scores: np.ndarray) -> float:
    """The upper fence of a model's heads."""
    return fences(scores)[1].item()


def outliers(scores: np.ndarray, axis=None, of: np.ndarray | None = None) -> tuple:
    """How many heads lie below the lower fence, and above the upper one.

    of   scores whose fences are taken, if not those of `scores`
    """
    if of is None:
        of = scores
    lower, upper = fences(of, axis)
    below = np.sum(scores < lower, axis=axis)
    above = np.sum(scores > upper, axis=axis)
    return below, above


def standing_out(result: dict) -> stats.Estimate:
    """How many heads lie above Tukey's upper fence; the interval is over folds."""
    _, right = outliers(with_resamples(result), (1, 2))
    return interval_of_count(right, result["scores"].size)


def layers_with_biased_heads(frame: pd.DataFrame) -> stats.Estimate:
    """How many layers have a head of positive score, the paper's biased head; frame: `intervals`.

    low: the layers with a head whose whole interval lies above 0; high: those with a head whose
    interval reaches above 0.
    """
    by_layer = frame.groupby("layer")[["score", "low", "high"]].max()
    value, low, high = (by_layer > 0).sum().tolist()
    return stats.Estimate(value, low, high, len(by_layer), "layers")


def share_carried(result: dict, share: float) -> tuple[stats.Estimate, float]:
    """Of the score of all biased heads, the share that the highest `share` of all heads carry.

    Beside it, what as many biased heads would carry that are drawn at random. Heads are ranked, and
    called biased, on one half of the folds and summed on each fold of the other, both ways. It is a
    ratio of means, with Student's interval over folds (linearised); nan if none carries over.
    """
    n_folds, n_layers, n_heads = result["folds"].shape
    folds = result["folds"].reshape(n_folds, n_layers * n_heads)
    first = folds[: n_folds // 2]
    second = folds[n_folds // 2 :]
    of_top = []
    of_biased = []
    shares_of_heads = []
    for choosing, judging in ((first, second), (second, first)):
        scores = choosing.mean(0)
        order = np.argsort(-scores, kind="stable")
        n_biased = int((scores > 0).sum())
        n_top = round(share * len(scores))
        n_top = min(n_top, n_biased)
        for fold in judging:
            ranked = fold[order]
            of_top.append(ranked[:n_top].sum())
            of_biased.append(ranked[:n_biased].sum())
        shares_of_heads.append(n_top / max(n_biased, 1))
    chance = float(np.mean(shares_of_heads))
    top = np.array(of_top)
    biased = np.array(of_biased)
    if biased.mean() <= 0:
        return stats.Estimate(np.nan), chance
    ratio = top.mean() / biased.mean()
    residuals = (top - ratio * biased) / biased.mean()
    carried = stats.mean(residuals) + ratio
    return replace(carried, unit="folds"), chance


def share_carried_by_ablation(ablation: dict, share: float, draws: int = 1_000) -> stats.Estimate:
    """The same share of what switching heads off one by one does, added up.

    Heads are ranked by the gradient and judged by the fall of |SEAT| without each; the interval
    resamples target words. Where nothing falls, the share is 0.
    """
    gradient = ablation["gradient"]
    order = np.argsort(-gradient, kind="stable")
    n_biased = int((gradient > 0).sum())
    n_top = min(round(share * len(order)), n_biased)
    sizes = np.abs(resampled_seats(ablation, draws))
    full = sizes[:, :1]
    without = sizes[:, 1:]
    falls = np.vstack([ablation["ablation"], full - without])
    falls = falls[:, order]
    of_top = falls[:, :n_top].sum(1)
    total = falls[:, :n_biased].sum(1)
    shares = np.zeros_like(total)
    np.divide(of_top, total, out=shares, where=total > 0)
    n_words = len(ablation["in_x"])
    return percentile_interval(shares[0], shares[1:], n=n_words, unit="words")


# ---- 02: heads patched, beside their gradient
SAME = "same sentences"
OTHER = "other sentences"
ITSELF = "the patch itself, other sentences"


def agreement(patched: dict, kind: str) -> dict[str, stats.Estimate]:
    """Rank correlations over heads, each the mean of both halves, with a bootstrap over heads.

    Keys: the gradient's with the fall of |SEAT| on the SAME sentences, and on OTHER ones; and of
    the fall with ITSELF on other sentences: how much can be expected of any score.

    patched   what patching.measure returns
    """
    gradient, other_gradient = patched["gradient"].reshape(2, -1).astype(float)
    fall, other_fall = patching.falls(patched, kind).reshape(2, -1)
    pairs = {
        SAME: (gradient, fall, other_gradient, other_fall),
        OTHER: (gradient, other_fall, other_gradient, fall),
        ITSELF: (fall, other_fall, other_fall, fall),
    }
    found = {}
    for name, of_halves in pairs.items():
        found[name] = stats.bootstrap(_mean_rank_correlation, *of_halves)
    return found


def _mean_rank_correlation(x, y, other_x, other_y, axis: int = -1):
    of_one = stats.rank_correlation(x, y, axis)
    of_other = stats.rank_correlation(other_x, other_y, axis)
    return np.mean([of_one, of_other], axis=0)


# ---- 03: heads that are called biased, on sentences and their twins
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
        found = {}
        biased = heads.positive(scores)
        if biased:
            found["biased"] = biased
        regular = heads.positive(-scores)
        if regular:
            found["regular"] = regular
        return found

    @cached_property
    def tests(self) -> dict[str, pd.DataFrame]:
        """The paper's test of either kind of heads, and the same by other units."""
        tested = {}
        for kind, chosen in self.kinds.items():
            tested[kind] = counter.test(self.weights["raw"], chosen, self.pairs)
        return tested

    def favours(self, kind: str) -> stats.Estimate:
        """By how much this kind of heads attends more to the original, as the paper tests it: in
        percentage points of attention.
        """
        row = self.tests[kind].loc["sentence"]
        value, low, high = row[["difference", "low", "high"]].astype(float).tolist()
        share = stats.Estimate(value, low, high, int(row["n"]), "sentences")
        return share * 100

    @cached_property
    def shifts(self) -> dict[tuple[str, str], stats.Estimate]:
        """The same of either kind and their contrast, with both groups of people weighted alike."""
        cells = counter.cells(self.weights, self.pairs)
        return counter.shifts(cells, self.kinds)

    @cached_property
    def by_head(self) -> pd.DataFrame:
        """The paper's test in every head."""
        return counter.per_head(self.weights["raw"])


def experiment(run, name: str, bias: str, source: str) -> Experiment:
    """The experiment of a `Run` on a model and a bias; source: as in counter.sentences."""
    about = heads.arguments(run, name, bias)
    scored = run.measured(heads.measure, *about)
    n = run.sizes.counter_sentences
    pairs, weights = run.measured(counter.measure, name, bias, source, n, run.seed)
    return Experiment(name, bias, scored, pairs, weights)
