"""Figures of notebooks 10 and 11: WinoBias' sentence types, Counteracts' Fig. 2-4, and what goes beyond them.

Female is blue and male orange, the paper's colours. Titles are made from the numbers; models are named on the panels.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns

from lib import look
from lib.counteracts import cloze
from lib.counteracts.tables import CHANGES, OVERTURNED

COLORS = {"female": look.FEMALE, "male": look.MALE, "neither": look.NEITHER}
CHANGE_COLORS = dict(zip(CHANGES, [look.BAD, look.PALE, "#9BD8C4", look.GOOD, "#FFFFFF"]))
SHORT = {kind: kind.replace(" similar", "").replace("background", "backgr.") for kind in cloze.KINDS}
SHORT["target neutral background counter"] = "neutral backgr. counter"

# Fig. 1's sentences, written for this project. The pronoun refers to the occupation between stars.
EXAMPLES = {
    "Type 1: only the meaning tells who the pronoun is": [
        ("pro", "The *carpenter* thanked the (cashier) because he had been given the right change."),
        ("anti", "The *carpenter* thanked the (cashier) because she had been given the right change.")],
    "Type 2: the grammar alone tells": [
        ("pro", "The (carpenter) met the *cashier* and then walked her to the station."),
        ("anti", "The (carpenter) met the *cashier* and then walked him to the station.")],
}


def sentence_types(examples: dict = EXAMPLES):
    """Fig. 1: the two types of WinoBias sentences, a line from the pronoun to the occupation that it refers to."""
    figure, ax = plt.subplots(figsize=(look.PAGE, 3.4), layout="constrained")
    ax.axis("off")
    y = 0.0
    for title, sentences in examples.items():
        ax.text(0, y, title, fontsize=10, fontweight="bold", va="center")
        for side, sentence in sentences:
            y -= 1.15
            ax.text(.9, y, f"{side}-stereotypical", fontsize=8, color=look.NEITHER, va="center", ha="right")
            _sentence(ax, sentence, y)
        y -= 1.1
    ax.set(xlim=(0, 9), ylim=(y + .4, .5))
    return look.sign(figure, "WinoBias asks whom a pronoun means: half of its sentences go against the stereotype",
                      "sentences written for this project, after the two types of Zhao et al. 2018")


def _sentence(ax, sentence: str, y: float, x: float = 1.05, letter: float = .0775):
    """Words in a row of fixed-width letters: occupations boxed, the pronoun in its gender's colour, an arc between."""
    ends = {}
    for word in sentence.split():
        mark = word[0] if word[0] in "*(" else ""
        bare = word.strip("*()")
        gender = {"he": "male", "him": "male", "she": "female", "her": "female"}.get(bare)
        middle = x + letter * len(bare) / 2
        if mark or gender:
            ends["pronoun" if gender else mark] = middle
        style = dict(color=COLORS.get(gender, "black"), fontweight="bold" if mark == "*" or gender else "normal")
        box = dict(boxstyle="round,pad=.18", facecolor="#F2F2F2", edgecolor="none") if mark else None
        ax.text(middle, y, bare, family="monospace", fontsize=8.2, ha="center", va="center", bbox=box, **style)
        x += letter * (len(bare) + 1)
    ax.annotate("", (ends["*"], y + .2), (ends["pronoun"], y + .2), arrowprops=dict(
        arrowstyle="->", color=look.NEITHER, connectionstyle="arc3,rad=.12", linewidth=1))


