"""What 76 models make of the triples, under seven fits of the gender subspaces: the measurement of notebook 08.

    found = run.cached(projection_fits.measure, "mini-bert", "mini")

A fit is one choice of what Projective methods leaves open: the sentence pairs, centring, refitting. The first of them,
WRITTEN, is the one that notebook 08's tables show.
"""

import numpy as np
import pandas as pd
import torch

from lib.engine import batches, models, nsp
from lib.projective import projection, stereoset
from lib.text import pairs as sentence_pairs

WRITTEN = "written pairs"


def fits(model, data: str = "mini", seed: int = 0) -> dict[str, projection.Subspaces]:
    """The subspaces under each choice, by name. All but `refitted` are fitted on the untouched model."""
    written, natural = sentence_pairs.written(), sentence_pairs.natural(data)
    order = np.random.default_rng(seed).permutation(len(written))
    halves = [[written[i] for i in sorted(half)] for half in np.array_split(order, 2)]
    chosen = {WRITTEN: (written, {}), "half of them": (halves[0], {}), "the other half": (halves[1], {}),
              "natural sentences": (natural, {}), "the triples' contexts": (sentence_pairs.contexts(data), {}),
              "centred": (written, {"center": True}), "refitted": (written, {"refit": True})}
    return {name: projection.fit(model, pairs, natural=natural, **how) for name, (pairs, how) in chosen.items()}


def measure(name: str, data: str = "mini", seed: int = 0, device=None) -> dict:
    """s, d and accuracy of every triple pair under all fits and models: arrays [fits, 76, triple pairs].

    accuracy: how many of a pair's six sentences are called right at .5; besides, the first subspaces' explained
    variance and how far the others' agree with them, as tables.
    """
    model, rows = models.load(name, device=device), stereoset.triples(data)
    subspaces = fits(model, data, seed)
    encoded = batches.encode(model, *(list(side) for side in zip(*stereoset.pairs(rows))))
    logits = projection.sweeps(model, list(subspaces.values()), projection.models(), encoded, projection.head(model),
                               progress="76 models")
    follows = logits.softmax(-1)[..., 0].numpy()
    places = stereoset.frame(rows, np.arange(follows.shape[-1]))  # where each probability of a triple pair stands
    frame = {column: follows[..., places[column].astype(int)] for column in nsp.COLUMNS}
    right = np.mean([(frame[column] > .5) != column.endswith("unrelated") for column in nsp.COLUMNS], axis=0)
    return {"fits": list(subspaces), "s": nsp.strengths(frame), "d": nsp.distances(frame), "accuracy": right,
            "explained": explained(subspaces), "cosines": cosines(subspaces)}


def explained(subspaces: dict[str, projection.Subspaces]) -> pd.DataFrame:
    """Share of variance by fit, part, head (from 1; 0 where there are none) and component (from 1)."""
    plain = [(fit, part, one) for fit, found in subspaces.items() for (part, before), one in found.parts.items()
             if before == projection.BASE]
    rows = [(fit, part, head, component, share) for fit, part, one in plain
            for head, shares in enumerate(torch.atleast_2d(one.explained).tolist(), int(part in "qkv"))
            for component, share in enumerate(shares, 1)]
    return pd.DataFrame(rows, columns=["fit", "part", "head", "component", "share"])


def cosines(subspaces: dict[str, projection.Subspaces]) -> pd.DataFrame:
    """|cosine| of each fit's first component with that of the first fit: a row a fit, a column a part.

    At attention the mean over heads. Refitted ones are left out: before any projection they are the same.
    """
    first, *others = [(name, found) for name, found in subspaces.items() if not found.refitted]

    def agreement(part, found):
        products = found.of(part).basis * first[1].of(part).basis
        return products[..., 0, :].sum(-1).abs().mean().item()

    parts = ["q", "k", "v", "tokens", "cls", "sent"]
    return pd.DataFrame({name: {part: agreement(part, found) for part in parts} for name, found in others}).T
