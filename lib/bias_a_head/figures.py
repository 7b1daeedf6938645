"""Figures of notebooks 02 to 06: where the bias scores lie, what heads attend to, what masking and debiasing do.

Titles are made from the numbers, so that they state what was found whichever model was measured. What the arguments
are is said in tables.py.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
import torch
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from lib import look, printed
from lib.bias_a_head import counter, debiased, glue, heads, lpbs, tables
from lib.bias_a_head.debiased import FOLLOWED, short

BIASED, ANTI = look.BAD, look.GOOD                         # the colour of positive and of negative scores
ORIGINAL, COUNTER = "#333333", "#B5B5B5"                   # the two sentences
GROUPS = {"biased": BIASED, "regular": ANTI}               # the two kinds of heads
THICK = 5.0                                                # points, of the most attended word
STRATEGIES = {"top": BIASED, "bottom": ANTI, "random": look.PALE, "amplified": ANTI}
LABELS = {"top": "top heads masked", "bottom": "bottom heads masked", "random": "random heads masked"}


# ---- 02: head scores

def distribution(ax, scores: np.ndarray, title: str, name: int = 3):
    """Fig. 1: a histogram of all scores with its density, one mark per head; triangles at the `name` highest."""
    sns.histplot(x=scores.ravel(), bins=24, kde=True, color=look.NEITHER, edgecolor="white", linewidth=.4, ax=ax)
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
    """Fig. 2: one cell per head, the darker the more biased; negative scores are shown as zero, as in the paper.

    framed   {(layer, head): colour of its frame}; left out, the three highest
    darkest  the score of the darkest red, for panels that share a scale
    """
    n_layers, n_heads = scores.shape
    image = ax.imshow(scores.clip(min=0), cmap=look.HEAT, vmin=0, vmax=darkest, aspect="equal", origin="lower",
                      extent=(.5, n_heads + .5, .5, n_layers + .5))
    for (layer, head), color in (framed or dict.fromkeys(heads.top(scores, 3), "#333333")).items():
        ax.add_patch(plt.Rectangle((head - .5, layer - .5), 1, 1, fill=False, edgecolor=color, linewidth=1.2))
    ax.set(title=title, xlabel="head", ylabel="layer")
    ax.set_xticks(range(1, n_heads + 1, max(1, n_heads // 12)))
    ax.set_yticks(range(1, n_layers + 1, max(1, n_layers // 12)))
    ax.tick_params(labelsize=7, length=2)
    ax.grid(visible=False)
    bar = figure.colorbar(image, ax=ax, shrink=.8, pad=.02)
    bar.set_label("bias score", size=8)
    bar.ax.tick_params(labelsize=7)


def ranked(ax, frame: pd.DataFrame, title: str):
    """Every head's score with its interval, highest first; in colour where the interval excludes 0."""
    place = np.arange(1, len(frame) + 1)
    color = np.select([frame.low > 0, frame.high < 0], [BIASED, ANTI], look.PALE)
    ax.vlines(place, frame.low, frame.high, color=color, linewidth=1.2)
    ax.scatter(place, frame.score, s=5, color="#333333", zorder=3, linewidth=0)
    ax.axhline(0, color="#333333", linewidth=.8)
    ax.set(title=title, xlabel="head, by its score", ylabel="bias score")


def ablation(ax, result: dict, title: str, name: int = 2):
    """What the gradient predicts for each head against what switching it off does; both say how far |SEAT| falls."""
    x, y = result["gradient"], result["ablation"]
    reach = 1.1 * max(np.abs(x).max(), np.abs(y).max())
    ax.plot([-reach, reach], [-reach, reach], color=look.NEITHER, linewidth=.8, linestyle=":")
    ax.axhline(0, color=look.NEITHER, linewidth=.5)
    ax.axvline(0, color=look.NEITHER, linewidth=.5)
    right = (x > 0) == (y > 0)
    ax.scatter(x, y, s=16, c=np.where(right, "#333333", BIASED).ravel(), alpha=.8, edgecolor="white", linewidth=.4)
    ax.set(title=title, xlabel="bias score (gradient)", ylabel="fall of |SEAT| when switched off",
           xlim=1.15 * np.array([x.min(), x.max()]), ylim=1.1 * np.array([y.min(), y.max()]))
    ax.locator_params(nbins=6)
    named = {(layer - 1) * x.shape[1] + head - 1: f"{layer}-{head}" for layer, head in heads.top(np.abs(y), name)}
    look.name_points(ax, x.ravel(), y.ravel(), named)


