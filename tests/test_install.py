"""The package as someone installs it: a wheel in an environment of its own, away from the clone.

The environment is new and has nothing but the wheel. Only the packages that it depends on are
borrowed from the tests' environment, by a path file, since installing PyTorch takes minutes: that
they are declared, in bounds that those satisfy, is a test of its own.
"""

import ast
import json
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import pytest
from packaging.requirements import Requirement

from lib import paths
from tests.tiny import COMMON, save_tiny

MOST_BYTES = 5_000_000


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A wheel made from a copy of the sources, and what runs the commands of its environment."""
    folder = tmp_path_factory.mktemp("installed")
    source = folder / "source"
    for name in ("lib", "data", "figures/cards"):
        ignored = shutil.ignore_patterns("models", "cache", "earlier", "__pycache__")
        shutil.copytree(paths.ROOT / name, source / name, ignore=ignored)
    for name in ("pyproject.toml", "setup.py"):
        shutil.copy(paths.ROOT / name, source)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    build = [*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", folder, source]
    subprocess.run(build, check=True, cwd=folder)
    (wheel,) = folder.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    python = folder / "venv/bin/python"
    pip_there = [*pip, "--python", python, "install", "--no-deps", wheel]
    subprocess.run(pip_there, check=True, cwd=folder)
    (site,) = (folder / "venv").glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")

    def run(*command, **environment):
        bin = folder / "venv/bin"
        clean = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "HF_HUB_OFFLINE": "1"}
        done = subprocess.run(
            [bin / command[0], *command[1:]],
            cwd=folder,
            capture_output=True,
            text=True,
            env=clean | {"OMP_NUM_THREADS": "1"} | environment,
        )
        return done.returncode, done.stdout, done.stderr

    return SimpleNamespace(folder=folder, wheel=wheel, site=site, run=run)


def test_the_wheel_is_small_and_has_one_package_that_never_asks_for_lib(installed):
    assert installed.wheel.stat().st_size < MOST_BYTES
    with zipfile.ZipFile(installed.wheel) as wheel:
        names = wheel.namelist()
        code = {name: wheel.read(name).decode() for name in names if name.endswith(".py")}
        about = next(name for name in names if name.endswith("METADATA"))
        needed = re.findall("^Requires-Dist: (.*)$", wheel.read(about).decode(), re.MULTILINE)
    assert {name.split("/")[0].split("-")[0] for name in names} == {"companion"}
    assert not any(name.endswith((".safetensors", ".png", ".ipynb")) for name in names)
    asked = set()
    for text in code.values():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                asked |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                asked.add(node.module.split(".")[0])
    assert "companion" in asked and "lib" not in asked
    for line in needed:
        requirement = Requirement(line)
        assert requirement.specifier.contains(version(requirement.name)), line
        assert "==" not in line  # exact pins are constraints.txt's


def test_nothing_of_the_clone_is_on_its_path(installed):
    status, _, error = installed.run("python", "-c", "import lib")
    assert status and "No module named 'lib'" in error
    where = "import companion, torch; print(companion.__file__)"
    assert installed.run("python", "-c", where)[1].startswith(str(installed.site))


def test_companion_makes_a_card_and_a_table_of_heads_in_the_current_folder(installed, monkeypatch):
    monkeypatch.setitem(COMMON, "max_position_embeddings", 160)
    save_tiny("bert", installed.folder / "my-bert")
    status, printed, error = installed.run("companion", "card", "./my-bert")
    assert status == 0, error
    page = installed.folder / printed.removeprefix("The card: ").strip()
    assert page.is_relative_to(installed.folder / "build" / "cards")
    found = json.loads(page.with_suffix(".json").read_text())
    assert len(found["evaluation_results"]) > 10
    assert "companion card" in page.read_text() and "mini-bert" in page.read_text()
    status, printed, error = installed.run("companion", "heads", "./my-bert")
    assert status == 0, error
    table = Path(printed.rpartition("All heads: ")[2].strip())
    assert len((installed.folder / table).read_text().splitlines()) == 1 + 3 * 4


@pytest.mark.parametrize(
    "command, says",
    [
        ("card mini-bert", "mini-bert comes with the companion's repository"),
        ("card null", "COMPANION_MODELS"),
        ("heads ./nowhere", "There is no folder nowhere"),
        ("card mini-bert --store", "Unrecognized arguments: --store"),
        ("", "companion --help says what it takes"),
    ],
)
def test_what_it_cannot_do_is_one_sentence_that_names_the_fix(installed, command, says):
    status, _, error = installed.run("companion", *command.split())
    assert status == 2 and says in error and error.count("\n") == 1


def test_bundled_models_are_found_where_a_clone_is(installed):
    code = "from companion.engine import models; print(models.load('mini-bert').n_layers)"
    status, printed, error = installed.run("python", "-c", code, COMPANION_MODELS=str(paths.MODELS))
    assert status == 0 and printed.strip() == "12", error
