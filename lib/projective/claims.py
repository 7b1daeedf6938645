"""What Projective methods claims, each claim beside its test: notebook 07 tests triples, 08 projections, 09 inference.

    claims.of_bias(measured, "S")[WRITTEN].best(claims.OF_LEVEL["Layer 11"])    what the best of a level does; of eta:
    claims.of_fairness(measured).best(claims.OF_LEVEL["Layer 11"])

An interval over triples, occupations or pairs of the task decides, or the share of bootstrap samples that meet a claim
which counts several things. A best setting is chosen on one half of the items and judged on the other, both ways; what
it does is held against random directions of the same rank, weight and place. The margins below are ours where the paper
gives none. They were written before the runs that they judge."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd

from lib.engine import nsp, stats
from lib.engine.stats import Estimate, redrawn as estimate
from lib.projective import nli, tables
from lib.projective.projection import LEVELS, WRITTEN, Cut, Level
from lib.verdict import (
    GENDER_SWAPPED,
    UNTRAINED,
    Claim,
    Control,
    Precondition,
    Side,
    Verdict,
    by_id,
    judge,
)

HAIR = 0.01  # "almost indistinguishable": a hundredth of the spread of p(next), 2.5 to 97.5 % of all sentences
# of S, which is in units of probability, a hundredth itself
SOME = 0.1  # of the triples that SS counts; of leads that are spread evenly about a twentieth are by a hair
CLOSE = 0.2  # "s close to 0": a fifth of the mean of the highest tenth of |s|. Of normally distributed s 32 % lie
# there, of doubly exponential ones 48 %: most is a longer tail than either
READ = 10  # so many triples have to be read right, as Table 1's is, before a share of them says anything
SAME = 1e-6  # less than this is no difference: of a model that gives one answer to everything
ALWAYS = 4 / 6  # the accuracy of calling every sentence of a triple pair the next one
LITTLE = 0.05  # "not very effective": less than this share of base's S or D, or this much of eta
SAME_RANKS = 0.9  # "relative ranks are unchanged": Spearman's rho over the 76 models
UNCORRELATED = (
    0.3  # "not correlated": |rho| below it; over 76 models an interval reaches about .23 each way
)
DRAWS = 500
RANDOM = "random directions"
# what the paper says, or what its printed numbers give when they are counted as ours are
SAID = {
    "ss-hair": "Table 1: .00003",
    "ss-twin": "Table 3 (a)",
    "s-near-zero": "a long tail",
    "d-unrelated": "primarily",
    "s-above-opposite": "not counted",
    "sent-s": "best S +0.3 %",
    "sent-d": ".705 to .597",
    "sent-debias": "S .307 to .311, D .705 to .701",
    "deeper-s": "3 of 3: .308, .288, .246, .193",
    "deeper-d": "3 of 3: .597, .532, .449, .368",
    "extend-np0": "3 of 3 lower it; (0, 1) does not",
    "extend-np1": "3 of 3 lower it; (0, 1) does not",
    "hard2-worst": "8 of 8",
    "attention-lowers": "24 of 24",
    "attention-spoilt": "8 of 8",
    "ingredients": "in 4 and 5 of 6 best",
    "threshold": "said, not shown",
    "lower-s": ".307 to .193",
    "lower-d": ".705 to .368",
    "np-all": "37 of 37",
    "np-mean": "+.058",
    "np-layer12": "4 of 4, 0 of 4",
    "np-deep": "all (Table 7: 13 of 14)",
    "eta-higher": ".038 to .649 (Table 7: .526)",
    "eta-rises": ".123, .137, .649 (Table 7: .32)",
    "eta-attn": ".412, before .649 (Table 7: .53, .32)",
    "attn-viable": "said (Table 7: 8 and 6 of 32)",
    "deeper-snli": "yes",
    "uncorrelated": "rho .04, p = .73",
    "other-settings": "yes",
    "sent-debias-eta": ".0375 to .0377",
}
OURS = "ours, on section 2"
BLIND = (
    "next sentences are told from unrelated ones no better than by chance"  # a precondition is shut
)


class Counted(NamedTuple):
    """What a test counted."""

    estimate: Estimate | float  # it decides, unless `samples_met` does
    text: str
    preconditions: tuple[Precondition, ...] = ()
    samples_met: float | None = None  # the share of bootstrap samples that meet the claim
    control: Control | None = None
    remark: str = ""


def _claim(id: str, where: str, says: str, figure: str, short: str = "", **rule) -> Claim:
    return Claim(id, tables.PAPER, where, says, figure[:2], figure, short or says, **rule)


def _judged(id: str, test: Counted, **about) -> Verdict:
    text = "" if np.isnan(float(getattr(test.estimate, "value", test.estimate))) else test.text
    return judge(
        CLAIMS[id],
        test.estimate,
        found=text,
        preconditions=test.preconditions,
        samples_met=test.samples_met,
        control=test.control,
        remark=test.remark,
        **about,
    )


def _count(
    id: str,
    counts: np.ndarray,
    text: str,
    *preconditions: Precondition,
    control: np.ndarray | None = None,
) -> Counted:
    """A count of the sample and of the redrawn ones, with the same under random directions."""
    claim = CLAIMS[id]
    least = (
        None
        if control is None
        else Control(RANDOM, estimate(control, 0), estimate(counts - control, 0))
    )
    met = [claim.side.has(value, claim.threshold) for value in counts[1:]]
    return Counted(float(counts[0]), text, preconditions, float(np.mean(met)), least)


# ---- triples: notebook 07
_of_method = partial(_claim, about_bert=True)
OF_TRIPLES = [
    _of_method(
        "ss-hair",
        "2, Table 1",
        "Triples count for SS though stereotype and anti-stereotype are next to equal",
        "07_preferences",
        "Some triples count for SS by a hair",
        threshold=SOME,
    ),
    _of_method(
        "ss-twin",
        OURS,
        "Most that SS counts are preferred in the gender-swapped twin too",
        "07_preferences",
        "Most that SS counts are preferred in the twin too",
        threshold=0.5,
    ),
    _of_method(
        "s-near-zero",
        "2",
        "Most triple pairs have a bias strength close to zero",
        "07_distributions",
        "Most s are close to 0",
        threshold=0.5,
    ),
    _of_method(
        "d-unrelated",
        "2, Table 4",
        "Gender flips predictions mostly on unrelated sentences",
        "07_distributions",
        "Gender flips unrelated sentences more than others",
    ),
    _claim(
        "s-above-opposite",
        OURS,
        "Strength is above that of the opposite direction",
        "07_threshold",
        "S is above its opposite (implied)",
        threshold=HAIR,
        controls=(UNTRAINED, GENDER_SWAPPED),
    ),
]


def of_triples(frame: pd.DataFrame, **about) -> list[Verdict]:
    """What the paper says of SS, s and d. A call flips when p(next) of a sentence crosses .5 with the swap. A triple is
    read right where both sentences that belong are called the next one and the unrelated one is not, as in the paper's
    Table 1. Of SS only such triples are looked at, and an s close to 0 counts in such triples alone: of a model that
    cannot tell what comes next all s are close to 0. S is above its opposite by more than .01."""
    s, p = nsp.strengths(frame), frame[nsp.COLUMNS].to_numpy()
    says, wanted = p > 0.5, np.array([not name.endswith("unrelated") for name in nsp.COLUMNS])
    right, ahead = says == wanted, (frame["stereo"] - frame["anti"]).to_numpy()
    read, hair = right[:, :3].all(axis=1), HAIR * np.ptp(np.quantile(p, [0.025, 0.975]))
    counted = (ahead > 0) & read
    n = int(counted.sum())
    stereo, anti, unrelated = (says[:, :3] != says[:, 3:]).astype(float).T
    size = np.abs(s)
    reads = stats.bootstrap(
        lambda belong, other: (belong.mean() + other.mean()) / 2,
        right[:, wanted].mean(1),
        right[:, ~wanted].mean(1),
        draws=DRAWS,
    )
    preconditions = (
        Precondition("differs", np.ptp(p) > SAME, "p(next) is the same for all sentences"),
        Precondition("reads", reads.low > 0.5, f"{BLIND}: {reads} of both kinds"),
    )
    enough = Precondition("SS", n >= READ, f"SS counts {n} triples that are read right")
    near, kept = (
        stats.bootstrap(np.mean, hits[counted].astype(float)) if enough.is_met else Estimate(np.nan)
        for hits in (ahead < hair, (frame["gs_stereo"] > frame["gs_anti"]).to_numpy())
    )
    close = stats.bootstrap(
        lambda values, read: np.mean(read * (values <= CLOSE * nsp.top_mean(values))), size, read
    )
    gap = stats.bootstrap(
        lambda u, a, b: u.mean() - (a.mean() + b.mean()) / 2, unrelated, stereo, anti
    )
    lead = strength_lead(s)
    tests = {
        "ss-hair": Counted(near, f"{near} of {n} read right", (*preconditions, enough)),
        "ss-twin": Counted(kept, f"{kept} of {n} read right", (*preconditions, enough)),
        "s-near-zero": Counted(
            close, f"{close} read right and within {CLOSE * nsp.top_mean(size):.3f}", preconditions
        ),
        "d-unrelated": Counted(
            gap, f"{unrelated.mean():.3f} against {np.mean([stereo, anti]):.3f}", preconditions
        ),
        "s-above-opposite": Counted(lead, f"by {lead:z.3f}", preconditions),
    }
    return [_judged(id, test, **about) for id, test in tests.items()]


def strength_lead(s: np.ndarray) -> Estimate:
    """By how much Strength is above its opposite."""
    return stats.bootstrap(lambda values: nsp.top_mean(values) - nsp.top_mean(-values), s)


# ---- projections: notebook 08
_of_bias = partial(_claim, figure="08_plane", controls=(UNTRAINED, GENDER_SWAPPED))
OF_PROJECTIONS = [
    *(
        _of_bias(
            f"lower-{column.lower()}",
            "5, 6",
            f"Some projection lowers {column} below the base model's",
        )
        for column in "SD"
    ),
    _of_bias(
        "sent-s",
        "5, Table 5",
        "Projecting the sentence vector alone does little for S",
        side=Side.WITHIN,
        margin=LITTLE,
        short="SENT alone does little for S",
    ),
    _of_bias(
        "sent-d",
        "5, Table 5",
        "Projecting the sentence vector alone lowers D",
        short="SENT alone lowers D",
    ),
    _of_bias(
        "sent-debias",
        "5, Table 5",
        "The baseline sent-debias does little",
        side=Side.WITHIN,
        margin=LITTLE,
    ),
    *(
        _of_bias(
            f"deeper-{column.lower()}",
            "5, Table 5",
            f"Every deeper level reaches a lower {column}",
            short=f"Every deeper level has a better best {column}",
            side=Side.AT_LEAST,
            threshold=3,
        )
        for column in "SD"
    ),
    *(
        _of_bias(
            f"extend-np{np_}",
            "5, observation 2",
            f"Extending SENT (np = {np_}) to layer 12 lowers S unless two components go unweighted",
            short=f"Of 4 extensions of SENT {np_} to Layer 12 all lower S but (0, 1), two components unweighted",
            side=Side.AT_LEAST,
            threshold=4,
        )
        for np_ in (0, 1)
    ),
    _of_bias(
        "hard2-worst",
        "5, observation 2",
        "At layer 11 two unweighted components give the worst S",
        short="At Layer 11 (0, 1) has the worst S, all else equal",
        side=Side.AT_LEAST,
        threshold=8,
    ),
    _of_bias(
        "attention-lowers",
        "5, observation 3",
        "Projecting attention lowers S of the 24 other settings",
        short="Attention lowers S of the 24 without (0, 1) at Layer 11",
        side=Side.AT_LEAST,
        threshold=24,
    ),
    _of_bias(
        "attention-spoilt",
        "5, observation 3",
        "Projecting attention does not lower S where two components go unweighted",
        short="Attention does not lower S of the 8 with it",
        side=Side.AT_LEAST,
        threshold=8,
    ),
    _of_bias(
        "ingredients", "5, 6", "It is worthwhile to search weighting and second components too"
    ),
    _of_method(
        "threshold",
        "2",
        "The threshold of 10 % does not change the ranks of the models",
        "08_choices",
        "The threshold of 10 % does not change the ranks of the models by S",
        side=Side.AT_LEAST,
        threshold=SAME_RANKS,
    ),
]
PLACE = {setting: i for i, setting in enumerate(tables.MODELS)}
OF_LEVEL = {
    level: [i for setting, i in PLACE.items() if setting.level == level] for level in LEVELS
}
EVERY = list(range(2, len(tables.MODELS)))
HARD2 = Cut(False, True)
CUTS = list(dict.fromkeys(setting.tokens for setting in tables.MODELS if setting.tokens))
PLAIN = [
    i
    for setting, i in PLACE.items()
    if setting.sent
    and not any(  # one component at each place, whole
        cut and (cut.weighted or cut.second) for cut in (setting.tokens, setting.cls, setting.sent)
    )
]


class Best(NamedTuple):
    """What the best setting of a level does, chosen on one half and judged on the other, both ways."""

    settings: tuple[str, ...]  # chosen on either half
    judged: Estimate  # its S, D or eta
    change: Estimate  # by how much this is better than base
    random: Estimate  # the same under random directions
    beyond: Estimate  # change less random


class Halves(NamedTuple):
    """A measure of the 76 models on two halves of the items: what is chosen on one is judged on the other."""

    values: list[
        np.ndarray
    ]  # of each half [1 + random choices, 1 + draws, 76]: fitted first, the sample first
    worth: list[np.ndarray]  # of each half [76]: the highest is chosen,
    viable: list[np.ndarray]  # of these [76]
    n: int  # items
    up: int  # 1 where higher is better, -1 where lower is

    def choose(self, among: list[int], worth: np.ndarray | None = None) -> list[int]:
        """The best by the other half, for either half; [] where none is viable there. worth: in place of its own."""
        chosen = [
            max(
                (i for i in among if viable[i]),
                key=(own if worth is None else worth).__getitem__,
                default=None,
            )
            for own, viable in zip(self.worth[::-1], self.viable[::-1])
        ]
        return [] if None in chosen else chosen

    def judged(self, chosen: list[int]) -> np.ndarray:
        """The mean over both halves, [1 + random choices, 1 + draws]; nan where nothing was chosen."""
        mean = np.mean([half[..., i] for half, i in zip(self.values, chosen or [0, 0])], axis=0)
        return mean if chosen else mean * np.nan

    def best(self, among: list[int]) -> Best:
        chosen = self.choose(among)
        (fitted, *random), base = self.judged(chosen), self.judged([0, 0])[0]
        random = np.mean(random, axis=0)
        drawn = (
            fitted,
            self.up * (fitted - base),
            self.up * (random - base),
            self.up * (fitted - random),
        )
        return Best(
            tuple(dict.fromkeys(tables.NAMES[i] for i in chosen)),
            *(estimate(one, self.n) for one in drawn),
        )


def _tops(measured: dict, key: str, rows: np.ndarray) -> np.ndarray:
    """Top means of samples of the triple pairs: [fits and then random choices, samples, 76]."""
    return np.array(
        [tables.tops(one[:, rows]).T for one in [*measured[key], *measured["random"][key]]]
    )


def _redrawn(n: int, draws: int, rng) -> np.ndarray:
    """The numbers below n, and samples of them drawn with replacement: [1 + draws, n]."""
    return np.vstack([np.arange(n), rng.integers(0, n, (draws, n))])


def of_bias(measured: dict, column: str, draws: int = DRAWS) -> dict[str, Halves]:
    """By fit, S or D over halves of the triple pairs."""
    n, rng, fits = measured["s"].shape[-1], np.random.default_rng(0), measured["fits"]
    halves = [
        _tops(measured, column.lower(), half[_redrawn(len(half), draws, rng)])
        for half in nli.halves(n, rng)
    ]
    every = [np.ones(len(tables.MODELS), bool)] * 2
    return {
        fit: Halves(
            [np.concatenate([half[[at]], half[len(fits) :]]) for half in halves],
            [-half[at, 0] for half in halves],
            every,
            n,
            -1,
        )
        for at, fit in enumerate(fits)
    }


def of_projections(measured: dict, draws: int = DRAWS, **about) -> list[Verdict]:
    """The paper's statements on intrinsic bias, decided by the first fit; a remark says if other fits do not agree."""
    s, accuracy, n = (
        measured["s"][0, 0],
        measured["accuracy"][0, 0],
        measured["s"].shape[-1],
    )  # of the base model
    lead, reads = strength_lead(s), stats.bootstrap(np.mean, accuracy, draws=DRAWS)
    preconditions = {
        "S": Precondition(
            "biased", lead.is_above(), f"S is not above its opposite: by {lead:z.2f}"
        ),
        "D": Precondition("reads", reads.low > ALWAYS, f"{BLIND}: {reads} right"),
    }
    halves = {column: of_bias(measured, column, draws) for column in preconditions}
    rows = _redrawn(n, draws, np.random.default_rng(0))
    whole, fits = _tops(measured, "s", rows), measured["fits"]
    by_chance = np.mean(
        [counts_of(one)["attention-lowers"][0] for one in whole[len(fits) :]], axis=0
    )
    verdicts = []
    for at, fit in enumerate(fits):
        tests = _levels("S", halves["S"][fit], preconditions["S"]) | _levels(
            "D", halves["D"][fit], preconditions["D"]
        )
        for id, (count, text) in counts_of(whole[at]).items():
            tests[id, ""] = _count(
                id,
                count,
                text,
                preconditions["S"],
                control=by_chance if id == "attention-lowers" else None,
            )
        rho = [
            stats.rank_correlation(whole[at], tables.tops(measured["s"][at][:, rows], top).T)
            for top in (0.05, 0.2)
        ]
        tests["threshold", ""] = Counted(
            estimate(np.minimum(*rho), n),
            f"rho {rho[0][0]:.2f} with 5 %, {rho[1][0]:.2f} with 20 %",
            (preconditions["S"],),
        )
        verdicts.append(
            [_judged(id, test, variant=variant, **about) for (id, variant), test in tests.items()]
        )
    decided = []
    for one, *others in zip(*verdicts):
        agree = sum(other.outcome == one.outcome for other in others)
        said = (
            ""
            if agree == len(others)
            else f"decided by {WRITTEN}; {agree} of {len(others)} other fits agree"
        )
        decided.append(replace(one, remark=said))
    return sorted(decided, key=lambda one: list(CLAIMS).index(one.claim))


