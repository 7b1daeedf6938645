"""Fine-tune a classifier, or a regression, on labelled texts that are encoded once.

    train = finetune.encode(model, firsts, seconds, targets)
    done = finetune.fit(model, train, validation, metric, finetune.Settings(rate=1e-4, epochs=5))
    logits = finetune.predict(model, test)

The tokens of all texts lie in one row on the device, and batches are cut out of it there: a small
model would otherwise wait for its texts longer than it computes. Training uses bfloat16 autocast on
a GPU and float32 on a CPU; validation and prediction use float32. All randomness comes from the
seed: a run that was killed continues and ends with the same numbers (on a CPU exactly).
"""

import hashlib
import json
import math
import zipfile
import zlib
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
from lib.engine import batches, files, folders, hooks
from training import optimise

# How many batches' examples are sorted by length together: little padding, still well mixed.
NEIGHBOURS = 50


@dataclass(frozen=True, eq=False)
class Examples:
    """n texts or pairs. `targets` are class numbers (int64), or values to predict (float32)."""

    ids: torch.Tensor  # int32, the tokens of all, one after the other
    types: torch.Tensor  # uint8, 1 in a pair's second text
    sizes: torch.Tensor  # int64 [n], tokens of each
    targets: torch.Tensor  # [n]
    cut: torch.Tensor  # int64, how many were longer than the model reads, and cut

    def __len__(self):
        return len(self.sizes)

    @property
    def fingerprint(self) -> str:
        """A hash of the texts, as tokens, and of what they are to be taken for."""
        content = hashlib.sha256()
        for values in vars(self).values():
            content.update(values.cpu().numpy().tobytes())
        return content.hexdigest()[:16]

    def to(self, device) -> "Examples":
        return Examples(**{name: values.to(device) for name, values in vars(self).items()})

    def batch(self, rows: list[int], width: int, model) -> dict[str, torch.Tensor]:
        """What a model's network takes, padded to `width` tokens (at least the longest one's)."""
        device = self.ids.device
        rows = torch.tensor(rows, device=device)
        place = torch.arange(width, device=device)
        is_token = place < self.sizes[rows][:, None]
        starts = (self.sizes.cumsum(0) - self.sizes)[rows]
        # places past the end of the last text must still be valid indices; their tokens are unused
        at = (starts[:, None] + place).clamp(max=len(self.ids) - 1)
        batch = {
            "input_ids": torch.where(is_token, self.ids[at].long(), model.net.config.pad_token_id),
            "attention_mask": is_token.long(),
            "token_type_ids": torch.where(is_token, self.types[at].long(), 0),
        }
        return {name: batch[name] for name in model.tokenizer.model_input_names}

    def save(self, file: Path):
        files.save_arrays(file, **{name: values.numpy() for name, values in vars(self).items()})


def load(file: Path) -> Examples:
    """What Examples.save wrote."""
    if not Path(file).is_file():
        raise CompanionError(f"There are no prepared examples {file}: run the command prepare.")
    try:
        with np.load(file, allow_pickle=False) as stored:
            return Examples(**{name: torch.from_numpy(values) for name, values in stored.items()})
    except (OSError, ValueError, EOFError, TypeError, zipfile.BadZipFile, zlib.error):
        raise CompanionError(
            f"The prepared examples {file} are damaged: remove them and run the command prepare."
        ) from None


def read_record(file: Path) -> dict:
    """What a JSON file says of a training; {} where there is no such file."""
    if not file.is_file():
        return {}
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        record = None
    if not isinstance(record, dict):
        raise CompanionError(f"{file} is damaged: remove it, and make it again.")
    return record


def sign(folder: Path, model, source: str, **about) -> dict:
    """Note in a folder of prepared text for which model it is encoded and where it is from."""
    record = {"model": model.name, "revision": model.revision, "source": source, **about}
    content = json.dumps(record, indent=1) + "\n"
    files.replace(Path(folder) / "prepared.json", content.encode())
    return record


def check(folder: Path, name: str) -> dict:
    """What `sign` wrote; refused if it was for another model, which has other tokens."""
    record = read_record(Path(folder) / "prepared.json")
    _, revision = folders.locate(name)
    if record.get("revision") != revision:
        raise CompanionError(
            f"{folder} holds no text prepared for {name} as it is now: run the command prepare."
        )
    return record


