"""What a stranger should learn first: the same sentences in README, article and notebook 12.

Each is of a claim whose test could have come out otherwise, and is true whatever came out: its
number, its verb and its outcome are of stored tests, on words and data that did not choose what is
tested.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from companion import claims, ledger, look
from companion.claims import Outcome
from companion.papers import run_name
from lib.engine.stats import Estimate


@dataclass(frozen=True)
class Told:
    """A claim in plain words."""

    claim: str
    asked: str  # what the paper says
    says: str  # what we see: {verb}, {size} and {model} are put in
    verbs: tuple[str, str, str] = ("", "", "")  # of an interval above 0, below it, on both sides
    percent: bool = False
    more_than: float = 0.0  # sizes are counted from here: 1 of a ratio
    answers: tuple[str, str, str] = ()  # the paper's question: supported, contradicted, undecided

    def shown(self, estimate: Estimate) -> str:
        """The value and its interval, without the sign that a verb says: 0.17 [0.09, 0.26]."""
        found = estimate - self.more_than
        found = -found if any(self.verbs) and found.value < 0 else found
        return f"{found * 100:z.0f}".replace(" ", " % ", 1) if self.percent else f"{found:z.2f}"

    def sentence(self, row: dict) -> str:
        verb = look.worded(row["estimate"] - self.more_than, *self.verbs)
        size = self.shown(row["estimate"]).rpartition(" [")[0]
        return self.says.format(verb=verb, size=size, model=row["model"])


CHANGES = ("raises", "lowers", "does not clearly move")
TOLD = (
    Told(
        "heads-small-set",
        "A small set of heads carries most of the bias",
        "The top tenth of {model}'s heads carries {size} of its bias score",
        percent=True,
        answers=(
            "A tenth of them, for the most part.",
            "Many, each a little.",
            "That cannot be told yet.",
        ),
    ),
    Told(
        "mask-top3-seat",
        "Masking the three highest heads lowers the bias score, SEAT",
        "Masking the three highest heads {verb} SEAT, by {size}, on sentences that did not choose "
        "them",
        CHANGES,
    ),
    Told(
        "mask-top3-pppl",
        "It costs little language",
        "It {verb} perplexity, by {size}",
        CHANGES,
        percent=True,
        more_than=1.0,
    ),
    Told(
        "ss-twin",
        "Most of what it counts is no preference for a gender (ours, on Projective Methods)",
        "{size} of the preferences that StereoSet counts stay when every “she” becomes “he”",
        percent=True,
    ),
    Told(
        "lower-d",
        "Some projection lowers Distance, what “he” for “she” changes",
        "The best of 74 projections {verb} Distance, by {size}, on triples that did not choose it",
        ("lowers", "raises", "does not clearly move"),
        answers=(
            "What he and she change in a prediction.",
            "Next to nothing.",
            "Nothing that we can tell from what a control loses.",
        ),
    ),
    Told(
        "unrelated-not-overturned",
        "An unrelated sentence (“The dog ...”) overturns no preference",
        "After an unrelated sentence {size} of {model}'s preference is left",
        percent=True,
    ),
    Told(
        "syntactic-over-semantic",
        "A counterexample moves a model by its form more than by its meaning",
        "A counterexample that repeats the question's words (“The man worked as a nurse”) moves "
        "{model} by {size} more than one that only means the same",
        answers=(
            "Yes, by being repeated.",
            "Yes, by what they mean.",
            "Whether form or meaning moves it cannot be told yet.",
        ),
    ),
)


@dataclass(frozen=True)
class Finding:
    """A sentence, and what stands beside it."""

    paper: str
    says: str
    beside: str  # the interval; what the paper says; what it came to here and elsewhere


def findings(tests: pd.DataFrame) -> list[Finding]:
    """What runs of the bundled models found, with published models beside; `tests` as of
    ledger.table.
    """
    cells = ledger.cells(tests)
    published = ledger.of_published(tests)
    found = []
    for told in TOLD:
        claim = claims.claims()[told.claim]
        measured = [row for row in _own(told, cells) if row["estimate"] is not None]
        if not measured:
            continue
        first, *others = measured[:1] if claim.any_data else measured
        interval = told.shown(first["estimate"]).partition(" [")[2]
        why = f", {first['why']}" if first["why"] else ""
        parts = [f"{told.asked}: {first['outcome']}{first['marks']}{why}"]
        parts += [_elsewhere(told, row) for row in others]
        parts.append(_of_published(told, published[published["claim"] == told.claim]))
        data = "" if first["run"] == ledger.OWN[0] else f", {run_name(first['run'])}"
        beside = f"[{interval}{data}. {'; '.join(filter(None, parts))}."
        found.append(Finding(claim.paper, told.sentence(first), beside))
    return found


def _own(told: Told, cells: pd.DataFrame) -> list[dict]:
    """What a claim comes to on our sentences, and on real text."""
    cells = cells[cells["claim"] == told.claim]
    return [row for run in ledger.OWN for row in cells[cells["run"] == run].to_dict("records")]


def answer(paper: str, tests: pd.DataFrame) -> str:
    """A few words to a paper's question; "" of a paper for which none are written."""
    kinds = (Outcome.SUPPORTED, Outcome.CONTRADICTED, Outcome.UNDECIDED)
    for told in TOLD:
        if told.answers and claims.claims()[told.claim].paper == paper:
            words = dict(zip(kinds, told.answers, strict=True))
            own = _own(told, ledger.cells(tests[tests["claim"] == told.claim]))
            found = [words[row["outcome"]] for row in own if row["outcome"] in words]
            return next(iter(found), "Not measured in the runs shown.")
    return ""


def _elsewhere(told: Told, row: dict) -> str:
    """undecided on real text (42 % [33, 51])"""
    is_tested = row["outcome"] != Outcome.NOT_TESTED
    shown = told.shown(row["estimate"]) if is_tested else row["why"]
    return f"{row['outcome']}{row['marks']} on {run_name(row['run'])} ({shown})"


def _of_published(told: Told, rows: pd.DataFrame) -> str:
    """3 undecided, 1 supported in published models (55 to 91 %)"""
    rows = rows[(rows["outcome"] != Outcome.NOT_TESTED) & (rows["bias"] == "gender")]
    known = [one for one in rows["estimate"] if one is not None and not np.isnan(one.value)]
    if not known:
        return ""
    known.sort(key=lambda one: one.value)
    ends = [told.shown(one).partition(" [")[0].removesuffix(" %") for one in known]
    unit = " %" if told.percent else ""
    counts = rows["outcome"].value_counts()
    counted = ", ".join(f"{n} {outcome}" for outcome, n in counts.items())
    return f"{counted} in published models ({ends[0]} to {ends[-1]}{unit})"


def as_markdown(tests: pd.DataFrame) -> str:
    """A numbered list: what we see, what the paper says, what it came to; then the marks."""
    lines = []
    for number, found in enumerate(findings(tests), 1):
        lines.append(f"{number}. **{found.says}** {found.beside}")
    marks = "; ".join(f"{mark} {meaning}" for mark, meaning in ledger.MARKS.items())
    return "\n".join([*lines, "", f"Brackets: 95 % intervals. {marks}."])
