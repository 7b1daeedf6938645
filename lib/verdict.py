"""What a claim of a paper is, and the one place that decides whether it holds. Nothing else spells a verdict.

    FEW = Claim("heads-few", "bias_a_head", "5.1", "Few heads have any effect", side=Side.BELOW, threshold=.5)
    judge(FEW, Estimate(.25, .18, .33), on="mini-bert, gender", found="25 % of 144 heads")

A test measures an estimand as an `Estimate`; the claim says on which side of which threshold it has to lie. The result
is a `Verdict`, kept unrounded in figures/<run>/claims/NN.json. Tables, board and README are made from these records.
"""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from enum import StrEnum
from pathlib import Path

from lib import CompanionError
from lib.engine import files
from lib.engine.stats import Estimate

PAPERS = {"bias_a_head": "Bias A-head", "projective_methods": "Projective Methods", "counteracts": "Counteracts"}


class Outcome(StrEnum):
    """Of a claim, tested on one thing."""

    HOLDS = "holds"
    FAILS = "fails"
    UNDECIDED = "undecided"
    NO_CASE = "no case"      # a gate is shut: what the claim is about is not there
    NOT_RUN = "not run"


DECIDED = (Outcome.HOLDS, Outcome.FAILS)
IN_PART = "in part"                  # of a claim tested on several things that do not agree
UNTESTABLE = "cannot be tested"      # of a claim that this companion has no test for
CHANCE = "within chance"


class Side(StrEnum):
    """Where the estimand lies if the claim is true."""

    ABOVE = ">"
    AT_LEAST = ">="
    BELOW = "<"
    AT_MOST = "<="
    WITHIN = "within"        # of the claim's margin around its threshold: for claims that there is no effect

    def has(self, value: float, threshold: float, margin: float = 0.0) -> bool:
        """Whether a value lies on this side. nan lies on none."""
        return {Side.ABOVE: value > threshold, Side.AT_LEAST: value >= threshold, Side.BELOW: value < threshold,
                Side.AT_MOST: value <= threshold, Side.WITHIN: abs(value - threshold) <= margin}[self]


class Rule(StrEnum):
    """How an estimate decides a claim. Under either rule one that is no number (nan) leaves it undecided."""

    VALUE = "value"          # its side decides, and an interval that includes the threshold is "within chance"
    INTERVAL = "interval"    # the whole 95 % interval has to lie on one side; otherwise the claim is undecided


@dataclass(frozen=True)
class Claim:
    """One claim of a paper, and what would bear it out."""

    id: str
    paper: str              # a key of PAPERS
    where: str              # the section, figure or table that makes it
    says: str               # in our words
    notebook: str = ""      # the one that tests it
    figure: str = ""        # the picture behind it
    short: str = ""         # how the notebook's own table names it
    side: Side = Side.ABOVE
    threshold: float = 0.0
    margin: float = 0.0     # of Side.WITHIN
    rule: Rule = Rule.VALUE
    untestable: str = ""    # why no test of it is possible here


@dataclass(frozen=True)
class Gate:
    """What has to be there before a claim can be judged at all."""

    name: str
    is_open: bool
    why: str                # what is seen, shown where the gate is shut


@dataclass(frozen=True)
class Control:
    """The same estimand under an intervention of equal size that has no reason to act."""

    name: str
    estimate: Estimate


@dataclass(frozen=True)
class Verdict:
    """What was found of a claim on one thing: a model, a bias, a reading."""

    claim: str                          # its id
    outcome: Outcome
    on: str = ""                        # what it was tested on
    found: str = ""                     # in words
    reason: str = ""                    # within chance, or why there is no case or no run
    estimate: Estimate | None = None
    threshold: float | None = None
    reading: str = ""                   # which of several readings of the paper
    control: Control | None = None
    models: list[str] = field(default_factory=list)  # whose weights it speaks of
    remark: str = ""                    # said after the verdict and its reason: which part of the data decided it

    def __str__(self):
        return (f"{self.outcome} ({self.reason})" if self.reason else str(self.outcome)) + (
            f", {self.remark}" if self.remark else "")

    @property
    def within_chance(self) -> bool:
        return self.reason == CHANCE


def judge(claim: Claim, estimate: Estimate | float | bool, on: str = "", found: str = "", *,
          threshold: float | None = None, gates: Sequence[Gate] = (), control: Control | None = None,
          redrawn: float | None = None, ignore_gates: bool = False, **about) -> Verdict:
    """Whether an estimate bears a claim out; a float has no interval, True and False are 1 and 0.

    threshold  in place of the claim's own, where it depends on the data (the number of layers, say)
    gates      each has to be open, unless `ignore_gates`: models that cannot have the effect are judged without
    control    the estimate has to lie on the claim's side of the control's value too
    redrawn    the share of bootstrap samples in which the claim is met, in place of an interval
    about      further fields of the Verdict: reading, models
    """
    if not isinstance(estimate, Estimate):
        estimate = Estimate(float(estimate))
    threshold = claim.threshold if threshold is None else threshold
    about |= dict(on=on, found=found, estimate=estimate, threshold=threshold, control=control)
    shut = [gate for gate in gates if not gate.is_open]
    if shut and not ignore_gates:
        return Verdict(claim.id, Outcome.NO_CASE, reason=shut[0].why, **about)
    met = _met(claim, estimate, threshold)
    if redrawn is not None and not math.isnan(estimate.value):
        met = None if .025 < redrawn < .975 else redrawn >= .975
    if claim.rule == Rule.VALUE and not math.isnan(estimate.value):
        about["reason"] = CHANCE if met is None else ""
        limits = [threshold] + ([control.estimate.value] if control else [])
        met = all(claim.side.has(estimate.value, limit, claim.margin) for limit in limits)
    elif control is not None and met:
        met = _met(claim, estimate, control.estimate.value)
    return Verdict(claim.id, {True: Outcome.HOLDS, False: Outcome.FAILS, None: Outcome.UNDECIDED}[met], **about)


