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
# Times as much data:
BARELY = 1 + 1e-4  # that says nothing
MOST = 100  # that nobody has
# What a reader should know beside an outcome.
NO_CONTROL = "†"
ONE_TRAINING = "‡"
OTHER_READING = "§"
MARKS = {
    NO_CONTROL: "no control could have shown it",
    ONE_TRAINING: "of one training only, or undecided over trainings",
    OTHER_READING: "another reading of the paper comes to something else",
}


# ---- runs
def control_of(run: str) -> str:
    """Which control a run is: null-real is null; "" of any other."""
    parts = run.split("-")
    return next((name for name in CONTROLS if name in parts), "")


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
        beside = []
        if not is_control:
            beside = controls.beside(row, claim)
        outcome, why = claims.outcome(claim, row["test"], beside, is_control)
        found.append((beside, str(outcome), why))
    columns = ["controls", "outcome", "why"]
    judged = pd.DataFrame(found, columns=columns, dtype=object)
    return rows.join(judged)


def of_tests(tests: Sequence[Test], run: str) -> pd.DataFrame:
    """The tests of one notebook of a run, held against the stored control runs, as `table` has
    them.
    """
    known = claims.claims()
    of_run = [_row(test, run, known[test.claim].notebook) for test in tests]
    kept = {}
    if not control_of(run):
        kept = {name: folder for name, folder in results.runs().items() if control_of(name)}
    controls = _Controls(_read(kept))
    return _judged(_frame(of_run), controls)


def shown(tests: pd.DataFrame) -> pd.DataFrame:
    """Tests as a notebook shows them: claim, on, estimate, beyond a control, outcome."""
    rows = []
    for row in tests.to_dict("records"):
        test = row["test"]
        models = filter(None, (row["model"], row["against"]))
        on = [" against ".join(models), row["bias"], row["variant"]]
        if row["k"]:
            on.append(f"{row['k']} heads")
        beyond = ""
        if test.beside:
            beyond = sized(test.beside.difference)
        outcome = row["outcome"]
        if row["why"]:
            outcome += f" ({row['why']})"
        rows.append(
            {
                "claim": claims.claims()[row["claim"]].short,
                "on": ", ".join(filter(None, on)),
                "measured": sized(test.estimate),
                "beyond controls": beyond,
                "outcome": outcome,
            }
        )
    return pd.DataFrame(rows)


def sized(estimate: Estimate | None) -> str:
    """A value and its interval to three digits, thousands in full: 0.189 [0.138, 0.253]."""
    if estimate is None or math.isnan(estimate.value):
        return ""
    digits = "z,.0f" if abs(estimate.value) >= 1000 else "z.3g"
    return format(estimate, digits)


def _read(folders: dict[str, Path]) -> pd.DataFrame:
    """All tests as they were kept: of retrainings, what is about their BERT alone, since their
    decoder is untrained.
    """
    rows = []
    for run, folder in folders.items():
        draws = [folder]
        if control_of(run):
            draws += sorted(folder.glob("draws/*"))
        for draw, place in enumerate(draws):
            for file in sorted(place.glob("claims/*.json")):
                for test in _tests_in(file, run):
                    rows.append(_row(test, run, file.stem, draw))
    return _frame(rows)


def _tests_in(file: Path, run: str) -> list[Test]:
    """The tests of one notebook of a run that the table has."""
    tests = claims.read(file)
    known = claims.claims()
    for test in tests:
        if test.claim not in known:
            raise CompanionError(
                f"figures/{run}/claims tests '{test.claim}', which data/claims.csv has "
                "not: add it there, or run its notebook again."
            )
    if run.startswith(RETRAININGS):
        return [test for test in tests if _is_about_bert(test)]
    return tests


