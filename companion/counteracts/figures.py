"""The figures of notebooks 10 and 11, each named after what it draws; notebooks sign them.

Kinds of knowledge are those of cloze.KINDS, from top to bottom or from left to right in their
order.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns

from companion import look
from companion.counteracts import tables
from lib.counteracts import cloze
from lib.engine import stats

KINDS = list(cloze.KINDS)
KNOWLEDGE = KINDS[1:]  # all but the base prompts
# The names of kinds on axes and in titles.
SHORT = {kind: kind.replace(" similar", "").replace("background", "backgr.") for kind in KINDS}
SHORT["target neutral background counter"] = "neutral backgr. counter"
# What the sentence is, as titles say it.
IN_WORDS = {
    "target syntactic similar": "an example of the same form",
    "target semantic similar": "an example of another form",
    "target neutral": "a neutral sentence about the job",
    "target counter syntactic similar": "a counterexample of the same form",
    "target counter semantic similar": "a counterexample of another form",
    "background counter syntactic similar": "an example of another job",
    "background counter semantic similar": "an example of another job and form",
    "target neutral background counter": "a neutral sentence about another job",
    "unrelated": "an unrelated sentence",
}
FEW = 10  # tokens: a mean of fewer is drawn hollow

GROUPS = ("female", "male")  # which gender dominates the occupations
COLORS = {"female": look.FEMALE, "neither": look.NEITHER, "male": look.MALE}
CHANGE_COLORS = {
    tables.ENLARGED: look.BAD,
    tables.KEPT: look.PALE,
    tables.WEAKENED: "#9BD8C4",
    tables.OVERTURNED: look.GOOD,
    tables.NO_TOKEN: "#F1F1EE",
}
NAMED_COLORS = {
    "nothing": "black",
    "a person": look.PALE,
    "its own gender": look.GOOD,
    "the other gender": look.BAD,
}
LEAN = sns.blend_palette([look.MALE, "#FFFFFF", look.FEMALE], as_cmap=True)


def bars(by_model: dict[str, pd.DataFrame], k: int):
    """Fig. 2-4: a row per model on a scale of its own, occupations of women and of men apart.

    by_model   tables.by_occupation at k, by model
    """
    n = len(by_model)
    height = 1.5 + 1.6 / n  # names of kinds take the rest
    figure, axes = look.panels(2 * n, width=5, height=height, sharex=True, sharey="row")
    for row, (name, table) in enumerate(by_model.items()):
        means = tables.bars(table).set_index(["dominated", "gender"])
        for ax, dominated in zip(axes[2 * row :], GROUPS):
            _draw_bars(ax, means.loc[dominated])
            ax.set_title(f"{name}, {dominated}-dominated occupations", fontsize=9)
            if not means["value"].any():
                none = f"no gendered token among the top {k}"
                ax.text(0.5, 0.5, none, transform=ax.transAxes, ha="center", va="center")
        first = axes[2 * row]
        _, top = first.get_ylim()
        top = max(0.05, top)  # tiny bars are not blown up
        first.set(ylabel="probability", ylim=(0, top))
    for ax in axes[-2:]:
        ax.set_xticks(range(len(KINDS)), SHORT.values(), rotation=40, ha="right", fontsize=8)
    axes[1].legend(fontsize=7.5, loc="upper right")
    return figure


def _draw_bars(ax, means: pd.DataFrame):
    """The mean probability of female and of male tokens by kind, for one group of occupations."""
    for gender, shift in (("female", -0.19), ("male", 0.19)):
        rows = means.loc[gender].set_index("kind").loc[KINDS]
        low = rows["low"].clip(lower=0)
        ax.bar(
            np.arange(len(KINDS)) + shift,
            rows["value"],
            width=0.38,
            color=COLORS[gender],
            yerr=look.arms(rows["value"], low, rows["high"]),
            error_kw={"linewidth": 0.8, "ecolor": "#555555"},
            label=f"{gender} tokens",
        )
        base = rows.loc["base", "value"]
        look.mark(ax, base, upright=False, color=COLORS[gender], linestyle="--")
    ax.grid(axis="x", visible=False)


# ---- panels, one per model
def _panels(by_model: dict, kinds: list[str] = KNOWLEDGE, **options):
    """A figure of one panel per model, and their axes; the kinds of knowledge are its rows."""
    width = max(2.6, look.PAGE / len(by_model))
    figure, axes = look.panels(len(by_model), width=width, height=3.2, sharey=True, **options)
    for ax, name in zip(axes, by_model):
        look.rows(ax, [SHORT[kind] for kind in kinds])
        ax.tick_params(axis="y", length=0, labelsize=8)
        ax.set_title(name)
    return figure, axes


def arrows(margins: dict[str, dict]):
    """The margin before and after each kind of knowledge, for two groups of occupations.

    margins   tables.resampled by model
    """
    figure, axes = _panels(margins, sharex=True)
    for ax, of_model in zip(axes, margins.values()):
        for group, shift in enumerate((-0.17, 0.17)):
            _draw_arrows(ax, of_model, group, shift)
        look.mark(ax, color="black")
        ax.set(xlim=(-1.08, 1.08), xlabel="margin: male -, female +")
    look.legend_below(figure, axes[0], columns=2)
    return figure


def _draw_arrows(ax, margins: dict[str, np.ndarray], group: int, shift: float):
    """One group of occupations: from the base prompts' margin to that after each kind."""
    color = COLORS[GROUPS[group]]
    base = margins["base"][0, group]
    label = f"{GROUPS[group]}-dominated occupations"
    look.mark(ax, base, color=color, linewidth=1, linestyle="--", label=label)
    places = np.arange(len(KNOWLEDGE)) + shift
    after = [stats.redrawn(margins[kind][:, group]) for kind in KNOWLEDGE]
    look.dots(ax, after, places, fmt="none", linewidth=5, color=color, alpha=0.3)
    reach = np.array([one.value - base for one in after])
    ax.quiver(
        np.full_like(reach, base),
        places,
        reach,
        np.zeros_like(reach),
        color=color,
        angles="xy",
        scale_units="xy",
        scale=1,
        width=0.012,
    )


