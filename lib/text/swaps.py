"""Swapping who is spoken of: a sentence's attribute word (a woman, a man; black, white).

    swaps.swap("Women are emotional.", "women")    ("Men are emotional.", "men"): one word
    swaps.swap_all("She met her uncle.")           "He met his aunt.": every gender word
    swaps.counterparts("gender")                   {"she": ("female", "he"), ...}

The words are those of data/lists/gender_pairs.csv that occur in ordinary text. Of several
counterparts the one in data/demo/counter_words.csv is taken, else the first in the list. Names
stay as they are, unless `swap_all` is asked to swap those of data/names.csv too: first names that
are common in the United States, paired by rank, without those that are ordinary words or are
given to women and men alike.
"""

import csv
import re
from collections.abc import Callable
from functools import cache

from lib import CompanionError, paths
from lib.text import contexts, data, english

WORD = re.compile(r"mrs?\.|ma['’]am|[^\W_]+", re.IGNORECASE)  # "mother's" is "mother" and "s"
# In ordinary text mostly a verb, an exclamation, an adverb ("pretty much").
OTHERWISE_USED = {"miss", "god", "pretty"}
# Words that swap_all leaves: the above with their counterparts, and listed pairs that are none.
LEFT_ALONE = OTHERWISE_USED | {"goddess", "beard", "beards", "toque", "toques", "deer", "doe"}

# "Her book" becomes "his book" and "his book" "her book"; without a noun phrase after it "her"
# becomes "him" and "his" becomes "hers".
BEFORE_A_NOUN = {"her": "his", "his": "her"}
ALONE = {"her": "him", "his": "hers"}

# Words that begin no noun phrase after "her" or "his", unless a hyphen follows ("her in-laws").
_CLOSED_CLASS = """
about above across after against along among around as at because before behind below beside
besides between but by despite down during except for from if in inside into like near nor of off
on onto or and out outside over per since so than that though through till to toward towards under
unless until up upon via what when where whether which while who why how with within without

a an the this these those each every any some all both either neither no not something anything
nothing everything someone anyone everyone i you he she it we they me him us them my your his her
our their its

again ago ahead alone already also always anymore anyway apart aside away back even ever here
however instead just later maybe more much never now often once perhaps please really sometimes
soon still then there together too today tomorrow tonight twice well yesterday yet

am is are was were be been being has had have having do does did doing can could will would should
may might must get getting go going come know feel want think see say understand realize believe
become leave stay take give tell
"""
CLOSED_CLASS = set(_CLOSED_CLASS.split())


def swap(text: str, attribute: str, bias: str = "gender") -> tuple[str, str]:
    """The sentence with its one attribute word replaced, and the counterpart that replaced it.

    Capitals and a possessive 's stay, and an article before the word is made to fit. What follows
    tells the pronouns apart: before a noun phrase "her" becomes "his" and "his" becomes "her".
    Elsewhere (before punctuation, the end or a word of CLOSED_CLASS, and in "makes her emotional")
    they become "him" and "hers".
    """
    span = place(text, attribute)
    counterpart = _counterpart(text, span, bias)

    def choose(match: re.Match) -> str | None:
        return counterpart if match.span() == span else None

    return replaced(text, choose), counterpart


def swap_all(text: str, names: bool = False) -> str:
    """The text with every gender word but those of LEFT_ALONE replaced, by the rules of `swap`.

    names   replace first names too, where they begin with a capital
    """

    def choose(match: re.Match) -> str | None:
        word = match[0]
        if word.lower() in _swapped():
            return _counterpart(text, match.span(), "gender")
        if names and word[0].isupper():
            return first_names().get(word.capitalize())
        return None

    return replaced(text, choose)


