"""Figures 3 and 4 of Bias A-head: one target word's attention over a sentence, and the counter-stereotype test."""

import numpy as np
import pandas as pd
import seaborn as sns
import torch

from lib import look as plots
from lib.bias_a_head import counter

ORIGINAL, COUNTER = "#333333", "#B5B5B5"                     # the two sentences
GROUPS = {"biased": plots.BAD, "regular": plots.GOOD}        # the two kinds of heads
THICK = 5.0                                                  # points, of the most attended word


# Figure 3

def on_attributes(seen: dict, attributes: tuple[str, str]) -> torch.Tensor:
    """The normalised weight on the attribute in each of the two sentences: [2, n_layers, n_heads].

    seen: {"original": (words, weights), "counter": ...} of counter.over_words.
    """
    return torch.stack([counter.normalised(weights)[..., [word.lower() for word in words].index(attribute)]
                        for (words, weights), attribute in zip(seen.values(), attributes, strict=True)])


def telling(on: torch.Tensor, chosen: list[tuple[int, int]]) -> tuple[int, int]:
    """The first of the chosen heads in which the attribute is neither the most nor the least attended word.

    Min-max pins those to 1 and 0 whatever the swap does. In which sentence the weight is greater plays no part.
    """
    return next((head for head in chosen if all(.005 < w < .995 for w in on[:, head[0] - 1, head[1] - 1])), chosen[0])


def example(seen: dict, chosen: dict[str, tuple[int, int]], target: str, attributes: tuple[str, str]):
    """Four panels, as in the paper: for each chosen head the original sentence, then its twin.

    seen: as for on_attributes; chosen: {"biased head": (layer, head), "regular head": ...}.
    """
    figure, axes = plots.panels(2 * len(chosen), width=2.35, height=3.9)
    panels = iter(axes)
    for kind, (layer, head) in chosen.items():
        color = GROUPS[kind.split()[0]]
        for (name, (words, weights)), attribute in zip(seen.items(), attributes, strict=True):
            title = f"{kind} {layer}-{head}\n{name}"
            edges(next(panels), words, weights[layer - 1, head - 1], target, attribute, title, color)
    return figure


def edges(ax, words: list[str], weights: torch.Tensor, target: str, attribute: str, title: str, color: str):
    """Words down two columns; from the target (left) an edge to each word (right), thick where it attends.

    Thickness is the min-max normalised weight; the attribute's is written beside it, in bold.
    """
    scaled = counter.normalised(weights).tolist()
    lower = [word.lower() for word in words]
    start, marked = lower.index(target), lower.index(attribute)
    for place, (word, weight) in enumerate(zip(words, scaled)):
        is_marked = place == marked
        ax.plot([0, 1], [start, place], color=color, linewidth=THICK * weight, alpha=1 if is_marked else .45,
                solid_capstyle="round", zorder=3 if is_marked else 2)
        for x, side, is_bold, usual in ((-.06, "right", place == start, "#999999"), (1.06, "left", is_marked, "black")):
            ax.text(x, place, word, ha=side, va="center", fontsize=8, color=color if is_bold else usual,
                    fontweight="bold" if is_bold else "normal")
    ax.text(.5, -1.05, f"{target} on {attribute}: ", ha="center", va="bottom", fontsize=8)
    ax.text(.5, -1.0, f"{scaled[marked]:.4f}", ha="center", va="top", fontsize=10, fontweight="bold", color=color)
    ax.set(xlim=(-.85, 1.85), ylim=(len(words) - .5, -1.9))
    ax.set_title(title, loc="center")
    ax.axis("off")


def example_finding(on: torch.Tensor, chosen: dict[str, tuple[int, int]]) -> str:
    """What the swap does to the weight on the attribute, in the chosen heads."""
    weights = {kind: on[:, layer - 1, head - 1].tolist() for kind, (layer, head) in chosen.items()}
    return "The swap moves the " + ", the ".join(f"{kind} from {original:.2f} to {swapped:.2f}"
                                                 for kind, (original, swapped) in weights.items())


# Figure 4

def figure4(tests: dict[str, pd.DataFrame], by_head: pd.DataFrame, scores: np.ndarray):
    """Means as in the paper, the difference by whatever unit it is tested on, and the test in each head.

    tests: {"biased": counter.test(...), "regular": ...}; scores: [n_layers, n_heads], of heads.bias_scores.
    """
    figure, axes = plots.panels(3, width=3.45, height=3.5, gridspec_kw={"width_ratios": [.62, 1.15, 1.1]})
    means(axes[0], tests)
    differences(axes[1], tests)
    head_map(axes[2], by_head, scores)
    return figure


