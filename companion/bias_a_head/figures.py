"""The figures of notebooks 00 to 03 that take more than a few lines to draw.

`distribution` and `heatmap` serve 02 and 06: Fig. 1, 6 and 7, and Fig. 2 and 5.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.collections import PatchCollection
from matplotlib.ticker import MaxNLocator

from companion import claims, look
from companion.bias_a_head import estimators
from lib.bias_a_head import heads
from lib.engine import stats

DARK = "#333333"  # of lines and frames
HATCHES = "#B5AEA6"


def distribution(ax, scores: np.ndarray, title: str, bins=24):
    """Fig. 1: a histogram of all scores with its density, one mark per head.

    Triangles mark the three highest; beyond the dashed line a head stands out.
    """
    values = scores.ravel()
    sns.histplot(
        x=values,
        bins=bins,
        kde=True,
        ax=ax,
        color=look.NEITHER,
        edgecolor="white",
        linewidth=0.4,
    )
    sns.rugplot(x=values, height=0.03, color=DARK, linewidth=0.6, ax=ax)
    look.mark(ax, color=DARK)
    look.mark(ax, estimators.upper_fence(scores), color=look.BAD, linestyle="--")
    highest = _three_highest(scores)
    at = []
    names = "highest"
    for layer, head in highest:
        at.append(scores[layer - 1, head - 1])
        names += f"\n{layer}-{head}"
    ax.plot(
        at,
        [0] * len(at),
        "v",
        color=look.BAD,
        markersize=6,
        clip_on=False,
        zorder=4,
    )
    ax.text(
        0.99,
        0.97,
        names,
        fontsize=8,
        color=look.BAD,
        ha="right",
        va="top",
        transform=ax.transAxes,
    )
    ax.locator_params(axis="x", nbins=5)
    ax.set(title=title, xlabel="bias score", ylabel="heads")
    ax.margins(x=0.08)


def head_map(ax, values: np.ndarray, label: str, low: float, high: float, colors, beside=()):
    """One cell per head, layer 1 at the bottom; layer and head are its coordinates, from 1.

    low, high   the values drawn in the first and in the last of the colours
    label       of the colour bar, which is drawn to the right of the axes `beside`
    """
    n_layers, n_heads = values.shape
    image = ax.imshow(
        values,
        cmap=colors,
        vmin=low,
        vmax=high,
        origin="lower",
        extent=(0.5, n_heads + 0.5, 0.5, n_layers + 0.5),
    )
    every_head = max(1, n_heads // 12)
    every_layer = max(1, n_layers // 12)
    ax.set_xticks(range(1, n_heads + 1, every_head))
    ax.set_yticks(range(1, n_layers + 1, every_layer))
    ax.set(xlabel="head", ylabel="layer")
    ax.tick_params(labelsize=7, length=2)
    ax.grid(visible=False)
    if len(beside):
        scale = ax.figure.colorbar(image, ax=beside, shrink=0.8, pad=0.02, label=label)
        scale.ax.tick_params(labelsize=7)


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

    darkest  the score drawn in the darkest red; give compared panels the same one
    hatched  (layer, head), from 1, of the heads whose interval includes 0
    framed   {(layer, head): colour of its frame}; left out, the three highest
    beside   the axes that share one colour bar, drawn to their right; empty: no bar
    """
    shown = scores.clip(min=0)
    head_map(ax, shown, "bias score", 0, max(darkest, 1e-9), look.HEAT, beside)
    if framed is None:
        framed = dict.fromkeys(_three_highest(scores), DARK)
    for (layer, head), color in framed.items():
        frame = _cell(layer, head, fill=False, edgecolor=color, linewidth=1.2)
        ax.add_patch(frame)
    cells = [_cell(layer, head) for layer, head in hatched]
    hatches = PatchCollection(
        cells,
        facecolor="none",
        edgecolor=HATCHES,
        hatch="///",
        linewidth=0,
    )
    ax.add_collection(hatches)
    ax.set_title(title)


def _three_highest(scores: np.ndarray) -> list[tuple[int, int]]:
    return heads.top(scores, min(3, scores.size))


