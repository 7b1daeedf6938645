"""What "the same number" means on another machine: one rule for tables, notebooks and tests.

Two processors add the same float32 numbers in another order, so they agree to about seven digits
and never to the last bit. Three things enlarge that difference on its way to a table:

- Twelve layers and a softmax: between an x86 and an ARM processor, probabilities differed by up to
  1e-5, as they do between batches of another size.
- A score is a ratio of small differences: SEAT divides a difference of cosines by their spread, and
  an end of a bootstrap interval is one draw out of a thousand, where another machine may take the
  neighbour. The largest difference seen was 1.5e-4 relative to such an end, 2.6e-5 absolute.
- A number printed with two digits may round to the other side: 1.295 is 1.29 here and 1.30 there.

So a number may differ by RELATIVE of its size plus ABSOLUTE, or by one unit of the last place
that it is printed with, whichever is more. A whole number has no place to round: a count below
1 / RELATIVE has to be equal. Everything that is not a number has to be equal; words and counts that
depend on a number near a threshold are computed from rounded values.

    tolerance.differences("SEAT 1.30 of 144 heads", "SEAT 1.29 of 144 heads")  # []
    tolerance.differences("SEAT 1.30 of 144 heads", "SEAT 1.30 of 143 heads")  # ["144 is 143 now"]
"""

import math
import re
from dataclasses import dataclass

RELATIVE = 2e-4
ABSOLUTE = 2e-5

# A number that stands by itself: not the 2 of gpt2, nor the digits of a hash or of a file's name.
NUMBER = re.compile(r"(?<![\w.])([-+]?(?:\d[\d,]*\.?\d*|\.\d+)(?:e[-+]?\d+)?(?: ?%)?)(?![\w])")


@dataclass(frozen=True)
class Number:
    """A printed number: its value, and one unit of the last place that it is printed with."""

    value: float
    unit: float  # 0 for a whole number: nothing of it was rounded away


def parse(text: str) -> Number | None:
    """The number that a text is, "1.30", "-.5", "12,345", "3e-05" or "60%"; None: it is none."""
    if not NUMBER.fullmatch(text.strip()):
        return None
    is_percent = text.rstrip().endswith("%")
    plain = text.strip().rstrip("% ").replace(",", "")
    digits, _, exponent = plain.lower().partition("e")
    whole, point, decimals = digits.partition(".")
    is_rounded = bool(point or exponent or is_percent)
    unit = 10.0 ** (int(exponent or 0) - len(decimals)) if is_rounded else 0.0
    scale = 0.01 if is_percent else 1.0
    return Number(float(plain) * scale, unit * scale)


def allowed(stored: float, unit: float = 0.0) -> float:
    """How far another machine's number may lie from a stored one."""
    return max(ABSOLUTE + RELATIVE * abs(stored), unit)


def agree(stored: float, new: float, unit: float = 0.0) -> bool:
    """Whether two numbers are the same number; nan and infinity agree with themselves alone."""
    if math.isnan(stored) or math.isnan(new):
        return math.isnan(stored) and math.isnan(new)
    if math.isinf(stored) or math.isinf(new):
        return stored == new
    return abs(stored - new) <= allowed(stored, unit) * (1 + 1e-9)


def size(stored: float, new: float, unit: float = 0.0) -> float:
    """How large a difference is beyond rounding, which explains one unit of the last place.

    It is relative to the stored number, or absolute where that number is below 1.
    """
    if not (math.isfinite(stored) and math.isfinite(new)):
        return 0.0 if agree(stored, new) else math.inf
    return max(0.0, abs(stored - new) - unit) / max(1.0, abs(stored))


@dataclass(frozen=True)
class Difference:
    """A place where two texts are not equal, beyond the tolerance (a departure) or within it."""

    stored: str
    new: str
    size: float  # of numbers, as `size` has it; infinity where words differ
    is_departure: bool

    def __str__(self):
        return f"{self.stored or 'nothing'} is {self.new or 'nothing'} now"


def compare(stored: str, new: str, unit: float | None = None) -> list[Difference]:
    """Every pair of numbers, or of words between them, that is not equal in two texts.

    unit   one unit of the last place of the numbers; None: as they are printed. A table's file
           writes .50 as 0.5, and its column says that the unit is .01
    """
    if stored == new:
        return []
    stored_plain = _plain(stored)
    new_plain = _plain(new)
    stored_parts = NUMBER.split(stored_plain)
    new_parts = NUMBER.split(new_plain)
    if len(stored_parts) != len(new_parts):
        return [Difference(stored_plain, new_plain, math.inf, is_departure=True)]
    found = []
    for old, now in zip(stored_parts, new_parts, strict=True):
        if old != now:
            found.append(_difference(old, now, unit))
    return found


def differences(stored: str, new: str, unit: float | None = None) -> list[Difference]:
    """Where two texts are not the same: words that differ, and numbers beyond the tolerance."""
    return [found for found in compare(stored, new, unit) if found.is_departure]


def _difference(stored: str, new: str, unit: float | None) -> Difference:
    """The difference of two parts of a text, numbers or words, that are not equal."""
    old = parse(stored)
    now = parse(new)
    if old is None or now is None:
        return Difference(stored.strip(), new.strip(), math.inf, is_departure=True)
    if unit is None:
        units = [number.unit for number in (old, now) if number.unit]
        unit = min(units, default=0.0)  # the finer one: .01 for 1.3 beside 1.29
    apart = size(old.value, now.value, unit)
    is_departure = not agree(old.value, now.value, unit)
    return Difference(stored, new, apart, is_departure)


def _plain(text: str) -> str:
    """A text without its layout: a column's spaces depend on its widest number."""
    return re.sub(r"\s+", " ", text).strip()


class Text(str):
    """A text that is equal to another if the two say the same within the tolerance: for nbval."""

    __hash__ = str.__hash__

    def __eq__(self, other):
        return isinstance(other, str) and not differences(str(self), str(other))

    def __ne__(self, other):
        return not self == other
