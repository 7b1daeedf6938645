"""The figures of notebooks 04 to 06 that take more than a few lines to draw."""

import numpy as np
import pandas as pd
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from companion import look
from companion.bias_a_head import estimators
from companion.bias_a_head.figures import DARK, distribution, heatmap
from lib.bias_a_head import lpbs, masking
from lib.engine import stats
from training import glue

# ---- 04: masking
STRATEGIES = {"random": look.PALE, "bottom": look.GOOD, "top": look.BAD}


def log_ticks(axis):
    """Make an axis logarithmic, with plain numbers, and enough of them for what it spans."""
    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    low, high = axis.get_view_interval()
    if high / low > 20:
        steps = (1,)
    elif high / low > 4:
        steps = (1, 2, 5)
    else:
        steps = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8)
    axis.set_major_locator(LogLocator(subs=steps))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.set_minor_formatter(NullFormatter())


def _legend_below(figure, ax, columns: int):
    """One legend for all panels, that of `ax`, under them."""
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(handles, labels, fontsize=7.5, loc="outside lower left", ncols=columns)


def table1_plane(masks: pd.DataFrame, full: pd.Series, sizes: tuple[int, int, int]):
    """Table 1 on a plane: |SEAT| against PPPL, one point per choice of heads."""
    three, _, dose = sizes
    titles = (f"{three} heads masked", f"{dose} heads masked, the paper's share")
    figure, axes = look.panels(2, height=3.8, sharey=True)
    for ax, size, title in zip(axes, (three, dose), titles):
        for strategy, color in STRATEGIES.items():
            rows = masks[(masks["strategy"] == strategy) & (masks["k"] == size)]
            ax.scatter(
                rows["pppl_sample"],
                rows["seat"],
                color=color,
                s=46,
                edgecolor="white",
                zorder=3,
                label=f"{strategy} heads masked",
            )
        ax.scatter(
            full["pppl_sample"],
            full["seat"],
            color="black",
            marker="*",
            s=130,
            zorder=4,
            label="full model",
        )
        ax.axhline(full["seat"], color="black", linewidth=0.8, linestyle=":")
        ax.set(
            title=title,
            xlabel="PPPL, log scale: right is worse",
            ylabel="|SEAT|: lower is less biased",
        )
        log_ticks(ax.xaxis)
        ax.margins(0.12)
    _legend_below(figure, axes[0], 4)
    return figure


def factual(moved: dict[str, stats.Estimate], n_heads: dict[str, int], start: float):
    """The change of the share of right pronouns of factual gender, one row per mask of Table 1.

    start   the share in the full model; a grey line is where half of the pronouns are right
    """
    figure, (ax,) = look.panels(1, width=6.5, height=3)
    for y, (name, change) in enumerate(moved.items()):
        if name.startswith("Random"):
            color = STRATEGIES["random"]
        elif name.startswith("Bottom"):
            color = STRATEGIES["bottom"]
        else:
            color = STRATEGIES["top"]
        ax.plot([change.low, change.high], [y, y], color=color, linewidth=2)
        ax.plot(change.value, y, "o", color=color)
    for strategy, color in STRATEGIES.items():
        ax.plot([], [], "o", color=color, label=f"{strategy} heads masked")
    ax.legend(fontsize=7.5, loc="upper center", bbox_to_anchor=(0.4, -0.28), ncols=3)
    ax.axvline(0, color="black", linewidth=0.8, linestyle=":")
    ax.axvline(0.5 - start, color=look.NEITHER, linewidth=0.8)
    ax.set_yticks(range(len(moved)), [f"{name}: {n_heads[name]} heads" for name in moved])
    ax.set(ylim=(len(moved) - 0.5, -0.5), xlabel="change of the share of right pronouns")
    return figure


