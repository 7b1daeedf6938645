"""Every test of every run in one table, with what it came to. Board, README, article, cards and
notebook 12 are selections of it.

    tests = ledger.table()                        # a row a test
    tests.query("claim == 'mask-top3-seat'")      # why the board says so
    ledger.cells(tests)                           # what each claim comes to in each run

Control runs are models that cannot have an effect: `null` untrained networks, ten draws of them,
`balanced` a BERT that read text whose genders were swapped by a coin. Each test of another run is
held against theirs of the same claim, bias and variant in a model of the same family, on the same
data if there is one. A control says nothing where it was not run, cannot do the task, is the same
in every draw, or, of the gender-swapped model, has the bias itself.

`folders` is {run: folder}, all stored runs where it is left out.
"""

import functools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from companion import claims, results
from companion.claims import Beside, Claim, Outcome, Test
from companion.profiles import CONTROLS, SWAPPED, UNTRAINED
from lib import CompanionError
from lib.engine import stats
from lib.engine.folders import REGISTRY, config_of, draw_of
from lib.engine.stats import Estimate

RETRAININGS = "trainings-"
PUBLISHED = "published"
OWN = ("mini", "mini-real")  # of the bundled models: on our sentences, on real text
FEWEST = 3  # retrainings that say something of another one
# Preconditions that ask whether the bias is there; all others, whether a model can do the task.
OF_BIAS = ("SEAT of gender", "SEAT of race", "biased", "a preference in the base prompts")
DECIDED = (Outcome.SUPPORTED, Outcome.CONTRADICTED)
# The same test in another run, model or draw.
SAME = ["claim", "family", "bias", "variant", "order"]
BARELY, MOST = 1 + 1e-4, 100  # times as much data: that says nothing, that nobody has
# What a reader should know beside an outcome.
NO_CONTROL, ONE_TRAINING, OTHER_READING = "†", "‡", "§"
MARKS = {
    NO_CONTROL: "no control could have shown it",
    ONE_TRAINING: "of one training only, or undecided over trainings",
    OTHER_READING: "another reading of the paper comes to something else",
}


# ---- runs
def control_of(run: str) -> str:
    """Which control a run is: null-real is null; "" of any other."""
    return next((name for name in CONTROLS if name in run.split("-")), "")


def is_on_papers_data(run: str) -> bool:
    return "real" in run.split("-") or run.startswith(("paper", RETRAININGS))


# ---- the table
def table(folders: dict[str, Path] | None = None) -> pd.DataFrame:
    """A row a test: run, draw, the fields of Test, family, order, is_main, controls (what they
    show), outcome and why.
    """
    rows = _read(folders or results.runs())
    return _judged(rows, _Controls(rows))


def _judged(rows: pd.DataFrame, controls: "_Controls") -> pd.DataFrame:
    """Rows with what controls show beside each, its outcome and why."""
    found = []
    for row in rows.to_dict("records"):
        claim = claims.claims()[row["claim"]]
        is_control = bool(control_of(row["run"]))
        beside = [] if is_control else controls.beside(row, claim)
        outcome, why = claims.outcome(claim, row["test"], beside, is_control)
        found.append({"controls": beside, "outcome": str(outcome), "why": why})
    columns = ["controls", "outcome", "why"]
    return rows.join(pd.DataFrame(found, columns=columns, dtype=object))


def of_tests(tests: Sequence[Test], run: str) -> pd.DataFrame:
    """The tests of one notebook of a run, held against the stored control runs, as `table` has
    them.
    """
    known = claims.claims()
    kept = {name: folder for name, folder in results.runs().items() if control_of(name)}
    rows = _frame([_row(test, run, known[test.claim].notebook) for test in tests])
    controls = _Controls(_read({} if control_of(run) else kept))
    return _judged(rows, controls)


def shown(tests: pd.DataFrame) -> pd.DataFrame:
    """Tests as a notebook shows them: claim, on, estimate, beyond a control, outcome."""
    rows = []
    for row in tests.to_dict("records"):
        test = row["test"]
        models = " against ".join(filter(None, (row["model"], row["against"])))
        on = [models, row["bias"], row["variant"], f"{row['k']} heads" if row["k"] else ""]
        why = f" ({row['why']})" if row["why"] else ""
        rows.append(
            {
                "claim": claims.claims()[row["claim"]].short,
                "on": ", ".join(filter(None, on)),
                "measured": sized(test.estimate),
                "beyond controls": sized(test.beside.difference) if test.beside else "",
                "outcome": row["outcome"] + why,
            }
        )
    return pd.DataFrame(rows)


