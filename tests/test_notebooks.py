"""Notebooks read like a paper: a sentence, a call, a figure. That they run is for nbval to see."""

import ast
from statistics import median

import nbformat
import pytest

from lib import paths

NAMES = ["profile", "data", "model", "device", "seed", "recompute", "out"]


@pytest.fixture(params=sorted(paths.NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def content(request):
    return nbformat.read(request.param, as_version=4)


@pytest.fixture
def code(content):
    return [cell for cell in content.cells if cell.cell_type == "code"]


def test_short_cells_and_no_definitions(code):
    nodes = [type(node) for cell in code for node in ast.walk(ast.parse(cell.source))]
    assert not {ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda} & set(nodes)
    assert len(code) <= 25 and median(len(cell.source.splitlines()) for cell in code) <= 8


def test_parameters(code):
    tagged = [cell for cell in code if "parameters" in cell.metadata.get("tags", [])]
    assert len(tagged) == 1
    defaults = {}
    exec(tagged[0].source, {}, defaults)
    assert list(defaults) == NAMES and list(defaults.values()) == ["mini", "mini", "", "", 0, False, ""]


def test_models_are_loaded_through_the_run(code):
    """run.load and run.cached record the revision with every result; models.load by itself does not."""
    assert not any("models.load(" in cell.source for cell in code)


def test_stored_outputs_are_clean(content, code):
    """As `python -m lib.publish.reproduce --store` leaves them."""
    assert all(cell.execution_count for cell in code)
    outputs = [output for cell in code for output in cell.outputs]
    kinds = {output.get("name", output.output_type) for output in outputs}
    assert kinds and not kinds & {"error", "stderr"}
    assert "papermill" not in content.metadata