def relative(ratios: dict[str, pd.DataFrame], means: pd.DataFrame):
    """Equation 1: how much likelier a token is with knowledge, by kind and gender; hollow where a
    mean is of few tokens.

    ratios   tables.relative by model
    means    their geometric means, which set the limits of the axis: a line over few occupations
             may be a thousand times as long
    """
    figure, axes = _panels(ratios, sharex=True)
    for ax, table in zip(axes, ratios.values()):
        for (gender, color), shift in zip(COLORS.items(), (-0.24, 0, 0.24)):
            of_gender = table[table["gender"] == gender]
            for kind, rows in of_gender.groupby("kind"):
                mean = tables.mean_ratio(rows)
                place = KNOWLEDGE.index(kind) + shift
                inside = "white" if mean.n < FEW else color
                look.dots(ax, [mean], [place], color=color, markerfacecolor=inside)
            ax.plot([], [], "o", color=color, label=gender)
        look.mark(ax, 1, color="black")
        ax.set(xscale="log", xlabel="p(w | knowledge) / p(w | base)")
        ticks = {0.1: ".1", 0.2: "", 0.5: "½", 1: "1", 2: "2", 5: "5"}
        ax.set_xticks(list(ticks), ticks.values())
        ax.minorticks_off()
    means = means.fillna(1)
    axes[0].set_xlim(means.min(axis=None) / 2, 2 * means.max(axis=None))
    look.legend_below(figure, axes[0], columns=3)
    return figure


