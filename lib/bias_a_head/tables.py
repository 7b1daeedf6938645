"""What notebooks 02 to 06 tabulate of Bias A-head: head scores, the counter-stereotype test, Tables 1 to 3, Fig. 5-7.

02   results   {(model's name, bias): what heads.measure returns}
03   tests     {figure: {"biased": what counter.test returns, "regular": ...}}; studies   {figure: (model's name, bias)}
04   masks     `frame` of what masking.measure returns, one row per mask; curve   what lpbs.top_k returns
05   runs      `scores` of what glue.stored hands out, one row per run and metric; spreads and intervals are over seeds:
               another start of the new head, another order of the examples. That the evaluation sets are samples too
               (WNLI's has 71 pairs) comes on top
06   results   {model's name: what heads.measure returns on gender}; base   what debiased models are compared with;
               tested   their debiased.associations; leanings   their debiased.leaning

The functions `printed_...` hold our numbers against the printed ones. Each returns the table that a notebook shows and
{(table, row, column): (ours as shown, match)} for run.compared.
"""

import numpy as np
import pandas as pd
from scipy import stats as scipy_stats

from lib import printed
from lib.bias_a_head import debiased, glue, heads, lpbs, masking
from lib.bias_a_head.debiased import FOLLOWED, short
from lib.engine import models, stats
from lib.text import english
from lib.verdict import match

PAPERS = ["bert-base", "gpt2"]  # the paper's own models, an encoder and a decoder


def title(name: str, bias: str) -> str:
    return f"{name}, {bias}"


def p_text(p: float) -> str:
    """Two digits after the point, or what p is below: sampled p-values wobble."""
    return "< .001" if p < .001 else "< .01" if p < .01 else f"{p:.2f}"


def _printed(columns: list[str] = (), tables: list[str] = ()) -> list[tuple[str, str, str, str]]:
    """(table, row, column, value as printed) of the paper, of these columns or tables."""
    numbers = printed.numbers("bias_a_head")
    return list(numbers[numbers["column"].isin(columns) | numbers["table"].isin(tables)].itertuples(index=False))


# ---- 02: head scores

def word_sets() -> pd.DataFrame:
    """The sets of both biases as the lists have them: how many words, and a few of each."""
    names = "X, stereotyped as A", "Y, stereotyped as B", "A", "B"
    return pd.DataFrame({bias: [f"{len(words)}: {', '.join(words[4:7] or words)}, ..." for words in sets.parts()]
                         for bias, sets in (("gender", heads.gender_sets()), ("race", heads.race_sets()))}, index=names)


def intervals(result: dict) -> pd.DataFrame:
    """One row per head, highest score first: layer, head, score, low, high.

    The 95 % interval is the score's, by Student's t over the folds: each fold's contexts gave scores of their own,
    and the spread of those says how far the score depends on which sentences were taken.
    """
    scores, folds = result["scores"], result["folds"]
    reach = scipy_stats.t.ppf(.975, len(folds) - 1) * folds.std(0, ddof=1) / np.sqrt(len(folds))
    layer, head = np.indices(scores.shape) + 1
    frame = pd.DataFrame({"layer": layer.ravel(), "head": head.ravel(), "score": scores.ravel(),
                          "low": (scores - reach).ravel(), "high": (scores + reach).ravel()})
    return frame.sort_values("score", ascending=False, ignore_index=True)


def summary(results: dict) -> pd.DataFrame:
    """SEAT and the counts of heads, one row per model and bias. "surely": the 95 % interval excludes 0."""
    rows = []
    for (name, bias), result in results.items():
        frame = intervals(result)
        rows.append({"model": name, "bias": bias, "SEAT": round(result["seat"], 2), "p": p_text(result["p"]),
                     "words": " + ".join(map(str, result["words"].values())), "sentences": result["sentences"],
                     "positive": (frame.score > 0).sum(), "surely": (frame.low > 0).sum(),
                     "negative": (frame.score < 0).sum(), "surely so": (frame.high < 0).sum(),
                     "highest three": ", ".join(f"{row.layer}-{row.head}" for row in frame.head(3).itertuples())})
    return pd.DataFrame(rows)


