"""What switching heads off does: to SEAT, PPPL and facts (notebook 04), to GLUE scores (05).

masks    what masking.measure returns, one row per mask
changes  what seat_changes or fact_changes returns of them: as measured, then resampled
"""

from dataclasses import replace

import numpy as np
import pandas as pd

from companion.bias_a_head import estimators
from lib.bias_a_head import masking
from lib.engine import stats


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
    rows = {}
    for name, (strategy, n_heads) in strategies.items():
        is_in_row = (masks["strategy"] == strategy) & (masks["k"] == n_heads)
        rows[name] = masks[is_in_row]
    return rows


# ---- changes under masks
def seat_changes(masks: pd.DataFrame, draws: int = 1_000) -> np.ndarray:
    """[1 + draws, masks]: |SEAT| minus the full model's on the same half of the sentences.

    The first row is as measured; the others have target words resampled.
    """
    s = np.stack(masks["associations"])
    in_x = masks["in_x"].iloc[0].astype(bool)
    resampled = estimators.resampled_seats({"s": s, "in_x": in_x}, draws)
    sizes = np.vstack([masks["seat"], np.abs(resampled)])
    full = masks[masks["strategy"] == "full"].reset_index()
    full_of_half = full.set_index("half")["index"]
    full_of_row = full_of_half[masks["half"]].to_numpy()
    return sizes - sizes[:, full_of_row]


def fact_changes(masks: pd.DataFrame, draws: int = 1_000) -> np.ndarray:
    """[1 + draws, masks]: the change of the share of right pronouns of factual gender.

    The first row is as measured; the others have pairs of sentences resampled. nan where the model
    has no such pronouns.
    """
    is_right = np.stack(masks["facts"]) > 0
    right = is_right.reshape(len(masks), -1, 2).mean(2)
    _, n = right.shape
    if not n:
        return np.full((1 + draws, len(masks)), np.nan)
    resampled = stats.bootstrap_weights(n, draws, seed=0)
    weights = np.vstack([np.ones(n), resampled])
    gained = right - right[0]
    return weights @ gained.T / n


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
    n = _how_many(rows, unit)
    return estimators.percentile_interval(values[0], values[1:], n=n, unit=unit)


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
    random = masks[masks["strategy"] == "random"]
    n_sizes = random.groupby("draw")["k"].transform("nunique")
    random = random[n_sizes == n_sizes.max()]
    cost = np.log(masks["pppl_sample"])
    wanted = cost[rows.index].mean()
    unchanged = np.zeros((len(changes), 1))  # the full model
    interpolated = []
    for _, of_draw in random.groupby("draw"):
        x = np.append(cost.iloc[0], cost[of_draw.index])
        y = np.hstack([unchanged, changes[:, of_draw.index]])
        order = np.argsort(x, kind="stable")
        x = x[order]
        y = y[:, order]
        values = [np.interp(wanted, x, row, right=np.nan) for row in y]
        interpolated.append(values)
    interpolated = np.array(interpolated).T
    of_random = masking.mean_over_masks(interpolated)
    values = changes[:, rows.index].mean(1) - of_random
    n = _how_many(rows, "target words")
    return estimators.percentile_interval(values[0], values[1:], n=n, unit="target words")


def pppl_ratio(
    masks: pd.DataFrame, rows: pd.DataFrame, start: pd.DataFrame | None = None
) -> stats.Estimate:
    """PPPL under these masks, divided by that under `start`, or that of the full model.

    1.02 is two percent worse. The interval is over lines; of random masks, which read a sample of
    the lines, over draws.
    """
    full = masks.iloc[0]
    if rows["strategy"].iloc[0].startswith("random"):
        ratios = rows["pppl_sample"].to_numpy() / full["pppl_sample"]
        mean = stats.mean(np.log(ratios))
        value, low, high = (float(np.exp(end)) for end in mean)
        return stats.Estimate(value, low, high, len(rows), "draws")
    if start is None:
        start = masks.iloc[[0]]
    ours = np.stack(rows["likelihoods"]).mean(0)
    theirs = np.stack(start["likelihoods"]).mean(0)
    ratio = stats.bootstrap(_ratio, ours, theirs, full["lengths"], draws=1_000)
    return replace(ratio, unit="lines")


def _ratio(masked: np.ndarray, plain: np.ndarray, lengths: np.ndarray) -> float:
    """The ratio of two perplexities, from log likelihoods and numbers of tokens per line."""
    lost = plain.sum() - masked.sum()
    return np.exp(lost / lengths.sum())


# ---- GLUE
def score_change(runs: pd.DataFrame, mask: str, less: str) -> stats.Estimate:
    """The mean change of the scores under one mask, less that under another, over the tasks that
    every seed has under both: a task once, by its first metric. The interval is over seeds; nan
    where there is no such task.

    runs         columns task, row (task and metric), mask, seed, score: of what was learned
    mask, less   as Table 2 calls them
    """
    first_metric = runs.groupby("task")["row"].first()
    runs = runs[runs["row"].isin(first_metric)]
    scores = runs.pivot(index=["task", "seed"], columns="mask", values="score")
    both = scores.reindex(columns=[mask, less])
    changes = both[mask] - both[less]
    of_every_seed = changes.unstack("seed").dropna()
    if of_every_seed.empty:
        return stats.Estimate(np.nan)
    by_seed = of_every_seed.mean()
    return replace(stats.mean(by_seed), unit="seeds")
