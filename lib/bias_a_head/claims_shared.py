"""What claims of several notebooks share: when a model counts as biased, and how that is said."""

from lib.bias_a_head import tables
from lib.engine.stats import Estimate
from lib.verdict import Precondition

PAPER = "bias_a_head"
SEVERAL = 3  # heads: what the paper's "several" and "a number of" are taken to mean
# Of a printed effect: what is smaller is next to nothing. A bundled model is smaller than the
# paper's, and its effects may be; less than a quarter would not be what the paper reports.
SHARE = 0.25
# A change of |SEAT| that is next to nothing: of what masking the Top-3 does in Table 1.
SEAT_MARGIN = SHARE * (1.35 - 1.21)
HEADS_MARGIN = 1.0  # a change of a number of heads that is next to nothing; the paper prints none
CHANCE = 0.05  # p of SEAT below which a model is called biased at all, and its heads after it


def beyond_chance(result: dict, bias: str) -> Precondition:
    """Whether SEAT of this bias is significant; otherwise there is no bias to look for in heads."""
    return Precondition(
        name=f"SEAT of {bias}",
        is_met=result["p"] < CHANCE,
        why=f"{bias} is not significant: {seat_text(result)}",
    )


def seat_text(result: dict) -> str:
    """SEAT .31, p < .001: as panels and verdicts show it."""
    return f"SEAT {result['seat']:.2f}, p {tables.p_text(result['p'])}"


def panel_text(result: dict) -> str:
    """The same for a panel; it says so where the verdicts on it are not applicable."""
    text = seat_text(result)
    if not beyond_chance(result, "").is_met:
        text += "\nnot applicable: SEAT not significant"
    return text


def exactly(value: float) -> Estimate:
    """A value that is known without uncertainty, such as what chance gives."""
    return Estimate(value, value, value)
