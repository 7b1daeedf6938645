"""One look for all figures: a palette, titles that state the finding, the model's name in a corner.

Female is blue and male orange, as in the figures of Counteracts, and nothing else has these two
colours. What biases is vermilion, what does not is green. The palette is colour-blind safe (Okabe
and Ito's set). Sizes are those of a paper's page. A figure may be wider by a quarter: its text can
still be read when it is printed as wide as the page.
"""

import math
import re
import textwrap
from dataclasses import dataclass

import matplotlib.patheffects as effects
import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from adjustText import adjust_text

FEMALE = "#0072B2"
MALE = "#E69F00"
ACCENT = "#CC79A7"
GOOD = "#009E73"
BAD = "#D55E00"
SKY = "#56B4E9"
NEITHER = "#7F7F7F"  # of words and lines
PALE = "#BDBDBD"  # of what is measured
LEVELS = (SKY, GOOD, ACCENT, BAD)  # of intervention: SENT, layer 12, layer 11, + attn
HEAT = sns.blend_palette(["#FBF4EE", BAD, "#5E2900"], as_cmap=True)  # from nothing to biased
SHADES = sns.blend_palette(["#FFFFFF", SKY], as_cmap=True)  # from 0 to 1, with numbers on them
# light enough for numbers in black
DIVERGING = sns.blend_palette(["#1F6FA5", SKY, "#FFFFFF", "#EE9A5B", "#C75400"], as_cmap=True)


@dataclass(frozen=True)
class Sign:
    """How an outcome is shown wherever it is shown: a tile of this colour with this mark."""

    tile: str
    mark: str
    ink: str = "#1D1F24"  # of the mark


# What a claim can come to (companion/claims.py): in figures, board, article and cards.
OUTCOMES = {
    "supported": Sign(GOOD, "✓", "#FFFFFF"),
    "contradicted": Sign(BAD, "✗", "#FFFFFF"),
    "undecided": Sign("#BFC1C4", "?"),
    "not tested": Sign("#F0F0EE", "–"),
}

# widths in inches
COLUMN = 4.2
PAGE = 8.4

NO_BREAK_SPACE = "\u00a0"
NO_BREAK_HYPHEN = "\u2011"


def style():
    """Set the look of every figure; a notebook calls it once."""
    sns.set_theme(
        style="ticks",
        context="notebook",
        font_scale=0.85,
        rc={
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.titlelocation": "left",
            "axes.titlesize": 11,
            "axes.titleweight": "bold",
            "axes.grid": True,
            "axes.axisbelow": True,
            "grid.color": "#E5E5E5",
            "grid.linewidth": 0.6,
            "legend.frameon": False,
            "figure.dpi": 110,
            "font.family": "DejaVu Sans",
        },
    )


def panels(n: int = 1, width: float = COLUMN, height: float = 3.4, **options):
    """A figure of n panels, and the list of their axes.

    The panels are side by side, in several rows if a page is too narrow for all of them.

    width, height   of a panel, in inches
    options         of matplotlib's `subplots`
    """
    most_in_a_row = max(1, int(1.25 * PAGE / width))
    rows = math.ceil(n / most_in_a_row)
    columns = math.ceil(n / rows)
    total_width = columns * width
    if rows > 1:
        total_width = max(PAGE, total_width)
    figure, axes = plt.subplots(
        rows,
        columns,
        figsize=(total_width, rows * height),
        layout="constrained",
        squeeze=False,
        **options,
    )
    for unused in axes.flat[n:]:
        unused.axis("off")
    return figure, list(axes.flat[:n])


def sign(figure, title: str, made_from: str):
    """Write the finding above a figure, and the model and data in its lower right corner.

    The title is broken into lines of similar length, never inside an interval or a name.
    """
    heading = figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold")
    _wrap(heading, room=0.96 * figure.bbox.width)
    if figure.legends:
        _fix_legends(figure)
    corner = figure.text(
        x=0.995,
        y=-0.01,
        s=made_from,
        ha="right",
        va="top",
        size=7 * max(1, figure.get_figwidth() / PAGE),
        color=NEITHER,
    )
    _wrap(corner, room=0.99 * figure.bbox.width)
    return figure


def _wrap(heading, room: float):
    """Break a text into lines that are no wider than `room`, in pixels, and of similar length.

    How wide a line is depends on its letters: lines of fewer and fewer letters are tried.
    """
    title = heading.get_text()
    unbroken = _without_breaks(title)

    def break_lines(letters: int):
        heading.set_text(textwrap.fill(unbroken, letters))

    estimate = round(1.2 * len(title) * room / _width(heading))  # to begin near the end
    letters = min(len(title), estimate)
    while _width(heading) > room and letters > 20:
        letters -= 1
        break_lines(letters)
    n_breaks = heading.get_text().count("\n")
    longest = max((len(word) for word in unbroken.split()), default=0)  # no word is broken
    for fewer in range(letters - 1, longest - 1, -1):
        if textwrap.fill(unbroken, fewer).count("\n") != n_breaks:
            break
        break_lines(fewer)
    broken = heading.get_text()
    heading.set_text(broken.replace(NO_BREAK_SPACE, " ").replace(NO_BREAK_HYPHEN, "-"))


def _without_breaks(title: str) -> str:
    """A title that cannot be broken before % or [, inside an interval [a, b], or at a hyphen."""
    before_sign = " (?=%|\\[)"
    inside_interval = "(?<=,) (?=[^ []+\\])"
    glued = re.sub(f"{before_sign}|{inside_interval}", NO_BREAK_SPACE, title)
    return glued.replace("-", NO_BREAK_HYPHEN)


