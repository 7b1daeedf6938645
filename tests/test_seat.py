"""SEAT and LPBS against hand, brute force and the plain network."""

import math
from itertools import permutations
from statistics import mean, stdev

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from lib.bias_a_head import lpbs, seat
from lib.text import data
from tests.tiny import ENCODERS, refuses, tiny

EAST, NORTH = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])


def sets(seed, *sizes, width=5):
    random = torch.Generator().manual_seed(seed)
    return [torch.randn(size, width, generator=random, dtype=torch.float64) for size in sizes]


def test_effect_size_by_hand_and_it_is_differentiable():
    # s of a unit vector at angle t is cos t - sin t: here 1, 0 | 0, -1. The means are 1/2 and -1/2,
    # the deviation is sqrt(2/3)
    diagonal = (EAST + NORTH) * 7  # its length must not matter
    size = seat.effect_size(torch.cat([EAST, diagonal]), torch.cat([diagonal, NORTH]), EAST, NORTH)
    assert size.item() == pytest.approx(1 / math.sqrt(2 / 3))
    A = torch.cat([EAST * 2, EAST * 5, EAST, NORTH * 100])  # its mean cosine with east is 3/4
    assert seat.associations(EAST, A, NORTH).item() == pytest.approx(3 / 4)
    parts = [part.requires_grad_() for part in sets(0, 3, 3, 2, 2)]
    assert torch.autograd.gradcheck(seat.effect_size, parts)


@settings(max_examples=20)
@given(st.integers(0, 10_000), st.floats(0.01, 100), st.integers(2, 6))
def test_lengths_do_not_matter_a_swap_turns_the_sign_and_equal_sets_bound_it_by_two(
    seed, factor, n
):
    X, Y, A, B = sets(seed, n, n, 3, 2)
    size = seat.effect_size(X, Y, A, B)
    torch.testing.assert_close(seat.effect_size(X * factor, Y, A, B * factor), size)
    torch.testing.assert_close(seat.effect_size(Y, X, A, B), -size)
    torch.testing.assert_close(seat.effect_size(X, Y, B, A), -size)
    assert abs(size.item()) <= 2 + 1e-9


@pytest.mark.parametrize("seed", range(3))
def test_exact_p_value_is_brute_force(seed):
    """By walking through all orders of the targets: each division comes equally often."""
    X, Y, A, B = sets(seed, 3, 4, 2, 2)
    s = seat.associations(torch.cat([X, Y]), A, B).tolist()

    def difference(order):
        return sum(order[:3]) / 3 - sum(order[3:]) / 4

    as_large = [difference(order) >= difference(s) - 1e-12 for order in permutations(s)]
    assert seat.p_value(X, Y, A, B) == pytest.approx(sum(as_large) / len(as_large))


def test_sampled_p_values_agree_with_exact_ones_are_never_zero_and_ties_count_whole():
    parts = sets(3, 6, 6, 2, 2)  # 924 divisions
    assert seat.p_value(*parts, n=900) == pytest.approx(seat.p_value(*parts), abs=0.06)
    assert seat.p_value(*parts, n=900, seed=1) == seat.p_value(*parts, n=900, seed=1)
    near, far = EAST + 0.01 * sets(0, 30, width=2)[0], NORTH + 0.01 * sets(1, 30, width=2)[0]
    assert seat.p_value(near, far, EAST.double(), NORTH.double(), n=999) == 1 / 1000
    assert seat.p_value(far, near, EAST.double(), NORTH.double(), n=999) == 1
    same = EAST.repeat(4, 1)
    assert seat.p_value(same[:2], same[2:], EAST, NORTH) == 1


BROKEN = EAST * math.nan, EAST * -math.inf
test_no_statistic_is_made_of_what_is_no_number_or_nothing = refuses(
    *((lambda set=set: seat.associations(set, EAST, NORTH), "nan or infinity") for set in BROKEN),
    *((lambda set=set: seat.associations(EAST, set, NORTH), "nan or infinity") for set in BROKEN),
    (lambda: seat.effect_size(EAST, NORTH, BROKEN[0], NORTH), "nan or infinity"),
    (lambda: seat.p_value(EAST, BROKEN[0], EAST, NORTH), "nan or infinity"),
    (lambda: seat.effect_size(EAST, NORTH, EAST[:0], NORTH), "at least one"),
    (lambda: seat.effect_size(EAST, NORTH[0], EAST, NORTH), "one row per word"),
    # nothing, no mask token, no "boys"
    (lambda: lpbs.score(tiny("bert"), []), ""),
    (lambda: lpbs.score(tiny("gpt2"), ["poetry"]), ""),
    (lambda: lpbs.score(tiny("bert"), ["poetry"]), ""),
)


