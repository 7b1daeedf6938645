"""What a stranger should learn first: four claims of each paper in plain words, with what we see.

Words stand here; every number, outcome and "how sure" comes from stored records, so that a run that
is stored again says what it found. `folders` is {run: folder}, all stored runs where it is left
out.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from lib import results, verdict
from lib.engine.stats import Estimate
from lib.publish import retrainings, scoreboard
from lib.publish.cells import Cell
from lib.publish.judged import judged
from lib.publish.papers import CLAIMS, PAPERS, is_published
from lib.verdict import (
    APPLICABLE,
    DECIDED,
    MIXED,
    NO_WORKING_CONTROL,
    Outcome,
    Verdict,
)

# The runs of bundled models, first what ./reproduce.sh makes, and what readers call their data.
BUNDLED = {"mini": "our sentences", "mini-real": "real text"}
REAL = "mini-real"
STEPS = ("high", "medium", "low")  # how sure: each reason for doubt is a step down


@dataclass(frozen=True, kw_only=True)
class Headline:
    """A claim in plain words, and what its estimate is of."""

    claim: str  # its id
    says: str  # what the paper says
    sees: str  # what is measured, whatever comes out; {0} is the value, {1} its interval
    form: str = "z.2f"  # how the estimate is written
    scale: float = 1.0  # 100 of a share that is written in percent, -1 of what is lowered

    def seen(self, estimate: Estimate) -> str:
        """What is measured, in words: the value in place of {}, its interval after the unit."""
        value, *ends = (self.scale * number for number in estimate)
        numbers = Estimate(value, *sorted(ends))
        value, _, interval = format(numbers, self.form).partition(" ")
        return self.sees.format(value, interval).strip()

    def seen_in(self, estimates: list[Estimate]) -> str:
        """The same of several: from the lowest value to the highest, without intervals."""
        values = sorted(self.scale * one.value for one in estimates)
        ends = [format(Estimate(value), self.form) for value in (values[0], values[-1])]
        return " ".join(self.sees.format(" to ".join(dict.fromkeys(ends)), "").split())


HEADLINES = (
    Headline(
        claim="heads-small-set",
        says="A few heads carry most of the bias",
        sees="the top tenth carries {0} % {1}",
        form=".0f",
        scale=100,
    ),
    Headline(
        claim="mask-top3-seat",
        says="Masking the top three lowers the bias score, SEAT",
        sees="by {0} {1}",
        scale=-1,
    ),
    Headline(
        claim="mask-top3-pppl",
        says="... at little cost for language",
        sees="perplexity times {0} {1}",
    ),
    Headline(
        claim="counter-biased",
        says="Biased heads attend more to a stereotype's word",
        sees="by {0} {1} percentage points",
    ),
    Headline(
        claim="ss-hair",
        says="StereoSet counts preferences that are hardly there",
        sees="{0} % {1} of what it counts and the model reads right",
        form=".0f",
        scale=100,
    ),
    Headline(
        claim="lower-s",
        says="Some projection lowers Strength, the stereotype in predictions",
        sees="by {0} {1}",
        form="z.3f",
    ),
    Headline(
        claim="lower-d",
        says="Some lowers Distance, the influence of gender",
        sees="by {0} {1}",
        form="z.3f",
    ),
    Headline(
        claim="eta-higher",
        says="Some makes inference fairer, accuracy kept",
        sees="by {0} {1}",
    ),
    Headline(
        claim="albert-counter-syntactic",
        says="A counterexample (*The woman worked as a carpenter*) overturns ALBERT's preference",
        sees="the lean becomes {0} {1}",
    ),
    Headline(
        claim="encoders-neutral",
        says="A neutral sentence (*The person worked ...*) overturns BERT's",
        sees="the lean becomes {0} {1}",
    ),
    Headline(
        claim="unrelated-not-overturned",
        says="An unrelated one (*The dog ...*) does not",
        sees="the lean becomes {0} {1}",
    ),
    Headline(
        claim="syntactic-over-semantic",
        says="Form moves ALBERT and RoBERTa more than meaning",
        sees="by {0} {1} more",
    ),
)


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A figure that shows a paper's finding, under the title that a person would give it."""

    paper: str  # its key
    figure: str
    title: str
    shows: str  # what is drawn
    rests_on: dict[str, str]  # what claims have to come to, or the figure's own title is shown
    data: str = ""  # what it is measured on, where every run measures the same
    finding: str = ""  # what the figure's own title has to say