def _levels(
    column: str, halves: Halves, precondition: Precondition
) -> dict[tuple[str, str], Counted]:
    """The claims on what the best settings do to S or D, by claim and variant."""
    key, base, n, tests = column.lower(), halves.judged([0, 0])[0], halves.n, {}
    for id, among in (f"lower-{key}", EVERY), ("sent-d", OF_LEVEL[Level.SENT]):
        best = halves.best(among)
        text = f"{base[0]:.3f} to {best.judged.value:.3f}, {' or '.join(best.settings)}"
        if id.endswith(key):
            tests[id, ""] = Counted(
                best.change, text, (precondition,), None, Control(RANDOM, best.random, best.beyond)
            )
    steps = np.array(
        [halves.judged(halves.choose(OF_LEVEL[level])) for level in LEVELS]
    )  # [4, 1 + random, 1 + draws]
    counts, random = (
        (stats.settled(np.diff(values, axis=0)) < 0).sum(0)
        for values in (steps[:, 0], steps[:, 1:].mean(1))
    )
    text = f"{counts[0]} of 3: " + ", ".join(f"{value:.3f}" for value in steps[:, 0, 0])
    tests[f"deeper-{key}", ""] = _count(f"deeper-{key}", counts, text, precondition, control=random)
    with np.errstate(invalid="ignore"):  # 0 of 0
        moved, share = (
            estimate(values / base - 1, n) for values in (halves.judged([1, 1])[0], steps[0, 0])
        )
    tests["sent-debias", column] = Counted(moved, f"{column} {moved:+.1%}", (precondition,))
    if column == "S":
        tests["sent-s", ""] = Counted(share, f"best S {share:+.1%}", (precondition,))
    gain = estimate(
        (halves.judged(halves.choose(PLAIN)) - halves.judged(halves.choose(EVERY)))[0], n
    )
    tests["ingredients", column] = Counted(
        gain, f"best {column} lower by {gain:.3f}", (precondition,)
    )
    return tests


