"""Notebook 06's tables: which heads turned, what is darker and pronounced, which base a model is held against."""

import io
import json

import numpy as np
import pandas as pd
import pytest

from lib import CompanionError
from lib.bias_a_head import debiased, heads, plots_debiased
from lib.engine import difference, models
from lib.publish.run import Run
from tests import tiny
from tests.tiny import one_thread, save_tiny  # noqa: F401

BASE = np.array([[4., -1., -2., .5], [-3., .1, -4., -5.]])


def result(scores, spread=.01, seat=1., p=.001):
    scores = np.array(scores, dtype=float)
    folds = np.stack([scores - spread, scores, scores + spread, scores])
    return {"family": "bert", "seat": seat, "p": p, "scores": scores, "folds": folds, "sentences": 9,
            "words": dict.fromkeys("XYAB", 2)}


def associations(shift):
    s = np.concatenate([np.linspace(0, 1, 20) + shift, np.linspace(0, 1, 20)])
    return {"s": s, "in_x": np.repeat([True, False], 20)}


def test_turned_heads_are_those_of_the_most_anti_biased_that_are_positive_now():
    after = -BASE  # every head changes sides
    assert debiased.count_turned(BASE, BASE) == 0 and debiased.count_turned(after, BASE) == 5
    after = BASE.copy()
    after[1, 3] = .1  # the most anti-biased
    after[0, 1] = .1  # the fifth
    assert debiased.count_turned(after, BASE) == 2 and debiased.count_turned(after, BASE, k=4) == 1
    table = debiased.turned({"base": result(BASE), "./there/cda": result(after)}, "base")
    assert list(table["head"]) == ["2-4", "2-3", "2-1", "1-3", "1-2"] and list(table.columns) == ["head", "base", "cda"]
    assert [("turned" in text) for text in table["cda"]] == [True, False, False, False, True]
    assert table["base"][0].startswith("-500.00 [")


def test_movement_counts_both_ways_and_shows_what_other_sentences_do():
    after = BASE.copy()
    after[0, 0], after[1, 0], after[1, 2] = -1, 1, 1
    table = debiased.movement({"base": result(BASE), "cda": result(after)}, "base")
    assert list(table["model"]) == ["cda", "base, other sentences"]
    assert list(table["biased to not"]) == [1, 0] and list(table["not to biased"]) == [2, 0]
    assert list(table["changed sides"]) == ["38%", "0%"] and list(table["of 5 most anti-biased"]) == [2, 0]
    assert table["correlation"][1] == 1


def test_darker_are_slightly_biased_heads_whose_intervals_part():
    base = np.array([[8., 1., 1.9, 2.1, -1., .5]])
    grown = base + [[1, 1, 1, 1, 9, .001]]  # of the slight ones (0 to 2) two grow beyond their interval
    assert debiased.darker(result(grown), result(base)) == 2
    assert debiased.darker(result(base), result(base)) == 0
    assert debiased.darker(result(grown, spread=5), result(base, spread=5)) == 0


def test_the_change_of_seat_has_a_paired_interval():
    same = debiased.seat_change(associations(.5), associations(.5))
    assert same == (0, 0, 0)
    lower = debiased.seat_change(associations(1.), associations(.1))
    assert lower.high < 0 and lower.low < lower.value < lower.high


def test_claims_on_debiased_models_hold_or_fail_by_their_rules():
    after = BASE.copy()
    after[0, 0] = -1
    results = {"base": result(BASE), "cda": result(after), "none": result(BASE)}
    tested = {"base": associations(1.), "cda": associations(.1), "none": associations(1.)}
    found = debiased.debiased_claims(results, "base", tested).set_index(["where", "claim"])["verdict"]
    assert found["cda"].tolist() == ["holds", "holds", "fails", "fails", "fails"]
    assert found["none", "it has fewer biased heads than its base"] == "fails"
    assert found["none", "a number of biased heads remain"] == "holds"
    alone = debiased.debiased_claims({"base": result(BASE)}, "base", tested)
    assert alone["verdict"].tolist() == ["not run: no debiased model at hand"]


def test_pronounced_heads_are_counted_from_the_bases_fence_and_tested_in_pairs():
    base = np.concatenate([np.linspace(-1, 1, 91), np.full(9, 9.)])[None]  # the fence is about 2.2
    chat = base.copy()
    assert debiased.pronounced(base, chat) == (9, 9, 1.)
    chat[0, 91:97] = 0
    most, fewer, p = debiased.pronounced(base, chat)
    assert (most, fewer) == (9, 3) and p == pytest.approx(.5**6)  # six lost, none gained
    chat[0, :6] = 9
    assert debiased.pronounced(base, chat)[2] > .5


def test_llama_claims_say_what_was_not_run():
    alone = debiased.llama_claims({"chat": result(BASE)}, ["chat"])
    assert set(alone["verdict"]) == {"not run: its base model is not at hand"}
    assert set(debiased.llama_claims({}, [])["verdict"]) == {"not run: no model of this family in the run"}
    assert set(debiased.llama_claims({"a": result(BASE)}, ["a", "b"])["verdict"]) == {"not run: b not at hand"}
    both = {"a": result(BASE, seat=.3), "a-chat": result(BASE, seat=-.4)}
    assert debiased.llama_claims(both, ["a", "a-chat"])["verdict"].tolist() == ["fails", "fails"]


