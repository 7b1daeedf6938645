"""Every gender word of a text swapped, and counted."""

import pytest

from lib.text import swaps


@pytest.mark.parametrize("text, expected", [
    ("She met her uncle.", "He met his aunt."),
    ("He gave her his book; the pen is hers.", "She gave him her book; the pen is his."),
    ("I saw him with her mother.", "I saw her with his father."),
    ("A king and an actress. THE KING'S SON!", "A queen and an actor. THE QUEEN'S DAUGHTER!"),
    ("An heir met a host.", "An heiress met a hostess."),
    ("It made her cry, and it made her mother cry.", "It made him cry, and it made his father cry."),
    ("I told her he was late.", "I told him she was late."),
    ("I called her lazy.", "I called his lazy."),  # a known error: what follows looks like a noun phrase
    ("Mr. Hill and Mrs. Hill sat down.", "Mrs. Hill and Mr. Hill sat down."),
    ("God knows that I miss the beard.", "God knows that I miss the beard."),
    ("Nobody was there.", "Nobody was there."),
    ("", ""),
])
def test_every_gender_word_is_swapped(text, expected):
    assert swaps.swap_all(text) == expected


def test_swapping_all_is_swapping_each_where_there_is_one():
    for word in sorted(swaps.counterparts("gender").keys() - swaps.LEFT_ALONE):
        text = f"Then the {word} came in."
        assert swaps.swap_all(text) == swaps.swap(text, word)[0] != text


def test_words_and_gender_words_are_counted():
    assert swaps.count("She met her uncle, God knows where.") == (7, 3)
    for left in swaps.LEFT_ALONE:
        assert swaps.count(left) == (1, 0)
