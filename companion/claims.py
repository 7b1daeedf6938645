"""What the papers claim, what a test of it found, and the one place that says what it came to.

`data/claims.csv` has a row a claim. A test is an estimate and what it is about; it is kept as it
was measured, in figures/<run>/claims/NN.json. What it came to is never stored: it is computed from
the test and its claim, by the first line that applies:

    not tested     there is no estimate, or what the claim is about is not there
    supported      an effect or a cost: the whole 95 % interval lies on the claim's side of its
                   threshold and the value is there by the smallest effect or more; of an effect,
                   what it is beyond each control by lies there too.
                   No effect: the interval lies within the smallest effect of the threshold, or, if
                   the claim has one side, on it
    contradicted   an effect or a cost: the interval lies on the other side, or within the smallest
                   effect. No effect: it lies outside of where it had to be
    undecided      otherwise

The smallest effect is a quarter of what the paper prints. A threshold other than 0 is one already.
"""

import functools
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path

import pandas as pd

from lib import CompanionError, paths
from lib.engine import files
from lib.engine.stats import Estimate, settled

SHARE = 0.25  # of a printed effect: what is smaller is not what the paper reports
EVERY = "every"  # as Claim.main: its variants are tests of their own
OURS = "ours"  # how `where` begins of a claim that no paper makes


class Outcome(StrEnum):
    """What a test, or a claim in a run, came to."""

    SUPPORTED = "supported"
    CONTRADICTED = "contradicted"
    UNDECIDED = "undecided"
    NOT_TESTED = "not tested"


@dataclass(frozen=True)
class Claim:
    """A row of data/claims.csv."""

    id: str
    paper: str  # its key; "" of what all three presuppose
    where: str  # the section, figure or table that makes it
    says: str  # in our words
    short: str  # as a table names it
    notebook: str  # the one that tests it
    figure: str  # the picture behind it
    side: str  # of the threshold on which it lies: >, >=, <, <= or within
    threshold: float  # nan: each test brings its own, such as a model's number of layers
    effect: float  # that the paper prints, a quarter of which is the smallest; nan: none
    relative: bool  # whether that is a share of what the untouched model has
    smallest: float  # the smallest effect, where no printed one says it
    asks: str  # effect, cost or no effect; controls are for effects alone
    main: str  # the variant that is the paper's; "": the first; EVERY
    low: float  # what it can be at all
    high: float
    exact: bool  # a count over fixed things: a value without an interval decides
    controls: tuple[str, ...]  # runs of models that cannot have the effect
    about_bert: bool  # retrainings of BERT test it, though no gender-swapped BERT does
    any_data: bool  # its test is the same on any data: counted once over runs
    untestable: str  # why no test is possible here
    printed: str  # what the paper prints
    families: tuple[str, ...]  # of the models that it is about; none: all
    kinds: tuple[str, ...]  # of knowledge in the prompt that it is about
    expected: str  # how these are scored
    registered: str  # the day on which it was fixed, before any result

    @property
    def is_ours(self) -> bool:
        return self.where.startswith(OURS)

    def threshold_for(self, test: "Test") -> float:
        return self.threshold if test.threshold is None else test.threshold

    def smallest_for(self, base: float | None) -> float:
        """The smallest effect that counts, in a model whose untouched value is `base`."""
        if not math.isnan(self.smallest):
            return self.smallest
        if math.isnan(self.effect):
            return 0.0
        return SHARE * self.effect * (base if self.relative else 1.0)


@functools.cache
def claims() -> dict[str, Claim]:
    """All claims by id, in the order of the papers' texts."""
    table = pd.read_csv(paths.CLAIMS, dtype=str, keep_default_na=False)
    if not table["id"].is_unique:
        raise CompanionError("data/claims.csv has an id twice: give one of them another.")
    return {row["id"]: _claim(row) for row in table.to_dict("records")}


def _claim(row: dict[str, str]) -> Claim:
    numbers = {"threshold": math.nan, "effect": math.nan, "smallest": math.nan}
    numbers |= {"low": -math.inf, "high": math.inf}
    typed = {name: float(row[name] or missing) for name, missing in numbers.items()}
    for name in ("relative", "exact", "about_bert", "any_data"):
        typed[name] = row[name] == "yes"
    for name in ("controls", "families", "kinds"):
        typed[name] = tuple(row[name].split("; ")) if row[name] else ()
    return Claim(**row | typed)


# ---- tests
@dataclass(frozen=True)
class Beside:
    """The same quantity where the effect should not be: after a random intervention of equal size,
    or in a model that cannot have it.
    """

    name: str  # random heads, random directions, untrained networks
    estimate: Estimate
    difference: Estimate  # what is claimed minus this
    idle: str = ""  # why it could not have shown the effect

    @property
    def works(self) -> bool:
        return not self.idle and self.difference.has_interval


