"""What every training here shares: AdamW, a rate that rises and falls, one step, checkpoints."""

import json
import math
import pickle
import time
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path

import torch
from torch import nn

from lib import CompanionError
from lib.engine import files


def check_positive(**settings):
    """Refuse a training that would do nothing, or never end, by one of these settings."""
    for name, value in settings.items():
        if not 0 < value < math.inf:
            raise CompanionError(
                f"--{name.replace('_', '-')} {value:g} is no training: give a number above 0."
            )


def adamw(weights: list[torch.Tensor], rate: float, decay: float) -> torch.optim.AdamW:
    """AdamW with weight decay for matrices and none for biases and norms."""
    matrices = [weight for weight in weights if weight.ndim > 1]
    others = [weight for weight in weights if weight.ndim <= 1]
    groups = [
        {"params": matrices, "weight_decay": decay},
        {"params": others, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.98), fused=weights[0].is_cuda)


def set_rate(
    each: list[torch.optim.Optimizer], rate: float, step: int, warmup: float, spent: float
):
    """Set the learning rate of optimizers for one step.

    It rises linearly over `warmup` steps, then falls linearly to zero as `spent`, the share of the
    budget that is used up, approaches 1.
    """
    now = rate * min((step + 1) / max(warmup, 1), 1 - spent)
    for optimizer in each:
        for group in optimizer.param_groups:
            group["lr"] = now


def descend(
    loss: torch.Tensor, weights: Iterable[torch.Tensor], *each: torch.optim.Optimizer
) -> torch.Tensor:
    """One step of the optimizers, the gradient clipped to a norm of 1.

    Returns the loss without its graph.
    """
    loss.backward()
    nn.utils.clip_grad_norm_(weights, 1.0)
    for optimizer in each:
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return loss.detach()


class Checkpoint:
    """What is needed to continue a run that was killed, written once in `every` seconds.

    file   where to write; None: nothing is written
    run    what identifies the run: a checkpoint of another one is refused
    """

    def __init__(self, file: Path | None, run: dict, every: float):
        self.file = file
        self.run = json.dumps(run)
        self.every = every
        self.written = time.time()

    def read(self, device) -> dict | None:
        """What was written, if there is a file."""
        if not self.file or not self.file.exists():
            return None
        try:
            # weights_only: no code in the file is run
            state = torch.load(self.file, map_location=device, weights_only=True)
            is_same_run = state.pop("run") == self.run
        except (pickle.UnpicklingError, RuntimeError, EOFError, KeyError, AttributeError) as error:
            raise CompanionError(
                f"{self.file} is not a checkpoint that can be read: remove it."
            ) from error
        if not is_same_run:
            raise CompanionError(
                f"{self.file} is a checkpoint of another run: remove it, or name another place."
            )
        return state

    def is_due(self) -> bool:
        """Whether it is time to write again."""
        return bool(self.file) and time.time() - self.written >= self.every

    def write(self, **state):
        content = BytesIO()
        torch.save({"run": self.run, **state}, content)
        files.replace(self.file, content.getvalue())
        self.written = time.time()

    def remove(self):
        """Remove the file: the run has ended."""
        if self.file:
            self.file.unlink(missing_ok=True)
