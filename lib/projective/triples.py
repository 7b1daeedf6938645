"""Triples of sentences with a model's probabilities, and an audit of their file.

Projective methods, section 2. Data "mini" are this project's own triples, "paper" the authors':
their development file, taken to be the paper's, and their test file. No sentence of the authors'
files is ever shown: tables name their triples by context_id and line, counted from 1 with the
header.
"""

import re

import numpy as np
import pandas as pd

from lib import CompanionError, paths
from lib.engine import models, nsp, stats
from lib.text import data as sources, english, readers

# The end of a complete sentence.
ENDS = re.compile(r"[.!?]['\"]?$")
# The columns of sentence A and sentence B, by the prefix that nsp.COLUMNS gives to a side.
SIDES = {
    "": ("context", "next_sentence"),
    "gs_": ("gender_swapped_context", "gender_swapped_next_sentence"),
}
TEXTS = ["context", "next_sentence", "gender_swapped_context", "gender_swapped_next_sentence"]


def triples(data: str = "mini", items: int = 0, part: str = "dev") -> pd.DataFrame:
    """The sentences, three rows per triple with both sides in each.

    Columns: those of readers.TRIPLE, and the line of its file that a row stands on.
    items   how many triples to take, 0 for all; those that the paper prints are always among them
            where their file is read
    part    which of the authors' files: "dev", the paper's; "test"; or "both", in which context_id
            says the file (`is_papers`)
    """
    if data == "mini":
        if part == "test":
            raise CompanionError(
                f"This project's own triples have no part {part!r}: leave part out, or ask for "
                "data 'paper'."
            )
        rows = sources.demo("triples")
    else:
        rows = readers.stereoset(part)
    file = rows["context_id"] // readers.FIRST_ID["test"]
    rows = rows.assign(line=rows.groupby(file).cumcount() + 2)
    ids = list(dict.fromkeys(rows["context_id"]))
    always = []
    if data != "mini":
        printed_here = set(printed_ids()["value"]) & set(ids)
        always = sorted(ids.index(number) for number in printed_here)
    chosen = stats.first(ids, items, always)
    return rows[rows["context_id"].isin(chosen)].reset_index(drop=True)


def is_papers(context_ids) -> np.ndarray:
    """Which triples of both of the authors' files are in the one that the paper uses."""
    return np.asarray(context_ids) < readers.FIRST_ID["test"]


def printed_ids() -> pd.DataFrame:
    """Which triples the paper prints: columns table, row, value (a context_id)."""
    file = paths.PAPER / "projective_examples.csv"
    examples = pd.read_csv(file, comment="#", dtype=str)
    return examples.query("column == 'context_id'").astype({"value": int})


# ---- the measurement
def pairs(triples: pd.DataFrame) -> list[tuple[str, str]]:
    """Sentence pairs for nsp.is_next: those of the file in its order, then the swapped side's."""
    every = []
    for first, second in SIDES.values():
        every += zip(triples[first], triples[second])
    return every


def frame(triples: pd.DataFrame, probabilities) -> pd.DataFrame:
    """The probabilities of `pairs` as one row per triple.

    Index: context_id. Columns: gender, and the columns of nsp.py.
    """
    keys = [triples["context_id"], triples["label"].map(nsp.LABELS)]
    by_side = np.asarray(probabilities, dtype=float).reshape(2, len(triples))
    wide = {"gender": triples.groupby("context_id")["gender"].first()}
    for side, values in zip(SIDES, by_side):
        labels = pd.Series(values).groupby(keys, sort=True).first().unstack()
        for name, column in labels.items():
            wide[side + name] = column
    return pd.DataFrame(wide)[["gender", *nsp.COLUMNS]]


def measure(
    name: str, data: str = "mini", device=None, items: int = 0, part: str = "both"
) -> dict[str, pd.DataFrame]:
    """p(next) of every triple as `frame` arranges it. items, part: as in `triples`.

    "file" is the sentences as they stand in the file, "stops" the same with the full stops that
    some of them lack. Each pair goes through the model once, however often it occurs.
    """
    model = models.load(name, device=device)
    rows = triples(data, items, part)
    with_stops = {column: rows[column].map(_ended) for column in TEXTS}
    asked = {"file": pairs(rows), "stops": pairs(rows.assign(**with_stops))}
    unique = list(dict.fromkeys(asked["file"] + asked["stops"]))
    follows = dict(zip(unique, nsp.is_next(model, unique, progress="sentence pairs").tolist()))
    measured = {}
    for key, chosen in asked.items():
        measured[key] = frame(rows, [follows[pair] for pair in chosen])
    return measured


def _ended(text: str) -> str:
    """The sentence, with a full stop if it has no end mark."""
    return text if ENDS.search(text) else text + "."


def strength_lead(s: np.ndarray) -> stats.Estimate:
    """By how much Strength exceeds its opposite, the same measure of anti-stereotypes.

    The interval is over triple pairs.
    """
    return stats.bootstrap(lambda values: nsp.top_mean(values) - nsp.top_mean(-values), s)


# ---- the audit of the file: needs no model
def quirks(triples: pd.DataFrame) -> pd.DataFrame:
    """What is odd in a file of triples: how many rows and triples, and which, never a sentence.

    Columns: quirk, rows, triples, context_id.
    """
    listed = []
    for quirk, rows in _odd_rows(triples).items():
        ids = [str(number) for number in dict.fromkeys(rows["context_id"])]
        listed.append(
            {
                "quirk": quirk,
                "rows": len(rows),
                "triples": len(ids),
                "context_id": ", ".join(ids),
            }
        )
    return pd.DataFrame(listed)


def _odd_rows(triples: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The rows that each quirk is found in, by the quirk's name."""
    is_same = triples["next_sentence"] == triples["gender_swapped_next_sentence"]
    is_unrelated = triples["label"] == "unrelated"
    is_unchanged = ~is_unrelated & is_same
    gender_words = set(sources.words("gender_pairs")[["female", "male"]].to_numpy().ravel())
    words = triples["next_sentence"].str.lower().str.findall("[a-z]+")
    names_gender = ~words.map(gender_words.isdisjoint)
    first = triples.drop_duplicates("context_id")
    contexts = triples.groupby("context_id")["gender_swapped_context"].nunique()
    texts = triples[TEXTS]
    lacks_end = ~texts.map(_has_end).all(axis=1)
    is_lower = texts.map(_is_lower_case).any(axis=1)
    has_wrong_article = texts.map(_has_wrong_article).any(axis=1)
    return {
        "unrelated sentence differs between the sides": triples[is_unrelated & ~is_same],
        "other sentence unchanged by the swap": triples[is_unchanged],
        "- of these, with a word of the gender lists": triples[is_unchanged & names_gender],
        "swapped context differs within a triple": first[(contexts > 1).to_numpy()],
        "context of an earlier triple": first[first["context"].duplicated()],
        "a sentence without an end mark": triples[lacks_end],
        "a sentence that begins in lower case": triples[is_lower],
        "a for an, or an for a": triples[has_wrong_article],
    }


def _has_end(text: str) -> bool:
    return bool(ENDS.search(text))


def _is_lower_case(text: str) -> bool:
    return text[:1].islower()


def _has_wrong_article(text: str) -> bool:
    """Whether some "a" or "an" does not fit the sound of the word after it."""
    for article, word in re.findall(r"\b(an?) ([a-z]+)", text, re.IGNORECASE):
        if english.article(word) != article.lower():
            return True
    return False