def _cell(layer: int, head: int, **style) -> plt.Rectangle:
    """The square of a head in a heatmap."""
    corner = (head - 0.5, layer - 0.5)
    return plt.Rectangle(corner, 1, 1, **style)


def edges(ax, words: list[str], start: int, weights, color: str, at: int | None = None):
    """Fig. 3: from one word (left) a line to every word (right), as thick as it is attended.

    at   the word whose line and name stand out; None: all lines do
    """
    for i, (word, weight) in enumerate(zip(words, weights)):
        is_strong = at in (None, i)
        strength = 0.15 + 0.85 * weight if is_strong else 0.4
        ax.plot(
            [0, 1],
            [start, i],
            color=color,
            linewidth=0.4 + 5 * weight,
            alpha=float(strength),
        )
        name = ax.text(1.05, i, f"{word}  {weight:.2f}", va="center", fontsize=8)
        if i == at:
            name.set(color=color, fontweight="bold")
    ax.text(
        -0.05,
        start,
        words[start],
        fontsize=8,
        ha="right",
        va="center",
        fontweight="bold",
    )
    ax.set(xlim=(-0.85, 1.85), ylim=(len(words) - 0.5, -0.5))
    ax.axis("off")


# ---- 00: the first look
def jobs_without_a_head(
    changes: dict[int, np.ndarray], gaps: dict, share: np.ndarray, strongest: tuple[int, int]
):
    """What one head does to the odds of she, job by job; and the gap of all heads of its layer.

    changes     {head: change of each job's log2 odds without it}
    gaps        {head: mean change in jobs of mostly women less that in the others}
    share       of women in each job, in percent
    strongest   (layer, head)
    """
    layer, head = strongest
    figure, (points, heads_of_layer) = look.panels(2, width=4.1, height=3.2)
    colors = {"mostly women": look.FEMALE, "mostly men": look.MALE}
    kinds = np.where(share > 50, *colors)
    sns.stripplot(
        x=changes[head],
        y=kinds,
        hue=kinds,
        order=list(colors),
        ax=points,
        palette=colors,
        size=4,
        alpha=0.8,
        jitter=0.25,
        legend=False,
    )
    odds = "change of the log2 odds she : he"
    points.set(title=f"without head {layer}-{head}", xlabel=odds, ylabel="")
    look.dots(heads_of_layer, gaps.values(), list(gaps), color=look.PALE)
    look.dots(heads_of_layer, [gaps[head]], [head], color=look.BAD)
    gap = "gap: change, women's less men's jobs"
    heads_of_layer.set(title=f"the heads of layer {layer}", xlabel=gap, ylabel="head")
    heads_of_layer.set_yticks(list(gaps))
    heads_of_layer.locator_params(axis="x", nbins=5)
    for ax in (points, heads_of_layer):
        look.mark(ax)
    return figure


# ---- 01: models and data
def next_sentences(follows: pd.DataFrame):
    """The probability that a sentence follows its context, one row per context.

    follows   one row per pair: context, label (stereotype, anti_stereotype, unrelated), probability
    """
    kinds = {
        "stereotype": (look.BAD, 0.12, "o"),
        "anti_stereotype": (look.GOOD, -0.12, "o"),
        "unrelated": (DARK, 0, "X"),
    }
    contexts = list(dict.fromkeys(follows.context))
    figure, (ax,) = look.panels(1, width=7, height=3)
    for label, (color, lift, marker) in kinds.items():
        points = follows[follows.label == label]
        places = [contexts.index(context) - lift for context in points.context]
        ax.scatter(
            points.probability,
            places,
            label=label.replace("_", "-"),
            s=46,
            color=color,
            marker=marker,
            zorder=3,
        )
    look.rows(ax, contexts)
    look.mark(ax, 0.5)
    ax.set(xlabel="p(next sentence)", xlim=(-0.03, 1.03))
    look.legend_below(figure, ax, 3)
    return figure


# ---- 02: scores of heads
LETTERS = ["a", "b", "c"]  # of Fig. 1 and 2; race in the decoder is footnote 13