def counts_of(S: np.ndarray) -> dict[str, tuple[np.ndarray, str]]:
    """What observations 2 and 3 count on S [samples, 76], and in words on the first sample."""
    found = {}
    for weighted, sent in enumerate(OF_LEVEL[Level.SENT]):
        start = tables.MODELS[sent]
        lower = {cut: S[:, PLACE[replace(start, cls=cut)]] < S[:, sent] for cut in CUTS}
        fine = np.sum([lower[cut] for cut in CUTS if cut != HARD2], axis=0)
        text = f"{fine[0]} of 3 lower it; (0, 1) {'does too' if lower[HARD2][0] else 'does not'}"
        found[f"extend-np{weighted}"] = fine + ~lower[HARD2], text
    deep = [tables.MODELS[i] for i in OF_LEVEL[Level.LAYER_11]]
    eight = [setting for setting in deep if setting.tokens == HARD2]
    worst = np.sum(
        [
            S[:, PLACE[setting]]
            == np.max([S[:, PLACE[replace(setting, tokens=cut)]] for cut in CUTS], axis=0)
            for setting in eight
        ],
        axis=0,
    )
    gains = {
        setting: S[:, PLACE[replace(setting, attention=True)]] < S[:, PLACE[setting]]
        for setting in deep
    }
    others = np.sum([gains[setting] for setting in deep if setting not in eight], axis=0)
    spoilt = np.sum([~gains[setting] for setting in eight], axis=0)
    return found | {
        "hard2-worst": (worst, f"{worst[0]} of 8"),
        "attention-lowers": (others, f"{others[0]} of 24"),
        "attention-spoilt": (spoilt, f"{spoilt[0]} of 8"),
    }


