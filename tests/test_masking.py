"""Which heads a plan masks, and the measurement under each mask against the plain model."""

from collections import Counter

import numpy as np
import pytest
import torch

from lib import CompanionError
from lib.bias_a_head import heads, masking
from lib.engine import hooks, models, pppl
from lib.text import data
from tests.tiny import SENTENCES, one_thread, save_tiny  # noqa: F401

pytestmark = pytest.mark.usefixtures("one_thread")
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
    for few in (-SCORES.abs(), SCORES[:1, :2]):  # no positive head; fewer than three heads
        sizes = {len(chosen) for strategy, _, _, chosen in masking.plan(few, draws=1) if strategy != "full"}
        assert sizes == {min(3, few.numel())}


# The measurement itself, on a tiny encoder and few words

@pytest.fixture
def encoder(tmp_path, monkeypatch):
    sets = heads.Sets(("nurse", "poetry"), ("doctor", "engineer"), ("she", "woman"), ("he", "man"))
    words = {word: [f"the {word} was late ."] for word in sets.words}
    monkeypatch.setattr(heads, "sets_and_contexts", lambda bias, data, contexts, items: (sets, words))
    monkeypatch.setattr(data, "demo", lambda name: [text for text in dict.fromkeys(SENTENCES)])
    save_tiny("bert", tmp_path)
    return str(tmp_path), sets, words


PLAN = [("full", 0, 0.0, []), ("top", 0, 0.0, [(1, 1)]), ("top", 0, 0.0, [(1, 1), (2, 2)]),
        ("top", 0, 0.0, [(1, 1), (2, 2), (3, 3)]), ("random", 0, 0.0, [(2, 4)]), ("amplified", 0, 2.0, [(3, 2)])]


def test_masks_outside_table_1_read_a_sample(encoder):
    name, *words = encoder
    found = masking.measure(name, PLAN, "mini", 1, 3, 2, device="cpu")
    assert {name: len(values) for name, values in found.items()} == dict.fromkeys(found, len(PLAN))
    assert list(np.isnan(found["pppl"])) == [False, False, True, False, False, True]  # 2 of 1 to 3 heads; amplified
    assert list((found["lengths"] > 0).sum(1)) == [3, 3, 2, 3, 0, 2]  # of a random draw the numbers alone are kept
    texts = sorted(data.demo("prose"), key=len)[:3]
    model = models.load(name, device="cpu")
    with hooks.head_mask(model, heads.mask(model, [(1, 1), (2, 2)])):
        sample = pppl.pseudo_perplexity(model, [texts[0], texts[2]]).value
        seat = abs(heads.seat_value(model, *words))
    assert found["pppl_sample"][2] == pytest.approx(sample, rel=1e-4)
    assert found["seat"][2] == pytest.approx(seat, abs=1e-5)
    assert found["pppl_sample"][0] != pytest.approx(found["pppl"][0])
    twice = torch.ones(3, 4)
    twice[2, 1] = 2
    with hooks.head_mask(model, twice):
        assert found["seat"][5] == pytest.approx(abs(heads.seat_value(model, *words)), abs=1e-5)


def test_bfloat16_changes_pppl_a_little_and_seat_not_at_all(encoder):
    full, quick = (masking.measure(encoder[0], PLAN[:2], "mini", 1, 2, 0, device="cpu", precision=precision)
                   for precision in ("float32", "bfloat16"))
    assert 0 < np.abs(quick["pppl"] / full["pppl"] - 1).max() < .1
    np.testing.assert_allclose(quick["seat"], full["seat"], rtol=1e-4)
    with pytest.raises(CompanionError):
        masking.measure(encoder[0], PLAN[:2], "mini", 1, 2, 0, device="cpu", precision="int8")
