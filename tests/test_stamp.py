"""Stored measurements know the code that made them, and are stamped anew by a sample."""

import json

import numpy as np
import pytest

from lib import paths, results, stale
from lib.bias_a_head import counter, heads, masking, patching
from lib.projective import leace_tables
from lib.publish import alike, stamp
from lib.run import Run
from tests import tiny
from tests.tiny import save_tiny

OLDER = {"lib/bias_a_head/heads.py": "of another day"}
SAMPLE = heads.Sample("mini", contexts=4, folds=2, items=16)
FEW = alike.Amounts(folds=2, every=10, attributes=20, other_attributes=20, targets=8, draws=1)


@pytest.fixture
def model(tmp_path, monkeypatch):
    monkeypatch.setitem(tiny.COMMON, "max_position_embeddings", 160)
    save_tiny("bert", tmp_path / "model")
    return str(tmp_path / "model")


@pytest.fixture
def stored(tmp_path, monkeypatch, model):
    """A function that stores a measurement as the run mini would, made by older code: its file."""
    monkeypatch.setattr(paths, "FIGURES", tmp_path / "figures")

    def write(function, arguments, result):
        file = tmp_path / "figures" / "mini" / "measured" / f"{function.__name__}.npz"
        question = results.question(function, arguments, {})
        about = {"command": "measure", "device": "cpu", "precision": "float32"}
        results.write(file, result, {"question": question, "code": OLDER} | about)
        return file

    return write


def test_head_scores_that_come_out_the_same_are_stamped(stored, model, capsys):
    file = stored(heads.measure, (model, "gender", SAMPLE), heads.measure(model, "gender", SAMPLE))
    assert stamp.stamp("cpu") == 0
    assert "stamped: all heads in the first fold came out the same" in capsys.readouterr().out
    assert results.read(file)[1]["code"] == stamp.code_of(heads.measure)
    assert stamp.stamped(file, "cpu") == "made by today's code"


def test_head_scores_that_come_out_otherwise_stay_as_they_were(stored, model):
    result = heads.measure(model, "gender", SAMPLE)
    result["folds"] = result["folds"] + 0.01
    file = stored(heads.measure, (model, "gender", SAMPLE), result)
    before = file.read_bytes()
    assert stamp.stamp("cpu") == 1
    assert stamp.stamped(file, "cpu") == "not stamped: another score in all heads in the first fold"
    assert file.read_bytes() == before


def test_masks_are_stamped_by_associations(stored, model, monkeypatch):
    steps = [masking.Step("full", 0, 0.0, [], 0), masking.Step("top", 0, 0.0, [(1, 1)], 1)]
    arguments = (model, steps, SAMPLE, masking.Workload(sentences=2, lines=2, sampled_lines=0))
    result = masking.measure(*arguments, device="cpu")
    file = stored(masking.measure, arguments, result)
    assert stamp.stamped(file, "cpu") == "stamped: masks 0, 1 without PPPL came out the same"
    result["associations"] = result["associations"] + 1
    file = stored(masking.measure, arguments, result)
    assert stamp.stamped(file, "cpu").startswith("not stamped: another associations under mask 0")


def measured(kind: str, model: str) -> tuple:
    """(function, arguments, key of a number in its result) of a small measurement."""
    steps = [masking.Step("full", 0, 0.0, [], 0), masking.Step("top", 0, 0.0, [(1, 1)], 1)]
    return {
        "facts": (masking.measure_facts, (model, steps, 4), "facts"),
        "ablation": (heads.measure_ablation, (model, SAMPLE, 1, 1), "s"),
        "patching": (patching.measure, (model, SAMPLE), "mean"),
        "counter": (counter.measure_cells, (model, "gender", "mini", 30, 0), "raw"),
        "leace": (leace_tables.of_bias, (model, "mini", 1, 0, 12), "rows"),
        "alike": (alike.measure, (model, FEW), "measures"),
    }[kind]


