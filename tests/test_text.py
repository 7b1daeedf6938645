"""English: articles, swaps, sentences for word lists, demo triples, factual gender."""

import re
import tomllib

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from lib import paths
from lib.engine import fill, hooks, models
from lib.text import contexts, data, english, factual, readers, swaps
from tests.tiny import COMMON, refuses, tiny
from training import corpus


@pytest.mark.parametrize(
    "expected, words",
    [
        (
            "a",
            "woman yoga hero hostess CEO Caucasian university unicorn unanimous one once European "
            "ewe user uranium",
        ),
        (
            "an",
            "aunt African egg owl ovum umbrella uncle usher utter hour honour heir onerous onion "
            "unimportant",
        ),
    ],
)
def test_article(expected, words):
    assert {word: english.article(word) for word in words.split()} == dict.fromkeys(
        words.split(), expected
    )


@pytest.mark.parametrize(
    "pattern, word, expected",
    [
        ("{word} Hill, {word} Reed.", "mrs.", "Mrs. Hill, Mrs. Reed."),
        ("we saw {a} {word}.", "ceo", "We saw a CEO."),
        ('"{word} is far," he said.', "africa", '"Africa is far," he said.'),
        ("{a} {word}.", "heiress", "An heiress."),
        ("1957 was {a} {word} year.", "european", "1957 was a european year."),
        ("{a} {word} met {a} {target}.", "hero", "A hero met an owl."),
    ],
)  # for the next slot
def test_sentence(pattern, word, expected):
    assert english.sentence(pattern, word=word, target="owl") == expected


@pytest.mark.parametrize(
    "text, expected",
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("Dr. Smith met J. R. Brown. He left.", ["Dr. Smith met J. R. Brown.", "He left."]),
        ('"Go." She went.', ['"Go."', "She went."]),
        ("It cost 3.50 dollars. no capital follows", ["It cost 3.50 dollars. no capital follows"]),
        ("No end", ["No end"]),
    ],
)
def test_sentences_end_at_a_mark_before_a_capital(text, expected):
    assert english.sentences(text) == expected


@pytest.mark.parametrize(
    "text, expected",
    [
        ("She met her uncle.", "He met his aunt."),
        ("He gave her his book; the pen is hers.", "She gave him her book; the pen is his."),
        ("I saw him with her mother.", "I saw her with his father."),
        ("A king and an actress. THE KING'S SON!", "A queen and an actor. THE QUEEN'S DAUGHTER!"),
        ("An heir met a host.", "An heiress met a hostess."),
        (
            "It made her cry, and it made her mother cry.",
            "It made him cry, and it made his father cry.",
        ),
        ("I told her he was late.", "I told him she was late."),
        (
            "I called her lazy.",
            "I called his lazy.",
        ),  # a known error: what follows looks like a noun phrase
        ("Mr. Hill and Mrs. Hill sat down.", "Mrs. Hill and Mr. Hill sat down."),
        *((text, text) for text in ("God knows that I miss the beard.", "Nobody was there.", "")),
    ],
)
def test_every_gender_word_is_swapped(text, expected):
    assert swaps.swap_all(text) == expected


def test_first_names_are_swapped_where_asked():
    text = "MARY told James that her own mary was a James-like man."
    expected = "JAMES told Mary that his own mary was a Mary-like woman."
    assert swaps.swap_all(text, names=True) == expected
    assert "MARY told James that his own" in swaps.swap_all(text)
    names = swaps.first_names()
    assert len(names) == 286 and all(names[names[name]] == name for name in names)
    assert not {name.lower() for name in names} & swaps.counterparts("gender").keys()


def test_swapping_all_is_swapping_each_and_gender_words_are_counted():
    for word in sorted(swaps.counterparts("gender").keys() - swaps.LEFT_ALONE):
        text = f"Then the {word} came in."
        assert swaps.swap_all(text) == swaps.swap(text, word)[0] != text
    assert swaps.count("She met her uncle, God knows where.") == (7, 3)
    for left in swaps.LEFT_ALONE:
        assert swaps.count(left) == (1, 0)


PAIRS = data.words("gender_pairs")
GENDER = set(PAIRS["female"]) | set(PAIRS["male"])
STEREOTYPES = set(data.words("gender_stereotypes")["word"])
RACE = set(data.words("race_words")["word"])
ROLES = set(data.words("race_roles")["word"])
LISTED = GENDER | STEREOTYPES | RACE | ROLES