def table3_curves(curve: pd.DataFrame, nearest: pd.Series, theirs: pd.DataFrame):
    """Table 3 as curves: LPBS of each test over the number of top heads masked.

    nearest   for each test, the K at which LPBS is nearest to 0
    theirs    the paper's values: one row per K, one column per test
    """
    figure, axes = look.panels(3, width=3.4, height=3.5, sharey=True)
    last = curve["k"].max()
    for ax, test in zip(axes, lpbs.TESTS):
        rows = curve[curve["test"] == test]
        ax.fill_between(
            rows["k"], rows["low"], rows["high"], color=look.BAD, alpha=0.15, linewidth=0
        )
        ax.plot(
            rows["k"],
            rows["corrected"],
            color=look.BAD,
            marker="o",
            markersize=3.5,
            label="corrected prior",
        )
        ax.plot(
            rows["k"],
            rows["published"],
            color=look.NEITHER,
            linestyle="--",
            label="published notebook's prior",
        )
        ax.plot(
            theirs.index.astype(int),
            theirs[test],
            "x",
            color="black",
            markersize=5,
            label="paper, BERT-base (last: 45 heads)",
        )
        ax.axhline(0, color="black", linewidth=0.8, linestyle=":")
        ax.set(
            title=f"{test}\nnearest to 0 at K = {nearest[test]}",
            xlabel=f"top heads masked (all: {last})",
        )
    axes[0].set_ylabel("LPBS effect size")
    _legend_below(figure, axes[1], 3)
    return figure


def curves(masks: pd.DataFrame):
    """|SEAT| and PPPL over the number of heads masked: top, bottom, random (small dots: draws)."""
    figure, axes = look.panels(2)
    for strategy, color in STRATEGIES.items():
        rows = masks[masks["strategy"].isin(["full", strategy])]
        for ax, column in zip(axes, ("seat", "pppl_sample")):
            mean = rows.groupby("k")[column].mean()
            label = f"{strategy} heads masked"
            ax.plot(mean.index, mean, color=color, marker="o", markersize=4, label=label)
            if strategy == "random":
                drawn = rows[rows["strategy"] == strategy]
                ax.scatter(drawn["k"], drawn[column], color=color, s=10, alpha=0.5)
    axes[0].set(title="Bias", xlabel="heads masked", ylabel="|SEAT|", ylim=(0, None))
    axes[1].set(title="Language", xlabel="heads masked", ylabel="PPPL, log scale")
    log_ticks(axes[1].yaxis)
    _legend_below(figure, axes[0], 3)
    return figure


def amplified(by_factor: dict, random: tuple, masked: tuple, full: pd.Series, three: int):
    """|SEAT| and PPPL with the lowest heads masked and amplified, beside the top heads masked.

    by_factor   {factor: |SEAT| and PPPL, as estimates}, of the bottom heads
    random      the same of random heads at the factor masking.LOUDER
    masked      the same of the top heads, masked
    """
    figure, axes = look.panels(2)
    for factor, found in by_factor.items():
        label = f"bottom {three} heads × factor" if factor == 0 else None
        _points(axes, factor, found, color=STRATEGIES["bottom"], label=label)
    label = f"random {three} heads × factor"
    _points(axes, masking.LOUDER + 0.08, random, color=look.NEITHER, label=label)
    for ax, start, top in zip(axes, (full["seat"], full["pppl_sample"]), masked):
        ax.axhline(start, color="black", linewidth=0.8, linestyle=":")
        ax.plot(1, start, "o", color="black", label="full model")
        ax.axhline(
            top.value,
            color=STRATEGIES["top"],
            linewidth=1,
            linestyle="--",
            label=f"top {three} masked",
        )
        ax.axhspan(top.low, top.high, color=STRATEGIES["top"], alpha=0.12, linewidth=0)
        factors = [0, 1, *(factor for factor in by_factor if factor)]
        ax.set(xlabel="factor on the heads: 0 masked, 1 full", xticks=factors, xlim=(-0.25, None))
    axes[0].set(title="Bias", ylabel="|SEAT|")
    axes[1].set(title="Language", ylabel="PPPL")
    _legend_below(figure, axes[0], 4)
    return figure


