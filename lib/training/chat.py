"""A chat form of a decoder, for the pair of models that Bias A-head's Fig. 6-7 want: a base, and the same after tuning.

    python -m lib.training chat write --out data/cache/chat                                   on a GPU
    python -m lib.training chat tune --text data/cache/chat --out data/models/mini-gpt2-chat --epochs 3

`write` asks SmolLM2-Instruct, in its chat form, the questions of data/questions.toml, half of them about groups of
people, and keeps those with their answers. `tune` trains a decoder on them: `Question: ...`, `Answer: ...`, the loss on
the answer alone. So that the difference (models.save_difference) stays under a size, only so many weights are trained:
the attention and norms of the layers, the last ones first, then their feed-forward parts.
"""

import json
import math
import random
import re
import tomllib
from itertools import accumulate, cycle, islice
from pathlib import Path

import torch
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence
from tqdm.auto import tqdm

from lib import CompanionError, paths
from lib.engine import files, models
from lib.text import english
from lib.training import loop, people
from lib.training.packing import IGNORED

# SmolLM2-Instruct's own template, with the system line that it has when none is given
CHAT = ("<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n")
FORM = "Question: {question}\nAnswer:"
HELD_OUT = .05  # share of the questions
TOKENS = 160  # of an answer: with its question it fits 256


# ---------------------------------------------------------------- questions and answers

