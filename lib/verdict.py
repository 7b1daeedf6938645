"""What a claim of a paper is, and the one place that decides whether it is supported.

A test measures an estimand as an `Estimate`; the claim says on which side of which threshold it has
to lie, and how small an effect is none. One test is judged by the first line that applies, always
by the whole 95 % interval:

    not applicable       a precondition is not met: what the claim is about is not there
    contradicted         it lies on the other side
    no effect            it lies within the margin around the threshold. This counts against a claim
                         of an effect; a claim of no effect is supported by it
    inconclusive         it reaches over the threshold; `needed` says how much data would decide
    contradicted         it lies on the claim's side, but random interventions of equal size do more
    matched by controls  ... but the difference to a control does not, which shows half of it
    inconclusive         ... but the difference to a control does not, which shows less
    supported            otherwise; "no working control" is said where none could have shown it

Claims of no effect and of cost meet no control. The result is a `Verdict`, kept unrounded in
figures/<run>/claims/NN.json. Tables, board and README are made from these records.

    judge(FEW_HEADS, Estimate(0.25, 0.18, 0.33, n=144), on="mini-bert, gender")
"""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from lib import CompanionError
from lib.engine import files
from lib.engine.stats import Estimate, settled

OURS = "ours"  # how `where` begins of a claim that the paper does not make
EVERY_VARIANT = "every variant"  # as Claim.main: variants are tests of their own

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
    NO_EFFECT = "no effect"  # measured, and too small to matter
    MATCHED = "matched by controls"  # random interventions or control models do as much
    INCONCLUSIVE = "inconclusive"
    NOT_APPLICABLE = "not applicable"  # a precondition is not met
    NOT_RUN = "not run"


# What a claim can come to besides, over several tests.
MIXED = "mixed"  # decided tests differ
NOT_TESTABLE = "not testable"  # this companion has no test for it

# The outcomes of tests that say something of the claim, and of all whose preconditions are met.
DECIDED = (Outcome.SUPPORTED, Outcome.CONTRADICTED, Outcome.NO_EFFECT, Outcome.MATCHED)
APPLICABLE = (*DECIDED, Outcome.INCONCLUSIVE)
# Those that count against a claim of an effect.
AGAINST = {Outcome.CONTRADICTED, Outcome.NO_EFFECT}

# In which order tables of claims have them.
ORDER = (
    Outcome.SUPPORTED,
    MIXED,
    Outcome.CONTRADICTED,
    Outcome.NO_EFFECT,
    Outcome.MATCHED,
    Outcome.INCONCLUSIVE,
    Outcome.NOT_APPLICABLE,
    NOT_TESTABLE,
    Outcome.NOT_RUN,
)


def place_of(said: str) -> int:
    """Where a text that begins with an outcome stands in ORDER: after all of them if it begins
    with none.
    """
    for place, outcome in enumerate(ORDER):
        if str(said).startswith(outcome):
            return place
    return len(ORDER)


# Why an estimate decides nothing.
NO_VALUE = "no value"
NO_INTERVAL = "no interval"
NO_WORKING_CONTROL = "no working control"
HALF = 0.5  # of an effect: a control that shows so much, and is not told from it, matches it


