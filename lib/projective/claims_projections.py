"""What Projective methods claims of projections and S and D, each claim beside its test.

Section 5, notebook 08. An interval over triples decides. A claim that counts several things, "all
of 24", is decided by their share, ties apart, with its interval: "all" is a share of 1. A best
setting is chosen on one half of the triples and judged on the other (split_half.py); what it does
is compared with random directions. Thresholds are ours where the paper gives none; margins are a
share of what it prints.

On the papers' data both of the authors' files decide (findings.files), and claims are judged on the
file that the paper uses as well; not those that are tested on S and on D.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lib.engine import stats
from lib.projective import split_half, tables
from lib.projective.claims_triples import BLIND
from lib.projective.findings import (
    BOTH_FILES,
    PAPERS_FILE,
    SHARE,
    Finding,
    ProjectiveClaim,
    beyond_random,
    counted,
    files,
    of_shares,
    share_met,
)
from lib.projective.projection import LEVELS, WRITTEN, Cut, Level, Setting, among
from lib.projective.split_half import EVERY, OF_LEVEL, PLACE, PLAIN, Halves
from lib.projective.triples import strength_lead
from lib.verdict import (
    EVERY_VARIANT,
    GENDER_SWAPPED,
    UNTRAINED,
    Asks,
    Precondition,
    Side,
    Verdict,
)

ALWAYS = 4 / 6  # the accuracy of calling every sentence of a triple pair the next one
UNIT = split_half.TRIPLE_PAIRS
ALL = 1.0  # of several things that are counted
LITTLE = 0.05  # "not very effective": less than this share of base's S or D, or this much of eta
SAME_RANKS = 0.9  # "relative ranks are unchanged": Spearman's rho over the 76 models
BOTH_CONTROLS = (UNTRAINED, GENDER_SWAPPED)
# What Table 5's best settings take away of base's S and D, and the best at SENT of D. A model whose
# S is half of BERT's can lose half as much: margins are shares of its own.
FALL_OF_S = (0.307 - 0.194) / 0.307
FALL_OF_D = (0.705 - 0.368) / 0.705
FALL_AT_SENT = (0.705 - 0.597) / 0.705
# What Table 7's best settings of all gain over the best plain ones.
GAIN_OF_S = (0.220 - 0.193) / 0.307
GAIN_OF_D = (0.422 - 0.368) / 0.705
# The four ways to cut at a place, in Table 7's order; HARD2 is two components whole, the paper's
# (0, 1).
HARD1 = Cut(weighted=False, second=False)
HARD2 = Cut(weighted=False, second=True)
WEIGHTED1 = Cut(weighted=True, second=False)
WEIGHTED2 = Cut(weighted=True, second=True)
CUTS = (HARD1, HARD2, WEIGHTED1, WEIGHTED2)

LOWER_S = ProjectiveClaim(
    id="lower-s",
    where="5, 6",
    says="Some projection lowers S below the base model's",
    in_paper=".307 to .193",
    notebook="08",
    figure="08_plane",
    controls=BOTH_CONTROLS,
    margin_from_data=True,
    main=BOTH_FILES,
)
LOWER_D = ProjectiveClaim(
    id="lower-d",
    where="5, 6",
    says="Some projection lowers D below the base model's",
    in_paper=".705 to .368",
    notebook="08",
    figure="08_plane",
    controls=BOTH_CONTROLS,
    margin_from_data=True,
    main=BOTH_FILES,
)
SENT_S = ProjectiveClaim(
    id="sent-s",
    where="5, Table 5",
    says="Projecting the sentence vector alone does little for S",
    short="SENT alone does little for S",
    in_paper="best S +0.3 %",
    notebook="08",
    figure="08_plane",
    side=Side.WITHIN,
    margin=LITTLE,
    controls=BOTH_CONTROLS,
    asks=Asks.NO_EFFECT,
    main=BOTH_FILES,
)
SENT_D = ProjectiveClaim(
    id="sent-d",
    where="5, Table 5",
    says="Projecting the sentence vector alone lowers D",
    short="SENT alone lowers D",
    in_paper=".705 to .597",
    notebook="08",
    figure="08_plane",
    controls=BOTH_CONTROLS,
    margin_from_data=True,
    main=BOTH_FILES,
)
SENT_DEBIAS = ProjectiveClaim(
    id="sent-debias",
    where="5, Table 5",
    says="The baseline sent-debias does little",
    in_paper="S .307 to .311, D .705 to .701",
    notebook="08",
    figure="08_plane",
    side=Side.WITHIN,
    margin=LITTLE,
    controls=BOTH_CONTROLS,
    asks=Asks.NO_EFFECT,
    main=EVERY_VARIANT,  # of S and of D
)
DEEPER_S = ProjectiveClaim(
    id="deeper-s",
    where="5, Table 5",
    says="Every deeper level reaches a lower S",
    short="Every deeper level has a better best S",
    in_paper="3 of 3: .308, .288, .246, .193",
    notebook="08",
    figure="08_plane",
    side=Side.AT_LEAST,
    threshold=ALL,
    controls=BOTH_CONTROLS,
    main=BOTH_FILES,
)
DEEPER_D = ProjectiveClaim(
    id="deeper-d",
    where="5, Table 5",
    says="Every deeper level reaches a lower D",
    short="Every deeper level has a better best D",
    in_paper="3 of 3: .597, .532, .449, .368",
    notebook="08",
    figure="08_plane",
    side=Side.AT_LEAST,
    threshold=ALL,
    controls=BOTH_CONTROLS,
    main=BOTH_FILES,
)
EXTEND_NP0 = ProjectiveClaim(
    id="extend-np0",
    where="5, observation 2",
    says="Extending SENT (np = 0) to layer 12 lowers S unless two components go unweighted",
    short="Of 4 extensions of SENT 0 to Layer 12 all lower S but (0, 1), two components unweighted",
    in_paper="3 of 3 lower it; (0, 1) does not",
    notebook="08",
    figure="08_plane",
    side=Side.AT_LEAST,
    threshold=ALL,
    controls=BOTH_CONTROLS,
    main=BOTH_FILES,
)
EXTEND_NP1 = ProjectiveClaim(
    id="extend-np1",
    where="5, observation 2",
    says="Extending SENT (np = 1) to layer 12 lowers S unless two components go unweighted",
    short="Of 4 extensions of SENT 1 to Layer 12 all lower S but (0, 1), two components unweighted",
    in_paper="3 of 3 lower it; (0, 1) does not",
    notebook="08",
    figure="08_plane",
    side=Side.AT_LEAST,
    threshold=ALL,
    controls=BOTH_CONTROLS,
    main=BOTH_FILES,
)
HARD2_WORST = ProjectiveClaim(
    id="hard2-worst",
    where="5, observation 2",
    says="At layer 11 two unweighted components give the worst S",
    short="At Layer 11 (0, 1) has the worst S, all else equal",
    in_paper="8 of 8",
    notebook="08",
    figure="08_plane",
    side=Side.AT_LEAST,
    threshold=ALL,
    controls=BOTH_CONTROLS,
    main=BOTH_FILES,
)
ATTENTION_LOWERS = ProjectiveClaim(
    id="attention-lowers",
    where="5, observation 3",
    says="Projecting attention lowers S of the 24 other settings",
    short="Attention lowers S of the 24 without (0, 1) at Layer 11",
    in_paper="24 of 24",
    notebook="08",
    figure="08_plane",
    side=Side.AT_LEAST,
    threshold=ALL,
    controls=BOTH_CONTROLS,
    main=BOTH_FILES,
)
ATTENTION_SPOILT = ProjectiveClaim(
    id="attention-spoilt",
    where="5, observation 3",
    says="Projecting attention does not lower S where two components go unweighted",
    short="Attention does not lower S of the 8 with it",
    in_paper="8 of 8",
    notebook="08",
    figure="08_plane",
    side=Side.AT_LEAST,
    threshold=ALL,
    controls=BOTH_CONTROLS,
    asks=Asks.NO_EFFECT,
    main=BOTH_FILES,
)
INGREDIENTS = ProjectiveClaim(
    id="ingredients",
    where="5, 6",
    says="It is worthwhile to search weighting and second components too",
    in_paper="in 4 and 5 of 6 best",
    notebook="08",
    figure="08_plane",
    controls=BOTH_CONTROLS,
    margin_from_data=True,
    main=EVERY_VARIANT,  # for S and for D
)
THRESHOLD = ProjectiveClaim(
    id="threshold",
    where="2",
    says="The threshold of 10 % does not change the ranks of the models",
    short="The threshold of 10 % does not change the ranks of the models by S",
    in_paper="said, not shown",
    notebook="08",
    figure="08_choices",
    side=Side.AT_LEAST,
    threshold=SAME_RANKS,
    bounds=(-1, 1),
    about_bert=True,
    asks=Asks.NO_EFFECT,
    main=BOTH_FILES,
)
OF_PROJECTIONS = [
    LOWER_S,
    LOWER_D,
    SENT_S,
    SENT_D,
    SENT_DEBIAS,
    DEEPER_S,
    DEEPER_D,
    EXTEND_NP0,
    EXTEND_NP1,
    HARD2_WORST,
    ATTENTION_LOWERS,
    ATTENTION_SPOILT,
    INGREDIENTS,
    THRESHOLD,
]


def of_projections(measured: dict, draws: int | None = None, **about) -> list[Verdict]:
    """The paper's statements on intrinsic bias, decided by the first fit.

    A remark says if other fits do not agree.
    measured   of projection.measure
    draws      bootstrap samples; split_half.DRAWS where it is left out
    about      further arguments of verdict.judge
    """
    draws = split_half.DRAWS if draws is None else draws
    verdicts = []
    for variant, chosen in files(measured["triples"]).items():
        for one in _on(among(measured, chosen), draws, about):
            if variant == PAPERS_FILE and one.variant:
                continue  # a test on S or on D, whose variants are these
            verdicts.append(replace(one, variant=one.variant or variant))
    claims = [claim.id for claim in OF_PROJECTIONS]
    verdicts.sort(key=lambda one: claims.index(one.claim))
    return verdicts


def _on(measured: dict, draws: int, about: dict) -> list[Verdict]:
    """`of_projections` on the triples of one analysis variant."""
    biased = _is_biased(measured)
    reads = _tells_what_follows(measured)
    halves_of_s = split_half.of_bias(measured, "S", draws)
    halves_of_d = split_half.of_bias(measured, "D", draws)
    n = measured["s"].shape[-1]
    rows = split_half.resampled_rows(n, draws, np.random.default_rng(0))
    every_s = split_half.top_means(measured, "s", rows)  # [fits and random choices, samples, 76]
    random_shares = _shares_of_random_directions(every_s[len(measured["fits"]) :])
    by_fit = []
    for at, fit in enumerate(measured["fits"]):
        of_s = [
            *_best_settings_of_s(halves_of_s[fit]),
            *_observations(every_s[at], random_shares, n),
            _threshold(every_s[at], measured["s"][at], rows),
        ]
        of_d = _best_settings_of_d(halves_of_d[fit])
        findings = [finding.under(biased) for finding in of_s]
        findings += [finding.under(reads) for finding in of_d]
        findings.sort(key=lambda finding: OF_PROJECTIONS.index(finding.claim))
        by_fit.append([finding.judged(**about) for finding in findings])
    return _decided_by_first(by_fit)


def _decided_by_first(by_fit: list[list[Verdict]]) -> list[Verdict]:
    """The verdicts of the first fit, with a remark where other fits come to another outcome."""
    decided = []
    for first, *others in zip(*by_fit):
        agree = sum(other.outcome == first.outcome for other in others)
        remark = ""
        if agree < len(others):
            remark = f"decided by {WRITTEN}; {agree} of {len(others)} other fits agree"
        decided.append(replace(first, remark=remark))
    return decided


# ---- preconditions, of the base model
def _is_biased(measured: dict) -> Precondition:
    """Claims on S ask for a stereotype to remove."""
    lead = strength_lead(measured["s"][0, 0])
    return Precondition(
        name="biased",
        is_met=lead.is_above(),
        why=f"S is not above its opposite: by {lead:z.2f}",
    )


def _tells_what_follows(measured: dict) -> Precondition:
    """Claims on D ask for a model that tells next sentences from unrelated ones."""
    share_right = stats.bootstrap(np.mean, measured["accuracy"][0, 0], draws=split_half.DRAWS)
    return Precondition(
        name="reads",
        is_met=share_right.low > ALWAYS,
        why=f"{BLIND}: {share_right} right",
    )


# ---- what the best settings do
def _best_settings_of_s(halves: Halves) -> list[Finding]:
    return [
        _lowers(LOWER_S, halves, EVERY, FALL_OF_S),
        _sent_does_little(halves),
        _sent_debias_does_little(halves, "S"),
        _every_deeper_level(DEEPER_S, halves),
        _search_is_worthwhile(halves, "S", GAIN_OF_S),
    ]


def _best_settings_of_d(halves: Halves) -> list[Finding]:
    return [
        _lowers(LOWER_D, halves, EVERY, FALL_OF_D),
        _lowers(SENT_D, halves, OF_LEVEL[Level.SENT], FALL_AT_SENT),
        _sent_debias_does_little(halves, "D"),
        _every_deeper_level(DEEPER_D, halves),
        _search_is_worthwhile(halves, "D", GAIN_OF_D),
    ]


def _lowers(
    claim: ProjectiveClaim, halves: Halves, among: Sequence[int], printed: float
) -> Finding:
    """By how much the best of some settings is below base, against random directions.

    printed   the fall that the paper has, as a share of base
    """
    best = halves.best(among)
    base = halves.of_base()[0]
    text = f"{base:.3f} to {best.judged.value:.3f}, {' or '.join(best.settings)}"
    margin = SHARE * printed * base
    return Finding(claim, best.change, text, control=beyond_random(best), margin=margin)


def _sent_does_little(halves: Halves) -> Finding:
    """What the best setting at SENT changes of S, as a share of base's."""
    best = halves.fitted(halves.choose(OF_LEVEL[Level.SENT]))
    change = _relative_change(halves, best)
    return Finding(SENT_S, change, f"best S {change:+.1%}")


