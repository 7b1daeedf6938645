"""Whether a run gave what is stored, said in one line; what departs; and that storing makes no
noise.
"""

import json
import subprocess
from dataclasses import replace as replace_fields

import pandas as pd
import pytest

from companion import __main__ as command, compare
from companion.claims import Test
from companion.results import runs_shown, shown
from companion.run import Run
from lib import paths
from lib.engine.files import replace
from lib.engine.stats import Estimate
from tests.tiny import refusal


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A run with one table, one figure's title, one test and one printed number, stored and made
    alike.
    """
    monkeypatch.delenv("COMPANION_OUT", raising=False)
    monkeypatch.setattr(paths, "FIGURES", tmp_path / "figures")
    monkeypatch.setattr(paths, "BUILD", tmp_path / "build")
    monkeypatch.setattr("IPython.display.display", lambda *shown, **about: None)
    run = Run()
    for folder in (run.stored, run.out):
        make(Run(out=folder))
    return run


def make(run, score=0.412345, title="9 of 144 heads stand out, SEAT 1.30", low=0.1, high=0.9):
    table = pd.DataFrame({"head": ["9-12", "3-1"], "score": [score, 0.31], "share": [0.5, 0.25]})
    run.save(table, "02_heads", "All heads.")
    replace(run.out / "02_fig1.json", json.dumps({"finding": title}).encode())
    estimate = Estimate(score, low, high, 144)
    run.judged("02", [Test("heads-near-zero", estimate, "mini-bert", needs={"biased": ""})])
    beside = {("Table 1", "full", "SEAT"): (Estimate(score, low, high), "not comparable")}
    run.compared("02", "bias_a_head", beside)


def test_what_is_stored_is_reproduced(run):
    found = compare.run(run, ["02"])
    assert (
        str(found)
        == "Reproduced: 2 of 2 tables (2 without a model), 1 of 1 titles, 1 of 1 tests (1 without a model); no difference"
    )
    assert found.status == 0


def test_last_digits_are_the_same_number_and_the_largest_difference_is_named(run):
    make(run, score=0.412351, title="9 of 144 heads stand out, SEAT 1.29", low=0.100003)
    found = compare.run(run, ["02"])
    assert found.sentence == (
        "Reproduced: 2 of 2 tables (2 without a model), 1 of 1 titles, 1 of 1 tests (1 without a model); "
        "largest difference 6e-06 (numbers/02, bias_a_head Table 1 full SEAT, ours)"
    )


def test_a_departure_names_table_row_and_column_and_both_values(run):
    make(run, score=0.45)
    found = compare.run(run, ["02"])
    assert found.sentence.startswith(
        "Reproduced in part: 0 of 2 tables, 1 of 1 titles, 0 of 1 tests; no difference"
    )
    assert "  02_heads, 9-12, score: 0.412345 stored, 0.45 now" in str(found)
    where = "heads-near-zero mini-bert gender, estimate, value"
    assert f"  {where}: 0.412345 stored, 0.45 now" in str(found)
    assert found.status == 0  # no outcome changed


def test_a_test_is_not_reproduced_where_a_precondition_is_another(run):
    test = Test("heads-near-zero", Estimate(0.412345, 0.1, 0.9, 144), "mini-bert")
    run.judged("02", [replace_fields(test, needs={"biased": ""}, base=3.0)])
    found = compare.run(run, ["02"])
    assert (found.tests.reproduced, found.status) == (0, 0)
    assert "heads-near-zero mini-bert gender, base: None stored, 3.0 now" in str(found)


def test_another_outcome_has_an_exit_status_of_its_own(run):
    make(run, low=0.01, high=0.4)  # below a half throughout
    found = compare.run(run, ["02"])
    assert found.status == 3 and "0 of 1 tests" in found.sentence
    said = "heads-near-zero undecided stored, heads-near-zero contradicted now"
    assert f"heads-near-zero mini-bert gender: {said}" in str(found)


def test_a_title_whose_words_or_counts_differ_departs(run):
    make(run, title="8 of 144 heads stand out, SEAT 1.30")
    assert "title of 02_fig1: 9 stored, 8 now" in str(compare.run(run, ["02"]))


@pytest.mark.parametrize("change", ["missing", "new", "shorter"])
def test_tables_that_are_missing_new_or_shorter_depart(run, change):
    if change == "missing":
        (run.out / "02_heads.csv").unlink()
    elif change == "new":
        replace(run.out / "02_other.csv", b"a\n1\n")
    else:
        replace(run.out / "02_heads.csv", b"head,score,share\n9-12,0.412345,0.5\n")
    said = {
        "missing": "02_heads: 3 rows of 3 stored, no table now",
        "new": "02_other: no table stored, 2 rows of 1 now",
        "shorter": "02_heads: 3 rows of 3 stored, 2 rows of 3 now",
    }
    assert f"  {said[change]}" in str(compare.run(run, ["02"]))


def test_only_notebooks_that_ran_are_compared(run):
    replace(run.stored / "07_other.csv", b"a\n1\n")
    assert "2 of 2 tables" in compare.run(run, ["02"]).sentence
    assert "07_other: 2 rows of 1 stored, no table now" in str(compare.run(run, ["02", "07"]))


def test_what_was_not_run_or_is_not_stored_is_said(run, capsys):
    assert "came to its end here" in refusal(compare.say, "null")
    assert "came to its end here" in refusal(compare.say, "..")
    replace(paths.BUILD / "mine" / "figures" / "claims" / "02.json", b"[]\n")
    assert command.main(["compare", "mine"]) == 0
    assert capsys.readouterr().out.startswith("Nothing is stored of the run mine to compare with.")


def test_a_long_list_of_departures_is_cut_and_counted(run):
    table = pd.DataFrame({"word": [f"word {i}" for i in range(50)], "p": [0.1] * 50})
    Run(out=run.stored).save(table, "03_words", "")
    run.save(table.assign(p=0.9), "03_words", "")
    lines = str(compare.run(run, ["03"])).splitlines()
    assert len(lines) == 2 + compare.SHOWN and lines[-1] == "  and 30 more"


def test_storing_leaves_what_agrees_and_replaces_what_departs(run):
    before = {file: file.read_bytes() for file in run.stored.rglob("*.*")}
    make(run, score=0.412351)
    assert compare.store(run, {"02"}) == 0  # another machine's last digits make no history
    assert {file: file.read_bytes() for file in run.stored.rglob("*.*")} == before
    make(run, score=0.5)
    replace(run.out / "02_fig1.png", b"another picture")
    (run.out / "02_fig1.json").unlink()
    assert (
        compare.store(run, {"02"}) == 5
    )  # table, tests, numbers, picture; and what is no longer made
    assert compare.run(run, ["02"]).departures == []
    assert not (run.stored / "02_fig1.json").exists()


def test_of_each_notebook_what_was_made_here_is_shown_and_else_what_is_stored(run):
    make(run, score=0.5)
    replace(run.stored / "07_table.csv", b"a\n1\n")
    replace(run.stored / "draws" / "3" / "claims" / "02.json", b"[]")
    folder = shown("mini", run.out)
    assert "0.5" in (folder / "02_heads.csv").read_text() and (folder / "07_table.csv").is_file()
    assert (folder / "claims" / "02.json").read_bytes() == (
        run.out / "claims" / "02.json"
    ).read_bytes()
    assert (folder / "draws" / "3" / "claims" / "02.json").is_file()
    assert runs_shown() == {"mini": folder}
    assert shown("mini", paths.BUILD / "nothing") == run.stored


def test_two_runs_write_the_same_bytes_and_leave_the_work_tree_as_it_was(tmp_path, monkeypatch):
    """A real notebook, in a real kernel, that tabulates and draws."""

    def state():
        asked = ["git", "status", "--porcelain"]
        return subprocess.run(asked, cwd=paths.ROOT, capture_output=True, text=True).stdout

    before, made = state(), []
    monkeypatch.setenv("COMPANION_CACHE", str(tmp_path / "cache"))
    for number in "12":
        monkeypatch.setattr(paths, "BUILD", tmp_path / number)
        monkeypatch.setenv("COMPANION_OUT", str(tmp_path / number / "out"))
        assert command.main(["--only", "05"]) in (0, 3)
        files = (tmp_path / number / "out").rglob("*.*")
        made.append({file.relative_to(tmp_path / number): file.read_bytes() for file in files})
    assert made[0] == made[1] and state() == before
    assert {file.suffix for file in made[0]} == {".csv", ".json", ".png", ".svg"}


def test_a_run_of_which_nothing_is_stored_has_nothing_to_depart_from(tmp_path, run):
    make(run)
    found = compare.folders("other", tmp_path / "nothing", run.out)
    assert found.status == 0
    assert str(found) == "Nothing is stored of the run other to compare with."


def test_a_notebook_of_which_nothing_is_stored_changes_no_test(run):
    make(run)
    (run.stored / "claims" / "02.json").unlink()
    found = compare.run(run, ["02"])
    assert found.status == 0
    assert "claims/02: 0 tests stored, 1 now" in str(found)
