"""What masking heads does to bias and to language: the measurement behind Bias A-head's Table 1.

A plan is a list of steps. In each step the output of some heads is multiplied by a factor (0 masks
them, more than 1 amplifies them), and SEAT is measured on one half of the sentences. Heads chosen
by score were chosen on the other half: the sentences that select a head do not judge it. `prepare`
loads what all steps need and `under` measures one, so that companion can share out a plan and
resume it.
"""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import NamedTuple

import numpy as np
import torch
from tqdm import tqdm

from lib import CompanionError
from lib.bias_a_head import heads
from lib.engine import hooks, models, pppl, stats
from lib.text import data as sources, factual, readers

PRECISIONS = ("float32", "tf32", "bfloat16")
DOSE = 45 / 144  # of all heads: what "All" masks in the paper's BERT
LOUDER = 2.0  # the factor at which amplified heads are judged, and random ones beside them

SAMPLED = 10  # lines on which a stored measurement is checked

# Keep one in so many pairs of attribute words for SEAT under a mask. A target's association is with
# the mean of these, so that this shifts all of a mask's associations alike. The interval of a
# change is over the 165 targets, about .1 either way.
ATTRIBUTES = {"mini": 4, "paper": 1}


class Step(NamedTuple):
    """One mask of a plan."""

    strategy: str  # full, top, bottom, amplified, random, random amplified, patched
    draw: int  # which of several random choices
    factor: float  # what the output of the heads is multiplied by
    heads: list[tuple[int, int]]  # (layer, head), both from 1
    half: int  # of the sentences, on which SEAT is measured: 0 or 1


@dataclass(frozen=True)
class Workload:
    """How much is measured under each mask."""

    sentences: int  # of each word and half, at most, for SEAT
    lines: int  # of text for PPPL, evenly spaced; 0: all
    sampled_lines: int  # of these, likewise, for heads that Table 1 does not print; 0: all


# What `./reproduce.sh measure table1` takes of a small model: all sentences of a half, five of a
# word's ten; on our own text all lines. The profile `paper` is for a GPU: its own sizes are whole.
WHOLE = {"mini": Workload(20, lines=0, sampled_lines=0), "paper": Workload(20, 300, 100)}
WHOLE_DRAWS = 20
# three heads leave PPPL judgeable, and the paper's Top-3 beside them
WHOLE_DRAWS_OF_THREE = {"mini": 80, "paper": 40}


# ---- the two halves of the sentences
def halves(result: dict) -> list[np.ndarray]:
    """The scores of all heads on either half of the sentences: the mean of every second fold."""
    return [result["folds"][half::2].mean(0) for half in (0, 1)]


def sentences_of(
    half: int, sentences: dict[str, list[str]], folds: int, n: int
) -> dict[str, list[str]]:
    """Up to n sentences of each word that are in this half of the folds.

    heads.bias_scores deals out a word's sentences to the folds in turn.
    """
    kept = {}
    for word, own in sentences.items():
        of_half = [sentence for i, sentence in enumerate(own) if i % folds % 2 == half]
        kept[word] = of_half[:n]
    return kept


def in_halves(
    sets: heads.Sets, sentences: dict[str, list[str]], folds: int, n: int
) -> tuple[heads.Sets, list[dict[str, list[str]]]]:
    """The words that have a sentence in both halves, and their sentences (up to n) in either."""
    first = sentences_of(0, sentences, folds, n)
    second = sentences_of(1, sentences, folds, n)
    sets = sets.only({word for word in sentences if first[word] and second[word]})
    kept_first = {word: first[word] for word in sets.words}
    kept_second = {word: second[word] for word in sets.words}
    return sets, [kept_first, kept_second]


# ---- the plan
def sizes(scores: np.ndarray) -> tuple[int, int, int]:
    """How many heads Table 1 masks: k = 3, "All" of positive score, "All" at the paper's dose."""
    k = min(3, scores.size)
    every = max(k, len(heads.positive(scores)))
    dose = max(k, round(DOSE * scores.size))
    return k, every, dose


