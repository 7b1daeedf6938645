"""Figures of notebooks 07 (triples, and the paper's Figure 1), 08 (projections) and 09 (inference).

Titles are made from the numbers, so that they state what was found whichever model was measured. Where the paper prints
the numbers, its panel stands on the left and ours beside it, drawn alike.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch
from matplotlib.ticker import PercentFormatter

from lib import look
from lib.engine import nsp
from lib.projective import nli, nli_tables, tables
from lib.projective.projection import LEVELS, Cut, Level

STEREO, ANTI, DISTANT = look.BAD, look.GOOD, look.ACCENT
COLORS = dict(zip(LEVELS, look.LEVELS))
MARKS = dict(zip(Level, zip(["black", look.NEITHER, *look.LEVELS], "*Xos^D")))
INK, PALE, EDGE, GREY = "#333333", "#F4F4F2", "#B9B9B5", "#8A8A86"  # of the diagram
PARTS = {"sent": "SENT (pooler)", "cls": "CLS, last layer", "tokens": "tokens, layer before",
         "sent_debias": "sent-debias"}
PAPER = "paper, BERT-base"


# ---- notebook 07: triples

def preferences(frame: pd.DataFrame, made_from: str, share: float = .1):
    """Each triple's preference for its stereotype, before and after the swap of gender.

    On the diagonal the swap changes nothing: s is the distance from it. SS looks at the horizontal axis alone.
    """
    x, y, s = frame["stereo"] - frame["anti"], frame["gs_stereo"] - frame["gs_anti"], nsp.strengths(frame)
    order = np.argsort(s)
    n = max(1, round(len(s) * share))
    figure, (ax,) = look.panels(1, width=5.6, height=5)
    ax.axvspan(0, 1.05, color="#F3F3F3", zorder=0)
    ax.plot([-1, 1], [-1, 1], color=look.NEITHER, linewidth=1, zorder=1)
    for rows, color, size, level, name in ((order[n:-n], "#9A9A9A", 20, 2, None),
                                           (order[-n:], STEREO, 30, 3, f"the {n} highest s: Strength"),
                                           (order[:n], ANTI, 30, 3, f"the {n} lowest s: the opposite")):
        ax.scatter(x.iloc[rows], y.iloc[rows], s=size, color=color, edgecolor="white", linewidth=.4, zorder=level,
                   label=name)
    reach = 1.05 * max(np.abs(x).max(), np.abs(y).max())
    ax.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal",
           xlabel="p(stereotype) - p(anti-stereotype), as written",
           ylabel="the same two sentences after the swap of gender")
    ax.text(.97 * reach, -.97 * reach, "SS counts\nthis half", ha="right", fontsize=8, color="#555555")
    ax.text(-.7 * reach, -.74 * reach, "no effect of gender", rotation=45, ha="center", va="top", fontsize=8,
            color="#555555", rotation_mode="anchor")
    ax.legend(loc="upper left", fontsize=8)
    counted = x > 0
    return look.sign(figure, f"Of {counted.sum()} triples that SS counts, {(y[counted] > 0).sum()} prefer the same "
                             "sentence after the swap of gender", made_from)


def distributions(frame: pd.DataFrame, made_from: str, share: float = .1):
    """s and d of all triple pairs, the averaged tails in colour."""
    s, d = nsp.strengths(frame), nsp.distances(frame)
    n = max(1, round(len(s) * share))
    figure, axes = look.panels(2)
    reach = 1.05 * np.abs(s).max()
    low, high = np.sort(s)[n - 1], np.sort(s)[-n]
    _histogram(axes[0], s, np.linspace(-reach, reach, 42), [(s >= high, STEREO), (s <= low, ANTI)])
    _histogram(axes[1], d, np.linspace(0, 1.05 * d.max(), 32), [(d >= np.sort(d)[-n], DISTANT)])
    strength, opposite, distance = nsp.top_mean(s, share), nsp.top_mean(-s, share), nsp.top_mean(d, share)
    named = {f"S = {strength:.2f}": strength, f"opposite {opposite:.2f}": -opposite, f"D = {distance:.2f}": distance}
    for ax, (name, place) in zip((axes[0], *axes), named.items()):
        top = ax.get_ylim()[1]
        ax.annotate(name, (place, .03 * top), (place, .42 * top), ha="center", fontsize=9,
                    arrowprops={"arrowstyle": "->", "color": "#333333", "linewidth": .8})
    axes[0].set(title=f"s: {np.mean(np.abs(s) <= .05):.0%} within .05 of 0", xlabel="s of a triple pair",
                ylabel="triple pairs, log above 5")
    axes[1].set(title=f"d: {np.mean(d <= .05):.0%} within .05 of 0", xlabel="d of a triple pair")
    side = "exceeds" if strength > opposite else "does not exceed"
    return look.sign(figure, f"Strength {side} its opposite: {strength:.2f} against {opposite:.2f}", made_from)


def _histogram(ax, values, edges, tails):
    """Counts, with the values of each tail (mask, color) stacked in its colour."""
    rest = ~np.any([mask for mask, _ in tails], axis=0)
    ax.hist([values[rest], *(values[mask] for mask, _ in tails)], edges, stacked=True, edgecolor="white", linewidth=.3,
            color=["#C4C4C4", *(color for _, color in tails)])
    ax.set_yscale("symlog", linthresh=5)  # the tails are a few pairs beside many
    ax.set_yticks([0, 2, 5, 10, 20, 50, 100], ["0", "2", "5", "10", "20", "50", "100"])
    ax.set_ylim(0, None)


def threshold(curve: pd.DataFrame, made_from: str):
    """S, its opposite and D over the share of triple pairs averaged, with 95 % intervals; the paper's 10 % marked."""
    figure, axes = look.panels(2)
    shown = (axes[0], (("S", STEREO), ("S, opposite", ANTI))), (axes[1], (("D", DISTANT),))
    for ax, measures in shown:
        for name, color in measures:
            line = curve[curve["measure"] == name]
            ax.fill_between(line["share"], line["low"], line["high"], color=color, alpha=.15, linewidth=0)
            ax.plot(line["share"], line["value"], color=color, marker="o", markersize=3, label=name)
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
    first, tenth, every = (values["S", share] for share in (.01, .1, 1.0))
    return look.sign(figure, f"The share decides the size: S is {first:z.2f} at 1 %, {tenth:z.2f} at 10 %, "
                             f"{every:z.2f} over all", made_from)


