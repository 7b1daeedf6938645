"""Figures of notebook 06: heads of debiased models beside those of their base, and LLaMA's scores."""

import numpy as np

from lib import look as plots
from lib.bias_a_head import debiased, figures, heads


def heatmaps(results: dict, base: str):
    """Fig. 5: a heatmap a model on one scale; framed: the base's most anti-biased heads, black once biased."""
    figure, axes = plots.panels(len(results), width=3.4, height=3.3)
    darkest = max(result["scores"].max() for result in results.values())
    followed = heads.bottom(results[base]["scores"], debiased.FOLLOWED)
    for ax, (name, result) in zip(axes, results.items()):
        framed = {(layer, head): "#000000" if result["scores"][layer - 1, head - 1] > 0 else figures.ANTI
                  for layer, head in followed}
        crossed = debiased.count_turned(result["scores"], results[base]["scores"])
        note = "" if name == base else f": {crossed} turned"
        figures.heatmap(figure, ax, result["scores"], debiased.short(name) + note, framed, darkest)
    return figure


def movement(results: dict, base: str):
    """A point a head, its score in the base and in a debiased model; the base's most anti-biased ones are named."""
    others = [name for name in results if name != base]
    figure, axes = plots.panels(len(others), width=4, height=3.8)
    before = results[base]["scores"]
    followed = heads.bottom(before, debiased.FOLLOWED)
    reach = 1.1 * max(np.abs(result["scores"]).max() for result in results.values())
    for ax, name in zip(axes, others):
        after = results[name]["scores"]
        changed = (before > 0) != (after > 0)
        ax.plot([-reach, reach], [-reach, reach], color=plots.NEITHER, linewidth=.8, linestyle=":")
        ax.axhline(0, color=plots.NEITHER, linewidth=.5)
        ax.axvline(0, color=plots.NEITHER, linewidth=.5)
        ax.scatter(before, after, s=14, c=np.where(changed, figures.BIASED, "#333333").ravel(), alpha=.7,
                   edgecolor="white", linewidth=.4)
        for layer, head in followed:
            at = before[layer - 1, head - 1], after[layer - 1, head - 1]
            ax.scatter(*at, s=46, facecolor="none", edgecolor=figures.ANTI, linewidth=1.2)
        ax.set(title=debiased.short(name), xlabel=f"bias score in {debiased.short(base)}", ylabel="bias score now",
               xlim=(-reach, reach), ylim=(-reach, reach))
        ax.locator_params(nbins=6)
        named = {(layer - 1) * before.shape[1] + head - 1: f"{layer}-{head}" for layer, head in followed}
        plots.name_points(ax, before.ravel(), after.ravel(), named)
    return figure


def distributions(results: dict):
    """Fig. 6-7: the distribution of the scores, a panel a model, the axis shared by a base and its chat model."""
    figure, axes = plots.panels(len(results), width=4.2, height=3.2, sharex=len(results) > 1)
    for ax, (name, result) in zip(axes, results.items()):
        figures.distribution(ax, result["scores"], debiased.short(name))
    return figure
