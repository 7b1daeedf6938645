"""Projective methods: the paper's own numbers give back what it prints and claims of them, turned round they do not."""

from functools import cache

import numpy as np
import pandas as pd
import pytest

from lib import printed, verdict
from lib.engine import nsp
from lib.projective import claims, nli, tables
from lib.projective.claims import CLAIMS
from lib.projective.projection import LEVELS, WRITTEN, Level
from lib.projective.tables import NAMES
from lib.verdict import Outcome
from tests.test_triples import drawn

PRINTED = tables.as_printed()
PRINTED = PRINTED.assign(**{"eta low": PRINTED["eta"], "eta high": PRINTED["eta"]})


def projected(strength, distance=None, pairs=40):
    """What projection.measure gives, where every triple pair of a model has the same s and the same d.

    Random directions change nothing.
    """
    s, d = (np.broadcast_to(np.asarray(values, float)[None, :, None], (1, 76, pairs)).copy()
            for values in (strength, strength if distance is None else distance))
    random = {key: np.broadcast_to(values[:, :1], (2, 76, pairs)) for key, values in (("s", s), ("d", d))}
    return {"fits": [WRITTEN], "s": s, "d": d, "accuracy": np.ones_like(s), "random": random}


def both_fits():
    """What nli.measure returns, of few occupations and drawn at random; the two fits are the same."""
    rng, asked = np.random.default_rng(0), {"reading": "man, woman", "contexts": 3, "items": 40}
    p = rng.dirichlet(np.ones(3), size=(1, 76, len(nli.pairs(**asked))))
    right, about = rng.random((1, 76, 60)) < .8, asked | {"labels": list(nli.LABELS)}
    neutral, agree = nli.by_model(about | {"probabilities": p[:, :1].repeat(76, 1)})  # random directions: as base
    return about | {"fits": [nli.PAIRS, nli.SINGLE], "probabilities": p.repeat(2, 0), "right": right.repeat(2, 0),
                    "random": {"neutral": neutral, "agree": agree, "right": right.mean(-1)}}


def inferred():
    """What nli.under returns of these."""
    return nli.under(both_fits(), nli.PAIRS)


@cache
def scored():
    return tables.scores(inferred(), draws=20)


def test_the_rows_are_those_of_table_7_and_their_strength_and_distance_those_of_nsp():
    assert list(printed.printed(tables.PAPER, "Table 7").index) == NAMES
    assert PRINTED["np"].value_counts().to_dict() == {0: 37, 1: 37} and list(PRINTED["level"].unique()) == list(Level)
    measured = projected(np.zeros(76), pairs=23)
    measured["s"], measured["d"] = np.random.default_rng(0).normal(size=(2, 1, 76, 23))
    frame = tables.by_model(measured)
    for i in (0, 5, 75):
        assert frame["S"].iloc[i] == pytest.approx(nsp.top_mean(measured["s"][0, i]))
        assert frame["D"].iloc[i] == pytest.approx(nsp.top_mean(measured["d"][0, i]))


def test_table_6_follows_from_table_7_and_contradictions_are_those_that_a_reader_finds():
    """Means, increase and its standard deviation (ddof 1) of the 37 pairs are the printed ones up to rounding."""
    pairs, theirs = tables.gains(PRINTED), printed.printed(tables.PAPER, "Table 6")
    groups = [*pairs.groupby("level", sort=False), ("All", pairs)]
    assert [len(group) for _, group in groups] == [1, 4, 16, 16, 37] and (pairs["increase"] > 0).all()
    for level, group in groups:
        ours = group.mean(numeric_only=True).to_dict() | {"sd": group["increase"].std(ddof=1)}
        for column, number in ours.items():
            assert number == pytest.approx(theirs.loc[level, column], abs=1.6e-4, nan_ok=True)
    contradictions = tables.contradictions().set_index("where")
    assert contradictions.loc["Table 7, SENT 1, eta", ["printed", "recomputed"]].tolist() == ["0.1231", "0.069"]
    recomputed = contradictions["recomputed"]
    assert recomputed["Section 5, Spearman of S and eta"] == "-0.0405"
    assert recomputed["Table 5, + attn, S"] == "0.1934" and recomputed["Table 5, + attn, eta"] == "0.5263"
    assert recomputed["Section 5, viable with np = 0 at Layer 11 and + attn, absolute 5 %"] == "1"
    assert recomputed["Section 5, viable with np = 1 at Layer 12, relative 5 %"] == "3"
    assert len(contradictions) == 9 and not (contradictions["printed"] == recomputed).any()


