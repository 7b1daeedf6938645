"""Notebook 12's figures: every claim of three papers as one tile per run, and what remedies do to every measure."""

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.patches import Rectangle

from lib import look, together
from lib.publish import scoreboard
from lib.publish.scoreboard import TESTED, Cell, kinds
from lib.together import Effect, Role
from lib.verdict import IN_PART, UNTESTABLE, Outcome

# colour and mark: told apart without the colour too. Blue and orange are the genders' alone.
TILES = {Outcome.HOLDS: (look.GOOD, "●"), IN_PART: ("#A5D8C8", "◐"), Outcome.FAILS: ("#E9A07A", "○"),
         Outcome.UNDECIDED: ("#E4E4E1", "?"), Outcome.NO_CASE: ("#E4E4E1", "∅"), UNTESTABLE: ("#E4E4E1", "–"),
         Outcome.NOT_RUN: ("#F4F4F2", "")}
INK = "#333333"
JUDGED = {Effect.BETTER: look.GOOD, Effect.WORSE: look.BAD, Effect.CHANCE: look.NEITHER, Effect.CONTROL: look.NEITHER}
TOPICS = {"02": "which heads", "03": "swapped words", "04": "masking", "05": "GLUE", "06": "debiased, chat",
          "07": "StereoSet", "08": "projections", "09": "inference", "11": "cloze", "": "untested"}


def wall(board: pd.DataFrame, runs: list[str]):
    """Every claim as a tile, one column each, by paper and notebook; one row per run."""
    board = board.assign(source=pd.Categorical(board["source"], list(dict.fromkeys(board["source"]))))
    board = board.sort_values(["source", "tested by"], key=lambda part: part.replace({"": "99"}), kind="stable")
    gap, columns, x = .8, [], 0.0
    for (paper, notebook), part in board.groupby(["source", "tested by"], sort=False, observed=True):
        x += gap if columns else 0
        x += 1.6 if columns and columns[-1][0] != paper else 0
        columns.append((paper, notebook, x, part))
        x += len(part)
    figure, ax = plt.subplots(figsize=(10, .42 * len(runs) + 1.9), layout="constrained")
    for _, notebook, start, part in columns:
        for i, row in enumerate(part.to_dict("records")):
            for y, run in enumerate(runs):
                _tile(ax, start + i, y, row[run], 7)
        ax.text(start + len(part) / 2, len(runs) - .38, TOPICS.get(notebook, notebook), rotation=30, ha="right",
                va="top", fontsize=8, color=INK, rotation_mode="anchor")
    for paper in board["source"].cat.categories:
        mine = [(start, start + len(part)) for name, _, start, part in columns if name == paper]
        part = board[board["source"] == paper]
        ax.text(mine[0][0], -.72, f"{paper}, {len(part)} claims", fontsize=9.5, fontweight="bold", va="bottom",
                color=INK)
    ax.set(xlim=(-.3, x + .3), ylim=(len(runs) - .3, -.95))
    ax.set_yticks(range(len(runs)), runs)
    ax.set_xticks([])
    _bare(ax)
    _legend(figure)
    told = "; ".join(f"{run}: {held(board, [run])}" for run in runs if "-seed" not in run)
    return look.sign(figure, f"How many of three papers' claims hold. {told}",
                      "fainter mark: within chance; results as stored in figures/")


def tiles(board: pd.DataFrame, paper: str, runs: list[str]):
    """The claims of one paper in words, one row each; one column per run."""
    part = board[board["source"] == paper]
    return _in_words(part, runs, f"{paper}: {held(part, [run for run in runs if '-seed' not in run])}")


def trainings(seeds: pd.DataFrame):
    """The claims that all trainings of one model test (scoreboard.seeds), in words; one column each."""
    return _in_words(seeds, scoreboard.trainings(seeds), scoreboard.alike(seeds), "mini-bert and its other seeds; ")


