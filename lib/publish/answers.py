"""The article's three answers, in words, from stored tables: a headline and a few sentences each.

A number is taken from the run nearest to the papers that has stored it, and every sentence carries
its interval and says which model and data it is of. What no run has stored, no sentence is about.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from lib.engine.stats import Estimate
from lib.publish.papers import CLAIMS, run_name
from lib.verdict import Outcome, Verdict, main_tests

UNRELATED = 0.3  # rank correlations of head scores up to here: retrainings pick other heads
COUNTER = "target counter syntactic similar"
CONFIRMING = "target syntactic similar"
OUT_OF_PLACE = "unrelated"
NOTHING = "Not measured in the runs shown."
FALLS = (Outcome.SUPPORTED, Outcome.MATCHED)  # a projection lowers the measure; controls may too
# What stands behind how far a measure falls, where its claim is not simply supported.
BUT = {
    Outcome.MATCHED: ", and under controls by half of that or more",
    Outcome.NOT_APPLICABLE: ", but it was not above its opposite before",
}


@dataclass(frozen=True)
class Sentence:
    """Something that was found, and below it the intervals and what they are of."""

    text: str
    beside: str = ""


@dataclass(frozen=True)
class Answer:
    """What the article's first screen says to a paper's question."""

    headline: str
    sentences: list[Sentence]


class Stored:
    """The tables and judged tests of some runs, nearest to the papers first."""

    def __init__(self, folders: dict[str, Path], tests: dict[str, list[Verdict]]):
        self.folders = folders
        self.tests = tests

    def table(self, name: str) -> tuple[str, pd.DataFrame]:
        """(the first run that has a table, its rows as text); ("", no rows) where none has."""
        for run, folder in self.folders.items():
            try:
                rows = pd.read_csv(folder / f"{name}.csv", dtype=str, keep_default_na=False)
            except (OSError, ValueError):  # there is none, or a damaged one
                continue
            if len(rows):
                return run, rows
        return "", pd.DataFrame()

    def test(self, claim: str, on: str = "") -> tuple[str, Verdict | None]:
        """(the first run that has a value for a claim, its test): of the main variant, as the board
        counts it.
        """
        for run in self.folders:
            of_run = self.tests.get(run, [])
            mine = [one for one in of_run if one.claim == claim and one.on.startswith(on)]
            for one in main_tests(CLAIMS[claim], mine):
                if one.has_interval:
                    return run, one
        return "", None


def _answer(headline: str, found: Iterator[Sentence]) -> Answer:
    sentences = list(found)
    return Answer(headline if sentences else NOTHING, sentences)


# ---- Bias A-head
def heads(stored: Stored) -> Answer:
    """Which heads? Those that carry the score, what masking them does, whether they come back."""
    _, across = stored.table("12_heads_across")
    _, carried = stored.test("heads-small-set", "mini-bert, gender")
    if len(across) and _mean_correlation(across) < UNRELATED:
        headline = "None that we can name."
    elif carried and carried.outcome == Outcome.SUPPORTED:
        headline = "A tenth of them, for the most part."
    elif carried and carried.outcome == Outcome.CONTRADICTED:
        headline = "Many, each a little."
    else:
        headline = "That cannot be told here."
    return _answer(headline, _of_heads(stored))


def _of_heads(stored: Stored) -> Iterator[Sentence]:
    run, carried = stored.test("heads-small-set", "mini-bert, gender")
    if carried:
        share = carried.estimate
        yield Sentence(
            f"The top tenth of mini-bert's heads carries {share.value:.0%} of its bias score.",
            f"{_span(share, '.0%')}, {run_name(run)}: {carried.outcome}",
        )
    run, masked = stored.test("mask-top3-seat")
    _, table = stored.table("04_table1")
    if masked and len(table):
        seat = table.set_index("masked")["SEAT"]
        text = f"Masking its top 3 heads moves SEAT from {seat['full']} to {seat['Top-3']}"
        said = ""
        if masked.outcome == Outcome.MATCHED:
            said = "but controls do half of it or more"
        elif masked.outcome == Outcome.SUPPORTED and masked.control:
            said = "random heads do less"
        yield Sentence(
            f"{text}; {said}." if said else f"{text}.",
            f"{masked.estimate:+z.2f}, {run_name(run)}: {masked.outcome}",
        )
    run, across = stored.table("12_heads_across")
    if len(across):
        pairs = across[across["retrainings"] != "mean"]
        n = len({name for pair in pairs["retrainings"] for name in pair.split(", ")})
        within = pairs["heads within layers"].astype(float)
        pick = "unrelated" if _mean_correlation(across) < UNRELATED else "similar"
        yield Sentence(
            f"{_number(n)} retrainings pick {pick} heads.",
            f"rank correlation within layers {_mean_correlation(across):.2f}, "
            f"{within.min():.2f} to {within.max():.2f} in {len(within)} pairs",
        )


def _mean_correlation(across: pd.DataFrame) -> float:
    """Of two retrainings' head scores, within layers, over all pairs."""
    return float(across.set_index("retrainings").loc["mean", "heads within layers"])


