"""What notebook 02 finds, in sentences whose numbers are computed: one number a sentence,
with its interval, and what it comes to.
"""

from collections.abc import Sequence

from lib.bias_a_head.claims_attention import BIASED, CONTRAST
from lib.bias_a_head.claims_scores import ALL_LAYERS, GRADIENT_SIGN, NEAR_ZERO, SMALL_SET
from lib.bias_a_head.claims_shared import beyond_chance
from lib.engine import stats
from lib.text import english
from lib.verdict import Claim, Outcome, Verdict

# of each notebook, the claims that another training can turn
RETRAINED = {
    "02": (SMALL_SET, GRADIENT_SIGN),
    "03": (CONTRAST, BIASED),
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
