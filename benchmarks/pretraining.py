"""What packing and batched Muon save, and how fast a training step is, side by side in one run.

    python -m benchmarks.pretraining [--device cuda] [--tokens 131072]

It uses the shape and the tokenizer of the bundled mini-bert. The text is the project's prose,
repeated into documents.
"""

import argparse

import tokenizers
import torch

from benchmarks import flops
from lib import paths
from lib.text import data
from training import corpus, loop
from training.objectives import Bert, seeded
from training.packing import PairSampler

LINES = 10  # of prose in a document
COPIES = 50  # of each document
LONGEST = 128  # tokens of a pair
SAMPLE = 131_072  # tokens of the batch whose padding is measured


def seconds(function, repeats: int) -> float:
    """Seconds of one call: the best of three rounds of so many calls."""

    def calls():
        for _ in range(repeats):
            function()

    return min(flops.seconds(calls)[0] for _ in range(3)) / repeats


def text():
    """The project's prose as tokens, and the tokenizer."""
    tokenizer = tokenizers.Tokenizer.from_file(str(paths.MODELS / "mini-bert" / "tokenizer.json"))
    prose = data.demo("prose")
    documents = []
    for start in range(0, len(prose), LINES):
        documents.append("\n".join(prose[start : start + LINES]))
    return corpus.encode(tokenizer, documents * COPIES, workers=1), tokenizer


def training_step(device: str, batch_tokens: int, repeats: int) -> tuple[float, float]:
    """Seconds of a training step of mini-bert, and the model FLOPs that it needs."""
    torch.manual_seed(0)
    tokens, tokenizer = text()
    task = Bert(tokenizer, **Bert.shape)
    task.net.to(device)
    sampler = task.sampler(tokens, device)
    generator = seeded(device, 0)
    step = loop.stepper(task, sampler, loop.optimizers(task.net, 1e-4), batch_tokens, generator)
    for _ in range(loop.WARM if device == "cuda" else 1):
        step()
    batch = sampler.draw(batch_tokens, generator=generator)
    needed = 3 * forward_flops(task.net.config, batch)  # a step is three forwards
    return seconds(step, repeats), needed


def forward_flops(config, batch) -> float:
    """Model FLOPs of one forward of a packed batch: products, attention and predicted words."""
    width = config.hidden_size
    vocabulary = 2 * len(batch.masked) * (width**2 + width * config.vocab_size)
    return flops.needed(config, batch.bounds.diff().cpu()) + vocabulary


def shares_of_real_tokens(device: str) -> tuple[float, float]:
    """The share of a batch's tokens that are no padding.

    First of pairs that are packed end to end, then of pairs that have a row of 128 tokens each.
    """
    tokens, tokenizer = text()
    sampler = PairSampler(tokens, tokenizer, device, longest=LONGEST)
    batch = sampler.draw(SAMPLE, generator=seeded(device, 0))
    n_pairs = int((batch.not_next >= 0).sum())
    n_real = int(batch.bounds[n_pairs])
    return n_real / len(batch.ids), n_real / (LONGEST * n_pairs)


def optimiser_steps(device: str) -> tuple[float, float]:
    """Seconds of a step of the 72 matrices in mini-bert's layers.

    First of this project's Muon, batched by shape, then of torch's, which takes them one by one.
    """
    width = 288
    shapes = [(width, width)] * 48 + [(4 * width, width)] * 12 + [(width, 4 * width)] * 12
    matrices = [torch.nn.Parameter(torch.randn(shape, device=device)) for shape in shapes]
    for matrix in matrices:
        matrix.grad = torch.randn_like(matrix)
    ours = loop.Muon(matrices, lr=1e-3)
    theirs = torch.optim.Muon(matrices, lr=1e-3, adjust_lr_fn="match_rms_adamw")
    repeats = 20 if device == "cuda" else 1
    return seconds(ours.step, repeats), seconds(theirs.step, repeats)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument(
        "--tokens", type=int, help="of a training step; default: 131072, on a CPU 2048"
    )
    options = parser.parse_args()
    device = options.device
    is_cuda = device == "cuda"
    packed, padded = shares_of_real_tokens(device)
    ours, theirs = optimiser_steps(device)
    print(
        f"device                      {device}, torch {torch.__version__}, "
        f"{torch.get_num_threads()} threads"
    )
    print(f"real tokens, packed         {packed:.1%}")
    print(f"real tokens, rows of {LONGEST}    {padded:.1%}   ratio {packed / padded:.2f}")
    print(f"Muon step, batched          {1e3 * ours:.1f} ms")
    print(f"Muon step, torch.optim      {1e3 * theirs:.1f} ms   ratio {theirs / ours:.2f}")
    size = options.tokens or (131_072 if is_cuda else 2_048)
    took, needed = training_step(device, size, repeats=12 if is_cuda else 1)
    rate = needed / took
    line = (
        f"training step               {1e3 * took:.1f} ms, "
        f"{size / took / 1e6:.4f} M tokens a second, {rate / 1e12:.2f} TFLOPs a second"
    )
    if is_cuda:
        line += f", {rate / flops.PEAK['bfloat16']:.1%} of peak"
    print(line, flush=True)


if __name__ == "__main__":
    main()
