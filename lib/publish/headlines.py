"""What a stranger should learn first: a placeholder that repeats each paper's deciding claims."""

from dataclasses import dataclass

import pandas as pd

from lib import ledger
from lib.publish.papers import PAPERS, run_name


@dataclass(frozen=True)
class Finding:
    """What was found, in one plain sentence, and what stands beside it."""

    paper: str  # its key
    says: str
    beside: str  # interval, models, data, outcome and marks


def findings(tests: pd.DataFrame) -> list[Finding]:
    board = ledger.board(tests).set_index("claim")
    found = []
    for paper in PAPERS.values():
        for row in board.loc[list(paper.deciding)].to_dict("records"):
            size = "" if row["size"] is None else f"{row['size']:z.3g}, {run_name(row['run'])}: "
            found.append(Finding(paper.key, row["says"], f"{size}{row['outcome']}{row['marks']}"))
    return found


def as_markdown(tests: pd.DataFrame) -> str:
    return "\n".join(f"- {one.says} ({one.beside})" for one in findings(tests))
