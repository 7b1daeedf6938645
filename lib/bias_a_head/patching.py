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
from collections.abc import Sequence
from itertools import product

import numpy as np
import torch

from lib.bias_a_head import heads, masking
from lib.engine import batches, embed, hooks, models
from lib.text import data

KINDS = ("zero", "mean", "swapped")
Patch = tuple[str, int, int]  # one of KINDS, layer and head, both from 0


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
    every = list(product(KINDS, range(model.n_layers), range(model.n_heads)))
    wanted = range(2 * len(every)) if only is None else only
    n_targets = len(sets.X) + len(sets.Y)
    s = np.full((len(KINDS), 2, 1 + len(every) // len(KINDS), n_targets), np.nan, np.float32)
    n_swapped = [0, 0]
    for half, sentences in enumerate(halves):
        patches = [every[i % len(every)] for i in wanted if i // len(every) == half]
        if patches:
            found, n_swapped[half] = of_half(model, sets, sentences, patches)
            s[:, half, 0] = found[0]
            for (kind, layer, head), row in zip(patches, found[1:], strict=True):
                s[KINDS.index(kind), half, 1 + layer * model.n_heads + head] = row
    result = dict(zip(KINDS, s))
    if only is not None:
        return result
    gradient = [heads.bias_scores(model, sets, half).scores.numpy() for half in halves]
    return result | {
        "in_x": np.arange(n_targets) < len(sets.X),
        "gradient": np.stack(gradient),
        "sentences": np.array([sum(map(len, half.values())) for half in halves]),
        "swapped_sentences": np.array(n_swapped),
    }


measure.items = lambda result: sum(result[kind][:, 1:, 0].size for kind in KINDS)


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
    patches: Sequence[Patch],
) -> tuple[np.ndarray, int]:
    """Associations [1 + patches, targets], of the full model first; how many texts were swapped."""
    pairs = [(word, sentence) for word, own in contexts.items() for sentence in own]
    encoded, _ = embed.prepare(model, pairs)
    others, n_swapped = swapped_texts(model, sets, pairs, encoded)
    kinds = {kind for kind, _, _ in patches}
    mean = mean_outputs(model, encoded) if "mean" in kinds else None

    def states_of(batch, indices):
        entering, states = heads.entered(model, batch)
        yield states
        if "swapped" in kinds:
            swapped = outputs(model, batches.pad(model, [others[i] for i in indices]))
        for kind, layer, head in patches:
            if kind == "swapped":
                value = swapped[layer][:, :, head]
            else:
                value = mean[layer, head] if kind == "mean" else 0.0
            resumed = hooks.resume(model, layer, entering[layer])
            with resumed, hooks.patch(model, layer, head, value):
                states = model.net.base_model(**batch).last_hidden_state
            yield states

    found = heads.associations_in_each(model, sets, contexts, states_of, 1 + len(patches))
    return found.numpy(), n_swapped


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
    for own, other in zip(encoded, swapped, strict=True):
        is_as_long = len(own["input_ids"]) == len(other["input_ids"])
        texts.append(other if is_as_long else own)
    is_swapped = [own["input_ids"] != text["input_ids"] for own, text in zip(encoded, texts)]
    return texts, sum(is_swapped)


def outputs(model, batch: dict) -> list[torch.Tensor]:
    """The output of all heads of each layer, [batch, tokens, heads, head size]."""
    names = [f"attn.out.{layer}" for layer in range(model.n_layers)]
    with hooks.record(model, names) as seen:
        model.net.base_model(**batch)
    return [seen[name] for name in names]


@torch.no_grad()
def mean_outputs(model, encoded: list[dict]) -> torch.Tensor:
    """[layers, heads, head size]: the mean output of each head over all tokens of all sentences."""
    total = 0.0
    tokens = 0

    def add(batch, indices):
        nonlocal total, tokens
        within = batch["attention_mask"].to(torch.float64)[:, :, None, None]
        of_layers = torch.stack(outputs(model, batch))  # [layers, batch, tokens, heads, size]
        total = total + (of_layers * within).sum((1, 2)).cpu()
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
