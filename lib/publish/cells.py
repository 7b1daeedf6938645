"""What a run says of a claim: the cells of the board."""

import re
from collections import defaultdict

import pandas as pd

from lib import verdict
from lib.publish.papers import CLAIMS, PAPERS
from lib.verdict import (
    APPLICABLE,
    MIXED,
    NO_WORKING_CONTROL,
    NOT_TESTABLE,
    ORDER,
    Claim,
    Outcome,
    Verdict,
)

# What a claim can come to in a run at all, and where it is applicable.
KINDS = ORDER
TESTED = tuple(kind for kind in ORDER if kind in (*APPLICABLE, MIXED))
FIGURE = re.compile(r"\b(4[a-d]|n13) (?=\S+ (?:gender|race))")
NAMES = {"n13": "footnote 13"}  # what is no figure


class Cell(str):
    """What a run says of a claim, as a table shows it; `kind` is one of KINDS, `reason` the
    rest.
    """

    kind: str
    reason: str

    @classmethod
    def of(cls, claim: Claim, tests: list[Verdict], beside: str = "") -> "Cell":
        """beside   what is said after it, of a claim that is supported"""
        if claim.not_testable:
            return cls._made(NOT_TESTABLE, NOT_TESTABLE)
        combined = verdict.combined(claim, tests)
        text = str(combined)
        if combined.kind == Outcome.SUPPORTED:
            reasons = {one.reason for one in tests if one.outcome == Outcome.SUPPORTED}
            if reasons == {NO_WORKING_CONTROL}:
                text += f"; {NO_WORKING_CONTROL}"
            if beside:
                text += f"; {beside}"
        return cls._made(text, combined.kind)

    @classmethod
    def _made(cls, text: str, kind: str) -> "Cell":
        cell = cls(text)
        cell.kind = kind
        cell.reason = _without_brackets(text.removeprefix(kind).strip(" ;"))
        return cell


def in_paper(on: str) -> str:
    """What a test is on, with the names of a paper's figures in full: "4a mini-bert gender" is
    "Fig. 4a, mini-bert gender".
    """
    return FIGURE.sub(lambda found: f"{NAMES.get(found[1], f'Fig. {found[1]}')}, ", on)


def _without_brackets(text: str) -> str:
    """Text without brackets around all of it: they are for where it follows a word."""
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:  # here the first bracket closes, if one opens the text
            return text[1:-1] if letter == ")" and place == len(text) - 1 else text
    return text


def said_of_ours(claim: Claim) -> str:
    """What follows the words of a claim that no paper makes."""
    return " (this project's claim)" if claim.is_ours else ""


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


def cells(tests: list[Verdict], beside: dict[str, str] | None = None) -> pd.Series:
    """One Cell per claim, in the order of CLAIMS; beside: see Cell.of, by claim."""
    by_claim = defaultdict(list)
    for one in tests:
        by_claim[one.claim].append(one)
    column = []
    for claim in CLAIMS.values():
        said = (beside or {}).get(claim.id, "")
        column.append(Cell.of(claim, by_claim[claim.id], said))
    return pd.Series(column, dtype=object)


def kinds(column: pd.Series) -> pd.Series:
    """Of a run's column of Cells: one of KINDS each."""
    return column.map(lambda cell: str(cell.kind))
