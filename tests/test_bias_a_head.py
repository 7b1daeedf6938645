"""Tables and claims of notebooks 02, 03, 04 and 06: on numbers that a person can check."""

import numpy as np
import pandas as pd
import pytest

from lib.bias_a_head import claims, debiased, findings, masking, tables
from lib.engine import models, stats
from lib.publish import records
from lib.verdict import Outcome, Verdict
from tests.tiny import refusal, save_tiny

SUPPORTED, CONTRADICTED = Outcome.SUPPORTED, Outcome.CONTRADICTED
pytestmark = pytest.mark.usefixtures(
    "few_draws"
)  # intervals are far from what they decide, or hold it


def outcomes(verdicts) -> dict:
    """{(claim, on): outcome}."""
    return {(each.claim, each.on): each.outcome for each in verdicts}


# 02: head scores


def result(scores, folds=None, seat=1.0, p=0.001, family="bert"):
    scores, side = np.asarray(scores, dtype=float), np.linspace(-1, 1, 20)
    folds = np.repeat(scores[None], 4, 0) if folds is None else np.asarray(folds, dtype=float)
    return {
        "family": family,
        "seat": seat,
        "p": p,
        "scores": scores,
        "folds": folds,
        "in_x": np.arange(40) < 20,
        "s": np.concatenate([side + seat, side]),
        "words": {"X": 20, "Y": 20, "A": 1, "B": 1},
        "sentences": 12,
    }


def test_intervals_and_what_stands_out_by_hand():
    # one head's folds are 1, 2, 3: deviation 1, Student's t of two degrees of freedom 4.3027
    frame = tables.intervals(result([[2.0, 5.0]], [[[1.0, 5.0]], [[2.0, 5.0]], [[3.0, 5.0]]]))
    assert list(frame["head"]) == [2, 1] and list(frame["layer"]) == [1, 1]
    assert frame.high[1] - 2 == pytest.approx(4.3027 / 3**0.5, abs=1e-4) == 2 - frame.low[1]
    assert frame.low[0] == frame.high[0] == 5
    # quartiles of 0 .. 8 are 2 and 6: the fences are at -4 and 12
    assert tables.outliers(np.array([0.0, 1, 2, 3, 4, 5, 6, 7, 8])) == (0, 0)
    assert tables.outliers(np.array([-50.0, 1, 2, 3, 4, 5, 6, 7, 50])) == (1, 1)


def test_redrawn_seats_and_what_the_highest_heads_carry():
    measured = result(np.zeros((1, 1)), seat=0.5)
    drawn = tables.resampled_seats(measured, draws=200)
    size = (measured["s"][:20].mean() - measured["s"][20:].mean()) / measured["s"].std(ddof=1)
    found, few = (
        tables.percentile_interval(size, drawn),
        tables.seat_interval(measured | {"seat": size}),
    )
    assert found.low < size < found.high and drawn.shape == (200,)
    assert (few.low, few.high) == pytest.approx(
        (found.low, found.high), abs=0.15
    )  # 40 words: two ways agree
    both = tables.resampled_seats(
        measured | {"s": np.stack([measured["s"], -measured["s"]])}, draws=200
    )
    np.testing.assert_allclose(both, np.stack([drawn, -drawn], 1))
    scores = np.array([[6.0, 2, 1, 1, -1, -1, -1, -1, -1, -1]])
    share, chance = tables.share_carried(result(scores), 0.1)
    assert (share.value, share.low, share.high, chance) == pytest.approx((0.6, 0.6, 0.6, 0.25))
    noise = np.random.default_rng(0).normal(size=(10, 12, 12))
    share, chance = tables.share_carried(
        result(noise.mean(0), noise), 0.1
    )  # heads chosen on noise carry nothing over
    assert not share.low > chance
    s, in_x = np.repeat(result(scores)["s"][None], 11, 0), result(scores)["in_x"]
    s[1, in_x] -= 0.5  # only the first head matters
    ablation = {"gradient": scores[0], "ablation": scores[0], "s": s, "in_x": in_x}
    found = tables.share_carried_by_ablation(ablation, 0.1)
    assert found.value == pytest.approx(0.6) and (found.low, found.high) == pytest.approx((1, 1))


