"""Pseudo-perplexity against the library minicons at its best batch size: python -m benchmarks.pppl

The lines are the project's prose. minicons masks every token of a line in turn, as Salazar et al. do, and takes so
many lines a batch; a batch is padded to its longest line, so it is also given the lines sorted by length. All ways
take turns: medians, and each line's sum of log-probabilities compared.

minicons stays out of the project's environment:

    .venv/bin/python -m pip install --target build/minicons --no-deps minicons==0.3.39 wonderwords==3.0.1
    PYTHONPATH=build/minicons .venv/bin/python -m benchmarks.pppl
"""

import argparse
from importlib.metadata import version
from statistics import median

import numpy as np
import torch
from minicons import scorer

from benchmarks import timing
from benchmarks.cloze import masked_head
from lib.engine import models, pppl
from lib.text import data

SIZES = (1, 2, 4, 8, 16)  # lines of a batch of minicons


def by_minicons(judge, texts: list[str], size: int, is_sorted: bool) -> np.ndarray:
    """The sum of log-probabilities of each line."""
    order = (
        sorted(range(len(texts)), key=lambda i: len(texts[i]))
        if is_sorted
        else list(range(len(texts)))
    )
    sums = np.zeros(len(texts))
    for start in range(0, len(order), size):
        which = order[start : start + size]
        sums[which] = judge.sequence_score(
            [texts[i] for i in which], reduction=lambda scores: scores.sum().item()
        )
    return sums


def side_by_side(name: str, n: int, rounds: int):
    model = models.load(name, device="cpu")
    texts = data.demo("prose")
    texts = texts[:: max(1, len(texts) // n)][:n]
    model.tokenizer.batch_encode_plus = (
        model.tokenizer.__call__
    )  # its name before transformers 5, which minicons uses
    judge = scorer.MaskedLMScorer(masked_head(model), "cpu", tokenizer=model.tokenizer)
    ways = {"ours": lambda: pppl.pseudo_perplexity(model, texts)}
    ways |= {
        f"minicons, {size:2} lines a batch{', sorted' * is_sorted}": lambda size=size, is_sorted=is_sorted: (
            by_minicons(judge, texts, size, is_sorted)
        )
        for size in SIZES
        for is_sorted in (False, True)[: 1 if size == 1 else 2]
    }
    pppl.pseudo_perplexity(model, texts[:2])  # to warm up
    by_minicons(judge, texts[:2], 1, False)
    took, results = timing.in_turns(ways, rounds)
    ours = results.pop("ours")
    print(
        f"{name}, {len(texts)} lines, {ours.n_tokens} masks, {rounds} rounds, torch {torch.__version__}, "
        f"minicons {version('minicons')}, {torch.get_num_threads()} threads"
    )
    print(f"  {'ours':36} {1e3 * median(took['ours']) / ours.n_tokens:6.2f} ms a mask")
    for way, sums in results.items():
        gap = np.abs(sums - ours.log_likelihoods)
        print(
            f"  {way:36} {1e3 * median(took[way]) / ours.n_tokens:6.2f} ms a mask: "
            f"{timing.ratio(took[way], took['ours'])}   sums differ by at most {gap.max():.1e}, "
            f"{(gap / np.abs(sums)).max():.1e} of a sum"
        )
    best = min(results, key=lambda way: median(took[way]))
    print(f"  its best, {best}: {timing.ratio(took[best], took['ours'])}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="mini-bert")
    parser.add_argument("--lines", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    side_by_side(options.model, options.lines, options.rounds)