def test_scores_are_those_of_each_model_by_itself():
    measured, scores = inferred(), scored()
    pd.testing.assert_frame_equal(scores[tables.ABOUT.columns], tables.ABOUT)
    for place in (0, 40):
        alone = nli.by_occupation(measured["probabilities"][place], nli.asked(measured))
        neutral, agree = (values[place] for values in nli.by_model(measured))
        np.testing.assert_allclose(alone[["neutral", "agree"]], np.transpose([neutral, agree]))
        assert scores["eta"].iloc[place] == pytest.approx(alone["neutral"].mean() * (alone["agree"] == 1).mean())
        assert scores["majority"].iloc[place] == pytest.approx((alone["agree"] > .5).mean())
        assert scores["SNLI"].iloc[place] == measured["right"][place].mean()
    assert scores["eta low"].le(scores["eta"]).all() and scores["eta"].le(scores["eta high"]).all()
    scores, other = scored(), tables.most(scored())
    assert (other["eta"] == scores["eta majority"]).all() and (other["parity high"] == scores["majority high"]).all()
    assert (other["eta"] >= scores["eta"]).all() and (other["SNLI"] == scores["SNLI"]).all()


def test_the_best_of_the_printed_models_are_viable_and_found_in_stored_tables():
    base = PRINTED.loc["Base", "SNLI"]
    assert tables.best(PRINTED[2:], base).name == "+ attn (1, 1, 1, 1, 1)"
    levels = tables.by_level(PRINTED)
    assert levels["Layer 12"]["settings"] == "(0, 0, 1)"  # as printed
    assert levels["Layer 11"]["settings"] == "(1, 1, 1, 0, 1)"  # the printed choice is not viable
    viable = dict(zip(NAMES, tables.viability(PRINTED)))
    assert viable["Layer 11 (1, 0, 1, 1, 0)"] == "in points" and viable["Layer 11 (0, 0, 1, 1, 1)"] == "no"
    none = PRINTED.assign(SNLI=PRINTED["SNLI"].where(PRINTED["level"] != "+ attn", .1))
    assert tables.by_level(none)["+ attn"] is None
    stored = {"08_table7": PRINTED["S"].round(3).rename_axis("model").reset_index(),
              "09_table7": tables.table7(scored()).reset_index()}
    lowest, fairest = claims.best_settings(stored)
    assert lowest == PRINTED["S"][2:].round(3).idxmin() and fairest in tables.NAMES[2:]
    assert claims.best_settings(stored | {"09_table7": None}) == (lowest, "")
    assert claims.best_settings(stored | {"08_table7": None}) == ("", fairest)


HOLDS, FAILS, NO_CASE, UNDECIDED = Outcome.HOLDS, Outcome.FAILS, Outcome.NO_CASE, Outcome.UNDECIDED
DRAWS = 40


def outcomes(verdicts, file=None):
    """By claim and reading; the verdicts come back from a file as they were."""
    if file:
        verdict.write(file, verdicts)
        assert [str(one) for one in verdict.read(file)] == [str(one) for one in verdicts]
    return {(one.claim, one.reading) if one.reading else one.claim: one.outcome for one in verdicts}


def triples_read_right():
    """40 triples whose sentences that belong follow and whose unrelated ones do not, on both sides."""
    frame, rng = drawn(), np.random.default_rng(0)
    frame[["stereo", "anti", "gs_stereo", "gs_anti"]] = rng.uniform(.6, 1, (len(frame), 4))
    frame[["unrelated", "gs_unrelated"]] = rng.uniform(0, .4, (len(frame), 2))
    return frame


