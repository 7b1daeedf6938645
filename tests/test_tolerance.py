"""What the same number is: words equal, numbers within the tolerance or a unit of their
last place.
"""

import math

import nbformat
import pytest
from hypothesis import given, strategies as st
from nbformat.v4 import new_code_cell, new_notebook, new_output

from lib import paths
from lib.engine import tolerance
from lib.engine.tolerance import Text, differences, parse

pytest_plugins = "pytester"


@pytest.mark.parametrize(
    "text, value, unit",
    [
        ("1.30", 1.3, 0.01),
        ("-.5", -0.5, 0.1),
        ("12,345", 12345, 0),
        ("3e-05", 3e-5, 1e-5),
        ("2.5e3", 2500, 100),
        ("60%", 0.6, 0.01),
        ("+7.5 %", 0.075, 0.001),
        ("144", 144, 0),
    ],
)
def test_a_printed_number_has_a_value_and_a_last_place(text, value, unit):
    number = parse(text)
    assert number.value == pytest.approx(value) and number.unit == pytest.approx(unit)


@pytest.mark.parametrize("text", ["", "gpt2", "9-12 ", "nan", "02_fig1", "1.2.3", "mini-bert"])
def test_what_is_no_number_is_a_word(text):
    assert parse(text) is None


@pytest.mark.parametrize(
    "stored, new",
    [
        ("SEAT 1.30, p < .001", "SEAT 1.29, p < .001"),  # rounds to the other side
        ("a   1.00 \n b  10", "a 1.00 b 10"),  # a column is as wide as its widest number
        ("0.999999", "1"),
        ("PPPL 63912.4", "PPPL 63911.9"),
        ("61% [47%, 73%]", "60% [47%, 73%]"),
        ("nan", "nan"),
        ("0.31 [-0.00, 0.62]", "0.31 [0.00, 0.62]"),
    ],
)
def test_the_same_to_a_reader(stored, new):
    assert differences(stored, new) == [] and Text(stored) == new


@pytest.mark.parametrize(
    "stored, new, said",
    [
        ("SEAT 1.30", "SEAT 1.50", "1.30 is 1.50 now"),  # the second place
        ("0.412 of it", "0.422 of it", "0.412 is 0.422 now"),
        ("9 of 144 heads", "9 of 143 heads", "144 is 143 now"),  # a count is not rounded
        ("the claim holds", "the claim fails", "the claim holds is the claim fails now"),
        ("1.2 [0.9, 1.5]", "1.2", None),
        ("0.5 of heads", "nan of heads", None),
        ("sha256:12345678ab", "sha256:12345679ab", None),  # digits of a name are no number
        ("mini-gpt2", "mini-gpt3", None),
    ],
)
def test_another_digit_word_or_count_is_a_difference(stored, new, said):
    found = differences(stored, new)
    assert len(found) == 1 and Text(stored) != new
    assert said is None or str(found[0]) == said


def test_a_missing_row_is_a_difference():
    rows = ["a 1.0", "b 2.0", "c 3.0"]
    assert differences("\n".join(rows), "\n".join(rows[:2]))


@given(st.floats(-1e6, 1e6), st.floats(-1, 1))
def test_a_number_agrees_with_those_around_it_and_with_no_other(value, way):
    reach = tolerance.allowed(value)
    assert tolerance.agree(value, value + 0.99 * way * reach)
    assert not tolerance.agree(value, value + math.copysign(1.01, way) * reach)


def test_a_column_knows_the_last_place_better_than_its_number():
    """A table's file writes .50 as 0.5, which by itself would allow a tenth."""
    assert differences("0.5", "0.6", unit=0.01) and not differences("0.5", "0.6")
    assert not differences("0.5", "0.51", unit=0.01)


def test_nan_and_infinity_agree_with_themselves_alone():
    nan, inf = math.nan, math.inf
    assert tolerance.agree(nan, nan) and tolerance.agree(inf, inf)
    assert (
        not tolerance.agree(nan, 1.0)
        and not tolerance.agree(inf, -inf)
        and not tolerance.agree(inf, 1e300)
    )
    assert tolerance.size(nan, 1.0) == inf and tolerance.size(nan, nan) == 0


def test_the_notebook_check_fails_on_a_digit_a_word_and_a_row(pytester):
    """nbval itself, with the project's conftest.py: cells that say what is stored, and cells that
    do not.
    """
    table = "head  score\n9-12   0.412\n3-1    0.310\n"
    stored = {
        "the same": table,
        "a unit of the last place": table.replace("0.412", "0.411"),
        "a digit of the second place": table.replace("0.412", "0.422"),
        "a word": table.replace("score", "value"),
        "a missing row": table.replace("3-1    0.310\n", ""),
    }
    cells = []
    for title, text in stored.items():
        cells.append(new_code_cell(f"# {title}\nprint({table!r}, end='')", execution_count=1))
        cells[-1].outputs = [new_output("stream", name="stdout", text=text)]
    nbformat.write(new_notebook(cells=cells), pytester.path / "01_table.ipynb")
    pytester.makeconftest((paths.ROOT / "conftest.py").read_text())
    done = pytester.runpytest_subprocess("--nbval", "--nbval-current-env", "-v", "01_table.ipynb")
    done.stdout.fnmatch_lines([f"*Cell {i} PASSED*" for i in (0, 1)])
    done.stdout.fnmatch_lines([f"*Cell {i} FAILED*" for i in (2, 3, 4)])
    done.stdout.fnmatch_lines(["*0.422 is 0.412 now*", "*score*"])
