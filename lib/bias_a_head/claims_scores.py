"""What Bias A-head claims of the scores of heads (Fig. 1 and 2), each claim beside its test.

Notebook 02. Intervals are over folds of the sentences for scores of heads, and over target words
for SEAT.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from lib.bias_a_head import tables
from lib.bias_a_head.claims_shared import (
    HEADS_MARGIN,
    PAPER,
    SEVERAL,
    SHARE,
    beyond_chance,
    exactly,
    seat_text,
)
from lib.engine import stats
from lib.verdict import (
    CONTROLS,
    UNTRAINED,
    Asks,
    Claim,
    Control,
    Precondition,
    Side,
    Verdict,
    judge,
)

# Of |SEAT|: what a head of "no major effect" changes at most, as far as the gradient predicts. It
# is part of the estimate, so the board cannot judge by another: run notebook 02 of all runs again.
NO_EFFECT = 0.05
SMALL = 0.1  # of all heads: "a small set" (the paper masks 3 of 144)
MOST = 0.5  # of what is carried: "mostly"
RIGHT_SIGN = 0.9  # of the heads: the paper says it of every one, and a score may lie at 0
HIGHEST = 10  # heads on race whose layers are counted

FIG1 = "02_fig1_distributions"
FIG2 = "02_fig2_heatmaps"


@dataclass(frozen=True, kw_only=True)
class Comparison(Claim):
    """A claim of a decoder beside an encoder, of the families that its words name."""

    decoder: str  # names of rows in lib/engine/families.py
    encoder: str


# GENDER_SWAPPED, a BERT that was trained on gender-swapped text, is a control for claims about
# gender in BERT; the others have UNTRAINED alone.
NEAR_ZERO = Claim(
    id="heads-near-zero",
    paper=PAPER,
    where="5.1, Fig. 1",
    says="Most heads have next to no effect on the bias",
    notebook="02",
    figure=FIG1,
    short="most heads have no major effect",
    side=Side.ABOVE,
    threshold=0.5,
    bounds=(0, 1),
    controls=CONTROLS,
    asks=Asks.NO_EFFECT,
)
RIGHT_TAIL = Claim(
    id="heads-right-tail",
    paper=PAPER,
    where="5.1, 6, Fig. 1",
    says="Several heads have a far higher bias score than the others",
    notebook="02",
    figure=FIG1,
    short="several heads stand out to the right",
    side=Side.AT_LEAST,
    threshold=SEVERAL,
    bounds=(0, np.inf),
    controls=CONTROLS,
)
ALL_LAYERS = Claim(
    id="heads-all-layers",
    paper=PAPER,
    where="5.1, 6, Fig. 2",
    says="Biased heads appear in all layers",
    notebook="02",
    figure=FIG2,
    short="biased heads appear in all layers",
    side=Side.AT_LEAST,
    controls=CONTROLS,
    threshold_from_data=True,  # the number of layers
    bounds=(0, 12),  # of a BERT that was trained again
)
SMALL_SET = Claim(
    id="heads-small-set",
    paper=PAPER,
    where="8",
    says="Biases are mostly encoded in a small set of heads",
    notebook="02",
    figure="02_small_set",
    short="a tenth of the heads carries most of the bias",
    side=Side.ABOVE,
    threshold=MOST,
    controls=CONTROLS,
    main="gradient",
)
GPT2_NEGATIVE = Comparison(
    id="heads-gpt2-negative",
    paper=PAPER,
    where="5.1, Fig. 1b",
    says="GPT-2 has more heads of pronounced negative score than BERT",
    decoder="gpt2",
    encoder="bert",
    notebook="02",
    figure=FIG1,
    short="GPT-2 has more pronounced negative heads than BERT",
    controls=(UNTRAINED,),
    margin=HEADS_MARGIN,
)
# Post hoc: the counts of the bundled models were known.
GPT2_FEWER = Comparison(
    id="heads-gpt2-fewer",
    paper=PAPER,
    where="5.1",
    says="GPT-2 has fewer biased heads than BERT",
    decoder="gpt2",
    encoder="bert",
    notebook="02",
    figure=FIG1,
    short="GPT-2 has fewer biased heads than BERT",
    side=Side.BELOW,
    controls=(UNTRAINED,),
    margin=HEADS_MARGIN,
)
RACE_HIGHER = Claim(
    id="heads-race-higher",
    paper=PAPER,
    where="6, footnote 13, Fig. 2c",
    says="On race some of the highest heads sit in higher layers",
    notebook="02",
    figure=FIG2,
    short="several of race's ten highest heads sit in the upper half",
    side=Side.AT_LEAST,
    threshold=SEVERAL,
    controls=(UNTRAINED,),
)
RACE_GPT2 = Comparison(
    id="heads-race-gpt2",
    paper=PAPER,
    where="footnote 13",
    says="GPT-2 is biased on race, as BERT is",
    decoder="gpt2",
    encoder="bert",
    notebook="02",
    figure=FIG2,
    short="GPT-2 is biased on race, as BERT is (footnote 13)",
    controls=(UNTRAINED,),
    margin=SHARE * 0.351,  # of GPT-2's SEAT on gender, footnote 9
)
SEAT_ORDER = Comparison(
    id="seat-order",
    paper=PAPER,
    where="footnote 9",
    says="GPT-2 is less biased than BERT by SEAT",
    decoder="gpt2",
    encoder="bert",
    notebook="02",
    figure=FIG1,
    short="GPT-2 is less biased than BERT by SEAT",
    side=Side.BELOW,
    controls=(UNTRAINED,),
    margin=SHARE * (1.35 - 0.351),
)
GRADIENT_SIGN = Claim(
    id="gradient-sign",
    paper=PAPER,
    where="3.2",
    says="The sign of a head's score is that of what its removal does to SEAT",
    notebook="02",
    figure="02_ablation",
    short="the gradient has the sign of the head's removal",
    side=Side.AT_LEAST,
    threshold=RIGHT_SIGN,
    bounds=(0, 1),
    controls=(),
    about_bert=True,
)
OF_SCORES = [
    NEAR_ZERO,
    RIGHT_TAIL,
    ALL_LAYERS,
    SMALL_SET,
    GPT2_NEGATIVE,
    GPT2_FEWER,
    RACE_HIGHER,
    RACE_GPT2,
    SEAT_ORDER,
    GRADIENT_SIGN,
]


@dataclass(frozen=True)
class Case:
    """The scores of all heads of one model on one bias."""

    model: str
    bias: str
    result: dict  # of heads.measure

    @property
    def on(self) -> str:
        return f"{self.model}, {self.bias}"

    @property
    def precondition(self) -> Precondition:
        return beyond_chance(self.result, self.bias)

    @property
    def no_effect(self) -> float:
        """The largest score of a head that has no major effect."""
        return NO_EFFECT * abs(self.result["seat"])

    @cached_property
    def intervals(self):
        return tables.intervals(self.result)

    @cached_property
    def resamples(self) -> np.ndarray:
        """[1 + draws, n_layers, n_heads]: the scores, then with folds resampled."""
        return tables.with_resamples(self.result)

    @cached_property
    def outliers(self) -> tuple[np.ndarray, np.ndarray]:
        """How many heads stand out to the left and to the right, [1 + draws] each."""
        return tables.outliers(self.resamples, (1, 2))


def of_scores(results: dict, ablations: dict, encoder: str, decoder: str, **about) -> list[Verdict]:
    """Verdicts on all claims of OF_SCORES.

    results     {(model, bias): heads.measure}, of both models on gender and race
    ablations   {model: heads.measure_ablation}
    about       options of `judge`
    """
    cases = {}
    for (model, bias), result in results.items():
        cases[model, bias] = Case(model, bias, result)
    verdicts = []
    for case in cases.values():
        verdicts.append(_near_zero(case, **about))
        verdicts.append(_right_tail(case, **about))
        verdicts.append(_all_layers(case, **about))
        verdicts.append(_small_set(case, **about))
    for model, ablation in ablations.items():
        verdicts.append(_small_set_by_ablation(cases[model, "gender"], ablation, **about))
    gpt2 = cases[decoder, "gender"]
    bert = cases[encoder, "gender"]
    verdicts.append(_gpt2_negative(gpt2, bert, **about))
    verdicts.append(_gpt2_fewer(gpt2, bert, **about))
    for model in (encoder, decoder):
        verdicts.append(_race_higher(cases[model, "race"], **about))
    verdicts.append(_race_gpt2(cases[decoder, "race"], cases[encoder, "race"], **about))
    verdicts.append(_seat_order(gpt2, bert, **about))
    for model, ablation in ablations.items():
        verdicts.append(_gradient_sign(cases[model, "gender"], ablation, **about))
    return verdicts


def _judged(
    claim: Claim, estimate: stats.Estimate | float, needed: list[Case], **options
) -> Verdict:
    """The verdict on a claim that is applicable where SEAT is significant in all `needed` cases.

    It is about their models, unless told otherwise.

    options   of `judge`; preconditions among them come first
    """
    models = list(dict.fromkeys(case.model for case in needed))
    preconditions = [*options.pop("preconditions", ()), *(case.precondition for case in needed)]
    return judge(claim, estimate, preconditions=preconditions, **{"models": models} | options)


def _compared(
    claim: Comparison,
    estimate: stats.Estimate | float,
    decoder: Case,
    encoder: Case,
    needed: list[Case],
    **options,
) -> Verdict:
    """The verdict on a comparison, about both models: applicable where they are of the families
    that the claim speaks of, too.
    """
    models = [decoder.model, encoder.model]
    unmet = []  # a family that is the claim's goes without saying: records keep what stops a claim
    for case, family in ((decoder, claim.decoder), (encoder, claim.encoder)):
        own = case.result["family"]
        if own != family:
            why = f"{case.model} is of the family {own}, the claim is of {family}"
            unmet.append(Precondition("family", False, why))
    return _judged(claim, estimate, needed, preconditions=unmet, models=models, **options)


def _of_heads(count: stats.Estimate) -> str:
    """A count of heads, and as a share: 2 [2, 5] of 144 heads, 1% [1%, 3%]."""
    return f"{count:.0f} of {count.n} heads, {count * (1 / count.n):.0%}"


def _near_zero(case: Case, **about) -> Verdict:
    """The share of heads whose whole interval is within NO_EFFECT of |SEAT|."""
    frame = case.intervals
    is_near = (frame.low > -case.no_effect) & (frame.high < case.no_effect)
    share = replace(stats.wilson(is_near), unit="heads")
    found = f"{share:.0%} of the heads within {NO_EFFECT:.0%} of |SEAT|"
    return _judged(NEAR_ZERO, share, [case], on=case.on, found=found, **about)


def _right_tail(case: Case, **about) -> Verdict:
    """How many heads are beyond the upper Tukey fence."""
    n = case.result["scores"].size
    left, right = (tables.interval_of_count(counts, n) for counts in case.outliers)
    found = f"{_of_heads(right)}; {_of_heads(left)} to the left"
    return _judged(RIGHT_TAIL, right, [case], on=case.on, found=found, **about)


def _all_layers(case: Case, **about) -> Verdict:
    """How many layers have a head of positive score; the threshold is the number of layers."""
    frame = case.intervals
    layers = tables.layers_with_biased_heads(frame)
    n_above = (frame.low > 0).sum()
    found = (
        f"{layers.value:.0f} of {layers.n} layers have a head of positive score, {layers.low:.0f} "
        f"one whose interval lies above 0; {n_above} such heads, {0.025 * len(frame):.1f} expected "
        "without any effect"
    )
    return _judged(ALL_LAYERS, layers, [case], on=case.on, found=found, threshold=layers.n, **about)


def _small_set(case: Case, **about) -> Verdict:
    """What share of the score of all biased heads the SMALL set carries, by the gradient."""
    share, random = tables.share_carried(case.result, SMALL)
    found = "heads called biased on one half are not on the other"
    if share.has_interval:
        found = f"{share:.0%} of the gradient, at random {random:.0%}"
    control = Control("random biased heads", exactly(random), share - random)
    return _judged(
        SMALL_SET,
        share,
        [case],
        on=case.on,
        found=found,
        variant="gradient",
        control=control,
        **about,
    )


def _small_set_by_ablation(case: Case, ablation: dict, **about) -> Verdict:
    """The same share of what removing heads one by one does."""
    share = tables.share_carried_by_ablation(ablation, SMALL)
    found = f"{share:.0%} of what removing heads one by one does"
    return _judged(SMALL_SET, share, [case], on=case.on, found=found, variant="ablation", **about)


def _gpt2_negative(gpt2: Case, bert: Case, **about) -> Verdict:
    """How many more heads of GPT-2 than of BERT are beyond the lower Tukey fence."""
    in_gpt2, _ = gpt2.outliers
    in_bert, _ = bert.outliers
    more = tables.interval_of_count(in_gpt2 - in_bert, gpt2.result["scores"].size)
    found = f"{in_gpt2[0]} against {in_bert[0]}: {_of_heads(more)} more"
    return _compared(
        GPT2_NEGATIVE, more, gpt2, bert, [gpt2, bert], on="gender", found=found, **about
    )


def _gpt2_fewer(gpt2: Case, bert: Case, **about) -> Verdict:
    """How many more heads of GPT-2 than of BERT have a positive score, on the same sentences."""
    in_gpt2, in_bert = ((stats.settled(case.resamples) > 0).sum((1, 2)) for case in (gpt2, bert))
    more = tables.interval_of_count(in_gpt2 - in_bert, gpt2.result["scores"].size)
    found = f"{in_gpt2[0]} against {in_bert[0]}: {_of_heads(more)} more"
    return _compared(GPT2_FEWER, more, gpt2, bert, [gpt2, bert], on="gender", found=found, **about)


def _race_higher(case: Case, **about) -> Verdict:
    """How many of the highest heads are in the upper half of the layers."""
    n_layers, n_heads = case.result["scores"].shape
    n_top = min(HIGHEST, n_layers * n_heads)
    flat = case.resamples.reshape(len(case.resamples), -1)
    top = np.argsort(-flat, axis=1, kind="stable")[:, :n_top]
    in_upper_half = top // n_heads >= n_layers / 2
    count = tables.interval_of_count(in_upper_half.sum(1), n_top)
    random = n_top * (n_layers // 2) / n_layers
    found = f"{_of_heads(count)} in the upper half of the layers, {random:.1f} at random"
    control = Control("as many random heads", exactly(random), count - random)
    return _judged(RACE_HIGHER, count, [case], on=case.model, found=found, control=control, **about)


def _race_gpt2(gpt2: Case, bert: Case, **about) -> Verdict:
    """SEAT of GPT-2 on race; BERT's has to be significant."""
    found = f"{seat_text(gpt2.result)}; {bert.model} {seat_text(bert.result)}"
    seat = tables.seat_interval(gpt2.result)
    on = f"{gpt2.model} beside {bert.model}"
    return _compared(RACE_GPT2, seat, gpt2, bert, [bert], on=on, found=found, **about)


def _seat_order(gpt2: Case, bert: Case, **about) -> Verdict:
    """|SEAT| of GPT-2 minus BERT's; the same target words are resampled for both."""
    change = abs(gpt2.result["seat"]) - abs(bert.result["seat"])
    if "s" in gpt2.result and "s" in bert.result:
        of_gpt2 = np.abs(tables.resampled_seats(gpt2.result))
        of_bert = np.abs(tables.resampled_seats(bert.result))
        n = len(gpt2.result["s"])
        change = tables.percentile_interval(change, of_gpt2 - of_bert, n=n, unit="words")
    found = f"{seat_text(gpt2.result)}; {seat_text(bert.result)}"
    on = f"{gpt2.model} against {bert.model}"
    return _compared(SEAT_ORDER, change, gpt2, bert, [bert], on=on, found=found, **about)


def _gradient_sign(case: Case, ablation: dict, **about) -> Verdict:
    """The share of heads whose gradient has the sign of what removing the head does."""
    share = tables.same_sign(ablation)
    if share.n < case.result["scores"].size:  # there are more than were switched off
        share = replace(share, unit="heads tried")
    found = f"in {share:.0%} of {share.n} heads"
    return _judged(GRADIENT_SIGN, share, [case], on=case.model, found=found, **about)
