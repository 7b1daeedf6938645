"""Exact patching: zero is the mask, a head's own output changes nothing, the slow way agrees."""

import numpy as np
import pytest
import torch
from scipy import stats as scipy_stats

from companion.bias_a_head import patched
from lib.bias_a_head import heads, patching, seat
from lib.engine import embed, hooks
from tests.tiny import COMMON, FAMILIES, batch, refusal, save_tiny, tiny

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
        outputs, _, states = patching.everything(model, given)
        for layer, head in ((0, 1), (2, 3)):
            with hooks.patch(model, layer, head, 0.0):
                patched = model.net.base_model(**given).last_hidden_state
            with hooks.head_mask(model, heads.mask(model, [(layer + 1, head + 1)])):
                masked = model.net.base_model(**given).last_hidden_state
            torch.testing.assert_close(patched, masked)
            with hooks.patch(model, layer, head, outputs[layer][:, :, head]):
                torch.testing.assert_close(model.net.base_model(**given).last_hidden_state, states)


def test_a_head_that_is_not_there_is_refused():
    with (
        pytest.raises(Exception, match="has no head 4 of layer 0"),
        hooks.patch(tiny("bert"), 0, 4, 0.0),
    ):
        pass


def test_every_patch_of_a_half_is_what_one_forward_a_sentence_gives():
    """One head, each sentence by itself, against the batched sweep from the head's layer on."""
    model = tiny("bert")
    found = patching.of_half(model, SETS, CONTEXTS)
    layer, head = 1, 2
    pairs = [(word, sentence) for word, own in CONTEXTS.items() for sentence in own]
    encoded, places = embed.prepare(model, pairs)
    mean = patching.mean_outputs(model, encoded)[layer, head]
    others = patching.counterparts(SETS)
    vectors = {kind: {word: [] for word in CONTEXTS} for kind in patching.KINDS}
    for (word, sentence), place in zip(pairs, places, strict=True):
        given = model.tokenizer(sentence, return_tensors="pt")
        swapped = model.tokenizer(patching.swap(word, sentence, others)[1], return_tensors="pt")
        with torch.no_grad():
            value = {
                "zero": 0.0,
                "mean": mean,
                "swapped": patching.everything(model, swapped)[0][layer][:, :, head],
            }
            for kind in patching.KINDS:
                with hooks.patch(model, layer, head, value[kind]):
                    states = model.net.base_model(**given).last_hidden_state
                vectors[kind][word].append(states[0, place.start : place.stop].mean(0))
    for kind in patching.KINDS:
        rows = torch.stack([torch.stack(own).mean(0) for own in vectors[kind].values()])
        slow = patching.associations(SETS, rows[None].double(), list(CONTEXTS))[0]
        np.testing.assert_allclose(found[kind][1 + layer * model.n_heads + head], slow, atol=1e-5)
    assert (
        found["swapped_sentences"] == 8
    )  # two of each attribute word: all have a counterpart as long


def test_a_swap_keeps_the_capital_and_leaves_other_words_alone():
    others = {"queen": "king", "king": "queen"}
    assert patching.swap("queen", "The queen left.", others) == ("king", "The king left.")
    assert patching.swap("queen", "Queen Anne left.", others) == ("king", "King Anne left.")
    assert patching.swap("nurse", "A nurse left.", others) == ("nurse", "A nurse left.")
    assert set(patching.counterparts(SETS)) == {"woman", "she", "man", "he"}


def test_a_measurement_has_both_halves_and_the_full_model_first(tmp_path, monkeypatch):
    monkeypatch.setitem(COMMON, "max_position_embeddings", 160)
    save_tiny("bert", tmp_path)
    found = patching.measure(str(tmp_path), heads.Sample("mini", 2, 2, items=8), device="cpu")
    assert found["zero"].shape == (2, 13, len(found["in_x"])) and found["gradient"].shape == (
        2,
        3,
        4,
    )
    for kind in patching.KINDS:
        np.testing.assert_allclose(found[kind][:, 0], found["zero"][:, 0])
        is_changed = (np.abs(found[kind][:, 1:] - found[kind][:, :1]) > 1e-6).any()
        assert is_changed == (kind != "swapped" or found["swapped_sentences"].any())
    assert (found["swapped_sentences"] <= found["sentences"]).all()


def test_refusals_name_the_fix():
    sample = heads.Sample("nowhere", 1)
    assert "take gender or race" in refusal(patching.measure, "mini-bert", sample)


def test_the_fall_of_a_head_is_that_of_the_effect_size_of_its_half():
    rng = np.random.default_rng(0)
    in_x = np.arange(10) < 5
    zero = rng.normal(size=(2, 1 + 6, 10))
    falls = patching.falls({"in_x": in_x, "zero": zero, "gradient": np.zeros((2, 3, 2))})
    sizes = seat.size_of(torch.from_numpy(zero[1]), 5).abs()
    assert falls.shape == (2, 3, 2)
    assert falls[1, 2, 0] == pytest.approx((sizes[0] - sizes[1 + 4]).item())


def made_up(size: int = 40) -> dict:
    """A measurement of one layer of four heads, of which the second alone lowers SEAT when patched;
    its gradient ranks the heads the other way round in the first half alone.
    """
    rng = np.random.default_rng(0)
    in_x = np.arange(size) < size // 2
    full = np.where(in_x, 1.0, -1.0) + rng.normal(size=size)
    s = np.stack([full, full, full - 0.5 * np.where(in_x, 1.0, -1.0), full, full])
    gradient = np.array([[[0.3, 0.0, 0.2, 0.1]], [[0.0, 0.3, 0.1, 0.2]]])
    return {"in_x": in_x, "zero": np.stack([s, s]), "gradient": gradient}


def test_rank_correlations_are_means_over_halves_and_of_the_right_pairs():
    made = made_up()
    ranks = scipy_stats.spearmanr
    fall = patching.falls(made, "zero")[0, 0]
    first, second = (ranks(gradient[0], fall)[0] for gradient in made["gradient"])
    found = patched.agreement(made, "zero")
    assert found[patched.SAME].value == pytest.approx((first + second) / 2)
    assert found[patched.ITSELF].value == pytest.approx(1)
    made["zero"][1] = made["zero"][1][[0, 1, 1, 2, 1]]  # there it is the third head
    made["gradient"] = patching.falls(made, "zero")
    found = patched.agreement(made, "zero")
    assert found[patched.SAME].value == pytest.approx(1)
    assert found[patched.ITSELF].value == pytest.approx(-1 / 3)
    assert found[patched.OTHER].value == pytest.approx(-1 / 3)
