"""Recipes run as written, pages and links say what is so, notebooks are stored clean."""

import re

import nbformat
import pytest

import lib
from companion.__main__ import parser
from lib import paths
from lib.engine import families, hooks, models


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


def test_the_recipes_are_ten_lines_and_a_visitor_finds_the_names_in_lib():
    for block in recipes("CONTRIBUTING.md"):
        assert len(block.values[0].strip().splitlines()) <= 15
    assert len(recipes("CONTRIBUTING.md")) == 6
    assert recipes("README.md")
    assert lib.load is models.load
    assert lib.head_mask is hooks.head_mask
    assert lib.project is hooks.project
    assert all(hasattr(lib, name) for name in lib.__all__)
    with pytest.raises(AttributeError, match="lib has no"):
        _ = lib.nonsense


PAGES = sorted(
    [
        *paths.ROOT.glob("*.md"),
        *paths.ROOT.glob("data/**/*.md"),
        *paths.ROOT.glob("benchmarks/*.md"),
    ]
)


def test_links_lead_somewhere():
    dead = []
    for page in PAGES:
        for target in re.findall(r"\]\(([^)]+)\)", page.read_text()):
            is_local = not target.startswith("https://")
            if is_local and not (page.parent / target.split("#")[0]).exists():
                dead.append((page.name, target))
    assert dead == []


def test_the_readme_lists_every_notebook_and_its_flags_exist():
    text = (paths.ROOT / "README.md").read_text()
    listed = set(re.findall(r"\[(\d\d)\]\(notebooks/", text))
    assert listed == {path.name[:2] for path in paths.NOTEBOOKS.glob("[0-9]*.ipynb")}
    used = set(re.findall(r"(?<![\w-])--[a-z]+", text)) - {"--help", "--depth"}
    assert [flag for flag in used if flag not in parser().format_help()] == []


def test_notebooks_take_parameters_load_through_the_run_and_are_stored_clean():
    """As `./reproduce.sh --store` leaves them; run.load and run.cached record revisions."""
    for path in sorted(paths.NOTEBOOKS.glob("*.ipynb")):
        content = nbformat.read(path, as_version=4)
        assert "papermill" not in content.metadata
        code = [cell for cell in content.cells if cell.cell_type == "code"]
        assert len(code) <= 25
        assert not any("models.load(" in cell.source for cell in code)
        assert all(cell.execution_count for cell in code), path.name

        tagged = [cell for cell in code if "parameters" in cell.metadata.get("tags", [])]
        assert len(tagged) == 1
        defaults = {}
        exec(tagged[0].source, {}, defaults)
        assert defaults == dict(
            profile="mini", data="mini", model="", device="", seed=0, recompute=False, out=""
        )

        kinds = set()
        for cell in code:
            kinds |= {output.get("name", output.output_type) for output in cell.outputs}
        assert kinds, path.name
        assert not kinds & {"error", "stderr"}, path.name
