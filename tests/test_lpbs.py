"""LPBS against the plain network, one sentence at a time, and its effect sizes against the standard library."""

import math
from statistics import mean, stdev

import numpy as np
import pytest
import torch

from lib import CompanionError
from lib.bias_a_head import lpbs
from lib.text import data
from tests.tiny import tiny

ENCODERS = ["bert", "roberta", "albert", "distilbert"]
WORDS = ["he", "she", "boys", "men", "girls", "women"]


@pytest.fixture(params=ENCODERS)
def model(request, monkeypatch):
    """A tiny encoder in float64; its vocabulary lacks most of the words, so that other tokens stand for them."""
    model = tiny(request.param, dtype=torch.float64)
    monkeypatch.setattr(type(model), "token_id", lambda self, word, inside=True: 100 + WORDS.index(word.lower()))
    return model


def log_odds(model, ids, place, male, female):
    outputs = model.net(input_ids=torch.tensor([ids]))
    p = (outputs.prediction_logits if model.has_nsp else outputs.logits)[0, place].softmax(-1)
    male, female = (sum(p[100 + WORDS.index(word)].item() for word in words) for words in (male, female))
    return math.log(male) - math.log(female)


def test_it_is_what_the_plain_network_gives_one_sentence_at_a_time(model):
    mask = model.tokenizer.mask_token_id
    found = lpbs.score(model, ["poetry", "mathematics"])
    assert len(found) == 6
    for row in found.itertuples():
        _, male, female = next(t for t in lpbs.TEMPLATES if t[0] == row.template)
        before, after = row.template.format(subject=model.mask_token, target="#").split("#")
        start = model.tokenizer(before.strip()).input_ids[:-1]
        word = model.tokenizer(" " + row.target, add_special_tokens=False).input_ids
        end = model.tokenizer(after).input_ids[1:]
        assert start[1] == mask
        bias = log_odds(model, start + word + end, 1, male, female)
        hidden = start + [mask] * len(word) + end
        assert row.bias == pytest.approx(bias, abs=1e-5)
        assert row.corrected == pytest.approx(bias - log_odds(model, hidden, 1, male, female), abs=1e-5)
        verb = len(start) - 1
        assert row.published == pytest.approx(bias - log_odds(model, hidden, verb, male, female), abs=1e-5)


def test_a_word_in_pieces_has_all_of_them_masked():
    model = tiny("bert")
    for word in ("poetry", "mathematics", "poetrypoetry", "likes"):
        pieces = model.tokenizer(word, add_special_tokens=False).input_ids
        seen, hidden, subject, first = lpbs._masked(model, "{subject} likes {target}.", word)
        assert seen["input_ids"][first:first + len(pieces)] == pieces
        changed = [i for i, (a, b) in enumerate(zip(seen["input_ids"], hidden["input_ids"])) if a != b]
        assert changed == list(range(first, first + len(pieces))) and subject == 1
        assert all(hidden["input_ids"][i] == model.tokenizer.mask_token_id for i in changed)
    assert len(pieces) == 1 and first == 3  # the target "likes", not the verb


def test_effect_sizes_are_those_of_each_test(model):
    lists = data.words("lpbs_lists").groupby("list")["word"].agg(list)
    assert all(len(lists[name]) == 8 for test in lpbs.TESTS.values() for name in test)
    found = lpbs.effect_sizes(model, draws=50).set_index("test")
    assert (found["low"] < found["corrected"]).all() and (found["corrected"] < found["high"]).all()
    for prior in lpbs.PRIORS:
        first, second = (lpbs.score(model, lists[name])[prior] for name in ("math", "arts"))
        size = (mean(first) - mean(second)) / stdev([*first, *second])
        assert found.loc["math / arts", prior] == pytest.approx(size, abs=1e-6)


def test_the_best_k_is_judged_on_words_that_did_not_choose_it():
    """All words lose their bias at K = 5, and random heads change nothing."""
    lists, noise = lpbs.words_of(), np.random.default_rng(0).normal(scale=.1, size=(40, 3))
    male = np.isin(np.arange(40), np.concatenate([lists[name] for name in ("career", "math", "science")]))[:, None]
    values = {0: noise + male, 5: noise + .2 * male, 9: noise + .6 * male}
    found = lpbs.held_out(values, [5, 5], {5: np.stack([values[0]] * 3)}, draws=100)
    assert found["change"].high < 0 and found["difference"].high < 0 and found["all"].low > 0
    assert list(found["random"]) == pytest.approx([0, 0, 0], abs=1e-12)
    assert set(lpbs.words_of(0)["math"]) | set(lpbs.words_of(1)["math"]) == set(lists["math"])


@pytest.mark.parametrize("family, targets", [("bert", []), ("gpt2", "poetry"),    # a model without a mask token
                                             ("bert", "poetry")])                 # a vocabulary without "boys"
def test_what_cannot_be_asked_is_refused(family, targets):
    with pytest.raises(CompanionError):
        lpbs.score(tiny(family), targets)
