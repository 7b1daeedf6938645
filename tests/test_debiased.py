"""Notebook 06: which heads turned, what is darker and pronounced, which base a model is compared with."""

import numpy as np
import pytest

from lib import CompanionError
from lib.bias_a_head import claims, debiased, heads
from lib.engine import models
from lib.verdict import Outcome
from tests import tiny
from tests.tiny import one_thread, save_tiny  # noqa: F401

pytestmark = pytest.mark.usefixtures("one_thread")
BASE = np.array([[4., -1., -2., .5], [-3., .1, -4., -5.]])
HOLDS, FAILS = Outcome.HOLDS, Outcome.FAILS


def result(scores, spread=.01, seat=1., p=.001):
    scores = np.array(scores, dtype=float)
    folds = np.stack([scores - spread, scores, scores + spread, scores])
    return {"family": "bert", "seat": seat, "p": p, "scores": scores, "folds": folds, "sentences": 9,
            "words": dict.fromkeys("XYAB", 2)}


def associations(shift):
    s = np.concatenate([np.linspace(0, 1, 20) + shift, np.linspace(0, 1, 20)])
    return {"s": s, "in_x": np.repeat([True, False], 20)}


def test_turned_heads_are_those_of_the_most_anti_biased_that_are_positive_now():
    assert debiased.count_turned(BASE, BASE) == 0 and debiased.count_turned(-BASE, BASE) == 5
    after = BASE.copy()
    after[1, 3] = .1  # the most anti-biased
    after[0, 1] = .1  # the fifth
    assert debiased.count_turned(after, BASE) == 2 and debiased.count_turned(after, BASE, k=4) == 1


def test_darker_are_slightly_biased_heads_whose_intervals_part():
    base = np.array([[8., 1., 1.9, 2.1, -1., .5]])
    grown = base + [[1, 1, 1, 1, 9, .001]]  # of the slight ones (0 to 2) two grow beyond their interval
    assert claims.darker(result(grown), result(base)) == 2
    assert claims.darker(result(base), result(base)) == 0
    assert claims.darker(result(grown, spread=5), result(base, spread=5)) == 0


def test_claims_on_debiased_models_hold_or_fail_by_their_rules():
    after = BASE.copy()
    after[0, 0] = -1
    results = {"base": result(BASE), "cda": result(after), "none": result(BASE)}
    tested = {"base": associations(1.), "cda": associations(.1), "none": associations(1.)}
    verdicts = claims.of_debiased(results, "base", tested)
    assert [verdict.outcome for verdict in verdicts[:5]] == [HOLDS, HOLDS, FAILS, FAILS, FAILS]
    assert [verdict.outcome for verdict in verdicts[5:]] == [FAILS, FAILS, HOLDS, FAILS, FAILS]
    lower, same = verdicts[0].estimate, verdicts[5].estimate  # the same words are drawn for both models
    assert lower.high < 0 and lower.low < lower.value and (same.value, same.low, same.high) == (0, 0, 0)
    assert verdicts[1].estimate.value == -1 and verdicts[0].models == ["base", "cda"]
    alone = claims.of_debiased({"base": result(BASE)}, "base", tested)
    assert {(verdict.outcome, verdict.on) for verdict in alone} == {(Outcome.NOT_RUN, "base")} and len(alone) == 5


def test_pronounced_heads_are_counted_from_the_bases_fence_and_tested_in_pairs():
    base = np.concatenate([np.linspace(-1, 1, 91), np.full(9, 9.)])[None]  # the fence is about 2.2
    chat = base.copy()
    assert debiased.pronounced(base, chat) == (9, 9, 1.)
    chat[0, 91:97] = 0
    most, fewer, p = debiased.pronounced(base, chat)
    assert (most, fewer) == (9, 3) and p == pytest.approx(.5**6)  # six lost, none gained
    verdicts = claims.of_chat({"a": result(base, seat=.3), "b": result(chat, seat=-.4)}, ["a", "b"])
    assert [verdict.outcome for verdict in verdicts] == [FAILS, HOLDS]
    chat[0, :6] = 9
    assert debiased.pronounced(base, chat)[2] > .5


def test_what_was_not_run_is_said():
    for names, where in ([], "LLaMA family"), (["b"], "b against its base"), (["a", "b"], "b against a"):
        verdicts = claims.of_chat({name: result(BASE) for name in names if name == "b"}, names)
        assert [verdict.outcome for verdict in verdicts] == [Outcome.NOT_RUN] * 2 and verdicts[0].on == where


def test_a_folder_is_compared_with_the_base_it_names_or_that_of_its_shape(tmp_path):
    model = save_tiny("bert", tmp_path / "base")
    model.net.get_parameter("bert.pooler.dense.bias").add_(1)
    models.save_difference(model, str(tmp_path / "base"), tmp_path / "debiased")
    assert debiased.base_of(str(tmp_path / "debiased"), "mini-bert") == str(tmp_path / "base")
    assert debiased.base_of("mini-bert-nli", "mini-bert") == "mini-bert"
    with pytest.raises(CompanionError):
        debiased.base_of(str(tmp_path / "base"), "mini-bert")
    there, missing = debiased.at_hand(["mini-bert", str(tmp_path)])
    assert there == ["mini-bert"] and missing[0]["model"] == tmp_path.name


def test_associations_give_seat_back(tmp_path, monkeypatch):
    monkeypatch.setitem(tiny.COMMON, "max_position_embeddings", 80)  # its tokenizer cuts long words into letters
    save_tiny("bert", tmp_path)
    words = debiased.associations(str(tmp_path), "mini", 1, items=40, device="cpu")
    sets, contexts = heads.sets_and_contexts("gender", "mini", 1, items=40)
    value = heads.seat_value(models.load(str(tmp_path), device="cpu"), sets, contexts)
    assert len(words["s"]) == len(sets.X) + len(sets.Y) == 20 and words["in_x"].sum() == len(sets.X)
    assert debiased.seat_of(words["s"], words["in_x"]) == pytest.approx(abs(value), abs=1e-5)
