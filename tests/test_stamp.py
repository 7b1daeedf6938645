"""Stored measurements know the code that made them, and are stamped anew by a sample."""

import numpy as np
import pytest

from lib import paths, results, stale
from lib.bias_a_head import heads, masking
from lib.publish import stamp
from lib.run import Run
from tests import tiny
from tests.tiny import save_tiny

OLDER = {"lib/bias_a_head/heads.py": "of another day"}
SAMPLE = heads.Sample("mini", contexts=4, folds=2, items=16)


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


def test_masks_are_stamped_by_associations_and_facts(stored, model, monkeypatch):
    steps = [masking.Step("full", 0, 0.0, [], 0), masking.Step("top", 0, 0.0, [(1, 1)], 1)]
    arguments = (model, steps, SAMPLE, masking.Workload(sentences=2, lines=2, sampled_lines=0))
    result = masking.measure(*arguments, device="cpu")
    file = stored(masking.measure, arguments, result)
    assert stamp.stamped(file, "cpu") == "stamped: masks 0, 1 without PPPL came out the same"
    result["facts"] = result["facts"] + 1
    file = stored(masking.measure, arguments, result)
    assert stamp.stamped(file, "cpu").startswith("not stamped: another facts under mask 0")


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
