"""Notebook 09: the 76 models at natural language inference. Projective methods' Tables 5, 6 and 7, and its claims.

    found = nli_sweep.under(run.cached(nli_sweep.measure, "mini-bert-nli", "mini", 9), nli_sweep.PAIRS)
    scores = nli_tables.scores(found)               a row a model, named and ordered as in Table 7
    nli_tables.table5(scores), nli_tables.table6(scores), nli_tables.table7(scores)
    nli_tables.correlation(strength, scores["eta"]) Spearman over the 76 models

The column SNLI is accuracy at the task itself: on SNLI's test set with data "paper", on data/demo's pairs with "mini".
"""

import numpy as np
import pandas as pd
from scipy import stats as scipy_stats

from lib import printed as paper
from lib.engine import stats
from lib.projective import nli, projection

LEVELS = projection.LEVELS
COLUMNS = ["parity", "accuracy", "eta", "SNLI"]  # of Table 7, in its order


def scores(found: dict, draws: int = 500) -> pd.DataFrame:
    """A row a model, as in Table 7: level, settings, np (0, 1, none is NaN), parity, majority, accuracy, eta, SNLI.

    `eta majority` takes the other reading of parity. `... low` and `... high` are 95 % intervals, over occupations,
    for SNLI over its pairs.
    """
    pairs, rows = nli.pairs(found["reading"], found["contexts"]), {}
    for setting, p, right in zip(projection.models(), found["probabilities"], found["right"]):
        fair = nli.fairness(p, pairs, found["labels"], draws=draws)
        named = {"parity": fair.parity, "majority": fair.majority, "accuracy": fair.accuracy, "eta": fair.eta,
                 "eta majority": fair.eta_majority, "SNLI": share(right)}
        row = {"level": setting.level, "settings": str(setting),
               "np": float(setting.sent.weighted) if setting.sent else np.nan}
        rows[setting.name] = row | {key: one.value for key, one in named.items()} | {
            f"{key} {end}": getattr(one, end) for key, one in named.items() for end in ("low", "high")}
    return pd.DataFrame(rows.values(), index=list(rows))


def most(scores: pd.DataFrame) -> pd.DataFrame:
    """The same with parity read as agreement in most contexts, so that any table can be made of either reading:
    `parity` and `eta` hold what `majority` and `eta majority` held."""
    other = {"parity": "majority", "eta": "eta majority"}
    ends = ("", " low", " high")
    return scores.assign(**{strict + end: scores[reading + end] for strict, reading in other.items() for end in ends})


def share(right: np.ndarray) -> stats.Estimate:
    """A share with its 95 % interval (Wilson's, which stays right near 0 and 1 and on few pairs); NaN of nothing."""
    if not len(right):
        return stats.Estimate(np.nan, np.nan, np.nan)
    found = scipy_stats.binomtest(int(right.sum()), len(right)).proportion_ci(method="wilson")
    return stats.Estimate(float(right.mean()), float(found.low), float(found.high))


def by_gender(found: dict, model: int) -> pd.DataFrame:
    """Mean probability of neutral by occupation (rows) and gender (columns) in one of the 76 models, by its place."""
    pairs = nli.pairs(found["reading"], found["contexts"])
    neutral = found["probabilities"][model][:, found["labels"].index("neutral")]
    return pairs.assign(p=neutral).pivot_table(index="occupation", columns="gender", values="p", sort=False)


def printed() -> pd.DataFrame:
    """Table 7 as printed, in the shape of `scores`, S and D too."""
    table = paper.printed("projective_methods", "Table 7")
    place = table.index.str.extract(r"^(SENT|Layer 1[12]|\+ attn|Base|Sent-debias) ?(.*)$")
    last = place[1].str.rstrip(")").str[-1:]
    extra = {"level": place[0].to_numpy(), "settings": place[1].to_numpy(),
             "np": pd.to_numeric(last, errors="coerce").to_numpy()}
    return table.assign(**extra)


