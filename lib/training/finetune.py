"""Fine-tune a classifier, or a regression, by a plain torch loop.

    model = models.load("mini-bert", task="sequence-classification", labels=3)
    done = finetune.fit(model, train, validation, metric, finetune.Settings(rate=1e-4, epochs=5))
    logits = finetune.predict(model, test)

bfloat16 autocast on a GPU, float32 on a CPU and wherever something is measured; linear warm-up, then a linear descent
to zero; after each epoch the metric on validation, the best epoch's weights are kept. Heads can be masked: the mask
holds in training and in measuring. Nothing here is random but by the seed, so that a run which was killed goes on from
its checkpoint and ends with the numbers it would have had (on a CPU exactly, which tests/test_finetune.py shows).
"""

import contextlib
import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import nn
from tqdm.auto import tqdm

from lib import CompanionError
from lib.engine import batches, hooks
from lib.publish.run import replace
from lib.training.examples import Examples, shuffled, wide


@dataclass(frozen=True)
class Settings:
    """How to train.

    patience  stop when the metric has not risen for so many epochs; 0: never. The descent is planned for all epochs.
    warmup    share of the steps in which the rate rises
    decay     of matrices, AdamW's; biases and norms have none
    dropout   put into every dropout layer: the shipped models were pre-trained without
    frozen    parts of the network that stay as they are, by a word of their weights' names: ("embeddings",)
    """
    rate: float = 1e-4
    epochs: int = 5
    batch: int = 32
    patience: int = 0
    warmup: float = .1
    decay: float = .01
    dropout: float = .1
    frozen: tuple[str, ...] = ()
    seed: int = 0


def fit(model, train: Examples, validation: Examples, metric: Callable[[np.ndarray, np.ndarray], float],
        settings: Settings, mask: torch.Tensor | None = None, checkpoint: Path | None = None, every: float = 60.,
        progress: str = "") -> dict:
    """Train `model` in place; it ends with the best epoch's weights, frozen and in eval mode.

    metric      of (logits [n, labels], targets [n]), higher is better
    mask        for hooks.head_mask, constant, on during training and validation
    checkpoint  where to write, at the end of an epoch, what it takes to go on from there; removed at the end. At most
                once in `every` seconds, so that a short run never waits for its disk.
    Returns epochs (run), best (epoch, from 1), validation (its metric) and history, a row an epoch.
    """
    net, device = model.net, model.device
    train, lengths = train.to(device), train.sizes.tolist()
    trained = _trainable(net, settings.frozen)
    optimizer = _optimizer(trained, settings, device)
    same = {"settings": asdict(settings), "examples": [len(train), len(validation)], "revision": model.revision,
            "mask": None if mask is None else mask.tolist()}
    history, best = [], {}
    if checkpoint and checkpoint.exists():
        history, best = _go_on(checkpoint, same, trained, optimizer)
    written = time.time()
    for part in net.modules():
        if isinstance(part, nn.Dropout):
            part.p = settings.dropout
    with _masked(model, mask):
        while len(history) < settings.epochs and not _stale(history, settings.patience):
            epoch = len(history)
            torch.manual_seed(settings.seed * 1_000 + epoch)  # dropout's; no state to keep between epochs
            plan = shuffled(lengths, settings.batch, settings.seed * 1_000 + epoch)
            net.train()
            total = torch.zeros((), device=device)
            bar = tqdm(plan, desc=f"{progress} {epoch + 1}/{settings.epochs}", disable=not progress, leave=False)
            for step, (rows, width) in enumerate(bar, start=epoch * len(plan)):
                for group in optimizer.param_groups:
                    group["lr"] = _rate(step, len(plan) * settings.epochs, settings)
                with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                    logits = net(**_inputs(model, train, rows, width)).logits
                loss = _loss(logits.float(), train.targets[torch.tensor(rows, device=device)])
                loss.backward()
                nn.utils.clip_grad_norm_(trained.values(), 1.)
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
                total += loss.detach()
            if not math.isfinite(total.item()):
                raise CompanionError(f"Training {model.name} diverged in epoch {epoch + 1}: "
                                     f"take a lower rate than {settings.rate:g}.")
            score = float(metric(predict(model, validation), validation.targets.numpy()))
            if not history or score > max(row["score"] for row in history):
                best = {name: weight.detach().clone() for name, weight in trained.items()}
            history.append({"loss": round(total.item() / len(plan), 4), "score": round(score, 6)})
            if checkpoint and time.time() - written >= every:
                _keep(checkpoint, same, history, trained, best, optimizer)
                written = time.time()
    with torch.no_grad():
        for name, weight in trained.items():
            weight.copy_(best[name])
    net.eval().requires_grad_(False)
    if checkpoint:
        checkpoint.unlink(missing_ok=True)
    scores = [row["score"] for row in history]
    return {"epochs": len(history), "best": scores.index(max(scores)) + 1, "validation": max(scores),
            "history": history}


