"""The little English that filling a pattern needs: a or an, capitals, the ends of sentences.

english.sentence("{a} {word} closed the window.", word="heiress")   An heiress closed the window.
"""

import re

from lib import CompanionError

SLOT = re.compile(r"{(\w+)}")

# Words whose first letter misleads: a silent h, and vowels that sound like "you" or "one".
SILENT_H = re.compile(r"hour|honest|honou?r|heir")
CONSONANT_SOUND = re.compile(
    r"eu|ew|one(?!r)|once|ubiq|uni(?!n|m|dent)|unanim|ur(an|ea|in)|us[aeu]|ut[eio]"
)
# Words that keep their capitals inside a sentence, by how the word lists spell them.
CAPITALS = {
    "mr.": "Mr.",
    "mrs.": "Mrs.",
    "ceo": "CEO",
    "africa": "Africa",
    "african": "African",
    "america": "America",
    "europe": "Europe",
    "caucasian": "Caucasian",
    "viagra": "Viagra",
    "cialis": "Cialis",
}
BOUNDARY = re.compile(r"[.!?][\"')\]]*\s+(?=[\"'(\[]?[A-Z0-9])")
# A full stop after these, or after a single initial, does not end a sentence.
ABBREVIATION = re.compile(
    r"(?:\b(?:Mr|Mrs|Ms|Dr|St|Jr|Sr|Prof|Gen|Col|Capt|Lt|Sgt|Rev|Hon|Gov|Sen|No|vs|etc|cf|ca"
    r"|Fig|Vol|Inc|Ltd|e\.g|i\.e)|\b[A-Z])\.$"
)


def article(word: str) -> str:
    """The indefinite article that `word` takes, by its sound: a university, an hour, an heiress."""
    word = word.lower()
    if SILENT_H.match(word):
        return "an"
    has_vowel_letter = word[:1] in set("aeiou")
    if has_vowel_letter and not CONSONANT_SOUND.match(word):
        return "an"
    return "a"


def sentence(pattern: str, **words: str) -> str:
    """The pattern with its slots filled from `words` and its first letter made a capital.

    {a} becomes the article of the word in the slot after it.
    """

    def given(slot: re.Match) -> str:
        name = slot[1]
        if name not in words:
            raise CompanionError(f"No word was given for {{{name}}} of {pattern!r}: pass it.")
        return words[name]

    def fill(slot: re.Match) -> str:
        if slot[1] == "a":
            next_slot = SLOT.search(pattern, slot.end())
            return article(given(next_slot or slot))
        word = given(slot)
        return CAPITALS.get(word, word)

    filled = SLOT.sub(fill, pattern)
    return re.sub(r"^\W*\w", lambda first: first[0].upper(), filled)


def listed(names: list[str]) -> str:
    """The names as a sentence lists them: "a", "a and b", "a, b and c"."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def sentences(paragraph: str) -> list[str]:
    """The sentences of a paragraph: they end at punctuation that a capital or a digit follows."""
    found = []
    start = 0
    for boundary in BOUNDARY.finditer(paragraph):
        piece = paragraph[start : boundary.end()].strip()
        if not ABBREVIATION.search(piece):
            found.append(piece)
            start = boundary.end()
    rest = paragraph[start:].strip()
    if rest:
        found.append(rest)
    return found