# ---- inference: notebook 09
_of_nli = partial(_claim, figure="09_tradeoff", controls=(UNTRAINED, GENDER_SWAPPED))
OF_NLI = [
    _of_nli(
        "np-all",
        "5, observation 1",
        "Weighting at SENT raises SNLI accuracy in all 37 pairs of models",
        figure="09_table6_dots",
        side=Side.AT_LEAST,
        threshold=37,
    ),
    _of_nli(
        "np-mean",
        "5, Table 6",
        "Weighting at SENT raises SNLI accuracy on average",
        figure="09_table6_dots",
    ),
    _of_nli(
        "np-layer12",
        "5, observation 1",
        "At layer 12 models are viable with weighting at SENT, not without",
        side=Side.AT_LEAST,
        threshold=4,
    ),
    _of_nli(
        "np-deep",
        "5, observation 1",
        "All viable deeper models weight at SENT",
        side=Side.AT_LEAST,
        threshold=1,
    ),
    _of_nli(
        "deeper-snli",
        "5",
        "The deeper the intervention, the lower the SNLI accuracy",
        side=Side.AT_LEAST,
        threshold=3,
    ),
    _of_nli(
        "attn-viable",
        "5",
        "Projecting attention costs viability: fewer of its 32 settings are viable",
    ),
    _of_nli("eta-higher", "5, Table 5", "Some viable model is fairer at NLI than base"),
    _of_nli(
        "eta-rises",
        "5, Table 5",
        "The best viable fairness rises from SENT to layer 12 to layer 11",
        side=Side.AT_LEAST,
        threshold=2,
    ),
    _of_nli(
        "eta-attn",
        "5, Table 5",
        "Projecting attention sets no new best in fairness",
        side=Side.AT_MOST,
    ),
    _of_nli(
        "sent-debias-eta",
        "5, Table 5",
        "The baseline sent-debias does little for fairness at NLI",
        side=Side.WITHIN,
        margin=LITTLE,
    ),
    _of_nli(
        "uncorrelated",
        "5",
        "Strength and NLI fairness are not correlated over the 76 models",
        figure="09_strength",
        side=Side.WITHIN,
        margin=UNCORRELATED,
    ),
    _of_nli(
        "other-settings",
        "5, 6",
        "Choosing by the lowest S is not choosing the fairest at NLI",
        figure="09_strength",
    ),
]
AGREE = ("all", "most")  # contexts of an occupation that has parity: the two variants


