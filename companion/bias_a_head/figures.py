"""The figures of notebooks 00 to 06 that take more than a few lines to draw.

The first two are shared by 02 and 06: Fig. 1, 6 and 7, and Fig. 2 and 5.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.collections import PatchCollection
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from companion import claims, look
from companion.bias_a_head import patched, tables
from companion.bias_a_head.experiment import Experiment
from lib.bias_a_head import heads, lpbs, masking
from lib.engine import stats
from training import glue

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


# ---- 04: masking
STRATEGIES = {"random": look.PALE, "bottom": look.GOOD, "top": look.BAD}


def log_ticks(axis):
    """Make an axis logarithmic, with plain numbers, and enough of them for what it spans."""
    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    low, high = axis.get_view_interval()
    if high / low > 20:
        steps = (1,)
    elif high / low > 4:
        steps = (1, 2, 5)
    else:
        steps = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8)
    axis.set_major_locator(LogLocator(subs=steps))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.set_minor_formatter(NullFormatter())


def _legend_below(figure, ax, columns: int):
    """One legend for all panels, that of `ax`, under them."""
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(handles, labels, fontsize=7.5, loc="outside lower left", ncols=columns)


def table1_plane(masks: pd.DataFrame, full: pd.Series, sizes: tuple[int, int, int]):
    """Table 1 on a plane: |SEAT| against PPPL, one point per choice of heads."""
    three, _, dose = sizes
    titles = (f"{three} heads masked", f"{dose} heads masked, the paper's share")
    figure, axes = look.panels(2, height=3.8, sharey=True)
    for ax, size, title in zip(axes, (three, dose), titles):
        for strategy, color in STRATEGIES.items():
            rows = masks[(masks["strategy"] == strategy) & (masks["k"] == size)]
            ax.scatter(
                rows["pppl_sample"],
                rows["seat"],
                color=color,
                s=46,
                edgecolor="white",
                zorder=3,
                label=f"{strategy} heads masked",
            )
        ax.scatter(
            full["pppl_sample"],
            full["seat"],
            color="black",
            marker="*",
            s=130,
            zorder=4,
            label="full model",
        )
        ax.axhline(full["seat"], color="black", linewidth=0.8, linestyle=":")
        ax.set(
            title=title,
            xlabel="PPPL, log scale: right is worse",
            ylabel="|SEAT|: lower is less biased",
        )
        log_ticks(ax.xaxis)
        ax.margins(0.12)
    _legend_below(figure, axes[0], 4)
    return figure


def factual(moved: dict[str, stats.Estimate], n_heads: dict[str, int], start: float):
    """The change of the share of right pronouns of factual gender, one row per mask of Table 1.

    start   the share in the full model; a grey line is where half of the pronouns are right
    """
    figure, (ax,) = look.panels(1, width=6.5, height=3)
    for y, (name, change) in enumerate(moved.items()):
        if name.startswith("Random"):
            color = STRATEGIES["random"]
        elif name.startswith("Bottom"):
            color = STRATEGIES["bottom"]
        else:
            color = STRATEGIES["top"]
        ax.plot([change.low, change.high], [y, y], color=color, linewidth=2)
        ax.plot(change.value, y, "o", color=color)
    for strategy, color in STRATEGIES.items():
        ax.plot([], [], "o", color=color, label=f"{strategy} heads masked")
    ax.legend(fontsize=7.5, loc="upper center", bbox_to_anchor=(0.4, -0.28), ncols=3)
    ax.axvline(0, color="black", linewidth=0.8, linestyle=":")
    ax.axvline(0.5 - start, color=look.NEITHER, linewidth=0.8)
    ax.set_yticks(range(len(moved)), [f"{name}: {n_heads[name]} heads" for name in moved])
    ax.set(ylim=(len(moved) - 0.5, -0.5), xlabel="change of the share of right pronouns")
    return figure


def table3_curves(curve: pd.DataFrame, nearest: pd.Series, theirs: pd.DataFrame):
    """Table 3 as curves: LPBS of each test over the number of top heads masked.

    nearest   for each test, the K at which LPBS is nearest to 0
    theirs    the paper's values: one row per K, one column per test
    """
    figure, axes = look.panels(3, width=3.4, height=3.5, sharey=True)
    last = curve["k"].max()
    for ax, test in zip(axes, lpbs.TESTS):
        rows = curve[curve["test"] == test]
        ax.fill_between(
            rows["k"], rows["low"], rows["high"], color=look.BAD, alpha=0.15, linewidth=0
        )
        ax.plot(
            rows["k"],
            rows["corrected"],
            color=look.BAD,
            marker="o",
            markersize=3.5,
            label="corrected prior",
        )
        ax.plot(
            rows["k"],
            rows["published"],
            color=look.NEITHER,
            linestyle="--",
            label="published notebook's prior",
        )
        ax.plot(
            theirs.index.astype(int),
            theirs[test],
            "x",
            color="black",
            markersize=5,
            label="paper, BERT-base (last: 45 heads)",
        )
        ax.axhline(0, color="black", linewidth=0.8, linestyle=":")
        ax.set(
            title=f"{test}\nnearest to 0 at K = {nearest[test]}",
            xlabel=f"top heads masked (all: {last})",
        )
    axes[0].set_ylabel("LPBS effect size")
    _legend_below(figure, axes[1], 3)
    return figure


def curves(masks: pd.DataFrame):
    """|SEAT| and PPPL over the number of heads masked: top, bottom, random (small dots: draws)."""
    figure, axes = look.panels(2)
    for strategy, color in STRATEGIES.items():
        rows = masks[masks["strategy"].isin(["full", strategy])]
        for ax, column in zip(axes, ("seat", "pppl_sample")):
            mean = rows.groupby("k")[column].mean()
            label = f"{strategy} heads masked"
            ax.plot(mean.index, mean, color=color, marker="o", markersize=4, label=label)
            if strategy == "random":
                drawn = rows[rows["strategy"] == strategy]
                ax.scatter(drawn["k"], drawn[column], color=color, s=10, alpha=0.5)
    axes[0].set(title="Bias", xlabel="heads masked", ylabel="|SEAT|", ylim=(0, None))
    axes[1].set(title="Language", xlabel="heads masked", ylabel="PPPL, log scale")
    log_ticks(axes[1].yaxis)
    _legend_below(figure, axes[0], 3)
    return figure


def amplified(by_factor: dict, random: tuple, masked: tuple, full: pd.Series, three: int):
    """|SEAT| and PPPL with the lowest heads masked and amplified, beside the top heads masked.

    by_factor   {factor: |SEAT| and PPPL, as estimates}, of the bottom heads
    random      the same of random heads at the factor masking.LOUDER
    masked      the same of the top heads, masked
    """
    figure, axes = look.panels(2)
    for factor, found in by_factor.items():
        label = f"bottom {three} heads × factor" if factor == 0 else None
        _points(axes, factor, found, color=STRATEGIES["bottom"], label=label)
    label = f"random {three} heads × factor"
    _points(axes, masking.LOUDER + 0.08, random, color=look.NEITHER, label=label)
    for ax, start, top in zip(axes, (full["seat"], full["pppl_sample"]), masked):
        ax.axhline(start, color="black", linewidth=0.8, linestyle=":")
        ax.plot(1, start, "o", color="black", label="full model")
        ax.axhline(
            top.value,
            color=STRATEGIES["top"],
            linewidth=1,
            linestyle="--",
            label=f"top {three} masked",
        )
        ax.axhspan(top.low, top.high, color=STRATEGIES["top"], alpha=0.12, linewidth=0)
        factors = [0, 1, *(factor for factor in by_factor if factor)]
        ax.set(xlabel="factor on the heads: 0 masked, 1 full", xticks=factors, xlim=(-0.25, None))
    axes[0].set(title="Bias", ylabel="|SEAT|")
    axes[1].set(title="Language", ylabel="PPPL")
    _legend_below(figure, axes[0], 4)
    return figure


def _points(axes, x: float, estimates: tuple, **style):
    """One point with its interval in each panel."""
    for ax, at in zip(axes, estimates):
        ax.errorbar(x, at.value, yerr=look.arms(*at), fmt="o", zorder=3, **style)


# ---- 05: GLUE
NAMES = {"f1": "F1", "matthews": "Matthews", "pearson": "Pearson", "spearman": "Spearman"}


def glue_changes(moved: pd.DataFrame, by_seed: pd.DataFrame, learned: list[str]):
    """The change of each GLUE score under either mask, one row per metric, those not run below.

    The mean change with its interval, every seed, random heads as a diamond and the paper's as a
    cross; grey where the unmasked model has not learned the task.

    moved     one row per metric and mask: row, mask, value, low, high, printed
    by_seed   the scores, [(row, seed), mask]
    learned   the rows that the unmasked model has learned
    """
    full, top3, every = glue.MASKS.values()
    random3, random_all = glue.RANDOM.values()
    shades = {top3: look.SKY, every: look.BAD}
    random_of = {top3: random3, every: random_all}
    figure, axes = look.panels(2, height=4.6, sharex=True, sharey=True)
    are_run = set(by_seed.index.get_level_values(0))
    # an interval of few seeds may leave the frame
    reach = 1.3 * moved[["value", "printed"]].abs().max().max()
    for ax, mask in zip(axes, (top3, every)):
        rows = moved[moved["mask"] == mask]
        rows = pd.concat([rows[rows["row"].isin(are_run)], rows[~rows["row"].isin(are_run)]])
        for y, row in enumerate(rows.itertuples()):
            if row.row in are_run:
                shade = shades[mask] if row.row in learned else look.NEITHER
                _glue_row(ax, -y, row, by_seed.loc[row.row], random_of[mask], shade)
            ax.scatter(row.printed, -y, color="black", marker="x", s=26, linewidth=1, zorder=5)
        ax.axvline(0, color="black", linewidth=0.8, linestyle=":")
        label = "change of the score, masked less unmasked"
        ax.set(title=f"{mask} masked", xlabel=label, xlim=(-reach, reach))
        ax.grid(axis="y", visible=False)
    labels = []
    for task, metric in rows["row"].str.split():
        labels.append(f"{task} {NAMES.get(metric, metric)}")
    axes[0].set_yticks([-y for y in range(len(labels))], labels)
    _glue_legend(figure, is_run=len(by_seed) > 0)
    return figure


def _glue_row(ax, y: float, row, seeds: pd.DataFrame, random: str, shade: str):
    """What our runs give for one metric and mask; seeds: the scores by seed and mask."""
    full = seeds[glue.MASKS["none"]]
    ax.plot([row.low, row.high], [y, y], color=shade, linewidth=2, alpha=0.4, zorder=2)
    ax.scatter(seeds[row.mask] - full, [y] * len(seeds), color=shade, s=9, zorder=3)
    ax.scatter(row.value, y, color=shade, s=42, edgecolor="white", zorder=4)
    if random in seeds and seeds[random].notna().all():
        ax.scatter(
            (seeds[random] - full).mean(),
            y,
            color="black",
            marker="D",
            s=22,
            linewidth=0.9,
            facecolor="none",
            zorder=5,
        )


def _glue_legend(figure, is_run: bool):
    """The marks of `glue_changes`; where no task is run, the paper's alone."""
    ours = "mean over seeds (blue: Top-3, orange: All), 95 % interval; dots: seeds"
    marks = [
        Line2D([], [], color=look.SKY, marker="o", label=ours),
        Line2D([], [], color=look.NEITHER, marker="o", label="unmasked model has learned nothing"),
        Line2D(
            [],
            [],
            color="black",
            marker="D",
            markersize=5,
            fillstyle="none",
            linestyle="",
            label="as many random heads",
        ),
        Line2D([], [], color="black", marker="x", linestyle="", label="paper, BERT-base"),
    ]
    shown = marks if is_run else marks[-1:]
    figure.legend(handles=shown, fontsize=7.5, loc="outside lower left", ncols=2)