KINDS = dict(data.demo("word_kinds").to_numpy().tolist())
PATTERNS = data.demo("contexts")
USABLE = contexts.usable(KINDS)
GROUPS = {"gender": {"female", "male"}, "race": {"african-american", "caucasian"}}
TIED = {
    "gender": dict(data.words("gender_stereotypes").to_numpy()),
    "race": dict(data.words("race_roles").to_numpy()),
}


def tokens(text: str) -> list[str]:
    """Lower-case words. A full stop stays with mr. and mrs., as in the lists."""
    return re.findall(r"mrs?\.|[a-z]+(?:'[a-z]+)?", text.lower())


def test_every_listed_word_has_a_kind_patterns_without_listed_words_and_sentences_of_its_own():
    assert set(KINDS) == LISTED and len(KINDS) == 591
    count = PATTERNS["kind"].value_counts()
    assert set(count.index) == set(KINDS.values()) - {"unusable"} and count.min() >= 12
    pairs = [(female, male) for female, male in PAIRS.to_numpy() if {female, male} <= set(USABLE)]
    assert {pair for pair in pairs if len({KINDS[word] for word in pair}) > 1} == {
        ("her", "him"),
        ("hers", "his"),
    }
    for pattern in [*PATTERNS["pattern"], *data.demo("counter")["pattern"]]:
        words = set(re.findall("[a-z]+", english.SLOT.sub(" ", pattern).lower()))
        assert not words & (LISTED | {word + "s" for word in LISTED}), pattern
    found = contexts.from_patterns(USABLE, n=20)
    assert [sentence.replace("king", "queen") for sentence in found["king"]] == found[
        "queen"
    ]  # of one kind
    for word, sentences in found.items():
        assert len(set(sentences)) == len(sentences) == min(20, count[KINDS[word]])
        for sentence in sentences:
            assert not set("{}") & set(sentence) and re.match(r'"?[A-Z]', sentence)
            assert set(tokens(sentence)) & LISTED == {word}


@settings(max_examples=10)
@given(
    st.lists(st.sampled_from(USABLE), min_size=1, max_size=4, unique=True),
    st.integers(1, 60),
    st.integers(0, 9),
)
def test_contexts_depend_on_kind_number_and_seed_alone(words, n, seed):
    together = contexts.from_patterns(words, n, seed)
    assert list(together) == words
    assert all(contexts.from_patterns([word], n, seed)[word] == together[word] for word in words)
    assert contexts.from_patterns(["king"], 5, seed=0) != contexts.from_patterns(
        ["king"], 5, seed=1
    )


test_what_cannot_be_filled_is_named = refuses(
    (lambda: contexts.from_patterns(["king", "zebra"], 5), "'zebra' has no kind: add it to"),
    (lambda: contexts.from_patterns(["hair_salon"], 5), "'hair_salon' is not found .* usable"),
    (lambda: contexts.from_patterns(["king"], 0), "ask for 1 or more"),
    (lambda: contexts.counter_sentences("race", n=549), "ask for 1 to 548"),
    (lambda: contexts.counter_sentences("age"), "take 'gender' or 'race'"),
    *(
        (lambda pattern=pattern: english.sentence(pattern, word="king"), "No word was given for")
        for pattern in ("{word} and {target}", "{a} {target}", "{word} ends with {a}")
    ),
)


@pytest.mark.parametrize("bias", GROUPS)
def test_five_hundred_pairs(bias):
    pairs = contexts.counter_sentences(bias, n=500)
    assert len(pairs) == 500 and pairs["original"].is_unique
    assert pairs["group"].value_counts().to_dict() == dict.fromkeys(GROUPS[bias], 250)
    attributes, targets = (GENDER, STEREOTYPES) if bias == "gender" else (RACE, ROLES)
    for row in pairs.itertuples():
        original, counter = tokens(row.original), tokens(row.counter)
        swapped = [pair for pair in zip(original, counter, strict=True) if pair[0] != pair[1]]
        assert swapped == [(row.attribute, row.counterpart)]
        assert [word for word in original if word in attributes] == [row.attribute]
        assert [word for word in original if word in targets] == [row.target]
        assert original.index(row.attribute) < original.index(row.target)
        assert TIED[bias][row.target] == row.group
        assert not set("{}") & set(row.original + row.counter)
    if bias == "gender":
        counts = pairs.groupby(["group", "pattern_id"]).size()
        assert len(counts) == 2 * 81 and counts.max() - counts.min() <= 1


@settings(max_examples=6)
@given(st.sampled_from(sorted(GROUPS)), st.integers(1, 500), st.integers(0, 5))
def test_fewer_pairs_are_the_first_of_more(bias, n, seed):
    some, all_ = (
        contexts.counter_sentences(bias, n, seed),
        contexts.counter_sentences(bias, 500, seed),
    )
    assert some.equals(all_.head(n))
    assert abs(2 * some["group"].isin([sorted(GROUPS[bias])[0]]).sum() - n) <= 1


