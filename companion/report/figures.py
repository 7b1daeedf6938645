"""The figures of notebook 12: claims as tiles, printed numbers against ours, tests over
retrainings. That of the remedies is in companion/remedies.py.
"""

import textwrap

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from companion import claims as known, look
from companion.claims import Outcome
from companion.ledger import towards

INK = "#333333"
TILE = 0.42  # inches, in `claims`
WORDS = 5.4  # inches that the words of a claim take there
NAME_WIDTH = 56  # letters in a line of a claim's name in `across`
CUT = 6  # half widths at which `across` cuts what lies further out


# ---- the board
def claims(tiles: pd.DataFrame, title: str, made_from: str):
    """What claims came to: a row of tiles each.

    tiles   outcomes; the index says the claims, columns say what they are of
    """
    size = (WORDS + TILE * len(tiles.columns) + 0.5, 0.225 * len(tiles) + 1.5)
    figure, ax = plt.subplots(figsize=size, layout="constrained")
    for y, (claim, outcomes) in enumerate(tiles.iterrows()):
        ax.text(-0.2, y, claim, ha="right", va="center", fontsize=8.4, color=INK)
        for x, outcome in enumerate(outcomes):
            _draw_tile(ax, x, y, outcome, size=8)
    width = len(tiles.columns)
    ax.set(xlim=(-WORDS / TILE, width + 0.6), ylim=(len(tiles) - 0.4, -0.6), yticks=[])
    middles = [x + 0.5 for x in range(width)]
    ax.set_xticks(middles, tiles.columns, rotation=35, ha="left", fontsize=8)
    ax.xaxis.tick_top()
    _explain_tiles(figure, ax)
    return look.sign(figure, title, made_from)


def _draw_tile(ax, x: float, y: float, outcome: str, size: float):
    """What a claim came to in a run."""
    sign = look.OUTCOMES[outcome]
    tile = plt.Rectangle((x + 0.06, y - 0.43), 0.88, 0.86, facecolor=sign.tile, edgecolor="none")
    ax.add_patch(tile)
    ax.text(x + 0.5, y, sign.mark, ha="center", va="center", fontsize=size, color=sign.ink)


def _explain_tiles(figure, ax):
    """Take the frame around tiles away, and say what their colours and marks mean."""
    ax.tick_params(length=0)
    ax.grid(False)
    ax.spines[:].set_visible(False)
    meanings = []
    for kind, sign in look.OUTCOMES.items():
        square = {"marker": "s", "linestyle": "", "markersize": 9, "color": sign.tile}
        meanings.append(plt.Line2D([], [], **square, label=f"{kind} {sign.mark}"))
    figure.legend(
        handles=meanings,
        loc="outside lower left",
        ncols=len(meanings),
        fontsize=7.5,
        handletextpad=0.2,
        columnspacing=1,
    )


# ---- printed numbers
FEWEST = 3  # numbers of a printed column that is drawn
COLUMN_COLOURS = (look.SKY, look.GOOD, look.ACCENT, look.BAD, look.NEITHER, INK)
NAMES = {"S": "Strength", "D": "Distance", "eta": "fairness"}  # of columns, in keys
WIDE = 50  # times: from here on a panel is logarithmic


def against_printed(rows: pd.DataFrame, paper: str, made_from: str):
    """Ours over the printed number, a point each with its interval and the diagonal; a panel a
    printed table, a colour a column. None where a paper prints too few numbers that a model has
    measured here.

    rows   columns table, column, printed (digits as printed) and ours (Estimates)
    """
    printed = pd.to_numeric(rows["printed"], errors="coerce")  # of "< 0.05" and of words none
    known = rows.assign(printed=printed).dropna(subset=["printed", "ours"])
    of_column = known.groupby(["table", "column"])["ours"].transform("size")
    known = known[of_column >= FEWEST]
    tables = known["table"].unique()
    if not len(tables):
        return None
    figure, axes = look.panels(len(tables), width=2.8, height=2.8)
    for ax, table in zip(axes, tables, strict=True):
        _draw_against(ax, known[known["table"] == table], table)
    both = zip(known["ours"], known["printed"], strict=True)
    reach = [ours.low <= theirs <= ours.high for ours, theirs in both if ours.has_interval]
    beside = f"{len(known)} numbers of other, smaller models beside the printed ones"
    corner = f"{made_from}; line: equal"
    if not reach:
        return look.sign(figure, f"{paper}: {beside}", corner)
    said = f"{sum(reach)} of {len(reach)} intervals of smaller models reach the printed number"
    return look.sign(figure, f"{paper}: {said}", f"{beside}; {corner}")


def _draw_against(ax, rows: pd.DataFrame, table: str):
    """The points of one printed table, a colour a column, with a key where there are several."""
    columns = rows["column"].unique()
    for place, column in enumerate(columns):
        mine = rows[rows["column"] == column]
        color = COLUMN_COLOURS[place % len(COLUMN_COLOURS)]
        name = NAMES.get(column, column)
        look.dots(ax, mine["ours"], mine["printed"], upright=True, color=color, label=name)
    both = np.array([*rows["printed"], *(one.value for one in rows["ours"])])
    if both.min() > 0 and both.max() > WIDE * both.min():
        ax.set(xscale="log", yscale="log")
    ends = [both.min(), both.max()]
    ax.plot(ends, ends, color=INK, linewidth=0.8)
    ax.set(title=table, xlabel="printed", ylabel="ours")
    if len(columns) > 1:
        ax.legend(fontsize=6.5, handletextpad=0.1)


# ---- retrainings
def across(over: pd.DataFrame, title: str):
    """Each test of ledger.trainings, a line each: the mean and its interval, thinner that of
    another training, and the retrainings as strokes.
    """
    figure, ax = plt.subplots(figsize=(look.PAGE, 0.24 * len(over) + 1.6), layout="constrained")
    colours = {Outcome.SUPPORTED: look.GOOD, Outcome.CONTRADICTED: look.BAD}
    for y, row in enumerate(over.to_dict("records")):
        colour = colours.get(row["outcome"], look.NEITHER)
        mean, another, each = towards(row)
        for one, width in ((another, 1), (mean, 3)):
            cut = np.clip([*one], -CUT, CUT)
            look.dots(ax, [cut], [y], color=colour, linewidth=width, markersize=0)
        ax.plot(np.clip(each, -CUT, CUT), [y] * len(each), "|", color=INK, markersize=8)
        ax.plot(cut[0], y, "o", color=colour, markersize=5)
    says = [known.claims()[claim].says for claim in over["claim"]]
    look.rows(ax, [textwrap.fill(text, NAME_WIDTH) for text in says])
    ax.tick_params(axis="y", labelsize=7)
    look.mark(ax, color=INK, linestyle="-")
    ax.set_xlabel(
        "distance on the claim's side of its threshold, in half widths of the interval "
        f"(cut at {CUT})"
    )
    return look.sign(
        figure,
        title,
        "strokes: retrainings of mini-bert; thick: interval of their mean, thin: of another "
        "training; real text; of each claim the first test that decides it; green: supported, "
        "vermilion: contradicted, grey: undecided",
    )