# ---- LPBS
WORDS = ["he", "she", "boys", "men", "girls", "women"]


def knowing(family, monkeypatch):
    """A tiny encoder in float64; unknown tokens stand for most words, which it does not have."""
    model = tiny(family, dtype=torch.float64)

    def token_id(self, word, inside=True):
        return 100 + WORDS.index(word.lower())

    monkeypatch.setattr(type(model), "token_id", token_id)
    return model


def log_odds(model, ids, place, male, female):
    outputs = model.net(input_ids=torch.tensor([ids]))
    p = (outputs.prediction_logits if model.has_nsp else outputs.logits)[0, place].softmax(-1)
    male, female = (
        sum(p[100 + WORDS.index(word)].item() for word in words) for words in (male, female)
    )
    return math.log(male) - math.log(female)


@pytest.mark.parametrize("family", ENCODERS)
def test_it_is_what_the_plain_network_gives_one_sentence_at_a_time(family, monkeypatch):
    model = knowing(family, monkeypatch)
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
        hidden = start + [mask] * len(word) + end
        bias = log_odds(model, start + word + end, 1, male, female)
        corrected = bias - log_odds(model, hidden, 1, male, female)
        published = bias - log_odds(model, hidden, len(start) - 1, male, female)  # at the verb
        expected = pytest.approx((bias, corrected, published), abs=1e-5)
        assert (row.bias, row.corrected, row.published) == expected


def test_a_word_in_pieces_has_all_of_them_masked():
    model = tiny("bert")
    for word in ("poetry", "mathematics", "poetrypoetry", "likes"):
        pieces = model.tokenizer(word, add_special_tokens=False).input_ids
        seen, hidden, subject, first = lpbs._masked(model, "{subject} likes {target}.", word)
        place = slice(first, first + len(pieces))
        assert seen["input_ids"][place] == pieces and subject == 1
        masked = list(seen["input_ids"])
        masked[place] = [model.tokenizer.mask_token_id] * len(pieces)
        assert hidden["input_ids"] == masked
    assert len(pieces) == 1 and first == 3  # the target "likes", not the verb


def test_held_out_words_lose_their_bias_and_random_heads_change_nothing():
    lists, noise = lpbs.words_of(), np.random.default_rng(0).normal(scale=0.1, size=(40, 3))
    of_men = np.concatenate([lists[name] for name in ("career", "math", "science")])
    male = np.isin(np.arange(40), of_men)[:, None]
    values = {0: noise + male, 5: noise + 0.2 * male, 9: noise + 0.6 * male}
    found = lpbs.held_out(values, [5, 5], {5: np.stack([values[0]] * 3)}, draws=100)
    assert found["change"].high < 0 and found["difference"].high < 0 and found["all"].low > 0
    assert list(found["random"]) == pytest.approx([0, 0, 0], abs=1e-12)
    assert set(lpbs.words_of(0)["math"]) | set(lpbs.words_of(1)["math"]) == set(lists["math"])


def test_effect_sizes_are_those_of_each_test(monkeypatch):
    model = knowing("bert", monkeypatch)
    lists = data.words("lpbs_lists").groupby("list")["word"].agg(list)
    assert all(len(lists[name]) == 8 for test in lpbs.TESTS.values() for name in test)
    found = lpbs.sizes(lpbs.score(model, data.words("lpbs_lists")["word"]), 50).set_index("test")
    low, value, high = (found[name] for name in ("low", "corrected", "high"))
    assert (low < high).all() and value.between(low - 0.5, high + 0.5).all()  # of few draws
    for prior in lpbs.PRIORS:
        first, second = (lpbs.score(model, lists[name])[prior] for name in ("math", "arts"))
        size = (mean(first) - mean(second)) / stdev([*first, *second])
        assert found.loc["math / arts", prior] == pytest.approx(size, abs=1e-6)
