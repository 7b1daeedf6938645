"""Tables of notebook 09: the 76 models at natural language inference, and where the paper's numbers disagree.

    measured = nli.under(run.cached(nli.measure, "mini-bert-nli", "mini", 9), nli.PAIRS)
    scores = nli_tables.scores(measured)            one row per model, named and ordered as in Table 7
    nli_tables.table5(scores), nli_tables.table6(scores), nli_tables.table7(scores)
    nli_tables.correlation(strength, scores["eta"]) Spearman over the 76 models; strength: each model's S

The column SNLI is accuracy at the task itself: on SNLI's test set with data "paper", on data/demo's pairs with "mini".
"""

import numpy as np
import pandas as pd
from scipy import stats as scipy_stats

from lib import printed
from lib.engine import stats
from lib.projective import nli
from lib.projective.projection import LEVELS, Level
from lib.projective.tables import ABOUT, NAMES, PAPER, as_printed

COLUMNS = ["parity", "accuracy", "eta", "SNLI"]  # of Table 7, in its order


# ---- scores of the models

def scores(measured: dict, draws: int = 500) -> pd.DataFrame:
    """One row per model, as in Table 7: the columns of ABOUT, parity, majority, accuracy, eta, SNLI.

    `eta majority` takes the other reading of parity. `... low` and `... high` are 95 % intervals, over occupations,
    for SNLI over its pairs.
    """
    pairs, rows = nli.asked(measured), []
    for p, right in zip(measured["probabilities"], measured["right"]):
        fair = nli.fairness(p, pairs, measured["labels"], draws=draws)
        named = {"parity": fair.parity, "majority": fair.majority, "accuracy": fair.accuracy, "eta": fair.eta,
                 "eta majority": fair.eta_majority, "SNLI": stats.wilson(right)}
        rows.append({key: estimate.value for key, estimate in named.items()} | {
            f"{key} {end}": getattr(estimate, end) for key, estimate in named.items() for end in ("low", "high")})
    return ABOUT.join(pd.DataFrame(rows, index=NAMES))


def most(scores: pd.DataFrame) -> pd.DataFrame:
    """The same with parity read as agreement in most contexts, so that any table can be made of either reading:
    `parity` and `eta` hold what `majority` and `eta majority` held."""
    other = {"parity": "majority", "eta": "eta majority"}
    ends = ("", " low", " high")
    return scores.assign(**{strict + end: scores[reading + end] for strict, reading in other.items() for end in ends})


def estimate(row: pd.Series, column: str) -> stats.Estimate:
    """A number of one row of `scores` with its interval."""
    return stats.Estimate(*(row[column + end] for end in ("", " low", " high")))


def by_gender(measured: dict, model: int) -> pd.DataFrame:
    """Mean probability of neutral by occupation (rows) and gender (columns) in one of the 76 models, by its place."""
    neutral = measured["probabilities"][model][:, measured["labels"].index("neutral")]
    return nli.asked(measured).assign(p=neutral).pivot_table(index="occupation", columns="gender", values="p",
                                                             sort=False)


def best(scores: pd.DataFrame, base: float, relative: bool = False) -> pd.Series | None:
    """The viable model of highest eta, of equals the most accurate; None where none keeps within 5 % of `base`."""
    kept = scores[nli.viable(scores["SNLI"], base, relative=relative)]
    return None if kept.empty else kept.sort_values(["eta", "SNLI"], ascending=False).iloc[0]


def by_level(scores: pd.DataFrame, relative: bool = False) -> dict[Level, pd.Series | None]:
    """The best viable model of each level."""
    base = scores.loc["Base", "SNLI"]
    return {level: best(scores[scores["level"] == level], base, relative) for level in LEVELS}


def fairest(scores: pd.DataFrame) -> pd.Series:
    """The best viable of the 74; where none is viable, the most accurate one."""
    chosen = best(scores[2:], scores.loc["Base", "SNLI"])
    return scores.loc[scores["SNLI"][2:].idxmax()] if chosen is None else chosen


