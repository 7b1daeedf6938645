"""What masking heads does to bias and to language: the measurement behind Bias A-head's Table 1 (appendix A).

A plan is a list of (strategy, draw, factor, heads, half): the output of these heads is multiplied by the factor, 0 to
mask them, above 1 to amplify them, and SEAT is measured on this half of the sentences. Heads that were chosen by score
were chosen on the other half: what selects them does not judge them. `prepare` loads what all masks need, `under`
measures one, so that lib/publish can share a plan out and resume it. Needs no pandas: a GPU machine may lack it."""

import contextlib
from typing import NamedTuple

import numpy as np
import torch
from tqdm import tqdm

from lib import CompanionError
from lib.bias_a_head import heads
from lib.engine import hooks, models, pppl
from lib.text import data as sources, factual, readers

PRECISIONS = ("float32", "tf32", "bfloat16")
DOSE = 45 / 144  # of all heads: what "All" masks in the paper's BERT
LOUDER = 2.0  # the factor at which amplified heads are judged, and random ones beside them
# One pair of attribute words in so many for SEAT under a mask. A target's association is with the mean of the rest, so
# this shifts all of a mask's associations alike: the interval of a change is over the 165 targets, about .1 either way.
ATTRIBUTES = {"mini": 4, "paper": 1}


def halves(result: dict) -> list[np.ndarray]:
    """The scores of all heads on either half of the sentences: of the folds by turns, those of each half averaged."""
    return [result["folds"][half::2].mean(0) for half in (0, 1)]


def sentences_of(
    half: int, sentences: dict[str, list[str]], folds: int, n: int
) -> dict[str, list[str]]:
    """Of each word up to n sentences that are of this half of the folds (heads.bias_scores deals them out in turn)."""
    return {
        word: [one for i, one in enumerate(own) if i % folds % 2 == half][:n]
        for word, own in sentences.items()
    }


def sizes(scores: np.ndarray) -> tuple[int, int, int]:
    """How many heads Table 1 masks: k = 3, "All" of positive score, and "All" at the paper's dose."""
    k = min(3, scores.size)
    return k, max(k, len(heads.positive(scores))), max(k, round(DOSE * scores.size))


def plan(
    result: dict, draws: int, seed: int = 0, curve: list[int] = (), amplify: list[float] = ()
) -> list[tuple]:
    """Table 1's strategies, "All" at its own size and at the paper's dose; the Top-K at the sizes of `curve`; the k
    lowest heads multiplied by `amplify`. At each size as many heads are drawn at random, `draws` times, from all heads;
    the draws of one number contain each other. A model of fewer heads has them all masked; with fewer than k positive
    ones "All" is the top k (claims.py: no case)."""
    scores, chosen = result["scores"], halves(result)
    k, every, dose = sizes(scores)
    at = sorted({k, dose, every, *(size for size in curve if k < size < every)})
    steps = [("full", 0, 0.0, [], half) for half in (0, 1)]
    for half in (0, 1):
        steps += [("top", 0, 0.0, heads.top(chosen[1 - half], n), half) for n in at]
        lowest = heads.bottom(chosen[1 - half], k)
        steps += [
            ("bottom", 0, 0.0, lowest, half),
            *(("amplified", 0, float(by), lowest, half) for by in amplify),
        ]
    steps += [
        ("random", i, 0.0, heads.random(scores, n, seed + i), i % 2)
        for n in at
        for i in range(draws)
    ]
    return steps + [
        ("random amplified", draw, LOUDER, heads.random(scores, k, seed=seed + draw), draw % 2)
        for draw in range(draws if LOUDER in amplify else 0)
    ]


def asked(run, result: dict) -> tuple:
    """The arguments of `measure` for a run, alike in notebook 04 and in lib/publish, which stores results by them."""
    draws, curve, contexts, lines, sample = (
        getattr(run.sizes, f"masking_{name}")[run.data]
        for name in ("draws", "curve", "contexts", "lines", "sample")
    )
    steps = plan(result, draws, run.seed, curve=curve, amplify=run.sizes.masking_amplify)
    return (
        run.encoder,
        steps,
        run.data,
        contexts,
        lines,
        sample,
        run.sizes.heads_contexts,
        run.sizes.heads_folds,
        run.seed,
        run.sizes.items,
    )


def measure(
    name: str,
    plan: list[tuple],
    data: str,
    contexts: int,
    lines: int,
    sample: int,
    n: int,
    folds: int,
    seed: int = 0,
    items: int = 0,
    device=None,
    precision: str = "float32",
) -> dict[str, np.ndarray]:
    """|SEAT| and PPPL under each mask of the plan, as columns: one row per mask (see `under`).
    contexts        sentences per word and half for SEAT
    lines           of text for PPPL: so many shortest, as a line's cost grows with the square of its length; 0: all
    sample          random and amplified heads read only so many of these lines, evenly spaced; 0: all
    n, folds, seed  of the sentences that the heads were scored on, as in heads.measure
    items           for a try on few words, as in heads.sets_and_contexts; 0: all
    precision       of PPPL's arithmetic, "float32", "tf32" or "bfloat16"; SEAT's is always float32"""
    bench = prepare(
        name, plan, data, contexts, lines, sample, n, folds, seed, items, device, precision
    )
    return columns(
        [under(bench, step) for step in tqdm(range(len(plan)), desc="masks", leave=False)]
    )