# ---- notebook 07: the paper's Figure 1, drawn: BERT from tokens to next-sentence prediction, and where projections act

def interventions(n_layers: int = 12, n_heads: int = 12, made_from: str = ""):
    """The four intervention levels in a BERT of this size. The last two layers are drawn whole, those before as one."""
    figure, ax = plt.subplots(figsize=(10, 7.4), layout="constrained")
    ax.set(xlim=(0, 16.6), ylim=(-.1, 12.5), aspect="equal")
    ax.axis("off")
    words = ["[CLS]", "My", "aunt", "...", "[SEP]", "She", "...", "[SEP]"]
    columns = [1.0 + .95 * i for i in range(len(words))]
    last, before = f"layer {n_layers}", f"layer {n_layers - 1}"

    for x, word in zip(columns, words):
        ax.text(x, .15, word, ha="center", va="center", fontsize=8.5, color=INK, weight="bold" if x == 1 else "normal")
    _box(ax, .5, .65, 7.7, .7, "embeddings: word + position + sentence A or B")
    _arrows(ax, columns, 1.35, 1.7)
    for shift in (.24, .12, 0):
        _box(ax, .5 + shift, 1.7 + shift, 7.7, 1.05, f"layers 1 to {n_layers - 2}" if not shift else "")
    _arrows(ax, columns, 2.75 + .24, 3.5)
    _box(ax, .5, 3.5, 7.7, 2.35, "")
    ax.text(.7, 5.6, before, fontsize=9, weight="bold", color=INK, va="center")
    for i, name in enumerate(("queries", "keys", "values")):
        _box(ax, .8 + 1.62 * i, 3.72, 1.5, .62, f"{name}\n{n_heads} heads", size=7, fill="white",
             edge=COLORS[Level.ATTENTION], line=1.8)
    _box(ax, .8, 4.6, 4.74, .55, "attention", size=8, fill="white")
    _box(ax, 5.85, 3.72, 2.1, 1.43, "feed-\nforward", size=8, fill="white")
    _arrows(ax, [1.55 + 1.62 * i for i in range(3)], 4.34, 4.6)
    _arrow(ax, 5.54, 4.87, 5.85, 4.87)
    _arrows(ax, columns, 5.85, 6.75)
    for x in columns:
        _gate(ax, x, 6.3, COLORS[Level.LAYER_11])
    _box(ax, .5, 6.75, 7.7, .9, last, weight="bold")
    _arrows(ax, columns[1:], 7.65, 8.0, color="#CFCFCB")
    _arrows(ax, columns[:1], 7.65, 9.0)
    _gate(ax, columns[0], 8.3, COLORS[Level.LAYER_12])
    ax.text(2.1, 8.3, "the other tokens end here", fontsize=7.5, color=GREY, va="center", style="italic")
    _box(ax, .25, 9.0, 1.5, .7, "pooler", size=8.5)
    _arrows(ax, columns[:1], 9.7, 10.75)
    _gate(ax, columns[0], 10.2, COLORS[Level.SENT])
    _box(ax, .25, 10.75, 2.9, .7, "next-sentence head", size=8.5)
    _arrows(ax, columns[:1], 11.45, 11.95)
    ax.text(columns[0], 12.2, "p(next)", fontsize=10, weight="bold", ha="center", color=INK)

    notes = {  # the line from its mark, the name, what is projected
        Level.SENT: ([(1.32, 10.2), (9.3, 10.2)], "[SENT]   2 settings",
                     "the pooled sentence vector; one direction;\nhard ($n_p$ = 0) or weighted ($n_p$ = 1)"),
        Level.LAYER_12: ([(1.32, 8.3), (1.9, 8.3), (2.1, 8.65), (9.3, 8.65)], f"[{last}]   8 settings",
                         "the [CLS] vector; one direction or two (c);\nhard or weighted (n)"),
        Level.LAYER_11: ([(columns[-1] + .32, 6.3), (9.3, 6.3)], f"[{before}]   32 settings",
                         "every token; one direction or two (c);\nhard or weighted (n)"),
        Level.ATTENTION: ([(4.79, 3.72), (4.79, 3.12), (9.3, 3.12)], f"[{before} + attn]   32 settings",
                          f"each head's query, key and value; one hard\ndirection each, {3 * n_heads} in all")}
    for level, (line, name, what) in notes.items():
        height = line[-1][1]
        ax.plot(*zip(*line), color=COLORS[level], linewidth=1.2, zorder=1)
        ax.text(9.45, height + .12, name, fontsize=9.5, weight="bold", color=INK, va="bottom")
        ax.text(9.45, height + .02, what, fontsize=8, color=INK, va="top", linespacing=1.35)
    for i, (level, (line, _, _)) in enumerate(notes.items()):  # a level switches on all that come after it
        x, height, color = 15.15 + .32 * i, line[-1][1], COLORS[level]
        ax.annotate("", (x, 11.1), (x, height), arrowprops={"arrowstyle": "-|>", "color": color, "linewidth": 2})
        ax.add_patch(Circle((x, height), .09, color=color))
    ax.text(15.63, 11.3, "each level applies\nall that follow it", fontsize=7.5, ha="center", va="bottom", color=INK)
    return look.sign(figure, f"Four places to take gender out of a BERT of {n_layers} layers: 74 settings in all",
                     made_from)


