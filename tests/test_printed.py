"""The printed numbers: all there, as printed, and held against ours."""

import math
import os
import re
from pathlib import Path
from types import SimpleNamespace

import nbformat
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st
from scipy import stats as scipy_stats

from companion import printed, profiles
from companion.bias_a_head import estimators
from companion.papers import PAPERS
from companion.printed import Match
from companion.projective import inference, table7
from companion.run import Run
from lib import paths
from lib.engine import folders, nsp, stats
from lib.engine.stats import Estimate
from lib.projective import nli
from tests.tiny import refuses

COUNTS = {
    "bias_a_head": {
        "Table 1": 12,
        "Table 2": 39,
        "Table 3": 31,
        "Figure 3": 4,
        "Figure 4a": 6,
        "Figure 4b": 6,
        "Figure 4c": 6,
    },
    "projective": {
        "Table 1": 3,
        "Table 3": 10,
        "Table 4": 6,
        "Table 5": 36,
        "Table 6": 24,
        "Table 7": 456,
        "Table 7 caption": 1,
    },
    "counteracts": {"Table 1": 58},
}
LOST = {"bias_a_head": {("Figure 3", "regular"), ("Table 3", "5"), ("Table 3", "10")}}


@pytest.mark.parametrize("name", list(PAPERS))
def test_every_table_has_its_numbers(name):
    numbers = printed.numbers(name)
    counts = numbers["table"].value_counts().to_dict()
    assert {
        table: n for table, n in counts.items() if table.startswith(("Table", "Figure"))
    } == COUNTS[name]
    assert not numbers.duplicated(["table", "row", "column"]).any()
    lost = numbers[numbers["value"].isna()]
    assert set(zip(lost["table"], lost["row"])) == LOST.get(name, set())


@pytest.mark.parametrize("figure", ["4a", "4b", "4c"])
def test_the_p_of_figure_4_are_those_of_its_t(figure):
    for _, row in (
        printed.printed("bias_a_head", f"Figure {figure}").loc[["biased", "regular"]].iterrows()
    ):
        p, told = (
            scipy_stats.t.sf(float(row["t"]), float(row["N"]) - 1),
            str(row["p"]),
        )  # one-tailed, paired
        assert (
            p < float(told[2:])
            if told.startswith("<")
            else p == pytest.approx(float(told), abs=0.005)
        )


def test_the_papers_repeat_and_add_up_their_tables():
    text, one, three = (
        printed.printed("bias_a_head", name) for name in ("Appendix A", "Table 1", "Table 3")
    )
    for row in ("full", "Top-3", "All"):
        assert text.loc[row, "PPPL"] == one.loc[row, "PPPL"]
    seat = printed.printed("bias_a_head", "Footnote 9")["SEAT"]
    assert seat["bert-base"] == one.loc["full", "SEAT"] and seat["gpt2"] < seat["bert-base"]
    assert (
        three.drop(index=["0", "All"]).min() < three.loc["All"]
    ).all()  # all masked is not the lowest
    # where it disagrees with itself: a random choice costs less PPPL than Top-3, which "has the
    # lowest"
    assert (
        one.loc["Random-3", "PPPL"]
        < one.loc["Top-3", "PPPL"]
        < one.loc[["Bottom-3", "All"], "PPPL"].min()
    )
    share, prose = (
        printed.numbers("counteracts").query(f"table == '{name}'") for name in ("Table 1", "prose")
    )
    said = dict(zip(zip(prose["row"], prose["column"]), prose["value"].astype(float)))
    women = share["value"].astype(float)
    assert (women < 50).sum() == said["Dataset", "male-dominated"] and women.is_monotonic_increasing
    assert (women > 50).sum() == said["Dataset", "female-dominated"] and len(women) == said[
        "Dataset", "occupations"
    ]
    variants = sum(said["Baseline Models", name] for name in ("BERT", "ALBERT", "RoBERTa", "GPT-2"))
    assert variants == said["Conclusion", "models"]
    # the prompts are those of 40 occupations, not of the 58 that are counted: 7 kinds, and 3 with
    # 20 backgrounds
    assert said["Dataset", "prompts"] == 40 * (7 + 3 * 20) != 58 * (7 + 3 * 29)


WORDS = {"1": "one", "2": "two", "3": "three", "4": "four", "5": "five", "7": "seven"}


