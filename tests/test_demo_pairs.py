"""The sentence pairs written for this project: well formed, swapped word for word, balanced, no giveaways."""

import re

import numpy as np
import pytest

from lib.text import data

COLUMNS = ["context_id", "context", "next_sentence", "label", "gender", "gender_swapped_context",
           "gender_swapped_next_sentence"]  # those of the gender-swapped StereoSet
LABELS = {"stereotype", "anti-stereotype", "unrelated"}
SWAPS = [pair.split("/") for pair in """
    he/she him/her his/her himself/herself man/woman men/women boy/girl boys/girls father/mother dad/mom
    son/daughter brother/sister uncle/aunt nephew/niece husband/wife grandfather/grandmother
    grandson/granddaughter gentleman/lady schoolboy/schoolgirl
    Adam/Amy Albert/Alice Brian/Brenda Carl/Carla David/Diana Edward/Emily Eric/Erica Frank/Frances
    Gary/Gloria George/Grace Harry/Hannah Jack/Jane Julian/Julia Kevin/Karen Larry/Linda Luke/Laura
    Martin/Megan Michael/Michelle Nathan/Nancy Oliver/Olivia Patrick/Patricia Paul/Paula Philip/Phoebe
    Richard/Ruth Robert/Rachel Samuel/Sophie Simon/Susan Steven/Stella Thomas/Teresa Walter/Wendy
    """.lower().split()]
MALE, FEMALE = map(set, zip(*SWAPS))
MORE = set("""mr mrs ms sir madam male female guy guys king queen prince princess bride groom lord ladies
    gentlemen hers mum boyfriend girlfriend sons daughters fathers mothers brothers sisters wives husbands
    hero heroine actor actress waiter waitress""".split())  # gender words that the files should do without
PERSONS = set("person people child student baby chef cyclist musician runner tourists workers".split())
NEGATIONS = set("no not nobody none nothing never neither nor nowhere without cannot".split())


def words(text: str) -> list[str]:
    return re.findall(r"[a-z]+(?:['-][a-z]+)*", text.lower())


def count(text: str) -> int:
    return len(words(text))


@pytest.fixture(scope="module")
def triples():
    return data.demo("triples")


@pytest.fixture(scope="module")
def nli():
    return data.demo("nli")


# ---- triples


def test_triples_have_the_shape_of_stereoset(triples):
    assert list(triples) == COLUMNS
    assert triples["context_id"].is_monotonic_increasing
    for _, triple in triples.groupby("context_id"):
        assert len(triple) == 3 and set(triple["label"]) == LABELS
        assert triple[["context", "gender", "gender_swapped_context"]].drop_duplicates().shape[0] == 1


def test_triples_are_many_and_half_each_gender(triples):
    assert triples["context_id"].nunique() >= 90
    contexts = triples.drop_duplicates("context_id")
    assert (contexts["gender"] == "F").sum() == (contexts["gender"] == "M").sum() == len(contexts) / 2
    plain = contexts[contexts["context_id"] >= 84]  # those that the file's header calls plain
    assert len(plain) >= 12 and (plain["gender"] == "F").sum() == len(plain) / 2


def test_the_context_has_the_gender_that_is_given(triples):
    for row in triples.itertuples():
        found = set(words(row.context)) & (MALE | FEMALE)
        assert found and found <= (MALE if row.gender == "M" else FEMALE), row.context


def test_the_swap_changes_the_gender_words_and_nothing_else(triples):
    pairs = {(a, b) for a, b in SWAPS} | {(b, a) for a, b in SWAPS}
    for column in ("context", "next_sentence"):
        for one, other in zip(triples[column], triples[f"gender_swapped_{column}"], strict=True):
            for a, b in zip(words(one), words(other), strict=True):
                assert (a, b) in pairs if a in MALE | FEMALE else a == b, (one, other)
            assert re.sub(r"\w+", "", one) == re.sub(r"\w+", "", other)
    related = triples[triples["label"] != "unrelated"]
    assert (triples["context"] != triples["gender_swapped_context"]).all()
    assert (related["next_sentence"] != related["gender_swapped_next_sentence"]).all()


def test_unrelated_sentences_are_the_same_on_both_sides_and_without_gender(triples):
    unrelated = triples[triples["label"] == "unrelated"]
    assert (unrelated["next_sentence"] == unrelated["gender_swapped_next_sentence"]).all()
    for row in unrelated.itertuples():
        assert not set(words(row.next_sentence)) & (MALE | FEMALE | MORE), row.next_sentence


def test_no_gender_word_is_missed_by_the_swap(triples):
    texts = triples[["context", "next_sentence"]].to_numpy().ravel()
    assert not {word for text in texts for word in words(text)} & MORE


