"""Fine-tune a classifier, or a regression, on labelled texts that are encoded once.

    train = finetune.encode(model, firsts, seconds, targets)
    done = finetune.fit(model, train, validation, metric, finetune.Settings(rate=1e-4, epochs=5))
    logits = finetune.predict(model, test)

All tokens lie in one row, on the device, and a batch is cut out of it there: a small model would otherwise wait for its
texts longer than it computes. bfloat16 autocast on a GPU, float32 on a CPU and wherever something is measured. Nothing
is random but by the seed: a run that was killed goes on, and ends with the same numbers (on a CPU exactly)."""

import json
import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from tqdm import tqdm

from lib import CompanionError
from lib.engine import batches, files, hooks, models, optimise

NEIGHBOURS = (
    50  # batches whose examples are sorted by length together: little padding, still well mixed
)


@dataclass(frozen=True, eq=False)
class Examples:
    """n texts or pairs. `targets` are class numbers (int64), or numbers to be met (float32)."""

    ids: torch.Tensor  # int32, the tokens of all, one after the other
    types: torch.Tensor  # uint8, 1 in a pair's second text
    sizes: torch.Tensor  # int64 [n], tokens of each
    targets: torch.Tensor  # [n]
    cut: torch.Tensor  # int64, how many were longer than the model reads, and cut

    def __len__(self):
        return len(self.sizes)

    def to(self, device) -> "Examples":
        return Examples(**{name: values.to(device) for name, values in vars(self).items()})

    def batch(self, rows: list[int], width: int, model) -> dict[str, torch.Tensor]:
        """What a model's network takes, padded to `width` tokens (at least the longest one's)."""
        rows, place = (
            torch.tensor(rows, device=self.ids.device),
            torch.arange(width, device=self.ids.device),
        )
        there = place < self.sizes[rows][:, None]
        starts = (self.sizes.cumsum(0) - self.sizes)[rows]
        at = (starts[:, None] + place).clamp(
            max=len(self.ids) - 1
        )  # past a text's end nothing is taken
        batch = {
            "input_ids": torch.where(there, self.ids[at].long(), model.net.config.pad_token_id),
            "attention_mask": there.long(),
            "token_type_ids": torch.where(there, self.types[at].long(), 0),
        }
        return {name: batch[name] for name in model.tokenizer.model_input_names}

    def save(self, file: Path):
        files.save_arrays(file, **{name: values.numpy() for name, values in vars(self).items()})


def load(file: Path) -> Examples:
    if not Path(file).is_file():
        raise CompanionError(f"There are no prepared examples {file}: run the command prepare.")
    with np.load(file, allow_pickle=False) as stored:
        return Examples(**{name: torch.from_numpy(values) for name, values in stored.items()})


def sign(folder: Path, model, source: str, **about) -> dict:
    """Say in a folder of prepared text which model it is encoded for, where it is from, and what else is known."""
    made = {"model": model.name, "revision": model.revision, "source": source, **about}
    files.replace(Path(folder) / "prepared.json", (json.dumps(made, indent=1) + "\n").encode())
    return made


def check(folder: Path, name: str) -> dict:
    """What `sign` wrote, if it was for this model as it is now: other models have other tokens."""
    file = Path(folder) / "prepared.json"
    made = json.loads(file.read_text()) if file.is_file() else {}
    if made.get("revision") != models.locate(name)[1]:
        raise CompanionError(
            f"{folder} holds no text prepared for {name} as it is now: run the command prepare."
        )
    return made


def encode(model, firsts: list[str], seconds: list[str] | None, targets: list) -> Examples:
    """Texts, or pairs of texts, with what is to be learned. One that is too long is cut, the longer text first."""
    if not firsts:
        raise CompanionError("There is no text to learn from: check the file that should hold it.")
    encoded = model.tokenizer(firsts, seconds, truncation=True, verbose=False)
    ids = torch.tensor(list(chain(*encoded["input_ids"])), dtype=torch.int32)
    types = list(chain(*encoded.get("token_type_ids", []))) or [0] * len(ids)
    return Examples(
        ids,
        torch.tensor(types, dtype=torch.uint8),
        torch.tensor([*map(len, encoded["input_ids"])]),
        torch.tensor(
            targets, dtype=torch.float32 if isinstance(targets[0], float) else torch.int64
        ),
        torch.tensor(sum(bool(text.overflowing) for text in encoded.encodings)),
    )


def shuffled(sizes: list[int], batch: int, seed: int) -> list[tuple[list[int], int]]:
    """One epoch: every example once, in batches of similar length and random order; with each the width it needs."""
    draw = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(sizes), generator=draw).tolist()
    batches = []
    for start in range(0, len(order), NEIGHBOURS * batch):
        near = sorted(order[start : start + NEIGHBOURS * batch], key=lambda i: sizes[i])
        batches += [near[i : i + batch] for i in range(0, len(near), batch)]
    order = torch.randperm(len(batches), generator=draw).tolist()
    return [(batches[i], wide(max(sizes[row] for row in batches[i]))) for i in order]


