"""What notebooks 03, 05 and 06 find, of heads in use: sentences whose numbers are computed, and the
titles of figures.

A bullet says a claim of the paper, what it came to, and one number with its interval.
"""

from collections.abc import Sequence

import pandas as pd

from lib.bias_a_head import figures
from lib.bias_a_head.claims_attention import BIASED, CONTRAST, EXAMPLE, REGULAR
from lib.bias_a_head.claims_debiased import (
    CHAT_HEADS,
    CHAT_SEAT,
    FEWER,
    REMAIN,
    SEAT,
    TURNED,
)
from lib.bias_a_head.claims_glue import ALL, TOP3
from lib.bias_a_head.debiased import FOLLOWED
from lib.engine import stats
from lib.text import english
from lib.verdict import Claim, Outcome, Side, Verdict


# ---- 03
def of_attention(verdicts: Sequence[Verdict], studies: dict[str, tuple[str, str]]) -> str:
    """Five bullets in markdown; studies: {panel: (model, bias)}, as in claims.of_attention."""
    encoder, decoder = studies["4a"][0], studies["4b"][0]
    points = "percentage points of attention"
    said = [
        _bullet("Biased heads react more than regular ones", verdicts, CONTRAST, encoder, points),
        _bullet("The same in the decoder", verdicts, CONTRAST, decoder, points),
        _bullet("Biased heads attend more to the stereotyped word, by the paper's own test",
                verdicts, BIASED, encoder, "percentage points"),
        _bullet("Regular heads do not", verdicts, REGULAR, encoder, "of their attention"),
        _bullet("In the sentence of Fig. 3 biased heads look away from the swapped word",
                verdicts, EXAMPLE, encoder, "of the range of a head's attention"),
    ]  # fmt: skip
    return _listed(said)


def fig3_title(one: Verdict) -> str:
    """What one sentence shows over all biased heads.

    one   the verdict on claims_attention.EXAMPLE
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
    return "In this sentence biased heads do not clearly look away from the swapped word"


# ---- 05
def of_glue(verdicts: Sequence[Verdict], model: str) -> str:
    """Three bullets in markdown on Table 2."""
    said = [
        _bullet(
            "Masking the Top-3 leaves scores comparable", verdicts, TOP3, model, "of the score"
        ),
        _bullet("Masking all biased heads worsens them", verdicts, ALL, model, "of the score"),
    ]
    (every,) = [one for one in verdicts if one.claim == ALL.id]
    if every.control:
        beyond = every.control.difference
        more = "no less"
        if beyond.is_below():
            more = "less"
        elif beyond.is_above():
            more = "more"
        said.append(
            f"**As many random heads cost {more}**: All less random heads comes to {beyond:+z.3f}. "
            + (
                ""
                if beyond.is_below()
                else "So nothing shows that it matters which heads they are."
            )
        )
    return _listed(said)


def glue_title(verdicts: Sequence[Verdict], runs: pd.DataFrame, model: str) -> tuple[str, str]:
    """The title of the figure, and what stands below it: the numbers, and what they are of.

    runs   of glue.finished
    """
    top, every = verdicts
    if runs.empty:
        return (
            "No GLUE task is run with this model's weights: the crosses are the paper's changes",
            "BERT-base, as printed in Table 2",
        )
    if every.outcome == Outcome.NOT_RUN:
        title = "GLUE with heads masked: of the tasks that are run, the model has learned none"
        return title, f"{model}, GLUE, fine-tuned"
    beyond = every.control.difference if every.control else None
    below = f"Top-3 {top.estimate:+z.3f}, All {every.estimate:+z.3f}"
    if beyond:
        below += f", All less as many random heads {beyond:+z.3f}"
    n_seeds = every.estimate.n
    return (
        figures.glue_title(every.estimate, beyond),
        f"{below}; {n_seeds} seeds; {model}, GLUE, fine-tuned",
    )


# ---- 06
def of_debiased(verdicts: Sequence[Verdict]) -> str:
    """Five bullets in markdown on debiased models and the chat model."""
    said = [
        _each("Debiased models are less biased", verdicts, SEAT, "of |SEAT|"),
        _each("They have fewer biased heads", verdicts, FEWER, "heads"),
        _each("A number of biased heads remain", verdicts, REMAIN, "heads beyond chance"),
        _each("The most anti-biased heads turn biased", verdicts, TURNED, f"of {FOLLOWED} heads"),
        _each("The chat model is less biased", verdicts, CHAT_SEAT, "of |SEAT|"),
    ]
    return _listed(said)


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
    below = f"turned, of {FOLLOWED}, on the other half of the sentences: {english.listed(counts)}; "
    hatched = f"hatched: the interval includes 0; framed: the {FOLLOWED} lowest on all sentences"
    return title, f"{below}{made_from}; {hatched}, black once biased"


def moved_title(moved: dict[str, stats.Estimate], way: str) -> str:
    """Whether scores in the base say which heads are biased in another model.

    moved   {model: correlation of the scores of all heads}
    """
    if all(found.is_above() for found in moved.values()):
        return f"Mostly the same heads are biased {way}"
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
    counts = english.listed([one.found for one in of_claim])
    hatched = "hatched: the interval includes 0; framed: pronounced, beyond the base's upper fence"
    return english.listed(said), f"{counts}; {made_from}; {hatched}"


# ---- sentences
def _listed(said: Sequence[str]) -> str:
    return "\n".join(f"- {sentence}" for sentence in said if sentence)


def _bullet(words: str, verdicts: Sequence[Verdict], claim: Claim, model: str, unit: str) -> str:
    """**A claim: supported.** 0.16 [0.13, 0.20] of something, in mini-bert."""
    one = _main(verdicts, claim, model)
    if one is None:
        return ""
    if one.outcome in (Outcome.NOT_RUN, Outcome.NOT_APPLICABLE):
        return f"**{words}: {one.outcome}** in {model}, since {one.reason}."
    return f"**{words}: {one.outcome}.** {one.estimate:+z.3f} {unit} in {model}."


def _each(words: str, verdicts: Sequence[Verdict], claim: Claim, unit: str) -> str:
    """**A claim: supported in a and inconclusive in b.** The number is that of the first."""
    tested = [one for one in verdicts if one.claim == claim.id and one.estimate is not None]
    if not tested:
        return ""
    names = [one.on.partition(" ")[0] for one in tested]
    outcomes = [f"{one.outcome} in {name}" for one, name in zip(tested, names)]
    sign = "+" if claim.side == Side.BELOW else ""  # of a change
    number = f"{tested[0].estimate:{sign}z.2f} {unit} in {names[0]}"
    return f"**{words}: {english.listed(outcomes)}.** {number}."


def _main(verdicts: Sequence[Verdict], claim: Claim, model: str) -> Verdict | None:
    """The test of a claim on a model, on gender, in the main variant."""
    for one in verdicts:
        is_main = not one.variant or one.variant == claim.main
        is_about = not one.models or model in one.models
        if one.claim == claim.id and is_main and is_about and "race" not in one.on:
            return one
    return None
