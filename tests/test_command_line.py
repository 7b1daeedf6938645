"""The one command: notebooks in order, each once, stopping and going on; what it says first;
reproduce.sh.

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
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from huggingface_hub import constants
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from companion import __main__ as command, measure, notebooks, stale
from companion.estimate import estimate
from companion.report import readme
from companion.run import Run
from lib import paths
from lib.engine import folders
from lib.engine.files import replace
from tests import hub
from tests.tiny import refusal, save_tiny

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

    def refused(self, message, *flags):
        status, printed, ran = self.run(*flags)
        assert (status, ran) == (2, []) and message in printed and len(printed.splitlines()) == 1

    def copy(self, name):
        return nbformat.read(paths.BUILD / "mini" / f"{name}.ipynb", as_version=4)


@pytest.fixture
def project(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "a project"
    folder.mkdir()
    for name in PATHS:
        monkeypatch.setattr(paths, name, folder / name.lower())
    monkeypatch.setenv("COMPANION_OUT", str(folder / "out"))
    monkeypatch.setattr(readme, "README", folder / "README.md")
    readme.README.write_text("No part of it is made.\n")
    for file, content in {
        "01_table.csv": b"a,b\n1,2\n",
        "claims/01.json": b'[{"claim": "odds-rise", "untested": "not run"}]',
    }.items():  # of a run made before
        replace(folder / "figures" / "stored" / file, content)
    monkeypatch.setenv("PYTHONPATH", str(paths.ROOT))
    for name in ("JPY_SESSION_NAME", "COMPANION_RECOMPUTE_SINCE"):
        monkeypatch.setenv(name, "")  # restored afterwards
    yield Project(folder, capsys)
    stale.inputs.cache_clear()  # of this project


def text(content):
    return "".join(
        output.get("text", "") for cell in content.cells for output in cell.get("outputs", [])
    )


def test_each_notebook_runs_once_in_order(project, monkeypatch):
    foreign = project.folder / "jupyter" / "kernels" / "python3" / "kernel.json"
    replace(
        foreign, b'{"argv": ["false"], "display_name": "of somebody else", "language": "python"}'
    )
    monkeypatch.setenv("JUPYTER_PATH", str(project.folder / "jupyter"))
    figure = project.folder / "out" / "01_fig.svg"
    began = "os.environ['COMPANION_RECOMPUTE_SINCE'] != ''"
    project.add("02_second", f"import os\nprint(recompute, {began})")
    project.add(
        "01_first",
        "import sys, pathlib\nprint(sys.executable)",
        f"figure = pathlib.Path({str(figure)!r})\nfigure.parent.mkdir(exist_ok=True)\nfigure.touch()",
    )
    status, printed, ran = project.run()
    assert (status, ran) == (0, ["01", "02"])
    assert re.search(r"01_first +done in \d+ s\n", printed) and "./reproduce.sh lab" in printed
    assert f"The report: {paths.BUILD / 'report' / 'index.html'}\n" in printed
    assert text(project.copy("01_first")).strip() == sys.executable
    assert "The 02_second" in (paths.BUILD / "mini" / "02_second.html").read_text()
    assert project.run()[::2] == (0, [])
    assert (
        project.run("--recompute", "--only", "2")[2] == ["02"]
        and text(project.copy("02_second")) == "True True\n"
    )
    figure.write_text("edited by hand")
    assert re.search(
        r"01_first +stale: 01_fig.svg changed *\n02_second +up to date", project.run("--list")[1]
    )


def test_a_failure_stops_and_the_next_run_goes_on_from_there(project):
    flag, table = project.folder / "flag", project.folder / "out" / "02_table.csv"
    check = f"import os\nassert os.path.exists({str(flag)!r}), 'no flag'"
    project.add("01_first")
    project.add("02_second", "print('so far')", check, f"open({str(table)!r}, 'w').write('good')")
    project.add("03_third")
    status, printed, ran = project.run()
    assert (status, ran) == (1, ["01", "02"])
    assert "In [4]  AssertionError: no flag" in printed and "import os" in printed
    assert "\x1b" not in printed and len(printed.splitlines()) <= 40
    assert printed.endswith("To go on from there: ./reproduce.sh\n")
    assert "so far" in text(project.copy("02_second.part"))
    flag.touch()
    assert project.run()[::2] == (0, ["02", "03"])
    good = {file: file.read_bytes() for file in [table, *paths.BUILD.rglob("02_second.*")]}
    assert len(good) == 4  # its copy, page, stamp, and what it had written
    project.add("02_second", f"open({str(table)!r}, 'w').write('half')", "assert False")
    status, printed, ran = project.run("--keep-going", "--recompute", "--only", "02-03")
    assert (status, ran) == (1, ["02", "03"])
    assert {file: file.read_bytes() for file in good} == good
    assert "1 of 2 failed: 02_second.\n" in printed
    again = "./reproduce.sh --recompute --keep-going --only 02"
    assert printed.endswith(f"To try these again: {again}\n")


def test_a_try_is_said_to_be_one_and_how_a_notebook_failed_is_said_in_a_line(project):
    project.add("01_first", "print(profile, data)")
    status, printed, ran = project.run("--limit", "8", "--only", "01")
    assert (status, ran) == (0, ["01"]) and "This was a try on 8 items" in printed
    copy = nbformat.read(paths.BUILD / "mini-limit8" / "01_first.ipynb", as_version=4)
    assert text(copy) == "mini-limit8 mini\n"
    project.add("04_ours", "import lib", "raise lib.CompanionError('No network: connect it.')")
    project.add("05_dead", "import os; os.kill(os.getpid(), 9)")
    status, printed, _ = project.run("--only", "04,05", "--keep-going")
    assert status == 1 and "\n\nNo network: connect it.\n\n" in printed
    assert "Traceback" not in printed and "Its Python process died" in printed


def test_where_models_are_small_two_notebooks_run_at_a_time_and_the_board_last_and_alone(
    project, monkeypatch
):
    monkeypatch.setattr(notebooks, "is_bundled", lambda name: True)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    wait = f"import time\nwhile not {{'01', '02'}} <= set(open({str(project.log)!r}).read().split()): time.sleep(.1)"
    about = (
        "import os\nprint(os.environ['OMP_NUM_THREADS'], os.getcwd()[-9:], "
        "os.environ['JPY_SESSION_NAME'].rpartition('/')[2])"
    )
    for name in ("01_first", "02_second"):
        project.add(name, about, wait)  # neither ends before the other began
    project.add("12_board", about)
    project.add("05_dead", "import os; os.kill(os.getpid(), 9)")
    status, printed, ran = project.run("--recompute", "--keep-going")
    assert (status, ran[-1]) == (1, "12") and "Its Python process died" in printed
    for name in ("01_first", "02_second"):
        assert text(project.copy(name)) == f"1 notebooks {name}.ipynb\n"
    assert text(project.copy("12_board")) == "2 notebooks 12_board.ipynb\n"


def test_after_a_failure_what_runs_beside_it_ends_and_no_other_begins(project, monkeypatch):
    monkeypatch.setattr(notebooks, "is_bundled", lambda name: True)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    project.add("01_fails", "assert False")
    project.add("02_runs_on", "import time; time.sleep(3)", "print('to its end')")
    for number in ("03", "04", "12"):
        project.add(f"{number}_never", "import time; time.sleep(3)")
    status, printed, ran = project.run()
    assert status == 1 and "12" not in ran and "02" in ran
    assert "to its end" in text(project.copy("02_runs_on"))
    assert printed.endswith("To go on from there: ./reproduce.sh\n")


@pytest.mark.parametrize(
    "error, said",
    [
        (OSError(errno.EACCES, "denied"), "failed: PermissionError: .*denied"),
        (OSError(errno.ENOSPC, "full"), "failed, the disk is full: free some space"),
        (RuntimeError("Kernel didn't respond\nin 60 s"), "Kernel didn't respond in 60 s"),
    ],
)
def test_what_the_system_refuses_is_said_in_a_line_and_no_other_notebook_begins(
    project, monkeypatch, error, said
):
    begun = []

    def fail(path, copy, *args, **kwargs):
        begun.append(path.name[:2])
        copy.write_text('{"cells": [')
        raise error

    for name in ("01_first", "02_second", "12_board"):
        project.add(name)
    monkeypatch.setattr(notebooks, "execute_notebook", fail)
    status, printed, _ = project.run()
    assert (status, begun) == (1, ["01"]) and re.search(f"01_first +.*{said}\n", printed)
    assert printed.endswith("To go on from there: ./reproduce.sh\n")
    status, printed, _ = project.run("--keep-going")
    assert (status, begun) == (1, ["01", "01", "02", "12"])
    assert "3 of 3 failed: 01_first, 02_second, 12_board.\n" in printed


@pytest.mark.parametrize(
    "sent, expected, lanes", [(signal.SIGINT, 130, 2), (signal.SIGKILL, -signal.SIGKILL, 1)]
)
def test_a_run_that_is_stopped_leaves_nothing_that_looks_complete(project, sent, expected, lanes):
    for name in ("01_slow", "02_slow")[:lanes]:
        pid = f"import os, time; open({str(project.log)!r}, 'a').write(f'{{os.getpid()}} ')"
        project.add(name, pid, "time.sleep(60)")
    code = [
        "import os, pathlib, sys",
        "sys.modules['rfc3987_syntax'] = None",  # as in conftest.py
        "from lib import paths",
        "from companion import __main__ as command, notebooks",
        f"notebooks.is_bundled, os.cpu_count = lambda name: True, lambda: {lanes}",
    ]
    code += [f"paths.{name} = pathlib.Path({str(getattr(paths, name))!r})" for name in PATHS]
    code = "\n".join([*code, "sys.exit(command.main([]))"])
    # a shell that runs the tests in the background has its children ignore Ctrl-C: this one must
    # not
    runner = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.time() + 300
    while len(started := project.log.read_text().split()) < 2 * lanes and time.time() < deadline:
        time.sleep(0.1)
    runner.send_signal(sent)
    printed = runner.communicate(timeout=120)[0]
    assert runner.returncode == expected
    if sent == signal.SIGINT:
        assert "stopped" in printed and "To go on from there: ./reproduce.sh" in printed
    pids = [Path(f"/proc/{pid}") for pid in started if len(pid) > 2]
    while any(pid.exists() for pid in pids) and time.time() < deadline:
        time.sleep(0.1)
    assert len(pids) == lanes and not any(pid.exists() for pid in pids)
    assert (paths.BUILD / "mini" / "01_slow.part.ipynb").exists()
    assert "stale: " in project.run("--list")[1]


def test_stored_outputs_are_clean_and_the_same_each_time(project):
    project.add(
        "01_first", "import sys; print('kept'); print('a', 'bar', file=sys.stderr)", "1 + 1"
    )
    path = paths.NOTEBOOKS / "01_first.ipynb"
    assert "README.md is up to date" in project.run("--store")[1]
    once = path.read_text()
    assert project.run("--store", "--recompute")[0] == 0  # injects a cell, and leaves other times
    assert path.read_text() == once
    assert "papermill" not in once and "a bar" not in once and "injected" not in once
    content = nbformat.read(path, as_version=4)
    assert text(content) == "kept\n" and content.cells[-1].outputs[0].data["text/plain"] == "2"
    assert [cell.id for cell in content.cells] == [f"01-{i:02d}" for i in range(1, 6)]
    assert [cell.execution_count for cell in content.cells[1:]] == [1, 2, 3, 4]
    assert project.run("--list")[1].count("up to date") == 1  # outputs are no input


@pytest.mark.parametrize(
    "flags, is_default",
    [("--device cpu", True), ("--profile null", False)],
)
def test_outputs_are_stored_in_notebooks_where_figures_of_the_run_mini_are(
    project, flags, is_default
):
    """The device says nothing on whose results they are."""
    project.add("01_first", f"print({flags!r})")
    status, printed, _ = project.run("--store", "--only", "01", *flags.split())
    stored = nbformat.read(paths.NOTEBOOKS / "01_first.ipynb", as_version=4)
    assert status == 0 and text(stored) == (f"{flags}\n" if is_default else "")
    assert ("README.md is up to date" in printed) == is_default


def test_what_makes_a_notebook_stale(project, monkeypatch):
    """Its cells, its parameters, the data, the models, and the code of lib and companion."""

    def first(run=None):
        for known in (notebooks.revision, stale.inputs):
            known.cache_clear()  # as in a new process
        return notebooks.Notebook(paths.NOTEBOOKS / "01_first.ipynb", run or Run())

    def finish(run):
        done = {"components": first(run).components, "files": {}}
        replace(first(run).copy, b"{}")
        replace(first(run).done, json.dumps(done).encode())

    root, model = project.folder / "root", project.folder / "model"
    save_tiny("bert", model)
    replace(root / "lib/engine/hooks.py", b"n = 1")
    replace(root / "lists/words.csv", b"word")
    monkeypatch.setattr(paths, "ROOT", root)
    monkeypatch.setattr(paths, "LISTS", root / "lists")
    project.add("01_first", "run.encoder")
    assert first().why_stale() == ["never run here"]
    for name in ("model.safetensors", "training.json"):  # the record is what notebooks show
        run = Run(model=str(model))
        finish(run)
        assert first(run).is_done()
        replace(model / name, b"trained again")  # in place
        assert first(run).why_stale() == [f"{model} changed"]
    for damaged in (b"", b"[]", b'{"components": 1}'):
        replace(first().done, damaged)
        assert not first().is_done()
    finish(Run())
    assert first().is_done()
    elsewhere = Run(out=project.folder / "elsewhere")
    for other in (Run(device="cpu"), elsewhere, Run(profile="mini-limit8")):
        assert not first(other).is_done()
    replace(root / "lib/engine/hooks.py", b"n = 1  # said better")
    assert first().is_done()
    replace(root / "lib/engine/hooks.py", b"n = 2")
    assert first().why_stale() == ["lib/engine/hooks.py changed"]
    replace(root / "lists/words.csv", b"changed")
    replace(root / "companion/look.py", b"")
    replace(paths.BUILD / "mini" / "measured" / "heads.npz", b"made by measure")
    project.add("01_first", "run.encoder", "another = 'cell'")
    assert first().why_stale() == [
        f"{paths.BUILD}/mini/measured/heads.npz is new",
        "companion/look.py is new",
        "its cells changed",
        "lib/engine/hooks.py changed",
        "lists/words.csv changed",
    ]


def test_what_a_notebook_no_longer_makes_is_gone_but_not_where_it_fails_nor_what_took_days(project):
    out = project.folder / "out"
    made = f"import pathlib\nout = pathlib.Path({str(out)!r})\n(out / 'claims').mkdir(exist_ok=True, parents=True)"
    project.add("01_first", made, "(out / '01_old.csv').touch(); (out / 'claims/01.json').touch()")
    assert project.run()[0] == 0
    replace(out / "01_parts" / "a.json", b"{}")
    replace(out / "02_other.csv", b"")
    files = {out / name for name in ("01_old.csv", "claims/01.json")}
    others = {out / name for name in ("01_parts/a.json", "02_other.csv")}
    project.add("01_first", made, "assert False")
    assert project.run()[0] == 1
    assert {file for file in out.rglob("*.*") if file.is_file()} == files | others
    project.add("01_first", made, "(out / '01_new.csv').touch()")
    assert project.run()[0] == 0
    assert {file for file in out.rglob("*.*") if file.is_file()} == {out / "01_new.csv"} | others


def test_the_board_alone_depends_on_what_other_notebooks_found():
    for name in ("12_scoreboard", "01_models_and_data"):
        found = notebooks.Notebook(paths.NOTEBOOKS / f"{name}.ipynb", Run()).components
        assert {"data/claims.csv", "companion/ledger.py", "mini-bert"} <= found.keys()
        assert ("results of other notebooks" in found) == name.startswith("12")


@pytest.mark.parametrize(
    "flags, message",
    [
        ("--only 07", "no notebook 07: choose from 01, 02, 12"),
        ("--only 01,x", "--only 02,05-07"),
        ("--device cuda:99", "no device 'cuda:99': choose cpu"),
        ("--device cpu:1", "no device 'cpu:1': choose cpu"),
        ("--profile paper --data mini", "choose"),
        ("--profile grand", "or add"),
        ("--profile null@x", "mini, paper, published, trainings, null, balanced, null@1"),
        ("--store --limit 8", "never stored"),
        ("--limit 1", "give 2 or more"),
        ("--limit -5", "--limit"),
        ("--limit few", "give 2 or more"),
        ("--revision abc", "of the hub"),
        ("--quick --only 02", "leave one of the two out"),
        ("03", "leave it out"),
        ("measure everything", f"one of {', '.join(command.MEASUREMENTS)}."),
        ("report 02", "02"),
        ("measure table1 --part 1/4", "Unrecognized"),
        ("measure table1 --store --limit 8", "never stored"),
        ("measure table1 --precision float8", "choose float32, tf32"),
        ("card mini-bert --limit 2", "--limit 2"),
        ("card mini-bert --profile nope", "--profile nope"),
        ("card mini-bert --data paper --only 99 --model zzz", "Unrecognized"),
        ("card mini-bert --list", "--list"),
        ("card", "required"),
        ("compare null", "came to its end here"),
        ("--device tpu --list", "no device 'tpu'"),
        ("--profile null@99999999999999999999999 --list", "no profile null@9"),
        (f"--only {'9' * 5000}", "names no notebooks"),
        (f"card {'x' * 5000}", "File name too long"),
        (f"--model ./{'x' * 300}", "File name too long"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(project, flags, message):
    for name in ("01_a", "02_b", "12_c"):
        project.add(name)
    project.refused(message, *flags.split())


def test_a_notebook_that_is_none_and_a_folder_that_is_a_file_are_named_at_once(project):
    project.add("01_first")
    out = Path(os.environ["COMPANION_OUT"])
    out.write_text("a file")
    project.refused(f"{out} cannot be written (File exists): make it a folder")
    (paths.NOTEBOOKS / "01_first.ipynb").write_text("<<<<<<< HEAD")
    project.refused("01_first.ipynb is not a notebook")


@pytest.mark.parametrize("command_", [[], ["report"], ["page"]])
def test_a_full_disk_is_said_before_anything_is_computed(project, monkeypatch, command_):
    """It takes a file without content, as a full one does."""
    write = Path.write_bytes

    def full(self, content):
        if len(content) > 1_000_000:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(self, content)

    project.add("01_first")
    monkeypatch.setattr(Path, "write_bytes", full)
    project.refused("The disk is full", *command_)


@pytest.mark.parametrize(
    "only, numbers",
    [("", "01 02 12"), ("2", "02"), ("12,01", "01 12"), ("02-12", "02 12"), ("01-02, 2", "01 02")],
)
def test_only(only, numbers):
    available = [Path(name) for name in ("01_a", "02_b", "12_c")]
    assert [path.name[:2] for path in notebooks.select(available, only)] == numbers.split()
    for wrong in ("02,", "05-02", "02 03", "03-11", "13-999999999999"):
        assert wrong in refusal(notebooks.select, available, wrong)


@pytest.fixture
def script(tmp_path):
    """reproduce.sh in a folder with spaces, called from elsewhere, with a Python noting its calls:
    (*arguments, **environment) -> exit status, what it printed, the calls.
    """
    root, log, python = tmp_path / "with spaces" / "it", tmp_path / "log", tmp_path / "python"
    shutil.copytree(paths.ROOT / "requirements", root / "requirements")
    for name in ("reproduce.sh", "environment.yml", "pyproject.toml"):
        shutil.copy(paths.ROOT / name, root)
    python.write_text(f"""#!/bin/bash
        echo "PYTHONPATH=$PYTHONPATH $*" >> {shlex.quote(str(log))}
        if [ "$1 $2" = "-m venv" ]; then mkdir -p "$4/bin" && cp "$0" "$4/bin/python"; fi
        if [ "$1 $2 $3" = "-m pip install" ]; then exit ${{PIP_STATUS:-0}}; fi
        if [[ "$*" = *"${{FAILS:-none}}"* ]]; then echo "1 failed"; exit 1; fi""")
    python.chmod(0o755)

    def call(*args, **environment):
        log.write_text("")
        known = {key: value for key, value in os.environ.items() if not key.startswith("CONDA")}
        known |= {"PYTHON": str(python)} | environment
        heard = dict(capture_output=True, text=True, cwd=tmp_path, env=known)
        done = subprocess.run([call.path, *args], **heard)
        return done.returncode, done.stdout + done.stderr, log.read_text().splitlines()

    call.root, call.path, call.python = root, root / "reproduce.sh", python
    return call


def test_the_environment_is_set_up_once_and_again_after_a_stop_or_a_change(script):
    status, _, calls = script(PIP_STATUS="1")
    assert status == 1 and not any("-m companion" in call for call in calls)
    status, printed, calls = script("--only", "02")
    assert status == 0 and printed.count("\n") == 1
    assert calls[-2].endswith(f"--no-deps --no-build-isolation -e {script.root}")
    assert calls[-1].endswith(" -P -m companion --only 02")
    status, printed, calls = script(PYTHONPATH="/somewhere/with/another/lib")
    assert (status, printed, calls[-1]) == (0, "", "PYTHONPATH= -P -m companion")
    assert not any("pip" in call for call in calls)
    with open(script.root / "pyproject.toml", "a") as stream:
        stream.write("# changed")
    assert any("-m pip install" in call for call in script()[2])


def test_help_imports_nothing_heavy_and_needs_no_environment(script):
    assert not any("venv" in call for call in script("--help")[2])
    heavy = "bool({'torch', 'numpy'} & sys.modules.keys())"
    code = f"import sys; import companion.__main__; sys.exit({heavy})"
    assert subprocess.run([sys.executable, "-c", code], cwd=paths.ROOT).returncode == 0
    said = "There is no Python 3.11 or newer here"
    assert script(PYTHON="/nowhere/python")[1].startswith(said)


def test_the_tests_outcome_is_handed_on_and_whatever_fails_all_are_run(script):
    script()
    assert script("test")[0] == 0
    for failing in ("-m pytest tests", "-m tests.notebooks"):
        status, printed, calls = script("test", FAILS=failing)
        assert status == 1 and printed.count("1 failed") == 1
        assert calls[-1].endswith("-m tests.notebooks") and any("ruff" in call for call in calls)
    assert script("test", "--quick")[2][-1].endswith("-m tests.notebooks --quick")
    assert script("test", "--numerics")[2][-1].endswith("-m tests.numerics")
    status, printed, _ = script("test", "--slowly")
    assert status == 2 and "choose --quick or --numerics, or leave it out" in printed
    lab = script("lab", "--no-browser", "--port", "9")[2][-1]
    assert lab.endswith("it/notebooks --no-browser --port 9")


def test_an_environment_of_conda_is_used_where_its_versions_are_those_pinned(script, tmp_path):
    (tmp_path / "bin").mkdir()
    shutil.copy(script.python, tmp_path / "bin" / "python")
    conda = {"CONDA_DEFAULT_ENV": "companion", "CONDA_PREFIX": str(tmp_path)}
    status, printed, calls = script(**conda)
    assert (status, printed) == (0, "") and calls[-1].endswith(" -P -m companion")
    assert "-m companion.pins" in calls[0]  # its name says nothing of its versions
    status, _, calls = script(**conda, FAILS="companion.pins")
    assert status == 1 and len(calls) == 1
    assert script(CONDA_DEFAULT_ENV="companion")[0] == 0  # without its prefix


def test_it_may_be_called_through_links(script, tmp_path):
    (tmp_path / "link").symlink_to(script.path)
    (tmp_path / "again").symlink_to("link")
    script.path = tmp_path / "again"
    assert script("--only", "02")[0] == 0


def test_help_names_every_measurement_and_each_has_a_function(capsys):
    with pytest.raises(SystemExit):
        command.main(["measure", "--help"])
    assert ", ".join(command.MEASUREMENTS) in " ".join(capsys.readouterr().out.split())
    assert tuple(measure.MEASUREMENTS) == command.MEASUREMENTS


def notebook(number, *cells, done=False):
    return SimpleNamespace(number=number, code="\n".join(cells), is_done=lambda: done)


@pytest.fixture
def said(tmp_path, monkeypatch):
    """The lines that a run of these notebooks begins with, where nothing has been fetched."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(paths, "CACHE", tmp_path / "cache")
    monkeypatch.delenv("COMPANION_DATA", raising=False)
    monkeypatch.setattr(shutil, "disk_usage", lambda place: SimpleNamespace(free=10e9))

    def lines(*notebooks_, profile="paper", **parameters):
        return estimate(Run(profile=profile, **parameters), list(notebooks_))

    return lines


