"""Run many texts through a model in batches, and return the results in the order given.

Texts are sorted by length, and a batch holds a fixed number of tokens. A batch that does not fit
into memory is halved and tried again. Padding changes nothing but rounding (tests/test_batches.py).
"""

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import torch
from tqdm import tqdm

from lib import CompanionError
from lib.engine import models

TOKENS = {"cpu": 4_096, "cuda": 65_536}  # padded tokens a batch: enough to keep the device busy

# cuDNN's attention makes a new plan for each shape, and batches have many: benchmarks/README.md.
torch.backends.cuda.enable_cudnn_sdp(False)


def default_tokens(device: torch.device) -> int:
    """How many padded tokens a batch holds on this device, unless the caller says otherwise."""
    return TOKENS.get(device.type, TOKENS["cpu"])


def checked(model, texts, what: str = "texts") -> list[str]:
    """The texts as a list: what asks a model about texts begins here.

    No model, no list of at least one, what is no text and letters that are no Unicode are refused.
    """
    models.check(model)
    if isinstance(texts, str) or not isinstance(texts, Iterable) or not list(texts):
        raise CompanionError(f"There are no {what}: give a list of at least one.")
    for text in texts:
        if not isinstance(text, str):
            raise CompanionError(f"{text!r} is no text among the {what}: leave it out.")
        if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
            raise CompanionError(f"{text!r} is no valid Unicode text: take the lone surrogate out.")
    return list(texts)


def finite(model, answers: torch.Tensor) -> torch.Tensor:
    """What a model answered; what is no number, since it overflowed on its way, is refused."""
    if not answers.isfinite().all():
        raise CompanionError(
            f"{model.name} answers with what are no numbers: make what masks or patches it "
            "smaller, or mend its config.json."
        )
    return answers


def encode(model, texts: list, seconds: list | None = None, bos: bool | None = None) -> list[dict]:
    """Texts, or pairs of texts, as token ids: one dict each, not yet padded.

    bos   for a decoder: whether each text begins with the beginning-of-sequence token; None leaves
          that to the tokenizer
    A text with more tokens than the model has positions is refused.
    """
    if not texts:
        return []
    encoded = model.tokenizer(texts, seconds, verbose=False)  # a text that is too long fails below
    added = opening(model, bos)
    if added:
        encoded = _reopened(encoded, added, model.tokenizer.bos_token_id)
    _check_lengths(model, texts, encoded["input_ids"])
    rows = []
    for i in range(len(texts)):
        rows.append({name: values[i] for name, values in encoded.items()})
    return rows


def _reopened(encoded: dict, added: int, bos_token_id: int) -> dict:
    """Encoded texts with one beginning token more (added = 1) or without theirs (added = -1)."""
    opening_token = {"input_ids": [bos_token_id], "attention_mask": [1]}
    changed = {}
    for name, token in opening_token.items():
        if added > 0:
            changed[name] = [token + row for row in encoded[name]]
        else:
            changed[name] = [row[1:] for row in encoded[name]]
    return changed


def _check_lengths(model, texts: list, ids: list[list[int]]):
    """Refuse texts of which the longest has more tokens than the model has positions."""
    limit = model.tokenizer.model_max_length
    longest = max(range(len(texts)), key=lambda i: len(ids[i]))
    size = len(ids[longest])
    if size > limit:
        raise CompanionError(
            f"'{texts[longest][:40]}...' has {size} tokens, more than the {limit} of {model.name}: "
            "shorten it or choose a model with more positions."
        )


def opening(model, bos: bool | None) -> int:
    """How many tokens `bos` adds before a text, compared with the tokenizer: 0, 1, or -1.

    The first position of a decoder attracts the attention of all others, and its state is unlike
    any other. Without a beginning token, this position holds the first word of the text.
    """
    if bos is None:
        return 0
    beginning = model.tokenizer.bos_token_id
    if not model.anatomy.can_open or beginning is None:
        raise CompanionError(
            f"{model.name} has no beginning token to put or leave out: leave bos out."
        )
    tokenizer_adds_it = model.tokenizer("a").input_ids[0] == beginning
    return int(bos) - int(tokenizer_adds_it)


def by_length(sizes: list[int], tokens: int, alike: bool = False) -> Iterator[list[int]]:
    """Indices of texts in batches of similar size, the longest texts first.

    Long texts come first so that a batch that is too large for the memory fails at once.
    A batch that is at least a quarter full takes no text that needs 5 % padding or more.
    alike: a batch takes no text that needs any padding.
    """
    batch = []
    longest = max(sizes, default=0)
    for i in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        is_full = (len(batch) + 1) * longest > tokens
        if alike:
            is_unlike = sizes[i] < longest
        else:
            is_quarter_full = 4 * len(batch) * longest >= tokens
            is_unlike = is_quarter_full and sizes[i] <= 0.95 * longest
        if batch and (is_full or is_unlike):
            yield batch
            batch = []
            longest = sizes[i]
        batch.append(i)
    if batch:
        yield batch


def pad(model, encoded: list[dict]) -> dict[str, torch.Tensor]:
    """One batch on the model's device, padded on the right.

    The same as the tokenizer's own `pad`, without its slow loops.
    """
    width = max(len(row["input_ids"]) for row in encoded)
    batch = {}
    for name in encoded[0].keys() | {"attention_mask"}:
        filler = model.tokenizer.pad_token_id if name == "input_ids" else 0
        batch[name] = np.full((len(encoded), width), filler)
    for i, row in enumerate(encoded):
        size = len(row["input_ids"])
        batch["attention_mask"][i, :size] = 1  # unless the row has a mask of its own
        for name, values in row.items():
            batch[name][i, : len(values)] = values
    return {name: on(model.device, values) for name, values in batch.items()}


def on(device: torch.device, values) -> torch.Tensor:
    """Numbers as a tensor on a device.

    The copy to a GPU is not waited for: it computes one batch while the next one is prepared here.
    """
    tensor = torch.as_tensor(values)
    if device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def each(
    model,
    encoded: list[dict],
    function: Callable,
    tokens: int | None = None,
    progress: str = "",
    alike: bool = False,
) -> list:
    """Call function(batch, indices) on padded batches; return its rows in the order of `encoded`.

    function   `batch` is what the network takes, on the model's device, and `indices` says which of
               `encoded` its rows are. It returns one row for each: a row of a tensor or an item of
               a list. Side effects belong at its end, since it is called again, with half of the
               rows, when memory runs out half way.
    tokens     padded tokens a batch; None: what suits the device
    alike      a batch holds texts of one length only, so that its attention mask may be left out
    """
    results = [None] * len(encoded)
    sizes = [len(row["input_ids"]) for row in encoded]
    waiting = list(by_length(sizes, tokens or default_tokens(model.device), alike))
    waiting.reverse()  # a stack: the longest texts are taken first
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
