"""The figures of notebooks 00 to 03 that take more than a few lines to draw.

The first two are shared by 02 and 06: Fig. 1, 6 and 7, and Fig. 2 and 5.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.collections import PatchCollection
from matplotlib.ticker import MaxNLocator

from companion import claims, look
from companion.bias_a_head import patched, tables
from companion.bias_a_head.experiment import Experiment
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
        color=look.NEITHER,
        edgecolor="white",
        linewidth=0.4,
        ax=ax,
    )
    sns.rugplot(x=values, height=0.03, color=DARK, linewidth=0.6, ax=ax)
    ax.axvline(0, color=DARK, linewidth=0.8, linestyle=":")
    ax.axvline(tables.upper_fence(scores), color=look.BAD, linewidth=0.9, linestyle="--")
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

    darkest  the score drawn in the darkest red; give compared panels the same one
    hatched  (layer, head), from 1, of the heads whose interval includes 0
    framed   {(layer, head): colour of its frame}; left out, the three highest
    beside   the axes that share one colour bar, drawn to their right; empty: no bar
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
    frames = dict.fromkeys(_three_highest(scores), DARK) if framed is None else framed
    for (layer, head), color in frames.items():
        ax.add_patch(_cell(layer, head, fill=False, edgecolor=color, linewidth=1.2))
    cells = [_cell(layer, head) for layer, head in hatched]
    ax.add_collection(
        PatchCollection(cells, facecolor="none", edgecolor=HATCHES, hatch="///", linewidth=0)
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


def _legend_below(figure, ax, columns: int):
    """One legend for all panels, that of `ax`, under them."""
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(handles, labels, fontsize=7.5, loc="outside lower left", ncols=columns)


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
    kinds = np.where(share > 50, "mostly women", "mostly men")
    sns.stripplot(
        x=changes[head],
        y=kinds,
        hue=kinds,
        legend=False,
        size=4,
        alpha=0.8,
        jitter=0.25,
        ax=points,
        palette={"mostly women": look.FEMALE, "mostly men": look.MALE},
        order=["mostly women", "mostly men"],
    )
    points.set(
        title=f"without head {layer}-{head}", xlabel="change of the log2 odds she : he", ylabel=""
    )
    values, low, high = np.array([tuple(gap) for gap in gaps.values()]).T
    colors = [look.BAD if other == head else look.PALE for other in gaps]
    places = list(gaps)
    heads_of_layer.errorbar(
        values, places, xerr=look.arms(values, low, high), fmt="none", ecolor=colors
    )
    heads_of_layer.scatter(values, places, c=colors, zorder=3)
    heads_of_layer.set(
        title=f"the heads of layer {layer}",
        xlabel="gap: change, women's less men's jobs",
        ylabel="head",
    )
    heads_of_layer.set_yticks(places)
    heads_of_layer.locator_params(axis="x", nbins=5)
    for ax in (points, heads_of_layer):
        ax.axvline(0, color=look.NEITHER, linewidth=0.8, linestyle=":")
    return figure


def attention_of_blank(ax, tokens: list[str], blank: int, weights: np.ndarray, title: str):
    """Lines from the blank to every token, the thicker the more it is looked at."""
    places = -np.arange(len(tokens))
    for place, token, weight in zip(places, tokens, weights):
        ax.plot(
            [0, 1],
            [places[blank], place],
            color=look.BAD,
            linewidth=0.4 + 7 * weight,
            alpha=0.15 + 0.85 * weight,
        )
        ax.text(1.04, place, f"{token}  {weight:.2f}", va="center", fontsize=8)
    ax.text(
        -0.04,
        places[blank],
        tokens[blank],
        va="center",
        ha="right",
        fontsize=8,
        fontweight="bold",
    )
    ax.set(title=title, xlim=(-0.5, 1.7), ylim=(places[-1] - 0.6, 0.6))
    ax.axis("off")


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
    for label, (color, shift, marker) in kinds.items():
        points = follows[follows.label == label]
        ax.scatter(
            points.probability,
            [shift - contexts.index(context) for context in points.context],
            s=46,
            color=color,
            label=label.replace("_", "-"),
            marker=marker,
            zorder=3,
        )
    ax.set_yticks([-i for i in range(len(contexts))], contexts)
    ax.set(xlabel="p(next sentence)", xlim=(-0.03, 1.03), ylim=(0.6 - len(contexts), 0.6))
    ax.axvline(0.5, color=look.NEITHER, linewidth=0.8, linestyle=":")
    ax.legend(loc="upper center", bbox_to_anchor=(0.35, -0.22), ncols=3, handletextpad=0.2)
    return figure


# ---- 02: scores of heads
def fig1(scores: dict, texts: dict):
    """Fig. 1a-c, and race in the decoder (footnote 13): `distribution` of each model and bias.

    scores   {(model, bias): scores of all heads}
    texts    {(model, bias): what its panel says of SEAT}
    """
    letters = ["1a", "1b", "1c", "footnote 13"]
    figure, axes = look.panels(4, width=3.3, height=3.1, sharex="row", sharey="row")
    for ax, letter, (name, bias) in zip(axes, letters, scores):
        of_bias = [scores[key].ravel() for key in scores if key[1] == bias]
        bins = np.histogram_bin_edges(np.concatenate(of_bias), 40)  # the same for both models
        title = f"{letter}  {name}, {bias}\n{texts[name, bias]}"
        distribution(ax, scores[name, bias], title, bins)
    return figure


def fig2(scores: dict, texts: dict, hatched: dict):
    """Fig. 2a-c, and race in the decoder (footnote 13): `heatmap` of each model and bias.

    hatched   {(model, bias): (layer, head) of those whose interval includes 0}
    """
    letters = ["2a", "2b", "2c", "footnote 13"]
    figure, axes = look.panels(4, width=3.1, height=3.1)
    for i, (letter, (name, bias)) in enumerate(zip(letters, scores)):
        # one scale for both models, drawn beside the second
        darkest = max(scores[key].max() for key in scores if key[1] == bias)
        beside = axes[i - 1 : i + 1] if i % 2 else ()
        title = f"{letter}  {name}, {bias}\n{texts[name, bias]}"
        key = name, bias
        heatmap(axes[i], scores[key], title, darkest, hatched[key], beside=beside)
    return figure


def intervals(frames: dict, texts: dict):
    """Every head's score with its interval, by falling score: orange above 0, green below.

    frames   {(model, bias): tables.intervals}
    """
    figure, axes = look.panels(4, width=3.3, height=3.1, sharey="row")
    for ax, ((name, bias), frame) in zip(axes, frames.items()):
        place = np.arange(1, len(frame) + 1)
        color = np.select([frame.low > 0, frame.high < 0], [look.BAD, look.GOOD], look.PALE)
        ax.vlines(place, frame.low, frame.high, color=color, linewidth=1.2)
        ax.scatter(place, frame.score, s=5, color=DARK, zorder=3, linewidth=0)
        ax.axhline(0, color=DARK, linewidth=0.8)
        share = (~((frame.low > 0) | (frame.high < 0))).mean()
        ax.set(
            title=f"{name}, {bias}: {share:.0%} include 0\n{texts[name, bias]}",
            xlabel="head, by its score",
            ylabel="bias score",
        )
    return figure


def ablation(ablations: dict, texts: dict):
    """What the gradient predicts for each head against what switching it off does to |SEAT|.

    Orange: the two have different signs. The two strongest heads are named.
    ablations   {model: heads.measure_ablation}
    texts       {model: what its panel says}
    """
    predicted = np.concatenate([result["gradient"] for result in ablations.values()])
    real = np.concatenate([result["ablation"] for result in ablations.values()])
    figure, axes = look.panels(2, width=4.2, height=4.1)
    for ax, (name, result) in zip(axes, ablations.items()):
        x = result["gradient"]
        y = result["ablation"]
        reach = 1.1 * max(np.abs(x).max(), np.abs(y).max())
        ax.plot([-reach, reach], [-reach, reach], color=look.NEITHER, linewidth=0.8, linestyle=":")
        ax.axhline(0, color=look.NEITHER, linewidth=0.5)
        ax.axvline(0, color=look.NEITHER, linewidth=0.5)
        colors = np.where((x > 0) == (y > 0), DARK, look.BAD)
        ax.scatter(x, y, s=16, c=colors, alpha=0.8, edgecolor="white", linewidth=0.4)
        ax.set(
            title=texts[name],
            xlabel="bias score (gradient)",
            ylabel="fall of |SEAT| when switched off",
            xlim=1.15 * np.array([predicted.min(), predicted.max()]),
            ylim=1.15 * np.array([real.min(), real.max()]),
        )
        ax.locator_params(nbins=6)
        strongest = np.argsort(-np.abs(y))[:2]
        names = {i: "{}-{}".format(*result["heads"][i]) for i in strongest}
        look.name_points(ax, x, y, names)
    return figure


def small_set(results: dict, ablations: dict, texts: dict, shares: np.ndarray):
    """The share of the score of all biased heads that the highest carry, over how many these are.

    results     {(model, bias): heads.measure}
    ablations   {model: heads.measure_ablation}, on gender
    shares      of all heads
    """
    most = claims.claims()["heads-small-set"].threshold
    figure, axes = look.panels(4, width=3.3, height=3.1, sharey=True)
    for ax, (key, result) in zip(axes, results.items()):
        carried = [tables.share_carried(result, share) for share in shares]
        value, low, high = np.transpose([list(estimate) for estimate, _ in carried])
        chance = [random for _, random in carried]
        percent = 100 * shares
        ax.fill_between(percent, low, high, color=look.BAD, alpha=0.2, linewidth=0)
        ax.plot(percent, value, "o-", markersize=3, color=look.BAD, label="gradient, other half")
        ax.plot(percent, chance, ":", color=DARK, label="random biased heads")
        name, bias = key
        if bias == "gender":
            removed = []
            for share in shares:
                found = tables.share_carried_by_ablation(ablations[name], share, 50)
                removed.append(found.value)
            ax.plot(percent, removed, "--", color=look.SKY, label="removed one by one")
        ax.axvline(100 * tables.SMALL, color=look.NEITHER, linewidth=0.8)
        ax.axhline(most, color=look.NEITHER, linewidth=0.8)
        ax.set(
            title=f"{name}, {bias}\n{texts[key]}",
            xlabel="highest heads, percent of all",
            ylabel="share carried",
            ylim=(0, 1.25),
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

    agreements   {model: {kind of patch: patched.agreement}}
    """
    styles = {
        patched.SAME: {"color": look.BAD, "marker": "o"},
        patched.OTHER: {"color": look.PALE, "marker": "o"},
        patched.ITSELF: {"color": DARK, "marker": "|"},
    }
    figure, axes = look.panels(len(agreements), height=2.9, sharey=True)
    for ax, (model, kinds) in zip(axes, agreements.items()):
        for y, found in enumerate(kinds.values()):
            for shift, (name, style) in zip((-0.2, 0, 0.2), styles.items()):
                rank = found[name]
                ax.errorbar(
                    rank.value,
                    y + shift,
                    xerr=look.arms(*rank),
                    linestyle="none",
                    label=name if y == 0 else None,
                    **style,
                )
        ax.set(title=model, xlabel="rank correlation over heads", xlim=(-0.25, 1.05))
        ax.axvline(0, color=look.NEITHER, linewidth=0.8, linestyle=":")
        ax.set_yticks(range(len(kinds)), [PATCHES[kind] for kind in kinds])
    axes[0].invert_yaxis()
    _legend_below(figure, axes[0], 3)
    return figure