def test_what_is_missing_is_named_and_summed(said, tmp_path):
    """What is here already, or of notebooks that are done, is not."""
    both = notebook("02", "f(run.encoder)", "g(run.decoder)")
    encoder, done = notebook("07", "run.encoder"), notebook("02", "run.decoder", done=True)
    fetched, news, minutes, memory = said(both)
    assert "bert-base 0.44 GB, gpt2 0.55 GB; 1.0 GB in all" in fetched
    assert "5 GB, for gpt2" in memory and "minutes: 02 6)" in minutes
    assert "news_commentary 30" in news and "bbc_news" not in news
    (small,) = said(notebook("06", ""), profile="mini", data="paper")  # BBC's articles, word lists
    assert small.endswith(": 2 MB (most: bbc_news 2, context_debias 0)")
    place = hub.snapshot(tmp_path, "google-bert/bert-base-uncased")
    replace(place / "config.json", b"{}")
    assert "bert-base 0.44 GB" in said(encoder)[0]  # has no weights yet
    replace(place / "model.safetensors", b"")
    assert not any("hub" in line for line in said(encoder, done)[:-2]) and said(done) == []
    large = said(both, model="llama-2-7b")
    assert "13.5 GB in all, 10 GB are free: set HF_HOME" in large[0]
    assert "`hf auth login`" in large[1]
    assert large[-1] == "GPU memory: 17 GB, for llama-2-7b"  # in bfloat16: a card of 24 GB holds it
    (bundled,) = said(notebook("02", "run.encoder, run.classifier"), profile="mini")
    assert bundled.startswith("About 3 minutes on two slow cores")


