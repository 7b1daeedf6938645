"""What the papers print, and how a number of ours is held against it.

    paper.printed("projective_methods", "Table 7")      a printed table, rows and columns in the printed order
    paper.compare("projective_methods", ours, same_model=False)       paper | ours | difference | verdict
    paper.claim(estimate)                               holds, fails, or either within chance
    paper.contradictions()                              where Projective methods' numbers disagree with each other

Printed numbers live in data/paper/<paper>.csv (columns table, row, column, value), digits as printed: half a unit of
the last one is what rounding can explain. An empty value is one that the text at hand has lost.
"""

import math

import pandas as pd
from scipy import stats as scipy_stats

from lib import CompanionError, paths
from lib.engine import stats

LEVELS = ("SENT", "Layer 12", "Layer 11", "+ attn")  # of Projective methods, from the output inwards


def numbers(paper: str) -> pd.DataFrame:
    """Every printed value of data/paper/<paper>.csv as text: table, row, column, value."""
    file = paths.PAPER / f"{paper}.csv"
    if not file.is_file():
        there = ", ".join(sorted(path.stem for path in paths.PAPER.glob("*.csv")))
        raise CompanionError(f"There are no printed numbers {paper!r}: choose one of {there}.")
    frame = pd.read_csv(file, comment="#", dtype=str)
    if list(frame.columns) != ["table", "row", "column", "value"]:
        raise CompanionError(f"{file.name} has columns of its own: read it by the module of its notebook.")
    return frame


def printed(paper: str, table: str) -> pd.DataFrame:
    """One printed table, wide. Columns of numbers are floats; others (settings) are text; what is missing is NaN."""
    frame = numbers(paper)
    tables = list(dict.fromkeys(frame["table"]))
    wanted = next((t for t in tables if t.removeprefix("Table ") == str(table).removeprefix("Table ")), None)
    if wanted is None:
        raise CompanionError(f"{paper} has no {table!r}: choose one of {', '.join(tables)}.")
    part = frame[frame["table"] == wanted]
    wide = part.pivot(index="row", columns="column", values="value")
    wide = wide.reindex(index=part["row"].unique(), columns=part["column"].unique())
    return wide.apply(_numeric).rename_axis(index=None, columns=None)


def verdict(value: str, ours, same_model: bool, why: str = "a choice that the paper leaves open",
            missing: str = "not measured") -> str:
    """Of one number of ours (a float, or a stats.Estimate with its interval) against a printed one.

    `same_model`: whether ours is the paper's model on the paper's data; another model's number is never a match.
    """
    if pd.isna(value):
        return "not run (the printed number is lost)"
    if ours is None or pd.isna(_value(ours)):
        return f"not run ({missing})"
    if not same_model:
        return "other model"
    if abs(_value(ours) - float(value)) <= _rounding(value):
        return "matches"
    if isinstance(ours, stats.Estimate) and ours.low <= float(value) <= ours.high:
        return "within interval"
    return f"differs: {why}"


def compare(paper: str, ours: dict, same_model: bool, tables: list[str] = (), digits: int = 2,
            **reasons) -> pd.DataFrame:
    """table | row | column | paper | ours | difference | verdict, a row a printed number.

    ours     {(table, row, column): float or stats.Estimate}, keyed as in data/paper; what it lacks was not run
    tables   all rows of these; none: only the rows that `ours` names
    digits   decimals shown of ours and of the difference
    reasons  why a number differs, or is missing: as `verdict` takes them
    """
    frame = numbers(paper)
    keys = list(zip(frame["table"], frame["row"], frame["column"]))
    if unknown := set(ours) - set(keys):
        raise CompanionError(f"{paper} prints no {sorted(unknown)[0]}: name table, row and column as in data/paper.")
    frame = frame[frame["table"].isin(tables) if tables else [key in ours for key in keys]]
    rows = []
    for key, value in zip(zip(frame["table"], frame["row"], frame["column"]), frame["value"]):
        mine = ours.get(key)
        gap = math.nan if mine is None or pd.isna(value) else round(_value(mine) - float(value), digits) + 0.0
        shown = "" if mine is None else f"{_value(mine):.{digits}f}"
        if isinstance(mine, stats.Estimate):
            shown += f" [{mine.low:.{digits}f}, {mine.high:.{digits}f}]"
        rows.append([*key, value, shown, gap, verdict(value, mine, same_model, **reasons)])
    return pd.DataFrame(rows, columns=["table", "row", "column", "paper", "ours", "difference", "verdict"])


