"""The pictures of Bias A-head's notebooks that take more than a few lines to draw.

Notebooks 02 and 06 share the two pictures of head scores: Fig. 1, 6 and 7, and Fig. 2 and 5.
"""

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from matplotlib.collections import PatchCollection

from lib import look
from lib.bias_a_head import heads

DARK = "#333333"  # of lines and frames
HATCHES = "#8C8C8C"


def distribution(ax, scores: np.ndarray, title: str, bins=24):
    """Fig. 1: a histogram of all scores with its density, one mark per head.

    Triangles mark the three highest.
    """
    values = scores.ravel()
    sns.histplot(
        x=values,
        bins=bins,
        kde=True,
        color=look.NEITHER,
        edgecolor="white",
        linewidth=0.4,
        ax=ax,
    )
    sns.rugplot(x=values, height=0.03, color=DARK, linewidth=0.6, ax=ax)
    ax.axvline(0, color=DARK, linewidth=0.8, linestyle=":")
    highest = _three_highest(scores)
    ax.plot(
        [scores[layer - 1, head - 1] for layer, head in highest],
        [0] * len(highest),
        "v",
        color=look.BAD,
        markersize=6,
        markeredgecolor="white",
        markeredgewidth=0.5,
        clip_on=False,
        zorder=4,
    )
    names = [f"{layer}-{head}" for layer, head in highest]
    ax.text(
        0.99,
        0.97,
        "\n".join(["highest", *names]),
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
    """Fig. 2: one cell per head, the darker the more biased; negative scores are drawn as zero.

    darkest  the score of the darkest red: one for panels that are compared
    hatched  (layer, head) of those whose interval includes 0
    framed   {(layer, head): colour of its frame}; left out, the three highest
    beside   the panels to whose right the scale is drawn: those that share it
    """
    n_layers, n_heads = scores.shape
    image = ax.imshow(
        scores.clip(min=0),
        cmap=look.HEAT,
        vmin=0,
        vmax=max(darkest, 1e-9),
        origin="lower",
        extent=(0.5, n_heads + 0.5, 0.5, n_layers + 0.5),
    )
    frames = framed or dict.fromkeys(_three_highest(scores), DARK)
    for (layer, head), color in frames.items():
        ax.add_patch(_cell(layer, head, fill=False, edgecolor=color, linewidth=1.2))
    cells = [_cell(layer, head) for layer, head in hatched]
    ax.add_collection(
        PatchCollection(cells, facecolor="none", edgecolor=HATCHES, hatch="/////", linewidth=0)
    )
    ax.set(title=title, xlabel="head", ylabel="layer")
    ax.set_xticks(range(1, n_heads + 1, max(1, n_heads // 12)))
    ax.set_yticks(range(1, n_layers + 1, max(1, n_layers // 12)))
    ax.tick_params(labelsize=7, length=2)
    ax.grid(visible=False)
    if len(beside):
        scale = ax.figure.colorbar(image, ax=beside, shrink=0.8, pad=0.02, label="bias score")
        scale.ax.tick_params(labelsize=7)


def _three_highest(scores: np.ndarray) -> list[tuple[int, int]]:
    return heads.top(scores, min(3, scores.size))


def _cell(layer: int, head: int, **style) -> plt.Rectangle:
    """The square of a head in a heatmap."""
    return plt.Rectangle((head - 0.5, layer - 0.5), 1, 1, **style)