@pytest.mark.parametrize("kind", ["facts", "ablation", "patching", "counter", "leace", "alike"])
def test_every_measurement_has_a_sample_that_tells_the_same_from_another(kind, stored, model):
    function, arguments, key = measured(kind, model)
    result = function(*arguments, device="cpu")
    file = stored(function, arguments, result)
    assert stamp.stamped(file, "cpu").endswith("came out the same")
    assert stamp.stamped(file, "cpu") == "made by today's code"
    if key == "rows":
        result["rows"][0]["value"] += 0.01
    elif key == "measures":
        result["measures"][alike.HEADS][0] += 0.01
    else:
        result[key] = result[key] + 0.01
    file = stored(function, arguments, result)
    assert stamp.stamped(file, "cpu").startswith("not stamped: another ")


def test_what_has_no_sample_is_left_and_the_command_named(stored, model, capsys):
    file = stored(masking.seat_of, (), {"x": np.zeros(2)})
    before = file.read_bytes()
    assert stamp.stamp("cpu") == 0
    assert "no sample of it is known: measure makes it anew" in capsys.readouterr().out
    assert file.read_bytes() == before


def test_a_notebook_says_that_older_code_made_what_it_shows(stored, model, capsys, monkeypatch):
    run = Run()
    arguments = (model, "gender", SAMPLE)
    file = results.place(run.stored / "measured", heads.measure, arguments)
    made_from = {
        "question": results.question(heads.measure, arguments, {}),
        "command": "measure",
        "device": "cpu",
        "precision": "float32",
    }
    for code, is_older in ((OLDER, True), (stamp.code_of(heads.measure), False)):
        results.write(file, {"scores": np.zeros((2, 2))}, made_from | {"code": code})
        run.measured(heads.measure, *arguments)
        assert ("made by older code" in capsys.readouterr().out) == is_older


def test_a_comment_makes_nothing_stale_and_a_changed_line_does():
    before = stale.code_hash("x = 1\n")
    assert stale.code_hash('"""What it is."""\n\nx = 1  # one\n') == before
    assert stale.code_hash("x = 2\n") != before


# ---- data
@pytest.fixture
def data(tmp_path, monkeypatch):
    """A project's data in a folder of their own: a word list, sentences and one source."""
    for name in ("lists", "demo"):
        (tmp_path / name).mkdir()
        monkeypatch.setattr(paths, name.upper(), tmp_path / name)
    monkeypatch.setattr(paths, "SOURCES", tmp_path / "sources.toml")
    monkeypatch.setattr(paths, "FINGERPRINTS", tmp_path / "fingerprints.json")
    (tmp_path / "lists" / "words.csv").write_text("he,she\n")
    (tmp_path / "demo" / "prose.txt").write_text("It rains.\n")
    (tmp_path / "sources.toml").write_text(
        '[news]\nnote = "n"\n[[news.files]]\nname = "a.txt"\nsha256 = "00"\n'
    )
    stale.keep_data_files()
    return tmp_path


def test_an_added_file_or_source_changes_no_stored_result(data):
    before = stale.data_hash()
    (data / "demo" / "more.txt").write_text("It pours.\n")
    with (data / "sources.toml").open("a") as file:
        file.write('[more]\n[[more.files]]\nname = "b.txt"\nsha256 = "01"\n')
    assert stale.data_hash() != before
    assert not stale.data_changed(before, "paper")


def test_a_changed_source_changes_results_on_the_papers_data_alone(data):
    before = stale.data_hash()
    sources = (data / "sources.toml").read_text()
    (data / "sources.toml").write_text(sources.replace('"n"', '"a better note"'))
    assert not stale.data_changed(before, "paper")
    (data / "sources.toml").write_text(sources.replace('"00"', '"02"'))
    assert stale.data_changed(before, "paper")
    assert not stale.data_changed(before, "mini")


def test_a_changed_or_missing_list_changes_every_result_and_so_does_an_unknown_hash(data):
    before = stale.data_hash()
    (data / "lists" / "words.csv").write_text("he,she\nking,queen\n")
    assert stale.data_changed(before, "mini")
    (data / "lists" / "words.csv").unlink()
    assert stale.data_changed(before, "mini")
    assert stale.data_changed("made elsewhere", "mini")


def test_todays_data_files_are_kept():
    known = json.loads(paths.FINGERPRINTS.read_text())
    assert stale.data_hash() in known, "data changed: run python -m lib.stale"
    assert known[stale.data_hash()] == stale.data_files()
