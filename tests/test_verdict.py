"""Statistics by hand, and the one place that decides: sides, intervals, preconditions, controls,
records, printed digits.
"""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from lib import verdict
from lib.engine.stats import Estimate
from lib.verdict import (
    Asks,
    Claim,
    Control,
    Outcome,
    Precondition,
    Side,
    Verdict,
    judge,
)
from tests.tiny import refusal

CLAIM = Claim("id", "counteracts", "5", "It is so", threshold=1.0)
SUPPORTED, CONTRADICTED, NO_EFFECT, MATCHED, INCONCLUSIVE, NOT_APPLICABLE, NOT_RUN = Outcome
CONTROL = ("estimate", "difference")  # what a record keeps of one
SIDES = st.sampled_from(list(Side))
numbers = st.floats(-1e6, 1e6).map(lambda value: value + 0.0)  # no -0.0
anything = st.floats() | st.sampled_from([math.nan, math.inf, -math.inf])


def claim(side=Side.ABOVE, margin=0.0, exact=False):
    return replace(CLAIM, side=side, margin=margin, exact=exact)


@pytest.mark.parametrize(
    "side, below, at, above",
    [
        (Side.ABOVE, False, False, True),
        (Side.AT_LEAST, False, True, True),
        (Side.BELOW, True, False, False),
        (Side.AT_MOST, True, True, False),
        (Side.WITHIN, False, True, False),
    ],
)
def test_a_value_alone_decides_what_is_counted_exactly_and_nothing_else(side, below, at, above):
    exact = [judge(claim(side, exact=True), value) for value in (0.9, 1.0, 1.1)]
    assert [each.outcome for each in exact] == [
        SUPPORTED if met else CONTRADICTED for met in (below, at, above)
    ]
    degenerate = [
        judge(claim(side), Estimate(value, value, value)).outcome for value in (0.9, 1.0, 1.1)
    ]
    assert degenerate == [each.outcome for each in exact]  # every sample gives this value
    assert str(judge(claim(side), 1.0)) == "inconclusive (no interval)" and not side.has(
        math.nan, 1.0
    )


@pytest.mark.parametrize(
    "estimate, outcome",
    [
        *(
            (Estimate(1.5, low, 1.8), outcome)
            for low, outcome in ((1.2, SUPPORTED), (0.8, INCONCLUSIVE), (1.0, INCONCLUSIVE))
        ),
        *(
            (Estimate(0.5, 0.2, high), outcome)
            for high, outcome in ((0.8, CONTRADICTED), (1.8, INCONCLUSIVE), (1.0, CONTRADICTED))
        ),
        *(
            (Estimate(*given), INCONCLUSIVE)
            for given in ((1.5,), (1.5, 1.2), (math.nan, 1.2, 1.8), (math.nan,))
        ),
    ],
)
def test_the_whole_interval_decides(estimate, outcome):
    found, mirrored = (
        judge(claim(), estimate),
        judge(replace(claim(Side.BELOW), threshold=-1.0), -estimate),
    )
    assert found.outcome == mirrored.outcome == outcome
    assert found.reason == (
        verdict.NO_VALUE
        if math.isnan(estimate.value)
        else verdict.NO_INTERVAL
        if not estimate.has_interval
        else ""
    )


