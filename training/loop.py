"""Train the shipped models from text files: one loop, its optimisers, its schedule and its checkpoints.

    loop.train("bert", text_folder, out, minutes=14)     tokenizer, token streams, training, measures, model folder
    loop.fit(task, tokens, device, steps=100)            the loop itself, which debias.py uses too

What is written is an ordinary transformers folder: float16 safetensors, tokenizer, config, and training.json with what
was done and measured on held-out documents. The kinds (bert, roberta, albert, gpt2) are in objectives.py."""

import json
import math
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import tokenizers
import torch
from torch import nn

from lib import CompanionError
from lib.engine import files
from lib.engine.optimise import Checkpoint, adamw, descend, set_rate
from training import corpus
from training.corpus import Tokens
from training.objectives import KINDS, Encoder, seeded

WARM = 3  # steps that compile, before the clock starts
LAYERS = (".layer.", ".albert_layers.", ".h.")  # what the names of weights inside layers hold


def orthogonal(updates: torch.Tensor) -> torch.Tensor:
    """Each matrix of [n, rows, columns] with its singular values brought near 1, on a GPU in bfloat16."""
    a, b, c = 3.4445, -4.7750, 2.0315  # of the quintic iteration (Jordan et al. 2024)
    tall = updates.shape[1] > updates.shape[2]
    x = (updates.mT if tall else updates).to(torch.bfloat16 if updates.is_cuda else torch.float32)
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)
    for _ in range(5):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x


class Muon(torch.optim.Optimizer):
    """Nesterov momentum, orthogonalised; the step's size matches AdamW's, so that they share a learning rate.
    The update is torch.optim.Muon's, which takes the matrices one by one (25 ms for the 72 of mini-bert on an H200,
    where a whole training step takes 72); here all of one shape are orthogonalised in one batched product."""

    def __init__(self, matrices, lr: float, weight_decay: float = 0.1, momentum: float = 0.95):
        by_shape = {}
        for matrix in matrices:
            by_shape.setdefault(matrix.shape, []).append(matrix)
        groups = [dict(params=group) for group in by_shape.values()]
        super().__init__(groups, dict(lr=lr, weight_decay=weight_decay, momentum=momentum))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            matrices, momentum, lr = group["params"], group["momentum"], group["lr"]
            gradients = torch.stack([matrix.grad for matrix in matrices])
            state = self.state[matrices[0]]  # one buffer for the whole shape
            buffer = state["buffer"] = state["buffer"] if state else torch.zeros_like(gradients)
            buffer.lerp_(gradients, 1 - momentum)
            updates = orthogonal(gradients.lerp_(buffer, momentum)).to(matrices[0].dtype)
            updates *= lr * 0.2 * math.sqrt(max(matrices[0].shape))
            torch._foreach_mul_(matrices, 1 - lr * group["weight_decay"])
            torch._foreach_sub_(matrices, list(updates.unbind()))


def optimizers(net: nn.Module, learning_rate: float) -> list[torch.optim.Optimizer]:
    """Muon for the matrices inside the layers, AdamW for embeddings, biases, norms and heads; frozen ones are left."""
    inside, others = [], []
    for name, weight in net.named_parameters():
        if weight.requires_grad:
            (inside if weight.ndim > 1 and any(word in name for word in LAYERS) else others).append(
                weight
            )
    return [Muon(inside, lr=learning_rate, weight_decay=0.05), adamw(others, learning_rate, 0.01)]


def stepper(
    task, sampler, each: list[torch.optim.Optimizer], batch_tokens: int, generator
) -> Callable:
    """A function that takes one training step, and returns the loss: a batch is drawn, the loss goes back, the weights
    move. On a GPU the loss is compiled, and computed in bfloat16 where autocast takes it."""
    on_gpu = task.net.device.type == "cuda"
    loss_of = torch.compile(task.loss) if on_gpu else task.loss

    def step() -> torch.Tensor:
        batch = sampler.draw(batch_tokens, generator)
        with torch.autocast("cuda", torch.bfloat16, enabled=on_gpu):
            loss = loss_of(batch)
        return descend(loss, task.net.parameters(), *each)

    return step


