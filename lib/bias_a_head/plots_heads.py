"""Figures of notebook 02: where the bias scores lie, which heads have them, and whether they can be trusted."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns

from lib import look as plots
from lib.bias_a_head import heads

BIASED, ANTI = plots.BAD, plots.GOOD  # the colour of positive and of negative scores


def distribution(ax, scores: np.ndarray, title: str, name: int = 3):
    """Fig. 1: a histogram of all scores with its density, a mark a head; triangles at the `name` highest."""
    sns.histplot(x=scores.ravel(), bins=24, kde=True, color=plots.NEITHER, edgecolor="white", linewidth=.4, ax=ax)
    sns.rugplot(x=scores.ravel(), height=.03, color="#333333", linewidth=.6, ax=ax)
    ax.axvline(0, color="#333333", linewidth=.8, linestyle=":")
    best = heads.top(scores, name)
    ax.plot([scores[layer - 1, head - 1] for layer, head in best], [0] * name, "v", color=BIASED, markersize=6,
            markeredgecolor="white", markeredgewidth=.5, clip_on=False, zorder=4)
    ax.text(.99, .97, "highest\n" + "\n".join(f"{layer}-{head}" for layer, head in best), transform=ax.transAxes,
            ha="right", va="top", fontsize=8, color=BIASED)
    ax.locator_params(axis="x", nbins=5)
    ax.set(title=title, xlabel="bias score", ylabel="heads")
    ax.margins(x=.08)


def heatmap(figure, ax, scores: np.ndarray, title: str, framed: dict | None = None, darkest: float | None = None):
    """Fig. 2: a cell a head, the darker the more biased; negative scores are shown as zero, as in the paper.

    framed   {(layer, head): colour of its frame}; left out, the three highest
    darkest  the score of the darkest red, for panels that share a scale
    """
    n_layers, n_heads = scores.shape
    image = ax.imshow(scores.clip(min=0), cmap=plots.HEAT, vmin=0, vmax=darkest, aspect="equal", origin="lower",
                      extent=(.5, n_heads + .5, .5, n_layers + .5))
    for (layer, head), color in (framed or dict.fromkeys(heads.top(scores, 3), "#333333")).items():
        ax.add_patch(plt.Rectangle((head - .5, layer - .5), 1, 1, fill=False, edgecolor=color, linewidth=1.2))
    few = max(1, n_heads // 12)
    ax.set(title=title, xlabel="head", ylabel="layer")
    ax.set_xticks(range(1, n_heads + 1, few))
    ax.set_yticks(range(1, n_layers + 1, max(1, n_layers // 12)))
    ax.tick_params(labelsize=7, length=2)
    ax.grid(visible=False)
    bar = figure.colorbar(image, ax=ax, shrink=.8, pad=.02)
    bar.set_label("bias score", size=8)
    bar.ax.tick_params(labelsize=7)


def ranked(ax, frame: pd.DataFrame, title: str):
    """Every head's score with its interval, highest first; in colour where the interval leaves zero out."""
    place = np.arange(1, len(frame) + 1)
    color = np.select([frame.low > 0, frame.high < 0], [BIASED, ANTI], plots.PALE)
    ax.vlines(place, frame.low, frame.high, color=color, linewidth=1.2)
    ax.scatter(place, frame.score, s=5, color="#333333", zorder=3, linewidth=0)
    ax.axhline(0, color="#333333", linewidth=.8)
    ax.set(title=title, xlabel="head, by its score", ylabel="bias score")


def ablation(ax, result: dict, title: str, name: int = 2):
    """What the gradient foresees for each head against what switching it off does; both say how far |SEAT| falls."""
    x, y = result["gradient"], result["ablation"]
    reach = 1.1 * max(np.abs(x).max(), np.abs(y).max())
    ax.plot([-reach, reach], [-reach, reach], color=plots.NEITHER, linewidth=.8, linestyle=":")
    ax.axhline(0, color=plots.NEITHER, linewidth=.5)
    ax.axvline(0, color=plots.NEITHER, linewidth=.5)
    right = (x > 0) == (y > 0)
    ax.scatter(x, y, s=16, c=np.where(right, "#333333", BIASED).ravel(), alpha=.8, edgecolor="white", linewidth=.4)
    ax.set(title=title, xlabel="bias score (gradient)", ylabel="fall of |SEAT| when switched off",
           xlim=1.15 * np.array([x.min(), x.max()]), ylim=1.1 * np.array([y.min(), y.max()]))
    ax.locator_params(nbins=6)
    named = {(layer - 1) * x.shape[1] + head - 1: f"{layer}-{head}" for layer, head in heads.top(np.abs(y), name)}
    plots.name_points(ax, x.ravel(), y.ravel(), named)
