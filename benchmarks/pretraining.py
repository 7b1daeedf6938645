"""What packing and batched Muon save, side by side in one run, and how fast a training step is:

    python -m benchmarks.pretraining [--device cuda] [--tokens 131072]

Uses the shipped mini-bert's shape and tokenizer, and the project's prose repeated into documents as text.
"""

import argparse
import time

import tokenizers
import torch

from benchmarks.flops import PEAK
from lib import paths
from lib.text import data
from training import corpus, loop
from training.objectives import Bert, seeded
from training.packing import PairSampler


def seconds(function, repeats: int, device: str) -> float:
    """Of one call: the best of three rounds of so many calls."""
    rounds = []
    for _ in range(3):
        start = time.perf_counter()
        for _ in range(repeats):
            function()
        if device == "cuda":
            torch.cuda.synchronize()
        rounds.append((time.perf_counter() - start) / repeats)
    return min(rounds)


def text():
    """The project's prose as tokens, and the tokenizer."""
    tokenizer = tokenizers.Tokenizer.from_file(str(paths.MODELS / "mini-bert" / "tokenizer.json"))
    prose = data.demo("prose")
    documents = ["\n".join(prose[i : i + 10]) for i in range(0, len(prose), 10)] * 50
    return corpus.encode(tokenizer, documents, workers=1), tokenizer


def training_step(device: str, batch_tokens: int, repeats: int) -> tuple[float, float]:
    """Seconds a training step of mini-bert, and the model FLOPs that it needs: three times a forward's."""
    torch.manual_seed(0)
    tokens, tokenizer = text()
    task = Bert(tokenizer, **Bert.shape)
    task.net.to(device)
    sampler, generator = task.sampler(tokens, device), seeded(device, 0)
    step = loop.stepper(task, sampler, loop.optimizers(task.net, 1e-4), batch_tokens, generator)
    for _ in range(loop.WARM if device == "cuda" else 1):
        step()
    batch, config = sampler.draw(batch_tokens, generator=generator), task.net.config
    width, layers = config.hidden_size, config.num_hidden_layers
    needed = 2 * (4 * width**2 + 2 * width * config.intermediate_size) * layers * batch_tokens
    needed += 4 * width * layers * (batch.bounds.diff().double() ** 2).sum().item()
    needed += 2 * len(batch.masked) * (width**2 + width * config.vocab_size)
    return seconds(step, repeats, device), 3 * needed


def padding(device: str) -> tuple[float, float]:
    """Share of the tokens of a batch that are real: pairs packed end to end, and a row of 128 each."""
    tokens, tokenizer = text()
    sampler = PairSampler(tokens, tokenizer, device, longest=128)
    batch = sampler.draw(131_072, generator=seeded(device, 0))
    pairs = int((batch.not_next >= 0).sum())
    real = int(batch.bounds[pairs])
    return real / len(batch.ids), real / (128 * pairs)


def optimiser_steps(device: str) -> tuple[float, float]:
    """Seconds a step of the 72 matrices of mini-bert's layers: batched by shape, and torch's one by one."""
    width = 288
    shapes = [(width, width)] * 48 + [(4 * width, width)] * 12 + [(width, 4 * width)] * 12
    matrices = [torch.nn.Parameter(torch.randn(shape, device=device)) for shape in shapes]
    for matrix in matrices:
        matrix.grad = torch.randn_like(matrix)
    ours = loop.Muon(matrices, lr=1e-3)
    theirs = torch.optim.Muon(matrices, lr=1e-3, adjust_lr_fn="match_rms_adamw")
    repeats = 20 if device == "cuda" else 1
    return seconds(ours.step, repeats, device), seconds(theirs.step, repeats, device)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument(
        "--tokens", type=int, help="of a training step; default: 131072, on a CPU 2048"
    )
    given = parser.parse_args()
    device, on_gpu = given.device, given.device == "cuda"
    packed, padded = padding(device)
    ours, theirs = optimiser_steps(device)
    print(
        f"device                      {device}, torch {torch.__version__}, {torch.get_num_threads()} threads"
    )
    print(f"real tokens, packed         {packed:.1%}")
    print(f"real tokens, rows of 128    {padded:.1%}   ratio {packed / padded:.2f}")
    print(f"Muon step, batched          {1e3 * ours:.1f} ms")
    print(f"Muon step, torch.optim      {1e3 * theirs:.1f} ms   ratio {theirs / ours:.2f}")
    size = given.tokens or (131_072 if on_gpu else 2_048)
    took, needed = training_step(device, size, 12 if on_gpu else 1)
    print(
        f"training step               {1e3 * took:.1f} ms, {size / took / 1e6:.4f} M tokens a second, "
        f"{needed / took / 1e12:.2f} TFLOPs a second"
        + f", {needed / took / PEAK['bfloat16']:.1%} of peak"
        * on_gpu,
        flush=True,
    )