def fit(
    task,
    tokens: Tokens,
    device,
    *,
    minutes=None,
    steps=None,
    batch_tokens=None,
    learning_rate=None,
    warmup: int = 500,
    seed: int = 0,
    report: int = 500,
    people: tuple[float, float] | None = None,
    checkpoint: Path | None = None,
    every: float = 120.0,
    **choices,
) -> dict:
    """Train for so many minutes or steps, with a linear warm-up and a linear descent to zero at the end of the budget.

    people      share of the texts drawn from the source of that name, at the beginning and, changing linearly, at the
                end; left out, each source is drawn in proportion to its size
    checkpoint  where to write, once in `every` seconds, what it takes to go on from there; removed at the end
    choices     further options of the sampler (packing.py): `together`"""
    torch.manual_seed(seed)
    batch_tokens, rate = batch_tokens or task.batch_tokens, learning_rate or task.learning_rate
    kept = Checkpoint(
        checkpoint,
        dict(
            minutes=minutes,
            steps=steps,
            batch_tokens=batch_tokens,
            rate=rate,
            warmup=warmup,
            seed=seed,
            tokens=len(tokens.ids),
            people=people and list(people),
            **choices,
        ),
        every,
    )
    sampler = task.sampler(tokens, device, shares=people and {"people": people[0]}, **choices)
    generator, on_gpu = seeded(device, seed), torch.device(device).type == "cuda"
    dropout = torch.cuda if on_gpu else torch  # whose random state it depends on
    each = optimizers(task.net, rate)
    take_step = stepper(task, sampler, each, batch_tokens, generator)
    step, before = 0, 0.0  # before: seconds that earlier calls have spent
    if state := kept.read(device):
        step, before = state["step"], state["seconds"]
        task.net.load_state_dict(state["net"])
        for optimizer, its_state in zip(each, state["optimizers"]):
            optimizer.load_state_dict(its_state)
        generator.set_state(state["generator"].cpu())
        sampler.sources.upto.copy_(state["mixture"])
        dropout.set_rng_state(state["dropout"].cpu())
    first = step
    while True:
        if on_gpu and step % 16 == 0:
            torch.cuda.synchronize()  # or the clock is read long before the steps are done
        if step - first <= WARM:
            begun = time.time() - before  # the first steps compile; the budget starts after them
        spent = step / steps if steps else (time.time() - begun) / (60 * minutes)
        if spent >= 1:
            break
        set_rate(each, rate, step, warmup, spent)
        if people and step % 16 == 0:
            sampler.sources.mix(people=people[0] + (people[1] - people[0]) * spent)
        loss = take_step()
        step += 1
        if step % report == 0:
            if not math.isfinite(loss.item()):
                raise CompanionError(
                    f"At step {step:,} the loss is no longer a number: lower --learning-rate."
                )
            speed = step * batch_tokens / (time.time() - begun) / 1e6
            print(f"step {step:,}  loss {loss.item():.3f}  {speed:.2f} M tokens/s", flush=True)
        if kept.is_due():
            kept.write(
                step=step,
                seconds=time.time() - begun,
                net=task.net.state_dict(),
                mixture=sampler.sources.upto,
                optimizers=[optimizer.state_dict() for optimizer in each],
                generator=generator.get_state(),
                dropout=dropout.get_rng_state(),
            )
    kept.remove()
    return dict(
        steps=step,
        batch_tokens=batch_tokens,
        learning_rate=rate,
        tokens_seen=step * batch_tokens,
        tokens_in_text=len(tokens.ids),
        seconds=round(time.time() - begun),
        seed=seed,
        **choices,
        **{"people": list(people)} if people else {},
    )


