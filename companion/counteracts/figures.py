"""The figures of notebooks 10 and 11, each named after what it draws; notebooks sign them.

Kinds of knowledge are those of cloze.KINDS, from top to bottom or from left to right in their
order.
"""

import math

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns

from companion import look
from companion.counteracts import tables
from lib.counteracts import cloze

KINDS = list(cloze.KINDS)
KNOWLEDGE = KINDS[1:]  # all but the base prompts
COUNTER_SYNTACTIC = "target counter syntactic similar"
# The names of kinds on axes and in titles.
SHORT = {kind: kind.replace(" similar", "").replace("background", "backgr.") for kind in KINDS}
SHORT["target neutral background counter"] = "neutral backgr. counter"
# What the sentence is, as titles say it.
IN_WORDS = {
    "target syntactic similar": "an example of the same form",
    "target semantic similar": "an example of another form",
    "target neutral": "a neutral sentence about the job",
    COUNTER_SYNTACTIC: "a counterexample of the same form",
    "target counter semantic similar": "a counterexample of another form",
    "background counter syntactic similar": "an example of another job",
    "background counter semantic similar": "an example of another job and form",
    "target neutral background counter": "a neutral sentence about another job",
    "unrelated": "an unrelated sentence",
}
FEW = 10  # tokens: a mean of fewer is drawn hollow

GROUPS = ("female", "male")  # which gender dominates the occupations
COLORS = {"female": look.FEMALE, "male": look.MALE, "neither": look.NEITHER}
PRONOUNS = {"he": look.MALE, "him": look.MALE, "she": look.FEMALE, "her": look.FEMALE}
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


# ---- Figure 1: WinoBias
def fig1(examples: dict[str, dict[str, str]]):
    """Sentences of WinoBias' two types: {type: {"pro" or "anti": sentence}}.

    In a sentence the pronoun refers to the occupation between *stars*; the other one stands in
    (brackets).
    """
    figure, ax = plt.subplots(figsize=(look.PAGE, 3.4), layout="constrained")
    ax.axis("off")
    y = 0.0
    for title, sentences in examples.items():
        ax.text(0, y, title, fontsize=10, fontweight="bold", va="center")
        for side, sentence in sentences.items():
            y -= 1.15
            label = f"{side}-stereotypical"
            ax.text(0.9, y, label, fontsize=8, color=look.NEITHER, va="center", ha="right")
            _draw_sentence(ax, sentence, y)
        y -= 1.1
    ax.set(xlim=(0, 9), ylim=(y + 0.4, 0.5))
    return figure


def _draw_sentence(ax, sentence: str, y: float, x: float = 1.05, letter: float = 0.0775):
    """Words in letters of fixed width, occupations boxed.

    An arc leads from the pronoun to the occupation that it refers to.
    """
    ends = {}  # of the arc
    for word in sentence.split():
        mark = word[0] if word[0] in "*(" else ""
        bare = word.strip("*()")
        is_pronoun = bare in PRONOUNS
        middle = x + letter * len(bare) / 2
        if mark or is_pronoun:
            ends[mark or "pronoun"] = middle
        box = None
        if mark:
            box = dict(boxstyle="round,pad=.18", facecolor="#F2F2F2", edgecolor="none")
        ax.text(
            middle,
            y,
            bare,
            family="monospace",
            fontsize=8.2,
            ha="center",
            va="center",
            bbox=box,
            color=PRONOUNS.get(bare, "black"),
            fontweight="bold" if mark == "*" or is_pronoun else "normal",
        )
        x += letter * (len(bare) + 1)
    arc = dict(arrowstyle="->", color=look.NEITHER, connectionstyle="arc3,rad=.12", linewidth=1)
    ax.annotate("", (ends["*"], y + 0.2), (ends["pronoun"], y + 0.2), arrowprops=arc)