def test_a_model_that_ignores_gender_and_one_full_of_stereotypes(tmp_path):
    frame = triples_read_right()
    frame[["gs_stereo", "gs_anti", "gs_unrelated"]] = frame[["stereo", "anti", "unrelated"]].to_numpy()
    found = outcomes(claims.of_triples(frame))
    assert found["ss-twin"] == HOLDS and found["s-above-opposite"] == FAILS  # the same sentence always; no stereotype
    assert found["s-near-zero"] == HOLDS and found["d-unrelated"] == FAILS and found["ss-hair"] != HOLDS
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
    assert len(CLAIMS) == 33 and set(claims.SAID) == {id for id, claim in CLAIMS.items() if not claim.untestable}
    for id in ("hard2-worst", "attention-lowers", "attention-spoilt", "extend-np0", "extend-np1"):
        assert claims.SAID[id] == said[id]
    assert said["deeper-s"].startswith("3 of 3: 0.3") and said["lower-s"].endswith("+ attn (0, 0, 1, 1, 0)")
    lower = next(one for one in verdicts if one.claim == "lower-s")
    assert lower.control.name == claims.RANDOM and lower.control.difference == lower.estimate  # these change nothing


def test_claims_fail_are_undecided_or_have_no_case_where_the_numbers_say_so():
    turned = outcomes(claims.of_projections(stereotyped(1 - PRINTED["S"], 1 - PRINTED["D"]), DRAWS))
    for id in ("sent-d", "extend-np0", "extend-np1", "hard2-worst", "attention-lowers", "attention-spoilt"):
        assert turned[id] == FAILS, id
    rising = outcomes(claims.of_projections(stereotyped(np.linspace(.1, .2, 76)), DRAWS))
    assert {rising[id] for id in ("deeper-s", "deeper-d", "lower-s", "lower-d")} == {FAILS}
    measured = stereotyped(PRINTED["S"], PRINTED["D"])
    measured["random"] = {key: measured[key].repeat(2, 0) for key in "sd"}
    verdicts = {one.claim: one for one in claims.of_projections(measured, DRAWS)}
    for id in ("lower-s", "lower-d", "sent-d", "deeper-s", "deeper-d", "attention-lowers"):
        assert str(verdicts[id]) == f"undecided (no more than {claims.RANDOM})", id
    assert verdicts["hard2-worst"].outcome == HOLDS
    measured = stereotyped(PRINTED["S"], PRINTED["D"])
    measured["s"] = measured["s"] * np.where(np.arange(40) % 2, 1, -1)
    verdicts = claims.of_projections(measured, DRAWS)
    of_d = {"lower-d", "sent-d", "deeper-d"}
    assert {one.claim for one in verdicts if one.outcome != NO_CASE} == of_d | {"sent-debias", "ingredients"}
    assert {one.reading for one in verdicts if one.claim == "sent-debias" and one.outcome == NO_CASE} == {"S"}
    assert NO_CASE not in outcomes(claims.of_projections(measured, DRAWS, ignore_gates=True)).values()
    measured = stereotyped(PRINTED["S"], PRINTED["D"])
    other = stereotyped(1 - PRINTED["S"], 1 - PRINTED["D"])
    measured |= {"fits": [WRITTEN, "other"]} | {key: np.concatenate([measured[key], other[key]])
                                                for key in ("s", "d", "accuracy")}
    remarks = {one.claim: one.remark for one in claims.of_projections(measured, DRAWS)}
    assert remarks["hard2-worst"] == f"decided by {WRITTEN}; 0 of 1 other fits agree" and not remarks["threshold"]


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


def test_where_nothing_is_viable_or_the_classifier_guesses_there_is_no_case():
    none = fair()
    none["right"][:, 1:] = False
    found = outcomes(claims.of_nli(none, PRINTED["S"], DRAWS))
    for id in ("eta-higher", "eta-rises", "eta-attn", "other-settings"):
        assert {outcome for (claim, _), outcome in found.items() if claim == id} == {NO_CASE}, id
    assert found["np-deep", nli.PAIRS] == found["np-layer12", nli.PAIRS] == found["attn-viable", nli.PAIRS] == NO_CASE
    guessing = fair()
    guessing["right"] = np.random.default_rng(0).random(guessing["right"].shape) < 1 / 3
    assert set(outcomes(claims.of_nli(guessing, PRINTED["S"], DRAWS)).values()) == {NO_CASE}