def _points(axes, x: float, estimates: tuple, **style):
    """One point with its interval in each panel."""
    for ax, at in zip(axes, estimates):
        ax.errorbar(x, at.value, yerr=look.arms(*at), fmt="o", zorder=3, **style)


# ---- 05: GLUE
NAMES = {"f1": "F1", "matthews": "Matthews", "pearson": "Pearson", "spearman": "Spearman"}


def glue_changes(moved: pd.DataFrame, by_seed: pd.DataFrame, learned: list[str]):
    """The change of each GLUE score under either mask, one row per metric, those not run below.

    The mean change with its interval, every seed, random heads as a diamond and the paper's as a
    cross; grey where the unmasked model has not learned the task.

    moved     one row per metric and mask: row, mask, value, low, high, printed
    by_seed   the scores, [(row, seed), mask]
    learned   the rows that the unmasked model has learned
    """
    full, top3, every = glue.MASKS.values()
    random3, random_all = glue.RANDOM.values()
    shades = {top3: look.SKY, every: look.BAD}
    random_of = {top3: random3, every: random_all}
    figure, axes = look.panels(2, height=4.6, sharex=True, sharey=True)
    are_run = set(by_seed.index.get_level_values(0))
    # an interval of few seeds may leave the frame
    reach = 1.3 * moved[["value", "printed"]].abs().max().max()
    for ax, mask in zip(axes, (top3, every)):
        rows = moved[moved["mask"] == mask]
        rows = pd.concat([rows[rows["row"].isin(are_run)], rows[~rows["row"].isin(are_run)]])
        for y, row in enumerate(rows.itertuples()):
            if row.row in are_run:
                shade = shades[mask] if row.row in learned else look.NEITHER
                _glue_row(ax, -y, row, by_seed.loc[row.row], random_of[mask], shade)
            ax.scatter(row.printed, -y, color="black", marker="x", s=26, linewidth=1, zorder=5)
        ax.axvline(0, color="black", linewidth=0.8, linestyle=":")
        label = "change of the score, masked less unmasked"
        ax.set(title=f"{mask} masked", xlabel=label, xlim=(-reach, reach))
        ax.grid(axis="y", visible=False)
    labels = []
    for task, metric in rows["row"].str.split():
        labels.append(f"{task} {NAMES.get(metric, metric)}")
    axes[0].set_yticks([-y for y in range(len(labels))], labels)
    _glue_legend(figure, is_run=len(by_seed) > 0)
    return figure


def _glue_row(ax, y: float, row, seeds: pd.DataFrame, random: str, shade: str):
    """What our runs give for one metric and mask; seeds: the scores by seed and mask."""
    full = seeds[glue.MASKS["none"]]
    ax.plot([row.low, row.high], [y, y], color=shade, linewidth=2, alpha=0.4, zorder=2)
    ax.scatter(seeds[row.mask] - full, [y] * len(seeds), color=shade, s=9, zorder=3)
    ax.scatter(row.value, y, color=shade, s=42, edgecolor="white", zorder=4)
    if random in seeds and seeds[random].notna().all():
        ax.scatter(
            (seeds[random] - full).mean(),
            y,
            color="black",
            marker="D",
            s=22,
            linewidth=0.9,
            facecolor="none",
            zorder=5,
        )


def _glue_legend(figure, is_run: bool):
    """The marks of `glue_changes`; where no task is run, the paper's alone."""
    ours = "mean over seeds (blue: Top-3, orange: All), 95 % interval; dots: seeds"
    marks = [
        Line2D([], [], color=look.SKY, marker="o", label=ours),
        Line2D([], [], color=look.NEITHER, marker="o", label="unmasked model has learned nothing"),
        Line2D(
            [],
            [],
            color="black",
            marker="D",
            markersize=5,
            fillstyle="none",
            linestyle="",
            label="as many random heads",
        ),
        Line2D([], [], color="black", marker="x", linestyle="", label="paper, BERT-base"),
    ]
    shown = marks if is_run else marks[-1:]
    figure.legend(handles=shown, fontsize=7.5, loc="outside lower left", ncols=2)


