"""The tables of notebook 02, on scores made up so that the answers are plain."""

import numpy as np
import pytest

from lib.bias_a_head import head_tables


def result(scores, folds=None, family="bert", seat=1.0, p=.01):
    scores = np.asarray(scores, dtype=float)
    folds = np.stack([scores] * 4) if folds is None else np.asarray(folds, dtype=float)
    return {"family": family, "seat": seat, "p": p, "scores": scores, "folds": folds,
            "words": {"X": 2, "Y": 2, "A": 1, "B": 1}, "sentences": 12}


def test_intervals_by_hand():
    # one head's folds are 1, 2, 3: deviation 1, Student's t of two degrees of freedom 4.3027
    frame = head_tables.intervals(result([[2., 5.]], [[[1., 5.]], [[2., 5.]], [[3., 5.]]]))
    assert list(frame["head"]) == [2, 1] and list(frame["layer"]) == [1, 1]
    assert frame.high[1] - 2 == pytest.approx(4.3027 / 3 ** .5, abs=1e-4) == 2 - frame.low[1]
    assert frame.low[0] == frame.high[0] == 5


def test_survivors_compare_the_halves():
    first, second = [[4., 3.], [2., 1.]], [[4., 1.], [3., 2.]]
    found = result(first, [first, first, second, second])
    assert head_tables.survivors(found, [1, 2, 4]) == {"top 1": 1, "top 2": 1, "top 4": 4}


def test_a_shipped_model_never_matches():
    table = head_tables.against_paper({("mini-bert", "gender"): result([[1.]], seat=1.35)})
    assert table.verdict[0] == "other model" and table.verdict[1].startswith("not run")
    assert head_tables.against_paper({("bert-base", "gender"): result([[1.]], seat=-1.35)}).verdict[0] == "matches"
    assert head_tables.against_paper({("bert-base", "gender"): result([[1.]], seat=1)}).verdict[0].startswith("differs")


def test_standing_out_by_hand():
    # quartiles of 0 .. 8 are 2 and 6: the fences are at -4 and 12
    assert head_tables.standing_out(np.array([0., 1, 2, 3, 4, 5, 6, 7, 8])) == (0, 0)
    assert head_tables.standing_out(np.array([-50., 1, 2, 3, 4, 5, 6, 7, 50])) == (1, 1)


def test_claims_hold_and_fail():
    tail = np.linspace(-.1, -.01, 20).reshape(2, 10)
    tail[:, :2] = [1, .9], [.8, .7]  # both layers have two large heads
    flat = np.linspace(-1, 1, 20).reshape(2, 10)[::-1]  # no tail, and one layer has no positive head
    results = {("b", "gender"): result(tail), ("g", "gender"): result(flat, family="gpt2"),
               ("b", "race"): result(flat[::-1]), ("g", "race"): result(flat, p=.5)}
    found = head_tables.claims(results, "b", "g").set_index(["claim", "where"]).verdict
    assert found["several heads stand out to the right", "b, gender"] == "holds"
    assert found["several heads stand out to the right", "g, gender"] == "fails"
    assert found["most heads lie near zero", "b, gender"] == "holds"
    assert found["most heads lie near zero", "g, gender"] == "fails"
    assert found["biased heads appear in all layers", "b, gender"] == "holds"
    assert found["biased heads appear in all layers", "g, gender"] == "fails"
    assert found["GPT-2 has more negative heads than BERT", "gender"] == "fails"  # 10 against 16
    assert found["GPT-2 shows race bias likewise (footnote 13)", "g"] == "fails"