TAIL = np.linspace(-0.05, -0.01, 40).reshape(2, 20)
TAIL[:, :3] = [2, 1.9, 1.7], [1.8, 1.7, 1.6]  # both layers have three large heads
TAIL[:, 3:6] = 0.02
FLAT = np.linspace(-1, 1, 40).reshape(2, 20)[::-1]  # no tail, and one layer has no positive head


def test_layers_are_counted_by_their_best_head_and_by_its_interval():
    rows = [
        (1, 0.2, 0.1, 0.3),  # surely biased
        (1, -0.2, -0.3, -0.1),
        (2, 0.1, -0.1, 0.3),  # biased by its score alone
        (3, -0.1, -0.2, 0.1),  # may be biased
        (4, -0.2, -0.3, -0.1),  # surely not
    ]
    frame = pd.DataFrame(rows, columns=["layer", "score", "low", "high"])
    assert tables.layers_with_biased_heads(frame) == stats.Estimate(2, 1, 3, 4, "layers")


def scored(encoder="bert", decoder="gpt2"):
    """The arguments of claims.of_scores: an encoder b and a decoder g of these families."""
    results = {
        ("b", "gender"): result(TAIL, seat=-2.0, family=encoder),
        ("g", "gender"): result(FLAT, family=decoder),
        ("b", "race"): result(FLAT[::-1], family=encoder),
        ("g", "race"): result(FLAT, p=0.5, seat=0.0, family=decoder),
    }
    s = np.repeat(result(TAIL)["s"][None], 41, 0)
    ablations = {
        name: {
            "gradient": scores.ravel(),
            "ablation": scores.ravel() + more,
            "s": s,
            "in_x": result(TAIL)["in_x"],
        }
        for name, scores, more in (("b", TAIL, 0.0), ("g", FLAT, 0.5))
    }
    return results, ablations


def test_claims_on_head_scores_hold_and_fail():
    results, ablations = scored()
    verdicts = claims.of_scores(results, ablations, "b", "g")
    found = {(each.claim, each.on): each.outcome for each in verdicts if each.variant != "ablation"}
    for claim in ("heads-near-zero", "heads-right-tail", "heads-all-layers", "heads-small-set"):
        assert (found[claim, "b, gender"], found[claim, "g, gender"]) == (SUPPORTED, CONTRADICTED)
        assert found[claim, "g, race"] == Outcome.NOT_APPLICABLE  # SEAT is not significant
    assert (
        found["heads-gpt2-negative", "gender"] == Outcome.NO_EFFECT
        and found["heads-race-higher", "b"] == SUPPORTED
    )
    assert (
        found["heads-race-gpt2", "g beside b"] == Outcome.INCONCLUSIVE
        and found["seat-order", "g against b"] == SUPPORTED
    )
    assert (found["gradient-sign", "b"], found["gradient-sign", "g"]) == (SUPPORTED, CONTRADICTED)
    assert {verdict.claim for verdict in verdicts} == {
        id for id, claim in claims.CLAIMS.items() if claim.notebook == "02"
    }
    assert len(claims.table(verdicts)) == len(verdicts)
    bare = {
        key: {name: part for name, part in one.items() if name != "s"}
        for key, one in results.items()
    }
    old = outcomes(claims.of_scores(bare, ablations, "b", "g"))  # stored before associations were
    for about_both in (("seat-order", "g against b"), ("heads-race-gpt2", "g beside b")):
        assert old[about_both] == Outcome.INCONCLUSIVE
    for claim in OF_GPT2_AND_BERT:
        assert {tuple(one.models) for one in verdicts if one.claim == claim} == {("g", "b")}
    assert (
        Outcome.NOT_APPLICABLE
        not in outcomes(
            claims.of_scores(results, ablations, "b", "g", ignore_preconditions=True)
        ).values()
    )


def test_heads_that_were_tried_are_told_from_all_that_there_are():
    results, ablations = scored()
    for part in ("gradient", "ablation"):
        ablations["g"][part] = ablations["g"][part][::3]
    ablations["g"]["s"] = ablations["g"]["s"][: 1 + len(ablations["g"]["gradient"])]
    verdicts = claims.of_scores(results, ablations, "b", "g")
    units = {one.on: one.estimate.unit for one in verdicts if one.claim == "gradient-sign"}
    assert units == {"b": "heads", "g": "heads tried"}


