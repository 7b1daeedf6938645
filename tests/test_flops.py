"""The FLOPs that the benchmarks divide by are those that torch counts."""

import pytest
import torch
import transformers
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import flops

SMALL = dict(
    vocab_size=50, hidden_size=16, intermediate_size=40, num_hidden_layers=3, num_attention_heads=4
)
CONFIGS = {
    "bert": transformers.BertConfig(**SMALL),
    "albert": transformers.AlbertConfig(**SMALL, embedding_size=8),
    "llama": transformers.LlamaConfig(**SMALL),
    "gpt2": transformers.GPT2Config(vocab_size=50, n_embd=16, n_layer=3, n_head=4),
}
TEXTS = 2
TOKENS = 7  # of each
WIDTH = 16


def counted(family):
    """What torch counts in one forward without vocabulary rows."""
    config = CONFIGS[family]
    config._attn_implementation = "eager"  # its products are plain ones
    net = transformers.AutoModel.from_config(config).eval()
    with torch.inference_mode(), FlopCounterMode(display=False) as counter:
        net(torch.ones(TEXTS, TOKENS, dtype=torch.long))
    return counter.get_total_flops()


def not_needed(family):
    """What torch counts besides: work that model FLOPs leave out."""
    if family in ("llama", "gpt2"):
        # half of the attention of a decoder looks ahead: it is computed here, then masked
        return 3 * 2 * WIDTH * TEXTS * TOKENS**2
    pooler = 2 * TEXTS * WIDTH**2
    if family == "albert":
        widening = 2 * TEXTS * TOKENS * 8 * WIDTH  # from the embedding's 8 to the hidden 16
        return pooler + widening
    return pooler


@pytest.mark.parametrize("family", CONFIGS)
def test_needed_flops_are_those_that_torch_counts(family):
    needed = flops.needed(CONFIGS[family], [TOKENS] * TEXTS)
    assert counted(family) == needed + not_needed(family)


def test_a_predicted_word_needs_a_row_of_the_vocabulary():
    config = CONFIGS["bert"]
    n_tokens = TEXTS * TOKENS
    all_predicted = flops.needed(config, [TOKENS] * TEXTS, rows=n_tokens)
    vocabulary = 2 * n_tokens * WIDTH * config.vocab_size
    assert all_predicted == flops.needed(config, [TOKENS] * TEXTS) + vocabulary


def test_the_last_feed_forward_part_counts_for_predicted_words_alone():
    config = CONFIGS["bert"]
    n_tokens = TEXTS * TOKENS
    all_predicted = flops.needed(config, [TOKENS] * TEXTS, rows=n_tokens)
    two_predicted = flops.needed(config, [TOKENS] * TEXTS, rows=2)
    feed_forward = 2 * 2 * WIDTH * config.intermediate_size
    vocabulary = 2 * WIDTH * config.vocab_size
    assert all_predicted - two_predicted == (n_tokens - 2) * (feed_forward + vocabulary)


def test_padding_is_the_share_of_tokens_that_are_not_real():
    assert flops.padding([4, 2, 1], [[0, 1], [2]]) == pytest.approx(1 - 7 / 9)