FEMALE, MALE = ["she", "mother", "mrs."], ["he", "father", "mr."]
TEXTS = [
    "She saw the nurse. The nurse left early. He and the mother spoke.\nHe met a soldier",
    "Mrs. Hill met Mr. Hill. A soldier! The NURSE slept. Nurse.",
    "The nurse left early. Her half-mother left.",
]


def test_lines_hold_no_attribute_word_but_those_of_one_group():
    lines = contexts.from_text(
        ["nurse", "soldier", *FEMALE, *MALE], TEXTS, 10, apart=(FEMALE, MALE)
    )
    assert {
        word: sorted(serving) for word, serving in lines.items()
    } == {  # none for mother, father, mrs., mr.
        "nurse": ["The NURSE slept.", "The nurse left early."],
        "soldier": ["A soldier!"],  # once each
        "she": ["She saw the nurse."],
        "he": ["He met a soldier"],
    }
    assert contexts.from_text(["mrs."], TEXTS, 1) == {
        "mrs.": ["Mrs. Hill met Mr. Hill."]
    }  # a title ends no line
    long, longer = "nurse " + "a " * 127, "nurse " + "a " * 128
    assert contexts.from_text(["nurse"], [long, longer, "nurse"], 5) == {
        "nurse": [long.strip()]
    }  # 2 to 128 words
    texts = [f"The nurse has number {i}\nThe soldier has number {i}" for i in range(50)]
    both = contexts.from_text(["nurse", "soldier"], texts, 5)
    assert (
        len(set(both["nurse"])) == 5
        and both["nurse"] == contexts.from_text(["nurse"], texts, 5)["nurse"]
    )
    assert both != contexts.from_text(["nurse", "soldier"], texts, 5, seed=1)


SWAPS = [
    pair.split("/")
    for pair in """
    he/she him/her his/her himself/herself man/woman men/women boy/girl boys/girls father/mother
    dad/mom son/daughter brother/sister uncle/aunt nephew/niece husband/wife grandfather/grandmother
    grandson/granddaughter gentleman/lady schoolboy/schoolgirl
    Adam/Amy Albert/Alice Brian/Brenda Carl/Carla David/Diana Edward/Emily Eric/Erica Frank/Frances
    Gary/Gloria George/Grace Harry/Hannah Jack/Jane Julian/Julia Kevin/Karen Larry/Linda Luke/Laura
    Martin/Megan Michael/Michelle Nathan/Nancy Oliver/Olivia Patrick/Patricia Paul/Paula
    Philip/Phoebe Richard/Ruth Robert/Rachel Samuel/Sophie Simon/Susan Steven/Stella Thomas/Teresa
    Walter/Wendy
    """.lower().split()
]
MEN, WOMEN = map(set, zip(*SWAPS))
TRIPLES = data.demo("triples")


def words(text: str) -> list[str]:
    return re.findall(r"[a-z]+(?:['-][a-z]+)*", text.lower())


def test_triples_have_the_shape_of_stereoset_and_half_are_of_each_gender():
    assert list(TRIPLES) == readers.TRIPLE and TRIPLES["context_id"].nunique() >= 90
    assert TRIPLES["next_sentence"].is_unique and TRIPLES["gender_swapped_next_sentence"].is_unique
    for _, triple in TRIPLES.groupby("context_id"):
        assert len(triple) == 3 and set(triple["label"]) == readers.TRIPLE_LABELS
        assert len(triple[["context", "gender", "gender_swapped_context"]].drop_duplicates()) == 1
    assert TRIPLES["gender"].value_counts().nunique() == 1
    for row in TRIPLES.itertuples():
        gendered = set(words(row.context)) & (MEN | WOMEN)
        assert gendered and gendered <= (MEN if row.gender == "M" else WOMEN), row.context
    pairs = {(a, b) for a, b in SWAPS} | {(b, a) for a, b in SWAPS}
    for column in ("context", "next_sentence"):
        for text, other in zip(TRIPLES[column], TRIPLES[f"gender_swapped_{column}"], strict=True):
            for a, b in zip(words(text), words(other), strict=True):
                assert (a, b) in pairs if a in MEN | WOMEN else a == b, (text, other)
            assert re.sub(r"\w+", "", text) == re.sub(r"\w+", "", other)


SENTENCES = data.demo("factual_gender")
MORE_SENTENCES = data.demo("factual_gender_200")
FILLERS = {("she", "he"), ("her", "his"), ("her", "him"), ("herself", "himself")}