class Asks(StrEnum):
    """What kind of claim it is: controls are for effects alone."""

    EFFECT = "effect"
    NO_EFFECT = "no effect"  # something does little, or no more than something else
    COST = "cost"  # something is paid, or is not: a model without the effect pays it too


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
        """The same side without the threshold: what a difference to a control has to meet."""
        match self:
            case Side.AT_LEAST:
                return Side.ABOVE
            case Side.AT_MOST:
                return Side.BELOW
            case _:
                return self

    @property
    def opposite(self) -> "Side":
        """Where a difference to a control lies that does more, of a claim of an effect."""
        return Side.BELOW if self in (Side.ABOVE, Side.AT_LEAST) else Side.ABOVE


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
    # How far from the threshold is next to nothing. A threshold other than 0 is itself the smallest
    # effect that matters, and has none.
    margin: float = 0.0
    asks: Asks = Asks.EFFECT
    main: str = ""  # the analysis variant in the paper's words; "": the first; EVERY_VARIANT
    bounds: tuple[float, float] = (-math.inf, math.inf)  # what it can be at all
    exact: bool = False  # a count over fixed things: a value without an interval decides
    # Runs of models that cannot have the effect: what they show as much of is no stereotype.
    controls: tuple[str, ...] = (UNTRAINED,)
    about_bert: bool = False  # retrainings of BERT test it, though no gender-swapped BERT does
    not_testable: str = ""  # why no test of it is possible here
    threshold_from_data: bool = False  # its test has its own: the number of layers, say
    margin_from_data: bool = False  # likewise: a share of what the untouched model has, say
    on_any_data: bool = False  # the data set is no part of its test: counted once over runs

    @property
    def is_ours(self) -> bool:
        """Whether it is this project's claim and not the paper's."""
        return self.where.startswith(OURS)


@dataclass(frozen=True)
class Precondition:
    """What has to be there before a claim can be judged at all."""

    name: str
    is_met: bool
    why: str  # what is seen instead, shown where it is not met


@dataclass(frozen=True)
class Control:
    """The same quantity where the effect should not be: after a random intervention of equal size,
    or in a model that cannot have it.
    """

    name: str  # random heads, random directions, untrained networks
    estimate: Estimate
    difference: Estimate  # what is claimed minus the control
    idle: str = ""  # why it could not have shown the effect, where it could not

    @property
    def why_idle(self) -> str:
        """Why it says nothing; "" of a working control."""
        if self.idle:
            return self.idle
        return "" if self.difference.has_interval else NO_VALUE


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
    margin: float | None = None
    variant: str = ""  # which of several ways to read the paper
    control: Control | None = None  # a random intervention of equal size
    preconditions: dict[str, bool] = field(default_factory=dict)  # by name, whether met
    models: list[str] = field(default_factory=list)  # whose weights it is about
    remark: str = ""  # said after outcome and reason: which part of the data decided
    # Models that cannot have the effect; None where they were not looked at. They are other runs:
    # the board adds them, and no record keeps them.
    control_models: tuple[Control, ...] | None = None

    @property
    def has_interval(self) -> bool:
        """Whether it rests on an estimate with an interval."""
        return self.estimate is not None and self.estimate.has_interval

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
    ignore_preconditions: bool = False,
    **about,
) -> Verdict:
    """Whether an estimate supports a claim; a float has no interval, True and False are 1 and 0.

    threshold             in place of the claim's own, where it depends on the data (the number of
                          layers, say)
    preconditions         each has to be met, unless `ignore_preconditions`: control models are
                          judged without
    control               a random intervention of equal size
    about                 further fields of the Verdict: on, found, variant, models, remark
    """
    if not isinstance(estimate, Estimate):
        estimate = Estimate(float(estimate))
    if threshold is None:
        threshold = claim.threshold
    about |= {
        "estimate": estimate,
        "threshold": threshold,
        "margin": claim.margin or None,
        "control": control,
        "preconditions": _met_by_name(preconditions),
    }
    unmet = [one for one in preconditions if not one.is_met]
    if unmet and not ignore_preconditions:
        return Verdict(claim.id, Outcome.NOT_APPLICABLE, reason=unmet[0].why, **about)
    outcome, reason = _by_interval(claim, estimate, threshold)
    if outcome == Outcome.SUPPORTED and claim.asks == Asks.EFFECT:
        outcome, reason = _beside_random(claim, estimate, control)
    return Verdict(claim.id, outcome, reason=reason, **about)


