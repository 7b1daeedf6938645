"""Notebook 12's tables: every claim and every printed number of the three papers, beside what each run found.

    scoreboard.board(), scoreboard.evidence()       one row per claim, one column per run; what stands behind each cell
    scoreboard.seeds(), scoreboard.top_heads()      models that differ in their training's seed alone
    scoreboard.numbers(), scoreboard.coverage(it)   one row per printed number, ours and a match for each run
    scoreboard.contradictions()                     printed numbers that disagree with each other
    scoreboard.summary()                            claims by paper and run, as markdown, for the README

All of it is read from the records that notebooks keep, figures/<run>/claims/NN.json and numbers/NN.json, so that the
same folder gives the same tables. Claims are written in each paper's claims.py; nothing is decided here.
"""

import json
from pathlib import Path

import pandas as pd

from lib import CompanionError, paths, printed, verdict
from lib.bias_a_head import claims as bias_a_head
from lib.bias_a_head import heads
from lib.counteracts import claims as counteracts
from lib.counteracts import cloze
from lib.engine import models
from lib.projective import claims as projective
from lib.projective import nli, projection, tables
from lib.publish.run import runs
from lib.text import data
from lib.verdict import CHANCE, DECIDED, IN_PART, PAPERS, UNTESTABLE, Match, Outcome, Verdict

CLAIMS = verdict.by_id(claim for paper in (bias_a_head, projective, counteracts) for claim in paper.CLAIMS.values())
KINDS = (Outcome.HOLDS, IN_PART, Outcome.FAILS, Outcome.UNDECIDED, Outcome.NO_CASE, UNTESTABLE, Outcome.NOT_RUN)
TESTED = {Outcome.HOLDS: "hold", IN_PART: "in part", Outcome.FAILS: "fail"}  # and in words, of several claims
ALL_PAPERS = "All three papers"
# printed once more in the text: (paper, key there, key of the table)
REPEATED = [("bias_a_head", ("Appendix A", row, "PPPL"), ("Table 1", row, "PPPL")) for row in ("full", "Top-3", "All")]
REPEATED += [("projective_methods", ("Section 5", row, "eta"), ("Table 7", row, "eta"))
             for row in ("Base", "Layer 11 (0, 0, 1, 1, 1)")]
NOT_RUN = {("bias_a_head", "Section 4"): "a fact of the papers' own models",
           ("bias_a_head", "Section 5.1"): "a fact of the papers' own models",
           ("bias_a_head", "Footnote 10"): "the authors' corpus is not at hand",
           ("bias_a_head", "Appendix C"): "a choice of the figure",
           ("projective_methods", "Section 2"): "a fact of StereoSet's own file",
           ("projective_methods", "Table 7 caption"): "a choice of the paper"}


# ---- claims

class Cell(str):
    """What a run says of a claim, as a table shows it; `kind` is one of KINDS."""

    kind: str
    chance: bool  # whether it is within chance

    def __new__(cls, claim: verdict.Claim, verdicts: list[Verdict]):
        decided = {one.outcome for one in verdicts if one.outcome in DECIDED}
        cell = super().__new__(cls, UNTESTABLE if claim.untestable else verdict.combined(verdicts))
        cell.kind = IN_PART if len(decided) > 1 else decided.pop() if decided else str(cell)
        cell.chance = cell.kind in DECIDED and any(CHANCE in one.reason for one in verdicts if one.outcome in DECIDED)
        return cell


def verdicts(folders: dict[str, Path] | None = None) -> dict[str, list[Verdict]]:
    """What the notebooks of these runs (all that are stored) found of the papers' claims.

    In the order of the notebooks; claims that the notebook's own table leaves out come last.
    """
    found = {}
    notebooks = sorted({claim.notebook for claim in CLAIMS.values() if claim.notebook})
    for run, folder in (runs() if folders is None else folders).items():
        files = [file for notebook in notebooks if (file := folder / "claims" / f"{notebook}.json").is_file()]
        found[run] = [one for file in files for one in verdict.read(file)]
        if unknown := {one.claim for one in found[run]} - CLAIMS.keys():
            raise CompanionError(f"figures/{run}/claims tests '{unknown.pop()}', which no paper's claims.py has: add "
                                 "it there, or run its notebook again.")
        found[run].sort(key=lambda one: not CLAIMS[one.claim].short)
    return found


