"""The printed numbers: all there, as printed, and held against ours."""

import math
import os
import re
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from scipy import stats as scipy_stats

from companion import printed
from companion.papers import PAPERS
from companion.printed import Match
from companion.run import Run
from lib.engine import folders, nsp
from lib.engine.stats import Estimate
from tests.tiny import refuses

COUNTS = {
    "bias_a_head": {"Table 1": 12, "Table 2": 39, "Table 3": 31, "Figure 3": 4}
    | {f"Figure 4{panel}": 6 for panel in "abc"},
    "projective": {"Table 1": 3, "Table 3": 10, "Table 4": 6, "Table 5": 36, "Table 6": 24}
    | {"Table 7": 456, "Table 7 caption": 1},
    "counteracts": {"Table 1": 58},
}
LOST = {"bias_a_head": {("Figure 3", "regular"), ("Table 3", "5"), ("Table 3", "10")}}


@pytest.mark.parametrize("name", PAPERS)
def test_every_table_has_its_numbers(name):
    numbers = printed.numbers(name)
    of_tables = numbers[numbers["table"].str.startswith(("Table", "Figure"))]
    assert of_tables["table"].value_counts().to_dict() == COUNTS[name]
    assert not numbers.duplicated(["table", "row", "column"]).any()
    lost = numbers[numbers["value"].isna()]
    assert set(zip(lost["table"], lost["row"])) == LOST.get(name, set())


@pytest.mark.parametrize("figure", ["4a", "4b", "4c"])
def test_the_p_of_figure_4_are_those_of_its_t(figure):
    table = printed.printed("bias_a_head", f"Figure {figure}")
    for _, row in table.loc[["biased", "regular"]].iterrows():
        p = scipy_stats.t.sf(float(row["t"]), float(row["N"]) - 1)  # one-tailed, paired
        told = str(row["p"])
        if told.startswith("<"):
            assert p < float(told[2:])
        else:
            assert p == pytest.approx(float(told), abs=0.005)


def test_bias_a_head_repeats_its_tables_and_contradicts_its_words():
    text, one = (printed.printed("bias_a_head", name) for name in ("Appendix A", "Table 1"))
    for row in ("full", "Top-3", "All"):
        assert text.loc[row, "PPPL"] == one.loc[row, "PPPL"]
    seat = printed.printed("bias_a_head", "Footnote 9")["SEAT"]
    assert seat["bert-base"] == one.loc["full", "SEAT"]
    # a random choice costs less PPPL than Top-3, which "has the lowest"
    assert one.loc["Random-3", "PPPL"] < one.loc["Top-3", "PPPL"]


def test_counteracts_numbers_add_up():
    share = printed.numbers("counteracts").query("table == 'Table 1'")["value"].astype(float)
    prose = printed.numbers("counteracts").query("table == 'prose'")
    said = dict(zip(zip(prose["row"], prose["column"]), prose["value"].astype(float)))
    dataset = {column: value for (row, column), value in said.items() if row == "Dataset"}
    assert (share < 50).sum() == dataset["male-dominated"] and share.is_monotonic_increasing
    assert (share > 50).sum() == dataset["female-dominated"]
    assert len(share) == dataset["occupations"]
    variants = [said["Baseline Models", name] for name in ("BERT", "ALBERT", "RoBERTa", "GPT-2")]
    assert sum(variants) == said["Conclusion", "models"]
    # the prompts are those of 40 occupations, not of the 58: 7 kinds, and 3 with 20 backgrounds
    assert dataset["prompts"] == 40 * (7 + 3 * 20)


WORDS = {"1": "one", "2": "two", "3": "three", "4": "four", "5": "five", "7": "seven"}
IN_WORDS = ["viable", "lower S", "not lower S", "worst S, the rest equal"]


