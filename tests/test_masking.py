"""Which heads a plan masks, and the measurement under each mask against the plain model."""

from collections import Counter

import numpy as np
import pytest
import torch

from lib.bias_a_head import heads, masking
from lib.engine import hooks, models, pppl
from lib.text import data
from tests.tiny import SENTENCES, refusal, save_tiny

SCORES = np.array([[.5, -.1, .3, -.2], [.1, .2, -.3, -.4], [.05, .04, -.05, .4]])  # 7 positive
RESULT = {"scores": SCORES, "folds": np.stack([SCORES, -SCORES, SCORES, -SCORES])}  # the two halves contradict


def test_a_plan_has_table_1s_strategies_with_random_heads_beside_each_size():
    plan = masking.plan(RESULT, draws=4, curve=[2, 5, 50], amplify=[2])
    assert masking.sizes(SCORES) == (3, 7, 4)  # a share of 45 of 144 heads
    assert Counter((s, len(chosen)) for s, _, _, chosen, _ in plan) == {
        ("full", 0): 2, **{("top", k): 2 for k in (3, 4, 5, 7)}, ("bottom", 3): 2, ("amplified", 3): 2,
        **{("random", k): 4 for k in (3, 4, 5, 7)}, ("random amplified", 3): 4}
    drawn = {(len(chosen), draw): chosen for s, draw, _, chosen, _ in plan if s == "random"}
    assert len({tuple(drawn[3, draw]) for draw in range(4)}) == 4
    assert all(drawn[7, draw][:3] == drawn[3, draw] for draw in range(4))  # of one draw they contain each other
    for few in (-np.abs(SCORES), SCORES[:1, :2]):  # no positive head; fewer than three heads
        sizes = {len(chosen) for strategy, *_, chosen, _ in masking.plan(RESULT | {"scores": few}, draws=1)
                 if strategy == "random"}
        assert min(sizes) == min(3, few.size)
    plan = masking.plan(RESULT, draws=1)
    by_half = {half: chosen for s, _, _, chosen, half in plan if s == "top" and len(chosen) == 3}
    assert by_half == {1: heads.top(SCORES, 3), 0: heads.top(-SCORES, 3)}
    sentences = {"nurse": [f"s{i}" for i in range(10)]}
    assert masking.sentences_of(0, sentences, 10, 9)["nurse"] == ["s0", "s2", "s4", "s6", "s8"]
    assert masking.sentences_of(1, sentences, 3, 2)["nurse"] == ["s1", "s4"]  # as three folds deal them out


@pytest.fixture
def encoder(tmp_path, monkeypatch):
    sets = heads.Sets(("nurse", "poetry"), ("doctor", "engineer"), ("she", "woman"), ("he", "man"))
    words = {word: [f"the {word} was late .", f"the {word} was here ."] for word in sets.words}
    monkeypatch.setattr(heads, "sets_and_contexts", lambda *given, **options: (sets, words))
    monkeypatch.setattr(data, "demo", lambda name: [text for text in dict.fromkeys(SENTENCES)])
    save_tiny("bert", tmp_path)
    return str(tmp_path), sets, [{word: [both[half]] for word, both in words.items()} for half in (0, 1)]


PLAN = [("full", 0, 0.0, [], 0), ("full", 0, 0.0, [], 1), ("top", 0, 0.0, [(1, 1)], 0),
        ("top", 0, 0.0, [(1, 1), (2, 2)], 1), ("random", 0, 0.0, [(2, 4)], 0), ("amplified", 0, 2.0, [(3, 2)], 1)]


def test_random_heads_read_a_sample_and_seat_is_of_the_judging_half(encoder):
    name, sets, words = encoder
    found = masking.measure(name, PLAN, "mini", 1, 3, 2, 2, 2, device="cpu")
    assert {name: len(values) for name, values in found.items()} == dict.fromkeys(found, len(PLAN))
    assert list(np.isnan(found["pppl"])) == [False, True, False, False, True, True]
    assert list((found["lengths"] > 0).sum(1)) == [3, 2, 3, 3, 2, 2]
    texts = sorted(data.demo("prose"), key=len)[:3]
    model = models.load(name, device="cpu")
    with hooks.head_mask(model, heads.mask(model, [(1, 1), (2, 2)])):
        sample = pppl.pseudo_perplexity(model, [texts[0], texts[2]]).value
        seat = abs(heads.seat_value(model, sets, words[1]))
    assert found["pppl_sample"][3] == pytest.approx(sample, rel=1e-4)
    assert found["seat"][3] == pytest.approx(seat, abs=1e-5)
    assert found["seat"][0] != pytest.approx(found["seat"][1], abs=1e-5)
    twice = torch.ones(3, 4)
    twice[2, 1] = 2
    with hooks.head_mask(model, twice):
        assert found["seat"][5] == pytest.approx(abs(heads.seat_value(model, sets, words[1])), abs=1e-5)
    full, quick = (masking.measure(encoder[0], PLAN[2:4], "mini", 1, 2, 0, 2, 2, device="cpu", precision=precision)
                   for precision in ("float32", "bfloat16"))
    assert 0 < np.abs(quick["pppl"] / full["pppl"] - 1).max() < .1
    np.testing.assert_allclose(quick["seat"], full["seat"], rtol=1e-4)
    refusal(masking.measure, encoder[0], PLAN[:2], "mini", 1, 2, 0, 2, 2, device="cpu", precision="int8")
