"""The claims of Counteracts, each tested on every model of the families that it speaks of.

A claim is tested in several analysis variants (VARIANTS), each at k = 3, 5, 10 and in the full
distribution. The variant "main" is what the paper describes: the verbalizer made from the models'
outputs, both groups of occupations. The paper speaks of its Fig. 2-4 at once: a claim is supported
if it is met at every k that can be judged; where none can, the full distribution decides. Variants
that come to another outcome are named in the verdict's remark.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from lib.counteracts import tables
from lib.counteracts.tables import FULL, LITTLE, K
from lib.engine.stats import redrawn
from lib.verdict import (
    CONTROLS,
    UNTRAINED,
    Claim,
    Control,
    Outcome,
    Precondition,
    Verdict,
    by_id,
    judge,
)

ALONE = "in the full distribution alone"
# A k is judged if this share of the prompts has a gendered token. With fewer, a margin would
# depend on a few prompts.
ENOUGH = 0.5
WORST_FIRST = [Outcome.CONTRADICTED, Outcome.INCONCLUSIVE, Outcome.SUPPORTED]


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One way to analyse the answers, where the paper leaves a choice."""

    words: str = "outputs"  # the verbalizer that is counted
    pooled: bool = False  # all occupations in one group, as in tables.resampled
    form: str = ""  # how prompts are written, one of cloze.FORMS; "": as in the paper


VARIANTS = {
    "main": Variant(),
    "dictionary": Variant(words="whole pairs"),
    "pooled": Variant(pooled=True),
    "no start token": Variant(form="no start token"),
}


# ---- what claims expect of the margins
# Scores take `side`, the sign of the base margin in the same resample, `base`, and one `after` per
# kind of knowledge, all [draws, groups]. They are above zero where the expectation is met, in all
# groups unless a score says otherwise: [draws].


def leans(side, base, after):
    return np.abs(base).min(-1) - LITTLE


def kept(side, base, after):
    """The same preference, and a change of at most LITTLE."""
    same_side = (side * after).min(-1)
    little_change = LITTLE - np.abs(after - base).max(-1)
    return np.minimum(same_side, little_change)


def overturned(side, base, after):
    return -(side * after).max(-1)


def not_overturned(side, base, after):
    return (side * after).min(-1)


def enlarged(side, base, after):
    return (side * (after - base)).min(-1)


def weakened(side, base, after):
    return (np.abs(base) - np.abs(after)).min(-1)


def moved(side, base, after):
    return np.abs(after - base).min(-1) - LITTLE


def unchanged(side, base, after):
    """The groups do not all move the same way by more than LITTLE."""
    all_grow = (side * (after - base)).min(-1)
    all_shrink = (side * (base - after)).min(-1)
    return LITTLE - np.maximum(all_grow, all_shrink)


def first_moves_more(side, base, first, second):
    """In the mean over groups the first moves more than the second, and by more than LITTLE."""
    lead = (np.abs(first - base) - np.abs(second - base)).mean(-1)
    change = np.abs(first - base).mean(-1)
    return np.minimum(lead, change - LITTLE)


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """What a claim expects of the margins, and what has to be there for it to be judged."""

    name: str
    score: Callable[..., np.ndarray]
    # It speaks of a preference, so there has to be one: a base margin beyond LITTLE.
    of_preference: bool = True
    # A margin beyond 1 - LITTLE could not grow by more than LITTLE: nothing is judged there.
    has_ceiling: bool = False
    # Knowledge does something: it has to do more than unrelated knowledge does. An expectation that
    # is no effect says something only of a model that can be moved: its margin has to follow the
    # gender that is named in the occupation by more than LITTLE. A network that gives one answer to
    # whatever it reads keeps everything.
    is_effect: bool = False


