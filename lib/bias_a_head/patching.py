"""What each head does to SEAT, by exact patching: beside the gradient, which only predicts it.

A head's output is replaced, for all tokens, and SEAT is measured again. What it is replaced by says
what is taken away:

    zero      the head itself, as the paper masks it
    mean      what depends on the text: its mean output over all tokens of all sentences is put in
    swapped   what tells a female attribute word from its male counterpart: in a sentence of *queen*
              it gets its output for the same sentence with *king*, and the other way round;
              sentences of target words are left alone, and so are those that the swap makes longer

One forward a head and batch, begun at the head's layer from the full model's states. The gradient
score is the first-order guess at these (attribution patching; Kramar et al., AtP*, arXiv 2403.00745).
"""

import re

import numpy as np
import torch

from lib.bias_a_head import heads, masking, seat
from lib.engine import batches, embed, hooks, models
from lib.text import data

KINDS = ("zero", "mean", "swapped")


def measure(
    name: str, source: str, n: int, folds: int, seed: int = 0, items: int = 0, device=None
) -> dict:
    """The associations of all target words under every patch, on either half of the sentences.

    n, folds, seed   of the sentences, as in heads.measure: the halves are those of masking.halves,
                     so that heads chosen on one half can be judged on the other
    Keys: in_x, whether a target is of X; for each kind of patch s, [2 halves, 1 + heads, targets],
    of which the first row is the full model; gradient [2 halves, layers, heads]; sentences [2];
    swapped_sentences [2], how many sentences of attribute words have a counterpart as long
    """
    sets, sentences = heads.sets_and_contexts("gender", source, n, seed, items=items)
    model = models.load(name, device=device)
    halves = [masking.sentences_of(half, sentences, folds, n) for half in (0, 1)]
    sets = sets.only({word for word in sentences if all(own[word] for own in halves)})
    halves = [{word: own[word] for word in sets.words} for own in halves]
    found = [of_half(model, sets, own) for own in halves]
    result = {kind: np.stack([one[kind] for one in found]).astype(np.float32) for kind in KINDS}
    return result | {
        "in_x": np.arange(len(sets.X) + len(sets.Y)) < len(sets.X),
        "gradient": np.stack(
            [heads.bias_scores(model, sets, own).scores.numpy() for own in halves]
        ),
        "sentences": np.array([sum(map(len, own.values())) for own in halves]),
        "swapped_sentences": np.array([one["swapped_sentences"] for one in found]),
    }


@torch.no_grad()
def of_half(model, sets: heads.Sets, contexts: dict[str, list[str]], progress: str = "") -> dict:
    """{kind of patch: associations [1 + heads, targets]}, and how many sentences were swapped."""
    row, count = embed.rows(contexts)
    pairs = [(word, sentence) for word, own in contexts.items() for sentence in own]
    encoded, places = embed.prepare(model, pairs)
    other_half = counterparts(sets)
    swapped, _ = embed.prepare(
        model, [swap(word, sentence, other_half) for word, sentence in pairs]
    )
    lengths = [len(one["input_ids"]) for one in encoded]
    can_swap = torch.tensor(
        [
            len(other["input_ids"]) == length and other["input_ids"] != one["input_ids"]
            for one, other, length in zip(encoded, swapped, lengths, strict=True)
        ]
    )
    mean = mean_outputs(model, encoded)
    shape = 1 + model.n_layers * model.n_heads, len(contexts), model.net.config.hidden_size
    total = {kind: torch.zeros(shape, dtype=torch.float64) for kind in KINDS}

    def patched(batch, indices):
        here = [places[i] for i in indices]
        length = batch["input_ids"].shape[1]
        # a text that is left alone gets its own output: the patch changes nothing there
        others = [swapped[i] if can_swap[i] else encoded[i] for i in indices]
        other = batches.pad(model, others)
        assert other["input_ids"].shape[1] == length
        own = {kind: torch.zeros_like(total[kind]) for kind in KINDS}
        outputs, entering, states = everything(model, batch)
        counterpart = everything(model, other)[0]
        for kind in KINDS:
            own[kind][0].index_add_(0, row[indices], embed.pool(states, here).cpu().double())
        for layer in range(model.n_layers):
            for head in range(model.n_heads):
                values = {
                    "zero": 0.0,
                    "mean": mean[layer, head],
                    "swapped": counterpart[layer][:, :, head],
                }
                for kind, value in values.items():
                    with (
                        hooks.resume(model, layer, entering[layer]),
                        hooks.patch(model, layer, head, value),
                    ):
                        states = model.net.base_model(**batch).last_hidden_state
                    at = 1 + layer * model.n_heads + head
                    own[kind][at].index_add_(
                        0, row[indices], embed.pool(states, here).cpu().double()
                    )
        for kind in KINDS:  # last: a batch that does not fit is tried again in halves
            total[kind].add_(own[kind])
        return indices

    batches.each(model, encoded, patched, progress=progress)
    result = {
        kind: associations(sets, vectors / count[:, None], list(contexts))
        for kind, vectors in total.items()
    }
    return result | {"swapped_sentences": int(can_swap.sum())}


def everything(model, batch) -> tuple[list[torch.Tensor], list[torch.Tensor], torch.Tensor]:
    """Of one forward: each layer's head outputs, what enters each layer, and the last states."""
    outputs = [f"attn.out.{layer}" for layer in range(model.n_layers)]
    entries = ["embeddings", *(f"layer.{layer}" for layer in range(model.n_layers - 1))]
    with hooks.record(model, outputs + entries) as seen:
        states = model.net.base_model(**batch).last_hidden_state
    return [seen[name] for name in outputs], [seen[name] for name in entries], states


@torch.no_grad()
def mean_outputs(model, encoded: list[dict]) -> torch.Tensor:
    """[layers, heads, head size]: the mean output of each head over all tokens of all sentences."""
    total, tokens = 0.0, 0

    def add(batch, indices):
        nonlocal total, tokens
        within = batch["attention_mask"].to(torch.float64)[:, :, None, None]
        outputs = torch.stack(everything(model, batch)[0])  # [layers, batch, tokens, heads, size]
        total = total + (outputs * within).sum((1, 2)).cpu()
        tokens += int(within.sum())
        return indices

    batches.each(model, encoded, add)
    return total / tokens


def swap(word: str, sentence: str, counterparts: dict[str, str]) -> tuple[str, str]:
    """An attribute word's counterpart in the same sentence; another word and its sentence as they are."""
    other = counterparts.get(word)
    if other is None:
        return word, sentence
    first, last = embed.find(word, sentence)
    written = other.capitalize() if sentence[first].isupper() else other
    return other, sentence[:first] + written + sentence[last:]


def counterparts(sets: heads.Sets) -> dict[str, str]:
    """{attribute word: the other half of its pair}; of a word in several pairs, of the first."""
    known = {}
    for pair in data.rows("gender_pairs"):
        female, male = pair["female"], pair["male"]
        if re.fullmatch(r"[\w.' -]+", female + male):
            known.setdefault(female, male)
            known.setdefault(male, female)
    return {word: other for word, other in known.items() if word in sets.A or word in sets.B}


def associations(sets: heads.Sets, vectors: torch.Tensor, words: list[str]) -> np.ndarray:
    """s of each target word, X first, from word vectors [patches, words, width]: [patches, targets]."""
    rows = []
    for of_patch in vectors:
        x, y, a, b = sets.of(of_patch, words)
        rows.append(seat.associations(torch.cat([x, y]), a, b))
    return torch.stack(rows).numpy()