def sized(estimate: Estimate | None) -> str:
    """A value and its interval to three digits, thousands in full: 0.189 [0.138, 0.253]."""
    if estimate is None or math.isnan(estimate.value):
        return ""
    return format(estimate, "z,.0f" if abs(estimate.value) >= 1000 else "z.3g")


def _read(folders: dict[str, Path]) -> pd.DataFrame:
    """All tests as they were kept: of retrainings, what is about their BERT alone, since their
    decoder is untrained.
    """
    known = claims.claims()
    rows = []
    for run, folder in folders.items():
        draws = [folder, *sorted(folder.glob("draws/*"))]
        for draw, place in enumerate(draws if control_of(run) else draws[:1]):
            for file in sorted(place.glob("claims/*.json")):
                for test in claims.read(file):
                    if test.claim not in known:
                        raise CompanionError(
                            f"figures/{run}/claims tests '{test.claim}', which data/claims.csv has "
                            "not: add it there, or run its notebook again."
                        )
                    is_told = not run.startswith(RETRAININGS) or _is_about_bert(test)
                    if is_told:
                        rows.append(_row(test, run, file.stem, draw))
    return _frame(rows)


def _row(test: Test, run: str, notebook: str, draw: int = 0) -> dict:
    same = ("claim", "model", "against", "bias", "variant", "k", "estimate")
    row = {name: getattr(test, name) for name in same}
    family = " ".join(filter(None, (family_of(test.model), family_of(test.against))))
    about = {"run": run, "draw": draw, "notebook": notebook, "family": family}
    return row | about | {"test": test}


def _frame(rows: list[dict]) -> pd.DataFrame:
    """Rows with their order among the same of one run, and whether they are of the main reading."""
    columns = ["run", "draw", "notebook", "claim", "model", "against", "bias", "variant", "k"]
    columns += ["family", "estimate", "test"]
    frame = pd.DataFrame(rows, columns=columns, dtype=object)  # None stays None, and 3 heads 3
    of_one_kind = ["run", "draw", "claim", "family", "bias", "variant"]
    frame["order"] = frame.groupby(of_one_kind, sort=False).cumcount()
    frame["is_main"] = _is_main(frame)
    return frame


def _is_main(rows: pd.DataFrame) -> pd.Series:
    """Whether a test is of the paper's own reading, or of the first that was run."""
    known = claims.claims()
    own = rows["claim"].map(lambda id: known[id].main)
    is_own = (own == claims.EVERY) | (rows["variant"] == own)
    by_claim = [rows["run"], rows["draw"], rows["claim"]]
    first = rows.groupby(by_claim)["variant"].transform("first") if len(rows) else own
    return is_own | (~is_own.groupby(by_claim).transform("any") & (rows["variant"] == first))


def _is_about_bert(test: Test) -> bool:
    """Whether a test is about gender in BERT, or a method with BERT, and about nothing else."""
    names = [name for name in (test.model, test.against) if name in REGISTRY]
    claim = claims.claims()[test.claim]
    is_bert = all(REGISTRY[name].family == "bert" for name in names)
    return is_bert and (claim.about_bert or SWAPPED in claim.controls)


@functools.cache
def family_of(name: str) -> str:
    """A model's family: of one that goes by a name by what the registry says, of a folder by its
    config; "" where neither tells.
    """
    bare = name.partition("@")[0]
    if not bare:
        return ""
    if bare in REGISTRY:
        return REGISTRY[bare].family
    if Path(name).name.startswith(SWAPPED):
        return "bert"  # these all are
    for entry in REGISTRY.values():
        if entry.source == name:
            return entry.family
    try:
        return config_of(Path(name)).get("model_type") or ""
    except (OSError, CompanionError):  # no folder here: one of the hub, or one that was removed
        return ""


