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
TEXTS, TOKENS = 2, 7


def counted(family):
    """What torch counts in one forward without vocabulary rows."""
    config = CONFIGS[family]
    config._attn_implementation = "eager"  # its products are plain ones
    net = transformers.AutoModel.from_config(config).eval()
    with torch.inference_mode(), FlopCounterMode(display=False) as counter:
        net(torch.ones(TEXTS, TOKENS, dtype=torch.long))
    return counter.get_total_flops()


@pytest.mark.parametrize("family", CONFIGS)
def test_needed_flops_are_those_that_torch_counts(family):
    needed = flops.needed(CONFIGS[family], [TOKENS] * TEXTS)
    looking_ahead = (
        3 * 2 * 16 * TEXTS * TOKENS**2
    )  # half of the attention of a decoder: computed here, then masked
    pooler, widening = 2 * TEXTS * 16**2, 2 * TEXTS * TOKENS * 8 * 16
    beside = {
        "bert": pooler,
        "albert": pooler + widening,
        "llama": looking_ahead,
        "gpt2": looking_ahead,
    }[family]
    assert counted(family) == needed + beside


def test_asked_rows_alone_need_the_last_feed_forward_part_and_the_vocabulary():
    config, all_rows, few = CONFIGS["bert"], 14, 2
    whole, asked = (flops.needed(config, [7, 7], rows=rows) for rows in (all_rows, few))
    assert whole == flops.needed(config, [7, 7]) + 2 * all_rows * 16 * 50
    assert whole - asked == (all_rows - few) * 2 * (2 * 16 * 40 + 16 * 50)
    assert flops.padding([4, 2, 1], [[0, 1], [2]]) == pytest.approx(1 - 7 / 9)
