"""What four bits a weight do: weights rounded as SmolLM2's GGUF file has them.

    quantise.in_place(model)    # every matrix, as it is read back from such a file
    quantise.compared(names)    # what that does to the answers that companion/alike.py has stored
    python -m companion.quantise    # of the bundled models, into figures/published

Matrices are of type Q4_1: a block of 32 weights of a row has one scale and one minimum, both in
float16, and every weight is the minimum and a multiple of the scale, from 0 to 15 times. The
embedding is of type Q8_0: a block has a scale alone, and multiples from -127 to 127.
"""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import torch

from companion import alike, results
from lib import CompanionError
from lib.engine import models, stats
from lib.engine.files import replace

BLOCK = 32  # weights that share a scale and a minimum
LEVELS = 15  # the largest of four bits
SIGNED_LEVELS = 127  # the largest of eight bits with a sign
TABLE = alike.STORED / "quantised.csv"
# What is compared item by item: the odds of each occupation, the score of each head.
ITEMS = {"log_odds": "odds of she, 58 occupations", "scores": "head scores"}


def round_trip(weights: torch.Tensor) -> torch.Tensor:
    """Weights [..., n] as they are after Q4_1, in float32; n is a multiple of BLOCK."""
    blocks = _blocks(weights)
    least = blocks.amin(1, keepdim=True)
    scale = (blocks.amax(1, keepdim=True) - least) / LEVELS
    steps = torch.where(scale > 0, (blocks - least) / scale, 0)
    steps = (steps + 0.5).floor().clamp(0, LEVELS)
    # the file has both in float16, after the steps were counted
    read = steps * scale.half().float() + least.half().float()
    return read.reshape(weights.shape)


def round_trip_of_eight_bits(weights: torch.Tensor) -> torch.Tensor:
    """Weights [..., n] as they are after Q8_0, in float32; n is a multiple of BLOCK."""
    blocks = _blocks(weights)
    scale = blocks.abs().amax(1, keepdim=True) / SIGNED_LEVELS
    steps = torch.where(scale > 0, blocks / scale, 0)
    steps = steps.sign() * (steps.abs() + 0.5).floor()  # halves away from zero
    return (steps * scale.half().float()).reshape(weights.shape)


def _blocks(weights: torch.Tensor) -> torch.Tensor:
    """Weights [..., n] as [blocks, BLOCK], in float32."""
    if not weights.numel() or weights.shape[-1] % BLOCK:
        raise CompanionError(
            f"Rows of {weights.shape[-1]} weights have no blocks of {BLOCK}: leave them as they "
            "are."
        )
    return weights.detach().float().reshape(-1, BLOCK)


def in_place(model) -> float:
    """Quantise every matrix of a model whose rows have blocks, its embedding to eight bits; the
    relative change of these weights, root mean square.
    """
    embedding = model.net.get_input_embeddings().weight
    changed = 0.0
    whole = 0.0
    with torch.no_grad():
        for weights in model.net.parameters():  # one that is used twice is listed once
            if weights.dim() == 2 and weights.shape[-1] % BLOCK == 0:
                rounded = round_trip_of_eight_bits if weights is embedding else round_trip
                read = rounded(weights).to(weights)
                changed += (read - weights).double().square().sum().item()
                whole += weights.double().square().sum().item()
                weights.copy_(read)
    return (changed / whole) ** 0.5


def compared(names: Sequence[str], folder: Path = alike.MEASURED) -> pd.DataFrame:
    """A row a model and measure: in full and from four bits, each with its interval. Of ITEMS the
    rank correlation between the two, item by item.
    """
    rows = []
    for name in names:
        full, _ = results.read(alike.file_of(name, folder))
        model = models.load(name, device="cpu")
        change = in_place(model)
        four = alike.measured(model, alike.Amounts())
        about = {"model": name, "weights moved": change}
        for measure, before in full["measures"].items():
            before = stats.Estimate(*before[:3])
            after = stats.Estimate(*four["measures"][measure][:3])
            rows.append(about | {"measure": measure, "full": f"{before}", "four bits": f"{after}"})
        for key, said in ITEMS.items():
            rank = stats.rank_correlation(full[key].ravel(), four[key].ravel())
            rows.append(
                about | {"measure": f"{said}: rank correlation", "four bits": f"{rank:.2f}"}
            )
    return pd.DataFrame(rows).fillna("")


if __name__ == "__main__":
    names = "mini-bert", "mini-gpt2"
    table = compared(names)
    replace(TABLE, table.to_csv(index=False, float_format="%.3g", lineterminator="\n").encode())
    caption = (
        "What mini-bert and mini-gpt2 answer in full, as stored, and rounded to four bits by "
        "python -m companion.quantise."
    )
    replace(TABLE.with_suffix(".json"), alike.provenance(caption, names))
    print(table)