OF_GPT2_AND_BERT = {"heads-gpt2-fewer", "heads-gpt2-negative", "heads-race-gpt2", "seat-order"}


def test_biased_heads_of_gpt2_and_of_bert_are_counted_by_hand():
    """12 of TAIL's 40 heads are positive, and 20 of FLAT's, in every fold."""
    results, ablations = scored()
    swapped = results | {
        ("b", "gender"): results["g", "gender"],
        ("g", "gender"): results["b", "gender"],
    }
    for of_models, more, outcome in ((results, 8, CONTRADICTED), (swapped, -8, SUPPORTED)):
        for one in of_models.values():
            one["family"] = "gpt2" if one is of_models["g", "gender"] else "bert"
        of_both = claims.of_scores(of_models, ablations, "b", "g")
        (one,) = [verdict for verdict in of_both if verdict.claim == "heads-gpt2-fewer"]
        assert (tuple(one.estimate), one.outcome) == ((more,) * 3, outcome)


def test_claims_whose_words_name_gpt2_or_bert_say_so():
    of_gpt2 = set()
    for claim in claims.CLAIMS.values():
        is_named = "GPT-2" in claim.says or "BERT" in claim.says
        assert isinstance(claim, claims.Comparison) == is_named, claim.id
        if is_named:
            of_gpt2.add(claim.id)
            assert (claim.decoder, claim.encoder) == ("gpt2", "bert")
    assert of_gpt2 == OF_GPT2_AND_BERT


@pytest.mark.parametrize(
    "families, why",
    [
        ({"decoder": "llama"}, "g is of the family llama, the claim is of gpt2"),
        ({"encoder": "mpnet"}, "b is of the family mpnet, the claim is of bert"),
        (
            {"encoder": "mpnet", "decoder": "gemma3_text"},
            "g is of the family gemma3_text, the claim is of gpt2",
        ),
    ],
)
def test_a_comparison_of_gpt2_with_bert_is_not_applicable_to_other_families(families, why):
    named = claims.of_scores(*scored(), "b", "g")
    others = claims.of_scores(*scored(**families), "b", "g")
    for one, other in zip(named, others, strict=True):
        if one.claim not in OF_GPT2_AND_BERT:
            assert other == one
            continue
        assert (other.outcome, other.reason) == (Outcome.NOT_APPLICABLE, why)
        assert (other.found, other.estimate) == (one.found, one.estimate)  # shown all the same
        assert "family" not in one.preconditions and other.preconditions["family"] is False
        assert records.rejudged(claims.CLAIMS[one.claim], other) == other  # the board says it too


# 03: the counter-stereotype test

STUDIES = {"4a": ("b", "gender"), "4b": ("g", "gender"), "4c": ("b", "race")}
SCORED = {"4a": result([[1.0, 1, -1, -1]]), "4b": result([[1.0]]), "4c": result([[1.0]], p=0.8)}
EXAMPLE = np.array(
    [[[0.9, 0.8, 0.5, 0.4]], [[0.1, 0.1, 0.5, 0.41]]]
)  # two biased heads look away, two regular ones do not


def by_unit(difference, low, high, original=0.1, t=5.74, p=0.00001):
    """What counter.test returns, as far as the claims look at it."""
    row = dict(n=500, original=original, difference=difference, low=low, high=high, t=t, p=p)
    return pd.DataFrame({"sentence": row}).T


def attention(biased, regular, contrast, example=EXAMPLE, **about):
    """Verdicts on tests of two groups of heads (difference, low, high), and on a contrast."""
    tests = {"biased": by_unit(*biased), "regular": by_unit(*regular)}
    shifts = {
        (variant, kind): stats.Estimate(*(100 * end for end in ends))
        for variant in ("raw", "min-max")
        for kind, ends in (("biased", biased), ("regular", regular), ("contrast", contrast))
    }
    verdicts = claims.of_attention(
        dict.fromkeys(STUDIES, tests),
        dict.fromkeys(STUDIES, shifts),
        STUDIES,
        SCORED,
        example,
        **about,
    )
    return {(each.claim, each.on.split()[0], each.variant): each for each in verdicts}


