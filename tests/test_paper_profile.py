"""The profile paper on small random models in the hub's layout, and on files in the layout of the real ones.

tests/hub.py says how all notebooks are run on them.
"""

import datasets
import pytest
import torch
from huggingface_hub import constants

from lib import paths
from lib.engine import models
from tests import hub

BASE = ["google-bert/bert-base-uncased", "openai-community/gpt2", "FacebookAI/roberta-base", "albert/albert-base-v2",
        "meta-llama/Llama-2-7b-hf", "HuggingFaceTB/SmolLM2-135M"]  # one of each kind
SPECIAL = {"bert": (["[CLS]", "[SEP]"], "[MASK]"), "gpt2": ([], None), "roberta": (["<s>", "</s>"], "<mask>"),
           "albert": (["[CLS]", "[SEP]"], "[MASK]"), "llama": (["<s>"], None)}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """What HF_HOME would name."""
    folder = tmp_path_factory.mktemp("home")
    hub.make(folder, only=BASE)
    return folder


@pytest.fixture
def offline(home, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(home / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", home / "datasets")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)


@pytest.fixture
def papers(offline, tmp_path, monkeypatch):
    """A machine with these models and files, and a place for what is made."""
    hub.write_files(tmp_path / "data")
    monkeypatch.setenv("COMPANION_DATA", str(tmp_path / "data"))
    monkeypatch.delenv("COMPANION_OUT", raising=False)
    monkeypatch.setattr(paths, "SOURCES", tmp_path / "data" / "sources.toml")
    monkeypatch.setattr(paths, "BUILD", tmp_path / "build")
    monkeypatch.chdir(paths.NOTEBOOKS)


@pytest.mark.parametrize("hub_id", BASE)
def test_a_model_of_each_kind_is_read_as_the_hub_has_it(offline, hub_id):
    """Old names of weights, missing prefixes and buffers, an absent pooler; the tokenizer's own special tokens."""
    names = [name for name, entry in models.REGISTRY.items() if entry.source == hub_id]
    model = models.load(*names or [hub_id], device="cpu")
    around, mask = SPECIAL[model.family] if "Smol" not in hub_id else ([], None)
    ids = model.tokenizer("the nurse").input_ids
    tokens = model.tokenizer.convert_ids_to_tokens(ids)
    assert [token for token in tokens if token in model.tokenizer.all_special_tokens] == around
    assert len(tokens) == len(around) + 2 and model.tokenizer.mask_token == mask
    assert model.has_nsp == (model.family == "bert") and model.n_layers == model.n_heads == 12
    assert model.net.dtype == (torch.bfloat16 if "7b" in hub_id else torch.float32)
    assert model.tokenizer.decode(ids, skip_special_tokens=True).strip().lower() == "the nurse"


def test_a_notebook_runs_to_its_end(papers, cells):
    """One that is quick on small models; the others get models and data in the same way."""
    names = cells("10", profile="paper-limit2", data="paper", device="cpu", model="albert-base")
    assert (names["run"].out / "10_coverage.csv").is_file()
