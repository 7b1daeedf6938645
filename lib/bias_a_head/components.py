"""Where in a model gender sits: its embeddings, and the attention and the feed-forward part of each
layer, patched one at a time.

What a part gives to the stream is replaced, for all tokens, as patching.py replaces a head's
output: by zero, by its mean over all tokens, or by what it gives for the swapped text. What that
does is measured in two ways:

    SEAT    in a sentence of *queen* the part gives what it gives for the same sentence with *king*,
            and the other way round
    odds    log2 of p(she) : p(he) in a sentence about each of 58 occupations; a *nurse* gets what
            the part gives for a *mechanic*: the job with most women is paired with the one with
            fewest whose name has as many tokens, the second with the last but one, and so on

A part that is swapped keeps what others know: where the swap of one part moves the measure as much
as the swap of the embeddings, which swaps the text itself, gender sits there.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import product

import numpy as np
import torch

from lib.bias_a_head import heads, patching
from lib.bias_a_head.patching import KINDS
from lib.engine import batches, embed, fill, hooks, models
from lib.text import contexts, data


def parts(model) -> list[str]:
    """The locations of all parts, as hooks.py names them, from the bottom up."""
    named = ["embeddings"]
    for layer in range(model.n_layers):
        named += [f"attn.out.{layer}", f"ffn.out.{layer}"]
    return named


def measure_seat(
    name: str,
    sample: heads.Sample,
    device: str | None = None,
    only: Sequence[int] | None = None,
) -> dict:
    """The associations of all target words under every patch of a part.

    only   the patches to make, numbered by kind, then part: nan stands for all others
    Keys: in_x, whether a target is of X; for each kind [1 + parts, targets], of which the first row
    is the full model; sentences, how many of those with an attribute word have a counterpart as
    long, and how many there are
    """
    sets, sentences = heads.sets_and_contexts("gender", sample)
    model = models.load(name, device=device)
    pairs = [(word, sentence) for word, own in sentences.items() for sentence in own]
    encoded, _ = embed.prepare(model, pairs)
    others, n_swapped = patching.swapped_texts(model, sets, pairs, encoded)
    chosen = _chosen(model, only)
    states_of = _patched(model, encoded, others, chosen)
    n = 1 + len(chosen)
    found = heads.associations_in_each(model, sets, sentences, states_of, n).numpy()
    attributes = {*sets.A, *sets.B}
    n_attributes = sum(len(own) for word, own in sentences.items() if word in attributes)
    return {
        "in_x": np.arange(found.shape[1]) < len(sets.X),
        "sentences": np.array([n_swapped, n_attributes]),
    } | _by_kind(model, chosen, found)


measure_seat.items = lambda result: sum(result[kind][1:, 0].size for kind in KINDS)


@torch.no_grad()
def measure_odds(
    name: str, template: str = "", device: str | None = None, only: Sequence[int] | None = None
) -> dict:
    """log2 odds of *she* in a sentence about each occupation, under every patch of a part.

    template   as in contexts.pronoun_prompt
    only       as in `measure_seat`
    Keys: share, the percentage of women; for each kind [1 + parts, occupations]; partner, the place
    of each occupation's counterpart, its own where there is none of as many tokens
    """
    model = models.load(name, device=device)
    jobs = data.words("occupations")
    share = jobs.percent_women.to_numpy(float)
    prompts = [contexts.pronoun_prompt(model, job, template) for job in jobs.singular]
    encoded = batches.encode(model, [fill.written(model, prompt) for prompt in prompts])
    partner = counterparts(share, [len(one["input_ids"]) for one in encoded])
    is_inside = not prompts[0].startswith(fill.BLANK)
    words = ("she", "he") if is_inside else ("She", "He")
    ids = [model.token_id(word, inside=is_inside) for word in words]
    chosen = _chosen(model, only)
    states_of = _patched(model, encoded, [encoded[place] for place in partner], chosen)

    def odds(batch, indices):
        blanks = fill.place_of_blank(model, batch)
        rows = torch.arange(len(indices), device=model.device)
        vocabulary_head = model.anatomy.vocabulary_head(model.net)
        found = []
        for states in states_of(batch, indices):
            she, he = vocabulary_head(states[rows, blanks])[:, ids].double().T
            found.append((she - he) / math.log(2))
        return torch.stack(found, 1).cpu()

    found = torch.stack(batches.each(model, encoded, odds), 1).numpy()
    return {"share": share, "partner": partner} | _by_kind(model, chosen, found)


measure_odds.items = measure_seat.items


def counterparts(share: np.ndarray, lengths: Sequence[int]) -> np.ndarray:
    """Of each item the place of the one at the other end of those as long: most against fewest.

    share   what they are ranked by
    """
    partner = np.arange(len(share))
    for length in set(lengths):
        alike = np.flatnonzero(np.asarray(lengths) == length)
        ranked = alike[np.argsort(share[alike], kind="stable")]
        partner[ranked] = ranked[::-1]
    return partner


def _chosen(model, only: Sequence[int] | None) -> list[tuple[str, str]]:
    """(kind, part) of the patches to make; None: all."""
    every = list(product(KINDS, parts(model)))
    return every if only is None else [every[i] for i in only]


def _by_kind(model, chosen: list[tuple[str, str]], found: np.ndarray) -> dict[str, np.ndarray]:
    """Rows of the full model and of the chosen patches as {kind: [1 + parts, ...]}, else nan."""
    named = parts(model)
    kept = {}
    for kind in KINDS:
        kept[kind] = np.full((1 + len(named), found.shape[1]), np.nan, np.float32)
        kept[kind][0] = found[0]
    for (kind, part), row in zip(chosen, found[1:], strict=True):
        kept[kind][1 + named.index(part)] = row
    return kept


def _patched(model, encoded: list[dict], others: list[dict], chosen: list) -> Callable:
    """(batch, indices of its texts) -> its last states: in the full model, then under each patch.

    others   for each text the one whose outputs the patch "swapped" puts in
    """
    kinds = {kind for kind, _ in chosen}
    means = _mean_outputs(model, encoded) if "mean" in kinds else {}

    @torch.no_grad()
    def states_of(batch, indices) -> Iterator[torch.Tensor]:
        yield model.net.base_model(**batch).last_hidden_state
        with hooks.record(model, parts(model)) as seen:
            model.net.base_model(**batches.pad(model, [others[i] for i in indices]))
        swapped = dict(seen)  # what is seen below is of other forwards
        for kind, part in chosen:
            value = {"mean": means, "swapped": swapped}[kind][part] if kind != "zero" else 0.0
            with hooks.put(model, part, value):
                yield model.net.base_model(**batch).last_hidden_state

    return states_of


@torch.no_grad()
def _mean_outputs(model, encoded: list[dict]) -> dict[str, torch.Tensor]:
    """The mean of what each part gives, over all tokens of all texts."""
    total = {}
    tokens = 0

    def add(batch, indices):
        nonlocal tokens
        within = batch["attention_mask"].bool()
        with hooks.record(model, parts(model)) as seen:
            model.net.base_model(**batch)
        for location, states in seen.items():
            total[location] = total.get(location, 0) + states[within].double().sum(0)
        tokens += int(within.sum())
        return indices

    batches.each(model, encoded, add)
    return {location: summed / tokens for location, summed in total.items()}
