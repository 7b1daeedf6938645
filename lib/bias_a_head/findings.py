"""What notebooks 02 and 04 find, in sentences whose numbers are computed: one number a sentence,
with its interval, and what it comes to.
"""

from collections.abc import Sequence

from lib.bias_a_head import tables
from lib.bias_a_head.claims_attention import BIASED, CONTRAST
from lib.bias_a_head.claims_masking import ALL_SEAT, AMPLIFY, BOTTOM3, TOP3_PPPL, TOP3_SEAT
from lib.bias_a_head.claims_scores import ALL_LAYERS, GRADIENT_SIGN, NEAR_ZERO, SMALL_SET
from lib.bias_a_head.claims_shared import beyond_chance
from lib.engine import stats
from lib.text import english
from lib.verdict import Claim, Outcome, Verdict

# of each notebook, the claims that another training can turn
RETRAINED = {
    "02": (SMALL_SET, GRADIENT_SIGN),
    "03": (CONTRAST, BIASED),
    "04": (TOP3_SEAT, TOP3_PPPL, AMPLIFY),
}
BUNDLED = "mini-bert"  # what was trained again


def of_scores(results: dict, verdicts: Sequence[Verdict], encoder: str) -> str:
    """Five bullets in markdown on the scores of heads.

    results    {(model, bias): heads.measure}, of both models on gender and race
    verdicts   of claims.of_scores
    """
    near, layers, small, sign = (
        _of(claim, verdicts, encoder) for claim in (NEAR_ZERO, ALL_LAYERS, SMALL_SET, GRADIENT_SIGN)
    )
    both = list(dict.fromkeys(model for model, _ in results))
    said = [
        _which_biases(results, encoder),
        f"**Most heads do next to nothing: {near.outcome}.** {_percent(near)} of {encoder}'s heads "
        "have a score within a twentieth of |SEAT|.",
        f"**Biased heads in all layers: {layers.outcome}.** "
        f"{layers.estimate.value:.0f} of {layers.estimate.n} layers have a head of positive score; "
        "a random pattern of signs would have one in nearly every layer too.",
        f"**A tenth of the heads carries most of the bias: {_small_set(verdicts, both)}.** In "
        f"{encoder} it carries {_percent(small)} of the score of all biased heads. By what "
        f"removing heads does: {_small_set(verdicts, both, 'ablation')}.",
        f"**The gradient tells what switching a head off does: {sign.outcome}.** It has the right "
        f"sign for {_percent(sign)} of {encoder}'s heads; nine in ten were asked for.",
    ]
    return "\n".join(f"- {sentence}" for sentence in said)


def _small_set(verdicts: Sequence[Verdict], models: Sequence[str], variant: str = "") -> str:
    """What a small set came to, by model: contradicted in a and inconclusive in b."""
    return by_model({model: _of(SMALL_SET, verdicts, model, variant) for model in models})


def by_model(tested: dict[str, Verdict]) -> str:
    """What a claim came to in each model: contradicted in a and inconclusive in b."""
    models_of = {}
    for model, one in tested.items():
        models_of.setdefault(str(one.outcome), []).append(model)
    return english.listed(
        [f"{outcome} in {english.listed(models)}" for outcome, models in models_of.items()]
    )


def _which_biases(results: dict, encoder: str) -> str:
    """On what SEAT is significant in which model."""
    of_gender = results[encoder, "gender"]
    there = {"gender": [], "race": []}
    for (model, bias), result in results.items():
        if beyond_chance(result, bias).is_met:
            there[bias].append(model)
    where = []
    for bias, found in there.items():
        where.append(f"on {bias} in {english.listed(found) if found else 'neither model'}")
    return (
        f"**A bias that heads could carry is there {' and '.join(where)}.** SEAT of gender is "
        f"{of_gender['seat']:.2f} in {encoder}."
    )