def _panel(number: int, i: int, of: tuple[str, str], texts: dict) -> str:
    """The title of a panel of Fig. 1 or 2."""
    name = f"{number}{LETTERS[i]}" if i < len(LETTERS) else "footnote 13"
    return f"{name}  {', '.join(of)}\n{texts[of]}"


def fig1(scores: dict, texts: dict):
    """Fig. 1a-c, and race in the decoder (footnote 13): `distribution` of each model and bias.

    scores   {(model, bias): scores of all heads}
    texts    {(model, bias): what its panel says of SEAT}
    """
    figure, axes = look.panels(4, width=3.3, height=3.1, sharex="row", sharey="row")
    for i, (ax, key) in enumerate(zip(axes, scores)):
        _, bias = key
        of_bias = [scores[other].ravel() for other in scores if other[1] == bias]
        of_bias = np.concatenate(of_bias)
        bins = np.histogram_bin_edges(of_bias, 40)  # the same for both models
        title = _panel(1, i, key, texts)
        distribution(ax, scores[key], title, bins)
    return figure


def fig2(scores: dict, texts: dict, hatched: dict):
    """Fig. 2a-c, and race in the decoder (footnote 13): `heatmap` of each model and bias.

    hatched   {(model, bias): (layer, head) of those whose interval includes 0}
    """
    figure, axes = look.panels(4, width=3.1, height=3.1)
    for i, (ax, key) in enumerate(zip(axes, scores)):
        # one scale for both models, drawn beside the second
        _, bias = key
        darkest = max(scores[other].max() for other in scores if other[1] == bias)
        beside = axes[i - 1 : i + 1] if i % 2 else ()
        title = _panel(2, i, key, texts)
        heatmap(ax, scores[key], title, darkest, hatched[key], beside=beside)
    return figure


def intervals(frames: dict, texts: dict):
    """Every head's score with its interval, by falling score: orange above 0, green below.

    frames   {(model, bias): estimators.intervals}
    """
    figure, axes = look.panels(4, width=3.3, height=3.1, sharey="row")
    for ax, ((name, bias), frame) in zip(axes, frames.items()):
        place = np.arange(1, len(frame) + 1)
        is_above = frame.low > 0
        is_below = frame.high < 0
        color = np.select([is_above, is_below], [look.BAD, look.GOOD], look.PALE)
        ax.vlines(place, frame.low, frame.high, color=color, linewidth=1.2)
        ax.scatter(place, frame.score, s=5, color=DARK, zorder=3, linewidth=0)
        look.mark(ax, upright=False, color=DARK, linestyle="-")
        including_zero = estimators.heads_including_zero(frame)
        share = len(including_zero) / len(frame)
        title = f"{name}, {bias}: {share:.0%} include 0\n{texts[name, bias]}"
        ax.set(title=title, xlabel="head, by its score", ylabel="bias score")
    return figure


def ablation(ablations: dict, texts: dict):
    """What the gradient predicts for each head against what switching it off does to |SEAT|.

    The two strongest heads are named.

    ablations   {model: heads.measure_ablation}
    texts       {model: what its panel says}
    """
    ends = {}
    for key in ("gradient", "ablation"):
        every = np.concatenate([result[key] for result in ablations.values()])
        ends[key] = (1.15 * every.min(), 1.15 * every.max())
    figure, axes = look.panels(2, width=4.2, height=4.1)
    for ax, (name, result) in zip(axes, ablations.items()):
        ax.set(
            title=texts[name],
            xlim=ends["gradient"],
            ylim=ends["ablation"],
            xlabel="bias score (gradient)",
            ylabel="fall of |SEAT| when switched off",
        )
        falls = result["ablation"]
        names = {}
        for i in np.argsort(-np.abs(falls))[:2]:
            layer, head = result["heads"][i]
            names[i] = f"{layer}-{head}"
        two_numbers(ax, result["gradient"], falls, names)
    return figure


