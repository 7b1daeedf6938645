"""Swapping who is spoken of: a sentence's attribute word (a woman, a man; black, white) for its counterpart.

    swaps.swap("Women are emotional.", "women")           ("Men are emotional.", "men"): one word, for counter.py
    swaps.swap_all("She met her uncle.")                  "He met his aunt.": every gender word, for debias.py
    swaps.counterparts("gender")                          {"she": ("female", "he"), ...}

Words are those of data/lists/gender_pairs.csv that occur in ordinary text; of several counterparts the one of
data/demo/counter_words.csv is taken, else the first of the list. Names stay as they are."""

import re
from functools import cache

from lib import CompanionError
from lib.text import contexts, data, english

WORD = re.compile(r"mrs?\.|ma['’]am|[^\W_]+", re.IGNORECASE)  # "mother's" is "mother" and "s"
OTHERWISE_USED = {
    "miss",
    "god",
    "pretty",
}  # in text mostly a verb, an exclamation, an adverb ("pretty much")
# What swap_all leaves: those with their counterpart, and pairs of the list that are none.
LEFT_ALONE = OTHERWISE_USED | {"goddess", "beard", "beards", "toque", "toques", "deer", "doe"}

# Words that begin no noun phrase after "her" or "his", unless a hyphen follows ("her in-laws").
CLOSED_CLASS = set(
    """
    about above across after against along among around as at because before behind below beside besides between but by
    despite down during except for from if in inside into like near nor of off on onto or and out outside over per since
    so than that though through till to toward towards under unless until up upon via what when where whether which
    while who why how with within without a an the this these those each every any some all both either neither no not
    something anything nothing everything someone anyone everyone i you he she it we they me him us them my your his her
    our their its again ago ahead alone already also always anymore anyway apart aside away back even ever here however
    instead just later maybe more much never now often once perhaps please really sometimes soon still then there
    together too today tomorrow tonight twice well yesterday yet am is are was were be been being has had have having do
    does did doing can could will would should may might must get getting go going come know feel want think see say
    understand realize believe become leave stay take give tell""".split()
)


def swap(text: str, attribute: str, bias: str = "gender") -> tuple[str, str]:
    """The sentence with its one attribute word replaced, and the counterpart that replaced it.
    Capitals and a possessive 's stay, an article before the word is made to fit. What follows tells the pronouns
    apart: before a noun phrase "her" becomes "his" and "his" "her"; elsewhere (before punctuation, the end or a word
    of CLOSED_CLASS, and in "makes her emotional") they become "him" and "hers"."""
    span = place(text, attribute)
    counterpart = _counterpart(text, *span, bias)
    return replaced(text, lambda match: counterpart if match.span() == span else None), counterpart


def swap_all(text: str) -> str:
    """The text with every gender word replaced by the rules of `swap`, but those of LEFT_ALONE."""
    return replaced(
        text,
        lambda match: (
            _counterpart(text, *match.span(), "gender") if match[0].lower() in _swapped() else None
        ),
    )


def replaced(text: str, counterpart) -> str:
    """The text with each word replaced for which counterpart(match) names another; capitals stay, an article fits."""
    pieces, done = [], 0
    for match in WORD.finditer(text):
        if word := counterpart(match):
            before = re.sub(
                r"\b(an?)(\s+)$",
                lambda an, word=word: _like(an[1], english.article(word)) + an[2],
                text[done : match.start()],
                flags=re.IGNORECASE,
            )
            pieces += [before, _like(match[0], word)]
            done = match.end()
    return "".join([*pieces, text[done:]])


def count(text: str) -> tuple[int, int]:
    """How many words a text has, and how many of them `swap_all` replaces."""
    words = [match[0].lower() for match in WORD.finditer(text)]
    return len(words), sum(word in _swapped() for word in words)


def place(text: str, word: str) -> tuple[int, int]:
    """Where the word begins and ends in the text, in which it must stand once, in whatever capitals."""
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
    listed = data.demo("counter_words").query("bias == @bias and role == 'attribute'")
    attributes = {row.word: (row.group, row.counterpart) for row in listed.itertuples()}
    for female, male in data.words("gender_pairs").to_numpy() if bias == "gender" else ():
        if len(contexts.usable([female, male])) == 2:
            attributes.setdefault(female, ("female", male))
            attributes.setdefault(male, ("male", female))
    return attributes


@cache
def _swapped() -> frozenset[str]:
    """The words that swap_all replaces."""
    return frozenset(counterparts("gender").keys() - LEFT_ALONE)


def _counterpart(text: str, start: int, end: int, bias: str) -> str:
    """What replaces the word that stands there."""
    word = text[start:end].lower()
    if word in ("her", "his"):
        return {"her": ("his", "him"), "his": ("her", "hers")}[word][
            _stands_alone(text[:start], text[end:])
        ]
    return counterparts(bias)[word][1]


def _stands_alone(before: str, after: str) -> bool:
    following = re.match(r"\s+[\"“‘'*_]*([^\W_]+)(-?)(.*)", after, re.DOTALL)
    if not following or following[1].lower() in CLOSED_CLASS and not following[2]:
        return True
    made = re.search(r"\b(make|makes|made|making)\s+$", before, re.IGNORECASE)
    return bool(made) and not following[2] and _stands_alone("", following[3])


def _like(given: str, word: str) -> str:
    """The word in the capitals of the given one."""
    if given.isupper() and len(given) > 1:
        return word.upper()
    return word.capitalize() if given[0].isupper() else word