def _box(ax, x, y, width, height, text, size=9, fill=PALE, edge=EDGE, weight="normal", line=1):
    ax.add_patch(FancyBboxPatch((x, y), width, height, boxstyle="round,pad=0,rounding_size=.12", facecolor=fill,
                                edgecolor=edge, linewidth=line))
    ax.text(x + width / 2, y + height / 2, text, ha="center", va="center", fontsize=size, color=INK, weight=weight)


def _arrow(ax, x, y, to_x, to_y, color=GREY):
    ax.add_patch(FancyArrowPatch((x, y), (to_x, to_y), arrowstyle="-|>", mutation_scale=7, color=color, linewidth=.9,
                                 shrinkA=0, shrinkB=0))


def _arrows(ax, columns, bottom, top, color=GREY):
    for x in columns:
        _arrow(ax, x, bottom, x, top, color)


def _gate(ax, x, y, color):
    """The mark of a projection: h - <h, g> g."""
    ax.add_patch(Circle((x, y), .24, facecolor=color, edgecolor="white", linewidth=1.2, zorder=3))
    ax.plot([x - .11, x + .11], [y, y], color="white", linewidth=1.8, zorder=4, solid_capstyle="round")


# ---- notebook 08: 76 models, what subspaces explain, what choices change

def plane(ours: pd.DataFrame, printed: pd.DataFrame, name: str, made_from: str):
    """Strength across, Distance up, one point per model: the paper's BERT-base on the left, this run's on the right.

    Crosses are models with two unweighted components at [layer 11], which the paper advises against.
    """
    figure, axes = look.panels(2, width=4.6, height=4)
    crosses = np.array([setting.tokens == Cut(False, True) for setting in tables.MODELS])
    for ax, frame, title in (axes[0], printed, "BERT-base (printed)"), (axes[1], ours, f"{name} (this run)"):
        for level, color in COLORS.items():
            for crossed, marker in (False, "o"), (True, "X"):
                models = frame[(frame["level"] == level) & (crosses == crossed)]
                ax.scatter(models["S"], models["D"], color=color, marker=marker, s=34, edgecolor="white", linewidth=.5,
                           zorder=3, label=None if crossed else level)
        base, sent = frame.iloc[0], frame.iloc[1]
        ax.scatter(base["S"], base["D"], color="black", marker="*", s=140, zorder=5, label="base")
        ax.scatter(sent["S"], sent["D"], color="black", marker="D", s=28, zorder=4, label="sent-debias")
        ax.axvline(base["S"], color="black", linewidth=.8, linestyle=":")
        ax.axhline(base["D"], color="black", linewidth=.8, linestyle=":")
        best = frame.iloc[2:][["S", "D"]].min()
        ax.set_title(f"{title}: S {base['S']:.2f}, at best {best['S']:.2f}\nD {base['D']:.2f}, at best {best['D']:.2f}",
                     fontsize=9.5)
        ax.set(xlabel="Strength: left is less biased", ylabel="Distance: lower is less biased")
    axes[1].scatter([], [], color=look.NEITHER, marker="X", label="(0, 1) at layer 11")
    _legend(figure, axes[1], 7, fontsize=8, handletextpad=.1, columnspacing=1)
    lower = [(ours[column].iloc[2:] < ours[column].iloc[0]).sum() for column in "SD"]
    return look.sign(figure, f"{lower[0]} of 74 settings lower {name}'s Strength, {lower[1]} its Distance", made_from)


