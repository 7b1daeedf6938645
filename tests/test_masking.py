"""Which heads a plan masks, and the measurement under each mask against the plain model."""

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from lib import CompanionError
from lib.bias_a_head import heads, masking
from lib.engine import hooks, models, pppl
from lib.text import data

SCORES = torch.tensor([[.5, -.1, .3, -.2], [.1, .2, -.3, -.4], [.05, .04, -.05, .4]])  # 7 positive


def test_a_plan_has_table_1s_strategies_and_the_curve_between():
    plan = masking.plan(SCORES, draws=4, curve=[2, 5, 50], curve_draws=2, amplify=[2])
    assert Counter((s, len(chosen)) for s, _, _, chosen in plan) == {
        ("full", 0): 1, ("top", 3): 1, ("top", 5): 1, ("top", 7): 1, ("bottom", 3): 1, ("bottom", 5): 1,
        ("bottom", 7): 1, ("random", 3): 4, ("random", 5): 2, ("random", 7): 4, ("amplified", 3): 1}
    assert next(chosen for s, _, _, chosen in plan if (s, len(chosen)) == ("top", 7)) == heads.positive(SCORES)
    drawn = [tuple(chosen) for s, _, _, chosen in plan if s == "random" and len(chosen) == 3]
    assert len(set(drawn)) == 4
    assert plan[-1] == ("amplified", 0, 2.0, heads.bottom(SCORES, 3))
    with pytest.raises(CompanionError):
        masking.plan(-SCORES.abs(), draws=4)


def test_a_runs_sizes_are_those_of_its_data():
    sizes = {f"masking_{name}": {"mini": value} for name, value in dict(
        draws=4, curve=[5], curve_draws=2, contexts=1, lines=40, sample=9).items()}
    run = SimpleNamespace(encoder="b", data="mini", seed=1, sizes=SimpleNamespace(
        **sizes, masking_amplify=[2.0], items=0))
    plan = masking.plan(SCORES, 4, seed=1, curve=[5], curve_draws=2, amplify=[2.0])
    assert masking.asked(run, SCORES) == ("b", plan, "mini", 1, 40, 9)
    run.sizes.items = 8
    assert masking.asked(run, SCORES) == ("b", plan, "mini", 1, 40, 9, 8)


# The measurement itself, on the shipped encoder and few words

@pytest.fixture
def few_words(monkeypatch):
    sets = heads.Sets(("nurse", "cashier"), ("soldier", "captain"), ("she", "mother"), ("he", "father"))
    words = {word: [f"Everyone saw the {word} there."] for word in sets.words}
    monkeypatch.setattr(heads, "sets_and_contexts", lambda bias, data, contexts, items: (sets, words))
    return sets, words


PLAN = [("full", 0, 0.0, []), ("top", 0, 0.0, [(1, 1)]), ("top", 0, 0.0, [(1, 1), (2, 2)]),
        ("top", 0, 0.0, [(1, 1), (2, 2), (3, 3)]), ("random", 0, 0.0, [(4, 4)]), ("amplified", 0, 2.0, [(5, 5)])]


def test_masks_outside_table_1_read_a_sample(few_words):
    found = masking.measure("mini-bert", PLAN, "mini", 1, 3, 2, device="cpu")
    assert {name: len(values) for name, values in found.items()} == dict.fromkeys(found, len(PLAN))
    assert list(np.isnan(found["pppl"])) == [False, False, True, False, False, True]  # 2 of 1 to 3 heads; amplified
    assert list((found["lengths"] > 0).sum(1)) == [3, 3, 2, 3, 0, 2]  # of a random draw the numbers alone are kept
    texts = sorted(data.demo("prose"), key=len)[:3]
    model = models.load("mini-bert", device="cpu")
    with hooks.head_mask(model, heads.mask(model, [(1, 1), (2, 2)])):
        sample = pppl.pseudo_perplexity(model, [texts[0], texts[2]]).value
        seat = abs(heads.seat_value(model, *few_words))
    assert found["pppl_sample"][2] == pytest.approx(sample, rel=1e-5)
    assert found["seat"][2] == pytest.approx(seat, abs=1e-6)
    assert found["pppl_sample"][0] != pytest.approx(found["pppl"][0])
    twice = torch.ones(12, 12)
    twice[4, 4] = 2
    with hooks.head_mask(model, twice):
        assert found["seat"][5] == pytest.approx(abs(heads.seat_value(model, *few_words)), abs=1e-6)


def test_bfloat16_changes_pppl_by_less_than_a_percent_and_seat_not_at_all(few_words):
    full, quick = (masking.measure("mini-bert", PLAN[:2], "mini", 1, 2, 0, device="cpu", precision=precision)
                   for precision in ("float32", "bfloat16"))
    assert 0 < np.abs(quick["pppl"] / full["pppl"] - 1).max() < .01
    np.testing.assert_array_equal(quick["seat"], full["seat"])
    with pytest.raises(CompanionError):
        masking.measure("mini-bert", PLAN[:2], "mini", 1, 2, 0, device="cpu", precision="int8")