# ---- 06: debiased models and LLaMA
def fig5(scores: list[np.ndarray], titles: list[str], hatched: list, followed: list):
    """Fig. 5: the heads of the base and of debiased models, with one scale.

    hatched    for each model, (layer, head) of those whose interval includes 0
    followed   (layer, head) of the base's most anti-biased ones: framed in green, black once biased
    """
    figure, axes = look.panels(len(scores), width=3.4, height=3.3)
    darkest = max(of_model.max() for of_model in scores)
    for ax, of_model, title, to_hatch in zip(axes, scores, titles, hatched):
        framed = {}
        for layer, head in followed:
            is_biased = of_model[layer - 1, head - 1] > 0
            framed[layer, head] = "#000000" if is_biased else look.GOOD
        beside = axes if ax is axes[-1] else ()
        heatmap(ax, of_model, title, darkest, to_hatch, framed, beside)
    return figure


def fig67(results: dict, titles: dict[str, str]):
    """Fig. 6 and 7: `distribution` of base and chat models, on the same axes and bins."""
    are_several = len(results) > 1
    figure, axes = look.panels(
        len(results), width=4.2, height=3.2, sharex=are_several, sharey=are_several
    )
    every = np.concatenate([result["scores"].ravel() for result in results.values()])
    bins = np.histogram_bin_edges(every, 40)
    for ax, (name, result) in zip(axes, results.items()):
        distribution(ax, result["scores"], titles[name], bins)
    return figure


