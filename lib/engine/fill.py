"""What a model puts in a blank: the masked word of an encoder, the next word of a decoder.

One vocabulary row per prompt is computed, never the whole sequence's. Prompts mark the blank with [MASK] whatever the
model's own mask token is; a decoder reads what stands before the blank and is asked for the next token."""

from collections.abc import Callable

import torch

from lib import CompanionError, Lazy
from lib.engine import batches, hooks

pd = Lazy("pandas")  # what only measures needs none
BLANK = "[MASK]"


def logits_at(model, batch, rows: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Vocabulary logits at chosen places alone: [n, vocabulary] for n pairs (row, place) of the batch."""
    states = model.net.base_model(**batch).last_hidden_state
    return model.anatomy.vocabulary_head(model.net)(states[rows, places])


def written(model, prompt: str, bos: bool | None = None) -> str:
    """The prompt as this model reads it. The space before a blank is the missing word's own: its token may hold it."""
    if not isinstance(prompt, str):
        raise CompanionError(f"{prompt!r} is no prompt: give a text with one {BLANK}.")
    if not prompt.isprintable() and any("\ud800" <= letter <= "\udfff" for letter in prompt):
        raise CompanionError(f"{prompt!r} is no valid Unicode text: take the lone surrogate out.")
    if prompt.count(BLANK) != 1:
        raise CompanionError(
            f"'{prompt}' needs exactly one {BLANK}: put it where the word is wanted."
        )
    own = model.tokenizer.mask_token
    if own and own != BLANK and own in prompt:
        raise CompanionError(
            f"'{prompt}' has the model's own mask token {own} beside {BLANK}: write {BLANK} alone."
        )
    before, after = prompt.split(BLANK)
    if not model.is_causal:
        return before.rstrip() + model.mask_token + after
    if not before.strip() and not bos:
        raise CompanionError(
            f"{model.name} reads from left to right and cannot fill the first word of '{prompt}': "
            "put the blank later, or say bos=True."
        )
    return before.rstrip()


def probabilities(
    model, prompts: list[str], progress: str = "", bos: bool | None = None
) -> torch.Tensor:
    """p(token | prompt) at the blank: [n_prompts, vocabulary], on the CPU; bos: as batches.encode has it."""
    if not prompts or isinstance(prompts, str):
        raise CompanionError("There are no prompts: give a list of at least one.")
    encoded = batches.encode(model, [written(model, prompt, bos) for prompt in prompts], bos=bos)
    return torch.stack(at_blank(model, encoded, torch.Tensor.cpu, progress=progress))


@torch.inference_mode()
def at_blank(
    model, encoded: list[dict], keep: Callable, tokens: int | None = None, progress: str = ""
) -> list:
    """What `keep` makes of each prompt's row of probabilities, in the order given.

    encoded   prompts from batches.encode, each with one mask token, or for a decoder with nothing after the blank
    keep      called with [n, vocabulary] on the model's device, returns a row (a tensor's, or a list's item) for each:
              a vocabulary of 50,000 is too much to keep for thousands of prompts"""

    def read(batch, indices):
        rows = torch.arange(len(indices), device=model.device)
        if model.is_causal:
            places = batch["attention_mask"].sum(1) - 1  # padding is on the right
        else:
            places = (batch["input_ids"] == model.tokenizer.mask_token_id).int().argmax(1)
        with hooks.finish(model, places):
            return keep(logits_at(model, batch, rows, places).float().softmax(-1))

    return batches.each(model, encoded, read, tokens, progress)


def log_odds(model, prompts: list[str], pairs: list[tuple[str, str]], bos: bool | None = None):
    """log2 p(first) : p(second) at the blank of each prompt, for its own pair of words inside a sentence: an array."""
    if not len(prompts) or isinstance(prompts, str) or len(prompts) != len(pairs):
        raise CompanionError(
            f"There are {len(prompts)} prompts and {len(pairs)} pairs of words: give a list of "
            "at least one prompt, and a pair for each."
        )
    ids = {word: model.token_id(word) for pair in pairs for word in pair}
    place, columns = {word: i for i, word in enumerate(ids)}, list(ids.values())
    encoded = batches.encode(model, [written(model, prompt, bos) for prompt in prompts], bos=bos)
    rows = torch.stack(at_blank(model, encoded, lambda p: p[:, columns].double().log2().cpu()))
    first, second = (
        rows[range(len(pairs)), [place[pair[side]] for pair in pairs]] for side in (0, 1)
    )
    return (first - second).numpy()


def top(model, prompt: str, k: int = 5, bos: bool | None = None):
    """The k likeliest fillers of one prompt, a DataFrame: columns word, probability."""
    row = probabilities(model, [prompt], bos=bos)[0]
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= len(row):
        raise CompanionError(
            f"The {k} likeliest words cannot be named: ask {model.name} for 1 to {len(row)}."
        )
    values, ids = row.topk(k)
    return pd.DataFrame(
        {"word": [model.tokenizer.decode([i]).strip() for i in ids], "probability": values.tolist()}
    )


def word_probabilities(
    model, prompts: list[str], words: list[str], progress: str = "", bos: bool | None = None
):
    """p(word | prompt) for words the vocabulary holds whole, a DataFrame: one row per prompt, one column per word.
    A byte-level vocabulary knows a word with and without the space before it: the blank's place says which is meant."""
    opens = {prompt.startswith(BLANK) for prompt in prompts}
    if len(opens) != 1:
        raise CompanionError(
            "Some prompts open with the blank and some do not: ask for them one kind at a time."
        )
    ids = [model.token_id(word, inside=opens == {False}) for word in words]
    return pd.DataFrame(probabilities(model, prompts, progress, bos)[:, ids].numpy(), columns=words)
