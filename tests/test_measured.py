"""What is stored is believed by a sample: the same function computes some items of it again."""

import contextlib
import datetime
import json
import os
import random

import numpy as np
import pandas as pd
import pytest
import torch

from companion import __main__ as command, compare, results, stale
from companion.claims import Test
from companion.results import Rests
from companion.run import Run
from lib import CompanionError, paths
from lib.bias_a_head import components, counter, heads, masking, patching
from lib.engine import hooks, models
from lib.engine.files import replace
from lib.engine.stats import Estimate
from tests.tiny import refusal

ITEMS = 8
BREAKS = "a sample that breaks"


def squares(n, device=None, only=None):
    """Something heavy: n squares; those of `only` alone, nan for all others."""
    found = np.arange(n, dtype=float) ** 2
    if only is None:
        return {"squares": found, "n": n}
    if os.environ.get("COMPANION_SAMPLE_SEED") == BREAKS:
        raise CompanionError("its weights are nan")
    return {"squares": np.where(np.isin(np.arange(n), only), found, np.nan)}


squares.items = lambda result: len(result["squares"])


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """A function that stores some squares as those of a GPU."""
    monkeypatch.setattr(paths, "FIGURES", tmp_path / "figures")
    monkeypatch.setattr(paths, "BUILD", tmp_path / "build")
    monkeypatch.setattr(paths, "CACHE", tmp_path / "cache")
    monkeypatch.setattr("IPython.display.display", lambda *shown, **about: None)

    def store(values, folder="figures/mini", **about):
        made_from = {
            "question": results.question(squares, (ITEMS,), {}),
            "command": "./reproduce.sh measure squares",
            "device": "NVIDIA H200",
            "precision": "float32",
            "versions": {"torch": "2.11.0"},
            "code": "",
        }
        file = results.place(tmp_path / folder / "measured", squares, (ITEMS,))
        results.write(file, {"squares": np.array(values), "n": ITEMS}, made_from | about)
        return file

    return store


RIGHT = np.arange(ITEMS) ** 2.0


def test_a_stored_result_answers_where_its_sample_agrees(stored, capsys):
    stored(RIGHT * (1 + 1e-5))  # another processor's rounding
    run = Run()
    assert run.measured(squares, ITEMS)["squares"][3] == 9 * (1 + 1e-5)
    said = "NVIDIA H200, float32, torch 2.11.0: stored; 2 of 8 items computed again here: agree"
    assert said in capsys.readouterr().out
    assert run.rests == Rests.STORED and run.taken["test_measured.squares"]["sampled"] == 2


@pytest.mark.parametrize(
    "values", [-RIGHT - 1, RIGHT + 0.1, RIGHT * np.nan, RIGHT[:1], np.zeros((ITEMS, 2))]
)
def test_one_that_comes_out_otherwise_is_not_used_and_named(stored, capsys, values):
    stored(values)
    run = Run()
    assert run.measured(squares, ITEMS, quick=(3,))["squares"].tolist() == [0, 1, 4]
    assert "NOT BELIEVED" in capsys.readouterr().out
    assert run.rests == Rests.NO_MODEL  # nothing of it was used
    assert not run.taken["test_measured.squares"]["agrees"]
    assert run.measured(squares, ITEMS, quick=None) is None  # hours: left out
    assert "not computed here" in capsys.readouterr().out


def test_one_whose_sample_cannot_be_computed_is_not_believed(stored, monkeypatch, capsys):
    stored(RIGHT)
    monkeypatch.setenv("COMPANION_SAMPLE_SEED", BREAKS)
    assert Run().measured(squares, ITEMS, quick=(2,))["squares"].tolist() == [0, 1]
    assert "none could be computed (its weights are nan)" in capsys.readouterr().out


