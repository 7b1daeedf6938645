"""Gender subspaces inside an encoder, and the models that come of projecting them out (Projective methods, section 4).

    measured = run.cached(projection.measure, "mini-bert", "mini", 5)   s and d of 76 models: seven fits, 5 random ones
    subspaces = projection.fit(model, pairs)                # pairs: [(female sentence, male sentence), ...]
    settings = projection.settings()                        # the 74 of Table 7, in its order
    encoded = batches.encode(model, firsts, seconds)
    logits = projection.sweep(model, subspaces, settings, encoded, projection.head(model))  # [74, texts, classes]

A projection can sit at four places, and where it sits at one it sits at all that follow:

    attention   queries, keys and values of every head of the second-to-last layer: one component each, whole
    tokens      all tokens that leave the second-to-last layer: [layer 11] of BERT-base's 12
    cls         the first token that leaves the last layer: [layer 12]
    sent        the pooler's output: [SENT]; in a model without pooler the first token of the last layer once more,
                so that there `cls` and `sent` act on one vector, in this order

A Setting says what happens at each place by its name. The paper prints it as up to five digits, read here as
(n, c at [layer 11], n, c at [layer 12], n_p): the caption's names fit neither its section 5 nor the numbers.

A fit is one choice of what the paper leaves open: sentence pairs, centring, refitting. Notebook 08 shows WRITTEN."""

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


class Level(StrEnum):
    """The paper's names for where the first projection sits; the first two are what the 74 are held against."""

    BASE = "Base"
    SENT_DEBIAS = "Sent-debias"
    SENT = "SENT"
    LAYER_12 = "Layer 12"
    LAYER_11 = "Layer 11"
    ATTENTION = "+ attn"


LEVELS = tuple(Level)[2:]  # of the 74, from the output inwards


@dataclass(frozen=True)
class Cut:
    """How much of a subspace is taken out."""

    weighted: (
        bool  # the paper's n: each component by the share of variance that it explains, not whole
    )
    second: bool = False  # the paper's c: the second component too


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
        if self.sent_debias:
            return Level.SENT_DEBIAS
        return next(
            (level for place, level in zip(PLACES, reversed(LEVELS)) if getattr(self, place)),
            Level.BASE,
        )

    @property
    def name(self) -> str:
        """Level and digits: "Layer 11 (0, 1, 1, 0, 1)", as data/paper names the rows of Table 7."""
        return f"{self.level} {self}".strip()

    def __str__(self):
        digits = [
            int(digit)
            for cut in (self.tokens, self.cls)
            if cut
            for digit in (cut.weighted, cut.second)
        ]
        digits += [int(self.sent.weighted)] if self.sent else []
        return str(tuple(digits)) if len(digits) > 1 else "".join(map(str, digits))

    def before(self, place: str) -> "Setting":
        """The part of it that a text has passed when it comes to a place."""
        return Setting(**{name: getattr(self, name) for name in PLACES[: PLACES.index(place)]})


BASE, SENT_DEBIAS = Setting(), Setting(sent_debias=True)


def settings() -> list[Setting]:
    """The 74, in Table 7's order: 2 at SENT, 8 at Layer 12, 32 at Layer 11, 32 with attention."""
    ends = [Cut(weighted) for weighted in (False, True)]
    cuts = [Cut(weighted, second) for weighted, second in product((False, True), repeat=2)]
    deep = [Setting(False, *parts) for parts in product(cuts, cuts, ends)]
    return [
        *(Setting(sent=sent) for sent in ends),
        *(Setting(cls=cls, sent=sent) for cls, sent in product(cuts, ends)),
        *deep,
        *(replace(setting, attention=True) for setting in deep),
    ]


def models() -> list[Setting]:
    """The paper's 76 models: base, sent-debias, and the 74."""
    return [BASE, SENT_DEBIAS, *settings()]


