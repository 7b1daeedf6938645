"""Gender subspaces inside an encoder, and the models that come of projecting them out.

Projective methods, section 4.

    measured = run.measured(projection.measure, "mini-bert", "mini", 5)   s and d of 76 models
    subspaces = projection.fit(model, pairs)          # [(female sentence, male sentence), ...]
    settings = projection.settings()                  # the 74 of Table 7, in its order
    encoded = batches.encode(model, firsts, seconds)
    logits = projection.sweep(model, subspaces, settings, encoded, projection.head(model))

A projection can be at four places, and where it is at one it is at all that follow:

    attention   queries, keys and values of every head of the second-to-last layer: one component
                each, whole
    tokens      all tokens that leave the second-to-last layer: [layer 11] of BERT-base's 12
    cls         the first token that leaves the last layer: [layer 12]
    sent        the pooler's output: [SENT]; in a model without pooler the first token of the last
                layer once more, so that there `cls` and `sent` act on one vector, in this order

A Setting says what happens at each place by its name. The paper prints it as up to five digits,
read here as (n, c at [layer 11], n, c at [layer 12], n_p): the caption's names fit neither its
section 5 nor the numbers.

A fit is one choice of what the paper leaves open: sentence pairs, centring, refitting. Notebook 08
shows the fit WRITTEN.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import product

import numpy as np
import pandas as pd
import torch

from lib import CompanionError
from lib.engine import hooks, models as registry, nsp
from lib.engine.batches import each, encode
from lib.projective import triples
from lib.text import pairs as sentence_pairs

PLACES = ("attention", "tokens", "cls", "sent")  # in the order in which a text passes them
WRITTEN = "written pairs"


# ---- the 76 models
class Level(StrEnum):
    """The paper's names for where the first projection is; the first two have none of the 74."""

    BASE = "Base"
    SENT_DEBIAS = "Sent-debias"
    SENT = "SENT"
    LAYER_12 = "Layer 12"
    LAYER_11 = "Layer 11"
    ATTENTION = "+ attn"


# The levels of the 74, from the output inwards.
LEVELS = (Level.SENT, Level.LAYER_12, Level.LAYER_11, Level.ATTENTION)


@dataclass(frozen=True)
class Cut:
    """How much of a subspace is taken out."""

    # The paper's n: each component is taken out by the share of variance that it explains, not
    # whole.
    weighted: bool
    # The paper's c: the second component is taken out too.
    second: bool = False


@dataclass(frozen=True)
class Setting:
    """What is projected at each place; nothing at all is the base model. Prints as in Table 7."""

    attention: bool = False
    tokens: Cut | None = None
    cls: Cut | None = None
    sent: Cut | None = None
    sent_debias: bool = False  # Liang et al.'s baseline, with a subspace of its own

    @property
    def level(self) -> Level:
        """Where its first projection is."""
        if self.sent_debias:
            return Level.SENT_DEBIAS
        if self.attention:
            return Level.ATTENTION
        if self.tokens:
            return Level.LAYER_11
        if self.cls:
            return Level.LAYER_12
        if self.sent:
            return Level.SENT
        return Level.BASE

    @property
    def name(self) -> str:
        """Level and digits: "Layer 11 (0, 1, 1, 0, 1)", as data/paper names the rows of Table 7."""
        return f"{self.level} {self}".strip()

    def __str__(self):
        digits = []
        for cut in (self.tokens, self.cls):
            if cut:
                digits += [int(cut.weighted), int(cut.second)]
        if self.sent:
            digits.append(int(self.sent.weighted))
        if len(digits) > 1:
            return str(tuple(digits))
        return "".join(map(str, digits))

    def before(self, place: str) -> "Setting":
        """The part of it that a text has passed when it comes to a place."""
        passed = PLACES[: PLACES.index(place)]
        return Setting(**{name: getattr(self, name) for name in passed})


BASE = Setting()
SENT_DEBIAS = Setting(sent_debias=True)


def settings() -> list[Setting]:
    """The 74, in Table 7's order: 2 at SENT, 8 at Layer 12, 32 at Layer 11, 32 with attention."""
    ends = [Cut(weighted=False), Cut(weighted=True)]
    cuts = [Cut(weighted, second) for weighted, second in product((False, True), repeat=2)]
    at_sent = [Setting(sent=sent) for sent in ends]
    at_layer_12 = [Setting(cls=cls, sent=sent) for cls, sent in product(cuts, ends)]
    at_layer_11 = []
    for tokens, cls, sent in product(cuts, cuts, ends):
        at_layer_11.append(Setting(tokens=tokens, cls=cls, sent=sent))
    with_attention = [replace(setting, attention=True) for setting in at_layer_11]
    return at_sent + at_layer_12 + at_layer_11 + with_attention


