"""What a run is called, where it writes, that it writes whole files, and when it computes again."""

import errno
import importlib.util
import io
import json
import os
import pathlib
import signal
import subprocess
import sys
from types import SimpleNamespace

import joblib
import matplotlib
import numpy as np
import pandas as pd
import pytest
from joblib._store_backends import CacheWarning, FileSystemStoreBackend

from lib import CompanionError, paths
from lib.engine import models
from lib.publish import run as run_module
from lib.publish.profile import read_profile
from lib.publish.run import Run, fingerprint, replace, slug
from tests.tiny import save_tiny

matplotlib.use("agg")
import matplotlib.pyplot as plt  # noqa: E402


@pytest.fixture(autouse=True)
def apart(tmp_path, monkeypatch):
    """Cache and figures in a temporary folder, whatever the caller's environment says."""
    monkeypatch.delenv("COMPANION_OUT", raising=False)
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    monkeypatch.setattr(paths, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(paths, "FIGURES", tmp_path / "figures")


@pytest.fixture
def profiles(tmp_path, monkeypatch):
    """A folder of profiles with mini.toml alone, and a function that adds one."""
    folder = tmp_path / "profiles"
    folder.mkdir()
    monkeypatch.setattr(paths, "PROFILES", folder)

    def add(name, text):
        (folder / f"{name}.toml").write_text(text)

    add("mini", 'data = ["mini", "paper"]\n[models]\nencoder = "a"\ndecoder = "b"\n[sizes]\ndraws = 5\n')
    return add


@pytest.mark.parametrize("parameters, name", [
    (dict(), "mini"),
    (dict(profile="mini", data="mini"), "mini"),
    (dict(data="paper"), "mini-real"),
    (dict(profile="paper"), "paper"),
    (dict(profile="paper", data="paper"), "paper"),
    (dict(model="gpt2-medium"), "mini-gpt2-medium"),
    (dict(profile="paper", model="roberta-base", device="cpu"), "paper-roberta-base"),
])
def test_name(parameters, name):
    assert Run(**parameters).name == name
    assert Run(**parameters).out == paths.FIGURES / name


@pytest.mark.parametrize("model, expected", [
    ("org/Name_v2.1", "org-Name_v2.1"), ("/home/me/my models/x", "home-me-my-models-x"), ("../x", "x"),
])
def test_slug(model, expected):
    assert slug(model) == expected


def test_paper_on_mini_data_is_refused():
    with pytest.raises(CompanionError, match="paper does not run on the data set mini: choose data paper"):
        Run(profile="paper", data="mini")


def test_out_is_the_argument_or_the_environment_or_figures(tmp_path, monkeypatch):
    assert Run().out == paths.FIGURES / "mini"
    monkeypatch.setenv("COMPANION_OUT", str(tmp_path / "elsewhere"))
    assert Run().out == tmp_path / "elsewhere"
    assert Run(out=tmp_path / "here").out == tmp_path / "here"
    assert Run(out="figures/mine").out == paths.ROOT / "figures" / "mine"


def test_a_model_takes_the_place_of_its_kind(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    (tmp_path / "model.safetensors").write_bytes(b"")
    assert (Run().encoder, Run().decoder) == ("mini-bert", "mini-gpt2")
    albert, gpt2 = Run(model="albert-base"), Run(model="gpt2")
    assert (albert.encoder, albert.decoder) == ("albert-base", "mini-gpt2")
    assert (gpt2.encoder, gpt2.decoder) == ("mini-bert", "gpt2")
    assert Run(model=str(tmp_path)).decoder == str(tmp_path)
    with pytest.raises(CompanionError, match="no model 'mini-brt'"):
        Run(model="mini-brt")


def test_shipped_profiles_have_the_same_keys():
    for file in paths.PROFILES.glob("*.toml"):
        assert read_profile(file.stem)["sizes"].keys() == read_profile("mini")["sizes"].keys()


@pytest.mark.parametrize("text, message", [
    ('data = ["mini"]\nspeed = 1\n', "lib/publish/profiles/mine.toml has the unknown key speed"),
    ('data = ["mini"]\n[sizes]\ndrows = 5\n', "lib/publish/profiles/mine.toml has the unknown key sizes.drows"),
    ('data = ["mini"]\n[models]\nencoder = "a"\ndecoder = "b"\n', "mine.toml lacks the key sizes.draws"),
    ("data = [", "lib/publish/profiles/mine.toml is not TOML"),
])
def test_a_wrong_profile_is_named(profiles, text, message):
    profiles("mine", text)
    with pytest.raises(CompanionError, match=message):
        Run(profile="mine")


def test_a_profile_of_ones_own(profiles):
    profiles("mine", 'data = ["paper", "mini"]\n[models]\nencoder = "x"\ndecoder = "y"\n[sizes]\ndraws = 9\n')
    run = Run(profile="mine")
    assert (run.name, run.encoder, run.sizes.draws) == ("mine", "x", 9)
    assert Run(profile="mine", data="mini").name == "mine-demo"
    with pytest.raises(CompanionError, match="no profile yours: choose one of mine, mini"):
        Run(profile="yours")


def figure():
    axes = plt.subplots()[1]
    axes.plot([1, 2, 4], marker="o", label="a line")
    axes.fill_between([0, 1], [1, 2], hatch="/")
    axes.legend()
    return axes.figure


def test_figures_are_the_same_to_the_byte(tmp_path):
    plt.close("all")
    for folder in ("one", "two"):
        Run(out=tmp_path / folder).save(figure(), "fig", "A line.")
    names = sorted(file.name for file in (tmp_path / "one").iterdir())
    assert names == ["fig.json", "fig.png", "fig.svg"]
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    assert not plt.get_fignums()  # closed, so that Jupyter shows it once


def test_tables_keep_six_digits_and_a_named_index():
    run = Run()
    run.save(pd.DataFrame({"n": [1], "x": [1 / 3]}), "plain", "")
    run.save(pd.DataFrame({"x": [1 / 3]}, index=pd.Index(["nurse"], name="word")), "named", "")
    assert (run.out / "plain.csv").read_text() == "n,x\n1,0.333333\n"
    assert (run.out / "named.csv").read_text() == "word,x\nnurse,0.333333\n"


def test_a_result_says_what_it_was_made_from(monkeypatch):
    monkeypatch.setenv("JPY_SESSION_NAME", "notebooks/03_counter_stereotype.ipynb")
    monkeypatch.setattr(models, "load", lambda name, device: SimpleNamespace(revision=f"{name} on {device}"))
    run = Run(profile="paper", model="gpt2-large", device="cuda", seed=7)
    run.load(run.decoder)
    run.save(pd.DataFrame({"x": [1]}), "table", "Said in one line.")
    made = json.loads((run.out / "table.json").read_text())
    assert made["caption"] == "Said in one line."
    assert made["command"] == "./reproduce.sh --only 03 --profile paper --model gpt2-large --device cuda"
    assert made["models"] == {"gpt2-large": "gpt2-large on cuda"}
    assert (made["run"], made["notebook"], made["seed"]) == ("paper-gpt2-large", "03_counter_stereotype", 7)
    assert made["versions"].keys() >= {"torch", "transformers"} and "+" not in made["versions"]["torch"]
    assert list(made["data"]) == ["paper"]


def test_a_writer_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    run = Run()
    run.save(pd.DataFrame({"x": [1]}), "table", "")
    before = fingerprint(run.out)
    bad = figure()
    monkeypatch.setattr(bad, "savefig", lambda *args, **kwargs: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run.save(bad, "table", "")
    monkeypatch.setattr(os, "replace", lambda *args: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        replace(run.out / "table.csv", b"half")
    assert fingerprint(run.out) == before  # nothing changed, nothing left over


def test_a_full_disk_is_one_sentence_and_leaves_the_old_file(monkeypatch):
    write = pathlib.Path.write_bytes

    def half(self, content):
        write(self, content[:len(content) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    run = Run()
    run.save(pd.DataFrame({"x": [1]}), "table", "")
    before = fingerprint(run.out)
    monkeypatch.setattr(pathlib.Path, "write_bytes", half)
    for name in "table", "another":
        with pytest.raises(CompanionError, match=f"^The disk is full, .*{name}.csv could not be written: free"):
            run.save(pd.DataFrame({"x": [2]}), name, "")
    assert fingerprint(run.out) == before


def noted(log, value, name=""):
    """Doubles a value, and leaves a line in a log to show that it was called."""
    with open(log, "a") as stream:
        stream.write("called\n")
    return 2 * value


def test_a_result_is_computed_once(tmp_path, monkeypatch):
    log = tmp_path / "log"
    weights = {"mini-bert": "r1"}
    monkeypatch.setattr(models, "locate", lambda name: (None, weights[name]))
    run = Run()

    def calls(run, *args, **kwargs):
        before = log.read_text().count("called") if log.exists() else 0
        assert run.cached(noted, str(log), *args, **kwargs) == 2 * args[0]
        return log.read_text().count("called") - before

    assert calls(run, 21) == 1
    assert calls(run, 21) == 0
    assert calls(Run(seed=1), 21) == 0  # another object, another process: the same result
    assert calls(run, 22) == 1
    assert calls(Run(recompute=True), 21) == 1
    assert calls(run, 21) == 0
    assert calls(run, 21, name="mini-bert") == 1
    assert calls(run, 21, name="mini-bert") == 0
    weights["mini-bert"] = "r2"
    assert calls(run, 21, name="mini-bert") == 1
    assert run.revisions == {"mini-bert": "r2"}
    assert calls(run, 21) == 0  # that a model was used meanwhile is no matter
    monkeypatch.setattr(paths, "LISTS", tmp_path / "lists")
    replace(paths.LISTS / "words.csv", b"nurse")
    assert calls(run, 21) == 1


def test_a_result_is_computed_again_when_code_changes(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    replace(tmp_path / "lib" / "helper.py", b"factor = 1")
    file = tmp_path / "lib" / "main.py"
    replace(file, b"from lib import helper\ndef answer(log):\n    open(log, 'a').write('x')\n")

    def calls():
        log = tmp_path / "log"
        log.write_text("")
        spec = importlib.util.spec_from_loader("main", None, origin=str(file))
        module = importlib.util.module_from_spec(spec)
        exec(compile(file.read_text().split("\n", 1)[1], str(file), "exec"), module.__dict__)
        Run().cached(module.answer, str(log))
        return len(log.read_text())

    assert (calls(), calls()) == (1, 0)
    replace(tmp_path / "lib" / "other.py", b"unrelated = True")
    assert calls() == 0
    replace(tmp_path / "lib" / "helper.py", b"factor = 2")
    assert (calls(), calls()) == (1, 0)


def test_a_full_disk_keeps_no_half_result(tmp_path, monkeypatch):
    """What was computed is handed out all the same; what cannot even be begun is said before it is computed."""
    class Disk(io.FileIO):
        room = 0

        def write(self, content):
            if self.tell() + len(content) > self.room:
                raise OSError(errno.ENOSPC, "No space left on device")
            return super().write(content)

    log = tmp_path / "log"
    monkeypatch.setattr(joblib.memory, "_FUNCTION_HASHES", {})  # as in a new process
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(FileSystemStoreBackend, "_open_item", lambda self, name, mode: (
            Disk if "w" in mode else open)(name, mode))
        with pytest.raises(CompanionError, match="^The disk is full, .*results could not be written: free some space"):
            Run().cached(noted, str(log), 21)
        assert not log.exists()
        Disk.room = 150  # enough for joblib's note of the code, not for this result
        with pytest.warns(CacheWarning, match="No space left on device"):
            assert Run().cached(noted, str(log), "long " * 100) == "long " * 200
    assert not [*paths.CACHE.rglob("output.pkl")]
    for _ in range(2):
        assert Run().cached(noted, str(log), "long " * 100) == "long " * 200
    assert log.read_text().count("called") == 2  # once when it could not be kept, once when it could


MEASUREMENTS = """
import os, sys
import numpy as np
from lib.engine import models
from lib.publish.run import Run

def stop(place):
    if os.environ.get("STOP") == place:
        print("stopped", flush=True)
        sys.stdin.read()  # till it is killed

class Last:
    def __init__(self, place):
        self.place = place

    def __reduce__(self):  # called when all that stands before it is written
        stop(self.place)
        return str, (self.place,)

def measured(name, kind):
    with open(os.environ["LOG"], "a") as log:
        log.write(f"{name} {kind}" + chr(10))
    net = models.load(name, device="cpu").net
    stop(f"computing {name} {kind}")
    return [np.concatenate([getattr(np, kind)(weight.numpy(), axis=-1).ravel() for weight in net.parameters()]),
            Last(f"writing {name} {kind}")]

def run(*names):
    return [Run(model=name).cached(measured, name, kind)[0] for name in names for kind in ("mean", "std")]
"""


@pytest.mark.parametrize("during", ["computing", "writing"])
def test_a_run_that_is_killed_computes_only_what_it_had_not_finished(tmp_path, monkeypatch, during):
    """Two models, two measurements: killed in the third, in the middle of its work or of its result's file."""
    names = [str(tmp_path / family) for family in ("bert", "gpt2")]
    for name in names:
        save_tiny(pathlib.Path(name).name, name)
    every = [f"{name} {kind}" for name in names for kind in ("mean", "std")]
    (tmp_path / "measurements.py").write_text(MEASUREMENTS)
    log = tmp_path / "log"
    monkeypatch.setenv("LOG", str(log))
    environment = os.environ | {"STOP": f"{during} {every[2]}", "COMPANION_CACHE": str(paths.CACHE),
                                "PYTHONPATH": os.pathsep.join([str(paths.ROOT), str(tmp_path)])}
    command = [sys.executable, "-c", "import sys, measurements; measurements.run(*sys.argv[1:])", *names]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout.readline() == b"stopped\n"
        child.kill()
    assert child.returncode == -signal.SIGKILL
    assert log.read_text().splitlines() == every[:3] and len([*paths.CACHE.rglob("output.pkl")]) == 2
    assert bool([*paths.CACHE.rglob("output.pkl.*")]) == (during == "writing")  # half a file, under another name

    log.unlink()
    spec = importlib.util.spec_from_file_location("measurements", tmp_path / "measurements.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = module.run(*names)
    assert log.read_text().splitlines() == every[2:]
    assert module.run(*names) and log.read_text().splitlines() == every[2:]
    for result, task in zip(found, every, strict=True):
        assert np.array_equal(result, module.measured(*task.rsplit(" ", 1))[0])


def test_sources_follow_imports():
    found = {file.name for file in run_module._sources(paths.ROOT / "lib" / "run.py")}
    assert {"run.py", "profile.py", "paths.py", "models.py"} <= found and "reproduce.py" not in found


def test_the_classifier_is_the_profiles_or_the_one_given(tmp_path):
    replace(tmp_path / "model.safetensors", b"")
    for kind, expected in ("BertForSequenceClassification", str(tmp_path)), ("BertForPreTraining", ""):
        config = {"model_type": "bert", "architectures": [kind]}
        replace(tmp_path / "config.json", json.dumps(config).encode())
        run = Run(model=str(tmp_path))
        assert run.classifier == expected and run.encoder == ("mini-bert" if expected else str(tmp_path))
    assert Run().classifier == "mini-bert-nli" and Run(profile="paper").classifier == "bert-base-nli"
    assert Run(model="mini-gpt2").classifier == "mini-bert-nli" and Run(model="bert-large").classifier == ""
