"""What notebooks of Bias A-head estimate and tabulate: scores of heads, Tables 1 to 3.

02, 06  result   what heads.measure returns
04      masks    what masking.measure returns, one row per mask
        changes  what seat_changes or fact_changes returns of them
05      runs     one row per fine-tuning and metric: task, row (task and metric), mask, seed, score,
                 constant (the best score of one answer for all)
"""

from dataclasses import replace

import numpy as np
import pandas as pd
from scipy import stats as scipy_stats

from lib.bias_a_head import masking
from lib.engine import stats
from training import glue

CHANCE = 0.05  # p of SEAT below which a model is called biased at all, and its heads after it
# Of |SEAT|: what a head of "no major effect" changes at most, as far as the gradient predicts.
NO_EFFECT = 0.05
SMALL = 0.1  # of all heads: "a small set" (the paper masks 3 of 144)
HIGHEST = 10  # heads on race whose layers are counted
# The control of the rows of Table 1 that mask more than three heads; of the others it is Random-3.
RANDOM = {"All": "Random-All", "Dose": "Random-Dose"}
CHANCE = 0.05  # p of SEAT below which a model is called biased at all, and its heads after it


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
    is_met = result["p"] < CHANCE
    return {f"SEAT of {bias}": "" if is_met else f"{bias} is not significant: {seat_text(result)}"}


def seat_text(result: dict) -> str:
    """SEAT 0.31, p < .001: as panels and reasons show it."""
    return f"SEAT {result['seat']:.2f}, p {p_text(result['p'])}"


def panel_text(result: dict) -> str:
    """The same for a panel; it says so where nothing on it is tested."""
    text = seat_text(result)
    return text if result["p"] < CHANCE else f"{text}\nnot tested: SEAT not significant"


# ---- 02, 06: scores of heads and SEAT, with their uncertainty
def intervals(result: dict) -> pd.DataFrame:
    """One row per head, highest score first: layer, head, score, low, high.

    The 95 % interval is Student's over the folds: the spread of the scores on each fold's contexts
    says how far a score depends on the sentences taken.
    """
    scores = result["scores"]
    reach = _reach(result["folds"])
    layer, head = (np.indices(scores.shape) + 1).reshape(2, -1)
    columns = {"layer": layer, "head": head}
    for name, values in (("score", scores), ("low", scores - reach), ("high", scores + reach)):
        columns[name] = stats.settled(values.astype(float)).ravel()
    frame = pd.DataFrame(columns)
    return frame.sort_values("score", ascending=False, kind="stable", ignore_index=True)


def _reach(folds: np.ndarray) -> np.ndarray:
    """Half the width of Student's 95 % interval over folds [n_folds, ...]."""
    n = len(folds)
    return scipy_stats.t.ppf(0.975, n - 1) * folds.std(0, ddof=1) / np.sqrt(n)


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


def resampled_scores(result: dict, draws: int = 1_000, seed: int = 0) -> np.ndarray:
    """[draws, n_layers, n_heads]: the scores, had other folds been drawn (with replacement)."""
    folds = result["folds"]
    shares = stats.bootstrap_weights(len(folds), draws, seed) / len(folds)
    return result["scores"] + np.einsum("df,flh->dlh", shares, folds - folds.mean(0))


def with_resamples(result: dict) -> np.ndarray:
    """[1 + draws, n_layers, n_heads]: the scores, and then `resampled_scores`."""
    return np.concatenate([result["scores"][None], resampled_scores(result)])


def resampled_seats(result: dict, draws: int = 1_000, seed: int = 0) -> np.ndarray:
    """[draws, ...]: SEAT, had other target words been drawn, of X and of Y as many as there are.

    s may have an axis before the words; then it is SEAT of each row. In ablations these are the
    full model and the model without each head.
    """
    in_x = result["in_x"]
    n = len(in_x)
    rng = np.random.default_rng(seed)
    counts = np.zeros((draws, n))
    for side in (np.flatnonzero(in_x), np.flatnonzero(~in_x)):
        counts[:, side] = stats.bootstrap_weights(len(side), draws, rng)
    sign = np.where(in_x, 1 / in_x.sum(), -1 / (~in_x).sum())
    s = result["s"].T
    difference = (counts * sign) @ s
    variance = (counts @ s**2 - (counts @ s) ** 2 / n) / (n - 1)
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
    low, high = np.array(difference.confidence_interval()) / s.std(ddof=1)
    return stats.Estimate(result["seat"], float(low), float(high), len(s), "words")


