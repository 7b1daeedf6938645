"""Train the bundled models from text files: one loop, its optimisers, schedule and checkpoints.

    loop.train("bert", text_folder, out, minutes=14)    text folder in, model folder out
    loop.fit(task, tokens, device, steps=100)           the loop itself, which debias.py uses too

What is written is an ordinary transformers folder: float16 safetensors, tokenizer, config, and
training.json with what was done and measured on held-out documents. The kinds (bert, roberta,
albert, gpt2) are in objectives.py.
"""

import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import tokenizers
import torch
from torch import nn

from lib import CompanionError
from lib.engine import files
from training import corpus
from training.corpus import Tokens
from training.objectives import KINDS, Encoder, Task, seeded
from training.optimise import Checkpoint, adamw, check_positive, descend, set_rate

WARM = 3  # steps that compile, before the clock starts
SYNCHRONISED = 16  # steps after which the GPU is waited for, and the mixture of sources is changed
LAYERS = (".layer.", ".albert_layers.", ".h.")  # what the names of weights inside layers hold


def orthogonal(updates: torch.Tensor) -> torch.Tensor:
    """Each matrix of [n, rows, columns] with its singular values brought near 1.

    On a GPU in bfloat16. The quintic iteration and its coefficients are those of Jordan et al.
    2024.
    """
    a, b, c = 3.4445, -4.7750, 2.0315
    is_tall = updates.shape[1] > updates.shape[2]
    x = updates.mT if is_tall else updates
    x = x.to(torch.bfloat16 if updates.is_cuda else torch.float32)
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)
    for _ in range(5):
        gram = x @ x.mT
        polynomial = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
        x = torch.baddbmm(x, polynomial, x, beta=a)
    return x.mT if is_tall else x


class Muon(torch.optim.Optimizer):
    """Nesterov momentum, orthogonalised; the size of its step matches AdamW's.

    They can therefore share a learning rate. The update is that of torch.optim.Muon, which takes
    the matrices one by one. Here all matrices of one shape are orthogonalised in one batched
    product, which on a GPU is 10.9 times as fast: 2.8 ms against 30.9 ms for the 72 matrices of
    mini-bert on an H200, where a whole training step takes 72 ms (benchmarks/README.md). That is
    why the loop keeps its own.
    """

    def __init__(self, matrices, lr: float, weight_decay: float = 0.1, momentum: float = 0.95):
        by_shape = {}
        for matrix in matrices:
            by_shape.setdefault(matrix.shape, []).append(matrix)
        groups = [dict(params=group) for group in by_shape.values()]
        super().__init__(groups, dict(lr=lr, weight_decay=weight_decay, momentum=momentum))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            matrices = group["params"]
            lr = group["lr"]
            momentum = group["momentum"]
            gradients = torch.stack([matrix.grad for matrix in matrices])
            state = self.state[matrices[0]]  # one buffer for the whole shape
            if "buffer" not in state:
                state["buffer"] = torch.zeros_like(gradients)
            buffer = state["buffer"]
            buffer.lerp_(gradients, 1 - momentum)
            updates = orthogonal(gradients.lerp_(buffer, momentum)).to(matrices[0].dtype)
            updates *= lr * 0.2 * math.sqrt(max(matrices[0].shape))
            torch._foreach_mul_(matrices, 1 - lr * group["weight_decay"])
            torch._foreach_sub_(matrices, list(updates.unbind()))


def optimizers(net: nn.Module, learning_rate: float) -> list[torch.optim.Optimizer]:
    """Muon for the matrices inside the layers, AdamW for embeddings, biases, norms and heads.

    Frozen weights are left out.
    """
    inside = []
    others = []
    for name, weight in net.named_parameters():
        if not weight.requires_grad:
            continue
        if weight.ndim > 1 and any(part in name for part in LAYERS):
            inside.append(weight)
        else:
            others.append(weight)
    return [Muon(inside, lr=learning_rate, weight_decay=0.05), adamw(others, learning_rate, 0.01)]