def _row(test: Test, run: str, notebook: str, draw: int = 0) -> dict:
    same = ("claim", "model", "against", "bias", "variant", "k", "estimate")
    row = {name: getattr(test, name) for name in same}
    families = [family_of(test.model), family_of(test.against)]
    row |= {
        "run": run,
        "draw": draw,
        "notebook": notebook,
        "family": " ".join(filter(None, families)),
        "test": test,
    }
    return row


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
    if rows.empty:
        return is_own
    by_claim = [rows["run"], rows["draw"], rows["claim"]]
    first = rows.groupby(by_claim)["variant"].transform("first")
    is_first = rows["variant"] == first
    has_own = is_own.groupby(by_claim).transform("any")
    return is_own | (is_first & ~has_own)


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
            if not control or not _is_of(control, row["test"]):
                continue
            on_papers_data = is_on_papers_data(row["run"])
            place = (control, on_papers_data, row["claim"], row["family"], row["bias"])
            alike = self.tests.setdefault(place, {})
            draws = alike.setdefault((row["variant"], row["order"]), [])
            draws.append(row["test"])

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
        for on_papers_data in (is_on_papers_data(row["run"]), False):
            place = (control, on_papers_data, row["claim"], row["family"], row["bias"])
            alike = self.tests.get(place, {})
            if not alike:
                continue
            variants = [variant for variant, _ in alike]
            wanted = row["variant"]
            own = [name for name in variants if name == wanted]
            refined = [name for name in variants if name and wanted.startswith(f"{name}, ")]
            closest = (own or refined or variants)[0]
            last = max(order for variant, order in alike if variant == closest)
            order = min(row["order"], last)
            return alike[closest, order]
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
        return _why_swapped_idle(tests[0])
    ends = np.array([[*test.estimate] for test in able])
    spread = np.ptp(stats.settled(ends), axis=0)
    varies = np.nan_to_num(spread).any()
    if len(able) > 1 and not varies:
        return "the same in every draw"
    return ""


def _why_swapped_idle(test: Test) -> str:
    """Why a test of the gender-swapped model says nothing of a bias; "" where it does."""
    if test.bias == "race":
        return "words of race were not swapped"
    for name in OF_BIAS:
        if test.needs.get(name) == "":
            return f"has the bias itself ({name})"
    return ""


def _unable(test: Test) -> str:
    """The precondition of being able that a control does not meet; "" where it meets all."""
    for name, why in test.needs.items():
        if why and name not in OF_BIAS:
            return f"{name}: not met"
    return ""


def _over_draws(estimates: list[Estimate]) -> Estimate:
    """The mean over draws with Student's interval; of one draw its own."""
    known = [one for one in estimates if not np.isnan(one.value)]
    if len(known) == 1:
        return known[0]
    return stats.mean([one.value for one in known])


# ---- what claims come to
def cells(tests: pd.DataFrame) -> pd.DataFrame:
    """What each claim comes to in each run that tests it: outcome, counts of its tests, why, marks,
    and the first test that came to it.

    Where all decided tests of the paper's own reading agree it is theirs, however many are
    undecided beside them; where they differ it is undecided.
    """
    over = of_claims(trainings(tests)).set_index("claim")["outcome"]
    first_draws = tests[tests["draw"] == 0]
    rows = []
    for (_, id), of_claim in first_draws.groupby(["run", "claim"], sort=False):
        of_claim = of_claim.to_dict("records")
        main = [row for row in of_claim if row["is_main"]]
        row = _came_to(main)
        found = row["outcome"]
        marks = ""
        if found == Outcome.SUPPORTED and _lacks_control(row):
            marks += NO_CONTROL
        if found in DECIDED and over.get(id) != found:
            marks += ONE_TRAINING
        if found in DECIDED and _has_other_reading(of_claim):
            marks += OTHER_READING
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
    if set(outcomes) <= {Outcome.NOT_TESTED}:
        return Outcome.NOT_TESTED
    return Outcome.UNDECIDED


