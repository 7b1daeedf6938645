"""The figures of notebooks 04 to 06: masked heads, GLUE scores, debiased and chat models."""

import numpy as np
import pandas as pd
from matplotlib.ticker import LogLocator, NullFormatter

from companion import look
from companion.bias_a_head.figures import distribution, heatmap, two_numbers
from lib.bias_a_head import lpbs, masking
from lib.engine import stats

STRATEGIES = {"random": look.PALE, "bottom": look.GOOD, "top": look.BAD}


# ---- 04: masking
def log_ticks(axis):
    """A log scale whose ticks are plain numbers, few enough of them for what it spans."""
    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    low, high = axis.get_view_interval()
    if high / low > 20:
        steps = (1,)
    elif high / low > 4:
        steps = (1, 2, 5)
    else:
        steps = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8)
    axis.set_major_locator(LogLocator(subs=steps))
    axis.set_major_formatter("{x:,g}")
    axis.set_minor_formatter(NullFormatter())


def table1_plane(masks: pd.DataFrame, full: pd.Series, sizes: tuple[int, int, int]):
    """Table 1 on a plane: |SEAT| against PPPL, one point per choice of heads."""
    three, _, dose = sizes
    titles = (f"{three} heads masked", f"{dose} heads masked, the paper's share")
    figure, axes = look.panels(2, height=3.8, sharey=True)
    for ax, size, title in zip(axes, (three, dose), titles):
        for strategy, color in STRATEGIES.items():
            is_here = (masks["strategy"] == strategy) & (masks["k"] == size)
            rows = masks[is_here]
            ax.plot(
                rows["pppl_sample"],
                rows["seat"],
                "o",
                color=color,
                markersize=8,
                markeredgecolor="white",
                label=f"{strategy} heads masked",
            )
        ax.plot(full["pppl_sample"], full["seat"], "k*", markersize=12, label="full model")
        look.mark(ax, full["seat"], upright=False, color="black")
        ax.set(
            title=title,
            xlabel="PPPL, log scale: right is worse",
            ylabel="|SEAT|: lower is less biased",
        )
        log_ticks(ax.xaxis)
        ax.margins(0.12)
    look.legend_below(figure, axes[0], 4)
    return figure


def factual(moved: dict[str, stats.Estimate], n_heads: dict[str, int], start: float):
    """The change of the share of right pronouns of factual gender, one row per mask of Table 1.

    start   the share in the full model; a grey line is where half of the pronouns are right
    """
    figure, (ax,) = look.panels(1, width=6.5, height=3)
    names = list(moved)
    strategy_of = {name: name.split("-")[0].lower() for name in names}
    strategy_of |= {"All": "top", "Dose": "top"}
    for strategy, color in STRATEGIES.items():
        places = [y for y, name in enumerate(names) if strategy_of[name] == strategy]
        estimates = [moved[names[y]] for y in places]
        look.dots(ax, estimates, places, color=color, label=f"{strategy} heads masked")
    look.mark(ax, color="black")
    look.mark(ax, 0.5 - start, linestyle="-")
    look.rows(ax, [f"{name}: {n_heads[name]} heads" for name in names])
    ax.set_xlabel("change of the share of right pronouns")
    look.legend_below(figure, ax, 3)
    return figure


def table3_curves(curve: pd.DataFrame, nearest: pd.Series, theirs: pd.DataFrame):
    """Table 3 as curves: LPBS of each test over the number of top heads masked.

    nearest   for each test, the K at which LPBS is nearest to 0
    theirs    the paper's values: one row per K, one column per test
    """
    figure, axes = look.panels(3, width=3.4, height=3.5, sharey=True)
    for ax, test in zip(axes, lpbs.TESTS):
        rows = curve[curve["test"] == test]
        corrected = rows[["corrected", "low", "high"]].to_numpy()
        look.band(ax, rows["k"], corrected, look.BAD, label="corrected prior")
        ax.plot(
            rows["k"],
            rows["published"],
            "--",
            color=look.NEITHER,
            label="published notebook's prior",
        )
        ax.plot(
            theirs.index.astype(int),
            theirs[test],
            "kx",
            markersize=5,
            label="paper, BERT-base (last: 45 heads)",
        )
        look.mark(ax, upright=False, color="black")
        ax.set_title(f"{test}\nnearest to 0 at K = {nearest[test]}")
        ax.set_xlabel(f"top heads masked (all: {curve['k'].max()})")
    axes[0].set_ylabel("LPBS effect size")
    look.legend_below(figure, axes[1], 3)
    return figure


