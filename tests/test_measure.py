"""Heavy measurements: stored without pickles, taken only where they fit, resumed mask by mask, without pandas."""

import subprocess
import sys

import numpy as np
import pytest

from lib import CompanionError, paths
from lib.bias_a_head import heads, masking
from lib.publish import __main__ as command
from lib.publish import measure
from lib.publish import run as stored
from lib.publish.run import Run

SCORES = np.linspace(-1, 1, 144).reshape(12, 12)
RESULT = {"scores": SCORES, "folds": np.stack([SCORES, SCORES])}
MISSING = ("pandas", "scipy", "joblib", "pooch", "matplotlib", "seaborn", "IPython", "datasets")


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch, tmp_path):
    monkeypatch.setattr(paths, "FIGURES", tmp_path / "figures")


def test_a_result_comes_back_as_it_was(tmp_path):
    result = {"scores": np.arange(6.).reshape(2, 3), "names": np.array(["a", "bc"]), "seat": .5, "words": {"X": 3}}
    stored.write(tmp_path / "a" / "x.npz", result, {"command": "c"})
    found, made_from = stored.read(tmp_path / "a" / "x.npz")
    np.testing.assert_array_equal(found.pop("scores"), result["scores"])
    assert list(found.pop("names")) == ["a", "bc"] and found == {"seat": .5, "words": {"X": 3}}
    assert made_from == {"command": "c"}
    np.savez(tmp_path / "x.npz", plain="{}", made_from="{}", evil=np.array([object()], dtype=object))
    (tmp_path / "y.npz").write_bytes(b"PK nothing")
    for name in ("x", "y"):
        with pytest.raises(CompanionError, match="not a stored result"):  # a pickle, and a damaged file
            stored.read(tmp_path / f"{name}.npz")


def test_a_stored_result_is_taken_only_for_its_own_question(monkeypatch, capsys):
    run = Run(data="paper")
    args = heads.asked(run, "mini-bert", "gender")
    monkeypatch.setattr(Run, "cached", lambda *args, **kwargs: "computed")
    made_from = {"question": stored.question(heads.measure, args, run.weights(args)), "command": "the command",
                 "device": "a GPU", "precision": "float32"}
    assert run.measured(heads.measure, *args) == "computed"
    stored.write(stored.place(run.name, heads.measure, args), {"seat": .5}, made_from)
    assert run.measured(heads.measure, *args) == {"seat": .5} and "mini-bert" in run.revisions
    assert "as stored: the command (a GPU, float32)" in capsys.readouterr().out
    assert run.measured(heads.measure, *args[:-1], 1) == "computed"  # another seed, the same file
    assert "made from other arguments" in capsys.readouterr().out
    assert Run(data="paper", recompute=True).measured(heads.measure, *args) == "computed"
    other = made_from | {"question": stored.question(heads.measure, args, {"mini-bert": "other weights"})}
    stored.write(stored.place(run.name, heads.measure, args), {"seat": .5}, other)
    assert run.measured(heads.measure, *args) == "computed"


@pytest.fixture
def counted(monkeypatch):
    """table1 with an instant measurement; the steps that it was asked for."""
    steps = []

    def under(bench, step):
        steps.append(step)
        strategy, draw, factor, chosen, _ = bench[step]
        return {"step": step, "strategy": strategy, "k": len(chosen), "seat": step / 10, "pppl": 2.0}

    monkeypatch.setattr(measure, "_scores", lambda *args: RESULT)
    monkeypatch.setattr(masking, "prepare", lambda name, plan, *args, **options: plan)
    monkeypatch.setattr(masking, "under", under)
    return steps


def table1(*flags):
    assert command.main(["measure", "table1", *flags]) == 0


def test_parts_share_the_masks_and_the_last_one_assembles(counted, capsys, tmp_path):
    run = Run()
    args = masking.asked(run, RESULT)
    file, n = stored.place("mini", masking.measure, args), len(args[1])
    table1("--part", "2/3")
    assert counted == list(range(1, n, 3)) and not file.exists()
    table1("--part", "1/3", "--model", "mini-bert")
    table1("--part", "3/3")
    assert sorted(counted) == list(range(n))
    found, _ = stored.read(file)
    np.testing.assert_allclose(found["seat"], np.arange(n) / 10)
    assert run.measured(masking.measure, *args)["step"].tolist() == list(range(n))
    assert "as stored: python -m lib.publish measure table1 (cpu, float32)" in capsys.readouterr().out
    table1()
    assert len(counted) == n  # nothing is done twice, in however many parts it was done
    table1("--limit", "2")
    assert counted == [0, 1] and "2 of 2 masks" in capsys.readouterr().out
    assert not list(tmp_path.rglob("*.npz"))
    assert command.main(["measure", "table1", "--part", "5/4"]) == 2 and "no part" in capsys.readouterr().err


def test_a_run_that_was_stopped_goes_on(counted, monkeypatch):
    done, under = [], masking.under

    def stops(bench, step):
        if len(done) == 4:
            raise KeyboardInterrupt
        done.append(step)
        return under(bench, step)

    with monkeypatch.context() as patch:
        patch.setattr(masking, "under", stops)
        with pytest.raises(KeyboardInterrupt):
            table1()
    table1()
    assert counted == list(range(len(masking.asked(Run(), RESULT)[1])))
    before = len(counted)
    table1("--precision", "bfloat16")  # another measurement: nothing of the first is taken
    assert len(counted) == 2 * before


def test_it_needs_no_pandas():
    """Imports, word lists and contexts from text, as on a GPU machine that has torch and transformers alone."""
    code = f"""if True:
        import sys
        sys.modules.update(dict.fromkeys({MISSING!r}))
        from lib.bias_a_head import heads
        from lib.engine import pppl
        from lib.publish import measure
        from lib.text import contexts, data
        sets = heads.gender_sets()
        print(len(sets.X), len(sets.Y), len(sets.A), len(sets.B), len(heads.race_sets().words))
        print(contexts.from_text(["nurse"], ["The nurse left. He sat."], 1))"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=paths.ROOT)
    assert found.stdout == "82 84 202 207 17\n{'nurse': ['The nurse left.']}\n", found.stderr
