"""Exact patching: zero is the mask, a head's own output changes nothing, the slow way agrees."""

from itertools import product

import numpy as np
import pytest
import torch
from scipy import stats as scipy_stats

from companion.bias_a_head import estimators
from lib.bias_a_head import heads, patching, seat
from lib.engine import embed, hooks
from tests.tiny import COMMON, FAMILIES, batch, refuses, save_tiny, tiny

SETS = heads.Sets(
    X=("nurse", "poetry"), Y=("doctor", "engineer"), A=("woman", "she"), B=("man", "he")
)
CONTEXTS = {
    word: [f"the doctor said that a {word} was late .", f"the {word} was here ."]
    for word in SETS.words
} | {"doctor": ["the doctor was here .", "he likes the doctor ."]}


@pytest.mark.parametrize("family", FAMILIES)
def test_zero_is_the_mask_and_a_heads_own_output_changes_nothing(family):
    model = tiny(family)
    given = batch(model)
    with torch.no_grad():
        outputs = patching.outputs(model, given)
        plain = model.net.base_model(**given).last_hidden_state
        for layer, head in ((0, 1), (2, 3)):
            with hooks.patch(model, layer, head, 0.0):
                patched = model.net.base_model(**given).last_hidden_state
            with hooks.head_mask(model, heads.mask(model, [(layer + 1, head + 1)])):
                masked = model.net.base_model(**given).last_hidden_state
            torch.testing.assert_close(patched, masked)
            with hooks.patch(model, layer, head, outputs[layer][:, :, head]):
                torch.testing.assert_close(model.net.base_model(**given).last_hidden_state, plain)


def patched_slowly(model, kind, layer, head):
    """The associations under one patch: each sentence by itself, a whole forward each."""
    pairs = [(word, sentence) for word, own in CONTEXTS.items() for sentence in own]
    encoded, places = embed.prepare(model, pairs)
    mean = patching.mean_outputs(model, encoded)[layer, head]
    others = patching.counterparts(SETS)
    vectors = {word: [] for word in CONTEXTS}
    for (word, sentence), place in zip(pairs, places, strict=True):
        given = model.tokenizer(sentence, return_tensors="pt")
        _, swapped = patching.swap(word, sentence, others)
        other = patching.outputs(model, model.tokenizer(swapped, return_tensors="pt"))
        value = {"zero": 0.0, "mean": mean, "swapped": other[layer][:, :, head]}[kind]
        with hooks.patch(model, layer, head, value):
            states = model.net.base_model(**given).last_hidden_state
        vectors[word].append(states[0, place.start : place.stop].mean(0))
    rows = torch.stack([torch.stack(own).mean(0) for own in vectors.values()]).double()
    x, y, a, b = SETS.of(rows, CONTEXTS)
    return seat.associations(torch.cat([x, y]), a, b)


def test_every_patch_of_a_half_is_what_one_forward_a_sentence_gives():
    model = tiny("bert")
    patches = list(product(patching.KINDS, range(3), range(4)))
    found, n_swapped = patching.of_half(model, SETS, CONTEXTS, patches)
    assert n_swapped == 8  # two of each attribute word: all have a counterpart as long
    for kind in patching.KINDS:
        with torch.no_grad():
            slow = patched_slowly(model, kind, 1, 2)
        np.testing.assert_allclose(found[1 + patches.index((kind, 1, 2))], slow, atol=1e-5)


def test_a_swap_keeps_the_capital_and_leaves_other_words_alone():
    others = {"queen": "king", "king": "queen"}
    assert patching.swap("queen", "The queen left.", others) == ("king", "The king left.")
    assert patching.swap("queen", "Queen Anne left.", others) == ("king", "King Anne left.")
    assert patching.swap("nurse", "A nurse left.", others) == ("nurse", "A nurse left.")
    assert set(patching.counterparts(SETS)) == {"woman", "she", "man", "he"}


def test_a_measurement_has_both_halves_and_a_sample_of_it_is_the_same(tmp_path, monkeypatch):
    monkeypatch.setitem(COMMON, "max_position_embeddings", 160)
    save_tiny("bert", tmp_path)
    given = str(tmp_path), heads.Sample("mini", 2, 2, items=8), "cpu"
    found = patching.measure(*given)
    assert patching.measure.items(found) == 2 * 3 * 12
    for kind in patching.KINDS:
        np.testing.assert_allclose(found[kind][:, 0], found["zero"][:, 0])
        is_changed = (np.abs(found[kind][:, 1:] - found[kind][:, :1]) > 1e-6).any()
        assert is_changed == (kind != "swapped" or found["swapped_sentences"].any())
    assert (found["swapped_sentences"] <= found["sentences"]).all()
    sample = patching.measure(*given, only=[36 + 12 + 5])  # the second half, mean, head 2-2
    row = sample["mean"][1, 6]
    np.testing.assert_allclose(row, found["mean"][1, 6], atol=1e-5)
    assert not np.isnan(row).any() and np.isnan(sample["mean"][1, 7]).all()
    assert np.isnan(sample["zero"][0]).all()


def no_such_head():
    with hooks.patch(tiny("bert"), 0, 4, 0.0):
        pass


test_refusals_name_the_fix = refuses(
    (no_such_head, "has no head 4 of layer 0"),
    (lambda: patching.measure("mini-bert", heads.Sample("nowhere", 1)), "take gender or race"),
)


def test_the_fall_of_a_head_is_that_of_the_effect_size_of_its_half():
    rng = np.random.default_rng(0)
    zero = rng.normal(size=(2, 1 + 6, 10))
    result = {"in_x": np.arange(10) < 5, "zero": zero, "gradient": np.zeros((2, 3, 2))}
    sizes = seat.size_of(torch.from_numpy(zero[1]), 5).abs()
    assert patching.falls(result)[1, 2, 0] == pytest.approx((sizes[0] - sizes[1 + 4]).item())


def test_rank_correlations_are_means_over_halves_and_of_the_right_pairs():
    """Four heads, of which the second alone lowers SEAT when patched; the gradient ranks the heads
    the other way round in the first half alone.
    """
    side = np.where(np.arange(40) < 20, 1.0, -1.0)
    full = side + np.random.default_rng(0).normal(size=40)
    s = np.stack([full, full, full - 0.5 * side, full, full])
    gradient = np.array([[[0.3, 0.0, 0.2, 0.1]], [[0.0, 0.3, 0.1, 0.2]]])
    made = {"in_x": side > 0, "zero": np.stack([s, s]), "gradient": gradient}
    fall = patching.falls(made)[0, 0]
    first, second = (scipy_stats.spearmanr(of_half[0], fall)[0] for of_half in gradient)
    found = estimators.agreement(made, "zero")
    assert found[estimators.SAME].value == pytest.approx((first + second) / 2)
    assert found[estimators.ITSELF].value == pytest.approx(1)
    made["zero"][1] = made["zero"][1][[0, 1, 1, 2, 1]]  # there it is the third head
    made["gradient"] = patching.falls(made)
    found = estimators.agreement(made, "zero")
    assert found[estimators.SAME].value == pytest.approx(1)
    assert found[estimators.ITSELF].value == pytest.approx(-1 / 3)
    assert found[estimators.OTHER].value == pytest.approx(-1 / 3)