def test_the_contrast_decides_and_the_papers_tests_stand_beside_it():
    found = attention((0.02, 0.01, 0.03), (0.001, -0.001, 0.003), (0.019, 0.01, 0.028))
    variants = {
        "counter-contrast": ("raw", "min-max"),
        "counter-biased": ("paper's test", "balanced"),
        "counter-regular": ("paper's test", "balanced"),
        "counter-example": ("",),
    }
    assert {
        found[claim, "4a", variant].outcome
        for claim, names in variants.items()
        for variant in names
    } == {SUPPORTED}
    assert (
        found["counter-contrast", "4c", "raw"].outcome == Outcome.NOT_APPLICABLE
    )  # race is not significant
    alike = attention(
        (0.02, 0.01, 0.03), (0.02, 0.01, 0.03), (0.0, -0.01, 0.01), EXAMPLE[:, :, [2, 3, 0, 1]]
    )
    assert alike["counter-contrast", "4a", "raw"].outcome == Outcome.INCONCLUSIVE
    assert alike["counter-regular", "4b", "paper's test"].outcome == CONTRADICTED
    assert alike["counter-biased", "4b", "paper's test"].outcome == SUPPORTED
    assert alike["counter-example", "4a", ""].outcome == Outcome.INCONCLUSIVE
    free = attention(
        (0.02, 0.01, 0.03), (0.02, 0.01, 0.03), (0.01, 0.005, 0.02), ignore_preconditions=True
    )
    assert free["counter-contrast", "4c", "raw"].outcome == SUPPORTED
    tests = {kind: by_unit(0.02, 0.01, 0.03) for kind in ("biased", "regular")}
    more = stats.Estimate(2.0, 1.0, 3.0, n=20_216)
    shifts = {
        (variant, kind): more for variant in ("raw", "min-max") for kind in (*tests, "contrast")
    }
    every = dict.fromkeys(STUDIES, tests), dict.fromkeys(STUDIES, shifts)
    of_more = claims.of_attention(*every, STUDIES, SCORED, EXAMPLE)
    assert {one.variant for one in of_more if one.claim == "counter-biased"} == {
        "paper's test",
        "balanced, all 20,216 sentences",
    }
    tests = dict.fromkeys(STUDIES, {"biased": by_unit(0.02, 0.01, 0.03)})
    scored = dict.fromkeys(STUDIES, result([[1.0, 1, 1, 1]]))
    found = outcomes(claims.of_attention(tests, {}, STUDIES, scored, EXAMPLE))
    assert found["counter-contrast", "4a b gender"] == Outcome.NOT_RUN
    assert found["counter-example", "4a b gender"] == Outcome.NOT_APPLICABLE


# 04: masking

SCORES = np.append(np.ones(7), -np.ones(5)).reshape(
    3, 4
)  # 7 of 12 heads are positive, and a share of 45 of 144 is 4
KEYS = [
    ("full", 0),
    ("top", 3),
    ("top", 4),
    ("top", 7),
    ("bottom", 3),
    ("amplified", 3),
    ("random", 3),
    ("random", 4),
    ("random", 7),
    ("random amplified", 3),
]


def measured(seat, pppl):
    """A frame as masking.measure gives it: X's associations shifted, and PPPL, for each of KEYS.

    On both halves; of random heads two draws, a little apart.
    """
    side, base, rows = np.repeat([True, False], 40), np.random.default_rng(0).normal(size=80), []
    for (strategy, k), more, perplexity in zip(KEYS, seat, pppl):
        for half in (0, 1):
            is_random = strategy.startswith("random")
            shift = base + side * (more + is_random * 0.02 * half)
            rows.append(
                {
                    "strategy": strategy,
                    "k": k,
                    "draw": half if is_random else 0,
                    "half": half,
                    "factor": 2.0 if "amplified" in strategy else 0.0,
                    "seat": masking.seat_of(shift, side),
                    "pppl": perplexity,
                    "pppl_sample": perplexity * (1 + is_random * 0.01 * half),
                    "associations": shift,
                    "in_x": side,
                    "likelihoods": np.full(10, -5 * np.log(perplexity)),
                    "lengths": np.full(10, 5),
                }
            )
    return pd.DataFrame(rows)


