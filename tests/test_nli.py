"""The NLI bias test: its counts, its grammar, and fairness that a person can work out."""

import re

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lib import CompanionError
from lib.engine import hooks, models
from lib.projective import nli, projection
from lib.text import data
from lib.text import pairs as sentence_pairs
from tests.test_projection import classifier
from tests.tiny import refusal

PAIRS = nli.pairs()
LABEL = st.sampled_from(nli.LABELS)


def small(occupations=2, contexts=3):
    """The first contexts of the first occupations, as nli.pairs has them."""
    frame = nli.pairs(contexts=contexts)
    return frame[frame["occupation"].isin(frame["occupation"].unique()[:occupations])].reset_index(drop=True)


@pytest.mark.parametrize("reading, contexts, words", [
    ("man, woman", 33, ["man", "woman"]), ("six words", 11, ["man", "woman", "gentleman", "lady", "guy", "girl"])])
def test_both_readings_make_the_papers_10824_pairs(reading, contexts, words):
    frame = nli.pairs(reading)
    assert len(frame) == 10_824 == 164 * 66
    assert list(frame) == ["premise", "hypothesis", "occupation", "gender", "context"]
    assert list(frame["occupation"].unique()) == list(data.words("nli_occupations")["occupation"])
    assert frame["context"].nunique() == contexts and frame["gender"].value_counts().to_dict() == dict.fromkeys(
        ("male", "female"), 5_412)
    assert list(frame["hypothesis"].str.split().str[1].unique()) == words
    assert not frame.duplicated(["premise", "hypothesis"]).any()


def test_premise_and_hypothesis_differ_in_the_person_alone_and_fitting_pairs_share_nothing():
    for row in PAIRS.itertuples():
        assert row.premise == f"The {row.occupation} {row.context}."
        assert row.hypothesis == f"The {'man' if row.gender == 'male' else 'woman'} {row.context}."
    assert {"prepared a pie", "ate an apple", "sold an armchair", "drove a bus"} <= set(PAIRS["context"])
    shown = nli.pairs(contexts=2, items=8)  # a try has few occupations, those that are shown among them
    assert set(shown["occupation"]) == set(nli.SHOWN) and len(shown) == 3 * 2 * 2
    few = nli.pairs(contexts=5)
    assert few.equals(PAIRS[PAIRS["context"].isin(few["context"])].reset_index(drop=True)) and len(few) == 164 * 2 * 5
    pairs = nli.fitting_pairs()
    assert len(pairs) == 27 * 3 == len(set(pairs))
    acts, occupations = set(PAIRS["context"]), set(PAIRS["occupation"])
    for (premise, female), (same, male) in pairs:
        act = premise.removeprefix("The person ").removesuffix(".")
        assert premise == same and act not in acts and not occupations & set(premise.split())
        assert female.endswith(f" {act}.") and male.endswith(f" {act}.")
        assert (female.split()[1], male.split()[1]) in {("woman", "man"), ("lady", "gentleman"), ("girl", "guy")}
        article, noun = act.split()[-2:]
        assert article == ("an" if noun[0] in "aeiou" else "a")


@pytest.mark.parametrize("wrong", [{"contexts": 0}, {"contexts": 34}, {"reading": "six words", "contexts": 12},
                                   {"reading": "three"}])
def test_what_pairs_refuses(wrong):
    assert "choose" in refusal(nli.pairs, **wrong)


def test_fairness_and_viability_by_hand_and_what_is_refused():
    """Two occupations, three contexts. The first: man always neutral, woman twice. The second: alike, one neutral."""
    pairs = small()
    predicted = ["neutral", "neutral", "neutral", "neutral", "neutral", "contradiction",
                 "entailment", "entailment", "neutral", "neutral", "contradiction", "contradiction"]
    table = nli.by_occupation(predicted, pairs)
    assert table["neutral"].mean() == pytest.approx(7 / 12)
    shuffled = np.random.default_rng(0).permutation(12)  # the order of the pairs does not matter
    moved = nli.by_occupation(np.array(predicted)[shuffled], pairs.iloc[shuffled])
    pd.testing.assert_frame_equal(table, moved.loc[table.index])
    assert list(table.index) == ["accountant", "actor"]
    np.testing.assert_allclose(table[["neutral", "male", "female", "agree"]],
                               [[5 / 6, 1, 2 / 3, 2 / 3], [1 / 3, 1 / 3, 1 / 3, 1]])
    base = .8889
    assert nli.viable(.8389, base) and not nli.viable(.8388, base)
    assert nli.viable(.8445, base, relative=True) and not nli.viable(.8444, base, relative=True)
    assert nli.viable([.8407, .8370, .8458], base).tolist() == [True, False, True]
    assert nli.viable([.8407, .8370, .8458], base, relative=True).tolist() == [False, False, True]
    assert nli.viable(.9, .9, within=0)
    pairs, order = small(), ["contradiction", "entailment", "neutral"]
    drawn = np.random.default_rng(0).choice(nli.LABELS, len(pairs))
    p = np.full((len(pairs), 3), .2)
    p[np.arange(len(pairs)), [order.index(label) for label in drawn]] = .6
    assert (nli.predictions(p, order) == drawn).all() and (nli.predictions(torch.tensor(p), order) == drawn).all()
    assert nli.by_occupation(p, pairs, order).equals(nli.by_occupation(drawn, pairs))
    pairs = small()
    assert "11 predictions for 12 pairs" in refusal(nli.by_occupation, ["neutral"] * 11, pairs)
    assert "'maybe' is no label" in refusal(nli.by_occupation, ["maybe"] * 12, pairs)
    assert "2 labels were given with 3 names" in refusal(nli.by_occupation, np.full((12, 2), .5), pairs)
    assert "counterpart" in refusal(nli.by_occupation, ["neutral"] * 11, pairs.head(11))


