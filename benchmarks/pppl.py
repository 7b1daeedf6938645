"""Pseudo-perplexity against the library minicons at its best batch size: python -m benchmarks.pppl

The lines are the project's prose. minicons masks every token of a line in turn, as Salazar et al.
do, and takes so many lines a batch. A batch is padded to its longest line, so that minicons is also
given the lines sorted by length. All ways take turns: the medians are printed, and each line's sum
of log-probabilities compared.

minicons is no part of the project's environment:

    .venv/bin/python -m pip install --target build/minicons --no-deps \\
        minicons==0.3.39 wonderwords==3.0.1
    PYTHONPATH=build/minicons .venv/bin/python -m benchmarks.pppl
"""

import argparse
from functools import partial
from importlib.metadata import version
from statistics import median

import numpy as np
import torch
from minicons import scorer

from benchmarks import timing
from benchmarks.cloze import masked_head
from lib.engine import models, pppl
from lib.text import data

OURS = "ours"
SIZES = (1, 2, 4, 8, 16)  # lines of a batch of minicons


def by_minicons(judge, texts: list[str], size: int, is_sorted: bool) -> np.ndarray:
    """The sum of log-probabilities of each line."""
    order = list(range(len(texts)))
    if is_sorted:
        order.sort(key=lambda i: len(texts[i]))
    sums = np.zeros(len(texts))
    for start in range(0, len(order), size):
        which = order[start : start + size]
        batch = [texts[i] for i in which]
        sums[which] = judge.sequence_score(batch, reduction=lambda scores: scores.sum().item())
    return sums


def ways_of(model, texts: list[str], judge) -> dict:
    """Functions without arguments, by name: this project's way, and minicons by batch size."""
    ways = {OURS: partial(pppl.pseudo_perplexity, model, texts)}
    for size in SIZES:
        way = f"minicons, {size:2} lines a batch"
        ways[way] = partial(by_minicons, judge, texts, size, is_sorted=False)
        if size > 1:  # with one line a batch the order makes no difference
            ways[f"{way}, sorted"] = partial(by_minicons, judge, texts, size, is_sorted=True)
    return ways


def side_by_side(name: str, n: int, rounds: int):
    """Time all ways in turns on n lines of prose, and compare their sums."""
    model = models.load(name, device="cpu")
    texts = data.demo("prose")
    texts = texts[:: max(1, len(texts) // n)][:n]
    # the name before transformers 5, which minicons uses
    model.tokenizer.batch_encode_plus = model.tokenizer.__call__
    judge = scorer.MaskedLMScorer(masked_head(model), "cpu", tokenizer=model.tokenizer)
    pppl.pseudo_perplexity(model, texts[:2])  # to warm up
    by_minicons(judge, texts[:2], 1, is_sorted=False)
    took, results = timing.in_turns(ways_of(model, texts, judge), rounds)
    ours = results.pop(OURS)
    print(
        f"{name}, {len(texts)} lines, {ours.n_tokens} masks, {rounds} rounds, "
        f"torch {torch.__version__}, minicons {version('minicons')}, "
        f"{torch.get_num_threads()} threads"
    )
    print(f"  {OURS:36} {1e3 * median(took[OURS]) / ours.n_tokens:6.2f} ms a mask")
    for way, sums in results.items():
        gap = np.abs(sums - ours.log_likelihoods)
        print(
            f"  {way:36} {1e3 * median(took[way]) / ours.n_tokens:6.2f} ms a mask: "
            f"{timing.ratio(took[way], took[OURS])}   sums differ by at most {gap.max():.1e}, "
            f"{(gap / np.abs(sums)).max():.1e} of a sum"
        )
    best = min(results, key=lambda way: median(took[way]))
    print(f"  its best, {best}: {timing.ratio(took[best], took[OURS])}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="mini-bert")
    parser.add_argument("--lines", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    side_by_side(options.model, options.lines, options.rounds)


if __name__ == "__main__":
    main()
