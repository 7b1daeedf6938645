"""Numbers of the paper's 76 models, one row each, named and ordered as in Table 7.

Notebooks 08 and 09 and the claims use them. `measured` is, in `by_model`, what projection.measure
returned, and in `scores` what nli.measure returned for one fit (`nli.under`). The column SNLI is
the accuracy at the task itself: on SNLI's test set with data "paper", on data/demo's pairs with
"mini".
"""


import numpy as np
import pandas as pd
from scipy import stats as scipy_stats

from companion import printed
from lib.engine import stats
from lib.projective import nli, projection
from lib.projective.projection import LEVELS, WRITTEN, Level

PAPER = "projective"
MODELS = projection.models()
NAMES = [setting.name for setting in MODELS]


def _weighting(setting: projection.Setting) -> float:
    """The paper's np: whether the projection at SENT is weighted, nan where there is none."""
    return float(setting.sent.weighted) if setting.sent else np.nan


# What Table 7 says of each model besides numbers.
ABOUT = pd.DataFrame(
    {
        "level": [setting.level for setting in MODELS],
        "settings": [str(setting) for setting in MODELS],
        "np": [_weighting(setting) for setting in MODELS],
    },
    NAMES,
)
ENDS = ("", " low", " high")  # of the columns that hold a number and its 95 % interval


def as_printed() -> pd.DataFrame:
    """Table 7 as printed: S, D, parity, accuracy, eta, SNLI and the columns of ABOUT."""
    return printed.printed(PAPER, "Table 7").loc[NAMES].join(ABOUT)


# ---- intrinsic bias: notebook 08
def by_model(measured: dict, fit: str = WRITTEN, about: pd.DataFrame = ABOUT) -> pd.DataFrame:
    """S, D, next-sentence accuracy under one fit, and the columns of `about`, a row per model."""
    at = measured["fits"].index(fit)
    return about.assign(
        S=tops(measured["s"][at]),
        D=tops(measured["d"][at]),
        accuracy=measured["accuracy"][at].mean(-1),
    )


def tops(values: np.ndarray, share: float = 0.1) -> np.ndarray:
    """nsp.top_mean along the last dimension."""
    n = max(1, round(values.shape[-1] * share))
    return np.partition(values, -n, axis=-1)[..., -n:].mean(-1)


# ---- inference: notebook 09
def scores(measured: dict, draws: int = 500, about: pd.DataFrame = ABOUT) -> pd.DataFrame:
    """Fairness and accuracy of every model with 95 % intervals, and the columns of `about`.

    Columns: parity and eta, where all contexts have to agree; majority and `eta majority`, where
    most of them do; accuracy; SNLI. `... low` and `... high` are the ends of the interval: over
    occupations, of SNLI over its pairs.
    """
    neutral, agree = nli.by_model(measured)
    drawn = weights(neutral.shape[1], draws, np.random.default_rng(0))
    accuracy = drawn @ neutral.T  # [1 + draws, 76], as are the next two
    parity = drawn @ (agree == 1).T
    majority = drawn @ (agree > 0.5).T
    samples = {
        "parity": parity,
        "majority": majority,
        "accuracy": accuracy,
        "eta": accuracy * parity,
        "eta majority": accuracy * majority,
    }
    columns = {}
    for name, values in samples.items():
        low, high = np.quantile(values[1:], [0.025, 0.975], axis=0)
        columns |= {name: values[0], f"{name} low": low, f"{name} high": high}
    snli = [stats.wilson(right) for right in measured["right"]]
    columns["SNLI"] = [estimate.value for estimate in snli]
    columns["SNLI low"] = [estimate.low for estimate in snli]
    columns["SNLI high"] = [estimate.high for estimate in snli]
    return about.assign(**columns)


def weights(n: int, draws: int, seed: int | np.random.Generator) -> np.ndarray:
    """Weights of n items that sum to 1: first the sample itself, then bootstrap samples of it.

    Shape [1 + draws, n]: a product with values [n] gives their mean and its bootstrap samples.
    """
    return np.vstack([np.ones(n), stats.bootstrap_weights(n, draws, seed)]) / n


def most(scores: pd.DataFrame) -> pd.DataFrame:
    """The same scores with parity where most contexts agree: in `parity` and `eta`."""
    columns = {}
    for end in ENDS:
        columns["parity" + end] = scores["majority" + end]
        columns["eta" + end] = scores["eta majority" + end]
    return scores.assign(**columns)


def estimate(row: pd.Series, column: str) -> stats.Estimate:
    """A number of one row of `scores` with its interval."""
    return stats.Estimate(row[column], row[f"{column} low"], row[f"{column} high"])


def best(scores: pd.DataFrame, base: float, relative: bool = False) -> pd.Series | None:
    """The viable model of highest eta, of equals the most accurate one; None where none is viable.

    Viable is within 5 points, or 5 % where `relative`, of the accuracy `base`.
    """
    kept = scores[nli.viable(scores["SNLI"], base, relative=relative)]
    if kept.empty:
        return None
    return kept.sort_values(["eta", "SNLI"], ascending=False).iloc[0]


def by_level(scores: pd.DataFrame, relative: bool = False) -> dict[Level, pd.Series | None]:
    """The best viable model of each level."""
    base = scores.loc["Base", "SNLI"]
    found = {}
    for level in LEVELS:
        found[level] = best(scores[scores["level"] == level], base, relative)
    return found


