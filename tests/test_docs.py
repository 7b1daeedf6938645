"""What the pages say is so: links lead somewhere, numbers are those of the files, commands exist."""

import json
import re
import subprocess
import sys

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
    listed = set(re.findall(r"\[(\d\d)_\w+\]\(notebooks/", text))
    assert listed == {path.name[:2] for path in paths.NOTEBOOKS.glob("[0-9]*.ipynb")}


def test_the_readme_names_every_module():
    text = (paths.ROOT / "README.md").read_text()
    named = set(re.findall(r"`(\w+)`", text))
    missing = {path.stem for path in (paths.ROOT / "lib").glob("*.py")} - named - {"__init__", "paths"}
    assert not missing


def test_every_flag_of_the_readme_exists():
    text = (paths.ROOT / "README.md").read_text()
    known = subprocess.run([sys.executable, "-m", "lib.publish.reproduce", "--help"], capture_output=True, text=True,
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
