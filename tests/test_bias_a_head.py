"""Tables and claims of notebooks 02, 03, 04 and 06: on numbers that a person can check."""

import numpy as np
import pandas as pd
import pytest

from lib import CompanionError
from lib.bias_a_head import claims, debiased, lpbs, masking, tables
from lib.engine import models, stats
from lib.verdict import Outcome
from tests.tiny import save_tiny

HOLDS, FAILS = Outcome.HOLDS, Outcome.FAILS


@pytest.fixture(autouse=True)
def few_draws(monkeypatch):
    """These intervals are far from what they decide, or hold it: a hundred draws do."""
    whole = stats.bootstrap
    monkeypatch.setattr(stats, "bootstrap", lambda statistic, *samples, **_: whole(statistic, *samples, draws=100))


def outcomes(verdicts) -> dict:
    """{(claim, on): outcome}."""
    return {(each.claim, each.on): each.outcome for each in verdicts}


# 02: head scores

def result(scores, folds=None, seat=1., p=.001, family="bert"):
    scores = np.asarray(scores, dtype=float)
    folds = np.repeat(scores[None], 4, 0) if folds is None else np.asarray(folds, dtype=float)
    return {"family": family, "seat": seat, "p": p, "scores": scores, "folds": folds,
            "words": {"X": 2, "Y": 2, "A": 1, "B": 1}, "sentences": 12}


def test_intervals_by_hand():
    # one head's folds are 1, 2, 3: deviation 1, Student's t of two degrees of freedom 4.3027
    frame = tables.intervals(result([[2., 5.]], [[[1., 5.]], [[2., 5.]], [[3., 5.]]]))
    assert list(frame["head"]) == [2, 1] and list(frame["layer"]) == [1, 1]
    assert frame.high[1] - 2 == pytest.approx(4.3027 / 3 ** .5, abs=1e-4) == 2 - frame.low[1]
    assert frame.low[0] == frame.high[0] == 5


def test_standing_out_by_hand():
    # quartiles of 0 .. 8 are 2 and 6: the fences are at -4 and 12
    assert tables.standing_out(np.array([0., 1, 2, 3, 4, 5, 6, 7, 8])) == (0, 0)
    assert tables.standing_out(np.array([-50., 1, 2, 3, 4, 5, 6, 7, 50])) == (1, 1)


TAIL = np.linspace(-.1, -.01, 20).reshape(2, 10)
TAIL[:, :2] = [1, .9], [.8, .7]                      # both layers have two large heads
FLAT = np.linspace(-1, 1, 20).reshape(2, 10)[::-1]   # no tail, and one layer has no positive head


def test_claims_on_head_scores_hold_and_fail():
    results = {("b", "gender"): result(TAIL, seat=-1.004), ("g", "gender"): result(FLAT, family="gpt2", seat=.996),
               ("b", "race"): result(FLAT[::-1]), ("g", "race"): result(FLAT, p=.5)}
    ablations = {"b": {"gradient": TAIL, "ablation": TAIL.copy()}, "g": {"gradient": FLAT, "ablation": FLAT + .5}}
    verdicts = claims.of_scores(results, ablations, "b", "g")
    found = outcomes(verdicts)
    for claim in ("heads-near-zero", "heads-right-tail", "heads-all-layers"):
        assert (found[claim, "b, gender"], found[claim, "g, gender"]) == (HOLDS, FAILS)
    assert found["heads-gpt2-negative", "gender"] == FAILS  # 10 against 16
    assert found["heads-race-higher", "b"] == HOLDS         # the upper layer has all positive heads on race
    assert found["heads-race-gpt2", "g"] == FAILS
    assert found["seat-order", "g against b"] == FAILS      # 1.00 against 1.00, as shown
    assert (found["gradient-sign", "b"], found["gradient-sign", "g"]) == (HOLDS, FAILS)
    assert {verdict.claim for verdict in verdicts} == {id for id, claim in claims.CLAIMS.items()
                                                       if claim.notebook == "02"}
    shown = claims.table(verdicts)
    assert list(shown) == ["claim", "where", "ours", "verdict"] and len(shown) == len(verdicts) - 3