@dataclass(frozen=True, eq=False)
class Subspace:
    """Orthonormal components and the share of variance that each explains; at attention a set per head."""

    basis: torch.Tensor  # [d, width] or [heads, d, head size]
    explained: torch.Tensor  # [d] or [heads, d]

    def projection(self, cut: Cut, tokens: str = "all", device=None) -> hooks.Projection:
        kept = 2 if cut.second else 1
        weight = self.explained[..., :kept] if cut.weighted else 1.0
        return hooks.Projection(self.basis[..., :kept, :].to(device), weight, tokens)


@dataclass(frozen=True, eq=False)
class Subspaces:
    """What `fit` found: a Subspace per part (q, k, v, tokens, cls, sent, sent_debias). Refitted ones depend on what was
    projected before: `parts` is keyed by part and by that, BASE where it is nothing."""

    parts: dict[tuple[str, Setting], Subspace]
    n_layers: int
    refitted: bool = False

    def of(self, part: str, setting: Setting = BASE) -> Subspace:
        fitted_under = setting.before(part) if self.refitted and part in PLACES else BASE
        if (part, fitted_under) not in self.parts:
            raise CompanionError(
                f"No subspace was fitted for {part}: pass natural= to projection.fit for sent-debias."
            )
        return self.parts[part, fitted_under]

    def location(self, part: str) -> str:
        """Where a part is found in the network, in the words of lib/engine/hooks.py."""
        n = self.n_layers
        return {"tokens": f"layer.{n - 2}", "cls": f"layer.{n - 1}"}.get(
            part, f"attn.{part}.{n - 2}" if part in "qkv" else "pooler"
        )

    def projections(self, setting: Setting, device=None) -> dict[str, hooks.Projection]:
        """By part, what a setting projects out there."""
        cuts = dict.fromkeys("qkv", Cut(False)) if setting.attention else {}
        cuts |= {place: getattr(setting, place) for place in ("tokens", "cls", "sent")}
        cuts |= {"sent_debias": Cut(False) if setting.sent_debias else None}
        return {
            part: self.of(part, setting).projection(
                cut, "first" if part == "cls" else "all", device
            )
            for part, cut in cuts.items()
            if cut
        }

    def interventions(self, setting: Setting) -> dict[str, hooks.Projection]:
        """The setting as `hooks.project` takes it."""
        # of two at one module the one named last acts first: sent after cls in a model without pooler
        return {
            self.location(part): edit for part, edit in reversed(self.projections(setting).items())
        }


def fit(
    model,
    pairs: list[tuple[str, str]],
    center: bool = False,
    refit: bool = False,
    natural: list[tuple[str, str]] = (),
) -> Subspaces:
    """The gender subspaces: principal components of the differences female - male of hidden vectors.
    center   take the mean difference off first, as an ordinary PCA would. The paper does not say. Without, which is
             what Bolukbasi et al. and Liang et al. do (they centre each pair, which makes two opposite vectors of its
             difference), the mean difference is what the first component mostly is.
    refit    fit each place on what comes out of the projections before it, again for every setting, instead of on
             the untouched model. The paper does not say.
    natural  pairs for the baseline sent-debias, which is fitted at the pooler on sentences found in text.

    At `tokens` and in the attention every token of a pair gives a difference, the special ones too. Where one side
    has more tokens, those before and after what differs are paired, and what differs by its mean."""
    if model.is_causal or model.n_layers < 2:
        raise CompanionError(
            f"{model.name} cannot be projected so: choose an encoder of two or more layers."
        )
    if len(pairs) < 3 or natural and len(natural) < 3:
        raise CompanionError(
            "A gender subspace cannot be fitted to so few sentence pairs: give three or more."
        )
    subspaces = Subspaces({}, model.n_layers, refit)
    reaching = {
        place: list(
            dict.fromkeys(
                setting.before(place) for setting in settings() if getattr(setting, place)
            )
        )
        for place in PLACES
    }
    stages = [(BASE, (*"qkv", "tokens", "cls", "sent"))]
    if refit:
        stages = [
            (BASE, (*"qkv",)),
            *((before, (place,)) for place in ("tokens", "cls") for before in reaching[place]),
        ]
    for before, parts in stages:
        with hooks.project(model, subspaces.interventions(before)):
            rows = _differences(model, pairs, {part: subspaces.location(part) for part in parts})
        subspaces.parts.update({(part, before): components(rows[part], center) for part in parts})
    if refit:  # the 37 ways in which a text can reach the pooler share most of their way
        sides = [
            sweep(
                model,
                subspaces,
                reaching["sent"],
                encode(model, list(side)),
                lambda vectors: vectors,
            )
            for side in zip(*pairs)
        ]
        subspaces.parts.update(
            {
                ("sent", before): components(female - male, center)
                for before, female, male in zip(reaching["sent"], *sides)
            }
        )
    if natural:
        rows = _differences(model, natural, {"sent_debias": "pooler"})
        subspaces.parts["sent_debias", BASE] = components(rows["sent_debias"], center)
    return subspaces


