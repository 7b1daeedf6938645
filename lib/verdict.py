"""What a claim of a paper is, and the one place that decides whether it holds. Nothing else spells a verdict.

A test measures an estimand as an `Estimate`; the claim says on which side of which threshold it has to lie, and the
whole 95 % interval decides: on the claim's side it holds, on the other it fails, otherwise it is undecided. The result
is a `Verdict`, kept unrounded in figures/<run>/claims/NN.json. Tables, board and README are made from these records."""

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

PAPERS = {
    "bias_a_head": "Bias A-head",
    "projective_methods": "Projective Methods",
    "counteracts": "Counteracts",
}


class Outcome(StrEnum):
    """Of a claim, tested on one thing."""

    HOLDS = "holds"
    FAILS = "fails"
    UNDECIDED = "undecided"
    NO_CASE = "no case"  # a gate is shut: what the claim is about is not there
    NOT_RUN = "not run"


CASES = (Outcome.HOLDS, Outcome.FAILS, Outcome.UNDECIDED)
IN_PART = "in part"  # of a claim tested on several things that do not agree
UNTESTABLE = "cannot be tested"  # of a claim that this companion has no test for
NO_VALUE, NO_INTERVAL = "no value", "no interval"  # why an estimate decides nothing
CONTROLS = NULL, BALANCED = "null", "balanced"  # runs of models that cannot have the effect


class Side(StrEnum):
    """Where the estimand lies if the claim is true."""

    ABOVE = ">"
    AT_LEAST = ">="
    BELOW = "<"
    AT_MOST = "<="
    WITHIN = (
        "within"  # of the claim's margin around its threshold: for claims that there is no effect
    )

    def has(self, value: float, threshold: float, margin: float = 0.0) -> bool:
        """Whether a value lies on this side. nan lies on none; what lies at the threshold but for rounding is at it."""
        gap = settled(value - threshold)
        return bool(
            {
                Side.ABOVE: gap > 0,
                Side.AT_LEAST: gap >= 0,
                Side.BELOW: gap < 0,
                Side.AT_MOST: gap <= 0,
                Side.WITHIN: settled(abs(gap) - margin) <= 0,
            }[self]
        )


STRICT = {Side.AT_LEAST: Side.ABOVE, Side.AT_MOST: Side.BELOW}  # of a difference to a control


@dataclass(frozen=True)
class Claim:
    """One claim of a paper, and what would bear it out."""

    id: str
    paper: str  # a key of PAPERS
    where: str  # the section, figure or table that makes it
    says: str  # in our words
    notebook: str = ""  # the one that tests it
    figure: str = ""  # the picture behind it
    short: str = ""  # how the notebook's own table names it
    side: Side = Side.ABOVE
    threshold: float = 0.0
    margin: float = 0.0  # of Side.WITHIN
    exact: bool = False  # a count over fixed things, with nothing sampled: a value without an interval decides
    speaks: tuple[str, ...] = (
        NULL,
    )  # of CONTROLS, those that can speak of it: balanced of gender in BERT alone
    of_bert: bool = False  # of a method, not of gender: no case for balanced, but further trainings speak of it too
    untestable: str = ""  # why no test of it is possible here


@dataclass(frozen=True)
class Gate:
    """What has to be there before a claim can be judged at all."""

    name: str
    is_open: bool
    why: str  # what is seen, shown where the gate is shut


@dataclass(frozen=True)
class Control:
    """The same estimand under an intervention of equal size that has no reason to act."""

    name: str  # random heads, random directions
    estimate: Estimate
    difference: Estimate  # what is claimed minus the control, paired


