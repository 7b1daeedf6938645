"""What the papers print, and how a number of ours compares with it.

Printed numbers are in data/paper/<paper>.csv (columns table, row, column, value), with the digits
as printed. An empty value is one that the text at hand has lost.
"""

import math
from decimal import Decimal
from enum import StrEnum

import pandas as pd

from lib import CompanionError, paths
from lib.engine.stats import Estimate


def numbers(paper: str) -> pd.DataFrame:
    """Every printed value of data/paper/<paper>.csv as text: table, row, column, value."""
    file = paths.PAPER / f"{paper}.csv"
    if not file.is_file():
        known = ", ".join(sorted(path.stem for path in paths.PAPER.glob("*.csv")))
        raise CompanionError(f"There are no printed numbers {paper!r}: choose one of {known}.")
    return pd.read_csv(file, comment="#", dtype=str)


def reference() -> pd.DataFrame:
    """What others have published of the papers' models, as text: what, model, value, source."""
    return pd.read_csv(paths.PAPER / "reference.csv", comment="#", dtype=str)


def departures(ours: dict[tuple[str, str], float], near: float) -> pd.DataFrame:
    """Our numbers beside those that others have published.

    ours   {(what, model): value}
    near   a number that is further off is a departure
    """
    known = reference().set_index(["what", "model"])
    rows = []
    for (what, model), value in ours.items():
        published, source = known.loc[what, model]
        gap = value - float(published)
        departure = f"departs by {gap:+.3f}" if abs(gap) > near else f"within {near:g}"
        rows.append(
            {
                "what": what,
                "model": model,
                "published": published,
                "ours": f"{value:.3f}",
                "departure": departure,
                "source": source,
            }
        )
    return pd.DataFrame(rows, columns=["what", "model", "published", "ours", "departure", "source"])


def printed(paper: str, table: str) -> pd.DataFrame:
    """One printed table, wide.

    Columns of numbers are floats, others (settings) are text; what is missing is NaN.
    """
    frame = numbers(paper)
    rows = frame[frame["table"] == table]
    if rows.empty:
        raise CompanionError(
            f"{paper} has no {table!r}: choose one of {', '.join(frame['table'].unique())}."
        )
    wide = rows.pivot(index="row", columns="column", values="value")
    as_printed = wide.reindex(index=rows["row"].unique(), columns=rows["column"].unique())
    return as_printed.apply(_numeric).rename_axis(index=None, columns=None)


def _numeric(column: pd.Series) -> pd.Series:
    """A column as floats, or as it is if it holds text."""
    try:
        return pd.to_numeric(column)
    except ValueError:
        return column


def compare(
    paper: str, ours: dict, same_model: bool, tables: list[str] = (), digits: int = 2, **reasons
) -> pd.DataFrame:
    """table | row | column | paper | ours | difference | verdict, one row per printed number; ours
    are numbers, or Estimates where any has an interval.

    ours        {(table, row, column): float or Estimate}, keyed as in data/paper; what it lacks was
                not run
    same_model  whether ours is the paper's model on the paper's data
    tables      all rows of these; none: only the rows that `ours` names
    digits      decimals of the difference
    reasons     why a number differs, or is missing: as `match` takes them
    """
    values = numbers(paper).set_index(["table", "row", "column"])["value"]
    unknown = set(ours) - set(values.index)
    if unknown:
        raise CompanionError(
            f"{paper} prints no {sorted(unknown)[0]}: name table, row and column as in data/paper."
        )
    rows = []
    for key, value in values.items():
        if key[0] in tables if tables else key in ours:
            number = ours.get(key)
            off = math.nan
            if number is not None and not pd.isna(value):
                off = round(_value(number) - float(value), digits) + 0.0  # no -0.0
            rows.append([*key, value, number, off, match(value, number, same_model, **reasons)])
    columns = ["table", "row", "column", "paper", "ours", "difference", "verdict"]
    found = pd.DataFrame(rows, columns=columns)
    if any(isinstance(number, Estimate) for number in found["ours"]):
        found["ours"] = found["ours"].map(_estimate).astype(object)
    return found


def _estimate(number: Estimate | float | None) -> Estimate | None:
    """Of a column in which some numbers have intervals, one that has none."""
    if isinstance(number, Estimate):
        return number
    return None if math.isnan(_value(number)) else Estimate(float(number))


def _value(number: Estimate | float | None) -> float:
    if number is None:
        return math.nan
    return number.value if isinstance(number, Estimate) else number


def by_key(compared: pd.DataFrame) -> dict[tuple[str, str, str], tuple]:
    """Rows of `compare` as Run.compared keeps them: {(table, row, column): (ours, verdict)}."""
    found = {}
    for row in compared.itertuples():
        found[row.table, row.row, row.column] = (row.ours, row.verdict)
    return found


# ---- one rule for printed numbers
class Match(StrEnum):
    """What a number of ours is, held against a printed one."""

    MATCHES = "matches"
    WITHIN_INTERVAL = "within interval"
    DIFFERS = "differs"
    OTHER_MODEL = "not comparable"  # ours is of another model than the paper's
    NOT_RUN = "not run"


def match(
    printed: str | float | None,
    ours: Estimate | float | None,
    same_model: bool,
    why: str = "a choice that the paper leaves open",
    missing: str = "not measured",
) -> str:
    """Whether a number of ours is the printed one, to the printed digits; with the reason where
    not.

    printed     digits as printed: half a unit of the last one is what rounding can explain; None or
                nan where the number is lost
    same_model  whether ours is the paper's model on the paper's data; another model's number is
                never called a match
    """
    value = _value(ours)
    if printed is None or printed != printed:
        return f"{Match.NOT_RUN} (the printed number is lost)"
    if math.isnan(value):
        return f"{Match.NOT_RUN} ({missing})"
    if not same_model:
        return str(Match.OTHER_MODEL)
    if abs(value - float(printed)) <= _half_unit(printed):
        return str(Match.MATCHES)
    if isinstance(ours, Estimate) and ours.low <= float(printed) <= ours.high:
        return str(Match.WITHIN_INTERVAL)
    return f"{Match.DIFFERS}: {why}"


def _half_unit(printed: str | float) -> float:
    """Half a unit of the last printed digit, and a little for floating point."""
    if isinstance(printed, str):
        digits = Decimal(printed)
    else:
        digits = Decimal(repr(float(printed))).normalize()
    return 0.5 * 10.0 ** min(digits.as_tuple().exponent, 0) + 1e-9
