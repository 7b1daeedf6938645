"""The NLI bias test: its counts, its grammar, and fairness that a person can work out."""

import re

import numpy as np
import pandas as pd
import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import COMMON, SHAPE, one_thread, tiny  # noqa: F401

from lib import CompanionError
from lib.projective import nli
from lib.text import data

PAIRS = nli.pairs()
LABEL = st.sampled_from(nli.LABELS)


def small(occupations=2, contexts=3):
    """The first contexts of the first occupations, as nli.pairs has them."""
    frame = nli.pairs(contexts=contexts)
    return frame[frame["occupation"].isin(frame["occupation"].unique()[:occupations])].reset_index(drop=True)


# ---- the pairs


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
    assert frame.groupby(["occupation", "context", "gender"]).size().nunique() == 1
    gendered = data.words("nli_gendered").set_index("word")["gender"]
    assert (frame["hypothesis"].str.split().str[1].map(gendered) == frame["gender"]).all()


def test_the_papers_example_is_among_them():
    wanted = PAIRS[(PAIRS["occupation"] == "doctor") & (PAIRS["gender"] == "female")].iloc[0]
    assert (wanted["premise"], wanted["hypothesis"]) == ("The doctor prepared a pie.", "The woman prepared a pie.")


def test_premise_and_hypothesis_differ_in_the_person_alone():
    for row in PAIRS.itertuples():
        assert row.premise == f"The {row.occupation} {row.context}."
        assert row.hypothesis == f"The {'man' if row.gender == 'male' else 'woman'} {row.context}."


def test_articles_go_by_sound():
    contexts = PAIRS["context"].unique()
    assert {"ate an apple", "sold an armchair", "bought an oven", "drove a bus"} <= set(contexts)
    for context in contexts:
        article, noun = context.split()[-2:]
        assert article == ("an" if noun[0] in "aeiou" else "a"), context


def test_contexts_make_sense():
    """Of Dev et al.'s words but for the paper's pie; food is eaten, vehicles are driven, animals are met."""
    verbs = data.words("nli_verbs").set_index("verb")["class"]
    objects = data.words("nli_objects").set_index("word")["class"].to_dict() | {"pie": "food"}
    fits = {"eating": {"food"}, "driving": {"vehicles"}, "commerce": set(objects.values()),
            "interaction": {"farm_animals"}}
    anything = {"liked", "loved", "hated"}
    contexts = data.words("nli_contexts")
    assert not contexts.duplicated().any()
    assert set(verbs.index) - set(contexts["verb"]) == {"interrupted", "visited"}
    for row in contexts.itertuples():
        assert objects[row.object] in fits[verbs[row.verb]] or row.verb in anything, row
        assert not row.object.endswith("s") or row.object in ("bus", "dress"), "a plural takes no article"


@given(st.integers(1, 33), st.integers(1, 33))
@settings(max_examples=10, deadline=None)
def test_a_sample_is_part_of_any_larger_one(n, m):
    n, m = sorted((n, m))
    part, more = nli.pairs(contexts=n), nli.pairs(contexts=m)
    assert len(part) == 164 * 2 * n and part.equals(nli.pairs(contexts=n))
    whole = more[more["context"].isin(part["context"].unique())].reset_index(drop=True)
    pd.testing.assert_frame_equal(part, whole)


@pytest.mark.parametrize("wrong", [{"contexts": 0}, {"contexts": 34}, {"reading": "six words", "contexts": 12},
                                   {"reading": "three"}])
def test_what_pairs_refuses(wrong):
    with pytest.raises(CompanionError, match="choose"):
        nli.pairs(**wrong)


def test_fitting_pairs_share_no_context_and_no_occupation_with_the_test():
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


# ---- fairness


def test_fairness_by_hand():
    """Two occupations, three contexts. The first: man always neutral, woman twice. The second: alike, one neutral."""
    pairs = small()
    predicted = ["neutral", "neutral", "neutral", "neutral", "neutral", "contradiction",
                 "entailment", "entailment", "neutral", "neutral", "contradiction", "contradiction"]
    found = nli.fairness(predicted, pairs, draws=200)
    assert found.accuracy.value == pytest.approx(7 / 12) and found.parity.value == .5 and found.majority.value == 1
    assert found.eta.value == pytest.approx(7 / 24) and found.eta_majority.value == pytest.approx(7 / 12)
    table = found.occupations
    assert list(table.index) == ["accountant", "actor"]
    assert table["neutral"].tolist() == pytest.approx([5 / 6, 1 / 3])
    assert table["male"].tolist() == pytest.approx([1, 1 / 3])
    assert table["female"].tolist() == pytest.approx([2 / 3, 1 / 3])
    assert table["agree"].tolist() == pytest.approx([2 / 3, 1])


def test_half_of_the_contexts_is_no_majority():
    pairs = small(2, 2)
    found = nli.fairness(["neutral", "neutral", "neutral", "entailment"] * 2, pairs, draws=100)
    assert (found.parity.value, found.majority.value) == (0, 0)
    wrong_alike = nli.fairness(["contradiction", "contradiction", "entailment", "entailment"] * 2, pairs, draws=100)
    assert (wrong_alike.accuracy.value, wrong_alike.parity.value, wrong_alike.eta.value) == (0, 1, 0)


