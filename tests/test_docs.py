"""What pages and notebooks say is so: links lead somewhere, numbers are those of the files, commands exist."""

import re
import subprocess
import sys

import nbformat
import pytest

from lib import paths

PAGES = sorted([*paths.ROOT.glob("*.md"), *paths.ROOT.glob("data/**/*.md"), *paths.ROOT.glob("benchmarks/*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text()):
        if not target.startswith("https://"):
            assert (page.parent / target.split("#")[0]).exists(), f"{page.name} links to {target}"


def test_the_readme_lists_every_notebook():
    text = (paths.ROOT / "README.md").read_text()
    listed = set(re.findall(r"\[(\d\d)\]\(notebooks/", text))
    assert listed == {path.name[:2] for path in paths.NOTEBOOKS.glob("[0-9]*.ipynb")}


def test_every_flag_of_the_readme_exists():
    text = (paths.ROOT / "README.md").read_text()
    known = subprocess.run([sys.executable, "-m", "lib.publish", "--help"], capture_output=True, text=True,
                           cwd=paths.ROOT, check=True).stdout
    for flag in set(re.findall(r"(?<![\w-])--[a-z]+", text)) - {"--help"}:
        assert flag in known


def test_notebooks_take_parameters_load_through_the_run_and_are_stored_clean():
    """As `./reproduce.sh --store` leaves them. run.load and run.cached record a model's revision with every result."""
    for path in sorted(paths.NOTEBOOKS.glob("*.ipynb")):
        content = nbformat.read(path, as_version=4)
        code = [cell for cell in content.cells if cell.cell_type == "code"]
        tagged, defaults = [cell for cell in code if "parameters" in cell.metadata.get("tags", [])], {}
        exec(tagged[0].source, {}, defaults)
        assert defaults == dict(profile="mini", data="mini", model="", device="", seed=0, recompute=False, out="")
        assert len(tagged) == 1 and len(code) <= 25 and not any("models.load(" in cell.source for cell in code)
        kinds = {output.get("name", output.output_type) for cell in code for output in cell.outputs}
        assert kinds and not kinds & {"error", "stderr"} and all(cell.execution_count for cell in code), path.name
        assert "papermill" not in content.metadata
