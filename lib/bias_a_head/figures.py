"""The two pictures of head scores that notebooks 02 and 06 share: Fig. 1, 6 and 7, and Fig. 2 and 5."""

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from matplotlib.collections import PatchCollection

from lib import look
from lib.bias_a_head import heads


def distribution(ax, scores: np.ndarray, title: str, bins=24):
    """Fig. 1: a histogram of all scores with its density, one mark per head; triangles at the three highest."""
    sns.histplot(
        x=scores.ravel(),
        bins=bins,
        kde=True,
        color=look.NEITHER,
        edgecolor="white",
        linewidth=0.4,
        ax=ax,
    )
    sns.rugplot(x=scores.ravel(), height=0.03, color="#333333", linewidth=0.6, ax=ax)
    ax.axvline(0, color="#333333", linewidth=0.8, linestyle=":")
    best = heads.top(scores, min(3, scores.size))
    ax.plot(
        [scores[layer - 1, head - 1] for layer, head in best],
        [0] * len(best),
        "v",
        color=look.BAD,
        markersize=6,
        markeredgecolor="white",
        markeredgewidth=0.5,
        clip_on=False,
        zorder=4,
    )
    ax.text(
        0.99,
        0.97,
        "highest\n" + "\n".join(f"{layer}-{head}" for layer, head in best),
        transform=ax.transAxes,
        ha="right",
        va="top",
        fontsize=8,
        color=look.BAD,
    )
    ax.locator_params(axis="x", nbins=5)
    ax.set(title=title, xlabel="bias score", ylabel="heads")
    ax.margins(x=0.08)


def heatmap(
    ax,
    scores: np.ndarray,
    title: str,
    darkest: float,
    hatched=(),
    framed: dict | None = None,
    beside=(),
):
    """Fig. 2: one cell per head, the darker the more biased; negative scores are shown as zero, as in the paper.
    darkest  the score of the darkest red: one for panels that are compared
    hatched  (layer, head) of those whose interval includes 0
    framed   {(layer, head): colour of its frame}; left out, the three highest
    beside   the panels to whose right the scale is drawn: those that share it"""
    n_layers, n_heads = scores.shape
    image = ax.imshow(
        scores.clip(min=0),
        cmap=look.HEAT,
        vmin=0,
        vmax=max(darkest, 1e-9),
        origin="lower",
        extent=(0.5, n_heads + 0.5, 0.5, n_layers + 0.5),
    )
    for (layer, head), color in (
        framed or dict.fromkeys(heads.top(scores, min(3, scores.size)), "#333333")
    ).items():
        ax.add_patch(
            plt.Rectangle(
                (head - 0.5, layer - 0.5), 1, 1, fill=False, edgecolor=color, linewidth=1.2
            )
        )
    cells = [plt.Rectangle((head - 0.5, layer - 0.5), 1, 1) for layer, head in hatched]
    ax.add_collection(
        PatchCollection(cells, facecolor="none", edgecolor="#8C8C8C", hatch="/////", linewidth=0)
    )
    ax.set(title=title, xlabel="head", ylabel="layer")
    ax.set_xticks(range(1, n_heads + 1, max(1, n_heads // 12)))
    ax.set_yticks(range(1, n_layers + 1, max(1, n_layers // 12)))
    ax.tick_params(labelsize=7, length=2)
    ax.grid(visible=False)
    if len(beside):
        ax.figure.colorbar(
            image, ax=beside, shrink=0.8, pad=0.02, label="bias score"
        ).ax.tick_params(labelsize=7)