def _sent_debias_does_little(halves: Halves, column: str) -> Finding:
    """What sent-debias changes of S or D, as a share of base's."""
    change = _relative_change(halves, halves.of_sent_debias())
    return Finding(SENT_DEBIAS, change, f"{column} {change:+.1%}", variant=column)


def _relative_change(halves: Halves, values: np.ndarray) -> stats.Estimate:
    with np.errstate(invalid="ignore"):  # 0 of 0
        return halves.estimate(values / halves.of_base() - 1)


def _every_deeper_level(claim: ProjectiveClaim, halves: Halves) -> Finding:
    """At how many of 3 steps inwards the best setting of a level is below the best before it."""
    steps = []
    for level in LEVELS:
        steps.append(halves.judged(halves.choose(OF_LEVEL[level])))
    falls = -np.diff(steps, axis=0)  # [3, 1 + random choices, 1 + draws]
    shares = share_met(falls[:, 0])
    shown = ", ".join(f"{value:.3f}" for value in np.array(steps)[:, 0, 0])
    text = f"{counted(falls[:, 0])}: {shown}"
    random_shares = share_met(falls[:, 1:].mean(1))
    return of_shares(claim, shares, text, halves.n, unit=halves.unit, random_shares=random_shares)


def _search_is_worthwhile(halves: Halves, column: str, printed: float) -> Finding:
    """By how much the best of all 74 is below the best of PLAIN (unweighted, one component).

    printed   what the paper gains by it, as a share of base
    """
    plain = halves.judged(halves.choose(PLAIN))
    every = halves.judged(halves.choose(EVERY))
    gain = halves.estimate((plain - every)[0])
    margin = SHARE * printed * halves.of_base()[0]
    text = f"best {column} lower by {gain:.3f}"
    return Finding(INGREDIENTS, gain, text, variant=column, margin=margin)