def of_fairness(
    measured: dict, fit: str = nli.PAIRS, agree: str = "most", draws: int = DRAWS
) -> Halves:
    """eta over halves of the occupations; viable by halves of the pairs of the task, within 5 points of base."""
    one, rng = nli.under(measured, fit), np.random.default_rng(0)
    neutral, same = (
        np.concatenate([own[None], measured["random"][key]])
        for key, own in zip(("neutral", "agree"), nli.by_model(one))
    )
    parity = (same == 1 if agree == "all" else same > 0.5).astype(float)
    values = [
        np.array(
            [
                (weights @ a.T) * (weights @ b.T)
                for a, b in zip(neutral[..., half], parity[..., half])
            ]
        )
        for half in nli.halves(neutral.shape[-1], rng)
        for weights in [tables.weights(len(half), draws, rng)]
    ]
    accuracy = [one["right"][:, half].mean(1) for half in nli.halves(one["right"].shape[1], rng)]
    worth = [
        half[0, 0] + 1e-9 * right for half, right in zip(values, accuracy)
    ]  # of equals the more accurate
    return Halves(
        values, worth, [nli.viable(half, half[0]) for half in accuracy], neutral.shape[-1], 1
    )


def of_nli(measured: dict, strength: pd.Series, draws: int = DRAWS, **about) -> list[Verdict]:
    """What the paper says of NLI in section 5, under both fits and, where eta matters, both variants of parity. Viable
    is within 5 points of base. A remark says where variants do not agree; the tables follow the first."""
    right = measured["right"][0][0]
    base = stats.wilson(right)
    preconditions = (
        Precondition(
            "differs",
            np.ptp(measured["probabilities"][0][0], axis=0).max() > SAME,
            "the classifier gives all pairs the same probabilities",
        ),
        Precondition(
            "task",
            base.low > 1 / 3,
            f"the classifier does not know the task: {base} of {len(right)} right",
        ),
    )
    verdicts = []
    for fit in measured["fits"]:
        tests = {(id, fit): test for id, test in _accuracy(measured, fit, draws).items()}
        for agree in AGREE:
            of_eta = _eta(measured, fit, agree, strength, draws)
            tests |= {(id, f"{fit}; {agree} agree"): test for id, test in of_eta.items()}
        verdicts += [
            _judged(
                id,
                test._replace(preconditions=(*preconditions, *test.preconditions)),
                variant=variant,
                **about,
            )
            for (id, variant), test in tests.items()
        ]
    verdicts.sort(key=lambda one: list(CLAIMS).index(one.claim))

    def remark(one):
        variants = [other for other in verdicts if other.claim == one.claim]
        differ = len({other.outcome for other in variants}) > 1
        said = f"variants disagree, tables follow '{variants[0].variant}'" if differ else ""
        return "; ".join(filter(None, (one.remark, said)))

    return [replace(one, remark=remark(one)) for one in verdicts]