def evidence(folders: dict[str, Path] | None = None) -> pd.DataFrame:
    """What stands behind each cell of the board: id, run, tested on, found, outcome."""
    rows = [(one.claim, run, one.on, one.found,
             f"{one.outcome}: {one.reason}" if one.outcome == Outcome.NOT_RUN else str(one))
            for run, every in verdicts(folders).items() for one in every]
    return pd.DataFrame(rows, columns=["id", "run", "tested on", "found", "outcome"])


def board(folders: dict[str, Path] | None = None, found: dict[str, list[Verdict]] | None = None) -> pd.DataFrame:
    """One row per claim, one column per run that tests any; `tested by` is the notebook, `figure` the picture behind.

    The paper's column is `source`: a run may be called `paper`. A run's column holds Cells.
    """
    found = verdicts(folders) if found is None else found
    rows = [(claim.id, PAPERS[claim.paper], claim.where, claim.says, claim.notebook, claim.figure)
            for claim in CLAIMS.values()]
    table = pd.DataFrame(rows, columns=["id", "source", "made in", "claim", "tested by", "figure"])
    for run, every in found.items():
        if any(one.outcome != Outcome.NOT_RUN for one in every):
            cells = [Cell(claim, [one for one in every if one.claim == claim.id]) for claim in CLAIMS.values()]
            table[run] = pd.Series(cells, dtype=object)
    return table


def kinds(cells: pd.Series) -> pd.Series:
    """Of a run's column: one of KINDS each."""
    return cells.map(lambda cell: str(cell.kind))


def untestable() -> pd.DataFrame:
    """The claims that cannot be tested here, and why."""
    rows = [(PAPERS[claim.paper], claim.where, claim.says, claim.untestable) for claim in CLAIMS.values()
            if claim.untestable]
    return pd.DataFrame(rows, columns=["paper", "where", "claim", "why"])


def summary(folders: dict[str, Path] | None = None) -> str:
    """Claims by paper and run as a markdown table: how many hold, hold in part and fail, of how many were tested."""
    table = board(folders)
    names = [name for name in (runs() if folders is None else folders) if name in table]
    lines = [["paper", "claims", *(f"`{name}`" for name in names)], ["---"] * (len(names) + 2)]
    for name in [*PAPERS.values(), ALL_PAPERS]:
        part = table if name == ALL_PAPERS else table[table["source"] == name]
        lines.append([name if name == ALL_PAPERS else f"*{name}*", str(len(part)),
                      *(_counted(kinds(part[run])) for run in names)])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _counted(cells: pd.Series) -> str:
    tested = int(cells.isin(list(TESTED)).sum())
    if not tested:
        return str(Outcome.NOT_RUN)
    return ", ".join(f"{(cells == kind).sum()} {word}" for kind, word in TESTED.items()) + f" (of {tested})"


# ---- seeds

def seeds(first: str = "mini-real", family: str = "bert", folders: dict[str, Path] | None = None) -> pd.DataFrame:
    """In how many of the models that differ in their training's seed alone a claim holds: one row per claim that all
    of them test.

    The runs are `first` and those named after it, first-seed1 and on. What was tested on another family's model, which
    is the same in all of these runs, is left out. Empty where there is no second seed.
    """
    def other(one):
        return any(models.REGISTRY[name].family != family for name in one.models if name in models.REGISTRY)

    found = {run: [one for one in every if not other(one)] for run, every in verdicts(folders).items()
             if run == first or run.startswith(f"{first}-seed")}
    table = board(found=found)
    names = [name for name in found if name in table]
    told = table[names].apply(kinds)
    tested = told.isin(list(TESTED)).all(axis=1) & (len(names) > 1)
    held = (told[tested] == Outcome.HOLDS).sum(axis=1)
    table = table.loc[tested, ["id", "source", "claim", *names]]
    return table.assign(**{"holds in": [f"{n} of {len(names)}" for n in held]}).reset_index(drop=True)


def trainings(table: pd.DataFrame) -> list[str]:
    """The runs that are columns of a table of `seeds`."""
    return [name for name in table if name not in ("id", "source", "claim", "holds in")]


