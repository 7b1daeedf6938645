"""Every testable claim of the three papers (data/paper/claims.csv), and what each run under figures/ found of it.

    claims.listed()                 a row a claim, by id
    claims.evidence()               a row a claim, run and thing that it was tested on, as the notebooks stored it
    claims.board(evidence)          a row a claim, a column a run: holds, fails, in part, cannot be tested, not run

A claim tested on several things (models, biases, readings) holds where all of them bear it out, fails where none does,
and is otherwise "in part". Nothing is computed here: results are taken as the notebooks stored them in NN_claims.csv,
or read off their other tables by lib/publish/stored_claims.py.
"""

from pathlib import Path

import pandas as pd

from lib import CompanionError, paths
from lib.engine import models
from lib.publish import stored_claims
from lib.publish.report import runs, verdict

NAMES = {"bias_a_head": "Bias A-head", "projective_methods": "Projective Methods", "counteracts": "Counteracts"}
OWN = "12"  # the notebook of claims that are read off other notebooks' tables
VERDICTS = {"03": "verdict, paper's test"}  # the column of the verdict, where it has another name
ABOUT = ("claim", "where", "model", "knowledge", "paper", "figure")  # columns that are no finding
COLUMNS = ["id", "run", "tested on", "found", "verdict"]


def listed() -> pd.DataFrame:
    """data/paper/claims.csv, all text: paper, where, claim, notebook, function, row, figure, why; by id."""
    return pd.read_csv(paths.PAPER / "claims.csv", comment="#", dtype=str, keep_default_na=False).set_index("id")


def evidence(folders: dict[str, Path] | None = None) -> pd.DataFrame:
    """What these runs (all that are stored) found: a row a claim, run and thing tested. Columns: COLUMNS."""
    folders, every = runs() if folders is None else folders, listed()
    ids = {(row.notebook, name): row.Index for row in every.itertuples() for name in _names(row.notebook, row.row)}
    rows = []
    for run, folder in folders.items():
        for file in sorted(folder.glob("[0-9][0-9]_*claims.csv")):
            notebook = file.name[:2]
            if notebook == OWN:  # the table that is made of all this
                continue
            for row in pd.read_csv(file, dtype=str, keep_default_na=False).to_dict("records"):
                key, told = (notebook, named(notebook, row)), row[VERDICTS.get(notebook, "verdict")]
                if key not in ids and (told.startswith("not run") or notebook == "11"):  # a model of unknown family
                    continue
                if key not in ids:
                    raise CompanionError(f"figures/{run}/{file.name} tests '{key[1]}', which data/paper/claims.csv "
                                         "does not list: add it there, or run that notebook anew.")
                rows.append([ids[key], run, row.get("where") or row.get("model", ""), _found(row), told])
        for id, claim in every[every["notebook"] == OWN].iterrows():
            read = getattr(stored_claims, claim["function"].split(".")[1])
            rows += [[id, run, *found] for found in read(stored_claims.Tables(folder))]
    return pd.DataFrame(rows, columns=COLUMNS)


def named(notebook: str, row: dict) -> str:
    """How claims.csv names a row of a notebook's NN_claims.csv."""
    if notebook == "03":
        return f"{row['claim']} | {row['where'].split()[0]}"
    return f"{_family(row['model'])}: {row['knowledge']} | {row['claim']}" if notebook == "11" else row["claim"]


def _names(notebook: str, row: str) -> list[str]:
    """What `named` may call a claim: one of Counteracts goes by each family of models that it is made of."""
    if notebook != "11":
        return [row]
    families, _, rest = row.partition(": ")
    return [f"{family}: {rest}" for family in families.split()]


def _family(model: str) -> str:
    """Of a model that the registry knows, or of one that is called after its family."""
    known = models.REGISTRY[model].family if model in models.REGISTRY else model.lower()
    return next((family for family in ("distilbert", "albert", "roberta", "bert", "gpt2", "llama") if family in known),
                known)


