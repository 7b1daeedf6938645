"""Notebooks 02 to 06 run to their end on untrained models of any shape, and say what has no case or was not run."""

import json

import pytest
import transformers

from lib.publish import run
from tests import tiny


@pytest.mark.parametrize("layers, heads", [(3, 4), (1, 2), (5, 3)])
def test_notebooks_end_on_a_model_of_any_shape(layers, heads, cells, few_draws, tmp_path, monkeypatch):
    monkeypatch.setitem(tiny.COMMON, "max_position_embeddings", 160)  # the tokenizer cuts long words into letters
    monkeypatch.setattr(tiny, "SHAPE", dict(hidden_size=8 * heads, num_hidden_layers=layers, num_attention_heads=heads,
                                            intermediate_size=64))
    monkeypatch.setitem(tiny.NETS, "gpt2", lambda: transformers.GPT2LMHeadModel(transformers.GPT2Config(
        n_embd=32, n_layer=3, n_head=4, n_positions=160, vocab_size=400, bos_token_id=0, eos_token_id=0)))
    for name, family, seed in (("encoder", "bert", 0), ("decoder", "gpt2", 0), ("debiased", "bert", 1)):
        tiny.save_tiny(family, tmp_path / name, seed)
    profile = run.read_profile("mini-limit8")
    profile["models"] |= {name: str(tmp_path / name) for name in ("encoder", "decoder")}
    profile["models"] |= {"debiased": [str(tmp_path / "debiased")], "cloze": []}
    monkeypatch.setattr(run, "read_profile", lambda name: profile)
    monkeypatch.setenv("COMPANION_OUT", str(tmp_path / "out"))
    outcomes = {}
    for number in ("02", "03", "04", "05", "06"):
        cells(number)
        outcomes |= {row["claim"]: row["outcome"]
                     for row in json.loads((tmp_path / "out" / "claims" / f"{number}.json").read_text())}
    assert outcomes["mask-lpbs"] == outcomes["glue-top3"] == outcomes["chat-seat"] == "not run"
    assert outcomes["mask-top3-seat"] == "no case" or layers * heads >= 3