def test_triples_are_balanced_in_length(triples):
    counted = triples.assign(n=triples["next_sentence"].map(count))
    lengths = counted.pivot(index="context_id", columns="label", values="n")
    assert lengths.min().min() >= 5 and lengths.max().max() <= 14
    assert (lengths["stereotype"] - lengths["anti-stereotype"]).abs().max() <= 3
    assert lengths.mean().max() <= 1.05 * lengths.mean().min()
    assert triples["context"].map(count).between(5, 14).all()


def test_no_sentence_occurs_twice(triples):
    contexts = triples.drop_duplicates("context_id")
    assert contexts["context"].is_unique and contexts["gender_swapped_context"].is_unique
    assert not set(contexts["context"]) & set(contexts["gender_swapped_context"])
    assert triples["next_sentence"].is_unique and triples["gender_swapped_next_sentence"].is_unique


def test_examples_are_four_of_both_genders_and_not_among_the_triples(triples):
    examples = data.demo("nsp_examples")
    assert list(examples) == ["context", "stereotype", "anti_stereotype", "unrelated"] and len(examples) == 4
    female = [bool(set(words(context)) & FEMALE) for context in examples["context"]]
    male = [bool(set(words(context)) & MALE) for context in examples["context"]]
    assert sum(female) == sum(male) == 2
    assert (examples["stereotype"].map(count) - examples["anti_stereotype"].map(count)).abs().max() <= 3
    assert not set(examples.to_numpy().ravel()) & set(triples[COLUMNS[1:3] + COLUMNS[5:]].to_numpy().ravel())


# ---- natural language inference


def test_nli_premises_and_hypotheses_have_each_label_once(nli):
    assert list(nli) == ["premise", "hypothesis", "label"]
    assert (nli["label"].value_counts() >= 60).all() and not nli.duplicated(["premise", "hypothesis"]).any()
    for column in ("premise", "hypothesis"):
        for _, group in nli.groupby(column):
            assert sorted(group["label"]) == ["contradiction", "entailment", "neutral"]
    for start in range(0, len(nli), 9):  # a set: three premises by three hypotheses
        assert (nli[start:start + 9][["premise", "hypothesis"]].nunique() == 3).all()


def test_nli_lengths(nli):
    lengths = nli["hypothesis"].map(count)
    assert nli["premise"].map(count).between(6, 16).all() and lengths.between(4, 10).all()
    means = lengths.groupby(nli["label"]).mean()
    assert means.max() <= 1.08 * means.min()


def test_nli_genders_are_balanced(nli):
    premises = nli["premise"].unique()
    for texts in (premises, nli["hypothesis"]):
        found = [word for text in texts for word in words(text)]
        for male, female in zip("man men boy boys he".split(), "woman women girl girls she".split()):
            assert abs(found.count(male) - found.count(female)) <= .2 * found.count(male)
    every = [word for text in [*premises, *nli["hypothesis"]] for word in words(text)]
    male, female = (sum(word in side for word in every) for side in (MALE, FEMALE))
    assert abs(male - female) <= .2 * male
    assert sum(bool(set(words(premise)) & PERSONS) for premise in premises) >= len(premises) / 2


def test_nli_hypotheses_have_no_negation(nli):
    assert not {word for text in nli["hypothesis"] for word in words(text)} & NEGATIONS
    assert not nli["hypothesis"].str.contains("n't").any()


def test_the_hypothesis_alone_does_not_give_the_label_away(nli):
    assert hypothesis_only(nli, nli["premise"]) < .45
    assert hypothesis_only(nli, np.arange(len(nli)) // 9) == pytest.approx(1 / 3)  # by whole sets: chance


def test_the_check_for_giveaways_finds_one(nli):
    told = nli.assign(hypothesis=nli["hypothesis"] + " " + nli["label"])
    assert hypothesis_only(told, told["premise"]) == 1


def hypothesis_only(nli, groups) -> float:
    """Accuracy of naive Bayes on the hypotheses' words, each group guessed from the others, averaged."""
    texts, labels, groups = nli["hypothesis"].map(words), nli["label"].to_numpy(), np.asarray(groups)
    vocabulary = sorted({word for text in texts for word in text})
    present = np.array([[word in text for word in vocabulary] for text in texts], float)
    kinds, scores = np.unique(labels), []
    for group in np.unique(groups):
        held = groups == group
        counts = np.stack([present[~held & (labels == kind)].sum(0) + 1 for kind in kinds])
        guess = (present[held] @ np.log(counts / counts.sum(1, keepdims=True)).T).argmax(1)
        scores.append((kinds[guess] == labels[held]).mean())
    return float(np.mean(scores))
