"""What every run found of the papers' claims, side by side; and what control models say of each.

All of it is read from the records that notebooks keep (lib/publish/records.py), so that the same
folder gives the same tables. Nothing is decided here. `folders` is {run: folder}, all stored runs
where it is left out.

Two runs are controls and no columns of the board: models that cannot have the effect, judged
without preconditions. `null` is untrained networks (figures/null the first draw,
figures/null/draws/K another), `balanced` a BERT trained on text whose gender words were swapped at
random. A claim that they support too often is matched by controls, and says nothing of stereotypes.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
from scipy.stats import binom

from lib import results
from lib.engine import models
from lib.publish import records, retrainings
from lib.publish.cells import KINDS, TESTED, cells, describe, kinds
from lib.publish.papers import CLAIMS, PAPERS, RETRAININGS, run_name
from lib.publish.records import control_of, verdicts
from lib.verdict import (
    APPLICABLE,
    GENDER_SWAPPED,
    MATCHED,
    UNTRAINED,
    Outcome,
    Verdict,
)

NO_CONTROL = "control not run"
BY_CHANCE = 0.025  # of tests without an effect: those whose 95 % interval lies above the threshold
ALL_PAPERS = "All papers"


# ---- controls
@dataclass(frozen=True)
class ControlResult:
    """What models that cannot have the effect say of a claim."""

    is_matched: bool  # they support it more often than chance allows
    text: str
    supported: dict[str, tuple[int, int]] = field(default_factory=dict)  # by control: k of n tests


def controls(folders: dict[str, Path] | None = None) -> dict[str, ControlResult]:
    """{claim: what the stored controls say of it}."""
    tests = _control_tests(folders or results.runs())
    found = {}
    for claim in CLAIMS.values():
        counts = {}
        for control in claim.controls:
            outcomes = tests[control, claim.id]
            counts[control] = outcomes.count(Outcome.SUPPORTED), len(outcomes)
        is_matched = any(_is_too_often(control, *count) for control, count in counts.items())
        found[claim.id] = ControlResult(is_matched, _counts_in_words(is_matched, counts), counts)
    return found


def _control_tests(folders: dict[str, Path]) -> dict[tuple[str, str], list[Outcome]]:
    """{(control, claim): the outcomes of its tests}, over all draws of the control."""
    tests = defaultdict(list)
    for run, folder in folders.items():
        control = control_of(run)
        if not control:
            continue
        for draw in [folder, *sorted(folder.glob("draws/*"))]:
            for one in records.stored(run, draw):
                if _is_of_control(control, one):
                    tests[control, one.claim].append(one.outcome)
    return tests


def _is_of_control(control: str, one: Verdict) -> bool:
    """Whether a verdict of a control's run is of the control itself, and its claim was judged."""
    if one.outcome not in APPLICABLE:
        return False
    if control == UNTRAINED:
        return all(models.draw_of(name) for name in one.models)
    if "race" in one.on:  # words of race were not swapped
        return False
    return all(Path(name).name.startswith(GENDER_SWAPPED) for name in one.models)


def _is_too_often(control: str, supported: int, n: int) -> bool:
    """Untrained networks may support a claim as often as chance has it, 95 % of the time; the
    gender-swapped model, which is one training, may not at all."""
    if not supported:
        return False
    return control != UNTRAINED or supported > binom.ppf(0.95, n, BY_CHANCE)


def _counts_in_words(is_matched: bool, counts: dict[str, tuple[int, int]]) -> str:
    """matched by controls; null: 3 of 10 support it; balanced: control not run"""
    parts = [MATCHED] if is_matched else []
    for control, (supported, n) in counts.items():
        parts.append(
            f"{control}: {supported} of {n} support it" if n else f"{control}: {NO_CONTROL}"
        )
    return "; ".join(parts) or "no control can test it"


