"""What every run found of the three papers' claims and printed numbers, side by side.

All of it is read from the records that notebooks keep, figures/<run>/claims/NN.json and numbers/NN.json, so that the
same folder gives the same tables. Claims are written in each paper's claims.py; nothing is decided here. `folders` is
{run: folder}, all stored runs where it is left out.

Two runs are controls and no columns of the board, of models that cannot have the effect, judged without preconditions: `null`,
untrained networks (figures/null is the first draw, figures/null/draws/K/claims has what was found of another), and
`balanced`, trained on text whose gender words a coin swapped. A claim that holds there too often is not specific."""

import itertools
import json
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import binom

from lib import CompanionError, printed, verdict
from lib.bias_a_head import claims as bias_a_head
from lib.counteracts import claims as counteracts
from lib.engine import models, stats
from lib.projective import claims as projective
from lib.publish.run import runs
from lib.verdict import (
    APPLICABLE,
    CONTROLS,
    GENDER_SWAPPED,
    MIXED,
    NOT_TESTABLE,
    PAPERS,
    UNTRAINED,
    Match,
    Outcome,
    Side,
    Verdict,
)

CLAIMS = verdict.by_id(
    claim for paper in (bias_a_head, projective, counteracts) for claim in paper.CLAIMS.values()
)
MATCHED = "matched by controls"
NO_CONTROL = "control not run"
TESTED = (
    Outcome.SUPPORTED,
    MIXED,
    Outcome.CONTRADICTED,
    Outcome.INCONCLUSIVE,
    MATCHED,
)  # where there is a case
KINDS = (*TESTED, Outcome.NOT_APPLICABLE, NOT_TESTABLE, Outcome.NOT_RUN)
PLURAL = {Outcome.SUPPORTED: "hold", Outcome.CONTRADICTED: "fail"}
ALL_PAPERS = "All three papers"
# Runs of one model trained again, in less time, from other seeds: trainings-seed1 and on. FIRST is of the shipped one.
FIRST, TRAININGS = "mini-real", "trainings-"
# printed once more in the text: (paper, key there, key of the table)
REPEATED = [
    ("bias_a_head", ("Appendix A", row, "PPPL"), ("Table 1", row, "PPPL"))
    for row in ("full", "Top-3", "All")
]
REPEATED += [
    ("projective", ("Section 5", row, "eta"), ("Table 7", row, "eta"))
    for row in ("Base", "Layer 11 (0, 0, 1, 1, 1)")
]
NOT_RUN = (
    printed.numbers("not_run").set_index(["paper", "table"])["why"].to_dict()
)  # printed, not for us to measure


# ---- claims
class Cell(str):
    """What a run says of a claim, as a table shows it; `kind` is one of KINDS, `reason` the rest."""

    def __new__(cls, claim: verdict.Claim, verdicts: list[Verdict], is_specific: bool = True):
        apart = not is_specific and any(each.outcome == Outcome.SUPPORTED for each in verdicts)
        text = NOT_TESTABLE if claim.not_testable else verdict.combined(verdicts)
        cell = super().__new__(cls, f"{text}, {MATCHED}" if apart else text)
        cell.kind = (
            NOT_TESTABLE if claim.not_testable else MATCHED if apart else verdict.kind(verdicts)
        )
        cell.reason = text if apart else text.removeprefix(cell.kind).strip(" ()")
        return cell


def verdicts(folders: dict[str, Path] | None = None) -> dict[str, list[Verdict]]:
    """{run: what its notebooks found of the papers' claims}. In the order of the notebooks; claims that the notebook's
    own table leaves out come last. Of further trainings only what speaks of their BERT: their decoder is untrained."""
    return {
        run: sorted(
            (
                each
                for each in _stored(run, folder)
                if not run.startswith(TRAININGS) or _of_bert(each)
            ),
            key=lambda each: not CLAIMS[each.claim].short,
        )
        for run, folder in (folders or runs()).items()
    }


def _of_bert(each: Verdict) -> bool:
    """Whether a verdict speaks of gender in BERT, or of a method with BERT, and of nothing else."""
    claim = CLAIMS[each.claim]
    return (claim.about_bert or GENDER_SWAPPED in claim.controls) and all(
        models.REGISTRY[name].family == "bert" for name in each.models if name in models.REGISTRY
    )