def tail_headline(results: dict) -> str:
    near = [tables.near_zero(result["scores"]) for result in results.values()]
    left, right = zip(*(tables.standing_out(result["scores"]) for result in results.values()))
    return (f"{min(near):.0%} to {max(near):.0%} of the heads lie near zero; "
            f"{sum(right)} stand out to the right and {sum(left)} to the left")


def layer_headline(results: dict) -> str:
    full = [(result["scores"] > 0).any(1) for result in results.values()]
    if all(layers.all() for layers in full):
        return "Every layer has biased heads"
    return f"Biased heads appear in {min(layers.sum() for layers in full)} or more of {len(full[0])} layers"


def sure_headline(results: dict) -> str:
    shares = [((frame.low > 0) | (frame.high < 0)).mean() for frame in map(tables.intervals, results.values())]
    return f"For {1 - max(shares):.0%} to {1 - min(shares):.0%} of the heads the sign of the score is not sure"


def ablation_headline(ablations: dict) -> str:
    right = list(map(tables.same_sign, ablations.values()))
    return f"The gradient foresees the sign of a head's removal in {min(right):.0%} to {max(right):.0%} of the heads"


# ---- 03: the counter-stereotype test

def example(seen: dict, chosen: dict[str, tuple[int, int]], target: str, attributes: tuple[str, str]):
    """Four panels, as in the paper: for each chosen head the original sentence, then its twin.

    seen: as for counter.on_attributes; chosen: {"biased": (layer, head), "regular": ...}.
    """
    figure, axes = look.panels(2 * len(chosen), width=2.35, height=3.9)
    panels = iter(axes)
    for kind, (layer, head) in chosen.items():
        for (name, (words, weights)), attribute in zip(seen.items(), attributes, strict=True):
            title = f"{kind} head {layer}-{head}\n{name}"
            edges(next(panels), words, weights[layer - 1, head - 1], target, attribute, title, GROUPS[kind])
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
    return "The swap moves the " + ", the ".join(f"{kind} head from {original:.2f} to {swapped:.2f}"
                                                 for kind, (original, swapped) in weights.items())

def figure4(tests: dict[str, pd.DataFrame], by_head: pd.DataFrame, scores: np.ndarray):
    """Means as in the paper, the difference by whatever unit it is tested on, and the test in each head.

    tests: {"biased": counter.test(...), "regular": ...}; scores: [n_layers, n_heads], of heads.bias_scores.
    """
    figure, axes = look.panels(3, width=3.45, height=3.5, gridspec_kw={"width_ratios": [.62, 1.15, 1.1]})
    means(axes[0], tests)
    differences(axes[1], tests)
    head_map(axes[2], by_head, scores)
    return figure


def means(ax, tests: dict[str, pd.DataFrame]):
    """Mean weight in the original and the counter sentences, in percent of the target's attention.

    Error bars share out the 95 % interval of the paired difference: two that do not touch differ at 5 %, two-sided.
    """
    for place, (kind, tested) in enumerate(tests.items()):
        row = tested.loc["sentence"]
        half = (row["high"] - row["low"]) / 4
        for shift, side, color in ((-.2, "original", ORIGINAL), (.2, "counter", COUNTER)):
            ax.bar(place + shift, 100 * row[side], .36, color=color, label=side if place == 0 else None,
                   yerr=100 * half, error_kw={"elinewidth": 1.2, "capsize": 3, "ecolor": GROUPS[kind]})
        top = 100 * (max(row["original"], row["counter"]) + half)
        ax.text(place, top * 1.02, f"t = {row['t']:.2f}\np = {row['p']:.2g}" if row["p"] >= .001 else
                f"t = {row['t']:.2f}\np < .001", ha="center", va="bottom", fontsize=8)
    ax.set_xticks(range(len(tests)), [f"{kind}\n{tested.attrs['heads']} heads" for kind, tested in tests.items()])
    ax.set(title=f"Attention, N = {int(row['n'])}", ylabel="target on attribute, percent")
    ax.margins(y=.2)
    ax.grid(axis="x", visible=False)
    ax.legend(fontsize=8, loc="lower center", ncols=2, bbox_to_anchor=(.5, -.38), columnspacing=1)


