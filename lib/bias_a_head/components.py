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

from collections.abc import Iterator, Sequence
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
    row, count = embed.rows(sentences)
    pairs = [(word, sentence) for word, own in sentences.items() for sentence in own]
    encoded, places = embed.prepare(model, pairs)
    others, n_swapped = patching.swapped_texts(model, sets, pairs, encoded)
    shape = len(KINDS), 1 + len(parts(model)), len(sentences), model.net.config.hidden_size
    total = torch.zeros(shape, dtype=torch.float64)

    def add(batch, indices, found):
        here = [places[i] for i in indices]
        added = torch.zeros_like(total)
        for kind, part, states in found:
            vectors = embed.pool(states, here).cpu().double()
            added[kind, part].index_add_(0, row[indices], vectors)
        total.add_(added)  # last: a batch that does not fit is tried again in halves

    _under_each(model, encoded, others, add, only)
    result = {"in_x": np.arange(len(sets.X) + len(sets.Y)) < len(sets.X)}
    for kind, vectors in zip(KINDS, total / count[:, None]):
        found = patching.associations(sets, vectors, list(sentences))
        result[kind] = np.where(vectors.numpy().any((1, 2))[:, None], found, np.nan)
    attributes = {*sets.A, *sets.B}
    n_attributes = sum(len(own) for word, own in sentences.items() if word in attributes)
    return result | {"sentences": np.array([n_swapped, n_attributes])}


measure_seat.items = lambda result: sum(result[kind][1:, 0].size for kind in KINDS)


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
    others = [encoded[place] for place in partner]
    is_inside = not prompts[0].startswith(fill.BLANK)
    words = ("she", "he") if is_inside else ("She", "He")
    ids = [model.token_id(word, inside=is_inside) for word in words]
    odds = np.full((len(KINDS), 1 + len(parts(model)), len(jobs)), np.nan)

    def keep(batch, indices, found):
        rows = torch.arange(len(indices), device=model.device)
        blanks = fill.place_of_blank(model, batch)
        head = model.anatomy.vocabulary_head(model.net)
        for kind, part, states in found:
            she, he = head(states[rows, blanks])[:, ids].double().T
            odds[kind, part, indices] = ((she - he) / np.log(2)).cpu().numpy()

    _under_each(model, encoded, others, keep, only)
    return {"share": share, "partner": partner} | dict(zip(KINDS, odds.astype(np.float32)))


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


@torch.no_grad()
def _under_each(model, encoded: list[dict], others: list[dict], use, only=None):
    """Call use(batch, indices, found) on all texts; `found` yields (kind, part, last states).

    Kinds are numbered as in KINDS, parts from 1: part 0 is the full model.
    """
    every = list(product(range(len(KINDS)), range(len(parts(model)))))
    chosen = every if only is None else [every[i] for i in only]
    means = _mean_outputs(model, encoded)

    def under(batch, indices):
        other = batches.pad(model, [others[i] for i in indices])
        use(batch, indices, _patched(model, batch, other, means, chosen))
        return indices

    batches.each(model, encoded, under)


def _patched(model, batch, other, means: dict, chosen) -> Iterator[tuple[int, int, torch.Tensor]]:
    """(kind, part, last states): the full model of each kind, then each patch."""
    named = parts(model)
    states = model.net.base_model(**batch).last_hidden_state
    for kind in range(len(KINDS)):
        yield kind, 0, states
    with hooks.record(model, named) as swapped:
        model.net.base_model(**other)
    swapped = dict(swapped)  # what is recorded below is of other forwards
    for kind, part in chosen:
        location = named[part]
        value = {"zero": 0.0, "mean": means[location], "swapped": swapped[location]}[KINDS[kind]]
        with hooks.put(model, location, value):
            yield kind, 1 + part, model.net.base_model(**batch).last_hidden_state


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