def components(differences: torch.Tensor, center: bool = False) -> Subspace:
    """The first two principal components of [n, width], or one for each head of [n, heads, head size]."""
    rows, kept = (
        (differences.double(), 2)
        if differences.dim() == 2
        else (differences.double().transpose(0, 1), 1)
    )
    rows = rows - rows.mean(-2, keepdim=True) if center else rows
    _, size, basis = torch.linalg.svd(rows, full_matrices=False)
    total = size.square().sum(-1, keepdim=True)
    if (total < 1e-12).any():
        raise CompanionError(
            "The two sides of the sentence pairs do not differ: swap gender words between them."
        )
    return Subspace(basis[..., :kept, :].float(), (size.square() / total)[..., :kept].float())


def random(like: Subspaces, seed: int) -> Subspaces:
    """Random directions of the rank, weight and place of fitted ones: what a projection does for no reason."""
    rng = torch.Generator().manual_seed(seed)
    drawn = {
        place: torch.randn(own.basis.mT.shape, generator=rng) for place, own in like.parts.items()
    }
    return replace(
        like,
        parts={
            place: replace(own, basis=torch.linalg.qr(drawn[place]).Q.mT.contiguous())
            for place, own in like.parts.items()
        },
    )


@torch.inference_mode()
def _differences(model, pairs, locations: dict[str, str]) -> dict[str, torch.Tensor]:
    """For each part the vectors of the female sentences less those of the male ones."""
    encoded = encode(model, [female for female, _ in pairs] + [male for _, male in pairs])

    def states(batch, indices):
        with hooks.record(model, list(locations.values())) as seen:
            model.net.base_model(**batch)
        sizes = [len(encoded[i]["input_ids"]) for i in indices]
        # the one vector that a place has, as a row, or those of a text's tokens without the padding
        return [
            {
                part: torch.atleast_2d(seen[place][row])[: 1 if part == "cls" else size]
                .double()
                .cpu()
                for part, place in locations.items()
            }
            for row, size in enumerate(sizes)
        ]

    seen, ids = each(model, encoded, states), [text["input_ids"] for text in encoded]
    couples = [(i, i + len(pairs)) for i in range(len(pairs))]
    return {
        part: torch.cat(
            [_aligned(ids[i], ids[j], seen[i][part], seen[j][part]) for i, j in couples]
        )
        for part in locations
    }


def _aligned(ids, others, states, other_states):
    if len(states) == len(other_states):
        return states - other_states
    shorter = min(len(ids), len(others))
    start = next(i for i in range(shorter + 1) if i == shorter or ids[i] != others[i])
    end = next(
        i
        for i in range(shorter - start + 1)
        if i == shorter - start or ids[-1 - i] != others[-1 - i]
    )
    middle, other = states[start : len(ids) - end], other_states[start : len(others) - end]
    means = (
        [middle.mean(0, keepdim=True) - other.mean(0, keepdim=True)]
        if len(middle) and len(other)
        else []
    )
    after = [states[len(ids) - end :] - other_states[len(others) - end :]]
    return torch.cat([states[:start] - other_states[:start], *means, *after])


