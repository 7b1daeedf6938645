"""Triples of sentences with a model's probabilities: Projective methods, section 2, Tables 1-4.

    triples = stereoset.triples("mini")                         sentences, three rows a triple, either side
    found = run.cached(stereoset.measure, "mini-bert", "mini")  p(next) of all of them, a row a triple
    stereoset.examples(triples, found["file"], "mini", "Table 3"), stereoset.quirks(triples)

Data "mini" are this project's own triples, "paper" the authors' file. Of the latter no sentence is ever shown: tables
name its triples by context_id and line, counted from 1 with the header.
"""

import re

import numpy as np
import pandas as pd

from lib import printed as paper
from lib.engine import limit, models, nsp
from lib.text import data as sources
from lib.text import english, readers

ENDS = re.compile(r"[.!?]['\"]?$")
TABLES = {"Table 1": (["stereo", "anti", "unrelated"], "", None), "Table 3": (["stereo", "anti"], "s", nsp.strengths),
          "Table 4": (["unrelated"], "d", nsp.distances)}  # whose probabilities, and what is made of them
SIDES = {"": ("context", "next_sentence"), "gs_": ("gender_swapped_context", "gender_swapped_next_sentence")}


def triples(data: str = "mini") -> pd.DataFrame:
    """The triples' sentences in the columns of readers.TRIPLE, and the line of the file that each stands on."""
    frame = sources.demo("triples") if data == "mini" else readers.stereoset()
    frame = frame.assign(line=np.arange(len(frame)) + 2)
    ids = list(dict.fromkeys(frame["context_id"]))
    shown = _printed_ids()["value"] if data != "mini" else []
    kept = limit.first(ids, always=sorted({ids.index(int(one)) for one in shown}))
    return frame[frame["context_id"].isin(kept)].reset_index(drop=True)


def pairs(triples: pd.DataFrame) -> list[tuple[str, str]]:
    """Sentence pairs for nsp.is_next: those of the file in its order, then those of the swapped side."""
    return [pair for names in SIDES.values() for pair in zip(*(triples[name] for name in names))]


def frame(triples: pd.DataFrame, probabilities) -> pd.DataFrame:
    """A row a triple (index context_id): gender and the columns of nsp.py, from the probabilities of `pairs`."""
    keys = triples["context_id"], triples["label"].map(nsp.LABELS)
    sides = np.asarray(probabilities, dtype=float).reshape(2, len(triples))
    wide = {side + name: column for side, values in zip(SIDES, sides)
            for name, column in pd.Series(values).groupby([*keys], sort=True).first().unstack().items()}
    gender = triples.groupby("context_id")["gender"].first()
    return pd.DataFrame({"gender": gender} | {name: wide[name] for name in nsp.COLUMNS})


def measure(name: str, data: str = "mini", device=None) -> dict[str, pd.DataFrame]:
    """p(next) of every triple by `frame`, as the sentences stand in the file ("file") and with the full stops that
    some of them lack ("stops"). Each pair goes through the model once, however often it occurs.
    """
    model, rows = models.load(name, device=device), triples(data)
    wanted = {"file": pairs(rows), "stops": pairs(full_stops(rows))}
    unique = list(dict.fromkeys(pair for chosen in wanted.values() for pair in chosen))
    follows = dict(zip(unique, nsp.is_next(model, unique, progress="sentence pairs").tolist()))
    return {key: frame(rows, [follows[pair] for pair in chosen]) for key, chosen in wanted.items()}


def full_stops(triples: pd.DataFrame) -> pd.DataFrame:
    """The same with a full stop after every sentence that ends without a mark."""
    ended = {name: [text if ENDS.search(text) else text + "." for text in triples[name]]
             for names in SIDES.values() for name in names}
    return triples.assign(**ended)


# ---- tables 1 to 4

def chosen(found: pd.DataFrame, data: str = "mini") -> dict[str, dict[str, int]]:
    """Which triples stand in Tables 1, 3 and 4, by context_id: the authors' own, or for "mini" by what each shows.

    Table 1: a triple called right, of stereotype and anti-stereotype next to equally likely. Table 3: (a) counts for
    SS and has the s closest to 0, (b) the greatest s. Table 4: the two greatest d.
    """
    if data != "mini":
        places = _printed_ids()
        return {table: dict(zip(part["row"], part["value"].astype(int))) for table, part in places.groupby("table")}
    s = pd.Series(nsp.strengths(found), found.index)
    d = pd.Series(nsp.distances(found), found.index).sort_values(ascending=False)
    counted = found["stereo"] > found["anti"]
    right = counted & (found["anti"] > .5) & (found["unrelated"] < .5)
    return {"Table 1": {"triple": (found["stereo"] - found["anti"])[right].idxmin()},
            "Table 3": {"a": s[counted].abs().idxmin(), "b": s.idxmax()},
            "Table 4": {"a": d.index[0], "b": d.index[1]}}


def _printed_ids() -> pd.DataFrame:
    """Which triples the paper prints: columns table, row, value (a context_id)."""
    return paper.numbers("projective_methods_examples").query("column == 'context_id'")


