"""Figures of notebook 08: 76 models on the plane of Strength and Distance, what subspaces explain, what choices change.

Titles are made from the numbers, so that they state what was found whichever model was measured.
"""

import numpy as np
import pandas as pd
import seaborn as sns

from lib import look as plots
from lib.projective import projection, projection_tables

COLORS = dict(zip(projection.LEVELS, plots.LEVELS))
PARTS = {"sent": "SENT (pooler)", "cls": "CLS, last layer", "tokens": "tokens, layer before",
         "sent_debias": "sent-debias"}


def plane(ours: pd.DataFrame, printed: pd.DataFrame, name: str, made_from: str):
    """Strength across, Distance up, a point a model: the paper's BERT-base on the left, this run's on the right.

    Crosses are models with two unweighted components at [layer 11], which the paper advises against.
    """
    figure, axes = plots.panels(2, width=4.6, height=4)
    advised = [bool(one.tokens) and str(one).startswith("(0, 1") for one in projection_tables.MODELS]
    for ax, frame, title in (axes[0], printed, "BERT-base (printed)"), (axes[1], ours, f"{name} (this run)"):
        for level, color in COLORS.items():
            for against, marker in (False, "o"), (True, "X"):
                part = frame[(frame["level"] == level) & (np.array(advised) == against)]
                ax.scatter(part["S"], part["D"], color=color, marker=marker, s=34, edgecolor="white", linewidth=.5,
                           zorder=3, label=None if against else level)
        base, sent = frame.iloc[0], frame.iloc[1]
        ax.scatter(base["S"], base["D"], color="black", marker="*", s=140, zorder=5, label="base")
        ax.scatter(sent["S"], sent["D"], color="black", marker="D", s=28, zorder=4, label="sent-debias")
        ax.axvline(base["S"], color="black", linewidth=.8, linestyle=":")
        ax.axhline(base["D"], color="black", linewidth=.8, linestyle=":")
        best = frame.iloc[2:][["S", "D"]].min()
        ax.set_title(f"{title}: S {base['S']:.2f}, at best {best['S']:.2f}\nD {base['D']:.2f}, at best {best['D']:.2f}",
                     fontsize=9.5)
        ax.set(xlabel="Strength: left is less biased", ylabel="Distance: lower is less biased")
    axes[1].scatter([], [], color=plots.NEITHER, marker="X", label="(0, 1) at layer 11")
    figure.legend(*axes[1].get_legend_handles_labels(), loc="outside lower center", ncols=7, fontsize=8,
                  handletextpad=.1, columnspacing=1)
    lower = [(ours[column].iloc[2:] < ours[column].iloc[0]).sum() for column in "SD"]
    return plots.sign(figure, f"{lower[0]} of 74 settings lower {name}'s Strength, {lower[1]} its Distance", made_from)


def explained(shares: pd.DataFrame, made_from: str):
    """Share of variance of the first two components at each place, and of the one component of each head's q, k, v."""
    figure, axes = plots.panels(2, width=4.8, height=3, gridspec_kw={"width_ratios": [1, 1.25]})
    places = [part for part in PARTS if part in set(shares["part"])]
    wide = shares[shares["head"] == 0].pivot(index="part", columns="component", values="share").loc[places]
    rows = np.arange(len(places))[::-1]
    axes[0].barh(rows, wide[1], color=plots.SKY, height=.65, label="first component")
    axes[0].barh(rows, wide[2], left=wide[1], color=plots.SKY, alpha=.4, height=.65, label="second")
    for row, (first, second) in zip(rows, wide.to_numpy()):
        axes[0].text(first / 2, row, f"{first:.0%}", ha="center", va="center", fontsize=8)
        axes[0].text(first + second + .01, row, f"+ {second:.0%}", va="center", fontsize=8)
    axes[0].set_yticks(rows, [PARTS[part] for part in places])
    axes[0].set(title="Hidden vectors", xlabel="share of variance explained", xlim=(0, 1))
    axes[0].legend(fontsize=7.5, loc="upper left", bbox_to_anchor=(-.02, -.26), ncols=2)
    axes[0].grid(axis="y", visible=False)
    heads = shares[shares["head"] > 0].pivot(index="part", columns="head", values="share").loc[list("qkv")]
    sns.heatmap(heads, ax=axes[1], cmap=plots.SHADES, vmin=0, vmax=1, annot=100 * heads, fmt=".0f", cbar=False,
                annot_kws={"fontsize": 8}, linewidths=.5)
    axes[1].set_yticks([.5, 1.5, 2.5], ["queries", "keys", "values"], rotation=0)
    axes[1].set(title="Attention, one component a head (percent)", xlabel="head of the second-to-last layer", ylabel="")
    low, high = heads.to_numpy().min(), heads.to_numpy().max()
    return plots.sign(figure, f"One direction explains {wide.loc['cls', 1]:.0%} of the gender differences at CLS, "
                              f"{wide.loc['tokens', 1]:.0%} over tokens, {low:.0%} to {high:.0%} in a head", made_from)


def choices(found: dict, made_from: str):
    """Strength and Distance of the 74 models under each choice that the paper leaves open; the base model dotted."""
    figure, axes = plots.panels(2, width=4.8, height=4, sharey=True)
    names = found["fits"]
    table = projection_tables.sensitivity(found)
    rng = np.random.default_rng(0)
    for ax, column in zip(axes, "SD"):
        for row, fit in enumerate(names):
            frame = projection_tables.summary(found, fit)
            for level, color in COLORS.items():
                values = frame.loc[frame["level"] == level, column]
                ax.scatter(values, row + rng.uniform(-.22, .22, len(values)), s=13, color=color, alpha=.85, linewidth=0,
                           label=level if row == 0 else None)
            ax.text(1.02, row, f"{table.loc[fit, f'rho of {column}']:.2f}", transform=ax.get_yaxis_transform(),
                    va="center", fontsize=8)
        ax.axvline(frame[column].iloc[0], color="black", linewidth=.9, linestyle=":")
        ax.text(1.02, -.75, "rho", transform=ax.get_yaxis_transform(), fontsize=8, style="italic", va="center")
        ax.set(xlabel={"S": "Strength", "D": "Distance"}[column] + " (dotted: base)", ylim=(len(names) - .5, -1.1))
        ax.grid(axis="y", visible=False)
    axes[0].set_yticks(range(len(names)), names)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8)
    other = table.iloc[1:]
    low, high = ([getattr(other[f"rho of {column}"], end)() for column in "SD"] for end in ("min", "max"))
    return plots.sign(figure, f"Other choices rank the 74 alike with rho {low[0]:.2f} to {high[0]:.2f} by S, "
                              f"{low[1]:.2f} to {high[1]:.2f} by D", made_from)
