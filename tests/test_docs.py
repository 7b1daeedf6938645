"""What pages and notebooks say is so: links lead somewhere, numbers are those of the files, commands exist."""

import json
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


@pytest.mark.parametrize("name, measures", [
    ("mini-bert", {"mlm_perplexity": "{:.1f}", "nsp_accuracy": "{:.3f}", "mlm_perplexity_single_sentences": "{:.1f}",
                   "nsp_accuracy_single_sentences": "{:.3f}"}),
    ("mini-roberta", {"mlm_perplexity": "{:.1f}", "mlm_perplexity_single_sentences": "{:.1f}"}),
    ("mini-albert", {"mlm_perplexity": "{:.1f}", "order_accuracy": "{:.3f}",
                     "mlm_perplexity_single_sentences": "{:.1f}", "order_accuracy_single_sentences": "{:.3f}"}),
    ("mini-gpt2", {"perplexity_256": "{:.1f}", "perplexity_128": "{:.1f}"}),
])
def test_the_model_card_states_what_was_measured(name, measures):
    card = (paths.MODELS / "README.md").read_text()
    record = json.loads((paths.MODELS / name / "training.json").read_text())
    for measure, form in measures.items():
        assert form.format(record["heldout"][measure]).lstrip("0") in card
    assert f"{record['training']['steps']:,} steps of {record['training']['batch_tokens']:,} tokens" in card
    assert f"{record['text']['dropped']} documents" in card
    for number in record["text"]["dropped_for"].values():
        assert re.search(rf"\b{number}\b", card)


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
