"""What a test of a claim comes to: every line of the rule, and properties of it; claims.csv."""

import math
from collections import Counter
from dataclasses import replace

import nbformat
import pandas as pd
import pytest
from hypothesis import given, strategies as st

from companion import claims, ledger
from companion.claims import Beside, Claim, Outcome, Test, outcome
from lib import paths
from lib.engine.stats import Estimate
from tests.tiny import refusal

MIRRORED = {">": "<", ">=": "<=", "<": ">", "<=": ">=", "within": "within"}
SUPPORTED, CONTRADICTED = Outcome.SUPPORTED, Outcome.CONTRADICTED
UNDECIDED, NOT_TESTED = Outcome.UNDECIDED, Outcome.NOT_TESTED


def claim(side=">", threshold=0.0, smallest=0.1, asks="effect", **fields) -> Claim:
    kept = dict.fromkeys(Claim.__dataclass_fields__, "") | {"low": -math.inf, "high": math.inf}
    kept |= {"relative": False, "exact": False, "effect": math.nan, "controls": ()}
    kept |= {"side": side, "threshold": threshold, "smallest": smallest, "asks": asks}
    return Claim(**kept | fields)


def came_to(claim, *ends, controls=(), **fields) -> Outcome:
    return outcome(claim, Test("a", Estimate(*ends), **fields), controls)[0]


def beyond(*ends, idle="") -> Beside:
    return Beside("untrained networks", Estimate(0.0), Estimate(*ends), idle)


@pytest.mark.parametrize(
    ("asked", "ends", "expected"),
    [
        (claim(), (0.3, 0.1, 0.5), SUPPORTED),
        (claim(), (0.09, 0.01, 0.3), UNDECIDED),  # beyond 0, but smaller than what counts
        (claim(), (0.3, -0.1, 0.5), UNDECIDED),
        (claim(), (-0.3, -0.5, -0.1), CONTRADICTED),
        (claim(), (0.05, 0.01, 0.09), CONTRADICTED),  # small throughout
        (claim(), (0.3, 0.0, 0.5), UNDECIDED),  # an end on the threshold
        (claim(">="), (0.3, 0.0, 0.5), SUPPORTED),
        (claim("<", 1.05, 0.0, "cost"), (1.0, 0.9, 1.04), SUPPORTED),
        (claim("<", 1.05, 0.0, "cost"), (1.1, 1.06, 1.2), CONTRADICTED),
        (claim("within", asks="no effect"), (0.0, -0.1, 0.1), SUPPORTED),
        (claim("within", asks="no effect"), (0.0, -0.2, 0.1), UNDECIDED),
        (claim("within", asks="no effect"), (0.3, 0.2, 0.4), CONTRADICTED),
        (claim("<", asks="no effect"), (-0.3, -0.4, -0.2), SUPPORTED),
        (claim("<", asks="no effect"), (0.3, 0.2, 0.4), CONTRADICTED),
        (claim(), (0.3,), UNDECIDED),  # without an interval
        (claim(exact=True), (0.3,), SUPPORTED),
        (claim(), (math.nan,), UNDECIDED),
        (claim(untestable="no model"), (0.3, 0.1, 0.5), NOT_TESTED),
    ],
)
def test_each_line_of_the_rule(asked, ends, expected):
    assert came_to(asked, *ends) == expected


def test_what_a_claim_is_about_has_to_be_there_but_in_a_control():
    test = Test("a", Estimate(0.3, 0.1, 0.5), needs={"SEAT": "", "language": "PPPL too high"})
    assert outcome(claim(), test) == (NOT_TESTED, "PPPL too high")
    assert outcome(claim(), test, is_control=True)[0] == SUPPORTED
    assert outcome(claim(), Test("a", untested="no race words")) == (NOT_TESTED, "no race words")


def test_an_effect_has_to_lie_beyond_each_control_that_works():
    found = (0.3, 0.1, 0.5)
    assert came_to(claim(), *found, controls=[beyond(0.2, 0.1, 0.3)]) == SUPPORTED
    assert came_to(claim(), *found, controls=[beyond(0.1, -0.1, 0.3)]) == UNDECIDED
    assert came_to(claim(), *found, beside=beyond(0.1, -0.1, 0.3)) == UNDECIDED
    assert came_to(claim(), *found, controls=[beyond(0.1, -0.1, 0.3, idle="not run")]) == SUPPORTED
    cost = claim(asks="cost")  # meets none
    assert came_to(cost, *found, controls=[beyond(0.1, -0.1, 0.3)]) == SUPPORTED


def test_the_smallest_effect_is_a_quarter_of_the_printed_one():
    printed = claim(smallest=math.nan, effect=0.4)
    assert printed.smallest_for(None) == pytest.approx(0.1)
    assert replace(printed, relative=True).smallest_for(2.0) == pytest.approx(0.2)
    assert claim(smallest=math.nan).smallest_for(3.0) == 0.0


ENDS = st.lists(st.floats(-2, 2).map(lambda x: round(x, 3)), min_size=3, max_size=3).map(sorted)
ASKED = st.builds(
    claim,
    st.sampled_from([">", ">=", "<", "<="]),
    st.sampled_from([0.0, 0.5]),
    st.sampled_from([0.0, 0.1]),
    st.sampled_from(["effect", "cost", "no effect"]),
)