def _found(row: dict) -> str:
    """What a notebook found, in words: its column `ours`, or all that is not said elsewhere."""
    if "ours" in row:
        return row["ours"] + (f" (agree in {row['agree in']})" if row.get("agree in") else "")
    return "; ".join(f"{name} {value}" for name, value in row.items()
                     if value and name not in ABOUT and name not in ("verdict", VERDICTS["03"]))


def board(found: pd.DataFrame, folders: dict[str, Path] | None = None) -> pd.DataFrame:
    """A row a claim (id, source, where, claim, notebook, figure), a column a run that tests any, with its verdict.

    `source` is the paper: a run may be called `paper`.
    """
    tested = set(found.loc[~found["verdict"].str.startswith("not run"), "run"])
    every, names = listed(), [run for run in (runs() if folders is None else folders) if run in tested]
    table = every[["paper", "where", "claim", "notebook", "figure"]].rename(columns={"paper": "source"})
    table["source"] = table["source"].map(NAMES)
    for run in names:
        verdicts = found[found["run"] == run].groupby("id")["verdict"].agg(list).to_dict()
        table[run] = ["cannot be tested" if row.why else combined(verdicts.get(row.Index, []))
                      for row in every.itertuples()]
    return table.reset_index()


def combined(verdicts: list[str]) -> str:
    """One verdict of several; "within chance" where one of them is."""
    told = [verdict(text) for text in verdicts]
    decided = [(kind, reason) for kind, reason in told if kind in ("holds", "fails")]
    if not decided:
        return "cannot be tested" if any(kind == "cannot be tested" for kind, _ in told) else "not run"
    held, n = sum(kind == "holds" for kind, _ in decided), len(decided)
    if 0 < held < n:
        return f"in part ({held} of {n})"
    chance = any("within chance" in reason for _, reason in decided)
    return ("holds" if held else "fails") + (" (within chance)" if chance else "")


def kind(text: str) -> str:
    """holds, fails, in part, cannot be tested or not run: a verdict of the board without what follows it."""
    return text.split(" (")[0]


def seeds(found: pd.DataFrame, first: str = "mini-real", folders: dict[str, Path] | None = None) -> pd.DataFrame:
    """In how many of the models that differ in their training's seed alone a claim holds: a row a claim they all test.

    The runs are `first` and those named after it, first-seed1 and on. What was tested on another family's model, which
    is the same in all of these runs, is left out. Empty where there is no second seed.
    """
    names = [name for name in (runs() if folders is None else folders)
             if name == first or name.startswith(f"{first}-seed")]
    other = found["tested on"].str.contains("gpt2|roberta|albert|smollm", regex=True)
    table = board(found[~other & found["run"].isin(names)], {name: None for name in names})
    names = [name for name in names if name in table]
    tested = table[names].map(lambda text: kind(text) in ("holds", "fails", "in part")).all(axis=1)
    table = table.loc[tested if len(names) > 1 else [False] * len(table), ["id", "source", "claim", *names]]
    held = table[names].map(kind).eq("holds").sum(axis=1)
    return table.assign(**{"holds in": [f"{n} of {len(names)}" for n in held]}).reset_index(drop=True)


def trainings(table: pd.DataFrame) -> list[str]:
    """The runs that are columns of a table of `seeds`."""
    return [name for name in table if name not in ("id", "source", "claim", "holds in")]


def alike(table: pd.DataFrame) -> str:
    """How much of a table of `seeds` hangs on the training, in a sentence."""
    kinds = table[trainings(table)].map(kind)
    same, held = kinds.nunique(axis=1) == 1, (kinds == "holds").all(axis=1)
    return (f"Of {len(table)} claims {same.sum()} come out alike in {kinds.shape[1]} trainings of one model "
            f"({held.sum()} hold in all), {(~same).sum()} do not")