def replaced(text: str, choose: Callable[[re.Match], str | None]) -> str:
    """The text with each word replaced for which choose(match) names another.

    Capitals stay, and an article before a replaced word is made to fit.
    """
    pieces = []
    end = 0  # of what was replaced so far
    for match in WORD.finditer(text):
        word = choose(match)
        if word:
            before = text[end : match.start()]
            pieces.append(_with_fitting_article(before, word))
            pieces.append(_with_capitals_of(match[0], word))
            end = match.end()
    pieces.append(text[end:])
    return "".join(pieces)


def count(text: str) -> tuple[int, int]:
    """How many words a text has, and how many of them `swap_all` replaces."""
    words = 0
    swapped = 0
    for match in WORD.finditer(text):
        words += 1
        if match[0].lower() in _swapped():
            swapped += 1
    return words, swapped


def place(text: str, word: str) -> tuple[int, int]:
    """Where the word begins and ends in the text; it must occur once, in whatever capitals."""
    spans = [match.span() for match in WORD.finditer(text) if match[0].lower() == word]
    if len(spans) != 1:
        raise CompanionError(
            f"'{word}' stands {len(spans)} times in a sentence: it must stand there exactly once."
        )
    return spans[0]


@cache
def counterparts(bias: str) -> dict[str, tuple[str, str]]:
    """{attribute word: (its group, its counterpart)} of "gender" or "race"."""
    if bias not in ("gender", "race"):
        raise CompanionError(f"There are no word lists on {bias!r}: take 'gender' or 'race'.")
    words = data.demo("counter_words")
    words = words[(words["bias"] == bias) & (words["role"] == "attribute")]
    attributes = {row.word: (row.group, row.counterpart) for row in words.itertuples()}
    if bias == "gender":
        for female, male in data.words("gender_pairs").to_numpy():
            if len(contexts.usable([female, male])) == 2:
                attributes.setdefault(female, ("female", male))
                attributes.setdefault(male, ("male", female))
    return attributes


@cache
def first_names() -> dict[str, str]:
    """{name: the name that replaces it} of women and of men."""
    found = {}
    with open(paths.ROOT / "data" / "names.csv", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            found[row["female"]] = row["male"]
            found[row["male"]] = row["female"]
    return found


@cache
def _swapped() -> frozenset[str]:
    """The words that swap_all replaces."""
    return frozenset(counterparts("gender").keys() - LEFT_ALONE)


def _counterpart(text: str, span: tuple[int, int], bias: str) -> str:
    """The word that replaces the one at `span` of the text."""
    start, end = span
    word = text[start:end].lower()
    if word not in BEFORE_A_NOUN:
        _, counterpart = counterparts(bias)[word]
        return counterpart
    if _stands_alone(text[:start], text[end:]):
        return ALONE[word]
    return BEFORE_A_NOUN[word]


def _stands_alone(before: str, after: str) -> bool:
    """Whether "her" or "his" between these two texts belongs to no noun phrase after it.

    After a form of "make" one more word may follow: in "makes her emotional." what comes after
    "emotional" cannot continue a noun phrase, so "her" stands alone.
    """
    following = re.match(r"\s+[\"“‘'*_]*([^\W_]+)(-?)(.*)", after, re.DOTALL)
    if not following:
        return True
    word, hyphen, rest = following.groups()
    if word.lower() in CLOSED_CLASS and not hyphen:
        return True
    if hyphen or not re.search(r"\b(make|makes|made|making)\s+$", before, re.IGNORECASE):
        return False
    return _stands_alone("", rest)


def _with_fitting_article(before: str, word: str) -> str:
    """The text before a word; where it ends in "a" or "an", the one that the word takes."""
    match = re.search(r"\b(an?)(\s+)$", before, re.IGNORECASE)
    if not match:
        return before
    article, space = match.groups()
    fitting = _with_capitals_of(article, english.article(word))
    return before[: match.start()] + fitting + space


def _with_capitals_of(given: str, word: str) -> str:
    """The word in the capitals of the given one."""
    if given.isupper() and len(given) > 1:
        return word.upper()
    if given[0].isupper():
        return word.capitalize()
    return word
