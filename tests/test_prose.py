"""The text of notebooks: short paragraphs, few conclusions, and no number that no table has."""

import json
import re

import nbformat
import pandas as pd
import pytest

from lib import paths

MOST_WORDS = 90  # of a paragraph
MOST_CONCLUSIONS = 5
MOST_LINES = 40  # of code before the first figure
ALL = tuple(path.name[:2] for path in sorted(paths.NOTEBOOKS.glob("[0-9]*.ipynb")))
# numbers in whose text are looked up
CHECKED = ("00", "01", "02", "03", "04", "05", "06", "07", "08", "09", "10", "11")
DECIMAL = re.compile(r"(?<![\w.])-?\d*\.\d+(?![\w.]*\d)")
PERCENT = re.compile(r"(\d+) %")


def texts(number: str) -> list[str]:
    """The Markdown cells of a notebook."""
    (file,) = paths.NOTEBOOKS.glob(f"{number}_*.ipynb")
    cells = nbformat.read(file, as_version=4).cells
    return [cell.source for cell in cells if cell.cell_type == "markdown"]


def paragraphs(text: str) -> list[str]:
    """What stands between blank lines; each line of a list or of a table for itself."""
    return [part.strip() for part in re.split(r"\n\s*\n|\n(?=\s*[-|])", text) if part.strip()]


def numbers(text: str) -> list[tuple[float, int]]:
    """Decimals and percentages in prose: (value, digits after the point)."""
    text = re.sub(r"\$.*?\$|`.*?`|\]\(.*?\)", " ", text, flags=re.DOTALL)
    found = [(float(one), len(one.partition(".")[2])) for one in DECIMAL.findall(text)]
    return found + [(int(one) / 100, 2) for one in PERCENT.findall(text)]


def stored(number: str) -> list[float]:
    """Every number in the tables and titles that a notebook has stored of the bundled models, and
    that the papers print.
    """
    parts = [file.read_text() for file in (paths.ROOT / "data" / "paper").glob("*.csv")]
    for run in ("mini", "mini-real"):
        folder = paths.FIGURES / run
        parts += [file.read_text() for file in folder.glob(f"{number}_*.csv")]
        for file in folder.glob(f"{number}_*.json"):
            parts.append(json.loads(file.read_text()).get("finding", ""))
    return [float(one) for part in parts for one in re.findall(r"-?\d*\.?\d+", part)]


def test_paragraphs_and_numbers_are_found():
    text = "One two.\nThree.\n\n- four\n- five six\n\n| a | b |\n|---|---|"
    assert paragraphs(text) == [
        "One two.\nThree.",
        "- four",
        "- five six",
        "| a | b |",
        "|---|---|",
    ]
    said = "It is -0.72 [-1.01, -.45], 92 % of version 0.1.2; $x = 0.5$, `0.3`, [a](b0.4), 12-9."
    assert numbers(said) == [(-0.72, 2), (-1.01, 2), (-0.45, 2), (0.92, 2)]


@pytest.mark.parametrize("number", ALL)
def test_no_paragraph_is_long(number):
    long = []
    for text in texts(number):
        long += [one for one in paragraphs(text) if len(one.split()) > MOST_WORDS]
    assert long == []


@pytest.mark.parametrize("number", ("00", "10"))
def test_a_notebook_opens_with_question_and_answers_and_closes_with_few_conclusions(number):
    every = texts(number)
    for opening in ("**The question.**", "**The paper", "**Ours"):
        assert opening in every[0]
    conclusions = [text for text in every if re.search(r"## (What we see|In short)", text)]
    assert len(conclusions) == 1
    of_conclusion = re.split(r"\*\*What would|## What would", conclusions[0])[0]
    bullets = re.findall(r"^- ", of_conclusion, flags=re.M)
    assert 0 < len(bullets) <= MOST_CONCLUSIONS


@pytest.mark.parametrize("number", ("01", "02", "04", "12"))
def test_a_notebook_opens_with_question_and_answers_and_computes_its_conclusions(number):
    every = texts(number)
    for opening in ("**The question.**", "**The paper", "**Ours"):
        assert opening in every[0]
    (heading,) = [text for text in every if text.startswith(("## What we see", "## In short"))]
    (file,) = paths.NOTEBOOKS.glob(f"{number}_*.ipynb")
    sources = [cell.source for cell in nbformat.read(file, as_version=4).cells]
    assert "run.tell(" in sources[sources.index(heading) + 1]


@pytest.mark.parametrize("number", ("02", "04", "05", "06", "07", "08", "09"))
def test_the_first_figure_stands_within_forty_lines_of_code(number):
    (file,) = paths.NOTEBOOKS.glob(f"{number}_*.ipynb")
    lines = 0
    for cell in nbformat.read(file, as_version=4).cells:
        if cell.cell_type == "code":
            lines += len([line for line in cell.source.splitlines() if line.strip()])
            if "figures." in cell.source:
                break
    assert lines <= MOST_LINES


@pytest.mark.parametrize("number", ("03", "05", "06", "07", "08", "09"))
def test_a_notebook_whose_conclusions_are_computed_opens_with_question_and_answers(number):
    every = texts(number)
    for opening in ("**The question.**", "**The paper", "**Ours"):
        assert opening in every[0]
    (conclusions,) = [text for text in every if re.search(r"## What we see", text)]
    assert not numbers(conclusions), "results are typed where code makes them"


@pytest.mark.parametrize("number", CHECKED)
def test_a_number_in_the_text_stands_in_a_stored_table(number):
    known = pd.Series(stored(number))
    for text in texts(number):
        for value, digits in numbers(text):
            nearest = (known - value).abs().min()
            assert nearest <= 0.5 * 10**-digits + 1e-9, f"{value} in {text[:300]}"


def test_the_scoreboard_types_no_result():
    """What it says in numbers is made by code; left is the size of intervals."""
    typed = {value for text in texts("12") for value, _ in numbers(text)}
    assert typed == {0.95}
