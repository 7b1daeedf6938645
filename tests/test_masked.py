"""Estimates of notebooks 04 and 06, on planted numbers that a person can check."""

import numpy as np
import pandas as pd
import pytest

from companion.bias_a_head import debiased, estimators, masked
from lib.bias_a_head import chat, masking
from lib.engine import folders
from tests.test_bias_a_head import result
from tests.tiny import refusal, save_tiny

pytestmark = pytest.mark.usefixtures("few_draws")  # intervals are far from what they decide


# ---------------------------------------------------------------------------------------- 04: masks

SIZES = 3, 7, 4  # heads of Top-3, All and Dose
KEYS = [("full", 0), ("top", 3), ("top", 4), ("top", 7), ("bottom", 3), ("amplified", 3)]
KEYS += [("random", 3), ("random", 4), ("random", 7), ("random amplified", 3)]


def measured(seat, pppl):
    """A frame as masking.measure gives it: X's associations shifted, and PPPL, for each of KEYS.

    On both halves; of random heads two draws, a little apart.
    """
    side = np.repeat([True, False], 40)
    base = np.random.default_rng(0).normal(size=80)
    rows = []
    for (strategy, k), more, perplexity in zip(KEYS, seat, pppl):
        is_random = strategy.startswith("random")
        for half in (0, 1):
            shifted = base + side * (more + is_random * 0.02 * half)
            row = {"strategy": strategy, "k": k, "half": half, "draw": half * is_random}
            row |= {"seat": masking.seat_of(shifted, side), "associations": shifted, "in_x": side}
            row |= {"pppl_sample": perplexity * (1 + is_random * 0.01 * half)}
            row |= {"likelihoods": np.full(10, -5 * np.log(perplexity)), "lengths": np.full(10, 5)}
            rows.append(row)
    return pd.DataFrame(rows)


def test_planted_changes_of_seat_and_pppl_come_out_beside_random_heads():
    """Top heads lower SEAT at little cost, bottom ones raise it, random ones raise it a little."""
    #         full top-3  -4   -7  bottom louder random-3 -4 -7 louder
    seat = [2.0, 1.2, 1.2, 1.2, 3.0, 1.2, 2.3, 2.4, 2.8, 2.0]
    cost = [4.0, 4.2, 6.0, 8.0, 5.0, 4.0, 4.0, 6.0, 8.0, 4.0]
    masks = measured(seat, cost)
    changes, rows = masked.seat_changes(masks, 200), masked.rows_by_name(masks, SIZES)
    top, bottom, random = (
        masked.mean_change(changes, rows[name]) for name in ("Top-3", "Bottom-3", "Random-3")
    )
    assert top.is_below() and bottom.is_above() and random.is_above()
    assert (top.n, top.unit) == (80, "target words")
    assert masked.mean_change(changes, rows["Top-3"], rows["Random-3"]).is_below()
    further = masked.mean_change(changes, rows["All"], rows["Top-3"])
    assert tuple(further) == pytest.approx((0, 0, 0))
    assert tuple(masked.pppl_ratio(masks, rows["Top-3"])) == pytest.approx((1.05, 1.05, 1.05))
    assert masked.pppl_ratio(masks, rows["All"], rows["Bottom-3"]).value == pytest.approx(1.6)
    of_random = masked.pppl_ratio(masks, rows["Random-All"])
    assert of_random.value == pytest.approx(2 * 1.01**0.5) and of_random.unit == "draws"


def test_heads_are_held_against_random_ones_of_equal_pppl():
    """Random heads fall from 0 at a PPPL of 4 to where four of them are at 16: half of it at 8, the
    cost of those chosen.
    """
    masks = measured([2.0, 1.5, 1.5, 1.5, 2, 2, 2.0, 1.0, 1.0, 2], [4, 4, 8, 8, 4, 4, 4, 16, 16, 4])
    is_random = masks["strategy"] == "random"
    masks.loc[is_random, "pppl_sample"] = masks["pppl_sample"].where(masks["draw"] == 0).ffill()
    rows = masked.rows_by_name(masks, SIZES)

    def beyond(masks):
        return masked.change_at_equal_pppl(
            masks, masked.seat_changes(masks, 50), rows["Dose"]
        ).value

    changes = masked.seat_changes(masks, 50)
    dose, three, four = (
        masked.mean_change(changes, rows[name]).value
        for name in ("Dose", "Random-3", "Random-Dose")
    )
    assert beyond(masks) == pytest.approx(dose - (three + four) / 2, abs=0.01)
    more = masks[is_random & (masks["k"] == 3)].assign(draw=9, seat=7.0)
    more = pd.concat([masks, more], ignore_index=True)  # a draw of three heads and no more
    assert beyond(more) == pytest.approx(beyond(masks))
    masks.loc[rows["Dose"].index, "pppl_sample"] = 99.0
    assert np.isnan(beyond(masks))


