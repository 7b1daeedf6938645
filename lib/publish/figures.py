"""The figures of notebook 12: claims as tiles, printed numbers against ours, tests over
retrainings, three papers' remedies.
"""

import re
import textwrap

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from lib import look, together
from lib.engine.stats import Estimate
from lib.publish import retrainings
from lib.publish.papers import run_name
from lib.together import Effect, Role
from lib.verdict import Outcome

INK = "#333333"
TILE = 0.42  # inches, in `claims`
WORDS = 5.4  # inches that the words of a claim take there
NAME_WIDTH = 56  # letters in a line of a claim's name in `across`
CUT = 6  # half widths at which `across` cuts what lies further out
EFFECT_COLOURS = {
    Effect.BETTER: look.GOOD,
    Effect.WORSE: look.BAD,
    Effect.INCONCLUSIVE: look.NEITHER,
    Effect.CONTROL: look.NEITHER,
}


# ---- the board
def claims(rows: pd.DataFrame, runs: list[str], title: str, made_from: str = ""):
    """Claims in words, one row each; one column of tiles per run."""
    size = (WORDS + TILE * len(runs) + 0.5, 0.225 * len(rows) + 1.5)
    figure, ax = plt.subplots(figsize=size, layout="constrained")
    for y, claim in enumerate(rows.to_dict("records")):
        ax.text(-0.2, y, claim["claim"], ha="right", va="center", fontsize=8.4, color=INK)
        for x, run in enumerate(runs):
            _draw_tile(ax, x, y, claim[run], size=8)
    ax.set(xlim=(-WORDS / TILE, len(runs) + 0.6), ylim=(len(rows) - 0.4, -0.6), yticks=[])
    middles = [x + 0.5 for x in range(len(runs))]
    names = [run_name(run) for run in runs]
    ax.set_xticks(middles, names, rotation=35, ha="left", fontsize=8)
    ax.xaxis.tick_top()
    _explain_tiles(figure, ax)
    return look.sign(figure, title, f"{made_from}as stored in figures/")


def _draw_tile(ax, x: float, y: float, cell, size: float):
    """What a run says of a claim."""
    sign = look.OUTCOMES[cell.kind]
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
        ncols=5,  # two rows: one would be wider than the narrower figures
        fontsize=7.5,
        handletextpad=0.2,
        columnspacing=1,
    )


# ---- printed numbers
WRITTEN = re.compile(r"(-?\d*\.?\d+)(?: \[(-?\d*\.?\d+), (-?\d*\.?\d+)\])?")
FEWEST = 3  # numbers of a panel
WIDE = 50  # times: from here on a panel is logarithmic


def read_number(text: str) -> Estimate | None:
    """What a table says: "0.61 [0.58, 0.63]" or "0.61"; None of "< 0.05" and of words."""
    found = WRITTEN.fullmatch(str(text).strip())
    if not found:
        return None
    ends = [float(number) for number in found.groups() if number is not None]
    return Estimate(*ends)


def against_printed(rows: pd.DataFrame, paper: str, made_from: str):
    """Ours over the printed number, a point each with its interval and the diagonal; a panel a
    printed table. None where a paper prints too few numbers that a model has measured here.

    rows   columns table, printed and ours, as tables show them
    """
    known = rows.assign(
        printed=rows["printed"].map(read_number), ours=rows["ours"].map(read_number)
    )
    known = known.dropna(subset=["printed", "ours"])
    tables = known["table"].value_counts(sort=False)
    tables = tables[tables >= FEWEST].index
    if not len(tables):
        return None
    figure, axes = look.panels(len(tables), width=2.8, height=2.8)
    n_within = []
    for ax, table in zip(axes, tables, strict=True):
        of_table = known[known["table"] == table]
        x = np.array([one.value for one in of_table["printed"]])
        n_within += [
            one.low <= theirs <= one.high
            for one, theirs in zip(of_table["ours"], x, strict=True)
            if one.has_interval
        ]
        _draw_against(ax, x, list(of_table["ours"]), table)
    said = f"{len(known)} printed numbers beside ours, which are of other models"
    if n_within:
        said = f"{sum(n_within)} of {len(n_within)} intervals of ours reach the printed number"
    corner = f"{made_from}, of other models than the paper's; line: equal"
    return look.sign(figure, f"{paper}: {said}", corner)