# ---- 03: the counter-stereotype test
KINDS = {"biased": look.BAD, "regular": look.GOOD}  # of heads
NAMED = {"biased": "biased", "regular": "regular"}
# how they are called where SEAT is not significant: then no head can be called biased
UNNAMED = {"biased": "positive", "regular": "negative"}
SENTENCES = ["original", "counter"]


def edges(ax, words: list[str], target: str, place: int, weights: list[float], color: str):
    """Fig. 3: from the target (left) an edge to each word (right), as thick as it is attended.

    place   where the attribute stands among the words; its edge and its name stand out
    """
    start = [word.lower() for word in words].index(target)
    for i, (word, weight) in enumerate(zip(words, weights)):
        is_attribute = i == place
        ax.plot(
            [0, 1],
            [start, i],
            color=color,
            linewidth=5 * weight,
            alpha=1 if is_attribute else 0.45,
            solid_capstyle="round",
            zorder=3 if is_attribute else 2,
        )
        _word(ax, -0.06, i, word, color if i == start else "#999999", i == start, "right")
        _word(ax, 1.06, i, word, color if is_attribute else "black", is_attribute, "left")
    said = f"{target} on {words[place].lower()}: "
    ax.text(0.5, -1.05, said, ha="center", va="bottom", fontsize=8)
    number = f"{weights[place]:.2f}"
    ax.text(0.5, -1.0, number, ha="center", va="top", fontsize=10, fontweight="bold", color=color)
    ax.set(xlim=(-0.85, 1.85), ylim=(len(words) - 0.5, -1.9))
    ax.axis("off")


