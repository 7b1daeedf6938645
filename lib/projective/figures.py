"""The paper's Figure 1, drawn: BERT from tokens to next-sentence prediction, and where projections act."""

import matplotlib.pyplot as plt
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch

from lib import look
from lib.projective.projection import LEVELS, Level

COLORS = dict(zip(LEVELS, look.LEVELS))  # in every figure of notebooks 07 to 09
INK, PALE, EDGE, GREY = "#333333", "#F4F4F2", "#B9B9B5", "#8A8A86"  # of the diagram


def interventions(n_layers: int, n_heads: int, made_from: str):
    """The four intervention levels in a BERT of this size. The last two layers are drawn whole, those before as one."""
    figure, ax = plt.subplots(figsize=(10, 7.4), layout="constrained")
    ax.set(xlim=(0, 16.6), ylim=(-0.1, 12.5), aspect="equal")
    ax.axis("off")
    words = ["[CLS]", "My", "aunt", "...", "[SEP]", "She", "...", "[SEP]"]
    columns = [1.0 + 0.95 * i for i in range(len(words))]
    last, before = f"layer {n_layers}", f"layer {n_layers - 1}"
    below = {0: "no layer below", 1: "layer 1"}.get(n_layers - 2, f"layers 1 to {n_layers - 2}")
    for x, word in zip(columns, words):
        ax.text(
            x,
            0.15,
            word,
            ha="center",
            va="center",
            fontsize=8.5,
            color=INK,
            weight="bold" if x == 1 else "normal",
        )
    _box(ax, 0.5, 0.65, 7.7, 0.7, "embeddings: word + position + sentence A or B")
    _arrows(ax, columns, 1.35, 1.7)
    for shift in (0.24, 0.12, 0):
        _box(ax, 0.5 + shift, 1.7 + shift, 7.7, 1.05, below if not shift else "")
    _arrows(ax, columns, 2.75 + 0.24, 3.5)
    _box(ax, 0.5, 3.5, 7.7, 2.35, "")
    ax.text(0.7, 5.6, before, fontsize=9, weight="bold", color=INK, va="center")
    for i, name in enumerate(("queries", "keys", "values")):
        _box(
            ax,
            0.8 + 1.62 * i,
            3.72,
            1.5,
            0.62,
            f"{name}\n{n_heads} heads",
            size=7,
            fill="white",
            edge=COLORS[Level.ATTENTION],
            line=1.8,
        )
    _box(ax, 0.8, 4.6, 4.74, 0.55, "attention", size=8, fill="white")
    _box(ax, 5.85, 3.72, 2.1, 1.43, "feed-\nforward", size=8, fill="white")
    _arrows(ax, [1.55 + 1.62 * i for i in range(3)], 4.34, 4.6)
    _arrow(ax, 5.54, 4.87, 5.85, 4.87)
    _arrows(ax, columns, 5.85, 6.75)
    for x in columns:
        _gate(ax, x, 6.3, COLORS[Level.LAYER_11])
    _box(ax, 0.5, 6.75, 7.7, 0.9, last, weight="bold")
    _arrows(ax, columns[1:], 7.65, 8.0, color="#CFCFCB")
    _arrows(ax, columns[:1], 7.65, 9.0)
    _gate(ax, columns[0], 8.3, COLORS[Level.LAYER_12])
    ax.text(
        2.1, 8.3, "the other tokens end here", fontsize=7.5, color=GREY, va="center", style="italic"
    )
    _box(ax, 0.25, 9.0, 1.5, 0.7, "pooler", size=8.5)
    _arrows(ax, columns[:1], 9.7, 10.75)
    _gate(ax, columns[0], 10.2, COLORS[Level.SENT])
    _box(ax, 0.25, 10.75, 2.9, 0.7, "next-sentence head", size=8.5)
    _arrows(ax, columns[:1], 11.45, 11.95)
    ax.text(columns[0], 12.2, "p(next)", fontsize=10, weight="bold", ha="center", color=INK)
    notes = {  # the line from its mark, the name, what is projected
        Level.SENT: (
            [(1.32, 10.2), (9.3, 10.2)],
            "[SENT]   2 settings",
            "the pooled sentence vector; one direction;\nhard ($n_p$ = 0) or weighted ($n_p$ = 1)",
        ),
        Level.LAYER_12: (
            [(1.32, 8.3), (1.9, 8.3), (2.1, 8.65), (9.3, 8.65)],
            f"[{last}]   8 settings",
            "the [CLS] vector; one direction or two (c);\nhard or weighted (n)",
        ),
        Level.LAYER_11: (
            [(columns[-1] + 0.32, 6.3), (9.3, 6.3)],
            f"[{before}]   32 settings",
            "every token; one direction or two (c);\nhard or weighted (n)",
        ),
        Level.ATTENTION: (
            [(4.79, 3.72), (4.79, 3.12), (9.3, 3.12)],
            f"[{before} + attn]   32 settings",
            f"each head's query, key and value; one hard\ndirection each, {3 * n_heads} in all",
        ),
    }
    for level, (line, name, what) in notes.items():
        height = line[-1][1]
        ax.plot(*zip(*line), color=COLORS[level], linewidth=1.2, zorder=1)
        ax.text(9.45, height + 0.12, name, fontsize=9.5, weight="bold", color=INK, va="bottom")
        ax.text(9.45, height + 0.02, what, fontsize=8, color=INK, va="top", linespacing=1.35)
    for i, (level, (line, _, _)) in enumerate(
        notes.items()
    ):  # a level switches on all that come after it
        x, height, color = 15.15 + 0.32 * i, line[-1][1], COLORS[level]
        ax.annotate(
            "",
            (x, 11.1),
            (x, height),
            arrowprops={"arrowstyle": "-|>", "color": color, "linewidth": 2},
        )
        ax.add_patch(Circle((x, height), 0.09, color=color))
    ax.text(
        15.63,
        11.3,
        "each level applies\nall that follow it",
        fontsize=7.5,
        ha="center",
        va="bottom",
        color=INK,
    )
    return look.sign(
        figure,
        f"Four places to take gender out of a BERT of {n_layers} layers: 74 settings in all",
        made_from,
    )


def _box(ax, x, y, width, height, text, size=9, fill=PALE, edge=EDGE, weight="normal", line=1):
    ax.add_patch(
        FancyBboxPatch(
            (x, y),
            width,
            height,
            boxstyle="round,pad=0,rounding_size=.12",
            facecolor=fill,
            edgecolor=edge,
            linewidth=line,
        )
    )
    ax.text(
        x + width / 2,
        y + height / 2,
        text,
        ha="center",
        va="center",
        fontsize=size,
        color=INK,
        weight=weight,
    )


def _arrow(ax, x, y, to_x, to_y, color=GREY):
    ax.add_patch(
        FancyArrowPatch(
            (x, y),
            (to_x, to_y),
            arrowstyle="-|>",
            mutation_scale=7,
            color=color,
            linewidth=0.9,
            shrinkA=0,
            shrinkB=0,
        )
    )


def _arrows(ax, columns, bottom, top, color=GREY):
    for x in columns:
        _arrow(ax, x, bottom, x, top, color)


def _gate(ax, x, y, color):
    """The mark of a projection: h - <h, g> g."""
    ax.add_patch(Circle((x, y), 0.24, facecolor=color, edgecolor="white", linewidth=1.2, zorder=3))
    ax.plot(
        [x - 0.11, x + 0.11], [y, y], color="white", linewidth=1.8, zorder=4, solid_capstyle="round"
    )
