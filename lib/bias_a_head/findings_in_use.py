"""What notebooks 03 and 06 find, of heads in use: sentences whose numbers are computed, and the
titles of figures.

A bullet says a claim of the paper, what it came to, and one number with its interval.
"""

from collections.abc import Sequence

from lib.bias_a_head.claims_attention import BIASED, CONTRAST, EXAMPLE, REGULAR
from lib.bias_a_head.claims_debiased import (
    CHAT_HEADS,
    CHAT_SEAT,
    DARKER,
    FEWER,
    REMAIN,
    SEAT,
    TURNED,
)
from lib.bias_a_head.debiased import FOLLOWED
from lib.bias_a_head.findings import by_model
from lib.engine import stats
from lib.text import english
from lib.verdict import Claim, Outcome, Side, Verdict

# of cells in a map of heads
HATCHED = "hatched: the interval includes 0; white, not hatched: below 0"


# ---- 03
def of_attention(verdicts: Sequence[Verdict], studies: dict[str, tuple[str, str]]) -> str:
    """Five bullets in markdown; studies: {panel: (model, bias)}, as in claims.of_attention."""
    encoder, decoder = studies["4a"][0], studies["4b"][0]
    points = "percentage points of attention"
    said = [
        _bullet("Biased heads react more than regular ones", verdicts, CONTRAST, encoder, points),
        _bullet("The same in the decoder", verdicts, CONTRAST, decoder, points)
        + _on_race(verdicts),
        _bullet("Biased heads attend more to the stereotyped word, by the paper's own test",
                verdicts, BIASED, encoder, "percentage points"),
        _regular(verdicts, encoder),
        _bullet("In the sentence of Fig. 3 biased heads look away from the swapped word",
                verdicts, EXAMPLE, encoder, "of the range of a head's attention"),
    ]  # fmt: skip
    return _listed(said)


def _on_race(verdicts: Sequence[Verdict]) -> str:
    """The same on race: what the contrast came to in each model; "" where it was not tested."""
    tested = {}
    for one in verdicts:
        if one.claim == CONTRAST.id and one.variant == CONTRAST.main and "race" in one.on:
            tested[one.models[0]] = one
    return f" **The same on race: {by_model(tested)}.**" if tested else ""


def _regular(verdicts: Sequence[Verdict], encoder: str) -> str:
    """How small the difference of regular heads is, and what the paper's own test says of it."""
    words = "Regular heads do so by less than a twentieth of their attention"
    said = _bullet(words, verdicts, REGULAR, encoder, "of their attention")
    one = _main(verdicts, REGULAR, encoder)
    if one is None or not one.found.startswith("t "):
        return said
    return f"{said} The paper's own test for a difference: {one.found.partition(';')[0]}."


def fig3_title(one: Verdict, both_fall: bool = False) -> str:
    """What one sentence shows over all biased heads.

    one         the verdict on claims_attention.EXAMPLE
    both_fall   whether both heads that are drawn look away from the swapped word
    """
    if one.estimate is None or not one.estimate.has_interval:
        return "One sentence, and too few heads to say what biased ones do"
    if one.estimate.is_above():
        title = "In this sentence biased heads look away from the swapped word"
        if one.outcome == Outcome.MATCHED:
            return f"{title}, and regular heads nearly as much"
        return title
    if one.estimate.is_below():
        return "In this sentence biased heads look harder at the swapped word"
    title = "Over all biased heads this sentence shows no clear fall of the attention"
    return f"{title}, though both heads drawn show one" if both_fall else title


# ---- 06
def of_debiased(
    verdicts: Sequence[Verdict], pronouns: dict[str, stats.Estimate] | None = None
) -> str:
    """Five bullets in markdown on debiased models and the chat model.

    pronouns   {model: change of the rank correlation of she : he with women's share of jobs}
    """
    remain = _of_claim(verdicts, REMAIN)
    said = [
        _each("Debiased models are less biased by SEAT", verdicts, SEAT, "of |SEAT|")
        + _pronouns(pronouns or {}),
        _each("They have fewer biased heads", verdicts, FEWER, "heads", digits=1)
        + (f" That a number of them remain is {by_model(remain)}." if remain else ""),
        _each("Some slightly biased heads get darker", verdicts, DARKER, "heads beyond chance", 1),
        _each("The most anti-biased heads turn biased", verdicts, TURNED,
              f"of {FOLLOWED} heads", 1),
        _each("The chat model is less biased", verdicts, CHAT_SEAT, "of |SEAT|"),
    ]  # fmt: skip
    return _listed(said)


def _pronouns(changes: dict[str, stats.Estimate]) -> str:
    """Of pronouns: by what their correlation with women's share of occupations changes."""
    if not changes:
        return ""
    said = english.listed([f"{change:+z.2f} in {name}" for name, change in changes.items()])
    return f" The correlation of pronouns with women's share of occupations changes by {said}."