def curves(masks: pd.DataFrame):
    """|SEAT| and PPPL over the number of heads masked: top, bottom, random (small dots: draws)."""
    figure, axes = look.panels(2)
    for strategy, color in STRATEGIES.items():
        rows = masks[masks["strategy"].isin(["full", strategy])]
        for ax, column in zip(axes, ("seat", "pppl_sample")):
            mean = rows.groupby("k")[column].mean()
            ax.plot(
                mean.index,
                mean,
                color=color,
                marker="o",
                markersize=4,
                label=f"{strategy} heads masked",
            )
            if strategy == "random":
                ax.plot(rows["k"], rows[column], ".", color=color, alpha=0.5)
    axes[0].set(title="Bias", xlabel="heads masked", ylabel="|SEAT|", ylim=(0, None))
    axes[1].set(title="Language", xlabel="heads masked", ylabel="PPPL, log scale")
    log_ticks(axes[1].yaxis)
    look.legend_below(figure, axes[0], 3)
    return figure


def amplified(by_factor: dict, random: tuple, masked: tuple, full: pd.Series, three: int):
    """|SEAT| and PPPL with the lowest heads masked and amplified, beside the top heads masked.

    by_factor   {factor: |SEAT| and PPPL, as estimates}, of the bottom heads
    random      the same of random heads at the factor masking.LOUDER
    masked      the same of the top heads, masked
    """
    figure, axes = look.panels(2)
    factors = list(by_factor)
    for i, (ax, start) in enumerate(zip(axes, (full["seat"], full["pppl_sample"]))):
        lowest = [both[i] for both in by_factor.values()]
        look.dots(
            ax,
            lowest,
            factors,
            upright=True,
            color=STRATEGIES["bottom"],
            label=f"bottom {three} heads × factor",
        )
        look.dots(
            ax,
            [random[i]],
            [masking.LOUDER + 0.08],
            upright=True,
            color=look.NEITHER,
            label=f"random {three} heads × factor",
        )
        look.mark(ax, start, upright=False, color="black")
        ax.plot(1, start, "ko", label="full model")
        value, low, high = masked[i]
        look.mark(
            ax,
            value,
            upright=False,
            color=STRATEGIES["top"],
            linestyle="--",
            label=f"top {three} masked",
        )
        ax.axhspan(low, high, color=STRATEGIES["top"], alpha=0.12, linewidth=0)
        ax.set(
            xlabel="factor on the heads: 0 masked, 1 full",
            xticks=[0, 1, *filter(None, factors)],
            xlim=(-0.25, None),
        )
    axes[0].set(title="Bias", ylabel="|SEAT|")
    axes[1].set(title="Language", ylabel="PPPL")
    look.legend_below(figure, axes[0], 4)
    return figure


