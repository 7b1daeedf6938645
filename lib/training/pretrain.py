"""Train the shipped models from text files, with the shapes the papers' models have (12 layers x 12 heads).

    python -m lib.training.pretrain prepare TEXT... --unseen FILE... --out data/cache/pretrain
    python -m lib.training.pretrain train bert --text data/cache/pretrain --out data/models/mini-bert --minutes 14
    python -m lib.training.pretrain debias cda --out data/models/mini-bert-cda --minutes 1.3        # see debias.py

`prepare` is described in corpus.py, the kinds (bert, roberta, albert, gpt2) in objectives.py. `train` learns the
tokenizer (unless one lies in the text folder), encodes the text, trains on one GPU in bfloat16 (or, for a try, on a
CPU with --steps), measures the model on held-out documents and writes an ordinary transformers folder: float16
safetensors, tokenizer, config, and training.json with what was done and measured. Optimiser: Muon for the matrices
inside the layers, AdamW for everything else.
"""

import argparse
import json
import shutil
import sys
import time
from pathlib import Path

import tokenizers
import torch
from torch import nn

from lib import CompanionError
from lib.training import corpus
from lib.training.corpus import Tokens
from lib.training.muon import Muon
from lib.training.objectives import KINDS, seeded

LAYERS = (".layer.", ".albert_layers.", ".h.")  # what the names of weights inside layers hold


def optimizers(net: nn.Module, learning_rate: float) -> list[torch.optim.Optimizer]:
    """Muon for the matrices inside the layers, AdamW for embeddings, biases, norms and heads; frozen ones are left."""
    inside, outside, plain = [], [], []
    for name, weight in net.named_parameters():
        if not weight.requires_grad:
            continue
        is_layer = any(part in name for part in LAYERS)
        (plain if weight.ndim < 2 else inside if is_layer else outside).append(weight)
    fused = dict(fused=True) if inside[0].is_cuda else {}
    return [Muon(inside, lr=learning_rate, weight_decay=.05),
            torch.optim.AdamW([dict(params=outside, weight_decay=.01), dict(params=plain, weight_decay=0.)],
                              lr=learning_rate, betas=(.9, .98), **fused)]


def fit(task, tokens: Tokens, device, *, minutes=None, steps=None, batch_tokens=None, learning_rate=None,
        warmup: int = 500, seed: int = 0, report: int = 500) -> dict:
    """Train for so many minutes or steps: linear warm-up, then a linear descent to zero at the end of the budget."""
    torch.manual_seed(seed)
    batch_tokens, rate = batch_tokens or task.batch_tokens, learning_rate or task.learning_rate
    sampler, generator = task.sampler(tokens, device), seeded(device, seed)
    on_gpu = torch.device(device).type == "cuda"
    loss_of = torch.compile(task.loss) if on_gpu else task.loss
    each = optimizers(task.net, rate)
    step, begun, losses = 0, None, []
    while True:
        elapsed = time.time() - begun if begun else 0.
        spent = step / steps if steps else elapsed / (60 * minutes)
        if spent >= 1:
            break
        for optimizer in each:
            for group in optimizer.param_groups:
                group["lr"] = rate * min(1, (step + 1) / warmup) * (1 - spent)
        batch = sampler.draw(batch_tokens, generator=generator)
        with torch.autocast("cuda", torch.bfloat16, enabled=on_gpu):
            loss = loss_of(batch) if isinstance(batch, torch.Tensor) else loss_of(*batch)
        loss.backward()
        nn.utils.clip_grad_norm_(task.net.parameters(), 1.)
        for optimizer in each:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        step += 1
        begun = begun or time.time()  # the first step compiles; the budget starts after it
        if step % report == 0:
            losses.append(round(loss.item(), 3))
            speed = step * batch_tokens / (time.time() - begun) / 1e6
            print(f"step {step:,}  loss {losses[-1]}  {speed:.2f} M tokens/s", flush=True)
    return dict(steps=step, batch_tokens=batch_tokens, learning_rate=rate, tokens_seen=step * batch_tokens,
                tokens_in_text=len(tokens.ids), seconds=round(time.time() - begun), seed=seed)


def text_as_tokens(kind: str, folder: Path, part: str, tokenizer) -> Tokens:
    """The part's token stream, encoded once and kept beside the text."""
    stored = folder / f"{part}.{kind}.npz"
    if not stored.exists():
        corpus.encode(tokenizer, corpus.documents([folder / f"{part}.txt"])).save(stored)
    return Tokens.load(stored)