def means(ax, tests: dict[str, pd.DataFrame]):
    """Mean weight in the original and the counter sentences, in percent of the target's attention.

    Error bars share out the 95 % interval of the paired difference: two that do not touch differ at 5 %, two-sided.
    """
    for place, (kind, found) in enumerate(tests.items()):
        row = found.loc["sentence"]
        half = (row["high"] - row["low"]) / 4
        for shift, side, color in ((-.2, "original", ORIGINAL), (.2, "counter", COUNTER)):
            ax.bar(place + shift, 100 * row[side], .36, color=color, label=side if place == 0 else None,
                   yerr=100 * half, error_kw={"elinewidth": 1.2, "capsize": 3, "ecolor": GROUPS[kind]})
        top = 100 * (max(row["original"], row["counter"]) + half)
        ax.text(place, top * 1.02, f"t = {row['t']:.2f}\np = {row['p']:.2g}" if row["p"] >= .001 else
                f"t = {row['t']:.2f}\np < .001", ha="center", va="bottom", fontsize=8)
    ax.set_xticks(range(len(tests)), [f"{kind}\n{found.attrs['heads']} heads" for kind, found in tests.items()])
    ax.set(title=f"Attention, N = {int(found['n']['sentence'])}", ylabel="target on attribute, percent")
    ax.margins(y=.2)
    ax.grid(axis="x", visible=False)
    ax.legend(fontsize=8, loc="lower center", ncols=2, bbox_to_anchor=(.5, -.38), columnspacing=1)


def differences(ax, tests: dict[str, pd.DataFrame]):
    """Original - counter with its 95 % interval, by the unit that counts once."""
    units = list(next(iter(tests.values())).index)
    for shift, (kind, found) in zip((-.14, .14), tests.items()):
        value, low, high = (100 * found[column].to_numpy() for column in ("difference", "low", "high"))
        ax.errorbar(value, np.arange(len(units)) + shift, xerr=[value - low, high - value], fmt="o", markersize=4,
                    linewidth=1.4, color=GROUPS[kind], label=f"{kind} heads")
    n = next(iter(tests.values()))["n"]
    ax.set_yticks(range(len(units)), [f"{unit}  (n = {n[unit]})" for unit in units])
    ax.axvline(0, color=plots.NEITHER, linewidth=.9)
    ax.set(title="Original - counter, by unit", xlabel="percentage points of attention", ylim=(len(units) - .5, -.5))
    ax.grid(axis="y", visible=False)
    ax.legend(fontsize=8, loc="lower center", ncols=2, bbox_to_anchor=(.35, -.38), columnspacing=1)


def head_map(ax, by_head: pd.DataFrame, scores: np.ndarray):
    """t of every head; a ring where it is significant after correction, filled where Holm's is too."""
    table = by_head.pivot(index="layer", columns="head", values="t")
    bound = float(np.abs(table.to_numpy()).max())
    sns.heatmap(table, ax=ax, cmap=plots.DIVERGING, center=0, vmin=-bound, vmax=bound, linewidths=.4, linecolor="white",
                cbar_kws={"label": "t (original > counter)", "shrink": .85})
    for column, color in (("q", "none"), ("p_holm", "black")):
        passed = by_head[by_head[column] < .05]
        ax.scatter(passed["head"] - .5, passed["layer"] - .5, s=34, facecolors=color, edgecolors="black", linewidths=1)
    for layer, head in np.argwhere(scores > 0):
        ax.plot([head + .12, head + .88], [layer + .07] * 2, color="#444444", linewidth=1.1)
    q, p = (int((by_head[column] < .05).sum()) for column in ("q", "p_holm"))
    ax.set_title(f"By head: {q} pass FDR (ring),\n{p} Holm (dot)")
    ax.invert_yaxis()  # layer 1 below, as in Fig. 2
    ax.set(xlabel="head (underlined: biased)", ylabel="layer")
    ax.tick_params(rotation=0)


def finding(tests: dict[str, pd.DataFrame], model: str, bias: str) -> str:
    """The outcome in a sentence, by the paper's test at 5 %; where it finds something, also by the balanced one."""
    holds = {kind: found["p"]["sentence"] < .05 for kind, found in tests.items()}
    outcome = {(True, False): "biased heads look harder at the stereotyped pair, regular ones do not",
               (True, True): "biased and regular heads alike look harder at the stereotyped pair",
               (False, True): "regular heads look harder at the stereotyped pair, biased ones do not",
               (False, False): "no group of heads looks harder at the stereotyped pair"}
    said = f"{model}, {bias}: {outcome[holds['biased'], holds['regular']]}"
    if not any(holds.values()) or any("word pair" not in found.index for found in tests.values()):
        return said
    left = [kind for kind, found in tests.items() if found["p"]["word pair"] < .05]
    return f"{said}; balanced, {' and '.join(left) or 'none'} do"


def made_from(run, model: str, bias: str) -> str:
    """The figure's corner: which model, which sentences."""
    written = bias == "race" or run.data == "mini"
    return f"{model}; {'sentences of data/demo' if written else 'sentences of Reddit posts'}, seed {run.seed}"
