"""What Counteracts' headlines come to in bundled, published and untrained models, side by side.

    python -m companion.knowledge    # from stored tables of notebook 11, into PUBLISHED.md

A claim speaks of some families, and is judged on these alone. Its score can be had of any model:
the table has it of all, without an outcome, so that a reader sees whether published models do what
bundled ones do. Everything is in the whole distribution.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from companion import alike, claims, published
from companion.counteracts import estimators, tables
from companion.report import readme
from lib import paths
from lib.counteracts import cloze
from lib.engine.files import read_text, replace
from lib.engine.stats import Estimate, redrawn
from lib.text import data

MARKER = "<!-- made by python -m companion.knowledge -->"  # before the table and after it
FILE = "11_occupations.csv"
RUNS = ("mini", published.PROFILE, f"{published.PROFILE}-gemma3-270m", "null")
# What a row is called, and the claim whose score it has.
ROWS = {
    "lean of the base prompts": "base-leans",
    "lean after a counterexample of the same form": "albert-counter-syntactic",
    "after a neutral sentence": "encoders-neutral",
    "after an unrelated sentence": "unrelated-not-overturned",
    "form moves more than meaning, by": "syntactic-over-semantic",
}
MOVES = "a counterexample of the same form moves the margin against the job's gender, by"
MASS = "gendered words in base prompts, % of the probability"
OCCUPATIONS = "occupations"


def scores(of_model: pd.DataFrame, draws: int = estimators.DRAWS) -> dict[str, Estimate]:
    """The score of each of ROWS, by the id of its claim, and MOVES: by how much the gender that
    dominates an occupation loses, in whichever direction the base prompts lean.

    of_model   columns occupation, kind, female, male: of one model, as notebook 11 stores them
    """
    dominated = {}
    for file, column in cloze.OCCUPATIONS.values():
        dominated |= {row[column]: row["dominated"] for row in data.rows(file)}
    table = of_model.assign(dominated=of_model["occupation"].map(dominated))
    margins = tables.resampled(table, draws=draws)
    understood = pd.Series(1.0, list(cloze.KINDS))  # in full every prompt has gendered tokens
    evidence = estimators.Evidence(margins, understood, tables.n_by_group(table))
    found = {}
    for claim in ROWS.values():
        found[claim] = estimators.tested(claims.claims()[claim], evidence).estimate
    loss = margins["base"] - margins[estimators.COUNTER_SYNTACTIC]
    loss[:, 1] *= -1  # the second group is occupations of men, whose gender is below 0
    found[MOVES] = redrawn(loss.mean(-1), sum(evidence.n))
    return found


def table(folder: Path = paths.FIGURES) -> pd.DataFrame:
    """A column for each model that alike.py compares, in the order of RUNS; a row for each of
    ROWS and MOVES, as text; then how much probability the words hold that are counted, and how many
    occupations there are.
    """
    columns = {}
    for run in RUNS:
        file = folder / run / FILE
        if not file.is_file():
            continue
        stored = pd.read_csv(file, keep_default_na=False)  # a model is called null
        for name, of_model in stored.groupby("model", sort=False):
            if name not in alike.NAMES:
                continue
            found = scores(of_model)
            column = {row: f"{found[claim]:z.2f}" for row, claim in ROWS.items()}
            column[MOVES] = f"{found[MOVES]:z.2f}"
            base = of_model[of_model["kind"] == "base"]
            column[MASS] = f"{100 * np.mean(base['female'] + base['male']):.1f}"
            column[OCCUPATIONS] = str(len(base))
            columns[name] = column
    return pd.DataFrame(columns)


def in_markdown(frame: pd.DataFrame) -> str:
    """The table as PUBLISHED.md shows it."""
    lines = ["| " + " | ".join(["", *frame.columns]) + " |"]
    lines.append("| --- " * (len(frame.columns) + 1) + "|")
    for row, cells in frame.iterrows():
        lines.append("| " + " | ".join([str(row), *cells]) + " |")
    return "\n".join(lines)


def write():
    """The table into PUBLISHED.md, between its marks."""
    page = alike.PAGE
    text = readme.between(page.name, read_text(page), MARKER, in_markdown(table()), MARKER)
    replace(page, text.encode())


if __name__ == "__main__":
    write()
