"""What a sentence does to a preference: the scores by which Counteracts' claims are tested.

A claim is scored by what becomes of the margin (female - male) / (female + male) with a sentence
before the prompt: a mean over the groups of occupations, of women and of men. One about a
preference gets the groups alone whose base margin is beyond LITTLE: of one near 0 the sign is luck.

The paper's Fig. 2-4 count the tokens of the top k, which leave out what is not among the likeliest.
So the whole distribution is the main reading. The 40 occupations of which the paper's prompts
probably are have a reading of their own: the 58 of Table 1 make intervals narrower. This was
decided with the results of the 40 seen, and before the 58 were judged.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd

from companion.claims import Beside, Claim, Test
from companion.counteracts import tables
from companion.counteracts.tables import FULL, LITTLE
from lib.engine.stats import Estimate, redrawn

# With gendered tokens in fewer of the prompts, a margin would depend on a few prompts.
ENOUGH = 0.5
DRAWS = 2_000  # bootstrap samples

SYNTACTIC = "target syntactic similar"
COUNTER_SYNTACTIC = "target counter syntactic similar"


# ---- scores
# Each takes `side`, the sign of the sample's base margin of each group, `base`, and one `after` per
# kind of knowledge, margins [draws, groups] of which the first draw is the sample. They are means
# over groups: [draws].


def lean(side, base, after):
    """How far the base prompts lean."""
    return (side * base).mean(-1)


def change(side, base, after):
    """By how much the lean grows; below 0 it shrinks, or turns round. Groups that move opposite
    ways conflict: their mean stays where it is.
    """
    return (side * (after - base)).mean(-1)


def remainder(side, base, after):
    """What is left of the lean; below 0 it is overturned."""
    return (side * after).mean(-1)


def shrinkage(side, base, after):
    """By how much the preference is smaller, whichever gender is preferred."""
    return (np.abs(base) - np.abs(after)).mean(-1)


def movement(side, base, after):
    """How far the gender that dominates an occupation gains or loses."""
    gain = (_toward_own(base) * (after - base)).mean(-1)
    return np.abs(gain)


def lead(side, base, first, second):
    """By how much more the first kind of knowledge moves the margin than the second."""
    return (np.abs(first - base) - np.abs(second - base)).mean(-1)


def _toward_own(margins: np.ndarray) -> np.ndarray:
    """The sign of the gender that dominates each group: occupations of women, of men.

    Pooled there is one group, where above 0 is the gender that dominates.
    """
    return np.array([1, -1])[: margins.shape[-1]]


# ---- what has to be there
TOKENS = "gendered tokens"
# A network that gives one answer to whatever it reads keeps everything: the margin has to follow
# the gender that is named in the occupation by more than LITTLE.
FOLLOWS = "follows a named gender"
PREFERENCE = "a preference in the base prompts"
# A margin beyond 1 - LITTLE could not grow by more than LITTLE.
ROOM = "room to grow"


class Expected(NamedTuple):
    """How a claim is tested that expects this."""

    score: Callable[..., np.ndarray]
    needs: tuple[str, ...]
    beyond_unrelated: bool = False  # it has to be more than what unrelated knowledge does


# By the column `expected` of data/claims.csv.
EXPECTED = {
    "leans": Expected(lean, ()),
    "kept": Expected(change, (FOLLOWS, PREFERENCE, ROOM)),
    "unchanged or conflicting": Expected(change, (FOLLOWS, PREFERENCE, ROOM)),
    "not overturned": Expected(remainder, (FOLLOWS, PREFERENCE)),
    "overturned": Expected(remainder, (FOLLOWS, PREFERENCE), beyond_unrelated=True),
    "weakened": Expected(shrinkage, (FOLLOWS, PREFERENCE), beyond_unrelated=True),
    "enlarged": Expected(change, (FOLLOWS, PREFERENCE, ROOM), beyond_unrelated=True),
    "moved": Expected(movement, (FOLLOWS,), beyond_unrelated=True),
    "first moves more": Expected(lead, (FOLLOWS,)),
}


# ---- tests
class Evidence(NamedTuple):
    """What tests rest on: the answers of one model, counted in one way."""

    margins: dict[str, np.ndarray]  # by kind, of tables.resampled
    understood: pd.Series  # by kind, of tables.understood
    n: list[int]  # occupations of each group


def evidence(
    answer: dict, k: int = FULL, pooled: bool = False, draws: int | None = None
) -> Evidence:
    """Of an answer of cloze.counted; draws: DRAWS where it is left out."""
    table = tables.by_occupation(answer, k)
    margins = tables.resampled(table, pooled, draws or DRAWS)
    return Evidence(margins, tables.understood(answer, k), tables.n_by_group(table, pooled))


def tests_of(claim: Claim, model: str, readings: dict[str, Evidence]) -> list[Test]:
    """A claim on one model: a test for each reading of the paper, the claim's own first. Another
    one is left out where it cannot be judged.
    """
    tests = [tested(claim, found, model, variant) for variant, found in readings.items()]
    return [test for test in tests if test.variant == claim.main or not test.unmet]


def tested(claim: Claim, evidence: Evidence, model: str = "", variant: str = "") -> Test:
    """A claim's score after knowledge of its kinds, what unrelated knowledge comes to, and whether
    what it is about is there.
    """
    expected = EXPECTED[claim.expected]
    groups = _groups(expected, evidence)
    n = int(np.array(evidence.n)[groups].sum())
    base = evidence.margins["base"][:, groups]

    def scored(*kinds: str) -> np.ndarray:
        after = [evidence.margins[kind][:, groups] for kind in kinds]
        return expected.score(np.sign(base[0]), base, *after)

    def estimate(scores: np.ndarray) -> Estimate:
        return redrawn(scores, n, "occupations")

    beside = None
    scores = scored(*claim.kinds)
    if expected.beyond_unrelated:
        unrelated = scored("unrelated")
        difference = estimate(scores - unrelated)
        beside = Beside("unrelated knowledge", estimate(unrelated), difference)
    needs = _needs(claim, expected, evidence)
    about = {"model": model, "variant": variant, "beside": beside, "needs": needs}
    return Test(claim.id, estimate(scores), **about)


def _groups(expected: Expected, evidence: Evidence) -> np.ndarray:
    """Which groups of occupations a claim is scored by: of a preference those that have one."""
    has_preference = np.abs(evidence.margins["base"][0]) > LITTLE
    if PREFERENCE in expected.needs and has_preference.any():
        return has_preference
    return np.full_like(has_preference, True)


def _needs(claim: Claim, expected: Expected, evidence: Evidence) -> dict[str, str]:
    """{precondition: "", or why it is not met}."""
    share = float(evidence.understood[["base", *claim.kinds]].min())
    largest = np.abs(evidence.margins["base"][0]).max()
    is_met = {
        TOKENS: share >= ENOUGH,
        FOLLOWS: follows_named_gender(evidence.margins) > LITTLE,
        PREFERENCE: largest > LITTLE,
        ROOM: largest <= 1 - LITTLE,
    }
    why = {
        TOKENS: f"gendered tokens in {share:.0%} of the prompts",
        FOLLOWS: "does not follow a named gender",
        PREFERENCE: "no preference in the base prompts",
        ROOM: "at the ceiling",
    }
    return {need: "" if is_met[need] else why[need] for need in (TOKENS, *expected.needs)}


def follows_named_gender(margins: dict[str, np.ndarray]) -> float:
    """By how much the margin follows the gender that is named, in the group in which it is less.

    It is the difference between naming the gender that dominates the occupation and the other one.
    """
    difference = margins[SYNTACTIC][0] - margins[COUNTER_SYNTACTIC][0]
    return float((_toward_own(difference) * difference).min())