def viability(scores: pd.DataFrame) -> np.ndarray:
    """Whether each model is viable: "yes" within 5 % of base, "in points" within 5 points, or "no".

    What is within 5 % of base is within 5 points of it too.
    """
    base = scores.loc["Base", "SNLI"]
    in_points = nli.viable(scores["SNLI"], base)
    in_percent = nli.viable(scores["SNLI"], base, relative=True)
    return np.where(in_percent, "yes", np.where(in_points, "in points", "no"))


def table7(scores: pd.DataFrame) -> pd.DataFrame:
    """Table 7's NLI columns, the printed number beside ours, and whether a model is viable.

    In parity and eta all contexts have to agree, in the columns "most" most of them; the latter eta
    has its interval.
    """
    theirs = as_printed()
    other = most(scores)
    columns = {}
    for column in ("parity", "accuracy", "eta", "SNLI"):
        columns[f"{column}, paper"] = theirs[column]
        columns[column] = scores[column].round(3)
        if column == "parity":
            columns["parity, most"] = other["parity"].round(3)
        if column == "eta":
            columns["eta, most"] = [estimate(row, "eta") for _, row in other.iterrows()]
    columns["viable"] = viability(scores)
    return pd.DataFrame(columns, scores.index).rename_axis("model")


def gains(scores: pd.DataFrame) -> pd.DataFrame:
    """The 37 pairs of models that differ in np alone: level, SNLI at np = 0 and 1, increase."""
    # Models of either np are in the same order.
    without = scores[scores["np"] == 0].reset_index()
    weighted = scores[scores["np"] == 1].reset_index()
    return pd.DataFrame(
        {
            "level": without["level"],
            "np = 0": without["SNLI"],
            "np = 1": weighted["SNLI"],
            "increase": weighted["SNLI"] - without["SNLI"],
        }
    )


# ---- printed numbers that disagree with each other
def contradictions() -> pd.DataFrame:
    """Where printed numbers of Projective methods disagree: where, printed, recomputed, note.

    A product or a mean of rounded numbers is granted what rounding can explain.
    """
    full = as_printed()
    rows = [*_products(full), _correlation(full)]
    for level in LEVELS:
        rows += _best_of_level(full, level)
    base = full.loc["Base", "SNLI"]
    # No one threshold gives the models that the paper calls viable: both meanings of 5 % are tried.
    rows += _viable_models(full, "absolute", base - 0.05)
    rows += _viable_models(full, "relative", base * 0.95)
    return pd.DataFrame(rows, columns=["where", "printed", "recomputed", "note"])


def _products(full: pd.DataFrame) -> list[tuple]:
    """The rows of Table 7 whose eta is not accuracy x parity."""
    rows = []
    for name, model in full.iterrows():
        product = model["accuracy"] * model["parity"]
        if abs(product - model["eta"]) > 1.5e-4:
            where = f"Table 7, {name}, eta"
            rows.append((where, model["eta"], round(product, 4), "accuracy x parity"))
    return rows


def _correlation(full: pd.DataFrame) -> tuple:
    """The correlation of section 5, recomputed from Table 7."""
    rho = scipy_stats.spearmanr(full["S"], full["accuracy"] * full["parity"])
    return (
        "Section 5, Spearman of S and eta",
        0.040,
        round(rho.statistic, 4),
        f"over all 76 rows of Table 7, p = {rho.pvalue:.2f}; the size agrees, the sign does not",
    )


def _best_of_level(full: pd.DataFrame, level: Level) -> list[tuple]:
    """Where Table 5's best S, D and viable eta of a level are not the best of Table 7."""
    tops = printed.printed(PAPER, "Table 5")
    models = full[full["level"] == level]
    viable = models[models["SNLI"] >= full.loc["Base", "SNLI"] - 0.05]
    best_models = {
        "S": models["S"].idxmin(),
        "D": models["D"].idxmin(),
        "eta": viable["eta"].idxmax(),
    }
    rows = []
    for column, name in best_models.items():
        in_table5 = tops.loc[level, column]
        in_table7 = full.loc[name, column]
        if in_table5 == in_table7:
            continue
        note = f"best of the level in Table 7: {name}"
        if column == "eta":
            named = f"{level} {tops.loc[level, 'eta settings']}"
            note += f" (viable: absolute 5 %); the settings named, {named}, have "
            note += f"{full.loc[named, 'eta']:.4f}"
        rows.append((f"Table 5, {level}, {column}", in_table5, in_table7, note))
    return rows


def _viable_models(full: pd.DataFrame, variant: str, least: float) -> list[tuple]:
    """Where the models that reach the accuracy `least` are not those called viable in the paper."""
    is_deep = full["level"].isin([Level.LAYER_11, Level.ATTENTION])
    unweighted = full.loc[is_deep & full["np"].eq(0), "SNLI"]
    weighted = full.loc[full["level"].eq(Level.LAYER_12) & full["np"].eq(1), "SNLI"]
    counted = [
        (
            f"Section 5, viable with np = 0 at Layer 11 and + attn, {variant} 5 %",
            0,
            (unweighted >= least).sum(),
            f"threshold {least:.4f}, highest {unweighted.max():.4f}",
        ),
        (
            f"Section 5, viable with np = 1 at Layer 12, {variant} 5 %",
            4,
            (weighted >= least).sum(),
            f"threshold {least:.4f}, lowest {weighted.min():.4f}",
        ),
        (
            f"Table 5, Layer 11, SNLI of the best viable model, {variant} 5 %",
            printed.printed(PAPER, "Table 5").loc["Layer 11", "SNLI"],
            round(least, 4),
            "recomputed: the threshold, which it does not reach",
        ),
    ]
    return [row for row in counted if row[1] != row[2]]