def alike(table: pd.DataFrame) -> str:
    """How much of a table of `seeds` depends on the training, in a sentence."""
    told = table[trainings(table)].apply(kinds)
    same, held = told.nunique(axis=1) == 1, (told == Outcome.HOLDS).all(axis=1)
    return (f"Of {len(table)} claims {same.sum()} come out alike in {told.shape[1]} trainings of one model "
            f"({held.sum()} hold in all), {(~same).sum()} do not")


def top_heads(first: str = "mini-real", folders: dict[str, Path] | None = None) -> pd.DataFrame:
    """The three highest heads on gender of models that differ in their seed, and how many they share with the first.

    A head has no name that outlives its training: the same place in another model is another head, so that chance is
    what to expect. Layers are comparable.
    """
    rows, shared = [], []
    for run, folder in (runs() if folders is None else folders).items():
        if (run == first or run.startswith(f"{first}-seed")) and (folder / "02_seat.csv").is_file():
            row = pd.read_csv(folder / "02_seat.csv").query("bias == 'gender'").iloc[0]  # the encoder's
            top = row["highest three"].split(", ")
            shared.append(set(top))
            layers = [int(head.split("-")[0]) for head in top]
            rows.append({"run": run, "model": row["model"], "SEAT": row["SEAT"], "positive": row["positive"],
                         "highest three": ", ".join(top), "mean layer": round(sum(layers) / len(layers), 1),
                         "shared with the first": len(shared[0] & shared[-1])})
    return pd.DataFrame(rows)


def best_settings(run) -> tuple[str, str]:
    """The setting of lowest S and the fairest viable one, from the tables that the run has made, or else those stored
    of it: "" where unknown."""
    folder = run.out if (run.out / "09_table7.csv").is_file() else paths.FIGURES / run.name
    files = {name: folder / f"{name}.csv" for name in ("08_table7", "09_table7")}
    return projective.best_settings({name: pd.read_csv(file) if file.is_file() else None
                                     for name, file in files.items()})


# ---- numbers

def numbers(folders: dict[str, Path] | None = None) -> pd.DataFrame:
    """Every printed number: source (the paper), table, row, column, printed; of each run `ours, <run>`, `verdict, ...`.

    What no notebook of a run compares is "not run"; a number of the data or of the method alone, which depends on no
    model, is compared by `counts` for all runs.
    """
    frames = [printed.numbers(name).assign(source=name) for name in PAPERS]
    table = pd.concat(frames, ignore_index=True).rename(columns={"value": "printed"})
    keys = list(zip(table["source"], table["table"], table["row"], table["column"]))
    said = dict(zip(keys, table["printed"]))
    counted = {key: (f"{value:g}", _count_match(key, value, said[key])) for key, value in counts().items()}
    for run, folder in (runs() if folders is None else folders).items():
        found = compared(run, folder) | counted
        if unknown := found.keys() - said.keys():
            paper, *key = unknown.pop()
            raise CompanionError(f"figures/{run}/numbers compares {tuple(key)}, which data/paper/{paper}.csv does not "
                                 "have: add it there, or run that notebook again.")
        found |= {(paper, *key): found[paper, *first] for paper, key, first in REPEATED if (paper, *first) in found}
        told = [found.get(key) or ("", _not_run(key, said[key])) for key in keys]
        table[f"ours, {run}"], table[f"verdict, {run}"] = zip(*told)
    table["source"] = table["source"].map(PAPERS)
    return table[["source", "table", "row", "column", "printed", *table.columns[5:]]].fillna({"printed": ""})


def compared(run: str, folder: Path, notebook: str = "*") -> dict[tuple, tuple[str, str]]:
    """{(paper, table, row, column): (ours, match)} that a run's notebooks kept."""
    found = {}
    for file in sorted(folder.glob(f"numbers/{notebook}.json")):
        try:
            rows = json.loads(file.read_text(encoding="utf-8"))
            found |= {(row["paper"], row["table"], row["row"], row["column"]): (row["ours"], row["match"])
                      for row in rows}
        except (ValueError, TypeError, KeyError):
            raise CompanionError(f"figures/{run}/numbers/{file.name} is damaged: restore it with git, or run its "
                                 "notebook again.") from None
    return found


def _not_run(key: tuple, said) -> str:
    why = "the printed number is lost" if pd.isna(said) else NOT_RUN.get(key[:2], "")
    return f"{Match.NOT_RUN} ({why})" if why else str(Match.NOT_RUN)


