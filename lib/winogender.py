"""Winogender: does a model say she where women work? "The technician said that [MASK] ..."

The sentences are those of Rudinger et al. 2018 (readers.winogender). Each has an occupation,
another person and one pronoun, which refers to one of the two: half of the sentences are about the
occupation. In half of the sentences the other person is "someone". companion/winogender.py
correlates the odds with the shares of women.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd

from lib import CompanionError
from lib.engine import fill, pppl
from lib.text import factual, readers


class Template(NamedTuple):
    """A sentence with its blank, and what fills it in the case that the sentence needs."""

    prompt: str
    he: str
    she: str
    they: str  # "" where the sentence with they has another verb too ("was", "were")


def template(male: str, female: str, neutral: str) -> Template:
    """The sentence that three sentences with he, she and they have in common."""
    he_words = male.split()
    she_words = female.split()
    they_words = neutral.split()
    places = _different(he_words, she_words)
    if places is None or len(places) != 1:
        raise CompanionError(
            f"'{male}' and '{female}' differ in more than a pronoun: give sentences that differ in "
            "one word."
        )
    place = places[0]
    he = he_words[place].rstrip(".,;:!?")
    mark = he_words[place].removeprefix(he)
    before = he_words[:place]
    after = he_words[place + 1 :]
    prompt = " ".join([*before, fill.BLANK + mark, *after])
    they = ""
    if _different(he_words, they_words) == places:
        they = they_words[place].removesuffix(mark)
    return Template(prompt, he, she_words[place].removesuffix(mark), they)


def _different(words: list[str], others: list[str]) -> list[int] | None:
    """Places at which two sentences have different words; None if their lengths differ."""
    if len(words) != len(others):
        return None
    return [place for place, word in enumerate(words) if word != others[place]]


def odds(model, sentences: pd.DataFrame | None = None) -> pd.DataFrame:
    """The sentences (readers.winogender, or others with its columns) with a model's log odds.

    Two columns are added, both in bits:
    log_odds        log2 p(she) : p(he)
    they_log_odds   log2 p(they) : p(he) + p(she)

    In an encoder p is the probability of the pronoun at the blank, with the whole sentence in view.
    Both are nan where a pronoun is not one token of the vocabulary; they_log_odds is nan also where
    they needs another verb, since the sentence around the blank then rules it out. In a decoder p
    is the probability of the whole sentence with this pronoun, and its verb: a decoder that only
    read what stands before the blank would not know whom the sentence is about.
    """
    if sentences is None:
        sentences = readers.winogender()
    if model.is_causal:
        she, they = _of_sentences(model, sentences)
    else:
        she, they = _at_blanks(model, sentences)
    with np.errstate(invalid="ignore"):  # nan stays nan
        both = np.logaddexp2(0, she)  # log2 of p(he) + p(she), relative to p(he)
    return sentences.assign(log_odds=she, they_log_odds=they - both)


def _of_sentences(model, sentences: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """log2 p : p(with he) of each sentence with she, and with they; for a decoder."""
    texts = [*sentences["male"], *sentences["female"], *sentences["neutral"]]
    log_likelihoods = pppl.pseudo_perplexity(model, texts).log_likelihoods
    male, female, neutral = log_likelihoods.reshape(3, len(sentences)) / np.log(2)
    return female - male, neutral - male


def _at_blanks(model, sentences: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """log2 p : p(he) of she, and of they, at the blank of each sentence; for an encoder."""
    templates = []
    for row in sentences.itertuples():
        templates.append(template(row.male, row.female, row.neutral))
    she = _against_he(model, templates, [one.she for one in templates])
    they = _against_he(model, templates, [one.they for one in templates])
    return she, they


def _against_he(model, templates: list[Template], words: list[str]) -> np.ndarray:
    """log2 p(word) : p(he) for the word of each template; nan where one is not one token."""
    asked = []
    prompts = []
    pairs = []
    for place, word in enumerate(words):
        he = templates[place].he
        if factual.is_whole(model, word) and factual.is_whole(model, he):
            asked.append(place)
            prompts.append(templates[place].prompt)
            pairs.append((word, he))
    found = np.full(len(words), np.nan)
    if asked:
        found[asked] = fill.log_odds(model, prompts, pairs)
    return found
