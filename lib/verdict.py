"""What a claim of a paper is, and the one place that decides whether it is supported.

A test measures an estimand as an `Estimate`; the claim says on which side of which threshold it has
to lie. The whole 95 % interval decides: on the claim's side the claim is supported, on the other it
is contradicted, on both it is inconclusive. The result is a `Verdict`, kept unrounded in
figures/<run>/claims/NN.json. Tables, board and README are made from these records.

    judge(FEW_HEADS, Estimate(0.25, 0.18, 0.33, n=144), on="mini-bert, gender")
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
from lib.engine.stats import Estimate, settled

# Runs of models that cannot have the effect: the folders figures/null and figures/balanced.
UNTRAINED = "null"  # networks with random weights
GENDER_SWAPPED = "balanced"  # a BERT trained on text whose gender words were swapped at random
CONTROLS = (UNTRAINED, GENDER_SWAPPED)


@dataclass(frozen=True)
class Paper:
    """What pages say of a paper. Its folder lib/<key> has one as PAPER, and its claims in
    claims.py.
    """

    key: str  # its folder in lib, its file data/paper/<key>.csv
    title: str  # as readers see it
    authors: str
    address: str
    question: str
    notebooks: tuple[str, ...]  # their numbers
    deciding: tuple[str, ...]  # ids of claims: the first answers the question
    figure: str  # the one that shows it best
    # numbers that the text prints once more: {(table, row, column): where it stands first}
    repeated: dict[tuple, tuple] = field(default_factory=dict)


class Outcome(StrEnum):
    """What one test of a claim came to: a claim on one model, one bias, one analysis variant."""

    SUPPORTED = "supported"
    CONTRADICTED = "contradicted"
    INCONCLUSIVE = "inconclusive"
    NOT_APPLICABLE = "not applicable"  # a precondition is not met
    NOT_RUN = "not run"


# What a claim can come to besides, over several tests.
MIXED = "mixed"  # some tests support it, others do not
MATCHED = "matched by controls"  # models that cannot have the effect show it too
NO_EFFECT = "no effect"  # measured, and too small to matter; no rule gives it yet
NOT_TESTABLE = "not testable"  # this companion has no test for it

# The outcomes of tests whose preconditions are met.
APPLICABLE = (Outcome.SUPPORTED, Outcome.CONTRADICTED, Outcome.INCONCLUSIVE)

# Why an estimate decides nothing.
NO_VALUE = "no value"
NO_INTERVAL = "no interval"


class Side(StrEnum):
    """Where the estimand lies if the claim is true."""

    ABOVE = ">"
    AT_LEAST = ">="
    BELOW = "<"
    AT_MOST = "<="
    WITHIN = "within"  # a margin around the threshold: for claims that there is no effect

    def has(self, value: float, threshold: float, margin: float = 0.0) -> bool:
        """Whether a value lies on this side; nan lies on none.

        The distance is rounded to six decimals: what is at the threshold but for rounding is at it.
        """
        distance = settled(value - threshold)
        match self:
            case Side.ABOVE:
                return bool(distance > 0)
            case Side.AT_LEAST:
                return bool(distance >= 0)
            case Side.BELOW:
                return bool(distance < 0)
            case Side.AT_MOST:
                return bool(distance <= 0)
            case Side.WITHIN:
                return bool(settled(abs(distance) - margin) <= 0)

    @property
    def strict(self) -> "Side":
        """The same side without the threshold itself: what a difference to a control has
        to meet.
        """
        match self:
            case Side.AT_LEAST:
                return Side.ABOVE
            case Side.AT_MOST:
                return Side.BELOW
            case _:
                return self


@dataclass(frozen=True)
class Claim:
    """One claim of a paper, and what would support it."""

    id: str
    paper: str  # its key
    where: str  # the section, figure or table that makes it
    says: str  # in our words
    notebook: str = ""  # the one that tests it
    figure: str = ""  # the picture behind it
    short: str = ""  # how the notebook's own table names it
    side: Side = Side.ABOVE
    threshold: float = 0.0
    margin: float = 0.0  # of Side.WITHIN
    exact: bool = False  # a count over fixed things: a value without an interval decides
    controls: tuple[str, ...] = (
        UNTRAINED,
    )  # runs that must not support it: it would be no stereotype
    about_bert: bool = False  # about a method with BERT, not about gender: retrainings test it too
    not_testable: str = ""  # why no test of it is possible here
    threshold_from_data: bool = False  # its test has its own: the number of layers, say


@dataclass(frozen=True)
class Precondition:
    """What has to be there before a claim can be judged at all."""

    name: str
    is_met: bool
    why: str  # what is seen instead, shown where it is not met


@dataclass(frozen=True)
class Control:
    """The same quantity after an arbitrary intervention of equal size, such as random heads."""

    name: str  # random heads, random directions
    estimate: Estimate
    difference: Estimate  # what is claimed minus the control, paired


@dataclass(frozen=True)
class Verdict:
    """What one test found: a claim on one model, one bias, one analysis variant."""

    claim: str  # its id
    outcome: Outcome
    on: str = ""  # what it was tested on
    found: str = ""  # in words
    reason: str = ""  # why it is inconclusive, not applicable or not run
    estimate: Estimate | None = None
    threshold: float | None = None
    variant: str = ""  # which of several ways to read the paper
    samples_met: float | None = None  # the share of bootstrap samples in which a count is met
    control: Control | None = None
    preconditions: dict[str, bool] = field(default_factory=dict)  # by name, whether met
    models: list[str] = field(default_factory=list)  # whose weights it is about
    remark: str = ""  # said after outcome and reason: which part of the data decided

    def __str__(self):
        text = str(self.outcome)
        if self.reason:
            text += f" ({self.reason})"
        if self.remark:
            text += f", {self.remark}"
        return text


def judge(
    claim: Claim,
    estimate: Estimate | float | bool,
    *,
    threshold: float | None = None,
    preconditions: Sequence[Precondition] = (),
    control: Control | None = None,
    samples_met: float | None = None,
    ignore_preconditions: bool = False,
    **about,
) -> Verdict:
    """Whether an estimate supports a claim; a float has no interval, True and False are 1 and 0.

    threshold             in place of the claim's own, where it depends on the data (the number of
                          layers, say)
    preconditions         each has to be met, unless `ignore_preconditions`: control models are
                          judged without
    control               the difference to it has to lie on the claim's side of 0 too
    samples_met           the share of bootstrap samples in which a count is met, in place of an
                          interval: .975 or more supports, .025 or less contradicts
    about                 further fields of the Verdict: on, found, variant, models, remark
    """
    if not isinstance(estimate, Estimate):
        estimate = Estimate(float(estimate))
    if threshold is None:
        threshold = claim.threshold
    about |= {
        "estimate": estimate,
        "threshold": threshold,
        "control": control,
        "samples_met": samples_met,
        "preconditions": _met_by_name(preconditions),
    }
    unmet = [one for one in preconditions if not one.is_met]
    if unmet and not ignore_preconditions:
        return Verdict(claim.id, Outcome.NOT_APPLICABLE, reason=unmet[0].why, **about)
    outcome, reason = _decided(claim, estimate, threshold, samples_met)
    if outcome == Outcome.SUPPORTED and control is not None:
        side = claim.side.strict
        if _outcome(side, control.difference, 0.0, claim.margin) != Outcome.SUPPORTED:
            outcome, reason = Outcome.INCONCLUSIVE, f"no more than {control.name}"
    return Verdict(claim.id, outcome, reason=reason, **about)


def _met_by_name(preconditions: Sequence[Precondition]) -> dict[str, bool]:
    """By name, whether met; of several with one name, say of two models, whether all are."""
    met = {}
    for one in preconditions:
        met[one.name] = met.get(one.name, True) and bool(one.is_met)
    return met


def _decided(
    claim: Claim, estimate: Estimate, threshold: float, samples_met: float | None
) -> tuple[Outcome, str]:
    """(outcome, reason), before the control is looked at; a reason where an interval is missing."""
    if math.isnan(estimate.value):
        return Outcome.INCONCLUSIVE, NO_VALUE
    if samples_met is not None:
        if samples_met >= 0.975:
            return Outcome.SUPPORTED, ""
        return (Outcome.CONTRADICTED if samples_met <= 0.025 else Outcome.INCONCLUSIVE), ""
    if estimate.has_interval:
        return _outcome(claim.side, estimate, threshold, claim.margin), ""
    if claim.exact:
        is_met = claim.side.has(estimate.value, threshold, claim.margin)
        return (Outcome.SUPPORTED if is_met else Outcome.CONTRADICTED), ""
    return Outcome.INCONCLUSIVE, NO_INTERVAL


def _outcome(side: Side, estimate: Estimate, threshold: float, margin: float) -> Outcome:
    """By where the whole interval lies: on this side, on the other, or on both."""
    if not estimate.has_interval:
        return Outcome.INCONCLUSIVE
    has_low = side.has(estimate.low, threshold, margin)
    has_high = side.has(estimate.high, threshold, margin)
    if has_low and has_high:
        return Outcome.SUPPORTED
    is_around = side == Side.WITHIN and estimate.low < threshold < estimate.high
    if has_low or has_high or is_around:
        return Outcome.INCONCLUSIVE
    return Outcome.CONTRADICTED


def not_run(claim: Claim, why: str, on: str = "", **about) -> Verdict:
    return Verdict(claim.id, Outcome.NOT_RUN, on=on, reason=why, **about)


def by_id(claims: Iterable[Claim]) -> dict[str, Claim]:
    """Claims by id, each of which has to be new."""
    known = {}
    for claim in claims:
        if claim.id in known:
            raise CompanionError(f"Two claims are called {claim.id}: give one of them another id.")
        known[claim.id] = claim
    return known


# ---- several tests of one claim
def kind(verdicts: Sequence[Verdict]) -> str:
    """What a claim comes to over several tests.

    Supported or contradicted where all applicable tests are; mixed where some support it;
    inconclusive where none does and not all contradict it; not applicable or not run where no test
    is applicable.
    """
    outcomes = set(_counted(verdicts))
    applicable = outcomes & set(APPLICABLE)
    if len(applicable) == 1:
        return str(applicable.pop())
    if applicable:
        return MIXED if Outcome.SUPPORTED in applicable else str(Outcome.INCONCLUSIVE)
    if Outcome.NOT_APPLICABLE in outcomes:
        return str(Outcome.NOT_APPLICABLE)
    return str(Outcome.NOT_RUN)


def combined(verdicts: Sequence[Verdict]) -> str:
    """`kind`, with counts where it is mixed: "mixed (2 of 3)" tests support the claim."""
    outcomes = _counted(verdicts)
    supported = outcomes.count(Outcome.SUPPORTED)
    applicable = sum(outcome in APPLICABLE for outcome in outcomes)
    if 0 < supported < applicable:
        return f"{MIXED} ({supported} of {applicable})"
    return kind(verdicts)


def _counted(verdicts: Sequence[Verdict]) -> list[Outcome]:
    """The outcomes, with variants that are not applicable counted as inconclusive where another
    variant of the same test is applicable: leaving a variant out must not make a claim supported.
    """
    tested = {verdict.on for verdict in verdicts if verdict.outcome in APPLICABLE}
    outcomes = []
    for verdict in verdicts:
        is_left_out = verdict.outcome == Outcome.NOT_APPLICABLE and verdict.on in tested
        outcomes.append(Outcome.INCONCLUSIVE if is_left_out else verdict.outcome)
    return outcomes


# ---- one record per verdict, kept for the board
def write(path: Path, verdicts: Sequence[Verdict]):
    """Keep the verdicts of one notebook, whole or not at all, in a form that a person can read."""
    rows = [_plain(asdict(verdict)) for verdict in verdicts]
    text = json.dumps(rows, indent=1, ensure_ascii=False, allow_nan=False)
    files.replace(path, f"{text}\n".encode())


def read(path: Path) -> list[Verdict]:
    try:
        return [_verdict(row) for row in json.loads(path.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        raise CompanionError(
            f"{path} is missing, damaged or no list of verdicts: restore it with git, or run its "
            "notebook again."
        ) from None


def _plain(value):
    """What JSON can hold: nan and infinity as text, and no field that is empty."""
    if isinstance(value, dict):
        plain = {key: _plain(inner) for key, inner in value.items()}
        return {key: inner for key, inner in plain.items() if inner not in (None, "", [], {})}
    if hasattr(value, "item"):  # a number of NumPy's
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _verdict(row: dict) -> Verdict:
    fields = dict(row)
    fields["outcome"] = Outcome(row["outcome"])
    for name in ("threshold", "samples_met"):
        if name in row:
            fields[name] = float(row[name])
    if "estimate" in row:
        fields["estimate"] = _estimate(row["estimate"])
    if "control" in row:
        kept = row["control"]
        fields["control"] = Control(
            name=kept.get("name", ""),
            estimate=_estimate(kept["estimate"]),
            difference=_estimate(kept["difference"]),
        )
    return Verdict(**fields)


def _estimate(kept: dict) -> Estimate:
    return Estimate(
        value=float(kept["value"]),
        low=float(kept["low"]),
        high=float(kept["high"]),
        n=kept["n"],
        unit=kept.get("unit", ""),
    )


# ---- one rule for printed numbers
class Match(StrEnum):
    """What a number of ours is, held against a printed one."""

    MATCHES = "matches"
    WITHIN_INTERVAL = "within interval"
    DIFFERS = "differs"
    OTHER_MODEL = "not comparable"  # ours is of another model than the paper's
    NOT_RUN = "not run"


def match(
    printed: str | float | None,
    ours: Estimate | float | None,
    same_model: bool,
    why: str = "a choice that the paper leaves open",
    missing: str = "not measured",
) -> str:
    """Whether a number of ours is the printed one, to the printed digits; with the reason where
    not.

    printed     digits as printed: half a unit of the last one is what rounding can explain; None or
                nan where the number is lost
    same_model  whether ours is the paper's model on the paper's data; another model's number is
                never called a match
    """
    if printed is None or printed != printed:
        return f"{Match.NOT_RUN} (the printed number is lost)"
    value = ours.value if isinstance(ours, Estimate) else ours
    if value is None or value != value:
        return f"{Match.NOT_RUN} ({missing})"
    if not same_model:
        return str(Match.OTHER_MODEL)
    if abs(value - float(printed)) <= _half_unit(printed):
        return str(Match.MATCHES)
    if isinstance(ours, Estimate) and ours.low <= float(printed) <= ours.high:
        return str(Match.WITHIN_INTERVAL)
    return f"{Match.DIFFERS}: {why}"


def _half_unit(printed: str | float) -> float:
    """Half a unit of the last printed digit, and a little for floating point."""
    if isinstance(printed, str):
        digits = Decimal(printed)
    else:
        digits = Decimal(repr(float(printed))).normalize()
    return 0.5 * 10.0 ** min(digits.as_tuple().exponent, 0) + 1e-9