def _stored(run: str, folder: Path) -> list[Verdict]:
    notebooks = sorted({claim.notebook for claim in CLAIMS.values() if claim.notebook})
    files = [
        file for notebook in notebooks if (file := folder / "claims" / f"{notebook}.json").is_file()
    ]
    stored = [each for file in files for each in verdict.read(file)]
    if unknown := {each.claim for each in stored} - CLAIMS.keys():
        raise CompanionError(
            f"figures/{run}/claims tests '{unknown.pop()}', which no paper's claims.py has: add "
            "it there, or run its notebook again."
        )
    return stored


class Specificity(NamedTuple):
    """What models that cannot have the effect say of a claim."""

    is_specific: bool
    text: str
    held: dict[str, tuple[int, int]]  # by control: how many tests hold, of how many


def control_of(run: str) -> str:
    """Which control a run is, by its name: null-real is null, mini-balanced balanced; "" of any other."""
    return next((name for name in CONTROLS if name in run.split("-")), "")


def specificity(folders: dict[str, Path] | None = None) -> dict[str, Specificity]:
    """{claim: what the stored controls say of it}. Each thing that a draw of null was tested on is a test, which holds
    by chance in 2.5 %; balanced, which is one training, must not hold at all. `_speaks` leaves tests of others out."""
    asked, found = defaultdict(list), {}  # {(control, claim): the outcomes of its tests}
    for run, folder in (folders or runs()).items():
        if control := control_of(run):
            for each in (
                each
                for draw in [folder, *sorted(folder.glob("draws/*"))]
                for each in _stored(run, draw)
            ):
                if _speaks(control, each):
                    asked[control, each.claim].append(each.outcome)
    for claim in CLAIMS.values():
        is_specific, said, counts = True, [], {}
        for control in claim.controls:
            outcomes = asked[control, claim.id]
            held, n = counts[control] = outcomes.count(Outcome.SUPPORTED), len(outcomes)
            # one test in 40 holds by chance: of untrained draws, no more than so many do 95 % of the time
            is_specific &= (
                not held or control == UNTRAINED and bool(held <= binom.ppf(0.95, n, 0.025))
            )
            said.append(f"{control}: {f'{held} of {n} hold' if n else NO_CONTROL}")
        apart = [] if is_specific else [MATCHED]
        found[claim.id] = Specificity(
            is_specific, "; ".join([*apart, *said]) or "no control speaks of it", counts
        )
    return found


def _speaks(control: str, each: Verdict) -> bool:
    """Whether a verdict of a control's run is of the control itself, and decided or undecided."""
    is_own = {
        UNTRAINED: models.draw_of,
        GENDER_SWAPPED: lambda name: Path(name).name.startswith(GENDER_SWAPPED),
    }[control]
    is_race = control == GENDER_SWAPPED and "race" in each.on  # which the coin did not touch
    return all(map(is_own, each.models)) and not is_race and each.outcome in APPLICABLE


def evidence(folders: dict[str, Path] | None = None) -> pd.DataFrame:
    """What stands behind each cell of the board, a row a test: what it was tested on, what was found, `behind`."""
    specific = specificity(folders)
    return pd.DataFrame(
        [
            {
                "id": each.claim,
                "run": run,
                "tested on": each.on,
                "found": each.found,
                "outcome": f"{each.outcome}: {each.reason}"
                if each.outcome == Outcome.NOT_RUN
                else str(each),
                **behind(each, specific),
            }
            for run, stored in verdicts(folders).items()
            for each in stored
        ]
    )


def behind(each: Verdict, specific: dict[str, Specificity]) -> dict[str, str]:
    """The interval that decides, preconditions, the control of equal size, and what models say that cannot have the effect."""
    interval = "" if each.estimate is None else f"{each.estimate:z.3g}"
    return {
        "interval": interval
        if each.samples_met is None
        else f"met in {each.samples_met:.1%} of samples",
        "preconditions": ", ".join(
            f"{name} {'open' if is_met else 'shut'}" for name, is_met in each.preconditions.items()
        ),
        "control": f"{each.control.name} {each.control.estimate:z.3g}, difference {each.control.difference:z.3g}"
        if each.control
        else "",
        "null result": specific[each.claim].text if each.claim in specific else "",
    }


