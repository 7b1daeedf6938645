"""What every run found of the papers' claims, side by side.

All of it is read from the records that notebooks keep (lib/publish/records.py), so that the same
folder gives the same tables; control models are held against them here (lib/publish/controls.py).
Nothing is decided here. `folders` is {run: folder}, all stored runs where it is left out.
"""

import math
from pathlib import Path

import pandas as pd

from lib import results, verdict
from lib.publish import controls, earlier, retrainings
from lib.publish.cells import KINDS, TESTED, cells, describe, kinds
from lib.publish.judged import judged
from lib.publish.papers import CLAIMS, PAPERS, RETRAININGS, run_name
from lib.publish.records import control_of
from lib.verdict import Asks, Outcome, Verdict

ALL_PAPERS = "All papers"
OURS = "Ours, beside the papers'"


# ---- the board
def board(folders: dict[str, Path] | None = None) -> pd.DataFrame:
    """One row per claim: id, source (the paper: a run may be called `paper`), made in, claim,
    tested by (the notebook), figure (the picture behind it), controls and retrainings (what these
    say), and one column of Cells per run that tests any claim, controls aside.
    """
    tests = judged(folders)
    over = retrainings.in_words(folders)
    rows = []
    for claim in CLAIMS.values():
        row = describe(claim)
        row["controls"] = "" if claim.not_testable else _controls_text(claim.id, tests)
        row["retrainings"] = over.get(claim.id, "")
        rows.append(row)
    table = pd.DataFrame(rows)
    not_across = retrainings.not_across(folders)
    for run, of_run in tests.items():
        if not control_of(run) and any(one.outcome != Outcome.NOT_RUN for one in of_run):
            is_retraining = run.startswith(RETRAININGS)
            table[run] = cells(of_run, {} if is_retraining else not_across)
    return table


def _controls_text(claim: str, tests: dict[str, list[Verdict]]) -> str:
    """What control models say of a claim, beside its first test that has a value, by run."""
    asks = CLAIMS[claim].asks
    if asks != Asks.EFFECT:
        return f"a claim of {asks} meets no control"
    said = {}
    for run, of_run in tests.items():
        if control_of(run) or run.startswith(RETRAININGS):
            continue
        for one in of_run:
            if one.claim == claim and one.estimate is not None:
                said[run_name(run)] = controls.in_words(one)
                break
    texts = set(said.values())
    if len(texts) == 1:
        return texts.pop()
    return "; ".join(f"{run}: {text}" for run, text in said.items() if text)


def evidence(folders: dict[str, Path] | None = None) -> pd.DataFrame:
    """What stands behind each cell of the board, a row a test."""
    rows = []
    for run, tests in judged(folders).items():
        for one in tests:
            is_not_run = one.outcome == Outcome.NOT_RUN
            row = {
                "id": one.claim,
                "run": run,
                "tested on": one.on,
                "variant": one.variant,
                "found": one.found,
                "outcome": f"{one.outcome}: {one.reason}" if is_not_run else str(one),
                "post hoc": "yes" if earlier.is_post_hoc(run, one) else "",
            }
            rows.append(row | behind(one))
    return pd.DataFrame(rows)


def behind(one: Verdict) -> dict[str, str]:
    """The interval that decides, n, how much data would decide, preconditions, controls."""
    interval = ""
    if one.samples_met is not None:
        interval = f"met in {one.samples_met:.1%} of samples"
    elif one.estimate is not None:
        interval = f"{one.estimate:z.3g}"
    random = ""
    if one.control:
        estimate, difference = one.control.estimate, one.control.difference
        random = f"{one.control.name} {estimate:z.3g}, difference {difference:z.3g}"
    preconditions = []
    for name, is_met in one.preconditions.items():
        preconditions.append(f"{name} {'met' if is_met else 'not met'}")
    return {
        "interval": interval,
        "n": str(one.estimate.n) if one.estimate is not None and one.estimate.n else "",
        "needed": needed_text(one),
        "preconditions": ", ".join(preconditions),
        "control": random,
        "controls": controls.in_words(one),
    }


def needed_text(one: Verdict) -> str:
    """How much data would decide an inconclusive test: "about 340 in place of 100"."""
    claim = CLAIMS.get(one.claim)  # none of a check that is no claim of a paper
    times = verdict.needed(claim, one) if claim else math.nan
    if math.isnan(times):
        return ""
    if times > 100:
        return "more than 100 times as much"
    n = one.estimate.n
    if not n:
        return f"about {times:.1f} times as much"
    return f"about {n * times:.0f} in place of {n}"


# ---- counts
def summary(folders: dict[str, Path] | None = None) -> str:
    """Claims by paper and run as a markdown table: how many are supported, contradicted and so on.

    A claim whose test does not depend on the data is counted in the first run that tests it, and
    claims of this project are counted apart.
    """
    table = board(folders)
    names = [name for name in folders or results.runs() if name in table]
    lines = [["paper", "claims", *map(run_name, names)], ["---"] * (len(names) + 2)]
    is_ours = table["id"].map(lambda claim: CLAIMS[claim].is_ours)
    parts = {}
    for paper in PAPERS.values():
        parts[f"*{paper.title}*"] = table[(table["source"] == paper.title) & ~is_ours]
    parts[ALL_PAPERS] = table[~is_ours]
    parts[OURS] = table[is_ours]
    for title, rows in parts.items():
        lines.append([title, str(len(rows)), *counts_by_run(rows, names)])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def counts_by_run(rows: pd.DataFrame, runs: list[str]) -> list[str]:
    """Of each run, how many claims came to what; each claim that is on any data is counted once."""
    counts = []
    seen = set()
    for run in runs:
        again = rows["id"].isin(seen)
        new = counted(kinds(rows.loc[~again, run]))
        parts = [] if again.any() and new == Outcome.NOT_RUN else [new]
        if again.any():
            parts.append(f"{again.sum()} counted before: the data are no part of their tests")
        counts.append("; ".join(parts))
        for claim, cell in zip(rows["id"], rows[run], strict=True):
            if CLAIMS[claim].on_any_data and cell.kind in TESTED:
                seen.add(claim)
    return counts


def counted(column: pd.Series) -> str:
    """Kinds in words: "2 supported, 1 contradicted, 5 not run"."""
    if not column.isin([*TESTED, Outcome.NOT_APPLICABLE]).any():
        return str(Outcome.NOT_RUN)
    counts = [(int((column == kind).sum()), kind) for kind in KINDS]
    return ", ".join(f"{n} {kind}" for n, kind in counts if n)


def lasting(over: pd.DataFrame, folders: dict[str, Path]) -> str:
    """What retrainings come to, and how many claims that the bundled model supports they
    support. Both are held against the same controls.
    """
    table = board(folders)
    once = [run for run in folders if run in table and not run.startswith(RETRAININGS)]
    outcomes = table[once].apply(kinds)
    is_supported = (outcomes == Outcome.SUPPORTED).any(axis=1)
    bundled = set(table.loc[is_supported, "id"]) & set(over["id"])
    matched = set(over.loc[over["outcome"] == Outcome.MATCHED, "id"])
    kept = len(bundled - retrainings.not_across(folders).keys())
    return (
        f"{retrainings.in_a_sentence(over)}. Of {len(bundled)} claims that the bundled model "
        f"supports, {_are(kept)} supported over retrainings; of {len(matched)} claims a test over "
        "retrainings is matched by controls"
    )


def _are(n: int) -> str:
    return f"{n} is" if n == 1 else f"{n} are"
