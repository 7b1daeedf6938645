"""Triples of sentences with a model's probabilities, and an audit of their file: Projective methods, section 2.

Data "mini" are this project's own triples, "paper" the authors' file. Of the latter no sentence is ever shown: tables
name its triples by context_id and line, counted from 1 with the header."""

import re

import numpy as np
import pandas as pd

from lib import printed
from lib.engine import models, nsp, stats
from lib.text import data as sources, english, readers

ENDS = re.compile(r"[.!?]['\"]?$")
SIDES = {
    "": ("context", "next_sentence"),
    "gs_": ("gender_swapped_context", "gender_swapped_next_sentence"),
}
TEXTS = [name for names in SIDES.values() for name in names]


def triples(data: str = "mini", items: int = 0) -> pd.DataFrame:
    """Sentences, three rows per triple with either side: the columns of readers.TRIPLE, and the line of the file that
    each stands on. items: so many triples (0: all), those that the paper prints among them."""
    rows = sources.demo("triples") if data == "mini" else readers.stereoset()
    rows = rows.assign(line=np.arange(len(rows)) + 2)
    ids = list(dict.fromkeys(rows["context_id"]))
    always = (
        sorted({ids.index(number) for number in printed_ids()["value"]}) if data != "mini" else []
    )
    return rows[rows["context_id"].isin(stats.first(ids, items, always))].reset_index(drop=True)


def printed_ids() -> pd.DataFrame:
    """Which triples the paper prints: columns table, row, value (a context_id)."""
    return (
        printed.numbers("projective_examples")
        .query("column == 'context_id'")
        .astype({"value": int})
    )


# ---- the measurement
def pairs(triples: pd.DataFrame) -> list[tuple[str, str]]:
    """Sentence pairs for nsp.is_next: those of the file in its order, then those of the swapped side."""
    return [pair for names in SIDES.values() for pair in zip(*(triples[name] for name in names))]


def frame(triples: pd.DataFrame, probabilities) -> pd.DataFrame:
    """One row per triple (index context_id): gender and the columns of nsp.py, from the probabilities of `pairs`."""
    keys = triples["context_id"], triples["label"].map(nsp.LABELS)
    sides = np.asarray(probabilities, dtype=float).reshape(2, len(triples))
    wide = {
        side + name: column
        for side, values in zip(SIDES, sides)
        for name, column in pd.Series(values).groupby([*keys], sort=True).first().unstack().items()
    }
    gender = triples.groupby("context_id")["gender"].first()
    return pd.DataFrame({"gender": gender} | {name: wide[name] for name in nsp.COLUMNS})


def measure(name: str, data: str = "mini", device=None, items: int = 0) -> dict[str, pd.DataFrame]:
    """p(next) of every triple by `frame`, as the sentences stand in the file ("file") and with the full stops that
    some of them lack ("stops"). Each pair goes through the model once, however often it occurs."""
    model, rows = models.load(name, device=device), triples(data, items)
    ended = {
        name: [text if ENDS.search(text) else text + "." for text in rows[name]] for name in TEXTS
    }
    wanted = {"file": pairs(rows), "stops": pairs(rows.assign(**ended))}
    unique = list(dict.fromkeys(pair for chosen in wanted.values() for pair in chosen))
    follows = dict(zip(unique, nsp.is_next(model, unique, progress="sentence pairs").tolist()))
    return {key: frame(rows, [follows[pair] for pair in chosen]) for key, chosen in wanted.items()}


# ---- the audit of the file: needs no model
def quirks(triples: pd.DataFrame) -> pd.DataFrame:
    """What is odd in a file of triples: how many rows or triples, and which (context_id), never a sentence."""
    same = triples["next_sentence"] == triples["gender_swapped_next_sentence"]
    unrelated = triples["label"] == "unrelated"
    first = triples.drop_duplicates("context_id")
    gendered = set(sources.words("gender_pairs")[["female", "male"]].to_numpy().ravel())
    words = triples["next_sentence"].str.lower().str.findall("[a-z]+")
    names_gender = words.map(lambda in_sentence: not gendered.isdisjoint(in_sentence))
    texts = triples[TEXTS]
    odd = {
        "unrelated sentence differs between the sides": triples[unrelated & ~same],
        "other sentence unchanged by the swap": triples[~unrelated & same],
        "- of these, with a word of the gender lists": triples[~unrelated & same & names_gender],
        "swapped context differs within a triple": first[
            (triples.groupby("context_id")["gender_swapped_context"].nunique() > 1).to_numpy()
        ],
        "context of an earlier triple": first[first["context"].duplicated()],
        "a sentence without an end mark": triples[
            ~texts.map(lambda text: bool(ENDS.search(text))).all(axis=1)
        ],
        "a sentence that begins in lower case": triples[
            texts.map(lambda text: text[:1].islower()).any(axis=1)
        ],
        "a for an, or an for a": triples[
            texts.map(
                lambda text: any(
                    english.article(word) != an.lower()
                    for an, word in re.findall(r"\b(an?) ([a-z]+)", text, re.IGNORECASE)
                )
            ).any(axis=1)
        ],
    }
    ids = {
        quirk: [str(number) for number in dict.fromkeys(rows["context_id"])]
        for quirk, rows in odd.items()
    }
    return pd.DataFrame(
        [
            {
                "quirk": quirk,
                "rows": len(rows),
                "triples": len(ids[quirk]),
                "context_id": ", ".join(ids[quirk]),
            }
            for quirk, rows in odd.items()
        ]
    )
