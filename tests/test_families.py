"""A new family is one row: two that the project does not know are added here, and everything works on them."""

from dataclasses import replace

import pytest
import torch
import transformers

from lib.engine import embed, families, fill, hooks, models, pppl
from tests import tiny

ROWS = {
    "electra": replace(
        families.FAMILIES["bert"], name="electra", classes=("ElectraForMaskedLM",), pooler=None, next_sentence=None,
        vocabulary_head=lambda net: lambda states: net.generator_lm_head(net.generator_predictions(states))),
    "qwen2": replace(families.FAMILIES["llama"], name="qwen2", classes=("Qwen2ForCausalLM",)),
}
NETS = {
    "electra": lambda: transformers.ElectraForMaskedLM(transformers.ElectraConfig(
        **tiny.SHAPE, **tiny.COMMON, embedding_size=32)),
    "qwen2": lambda: transformers.Qwen2ForCausalLM(transformers.Qwen2Config(
        **tiny.SHAPE, **tiny.COMMON, num_key_value_heads=2)),
}
WEIGHTS = {  # W^O of a layer
    "electra": lambda net, layer: net.electra.encoder.layer[layer].attention.output.dense.weight,
    "qwen2": lambda net, layer: net.model.layers[layer].self_attn.o_proj.weight,
}


@pytest.fixture(params=list(ROWS))
def family(request, monkeypatch):
    monkeypatch.setitem(families.FAMILIES, request.param, ROWS[request.param])
    monkeypatch.setitem(tiny.NETS, request.param, NETS[request.param])
    monkeypatch.setitem(tiny._BYTES, "qwen2", tiny._BYTES["llama"])
    return request.param


def test_it_is_masked_projected_recorded_filled_saved_loaded_embedded_and_read(family, tmp_path):
    model, mask = tiny.tiny(family, dtype=torch.float64), torch.ones(3, 4)
    batch, names = tiny.batch(model), ["embeddings", "layer.0", "layer.1", "layer.2"]
    with hooks.record(model, names) as seen:
        plain = model.net(**batch, output_hidden_states=True)
    assert all(torch.equal(seen[name], state) for name, state in zip(names, plain.hidden_states, strict=True))

    mask[1, 2] = 0
    with hooks.head_mask(model, mask):
        masked = model.net(**batch).logits
    basis = torch.linalg.qr(torch.randn(32, 1, dtype=torch.float64)).Q.T
    with hooks.project(model, {"layer.1": hooks.Projection(basis)}), hooks.record(model, ["layer.1"]) as seen:
        projected = model.net(**batch).logits
    assert (seen["layer.1"] @ basis.T).abs().max() < 1e-12 < (projected - plain.logits).abs().max()

    prompts = ["the doctor said that [MASK] .", "he likes [MASK] ."]
    for prompt, row in zip(prompts, fill.probabilities(model, prompts)):
        ids = model.tokenizer(fill.written(model, prompt), return_tensors="pt")
        place = -1 if model.is_causal else ids.input_ids[0].tolist().index(model.tokenizer.mask_token_id)
        torch.testing.assert_close(row, model.net(**ids).logits[0, place].float().softmax(-1), check_dtype=False)
    with hooks.head_mask(model, torch.ones(3, 4)):
        assert torch.equal(model.net(**batch).logits, plain.logits)
    WEIGHTS[family](model.net, 1)[:, 16:24] = 0
    torch.testing.assert_close(masked, model.net(**batch).logits)
    saved = tiny.save_tiny(family, tmp_path)
    model = models.load(tmp_path, device="cpu")
    assert (model.family, model.n_layers, model.is_causal) == (family, 3, family == "qwen2")
    batch = tiny.batch(saved)
    assert torch.equal(model.net(**batch)[0], saved.net(**batch)[0])
    assert embed.words(model, {"doctor": ["the doctor said .", "he met the doctor ."]}).shape == (1, 32)
    assert 1 < pppl.pseudo_perplexity(model, tiny.SENTENCES[:2]).value < 10 * 400
