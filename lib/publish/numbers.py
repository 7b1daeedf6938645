"""Every number that the papers print, with ours beside it: figures/<run>/numbers/NN.json."""

import json
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from lib import CompanionError, printed, results
from lib.publish.papers import PAPERS
from lib.verdict import Match


@dataclass(frozen=True)
class Compared:
    """A number of ours beside a printed one, as a notebook kept it."""

    ours: str  # as shown
    match: str  # whether it is the printed one, and why not
    kind: str  # the verdict.Match that `match` opens with


def compared(run: str, folder: Path, notebook: str = "*") -> dict[tuple, Compared]:
    """{(paper, table, row, column): what notebooks kept beside it}."""
    kept = {}
    for file in sorted(folder.glob(f"numbers/{notebook}.json")):
        try:
            for row in json.loads(file.read_text(encoding="utf-8")):
                key = row["paper"], row["table"], row["row"], row["column"]
                kept[key] = Compared(row["ours"], row["match"], row["kind"])
        except (ValueError, TypeError, KeyError):
            raise CompanionError(
                f"figures/{run}/numbers/{file.name} is damaged: restore it with git, or run its "
                "notebook again."
            ) from None
    return kept


def every_number(
    counts: dict[tuple, tuple[str, str]], folders: dict[str, Path] | None = None
) -> pd.DataFrame:
    """source (the paper), table, row, column, printed; of each run `ours, <run>` and `verdict, <run>`,
    "not run" where no notebook compares it.

    counts   {(paper, table, row, column): (ours, match)}, of numbers that need no model
    """
    frames = [printed.numbers(key).assign(source=key) for key in PAPERS]
    table = pd.concat(frames, ignore_index=True).rename(columns={"value": "printed"})
    keys = list(zip(table["source"], table["table"], table["row"], table["column"], strict=True))
    missing = _why_missing(keys, table["printed"])
    for run, folder in (folders or results.runs()).items():
        ours = _of_run(run, folder, counts, missing)
        shown = [ours.get(key) or ("", missing[key]) for key in keys]
        table[f"ours, {run}"] = [number for number, _ in shown]
        table[f"verdict, {run}"] = [match for _, match in shown]
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


def _of_run(run: str, folder: Path, counts: dict, known: dict) -> dict[tuple, tuple[str, str]]:
    """{key: (ours, match)} of a run, with numbers that a paper's text prints once more."""
    ours = {key: (one.ours, one.match) for key, one in compared(run, folder).items()}
    ours |= counts
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
