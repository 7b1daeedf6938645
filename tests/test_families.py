"""A new family is one row: two that the project does not know are added here, and everything works on them."""

from dataclasses import replace

import pytest
import torch
import transformers

from lib.engine import families, models
from tests import test_batches, test_hooks, tiny

ROWS = {
    "electra": replace(
        families.FAMILIES["bert"],
        name="electra",
        classes=("ElectraForMaskedLM",),
        pooler=None,
        next_sentence=None,
        vocabulary_head=lambda net: (
            lambda states: net.generator_lm_head(net.generator_predictions(states))
        ),
    ),
    "qwen2": replace(families.FAMILIES["llama"], name="qwen2", classes=("Qwen2ForCausalLM",)),
}
NETS = {
    "electra": lambda: transformers.ElectraForMaskedLM(
        transformers.ElectraConfig(**tiny.SHAPE, **tiny.COMMON, embedding_size=32)
    ),
    "qwen2": lambda: transformers.Qwen2ForCausalLM(
        transformers.Qwen2Config(**tiny.SHAPE, **tiny.COMMON, num_key_value_heads=2)
    ),
}


@pytest.fixture(params=list(ROWS))
def family(request, monkeypatch):
    monkeypatch.setitem(families.FAMILIES, request.param, ROWS[request.param])
    monkeypatch.setitem(tiny.NETS, request.param, NETS[request.param])
    monkeypatch.setitem(tiny._BYTES, "qwen2", tiny._BYTES["llama"])
    return request.param


def test_what_is_proved_of_every_family_is_so_of_it(family, tmp_path, monkeypatch):
    """Masks, projections, recordings, fillers, vectors and perplexity; and it is saved and loaded."""
    test_hooks.test_ones_in_a_mask_are_nothing_and_zero_is_a_zeroed_column_block_of_the_output_projection(
        family
    )
    test_hooks.test_a_projection_leaves_the_share_one_minus_weight_and_all_else(family)
    test_hooks.test_nested_in_any_order_and_no_hook_stays_whatever_happens(family)
    test_batches.test_a_blank_is_filled_as_the_plain_network_fills_it_and_padding_is_the_tokenizers_own(
        family
    )
    test_batches.test_it_is_what_one_mask_at_a_time_gives_in_any_batches_and_after_a_prompt(family)
    test_batches.test_words_are_the_mean_over_pieces_and_contexts_in_any_batches_and_sentences_one_token(
        family, monkeypatch
    )
    saved = tiny.save_tiny(family, tmp_path)
    model = models.load(tmp_path, device="cpu")
    assert (model.family, model.n_layers, model.is_causal) == (family, 3, family == "qwen2")
    assert torch.equal(model.net(**tiny.batch(saved))[0], saved.net(**tiny.batch(saved))[0])