@pytest.mark.parametrize(
    "side, low, high, outcome",
    [  # the threshold belongs to the claim's side
        (Side.AT_LEAST, 1.0, 1.8, SUPPORTED),
        (Side.AT_LEAST, 0.2, 1.0, INCONCLUSIVE),
        (Side.AT_LEAST, 0.2, 0.9, CONTRADICTED),
        (Side.AT_MOST, 0.2, 1.0, SUPPORTED),
        (Side.AT_MOST, 1.0, 1.8, INCONCLUSIVE),
        (Side.AT_MOST, 1.1, 1.8, CONTRADICTED),
        (Side.WITHIN, 0.75, 1.25, SUPPORTED),
        (Side.WITHIN, 0.7, 1.2, INCONCLUSIVE),
        (Side.WITHIN, 1.2, 1.4, INCONCLUSIVE),  # of .25
        (Side.WITHIN, 1.26, 1.7, CONTRADICTED),
        (Side.WITHIN, 0.3, 0.74, CONTRADICTED),
        (Side.WITHIN, -5, 5, INCONCLUSIVE),
    ],
)
def test_a_threshold_that_belongs_to_the_claims_side_and_a_margin(side, low, high, outcome):
    found = judge(
        claim(side, 0.25 if side == Side.WITHIN else 0), Estimate((low + high) / 2, low, high)
    )
    assert found.outcome == outcome


@given(SIDES, st.lists(numbers, min_size=5, max_size=5).map(sorted), numbers, st.floats(0, 1e3))
def test_a_wider_interval_decides_no_more(side, ends, threshold, margin):
    lowest, low, value, high, highest = ends
    narrow, wide = (
        judge(claim(side, margin), Estimate(value, *interval), threshold=threshold).outcome
        for interval in ((low, high), (lowest, highest))
    )
    # What is next to nothing may lie on one side of the threshold, and reach out of the margin;
    # what lies on the other side may reach the threshold, and be next to nothing.
    beyond = {NO_EFFECT: {SUPPORTED, CONTRADICTED}, CONTRADICTED: {NO_EFFECT}}.get(narrow, set())
    assert wide in {narrow, INCONCLUSIVE} | beyond


@pytest.mark.parametrize(
    "low, high, outcome",
    [
        (0.9, 1.1, NO_EFFECT),  # on both sides, and next to nothing
        (1.05, 1.2, NO_EFFECT),  # on the claim's side, and next to nothing
        (0.8, 0.95, CONTRADICTED),  # on the other side, however little
        (0.8, 1.0, NO_EFFECT),  # the threshold itself is on neither
        (0.75, 1.25, NO_EFFECT),  # the margin's ends are within it
        (0.7, 1.1, INCONCLUSIVE),
        (1.05, 1.3, SUPPORTED),
        (0.6, 0.9, CONTRADICTED),
    ],
)
@pytest.mark.parametrize("is_mirrored", [False, True])
def test_what_lies_within_the_margin_is_no_effect(low, high, outcome, is_mirrored):
    estimate = Estimate((low + high) / 2, low, high)
    asked = claim(Side.ABOVE, 0.25)
    if is_mirrored:
        estimate = -estimate
        asked = replace(claim(Side.BELOW, 0.25), threshold=-1.0)
    assert judge(asked, estimate).outcome == outcome
    assert judge(replace(asked, margin=0.0), estimate).outcome != NO_EFFECT


@given(
    SIDES.filter(lambda side: side != Side.WITHIN),
    st.lists(st.floats(1e-3, 1e3), min_size=3, max_size=3).map(sorted),
    numbers,
    st.floats(0, 2e3),
)
def test_an_interval_on_the_other_side_is_contradicted_whatever_the_margin(
    side, distances, threshold, margin
):
    low, value, high = (threshold + distance for distance in distances)
    if side.opposite == Side.BELOW:
        low, value, high = (threshold - distance for distance in reversed(distances))
    found = judge(claim(side, margin), Estimate(value, low, high), threshold=threshold)
    assert found.outcome == CONTRADICTED