def _lacks_control(row: dict) -> bool:
    """Whether no control could have shown an effect that was found."""
    if claims.claims()[row["claim"]].asks != "effect":
        return False
    beside = filter(None, (row["test"].beside, *row["controls"]))
    return not any(control.works for control in beside)


def _has_other_reading(of_claim: Sequence[dict]) -> bool:
    """Whether a variant comes to something else than the main one, in the same model, by the same
    bias.
    """

    def subject(row: dict) -> tuple:
        return tuple(row[name] for name in ("model", "against", "bias", "order"))

    tested = [row for row in of_claim if row["outcome"] != Outcome.NOT_TESTED]
    main = {subject(row): row["outcome"] for row in tested if row["is_main"]}
    for row in tested:
        found = row["outcome"]
        if not row["is_main"] and main.get(subject(row), found) != found:
            return True
    return False


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
        of_runs[cell["run"], cell["claim"]] = cell
    over = of_claims(trainings(tests)).set_index("claim")
    published = of_published(tests)
    rows = []
    for claim in claims.claims().values():
        if not claim.paper:
            continue
        own = [of_runs[run, claim.id] for run in OWN if (run, claim.id) in of_runs]
        tested = [cell for cell in own if cell["outcome"] != Outcome.NOT_TESTED]
        cell = next(iter(tested + own), _not_run(claim))
        again = over.loc[claim.id] if claim.id in over.index else {}
        others = []
        if not claim.any_data:
            others = [one["outcome"] for one in own if one is not cell]
        on_published = published.loc[published["claim"] == claim.id, "outcome"]
        row = cell | {
            "paper": claim.paper,
            "where": claim.where,
            "says": claim.says,
            "is_ours": claim.is_ours,
            "notebook": claim.notebook,
            "figure": claim.figure,
            "claim": claim.id,
            "size": cell["test"].estimate if tested else None,
            "mean": again.get("mean"),
            "over": again.get("outcome", ""),
            "other": next(iter(others), ""),
            "published": dict(Counter(on_published)),
            "needed": needed(cell),
        }
        rows.append(row)
    return pd.DataFrame(rows).astype(object)


def _not_run(claim: Claim) -> dict:
    """The cell of a claim that no run tests."""
    return {
        "outcome": str(Outcome.NOT_TESTED),
        "why": claim.untestable or "not run",
        "run": "",
        "test": None,
        "controls": [],
        "marks": "",
        "counts": {},
    }


def needed(row: dict) -> float:
    """How many times as much data would decide an undecided test, up to MOST times: intervals
    shrink with the root of n, and values are taken to stay. nan: none would, or the interval ends
    on an edge, as shares do at 1, and does not tell.
    """
    if row["outcome"] != Outcome.UNDECIDED:
        return np.nan
    test = row["test"]
    claim = claims.claims()[row["claim"]]
    controls = list(filter(None, (test.beside, *row["controls"])))
    for times in np.geomspace(BARELY, MOST, 200):
        share = times**-0.5
        estimate = _narrower(test.estimate, share)
        sharper = replace(test, estimate=estimate, beside=None)
        beside = []
        for control in controls:
            difference = _narrower(control.difference, share)
            beside.append(replace(control, difference=difference))
        outcome, _ = claims.outcome(claim, sharper, beside)
        if outcome in DECIDED:
            return float(times) if times > BARELY else np.nan
    return np.nan


def _narrower(estimate: Estimate, share: float) -> Estimate:
    """The same with an interval that is this share as wide."""
    value, low, high = estimate
    low = value + share * (low - value)
    high = value + share * (high - value)
    return replace(estimate, low=low, high=high)


