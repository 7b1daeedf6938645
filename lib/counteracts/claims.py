"""The claims of Counteracts, each tested on every model of the families that it is made of.

A claim is read several ways (READINGS), each at k = 3, 5, 10 and in the full distribution. The first variant is what
the paper describes: the verbalizer made from the models' outputs, both groups of occupations. The paper speaks of its
Fig. 2-4 at once: a claim holds where it is met at every k that can be judged, and where none can, the full distribution
decides. Readings that come to something else are named in the verdict's remark."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from lib.counteracts import tables
from lib.counteracts.tables import FULL, LITTLE, K
from lib.engine.families import FAMILIES
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
ENOUGH = 0.5  # of the prompts have a gendered token, or a k is not judged: below it most of a margin is a few prompts'
WORST_FIRST = [Outcome.CONTRADICTED, Outcome.INCONCLUSIVE, Outcome.SUPPORTED]
# the verbalizer that is counted, whether all occupations are pooled, and how a decoder's prompts are written
READINGS = {
    "main": ("outputs", False, ""),
    "dictionary": ("whole pairs", False, ""),
    "pooled": ("outputs", True, ""),
    "no start token": ("outputs", False, "no start token"),
}


@dataclass(frozen=True)
class Expectation:
    """What a claim expects of the margins. `score` is above zero where it is met: of `side`, the sign of the base
    margin in the same resample, `base` and one `after` per kind, all [draws, groups]; in all groups, unless it says so.
    of_preference   it speaks of a preference, so there has to be one: a base margin beyond LITTLE
    has_ceiling     a margin beyond 1 - LITTLE could not grow by more than LITTLE: nothing is judged there
    is_effect       knowledge does something: more than unrelated knowledge does. What is not an effect says something
                    only of a model that can be moved: the margin has to follow the gender that is named in the
                    occupation by more than LITTLE. A network that gives one answer to whatever it reads keeps all"""

    name: str
    score: Callable[..., np.ndarray]
    of_preference: bool = True
    has_ceiling: bool = False
    is_effect: bool = False


LEANS = Expectation(
    "leans", lambda side, base, after: np.abs(base).min(-1) - LITTLE, of_preference=False
)
KEPT = Expectation(
    "kept",
    lambda side, base, after: np.minimum(
        (side * after).min(-1), LITTLE - np.abs(after - base).max(-1)
    ),
    has_ceiling=True,
)
OVERTURNED = Expectation(
    "overturned", lambda side, base, after: -(side * after).max(-1), is_effect=True
)
NOT_OVERTURNED = Expectation("not overturned", lambda side, base, after: (side * after).min(-1))
ENLARGED = Expectation(
    "enlarged",
    lambda side, base, after: (side * (after - base)).min(-1),
    has_ceiling=True,
    is_effect=True,
)
WEAKENED = Expectation(
    "weakened", lambda side, base, after: (np.abs(base) - np.abs(after)).min(-1), is_effect=True
)
MOVED = Expectation(
    "moved",
    lambda side, base, after: np.abs(after - base).min(-1) - LITTLE,
    of_preference=False,
    is_effect=True,
)
# the groups do not all move the same way by more than LITTLE
UNCHANGED = Expectation(
    "unchanged or conflicting",
    lambda side, base, after: (
        LITTLE - np.maximum((side * (after - base)).min(-1), (side * (base - after)).min(-1))
    ),
    has_ceiling=True,
)
# and the first moves at all
MORE = Expectation(
    "first moves more",
    lambda side, base, first, second: np.minimum(
        (np.abs(first - base) - np.abs(second - base)).mean(-1),
        np.abs(first - base).mean(-1) - LITTLE,
    ),
    of_preference=False,
)


@dataclass(frozen=True, kw_only=True)
class ClozeClaim(Claim):
    """A claim of models of these families: what knowledge of these kinds does to the preference."""

    families: tuple[str, ...]
    kinds: tuple[str, ...]
    expectation: Expectation


def _claim(
    id: str, says: str, families: tuple[str, ...], expectation: Expectation, *kinds: str
) -> ClozeClaim:
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
        controls=CONTROLS if "bert" in families else (UNTRAINED,),
    )


BERT, ALBERT, ROBERTA = ("bert",), ("albert",), ("roberta",)
DECODERS = tuple(
    name for name, family in FAMILIES.items() if family.is_causal
)  # what the paper says of GPT-2
ENCODERS = tuple(name for name in FAMILIES if name not in DECODERS)
NEUTRAL, NEUTRAL_OTHER = "target neutral", "target neutral background counter"
SYNTACTIC, SEMANTIC = "target syntactic similar", "target semantic similar"
COUNTER_SYNTACTIC, COUNTER_SEMANTIC = (
    "target counter syntactic similar",
    "target counter semantic similar",
)
OTHER_SYNTACTIC, OTHER_SEMANTIC = (
    "background counter syntactic similar",
    "background counter semantic similar",
)
CLAIMS = by_id(
    [  # in the order of the paper's section on results
        _claim(
            "base-leans",
            "All models lean to one gender in base prompts",
            ENCODERS + DECODERS,
            LEANS,
            "base",
        ),
        _claim(
            "unrelated-not-overturned",
            "Unrelated knowledge does not overturn the preference",
            ENCODERS + DECODERS,
            NOT_OVERTURNED,
            "unrelated",
        ),
        _claim(
            "gpt2-neutral",
            "GPT-2: neutral knowledge leaves the preference as it is",
            DECODERS,
            KEPT,
            NEUTRAL,
        ),
        _claim(
            "gpt2-neutral-background",
            "GPT-2: so does neutral knowledge of another job",
            DECODERS,
            KEPT,
            NEUTRAL_OTHER,
        ),
        _claim(
            "encoders-neutral",
            "BERT, ALBERT, RoBERTa: neutral knowledge overturns the preference",
            ENCODERS,
            OVERTURNED,
            NEUTRAL,
        ),
        _claim(
            "encoders-neutral-background",
            "BERT, ALBERT, RoBERTa: so does neutral knowledge of another job",
            ENCODERS,
            OVERTURNED,
            NEUTRAL_OTHER,
        ),
        _claim(
            "bert-syntactic",
            "BERT is sensitive to target syntactic knowledge",
            BERT,
            MOVED,
            SYNTACTIC,
        ),
        _claim(
            "bert-background-syntactic",
            "BERT is sensitive to background counter syntactic knowledge",
            BERT,
            MOVED,
            OTHER_SYNTACTIC,
        ),
        *(
            _claim(
                f"bert-{id}",
                f"BERT: {kind.removesuffix(' similar')} knowledge changes nothing, or conflicts",
                BERT,
                UNCHANGED,
                kind,
            )
            for id, kind in (
                ("semantic", SEMANTIC),
                ("counter-syntactic", COUNTER_SYNTACTIC),
                ("counter-semantic", COUNTER_SEMANTIC),
                ("background-semantic", OTHER_SEMANTIC),
            )
        ),
        _claim(
            "albert-semantic",
            "ALBERT: target semantic knowledge enlarges the preference",
            ALBERT,
            ENLARGED,
            SEMANTIC,
        ),
        *(
            _claim(
                f"albert-{id}",
                f"ALBERT: {kind.removesuffix(' similar')} knowledge overturns it",
                ALBERT,
                OVERTURNED,
                kind,
            )
            for id, kind in (
                ("counter-syntactic", COUNTER_SYNTACTIC),
                ("background-syntactic", OTHER_SYNTACTIC),
                ("background-semantic", OTHER_SEMANTIC),
            )
        ),
        _claim(
            "albert-counter-semantic",
            "ALBERT: target counter semantic knowledge does not overturn it",
            ALBERT,
            NOT_OVERTURNED,
            COUNTER_SEMANTIC,
        ),
        *(
            _claim(
                f"roberta-{form}",
                f"RoBERTa: target {form} knowledge enlarges the preference",
                ROBERTA,
                ENLARGED,
                f"target {form} similar",
            )
            for form in ("syntactic", "semantic")
        ),
        _claim(
            "roberta-background-syntactic",
            "RoBERTa: background counter syntactic knowledge overturns it",
            ROBERTA,
            OVERTURNED,
            OTHER_SYNTACTIC,
        ),
        _claim(
            "roberta-counter-syntactic",
            "RoBERTa: target counter syntactic knowledge makes the margin smaller",
            ROBERTA,
            WEAKENED,
            COUNTER_SYNTACTIC,
        ),
        _claim(
            "syntactic-over-semantic",
            "ALBERT, RoBERTa: syntactic counter-knowledge moves more than semantic",
            ALBERT + ROBERTA,
            MORE,
            COUNTER_SYNTACTIC,
            COUNTER_SEMANTIC,
        ),
        Claim(
            "gpt2-conflicting",
            "counteracts",
            "Results",
            "GPT-2 has conflicting results on the other kinds of knowledge",
            not_testable="the paper names neither the kinds nor what conflicts",
        ),
        Claim(
            "finetuning",
            "counteracts",
            "Conclusion",
            "Fine-tuning on counterexamples of like syntax makes outcomes neutral",
            not_testable="the paper prompts alone and fine-tunes nothing",
        ),
    ]
)


def variants(
    answers: dict[str, dict],
    forms: dict[str, dict] | None = None,
    every: bool = False,
    draws: int = 2_000,
    **about,
) -> list[dict[str, list[Verdict]]]:
    """What each claim comes to on each model of its families, by variant: four verdicts, at k = 3, 5, 10 and in full.
    answers cloze.counted ones to the winobias prompts, by the name of the model
    forms   cloze.measure_forms of each model, where there is one: for the variants of another form
    every   on a model that cannot have the effect: each claim, whatever the family"""
    occupations = {
        name: len({row["occupation"] for row in answer["prompts"]})
        for name, answer in answers.items()
    }
    asked = {name: {"": answer} | (forms or {}).get(name, {}) for name, answer in answers.items()}
    seen = {
        name: {
            title: [
                (
                    tables.resampled(tables.by_occupation(by_form[form], k, words), pooled, draws),
                    tables.understood(by_form[form], k, words),
                    occupations[name],
                )
                for k in (*K, FULL)
            ]
            for title, (words, pooled, form) in READINGS.items()
            if form in by_form
        }
        for name, by_form in asked.items()
    }
    return [
        {
            title: [
                read(claim, *of_k, on=name, variant=tables.k_name(k), models=[name], **about)
                for k, of_k in zip((*K, FULL), four)
            ]
            for title, four in seen[name].items()
        }
        for claim in CLAIMS.values()
        if not claim.not_testable
        for name, answer in answers.items()
        if every or answer["family"] in claim.families
    ]


def read(
    claim: ClozeClaim,
    margins: dict[str, np.ndarray],
    understood: pd.Series,
    n: int = 0,
    ignore_preconditions: bool = False,
    **about,
) -> Verdict:
    """Whether a claim is met in the margins of tables.resampled. There is no case where less than ENOUGH of the prompts
    have a gendered token (on a control neither: the full distribution is read there too), where nothing follows a named
    gender, and where the base prompts have no preference that could change, or one too large to grow. n: occupations"""
    expects, kinds = claim.expectation, ["base", *claim.kinds]
    base, *after = (margins[kind] for kind in kinds)
    scores, control = expects.score(np.sign(base), base, *after), None
    share = float(understood[kinds].min())
    preconditions = [
        Precondition(
            "gendered tokens", share >= ENOUGH, f"gendered tokens in {share:.0%} of the prompts"
        )
    ]
    ignore_preconditions = ignore_preconditions and preconditions[0].is_met
    if expects.is_effect:
        without = expects.score(np.sign(base), base, margins["unrelated"])
        control = Control("unrelated knowledge", redrawn(without, n), redrawn(scores - without, n))
    else:
        own = np.array([1, -1])[
            : base.shape[-1]
        ]  # female-dominated, male-dominated; pooled: of the one that dominates
        follows = (own * (margins[SYNTACTIC] - margins[COUNTER_SYNTACTIC])).min(-1) - LITTLE
        scores = np.minimum(scores, follows)
        preconditions.append(
            Precondition("follows a named gender", follows[0] > 0, "does not follow a named gender")
        )
    if expects.of_preference:
        leans = np.abs(base).min(-1) - LITTLE
        scores = np.minimum(scores, leans)
        preconditions.append(
            Precondition(
                "a preference in the base prompts",
                leans[0] > 0,
                "no preference in the base prompts",
            )
        )
    if expects.has_ceiling:
        preconditions.append(
            Precondition("room to grow", np.abs(base[0]).max() <= 1 - LITTLE, "at the ceiling")
        )
    return judge(
        claim,
        redrawn(scores, n),
        preconditions=preconditions,
        control=control,
        ignore_preconditions=ignore_preconditions,
        **about,
    )


def over_k(four: list[Verdict]) -> Verdict:
    """One verdict of the four: of the k that can be judged the one at which the claim is met least; else in full."""
    *tops, full = four
    known = [variant for variant in tops if variant.outcome != Outcome.NOT_APPLICABLE]
    if not known:
        return replace(full, remark=ALONE)
    worst = min(
        known, key=lambda variant: (WORST_FIRST.index(variant.outcome), variant.estimate.value)
    )
    agree = len({variant.outcome for variant in known}) == 1
    return worst if agree else replace(worst, remark=f"decided at {worst.variant}")


def overall(lines: dict[str, list[Verdict]]) -> Verdict:
    """One verdict of all variants: the main one's; those that come to another outcome are named."""
    judged = {title: over_k(four) for title, four in lines.items()}
    main = judged["main"]
    differ = [
        f"{title}: {line.outcome}" for title, line in judged.items() if line.outcome != main.outcome
    ]
    found = "; ".join(f"{variant.variant} {_shown(variant)}" for variant in lines["main"])
    return replace(main, found=found, remark="; ".join(filter(None, [main.remark, *differ])))


def table(variants: list[dict[str, list[Verdict]]]) -> pd.DataFrame:
    """One row per claim and model: model, knowledge, claim, main variant at each k and in full, the others, verdict."""
    rows = []
    for lines in variants:
        main, claim = lines["main"], CLAIMS[lines["main"][0].claim]
        others = {
            title: str(over_k(lines[title]).outcome) if title in lines else ""
            for title in list(READINGS)[1:]
        }
        rows.append(
            {
                "model": main[0].on,
                "knowledge": " over ".join(claim.kinds),
                "claim": claim.expectation.name,
                **{four.variant: _shown(four) for four in main},
                **others,
                "verdict": str(overall(lines)),
            }
        )
    return pd.DataFrame(rows)


def _shown(variant: Verdict) -> str:
    return variant.reason if variant.outcome == Outcome.NOT_APPLICABLE else str(variant)
