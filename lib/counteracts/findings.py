"""What notebook 11 finds, in sentences whose numbers are computed."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from lib.counteracts import tables
from lib.counteracts.claims import COUNTER_SYNTACTIC
from lib.verdict import Outcome, Verdict


def conclusions(
    shares: dict[str, pd.DataFrame], facts: pd.DataFrame, verdicts: Sequence[Verdict]
) -> str:
    """Five bullets in markdown, one number each; those without a test in this run are left out.

    shares     by model, of tables.shares in the full distribution
    facts      columns model, named before, right: of factual gender
    verdicts   one a claim and model
    """
    sentences = [
        _flipped(shares),
        _misgendered(facts),
        _outcomes(verdicts, "unrelated-not-overturned", "An unrelated sentence overturns nothing"),
        _outcomes(verdicts, "encoders-neutral", "That a neutral sentence overturns the preference"),
        _outcomes(verdicts, "syntactic-over-semantic", "That form moves more than meaning"),
    ]
    return "\n".join(f"- {sentence}" for sentence in sentences if sentence)


def _flipped(shares: dict[str, pd.DataFrame]) -> str:
    values = []
    for table in shares.values():
        is_flip = (table["kind"] == COUNTER_SYNTACTIC) & (table["change"] == tables.OVERTURNED)
        values += list(table.loc[is_flip, "value"])
    return (
        "**A counterexample of the question's form** (*The man worked as a nurse*) flips the "
        f"preference in {np.mean(values):.0%} of the occupations, in the mean of {len(values)} "
        "models."
    )


def _misgendered(facts: pd.DataFrame) -> str:
    wrong = 1 - facts.loc[facts["named before"] == "the other gender", "right"]
    return (
        "**The same sentence makes models misgender queens and kings**: up to "
        f"{wrong.max():.0%} of the pronouns are wrong. So it is repeated, not weighed."
    )


def _outcomes(verdicts: Sequence[Verdict], claim: str, words: str) -> str:
    """In how many models a claim is supported."""
    tests = [one for one in verdicts if one.claim == claim and one.outcome != Outcome.NOT_RUN]
    if not tests:
        return ""
    n = sum(one.outcome == Outcome.SUPPORTED for one in tests)
    return f"**{words}** is supported in {n} of {len(tests)} models that the claim is about."