def shares(by_model: dict[str, pd.DataFrame]):
    """What each kind does to the preference, as shares of the occupations.

    by_model   tables.shares by model
    """
    figure, axes = _panels(by_model)
    for ax, table in zip(axes, by_model.values()):
        wide = table.pivot(index="kind", columns="change", values="value")
        wide = wide.loc[KNOWLEDGE]
        left = np.zeros(len(wide))
        for change, color in CHANGE_COLORS.items():
            ax.barh(
                range(len(wide)),
                wide[change],
                height=0.75,
                left=left,
                color=color,
                label=change,
            )
            left += wide[change].to_numpy()
        ax.set(xlim=(0, 1), xlabel="share of occupations")
        ax.grid(visible=False)
    look.legend_below(figure, axes[0], columns=5)
    return figure


def slopes(by_model: dict[str, pd.DataFrame]):
    """The slope of log2 odds on the percentage of women, by kind.

    by_model   tables.slopes by model, with the kinds as its index
    """
    figure, axes = _panels(by_model, KINDS, sharex=True)
    for ax, table in zip(axes, by_model.values()):
        base = table.loc["base"]
        ends = table[["value", "low", "high"]].to_numpy()
        for place, slope in enumerate(ends):
            color = _slope_color(stats.Estimate(*slope), base)
            look.dots(ax, [slope], [place], color=color)
        look.mark(ax, color="black")
        ax.axvspan(base["low"], base["high"], color="black", alpha=0.07, linewidth=0)
        ax.set(xlabel="log2 odds per 10 points")
    return figure


def _slope_color(slope: stats.Estimate, base: pd.Series) -> str:
    """By where the interval lies beside that of the base prompts."""
    if slope.is_below(base["low"]):
        return look.GOOD
    if slope.is_above(base["high"]):
        return look.BAD
    return look.PALE


# ---- what depends on choices, and factual gender
def sensitivity(margins: dict[str, pd.DataFrame]):
    """The margin by kind (across) under other ways to write prompts and other verbalizers (down).

    A cross marks that the other gender than in the first row is preferred.

    margins   tables.forms by model
    """
    sizes = [len(table) for table in margins.values()]
    height = 0.3 * sum(sizes) + 0.4 * len(sizes) + 1.2
    figure, axes = plt.subplots(
        len(sizes),
        figsize=(look.PAGE + 2.1, height),
        gridspec_kw={"height_ratios": sizes},
        layout="constrained",
        squeeze=False,
    )
    for ax, (name, table) in zip(axes[:, 0], margins.items()):
        crosses = np.where(tables.flips(table), "×", "")
        sns.heatmap(
            table,
            ax=ax,
            annot=crosses,
            fmt="",
            xticklabels=False,
            cmap=LEAN,
            vmin=-1,
            vmax=1,
            cbar=False,
            linewidths=0.5,
        )
        ax.axvline(len(KINDS), color="white", linewidth=6)  # between the groups
        ax.set_title(f"{name}: female-dominated occupations, then male-dominated", fontsize=9)
        ax.set(xlabel="", ylabel="")
        ax.tick_params(length=0, labelsize=8.5)
    places = 0.5 + np.arange(2 * len(KINDS))
    ax.set_xticks(places, [*SHORT.values()] * 2, rotation=40, ha="right")
    return figure


def factual(facts: pd.DataFrame):
    """The share of right pronouns of queens and kings, by who is named before.

    facts   columns model, named before, right (Estimates)
    """
    models = facts["model"].unique()
    figure, (ax,) = look.panels(1, width=look.PAGE, height=3.2)
    by_named = facts.groupby("named before", sort=False)["right"]
    for shift, (named, right) in zip((-0.24, -0.08, 0.08, 0.24), by_named):
        look.dots(
            ax,
            right,
            np.arange(len(right)) + shift,
            upright=True,
            color=NAMED_COLORS[named],
            label=f"{named} named",
        )
    look.mark(ax, 0.5, upright=False, color="black")
    ax.set_xticks(range(len(models)), models)
    ax.set(ylabel="share of right pronouns", ylim=(0, 1.03))
    look.legend_below(figure, ax, columns=4)
    return figure