@pytest.mark.parametrize(
    "side, margin, estimate, times",
    [
        (Side.ABOVE, 0.0, (1.5, 0.5, 2.5), 4),  # half width 1, .5 from the threshold
        (Side.ABOVE, 0.0, (1.0, 0.5, 1.5), math.inf),
        (Side.ABOVE, 0.8, (1.2, 0.0, 2.4), 4),  # .6 from the margin's edge is sooner than .2
        (Side.WITHIN, 0.25, (1.0, 0.5, 1.5), 4),
        (Side.WITHIN, 0.25, (1.5, 1.0, 2.0), 4),  # .25 outside of the margin
    ],
)
def test_how_much_data_would_decide(side, margin, estimate, times):
    asked = claim(side, margin)
    found = judge(asked, Estimate(*estimate))
    assert found.outcome == INCONCLUSIVE
    assert verdict.needed(asked, found) == pytest.approx(times)
    value, low, high = estimate
    if math.isfinite(times):  # with so much data, and a little more, it is decided
        shrunk = 0.99 / math.sqrt(times)
        narrower = Estimate(value, value - (value - low) * shrunk, value + (high - value) * shrunk)
        assert judge(asked, narrower).outcome != INCONCLUSIVE


def test_what_a_rough_control_leaves_open_needs_more_of_the_control():
    alone = judge(replace(CLAIM, threshold=0.0), Estimate(2.0, 1.7, 2.3))
    found = verdict.beside_models(CLAIM, alone, [ROUGH])
    assert found.outcome == INCONCLUSIVE
    assert math.isnan(verdict.needed(CLAIM, found))
    value, low, _ = ROUGH.difference
    assert verdict.needed_beyond(CLAIM, found) == pytest.approx(((value - low) / value) ** 2)
    assert math.isnan(verdict.needed_beyond(CLAIM, alone))


def test_what_is_decided_or_has_no_value_needs_no_more_data():
    for decided in (
        judge(claim(), Estimate(2.0, 1.5, 2.5)),
        judge(claim(), math.nan),
        verdict.not_run(CLAIM, "why"),
    ):
        assert math.isnan(verdict.needed(CLAIM, decided))


def test_a_shut_gate_is_no_case_a_threshold_may_be_the_datas_and_an_id_is_given_once():
    preconditions = [
        Precondition("SEAT", True, "SEAT 1.2"),
        Precondition("viable", False, "no viable model"),
        Precondition("last", False, "never"),
    ]
    above = Estimate(2.0, 1.5, 2.5)
    shut = judge(CLAIM, above, preconditions=preconditions)
    assert (
        shut.outcome == NOT_APPLICABLE
        and shut.reason == "no viable model"
        and shut.estimate == above
    )
    assert shut.preconditions == {"SEAT": True, "viable": False, "last": False}
    for free in (
        dict(preconditions=preconditions, ignore_preconditions=True),
        dict(preconditions=preconditions[:1]),
    ):
        assert judge(CLAIM, above, **free).outcome == SUPPORTED
    assert judge(replace(CLAIM, threshold=0.0, exact=True), np.True_).outcome == SUPPORTED
    assert judge(CLAIM, Estimate(3.0, 2.0, 4.0), threshold=5.0).outcome == CONTRADICTED
    assert verdict.by_id([CLAIM]) == {"id": CLAIM}
    refusal(verdict.by_id, [CLAIM, CLAIM])


