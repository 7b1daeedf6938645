"""Debiasing by continued training: swapped twins, what is trained, and that the difference is the trained model."""

import json
import os
import random

import pytest
import torch
from safetensors.torch import load_file

from lib.engine import models
from lib.training import debias
from lib.training.__main__ import main
from lib.training.corpus import Tokens
from lib.training.packing import packed_attention, unpacked_attention
from tests.tiny import refusal, save_tiny


def test_a_row_for_each_pair_gives_what_packing_gives_and_dropout_has_the_rate_asked_for():
    torch.manual_seed(0)
    query, key, value = torch.randn(3, 1, 2, 40, 8, requires_grad=True)
    bounds = torch.tensor([0, 9, 10, 25, 33, 33, 40], dtype=torch.int32)  # one pair is empty, the last is padding
    packed = packed_attention(None, query, key, value, bounds=bounds, longest=16)[0]
    rows = unpacked_attention(query, key, value, bounds, 16)
    assert torch.allclose(packed[:, :33], rows[:, :33], atol=1e-6)
    ways = [torch.autograd.grad(found[:, :33].square().sum(), (query, key, value)) for found in (packed, rows)]
    for one, other in zip(*ways):
        assert torch.allclose(one, other, atol=1e-5)
    torch.manual_seed(0)
    query, key = torch.zeros(2, 1, 1, 4_000, 1)  # alike, so each of a pair's four tokens gets a quarter
    bounds = torch.arange(0, 4_004, 4, dtype=torch.int32)
    mixed = packed_attention(None, query, key, torch.ones_like(key), bounds=bounds, longest=4, dropout=.15)[0]
    kept = mixed.mean() * .85  # a kept weight is divided by the share of those kept
    assert kept.item() == pytest.approx(.85, abs=.02)
    assert len(mixed.unique()) == 5  # 0 to 4 of the four kept


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "base"
    save_tiny("bert", folder)
    return str(folder)


