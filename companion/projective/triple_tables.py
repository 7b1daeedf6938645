"""Tables of notebook 07: examples as the paper prints them, SS, Strength and Distance.

    triple_tables.examples("Table 1", sentences, p_next, data)
    triple_tables.summary(p_next)

`sentences` are those of triples.triples, `p_next` the probabilities of triples.frame. With data
"paper" an example is one of the authors' own, told by context_id and line; no sentence of theirs is
shown. With data "mini" it is the triple of this project that shows the same best.
"""

import numpy as np
import pandas as pd

from companion import printed
from companion.projective import tables
from lib.engine import nsp, stats
from lib.projective import triples

# Whose probabilities each table shows, and what they are called: on the swapped side Stereo and
# Anti change places.
SHOWN = {
    "Table 1": ["stereo", "anti", "unrelated"],
    "Table 3": ["stereo", "anti", "gs_stereo", "gs_anti"],
    "Table 4": ["unrelated", "gs_unrelated"],
}
LABELS = dict(zip(nsp.COLUMNS, ["Stereo", "Anti", "Unr", "Anti", "Stereo", "Unr"]))
MEASURES = {"Table 3": ("s", nsp.strengths), "Table 4": ("d", nsp.distances)}
DIGITS = {"Table 1": 5}  # of p(next); 4 in the others


# ---- Tables 1, 3 and 4
def chosen(p_next: pd.DataFrame, data: str) -> dict[tuple[str, str], int]:
    """{(table, row): context_id}, of the rows that there is a triple for."""
    if data != "mini":
        authors = triples.printed_ids()
        return dict(zip(zip(authors["table"], authors["row"]), authors["value"]))
    s = pd.Series(nsp.strengths(p_next), p_next.index)
    d = pd.Series(nsp.distances(p_next), p_next.index)
    ahead = p_next["stereo"] - p_next["anti"]
    is_right = (ahead > 0) & (p_next["anti"] > 0.5) & (p_next["unrelated"] < 0.5)
    candidates = {
        ("Table 1", "triple"): ahead[is_right].nsmallest(1).index,
        ("Table 3", "a"): s[ahead > 0].abs().nsmallest(1).index,
        ("Table 3", "b"): s.nlargest(1).index,
        ("Table 4", "a"): d.nlargest(2).index[:1],
        ("Table 4", "b"): d.nlargest(2).index[1:],
    }
    return {place: int(found[0]) for place, found in candidates.items() if len(found)}


def examples(table: str, sentences: pd.DataFrame, p_next: pd.DataFrame, data: str) -> pd.DataFrame:
    """A table as the paper prints it, the printed probabilities beside the authors' own triples."""
    rows = _rows(table, sentences, p_next, data)
    if not rows:
        return pd.DataFrame(columns=["row", "label", "p(next)"])
    shown = pd.DataFrame(rows).round(DIGITS.get(table, 4))
    if table in MEASURES:
        name, _ = MEASURES[table]
        shown[name] += 0.0  # no -0.0
    if data != "mini":
        theirs = printed.numbers(tables.PAPER).set_index(["table", "row", "column"])["value"]
        in_paper = [theirs[key] for key in _keys(table, shown)]
        shown.insert(shown.columns.get_loc("p(next)"), "paper's p", in_paper)
    return shown.astype(object).fillna("")


def numbers(sentences: pd.DataFrame, p_next: pd.DataFrame) -> dict[tuple[str, str, str], float]:
    """The authors' own examples as data/paper names them: {(table, row, column): number}."""
    found = {}
    for table in SHOWN:
        rows = pd.DataFrame(_rows(table, sentences, p_next, "paper"))
        found |= dict(zip(_keys(table, rows), rows["p(next)"]))
    for (table, row), context_id in chosen(p_next, "paper").items():
        if table in MEASURES:
            name, measure = MEASURES[table]
            found[table, row, name] = float(measure(p_next.loc[[context_id]])[0])
    return found


def _rows(table: str, sentences: pd.DataFrame, p_next: pd.DataFrame, data: str) -> list[dict]:
    """One row per sentence of a table; s or d stands in the first row of its triple."""
    labels = sentences["label"].map(nsp.LABELS)
    named = sentences.assign(label=labels).set_index(["context_id", "label"])
    rows = []
    for (where, row), context_id in chosen(p_next, data).items():
        if where != table:
            continue
        of_triple = []
        for column in SHOWN[table]:
            told = _sentence(named, row, context_id, column, data)
            of_triple.append(told | {"p(next)": p_next.loc[context_id, column]})
        if table in MEASURES:
            name, measure = MEASURES[table]
            of_triple[0][name] = measure(p_next.loc[[context_id]])[0]
        rows += of_triple
    return rows


def _sentence(named: pd.DataFrame, row: str, context_id: int, column: str, data: str) -> dict:
    """A sentence in words, or by its line of the authors' file."""
    side = "gs_" if column.startswith("gs_") else ""
    sentence = named.loc[(context_id, column.removeprefix(side))]
    first, second = triples.SIDES[side]
    told = {"row": f"{row}_GS" if side else row}
    if data == "mini":
        told |= {"sentence A": sentence[first], "sentence B": sentence[second]}
    else:
        told |= {"context_id": context_id, "line": sentence["line"]}
    return told | {"label": LABELS[column]}


def _keys(table: str, rows: pd.DataFrame) -> list[tuple[str, str, str]]:
    """Where data/paper has each of these probabilities: table, row, column."""
    if table == "Table 1":
        return [(table, label, "p") for label in rows["label"]]
    return [(table, row, label) for row, label in zip(rows["row"], rows["label"])]


# ---- SS, Strength and Distance
def summary(p_next: pd.DataFrame) -> pd.DataFrame:
    """Measures of some triples with their 95 % intervals and n."""
    tenth = max(1, round(len(p_next) * 0.1))
    s = nsp.strengths(p_next)
    d = nsp.distances(p_next)
    twin = nsp.swapped(p_next)
    prefers = p_next["stereo"] > p_next["anti"]
    prefers_swapped = twin["stereo"] > twin["anti"]
    measures = [
        ("SS", "share of triples with the stereotype likelier", np.mean, prefers),
        ("SS, swapped side", "the same on the swapped side", np.mean, prefers_swapped),
        ("S", f"Strength: mean of the {tenth} highest s", nsp.top_mean, s),
        ("S, opposite", f"minus the mean of the {tenth} lowest s", nsp.top_mean, -s),
        ("mean s", "of all triple pairs", np.mean, s),
        ("D", f"Distance: mean of the {tenth} highest d", nsp.top_mean, d),
        ("mean d", "of all triple pairs", np.mean, d),
        ("accuracy", "sentences called right at .5", np.mean, nsp.right(p_next)),
    ]
    rows = []
    for name, what, statistic, values in measures:
        estimate = stats.bootstrap(statistic, np.asarray(values, float))
        rows.append((name, what, *estimate, estimate.n))
    return pd.DataFrame(rows, columns=["measure", "what", "value", "low", "high", "n"])


def estimates(table: pd.DataFrame) -> dict[str, stats.Estimate]:
    """The rows of `summary` as estimates, by measure."""
    rows = table[["value", "low", "high", "n"]].itertuples(index=False)
    return {name: stats.Estimate(*row) for name, row in zip(table["measure"], rows)}
