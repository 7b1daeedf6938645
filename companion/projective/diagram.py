"""The paper's Figure 1, drawn: where projections act in BERT, from tokens to p(next)."""

from dataclasses import dataclass

import matplotlib.pyplot as plt
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch

from companion import look
from companion.projective.figures import COLORS
from lib.projective.projection import Level

INK = "#333333"
PALE = "#F4F4F2"
EDGE = "#B9B9B5"
GREY = "#8A8A86"
LIGHT_GREY = "#CFCFCB"

WORDS = ("[CLS]", "My", "aunt", "...", "[SEP]", "She", "...", "[SEP]")
COLUMNS = [1.0 + 0.95 * i for i in range(len(WORDS))]  # where each word stands, from left to right
FIRST = COLUMNS[:1]  # of [CLS], the token that the pooler reads
LEFT = 0.5  # of a layer's box
WIDTH = 7.7
NOTE_X = 9.3  # where the line to a note ends
ARROW_TOP = 11.1


def interventions(n_layers: int, n_heads: int, made_from: str):
    """The four intervention levels in a BERT of this size.

    The last two layers are drawn whole, those before as one.
    """
    last = f"layer {n_layers}"
    before = f"layer {n_layers - 1}"
    figure, ax = plt.subplots(figsize=(10, 7.4), layout="constrained")
    ax.set(xlim=(0, 16.6), ylim=(-0.1, 12.5), aspect="equal")
    ax.axis("off")
    _draw_input(ax, _lower_layers(n_layers))
    _draw_second_to_last_layer(ax, before, n_heads)
    _draw_last_layer(ax, last)
    _draw_output(ax)
    notes = _notes(last, before, n_heads)
    for note in notes:
        note.draw(ax)
    _draw_reach(ax, notes)
    title = f"Four places to take gender out of a BERT of {n_layers} layers: 74 settings in all"
    return look.sign(figure, title, made_from)


def _lower_layers(n_layers: int) -> str:
    """The name of the layers below the last two."""
    match n_layers - 2:
        case 0:
            return "no layer below"
        case 1:
            return "layer 1"
        case n:
            return f"layers 1 to {n}"


def _draw_input(ax, lower_layers: str):
    """The words, their embeddings and the layers below the last two, as a pile."""
    for x, word in zip(COLUMNS, WORDS):
        weight = "bold" if x == 1 else "normal"
        ax.text(x, 0.15, word, ha="center", va="center", fontsize=8.5, color=INK, weight=weight)
    _Box(LEFT, 0.65, WIDTH, 0.7, "embeddings: word + position + sentence A or B").draw(ax)
    _arrows(ax, COLUMNS, 1.35, 1.7)
    for shift in (0.24, 0.12):
        _Box(LEFT + shift, 1.7 + shift, WIDTH, 1.05).draw(ax)
    _Box(LEFT, 1.7, WIDTH, 1.05, lower_layers).draw(ax)
    _arrows(ax, COLUMNS, 2.75 + 0.24, 3.5)


def _draw_second_to_last_layer(ax, name: str, n_heads: int):
    """The layer with its parts; attention is projected in it, all tokens where they leave it."""
    _Box(LEFT, 3.5, WIDTH, 2.35).draw(ax)
    ax.text(0.7, 5.6, name, fontsize=9, weight="bold", color=INK, va="center")
    for i, part in enumerate(("queries", "keys", "values")):
        _Box(
            x=0.8 + 1.62 * i,
            y=3.72,
            width=1.5,
            height=0.62,
            text=f"{part}\n{n_heads} heads",
            size=7,
            fill="white",
            edge=COLORS[Level.ATTENTION],
            line=1.8,
        ).draw(ax)
    _Box(0.8, 4.6, 4.74, 0.55, "attention", size=8, fill="white").draw(ax)
    _Box(5.85, 3.72, 2.1, 1.43, "feed-\nforward", size=8, fill="white").draw(ax)
    _arrows(ax, [1.55 + 1.62 * i for i in range(3)], 4.34, 4.6)
    _arrow(ax, (5.54, 4.87), (5.85, 4.87))
    _arrows(ax, COLUMNS, 5.85, 6.75)
    for x in COLUMNS:
        _projection(ax, x, 6.3, COLORS[Level.LAYER_11])


def _draw_last_layer(ax, name: str):
    """The layer, of which only the first token goes on, projected."""
    _Box(LEFT, 6.75, WIDTH, 0.9, name, weight="bold").draw(ax)
    _arrows(ax, COLUMNS[1:], 7.65, 8.0, color=LIGHT_GREY)
    _arrows(ax, FIRST, 7.65, 9.0)
    _projection(ax, COLUMNS[0], 8.3, COLORS[Level.LAYER_12])
    ended = "the other tokens end here"
    ax.text(2.1, 8.3, ended, fontsize=7.5, color=GREY, va="center", style="italic")