def _met_by_name(preconditions: Sequence[Precondition]) -> dict[str, bool]:
    """By name, whether met; of several with one name, say of two models, whether all are."""
    met = {}
    for one in preconditions:
        met[one.name] = met.get(one.name, True) and bool(one.is_met)
    return met


def _by_interval(claim: Claim, estimate: Estimate, threshold: float) -> tuple[Outcome, str]:
    """(outcome, reason), before controls are looked at; a reason where an interval is missing."""
    if math.isnan(estimate.value):
        return Outcome.INCONCLUSIVE, NO_VALUE
    if estimate.has_interval:
        if _is_next_to_nothing(claim, estimate, threshold):
            return Outcome.NO_EFFECT, ""
        return _outcome(claim.side, estimate, threshold, claim.margin), ""
    if claim.exact:
        is_met = claim.side.has(estimate.value, threshold, claim.margin)
        return (Outcome.SUPPORTED if is_met else Outcome.CONTRADICTED), ""
    return Outcome.INCONCLUSIVE, NO_INTERVAL


def _is_next_to_nothing(claim: Claim, estimate: Estimate, threshold: float) -> bool:
    """Whether the whole interval lies within the margin of a claim that there is an effect, and
    not on the other side of its threshold, which contradicts it however small it is.
    """
    is_opposite = _lies(claim.side.opposite, estimate - threshold)
    if claim.side == Side.WITHIN or not claim.margin or is_opposite:
        return False
    ends = (estimate.low, estimate.high)
    return all(Side.WITHIN.has(end, threshold, claim.margin) for end in ends)


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


def _beside_random(
    claim: Claim, estimate: Estimate, control: Control | None
) -> tuple[Outcome, str]:
    """(outcome, reason) of an estimate on the claim's side, held against random interventions."""
    if control is None or control.why_idle:
        return Outcome.SUPPORTED, ""
    if _lies(claim.side.opposite, control.difference):
        return Outcome.CONTRADICTED, f"{control.name} do more"
    return _beyond(claim, estimate, control)


def _beyond(claim: Claim, estimate: Estimate, control: Control) -> tuple[Outcome, str]:
    """(outcome, reason) of an estimate on the claim's side, held against a working control.

    A control that is known too roughly to tell it from the effect does not match it: it has to show
    as much, or half of it at least.
    """
    if _lies(claim.side.strict, control.difference):
        return Outcome.SUPPORTED, ""
    share = share_of(control, estimate)
    is_as_much = share >= HALF
    outcome = Outcome.MATCHED if is_as_much else Outcome.INCONCLUSIVE
    return outcome, f"{control.name}: {100 * share:.0f} % of it"


def _lies(side: Side, difference: Estimate) -> bool:
    """Whether a whole interval lies on this side of 0."""
    return _outcome(side, difference, 0.0, 0.0) == Outcome.SUPPORTED


def beside_models(claim: Claim, one: Verdict, models: Sequence[Control]) -> Verdict:
    """A verdict held against models that cannot have the effect, which other runs measured.

    What they show as much of is matched by controls. Where none of them works, and no random
    intervention does, a supported claim says so.
    """
    one = replace(one, control_models=tuple(models))
    if one.outcome != Outcome.SUPPORTED or claim.asks != Asks.EFFECT:
        return one
    working = [control for control in models if not control.why_idle]
    outcomes = [_beyond(claim, one.estimate, control) for control in working]
    for worst in (Outcome.MATCHED, Outcome.INCONCLUSIVE):
        for outcome, reason in outcomes:
            if outcome == worst:
                return replace(one, outcome=outcome, reason=reason)
    is_beyond_random = one.control is not None and not one.control.why_idle
    if working or is_beyond_random or one.reason:
        return one
    return replace(one, reason=NO_WORKING_CONTROL)


def share_of(control: Control, estimate: Estimate) -> float:
    """What a control shows, as a share of the estimate; nan where that is 0."""
    return control.estimate.value / estimate.value if estimate.value else math.nan