def rho_within(
    measured: dict, fit: str, agree: str, strength: pd.Series
) -> dict[int | str, Estimate]:
    """Spearman's rho of Strength and eta over all 76 models ("all"), within np = 0 and within np = 1. The models are
    points of one grid, not a random sample: the interval says how far rho depends on single models."""
    neutral, same = nli.by_model(nli.under(measured, fit))
    eta = neutral.mean(-1) * (same == 1 if agree == "all" else same > 0.5).mean(-1)
    x, scopes = strength.loc[tables.NAMES].to_numpy(), tables.ABOUT["np"].to_numpy()
    return {
        scope: stats.bootstrap(stats.rank_correlation, x[kept], eta[kept], draws=DRAWS)
        for scope, kept in (("all", slice(None)), (0, scopes == 0), (1, scopes == 1))
    }


def _accuracy(measured: dict, fit: str, draws: int) -> dict[str, Counted]:
    """The claims on accuracy at the task, its pairs resampled."""
    right = nli.under(measured, fit)["right"].astype(float)
    n, level, weighted = (
        right.shape[1],
        tables.ABOUT["level"].to_numpy(),
        tables.ABOUT["np"].to_numpy(),
    )
    accuracy = tables.weights(n, draws, np.random.default_rng(0)) @ right.T  # [1 + draws, 76]
    viable = nli.viable(accuracy, accuracy[:, :1])
    gain = accuracy[:, weighted == 1] - accuracy[:, weighted == 0]
    raised, mean = (gain > 1e-9).sum(1), estimate(gain.mean(1), n)
    steps = np.array([accuracy[:, OF_LEVEL[name]].mean(1) for name in LEVELS])
    with_np, without = (
        viable[:, (level == Level.LAYER_12) & (weighted == np_)].sum(1) for np_ in (1, 0)
    )
    deep = np.isin(level, [Level.LAYER_11, Level.ATTENTION])
    all_deep, deep_np = viable[:, deep].sum(1), viable[:, deep & (weighted == 1)].sum(1)
    eleven, attention = (
        viable[:, OF_LEVEL[name]].sum(1) for name in (Level.LAYER_11, Level.ATTENTION)
    )
    lost = estimate(eleven - attention, n)
    some = Precondition("viable", viable[0, 2:].any(), "no projected model is viable")
    return {
        "np-all": _count("np-all", raised, f"{raised[0]} of 37, {(gain[0] < -1e-9).sum()} lose"),
        "np-mean": Counted(mean, f"{mean:+.3f}"),
        "np-layer12": _count(
            "np-layer12", with_np - without, f"{with_np[0]} of 4, {without[0]} of 4", some
        ),
        "np-deep": _count(
            "np-deep",
            deep_np / np.maximum(all_deep, 1),
            f"{deep_np[0]} of {all_deep[0]}",
            Precondition("viable", all_deep[0] > 0, "none is viable at Layer 11 or + attn"),
        ),
        "deeper-snli": _count(
            "deeper-snli",
            (stats.settled(np.diff(steps, axis=0)) < 0).sum(0),
            ", ".join(f"{value:.3f}" for value in steps[:, 0]),
        ),
        "attn-viable": Counted(
            lost,
            f"{eleven[0]} and {attention[0]} of 32",
            (Precondition("viable", eleven[0] > 0, "none is viable at Layer 11"),),
        ),
    }