def board(folders: dict[str, Path] | None = None) -> pd.DataFrame:
    """One row per claim, one column per run that tests any, controls aside; `tested by` is the notebook, `figure` the
    picture behind, `null result` what the controls say, `trainings` what further trainings do. The paper's column is
    `source`: a run may be called `paper`. A run's column holds Cells."""
    table = _board(
        {run: said for run, said in verdicts(folders).items() if not control_of(run)},
        specificity(folders),
    )
    again, over = seeds(folders), across(folders)
    joint = (
        over.groupby("id")["outcome"].agg(lambda all_: ", ".join(dict.fromkeys(all_)))
        if len(over)
        else {}
    )
    words = {
        id: f"holds in {held}" + (f"; over them {joint[id]}" if id in joint else "")
        for id, held in zip(again["id"], again["holds in"])
    }
    table.insert(
        table.columns.get_loc("null result") + 1,
        "trainings",
        [words.get(id, "") for id in table["id"]],
    )
    return table


def _board(by_run: dict[str, list[Verdict]], specific: dict[str, Specificity]) -> pd.DataFrame:
    rows = [
        (
            claim.id,
            PAPERS[claim.paper],
            claim.where,
            claim.says,
            claim.notebook,
            claim.figure,
            specific[claim.id].text if specific and not claim.not_testable else "",
        )
        for claim in CLAIMS.values()
    ]
    table = pd.DataFrame(
        rows, columns=["id", "source", "made in", "claim", "tested by", "figure", "null result"]
    )
    for run, stored in by_run.items():
        if any(each.outcome != Outcome.NOT_RUN for each in stored):
            cells = [
                Cell(
                    claim,
                    [each for each in stored if each.claim == claim.id],
                    not specific or specific[claim.id].is_specific,
                )
                for claim in CLAIMS.values()
            ]
            table[run] = pd.Series(cells, dtype=object)
    return table


def kinds(cells: pd.Series) -> pd.Series:
    """Of a run's column: one of KINDS each."""
    return cells.map(lambda cell: str(cell.kind))


def summary(folders: dict[str, Path] | None = None) -> str:
    """Claims by paper and run as a markdown table: how many hold, fail and so on; all of KINDS that occur."""
    table = board(folders)
    names = [name for name in folders or runs() if name in table]
    lines = [["paper", "claims", *(f"`{name}`" for name in names)], ["---"] * (len(names) + 2)]
    parts = [(f"*{name}*", table[table["source"] == name]) for name in PAPERS.values()]
    for title, rows in [*parts, (ALL_PAPERS, table)]:
        lines.append([title, str(len(rows)), *(counted(kinds(rows[run])) for run in names)])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def counted(cells: pd.Series) -> str:
    """Kinds in words: "2 hold, 1 fail, 5 not run"."""
    if not cells.isin([*TESTED, Outcome.NOT_APPLICABLE]).any():
        return str(Outcome.NOT_RUN)
    return ", ".join(
        f"{n} {PLURAL.get(kind, kind)}" for kind in KINDS if (n := int((cells == kind).sum()))
    )


# ---- seeds
def seeds(folders: dict[str, Path] | None = None) -> pd.DataFrame:
    """In how many trainings of mini-bert a claim holds: one row per claim of gender in BERT that all of them test.
    `holds in` counts the trainings that are alike in text and length, so not the shipped one. Empty without these."""
    by_run = {
        run: list(filter(_of_bert, stored))
        for run, stored in verdicts(folders).items()
        if run == FIRST or run.startswith(TRAININGS)
    }
    table = _board(by_run, {})
    names = [name for name in by_run if name in table]
    again = [name for name in names if name != FIRST]
    outcomes = table[names].apply(kinds)
    tested = ~outcomes.isin([NOT_TESTABLE, Outcome.NOT_RUN]).any(axis=1) & outcomes.isin(
        TESTED
    ).any(axis=1)
    tested &= bool(again) and len(names) > 1
    held = (outcomes.loc[tested, again] == Outcome.SUPPORTED).sum(axis=1)
    table = table.loc[tested, ["id", "source", "claim", *names]]
    return table.assign(**{"holds in": [f"{n} of {len(again)}" for n in held]}).reset_index(
        drop=True
    )


def across(folders: dict[str, Path] | None = None) -> pd.DataFrame:
    """Each test of gender in BERT over three or more trainings alike in text and length, seeds and items drawn
    together: a row per test with a case and an interval in all of them. `estimates` are the trainings', `mean` is over
    them with the interval of another training on other items (stats.over_trainings), `outcome` what the claim comes to
    by it, `share` what shares of the variance are the training's. Tests are paired by the order that notebooks keep."""
    rows = []
    for claim, tests, about in _paired(folders):
        alike = len({(each.threshold, bool(each.control)) for each in tests}) == 1
        if alike and all(each.samples_met is None and each.estimate.has_interval for each in tests):
            mean, share = stats.over_trainings([each.estimate for each in tests])
            control = tests[0].control and verdict.Control(
                tests[0].control.name,
                *(
                    stats.over_trainings([getattr(each.control, part) for each in tests])[0]
                    for part in ("estimate", "difference")
                ),
            )
            judged = verdict.judge(claim, mean, threshold=tests[0].threshold, control=control)
            rows.append(
                about
                | {
                    "estimates": [each.estimate for each in tests],
                    "mean": mean,
                    "share": share,
                    "threshold": tests[0].threshold,
                    "outcome": str(judged.outcome),
                }
            )
    return pd.DataFrame(rows)


