"""SEAT, the Sentence Encoder Association Test (May et al. 2019), on plain tensors: one row per word or sentence.

Targets X and Y, attributes A and B: are the X closer to the A, and the Y to the B, than the other way round?
Bias A-head's equation 3 is the abs() of the effect size."""

import math
from itertools import combinations

import torch
from torch.nn.functional import normalize

from lib import CompanionError

CHUNK = 10_000  # divisions drawn at a time


def associations(W: torch.Tensor, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
    """s(w, A, B), one number per row of W: mean cosine with the rows of A less mean cosine with those of B."""
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
    """[mean of s over X - mean of s over Y] / standard deviation of s over both, a scalar with its graph. The deviation
    has n - 1 below it (ddof = 1), as in SEAT's own code. With as many X as Y the size lies between -2 and 2."""
    return size_of(torch.cat([associations(X, A, B), associations(Y, A, B)]), len(X))


def size_of(s: torch.Tensor, n: int) -> torch.Tensor:
    """The effect size from associations [..., targets], of which the n first are those of X."""
    return (s[..., :n].mean(-1) - s[..., n:].mean(-1)) / s.std(-1, correction=1)


def p_value(
    X: torch.Tensor,
    Y: torch.Tensor,
    A: torch.Tensor,
    B: torch.Tensor,
    n: int = 100_000,
    seed: int = 0,
) -> float:
    """Share of the divisions of the targets into sets of the same sizes whose X-Y difference is no smaller. One-sided,
    as in SEAT: small where X goes with A. Exact where there are at most n divisions; otherwise over n random ones and
    the real one, so that it is never 0."""
    s = torch.cat([associations(X, A, B), associations(Y, A, B)]).detach().double().cpu()
    size = len(X)
    # the total is the same in every division: where X's sum is larger, so is the difference of the means
    least = s[:size].sum() - 1e-12 * s.abs().sum()  # rounding must not lose a tie
    if math.comb(len(s), size) <= n:
        sums = s[torch.tensor(list(combinations(range(len(s)), size)))].sum(1)
        return (sums >= least).double().mean().item()
    random, as_large = torch.Generator().manual_seed(seed), 0
    for start in range(0, n, CHUNK):
        drawn = torch.rand(min(CHUNK, n - start), len(s), generator=random)
        chosen = drawn.topk(
            size, dim=1, largest=False, sorted=False
        ).indices  # a third of the time of sorting all
        as_large += (s[chosen].sum(1) >= least).sum().item()
    return (as_large + 1) / (n + 1)
