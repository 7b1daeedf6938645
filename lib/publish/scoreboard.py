"""What every run found of the papers' claims, side by side.

All of it is read from the records that notebooks keep (lib/publish/records.py), so that the same
folder gives the same tables; control models are held against them here (lib/publish/controls.py).
Nothing is decided here. `folders` is {run: folder}, all stored runs where it is left out.
"""

import math
from pathlib import Path

import pandas as pd

from lib import results, verdict
from lib.engine.stats import Estimate
from lib.publish import controls, earlier, retrainings
from lib.publish.cells import KINDS, TESTED, cells, describe, kinds
from lib.publish.judged import judged
from lib.publish.papers import CLAIMS, PAPERS, RETRAININGS, is_published, run_name
from lib.publish.records import control_of
from lib.verdict import NO_WORKING_CONTROL, Asks, Claim, Outcome, Verdict

ALL_PAPERS = "All papers"
OURS = "Ours, beside the papers'"
OF_BUNDLED = ("mini", "mini-real")  # the runs of the bundled models


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
        if not control_of(run) and tests_any(of_run):
            is_retraining = run.startswith(RETRAININGS)
            table[run] = cells(of_run, {} if is_retraining else not_across)
    return table


def tests_any(tests: list[Verdict]) -> bool:
    """Whether a run tests any claim; the board has a column of no other."""
    return any(one.outcome != Outcome.NOT_RUN for one in tests)


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
    if one.estimate is not None:
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


# What there is at most, by notebook, where tests count it: both files of the authors' triples, and
# the occupations of Counteracts' Table 1. No further ones can be had.
MOST = {"07": 983, "08": 983, "11": 58}
# What is in already to the last one: occupations and projections of notebook 09, words of SEAT (on
# the papers' data 94 of them stand in sentences), heads and layers of a model.
WHOLE = {
    ("09", 164): "occupations",
    ("09", 76): "models",
    ("11", 29): "occupations of Table 1 that women, or men, dominate",
    ("02", 165): "words of the lists",
    ("02", 94): "words of the lists that have sentences",
}
WHOLE_UNITS = {
    "target words": "words of the lists",
    "heads": "heads that there are",
    "layers": "layers",
}
NOTHING = "nothing here can"
MANY = 100  # times as much as there is: no run here can have so much


def needed_text(one: Verdict) -> str:
    """How much data would decide an inconclusive test, "about 340 in place of 100", or why none
    here can; "" of any other test.
    """
    claim = CLAIMS.get(one.claim)  # none of a check that is no claim of a paper
    if claim is None or one.outcome != Outcome.INCONCLUSIVE:
        return ""
    beyond = verdict.needed_beyond(claim, one)
    if not math.isnan(beyond):
        return f"{_times(beyond)}, of the control too"
    times = verdict.needed(claim, one)
    if math.isnan(times):
        return f"{NOTHING}: {one.reason or verdict.NO_VALUE}"
    return _n_text(claim, one.estimate, times)


def _n_text(claim: Claim, estimate: Estimate, times: float) -> str:
    """about 340 in place of 100, and whether there are so many."""
    n = estimate.n
    text = _times(times)
    wanted = 0
    if n and 1 < times <= MANY:
        wanted = int(float(f"{n * times:.2g}"))  # to two digits: the last ones are rounding
        text = f"about {wanted} in place of {n}" if wanted > n else f"a little more than {n}"
    most = MOST.get(claim.notebook, wanted)
    if wanted > most:
        return f"{text}: {NOTHING}, there are {most}"
    whole = WHOLE.get((claim.notebook, n), "") or WHOLE_UNITS.get(estimate.unit, "")
    if not whole or NOTHING in text:
        return text
    if times <= 1 or times == math.inf:
        return f"{NOTHING}: these are all {whole}"
    return f"{text}: {NOTHING}, these are all {whole}"


