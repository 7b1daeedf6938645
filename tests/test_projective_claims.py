"""Claims of Projective methods: its own numbers bear out what it counts, and numbers turned round do not."""

from collections import Counter
from functools import partial

import numpy as np
import pytest

from lib import verdict
from lib.projective import claims, tables
from lib.projective.claims import CLAIMS
from lib.verdict import PAPERS, Outcome
from tests.test_projective_tables import PRINTED, inferred, projected, scored
from tests.test_triples import drawn

HOLDS, FAILS, NO_CASE = Outcome.HOLDS, Outcome.FAILS, Outcome.NO_CASE


@pytest.fixture(autouse=True)
def few_draws(monkeypatch):
    monkeypatch.setattr(tables, "correlation", partial(tables.correlation, draws=50))


def outcomes(verdicts, file=None):
    """By claim and reading; the verdicts come back from a file as they were."""
    if file:
        verdict.write(file, verdicts)
        assert [str(one) for one in verdict.read(file)] == [str(one) for one in verdicts]
    return {(one.claim, one.reading) if one.reading else one.claim: one.outcome for one in verdicts}


def test_every_claim_has_a_notebook_that_tests_it_and_is_listed_once():
    assert len(CLAIMS) == 30 and {claim.paper for claim in CLAIMS.values()} <= set(PAPERS)
    for claim in CLAIMS.values():
        assert bool(claim.notebook) != bool(claim.untestable) and claim.figure[:2] == claim.notebook
    assert {*claims.ON_ETA, *claims.SAID} <= set(CLAIMS)


# ---- triples

def test_a_model_that_ignores_gender():
    frame = drawn()
    frame[["gs_stereo", "gs_anti", "gs_unrelated"]] = frame[["stereo", "anti", "unrelated"]].to_numpy()
    found = outcomes(claims.of_triples(frame))
    assert found["ss-twin"] == HOLDS and found["s-above-opposite"] == FAILS  # the same sentence always; no stereotype
    assert found["s-near-zero"] == HOLDS and found["d-unrelated"] == FAILS


def test_a_model_full_of_stereotypes(tmp_path):
    frame = drawn()
    frame[["stereo", "gs_anti"]] = .9
    frame[["anti", "gs_stereo"]] = .1
    frame.loc[:19, ["unrelated", "gs_unrelated"]] = .2, .7  # half of the calls flip
    verdicts = claims.of_triples(frame, models=["made"])
    found = outcomes(verdicts, tmp_path / "07.json")
    assert found["s-above-opposite"] == HOLDS and found["ss-twin"] == found["s-near-zero"] == FAILS
    assert all(one.models == ["made"] and one.estimate is not None for one in verdicts)


# ---- projections

def test_on_the_papers_own_numbers_its_claims_are_counted_as_it_counts_them(tmp_path):
    measured = projected(PRINTED["S"], PRINTED["D"])
    redrawn = claims.redrawn(measured, draws=3)
    verdicts = claims.of_projections(measured, redrawn)
    assert set(redrawn.values()) == {1} and set(outcomes(verdicts, tmp_path / "08.json").values()) == {HOLDS}
    said = {one.claim: one.found for one in verdicts if CLAIMS[one.claim].short}
    assert len(said) == 11 and {id for id in said if claims.paper_says(id) != said[id]} == {"threshold"}
    assert (said["hard2-worst"], said["attention-lowers"], said["attention-spoilt"]) == ("8 of 8", "24 of 24", "8 of 8")
    assert said["extend-np0"] == said["extend-np1"] == "3 of 3 lower it; (0, 1) does not"
    assert said["deeper-s"] == "3 of 3 steps: 0.308, 0.288, 0.246, 0.193"


def test_claims_fail_where_the_numbers_are_turned_round():
    turned = outcomes(claims.of_projections(projected(1 - PRINTED["S"], 1 - PRINTED["D"])))
    for id in ("sent-d", "extend-np0", "extend-np1", "hard2-worst", "attention-lowers", "attention-spoilt"):
        assert turned[id] == FAILS, id
    rising = outcomes(claims.of_projections(projected(np.linspace(.1, .2, 76))))
    assert {rising[id] for id in ("deeper-s", "deeper-d", "lower-s", "lower-d")} == {FAILS}


