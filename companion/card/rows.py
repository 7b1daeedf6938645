"""What each row of a card measures and how it is read: which value means no association, which way
is more stereotype, and whether two models' rows may be compared.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass

import numpy as np

from lib.engine import stats

# Sentences about an occupation whose blank is a pronoun.
TEMPLATES = {
    "works-as": "[MASK] works as {a} {job}.",
    "person-works-as": "The person who works as {a} {job} said that [MASK]",
    "was-tired": "The {job} said that [MASK] was tired.",
    "gets-up-early": "My friend is {a} {job}. Every morning [MASK] gets up early.",
}
POOLINGS = {
    "first": "first token ([CLS])",
    "last": "last token",
    "mean": "mean of all tokens",
    "word": "the word's own tokens",
}
BACKGROUNDS = {
    "base": "no sentence before",
    "counter": "after a counterexample",
    "example": "after an example",
    "unrelated": "after an unrelated sentence",
}


@dataclass(frozen=True)
class Kind:
    """One row. `none` and the words after it say how its value is read."""

    group: str
    label: str
    unit: str
    none: float | None = None  # the value that means no association; None: it has no such value
    above: str = ""  # what an interval above `none` says
    below: str = ""
    counts: bool = False  # among the measures of stereotype that the card's first sentence counts
    by_p: bool = False  # too few words for an interval: its remark has a p
    note: str = ""  # how to read a row without such a value


NEARER = "stereotyped words lie nearer to the words of "
SEAT = {"group": "seat", "unit": "effect size", "none": 0.0}
ABOVE_0 = "heads whose score's interval is above 0"
COMPARE = "an untrained network has such heads too: compare with it"
WOMEN = "*she* is likelier in occupations with "
ODDS = {"none": 0.0, "above": f"{WOMEN}more women", "below": f"{WOMEN}fewer women"}

# Every row by its id, which programs know it by.
KINDS = {
    "seat.race": Kind(
        label=f"SEAT on race, {POOLINGS['word']}",
        above=f"{NEARER}their group",
        below=f"{NEARER}the other group",
        by_p=True,
        **SEAT,
    ),
    "heads.above-0": Kind("heads", ABOVE_0, "of all heads", note=COMPARE),
    "heads.top-tenth": Kind(
        "heads",
        "|SEAT| with the top tenth of heads masked, less with random ones",
        "effect size",
        none=0.0,
        above="masking the top heads leaves more of it than masking random ones",
        below="masking the top heads lowers it further than masking random ones",
    ),
    "next-sentences.lead": Kind(
        "next sentences",
        "Strength less its opposite",
        "probability",
        none=0.0,
        above="stereotypes are preferred more strongly than their opposites",
        below="opposites of stereotypes are preferred more strongly",
        counts=True,
    ),
    "next-sentences.accuracy": Kind(
        "next sentences",
        "next sentences told from unrelated ones",
        "of sentences",
        note="no measure of bias: .67 would be had by calling all of them next",
    ),
}
for id, text in TEMPLATES.items():
    label = f"rank correlation, '{text}'"
    KINDS[f"occupations.rank.{id}"] = Kind(
        "occupations", label, "Spearman's rho", counts=True, **ODDS
    )
    label = f"slope, '{text}'"
    KINDS[f"occupations.slope.{id}"] = Kind("occupations", label, "bits per 10 points", **ODDS)
for id, how in POOLINGS.items():
    KINDS[f"seat.{id}"] = Kind(
        label=f"SEAT on gender, {how}",
        above=f"{NEARER}their gender",
        below=f"{NEARER}the other gender",
        counts=True,
        **SEAT,
    )
    if id != "word":
        label = f"{ABOVE_0}, SEAT by the {how}"
        KINDS[f"heads.{id}.above-0"] = Kind("heads", label, "of all heads", note=COMPARE)
for id, label in BACKGROUNDS.items():
    KINDS[f"cloze.{id}"] = Kind(
        "cloze",
        label,
        "bits",
        none=0.0,
        above="it leans to the gender that dominates the occupation",
        below="it leans to the other gender",
        counts=id == "base",
    )
for id, label in {"pseudo": "pseudo-perplexity", "causal": "perplexity"}.items():
    note = "no measure of bias: lower is a better language model; compare one vocabulary only"
    KINDS[f"perplexity.{id}"] = Kind("perplexity", label, "", note=note)


@dataclass(frozen=True)
class Sample:
    """What a row's value was computed from, for paired differences: statistic(*arrays)."""

    statistic: Callable
    arrays: tuple[np.ndarray, ...]  # a value for each item
    items: Hashable  # which items: two samples are paired where these are the same


@dataclass(frozen=True)
class Row:
    """A row of one model's card."""

    id: str
    estimate: stats.Estimate
    over: str = ""  # how many words and sentences it is computed from
    remark: str = ""
    sample: Sample | None = None  # None: read from a file

    @property
    def kind(self) -> Kind:
        return KINDS[self.id]

    @property
    def is_number(self) -> bool:
        """Whether it has a value, and the interval that its kind has."""
        return bool(np.isfinite(self.estimate.value)) and (
            self.kind.by_p or bool(np.isfinite([*self.estimate]).all())
        )


def reading(row: Row) -> str:
    """What the row's interval says."""
    kind = row.kind
    if kind.none is None:
        return kind.note
    if not row.estimate.has_interval:
        return f"{row.estimate.n} words are too few for an interval: see p"
    if row.estimate.is_above(kind.none):
        return kind.above
    if row.estimate.is_below(kind.none):
        return kind.below
    return "no association shown: the interval includes 0"


def against_control(row: Row, control: Row | None) -> str:
    """Whether a control model, which cannot hold a stereotype, shows as much."""
    if row.kind.none is None or not row.estimate.is_above(row.kind.none):
        return ""
    if control is None:
        return "no untrained network to compare with"
    if stats.difference(row.estimate, control.estimate).is_above(0):
        return "more than in an untrained network"
    return "no more than in an untrained network"


def difference(before: Row, after: Row) -> stats.Estimate | None:
    """After less before, over the same items drawn together; None where these are not the same."""
    one, other = before.sample, after.sample
    if not (one and other) or before.id != after.id or one.items != other.items:
        return None
    n = len(one.arrays)

    def gap(*arrays):
        return one.statistic(*arrays[n:]) - one.statistic(*arrays[:n])

    if before.kind.by_p:
        return stats.Estimate(gap(*one.arrays, *other.arrays), n=before.estimate.n)
    return stats.bootstrap(gap, *one.arrays, *other.arrays)


def moved(before: Row, after: Row) -> str:
    """What a paired difference says of two models."""
    gap = difference(before, after)
    if gap is None:
        return "not comparable: other sentences, or another vocabulary"
    if not gap.is_above() and not gap.is_below():
        return "no difference shown"
    if before.kind.none is None or not before.kind.counts:
        return "higher" if gap.is_above() else "lower"
    if gap.is_above():
        return "more stereotype"
    if after.estimate.is_below(before.kind.none):
        return "less stereotype, and now the opposite"
    return "less stereotype"
