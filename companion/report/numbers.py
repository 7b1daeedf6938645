"""Every number that the papers print, with ours beside it: figures/<run>/numbers/NN.json."""

import json
import math
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from companion import printed, results
from companion.papers import PAPERS
from companion.printed import Match, match
from companion.projective import table7
from lib import CompanionError
from lib.bias_a_head import heads
from lib.counteracts import cloze
from lib.engine.stats import Estimate
from lib.projective import nli, projection
from lib.text import data as lists


@dataclass(frozen=True)
class Compared:
    """A number of ours beside a printed one, as a notebook kept it."""

    ours: Estimate | None
    match: str  # whether it is the printed one, and why not; it opens with a printed.Match


def compared(run: str, folder: Path) -> dict[tuple, Compared]:
    """{(paper, table, row, column): what notebooks kept beside it}."""
    kept = {}
    for file in sorted(folder.glob("numbers/*.json")):
        try:
            rows = json.loads(file.read_text(encoding="utf-8"))
            if not rows:  # a notebook that compares nothing keeps no record
                raise ValueError(rows)
            for row in rows:
                key = row["paper"], row["table"], row["row"], row["column"]
                ends = [row[name] for name in ("ours", "low", "high") if name in row]
                has_number = ends and not isinstance(ends[0], str)  # a p may be "< .001" alone
                ours = Estimate(*ends) if has_number else None
                if ours and (math.isnan(ours.value) or ours.is_damaged):
                    raise ValueError(row)
                kept[key] = Compared(ours, row["match"])
        except (ValueError, TypeError, KeyError):
            raise CompanionError(
                f"figures/{run}/numbers/{file.name} is damaged: restore it with git, or run its "
                "notebook again."
            ) from None
    return kept


def every_number(
    counts: dict[tuple, Compared], folders: dict[str, Path] | None = None
) -> pd.DataFrame:
    """source (the paper), table, row, column, printed; of each run `ours, <run>` (Estimates) and
    `verdict, <run>`, "not run" where no notebook compares it.

    counts   {(paper, table, row, column): ...}, of numbers that need no model
    """
    frames = [printed.numbers(key).assign(source=key) for key in PAPERS]
    table = pd.concat(frames, ignore_index=True).rename(columns={"value": "printed"})
    keys = list(zip(table["source"], table["table"], table["row"], table["column"], strict=True))
    missing = _why_missing(keys, table["printed"])
    for run, folder in (folders or results.runs()).items():
        ours = _of_run(run, folder, counts, missing)
        shown = [ours.get(key) or Compared(None, missing[key]) for key in keys]
        table[f"ours, {run}"] = pd.Series([one.ours for one in shown], dtype=object)
        table[f"verdict, {run}"] = [one.match for one in shown]
    table["source"] = [PAPERS[key].title for key in table["source"]]
    first = ["source", "table", "row", "column", "printed"]
    others = [name for name in table if name not in first]
    return table[first + others].fillna({"printed": ""})


def _why_missing(keys: list[tuple], values: pd.Series) -> dict[tuple, str]:
    """What stands in place of a number that no notebook compares."""
    reasons = printed.numbers("not_run").set_index(["paper", "table"])["why"].to_dict()
    missing = {}
    for key, value in zip(keys, values, strict=True):
        reason = "the printed number is lost" if pd.isna(value) else reasons.get(key[:2], "")
        missing[key] = f"{Match.NOT_RUN} ({reason})" if reason else str(Match.NOT_RUN)
    return missing


def _of_run(run: str, folder: Path, counts: dict, known: dict) -> dict[tuple, Compared]:
    """{key: ours} of a run, with numbers that a paper's text prints once more."""
    ours = compared(run, folder) | counts
    for paper, *key in ours.keys() - known.keys():
        raise CompanionError(
            f"figures/{run}/numbers compares {tuple(key)}, which data/paper/{paper}.csv does not "
            "have: add it there, or run that notebook again."
        )
    for paper in PAPERS.values():
        for again, first in paper.repeated.items():
            if (paper.key, *first) in ours:
                ours[paper.key, *again] = ours[paper.key, *first]
    return ours