PICTURES = (
    Picture(
        paper="bias_a_head",
        figure="04_curves",
        title="Masking many heads, biased or random, lowers the bias score and breaks the model",
        shows="Bias score and perplexity by number of masked heads",
        rests_on={
            "mask-top3-seat": Outcome.SUPPORTED,
            "mask-all-pppl": Outcome.SUPPORTED,
        },
    ),
    Picture(
        paper="projective",
        figure="07_preferences",
        title="StereoSet counts preferences that a swap of gender does not change",
        shows="Preference before and after the swap",
        rests_on={"ss-twin": Outcome.SUPPORTED},
    ),
    Picture(
        paper="counteracts",
        figure="11_factual",
        title="One counterexample makes four models misgender more queens and kings",
        shows="Share of right pronouns by who was named before",
        rests_on={},
        data="our sentences",
        finding="in 4 of 4 models",
    ),
)


def plain_title(picture: Picture, run: str, finding: str, board: pd.DataFrame) -> str:
    """The title of a picture of a run, while stored records bear it out; else the figure's own."""
    rows = board.set_index("id")
    is_so = picture.finding in finding
    for claim, outcome in picture.rests_on.items():
        is_so = is_so and run in rows and rows.loc[claim, run].kind == outcome
    return picture.title if is_so else finding


def table(folders: dict[str, Path] | None = None) -> pd.DataFrame:
    """A row per headline: paper (its key), id, says, outcome, reason, seen, models, run, real (what
    it comes to on real text, where that is another run), published, sure, why.
    """
    folders = folders or results.runs()
    tests = judged(folders)
    board = scoreboard.board(folders).set_index("id")
    over = retrainings.across(folders)
    rows = []
    for headline in HEADLINES:
        claim = headline.claim
        run = run_of(claim, tests)
        cell = board.loc[claim, run] if run else Cell.of(CLAIMS[claim], [])
        shown = shown_test(claim, tests.get(run, []), cell.kind)
        has_value = shown is not None and shown.outcome in APPLICABLE
        doubts = _doubts(claim, run, board, over) if cell.kind in (*DECIDED, MIXED) else []
        rows.append(
            {
                "paper": CLAIMS[claim].paper,
                "id": claim,
                "says": headline.says,
                "outcome": str(cell.kind),
                "reason": shown.reason if shown else "",
                "seen": headline.seen(shown.estimate) if has_value else "",
                "models": ", ".join(shown.models) if shown else "",
                "run": "" if CLAIMS[claim].on_any_data or not run else BUNDLED[run],
                "real": on_real_text(headline, tests, board) if run != REAL else "",
                "published": published(headline, tests),
                "sure": _sure(cell.kind, doubts),
                "why": _in_words(doubts),
            }
        )
    return pd.DataFrame(rows)


def run_of(claim: str, tests: dict[str, list[Verdict]]) -> str:
    """The first run of bundled models on the board in which a claim is applicable, or else one that
    tests it.
    """
    on_board = [run for run in BUNDLED if scoreboard.tests_any(tests.get(run, []))]
    for group in (APPLICABLE, tuple(Outcome)):
        for run in on_board:
            if any(one.claim == claim and one.outcome in group for one in tests[run]):
                return run
    return ""


def shown_test(claim: str, tests: list[Verdict], kind: str) -> Verdict | None:
    """The test whose number is told: the first of the main variant that came to what the claim
    did, or that is applicable.
    """
    mine = verdict.main_tests(CLAIMS[claim], [one for one in tests if one.claim == claim])
    for group in ((kind,), APPLICABLE, tuple(Outcome)):
        for one in mine:
            if one.outcome in group:
                return one
    return None


def on_real_text(headline: Headline, tests: dict[str, list[Verdict]], board: pd.DataFrame) -> str:
    """Supported: 42 % [33, 51]; "" where it was not run, or the data set is no part of the test."""
    claim = headline.claim
    if CLAIMS[claim].on_any_data or REAL not in board:
        return ""
    kind = board.loc[claim, REAL].kind
    shown = shown_test(claim, tests[REAL], kind)
    if shown is None:
        return ""
    seen = f": {_bare(headline).seen(shown.estimate)}" if shown.outcome in APPLICABLE else ""
    return str(kind).capitalize() + seen


def published(headline: Headline, tests: dict[str, list[Verdict]]) -> str:
    """What published models say of it: from which number to which, and how many tests came to what;
    "" where none was applicable.
    """
    found = _of_published(headline.claim, tests)
    measured = [one.estimate for one in found if not np.isnan(one.estimate.value)]
    if not measured:
        return ""
    bare = _bare(headline)
    counts = published_counts(headline.claim, tests)
    if len(found) == 1:
        (only,) = found
        return f"{bare.seen(only.estimate)} in {', '.join(only.models)}; {counts}"
    return f"{bare.seen_in(measured)}; tests: {counts}"


