"""The sweep: its commands are ones that ./reproduce.sh takes; with Snakemake, each is done until it
ends well.
"""

import os
import re
import shlex
import shutil
import subprocess

import pytest
import yaml

from companion.__main__ import understood
from companion.notebooks import select
from lib import paths
from lib.engine import folders

WORKFLOW = paths.ROOT / "workflow"
CONFIG = yaml.safe_load((WORKFLOW / "config.yaml").read_text())
PLACES = f"{paths.BUILD / 'snakemake' / 'bin'}:{os.environ['PATH']}"
SNAKEMAKE = shutil.which("snakemake", path=PLACES)

# Stands for ./reproduce.sh: notes its flags, and fails for the model that the file `broken` names.
STAND_IN = """#!/usr/bin/env bash
echo "$@" >> calls
case "$*" in *"$(cat broken)"*) exit 1 ;; esac
"""


@pytest.fixture
def sweep(tmp_path):
    """Snakemake in a project of its own: (*flags) -> exit status, what it printed, the commands
    that it ran.
    """
    nothing_compiled = shutil.ignore_patterns("__pycache__")
    for name in ("workflow", "lib", "companion"):
        shutil.copytree(paths.ROOT / name, tmp_path / name, ignore=nothing_compiled)
    needed = re.findall(r'"([\w/.-]+\.(?:txt|toml))"', (WORKFLOW / "Snakefile").read_text())
    for name in (*needed, "notebooks/02_two.ipynb", "broken", "calls"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "reproduce.sh").write_text(STAND_IN)
    (tmp_path / "reproduce.sh").chmod(0o755)

    def run(*flags, models="one, org/two", broken="no such model"):
        (tmp_path / "calls").write_text("")
        (tmp_path / "broken").write_text(broken)
        config = ["--config", f"models=[{models}]", "threads=1", "notebooks=[2]"]
        # code that Snakemake runs it in sees nothing of this project's environment
        bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        to_one = dict(stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        command = [SNAKEMAKE, *flags, *config]
        done = subprocess.run(command, cwd=tmp_path, env=bare, **to_one)
        return done.returncode, done.stdout, (tmp_path / "calls").read_text().splitlines()

    run.folder = tmp_path
    return run


def commands(model):
    """The commands of the Snakefile's rules as Snakemake would write them."""
    known = {"config": CONFIG, "wildcards": {"notebook": "10"}, "log": "a.log"}
    known["params"] = {"model": model, "flags": CONFIG["flags"]}

    def written(match):
        value = known[match[1]][match[2]] if match[2] else known[match[1]]
        return shlex.quote(value) if match[3] else str(value)

    for rule in (WORKFLOW / "Snakefile").read_text().split("\nrule ")[1:]:
        shell = "".join(re.findall(r'^ +"(.*)"$', rule.partition("shell:")[2], flags=re.MULTILINE))
        if shell:
            yield re.sub(r"\{(\w+)(?:[\[.](\w+)\]?)?(:q)?\}", written, shell)


@pytest.mark.parametrize("model", ["mini-bert", "org/name", "/a folder/with 'quotes'"])
def test_every_command_is_one_that_reproduce_takes(model):
    flags = [re.fullmatch(r"\./reproduce\.sh (.*?)( > .*)?", one)[1] for one in commands(model)]
    listed, run = (understood(shlex.split(given)) for given in flags)
    assert listed.list and not listed.only
    asked = (run.only, run.model, run.profile, run.data)
    assert asked == ("10", model, CONFIG["profile"], CONFIG["data"])


def test_the_sweep_names_what_there_is():
    there = sorted(paths.NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))
    asked = [f"{number:02d}" for number in CONFIG["notebooks"]]
    assert [path.name[:2] for path in select(there, ",".join(asked))] == asked
    assert set(CONFIG["models"]) <= folders.REGISTRY.keys()
    assert (paths.PROFILES / f"{CONFIG['profile']}.toml").exists()


@pytest.mark.skipif(not SNAKEMAKE, reason="Snakemake is not installed: see workflow/README.md")
def test_a_job_is_done_once_and_again_when_it_failed_or_its_code_changed(sweep):
    about = "--only 02 --profile mini --data mini --model"
    one, two = f"{about} one", f"{about} org/two"
    status, printed, calls = sweep("--cores", "1", "--keep-going", broken="org/two")
    assert status == 1 and calls[0] == "--list", printed
    assert sorted(calls[1:]) == [one, two, two]  # tried again once
    status, printed, calls = sweep("--cores", "1")
    assert status == 0 and calls == [two], printed
    status, printed, calls = sweep("--cores", "1")
    assert status == 0 and not calls and "Nothing to be done" in printed
    (sweep.folder / "lib" / "engine" / "stats.py").write_text("changed = True\n")
    status, printed, calls = sweep("--cores", "2")
    assert status == 0 and sorted(calls) == [one, two], printed
    status, printed, calls = sweep("-n", models="org/name, org-name")
    assert status and "leave one out" in printed and not calls