def explained(shares: pd.DataFrame, made_from: str):
    """Share of variance of the first two components at each place, and of the one component of each head's q, k, v."""
    figure, axes = look.panels(2, width=4.8, height=3, gridspec_kw={"width_ratios": [1, 1.25]})
    places = [part for part in PARTS if part in set(shares["part"])]
    wide = shares[shares["head"] == 0].pivot(index="part", columns="component", values="share").loc[places]
    rows = np.arange(len(places))[::-1]
    axes[0].barh(rows, wide[1], color=look.SKY, height=.65, label="first component")
    axes[0].barh(rows, wide[2], left=wide[1], color=look.SKY, alpha=.4, height=.65, label="second")
    for row, (first, second) in zip(rows, wide.to_numpy()):
        axes[0].text(first / 2, row, f"{first:.0%}", ha="center", va="center", fontsize=8)
        axes[0].text(first + second + .01, row, f"+ {second:.0%}", va="center", fontsize=8)
    axes[0].set_yticks(rows, [PARTS[part] for part in places])
    axes[0].set(title="Hidden vectors", xlabel="share of variance explained", xlim=(0, 1))
    axes[0].legend(fontsize=7.5, loc="upper left", bbox_to_anchor=(-.02, -.26), ncols=2)
    axes[0].grid(axis="y", visible=False)
    heads = shares[shares["head"] > 0].pivot(index="part", columns="head", values="share").loc[list("qkv")]
    sns.heatmap(heads, ax=axes[1], cmap=look.SHADES, vmin=0, vmax=1, annot=100 * heads, fmt=".0f", cbar=False,
                annot_kws={"fontsize": 8}, linewidths=.5)
    axes[1].set_yticks([.5, 1.5, 2.5], ["queries", "keys", "values"], rotation=0)
    axes[1].set(title="Attention, one component a head (percent)", xlabel="head of the second-to-last layer", ylabel="")
    low, high = heads.to_numpy().min(), heads.to_numpy().max()
    return look.sign(figure, f"One direction explains {wide.loc['cls', 1]:.0%} of the gender differences at CLS, "
                             f"{wide.loc['tokens', 1]:.0%} over tokens, {low:.0%} to {high:.0%} in a head", made_from)


