"""What Projective methods claims of natural language inference, each claim beside its test.

Section 5, notebook 09. An interval over occupations or over pairs of the task decides. A claim that
counts several things, "in all 37 pairs", is decided by their share, ties apart, with its interval:
"all" is a share of 1. Viable is within 5 points of base. Thresholds are ours where the paper gives
none; margins are a share of what it prints.

Claims are tested under both fits and, where eta matters, both analysis variants of parity. The main
variant is the paper's words: subspaces of the differences between gender-swapped inputs, which for
a classifier are premises with hypotheses, and an occupation has parity if the prediction "does not
depend on gender", whatever the context.
"""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from lib.engine import stats
from lib.engine.stats import Estimate
from lib.projective import nli, split_half, tables
from lib.projective.claims_projections import ALL, LITTLE
from lib.projective.findings import (
    SAME,
    SHARE,
    Finding,
    ProjectiveClaim,
    beyond_random,
    counted,
    of_shares,
    share_met,
)
from lib.projective.projection import LEVELS, Level
from lib.projective.split_half import AGREE, EVERY, OF_LEVEL, Halves
from lib.verdict import UNTRAINED, Asks, Precondition, Side, Verdict, judge

# "not correlated": |rho| below it; over 76 models an interval reaches about .23 each way.
UNCORRELATED_WITHIN = 0.3
# The gender-swapped model is no control of inference: its classifier has learned from ordinary
# pairs, in which gender was not swapped.
WITHOUT_SWAPPED = (UNTRAINED,)
ACCURACY = nli.PAIRS  # the main variant of claims on accuracy at the task
PARITY = f"{nli.PAIRS}; all agree"  # and of claims on eta
TASK_PAIRS = "pairs of the task"

