"""Figures of notebook 07: what SS, s and d see in a triple, their distributions, and the share that is averaged."""

import numpy as np
import pandas as pd
from matplotlib.ticker import PercentFormatter

from lib import look as plots
from lib.engine import nsp

STEREO, ANTI, DISTANT = plots.BAD, plots.GOOD, plots.ACCENT


def preferences(found: pd.DataFrame, made_from: str, share: float = .1):
    """Each triple's preference for its stereotype, before and after the swap of gender.

    On the diagonal the swap changes nothing: s is the distance from it. SS looks at the horizontal axis alone.
    """
    x, y, s = found["stereo"] - found["anti"], found["gs_stereo"] - found["gs_anti"], nsp.strengths(found)
    order = np.argsort(s)
    n = max(1, round(len(s) * share))
    figure, (ax,) = plots.panels(1, width=5.6, height=5)
    ax.axvspan(0, 1.05, color="#F3F3F3", zorder=0)
    ax.plot([-1, 1], [-1, 1], color=plots.NEITHER, linewidth=1, zorder=1)
    middle = order[n:-n]
    ax.scatter(x.iloc[middle], y.iloc[middle], s=20, color="#9A9A9A", edgecolor="white", linewidth=.4, zorder=2)
    for part, color, name in ((order[-n:], STEREO, f"the {n} highest s: Strength"),
                              (order[:n], ANTI, f"the {n} lowest s: the opposite")):
        ax.scatter(x.iloc[part], y.iloc[part], s=30, color=color, edgecolor="white", linewidth=.4, zorder=3, label=name)
    reach = 1.05 * max(np.abs(x).max(), np.abs(y).max())
    ax.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal",
           xlabel="p(stereotype) - p(anti-stereotype), as written",
           ylabel="the same two sentences after the swap of gender")
    ax.text(.97 * reach, -.97 * reach, "SS counts\nthis half", ha="right", fontsize=8, color="#555555")
    ax.text(-.7 * reach, -.74 * reach, "no effect of gender", rotation=45, ha="center", va="top", fontsize=8,
            color="#555555", rotation_mode="anchor")
    ax.legend(loc="upper left", fontsize=8)
    counted = x > 0
    kept = (y[counted] > 0).sum()
    return plots.sign(figure, f"Of {counted.sum()} triples that SS counts, {kept} prefer the same sentence after the "
                              "swap of gender", made_from)


def distributions(found: pd.DataFrame, made_from: str, share: float = .1):
    """s and d of all triple pairs, the averaged tails in colour."""
    s, d = nsp.strengths(found), nsp.distances(found)
    n = max(1, round(len(s) * share))
    figure, axes = plots.panels(2)
    reach = 1.05 * np.abs(s).max()
    low, high = np.sort(s)[n - 1], np.sort(s)[-n]
    _histogram(axes[0], s, np.linspace(-reach, reach, 42), [(s >= high, STEREO), (s <= low, ANTI)])
    _histogram(axes[1], d, np.linspace(0, 1.05 * d.max(), 32), [(d >= np.sort(d)[-n], DISTANT)])
    strength, opposite, distance = nsp.top_mean(s, share), nsp.top_mean(-s, share), nsp.top_mean(d, share)
    for ax, places in (axes[0], ((strength, f"S = {strength:.2f}"), (-opposite, f"opposite {opposite:.2f}"))), \
                      (axes[1], ((distance, f"D = {distance:.2f}"),)):
        top = ax.get_ylim()[1]
        for place, name in places:
            ax.annotate(name, (place, .03 * top), (place, .42 * top), ha="center", fontsize=9,
                        arrowprops={"arrowstyle": "->", "color": "#333333", "linewidth": .8})
    near = np.mean(np.abs(s) <= .05)
    axes[0].set(title=f"s: {near:.0%} within .05 of 0", xlabel="s of a triple pair", ylabel="triple pairs, log above 5")
    axes[1].set(title=f"d: {np.mean(d <= .05):.0%} within .05 of 0", xlabel="d of a triple pair")
    side = "exceeds" if strength > opposite else "does not exceed"
    return plots.sign(figure, f"Strength {side} its opposite: {strength:.2f} against {opposite:.2f}", made_from)


def threshold(curve: pd.DataFrame, made_from: str):
    """S, its opposite and D over the share of triple pairs averaged, with 95 % intervals; the paper's 10 % marked."""
    figure, axes = plots.panels(2)
    shown = (axes[0], (("S", STEREO), ("S, opposite", ANTI))), (axes[1], (("D", DISTANT),))
    for ax, measures in shown:
        for name, color in measures:
            part = curve[curve["measure"] == name]
            ax.fill_between(part["share"], part["low"], part["high"], color=color, alpha=.15, linewidth=0)
            ax.plot(part["share"], part["value"], color=color, marker="o", markersize=3, label=name)
        ax.axvline(.1, color="black", linewidth=.8, linestyle=":")
        ax.axhline(0, color="black", linewidth=.8)
        ax.set(xscale="log", xlabel="share averaged (dotted: the paper's)")
        ax.set_xticks([.01, .03, .1, .3, 1])
        ax.xaxis.set_major_formatter(PercentFormatter(1, 0))
        ax.minorticks_off()
    axes[0].set(title="Strength", ylabel="mean s")
    axes[1].set(title="Distance", ylabel="mean d")
    axes[0].legend(fontsize=8)
    values = curve.set_index(["measure", "share"])["value"]
    first, tenth, every = (round(values["S", share], 2) + 0.0 for share in (.01, .1, 1.0))
    return plots.sign(figure, f"The share decides the size: S is {first:.2f} at 1 %, {tenth:.2f} at 10 %, "
                              f"{every:.2f} over all", made_from)


def _histogram(ax, values, edges, tails):
    """Counts, with the values of each tail (mask, color) stacked in its colour."""
    rest = ~np.any([mask for mask, _ in tails], axis=0)
    parts = [values[rest], *(values[mask] for mask, _ in tails)]
    colors = ["#C4C4C4", *(color for _, color in tails)]
    ax.hist(parts, edges, stacked=True, color=colors, edgecolor="white", linewidth=.3)
    ax.set_yscale("symlog", linthresh=5)  # the tails are a few pairs beside many
    ax.set_yticks([0, 2, 5, 10, 20, 50, 100], ["0", "2", "5", "10", "20", "50", "100"])
    ax.set_ylim(0, None)