def load_tokenizer(kind: str, folder: Path, vocabulary: int) -> tokenizers.Tokenizer:
    """The tokenizer in the text folder, learned first from one document in five if it is not there."""
    path = folder / f"{kind}.tokenizer.json"
    if not path.exists():
        texts = (d for i, d in enumerate(corpus.documents([folder / "train.txt"])) if i % 5 == 0)
        corpus.train_tokenizer(kind, texts, vocabulary).save(str(path))
    return tokenizers.Tokenizer.from_file(str(path))


def save(task, out: Path, record: dict):
    """Write the folder whole or not at all: beside it first, then renamed."""
    partial = out.with_name(out.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    task.shipped().half().save_pretrained(partial)
    task.hub_tokenizer().save_pretrained(partial)
    (partial / "training.json").write_text(json.dumps(record, indent=1) + "\n")
    shutil.rmtree(out, ignore_errors=True)
    partial.rename(out)


def train(kind: str, text: Path, out: Path, *, vocabulary=16_384, shape=None, device=None, measure_batches=40,
          **budget) -> dict:
    """Text folder in, model folder out; returns what training.json says."""
    if kind not in KINDS:
        raise CompanionError(f"Unknown kind {kind!r}: choose one of {', '.join(KINDS)}.")
    shape, stream = shape or KINDS[kind].shape, KINDS[kind].vocabulary_of
    if not (text / "train.txt").exists():
        raise CompanionError(f"{text} holds no train.txt: run `python -m lib.training.pretrain prepare` first.")
    if not (budget.get("minutes") or budget.get("steps")):
        raise CompanionError("Say how long to train: --minutes or --steps.")
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(budget.get("seed", 0))
    torch.set_float32_matmul_precision("high")
    tokenizer = load_tokenizer(stream, text, vocabulary)
    tokens = text_as_tokens(stream, text, "train", tokenizer)
    heldout = text_as_tokens(stream, text, "heldout", tokenizer)
    task = KINDS[kind](tokenizer, **shape)
    task.net.to(device)
    done = fit(task, tokens, device, **budget)
    task.net.half().float().eval()  # measured as it ships, rounded to float16
    with torch.inference_mode(), torch.autocast("cuda", torch.bfloat16, enabled=device == "cuda"):
        measures = task.measure(heldout, device, measure_batches, done["batch_tokens"])
    measures = {name: round(value, 4) for name, value in measures.items()}
    counts = text / "counts.json"
    record = dict(kind=kind, **shape, vocabulary=tokenizer.get_vocab_size(),
                  parameters=sum(p.numel() for p in task.shipped().parameters()), training=done, heldout=measures,
                  text=json.loads(counts.read_text()) if counts.exists() else None, torch=torch.__version__)
    save(task, out, record)
    return record


def main(arguments=None):
    from lib.training import debias  # which imports this module

    parser = argparse.ArgumentParser(prog="python -m lib.training.pretrain", description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    prepare = commands.add_parser("prepare", help="clean, split and set aside")
    prepare.add_argument("texts", nargs="+", type=Path, help="paragraph a line, blank line between documents")
    prepare.add_argument("--unseen", nargs="*", type=Path, default=[], help="evaluation text no document may share")
    prepare.add_argument("--out", type=Path, required=True)
    prepare.add_argument("--heldout", type=float, default=.01, help="share of documents set aside")
    training = commands.add_parser("train", help="tokenizer, training, measures, model folder")
    training.add_argument("kind", choices=KINDS)
    training.add_argument("--text", type=Path, required=True, help="what prepare wrote")
    training.add_argument("--out", type=Path, required=True, help="the model's folder")
    for name, kind in dict(minutes=float, steps=int, batch_tokens=int, learning_rate=float, seed=int).items():
        training.add_argument(f"--{name.replace('_', '-')}", type=kind, default=0 if name == "seed" else None)
    debias.options(commands.add_parser("debias", help="go on training a BERT by CDA or Dropout (lib/training/debias.py)"))
    given = vars(parser.parse_args(arguments))
    try:
        command = given.pop("command")
        if command == "debias":
            result = debias.command(**given)
        elif command == "prepare":
            result = corpus.prepare(given["texts"], given["unseen"], given["out"], given["heldout"])
        else:
            result = train(given.pop("kind"), given.pop("text"), given.pop("out"), **given)
    except CompanionError as error:
        print(error, file=sys.stderr)
        return 2
    print(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
