"""Figures of notebook 09: what fairness costs, what Strength tells of it, Table 6 as dots, the occupations.

Where the paper prints the numbers, its panel stands on the left and ours beside it, drawn alike; where eta is drawn,
ours are two: parity as agreement of all contexts, and of most. Titles speak of the latter. Filled marks have
weighting at SENT (np = 1), hollow ones do not.
"""

import numpy as np
import pandas as pd

from lib import look as plots
from lib.projective import nli, nli_tables, projection

LEVELS = {"Base": ("black", "*"), "Sent-debias": (plots.NEITHER, "X"),
          **dict(zip(nli_tables.LEVELS, zip(plots.LEVELS, "os^D")))}
PAPER = "paper, BERT-base"


def models(ax, table: pd.DataFrame, x, y: str):
    """A mark a model, coloured by level; `x` is a column or a Series."""
    x = table[x] if isinstance(x, str) else x.loc[table.index]
    for level, (color, mark) in LEVELS.items():
        for weighted in (True, False):
            part = table[(table["level"] == level) & ((table["np"] != 0) == weighted)]
            if len(part):
                ax.scatter(x[part.index], part[y], marker=mark, s=110 if mark == "*" else 30, linewidth=1.1,
                           facecolor=color if weighted else "none", edgecolor="white" if mark == "*" else color,
                           alpha=.9, zorder={"*": 5, "X": 4}.get(mark, 3), label=level if weighted else None)


def tradeoff(scores: pd.DataFrame, made_from: str, task: str):
    """Eta against accuracy at the task, with the lines that viable models lie to the right of."""
    figure, axes = plots.panels(3, width=3.4, height=4.3)
    for ax, (title, table) in zip(axes, _readings(scores).items()):
        models(ax, table, "SNLI", "eta")
        base = table.loc["Base", "SNLI"]
        ax.axvline(base - .05, color="black", linewidth=.9, linestyle="--", label="5 points below base")
        ax.axvline(base * .95, color="black", linewidth=.9, linestyle=":", label="5 % below base")
        count = nli.viable(table["SNLI"], base)[2:].sum()
        ax.set(title=f"{title}\n{count} of 74 are viable", xlabel=f"accuracy, {task}")
    axes[0].set(xlabel="accuracy, SNLI's test set", ylabel="eta, higher is fairer")
    _legend(figure, axes[0])
    table = nli_tables.most(scores)
    top, base = nli_tables.best(table[2:], table.loc["Base", "SNLI"]), table.loc["Base", "eta"]
    found = "no intervention is viable" if top is None else f"best viable {top['eta']:.2f}, {top.name}"
    return plots.sign(figure, f"Fairness and its price (most contexts): base eta {base:.2f}, {found}", made_from)


def against_strength(scores: pd.DataFrame, strength: pd.Series, made_from: str):
    """Does lower intrinsic bias mean fairer predictions? Strength across, eta up."""
    figure, axes = plots.panels(3, width=3.4, height=3.9)
    for ax, (title, table) in zip(axes, _readings(scores).items()):
        s = table["S"] if title == PAPER else strength
        models(ax, table, s, "eta")
        rho = nli_tables.correlation(s, table["eta"])["rho"]
        ax.set(title=f"{title}\nSpearman {rho}", xlabel="Strength: lower is less biased")
        ax.locator_params(axis="x", nbins=5)
    axes[0].set_ylabel("eta, higher is fairer")
    _legend(figure, axes[0])
    said = "does not foretell" if rho.low <= 0 <= rho.high else "goes with more" if rho.value < 0 else "goes with less"
    return plots.sign(figure, f"Over 76 models less Strength {said} fairness downstream: rho {rho.value:.2f} "
                              "(most contexts)", made_from)


def gains(scores: pd.DataFrame, made_from: str):
    """Table 6 as dots: the accuracy that each of the 37 pairs gains by weighting at SENT, by level; bars are means."""
    figure, axes = plots.panels(2, height=3.3, sharey=True)
    rng = np.random.default_rng(0)  # dots beside each other
    for ax, table, title in zip(axes, (nli_tables.printed(), scores), (PAPER, made_from)):
        pairs = nli_tables.gains(table)
        for place, level in enumerate(nli_tables.LEVELS):
            increase = pairs.loc[pairs["level"] == level, "increase"]
            ax.scatter(place + rng.uniform(-.18, .18, len(increase)) * (len(increase) > 1), increase, s=22, alpha=.8,
                       color=LEVELS[level][0], edgecolor="white", linewidth=.4)
            ax.hlines(increase.mean(), place - .3, place + .3, color="black", linewidth=1.4)
        ax.axhline(0, color="black", linewidth=.8, linestyle=":")
        ax.set_xticks(range(4), nli_tables.LEVELS)
        ax.set_title(f"{title}\n{(pairs['increase'] > 1e-9).sum()} of 37 gain, mean {pairs['increase'].mean():+.3f}")
    axes[0].set_ylabel("accuracy gained by np = 1")
    gain = nli_tables.gains(scores)["increase"]
    return plots.sign(figure, f"Weighting the sentence projection: {(gain > 1e-9).sum()} of 37 pairs gain accuracy, "
                              f"{(gain < -1e-9).sum()} lose some", made_from)


def occupations(found: dict, chosen: str, made_from: str, named: int = 3):
    """p(neutral) of each occupation with man and with woman, in the base model and in a debiased one (by its name)."""
    names = [setting.name for setting in projection.models()]
    figure, axes = plots.panels(2, height=4.0, sharex=True, sharey=True)
    gaps = []
    for ax, name in zip(axes, ("Base", chosen)):
        table = nli_tables.by_gender(found, names.index(name))
        gap = table["female"] - table["male"]
        gaps.append(gap.abs().mean())
        ax.plot([0, 1], [0, 1], color="black", linewidth=.8, linestyle=":")
        ax.scatter(table["male"], table["female"], s=16, alpha=.8, edgecolor="white", linewidth=.3,
                   color=np.where(gap > 0, plots.FEMALE, plots.MALE))
        ax.set(title=f"{name}: mean gap {gaps[-1]:.2f}", xlabel="p(neutral), The man ...", xlim=(-.02, 1.02),
               ylim=(-.02, 1.02))
        ends = np.argsort(gap.to_numpy())[[*range(named), *range(-named, 0)]]
        plots.name_points(ax, table["male"], table["female"], {end: table.index[end] for end in ends})
    axes[0].set_ylabel("p(neutral), The woman ...")
    return plots.sign(figure, f"Mean gap between man and woman over 164 occupations: {gaps[0]:.2f}, "
                              f"debiased {gaps[1]:.2f}", made_from)


def _readings(scores: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """A panel each: the paper's models, and ours under either reading of parity."""
    return {PAPER: nli_tables.printed(), "ours, all contexts agree": scores,
            "ours, most contexts agree": nli_tables.most(scores)}


def _legend(figure, ax):
    """Below both panels, with what filled and hollow mean."""
    ax.scatter([], [], marker="s", s=26, facecolor="none", edgecolor=plots.NEITHER, label="hollow: np = 0")
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize=7.5, handletextpad=.3)