def table7(scores: pd.DataFrame) -> pd.DataFrame:
    """Table 7's NLI columns, the printed number beside ours, and whether viable (see `verdicts`).

    parity and eta: all contexts agree; "most": most of them do. `95 %` is the interval of the latter eta.
    """
    theirs, rows = printed(), {}
    for column in COLUMNS:
        rows[f"{column}, paper"], rows[column] = theirs[column].map("{:.4f}".format), scores[column].round(3)
        if column in ("parity", "eta"):
            rows[f"{column}, most"] = most(scores)[column].round(3)
    rows["95 %"] = [f"[{row['eta low']:.2f}, {row['eta high']:.2f}]" for _, row in most(scores).iterrows()]
    rows["viable"] = verdicts(scores)
    return pd.DataFrame(rows, index=scores.index).rename_axis("model")


def verdicts(scores: pd.DataFrame) -> list[str]:
    """Whether each model is viable: in points and relatively to the base model ("yes"), in points alone, or not."""
    points, relative = (nli.viable(scores["SNLI"], scores.loc["Base", "SNLI"], relative=way) for way in (False, True))
    return [{(True, True): "yes", (True, False): "in points", (False, True): "relatively"}.get(both, "no")
            for both in zip(points, relative)]


def best(scores: pd.DataFrame, base: float, relative: bool = False) -> pd.Series | None:
    """The viable model of highest eta, of equals the most accurate; None where none keeps within 5 % of `base`."""
    kept = scores[nli.viable(scores["SNLI"], base, relative=relative)]
    return None if kept.empty else kept.sort_values(["eta", "SNLI"], ascending=False).iloc[0]


def fairest(scores: pd.DataFrame) -> pd.Series:
    """The best viable of the 74; where none is viable, the most accurate one."""
    debiased = scores[scores["level"].isin(LEVELS)]
    found = best(debiased, scores.loc["Base", "SNLI"])
    return debiased.loc[debiased["SNLI"].idxmax()] if found is None else found


def by_level(scores: pd.DataFrame, relative: bool = False) -> dict[str, pd.Series | None]:
    """The best viable model of each level."""
    base = scores.loc["Base", "SNLI"]
    return {level: best(scores[scores["level"] == level], base, relative) for level in LEVELS}


def table5(scores: pd.DataFrame) -> pd.DataFrame:
    """Table 5's NLI columns: the best viable eta of each level, its SNLI accuracy and settings, the paper's beside.

    Two rows a level: parity as agreement in all contexts, and in most. Viable: within 5 points of base. Where 5 % of
    base chooses another model, the last column names it.
    """
    theirs, rows = paper.printed("projective_methods", "Table 5"), []
    for reading, table in ("all", scores), ("most", most(scores)):
        chosen = {"Base": table.loc["Base"], "sent-debias": table.loc["Sent-debias"]} | by_level(table)
        relative = by_level(table, relative=True)
        for level, one in chosen.items():
            row = {"level": level, "eta, paper": theirs.loc[level, "eta"], "SNLI, paper": theirs.loc[level, "SNLI"],
                   "settings, paper": theirs["eta settings"].fillna("")[level], "agree in": reading}
            other = relative.get(level, one)
            rows.append(row | _shown(one) | {"relative 5 %": _shown(other)["settings"] if _differ(one, other) else ""})
    order = {level: place for place, level in enumerate(theirs.index)}
    table = pd.DataFrame(rows).sort_values("level", key=lambda column: column.map(order), kind="stable")
    return table.set_index("level")


def _shown(one: pd.Series | None) -> dict:
    if one is None:
        return {"eta": "none viable", "SNLI": "", "settings": "none"}
    return {"eta": f"{one['eta']:.2f} [{one['eta low']:.2f}, {one['eta high']:.2f}]", "SNLI": f"{one['SNLI']:.3f}",
            "settings": one["settings"]}


def _differ(one: pd.Series | None, other: pd.Series | None) -> bool:
    return (None if one is None else one.name) != (None if other is None else other.name)