def test_factual_gender_under_a_mask_by_hand():
    masks = measured([2.0] * 10, [4.0] * 10)
    # of each pair one is right, or of every second pair both
    facts = {"top": [1.0, -1.0] * 8, "random": [1.0, 1.0] * 4 + [-1.0, -1.0] * 4}
    masks["facts"] = [np.array(facts.get(strategy, [1.0] * 16)) for strategy in masks["strategy"]]
    changes, rows = masked.fact_changes(masks, 200), masked.rows_by_name(masks, SIZES)
    # whichever pairs are drawn
    assert tuple(masked.mean_change(changes, rows["Top-3"])) == (-0.5, -0.5, -0.5)
    random = masked.mean_change(changes, rows["Random-3"], unit="pairs")
    assert (random.value, random.n, random.unit) == (-0.5, 8, "pairs")
    assert random.low < -0.6 and random.high > -0.4
    assert masked.mean_change(changes, rows["Top-3"], rows["Random-3"]).value == 0
    masks["facts"] = [np.zeros(0)] * len(masks)  # a vocabulary without the pronouns
    assert np.isnan(masked.mean_change(masked.fact_changes(masks, 20), rows["Top-3"]).value)


# ----------------------------------------------------------------------- 06: debiased and chat models

BASE = np.array([[4.0, -1.0, -2.0, 0.5], [-3.0, 0.1, -4.0, -5.0]])


def with_spread(scores, spread=0.01, shift=1.0):
    """Four folds a little apart; shift: by how much the associations of X are above those of Y."""
    steps = np.array([-1, -0.5, 1, 0.5])[:, None, None] * spread
    s = np.concatenate([np.linspace(0, 1, 20) + shift, np.linspace(0, 1, 20)])
    return result(scores, scores + steps, seat=shift / s.std(ddof=1)) | {"s": s}


def test_heads_that_turned_grew_darker_and_are_above_zero():
    after = BASE.copy()
    after[1, 3] = after[0, 1] = 0.1  # the most anti-biased head, and the fifth
    assert debiased.count_turned(np.stack([after, BASE, -BASE]), BASE).tolist() == [2, 0, 5]
    in_model, in_base, beyond = debiased.turned_heads(with_spread(after), with_spread(BASE))
    assert [tuple(one) for one in (in_model, in_base, beyond)] == [(2, 2, 2), (0, 0, 0), (2, 2, 2)]
    base = with_spread(np.array([[8.0, 1.0, 1.8, 2.2, -1.0, 0.5]]))
    grown = base | {"folds": base["folds"] + np.array([[1, 1, 1, 1, 9, 0.0]])}
    slight = [True, True, False]  # 1, 1.8 and .5: within a quarter of 8
    assert [hits.tolist() for hits in debiased.darker(grown, base)] == [slight] * 2
    noise = np.array([9, 9, -9, -9])[:, None, None]  # other sentences take back what some say
    assert not np.concatenate(debiased.darker(base | {"folds": base["folds"] + noise}, base)).any()
    counted = debiased.beyond_chance(np.arange(200) < 55)
    assert counted.value == pytest.approx(50) and 38 < counted.low < 50 < counted.high < 64
    assert not estimators.above_zero(np.ones((1, 2, 2))).any()  # one fold has no spread


def test_debiased_models_are_held_against_their_base():
    """Of each layer of BASE four times over, every fourth head loses its positive score."""
    before = np.tile(BASE, 4)
    base, after = with_spread(before), before.copy()
    after[:, ::4] = -1
    cda = with_spread(after, shift=0.1)
    n_lost = int((before[:, ::4] > 0).sum())
    assert tuple(debiased.more_biased(cda, base)) == (-n_lost,) * 3
    assert tuple(debiased.more_biased(base, base)) == (0, 0, 0)
    assert estimators.seat_change(base, cda).high < 0
    assert debiased.darker_beyond_chance(base, base).high < 3
    slight = with_spread(np.append(np.full((1, 20), 0.1), [[9.0]], 1))
    found = debiased.darker_beyond_chance(slight | {"folds": slight["folds"] + 1}, slight)
    assert found.value == pytest.approx(20 * (1 - 0.025)) and found.n == 20


def test_pronounced_heads_are_counted_from_the_bases_fence():
    base = np.concatenate([np.linspace(-1, 1, 91), np.full(9, 9.0)])[None]  # the fence is about 2.2
    chat_model = base.copy()
    chat_model[0, 91:97] = 0
    assert debiased.pronounced(base, chat_model) == (9, 3)
    assert tuple(debiased.more_pronounced(result(base), result(chat_model))) == (-6, -6, -6)
    wide, narrow = (result(spread * np.array([[-1.0, 1], [-1, 1]])) for spread in (0.4, 0.1))
    assert list(debiased.spread_change(wide, narrow)) == pytest.approx([0.25] * 3)


def test_a_folder_is_compared_with_the_base_it_names_or_that_of_its_shape(tmp_path):
    model = save_tiny("bert", tmp_path / "base")
    model.net.get_parameter("bert.pooler.dense.bias").add_(1)
    folders.save_difference(model, str(tmp_path / "base"), tmp_path / "debiased")
    assert debiased.base_of(str(tmp_path / "debiased"), "mini-bert") == str(tmp_path / "base")
    assert debiased.base_of("mini-bert-nli", "mini-bert") == "mini-bert"
    refusal(debiased.base_of, str(tmp_path / "base"), "mini-bert")
    there, missing = debiased.at_hand(["mini-bert", str(tmp_path)])
    assert there == ["mini-bert"] and missing[0]["model"] == tmp_path.name


def test_a_decoder_answers_each_question_alike_whatever_else_it_is_asked(tmp_path):
    decoder = str(tmp_path)
    save_tiny("gpt2", decoder)
    asked, again = (
        chat.answers(decoder, ["who is she ?"] * n, tokens=3, device="cpu") for n in (1, 2)
    )
    assert again == asked * 2 and 0 < len(asked[0].split()) <= 3
