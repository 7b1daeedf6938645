"""Titles say what their figure shows: one finding, at most two numbers, never what noise says."""

import re

import numpy as np
import pandas as pd

from lib.bias_a_head import tables as bias_tables
from lib.counteracts import figures as cloze_figures
from lib.engine.stats import Estimate
from lib.publish import figures as board_figures
from lib.together import Role

UP = Estimate(0.2, 0.1, 0.3)
DOWN = Estimate(-0.2, -0.3, -0.1)
OPEN = Estimate(0.1, -0.1, 0.3)


def n_numbers(title: str) -> int:
    """Numbers in a title, those of models' names aside."""
    return len(re.findall(r"(?<![\w-])-?\d+(\.\d+)?", title.replace("top 3", "")))




def test_heads_above_the_upper_fence_are_those_that_stand_out():
    """Quartiles of 0 to 8 are 2 and 6: the fence is at 12."""
    scores = np.array([*range(8), 8.0])
    assert bias_tables.upper_fence(scores) == 12
    scores = np.random.default_rng(0).standard_t(2, (12, 12))
    _, right = bias_tables.outliers(scores)
    assert (scores > bias_tables.upper_fence(scores)).sum() == right > 0


def remedies(*rows) -> pd.DataFrame:
    """(remedy, measure, change), each change known to .05 either way."""
    table = pd.DataFrame(rows, columns=["mitigation", "measure", "change"])
    ends = {"low": table["change"] - 0.05, "high": table["change"] + 0.05}
    return table.assign(role=Role.REMEDY, overturned=False, **ends)


def test_remedies_are_said_to_improve_all_or_not_and_to_have_a_price():
    title = board_figures.effects_title
    both = [("a", "SEAT", -0.2), ("a", "cloze gap", -0.2), ("a", "PPPL", 0.2)]
    one = [("b", "SEAT", -0.2), ("b", "cloze gap", 0.0), ("b", "PPPL", 0.2)]
    free = [("c", "SEAT", 0.0), ("c", "cloze gap", 0.0), ("c", "PPPL", 0.0)]
    paid = "measures of bias, and each has its price"
    assert title(remedies(*both, *one)) == f"a improves all 2 {paid}"
    assert title(remedies(*one)) == f"No remedy improves all 2 {paid}"
    assert title(remedies(*one, *free)) == "No remedy improves all 2 measures of bias"


def margins(*rows: list[float]) -> pd.DataFrame:
    return pd.DataFrame(rows)


def test_crosses_and_title_of_the_sensitivity_figure_go_by_one_rule():
    """A change of sign near 0 is no preference turned round."""
    table = margins([0.5, 0.05, -0.5], [0.4, -0.05, 0.05], [-0.2, 0.5, -0.3])
    assert cloze_figures._flips(table).to_numpy().tolist() == [
        [False, False, False],
        [False, False, False],
        [True, False, False],
    ]
    steady = margins([0.5, 0.5, 0.5], [0.4, 0.4, 0.05])
    title = cloze_figures._turned_round({"a": table, "b": steady})
    assert title == (
        "Prompts and words to count: another choice turns 1 of 3 preferences round in a, none in b"
    )
    assert "no other choice turns" in cloze_figures._turned_round({"b": steady})


def test_a_runner_up_within_the_interval_is_named_beside_the_first():
    def ratios(kind: str, *values: float) -> list[tuple]:
        return [(f"job {i}", kind, "female", value) for i, value in enumerate(values)]

    rows = ratios("target semantic similar", 1.2, 1.4, 1.6)
    near = ratios("target counter semantic similar", 1.3, 1.3, 1.4)
    far = ratios("unrelated", 0.5, 0.5, 0.6)

    def title(*rows: tuple) -> str:
        columns = ["occupation", "kind", "gender", "ratio"]
        return cloze_figures._what_gains_most(pd.DataFrame(rows, columns=columns))[0]

    first = "Gendered words that stay likely gain most after an example of another form, 1.4 times"
    assert title(*rows, *far) == first
    assert title(*rows, *near, *far) == (
        f"{first}; not clearly more than after a counterexample of another form"
    )
    # after SmolLM2's base prompts no kind makes gendered words likelier
    assert (
        title(*far)
        == "Gendered words that stay likely lose least after an unrelated sentence, 0.5 times"
    )
    lost = ratios("target semantic similar", 0.5, 0.6, 0.6)
    assert title(*far, *lost).endswith("times; not clearly less than after an unrelated sentence")