def _draw_against(ax, x: np.ndarray, ours: list[Estimate], table: str):
    """The points of one printed table."""
    values, low, high = np.array([[*one] for one in ours]).T
    has_interval = ~np.isnan(low)
    ax.errorbar(
        x[has_interval],
        values[has_interval],
        yerr=look.arms(values[has_interval], low[has_interval], high[has_interval]),
        fmt="none",
        color=look.NEITHER,
        linewidth=1,
    )
    ax.plot(x, values, "o", color=look.SKY, markersize=4, alpha=0.7)
    both = np.concatenate([x, values])
    if both.min() > 0 and both.max() > WIDE * both.min():
        ax.set(xscale="log", yscale="log")
    ends = [both.min(), both.max()]
    ax.plot(ends, ends, color=INK, linewidth=0.8)
    ax.set(title=table, xlabel="printed", ylabel="ours")


# ---- retrainings
def across(over: pd.DataFrame, title: str):
    """Of each claim its first test over retrainings: mean, interval and the retrainings as
    strokes.
    """
    rows = over.drop_duplicates("id").to_dict("records")[::-1]
    figure, ax = plt.subplots(figsize=(look.PAGE, 0.24 * len(rows) + 1.6), layout="constrained")
    colours = {Outcome.SUPPORTED: look.GOOD, Outcome.CONTRADICTED: look.BAD}
    for y, row in enumerate(rows):
        colour = colours.get(row["outcome"], look.NEITHER)
        mean, each = retrainings.towards(row)
        interval = np.clip([mean.low, mean.high], -CUT, CUT)
        ax.plot(interval, [y, y], color=colour, linewidth=3, solid_capstyle="butt", alpha=0.6)
        ax.plot(np.clip(each, -CUT, CUT), [y] * len(each), "|", color=INK, markersize=8)
        ax.plot(np.clip(mean.value, -CUT, CUT), y, "o", color=colour, markersize=5)
    names = [textwrap.fill(row["claim"], NAME_WIDTH) for row in rows]
    ax.set_yticks(range(len(rows)), names, fontsize=7, linespacing=0.95)
    ax.axvline(0, color=INK, linewidth=0.8)
    ax.set_ylim(-0.7, len(rows) - 0.3)
    ax.set_xlabel(
        "distance on the claim's side of its threshold, in half widths of the interval "
        f"(cut at {CUT})"
    )
    return look.sign(
        figure,
        title,
        f"strokes: retrainings; data paper; of each claim its first test; grey: inconclusive, or "
        f"no more than a control. {retrainings.in_a_sentence(over)}",
    )


# ---- the three papers' remedies
def effects(table: pd.DataFrame, made_from: str):
    """What each remedy changes on each measure, a panel per measure."""
    changes = table[table["role"] != Role.NONE]
    remedies = changes["mitigation"].unique()
    size = (look.PAGE + 1.5, 0.72 * len(remedies) + 2.6)
    columns = len(together.MEASURES) // 2
    figure, axes = plt.subplots(2, columns, figsize=size, layout="constrained", sharey=True)
    for ax, measure in zip(axes.flat, together.MEASURES, strict=False):
        _draw_changes(ax, changes[changes["measure"] == measure], measure)
    axes[0, 0].set_yticks(range(len(remedies)), remedies)
    title, counted = _improved(changes)
    return look.sign(figure, title, f"{made_from}\n{counted}\n{_paid(changes)}")


