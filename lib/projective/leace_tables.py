"""Numbers of LEACE and its orthogonal variant, in the columns of lib/projective/tables.py.

Notebooks 08 and 09 put them below the paper's 76 models:

    pd.concat([tables.by_model(measured), leace_tables.by_model(erased).iloc[1:]])

The first row is the base model once more. `settings` says which variant it is.
"""

import numpy as np
import pandas as pd

from lib.engine import stats
from lib.projective import leace, nli, split_half, tables
from lib.projective.projection import Level
from lib.text import factual

# As tables.ABOUT, for leace.NAMES.
ABOUT = pd.DataFrame(
    {
        "level": [Level.BASE, *[level for _, level in leace.MODELS]],
        "settings": ["", *[method for method, _ in leace.MODELS]],
        "np": np.nan,
    },
    leace.NAMES,
)


def by_model(measured: dict, fit: str = leace.MANY) -> pd.DataFrame:
    """S, D, next-sentence accuracy under one fit, and the columns of ABOUT.

    measured   of leace.measure
    """
    return tables.by_model(measured, fit, ABOUT)


def scores(measured: dict, fit: str = nli.PAIRS, draws: int = 500) -> pd.DataFrame:
    """Fairness and accuracy in inference under one fit, with the columns of tables.scores.

    measured   of leace.measure_nli
    """
    return tables.scores(nli.under(measured, fit), draws, ABOUT)


def changes(
    measured: dict,
    fit: str = leace.MANY,
    control: str = "random_concepts",
    draws: int = split_half.DRAWS,
) -> dict[str, dict[str, split_half.Best]]:
    """What each eraser does to S and D, {"S": {model: Best}, "D": ...}, beside random ones.

    The form is that of notebook 08's best settings, but nothing is chosen here: the estimates are
    over all triple pairs, with their 95 % intervals, and there are no halves.
    measured   of leace.measure
    control    which random erasers: "random_concepts", or "random" as for the paper's projections
    draws      bootstrap samples
    """
    measured = measured | {"random": measured[control]}
    found = {}
    for column in "SD":
        found[column] = _changes(measured, column, measured["fits"].index(fit), draws)
    return found


def kept_facts(found: dict, draws: int = 2_000) -> pd.DataFrame:
    """What erasers leave of factual gender: model, directions, right, change, change of log odds.

    The columns are those of notebook 08's table of projections.
    found   of leace.facts
    """
    rows = []
    before = found["Base"]
    for method in leace.METHODS:
        tried = {"gender": found[method], "random concepts": found[f"{method}, random concepts"]}
        for kind, odds in tried.items():
            rows.append(facts_row(f"{method}, {Level.LAYER_11}", kind, odds, before, draws))
    return pd.DataFrame(rows)


def facts_row(
    model: str, kind: str, odds: np.ndarray, before: np.ndarray, draws: int = 2_000
) -> dict[str, str]:
    """One row of the table of factual gender, the mean of several draws [draws, sentences]."""
    shares = (np.asarray(odds) > 0).mean(0)  # of the draws, in which a sentence is right
    change = factual.knowledge(np.mean(odds, axis=0), before, draws).odds
    right = stats.bootstrap(np.mean, shares.reshape(-1, 2).mean(1), draws=draws)
    return {
        "model": model,
        "directions": kind,
        "right": f"{right:.2f}",
        "change": f"{right.value - (before > 0).mean():+.2f}",
        "change of log odds": f"{change:+.2f}",
    }


def _changes(measured: dict, column: str, at: int, draws: int) -> dict[str, split_half.Best]:
    """`changes` of S or D under the fit that stands at a place."""
    n = measured["s"].shape[-1]
    samples = split_half.resampled_rows(n, draws, np.random.default_rng(0))
    values = split_half.top_means(measured, column.lower(), samples)
    of_fit = values[at]  # [1 + draws, models]
    of_random = values[len(measured["fits"]) :].mean(0)
    base = of_fit[:, 0]
    found = {}
    for i, name in enumerate(leace.NAMES):
        fitted, random = of_fit[:, i], of_random[:, i]
        found[name] = split_half.Best(
            settings=(name,),
            judged=stats.redrawn(fitted, n),
            change=stats.redrawn(base - fitted, n),
            random=stats.redrawn(base - random, n),
            beyond=stats.redrawn(random - fitted, n),
        )
    return found
