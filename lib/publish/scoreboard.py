"""Notebook 12's tables: every claim and every printed number of the three papers, beside what each run found.

    scoreboard.claims_table(), scoreboard.evidence_table()      what lib/publish/claims.py says, as the notebook shows it
    scoreboard.numbers()                                        a row a printed number, ours and a verdict for each run
    scoreboard.coverage(numbers)                                how many of them were measured, by paper and table
    scoreboard.contradictions()                                 printed numbers that disagree with each other
    scoreboard.summary()                                        claims by paper and run, as markdown, for the README
    scoreboard.top_heads()                                      the highest heads of models that differ in their seed

All of it is read from figures/ as stored there, so that the same folder gives the same tables.
"""

import re
from pathlib import Path

import pandas as pd

from lib import CompanionError
from lib import printed as paper
from lib.bias_a_head import heads
from lib.counteracts import cloze
from lib.projective import nli, projection
from lib.publish import claims
from lib.publish.report import ALL_PAPERS, paper_of, runs
from lib.text import data

KINDS = ("holds", "in part", "fails", "cannot be tested", "not run")
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
WORDS = {"holds": "hold", "in part": "in part", "fails": "fail", "cannot be tested": "untestable", "not run": "not run"}


# ---------------------------------------------------------------- claims

def claims_table(folders: dict[str, Path] | None = None) -> pd.DataFrame:
    """A row a claim, a column a run; `tested by` is the notebook, `figure` the picture behind it."""
    table = claims.board(claims.evidence(folders), folders)
    return table.rename(columns={"where": "made in", "notebook": "tested by"})


def evidence_table(folders: dict[str, Path] | None = None) -> pd.DataFrame:
    """What stands behind each verdict: id, run, tested on, found, outcome."""
    return claims.evidence(folders).rename(columns={"verdict": "outcome"})


def untestable() -> pd.DataFrame:
    """The claims that cannot be tested here, and why."""
    every = claims.listed().query("why != ''").replace({"paper": claims.NAMES})
    return every[["paper", "where", "claim", "why"]].reset_index(drop=True)


def tally(folders: dict[str, Path] | None = None) -> pd.DataFrame:
    """How many claims of a paper hold, hold in part, fail, ... in each run: a row a paper, run and kind."""
    folders = runs() if folders is None else folders
    table = claims.board(claims.evidence(folders), folders)
    rows = [(name, run, kind, int((part[run].map(claims.kind) == kind).sum()),
             int((part[run] == f"{kind} (within chance)").sum()))
            for name, part in table.groupby("source", sort=False) for run in folders if run in table for kind in KINDS]
    return pd.DataFrame(rows, columns=["paper", "run", "kind", "claims", "within chance"])


def summary(folders: dict[str, Path] | None = None) -> str:
    """Claims by paper and run as a markdown table: how many hold, hold in part and fail, of how many were tested."""
    counted = tally(folders)
    names, papers = list(dict.fromkeys(counted["run"])), list(dict.fromkeys(counted["paper"]))
    lines = [["paper", "claims", *(f"`{name}`" for name in names)], ["---"] * (len(names) + 2)]
    for name in [*papers, "all"]:
        part = counted if name == "all" else counted[counted["paper"] == name]
        cells = [_cell(part[part["run"] == run].groupby("kind")["claims"].sum()) for run in names]
        total = part.loc[part["run"] == names[0], "claims"].sum()
        lines.append([ALL_PAPERS if name == "all" else f"*{name}*", str(total), *cells])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cell(count: pd.Series) -> str:
    tested = int(count[["holds", "in part", "fails"]].sum())
    if not tested:
        return "not run"
    return ", ".join(f"{count[kind]} {WORDS[kind]}" for kind in ("holds", "in part", "fails")) + f" (of {tested})"


# ---------------------------------------------------------------- numbers

