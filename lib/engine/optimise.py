"""What every training here shares: AdamW, a rate that rises and falls, one step down, checkpoints."""

import json
import pickle
import time
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path

import torch
from torch import nn

from lib import CompanionError
from lib.engine import files


def adamw(weights: list[torch.Tensor], rate: float, decay: float) -> torch.optim.AdamW:
    """Matrices decay, biases and norms do not."""
    matrices, others = (
        [weight for weight in weights if (weight.ndim > 1) == is_matrix]
        for is_matrix in (True, False)
    )
    return torch.optim.AdamW(
        [dict(params=matrices, weight_decay=decay), dict(params=others, weight_decay=0.0)],
        lr=rate,
        betas=(0.9, 0.98),
        fused=weights[0].is_cuda,
    )


def set_rate(
    each: list[torch.optim.Optimizer], rate: float, step: int, warmup: float, spent: float
):
    """A linear rise over `warmup` steps, then a linear descent to zero as the share `spent` of the budget nears 1."""
    now = rate * min((step + 1) / max(warmup, 1), 1 - spent)
    for optimizer in each:
        for group in optimizer.param_groups:
            group["lr"] = now


def descend(
    loss: torch.Tensor, weights: Iterable[torch.Tensor], *each: torch.optim.Optimizer
) -> torch.Tensor:
    """One step down the gradient, which is clipped to a norm of 1; returns the loss without its graph."""
    loss.backward()
    nn.utils.clip_grad_norm_(weights, 1.0)
    for optimizer in each:
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return loss.detach()


class Checkpoint:
    """What it takes to go on with a `run`, written once in `every` seconds. Without a file nothing is kept."""

    def __init__(self, file: Path | None, run: dict, every: float):
        self.file, self.run, self.every, self.written = file, json.dumps(run), every, time.time()

    def read(self, device) -> dict | None:
        """What was written, if there is a file; one of another run is refused."""
        if not self.file or not self.file.exists():
            return None
        try:
            state = torch.load(
                self.file, map_location=device, weights_only=True
            )  # no code of the file is run
            same = state.pop("run") == self.run
        except (pickle.UnpicklingError, RuntimeError, EOFError, KeyError, AttributeError) as error:
            raise CompanionError(
                f"{self.file} is not a checkpoint that can be read: remove it."
            ) from error
        if not same:
            raise CompanionError(
                f"{self.file} is a checkpoint of another run: remove it, or name another place."
            )
        return state

    def is_due(self) -> bool:
        return bool(self.file) and time.time() - self.written >= self.every

    def write(self, **state):
        content = BytesIO()
        torch.save({"run": self.run, **state}, content)
        files.replace(self.file, content.getvalue())
        self.written = time.time()

    def remove(self):
        if self.file:
            self.file.unlink(missing_ok=True)
