"""What several notebooks of Bias A-head, or their claims, tabulate: head scores, Tables 1 to 3.

02, 06  result   what heads.measure returns
04      masks    what masking.measure returns, one row per mask; changes   what seat_changes returns of them
        curve    the first that lpbs.top_k returns
05      runs     one row per fine-tuning and metric: task, row (task and metric), mask, seed, score, constant"""

import numpy as np
import pandas as pd
from scipy import stats as scipy_stats

from lib.bias_a_head import glue, lpbs, masking
from lib.engine import stats

RANDOM = {
    "All": "Random-All",
    "Dose": "Random-Dose",
}  # the control of each row of Table 1; of the others Random-3


def p_text(p: float) -> str:
    """Two digits after the point, or what p is below: sampled p-values wobble."""
    return "< .001" if p < 0.001 else "< .01" if p < 0.01 else f"{p:.2f}"


def intervals(result: dict) -> pd.DataFrame:
    """One row per head, highest score first: layer, head, score, low, high. The 95 % interval is Student's over the
    folds: the spread of the scores of each fold's contexts says how far a score depends on the sentences taken."""
    scores, folds = result["scores"], result["folds"]
    reach = scipy_stats.t.ppf(0.975, len(folds) - 1) * folds.std(0, ddof=1) / np.sqrt(len(folds))
    layer, head = (np.indices(scores.shape) + 1).reshape(2, -1)
    ends = {"score": scores, "low": scores - reach, "high": scores + reach}
    columns = {name: stats.settled(values.astype(float)).ravel() for name, values in ends.items()}
    frame = pd.DataFrame({"layer": layer, "head": head} | columns)
    return frame.sort_values("score", ascending=False, kind="stable", ignore_index=True)


def undecided(frame: pd.DataFrame) -> list[tuple[int, int]]:
    """(layer, head) of those in `intervals` whose interval includes 0."""
    return list(
        frame.loc[(frame.low <= 0) & (frame.high >= 0), ["layer", "head"]].itertuples(
            index=False, name=None
        )
    )


def redrawn(result: dict, draws: int = 1_000, seed: int = 0) -> np.ndarray:
    """[draws, n_layers, n_heads]: the scores, had the folds been others: they are drawn with replacement."""
    folds, n = result["folds"], len(result["folds"])
    shares = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), draws) / n
    return result["scores"] + np.einsum("df,flh->dlh", shares, folds - folds.mean(0))


def seats(result: dict, draws: int = 1_000, seed: int = 0) -> np.ndarray:
    """[draws, ...]: SEAT, had the target words been others; drawn with replacement, of X and of Y as many as there are.
    s may have an axis before the words: then SEAT of each row (of ablations, the full model and without each head)."""
    rng, in_x, n = np.random.default_rng(seed), result["in_x"], len(result["in_x"])
    counts, sign = np.zeros((draws, n)), np.where(in_x, 1 / in_x.sum(), -1 / (~in_x).sum())
    for side in (np.flatnonzero(in_x), np.flatnonzero(~in_x)):
        counts[:, side] = rng.multinomial(len(side), np.full(len(side), 1 / len(side)), draws)
    s = result["s"].T
    return (counts * sign @ s) / np.sqrt((counts @ s**2 - (counts @ s) ** 2 / n) / (n - 1))


def spread(value: float, drawn: np.ndarray, **about) -> stats.Estimate:
    """A value with the middle 95 % of what it is in other draws; counts stay counts."""
    return stats.redrawn([value, *drawn], method="inverted_cdf", **about)


def seat_interval(result: dict) -> stats.Estimate:
    """SEAT with Welch's interval of the difference of the means, in the same deviation: for few words."""
    if "s" not in result:  # stored before associations were
        return stats.Estimate(result["seat"])
    gap = scipy_stats.ttest_ind(
        result["s"][result["in_x"]], result["s"][~result["in_x"]], equal_var=False
    )
    low, high = np.array(gap.confidence_interval()) / result["s"].std(ddof=1)
    return stats.Estimate(result["seat"], float(low), float(high), len(result["s"]), "words")


def same_sign(ablation: dict) -> stats.Estimate:
    """In what share of the heads the gradient has the sign of what switching the head off does; over heads."""
    return stats.wilson(
        (stats.settled(ablation["gradient"]) > 0) == (stats.settled(ablation["ablation"]) > 0)
    )


def standing_out(scores: np.ndarray, axis=None, of: np.ndarray | None = None) -> tuple:
    """Heads beyond Tukey's fences, 1.5 interquartile ranges off the quartiles (`of` others, if given): left, right."""
    low, high = np.quantile(scores if of is None else of, [0.25, 0.75], axis=axis, keepdims=True)
    reach = 1.5 * (high - low)
    return np.sum(scores < low - reach, axis=axis), np.sum(scores > high + reach, axis=axis)