@dataclass(frozen=True)
class Verdict:
    """What was found of a claim on one thing: a model, a bias, a reading."""

    claim: str  # its id
    outcome: Outcome
    on: str = ""  # what it was tested on
    found: str = ""  # in words
    reason: str = ""  # why it is undecided, or why there is no case or no run
    estimate: Estimate | None = None
    threshold: float | None = None
    reading: str = ""  # which of several readings of the paper
    redrawn: float | None = None  # the share of bootstrap samples in which it is met
    control: Control | None = None
    gates: dict[str, bool] = field(default_factory=dict)  # by name, whether open
    models: list[str] = field(default_factory=list)  # whose weights it speaks of
    remark: str = ""  # said after the verdict and its reason: which part of the data decided it

    def __str__(self):
        return f"{self.outcome}{f' ({self.reason})' if self.reason else ''}{f', {self.remark}' if self.remark else ''}"


def judge(
    claim: Claim,
    estimate: Estimate | float | bool,
    on: str = "",
    found: str = "",
    *,
    threshold: float | None = None,
    gates: Sequence[Gate] = (),
    control: Control | None = None,
    redrawn: float | None = None,
    ignore_gates: bool = False,
    **about,
) -> Verdict:
    """Whether an estimate bears a claim out; a float has no interval, True and False are 1 and 0.

    threshold  in place of the claim's own, where it depends on the data (the number of layers, say)
    gates      each has to be open, unless `ignore_gates`: models that cannot have the effect are judged without
    control    the difference to it has to lie on the claim's side of 0 too
    redrawn    the share of bootstrap samples in which a compound count is met, in place of an interval
    about      further fields of the Verdict: reading, models"""
    if not isinstance(estimate, Estimate):
        estimate = Estimate(float(estimate))
    threshold = claim.threshold if threshold is None else threshold
    about |= dict(
        on=on,
        found=found,
        estimate=estimate,
        threshold=threshold,
        control=control,
        redrawn=redrawn,
        gates={gate.name: bool(gate.is_open) for gate in gates},
    )
    shut = [gate for gate in gates if not gate.is_open]
    if shut and not ignore_gates:
        return Verdict(claim.id, Outcome.NO_CASE, reason=shut[0].why, **about)
    reason = ""
    if math.isnan(estimate.value):
        met, reason = None, NO_VALUE
    elif redrawn is not None:
        met = None if 0.025 < redrawn < 0.975 else redrawn >= 0.975
    elif estimate.has_interval:
        met = _met(claim.side, estimate, threshold, claim.margin)
    elif claim.exact:
        met = claim.side.has(estimate.value, threshold, claim.margin)
    else:
        met, reason = None, NO_INTERVAL
    if (
        met
        and control
        and not _met(STRICT.get(claim.side, claim.side), control.difference, 0.0, claim.margin)
    ):
        met, reason = None, f"no more than {control.name}"
    return Verdict(
        claim.id,
        {True: Outcome.HOLDS, False: Outcome.FAILS, None: Outcome.UNDECIDED}[met],
        reason=reason,
        **about,
    )


def _met(side: Side, estimate: Estimate, threshold: float, margin: float) -> bool | None:
    """Whether the whole interval lies on this side (True), on the other (False), or on both (None); None without."""
    on_side = [side.has(end, threshold, margin) for end in (estimate.low, estimate.high)]
    around = (
        side == Side.WITHIN and estimate.low < threshold < estimate.high
    )  # both ends outside, but not the middle
    if not estimate.has_interval or any(on_side) != all(on_side) or around and not any(on_side):
        return None
    return all(on_side)


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


def kind(verdicts: Sequence[Verdict]) -> str:
    """Of a claim tested on several things: holds or fails where all do that have a case, in part where some hold.
    Where none holds and not all fail it is undecided; where none has a case, no case or not run."""
    outcomes = {*_counted(verdicts)}
    cases = outcomes & {*CASES}
    if len(cases) == 1:
        return str(*cases)
    if cases:
        return IN_PART if Outcome.HOLDS in cases else str(Outcome.UNDECIDED)
    return str(Outcome.NO_CASE if Outcome.NO_CASE in outcomes else Outcome.NOT_RUN)


