"""Table 2 of Bias A-head from the runs that glue.py stored: means over seeds, changes, claims.

    stored = glue_tables.stored(run)         a row a run and metric
    found = glue_tables.whole(stored)        the tasks that are done
    glue_tables.table2(found), glue_tables.changes(found), glue_tables.claims(found)

Spreads and intervals are over seeds: what another start of the new head and another order of the examples change. That
the evaluation sets are samples too (WNLI's has 71 pairs) comes on top.
"""

import json
from pathlib import Path

import pandas as pd

from lib import paths
from lib import printed as paper
from lib.bias_a_head import glue
from lib.engine import limit, stats
from lib.publish.profile import read_profile
from lib.publish.run import Run, slug
from lib.text import data as sources
from lib.text import readers

PAPER, TABLE = "bias_a_head", "Table 2"
COMPARABLE = .01  # how much lower a score may be and still be called comparable; ours, the paper states none
LEARNED = .02  # by how much the unmasked model must be above one answer for all, or masking has nothing to take away
COLUMNS = ["task", "metric", "row", "mask", "seed", "score", "constant", "made"]


def folder(run: Run) -> Path:
    """Where a run's results lie, computed first when that is asked for.

    The run on the papers' data computes what is missing with the profile paper, and everything anew where `recompute`
    is on and the files are at hand; on a CPU that takes hours. Every other run shows what that one stored.
    """
    real = Run(profile=run.profile, data="paper", model=run.model)
    at_hand = all(sources.available(f"glue/{file}.tsv") for files in readers.GLUE.values() for file in files.values())
    if run.name != real.name or not (run.profile == "paper" or run.recompute and at_hand):
        return paths.FIGURES / real.name.removesuffix(limit.suffix()) / "05_glue"
    out, source = run.out / "05_glue", "hub" if run.profile == "paper" else "files"
    if run.recompute:
        for file in out.glob("*.json"):
            file.unlink()
    prepared = paths.CACHE / "glue" / f"{slug(run.encoder)}-{source}{limit.suffix()}"
    tasks, profile = glue.available(source), read_profile(run.profile)
    if not (out / glue.RANKING).exists():
        glue.rank(run.encoder, run.data, run.sizes.heads_contexts, out / glue.RANKING, run.seed, run.device)
    glue.prepare(run.encoder, source, tasks, prepared, out)
    for task, mask, seed in glue.plan(tasks, list(glue.MASKS), range(2 if limit.items() else 3)):
        glue.run(run.encoder, profile, prepared, out, task, mask, seed, run.device, progress=True)
    return out


def stored(run: Run) -> pd.DataFrame:
    """What is stored for a run, `read`; the revision that was fine-tuned goes with everything that the run saves."""
    place = folder(run)
    run.revisions |= {one["model"]: one["revision"] for one in map(json.loads, map(Path.read_text, _runs(place)))}
    return read(place)


def _runs(place: Path) -> list[Path]:
    return sorted(place.glob("*_*_*.json"))


def read(place: Path) -> pd.DataFrame:
    """Every stored run, a row a metric, in Table 2's order."""
    rows = []
    for one in map(json.loads, map(Path.read_text, _runs(place))):
        task, about = one["task"], json.loads((place / glue.ABOUT).read_text())[one["task"]]
        made = f"{one['model']} {one['revision']}, {one['device']}, torch {one['torch']}"
        for metric, score, constant in zip(glue.TASKS[task].names, one["scores"], about["constant"]):
            rows.append([task, metric, f"{task} {metric}", glue.MASKS[one["mask"]], one["seed"], score, constant, made])
    found = pd.DataFrame(rows, columns=COLUMNS)
    order = {name: i for i, name in enumerate([*glue.TASKS, *glue.MASKS.values()])}
    return found.sort_values(["task", "mask", "seed"], kind="stable", ignore_index=True,
                             key=lambda column: column.map(order) if column.name != "seed" else column)


def made(stored: pd.DataFrame) -> str:
    """A line on what is stored: how many runs, of which model, made where."""
    runs = stored.drop_duplicates(["task", "mask", "seed"])
    if runs.empty:
        return "No run is stored for this model: make them with `python -m lib.bias_a_head.glue prepare` and `run`, on a GPU."
    return f"{len(runs)} runs, as stored by `python -m lib.bias_a_head.glue run`: {'; '.join(runs['made'].unique())}"


def whole(found: pd.DataFrame) -> pd.DataFrame:
    """The tasks of which every mask has the same seeds, two or more: a mean of what happens to be done is none."""
    done = {task: part.groupby("mask")["seed"].agg(frozenset) for task, part in found.groupby("task")}
    return found[found["task"].isin([task for task, seeds in done.items() if len(seeds) == len(glue.MASKS)
                                     and seeds.nunique() == 1 and len(seeds.iloc[0]) > 1])]


def learned(found: pd.DataFrame) -> list[str]:
    """The rows (task and metric) where the unmasked model is above one answer for all by more than LEARNED."""
    full = found[found["mask"] == glue.MASKS["none"]].groupby("row", sort=False)[["score", "constant"]].mean()
    return list(full.index[full["score"] > full["constant"] + LEARNED])


