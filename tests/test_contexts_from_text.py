"""Contexts found in running text: which lines serve which word."""

from lib.bias_a_head import heads
from lib.engine import embed
from lib.text import contexts, readers

FEMALE, MALE = ["she", "mother", "mrs."], ["he", "father", "mr."]
TEXTS = ["She saw the nurse. The nurse left early. He and the mother spoke.\nHe met a soldier",
         "Mrs. Hill met Mr. Hill. A soldier! The NURSE slept. Nurse.", "The nurse left early. Her half-mother left."]


def found(n=10, **options):
    return contexts.from_text(["nurse", "soldier", *FEMALE, *MALE], TEXTS, n, apart=(FEMALE, MALE), **options)


def test_targets_stand_in_lines_without_attribute_words():
    assert sorted(found()["nurse"]) == ["The NURSE slept.", "The nurse left early."]  # each line once, one word is none
    assert found()["soldier"] == ["A soldier!"]


def test_attributes_stand_in_lines_without_the_other_group():
    assert found()["she"] == ["She saw the nurse."] and found()["he"] == ["He met a soldier"]
    assert not {"mother", "father", "mrs.", "mr."} & set(found())  # none is left: with he, nowhere, together


def test_titles_do_not_end_a_line():
    assert contexts.from_text(["mrs."], TEXTS, 1) == {"mrs.": ["Mrs. Hill met Mr. Hill."]}


def test_lines_have_2_to_128_words():
    long, short = "nurse " + "a " * 127, "nurse " + "a " * 128
    assert contexts.from_text(["nurse"], [long, short, "nurse"], 5) == {"nurse": [long.strip()]}


def test_draws_are_seeded_and_do_not_depend_on_other_words():
    texts = [f"The nurse has number {i}\nThe soldier has number {i}" for i in range(50)]
    both = contexts.from_text(["nurse", "soldier"], texts, 5)
    assert len(set(both["nurse"])) == 5 and both["nurse"] == contexts.from_text(["nurse"], texts, 5)["nurse"]
    assert both != contexts.from_text(["nurse", "soldier"], texts, 5, seed=1)


def test_on_the_news_every_line_holds_its_word(real_data):
    sets, lines = heads.sets_and_contexts("gender", "paper", 3)
    assert all(len(part) >= 40 for part in sets.parts()) and "tailor" not in sets.X
    for word, some in lines.items():
        assert all(embed.find(word, line) for line in some)
    attributes = set(sets.A + sets.B)
    for word in sets.X + sets.Y:
        assert not any(attributes & {w.lower() for w in contexts.WORD.findall(line)} for line in lines[word])
    assert len(readers.news()) == 2225