@dataclass(frozen=True)
class Test:
    """What was measured of a claim: on one model, one bias, by one reading of the paper."""

    __test__ = False  # of claims, not of code: pytest leaves it alone

    claim: str  # its id
    estimate: Estimate | None = None
    model: str = ""
    against: str = ""  # the model that it is compared with
    bias: str = "gender"
    variant: str = ""  # how the paper is read
    k: int | None = None  # heads that are masked
    beside: Beside | None = None
    needs: dict[str, str] = field(default_factory=dict)  # what had to be there: "", or why not
    base: float | None = None  # what the untouched model has
    threshold: float | None = None  # where the claim's depends on the model
    untested: str = ""  # why there is no estimate

    @property
    def unmet(self) -> str:
        """Why what the claim is about is not there; "" where it is."""
        return next(filter(None, self.needs.values()), "")


def outcome(
    claim: Claim, test: Test, controls: Sequence[Beside] = (), is_control: bool = False
) -> tuple[Outcome, str]:
    """(what a test came to, why, where it is not supported).

    controls     the same test in models that cannot have the effect
    is_control   whether the test is itself of such a model: it is judged whatever is not there
    """
    missing = claim.untestable or test.untested or ("" if test.estimate else "not run")
    if missing or (test.unmet and not is_control):
        return Outcome.NOT_TESTED, missing or test.unmet
    estimate = test.estimate
    if claim.exact:
        estimate = replace(estimate, low=estimate.value, high=estimate.value)
    if math.isnan(estimate.value) or not estimate.has_interval:
        return Outcome.UNDECIDED, "no value" if math.isnan(estimate.value) else "no interval"
    beyond = estimate - claim.threshold_for(test)
    smallest = claim.smallest_for(test.base)
    if claim.asks == "no effect":
        return _of_none(claim.side, beyond, smallest), ""
    found = _of_effect(claim.side, beyond, smallest)
    if found != Outcome.SUPPORTED or claim.asks != "effect":
        return found, ""
    for control in filter(None, (test.beside, *controls)):
        if control.works and not _lies(claim.side.strip("="), control.difference):
            return Outcome.UNDECIDED, f"not told apart from {control.name}"
    return found, ""


def _of_none(side: str, beyond: Estimate, smallest: float) -> Outcome:
    """Of a claim that something does little, or stays on one side; `beyond` is from the threshold
    on.
    """
    ends = [_within(end, smallest) if side == "within" else _is_on(side, end) for end in beyond]
    value, low, high = ends
    if low and high:
        return Outcome.SUPPORTED
    is_around = side == "within" and beyond.low < 0 < beyond.high
    return Outcome.UNDECIDED if low or high or is_around else Outcome.CONTRADICTED


def _of_effect(side: str, beyond: Estimate, smallest: float) -> Outcome:
    """Of a claim of an effect or a cost."""
    is_small = bool(smallest) and all(_within(end, smallest) for end in (beyond.low, beyond.high))
    if is_small or _lies(_OPPOSITE[side], beyond):
        return Outcome.CONTRADICTED
    size = beyond.value if side in (">", ">=") else -beyond.value
    is_large = bool(settled(size - smallest) >= 0)
    return Outcome.SUPPORTED if _lies(side, beyond) and is_large else Outcome.UNDECIDED


_OPPOSITE = {">": "<=", ">=": "<", "<": ">=", "<=": ">"}


def _lies(side: str, beyond: Estimate) -> bool:
    """Whether a whole interval is on a side of 0."""
    return _is_on(side, beyond.low) and _is_on(side, beyond.high)


def _is_on(side: str, distance: float) -> bool:
    """Whether a number is on a side of 0: what is there but for rounding is at 0."""
    distance = settled(distance)
    if distance == 0:
        return side in (">=", "<=")
    return bool(distance > 0) == (side in (">", ">=")) and not math.isnan(distance)


def _within(distance: float, smallest: float) -> bool:
    return bool(settled(abs(distance) - smallest) <= 0)


# ---- kept as measured
def write(path: Path, tests: Sequence[Test]):
    """Keep a notebook's tests, unrounded, in a form that a person can read; none: no file."""
    if not tests:
        path.unlink(missing_ok=True)
        return
    rows = []
    for test in tests:
        said = {name: value for name, value in asdict(test).items() if value not in (None, "", {})}
        rows.append(_plain(said))
    text = json.dumps(rows, indent=1, ensure_ascii=False, allow_nan=False)
    files.replace(path, f"{text}\n".encode())


def read(path: Path) -> list[Test]:
    """The tests that a notebook kept: a list of none is a file that somebody emptied."""
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(rows, list) or not rows:
            raise ValueError(f"{path} lists no tests")
        return [_test(row) for row in rows]
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        raise CompanionError(
            f"{path} is missing, damaged or no list of tests: restore it with git, or run its "
            "notebook again."
        ) from None


def _plain(value):
    """What JSON can hold: nan and infinity as text."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if hasattr(value, "item"):  # a number of NumPy's
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _test(row: dict) -> Test:
    typed = {}
    if "estimate" in row:
        typed["estimate"] = _estimate(row["estimate"])
    if "beside" in row:
        kept = row["beside"]
        both = {name: _estimate(kept[name]) for name in ("estimate", "difference")}
        typed["beside"] = Beside(**kept | both)
    return Test(**row | typed)


def _estimate(kept: dict) -> Estimate:
    ends = {name: float(kept[name]) for name in ("value", "low", "high")}
    estimate = Estimate(**kept | ends)
    if estimate.is_damaged:
        raise ValueError(f"{estimate} is no estimate")
    return estimate