@pytest.mark.parametrize("name", list(PAPERS))
def test_every_printed_number_is_in_the_paper(name):
    """Where COMPANION_PAPERS names a folder with the papers' texts: bias-a-head.md and so on."""
    folder = os.environ.get("COMPANION_PAPERS")
    if not folder:
        pytest.skip("COMPANION_PAPERS is not set: the papers' texts are not at hand")
    text = (Path(folder) / f"{name.replace('_', '-')}.md").read_text()
    found = set(re.findall(r"(?<![\d.])-?\d[\d,]*\.?\d*|(?<!\d)\.\d+", text.replace("−", "-")))
    found = {number.replace(",", "").rstrip(".") for number in found} | {
        digit for digit, word in WORDS.items() if re.search(rf"\b{word}\b", text)
    }
    numbers = printed.numbers(name).dropna()
    counted = numbers["column"].isin(
        ["viable", "lower S", "not lower S", "worst S, the rest equal"]
    )  # told in words
    values = numbers.loc[
        ~counted & ~numbers["value"].str.contains(r"\("), "value"
    ].str.removeprefix("< ")
    assert not {value for value in values if value not in found}


def test_table_7_has_parities_of_164_occupations():
    """Its rows and their order, and eta but for one row, are tested in test_projective.py."""
    table = printed.printed("projective", "Table 7")
    assert table.loc["+ attn (1, 1, 1, 1, 1)"].to_dict() == {
        "S": 0.2478,
        "D": 0.5026,
        "parity": 0.6951,
        "accuracy": 0.7571,
        "eta": 0.5263,
        "SNLI": 0.8497,
    }
    assert set(map(str, table.dtypes)) == {"float64"} and not table.isna().any(axis=None)
    assert np.allclose(table["parity"], (table["parity"] * 164).round() / 164, atol=5.1e-5)


def test_tables_3_and_4_are_the_equations_of_the_paper():
    strengths, distances = (printed.printed("projective", f"Table {n}") for n in (3, 4))
    for row in "ab":  # as printed, the swapped side's labels have changed places; a file keeps them
        plain, swapped = strengths.loc[row], strengths.loc[f"{row}_GS"]
        frame = {
            "stereo": [plain["Stereo"]],
            "anti": [plain["Anti"]],
            "gs_stereo": [swapped["Anti"]],
            "gs_anti": [swapped["Stereo"]],
        }
        assert nsp.strengths(frame)[0] == pytest.approx(plain["s"], abs=5.1e-4)
        pair = {
            "unrelated": [distances.loc[row, "Unr"]],
            "gs_unrelated": [distances.loc[f"{row}_GS", "Unr"]],
        }
        assert nsp.distances(pair)[0] == pytest.approx(distances.loc[row, "d"], abs=1e-9)