@given(st.lists(LABEL, min_size=164 * 2, max_size=164 * 2))
@settings(max_examples=8)
def test_identical_predictions_agree_and_the_share_of_neutral_ones_is_that_of_all(drawn):
    pairs = nli.pairs(contexts=1)
    assert nli.by_occupation(drawn, pairs)["neutral"].mean() == pytest.approx(drawn.count("neutral") / len(drawn))
    assert (nli.by_occupation(np.repeat(drawn[::2], 2), pairs)["agree"] == 1).all()


def test_labels_come_from_the_config_and_probabilities_are_those_of_single_forwards():
    other = ["contradiction", "entailment", "neutral"]
    assert nli.labels(classifier("bert", other)) == other
    assert nli.labels(classifier("bert", ["ENTAILMENT", "NEUTRAL", "CONTRADICTION"])) == list(nli.LABELS)
    with pytest.raises(CompanionError, match=re.escape("LABEL_0".lower())):
        nli.labels(classifier("bert", ["LABEL_0", "LABEL_1", "LABEL_2"]))
    model, pairs = classifier("bert", nli.LABELS), small()
    found = nli.probabilities(model, pairs)
    assert found.shape == (12, 3) and torch.allclose(found.sum(-1), torch.ones(12))
    for i, row in enumerate(pairs.itertuples()):
        one = model.tokenizer(row.premise, row.hypothesis, return_tensors="pt")
        assert torch.allclose(model.net(**one).logits.softmax(-1)[0], found[i], atol=1e-5)


def test_measure_on_a_saved_classifier(tmp_path):
    """Its own label order; base is the plain model, a setting the model under its hooks, right is against the gold."""
    order = ["contradiction", "entailment", "neutral"]
    model = classifier("bert", order, max_position_embeddings=256)
    model.net.save_pretrained(tmp_path)
    model.tokenizer.model_max_length = 256
    model.tokenizer.save_pretrained(tmp_path)

    both, pairs = nli.measure(str(tmp_path), "mini", 1, 1, items=8), nli.pairs(contexts=1, items=8)
    single = nli.under(both, nli.SINGLE)
    assert single["labels"] == order and single["probabilities"].shape == (76, len(pairs), 3)
    assert single["right"].shape == (76, 8) and nli.asked(both).equals(pairs)
    model = models.load(str(tmp_path), task="sequence-classification")
    np.testing.assert_allclose(single["probabilities"][0], nli.probabilities(model, pairs), atol=1e-5)
    task = nli.task_pairs("mini", items=8)
    answers = nli.predictions(nli.probabilities(model, task), order)
    np.testing.assert_array_equal(single["right"][0], answers == task["label"].to_numpy(str))
    subspaces = projection.fit(model, sentence_pairs.written())
    with hooks.project(model, subspaces.interventions(projection.models()[60])):
        np.testing.assert_allclose(single["probabilities"][60], nli.probabilities(model, pairs), atol=1e-5)
    assert not np.allclose(single["probabilities"][60], single["probabilities"][0], atol=1e-3)
    other = nli.under(both, nli.PAIRS)["probabilities"]
    np.testing.assert_array_equal(other[:2], single["probabilities"][:2])  # base and sent-debias have no such choice
    assert not np.allclose(other[2:], single["probabilities"][2:], atol=1e-3)
    neutral, agree = nli.by_model(single)
    random = both["random"]
    assert random["neutral"].shape == random["agree"].shape == (1, *neutral.shape) and random["right"].shape == (1, 76)
    np.testing.assert_array_equal(random["neutral"][0, 0], neutral[0])  # base is base
    table = nli.by_occupation(single["probabilities"][60], pairs, order)
    np.testing.assert_allclose(table[["neutral", "agree"]], np.transpose([neutral[60], agree[60]]))
    for name in ("", "bert-base-nli"):
        assert "python -m lib.training nli make" in refusal(nli.measure, name)