@pytest.fixture(scope="module")
def prepared(base, tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    lines = ["The doctor said that she was here. The nurse said that he was late.", "He likes poetry. She met him.",
             "A man and a woman met the engineer in the office. His office is here."]
    plain = "The engineer is in the office. The office is here."
    for part, n in ("train", 30), ("heldout", 20):
        (folder / f"{part}.txt").write_text("\n\n".join(f"{lines[i % 3]}\n{lines[(i + 1) % 3]}" for i in range(n))
                                            + f"\n\n{plain}\n")
    (folder / "counts.json").write_text("{}")
    assert main(["debias", "prepare", "--text", str(folder), "--prepared", str(folder / "out"),
                 "--model", base]) == 0
    return folder / "out"


def test_passages_are_runs_of_paragraphs_each_followed_by_its_twin(base, prepared):
    tokenizer = models.load(base, device="cpu").tokenizer
    both = Tokens.load(prepared / "passages.npz")
    alone = both.every_other_document()
    assert len(both.documents) == 60 and len(alone.documents) == 30  # the text without a gender word is left out
    first, twin = (tokenizer.decode(both.ids[a:b]) for a, b in zip(both.documents[:2], both.documents[1:3]))
    assert "doctor said that she was" in first and "doctor said that he was" in twin
    assert tokenizer.decode(alone.ids).startswith(first)
    counts = json.loads((prepared / "prepared.json").read_text())
    assert counts["passages"] == 30 and counts["swapped"] >= 90 and counts["tokens"] == len(both.ids)
    document = "\n".join(f"{i} " + "word " * random.Random(i).randint(1, 300) for i in range(40))
    passages = debias.passages(document)
    assert "\n".join(passages) == document and len(passages) > 3
    assert all(len(passage) >= debias.PASSAGE for passage in passages[:-1])
    assert all(len("".join(passage.split("\n")[:-1])) < debias.PASSAGE for passage in passages)


def train(way, base, prepared, out, **options):
    options = dict(steps=3, batch_tokens=512, measure_batches=1, warmup=1, device="cpu", seed=0) | options
    return debias.train(way, out, prepared, base, **options)


@pytest.mark.parametrize("way", debias.WAYS)
def test_only_attention_and_norms_change_and_the_difference_is_the_model(way, base, prepared, tmp_path):
    record = train(way, base, prepared, tmp_path / way)
    before, after = models.load(base, device="cpu"), models.load(str(tmp_path / way), device="cpu")
    changed = {name for name, weight in after.net.named_parameters()
               if not torch.equal(weight, before.net.get_parameter(name))}
    stored = load_file(tmp_path / way / "model.safetensors")
    assert changed == set(stored) and changed and all(debias.is_trained(name) for name in changed)
    layer = "bert.encoder.layer.2."
    assert {f"{layer}attention.self.query.weight", f"{layer}attention.output.dense.weight",
            f"{layer}attention.output.LayerNorm.weight", f"{layer}output.LayerNorm.bias"} <= changed
    assert not any("embeddings" in name or "intermediate" in name or "cls." in name for name in changed)
    assert json.loads((tmp_path / way / "training.json").read_text()) == record
    assert record["base_revision"] == before.revision and record["training"]["steps"] == 3
    assert record["heldout"].keys() == record["heldout_before"].keys() >= {"mlm_perplexity", "nsp_accuracy"}
    assert after.net.config.hidden_dropout_prob == before.net.config.hidden_dropout_prob


def test_a_share_of_the_way_to_the_trained_weights_is_shipped_and_dropout_is_in_its_place(base, prepared, tmp_path):
    start = models.load(base, device="cpu").net.state_dict()
    ends = {kept: train("dropout", base, prepared, tmp_path / str(kept), kept=kept) for kept in (1., .25)}
    whole, part = (load_file(tmp_path / str(kept) / "model.safetensors") for kept in ends)
    for name in part:
        torch.testing.assert_close(part[name].float(), .75 * start[name] + .25 * whole[name].float(),
                                   atol=2e-3, rtol=2e-3)
    assert [record["kept"] for record in ends.values()] == [1., .25]
    assert ends[1.]["heldout"] != ends[.25]["heldout"]  # measured as it ships
    task = debias.Continued(models.load(base, device="cpu"), hidden=.2, attention=.15)
    layer = task.net.bert.encoder.layer[1]
    assert (layer.attention.self.dropout.p, layer.attention.output.dropout.p, layer.output.dropout.p) == (.15, .2, .2)
    assert task.net.bert.embeddings.dropout.p == .2
    assert "Say how long" in refusal(debias.train, "cda", tmp_path, prepared, base)
    assert "no share" in refusal(train, "cda", base, prepared, tmp_path / "out", kept=1.5)
    assert "holds no text prepared for" in refusal(train, "cda", base, tmp_path, tmp_path / "out")
    assert "holds no prepared text" in refusal(debias.prepare, tmp_path, tmp_path / "out", base)
    save_tiny("roberta", tmp_path / "roberta")
    assert "no next-sentence head" in refusal(debias.Continued, models.load(str(tmp_path / "roberta"), device="cpu"))


@pytest.mark.parametrize("heads, width", [(4, 24), (3, 32)])
def test_short_attention_is_attention_inside_each_text(heads, width):
    """Against torch, in Triton's interpreter where there is no GPU."""
    pytest.importorskip("triton")
    if not torch.cuda.is_available() and not os.environ.get("TRITON_INTERPRET"):
        pytest.skip("no GPU: set TRITON_INTERPRET=1 to run the kernels on a CPU")
    from lib.training import kernels

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    bounds = torch.tensor([0, 50, 50, 180, 181, 400, 464, 520, 520, 800], dtype=torch.int32, device=device)
    ours = torch.randn(800, 3, heads, width, device=device, requires_grad=True)
    theirs = ours.detach().clone().requires_grad_()
    found, expected = kernels.short_attention(ours, bounds), kernels.dense(theirs, bounds)
    back = torch.randn_like(found)
    back[520:] = 0
    found.backward(back), expected.backward(back)
    for one, other in (found, expected), (ours.grad, theirs.grad):
        assert (one - other)[:520].abs().max() < 1e-3 * other[:520].abs().max()
    assert not found[520:].any() and not ours.grad[520:].any(), "padding longer than any text is zero"