def turned_title(base: str, verdicts: Sequence[Verdict], made_from: str) -> tuple[str, str]:
    """Fig. 5: whether heads that worked against the stereotype work for it after debiasing; and
    what stands below the figure.
    """
    of_claim = [one for one in verdicts if one.claim == TURNED.id and one.estimate is not None]
    turned = [one.on for one in of_claim if one.outcome == Outcome.SUPPORTED]
    title = f"{base}'s anti-biased heads are not shown to turn biased by debiasing"
    if turned:
        title = f"Heads of {base} that worked against the stereotype work for it in "
        title += english.listed(turned)
    counts = [f"{one.estimate:.1f} in {one.on}" for one in of_claim]
    if of_claim and of_claim[0].control:
        counts.append(f"{of_claim[0].control.estimate:.1f} in {base} itself")
    below = f"turned, of {FOLLOWED}, on the other half of the sentences: {english.listed(counts)}; "
    framed = f"framed: the {FOLLOWED} lowest on all sentences, black once biased"
    return title, f"{below}{made_from}; {HATCHED}; {framed}"


def moved_title(moved: dict[str, stats.Estimate], way: str) -> str:
    """Whether scores in the base say which heads are biased in another model.

    moved   {model: correlation of the scores of all heads}
    """
    if all(found.is_above() for found in moved.values()):
        values = [f"{found.value:.2f}" for found in moved.values()]
        if len(values) > 2:
            values = [min(values), max(values)]
        return f"Head scores {way} correlate with the base's at {english.listed(values)}"
    if not any(found.is_above() for found in moved.values()):
        return f"Which heads are biased in the base does not tell which are {way}"
    return f"Which heads are biased in the base does not always tell which are {way}"


def pronounced_title(verdicts: Sequence[Verdict], made_from: str) -> tuple[str, str]:
    """Whether fewer heads stand out in a chat model; and what stands below the figure."""
    of_claim = [one for one in verdicts if one.claim == CHAT_HEADS.id and one.estimate is not None]
    said = []
    for one in of_claim:
        chat, _, base = one.on.partition(" against ")
        title = f"It cannot be told whether fewer heads stand out in {chat} than in {base}"
        if one.estimate.is_below():
            title = f"Fewer heads stand out in {chat} than in {base}"
        elif one.estimate.is_above():
            title = f"More heads stand out in {chat} than in {base}"
        said.append(title)
    counts = english.listed([f"{one.on}: {one.found}" for one in of_claim])
    framed = "framed: pronounced, beyond the base's upper fence"
    return english.listed(said), f"{counts}; {made_from}; {HATCHED}; {framed}"


# ---- sentences
def _listed(said: Sequence[str]) -> str:
    return "\n".join(f"- {sentence.strip()}" for sentence in said if sentence)


def _bullet(words: str, verdicts: Sequence[Verdict], claim: Claim, model: str, unit: str) -> str:
    """**A claim: supported.** 0.16 [0.13, 0.20] of something, in mini-bert."""
    one = _main(verdicts, claim, model)
    if one is None:
        return ""
    if one.outcome in (Outcome.NOT_RUN, Outcome.NOT_APPLICABLE):
        return f"**{words}: {one.outcome}** in {model}, since {one.reason}."
    return f"**{words}: {one.outcome}.** {one.estimate:+z.3f} {unit} in {model}."


def _each(words: str, verdicts: Sequence[Verdict], claim: Claim, unit: str, digits: int = 2) -> str:
    """**A claim: supported in a and inconclusive in b.** 3.0 [2.0, 4.0] heads in a and 1.0 in b.

    unit, digits   of the numbers
    """
    tested = _of_claim(verdicts, claim)
    if not tested:
        return ""
    sign = "+" if claim.side == Side.BELOW else ""  # of a change
    numbers = []
    for name, one in tested.items():
        unit_of = "" if numbers else f"{unit} "
        numbers.append(f"{one.estimate:{sign}z.{digits}f} {unit_of}in {name}")
    return f"**{words}: {by_model(tested)}.** {english.listed(numbers)}."


def _of_claim(verdicts: Sequence[Verdict], claim: Claim) -> dict[str, Verdict]:
    """The tests of a claim that have a number, by the model that each is on."""
    tested = {}
    for one in verdicts:
        if one.claim == claim.id and one.estimate is not None:
            tested[one.on.partition(" ")[0]] = one
    return tested


def _main(verdicts: Sequence[Verdict], claim: Claim, model: str) -> Verdict | None:
    """The test of a claim on a model, on gender, in the main variant."""
    for one in verdicts:
        is_main = not one.variant or one.variant == claim.main
        is_about = not one.models or model in one.models
        if one.claim == claim.id and is_main and is_about and "race" not in one.on:
            return one
    return None
