"""Numbers of LEACE and its orthogonal variant, in the columns of companion/projective/tables.py.

What notebooks 08 and 09 show of them, as rows: what was measured, its value and its 95 % interval.

    kept = run.measured(leace_tables.of_bias, *leace_tables.bias_arguments(run))
    leace_tables.by_measure(kept["rows"], leace.MANY, ["S", "D"], "below base")
    leace_tables.estimates(kept["rows"])[leace.MANY, "LEACE, Layer 11", "S below base"]
    kept = run.measured(leace_tables.of_inference, *leace_tables.inference_arguments(run))

The measurements themselves, below the paper's 76 models:

    pd.concat([tables.by_model(measured), leace_tables.by_model(erased).iloc[1:]])

The first row is the base model once more. `settings` says which variant it is.
"""

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
import pandas as pd

from companion.projective import split_half, tables
from lib.engine import stats
from lib.engine.stats import Estimate
from lib.projective import leace, nli
from lib.projective.projection import Level
from lib.text import factual

# Random choices of directions, and of concepts, that every eraser is held against.
DRAWS = 5
CONTROLS = {"random directions": "random", "random concepts": "random_concepts"}
BEYOND = "eta, all beyond random concepts"

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


def fairness(
    measured: dict,
    fit: str = nli.PAIRS,
    agree: str = "all",
    control: str = "random_concepts",
    draws: int = split_half.DRAWS,
) -> dict[str, split_half.Best]:
    """What each eraser does to eta, beside random ones, as `changes` says it of S and D.

    measured   of leace.measure_nli; its random erasers are those of the fit nli.PAIRS
    agree      one of split_half.AGREE
    """
    neutral, same = nli.by_model(nli.under(measured, fit))
    of_random = measured[control]
    neutral = np.concatenate([neutral[None], of_random["neutral"]])
    same = np.concatenate([same[None], of_random["agree"]])
    parity = split_half.has_parity(same, agree).astype(float)
    n = neutral.shape[-1]
    weights = tables.weights(n, draws, 0)
    fitted, *random = split_half.eta_of_samples(weights, neutral, parity)
    found = {}
    for name, own, drawn in zip(leace.NAMES, fitted.T, np.mean(random, axis=0).T):
        found[name] = _beside(name, own, fitted[:, 0], drawn, n, split_half.OCCUPATIONS, better=1)
    return found


def accuracies(measured: dict, fit: str = nli.PAIRS) -> dict[str, Estimate]:
    """By how much each eraser changes the accuracy at the task, over its pairs."""
    right = nli.under(measured, fit)["right"].astype(float)
    found = {}
    for name, own in zip(leace.NAMES, right):
        found[name] = stats.bootstrap(np.mean, own - right[0], draws=split_half.DRAWS)
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
) -> dict[str, str | float | Estimate]:
    """One row of the table of factual gender, the mean of several draws [draws, sentences]."""
    shares = (np.asarray(odds) > 0).mean(0)  # of the draws, in which a sentence is right
    right = stats.bootstrap(np.mean, shares.reshape(-1, 2).mean(1), draws=draws)
    return {
        "model": model,
        "directions": kind,
        "right": right,
        "change": right.value - (before > 0).mean(),
        "change of log odds": factual.knowledge(np.mean(odds, axis=0), before, draws).odds,
    }


def _changes(measured: dict, column: str, at: int, draws: int) -> dict[str, split_half.Best]:
    """`changes` of S or D under the fit that stands at a place."""
    n = measured["s"].shape[-1]
    samples = split_half.resampled_rows(n, draws, np.random.default_rng(0))
    values = split_half.top_means(measured, column.lower(), samples)
    of_fit = values[at]  # [1 + draws, models]
    of_random = values[len(measured["fits"]) :].mean(0)
    found = {}
    for name, fitted, random in zip(leace.NAMES, of_fit.T, of_random.T):
        base = of_fit[:, 0]
        found[name] = _beside(name, fitted, base, random, n, split_half.TRIPLE_PAIRS, better=-1)
    return found


def _beside(
    name: str,
    fitted: np.ndarray,
    base: np.ndarray,
    random: np.ndarray,
    n: int,
    unit: str,
    better: int,
) -> split_half.Best:
    """What one eraser does beside base and random ones, each a sample and draws of it.

    better   1 where higher is better, -1 where lower is
    """

    def estimate(drawn: np.ndarray) -> Estimate:
        return stats.redrawn(drawn, n, unit)

    return split_half.Best(
        settings=(name,),
        judged=estimate(fitted),
        change=estimate(better * (fitted - base)),
        random=estimate(better * (random - base)),
        beyond=estimate(better * (fitted - random)),
    )


# ---- what is stored of them
def bias_arguments(run) -> tuple:
    """The arguments of `of_bias` for a run."""
    return run.encoder, run.data, DRAWS, run.seed, run.sizes.items


def of_bias(
    name: str, data: str, draws: int = DRAWS, seed: int = 0, items: int = 0, device=None
) -> dict[str, list[dict]]:
    """What notebook 08 shows of LEACE in next-sentence prediction.

    rows    for each fit, eraser and of S and D: its value, and by how much it is below base; under
            the fit MANY also what random directions and random concepts do, and by how much it is
            beyond these; next-sentence accuracy
    facts   of `kept_facts`
    left    of leace.left
    """
    measured = leace.measure(name, data, draws, seed, device, items)
    rows = []
    for fit in measured["fits"]:
        for control, key in CONTROLS.items():
            shown = control if fit == leace.MANY else ""
            for column, of_column in changes(measured, fit, key).items():
                rows += _rows(fit, column, of_column, "below base", shown)
        right = by_model(measured, fit)["accuracy"]
        rows += [_row(fit, model, "accuracy", Estimate(value)) for model, value in right.items()]
    return {
        "rows": _distinct(rows),
        "facts": [_plain(row) for row in kept_facts(measured["facts"]).to_dict("records")],
        "left": measured["left"].reset_index().to_dict("records"),
    }