def combined(verdicts: Sequence[Verdict]) -> str:
    """`kind`, with how many hold of those that have a case where it is in part: "in part (2 of 3)"."""
    held, cases = (
        sum(outcome in kinds for outcome in _counted(verdicts))
        for kinds in ([Outcome.HOLDS], CASES)
    )
    return f"{IN_PART} ({held} of {cases})" if 0 < held < cases else kind(verdicts)


def _counted(verdicts: Sequence[Verdict]) -> list[Outcome]:
    """The outcomes. A reading without a case decides nothing where another reading of the same thing has one: else a
    claim would be borne out by leaving out the readings that cannot bear it out."""
    asked = {verdict.on for verdict in verdicts if verdict.outcome in CASES}
    return [
        Outcome.UNDECIDED
        if verdict.outcome == Outcome.NO_CASE and verdict.on in asked
        else verdict.outcome
        for verdict in verdicts
    ]


# ---- one record per verdict, kept for the board
def write(path: Path, verdicts: Sequence[Verdict]):
    """Keep the verdicts of one notebook, whole or not at all, in a form that a person can read."""
    rows = [_plain(asdict(verdict)) for verdict in verdicts]
    files.replace(
        path, (json.dumps(rows, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()
    )


def read(path: Path) -> list[Verdict]:
    try:
        return [_verdict(row) for row in json.loads(path.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        raise CompanionError(
            f"{path} is missing, damaged or no list of verdicts: restore it with git, or run its "
            "notebook again."
        ) from None


def _plain(value):
    """What JSON can hold: nan and infinity as text, and nothing that is not known."""
    if isinstance(value, dict):
        plain = {key: _plain(inner) for key, inner in value.items()}
        return {
            key: inner
            for key, inner in plain.items()
            if inner is not None and inner not in ("", [], {})
        }
    value = value.item() if hasattr(value, "item") else value  # a number of numpy's
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _verdict(row: dict) -> Verdict:
    def estimate(kept: dict) -> Estimate:
        return Estimate(
            *(float(kept[end]) for end in ("value", "low", "high")), kept["n"], kept.get("unit", "")
        )

    parts = {
        "outcome": Outcome,
        "threshold": float,
        "redrawn": float,
        "estimate": estimate,
        "control": lambda kept: Control(
            kept.get("name", ""), estimate(kept["estimate"]), estimate(kept["difference"])
        ),
    }
    return Verdict(
        **{key: parts[key](value) if key in parts else value for key, value in row.items()}
    )


# ---- one rule for printed numbers
# What a number of ours is, held against a printed one
Match = StrEnum(
    "Match",
    {
        "MATCHES": "matches",
        "WITHIN_INTERVAL": "within interval",
        "DIFFERS": "differs",
        "OTHER_MODEL": "other model",
        "NOT_RUN": "not run",
    },
)


def match(
    printed: str | float | None,
    ours: Estimate | float | None,
    same_model: bool,
    why: str = "a choice that the paper leaves open",
    missing: str = "not measured",
) -> str:
    """Whether a number of ours is the printed one, to the printed digits; with the reason where it is not.

    printed     digits as printed: half a unit of the last one is what rounding can explain; None or nan: lost
    same_model  whether ours is the paper's model on the paper's data; another model's number is never a match"""
    if printed is None or printed != printed:
        return f"{Match.NOT_RUN} (the printed number is lost)"
    value = ours.value if isinstance(ours, Estimate) else ours
    if value is None or value != value:
        return f"{Match.NOT_RUN} ({missing})"
    if not same_model:
        return str(Match.OTHER_MODEL)
    digits = (
        Decimal(printed) if isinstance(printed, str) else Decimal(repr(float(printed))).normalize()
    )
    half_unit = (
        0.5 * 10.0 ** min(digits.as_tuple().exponent, 0) + 1e-9
    )  # a little is for floating point
    if abs(value - float(printed)) <= half_unit:
        return str(Match.MATCHES)
    if isinstance(ours, Estimate) and ours.low <= float(printed) <= ours.high:
        return str(Match.WITHIN_INTERVAL)
    return f"{Match.DIFFERS}: {why}"