# ---- controls
class _Controls:
    """The tests of control runs: {(control, on the papers' data, claim, family, bias):
    {(variant, order): tests, one a draw}}.
    """

    def __init__(self, rows: pd.DataFrame):
        self.tests = {}
        for row in rows.to_dict("records"):
            control = control_of(row["run"])
            if control and _is_of(control, row["test"]):
                about = tuple(row[name] for name in ("claim", "family", "bias"))
                place = (control, is_on_papers_data(row["run"]), *about)
                alike = self.tests.setdefault(place, {})
                alike.setdefault((row["variant"], row["order"]), []).append(row["test"])

    def beside(self, row: dict, claim: Claim) -> list[Beside]:
        """What the controls of a claim show in place of one test of a run."""
        return [self._shown(control, row) for control in claim.controls]

    def _shown(self, control: str, row: dict) -> Beside:
        tests = self._same(control, row)
        idle = _why_idle(control, tests)
        if idle or row["estimate"] is None:
            nothing = Estimate(np.nan)
            return Beside(CONTROLS[control], nothing, nothing, idle)
        estimate = _over_draws([test.estimate for test in tests if not _unable(test)])
        difference = stats.difference(row["estimate"], estimate)
        return Beside(CONTROLS[control], estimate, difference)

    def _same(self, control: str, row: dict) -> list[Test]:
        """The control's tests, one a draw: on the same data if there are any; of the variant, or
        of the one that it refines ("raw" of "raw, r/TheRedPill alone"), or of any.
        """
        about = tuple(row[name] for name in ("claim", "family", "bias"))
        for on_papers_data in dict.fromkeys([is_on_papers_data(row["run"]), False]):
            alike = self.tests.get((control, on_papers_data, *about), {})
            variants = list(dict.fromkeys(variant for variant, _ in alike))
            refined = [name for name in variants if name and row["variant"].startswith(f"{name}, ")]
            own = [name for name in variants if name == row["variant"]]
            for name in (own or refined or variants)[:1]:
                last = max(order for variant, order in alike if variant == name)
                return alike[name, min(row["order"], last)]
        return []


def _is_of(control: str, test: Test) -> bool:
    """Whether a test of a control's run is of the control itself, and has something to say."""
    if test.estimate is None:
        return False
    names = [name for name in (test.model, test.against) if name]
    if control == UNTRAINED:
        return all(draw_of(name) for name in names)
    return all(Path(name).name.startswith(control) for name in names)


def _why_idle(control: str, tests: Sequence[Test]) -> str:
    """Why a control's tests, one of each draw, say nothing; "" where they do."""
    if not tests:
        return "not run"
    able = [test for test in tests if not _unable(test)]
    if all(np.isnan(test.estimate.value) for test in able or tests):
        return "no value"
    if not able:
        return f"cannot show it ({_unable(tests[0])})"
    if control == SWAPPED:
        if tests[0].bias == "race":
            return "words of race were not swapped"
        needs = tests[0].needs
        has_bias = [name for name in OF_BIAS if needs.get(name) == ""]
        return f"has the bias itself ({has_bias[0]})" if has_bias else ""
    ends = np.array([[*test.estimate] for test in able])
    is_pinned = len(able) > 1 and not np.nan_to_num(np.ptp(stats.settled(ends), axis=0)).any()
    return "the same in every draw" if is_pinned else ""


def _unable(test: Test) -> str:
    """The precondition of being able that a control does not meet; "" where it meets all."""
    for name, why in test.needs.items():
        if why and name not in OF_BIAS:
            return f"{name}: not met"
    return ""


def _over_draws(estimates: list[Estimate]) -> Estimate:
    """The mean over draws with Student's interval; of one draw its own."""
    known = [one for one in estimates if not np.isnan(one.value)]
    return known[0] if len(known) == 1 else stats.mean([one.value for one in known])


# ---- what claims come to
def cells(tests: pd.DataFrame) -> pd.DataFrame:
    """What each claim comes to in each run that tests it: outcome, counts of its tests, why, marks,
    and the first test that came to it.

    Where all decided tests of the paper's own reading agree it is theirs, however many are
    undecided beside them; where they differ it is undecided.
    """
    over = of_claims(trainings(tests)).set_index("claim")["outcome"]
    by_claim = {}
    for row in tests[tests["draw"] == 0].to_dict("records"):
        by_claim.setdefault((row["run"], row["claim"]), []).append(row)
    rows = []
    for (_, id), of_claim in by_claim.items():
        main = [row for row in of_claim if row["is_main"]]
        row = _came_to(main)
        found = row["outcome"]
        marks = ""
        if found in DECIDED:
            marks += NO_CONTROL if found == Outcome.SUPPORTED and _lacks_control(row) else ""
            marks += ONE_TRAINING if over.get(id) != found else ""
            marks += OTHER_READING if _has_other_reading(of_claim) else ""
        counts = Counter(one["outcome"] for one in main)
        rows.append(row | {"marks": marks, "counts": dict(counts)})
    return pd.DataFrame(rows, columns=[*tests.columns, "marks", "counts"])


def _came_to(of_claim: Sequence[dict]) -> dict:
    """The first test of a claim that came to what all of them together do, with that outcome."""
    found = combined([row["outcome"] for row in of_claim])
    first = next((row for row in of_claim if row["outcome"] == found), of_claim[0])
    return first | {"outcome": str(found)}


