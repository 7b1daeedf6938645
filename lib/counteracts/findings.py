"""What notebook 11 finds, in sentences whose numbers are computed."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from lib.counteracts import tables
from lib.counteracts.claims import COUNTER_SYNTACTIC, SYNTACTIC
from lib.verdict import Outcome, Verdict


def conclusions(
    shares: dict[str, pd.DataFrame],
    margins: dict[str, dict[str, np.ndarray]],
    facts: pd.DataFrame,
    verdicts: Sequence[Verdict],
) -> str:
    """Five bullets in markdown, one number a sentence, and how many verdicts depend on a choice.
    Bullets without a test in this run are left out.

    shares     by model, of tables.shares in the full distribution
    margins    by model, of tables.resampled in the full distribution
    facts      columns model, named before, right: of factual gender
    verdicts   of claims.overall, one a claim and model
    """
    sentences = [
        _flipped(shares),
        _misgendered(facts),
        _unrelated(margins, verdicts),
        _outcomes(verdicts, "encoders-neutral", "That a neutral sentence overturns the preference"),
        _outcomes(verdicts, "syntactic-over-semantic", "That form moves more than meaning"),
    ]
    bullets = "\n".join(f"- {sentence}" for sentence in sentences if sentence)
    return f"{bullets}\n\n{_depending(verdicts)}"


def _flipped(shares: dict[str, pd.DataFrame]) -> str:
    counter = _overturned(shares, COUNTER_SYNTACTIC)
    confirming = _overturned(shares, SYNTACTIC)
    mean = f", in the mean of {len(shares)} models" if len(shares) > 1 else ""
    return (
        "**A counterexample of the question's form** (*The man worked as a nurse*) flips the "
        f"preference in {counter:.0%} of the occupations{mean}. A "
        f"confirming sentence (*The woman worked as a nurse*) flips it in {confirming:.0%}."
    )


def _overturned(shares: dict[str, pd.DataFrame], kind: str) -> float:
    """The share of occupations that a kind of knowledge overturns, in the mean of the models."""
    values = []
    for table in shares.values():
        is_flip = (table["kind"] == kind) & (table["change"] == tables.OVERTURNED)
        values += list(table.loc[is_flip, "value"])
    return float(np.mean(values))


def _misgendered(facts: pd.DataFrame) -> str:
    wrong = 1 - facts.set_index("named before")["right"]
    other, person = wrong["the other gender"], wrong["a person"]
    return (
        "**The same sentence makes models misgender queens and kings**: "
        f"{other.min():.0%} to {other.max():.0%} of the pronouns are wrong, by model, and after a "
        f"person named at most {person.max():.0%}. This fits repeating better than weighing."
    )


def _unrelated(margins: dict[str, dict[str, np.ndarray]], verdicts: Sequence[Verdict]) -> str:
    """Not overturned is less than unchanged: how many groups an unrelated sentence moves."""
    words = "That an unrelated sentence does not overturn the preference"
    said = _outcomes(verdicts, "unrelated-not-overturned", words, ", in the mean of the groups,")
    if not said:
        return ""
    moved = sum(tables.moved_groups(one, "unrelated") for one in margins.values())
    groups = sum(one["base"].shape[1] for one in margins.values())
    if not moved:
        return f"{said} It moves no group of occupations by more than {tables.LITTLE}, clearly."
    return (
        f"{said} It does not leave the margin as it is: it moves {moved} of {groups} groups of "
        f"occupations by more than {tables.LITTLE}."
    )


def _outcomes(verdicts: Sequence[Verdict], claim: str, words: str, more: str = "") -> str:
    """In how many models a claim is supported."""
    tests = [one for one in verdicts if one.claim == claim and one.outcome != Outcome.NOT_RUN]
    if not tests:
        return ""
    n = sum(one.outcome == Outcome.SUPPORTED for one in tests)
    return f"**{words}**{more} is supported in {n} of {len(tests)} models that the claim is about."


def _depending(verdicts: Sequence[Verdict]) -> str:
    """How many verdicts another k or another variant changes: a remark names them."""
    changed = [one for one in verdicts if one.remark]
    at_k = [one for one in changed if "k = " in one.remark]
    return (
        f"Of the {len(verdicts)} verdicts {len(changed)} change at another k or in another "
        f"analysis variant. At a k, which is how the paper counts, {len(at_k)} do."
    )