# 03: the counter-stereotype test

STUDIES = {"4a": ("b", "gender"), "4b": ("g", "gender"), "4c": ("b", "race")}


def by_unit(sentence, word_pair=None, difference=.01, low=.005, high=.015):
    """What counter.test returns: t and p by unit, the rest alike."""
    rows = {"sentence": sentence} | ({"word pair": word_pair} if word_pair else {})
    rest = dict(n=500, difference=difference, low=low, high=high, d=.1, d_low=0., d_high=.2)
    return pd.DataFrame({unit: {**rest, "t": t, "p": p} for unit, (t, p) in rows.items()}).T


SURE, NONE = (5.74, .00001), (-1.18, .86)


def test_claims_on_attention_are_judged_by_the_papers_test_and_shown_by_both():
    tests = {key: {"biased": by_unit(SURE, NONE), "regular": by_unit(SURE)} for key in STUDIES}
    table = pd.DataFrame([row for row, _ in claims.by_group(tests, STUDIES)])
    assert list(table.loc[0])[1:7] == ["5.7", "< .01", HOLDS, "-1.2", "0.86", FAILS]
    assert table.loc[3, "verdict, paper's test"] == FAILS and table.loc[3, "p, balanced"] == ""
    assert table.loc[3, "verdict, balanced"].startswith(Outcome.NOT_RUN)
    found = outcomes(claims.of_attention(tests, STUDIES, [.5641, .4309]))
    assert {found[f"counter-{key}-biased", f"{key} {name} {bias}"] for key, (name, bias) in STUDIES.items()} == {HOLDS}
    assert {found[f"counter-{key}-regular", f"{key} {name} {bias}"] for key, (name, bias) in STUDIES.items()} == {FAILS}
    assert found["counter-example", "b"] == HOLDS
    assert outcomes(claims.of_attention(tests, STUDIES, [.0012, .0009]))["counter-example", "b"] == FAILS  # as shown


@pytest.mark.parametrize("biased, regular, outcome, chance", [
    ((.03, .02, .04), (.01, .005, .015), HOLDS, False), ((.02, .00, .04), (.01, .005, .015), HOLDS, True),
    ((.01, .00, .02), (.01, .005, .015), FAILS, True), ((.01, .00, .02), (.05, .04, .06), FAILS, False)])
def test_the_contrast_is_within_chance_where_the_intervals_overlap(biased, regular, outcome, chance):
    groups = {"biased": by_unit(SURE, None, *biased), "regular": by_unit(SURE, None, *regular)}
    found = [verdict for verdict in claims.of_attention(dict.fromkeys(STUDIES, groups), STUDIES, [1., 0.])
             if verdict.claim == "counter-contrast"]
    assert [(verdict.outcome, verdict.within_chance) for verdict in found] == [(outcome, chance)] * 3


# 04: masking

KEYS = [("full", 0), ("top", 3), ("top", 7), ("bottom", 3), ("random", 3), ("random", 7),
        ("amplified", 3)]


def measured(seat, pppl):
    """A frame as masking.measure gives it: a shift of X's associations and PPPL for each of KEYS; random ones twice."""
    side, base = np.repeat([True, False], 40), np.random.default_rng(0).normal(size=80)
    rows = []
    for (strategy, k), more, perplexity in zip(KEYS, seat, pppl):
        shift = base + side * more
        rows += [{"strategy": strategy, "k": k, "draw": draw, "factor": 2.0 if strategy == "amplified" else 0.0,
                  "seat": masking.seat_of(shift, side), "pppl": perplexity, "associations": shift, "in_x": side,
                  "likelihoods": np.full(10, -5 * np.log(perplexity)), "lengths": np.full(10, 5)}
                 for draw in range(2 if strategy == "random" else 1)]
    return pd.DataFrame(rows)