# ---- 05: GLUE
def glue_changes(changes: pd.DataFrame, theirs: pd.DataFrame, learned: list, random_of: dict):
    """The change of each GLUE score under either mask, one row per metric, those not run below.

    The mean change with its interval, every seed, random heads as a diamond and the paper's as a
    cross; grey where the unmasked model has not learned the task.

    changes     of the scores against the unmasked model's of the same seed: [(row, seed), mask]
    theirs      the paper's: [row, mask]
    learned     the rows that the unmasked model has learned
    random_of   {mask: the mask of as many random heads}
    """
    run = [row for row in theirs.index if row in changes.index]
    not_run = [row for row in theirs.index if row not in changes.index]
    names = run + not_run
    means = changes.groupby("row").mean()
    drawn = pd.concat([theirs, means[list(random_of)]])
    reach = 1.3 * np.nanmax(np.abs(drawn))  # an interval of few seeds may leave the frame
    figure, axes = look.panels(2, height=4.6, sharex=True, sharey=True)
    shades = (look.SKY, look.BAD)
    for ax, (mask, random), shade in zip(axes, random_of.items(), shades):
        for y, row in enumerate(run):
            color = shade if row in learned else look.NEITHER
            seeds = changes.loc[row, mask]
            look.dots(ax, [stats.mean(seeds)], [y], color=color, markersize=7)
            ax.plot(seeds, [y] * len(seeds), ".", color=color, alpha=0.5)
            if random in changes:
                of_random = means.loc[row, random]
                ax.plot(of_random, y, "kD", fillstyle="none", markersize=5)
        ax.plot(theirs.loc[names, mask], range(len(names)), "kx", markersize=5)
        look.mark(ax, color="black")
        look.rows(ax, names)
        ax.set(
            title=f"{mask} masked",
            xlabel="change of the score, masked less unmasked",
            xlim=(-reach, reach),
        )
    _name_marks(axes[0], bool(run))
    look.legend_below(figure, axes[0], 2)
    return figure


def _name_marks(ax, are_run: bool):
    """The marks of `glue_changes` for the legend, without data; are_run: of our models too."""
    ax.plot([], [], "x", color="black", label="paper, BERT-base")
    if not are_run:
        return
    ax.plot(
        [],
        [],
        "o-",
        color=look.SKY,
        label="mean over seeds (blue: Top-3, orange: All), 95 % interval; dots: seeds",
    )
    ax.plot([], [], "o-", color=look.NEITHER, label="unmasked model has learned nothing")
    ax.plot(
        [],
        [],
        "D",
        color="black",
        fillstyle="none",
        markersize=5,
        label="as many random heads",
    )


# ---- 06: debiased models and LLaMA
def heads_of_models(scores: dict[str, np.ndarray], hatched: list, framed: list[dict]):
    """Fig. 5, and the heads of Fig. 6 and 7: heatmaps of several models, with one scale.

    scores    by the title of a model's panel
    hatched   for each model, (layer, head) of those whose interval includes 0
    framed    for each model, {(layer, head): the colour of a frame around it}
    """
    figure, axes = look.panels(len(scores), width=3.4, height=3.3)
    darkest = max(of_model.max() for of_model in scores.values())
    for ax, (title, of_model), to_hatch, frames in zip(axes, scores.items(), hatched, framed):
        beside = axes if ax is axes[-1] else ()
        heatmap(ax, of_model, title, darkest, to_hatch, frames, beside)
    return figure


def fig67(scores: dict[str, np.ndarray]):
    """Fig. 6 and 7: `distribution` of base and chat models, on the same axes and bins."""
    n = len(scores)
    figure, axes = look.panels(n, width=4.2, height=3.2, sharex=n > 1, sharey=n > 1)
    every = np.concatenate([of_model.ravel() for of_model in scores.values()])
    bins = np.histogram_bin_edges(every, 40)
    for ax, (title, of_model) in zip(axes, scores.items()):
        distribution(ax, of_model, title, bins)
    return figure


def before_and_after(
    ax, before: np.ndarray, after: np.ndarray, followed: list[tuple[int, int]], reach: float
):
    """One point per head: its score in the base, and in a debiased model.

    followed   (layer, head) of those that are ringed and named
    reach      of both axes, one for panels that are compared
    """
    x = before.ravel()
    y = after.ravel()
    _, n_heads = before.shape
    names = {}
    for layer, head in followed:
        place = (layer - 1) * n_heads + head - 1
        names[place] = f"{layer}-{head}"
    ringed = list(names)
    ax.plot(x[ringed], y[ringed], "o", fillstyle="none", color=look.GOOD, markersize=7)
    ax.set(xlim=(-reach, reach), ylim=(-reach, reach), ylabel="bias score now")
    two_numbers(ax, x, y, names)
