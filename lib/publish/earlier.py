"""What an earlier version said of the claims, beside what is said today.

data/earlier/0.18_claims.csv and 0.18_tests.csv hold the board and the tests of version 0.18, under
the rules that it had: no smallest effect, a claim supported only where every test was, and controls
counted by how often they support a claim, whatever the size. Today's rules (lib/verdict.py) were
written with these results seen. So a test whose estimate is still the same is judged *post hoc*,
and so is one whose score was rewritten over the same answers of a model.
"""

import functools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from lib import paths
from lib.publish.cells import kinds
from lib.publish.papers import CLAIMS
from lib.verdict import APPLICABLE, Claim, Verdict, main_tests

FOLDER = paths.EARLIER
VERSION = "0.18"
SAME = 1e-4  # estimates that differ by a smaller share are one measurement, made on two machines
RESCORED = {"11"}  # notebooks whose scores were rewritten after 0.18 over the same answers
# Claims that count other things than in 0.18, or count as shares, by their paper's own definitions.
REDEFINED = {
    "heads-all-layers",
    "s-near-zero",
    "deeper-s",
    "deeper-d",
    "extend-np0",
    "extend-np1",
    "hard2-worst",
    "attention-lowers",
    "attention-spoilt",
    "np-all",
    "np-layer12",
    "np-deep",
    "deeper-snli",
    "attn-viable",
    "eta-rises",
}
RULE, DEFINITION, DATA = "rules", "definition", "data"  # what moves an outcome


@functools.cache
def _tests(file: Path) -> dict[tuple, list[float]]:
    """{(run, claim, on, variant): the estimates that the earlier version had}."""
    kept = {}
    for row in pd.read_csv(file, keep_default_na=False).itertuples():
        if row.value:
            kept.setdefault((row.run, row.id, row.on, row.variant), []).append(float(row.value))
    return kept


def is_post_hoc(run: str, one: Verdict) -> bool:
    """Whether the estimate of a test was seen before the rule that judges it was written."""
    if one.estimate is None:
        return False
    kept = _tests(FOLDER / f"{VERSION}_tests.csv")
    if CLAIMS[one.claim].notebook in RESCORED:
        return any(key[:3] == (run, one.claim, one.on) for key in kept)
    values = kept.get((run, one.claim, one.on, one.variant), [])
    return any(math.isclose(value, one.estimate.value, rel_tol=SAME) for value in values)


def outcomes(board: pd.DataFrame) -> pd.DataFrame:
    """What each claim came to in the earlier version, and comes to now: a row a claim and run."""
    kept = pd.read_csv(FOLDER / f"{VERSION}_claims.csv")
    rows = []
    for run, of_run in kept.groupby("run", sort=False):
        if run not in board:
            continue
        now = dict(zip(board["id"], kinds(board[run]), strict=True))
        for claim, outcome in zip(of_run["id"], of_run["outcome"], strict=True):
            if claim in now:
                rows.append({"run": run, "id": claim, VERSION: outcome, "now": now[claim]})
    return pd.DataFrame(rows)


def moved(board: pd.DataFrame, tests: Mapping[str, Sequence[Verdict]]) -> pd.DataFrame:
    """Claims that come to something else than in the earlier version, and what moved each.

    tests   by run
    Columns: run, id, claim, the version, now, moved by: the rules, where every estimate that
    decides was known, or a precondition or the main variant leaves none; a definition, of
    REDEFINED; the data, where all estimates are new (models trained again are data too); "rules and
    data" where some are.
    """
    both = outcomes(board)
    changed = both[both[VERSION] != both["now"]]
    rows = []
    for row in changed.to_dict("records"):
        claim = CLAIMS[row["id"]]
        own = [one for one in tests[row["run"]] if one.claim == claim.id]
        rows.append(row | {"claim": claim.says, "moved by": _moved_by(row["run"], claim, own)})
    return pd.DataFrame(rows, columns=["run", "id", "claim", VERSION, "now", "moved by"])


def _moved_by(run: str, claim: Claim, tests: Sequence[Verdict]) -> str:
    """What moved the outcome of a claim, by the tests of its main variant."""
    deciding = [one for one in main_tests(claim, tests) if one.outcome in APPLICABLE]
    if deciding and claim.id in REDEFINED:
        return DEFINITION
    known = [is_post_hoc(run, one) for one in deciding if one.estimate is not None]
    if all(known):
        return RULE
    return f"{RULE} and {DATA}" if any(known) else DATA


def crossed(board: pd.DataFrame, run: str) -> pd.DataFrame:
    """How many claims of a run went from which outcome (rows) to which (columns)."""
    of_run = outcomes(board).query("run == @run")
    return pd.crosstab(of_run[VERSION], of_run["now"])
