"""The claims of Counteracts, each tested on every model of the families that it is made of.

    readings = claims.readings({"mini-bert": answers, ...})     answers: cloze.measure's, to the winobias prompts
    claims.table(readings), [claims.overall(four) for four in readings]

The paper speaks of its Fig. 2-4 at once: k = 3, 5, 10 and the full distribution are four readings of each claim. It
holds where it is met at every k that has gendered tokens; where no k has, the full distribution decides.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from lib.counteracts import tables
from lib.counteracts.tables import FULL, LITTLE, K
from lib.engine import stats
from lib.engine.families import FAMILIES
from lib.verdict import DECIDED, Claim, Gate, Outcome, Verdict, by_id, judge

NO_TOKEN = "no token"
ALONE = "in the full distribution alone"


@dataclass(frozen=True)
class Expectation:
    """What a claim expects of the margins. `score` is above zero where it is met: of `side`, the sign of the observed
    base margin, `base` [2 groups of occupations] and `after` [kinds, 2 groups]. In both groups, unless it says so."""

    name: str
    score: Callable[[np.ndarray, np.ndarray, np.ndarray], float]


LEANS = Expectation("leans", lambda side, base, after: (side * base).min() - LITTLE)
KEPT = Expectation("kept", lambda side, base, after: min((side * after).min(), LITTLE - np.abs(after - base).max()))
OVERTURNED = Expectation("overturned", lambda side, base, after: -(side * after).max())
NOT_OVERTURNED = Expectation("not overturned", lambda side, base, after: (side * after).min())
ENLARGED = Expectation("enlarged", lambda side, base, after: (side * (after - base)).min())
WEAKENED = Expectation("weakened", lambda side, base, after: (np.abs(base) - np.abs(after)).min())
MOVED = Expectation("moved", lambda side, base, after: np.abs(after - base).min() - LITTLE)
# the two groups do not both move the same way by more than LITTLE
UNCHANGED = Expectation("unchanged or conflicting", lambda side, base, after: LITTLE - max(
    (side * (after - base)).min(), (side * (base - after)).min()))
MORE = Expectation("first moves more", lambda side, base, after: (
    np.abs(after[0] - base) - np.abs(after[1] - base)).mean())


@dataclass(frozen=True, kw_only=True)
class ClozeClaim(Claim):
    """A claim of models of these families: what knowledge of these kinds does to the preference."""

    families: tuple[str, ...]
    kinds: tuple[str, ...]
    expectation: Expectation


def _claim(id: str, says: str, families: tuple[str, ...], expectation: Expectation, *kinds: str) -> ClozeClaim:
    return ClozeClaim(id=id, paper="counteracts", where="Results, Fig. 2-4", says=says, notebook="11", figure="11_fig2",
                      short=f"{' over '.join(kinds)} | {expectation.name}", families=families, kinds=kinds,
                      expectation=expectation)


BERT, ALBERT, ROBERTA = ("bert",), ("albert",), ("roberta",)
DECODERS = tuple(name for name, family in FAMILIES.items() if family.is_causal)  # what the paper says of GPT-2
ENCODERS = tuple(name for name in FAMILIES if name not in DECODERS)
NEUTRAL, NEUTRAL_OTHER = "target neutral", "target neutral background counter"
SYNTACTIC, SEMANTIC = "target syntactic similar", "target semantic similar"
COUNTER_SYNTACTIC, COUNTER_SEMANTIC = "target counter syntactic similar", "target counter semantic similar"
OTHER_SYNTACTIC, OTHER_SEMANTIC = "background counter syntactic similar", "background counter semantic similar"

CLAIMS = by_id([  # in the order of the paper's section on results
    _claim("base-leans", "All models lean to one gender in base prompts", ENCODERS + DECODERS, LEANS, "base"),
    _claim("unrelated-not-overturned", "Unrelated knowledge does not overturn the preference",
           ENCODERS + DECODERS, NOT_OVERTURNED, "unrelated"),
    _claim("unrelated-kept", "Unrelated knowledge leaves the preference as it is",
           ENCODERS + DECODERS, KEPT, "unrelated"),
    _claim("gpt2-neutral", "GPT-2: neutral knowledge leaves the preference as it is", DECODERS, KEPT, NEUTRAL),
    _claim("gpt2-neutral-background", "GPT-2: so does neutral knowledge of another job", DECODERS, KEPT, NEUTRAL_OTHER),
    _claim("encoders-neutral", "BERT, ALBERT, RoBERTa: neutral knowledge overturns the preference",
           ENCODERS, OVERTURNED, NEUTRAL),
    _claim("encoders-neutral-background", "BERT, ALBERT, RoBERTa: so does neutral knowledge of another job",
           ENCODERS, OVERTURNED, NEUTRAL_OTHER),
    _claim("bert-syntactic", "BERT is sensitive to target syntactic knowledge", BERT, MOVED, SYNTACTIC),
    _claim("bert-background-syntactic", "BERT is sensitive to background counter syntactic knowledge",
           BERT, MOVED, OTHER_SYNTACTIC),
    _claim("bert-semantic", "BERT: target semantic knowledge changes nothing, or conflicts", BERT, UNCHANGED, SEMANTIC),
    _claim("bert-counter-syntactic", "BERT: target counter syntactic knowledge changes nothing, or conflicts",
           BERT, UNCHANGED, COUNTER_SYNTACTIC),
    _claim("bert-counter-semantic", "BERT: target counter semantic knowledge changes nothing, or conflicts",
           BERT, UNCHANGED, COUNTER_SEMANTIC),
    _claim("bert-background-semantic", "BERT: background counter semantic knowledge changes nothing, or conflicts",
           BERT, UNCHANGED, OTHER_SEMANTIC),
    _claim("albert-semantic", "ALBERT: target semantic knowledge enlarges the preference", ALBERT, ENLARGED, SEMANTIC),
    _claim("albert-counter-syntactic", "ALBERT: target counter syntactic knowledge overturns it",
           ALBERT, OVERTURNED, COUNTER_SYNTACTIC),
    _claim("albert-background-syntactic", "ALBERT: background counter syntactic knowledge overturns it",
           ALBERT, OVERTURNED, OTHER_SYNTACTIC),
    _claim("albert-background-semantic", "ALBERT: background counter semantic knowledge overturns it",
           ALBERT, OVERTURNED, OTHER_SEMANTIC),
    _claim("albert-counter-semantic", "ALBERT: target counter semantic knowledge does not overturn it",
           ALBERT, NOT_OVERTURNED, COUNTER_SEMANTIC),
    _claim("roberta-syntactic", "RoBERTa: target syntactic knowledge enlarges the preference",
           ROBERTA, ENLARGED, SYNTACTIC),
    _claim("roberta-semantic", "RoBERTa: target semantic knowledge enlarges the preference",
           ROBERTA, ENLARGED, SEMANTIC),
    _claim("roberta-background-syntactic", "RoBERTa: background counter syntactic knowledge overturns it",
           ROBERTA, OVERTURNED, OTHER_SYNTACTIC),
    _claim("roberta-counter-syntactic", "RoBERTa: target counter syntactic knowledge makes the margin smaller",
           ROBERTA, WEAKENED, COUNTER_SYNTACTIC),
    _claim("syntactic-over-semantic", "ALBERT, RoBERTa: syntactic counter-knowledge moves more than semantic",
           ALBERT + ROBERTA, MORE, COUNTER_SYNTACTIC, COUNTER_SEMANTIC),
    Claim("gpt2-conflicting", "counteracts", "Results", "GPT-2 has conflicting results on the other kinds of knowledge",
          untestable="the paper names neither the kinds nor what conflicts"),
    Claim("finetuning", "counteracts", "Conclusion",
          "Fine-tuning on counterexamples of like syntax makes outcomes neutral",
          untestable="the paper prompts alone and fine-tunes nothing"),
])


def readings(answers: dict[str, dict], draws: int = 1_000) -> list[list[Verdict]]:
    """What each claim comes to on each model of its families: a list of four verdicts, at k = 3, 5, 10 and in full."""
    by_occupation = {(name, k): tables.by_occupation(answer, k) for name, answer in answers.items() for k in (*K, FULL)}
    return [[read(claim, by_occupation[name, k], draws, on=name, reading=tables.k_name(k), models=[name])
             for k in (*K, FULL)]
            for claim in CLAIMS.values() if not claim.untestable
            for name, answer in answers.items() if answer["family"] in claim.families]


def read(claim: ClozeClaim, table: pd.DataFrame, draws: int = 1_000, **about) -> Verdict:
    """Whether a claim is met in a table of tables.by_occupation, with a bootstrap over occupations. There is no case
    where a group's base prompts have no gendered token."""
    groups = []
    for _, group in table.groupby("dominated"):
        wide = group.pivot(index="occupation", columns="kind", values=["female", "male"])
        groups.append(np.stack([[wide[gender][kind] for gender in ("female", "male")]
                                for kind in ["base", *claim.kinds]]))
    values = np.stack(groups)  # [2 groups, base and kinds, 2 genders, occupations]
    has_tokens = bool(values[:, 0].sum((-2, -1)).all())

    def margins(sample):
        return np.nan_to_num(tables.margin(*np.moveaxis(sample.mean(-1), -1, 0))).T  # [base and kinds, 2 groups]

    side = np.sign(margins(values)[0])

    def score(drawn):
        base, *after = margins(values[..., drawn.astype(int)])
        return claim.expectation.score(side, base, np.array(after))

    estimate = stats.bootstrap(score, np.arange(values.shape[-1]), draws=draws) if has_tokens else np.nan
    return judge(claim, estimate, gates=[Gate("gendered tokens in the base prompts", has_tokens, NO_TOKEN)], **about)


