"""The report as an article, build/report/index.html: a question for each paper, what was found,
figures.

What was found is headlines.py's; retrainings and controls are selections of the ledger. Figures are
drawn by the script in article.html, from tables that notebooks store and that travel in the page;
what no run has stored, a section says.
"""

import base64
import csv
import os
from collections import Counter
from pathlib import Path
from urllib.parse import quote

import jinja2
import pandas as pd

from companion import claims, ledger, look
from companion.papers import PAPERS, RUNS, run_name
from companion.report import headlines
from lib import paths
from lib.engine.stats import Estimate

# The stored tables that the script of article.html draws from; a test holds the two together.
TABLES = (
    "02_heads",
    "02_seat",
    "02_survivors",
    "02_top_heads",
    "03_attention",
    "03_tests",
    "03_verdicts",
    "08_intervals",
    "08_table7",
    "09_rho",
    "09_table7",
    "10_table2",
    "11_bars",
    "11_examples",
    "11_occupations",
    "11_slopes_table",
    "12_mitigations",
)
TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader([Path(__file__).parent, Path(__file__).parents[1]]),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
TEMPLATES.filters["run_name"] = run_name
TEMPLATES.globals["look"] = look  # colours and marks, the same as in figures


def render(folders: dict[str, Path], tests: pd.DataFrame, reproduced=()) -> str:
    """The article on these runs, {name: folder}, and their tests, as text.

    reproduced   comparisons with what is stored, of the runs that were made here
    """
    runs = sorted(sorted(folders), key=lambda run: [*RUNS, run].index(run))
    tables = {run: _tables(folders[run]) for run in runs}
    with_tables = [run for run in runs if tables[run]]
    board = ledger.board(tests)
    cells = ledger.cells(tests)
    board_runs = [run for run in runs if run in set(cells["run"]) and _is_told(run)]
    data = {
        "runs": runs,
        "names": {run: run_name(run) for run in runs},
        "tables": tables,
        "claims": _claims(board, cells[cells["run"].isin(board_runs)]),
        "again": _retrained(tests),
    }
    return TEMPLATES.get_template("article.html").render(
        data=data,
        means=RUNS,
        runs=sorted(with_tables, key=lambda run: -len(tables[run])),  # the fullest is drawn first
        board_runs=board_runs,
        papers=PAPERS,
        answers={paper: headlines.answer(paper, tests) for paper in PAPERS},
        findings=headlines.findings(tests),
        notebooks=executed(runs),
        glance=_glance(cells, board_runs),
        reproduced=reproduced,
        try_picture=_picture(paths.ROOT / "figures" / "try.png"),
    )


def _is_told(run: str) -> bool:
    """Whether a run says something of claims by itself: controls and retrainings stand beside."""
    return not (ledger.control_of(run) or run.startswith(ledger.RETRAININGS))


def executed(runs: list[str]) -> dict[str, tuple[str, str]]:
    """{number: (its name, the address of its page as executed here, else of the notebook)}, seen
    from the article.
    """
    found = {}
    for file in sorted(paths.NOTEBOOKS.glob("[0-9][0-9]_*.ipynb")):
        copies = [paths.BUILD / run / f"{file.stem}.html" for run in runs]
        there = [copy for copy in copies if copy.is_file()]
        address = os.path.relpath([*there, file][0], paths.BUILD / "report").replace(os.sep, "/")
        found[file.name[:2]] = file.stem[3:].replace("_", " "), quote(address)
    return found


def _picture(file: Path) -> str:
    """A picture as a data address; empty where it is not at hand."""
    if not file.is_file():
        return ""
    return "data:image/png;base64," + base64.b64encode(file.read_bytes()).decode()


def _tables(folder: Path) -> dict[str, list[list[str]]]:
    """The tables of a run that figures are drawn from, header first, all text."""
    found = {}
    for name in TABLES:
        rows = _rows(folder / f"{name}.csv")
        if rows:
            found[name] = rows
    return found