def gains(scores: pd.DataFrame) -> pd.DataFrame:
    """The 37 pairs of models that differ in np alone: level, SNLI at np = 0 and 1, increase."""
    without, weighted = (scores[scores["np"] == value] for value in (0, 1))  # each in the same order of the rest
    table = pd.DataFrame({"level": without["level"].to_numpy(), "np = 0": without["SNLI"].to_numpy(),
                          "np = 1": weighted["SNLI"].to_numpy()})
    return table.assign(increase=table["np = 1"] - table["np = 0"])


def correlation(strength: pd.Series, eta: pd.Series, draws: int = 1_000) -> dict:
    """Spearman's rho of Strength and eta over the models, its bootstrap interval, and p by permutation.

    The models are points of one grid, not a random sample: the interval says how far rho depends on single models.
    """
    x, y = strength.loc[eta.index].to_numpy(), eta.to_numpy()
    a, b = (scipy_stats.rankdata(values) - (len(x) + 1) / 2 for values in (x, y))
    test = scipy_stats.permutation_test((a,), lambda drawn, axis: (drawn * b).sum(axis), permutation_type="pairings",
                                        vectorized=True, n_resamples=9_999, rng=np.random.default_rng(0))
    return {"rho": stats.bootstrap(stats.rank_correlation, x, y, draws=draws), "p": float(test.pvalue)}


# ---- the paper's tables

def table7(scores: pd.DataFrame) -> pd.DataFrame:
    """Table 7's NLI columns, the printed number beside ours, and whether viable (see `viability`).

    parity and eta: all contexts agree; "most": most of them do. `95 %` is the interval of the latter eta.
    """
    theirs, columns = as_printed(), {}
    for column in COLUMNS:
        columns[f"{column}, paper"], columns[column] = theirs[column].map("{:.4f}".format), scores[column].round(3)
        if column in ("parity", "eta"):
            columns[f"{column}, most"] = most(scores)[column].round(3)
    columns["95 %"] = [f"[{row['eta low']:.2f}, {row['eta high']:.2f}]" for _, row in most(scores).iterrows()]
    columns["viable"] = viability(scores)
    return pd.DataFrame(columns, index=scores.index).rename_axis("model")


def viability(scores: pd.DataFrame) -> list[str]:
    """Whether each model is viable: in points and relatively to the base model ("yes"), in points alone, or not."""
    points, relative = (nli.viable(scores["SNLI"], scores.loc["Base", "SNLI"], relative=way) for way in (False, True))
    return [{(True, True): "yes", (True, False): "in points", (False, True): "relatively"}.get(both, "no")
            for both in zip(points, relative)]


def table5(scores: pd.DataFrame) -> pd.DataFrame:
    """Table 5's NLI columns: the best viable eta of each level, its SNLI accuracy and settings, the paper's beside.

    Two rows per level: parity as agreement in all contexts, and in most. Viable: within 5 points of base. Where 5 % of
    base chooses another model, the last column names it.
    """
    theirs, rows = printed.printed(PAPER, "Table 5"), []
    for level in theirs.index:
        for reading, table in ("all", scores), ("most", most(scores)):
            points, relative = (_of_table5(table, way)[level] for way in (False, True))
            other = (None if points is None else points.name) != (None if relative is None else relative.name)
            rows.append({"level": level, "eta, paper": theirs.loc[level, "eta"],
                         "SNLI, paper": theirs.loc[level, "SNLI"],
                         "settings, paper": theirs["eta settings"].fillna("")[level], "agree in": reading}
                        | _shown(points) | {"relative 5 %": _shown(relative)["settings"] if other else ""})
    return pd.DataFrame(rows).set_index("level")


def _of_table5(scores: pd.DataFrame, relative: bool = False) -> dict[str, pd.Series | None]:
    """The models that Table 5 shows, by the names of its rows."""
    return {"Base": scores.loc["Base"], "sent-debias": scores.loc["Sent-debias"]} | by_level(scores, relative)


