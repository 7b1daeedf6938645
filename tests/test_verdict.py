"""The one place that decides: every side, both rules, gates, controls, records on disk, and printed digits."""

import ast
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lib import CompanionError, paths, verdict
from lib.engine.stats import Estimate
from lib.verdict import CHANCE, Claim, Control, Gate, Match, Outcome, Rule, Side, Verdict, judge

CLAIM = Claim("id", "counteracts", "5", "It is so", threshold=1.0)
HOLDS, FAILS, UNDECIDED, NO_CASE, NOT_RUN = Outcome
numbers = st.floats(-1e6, 1e6).map(lambda value: value + 0.0)  # no -0.0
anything = st.floats() | st.sampled_from([math.nan, math.inf, -math.inf])


def claim(side=Side.ABOVE, rule=Rule.VALUE, margin=0.0):
    return replace(CLAIM, side=side, rule=rule, margin=margin)


# ---- sides and rules

@pytest.mark.parametrize("side, below, at, above", [
    (Side.ABOVE, False, False, True), (Side.AT_LEAST, False, True, True), (Side.BELOW, True, False, False),
    (Side.AT_MOST, True, True, False), (Side.WITHIN, False, True, False)])
def test_on_which_side_of_the_threshold_a_value_lies(side, below, at, above):
    assert judge(replace(CLAIM, threshold=0.0), np.True_).outcome == HOLDS  # a condition that is met
    assert judge(CLAIM, 3.0, threshold=5.0).outcome == FAILS
    outcomes = [judge(claim(side, rule), value).outcome for rule in Rule for value in (.9, 1.0, 1.1)]
    assert outcomes == [HOLDS if met else FAILS for met in (below, at, above)] * 2
    assert not side.has(math.nan, 1.0)


@pytest.mark.parametrize("estimate, value, chance, interval", [
    (Estimate(1.5, 1.2, 1.8), HOLDS, False, HOLDS), (Estimate(1.5, .8, 1.8), HOLDS, True, UNDECIDED),
    (Estimate(.5, .2, .8), FAILS, False, FAILS), (Estimate(.5, .2, 1.8), FAILS, True, UNDECIDED),
    (Estimate(1.5, 1.0, 1.8), HOLDS, True, UNDECIDED),  # an interval that touches the threshold includes it
    (Estimate(1.5), HOLDS, False, HOLDS), (Estimate(1.0, 1.0, 1.0), FAILS, False, FAILS),
    (Estimate(math.nan, .2, .8), UNDECIDED, False, UNDECIDED), (Estimate(math.nan), UNDECIDED, False, UNDECIDED)])
def test_the_value_decides_or_the_interval(estimate, value, chance, interval):
    by_value, by_interval = (judge(claim(rule=rule), estimate) for rule in Rule)
    assert (by_value.outcome, by_value.within_chance) == (value, chance)
    assert by_interval.outcome == interval and not by_interval.reason
    mirrored = [judge(replace(claim(Side.BELOW, rule), threshold=-1.0), -estimate) for rule in Rule]
    assert [str(verdict) for verdict in mirrored] == [str(by_value), str(by_interval)]


@pytest.mark.parametrize("estimate, interval", [
    (Estimate(1.05, .95, 1.15), HOLDS), (Estimate(1.05, .75, 1.25), HOLDS), (Estimate(1.05, .7, 1.2), UNDECIDED),
    (Estimate(1.5, 1.26, 1.7), FAILS), (Estimate(.5, .3, .74), FAILS), (Estimate(1.0, -5, 5), UNDECIDED)])
def test_no_effect_is_an_interval_inside_the_margin(estimate, interval):
    assert judge(claim(Side.WITHIN, Rule.INTERVAL, margin=.25), estimate).outcome == interval
    by_value = judge(claim(Side.WITHIN, margin=.25), estimate)
    assert by_value.outcome == (HOLDS if abs(estimate.value - 1) <= .25 else FAILS)
    assert by_value.within_chance == (interval == UNDECIDED)