@pytest.mark.parametrize(
    "side, difference, outcome, reason",
    [
        (Side.ABOVE, Estimate(0.5, 0.1, 0.9), SUPPORTED, ""),
        (Side.ABOVE, Estimate(0.5, -0.1, 1.1), MATCHED, "random heads: 60 % of it"),
        (Side.BELOW, Estimate(-0.5, -1.1, 0.1), MATCHED, "random heads: 240 % of it"),
        (Side.ABOVE, Estimate(-0.5, -0.9, -0.1), CONTRADICTED, "random heads do more"),
        (Side.ABOVE, Estimate(0.5), SUPPORTED, ""),  # a control without an interval says nothing
        (Side.AT_LEAST, Estimate(0.0, 0.0, 0.0), MATCHED, "random heads: 60 % of it"),
        (Side.BELOW, Estimate(-0.5, -0.9, -0.1), SUPPORTED, ""),
        (Side.BELOW, Estimate(0.5, 0.1, 0.9), CONTRADICTED, "random heads do more"),
        (Side.AT_MOST, Estimate(-0.5, -0.9, -0.1), SUPPORTED, ""),
    ],
)
def test_a_control_of_equal_size_has_to_do_less(side, difference, outcome, reason):
    control = Control("random heads", Estimate(1.2), difference)
    met, other = Estimate(2.0, 1.5, 2.4), Estimate(0.5, 0.2, 0.8)
    met, other = (met, other) if side in (Side.ABOVE, Side.AT_LEAST) else (other, met)
    found = judge(claim(side), met, control=control)
    assert (found.outcome, found.reason, found.control) == (outcome, reason, control)
    assert judge(claim(side), other, control=control).outcome == CONTRADICTED
    assert judge(claim(side), Estimate(1.0, 0.5, 1.5), control=control).outcome == INCONCLUSIVE
    for asks in (Asks.NO_EFFECT, Asks.COST):  # these meet no control
        assert judge(replace(claim(side), asks=asks), met, control=control).outcome == SUPPORTED


def shown(value, low, high, idle=""):
    """A control model that shows so much of an effect of 2."""
    estimate = Estimate(value, low, high)
    beyond = Estimate(2 - value, 2 - high, 2 - low)
    return Control("untrained networks", estimate, beyond, idle)


SMALL = shown(0.04, 0.01, 0.07)  # a fiftieth of the effect, though its interval is above 0
LARGE = shown(1.8, 1.5, 2.1)
ROUGH = shown(0.1, -3, 3)  # a twentieth of the effect, and known too roughly to tell
IDLE = shown(math.nan, math.nan, math.nan)
UNABLE = shown(1.8, 1.5, 2.1, idle="cannot show it")


@pytest.mark.parametrize(
    "models, outcome, reason",
    [
        ([SMALL], SUPPORTED, ""),
        ([LARGE], MATCHED, "untrained networks: 90 % of it"),
        ([SMALL, LARGE], MATCHED, "untrained networks: 90 % of it"),
        ([ROUGH], INCONCLUSIVE, "untrained networks: 5 % of it"),
        ([ROUGH, LARGE], MATCHED, "untrained networks: 90 % of it"),
        ([SMALL, UNABLE], SUPPORTED, ""),
        ([IDLE, UNABLE], SUPPORTED, verdict.NO_WORKING_CONTROL),
        ([], SUPPORTED, verdict.NO_WORKING_CONTROL),
    ],
)
def test_control_models_count_by_size_and_where_they_could_have_said_yes(models, outcome, reason):
    asked = replace(CLAIM, threshold=0.0)
    alone = judge(asked, Estimate(2.0, 1.7, 2.3))
    found = verdict.beside_models(asked, alone, models)
    assert (found.outcome, found.reason) == (outcome, reason)
    assert found.control_models == tuple(models) and alone.control_models is None
    cost = replace(asked, asks=Asks.COST)
    assert verdict.beside_models(cost, alone, models).outcome == SUPPORTED


def test_control_models_knock_down_nothing_that_is_not_supported():
    for estimate in (Estimate(-2.0, -2.3, -1.7), Estimate(0.1, -1, 1)):
        alone = judge(replace(CLAIM, threshold=0.0), estimate)
        found = verdict.beside_models(CLAIM, alone, [LARGE])
        assert (found.outcome, found.reason) == (alone.outcome, alone.reason)


def test_a_random_intervention_that_does_less_is_a_working_control():
    control = Control("random heads", Estimate(0.2), Estimate(1.8, 1.5, 2.1))
    alone = judge(CLAIM, Estimate(2.0, 1.7, 2.3), control=control)
    assert verdict.beside_models(CLAIM, alone, [IDLE]).reason == ""