def _eta(
    measured: dict, fit: str, agree: str, strength: pd.Series, draws: int
) -> dict[str, Counted]:
    """The claims on eta under one variant of parity, occupations resampled."""
    halves, before = (
        of_fairness(measured, fit, agree, draws),
        sum((OF_LEVEL[level] for level in LEVELS[:3]), []),
    )
    chosen = {level: halves.choose(among) for level, among in OF_LEVEL.items()}

    def viable(*levels):
        none = [level for level in levels if not chosen[level]]
        return Precondition(
            "viable", not none, f"none is viable on both halves at {', '.join(none)}"
        )

    best, base = halves.best(EVERY), halves.judged([0, 0])[0]
    some = Precondition(
        "viable", bool(best.settings), "no projected model is viable on both halves"
    )
    steps = np.array([halves.judged(chosen[level])[0] for level in LEVELS])
    rises = (stats.settled(np.diff(steps[:3], axis=0)) > 0).sum(0)
    attention = estimate(steps[3] - halves.judged(halves.choose(before))[0], halves.n)
    moved = estimate(halves.judged([1, 1])[0] - base, halves.n)
    by_s = halves.choose(EVERY, -strength.loc[tables.NAMES].to_numpy())
    lost = estimate(halves.judged(halves.choose(EVERY))[0] - halves.judged(by_s)[0], halves.n)
    names = " or ".join(dict.fromkeys(tables.NAMES[i] for i in by_s))
    two = min(half[2:].sum() for half in halves.viable)
    rho = rho_within(measured, fit, agree, strength)
    within = "; ".join(
        f"within np = {np_}: {judge(CLAIMS['uncorrelated'], rho[np_]).outcome}" for np_ in (0, 1)
    )
    shown = ", ".join("none viable" if np.isnan(step) else f"{step:.2f}" for step in steps[:3, 0])
    return {
        "eta-higher": Counted(
            best.change,
            f"{base[0]:.2f} to {best.judged.value:.2f}, {' or '.join(best.settings)}",
            (some,),
            None,
            Control(RANDOM, best.random, best.beyond),
        ),
        "eta-rises": _count("eta-rises", rises, shown, viable(*LEVELS[:3])),
        "eta-attn": Counted(attention, f"{attention:+.2f}", (viable(*LEVELS[2:]),)),
        "sent-debias-eta": Counted(moved, f"{moved:+.3f}"),
        "uncorrelated": Counted(
            rho["all"],
            f"rho {rho['all']}; np = 0: {rho[0]}; np = 1: {rho[1]}",
            (
                Precondition(
                    "ranks", not np.isnan(rho["all"].value), "all models have the same S or eta"
                ),
            ),
            remark=within,
        ),
        "other-settings": Counted(
            lost,
            f"eta lower by {lost:.2f} with {names}",
            (
                Precondition(
                    "viable", two > 1, "fewer than two models are viable on one of the halves"
                ),
            ),
        ),
    }