def numbers(folders: dict[str, Path] | None = None) -> pd.DataFrame:
    """Every printed number: source (the paper), table, row, column, printed; of each run `ours, <run>`, `verdict, ...`.

    What no notebook of a run compares is "not run"; a number of the data or of the method alone, which hangs on no
    model, is compared by `counts` for all runs.
    """
    folders = runs() if folders is None else folders
    frames = [paper.numbers(name).assign(source=name) for name in claims.NAMES]
    table = pd.concat(frames, ignore_index=True).rename(columns={"value": "printed"})
    keys = list(zip(table["source"], table["table"], table["row"], table["column"]))
    counted = {key: (f"{value:g}", _count_verdict(key, value, printed)) for key, value in counts().items()
               for printed in table.loc[[keys.index(key)], "printed"]}
    for run, folder in folders.items():
        found = _compared(run, folder, set(keys)) | counted
        found |= {(source, *key): found[source, *said] for source, key, said in REPEATED if (source, *said) in found}
        none = [("", _not_run(key, printed)) for key, printed in zip(keys, table["printed"])]
        told = [found.get(key, other) for key, other in zip(keys, none)]
        table[f"ours, {run}"], table[f"verdict, {run}"] = zip(*told)
    table["source"] = table["source"].map(claims.NAMES)
    return table[["source", "table", "row", "column", "printed", *table.columns[5:]]].fillna({"printed": ""})


def _not_run(key: tuple, printed) -> str:
    why = "the printed number is lost" if pd.isna(printed) else NOT_RUN.get(key[:2], "")
    return f"not run ({why})" if why else "not run"


def _compared(run: str, folder: Path, known: set[tuple]) -> dict[tuple, tuple[str, str]]:
    """{(paper, table, row, column): (ours, verdict)} from the tables that a run's notebooks compared."""
    found, ids = {}, {name: id for id, name in claims.NAMES.items()}
    for file in sorted(folder.glob("[0-9][0-9]_*.csv")):
        frame = pd.read_csv(file, dtype=str, keep_default_na=False)
        source = ids.get(paper_of(file.name[:2]))
        if source and {"paper", "ours", "verdict"} <= set(frame) and "claim" not in frame:
            for row in frame.to_dict("records"):
                key = source, *_key(row)
                if key not in known:
                    raise CompanionError(f"figures/{run}/{file.name} compares {key[1:]}, which data/paper/{source}.csv "
                                         "does not have: add it there, or run that notebook anew.")
                found[key] = row["ours"], row["verdict"]
    return found | _swapped(folder, found)


def _swapped(folder: Path, found: dict) -> dict[tuple, tuple[str, str]]:
    """p and N of Fig. 4, which notebook 03 has in its table of tests; the verdict of p is that of its t."""
    file, rows = folder / "03_tests.csv", {}
    table = pd.read_csv(file, dtype=str).query("unit == 'sentence'") if file.is_file() else pd.DataFrame()
    for row in table.itertuples():
        key = "bias_a_head", f"Figure {row.figure.split()[0]}", row.heads
        rows[*key, "p"] = row.p, found.get((*key, "t"), ("", "not run"))[1]
        rows[*key, "N"] = row.n, paper.verdict("500", float(row.n), True, why="no more sentences were found")
    return rows


def _key(row: dict) -> tuple[str, str, str]:
    """(table, row, column) as data/paper has them, of a row that a notebook compared."""
    if "quantity" in row:  # 02: "SEAT, gender (footnote 9)", "bert-base: 1.35"
        column, table = re.fullmatch(r"(.+), gender \((.+)\)", row["quantity"]).groups()
        return table[0].upper() + table[1:], row["paper"].split(":")[0], column
    if "figure" in row:  # 03
        return f"Figure {row['figure']}", row["heads"], row["measure"]
    table = f"Table {row['table']}" if row["table"].isdigit() else row["table"]
    return table, row["row"], row["column"]