def test_planted_changes_of_seat_and_pppl_come_out_beside_random_heads():
    """Top heads lower SEAT at little cost, bottom ones raise it, random ones raise it a little."""
    #         full top-3  -4   -7  bottom louder random-3 -4 -7 louder
    seat = [2.0, 1.2, 1.2, 1.2, 3.0, 1.2, 2.3, 2.4, 2.8, 2.0]
    cost = [4.0, 4.2, 6.0, 8.0, 5.0, 4.0, 4.0, 6.0, 8.0, 4.0]
    masks = measured(seat, cost)
    changes, rows = tables.seat_changes(masks, 200), tables.rows_by_name(masks, (3, 7, 4))
    for name, lowers in (("Top-3", True), ("Bottom-3", False), ("Random-3", False)):
        change = tables.mean_change(changes, rows[name])
        assert change.is_below() if lowers else change.is_above()
        assert (change.n, change.unit) == (80, "target words")
    assert tables.mean_change(changes, rows["Top-3"], rows["Random-3"]).is_below()
    further = tables.mean_change(changes, rows["All"], rows["Top-3"])
    assert tuple(further) == pytest.approx((0, 0, 0))
    assert tuple(tables.pppl_ratio(masks, rows["Top-3"])) == pytest.approx((1.05, 1.05, 1.05))
    assert tables.pppl_ratio(masks, rows["All"], rows["Bottom-3"]).value == pytest.approx(1.6)
    of_random = tables.pppl_ratio(masks, rows["Random-All"])
    assert of_random.value == pytest.approx(2 * 1.01**0.5) and of_random.unit == "draws"


def test_pppl_between_the_sizes_of_table_1_is_on_a_line_in_logs():
    doubling = [1.0, 8, 16, 128, 8, 1, 8, 16, 128, 1]  # with each head
    masks = measured([2.0] * 10, doubling)
    for n_heads in (0, 3, 5, 7):  # 5 is measured nowhere
        ratio = tables.pppl_ratio_at(masks, masking.sizes(SCORES), n_heads)
        assert ratio == pytest.approx(2**n_heads)


def test_heads_are_held_against_random_ones_of_equal_pppl():
    masks = measured([2.0, 1.5, 1.5, 1.5, 2, 2, 2.0, 1.0, 1.0, 2], [4, 4, 8, 8, 4, 4, 4, 16, 16, 4])
    masks.loc[masks["strategy"] == "random", "pppl_sample"] = masks["pppl"]
    changes, rows = tables.seat_changes(masks, 50), tables.rows_by_name(masks, (3, 7, 4))
    # random heads fall from 0 at a PPPL of 4 to where four of them are at 16: half of it at 8, the
    # cost of those chosen
    half = (
        tables.mean_change(changes, rows["Random-3"]).value
        + tables.mean_change(changes, rows["Random-Dose"]).value
    ) / 2
    found = tables.change_at_equal_pppl(masks, changes, rows["Dose"])
    assert found.value == pytest.approx(
        tables.mean_change(changes, rows["Dose"]).value - half, abs=0.01
    )
    more = masks[(masks["strategy"] == "random") & (masks["k"] == 3)].assign(draw=9, seat=7.0)
    more = pd.concat([masks, more], ignore_index=True)  # a draw of three heads and no more
    assert tables.change_at_equal_pppl(
        more, tables.seat_changes(more, 50), rows["Dose"]
    ).value == pytest.approx(found.value)
    masks.loc[rows["Dose"].index, "pppl_sample"] = 99.0
    assert np.isnan(tables.change_at_equal_pppl(masks, changes, rows["Dose"]).value)


def test_factual_gender_under_a_mask_by_hand():
    masks = measured([2.0] * 10, [4.0] * 10)
    known, half, none = ([1.0, 1.0] * 8, [1.0, -1.0] * 8, [1.0, 1.0] * 4 + [-1.0, -1.0] * 4)
    masks["facts"] = [
        np.array({"top": half, "random": none}.get(strategy, known))
        for strategy in masks["strategy"]
    ]
    changes, rows = tables.fact_changes(masks, 200), tables.rows_by_name(masks, (3, 7, 4))
    assert tuple(tables.mean_change(changes, rows["Top-3"])) == (
        -0.5,
        -0.5,
        -0.5,
    )  # one of each pair, whichever are drawn
    random = tables.mean_change(changes, rows["Random-3"], unit="pairs")
    assert (
        random.value == -0.5 and random.low < -0.6 and random.high > -0.4 and random.unit == "pairs"
    )
    assert tables.mean_change(changes, rows["Top-3"], rows["Random-3"]).value == 0
    masks["facts"] = [np.zeros(0)] * len(masks)  # a vocabulary without the pronouns
    assert np.isnan(tables.mean_change(tables.fact_changes(masks, 20), rows["Top-3"]).value)


