"""The report as an article, build/report/index.html: a question for each paper, its answer,
figures.

Answers are made from stored tables and the records behind the board (answers.py). Figures are drawn
by the script in article.html, from tables that notebooks store and that travel in the page; what no
run has stored, a section says.
"""

import base64
import csv
import math
import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import jinja2
import pandas as pd

from lib import look, paths
from lib.publish import answers, retrainings, scoreboard
from lib.publish.cells import KINDS, in_paper
from lib.publish.papers import CLAIMS, PAPERS, RUNS, run_name
from lib.verdict import Asks, Outcome, Paper, Verdict, main_tests, share_of

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
    loader=jinja2.FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
TEMPLATES.filters["run_name"] = run_name
TEMPLATES.globals["look"] = look  # colours and marks, the same as in figures


def render(folders: dict[str, Path], reproduced=()) -> str:
    """The article on these runs, {name: folder}, as text.

    reproduced   comparisons with what is stored, of the runs that were made here
    """
    nearest_first = sorted(sorted(folders), key=lambda run: [*RUNS, run].index(run))
    table = scoreboard.board(folders)
    tests = scoreboard.judged(folders)
    board_runs = [run for run in nearest_first if run in table]
    tables = {run: _tables(folders[run]) for run in nearest_first}
    with_tables = [run for run in nearest_first if tables[run]]
    shown = answers.Stored({run: folders[run] for run in board_runs}, tests)
    asked = []
    for key, paper in PAPERS.items():
        asked.append((paper, answers.of(key, shown), _behind(paper, table, tests, board_runs)))
    data = {
        "runs": nearest_first,
        "names": {run: run_name(run) for run in nearest_first},
        "tables": tables,
        "claims": _claims(folders, table, tests, board_runs),
        "again": _retrained(folders),
        "lasting": _lasting(folders),
    }
    return TEMPLATES.get_template("article.html").render(
        data=data,
        means=RUNS,
        runs=sorted(with_tables, key=lambda run: -len(tables[run])),  # the fullest is drawn first
        board_runs=board_runs,
        asked=asked,
        notebooks=_executed(nearest_first),
        glance=_glance(table, board_runs),
        reproduced=reproduced,
        try_picture=_picture(paths.ROOT / "figures" / "try.png"),
    )


def _executed(runs: list[str]) -> dict[str, tuple[str, str]]:
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
    """A stored table; empty where there is none, or a damaged one, which the inventory names."""
    try:
        with open(file, newline="", encoding="utf-8") as stream:
            return list(csv.reader(stream))
    except (OSError, ValueError, csv.Error):
        return []


def _glance(table: pd.DataFrame, runs: list[str]) -> list[tuple]:
    """(paper, for each run [(kind, how many claims), ...]) of all papers; the words beside a bar
    leave out what was not tested.
    """
    if not runs:
        return []
    rows = []
    for paper, claims in table.groupby("source", sort=False):
        counts = []
        for run in runs:
            kinds = [str(cell.kind) for cell in claims[run]]
            counts.append([(str(kind), kinds.count(kind)) for kind in KINDS if kind in kinds])
        rows.append((paper, counts))
    return rows


@dataclass(frozen=True)
class Found:
    """What the run nearest to the paper's says of a claim."""

    claim: str  # in words
    kind: str
    run: str
    tests: list[str]  # in words


def _behind(paper: Paper, table: pd.DataFrame, tests: dict, runs: list[str]) -> list[Found]:
    """What was found of the claims that decide a paper's question."""
    found = []
    for claim in paper.deciding:
        row = table[table["id"] == claim].iloc[0]
        tested = [run for run in runs if row[run].kind != Outcome.NOT_RUN]
        if not tested:
            found.append(Found(row["claim"], str(Outcome.NOT_RUN), "", []))
            continue
        run = tested[0]
        own = [one for one in tests[run] if one.claim == claim and one.has_interval]
        own.sort(key=lambda one: one.outcome == Outcome.NOT_APPLICABLE)
        found.append(Found(row["claim"], str(row[run].kind), run, [_in_words(one) for one in own]))
    return found


def _in_words(one: Verdict) -> str:
    """What the notebook says it found, or the interval and the threshold that it has to
    lie beyond.
    """
    found = one.found
    if "[" not in found:
        found = f"{one.estimate:z.3g}, threshold {one.threshold or 0:.3g}"
    reason = f" ({one.reason})" if one.reason else ""
    return f"{in_paper(one.on) or ', '.join(one.models)}: {found}{reason}"


def _claims(
    folders: dict[str, Path], table: pd.DataFrame, tests: dict, runs: list[str]
) -> list[dict]:
    """Of every claim: what the runs say, what share of the effect controls show, retrainings."""
    again = retrainings.by_claim(folders).set_index("id")["supported in"]
    rows = []
    for row in table.to_dict("records"):
        if CLAIMS[row["id"]].not_testable:
            continue
        rows.append(
            {
                "id": row["id"],
                "claim": row["claim"],
                "paper": row["source"],
                "retrainings": again.get(row["id"], ""),
                "matched": any(row[run].kind == Outcome.MATCHED for run in runs),
                "shares": _shares(row["id"], tests, runs),
                "controls": row["controls"],
                "said": {run: str(row[run].kind) for run in runs},
            }
        )
    return rows


def _shares(claim: str, tests: dict[str, list[Verdict]], runs: list[str]) -> list[dict]:
    """What share of the effect each working control shows: of the tests that decide a claim, in the
    nearest run in which it has an effect, and met controls. None of a claim that meets no control.
    """
    if CLAIMS[claim].asks != Asks.EFFECT:
        return []
    for run in runs:
        shares = []
        mine = [one for one in tests[run] if one.claim == claim]
        for one in main_tests(CLAIMS[claim], mine):
            if one.outcome not in (Outcome.SUPPORTED, Outcome.MATCHED):
                continue
            for control in (one.control, *(one.control_models or ())):
                if control is None or control.why_idle:
                    continue
                share = share_of(control, one.estimate)
                if not math.isnan(share):
                    shares.append({"name": control.name, "on": in_paper(one.on), "share": share})
        if shares:
            return shares
    return []


def _retrained(folders: dict[str, Path]) -> list[dict]:
    """Every test over several retrainings of one model, on one scale; none of fewer than three."""
    rows = []
    for row in retrainings.across(folders).to_dict("records"):
        mean, each = retrainings.towards(row)
        rows.append(
            {
                "id": row["id"],
                "claim": row["claim"],
                "paper": row["source"],
                "outcome": row["outcome"],
                "among": row["supported in"],
                "text": f"{row['on']}: {row['mean']:z.3g}".lstrip(": "),
                "threshold": row["threshold"],
                "share": row["share"],
                "each": each,
                "value": mean.value,
                "low": mean.low,
                "high": mean.high,
            }
        )
    return rows


def _lasting(folders: dict[str, Path]) -> str:
    over = retrainings.across(folders)
    return retrainings.in_a_sentence(over) if len(over) else ""