def claim(estimate) -> str:
    """Of the claim that this is above zero: the value decides; "within chance" where the 95 % interval holds zero."""
    value, low, high = estimate if isinstance(estimate, stats.Estimate) else (estimate, estimate, estimate)
    return ("holds" if value > 0 else "fails") + (" (within chance)" if low <= 0 <= high and low < high else "")


def contradictions() -> pd.DataFrame:
    """Where Projective methods' printed numbers disagree with each other: where, printed, recomputed, note.

    A product or mean of rounded numbers is granted what rounding can explain.
    """
    full, best = printed("projective_methods", "Table 7"), printed("projective_methods", "Table 5")
    rows = [(f"Table 7, {name}, eta", full.loc[name, "eta"], round(product, 4), "accuracy x parity")
            for name, product in (full["accuracy"] * full["parity"]).items()
            if abs(product - full.loc[name, "eta"]) > 1.5e-4]
    rho = scipy_stats.spearmanr(full["S"], full["accuracy"] * full["parity"])
    rows.append(("Section 5, Spearman of S and eta", .040, round(rho.statistic, 4),
                 f"over all 76 rows of Table 7, p = {rho.pvalue:.2f}; the size agrees, the sign does not"))
    for level in LEVELS:
        part = full[full.index.str.startswith(level)]
        viable = part[part["SNLI"] >= full.loc["Base", "SNLI"] - .05]
        for column, found in ("S", part["S"].idxmin()), ("D", part["D"].idxmin()), ("eta", viable["eta"].idxmax()):
            said, value = best.loc[level, column], full.loc[found, column]
            if said != value:
                note = f"best of the level in Table 7: {found}"
                if column == "eta":
                    named = f"{level} {best.loc[level, 'eta settings']}"
                    note += f" (viable: absolute 5 %); the settings named, {named}, have {full.loc[named, 'eta']:.4f}"
                rows.append((f"Table 5, {level}, {column}", said, value, note))
    rows += _viability(full, best)
    table = pd.DataFrame(rows, columns=["where", "printed", "recomputed", "note"])
    return table.assign(**{name: table[name].map("{:g}".format) for name in ("printed", "recomputed")})


def _viability(full: pd.DataFrame, best: pd.DataFrame) -> list[tuple]:
    """No one threshold gives the models that the paper calls viable: what follows from either reading of 5 %."""
    base, rows = full.loc["Base", "SNLI"], []
    unweighted = full[full.index.str.match(r"(Layer 11|\+ attn).* 0\)")]["SNLI"]
    weighted = full[full.index.str.match(r"Layer 12 .* 1\)")]["SNLI"]
    for name, least in ("absolute", base - .05), ("relative", base * .95):
        rows += [(f"Section 5, viable with np = 0 at Layer 11 and + attn, {name} 5 %", 0, (unweighted >= least).sum(),
                  f"threshold {least:.4f}, highest {unweighted.max():.4f}"),
                 (f"Section 5, viable with np = 1 at Layer 12, {name} 5 %", 4, (weighted >= least).sum(),
                  f"threshold {least:.4f}, lowest {weighted.min():.4f}"),
                 (f"Table 5, Layer 11, SNLI of the best viable model, {name} 5 %", best.loc["Layer 11", "SNLI"],
                  round(least, 4), "recomputed: the threshold, which it does not reach")]
    return [row for row in rows if row[1] != row[2]]


def _numeric(column: pd.Series) -> pd.Series:
    try:
        return pd.to_numeric(column)
    except ValueError:
        return column


def _value(number) -> float:
    return number.value if isinstance(number, stats.Estimate) else float(number)


def _rounding(value: str) -> float:
    """Half a unit of the last printed digit, and a little for floating point."""
    return .5 * 10.0 ** -len(value.partition(".")[2]) + 1e-9
