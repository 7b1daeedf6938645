"""Estimates of notebooks 02, 03, 04 and 06: on numbers that a person can check."""

import numpy as np
import pandas as pd
import pytest

from companion.bias_a_head import debiased, experiment, tables
from lib.bias_a_head import masking
from lib.engine import folders, stats
from tests.tiny import refusal, save_tiny

pytestmark = pytest.mark.usefixtures(
    "few_draws"
)  # intervals are far from what they decide, or hold it


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


def test_a_bias_is_there_where_seat_is_significant():
    assert tables.needs_seat(result(TAIL, p=0.049), "race") == {"SEAT of race": ""}
    (why,) = tables.needs_seat(result(TAIL, p=0.05), "gender").values()
    assert why == "gender is not significant: SEAT 1.00, p 0.05"


def test_heads_are_counted_by_hand():
    """TAIL has 12 positive heads, 6 of them large; FLAT has 20, all of its second layer's below
    those of the first.
    """
    tail, flat = result(TAIL, seat=-2.0), result(FLAT)
    assert tables.near_zero(tail).value == 34 / 40 and tables.near_zero(flat).value == 2 / 40
    assert tuple(tables.standing_out(tail)) == (6, 6, 6)
    assert tuple(tables.more_biased(flat, tail)) == (8, 8, 8)
    assert tuple(tables.more_biased(tail, flat)) == (-8, -8, -8)
    left = result(-TAIL)
    assert tuple(tables.more_to_the_left(left, tail)) == (6, 6, 6)
    upper, chance = tables.in_upper_half(result(FLAT[::-1]))
    assert (tuple(upper), upper.n, chance) == ((10, 10, 10), 10, 5)
    none, _ = tables.in_upper_half(flat)
    assert none.value == 0


def test_seat_is_compared_on_the_same_words():
    strong, weak = result(TAIL, seat=-2.0), result(TAIL, seat=0.5)
    assert tuple(tables.seat_change(weak, weak)) == (0, 0, 0)
    lower = tables.seat_change(strong, weak)
    assert lower.value == -1.5 and lower.n == 40 and lower.high < 0


def test_heads_that_were_tried_are_told_from_all_that_there_are():
    gradient = np.array([1.0, -1, 2, -2])
    ablation = {"gradient": gradient, "ablation": np.array([1.0, -1, -2, -2])}
    of_all, of_some = (tables.same_sign(ablation, n_heads) for n_heads in (4, 144))
    assert (of_all.value, of_all.unit, of_some.unit) == (0.75, "heads", "heads tried")


# 03: the counter-stereotype test


def test_how_far_heads_look_away_by_hand():
    """Two biased heads look away by .8 and .6, two regular ones by 0 and -.1."""
    on = np.array([[[0.9, 0.8, 0.5, 0.4]], [[0.1, 0.2, 0.5, 0.5]]])
    scores = np.array([[1.0, 1, -1, -1]])
    biased, regular = experiment.falls(on, scores)
    assert (biased.value, regular.value, biased.n) == pytest.approx((0.7, -0.05, 2))
    assert biased.high - 0.7 == pytest.approx(12.706 * 0.1, abs=1e-3)  # Student's t of two heads
    alone, _ = experiment.falls(on, abs(scores))
    assert np.isnan(alone.value) and not alone.has_interval


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
    counted = debiased.beyond_chance(np.arange(200) < 55)
    assert counted.value == pytest.approx(50) and 38 < counted.low < 50 < counted.high < 64
    assert not tables.above_zero(np.ones((1, 2, 2))).any()  # one fold has no spread


def test_debiased_models_are_held_against_their_base():
    """Of each layer of BASE four times over, every fourth head loses its positive score."""
    before = np.tile(BASE, 4)
    base, after = with_spread(before), before.copy()
    after[:, ::4] = -1
    cda = with_spread(after, shift=0.1)
    n_lost = int((before[:, ::4] > 0).sum())
    assert tuple(debiased.more_biased(cda, base)) == (-n_lost,) * 3
    assert tuple(debiased.more_biased(base, base)) == (0, 0, 0)
    assert tables.seat_change(base, cda).high < 0
    count, own, beyond = debiased.turned_heads(with_spread(-before), base)
    assert (count.value, own.value, beyond.value) == (5, 0, 5)
    assert debiased.darker_beyond_chance(base, base).high < 3
    slight = with_spread(np.append(np.full((1, 20), 0.1), [[9.0]], 1))
    darker = slight | {"folds": slight["folds"] + 1}
    found = debiased.darker_beyond_chance(darker, slight)
    assert found.value == pytest.approx(20 * (1 - 0.025)) and found.n == 20


def test_pronounced_heads_are_counted_from_the_bases_fence():
    base = np.concatenate([np.linspace(-1, 1, 91), np.full(9, 9.0)])[None]  # the fence is about 2.2
    chat = base.copy()
    assert debiased.pronounced(base, chat) == (9, 9)
    chat[0, 91:97] = 0
    assert debiased.pronounced(base, chat) == (9, 3)
    assert tuple(debiased.more_pronounced(result(base), result(chat))) == (-6, -6, -6)
    wide, narrow = (result(spread * np.array([[-1.0, 1], [-1, 1]])) for spread in (0.4, 0.1))
    assert list(debiased.spread_change(wide, narrow)) == pytest.approx([0.25] * 3)


def test_a_folder_is_compared_with_the_base_it_names_or_that_of_its_shape(tmp_path):
    model = save_tiny("bert", tmp_path / "base")
    model.net.get_parameter("bert.pooler.dense.bias").add_(1)
    folders.save_difference(model, str(tmp_path / "base"), tmp_path / "debiased")
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


def test_the_most_top_heads_that_leave_a_language_model():
    masks = pd.DataFrame(
        [("full", 0, 10.0), ("full", 0, 10.0), ("top", 3, 11.0), ("top", 15, 28.0)]
        + [("top", 15, 31.0), ("top", 45, 400.0), ("random", 45, 12.0)],
        columns=["strategy", "k", "pppl_sample"],
    ).assign(factor=0.0)
    assert tables.most_top_heads(masks, 3)["pppl_sample"].tolist() == [28, 31]  # 29.5 in the mean
    assert tables.most_top_heads(masks, 2)["k"].tolist() == [3]
    assert tables.most_top_heads(masks, 1).empty


def test_heads_above_the_upper_fence_are_those_that_stand_out():
    """Quartiles of 0 to 8 are 2 and 6: the fence is at 12."""
    scores = np.array([*range(8), 8.0])
    assert tables.upper_fence(scores) == 12
    scores = np.random.default_rng(0).standard_t(2, (12, 12))
    _, right = tables.outliers(scores)
    assert (scores > tables.upper_fence(scores)).sum() == right > 0