NP_ALL = ProjectiveClaim(
    id="np-all",
    where="5, observation 1",
    says="Weighting at SENT raises SNLI accuracy in all 37 pairs of models",
    in_paper="37 of 37",
    notebook="09",
    figure="09_table6_dots",
    side=Side.AT_LEAST,
    threshold=ALL,
    controls=WITHOUT_SWAPPED,
    about_bert=True,
    asks=Asks.COST,
    main=ACCURACY,
)
NP_MEAN = ProjectiveClaim(
    id="np-mean",
    where="5, Table 6",
    says="Weighting at SENT raises SNLI accuracy on average",
    in_paper="+.058",
    notebook="09",
    figure="09_table6_dots",
    controls=WITHOUT_SWAPPED,
    about_bert=True,
    asks=Asks.COST,
    margin=SHARE * 0.058,
    main=ACCURACY,
)
NP_LAYER12 = ProjectiveClaim(
    id="np-layer12",
    where="5, observation 1",
    says="At layer 12 models are viable with weighting at SENT, not without",
    in_paper="4 of 4, 0 of 4",
    notebook="09",
    figure="09_tradeoff",
    side=Side.AT_LEAST,
    threshold=ALL,
    controls=WITHOUT_SWAPPED,
    about_bert=True,
    asks=Asks.COST,
    main=ACCURACY,
)
NP_DEEP = ProjectiveClaim(
    id="np-deep",
    where="5, observation 1",
    says="All viable deeper models weight at SENT",
    in_paper="all (Table 7: 13 of 14)",
    notebook="09",
    figure="09_tradeoff",
    side=Side.AT_LEAST,
    threshold=ALL,
    controls=WITHOUT_SWAPPED,
    about_bert=True,
    asks=Asks.COST,
    main=ACCURACY,
)
DEEPER_SNLI = ProjectiveClaim(
    id="deeper-snli",
    where="5",
    says="The deeper the intervention, the lower the SNLI accuracy",
    in_paper="yes",
    notebook="09",
    figure="09_tradeoff",
    side=Side.AT_LEAST,
    threshold=ALL,
    controls=WITHOUT_SWAPPED,
    about_bert=True,
    asks=Asks.COST,
    main=ACCURACY,
)
ATTN_VIABLE = ProjectiveClaim(
    id="attn-viable",
    where="5",
    says="Projecting attention costs viability: fewer of its 32 settings are viable",
    in_paper="said (Table 7: 8 and 6 of 32)",
    notebook="09",
    figure="09_tradeoff",
    controls=WITHOUT_SWAPPED,
    about_bert=True,
    asks=Asks.COST,
    margin=SHARE * (8 - 6) / 32,
    main=ACCURACY,
)
ETA_HIGHER = ProjectiveClaim(
    id="eta-higher",
    where="5, Table 5",
    says="Some viable model is fairer at NLI than base",
    in_paper=".038 to .649 (Table 7: .526)",
    notebook="09",
    figure="09_tradeoff",
    controls=WITHOUT_SWAPPED,
    about_bert=True,
    margin=SHARE * (0.649 - 0.038),
    main=PARITY,
)
ETA_RISES = ProjectiveClaim(
    id="eta-rises",
    where="5, Table 5",
    says="The best viable fairness rises from SENT to layer 12 to layer 11",
    in_paper=".123, .137, .649 (Table 7: .32)",
    notebook="09",
    figure="09_tradeoff",
    side=Side.AT_LEAST,
    threshold=ALL,
    controls=WITHOUT_SWAPPED,
    about_bert=True,
    main=PARITY,
)
ETA_ATTN = ProjectiveClaim(
    id="eta-attn",
    where="5, Table 5",
    says="Projecting attention sets no new best in fairness",
    in_paper=".412, before .649 (Table 7: .53, .32)",
    notebook="09",
    figure="09_tradeoff",
    side=Side.AT_MOST,
    controls=WITHOUT_SWAPPED,
    about_bert=True,
    asks=Asks.NO_EFFECT,
    main=PARITY,
)
SENT_DEBIAS_ETA = ProjectiveClaim(
    id="sent-debias-eta",
    where="5, Table 5",
    says="The baseline sent-debias does little for fairness at NLI",
    in_paper=".0375 to .0377",
    notebook="09",
    figure="09_tradeoff",
    side=Side.WITHIN,
    margin=LITTLE,
    controls=WITHOUT_SWAPPED,
    about_bert=True,
    asks=Asks.NO_EFFECT,
    main=PARITY,
)
UNCORRELATED = ProjectiveClaim(
    id="uncorrelated",
    where="5",
    says="Strength and NLI fairness are not correlated over the 76 models",
    in_paper="rho .04, p = .73",
    notebook="09",
    figure="09_strength",
    side=Side.WITHIN,
    margin=UNCORRELATED_WITHIN,
    bounds=(-1, 1),
    controls=WITHOUT_SWAPPED,
    about_bert=True,
    asks=Asks.NO_EFFECT,
    main=PARITY,
)
OTHER_SETTINGS = ProjectiveClaim(
    id="other-settings",
    where="5, 6",
    says="Choosing by the lowest S is not choosing the fairest at NLI",
    in_paper="yes",
    notebook="09",
    figure="09_strength",
    controls=WITHOUT_SWAPPED,
    about_bert=True,
    margin=LITTLE,
    main=PARITY,
)
OF_NLI = [
    NP_ALL,
    NP_MEAN,
    NP_LAYER12,
    NP_DEEP,
    DEEPER_SNLI,
    ATTN_VIABLE,
    ETA_HIGHER,
    ETA_RISES,
    ETA_ATTN,
    SENT_DEBIAS_ETA,
    UNCORRELATED,
    OTHER_SETTINGS,
]