def stepper(
    task: Task, sampler, optimizers: list[torch.optim.Optimizer], batch_tokens: int, generator
) -> Callable[[], torch.Tensor]:
    """A function that takes one training step and returns its loss.

    A step draws a batch, computes the loss and its gradients, and moves the weights. On a GPU the
    loss is compiled, and computed in bfloat16 where autocast chooses so.
    """
    on_gpu = task.net.device.type == "cuda"
    loss_of = torch.compile(task.loss) if on_gpu else task.loss

    def step() -> torch.Tensor:
        batch = sampler.draw(batch_tokens, generator)
        with torch.autocast("cuda", torch.bfloat16, enabled=on_gpu):
            loss = loss_of(batch)
        return descend(loss, task.net.parameters(), *optimizers)

    return step


@dataclass(frozen=True)
class Plan:
    """How long to train, on which mixture, at which rate. One of minutes and steps is needed.

    batch_tokens, learning_rate: None takes the task's own
    warmup:   steps in which the rate rises linearly; it then falls to 0 at the end of the budget
    report:   steps between two lines that are printed
    people:   share of the texts drawn from the source of that name, at the beginning and, changing
              linearly, at the end; None draws each source in proportion to its size
    together: an option of the samplers of encoders (packing.py)
    """

    minutes: float | None = None
    steps: int | None = None
    batch_tokens: int | None = None
    learning_rate: float | None = None
    warmup: int = 500
    seed: int = 0
    report: int = 500
    people: tuple[float, float] | None = None
    together: float | None = None

    def completed(self, task: Task) -> "Plan":
        """The same plan with the task's own values where it has none."""
        return replace(
            self,
            batch_tokens=self.batch_tokens or task.batch_tokens,
            learning_rate=self.learning_rate or task.learning_rate,
        )

    def spent(self, step: int, seconds: float) -> float:
        """The share of the budget that is used up after so many steps and seconds."""
        if self.steps:
            return step / self.steps
        return seconds / (60 * self.minutes)

    def people_share(self, spent: float) -> float:
        """The share of the source `people` once the share `spent` of the budget is used up."""
        first, last = self.people
        return first + (last - first) * spent

    def choices(self) -> dict:
        """Options of the sampler that were chosen."""
        return {} if self.together is None else {"together": self.together}

    def identity(self, tokens: Tokens) -> dict:
        """What has to be the same for a checkpoint to be continued from."""
        return dict(
            minutes=self.minutes,
            steps=self.steps,
            batch_tokens=self.batch_tokens,
            rate=self.learning_rate,
            warmup=self.warmup,
            seed=self.seed,
            tokens=len(tokens.ids),
            people=list(self.people) if self.people else None,
            **self.choices(),
        )


class Training:
    """A task in training: its sampler, optimisers and random states, and the step it is at."""

    def __init__(self, task: Task, tokens: Tokens, device, plan: Plan):
        self.task = task
        self.plan = plan
        self.on_gpu = torch.device(device).type == "cuda"
        shares = {"people": plan.people[0]} if plan.people else None
        self.sampler = task.sampler(tokens, device, shares=shares, **plan.choices())
        self.generator = seeded(device, plan.seed)
        self.optimizers = optimizers(task.net, plan.learning_rate)
        self.take_step = stepper(
            task, self.sampler, self.optimizers, plan.batch_tokens, self.generator
        )
        self.step = 0
        self.tokens_in_text = len(tokens.ids)

    @property
    def dropout(self):
        """The module whose random state dropout depends on."""
        return torch.cuda if self.on_gpu else torch

    def synchronise(self):
        """Now and then wait for the GPU: the clock would be read long before its steps are done."""
        if self.on_gpu and self.step % SYNCHRONISED == 0:
            torch.cuda.synchronize()

    def advance(self, spent: float) -> torch.Tensor:
        """Take a step at the rate, and from the mixture, for this share of the budget."""
        set_rate(self.optimizers, self.plan.learning_rate, self.step, self.plan.warmup, spent)
        if self.plan.people and self.step % SYNCHRONISED == 0:
            self.sampler.sources.mix(people=self.plan.people_share(spent))
        loss = self.take_step()
        self.step += 1
        return loss

    def state(self) -> dict:
        return dict(
            step=self.step,
            net=self.task.net.state_dict(),
            mixture=self.sampler.sources.upto,
            optimizers=[optimizer.state_dict() for optimizer in self.optimizers],
            generator=self.generator.get_state(),
            dropout=self.dropout.get_rng_state(),
        )

    def restore(self, state: dict):
        self.step = state["step"]
        self.task.net.load_state_dict(state["net"])
        for optimizer, stored in zip(self.optimizers, state["optimizers"]):
            optimizer.load_state_dict(stored)
        self.generator.set_state(state["generator"].cpu())
        self.sampler.sources.upto.copy_(state["mixture"])
        self.dropout.set_rng_state(state["dropout"].cpu())

    def record(self, seconds: float) -> dict:
        """What training.json says of it."""
        done = dict(
            steps=self.step,
            batch_tokens=self.plan.batch_tokens,
            learning_rate=self.plan.learning_rate,
            tokens_seen=self.step * self.plan.batch_tokens,
            tokens_in_text=self.tokens_in_text,
            seconds=round(seconds),
            seed=self.plan.seed,
            **self.plan.choices(),
        )
        if self.plan.people:
            done["people"] = list(self.plan.people)
        return done