def survival(results: dict, sizes=(3, 5, 10, 20)) -> pd.DataFrame:
    """How many of the k highest heads on one half of the folds are among the k highest on the other half, one row per
    result; and what two random choices would have in common."""
    rows = []
    for (name, bias), result in results.items():
        half = len(result["folds"]) // 2
        first, second = result["folds"][:half].mean(0), result["folds"][half:].mean(0)
        rows.append({"model": name, "bias": bias} | {
            f"top {k}": len(set(heads.top(first, k)) & set(heads.top(second, k))) for k in sizes})
    chance = {f"top {k}": f"{k * k / result['scores'].size:.1f}" for k in sizes}
    return pd.DataFrame([*rows, {"model": "by chance", "bias": ""} | chance])


def same_sign(ablation: dict) -> float:
    """In what share of the heads the gradient has the sign of what switching the head off does."""
    return np.mean((ablation["gradient"] > 0) == (ablation["ablation"] > 0))


def agreement(ablations: dict) -> pd.DataFrame:
    """Gradient against ablation (heads.measure_ablation), one row per model: rank correlation and equal signs."""
    rows = []
    for name, result in ablations.items():
        gradient, real = result["gradient"], result["ablation"]
        rank = stats.bootstrap(stats.rank_correlation, gradient.ravel(), real.ravel())
        rows.append({"model": name, "words": result["words"], "SEAT": round(result["seat"], 2),
                     "rank correlation": str(rank), "same sign": f"{same_sign(result):.0%}",
                     "in both top tens": len(set(heads.top(gradient, 10)) & set(heads.top(real, 10)))})
    return pd.DataFrame(rows)


def near_zero(scores: np.ndarray) -> float:
    """Share of the heads whose score is within a quarter of the largest: the paper does not say what is near."""
    return float(np.mean(np.abs(scores) < np.abs(scores).max() / 4))


def standing_out(scores: np.ndarray) -> tuple[int, int]:
    """Heads beyond Tukey's fences, one and a half interquartile ranges outside the quartiles: left, right."""
    low, high = np.quantile(scores, [.25, .75])
    reach = 1.5 * (high - low)
    return int(np.sum(scores < low - reach)), int(np.sum(scores > high + reach))


def standard_table(tests: list[list[dict]]) -> pd.DataFrame:
    """`heads.standard_seat` of several models side by side: one row per test."""
    frame = pd.DataFrame([row for rows in tests for row in rows])
    frame["effect size"] = [f"{row['effect size']:.2f} (p {p_text(row['p'])})" for _, row in frame.iterrows()]
    return frame.pivot(index="test", columns="model", values="effect size").reset_index().rename_axis(columns=None)


def printed_heads(results: dict) -> tuple[pd.DataFrame, dict]:
    """SEAT and the number of biased heads on gender; a model of ours stands for the paper's of its family."""
    kind = {models.REGISTRY[name].family: name for name in PAPERS}
    ours = {kind.get(result["family"]): {"name": name, "SEAT": abs(result["seat"]), "heads with a positive score":
                                         (result["scores"] > 0).sum()}
            for (name, bias), result in results.items() if bias == "gender"}
    rows, compared = [], {}
    for table, row, column, value in _printed(["SEAT", "heads with a positive score"]):
        if table.startswith("Table"):
            continue
        found = ours.get(row, {"name": "", column: None})
        shown, gap = "", ""
        if found[column] is not None:
            shown, gap = f"{found['name']}: {found[column]:.3g}", f"{found[column] - float(value):+.2g}"
        verdict = match(value, found[column], found["name"] == row, "other corpus of contexts",
                        "no model of this kind in the run")
        rows.append({"quantity": f"{column}, gender ({table[0].lower()}{table[1:]})", "paper": f"{row}: {value}",
                     "ours": shown, "difference": gap, "verdict": verdict})
        compared[table, row, column] = shown, verdict
    return pd.DataFrame(rows), compared


# ---- 03: the counter-stereotype test

def attention_tests(tests: dict, studies: dict) -> pd.DataFrame:
    """Every group of heads by every unit: differences in percentage points of attention, d with its interval, t, p."""
    table = pd.concat({(f"{key} {name} {bias}", kind): tests[key][kind] for key, (name, bias) in studies.items()
                       for kind in tests[key]}, names=["figure", "heads", "unit"])
    percent = table.assign(**{column: 100 * table[column] for column in ("difference", "low", "high")})
    shown = percent[["n", "difference", "low", "high", "d", "d_low", "d_high", "t", "p"]].round(2) + 0
    return shown.assign(p=table["p"].map(p_text))


