"""Which attention heads carry a stereotype: the bias score of every head (Bias A-head, section 3).

    result = heads.bias_scores(model, heads.gender_sets().only(contexts), contexts)
    result.scores, result.seat, result.p
    heads.top(result, 3)                       [(9, 12), ...]: layer and head, both from 1 as in the paper
    with hooks.head_mask(model, heads.mask(model, heads.top(result, 3))): ...

The score of a head is d|SEAT| / d(its mask) at a mask of ones (equation 4): positive in a biased head, whose
removal lowers |SEAT| as far as the gradient sees, negative in an anti-biased one. `without_each` really removes it."""

from typing import NamedTuple

import numpy as np
import torch

from lib import CompanionError
from lib.bias_a_head import seat
from lib.engine import batches, embed, hooks, models, stats
from lib.text import contexts, data, readers

# SEAT's own tests of gender
STANDARD = ["sent-weat6", "sent-weat6b", "sent-weat7", "sent-weat7b", "sent-weat8", "sent-weat8b"]
KEPT = (
    2**30
)  # bytes of graphs that `bias_scores` keeps in a CPU's memory rather than make them twice


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
        """The sets without what is not among `words` (a list, or contexts)."""
        return Sets(*(tuple(word for word in side if word in words) for side in self))

    def of(self, vectors: torch.Tensor, words) -> list[torch.Tensor]:
        """The rows of X, Y, A and B, where `vectors` has a row for each of `words`."""
        row = {word: i for i, word in enumerate(words)}
        if missing := [word for word in self.words if word not in row]:
            raise CompanionError(
                f"{len(missing)} words of the sets have no contexts ({', '.join(missing[:3])}): "
                "give them some, or pass sets.only(contexts)."
            )
        return [vectors[[row[word] for word in side]] for side in self]


def gender_sets(every: int = 1, attributes: int = 1) -> Sets:
    """X, A female and Y, B male: 82 + 84 targets and 202 + 207 attributes (Kaneko and Bollegala's lists).

    That lines of the list alternate female and male is inferred: the paper counts 84 targets, the list has 84 of
    each. `tailor` and `waiter` are attributes too, and so left out of the targets; the corpus rules of
    `contexts.from_text` would leave them without a line.
    every       take only one in so many targets of either side and pairs of attributes. Whole pairs: where A and B hold
                unlike kinds of words, SEAT measures the kinds.
    attributes  and of the pairs of attributes one in so many times `every`: s(w) is over the mean of many"""
    pairs, targets = data.rows("gender_pairs"), data.rows("gender_stereotypes")
    listed = {word for pair in pairs for word in (pair["female"], pair["male"])}
    sides = [
        [row["word"] for row in targets if row["stereotype"] == side and row["word"] not in listed]
        for side in ("female", "male")
    ]
    return Sets(
        *(tuple(words[::every]) for words in sides),
        *(
            tuple(dict.fromkeys(pair[side] for pair in pairs[:: every * attributes]))
            for side in ("female", "male")
        ),
    )


def race_sets() -> Sets:
    """X, A African-American and Y, B Caucasian: 5 + 6 roles and 3 + 3 attributes (Manzini's lists). All are kept: the
    paper has ten roles, and does not say which. Its three pairs of attributes are inferred (lists/race_words.csv)."""
    groups = "african-american", "caucasian"
    return Sets(
        *(
            tuple(
                row["word"]
                for row in data.rows(words)
                if row[column] == group and row.get("pair", "in none")
            )
            for words, column in (("race_roles", "stereotype"), ("race_words", "group"))
            for group in groups
        )
    )


class HeadScores(NamedTuple):
    """What `bias_scores` finds of a model."""

    scores: torch.Tensor  # [n_layers, n_heads]
    seat: float  # with its sign
    p: float  # of SEAT
    folds: torch.Tensor  # the scores of each, [n_folds, n_layers, n_heads]
    s: torch.Tensor | None = None  # the association of each target word, those of X first


