"""What four bits a weight do: weights rounded as a GGUF file of type Q4_1 has them.

    quantise.in_place(model)    # every matrix, as it is read back from such a file

A block of 32 weights of a row has one scale and one minimum, both in float16, and every weight is
the minimum and a multiple of the scale, from 0 to 15 times.
"""

import torch

from lib import CompanionError

BLOCK = 32  # weights that share a scale and a minimum
LEVELS = 15  # the largest of four bits


def round_trip(weights: torch.Tensor) -> torch.Tensor:
    """Weights [..., n] as they are after quantisation, in float32; n is a multiple of BLOCK."""
    if not weights.numel() or weights.shape[-1] % BLOCK:
        raise CompanionError(
            f"Rows of {weights.shape[-1]} weights have no blocks of {BLOCK}: leave them as they "
            "are."
        )
    blocks = weights.detach().float().reshape(-1, BLOCK)
    least = blocks.amin(1, keepdim=True)
    scale = (blocks.amax(1, keepdim=True) - least) / LEVELS
    steps = torch.where(scale > 0, (blocks - least) / scale, 0)
    steps = (steps + 0.5).floor().clamp(0, LEVELS)
    # the file has both in float16, after the steps were counted
    read = steps * scale.half().float() + least.half().float()
    return read.reshape(weights.shape)


def in_place(model) -> float:
    """Quantise every matrix of a model whose rows have blocks, the embedding too; the relative
    change of these weights, root mean square.
    """
    changed = 0.0
    whole = 0.0
    with torch.no_grad():
        for weights in model.net.parameters():  # one that is used twice is listed once
            if weights.dim() == 2 and weights.shape[-1] % BLOCK == 0:
                read = round_trip(weights).to(weights)
                changed += (read - weights).double().square().sum().item()
                whole += weights.double().square().sum().item()
                weights.copy_(read)
    return (changed / whole) ** 0.5
