"""Models shipped as a difference: what is loaded is what was saved, and nothing is made up or passed over."""

import json
import shutil
from functools import partial

import pytest
import torch
from safetensors.torch import load_file, save_file

from lib import CompanionError
from lib.engine import models
from tests.tiny import batch, refusal, save_tiny

QUERY = "bert.encoder.layer.1.attention.self.query.weight"


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "base"
    save_tiny("bert", folder)
    return folder


@pytest.fixture
def classifier(base, tmp_path):
    """A classifier on the base with one matrix changed, and the folder of its difference, to be damaged."""
    torch.manual_seed(1)
    model = models.load(str(base), device="cpu", task="sequence-classification", labels=3)
    model.net.config.id2label = {0: "entailment", 1: "neutral", 2: "contradiction"}
    model.net.state_dict()[QUERY].add_(.1)
    models.save_difference(model, str(base), tmp_path / "nli", epochs=2)
    return model, tmp_path / "nli"


def load(folder, task="sequence-classification", **options):
    return models.load(str(folder), device="cpu", task=task, **options)


refusal = partial(refusal, load)


def change(folder, edit):
    file = folder / "model.safetensors"
    save_file(edit(load_file(file)), file)


def test_it_holds_what_differs_gives_back_the_whole_and_has_a_revision_of_both(classifier, base, tmp_path):
    model, folder = classifier
    stored = load_file(folder / "model.safetensors")
    assert set(stored) == {QUERY, "classifier.weight", "classifier.bias"}
    assert {tensor.dtype for tensor in stored.values()} == {torch.float16}
    again = load(folder)
    for name, weight in model.net.state_dict().items():
        assert torch.equal(again.net.state_dict()[name], weight.half().float()), name
    assert again.net.config.id2label[2] == "contradiction"
    record = json.loads((folder / "training.json").read_text())
    assert (record["base"], record["base_revision"], record["epochs"]) == (str(base), model.revision, 2)
    assert again.tokenizer("she likes poetry .").input_ids == model.tokenizer("she likes poetry .").input_ids
    _, folder = classifier
    before = models.locate(str(folder))[1]
    change(folder, lambda tensors: tensors | {QUERY: tensors[QUERY] + 1})
    after = models.locate(str(folder))[1]
    other = shutil.copytree(base, tmp_path / "other")
    change(other, lambda tensors: tensors | {"bert.pooler.dense.bias": tensors["bert.pooler.dense.bias"] + 1})
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"companion_base": str(other)}))
    there = models.locate(str(folder))[1]
    change(other, lambda tensors: tensors | {"bert.pooler.dense.bias": tensors["bert.pooler.dense.bias"] + 1})
    assert len({before, after, there, models.locate(str(folder))[1]}) == 4


def test_a_language_model_keeps_its_tied_weights(base, tmp_path):
    model = models.load(str(base), device="cpu")
    model.net.state_dict()["bert.embeddings.word_embeddings.weight"].mul_(2)
    models.save_difference(model, str(base), tmp_path / "debiased")
    assert set(load_file(tmp_path / "debiased" / "model.safetensors")) == {"bert.embeddings.word_embeddings.weight"}
    again = load(tmp_path / "debiased", task=None)
    assert type(again.net) is type(model.net)
    assert again.net.get_output_embeddings().weight is again.net.get_input_embeddings().weight
    inputs = batch(model)
    assert torch.allclose(again.net(**inputs).prediction_logits, model.net(**inputs).prediction_logits, atol=2e-3)
    labelled = load(tmp_path / "debiased", labels=2)  # and it can be fine-tuned
    assert torch.equal(labelled.net.state_dict()["bert.embeddings.word_embeddings.weight"],
                       again.net.state_dict()["bert.embeddings.word_embeddings.weight"])


def test_bad_differences_are_refused(classifier, base):
    _, folder = classifier
    assert "the task it was saved for" in refusal(folder, task=None)
    good = load_file(folder / "model.safetensors")
    save_file(good | {"bert.encoder.layer.9.output.dense.bias": torch.ones(32)}, folder / "model.safetensors")
    assert "layer.9" in refusal(folder)  # of no use to anyone
    save_file(good | {QUERY: good[QUERY][:8].contiguous()}, folder / "model.safetensors")
    assert "[8, 32]" in refusal(folder) and "[32, 32]" in refusal(folder)
    save_file({name: good[name] for name in (QUERY, "classifier.bias")}, folder / "model.safetensors")
    assert "lacks 1 weights" in refusal(folder) and "classifier.weight" in refusal(folder)
    (folder / "model.safetensors").write_bytes(b"not weights")
    assert "damaged" in refusal(folder)


@pytest.mark.parametrize("named, why", [("no-such-model", "There is no model"), ("./gone", "There is no folder"),
                                        (None, "itself a difference")])
def test_bad_bases_are_refused(classifier, named, why):
    model, folder = classifier
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"companion_base": named or str(folder)}))
    assert why in refusal(folder)
    with pytest.raises(CompanionError, match=why):
        models.save_difference(model, named or str(folder), folder.with_name("another"))
    assert not folder.with_name("another").exists()