def test_every_item_is_drawn_sooner_or_later_and_the_same_ones_within_a_run(stored, monkeypatch):
    """One wrong square of eight: found on a quarter of all days, by all notebooks of that day."""
    wrong = RIGHT.copy()
    wrong[5] += 1
    stored(wrong)
    found = []
    for day in range(40):
        monkeypatch.setenv("COMPANION_SAMPLE_SEED", f"day {day}")
        agree = {Run().measured(squares, ITEMS)["squares"][5] for _ in range(2)}
        assert len(agree) == 1
        found.append(agree == {25})
    assert 2 <= sum(found) <= 20
    monkeypatch.delenv("COMPANION_SAMPLE_SEED")
    run = Run()
    run.measured(squares, ITEMS)  # drawn by the date
    by_date = run.taken["test_measured.squares"]["agrees"]
    monkeypatch.setenv("COMPANION_SAMPLE_SEED", datetime.date.today().isoformat())
    run.measured(squares, ITEMS)
    assert run.taken["test_measured.squares"]["agrees"] == by_date


def test_recompute_believes_nothing(stored):
    stored(RIGHT + 1)
    run = Run(recompute=True, device="cpu")
    assert run.measured(squares, ITEMS)["squares"].tolist() == RIGHT.tolist() and not run.taken
    assert run.measured(squares, ITEMS, quick=(2,))["squares"].tolist() == [0, 1]  # without a GPU


def test_recompute_says_what_it_computes_in_full_what_in_part_and_what_not(
    stored, monkeypatch, capsys
):
    monkeypatch.delenv("COMPANION_OUT", raising=False)
    stored(RIGHT)
    test = Test("heads-near-zero", Estimate(0.5, 0.4, 0.6, 9), "mini-bert")
    Run(out=Run().stored).judged("02", [test])
    run = Run(recompute=True, device="cpu")
    said = []
    for asked in ({}, {"quick": (2,)}, {"quick": None}):
        run.measured(squares, ITEMS, **asked)
        said.append(capsys.readouterr().out.removeprefix("test_measured.squares: ").strip())
        run.judged("02", [test])
        said.append(compare.run(Run(), ["02"]).of_sizes)
    assert said == [
        "computed here in full",
        "",
        "computed here in the size that a CPU can bear: n 2 in place of 8",
        "in the sizes that a CPU can bear: test_measured.squares",
        "not computed here, it takes hours without a GPU",
        "left out without a GPU: test_measured.squares",
    ]


def test_what_smaller_sizes_take_less_of_is_told():
    run = Run(recompute=True)
    result = {"scores": np.random.default_rng(0).normal(size=(12, 12))}
    result["folds"] = result["scores"] + np.zeros((10, 1, 1))
    whole, few = (masking.arguments(run, result, whole=whole) for whole in (True, False))
    told = results.smaller(masking.measure, whole, few)
    assert told == (
        f"plan {len(few[1])} in place of {len(whole[1])}, sentences 1 in place of 20, "
        "lines 12 in place of all, sampled_lines 6 in place of all"
    )


def test_what_was_measured_here_answers_while_its_code_is_the_same(stored, capsys):
    file = stored(RIGHT + 1, folder="build/mini", code="another")
    assert Run().measured(squares, ITEMS)["squares"][0] == 0
    stored(RIGHT + 1, folder="build/mini", code=stale.of_function(squares))
    assert Run().measured(squares, ITEMS)["squares"][0] == 1 and "measured here" in (
        capsys.readouterr().out
    )
    assert file.exists()


def test_an_answer_to_another_question_is_none(stored):
    stored(RIGHT + 1, question=results.question(squares, (ITEMS,), {"mini-bert": "other weights"}))
    run = Run()
    assert run.measured(squares, ITEMS)["squares"][0] == 0 and run.rests == Rests.NO_MODEL
    assert run.taken["test_measured.squares"]["differs"] == ["what it was made from"]