class Clock:
    """Seconds of training, those of earlier runs of the same training included."""

    def __init__(self, earlier: float = 0.0):
        self.earlier = earlier
        self.restart()

    def restart(self):
        self.begun = time.time() - self.earlier

    def seconds(self) -> float:
        return time.time() - self.begun


def fit(
    task: Task,
    tokens: Tokens,
    device,
    *,
    checkpoint: Path | None = None,
    every: float = 120.0,
    **options,
) -> dict:
    """Train for so many minutes or steps; returns what was done.

    checkpoint: file that is written once in `every` seconds, from which a killed run continues;
                removed at the end
    options:    fields of Plan
    """
    plan = Plan(**options).completed(task)
    torch.manual_seed(plan.seed)
    kept = Checkpoint(checkpoint, plan.identity(tokens), every)
    training = Training(task, tokens, device, plan)
    clock = Clock()
    state = kept.read(device)
    if state:
        training.restore(state)
        clock = Clock(state["seconds"])
    first_step = training.step
    while True:
        training.synchronise()
        if training.step - first_step <= WARM:
            clock.restart()  # the first steps compile; the budget starts after them
        spent = plan.spent(training.step, clock.seconds())
        if spent >= 1:
            break
        loss = training.advance(spent)
        if training.step % plan.report == 0:
            print_progress(training.step, loss.item(), plan.batch_tokens, clock)
        if kept.is_due():
            kept.write(seconds=clock.seconds(), **training.state())
    kept.remove()
    return training.record(clock.seconds())


def print_progress(step: int, loss: float, batch_tokens: int, clock: Clock):
    """Print the loss and the speed; a loss that is not finite ends the training."""
    if not math.isfinite(loss):
        raise CompanionError(
            f"At step {step:,} the loss is no longer a number: lower --learning-rate."
        )
    speed = step * batch_tokens / clock.seconds() / 1e6
    print(f"step {step:,}  loss {loss:.3f}  {speed:.2f} M tokens/s", flush=True)


def measured(task: Task, heldout: Tokens, device, batches: int, batch_tokens: int) -> dict:
    """How well the network knows held-out text: the task's measures, to four decimals."""
    torch.manual_seed(0)  # how many texts a batch is made of is estimated from random ones
    task.net.eval()
    on_gpu = torch.device(device).type == "cuda"
    with torch.inference_mode(), torch.autocast("cuda", torch.bfloat16, enabled=on_gpu):
        measures = task.measure(heldout, device, batches, batch_tokens)
    return {name: round(value, 4) for name, value in measures.items()}