def bias_scores(
    model, sets: Sets, contexts: dict[str, list[str]], folds: int = 1, progress: str = ""
) -> HeadScores:
    """The bias score of every head, exact, in the memory of one batch and KEPT however many contexts there are.

    |SEAT| needs all word vectors at once, so one graph through it would hold the whole corpus. But each vector is a
    sum over sentences, and by the chain rule the gradient is too: pass 1 embeds, |SEAT| is differentiated with
    respect to the few hundred word vectors, and pass 2 sends those gradients back, a batch at a time, adding up
    what reaches the mask. Its graphs are pass 1's in the folds that KEPT holds, made again in the others.
    tests/test_heads.py compares it with the one big graph.
    folds   also score each of so many disjoint folds of the contexts by itself: every word's sentences are dealt
            out in turn, and a word with too few is missing in the last folds"""
    contexts = {word: contexts[word] for word in sets.words if word in contexts}
    pairs = [(word, sentence) for word, sentences in contexts.items() for sentence in sentences]
    row, count = embed.rows(contexts)
    fold = torch.cat([torch.arange(n) for n in count]) % folds
    members = [(fold == n).nonzero()[:, 0] for n in range(folds)]
    of_fold = [[pairs[i] for i in mine] for mine in members]
    mask = torch.ones(
        model.n_layers,
        model.n_heads,
        dtype=model.net.dtype,
        device=model.device,
        requires_grad=True,
    )

    total = torch.zeros(folds, len(contexts), model.net.config.hidden_size, dtype=torch.float64)
    at_once, room = _tokens(model)
    graphs = [[] for _ in range(folds)]  # the batches of a fold, where they are kept
    for n, mine in enumerate(members):

        def add(vectors, which, n=n, mine=mine):
            total[n].index_add_(0, row[mine[which]], vectors.detach().cpu().double())
            graphs[n] += [(vectors, which)] if vectors.requires_grad else []

        may_fit = (
            len(mine) <= room
        )  # a sentence has a token at least: those of too many are not counted
        room -= (
            sum(len(one["input_ids"]) for one in embed.prepare(model, of_fold[n])[0])
            if may_fit
            else len(mine)
        )
        with torch.set_grad_enabled(room >= 0), hooks.head_mask(model, mask):
            embed.each(model, of_fold[n], add, progress, at_once if room >= 0 else None)
    vectors, slope = _slope(sets, list(contexts), total.sum(0), count)

    scores = torch.zeros(model.n_layers, model.n_heads, dtype=torch.float64)
    by_fold = torch.zeros(folds, *scores.shape, dtype=torch.float64)
    for n, mine in enumerate(members):
        here = torch.bincount(row[mine], minlength=len(contexts))
        own = _slope(
            sets.only({word for word, k in zip(contexts, here) if k}),
            list(contexts),
            total[n],
            here,
        )[1]

        def send_back(vectors, which, n=n, mine=mine, own=own):
            at = row[mine[which]]
            values = [
                (vectors * way[at].to(vectors)).sum()
                for way in ([slope, own] if folds > 1 else [slope])
            ]
            grads = [
                torch.autograd.grad(value, mask, retain_graph=i + 1 < len(values))[0].cpu().double()
                for i, value in enumerate(values)
            ]
            scores.add_(grads[0])
            by_fold[n].add_(grads[-1])

        with torch.enable_grad(), hooks.head_mask(model, mask):
            for batch in graphs[n]:
                send_back(*batch)
            if not graphs[n]:
                embed.each(model, of_fold[n], send_back, progress, at_once)
    x, y, a, b = rows = sets.of(vectors, contexts)
    return HeadScores(
        scores.float(),
        seat.effect_size(*rows).item(),
        seat.p_value(*rows),
        by_fold.float(),
        seat.associations(torch.cat([x, y]), a, b),
    )