def head(model):
    """What makes logits of a model's sentence vectors: its next-sentence head, or a fine-tuned classifier."""
    if model.has_nsp:
        return model.nsp_head
    if not hasattr(model.net, "classifier"):
        raise CompanionError(
            f"{model.name} has no head on its sentence vector: load a BERT, or a fine-tuned "
            "classifier with task='sequence-classification'."
        )
    return model.anatomy.classifier(model.net)


def sweep(
    model, subspaces: Subspaces, settings: list[Setting], batches: list[dict], head
) -> torch.Tensor:
    """Logits of every text under every setting, [settings, texts, classes], on the CPU; what settings share runs once.
    batches   texts as `batches.encode` gives them: they are sorted, padded, and halved where memory runs out
    head      sentence vectors [n, hidden] -> logits [n, classes]

    A batch goes through all layers once, once more through the second-to-last with its attention projected, and
    through the last once for each of the 8 ways in which the 74 project its input (there what follows attention on the
    first token alone): 21 layers in place of 888 in a model of 12. The rest is arithmetic on one vector per text.
    tests/test_projection.py proves it equal to whole forwards under `hooks.project`."""
    return sweeps(model, [subspaces], settings, batches, head)[0]


@torch.inference_mode()
def sweeps(
    model,
    fits: list[Subspaces],
    settings: list[Setting],
    batches: list[dict],
    head,
    progress: str = "",
) -> torch.Tensor:
    """`sweep` for several fits of the subspaces, which share the lower layers: [fits, settings, texts, classes]."""
    base, n = model.net.base_model, model.n_layers
    below, second, last = (
        f"layer.{n - 3}" if n > 2 else "embeddings",
        f"layer.{n - 2}",
        f"layer.{n - 1}",
    )
    entering = list(
        dict.fromkeys(setting.before("cls") for setting in settings)
    )  # what the last layer can meet
    pooling = list(
        dict.fromkeys(setting.before("sent") for setting in settings)
    )  # what the pooler can meet
    every = [*entering, *pooling, *settings]
    cuts = [{setting: fit.projections(setting, model.device) for setting in every} for fit in fits]
    hooked = [
        fit.interventions(Setting(attention=any(setting.attention for setting in settings)))
        for fit in fits
    ]

    def upper(batch, plain, cuts, attention):
        def cut(part, setting, vectors):
            return cuts[setting][part](vectors) if part in cuts[setting] else vectors

        leaving = {
            False: plain[second]
        }  # the second-to-last layer, by whether its attention is projected
        if attention:
            with (
                hooks.resume(model, n - 2, plain[below], until=n - 2),
                hooks.project(model, attention),
            ):
                with hooks.record(model, [second]) as seen:
                    base(**batch)
            leaving[True] = seen[second]
        first = {BASE: plain[last][:, 0]}
        first_token = torch.zeros(
            len(first[BASE]), dtype=torch.long
        )  # of the last layer nothing else is read
        for setting in entering:
            if setting != BASE:
                states = cut("tokens", setting, leaving[setting.attention])
                with (
                    hooks.resume(model, n - 1, states),
                    hooks.finish(model, first_token),
                    hooks.record(model, [last]) as seen,
                ):
                    base(**batch)
                first[setting] = seen[last][:, 0]
        rows = torch.stack(
            [cut("cls", setting, first[setting.before("cls")]) for setting in pooling]
        )
        pooled = dict(zip(pooling, hooks.pool(model, rows.flatten(0, 1)).view(rows.shape)))
        vectors = [
            cut("sent_debias", own, cut("sent", own, pooled[own.before("sent")]))
            for own in settings
        ]
        return head(torch.cat(vectors)).float().unflatten(0, (len(settings), -1))

    def outputs(batch, indices):
        with hooks.record(model, [below, second, last]) as plain:
            base(**batch)
        logits = torch.stack([upper(batch, plain, *fit) for fit in zip(cuts, hooked)])
        return logits.movedim(2, 0).cpu()  # one row per text

    return torch.stack(each(model, batches, outputs, progress=progress), dim=2)


