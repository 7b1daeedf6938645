"""Sentence pairs that differ in gender words alone, to fit gender subspaces on.

Each function returns [(female sentence, male sentence), ...]. Projective Methods fits on "a small
set of paired sentences" and does not give it: notebook 08 shows how much the choice matters.
"""

import re
from collections.abc import Set

from lib.engine import stats
from lib.text import data as sources, readers, swaps

# Liang et al.'s ten pairs, which are Bolukbasi et al.'s.
TO_MALE = {
    "woman": "man",
    "girl": "boy",
    "she": "he",
    "mother": "father",
    "daughter": "son",
    "gal": "guy",
    "female": "male",
    "her": "his",
    "herself": "himself",
    "mary": "john",
}
TO_FEMALE = {male: female for female, male in TO_MALE.items()} | {"him": "her"}
AMBIGUOUS = {"her", "hers"}  # "her" is "his" or "him": sentences with it are left out
FEWEST = 4  # pairs that subspaces are fitted on even in a trial run


def written() -> list[tuple[str, str]]:
    """The project's 40 (data/lists/subspace_pairs.csv), four for each of the ten word pairs."""
    listed = sources.words("subspace_pairs")[["female", "male"]]
    return list(listed.itertuples(index=False, name=None))


def natural(data: str = "mini", n: int = 200, items: int = 0) -> list[tuple[str, str]]:
    """The first n sentences that speak of one gender, each with its swap.

    Liang et al. make theirs so for sent-debias. The sentences are data/demo's prose and captions
    ("mini"), or WikiText-2's test split ("paper"), which is one of theirs.

    items: 0, or how many of the pairs a trial run takes (at least FEWEST)
    """
    texts = _demo_sentences() if data == "mini" else _wikitext_sentences()
    listed = sources.words("gender_pairs")
    gendered = {*listed["female"], *listed["male"]} - {"him"}
    pairs = []
    for text in dict.fromkeys(texts):
        pair = swapped(text, gendered)
        if pair:
            pairs.append(pair)
    return stats.first(pairs[:n], items, range(FEWEST))


def contexts(data: str = "mini", items: int = 0) -> list[tuple[str, str]]:
    """Contexts of the triples, on which bias is measured, with their swaps.

    Each occurs once, and only if the swap changes it. items: as in `natural`.
    """
    frame = sources.demo("triples") if data == "mini" else readers.stereoset("both")
    columns = frame[["gender", "context", "gender_swapped_context"]]
    pairs = []
    for gender, original, other in columns.itertuples(index=False, name=None):
        if original != other:
            pairs.append((original, other) if gender == "F" else (other, original))
    distinct = list(dict.fromkeys(pairs))
    return stats.first(distinct, items, range(FEWEST))


def swapped(text: str, gendered: Set[str] = frozenset()) -> tuple[str, str] | None:
    """The text and its swap as (female, male), by the ten word pairs; None where that is unclear.

    That is: where the text has words of both genders or of none, a word that could be swapped in
    two ways (AMBIGUOUS), or a word of `gendered` that is in none of the ten pairs.
    """
    words = {word.lower() for word in swaps.WORD.findall(text)}
    female = words & TO_MALE.keys()
    male = words & TO_FEMALE.keys()
    has_one_gender = bool(female) != bool(male)
    left_over = (words & gendered) - female - male
    if not has_one_gender or words & AMBIGUOUS or left_over:
        return None
    if female:
        return text, _exchanged(text, TO_MALE)
    return _exchanged(text, TO_FEMALE), text


def _exchanged(text: str, counterparts: dict[str, str]) -> str:
    def choose(match: re.Match) -> str | None:
        return counterparts.get(match[0].lower())

    return swaps.replaced(text, choose)


def _demo_sentences() -> list[str]:
    captions = sources.demo("nli")
    return [*sources.demo("prose"), *captions["premise"], *captions["hypothesis"]]


def _wikitext_sentences() -> list[str]:
    """The sentences of 4 to 40 words of WikiText-2's test split, headings left out."""
    found = []
    for line in readers.wikitext():
        if line.startswith("="):
            continue
        for sentence in line.split(" . "):
            if 4 <= len(sentence.split()) <= 40:
                found.append(sentence + ".")
    return found