def gains(scores: pd.DataFrame) -> pd.DataFrame:
    """The 37 pairs of models that differ in np alone: level, settings without np, SNLI at np = 0 and 1, increase."""
    pairs = scores[scores["np"].notna()]
    pairs = pairs.assign(rest=pairs["settings"].str.replace(r"(, )?\d\)?$", "", regex=True))
    wide = pairs.pivot(index=["level", "rest"], columns="np", values="SNLI")
    wide = wide.rename(columns={0.: "np = 0", 1.: "np = 1"})
    wide = wide.reindex(pd.MultiIndex.from_frame(pairs[["level", "rest"]]).unique())
    return wide.assign(increase=wide["np = 1"] - wide["np = 0"]).rename_axis(columns=None).reset_index()


def table6(scores: pd.DataFrame) -> pd.DataFrame:
    """Table 6: mean SNLI accuracy at np = 0 and 1 by level, the increase, its standard deviation; the paper's beside.

    `gain` counts the pairs whose accuracy rises, `same` those where it stays.
    """
    pairs, theirs = gains(scores), paper.printed("projective_methods", "Table 6")
    parts = {level: pairs[pairs["level"] == level] for level in LEVELS} | {"All": pairs}
    rows = {}
    for level, part in parts.items():
        increase = part["increase"]
        ours = {"np = 0": part["np = 0"].mean(), "np = 1": part["np = 1"].mean(), "increase": increase.mean(),
                "sd": increase.std(ddof=1)}
        rows[level] = {"pairs": len(part)} | {key: value for column, mine in ours.items() for key, value in
                                              ((f"{column}, paper", theirs.loc[level, column]), (column, mine))}
        rows[level] |= {"gain": (increase > 1e-9).sum(), "same": (increase.abs() <= 1e-9).sum()}
    return pd.DataFrame(rows.values(), index=pd.Index(rows, name="level")).round(4)


def correlation(strength: pd.Series, eta: pd.Series, draws: int = 1_000) -> dict:
    """Spearman's rho of Strength and eta over the models, its bootstrap interval, and p by permutation.

    The models are points of one grid, not a random sample: the interval says how far rho hangs on single models.
    """
    x, y = strength.loc[eta.index].to_numpy(), eta.to_numpy()
    a, b = (scipy_stats.rankdata(values) - (len(x) + 1) / 2 for values in (x, y))
    test = scipy_stats.permutation_test((a,), lambda drawn, axis: (drawn * b).sum(axis), permutation_type="pairings",
                                        vectorized=True, n_resamples=9_999, rng=np.random.default_rng(0))
    return {"rho": stats.bootstrap(stats.rank_correlation, x, y, draws=draws), "p": float(test.pvalue),
            "models": len(x)}


def readings(measured: list[dict], strength: pd.Series) -> pd.DataFrame:
    """What the choices that the paper leaves open do, a row each: the fit, the hypotheses, how parity is read.

    best is the highest eta of the 75, viable or not; rho with paper is Spearman's of ours with the printed eta, over
    the 74 settings; gain counts the pairs of models that np = 1 makes more accurate.
    """
    rows = []
    for one in measured:
        table = scores(one, draws=20)
        gain = (gains(table)["increase"] > 1e-9).sum() if len(one["right"][0]) else ""
        for agree, part in ("all", table), ("most", most(table)):
            top = part.loc[part["eta"][1:].idxmax()]
            rows.append({"fitted on": one["fit"], "hypotheses": one["reading"], "agree in": agree,
                         "base accuracy": part.loc["Base", "accuracy"], "base parity": part.loc["Base", "parity"],
                         "base eta": part.loc["Base", "eta"], "best eta": top["eta"], "of": top.name,
                         "rho with S": stats.rank_correlation(strength.loc[part.index], part["eta"]),
                         "rho with paper": stats.rank_correlation(printed()["eta"][2:], part["eta"][2:]), "gain": gain})
    return pd.DataFrame(rows).round(2)


def examples(model, occupations: list[str], context: str = "prepared a pie") -> pd.DataFrame:
    """What the classifier makes of some occupations in one context: each label's probability, and the likeliest."""
    pairs = nli.pairs()
    rows = pairs[pairs["occupation"].isin(occupations) & (pairs["context"] == context)]
    p, names = nli.probabilities(model, rows).numpy(), nli.labels(model)
    table = rows[["premise", "hypothesis"]].assign(**dict(zip(names, p.T.round(2))), says=nli.predictions(p, names))
    return table.reset_index(drop=True)