def encode(model, firsts: list[str], seconds: list[str] | None, targets: list) -> Examples:
    """Texts, or pairs of texts, with their targets: class numbers, or floats for a regression.

    What is too long is cut; of a pair, the longer text first.
    """
    if not firsts:
        raise CompanionError("There is no text to learn from: check the file that should hold it.")
    encoded = model.tokenizer(firsts, seconds, truncation=True, verbose=False)
    ids = torch.tensor(list(chain(*encoded["input_ids"])), dtype=torch.int32)
    types = list(chain(*encoded.get("token_type_ids", []))) or [0] * len(ids)
    is_regression = isinstance(targets[0], float)
    n_cut = sum(bool(text.overflowing) for text in encoded.encodings)
    return Examples(
        ids=ids,
        types=torch.tensor(types, dtype=torch.uint8),
        sizes=torch.tensor([len(row) for row in encoded["input_ids"]]),
        targets=torch.tensor(targets, dtype=torch.float32 if is_regression else torch.int64),
        cut=torch.tensor(n_cut),
    )


def shuffled(sizes: list[int], batch: int, seed: int) -> list[tuple[list[int], int]]:
    """One epoch: (rows, width) of its batches, every example once.

    Batches have texts of similar length and come in random order; `width` is what they are padded
    to, in tokens.
    """
    draw = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(sizes), generator=draw).tolist()
    all_rows = []
    for start in range(0, len(order), NEIGHBOURS * batch):
        near = sorted(order[start : start + NEIGHBOURS * batch], key=lambda i: sizes[i])
        for i in range(0, len(near), batch):
            all_rows.append(near[i : i + batch])
    plan = []
    for i in torch.randperm(len(all_rows), generator=draw).tolist():
        rows = all_rows[i]
        plan.append((rows, _width(sizes, rows)))
    return plan


def _width(sizes: list[int], rows: list[int]) -> int:
    """The length of the longest row, rounded up to a multiple of 8: aligned for tensor cores."""
    longest = max(sizes[row] for row in rows)
    return math.ceil(longest / 8) * 8


@dataclass(frozen=True)
class Settings:
    """How to train."""

    rate: float = 1e-4
    epochs: int = 5
    batch: int = 32
    patience: int = 0  # stop when the metric has not risen for so many epochs; 0: never
    warmup: float = 0.1  # share of the steps, of all epochs, in which the rate rises
    decay: float = 0.01  # AdamW's weight decay, of matrices alone: not of biases and norms
    dropout: float = 0.1  # in every dropout layer: the bundled models were pre-trained without
    frozen: tuple[str, ...] = ()  # parts not trained, by a word of their names: ("embeddings",)
    seed: int = 0