def counts() -> dict[tuple[str, str, str, str], float]:
    """Ours for the printed numbers that hang on no model: sizes of word lists, test sets and grids."""
    pairs, race = data.words("gender_pairs"), heads.race_sets()
    settings, inference, jobs = projection.settings(), nli.pairs(), data.words("occupations")
    targets = data.words("gender_stereotypes")["stereotype"]
    found = {("bias_a_head", "Section 4", *key): value for key, value in {
        ("gender", "attribute words"): pd.unique(pairs[["female", "male"]].to_numpy().ravel()).size,
        ("gender", "attribute pairs"): len(pairs), ("gender", "target words"): int((targets == "female").sum()),
        ("race", "attribute words"): len(race.A) + len(race.B), ("race", "attribute pairs"): len(race.A),
        ("race", "target words"): len(race.X) + len(race.Y)}.items()}
    found |= {("projective_methods", *key): value for key, value in {
        ("Section 3", "test set", "occupations"): inference["occupation"].nunique(),
        ("Section 3", "test set", "sentence pairs"): len(inference),
        ("Section 4", "debiased models", "number"): len(settings),
        ("Section 5", "Spearman of S and eta", "models"): len(projection.models()),
        ("Section 5", "pairs that gain SNLI by np = 1", "number"): sum(one.sent.weighted for one in settings),
        ("Section 5", "Layer 11", "number"): sum(one.level == "Layer 11" for one in settings)}.items()}
    found |= {("counteracts", "Table 1", row.occupation, "percent women"): float(row.percent_women)
              for row in jobs.itertuples()}
    return found | {("counteracts", "prose", "Results", f"{size} k"): k
                    for size, k in zip(("smallest", "middle", "largest"), (3, 5, cloze.KEPT))}


def _count_verdict(key: tuple, value: float, printed: str) -> str:
    why = {"attribute words": "the list has words that stand in several pairs", "target words": "the list has eleven"}
    return paper.verdict(printed, value, same_model=True, why=why.get(key[3], "another reading"))


def coverage(table: pd.DataFrame) -> pd.DataFrame:
    """How many numbers each table prints, how many of these are lost, and how many each run has beside them."""
    names = [name.removeprefix("ours, ") for name in table if name.startswith("ours, ")]
    rows = []
    for (source, where), part in table.groupby(["source", "table"], sort=False):
        rows.append({"paper": source, "table": where, "printed": int((part["printed"] != "").sum()),
                     "lost": int((part["printed"] == "").sum())}
                    | {name: int(((part[f"ours, {name}"] != "") & (part["printed"] != "")).sum()) for name in names})
    every = pd.DataFrame(rows)
    every.loc[len(every)] = ["all", "", *every.drop(columns=["paper", "table"]).sum()]
    return every


def contradictions() -> pd.DataFrame:
    """Where a paper's printed numbers disagree with each other, or with what it says: source, where, printed, found."""
    one, two = paper.printed("bias_a_head", "Table 1"), paper.printed("bias_a_head", "Table 2")
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
    theirs = paper.contradictions().rename(columns={"recomputed": "found"}).assign(source="Projective Methods")
    return pd.concat([own, theirs])[list(own)].sort_values("source", kind="stable", ignore_index=True)


# ---------------------------------------------------------------- seeds

def top_heads(first: str = "mini-real", folders: dict[str, Path] | None = None) -> pd.DataFrame:
    """The three highest heads on gender of models that differ in their seed, and how many they share with the first.

    A head has no name that outlives its training: the same place in another model is another head, so that chance is
    what to expect. Layers are comparable.
    """
    folders, rows = runs() if folders is None else folders, []
    for run, folder in folders.items():
        if (run == first or run.startswith(f"{first}-seed")) and (folder / "02_seat.csv").is_file():
            row = pd.read_csv(folder / "02_seat.csv").query("bias == 'gender'").iloc[0]  # the encoder's
            top = row["highest three"].split(", ")
            rows.append({"run": run, "model": row["model"], "SEAT": row["SEAT"], "positive": row["positive"],
                         "highest three": ", ".join(top), "mean layer": round(sum(int(head.split("-")[0])
                                                                                 for head in top) / len(top), 1)})
    table = pd.DataFrame(rows)
    if len(table):
        own = set(table["highest three"].iloc[0].split(", "))
        table["shared with the first"] = [len(own & set(top.split(", "))) for top in table["highest three"]]
    return table
