"""The claims of Counteracts, each tested on every model of the families that it speaks of.

A claim is about what a sentence does to a preference, so it is scored by what becomes of the margin
(female - male) / (female + male) with the sentence: a mean over the groups of occupations, of women
and of men, that have a preference without it. It is judged in the full distribution, and at k = 3,
5 and 10 beside it: the paper's Fig. 2-4 are of these, but leave out what is not among the likeliest
tokens.

The analysis variant "main" has both groups of occupations, and all 58 occupations of Table 1. At
each k it counts the verbalizer made from the models' outputs, in full the pairs of the list. The
paper's 2,680 prompts are of 40 occupations (inferred), a variant of its own: more occupations make
intervals narrower. This was decided with the results of the 40 seen, and before the 58 were judged.
What another k, or another variant, comes to is named in the verdict's remark; on the board variants
have tests of their own.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from lib.counteracts import tables
from lib.counteracts.tables import FULL, LITTLE, K
from lib.engine.families import FAMILIES
from lib.engine.stats import Estimate, redrawn
from lib.verdict import (
    CONTROLS,
    UNTRAINED,
    Asks,
    Claim,
    Control,
    Outcome,
    Precondition,
    Side,
    Verdict,
    by_id,
    judge,
)

# A k is judged if this share of the prompts has a gendered token. With fewer, a margin would
# depend on a few prompts.
ENOUGH = 0.5


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One way to analyse the answers, where the paper leaves a choice."""

    pooled: bool = False  # all occupations in one group, as in tables.resampled
    # how prompts are written, one of cloze.FORMS, or FORTY; "": as in the paper, all occupations
    form: str = ""


FORTY = "40 occupations"  # those of WinoBias: the paper's own prompts, as inferred
VARIANTS = {
    "main": Variant(),
    FORTY: Variant(form=FORTY),
    "pooled": Variant(pooled=True),
    "no start token": Variant(form="no start token"),
}


# ---- what claims expect of the margins
# Scores take `side`, the sign of the base margin of each group, `base`, and one `after` per kind of
# knowledge, margins [draws, groups] of which the first draw is the sample. They are means over
# groups: [draws]. The side is the sample's in all draws. A claim about a preference gets the groups
# alone whose base margin is beyond LITTLE: of one near 0 the sign is luck.


def lean(side, base, after):
    """How far the base prompts lean."""
    return (side * base).mean(-1)


def change(side, base, after):
    """By how much the lean grows; below 0 it shrinks, or turns round."""
    return (side * (after - base)).mean(-1)


def remainder(side, base, after):
    """What is left of the lean; below 0 it is overturned."""
    return (side * after).mean(-1)


def shrinkage(side, base, after):
    """By how much the preference is smaller, whichever gender is preferred."""
    return (np.abs(base) - np.abs(after)).mean(-1)


def movement(side, base, after):
    """How far the gender that dominates an occupation gains or loses."""
    gain = (_toward_own(base) * (after - base)).mean(-1)
    return np.abs(gain)


def lead(side, base, first, second):
    """By how much more the first kind of knowledge moves the margin than the second."""
    return (np.abs(first - base) - np.abs(second - base)).mean(-1)


def _toward_own(margins: np.ndarray) -> np.ndarray:
    """The sign of the gender that dominates each group: occupations of women, of men.

    Pooled there is one group, where above 0 is the gender that dominates.
    """
    return np.array([1, -1])[: margins.shape[-1]]


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """What a claim expects of the margins, and what has to be there for it to be judged."""

    name: str
    score: Callable[..., np.ndarray]
    asks: Asks = Asks.EFFECT
    side: Side = Side.ABOVE
    threshold: float = 0.0
    margin: float = 0.0
    # It speaks of a preference, so there has to be one: a base margin beyond LITTLE.
    of_preference: bool = True
    # A margin beyond 1 - LITTLE could not grow by more than LITTLE: nothing is judged there.
    has_ceiling: bool = False
    # What knowledge does has to be more than what unrelated knowledge does.
    beyond_unrelated: bool = False
    # It says something only of a model that can be moved: the margin has to follow the gender that
    # is named in the occupation by more than LITTLE. A network that gives one answer to whatever it
    # reads keeps everything.
    of_sentence: bool = True