def _met(claim: Claim, estimate: Estimate, threshold: float) -> bool | None:
    """Whether the interval lies on the claim's side (True), on the other (False), or on both (None)."""
    if math.isnan(estimate.value):
        return None
    if not estimate.has_interval or estimate.low == estimate.high:
        return claim.side.has(estimate.value, threshold, claim.margin)
    if claim.side == Side.WITHIN:
        inside = [claim.side.has(end, threshold, claim.margin) for end in (estimate.low, estimate.high)]
        one_side = estimate.low > threshold or estimate.high < threshold
        return True if all(inside) else False if one_side and not any(inside) else None
    if estimate.low <= threshold <= estimate.high:
        return None
    return claim.side.has(estimate.value, threshold)


def not_run(claim: Claim, why: str, on: str = "", **about) -> Verdict:
    """A claim that was not tested, and why."""
    return Verdict(claim.id, Outcome.NOT_RUN, on=on, reason=why, **about)


def by_id(claims: Iterable[Claim]) -> dict[str, Claim]:
    """Claims by id, each of which has to be new."""
    known = {}
    for claim in claims:
        if claim.id in known:
            raise CompanionError(f"Two claims are called {claim.id}: give one of them another id.")
        known[claim.id] = claim
    return known


def combined(verdicts: Sequence[Verdict]) -> str:
    """One word for a claim tested on several things: holds or fails where all do, otherwise "in part (n of m)"."""
    decided = [verdict for verdict in verdicts if verdict.outcome in DECIDED]
    if not decided:
        outcomes = {verdict.outcome for verdict in verdicts}
        return str(next((kind for kind in (Outcome.UNDECIDED, Outcome.NO_CASE) if kind in outcomes), Outcome.NOT_RUN))
    held = sum(verdict.outcome == Outcome.HOLDS for verdict in decided)
    if 0 < held < len(decided):
        return f"{IN_PART} ({held} of {len(decided)})"
    chance = f" ({CHANCE})" if any(CHANCE in verdict.reason for verdict in decided) else ""
    return str(decided[0].outcome) + chance


# ---- one record per verdict, kept for the board

def write(path: Path, verdicts: Sequence[Verdict]):
    """Keep the verdicts of one notebook, whole or not at all, in a form that a person can read."""
    rows = [_plain(asdict(verdict)) for verdict in verdicts]
    files.replace(path, (json.dumps(rows, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode())


def read(path: Path) -> list[Verdict]:
    """What `write` kept."""
    try:
        return [_verdict(row) for row in json.loads(path.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        raise CompanionError(f"{path} is missing, damaged or no list of verdicts: restore it with git, or run its "
                             "notebook again.") from None


def _plain(value):
    """What JSON can hold: nan and infinity as text, and nothing that is not known."""
    if isinstance(value, dict):
        plain = {key: _plain(inner) for key, inner in value.items()}
        return {key: inner for key, inner in plain.items() if inner is not None and inner != "" and inner != []}
    value = value.item() if hasattr(value, "item") else value  # a number of numpy's
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _verdict(row: dict) -> Verdict:
    def estimate(kept: dict) -> Estimate:
        return Estimate(*(float(kept[end]) for end in ("value", "low", "high")), kept["n"], kept.get("unit", ""))

    parts = {"outcome": Outcome, "threshold": float, "estimate": estimate,
             "control": lambda kept: Control(kept.get("name", ""), estimate(kept["estimate"]))}
    return Verdict(**{key: parts[key](value) if key in parts else value for key, value in row.items()})


# ---- one rule for printed numbers

class Match(StrEnum):
    """Of a number of ours, held against a printed one."""

    MATCHES = "matches"
    WITHIN_INTERVAL = "within interval"
    DIFFERS = "differs"
    OTHER_MODEL = "other model"
    NOT_RUN = "not run"


def match(printed: str | float | None, ours: Estimate | float | None, same_model: bool,
          why: str = "a choice that the paper leaves open", missing: str = "not measured") -> str:
    """Whether a number of ours is the printed one, to the printed digits; with the reason where it is not.

    printed     digits as printed: half a unit of the last one is what rounding can explain; None or nan: lost
    same_model  whether ours is the paper's model on the paper's data; another model's number is never a match
    """
    if printed is None or printed != printed:
        return f"{Match.NOT_RUN} (the printed number is lost)"
    value = ours.value if isinstance(ours, Estimate) else ours
    if value is None or value != value:
        return f"{Match.NOT_RUN} ({missing})"
    if not same_model:
        return str(Match.OTHER_MODEL)
    if abs(value - float(printed)) <= half_unit(printed):
        return str(Match.MATCHES)
    if isinstance(ours, Estimate) and ours.low <= float(printed) <= ours.high:
        return str(Match.WITHIN_INTERVAL)
    return f"{Match.DIFFERS}: {why}"


def half_unit(printed: str | float) -> float:
    """Half a unit of the last printed digit, and a little for floating point."""
    digits = Decimal(printed) if isinstance(printed, str) else Decimal(repr(float(printed))).normalize()
    return .5 * 10.0 ** min(digits.as_tuple().exponent, 0) + 1e-9
