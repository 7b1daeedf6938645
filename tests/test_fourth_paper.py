"""A fourth paper, in a copy of the project: six places are touched, and it is everywhere.

It claims that a size is above zero. The models that it is about have a size of one, control models
one of zero; nothing is measured.
"""

import os
import re
import shutil
import subprocess
import sys

import nbformat
import pandas as pd
import pytest

from lib import paths

PRINTED = "table,row,column,value\nTable 1,all models,size,0.9\n"

PAPER = '''SIZES = Paper(
    key="sizes",
    title="Sizes of Models",
    authors="Nobody",
    address="https://example.org/sizes",
    question="Do models have a size?",
)
'''

CLAIM = {
    "id": "sizes-above",
    "paper": "sizes",
    "where": "Table 1",
    "says": "Models have a size above zero",
    "short": "models have a size",
    "notebook": "13",
    "figure": "13_fig1",
    "side": ">",
    "threshold": 0,
    "asks": "effect",
    "controls": "null",
}

MEASURE = '''"""Sizes: whether models have one: Nobody."""


def size(name: str) -> float:
    return 0.0 if name.startswith("null") else 1.0
'''

ESTIMATE = '''"""Its estimate, and its one figure."""

import matplotlib.pyplot as plt

from companion import look
from lib import Estimate


def estimate(size: float) -> Estimate:
    return Estimate(size, size - 0.1, size + 0.1, n=10)


def fig1(size: float):
    figure, ax = plt.subplots()
    ax.bar(["size"], [size])
    return look.sign(figure, "A model has a size", "no model at all")
'''

PARAMETERS = """profile = "mini"
data = ""
model = ""
device = ""
seed = 0
recompute = False
out = \"\""""

CELLS = [
    """from companion import printed, sizes as estimators
from companion.claims import Test
from companion.run import Run
from lib import sizes""",
    PARAMETERS,
    """run = Run(profile=profile, data=data, model=model, device=device, seed=seed, recompute=recompute, out=out)
size = sizes.size(run.encoder)""",
    """compared = printed.compare("sizes", {("Table 1", "all models", "size"): size}, same_model=False)
run.compared("13", "sizes", printed.by_key(compared))
run.save(compared, "13_table1", "Sizes, printed and ours.")""",
    """run.save(estimators.fig1(size), "13_fig1", "The size of a model.")""",
    """run.judged("13", [Test("sizes-above", estimators.estimate(size), run.encoder)])""",
]


def notebook() -> nbformat.NotebookNode:
    cells = [nbformat.v4.new_markdown_cell("# 13 · Sizes")]
    cells += [nbformat.v4.new_code_cell(source) for source in CELLS]
    cells[2].metadata["tags"] = ["parameters"]
    return nbformat.v4.new_notebook(cells=cells)


@pytest.fixture
def project(tmp_path):
    """A copy of the project with the fourth paper in it, without notebooks and stored runs of its
    own.
    """
    nothing_compiled = shutil.ignore_patterns("__pycache__")
    for folder in ("lib", "companion", "training", "requirements"):
        shutil.copytree(paths.ROOT / folder, tmp_path / folder, ignore=nothing_compiled)
    shutil.copytree(paths.PAPER, tmp_path / "data" / "paper")
    for place in ("lists", "demo", "models", "models.toml", "sources.toml", "hub.toml"):
        (tmp_path / "data" / place).symlink_to(paths.ROOT / "data" / place)
    shutil.copy(paths.ROOT / "pyproject.toml", tmp_path)
    add_paper(tmp_path)
    return tmp_path


def add_paper(root):
    """The six places of CONTRIBUTING.md, "A paper"."""
    (root / "data" / "paper" / "sizes.csv").write_text(PRINTED)

    claims = pd.concat([pd.read_csv(paths.CLAIMS, dtype=str), pd.DataFrame([CLAIM])])
    claims.to_csv(root / "data" / "claims.csv", index=False)

    change(root / "companion" / "papers.py", r"\n(PAPERS = .*COUNTERACTS)", rf"\n{PAPER}\1, SIZES")

    (root / "lib" / "sizes.py").write_text(MEASURE)
    (root / "companion" / "sizes.py").write_text(ESTIMATE)

    change(root / "pyproject.toml", r'(\n    "bias_a_head[^"]*)', r"\1 | sizes")
    change(root / "pyproject.toml", r'(layers = .*"bias_a_head[^"]*)', r"\1 | sizes")

    (root / "notebooks").mkdir()
    nbformat.write(notebook(), root / "notebooks" / "13_sizes.ipynb")


def change(file, old: str, new: str):
    text, count = re.subn(old, new, file.read_text())
    assert count == 1
    file.write_text(text)


def called(root, *arguments: str) -> str:
    """What a Python of the copy prints; it has to end well."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("COMPANION_")}
    done = subprocess.run(
        [sys.executable, "-P", *arguments],
        cwd=root,
        env=own | {"PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_fourth_paper_is_run_judged_and_reported(project):
    called(project, "-m", "companion", "--profile", "null", "--only", "13", "--store")
    called(project, "-m", "companion", "--only", "13")
    assert re.search(r"13_sizes +up to date", called(project, "-m", "companion", "--list"))

    report = project / "build" / "report"
    board = (report / "board.html").read_text()
    assert "Sizes of Models" in board and "Models have a size above zero" in board
    assert 'id="sizes-above" data-outcome="supported"' in board and "13_fig1.svg" in board
    assert "beyond it 1 [0.859, 1.14]" in board  # beyond the untrained networks
    assert "Do models have a size?" in (report / "index.html").read_text()

    called(project, "-c", "from importlinter.cli import lint_imports_command as c; c()")
