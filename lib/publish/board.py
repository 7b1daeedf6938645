"""The board as a reader wants it: a line a claim, by paper and by what it came to.

Of each claim: its words, what it came to on our sentences, or on the papers' data where it can be
tested there alone, the size with its interval, what share of it controls show, what is left over
retrainings, what the other data and published models say. The same table is in notebook 12 and on
build/report/board.html.

`folders` is {run: folder}, all stored runs where it is left out.
"""

import re
from pathlib import Path

import pandas as pd

from lib import results, verdict
from lib.engine.stats import Estimate
from lib.publish import controls, headlines, retrainings, scoreboard
from lib.publish.article import TEMPLATES
from lib.publish.cells import Cell, in_paper, said_of_ours
from lib.publish.judged import judged
from lib.publish.papers import CLAIMS, PAPERS, run_name
from lib.verdict import APPLICABLE, ORDER, Asks, Claim, Verdict

COLUMNS = {
    "claim": "The paper says",
    "outcome": "What it came to",
    "size": "Size [95 % interval]",
    "on": "Measured on",
    "controls": "Controls show of it",
    "retrainings": "Retrainings",
    "other": "On the other data",
    "published": "Tests on published models",
}


def table(folders: dict[str, Path] | None = None) -> pd.DataFrame:
    """A row a claim, sorted by paper and by outcome: id, paper, where, notebook, figure, kind,
    reason, found, told, detail and COLUMNS.
    """
    folders = folders or results.runs()
    tests = judged(folders)
    cells = scoreboard.board(folders).set_index("id")
    over = retrainings.in_words(folders)
    rows = []
    for claim in CLAIMS.values():
        run = headlines.run_of(claim.id, tests)
        cell = cells.loc[claim.id, run] if run else Cell.of(claim, [])
        row = {
            "id": claim.id,
            "paper": PAPERS[claim.paper].title,
            "where": claim.where,
            "notebook": claim.notebook,
            "figure": f"{run}.{claim.figure}" if run and claim.figure else "",
            "kind": str(cell.kind),
            "claim": claim.says + said_of_ours(claim),
            "outcome": str(cell),
            "reason": in_paper(cell.reason),
            "retrainings": over.get(claim.id, ""),
            "other": _other(claim, run, cells),
            "published": headlines.published_counts(claim.id, tests),
        }
        shown = headlines.shown_test(claim.id, tests.get(run, []), cell.kind)
        rows.append(row | _told(claim, shown, run))
    return _sorted(pd.DataFrame(rows))


def _told(claim: Claim, one: Verdict | None, run: str) -> dict[str, str]:
    """The number behind an outcome, and what controls show of it."""
    row = dict.fromkeys(("size", "on", "found", "told", "detail", "controls"), "")
    if claim.not_testable:
        return row | {"found": claim.not_testable, "detail": claim.not_testable}
    if one is None:
        return row
    data = "" if claim.on_any_data else run_name(run)
    row["on"] = ", ".join(filter(None, (in_paper(one.on) or ", ".join(one.models), data)))
    if one.outcome not in APPLICABLE or one.estimate is None:
        return row | {"found": one.reason, "detail": one.reason}
    row["size"] = sized(one.estimate)
    row["found"] = one.found
    row["told"], row["detail"] = told_first(one.found, row["size"])
    row["controls"] = control_shares(claim, one)
    return row


def told_first(found: str, size: str) -> tuple[str, str]:
    """What a reader wants first, a number with its unit and interval, and what comes after it.

    Of Counteracts the full distribution decides, and the likeliest k tokens stand behind it.
    """
    by_k = re.fullmatch(r"(k = .*); full (.*)", found)
    if by_k:
        return by_k[2], by_k[1]
    return (found, "") if "[" in found else (size, found)


def sized(estimate: Estimate) -> str:
    """A value and its interval to three digits, thousands in full: 0.189 [0.138, 0.253]."""
    is_large = abs(estimate.value) >= 1000
    return format(estimate, "z,.0f" if is_large else "z.3g")


def control_shares(claim: Claim, one: Verdict) -> str:
    """random heads: 14 %; untrained networks: 2 %"""
    if claim.asks != Asks.EFFECT:
        return "none is asked"
    parts = []
    if one.control is not None:
        said = one.control.why_idle
        if not said:
            said = f"{100 * verdict.share_of(one.control, one.estimate):z.0f} %"
        parts.append(f"{one.control.name}: {said}")
    parts.append(controls.in_words(one).replace(" % of it", " %"))
    return "; ".join(filter(None, parts))


def _other(claim: Claim, run: str, cells: pd.DataFrame) -> str:
    """What the run that is not told says."""
    if claim.on_any_data:
        return "the same"
    others = [one for one in headlines.BUNDLED if one != run and one in cells]
    return str(cells.loc[claim.id, others[0]].kind) if run and others else ""


def _sorted(rows: pd.DataFrame) -> pd.DataFrame:
    """By paper, and within it supported first, not testable last."""
    places = pd.DataFrame(
        {
            "paper": rows["paper"].map([paper.title for paper in PAPERS.values()].index),
            "kind": rows["kind"].map([str(kind) for kind in ORDER].index),
        }
    )
    order = places.sort_values(["paper", "kind"], kind="stable").index
    return rows.loc[order].reset_index(drop=True)


def columns_told(rows: pd.DataFrame) -> dict[str, str]:
    """COLUMNS without those that say nothing: published models where none is stored."""
    return {name: head for name, head in COLUMNS.items() if (rows[name] != "").any()}


def for_notebook(rows: pd.DataFrame) -> pd.DataFrame:
    """The table as notebook 12 saves it: one column for each of COLUMNS, under its words."""
    heads = columns_told(rows)
    return rows[["paper", "id", *heads]].rename(columns=heads)


def page(folders: dict[str, Path] | None = None, pictures: frozenset[str] = frozenset()) -> str:
    """The page of the report.

    pictures   ids of figures in the inventory, which the page links
    """
    rows = table(folders)
    papers = {}
    for paper, of_paper in rows.groupby("paper", sort=False):
        papers[paper] = of_paper.to_dict("records")
    counts = {paper: counted(claims) for paper, claims in papers.items()}
    return TEMPLATES.get_template("board.html").render(
        papers=papers, counts=counts, heads=columns_told(rows), pictures=pictures
    )


def counted(claims: list[dict]) -> str:
    """29 claims: 7 supported, ...; beside them 2 of this project: 1 supported, ..."""
    parts = {}
    for row in claims:
        parts.setdefault(CLAIMS[row["id"]].is_ours, []).append(row["kind"])
    said = []
    for is_ours, kinds in sorted(parts.items()):
        counts = [f"{kinds.count(kind)} {kind}" for kind in map(str, ORDER) if kind in kinds]
        name = f"beside them {len(kinds)} of this project" if is_ours else f"{len(kinds)} claims"
        said.append(f"{name}: {', '.join(counts)}")
    return "; ".join(said)