LEANS = Expectation(
    name="leans",
    score=lean,
    threshold=LITTLE,
    of_preference=False,
    of_sentence=False,
)
KEPT = Expectation(
    name="kept",
    score=change,
    asks=Asks.NO_EFFECT,
    side=Side.WITHIN,
    margin=LITTLE,
    has_ceiling=True,
)
OVERTURNED = Expectation(
    name="overturned",
    score=remainder,
    side=Side.BELOW,
    beyond_unrelated=True,
)
NOT_OVERTURNED = Expectation(
    name="not overturned",
    score=remainder,
    asks=Asks.NO_EFFECT,
)
ENLARGED = Expectation(
    name="enlarged",
    score=change,
    margin=LITTLE,
    has_ceiling=True,
    beyond_unrelated=True,
)
WEAKENED = Expectation(
    name="weakened",
    score=shrinkage,
    margin=LITTLE,
    beyond_unrelated=True,
)
MOVED = Expectation(
    name="moved",
    score=movement,
    threshold=LITTLE,
    of_preference=False,
    beyond_unrelated=True,
)
# Groups that move opposite ways conflict: their mean stays where it is.
UNCHANGED = Expectation(
    name="unchanged or conflicting",
    score=change,
    asks=Asks.NO_EFFECT,
    side=Side.WITHIN,
    margin=LITTLE,
    has_ceiling=True,
)
MORE = Expectation(
    name="first moves more",
    score=lead,
    margin=LITTLE,
    of_preference=False,
)


# ---- the claims
@dataclass(frozen=True, kw_only=True)
class ClozeClaim(Claim):
    """A claim of models of these families: what knowledge of these kinds does to the preference."""

    families: tuple[str, ...]
    kinds: tuple[str, ...]
    expectation: Expectation


def _claim(
    *,
    id: str,
    says: str,
    families: tuple[str, ...],
    kinds: tuple[str, ...],
    expectation: Expectation,
) -> ClozeClaim:
    """A claim of the section on results, with what all of them have in common."""
    return ClozeClaim(
        id=id,
        paper="counteracts",
        where="Results, Fig. 2-4",
        says=says,
        notebook="11",
        figure="11_fig2",
        short=f"{' over '.join(kinds)} | {expectation.name}",
        families=families,
        kinds=kinds,
        expectation=expectation,
        side=expectation.side,
        threshold=expectation.threshold,
        margin=expectation.margin,
        asks=expectation.asks,
        main=tables.k_name(FULL),
        on_any_data=True,
        # The gender-swapped control is a BERT. That a sentence moves a model is no stereotype.
        controls=CONTROLS if "bert" in families and expectation.of_preference else (UNTRAINED,),
    )


DRAWS = 2_000  # bootstrap samples, where a caller does not say how many

# Which families a claim is about: those that its words name, or all that this project knows.
ALL_MODELS = tuple(FAMILIES)
BERT = ("bert",)
ALBERT = ("albert",)
ROBERTA = ("roberta",)
GPT2 = ("gpt2",)

NEUTRAL = "target neutral"
NEUTRAL_OTHER = "target neutral background counter"
SYNTACTIC = "target syntactic similar"
SEMANTIC = "target semantic similar"
COUNTER_SYNTACTIC = "target counter syntactic similar"
COUNTER_SEMANTIC = "target counter semantic similar"
OTHER_SYNTACTIC = "background counter syntactic similar"
OTHER_SEMANTIC = "background counter semantic similar"