def two_numbers(ax, x: np.ndarray, y: np.ndarray, names: dict[int, str]):
    """One point per head, orange where its two numbers differ in sign; dotted: they are equal."""
    ax.axline((0, 0), slope=1, color=look.NEITHER, linewidth=0.8, linestyle=":")
    for upright in (True, False):
        look.mark(ax, upright=upright, linestyle="-", linewidth=0.5)
    is_same_sign = (x > 0) == (y > 0)
    ax.scatter(
        x,
        y,
        s=16,
        c=np.where(is_same_sign, DARK, look.BAD),
        alpha=0.8,
        edgecolor="white",
        linewidth=0.4,
    )
    ax.locator_params(nbins=6)
    look.name_points(ax, x, y, names)


def small_set(results: dict, ablations: dict, texts: dict, shares: np.ndarray):
    """The share of the score of all biased heads that the highest carry, over how many these are.

    results     {(model, bias): heads.measure}
    ablations   {model: heads.measure_ablation}, on gender
    shares      of all heads
    """
    most = claims.claims()["heads-small-set"].threshold
    percent = 100 * shares
    figure, axes = look.panels(4, width=3.3, height=3.1, sharey=True)
    for ax, (key, result) in zip(axes, results.items()):
        name, bias = key
        carried = []
        chance = []
        for share in shares:
            of_highest, of_random = estimators.share_carried(result, share)
            carried.append(of_highest)
            chance.append(of_random)
        look.band(ax, percent, carried, look.BAD, label="gradient, other half")
        ax.plot(percent, chance, ":", color=DARK, label="random biased heads")
        if bias == "gender":
            removed = []
            for share in shares:
                found = estimators.share_carried_by_ablation(ablations[name], share, 50)
                removed.append(found.value)
            ax.plot(percent, removed, "--", color=look.SKY, label="removed one by one")
        look.mark(ax, 100 * estimators.SMALL, linestyle="-")
        look.mark(ax, most, upright=False, linestyle="-")
        ax.set(
            title=f"{name}, {bias}\n{texts[key]}",
            ylim=(0, 1.25),
            xlabel="highest heads, percent of all",
            ylabel="share carried",
        )
    axes[0].legend(fontsize=7, loc="lower right")
    return figure


PATCHES = {
    "zero": "switched off",
    "mean": "its mean output instead",
    "swapped": "its output for the other gender",
}


def patching(agreements: dict[str, dict[str, dict]]):
    """How well the gradient ranks heads as each kind of patch does: rank correlations.

    agreements   {model: {kind of patch: estimators.agreement}}
    """
    styles = (
        (estimators.SAME, look.BAD, "o", -0.2),
        (estimators.OTHER, look.PALE, "o", 0),
        (estimators.ITSELF, DARK, "|", 0.2),
    )
    figure, axes = look.panels(len(agreements), height=2.9, sharey=True)
    for ax, (model, kinds) in zip(axes, agreements.items()):
        for name, color, marker, shift in styles:
            ranks = [found[name] for found in kinds.values()]
            places = np.arange(len(ranks)) + shift
            look.dots(ax, ranks, places, label=name, color=color, fmt=marker)
        look.rows(ax, [PATCHES[kind] for kind in kinds])
        look.mark(ax)
        ax.set(title=model, xlabel="rank correlation over heads", xlim=(-0.25, 1.05))
    look.legend_below(figure, axes[0], 3)
    return figure


# ---- 03: the counter-stereotype test
KINDS = {"biased": look.BAD, "regular": look.GOOD}  # of heads
# how they are called where SEAT is not significant: then no head can be called biased
UNNAMED = {"biased": "positive", "regular": "negative"}
SENTENCES = ["original", "counter"]


def fig4(one: estimators.Experiment):
    """Fig. 4 of one study: means, differences by unit, and t by head."""
    is_biased = one.scored["p"] < estimators.CHANCE
    names = dict(zip(KINDS, KINDS)) if is_biased else UNNAMED
    ratios = {"width_ratios": [0.35, 0.35, 1.1, 1.1]}
    figure, axes = look.panels(4, width=2.6, height=3.5, gridspec_kw=ratios)
    contrast = one.shifts.get(("raw", "contrast"))
    _means(axes[:2], one.tests, names)
    _differences(axes[2], one.tests, contrast, names)
    _by_head(axes[3], one.by_head, one.scored["scores"], names["biased"])
    axes[0].set_title(f"{estimators.seat_text(one.scored)}\nN = {len(one.pairs)}")
    look.legend_below(figure, axes[2], 2)
    return figure