# 06: debiased models and LLaMA

BASE = np.array([[4.0, -1.0, -2.0, 0.5], [-3.0, 0.1, -4.0, -5.0]])


def with_spread(scores, spread=0.01, shift=1.0):
    """Four folds a little apart; shift: by how much the associations of X are above those of Y."""
    folds = np.stack([scores - spread, scores - spread / 2, scores + spread, scores + spread / 2])
    s = np.concatenate([np.linspace(0, 1, 20) + shift, np.linspace(0, 1, 20)])
    return result(scores, folds, seat=shift / s.std(ddof=1)) | {"s": s}


def test_heads_that_turned_grew_darker_and_are_above_zero():
    assert debiased.count_turned(BASE, BASE) == 0 and debiased.count_turned(-BASE, BASE) == 5
    after = BASE.copy()
    after[1, 3] = 0.1  # the most anti-biased
    after[0, 1] = 0.1  # the fifth
    assert debiased.count_turned(np.stack([after, BASE]), BASE).tolist() == [2, 0]
    assert set(debiased.turned(with_spread(after), with_spread(BASE))) == {2.0}
    base = with_spread(np.array([[8.0, 1.0, 1.8, 2.2, -1.0, 0.5]]))
    grown = base | {"folds": base["folds"] + np.array([[1, 1, 1, 1, 9, 0.0]])}
    assert [hits.tolist() for hits in debiased.darker(grown, base)] == [
        [True, True, False]
    ] * 2  # the slight ones
    noise = np.array([9, 9, -9, -9])[:, None, None]  # other sentences take back what some say
    assert not np.concatenate(debiased.darker(base | {"folds": base["folds"] + noise}, base)).any()
    counted = claims.counted(np.arange(200) < 55)
    assert counted.value == pytest.approx(50) and 38 < counted.low < 50 < counted.high < 64
    assert not tables.above_zero(np.ones((1, 2, 2))).any()  # one fold has no spread


def test_claims_on_debiased_models_hold_or_fail_by_their_rules():
    after = np.tile(BASE, 4)
    results = {"base": with_spread(after), "none": with_spread(after)}
    after = after.copy()
    after[:, ::4] = -1
    results["cda"] = with_spread(after, shift=0.1)
    verdicts = claims.of_debiased(results, "base")
    found = outcomes(verdicts)
    assert [found[id, "cda"] for id in claims.DEBIASED] == [
        SUPPORTED,
        SUPPORTED,
        SUPPORTED,
        CONTRADICTED,
        CONTRADICTED,
    ]
    assert (found["debiased-seat", "none"], found["debiased-fewer", "none"]) == (
        Outcome.NO_EFFECT,
        Outcome.NO_EFFECT,
    )  # 0 [0, 0]
    lower, same = (
        verdicts[5].estimate,
        verdicts[0].estimate,
    )  # the same words are drawn for both models
    assert (
        lower.high < 0
        and lower.low < lower.value
        and (same.value, same.low, same.high) == (0, 0, 0)
    )
    assert verdicts[5].models == ["base", "cda"]
    alone = claims.of_debiased({"base": result(BASE)}, "base")
    assert {(verdict.outcome, verdict.on) for verdict in alone} == {
        (Outcome.NOT_RUN, "base")
    } and len(alone) == 5
    weak = {name: one | {"p": 0.4} for name, one in results.items()}
    assert {each.outcome for each in claims.of_debiased(weak, "base")} == {Outcome.NOT_APPLICABLE}
    assert Outcome.NOT_APPLICABLE not in {
        each.outcome for each in claims.of_debiased(weak, "base", ignore_preconditions=True)
    }