def plan(
    result: dict,
    draws: int,
    seed: int = 0,
    curve: Sequence[int] = (),
    amplify: Sequence[float] = (),
    draws_of_three: int = 0,
    falls: np.ndarray | None = None,
) -> list[Step]:
    """The strategies of Table 1, with "All" at its own size and at the paper's dose.

    At each size as many heads are drawn at random from all heads, `draws` times; the choices of one
    draw are nested. A model of few heads has all of them masked; where fewer than k scores are
    positive, "All" is the top k (its claims are then not tested).

    curve           further sizes at which the top heads are masked
    amplify         factors by which the k lowest heads are multiplied
    draws_of_three  how many times k = 3 random heads are masked, if not `draws`
    falls           of |SEAT| on either half when a head alone is masked, [2, layers, heads]
                    (`patching.falls`): the k heads of the highest are masked too, as "patched"
    """
    scores = result["scores"]
    k, every, dose = sizes(scores)
    masked = sorted({k, dose, every, *(size for size in curve if k < size < every)})
    steps = [Step("full", 0, 0.0, [], half) for half in (0, 1)]
    for half in (0, 1):
        choosing = halves(result)[1 - half]
        for size in masked:
            steps.append(Step("top", 0, 0.0, heads.top(choosing, size), half))
        lowest = heads.bottom(choosing, k)
        steps.append(Step("bottom", 0, 0.0, lowest, half))
        for factor in amplify:
            steps.append(Step("amplified", 0, float(factor), lowest, half))
    for size in masked:
        for draw in range(draws_of_three or draws if size == k else draws):
            drawn = heads.random(scores, size, seed + draw)
            steps.append(Step("random", draw, 0.0, drawn, draw % 2))
    if LOUDER in amplify:
        for draw in range(draws):
            drawn = heads.random(scores, k, seed + draw)
            steps.append(Step("random amplified", draw, LOUDER, drawn, draw % 2))
    if falls is not None:
        for half in (0, 1):
            steps.append(Step("patched", 0, 0.0, heads.top(falls[1 - half], k), half))
    return steps


# ---- the measurement
def arguments(
    run, result: dict, whole: bool = False, falls: np.ndarray | None = None
) -> tuple[str, list[Step], heads.Sample, Workload]:
    """The arguments of `measure` for a run; result: heads.measure of its encoder on gender.

    Notebook 04 and companion, which stores results by these arguments, take them from here.

    whole   WHOLE draws, sentences and lines, as `./reproduce.sh measure` takes them; else, and in
            the profile `paper` always, what the profile says
    falls   of |SEAT| without each head, where it is known (see `plan`)
    """
    sizes = run.sizes
    whole = whole and run.profile != "paper"
    steps = plan(
        result,
        draws=WHOLE_DRAWS if whole else sizes.masking_draws[run.data],
        seed=run.seed,
        curve=sizes.masking_curve[run.data],
        amplify=sizes.masking_amplify,
        draws_of_three=WHOLE_DRAWS_OF_THREE[run.data] if whole else 0,
        falls=falls,
    )
    sample = heads.Sample(
        source=run.data,
        contexts=sizes.heads_contexts,
        folds=sizes.heads_folds,
        seed=run.seed,
        items=sizes.items,
        attributes=ATTRIBUTES[run.data],
    )
    workload = Workload(
        sentences=sizes.masking_contexts[run.data],
        lines=sizes.masking_lines[run.data],
        sampled_lines=sizes.masking_sample[run.data],
    )
    return run.encoder, steps, sample, WHOLE[run.data] if whole else workload


def facts_arguments(run, steps: list[Step]) -> tuple[str, list[Step], int]:
    """The arguments of `measure_facts` for a run and the masks of its plan."""
    return run.encoder, steps, run.sizes.items