def _means(axes, tests: dict, names: dict[str, str]):
    """Mean weight in original and counter sentences, in percent of the target's attention.

    There is a panel for each kind of heads. All axes have one length, but are cut where their
    values are.
    """
    columns = [*SENTENCES, "difference", "low", "high"]
    rows = {}
    reaches = []
    for kind, tested in tests.items():
        row = 100 * tested.loc["sentence", columns]
        half = (row["high"] - row["low"]) / 2
        reaches.append(abs(row["difference"]) + half)
        rows[kind] = row
    reach = max(reaches)
    for ax, (kind, row) in zip(axes, rows.items()):
        quarter = (row["high"] - row["low"]) / 4
        means = [(mean, mean - quarter, mean + quarter) for mean in row[SENTENCES]]
        look.dots(ax, means, [0, 1], upright=True, fmt="o-", color=KINDS[kind])
        _said_of_test(ax, names[kind], tests[kind])
        middle = row[SENTENCES].mean()
        ax.set(xlim=(-0.5, 1.5), ylim=(middle - reach, middle + reach))
        ax.set_xticks([0, 1], ["original", "\ncounter"])
        ax.yaxis.set_major_locator(MaxNLocator(4))
        ax.grid(axis="x", visible=False)
    for ax in axes[len(rows) :]:  # all heads are of one kind
        ax.axis("off")
    axes[0].set_ylabel("target on attribute, percent")


def _said_of_test(ax, name: str, tested: pd.DataFrame):
    """t and p above, the name and number of heads below, and a mark that the axis is cut."""
    row = tested.loc["sentence"]
    p = "p < .001"
    if row["p"] >= 0.001:
        p = f"p = {row['p']:.2g}"
    found = f"t = {row['t']:.2f}\n{p}"
    heads_of_kind = f"{name}\n{tested.attrs['heads']} heads"
    place = {"ha": "center", "fontsize": 8.5, "transform": ax.transAxes}
    ax.text(0.57, 0.98, found, va="top", **place)
    ax.text(0.57, 0.04, heads_of_kind, va="bottom", **place)
    ax.plot(
        0,
        0.04,
        marker=[(-1, -0.5), (1, 0.5)],
        markersize=9,
        color="black",
        clip_on=False,
        transform=ax.transAxes,
    )


def _differences(ax, tests: dict, contrast: stats.Estimate | None, names: dict[str, str]):
    """Original - counter with its 95 % interval, by the unit that counts once."""
    for shift, (kind, tested) in zip((-0.14, 0.14), tests.items()):
        shifts = 100 * tested[["difference", "low", "high"]].to_numpy()
        places = np.arange(len(tested)) + shift
        look.dots(ax, shifts, places, color=KINDS[kind], label=names[kind])
    labels = [f"{unit}  (n = {n})" for unit, n in tested["n"].items()]
    if contrast:
        look.dots(ax, [contrast], [len(labels)], fmt="s", color="black")
        labels.append(" - ".join(names.values()))
    look.rows(ax, labels)
    look.mark(ax)
    ax.set(title="Original - counter, by unit", xlabel="percentage points of attention")


def _by_head(ax, by_head: pd.DataFrame, scores: np.ndarray, positive: str):
    """t of every head; a ring where it is above 0 after correction; heads of positive score are
    underlined.

    positive   how these are called
    """
    t = by_head["t"].to_numpy().reshape(scores.shape)
    reach = float(np.abs(t).max())
    head_map(ax, t, "t (original > counter)", -reach, reach, look.DIVERGING, [ax])
    passed = by_head[by_head["q"] < 0.05]
    ax.scatter(
        passed["head"],
        passed["layer"],
        s=34,
        facecolors="none",
        edgecolors="black",
        linewidths=1,
    )
    layers, places = 1 + np.argwhere(scores > 0).T
    ax.hlines(
        layers - 0.43,
        places - 0.38,
        places + 0.38,
        color="#444444",
        linewidth=1.1,
    )
    ax.set_title(f"By head: {len(passed)} above 0 (ring)")
    ax.set_xlabel(f"head (underlined: {positive})")
