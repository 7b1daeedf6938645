"""The text written for this project: enough of it, neutral where it must be, every sentence well formed."""

import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lib import CompanionError
from lib.text import contexts, data, english

PAIRS = data.words("gender_pairs")
GENDER = set(PAIRS["female"]) | set(PAIRS["male"])
STEREOTYPES = set(data.words("gender_stereotypes")["word"])
RACE = set(data.words("race_words")["word"])
ROLES = set(data.words("race_roles")["word"])
LISTED = GENDER | STEREOTYPES | RACE | ROLES

KINDS = dict(data.demo("word_kinds").to_numpy().tolist())
PATTERNS = data.demo("contexts")
COUNTER = data.demo("counter")
COUNTER_WORDS = data.demo("counter_words")
USABLE = contexts.usable(KINDS)
LARGE = {"person", "people", "adjective", "activity", "thing"}
GROUPS = {"gender": {"female", "male"}, "race": {"african-american", "caucasian"}}
TIED = {"gender": dict(data.words("gender_stereotypes").to_numpy()),
        "race": dict(data.words("race_roles").to_numpy())}


def tokens(text: str) -> list[str]:
    """Lower-case words. A full stop stays with mr. and mrs., as in the lists."""
    return re.findall(r"mrs?\.|[a-z]+(?:'[a-z]+)?", text.lower())


def listed_words(pattern: str) -> set[str]:
    """Words of the lists, or their plurals, that a pattern holds itself."""
    own = english.SLOT.sub(" ", pattern)
    words = set(tokens(own)) | set(re.findall("[a-z]+", own.lower()))  # so that she's counts as she
    return words & (LISTED | {word + "s" for word in LISTED})


# Kinds and contexts

def test_every_listed_word_has_one_kind():
    assert list(KINDS) == list(data.demo("word_kinds")["word"]), "a word is there twice"
    assert set(KINDS) == LISTED and len(KINDS) == 591


def test_unusable_words_are_few_and_of_the_stated_sort():
    unusable = {word for word, kind in KINDS.items() if kind == "unusable"}
    assert len(unusable) == 18
    assert {word for word in LISTED if "_" in word} < unusable
    assert unusable & STEREOTYPES == {"ca"} and not unusable & (RACE | ROLES)


def test_the_words_of_a_pair_share_their_kind():
    pairs = [(female, male) for female, male in PAIRS.to_numpy() if {female, male} <= set(USABLE)]
    odd = {(female, male) for female, male in pairs if KINDS[female] != KINDS[male]}
    assert odd == {("her", "him"), ("hers", "his")} and len(pairs) == 207


def test_every_kind_has_patterns_enough():
    count = PATTERNS["kind"].value_counts()
    assert set(count.index) == set(KINDS.values()) - {"unusable"}
    assert all(number >= (20 if kind in LARGE else 12) for kind, number in count.items())
    assert PATTERNS["pattern"].is_unique


def test_context_patterns_are_neutral_and_well_formed():
    for pattern in PATTERNS["pattern"]:
        assert not listed_words(pattern), pattern
        assert english.SLOT.findall(pattern) in (["word"], ["a", "word"]), pattern
        assert not re.search(r"{a}(?! {)", pattern), pattern  # {a} stands right before its word
        assert 5 <= len(pattern.split()) <= 20, pattern
        assert pattern.isascii() and pattern[-1] in ".?" and "  " not in pattern, pattern


@pytest.mark.parametrize("kind", sorted(LARGE | {"subject", "possessive"}))
def test_the_slot_stands_early_and_late(kind):
    patterns = PATTERNS["pattern"][PATTERNS["kind"] == kind]
    places = [pattern.index("{word}") / len(pattern) for pattern in patterns]
    assert min(places) < .2 and max(places) > .5
    assert sum(place > .2 for place in places) > len(places) / 2


def test_sentences_of_all_words():
    found = contexts.from_patterns(USABLE, n=20)
    available = PATTERNS["kind"].value_counts()
    for word, sentences in found.items():
        assert len(set(sentences)) == len(sentences) == min(20, available[KINDS[word]])
        for sentence in sentences:
            assert not set("{}") & set(sentence)
            assert re.match(r'"?[A-Z]', sentence)
            assert set(tokens(sentence)) & LISTED == {word}
            for one, two in pairwise(sentence.split()):
                if one.lower() in ("a", "an"):
                    assert one.lower() == english.article(two)


def test_words_of_a_kind_differ_by_the_word_alone():
    found = contexts.from_patterns(["king", "queen", "nurse"], n=40)
    for king, queen, nurse in zip(found["king"], found["queen"], found["nurse"]):
        assert king.replace("king", "queen") == queen and king.replace("king", "nurse") == nurse


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from(USABLE), min_size=1, unique=True), st.integers(1, 60), st.integers(0, 9))
def test_contexts_depend_on_kind_number_and_seed_alone(words, n, seed):
    together = contexts.from_patterns(words, n, seed)
    assert list(together) == words
    assert all(contexts.from_patterns([word], n, seed)[word] == together[word] for word in words)