def of_masking(
    verdicts: Sequence[Verdict], encoder: str, most: tuple[int, stats.Estimate] | None = None
) -> str:
    """Five bullets in markdown on masks.

    most   the most top heads that leave a language model, and the change of |SEAT| without them
           less that without random heads which cost as much PPPL
    """
    top, cost, bottom, every, louder = (
        _of(claim, verdicts, encoder)
        for claim in (TOP3_SEAT, TOP3_PPPL, BOTTOM3, ALL_SEAT, AMPLIFY)
    )
    said = [
        f"**Masking the Top-3 lowers SEAT: {top.outcome}.** {_beyond_random(top)}",
        f"**It costs little: {cost.outcome}.** PPPL becomes {tables.ratio_text(cost.estimate)} "
        "times what it was.",
        _at_equal_pppl(*most) if most else "",
        f"**Masking all biased heads lowers SEAT no further: {every.outcome}.** {_why(every)}",
        f"**Masking the Bottom-3 raises SEAT: {bottom.outcome}; amplifying them lowers it: "
        f"{louder.outcome}.** Amplified: {_beyond_random(louder)}",
    ]
    return "\n".join(f"- {sentence}" for sentence in said if sentence)


def _at_equal_pppl(n_heads: int, beyond: stats.Estimate) -> str:
    """What so many top heads do to SEAT beyond random ones of equal PPPL; no claim is tested."""
    said = f"Random heads of equal PPPL may do as much as {n_heads} top heads"
    if beyond.is_below():
        said = f"{n_heads} top heads do more than random heads of equal PPPL"
    elif beyond.is_above():
        said = f"{n_heads} top heads do less than random heads of equal PPPL"
    return f"**{said}.** SEAT changes by {beyond:+z.2f} beyond what these do."


def of_retrainings(words: dict[str, str], notebook: str, encoder: str) -> str:
    """A paragraph, after the bullets, on what claims came to when mini-bert was trained again from
    other seeds; "" for another model, and where no retraining is stored.

    words   of retrainings.in_words
    """
    said = []
    for claim in RETRAINED[notebook]:
        if claim.id in words:
            short = claim.short[0].upper() + claim.short[1:]
            counted, _, over = words[claim.id].partition("; over them ")
            by_variant = " by variant" if ", " in over else ""
            together = f"; all together {over.replace(', ', ' or ')}{by_variant}" if over else ""
            said.append(f"*{short}*: {counted}{together}.")
    if encoder != BUNDLED or not said:
        return ""
    return (
        "\n\n**Trained again** from other seeds, on less text, and measured on the papers' data "
        f"(notebook 12): {' '.join(said)}"
    )


def of_patched(more: stats.Estimate, cost: stats.Estimate) -> str:
    """Whether three heads chosen by patching lower SEAT more than three chosen by the gradient.

    more   the change of |SEAT| under the first less that under the second
    cost   the PPPL under the first as a multiple of that under the second
    """
    said = "no better, as far as can be told, than"
    if more.is_below():
        said = "better than"
    elif more.is_above():
        said = "worse than"
    return (
        f"To lower SEAT, three heads chosen by patching are **{said}** three chosen by the "
        f"gradient: the difference is {more:+z.2f}. Their PPPL is {tables.ratio_text(cost)} times "
        "that of the others."
    )


def _why(one: Verdict) -> str:
    """The precondition that is not met, or else by how much more SEAT changes."""
    if one.outcome == Outcome.NOT_APPLICABLE:
        return f"It cannot be judged: {one.reason}."
    return f"SEAT changes by {one.estimate:+z.2f} more."


def _beyond_random(one: Verdict) -> str:
    """What a mask does to SEAT, beyond as many random heads where these were masked."""
    if one.outcome == Outcome.NOT_RUN:
        return "It was not run."
    if one.control is None:
        return f"SEAT changes by {one.estimate:+z.2f}."
    return f"SEAT changes by {one.control.difference:+z.2f} beyond what as many random heads do."


def _of(claim: Claim, verdicts: Sequence[Verdict], model: str, variant: str = "") -> Verdict:
    """The test of a claim on a model: on gender, in the paper's analysis variant unless another is
    named.
    """
    for one in verdicts:
        is_it = one.variant in ("", variant or claim.main)
        if one.claim == claim.id and one.models[0] == model and "race" not in one.on and is_it:
            return one
    return Verdict(claim.id, Outcome.NOT_RUN, estimate=stats.Estimate(float("nan")))


def _percent(one: Verdict) -> str:
    return f"{one.estimate:.0%}"