def models() -> list[Setting]:
    """The paper's 76 models: base, sent-debias, and the 74."""
    return [BASE, SENT_DEBIAS, *settings()]


# ---- gender subspaces
@dataclass(frozen=True, eq=False)
class Subspace:
    """Orthonormal components, the share of variance that each explains; at attention per head."""

    basis: torch.Tensor  # [d, width] or [heads, d, head size]
    explained: torch.Tensor  # [d] or [heads, d]

    def projection(self, cut: Cut, tokens: str = "all", device=None) -> hooks.Projection:
        """What takes this subspace out of hidden vectors, as a Cut says."""
        kept = 2 if cut.second else 1
        weight = self.explained[..., :kept] if cut.weighted else 1.0
        return hooks.Projection(self.basis[..., :kept, :].to(device), weight, tokens)


@dataclass(frozen=True, eq=False)
class Subspaces:
    """What `fit` found: a Subspace per part (q, k, v, tokens, cls, sent, sent_debias).

    Refitted subspaces depend on what was projected before them: `parts` is keyed by part and by
    that, BASE where it is nothing.
    """

    parts: dict[tuple[str, Setting], Subspace]
    n_layers: int
    refitted: bool = False

    def of(self, part: str, setting: Setting = BASE) -> Subspace:
        """The subspace that a setting projects out at a part."""
        fitted_under = setting.before(part) if self.refitted and part in PLACES else BASE
        if (part, fitted_under) not in self.parts:
            raise CompanionError(
                f"No subspace was fitted for {part}: pass natural= to projection.fit for "
                "sent-debias."
            )
        return self.parts[part, fitted_under]

    def location(self, part: str) -> str:
        """Where a part is found in the network, in the words of lib/engine/hooks.py."""
        last = self.n_layers - 1
        match part:
            case "q" | "k" | "v":
                return f"attn.{part}.{last - 1}"
            case "tokens":
                return f"layer.{last - 1}"
            case "cls":
                return f"layer.{last}"
            case _:  # sent, sent_debias
                return "pooler"

    def projections(self, setting: Setting, device=None) -> dict[str, hooks.Projection]:
        """By part, what a setting projects out there, in the order in which a text passes them."""
        whole = Cut(weighted=False)
        cuts = {}
        if setting.attention:
            cuts |= {"q": whole, "k": whole, "v": whole}
        for place in ("tokens", "cls", "sent"):
            if cut := getattr(setting, place):
                cuts[place] = cut
        if setting.sent_debias:
            cuts["sent_debias"] = whole
        edits = {}
        for part, cut in cuts.items():
            tokens = "first" if part == "cls" else "all"
            edits[part] = self.of(part, setting).projection(cut, tokens, device)
        return edits

    def interventions(self, setting: Setting) -> dict[str, hooks.Projection]:
        """The setting as `hooks.project` takes it.

        Of two edits of one module the one named last acts first. In a model without pooler `sent`
        has to act after `cls`, so the order is turned round.
        """
        edits = self.projections(setting)
        return {self.location(part): edits[part] for part in reversed(edits)}


def fit(
    model,
    pairs: list[tuple[str, str]],
    center: bool = False,
    refit: bool = False,
    natural: list[tuple[str, str]] = (),
) -> Subspaces:
    """The gender subspaces: principal components of differences female - male of hidden vectors.

    center   take the mean difference off first, as an ordinary PCA would. The paper does not say.
             Without, which is what Bolukbasi et al. and Liang et al. do (they centre each pair,
             which makes two opposite vectors of its difference), the first component mostly is the
             mean difference.
    refit    fit each place on what comes out of the projections before it, again for every setting,
             instead of on the untouched model. The paper does not say.
    natural  pairs for the baseline sent-debias, which is fitted at the pooler on sentences found in
             text.

    At `tokens` and in the attention every token of a pair gives a difference, the special ones too.
    Where one side has more tokens, those before and after what differs are paired, and what differs
    by its mean.
    """
    if model.is_causal or model.n_layers < 2:
        raise CompanionError(
            f"{model.name} cannot be projected so: choose an encoder of two or more layers."
        )
    if len(pairs) < 3 or natural and len(natural) < 3:
        raise CompanionError(
            "A gender subspace cannot be fitted to so few sentence pairs: give three or more."
        )
    subspaces = Subspaces({}, model.n_layers, refit)
    if refit:
        _fit_in_turn(model, subspaces, pairs, center)
    else:
        parts = ("q", "k", "v", "tokens", "cls", "sent")
        _fit_parts(model, subspaces, parts, BASE, pairs, center)
    if natural:
        rows = _differences(model, natural, {"sent_debias": subspaces.location("sent_debias")})
        subspaces.parts["sent_debias", BASE] = components(rows["sent_debias"], center)
    return subspaces


