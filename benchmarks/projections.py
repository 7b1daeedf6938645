"""The sweep over 74 projections against 74 whole forwards, side by side in one run.

    python -m benchmarks.projections                                   mini-bert, on the CPU
    python -m benchmarks.projections --device cuda --shape bert-base   a BERT-base, random weights

The second then sends all 76 models over as many texts as Projective Methods evaluates: 1,404 pairs
of StereoSet, 10,824 of the NLI bias test and 9,824 of SNLI. Their tokens are random, their lengths
those of the real ones. It prints seconds and the share of the card's peak, counting the products
with weights and the attention over real tokens alone.
"""

import argparse
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
import transformers

from benchmarks import flops
from lib.bias_a_head import masking
from lib.engine import batches, hooks, models
from lib.projective import projection
from lib.text import pairs as sentence_pairs


@dataclass(frozen=True)
class Lengths:
    """How many pairs a data set has, and how long they are."""

    n: int
    deciles: list[int]  # in tokens of mini-bert: the shortest, every tenth percentile, the longest


LENGTHS = {
    "StereoSet": Lengths(n=1_404, deciles=[11, 16, 17, 19, 20, 21, 22, 25, 27, 30, 54]),
    "NLI bias test": Lengths(n=10_824, deciles=[15, 15, 15, 15, 16, 16, 17, 17, 18, 20, 25]),
    "SNLI test": Lengths(n=9_824, deciles=[9, 19, 21, 23, 25, 27, 30, 32, 35, 40, 81]),
}

# Layers that the sweep computes for each text, where one forward computes 12.
LAYERS_OF_SWEEP = 21


def random_pairs(n: int, deciles: list[int], vocabulary: int, seed: int = 0) -> list[dict]:
    """n pairs of random token ids, as batches.encode gives them, of lengths with these deciles."""
    rng = np.random.default_rng(seed)
    sizes = np.interp(rng.random(n), np.linspace(0, 1, 11), deciles).round().astype(int)
    pairs = []
    for size in sizes:
        n_first = size // 2
        pair = {
            "input_ids": rng.integers(5, vocabulary, size).tolist(),
            "attention_mask": [1] * size,
            "token_type_ids": [0] * n_first + [1] * (size - n_first),
        }
        pairs.append(pair)
    return pairs


def random_bert(device: str) -> models.Model:
    return flops.random_model(transformers.BertConfig(), "mini-bert", "BERT-base's shape", device)


@torch.inference_mode()
def whole(model, subspaces, settings, encoded, head) -> torch.Tensor:
    """The obvious way: for each setting a whole forward of all texts under its hooks."""

    def logits(batch, indices):
        with hooks.record(model, ["pooler"]) as seen:
            model.net.base_model(**batch)
        return head(seen["pooler"]).float().cpu()

    found = []
    for setting in settings:
        with hooks.project(model, subspaces.interventions(setting)):
            found.append(torch.stack(batches.each(model, encoded, logits)))
    return torch.stack(found)


def side_by_side(model, device: str, n: int, rounds: int):
    """Both ways on the same n pairs, best of so many rounds, taken in turns."""
    encoded = random_pairs(n, LENGTHS["StereoSet"].deciles, vocabulary=16_000)
    subspaces = projection.fit(model, sentence_pairs.written())
    head = projection.head(model)
    settings = projection.settings()
    projection.sweep(model, subspaces, settings, encoded[:8], head)  # to warm up
    sweep = partial(projection.sweep, model, subspaces, settings, encoded, head)
    forwards = partial(whole, model, subspaces, settings, encoded, head)
    sweep_seconds = []
    forward_seconds = []
    for _ in range(rounds):
        taken, sweep_logits = flops.seconds(sweep)
        sweep_seconds.append(taken)
        taken, forward_logits = flops.seconds(forwards)
        forward_seconds.append(taken)
    ours = min(sweep_seconds)
    theirs = min(forward_seconds)
    apart = (sweep_logits - forward_logits).abs().max().item()
    print(
        f"{model.name}, {device}, {n} pairs, torch {torch.__version__}, "
        f"{torch.get_num_threads()} CPU threads\n"
    )
    print("| | the sweep | 74 whole forwards | ratio |\n|---|---|---|---|")
    print(
        f"| 74 settings, best of {rounds} | {ours:.2f} s | {theirs:.2f} s | {theirs / ours:.1f} |"
    )
    print(f"| logits differ by at most | {apart:.1e} | | |\n", flush=True)


def everything(device: str, limit: int):
    """All 76 models over all texts of the paper, in three precisions."""
    card = torch.cuda.get_device_name() if device.startswith("cuda") else device
    print(f"{card}, torch {torch.__version__}\n")
    columns = ["precision"]
    columns += [f"{name}, {lengths.n:,} pairs" for name, lengths in LENGTHS.items()]
    columns += ["all", "share of peak", "where the time of SNLI goes"]
    print(f"| {' | '.join(columns)} |")
    print("|---" * len(columns) + "|", flush=True)
    for precision in flops.PEAK:
        print(everything_in(precision, device, limit), flush=True)


def everything_in(precision: str, device: str, limit: int) -> str:
    """The row of one precision in the table of `everything`."""
    model = random_bert(device)
    config = model.net.config
    classify = torch.nn.Linear(config.hidden_size, 3).to(device)
    pairs = sentence_pairs.written()
    subspaces = projection.fit(model, pairs, natural=pairs)
    if precision == "bfloat16":
        model.net.to(torch.bfloat16)
        classify.to(torch.bfloat16)
    took = []
    work = 0.0
    with masking.matmuls(precision):
        for name, lengths in LENGTHS.items():
            encoded = random_pairs(limit or lengths.n, lengths.deciles, config.vocab_size)
            head = projection.head(model) if name == "StereoSet" else classify
            sweep = partial(projection.sweep, model, subspaces, projection.models(), head=head)
            sweep(encoded[:3_000])  # to warm up
            taken, _ = flops.seconds(partial(sweep, encoded))
            took.append(taken)
            sizes = [len(one["input_ids"]) for one in encoded]
            work += LAYERS_OF_SWEEP / 12 * flops.needed(config, sizes)
        goes = flops.where_time_goes(partial(sweep, encoded))
    cells = [precision]
    cells += [f"{one:.2f} s" for one in [*took, sum(took)]]
    cells += [flops.share_of_peak(work, sum(took), precision), goes]
    return f"| {' | '.join(cells)} |"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--shape", choices=["mini-bert", "bert-base"], default="mini-bert")
    parser.add_argument(
        "--pairs", type=int, default=0, help="for the side by side; 0: 32, on a GPU 1,404"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--limit", type=int, default=0, help="pairs of each set for the 76 models; 0: all"
    )
    options = parser.parse_args()
    is_cuda = options.device.startswith("cuda")
    n = options.pairs or (1_404 if is_cuda else 32)
    if options.shape == "mini-bert":
        side_by_side(models.load("mini-bert", options.device), options.device, n, options.rounds)
        return
    side_by_side(random_bert(options.device), options.device, n, options.rounds)
    everything(options.device, options.limit)


if __name__ == "__main__":
    main()