def measure(
    name: str,
    plan: list[Step],
    sample: heads.Sample,
    workload: Workload,
    device: str | None = None,
    precision: str = "float32",
    only: Sequence[int] | None = None,
) -> dict[str, np.ndarray]:
    """|SEAT| and PPPL under each mask of the plan, as columns: one row per mask (see `under`).

    sample      the sentences that the heads were scored on
    precision   of PPPL's arithmetic, one of PRECISIONS; SEAT's is always float32
    only        the masks to measure, with SAMPLED lines each; nan stands for all else
    """
    bench = prepare(name, plan, sample, workload, device, precision)
    if only is not None:
        few = np.zeros_like(bench.sampled)
        few[np.flatnonzero(bench.sampled)[:: -(-bench.sampled.sum() // SAMPLED)]] = True
        bench = replace(bench, sampled=few, reads_sample_alone=True)
    rows = []
    for step in tqdm(range(len(plan)) if only is None else only, desc="masks", leave=False):
        rows.append(under(bench, step))
    found = columns(rows)
    if only is None:
        return found
    parts = {part: found[part] for part in ("seat", "associations", "likelihoods")}
    return {part: stats.scattered(of, only, len(plan)) for part, of in parts.items()}


measure.items = lambda result: len(result["step"])  # what `only` numbers


def measure_facts(
    name: str,
    plan: list[Step],
    items: int = 0,
    device: str | None = None,
    only: Sequence[int] | None = None,
) -> dict[str, np.ndarray]:
    """Factual gender under each mask of the plan: facts [masks, sentences], the log odds of the
    right pronoun (`factual.log_odds` on 200 pairs of sentences).

    items   how many pairs; 0: all
    only    the masks to measure; nan stands for others
    """
    model = models.load(name, device=device)
    places = range(len(plan)) if only is None else only
    rows = []
    for step in tqdm([plan[place] for place in places], desc="facts", leave=False):
        with hooks.head_mask(model, _mask(model, step)):
            rows.append(factual.log_odds(model, items=items, file=factual.FILE_200))
    return {"facts": stats.scattered(rows, places, len(plan)).astype(np.float32)}


measure_facts.items = lambda result: len(result["facts"])  # what `only` numbers


@dataclass(frozen=True)
class Bench:
    """What all masks of a plan need."""

    plan: list[Step]
    model: models.Model
    reader: models.Model  # the same model, for PPPL: it may have another precision
    sets: heads.Sets
    words: list[dict[str, list[str]]]  # for each half, the sentences of each word
    texts: list[str]
    sampled: np.ndarray  # for each text, whether it is in the sample
    precision: str
    reads_sample_alone: bool = False  # even where Table 1 prints the perplexity


def prepare(
    name: str,
    plan: list[Step],
    sample: heads.Sample,
    workload: Workload,
    device: str | None = None,
    precision: str = "float32",
) -> Bench:
    """Load all that `under` needs; the arguments are those of `measure`."""
    if precision not in PRECISIONS:
        raise CompanionError(
            f"PPPL has no precision '{precision}': choose one of {', '.join(PRECISIONS)}."
        )
    model = models.load(name, device=device)
    reader = model
    if precision == "bfloat16":
        reader = models.load(name, device=device, dtype=torch.bfloat16)
    sets, sentences = heads.sets_and_contexts("gender", sample)
    sets, words = in_halves(sets, sentences, sample.folds, workload.sentences)
    texts = sources.demo("prose") if sample.source == "mini" else readers.wikitext()
    texts = list(compress(texts, _evenly_spaced(len(texts), workload.lines)))
    return Bench(
        plan=plan,
        model=model,
        reader=reader,
        sets=sets,
        words=words,
        texts=texts,
        sampled=_evenly_spaced(len(texts), workload.sampled_lines),
        precision=precision,
    )


def _evenly_spaced(n: int, wanted: int) -> np.ndarray:
    """For each of n places, whether it is one of so many evenly spaced ones; 0 wanted: all."""
    wanted = min(wanted or n, n)
    return np.isin(np.arange(n), np.linspace(0, n - 1, wanted).round())


def under(bench: Bench, step: int) -> dict:
    """One row of `measure`, under the step's mask.

    Keys: step, strategy, k (how many heads), draw, factor, half; seat, in absolute value; pppl,
    over all lines (nan where only the sample was read); pppl_sample, over the sample. For
    intervals: associations and in_x per target; likelihoods and lengths per line.
    """
    chosen = bench.plan[step]
    # the full model's language does not depend on the half: its first step is enough
    is_printed = step == 0 or _is_printed(bench.plan, chosen, bench.model)
    reads_all = is_printed and not bench.reads_sample_alone
    read = np.ones_like(bench.sampled) if reads_all else bench.sampled
    texts = [text for text, is_read in zip(bench.texts, read) if is_read]
    s, in_x = associations(bench, step)
    with hooks.head_mask(bench.reader, _mask(bench.reader, chosen)), matmuls(bench.precision):
        result = pppl.pseudo_perplexity(bench.reader, texts)
    likelihoods = np.full(len(read), np.nan)
    likelihoods[read] = result.log_likelihoods
    lengths = np.zeros(len(read))
    lengths[read] = result.lengths
    return {
        "step": step,
        "strategy": chosen.strategy,
        "k": len(chosen.heads),
        "draw": chosen.draw,
        "factor": chosen.factor,
        "half": chosen.half,
        "seat": seat_of(s, in_x),
        "pppl": result.value if read.all() else np.nan,
        "pppl_sample": pppl.perplexity(likelihoods[bench.sampled], lengths[bench.sampled]),
        "associations": s.astype(np.float32),
        "in_x": in_x,
        "likelihoods": likelihoods.astype(np.float32),
        "lengths": lengths.astype(np.int32),
    }


def _is_printed(plan: list[Step], chosen: Step, model) -> bool:
    """Whether Table 1 prints the perplexity under a mask of chosen heads: Top-3, Bottom-3, All and
    its dose. The sizes between them are for curves, which take the sample.
    """
    if chosen.strategy != "top":
        return chosen.strategy == "bottom"
    every = [len(step.heads) for step in plan if step.strategy == "top"]
    dose = round(DOSE * model.n_layers * model.n_heads)
    return len(chosen.heads) in (min(every), dose, max(every))


def associations(bench: Bench, step: int) -> tuple[np.ndarray, np.ndarray]:
    """(association of each target, whether it is of X) under the step's mask."""
    chosen = bench.plan[step]
    with hooks.head_mask(bench.model, _mask(bench.model, chosen)):
        return heads.associations(bench.model, bench.sets, bench.words[chosen.half])


def _mask(model, step: Step) -> torch.Tensor:
    """What the step multiplies the output of each head by [n_layers, n_heads]."""
    mask = heads.mask(model, step.heads)
    return torch.where(mask == 0, step.factor, mask).to(model.device)


def columns(rows: list[dict]) -> dict[str, np.ndarray]:
    """Rows of `under` as one array per key, in the order of their steps."""
    rows = sorted(rows, key=lambda row: row["step"])
    found = {}
    for name in rows[0]:
        found[name] = np.stack([row[name] for row in rows])
    return found


measure.in_steps = prepare, under, columns  # how it is made mask by mask, each of them kept


def signed_seat(associations: np.ndarray, in_x: np.ndarray) -> float:
    """SEAT from the association of each target word, and whether it is of X."""
    in_x = in_x.astype(bool)  # the bootstrap hands it on as numbers
    return (associations[in_x].mean() - associations[~in_x].mean()) / associations.std(ddof=1)


def seat_of(associations: np.ndarray, in_x: np.ndarray) -> float:
    """|SEAT| from the association of each target word, and whether it is of X."""
    return abs(signed_seat(associations, in_x))


def mean_over_masks(values: np.ndarray) -> np.ndarray:
    """The mean over random masks, which are the columns of values [1 + draws, masks].

    The first row is the measurement itself, with the masks as they are. The others are bootstrap
    samples: in each the masks are resampled too.
    """
    indices = stats.bootstrap_indices(values.shape[1], draws=len(values), seed=0)
    indices[0] = np.arange(values.shape[1])
    return np.take_along_axis(values, indices, axis=1).mean(1)


@contextlib.contextmanager
def matmuls(precision: str):
    """Inside, products of float32 matrices on a GPU use TF32 where the precision is "tf32"."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if precision == "tf32" else before)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
