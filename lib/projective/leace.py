"""LEACE: a concept erased linearly, a later baseline beside the 74 projections.

Belrose et al. 2023, arXiv 2306.03819. Of all affine maps after which no linear classifier tells
the classes of a concept better than a constant does, it is the one that changes the
representations least. Of a concept with two classes it moves x along g, the direction from one
class mean to the other, of length 1:

    r(x) = x - <read, x - mean> g,     read = S g / <g, S g>

where S is the inverse of the representations' covariance. (The paper writes x - W^+ P W (x - mean)
for any number of classes.)

    eraser = leace.estimate(states, is_female).eraser
    erased = eraser(states)
    erasers = leace.fit(model, leace.many_contexts())     as projection.fit gives its subspaces
    with hooks.project(model, erasers.interventions(leace.SETTINGS[Level.LAYER_12])): ...

Erasers act where the paper's projections act (projection.py), and are three more settings of the
same sweep: SENT; Layer 12, which includes SENT; Layer 11, which includes both. As in the paper on
LEACE, each is fitted on what the erasers before it leave.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd
import scipy.linalg
import torch
from sklearn.covariance import ledoit_wolf

from lib import CompanionError
from lib.engine import hooks, models as registry, stats
from lib.engine.batches import each, encode
from lib.projective import nli, projection, triples
from lib.projective.projection import BASE, Cut, Level, Setting, Subspaces
from lib.text import contexts as word_contexts, data as sources, factual, pairs as sentence_pairs

WHOLE = Cut(weighted=False)  # an eraser takes out all of a concept
SETTINGS = {
    Level.SENT: Setting(sent=WHOLE),
    Level.LAYER_12: Setting(cls=WHOLE, sent=WHOLE),
    Level.LAYER_11: Setting(tokens=WHOLE, cls=WHOLE, sent=WHOLE),
}
MODELS = [BASE, *SETTINGS.values()]  # that are measured
NAMES = ["Base", *[f"LEACE, {level}" for level in SETTINGS]]
MANY = "many contexts"  # what the erasers of notebook 08 are fitted on
PER_WORD = 4  # sentences of each gender word
# Covariances below this share of the standard deviations are rounding errors of 32-bit states.
NOTHING = 1e-6


# ---- the eraser
@dataclass(frozen=True, eq=False, kw_only=True)
class Eraser(hooks.Projection):
    """h - <h - mean, read> g: an oblique affine projection, for `hooks.project`.

    basis   g, along which h is moved, [1, width]; [0, width] where there is nothing to erase
    read    the vector that says how far, [1, width]; <read, g> is 1
    mean    what stays where it is, [width]
    """

    read: torch.Tensor
    mean: torch.Tensor

    def __call__(self, h: torch.Tensor) -> torch.Tensor:
        """Erase the concept from h: [..., width]."""
        amounts = (h - self.mean.to(h)) @ self.read.to(h).mT
        return h - amounts @ self.basis.to(h)


@dataclass(frozen=True, eq=False)
class Concept:
    """What an eraser is made of; stands where projection.Subspaces has a Subspace.

    mean         of the representations, [width]
    covariance   of the representations, [width, width]
    direction    from one class mean to the other, [width]; 0 where they are equal
    """

    mean: np.ndarray
    covariance: np.ndarray
    direction: np.ndarray

    @cached_property
    def eraser(self) -> Eraser:
        """The map r, in double precision."""
        size = np.linalg.norm(self.direction)
        basis = self.direction[None] / size if size else np.zeros((0, len(self.mean)))
        weighted = basis @ scipy.linalg.pinvh(self.covariance)
        read = np.linalg.solve(weighted @ basis.T, weighted)
        return Eraser(
            basis=torch.tensor(basis), read=torch.tensor(read), mean=torch.tensor(self.mean)
        )

    def projection(self, cut: Cut, tokens: str = "all", device=None) -> Eraser:
        """The eraser in the network's precision; `cut` is that of SETTINGS, the whole concept."""
        parts = {name: getattr(self.eraser, name) for name in ("basis", "read", "mean")}
        parts = {name: values.float().to(device) for name, values in parts.items()}
        return Eraser(**parts, tokens=tokens)