def test_a_claim_that_depends_on_one_triple_is_within_chance():
    """SENT's D is below base's in all pairs but one, which is always in the top when it is drawn, and decides."""
    measured = projected(PRINTED["S"], PRINTED["D"], pairs=10)
    measured["d"][0, 0, 0], measured["d"][0, 0, 1:] = 2.0, .1
    redrawn = claims.redrawn(measured, draws=60)
    sent_d = next(one for one in claims.of_projections(measured, redrawn) if one.claim == "sent-d")
    assert sent_d.outcome == HOLDS and sent_d.within_chance
    assert abs(redrawn["sent-d"] - (1 - .9 ** 10)) < .15


def test_lower_is_decided_to_three_digits_and_kept_unrounded():
    strength = np.full(76, .2)
    for lowest, outcome in ((.1998, FAILS), (.1990, HOLDS)):
        strength[9] = lowest
        lower = next(one for one in claims.of_projections(projected(strength)) if one.claim == "lower-s")
        assert lower.outcome == outcome and lower.estimate.value == pytest.approx(.2 - lowest)


# ---- inference

def test_the_papers_counts_in_its_own_table_7():
    """It says all, .649 and .412 where its Table 7 has one viable model without weighting, .32 and .53."""
    tests = claims.count_nli(PRINTED, PRINTED["S"], .058)
    assert [test.text for test in tests.values()][:4] == ["37 of 37, 0 lose", "+0.058", "4 of 4, 0 of 4",
                                                          "13 do, 1 do not"]
    assert tests["eta-rises"].text == "0.12, 0.14, 0.32" and tests["eta-attn"].text == "0.53 against 0.32"
    failing = [id for id, test in tests.items() if claims._judged(id, test).outcome == FAILS]
    assert failing == ["np-deep", "eta-attn"]


def test_claims_are_tested_under_each_reading_that_they_depend_on():
    verdicts = claims.of_nli(inferred(), scored(), PRINTED["S"])
    assert Counter(one.reading for one in verdicts) == {"": 6, "all": 4, "most": 4}
    assert all(one.found.endswith(f"(agree in {one.reading})") == bool(one.reading) for one in verdicts)
    rho = next(one for one in verdicts if one.claim == "uncorrelated")
    assert (rho.outcome == HOLDS) == (rho.estimate.low <= 0 <= rho.estimate.high)
    stored = {"08_table7": PRINTED["S"].round(3).rename_axis("model").reset_index(),
              "09_table7": tables.table7(scored()).reset_index()}
    lowest, fairest = claims.best_settings(stored)
    assert lowest == PRINTED["S"][2:].round(3).idxmin() and fairest in tables.NAMES[2:]
    assert verdicts[-1].claim == "other-settings" and verdicts[-1].outcome == (HOLDS if lowest != fairest else FAILS)
    assert claims.best_settings(stored | {"09_table7": None}) == (lowest, "")
    assert claims.best_settings(stored | {"08_table7": None}) == ("", fairest)


def test_where_nothing_is_viable(tmp_path):
    none = scored().assign(SNLI=np.where(scored().index == "Base", .9, .3))
    verdicts = claims.of_nli(inferred(), none, PRINTED["S"])
    found = outcomes(verdicts, tmp_path / "09.json")
    assert found["np-deep"] == NO_CASE and "other-settings" not in found
    assert found["eta-higher", "all"] == found["eta-higher", "most"] == found["eta-rises", "all"] == FAILS
    assert found["eta-attn", "all"] == HOLDS and not any(one.within_chance for one in verdicts if one.reading)


def test_mean_gain_is_the_mean_of_the_37():
    gain = claims.mean_gain(inferred())
    assert gain.value == pytest.approx(tables.gains(scored())["increase"].mean())
    assert gain.low <= gain.value <= gain.high