# ---- Figures 2-4: bars by kind
def bars(by_model: dict[str, pd.DataFrame], k: int):
    """Fig. 2-4: a row per model, female- and male-dominated occupations apart.

    by_model   tables.by_occupation at k, by model
    """
    bars_of = {name: tables.bars(table) for name, table in by_model.items()}
    figure, axes = plt.subplots(
        len(bars_of),
        2,
        figsize=(look.PAGE + 1.6, 1.5 * len(bars_of) + 1.6),
        sharex=True,
        sharey="row",
        layout="constrained",
        squeeze=False,
    )
    tops = {name: 1.05 * table[["value", "high"]].max(axis=None) for name, table in bars_of.items()}
    highest = max(tops.values())
    for row, (name, table) in zip(axes, bars_of.items()):
        has_own_scale = 0 < tops[name] < highest / 4
        for ax, dominated in zip(row, GROUPS):
            _draw_bars(ax, table, dominated)
            scale = ", own scale" if has_own_scale else ""
            ax.set_title(f"{name}, {dominated}-dominated occupations{scale}", fontsize=9)
            if not table["value"].any():
                _write_in_middle(ax, f"no gendered token among the top {k}")
        top = tops[name] if has_own_scale else highest
        row[0].set_ylim(0, max(0.05, top))  # tiny bars are not blown up
        row[0].set_ylabel("probability")
    for ax in axes[-1]:
        ax.set_xticks(range(len(KINDS)), SHORT.values(), rotation=40, ha="right", fontsize=8)
    axes[0][1].legend(fontsize=7.5, loc="upper right")
    return figure


def _draw_bars(ax, bars: pd.DataFrame, dominated: str):
    """The mean probability of female and of male tokens by kind, for one group of occupations."""
    for gender, shift in (("female", -0.19), ("male", 0.19)):
        is_mine = (bars["dominated"] == dominated) & (bars["gender"] == gender)
        rows = bars[is_mine].set_index("kind").loc[KINDS]
        errors = [rows["value"] - rows["low"].clip(lower=0), rows["high"] - rows["value"]]
        ax.bar(
            np.arange(len(KINDS)) + shift,
            rows["value"],
            0.38,
            color=COLORS[gender],
            yerr=errors,
            error_kw={"linewidth": 0.8, "ecolor": "#555555"},
            label=f"{gender} tokens",
        )
        base = rows.loc["base", "value"]
        ax.axhline(base, color=COLORS[gender], linewidth=0.9, linestyle="--")
        ax.text(
            -0.84,
            0.97 if gender == "female" else 0.83,
            _short_probability(base),
            color=COLORS[gender],
            transform=ax.get_xaxis_transform(),
            va="top",
            fontsize=7.5,
            ha="left",
        )
    ax.set_xlim(-0.9, len(KINDS) - 0.5)
    ax.grid(axis="x", visible=False)


def _short_probability(p: float) -> str:
    if not p:
        return "0"
    return f"{p:.2f}" if p >= 0.005 else "<.01"


def _write_in_middle(ax, text: str):
    ax.text(0.5, 0.5, text, transform=ax.transAxes, ha="center", fontsize=9, color=look.NEITHER)


# ---- panels, one per model
def _panels(names, sharex: bool = False):
    """A figure of one panel per model, at most four in a row, and the list of their axes.

    The panels share the kinds of knowledge.
    """
    columns = min(4, len(names))
    rows = math.ceil(len(names) / columns)
    width = max(2.15 * columns + 1.9, look.PAGE)
    figure, axes = plt.subplots(
        rows,
        columns,
        figsize=(width, 2.9 * rows + 0.5),
        sharey=True,
        sharex=sharex,
        layout="constrained",
        squeeze=False,
    )
    for unused in axes.flat[len(names) :]:
        unused.axis("off")
    for name, ax in zip(names, axes.flat):
        ax.set_title(name)
    return figure, list(axes.flat[: len(names)])


def _name_kinds(axes: list, kinds: list[str]):
    """Write the kinds of knowledge, the first at the top, to the left of the first panel."""
    axes[0].set_yticks(range(len(kinds)), [SHORT[kind] for kind in kinds[::-1]], fontsize=8)
    for ax in axes:
        ax.tick_params(axis="y", length=0)


def _legend_below(figure, ax, columns: int):
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, fontsize=8)


