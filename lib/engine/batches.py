"""Many texts through a model: sorted by length, a fixed number of tokens a batch, results in the order given.

A batch that does not fit is halved and tried again. Padding changes rounding alone (tests/test_batches.py)."""

from collections.abc import Callable, Iterator

import numpy as np
import torch
from tqdm import tqdm

from lib import CompanionError

TOKENS = {"cpu": 4_096, "cuda": 65_536}  # padded tokens a batch: enough to keep the device busy
torch.backends.cuda.enable_cudnn_sdp(
    False
)  # plans for each shape anew, and batches have many: benchmarks/README.md


def encode(model, texts: list, seconds: list | None = None, bos: bool | None = None) -> list[dict]:
    """Texts, or pairs of texts, as token ids, one dict each, not yet padded; one longer than the positions fails.
    bos: of a decoder, whether the token that begins a sequence opens each text; None: as its tokenizer has it."""
    if not texts:
        return []
    encoded = model.tokenizer(
        texts, seconds, verbose=False
    )  # what it would warn of is raised below
    if added := opening(model, bos):
        token = {"input_ids": [model.tokenizer.bos_token_id], "attention_mask": [1]}
        encoded = {
            name: [token[name] + row if added > 0 else row[1:] for row in encoded[name]]
            for name in token
        }
    longest = max(range(len(texts)), key=lambda i: len(encoded["input_ids"][i]))
    size, limit = len(encoded["input_ids"][longest]), model.tokenizer.model_max_length
    if size > limit:
        raise CompanionError(
            f"'{texts[longest][:40]}...' has {size} tokens, more than the {limit} of {model.name}: "
            "shorten it or choose a model with more positions."
        )
    return [{name: values[i] for name, values in encoded.items()} for i in range(len(texts))]


def opening(model, bos: bool | None) -> int:
    """How many tokens `bos` adds before a text that the tokenizer does not: 0, 1, or -1 where it takes one away.
    A decoder's first position attracts the attention of all others, and what stands there has a state unlike any other:
    without a token that opens the text this is its first word."""
    if bos is None:
        return 0
    if not model.anatomy.can_open or model.tokenizer.bos_token_id is None:
        raise CompanionError(
            f"{model.name} has no beginning token to put or leave out: leave bos out."
        )
    return bos - (model.tokenizer("a").input_ids[0] == model.tokenizer.bos_token_id)


def by_length(sizes: list[int], tokens: int, alike: bool = False) -> Iterator[list[int]]:
    """Indices in batches of similar size, long ones first: a batch that is too large shows itself at once.
    One a quarter full takes no text that would be padded by a twentieth or more; `alike`, none that would at all."""
    batch, longest = [], max(sizes, default=0)
    for i in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        is_full = (len(batch) + 1) * longest > tokens
        is_unlike = (
            sizes[i] < longest
            if alike
            else 4 * len(batch) * longest >= tokens and sizes[i] <= 0.95 * longest
        )
        if batch and (is_full or is_unlike):
            yield batch
            batch, longest = [], sizes[i]
        batch.append(i)
    if batch:
        yield batch


def pad(model, encoded: list[dict]) -> dict[str, torch.Tensor]:
    """One batch on the model's device, padded on the right: the tokenizer's own `pad` without its slow loops."""
    shape = len(encoded), max(len(row["input_ids"]) for row in encoded)
    batch = {
        name: np.full(shape, model.tokenizer.pad_token_id if name == "input_ids" else 0)
        for name in encoded[0].keys() | {"attention_mask"}
    }
    for i, row in enumerate(encoded):
        for name, values in {"attention_mask": [1] * len(row["input_ids"]), **row}.items():
            batch[name][i, : len(values)] = values
    return {name: on(model.device, values) for name, values in batch.items()}


def on(device: torch.device, values) -> torch.Tensor:
    """Numbers as a tensor on a device. A GPU is not waited for: it computes one batch while the next is made here."""
    tensor = torch.as_tensor(values)
    return (
        tensor.pin_memory().to(device, non_blocking=True)
        if device.type == "cuda"
        else tensor.to(device)
    )


def each(
    model,
    encoded: list[dict],
    function: Callable,
    tokens: int | None = None,
    progress: str = "",
    alike: bool = False,
) -> list:
    """function(batch, indices) for padded batches on the model's device; its rows, put back in order.
    `batch` is what the network takes; `indices` says which of `encoded` its rows are. The function returns one row
    (a tensor's row or a list's item) for each. What it does besides, it does last: where memory runs out half way it
    is called again with half of the rows. alike: a batch has texts of one length, and its mask may be left out."""
    results = [None] * len(encoded)
    tokens = tokens or TOKENS.get(model.device.type, TOKENS["cpu"])
    waiting = list(by_length([len(e["input_ids"]) for e in encoded], tokens, alike))[::-1]
    with tqdm(total=len(encoded), desc=progress, disable=not progress, leave=False) as bar:
        while waiting:
            indices = waiting.pop()
            batch = pad(model, [encoded[i] for i in indices])
            try:
                rows = function(batch, indices)
            except torch.OutOfMemoryError:
                if len(indices) == 1:
                    raise CompanionError(
                        f"One text of {batch['input_ids'].shape[1]} tokens does not fit the memory "
                        f"of {model.device}: use a smaller model, bfloat16 or --device cpu."
                    ) from None
                del batch
                torch.cuda.empty_cache()
                half = len(indices) // 2
                waiting += [indices[half:], indices[:half]]
                continue
            for i, row in zip(indices, rows, strict=True):
                results[i] = row
            bar.update(len(indices))
    return results
