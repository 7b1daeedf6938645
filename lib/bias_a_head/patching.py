"""What each head does to SEAT, by exact patching: beside the gradient, which only predicts it.

A head's output is replaced, for all tokens, and SEAT is measured again. What it is replaced by says
what is taken away:

    zero      the head itself, as the paper masks it
    mean      what depends on the text: its mean output over all tokens of all sentences is put in
    swapped   what tells a female attribute word from its male counterpart: in a sentence of *queen*
              it gets its output for the same sentence with *king*, and the other way round;
              sentences of target words are left alone, and so are those that the swap makes longer

It takes one forward pass per head and batch, begun at the head's layer from the full model's
states. The gradient score is the first-order estimate of the patch "zero" (attribution patching;
Kramar et al., AtP*, arXiv 2403.00745).
"""

import re
from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
import torch

from lib.bias_a_head import heads, masking, seat
from lib.engine import batches, embed, hooks, models
from lib.text import data

KINDS = ("zero", "mean", "swapped")


def arguments(run, name: str) -> tuple[str, heads.Sample]:
    """The arguments of `measure` for a run: the words and sentences of the head scores."""
    _, _, sample = heads.arguments(run, name, "gender")
    return name, sample


def measure(
    name: str,
    sample: heads.Sample,
    device: str | None = None,
    only: Sequence[int] | None = None,
) -> dict:
    """The associations of all target words under every patch, on either half of the sentences.

    sample   the halves of its folds are those of masking.halves, so that heads chosen on one half
             can be judged on the other
    only     the patches to make, each a (half, kind, head) by its number: nan stands for all
             others, and gradients and counts are left out
    Keys: in_x, whether a target is of X; for each kind of patch s, [2 halves, 1 + heads, targets],
    of which the first row is the full model; gradient [2 halves, layers, heads]; sentences [2];
    swapped_sentences [2], how many sentences of attribute words have a counterpart as long
    """
    sets, contexts = heads.sets_and_contexts("gender", sample)
    model = models.load(name, device=device)
    sets, halves = masking.in_halves(sets, contexts, sample.folds, sample.contexts)
    n_heads = model.n_layers * model.n_heads
    if only is not None:
        return _some(model, sets, halves, np.unravel_index(only, (2, len(KINDS), n_heads)))
    found = [of_half(model, sets, half) for half in halves]
    gradient = [heads.bias_scores(model, sets, half).scores.numpy() for half in halves]
    result = {
        "in_x": np.arange(len(sets.X) + len(sets.Y)) < len(sets.X),
        "gradient": np.stack(gradient),
        "sentences": np.array([sum(map(len, half.values())) for half in halves]),
        "swapped_sentences": np.array([one["swapped_sentences"] for one in found]),
    }
    for kind in KINDS:
        result[kind] = np.stack([one[kind] for one in found]).astype(np.float32)
    return result


measure.items = lambda result: sum(result[kind][:, 1:, 0].size for kind in KINDS)


def _some(model, sets: heads.Sets, halves: list[dict], chosen) -> dict[str, np.ndarray]:
    """Some patches in the layout of `measure`; chosen: (halves, kinds, heads), all from 0."""
    shape = 2, 1 + model.n_layers * model.n_heads, len(sets.X) + len(sets.Y)
    result = {kind: np.full(shape, np.nan) for kind in KINDS}
    for half, kind, head in np.transpose(chosen):
        found = of_half(model, sets, halves[half], only=(KINDS[kind], *divmod(head, model.n_heads)))
        result[KINDS[kind]][half, [0, 1 + head]] = found[KINDS[kind]]
    return result


def falls(result: dict, kind: str = "zero") -> np.ndarray:
    """[2 halves, layers, heads]: by how much |SEAT| falls when a head is patched.

    result   what `measure` returns
    """
    in_x = result["in_x"]
    rows = []
    for s in result[kind].astype(float):  # [1 + heads, targets]; the full model first
        sizes = np.array([masking.seat_of(of_patch, in_x) for of_patch in s])
        rows.append(sizes[0] - sizes[1:])
    return np.reshape(rows, result["gradient"].shape)