def _word(ax, x: float, y: float, word: str, color: str, is_bold: bool, side: str):
    weight = "bold" if is_bold else "normal"
    ax.text(x, y, word, ha=side, va="center", fontsize=8, color=color, fontweight=weight)


def fig4(one: Experiment):
    """Fig. 4 of one study: means, differences by unit, and t by head."""
    is_biased = one.scored["p"] < tables.CHANCE
    names = NAMED if is_biased else UNNAMED
    ratios = {"width_ratios": [0.35, 0.35, 1.1, 1.1]}
    figure, axes = look.panels(4, width=2.6, height=3.5, gridspec_kw=ratios)
    _means(axes[:2], one.tests, names)
    _differences(axes[2], one.tests, one.contrast, names)
    _head_map(axes[3], one.by_head, one.scored["scores"], names["biased"])
    axes[0].set_title(f"{tables.seat_text(one.scored)}\nN = {len(one.pairs)}")
    _legend_below(figure, axes[2], 2)
    return figure


def _means(axes, tests: dict, names: dict[str, str]):
    """Mean weight in original and counter sentences, in percent of the target's attention.

    There is a panel for each kind of heads. All axes have one length, but are cut where their
    values are.
    """
    rows = {}
    spans = []
    for kind, tested in tests.items():
        row = 100 * tested.loc["sentence", [*SENTENCES, "low", "high"]]
        rows[kind] = row
        spans.append(abs(row["original"] - row["counter"]) + (row["high"] - row["low"]) / 2)
    length = 2 * max(spans)
    for ax, (kind, row) in zip(axes, rows.items()):
        ax.errorbar(
            [0, 1],
            row[SENTENCES],
            yerr=(row["high"] - row["low"]) / 4,
            color=KINDS[kind],
            fmt="o-",
            linewidth=0.9,
            elinewidth=2,
            markersize=5,
        )
        _said_of_test(ax, names[kind], tests[kind])
        middle = row[SENTENCES].mean()
        ax.set(xlim=(-0.5, 1.5), ylim=(middle - length / 2, middle + length / 2))
        ax.set_xticks([0, 1], ["original", "\ncounter"])
        ax.yaxis.set_major_locator(MaxNLocator(4))
        ax.grid(axis="x", visible=False)
    for ax in axes[len(rows) :]:  # all heads are of one kind
        ax.axis("off")
    axes[0].set_ylabel("target on attribute, percent")