# In the order of the paper's section on results.
OF_ALL = [
    _claim(
        id="base-leans",
        says="All models lean to one gender in base prompts",
        families=ALL_MODELS,
        kinds=("base",),
        expectation=LEANS,
    ),
    _claim(
        id="unrelated-not-overturned",
        says="Unrelated knowledge does not overturn the preference",
        families=ALL_MODELS,
        kinds=("unrelated",),
        expectation=NOT_OVERTURNED,
    ),
]
OF_NEUTRAL = [
    _claim(
        id="gpt2-neutral",
        says="GPT-2: neutral knowledge leaves the preference as it is",
        families=GPT2,
        kinds=(NEUTRAL,),
        expectation=KEPT,
    ),
    _claim(
        id="gpt2-neutral-background",
        says="GPT-2: so does neutral knowledge of another job",
        families=GPT2,
        kinds=(NEUTRAL_OTHER,),
        expectation=KEPT,
    ),
    _claim(
        id="encoders-neutral",
        says="BERT, ALBERT, RoBERTa: neutral knowledge overturns the preference",
        families=BERT + ALBERT + ROBERTA,
        kinds=(NEUTRAL,),
        expectation=OVERTURNED,
    ),
    _claim(
        id="encoders-neutral-background",
        says="BERT, ALBERT, RoBERTa: so does neutral knowledge of another job",
        families=BERT + ALBERT + ROBERTA,
        kinds=(NEUTRAL_OTHER,),
        expectation=OVERTURNED,
    ),
]
OF_BERT = [
    _claim(
        id="bert-syntactic",
        says="BERT is sensitive to target syntactic knowledge",
        families=BERT,
        kinds=(SYNTACTIC,),
        expectation=MOVED,
    ),
    _claim(
        id="bert-background-syntactic",
        says="BERT is sensitive to background counter syntactic knowledge",
        families=BERT,
        kinds=(OTHER_SYNTACTIC,),
        expectation=MOVED,
    ),
    _claim(
        id="bert-semantic",
        says="BERT: target semantic knowledge changes nothing, or conflicts",
        families=BERT,
        kinds=(SEMANTIC,),
        expectation=UNCHANGED,
    ),
    _claim(
        id="bert-counter-syntactic",
        says="BERT: target counter syntactic knowledge changes nothing, or conflicts",
        families=BERT,
        kinds=(COUNTER_SYNTACTIC,),
        expectation=UNCHANGED,
    ),
    _claim(
        id="bert-counter-semantic",
        says="BERT: target counter semantic knowledge changes nothing, or conflicts",
        families=BERT,
        kinds=(COUNTER_SEMANTIC,),
        expectation=UNCHANGED,
    ),
    _claim(
        id="bert-background-semantic",
        says="BERT: background counter semantic knowledge changes nothing, or conflicts",
        families=BERT,
        kinds=(OTHER_SEMANTIC,),
        expectation=UNCHANGED,
    ),
]
OF_ALBERT = [
    _claim(
        id="albert-semantic",
        says="ALBERT: target semantic knowledge enlarges the preference",
        families=ALBERT,
        kinds=(SEMANTIC,),
        expectation=ENLARGED,
    ),
    _claim(
        id="albert-counter-syntactic",
        says="ALBERT: target counter syntactic knowledge overturns it",
        families=ALBERT,
        kinds=(COUNTER_SYNTACTIC,),
        expectation=OVERTURNED,
    ),
    _claim(
        id="albert-background-syntactic",
        says="ALBERT: background counter syntactic knowledge overturns it",
        families=ALBERT,
        kinds=(OTHER_SYNTACTIC,),
        expectation=OVERTURNED,
    ),
    _claim(
        id="albert-background-semantic",
        says="ALBERT: background counter semantic knowledge overturns it",
        families=ALBERT,
        kinds=(OTHER_SEMANTIC,),
        expectation=OVERTURNED,
    ),
    _claim(
        id="albert-counter-semantic",
        says="ALBERT: target counter semantic knowledge does not overturn it",
        families=ALBERT,
        kinds=(COUNTER_SEMANTIC,),
        expectation=NOT_OVERTURNED,
    ),
]
OF_ROBERTA = [
    _claim(
        id="roberta-syntactic",
        says="RoBERTa: target syntactic knowledge enlarges the preference",
        families=ROBERTA,
        kinds=(SYNTACTIC,),
        expectation=ENLARGED,
    ),
    _claim(
        id="roberta-semantic",
        says="RoBERTa: target semantic knowledge enlarges the preference",
        families=ROBERTA,
        kinds=(SEMANTIC,),
        expectation=ENLARGED,
    ),
    _claim(
        id="roberta-background-syntactic",
        says="RoBERTa: background counter syntactic knowledge overturns it",
        families=ROBERTA,
        kinds=(OTHER_SYNTACTIC,),
        expectation=OVERTURNED,
    ),
    _claim(
        id="roberta-counter-syntactic",
        says="RoBERTa: target counter syntactic knowledge makes the margin smaller",
        families=ROBERTA,
        kinds=(COUNTER_SYNTACTIC,),
        expectation=WEAKENED,
    ),
]
SYNTACTIC_OVER_SEMANTIC = _claim(
    id="syntactic-over-semantic",
    says="ALBERT, RoBERTa: syntactic counter-knowledge moves more than semantic",
    families=ALBERT + ROBERTA,
    kinds=(COUNTER_SYNTACTIC, COUNTER_SEMANTIC),
    expectation=MORE,
)
TESTED = [
    *OF_ALL,
    *OF_NEUTRAL,
    *OF_BERT,
    *OF_ALBERT,
    *OF_ROBERTA,
    SYNTACTIC_OVER_SEMANTIC,
]
GPT2_CONFLICTING = Claim(
    id="gpt2-conflicting",
    paper="counteracts",
    where="Results",
    says="GPT-2 has conflicting results on the other kinds of knowledge",
    not_testable="the paper names neither the kinds nor what conflicts",
)
FINETUNING = Claim(
    id="finetuning",
    paper="counteracts",
    where="Conclusion",
    says="Fine-tuning on counterexamples of like syntax makes outcomes neutral",
    not_testable="the paper prompts alone and fine-tunes nothing",
)
CLAIMS = by_id([*TESTED, GPT2_CONFLICTING, FINETUNING])