# ---- observations 2 and 3: counts on S
def _observations(S: np.ndarray, random_shares: np.ndarray, n: int) -> list[Finding]:
    """What observations 2 and 3 count on S [samples, 76] of n triple pairs.

    random_shares   of ATTENTION_LOWERS under random directions
    """
    sent0, sent1 = OF_LEVEL[Level.SENT]
    above_others = _hard2_above_others(S)
    lowered = _lowered_by_attention(S, with_hard2=False)
    spoilt = -_lowered_by_attention(S, with_hard2=True)
    return [
        _extension_lowers(EXTEND_NP0, S, sent0, n),
        _extension_lowers(EXTEND_NP1, S, sent1, n),
        _of_all(HARD2_WORST, above_others, n),
        _of_all(ATTENTION_LOWERS, lowered, n, random_shares),
        _of_all(ATTENTION_SPOILT, spoilt, n),
    ]


def _of_all(
    claim: ProjectiveClaim, differences: np.ndarray, n: int, random_shares: np.ndarray | None = None
) -> Finding:
    """The share of things [things, samples] that are as a claim says of all of them."""
    return of_shares(
        claim,
        share_met(differences),
        counted(differences),
        n,
        unit=UNIT,
        random_shares=random_shares,
    )


def _extension_lowers(claim: ProjectiveClaim, S: np.ndarray, sent: int, n: int) -> Finding:
    """Of the 4 extensions of SENT to layer 12, which do to S what the claim says of them."""
    falls = {}
    for cut in CUTS:
        extended = PLACE[replace(tables.MODELS[sent], cls=cut)]
        falls[cut] = S[:, sent] - S[:, extended]
    others = np.array([falls[cut] for cut in CUTS if cut != HARD2])
    does = "does too" if stats.settled(falls[HARD2][0]) > 0 else "does not"
    text = f"{counted(others)} lower it; (0, 1) {does}"
    as_said = np.vstack([others, -falls[HARD2]])
    return of_shares(claim, share_met(as_said), text, n, unit=UNIT)


