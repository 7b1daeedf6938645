"""The report as an article, build/report/index.html: three questions with their answers, then six figures to explore.

Answers are made from the records behind the board, and say no more than these. Figures are drawn by the script in
article.html, from tables that notebooks store and that travel in the page; what no run has stored, a section says."""

import csv
import re
import tomllib
from pathlib import Path

import jinja2

from lib import look
from lib.publish import scoreboard
from lib.publish.scoreboard import KINDS, MATCHED
from lib.verdict import MIXED, Outcome

PAPERS, RUNS = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
).values()
ANSWERS = {
    Outcome.SUPPORTED: "Borne out",
    MIXED: "Borne out in part",
    Outcome.CONTRADICTED: "Not borne out",
    Outcome.INCONCLUSIVE: "Undecided",
    MATCHED: "Not specific, models without stereotypes bear it out too",
    Outcome.NOT_APPLICABLE: "No case",
    Outcome.NOT_RUN: "Not run",
}
TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
TABLES = sorted(
    {*re.findall(r'"(\d\d_\w+)"', Path(__file__).with_suffix(".html").read_text(encoding="utf-8"))}
)


def render(folders, reproduced=()):
    """The article on these runs, {name: folder}, as text.
    reproduced: comparisons with what is stored, of the runs that were made here"""
    near = sorted(sorted(folders), key=lambda run: [*RUNS, run].index(run))
    table, tests = scoreboard.board(folders), scoreboard.verdicts(folders)
    names = [run for run in near if run in table]
    tables = {
        run: {name: rows for name in TABLES if (rows := _rows(folders[run] / f"{name}.csv"))}
        for run in near
    }
    data = {
        "runs": near,
        "tables": tables,
        "claims": _asked_of_controls(folders, table, names),
        "held": [str(Outcome.SUPPORTED), MIXED, MATCHED],
        **_again(folders),
    }
    fullest = sorted(
        (run for run in near if tables[run]), key=lambda run: -len(tables[run])
    )  # drawn first
    papers = table.groupby("source", sort=False) if names else ()
    glance = [
        (
            paper,
            [
                [
                    (str(kind), n)
                    for kind in KINDS
                    if (n := sum(cell.kind == kind for cell in rows[run]))
                ]
                for run in names
            ],
        )
        for paper, rows in papers
    ]
    return TEMPLATES.get_template("article.html").render(
        data=data,
        papers=PAPERS,
        means=RUNS,
        runs=fullest,
        board_runs=names,
        look=look,
        answers={
            paper: _answer(paper, table[table["source"] == paper], tests, names) for paper in PAPERS
        },
        glance=glance,
        plural=scoreboard.PLURAL,
        reproduced=reproduced,
    )


def _rows(file):
    """A stored table, header first, all text; empty where there is none, or a damaged one: the inventory names it."""
    try:
        with open(file, newline="", encoding="utf-8") as stream:
            return list(csv.reader(stream))
    except (OSError, ValueError, csv.Error):
        return []


def _answer(paper, rows, tests, names):
    """(how the answer begins, [(a claim's words, kind, run, what its tests found), ...]), by the run nearest to the
    paper's that tests the claim. Found is what the notebook says, or the interval and what it has to lie beyond."""
    found = []
    for claim in PAPERS[paper]["deciding"]:
        row = rows[rows["id"] == claim].iloc[0]
        run = next((run for run in names if row[run].kind != Outcome.NOT_RUN), "")
        mine = [
            one
            for one in tests.get(run, [])
            if one.claim == claim and one.estimate and one.estimate.has_interval
        ]
        said = [
            f"{each.on or ', '.join(each.models)}: "
            f"{each.found if '[' in each.found else f'{each.estimate:z.3g}, threshold {each.threshold or 0:.3g}'}"
            f"{f' ({each.reason})' if each.reason else ''}"
            for each in sorted(mine, key=lambda each: each.outcome == Outcome.NOT_APPLICABLE)
        ]
        found.append((row["claim"], str(row[run].kind if run else Outcome.NOT_RUN), run, said))
    return ANSWERS[found[0][1]], found


def _asked_of_controls(folders, table, names):
    """Of every claim: what the runs say, and how often it holds in controls and in trainings of one model."""
    specific, again = (
        scoreboard.specificity(folders),
        scoreboard.seeds(folders).set_index("id")["holds in"],
    )
    return [
        {
            "id": row["id"],
            "claim": row["claim"],
            "paper": row["source"],
            "trainings": again.get(row["id"], ""),
            "specific": specific[row["id"]].is_specific,
            "held": specific[row["id"]].held,
            "said": {run: str(row[run].kind) for run in names},
        }
        for row in table.to_dict("records")
        if not scoreboard.CLAIMS[row["id"]].not_testable
    ]


def _again(folders):
    """Every test over several trainings of one model, on one scale, and what is left; nothing of fewer than three."""
    over = scoreboard.across(folders)
    rows = [
        {
            "id": row["id"],
            "claim": row["claim"],
            "paper": row["source"],
            "outcome": row["outcome"],
            "among": row["holds in"],
            "text": f"{row['on']}: {row['mean']:z.3g}".lstrip(": "),
            "threshold": row["threshold"],
            "share": row["share"],
            "each": each,
            "value": mean.value,
            "low": mean.low,
            "high": mean.high,
        }
        for row in over.to_dict("records")
        for mean, each in [scoreboard.towards(row)]
    ]
    return {"again": rows, "lasting": scoreboard.lasting(over) if rows else ""}
