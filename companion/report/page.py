"""The report, build/report: the article (index.html) says what was found, the board (board.html)
what each claim came to, with every test of it.

Both are selections of the ledger; what the article says is headlines.py's. Its figures are drawn by
the script in article.html from tables that notebooks store, and that travel in the page.
"""

import base64
import csv
import os
from pathlib import Path
from urllib.parse import quote

import jinja2
import pandas as pd

from companion import claims, compare, ledger, look, results
from companion.papers import NEAREST, PAPERS, run_name
from companion.report import headlines
from lib import CompanionError, paths
from lib.engine.files import replace

# The stored tables that the script of article.html draws from; a test holds the two together.
TABLES = (
    "02_heads",
    "02_seat",
    "02_survivors",
    "03_attention",
    "03_tests",
    "03_verdicts",
    "08_intervals",
    "08_table7",
    "09_rho",
    "09_table7",
    "10_table2",
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


def write(folders: dict[str, Path] | None = None) -> Path:
    """Make the pages of these runs, all that are stored or made here where left out; the article's
    path.
    """
    folders = folders or results.runs_shown()
    tests = ledger.table(folders)
    pages = {
        "index.html": article(folders, tests, compare.made_here()),
        "board.html": board(folders, tests),
    }
    report = paths.BUILD / "report"
    try:
        for name, text in pages.items():
            replace(report / name, text.encode())
    except OSError as error:
        raise CompanionError(
            f"The report could not be written ({error.strerror}): make {report} writable, then "
            "run ./reproduce.sh report."
        ) from None
    return report / "index.html"


def article(folders: dict[str, Path], tests: pd.DataFrame, reproduced=()) -> str:
    """The article on these runs, {name: folder}, and their tests, as text.

    reproduced   comparisons with what is stored, of the runs that were made here
    """
    runs = sorted(sorted(folders), key=lambda run: [*NEAREST, run].index(run))
    tables = {run: _tables(folders[run]) for run in runs}
    picture = paths.FIGURES / "try.png"
    fullest = sorted(filter(tables.get, runs), key=lambda run: -len(tables[run]))
    return TEMPLATES.get_template("article.html").render(
        data={"runs": runs, "names": {run: run_name(run) for run in runs}, "tables": tables},
        runs=fullest,  # the first is drawn first
        papers=PAPERS,
        answers={paper: headlines.answer(paper, tests) for paper in PAPERS},
        findings=headlines.findings(tests),
        notebooks=_executed(runs),
        reproduced=reproduced,
        try_picture=base64.b64encode(picture.read_bytes()).decode() if picture.is_file() else "",
    )


def _tables(folder: Path) -> dict[str, list[list[str]]]:
    """The tables of a run that figures are drawn from, header first, all text; without damaged
    ones.
    """
    found = {}
    for name in TABLES:
        try:
            with open(folder / f"{name}.csv", newline="", encoding="utf-8") as stream:
                found[name] = list(csv.reader(stream))
        except (OSError, ValueError, csv.Error):
            continue
    return found


def _executed(runs: list[str]) -> dict[str, tuple[str, str]]:
    """{number: (its name, the address of its page as executed here, else of the notebook)}."""
    found = {}
    for file in sorted(paths.NOTEBOOKS.glob("[0-9][0-9]_*.ipynb")):
        copies = [paths.BUILD / run / f"{file.stem}.html" for run in runs]
        there = [copy for copy in copies if copy.is_file()]
        found[file.name[:2]] = file.stem[3:].replace("_", " "), _address([*there, file][0])
    return found


def _address(file: Path) -> str:
    """Seen from the report."""
    return quote(os.path.relpath(file, paths.BUILD / "report").replace(os.sep, "/"))


# ---- the board
def board(folders: dict[str, Path], tests: pd.DataFrame) -> str:
    """The board as text: claims by paper, with all their tests but those of control runs, which
    stand beside the others.
    """
    rows = ledger.board(tests).to_dict("records")
    evidence = {}
    for test in tests[~tests["run"].map(ledger.control_of).astype(bool)].to_dict("records"):
        claim = claims.claims()[test["claim"]]
        edges = {
            "threshold": claim.threshold_for(test["test"]),
            "smallest": claim.smallest_for(test["test"].base),
        }
        evidence.setdefault(test["claim"], []).append(test | edges)
    return TEMPLATES.get_template("board.html").render(
        papers=[
            (paper, [row for row in rows if row["paper"] == key]) for key, paper in PAPERS.items()
        ],
        outcomes=[str(outcome) for outcome in claims.Outcome],
        marks=ledger.MARKS,
        evidence=evidence,
        pictures={row["claim"]: _picture(row, folders) for row in rows},
        notebooks=_executed(list(folders)),
        claims=claims.claims(),
        sized=ledger.sized,
    )


def _picture(row: dict, folders: dict[str, Path]) -> str:
    """The address of the figure behind a claim; "" where there is none."""
    for suffix in (".svg", ".png") if row["figure"] and row["run"] else ():
        file = (folders[row["run"]] / row["figure"]).with_suffix(suffix)
        if file.is_file():
            return _address(file)
    return ""