def fit(  # noqa: PLR0913 (five are always given, the others are options of a long run)
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

    metric      of (logits [n, labels], targets [n]); higher is better
    mask        a constant tensor for hooks.head_mask, on during training and validation
    checkpoint  where to write, at the end of an epoch, what is needed to continue from there; it is
                removed at the end
    every       write it at most once in so many seconds: a short run never waits for the disk
    Returns epochs (how many were run), best (the best epoch, from 1; the first of equals),
    validation (its metric) and history (loss and score of each epoch).
    """
    optimise.check_positive(rate=settings.rate, epochs=settings.epochs, batch=settings.batch)
    run = {
        "settings": asdict(settings),
        "examples": [train.fingerprint, validation.fingerprint],
        "revision": model.revision,
        "mask": None if mask is None else mask.tolist(),
    }
    kept = optimise.Checkpoint(checkpoint, run, every)
    training = _Training(model, train, settings, progress)
    training.restore(kept.read(model.device))
    with _masked(model, mask):
        while not training.is_over():
            loss = training.run_epoch()
            logits = predict(model, validation)
            score = round(float(metric(logits, validation.targets.numpy())), 6)
            training.note(loss, score)
            if kept.is_due():
                kept.write(**training.state())
    training.take_best()
    kept.remove()
    return training.summary()


class _Training:
    """One run of `fit`: the weights that are trained, their optimizer, and the epochs so far."""

    def __init__(self, model, train: Examples, settings: Settings, progress: str):
        self.model = model
        self.settings = settings
        self.progress = progress
        self.sizes = train.sizes.tolist()
        self.train = train.to(model.device)
        self.weights = {}  # those that are trained, by name
        for name, weight in model.net.named_parameters():
            words = name.split(".")
            if not any(frozen in words for frozen in settings.frozen):
                self.weights[name] = weight.requires_grad_()
        self.optimizer = optimise.adamw(list(self.weights.values()), settings.rate, settings.decay)
        for module in model.net.modules():
            if isinstance(module, nn.Dropout):
                module.p = settings.dropout
        self.history = []  # of each epoch its loss and its score on the validation examples
        self.best = {}  # the best epoch's weights

    def restore(self, state: dict | None):
        """Continue from what a checkpoint holds, if there is one."""
        if state is None:
            return
        self.history = state["history"]
        self.best = state["best"]
        self.model.net.load_state_dict(state["weights"], strict=False)  # the trained ones alone
        self.optimizer.load_state_dict(state["optimizer"])

    def state(self) -> dict:
        """What a checkpoint holds."""
        return {
            "history": self.history,
            "best": self.best,
            "optimizer": self.optimizer.state_dict(),
            "weights": {name: weight.detach() for name, weight in self.weights.items()},
        }

    def is_over(self) -> bool:
        """Whether all epochs were run, or the score has not risen for `patience` epochs."""
        n_run = len(self.history)
        if n_run >= self.settings.epochs:
            return True
        epochs_since_best = n_run - 1 - best_epoch(self.history)
        return self.settings.patience > 0 and epochs_since_best >= self.settings.patience

    def run_epoch(self) -> float:
        """Train for one epoch; returns the mean loss of its batches."""
        epoch = len(self.history)
        seed = self.settings.seed * 1_000 + epoch
        torch.manual_seed(seed)  # dropout's: no generator's state has to be kept between epochs
        plan = shuffled(self.sizes, self.settings.batch, seed)
        n_steps = len(plan) * self.settings.epochs
        n_warmup = self.settings.warmup * n_steps
        title = f"{self.progress} {epoch + 1}/{self.settings.epochs}"
        bar = tqdm(plan, desc=title, disable=not self.progress, leave=False)
        self.model.net.train()
        total = torch.zeros((), device=self.model.device)
        for step, (rows, width) in enumerate(bar, start=epoch * len(plan)):
            spent = step / n_steps
            optimise.set_rate([self.optimizer], self.settings.rate, step, n_warmup, spent)
            loss = self._loss(rows, width)
            total += optimise.descend(loss, self.weights.values(), self.optimizer)
        if not math.isfinite(total.item()):
            raise CompanionError(
                f"Training {self.model.name} diverged in epoch {epoch + 1}: "
                f"take a lower rate than {self.settings.rate:g}."
            )
        return total.item() / len(plan)

    def _loss(self, rows: list[int], width: int) -> torch.Tensor:
        """The loss of one batch: squared error for one label, else cross-entropy."""
        device = self.model.device
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            batch = self.train.batch(rows, width, self.model)
            logits = self.model.net(**batch).logits.float()
        targets = self.train.targets[torch.tensor(rows, device=device)]
        if logits.shape[1] == 1:
            return F.mse_loss(logits[:, 0], targets)
        return F.cross_entropy(logits, targets)

    def note(self, loss: float, score: float):
        """End an epoch; keep a copy of its weights if it is the best one so far."""
        self.history.append({"loss": round(loss, 4), "score": score})
        if best_epoch(self.history) == len(self.history) - 1:
            self.best = {name: weight.detach().clone() for name, weight in self.weights.items()}

    def take_best(self):
        """Put the best epoch's weights into the network, frozen and in eval mode."""
        self.model.net.load_state_dict(self.best, strict=False)
        self.model.net.eval().requires_grad_(False)

    def summary(self) -> dict:
        """What `fit` returns."""
        best = best_epoch(self.history)
        return {
            "epochs": len(self.history),
            "best": best + 1,
            "validation": self.history[best]["score"],
            "history": self.history,
        }


def _masked(model, mask: torch.Tensor | None):
    """hooks.head_mask with this mask; without one, a block in which nothing changes."""
    if mask is None:
        return nullcontext()
    return hooks.head_mask(model, mask.to(model.device))


def best_epoch(history: list[dict]) -> int:
    """The first epoch of the highest score, from 0; before any, -1."""
    return max(range(len(history)), key=lambda epoch: history[epoch]["score"], default=-1)


@torch.no_grad()
def predict(model, examples: Examples, mask: torch.Tensor | None = None) -> np.ndarray:
    """Logits [n, labels] in float32, dropout off; `mask` as in fit."""
    model.net.eval()
    sizes = examples.sizes.tolist()
    examples = examples.to(model.device)
    logits = np.zeros((len(sizes), model.net.config.num_labels), dtype=np.float32)
    with _masked(model, mask):
        for rows in batches.by_length(sizes, batches.default_tokens(model.device)):
            batch = examples.batch(rows, _width(sizes, rows), model)
            logits[rows] = model.net(**batch).logits.float().cpu().numpy()
    return logits


def accuracy(predicted: np.ndarray, wanted: np.ndarray) -> float:
    """The share of predictions that are equal to what was wanted."""
    return float((predicted == wanted).mean())