def _width(text) -> float:
    """In pixels."""
    return text.get_window_extent().width


def _fix_legends(figure):
    """Let the legends of a figure stay where they are.

    Figures are saved in a tight frame, which would move a legend onto the text in the corner.
    """
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for legend in figure.legends:
        legend.set_bbox_to_anchor((0, 0, 1, 1), transform=figure.transFigure)


def arms(value, low, high) -> np.ndarray:
    """How far intervals reach below and above their values, [2, n], for `errorbar`.

    At least 0: a percentile interval may not include the value.
    """
    below_and_above = np.array([value - low, high - value]).reshape(2, -1)
    return np.maximum(0, below_and_above)


def dots(ax, estimates, places, upright: bool = False, **style):
    """Dots with their intervals: the one way in which a number with its doubt is drawn.

    estimates   Estimates, or (value, low, high)
    places      of each on the other axis: rows, or columns where the intervals stand upright
    style       of matplotlib's `errorbar`
    """
    value, low, high = np.transpose([tuple(one) for one in estimates])
    x, y = (places, value) if upright else (value, places)
    reach = {"yerr" if upright else "xerr": arms(value, low, high)}
    return ax.errorbar(x, y, **{"fmt": "o", "markersize": 4, "linewidth": 1.4} | reach | style)


def rows(ax, names):
    """Name the rows of a panel, the first on top, and leave out the lines between them."""
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.grid(axis="y", visible=False)


def mark(ax, at: float = 0.0, upright: bool = True, **style):
    """A thin dotted line at what counts as nothing, or at another number to compare with."""
    line = ax.axvline if upright else ax.axhline
    line(at, **{"color": NEITHER, "linewidth": 0.8, "linestyle": ":"} | style)


def band(ax, x, estimates, color: str, **style):
    """A line through estimates, with their intervals as a band around it."""
    value, low, high = np.transpose([tuple(one) for one in estimates])
    ax.fill_between(x, low, high, color=color, alpha=0.2, linewidth=0)
    ax.plot(x, value, **{"marker": "o", "markersize": 3, "color": color} | style)


def legend_below(figure, ax, columns: int):
    """One legend for all panels, that of `ax`, under them."""
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(handles, labels, fontsize=8, loc="outside lower center", ncols=columns)


def name_points(ax, x, y, names: dict):
    """Write names beside some points of a scatter plot, apart from one another and from all points.

    names   by a point's place in x and y. A thin line leads from a name to a point that is far off
    """
    x = np.asarray(x)
    y = np.asarray(y)
    above_points = {"zorder": 6, "path_effects": [effects.withStroke(linewidth=2, foreground="w")]}
    texts = []
    for place, name in names.items():
        texts.append(ax.text(x[place], y[place], name, fontsize=7.5, **above_points))
    adjust_text(
        texts,
        x=x,
        y=y,
        ax=ax,
        iter_lim=200,  # without it, the seconds spent decide: figures would differ by machine
        expand=(1.2, 1.6),
        force_text=(0.5, 0.8),
        max_move=20,
        arrowprops={"arrowstyle": "-", "color": NEITHER, "linewidth": 0.6},
    )


def odds_by_share(ax, frame, title: str):
    """Odds of she against he (log2) over the share of women in each occupation.

    A least-squares line is drawn with its bootstrap band, and the two occupations at either end are
    named. frame: columns occupation, percent_women, log_odds.
    """
    sns.regplot(
        frame,
        x="percent_women",
        y="log_odds",
        ax=ax,
        seed=0,
        n_boot=500,
        color="#333333",
        scatter=False,
        line_kws={"linewidth": 1.4},
    )
    ax.scatter(
        frame.percent_women,
        frame.log_odds,
        s=18,
        alpha=0.9,
        edgecolor="white",
        linewidth=0.4,
        c=np.where(frame.percent_women > 50, FEMALE, MALE),
    )
    ax.axhline(0, color=NEITHER, linewidth=0.8, linestyle=":")
    ax.axvline(50, color=NEITHER, linewidth=0.8, linestyle=":")
    ax.set(
        title=title,
        xlabel="women in the occupation, percent",
        ylabel="log2 odds, she : he",
        xlim=(0, 100),
    )
    ends = np.argsort(frame.log_odds.to_numpy())[[0, 1, -2, -1]]
    names = {end: frame.occupation.iloc[end] for end in ends}
    name_points(ax, frame.percent_women, frame.log_odds, names)


def fillers(ax, frame, title: str):
    """Bars of the likeliest words for a blank, pronouns in their gender's colour.

    frame: columns word, probability.
    """
    color_of = {"she": FEMALE, "he": MALE}
    colors = [color_of.get(word.lower(), "#C8C8C8") for word in frame.word]
    labels = [f"{p:.2f}" if p >= 0.005 else "< .01" for p in frame.probability]
    places = range(len(frame))[::-1]
    bars = ax.barh(places, frame.probability, height=0.7, color=colors)
    ax.bar_label(bars, labels, padding=3, fontsize=8)
    ax.set_yticks(places, frame.word)
    ax.set(title=title, xlim=(0, 1.12), xticks=np.linspace(0, 1, 6), xlabel="probability")
    ax.grid(axis="y", visible=False)


def worded(estimate, raises: str, lowers: str, neither: str, threshold: float = 0.0) -> str:
    """The word that an interval allows: above the threshold, below it, or on both sides."""
    if estimate.is_above(threshold):
        return raises
    return lowers if estimate.is_below(threshold) else neither