def combined(outcomes: Sequence[str]) -> Outcome:
    """What several tests of one claim come to."""
    decided = set(outcomes) & set(DECIDED)
    if len(decided) == 1:
        return Outcome(decided.pop())
    is_tested = any(outcome != Outcome.NOT_TESTED for outcome in outcomes)
    return Outcome.UNDECIDED if is_tested else Outcome.NOT_TESTED


def _lacks_control(row: dict) -> bool:
    """Whether no control could have shown an effect that was found."""
    beside = filter(None, (row["test"].beside, *row["controls"]))
    asks = claims.claims()[row["claim"]].asks
    return asks == "effect" and not any(control.works for control in beside)


def _has_other_reading(of_claim: Sequence[dict]) -> bool:
    """Whether a variant comes to something else than the main one, in the same model, by the same
    bias.
    """

    def subject(row: dict) -> tuple:
        return tuple(row[name] for name in ("model", "against", "bias", "order"))

    tested = [row for row in of_claim if row["outcome"] != Outcome.NOT_TESTED]
    main = {subject(row): row["outcome"] for row in tested if row["is_main"]}
    others = [row for row in tested if not row["is_main"]]
    return any(main.get(subject(row), row["outcome"]) != row["outcome"] for row in others)


# ---- the board
def board(tests: pd.DataFrame) -> pd.DataFrame:
    """A row a claim of a paper: what it came to on our sentences or, where it can be tested there
    alone, on real text.

    outcome, marks, counts, why   as in `cells`; not tested where no run has it
    test, run, controls, ...      the first test that came to it, as in `table`
    size                          its Estimate; None of what is not tested
    mean, over                    over trainings: the same, and what the claim came to
    other                         on the other data; "" where the data are no part of the test
    published                     how many tests on published models came to what
    needed                        how many times as much data would decide it, if it is undecided
    """
    of_runs = {}
    for cell in cells(tests).to_dict("records"):
        of_runs.setdefault(cell["claim"], {})[cell["run"]] = cell
    over = of_claims(trainings(tests)).set_index("claim")
    published = of_published(tests)
    rows = []
    for claim in claims.claims().values():
        if not claim.paper:
            continue
        own = [of_runs[claim.id][run] for run in OWN if run in of_runs.get(claim.id, {})]
        tested = [cell for cell in own if cell["outcome"] != Outcome.NOT_TESTED]
        nothing = {"outcome": str(Outcome.NOT_TESTED), "why": claim.untestable or "not run"}
        nothing |= {"run": "", "test": None, "controls": [], "marks": "", "counts": {}}
        cell = next(iter(tested + own), nothing)
        again = over.loc[claim.id] if claim.id in over.index else {}
        others = [] if claim.any_data else [one["outcome"] for one in own if one is not cell]
        counts = Counter(published.loc[published["claim"] == claim.id, "outcome"])
        of_claim = ("paper", "where", "says", "is_ours", "notebook", "figure")
        row = cell | {name: getattr(claim, name) for name in of_claim}
        row |= {
            "claim": claim.id,
            "size": cell["test"].estimate if tested else None,
            "mean": again.get("mean"),
            "over": again.get("outcome", ""),
            "other": next(iter(others), ""),
            "published": dict(counts),
            "needed": needed(cell),
        }
        rows.append(row)
    return pd.DataFrame(rows).astype(object)


def needed(row: dict) -> float:
    """How many times as much data would decide an undecided test, up to MOST times: intervals
    shrink with the root of n, and values are taken to stay. nan: none would, or the interval ends
    on an edge, as shares do at 1, and does not tell.
    """
    if row["outcome"] != Outcome.UNDECIDED:
        return np.nan
    test, claim = row["test"], claims.claims()[row["claim"]]
    controls = list(filter(None, (test.beside, *row["controls"])))
    for times in np.geomspace(BARELY, MOST, 200):
        share = times**-0.5
        sharper = replace(test, estimate=_narrower(test.estimate, share), beside=None)
        beside = [replace(one, difference=_narrower(one.difference, share)) for one in controls]
        if claims.outcome(claim, sharper, beside)[0] in DECIDED:
            return float(times) if times > BARELY else np.nan
    return np.nan


def _narrower(estimate: Estimate, share: float) -> Estimate:
    """The same with an interval that is this share as wide."""
    value, low, high = estimate
    return replace(estimate, low=value + share * (low - value), high=value + share * (high - value))