def inference_arguments(run) -> tuple:
    """The arguments of `of_inference` for a run."""
    pair_set = nli.PairSet(contexts=run.sizes.nli_contexts[run.data])
    return run.classifier, run.data, pair_set, DRAWS, run.sizes.items


def of_inference(
    name: str, data: str, pair_set: nli.PairSet, draws: int = DRAWS, items: int = 0, device=None
) -> dict[str, list[dict]]:
    """What notebook 09 shows of LEACE in inference.

    rows   for each fit and eraser: parity and accuracy on the generated pairs; eta under both
           variants of parity, and by how much it is above base; under the fit PAIRS also what
           random directions and random concepts do, and by how much it is beyond these; SNLI, and
           its change
    """
    measured = leace.measure_nli(name, data, pair_set, draws, device, items)
    rows = []
    for fit in measured["fits"]:
        for agree in split_half.AGREE:
            for control, key in CONTROLS.items():
                shown = control if fit == nli.PAIRS else ""
                of_eta = fairness(measured, fit, agree, key)
                rows += _rows(fit, f"eta, {agree}", of_eta, "above base", shown)
        table = scores(measured, fit)
        for column in ("parity", "majority", "accuracy", "SNLI"):
            for model, row in table.iterrows():
                rows.append(_row(fit, model, column, tables.estimate(row, column)))
        for model, change in accuracies(measured, fit).items():
            rows.append(_row(fit, model, "SNLI above base", change))
    return {"rows": _distinct(rows)}


def estimates(rows: Sequence[dict]) -> dict[tuple[str, str, str], Estimate]:
    """The stored rows by fit, model and what was measured."""
    numbers = ("value", "low", "high", "n", "unit")
    found = {}
    for row in rows:
        of_row = Estimate(**{name: row[name] for name in numbers})
        found[row["fit"], row["model"], row["what"]] = of_row
    return found


def wide(rows: Sequence[dict], fit: str, columns: Sequence[str]) -> pd.DataFrame:
    """Some of the stored rows as a table of one fit: a row a model; None where there is none."""
    found = estimates(rows)
    cells = {what: [found.get((fit, model, what)) for model in leace.NAMES] for what in columns}
    return pd.DataFrame(cells, pd.Index(leace.NAMES, name="model"), dtype=object)


def by_measure(
    rows: Sequence[dict], fit: str, measures: Sequence[str], beside_base: str
) -> pd.DataFrame:
    """S and D, or eta, of one fit, below each other: a row a model, with both controls.

    beside_base   "below base" or "above base", as the stored rows have it
    """
    parts = []
    for measure in measures:
        columns = {measure: "value", f"{measure} {beside_base}": beside_base}
        for control in CONTROLS:
            columns[f"{measure}, {control}"] = control
        columns |= {f"{measure} beyond {control}": f"beyond {control}" for control in CONTROLS}
        part = wide(rows, fit, list(columns)).rename(columns=columns)
        part.insert(0, "measure", measure)
        parts.append(part)
    return pd.concat(parts)


def of_fits(rows: Sequence[dict]) -> pd.DataFrame:
    """What erasers do in inference under both fits: eta, accuracy at the task, who is viable.

    eta beyond random concepts is None under the fit that these do not belong to.
    """
    parts = []
    for fit in (nli.PAIRS, leace.MANY):
        part = wide(rows, fit, ["eta, all", BEYOND, "eta, most", "SNLI", "SNLI above base"])
        accuracy = np.array([estimate.value for estimate in part["SNLI"]])
        part["viable"] = np.where(nli.viable(accuracy, accuracy[0]), "yes", "no")
        part.insert(0, "fitted on", fit)
        parts.append(part)
    return pd.concat(parts)


def facts(kept: Sequence[dict]) -> pd.DataFrame:
    """The stored facts, as `kept_facts` has them."""
    table = pd.DataFrame(kept)
    for name in ("right", "change of log odds"):
        table[name] = [Estimate(**cell) for cell in table[name]]
    return table


def _plain(row: dict) -> dict:
    """What JSON can hold."""
    return {
        name: asdict(value) if isinstance(value, Estimate) else value for name, value in row.items()
    }


def _rows(
    fit: str, column: str, found: dict[str, split_half.Best], beside_base: str, control: str
) -> list[dict]:
    """A measure of all erasers as rows, beside one of CONTROLS, or "" for none."""
    rows = []
    for model, best in found.items():
        of_model = {column: best.judged, f"{column} {beside_base}": best.change}
        if control:
            of_model[f"{column}, {control}"] = best.random
            of_model[f"{column} beyond {control}"] = best.beyond
        rows += [_row(fit, model, what, estimate) for what, estimate in of_model.items()]
    return rows


def _row(fit: str, model: str, what: str, estimate: Estimate) -> dict:
    return {"fit": fit, "model": model, "what": what} | asdict(estimate)


def _distinct(rows: Sequence[dict]) -> list[dict]:
    """The first row of each measure: a value is the same beside either control."""
    first = {}
    for row in rows:
        first.setdefault((row["fit"], row["model"], row["what"]), row)
    return list(first.values())