def counts_across(folders: dict[str, Path] | None = None) -> pd.DataFrame:
    """As `across`, for tests by a count, which has no interval: `samples_met` is the share of draws, first of one of the
    trainings and then of its items, in which it is met. Even all of five leave room for a sixth that fails."""
    rows = []
    for claim, tests, about in _paired(folders):
        if all(each.samples_met is not None for each in tests):
            shares = [each.samples_met for each in tests]
            judged = verdict.judge(
                claim, tests[0].estimate, threshold=tests[0].threshold, samples_met=np.mean(shares)
            )
            rows.append(
                about
                | {
                    "trainings": shares,
                    "samples_met": np.mean(shares),
                    "outcome": str(judged.outcome),
                }
            )
    return pd.DataFrame(rows)


def _paired(folders: dict[str, Path] | None):
    """The tests of gender in BERT that have a case in all of three or more trainings, with what tables say of them."""
    again = [stored for run, stored in verdicts(folders).items() if run.startswith(TRAININGS)]
    for claim in CLAIMS.values() if len(again) > 2 else ():
        for tests in zip(
            *([each for each in stored if each.claim == claim.id] for stored in again)
        ):
            if all(each.outcome in APPLICABLE for each in tests):
                held = sum(each.outcome == Outcome.SUPPORTED for each in tests)
                yield (
                    claim,
                    tests,
                    {
                        "id": claim.id,
                        "source": PAPERS[claim.paper],
                        "claim": claim.says,
                        "on": _on(tests),
                        "holds in": f"{held} of {len(tests)}",
                    },
                )


def towards(row: dict) -> tuple[stats.Estimate, list[float]]:
    """A row of `across` for a plot of many: how far mean, interval and trainings lie on the claim's side of its
    threshold (above 0), in half widths of that interval."""
    claim, (_, low, high) = CLAIMS[row["id"]], row["mean"]

    def ahead(value: float) -> float:
        above = value - row["threshold"]
        way = {
            Side.WITHIN: claim.margin - abs(above),
            Side.BELOW: -above,
            Side.AT_MOST: -above,
        }.get(claim.side, above)
        return way / (high - low) * 2

    mean, *ends = map(ahead, row["mean"])
    return stats.Estimate(mean, min(ends), max(mean, *ends)), [
        ahead(each.value) for each in row["estimates"]
    ]


def _on(tests: tuple[Verdict, ...]) -> str:
    """What they were tested on, but for the model and what differs with it; and the variant."""
    words = [
        [
            word
            for word in f"{each.on}, {each.variant}".replace(",", " , ").split()
            if word not in each.models
        ]
        for each in tests
    ]
    return (
        " ".join(word for word in words[0] if all(word in other for other in words))
        .replace(" ,", ",")
        .strip(" ,")
    )


def heads_across(folders: dict[str, Path] | None = None) -> pd.DataFrame:
    """Whether the scores of heads on gender in one training say anything of another: a row per pair, and the mean. Rank
    correlations of all heads by their place, and of the means of layers; and how far the ten highest of either lie
    above the other's mean, in its standard deviations. A head has no name that outlives its training: within a layer
    the same place in another model is another head, so that places can agree no further than layers do."""
    scores = {}
    for run, folder in (folders or runs()).items():
        if run.startswith(TRAININGS) and (file := folder / "02_heads.csv").is_file():
            heads = pd.read_csv(file).query("bias == 'gender'")
            scores[run.removeprefix(TRAININGS)] = heads[
                heads["model"] == heads["model"].iloc[0]
            ].pivot(index="layer", columns="head", values="score")  # the encoder's come first
    rows = []
    for (one, a), (other, b) in itertools.combinations(scores.items(), 2):
        both = np.stack([a, b])
        layers = both.mean(axis=-1)
        heads, within = both.reshape(2, -1), (both - layers[..., None]).reshape(2, -1)
        top = [
            heads[1 - i][heads[i].argsort()[-10:]].mean() - heads[1 - i].mean() for i in range(2)
        ]
        rows.append(
            (
                f"{one}, {other}",
                *(stats.rank_correlation(*each) for each in (heads, within, layers)),
                np.mean(top / heads.std(axis=1)[::-1]),
            )
        )
    table = pd.DataFrame(
        rows, columns=["trainings", "heads", "heads within layers", "layers", "the ten highest"]
    )
    if len(table) > 1:
        table.loc[len(table)] = ["mean", *table.iloc[:, 1:].mean()]
    return table.round(2)


