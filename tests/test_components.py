"""Patches of whole parts: a gender that was planted in one part is found there and nowhere else."""

import numpy as np
import pytest
import torch

from lib.bias_a_head import components, heads
from lib.engine import hooks, models
from lib.text import contexts
from tests.tiny import FAMILIES, batch, save_tiny, tiny

SETS = heads.Sets(
    X=("nurse", "poetry"), Y=("doctor", "engineer"), A=("woman", "she"), B=("man", "he")
)
SENTENCES = {word: [f"the {word} was here ."] for word in SETS.words}


@pytest.mark.parametrize("family", FAMILIES)
def test_what_a_part_gives_changes_nothing_and_without_it_the_states_are_others(family):
    model = tiny(family)
    given = batch(model)
    with torch.no_grad(), hooks.record(model, components.parts(model)) as seen:
        plain = model.net.base_model(**given).last_hidden_state
    outputs = dict(seen)
    for location in components.parts(model):
        with torch.no_grad(), hooks.put(model, location, outputs[location]):
            same = model.net.base_model(**given).last_hidden_state
        torch.testing.assert_close(same, plain)
        with torch.no_grad(), hooks.put(model, location, 0.0):
            assert (model.net.base_model(**given).last_hidden_state - plain).abs().max() > 1e-4


def test_a_feed_forward_part_that_gives_zero_is_one_with_zeroed_weights():
    model, zeroed = tiny("bert"), tiny("bert")
    out = zeroed.net.base_model.encoder.layer[1].output.dense
    with torch.no_grad():
        out.weight.zero_(), out.bias.zero_()
        with hooks.put(model, "ffn.out.1", 0.0):
            without = model.net.base_model(**batch(model)).last_hidden_state
        torch.testing.assert_close(zeroed.net.base_model(**batch(model)).last_hidden_state, without)


@torch.no_grad()
def planted(folder, where: str) -> str:
    """A network in which all parts give nothing but the one named, which tells gender; its folder.

    Words differ in two directions: `mark`, faintly, by the gender of attributes; and `told`, by the
    stereotype of targets. Embeddings tell the attributes' gender along `told` where it is planted
    there; else one part reads the mark and writes it there, many times as large.
    """
    model = save_tiny("bert", folder)
    base, size = model.net.base_model, model.net.config.hidden_size
    mark, told = torch.eye(size)[:2]
    for name, weight in base.named_parameters():
        if "LayerNorm" in name:
            weight.fill_(name.endswith("weight"))
        elif "position" in name or "token_type" in name:
            weight.zero_()
    words = base.embeddings.word_embeddings.weight
    words.copy_(torch.randn(size, generator=torch.Generator().manual_seed(0)))
    words[:, :2] = 0
    for word in SETS.words:
        sign = 1 if word in (*SETS.X, *SETS.A) else -1
        is_target = word in (*SETS.X, *SETS.Y)
        direction = told if is_target or where == "embeddings" else 0.1 * mark
        words[model.token_id(word)] += sign * direction * (1 + 0.1 * SETS.words.index(word))
    for layer in base.encoder.layer:
        for part in (layer.attention.output.dense, layer.output.dense):
            part.weight.zero_(), part.bias.zero_()
    layer = base.encoder.layer[1]
    if where == "attn.out.1":
        of_head = layer.attention.self
        for part in (of_head.query, of_head.key, of_head.value):
            part.weight.zero_(), part.bias.zero_()
        of_head.value.weight[0] = 50 * mark
        layer.attention.output.dense.weight[:, 0] = told
    if where == "ffn.out.1":
        layer.intermediate.dense.weight.zero_(), layer.intermediate.dense.bias.zero_()
        layer.intermediate.dense.weight[:2] = torch.stack([50 * mark, -50 * mark])
        layer.output.dense.weight[:, :2] = torch.stack([told, -told], 1)
    model.net.save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize("where", ["embeddings", "attn.out.1", "ffn.out.1"])
def test_a_planted_gender_is_found_where_it_is(where, tmp_path, monkeypatch):
    name = planted(tmp_path, where)
    monkeypatch.setattr(heads, "sets_and_contexts", lambda *_: (SETS, SENTENCES))
    found = components.measure_seat(name, None)
    assert found["sentences"].tolist() == [4, 4]
    named = components.parts(models.load(name))
    in_x = found["in_x"]
    for kind in components.KINDS:
        gap = found[kind][:, in_x].mean(1) - found[kind][:, ~in_x].mean(1)  # SEAT, not standardised
        left = dict(zip(named, gap[1:] / gap[0], strict=True))
        others = [left[part] for part in named if part not in ("embeddings", where)]
        np.testing.assert_allclose(others, 1, atol=0.05)
        if kind == "swapped":  # every word's gender is then the other one
            assert left[where] == pytest.approx(-1, abs=0.2)
        else:
            assert abs(left[where]) < 0.2
    some = components.measure_seat(name, None, only=[0, 9])
    for kind, place in (("zero", 1), ("mean", 1 + 9 - len(named))):
        np.testing.assert_allclose(some[kind][place], found[kind][place], atol=1e-6)
    assert np.isnan(some["swapped"][1:]).all()


def test_jobs_are_paired_from_both_ends_of_those_as_long():
    share = np.array([90, 10, 50, 70, 20])
    assert components.counterparts(share, [4, 4, 4, 5, 5]).tolist() == [1, 0, 2, 4, 3]


@pytest.mark.parametrize("name", ["mini-bert", "mini-gpt2"])
def test_swapped_embeddings_are_the_other_jobs_sentence(name):
    named = components.parts(models.load(name))
    found = components.measure_odds(name, only=[2 * len(named)])
    whole = contexts.pronoun_odds(models.load(name))["log_odds"]
    np.testing.assert_allclose(found["swapped"][0], whole, atol=1e-3)
    np.testing.assert_allclose(found["swapped"][1], whole[found["partner"]], atol=1e-3)
    assert np.isnan(found["zero"][1:]).all() and len(set(found["partner"])) == 58