def needed(claim: Claim, one: Verdict) -> float:
    """How many times as much data would decide an inconclusive test, about; nan where unknown.

    Intervals shrink with the root of n, around a value taken to stay. Decided is the first of two:
    the interval leaves the threshold (of Side.WITHIN, the margin's edge), or it lies within the
    margin. A test that a rough control leaves inconclusive needs more of the control: see
    `needed_beyond`.
    """
    if one.outcome != Outcome.INCONCLUSIVE or one.estimate is None:
        return math.nan
    if not one.estimate.has_interval:
        return math.nan
    of_today = replace(claim, margin=one.margin or 0.0)
    alone, _ = _by_interval(of_today, one.estimate, one.threshold)
    if alone != Outcome.INCONCLUSIVE:
        return math.nan
    value, low, high = one.estimate
    reach = value - low if value > one.threshold else high - value  # to the end that crosses
    distance = abs(value - one.threshold)
    to_margin = (one.margin or 0.0) - distance
    if claim.side == Side.WITHIN or to_margin > distance:
        reach = max(value - low, high - value)
    room = abs(to_margin) if claim.side == Side.WITHIN else max(distance, to_margin)
    times = (reach / room) ** 2 if room > 0 else math.inf
    return max(times, 1.0)  # 1 where an end lies on the threshold


def needed_beyond(claim: Claim, one: Verdict) -> float:
    """How many times as much data, of the control too, would tell an effect from a rough control;
    nan where no control is why a test is inconclusive.
    """
    if one.outcome != Outcome.INCONCLUSIVE or not one.reason:
        return math.nan
    times = []
    for control in (one.control, *(one.control_models or ())):
        if control is None or control.why_idle or not one.reason.startswith(control.name):
            continue
        value, low, high = control.difference
        reach = value - low if value > 0 else high - value
        times.append((reach / value) ** 2 if value else math.inf)
    return max(times, default=math.nan)


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
@dataclass(frozen=True)
class Combined:
    """What a claim comes to over several tests: models, biases, analysis variants."""

    kind: str  # an Outcome, or MIXED: of the tests of the main variant
    counts: dict[str, int]  # of these tests, by outcome
    variants: str = ""  # whether the other variants come to the same

    def __str__(self):
        """supported; robust. mixed (2 supported, 1 contradicted); depends on the variant (...)"""
        text = self.kind
        if len(self.counts) > 1:
            text += f" ({', '.join(f'{n} {outcome}' for outcome, n in self.counts.items())})"
        return f"{text}; {self.variants}" if self.variants else text


def combined(claim: Claim, verdicts: Sequence[Verdict]) -> Combined:
    """The outcome of the main variant, with counts, and whether the other variants agree, model by
    model.

    Where all decided tests agree it is theirs, however many are inconclusive beside them; where
    they differ it is mixed. Contradicted and no effect both count against a claim, and do not
    differ. Tests that are not applicable or not run count only where there are no others.
    """
    variants = _by_variant(claim, verdicts)
    if not variants:
        return Combined(str(Outcome.NOT_RUN), {})
    (_, of_main), *others = variants.items()
    kind, counts = _agreed(of_main)
    differing = []
    for name, tests in others:
        differing += _departures(name, tests, of_main)
    said = "robust" if others else ""
    if differing:
        said = f"depends on the variant ({'; '.join(differing)})"
    return Combined(kind, counts, said)


def main_tests(claim: Claim, verdicts: Sequence[Verdict]) -> list[Verdict]:
    """The tests of the main variant, or of the first one that was run."""
    variants = _by_variant(claim, verdicts)
    return next(iter(variants.values()), [])