def _hard2_above_others(S: np.ndarray) -> np.ndarray:
    """Of 8 settings with HARD2 at layer 11, how far S is above the highest of the other cuts."""
    above = []
    for setting in _deep_settings(with_hard2=True):
        others = [PLACE[replace(setting, tokens=cut)] for cut in CUTS if cut != HARD2]
        above.append(S[:, PLACE[setting]] - S[:, others].max(1))
    return np.array(above)


def _lowered_by_attention(S: np.ndarray, with_hard2: bool) -> np.ndarray:
    """How far attention lowers S of the 8 settings at layer 11 with HARD2, or of the other 24."""
    falls = []
    for setting in _deep_settings(with_hard2):
        falls.append(S[:, PLACE[setting]] - S[:, PLACE[replace(setting, attention=True)]])
    return np.array(falls)


def _deep_settings(with_hard2: bool) -> list[Setting]:
    """The settings of layer 11 that have HARD2 at the tokens, or those that have not."""
    deep = [tables.MODELS[i] for i in OF_LEVEL[Level.LAYER_11]]
    return [setting for setting in deep if (setting.tokens == HARD2) == with_hard2]


def _shares_of_random_directions(every_s: np.ndarray) -> np.ndarray:
    """ATTENTION_LOWERS' share under random directions, the mean over the choices of these."""
    shares = [share_met(_lowered_by_attention(S, with_hard2=False)) for S in every_s]
    return np.mean(shares, axis=0)


# ---- the threshold of 10 %
def _threshold(S: np.ndarray, s: np.ndarray, rows: np.ndarray) -> Finding:
    """How alike the models rank by S at 10 %, and at 5 % or 20 %: the lower rho of the two.

    S      at 10 %, [samples, 76]
    s      of the triple pairs, [76, pairs]
    rows   the triple pairs of each sample
    """
    at_5 = stats.rank_correlation(S, tables.tops(s[:, rows], 0.05).T)
    at_20 = stats.rank_correlation(S, tables.tops(s[:, rows], 0.2).T)
    lower = stats.redrawn(np.minimum(at_5, at_20), s.shape[-1], UNIT)
    text = f"rho {at_5[0]:.2f} with 5 %, {at_20[0]:.2f} with 20 %"
    return Finding(THRESHOLD, lower, text)
