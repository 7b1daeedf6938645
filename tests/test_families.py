"""A new family is one row: two that the project does not know are added here, and all works."""

import re
from dataclasses import replace
from functools import partial

import pytest
import torch
import transformers

from lib.engine import families, models
from tests import test_batches, test_hooks, tiny

ROWS = {
    "camembert": replace(
        families.FAMILIES["roberta"], name="camembert", classes=("CamembertForMaskedLM",)
    ),
    "olmo": replace(families.FAMILIES["llama"], name="olmo", classes=("OlmoForCausalLM",)),
}

NETS = {
    "camembert": tiny.SHAPE,
    "olmo": tiny.SHAPE | tiny.GROUPED | tiny.SPECIAL,
}
OUTPUT_PROJECTIONS = {
    "camembert": "roberta.encoder.layer.{layer}.attention.output.dense",
    "olmo": "model.layers.{layer}.self_attn.o_proj",
}
ALIKE = {"camembert": "roberta", "olmo": "llama"}  # whose tokenizers they have


@pytest.fixture(params=list(ROWS))
def family(request, monkeypatch):
    """A family's name, while the project and the tests know it."""
    name = request.param
    monkeypatch.setitem(families.FAMILIES, name, ROWS[name])
    monkeypatch.setitem(tiny.NETS, name, NETS[name])
    monkeypatch.setitem(tiny.OUTPUT_PROJECTIONS, name, OUTPUT_PROJECTIONS[name])
    monkeypatch.setitem(tiny.TOKENIZERS, name, tiny.TOKENIZERS[ALIKE[name]])
    return name


@pytest.mark.parametrize(
    "test",
    [
        partial(test_hooks.test_a_mask_of_ones_does_not_change_a_bit, attention="sdpa"),
        test_hooks.test_a_masked_head_is_a_zeroed_column_block_of_the_output_projection,
        test_hooks.test_a_projection_leaves_the_share_one_minus_weight_and_all_else,
        test_hooks.test_hooks_may_be_nested_in_any_order,
        test_hooks.test_no_hook_stays_when_a_block_ends_in_an_error,
        test_batches.test_a_blank_is_filled_as_the_plain_network_fills_it,
        test_batches.test_padding_is_the_tokenizers_own,
        test_batches.test_perplexity_is_what_one_token_at_a_time_gives,
        test_batches.test_perplexity_after_a_prompt_is_that_of_the_tokens_after_it,
        test_batches.test_perplexity_is_the_same_in_any_batches,
        test_batches.test_a_words_vector_is_the_mean_over_its_pieces_and_contexts,
        test_batches.test_a_sentences_vector_is_the_state_of_one_token,
        test_batches.test_tokens_of_a_span_spell_its_text,
    ],
)
def test_what_holds_for_every_family_holds_for_a_new_one(family, test):
    test(family)


def test_a_new_family_is_saved_and_loaded(family, tmp_path):
    saved = tiny.save_tiny(family, tmp_path)
    model = models.load(tmp_path, device="cpu")
    assert (model.family, model.n_layers, model.is_causal) == (family, 3, family == "olmo")
    assert torch.equal(model.net(**tiny.batch(saved))[0], saved.net(**tiny.batch(saved))[0])


@pytest.mark.parametrize(
    "family, said",
    [
        ("t5", "not supported: choose a model of bert, .*gpt_neox, or give it a row in .*CONTRIB"),
        (None, "'None', which is not supported"),
        ("deberta-v2", "head was never trained .*: choose ModernBERT"),
        ("gemma3", "images too: choose a Gemma 3 of text alone"),
        ("opt", "joins the tokens of all texts.*: choose a Pythia"),
    ],
)
def test_an_unknown_family_is_refused_with_what_is_known_or_why(family, said):
    message = tiny.refusal(families.of, family, "their-model")
    assert message.startswith("their-model is of the architecture") and re.search(said, message)


def test_every_row_names_classes_that_transformers_has():
    for name, row in families.FAMILIES.items():
        config_class = transformers.CONFIG_MAPPING[name]
        for kind in row.classes:
            assert getattr(transformers, kind).config_class is config_class
        assert config_class in transformers.MODEL_MAPPING  # its bare class
    assert not set(families.REFUSED) & set(families.FAMILIES)
