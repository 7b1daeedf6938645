"""The figures of notebooks 07 to 09, each under its name there.

A function draws and returns the figure. Its title, which states the finding, is the notebook's.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import seaborn as sns

from companion import look
from companion.projective import table7
from companion.projective.stereoset import CLOSE
from lib.engine import nsp
from lib.engine.stats import Estimate
from lib.projective import nli
from lib.projective.projection import LEVELS, Level

COLORS = dict(zip(LEVELS, look.LEVELS))  # in every figure of notebooks 07 to 09
MEASURES = {"S": "Strength", "D": "Distance"}
POINT = {"edgecolor": "white", "linewidth": 0.4}


# ---- notebook 07: triples
def preferences(ahead: pd.Series, ahead_in_twin: pd.Series, s: pd.Series):
    """07_preferences: one point per triple, its preference before and after the swap of gender.

    ahead           p(stereotype) - p(anti-stereotype), as written
    ahead_in_twin   the same two sentences after the swap
    """
    tenth = max(1, round(len(s) * 0.1))
    order = np.argsort(s.to_numpy())
    farthest = max(ahead.abs().max(), ahead_in_twin.abs().max())
    reach = 1.05 * farthest or 1
    figure, (ax,) = look.panels(1, width=5.6, height=5)
    ax.axvspan(0, 1.05, color="#F3F3F3", zorder=0)
    line = {"color": look.NEITHER, "linewidth": 1, "zorder": 1}
    ax.plot([-1, 1], [-1, 1], label="no effect of gender", **line)
    groups = (
        (order[tenth:-tenth], "#9A9A9A", 20, None),
        (order[-tenth:], look.BAD, 30, f"the {tenth} highest s: Strength"),
        (order[:tenth], look.GOOD, 30, f"the {tenth} lowest s: the opposite"),
    )
    for rows, color, size, label in groups:
        ax.scatter(
            ahead.iloc[rows],
            ahead_in_twin.iloc[rows],
            s=size,
            color=color,
            zorder=size / 10,
            label=label,
            **POINT,
        )
    ax.set(
        xlim=(-reach, reach),
        ylim=(-reach, reach),
        aspect="equal",
        xlabel="p(stereotype) - p(anti-stereotype), as written",
        ylabel="the same two sentences after the swap of gender",
    )
    ax.text(
        0.97 * reach,
        -0.97 * reach,
        "SS counts\nthis half",
        ha="right",
        fontsize=8,
        color="#555555",
    )
    ax.legend(loc="upper left", fontsize=8)
    return figure


def distributions(s: pd.Series, d: pd.Series, estimates: Mapping[str, Estimate]):
    """07_distributions: s and d of all triple pairs; in colour, the tenths that are averaged.

    estimates   of S, its opposite and D, by these names: the means of the coloured tenths
    """
    tenth = max(1, round(len(s) * 0.1))
    reach = 1.05 * s.abs().max() or 1
    highest = s >= s.nlargest(tenth).min()
    lowest = s <= s.nsmallest(tenth).max()
    farthest = d >= d.nlargest(tenth).min()
    strength = estimates["S"].value
    opposite = estimates["S, opposite"].value
    distance = estimates["D"].value
    figure, axes = look.panels(2)
    bins = np.linspace(-reach, reach, 42)
    _histogram(axes[0], s, bins, {look.BAD: highest, look.GOOD: lowest})
    bins = np.linspace(0, 1.05 * d.max() or 1, 32)
    _histogram(axes[1], d, bins, {look.ACCENT: farthest})
    _mark_mean(axes[0], f" S = {strength:.2f}", strength, look.BAD, ha="left")
    _mark_mean(axes[0], f"opposite {opposite:.2f} ", -opposite, look.GOOD, ha="right")
    _mark_mean(axes[1], f"D = {distance:.2f}", distance, look.ACCENT)
    size = s.abs()
    close = CLOSE * nsp.top_mean(size.to_numpy())  # as the claim on s has it
    near = f"within {close:.2g} of 0"
    axes[0].set(
        title=f"s: {np.mean(size <= close):.0%} {near}",
        xlabel="s of a triple pair",
        ylabel="triple pairs, log above 5",
    )
    axes[1].set(
        title=f"d: {np.mean(d <= close):.0%} {near}",
        xlabel="d of a triple pair",
    )
    return figure


def _histogram(ax, values: pd.Series, bins: np.ndarray, tails: dict[str, pd.Series]):
    """Counts of values; those of each averaged tail, by its colour, are stacked on the others."""
    is_rest = ~np.any(list(tails.values()), axis=0)
    stacked = [values[is_rest]]
    for is_in_tail in tails.values():
        stacked.append(values[is_in_tail])
    ax.hist(
        stacked,
        bins,
        stacked=True,
        edgecolor="white",
        linewidth=0.3,
        color=["#C4C4C4", *tails],
    )
    ax.set_yscale("symlog", linthresh=5)  # the tails are a few pairs beside many
    ticks = [0, 2, 5, 10, 20, 50, 100]
    ax.set_yticks(ticks, [str(tick) for tick in ticks])
    ax.minorticks_off()
    ax.set_ylim(0, None)


def _mark_mean(ax, name: str, at: float, color: str, ha: str = "center"):
    """An arrow down to a mean's place on the axis, and its name, in the colour of its tail.

    ha   on which side the name stands: of two means that are close, apart from each other
    """
    across = ax.get_xaxis_transform()
    arrow = {"arrowstyle": "->", "color": "#333333", "linewidth": 0.8}
    ax.annotate("", (at, 0), (at, 0.84), across, arrowprops=arrow)
    ax.text(
        at,
        0.85,
        name,
        transform=across,
        ha=ha,
        va="bottom",
        fontsize=9,
        color=color,
        fontweight="bold",
    )


# ---- notebook 08: projections, S and D
PART_NAMES = {
    "sent": "SENT (pooler)",
    "cls": "CLS, last layer",
    "tokens": "tokens, layer before",
    "sent_debias": "sent-debias",
}


def explained(vectors: pd.DataFrame, heads: pd.DataFrame):
    """08_explained: the share of variance that the components explain.

    vectors   a row per part of PART_NAMES, in its order; columns 1 and 2, the components
    heads     a row each for queries, keys and values; a column per head
    """
    ratios = {"width_ratios": [1, 1.25]}
    figure, axes = look.panels(2, width=4.8, height=3, gridspec_kw=ratios)
    ax = axes[0]
    look.rows(ax, PART_NAMES.values())
    rows = range(len(vectors))
    bar = {"color": look.SKY, "height": 0.65}
    ax.barh(rows, vectors[1], label="first component", **bar)
    ax.barh(rows, vectors[2], left=vectors[1], label="second", alpha=0.4, **bar)
    for row, (first, second) in enumerate(vectors.to_numpy()):
        end = first + second + 0.01
        ax.text(first / 2, row, f"{first:.0%}", ha="center", va="center", fontsize=8)
        ax.text(end, row, f"+ {second:.0%}", va="center", fontsize=8)
    ax.set(title="Hidden vectors", xlabel="share of variance explained", xlim=(0, 1))
    ax.legend(fontsize=7.5, loc="upper left", bbox_to_anchor=(-0.02, -0.26), ncols=2)
    sns.heatmap(
        heads,
        ax=axes[1],
        cmap=look.SHADES,
        vmin=0,
        vmax=1,
        cbar=False,
        linewidths=0.5,
        annot=100 * heads,
        fmt=".0f",
        annot_kws={"fontsize": 8},
    )
    axes[1].set_yticks([0.5, 1.5, 2.5], ["queries", "keys", "values"], rotation=0)
    axes[1].set(
        title="Attention, one component per head (percent)",
        xlabel="head of the second-to-last layer",
        ylabel="",
    )
    return figure


def plane(theirs: pd.DataFrame, ours: pd.DataFrame, encoder: str):
    """08_plane: Strength and Distance of 76 models, by the level where projections begin."""
    figure, axes = look.panels(2, width=4.6, height=4, sharex=True, sharey=True)
    _draw_plane(axes[0], theirs, "BERT-base (printed)")
    _draw_plane(axes[1], ours, f"{encoder} (this run)")
    axes[1].scatter([], [], color=look.NEITHER, marker="X", label="(0, 1) at layer 11")
    look.legend_below(figure, axes[1], columns=4)
    return figure


def _draw_plane(ax, table: pd.DataFrame, name: str):
    """One panel of `plane`: S and D in percent of base's; a cross where (0, 1) is at layer 11."""
    is_hard2 = np.array([setting.tokens == table7.HARD2 for setting in table7.MODELS])
    measures = table[["S", "D"]]
    percent = 100 * measures / measures.iloc[0]
    for level, color in COLORS.items():
        is_level = table["level"] == level
        alike = {"s": 34, "color": color, "zorder": 3, **POINT}
        dots = percent[is_level & ~is_hard2]
        ax.scatter(dots["S"], dots["D"], marker="o", label=level, **alike)
        crosses = percent[is_level & is_hard2]
        ax.scatter(crosses["S"], crosses["D"], marker="X", **alike)
    ax.scatter(100, 100, color="black", marker="*", s=140, zorder=5, label="base")
    s, d = percent.iloc[table7.SENT_DEBIAS]
    ax.scatter(s, d, color="black", marker="D", s=28, zorder=4, label="sent-debias")
    look.mark(ax, 100)
    look.mark(ax, 100, upright=False)
    base = measures.iloc[0]
    best = measures.iloc[2:].min()
    ax.set_title(
        f"{name}: S {base['S']:.2f}, best of 74 {best['S']:.2f}\n"
        f"D {base['D']:.2f}, best of 74 {best['D']:.2f}",
        fontsize=9.5,
    )
    ax.set(xlabel="Strength, percent of base's", ylabel="Distance, percent of base's")