class Bench(NamedTuple):
    """What all masks of a plan need: a model, the same for PPPL, words in contexts of either half, texts, a sample."""

    plan: list[tuple]
    model: models.Model
    reader: models.Model
    sets: heads.Sets
    words: list[dict[str, list[str]]]
    texts: list[str]
    sampled: np.ndarray
    precision: str
    items: int


def prepare(
    name: str,
    plan: list[tuple],
    data: str,
    contexts: int,
    lines: int,
    sample: int,
    n: int,
    folds: int,
    seed: int = 0,
    items: int = 0,
    device=None,
    precision: str = "float32",
) -> Bench:
    """Load all that `under` needs; the arguments are those of `measure`."""
    if precision not in PRECISIONS:
        raise CompanionError(
            f"PPPL has no precision '{precision}': choose one of {', '.join(PRECISIONS)}."
        )
    model = models.load(name, device=device)
    reader = (
        models.load(name, device=device, dtype=torch.bfloat16) if precision == "bfloat16" else model
    )
    sets, sentences = heads.sets_and_contexts(
        "gender", data, n, seed, items=items, attributes=ATTRIBUTES[data]
    )
    words = [sentences_of(half, sentences, folds, contexts) for half in (0, 1)]
    sets = sets.only({word for word in sentences if all(own[word] for own in words)})
    words = [{word: own[word] for word in sets.words} for own in words]
    texts = sources.demo("prose") if data == "mini" else readers.wikitext()
    texts = sorted(texts, key=len)[:lines] if lines else texts
    read = min(sample or len(texts), len(texts))
    sampled = np.isin(np.arange(len(texts)), np.linspace(0, len(texts) - 1, read).round())
    return Bench(plan, model, reader, sets, words, texts, sampled, precision, items)


def under(bench: Bench, step: int) -> dict:
    """One row of `measure`, under the step's mask. Keys: step, strategy, k (how many heads), draw, factor, half; seat,
    in absolute value; pppl, over all lines (missing where only the sample was read); pppl_sample, over the sample. For
    intervals: associations, in_x per target; likelihoods, lengths per line; facts per sentence of factual gender."""
    strategy, draw, factor, chosen, half = bench.plan[step]
    whole = (
        strategy in ("top", "bottom") or step == 0
    )  # the full model's language does not depend on the half
    read = np.ones_like(bench.sampled) if whole else bench.sampled
    mask = heads.mask(bench.model, chosen)
    mask = torch.where(mask == 0, factor, mask).to(bench.model.device)
    with hooks.head_mask(bench.model, mask):
        s, in_x = heads.associations(bench.model, bench.sets, bench.words[half])
        facts = factual.log_odds(bench.model, items=bench.items)
    with hooks.head_mask(bench.reader, mask), matmuls(bench.precision):
        result = pppl.pseudo_perplexity(
            bench.reader, [text for text, wanted in zip(bench.texts, read) if wanted]
        )
    likelihoods, lengths = np.full(len(read), np.nan), np.zeros(len(read))
    likelihoods[read], lengths[read] = result.log_likelihoods, result.lengths
    sample = pppl.perplexity(likelihoods[bench.sampled], lengths[bench.sampled])
    return {
        "step": step,
        "strategy": strategy,
        "k": len(chosen),
        "draw": draw,
        "factor": factor,
        "half": half,
        "seat": seat_of(s, in_x),
        "pppl": result.value if read.all() else np.nan,
        "pppl_sample": sample,
        "associations": s.astype(np.float32),
        "in_x": in_x,
        "likelihoods": likelihoods.astype(np.float32),
        "lengths": lengths.astype(np.int32),
        "facts": facts.astype(np.float32),
    }


def columns(rows: list[dict]) -> dict[str, np.ndarray]:
    """Rows of `under` as one array per key, in the order of their steps."""
    rows = sorted(rows, key=lambda row: row["step"])
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}


def signed_seat(associations: np.ndarray, in_x: np.ndarray) -> float:
    """SEAT from the association of each target word, and whether it is of X."""
    in_x = in_x.astype(bool)  # the bootstrap hands it on as numbers
    return (associations[in_x].mean() - associations[~in_x].mean()) / associations.std(ddof=1)


def seat_of(associations: np.ndarray, in_x: np.ndarray) -> float:
    """|SEAT|, likewise."""
    return abs(signed_seat(associations, in_x))


def over_draws(values: np.ndarray) -> np.ndarray:
    """The mean of columns, one a random mask: in the first row as they are, in all others drawn again."""
    again = np.random.default_rng(0).integers(values.shape[1], size=values.shape)
    again[0] = np.arange(values.shape[1])
    return np.take_along_axis(values, again, 1).mean(1)


@contextlib.contextmanager
def matmuls(precision: str):
    """TF32 for float32 products on a GPU, inside alone."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if precision == "tf32" else before)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