# ---- the board
def board(folders: dict[str, Path] | None = None) -> pd.DataFrame:
    """One row per claim: id, source (the paper: a run may be called `paper`), made in, claim,
    tested by (the notebook), figure (the picture behind it), controls and retrainings (what these
    say), and one column of Cells per run that tests any claim, controls aside.
    """
    said_by_controls = controls(folders)
    said_by_retrainings = retrainings.in_words(folders)
    matched = {claim for claim, said in said_by_controls.items() if said.is_matched}
    rows = []
    for claim in CLAIMS.values():
        row = describe(claim)
        row["controls"] = "" if claim.not_testable else said_by_controls[claim.id].text
        row["retrainings"] = said_by_retrainings.get(claim.id, "")
        rows.append(row)
    table = pd.DataFrame(rows)
    for run, tests in verdicts(folders).items():
        if not control_of(run) and any(one.outcome != Outcome.NOT_RUN for one in tests):
            table[run] = cells(tests, matched)
    return table


def evidence(folders: dict[str, Path] | None = None) -> pd.DataFrame:
    """What stands behind each cell of the board, a row a test."""
    said = controls(folders)
    rows = []
    for run, tests in verdicts(folders).items():
        for one in tests:
            is_not_run = one.outcome == Outcome.NOT_RUN
            row = {
                "id": one.claim,
                "run": run,
                "tested on": one.on,
                "found": one.found,
                "outcome": f"{one.outcome}: {one.reason}" if is_not_run else str(one),
            }
            rows.append(row | behind(one, said))
    return pd.DataFrame(rows)


def behind(one: Verdict, said: dict[str, ControlResult]) -> dict[str, str]:
    """The interval that decides, preconditions, the control of equal size, what control
    models say.
    """
    interval = ""
    if one.samples_met is not None:
        interval = f"met in {one.samples_met:.1%} of samples"
    elif one.estimate is not None:
        interval = f"{one.estimate:z.3g}"
    control = ""
    if one.control:
        estimate, difference = one.control.estimate, one.control.difference
        control = f"{one.control.name} {estimate:z.3g}, difference {difference:z.3g}"
    preconditions = []
    for name, is_met in one.preconditions.items():
        preconditions.append(f"{name} {'met' if is_met else 'not met'}")
    return {
        "interval": interval,
        "preconditions": ", ".join(preconditions),
        "control": control,
        "controls": said[one.claim].text if one.claim in said else "",
    }


def summary(folders: dict[str, Path] | None = None) -> str:
    """Claims by paper and run as a markdown table: how many are supported, contradicted
    and so on.
    """
    table = board(folders)
    names = [name for name in folders or results.runs() if name in table]
    lines = [["paper", "claims", *map(run_name, names)], ["---"] * (len(names) + 2)]
    parts = {f"*{paper.title}*": table[table["source"] == paper.title] for paper in PAPERS.values()}
    parts[ALL_PAPERS] = table
    for title, rows in parts.items():
        counts = [counted(kinds(rows[run])) for run in names]
        lines.append([title, str(len(rows)), *counts])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def counted(column: pd.Series) -> str:
    """Kinds in words: "2 supported, 1 contradicted, 5 not run"."""
    if not column.isin([*TESTED, Outcome.NOT_APPLICABLE]).any():
        return str(Outcome.NOT_RUN)
    counts = [(int((column == kind).sum()), kind) for kind in KINDS]
    return ", ".join(f"{n} {kind}" for n, kind in counts if n)


def lasting(over: pd.DataFrame, folders: dict[str, Path]) -> str:
    """The same, and how many claims that the bundled model supports are supported over
    retrainings.
    """
    table = board(folders)
    said = controls(folders)
    once = [run for run in folders if run in table and not run.startswith(RETRAININGS)]
    is_supported = (table[once].apply(kinds) == Outcome.SUPPORTED).any(axis=1)
    bundled = set(table.loc[is_supported, "id"]) & set(over["id"])
    lasting_claims = set(over.loc[over["outcome"] == Outcome.SUPPORTED, "id"])
    kept = len(bundled & lasting_claims)
    own = sum(not said[claim].is_matched for claim in lasting_claims)
    return (
        f"{retrainings.in_a_sentence(over)}. Of {len(bundled)} claims that the bundled model "
        f"supports, {_are(kept)} supported over retrainings; of {len(lasting_claims)} that are, "
        f"{_are(own)} not matched by controls"
    )


def _are(n: int) -> str:
    return f"{n} is" if n == 1 else f"{n} are"