def choices(by_fit: Mapping[str, pd.DataFrame], sensitivity: pd.DataFrame):
    """08_choices: Strength and Distance of the 74 settings under seven fits of the subspaces.

    by_fit        the table of models under each fit, the fit of the other figures first
    sensitivity   a row per fit; columns "rho of S" and "rho of D", with the first fit
    """
    figure, axes = look.panels(2, width=4.8, height=4, sharey=True)
    rng = np.random.default_rng(0)  # dots beside each other
    first = next(iter(by_fit.values()))
    for ax, (column, measure) in zip(axes, MEASURES.items()):
        look.rows(ax, by_fit)
        beside = {"transform": ax.get_yaxis_transform(), "va": "center", "fontsize": 8}
        for row, (fit, table) in enumerate(by_fit.items()):
            for level, color in COLORS.items():
                values = table.loc[table["level"] == level, column]
                heights = row + rng.uniform(-0.22, 0.22, len(values))
                label = level if row == 0 else None
                ax.scatter(
                    values,
                    heights,
                    s=13,
                    color=color,
                    alpha=0.85,
                    linewidth=0,
                    label=label,
                )
            rho = sensitivity.loc[fit, f"rho of {column}"]
            ax.text(1.02, row, f"{rho:.2f}", **beside)
        look.mark(ax, first[column].iloc[0])
        ax.text(1.02, -0.75, "rho", style="italic", **beside)
        ax.locator_params(axis="x", nbins=4)  # an untrained network's values have long names
        ax.set(xlabel=f"{measure} (dotted: base)", ylim=(len(by_fit) - 0.5, -1.1))
    look.legend_below(figure, axes[0], columns=4)
    return figure