# ---- testing them
class Evidence(NamedTuple):
    """What claims are judged by: one model, one analysis variant, one k."""

    margins: dict[str, np.ndarray]  # by kind, of tables.resampled
    understood: pd.Series  # by kind, of tables.understood
    n: list[int]  # occupations of each group


def variants(
    answers: dict[str, dict],
    forms: dict[str, dict] | None = None,
    every: bool = False,
    draws: int | None = None,
    **about,
) -> list[dict[str, list[Verdict]]]:
    """What each claim comes to on each model of its families.

    For each pair of claim and model {variant: verdicts at k = 3, 5, 10 and in full}.

    answers   to the prompts of Table 1's occupations, of cloze.counted, by the name of the model
    forms     {model: answers by form}, as of cloze.measure_forms, for the variants of another form,
              and under FORTY the answers to the winobias prompts
    every     test each claim on each model, whatever its family: for models that cannot have the
              effect
    about     further arguments of `judge_margins`
    """
    evidence = {}
    for name, answer in answers.items():
        other_forms = forms.get(name, {}) if forms else {}
        evidence[name] = _evidence_by_variant(answer, other_forms, draws or DRAWS)
    results = []
    for claim in TESTED:
        for name, answer in answers.items():
            if every or answer["family"] in claim.families:
                results.append(_judge_variants(claim, name, evidence[name], about))
    return results