def test_pronounced_heads_are_counted_from_the_bases_fence_and_what_was_not_run_is_said():
    base = np.concatenate([np.linspace(-1, 1, 91), np.full(9, 9.0)])[None]  # the fence is about 2.2
    chat = base.copy()
    assert debiased.pronounced(base, chat) == (9, 9)
    chat[0, 91:97] = 0
    assert debiased.pronounced(base, chat) == (9, 3)
    verdicts = claims.of_chat(
        {"a": result(base, seat=0.3), "b": result(chat, seat=0.9)}, ["a", "b"]
    )
    assert [verdict.outcome for verdict in verdicts] == [CONTRADICTED, SUPPORTED]
    for names in ([], ["b"], ["a", "b"]):
        verdicts = claims.of_chat({name: result(BASE) for name in names if name == "b"}, names)
        assert [verdict.outcome for verdict in verdicts] == [Outcome.NOT_RUN] * 2


def test_a_folder_is_compared_with_the_base_it_names_or_that_of_its_shape(tmp_path):
    model = save_tiny("bert", tmp_path / "base")
    model.net.get_parameter("bert.pooler.dense.bias").add_(1)
    models.save_difference(model, str(tmp_path / "base"), tmp_path / "debiased")
    assert debiased.base_of(str(tmp_path / "debiased"), "mini-bert") == str(tmp_path / "base")
    assert debiased.base_of("mini-bert-nli", "mini-bert") == "mini-bert"
    refusal(debiased.base_of, str(tmp_path / "base"), "mini-bert")
    save_tiny("gpt2", tmp_path / "decoder")
    asked, again = (
        debiased.answers(str(tmp_path / "decoder"), ["who is she ?"] * n, tokens=3, device="cpu")
        for n in (1, 2)
    )
    assert again == asked * 2 and 0 < len(asked[0].split()) <= 3
    there, missing = debiased.at_hand(["mini-bert", str(tmp_path)])
    assert there == ["mini-bert"] and missing[0]["model"] == tmp_path.name


# what the notebooks say


def test_conclusions_on_heads_take_their_words_from_outcomes():
    about = {"models": ["b"], "estimate": stats.Estimate(0.4, 0.37, 0.43, 10)}
    scored = {"seat": 1.5, "p": 0.001}, {"seat": 0.7, "p": 0.12}
    results = {("b", "gender"): scored[0], ("g", "gender"): scored[0]}
    results |= {("b", "race"): scored[1], ("g", "race"): scored[1]}
    small = Verdict("heads-small-set", CONTRADICTED, "b, gender", variant="gradient", **about)
    on_race = Verdict("heads-small-set", SUPPORTED, "b, race", variant="gradient", **about)
    removed = Verdict(
        "heads-small-set", Outcome.INCONCLUSIVE, "b, gender", variant="ablation", **about
    )
    said = findings.of_scores(results, [on_race, removed, small], "b").splitlines()
    assert len(said) == 5
    assert said[0] == (
        "- **A bias that heads could carry is there on gender in b and g and on race in neither "
        "model.** SEAT of gender is 1.50 in b."
    )
    assert (
        "the bias: contradicted in b and not run in g.** In b it carries 40% [37%, 43%]" in said[3]
    )
    assert said[3].endswith("By what removing heads does: inconclusive in b and not run in g.")
    assert "not run" in said[1]


def test_what_other_trainings_came_to_is_said_after_the_bullets_of_mini_bert_alone():
    words = {"counter-biased": "supported in 5 of 5; over them supported, inconclusive"}
    by_variant = findings.of_retrainings(words, "03", "mini-bert")
    assert by_variant.startswith("\n\n**Trained again** from other seeds")
    assert by_variant.endswith("5 of 5; all together supported or inconclusive by variant.")
    assert findings.of_retrainings(words, "03", "another") == ""
    assert findings.of_retrainings({}, "03", "mini-bert") == ""
    assert findings.of_retrainings(words, "02", "mini-bert") == ""


def test_the_most_top_heads_that_leave_a_language_model():
    masks = pd.DataFrame(
        [("full", 0, 10.0), ("full", 0, 10.0), ("top", 3, 11.0), ("top", 15, 28.0)]
        + [("top", 15, 31.0), ("top", 45, 400.0), ("random", 45, 12.0)],
        columns=["strategy", "k", "pppl_sample"],
    ).assign(factor=0.0)
    assert tables.most_top_heads(masks, 3)["pppl_sample"].tolist() == [28, 31]  # 29.5 in the mean
    assert tables.most_top_heads(masks, 2)["k"].tolist() == [3]
    assert tables.most_top_heads(masks, 1).empty
