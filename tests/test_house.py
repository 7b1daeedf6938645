"""The house keeps its shape: thin modules, imports that point one way, and recipes that work as written."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from lib import paths
from lib.engine import families

MODULES = [file for file in sorted((paths.ROOT / "lib").rglob("*.py")) if file.name != "__init__.py"]


def test_lib_stays_thin():
    lines = {file.relative_to(paths.ROOT): len(file.read_text().splitlines()) for file in MODULES}
    assert len(lines) <= 60
    assert sum(lines.values()) <= 11_600  # controls and gates took 700; 10,500 is where it has to go: no room to grow
    assert [file for file, n in lines.items() if n > 500] == []


def test_imports_point_one_way():
    found = subprocess.run([Path(sys.executable).with_name("lint-imports"), "--no-cache"], cwd=paths.ROOT,
                           capture_output=True, text=True)
    assert found.returncode == 0, found.stdout


def recipes(file: str) -> list:
    """The python blocks of a page, each under the heading that it stands below."""
    heading, blocks = "", []
    for part in re.split(r"^(#+ [^\n]*|```python\n.*?^```)$", (paths.ROOT / file).read_text(), flags=re.M | re.S):
        if part.startswith("#"):
            heading = part.strip("# ")
        elif part.startswith("```python"):
            blocks.append(pytest.param(part.removeprefix("```python\n").removesuffix("```"), id=f"{file}: {heading}"))
    return blocks


@pytest.mark.parametrize("code", recipes("CONTRIBUTING.md") + recipes("README.md"))
def test_a_recipe_runs_as_written(code, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(paths, "ROOT", tmp_path)  # what it writes stays out of the repository
    monkeypatch.setattr(families, "FAMILIES", dict(families.FAMILIES))
    exec(compile(code, "recipe", "exec"), {})


def test_the_recipes_are_ten_lines():
    assert all(len(block.values[0].strip().splitlines()) <= 10 for block in recipes("CONTRIBUTING.md"))
    assert len(recipes("CONTRIBUTING.md")) == 4 and recipes("README.md")


def test_a_visitor_finds_the_names_in_lib():
    import lib
    from lib.engine import hooks, models

    assert lib.load is models.load and lib.head_mask is hooks.head_mask and lib.project is hooks.project
    assert all(hasattr(lib, name) for name in lib.__all__)
    with pytest.raises(AttributeError, match="lib has no"):
        _ = lib.nonsense