def examples(triples: pd.DataFrame, found: pd.DataFrame, data: str, table: str) -> pd.DataFrame:
    """Table 1, 3 or 4 of the paper with this model's probabilities: its own triples beside the printed numbers
    ("paper": lines of the file in place of sentences), or this project's with their sentences ("mini").
    """
    labels, measure, each = TABLES[table]
    rows = []
    for letter, context_id in chosen(found, data)[table].items():
        triple = triples[triples["context_id"] == context_id].assign(name=lambda t: t["label"].map(nsp.LABELS))
        triple, values = triple.set_index("name"), found.loc[context_id]
        for side in [""] if table == "Table 1" else SIDES:
            for label in labels:
                context, following = (triple.loc[label, name] for name in SIDES[side])
                place = {"context_id": context_id, "line": triple.loc[label, "line"]}
                rows.append({"row": letter + ("_GS" if side else "")}
                            | ({"sentence A": context, "sentence B": following} if data == "mini" else place)
                            | {"label": _printed_label(label, side), "p(next)": values[side + label]})
        if measure:
            rows[-2 * len(labels)][measure] = float(each(found.loc[[context_id]])[0])
    result = pd.DataFrame(rows).round(4 if measure else 5)  # as many digits as the paper prints
    result[measure or "p(next)"] += 0.0  # no -0.0
    if data != "mini":
        theirs = paper.numbers("projective_methods").set_index(["table", "row", "column"])["value"]
        keys = [(table, row["label"], "p") if table == "Table 1" else (table, row["row"], row["label"]) for row in rows]
        result.insert(result.columns.get_loc("p(next)"), "paper's p", [theirs[key] for key in keys])
    return result.astype(object).fillna("")


def example_numbers(found: pd.DataFrame, data: str) -> dict[tuple, float]:
    """Ours for every number of Tables 1, 3 and 4, keyed as data/paper has them. Other triples than theirs: none."""
    if data == "mini":
        return {}
    places, ours = chosen(found, data), {}
    for label in nsp.LABELS.values():
        ours["Table 1", _printed_label(label, ""), "p"] = found.loc[places["Table 1"]["triple"], label]
    for table in ("Table 3", "Table 4"):
        labels, measure, each = TABLES[table]
        for letter, context_id in places[table].items():
            for side in SIDES:
                for label in labels:
                    key = table, letter + ("_GS" if side else ""), _printed_label(label, side)
                    ours[key] = found.loc[context_id, side + label]
            ours[table, letter, measure] = float(each(found.loc[[context_id]])[0])
    return ours


def _printed_label(label: str, side: str) -> str:
    """As the paper prints it: on the swapped side Stereo and Anti have changed places."""
    names = {"stereo": "Stereo", "anti": "Anti", "unrelated": "Unr"}
    return names[{"stereo": "anti", "anti": "stereo"}.get(label, label) if side else label]


# ---- the file

def quirks(triples: pd.DataFrame) -> pd.DataFrame:
    """What is odd in a file of triples: how many rows or triples, and which (context_id), never a sentence."""
    same = triples["next_sentence"] == triples["gender_swapped_next_sentence"]
    unrelated = triples["label"] == "unrelated"
    first = triples.drop_duplicates("context_id")
    gendered = set(sources.words("gender_pairs")[["female", "male"]].to_numpy().ravel())
    words = triples["next_sentence"].str.lower().str.findall("[a-z]+")
    names_gender = words.map(lambda found: not gendered.isdisjoint(found))
    marked = triples[[name for names in SIDES.values() for name in names]]
    lists = {
        "unrelated sentence differs between the sides": triples[unrelated & ~same],
        "other sentence unchanged by the swap": triples[~unrelated & same],
        "- of these, with a word of the gender lists": triples[~unrelated & same & names_gender],
        "swapped context differs within a triple": first[
            (triples.groupby("context_id")["gender_swapped_context"].nunique() > 1).to_numpy()],
        "context of an earlier triple": first[first["context"].duplicated()],
        "a sentence without an end mark": triples[~marked.map(lambda text: bool(ENDS.search(text))).all(axis=1)],
        "a sentence that begins in lower case": triples[marked.map(lambda text: text[:1].islower()).any(axis=1)],
        "a for an, or an for a": triples[marked.map(_wrong_article).any(axis=1)],
    }
    rows = []
    for quirk, part in lists.items():
        ids = [str(number) for number in dict.fromkeys(part["context_id"])]
        rows.append({"quirk": quirk, "rows": len(part), "triples": len(ids), "context_id": ", ".join(ids)})
    return pd.DataFrame(rows)


def screening(triples: pd.DataFrame) -> pd.DataFrame:
    """What the screening left: ids that the numbering passes over are triples that were taken out."""
    ids = sorted(triples["context_id"].unique())
    gone = sorted(set(range(ids[-1] + 1)) - set(ids))
    genders = triples.drop_duplicates("context_id")["gender"].value_counts()
    return pd.DataFrame([
        ("numbered", ids[-1] + 1, ""),
        ("taken out", len(gone), "context_id " + ", ".join(map(str, gone)) if gone else ""),
        ("left", len(ids), f"{genders['M']} about men, {genders['F']} about women"),
    ], columns=["triples", "number", "which"])


def screened() -> pd.DataFrame:
    """Table 2: what a screening has to remove and why, in triples written for this project."""
    rows = [{"row": triple.row, "reason": triple.reason, "sentence A": triple.context, "sentence B": following,
             "label": label} for triple in sources.demo("screened").itertuples()
            for label, following in zip(("Stereo", "Anti", "Unr"), (triple.stereotype, triple.anti_stereotype,
                                                                    triple.unrelated))]
    return pd.DataFrame(rows)


def _wrong_article(text: str) -> bool:
    return any(english.article(word) != article.lower()
               for article, word in re.findall(r"\b(an?) ([a-z]+)", text, re.IGNORECASE))
