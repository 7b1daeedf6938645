"""Tables of notebooks 05 and 06 (Bias A-head, Table 2 and Fig. 5-7).

05: `runs` is `scores` of what glue.stored hands out, one row per run and metric; spreads and intervals are over seeds:
what another start of the new head and another order of the examples change. That the evaluation sets are samples too
(WNLI's has 71 pairs) comes on top.
06: `results` are those of heads.measure on gender by the model's name; `base` is the name of the model that the
debiased ones are compared with; `tested` are their debiased.associations, `leanings` their debiased.leaning.
"""

import pandas as pd

from lib import printed
from lib.bias_a_head import debiased, glue, heads, tables
from lib.bias_a_head.debiased import FOLLOWED, short
from lib.engine import stats
from lib.text import english

PAPER, TABLE2 = "bias_a_head", "Table 2"
LEARNED = .02  # by how much the unmasked model must be above one answer for all, or masking has nothing to take away
COLUMNS = ["task", "metric", "row", "mask", "seed", "score", "constant", "made"]


# ---- 05: GLUE

def scores(results: list[dict]) -> pd.DataFrame:
    """Every stored run, one row per metric, in Table 2's order."""
    rows = []
    for result in results:
        task = result["task"]
        made = f"{result['model']} {result['revision']}, {result['device']}, torch {result['torch']}"
        for metric, score, constant in zip(glue.TASKS[task].names, result["scores"], result["constant"]):
            rows.append([task, metric, f"{task} {metric}", glue.MASKS[result["mask"]], result["seed"], score, constant,
                         made])
    order = {name: i for i, name in enumerate([*glue.TASKS, *glue.MASKS.values()])}
    return pd.DataFrame(rows, columns=COLUMNS).sort_values(
        ["task", "mask", "seed"], kind="stable", ignore_index=True,
        key=lambda column: column.map(order) if column.name != "seed" else column)


def made(runs: pd.DataFrame, others: int = 0) -> str:
    """What is stored, in words: how many runs, of which model, made where; and how many are not shown."""
    once, command = runs.drop_duplicates(["task", "mask", "seed"]), "python -m lib.bias_a_head.glue"
    text = f"{len(once)} runs, as stored by `{command} run`: {'; '.join(once['made'].unique())}"
    if once.empty:
        text = f"No run is stored for this model: make them with `{command} prepare` and `run`, on a GPU."
    more = f"\nNot shown: {others} more of other weights, settings or examples, stored beside them."
    return text + (more if others else "")


def whole(runs: pd.DataFrame) -> pd.DataFrame:
    """The tasks of which every mask has the same seeds, two or more: a mean of what happens to be done is none."""
    done = {task: rows.groupby("mask")["seed"].agg(frozenset) for task, rows in runs.groupby("task")}
    return runs[runs["task"].isin([task for task, seeds in done.items() if len(seeds) == len(glue.MASKS)
                                   and seeds.nunique() == 1 and len(seeds.iloc[0]) > 1])]


def learned(runs: pd.DataFrame) -> list[str]:
    """The rows (task and metric) where the unmasked model is above one answer for all by more than LEARNED."""
    full = runs[runs["mask"] == glue.MASKS["none"]].groupby("row", sort=False)[["score", "constant"]].mean()
    return list(full.index[full["score"] > full["constant"] + LEARNED])


def table2(runs: pd.DataFrame) -> pd.DataFrame:
    """Table 2, one row per metric: of ours the mean over seeds and the standard deviation, beside the printed numbers;
    "-" where there is none. `constant` is the best that one answer for all gets."""
    theirs = printed.printed(PAPER, TABLE2)
    mean, sd = (runs.pivot_table(index="row", columns="mask", values="score", aggfunc=how) for how in ("mean", "std"))
    table = pd.DataFrame(index=theirs.index)
    for mask in glue.MASKS.values():
        table[mask] = [f"{mean.loc[row, mask]:.3f} ± {sd.loc[row, mask]:.3f}" if row in mean.index else "-"
                       for row in table.index]
        table[f"paper, {mask}"] = theirs[mask].map("{:.4f}".format)
    table.insert(0, "constant", runs.groupby("row")["constant"].first().reindex(table.index).map("{:.3f}".format)
                 .replace("nan", ""))
    return table