@torch.no_grad()
def of_half(
    model,
    sets: heads.Sets,
    contexts: dict[str, list[str]],
    progress: str = "",
    only: tuple[str, int, int] | None = None,
) -> dict:
    """{kind of patch: associations [1 + heads, targets]}, and how many sentences were swapped.

    only   (kind, layer, head), both from 0: the one patch to make; its rows are the full model's
           and its own
    """
    row, count = embed.rows(contexts)
    pairs = [(word, sentence) for word, own in contexts.items() for sentence in own]
    encoded, places = embed.prepare(model, pairs)
    others, n_swapped = swapped_texts(model, sets, pairs, encoded)
    mean = None if only and only[0] != "mean" else mean_outputs(model, encoded)
    shape = 1 + model.n_layers * model.n_heads, len(contexts), model.net.config.hidden_size
    total = {kind: torch.zeros(shape, dtype=torch.float64) for kind in KINDS}

    def add_patched(batch, indices):
        here = [places[i] for i in indices]
        other = batches.pad(model, [others[i] for i in indices])
        assert other["input_ids"].shape == batch["input_ids"].shape
        found = {kind: torch.zeros_like(total[kind]) for kind in KINDS}
        for kind, place, states in patched_states(model, batch, other, mean, only):
            vectors = embed.pool(states, here).cpu().double()
            found[kind][place].index_add_(0, row[indices], vectors)
        for kind in KINDS:  # last: a batch that does not fit is tried again in halves
            total[kind].add_(found[kind])
        return indices

    batches.each(model, encoded, add_patched, progress=progress)
    result = {"swapped_sentences": n_swapped}
    wanted = [0, 1 + only[1] * model.n_heads + only[2]] if only else slice(None)
    for kind, vectors in total.items():
        result[kind] = associations(sets, vectors[wanted] / count[:, None], list(contexts))
    return result


def swapped_texts(
    model, sets: heads.Sets, pairs: list[tuple[str, str]], encoded: list[dict]
) -> tuple[list[dict], int]:
    """The text whose head outputs the patch "swapped" puts in, for each; and how many are swapped.

    A text that is left alone gets its own outputs, which change nothing: that of a target word, and
    one that the swap makes longer or shorter.
    """
    known = counterparts(sets)
    swapped, _ = embed.prepare(model, [swap(word, sentence, known) for word, sentence in pairs])
    texts = []
    n_swapped = 0
    for own, other in zip(encoded, swapped, strict=True):
        is_as_long = len(own["input_ids"]) == len(other["input_ids"])
        if is_as_long and own["input_ids"] != other["input_ids"]:
            texts.append(other)
            n_swapped += 1
        else:
            texts.append(own)
    return texts, n_swapped


def patched_states(
    model, batch: dict, other: dict, mean: torch.Tensor | None, only: tuple | None = None
) -> Iterator[tuple[str, int, torch.Tensor]]:
    """(kind of patch, place, last states): the full model at place 0, then each head patched.

    other  the texts whose head outputs the patch "swapped" puts in
    mean   [layers, heads, head size], which the patch "mean" puts in
    only   (kind, layer, head): the one patch to make
    """
    _, entering, states = everything(model, batch)
    counterpart = None
    if not only or only[0] == "swapped":
        counterpart, _, _ = everything(model, other)
    for kind in KINDS:
        yield kind, 0, states
    every = product(KINDS, range(model.n_layers), range(model.n_heads))
    for kind, layer, head in [only] if only else every:
        if kind == "swapped":
            value = counterpart[layer][:, :, head]
        else:
            value = mean[layer, head] if kind == "mean" else 0.0
        with hooks.resume(model, layer, entering[layer]), hooks.patch(model, layer, head, value):
            states = model.net.base_model(**batch).last_hidden_state
        yield kind, 1 + layer * model.n_heads + head, states


def everything(model, batch) -> tuple[list[torch.Tensor], list[torch.Tensor], torch.Tensor]:
    """Of one forward: each layer's head outputs, what enters each layer, and the last states."""
    outputs = [f"attn.out.{layer}" for layer in range(model.n_layers)]
    entries = ["embeddings"]
    entries += [f"layer.{layer}" for layer in range(model.n_layers - 1)]
    with hooks.record(model, outputs + entries) as seen:
        states = model.net.base_model(**batch).last_hidden_state
    return [seen[name] for name in outputs], [seen[name] for name in entries], states


@torch.no_grad()
def mean_outputs(model, encoded: list[dict]) -> torch.Tensor:
    """[layers, heads, head size]: the mean output of each head over all tokens of all sentences."""
    total = 0.0
    tokens = 0

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
    """An attribute word's counterpart in the same sentence; any other word as it is."""
    other = counterparts.get(word)
    if other is None:
        return word, sentence
    first, last = embed.find(word, sentence)
    written = other.capitalize() if sentence[first].isupper() else other
    return other, sentence[:first] + written + sentence[last:]


def counterparts(sets: heads.Sets) -> dict[str, str]:
    """{attribute word: the other word of its pair}; of a word in several pairs, of the first."""
    known = {}
    for pair in data.rows("gender_pairs"):
        female, male = pair["female"], pair["male"]
        if re.fullmatch(r"[\w.' -]+", female + male):
            known.setdefault(female, male)
            known.setdefault(male, female)
    return {word: other for word, other in known.items() if word in sets.A or word in sets.B}


def associations(sets: heads.Sets, vectors: torch.Tensor, words: list[str]) -> np.ndarray:
    """s of each target word, X first, [patches, targets], from vectors [patches, words, width]."""
    rows = []
    for of_patch in vectors:
        x, y, a, b = sets.of(of_patch, words)
        rows.append(seat.associations(torch.cat([x, y]), a, b))
    return torch.stack(rows).numpy()