def counts() -> dict[tuple[str, str, str, str], float]:
    """Ours for the printed numbers that depend on no model: sizes of word lists, test sets and grids."""
    pairs, race = data.words("gender_pairs"), heads.race_sets()
    settings, inference, jobs = projection.settings(), nli.pairs(), data.words("occupations")
    targets = data.words("gender_stereotypes")["stereotype"]
    ours = {("bias_a_head", "Section 4", *key): value for key, value in {
        ("gender", "attribute words"): pd.unique(pairs[["female", "male"]].to_numpy().ravel()).size,
        ("gender", "attribute pairs"): len(pairs), ("gender", "target words"): int((targets == "female").sum()),
        ("race", "attribute words"): len(race.A) + len(race.B), ("race", "attribute pairs"): len(race.A),
        ("race", "target words"): len(race.X) + len(race.Y)}.items()}
    ours |= {("projective_methods", *key): value for key, value in {
        ("Section 3", "test set", "occupations"): inference["occupation"].nunique(),
        ("Section 3", "test set", "sentence pairs"): len(inference),
        ("Section 4", "debiased models", "number"): len(settings),
        ("Section 5", "Spearman of S and eta", "models"): len(projection.models()),
        ("Section 5", "pairs that gain SNLI by np = 1", "number"): sum(one.sent.weighted for one in settings),
        ("Section 5", "Layer 11", "number"): sum(one.level == "Layer 11" for one in settings)}.items()}
    ours |= {("counteracts", "Table 1", row.occupation, "percent women"): float(row.percent_women)
             for row in jobs.itertuples()}
    return ours | {("counteracts", "prose", "Results", f"{size} k"): k
                   for size, k in zip(("smallest", "middle", "largest"), (3, 5, cloze.KEPT))}


def _count_match(key: tuple, value: float, said: str) -> str:
    why = {"attribute words": "the list has words that stand in several pairs", "target words": "the list has eleven"}
    return verdict.match(said, value, same_model=True, why=why.get(key[3], "another reading"))


def coverage(table: pd.DataFrame) -> pd.DataFrame:
    """How many numbers each table prints, how many of these are lost, and how many each run has beside them."""
    ours = {name: name.removeprefix("ours, ") for name in table if name.startswith("ours, ")}
    rows = []
    for (source, where), part in table.groupby(["source", "table"], sort=False):
        there = part["printed"] != ""
        rows.append({"paper": source, "table": where, "printed": int(there.sum()), "lost": int((~there).sum())}
                    | {run: int((there & (part[name] != "")).sum()) for name, run in ours.items()})
    every = pd.DataFrame(rows)
    every.loc[len(every)] = ["all", "", *every.drop(columns=["paper", "table"]).sum()]
    return every


def contradictions() -> pd.DataFrame:
    """Where a paper's printed numbers disagree with each other, or with what it says: source, where, printed, found."""
    one, two = printed.printed("bias_a_head", "Table 1"), printed.printed("bias_a_head", "Table 2")
    above = two[two["All"] > two["0 (Full)"]]
    rows = [("Bias A-head", "Appendix A, lowest PPPL", one.loc["Top-3", "PPPL"], one.loc["Random-3", "PPPL"],
             "three random heads cost less than the Top-3; these are said to have the lowest of three strategies")]
    rows += [("Bias A-head", f"Table 2, {name}", row["0 (Full)"], row["All"],
              "masking all biased heads is said to worsen it, and raises it") for name, row in above.iterrows()]
    rows += [("Counteracts", "prompts of 58 occupations", 2680, len(cloze.prompts("table1")),
              "2,680 is what WinoBias' 40 occupations give"),
             ("Counteracts", "kinds of prompts", 9, len(cloze.KINDS), "the abstract's 9 leaves the base prompt out")]
    own = pd.DataFrame(rows, columns=["source", "where", "printed", "found", "note"])
    own = own.assign(**{name: own[name].map("{:g}".format) for name in ("printed", "found")})
    theirs = tables.contradictions().rename(columns={"recomputed": "found"}).assign(source="Projective Methods")
    return pd.concat([own, theirs])[list(own)].sort_values("source", kind="stable", ignore_index=True)