@torch.no_grad()
def predict(model, examples: Examples, mask: torch.Tensor | None = None) -> np.ndarray:
    """Logits [n, labels] in float32, dropout off; `mask` as in fit."""
    model.net.eval()
    sizes, examples = examples.sizes.tolist(), examples.to(model.device)
    logits = np.zeros((len(sizes), model.net.config.num_labels), dtype=np.float32)
    with _masked(model, mask):
        for rows in batches.by_length(sizes, batches.TOKENS.get(model.device.type, batches.TOKENS["cpu"])):
            inputs = _inputs(model, examples, rows, wide(max(sizes[row] for row in rows)))
            logits[rows] = model.net(**inputs).logits.float().cpu().numpy()
    return logits


def _rate(step: int, steps: int, settings: Settings) -> float:
    """From nothing up, and down to nothing again."""
    return settings.rate * min((step + 1) / max(settings.warmup * steps, 1), (steps - step) / steps)


def _loss(logits, targets):
    return F.mse_loss(logits[:, 0], targets) if logits.shape[1] == 1 else F.cross_entropy(logits, targets)


def _inputs(model, examples: Examples, rows: list[int], width: int) -> dict:
    found = examples.batch(rows, width, model.net.config.pad_token_id)
    return {name: found[name] for name in model.tokenizer.model_input_names}


def _masked(model, mask):
    return contextlib.nullcontext() if mask is None else hooks.head_mask(model, mask.to(model.device))


def _trainable(net, frozen: tuple[str, ...]) -> dict[str, nn.Parameter]:
    trained = {name: weight for name, weight in net.named_parameters()
               if not any(part in name.split(".") for part in frozen)}
    for weight in trained.values():
        weight.requires_grad_(True)
    return trained


def _optimizer(trained: dict[str, nn.Parameter], settings: Settings, device) -> torch.optim.Optimizer:
    matrices = [weight for weight in trained.values() if weight.ndim > 1]
    others = [weight for weight in trained.values() if weight.ndim <= 1]
    return torch.optim.AdamW([dict(params=matrices, weight_decay=settings.decay), dict(params=others, weight_decay=0.)],
                             lr=settings.rate, betas=(.9, .98), fused=device.type == "cuda")


def _stale(history: list[dict], patience: int) -> bool:
    scores = [row["score"] for row in history]
    return bool(patience and scores and len(scores) - 1 - scores.index(max(scores)) >= patience)


# A checkpoint is one safetensors file: weights, the best ones, AdamW's moments; in its header what run it is of.

def _keep(file: Path, same: dict, history: list[dict], trained: dict, best: dict, optimizer):
    tensors = {f"weights/{name}": weight.detach() for name, weight in trained.items()}
    tensors |= {f"best/{name}": weight for name, weight in best.items()}
    for name, weight in trained.items():
        tensors |= {f"{key}/{name}": value for key, value in optimizer.state[weight].items()}
    header = {"run": json.dumps(same), "history": json.dumps(history)}
    replace(file, save({name: tensor.cpu().contiguous() for name, tensor in tensors.items()}, header))


@torch.no_grad()
def _go_on(file: Path, same: dict, trained: dict, optimizer) -> tuple[list[dict], dict]:
    """Weights and moments as they were; returns the history and the best weights so far."""
    try:
        with safe_open(file, "pt", device=str(next(iter(trained.values())).device)) as stored:
            header, names = stored.metadata(), list(stored.keys())
            if json.loads(header["run"]) != json.loads(json.dumps(same)):
                raise CompanionError(f"{file} is a checkpoint of another run: remove it, or name another place.")
            tensors = {name: stored.get_tensor(name) for name in names}
    except (SafetensorError, KeyError, TypeError) as error:
        raise CompanionError(f"{file} is not a checkpoint that can be read: remove it.") from error
    best = {}
    for key, tensor in tensors.items():
        kind, name = key.split("/")
        if kind == "weights":
            trained[name].copy_(tensor)
        elif kind == "best":
            best[name] = tensor
        else:
            optimizer.state[trained[name]][kind] = tensor
    return json.loads(header["history"]), best


def accuracy(predicted: np.ndarray, wanted: np.ndarray) -> float:
    """The share of labels that are right."""
    return float((predicted == wanted).mean())