def _tokens(model) -> tuple[int, int]:
    """Tokens a batch of which a graph is made, on a GPU as many as its free memory should hold (one that is too large
    after all is halved), and tokens whose graphs are kept from pass 1, none on a GPU."""
    size = (
        33 * model.net.dtype.itemsize * model.n_layers * model.net.config.hidden_size // 2
    )  # LLaMA's; BERT's is 2/3
    if model.device.type != "cuda":
        return batches.TOKENS["cpu"] // 4, KEPT // size
    return min(batches.TOKENS["cuda"], 1 + torch.cuda.mem_get_info(model.device)[0] // size), 0


def _slope(sets, words, total, count):
    """Word vectors, and for one sentence of each word d|SEAT| / d(its vector there)."""
    vectors = (total / count.clamp(min=1)[:, None]).requires_grad_()
    with torch.enable_grad():
        (slope,) = torch.autograd.grad(seat.effect_size(*sets.of(vectors, words)).abs(), vectors)
    return vectors.detach(), slope / count.clamp(min=1)[:, None]


def associations(
    model, sets: Sets, contexts: dict[str, list[str]]
) -> tuple[np.ndarray, np.ndarray]:
    """The association of each target word, and whether it is of X: what an interval of SEAT over words needs."""
    x, y, a, b = sets.of(embed.words(model, contexts).double(), contexts)
    return seat.associations(torch.cat([x, y]), a, b).numpy(), np.repeat(
        [True, False], [len(x), len(y)]
    )


# Choosing heads. `scores` is a HeadScores or its tensor; heads are (layer, head), both from 1.
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
    order = torch.randperm(as_tensor(scores).numel(), generator=torch.Generator().manual_seed(seed))
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
    return scores.scores if isinstance(scores, HeadScores) else torch.as_tensor(scores)


def _ranked(scores) -> torch.Tensor:
    if not as_tensor(scores).isfinite().all():
        raise CompanionError(
            "Head scores that are nan or infinite have no rank: check the weights of the model."
        )
    return _settled(scores).flatten().argsort(descending=True, stable=True)


def _settled(scores) -> torch.Tensor:
    """Scores without the digits that differ from machine to machine: equal ones keep the order of their places."""
    return as_tensor(scores).double().round(decimals=stats.SETTLED)


def _first(k: int, order: torch.Tensor, scores) -> list[tuple[int, int]]:
    if not 0 <= k <= len(order):
        raise CompanionError(
            f"{k} heads cannot be chosen from {len(order)}: ask for 0 to {len(order)}."
        )
    n_heads = as_tensor(scores).shape[1]
    return [(i // n_heads + 1, i % n_heads + 1) for i in order[:k].tolist()]


# Does the gradient tell the truth?
@torch.no_grad()
def without_each(
    model, sets: Sets, contexts: dict[str, list[str]], every: int = 1, progress: str = ""
):
    """(layer, head) of one in `every` heads, both from 1, and the associations of the target words in the full model
    and then without each of these, all others on: [1 + n_heads, n_targets]. Without a head of layer l nothing changes
    before that layer: each run starts there, from the full model's states. It is still one run per head, so give it few
    contexts, or take every third head: they lie on diagonals, to be of all layers and of all places in a layer."""
    contexts = {word: contexts[word] for word in sets.words if word in contexts}
    row, count = embed.rows(contexts)
    encoded, places = embed.prepare(
        model, [(word, sentence) for word in contexts for sentence in contexts[word]]
    )
    chosen = [
        (layer, head)
        for layer in range(1, model.n_layers + 1)
        for head in range(1, model.n_heads + 1)
        if (layer + head) % every == 0
    ]
    entries = [
        "embeddings",
        *(f"layer.{n}" for n in range(model.n_layers - 1)),
    ]  # what enters each layer (hooks.py)
    total = torch.zeros(
        1 + len(chosen), len(contexts), model.net.config.hidden_size, dtype=model.net.dtype
    )

    def of_each(batch, indices):
        here, own = [places[i] for i in indices], torch.zeros_like(total)
        for i, off in enumerate([None, *chosen]):
            if off is None:  # the full model, whose states all others start from
                with hooks.record(model, entries) as entering:
                    states = model.net.base_model(**batch).last_hidden_state
            else:
                layer = off[0] - 1
                with (
                    hooks.resume(model, layer, entering[entries[layer]]),
                    hooks.head_mask(model, mask(model, [off])),
                ):
                    states = model.net.base_model(**batch).last_hidden_state
            own[i].index_add_(0, row[indices], embed.pool(states, here).cpu())
        total.add_(
            own
        )  # last: a batch that does not fit is tried again in halves, and must not count twice
        return indices

    batches.each(model, encoded, of_each, progress=progress)
    sides = (sets.of(vectors.double() / count[:, None], list(contexts)) for vectors in total)
    return chosen, torch.stack([seat.associations(torch.cat([x, y]), a, b) for x, y, a, b in sides])


# By name, with plain results, for Run.measured and Run.cached
def asked(run, name: str, bias: str) -> tuple:
    """The arguments of `measure` for a run, alike in all notebooks and in lib/publish, which stores results by them."""
    if run.data == "paper":
        readers.corpus(
            run.stand_ins
        )  # where the run allows none and News-commentary cannot be had, it ends here
    contexts = {"gender": run.sizes.heads_contexts, "race": run.sizes.heads_race_contexts}
    thin = run.sizes.heads_attributes[run.data] if bias == "gender" else 1
    more = (run.sizes.items, thin) if thin > 1 else (run.sizes.items,) if run.sizes.items else ()
    return name, bias, run.data, contexts[bias], run.sizes.heads_folds, run.seed, *more


def measure(
    name: str,
    bias: str,
    source: str,
    n: int,
    folds: int,
    seed: int = 0,
    items: int = 0,
    attributes: int = 1,
    device: str | None = None,
) -> dict:
    """Everything notebook 02 shows of a model on "gender" or "race": `bias_scores`, each word in n contexts.
    source  "mini": the written patterns; "paper": the news corpus
    Keys: family, seat, p, scores [n_layers, n_heads], folds [n_folds, ...], s and in_x (the association of each target
    word, and whether it is of X), words (how many in each set), sentences."""
    sets, sentences = sets_and_contexts(bias, source, n, seed, items=items, attributes=attributes)
    model = models.load(name, device=device)
    result = bias_scores(model, sets, sentences, folds)
    return {
        "family": model.family,
        "seat": result.seat,
        "p": result.p,
        "scores": result.scores.numpy(),
        "folds": result.folds.numpy(),
        "s": result.s.numpy(),
        "in_x": np.arange(len(result.s)) < len(sets.X),
        "words": dict(zip("XYAB", map(len, sets))),
        "sentences": sum(map(len, sentences.values())),
    }


def measure_ablation(
    name: str,
    source: str,
    n: int,
    every: int,
    some: int,
    seed: int = 0,
    items: int = 0,
    device: str | None = None,
) -> dict:
    """Gender scores by gradient and by ablation of one head in `some`, on the same n contexts of one word in `every`.
    Keys: seat, words; of each head switched off: heads (layer, head), gradient, ablation (the fall of |SEAT|);
    s [1 + n_heads, n_targets] and in_x, the associations in the full model and without each head."""
    sets, sentences = sets_and_contexts("gender", source, n, seed, every, items)
    model = models.load(name, device=device)
    gradient = bias_scores(model, sets, sentences)
    some = min(some, model.n_layers * model.n_heads)  # of a network with fewer heads, all
    chosen, s = without_each(model, sets, sentences, some)
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


def sets_and_contexts(
    bias: str,
    source: str,
    n: int,
    seed: int = 0,
    every: int = 1,
    items: int = 0,
    attributes: int = 1,
) -> tuple[Sets, dict[str, list[str]]]:
    """The sets of a bias, less the words that have no context, and up to n contexts for each word.
    items               for a try: a quarter of so many words of each set, two at least; 0: all
    every, attributes   see gender_sets"""
    if bias not in ("gender", "race") or source not in ("mini", "paper"):
        raise CompanionError(
            f"There are no contexts for '{bias}' in '{source}': take gender or race, mini or paper."
        )
    sets = gender_sets(every, attributes) if bias == "gender" else race_sets()
    if source == "mini":
        sentences = contexts.from_patterns(contexts.usable(sets.words), n, seed)
    else:
        sentences = contexts.from_text(sets.words, readers.news(), n, seed, apart=(sets.A, sets.B))
    few = max(2, items // 4) if items else 0
    sets = Sets(*(tuple(stats.first(side, few)) for side in sets.only(sentences)))
    return sets, {word: sentences[word] for word in sets.words}


def standard_seat(name: str, device: str | None = None) -> list[dict]:
    """SEAT's own gender tests on one model, sentence by sentence as sent-bias encodes them."""
    model, rows = models.load(name, device=device), []
    for test in STANDARD:
        vectors = [embed.sentences(model, texts) for texts in readers.seat(test).values()]
        rows.append(
            {
                "model": name,
                "test": test,
                "effect size": seat.effect_size(*vectors).item(),
                "p": seat.p_value(*vectors, n=10_000),
            }
        )
    return rows