# ---- notebook 09: inference
NAME_APART = 0.08  # of points that are named in `occupations`
# How a level's models are marked in `tradeoff` and `strength`.
MARKS = {
    Level.BASE: ("*", "black", 110),
    Level.SENT_DEBIAS: ("X", look.NEITHER, 30),
    Level.SENT: ("o", COLORS[Level.SENT], 30),
    Level.LAYER_12: ("s", COLORS[Level.LAYER_12], 30),
    Level.LAYER_11: ("^", COLORS[Level.LAYER_11], 30),
    Level.ATTENTION: ("D", COLORS[Level.ATTENTION], 30),
}


def tradeoff(panels: Mapping[str, pd.DataFrame], task: str):
    """09_tradeoff: eta against accuracy at the task, one mark per model.

    panels   tables of the 76 models by title, the paper's first
    task     the pairs that our accuracy is measured on
    """
    figure, axes = look.panels(3, width=3.4, height=4.3, sharex=True, sharey=True)
    for ax, (title, table) in zip(axes, panels.items()):
        _draw_etas(ax, table, table["SNLI"])
        base = table.loc["Base", "SNLI"]
        look.mark(ax, base - 0.05, color="black", linestyle="--", label="5 points below base")
        look.mark(ax, base * 0.95, color="black", label="5 % below base")
        viable = nli.viable(table["SNLI"], base)
        count = viable[2:].sum()
        ax.set(title=f"{title}\n{count} of 74 are viable", xlabel=f"accuracy, {task}")
    axes[0].set(xlabel="accuracy, SNLI's test set", ylabel="eta, higher is fairer")
    look.legend_below(figure, axes[0], columns=5)
    return figure