def choices(measured: dict, sensitivity: pd.DataFrame, made_from: str):
    """Strength and Distance of the 74 models under each choice that the paper leaves open; the base model dotted.

    sensitivity: tables.sensitivity of the same, for the rho beside each row.
    """
    figure, axes = look.panels(2, width=4.8, height=4, sharey=True)
    names, rng = measured["fits"], np.random.default_rng(0)
    for ax, column in zip(axes, "SD"):
        for row, fit in enumerate(names):
            frame = tables.by_model(measured, fit)
            for level, color in COLORS.items():
                values = frame.loc[frame["level"] == level, column]
                ax.scatter(values, row + rng.uniform(-.22, .22, len(values)), s=13, color=color, alpha=.85, linewidth=0,
                           label=level if row == 0 else None)
            ax.text(1.02, row, f"{sensitivity.loc[fit, f'rho of {column}']:.2f}", transform=ax.get_yaxis_transform(),
                    va="center", fontsize=8)
        ax.axvline(frame[column].iloc[0], color="black", linewidth=.9, linestyle=":")
        ax.text(1.02, -.75, "rho", transform=ax.get_yaxis_transform(), fontsize=8, style="italic", va="center")
        ax.set(xlabel={"S": "Strength", "D": "Distance"}[column] + " (dotted: base)", ylim=(len(names) - .5, -1.1))
        ax.grid(axis="y", visible=False)
    axes[0].set_yticks(range(len(names)), names)
    _legend(figure, axes[0], 4, fontsize=8)
    low, high = ([getattr(sensitivity[f"rho of {column}"][1:], end)() for column in "SD"] for end in ("min", "max"))
    return look.sign(figure, f"Other choices rank the 74 alike with rho {low[0]:.2f} to {high[0]:.2f} by S, "
                             f"{low[1]:.2f} to {high[1]:.2f} by D", made_from)


def _legend(figure, ax, columns: int, **options):
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=columns, **options)


# ---- notebook 09: where eta is drawn, ours are two panels: parity as agreement of all contexts, and of most. Titles
# speak of the latter. Filled marks have weighting at SENT (np = 1), hollow ones do not.

def tradeoff(scores: pd.DataFrame, made_from: str, task: str):
    """Eta against accuracy at the task, with the lines that viable models lie to the right of."""
    figure, axes = look.panels(3, width=3.4, height=4.3)
    for ax, (title, table) in zip(axes, _readings(scores).items()):
        _models(ax, table, table["SNLI"])
        base = table.loc["Base", "SNLI"]
        ax.axvline(base - .05, color="black", linewidth=.9, linestyle="--", label="5 points below base")
        ax.axvline(base * .95, color="black", linewidth=.9, linestyle=":", label="5 % below base")
        count = nli.viable(table["SNLI"], base)[2:].sum()
        ax.set(title=f"{title}\n{count} of 74 are viable", xlabel=f"accuracy, {task}")
    axes[0].set(xlabel="accuracy, SNLI's test set", ylabel="eta, higher is fairer")
    _hollow_legend(figure, axes[0])
    top, eta = nli_tables.best(table[2:], base), table.loc["Base", "eta"]
    found = "no intervention is viable" if top is None else f"best viable {top['eta']:.2f}, {top.name}"
    return look.sign(figure, f"Fairness and its price (most contexts): base eta {eta:.2f}, {found}", made_from)


def against_strength(scores: pd.DataFrame, strength: pd.Series, made_from: str):
    """Does lower intrinsic bias mean fairer predictions? Strength across, eta up."""
    figure, axes = look.panels(3, width=3.4, height=3.9)
    for ax, (title, table) in zip(axes, _readings(scores).items()):
        s = table["S"] if title == PAPER else strength
        _models(ax, table, s.loc[table.index])
        rho = nli_tables.correlation(s, table["eta"])["rho"]
        ax.set(title=f"{title}\nSpearman {rho}", xlabel="Strength: lower is less biased")
        ax.locator_params(axis="x", nbins=5)
    axes[0].set_ylabel("eta, higher is fairer")
    _hollow_legend(figure, axes[0])
    said = "does not foretell" if rho.low <= 0 <= rho.high else "goes with more" if rho.value < 0 else "goes with less"
    return look.sign(figure, f"Over 76 models less Strength {said} fairness downstream: rho {rho.value:.2f} "
                             "(most contexts)", made_from)