def estimate(states, classes, shrink: bool = True) -> Concept:
    """What an eraser of a concept is made of, from representations [n, width].

    classes   0 or 1 for each row, [n]
    shrink    estimate the covariance as Ledoit and Wolf do. A sample covariance of few rows is
              singular or nearly so, and its inverse finds directions of next to no variance. The
              classes' means are made equal either way; what suffers is how little else is changed.
    """
    x = np.asarray(states, dtype=float)
    z = np.asarray(classes, dtype=float)
    if x.ndim != 2 or z.shape != x.shape[:1] or not np.isfinite(x).all():
        raise CompanionError(
            f"Representations {list(x.shape)} do not fit classes {list(z.shape)}: give a matrix of "
            "finite numbers with a row for each context, and as many classes."
        )
    if set(z) != {0, 1}:
        raise CompanionError("A concept has contexts of two classes: give some of 0 and some of 1.")
    mean = x.mean(0)
    direction = (x - mean).T @ (z - z.mean()) / len(x)  # their covariance
    if np.abs(direction).max() <= NOTHING * (x - mean).std() * z.std():
        direction = np.zeros_like(direction)  # there is nothing to erase
    covariance = ledoit_wolf(x)[0] if shrink else np.cov(x.T, bias=True)
    return Concept(mean, np.atleast_2d(covariance), direction)


# ---- erasers at the paper's places
def fit(model, pairs: list[tuple]) -> Subspaces:
    """Erasers of gender at every place, for the levels of SETTINGS.

    pairs   (female, male), each a sentence or a tuple of two. At `tokens` every token, the special
            ones too, is a row with the gender of its text.
    """
    if not pairs:
        raise CompanionError(
            "There are no contexts to fit erasers on: give pairs of sentences, (female, male)."
        )
    females, males = zip(*pairs)
    encoded = encode(model, [*females, *males])
    is_female = np.repeat([1, 0], len(pairs))
    fitted = Subspaces({}, model.n_layers, refitted=True)
    for before in (BASE, Setting(tokens=WHOLE)):
        with hooks.project(model, fitted.interventions(before)):
            tokens, first, sent = _states(model, encoded, fitted)
        if before == BASE:
            of_tokens = np.repeat(is_female, [len(text["input_ids"]) for text in encoded])
            fitted.parts["tokens", BASE] = estimate(tokens, of_tokens)
            fitted.parts["sent", BASE] = estimate(sent, is_female)
        cls = estimate(first, is_female)
        pooled = hooks.pool(model, cls.eraser(first).to(model.device)).cpu()
        fitted.parts["cls", before] = cls
        fitted.parts["sent", replace(before, cls=WHOLE)] = estimate(pooled, is_female)
    return fitted


@torch.inference_mode()
def _states(model, encoded: list[dict], fitted: Subspaces) -> list[torch.Tensor]:
    """The vectors of all texts at `tokens`, `cls` and `sent`, rows below each other."""
    locations = [fitted.location(part) for part in ("tokens", "cls", "sent")]

    def by_text(batch, indices):
        with hooks.record(model, locations) as seen:
            model.net.base_model(**batch)
        tokens, leaving, sent = [seen[location].cpu() for location in locations]
        rows = []
        for i, text in enumerate(indices):
            length = len(encoded[text]["input_ids"])  # without the padding
            rows.append((tokens[i, :length], leaving[i, :1], sent[i : i + 1]))
        return rows

    return [torch.cat(rows) for rows in zip(*each(model, encoded, by_text))]


def random(like: Subspaces, seed: int) -> Subspaces:
    """Erasers of random concepts, with the means and covariances of fitted ones.

    Their directions are drawn as the representations are spread, which is what a concept with
    random labels gives. Were all directions equally likely, most would have little variance, and
    erasing them would move the representations far less than erasing gender does.
    """
    rng = np.random.default_rng(seed)
    parts = {}
    for key, concept in like.parts.items():
        if not concept.direction.any():
            parts[key] = concept
            continue
        # by the symmetric root, which does not hang on the signs that a machine's linear algebra
        # gives to eigenvectors
        sizes, vectors = np.linalg.eigh(concept.covariance)
        root = vectors * np.sqrt(sizes.clip(min=0)) @ vectors.T
        drawn = root @ rng.standard_normal(len(concept.mean))
        parts[key] = replace(concept, direction=drawn)
    return replace(like, parts=parts)