def measured_on_parts(
    task: Task, text: Path, device, batches: int, batch_tokens: int
) -> dict[str, dict]:
    """The measures on each held-out part of the text folder ("heldout", "heldout-people")."""
    found = {}
    for file in sorted(text.glob("heldout*.txt")):
        part = text_as_tokens(task.stream, text, file.stem, task.tokenizer)
        found[file.stem] = measured(task, part, device, batches, batch_tokens)
    return found


def check_text(text: Path):
    """Refuse a folder that `prepare` did not write."""
    if not (text / "counts.json").exists():
        raise CompanionError(
            f"{text} holds no prepared text: run `python -m training prepare` first."
        )


def check_budget(options: dict):
    """Refuse a training without an end, or one that does nothing."""
    numbers = ("minutes", "steps", "batch_tokens", "learning_rate")
    check_positive(**{name: options[name] for name in numbers if options.get(name) is not None})
    if not (options.get("minutes") or options.get("steps")):
        raise CompanionError("Say how long to train: --minutes or --steps.")


def check_people(people: tuple[float, float] | None, text: Path, tokens: Tokens):
    """Refuse --people if the text has no such source, or if it names no two shares."""
    if not people:
        return
    are_shares = all(0 <= share <= 1 for share in people)
    if "people" not in tokens.sources or not are_shares:
        raise CompanionError(
            f"{text} has the sources {', '.join(tokens.sources)}: --people takes two shares, "
            "0 to 1, of a source of that name, which `python -m training prepare` is given."
        )


def check_together(kind: str, options: dict):
    """Refuse --together for a model that predicts no masked words."""
    if "together" in options and not issubclass(KINDS[kind], Encoder):
        raise CompanionError(f"A {kind} has no masked words: leave --together out.")


def text_as_tokens(stream: str, folder: Path, part: str, tokenizer) -> Tokens:
    """The token stream of a part ("train") of the text, encoded once and kept beside the text."""
    stored = folder / f"{part}.{stream}.tokens.npz"
    if not stored.exists():
        corpus.encode(tokenizer, corpus.documents([folder / f"{part}.txt"])).save(stored)
    return Tokens.load(stored)


def load_tokenizer(stream: str, folder: Path, vocabulary: int) -> tokenizers.Tokenizer:
    """The tokenizer in the text folder; if it is not there, one learned from one document in five.

    WordPiece's trainer settles ties anew each time: to train a model like a bundled one, copy that
    one's tokenizer.json there.
    """
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
    vocabulary: int = 16_384,
    shape: dict | None = None,
    device: str | None = None,
    measure_batches: int = 40,
    **options,
) -> dict:
    """Text folder in, model folder out, whole or not at all; returns what training.json says.

    options: fields of Plan
    """
    check_text(text)
    check_budget(options)
    options = {name: value for name, value in options.items() if value is not None}
    check_together(kind, options)
    shape = shape or KINDS[kind].shape
    stream = KINDS[kind].stream
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(options.get("seed", 0))
    torch.set_float32_matmul_precision("high")
    tokenizer = load_tokenizer(stream, text, vocabulary)
    counts = json.loads((text / "counts.json").read_text())
    tokens = text_as_tokens(stream, text, "train", tokenizer).of_sources(counts["sources"])
    check_people(options.get("people"), text, tokens)
    task = KINDS[kind](tokenizer, **shape)
    task.net.to(device)
    checkpoint = out.with_name(out.name + ".checkpoint")
    done = fit(task, tokens, device, checkpoint=checkpoint, **options)
    task.net.half().float()  # measured as it is stored, rounded to float16
    heldout = measured_on_parts(task, text, device, measure_batches, done["batch_tokens"])
    net = task.stored_net()
    record = dict(
        kind=kind,
        **shape,
        vocabulary=tokenizer.get_vocab_size(),
        parameters=net.num_parameters(),
        training=done,
        **heldout,
        text=counts,
        torch=torch.__version__,
    )
    with files.new_folder(out) as folder:
        net.half().save_pretrained(folder)
        task.hub_tokenizer().save_pretrained(folder)
        (folder / "training.json").write_text(json.dumps(record, indent=1) + "\n")
    return record