def of_published(tests: pd.DataFrame) -> pd.DataFrame:
    """The main tests on published models: a run of one more model has its companion's tests again,
    which count once.
    """
    is_published = tests["run"].str.startswith(PUBLISHED)
    is_main = tests["is_main"].astype(bool)
    is_tested = tests["outcome"] != Outcome.NOT_TESTED
    rows = tests[is_published & is_main & is_tested]
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
    kept = ["claim", "bias", "variant", "order", "is_main", "notebook"]
    rows = []
    for _, same in again.groupby(SAME, sort=False):
        if n < FEWEST or len(same) < n or not _all_have_intervals(same):
            continue
        first = same.iloc[0]
        claim = known[first["claim"]]
        estimates = same["estimate"].tolist()
        mean, another = stats.over_trainings(estimates)
        mean = _bounded(mean, claim)
        held = _over(same["test"].tolist(), mean)
        beside = [_mean_beside(each) for each in zip(*same["controls"], strict=True)]
        found, why = claims.outcome(claim, held, beside)
        row = first[kept].to_dict()
        row |= {
            "estimates": estimates,
            "mean": mean,
            "another": _bounded(another, claim),
            "test": held,
            "controls": beside,
            "outcome": str(found),
            "why": why,
        }
        rows.append(row)
    added = ["estimates", "mean", "another", "test", "controls", "outcome", "why"]
    return pd.DataFrame(rows, columns=kept + added)


def of_claims(over: pd.DataFrame) -> pd.DataFrame:
    """What claims come to over trainings: a row each, with the first test that came to it."""
    is_main = over["is_main"].astype(bool)
    rows = []
    for _, of_claim in over[is_main].groupby("claim", sort=False):
        rows.append(_came_to(of_claim.to_dict("records")))
    return pd.DataFrame(rows, columns=over.columns)


def _all_have_intervals(same: pd.DataFrame) -> bool:
    """Whether every retraining has an interval for a test, whose preconditions it meets."""
    for test in same["test"]:
        if test.unmet or test.estimate is None or not test.estimate.has_interval:
            return False
    return True


def _bounded(estimate: Estimate, claim: Claim) -> Estimate:
    ends = [estimate.low, estimate.high]
    low, high = np.clip(ends, claim.low, claim.high).tolist()
    return replace(estimate, low=low, high=high)


def _over(tests: Sequence[Test], mean: Estimate) -> Test:
    """One test in place of one a training."""
    beside = None
    each = [test.beside for test in tests]
    if all(each):
        beside = _mean_beside(each)
    base = None
    bases = [test.base for test in tests if test.base is not None]
    if bases:
        base = float(np.mean(bases))
    return replace(tests[0], estimate=mean, beside=beside, base=base)


def _mean_beside(each: Sequence[Beside]) -> Beside:
    """One control of a test over trainings; it says nothing where it says nothing in one."""
    name = each[0].name
    idle = next((one.idle or "no value" for one in each if not one.works), "")
    if idle:
        return Beside(name, Estimate(np.nan), Estimate(np.nan), idle)
    shown = [one.estimate for one in each]
    mean = np.mean([one.value for one in shown])
    estimate = Estimate(float(mean))
    if all(one.has_interval for one in shown):
        estimate, _ = stats.over_trainings(shown)
    difference, _ = stats.over_trainings([one.difference for one in each])
    return Beside(name, estimate, difference)


def towards(row: dict) -> tuple[Estimate, Estimate, list[float]]:
    """A row of `trainings` for a plot of many: how far mean, another training and retrainings lie
    on the claim's side of its threshold (above 0), in half widths of the mean's interval.
    """
    claim = claims.claims()[row["claim"]]
    test = row["test"]
    mean = row["mean"]
    half_width = (mean.high - mean.low) / 2 or 1.0  # no item may differ

    def ahead(value: float) -> float:
        above = value - claim.threshold_for(test)
        if claim.side == "within":
            above = claim.smallest_for(test.base) - abs(above)
        if claim.side.startswith("<"):
            above = -above
        return above / half_width

    def over_trainings(estimate: Estimate) -> Estimate:
        value, *ends = map(ahead, estimate)
        return Estimate(value, min(ends), max(value, *ends))

    each = [ahead(one.value) for one in row["estimates"]]
    return over_trainings(mean), over_trainings(row["another"]), each