@pytest.mark.parametrize(
    "outcomes, text",
    [
        ([SUPPORTED, CONTRADICTED, CONTRADICTED], "mixed (1 supported, 2 contradicted)"),
        ([SUPPORTED, MATCHED], "mixed (1 supported, 1 matched by controls)"),
        ([SUPPORTED, INCONCLUSIVE, NOT_APPLICABLE], "supported (1 supported, 1 inconclusive)"),
        ([SUPPORTED, NOT_APPLICABLE, NOT_RUN], "supported"),
        ([CONTRADICTED, NOT_APPLICABLE], "contradicted"),
        ([CONTRADICTED, INCONCLUSIVE], "contradicted (1 contradicted, 1 inconclusive)"),
        ([CONTRADICTED, NO_EFFECT], "contradicted (1 contradicted, 1 no effect)"),
        ([NO_EFFECT, INCONCLUSIVE], "no effect (1 no effect, 1 inconclusive)"),
        ([INCONCLUSIVE, NOT_APPLICABLE], "inconclusive"),
        ([NOT_APPLICABLE, NOT_RUN], "not applicable"),
        ([NOT_RUN], "not run"),
        ([], "not run"),
    ],
)
def test_one_word_for_several(outcomes, text):
    tests = [Verdict("id", outcome, on=f"model {i}") for i, outcome in enumerate(outcomes)]
    found = verdict.combined(CLAIM, tests)
    assert str(found) == text and found.kind == text.partition(" (")[0]


@pytest.mark.parametrize(
    "main, by_variant, text",
    [
        ("", {"a": SUPPORTED, "b": SUPPORTED}, "supported; robust"),
        (
            "",
            {"a": SUPPORTED, "b": CONTRADICTED},
            "supported; depends on the variant (b: contradicted)",
        ),
        (
            "b",
            {"a": SUPPORTED, "b": CONTRADICTED},
            "contradicted; depends on the variant (a: supported)",
        ),
        ("b", {"a": SUPPORTED}, "supported"),  # the main variant was not run
        (
            "",
            {"a": NOT_APPLICABLE, "b": SUPPORTED},
            "not applicable; depends on the variant (b: supported)",
        ),
        (verdict.EVERY_VARIANT, {"a": SUPPORTED, "b": SUPPORTED}, "supported"),
        (
            verdict.EVERY_VARIANT,
            {"a": SUPPORTED, "b": CONTRADICTED},
            "mixed (1 supported, 1 contradicted)",
        ),
    ],
)
def test_the_main_variant_gives_the_outcome(main, by_variant, text):
    tests = [Verdict("id", outcome, variant=name) for name, outcome in by_variant.items()]
    assert str(verdict.combined(replace(CLAIM, main=main), tests)) == text


def of(model, variant, outcome, bias="gender"):
    return Verdict("id", outcome, f"{model}, {bias}", variant=variant, models=[model])


def test_variants_are_compared_model_by_model():
    """Both variants support the claim in one model of two, but not in the same one."""
    claim = Claim("id", "paper", "Fig. 1", "...", main="a")
    main = [of("bert", "a", SUPPORTED), of("gpt2", "a", INCONCLUSIVE)]
    other = [of("bert", "b", INCONCLUSIVE), of("gpt2", "b", SUPPORTED)]
    assert verdict.combined(claim, main + other).variants == (
        "depends on the variant (b: inconclusive on bert, gender; b: supported on gpt2, gender)"
    )


def test_a_variant_that_fewer_models_have_is_compared_in_these_alone():
    claim = Claim("id", "paper", "Fig. 1", "...", main="a")
    main = [
        of("bert", "a", SUPPORTED),
        of("gpt2", "a", CONTRADICTED),
        of("bert", "a", MATCHED, "race"),
    ]
    assert verdict.combined(claim, [*main, of("gpt2", "b", NO_EFFECT)]).variants == "robust"
    found = verdict.combined(claim, [*main, of("bert", "b", SUPPORTED, "race")])
    assert found.variants == "depends on the variant (b: supported)"


