"""SEAT against hand and against brute force."""

import math
from itertools import permutations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lib import CompanionError
from lib.bias_a_head import seat

EAST, NORTH = torch.tensor([[1., 0.]]), torch.tensor([[0., 1.]])
seeds = st.integers(0, 10_000)


def sets(seed, *sizes, width=5):
    random = torch.Generator().manual_seed(seed)
    return [torch.randn(size, width, generator=random, dtype=torch.float64) for size in sizes]


def test_effect_size_by_hand():
    # s of a unit vector at angle t is cos t - sin t: here 1, 0 | 0, -1. Means 1/2, -1/2; deviation sqrt(2/3)
    diagonal = (EAST + NORTH) * 7  # its length must not matter
    size = seat.effect_size(torch.cat([EAST, diagonal]), torch.cat([diagonal, NORTH]), EAST, NORTH)
    assert size.item() == pytest.approx(1 / math.sqrt(2 / 3))


def test_several_attributes_count_by_their_mean_cosine():
    # 3 long vectors east and one north: mean cosine with east 3/4, whatever the lengths
    A = torch.cat([EAST * 2, EAST * 5, EAST, NORTH * 100])
    assert seat.associations(EAST, A, NORTH).item() == pytest.approx(3 / 4)


@settings(deadline=None, max_examples=50)
@given(seeds, st.floats(.01, 100), st.integers(2, 6))
def test_lengths_do_not_matter_a_swap_turns_the_sign_and_equal_sets_bound_it_by_two(seed, factor, n):
    X, Y, A, B = sets(seed, n, n, 3, 2)
    size = seat.effect_size(X, Y, A, B)
    torch.testing.assert_close(seat.effect_size(X * factor, Y, A, B * factor), size)
    torch.testing.assert_close(seat.effect_size(Y, X, A, B), -size)
    torch.testing.assert_close(seat.effect_size(X, Y, B, A), -size)
    assert abs(size.item()) <= 2 + 1e-9


def test_it_is_differentiable():
    parts = [part.requires_grad_() for part in sets(0, 3, 3, 2, 2)]
    assert torch.autograd.gradcheck(seat.effect_size, parts)
    with pytest.raises(CompanionError):
        seat.effect_size(parts[0], parts[1], parts[2][:0], parts[3])


@pytest.mark.parametrize("seed", range(5))
def test_exact_p_value_is_brute_force(seed):
    """By walking through all orders of the targets: each division comes equally often."""
    X, Y, A, B = sets(seed, 3, 4, 2, 2)
    s = seat.associations(torch.cat([X, Y]), A, B).tolist()

    def difference(order):
        return sum(order[:3]) / 3 - sum(order[3:]) / 4

    as_large = [difference(order) >= difference(s) - 1e-12 for order in permutations(s)]
    assert seat.p_value(X, Y, A, B) == pytest.approx(sum(as_large) / len(as_large))


def test_sampled_p_value_agrees_with_the_exact_one():
    parts = sets(3, 6, 6, 2, 2)  # 924 divisions
    assert seat.p_value(*parts, n=900) == pytest.approx(seat.p_value(*parts), abs=.06)
    assert seat.p_value(*parts, n=900, seed=1) == seat.p_value(*parts, n=900, seed=1)


def test_sampled_p_value_is_never_zero():
    near, far = EAST + .01 * sets(0, 30, width=2)[0], NORTH + .01 * sets(1, 30, width=2)[0]
    assert seat.p_value(near, far, EAST.double(), NORTH.double(), n=999) == 1 / 1000
    assert seat.p_value(far, near, EAST.double(), NORTH.double(), n=999) == 1


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("statistic", [seat.effect_size, seat.p_value, lambda X, Y, A, B: seat.associations(X, A, B),
                                       lambda X, Y, A, B: seat.associations(A, X, B)])
def test_no_statistic_is_made_of_what_is_no_number(statistic, wrong):
    parts = sets(0, 3, 3, 2, 2)
    parts[0][1, 2] = wrong
    with pytest.raises(CompanionError):
        statistic(*parts)


def test_ties_count_whole():
    same = EAST.repeat(4, 1)
    assert seat.p_value(same[:2], same[2:], EAST, NORTH) == 1
