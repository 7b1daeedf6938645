"""What a run says of a claim: the cells of the board."""

from collections import defaultdict

import pandas as pd

from lib import verdict
from lib.publish.papers import CLAIMS, PAPERS
from lib.verdict import MATCHED, MIXED, NOT_TESTABLE, Claim, Outcome, Verdict

# What a claim can come to in a run where it is applicable, and at all.
TESTED = (
    Outcome.SUPPORTED,
    MIXED,
    Outcome.CONTRADICTED,
    Outcome.INCONCLUSIVE,
    MATCHED,
)
KINDS = (*TESTED, Outcome.NOT_APPLICABLE, NOT_TESTABLE, Outcome.NOT_RUN)


class Cell(str):
    """What a run says of a claim, as a table shows it; `kind` is one of KINDS, `reason`
    the rest.
    """

    kind: str
    reason: str

    @classmethod
    def of(cls, claim: Claim, tests: list[Verdict], is_matched: bool = False) -> "Cell":
        if claim.not_testable:
            return cls._made(NOT_TESTABLE, NOT_TESTABLE, "")
        text = verdict.combined(tests)
        kind = verdict.kind(tests)
        if is_matched and any(one.outcome == Outcome.SUPPORTED for one in tests):
            return cls._made(f"{text}, {MATCHED}", MATCHED, text)
        return cls._made(text, kind, text.removeprefix(kind).strip(" ()"))

    @classmethod
    def _made(cls, text: str, kind: str, reason: str) -> "Cell":
        cell = cls(text)
        cell.kind = kind
        cell.reason = reason
        return cell


def describe(claim: Claim) -> dict[str, str]:
    """What the board says of a claim before any run."""
    return {
        "id": claim.id,
        "source": PAPERS[claim.paper].title,
        "made in": claim.where,
        "claim": claim.says,
        "tested by": claim.notebook,
        "figure": claim.figure,
    }


def cells(tests: list[Verdict], matched: set[str] = frozenset()) -> pd.Series:
    """One Cell per claim, in the order of CLAIMS; `matched` are those that controls support too."""
    by_claim = defaultdict(list)
    for one in tests:
        by_claim[one.claim].append(one)
    column = []
    for claim in CLAIMS.values():
        column.append(Cell.of(claim, by_claim[claim.id], claim.id in matched))
    return pd.Series(column, dtype=object)


def kinds(column: pd.Series) -> pd.Series:
    """Of a run's column of Cells: one of KINDS each."""
    return column.map(lambda cell: str(cell.kind))
