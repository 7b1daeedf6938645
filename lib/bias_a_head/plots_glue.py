"""Figure of notebook 05: what masking heads does to GLUE scores, task by task.

The title is made from the numbers, so that it states what was found whichever model was measured.
"""

import pandas as pd
from matplotlib.lines import Line2D

from lib import look as plots
from lib.bias_a_head import glue

COLORS = {"Top-3": plots.SKY, "All": plots.BAD}


def changes(found: pd.DataFrame, moved: pd.DataFrame, learned: list[str], made_from: str):
    """A panel a mask, a row a metric: the change of the score, its 95 % interval and every seed; crosses the paper's.

    `moved` is glue_tables.changes of `found`. What the unmasked model has not learned is drawn in grey.
    """
    full, *masks = glue.MASKS.values()
    rows = list(dict.fromkeys(moved["row"]))
    figure, axes = plots.panels(len(masks), height=4.6, sharex=True, sharey=True)
    wide = found.pivot(index=["row", "seed"], columns="mask", values="score")
    for ax, mask in zip(axes, masks):
        for y, row in enumerate(moved[moved["mask"] == mask].itertuples()):
            color = COLORS[mask] if row.row in learned else plots.NEITHER
            if row.row in wide.index:
                seeds = wide.loc[row.row]
                ax.plot([row.low, row.high], [-y, -y], color=color, linewidth=2, alpha=.4, zorder=2)
                ax.scatter(seeds[mask] - seeds[full], [-y] * len(seeds), color=color, s=9, zorder=3)
                ax.scatter(row.value, -y, color=color, s=42, edgecolor="white", zorder=4)
            ax.scatter(row.printed, -y, color="black", marker="x", s=26, linewidth=1, zorder=5)
        ax.axvline(0, color="black", linewidth=.8, linestyle=":")
        ax.set(title=f"{mask} masked", xlabel="change of the score, masked less unmasked")
        ax.set_xlim(-1.3 * _reach(moved), 1.3 * _reach(moved))
        ax.grid(axis="y", visible=False)
    axes[0].set_yticks([-y for y in range(len(rows))], [label(row) for row in rows])
    marks = [Line2D([], [], color=plots.SKY, marker="o", label="mean over seeds, 95 % interval; dots: seeds"),
             Line2D([], [], color=plots.NEITHER, marker="o", label="unmasked model has learned nothing"),
             Line2D([], [], color="black", marker="x", linestyle="", label="paper, BERT-base")]
    figure.legend(handles=marks, fontsize=7.5, loc="outside lower left", ncols=3)
    return plots.sign(figure, _title(moved, learned, masks), made_from)


def label(row: str) -> str:
    names = {"f1": "F1", "matthews": "Matthews", "pearson": "Pearson", "spearman": "Spearman"}
    task, metric = row.split(" ")
    return f"{task} {names.get(metric, metric)}"


def _reach(moved: pd.DataFrame) -> float:
    """Wide enough for every mean, ours and printed; an interval of three seeds may run out of the frame."""
    return moved[["value", "printed"]].abs().max().max()


def _title(moved: pd.DataFrame, learned: list[str], masks: list[str]) -> str:
    known = moved[moved["row"].isin(learned)]
    if known.empty:
        return "GLUE with heads masked: no task that the unmasked model has learned is run"
    top, every = (known[known["mask"] == mask]["value"].mean() for mask in masks)
    ran = moved.dropna(subset="value")["row"].nunique()
    return (f"{masks[0]} masked {top:+.3f}, {masks[1]} {every:+.3f}: "
            f"mean over the {len(learned)} of {ran} scores learned")