def test_a_stand_in_is_never_a_match_and_the_papers_own_model_can_be():
    stand_in = debiased.against_paper({"x/SmolLM2": result(BASE, seat=.27)}, ["x/SmolLM2", "x/Chat"]).set_index("row")
    assert stand_in.loc["llama-2-7b", ["our model", "verdict"]].tolist() == ["SmolLM2", "other model"]
    assert stand_in.loc["llama-2-7b-chat", "verdict"] == "not run (no such model at hand)"
    names = ["llama-2-7b", "llama-2-7b-chat", "x/SmolLM2", "x/Chat"]
    measured = {"llama-2-7b": result(BASE, seat=-.27), "llama-2-7b-chat": result(BASE, seat=.3)}
    own = debiased.against_paper(measured, names)
    assert [verdict.partition(":")[0] for verdict in own["verdict"]] == ["matches", "differs"]
    assert debiased.against_paper({}, [])["verdict"].str.startswith("not run").all()


def test_what_is_not_at_hand_is_named_with_its_mend(monkeypatch, tmp_path):
    there, missing = debiased.at_hand(["mini-bert", str(tmp_path)])
    assert there == ["mini-bert"] and missing["model"].tolist() == [tmp_path.name]
    assert "config.json" in missing["not run, since"][0]


@pytest.mark.usefixtures("one_thread")
def test_a_folder_is_held_against_the_base_it_names_or_the_profiles(tmp_path):
    assert debiased.base_of(Run()) == "mini-bert"
    save_tiny("bert", tmp_path / "base")
    model = models.load(str(tmp_path / "base"), device="cpu")
    model.net.get_parameter("bert.pooler.dense.bias").add_(1)
    difference.save(model, str(tmp_path / "base"), tmp_path / "debiased")
    run = Run(model=str(tmp_path / "debiased"))
    assert debiased.base_of(run) == str(tmp_path / "base") and run.debiased == [str(tmp_path / "debiased")]
    assert set(run.weights([run.base, run.encoder])) == {run.base, run.encoder}
    assert debiased.base_of(Run(model="mini-bert-nli")) == "mini-bert"
    with pytest.raises(CompanionError, match="shape of none of mini-bert, bert-base, bert-large"):
        debiased.base_of(Run(model=str(tmp_path / "base")))


def test_how_a_model_was_made_is_read_from_its_record(tmp_path):
    save_tiny("bert", tmp_path / "other")
    record = {"twins": True, "hidden": 0., "attention": 0., "training": {"steps": 3, "tokens_seen": 6e6},
              "heldout_before": {"mlm_perplexity": 10.84, "nsp_accuracy": .9261},
              "heldout": {"mlm_perplexity": 11.2, "nsp_accuracy": .92}}
    save_tiny("bert", tmp_path / "cda")
    (tmp_path / "cda" / "training.json").write_text(json.dumps(record))
    table = debiased.made([str(tmp_path / "other"), str(tmp_path / "cda")]).set_index("model")
    assert table.loc["other", "text"] == "not on record" and table.loc["cda", "steps"] == 3
    shown = ["perplexity, before", "perplexity, after", "next sentence, after"]
    assert table.loc["cda", shown].tolist() == [10.84, 11.2, .92]
    assert pd.read_csv(io.StringIO(debiased.made([]).to_csv(index=False))).empty  # stored, it can be read again


@pytest.mark.usefixtures("one_thread")
def test_associations_give_seat_back(tmp_path, monkeypatch):
    monkeypatch.setitem(tiny.COMMON, "max_position_embeddings", 80)  # its tokenizer cuts long words into letters
    save_tiny("bert", tmp_path)
    found = debiased.associations(str(tmp_path), "mini", 1, device="cpu")
    sets, contexts = heads.sets_and_contexts("gender", "mini", 1)
    value = heads.seat_value(models.load(str(tmp_path), device="cpu"), sets, contexts)
    assert len(found["s"]) == len(sets.X) + len(sets.Y) and found["in_x"].sum() == len(sets.X)
    assert debiased.seat_of(found["s"], found["in_x"]) == pytest.approx(abs(value), abs=1e-5)


def test_figures_mark_the_bases_heads_in_every_panel():
    after = BASE.copy()
    after[1, 3] = 1
    results = {"base": result(BASE), "cda": result(after)}
    left, right = plots_debiased.heatmaps(results, "base").axes[:2]
    frames = [[patch.get_edgecolor()[:3] for patch in ax.patches] for ax in (left, right)]
    assert len(frames[0]) == len(frames[1]) == 5 and frames[0].count((0, 0, 0)) == 0 and frames[1].count((0, 0, 0)) == 1
    assert "1 turned" in right.get_title() + right.get_title(loc="left")
    assert left.images[0].get_clim() == right.images[0].get_clim()
    assert len(plots_debiased.movement(results, "base").axes) == 1
    assert len(plots_debiased.distributions(results).axes) == 2