def _draw_output(ax):
    """Pooler, its projected output, head and probability."""
    _Box(0.25, 9.0, 1.5, 0.7, "pooler", size=8.5).draw(ax)
    _arrows(ax, FIRST, 9.7, 10.75)
    _projection(ax, COLUMNS[0], 10.2, COLORS[Level.SENT])
    _Box(0.25, 10.75, 2.9, 0.7, "next-sentence head", size=8.5).draw(ax)
    _arrows(ax, FIRST, 11.45, 11.95)
    ax.text(COLUMNS[0], 12.2, "p(next)", fontsize=10, weight="bold", ha="center", color=INK)


@dataclass(frozen=True)
class _Note:
    """What a level projects, at the end of a line from where it does so."""

    level: Level
    line: list[tuple[float, float]]  # corners, from the mark to the note
    name: str
    what: str

    @property
    def height(self) -> float:
        return self.line[-1][1]

    def draw(self, ax):
        x, y = zip(*self.line)
        ax.plot(x, y, color=COLORS[self.level], linewidth=1.2, zorder=1)
        left = NOTE_X + 0.15
        ax.text(
            left,
            self.height + 0.12,
            self.name,
            fontsize=9.5,
            weight="bold",
            color=INK,
            va="bottom",
        )
        ax.text(
            left, self.height + 0.02, self.what, fontsize=8, color=INK, va="top", linespacing=1.35
        )


def _notes(last: str, before: str, n_heads: int) -> list[_Note]:
    """One note per level, from the output inwards."""
    return [
        _Note(
            level=Level.SENT,
            line=[(1.32, 10.2), (NOTE_X, 10.2)],
            name="[SENT]   2 settings",
            what="the pooled sentence vector; one direction;\n"
            "hard ($n_p$ = 0) or weighted ($n_p$ = 1)",
        ),
        _Note(
            level=Level.LAYER_12,
            line=[(1.32, 8.3), (1.9, 8.3), (2.1, 8.65), (NOTE_X, 8.65)],
            name=f"[{last}]   8 settings",
            what="the [CLS] vector; one direction or two (c);\nhard or weighted (n)",
        ),
        _Note(
            level=Level.LAYER_11,
            line=[(COLUMNS[-1] + 0.32, 6.3), (NOTE_X, 6.3)],
            name=f"[{before}]   32 settings",
            what="every token; one direction or two (c);\nhard or weighted (n)",
        ),
        _Note(
            level=Level.ATTENTION,
            line=[(4.79, 3.72), (4.79, 3.12), (NOTE_X, 3.12)],
            name=f"[{before} + attn]   32 settings",
            what="each head's query, key and value; one hard\n"
            f"direction each, {3 * n_heads} in all",
        ),
    ]


def _draw_reach(ax, notes: list[_Note]):
    """An arrow per level: it applies the projections of all levels that follow it too."""
    for i, note in enumerate(notes):
        x = 15.15 + 0.32 * i
        color = COLORS[note.level]
        arrow = {"arrowstyle": "-|>", "color": color, "linewidth": 2}
        ax.annotate("", (x, ARROW_TOP), (x, note.height), arrowprops=arrow)
        ax.add_patch(Circle((x, note.height), 0.09, color=color))
    said = "each level applies\nall that follow it"
    ax.text(15.63, 11.3, said, fontsize=7.5, ha="center", va="bottom", color=INK)


# ---- parts of the diagram
@dataclass(frozen=True)
class _Box:
    """A rounded box with text in its middle; x and y are its lower left corner."""

    x: float
    y: float
    width: float
    height: float
    text: str = ""
    size: float = 9
    fill: str = PALE
    edge: str = EDGE
    weight: str = "normal"
    line: float = 1

    def draw(self, ax):
        ax.add_patch(
            FancyBboxPatch(
                (self.x, self.y),
                self.width,
                self.height,
                boxstyle="round,pad=0,rounding_size=.12",
                facecolor=self.fill,
                edgecolor=self.edge,
                linewidth=self.line,
            )
        )
        ax.text(
            self.x + self.width / 2,
            self.y + self.height / 2,
            self.text,
            ha="center",
            va="center",
            fontsize=self.size,
            color=INK,
            weight=self.weight,
        )


def _arrow(ax, start: tuple[float, float], end: tuple[float, float], color: str = GREY):
    ax.add_patch(
        FancyArrowPatch(
            start,
            end,
            arrowstyle="-|>",
            mutation_scale=7,
            color=color,
            linewidth=0.9,
            shrinkA=0,
            shrinkB=0,
        )
    )


def _arrows(ax, columns: list[float], bottom: float, top: float, color: str = GREY):
    """An arrow upwards at each column."""
    for x in columns:
        _arrow(ax, (x, bottom), (x, top), color)


def _projection(ax, x: float, y: float, color: str):
    """The mark of a projection: h - <h, g> g."""
    ax.add_patch(Circle((x, y), 0.24, facecolor=color, edgecolor="white", linewidth=1.2, zorder=3))
    minus = [x - 0.11, x + 0.11]
    ax.plot(minus, [y, y], color="white", linewidth=1.8, zorder=4, solid_capstyle="round")