def of_nli(measured: dict, strength: pd.Series, draws: int | None = None, **about) -> list[Verdict]:
    """What the paper says of NLI in section 5, under all analysis variants.

    measured   of nli.measure
    strength   S of the 76 models, by name
    draws      bootstrap samples; split_half.DRAWS where it is left out
    about      further arguments of verdict.judge
    """
    draws = split_half.DRAWS if draws is None else draws
    preconditions = _preconditions(measured)
    verdicts = []
    for finding in _findings(measured, strength, draws):
        verdicts.append(finding.under(*preconditions).judged(**about))
    claims = [claim.id for claim in OF_NLI]
    verdicts.sort(key=lambda verdict: claims.index(verdict.claim))
    return verdicts


def _findings(measured: dict, strength: pd.Series, draws: int) -> list[Finding]:
    """What each claim finds under each fit and, where eta matters, each variant of parity."""
    findings = []
    for fit in measured["fits"]:
        for finding in _of_accuracy(measured, fit, draws):
            findings.append(replace(finding, variant=fit))
        for agree in AGREE:
            for finding in _of_eta(measured, fit, agree, strength, draws):
                findings.append(replace(finding, variant=f"{fit}; {agree} agree"))
    return findings


def _preconditions(measured: dict) -> tuple[Precondition, Precondition]:
    """The base model has to differ between pairs, and to know the task."""
    right = measured["right"][0][0]
    share_right = stats.wilson(right)
    return (
        Precondition(
            name="differs",
            is_met=np.ptp(measured["probabilities"][0][0], axis=0).max() > SAME,
            why="the classifier gives all pairs the same probabilities",
        ),
        Precondition(
            name="task",
            is_met=share_right.low > 1 / 3,
            why=f"the classifier does not know the task: {share_right} of {len(right)} right",
        ),
    )


# ---- accuracy at the task, its pairs resampled
@dataclass(frozen=True)
class _Accuracy:
    """The accuracy of the 76 models at the task, and which are viable: the sample, then others."""

    accuracy: np.ndarray  # [1 + draws, 76]
    viable: np.ndarray  # [1 + draws, 76]
    n: int  # pairs of the task

    def viable_at(self, *levels: Level, weighted: int | None = None) -> np.ndarray:
        """How many models of some levels are viable, of one np where it is given: [1 + draws]."""
        kept = tables.ABOUT["level"].isin(levels)
        if weighted is not None:
            kept &= tables.ABOUT["np"] == weighted
        return self.viable[:, kept.to_numpy()].sum(1)


def _of_accuracy(measured: dict, fit: str, draws: int) -> list[Finding]:
    """The claims on accuracy at the task."""
    right = nli.under(measured, fit)["right"].astype(float)
    n = right.shape[1]
    accuracy = tables.weights(n, draws, 0) @ right.T
    viable = nli.viable(accuracy, accuracy[:, :1])
    models = _Accuracy(accuracy, viable, n)
    return [
        *_weighting_at_sent(models),
        _viable_at_layer_12(models),
        _viable_deeper(models),
        _deeper_is_less_accurate(models),
        _attention_costs_viability(models),
    ]


def _of_task(
    claim: ProjectiveClaim, shares: np.ndarray, text: str, n: int, *preconditions: Precondition
) -> Finding:
    """A share of models or pairs of models, with its interval over n pairs of the task."""
    return of_shares(claim, shares, text, n, *preconditions, unit=TASK_PAIRS)


def _weighting_at_sent(models: _Accuracy) -> list[Finding]:
    """What weighting at SENT does to accuracy: 37 pairs of models differ in it alone."""
    is_weighted = (tables.ABOUT["np"] == 1).to_numpy()
    is_unweighted = (tables.ABOUT["np"] == 0).to_numpy()
    gain = models.accuracy[:, is_weighted] - models.accuracy[:, is_unweighted]
    mean = stats.redrawn(gain.mean(1), models.n, TASK_PAIRS)
    return [
        _of_task(NP_ALL, share_met(gain.T), counted(gain.T), models.n),
        Finding(NP_MEAN, mean, f"{mean:+.3f}"),
    ]


