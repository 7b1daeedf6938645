"""LEACE: a concept erased linearly, a baseline beside the 74 projections of Projective methods.

Belrose et al. 2023, arXiv 2306.03819. Of all affine maps after which no linear classifier tells
the classes of a concept better than a constant does, it is the one that changes the
representations least:

    r(x) = x - W^+ P W (x - mean)

W is the whitening matrix of the representations' covariance Sigma_XX, and P the orthogonal
projection on the column space of W Sigma_XZ, where Sigma_XZ is their covariance with the concept.
Of a concept with two classes that space is a line, and r moves x along the difference of the
class means. The orthogonal variant has the identity in place of W: it moves x along the same
direction, and further.

    eraser = leace.estimate(states, labels).eraser
    erased = eraser(states)
    erasers = leace.fit(model, leace.many_contexts())[leace.LEACE]   as projection.fit gives them
    with hooks.project(model, erasers.interventions(leace.SETTINGS[Level.LAYER_12])): ...
    measured = run.measured(leace.measure, "mini-bert", "mini", 5)
    of_nli = run.measured(leace.measure_nli, "mini-bert-nli", "mini")

Erasers act where the paper's projections act (lib/projective/projection.py): at SENT; at Layer 12,
which includes SENT; at Layer 11, which includes both. As in the paper on LEACE, each is fitted on
what the erasers before it leave.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

import numpy as np
import pandas as pd
import scipy.linalg
import torch
from sklearn.covariance import ledoit_wolf
from torch.nn.utils.rnn import pad_sequence

from lib import CompanionError
from lib.engine import hooks, models as registry, nsp, stats
from lib.engine.batches import each, encode
from lib.projective import nli, projection, triples
from lib.projective.projection import BASE, WRITTEN, Cut, Level, Setting, Subspaces
from lib.text import contexts as word_contexts, data as sources, factual, pairs as sentence_pairs

LEACE = "LEACE"
ORTHOGONAL = "orthogonal"
METHODS = (LEACE, ORTHOGONAL)
PARTS = ("tokens", "cls", "sent")  # where erasers are, in the order in which a text passes them

WHOLE = Cut(weighted=False)  # an eraser takes out all of a concept
SETTINGS = {
    Level.SENT: Setting(sent=WHOLE),
    Level.LAYER_12: Setting(cls=WHOLE, sent=WHOLE),
    Level.LAYER_11: Setting(tokens=WHOLE, cls=WHOLE, sent=WHOLE),
}
# The models that are measured, beside base.
MODELS = list(product(METHODS, SETTINGS))
NAMES = ["Base", *[f"{method}, {level}" for method, level in MODELS]]

# Covariances below this share of the standard deviations are rounding errors of 32-bit states.
NOTHING = 1e-6

# What the erasers are fitted on.
MANY = "many contexts"
TRIPLES = "the triples themselves"
PER_WORD = 4  # sentences of each gender word


# ---- the eraser
@dataclass(frozen=True, eq=False, kw_only=True)
class Eraser(hooks.Projection):
    """h - sum_i <h - mean, read_i> g_i: an oblique affine projection, for `hooks.project`.

    basis   the orthonormal g_i, along which h is moved, [k, width]
    weight  as in a Projection, 1 to move h all the way
    read    the vectors that say how far, [k, width]; <read_i, g_j> is 1 where i = j, else 0
    mean    what stays where it is, [width]
    """

    read: torch.Tensor
    mean: torch.Tensor

    def __call__(self, h: torch.Tensor) -> torch.Tensor:
        """Erase the concept from h: [..., width]."""
        amounts = (h - self.mean.to(h)) @ self.read.to(h).mT
        weight = torch.as_tensor(self.weight).to(h)
        return h - (amounts * weight) @ self.basis.to(h)


@dataclass(frozen=True, eq=False)
class Concept:
    """What an eraser is made of; stands where projection.Subspaces has a Subspace.

    mean         of the representations, [width]
    covariance   Sigma_XX, [width, width]
    directions   Sigma_XZ, or others with the same column space, [width, k]
    method       one of METHODS
    """

    mean: np.ndarray
    covariance: np.ndarray
    directions: np.ndarray
    method: str = LEACE

    @cached_property
    def eraser(self) -> Eraser:
        """The map r, in double precision.

        W^+ P W is A (A' S A)^-1 A' S, where S is the inverse of Sigma_XX and the columns of A are
        an orthonormal basis of the column space of Sigma_XZ.
        """
        basis = scipy.linalg.orth(self.directions)
        read = basis.T
        if self.method == LEACE:
            weighted = basis.T @ scipy.linalg.pinvh(self.covariance)
            read = np.linalg.solve(weighted @ basis, weighted)
        return Eraser(
            basis=torch.tensor(basis.T.copy()),
            read=torch.tensor(read.copy()),
            mean=torch.tensor(self.mean),
        )

    def projection(self, cut: Cut, tokens: str = "all", device=None) -> Eraser:
        """The eraser in the network's precision; `cut` is that of SETTINGS, the whole concept."""
        eraser = self.eraser
        return Eraser(
            basis=eraser.basis.float().to(device),
            read=eraser.read.float().to(device),
            mean=eraser.mean.float().to(device),
            tokens=tokens,
        )


def estimate(states, concept, method: str = LEACE, shrink: bool = True) -> Concept:
    """What an eraser of a concept is made of, from representations [n, width].

    concept   a label for each row, [n]; or [n, k], such as one column for each of several classes
    method    one of METHODS
    shrink    estimate Sigma_XX as Ledoit and Wolf do. A sample covariance of few rows is singular
              or nearly so, and its inverse finds directions of next to no variance. The classes'
              means are made equal either way; what suffers is how little else is changed.
    """
    if method not in METHODS:
        raise CompanionError(f"There is no method {method!r}: choose {' or '.join(METHODS)}.")
    x = np.asarray(states, dtype=float)
    z = np.asarray(concept, dtype=float)
    _check(x, z)
    z = z.reshape(len(x), -1)
    mean = x.mean(0)
    cross_covariance = (x - mean).T @ (z - z.mean(0)) / len(x)
    if np.abs(cross_covariance).max() <= NOTHING * (x - mean).std() * z.std():
        cross_covariance = cross_covariance[:, :0]  # there is nothing to erase
    sample_covariance = ledoit_wolf(x)[0] if shrink else np.cov(x.T, bias=True)
    return Concept(mean, np.atleast_2d(sample_covariance), cross_covariance, method)


def _check(x: np.ndarray, z: np.ndarray):
    """Refuse representations and labels that no concept can be estimated from."""
    if x.ndim != 2 or z.ndim not in (1, 2) or len(x) != len(z):
        raise CompanionError(
            f"Representations {list(x.shape)} do not fit labels {list(z.shape)}: give a matrix "
            "with a row for each context, and as many labels."
        )
    if len(x) < 2:
        raise CompanionError(
            "A concept cannot be estimated from fewer than two representations: give a row for "
            "each of many contexts."
        )
    if not np.isfinite(x).all() or not np.isfinite(z).all():
        raise CompanionError(
            "Some representations or labels are nan or infinite: leave these contexts out."
        )
    if (z == z[0]).all():
        raise CompanionError(
            "All contexts are of one class: give some of each, such as female and male ones."
        )


# ---- erasers at the paper's places
def fit(model, pairs: Sequence[tuple]) -> dict[str, Subspaces]:
    """Erasers of gender at every place, for the levels of SETTINGS: {method: erasers}.

    pairs   (female, male), each a sentence or a tuple of two
    """
    if not pairs:
        raise CompanionError(
            "There are no contexts to fit erasers on: give pairs of sentences, (female, male)."
        )
    encoded = _encoded(model, pairs)
    plain = _states(model, encoded)
    return {method: _fit_in_turn(model, encoded, plain, method) for method in METHODS}


def _encoded(model, pairs: Sequence[tuple]) -> list[dict]:
    """All female texts, then all male ones."""
    females = [female for female, _ in pairs]
    males = [male for _, male in pairs]
    return encode(model, females + males)


@dataclass(frozen=True, eq=False)
class _States:
    """Representations of female texts and of as many male ones in the untouched model."""

    tokens: list[torch.Tensor]  # that leave the second-to-last layer, [tokens, width] of each text
    cls: torch.Tensor  # the first tokens that leave the last layer, [texts, width]
    sent: torch.Tensor  # sentence vectors, [texts, width]

    @property
    def is_female(self) -> np.ndarray:
        """The concept: 1 for each female text, 0 for each male one."""
        return np.repeat([1, 0], len(self.cls) // 2)

    def at(self, part: str) -> tuple[torch.Tensor, np.ndarray]:
        """The representations [n, width] at a part, and the gender of each.

        At `tokens` every token, the special ones too, is one with the gender of its text.
        """
        if part == "tokens":
            lengths = [len(rows) for rows in self.tokens]
            return torch.cat(self.tokens), np.repeat(self.is_female, lengths)
        return getattr(self, part), self.is_female


def _fit_in_turn(model, encoded: list[dict], plain: _States, method: str) -> Subspaces:
    """Erasers by one method, each fitted on what those before it leave."""
    fitted = Subspaces({}, model.n_layers, refitted=True)
    tokens = estimate(*plain.at("tokens"), method)
    fitted.parts["tokens", BASE] = tokens
    fitted.parts["sent", BASE] = estimate(*plain.at("sent"), method)
    erased = [tokens.eraser(rows) for rows in plain.tokens]
    first_tokens = {BASE: plain.cls, Setting(tokens=WHOLE): _last_layer(model, encoded, erased)}
    for before, first in first_tokens.items():
        cls = estimate(first, plain.is_female, method)
        sent = hooks.pool(model, cls.eraser(first).to(model.device)).cpu()
        fitted.parts["cls", before] = cls
        fitted.parts["sent", replace(before, cls=WHOLE)] = estimate(sent, plain.is_female, method)
    return fitted


@torch.inference_mode()
def _states(model, encoded: list[dict]) -> _States:
    """The representations at the three places, in one forward."""
    last = model.n_layers - 1
    locations = [f"layer.{last - 1}", f"layer.{last}", "pooler"]

    def by_text(batch, indices):
        with hooks.record(model, locations) as seen:
            model.net.base_model(**batch)
        tokens, leaving, sent = [seen[location].cpu() for location in locations]
        rows = []
        for i, text in enumerate(indices):
            length = len(encoded[text]["input_ids"])  # without the padding
            rows.append((tokens[i, :length], leaving[i, 0], sent[i]))
        return rows

    tokens, cls, sent = zip(*each(model, encoded, by_text))
    return _States(list(tokens), torch.stack(cls), torch.stack(sent))


@torch.inference_mode()
def _last_layer(model, encoded: list[dict], entering: list[torch.Tensor]) -> torch.Tensor:
    """The first tokens that leave the last layer, [texts, width], where `entering` enters it."""
    last = model.n_layers - 1

    def first_tokens(batch, indices):
        states = pad_sequence([entering[text] for text in indices], batch_first=True)
        first = torch.zeros(len(indices), dtype=torch.long)  # no other token is read
        with (
            hooks.resume(model, last, states.to(model.device)),
            hooks.finish(model, first),
            hooks.record(model, [f"layer.{last}"]) as seen,
        ):
            model.net.base_model(**batch)
        return seen[f"layer.{last}"][:, 0].cpu()

    return torch.stack(each(model, encoded, first_tokens))


def random(like: Subspaces, seed: int, spread: bool = False) -> Subspaces:
    """Erasers of as many random directions, with the means and covariances of fitted ones.

    spread   draw the directions as the representations are spread, which is what a concept with
             random labels gives. Otherwise all are equally likely, as in projection.random, and
             most have little variance: erasing them moves the representations far less than
             erasing gender does.
    """
    rng = np.random.default_rng(seed)
    parts = {}
    for key, concept in like.parts.items():
        rank = len(concept.eraser.basis)
        width = len(concept.mean)
        if spread:
            # by the symmetric root, which does not hang on the signs that a machine's linear
            # algebra gives to eigenvectors
            sizes, vectors = np.linalg.eigh(concept.covariance)
            root = vectors * np.sqrt(sizes.clip(min=0)) @ vectors.T
            drawn = root @ rng.standard_normal((width, rank))
        else:
            drawn = rng.standard_normal((width, rank))
        parts[key] = replace(concept, directions=drawn)
    return replace(like, parts=parts)


# ---- what they are fitted on
def many_contexts(data: str = "mini", items: int = 0) -> list[tuple[str, str]]:
    """About 900 sentence pairs, (female, male), none of which is a context of the triples.

    They are every pair of gender words in PER_WORD neutral sentences, the written pairs on which
    the paper's projections are fitted here, and the natural ones (see sentence_pairs.natural).
    items   0, or how many of the pairs a trial run takes
    """
    listed = sources.words("gender_pairs")
    sentences = word_contexts.from_patterns(
        word_contexts.usable([*listed["female"], *listed["male"]]), PER_WORD
    )
    pairs = []
    for female, male in zip(listed["female"], listed["male"]):
        if female in sentences and male in sentences:
            pairs += zip(sentences[female], sentences[male])
    pairs += sentence_pairs.written()
    pairs += sentence_pairs.natural(data)
    distinct = list(dict.fromkeys(pairs))
    return stats.first(distinct, items, range(sentence_pairs.FEWEST))


def of_triples(rows: pd.DataFrame) -> list[tuple[tuple[str, str], tuple[str, str]]]:
    """The triples' own texts, (female, male), each a context with its next sentence.

    No fit erases more where bias is measured: on these texts no linear classifier is left.
    rows   of triples.triples
    """
    texts = triples.pairs(rows)  # those of the file, then their swaps
    originals = texts[: len(rows)]
    swaps = texts[len(rows) :]
    pairs = []
    for gender, original, swap in zip(rows["gender"], originals, swaps):
        if original != swap:
            pairs.append((original, swap) if gender == "F" else (swap, original))
    return pairs


def fits(model, rows: pd.DataFrame, data: str, items: int = 0) -> dict[str, dict[str, Subspaces]]:
    """The erasers by what they are fitted on, and by method. rows: of triples.triples."""
    return {
        MANY: fit(model, many_contexts(data, items)),
        WRITTEN: fit(model, sentence_pairs.written()),
        TRIPLES: fit(model, of_triples(rows)),
    }


# ---- the measurement of notebook 08
def measure(
    name: str, data: str = "mini", draws: int = 5, seed: int = 0, device=None, items: int = 0
) -> dict:
    """Strength and distance of every triple pair without and with erasers, for `run.measured`.

    The form is that of projection.measure, with NAMES in place of the 76 models:

    s, d, accuracy   [fits, models, triple pairs]
    random           the same three under `draws` random choices of directions, which have the
                     means and covariances of the fit MANY: [draws, models, pairs]
    random_concepts  the same under directions drawn as the representations are spread (`random`)
    fits             their names
    triples          the context_id of each triple pair
    facts            of `facts`, under the fit MANY
    left             a table of how much of the gender of the triples' texts the erasers leave
    """
    model = registry.load(name, device=device)
    next_sentence = projection.head(model)  # refused here rather than after the work
    rows = triples.triples(data, items, part="both")
    fitted = fits(model, rows, data, items)
    contexts, next_sentences = zip(*triples.pairs(rows))
    encoded = encode(model, list(contexts), list(next_sentences))
    directions = random_arms(fitted[MANY], draws, seed)
    concepts = random_arms(fitted[MANY], draws, seed, spread=True)
    arms = [*fitted.values(), *directions, *concepts]
    answers = swept(model, arms, encoded, next_sentence)
    found = _bias(rows, answers[..., 0])  # class 0: the sentence follows
    n = len(fitted)
    return {
        "fits": list(fitted),
        "triples": triples.frame(rows, answers[0, 0, :, 0]).index.to_numpy(),
        "facts": facts(model, fitted[MANY], concepts, items),
        "left": left(model, fitted, of_triples(rows)),
        "random": {key: values[n : n + draws] for key, values in found.items()},
        "random_concepts": {key: values[n + draws :] for key, values in found.items()},
        **{key: values[:n] for key, values in found.items()},
    }


def facts(model, erasers: dict[str, Subspaces], concepts: list[dict], items: int = 0) -> dict:
    """Log odds of the right pronoun of queens and kings at Layer 11, the one level that words meet.

    {"Base": [sentences], "LEACE": [1, sentences], "LEACE, random concepts": [draws, sentences] ...}
    concepts   erasers of random concepts, as `random_arms` gives them
    """

    def known(fitted: Subspaces) -> np.ndarray:
        with hooks.project(model, fitted.interventions(SETTINGS[Level.LAYER_11])):
            return factual.log_odds(model, items=items, file=factual.FILE_200)

    found = {"Base": factual.log_odds(model, items=items, file=factual.FILE_200)}
    for method in METHODS:
        found[method] = np.array([known(erasers[method])])
        found[f"{method}, random concepts"] = np.array([known(arm[method]) for arm in concepts])
    return found


def random_arms(
    fitted: dict[str, Subspaces], draws: int, seed: int = 0, spread: bool = False
) -> list[dict[str, Subspaces]]:
    """`random` of the erasers of either method, for each of several draws."""
    arms = []
    for draw in range(draws):
        arms.append({method: random(fitted[method], seed + draw, spread) for method in METHODS})
    return arms


def swept(model, arms: list[dict[str, Subspaces]], encoded: list[dict], head) -> np.ndarray:
    """Probabilities of texts under the models NAMES: [arms, models, texts, classes].

    arms   erasers by method, as `fit` gives them
    head   as projection.head gives it
    """
    erasers = []
    for arm in arms:
        erasers += [arm[method] for method in METHODS]
    settings = [BASE, *SETTINGS.values()]
    logits = projection.sweeps(model, erasers, settings, encoded, head, progress="LEACE")
    logits = logits.unflatten(0, (len(arms), len(METHODS)))  # [arms, methods, settings, ...]
    base = logits[:, 0, :1]  # the same for either method
    erased = logits[:, :, 1:].flatten(1, 2)
    return torch.cat([base, erased], dim=1).softmax(-1).numpy()


def _bias(rows: pd.DataFrame, follows: np.ndarray) -> dict[str, np.ndarray]:
    """s, d and accuracy of triples, [arms, models, triple pairs], from p(next) of their texts."""
    found = {"s": [], "d": [], "accuracy": []}
    for probabilities in follows.reshape(-1, follows.shape[-1]):
        frame = triples.frame(rows, probabilities)
        found["s"].append(nsp.strengths(frame))
        found["d"].append(nsp.distances(frame))
        found["accuracy"].append(nsp.right(frame))
    shape = follows.shape[:-1]
    return {key: np.array(values).reshape(*shape, -1) for key, values in found.items()}


def left(model, fitted: dict[str, dict[str, Subspaces]], pairs: Sequence[tuple]) -> pd.DataFrame:
    """How far apart the mean female and the mean male representation of some pairs still are.

    A share of their distance in the untouched model, where 0 is erased: rows by fit and method,
    columns by place. On what an eraser was fitted on it is 0.
    """
    states = _states(model, _encoded(model, pairs))
    rows = {}
    for fit_name, by_method in fitted.items():
        for method, erasers in by_method.items():
            shares = {}
            for part in PARTS:
                vectors, is_female = states.at(part)
                erased = erasers.of(part).eraser(vectors)
                shares[part] = _apart(erased, is_female) / _apart(vectors, is_female)
            rows[fit_name, method] = shares
    return pd.DataFrame(rows).T.rename_axis(["fit", "method"])


def _apart(vectors: torch.Tensor, is_female: np.ndarray) -> float:
    """The distance of the two classes' means."""
    chosen = torch.tensor(is_female == 1)
    return (vectors[chosen].mean(0) - vectors[~chosen].mean(0)).norm().item()


# ---- the measurement of notebook 09
def measure_nli(
    name: str,
    data: str = "mini",
    pair_set: nli.PairSet | None = None,
    draws: int = 0,
    device=None,
    items: int = 0,
) -> dict:
    """A classifier's predictions without and with erasers, for `run.measured`.

    The form is that of nli.measure, with NAMES in place of the 76 models. The fits are nli.PAIRS,
    as the paper's projections are fitted on the classifier here, and MANY; random directions, and
    random_concepts as in `measure`, have the means and covariances of the first.
    """
    model = registry.load(nli.required(name), device=device, task="sequence-classification")
    about = nli.described(model, pair_set or nli.PairSet(), items)
    gold = nli.task_pairs(data, items)
    texts = pd.concat([nli.asked(about), gold])
    fitted = {
        nli.PAIRS: fit(model, nli.fitting_pairs()),
        MANY: fit(model, many_contexts(data, items)),
    }
    directions = random_arms(fitted[nli.PAIRS], draws)
    concepts = random_arms(fitted[nli.PAIRS], draws, spread=True)
    arms = [*fitted.values(), *directions, *concepts]
    encoded = encode(model, list(texts["premise"]), list(texts["hypothesis"]))
    answers = swept(model, arms, encoded, projection.head(model))
    n = len(fitted) + draws
    of_concepts = nli.arranged(answers[n:], [], gold, about)
    return nli.arranged(answers[:n], list(fitted), gold, about) | {
        "random_concepts": of_concepts["random"]
    }
