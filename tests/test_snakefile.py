"""The sweep: its commands are ones that ./reproduce.sh takes; with Snakemake, two run at once and none runs twice."""

import os
import re
import shlex
import shutil
import subprocess

import pytest
import yaml

from lib import paths
from lib.engine import models
from lib.publish.__main__ import parser
from lib.publish.notebooks import select

WORKFLOW = paths.ROOT / "workflow"
CONFIG = yaml.safe_load((WORKFLOW / "config.yaml").read_text())
SNAKEMAKE = shutil.which("snakemake", path=f"{paths.BUILD / 'snakemake' / 'bin'}:{os.environ['PATH']}")
with_snakemake = pytest.mark.skipif(not SNAKEMAKE, reason="Snakemake is not installed: see workflow/README.md")

# Stands for ./reproduce.sh: notes its flags; a job ends when as many have begun as must run at once, and fails for
# the model that the file `broken` names. Code that Snakemake runs it in sees nothing of this project's environment.
STAND_IN = """#!/usr/bin/env bash
echo "$@" >> calls
case "$*" in
    --list) exit ;;
    *"$(cat broken)"*) exit 1 ;;
esac
for wait in $(seq 100); do [ "$(grep -c only calls)" -ge "$(cat at_once)" ] && exit; sleep .1; done
exit 1
"""


@pytest.fixture
def sweep(tmp_path):
    """Snakemake in a project of its own: (*flags) -> exit status, what it printed, the commands that it ran."""
    for name in ("workflow", "lib"):
        shutil.copytree(paths.ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "notebooks").mkdir()
    for name in ("requirements.txt", "constraints.txt", "pyproject.toml", "notebooks/02_two.ipynb"):
        (tmp_path / name).write_text("")
    (tmp_path / "reproduce.sh").write_text(STAND_IN)
    (tmp_path / "reproduce.sh").chmod(0o755)
    (tmp_path / "broken").write_text("no such model")

    def run(*flags, at_once=1, models="one, org/two"):
        (tmp_path / "calls").write_text("")
        (tmp_path / "at_once").write_text(str(at_once))
        bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run([SNAKEMAKE, *flags, "--config", f"models=[{models}]", "threads=1", "notebooks=[2]"],
                              cwd=tmp_path, env=bare, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return done.returncode, done.stdout, (tmp_path / "calls").read_text().splitlines()

    run.folder = tmp_path
    return run


def commands(model):
    """The commands of the Snakefile's rules as Snakemake would write them."""
    for rule in (WORKFLOW / "Snakefile").read_text().split("\nrule ")[1:]:
        shell = "".join(re.findall(r'^ +"(.*)"$', rule.partition("shell:")[2], flags=re.MULTILINE))
        values = {"config": CONFIG, "params": {"model": model, "flags": CONFIG["flags"]},
                  "wildcards": {"notebook": "10"}, "log": "a.log"}

        def written(match, values=values):
            value = values[match[1]]
            value = value[match[2]] if match[2] else value
            return shlex.quote(value) if match[3] else str(value)

        if shell:
            yield re.sub(r"\{(\w+)(?:[\[.](\w+)\]?)?(:q)?\}", written, shell)


@pytest.mark.parametrize("model", ["mini-bert", "org/name", "/a folder/with 'quotes'"])
def test_every_command_is_one_that_reproduce_takes(model):
    flags = [re.fullmatch(r"\./reproduce\.sh (.*?)( > .*)?", command)[1] for command in commands(model)]
    listed, run = (parser().parse_args(shlex.split(given)) for given in flags)
    assert listed.list and not listed.only
    assert (run.only, run.model, run.profile, run.data) == ("10", model, CONFIG["profile"], CONFIG["data"])


def test_the_sweep_names_what_there_is():
    there = sorted(paths.NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))
    assert len(select(there, ",".join(f"{n:02d}" for n in CONFIG["notebooks"]))) == len(CONFIG["notebooks"])
    assert set(CONFIG["models"]) <= models.REGISTRY.keys()
    assert (paths.ROOT / "lib" / "publish" / "profiles" / f"{CONFIG['profile']}.toml").exists()


@with_snakemake
def test_two_jobs_run_at_once_and_none_twice(sweep):
    status, printed, calls = sweep("--cores", "2", at_once=2)
    assert status == 0, printed
    assert calls[0] == "--list"  # the environment, before all others
    assert sorted(calls[1:]) == [f"--only 02 --profile mini --data mini --model {it}" for it in ("one", "org/two")]
    status, printed, calls = sweep("--cores", "2")
    assert status == 0 and not calls and "Nothing to be done" in printed
    (sweep.folder / "lib" / "engine" / "stats.py").write_text("changed = True\n")
    status, printed, calls = sweep("--cores", "2")
    assert status == 0 and len(calls) == 2 and "--list" not in calls


@with_snakemake
def test_a_job_that_failed_is_done_again_alone_and_two_models_of_one_folder_are_refused(sweep):
    (sweep.folder / "broken").write_text("org/two")
    status, printed, calls = sweep("--cores", "1", "--keep-going")
    assert status == 1 and [call.split()[-1] for call in calls].count("org/two") == 2  # tried again once
    (sweep.folder / "broken").write_text("no such model")
    status, printed, calls = sweep("--cores", "1")
    assert status == 0 and [call.split()[-1] for call in calls] == ["org/two"]
    status, printed, calls = sweep("-n", models="org/name, org-name")
    assert status and "leave one out" in printed and not calls