def test_a_classifier_that_is_missing_is_made_before_its_notebook(said, tmp_path, monkeypatch):
    folder, run = tmp_path / "made", Run(profile="paper")
    with_it, without = notebook("09", "run.load(run.classifier)"), notebook("07", "run.encoder")
    entry = dataclasses.replace(folders.REGISTRY["bert-base-nli"], source=folder)
    monkeypatch.setitem(folders.REGISTRY, "bert-base-nli", entry)
    assert notebooks.to_make(run, [without, with_it]) == str(folder)
    assert "40 of them to make bert-base-nli" in "\n".join(said(with_it))
    others = (run, without), (Run(), with_it), (Run(profile="paper", model="roberta-base"), with_it)
    assert [notebooks.to_make(run, [one]) for run, one in others] == [""] * 3
    folder.mkdir()
    assert notebooks.to_make(run, [with_it]) == ""


def test_panels_that_cannot_be_drawn_are_named_before_hours_on_a_gpu(said, tmp_path, monkeypatch):
    made = tmp_path / "made"
    for name, folder in {"bert-base-cda": made, "bert-base-dropout": tmp_path / "nowhere"}.items():
        entry = dataclasses.replace(folders.REGISTRY[name], source=folder)
        monkeypatch.setitem(folders.REGISTRY, name, entry)
    printed = "\n".join(said(notebook("06")))
    assert "Fig. 5 is not drawn yet: bert-base-cda is not on this machine" in printed
    save_tiny("bert", made)
    assert "lacks a panel more: bert-base-dropout" in "\n".join(said(notebook("06")))
    assert "Fig." not in "\n".join([*said(notebook("03")), *said(notebook("06"), profile="mini")])
