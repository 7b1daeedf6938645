"""Which attention heads carry a stereotype: the bias score of every head (Bias A-head, section 3).

    result = heads.bias_scores(model, heads.gender_sets().only(contexts), contexts)
    result.scores, result.seat, result.p
    heads.top(result, 3)          # [(9, 12), ...]: layer and head, from 1 as in the paper
    with hooks.head_mask(model, heads.mask(model, heads.top(result, 3))): ...

The score of a head is d|SEAT| / d(its mask) at a mask of ones (equation 4). It is positive in a
biased head, whose removal lowers |SEAT| as far as the gradient predicts, and negative in an
anti-biased one. `without_each` removes each head and measures what happens.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch

from lib import CompanionError
from lib.bias_a_head import seat
from lib.engine import batches, embed, hooks, models, stats
from lib.text import contexts as sentence_sources, data, readers

# SEAT's own tests of gender
STANDARD = ["sent-weat6", "sent-weat6b", "sent-weat7", "sent-weat7b", "sent-weat8", "sent-weat8b"]

# Bytes of graphs that `bias_scores` keeps in a CPU's memory, so as not to compute them twice.
KEPT = 2**30


# ---- word sets
class Sets(NamedTuple):
    """Target words X and Y, attribute words A and B; the stereotype ties X to A, and Y to B."""

    X: tuple[str, ...]
    Y: tuple[str, ...]
    A: tuple[str, ...]
    B: tuple[str, ...]

    @property
    def words(self) -> list[str]:
        return list(dict.fromkeys(self.X + self.Y + self.A + self.B))

    def only(self, words) -> "Sets":
        """The sets restricted to `words` (a collection, or contexts by word)."""
        return Sets(*(tuple(word for word in side if word in words) for side in self))

    def of(self, vectors: torch.Tensor, words: Iterable[str]) -> list[torch.Tensor]:
        """The rows of X, Y, A and B, where `vectors` has a row for each of `words`."""
        row = {word: i for i, word in enumerate(words)}
        missing = [word for word in self.words if word not in row]
        if missing:
            raise CompanionError(
                f"{len(missing)} words of the sets have no contexts ({', '.join(missing[:3])}): "
                "give them some, or pass sets.only(contexts)."
            )
        return [vectors[[row[word] for word in side]] for side in self]


def gender_sets(every: int = 1, attributes: int = 1) -> Sets:
    """X, A female and Y, B male: 82 + 84 targets and 202 + 207 attributes.

    The lists are Kaneko and Bollegala's. That their lines alternate female and male is inferred:
    the paper counts 84 targets, and the list has 84 of each. `tailor` and `waiter` are attributes
    too and so left out of the targets; the corpus rules of `contexts.from_text` would leave them
    without a line.

    every       keep one in so many targets of either side and one in so many pairs of attributes.
                Whole pairs: where A and B hold unlike kinds of words, SEAT measures the kinds.
    attributes  keep one in `every * attributes` pairs of attributes: s(w) is over the mean of many
    """
    pairs = data.rows("gender_pairs")
    listed = {pair["female"] for pair in pairs} | {pair["male"] for pair in pairs}
    targets = {"female": [], "male": []}
    for row in data.rows("gender_stereotypes"):
        if row["word"] not in listed and row["stereotype"] in targets:
            targets[row["stereotype"]].append(row["word"])
    kept = pairs[:: every * attributes]
    return Sets(
        X=tuple(targets["female"][::every]),
        Y=tuple(targets["male"][::every]),
        A=tuple(dict.fromkeys(pair["female"] for pair in kept)),
        B=tuple(dict.fromkeys(pair["male"] for pair in kept)),
    )


def race_sets() -> Sets:
    """X, A African-American and Y, B Caucasian: 5 + 6 roles and 3 + 3 attributes (Manzini's lists).

    All roles are kept: the paper has ten, and does not say which. Its three pairs of attributes are
    inferred (lists/race_words.csv).
    """
    roles = {"african-american": [], "caucasian": []}
    for row in data.rows("race_roles"):
        roles[row["stereotype"]].append(row["word"])
    attributes = {"african-american": [], "caucasian": []}
    for row in data.rows("race_words"):
        if row["pair"]:
            attributes[row["group"]].append(row["word"])
    return Sets(
        X=tuple(roles["african-american"]),
        Y=tuple(roles["caucasian"]),
        A=tuple(attributes["african-american"]),
        B=tuple(attributes["caucasian"]),
    )


@dataclass(frozen=True)
class Sample:
    """Which words and sentences a measurement is made on."""

    source: str  # "mini": the written patterns; "paper": the news corpus
    contexts: int  # sentences of each word, at most
    folds: int = 1  # disjoint parts of the sentences, each of which is scored by itself
    seed: int = 0
    items: int = 0  # for a try: a quarter of so many words of each set, two at least; 0: all
    attributes: int = 1  # of gender: keep one in so many pairs of attributes


def sets_and_contexts(
    bias: str, sample: Sample, every: int = 1
) -> tuple[Sets, dict[str, list[str]]]:
    """The sets of a bias, without words that have no context, and the contexts of each word.

    every  keep one in so many words of gender, as in `gender_sets`
    """
    if bias not in ("gender", "race") or sample.source not in ("mini", "paper"):
        raise CompanionError(
            f"There are no contexts for '{bias}' in '{sample.source}': take gender or race, mini "
            "or paper."
        )
    sets = gender_sets(every, sample.attributes) if bias == "gender" else race_sets()
    if sample.source == "mini":
        words = sentence_sources.usable(sets.words)
        sentences = sentence_sources.from_patterns(words, sample.contexts, sample.seed)
    else:
        sentences = sentence_sources.from_text(
            sets.words, readers.news(), sample.contexts, sample.seed, apart=(sets.A, sets.B)
        )
    few = max(2, sample.items // 4) if sample.items else 0
    sets = Sets(*(tuple(stats.first(side, few)) for side in sets.only(sentences)))
    return sets, {word: sentences[word] for word in sets.words}


# ---- bias scores
class HeadScores(NamedTuple):
    """What `bias_scores` finds of a model."""

    scores: torch.Tensor  # [n_layers, n_heads]
    seat: float  # with its sign
    p: float  # of SEAT
    folds: torch.Tensor  # the scores on each fold, [n_folds, n_layers, n_heads]
    s: torch.Tensor | None = None  # the association of each target word, those of X first


@dataclass
class _Fold:
    """One of the disjoint parts of the contexts."""

    pairs: list[tuple[str, str]]  # (word, sentence)
    row: torch.Tensor  # for each pair, which of the words it is of
    total: torch.Tensor  # [words, hidden]: the sum of a word's vectors, filled by pass 1
    pooling: str  # as in embed.each
    kept: list = field(default_factory=list)  # (vectors, indices) of batches whose graphs are kept

    @property
    def count(self) -> torch.Tensor:
        """How many sentences each word has here."""
        return torch.bincount(self.row, minlength=len(self.total))


def bias_scores(
    model,
    sets: Sets,
    contexts: dict[str, list[str]],
    folds: int = 1,
    progress: str = "",
    pooling: str = "word",
) -> HeadScores:
    """The bias score of every head: exact, and in the memory of one batch and KEPT.

    One graph through |SEAT| would hold the whole corpus. But each word vector is a sum over
    sentences, and by the chain rule the gradient is too. Pass 1 embeds all sentences; |SEAT| is
    differentiated by the word vectors; pass 2 sends those gradients back, a batch at a time, and
    adds up what reaches the mask. It uses the graphs of pass 1 for the folds that KEPT holds.

    folds     also score each of so many disjoint folds of the contexts by itself: a word's
              sentences are dealt out in turn, one with too few is missing in the last folds
    pooling   as in embed.each: the paper takes the word's own tokens
    """
    contexts = {word: contexts[word] for word in sets.words if word in contexts}
    words = list(contexts)
    _, count = embed.rows(contexts)
    parts = _deal_out(model, contexts, folds, pooling)
    on = {"dtype": model.net.dtype, "device": model.device}
    mask = torch.ones(model.n_layers, model.n_heads, requires_grad=True, **on)
    tokens, budget = _tokens_with_graph(model)

    for part, keeps_graphs in zip(parts, _which_to_keep(model, parts, budget)):
        _embed(model, mask, part, tokens if keeps_graphs else None, progress)
    total = torch.stack([part.total for part in parts]).sum(0)
    vectors, slope = _slope(sets, words, total, count)

    scores = torch.zeros(model.n_layers, model.n_heads, dtype=torch.float64)
    by_fold = torch.zeros(folds, *scores.shape, dtype=torch.float64)
    for part, scores_of_fold in zip(parts, by_fold):
        sums = [(slope, scores)]
        if folds > 1:
            sums.append((_slope_of_fold(sets, words, part), scores_of_fold))
        _send_back(model, mask, part, sums, tokens, progress)
    if folds == 1:
        by_fold[0] = scores

    x, y, a, b = sets.of(vectors, words)
    return HeadScores(
        scores=scores.float(),
        seat=seat.effect_size(x, y, a, b).item(),
        p=seat.p_value(x, y, a, b),
        folds=by_fold.float(),
        s=seat.associations(torch.cat([x, y]), a, b),
    )


def _deal_out(model, contexts: dict[str, list[str]], folds: int, pooling: str) -> list[_Fold]:
    """The sentences of each word, dealt out to the folds in turn."""
    parts = []
    for n in range(folds):
        pairs = []
        row = []
        for i, (word, sentences) in enumerate(contexts.items()):
            for sentence in sentences[n::folds]:
                pairs.append((word, sentence))
                row.append(i)
        total = torch.zeros(len(contexts), model.net.config.hidden_size, dtype=torch.float64)
        parts.append(_Fold(pairs, torch.tensor(row, dtype=torch.long), total, pooling))
    return parts


def _tokens_with_graph(model) -> tuple[int, int]:
    """How many tokens a batch with a graph may have, and the graphs of how many tokens are kept.

    On a GPU a batch has as many as the free memory should hold (one that is too large after all is
    halved), and no graph is kept from pass 1.
    """
    # bytes of graph for each token: LLaMA's; BERT's are 2/3 of it
    size = 33 * model.net.dtype.itemsize * model.n_layers * model.net.config.hidden_size // 2
    if model.device.type != "cuda":
        return batches.TOKENS["cpu"] // 4, KEPT // size
    free, _ = torch.cuda.mem_get_info(model.device)
    return min(batches.TOKENS["cuda"], 1 + free // size), 0


def _which_to_keep(model, parts: list[_Fold], budget: int) -> list[bool]:
    """For each fold, whether pass 1 keeps its graphs: the first folds that fit the token budget."""
    keeps_graphs = []
    for part in parts:
        if len(part.pairs) <= budget:
            encoded, _ = embed.prepare(model, part.pairs, pooling=part.pooling)
            budget -= sum(len(one["input_ids"]) for one in encoded)
        else:
            budget = -1  # a sentence has at least one token: so many are not even counted
        keeps_graphs.append(budget >= 0)
    return keeps_graphs


def _embed(model, mask: torch.Tensor, part: _Fold, tokens: int | None, progress: str):
    """Pass 1 on a fold: fill in its totals and, in batches of `tokens`, keep the graphs.

    tokens  None: keep no graph, and take batches of the usual size
    """

    def add(vectors, indices):
        part.total.index_add_(0, part.row[indices], vectors.detach().cpu().double())
        if vectors.requires_grad:
            part.kept.append((vectors, indices))

    with torch.set_grad_enabled(tokens is not None), hooks.head_mask(model, mask):
        embed.each(model, part.pairs, add, progress, tokens, pooling=part.pooling)


def _send_back(model, mask: torch.Tensor, part: _Fold, sums: list, tokens: int, progress: str):
    """Pass 2 on a fold: add d|SEAT| / d(mask) to each sum.

    sums  (slope, sum): d|SEAT| / d(vector of a sentence) for each word, and what to add to
    """

    def send(vectors, indices):
        row = part.row[indices]
        values = [(vectors * slope[row].to(vectors)).sum() for slope, _ in sums]
        gradients = []
        for i, value in enumerate(values):
            is_last = i + 1 == len(values)
            (gradient,) = torch.autograd.grad(value, mask, retain_graph=not is_last)
            gradients.append(gradient.cpu().double())
        for (_, total), gradient in zip(sums, gradients):
            total.add_(gradient)

    with torch.enable_grad(), hooks.head_mask(model, mask):
        for vectors, indices in part.kept:
            send(vectors, indices)
        if not part.kept:
            embed.each(model, part.pairs, send, progress, tokens, pooling=part.pooling)


def _slope(
    sets: Sets, words: list[str], total: torch.Tensor, count: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Word vectors, and for one sentence of each word d|SEAT| / d(its vector there)."""
    count = count.clamp(min=1)[:, None]
    vectors = (total / count).requires_grad_()
    with torch.enable_grad():
        size = seat.effect_size(*sets.of(vectors, words)).abs()
        (slope,) = torch.autograd.grad(size, vectors)
    return vectors.detach(), slope / count


def _slope_of_fold(sets: Sets, words: list[str], part: _Fold) -> torch.Tensor:
    """The slope where |SEAT| is that of this fold's sentences, and of the words that have some."""
    count = part.count
    present = {word for word, n in zip(words, count) if n}
    _, slope = _slope(sets.only(present), words, part.total, count)
    return slope


def associations(
    model, sets: Sets, contexts: dict[str, list[str]]
) -> tuple[np.ndarray, np.ndarray]:
    """The association of each target word, and whether it is of X: for intervals over words."""
    s = associations_of(sets, embed.words(model, contexts).double(), contexts)
    return s.numpy(), np.arange(len(s)) < len(sets.X)


def associations_of(sets: Sets, vectors: torch.Tensor, words: Iterable[str]) -> torch.Tensor:
    """The association of each target word, X first, where `vectors` has a row for each word."""
    x, y, a, b = sets.of(vectors, words)
    return seat.associations(torch.cat([x, y]), a, b)


# ---- choosing heads: `scores` is a HeadScores or its tensor; heads are (layer, head), both from 1
def top(scores, k: int) -> list[tuple[int, int]]:
    """The k heads of the highest scores, highest first."""
    return _first(k, _ranked(scores), scores)


def bottom(scores, k: int) -> list[tuple[int, int]]:
    """The k heads of the lowest scores, lowest first."""
    return _first(k, _ranked(scores).flip(0), scores)


def positive(scores) -> list[tuple[int, int]]:
    """Every biased head, the paper's "All": those of positive score, highest first."""
    return top(scores, int((_settled(scores) > 0).sum()))


def random(scores, k: int, seed: int = 0) -> list[tuple[int, int]]:
    """k heads drawn from all, whatever their scores."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(as_tensor(scores).numel(), generator=generator)
    return _first(k, order, scores)


def mask(model, chosen: list[tuple[int, int]]) -> torch.Tensor:
    """For hooks.head_mask: zero at the chosen heads, one elsewhere."""
    ones = torch.ones(model.n_layers, model.n_heads)
    for layer, head in chosen:
        if not (1 <= layer <= model.n_layers and 1 <= head <= model.n_heads):
            raise CompanionError(
                f"{model.name} has no head {layer}-{head}: layers go from 1 to {model.n_layers}, "
                f"heads from 1 to {model.n_heads}."
            )
        ones[layer - 1, head - 1] = 0
    return ones


def as_tensor(scores) -> torch.Tensor:
    """The scores [n_layers, n_heads] of a HeadScores, a tensor or an array."""
    return scores.scores if isinstance(scores, HeadScores) else torch.as_tensor(scores)


def _ranked(scores) -> torch.Tensor:
    """The places of all heads, flattened, by falling score."""
    if not as_tensor(scores).isfinite().all():
        raise CompanionError(
            "Head scores that are nan or infinite have no rank: check the weights of the model."
        )
    return _settled(scores).flatten().argsort(descending=True, stable=True)


def _settled(scores) -> torch.Tensor:
    """Scores without the digits that differ from machine to machine; ties keep their order."""
    return as_tensor(scores).double().round(decimals=stats.SETTLED)


def _first(k: int, order: torch.Tensor, scores) -> list[tuple[int, int]]:
    """The first k of these places as (layer, head), both from 1."""
    if not 0 <= k <= len(order):
        raise CompanionError(
            f"{k} heads cannot be chosen from {len(order)}: ask for 0 to {len(order)}."
        )
    n_heads = as_tensor(scores).shape[1]
    return [(i // n_heads + 1, i % n_heads + 1) for i in order[:k].tolist()]


# ---- removing heads, to check what the gradient predicts
@torch.no_grad()
def associations_in_each(
    model, sets: Sets, contexts: dict[str, list[str]], states_of, n: int
) -> torch.Tensor:
    """[n, targets]: the association of each target word, X first, in each of n states of a model.

    states_of   (batch, indices of its sentences) -> the n last states of the batch, one by one
    """
    row, count = embed.rows(contexts)
    pairs = [(word, sentence) for word, own in contexts.items() for sentence in own]
    encoded, places = embed.prepare(model, pairs)
    total = torch.zeros(n, len(contexts), model.net.config.hidden_size, dtype=torch.float64)

    def add_each(batch, indices):
        here = [places[i] for i in indices]
        found = torch.zeros_like(total)
        for of_one, states in zip(found, states_of(batch, indices), strict=True):
            vectors = embed.pool(states, here).cpu().double()
            of_one.index_add_(0, row[indices], vectors)
        # last: a batch that does not fit is tried again in halves, and must not count twice
        total.add_(found)
        return indices

    batches.each(model, encoded, add_each)
    rows = [associations_of(sets, of_one / count[:, None], contexts) for of_one in total]
    return torch.stack(rows)


def without_each(
    model,
    sets: Sets,
    contexts: dict[str, list[str]],
    every: int = 1,
    only: Sequence[int] | None = None,
) -> tuple[list[tuple[int, int]], torch.Tensor]:
    """(layer, head) of one in `every` heads, and the associations of all target words without it.

    only   which of these heads, by their number from 0, to remove; None: all

    The associations are [1 + heads, targets]: in the full model first, then without each head, all
    others on. Without a head of layer l nothing changes before that layer, so that each run starts
    there, from the full model's states. It is still one run per head: give it few contexts, or take
    every third head. These lie on diagonals, to be of all layers and of all places in a layer.
    """
    contexts = {word: contexts[word] for word in sets.words if word in contexts}
    chosen = _on_diagonals(model, every)
    chosen = chosen if only is None else [chosen[i] for i in only]

    def states_of(batch, indices):
        entering, states = entered(model, batch)
        yield states
        for layer, head in chosen:
            off = mask(model, [(layer, head)])
            with hooks.resume(model, layer - 1, entering[layer - 1]), hooks.head_mask(model, off):
                states = model.net.base_model(**batch).last_hidden_state
            yield states

    return chosen, associations_in_each(model, sets, contexts, states_of, 1 + len(chosen))


def _on_diagonals(model, every: int) -> list[tuple[int, int]]:
    """(layer, head), both from 1, of one head in so many."""
    places = np.ndindex(model.n_layers, model.n_heads)
    both = [(layer + 1, head + 1) for layer, head in places]
    return [(layer, head) for layer, head in both if (layer + head) % every == 0]


def entered(model, batch: dict) -> tuple[list[torch.Tensor], torch.Tensor]:
    """What enters each layer in a forward of a batch, and the last states."""
    names = ["embeddings", *(f"layer.{layer}" for layer in range(model.n_layers - 1))]
    with hooks.record(model, names) as seen:
        states = model.net.base_model(**batch).last_hidden_state
    return [seen[name] for name in names], states


# ---- by name, with plain results, for Run.measured
def arguments(run, name: str, bias: str) -> tuple[str, str, Sample]:
    """The arguments of `measure` for a run.

    All notebooks and companion, which stores results by these arguments, take them from here.
    """
    if run.data == "paper":
        # ends the run here where it allows no stand-in and News-commentary cannot be had
        readers.corpus(run.stand_ins)
    sizes = run.sizes
    is_gender = bias == "gender"
    sample = Sample(
        source=run.data,
        contexts=sizes.heads_contexts if is_gender else sizes.heads_race_contexts,
        folds=sizes.heads_folds,
        seed=run.seed,
        items=sizes.items,
        attributes=sizes.heads_attributes[run.data] if is_gender else 1,
    )
    return name, bias, sample


def arguments_of_ablation(run, name: str, whole: bool = False) -> tuple[str, Sample, int, int]:
    """The arguments of `measure_ablation` for a run.

    whole   every head, on the words and sentences of the scores, as `./reproduce.sh measure`
            takes them; else as few as the profile says, for a CPU
    """
    if whole:
        _, _, sample = arguments(run, name, "gender")
        return name, sample, 1, 1
    sizes = run.sizes
    sample = Sample(run.data, sizes.ablation_contexts, seed=run.seed, items=sizes.items)
    return name, sample, sizes.ablation_every[run.data], sizes.ablation_heads[run.data]


def measure(name: str, bias: str, sample: Sample, device: str | None = None) -> dict:
    """Everything notebook 02 shows of a model on "gender" or "race": `bias_scores` on a sample.

    Keys: family, seat, p, scores [n_layers, n_heads], folds [n_folds, n_layers, n_heads], s and
    in_x (the association of each target word, and whether it is of X), words (how many in each
    set), sentences (how many).
    """
    sets, sentences = sets_and_contexts(bias, sample)
    model = models.load(name, device=device)
    result = bias_scores(model, sets, sentences, sample.folds)
    return {
        "family": model.family,
        "seat": result.seat,
        "p": result.p,
        "scores": result.scores.numpy(),
        "folds": result.folds.numpy(),
        "s": result.s.numpy(),
        "in_x": np.arange(len(result.s)) < len(sets.X),
        "words": {"X": len(sets.X), "Y": len(sets.Y), "A": len(sets.A), "B": len(sets.B)},
        "sentences": sum(len(own) for own in sentences.values()),
    }


def measure_ablation(
    name: str,
    sample: Sample,
    every_word: int,
    every_head: int,
    device: str | None = None,
    only: Sequence[int] | None = None,
) -> dict:
    """Gender scores by gradient and by removing heads, on the same contexts.

    every_word   keep one in so many words
    every_head   remove one in so many heads
    only         which of these, by their number: s is nan for all others, and comes alone
    Keys: seat, words (how many); of each head removed: heads (layer, head), gradient, ablation (by
    how much |SEAT| falls without it); s [1 + heads, targets] and in_x, the associations in the full
    model and without each head.
    """
    sets, sentences = sets_and_contexts("gender", sample, every_word)
    model = models.load(name, device=device)
    every_head = min(every_head, model.n_layers * model.n_heads)  # a small network: one head
    chosen, s = without_each(model, sets, sentences, every_head, only=only)
    if only is not None:
        every = len(_on_diagonals(model, every_head))
        return {"s": stats.scattered(s.numpy(), [0, *(1 + head for head in only)], 1 + every)}
    gradient = bias_scores(model, sets, sentences)
    size = seat.size_of(s, len(sets.X)).abs()
    layers, numbers = np.array(chosen).T - 1
    return {
        "seat": gradient.seat,
        "words": len(sets.words),
        "heads": np.array(chosen),
        "s": s.numpy(),
        "in_x": np.arange(s.shape[1]) < len(sets.X),
        "gradient": gradient.scores.numpy()[layers, numbers],
        "ablation": (size[0] - size[1:]).numpy(),
    }


measure_ablation.items = lambda result: len(result["heads"])  # what `only` numbers


def standard_seat(name: str, device: str | None = None) -> list[dict]:
    """SEAT's own gender tests on one model, sentence by sentence as sent-bias encodes them."""
    model = models.load(name, device=device)
    rows = []
    for test in STANDARD:
        vectors = [embed.sentences(model, texts) for texts in readers.seat(test).values()]
        size = seat.effect_size(*vectors).item()
        p = seat.p_value(*vectors, n=10_000)
        rows.append({"model": name, "test": test, "effect size": size, "p": p})
    return rows