def _in_words(part: pd.DataFrame, runs: list[str], title: str, made_from: str = ""):
    width, text = .42, 5.4  # inches of a tile, and of a claim's words
    figure, ax = plt.subplots(figsize=(text + width * len(runs) + .5, .225 * len(part) + 1.5), layout="constrained")
    for y, row in enumerate(part.to_dict("records")):
        ax.text(-.2, y, row["claim"], ha="right", va="center", fontsize=8.4, color=INK)
        for x, run in enumerate(runs):
            _tile(ax, x, y, row[run], 8)
    ax.set(xlim=(-text / width, len(runs) + .6), ylim=(len(part) - .4, -.6))
    ax.set_xticks([x + .5 for x in range(len(runs))], runs, rotation=35, ha="left", fontsize=8)
    ax.xaxis.tick_top()
    ax.set_yticks([])
    _bare(ax)
    _legend(figure)
    return look.sign(figure, title, f"{made_from}fainter mark: within chance; as stored in figures/")


def _tile(ax, x: float, y: float, cell: Cell, size: float):
    color, mark = TILES[cell.kind]
    ax.add_patch(Rectangle((x + .06, y - .43), .88, .86, facecolor=color, edgecolor="none"))
    ax.text(x + .5, y, mark, ha="center", va="center", fontsize=size, alpha=.4 if cell.chance else 1,
            color="white" if cell.kind == Outcome.HOLDS else INK)


def _bare(ax):
    ax.tick_params(length=0)
    ax.grid(False)
    for side in ax.spines.values():
        side.set_visible(False)


def _legend(figure):
    shown = [plt.Line2D([], [], marker="s", linestyle="", markersize=9, color=color, label=f"{kind} {mark}".strip())
             for kind, (color, mark) in TILES.items()]
    figure.legend(handles=shown, loc="outside lower left", ncols=len(shown), fontsize=7.5, handletextpad=.2,
                  columnspacing=1)


def held(board: pd.DataFrame, runs: list[str]) -> str:
    """How many claims hold in the last run that tests any: "15 of 28 tested"."""
    for run in runs[::-1]:
        told = kinds(board[run])
        tested = told.isin(list(TESTED)).sum()
        if tested:
            return f"{(told == Outcome.HOLDS).sum()} of {tested} tested hold" + (f" in {run}" if len(runs) > 1 else "")
    return "none tested"


def effects(changes: pd.DataFrame, made_from: str):
    """Change against the untouched model, one panel per measure and one row per mitigation, with 95 % intervals."""
    changes = changes[changes["role"] != Role.NONE]
    names, measures = list(dict.fromkeys(changes["mitigation"])), list(together.MEASURES)
    figure, axes = plt.subplots(1, len(measures), figsize=(10.2, .36 * len(names) + 1.5), layout="constrained",
                                sharey=True)
    for ax, measure in zip(axes, measures):
        part = changes[changes["measure"] == measure].set_index("mitigation").loc[names]
        better = together.MEASURES[measure].better
        for y, (_, row) in enumerate(part.iterrows()):
            if pd.isna(row["change"]):
                ax.text(.5, y, "does not apply", fontsize=7, color=look.NEITHER, ha="center", va="center",
                        transform=ax.get_yaxis_transform())
                continue
            color = JUDGED[together.judged({**row, "measure": measure})]
            ax.plot([row["low"], row["high"]], [y, y], color=color, linewidth=2, solid_capstyle="round")
            ax.plot(row["change"], y, "o", color=color, markersize=5)
        ax.axvline(0, color=INK, linewidth=.8)
        ax.set_title(measure, fontsize=9)
        ax.set_xlabel(("cost: " if measure in together.COSTS else "") +
                      ("better →" if better > 0 else "← better"), fontsize=7.5)
        ax.tick_params(labelsize=7)
        ax.locator_params(axis="x", nbins=3)
        ax.set_ylim(len(names) - .5, -.5)
        if measure in together.COSTS:
            ax.set_facecolor("#F7F7F5")
    axes[0].set_yticks(range(len(names)), names)
    return look.sign(figure, together.headline(changes),
                     f"{made_from}; of random heads the range of the draws")