# ---- Projective Methods
def projections(stored: Stored) -> Answer:
    """What does projection remove, and what does it cost?"""
    lowered = {}
    for measure, claim in {"S": "lower-s", "D": "lower-d"}.items():
        _, test = stored.test(claim)
        lowered[measure] = test is not None and test.outcome in FALLS
    headlines = {
        (False, True): "Gender, more than stereotype.",
        (True, True): "Gender and stereotype.",
        (True, False): "Stereotype, more than gender.",
        (False, False): "Little that can be measured.",
    }
    return _answer(headlines[lowered["S"], lowered["D"]], _of_projections(stored))


def _of_projections(stored: Stored) -> Iterator[Sentence]:
    run, table = stored.table("08_intervals")
    best = table[table["level"] == "all levels"].set_index("measure") if len(table) else table
    words = {"D": "Distance, how far she and he part,", "S": "Strength, the stereotype,"}
    for measure, name in words.items():
        if measure in best.index:
            _, test = stored.test(f"lower-{measure.lower()}")
            yield _fall(best.loc[measure], name, run, test)
    run, table = stored.table("09_table7")
    if len(table):
        yield from _fairer(table.set_index("model"), run)
    run, table = stored.table("08_factual")
    if len(table):
        yield from _damage(table, best, run)


def _fall(row: pd.Series, name: str, run: str, test: Verdict | None) -> Sentence:
    """How far the best setting, chosen on other data, lowers a measure, in percent of base's; and
    what the test of the claim says beside it.
    """
    fall = _read(row["below base"])
    base = _read(row["judged"]).value + fall.value
    share = Estimate(*(number / base for number in (fall.value, fall.low, fall.high)))
    moved = "does not measurably change"
    if share.is_above():
        moved = f"falls by {share.value:.0%}"
    elif share.is_below():
        moved = f"rises by {-share.value:.0%}"
    beside = f"fall of {share.value:.0%} {_span(share, '.0%')} at the best setting"
    but = BUT.get(test.outcome, "") if test else ""
    return Sentence(f"{name} {moved}{but}.", f"{beside}, chosen on the other half, {run_name(run)}")


def _fairer(table: pd.DataFrame, run: str) -> Iterator[Sentence]:
    """The fairest setting that is viable, and what it costs; none where there is none."""
    viable = table[(table["viable"] != "no") & (table.index != "Base")]
    etas = pd.to_numeric(viable["eta, most"], errors="coerce").dropna()
    if etas.empty:
        return
    chosen = etas.idxmax()
    base = table.loc["Base"]
    cost = 100 * (float(base["SNLI"]) - float(table.loc[chosen, "SNLI"]))
    price = f"for {cost:.1f} points of accuracy" if cost > 0 else "at no accuracy"
    yield Sentence(
        f"Fairness in inference can rise from {float(base['eta, most']):.2f} to "
        f"{etas[chosen]:.2f} {price}.",
        f"{table.loc[chosen, '95 %']}, {chosen}, the fairest that is viable, {run_name(run)}",
    )