def layers_with_heads(frame: pd.DataFrame, margin: float) -> stats.Estimate:
    """How many layers have biased heads. low: those in which more intervals lie above 0 than chance explains (2.5 % of
    heads without effect; binomial, p < .05); high: those that are not shown to have none, all below the margin."""
    by_layer = [(rows.low > 0, rows.high > margin) for _, rows in frame.groupby("layer")]
    there = [
        scipy_stats.binomtest(int(above.sum()), len(above), 0.025, "greater").pvalue < 0.05
        for above, _ in by_layer
    ]
    maybe = [is_there or large.any() for is_there, (_, large) in zip(there, by_layer)]
    return stats.Estimate(sum(there), sum(there), sum(maybe), len(by_layer), "layers")


def carried(result: dict, share: float) -> tuple[stats.Estimate, float]:
    """What share of the score of all biased heads the highest carry, a `share` of all heads; and what as many biased
    ones would, drawn at random. Heads are ranked, and called biased, on one half of the folds and summed on each fold
    of the other, both ways. A ratio of means, Student's interval over folds (linearised); nan if none carries over."""
    folds = result["folds"].reshape(len(result["folds"]), -1)
    half, sums, chance = len(folds) // 2, [], []
    for choosing, judging in ((folds[:half], folds[half:]), (folds[half:], folds[:half])):
        order, biased = (
            np.argsort(-choosing.mean(0), kind="stable"),
            int((choosing.mean(0) > 0).sum()),
        )
        few = min(round(share * folds.shape[1]), biased)
        sums += [(fold[order[:few]].sum(), fold[order[:biased]].sum()) for fold in judging]
        chance.append(few / max(biased, 1))
    top, every = np.transpose(sums)
    if every.mean() <= 0:
        return stats.Estimate(np.nan), float(np.mean(chance))
    ratio = top.mean() / every.mean()
    return stats.mean((top - ratio * every) / every.mean()) + ratio, float(np.mean(chance))


def carried_by_ablation(ablation: dict, share: float, draws: int = 1_000) -> stats.Estimate:
    """The same share of what switching heads off one by one does, added up: ranked by the gradient, judged by the fall
    of |SEAT| without each; over target words drawn again. Where nothing falls, none of it is carried."""
    order, biased = (
        np.argsort(-ablation["gradient"], kind="stable"),
        int((ablation["gradient"] > 0).sum()),
    )
    few, sizes = min(round(share * len(order)), biased), np.abs(seats(ablation, draws))
    falls = np.vstack([ablation["ablation"], sizes[:, :1] - sizes[:, 1:]])[:, order]
    every = falls[:, :biased].sum(1)
    shares = np.where(every > 0, falls[:, :few].sum(1) / np.where(every > 0, every, 1), 0)
    return spread(shares[0], shares[1:], n=len(ablation["in_x"]), unit="words")


def named(masks: pd.DataFrame, sizes: tuple[int, int, int]) -> dict[str, pd.DataFrame]:
    """The rows of a measurement that are Table 1's, by the names that they have there; sizes: masking.sizes. "All"
    masks as many heads as have a positive score, "Dose" the share of all heads that "All" is in the paper's BERT."""
    masked, (k, every, dose) = masks[masks["factor"] == 0], sizes
    rows = {
        "full": ("full", 0),
        "Top-3": ("top", k),
        "Bottom-3": ("bottom", k),
        "All": ("top", every),
        "Dose": ("top", dose),
        "Random-3": ("random", k),
        "Random-All": ("random", every),
        "Random-Dose": ("random", dose),
    }
    return {
        name: masked[(masked["strategy"] == kind) & (masked["k"] == n)]
        for name, (kind, n) in rows.items()
    }


def seat_changes(masks: pd.DataFrame, draws: int = 1_000) -> np.ndarray:
    """[1 + draws, masks]: |SEAT| less the full model's on the same half, as it is, then with target words resampled."""
    measured = {"s": np.stack(masks["associations"]), "in_x": masks["in_x"].iloc[0].astype(bool)}
    sizes = np.vstack([masks["seat"], np.abs(seats(measured, draws))])
    full = masks[masks["strategy"] == "full"].reset_index().set_index("half")["index"]
    return sizes - sizes[:, full[masks["half"]].to_numpy()]


def fact_changes(masks: pd.DataFrame, draws: int = 1_000) -> np.ndarray:
    """[1 + draws, masks]: the same of the share of right pronouns of factual gender, pairs of sentences resampled."""
    right = (np.stack(masks["facts"]) > 0).reshape(len(masks), -1, 2).mean(2)
    n = right.shape[1]
    weights = (
        np.random.default_rng(0).multinomial(n, np.full(n, 1 / n), draws)
        if n
        else np.zeros((draws, 0))
    )
    return np.vstack([np.ones(n), weights]) @ (right - right[0]).T / (n or np.nan)