def _evidence_by_variant(
    answer: dict, other_forms: dict[str, dict], draws: int
) -> dict[str, list[Evidence]]:
    """For each variant of which a model has answers: the evidence at each k and in full. A variant
    is left out where its form is no other one for this model.
    """
    by_form = {"": answer} | tables.distinct(other_forms)
    evidence = {}
    for title, variant in VARIANTS.items():
        if variant.form not in by_form:
            continue
        mine = by_form[variant.form]
        evidence[title] = []
        for k in (*K, FULL):
            table = tables.by_occupation(mine, k)
            margins = tables.resampled(table, variant.pooled, draws)
            n = tables.n_by_group(table, variant.pooled)
            understood = tables.understood(mine, k)
            evidence[title].append(Evidence(margins, understood, n))
    return evidence


def _judge_variants(
    claim: ClozeClaim, name: str, evidence: dict[str, list[Evidence]], about: dict
) -> dict[str, list[Verdict]]:
    """The verdicts on a claim for one model: by variant, at each k and in full."""
    verdicts = {}
    for title, by_k in evidence.items():
        verdicts[title] = []
        for k, one in zip((*K, FULL), by_k):
            verdict = judge_margins(
                claim, one, on=name, variant=tables.k_name(k), models=[name], **about
            )
            verdicts[title].append(verdict)
    return verdicts


def judge_margins(
    claim: ClozeClaim, evidence: Evidence, ignore_preconditions: bool = False, **about
) -> Verdict:
    """Whether a claim is met in the margins.

    It is not applicable where less than ENOUGH of the prompts have a gendered token, where the
    margin does not follow a named gender, and where the base prompts have no preference that could
    change, or one too large to grow.

    ignore_preconditions   for controls; too few gendered tokens are not ignored even there, since
                           the full distribution is judged beside the top k
    about                  further fields of the Verdict
    """
    expects = claim.expectation
    margins = evidence.margins
    base = margins["base"]
    tokens = _enough_tokens(evidence.understood, claim.kinds)
    preconditions = [tokens]
    control = None
    if expects.beyond_unrelated:
        control = _unrelated_knowledge(claim, evidence)
    if expects.of_sentence:
        is_moved = _follows_named_gender(margins) > LITTLE
        why = "does not follow a named gender"
        preconditions.append(Precondition("follows a named gender", is_moved, why))
    if expects.of_preference:
        has_preference = bool(np.abs(base[0]).max() > LITTLE)
        why = "no preference in the base prompts"
        preconditions.append(Precondition("a preference in the base prompts", has_preference, why))
    if expects.has_ceiling:
        has_room = bool(np.abs(base[0]).max() <= 1 - LITTLE)
        preconditions.append(Precondition("room to grow", has_room, "at the ceiling"))
    return judge(
        claim,
        _estimate(claim, evidence, _scores(claim, evidence, claim.kinds)),
        preconditions=preconditions,
        control=control,
        ignore_preconditions=ignore_preconditions and tokens.is_met,
        **about,
    )


def _scores(claim: ClozeClaim, evidence: Evidence, kinds: tuple[str, ...]) -> np.ndarray:
    """What a claim expects, scored after knowledge of these kinds: [draws]."""
    groups = _groups(claim, evidence)
    base = evidence.margins["base"][:, groups]
    after = [evidence.margins[kind][:, groups] for kind in kinds]
    return claim.expectation.score(np.sign(base[0]), base, *after)


def _groups(claim: ClozeClaim, evidence: Evidence) -> np.ndarray:
    """Which groups of occupations a claim is scored by: of a preference those that have one."""
    has_preference = np.abs(evidence.margins["base"][0]) > LITTLE
    if claim.expectation.of_preference and has_preference.any():
        return has_preference
    return np.full_like(has_preference, True)


def _estimate(claim: ClozeClaim, evidence: Evidence, scores: np.ndarray) -> Estimate:
    """Of scores [draws], with the number of occupations that have part in them."""
    n = int(np.array(evidence.n)[_groups(claim, evidence)].sum())
    return redrawn(scores, n, "occupations")