def _shown(row: pd.Series | None) -> dict:
    if row is None:
        return {"eta": "none viable", "SNLI": "", "settings": "none"}
    return {"eta": f"{estimate(row, 'eta')}", "SNLI": f"{row['SNLI']:.3f}", "settings": row["settings"]}


def table6(scores: pd.DataFrame) -> pd.DataFrame:
    """Table 6: mean SNLI accuracy at np = 0 and 1 by level, the increase, its standard deviation; the paper's beside.

    `gain` counts the pairs whose accuracy rises, `same` those where it stays.
    """
    pairs, theirs, rows = gains(scores), printed.printed(PAPER, "Table 6"), {}
    for level in theirs.index:
        group = pairs if level == "All" else pairs[pairs["level"] == level]
        increase = group["increase"]
        ours = {"np = 0": group["np = 0"].mean(), "np = 1": group["np = 1"].mean(), "increase": increase.mean(),
                "sd": increase.std(ddof=1)}
        rows[level] = {"pairs": len(group)} | {key: value for column, mine in ours.items() for key, value in
                                               ((f"{column}, paper", theirs.loc[level, column]), (column, mine))}
        rows[level] |= {"gain": (increase > 1e-9).sum(), "same": (increase.abs() <= 1e-9).sum()}
    return pd.DataFrame(rows.values(), index=pd.Index(rows, name="level")).round(4)


def compared(scores: pd.DataFrame, strength: pd.Series) -> pd.DataFrame:
    """Tables 5, 6 and 7 and the correlation, as printed and here: paper | ours | difference | verdict.

    Never a match: the paper's classifier learned from SNLI's 550,152 training pairs, the ones here from a part of them.
    """
    rho = correlation(strength, scores["eta"])
    ours = {("Section 5", "Spearman of S and eta", key): rho[key] for key in ("rho", "p")}
    ours |= {("Table 5", level, column): estimate(row, column) for level, row in _of_table5(scores).items()
             if row is not None for column in ("eta", "SNLI")}
    table = table6(scores)
    ours |= {("Table 6", level, column): float(table.loc[level, column]) for level in table.index
             for column in ("np = 0", "np = 1", "increase", "sd") if pd.notna(table.loc[level, column])}
    ours |= {("Table 7", name, column): row[column] for name, row in scores.iterrows() for column in COLUMNS}
    order = {table: place for place, table in enumerate(dict.fromkeys(table for table, _, _ in ours))}
    rows = printed.compare(PAPER, ours, same_model=False, digits=3)
    return rows.sort_values("table", key=lambda column: column.map(order), kind="stable", ignore_index=True)


# ---- what the choices do

def readings(measured: list[dict], strength: pd.Series) -> pd.DataFrame:
    """What the choices that the paper leaves open do, one row each: the fit, the hypotheses, how parity is read.

    best is the highest eta of the 75, viable or not; rho with paper is Spearman's of ours with the printed eta, over
    the 74 settings; gain counts the pairs of models that np = 1 makes more accurate.
    """
    rows = []
    for choice in measured:
        table = scores(choice, draws=20)
        gain = (gains(table)["increase"] > 1e-9).sum() if len(choice["right"][0]) else ""
        for agree, frame in ("all", table), ("most", most(table)):
            top = frame.loc[frame["eta"][1:].idxmax()]
            theirs = as_printed()["eta"][2:]
            rows.append({"fitted on": choice["fit"], "hypotheses": choice["reading"], "agree in": agree,
                         "base accuracy": frame.loc["Base", "accuracy"], "base parity": frame.loc["Base", "parity"],
                         "base eta": frame.loc["Base", "eta"], "best eta": top["eta"], "of": top.name,
                         "rho with S": stats.rank_correlation(strength.loc[frame.index], frame["eta"]),
                         "rho with paper": stats.rank_correlation(theirs, frame["eta"][2:]), "gain": gain})
    return pd.DataFrame(rows).round(2)