def arrows(margins: dict[str, dict]):
    """The margin before and after each kind of knowledge, for two groups of occupations.

    margins   tables.resampled by model
    """
    figure, axes = _panels(margins, sharex=True)
    for ax, of_model in zip(axes, margins.values()):
        for group, shift in enumerate((0.17, -0.17)):
            _draw_arrows(ax, of_model, group, shift)
        ax.axvline(0, color="black", linewidth=0.8, linestyle=":")
        ax.set(xlim=(-1.08, 1.08), xlabel="margin: male -, female +")
    _name_kinds(axes, KNOWLEDGE)
    _legend_below(figure, axes[0], columns=2)
    return figure


def _draw_arrows(ax, margins: dict[str, np.ndarray], group: int, shift: float):
    """One group of occupations: from the base prompts' margin to that after each kind."""
    dominated = GROUPS[group]
    color = COLORS[dominated]
    base = margins["base"][0, group]
    label = f"{dominated}-dominated occupations"
    ax.axvline(base, color=color, linewidth=1, linestyle="--", label=label)
    for place, kind in enumerate(KNOWLEDGE[::-1]):
        y = place + shift
        after = margins[kind][0, group]
        low, high = np.quantile(margins[kind][1:, group], [0.025, 0.975])
        ax.hlines(y, low, high, color=color, alpha=0.3, linewidth=5)
        arrow = dict(arrowstyle="-|>", color=color, shrinkA=0, shrinkB=0, mutation_scale=9)
        ax.annotate("", (after, y), (base, y), arrowprops=arrow)


def relative(ratios: dict[str, pd.DataFrame], means: pd.DataFrame):
    """Equation 1: how much likelier a token is with knowledge, by kind and gender.

    ratios   tables.relative by model
    means    their geometric means, which set the limits of the axis: a line over few occupations
             may be a thousand times as long
    """
    figure, axes = _panels(ratios, sharex=True)
    for ax, table in zip(axes, ratios.values()):
        _draw_ratios(ax, table)
    means = means.fillna(1)
    axes[0].set_xlim(means.min(axis=None) / 2, 2 * means.max(axis=None))
    _name_kinds(axes, KNOWLEDGE)
    _legend_below(figure, axes[0], columns=3)
    return figure


def _draw_ratios(ax, table: pd.DataFrame):
    """The mean ratio of female, male and other tokens by kind; hollow where it is of few tokens."""
    places = {kind: place for place, kind in enumerate(KNOWLEDGE[::-1])}
    for gender, shift in (("female", 0.24), ("neither", 0), ("male", -0.24)):
        color = COLORS[gender]
        for kind, rows in table[table["gender"] == gender].groupby("kind"):
            mean = tables.mean_ratio(rows)
            y = places[kind] + shift
            ax.plot(
                [mean.low, mean.high], [y, y], color=color, linewidth=1.4, solid_capstyle="butt"
            )
            ax.scatter(
                mean.value,
                y,
                s=18,
                zorder=3,
                linewidth=1.2,
                edgecolor=color,
                color="white" if mean.n < FEW else color,
            )
        ax.scatter([], [], color=color, label=gender)
    ax.axvline(1, color="black", linewidth=0.8, linestyle=":")
    ax.set(xscale="log", xlabel="p(w | knowledge) / p(w | base)")
    ax.set_xticks([0.1, 0.2, 0.5, 1, 2, 5], [".1", "", "½", "1", "2", "5"])
    ax.minorticks_off()


def shares(by_model: dict[str, pd.DataFrame]):
    """What each kind does to the preference, as shares of the occupations.

    by_model   tables.shares by model
    """
    figure, axes = _panels(by_model)
    for ax, table in zip(axes, by_model.values()):
        wide = table.pivot(index="kind", columns="change", values="value").loc[KNOWLEDGE[::-1]]
        left = np.zeros(len(wide))
        for change, color in CHANGE_COLORS.items():
            places = range(len(wide))
            ax.barh(places, wide[change], left=left, height=0.75, color=color, label=change)
            left += wide[change].to_numpy()
        if (wide[tables.NO_TOKEN] == 1).all():
            text = "no gendered token\nin the base prompts"
            ax.text(0.5, 0.5, text, transform=ax.transAxes, ha="center", va="center")
        ax.set(xlim=(0, 1), xlabel="share of occupations")
        ax.grid(visible=False)
    _name_kinds(axes, KNOWLEDGE)
    _legend_below(figure, axes[0], columns=5)
    return figure