def _unrelated_knowledge(claim: ClozeClaim, evidence: Evidence) -> Control:
    """The score after unrelated knowledge, and by how much that of the claim differs from it."""
    unrelated = _scores(claim, evidence, ("unrelated",))
    difference = _scores(claim, evidence, claim.kinds) - unrelated
    return Control(
        name="unrelated knowledge",
        estimate=_estimate(claim, evidence, unrelated),
        difference=_estimate(claim, evidence, difference),
    )


def _enough_tokens(understood: pd.Series, kinds: tuple[str, ...]) -> Precondition:
    """Whether enough prompts have a gendered token: base prompts, and those of the kinds."""
    share = float(understood[["base", *kinds]].min())
    why = f"gendered tokens in {share:.0%} of the prompts"
    return Precondition("gendered tokens", share >= ENOUGH, why)


def _follows_named_gender(margins: dict[str, np.ndarray]) -> float:
    """By how much the margin follows the gender that is named, in the group in which it is less.

    It is the difference between naming the gender that dominates the occupation and the other one.
    """
    difference = margins[SYNTACTIC][0] - margins[COUNTER_SYNTACTIC][0]
    return float((_toward_own(difference) * difference).min())


def overall(by_variant: dict[str, list[Verdict]]) -> Verdict:
    """The verdict in the full distribution, with the words of all k; a remark names the k and the
    variants that come to another outcome.
    """
    *at_k, main = by_variant["main"]
    remarks = []
    for one in at_k:
        if one.outcome not in (main.outcome, Outcome.NOT_APPLICABLE):
            remarks.append(f"{one.variant}: {one.outcome}")
    for title, verdicts in by_variant.items():
        outcome = verdicts[-1].outcome
        if outcome != main.outcome:
            remarks.append(f"{title}: {outcome}")
    found = [f"{one.variant} {_in_words(one)}" for one in by_variant["main"]]
    found[-1] = f"{main.variant} {main.estimate:z.2f}"
    return replace(main, found="; ".join(found), remark="; ".join(remarks))


def recorded(variants: list[dict[str, list[Verdict]]], main_alone: bool = False) -> list[Verdict]:
    """For the board: the verdicts in the full distribution, each followed by those of the other
    variants and by each k that is judged.

    main_alone   without these: of controls, which nothing but the first is held against
    """
    verdicts = []
    for by_variant in variants:
        if main_alone:
            verdicts.append(overall(by_variant))
            continue
        *at_k, _ = by_variant["main"]
        verdicts.append(replace(overall(by_variant), remark=""))
        for title, others in by_variant.items():
            if title != "main":
                verdicts.append(replace(others[-1], variant=title))
        verdicts += [one for one in at_k if one.outcome != Outcome.NOT_APPLICABLE]
    return verdicts


def table(variants: list[dict[str, list[Verdict]]]) -> pd.DataFrame:
    """One row per claim and model.

    Columns: model, knowledge, claim, the main variant at each k and in full, the outcomes of the
    other variants, verdict.
    """
    rows = []
    for by_variant in variants:
        main = by_variant["main"]
        claim = CLAIMS[main[0].claim]
        row = {
            "model": main[0].on,
            "knowledge": " over ".join(claim.kinds),
            "claim": claim.expectation.name,
        }
        for verdict in main:
            row[verdict.variant] = _in_words(verdict)
        for title in VARIANTS:
            if title != "main":
                has_it = title in by_variant
                row[title] = str(by_variant[title][-1].outcome) if has_it else ""
        row["verdict"] = str(overall(by_variant))
        rows.append(row)
    return pd.DataFrame(rows)


def _in_words(verdict: Verdict) -> str:
    if verdict.outcome == Outcome.NOT_APPLICABLE:
        return verdict.reason
    return str(verdict)