def bars(tables: dict[str, pd.DataFrame], k: int, made_from: str):
    """Fig. 2-4: female and male probability by kind of knowledge, one row per model, female- and male-dominated
    occupations apart. `tables` is tables.bars by model. Whiskers: 95 % over occupations."""
    figure, axes = plt.subplots(len(tables), 2, figsize=(look.PAGE + 1.6, 1.5 * len(tables) + 1.6), sharex=True,
                                sharey="row", layout="constrained", squeeze=False)
    kinds, width = list(cloze.KINDS), .38
    for row, (name, table) in zip(axes, tables.items()):
        for ax, dominated in zip(row, ("female", "male")):
            for gender, shift in (("female", -width / 2), ("male", width / 2)):
                mine = (table["dominated"] == dominated) & (table["gender"] == gender)
                part = table[mine].set_index("kind").loc[kinds]
                errors = [part["value"] - part["low"].clip(lower=0), part["high"] - part["value"]]
                ax.bar(np.arange(len(kinds)) + shift, part["value"], width, color=COLORS[gender], yerr=errors,
                       error_kw={"linewidth": .8, "ecolor": "#555555"}, label=f"{gender} tokens")
            ax.set_title(f"{name}, {dominated}-dominated occupations", fontsize=9)
            ax.grid(axis="x", visible=False)
        row[0].set_ylim(bottom=0)  # of both, and once both are drawn: it ends the search for a top
        if not table["value"].any():
            for ax in row:
                ax.text(.5, .5, f"no gendered token among the top {k}", transform=ax.transAxes, ha="center",
                        fontsize=9, color=look.NEITHER)
            row[0].set(ylim=(0, 1), yticks=[0])
        row[0].set_ylabel("probability")
    for ax in axes[-1]:
        ax.set_xticks(range(len(kinds)), [SHORT[kind] for kind in kinds], rotation=40, ha="right", fontsize=8)
    axes[0][1].legend(fontsize=7.5, loc="upper right")
    what = f"Top {k}" if k else "In full"
    return look.sign(figure, f"{what}: {_overturned(tables)}", made_from)


def _overturned(tables: dict[str, pd.DataFrame]) -> str:
    """In how many panels a kind turns the base prompts' preference round, in words."""
    wide = [table.pivot(index="dominated", columns=["gender", "kind"], values="value") for table in tables.values()]
    gap = pd.concat([table["female"] - table["male"] for table in wide])
    panels, count = (gap["base"] != 0).sum(), (gap.mul(gap["base"], axis=0) < 0).sum()
    if not panels:
        return "the base prompts show no preference"
    shown = ("target counter syntactic similar", "target counter semantic similar", "target neutral", "unrelated")
    return "preference overturned by " + ", ".join(
        f"{SHORT[kind].removeprefix('target ')} {count[kind]}" for kind in shown) + f" of {panels} times"


def shares(tables: dict[str, pd.DataFrame], what: str, made_from: str):
    """What each kind does to the preference, as shares of the occupations. `tables`: tables.shares by model."""
    figure, axes = _grid(tables)
    for ax, (name, table) in zip(axes, tables.items()):
        wide = table.pivot(index="kind", columns="change", values="value").loc[list(cloze.KINDS)[1:][::-1]]
        left = np.zeros(len(wide))
        for change in CHANGES:
            ax.barh(range(len(wide)), wide[change], left=left, height=.75, color=CHANGE_COLORS[change], label=change,
                    edgecolor="#999999" if change == CHANGES[-1] else "none", linewidth=.5)
            left += wide[change].to_numpy()
        ax.set(title=name, xlim=(0, 1), xlabel="share of occupations")
        ax.grid(visible=False)
    _kind_labels(axes, list(cloze.KINDS)[1:])
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize=8)
    best = {name: table[table["change"] == OVERTURNED].set_index("kind")["value"] for name, table in tables.items()}
    mean = pd.DataFrame(best).mean(axis=1).sort_values()
    return look.sign(figure, f"{what}: {SHORT[mean.index[-1]]} overturns most preferences ({mean.iloc[-1]:.0%}), "
                              f"{SHORT[mean.index[0]]} fewest ({mean.iloc[0]:.0%})", made_from)


def relative(tables: dict[str, pd.DataFrame], made_from: str):
    """Equation 1 by kind: the geometric mean of p(w | knowledge) / p(w | base). `tables`: relative_means by model."""
    figure, axes = _grid(tables)
    kinds = list(cloze.KINDS)[1:]
    for ax, (name, table) in zip(axes, tables.items()):
        for gender, shift in (("neither", 0), ("male", -.18), ("female", .18)):
            if gender in table["ratio"]:
                ax.scatter(table["ratio"][gender].loc[kinds[::-1]], np.arange(len(kinds)) + shift, s=26, zorder=3,
                           color=COLORS[gender], label=gender)
        ax.axvline(1, color="black", linewidth=.8, linestyle=":")
        ax.set(title=name, xscale="log", xlabel="p(w | knowledge) / p(w | base)")
        ax.set_xticks([.5, 1, 2, 5, 10], ["½", "1", "2", "5", "10"])
        ax.minorticks_off()
    _kind_labels(axes, kinds)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=8)
    gendered = [table["ratio"].reindex(columns=["female", "male"]) for table in tables.values()]
    rise = pd.concat(gendered, axis=1).mean(axis=1).fillna(1)
    most = rise.idxmax()
    return look.sign(figure, f"Gendered tokens that stay in the top 10 gain most from {SHORT[most]} knowledge: "
                              f"{rise[most]:.1f} times", made_from)