@pytest.mark.parametrize("name", PAPERS)
def test_every_printed_number_is_in_the_paper(name):
    """Where COMPANION_PAPERS names a folder with the papers' texts: bias-a-head.md and so on."""
    folder = os.environ.get("COMPANION_PAPERS")
    if not folder:
        pytest.skip("COMPANION_PAPERS is not set: the papers' texts are not at hand")
    text = (Path(folder) / f"{name.replace('_', '-')}.md").read_text()
    found = re.findall(r"(?<![\d.])-?\d[\d,]*\.?\d*|(?<!\d)\.\d+", text.replace("−", "-"))
    found = {number.replace(",", "").rstrip(".") for number in found}
    found |= {digit for digit, word in WORDS.items() if re.search(rf"\b{word}\b", text)}
    numbers = printed.numbers(name).dropna()
    numbers = numbers[~numbers["column"].isin(IN_WORDS) & ~numbers["value"].str.contains(r"\(")]
    assert set(numbers["value"].str.removeprefix("< ")) <= found


def test_tables_3_and_4_are_the_equations_of_the_paper():
    strengths, distances = (printed.printed("projective", f"Table {n}") for n in (3, 4))
    for row in "ab":  # as printed, the swapped side's labels have changed places; a file keeps them
        plain, swapped = strengths.loc[row], strengths.loc[f"{row}_GS"]
        own = {"stereo": [plain["Stereo"]], "anti": [plain["Anti"]]}
        own |= {"gs_stereo": [swapped["Anti"]], "gs_anti": [swapped["Stereo"]]}
        assert nsp.strengths(own)[0] == pytest.approx(plain["s"], abs=5.1e-4)
        unrelated, gs_unrelated = distances.loc[row, "Unr"], distances.loc[f"{row}_GS", "Unr"]
        pair = {"unrelated": [unrelated], "gs_unrelated": [gs_unrelated]}
        assert nsp.distances(pair)[0] == pytest.approx(distances.loc[row, "d"], abs=1e-9)


NOWHERE = {("Table 7", "Bass", "S"): 1.0}
test_what_is_not_there_is_named = refuses(
    (lambda: printed.printed("projective", "Table 9"), "Table 9.*Table 7"),
    (lambda: printed.printed("projection", "Table 1"), "projective"),
    (lambda: printed.numbers("claims"), "claims"),
    (lambda: printed.compare("projective", NOWHERE, same_model=True), "Bass"),
)


@pytest.mark.parametrize(
    "parameters, model, is_papers",
    [
        (dict(profile="paper"), "bert-base", True),
        (dict(profile="paper"), "bert-large", False),  # of the paper, which prints nothing of it
        (dict(profile="paper", model="gpt2"), "bert-base", True),
        (dict(profile="paper", model=f"gpt2@{'0' * 40}"), "gpt2", False),
        (dict(data="paper"), "mini-bert", False),
        (dict(), "bert-base", False),
    ],
)
def test_one_rule_says_whether_a_number_is_of_the_papers_model(
    parameters, model, is_papers, monkeypatch
):
    monkeypatch.setattr(folders, "REGISTRY", dict(folders.REGISTRY))  # a commit is pinned in it
    assert Run(**parameters).is_papers(model) == is_papers


@given(st.decimals(-1000, 1000, places=3, allow_nan=False), st.integers(0, 3), st.floats(-2, 2))
def test_a_match_is_to_the_printed_digits(exact, places, off):
    shown = f"{exact:.{places}f}"
    unit = 10.0**-places
    said = printed.match(shown, float(shown) + off * unit, same_model=True)
    if abs(abs(off) - 0.5) > 1e-4:  # beside the edge, where rounding of floats decides
        assert (said == Match.MATCHES) == (abs(off) < 0.5)
    assert printed.match(shown, float(shown), same_model=False) == Match.OTHER_MODEL


@pytest.mark.parametrize(
    "value, ours, same, said",
    [
        ("0.3", 0.349, True, "matches"),
        ("0.30", Estimate(0.4, 0.2, 0.5), True, "within interval"),
        ("0.30", Estimate(0.4, 0.35, 0.5), True, "differs: other pairs"),
        ("37", 37, True, "matches"),
        (math.nan, 0.3, True, "not run (the printed number is lost)"),
        (None, 0.3, True, "not run (the printed number is lost)"),
        ("0.30", None, False, "not run (no head)"),
        ("0.30", math.nan, True, "not run (no head)"),
        ("0.30", math.inf, True, "differs: other pairs"),
        (1.35, 1.354, True, "matches"),
        (500.0, 500.4, True, "matches"),
    ],
)
def test_how_a_number_is_held_against_a_printed_one(value, ours, same, said):
    assert printed.match(value, ours, same, why="other pairs", missing="no head") == said
