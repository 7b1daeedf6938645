"""Claims of Projective methods: its own numbers bear out what it counts, and numbers turned round do not."""

import numpy as np
import pytest

from lib import verdict
from lib.projective import claims, nli, tables
from lib.projective.claims import CLAIMS
from lib.projective.projection import LEVELS, WRITTEN
from lib.verdict import PAPERS, Outcome
from tests.test_projective_tables import PRINTED, both_fits, projected, scored
from tests.test_triples import drawn

HOLDS, FAILS, NO_CASE, UNDECIDED = Outcome.HOLDS, Outcome.FAILS, Outcome.NO_CASE, Outcome.UNDECIDED
DRAWS = 40


def outcomes(verdicts, file=None):
    """By claim and reading; the verdicts come back from a file as they were."""
    if file:
        verdict.write(file, verdicts)
        assert [str(one) for one in verdict.read(file)] == [str(one) for one in verdicts]
    return {(one.claim, one.reading) if one.reading else one.claim: one.outcome for one in verdicts}


def test_every_claim_has_a_notebook_that_tests_it_and_is_listed_once():
    assert len(CLAIMS) == 33 and {claim.paper for claim in CLAIMS.values()} <= set(PAPERS)
    for claim in CLAIMS.values():
        assert bool(claim.notebook) != bool(claim.untestable) and claim.figure[:2] == claim.notebook
    assert set(claims.SAID) == {id for id, claim in CLAIMS.items() if not claim.untestable}


# ---- triples

def triples_read_right():
    """40 triples whose sentences that belong follow and whose unrelated ones do not, on both sides."""
    frame, rng = drawn(), np.random.default_rng(0)
    frame[["stereo", "anti", "gs_stereo", "gs_anti"]] = rng.uniform(.6, 1, (len(frame), 4))
    frame[["unrelated", "gs_unrelated"]] = rng.uniform(0, .4, (len(frame), 2))
    return frame


def test_a_model_that_ignores_gender():
    frame = triples_read_right()
    frame[["gs_stereo", "gs_anti", "gs_unrelated"]] = frame[["stereo", "anti", "unrelated"]].to_numpy()
    found = outcomes(claims.of_triples(frame))
    assert found["ss-twin"] == HOLDS and found["s-above-opposite"] == FAILS  # the same sentence always; no stereotype
    assert found["s-near-zero"] == HOLDS and found["d-unrelated"] == FAILS and found["ss-hair"] != HOLDS


def test_a_model_full_of_stereotypes(tmp_path):
    frame = triples_read_right()
    frame[["stereo", "gs_anti"]] = .9
    frame[["anti", "gs_stereo"]] = .6
    frame.loc[:9, ["unrelated", "gs_unrelated"]] = .2, .7  # some of the calls flip
    verdicts = claims.of_triples(frame, models=["made"])
    found = outcomes(verdicts, tmp_path / "07.json")
    assert found["s-above-opposite"] == HOLDS and found["ss-twin"] == found["s-near-zero"] == FAILS
    assert found["d-unrelated"] == HOLDS
    assert all(one.models == ["made"] and one.estimate is not None for one in verdicts)


@pytest.mark.parametrize("middle", [.5, .56])
def test_an_untrained_network_bears_nothing_out_even_without_gates(middle):
    """p(next) next to constant: s, leads and what the swap changes are small, and mean nothing."""
    frame, rng = drawn(), np.random.default_rng(1)
    written = middle + .001 * rng.normal(size=(len(frame), 3))
    frame[["stereo", "anti", "unrelated"]] = written
    frame[["gs_stereo", "gs_anti", "gs_unrelated"]] = written + 1e-5 * rng.standard_t(2, size=written.shape)
    gated = outcomes(claims.of_triples(frame))
    assert set(gated.values()) == {NO_CASE}
    found = outcomes(claims.of_triples(frame, ignore_gates=True))
    assert HOLDS not in found.values()


# ---- projections

def stereotyped(strength, distance=None, **options):
    """As `projected`, with triple pairs that differ: S is above its opposite, and intervals have a width."""
    measured = projected(strength, distance, **options)
    spread = 1 + .02 * np.random.default_rng(0).normal(size=measured["s"].shape[-1])
    for values in (measured, measured["random"]):
        values["s"], values["d"] = values["s"] * spread, values["d"] * spread
    return measured