def slopes(tables: dict[str, pd.DataFrame], made_from: str):
    """How log odds follow the labour statistics before (base) and after knowledge: tables.slopes by model."""
    figure, axes = _grid(tables, sharex=True)
    kinds = list(cloze.KINDS)
    for ax, (name, table) in zip(axes, tables.items()):
        table = table.set_index("kind").loc[kinds[::-1]]
        color = ["black" if kind == "base" else look.GOOD if value < table.loc["base", "low"]
                 else look.BAD if value > table.loc["base", "high"] else look.PALE
                 for kind, value in table["value"].items()]
        ax.hlines(range(len(kinds)), table["low"], table["high"], color=color, linewidth=2)
        ax.scatter(table["value"], range(len(kinds)), color=color, s=22, zorder=3)
        ax.axvline(0, color="black", linewidth=.8, linestyle=":")
        ax.axvspan(table.loc["base", "low"], table.loc["base", "high"], color="black", alpha=.07, linewidth=0)
        ax.set(title=name, xlabel="log2 odds per 10 points")
    _kind_labels(axes, kinds)
    turned = [name for name, table in tables.items()
              if table.set_index("kind").loc["target counter syntactic similar", "high"] < 0]
    return look.sign(figure, "One counterexample of the same form turns the slope on the labour statistics negative "
                              f"in {len(turned)} of {len(tables)} models", made_from)


def forms(tables: dict[str, pd.DataFrame], made_from: str):
    """Sensitivity: the margin by kind under each way to write the prompt and to count tokens. `tables`:
    tables.forms by model. Blue cells lean female, orange ones male."""
    sizes = [len(table) for table in tables.values()]
    figure, axes = plt.subplots(len(sizes), 2, figsize=(look.PAGE + 2.1, .3 * sum(sizes) + .4 * len(sizes) + 1.2),
                                gridspec_kw={"height_ratios": sizes}, layout="constrained", squeeze=False)
    palette = sns.blend_palette([look.MALE, "#FFFFFF", look.FEMALE], as_cmap=True)
    for i, (row, (name, table)) in enumerate(zip(axes, tables.items())):
        for ax, dominated in zip(row, ("female", "male")):
            part, last = table[dominated], i + 1 == len(axes)
            sns.heatmap(part, ax=ax, cmap=palette, vmin=-1, vmax=1, cbar=False, linewidths=.5, fmt="",
                        annot=part.map(lambda value: f"{value:.2f}".replace("0.", ".")), annot_kws={"size": 8},
                        xticklabels=[SHORT[kind] for kind in part] if last else False, yticklabels=ax is row[0])
            ax.set(xlabel="", ylabel="")
            ax.set_title(f"{name}, {dominated}-dominated", fontsize=9)
            ax.tick_params(length=0, labelsize=8.5)
            plt.setp(ax.get_xticklabels(), rotation=40, ha="right")
    widest = {name: (table.max() - table.min()).max() for name, table in tables.items()}
    most = max(widest, key=widest.get)
    flips = sum((np.sign(table) != np.sign(table.iloc[0])).any().sum() for table in tables.values())
    columns = sum(len(table.columns) for table in tables.values())
    return look.sign(figure, f"Such choices change who is preferred in {flips} of {columns} columns; the margin "
                              f"spans up to {widest[most]:.2f} ({most})", made_from)


def _grid(tables: dict, sharex: bool = False):
    """Panels for any number of models, at most four per row: (figure, axes as a list)."""
    columns = min(4, len(tables))
    rows = -(-len(tables) // columns)
    size = max(2.15 * columns + 1.9, look.PAGE), 2.9 * rows + .5
    figure, axes = plt.subplots(rows, columns, figsize=size, sharey=True, sharex=sharex, layout="constrained",
                                squeeze=False)
    for ax in axes.flat[len(tables):]:
        ax.axis("off")
    return figure, list(axes.flat[: len(tables)])


def _kind_labels(axes, kinds):
    axes[0].set_yticks(range(len(kinds)), [SHORT[kind] for kind in kinds[::-1]], fontsize=8)
    for ax in axes:
        ax.tick_params(axis="y", length=0)
