"""Notebook 04's tables: which heads are masked, and verdicts that a person can check."""

import numpy as np
import pandas as pd
import pytest
import torch

from lib import CompanionError
from lib.bias_a_head import heads, lpbs, masking, masking_tables
from lib.engine import hooks, models, pppl
from lib.text import data

SCORES = torch.tensor([[.5, -.1, .3, -.2], [.1, .2, -.3, -.4], [.05, .04, -.05, .4]])  # 7 positive


def measured(seat, pppl):
    """A frame as `measure` gives it: |SEAT| and PPPL by strategy and size; random ones twice."""
    side, base = np.repeat([True, False], 40), np.random.default_rng(0).normal(size=80)
    rows = []
    for (strategy, k), value in seat.items():
        shift = base + np.where(side, 1, 0) * value
        for draw in range(2 if strategy == "random" else 1):
            rows.append({"strategy": strategy, "k": k, "draw": draw, "factor": 0.0,
                         "seat": masking.seat_of(shift, side), "pppl": pppl[strategy, k], "associations": shift,
                         "in_x": side, "likelihoods": np.full(10, -5 * np.log(pppl[strategy, k])),
                         "lengths": np.full(10, 5)})
    return pd.DataFrame(rows)


KEYS = [("full", 0), ("top", 3), ("top", 7), ("bottom", 3), ("random", 3), ("random", 7)]


def lpbs_curve(values):
    return pd.DataFrame([{"k": k, "test": test, "corrected": value, "published": value, "low": value - 1,
                          "high": value + 1} for k, value in values.items() for test in lpbs.TESTS])


def test_a_plan_has_table_1s_strategies_and_the_curve_between():
    plan = masking.plan(SCORES, draws=4, curve=[2, 5, 50], curve_draws=2, amplify=[2])
    counts = pd.DataFrame([(s, len(chosen)) for s, _, _, chosen in plan]).value_counts().to_dict()
    assert counts == {("full", 0): 1, ("top", 3): 1, ("top", 5): 1, ("top", 7): 1, ("bottom", 3): 1, ("bottom", 5): 1,
                      ("bottom", 7): 1, ("random", 3): 4, ("random", 5): 2, ("random", 7): 4, ("amplified", 3): 1}
    assert next(chosen for s, _, _, chosen in plan if (s, len(chosen)) == ("top", 7)) == heads.positive(SCORES)
    drawn = [tuple(chosen) for s, _, _, chosen in plan if s == "random" and len(chosen) == 3]
    assert len(set(drawn)) == 4
    assert plan[-1] == ("amplified", 0, 2.0, heads.bottom(SCORES, 3))


def test_claims_that_hold_and_fail():
    paper = dict(zip(KEYS, [2.0, 1.2, 1.2, 2.6, 2.3, 2.8])), dict(zip(KEYS, [4.09, 4.16, 5.75, 4.20, 4.13, 5.80]))
    curve = lpbs_curve({0: 1.4, 5: 1.3, 7: 1.5})
    held = masking_tables.claims(measured(*paper), curve)
    assert set(held["verdict"]) == {"holds"}
    wrong = dict(zip(KEYS, [2.0, 2.6, 1.2, 1.2, 1.4, 1.2])), dict(zip(KEYS, [4.0, 5.0, 4.1, 4.0, 4.0, 4.0]))
    failed = masking_tables.claims(measured(*wrong), lpbs_curve({0: 1.4, 5: 1.5, 7: 1.3}))
    assert set(failed["verdict"][:7]) == {"fails"}
    best_is_all = masking_tables.claims(measured(*paper), lpbs_curve({0: 1.4, 5: 1.5, 7: 1.3}))["verdict"]
    assert list(best_is_all[7:]) == ["holds", "fails"]


def test_table_1_has_the_papers_rows_and_compares_with_the_full_model():
    same = dict.fromkeys(KEYS, 2.0), dict(zip(KEYS, [4, 5, 8, 4, 4, 6]))
    table = masking_tables.table1(measured(*same))
    assert list(table.index) == ["full", "Top-3", "Bottom-3", "All", "Random-3", "Random-All"]
    assert list(table["heads"]) == [0, 3, 3, 7, 3, 7] and list(table["draws"]) == [1, 1, 1, 1, 2, 2]
    assert table.loc["Top-3", "times"] == "1.25 [1.25, 1.25]" and table.loc["Top-3", "change"].startswith("0.00")
    assert table.loc["full", "change"] == "" and np.isnan(table.loc["full", "SEAT sd"])


