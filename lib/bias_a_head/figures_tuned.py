"""Figures of notebooks 05 and 06: what masking heads does to GLUE scores, and the heads of debiased and LLaMA models.

Titles are made from the numbers, so that they state what was found whichever model was measured. What the arguments
are is said in tables_tuned.py.
"""

import numpy as np
import pandas as pd
from matplotlib.lines import Line2D

from lib import look
from lib.bias_a_head import debiased, figures, glue, heads
from lib.bias_a_head.debiased import FOLLOWED, short

MASKED = {"Top-3": look.SKY, "All": look.BAD}


# ---- 05: GLUE

def changes(runs: pd.DataFrame, moved: pd.DataFrame, learned: list[str], made_from: str):
    """One panel per mask, one row per metric: `moved`, the changes of `runs`, with 95 % intervals and every seed;
    crosses are the paper's. What the unmasked model has not learned is drawn in grey."""
    full, *masks = glue.MASKS.values()
    rows = list(dict.fromkeys(moved["row"]))
    figure, axes = look.panels(len(masks), height=4.6, sharex=True, sharey=True)
    wide = runs.pivot(index=["row", "seed"], columns="mask", values="score")
    reach = 1.3 * moved[["value", "printed"]].abs().max().max()  # an interval of three seeds may run out of the frame
    for ax, mask in zip(axes, masks):
        for y, row in enumerate(moved[moved["mask"] == mask].itertuples()):
            color = MASKED[mask] if row.row in learned else look.NEITHER
            if row.row in wide.index:
                seeds = wide.loc[row.row]
                ax.plot([row.low, row.high], [-y, -y], color=color, linewidth=2, alpha=.4, zorder=2)
                ax.scatter(seeds[mask] - seeds[full], [-y] * len(seeds), color=color, s=9, zorder=3)
                ax.scatter(row.value, -y, color=color, s=42, edgecolor="white", zorder=4)
            ax.scatter(row.printed, -y, color="black", marker="x", s=26, linewidth=1, zorder=5)
        ax.axvline(0, color="black", linewidth=.8, linestyle=":")
        ax.set(title=f"{mask} masked", xlabel="change of the score, masked less unmasked", xlim=(-reach, reach))
        ax.grid(axis="y", visible=False)
    axes[0].set_yticks([-y for y in range(len(rows))], [_label(row) for row in rows])
    marks = [Line2D([], [], color=look.SKY, marker="o", label="mean over seeds, 95 % interval; dots: seeds"),
             Line2D([], [], color=look.NEITHER, marker="o", label="unmasked model has learned nothing"),
             Line2D([], [], color="black", marker="x", linestyle="", label="paper, BERT-base")]
    figure.legend(handles=marks, fontsize=7.5, loc="outside lower left", ncols=3)
    return look.sign(figure, _changes_title(moved, learned, masks), made_from)


def _label(row: str) -> str:
    names = {"f1": "F1", "matthews": "Matthews", "pearson": "Pearson", "spearman": "Spearman"}
    task, metric = row.split(" ")
    return f"{task} {names.get(metric, metric)}"


def _changes_title(moved: pd.DataFrame, learned: list[str], masks: list[str]) -> str:
    if not learned:
        return "GLUE with heads masked: no task that the unmasked model has learned is run"
    known = moved[moved["row"].isin(learned)]
    top, every = (known[known["mask"] == mask]["value"].mean() for mask in masks)
    ran = moved.dropna(subset="value")["row"].nunique()
    mean = f"mean over the {len(learned)} of {ran} scores learned"
    return f"{masks[0]} masked {top:+.3f}, {masks[1]} {every:+.3f}: {mean}"


# ---- 06: debiased models and LLaMA

def debiased_heads(results: dict, base: str):
    """Fig. 5: one heatmap per model on one scale; framed: the base's most anti-biased heads, black once biased."""
    figure, axes = look.panels(len(results), width=3.4, height=3.3)
    darkest = max(result["scores"].max() for result in results.values())
    followed = heads.bottom(results[base]["scores"], FOLLOWED)
    for ax, (name, result) in zip(axes, results.items()):
        framed = {(layer, head): "#000000" if result["scores"][layer - 1, head - 1] > 0 else figures.ANTI
                  for layer, head in followed}
        note = "" if name == base else f": {debiased.count_turned(result['scores'], results[base]['scores'])} turned"
        figures.heatmap(figure, ax, result["scores"], short(name) + note, framed, darkest)
    return figure


def movement(results: dict, base: str):
    """One point per head, its score in the base and in a debiased model; the base's most anti-biased ones are named."""
    others = [name for name in results if name != base]
    figure, axes = look.panels(len(others), width=4, height=3.8)
    before = results[base]["scores"]
    followed = heads.bottom(before, FOLLOWED)
    reach = 1.1 * max(np.abs(result["scores"]).max() for result in results.values())
    for ax, name in zip(axes, others):
        after = results[name]["scores"]
        changed = (before > 0) != (after > 0)
        ax.plot([-reach, reach], [-reach, reach], color=look.NEITHER, linewidth=.8, linestyle=":")
        ax.axhline(0, color=look.NEITHER, linewidth=.5)
        ax.axvline(0, color=look.NEITHER, linewidth=.5)
        ax.scatter(before, after, s=14, c=np.where(changed, figures.BIASED, "#333333").ravel(), alpha=.7,
                   edgecolor="white", linewidth=.4)
        for layer, head in followed:
            ax.scatter(before[layer - 1, head - 1], after[layer - 1, head - 1], s=46, facecolor="none",
                       edgecolor=figures.ANTI, linewidth=1.2)
        ax.set(title=short(name), xlabel=f"bias score in {short(base)}", ylabel="bias score now", xlim=(-reach, reach),
               ylim=(-reach, reach))
        ax.locator_params(nbins=6)
        named = {(layer - 1) * before.shape[1] + head - 1: f"{layer}-{head}" for layer, head in followed}
        look.name_points(ax, before.ravel(), after.ravel(), named)
    return figure


def distributions(results: dict):
    """Fig. 6-7: the distribution of the scores, one panel per model, the axis shared by a base and its chat model."""
    figure, axes = look.panels(len(results), width=4.2, height=3.2, sharex=len(results) > 1)
    for ax, (name, result) in zip(axes, results.items()):
        figures.distribution(ax, result["scores"], short(name))
    return figure