ends = st.lists(numbers, min_size=3, max_size=3).map(sorted)
values = st.tuples(anything, st.just(math.nan), st.just(math.nan)) | ends.map(
    lambda three: (three[1], three[0], three[2])
)
estimates = st.builds(
    lambda value, n, unit: Estimate(*value, n, unit), values, st.integers(0, 10_000), st.text()
)
verdicts = st.builds(
    Verdict,
    st.text(min_size=1),
    st.sampled_from(list(Outcome)),
    st.text(),
    st.text(),
    st.text(),
    st.none() | estimates,
    anything,
    st.none() | anything,
    st.text(),
    st.none() | st.builds(Control, st.text(), estimates, estimates),
    st.dictionaries(st.text(), st.booleans()),
    st.lists(st.text(), max_size=3),
    st.text(),
).map(lambda one: replace(one, threshold=None) if one.estimate is None else one)


@settings(
    max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture]
)  # each replaces the file
@given(st.lists(verdicts, min_size=1, max_size=2))
def test_what_is_written_is_read(tmp_path, given):
    file = tmp_path / "11.json"
    verdict.write(file, given)
    assert repr(verdict.read(file)) == repr(given)  # nan is no equal of itself
    kept = judge(
        CLAIM,
        Estimate(np.float64(2), np.float32(1.5), np.float64(3), np.int64(7)),
        threshold=np.int64(1),
    )
    verdict.write(file.with_name("numpy.json"), [kept])
    assert verdict.read(file.with_name("numpy.json")) == [kept]
    json.loads(file.read_text(encoding="utf-8"), parse_constant=pytest.fail)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[{",
        "[1]",
        "[]",
        "{}",
        '{"claim": "a"}',
        '[{"claim": "a"}]',
        '[{"claim": "a", "outcome": "maybe"}]',
        "\xff\xfe",
        *(
            f'[{{"claim": "a", "outcome": "supported", {more}}}]'
            for more in ('"colour": "red"', '"estimate": {"value": "x"}', '"control": "random"')
        ),
    ],
)
def test_a_damaged_file_is_named(tmp_path, content):
    assert "02.json" in refusal(verdict.read, tmp_path / "02.json")  # there is none
    (tmp_path / "02.json").write_text(content, encoding="latin-1")
    assert "02.json" in refusal(verdict.read, tmp_path / "02.json")


def altered(**changes):
    """The row of a verdict, with changes in its estimate."""
    row = {"claim": "a", "outcome": "supported", "threshold": 0.0}
    return row | {"estimate": {"value": 0.3, "low": 0.2, "high": 0.5, "n": 9} | changes}


@pytest.mark.parametrize(
    "row",
    [
        altered(value=-0.3),
        altered(value=0.7),
        altered(value="nan"),
        altered(low=0.5, high=0.2),
        altered(high="nan"),
        altered(value=-0.3, low=-0.2, high=-0.5),
        {"claim": "a", "outcome": "supported", "threshold": 0.0},
        altered() | {"control": {key: altered(value=9)["estimate"] for key in CONTROL}},
    ],
)
def test_an_altered_record_is_no_verdict(tmp_path, row):
    verdict.files.replace(tmp_path / "02.json", json.dumps([row]).encode())
    assert "restore it with git" in refusal(verdict.read, tmp_path / "02.json")


@pytest.mark.parametrize(
    "row",
    [
        altered(),
        altered(value=0.19),  # as a bootstrap of something folded gives it
        altered(value=0.2 - 1e-7, high=0.2),
        altered(value=1.0, low="nan", high="nan"),
        altered(value="nan", low="nan", high="nan"),
        {"claim": "a", "outcome": "not run"},
    ],
)
def test_a_record_that_a_notebook_may_have_made_is_read(tmp_path, row):
    verdict.files.replace(tmp_path / "02.json", json.dumps([row]).encode())
    assert len(verdict.read(tmp_path / "02.json")) == 1
