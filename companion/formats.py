"""Tables and figures: as files keep them (numbers, in full), and as notebooks show them (text)."""

import io
import json
import math

import matplotlib.pyplot as plt
import pandas as pd
from IPython import display

from lib.engine.stats import Estimate

DPI = 150  # of a figure's png as it is saved
SCREEN_DPI = 110  # as large as a notebook shows it
CELL = 160  # letters of a table's cell that are shown: a claim, and what was found


# ---- tables
def whole_cells():
    """While it lasts, tables are shown with whole cells, and not with their first 50 letters."""
    return pd.option_context("display.max_colwidth", CELL)


class Whole(pd.DataFrame):
    """A table that is shown with whole cells."""

    def __repr__(self):
        with whole_cells():
            return super().__repr__()

    def _repr_html_(self):
        with whole_cells():
            return super()._repr_html_()


def _is_estimates(column: pd.Series) -> bool:
    return column.dtype == object and any(isinstance(value, Estimate) for value in column)


def numbers(table: pd.DataFrame | pd.Series) -> pd.DataFrame | pd.Series:
    """A table whose Estimates are columns of numbers: SEAT, SEAT low, SEAT high, SEAT n."""
    if isinstance(table, pd.Series) or not any(_is_estimates(table[name]) for name in table):
        return table
    columns = {}
    for name in table:
        columns[name] = table[name]
        if not _is_estimates(table[name]):
            continue
        for part in ("value", "low", "high", "n"):
            values = table[name].map(lambda one, part=part: getattr(one, part, None))
            if part != "n" or values.any():
                columns[name if part == "value" else f"{name} {part}"] = values
    return pd.DataFrame(columns)


def as_text(table: pd.DataFrame | pd.Series, digits: int) -> pd.DataFrame | pd.Series:
    """A table whose Estimates are text: 0.58 [0.51, 0.63]."""
    if isinstance(table, pd.Series):
        return table
    shown = table.copy()
    for name in table:
        if _is_estimates(table[name]):
            shown[name] = table[name].map(lambda one: _text(one, digits))
    return shown


def folded(table: pd.DataFrame, digits: int) -> pd.DataFrame:
    """A stored table whose columns x, x low and x high are text again, as they were shown."""
    shown = table.copy()
    for name in table:
        ends = [f"{name} low", f"{name} high"]
        if set(ends) <= set(table):
            numbers = table[[name, *ends]].apply(pd.to_numeric, errors="coerce")
            shown[name] = [_text(Estimate(*row), digits) for row in numbers.to_numpy()]
            shown = shown.drop(columns=[*ends, f"{name} n"], errors="ignore")
    return shown


def _text(value, digits: int) -> str:
    if not isinstance(value, Estimate):
        return "" if value is None or value != value else str(value)
    return "" if math.isnan(value.value) else format(value, f"z,.{digits}f")


def csv(table: pd.DataFrame | pd.Series) -> bytes:
    """Six digits: what follows differs from machine to machine."""
    has_names = not isinstance(table.index, pd.RangeIndex)
    return table.to_csv(index=has_names, float_format="%.6g", lineterminator="\n").encode()


# ---- figures
def images(figure) -> dict[str, bytes]:
    """The same bytes for the same figure: no date, version or random ids."""
    svg = io.BytesIO()
    png = io.BytesIO()
    figure.draw_without_rendering()  # laid out once for both: the slowest part
    figure.set_layout_engine(None)  # "none" would lay it out once more in each savefig
    frame = figure.get_tightbbox().padded(plt.rcParams["savefig.pad_inches"])
    with plt.rc_context({"svg.hashsalt": "companion"}):
        no_versions = {"Date": None, "Creator": None}
        figure.savefig(svg, format="svg", bbox_inches=frame, metadata=no_versions)
        figure.savefig(png, format="png", bbox_inches=frame, metadata={"Software": None}, dpi=DPI)
    plt.close(figure)  # or Jupyter would show it a second time
    return {".svg": svg.getvalue(), ".png": png.getvalue()}


def image(png: bytes | None, caption: str) -> display.Image | None:
    """A figure as it was saved, as large as a screen wants it; a png's bytes 16 to 19 say
    how wide.
    """
    if not png:
        return None
    pixels = int.from_bytes(png[16:20])
    return display.Image(png, width=round(pixels / DPI * SCREEN_DPI), alt=caption)


# ---- records
def number(ours: Estimate | float | str | None) -> dict[str, float | str]:
    """A number beside a printed one, as records have it: unrounded, with its interval."""
    if isinstance(ours, Estimate) and ours.has_interval:
        return dict(zip(("ours", "low", "high"), map(float, ours), strict=True))
    value = ours.value if isinstance(ours, Estimate) else ours
    if value is None or value != value:
        return {}
    return {"ours": value if isinstance(value, str) else float(value)}


def record(made) -> bytes:
    return (json.dumps(made, indent=1, ensure_ascii=False) + "\n").encode()