test_what_is_not_there_is_named = refuses(
    (lambda: printed.printed("projective", "Table 9"), "Table 9.*Table 7"),
    (lambda: printed.printed("projection", "Table 1"), "projective"),
    (lambda: printed.numbers("claims"), "claims"),
    (
        lambda: printed.compare("projective", {("Table 7", "Bass", "S"): 1.0}, same_model=True),
        "Bass",
    ),
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
    for file in paths.NOTEBOOKS.glob("0[2-9]_*.ipynb"):
        text = file.read_text(encoding="utf-8")
        compares = "run.compared(" in text
        assert compares == ("run.is_papers" in text), file.name


@pytest.mark.parametrize(
    "parameters, verdict",
    [
        (dict(profile="paper"), "differs: the classifier's training"),
        (dict(profile="paper", model="roberta-base"), "not comparable"),
        (dict(data="paper"), "not comparable"),
    ],
)
def test_inference_is_compared_where_the_classifier_is_the_papers(parameters, verdict):
    """The cell of notebook 09 that does so, on one model."""
    (file,) = paths.NOTEBOOKS.glob("09_*.ipynb")
    cells = [cell.source for cell in nbformat.read(file, as_version=4).cells]
    (cell,) = [cell for cell in cells if "printed.compare(" in cell]
    run = Run(**parameters)
    run.save = run.compared = lambda *given, **options: None
    columns = ("parity", "accuracy", "eta", "SNLI")
    names = {
        "run": run,
        "printed": printed,
        "nli": nli,
        "table7": table7,
        "inference": inference,
        "pd": pd,
        "both": None,
        "made_from": "",
        "strength": pd.Series({"Base": 0.5}),
        "scores": pd.DataFrame([[0.5] * 4], index=["Base"], columns=columns),
        "pairs_of_models": pd.DataFrame({"increase": [0.0]}),
        "table6": pd.DataFrame(),
        "of_table5": lambda scores: {},
        "rhos": {(nli.PAIRS, "all"): {"all": 0.5}},
        "spearmanr": lambda *given: SimpleNamespace(pvalue=0.5),
        "learned_from": lambda name: name,
        "Markdown": str,
    }
    exec(cell, names)
    table = names["compared"].query("table == 'Table 7'")
    assert len(table) == 4 and table["verdict"].str.startswith(verdict).all()


@pytest.mark.parametrize(
    "profile, news, reason",
    [
        ("paper", "news_commentary", "at most 100 sentences a word, target words averaged"),
        ("mini", "bbc_news", "other corpus of contexts, at most 10 sentences a word"),
        ("mini", "news_commentary", "at most 10 sentences"),
    ],
)
def test_a_differing_seat_is_explained_by_what_the_run_took(profile, news, reason, monkeypatch):
    """In both notebooks that hold it against the paper's."""
    monkeypatch.setattr(Run, "news", news)
    assert estimators.why_seat_differs(Run(profile=profile, data="paper")).startswith(reason)
    for number in ("02", "06"):
        (file,) = paths.NOTEBOOKS.glob(f"{number}_*.ipynb")
        text = file.read_text(encoding="utf-8")
        assert "estimators.why_seat_differs(run)" in text and "other corpus of contexts" not in text


def test_comparison():
    ours = {
        ("Table 7", "Base", "S"): stats.Estimate(0.25, 0.2, 0.31),
        ("Table 7", "Base", "D"): 0.7052,
    }
    table = printed.compare("projective", ours, same_model=True)
    assert table["paper"].tolist() == ["0.3069", "0.7052"] and table["difference"].tolist() == [
        -0.06,
        0,
    ]
    assert [one.value for one in table["ours"]] == [0.25, 0.7052]
    assert table["verdict"].tolist() == ["within interval", "matches"]
    assert printed.by_key(table)["Table 7", "Base", "D"] == (stats.Estimate(0.7052), "matches")
    whole = printed.compare(
        "projective", ours, same_model=False, tables=["Table 7"], missing="see 09"
    )
    assert whole["verdict"].value_counts().to_dict() == {
        "not run (see 09)": 454,
        "not comparable": 2,
    }
    table = printed.reference()
    assert list(table) == ["what", "model", "value", "source"] and not table.isna().any().any()
    assert (
        not table.duplicated(["what", "model"]).any()
        and table["value"].map(float).abs().max() < 100
    )
    paper = profiles.read("paper").models
    assert {paper["encoder"], paper["decoder"]} <= set(table["model"]) and len(table) == 33
    beside = printed.departures(
        {("SNLI accuracy", "bert-base"): 0.86, ("SEAT 6, [CLS]", "BERT"): 0.5}, near=0.03
    )
    assert beside["published"].tolist() == [".9048", ".477"]
    assert beside["departure"].tolist() == ["departs by -0.045", "within 0.03"]


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
        ("0.30", 0.3049, True, "matches"),
        ("0.30", 0.3051, True, "differs: other pairs"),
        ("0.3", 0.349, True, "matches"),
        ("0.30", Estimate(0.4, 0.2, 0.5), True, "within interval"),
        ("0.30", 0.30, False, "not comparable"),
        ("0.30", Estimate(0.4, 0.35, 0.5), True, "differs: other pairs"),
        ("37", 37, True, "matches"),
        (math.nan, 0.3, True, "not run (the printed number is lost)"),
        ("0.30", None, False, "not run (no head)"),
        ("0.30", math.nan, True, "not run (no head)"),
        (None, 0.3, True, "not run (the printed number is lost)"),
        ("0.30", math.inf, True, "differs: other pairs"),
        (1.35, 1.354, True, "matches"),
        (500.0, 500.4, True, "matches"),
    ],
)
def test_how_a_number_is_held_against_a_printed_one(value, ours, same, said):
    assert printed.match(value, ours, same, why="other pairs", missing="no head") == said