@given(st.sampled_from(list(Side)), numbers, numbers, numbers, numbers, st.floats(0, 1e3))
def test_the_rules_agree_wherever_the_interval_decides(side, value, low, high, threshold, margin):
    low, value, high = sorted([low, value, high])
    both = [judge(replace(CLAIM, side=side, rule=rule, margin=margin), Estimate(value, low, high), threshold=threshold)
            for rule in Rule]
    assert both[0].outcome in verdict.DECIDED
    assert both[0].within_chance == (both[1].outcome == UNDECIDED)
    if not both[0].within_chance:
        assert both[0].outcome == both[1].outcome


@pytest.mark.parametrize("redrawn, chance, interval", [
    (1.0, False, HOLDS), (.975, False, HOLDS), (.97, True, UNDECIDED), (.03, True, UNDECIDED), (.02, False, FAILS)])
def test_bootstrap_samples_in_place_of_an_interval(redrawn, chance, interval):
    assert judge(claim(), 2.0, redrawn=redrawn).within_chance == chance
    assert judge(claim(rule=Rule.INTERVAL), 2.0, redrawn=redrawn).outcome == interval


# ---- gates and controls

def test_a_shut_gate_is_no_case_and_says_why():
    gates = [Gate("SEAT", True, "SEAT 1.2"), Gate("viable", False, "no viable model"), Gate("last", False, "never")]
    shut = judge(CLAIM, 2.0, gates=gates)
    assert shut.outcome == NO_CASE and shut.reason == "no viable model" and shut.estimate.value == 2.0
    assert judge(CLAIM, 2.0, gates=gates, ignore_gates=True).outcome == HOLDS
    assert judge(CLAIM, 2.0, gates=gates[:1]).outcome == HOLDS


@pytest.mark.parametrize("control, value, interval", [
    (1.2, HOLDS, HOLDS), (1.6, HOLDS, UNDECIDED), (2.5, FAILS, FAILS), (.5, HOLDS, HOLDS)])
def test_a_control_of_equal_size_has_to_do_less(control, value, interval):
    control = Control("random heads", Estimate(control))
    by_value, by_interval = (judge(claim(rule=rule), Estimate(2.0, 1.5, 2.4), control=control) for rule in Rule)
    assert (by_value.outcome, by_interval.outcome) == (value, interval) and by_value.control == control
    assert judge(claim(rule=Rule.INTERVAL), Estimate(.5, .2, .8), control=control).outcome == FAILS


# ---- several verdicts, and their words

def some(*outcomes, reason=""):
    return [Verdict("id", outcome, reason=reason) for outcome in outcomes]


@pytest.mark.parametrize("outcomes, word", [
    ([HOLDS, HOLDS], "holds"), ([FAILS], "fails"), ([HOLDS, FAILS, FAILS], "in part (1 of 3)"),
    ([HOLDS, UNDECIDED, NO_CASE], "holds"), ([UNDECIDED, NO_CASE], "undecided"), ([NO_CASE, NOT_RUN], "no case"),
    ([NOT_RUN], "not run"), ([], "not run")])
def test_one_word_for_several(outcomes, word):
    assert verdict.combined(some(*outcomes)) == word
    chance = verdict.combined([*some(*outcomes), *some(HOLDS, reason=CHANCE)])
    assert chance == ("holds (within chance)" if FAILS not in outcomes else f"in part ({outcomes.count(HOLDS) + 1} of "
                      f"{outcomes.count(HOLDS) + outcomes.count(FAILS) + 1})")


def test_an_id_is_given_once():
    assert verdict.by_id([CLAIM]) == {"id": CLAIM}
    with pytest.raises(CompanionError):
        verdict.by_id([CLAIM, CLAIM])


# ---- on disk