def table2(found: pd.DataFrame) -> pd.DataFrame:
    """Table 2: a row a metric; of ours the mean over seeds and the standard deviation, beside the printed numbers; "-"
    where there is none.

    `constant` is the best that one answer for all gets: whoever has not more has learned nothing.
    """
    printed = paper.printed(PAPER, TABLE)
    mean, sd = (found.pivot_table(index="row", columns="mask", values="score", aggfunc=how) for how in ("mean", "std"))
    table = pd.DataFrame(index=printed.index)
    for mask in glue.MASKS.values():
        table[mask] = [f"{mean.loc[row, mask]:.3f} ± {sd.loc[row, mask]:.3f}" if row in mean.index else "-"
                       for row in table.index]
        table[f"paper, {mask}"] = printed[mask].map("{:.4f}".format)
    table.insert(0, "constant", found.groupby("row")["constant"].first().reindex(table.index).map("{:.3f}".format)
                 .replace("nan", ""))
    return table


def changes(found: pd.DataFrame) -> pd.DataFrame:
    """Against the unmasked model of the same seed: row, mask, value, low, high (95 %, Student's), printed.

    Rows that were not run have the printed change alone.
    """
    printed = paper.printed(PAPER, TABLE)
    full, *masks = glue.MASKS.values()
    wide = found.pivot(index=["row", "seed"], columns="mask", values="score")
    rows = []
    for row in printed.index:
        for mask in masks:
            theirs = round(printed.loc[row, mask] - printed.loc[row, full], 4)
            ours = stats.mean(wide.loc[row, mask] - wide.loc[row, full]) if row in wide.index else (float("nan"),) * 3
            rows.append([row, mask, *ours, theirs])
    return pd.DataFrame(rows, columns=["row", "mask", "value", "low", "high", "printed"])


def not_run(found: pd.DataFrame) -> pd.DataFrame:
    """The tasks of Table 2 that are not run, or partly, and why; `found` is everything that is stored."""
    done = found[~found.duplicated(["task", "mask", "seed"])]["task"].value_counts()
    rows = []
    for task in glue.TASKS:
        if task not in set(whole(found)["task"]):
            runs = f"{done.get(task, 0)} of {3 * len(glue.MASKS)} runs are done: go on with `python -m lib.bias_a_head.glue run`"
            rows.append((task, "partly run" if task in done else "not run", glue.MISSING.get(task, runs)))
    return pd.DataFrame(rows, columns=["task", "state", "why"])


def against_paper(found: pd.DataFrame, same_model: bool) -> pd.DataFrame:
    """paper | ours | difference | verdict, a row a printed number; ours with Student's interval over seeds."""
    ours = {(TABLE, row, mask): stats.mean(part["score"]) for (row, mask), part in found.groupby(["row", "mask"])}
    return paper.compare(PAPER, ours, same_model, tables=[TABLE], digits=3, missing="see the list of tasks not run",
                         why="other seeds and settings, which the paper does not state")


def claims(found: pd.DataFrame) -> pd.DataFrame:
    """What the paper says of Table 2: its number, ours, and whether the claim holds here.

    Ours are over what the unmasked model has learned (`learned`), each task by its first metric there, so that a task
    with two does not count twice; intervals are over seeds. Comparable is taken to mean at most one point (.01) lower.
    """
    printed, first = paper.printed(PAPER, TABLE), [f"{task} {rule.names[0]}" for task, rule in glue.TASKS.items()]
    full, top, every = glue.MASKS.values()
    theirs, wins = printed.loc[first].mean(), int((printed[top] > printed[every]).sum())
    table = pd.DataFrame({
        "claim": ["Masking the top 3 heads keeps the scores comparable", "Masking all biased heads worsens them",
                  "Top-3 scores above All in every metric"],
        "paper": [f"{theirs[top] - theirs[full]:+.3f}, 9 tasks", f"{theirs[every] - theirs[full]:+.3f}, 9 tasks",
                  f"{wins} of {len(printed)}"]})
    found = found[found["row"].isin(learned(found))]
    if found.empty:
        return table.assign(ours="", verdict="not run (no task is done that the unmasked model has learned)")
    one = found[found["row"].isin(found.groupby("task")["row"].first())]
    by_seed = one.pivot_table(index="seed", columns="mask", values="score", aggfunc="mean")
    moved = {mask: stats.mean(by_seed[mask] - by_seed[full]) for mask in (top, every)}
    mean, tasks = found.pivot_table(index="row", columns="mask", values="score"), ", ".join(found["task"].unique())
    above = int((mean[top] > mean[every]).sum())
    kept = stats.Estimate(*(value + COMPARABLE for value in moved[top]))
    lost = stats.Estimate(-moved[every].value, -moved[every].high, -moved[every].low)
    return table.assign(
        ours=[f"{_three(moved[top])}, {tasks}", f"{_three(moved[every])}, {tasks}", f"{above} of {len(mean)}"],
        verdict=[paper.claim(kept), paper.claim(lost), "holds" if above == len(mean) else "fails"])


def _three(estimate: stats.Estimate) -> str:
    return "{:+.3f} [{:+.3f}, {:+.3f}]".format(*estimate)
