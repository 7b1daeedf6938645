"""Tune a decoder on answers of a chat model, in a plain form: mini-gpt2-chat."""

import json
import math
import random
import re
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence
from tqdm import tqdm

from lib import CompanionError
from lib.bias_a_head.chat import FORM
from lib.engine import folders, models
from training import optimise
from training.packing import IGNORED

HELD_OUT = 0.05  # share of the questions that is set aside
LAYER = re.compile(r"\.(\d+)\.")  # in the name of a weight that belongs to a layer
ATTENTION_OR_NORM = re.compile(r"attn\.|attention\.|ln_|norm")


@dataclass(frozen=True)
class Settings:
    epochs: int = 3
    rate: float = 1e-3  # learning rate
    batch: int = 32  # answers
    size: float = 8.0  # MB that the changed weights may take
    seed: int = 0


def within(net, size: float) -> list[str]:
    """Names of weights in the layers that take at most `size` MB in float16 together.

    Attention and norms are taken before feed-forward weights, and the last layers first.
    """
    elements = {}
    for name, weight in net.named_parameters():
        if LAYER.search(name):
            elements[name] = weight.numel()

    def order(name: str) -> tuple[bool, int]:
        is_feed_forward = not ATTENTION_OR_NORM.search(name)
        layer = int(LAYER.search(name)[1])
        return is_feed_forward, -layer

    chosen = []
    total = 0  # bytes
    for name in sorted(elements, key=order):
        total += 2 * elements[name]
        if total > 1e6 * size:
            break
        chosen.append(name)
    return chosen


def encode_answers(
    model: models.Model, pairs: list[dict]
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Tokens and targets of each pair, the targets IGNORED in the question.

    Pairs that are longer than the model reads are left out.
    """
    rows = []
    for pair in pairs:
        question = model.tokenizer(FORM.format(**pair)).input_ids
        answer = model.tokenizer(f" {pair['answer']}", add_special_tokens=False).input_ids
        answer.append(model.tokenizer.eos_token_id)
        tokens = question + answer
        if len(tokens) <= model.tokenizer.model_max_length:
            targets = [IGNORED] * len(question) + answer
            rows.append((torch.tensor(tokens), torch.tensor(targets)))
    return rows


def answer_loss(model: models.Model, rows: list[tuple[torch.Tensor, torch.Tensor]]) -> torch.Tensor:
    """Mean cross-entropy of a token of the answers."""
    all_tokens, all_targets = zip(*rows)
    ids = pad_sequence(all_tokens, batch_first=True, padding_value=IGNORED).to(model.device)
    targets = pad_sequence(all_targets, batch_first=True, padding_value=IGNORED).to(model.device)
    is_token = (ids >= 0).long()
    logits = model.net(ids.clamp(min=0), attention_mask=is_token, use_cache=False).logits
    predicted = logits[:, :-1].flatten(0, 1).float()
    return F.cross_entropy(predicted, targets[:, 1:].flatten())


def chat(
    text: Path, out: Path, name: str = "mini-gpt2", device: str | None = None, **options
) -> dict:
    """Tune a decoder on the answers in `text`, write the difference to `out`, return its record.

    text:    folder with chat.jsonl, which people.answers writes
    options: fields of Settings
    """
    settings = Settings(**options)
    optimise.check_positive(rate=settings.rate, epochs=settings.epochs, batch=settings.batch)
    if not (text / "chat.jsonl").is_file():
        raise CompanionError(
            f"{text} holds no chat.jsonl: run `python -m training chat write` first."
        )
    model = models.load(name, device=device)
    if not model.is_causal:
        raise CompanionError(f"{name} does not write: name a decoder, such as mini-gpt2.")
    rng = random.Random(settings.seed)
    names = within(model.net, settings.size)
    heldout, rows = split(model, text / "chat.jsonl", rng)
    if not names or not rows or not heldout:
        raise CompanionError(
            f"Nothing can be tuned with {len(rows)} answers in {settings.size:g} MB: "
            "give more of either."
        )
    answers = len(rows)
    before = perplexity(model, heldout, settings.batch)
    tune(model, names, rows, settings, rng, out.name)
    about_text = text / "chat.json"
    return folders.save_difference(
        model,
        name,
        out,
        form=FORM,
        answers=answers,
        trained=len(names),
        settings=asdict(settings),
        heldout_before={"answer_perplexity": before},
        heldout={"answer_perplexity": perplexity(model, heldout, settings.batch)},
        text=json.loads(about_text.read_text()) if about_text.is_file() else None,
    )


def split(model: models.Model, file: Path, rng: random.Random) -> tuple[list, list]:
    """The encoded pairs of a file: held-out ones, and ones to train on.

    Whole questions are held out, since one may have several answers.
    """
    pairs = [json.loads(line) for line in file.read_text().splitlines()]
    questions = list(dict.fromkeys(pair["question"] for pair in pairs))
    n_heldout = max(1, round(HELD_OUT * len(questions)))
    heldout_questions = set(rng.sample(questions, n_heldout))
    heldout = []
    others = []
    for pair in pairs:
        part = heldout if pair["question"] in heldout_questions else others
        part.append(pair)
    return encode_answers(model, heldout), encode_answers(model, others)


@torch.inference_mode()
def perplexity(model: models.Model, rows: list, batch: int) -> float:
    """Perplexity of the answers, from the mean loss of batches of so many rows."""
    losses = []
    for start in range(0, len(rows), batch):
        loss = answer_loss(model, rows[start : start + batch])
        losses.append(loss.item())
    return round(math.exp(sum(losses) / len(losses)), 3)


def tune(
    model: models.Model,
    names: list[str],
    rows: list,
    settings: Settings,
    rng: random.Random,
    label: str,
):
    """Train the named weights on the rows, which are shuffled in place before each epoch.

    The weights end rounded to float16, as they are stored. `label` is shown beside the progress.
    """
    weights = [model.net.get_parameter(name).requires_grad_() for name in names]
    optimizer = optimise.adamw(weights, settings.rate, 0.01)
    per_epoch = math.ceil(len(rows) / settings.batch)
    steps = per_epoch * settings.epochs
    on_gpu = model.device.type == "cuda"
    for step in tqdm(range(steps), desc=label):
        if step % per_epoch == 0:
            rng.shuffle(rows)
        start = step % per_epoch * settings.batch
        optimise.set_rate([optimizer], settings.rate, step, 0.1 * steps, step / steps)
        with torch.autocast(model.device.type, torch.bfloat16, enabled=on_gpu):
            loss = answer_loss(model, rows[start : start + settings.batch])
        optimise.descend(loss, weights, optimizer)
    with torch.no_grad():
        for weight in weights:
            weight.copy_(weight.half())
    model.net.requires_grad_(False)