def _viable_at_layer_12(models: _Accuracy) -> Finding:
    """Of 8 models at layer 12, how many are as said: viable if and only if they weight at SENT."""
    weighted = models.viable_at(Level.LAYER_12, weighted=1)
    unweighted = models.viable_at(Level.LAYER_12, weighted=0)
    some = Precondition(
        name="viable", is_met=models.viable[0, 2:].any(), why="no projected model is viable"
    )
    as_said = (weighted + 4 - unweighted) / 8
    text = f"{weighted[0]} of 4, {unweighted[0]} of 4"
    return _of_task(NP_LAYER12, as_said, text, models.n, some)


def _viable_deeper(models: _Accuracy) -> Finding:
    """The share of the viable models at layer 11 and + attn that weight at SENT."""
    every = models.viable_at(Level.LAYER_11, Level.ATTENTION)
    weighted = models.viable_at(Level.LAYER_11, Level.ATTENTION, weighted=1)
    some = Precondition(
        name="viable", is_met=every[0] > 0, why="none is viable at Layer 11 or + attn"
    )
    share = np.where(every > 0, weighted / np.maximum(every, 1), np.nan)
    return _of_task(NP_DEEP, share, f"{weighted[0]} of {every[0]}", models.n, some)


def _deeper_is_less_accurate(models: _Accuracy) -> Finding:
    """At how many of 3 steps inwards the mean accuracy of a level falls."""
    steps = np.array([models.accuracy[:, OF_LEVEL[level]].mean(1) for level in LEVELS])
    falls = -np.diff(steps, axis=0)
    shown = ", ".join(f"{value:.3f}" for value in steps[:, 0])
    text = f"{counted(falls)}: {shown}"
    return _of_task(DEEPER_SNLI, share_met(falls), text, models.n)


def _attention_costs_viability(models: _Accuracy) -> Finding:
    """How much smaller the viable share of 32 settings is with attention than at layer 11."""
    without = models.viable_at(Level.LAYER_11)
    attention = models.viable_at(Level.ATTENTION)
    some = Precondition(name="viable", is_met=without[0] > 0, why="none is viable at Layer 11")
    text = f"{without[0]} and {attention[0]} of 32"
    return _of_task(ATTN_VIABLE, (without - attention) / 32, text, models.n, some)


# ---- eta under one variant of parity, occupations resampled
def _of_eta(measured: dict, fit: str, agree: str, strength: pd.Series, draws: int) -> list[Finding]:
    """The claims on eta."""
    halves = split_half.of_fairness(measured, fit, agree, draws)
    return [
        _some_model_is_fairer(halves),
        _eta_rises(halves),
        _attention_sets_no_best(halves),
        _sent_debias_does_little(halves),
        _uncorrelated(rho_within(measured, fit, agree, strength)),
        _lowest_s_is_not_fairest(halves, strength),
    ]


def _some_model_is_fairer(halves: Halves) -> Finding:
    """By how much the best viable model is fairer than base, against random directions."""
    best = halves.best(EVERY)
    some = Precondition(
        name="viable",
        is_met=bool(best.settings),
        why="no projected model is viable on both halves",
    )
    base = halves.of_base()[0]
    text = f"{base:.2f} to {best.judged.value:.2f}, {' or '.join(best.settings)}"
    return Finding(
        ETA_HIGHER, best.change, text, preconditions=(some,), control=beyond_random(best)
    )


def _eta_rises(halves: Halves) -> Finding:
    """At how many of 2 steps from SENT to layer 11 the best viable eta rises."""
    levels = LEVELS[:3]
    steps = np.array([halves.judged(halves.choose(OF_LEVEL[level])) for level in levels])
    rises = np.diff(steps, axis=0)  # [2, 1 + random choices, 1 + draws]
    shown = ["none viable" if np.isnan(step) else f"{step:.2f}" for step in steps[:, 0, 0]]
    return of_shares(
        ETA_RISES,
        share_met(rises[:, 0]),
        f"{counted(rises[:, 0])}: {', '.join(shown)}",
        halves.n,
        _viable_on_both_halves(halves, levels),
        unit=halves.unit,
        random_shares=share_met(rises[:, 1:].mean(1)),
    )