def _fit_parts(
    model,
    subspaces: Subspaces,
    parts: tuple[str, ...],
    before: Setting,
    pairs: list[tuple[str, str]],
    center: bool,
):
    """Fit some parts on the model under the setting `before`, and add them to the subspaces."""
    locations = {part: subspaces.location(part) for part in parts}
    with hooks.project(model, subspaces.interventions(before)):
        rows = _differences(model, pairs, locations)
    for part in parts:
        subspaces.parts[part, before] = components(rows[part], center)


def _fit_in_turn(model, subspaces: Subspaces, pairs, center: bool):
    """Fit each place on what the projections before it leave, for all settings that reach it."""
    _fit_parts(model, subspaces, ("q", "k", "v"), BASE, pairs, center)
    for place in ("tokens", "cls"):
        for before in _ways_to(place):
            _fit_parts(model, subspaces, (place,), before, pairs, center)
    # The 37 ways in which a text can reach the pooler share most of their layers: one sweep.
    ways = _ways_to("sent")
    sentence_vectors = []
    for side in zip(*pairs):
        encoded = encode(model, list(side))
        sentence_vectors.append(sweep(model, subspaces, ways, encoded, lambda vectors: vectors))
    for before, female, male in zip(ways, *sentence_vectors):
        subspaces.parts["sent", before] = components(female - male, center)


def _ways_to(place: str) -> list[Setting]:
    """What the settings that project at a place have projected before it."""
    return _unique(setting.before(place) for setting in settings() if getattr(setting, place))


def _unique(settings: Iterable[Setting]) -> list[Setting]:
    """Each setting once, in the order of the first occurrence."""
    return list(dict.fromkeys(settings))


def components(differences: torch.Tensor, center: bool = False) -> Subspace:
    """The first two principal components of [n, width]; one per head of [n, heads, head size]."""
    is_by_head = differences.dim() == 3
    rows = differences.double()
    if is_by_head:
        rows = rows.transpose(0, 1)
    if center:
        rows = rows - rows.mean(-2, keepdim=True)
    _, size, basis = torch.linalg.svd(rows, full_matrices=False)
    total = size.square().sum(-1, keepdim=True)
    if (total < 1e-12).any():
        raise CompanionError(
            "The two sides of the sentence pairs do not differ: swap gender words between them."
        )
    kept = 1 if is_by_head else 2
    explained = size.square() / total
    return Subspace(basis[..., :kept, :].float(), explained[..., :kept].float())


def random(like: Subspaces, seed: int) -> Subspaces:
    """Random directions of the rank, weight and place of fitted ones: a control of equal size."""
    rng = torch.Generator().manual_seed(seed)
    parts = {}
    for key, fitted in like.parts.items():
        drawn = torch.randn(fitted.basis.mT.shape, generator=rng)
        parts[key] = replace(fitted, basis=torch.linalg.qr(drawn).Q.mT.contiguous())
    return replace(like, parts=parts)


@torch.inference_mode()
def _differences(model, pairs, locations: dict[str, str]) -> dict[str, torch.Tensor]:
    """For each part, the vectors of the female sentences less those of the male ones, as rows."""
    females = [female for female, _ in pairs]
    males = [male for _, male in pairs]
    encoded = encode(model, females + males)
    ids = [text["input_ids"] for text in encoded]

    def states(batch, indices):
        """For each text of a batch, by part: a row per token, or one where there is one vector."""
        with hooks.record(model, list(locations.values())) as seen:
            model.net.base_model(**batch)
        rows = []
        for row, text in enumerate(indices):
            by_part = {}
            for part, location in locations.items():
                length = 1 if part == "cls" else len(ids[text])  # without the padding
                vectors = torch.atleast_2d(seen[location][row])[:length]
                by_part[part] = vectors.double().cpu()
            rows.append(by_part)
        return rows

    seen = each(model, encoded, states)
    n = len(pairs)
    differences = {}
    for part in locations:
        rows = []
        for i in range(n):
            rows.append(_aligned(ids[i], ids[n + i], seen[i][part], seen[n + i][part]))
        differences[part] = torch.cat(rows)
    return differences


