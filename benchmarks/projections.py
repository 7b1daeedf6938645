"""The sweep over 74 projections against 74 whole forwards, side by side in one run.

    python -m benchmarks.projections                                   mini-bert, on the CPU
    python -m benchmarks.projections --device cuda --shape bert-base   a BERT-base of random weights

The second then sends all 76 models over as many texts as Projective methods evaluates: 1,404 pairs of StereoSet, 10,824
of the NLI bias test and 9,824 of SNLI, of random tokens but of the lengths that the real ones have. It prints seconds
and the share of the card's peak, counting the products with weights and the attention over real tokens alone.
"""

import argparse
from functools import partial

import numpy as np
import torch
import transformers

from benchmarks import flops
from lib.bias_a_head import masking
from lib.engine import batches, hooks, models
from lib.projective import projection

PAIRS = [
    (f"{she} {rest}", f"{he} {rest}")
    for she, he in (("The woman", "The man"), ("My mother", "My father"), ("She", "He"))
    for rest in ("opened the window.", "came back from the market.", "has read this book already.")
]
# How long the real pairs are, in tokens of mini-bert: how many, and every tenth percentile.
LENGTHS = {
    "StereoSet": (1_404, [11, 16, 17, 19, 20, 21, 22, 25, 27, 30, 54]),
    "NLI bias test": (10_824, [15, 15, 15, 15, 16, 16, 17, 17, 18, 20, 25]),
    "SNLI test": (9_824, [9, 19, 21, 23, 25, 27, 30, 32, 35, 40, 81]),
}


def random_pairs(n: int, deciles: list[int], vocabulary: int, seed: int = 0) -> list[dict]:
    """Token ids as batches.encode gives them, of lengths spread as the deciles say."""
    rng = np.random.default_rng(seed)
    sizes = np.interp(rng.random(n), np.linspace(0, 1, 11), deciles).round().astype(int)
    return [
        {
            "input_ids": rng.integers(5, vocabulary, size).tolist(),
            "attention_mask": [1] * size,
            "token_type_ids": [0] * (size // 2) + [1] * (size - size // 2),
        }
        for size in sizes
    ]


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
    encoded = random_pairs(n, LENGTHS["StereoSet"][1], 16_000)
    subspaces, head, settings = (
        projection.fit(model, PAIRS),
        projection.head(model),
        projection.settings(),
    )
    projection.sweep(model, subspaces, settings, encoded[:8], head)  # to warm up
    shared, full = [], []
    for _ in range(rounds):
        shared.append(
            flops.seconds(lambda: projection.sweep(model, subspaces, settings, encoded, head))
        )
        full.append(flops.seconds(lambda: whole(model, subspaces, settings, encoded, head)))
    a, b = min(time for time, _ in shared), min(time for time, _ in full)
    apart = (shared[0][1] - full[0][1]).abs().max().item()
    print(
        f"{model.name}, {device}, {n} pairs, torch {torch.__version__}, {torch.get_num_threads()} CPU threads\n"
    )
    print("| | the sweep | 74 whole forwards | ratio |\n|---|---|---|---|")
    print(f"| 74 settings, best of {rounds} | {a:.2f} s | {b:.2f} s | {b / a:.1f} |")
    print(f"| logits differ by at most | {apart:.1e} | | |\n", flush=True)


def everything(device: str, limit: int):
    """All 76 models over all texts of the paper, in three precisions."""
    print(
        f"{torch.cuda.get_device_name() if device.startswith('cuda') else device}, torch {torch.__version__}\n"
    )
    print(
        "| precision | "
        + " | ".join(f"{name}, {n:,} pairs" for name, (n, _) in LENGTHS.items())
        + " | all | share of peak | where the time of SNLI goes |\n"
        + "|---" * 7
        + "|",
        flush=True,
    )
    for precision in flops.PEAK:
        model = random_bert(device)
        classify = torch.nn.Linear(model.net.config.hidden_size, 3).to(device)
        subspaces = projection.fit(model, PAIRS, natural=PAIRS)
        if precision == "bfloat16":
            model.net.to(torch.bfloat16)
            classify.to(torch.bfloat16)
        took, work = [], 0
        with masking.matmuls(precision):
            for name, (n, deciles) in LENGTHS.items():
                encoded = random_pairs(limit or n, deciles, model.net.config.vocab_size)
                head = projection.head(model) if name == "StereoSet" else classify
                sweep = partial(projection.sweep, model, subspaces, projection.models(), head=head)
                sweep(encoded[:3_000])  # to warm up
                took.append(flops.seconds(partial(sweep, encoded))[0])
                # 21 layers in place of a forward's 12
                work += (
                    21
                    / 12
                    * flops.needed(model.net.config, [len(one["input_ids"]) for one in encoded])
                )
            goes = flops.where_time_goes(partial(sweep, encoded))
        print(
            f"| {precision} | "
            + " | ".join(f"{one:.2f} s" for one in [*took, sum(took)])
            + f" | {flops.share_of_peak(work, sum(took), precision)} | {goes} |",
            flush=True,
        )


if __name__ == "__main__":
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
    on_gpu = options.device.startswith("cuda")
    chosen = (
        random_bert(options.device)
        if options.shape == "bert-base"
        else models.load("mini-bert", options.device)
    )
    side_by_side(chosen, options.device, options.pairs or (1_404 if on_gpu else 32), options.rounds)
    if options.shape == "bert-base":
        everything(options.device, options.limit)