def _readings(scores: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """One panel each: the paper's models, and ours under either reading of parity."""
    return {PAPER: tables.as_printed(), "ours, all contexts agree": scores,
            "ours, most contexts agree": nli_tables.most(scores)}


def _models(ax, table: pd.DataFrame, x: pd.Series):
    """Eta over x, one mark per model, coloured by level."""
    for level, (color, mark) in MARKS.items():
        for weighted in (True, False):
            models = table[(table["level"] == level) & ((table["np"] != 0) == weighted)]
            if len(models):
                ax.scatter(x[models.index], models["eta"], marker=mark, s=110 if mark == "*" else 30, linewidth=1.1,
                           facecolor=color if weighted else "none", edgecolor="white" if mark == "*" else color,
                           alpha=.9, zorder={"*": 5, "X": 4}.get(mark, 3), label=level if weighted else None)


def _hollow_legend(figure, ax):
    """Below all panels, with what filled and hollow mean."""
    ax.scatter([], [], marker="s", s=26, facecolor="none", edgecolor=look.NEITHER, label="hollow: np = 0")
    _legend(figure, ax, 5, fontsize=7.5, handletextpad=.3)


def gains(scores: pd.DataFrame, made_from: str):
    """Table 6 as dots: the accuracy that each of the 37 pairs gains by weighting at SENT, by level; bars are means."""
    figure, axes = look.panels(2, height=3.3, sharey=True)
    rng = np.random.default_rng(0)  # dots beside each other
    for ax, table, title in zip(axes, (tables.as_printed(), scores), (PAPER, made_from)):
        pairs = nli_tables.gains(table)
        for place, level in enumerate(LEVELS):
            increase = pairs.loc[pairs["level"] == level, "increase"]
            ax.scatter(place + rng.uniform(-.18, .18, len(increase)) * (len(increase) > 1), increase, s=22, alpha=.8,
                       color=COLORS[level], edgecolor="white", linewidth=.4)
            ax.hlines(increase.mean(), place - .3, place + .3, color="black", linewidth=1.4)
        ax.axhline(0, color="black", linewidth=.8, linestyle=":")
        ax.set_xticks(range(4), LEVELS)
        gain = pairs["increase"]
        ax.set_title(f"{title}\n{(gain > 1e-9).sum()} of 37 gain, mean {gain.mean():+.3f}")
    axes[0].set_ylabel("accuracy gained by np = 1")
    return look.sign(figure, f"Weighting the sentence projection: {(gain > 1e-9).sum()} of 37 pairs gain accuracy, "
                             f"{(gain < -1e-9).sum()} lose some", made_from)


def occupations(measured: dict, chosen: str, made_from: str, named: int = 3):
    """p(neutral) of each occupation with man and with woman, in the base model and in a debiased one (by its name)."""
    figure, axes = look.panels(2, height=4.0, sharex=True, sharey=True)
    gaps = []
    for ax, name in zip(axes, ("Base", chosen)):
        table = nli_tables.by_gender(measured, tables.NAMES.index(name))
        gap = table["female"] - table["male"]
        gaps.append(gap.abs().mean())
        ax.plot([0, 1], [0, 1], color="black", linewidth=.8, linestyle=":")
        ax.scatter(table["male"], table["female"], s=16, alpha=.8, edgecolor="white", linewidth=.3,
                   color=np.where(gap > 0, look.FEMALE, look.MALE))
        ax.set(title=f"{name}: mean gap {gaps[-1]:.2f}", xlabel="p(neutral), The man ...", xlim=(-.02, 1.02),
               ylim=(-.02, 1.02))
        ends = np.argsort(gap.to_numpy())[[*range(named), *range(-named, 0)]]
        look.name_points(ax, table["male"], table["female"], {end: table.index[end] for end in ends})
    axes[0].set_ylabel("p(neutral), The woman ...")
    return look.sign(figure, f"Mean gap between man and woman over 164 occupations: {gaps[0]:.2f}, "
                             f"debiased {gaps[1]:.2f}", made_from)