def _aligned(
    ids: list[int], other_ids: list[int], states: torch.Tensor, other_states: torch.Tensor
) -> torch.Tensor:
    """Differences of two texts' vectors, token by token.

    Of texts of unlike length the tokens that both begin and end with are paired; what is between is
    paired by its mean, and left out where one side has nothing there.
    """
    if len(states) == len(other_states):
        return states - other_states
    shorter = min(len(ids), len(other_ids))
    start = _shared(ids, other_ids, shorter)
    end = _shared(ids[::-1], other_ids[::-1], shorter - start)
    middle = states[start : len(ids) - end]
    other_middle = other_states[start : len(other_ids) - end]
    rows = [states[:start] - other_states[:start]]
    if len(middle) and len(other_middle):
        rows.append(middle.mean(0, keepdim=True) - other_middle.mean(0, keepdim=True))
    rows.append(states[len(ids) - end :] - other_states[len(other_ids) - end :])
    return torch.cat(rows)


def _shared(ids: list[int], other_ids: list[int], most: int) -> int:
    """How many tokens two texts begin with together, `most` at most."""
    for i in range(most):
        if ids[i] != other_ids[i]:
            return i
    return most


# ---- the sweep over all settings
def head(model) -> Callable:
    """What makes logits of sentence vectors: the next-sentence head, or a fine-tuned classifier."""
    if model.has_nsp:
        return model.nsp_head
    if not hasattr(model.net, "classifier"):
        raise CompanionError(
            f"{model.name} has no head on its sentence vector: load a BERT, or a fine-tuned "
            "classifier with task='sequence-classification'."
        )
    return model.anatomy.classifier(model.net)


def sweep(
    model, subspaces: Subspaces, settings: list[Setting], batches: list[dict], head: Callable
) -> torch.Tensor:
    """Logits of every text under every setting, [settings, texts, classes], on the CPU.

    batches   texts as `batches.encode` gives them: they are sorted, padded, and halved where memory
              runs out
    head      sentence vectors [n, hidden] -> logits [n, classes]

    What settings share runs once. A batch goes through all layers once, once more through the
    second-to-last with its attention projected, and through the last once for each of the 8 ways in
    which the 74 project its input (there what follows attention on the first token alone): 21
    layers in place of 888 in a model of 12. The rest is arithmetic on one vector per text.
    tests/test_projection.py proves it equal to whole forwards under `hooks.project`.
    """
    return sweeps(model, [subspaces], settings, batches, head)[0]


@torch.inference_mode()
def sweeps(
    model,
    fits: list[Subspaces],
    settings: list[Setting],
    batches: list[dict],
    head: Callable,
    progress: str = "",
) -> torch.Tensor:
    """`sweep` for several fits, which share the lower layers: [fits, settings, texts, classes]."""
    layers = _UpperLayers(model, settings, head)
    edits = [layers.edits(fit) for fit in fits]

    def outputs(batch, indices):
        with hooks.record(model, layers.recorded) as plain:
            model.net.base_model(**batch)
        logits = torch.stack([layers.logits(batch, plain, of_fit) for of_fit in edits])
        return logits.movedim(2, 0).cpu()  # one row per text

    return torch.stack(each(model, batches, outputs, progress=progress), dim=2)


@dataclass(frozen=True)
class _Edits:
    """The projections of one fit, on the model's device."""

    by_setting: dict[Setting, dict[str, hooks.Projection]]  # by setting and part
    # Those at attention as `hooks.project` takes them; {} where no setting has any.
    attention: dict[str, hooks.Projection]

    def apply(self, part: str, setting: Setting, vectors: torch.Tensor) -> torch.Tensor:
        """The vectors after what a setting projects at a part, the same where that is nothing."""
        edit = self.by_setting[setting].get(part)
        return vectors if edit is None else edit(vectors)


