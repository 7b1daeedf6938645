"""Head scores in two passes against one sentence at a time in one graph: python -m benchmarks.heads

The obvious way sends each sentence through the network, keeps the graphs of all of them, and goes
back once through |SEAT|. Both ways take turns on the same sentences: the medians are printed, and
the scores compared. Then each way runs in a process of its own, on these sentences and on ten times
as many, for the peak of its memory (on Linux).
"""

import argparse
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from statistics import median

import torch

from benchmarks import timing
from lib.bias_a_head import heads, seat
from lib.engine import batches, embed, hooks, models

EVERY = 8  # one gender word in so many: about 70


def sentences(contexts: int) -> tuple[heads.Sets, dict[str, list[str]]]:
    """Every eighth gender word in so many sentences."""
    return heads.sets_and_contexts("gender", heads.Sample("mini", contexts), every=EVERY)


def two_passes(model, sets: heads.Sets, contexts: dict[str, list[str]]) -> torch.Tensor:
    """The scores as this project computes them."""
    return heads.bias_scores(model, sets, contexts).scores


def one_graph(model, sets: heads.Sets, contexts: dict[str, list[str]]) -> torch.Tensor:
    """The scores by one graph over all sentences, which go through the network one at a time."""
    mask = torch.ones(model.n_layers, model.n_heads, requires_grad=True)
    word_vectors = []
    with torch.enable_grad(), hooks.head_mask(model, mask):
        for word, lines in contexts.items():
            vectors = [vector_in(model, word, line) for line in lines]
            word_vectors.append(torch.stack(vectors).mean(0))
        parts = sets.of(torch.stack(word_vectors).double(), contexts)
        size = seat.effect_size(*parts).abs()
        return torch.autograd.grad(size, mask)[0]


def vector_in(model, word: str, sentence: str) -> torch.Tensor:
    """The vector of a word in one sentence, with its graph."""
    encoded, places = embed.prepare(model, [(word, sentence)])
    states = model.net.base_model(**batches.pad(model, encoded)).last_hidden_state
    return embed.pool(states, places)[0]


WAYS = {"two passes": two_passes, "one graph": one_graph}


def side_by_side(name: str, contexts: int, rounds: int):
    """Time both ways in turns, compare their scores, and print the peak memory of each."""
    model = models.load(name, device="cpu")
    sets, found = sentences(contexts)
    n = count(found)
    two_passes(model, *sentences(1))  # to warm up
    ways = {}
    for way, function in WAYS.items():
        ways[way] = partial(function, model, sets, found)
    took, scores = timing.in_turns(ways, rounds)
    print(
        f"{name}, {len(found)} words, {n} sentences, {rounds} rounds, torch {torch.__version__}, "
        f"{torch.get_num_threads()} threads"
    )
    for way, times in took.items():
        print(f"  {way:12} {1e3 * median(times) / n:6.2f} ms a sentence")
    ours = scores["two passes"]
    theirs = scores["one graph"]
    print(
        f"  one graph takes {timing.ratio(took['one graph'], took['two passes'])} as long; "
        f"scores differ by at most {(ours - theirs).abs().max():.1e}, "
        f"the largest is {theirs.abs().max():.3f}",
        flush=True,
    )
    for way in WAYS:
        small = peak_of_process(way, name, contexts)
        large = peak_of_process(way, name, 10 * contexts)
        print(f"  peak memory, {way:12} {small}; {large}", flush=True)


def count(found: dict[str, list[str]]) -> int:
    """How many sentences there are for all words together."""
    return sum(len(lines) for lines in found.values())


def peak_of_process(way: str, model: str, contexts: int) -> str:
    """What a process prints that runs one way alone: its memory has imports and weights too."""
    command = [sys.executable, "-m", "benchmarks.heads"]
    command += ["--model", model, "--contexts", str(contexts), "--alone", way]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        return "not enough memory, or another failure"
    return done.stdout.strip()


def alone(way: str, name: str, contexts: int):
    """Run one way once, and print the peak of this process's memory."""
    sets, found = sentences(contexts)
    WAYS[way](models.load(name, device="cpu"), sets, found)
    # not ru_maxrss, which begins with what the process that started this one had
    status = Path("/proc/self/status").read_text()
    kilobytes = int(re.search(r"VmHWM:\s*(\d+) kB", status)[1])
    print(f"{kilobytes * 1024 / 1e6:,.0f} MB for {count(found):,} sentences")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="mini-bert")
    parser.add_argument("--contexts", type=int, default=4, help="sentences of each word")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--alone", choices=WAYS, help="this way alone, once, and the peak of its memory"
    )
    options = parser.parse_args()
    if options.alone:
        alone(options.alone, options.model, options.contexts)
    else:
        side_by_side(options.model, options.contexts, options.rounds)


if __name__ == "__main__":
    main()