# ---- numbers that need no model
OTHER_COUNT = {
    ("gender", "attribute words"): "the list has words that stand in several pairs",
    ("gender", "target words"): "either gender's list has 84, and SEAT takes 82 and 84",
    ("race", "target words"): "the list has eleven",
}


def counts() -> dict[tuple, Compared]:
    """{(paper, table, row, column): ours}: sizes of word lists, data sets and settings."""
    ours = _word_lists() | _settings() | _occupations()
    theirs = {}
    for paper in PAPERS:
        for row in printed.numbers(paper).itertuples():
            theirs[paper, row.table, row.row, row.column] = row.value
    found = {}
    for key, value in ours.items():
        why = OTHER_COUNT.get(key[2:], "another variant")
        said = match(theirs[key], value, same_model=True, why=why)
        found[key] = Compared(Estimate(float(value)), said)
    return found


def _word_lists() -> dict[tuple, int]:
    """The words that Bias A-head counts."""
    pairs = lists.words("gender_pairs")
    gender = heads.gender_sets()
    race = heads.race_sets()
    sizes = {
        ("gender", "attribute words"): pairs[["female", "male"]].stack().nunique(),
        ("gender", "attribute pairs"): len(pairs),
        ("gender", "target words"): len(gender.X) + len(gender.Y),
        ("race", "attribute words"): len(race.A) + len(race.B),
        ("race", "attribute pairs"): len(race.A),
        ("race", "target words"): len(race.X) + len(race.Y),
    }
    return {("bias_a_head", "Section 4", *key): size for key, size in sizes.items()}


def _settings() -> dict[tuple, int]:
    """What Projective Methods counts: sentence pairs and debiased models."""
    inference = nli.pairs()
    debiased = projection.settings()
    last_layer = [setting for setting in debiased if setting.level == "Layer 11"]
    sizes = {
        ("Section 3", "test set", "occupations"): inference["occupation"].nunique(),
        ("Section 3", "test set", "sentence pairs"): len(inference),
        ("Section 4", "debiased models", "number"): len(debiased),
        ("Section 5", "Spearman of S and eta", "models"): len(projection.models()),
        ("Section 5", "Layer 11", "number"): len(last_layer),
    }
    return {("projective", *key): size for key, size in sizes.items()}


def _occupations() -> dict[tuple, float]:
    """What Counteracts takes over or sets: percentages of women, and how many fillers count."""
    values = {}
    for job in lists.words("occupations").itertuples():
        values["counteracts", "Table 1", job.occupation, "percent women"] = job.percent_women
    for size, k in {"smallest": 3, "middle": 5, "largest": cloze.KEPT}.items():
        values["counteracts", "prose", "Results", f"{size} k"] = k
    return values


def contradictions() -> pd.DataFrame:
    """Where a paper's printed numbers disagree with each other or with its text."""
    rows = []
    table2 = printed.printed("bias_a_head", "Table 2")
    for name, row in table2[table2["All"] > table2["0 (Full)"]].iterrows():
        note = "masking all biased heads is said to worsen it, and raises it"
        rows.append(("Bias A-head", f"Table 2, {name}", row["0 (Full)"], row["All"], note))
    note = "the abstract's 9 leaves the base prompt out"
    rows.append(("Counteracts", "kinds of prompts", 9, len(cloze.KINDS), note))
    own = pd.DataFrame(rows, columns=["source", "where", "printed", "found", "note"])
    projective = table7.contradictions().rename(columns={"recomputed": "found"})
    projective = projective.assign(source="Projective Methods")
    both = pd.concat([own, projective])[list(own)].astype({"printed": float, "found": float})
    return both.sort_values("source", kind="stable", ignore_index=True)
