"""What is left of a claim with another training in mind: mini-bert trained again from other seeds.

The runs trainings-seed1 and on measure BERTs that are alike in text and length and differ in their
seed alone. Their tests are judged as those of the bundled model are: by the same margins, and held
against the same random interventions and control models. `folders` is {run: folder}, all stored
runs where it is left out.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from lib import results, verdict
from lib.engine import stats
from lib.publish.cells import TESTED, cells, describe, kinds, said_of_ours
from lib.publish.judged import judged
from lib.publish.papers import CLAIMS, PAPERS, RETRAININGS
from lib.publish.records import is_about_bert
from lib.verdict import APPLICABLE, NOT_TESTABLE, Claim, Control, Outcome, Side, Verdict

BUNDLED = "mini-real"  # the run of the bundled model on the same data
FEWEST = 3  # retrainings that say something of another one


def by_claim(folders: dict[str, Path] | None = None) -> pd.DataFrame:
    """In how many retrainings a claim is supported: one row per claim about BERT that all of them
    test.

    `supported in` counts retrainings, so not the bundled model. Empty without these.
    """
    columns = {}
    for run, tests in judged(folders).items():
        own = [one for one in tests if is_about_bert(one)]
        is_here = run == BUNDLED or run.startswith(RETRAININGS)
        if is_here and any(one.outcome != Outcome.NOT_RUN for one in own):
            columns[run] = cells(own)
    table = pd.DataFrame([describe(claim) for claim in CLAIMS.values()])
    table = table[["id", "source", "claim"]].assign(**columns)
    again = [run for run in columns if run != BUNDLED]
    outcomes = table[list(columns)].apply(kinds)
    is_run = ~outcomes.isin([NOT_TESTABLE, Outcome.NOT_RUN]).any(axis=1)
    is_applicable = outcomes.isin(TESTED).any(axis=1)
    is_kept = is_run & is_applicable & (bool(again) and len(columns) > 1)
    supported = (outcomes.loc[is_kept, again] == Outcome.SUPPORTED).sum(axis=1)
    counts = [f"{n} of {len(again)}" for n in supported]
    return table[is_kept].assign(**{"supported in": counts}).reset_index(drop=True)


def in_words(folders: dict[str, Path] | None = None) -> dict[str, str]:
    """{claim: "supported in 3 of 5; over them inconclusive"}, of claims that retrainings test."""
    counts = by_claim(folders)
    over = across(folders)
    words = {}
    for claim, supported in zip(counts["id"], counts["supported in"], strict=True):
        words[claim] = f"supported in {supported}"
        outcomes = over.loc[over["id"] == claim, "outcome"] if len(over) else []
        if len(outcomes):
            words[claim] += f"; over them {', '.join(dict.fromkeys(outcomes))}"
    return words


def not_across(folders: dict[str, Path] | None = None) -> dict[str, str]:
    """{claim: "not across retrainings"}, of claims that their tests over retrainings do not
    support, in the main analysis variant.
    """
    by_id = {}
    for paired in _paired(folders):
        one = _over_intervals(paired)
        if one is not None:
            by_id.setdefault(paired.claim.id, []).append(one)
    said = {}
    for claim, tests in by_id.items():
        if verdict.combined(CLAIMS[claim], tests).kind != Outcome.SUPPORTED:
            said[claim] = "not across retrainings"
    return said


@dataclass(frozen=True)
class Paired:
    """One test of a claim in each retraining."""

    claim: Claim
    tests: tuple[Verdict, ...]

    @property
    def about(self) -> dict[str, str]:
        """What tables say of it."""
        supported = sum(one.outcome == Outcome.SUPPORTED for one in self.tests)
        return {
            "id": self.claim.id,
            "source": PAPERS[self.claim.paper].title,
            "claim": self.claim.says,
            "on": _on(self.tests),
            "supported in": f"{supported} of {len(self.tests)}",
        }


def across(folders: dict[str, Path] | None = None) -> pd.DataFrame:
    """Each test about BERT over three or more retrainings, seeds and items resampled together: a
    row per test that has an interval in all of them.

    estimates   of the retrainings
    mean        over them, with the interval of another training on other items
    outcome     what the claim comes to by it
    share       least and largest share of the variance that is between retrainings
    """
    rows = []
    for paired in _paired(folders):
        one = _over_intervals(paired)
        if one is None:
            continue
        estimates = [test.estimate for test in paired.tests]
        _, share = stats.over_trainings(estimates)
        rows.append(
            paired.about
            | {
                "estimates": estimates,
                "mean": one.estimate,
                "share": share,
                "threshold": one.threshold,
                "outcome": str(one.outcome),
                "reason": one.reason,
            }
        )
    return pd.DataFrame(rows)


def supported(over: pd.DataFrame, folders: dict[str, Path] | None = None) -> pd.DataFrame:
    """What lasts: a row per claim that a test of `across` supports, the first such test.

    `bundled` is what the claim comes to in the bundled model.
    """
    lasts = over[over["outcome"] == Outcome.SUPPORTED].drop_duplicates("id")
    table = lasts[["claim", "on", "supported in", "reason"]].copy()
    table["claim"] = [CLAIMS[id].says + said_of_ours(CLAIMS[id]) for id in lasts["id"]]
    table.insert(2, "mean", [f"{mean:z.3g}" for mean in lasts["mean"]])
    again = by_claim(folders).set_index("id")
    bundled = kinds(again[BUNDLED]) if BUNDLED in again else pd.Series(dtype=object)
    table["bundled"] = [bundled.get(id, str(Outcome.NOT_RUN)) for id in lasts["id"]]
    return table.reset_index(drop=True)


def _over_intervals(paired: Paired) -> Verdict | None:
    """The mean of one test over retrainings, judged; None where a retraining has no interval, or
    they are not held against the same threshold.
    """
    tests = paired.tests
    thresholds = {(one.threshold, bool(one.control)) for one in tests}
    has_intervals = all(one.estimate.has_interval for one in tests)
    if len(thresholds) > 1 or not has_intervals:
        return None
    mean, _ = stats.over_trainings([one.estimate for one in tests])
    low, high = np.clip([mean.low, mean.high], *paired.claim.bounds).tolist()
    mean = replace(mean, low=low, high=high)
    random = None
    if tests[0].control:
        random = _mean_control([one.control for one in tests])
    return _held(paired, mean, control=random)


def _held(paired: Paired, estimate: stats.Estimate, **about) -> Verdict:
    """An estimate over retrainings, judged and held against control models like any other."""
    tests = paired.tests
    claim = paired.claim
    if claim.margin_from_data:
        claim = replace(claim, margin=float(np.mean([one.margin or 0.0 for one in tests])))
    one = verdict.judge(
        claim, estimate, threshold=tests[0].threshold, variant=tests[0].variant, **about
    )
    found = [one.control_models or () for one in tests]
    controls = [_mean_control(list(each)) for each in zip(*found, strict=True)]
    return verdict.beside_models(claim, one, controls)


def _mean_control(controls: list[Control]) -> Control:
    """One control of a test, which each retraining was held against, over retrainings.

    It says nothing where it says nothing in one of them.
    """
    name = controls[0].name
    for one in controls:
        if one.why_idle:
            nothing = stats.Estimate(np.nan)
            return Control(name, nothing, nothing, one.why_idle)
    shown = [one.estimate for one in controls]
    if all(estimate.has_interval for estimate in shown):
        estimate, _ = stats.over_trainings(shown)
    else:
        estimate = stats.Estimate(float(np.mean([one.value for one in shown])))
    difference, _ = stats.over_trainings([one.difference for one in controls])
    return Control(name, estimate, difference)


def _paired(folders: dict[str, Path] | None) -> Iterator[Paired]:
    """The tests about BERT that are applicable in all of three or more retrainings, paired by the
    order in which notebooks keep them.
    """
    again = [tests for run, tests in judged(folders).items() if run.startswith(RETRAININGS)]
    if len(again) < FEWEST:
        return
    for claim in CLAIMS.values():
        of_claim = []
        for tests in again:
            of_claim.append([one for one in tests if one.claim == claim.id])
        for tests in zip(*of_claim, strict=False):
            if all(one.outcome in APPLICABLE for one in tests):
                yield Paired(claim, tests)


def _on(tests: tuple[Verdict, ...]) -> str:
    """What they were tested on, and the variant: the words that all retrainings share."""
    shared = []
    for one in tests:
        words = f"{one.on}, {one.variant}".replace(",", " , ").split()
        shared.append([word for word in words if word not in one.models])
    in_all = set.intersection(*map(set, shared))
    common = [word for word in shared[0] if word in in_all]
    return " ".join(common).replace(" ,", ",").strip(" ,")


def towards(row: dict) -> tuple[stats.Estimate, list[float]]:
    """A row of `across` for a plot of many: how far mean, interval and retrainings lie on the
    claim's side of its threshold (above 0), in half widths of that interval.
    """
    claim = CLAIMS[row["id"]]
    half_width = (row["mean"].high - row["mean"].low) / 2

    def ahead(value: float) -> float:
        above = value - row["threshold"]
        if claim.side == Side.WITHIN:
            return (claim.margin - abs(above)) / half_width
        is_below = claim.side in (Side.BELOW, Side.AT_MOST)
        return (-above if is_below else above) / half_width

    mean = ahead(row["mean"].value)
    ends = ahead(row["mean"].low), ahead(row["mean"].high)
    estimate = stats.Estimate(mean, min(ends), max(mean, *ends))
    return estimate, [ahead(one.value) for one in row["estimates"]]


def heads_across(folders: dict[str, Path] | None = None) -> pd.DataFrame:
    """Whether the scores of heads on gender in one retraining say anything of another: a row per
    pair, and the mean.

    Rank correlations of all heads by their place, within layers, and of the means of layers; and
    how far the ten highest of either lie above the other's mean, in its standard deviations. A head
    has no name that outlives its training: the same place in another model is another head, so that
    places can agree no further than layers do.
    """
    scores = _head_scores(folders or results.runs())
    rows = []
    for (one, a), (other, b) in itertools.combinations(scores.items(), 2):
        both = np.stack([a, b])
        layers = both.mean(axis=-1)
        heads = both.reshape(2, -1)
        within = (both - layers[..., None]).reshape(2, -1)
        rows.append(
            {
                "retrainings": f"{one}, {other}",
                "heads": stats.rank_correlation(*heads),
                "heads within layers": stats.rank_correlation(*within),
                "layers": stats.rank_correlation(*layers),
                "the ten highest": _top_ten(heads),
            }
        )
    columns = ["retrainings", "heads", "heads within layers", "layers", "the ten highest"]
    table = pd.DataFrame(rows, columns=columns)
    if len(table) > 1:
        table.loc[len(table)] = ["mean", *table.iloc[:, 1:].mean()]
    return table.round(2)


def heads_in_a_sentence(folders: dict[str, Path] | None = None) -> str:
    """What `heads_across` comes to, in words: of heads by their place, how far rank correlations go
    beyond the 95 % of chance (normal, of standard deviation 1 / sqrt(n - 1)).
    """
    pairs = heads_across(folders)
    if len(pairs) < 2:
        return "Fewer than three retrainings have stored scores of heads."
    n_heads = next(iter(_head_scores(folders or results.runs()).values())).size
    chance = 1.96 / np.sqrt(n_heads - 1)
    *each, mean = pairs["heads"]
    beyond = sum(abs(rho) > chance for rho in each)
    return (
        f"Between {len(each)} pairs of retrainings the rank correlation of head scores is "
        f"{mean:z.2f} on average, and beyond chance (±{chance:.2f}) in {beyond}; the ten highest "
        f"heads of one lie {pairs['the ten highest'].iloc[-1]:z.2f} standard deviations above the "
        "mean of another."
    )


def _head_scores(folders: dict[str, Path]) -> dict[str, pd.DataFrame]:
    """{retraining: scores of its encoder's heads on gender, layers x heads}."""
    scores = {}
    for run, folder in folders.items():
        file = folder / "02_heads.csv"
        if run.startswith(RETRAININGS) and file.is_file():
            heads = pd.read_csv(file).query("bias == 'gender'")
            encoder = heads[heads["model"] == heads["model"].iloc[0]]  # the encoder's come first
            wide = encoder.pivot(index="layer", columns="head", values="score")
            scores[run.removeprefix(RETRAININGS)] = wide
    return scores


def _top_ten(heads: np.ndarray) -> float:
    """How far the ten highest of one lie above the other's mean, in its deviations; both ways
    averaged.
    """
    distances = []
    for own, other in ((heads[0], heads[1]), (heads[1], heads[0])):
        highest = own.argsort()[-10:]
        distances.append((other[highest].mean() - other.mean()) / other.std())
    return float(np.mean(distances))


def in_a_sentence(over: pd.DataFrame) -> str:
    """What a table of `across` comes to, in words."""
    count = over["outcome"].value_counts()
    supported = count.get(Outcome.SUPPORTED, 0)
    contradicted = count.get(Outcome.CONTRADICTED, 0)
    low, high = np.median([*over["share"]], axis=0)
    n = len(over["estimates"].iloc[0])
    return (
        f"Over {n} retrainings of mini-bert, resampled with the items, {supported} of {len(over)} "
        f"tests are supported and {contradicted} contradicted; {low:.0%} to {high:.0%} of the "
        "variance is between retrainings (medians)"
    )