def many_contexts(data: str = "mini", items: int = 0) -> list[tuple[str, str]]:
    """About 900 sentence pairs, (female, male), none of which is a context of the triples.

    They are every pair of gender words in PER_WORD neutral sentences, the written pairs on which
    the paper's projections are fitted here, and the natural ones (see sentence_pairs.natural).
    items   0, or how many of the pairs a trial run takes
    """
    listed = sources.words("gender_pairs")
    words = word_contexts.usable([*listed["female"], *listed["male"]])
    sentences = word_contexts.from_patterns(words, PER_WORD)
    pairs = []
    for female, male in zip(listed["female"], listed["male"]):
        if female in sentences and male in sentences:
            pairs += zip(sentences[female], sentences[male])
    pairs += sentence_pairs.written()
    pairs += sentence_pairs.natural(data)
    distinct = list(dict.fromkeys(pairs))
    return stats.first(distinct, items, range(sentence_pairs.FEWEST))


# ---- the measurements of notebooks 08 and 09
def measure(
    name: str, data: str = "mini", draws: int = 5, seed: int = 0, device=None, items: int = 0
) -> dict:
    """Strength and distance of every triple pair without and with erasers, for `run.measured`.

    The form is that of projection.measure, with NAMES in place of the 76 models, the one fit MANY,
    and random concepts as `random`. Beside it:

    facts   of `facts`
    left    of `left`
    """
    model = registry.load(name, device=device)
    projection.head(model)  # refused here rather than after the work
    rows = triples.triples(data, items, part="both")
    erasers = fit(model, many_contexts(data, items))
    drawn = [random(erasers, seed + draw) for draw in range(draws)]
    found = projection.on_triples(model, rows, {MANY: erasers}, drawn, MODELS, "LEACE")
    known = facts(model, erasers, drawn, items)
    return found | {"facts": known, "left": left(model, erasers, rows)}


def facts(model, erasers: Subspaces, drawn: list[Subspaces], items: int = 0) -> dict:
    """Log odds of the right pronoun of queens and kings at Layer 11, the one level that words meet.

    By Base [sentences], gender [1, sentences] and random concepts [draws, sentences].
    """

    def known(fitted: Subspaces, setting: Setting = SETTINGS[Level.LAYER_11]) -> np.ndarray:
        with hooks.project(model, fitted.interventions(setting)):
            return factual.log_odds(model, items=items, file=factual.FILE_200)

    of_random = np.array([known(concepts) for concepts in drawn])
    by_gender = np.array([known(erasers)])
    return {"Base": known(erasers, BASE), "gender": by_gender, "random concepts": of_random}


def left(model, erasers: Subspaces, rows: pd.DataFrame) -> float:
    """How far apart mean female and mean male sentence vectors of the triples' texts still are.

    A share of their distance in the untouched model, where 0 is erased.
    rows   of triples.triples
    """
    texts = triples.pairs(rows)  # those of the file, then their swaps
    n = len(rows)
    is_swapped = [original != swap for original, swap in zip(texts[:n], texts[n:])]
    is_female = np.append(rows["gender"] == "F", rows["gender"] != "F")
    contexts, next_sentences = zip(*texts)
    encoded = encode(model, list(contexts), list(next_sentences))
    settings = [BASE, SETTINGS[Level.SENT]]
    vectors = projection.sweep(model, erasers, settings, encoded, lambda vectors: vectors)
    vectors = vectors.numpy()[:, is_swapped * 2]
    is_female = is_female[is_swapped * 2]
    apart = vectors[:, is_female].mean(1) - vectors[:, ~is_female].mean(1)
    untouched, erased = np.linalg.norm(apart, axis=-1)
    return float(erased / untouched)


def measure_nli(
    name: str,
    data: str = "mini",
    pair_set: nli.PairSet | None = None,
    draws: int = 0,
    device=None,
    items: int = 0,
) -> dict:
    """A classifier's predictions without and with erasers, for `run.measured`.

    The form is that of nli.measure, with NAMES in place of the 76 models, the one fit nli.PAIRS,
    as the paper's projections are fitted on the classifier here, and random concepts as `random`.
    """
    model = registry.load(nli.required(name), device=device, task="sequence-classification")
    erasers = fit(model, nli.fitting_pairs())
    drawn = [random(erasers, seed) for seed in range(draws)]
    pair_set = pair_set or nli.PairSet()
    gold = nli.task_pairs(data, items)
    return nli.swept(model, {nli.PAIRS: erasers}, drawn, MODELS, pair_set, gold, items)