def printed_attention(tests: dict, studies: dict, example: list[float], is_paper: bool) -> tuple[pd.DataFrame, dict]:
    """Fig. 3 and 4. example: the biased head's weight on the attribute, original and counter; is_paper: whether the
    run is of the paper's models and sentences."""
    ours = {(f"Figure {key}", kind, "t"): tests[key][kind]["t"]["sentence"] for key in studies for kind in tests[key]}
    ours |= {("Figure 3", "biased", f"weight {side}"): w for side, w in zip(("original", "counter"), example)}
    rows, compared = [], {}
    for *key, value in _printed(["weight original", "weight counter", "t"]):
        if pd.isna(value):
            continue
        figure, value_here = key[0].removeprefix("Figure "), ours[*key]
        name, bias = studies.get(figure, studies["4a"])
        same = is_paper and name == PAPERS[figure == "4b"]
        verdict = match(value, value_here, same, "other sentences")
        rows.append({"figure": figure, "bias": bias, "heads": key[1], "measure": key[2], "paper": float(value),
                     "ours": value_here, "model": name, "difference": value_here - float(value), "verdict": verdict})
        compared[*key] = f"{np.round(value_here, 3):.6g}", verdict
    for key in studies:
        for kind, tested in tests[key].items():
            n, p = int(tested["n"]["sentence"]), tested["p"]["sentence"]
            compared[f"Figure {key}", kind, "p"] = p_text(p), compared[f"Figure {key}", kind, "t"][1]
            compared[f"Figure {key}", kind, "N"] = str(n), match("500", n, True, "no more sentences were found")
    return pd.DataFrame(rows).round(3), compared


# ---- 04: masking

def frame(columns: dict[str, np.ndarray]) -> pd.DataFrame:
    """The columns of masking.measure as a table, one row per mask."""
    return pd.DataFrame({name: list(values) for name, values in columns.items()})


