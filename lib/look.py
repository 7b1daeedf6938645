"""Figures that look like one family: one palette, titles that state the finding, the model's name in a corner.

Female is blue and male orange, as in the figures of Counteracts, and nothing else is: what biases is vermilion, what
does not is green. All of them keep apart for the colour-blind (Okabe and Ito's set). Sizes are those of a paper's page:
a figure that is wider, by at most a quarter, has text that can still be read when it is made as small as the page."""

import re
import textwrap
from itertools import product

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from matplotlib.text import Text

from lib import CompanionError

FEMALE, MALE = "#0072B2", "#E69F00"
ACCENT, GOOD, BAD, SKY = "#CC79A7", "#009E73", "#D55E00", "#56B4E9"
NEITHER, PALE = "#7F7F7F", "#BDBDBD"  # for words and lines; for what is measured
LEVELS = (SKY, GOOD, ACCENT, BAD)  # of intervention: SENT, layer 12, layer 11, + attn
HEAT = sns.blend_palette(["#FBF4EE", BAD, "#5E2900"], as_cmap=True)  # from nothing to biased
SHADES = sns.blend_palette(["#FFFFFF", SKY], as_cmap=True)  # from 0 to 1, with numbers on them
DIVERGING = sns.blend_palette(
    ["#1F6FA5", SKY, "#FFFFFF", "#EE9A5B", "#C75400"], as_cmap=True
)  # black shows on it
COLUMN, PAGE = 4.2, 8.4  # inches
SMALLEST = 5.6  # points of print, when the figure is made as small as the page


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
    """A figure of n panels side by side, in several rows where the page is too narrow: (figure, list of axes)."""
    rows = -(-n // max(1, int(1.25 * PAGE / width)))
    columns = -(-n // rows)
    size = columns * width if rows == 1 else max(PAGE, columns * width), rows * height
    figure, axes = plt.subplots(
        rows, columns, figsize=size, layout="constrained", squeeze=False, **options
    )
    for ax in axes.flat[n:]:
        ax.axis("off")
    return figure, list(axes.flat[:n])


def sign(figure, title: str, made_from: str):
    """The finding above the figure, no line of it ending within an interval or a name; model and data in its corner."""
    heading = figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold")
    letters, glued = (
        len(title),
        re.sub(r" (?=%|\[)|(?<=,) (?=[^ []+\])", "\u00a0", title).replace("-", "\u2011"),
    )
    room, width = 0.96 * figure.bbox.width, heading.get_window_extent().width
    letters = min(letters, round(1.2 * letters * room / width))  # to begin near the end
    while heading.get_window_extent().width > room and letters > 20:
        heading.set_text(textwrap.fill(glued, letters := letters - 1))
    lines = heading.get_text().count("\n")
    while lines and textwrap.fill(glued, letters - 1).count("\n") == lines:  # lines of like length
        heading.set_text(textwrap.fill(glued, letters := letters - 1))
    heading.set_text(heading.get_text().replace("\u00a0", " ").replace("\u2011", "-"))
    if figure.legends:  # to stay where they are: a tight frame, as figures are saved with, moves them into the corner
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
    for legend in figure.legends:
        legend.set_bbox_to_anchor((0, 0, 1, 1), transform=figure.transFigure)
    figure.text(
        0.995,
        -0.01,
        made_from,
        ha="right",
        va="top",
        size=7 * max(1, figure.get_figwidth() / PAGE),
        c=NEITHER,
    )
    return figure


def check(figure, models=()):
    """Refuse a figure, once it is drawn, that is not one of the family: its finding above it in at most three lines, in
    its corner one of the models that it was made from, no wider than a page can bear, print that can be read there."""
    width = max(figure.get_tightbbox().width, figure.get_figwidth())
    corner = [
        text.get_text()
        for text in figure.texts
        if text.get_ha() == "right" and text.get_position()[1] < 0
    ]
    points = min(text.get_fontsize() for text in figure.findobj(Text) if text.get_text().strip())
    title = figure.get_suptitle()
    wrong = {
        "its title says no finding": len(title.split()) < 4,
        "its title is too long": title.count("\n") > 2,
        "its corner names no model": len(corner) != 1
        or models
        and not any(name in corner[0] for name in models),
        "it is too wide": width > 1.28 * PAGE,
        "its print is too small": points / max(1, width / PAGE) < SMALLEST,
    }
    if any(wrong.values()):
        raise CompanionError(
            f"The figure '{title}' has to be changed: {', '.join(k for k in wrong if wrong[k])}."
        )


def arms(value, low, high) -> np.ndarray:
    """How far intervals reach below and above, [2, n], for `errorbar`; at least 0: percentiles may miss the value."""
    return np.maximum(0, np.atleast_2d(np.array([value - low, high - value]).T).T)


def name_points(ax, x, y, names: dict):
    """Names of points (by their place in x and y) at the nearest of 168 places around each that cover, and from which a
    thin line to a far point crosses, no other name and line and as few points as can be."""
    ax.figure.draw_without_rendering()  # or no one knows yet how large the axes are
    at, frame, point = (
        ax.transData.transform(np.column_stack([x, y])),
        ax.get_window_extent(),
        ax.figure.dpi / 72,
    )
    taken, lines = [], [np.empty((0, 2))]
    for place, name in names.items():
        text = ax.annotate(name, (0, 0), fontsize=7.5)
        box = text.get_window_extent()
        text.remove()
        tried = []
        for far, dx, dy in product(
            (4, 8, 13, 20, 28, 38, 50, 64), (1, -1, 0), (0.5, -0.5, 1, -1, 0, 1.5, -1.5)
        ):
            left = at[place][0] + dx * far * point - box.width * (1 - dx) / 2
            low = at[place][1] + dy * far * point - box.height * (1 - np.sign(dy)) / 2
            corners = np.array([left, low, left + box.width, low + box.height])
            apart = np.linalg.norm(
                np.maximum(0, np.maximum(corners[:2] - at, at - corners[2:])), axis=1
            )  # from points
            inside = (apart < 3).sum() + (
                far <= 10 and (apart < apart[place]).any()
            )  # whose name it is, is clear
            others = sum(
                (corners[:2] < other[2:] + 4).all() and (corners[2:] > other[:2] - 4).all()
                for other in taken
            )
            outside = (
                left < frame.x0 or low < frame.y0 or corners[2] > frame.x1 or corners[3] > frame.y1
            )
            line = at[place] + np.outer(
                np.linspace(0, far > 10, 20), [dx * far * point, dy * far * point]
            )
            crossed = sum(
                ((line > other[:2]) & (line < other[2:])).all(axis=1).any() for other in taken
            )
            crossed += (
                ((np.concatenate(lines) > corners[:2]) & (np.concatenate(lines) < corners[2:]))
                .all(axis=1)
                .any()
            )
            tried.append(
                (
                    50 * (others + outside) + 20 * crossed + inside + far / 40,
                    corners,
                    line,
                    far,
                    dx,
                    dy,
                )
            )
        _, corners, line, far, dx, dy = min(tried, key=lambda trial: trial[0])
        taken, lines = [*taken, corners], [*lines, line]
        ax.annotate(
            name,
            (np.asarray(x)[place], np.asarray(y)[place]),
            xytext=(dx * far, dy * far),
            fontsize=7.5,
            textcoords="offset points",
            ha={1: "left", 0: "center", -1: "right"}[dx],
            va={1: "bottom", 0: "center", -1: "top"}[np.sign(dy)],
            arrowprops={"arrowstyle": "-", "color": NEITHER, "linewidth": 0.6}
            if far > 10
            else None,
        )


def odds_by_share(ax, frame, title: str):
    """Odds of she against he (log2) over the share of women in each occupation (columns occupation, percent_women,
    log_odds), with the least-squares line and its bootstrap band; the two occupations at either end are named."""
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
        c=[FEMALE if share > 50 else MALE for share in frame.percent_women],
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
    name_points(
        ax, frame.percent_women, frame.log_odds, {end: frame.occupation.iloc[end] for end in ends}
    )


def fillers(ax, frame, title: str):
    """The likeliest words for a blank (columns word, probability), pronouns in their gender's colour."""
    places = range(len(frame))[::-1]
    colors = [{"she": FEMALE, "he": MALE}.get(word.lower(), "#C8C8C8") for word in frame.word]
    bars = ax.barh(places, frame.probability, height=0.7, color=colors)
    ax.bar_label(
        bars,
        [f"{p:.2f}" if p >= 0.005 else "< .01" for p in frame.probability],
        padding=3,
        fontsize=8,
    )
    ax.set_yticks(places, frame.word)
    ax.set(title=title, xlim=(0, 1.12), xticks=np.linspace(0, 1, 6), xlabel="probability")
    ax.grid(axis="y", visible=False)
