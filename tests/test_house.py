"""Recipes run as written, links and numbers in words lead somewhere, notebooks are stored clean."""

import json
import re

import nbformat
import numpy as np
import pytest

import lib
from companion.__main__ import parser
from lib import paths
from lib.engine import families, hooks, models

NOTEBOOKS = sorted(paths.NOTEBOOKS.glob("[0-9]*.ipynb"))
PAGES = [file for under in ("", "*/", "data/*/") for file in paths.ROOT.glob(f"{under}*.md")]


def recipes(file: str) -> list:
    """The python blocks of a page, each under the heading that it stands below."""
    heading = ""
    blocks = []
    page = (paths.ROOT / file).read_text()
    for part in re.split(r"^(#+ [^\n]*|```python\n.*?^```)$", page, flags=re.M | re.S):
        if part.startswith("#"):
            heading = part.strip("# ")
        elif part.startswith("```python"):
            code = part.removeprefix("```python\n").removesuffix("```")
            blocks.append(pytest.param(code, id=f"{file}: {heading}"))
    return blocks


@pytest.mark.parametrize("code", recipes("CONTRIBUTING.md") + recipes("README.md"))
def test_a_recipe_runs_as_written(code, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(paths, "ROOT", tmp_path)  # what it writes stays out of the repository
    monkeypatch.setattr(families, "FAMILIES", dict(families.FAMILIES))
    exec(compile(code, "recipe", "exec"), {})


def test_a_visitor_finds_the_names_in_lib():
    assert len(recipes("CONTRIBUTING.md")) == 6 and recipes("README.md")
    assert (lib.load, lib.head_mask, lib.project) == (models.load, hooks.head_mask, hooks.project)
    assert all(hasattr(lib, name) for name in lib.__all__)
    with pytest.raises(AttributeError, match="lib has no"):
        _ = lib.nonsense


# ---- words
def in_words(file) -> str:
    """A page, or what a notebook says in words."""
    if file.suffix == ".md":
        return file.read_text()
    cells = nbformat.read(file, as_version=4).cells
    return "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")


@pytest.mark.parametrize("file", PAGES + NOTEBOOKS, ids=lambda file: file.name)
def test_links_lead_somewhere(file):
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", in_words(file))
    local = [one for one in targets if not one.startswith("https://")]
    assert [one for one in local if not (file.parent / one).exists()] == []


def test_the_readme_lists_every_notebook_and_its_flags_exist():
    text = (paths.ROOT / "README.md").read_text()
    assert set(re.findall(r"\]\((notebooks/\d\d_\w+.ipynb)", text)) == {
        f"notebooks/{file.name}" for file in NOTEBOOKS
    }
    used = set(re.findall(r"(?<![\w-])--[a-z]+", text)) - {"--help", "--depth"}
    assert [flag for flag in used if flag not in parser().format_help()] == []


def numbers(text: str) -> list[tuple[float, float]]:
    """Decimals and percentages in words: (value, half a unit of the last digit)."""
    text = re.sub(r"\$.*?\$|`.*?`|\]\(.*?\)", " ", text, flags=re.DOTALL)
    decimals = re.findall(r"(?<![\w.])-?\d*\.\d+(?![\w.]*\d)", text)
    found = [(float(one), 0.5 * 10 ** -len(one.partition(".")[2])) for one in decimals]
    return found + [(int(one) / 100, 0.005) for one in re.findall(r"(\d+) %", text)]


def test_numbers_in_words_are_found():
    said = "It is -0.72 [-1.01, -.45], 92 % of version 0.1.2; $x = 0.5$, `0.3`, [a](b0.4), 12-9."
    assert [value for value, _ in numbers(said)] == [-0.72, -1.01, -0.45, 0.92]


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.name)
def test_a_number_in_words_stands_in_a_stored_table(file):
    """Of the bundled models, or in a paper: or it is out of date."""
    stored = [one.read_text() for one in paths.PAPER.glob("*.csv")]
    for run in ("mini", "mini-real"):
        for one in (paths.FIGURES / run).glob(f"{file.name[:2]}_*.*"):
            if one.suffix == ".csv":
                stored.append(one.read_text())
            elif one.suffix == ".json":
                stored.append(json.loads(one.read_text()).get("finding", ""))
    known = re.findall(r"-?\d*\.?\d+", "\n".join([*stored, "0.95"]))  # the size of intervals
    known = np.array(known, dtype=float)
    for value, half_a_unit in numbers(in_words(file)):
        assert np.abs(known - value).min() <= half_a_unit + 1e-9, f"{value} in {file.name}"


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.name)
def test_a_notebook_takes_parameters_and_is_stored_clean(file):
    """As `./reproduce.sh --store` leaves it."""
    content = nbformat.read(file, as_version=4)
    assert "papermill" not in content.metadata
    code = [cell for cell in content.cells if cell.cell_type == "code"]
    assert len(code) <= 25 and all(cell.execution_count for cell in code)
    (tagged,) = [cell for cell in code if "parameters" in cell.metadata.get("tags", [])]
    defaults = {}
    exec(tagged.source, {}, defaults)
    expected = dict(profile="mini", data="mini", model="", device="", seed=0, recompute=False)
    assert defaults == expected | {"out": ""}
    kinds = {output.get("name", output.output_type) for cell in code for output in cell.outputs}
    assert kinds and not kinds & {"error", "stderr"}