def _bare(headline: Headline) -> Headline:
    """The same from value to interval: words and unit stand beside."""
    start, end = headline.sees.index("{0}"), headline.sees.index("{1}") + len("{1}")
    return replace(headline, sees=headline.sees[start:end])


def published_counts(claim: str, tests: dict[str, list[Verdict]]) -> str:
    """2 supported, 1 contradicted"""
    outcomes = [str(one.outcome) for one in _of_published(claim, tests)]
    return ", ".join(f"{outcomes.count(kind)} {kind}" for kind in dict.fromkeys(outcomes))


def _of_published(claim: str, tests: dict[str, list[Verdict]]) -> list[Verdict]:
    """The applicable tests of a claim on published models, in the main variant.

    A run of one more model has its companion's tests again: each counts once.
    """
    found = {}
    for run, of_run in tests.items():
        if is_published(run):
            mine = [one for one in of_run if one.claim == claim]
            for one in verdict.main_tests(CLAIMS[claim], mine):
                found.setdefault((one.on, one.variant, *one.models), one)
    return [one for one in found.values() if one.outcome in APPLICABLE and one.estimate is not None]


def _doubts(claim: str, run: str, board: pd.DataFrame, over: pd.DataFrame) -> list[tuple[str, str]]:
    """Why an outcome may not last, what and where it shows: each is a step down."""
    cell = board.loc[claim, run]
    doubts = []
    for other in BUNDLED:
        if other == run or other not in board or CLAIMS[claim].on_any_data:
            continue
        there = board.loc[claim, other].kind
        if there in (*APPLICABLE, MIXED) and not verdict.alike(there, cell.kind):
            doubts.append((there, f"on {BUNDLED[other]}"))
    if "depends on the variant" in cell:
        doubts.append(("depends on the variant", ""))
    if cell.kind == Outcome.SUPPORTED and NO_WORKING_CONTROL in cell:
        doubts.append((NO_WORKING_CONTROL, ""))
    again = over[over["id"] == claim] if len(over) else over
    if not len(again):
        doubts.append(("one training", ""))
    elif not verdict.alike(again["outcome"].iloc[0], cell.kind):
        doubts.append((again["outcome"].iloc[0], "over retrainings"))
    return doubts


def _in_words(doubts: list[tuple[str, str]]) -> str:
    """inconclusive on our sentences and over retrainings; one training"""
    places = {}
    for what, where in doubts:
        places.setdefault(str(what), []).append(where)
    return "; ".join(f"{what} {' and '.join(where)}".strip() for what, where in places.items())


def _sure(kind: str, doubts: list[tuple[str, str]]) -> str:
    """high, medium or low, of what is decided."""
    if kind not in (*DECIDED, MIXED):
        return ""
    return STEPS[min(len(doubts), len(STEPS) - 1)]


# ---- for README
# What stands beside what we see, where there is any.
BESIDE = {"real": "Real text", "published": "Published models (our sentences)"}


def as_markdown(folders: dict[str, Path] | None = None) -> str:
    """A table of four lines for each paper."""
    rows = table(folders)
    parts = []
    for paper in PAPERS.values():
        of_paper = rows[rows["paper"] == paper.key]
        if len(of_paper):
            parts.append(_paper_in_markdown(paper.title, of_paper))
    return "\n\n".join(parts)


def _paper_in_markdown(title: str, rows: pd.DataFrame) -> str:
    """A table whose head names the models and data of most lines; the others name what of their
    own differs.
    """
    made_from = rows.apply(_made_from, axis=1)
    usual = made_from.mode().iloc[0]
    beside = [name for name in BESIDE if (rows[name] != "").any()]
    heads = [f"*{title}* says", f"We see ({', '.join(usual)})", *map(BESIDE.get, beside), "Sure?"]
    lines = [heads, ["---"] * len(heads)]
    for row, own in zip(rows.to_dict("records"), made_from, strict=True):
        said = f"{row['outcome'].capitalize()}: {row['seen'] or row['reason']}"
        differs = [part for part in own if part not in usual]
        if differs:
            said += f" ({', '.join(differs)})"
        lines.append([row["says"], said, *(row[name] for name in beside), sure_in_words(row)])
    return "\n".join(f"|{'|'.join(cells)}|" for cells in lines)


def _made_from(row: pd.Series) -> tuple[str, ...]:
    """The models and the data of a line."""
    return tuple(filter(None, (*row["models"].split(", "), row["run"])))


def sure_in_words(row: dict) -> str:
    """medium: no working control"""
    if not row["sure"]:
        return ""
    return f"{row['sure']}: {row['why']}" if row["why"] else row["sure"]
