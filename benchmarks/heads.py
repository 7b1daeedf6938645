"""Head scores in two passes against one sentence at a time in one graph: python -m benchmarks.heads

The obvious way sends each sentence through the network, keeps the graphs of all of them, and goes back once through
|SEAT|. Both ways take turns on the same sentences: medians, and the scores compared. Then each way runs in a process
of its own, on these sentences and on ten times as many, for the peak of its memory (on Linux).
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path
from statistics import median

import torch

from benchmarks import timing
from lib.bias_a_head import heads, seat
from lib.engine import batches, embed, hooks, models

EVERY = 8  # one gender word in so many: about 70


def sentences(contexts: int) -> tuple[heads.Sets, dict[str, list[str]]]:
    return heads.sets_and_contexts("gender", "mini", contexts, every=EVERY)


def one_graph(model, sets: heads.Sets, contexts: dict[str, list[str]]) -> torch.Tensor:
    """The scores by one graph over all sentences, which go through the network one at a time."""
    mask = torch.ones(model.n_layers, model.n_heads, requires_grad=True)
    vectors = []
    with torch.enable_grad(), hooks.head_mask(model, mask):
        for word, lines in contexts.items():
            own = []
            for line in lines:
                encoded, places = embed.prepare(model, [(word, line)])
                states = model.net.base_model(**batches.pad(model, encoded)).last_hidden_state
                own.append(embed.pool(states, places)[0])
            vectors.append(torch.stack(own).mean(0))
        size = seat.effect_size(*sets.of(torch.stack(vectors).double(), contexts)).abs()
        return torch.autograd.grad(size, mask)[0]


WAYS = {"two passes": lambda *given: heads.bias_scores(*given).scores, "one graph": one_graph}


def peak(way: str, model: str, contexts: int) -> str:
    """Of a process that does this alone, imports and weights included."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.heads",
        "--model",
        model,
        "--contexts",
        str(contexts),
        "--alone",
        way,
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip() if done.returncode == 0 else "not enough memory, or another failure"


def side_by_side(name: str, contexts: int, rounds: int):
    model = models.load(name, device="cpu")
    sets, found = sentences(contexts)
    n = sum(map(len, found.values()))
    WAYS["two passes"](model, *sentences(1))  # to warm up
    took, scores = timing.in_turns(
        {way: lambda f=function: f(model, sets, found) for way, function in WAYS.items()}, rounds
    )
    ours, theirs = scores.values()
    print(
        f"{name}, {len(found)} words, {n} sentences, {rounds} rounds, torch {torch.__version__}, "
        f"{torch.get_num_threads()} threads"
    )
    for way, times in took.items():
        print(f"  {way:12} {1e3 * median(times) / n:6.2f} ms a sentence")
    print(
        f"  one graph takes {timing.ratio(took['one graph'], took['two passes'])} as long; scores differ by at most "
        f"{(ours - theirs).abs().max():.1e}, the largest is {theirs.abs().max():.3f}",
        flush=True,
    )
    for way in WAYS:
        print(
            f"  peak memory, {way:12} {peak(way, name, contexts)}; {peak(way, name, 10 * contexts)}",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="mini-bert")
    parser.add_argument("--contexts", type=int, default=4, help="sentences of each word")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--alone", choices=WAYS, help="this way alone, once, and the peak of its memory"
    )
    options = parser.parse_args()
    if options.alone:
        sets, found = sentences(options.contexts)
        WAYS[options.alone](models.load(options.model, device="cpu"), sets, found)
        # not ru_maxrss, which begins with what the process that started this one had
        used = int(re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024
        print(f"{used / 1e6:,.0f} MB for {sum(map(len, found.values())):,} sentences")
    else:
        side_by_side(options.model, options.contexts, options.rounds)