LEANS = Expectation(
    name="leans",
    score=leans,
    of_preference=False,
)
KEPT = Expectation(
    name="kept",
    score=kept,
    has_ceiling=True,
)
OVERTURNED = Expectation(
    name="overturned",
    score=overturned,
    is_effect=True,
)
NOT_OVERTURNED = Expectation(
    name="not overturned",
    score=not_overturned,
)
ENLARGED = Expectation(
    name="enlarged",
    score=enlarged,
    has_ceiling=True,
    is_effect=True,
)
WEAKENED = Expectation(
    name="weakened",
    score=weakened,
    is_effect=True,
)
MOVED = Expectation(
    name="moved",
    score=moved,
    of_preference=False,
    is_effect=True,
)
UNCHANGED = Expectation(
    name="unchanged or conflicting",
    score=unchanged,
    has_ceiling=True,
)
MORE = Expectation(
    name="first moves more",
    score=first_moves_more,
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
        # The gender-swapped control is a BERT.
        controls=CONTROLS if "bert" in families else (UNTRAINED,),
    )


DRAWS = 2_000  # bootstrap samples, where a caller does not say how many

# Which families a claim is tested on. A new family is tested where it is added here.
BERT = ("bert",)
ALBERT = ("albert",)
ROBERTA = ("roberta",)
ENCODERS = ("bert", "roberta", "albert", "distilbert")
DECODERS = ("gpt2", "llama")  # what the paper says of GPT-2

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
        families=ENCODERS + DECODERS,
        kinds=("base",),
        expectation=LEANS,
    ),
    _claim(
        id="unrelated-not-overturned",
        says="Unrelated knowledge does not overturn the preference",
        families=ENCODERS + DECODERS,
        kinds=("unrelated",),
        expectation=NOT_OVERTURNED,
    ),
]
OF_NEUTRAL = [
    _claim(
        id="gpt2-neutral",
        says="GPT-2: neutral knowledge leaves the preference as it is",
        families=DECODERS,
        kinds=(NEUTRAL,),
        expectation=KEPT,
    ),
    _claim(
        id="gpt2-neutral-background",
        says="GPT-2: so does neutral knowledge of another job",
        families=DECODERS,
        kinds=(NEUTRAL_OTHER,),
        expectation=KEPT,
    ),
    _claim(
        id="encoders-neutral",
        says="BERT, ALBERT, RoBERTa: neutral knowledge overturns the preference",
        families=ENCODERS,
        kinds=(NEUTRAL,),
        expectation=OVERTURNED,
    ),
    _claim(
        id="encoders-neutral-background",
        says="BERT, ALBERT, RoBERTa: so does neutral knowledge of another job",
        families=ENCODERS,
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
    n: int = 0  # occupations


def variants(
    answers: dict[str, dict],
    forms: dict[str, dict] | None = None,
    every: bool = False,
    draws: int | None = None,
    **about,
) -> list[dict[str, list[Verdict]]]:
    """What each claim comes to on each model of its families.

    For each pair of claim and model {variant: verdicts at k = 3, 5, 10 and in full}.

    answers   to the winobias prompts, of cloze.counted, by the name of the model
    forms     {model: answers by form}, as of cloze.measure_forms, for the variants of another form
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
    """For each variant of which a model has answers: the evidence at each k and in full."""
    by_form = {"": answer} | other_forms
    n = len({row["occupation"] for row in answer["prompts"]})
    evidence = {}
    for title, variant in VARIANTS.items():
        if variant.form not in by_form:
            continue
        mine = by_form[variant.form]
        evidence[title] = []
        for k in (*K, FULL):
            table = tables.by_occupation(mine, k, variant.words)
            margins = tables.resampled(table, variant.pooled, draws)
            understood = tables.understood(mine, k, variant.words)
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
    after = [margins[kind] for kind in claim.kinds]
    scores = expects.score(np.sign(base), base, *after)
    control = None
    tokens = _enough_tokens(evidence.understood, claim.kinds)
    preconditions = [tokens]
    if expects.is_effect:
        control = _unrelated_knowledge(expects, evidence, scores)
    else:
        follows = _follows_named_gender(margins)
        scores = np.minimum(scores, follows)
        why = "does not follow a named gender"
        preconditions.append(Precondition("follows a named gender", follows[0] > 0, why))
    if expects.of_preference:
        preference = np.abs(base).min(-1) - LITTLE
        scores = np.minimum(scores, preference)
        why = "no preference in the base prompts"
        preconditions.append(
            Precondition("a preference in the base prompts", preference[0] > 0, why)
        )
    if expects.has_ceiling:
        has_room = np.abs(base[0]).max() <= 1 - LITTLE
        preconditions.append(Precondition("room to grow", has_room, "at the ceiling"))
    return judge(
        claim,
        redrawn(scores, evidence.n),
        preconditions=preconditions,
        control=control,
        ignore_preconditions=ignore_preconditions and tokens.is_met,
        **about,
    )


def _unrelated_knowledge(expects: Expectation, evidence: Evidence, scores: np.ndarray) -> Control:
    """The score after unrelated knowledge, and by how much `scores` are above it."""
    base = evidence.margins["base"]
    unrelated = expects.score(np.sign(base), base, evidence.margins["unrelated"])
    return Control(
        name="unrelated knowledge",
        estimate=redrawn(unrelated, evidence.n),
        difference=redrawn(scores - unrelated, evidence.n),
    )


def _enough_tokens(understood: pd.Series, kinds: tuple[str, ...]) -> Precondition:
    """Whether enough prompts have a gendered token: base prompts, and those of the kinds."""
    share = float(understood[["base", *kinds]].min())
    why = f"gendered tokens in {share:.0%} of the prompts"
    return Precondition("gendered tokens", share >= ENOUGH, why)


def _follows_named_gender(margins: dict[str, np.ndarray]) -> np.ndarray:
    """By how much more than LITTLE the margin follows the gender that is named: [draws].

    It is the difference between naming the gender that dominates the occupation and the other one,
    in the group in which it is smaller.
    """
    difference = margins[SYNTACTIC] - margins[COUNTER_SYNTACTIC]
    # Groups: female-dominated, male-dominated. Pooled there is one, where above 0 is the gender
    # that dominates.
    toward_own = np.array([1, -1])[: difference.shape[-1]]
    return (toward_own * difference).min(-1) - LITTLE


def over_k(verdicts: list[Verdict]) -> Verdict:
    """One verdict of those at k = 3, 5, 10 and in full.

    Of the k that can be judged that one at which the claim is met least; if none can, in full.
    """
    *at_k, full = verdicts
    applicable = [one for one in at_k if one.outcome != Outcome.NOT_APPLICABLE]
    if not applicable:
        return replace(full, remark=ALONE)

    def how_well_met(verdict: Verdict) -> tuple[int, float]:
        return WORST_FIRST.index(verdict.outcome), verdict.estimate.value

    worst = min(applicable, key=how_well_met)
    outcomes = {one.outcome for one in applicable}
    if len(outcomes) == 1:
        return worst
    return replace(worst, remark=f"decided at {worst.variant}")


def overall(by_variant: dict[str, list[Verdict]]) -> Verdict:
    """The verdict of the main variant; variants that come to another outcome are named."""
    main = over_k(by_variant["main"])
    remarks = [main.remark] if main.remark else []
    for title, verdicts in by_variant.items():
        outcome = over_k(verdicts).outcome
        if outcome != main.outcome:
            remarks.append(f"{title}: {outcome}")
    found = [f"{one.variant} {_in_words(one)}" for one in by_variant["main"]]
    return replace(main, found="; ".join(found), remark="; ".join(remarks))


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
                row[title] = str(over_k(by_variant[title]).outcome) if has_it else ""
        row["verdict"] = str(overall(by_variant))
        rows.append(row)
    return pd.DataFrame(rows)


def _in_words(verdict: Verdict) -> str:
    if verdict.outcome == Outcome.NOT_APPLICABLE:
        return verdict.reason
    return str(verdict)
