"""Labelled texts as token ids, encoded once: what finetune.py trains on.

    train = examples.encode(model, firsts, seconds, targets)
    train.save(folder / "train.npz"); examples.sign(folder, model, "files")
    examples.check(folder, "mini-bert"); examples.load(folder / "train.npz")      where the texts need not be
    for rows, width in examples.shuffled(train.sizes.tolist(), batch=32, seed=0):
        net(**train.batch(rows, width, pad))

All tokens lie in one row, on the device, and a batch is cut out of it there: a small model would otherwise wait for
its texts longer than it computes.
"""

import json
from dataclasses import dataclass, fields, replace
from functools import cached_property
from io import BytesIO
from pathlib import Path

import numpy as np
import torch

from lib import CompanionError
from lib.engine import models
from lib.publish.run import replace as write

NEIGHBOURS = 50  # batches whose examples are sorted by length together: little padding, still well mixed


@dataclass(frozen=True, eq=False)
class Examples:
    """n texts or pairs. `targets` are class numbers (int64), or numbers to be met (float32)."""
    ids: torch.Tensor       # int32, the tokens of all, one after the other
    types: torch.Tensor     # uint8, 1 in a pair's second text
    sizes: torch.Tensor     # int64 [n], tokens of each
    targets: torch.Tensor   # [n]
    cut: torch.Tensor       # int64, how many were longer than the model reads, and cut

    def __len__(self):
        return len(self.sizes)

    @cached_property
    def starts(self) -> torch.Tensor:
        return self.sizes.cumsum(0) - self.sizes

    def to(self, device) -> "Examples":
        return Examples(*(getattr(self, field.name).to(device) for field in fields(self)))

    def take(self, rows) -> "Examples":
        """Some of them, in the order of `rows`. `cut` stays that of all."""
        rows = torch.as_tensor(rows)
        places = torch.cat([torch.arange(start, start + size) for start, size
                            in zip(self.starts[rows].tolist(), self.sizes[rows].tolist())])
        return replace(self, ids=self.ids[places], types=self.types[places], sizes=self.sizes[rows],
                       targets=self.targets[rows])

    def batch(self, rows: list[int], width: int, pad: int) -> dict[str, torch.Tensor]:
        """What a network takes, padded to `width` tokens (at least the longest one's)."""
        rows = torch.tensor(rows, device=self.ids.device)
        place = torch.arange(width, device=self.ids.device)
        there = place < self.sizes[rows][:, None]
        at = (self.starts[rows][:, None] + place).clamp(max=len(self.ids) - 1)  # past a text's end nothing is taken
        return {"input_ids": torch.where(there, self.ids[at].long(), pad), "attention_mask": there.long(),
                "token_type_ids": torch.where(there, self.types[at].long(), 0)}

    def save(self, file: Path):
        content = BytesIO()
        np.savez_compressed(content, **{field.name: getattr(self, field.name).numpy() for field in fields(self)})
        write(Path(file), content.getvalue())


def load(file: Path) -> Examples:
    if not Path(file).is_file():
        raise CompanionError(f"There are no prepared examples {file}: run the command prepare.")
    with np.load(file, allow_pickle=False) as stored:
        return Examples(*(torch.from_numpy(stored[field.name]) for field in fields(Examples)))


def sign(folder: Path, model, source: str):
    """Say in a folder of prepared examples which model they are encoded for, and where the texts are from."""
    made = {"model": model.name, "revision": model.revision, "source": source}
    write(Path(folder) / "prepared.json", (json.dumps(made, indent=1) + "\n").encode())


def check(folder: Path, name: str) -> dict:
    """What `sign` wrote, if it was for this model as it is now: other models have other tokens."""
    file = Path(folder) / "prepared.json"
    made = json.loads(file.read_text()) if file.is_file() else {}
    if made.get("revision") != models.locate(name)[1]:
        raise CompanionError(f"{folder} holds no examples prepared for {name} as it is now: run the command prepare.")
    return made


def encode(model, firsts: list[str], seconds: list[str] | None, targets: list) -> Examples:
    """Texts, or pairs of texts, with what is to be learned. One that is too long is cut, the longer text first."""
    if not firsts:
        raise CompanionError("There is no text to learn from: check the file that should hold it.")
    encoded = model.tokenizer(firsts, seconds, truncation=True, verbose=False)
    ids = torch.tensor([token for text in encoded["input_ids"] for token in text], dtype=torch.int32)
    types = [kind for text in encoded.get("token_type_ids", []) for kind in text] or [0] * len(ids)
    return Examples(
        ids, torch.tensor(types, dtype=torch.uint8), torch.tensor([len(text) for text in encoded["input_ids"]]),
        torch.tensor(targets, dtype=torch.float32 if isinstance(targets[0], float) else torch.int64),
        torch.tensor(sum(bool(text.overflowing) for text in encoded.encodings)))


def shuffled(sizes: list[int], batch: int, seed: int) -> list[tuple[list[int], int]]:
    """One epoch: every example once, in batches of similar length and random order; with each the width it needs."""
    draw = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(sizes), generator=draw).tolist()
    batches = []
    for start in range(0, len(order), NEIGHBOURS * batch):
        near = sorted(order[start:start + NEIGHBOURS * batch], key=lambda i: sizes[i])
        batches += [near[i:i + batch] for i in range(0, len(near), batch)]
    order = torch.randperm(len(batches), generator=draw).tolist()
    return [(batches[i], wide(max(sizes[row] for row in batches[i]))) for i in order]


def wide(size: int) -> int:
    """The next multiple of eight, which is what a GPU's matrix units like."""
    return -(-size // 8) * 8
