"""The profile paper on small random models in the hub's layout, and on files in the layout of the real ones.

All notebooks on the true shapes take an hour on two cores: tests/hub.py says how that is run.
"""

import json

import datasets
import matplotlib
import nbformat
import pytest
import torch
from huggingface_hub import constants

from lib import CompanionError, paths
from lib.engine import models
from lib.publish import run
from lib.text import data
from lib.training import nli_classifier
from tests import hub, papers_data

matplotlib.use("agg")
import matplotlib.pyplot as plt  # noqa: E402

BASE = ["google-bert/bert-base-uncased", "openai-community/gpt2", "FacebookAI/roberta-base", "albert/albert-base-v2",
        "meta-llama/Llama-2-7b-hf", "HuggingFaceTB/SmolLM2-135M"]  # one of each kind
SPECIAL = {"bert": (["[CLS]", "[SEP]"], "[MASK]"), "gpt2": ([], None), "roberta": (["<s>", "</s>"], "<mask>"),
           "albert": (["[CLS]", "[SEP]"], "[MASK]"), "llama": (["<s>"], None)}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """What HF_HOME would name."""
    folder = tmp_path_factory.mktemp("home")
    hub.make(folder, small=True, only=BASE)
    return folder


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """What COMPANION_DATA would name."""
    folder = tmp_path_factory.mktemp("data")
    papers_data.write(folder)
    return folder


@pytest.fixture
def offline(home, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(home / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", home / "datasets")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)


@pytest.fixture
def paper(offline, files, tmp_path, monkeypatch):
    """A machine with these models and files, and a place for what is made; call it with a notebook's number."""
    monkeypatch.setenv("COMPANION_LIMIT", "2")
    monkeypatch.setenv("COMPANION_DATA", str(files))
    monkeypatch.delenv("COMPANION_OUT", raising=False)
    monkeypatch.setattr(paths, "SOURCES", files / "sources.toml")
    monkeypatch.setattr(paths, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(paths, "BUILD", tmp_path / "build")
    monkeypatch.setattr("IPython.display.display", lambda result: None)
    monkeypatch.setattr(run, "_images", lambda figure: plt.close(figure) or {})  # drawn, not written, to be quick
    monkeypatch.chdir(paths.NOTEBOOKS)

    def cells(number, **parameters):
        file, = paths.NOTEBOOKS.glob(f"{number}_*.ipynb")
        names = {}
        for cell in nbformat.read(file, as_version=4).cells:
            if cell.cell_type == "code":
                exec(compile(cell.source, file.name, "exec"), names)
                if "parameters" in cell.metadata.get("tags", []):
                    names |= dict(profile="paper", data="paper", device="cpu") | parameters
        return {file.name for file in names["run"].out.glob("*.csv")}

    return cells


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


def test_what_the_hub_serves_of_data(offline):
    for name, configs in hub.hub_tables().items():
        for config, splits in configs.items():
            for split, table in splits.items():
                found = data.hub(name, config, split)
                assert found.column_names == list(table.columns) and len(found) == len(table)


@pytest.mark.parametrize("number, model, made", [
    ("03", "", {"03_claims.csv", "03_verdicts.csv"}), ("07", "", {"07_against_paper.csv", "07_table4.csv"}),
    ("10", "albert-base", {"10_coverage.csv"}), ("10", "llama-2-7b", {"10_coverage.csv"}),
    ("11", "roberta-base", {"11_claims.csv", "11_slopes_table.csv"})])
def test_a_notebook_runs_to_its_end(paper, number, model, made):
    """Those that are quick on small models; the others get models and data in the same way."""
    assert made <= paper(number, model=model)


def test_the_classifier_is_made_in_one_command(offline, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COMPANION_LIMIT", "8")
    monkeypatch.setattr(nli_classifier, "PREPARED", tmp_path)
    make = ["make", "--model", "bert-base", "--device", "cpu"]
    assert nli_classifier.main(make) == 0
    made = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert made["base"] == "bert-base" and made["source"] == "hub" and made["pairs"] == {
        "train": 8, "validation": 8, "test": 8}
    folder = tmp_path / "bert-base-nli-limit8"
    model = models.load(str(folder), device="cpu", task="sequence-classification")
    assert model.net.config.id2label == dict(enumerate(nli_classifier.LABELS))
    encoded = []
    monkeypatch.setattr(nli_classifier, "prepare", lambda *args, **kwargs: encoded.append(args))
    assert nli_classifier.main([*make, "--out", str(tmp_path / "again")]) == 0 and encoded == []


def test_a_missing_classifier_is_said_in_a_sentence(offline, tmp_path, monkeypatch):
    entry = models.REGISTRY["bert-base-nli"]
    monkeypatch.setitem(models.REGISTRY, "bert-base-nli", models.Entry(tmp_path / "none", "bert", "", entry.fix))
    with pytest.raises(CompanionError, match="not on this machine yet: make it on a GPU by python -m lib.nli_class"):
        run.Run(profile="paper").load("bert-base-nli", task="sequence-classification")
