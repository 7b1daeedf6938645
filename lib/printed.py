"""What the papers print, and how a number of ours is held against it.

Printed numbers live in data/paper/<paper>.csv (columns table, row, column, value), digits as printed. An empty value
is one that the text at hand has lost. lib/verdict.py decides what matches."""

import math

import pandas as pd

from lib import CompanionError, paths
from lib.engine.stats import Estimate
from lib.verdict import match


def numbers(paper: str) -> pd.DataFrame:
    """Every printed value of data/paper/<paper>.csv as text: table, row, column, value."""
    file = paths.PAPER / f"{paper}.csv"
    if not file.is_file():
        there = ", ".join(sorted(path.stem for path in paths.PAPER.glob("*.csv")))
        raise CompanionError(f"There are no printed numbers {paper!r}: choose one of {there}.")
    return pd.read_csv(file, comment="#", dtype=str)


def reference() -> pd.DataFrame:
    """What others have published of the papers' models, as text: what, model, value, source."""
    return pd.read_csv(paths.PAPER / "reference.csv", comment="#", dtype=str)


def departures(ours: dict[tuple[str, str], float], near: float) -> pd.DataFrame:
    """Ours, {(what, model): value}, beside what others have published; further off than `near` is a departure."""
    known, rows = reference().set_index(["what", "model"]), []
    for key, value in ours.items():
        published, source = known.loc[key]
        gap = value - float(published)
        said = f"departs by {gap:+.3f}" if abs(gap) > near else f"within {near:g}"
        rows.append([*key, published, f"{value:.3f}", said, source])
    return pd.DataFrame(rows, columns=["what", "model", "published", "ours", "departure", "source"])


def printed(paper: str, table: str) -> pd.DataFrame:
    """One printed table, wide. Columns of numbers are floats; others (settings) are text; what is missing is NaN."""
    frame = numbers(paper)
    rows = frame[frame["table"] == table]
    if rows.empty:
        raise CompanionError(
            f"{paper} has no {table!r}: choose one of {', '.join(frame['table'].unique())}."
        )
    wide = rows.pivot(index="row", columns="column", values="value")
    wide = wide.reindex(index=rows["row"].unique(), columns=rows["column"].unique())
    return wide.apply(_numeric).rename_axis(index=None, columns=None)


def _numeric(column: pd.Series) -> pd.Series:
    try:
        return pd.to_numeric(column)
    except ValueError:
        return column


def compare(
    paper: str, ours: dict, same_model: bool, tables: list[str] = (), digits: int = 2, **reasons
) -> pd.DataFrame:
    """table | row | column | paper | ours | difference | verdict, one row per printed number.

    ours     {(table, row, column): float or Estimate}, keyed as in data/paper; what it lacks was not run
    tables   all rows of these; none: only the rows that `ours` names
    digits   decimals shown of ours and of the difference
    reasons  why a number differs, or is missing: as verdict.match takes them"""
    said = numbers(paper).set_index(["table", "row", "column"])["value"]
    if unknown := set(ours) - set(said.index):
        raise CompanionError(
            f"{paper} prints no {sorted(unknown)[0]}: name table, row and column as in data/paper."
        )
    rows = []
    for key, value in said[
        [key[0] in tables if tables else key in ours for key in said.index]
    ].items():
        mine = ours.get(key)
        number = mine.value if isinstance(mine, Estimate) else mine
        gap = (
            math.nan
            if mine is None or pd.isna(value)
            else round(number - float(value), digits) + 0.0
        )
        shown = "" if mine is None else f"{mine:.{digits}f}"
        rows.append([*key, value, shown, gap, match(value, mine, same_model, **reasons)])
    return pd.DataFrame(
        rows, columns=["table", "row", "column", "paper", "ours", "difference", "verdict"]
    )


def by_key(compared: pd.DataFrame) -> dict[tuple[str, str, str], tuple[str, str]]:
    """Rows of `compare` as Run.compared keeps them for the board: {(table, row, column): (ours, verdict)}."""
    return {
        (row.table, row.row, row.column): (row.ours, row.verdict) for row in compared.itertuples()
    }