def test_on_the_papers_own_numbers_its_claims_are_counted_as_it_counts_them(tmp_path):
    verdicts = claims.of_projections(stereotyped(PRINTED["S"], PRINTED["D"]), DRAWS)
    found = outcomes(verdicts, tmp_path / "08.json")
    assert set(found.values()) == {HOLDS} and len(found) == len(claims.OF_PROJECTIONS) + 2
    said = {one.claim: one.found for one in verdicts}
    for id in ("hard2-worst", "attention-lowers", "attention-spoilt", "extend-np0", "extend-np1"):
        assert claims.SAID[id] == said[id]
    assert said["deeper-s"].startswith("3 of 3: 0.3") and said["lower-s"].endswith("+ attn (0, 0, 1, 1, 0)")
    lower = next(one for one in verdicts if one.claim == "lower-s")
    assert lower.control.name == claims.RANDOM and lower.control.difference == lower.estimate  # these change nothing


def test_claims_fail_where_the_numbers_are_turned_round():
    turned = outcomes(claims.of_projections(stereotyped(1 - PRINTED["S"], 1 - PRINTED["D"]), DRAWS))
    for id in ("sent-d", "extend-np0", "extend-np1", "hard2-worst", "attention-lowers", "attention-spoilt"):
        assert turned[id] == FAILS, id
    rising = outcomes(claims.of_projections(stereotyped(np.linspace(.1, .2, 76)), DRAWS))
    assert {rising[id] for id in ("deeper-s", "deeper-d", "lower-s", "lower-d")} == {FAILS}


def test_what_random_directions_do_as_well_is_undecided():
    measured = stereotyped(PRINTED["S"], PRINTED["D"])
    measured["random"] = {key: measured[key].repeat(2, 0) for key in "sd"}
    verdicts = {one.claim: one for one in claims.of_projections(measured, DRAWS)}
    for id in ("lower-s", "lower-d", "sent-d", "deeper-s", "deeper-d", "attention-lowers"):
        assert str(verdicts[id]) == f"undecided (no more than {claims.RANDOM})", id
    assert verdicts["hard2-worst"].outcome == HOLDS


def test_where_strength_is_not_above_its_opposite_there_is_no_case():
    measured = stereotyped(PRINTED["S"], PRINTED["D"])
    measured["s"] = measured["s"] * np.where(np.arange(40) % 2, 1, -1)
    verdicts = claims.of_projections(measured, DRAWS)
    of_d = {"lower-d", "sent-d", "deeper-d"}
    assert {one.claim for one in verdicts if one.outcome != NO_CASE} == of_d | {"sent-debias", "ingredients"}
    assert {one.reading for one in verdicts if one.claim == "sent-debias" and one.outcome == NO_CASE} == {"S"}
    assert NO_CASE not in outcomes(claims.of_projections(measured, DRAWS, ignore_gates=True)).values()


def test_the_best_is_chosen_on_one_half_and_judged_on_the_other():
    """Settings that differ by luck alone: the best of them is below base in sample, and not where it is judged."""
    measured, rng = stereotyped(np.full(76, .2), pairs=200), np.random.default_rng(0)
    measured["s"] = .2 + .1 * rng.normal(size=measured["s"].shape)
    halves = claims.of_bias(measured, "S", DRAWS)[WRITTEN]
    best = halves.best(claims.EVERY)
    in_sample = tables.by_model(measured)["S"]
    assert in_sample[2:].min() < in_sample.iloc[0] - .02 and best.change.low < 0 < best.change.high
    fitted, base = (tables.tops(measured["s"][0][:, half]) for half in nli.halves(200, np.random.default_rng(0)))
    assert halves.choose(claims.EVERY) == [2 + base[2:].argmin(), 2 + fitted[2:].argmin()]