def wide(size: int) -> int:
    """The next multiple of eight, which is what a GPU's matrix units like."""
    return -(-size // 8) * 8


@dataclass(frozen=True)
class Settings:
    rate: float = 1e-4
    epochs: int = 5
    batch: int = 32
    patience: int = 0  # stop when the metric has not risen for so many epochs; 0: never
    warmup: float = (
        0.1  # share of the steps in which the rate rises; its descent is planned for all epochs
    )
    decay: float = 0.01  # of matrices, AdamW's; biases and norms have none
    dropout: float = (
        0.1  # put into every dropout layer: the shipped models were pre-trained without
    )
    frozen: tuple[
        str, ...
    ] = ()  # parts that stay as they are, by a word of their weights' names: ("embeddings",)
    seed: int = 0


def fit(
    model,
    train: Examples,
    validation: Examples,
    metric: Callable,
    settings: Settings,
    mask=None,
    checkpoint: Path | None = None,
    every: float = 60.0,
    progress: str = "",
) -> dict:
    """Train `model` in place; it ends with the best epoch's weights, frozen and in eval mode.

    metric      of (logits [n, labels], targets [n]), higher is better
    mask        a tensor for hooks.head_mask, constant, on during training and validation
    checkpoint  where to write, at the end of an epoch, what it takes to go on from there; removed at the end. At most
                once in `every` seconds, so that a short run never waits for its disk.
    Returns epochs (run), best (epoch, from 1; of equals the first), validation (its metric) and history (of epochs)."""
    net, device = model.net, model.device
    train, lengths = train.to(device), train.sizes.tolist()
    trained = {
        name: weight.requires_grad_()
        for name, weight in net.named_parameters()
        if not any(frozen in name.split(".") for frozen in settings.frozen)
    }
    optimizer = optimise.adamw([*trained.values()], settings.rate, settings.decay)
    kept = optimise.Checkpoint(
        checkpoint,
        {
            "settings": asdict(settings),
            "examples": [len(train), len(validation)],
            "revision": model.revision,
            "mask": None if mask is None else mask.tolist(),
        },
        every,
    )
    history, best = [], {}
    if state := kept.read(device):
        history, best = state["history"], state["best"]
        net.load_state_dict(state["weights"], strict=False)  # the trained ones
        optimizer.load_state_dict(state["optimizer"])
    for module in net.modules():
        if isinstance(module, nn.Dropout):
            module.p = settings.dropout
    with nullcontext() if mask is None else hooks.head_mask(model, mask.to(device)):
        for epoch in range(len(history), settings.epochs):
            if settings.patience and epoch - 1 - best_epoch(history) >= settings.patience:
                break
            torch.manual_seed(
                settings.seed * 1_000 + epoch
            )  # dropout's; no state to keep between epochs
            plan = shuffled(lengths, settings.batch, settings.seed * 1_000 + epoch)
            net.train()
            total, steps = torch.zeros((), device=device), len(plan) * settings.epochs
            bar = tqdm(
                plan,
                desc=f"{progress} {epoch + 1}/{settings.epochs}",
                disable=not progress,
                leave=False,
            )
            for step, (rows, width) in enumerate(bar, start=epoch * len(plan)):
                optimise.set_rate(
                    [optimizer], settings.rate, step, settings.warmup * steps, step / steps
                )
                with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                    logits = net(**train.batch(rows, width, model)).logits.float()
                targets = train.targets[torch.tensor(rows, device=device)]
                loss = (
                    F.mse_loss(logits[:, 0], targets)
                    if logits.shape[1] == 1
                    else F.cross_entropy(logits, targets)
                )
                total += optimise.descend(loss, trained.values(), optimizer)
            if not math.isfinite(total.item()):
                raise CompanionError(
                    f"Training {model.name} diverged in epoch {epoch + 1}: "
                    f"take a lower rate than {settings.rate:g}."
                )
            score = round(float(metric(predict(model, validation), validation.targets.numpy())), 6)
            history.append({"loss": round(total.item() / len(plan), 4), "score": score})
            if best_epoch(history) == epoch:
                best = {name: weight.detach().clone() for name, weight in trained.items()}
            if kept.is_due():
                kept.write(
                    history=history,
                    best=best,
                    optimizer=optimizer.state_dict(),
                    weights={name: weight.detach() for name, weight in trained.items()},
                )
    net.load_state_dict(best, strict=False)
    net.eval().requires_grad_(False)
    kept.remove()
    best_row = best_epoch(history)
    return {
        "epochs": len(history),
        "best": best_row + 1,
        "validation": history[best_row]["score"],
        "history": history,
    }


def best_epoch(history: list[dict]) -> int:
    """The first epoch of the highest score, from 0; before any, -1."""
    return max(range(len(history)), key=lambda epoch: history[epoch]["score"], default=-1)


@torch.no_grad()
def predict(model, examples: Examples, mask: torch.Tensor | None = None) -> np.ndarray:
    """Logits [n, labels] in float32, dropout off; `mask` as in fit."""
    model.net.eval()
    sizes, examples = examples.sizes.tolist(), examples.to(model.device)
    logits = np.zeros((len(sizes), model.net.config.num_labels), dtype=np.float32)
    with nullcontext() if mask is None else hooks.head_mask(model, mask.to(model.device)):
        for rows in batches.by_length(
            sizes, batches.TOKENS.get(model.device.type, batches.TOKENS["cpu"])
        ):
            batch = examples.batch(rows, wide(max(sizes[row] for row in rows)), model)
            logits[rows] = model.net(**batch).logits.float().cpu().numpy()
    return logits


def accuracy(predicted: np.ndarray, wanted: np.ndarray) -> float:
    return float((predicted == wanted).mean())