def slopes(by_model: dict[str, pd.DataFrame]):
    """The slope of log2 odds on the percentage of women, by kind.

    by_model   tables.slopes by model, with the kinds as its index
    """
    figure, axes = _panels(by_model, sharex=True)
    places = range(len(KINDS))
    for ax, table in zip(axes, by_model.values()):
        base = table.loc["base"]
        table = table[::-1]
        colors = [_slope_color(row, base) for row in table.itertuples()]
        ax.hlines(places, table["low"], table["high"], color=colors, linewidth=2)
        ax.scatter(table["value"], places, color=colors, s=22, zorder=3)
        ax.axvline(0, color="black", linewidth=0.8, linestyle=":")
        ax.axvspan(base["low"], base["high"], color="black", alpha=0.07, linewidth=0)
        ax.set(xlabel="log2 odds per 10 points")
    _name_kinds(axes, KINDS)
    return figure


def _slope_color(row, base: pd.Series) -> str:
    """By where the interval lies beside that of the base prompts."""
    if row.Index == "base":
        return "black"
    if row.high < base["low"]:
        return look.GOOD
    if row.low > base["high"]:
        return look.BAD
    return look.PALE


# ---- what depends on choices, and factual gender
def sensitivity(margins: dict[str, pd.DataFrame]):
    """The margin under other ways to write prompts and other verbalizers.

    margins   tables.forms by model
    """
    sizes = [len(table) for table in margins.values()]
    height = 0.3 * sum(sizes) + 0.4 * len(sizes) + 1.2
    figure, axes = plt.subplots(
        len(sizes),
        2,
        figsize=(look.PAGE + 2.1, height),
        gridspec_kw={"height_ratios": sizes},
        layout="constrained",
        squeeze=False,
    )
    last = list(margins)[-1]
    for row, (name, table) in zip(axes, margins.items()):
        for ax, dominated in zip(row, GROUPS):
            _draw_margins(
                ax,
                table[dominated],
                f"{name}, {dominated}-dominated",
                names_kinds=name == last,
                names_choices=ax is row[0],
            )
    return figure


def _draw_margins(ax, table: pd.DataFrame, title: str, names_kinds: bool, names_choices: bool):
    """The margin by choice (down) and kind (across).

    A cross marks that the other gender than in the first row is preferred.
    """
    turned = np.where(tables.flips(table), "×", "")
    sns.heatmap(
        table,
        ax=ax,
        cmap=LEAN,
        vmin=-1,
        vmax=1,
        cbar=False,
        linewidths=0.5,
        fmt="",
        annot=turned,
        annot_kws={"size": 11, "color": "black"},
        yticklabels=names_choices,
        xticklabels=[SHORT[kind] for kind in table] if names_kinds else False,
    )
    ax.set(xlabel="", ylabel="")
    ax.set_title(title, fontsize=9)
    ax.tick_params(length=0, labelsize=8.5)
    plt.setp(ax.get_xticklabels(), rotation=40, ha="right")


def factual(facts: pd.DataFrame):
    """The share of right pronouns of queens and kings, by who is named before.

    facts   columns model, named before, right (Estimates)
    """
    models = facts["model"].unique()
    figure, ax = plt.subplots(figsize=(look.PAGE, 3.2), layout="constrained")
    by_named = facts.groupby("named before", sort=False)["right"]
    for shift, (named, right) in zip((-0.24, -0.08, 0.08, 0.24), by_named):
        value, low, high = np.array([[*one] for one in right]).T
        ax.errorbar(
            np.arange(len(right)) + shift,
            value,
            look.arms(value, low, high),
            fmt="o",
            color=NAMED_COLORS[named],
            label=f"{named} named",
        )
    ax.axhline(0.5, color="black", linewidth=0.8, linestyle=":")
    ax.set(
        ylabel="share of right pronouns",
        xticks=range(len(models)),
        xticklabels=models,
        ylim=(0, 1.03),
    )
    figure.legend(loc="outside lower center", ncols=4, fontsize=8)
    return figure
