"""What masking heads does to bias and to language: the measurement behind Bias A-head's Table 1 (appendix A).

    scores = run.measured(heads.measure, *heads.asked(run, "mini-bert", "gender"))["scores"]
    run.measured(masking.measure, *masking.asked(run, scores))      SEAT and PPPL under each mask, one row each

A plan is a list of (strategy, draw, factor, heads): the output of these heads is multiplied by the factor, 0 to mask
them, above 1 to amplify them. `prepare` loads what all masks need, `under` measures one, so that lib/publish can share
a plan out among processes and go on where it was stopped. Needs no pandas: it may run on a GPU machine.
"""

import contextlib
from dataclasses import dataclass

import numpy as np
import torch
from tqdm import tqdm

from lib import CompanionError
from lib.bias_a_head import heads
from lib.engine import hooks, models, pppl
from lib.text import data as sources
from lib.text import readers

PRECISIONS = ("float32", "tf32", "bfloat16")


def plan(scores, draws: int, seed: int = 0, k: int = 3, curve: list[int] = (), curve_draws: int = 1,
         amplify: list[float] = ()) -> list[tuple]:
    """Table 1's strategies; the same at the sizes of `curve`; the k lowest heads multiplied by `amplify`.

    "Random-All" draws as many heads as have a positive score, as "All" masks. Draws are made from all heads. A model
    of fewer heads has them all masked; where fewer than k are positive, "All" is the top k (claims.py: no case).
    """
    k = min(k, heads.as_tensor(scores).numel())
    every = max(k, len(heads.positive(scores)))
    sizes = sorted({k, every, *(size for size in curve if k < size < every)})
    chosen = [("full", 0, 0.0, [])]
    chosen += [(name, 0, 0.0, pick(scores, n)) for name, pick in (("top", heads.top), ("bottom", heads.bottom))
               for n in sizes]
    chosen += [("random", draw, 0.0, heads.random(scores, n, seed=seed + draw)) for n in sizes
               for draw in range(draws if n in (k, every) else curve_draws)]
    chosen += [("amplified", 0, float(factor), heads.bottom(scores, k)) for factor in amplify]
    return chosen


def asked(run, scores) -> tuple:
    """The arguments of `measure` for a run, alike in notebook 04 and in lib/publish, which stores results by them."""
    draws, curve, curve_draws, contexts, lines, sample = (getattr(run.sizes, f"masking_{name}")[run.data] for name in (
        "draws", "curve", "curve_draws", "contexts", "lines", "sample"))
    steps = plan(scores, draws, run.seed, curve=curve, curve_draws=curve_draws, amplify=run.sizes.masking_amplify)
    few = (run.sizes.items,) if run.sizes.items else ()
    return run.encoder, steps, run.data, contexts, lines, sample, *few


def measure(name: str, plan: list[tuple], data: str, contexts: int, lines: int, sample: int, items: int = 0,
            device=None, precision: str = "float32") -> dict[str, np.ndarray]:
    """|SEAT| and PPPL under each mask of the plan, as columns: one row per mask (see `under`).

    contexts    sentences per word for SEAT
    lines       of text for PPPL: the so many shortest, since a line's cost grows with the square of its length; 0: all
    sample      masks that are not in Table 1 read only so many of these lines, evenly spaced; 0: all
    items       for a try on few words, as in heads.sets_and_contexts; 0: all
    precision   of PPPL's arithmetic, "float32", "tf32" or "bfloat16"; SEAT's is always float32
    """
    bench = prepare(name, plan, data, contexts, lines, sample, items, device, precision)
    return columns([under(bench, step) for step in tqdm(range(len(plan)), desc="masks", leave=False)])


@dataclass(frozen=True, eq=False)
class Bench:
    """What all masks of a plan need: the model, the same for PPPL, words in context, texts and the sample of them."""
    plan: list[tuple]
    model: models.Model
    reader: models.Model
    sets: heads.Sets
    words: dict[str, list[str]]
    texts: list[str]
    sampled: np.ndarray
    precision: str


def prepare(name: str, plan: list[tuple], data: str, contexts: int, lines: int, sample: int, items: int = 0,
            device=None, precision: str = "float32") -> Bench:
    """Load all that `under` needs; the arguments are those of `measure`."""
    if precision not in PRECISIONS:
        raise CompanionError(f"PPPL has no precision '{precision}': choose one of {', '.join(PRECISIONS)}.")
    model = models.load(name, device=device)
    reader = models.load(name, device=device, dtype=torch.bfloat16) if precision == "bfloat16" else model
    sets, words = heads.sets_and_contexts("gender", data, contexts, items=items)
    texts = sources.demo("prose") if data == "mini" else readers.wikitext()
    texts = sorted(texts, key=len)[:lines] if lines else texts
    sampled = np.ones(len(texts), dtype=bool)
    if 0 < sample < len(texts):
        sampled[:] = False
        sampled[np.linspace(0, len(texts) - 1, sample).round().astype(int)] = True
    return Bench(plan, model, reader, sets, words, texts, sampled, precision)


def under(bench: Bench, step: int) -> dict:
    """One row of `measure`: the step's mask on, SEAT and PPPL measured.

    Keys: step, strategy, k (how many heads), draw, factor; seat, in absolute value; pppl, over all lines (missing
    where only the sample was read); pppl_sample, over the sample. What intervals need: associations and in_x, one per
    target word; likelihoods and lengths, one per line (not for random draws, whose interval is over draws).
    """
    strategy, draw, factor, chosen = bench.plan[step]
    sizes = [len(masked) for name, _, _, masked in bench.plan if name == "top"]
    in_table1 = strategy != "amplified" and len(chosen) in (0, min(sizes, default=0), max(sizes, default=0))
    read = np.ones_like(bench.sampled) if in_table1 else bench.sampled
    mask = heads.mask(bench.model, chosen)
    mask = torch.where(mask == 0, factor, mask).to(bench.model.device)
    with hooks.head_mask(bench.model, mask):
        s, in_x = heads.associations(bench.model, bench.sets, bench.words)
    with hooks.head_mask(bench.reader, mask), matmuls(bench.precision):
        result = pppl.pseudo_perplexity(bench.reader, [text for text, wanted in zip(bench.texts, read) if wanted])
    likelihoods, lengths = np.full(len(read), np.nan), np.zeros(len(read))
    likelihoods[read], lengths[read] = result.log_likelihoods, result.lengths
    sample = pppl.perplexity(likelihoods[bench.sampled], lengths[bench.sampled])
    if strategy == "random":
        likelihoods[:], lengths[:] = np.nan, 0
    return {"step": step, "strategy": strategy, "k": len(chosen), "draw": draw, "factor": factor,
            "seat": seat_of(s, in_x), "pppl": result.value if read.all() else np.nan, "pppl_sample": sample,
            "associations": s.astype(np.float32), "in_x": in_x, "likelihoods": likelihoods.astype(np.float32),
            "lengths": lengths.astype(np.int32)}


def columns(rows: list[dict]) -> dict[str, np.ndarray]:
    """Rows of `under` as one array per key, in the order of their steps."""
    rows = sorted(rows, key=lambda row: row["step"])
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}


def seat_of(associations: np.ndarray, in_x: np.ndarray) -> float:
    """|SEAT| from the association of each target word."""
    in_x = in_x.astype(bool)  # the bootstrap hands it on as numbers
    return abs(associations[in_x].mean() - associations[~in_x].mean()) / associations.std(ddof=1)


@contextlib.contextmanager
def matmuls(precision: str):
    """TF32 for float32 products on a GPU, inside alone."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if precision == "tf32" else before)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
