"""Articles by sound, patterns filled, capitals where English has them."""

import pytest

from lib import CompanionError
from lib.text import english


@pytest.mark.parametrize("expected, words", [
    ("a", "woman nurse king yoga house hero hostess host CEO Caucasian"),
    ("a", "university unicorn unique unanimous one once European ewe usual user uterus utility uranium"),
    ("an", "aunt actor engineer executive African elephant egg owl ovum umbrella uncle usher urban utter"),
    ("an", "hour honest honor honour heir heiress onerous onion unimportant unidentified unanswered"),
])
def test_article(expected, words):
    assert {word: english.article(word) for word in words.split()} == dict.fromkeys(words.split(), expected)


@pytest.mark.parametrize("pattern, words, expected", [
    ("{a} {word} closed the window.", {"word": "heiress"}, "An heiress closed the window."),
    ("{word} Hill knew {word} Reed.", {"word": "mrs."}, "Mrs. Hill knew Mrs. Reed."),
    ("we saw {a} {word}.", {"word": "ceo"}, "We saw a CEO."),
    ('"{word} is far away," they said.', {"word": "africa"}, '"Africa is far away," they said.'),
    ("1957 was {a} {word} year.", {"word": "european"}, "1957 was a european year."),
    ("{a} {word} met {a} {target}.", {"word": "hero", "target": "owl"}, "A hero met an owl."),  # for the next slot
])
def test_sentence(pattern, words, expected):
    assert english.sentence(pattern, **words) == expected


@pytest.mark.parametrize("pattern", ["{word} and {target}", "{a} {target}", "{word} ends with {a}"])
def test_a_missing_word_is_named(pattern):
    with pytest.raises(CompanionError, match="No word was given for"):
        english.sentence(pattern, word="king")


@pytest.mark.parametrize("text, expected", [
    ("One. Two! Three?", ["One.", "Two!", "Three?"]),
    ("Dr. Smith met J. R. Brown. He left.", ["Dr. Smith met J. R. Brown.", "He left."]),
    ('"Go." She went.', ['"Go."', "She went."]),
    ("It cost 3.50 dollars. no capital follows", ["It cost 3.50 dollars. no capital follows"]),
    ("No end", ["No end"]),
])
def test_sentences_end_at_a_mark_before_a_capital(text, expected):
    assert english.sentences(text) == expected