def _attention_sets_no_best(halves: Halves) -> Finding:
    """By how much the best viable model with attention is fairer than the best without."""
    without = OF_LEVEL[Level.SENT] + OF_LEVEL[Level.LAYER_12] + OF_LEVEL[Level.LAYER_11]
    attention = halves.fitted(halves.choose(OF_LEVEL[Level.ATTENTION]))
    gain = halves.estimate(attention - halves.fitted(halves.choose(without)))
    viable = _viable_on_both_halves(halves, (Level.LAYER_11, Level.ATTENTION))
    return Finding(ETA_ATTN, gain, f"{gain:+.2f}", preconditions=(viable,))


def _viable_on_both_halves(halves: Halves, levels: tuple[Level, ...]) -> Precondition:
    """Each of these levels has a viable model on both halves."""
    lacking = [level for level in levels if not halves.choose(OF_LEVEL[level])]
    why = f"none is viable on both halves at {', '.join(lacking)}"
    return Precondition(name="viable", is_met=not lacking, why=why)


def _sent_debias_does_little(halves: Halves) -> Finding:
    change = halves.estimate(halves.of_sent_debias() - halves.of_base())
    return Finding(SENT_DEBIAS_ETA, change, f"{change:+.3f}")


def _uncorrelated(rho: dict[int | str, Estimate]) -> Finding:
    """Spearman's rho of Strength and eta; the remark says what it is within np = 0 and np = 1."""
    defined = Precondition(
        name="ranks",
        is_met=not np.isnan(rho["all"].value),
        why="all models have the same S or eta",
    )
    text = f"rho {rho['all']}; np = 0: {rho[0]}; np = 1: {rho[1]}"
    remark = (
        f"within np = 0: {judge(UNCORRELATED, rho[0]).outcome}; "
        f"within np = 1: {judge(UNCORRELATED, rho[1]).outcome}"
    )
    return Finding(UNCORRELATED, rho["all"], text, preconditions=(defined,), remark=remark)


def _lowest_s_is_not_fairest(halves: Halves, strength: pd.Series) -> Finding:
    """How much eta the viable model of lowest S has less than the best viable one."""
    lowest_s = halves.choose(EVERY, worth=-strength.loc[tables.NAMES].to_numpy())
    fairest = halves.choose(EVERY)
    lost = halves.estimate(halves.fitted(fairest) - halves.fitted(lowest_s))
    fewest = min(viable[2:].sum() for viable in halves.viable)
    two = Precondition(
        name="viable",
        is_met=fewest > 1,
        why="fewer than two models are viable on one of the halves",
    )
    text = f"eta lower by {lost:.2f} with {' or '.join(split_half.names(lowest_s))}"
    return Finding(OTHER_SETTINGS, lost, text, preconditions=(two,))


def rho_within(
    measured: dict, fit: str, agree: str, strength: pd.Series
) -> dict[int | str, Estimate]:
    """Spearman's rho of Strength and eta: over all 76 models ("all"), within np = 0 and np = 1.

    The models are points of one grid, not a random sample: the interval says how far rho depends on
    single models.
    """
    neutral, same = nli.by_model(nli.under(measured, fit))
    eta = neutral.mean(-1) * split_half.has_parity(same, agree).mean(-1)
    s = strength.loc[tables.NAMES].to_numpy()
    np_of_model = tables.ABOUT["np"].to_numpy()
    scopes = {"all": slice(None), 0: np_of_model == 0, 1: np_of_model == 1}
    found = {}
    for scope, kept in scopes.items():
        rho = stats.bootstrap(stats.rank_correlation, s[kept], eta[kept], draws=split_half.DRAWS)
        found[scope] = replace(rho, unit="models")
    return found