def lasting(over: pd.DataFrame, folders: dict[str, Path] | None = None) -> str:
    """What is left of a table of `across` with another training in mind, in words; with runs, how far specific."""
    count, (low, high) = over["outcome"].value_counts(), np.median([*over["share"]], axis=0)
    words = (
        f"Over {len(over['estimates'].iloc[0])} trainings of mini-bert, drawn with the items, "
        f"{count.get(Outcome.SUPPORTED, 0)} of {len(over)} tests hold and {count.get(Outcome.CONTRADICTED, 0)} fail; "
        f"{low:.0%} to {high:.0%} of the variance is the training's (medians)"
    )
    if folders is None:
        return words
    table, specific = board(folders), specificity(folders)
    once = [run for run in folders if run in table and not run.startswith(TRAININGS)]
    held = {*table.loc[(table[once].apply(kinds) == Outcome.SUPPORTED).any(axis=1), "id"]} & {
        *over["id"]
    }
    left = {*over.loc[over["outcome"] == Outcome.SUPPORTED, "id"]}
    kept, n = len(held & left), sum(specific[claim].is_specific for claim in left)
    return (
        f"{words}. Of {len(held)} claims that hold in the shipped model, {kept} hold{'s' * (kept == 1)} "
        f"over trainings; of {len(left)} that do, {n} {'is' if n == 1 else 'are'} specific"
    )


# ---- numbers
def numbers(
    counts: dict[tuple, tuple[str, str]], folders: dict[str, Path] | None = None
) -> pd.DataFrame:
    """Every printed number: source (the paper), table, row, column, printed; of each run `ours, <run>`, `verdict, ...`,
    "not run" where no notebook compares it. counts: {(paper, table, row, column): (ours, match)} that need no model."""
    frames = [printed.numbers(name).assign(source=name) for name in PAPERS]
    table = pd.concat(frames, ignore_index=True).rename(columns={"value": "printed"})
    keys = list(zip(table["source"], table["table"], table["row"], table["column"]))
    why = {
        key: "the printed number is lost" if pd.isna(said) else NOT_RUN.get(key[:2], "")
        for key, said in zip(keys, table["printed"])
    }
    not_run = {
        key: f"{Match.NOT_RUN} ({reason})" if reason else str(Match.NOT_RUN)
        for key, reason in why.items()
    }
    for run, folder in (folders or runs()).items():
        ours = {key: number[:2] for key, number in compared(run, folder).items()} | counts
        if unknown := ours.keys() - not_run.keys():
            paper, *key = unknown.pop()
            raise CompanionError(
                f"figures/{run}/numbers compares {tuple(key)}, which data/paper/{paper}.csv does not "
                "have: add it there, or run that notebook again."
            )
        ours |= {
            (paper, *key): ours[paper, *first]
            for paper, key, first in REPEATED
            if (paper, *first) in ours
        }
        table[f"ours, {run}"], table[f"verdict, {run}"] = zip(
            *(ours.get(key) or ("", not_run[key]) for key in keys)
        )
    table["source"] = table["source"].map(PAPERS)
    return table[["source", "table", "row", "column", "printed", *table.columns[5:]]].fillna(
        {"printed": ""}
    )


def compared(run: str, folder: Path, notebook: str = "*") -> dict[tuple, tuple[str, str, str]]:
    """{(paper, table, row, column): what notebooks kept beside it: ours and the match, as shown, and its kind}."""
    kept = {}
    for file in sorted(folder.glob(f"numbers/{notebook}.json")):
        try:
            kept |= {
                (row["paper"], row["table"], row["row"], row["column"]): (
                    row["ours"],
                    row["match"],
                    row["kind"],
                )
                for row in json.loads(file.read_text(encoding="utf-8"))
            }
        except (ValueError, TypeError, KeyError):
            raise CompanionError(
                f"figures/{run}/numbers/{file.name} is damaged: restore it with git, or run its "
                "notebook again."
            ) from None
    return kept
