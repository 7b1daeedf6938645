"""Claims that no notebook tests by itself, but that the tables it stored answer: one function each.

Each takes the Tables of a run and returns rows (tested on, found, verdict): none where the table is not there, so that
the claim counts as not run. data/paper/claims.csv names the functions; lib/publish/claims.py calls them.
"""

from pathlib import Path

import pandas as pd

from lib import paths

SIGN = .9  # what "the sign of the score is that of the effect" is taken to mean: in so many of the heads


class Tables:
    """The tables of a run, by name: None where there is no such file."""

    def __init__(self, folder: Path):
        self.folder = folder

    def __getitem__(self, name: str) -> pd.DataFrame | None:
        file = self.folder / f"{name}.csv"
        return pd.read_csv(file) if file.is_file() else None


def tables(run) -> Tables:
    """Those that a run has made, or else those that are stored of it."""
    own = run.out if (run.out / "09_table7.csv").is_file() else paths.FIGURES / run.name
    return Tables(own)


def seat_order(tables: Tables) -> list[tuple]:
    """Bias A-head, footnote 9: SEAT .351 of GPT-2, 1.35 of BERT."""
    table = tables["02_seat"]
    if table is None or len(gender := table[table["bias"] == "gender"]) < 2:
        return []
    encoder, decoder = gender.iloc[0], gender.iloc[1]  # as notebook 02 lists them
    return [(f"{decoder['model']} against {encoder['model']}", f"{decoder['SEAT']:.2f} against {encoder['SEAT']:.2f}",
             _holds(abs(decoder["SEAT"]) < abs(encoder["SEAT"])))]


def gradient_sign(tables: Tables) -> list[tuple]:
    """Bias A-head, 3.2: a positive score means that excluding the head lowers |SEAT|. In nine of ten heads."""
    table = tables["02_agreement"]
    shares = [] if table is None else zip(table["model"], table["same sign"])
    return [(model, f"in {share} of the heads", _holds(float(share.rstrip("%")) / 100 >= SIGN))
            for model, share in shares]


def running_example(tables: Tables) -> list[tuple]:
    """Bias A-head, Fig. 3: the biased head's weight falls from .0167 to .0073."""
    table = tables["03_verdicts"]
    if table is None:
        return []
    weight = table[table["heads"] == "biased"].set_index("measure")
    before, after = (weight.loc[f"weight {side}", "ours"] for side in ("original", "counter"))
    return [(weight.loc["weight original", "model"], f"{before:.3f} to {after:.3f}", _holds(after < before))]


def contrast(tables: Tables) -> list[tuple]:
    """Bias A-head, introduction: the change of biased heads is greater. By the paper's unit, the sentence.

    Within chance where the 95 % intervals of the two groups overlap.
    """
    table, rows = tables["03_tests"], []
    for where, part in () if table is None else table[table["unit"] == "sentence"].groupby("figure", sort=False):
        biased, regular = (part[part["heads"] == group].iloc[0] for group in ("biased", "regular"))
        apart = biased["low"] > regular["high"] or regular["low"] > biased["high"]
        rows.append((where, f"{biased['difference']:.2f} against {regular['difference']:.2f}",
                     _holds(biased["difference"] > regular["difference"]) + ("" if apart else " (within chance)")))
    return rows


def top3_best(tables: Tables) -> list[tuple]:
    """Bias A-head, appendix A: of the three targeted choices Top-3 has the lowest SEAT and the lowest PPPL."""
    if tables["04_table1"] is None:
        return []
    table = tables["04_table1"].set_index("masked").loc[["Top-3", "Bottom-3", "All"], ["SEAT", "PPPL"]]
    first = [table[name].idxmin() for name in table]
    return [("", f"lowest SEAT: {first[0]}, lowest PPPL: {first[1]}", _holds(set(first) == {"Top-3"}))]


def lower_strength(tables: Tables) -> list[tuple]:
    """Projective methods, 5: the interventions reduce S."""
    return _lower(tables["08_table7"], "S")


def lower_distance(tables: Tables) -> list[tuple]:
    """Projective methods, 5: the interventions reduce D."""
    return _lower(tables["08_table7"], "D")


def other_settings(tables: Tables) -> list[tuple]:
    """Projective methods, 6: the best setting for S is not the best viable one for eta."""
    strength, fairness = best_settings(tables)
    if not (strength and fairness):
        return []
    return [("", f"S: {strength}; NLI: {fairness}", _holds(strength != fairness))]


def best_settings(tables: Tables) -> tuple[str, str]:
    """Names of the setting of lowest S (08) and of the fairest viable one (09, most contexts agree): "" where unknown.

    Viable: within 5 points of base, as notebook 09 marks it. Of equals the first, or the more accurate one.
    """
    intrinsic, nli = tables["08_table7"], tables["09_table7"]
    strength = "" if intrinsic is None else _debiased(intrinsic).set_index("model")["S"].idxmin()
    if nli is None:
        return strength, ""
    kept = _debiased(nli)[lambda table: table["viable"].isin(["yes", "in points"])]
    best = kept.sort_values(["eta, most", "SNLI"], ascending=False, kind="stable")["model"]
    return strength, best.iloc[0] if len(best) else ""


def _lower(table: pd.DataFrame | None, column: str) -> list[tuple]:
    if table is None:
        return []
    base, ours = table.set_index("model").loc["Base", column], _debiased(table).set_index("model")[column]
    return [("", f"{base:.3f} to {ours.min():.3f}, {ours.idxmin()}", _holds(ours.min() < base))]


def _debiased(table: pd.DataFrame) -> pd.DataFrame:
    """The 74 settings: without base and the baseline of another paper."""
    return table[~table["model"].isin(["Base", "Sent-debias"])]


def _holds(true) -> str:
    return "holds" if true else "fails"
