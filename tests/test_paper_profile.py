"""The profile paper on small random models in the hub's layout, which tests/hub.py makes."""

import pytest
import torch
from huggingface_hub import constants

from lib import paths
from lib.engine import models
from tests import hub

SPECIAL = {"bert": (["[CLS]", "[SEP]"], "[MASK]"), "gpt2": ([], None), "roberta": (["<s>", "</s>"], "<mask>"),
           "albert": (["[CLS]", "[SEP]"], "[MASK]"), "llama": (["<s>"], None)}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """What HF_HOME would name."""
    folder = tmp_path_factory.mktemp("home")
    for hub_id in hub.MODELS:
        hub.save(folder, hub_id)
    return folder


@pytest.fixture
def offline(home, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(home / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)


@pytest.mark.parametrize("hub_id", hub.MODELS)
def test_a_model_of_each_kind_is_read_as_the_hub_has_it(offline, hub_id):
    """Old names of weights, missing prefixes and buffers, an absent pooler; the tokenizer's own special tokens."""
    names = [name for name, entry in models.REGISTRY.items() if entry.source == hub_id]
    model = models.load(*names or [hub_id], device="cpu")
    around, mask = SPECIAL[model.family] if "Smol" not in hub_id else ([], None)
    ids = model.tokenizer("the nurse").input_ids
    tokens = model.tokenizer.convert_ids_to_tokens(ids)
    assert [token for token in tokens if token in model.tokenizer.all_special_tokens] == around
    assert len(tokens) == len(around) + 2 and model.tokenizer.mask_token == mask
    assert model.has_nsp == (model.family == "bert") and (model.n_layers, model.n_heads) == (2, 12)
    assert model.net.dtype == (torch.bfloat16 if "7b" in hub_id else torch.float32)
    assert model.tokenizer.decode(ids, skip_special_tokens=True).strip().lower() == "the nurse"


def test_a_notebook_runs_to_its_end(offline, cells, tmp_path, monkeypatch):
    """One that is quick on small models; the others get models in the same way."""
    monkeypatch.delenv("COMPANION_OUT", raising=False)
    monkeypatch.setattr(paths, "BUILD", tmp_path / "build")
    names = cells("10", profile="paper-limit2", data="paper", device="cpu", model="albert-base")
    assert (names["run"].out / "10_coverage.csv").is_file()