def changes(runs: pd.DataFrame) -> pd.DataFrame:
    """Against the unmasked model of the same seed: row, mask, value, low, high (95 %, Student's), printed.

    Rows that were not run have the printed change alone.
    """
    theirs = printed.printed(PAPER, TABLE2)
    full, *masks = glue.MASKS.values()
    wide = runs.pivot(index=["row", "seed"], columns="mask", values="score")
    rows = []
    for row in theirs.index:
        for mask in masks:
            change = stats.Estimate(float("nan"))
            if row in wide.index:
                change = stats.mean(wide.loc[row, mask] - wide.loc[row, full])
            rows.append([row, mask, *change, round(theirs.loc[row, mask] - theirs.loc[row, full], 4)])
    return pd.DataFrame(rows, columns=["row", "mask", "value", "low", "high", "printed"])


def not_run(runs: pd.DataFrame) -> pd.DataFrame:
    """The tasks of Table 2 that are not run, or partly, and why; `runs` is everything that is stored."""
    done = runs[~runs.duplicated(["task", "mask", "seed"])]["task"].value_counts()
    complete, rows = set(whole(runs)["task"]), []
    for task in (task for task in glue.TASKS if task not in complete):
        why = (f"{done.get(task, 0)} of {3 * len(glue.MASKS)} runs are done: go on with "
               "`python -m lib.bias_a_head.glue run`")
        rows.append((task, "partly run" if task in done else "not run", glue.MISSING.get(task, why)))
    return pd.DataFrame(rows, columns=["task", "state", "why"])


def printed_glue(runs: pd.DataFrame, same_model: bool) -> pd.DataFrame:
    """paper | ours | difference | verdict, one row per printed number; ours with Student's interval over seeds."""
    ours = {(TABLE2, row, mask): stats.mean(rows["score"]) for (row, mask), rows in runs.groupby(["row", "mask"])}
    return printed.compare(PAPER, ours, same_model, tables=[TABLE2], digits=3, missing="see the list of tasks not run",
                           why="other seeds and settings, which the paper does not state")


# ---- 06: debiased models

def trained(names: list[str]) -> pd.DataFrame:
    """How debiasing went, by each model's own record: text, dropout, and what was measured before and after."""
    rows = []
    for name in names:
        record = debiased.trained(name)
        if not record:
            rows.append({"model": short(name), "text": "not on record"})
            continue
        row = {"model": short(name), "text": "passages and their twins" if record["twins"] else "passages",
               "dropout": f"{record['hidden']:g} hidden, {record['attention']:g} attention",
               "steps": record["training"]["steps"], "tokens seen, M": round(record["training"]["tokens_seen"] / 1e6)}
        for shown, key in ("perplexity", "mlm_perplexity"), ("next sentence", "nsp_accuracy"):
            row |= {f"{shown}, before": round(record["heldout_before"][key], 3),
                    f"{shown}, after": round(record["heldout"][key], 3)}
        rows.append(row)
    return pd.DataFrame(rows or {"model": [], "text": []})  # a file without columns could not be read again


def summary(results: dict, base: str, tested: dict, leanings: dict) -> pd.DataFrame:
    """One row per model: SEAT with p and its change from the base, counts of heads, and the odds of she and he."""
    rows = []
    for name, result in results.items():
        frame = tables.intervals(result)
        rows.append({"model": short(name), "SEAT": round(result["seat"], 2), "p": tables.p_text(result["p"]),
                     "change of |SEAT|": "" if name == base else str(debiased.seat_change(tested[base], tested[name])),
                     "biased heads": (frame.score > 0).sum(), "surely": (frame.low > 0).sum(),
                     "largest score": round(frame.score.max(), 3),
                     "mean |log2 odds she : he|": round(leanings[name]["size"], 2),
                     "correlation with women's share": str(leanings[name]["rho"])})
    return pd.DataFrame(rows)


