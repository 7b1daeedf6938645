"""The little English that filling a pattern needs: a or an, and capitals.

english.sentence("{a} {word} closed the window.", word="heiress")   An heiress closed the window."""

import re

from lib import CompanionError

SLOT = re.compile(r"{(\w+)}")

# Words whose first letter misleads: a silent h, and vowels that begin with the sound of "you" or "one".
SILENT_H = re.compile(r"hour|honest|honou?r|heir")
CONSONANT_SOUND = re.compile(
    r"eu|ew|one(?!r)|once|ubiq|uni(?!n|m|dent)|unanim|ur(an|ea|in)|us[aeu]|ut[eio]"
)
# Words that keep their capitals inside a sentence. The lists have them in lower case.
CAPITALS = {
    word.lower(): word
    for word in "Mr. Mrs. CEO Africa African America Europe Caucasian Viagra Cialis".split()
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
    vowel = word[:1] in set("aeiou") and not CONSONANT_SOUND.match(word)
    return "an" if vowel or SILENT_H.match(word) else "a"


def sentence(pattern: str, **words: str) -> str:
    """The pattern filled from `words`, {a} by the article of the slot after it, its first letter capital."""

    def fill(slot: re.Match) -> str:
        is_article = slot[1] == "a"
        wanted = SLOT.search(pattern, slot.end()) or slot if is_article else slot
        if wanted[1] not in words:
            raise CompanionError(f"No word was given for {{{wanted[1]}}} of {pattern!r}: pass it.")
        word = words[wanted[1]]
        return article(word) if is_article else CAPITALS.get(word, word)

    return re.sub(r"^\W*\w", lambda first: first[0].upper(), SLOT.sub(fill, pattern))


def listed(names: list[str]) -> str:
    """a, b and c."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def sentences(paragraph: str) -> list[str]:
    """The sentences of a paragraph, by punctuation followed by a capital."""
    ended, start = [], 0
    for match in BOUNDARY.finditer(paragraph):
        piece = paragraph[start : match.end()].strip()
        if not ABBREVIATION.search(piece):
            ended.append(piece)
            start = match.end()
    return [s for s in ended + [paragraph[start:].strip()] if s]