def change(
    changes: np.ndarray,
    rows: pd.DataFrame,
    less: pd.DataFrame | None = None,
    unit: str = "target words",
) -> stats.Estimate:
    """The mean of `seat_changes` or `fact_changes` of these masks, less that of others; random ones are resampled too."""

    def mean(rows):
        values = changes[:, rows.index]
        return (
            masking.over_draws(values)
            if rows["strategy"].iloc[0].startswith("random")
            else values.mean(1)
        )

    values = mean(rows) - (0 if less is None else mean(less))
    return spread(values[0], values[1:], unit=unit)


def change_at_equal_pppl(
    masks: pd.DataFrame, changes: np.ndarray, rows: pd.DataFrame
) -> stats.Estimate:
    """The mean of `seat_changes` of these masks, less that of random heads which cost as much PPPL. The masks of a draw
    contain each other: SEAT is interpolated between them over log PPPL, from the full model on; nan beyond the last."""
    random = masks[(masks["strategy"] == "random") & (masks["factor"] == 0)]
    cost, start = np.log(masks["pppl_sample"]), np.log(masks["pppl_sample"].iloc[0])
    at, drawn = cost[rows.index].mean(), []
    for _, own in random.groupby("draw"):
        x, y = (
            np.append(start, cost[own.index]),
            np.hstack([np.zeros((len(changes), 1)), changes[:, own.index]]),
        )
        order = np.argsort(x, kind="stable")
        drawn.append([np.interp(at, x[order], row[order], right=np.nan) for row in y])
    values = changes[:, rows.index].mean(1) - masking.over_draws(np.array(drawn).T)
    return spread(values[0], values[1:], unit="target words")


def times(
    masks: pd.DataFrame, rows: pd.DataFrame, start: pd.DataFrame | None = None
) -> stats.Estimate:
    """How many times the PPPL of `start`, the full model if left out, this one is: 1.02 is two percent worse. Over
    lines; of random masks, which read a sample of the lines, over draws."""
    full = masks.iloc[[0]]
    if rows["strategy"].iloc[0] == "random":
        ratio = stats.mean(np.log(rows["pppl_sample"].to_numpy() / full["pppl_sample"].iloc[0]))
        return stats.Estimate(*(float(np.exp(end)) for end in ratio), len(rows), "draws")
    ours, theirs = (
        np.stack(part["likelihoods"]).mean(0) for part in (rows, full if start is None else start)
    )
    return stats.bootstrap(
        lambda masked, plain, n: np.exp((plain.sum() - masked.sum()) / n.sum()),
        ours,
        theirs,
        full["lengths"].iloc[0],
        draws=1_000,
    )


def table1(masks: pd.DataFrame, sizes: tuple[int, int, int], changes: np.ndarray) -> pd.DataFrame:
    """Table 1: one row per strategy, the mean of both halves or of the draws. `change` of SEAT against the full model,
    and `beyond random` heads of the same number; PPPL, and how many `times` the full model's it is. 95 % intervals draw
    target words (SEAT) and lines (PPPL) again, and random heads."""
    table, by_name = [], named(masks, sizes)
    seat, pppl = (masks[masks["strategy"] == "full"][key].mean() for key in ("seat", "pppl"))
    for name, rows in by_name.items():
        row = {
            "masked": name,
            "heads": rows["k"].iloc[0],
            "masks": len(rows),
            "SEAT": seat,
            "change": "",
            "beyond random": "",
            "PPPL": pppl,
            "times": "",
        }
        if name != "full":
            moved, cost = change(changes, rows), times(masks, rows)
            row |= {
                "SEAT": seat + moved.value,
                "change": str(moved),
                "PPPL": pppl * cost.value,
                "times": three(cost),
            }
        if rows["strategy"].iloc[0] in ("top", "bottom"):
            row["beyond random"] = str(change(changes, rows, by_name[RANDOM.get(name, "Random-3")]))
        table.append(row)
    table = pd.DataFrame(table).set_index("masked")
    return table.assign(PPPL=table["PPPL"].map(digits)).round(2)


def table3(curve: pd.DataFrame) -> pd.DataFrame:
    """Table 3: one row per K, one column per test under either variant of the prior."""
    wide = curve.pivot(index="k", columns="test", values=list(lpbs.PRIORS))
    return (
        wide.reindex(columns=[(prior, test) for prior in lpbs.PRIORS for test in lpbs.TESTS]).round(
            2
        )
        + 0.0
    )


def three(estimate: stats.Estimate) -> str:
    """Three digits of each."""
    return "{:g} [{:g}, {:g}]".format(*map(digits, estimate))


def digits(value: float) -> float:
    """Three digits: a PPPL may be 4 or 40,000."""
    return float(f"{value:.3g}")


def learned(runs: pd.DataFrame) -> list[str]:
    """The rows (task and metric) where the unmasked model is above one answer for all by more than glue.LEARNED."""
    full = (
        runs[runs["mask"] == glue.MASKS["none"]]
        .groupby("row", sort=False)[["score", "constant"]]
        .mean()
    )
    return list(full.index[full["score"] > full["constant"] + glue.LEARNED])