def test_a_damaged_or_foreign_file_is_noticed(stored):
    """Negated arrays under the same words, half a file, flipped bytes, a pickle."""
    file = stored(RIGHT)
    whole = file.read_bytes()
    with np.load(file) as kept:
        content = dict(kept)
    np.savez(file, **content | {"squares": -content["squares"]})
    assert "damaged" in refusal(Run().measured, squares, ITEMS)
    for damaged in (whole[: len(whole) // 2], whole[:60] + bytes(20) + whole[80:], b"PK nothing"):
        replace(file, damaged)
        assert "damaged" in refusal(results.read, file)
    np.savez(file, **content | {"evil": np.array([object()], dtype=object)})
    assert "not a stored result" in refusal(results.read, file)


def test_functions_without_a_module_of_their_own_are_refused():
    """Two lambdas of one file would share a place; a cell of a notebook is no file."""
    names = {"__name__": "__main__"}
    exec("def of_a_cell(n, device=None): return n", names)
    for function in (lambda n, device=None: n, names["of_a_cell"]):
        assert "give it a name" in refusal(Run().measured, function, 3)


def test_tables_and_verdicts_are_counted_by_what_they_rest_on(stored, monkeypatch):
    monkeypatch.delenv("COMPANION_OUT", raising=False)
    stored(RIGHT)
    for folder in (Run().stored, Run().out):
        run = Run(out=folder)
        run.save(pd.DataFrame({"x": [1]}), "02_words", "No model.")
        run.revisions["mini-bert"] = "r1"
        run.save(pd.DataFrame({"x": [1]}), "02_live", "Live.")
        run.measured(squares, ITEMS)
        run.save(pd.DataFrame({"x": [1]}), "02_kept", "Stored.")
        run.save(pd.DataFrame({"x": [1]}), "02_also", "Live.", rests=Rests.COMPUTED)
        run.compared("02", "bias_a_head", {("Table 1", "full", "SEAT"): ("1", "not comparable")})
    found = compare.run(Run(), ["02"])
    assert found.status == 0
    assert str(found).startswith(
        "Reproduced: 5 of 5 tables (2 computed here, 2 from stored measurements whose samples "
        "agree, 1 without a model)"
    )
    assert "1 stored measurements, 25.0% of their items computed again: all agree" in str(found)
    words, live, kept = (
        json.loads((Run().out / f"02_{name}.json").read_text())
        for name in ("words", "live", "kept")
    )
    assert live["versions"] and live["models"] and not words["models"]
    assert not {"sizes", "versions"} & kept.keys()  # the profile's, and this process's
    kept = kept["measured"]["test_measured.squares"]
    assert kept["device"] == "NVIDIA H200" and kept["arguments"] == [ITEMS]
    stored(RIGHT + 1)
    run = Run()
    run.measured(squares, ITEMS)
    run.compared("02", "bias_a_head", {("Table 1", "full", "SEAT"): ("1", "not comparable")})
    found = compare.run(Run(), ["02"])
    assert found.status == 3 and "NOT BELIEVED are test_measured.squares" in str(found)


# ---- the measurements of our sentences, with models that are not theirs
def asked(run):
    """Every stored measurement of a run: (name, function, arguments)."""
    for file in sorted((run.stored / "measured").glob("*.npz")):
        _, made_from = results.read(file)
        name = made_from["question"]["function"]
        yield file.stem, FUNCTIONS[name], made_from["question"]["arguments"]


FUNCTIONS = {
    "components.measure_odds": components.measure_odds,
    "components.measure_seat": components.measure_seat,
    "heads.measure_ablation": heads.measure_ablation,
    "masking.measure": masking.measure,
    "masking.measure_facts": masking.measure_facts,
    "patching.measure": patching.measure,
    "counter.measure_cells": counter.measure_cells,
}


def restored(function, arguments):
    """Arguments as they were before they were kept as JSON."""
    if function in (masking.measure, masking.measure_facts):
        name, plan, *rest = arguments
        steps = [
            masking.Step(*step[:3], [tuple(head) for head in step[3]], step[4]) for step in plan
        ]
        if function is masking.measure:
            rest = [heads.Sample(**rest[0]), masking.Workload(**rest[1])]
        return [name, steps, *rest]
    return [heads.Sample(**one) if isinstance(one, dict) else one for one in arguments]


def noisy(load):
    """`models.load` with 10 % noise in every weight."""

    def loaded(*args, **options):
        model = load(*args, **options)
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for weight in model.net.parameters():
                weight *= 1 + 0.1 * torch.randn(weight.shape, generator=generator)
        return model

    return loaded


MASKED = (heads.measure_ablation, masking.measure, masking.measure_facts)


# one of each function, but for parts on SEAT, which take as long as heads and go the same way
LEFT_OUT = ("gpt2", "components.measure_seat")
STORED = [one for one in asked(Run()) if not any(part in one[0] for part in LEFT_OUT)]
OF_MASKS = [one for one in STORED if one[1] in MASKED]


@pytest.mark.parametrize("name, function, arguments", STORED, ids=[one[0] for one in STORED])
def test_no_stored_measurement_is_believed_of_other_weights(
    name, function, arguments, monkeypatch, tmp_path
):
    monkeypatch.setattr(paths, "CACHE", tmp_path)
    monkeypatch.setattr(models, "load", noisy(models.load))
    run = Run()
    assert run.measured(function, *restored(function, arguments), quick=None) is None
    assert not run.taken[name]["agrees"]


@pytest.mark.parametrize("name, function, arguments", OF_MASKS, ids=[one[0] for one in OF_MASKS])
def test_nor_where_masks_do_nothing(name, function, arguments, monkeypatch, tmp_path):
    monkeypatch.setattr(paths, "CACHE", tmp_path)
    monkeypatch.setattr(hooks, "head_mask", lambda model, mask: contextlib.nullcontext())
    monkeypatch.setenv("COMPANION_SAMPLE_SEED", "masks that are not empty")
    run = Run()
    assert run.measured(function, *restored(function, arguments), quick=None) is None


# ---- what tables say of the measurements behind them
def test_ten_tables_and_records_lead_to_the_arrays_that_they_name():
    """Drawn anew each day: device, precision, versions and sizes are those of the file."""
    folder = Run().stored
    named = []
    for file in [*folder.glob("[0-9][0-9]_*.json"), *folder.glob("measured/[0-9][0-9].json")]:
        made = json.loads(file.read_text())
        for name, said in made.get("measured", {}).items():
            named.append((file.name, name, said))
        is_of_this_process = made["rests"] in (Rests.COMPUTED, Rests.NO_MODEL)
        if "kind" in made:  # beside a table or figure: whose sizes and versions would these be
            assert ("sizes" in made) == ("versions" in made) == is_of_this_process, file.name
            assert not (made["rests"] == Rests.NO_MODEL and made["models"]), file.name
    assert len(named) > 40
    for where, name, said in random.Random(str(datetime.date.today())).sample(named, 10):
        if name == "05_glue":
            assert said["sampled"] == 0  # nothing can check a training
            continue
        result, made_from = results.read(folder / "measured" / f"{name}.npz")
        function = FUNCTIONS[made_from["question"]["function"]]
        assert said["items"] == function.items(result), where
        assert results.about(made_from).items() <= said.items(), where
        assert said["agrees"] and 0 < said["sampled"] <= said["items"]


@pytest.mark.parametrize("name", ["../../evil", "", "a/b", ".."])
def test_records_are_written_nowhere_else(tmp_path, name):
    run = Run(out=tmp_path / "out")
    for write in (run.judged, lambda name, rows: run.compared(name, "bias_a_head", {})):
        assert "no notebook's number" in refusal(write, name, [])
    assert not [*tmp_path.rglob("*.json")]


@pytest.mark.parametrize("given", [{"seed": -1}, {"recompute": "False"}, {"recompute": 1}])
def test_parameters_that_would_be_misread_are_refused(given):
    assert "recompute True or False" in refusal(Run, **given)


def test_a_flag_of_one_measurement_is_refused_of_others(capsys):
    assert command.main(["measure", "patching", "--precision", "bfloat16"]) == 2
    assert "table1 alone" in capsys.readouterr().err