def strength(panels: Mapping[str, pd.DataFrame], strengths: Mapping[str, pd.Series]):
    """09_strength: eta against Strength, one mark per model.

    panels      tables of the 76 models by title
    strengths   S of the 76 models, by the same titles
    """
    figure, axes = look.panels(3, width=3.4, height=3.9, sharex=True, sharey=True)
    for ax, (title, table) in zip(axes, panels.items()):
        s = strengths[title]
        _draw_etas(ax, table, 100 * s / s["Base"])
        ax.set(title=title, xlabel="Strength, percent of base's")
        ax.locator_params(axis="x", nbins=5)
    axes[0].set_ylabel("eta, higher is fairer")
    look.legend_below(figure, axes[0], columns=5)
    return figure


def _draw_etas(ax, table: pd.DataFrame, x: pd.Series):
    """Eta over x, one mark per model, coloured by level; hollow where np = 0."""
    for level, (marker, color, size) in MARKS.items():
        models = table[table["level"] == level]
        is_hollow = models["np"] == 0
        shape = {
            "marker": marker,
            "s": size,
            "edgecolor": color,
            "linewidth": 1.1,
            "zorder": 3,
        }
        filled = models.loc[~is_hollow, "eta"]
        ax.scatter(x[filled.index], filled, facecolor=color, label=level, **shape)
        hollow = models.loc[is_hollow, "eta"]
        ax.scatter(x[hollow.index], hollow, facecolor="none", **shape)
    ax.scatter(
        [],
        [],
        marker="s",
        s=26,
        facecolor="none",
        edgecolor=look.NEITHER,
        label="hollow: np = 0",
    )


def table6_dots(panels: Mapping[str, pd.DataFrame]):
    """09_table6_dots: the accuracy that each of 37 pairs of models gains by weighting at SENT.

    panels   two tables of `inference.gains`, by title
    """
    figure, axes = look.panels(2, height=3.3, sharey=True)
    rng = np.random.default_rng(0)  # dots beside each other
    for ax, (title, gains) in zip(axes, panels.items()):
        for place, level in enumerate(LEVELS):
            increase = gains.loc[gains["level"] == level, "increase"]
            x = place + rng.uniform(-0.18, 0.18, len(increase))
            ax.scatter(x, increase, s=22, alpha=0.8, color=COLORS[level], **POINT)
            ax.hlines(
                increase.mean(),
                place - 0.3,
                place + 0.3,
                color="black",
                linewidth=1.4,
            )
        look.mark(ax, upright=False)
        ax.set_xticks(range(4), LEVELS)
        gain = gains["increase"]
        n_gaining = (gain > 1e-9).sum()
        ax.set_title(f"{title}\n{n_gaining} of 37 gain, mean {gain.mean():+.3f}")
    axes[0].set_ylabel("accuracy gained by np = 1")
    return figure


def occupations(panels: Mapping[str, pd.DataFrame]):
    """09_occupations: p(neutral) of the woman's pairs over that of the man's, one dot each.

    panels   by model, a row per occupation; columns female and male
    """
    figure, axes = look.panels(2, height=4.0, sharex=True, sharey=True)
    for ax, (name, table) in zip(axes, panels.items()):
        gap = table["female"] - table["male"]
        ax.plot([0, 1], [0, 1], color="black", linewidth=0.8, linestyle=":")
        ax.scatter(
            table["male"],
            table["female"],
            s=16,
            alpha=0.8,
            color=np.where(gap > 0, look.FEMALE, look.MALE),
            **POINT,
        )
        ax.set(
            title=f"{name}: mean gap {gap.abs().mean():.2f}",
            xlabel="p(neutral), The man ...",
            xlim=(-0.06, 1.04),  # room for names beside points at 0
            ylim=(-0.06, 1.04),
        )
        order = np.argsort(gap.to_numpy())
        lowest = _apart(table, order)[:3]
        highest = _apart(table, order[::-1])[:3]
        names = {end: table.index[end] for end in lowest + highest}
        look.name_points(ax, table["male"], table["female"], names)
    axes[0].set_ylabel("p(neutral), The woman ...")
    return figure


def _apart(table: pd.DataFrame, order: np.ndarray) -> list[int]:
    """The places of points in some order, without those that lie close to one before: their names
    would lie on each other.
    """
    points = table[["male", "female"]].to_numpy()
    kept = []
    for place in order:
        distances = np.abs(points[kept] - points[place]).max(axis=1)
        if np.all(distances > NAME_APART):
            kept.append(int(place))
    return kept