def _rows(file: Path) -> list[list[str]]:
    """A stored table; empty where there is none, or a damaged one."""
    try:
        with open(file, newline="", encoding="utf-8") as stream:
            return list(csv.reader(stream))
    except (OSError, ValueError, csv.Error):
        return []


def _glance(cells: pd.DataFrame, runs: list[str]) -> list[tuple[str, list[dict[str, int]]]]:
    """(paper, of each run how many of its claims came to what), of all papers."""
    known = claims.claims()
    rows = []
    for key, paper in PAPERS.items():
        own = cells[cells["claim"].map(lambda id, key=key: known[id].paper == key)]
        counts = [Counter(own.loc[own["run"] == run, "outcome"]) for run in runs]
        in_order = [{str(one): n[one] for one in claims.Outcome if n[one]} for n in counts]
        rows.append((paper.title, in_order))
    return rows


def _claims(board: pd.DataFrame, cells: pd.DataFrame) -> list[dict]:
    """Of every claim that can be tested: what runs say, and what share of the effect behind it
    controls show.
    """
    said = {}
    for cell in cells.to_dict("records"):
        said.setdefault(cell["claim"], {})[cell["run"]] = cell["outcome"]
    rows = []
    for row in board[board["notebook"] != ""].to_dict("records"):
        rows.append(
            {
                "id": row["claim"],
                "claim": row["says"],
                "paper": PAPERS[row["paper"]].title,
                "over": row["over"],
                "as much": row["why"].endswith("as much"),
                "shares": _shares(row),
                "said": said.get(row["claim"], {}),
            }
        )
    return rows


def _shares(row: dict) -> list[dict]:
    """What share of an effect each working control shows, in the test behind the claim's outcome;
    none of claims that meet no control, or of another sign than they say.
    """
    estimate, claim = row["size"], claims.claims()[row["claim"]]
    if estimate is None or claim.asks != "effect" or not estimate.value:
        return []
    if (estimate.value > 0) != claim.side.startswith(">"):
        return []
    shares = []
    for one in filter(None, (row["test"].beside, *row["controls"])):
        if one.works:
            share = one.estimate.value / estimate.value
            shares.append({"name": one.name, "share": share})
    return shares


def _retrained(tests: pd.DataFrame) -> list[dict]:
    """Every test over retrainings of one model, on one scale; none of fewer than three."""
    known = claims.claims()
    rows = []
    for row in ledger.trainings(tests).to_dict("records"):
        claim = known[row["claim"]]
        mean, _, each = towards(row)
        about = ", ".join(filter(None, (row["bias"], row["variant"])))
        rows.append(
            {
                "id": row["claim"],
                "claim": claim.says,
                "paper": PAPERS[claim.paper].title,
                "outcome": row["outcome"],
                "text": f"{about}: mean {row['mean']:z.3g}; another training {row['another']:z.3g}",
                "threshold": _threshold(row),
                "each": each,
                "value": mean.value,
                "low": mean.low,
                "high": mean.high,
            }
        )
    return rows


def _threshold(row: dict) -> float:
    own = row["test"].threshold
    return claims.claims()[row["claim"]].threshold if own is None else own


def towards(row: dict) -> tuple[Estimate, Estimate, list[float]]:
    """A row of ledger.trainings for a plot of many: how far mean, another training and retrainings
    lie on the claim's side of its threshold (above 0), in half widths of the mean's interval.
    """
    claim, mean = claims.claims()[row["claim"]], row["mean"]
    threshold, smallest = _threshold(row), claim.smallest_for(row["test"].base)
    half_width = (mean.high - mean.low) / 2 or 1.0  # no item may differ

    def ahead(value: float) -> float:
        above = value - threshold
        if claim.side == "within":
            above = smallest - abs(above)
        return (-above if claim.side.startswith("<") else above) / half_width

    found = []
    for one in (mean, row["another"]):
        value, *ends = map(ahead, one)
        found.append(Estimate(value, min(ends), max(value, *ends)))
    return *found, [ahead(one.value) for one in row["estimates"]]
