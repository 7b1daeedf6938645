"""Factual gender: sentences that leave no choice of pronoun, and what a model makes of them."""

import re
import tomllib

import numpy as np
import pytest
import torch

from lib import paths
from lib.engine import fill, hooks, models
from lib.text import data, factual
from lib.training import corpus
from tests.tiny import tiny

SENTENCES = data.demo("factual_gender")
FILLERS = {("she", "he"), ("her", "his"), ("her", "him"), ("herself", "himself")}


def test_sentences_are_pairs_that_differ_in_one_word_which_stands_before_the_blank():
    listed = {word.lower() for word in data.words("gender_pairs").to_numpy().ravel()}
    assert len(SENTENCES) >= 64 and SENTENCES["sentence"].is_unique
    assert list(SENTENCES["gender"]) == ["female", "male"] * (len(SENTENCES) // 2)
    for _, pair in SENTENCES.groupby("pair"):
        female, male = (sentence.split() for sentence in pair["sentence"])
        differ = [i for i, (a, b) in enumerate(zip(female, male, strict=True)) if a != b]
        assert len(differ) == 1 and differ[0] < female.index("{}") and female.count("{}") == 1
        others = re.findall(r"[a-z]+", " ".join(female[:differ[0]] + female[differ[0] + 1:]).lower())
        assert not listed & set(others), others
        assert tuple(pair["right"]) == tuple(pair["wrong"])[::-1] and tuple(pair["right"]) in FILLERS
    openers = tomllib.loads((paths.ROOT / "data" / "openers.toml").read_text(encoding="utf-8"))
    for opener in (opener for entry in openers.values() if "openers" in entry for opener in entry["openers"]):
        begins = re.compile(re.escape(opener).replace(r"\{word\}", r"[\w-]+").replace(r"\{a\}", "an?"), re.IGNORECASE)
        assert not any(map(begins.match, SENTENCES["sentence"])), opener
    filled = {sentence.format(right) for sentence, right in zip(SENTENCES["sentence"], SENTENCES["right"])}
    assert not filled & set(corpus.papers_prompts())


def test_shares_odds_and_changes_by_hand():
    """Two pairs; right in 3 of 4, then in 2 of 4: pairs have 1 and .5, then .5 and .5; a mean change of -.25."""
    before, after = np.array([1., 3., -2., 2.]), np.array([1., -1., -2., 4.])
    known, change = factual.knowledge(before), factual.knowledge(after, before)
    assert (known.right.value, known.odds.value, known.right.n) == (.75, 1., 2)
    assert (known.right.low, known.right.high) == (.5, 1.) and (known.odds.low, known.odds.high) == (0., 2.)
    assert (change.right.value, change.right.low, change.right.high) == (-.25, -.5, 0.)
    assert (change.odds.value, change.odds.low, change.odds.high) == (-.5, -2., 1.)


@pytest.mark.parametrize("name", ["mini-bert", "mini-gpt2"])
def test_the_fast_way_is_word_for_word(name):
    model, prompt = models.load(name, device="cpu"), f"The dog slept. The queen took off {fill.BLANK} crown."
    p = fill.word_probabilities(model, [prompt], ["her", "his"]).iloc[0]
    odds = factual.log_odds(model, "The dog slept.", items=2)
    assert len(odds) == 4 and odds[0] == pytest.approx(np.log2(p["her"] / p["his"]), abs=1e-4)
    for word in {*SENTENCES["right"]}:
        assert isinstance(model.token_id(word), int)


def test_a_trained_model_knows_and_one_without_attention_does_not():
    model = models.load("mini-bert", device="cpu")
    before = factual.log_odds(model)
    assert factual.knowledge(before).right.low > .6 and factual.knowledge(before).odds.low > 1
    with hooks.head_mask(model, torch.zeros(model.n_layers, model.n_heads)):
        after = factual.log_odds(model)
    assert abs(factual.knowledge(after).right.value - .5) < .1
    assert factual.knowledge(after, before).odds.high < 0
    untrained = factual.knowledge(factual.log_odds(models.load("null", device="cpu")))
    assert untrained.right.value < .6 and abs(untrained.odds.value) < .2


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_a_vocabulary_that_holds_few_pronouns_is_asked_for_these(family):
    """Tiny models know she and he, not her, his, herself."""
    asked = SENTENCES[SENTENCES["right"].isin(["she", "he"])]
    model = tiny(family)
    assert len(factual.log_odds(model, items=6)) == 2 * sum(asked["pair"].unique() <= 6) > 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(factual, "_is_whole", lambda model, word: False)
        none = factual.log_odds(model)
    assert len(none) == 0 and np.isnan(factual.knowledge(none, none).right.value)