def test_other_fits_are_named_where_they_do_not_agree():
    measured = stereotyped(PRINTED["S"], PRINTED["D"])
    other = stereotyped(1 - PRINTED["S"], 1 - PRINTED["D"])
    measured |= {"fits": [WRITTEN, "other"]} | {key: np.concatenate([measured[key], other[key]])
                                                for key in ("s", "d", "accuracy")}
    remarks = {one.claim: one.remark for one in claims.of_projections(measured, DRAWS)}
    assert remarks["hard2-worst"] == f"decided by {WRITTEN}; 0 of 1 other fits agree" and not remarks["threshold"]


# ---- inference

def fair():
    """Two fits alike in which weighting at SENT is accurate, deeper is fairer, and random directions do nothing."""
    measured, rng = both_fits(), np.random.default_rng(0)
    depth = tables.ABOUT["level"].map({level: i for i, level in enumerate(LEVELS, 1)}).fillna(0).to_numpy()
    p = rng.random((76, measured["probabilities"].shape[2] // 2)).repeat(2, axis=1)  # the same for man and woman
    neutral = p < (.05 + .3 * np.minimum(depth, 3))[:, None]
    probabilities = np.where(neutral[..., None], [.1, .8, .1], [.8, .1, .1])
    level = .9 - .01 * depth - .2 * (tables.ABOUT["np"] == 0).to_numpy()
    right = ((np.arange(1_600) + .5) / 1_600 < level[:, None])[:, rng.permutation(1_600)]
    measured |= {"probabilities": np.stack([probabilities] * 2), "right": np.stack([right] * 2)}
    neutral, agree = nli.by_model(measured | {"probabilities": probabilities[:1].repeat(76, 0)[None]})
    return measured | {"random": {"neutral": neutral, "agree": agree}}


def test_claims_are_tested_under_each_reading_that_they_depend_on(tmp_path):
    verdicts = claims.of_nli(fair(), PRINTED["S"], DRAWS)
    found = outcomes(verdicts, tmp_path / "09.json")
    assert len(verdicts) == 6 * 2 + 6 * 4 and {claim for claim, _ in found} == {one.id for one in claims.OF_NLI}
    single = {claim: outcome for (claim, reading), outcome in found.items() if reading in (nli.SINGLE,)}
    assert single["np-all"] == single["np-mean"] == single["np-layer12"] == single["np-deep"] == HOLDS
    assert single["deeper-snli"] == HOLDS
    higher = [one for one in verdicts if one.claim == "eta-higher"]
    assert {one.reading for one in higher} == {f"{fit}; {agree} agree" for fit in (nli.PAIRS, nli.SINGLE)
                                               for agree in claims.AGREE}
    assert {one.outcome for one in higher} == {HOLDS} and higher[1].control.difference.low > 0
    assert found["eta-rises", higher[1].reading] != FAILS
    rho = next(one for one in verdicts if one.claim == "uncorrelated")
    assert "within np = 0: " in rho.remark and "np = 1: " in rho.found


def test_where_nothing_is_viable():
    none = fair()
    none["right"][:, 1:] = False
    found = outcomes(claims.of_nli(none, PRINTED["S"], DRAWS))
    for id in ("eta-higher", "eta-rises", "eta-attn", "other-settings"):
        assert {outcome for (claim, _), outcome in found.items() if claim == id} == {NO_CASE}, id
    assert found["np-deep", nli.PAIRS] == found["np-layer12", nli.PAIRS] == found["attn-viable", nli.PAIRS] == NO_CASE


def test_a_classifier_that_does_not_know_its_task_has_no_case():
    guessing = fair()
    guessing["right"] = np.random.default_rng(0).random(guessing["right"].shape) < 1 / 3
    assert set(outcomes(claims.of_nli(guessing, PRINTED["S"], DRAWS)).values()) == {NO_CASE}


def test_the_best_settings_of_stored_tables():
    stored = {"08_table7": PRINTED["S"].round(3).rename_axis("model").reset_index(),
              "09_table7": tables.table7(scored()).reset_index()}
    lowest, fairest = claims.best_settings(stored)
    assert lowest == PRINTED["S"][2:].round(3).idxmin() and fairest in tables.NAMES[2:]
    assert claims.best_settings(stored | {"09_table7": None}) == (lowest, "")
    assert claims.best_settings(stored | {"08_table7": None}) == ("", fairest)