def _said_of_test(ax, name: str, tested: pd.DataFrame):
    """t and p above, the name and number of heads below, and a mark that the axis is cut."""
    row = tested.loc["sentence"]
    p = f"p = {row['p']:.2g}" if row["p"] >= 0.001 else "p < .001"
    place = {"ha": "center", "fontsize": 8.5, "transform": ax.transAxes}
    ax.text(0.57, 0.98, f"t = {row['t']:.2f}\n{p}", va="top", **place)
    ax.text(0.57, 0.04, f"{name}\n{tested.attrs['heads']} heads", va="bottom", **place)
    cut = [(-1, -0.5), (1, 0.5)]
    ax.plot(0, 0.04, marker=cut, markersize=9, color="black", clip_on=False, transform=ax.transAxes)


def _differences(ax, tests: dict, contrast: stats.Estimate | None, names: dict[str, str]):
    """Original - counter with its 95 % interval, by the unit that counts once."""
    for shift, (kind, tested) in zip((-0.14, 0.14), tests.items()):
        value = 100 * tested["difference"].to_numpy()
        low = 100 * tested["low"].to_numpy()
        high = 100 * tested["high"].to_numpy()
        ax.errorbar(
            value,
            np.arange(len(tested)) + shift,
            xerr=look.arms(value, low, high),
            fmt="o",
            markersize=4,
            linewidth=1.4,
            color=KINDS[kind],
            label=names[kind],
        )
    labels = [f"{unit}  (n = {n})" for unit, n in tested["n"].items()]
    if contrast:
        reach = look.arms(*contrast)
        ax.errorbar(contrast.value, len(labels), xerr=reach, fmt="s", markersize=4, color="black")
        labels.append(" - ".join(names.values()))
    ax.set_yticks(range(len(labels)), labels)
    ax.axvline(0, color=look.NEITHER, linewidth=0.9)
    ax.set(
        title="Original - counter, by unit",
        xlabel="percentage points of attention",
        ylim=(len(labels) - 0.5, -0.5),
    )
    ax.grid(axis="y", visible=False)


def _head_map(ax, by_head: pd.DataFrame, scores: np.ndarray, positive: str):
    """t of every head; a ring where it is above 0 after correction; heads of positive score are
    underlined.

    positive   how these are called
    """
    table = by_head.pivot(index="layer", columns="head", values="t")
    bound = float(np.abs(table.to_numpy()).max())
    sns.heatmap(
        table,
        ax=ax,
        cmap=look.DIVERGING,
        center=0,
        vmin=-bound,
        vmax=bound,
        linewidths=0.4,
        linecolor="white",
        cbar_kws={"label": "t (original > counter)", "shrink": 0.85},
    )
    passed = by_head[by_head["q"] < 0.05]
    ax.scatter(
        passed["head"] - 0.5,
        passed["layer"] - 0.5,
        s=34,
        facecolors="none",
        edgecolors="black",
        linewidths=1,
    )
    for layer, head in np.argwhere(scores > 0):
        ax.plot([head + 0.12, head + 0.88], [layer + 0.07] * 2, color="#444444", linewidth=1.1)
    ax.set_title(f"By head: {len(passed)} above 0 (ring)")
    ax.invert_yaxis()  # layer 1 below, as in Fig. 2
    ax.set(xlabel=f"head (underlined: {positive})", ylabel="layer")
    ax.tick_params(rotation=0, labelsize=8.5)