def _departures(name: str, tests: Sequence[Verdict], of_main: Sequence[Verdict]) -> list[str]:
    """Where a variant comes to something else than the main one, model by model and bias by bias:
    "ablation: inconclusive on mini-bert, gender". What is tested in one of the two alone is left
    out, unless nothing is tested in both.
    """
    pairs = _on_the_same(tests, of_main)
    if not pairs:
        kind, _ = _agreed(tests)
        is_alike = alike(kind, _agreed(of_main)[0])
        return [] if is_alike else [f"{name}: {kind}"]
    found = []
    for one, main in pairs:
        if not alike(one.outcome, main.outcome):
            on = f" on {one.on}" if len(pairs) > 1 and one.on else ""
            found.append(f"{name}: {one.outcome}{on}")
    return list(dict.fromkeys(found))


def _on_the_same(
    tests: Sequence[Verdict], of_main: Sequence[Verdict]
) -> list[tuple[Verdict, Verdict]]:
    """Each test of a variant with the main variant's on the same models and kind of bias, in order
    where there are several. Preconditions that hold in neither leave nothing to compare.
    """
    waiting = {}
    for main in of_main:
        waiting.setdefault(_subject(main), []).append(main)
    pairs = []
    for one in tests:
        mains = waiting.get(_subject(one))
        if not mains:
            continue
        main = mains.pop(0)
        if one.outcome in APPLICABLE or main.outcome in APPLICABLE:
            pairs.append((one, main))
    return pairs


def _subject(one: Verdict) -> tuple:
    """What a test is about, in every variant: the models, and whether it is race."""
    return (*one.models, "race" in one.on)


def alike(one: str, other: str) -> bool:
    """Whether two outcomes say the same: contradicted and no effect both count against a claim."""
    return one == other or {one, other} <= AGAINST


def _by_variant(claim: Claim, verdicts: Sequence[Verdict]) -> dict[str, list[Verdict]]:
    """The tests of each analysis variant, the main one first."""
    if claim.main == EVERY_VARIANT:
        return {"": list(verdicts)} if verdicts else {}
    variants = {claim.main: []} if claim.main else {}
    for one in verdicts:
        variants.setdefault(one.variant, []).append(one)
    return {name: tests for name, tests in variants.items() if tests}


def _agreed(verdicts: Sequence[Verdict]) -> tuple[str, dict[str, int]]:
    """(what tests of one variant come to, how many came to what)."""
    outcomes = [one.outcome for one in verdicts]
    for group in (APPLICABLE, (Outcome.NOT_APPLICABLE,), (Outcome.NOT_RUN,)):
        counts = {str(outcome): outcomes.count(outcome) for outcome in group}
        counts = {outcome: n for outcome, n in counts.items() if n}
        if counts:
            break
    decided = {Outcome(outcome) for outcome in counts} & set(DECIDED)
    if not decided:
        kind = next(iter(counts))
    elif len(decided) == 1:
        kind = decided.pop()
    else:
        kind = Outcome.CONTRADICTED if decided <= AGAINST else MIXED
    return str(kind), counts


# ---- one record per verdict, kept for the board
def write(path: Path, verdicts: Sequence[Verdict]):
    """Keep the verdicts of one notebook, whole or not at all, in a form that a person can read."""
    rows = []
    for verdict in verdicts:
        rows.append(_plain(asdict(replace(verdict, control_models=None))))
    text = json.dumps(rows, indent=1, ensure_ascii=False, allow_nan=False)
    files.replace(path, f"{text}\n".encode())


def read(path: Path) -> list[Verdict]:
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        if not rows or not isinstance(rows, list):
            raise ValueError("no verdicts")
        return [_verdict(row) for row in rows]
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
    if "threshold" in row and "estimate" not in row:
        raise ValueError("what was held against the threshold is gone")
    fields["outcome"] = Outcome(row["outcome"])
    for name in ("threshold", "margin"):
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
    estimate = Estimate(
        value=float(kept["value"]),
        low=float(kept["low"]),
        high=float(kept["high"]),
        n=kept["n"],
        unit=kept.get("unit", ""),
    )
    if estimate.is_damaged:
        raise ValueError(f"{estimate} is no estimate")
    return estimate
