"""Every printed number beside ours, and the parts of README.md that runs make."""

import pytest

from companion import printed
from companion.papers import PAPERS
from companion.report import numbers, readme
from companion.report.numbers import Compared
from companion.run import Run
from lib import paths
from lib.engine.stats import Estimate
from tests.tiny import refusal


@pytest.fixture
def folder(tmp_path):
    """A function that stores what a run holds against a paper's numbers: {key: (ours, match)}."""

    def store(paper, compared):
        made = Run(out=tmp_path / "mini")
        made.compared("08", paper, compared)
        return made.out

    return store


def test_every_printed_number_finds_ours(folder):
    ours = {("Table 1", "Top-3", "PPPL"): (Estimate(10.7, 10.1, 11.3), "not comparable")}
    pairs = Compared(Estimate(222), "matches")
    counts = {("bias_a_head", "Section 4", "gender", "attribute pairs"): pairs}
    folders = {"mini": folder("bias_a_head", ours), "none": paths.ROOT / "nowhere"}
    table = numbers.every_number(counts, folders)
    assert len(table) == sum(len(printed.numbers(key)) for key in PAPERS)
    table = table.set_index(["source", "table", "row", "column"]).sort_index().loc["Bias A-head"]
    shown = table[["printed", "ours, mini", "verdict, mini"]]
    for where in ("Table 1", "Appendix A"):  # printed once more in the text
        number, match = shown.loc[(where, "Top-3", "PPPL")].tolist()[1:]
        assert (tuple(number), match) == ((10.7, 10.1, 11.3), "not comparable")
    lost = shown.loc[("Table 3", "5", "math / arts")].tolist()
    assert lost == ["", None, "not run (the printed number is lost)"]
    assert shown.loc[("Table 1", "full", "SEAT")].tolist() == ["1.35", None, "not run"]
    counted = table.loc[("Section 4", "gender", "attribute pairs")]
    assert counted["verdict, mini"] == counted["verdict, none"] == "matches"


def test_both_genders_target_words_are_counted_and_differ_from_the_papers():
    """Both lists of 84 without waiter and tailor, which are attributes too: 82 + 84."""
    found = numbers.counts()["bias_a_head", "Section 4", "gender", "target words"]
    assert found.ours.value == 166
    assert found.match.startswith("differs: either gender's list has 84")


def test_what_a_paper_does_not_claim_contradicts_nothing():
    """Top-3 is the best of three targeted strategies, and backgrounds are sampled."""
    where = set(numbers.contradictions()["where"])
    assert "Table 2, MRPC f1" in where  # masking all is said to worsen it
    assert not where & {"Appendix A, lowest PPPL", "prompts of 58 occupations"}


def test_numbers_are_kept_unrounded_with_their_intervals(folder):
    ours = {
        ("Table 5", "Base", "S"): (Estimate(1 / 3, 0.1, 0.5), "differs: another variant"),
        ("Table 5", "Base", "D"): (2, "matches"),
        ("Table 5", "SENT", "S"): (None, "not run (why)"),
        ("Table 5", "SENT", "D"): ("< .001", "not comparable"),
    }
    first, second, third, fourth = numbers.compared("mini", folder("projective", ours)).values()
    assert tuple(first.ours) == (1 / 3, 0.1, 0.5) and first.match == "differs: another variant"
    assert second.ours.value == 2 and not second.ours.has_interval
    assert third.ours is None and fourth.ours is None


def test_a_number_that_no_paper_prints_is_named(folder):
    stored = folder("projective", {("Table 5", "Bass", "S"): (1, "matches")})
    assert "'Bass'" in refusal(numbers.every_number, {}, {"mini": stored})


ROW = '[{"paper": "p", "table": "t", "row": "r", "column": "c", "match": "matches", %s}]'
NUMBERS = ['"ours": NaN', '"ours": 1, "low": 3, "high": 2', '"ours": 1, "low": 3']


@pytest.mark.parametrize("text", ["<<<<", "[]", "{}", "[{}]", *(ROW % part for part in NUMBERS)])
def test_a_damaged_record_is_named(folder, text):
    stored = folder("projective", {("Table 5", "Base", "S"): (1, "matches")})
    (stored / "numbers" / "08.json").write_text(text)
    said = refusal(numbers.every_number, {}, {"mini": stored})
    assert "figures/mini/numbers/08.json is damaged" in said


def test_the_readme_says_what_the_runs_found():
    """When this fails: ./reproduce.sh readme"""
    text = readme.README.read_text(encoding="utf-8")
    assert readme.renewed(text) == text