def differences(ax, tests: dict[str, pd.DataFrame]):
    """Original - counter with its 95 % interval, by the unit that counts once."""
    units = list(next(iter(tests.values())).index)
    for shift, (kind, tested) in zip((-.14, .14), tests.items()):
        value, low, high = (100 * tested[column].to_numpy() for column in ("difference", "low", "high"))
        ax.errorbar(value, np.arange(len(units)) + shift, xerr=[value - low, high - value], fmt="o", markersize=4,
                    linewidth=1.4, color=GROUPS[kind], label=f"{kind} heads")
    n = next(iter(tests.values()))["n"]
    ax.set_yticks(range(len(units)), [f"{unit}  (n = {n[unit]})" for unit in units])
    ax.axvline(0, color=look.NEITHER, linewidth=.9)
    ax.set(title="Original - counter, by unit", xlabel="percentage points of attention", ylim=(len(units) - .5, -.5))
    ax.grid(axis="y", visible=False)
    ax.legend(fontsize=8, loc="lower center", ncols=2, bbox_to_anchor=(.35, -.38), columnspacing=1)


def head_map(ax, by_head: pd.DataFrame, scores: np.ndarray):
    """t of every head; a ring where it is significant after correction, filled where Holm's is too."""
    table = by_head.pivot(index="layer", columns="head", values="t")
    bound = float(np.abs(table.to_numpy()).max())
    sns.heatmap(table, ax=ax, cmap=look.DIVERGING, center=0, vmin=-bound, vmax=bound, linewidths=.4, linecolor="white",
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
    differs = {kind: tested["p"]["sentence"] < .05 for kind, tested in tests.items()}
    outcome = {(True, False): "biased heads look harder at the stereotyped pair, regular ones do not",
               (True, True): "biased and regular heads alike look harder at the stereotyped pair",
               (False, True): "regular heads look harder at the stereotyped pair, biased ones do not",
               (False, False): "no group of heads looks harder at the stereotyped pair"}
    said = f"{model}, {bias}: {outcome[differs['biased'], differs['regular']]}"
    if not any(differs.values()) or any("word pair" not in tested.index for tested in tests.values()):
        return said
    left = [kind for kind, tested in tests.items() if tested["p"]["word pair"] < .05]
    return f"{said}; balanced, {' and '.join(left) or 'none'} do"


def made_from(model: str, bias: str, data: str, seed: int) -> str:
    """The figure's corner: which model, which sentences."""
    written = bias == "race" or data == "mini"
    return f"{model}; {'sentences of data/demo' if written else 'sentences of Reddit posts'}, seed {seed}"


# ---- 04: masking

def plane(masks: pd.DataFrame, made_from: str, k: int = 3):
    """Table 1 on a plane, PPPL across and SEAT up: on the left k heads masked, on the right as many as "All" masks."""
    masks = masks[masks["strategy"] != "amplified"]
    sizes = sorted({k, masks.loc[masks["strategy"] == "top", "k"].max()})
    figure, axes = look.panels(2)
    titles = (f"{sizes[0]} heads masked", f"All: {sizes[-1]} heads masked")
    for ax, size, title in zip(axes, sizes, titles):
        for strategy in ("random", "bottom", "top"):
            rows = masks[(masks["strategy"] == strategy) & (masks["k"] == size)]
            ax.scatter(rows["pppl"], rows["seat"], color=STRATEGIES[strategy], s=46, edgecolor="white", zorder=3,
                       label=LABELS[strategy])
        full = masks[masks["strategy"] == "full"]
        ax.scatter(full["pppl"], full["seat"], color="black", marker="*", s=130, zorder=4, label="full model")
        ax.axhline(full["seat"].iloc[0], color="black", linewidth=.8, linestyle=":")
        ax.set(title=title, xlabel="PPPL, log scale: right is worse", ylabel="|SEAT|: lower is less biased")
        log_ticks(ax.xaxis)
        ax.margins(.12)
    axes[0].legend(fontsize=7.5, loc="best")
    full, top = (masks[masks["strategy"] == name].iloc[0] for name in ("full", "top"))
    return look.sign(figure, f"Masking the top {k} heads moves SEAT from {full['seat']:.2f} to {top['seat']:.2f}, "
                              f"PPPL from {full['pppl']:.1f} to {top['pppl']:.1f}", made_from)


def lpbs_curves(curve: pd.DataFrame, made_from: str):
    """Table 3: LPBS over the number of top heads masked, one panel per test, the paper's numbers as crosses."""
    figure, axes = look.panels(3, width=3.4, height=3.5, sharey=True)
    last, (wide, best) = curve["k"].max(), tables.nearest_to_zero(curve)
    theirs = printed.printed("bias_a_head", "Table 3").drop(index="5 or 10").rename(index={"All": "45"})
    for ax, test in zip(axes, lpbs.TESTS):
        rows = curve[curve["test"] == test]
        ax.fill_between(rows["k"], rows["low"], rows["high"], color=BIASED, alpha=.15, linewidth=0)
        ax.plot(rows["k"], rows["corrected"], color=BIASED, marker="o", markersize=3.5, label="corrected prior")
        ax.plot(rows["k"], rows["published"], color=look.NEITHER, linestyle="--", label="published notebook's prior")
        ax.plot(theirs.index.astype(int), theirs[test], "x", color="black", markersize=5, label="paper, BERT-base")
        ax.axhline(0, color="black", linewidth=.8, linestyle=":")
        ax.set(title=f"{test}\nnearest to 0 at K = {best[test]}", xlabel=f"top heads masked (all: {last})")
    axes[0].set_ylabel("LPBS effect size")
    axes[1].legend(fontsize=7, loc="lower left")
    lows = ", ".join(f"{wide.loc[best[test], test]:.2f}" for test in wide)
    return look.sign(figure, f"With some top heads masked LPBS falls to {lows}; masking all is best in "
                              f"{(best == last).sum()} of {len(best)} tests", made_from)


def curves(masks: pd.DataFrame, made_from: str):
    """SEAT and PPPL over the number of heads masked; random draws as points, their mean as a line.

    PPPL is over the sample of lines that every mask was read on; likewise in `amplified`.
    """
    figure, axes = look.panels(2)
    full = masks[masks["strategy"] == "full"]
    for strategy in ("random", "bottom", "top"):
        rows = pd.concat([full, masks[masks["strategy"] == strategy]])
        for ax, column in zip(axes, ("seat", "pppl_sample")):
            mean = rows.groupby("k")[column].mean()
            ax.plot(mean.index, mean, color=STRATEGIES[strategy], marker="o", markersize=4, label=LABELS[strategy])
            if strategy == "random":
                ax.scatter(rows["k"], rows[column], color=STRATEGIES[strategy], s=10, alpha=.5)
    axes[0].set(title="Bias", xlabel="heads masked", ylabel="|SEAT|", ylim=(0, None))
    axes[1].set(title="Language", xlabel="heads masked", ylabel="PPPL, log scale")
    log_ticks(axes[1].yaxis)
    axes[0].legend(fontsize=7.5, loc="lower left")
    masked = masks[masks["strategy"].isin(["top", "bottom", "random"])]
    middle = sorted(masked["k"].unique())[-2]
    at = masked[masked["k"] == middle].groupby("strategy")["seat"].mean()
    return look.sign(figure, f"With {middle} heads masked SEAT is {at['top']:.2f} (top), {at['bottom']:.2f} (bottom) "
                              f"and {at['random']:.2f} (random); full {full['seat'].iloc[0]:.2f}", made_from)


def amplified(masks: pd.DataFrame, made_from: str, k: int = 3):
    """The k bottom heads multiplied by 0 (masked), by 1 (the full model) and by more; masking the top k beside it."""
    is_masked = (masks["strategy"] == "bottom") & (masks["k"] == k)
    full = masks[masks["strategy"] == "full"].assign(factor=1.0)
    rows = pd.concat([masks[is_masked], full, masks[masks["strategy"] == "amplified"]])
    full, top = full.iloc[0], masks[(masks["strategy"] == "top") & (masks["k"] == k)].iloc[0]
    figure, axes = look.panels(2)
    for ax, column, label in zip(axes, ("seat", "pppl_sample"), ("|SEAT|", "PPPL")):
        ax.plot(rows["factor"], rows[column], color=STRATEGIES["amplified"], marker="o", label=f"bottom {k} times this")
        ax.axhline(full[column], color="black", linewidth=.8, linestyle=":", label="full model")
        ax.axhline(top[column], color=STRATEGIES["top"], linewidth=1, linestyle="--", label=f"top {k} masked")
        ax.set(xlabel="factor on the bottom heads: 0 masked, 1 full", ylabel=label)
    axes[0].set_title("Bias")
    axes[1].set_title("Language")
    axes[1].legend(fontsize=7.5)
    stronger = rows[rows["factor"] > 1]
    cheap = stronger[stronger["pppl_sample"] <= top["pppl_sample"]]
    shown = cheap.iloc[-1] if len(cheap) else stronger.iloc[0]  # the strongest that costs no more than masking does
    return look.sign(figure, f"Bottom {k} heads times {shown['factor']:g}: SEAT {shown['seat']:.2f}, PPPL "
                              f"{shown['pppl_sample']:.1f}; top {k} masked: {top['seat']:.2f}, "
                              f"{top['pppl_sample']:.1f}", made_from)


def log_ticks(axis):
    """A logarithmic axis with plain numbers, and enough of them, whether it spans a doubling or a thousandfold."""
    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    low, high = axis.get_view_interval()
    steps = (1,) if high / low > 20 else (1, 2, 5) if high / low > 4 else (1, 1.1, 1.2, 1.3, 1.5, 2, 3, 5)
    axis.set_major_locator(LogLocator(subs=steps))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axis.set_minor_formatter(NullFormatter())


MASKED = {"Top-3": look.SKY, "All": look.BAD}


# ---- 05: GLUE

def changes(runs: pd.DataFrame, moved: pd.DataFrame, learned: list[str], made_from: str):
    """One panel per mask, one row per metric: `moved`, the changes of `runs`, with 95 % intervals and every seed;
    crosses are the paper's. What the unmasked model has not learned is drawn in grey."""
    full, *masks = glue.MASKS.values()
    rows = list(dict.fromkeys(moved["row"]))
    figure, axes = look.panels(len(masks), height=4.6, sharex=True, sharey=True)
    wide = runs.pivot(index=["row", "seed"], columns="mask", values="score")
    reach = 1.3 * moved[["value", "printed"]].abs().max().max()  # an interval of three seeds may run out of the frame
    for ax, mask in zip(axes, masks):
        for y, row in enumerate(moved[moved["mask"] == mask].itertuples()):
            color = MASKED[mask] if row.row in learned else look.NEITHER
            if row.row in wide.index:
                seeds = wide.loc[row.row]
                ax.plot([row.low, row.high], [-y, -y], color=color, linewidth=2, alpha=.4, zorder=2)
                ax.scatter(seeds[mask] - seeds[full], [-y] * len(seeds), color=color, s=9, zorder=3)
                ax.scatter(row.value, -y, color=color, s=42, edgecolor="white", zorder=4)
            ax.scatter(row.printed, -y, color="black", marker="x", s=26, linewidth=1, zorder=5)
        ax.axvline(0, color="black", linewidth=.8, linestyle=":")
        ax.set(title=f"{mask} masked", xlabel="change of the score, masked less unmasked", xlim=(-reach, reach))
        ax.grid(axis="y", visible=False)
    axes[0].set_yticks([-y for y in range(len(rows))], [_label(row) for row in rows])
    marks = [Line2D([], [], color=look.SKY, marker="o", label="mean over seeds, 95 % interval; dots: seeds"),
             Line2D([], [], color=look.NEITHER, marker="o", label="unmasked model has learned nothing"),
             Line2D([], [], color="black", marker="x", linestyle="", label="paper, BERT-base")]
    figure.legend(handles=marks, fontsize=7.5, loc="outside lower left", ncols=3)
    return look.sign(figure, _changes_title(moved, learned, masks), made_from)


def _label(row: str) -> str:
    names = {"f1": "F1", "matthews": "Matthews", "pearson": "Pearson", "spearman": "Spearman"}
    task, metric = row.split(" ")
    return f"{task} {names.get(metric, metric)}"


def _changes_title(moved: pd.DataFrame, learned: list[str], masks: list[str]) -> str:
    if not learned:
        return "GLUE with heads masked: no task that the unmasked model has learned is run"
    known = moved[moved["row"].isin(learned)]
    top, every = (known[known["mask"] == mask]["value"].mean() for mask in masks)
    ran = moved.dropna(subset="value")["row"].nunique()
    mean = f"mean over the {len(learned)} of {ran} scores learned"
    return f"{masks[0]} masked {top:+.3f}, {masks[1]} {every:+.3f}: {mean}"


# ---- 06: debiased models and LLaMA

def debiased_heads(results: dict, base: str):
    """Fig. 5: one heatmap per model on one scale; framed: the base's most anti-biased heads, black once biased."""
    figure, axes = look.panels(len(results), width=3.4, height=3.3)
    darkest = max(result["scores"].max() for result in results.values())
    followed = heads.bottom(results[base]["scores"], FOLLOWED)
    for ax, (name, result) in zip(axes, results.items()):
        framed = {(layer, head): "#000000" if result["scores"][layer - 1, head - 1] > 0 else ANTI
                  for layer, head in followed}
        note = "" if name == base else f": {debiased.count_turned(result['scores'], results[base]['scores'])} turned"
        heatmap(figure, ax, result["scores"], short(name) + note, framed, darkest)
    return figure


def movement(results: dict, base: str):
    """One point per head, its score in the base and in a debiased model; the base's most anti-biased ones are named."""
    others = [name for name in results if name != base]
    figure, axes = look.panels(len(others), width=4, height=3.8)
    before = results[base]["scores"]
    followed = heads.bottom(before, FOLLOWED)
    reach = 1.1 * max(np.abs(result["scores"]).max() for result in results.values())
    for ax, name in zip(axes, others):
        after = results[name]["scores"]
        changed = (before > 0) != (after > 0)
        ax.plot([-reach, reach], [-reach, reach], color=look.NEITHER, linewidth=.8, linestyle=":")
        ax.axhline(0, color=look.NEITHER, linewidth=.5)
        ax.axvline(0, color=look.NEITHER, linewidth=.5)
        ax.scatter(before, after, s=14, c=np.where(changed, BIASED, "#333333").ravel(), alpha=.7,
                   edgecolor="white", linewidth=.4)
        for layer, head in followed:
            ax.scatter(before[layer - 1, head - 1], after[layer - 1, head - 1], s=46, facecolor="none",
                       edgecolor=ANTI, linewidth=1.2)
        ax.set(title=short(name), xlabel=f"bias score in {short(base)}", ylabel="bias score now", xlim=(-reach, reach),
               ylim=(-reach, reach))
        ax.locator_params(nbins=6)
        named = {(layer - 1) * before.shape[1] + head - 1: f"{layer}-{head}" for layer, head in followed}
        look.name_points(ax, before.ravel(), after.ravel(), named)
    return figure


def distributions(results: dict):
    """Fig. 6-7: the distribution of the scores, one panel per model, the axis shared by a base and its chat model."""
    figure, axes = look.panels(len(results), width=4.2, height=3.2, sharex=len(results) > 1)
    for ax, (name, result) in zip(axes, results.items()):
        distribution(ax, result["scores"], short(name))
    return figure
