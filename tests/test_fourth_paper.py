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

PAPER = '''"""Sizes: whether models have one: Nobody."""

from companion.claims import Paper

PAPER = Paper(
    key="sizes",
    title="Sizes of Models",
    authors="Nobody",
    address="https://example.org/sizes",
    question="Do models have a size?",
    notebooks=("13",),
    deciding=("sizes-above",),
    figure="13_fig1",
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

FIGURES = '''"""The one figure."""

import matplotlib.pyplot as plt

from companion import look


def fig1(size):
    figure, ax = plt.subplots()
    ax.bar(["size"], [size])
    return look.sign(figure, "A model has a size", "no model at all")
'''

CELLS = [
    """from lib import Estimate, printed
from companion.claims import Test
from companion.run import Run
from lib.sizes import figures"""
    """profile = "mini"
data = ""
model = ""
device = ""
seed = 0
recompute = False
out = \"\"""",
    """run = Run(profile=profile, data=data, model=model, device=device, seed=seed, recompute=recompute, out=out)
size = 0.0 if run.is_control else 1.0""",
    """compared = printed.compare("sizes", {("Table 1", "all models", "size"): size}, same_model=False)
run.compared("13", "sizes", printed.by_key(compared))
run.save(compared, "13_table1", "Sizes, printed and ours.")""",
    """run.save(figures.fig1(size), "13_fig1", "The size of a model.")""",
    """estimate = Estimate(size, size - 0.1, size + 0.1, n=10)
run.judged("13", [Test("sizes-above", estimate, run.encoder)])""",
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
    for folder in ("lib", "training"):
        shutil.copytree(paths.ROOT / folder, tmp_path / folder, ignore=nothing_compiled)
    shutil.copytree(paths.PAPER, tmp_path / "data" / "paper")
    for place in ("lists", "demo", "models", "models.toml", "sources.toml", "hub.toml"):
        (tmp_path / "data" / place).symlink_to(paths.ROOT / "data" / place)
    for name in ("pyproject.toml", "requirements.txt", "constraints.txt"):
        shutil.copy(paths.ROOT / name, tmp_path / name)
    add_paper(tmp_path)
    return tmp_path


def add_paper(root):
    """The six places of CONTRIBUTING.md, "A paper"."""
    (root / "data" / "paper" / "sizes.csv").write_text(PRINTED)

    claims = pd.concat([pd.read_csv(paths.CLAIMS, dtype=str), pd.DataFrame([CLAIM])])
    claims.to_csv(root / "data" / "claims.csv", index=False)

    folder = root / "lib" / "sizes"
    folder.mkdir()
    (folder / "__init__.py").write_text(PAPER)
    (folder / "figures.py").write_text(FIGURES)

    (root / "notebooks").mkdir()
    nbformat.write(notebook(), root / "notebooks" / "13_sizes.ipynb")

    change(root / "lib" / "publish" / "papers.py", r'(    "counteracts",\n)', r'\1    "sizes",\n')
    change(root / "pyproject.toml", r'(projective \| counteracts)"', r'\1 | sizes"')


def change(file, old: str, new: str):
    text, count = re.subn(old, new, file.read_text())
    assert count == 1
    file.write_text(text)


def companion(root, *arguments: str) -> str:
    """What a command of the copy prints; it has to end well."""
    return called(root, sys.executable, "-P", "-m", "companion", *arguments)


def called(root, *command: str) -> str:
    own = {name: value for name, value in os.environ.items() if not name.startswith("COMPANION_")}
    done = subprocess.run(
        command,
        cwd=root,
        env=own | {"PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_fourth_paper_is_listed_judged_and_reported(project):
    assert re.search(r"13_sizes +stale: never run here", companion(project, "--list"))
    companion(project, "--profile", "null", "--only", "13", "--store")
    companion(project, "--only", "13")
    assert re.search(r"13_sizes +up to date", companion(project, "--list"))

    board = called(
        project,
        sys.executable,
        "-c",
        "from lib import ledger, results; tests = ledger.table(results.runs_shown()); "
        "row = ledger.board(tests).set_index('claim').loc['sizes-above']; "
        "print(row['paper'], row['outcome'], row['controls'][0].difference)",
    )
    assert board == "sizes supported 1.00 [0.86, 1.14]\n"

    report = project / "build" / "report"
    page = (report / "board.html").read_text()
    assert "Sizes of Models" in page and "Models have a size above zero" in page
    assert 'id="sizes-above" data-outcome="supported"' in page and "13_fig1.svg" in page
    assert "Do models have a size?" in (report / "index.html").read_text()

    called(
        project, sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()"
    )