# ---- 76 models under seven fits: the measurement of notebook 08
def fits(model, data: str = "mini", seed: int = 0, items: int = 0) -> dict[str, Subspaces]:
    """The subspaces under each choice, by name. All but `refitted` are fitted on the untouched model."""
    written, natural = sentence_pairs.written(), sentence_pairs.natural(data, items=items)
    contexts = sentence_pairs.contexts(data, items)
    order = np.random.default_rng(seed).permutation(len(written))
    halves = [[written[i] for i in sorted(half)] for half in np.array_split(order, 2)]
    chosen = {
        WRITTEN: (written, {}),
        "half of them": (halves[0], {}),
        "the other half": (halves[1], {}),
        "natural sentences": (natural, {}),
        "the triples' contexts": (contexts, {}),
        "centred": (written, {"center": True}),
        "refitted": (written, {"refit": True}),
    }
    return {
        name: fit(model, pairs, natural=natural, **how) for name, (pairs, how) in chosen.items()
    }


def measure(
    name: str, data: str = "mini", draws: int = 5, seed: int = 0, device=None, items: int = 0
) -> dict:
    """s, d and accuracy of every triple pair under all fits and models: arrays [fits, 76, triple pairs]. accuracy: how
    many of a pair's six sentences are called right at .5; random: the same three under `draws` random choices of
    directions, [draws, 76, triple pairs]; as tables, the explained variance and how far fits agree with the first."""
    model, rows = registry.load(name, device=device), triples.triples(data, items)
    next_sentence = head(model)  # refused here rather than after the work
    subspaces = fits(model, data, seed, items)
    drawn = [random(subspaces[next(iter(subspaces))], seed + draw) for draw in range(draws)]
    encoded = encode(model, *(list(side) for side in zip(*triples.pairs(rows))))
    logits = sweeps(
        model, [*subspaces.values(), *drawn], models(), encoded, next_sentence, progress="76 models"
    )
    follows = logits.softmax(-1)[..., 0].numpy()
    places = triples.frame(
        rows, np.arange(follows.shape[-1])
    )  # where each probability of a triple pair stands
    frame = {column: follows[..., places[column].astype(int)] for column in nsp.COLUMNS}
    found = {"s": nsp.strengths(frame), "d": nsp.distances(frame), "accuracy": nsp.right(frame)}
    return {
        "fits": list(subspaces),
        "explained": explained(subspaces),
        "cosines": cosines(subspaces),
        "random": {key: values[len(subspaces) :] for key, values in found.items()},
        **{key: values[: len(subspaces)] for key, values in found.items()},
    }


def explained(subspaces: dict[str, Subspaces]) -> pd.DataFrame:
    """Share of variance by fit, part, head (from 1; 0 where there are none) and component (from 1)."""
    rows = [
        (name, part, head, component, share)
        for name, fitted in subspaces.items()
        for (part, before), subspace in fitted.parts.items()
        if before == BASE
        for head, shares in enumerate(
            torch.atleast_2d(subspace.explained).tolist(), int(part in "qkv")
        )
        for component, share in enumerate(shares, 1)
    ]
    return pd.DataFrame(rows, columns=["fit", "part", "head", "component", "share"])


def cosines(subspaces: dict[str, Subspaces]) -> pd.DataFrame:
    """|cosine| of each fit's first component with that of the first fit: one row per fit, one column per part. At
    attention the mean over heads. Refitted ones are left out: before any projection they are the same."""
    first, *others = [(name, fitted) for name, fitted in subspaces.items() if not fitted.refitted]

    def agreement(part, fitted):
        products = fitted.of(part).basis * first[1].of(part).basis
        return products[..., 0, :].sum(-1).abs().mean().item()

    parts = ["q", "k", "v", "tokens", "cls", "sent"]
    return pd.DataFrame(
        {name: {part: agreement(part, fitted) for part in parts} for name, fitted in others}
    ).T
