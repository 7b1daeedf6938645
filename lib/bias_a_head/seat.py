"""SEAT, the Sentence Encoder Association Test (May et al. 2019), on plain tensors.

A set is a tensor with one row per word or sentence. Targets are X and Y, attributes A and B: are
the X closer to the A, and the Y to the B, than the other way round? Equation 3 of Bias A-head is
the absolute value of the effect size.
"""

import math
from itertools import combinations

import torch
from torch.nn.functional import normalize

from lib import CompanionError

CHUNK = 10_000  # random divisions of the targets drawn at a time


def associations(W: torch.Tensor, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
    """s(w, A, B) for each row of W: its mean cosine with the rows of A minus that with B's."""
    for rows in (W, A, B):
        if rows.dim() != 2 or not len(rows):
            raise CompanionError(
                f"A set has shape {list(rows.shape)}: give one row per word, and at least one."
            )
        if not rows.isfinite().all():
            raise CompanionError(
                "A vector holds nan or infinity: check the model's weights, or load it in float32."
            )
    # the mean of cosines is the product with the mean of the unit vectors
    return normalize(W, dim=-1) @ (normalize(A, dim=-1).mean(0) - normalize(B, dim=-1).mean(0))


def effect_size(X: torch.Tensor, Y: torch.Tensor, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
    """(mean of s over X - mean of s over Y) / standard deviation of s over both, as a scalar.

    It keeps its graph. The deviation divides by n - 1, as SEAT's own code does. With as many X as Y
    the size lies between -2 and 2.
    """
    s = torch.cat([associations(X, A, B), associations(Y, A, B)])
    return size_of(s, len(X))


def size_of(s: torch.Tensor, n: int) -> torch.Tensor:
    """The effect size from associations [..., targets], of which the first n are those of X."""
    return (s[..., :n].mean(-1) - s[..., n:].mean(-1)) / s.std(-1, correction=1)


def p_value(
    X: torch.Tensor,
    Y: torch.Tensor,
    A: torch.Tensor,
    B: torch.Tensor,
    n: int = 100_000,
    seed: int = 0,
) -> float:
    """The p-value of SEAT's permutation test, one-sided: small where X goes with A.

    It is the share of divisions of the targets into sets of the same sizes whose difference X - Y
    is at least the observed one. All divisions are counted where there are at most n; otherwise n
    random ones and the observed one, so that p is never 0.
    """
    s = torch.cat([associations(X, A, B), associations(Y, A, B)]).detach().double().cpu()
    size = len(X)
    # The sum over all targets is the same in every division, so that a larger sum over X means a
    # larger difference. The small tolerance counts ties in spite of rounding.
    least = s[:size].sum() - 1e-12 * s.abs().sum()
    if math.comb(len(s), size) <= n:
        return _exact_p(s, size, least)
    return _sampled_p(s, size, least, n, seed)


def _exact_p(s: torch.Tensor, size: int, least: torch.Tensor) -> float:
    """The share of all choices of `size` targets whose sum is at least `least`."""
    every = torch.tensor(list(combinations(range(len(s)), size)))
    sums = s[every].sum(1)
    return (sums >= least).double().mean().item()


def _sampled_p(s: torch.Tensor, size: int, least: torch.Tensor, n: int, seed: int) -> float:
    """The same share over n random choices and the observed one."""
    generator = torch.Generator().manual_seed(seed)
    as_large = 0
    for start in range(0, n, CHUNK):
        drawn = torch.rand(min(CHUNK, n - start), len(s), generator=generator)
        # topk takes a third of the time that sorting all would
        chosen = drawn.topk(size, dim=1, largest=False, sorted=False).indices
        as_large += (s[chosen].sum(1) >= least).sum().item()
    return (as_large + 1) / (n + 1)