def _damage(table: pd.DataFrame, best: pd.DataFrame, run: str) -> Iterator[Sentence]:
    """What a projection does to pronouns that are right by definition."""
    base = _read(table.set_index("model").loc["Base", "right"]).value
    projected = table[table["directions"] == "gender"].set_index("model")
    if projected.empty:
        return
    right = projected["right"].map(lambda text: _read(text).value)
    worst = right.idxmin()
    which = f"The worst of {len(right)} settings"
    for measure, name in {"S": "Strength", "D": "Distance"}.items():
        chosen = best.loc[measure, "chosen"].split(" or ")[0] if measure in best.index else ""
        if chosen in right.index:
            worst = chosen
            which = f"The setting of lowest {name}"
    yield Sentence(
        f"{which} takes right pronouns of queens and kings from {base:.0%} to {right[worst]:.0%}.",
        f"log odds {projected.loc[worst, 'change of log odds']}, {worst}, {run_name(run)}",
    )


# ---- Counteracts
def counterexamples(stored: Stored) -> Answer:
    """Do counterexamples work?"""
    _, flipped = _flipped(stored)
    _, form = stored.test("syntactic-over-semantic")
    if COUNTER not in flipped or OUT_OF_PLACE not in flipped:
        headline = "That cannot be told here."
    elif flipped[COUNTER].low <= flipped[OUT_OF_PLACE].high:
        headline = "No more than any sentence does."
    elif form and form.outcome == Outcome.SUPPORTED:
        headline = "Yes, by repetition."
    else:
        headline = "Yes."
    return _answer(headline, _of_counterexamples(stored))


def _flipped(stored: Stored) -> tuple[str, dict[str, Estimate]]:
    """(run, {kind of sentence: share of preferences flipped}), in the mean of the models and of
    their intervals: the occupations are the same in all.
    """
    run, table = stored.table("11_shares")
    if table.empty:
        return "", {}
    rows = table[table["k"] == "full"]
    found = {}
    for kind, texts in rows.groupby("kind")["overturned"]:
        each = [_read(text) for text in texts]
        means = pd.DataFrame([(one.value, one.low, one.high) for one in each]).mean()
        found[kind] = Estimate(*means)
    return run, found


def _of_counterexamples(stored: Stored) -> Iterator[Sentence]:
    run, flipped = _flipped(stored)
    _, prompts = stored.table("10_table2")
    said = {} if prompts.empty else prompts.set_index("kind")["knowledge"].to_dict()
    for kind in (COUNTER, CONFIRMING):
        if kind in flipped and said.get(kind):
            yield Sentence(
                f"“{said[kind]}” flips the preferred gender in {flipped[kind].value:.0%} of the "
                "occupations.",
                f"{_span(flipped[kind], '.0%')}, mean of the models, {run_name(run)}",
            )
    if OUT_OF_PLACE in flipped and said.get(OUT_OF_PLACE):
        yield Sentence(
            f"“{said[OUT_OF_PLACE]}” does so in {flipped[OUT_OF_PLACE].value:.0%}.",
            f"{_span(flipped[OUT_OF_PLACE], '.0%')}, {run_name(run)}",
        )
    run, facts = stored.table("11_factual_table")
    if len(facts):
        other = facts[facts["named before"] == "the other gender"].set_index("model")
        right = other["right"].astype(float)
        worst = right.idxmin()
        row = other.loc[worst].drop("log2 odds")
        wrong = Estimate(*(1 - float(row[part]) for part in ("right", "high", "low")))
        yield Sentence(
            f"The same kind of sentence makes {1 - right.max():.0%} to {wrong.value:.0%} of the "
            "pronouns of queens and kings wrong.",
            f"{_span(wrong, '.0%')} in the worst model, {worst}, {run_name(run)}",
        )


ANSWERS = {"bias_a_head": heads, "projective": projections, "counteracts": counterexamples}


def of(key: str, stored: Stored) -> Answer | None:
    """The answer to a paper's question; None of a paper that has none here."""
    return ANSWERS[key](stored) if key in ANSWERS else None


# ---- words and numbers
def _read(text: str) -> Estimate:
    """An estimate as tables have it: 0.58, or 0.99 [0.96, 1.00]."""
    return Estimate(*map(float, re.findall(r"[-+]?\d*\.?\d+", text)[:3]))


def _span(estimate: Estimate, digits: str) -> str:
    """The 95 % interval alone: [33%, 51%]."""
    return f"[{estimate.low:{digits}}, {estimate.high:{digits}}]"


def _number(n: int) -> str:
    words = ("No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten")
    return words[n] if n < len(words) else str(n)