def of_published(tests: pd.DataFrame) -> pd.DataFrame:
    """The main tests on published models: a run of one more model has its companion's tests again,
    which count once.
    """
    is_told = tests["is_main"].astype(bool) & (tests["outcome"] != Outcome.NOT_TESTED)
    rows = tests[tests["run"].str.startswith(PUBLISHED) & is_told]
    return rows.drop_duplicates(["claim", "model", "against", "bias", "variant", "order"])


# ---- over trainings
def trainings(tests: pd.DataFrame) -> pd.DataFrame:
    """Each test over three or more retrainings that have an interval for it: a row a test.

    estimates   of the retrainings
    mean        over them, with its interval; bounded by what can be
    another     the same with the interval of one training more
    outcome     what the claim comes to by the mean
    """
    known = claims.claims()
    again = tests[tests["run"].str.startswith(RETRAININGS)]
    n = again["run"].nunique()
    rows = []
    for _, same in again.groupby(SAME, sort=False):
        of_runs = same["test"].tolist()
        first = same.iloc[0]
        claim = known[first["claim"]]
        if n < FEWEST or len(of_runs) < n or not _all_have_intervals(same):
            continue
        mean, another = (
            _bounded(one, claim) for one in stats.over_trainings(list(same["estimate"]))
        )
        held = _over(of_runs, mean)
        beside = [_mean_beside(each) for each in zip(*same["controls"], strict=True)]
        found, why = claims.outcome(claim, held, beside)
        names = ["claim", "bias", "variant", "order", "is_main", "notebook"]
        rows.append(
            {name: first[name] for name in names}
            | {"estimates": list(same["estimate"]), "mean": mean, "another": another}
            | {"test": held, "controls": beside, "outcome": str(found), "why": why}
        )
    columns = ["claim", "bias", "variant", "order", "is_main", "notebook", "estimates", "mean"]
    return pd.DataFrame(rows, columns=[*columns, "another", "test", "controls", "outcome", "why"])


def of_claims(over: pd.DataFrame) -> pd.DataFrame:
    """What claims come to over trainings: a row each, with the first test that came to it."""
    by_claim = over[over["is_main"].astype(bool)].groupby("claim", sort=False)
    rows = [_came_to(of_claim.to_dict("records")) for _, of_claim in by_claim]
    return pd.DataFrame(rows, columns=over.columns)


def _all_have_intervals(same: pd.DataFrame) -> bool:
    """Whether every retraining has an interval for a test, whose preconditions it meets."""
    return all(
        test.estimate is not None and test.estimate.has_interval and not test.unmet
        for test in same["test"]
    )


def _bounded(estimate: Estimate, claim: Claim) -> Estimate:
    low, high = np.clip([estimate.low, estimate.high], claim.low, claim.high).tolist()
    return Estimate(estimate.value, low, high, estimate.n, estimate.unit)


def _over(tests: Sequence[Test], mean: Estimate) -> Test:
    """One test in place of one a training."""
    each = [test.beside for test in tests]
    bases = [test.base for test in tests if test.base is not None]
    return replace(
        tests[0],
        estimate=mean,
        beside=_mean_beside(each) if all(each) else None,
        base=float(np.mean(bases)) if bases else None,
    )


def _mean_beside(each: Sequence[Beside]) -> Beside:
    """One control of a test over trainings; it says nothing where it says nothing in one."""
    name = each[0].name
    idle = next((one.idle or "no value" for one in each if not one.works), "")
    if idle:
        return Beside(name, Estimate(np.nan), Estimate(np.nan), idle)
    shown = [one.estimate for one in each]
    estimate = Estimate(float(np.mean([one.value for one in shown])))
    if all(one.has_interval for one in shown):
        estimate, _ = stats.over_trainings(shown)
    difference, _ = stats.over_trainings([one.difference for one in each])
    return Beside(name, estimate, difference)


def towards(row: dict) -> tuple[Estimate, Estimate, list[float]]:
    """A row of `trainings` for a plot of many: how far mean, another training and retrainings lie
    on the claim's side of its threshold (above 0), in half widths of the mean's interval.
    """
    claim, test, mean = claims.claims()[row["claim"]], row["test"], row["mean"]
    half_width = (mean.high - mean.low) / 2 or 1.0  # no item may differ

    def ahead(value: float) -> float:
        above = value - claim.threshold_for(test)
        if claim.side == "within":
            above = claim.smallest_for(test.base) - abs(above)
        return (-above if claim.side.startswith("<") else above) / half_width

    found = []
    for one in (mean, row["another"]):
        value, *ends = map(ahead, one)
        found.append(Estimate(value, min(ends), max(value, *ends)))
    return *found, [ahead(one.value) for one in row["estimates"]]
