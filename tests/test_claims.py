"""Every claim has its test and every test its claim; what several results make of one claim; runs side by side."""

import importlib
import json
from dataclasses import replace

import pandas as pd
import pytest

from lib import CompanionError, paths
from lib.engine import models
from lib.publish import claims, stored_claims
from lib.publish.run import Run
from lib.publish.run import replace as write

LISTED = claims.listed()


# ---------------------------------------------------------------- data/paper/claims.csv

def test_every_claim_is_of_a_paper_and_has_a_test_or_a_reason():
    assert set(LISTED["paper"]) == set(claims.NAMES) and LISTED.index.is_unique
    untested = LISTED["notebook"] == ""
    assert (LISTED.loc[untested, "why"] != "").all() and (LISTED.loc[~untested, "why"] == "").all()
    assert (LISTED.loc[~untested, ["function", "row", "figure"]] != "").all(axis=None)
    assert not LISTED[~untested].duplicated(["notebook", "row"]).any()
    assert LISTED["claim"].str.len().max() <= 90 and (LISTED["where"] != "").all()


@pytest.mark.parametrize("name", sorted(set(LISTED["function"]) - {""}))
def test_what_tests_a_claim_exists(name):
    module, function = name.split(".")
    assert callable(getattr(importlib.import_module(f"lib.{module}"), function))


