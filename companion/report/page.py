"""The report, build/report: the article (index.html) and the board (board.html).

Both are selections of the ledger. The board has a line a claim, and on opening one every test of
it: why it says what it says. Look and filters are in board.html.
"""

import os
from pathlib import Path

import pandas as pd

from companion import claims, compare, ledger, results
from companion.papers import PAPERS
from companion.report import article
from companion.report.article import TEMPLATES
from lib import CompanionError, paths
from lib.engine.files import replace

PICTURES = (".svg", ".png")


def write(folders: dict[str, Path] | None = None) -> Path:
    """Make the pages of these runs, all that are stored or made here where left out; the article's
    path.
    """
    folders = folders or results.runs_shown()
    tests = ledger.table(folders)
    pages = {
        "index.html": article.render(folders, tests, compare.made_here()),
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


def board(folders: dict[str, Path], tests: pd.DataFrame) -> str:
    """The board as text: claims by paper, with all their tests but those of control runs, which
    stand beside the others.
    """
    rows = ledger.board(tests)
    told = tests[~tests["run"].map(ledger.control_of).astype(bool)]
    evidence = {}
    for test in told.to_dict("records"):
        evidence.setdefault(test["claim"], []).append(test | _edges(test))
    pictures = {one["claim"]: _picture(one["figure"], one["run"], folders) for one in _rows(rows)}
    return TEMPLATES.get_template("board.html").render(
        papers=[(paper, _rows(rows[rows["paper"] == key])) for key, paper in PAPERS.items()],
        outcomes=[str(outcome) for outcome in claims.Outcome],
        marks=ledger.MARKS,
        evidence=evidence,
        pictures=pictures,
        notebooks=article.executed(list(folders)),
        asks={claim.id: claim.asks for claim in claims.claims().values()},
        sized=ledger.sized,
    )


def _rows(table: pd.DataFrame) -> list[dict]:
    return table.to_dict("records")


def _edges(test: dict) -> dict[str, float]:
    """The threshold that a test is held against, and the smallest effect that counts."""
    claim = claims.claims()[test["claim"]]
    own = test["test"].threshold
    smallest = claim.smallest_for(test["test"].base)
    return {"threshold": claim.threshold if own is None else own, "smallest": smallest}


def _picture(name: str, run: str, folders: dict[str, Path]) -> str:
    """The address of the figure behind a claim, seen from the board; "" where there is none."""
    for suffix in PICTURES if name and run else ():
        file = (folders[run] / name).with_suffix(suffix)
        if file.is_file():
            return os.path.relpath(file, paths.BUILD / "report").replace(os.sep, "/")
    return ""
