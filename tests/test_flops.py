"""The FLOPs that the benchmarks divide by are those that torch counts."""

import pytest
import torch
import transformers
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import flops

WIDTH = 16
SHAPE = dict(hidden_size=WIDTH, intermediate_size=40, num_hidden_layers=3, num_attention_heads=4)
SMALL = SHAPE | dict(vocab_size=50)
TEXTS = 2
TOKENS = 7  # of each
AHEAD = 3 * 2 * WIDTH * TEXTS * TOKENS**2  # half of a decoder's attention is computed, then masked
POOLER = 2 * TEXTS * WIDTH**2
WIDENING = 2 * TEXTS * TOKENS * 8 * WIDTH  # from the embedding's 8 to the hidden 16


@pytest.mark.parametrize(
    "config, not_needed",
    [
        (transformers.BertConfig(**SMALL), POOLER),
        (transformers.AlbertConfig(**SMALL, embedding_size=8), POOLER + WIDENING),
        (transformers.LlamaConfig(**SMALL), AHEAD),
        (transformers.GPT2Config(vocab_size=50, n_embd=WIDTH, n_layer=3, n_head=4), AHEAD),
    ],
)
def test_needed_flops_are_those_that_torch_counts_less_what_model_flops_leave_out(
    config, not_needed
):
    config._attn_implementation = "eager"  # its products are plain ones
    net = transformers.AutoModel.from_config(config).eval()
    with torch.inference_mode(), FlopCounterMode(display=False) as counter:
        net(torch.ones(TEXTS, TOKENS, dtype=torch.long))
    assert counter.get_total_flops() == flops.needed(config, [TOKENS] * TEXTS) + not_needed


def test_predicted_words_need_the_vocabulary_and_the_others_no_last_feed_forward_part():
    config = transformers.BertConfig(**SMALL)
    n_tokens = TEXTS * TOKENS
    none, two, every = (flops.needed(config, [TOKENS] * TEXTS, n) for n in (0, 2, n_tokens))
    vocabulary = 2 * WIDTH * config.vocab_size  # of a word
    assert every == none + n_tokens * vocabulary
    feed_forward = 2 * 2 * WIDTH * config.intermediate_size
    assert every - two == (n_tokens - 2) * (feed_forward + vocabulary)


def test_padding_is_the_share_of_tokens_that_are_not_real():
    assert flops.padding([4, 2, 1], [[0, 1], [2]]) == pytest.approx(1 - 7 / 9)