def overall(readings: list[Verdict]) -> Verdict:
    """One verdict of the four: that of the k at which the claim is met least. It holds where all of them do."""
    *tops, full = readings
    found = "; ".join(f"{reading.reading} {_shown(reading)}" for reading in readings)
    known = [reading for reading in tops if reading.outcome in DECIDED]
    if not known:
        return replace(full, found=found, remark=ALONE)
    held = [str(k) for k, reading in zip(K, tops) if reading.outcome == Outcome.HOLDS]
    reason = f"{Outcome.HOLDS} at k = {', '.join(held)}" if 0 < len(held) < len(known) else ""
    return replace(min(known, key=lambda reading: reading.estimate.value), found=found, reason=reason)


def table(readings: list[list[Verdict]]) -> pd.DataFrame:
    """One row per claim and model: model, knowledge, claim, one column per k and one for the full distribution,
    verdict."""
    claims = [CLAIMS[four[0].claim] for four in readings]
    rows = [[four[0].on, " over ".join(claim.kinds), claim.expectation.name, *map(_shown, four), str(overall(four))]
            for claim, four in zip(claims, readings)]
    return pd.DataFrame(rows, columns=["model", "knowledge", "claim", *map(tables.k_name, (*K, FULL)), "verdict"])


def _shown(reading: Verdict) -> str:
    return reading.reason if reading.outcome == Outcome.NO_CASE else str(reading)