def named(masks: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The rows of a measurement that are Table 1's, by the names that they have there."""
    masked = masks[masks["factor"] == 0]
    low, high = masked.loc[masked["strategy"] == "top", "k"].agg(["min", "max"])
    rows = {"full": ("full", 0), f"Top-{low}": ("top", low), f"Bottom-{low}": ("bottom", low), "All": ("top", high),
            f"Random-{low}": ("random", low), "Random-All": ("random", high)}
    return {name: masked[(masked["strategy"] == strategy) & (masked["k"] == k)]
            for name, (strategy, k) in rows.items()}


def seat_change(masks: pd.DataFrame, rows: pd.DataFrame, start: pd.Series | None = None) -> stats.Estimate:
    """By how much |SEAT| differs from `start`'s, the full model's if left out."""
    start = masks.iloc[0] if start is None else start
    if len(rows) > 1:
        return stats.mean(rows["seat"].to_numpy() - start["seat"])
    return stats.bootstrap(lambda masked, plain, in_x: masking.seat_of(masked, in_x) - masking.seat_of(plain, in_x),
                           rows["associations"].iloc[0], start["associations"], start["in_x"], draws=1_000)


def times(masks: pd.DataFrame, rows: pd.DataFrame) -> stats.Estimate:
    """How many times the full model's PPPL this one is: 1.02 is two percent worse."""
    full = masks.iloc[0]
    if len(rows) > 1:
        return stats.mean(rows["pppl"].to_numpy() / full["pppl"])
    return stats.bootstrap(lambda masked, plain, n: np.exp((plain.sum() - masked.sum()) / n.sum()),
                           rows["likelihoods"].iloc[0], full["likelihoods"], full["lengths"], draws=1_000)


def table1(masks: pd.DataFrame) -> pd.DataFrame:
    """Table 1: one row per strategy; of several draws their mean, and their standard deviation in its own column.

    Against the full model: `change` of SEAT, PPPL as `times` the full one's. Their 95 % intervals draw target words
    (SEAT) and lines (PPPL) again; where there are several draws of heads, they draw those again.
    """
    table = []
    for name, rows in named(masks).items():
        compared = {"change": str(seat_change(masks, rows)), "times": three(times(masks, rows))}
        table.append({"masked": name, "heads": rows["k"].iloc[0], "draws": len(rows), "SEAT": rows["seat"].mean(),
                      "SEAT sd": rows["seat"].std(ddof=1), "change": "", "PPPL": rows["pppl"].mean(),
                      "PPPL sd": rows["pppl"].std(ddof=1), "times": ""} | (compared if name != "full" else {}))
    table = pd.DataFrame(table).set_index("masked")
    return table.assign(**{name: table[name].map(_digits) for name in ("PPPL", "PPPL sd")}).round(2)


def table3(curve: pd.DataFrame) -> pd.DataFrame:
    """Table 3: one row per K, one column per test under either reading of the prior."""
    wide = curve.pivot(index="k", columns="test", values=list(lpbs.PRIORS))
    return wide.reindex(columns=[(prior, test) for prior in lpbs.PRIORS for test in lpbs.TESTS]).round(2) + 0.0


def nearest_to_zero(curve: pd.DataFrame) -> tuple[pd.DataFrame, pd.Series]:
    """The corrected half of Table 3, and for each test the K at which its LPBS is nearest to 0."""
    wide = table3(curve)["corrected"]
    return wide, wide.abs().idxmin()


def printed_masking(masks: pd.DataFrame, curve: pd.DataFrame, same_model: bool) -> tuple[pd.DataFrame, dict]:
    """Tables 1 and 3."""
    ours = {("Table 1", name, column): rows[column.lower()].mean()
            for name, rows in named(masks).items() for column in ("SEAT", "PPPL")}
    last = curve["k"].max()
    ours |= {("Table 3", "All" if row.k == last else str(row.k), row.test): row.corrected for row in curve.itertuples()}
    rows, compared = [], {}
    for *key, value in _printed(tables=["Table 1", "Table 3"]):
        found = ours.get(tuple(key), np.nan)
        verdict = match(value, found, same_model, "other contexts, or a choice that the paper leaves open",
                        "which K is lost" if key[1] == "5 or 10" else "fewer heads of positive score")
        shown, gap = (np.round(_digits(number), 2) for number in (found, found - float(value)))
        rows.append([key[0][-1], *key[1:], float(value), shown, gap, verdict])
        compared[*key] = "" if np.isnan(shown) else f"{shown:.6g}", verdict
    return pd.DataFrame(rows, columns=["table", "row", "column", "paper", "ours", "difference", "verdict"]), compared


def three(estimate: stats.Estimate) -> str:
    """Three digits of each."""
    return "{:g} [{:g}, {:g}]".format(*map(_digits, estimate))


def _digits(value: float) -> float:
    """Three digits: a PPPL may be 4 or 40,000."""
    return float(f"{value:.3g}")


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


def debiased_summary(results: dict, base: str, tested: dict, leanings: dict) -> pd.DataFrame:
    """One row per model: SEAT with p and its change from the base, counts of heads, and the odds of she and he."""
    rows = []
    for name, result in results.items():
        frame = intervals(result)
        rows.append({"model": short(name), "SEAT": round(result["seat"], 2), "p": p_text(result["p"]),
                     "change of |SEAT|": "" if name == base else str(debiased.seat_change(tested[base], tested[name])),
                     "biased heads": (frame.score > 0).sum(), "surely": (frame.low > 0).sum(),
                     "largest score": round(frame.score.max(), 3),
                     "mean |log2 odds she : he|": round(leanings[name]["size"], 2),
                     "correlation with women's share": str(leanings[name]["rho"])})
    return pd.DataFrame(rows)


def turned(results: dict, base: str) -> pd.DataFrame:
    """The base's FOLLOWED most anti-biased heads, one row each, and what became of them: 100 x score [95 % interval] in
    each model, with a mark where the head is now biased."""
    frames = {name: intervals(result).set_index(["layer", "head"]) for name, result in results.items()}
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
        left, right = standing_out(result["scores"])
        rows.append({"model": short(name), "layers x heads": " x ".join(map(str, result["scores"].shape)),
                     "SEAT": round(result["seat"], 2), "p": p_text(result["p"]),
                     "positive": int((result["scores"] > 0).sum()), "negative": int((result["scores"] < 0).sum()),
                     "stand out to the right": right, "to the left": left,
                     "near zero": f"{near_zero(result['scores']):.0%}"})
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
    return english.listed([f"{short(name)} has |SEAT| {abs(result['seat']):.2f} (p {p_text(result['p'])})"
                           for name, result in results.items()])