def _times(times: float) -> str:
    """about 3.4 times as much

    1 and infinity are of an interval that ends on the threshold, as shares do at 1, and of a value
    on it: neither says how wide the interval would be with more data.
    """
    if times == math.inf:
        return "more; how much, a value on the threshold does not tell"
    if times > MANY:
        return f"{NOTHING}: more than {MANY} times as much"
    if times <= 1:
        return "more; how much, an interval that ends on the threshold does not tell"
    return f"about {times:.1f} times as much"


def undecided(folders: dict[str, Path] | None = None) -> pd.DataFrame:
    """Every claim that a run leaves inconclusive: of each of its tests in the main analysis
    variant, what would decide it, or why nothing here can.
    """
    rows = []
    for run, tests in judged(folders).items():
        if control_of(run) or run.startswith(RETRAININGS):
            continue
        for claim in CLAIMS.values():
            of_claim = [one for one in tests if one.claim == claim.id]
            if verdict.combined(claim, of_claim).kind != Outcome.INCONCLUSIVE:
                continue
            for one in verdict.main_tests(claim, of_claim):
                if one.outcome == Outcome.INCONCLUSIVE:
                    rows.append(
                        {
                            "id": claim.id,
                            "run": run,
                            "claim": claim.says,
                            "tested on": one.on or ", ".join(one.models),
                            "interval": behind(one)["interval"],
                            "threshold": one.threshold,
                            "needed": needed_text(one),
                        }
                    )
    columns = ["id", "run", "claim", "tested on", "interval", "threshold", "needed"]
    return pd.DataFrame(rows, columns=columns)


# ---- counts
def summary(folders: dict[str, Path] | None = None) -> str:
    """Claims by paper and run as a markdown table: how many are supported, contradicted and so on.
    Retrainings and published models are left out: they stand in the other tables.

    A claim whose test does not depend on the data is counted in the first run that tests it, and
    claims of this project are counted apart.
    """
    table = board(folders)
    names = []
    for name in folders or results.runs():
        if name in table and not name.startswith(RETRAININGS) and not is_published(name):
            names.append(name)
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
        new = counted(rows.loc[~again, run])
        parts = [] if again.any() and new == Outcome.NOT_RUN else [new]
        if again.any():
            parts.append(f"{again.sum()} counted before")
        counts.append("; ".join(parts))
        for claim, cell in zip(rows["id"], rows[run], strict=True):
            if CLAIMS[claim].on_any_data and cell.kind in TESTED:
                seen.add(claim)
    return counts


def counted(column: pd.Series) -> str:
    """A run's Cells in words: "2 supported (1 without a working control), 5 not run"."""
    found = kinds(column)
    if not found.isin([*TESTED, Outcome.NOT_APPLICABLE]).any():
        return str(Outcome.NOT_RUN)
    parts = []
    for kind in KINDS:
        n = int((found == kind).sum())
        if not n:
            continue
        parts.append(f"{n} {kind}")
        of_kind = column[found == kind]
        unchecked = int(of_kind.str.contains(NO_WORKING_CONTROL, regex=False).sum())
        if kind == Outcome.SUPPORTED and unchecked:
            parts[-1] += f" ({unchecked} without a working control)"
    return ", ".join(parts)


def lasting(over: pd.DataFrame, folders: dict[str, Path]) -> str:
    """How many of the claims that a run of the bundled model supports its retrainings support.
    Both are held against the same controls.
    """
    table = board(folders)
    outcomes = table[[run for run in OF_BUNDLED if run in table]].apply(kinds)
    is_supported = (outcomes == Outcome.SUPPORTED).any(axis=1)
    bundled = set(table.loc[is_supported, "id"]) & set(over["id"])
    kept = len(bundled - retrainings.not_across(folders).keys())
    return (
        f"Of {len(bundled)} claims supported in the bundled model, {_are(kept)} supported over "
        "retrainings"
    )


def _are(n: int) -> str:
    return f"{n} is" if n == 1 else f"{n} are"