class _UpperLayers:
    """The last two layers, pooler and head of a model under many settings, for `sweeps`.

    The settings differ in these alone. `plain` are the recorded states of a batch in the untouched
    model, by location.
    """

    def __init__(self, model, settings: list[Setting], head: Callable):
        n = model.n_layers
        self.model = model
        self.settings = settings
        self.head = head
        self.below = f"layer.{n - 3}" if n > 2 else "embeddings"
        self.second_to_last = f"layer.{n - 2}"
        self.last = f"layer.{n - 1}"
        self.recorded = [self.below, self.second_to_last, self.last]
        # What has been projected when a text comes to the last layer, and when it comes to the
        # pooler.
        self.entering_last = _unique(setting.before("cls") for setting in settings)
        self.entering_pooler = _unique(setting.before("sent") for setting in settings)

    def edits(self, fit: Subspaces) -> _Edits:
        """What the settings, and what they have in common, project out under a fit."""
        by_setting = {}
        for setting in [*self.entering_last, *self.entering_pooler, *self.settings]:
            by_setting[setting] = fit.projections(setting, self.model.device)
        any_attention = any(setting.attention for setting in self.settings)
        return _Edits(by_setting, fit.interventions(Setting(attention=any_attention)))

    def logits(self, batch: dict, plain: dict, edits: _Edits) -> torch.Tensor:
        """Of one batch under one fit: [settings, texts, classes]."""
        first_tokens = self.first_tokens(batch, plain, edits)
        sentence_vectors = self.pooled(first_tokens, edits)
        vectors = []
        for setting in self.settings:
            vector = sentence_vectors[setting.before("sent")]
            vector = edits.apply("sent", setting, vector)
            vectors.append(edits.apply("sent_debias", setting, vector))
        logits = self.head(torch.cat(vectors)).float()
        return logits.unflatten(0, (len(self.settings), -1))

    def first_tokens(self, batch: dict, plain: dict, edits: _Edits) -> dict[Setting, torch.Tensor]:
        """The first token that leaves the last layer, by what was projected before that layer."""
        projected = self.attention_projected(batch, plain, edits) if edits.attention else None
        first = {BASE: plain[self.last][:, 0]}
        # Of the last layer no other token is read.
        first_token = torch.zeros(len(first[BASE]), dtype=torch.long)
        for setting in self.entering_last:
            if setting == BASE:
                continue
            leaving = projected if setting.attention else plain[self.second_to_last]
            states = edits.apply("tokens", setting, leaving)
            with (
                hooks.resume(self.model, self.model.n_layers - 1, states),
                hooks.finish(self.model, first_token),
                hooks.record(self.model, [self.last]) as seen,
            ):
                self.model.net.base_model(**batch)
            first[setting] = seen[self.last][:, 0]
        return first

    def attention_projected(self, batch: dict, plain: dict, edits: _Edits) -> torch.Tensor:
        """All tokens that leave the second-to-last layer with its attention projected."""
        layer = self.model.n_layers - 2
        with (
            hooks.resume(self.model, layer, plain[self.below], until=layer),
            hooks.project(self.model, edits.attention),
            hooks.record(self.model, [self.second_to_last]) as seen,
        ):
            self.model.net.base_model(**batch)
        return seen[self.second_to_last]

    def pooled(self, first_tokens: dict, edits: _Edits) -> dict[Setting, torch.Tensor]:
        """Sentence vectors [texts, hidden], by what was projected before the pooler."""
        rows = []
        for setting in self.entering_pooler:
            rows.append(edits.apply("cls", setting, first_tokens[setting.before("cls")]))
        rows = torch.stack(rows)
        vectors = hooks.pool(self.model, rows.flatten(0, 1)).view(rows.shape)
        return dict(zip(self.entering_pooler, vectors))


# ---- 76 models under seven fits: the measurement of notebook 08
def fits(model, data: str = "mini", seed: int = 0, items: int = 0) -> dict[str, Subspaces]:
    """The subspaces under each choice, by name; all but `refitted` fit the untouched model."""
    written = sentence_pairs.written()
    natural = sentence_pairs.natural(data, items=items)
    contexts = sentence_pairs.contexts(data, items)
    order = np.random.default_rng(seed).permutation(len(written))
    first, second = np.array_split(order, 2)
    half = [written[i] for i in sorted(first)]
    other_half = [written[i] for i in sorted(second)]
    return {
        WRITTEN: fit(model, written, natural=natural),
        "half of them": fit(model, half, natural=natural),
        "the other half": fit(model, other_half, natural=natural),
        "natural sentences": fit(model, natural, natural=natural),
        "the triples' contexts": fit(model, contexts, natural=natural),
        "centred": fit(model, written, center=True, natural=natural),
        "refitted": fit(model, written, refit=True, natural=natural),
    }