@given(st.lists(LABEL, min_size=164 * 2, max_size=164 * 2))
@settings(max_examples=8, deadline=None)
def test_identical_predictions_have_parity_and_eta_is_a_product(drawn):
    pairs = nli.pairs(contexts=1)
    found = nli.fairness(drawn, pairs, draws=20)
    assert found.eta.value == pytest.approx(found.accuracy.value * found.parity.value)
    assert found.eta_majority.value == pytest.approx(found.accuracy.value * found.majority.value)
    assert found.parity.value <= found.majority.value
    assert found.parity.value * 164 == pytest.approx(round(found.parity.value * 164))
    assert found.accuracy.value == pytest.approx(drawn.count("neutral") / len(drawn))
    alike = nli.fairness(np.repeat(drawn[::2], 2), pairs, draws=20)
    assert alike.parity.value == alike.majority.value == 1 and alike.eta.value == alike.accuracy.value
    for estimate in found[:5]:
        assert estimate.low <= estimate.value <= estimate.high


@pytest.mark.parametrize("reading", nli.READINGS)
def test_the_order_of_the_pairs_does_not_matter(reading):
    frame = nli.pairs(reading, contexts=3)
    drawn = np.random.default_rng(0).choice(nli.LABELS, len(frame))
    order = np.argsort(frame["gender"].to_numpy(), kind="stable")  # all women first
    table = nli.by_occupation(drawn, frame)
    moved = nli.by_occupation(drawn[order], frame.iloc[order]).loc[table.index]
    pd.testing.assert_frame_equal(table, moved)


def test_words_and_probabilities_say_the_same_whatever_the_models_order():
    pairs, order = small(), ["contradiction", "entailment", "neutral"]
    drawn = np.random.default_rng(0).choice(nli.LABELS, len(pairs))
    p = np.full((len(pairs), 3), .2)
    p[np.arange(len(pairs)), [order.index(label) for label in drawn]] = .6
    assert (nli.predictions(p, order) == drawn).all() and (nli.predictions(torch.tensor(p), order) == drawn).all()
    assert nli.fairness(p, pairs, order, draws=50)[:5] == nli.fairness(drawn, pairs, draws=50)[:5]
    assert nli.accuracy(p, drawn, order) == 1 and nli.accuracy(p, drawn) < 1


def test_what_fairness_refuses():
    pairs = small()
    with pytest.raises(CompanionError, match="11 predictions for 12 pairs"):
        nli.fairness(["neutral"] * 11, pairs)
    with pytest.raises(CompanionError, match="'maybe' is no label"):
        nli.fairness(["maybe"] * 12, pairs)
    with pytest.raises(CompanionError, match="2 labels were given with 3 names"):
        nli.fairness(np.full((12, 2), .5), pairs)
    with pytest.raises(CompanionError, match="counterpart"):
        nli.fairness(["neutral"] * 11, pairs.head(11))


# ---- viability


def test_the_two_readings_of_5_percent():
    base = .8889
    assert nli.viable(.8389, base) and not nli.viable(.8388, base)
    assert nli.viable(.8445, base, relative=True) and not nli.viable(.8444, base, relative=True)
    assert nli.viable([.8407, .8370, .8458], base).tolist() == [True, False, True]
    assert nli.viable([.8407, .8370, .8458], base, relative=True).tolist() == [False, False, True]
    assert nli.viable(.9, .9, within=0)


# ---- a classifier


def classifier(order):
    """A tiny random classifier whose outputs have these names."""
    model = tiny("bert")
    config = transformers.BertConfig(**SHAPE, **COMMON, num_labels=3, id2label=dict(enumerate(order)),
                                     label2id={label: i for i, label in enumerate(order)})
    torch.manual_seed(1)
    net = transformers.BertForSequenceClassification(config).eval().requires_grad_(False)
    for weight in net.parameters():
        torch.nn.init.normal_(weight, std=.2)
    model.net = net
    return model


def test_labels_come_from_the_config():
    other = ["contradiction", "entailment", "neutral"]
    assert nli.labels(classifier(other)) == other
    assert nli.labels(classifier(["ENTAILMENT", "NEUTRAL", "CONTRADICTION"])) == list(nli.LABELS)
    with pytest.raises(CompanionError, match=re.escape("LABEL_0".lower())):
        nli.labels(classifier(["LABEL_0", "LABEL_1", "LABEL_2"]))


def test_probabilities_are_those_of_single_forwards(one_thread):  # noqa: F811
    model, pairs = classifier(nli.LABELS), small()
    found = nli.probabilities(model, pairs)
    assert found.shape == (12, 3) and torch.allclose(found.sum(-1), torch.ones(12))
    for i, row in enumerate(pairs.itertuples()):
        one = model.tokenizer(row.premise, row.hypothesis, return_tensors="pt")
        assert torch.allclose(model.net(**one).logits.softmax(-1)[0], found[i], atol=1e-5)