def seat_change(base: dict, other: dict) -> stats.Estimate:
    """|SEAT| of the other model minus the base's; the same target words are resampled for both."""
    resampled = np.abs(resampled_seats(other)) - np.abs(resampled_seats(base))
    change = abs(other["seat"]) - abs(base["seat"])
    return percentile_interval(change, resampled, n=len(base["s"]), unit="target words")


def near_zero(result: dict) -> stats.Estimate:
    """The share of heads whose whole interval lies within NO_EFFECT of |SEAT|."""
    frame = intervals(result)
    most = NO_EFFECT * abs(result["seat"])
    is_near = (frame["low"] > -most) & (frame["high"] < most)
    return replace(stats.wilson(is_near), unit="heads")


def more_biased(result: dict, other: dict) -> stats.Estimate:
    """How many more heads have a positive score than in another model, on the same sentences."""
    here, there = ((stats.settled(with_resamples(of)) > 0).sum((1, 2)) for of in (result, other))
    return interval_of_count(here - there, result["scores"].size)


def more_to_the_left(result: dict, other: dict) -> stats.Estimate:
    """How many more heads lie below the lower fence than in another model."""
    (here, _), (there, _) = (outliers(with_resamples(of), (1, 2)) for of in (result, other))
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
    is_upper = top // n_heads >= n_layers / 2
    return interval_of_count(is_upper.sum(1), n_top), n_top * (n_layers // 2) / n_layers


def same_sign(ablation: dict, n_heads: int = 0) -> stats.Estimate:
    """The share of heads whose gradient has the sign of what switching the head off does.

    n_heads   of the model, of which some may not have been tried
    """
    predicted = stats.settled(ablation["gradient"]) > 0
    found = stats.settled(ablation["ablation"]) > 0
    unit = "heads tried" if len(found) < n_heads else "heads"
    return replace(stats.wilson(predicted == found), unit=unit)


def outliers(scores: np.ndarray, axis=None, of: np.ndarray | None = None) -> tuple:
    """How many heads lie beyond Tukey's fences: below the lower one, above the upper one.

    The fences are 1.5 interquartile ranges off the quartiles. of: scores whose fences are taken, if
    not those of `scores`
    """
    low, high = np.quantile(scores if of is None else of, [0.25, 0.75], axis=axis, keepdims=True)
    reach = 1.5 * (high - low)
    return np.sum(scores < low - reach, axis=axis), np.sum(scores > high + reach, axis=axis)


def standing_out(result: dict) -> stats.Estimate:
    """How many heads lie above Tukey's upper fence; the interval is over folds."""
    _, right = outliers(with_resamples(result), (1, 2))
    return interval_of_count(right, result["scores"].size)


def upper_fence(scores: np.ndarray) -> float:
    """Tukey's, above which a head stands out."""
    low, high = np.quantile(scores, [0.25, 0.75])
    return float(high + 1.5 * (high - low))


def layers_with_biased_heads(frame: pd.DataFrame) -> stats.Estimate:
    """How many layers have a head of positive score, the paper's biased head; frame: `intervals`.

    low: the layers with a head whose whole interval lies above 0; high: those with a head whose
    interval reaches above 0.
    """
    by_layer = frame.groupby("layer")[["score", "low", "high"]].max()
    value, low, high = (int((by_layer[column] > 0).sum()) for column in by_layer)
    return stats.Estimate(value, low, high, len(by_layer), "layers")


def share_carried(result: dict, share: float) -> tuple[stats.Estimate, float]:
    """Of the score of all biased heads, the share that the highest `share` of all heads carry.

    Beside it, what as many biased heads would carry that are drawn at random. Heads are ranked, and
    called biased, on one half of the folds and summed on each fold of the other, both ways. It is a
    ratio of means, with Student's interval over folds (linearised); nan if none carries over.
    """
    folds = result["folds"].reshape(len(result["folds"]), -1)
    half = len(folds) // 2
    of_top = []
    of_biased = []
    chance = []
    for choosing, judging in ((folds[:half], folds[half:]), (folds[half:], folds[:half])):
        scores = choosing.mean(0)
        order = np.argsort(-scores, kind="stable")
        n_biased = int((scores > 0).sum())
        n_top = min(round(share * folds.shape[1]), n_biased)
        for fold in judging:
            of_top.append(fold[order[:n_top]].sum())
            of_biased.append(fold[order[:n_biased]].sum())
        chance.append(n_top / max(n_biased, 1))
    top = np.array(of_top)
    biased = np.array(of_biased)
    if biased.mean() <= 0:
        return stats.Estimate(np.nan), float(np.mean(chance))
    ratio = top.mean() / biased.mean()
    residuals = (top - ratio * biased) / biased.mean()
    carried = stats.mean(residuals) + ratio
    return replace(carried, unit="folds"), float(np.mean(chance))


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
    falls = np.vstack([ablation["ablation"], sizes[:, :1] - sizes[:, 1:]])[:, order]
    total = falls[:, :n_biased].sum(1)
    falls_at_all = total > 0
    shares = np.where(falls_at_all, falls[:, :n_top].sum(1) / np.where(falls_at_all, total, 1), 0)
    return percentile_interval(shares[0], shares[1:], n=len(ablation["in_x"]), unit="words")


# ---- 04: Tables 1 and 3
def rows_by_name(masks: pd.DataFrame, sizes: tuple[int, int, int]) -> dict[str, pd.DataFrame]:
    """The rows of a measurement that are in Table 1, by their names there; sizes: masking.sizes.

    "All" masks as many heads as have a positive score, "Dose" the share of all heads that "All" is
    in the paper's BERT.
    """
    k, every, dose = sizes
    strategies = {
        "full": ("full", 0),
        "Top-3": ("top", k),
        "Bottom-3": ("bottom", k),
        "All": ("top", every),
        "Dose": ("top", dose),
        "Random-3": ("random", k),
        "Random-All": ("random", every),
        "Random-Dose": ("random", dose),
    }
    masked = masks[masks["factor"] == 0]
    rows = {}
    for name, (strategy, n_heads) in strategies.items():
        rows[name] = masked[(masked["strategy"] == strategy) & (masked["k"] == n_heads)]
    return rows


def seat_changes(masks: pd.DataFrame, draws: int = 1_000) -> np.ndarray:
    """[1 + draws, masks]: |SEAT| minus the full model's on the same half of the sentences.

    The first row is as measured; the others have target words resampled.
    """
    measured = {"s": np.stack(masks["associations"]), "in_x": masks["in_x"].iloc[0].astype(bool)}
    sizes = np.vstack([masks["seat"], np.abs(resampled_seats(measured, draws))])
    full = masks[masks["strategy"] == "full"].reset_index().set_index("half")["index"]
    return sizes - sizes[:, full[masks["half"]].to_numpy()]


def fact_changes(masks: pd.DataFrame, draws: int = 1_000) -> np.ndarray:
    """[1 + draws, masks]: the change of the share of right pronouns of factual gender.

    The first row is as measured; the others have pairs of sentences resampled. nan where the model
    has no such pronouns.
    """
    right = (np.stack(masks["facts"]) > 0).reshape(len(masks), -1, 2).mean(2)
    n = right.shape[1]
    if not n:
        return np.full((1 + draws, len(masks)), np.nan)
    weights = np.vstack([np.ones(n), stats.bootstrap_weights(n, draws, seed=0)])
    return weights @ (right - right[0]).T / n


def mean_change(
    changes: np.ndarray,
    rows: pd.DataFrame,
    less: pd.DataFrame | None = None,
    unit: str = "target words",
) -> stats.Estimate:
    """The mean of `changes` over these masks, minus that over the masks `less`.

    Random masks are resampled too.
    """
    values = _mean_over_rows(changes, rows)
    if less is not None:
        values = values - _mean_over_rows(changes, less)
    return percentile_interval(values[0], values[1:], n=_how_many(rows, unit), unit=unit)


def _how_many(masks: pd.DataFrame, unit: str) -> int:
    """How many of what an interval is over there are under each mask."""
    if unit == "target words":
        return len(masks["in_x"].iloc[0])
    return len(masks["facts"].iloc[0]) // 2


def _mean_over_rows(changes: np.ndarray, rows: pd.DataFrame) -> np.ndarray:
    """[1 + draws]: the mean of the changes under some masks."""
    values = changes[:, rows.index]
    if rows["strategy"].iloc[0].startswith("random"):
        return masking.mean_over_masks(values)
    return values.mean(1)


def change_at_equal_pppl(
    masks: pd.DataFrame, changes: np.ndarray, rows: pd.DataFrame
) -> stats.Estimate:
    """The mean of `changes` over these masks, minus that of random heads which cost as much PPPL.

    The masks of one draw are nested. SEAT is interpolated between them over log PPPL, from the full
    model on; it is nan beyond the last. Draws of some sizes alone are left out.
    """
    random = masks[(masks["strategy"] == "random") & (masks["factor"] == 0)]
    n_sizes = random.groupby("draw")["k"].transform("nunique")
    random = random[n_sizes == n_sizes.max()]
    cost = np.log(masks["pppl_sample"])
    start = np.log(masks["pppl_sample"].iloc[0])
    wanted = cost[rows.index].mean()
    interpolated = []
    for _, of_draw in random.groupby("draw"):
        x = np.append(start, cost[of_draw.index])
        y = np.hstack([np.zeros((len(changes), 1)), changes[:, of_draw.index]])
        order = np.argsort(x, kind="stable")
        values = [np.interp(wanted, x[order], row[order], right=np.nan) for row in y]
        interpolated.append(values)
    of_random = masking.mean_over_masks(np.array(interpolated).T)
    values = changes[:, rows.index].mean(1) - of_random
    n = _how_many(rows, "target words")
    return percentile_interval(values[0], values[1:], n=n, unit="target words")


def most_top_heads(masks: pd.DataFrame, times: float) -> pd.DataFrame:
    """The masks of the most top heads that leave PPPL below so many times the full model's, on the
    lines that every mask read; none where the fewest cost more.
    """
    start = masks.loc[masks["strategy"] == "full", "pppl_sample"].mean()
    tops = masks[(masks["strategy"] == "top") & (masks["factor"] == 0)]
    cost = tops.groupby("k")["pppl_sample"].mean() / start
    cheap = cost.index[cost < times]
    return tops[tops["k"] == cheap.max()] if len(cheap) else tops[:0]


def pppl_ratio_at(masks: pd.DataFrame, sizes: tuple[int, int, int], n_heads: int) -> float:
    """By what PPPL is multiplied with so many top heads masked: between the sizes of Table 1 its
    log is interpolated.
    """
    by_name = rows_by_name(masks, sizes)
    known = {0: 0.0}
    for name in ("Top-3", "Dose", "All"):
        rows = by_name[name]
        known[rows["k"].iloc[0]] = np.log(pppl_ratio(masks, rows).value)
    places = sorted(known)
    return float(np.exp(np.interp(n_heads, places, [known[place] for place in places])))


def pppl_ratio(
    masks: pd.DataFrame, rows: pd.DataFrame, start: pd.DataFrame | None = None
) -> stats.Estimate:
    """PPPL under these masks, divided by that under `start`, or that of the full model.

    1.02 is two percent worse. The interval is over lines; of random masks, which read a sample of
    the lines, over draws.
    """
    full = masks.iloc[[0]]
    if rows["strategy"].iloc[0].startswith("random"):
        ratios = rows["pppl_sample"].to_numpy() / full["pppl_sample"].iloc[0]
        value, low, high = (float(np.exp(end)) for end in stats.mean(np.log(ratios)))
        return stats.Estimate(value, low, high, len(rows), "draws")
    ours = np.stack(rows["likelihoods"]).mean(0)
    theirs = np.stack((full if start is None else start)["likelihoods"]).mean(0)
    lengths = full["lengths"].iloc[0]
    return replace(stats.bootstrap(_ratio, ours, theirs, lengths, draws=1_000), unit="lines")


def on_sample(masks: pd.DataFrame) -> pd.DataFrame:
    """The masks with the lines alone that all of them were read on: those of random heads."""
    is_read = masks["lengths"].iloc[-1] > 0
    kept = masks.copy()
    for name in ("likelihoods", "lengths"):
        kept[name] = [of_lines[is_read] for of_lines in masks[name]]
    return kept


def _ratio(masked: np.ndarray, plain: np.ndarray, lengths: np.ndarray) -> float:
    """The ratio of two perplexities, from log likelihoods and numbers of tokens per line."""
    return np.exp((plain.sum() - masked.sum()) / lengths.sum())


# ---- 05: GLUE
def learned(runs: pd.DataFrame) -> list[str]:
    """The rows (task and metric) where the unmasked model beats one answer for all.

    It has to by more than glue.LEARNED.
    """
    unmasked = runs[runs["mask"] == glue.MASKS["none"]]
    means = unmasked.groupby("row", sort=False)[["score", "constant"]].mean()
    return list(means.index[means["score"] > means["constant"] + glue.LEARNED])


def score_change(runs: pd.DataFrame, mask: str, less: str) -> stats.Estimate:
    """The mean change of the scores under one mask, less that under another, over the tasks that
    the unmasked model has learned and every seed has under both: a task once, by its first metric
    that was learned. The interval is over seeds; nan where there is no such task.

    mask, less   as Table 2 calls them
    """
    runs = runs[runs["row"].isin(learned(runs))]
    first_metric = runs.groupby("task")["row"].first()
    runs = runs[runs["row"].isin(first_metric)]
    scores = runs.pivot(index=["task", "seed"], columns="mask", values="score")
    both = scores.reindex(columns=[mask, less])
    changes = (both[mask] - both[less]).unstack("seed").dropna()
    if changes.empty:
        return stats.Estimate(np.nan)
    return replace(stats.mean(changes.mean()), unit="seeds")