def _draw_changes(ax, rows: pd.DataFrame, measure: str):
    """Of one measure: the change by remedy, in the order of the rows, with its interval."""
    for y, row in enumerate(rows.to_dict("records")):
        if pd.isna(row["change"]):
            across_axis = ax.get_yaxis_transform()
            text = ax.text(0.5, y, "does not apply", fontsize=7, transform=across_axis)
            text.set(color=look.NEITHER, ha="center", va="center")
            continue
        colour = EFFECT_COLOURS[together.judged(row)]
        interval = [row["low"], row["high"]]
        ax.plot(interval, [y, y], color=colour, linewidth=2, solid_capstyle="round")
        ax.plot(row["change"], y, "o", color=colour, markersize=5)
    is_cost = measure in together.COSTS
    better = "better →" if together.MEASURES[measure].better > 0 else "← better"
    ax.axvline(0, color=INK, linewidth=0.8)
    ax.set_title(measure, fontsize=9)
    ax.set_xlabel(f"cost: {better}" if is_cost else better, fontsize=7.5)
    ax.tick_params(labelsize=7)
    ax.locator_params(axis="x", nbins=3)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    if is_cost:
        ax.set_facecolor("#F7F7F5")


def _improved(changes: pd.DataFrame) -> tuple[str, str]:
    """Whether a remedy improves all measures of bias, and how many each does, in words."""
    is_bias = ~changes["measure"].isin(together.COSTS)
    is_remedy = changes["role"] != Role.CONTROL
    of_bias = changes[is_bias & is_remedy & changes["change"].notna()]
    judged = of_bias.assign(judged=of_bias.apply(together.judged, axis=1))
    by_remedy = judged.groupby("mitigation", sort=False)["judged"]
    most = by_remedy.size().max()
    better = {}
    said = []
    for name, found in by_remedy:
        better[name] = int((found == Effect.BETTER).sum())
        worse = int((found == Effect.WORSE).sum())
        of_how_many = f" of {len(found)}" if len(found) < most else ""
        on_one_line = name.replace(", ", ",\u00a0")  # a setting's digits stay together
        said.append(f"{on_one_line} {better[name]} better, {worse} worse{of_how_many}")
    who = "No remedy improves"
    if max(better.values(), default=0) == most:
        who = f"{max(better, key=better.get)} improves"
    return f"{who} all {most} measures of bias", f"by the 95 % interval: {'; '.join(said)}"


def remedies(table: pd.DataFrame) -> str:
    """A line per remedy in Markdown: which measures its interval puts on either side of 0, and
    which bias it overturns.
    """
    changes = table[~table["role"].isin((Role.NONE, Role.CONTROL))]
    lines = []
    for name, rows in changes.groupby("mitigation", sort=False):
        found = rows.assign(judged=rows.apply(together.judged, axis=1))
        said = []
        for word, effect in (("improves", Effect.BETTER), ("worsens", Effect.WORSE)):
            names = found.loc[found["judged"] == effect, "measure"]
            said.append(f"{word} {', '.join(names) or 'nothing'}")
        turned = found.loc[found["overturned"].astype(bool), "measure"]
        if len(turned):
            said.append(f"overturns {', '.join(turned)}")
        lines.append(f"- **{name}** {'; '.join(said)}.")
    return "\n".join(lines)


def _paid(changes: pd.DataFrame) -> str:
    """The costs of remedies whose interval excludes 0, in words."""
    is_cost = changes["measure"].isin(together.COSTS) & (changes["role"] != Role.CONTROL)
    costs = []
    for row in changes[is_cost].dropna(subset="change").to_dict("records"):
        if together.judged(row) == Effect.WORSE:
            costs.append(f"{row['mitigation']}: {row['measure']} {row['change']:+.2f}")
    said = f"costs whose 95 % interval excludes 0: {'; '.join(costs) or 'none'}"
    return textwrap.fill(said, 150)