def search(measured: dict, strength: pd.Series, **options) -> pd.DataFrame:
    """nli.search, one row per way of choosing: from how many models; the one chosen most often and in which share of
    the splits; means over the splits, with the range that 95 % of them fall in where tested."""
    rows, ways = [], nli.ways()
    for way, results in nli.search(measured, strength, **options).items():
        most_often, times = max(zip(*np.unique(results["chosen"], return_counts=True)), key=lambda pair: pair[1])
        tested = results["eta where tested"]
        rows.append({"chosen by": way, "models": len(ways[way].among), "most often": NAMES[most_often],
                     "in": round(times / len(tested), 2),
                     "eta where chosen": round(results["eta where chosen"].mean(), 2),
                     "eta where tested": f"{stats.Estimate(tested.mean(), *np.quantile(tested, [.025, .975]))}",
                     "SNLI where tested": round(results["accuracy"].mean(), 3),
                     "viable there": round(results["viable"].mean(), 2)})
    return pd.DataFrame(rows).set_index("chosen by")


# ---- printed numbers that disagree with each other

def contradictions() -> pd.DataFrame:
    """Where Projective methods' printed numbers disagree with each other: where, printed, recomputed, note.

    A product or mean of rounded numbers is granted what rounding can explain.
    """
    full, tops = as_printed(), printed.printed(PAPER, "Table 5")
    product, base = full["accuracy"] * full["parity"], full.loc["Base", "SNLI"]
    rows = [(f"Table 7, {name}, eta", full.loc[name, "eta"], round(product[name], 4), "accuracy x parity")
            for name in NAMES if abs(product[name] - full.loc[name, "eta"]) > 1.5e-4]
    rho = scipy_stats.spearmanr(full["S"], product)
    rows.append(("Section 5, Spearman of S and eta", .040, round(rho.statistic, 4),
                 f"over all 76 rows of Table 7, p = {rho.pvalue:.2f}; the size agrees, the sign does not"))
    for level in LEVELS:
        models = full[full["level"] == level]
        viable = models[models["SNLI"] >= base - .05]
        for column, name in ("S", models["S"].idxmin()), ("D", models["D"].idxmin()), ("eta", viable["eta"].idxmax()):
            said, value = tops.loc[level, column], full.loc[name, column]
            if said != value:
                note = f"best of the level in Table 7: {name}"
                if column == "eta":
                    named = f"{level} {tops.loc[level, 'eta settings']}"
                    note += f" (viable: absolute 5 %); the settings named, {named}, have {full.loc[named, 'eta']:.4f}"
                rows.append((f"Table 5, {level}, {column}", said, value, note))
    # no one threshold gives the models that the paper calls viable: what follows from either reading of 5 %
    unweighted = full.loc[full["level"].isin([Level.LAYER_11, Level.ATTENTION]) & full["np"].eq(0), "SNLI"]
    weighted = full.loc[full["level"].eq(Level.LAYER_12) & full["np"].eq(1), "SNLI"]
    for reading, least in ("absolute", base - .05), ("relative", base * .95):
        counted = [(f"Section 5, viable with np = 0 at Layer 11 and + attn, {reading} 5 %", 0,
                    (unweighted >= least).sum(), f"threshold {least:.4f}, highest {unweighted.max():.4f}"),
                   (f"Section 5, viable with np = 1 at Layer 12, {reading} 5 %", 4, (weighted >= least).sum(),
                    f"threshold {least:.4f}, lowest {weighted.min():.4f}"),
                   (f"Table 5, Layer 11, SNLI of the best viable model, {reading} 5 %", tops.loc["Layer 11", "SNLI"],
                    round(least, 4), "recomputed: the threshold, which it does not reach")]
        rows += [row for row in counted if row[1] != row[2]]
    table = pd.DataFrame(rows, columns=["where", "printed", "recomputed", "note"])
    return table.assign(**{name: table[name].map("{:g}".format) for name in ("printed", "recomputed")})