@given(ASKED, ENDS)
def test_mirrored_sides_mirror_outcomes(asked, ends):
    low, value, high = ends
    mirror = replace(asked, side=MIRRORED[asked.side], threshold=-asked.threshold)
    assert came_to(asked, value, low, high) == came_to(mirror, -value, -high, -low)


@given(ASKED, ENDS)
def test_a_claim_and_its_opposite_are_never_both_supported(asked, ends):
    low, value, high = ends
    opposite = replace(asked, side={">": "<=", ">=": "<", "<": ">=", "<=": ">"}[asked.side])
    assert {came_to(one, value, low, high) for one in (asked, opposite)} != {SUPPORTED}


@given(ASKED, ENDS, st.floats(0, 2), st.floats(0, 2))
def test_a_wider_interval_decides_nothing_new(asked, ends, below, above):
    low, value, high = ends
    narrow = came_to(asked, value, low, high)
    wide = came_to(asked, value, low - below, high + above)
    assert wide in (narrow, UNDECIDED)


@given(ENDS, st.floats(0.2, 2))
def test_wholly_beyond_threshold_and_smallest_effect_is_supported(ends, distance):
    low, value, high = (end - ends[0] + distance for end in ends)
    assert came_to(claim(), value, low, high) == SUPPORTED
    assert came_to(claim(), -value, -high, -low) == CONTRADICTED


# ---- as kept
def test_tests_are_read_as_they_were_written(tmp_path):
    tests = [
        Test("a", Estimate(0.1234567, -math.inf, 1.0, 9, "words"), "m", k=3, needs={"x": "no"}),
        Test("b", Estimate(math.nan), beside=beyond(1.0, 0.0, 2.0), base=1.5, threshold=12.0),
        Test("c", untested="why"),
    ]
    claims.write(tmp_path / "02.json", tests)
    again = claims.read(tmp_path / "02.json")
    assert repr(again) == repr(tests)  # nan is not equal to itself


@pytest.mark.parametrize("text", ["", "[]", "{}", '["a"]', '[{"estimate": 3}]', '[{"claim": 1, "x": 2}]'])
def test_an_emptied_or_damaged_record_is_refused(text, tmp_path):
    (tmp_path / "02.json").write_text(text)
    assert "is missing, damaged or no list of tests" in refusal(claims.read, tmp_path / "02.json")


# ---- data/claims.csv
def test_claims_are_well_formed():
    allowed = {
        "side": {*MIRRORED, ""},
        "asks": {"effect", "cost", "no effect"},
        "paper": {"", "bias_a_head", "projective", "counteracts"},
    }
    table = pd.read_csv(paths.CLAIMS, dtype=str, keep_default_na=False)
    assert list(table) == list(Claim.__dataclass_fields__)
    for name, values in allowed.items():
        assert set(table[name]) <= values
    for one in claims.claims().values():
        assert one.says and set(one.controls) <= set(ledger.CONTROLS)
        assert one.low < one.high
        if not one.untestable:
            assert one.side and one.notebook
        if one.side == "within":
            assert one.asks == "no effect" and one.smallest_for(1.0) > 0


@pytest.fixture(scope="module")
def stored() -> pd.DataFrame:
    return ledger.table()


TESTABLE = {id: claim for id, claim in claims.claims().items() if not claim.untestable}


def test_every_claim_that_can_be_tested_is_stored_by_its_own_notebook_alone(stored):
    tested = stored[stored["run"].isin(ledger.OWN)]
    by = {id: set(rows["notebook"]) for id, rows in tested.groupby("claim")}
    assert by == {id: {claim.notebook} for id, claim in TESTABLE.items()}


def test_every_claim_that_can_be_tested_is_named_by_tests_of_one_notebook():
    """Those of notebook 11 that differ by families and kinds alone are made from their rows."""
    named = {}
    for file in paths.NOTEBOOKS.glob("[0-9]*.ipynb"):
        sources = [cell.source for cell in nbformat.read(file, as_version=4).cells]
        tests = "\n".join(source for source in sources if "Test(" in source)
        for id in claims.claims():
            if f'"{id}"' in tests:
                named.setdefault(id, set()).add(file.name[:2])
    by_hand = {id: claim for id, claim in TESTABLE.items() if not claim.expected}
    assert named == {id: {claim.notebook} for id, claim in by_hand.items()}
    assert {claim.notebook for claim in TESTABLE.values() if claim.expected} == {"11"}


def test_an_untrained_network_supports_no_effect(stored):
    """The first draw, held against the mean of the others as a trained model is against all: it
    supports no more by luck than a 95 % interval allows.
    """
    known = claims.claims()
    rows = stored[stored["run"].isin(["null", "null-real"])]
    others = ledger._Controls(rows[rows["draw"] > 0])
    found = Counter()
    for row in rows[rows["draw"] == 0].to_dict("records"):
        asked = known[row["claim"]]
        beside = [one for one in others.beside(row, asked) if one.works]
        if asked.asks == "effect" and beside:
            found[outcome(asked, row["test"], beside, is_control=True)[0]] += 1
    assert found.total() > 30
    assert found[SUPPORTED] <= 0.05 * found.total()