def best_settings(stored: Mapping[str, pd.DataFrame | None]) -> tuple[str, str]:
    """Names of the setting of lowest S (08) and of the fairest viable one (09, most contexts agree): "" where unknown.
    stored: 08_table7 and 09_table7 as the notebooks save them, None where one is not there. Viable: within 5 points of
    base, as notebook 09 marks it. Of equals the first, or the more accurate one."""
    intrinsic, inference = (
        stored[name] if stored[name] is None else stored[name].set_index("model")[2:]
        for name in ("08_table7", "09_table7")
    )
    lowest = "" if intrinsic is None else stats.settled(intrinsic["S"]).idxmin()
    if inference is None:
        return lowest, ""
    kept = inference[inference["viable"].isin(["yes", "in points"])]
    best = kept.sort_values(["eta, most", "SNLI"], ascending=False, kind="stable").index
    return lowest, best[0] if len(best) else ""


CLAIMS = by_id(
    OF_TRIPLES
    + OF_PROJECTIONS
    + OF_NLI
    + [
        Claim(
            "other-architectures",
            tables.PAPER,
            "6",
            "The methods apply to other architectures as they are",
            not_testable="other families have no next-sentence head to measure S by; that the projections run there is "
            "tested (tests/test_projection.py)",
        ),
        Claim(
            "fast",
            tables.PAPER,
            "1, 6",
            "Projections are fast to find and apply",
            not_testable="no time or threshold is stated; benchmarks/README.md has the times of this project",
        ),
    ]
)
