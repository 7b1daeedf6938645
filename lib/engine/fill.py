"""What a model puts in a blank: the masked word of an encoder, the next word of a decoder.

Vocabulary logits are computed at the blank alone, never for the whole sequence. Prompts mark the
blank by [MASK], whatever the model's own mask token is. A decoder reads what stands before the
blank and predicts the next token.
"""

from collections.abc import Callable, Sized

import pandas as pd
import torch

from lib import CompanionError
from lib.engine import batches, hooks

BLANK = "[MASK]"


def logits_at(model, batch, rows: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """[n, vocabulary]: logits at n pairs (row, place) of the batch alone."""
    if not model.has_vocabulary_head:
        raise CompanionError(model.why_no_words)
    states = model.net.base_model(**batch).last_hidden_state
    vocabulary_head = model.anatomy.vocabulary_head(model.net)
    return vocabulary_head(states[rows, places])


def written(model, prompt: str, bos: bool | None = None) -> str:
    """The prompt as this model reads it.

    The space before the blank goes: the token of the missing word may contain it.
    """
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


def _encode(model, prompts: list[str], bos: bool | None) -> list[dict]:
    """Prompts with a blank as token ids, ready for `at_blank`."""
    prompts = batches.checked(model, prompts, "prompts")
    texts = [written(model, prompt, bos) for prompt in prompts]
    return batches.encode(model, texts, bos=bos)


def probabilities(
    model, prompts: list[str], progress: str = "", bos: bool | None = None
) -> torch.Tensor:
    """[n_prompts, vocabulary] on the CPU: p(token | prompt) at the blank.

    `bos` as in batches.encode.
    """
    encoded = _encode(model, prompts, bos)
    return torch.stack(at_blank(model, encoded, torch.Tensor.cpu, progress=progress))


def place_of_blank(model, batch) -> torch.Tensor:
    """Which token of each text is the blank, or for a decoder the last one before it."""
    if model.is_causal:
        return batch["attention_mask"].sum(1) - 1  # padding is on the right
    is_mask = batch["input_ids"] == model.tokenizer.mask_token_id
    return is_mask.int().argmax(1)


@torch.inference_mode()
def at_blank(
    model, encoded: list[dict], keep: Callable, tokens: int | None = None, progress: str = ""
) -> list:
    """What `keep` returns for each prompt's row of probabilities, in the order given.

    encoded   prompts from batches.encode, each with one mask token; for a decoder, with nothing
              after the blank
    keep      called with [n, vocabulary] on the model's device; returns a row (a row of a tensor or
              an item of a list) for each: a vocabulary of 50,000 probabilities is too much to keep
              for thousands of prompts
    tokens    padded tokens a batch; None: what suits the device
    """

    def read(batch, indices):
        rows = torch.arange(len(indices), device=model.device)
        places = place_of_blank(model, batch)
        with hooks.finish(model, places):
            p = logits_at(model, batch, rows, places).float().softmax(-1)
        return keep(batches.finite(model, p))

    return batches.each(model, encoded, read, tokens, progress)


def log_odds(model, prompts: list[str], pairs: list[tuple[str, str]], bos: bool | None = None):
    """An array: log2 of p(first) : p(second) at the blank of each prompt, for its pair of words.

    The words are read as inside a sentence, after a space.
    """
    encoded = _encode(model, prompts, bos)
    if not isinstance(pairs, Sized) or len(encoded) != len(pairs):
        raise CompanionError(
            f"There are {len(encoded)} prompts and as many pairs of words are needed: give a pair "
            "for each."
        )
    for pair in pairs:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:  # "ab" would be a and b
            raise CompanionError(f"{pair!r} is no pair of words: give two, such as ('she', 'he').")
    ids = {}
    for first, second in pairs:
        ids[first] = model.token_id(first)
        ids[second] = model.token_id(second)
    column = {word: i for i, word in enumerate(ids)}
    kept_ids = list(ids.values())

    def keep_log2(p):
        return p[:, kept_ids].double().log2().cpu()

    log_p = torch.stack(at_blank(model, encoded, keep_log2))
    row = range(len(pairs))
    first_log_p = log_p[row, [column[first] for first, _ in pairs]]
    second_log_p = log_p[row, [column[second] for _, second in pairs]]
    return (first_log_p - second_log_p).numpy()


def top(model, prompt: str, k: int = 5, bos: bool | None = None) -> pd.DataFrame:
    """The k likeliest fillers of one prompt: columns word, probability."""
    row = probabilities(model, [prompt], bos=bos)[0]
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= len(row):
        raise CompanionError(
            f"The {k} likeliest words cannot be named: ask {model.name} for 1 to {len(row)}."
        )
    values, ids = row.topk(k)
    words = [model.tokenizer.decode([i]).strip() for i in ids]
    return pd.DataFrame({"word": words, "probability": values.tolist()})


def word_probabilities(
    model, prompts: list[str], words: list[str], progress: str = "", bos: bool | None = None
) -> pd.DataFrame:
    """p(word | prompt), one row per prompt, one column per word that is a single token.

    A byte-level vocabulary has a word with and without the space before it: the place of the blank
    says which token is meant. So all prompts open with the blank, or none does.
    """
    prompts = batches.checked(model, prompts, "prompts")
    words = batches.checked(model, words, "words")
    opens = {prompt.startswith(BLANK) for prompt in prompts}
    if len(opens) != 1:
        raise CompanionError(
            "Some prompts open with the blank and some do not: ask for them one kind at a time."
        )
    is_inside = opens == {False}
    ids = [model.token_id(word, inside=is_inside) for word in words]
    p = probabilities(model, prompts, progress, bos)
    return pd.DataFrame(p[:, ids].numpy(), columns=words)