def test_sentences_are_pairs_that_differ_in_one_word_which_stands_before_the_blank():
    sentences = MORE_SENTENCES
    assert len(sentences) == 400 and sentences.head(84).equals(SENTENCES)
    listed = {word.lower() for word in data.words("gender_pairs").to_numpy().ravel()}
    assert sentences["sentence"].is_unique
    assert list(sentences["gender"]) == ["female", "male"] * (len(sentences) // 2)
    for _, pair in sentences.groupby("pair"):
        female, male = (sentence.split() for sentence in pair["sentence"])
        differ = [i for i, (a, b) in enumerate(zip(female, male, strict=True)) if a != b]
        assert len(differ) == 1 and differ[0] < female.index("{}") and female.count("{}") == 1
        others = re.findall(
            r"[a-z]+", " ".join(female[: differ[0]] + female[differ[0] + 1 :]).lower()
        )
        assert not listed & set(others), others
        assert (
            tuple(pair["right"]) == tuple(pair["wrong"])[::-1] and tuple(pair["right"]) in FILLERS
        )
    openers = tomllib.loads((paths.ROOT / "data" / "openers.toml").read_text(encoding="utf-8"))
    for opener in (
        opener for entry in openers.values() if "openers" in entry for opener in entry["openers"]
    ):
        begins = re.compile(
            re.escape(opener).replace(r"\{word\}", r"[\w-]+").replace(r"\{a\}", "an?"),
            re.IGNORECASE,
        )
        assert not any(map(begins.match, sentences["sentence"])), opener
    filled = {
        sentence.format(right) for sentence, right in zip(sentences["sentence"], sentences["right"])
    }
    assert not filled & set(corpus.papers_prompts())


def test_shares_odds_and_changes_by_hand():
    """Two pairs, of which 1 and .5 are right, then .5 and .5: a mean change of -.25."""
    before, after = np.array([1.0, 3.0, -2.0, 2.0]), np.array([1.0, -1.0, -2.0, 4.0])
    known, change = factual.knowledge(before), factual.knowledge(after, before)
    assert (known.right.value, known.odds.value, known.right.n) == (0.75, 1.0, 2)
    assert (known.right.low, known.right.high) == (0.5, 1.0) and (
        known.odds.low,
        known.odds.high,
    ) == (0.0, 2.0)
    assert (change.right.value, change.right.low, change.right.high) == (-0.25, -0.5, 0.0)
    assert (change.odds.value, change.odds.low, change.odds.high) == (-0.5, -2.0, 1.0)


@pytest.mark.parametrize("name", ["mini-bert", "mini-gpt2"])
def test_the_fast_way_is_word_for_word(name):
    model, prompt = (
        models.load(name, device="cpu"),
        f"The dog slept. The queen took off {fill.BLANK} crown.",
    )
    p = fill.word_probabilities(model, [prompt], ["her", "his"]).iloc[0]
    odds = factual.log_odds(model, "The dog slept.", items=2)
    assert len(odds) == 4 and odds[0] == pytest.approx(np.log2(p["her"] / p["his"]), abs=1e-4)
    assert all(isinstance(model.token_id(word), int) for word in {*SENTENCES["right"]})


def test_a_trained_model_knows_and_one_without_attention_does_not():
    model = models.load("mini-bert", device="cpu")
    before = factual.log_odds(model)
    assert factual.knowledge(before).right.low > 0.6 and factual.knowledge(before).odds.low > 1
    with hooks.head_mask(model, torch.zeros(model.n_layers, model.n_heads)):
        after = factual.log_odds(model)
    assert abs(factual.knowledge(after).right.value - 0.5) < 0.1
    assert factual.knowledge(after, before).odds.high < 0
    untrained = factual.knowledge(factual.log_odds(models.load("null", device="cpu")))
    assert untrained.right.value < 0.6 and abs(untrained.odds.value) < 0.2


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_a_vocabulary_that_holds_few_pronouns_is_asked_for_these(family, monkeypatch):
    """Tiny models know she and he, not her, his, herself."""
    monkeypatch.setitem(COMMON, "max_position_embeddings", 60)
    asked, model = SENTENCES[SENTENCES["right"].isin(["she", "he"])], tiny(family)
    assert len(factual.log_odds(model, items=6)) == 2 * sum(asked["pair"].unique() <= 6) > 0
    monkeypatch.setattr(factual, "is_whole", lambda model, word: False)
    none = factual.log_odds(model)
    assert len(none) == 0 and np.isnan(factual.knowledge(none, none).right.value)