@pytest.mark.parametrize("file", sorted(paths.FIGURES.glob("*/[0-9][0-9]_*claims.csv")),
                         ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_every_claim_of_a_notebook_is_listed(file):
    if file.name.startswith(claims.OWN):
        pytest.skip("the board itself")
    claims.evidence({"run": _alone(file)})  # refuses what it does not know


class _alone:
    """A folder that holds one file alone."""

    def __init__(self, file):
        self.file = file

    def glob(self, pattern):
        return [self.file]

    def __truediv__(self, name):
        return paths.ROOT / "nowhere" / name


@pytest.mark.parametrize("notebook", sorted(set(LISTED["notebook"]) - {"", claims.OWN}))
def test_every_listed_claim_is_tested_by_its_notebook(notebook):
    found = claims.evidence({"mini": paths.FIGURES / "mini"})
    if not (paths.FIGURES / "mini" / f"{notebook}_claims.csv").is_file():
        pytest.skip(f"notebook {notebook} has stored no claims")
    missing = set(LISTED.index[LISTED["notebook"] == notebook]) - set(found["id"])
    assert not missing


def test_the_figure_behind_a_claim_is_one_that_a_notebook_saves():
    sources = {path.name[:2]: path.read_text() for path in paths.NOTEBOOKS.glob("[0-9]*.ipynb")}
    for figure in set(LISTED["figure"]) - {""}:
        source = sources.get(figure[:2])
        # 03_fig4a and 11_fig2 are made of a name and a number
        assert source is None or figure in source or figure.rstrip("abc23") in source, figure


# ---------------------------------------------------------------- verdicts

@pytest.mark.parametrize("several, one", [
    (["holds", "holds"], "holds"), (["fails"], "fails"), (["holds", "fails", "fails"], "in part (1 of 3)"),
    (["holds (within chance)", "holds"], "holds (within chance)"), (["fails (within chance)"], "fails (within chance)"),
    (["fails (holds at k = 3, 5)", "fails"], "fails"), (["holds, in the full distribution alone"], "holds"),
    ([], "not run"), (["not run: no model"], "not run"), (["not run: no model", "holds"], "holds"),
    (["cannot be tested (none is viable)"], "cannot be tested"), (["cannot be tested (x)", "fails"], "fails")])
def test_one_verdict_of_several(several, one):
    assert claims.combined(several) == one
    assert claims.kind(one) in ("holds", "fails", "in part", "cannot be tested", "not run")


@pytest.fixture
def folder(tmp_path):
    """A function that stores a run of tables, {name: rows}."""
    def store(run, **tables):
        for name, rows in tables.items():
            write(tmp_path / run / f"{name[1:]}.csv", pd.DataFrame(rows).to_csv(index=False).encode())
            write(tmp_path / run / f"{name[1:]}.json", json.dumps({"command": "x", "models": {}}).encode())
        return tmp_path / run
    return store


def row2(claim, where, verdict):
    return {"claim": claim, "where": where, "ours": "1 of 2", "verdict": verdict}


NEAR, LAYERS = "most heads lie near zero", "biased heads appear in all layers"


def test_runs_stand_side_by_side(folder):
    folders = {"mini": folder("mini", _02_claims=[row2(NEAR, "mini-bert, gender", "holds"),
                                                  row2(NEAR, "mini-gpt2, gender", "fails"),
                                                  row2(LAYERS, "mini-bert, gender", "fails (within chance)")]),
               "paper": folder("paper", _02_claims=[row2(NEAR, "bert-base, gender", "holds")])}
    found = claims.evidence(folders)
    assert found[["id", "run", "tested on", "found", "verdict"]].iloc[0].tolist() == [
        "heads-near-zero", "mini", "mini-bert, gender", "1 of 2", "holds"]
    board = claims.board(found, folders).set_index("id")
    assert board.loc["heads-near-zero", ["mini", "paper"]].tolist() == ["in part (1 of 2)", "holds"]
    assert board.loc["heads-all-layers", ["mini", "paper"]].tolist() == ["fails (within chance)", "not run"]
    assert board.loc["fast", ["mini", "paper"]].tolist() == ["cannot be tested"] * 2
    assert len(board) == len(LISTED) and board.loc["fast", "source"] == "Projective Methods"


def test_a_claim_that_is_not_listed_is_refused_unless_it_was_not_run(folder):
    with pytest.raises(CompanionError, match="02_claims.csv tests 'pigs fly', which data/paper/claims.csv does not"):
        claims.evidence({"mini": folder("mini", _02_claims=[row2("pigs fly", "", "holds")])})
    assert claims.evidence({"m": folder("m", _02_claims=[row2("pigs fly", "", "not run: no pig")])}).empty


def test_03_and_11_name_their_claims_in_several_columns(folder):
    swapped = {"claim": "regular heads do not", "t, paper's test": -2.1, "verdict, paper's test": "holds",
               "t, balanced": 0.0, "verdict, balanced": "fails", "where": "4b mini-gpt2 gender"}
    cloze = [{"model": model, "knowledge": "target semantic similar", "claim": "enlarged", "k = 3": "holds",
              "full": "fails", "verdict": verdict} for model, verdict in
             (("mini-albert", "holds"), ("roberta-large", "fails"))]
    found = claims.evidence({"mini": folder("mini", _03_claims=[swapped], _11_claims=cloze)}).set_index("id")
    assert found.loc["counter-4b-regular", "verdict"] == "holds"
    assert "balanced fails" in found.loc["counter-4b-regular", "found"]
    assert found.loc["albert-semantic", "verdict"] == "holds" and found.loc["roberta-semantic", "verdict"] == "fails"
    assert found.loc["albert-semantic", "found"] == "k = 3 holds; full fails"


def test_a_seed_is_a_bert_wherever_its_name_says_nothing():
    assert claims._family("seed1") == "bert" and claims._family("bert-large") == "bert"
    assert claims._family("distilbert-base-uncased") == "distilbert" and claims._family("my-gpt2") == "gpt2"


def test_another_seed_has_a_run_of_its_own(monkeypatch):
    shipped = replace(models.REGISTRY["seed1"], source=paths.MODELS / "mini-bert")
    monkeypatch.setitem(models.REGISTRY, "seed1", shipped)
    run = Run(data="paper", model="seed1")
    assert run.name == "mini-real-seed1" and run.encoder == "seed1" and run.cloze == ["seed1"] and not run.classifier
    with pytest.raises(CompanionError, match="seed2 is not on this machine yet: train it by python -m lib.training train"):
        monkeypatch.setitem(models.REGISTRY, "seed2", replace(models.REGISTRY["seed2"], source=paths.ROOT / "nowhere"))
        Run(data="paper", model="seed2")


def test_in_how_many_seeds_a_claim_holds(folder):
    def run(name, *verdicts):
        return folder(name, _02_claims=[row2(NEAR, f"{name}, gender", verdicts[0]),
                                        row2(NEAR, "mini-gpt2, gender", "fails"),
                                        row2(LAYERS, f"{name}, gender", verdicts[1])])

    folders = {name: run(name, *verdicts) for name, verdicts in {
        "mini": ("holds", "holds"), "mini-real": ("holds", "holds"), "mini-real-seed1": ("fails", "holds"),
        "mini-real-seed2": ("holds", "holds (within chance)")}.items()}
    table = claims.seeds(claims.evidence(folders), folders=folders).set_index("id")
    assert table["holds in"].to_dict() == {"heads-near-zero": "2 of 3", "heads-all-layers": "3 of 3"}
    assert "mini" not in table
    alone = {"mini-real": folders["mini-real"]}
    assert claims.seeds(claims.evidence(alone), folders=alone).empty


# ---------------------------------------------------------------- claims read off stored tables

def read(function, folder, **tables):
    return getattr(stored_claims, function)(stored_claims.Tables(folder("run", **tables)))


def test_what_is_not_stored_is_not_told(tmp_path):
    for name in LISTED.loc[LISTED["notebook"] == claims.OWN, "function"]:
        assert getattr(stored_claims, name.split(".")[1])(stored_claims.Tables(tmp_path)) == []
    assert stored_claims.best_settings(stored_claims.Tables(tmp_path)) == ("", "")


def test_seat_of_decoder_and_encoder(folder):
    rows = [{"model": name, "bias": bias, "SEAT": value} for name, bias, value in
            (("a", "gender", 1.35), ("b", "gender", -.351), ("a", "race", .1), ("b", "race", .2))]
    assert read("seat_order", folder, _02_seat=rows) == [("b against a", "-0.35 against 1.35", "holds")]


def test_signs_of_gradients(folder):
    found = read("gradient_sign", folder, _02_agreement=[{"model": "a", "same sign": "90%"},
                                                         {"model": "b", "same sign": "89%"}])
    assert [verdict for *_, verdict in found] == ["holds", "fails"]


def test_the_running_example(folder):
    rows = [{"heads": "biased", "measure": f"weight {side}", "ours": ours, "model": "m"}
            for side, ours in (("original", .0167), ("counter", .0073))]
    assert read("running_example", folder, _03_verdicts=rows) == [("m", "0.017 to 0.007", "holds")]


def test_biased_heads_against_regular_ones(folder):
    rows = [{"figure": figure, "heads": group, "unit": unit, "difference": middle, "low": middle - .1,
             "high": middle + .1} for figure, biased, regular in (("4a", .5, .1), ("4b", .1, .15)) for unit in
            ("sentence", "target") for group, middle in (("biased", biased), ("regular", regular))]
    assert read("contrast", folder, _03_tests=rows) == [
        ("4a", "0.50 against 0.10", "holds"), ("4b", "0.10 against 0.15", "fails (within chance)")]


def test_the_three_targeted_masks(folder):
    rows = [{"masked": name, "SEAT": size, "PPPL": cost} for name, size, cost in
            (("full", 1.35, 4.09), ("Top-3", 1.21, 4.16), ("Bottom-3", 1.39, 4.20), ("All", 1.21, 5.75))]
    assert read("top3_best", folder, _04_table1=rows)[0][2] == "holds"  # the paper's own numbers
    rows[3]["SEAT"] = 1.2
    assert read("top3_best", folder, _04_table1=rows)[0][1:] == ("lowest SEAT: All, lowest PPPL: Top-3", "fails")


def test_settings_for_strength_and_for_fairness(folder):
    intrinsic = [{"model": name, "S": s, "D": d} for name, s, d in
                 (("Base", .3, .5), ("Sent-debias", .1, .1), ("SENT 0", .31, .6), ("SENT 1", .2, .55))]
    nli = [{"model": name, "eta, most": eta, "SNLI": right, "viable": viable} for name, eta, right, viable in
           (("Base", .9, .9, "yes"), ("Sent-debias", .95, .9, "yes"), ("SENT 0", .5, .8, "in points"),
            ("SENT 1", .8, .3, "no"), ("Layer 12 (0, 0, 0)", .5, .85, "yes"))]
    tables = stored_claims.Tables(folder("run", _08_table7=intrinsic, _09_table7=nli))
    assert stored_claims.best_settings(tables) == ("SENT 1", "Layer 12 (0, 0, 0)")
    assert stored_claims.other_settings(tables)[0][2] == "holds"
    assert stored_claims.lower_strength(tables) == [("", "0.300 to 0.200, SENT 1", "holds")]
    assert stored_claims.lower_distance(tables)[0][2] == "fails"