def turned(results: dict, base: str) -> pd.DataFrame:
    """The base's FOLLOWED most anti-biased heads, one row each, and what became of them: 100 x score [95 % interval] in
    each model, with a mark where the head is now biased."""
    frames = {name: tables.intervals(result).set_index(["layer", "head"]) for name, result in results.items()}
    rows = []
    for layer, head in heads.bottom(results[base]["scores"], FOLLOWED):
        row = {"head": f"{layer}-{head}"}
        for name, frame in frames.items():
            score = stats.Estimate(*frame.loc[(layer, head), ["score", "low", "high"]])
            row[short(name)] = f"{score * 100}{' turned' if score.value > 0 else ''}"
        rows.append(row)
    return pd.DataFrame(rows)


def movement(results: dict, base: str) -> pd.DataFrame:
    """How far the scores moved, one row per debiased model: correlation with the base's over heads, heads that changed
    sides, and of the base's most anti-biased ones. The last row is the base against itself, one half of its folds
    against the other: what the choice of sentences moves."""
    start, folds = results[base]["scores"], results[base]["folds"]
    compared = {short(name): (result["scores"], start) for name, result in results.items() if name != base}
    if half := len(folds) // 2:
        compared[f"{short(base)}, other sentences"] = folds[half:].mean(0), folds[:half].mean(0)
    rows = []
    for name, (after, before) in compared.items():
        moved = debiased.movement(after, before)
        rows.append({"model": name, "correlation": round(moved["correlation"], 2),
                     "changed sides": f"{moved['changed']:.0%}", "biased to not": moved["biased to not"],
                     "not to biased": moved["not to biased"],
                     f"of {FOLLOWED} most anti-biased": debiased.count_turned(after, before)})
    return pd.DataFrame(rows)


# ---- 06: LLaMA

def llama(results: dict) -> pd.DataFrame:
    """SEAT and the heads of LLaMA models, one row each."""
    rows = []
    for name, result in results.items():
        left, right = tables.standing_out(result["scores"])
        rows.append({"model": short(name), "layers x heads": " x ".join(map(str, result["scores"].shape)),
                     "SEAT": round(result["seat"], 2), "p": tables.p_text(result["p"]),
                     "positive": int((result["scores"] > 0).sum()), "negative": int((result["scores"] < 0).sum()),
                     "stand out to the right": right, "to the left": left,
                     "near zero": f"{tables.near_zero(result['scores']):.0%}"})
    return pd.DataFrame(rows)


def printed_llama(results: dict, names: list[str]) -> pd.DataFrame:
    """The printed .27 and .18 beside the first pair that was measured: paper | ours | difference | verdict."""
    papers = "llama-2-7b", "llama-2-7b-chat"
    measured = [pair for pair in debiased.pairs(names) if any(name in results for name in pair)]
    pair = measured[0] if measured else ("", "")
    ours = {row: name for row, name in zip(papers, pair) if name in results}
    table = printed.compare(PAPER, {("Section 7", row, "bias score"): abs(results[name]["seat"])
                                    for row, name in ours.items()}, same_model=pair == papers, tables=["Section 7"],
                            missing="no such model at hand", why="other corpus of contexts")
    table.insert(list(table.columns).index("ours"), "our model", [short(ours.get(row, "")) for row in table["row"]])
    return table


# ---- what the figures of 06 show, in a sentence each

def turned_headline(results: dict, base: str) -> str:
    start = results[base]["scores"]
    counts = [f"{debiased.count_turned(result['scores'], start)} in {short(name)}" for name, result in results.items()
              if name != base]
    return f"Of the {FOLLOWED} most anti-biased heads of {short(base)} turn biased: {english.listed(counts)}"


def movement_headline(results: dict, base: str) -> str:
    start = results[base]["scores"]
    moved = [f"{debiased.movement(result['scores'], start)['correlation']:.2f} in {short(name)}"
             for name, result in results.items() if name != base]
    return f"How well the base's scores foretell those after debiasing: correlation {english.listed(moved)}"


def llama_headline(results: dict) -> str:
    return english.listed([f"{short(name)} has |SEAT| {abs(result['seat']):.2f} (p {tables.p_text(result['p'])})"
                           for name, result in results.items()])
