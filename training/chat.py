"""Tune a decoder on answers of a chat model, in a plain form: mini-gpt2-chat."""

import json
import math
import random
import re
from itertools import accumulate
from pathlib import Path

import torch
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence
from tqdm import tqdm

from lib import CompanionError
from lib.bias_a_head.debiased import FORM
from lib.engine import models, optimise
from training.packing import IGNORED

HELD_OUT = 0.05  # share of the questions that is set aside


def within(net, size: float) -> list[str]:
    """Weights that take at most `size` MB in float16: the last layers' attention and norms first, feed-forward last."""
    inside = {
        name: weight.numel()
        for name, weight in net.named_parameters()
        if re.search(r"\.\d+\.", name)
    }
    names = sorted(
        inside,
        key=lambda name: (
            not re.search(r"attn\.|attention\.|ln_|norm", name),
            -int(re.search(r"\.(\d+)\.", name)[1]),
        ),
    )
    sizes = accumulate(2 * inside[name] for name in names)
    return [name for name, upto in zip(names, sizes) if upto <= 1e6 * size]


def encode_answers(
    model: models.Model, pairs: list[dict]
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Tokens and targets of each pair, IGNORED in the question; those that are too long are left out."""
    rows = []
    for pair in pairs:
        asked = model.tokenizer(FORM.format(**pair)).input_ids
        whole = asked + model.tokenizer(f" {pair['answer']}", add_special_tokens=False).input_ids
        whole.append(model.tokenizer.eos_token_id)
        if len(whole) <= model.tokenizer.model_max_length:
            rows.append(
                (torch.tensor(whole), torch.tensor([IGNORED] * len(asked) + whole[len(asked) :]))
            )
    return rows


def answer_loss(model: models.Model, rows: list) -> torch.Tensor:
    ids, targets = (pad_sequence(side, True, IGNORED).to(model.device) for side in zip(*rows))
    logits = model.net(ids.clamp(min=0), attention_mask=(ids >= 0).long(), use_cache=False).logits[
        :, :-1
    ]
    return F.cross_entropy(logits.flatten(0, 1).float(), targets[:, 1:].flatten())


def chat(
    text: Path,
    out: Path,
    name: str = "mini-gpt2",
    epochs: int = 3,
    rate: float = 1e-3,
    batch: int = 32,
    size: float = 8.0,
    device: str | None = None,
    seed: int = 0,
) -> dict:
    """Tune a decoder on people.answers' file in `text`, write a difference of up to `size` MB, return its record."""
    if not (text / "chat.jsonl").is_file():
        raise CompanionError(
            f"{text} holds no chat.jsonl: run `python -m training chat write` first."
        )
    model = models.load(name, device=device)
    if not model.is_causal:
        raise CompanionError(f"{name} does not write: name a decoder, such as mini-gpt2.")
    rng, names = random.Random(seed), within(model.net, size)
    pairs = [json.loads(line) for line in (text / "chat.jsonl").read_text().splitlines()]
    asked = list(dict.fromkeys(pair["question"] for pair in pairs))  # one may have several answers
    aside = set(rng.sample(asked, max(1, round(HELD_OUT * len(asked)))))
    heldout, rows = (
        encode_answers(model, [pair for pair in pairs if (pair["question"] in aside) == is_aside])
        for is_aside in (True, False)
    )
    if not names or not rows or not heldout:
        raise CompanionError(
            f"Nothing can be tuned with {len(rows)} answers in {size:g} MB: give more of either."
        )

    @torch.inference_mode()
    def perplexity():
        losses = [
            answer_loss(model, heldout[i : i + batch]).item() for i in range(0, len(heldout), batch)
        ]
        return round(math.exp(sum(losses) / len(losses)), 3)

    before, weights = (
        perplexity(),
        [model.net.get_parameter(name).requires_grad_() for name in names],
    )
    optimizer = optimise.adamw(weights, rate, 0.01)
    per_epoch = -(-len(rows) // batch)
    steps = per_epoch * epochs
    for step in tqdm(range(steps), desc=out.name):
        if step % per_epoch == 0:
            rng.shuffle(rows)
        start = step % per_epoch * batch
        optimise.set_rate([optimizer], rate, step, 0.1 * steps, step / steps)
        with torch.autocast(model.device.type, torch.bfloat16, enabled=model.device.type == "cuda"):
            loss = answer_loss(model, rows[start : start + batch])
        optimise.descend(loss, weights, optimizer)
    with torch.no_grad():
        for weight in weights:
            weight.copy_(weight.half())  # measured as it ships
    model.net.requires_grad_(False)
    made, settings = (
        text / "chat.json",
        dict(epochs=epochs, rate=rate, batch=batch, size=size, seed=seed),
    )
    return models.save_difference(
        model,
        name,
        out,
        form=FORM,
        answers=len(rows),
        trained=len(names),
        settings=settings,
        heldout_before={"answer_perplexity": before},
        heldout={"answer_perplexity": perplexity()},
        text=json.loads(made.read_text()) if made.is_file() else None,
    )