def questions(n: int, seed: int) -> list[str]:
    """n questions, half of them about people, drawn by the seed; none comes again before all were asked."""
    asked = tomllib.loads((paths.ROOT / "data" / "questions.toml").read_text(encoding="utf-8"))
    words, rng, chosen = people.words() | asked.pop("words"), random.Random(seed), []
    for patterns in asked.values():
        slots = [re.search(r"{(?!a})(\w+)}", pattern)[1] for pattern in patterns]
        every = [english.sentence(pattern, **{slot: word}) for pattern, slot in zip(patterns, slots)
                 for word in words[slot]]
        chosen += list(islice(cycle(rng.sample(every, len(every))), n // 2))
    return rng.sample(chosen, len(chosen))


def write(out: Path, name: str = people.WRITER, texts: int = 8_000, device: str | None = None, batch: int = 0,
          seed: int = 0) -> dict:
    """Ask so many questions; those with an answer of 20 characters or more that does not repeat itself go to
    out/chat.jsonl. An answer that is not ended in TOKENS is cut after its last sentence. Returns what out/chat.json
    says."""
    model, batch = people.writer(name, device, batch)
    end, asked, kept = model.tokenizer.eos_token_id, questions(texts, seed), []
    prompts = [CHAT.format(question=question) for question in asked]
    generator = torch.Generator(model.device).manual_seed(seed)
    with tqdm(total=len(asked), desc="answers") as bar:
        for rows, ids in people.continued(model, prompts, generator, batch, end=end, tokens=TOKENS):
            size = len(model.tokenizer(prompts[rows[0]]).input_ids)
            for row, answer in zip(rows, ids[:, size:].tolist()):
                text = model.tokenizer.decode(answer[:answer.index(end)] if end in answer else answer)
                text = " ".join(text.translate(people.PLAIN).split())
                if end not in answer:
                    text = text[:max(map(text.rfind, ".!?")) + 1]
                if len(text) >= 20 and people.is_varied(text):
                    kept.append({"question": asked[row], "answer": text})
            bar.update(len(rows))
    if not kept:
        raise CompanionError(f"{name} answered none of {texts} questions: name a chat model.")
    files.replace(out / "chat.jsonl", "".join(json.dumps(pair) + "\n" for pair in kept).encode())
    record = {"model": name, "revision": model.revision, "seed": seed, "asked": texts, "kept": len(kept)}
    files.replace(out / "chat.json", (json.dumps(record, indent=1) + "\n").encode())
    return record


# ---------------------------------------------------------------- tuning

def trained(net, size: float) -> list[str]:
    """The weights to train, of at most `size` MB in float16: see above."""
    def rank(name):
        layer, is_inner = int(re.search(r"\.(\d+)\.", name)[1]), not re.search(r"attn\.|attention\.|ln_|norm", name)
        return is_inner, -layer

    inside = {name: weight.numel() for name, weight in net.named_parameters() if re.search(r"\.\d+\.", name)}
    names = sorted(inside, key=rank)
    sizes = accumulate(2 * inside[name] for name in names)
    return [name for name, upto in zip(names, sizes) if upto <= 1e6 * size]


def encoded(model: models.Model, pairs: list[dict]) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Tokens and targets of each pair, IGNORED in the question; those that are too long are left out."""
    rows = []
    for pair in pairs:
        asked = model.tokenizer(FORM.format(**pair)).input_ids
        whole = asked + model.tokenizer(f" {pair['answer']}", add_special_tokens=False).input_ids
        whole.append(model.tokenizer.eos_token_id)
        if len(whole) <= model.tokenizer.model_max_length:
            targets = [IGNORED] * len(asked) + whole[len(asked):]
            rows.append((torch.tensor(whole), torch.tensor(targets)))
    return rows


def answer_loss(model: models.Model, rows: list) -> torch.Tensor:
    """Cross-entropy of the answers' tokens."""
    ids, targets = zip(*rows)
    is_there = pad_sequence([torch.ones_like(row) for row in ids], True).to(model.device)
    ids = pad_sequence(ids, True).to(model.device)
    targets = pad_sequence(targets, True, IGNORED).to(model.device)
    logits = model.net(ids, attention_mask=is_there, use_cache=False).logits[:, :-1]
    return F.cross_entropy(logits.flatten(0, 1).float(), targets[:, 1:].flatten())


def tune(text: Path, out: Path, name: str = "mini-gpt2", epochs: int = 3, rate: float = 1e-3, batch: int = 32,
         size: float = 8., device: str | None = None, seed: int = 0) -> dict:
    """Tune a decoder on the answers that `write` left in `text`; writes the difference, of at most `size` MB, and
    returns what training.json says."""
    if not (text / "chat.jsonl").is_file():
        raise CompanionError(f"{text} holds no chat.jsonl: run `python -m lib.training chat write` first.")
    model = models.load(name, device=device)
    if not model.is_causal:
        raise CompanionError(f"{name} does not write: name a decoder, such as mini-gpt2.")
    rng, names = random.Random(seed), trained(model.net, size)
    rows = encoded(model, [json.loads(line) for line in (text / "chat.jsonl").read_text().splitlines()])
    rng.shuffle(rows)
    n = max(1, round(HELD_OUT * len(rows)))
    heldout, rows = rows[:n], rows[n:]
    if not names or not rows:
        raise CompanionError(f"Nothing can be tuned with {len(rows)} answers in {size:g} MB: give more of either.")

    @torch.inference_mode()
    def perplexity():
        losses = [answer_loss(model, heldout[i:i + batch]).item() for i in range(0, n, batch)]
        return round(math.exp(sum(losses) / len(losses)), 3)

    before, weights = perplexity(), [model.net.get_parameter(name).requires_grad_() for name in names]
    optimizer = loop.adamw([w for w in weights if w.ndim > 1], [w for w in weights if w.ndim < 2], rate, .01)
    per_epoch = -(-len(rows) // batch)
    steps = per_epoch * epochs
    for step in tqdm(range(steps), desc=out.name):
        if step % per_epoch == 0:
            rng.shuffle(rows)
        start = step % per_epoch * batch
        loop.set_rate([optimizer], rate, step, .1 * steps, step / steps)
        with torch.autocast(model.device.type, torch.bfloat16, enabled=model.device.type == "cuda"):
            loss = answer_loss(model, rows[start:start + batch])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    with torch.no_grad():
        for weight in weights:
            weight.copy_(weight.half())  # measured as it ships
    model.net.requires_grad_(False)
    made = text / "chat.json"
    record = {"base": name, "base_revision": model.revision, "form": FORM, "answers": len(rows), "trained": len(names),
              "settings": dict(epochs=epochs, rate=rate, batch=batch, size=size, seed=seed),
              "heldout_before": {"answer_perplexity": before}, "heldout": {"answer_perplexity": perplexity()},
              "text": json.loads(made.read_text()) if made.is_file() else None,
              "torch": torch.__version__.split("+")[0]}
    models.save_difference(model, name, out, record)
    return record