def measured(task, heldout: Tokens, device, batches: int, batch_tokens: int) -> dict:
    """How well the network knows held-out text."""
    torch.manual_seed(0)  # how many texts a batch is made of is estimated from random ones
    task.net.eval()
    with (
        torch.inference_mode(),
        torch.autocast("cuda", torch.bfloat16, enabled=torch.device(device).type == "cuda"),
    ):
        measures = task.measure(heldout, device, batches, batch_tokens)
    return {name: round(value, 4) for name, value in measures.items()}


def check_text(text: Path):
    if not (text / "counts.json").exists():
        raise CompanionError(
            f"{text} holds no prepared text: run `python -m training prepare` first."
        )


def check_budget(budget: dict):
    if not (budget.get("minutes") or budget.get("steps")):
        raise CompanionError("Say how long to train: --minutes or --steps.")


def text_as_tokens(stream: str, folder: Path, part: str, tokenizer) -> Tokens:
    """The part's token stream, encoded once and kept beside the text."""
    stored = folder / f"{part}.{stream}.tokens.npz"
    if not stored.exists():
        corpus.encode(tokenizer, corpus.documents([folder / f"{part}.txt"])).save(stored)
    return Tokens.load(stored)


def load_tokenizer(stream: str, folder: Path, vocabulary: int):
    """The tokenizer in the text folder; if it is not there, one learned from one document in five.
    WordPiece's trainer settles ties anew each time: copy a shipped model's tokenizer.json there to train its like."""
    path = folder / f"{stream}.tokenizer.json"
    if not path.exists():
        texts = islice(corpus.documents([folder / "train.txt"]), 0, None, 5)
        corpus.train_tokenizer(stream, texts, vocabulary).save(str(path))
    return tokenizers.Tokenizer.from_file(str(path))


def train(
    kind: str,
    text: Path,
    out: Path,
    *,
    vocabulary=16_384,
    shape=None,
    device=None,
    measure_batches=40,
    **budget,
) -> dict:
    """Text folder in, model folder out, whole or not at all; returns what training.json says."""
    check_text(text)
    check_budget(budget)
    budget = {name: value for name, value in budget.items() if value is not None}
    if "together" in budget and not issubclass(KINDS[kind], Encoder):
        raise CompanionError(f"A {kind} has no masked words: leave --together out.")
    shape, stream = shape or KINDS[kind].shape, KINDS[kind].stream
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(budget.get("seed", 0))
    torch.set_float32_matmul_precision("high")
    tokenizer = load_tokenizer(stream, text, vocabulary)
    counts = json.loads((text / "counts.json").read_text())
    tokens = text_as_tokens(stream, text, "train", tokenizer).of_sources(counts["sources"])
    people = budget.get("people")
    if people and ("people" not in tokens.sources or not all(0 <= share <= 1 for share in people)):
        raise CompanionError(
            f"{text} has the sources {', '.join(tokens.sources)}: --people takes two shares, 0 to 1, "
            "of a source of that name, which `python -m training prepare` is given."
        )
    task = KINDS[kind](tokenizer, **shape)
    task.net.to(device)
    done = fit(task, tokens, device, checkpoint=out.with_name(out.name + ".checkpoint"), **budget)
    task.net.half().float()  # measured as it ships, rounded to float16
    heldout = {
        file.stem: measured(
            task,
            text_as_tokens(stream, text, file.stem, tokenizer),
            device,
            measure_batches,
            done["batch_tokens"],
        )
        for file in sorted(text.glob("heldout*.txt"))
    }
    shipped = task.shipped()
    record = dict(
        kind=kind,
        **shape,
        vocabulary=tokenizer.get_vocab_size(),
        parameters=shipped.num_parameters(),
        training=done,
        **heldout,
        text=counts,
        torch=torch.__version__,
    )
    with files.new_folder(out) as folder:
        shipped.half().save_pretrained(folder)
        task.hub_tokenizer().save_pretrained(folder)
        (folder / "training.json").write_text(json.dumps(record, indent=1) + "\n")
    return record