def fig67_heads(results: list[dict], titles: list[str]):
    """The heads of base and chat models, with one scale: `heatmap` of each.

    Framed are those beyond the upper Tukey fence of the base, in both models.
    results   of heads.measure: base, chat, base, chat, ...
    """
    figure, axes = look.panels(len(results), width=3.6, height=3.4)
    darkest = max(result["scores"].max() for result in results)
    for i, (ax, result, title) in enumerate(zip(axes, results, titles)):
        hatched = tables.heads_including_zero(tables.intervals(result))
        beside = axes if ax is axes[-1] else ()
        fence = tables.upper_fence(results[i - i % 2]["scores"])
        places = 1 + np.argwhere(result["scores"] > fence)
        framed = {(layer, head): DARK for layer, head in places.tolist()}
        heatmap(ax, result["scores"], title, darkest, hatched, framed, beside)
    return figure


def before_and_after(
    ax, before: np.ndarray, after: np.ndarray, followed: list[tuple[int, int]], reach: float
):
    """One point per head: its score in the base, and in a debiased model.

    followed   (layer, head) of those that are ringed and named
    reach      of both axes, one for panels that are compared
    """
    ax.plot([-reach, reach], [-reach, reach], color=look.NEITHER, linewidth=0.8, linestyle=":")
    ax.axhline(0, color=look.NEITHER, linewidth=0.5)
    ax.axvline(0, color=look.NEITHER, linewidth=0.5)
    has_changed = (before > 0) != (after > 0)
    colors = np.where(has_changed, look.BAD, DARK).ravel()
    ax.scatter(before, after, s=14, c=colors, alpha=0.7, edgecolor="white", linewidth=0.4)
    names = {}
    for layer, head in followed:
        ax.scatter(
            before[layer - 1, head - 1],
            after[layer - 1, head - 1],
            s=46,
            facecolor="none",
            edgecolor=look.GOOD,
            linewidth=1.2,
        )
        names[(layer - 1) * before.shape[1] + head - 1] = f"{layer}-{head}"
    ax.set(xlim=(-reach, reach), ylim=(-reach, reach), ylabel="bias score now")
    ax.locator_params(nbins=6)
    look.name_points(ax, before.ravel(), after.ravel(), names)