# ---- 06: debiased models and LLaMA
def fig5(scores: list[np.ndarray], titles: list[str], hatched: list, followed: list):
    """Fig. 5: the heads of the base and of debiased models, with one scale.

    hatched    for each model, (layer, head) of those whose interval includes 0
    followed   (layer, head) of the base's most anti-biased ones: framed in green, black once biased
    """
    figure, axes = look.panels(len(scores), width=3.4, height=3.3)
    darkest = max(of_model.max() for of_model in scores)
    for ax, of_model, title, to_hatch in zip(axes, scores, titles, hatched):
        framed = {}
        for layer, head in followed:
            is_biased = of_model[layer - 1, head - 1] > 0
            framed[layer, head] = "#000000" if is_biased else look.GOOD
        beside = axes if ax is axes[-1] else ()
        heatmap(ax, of_model, title, darkest, to_hatch, framed, beside)
    return figure


def fig67(results: dict, titles: dict[str, str]):
    """Fig. 6 and 7: `distribution` of base and chat models, on the same axes and bins."""
    are_several = len(results) > 1
    figure, axes = look.panels(
        len(results), width=4.2, height=3.2, sharex=are_several, sharey=are_several
    )
    every = np.concatenate([result["scores"].ravel() for result in results.values()])
    bins = np.histogram_bin_edges(every, 40)
    for ax, (name, result) in zip(axes, results.items()):
        distribution(ax, result["scores"], titles[name], bins)
    return figure


def fig67_heads(results: list[dict], titles: list[str]):
    """The heads of base and chat models, with one scale: `heatmap` of each.

    Framed are those beyond the upper Tukey fence of the base, in both models.
    results   of heads.measure: base, chat, base, chat, ...
    """
    figure, axes = look.panels(len(results), width=3.6, height=3.4)
    darkest = max(result["scores"].max() for result in results)
    for i, (ax, result, title) in enumerate(zip(axes, results, titles)):
        hatched = estimators.heads_including_zero(estimators.intervals(result))
        beside = axes if ax is axes[-1] else ()
        fence = estimators.upper_fence(results[i - i % 2]["scores"])
        places = 1 + np.argwhere(result["scores"] > fence)
        framed = {(layer, head): DARK for layer, head in places.tolist()}
        heatmap(ax, result["scores"], title, darkest, hatched, framed, beside)
    return figure


def before_and_after(
    ax, before: np.ndarray, after: np.ndarray, followed: list[tuple[int, int]], reach: float
):
    """One point per head: its score in the base, and in a debiased model.

    followed   (layer, head) of those that are ringed and named
    reach      of both axes, one for panels that are compared
    """
    ax.plot([-reach, reach], [-reach, reach], color=look.NEITHER, linewidth=0.8, linestyle=":")
    ax.axhline(0, color=look.NEITHER, linewidth=0.5)
    ax.axvline(0, color=look.NEITHER, linewidth=0.5)
    has_changed = (before > 0) != (after > 0)
    colors = np.where(has_changed, look.BAD, DARK).ravel()
    ax.scatter(before, after, s=14, c=colors, alpha=0.7, edgecolor="white", linewidth=0.4)
    names = {}
    for layer, head in followed:
        ax.scatter(
            before[layer - 1, head - 1],
            after[layer - 1, head - 1],
            s=46,
            facecolor="none",
            edgecolor=look.GOOD,
            linewidth=1.2,
        )
        names[(layer - 1) * before.shape[1] + head - 1] = f"{layer}-{head}"
    ax.set(xlim=(-reach, reach), ylim=(-reach, reach), ylabel="bias score now")
    ax.locator_params(nbins=6)
    look.name_points(ax, before.ravel(), after.ravel(), names)
