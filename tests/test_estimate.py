"""What a run says before it starts: true of what is here, and complete for all that the registry names."""

import shutil
import tomllib
from types import SimpleNamespace

import pytest
from huggingface_hub import constants
from nbformat.v4 import new_code_cell, new_notebook

from lib import paths
from lib.engine import models
from lib.publish import estimate
from lib.publish.profile import read_profile
from lib.publish.run import Run
from lib.text import data
from tests import hub

KNOWN = tomllib.loads(paths.HUB.read_text())


@pytest.fixture(autouse=True)
def empty(tmp_path, monkeypatch):
    """A machine that has fetched nothing."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(paths, "CACHE", tmp_path / "cache")
    monkeypatch.delenv("COMPANION_DATA", raising=False)


def notebook(number, *cells, done=False):
    return SimpleNamespace(number=number, content=new_notebook(cells=[*map(new_code_cell, cells)]), is_done=lambda: done)


def test_all_that_is_fetched_from_the_hub_was_looked_up():
    """A model of the registry or of a profile, and a data set, has its size and where that stands."""
    named = [name for file in paths.PROFILES.glob("*.toml") for part in read_profile(file.stem)["models"].values()
             for name in ([part] if isinstance(part, str) else part)]
    sources = [entry.source for entry in models.REGISTRY.values()] + [name for name in named
                                                                      if name not in models.REGISTRY]
    ids = {source for source in sources if isinstance(source, str)}
    assert ids == KNOWN["models"].keys() == hub.SHAPES.keys()
    assert {name for name, entry in data._table().items() if "hub" in entry} <= KNOWN["data"].keys()
    for entry in [*KNOWN["models"].values(), *KNOWN["data"].values()]:
        assert 0 < entry["GB"] < 20 and len(entry["checked"]) > 40
    assert {name for name, entry in KNOWN["models"].items() if entry.get("gated")} == {
        "meta-llama/Llama-2-7b-hf", "meta-llama/Llama-2-7b-chat-hf"}


def test_every_notebook_has_its_minutes():
    assert {path.name[:2] for path in paths.NOTEBOOKS.glob("*.ipynb")} <= KNOWN["minutes"].keys()


def test_what_is_missing_is_named_and_summed():
    found = estimate.lines(Run(profile="paper"), [notebook("02", "f(run.encoder)", "g(run.decoder)")])
    assert found[0].startswith("To fetch from the model hub: bert-base 0.44 GB, gpt2 0.55 GB; 1.0 GB in all")
    assert "news_commentary 30" in found[1] and "hub_glue" not in found[1]
    assert "(notebook and minutes: 02 6)" in found[2] and found[3] == "GPU memory: 5 GB, for gpt2"


def test_what_is_here_or_done_is_not(tmp_path):
    place = hub.snapshot(tmp_path, "google-bert/bert-base-uncased")
    place.mkdir(parents=True)
    (place / "config.json").write_text("{}")
    waiting, done = notebook("07", "run.encoder"), notebook("02", "run.decoder", done=True)
    assert "bert-base 0.44 GB" in estimate.lines(Run(profile="paper"), [waiting, done])[0]  # its weights are not there
    (place / "model.safetensors").write_text("")
    found = estimate.lines(Run(profile="paper"), [waiting, done])
    assert not any("hub" in line or "gpt2" in line for line in found[:-2])
    assert estimate.lines(Run(profile="paper"), [done]) == []


def test_gated_models_and_a_small_disk_are_said(monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda place: SimpleNamespace(free=20e9))
    found = estimate.lines(Run(profile="paper", model="llama-2-7b"), [notebook("02", "run.decoder")])
    assert found[0].endswith("13.5 GB in all, 20 GB are free")
    assert "https://huggingface.co/meta-llama/Llama-2-7b-hf" in found[1] and "`hf auth login`" in found[1]
    assert found[-1] == "GPU memory: 17 GB, for llama-2-7b"  # in bfloat16: a card of 24 GB holds it
    monkeypatch.setattr(shutil, "disk_usage", lambda place: SimpleNamespace(free=10e9))
    found = estimate.lines(Run(profile="paper", model="llama-2-7b"), [notebook("02", "run.decoder")])
    assert found[0].endswith("10 GB are free: set HF_HOME to a folder on a larger disk")


def test_a_run_that_fetches_nothing_says_nothing():
    assert estimate.lines(Run(), [notebook("02", "run.encoder, run.decoder, run.cloze, run.classifier")]) == []


def test_the_classifier_is_made_before_the_notebook_that_names_it(tmp_path, monkeypatch):
    folder = tmp_path / "made"
    monkeypatch.setitem(models.REGISTRY, "bert-base-nli", models.Entry(folder, "bert", "", "make it"))
    with_it, without = notebook("09", "run.load(run.classifier)"), notebook("07", "run.load(run.encoder)")
    run = Run(profile="paper")
    assert estimate.to_make(run, [without, with_it]) == str(folder)
    assert estimate.to_make(run, [without]) == "" and estimate.to_make(Run(), [with_it]) == ""
    assert "40 of them to make bert-base-nli" in "\n".join(estimate.lines(run, [with_it]))
    folder.mkdir()
    assert estimate.to_make(run, [with_it]) == ""
    assert estimate.to_make(Run(profile="paper", model="roberta-base"), [with_it]) == ""