def measure(
    name: str, data: str = "mini", draws: int = 5, seed: int = 0, device=None, items: int = 0
) -> dict:
    """Strength and distance of every triple pair under all fits and models.

    s, d, accuracy   [fits, 76, triple pairs]; accuracy is the share of a pair's six sentences that
                     are called right at .5
    random           the same three under `draws` random choices of directions, [draws, 76, pairs]
    fits             their names
    triples          the context_id of each triple pair
    explained        a table of the variance that the subspaces explain
    cosines          a table of how far fits agree with the first
    """
    model = registry.load(name, device=device)
    head(model)  # refused here rather than after the work
    fitted = fits(model, data, seed, items)
    first = next(iter(fitted.values()))
    drawn = [random(first, seed + draw) for draw in range(draws)]
    rows = triples.triples(data, items, part="both")
    found = on_triples(model, rows, fitted, drawn, models(), "76 models")
    return found | {"explained": explained(fitted), "cosines": cosines(fitted)}


def on_triples(
    model,
    rows: pd.DataFrame,
    fitted: dict[str, Subspaces],
    drawn: list[Subspaces],
    settings: list[Setting],
    progress: str,
) -> dict:
    """s, d and accuracy of triples under some settings, by fit and by random choice.

    The form is that of `measure`, with these settings in place of the 76.
    """
    contexts, next_sentences = zip(*triples.pairs(rows))
    encoded = encode(model, list(contexts), list(next_sentences))
    every = [*fitted.values(), *drawn]
    logits = sweeps(model, every, settings, encoded, head(model), progress)
    follows = logits.softmax(-1)[..., 0].numpy()
    # Where each probability of a triple pair stands among the sentence pairs.
    places = triples.frame(rows, np.arange(follows.shape[-1]))
    frame = {column: follows[..., places[column].astype(int)] for column in nsp.COLUMNS}
    found = {"s": nsp.strengths(frame), "d": nsp.distances(frame), "accuracy": nsp.right(frame)}
    n = len(fitted)
    return {
        "fits": list(fitted),
        "triples": places.index.to_numpy(),
        "random": {key: values[n:] for key, values in found.items()},
        **{key: values[:n] for key, values in found.items()},
    }


def among(measured: dict, chosen: np.ndarray) -> dict:
    """What `measure` returned of some triple pairs alone, by a mask or by their places."""
    part = dict(measured)
    for key in ("s", "d", "accuracy"):
        part[key] = measured[key][..., chosen]
    part["random"] = {key: values[..., chosen] for key, values in measured["random"].items()}
    part["triples"] = measured["triples"][chosen]
    return part


def explained(fitted: dict[str, Subspaces]) -> pd.DataFrame:
    """Share of variance by fit, part, head (from 1; 0 where there is none), component (from 1)."""
    rows = []
    for name, subspaces in fitted.items():
        for (part, before), subspace in subspaces.parts.items():
            if before != BASE:
                continue
            first_head = 1 if part in ("q", "k", "v") else 0
            by_head = torch.atleast_2d(subspace.explained).tolist()
            for head, shares in enumerate(by_head, first_head):
                for component, share in enumerate(shares, 1):
                    rows.append((name, part, head, component, share))
    return pd.DataFrame(rows, columns=["fit", "part", "head", "component", "share"])


def cosines(fitted: dict[str, Subspaces]) -> pd.DataFrame:
    """|cosine| of each fit's first component with that of the first fit.

    One row per fit, one column per part; at attention the mean over heads. Refitted subspaces are
    left out: before any projection they are the same.
    """
    compared = {name: subspaces for name, subspaces in fitted.items() if not subspaces.refitted}
    first, *others = compared
    rows = {}
    for name in others:
        rows[name] = {}
        for part in ("q", "k", "v", "tokens", "cls", "sent"):
            mine = compared[name].of(part)
            rows[name][part] = _agreement(mine, compared[first].of(part))
    return pd.DataFrame(rows).T


def _agreement(one: Subspace, other: Subspace) -> float:
    """|cosine| of two first components, the mean over heads where there are several."""
    products = one.basis * other.basis
    return products[..., 0, :].sum(-1).abs().mean().item()