def test_amplified_heads_are_judged_by_the_factor_that_lowers_seat_most():
    found = measured(dict.fromkeys(KEYS, 2.0), dict.fromkeys(KEYS, 4.09))
    curve, full = lpbs_curve({0: 1.4, 5: 1.0, 7: 1.2}), found.iloc[0]
    louder = []
    for factor, less in ((1.5, .2), (2.0, 1.0), (3.0, -.5)):
        shift = full["associations"] - np.where(full["in_x"], less, 0)
        louder.append({**full, "strategy": "amplified", "k": 3, "factor": factor, "associations": shift,
                       "seat": masking.seat_of(shift, full["in_x"])})
    last = masking_tables.claims(pd.concat([found, pd.DataFrame(louder)], ignore_index=True), curve).iloc[-1]
    assert last["claim"].startswith("Amplifying") and last["ours"].endswith("at 2 times") and last["verdict"] == "holds"
    raised = masking_tables.claims(pd.concat([found, pd.DataFrame(louder[2:])], ignore_index=True), curve).iloc[-1]
    assert raised["verdict"] == "fails" and raised["ours"].endswith("at 3 times")
    assert not masking_tables.claims(found, curve)["claim"].str.contains("Amplifying").any()


def test_the_printed_numbers_and_what_is_missing():
    printed = masking_tables.printed()
    assert printed["table"].value_counts().to_dict() == {1: 12, 3: 31}
    lost = printed[printed["value"].isna()]
    assert set(zip(lost["table"], lost["row"])) == {(3, "5"), (3, "10")}
    found = measured(dict.fromkeys(KEYS, 2.0), dict.fromkeys(KEYS, 4.09))
    curve = lpbs_curve({0: 1.39, 5: 1.0, 7: 1.0})
    other, same = (masking_tables.against_paper(found, curve, same_model).set_index(["table", "row", "column"])
                   for same_model in (False, True))
    assert not other["verdict"].str.contains("matches").any()
    assert same.loc[("1", "full", "PPPL"), "verdict"] == "matches"
    assert same.loc[("3", "0", "career / family"), "verdict"] == "matches"
    assert same.loc[("1", "All", "PPPL"), "verdict"].startswith("differs: ")
    assert same.loc[("3", "5", "math / arts"), "verdict"].startswith("not run")
    assert same.loc[("3", "15", "math / arts"), "verdict"].startswith("not run")


@pytest.mark.parametrize("estimate, verdict", [
    ((.1, .05, .2), "holds"), ((.1, -.05, .2), "holds (within chance)"), ((-.1, -.2, -.05), "fails"),
    ((-.1, -.2, .05), "fails (within chance)"), (.3, "holds"), (-.3, "fails")])
def test_a_verdict(estimate, verdict):
    assert masking_tables._verdict(estimate) == verdict


# The measurement itself, on the shipped encoder and few words

@pytest.fixture
def few_words(monkeypatch):
    sets = heads.Sets(("nurse", "cashier"), ("soldier", "captain"), ("she", "mother"), ("he", "father"))
    words = {word: [f"Everyone saw the {word} there."] for word in sets.words}
    monkeypatch.setattr(heads, "sets_and_contexts", lambda bias, data, contexts: (sets, words))
    return sets, words


PLAN = [("full", 0, 0.0, []), ("top", 0, 0.0, [(1, 1)]), ("top", 0, 0.0, [(1, 1), (2, 2)]),
        ("top", 0, 0.0, [(1, 1), (2, 2), (3, 3)]), ("random", 0, 0.0, [(4, 4)]), ("amplified", 0, 2.0, [(5, 5)])]


def test_masks_outside_table_1_read_a_sample(few_words):
    found = masking.measure("mini-bert", PLAN, "mini", 1, 3, 2, "cpu")
    assert {name: len(values) for name, values in found.items()} == dict.fromkeys(found, len(PLAN))
    assert list(np.isnan(found["pppl"])) == [False, False, True, False, False, True]  # 2 of 1 to 3 heads; amplified
    assert list((found["lengths"] > 0).sum(1)) == [3, 3, 2, 3, 0, 2]  # of a random draw the numbers alone are kept
    texts = sorted(data.demo("prose"), key=len)[:3]
    model = models.load("mini-bert", device="cpu")
    with hooks.head_mask(model, heads.mask(model, [(1, 1), (2, 2)])):
        sample = pppl.pseudo_perplexity(model, [texts[0], texts[2]]).value
        seat = abs(heads.seat_value(model, *few_words))
    assert found["pppl_sample"][2] == pytest.approx(sample, rel=1e-5)
    assert found["seat"][2] == pytest.approx(seat, abs=1e-6)
    assert found["pppl_sample"][0] != pytest.approx(found["pppl"][0])
    twice = torch.ones(12, 12)
    twice[4, 4] = 2
    with hooks.head_mask(model, twice):
        assert found["seat"][5] == pytest.approx(abs(heads.seat_value(model, *few_words)), abs=1e-6)


def test_bfloat16_changes_pppl_by_less_than_a_percent_and_seat_not_at_all(few_words):
    full, quick = (masking.measure("mini-bert", PLAN[:2], "mini", 1, 2, 0, "cpu", precision)
                   for precision in ("float32", "bfloat16"))
    assert 0 < np.abs(quick["pppl"] / full["pppl"] - 1).max() < .01
    np.testing.assert_array_equal(quick["seat"], full["seat"])
    with pytest.raises(CompanionError, match="no precision 'int8'"):
        masking.measure("mini-bert", PLAN[:2], "mini", 1, 2, 0, "cpu", "int8")