def test_seeds_differ():
    assert contexts.from_patterns(["king"], 5, seed=0) != contexts.from_patterns(["king"], 5, seed=1)


@pytest.mark.parametrize("words, n, mend", [
    (["king", "zebra"], 5, "'zebra' has no kind: add it to"),
    (["hair_salon"], 5, "'hair_salon' is not found .* usable"),
    (["king"], 0, "ask for 1 or more"),
])
def test_what_cannot_be_filled_is_named(words, n, mend):
    with pytest.raises(CompanionError, match=mend):
        contexts.from_patterns(words, n)


def test_usable_keeps_order():
    assert contexts.usable(["queen", "zebra", "stailor", "king"]) == ["queen", "king"]


# Counter-stereotype sentences

def test_enough_counter_patterns():
    assert COUNTER["bias"].value_counts().to_dict() == {"gender": 81, "race": 53}
    assert COUNTER["pattern"].is_unique


def test_counter_patterns_hold_two_slots_and_no_other_listed_word():
    for pattern in COUNTER["pattern"]:
        assert not listed_words(pattern), pattern
        slots = [slot for slot in english.SLOT.findall(pattern) if slot != "a"]
        assert slots == ["attribute", "target"], pattern
        assert not re.search(r"{a}(?! {)", pattern), pattern
        assert pattern.isascii() and pattern[-1] in '.?"', pattern


def test_counter_words_are_those_of_the_lists():
    groups = {word: side for side in ("female", "male") for word in PAIRS[side]}
    groups |= dict(data.words("race_words")[["word", "group"]].to_numpy())
    counterparts = {frozenset(pair) for pair in PAIRS.to_numpy().tolist()} | {frozenset({"europe", "africa"})}
    counterparts |= {frozenset(pair.split("-")) for pair in data.words("race_words")["pair"]}
    for row in COUNTER_WORDS.itertuples():
        if row.role == "attribute":
            assert row.group == groups[row.word] and {row.word, row.counterpart} in counterparts
        else:
            assert row.group == TIED[row.bias][row.word] and row.counterpart == ""
    assert not COUNTER_WORDS.duplicated(["bias", "role", "word", "kind"]).any()
    left_out = "redneck hillbilly slave hooker flirtatious submissive terrorist tailor waiter gentle tall"
    assert not set(COUNTER_WORDS["word"]) & set(left_out.split())


@pytest.mark.parametrize("bias", GROUPS)
def test_five_hundred_pairs(bias):
    pairs = contexts.counter_sentences(bias, n=500)
    assert list(pairs) == ["original", "counter", "attribute", "counterpart", "target", "group", "pattern_id"]
    assert len(pairs) == 500 and pairs["original"].is_unique
    assert pairs["group"].value_counts().to_dict() == dict.fromkeys(GROUPS[bias], 250)
    attributes, targets = (GENDER, STEREOTYPES) if bias == "gender" else (RACE, ROLES)
    for row in pairs.itertuples():
        one, two = tokens(row.original), tokens(row.counter)
        swapped = [pair for pair in zip(one, two, strict=True) if pair[0] != pair[1]]
        assert swapped == [(row.attribute, row.counterpart)]
        assert [word for word in one if word in attributes] == [row.attribute]
        assert [word for word in one if word in targets] == [row.target]
        assert one.index(row.attribute) < one.index(row.target)
        assert TIED[bias][row.target] == row.group
        assert not set("{}") & set(row.original + row.counter)


def test_patterns_are_used_evenly():
    counts = contexts.counter_sentences("gender", n=500).groupby(["group", "pattern_id"]).size()
    assert len(counts) == 2 * 81 and counts.max() - counts.min() <= 1


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(sorted(GROUPS)), st.integers(1, 500), st.integers(0, 5))
def test_fewer_pairs_are_the_first_of_more(bias, n, seed):
    some, all_ = contexts.counter_sentences(bias, n, seed), contexts.counter_sentences(bias, 500, seed)
    assert some.equals(all_.head(n))
    assert abs(2 * some["group"].isin([sorted(GROUPS[bias])[0]]).sum() - n) <= 1


def test_what_there_is_not_is_said():
    assert len(contexts.counter_sentences("race", n=548)) == 548
    with pytest.raises(CompanionError, match="ask for 1 to 548"):
        contexts.counter_sentences("race", n=549)
    with pytest.raises(CompanionError, match="take 'gender' or 'race'"):
        contexts.counter_sentences("age")


# Prose

def test_prose():
    lines = data.demo("prose")
    assert len(lines) == len(set(lines)) == 150
    for line in lines:
        assert 8 <= len(line.split()) <= 35, line
        assert re.fullmatch(r'"?[A-Z][ -~]*[.?!]"?', line) and "  " not in line, line


def test_prose_speaks_of_her_and_him_alike():
    words = [word for line in data.demo("prose") for word in tokens(line)]
    for female, male in (("she", "he"), ("she her hers herself", "he him his himself")):
        she, he = (sum(word in side.split() for word in words) for side in (female, male))
        assert min(she, he) >= 20 and abs(she - he) <= .2 * max(she, he)