estimates = st.builds(Estimate, anything, anything, anything, st.integers(0, 10_000), st.text())
verdicts = st.builds(
    Verdict, st.text(min_size=1), st.sampled_from(list(Outcome)), st.text(), st.text(), st.text(),
    st.none() | estimates, st.none() | anything, st.text(), st.none() | st.builds(Control, st.text(), estimates),
    st.lists(st.text(), max_size=3), st.text())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # each example replaces the file
@given(st.lists(verdicts, max_size=2))
def test_what_is_written_is_read(tmp_path, given):
    file = tmp_path / "11.json"
    verdict.write(file, given)
    assert repr(verdict.read(file)) == repr(given)  # nan is no equal of itself
    kept = judge(CLAIM, Estimate(np.float64(2), np.float32(1.5), np.float64(3), np.int64(7)), threshold=np.int64(1))
    verdict.write(file.with_name("numpy.json"), [kept])
    assert verdict.read(file.with_name("numpy.json")) == [kept]
    json.loads(file.read_text(encoding="utf-8"), parse_constant=pytest.fail)


@pytest.mark.parametrize("content", [
    None, b"", b"[{", b"{}x", b"[1]", b'[{"claim": "a"}]', b'[{"claim": "a", "outcome": "maybe"}]', b"\xff\xfe",
    b'{"claim": "a"}', b'[{"claim": "a", "outcome": "holds", "colour": "red"}]',
    b'[{"claim": "a", "outcome": "holds", "estimate": {"value": "x"}}]',
    b'[{"claim": "a", "outcome": "holds", "control": "random"}]'])
def test_a_damaged_file_is_named(tmp_path, content):
    if content is not None:
        (tmp_path / "02.json").write_bytes(content)
    with pytest.raises(CompanionError, match="02.json"):
        verdict.read(tmp_path / "02.json")


# ---- printed numbers

@given(st.decimals(-1000, 1000, places=3, allow_nan=False), st.integers(0, 3), st.floats(-2, 2))
def test_a_match_is_to_the_printed_digits(exact, places, off):
    printed = f"{exact:.{places}f}"
    unit = 10.0 ** -places
    said = verdict.match(printed, float(printed) + off * unit, same_model=True)
    if abs(abs(off) - .5) > 1e-4:  # beside the edge, where rounding of floats decides
        assert (said == Match.MATCHES) == (abs(off) < .5)
    assert verdict.match(printed, float(printed), same_model=False) == Match.OTHER_MODEL


@pytest.mark.parametrize("value, ours, same, said", [
    ("0.30", .3049, True, "matches"), ("0.30", .3051, True, "differs: other pairs"), ("0.3", .349, True, "matches"),
    ("0.30", Estimate(.4, .2, .5), True, "within interval"), ("0.30", .30, False, "other model"),
    ("0.30", Estimate(.4, .35, .5), True, "differs: other pairs"), ("37", 37, True, "matches"),
    (math.nan, .3, True, "not run (the printed number is lost)"), ("0.30", None, False, "not run (no head)"),
    ("0.30", math.nan, True, "not run (no head)"), (None, .3, True, "not run (the printed number is lost)"),
    ("0.30", math.inf, True, "differs: other pairs"), (1.35, 1.354, True, "matches"), (500.0, 500.4, True, "matches")])
def test_how_a_number_is_held_against_a_printed_one(value, ours, same, said):
    assert verdict.match(value, ours, same, why="other pairs", missing="no head") == said


# ---- nobody else decides

def test_no_other_module_spells_a_verdict():
    spelled = set()
    for file in (paths.ROOT / "lib").rglob("*.py"):
        source = file.read_text(encoding="utf-8")
        nodes = ast.walk(ast.parse(source)) if any(f'"{word}' in source for word in verdict.DECIDED) else ()
        literals = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        if any(text.partition(" (")[0].strip(" ,") in verdict.DECIDED for text in literals):
            spelled.add(file.relative_to(paths.ROOT / "lib").as_posix())
    assert spelled == {"verdict.py"}