def lpbs_curve(values):
    return pd.DataFrame([{"k": k, "test": test, "corrected": value, "published": value, "low": value - 1,
                          "high": value + 1} for k, value in values.items() for test in lpbs.TESTS])


AS_PAPER = [2.0, 1.2, 1.2, 2.6, 2.3, 2.8, 1.5], [4.09, 4.16, 5.75, 4.20, 4.13, 5.80, 4.1]
CURVE = lpbs_curve({0: 1.4, 5: 1.3, 7: 1.5})


def test_claims_on_masking_hold_and_fail():
    held = claims.of_masking(measured(*AS_PAPER), CURVE, "b")
    assert {verdict.outcome for verdict in held} == {HOLDS} and not any(verdict.within_chance for verdict in held)
    opposite = measured([2.0, 2.6, 1.2, 1.2, 1.4, 1.2, 2.5], [4.0, 5.0, 4.1, 4.0, 4.0, 4.0, 4.0])
    failed = claims.of_masking(opposite, lpbs_curve({0: 1.2, 5: 1.5, 7: 1.3}), "b")
    assert {verdict.claim for verdict in failed if verdict.outcome == HOLDS} == {"mask-lpbs-all"}
    best_is_all = outcomes(claims.of_masking(measured(*AS_PAPER), lpbs_curve({0: 1.4, 5: 1.5, 7: 1.3}), "b"))
    assert (best_is_all["mask-lpbs", ""], best_is_all["mask-lpbs-all", ""]) == (HOLDS, FAILS)
    assert len(claims.table(held)) == len(held) - 1 == 10
    assert next(verdict.found for verdict in held if verdict.claim == "mask-amplify").endswith("at 2 times")


def test_table_1_has_the_papers_rows_and_compares_with_the_full_model():
    table = tables.table1(measured([2.0] * 7, [4, 5, 8, 4, 4, 6, 4]))
    assert list(table.index) == ["full", "Top-3", "Bottom-3", "All", "Random-3", "Random-All"]
    assert list(table["heads"]) == [0, 3, 3, 7, 3, 7] and list(table["draws"]) == [1, 1, 1, 1, 2, 2]
    assert table.loc["Top-3", "times"] == "1.25 [1.25, 1.25]" and table.loc["Top-3", "change"].startswith("0.00")
    assert table.loc["full", "change"] == "" and np.isnan(table.loc["full", "SEAT sd"])


# 06: debiased models and LLaMA

BASE = np.array([[4., -1., -2., .5], [-3., .1, -4., -5.]])


def with_spread(scores, spread=.01):
    return result(scores, np.stack([scores - spread, scores, scores + spread, scores]))


def associations(shift):
    s = np.concatenate([np.linspace(0, 1, 20) + shift, np.linspace(0, 1, 20)])
    return {"s": s, "in_x": np.repeat([True, False], 20)}


def test_turned_heads_are_those_of_the_most_anti_biased_that_are_positive_now():
    assert debiased.count_turned(BASE, BASE) == 0 and debiased.count_turned(-BASE, BASE) == 5
    after = BASE.copy()
    after[1, 3] = .1  # the most anti-biased
    after[0, 1] = .1  # the fifth
    assert debiased.count_turned(after, BASE) == 2


def test_darker_are_slightly_biased_heads_whose_intervals_part():
    base = np.array([[8., 1., 1.9, 2.1, -1., .5]])
    grown = base + [[1, 1, 1, 1, 9, .001]]  # of the slight ones (0 to 2) two grow beyond their interval
    assert claims.darker(with_spread(grown), with_spread(base)) == 2
    assert claims.darker(with_spread(base), with_spread(base)) == 0
    assert claims.darker(with_spread(grown, 5), with_spread(base, 5)) == 0


def test_claims_on_debiased_models_hold_or_fail_by_their_rules():
    after = BASE.copy()
    after[0, 0] = -1
    results = {"base": with_spread(BASE), "cda": with_spread(after), "none": with_spread(BASE)}
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
