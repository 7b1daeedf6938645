"""Train the shipped models from text files, with the shapes the papers' models have (12 layers x 12 heads).

    python -m lib.pretrain prepare TEXT... --unseen FILE... --out data/cache/pretrain
    python -m lib.pretrain train bert --text data/cache/pretrain --out data/models/mini-bert --minutes 14
    python -m lib.pretrain train gpt2 --text data/cache/pretrain --out data/models/mini-gpt2 --minutes 5.6

`prepare` is described in corpus.py. `train` learns the tokenizer (unless one lies in the text folder), encodes the
text, trains on one GPU in bfloat16 (or, for a try, on a CPU with --steps), measures the model on held-out documents
and writes an ordinary transformers folder: float16 safetensors, tokenizer, config, and training.json with what was
done and measured. Optimiser: Muon for the matrices inside the layers, AdamW for everything else.
"""

import argparse
import json
import math
import shutil
import sys
import time
from pathlib import Path

import tokenizers
import torch
import torch.nn.functional as F
from torch import nn
from transformers import BertConfig, BertForPreTraining, GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from lib import CompanionError, corpus
from lib.corpus import Tokens
from lib.muon import Muon
from lib.packing import Pairs, PairSampler, WindowSampler

SHAPE = dict(layers=12, heads=12, hidden=288, longest=256)


class Bert:
    """Masked words and next sentences, on packed pairs."""

    batch_tokens, learning_rate = 131_072, 2.5e-3

    def __init__(self, tokenizer, layers, heads, hidden, longest):
        self.tokenizer, self.longest = tokenizer, longest
        self.net = BertForPreTraining._from_config(BertConfig(
            vocab_size=tokenizer.get_vocab_size(), hidden_size=hidden, num_hidden_layers=layers,
            num_attention_heads=heads, intermediate_size=4 * hidden, max_position_embeddings=longest,
            hidden_dropout_prob=0., attention_probs_dropout_prob=0.), attn_implementation="packed")

    def sampler(self, tokens: Tokens, device, **options):
        return PairSampler(tokens, self.tokenizer, device, longest=self.longest, **options)

    def outputs(self, ids, positions, types, bounds, masked, first):
        """Vocabulary logits at the masked places, next-sentence logits of the pairs."""
        encoder, heads = self.net.bert, self.net.cls
        states = encoder(input_ids=ids[None], position_ids=positions[None], token_type_ids=types[None],
                         bounds=bounds, longest=self.longest).last_hidden_state[0]
        return heads.predictions(states[masked]), heads.seq_relationship(encoder.pooler(states[first][:, None]))

    def loss(self, ids, positions, types, bounds, masked, targets, first, not_next):
        words, follows = self.outputs(ids, positions, types, bounds, masked, first)
        return F.cross_entropy(words.float(), targets) + F.cross_entropy(follows.float(), not_next)

    def measure(self, tokens: Tokens, device, batches: int, batch_tokens: int) -> dict:
        """Perplexity of masked words and accuracy of next-sentence prediction: on the training mixture of lengths,
        and on pairs of single sentences."""
        measures = {}
        for name, options in {"": {}, "_single_sentences": dict(everyday=1.)}.items():
            sampler, generator = self.sampler(tokens, device, **options), seeded(device, 1)
            surprise, words, right, pairs = 0., 0, 0, 0
            for _ in range(batches):
                batch: Pairs = sampler.draw(batch_tokens, generator=generator)
                logits, follows = self.outputs(batch.ids, batch.positions, batch.types, batch.bounds, batch.masked,
                                               batch.first)
                surprise += F.cross_entropy(logits.float(), batch.targets, reduction="sum").item()
                words += (batch.targets >= 0).sum().item()
                right += (follows.argmax(1) == batch.not_next).sum().item()
                pairs += (batch.not_next >= 0).sum().item()
            measures |= {f"mlm_perplexity{name}": math.exp(surprise / words), f"nsp_accuracy{name}": right / pairs}
        return measures

    def hub_tokenizer(self):
        return PreTrainedTokenizerFast(
            tokenizer_object=self.tokenizer, unk_token="[UNK]", sep_token="[SEP]", pad_token="[PAD]",
            cls_token="[CLS]", mask_token="[MASK]", model_max_length=self.longest,
            model_input_names=["input_ids", "token_type_ids", "attention_mask"])


class Gpt2:
    """The next token, on windows of the stream."""

    batch_tokens, learning_rate = 65_536, 2.5e-3

    def __init__(self, tokenizer, layers, heads, hidden, longest):
        self.tokenizer, self.longest = tokenizer, longest
        self.net = GPT2LMHeadModel._from_config(GPT2Config(
            vocab_size=tokenizer.get_vocab_size(), n_embd=hidden, n_layer=layers, n_head=heads, n_positions=longest,
            resid_pdrop=0., embd_pdrop=0., attn_pdrop=0., bos_token_id=0, eos_token_id=0))

    def sampler(self, tokens: Tokens, device, longest=None):
        return WindowSampler(tokens, self.tokenizer, device, longest or self.longest)

    def loss(self, ids, reduction="mean"):
        logits = self.net(ids, use_cache=False).logits[:, :-1]
        return F.cross_entropy(logits.flatten(0, 1).float(), ids[:, 1:].flatten(), reduction=reduction)

    def measure(self, tokens: Tokens, device, batches: int, batch_tokens: int) -> dict:
        """Perplexity of a token, in windows of the model's length and of half of it."""
        measures = {}
        for longest in (self.longest, self.longest // 2):
            sampler, generator = self.sampler(tokens, device, longest), seeded(device, 1)
            losses = [self.loss(sampler.draw(batch_tokens, generator)).item() for _ in range(batches)]
            measures[f"perplexity_{longest}"] = math.exp(sum(losses) / len(losses))
        return measures

    def hub_tokenizer(self):
        mark = "<|endoftext|>"
        return PreTrainedTokenizerFast(tokenizer_object=self.tokenizer, unk_token=mark, bos_token=mark, eos_token=mark,
                                       model_max_length=self.longest,
                                       model_input_names=["input_ids", "attention_mask"])


KINDS = {"bert": Bert, "gpt2": Gpt2}


def seeded(device, seed: int) -> torch.Generator:
    return torch.Generator(device).manual_seed(seed)


def optimizers(net: nn.Module, learning_rate: float) -> list[torch.optim.Optimizer]:
    """Muon for the matrices inside the layers, AdamW for embeddings, biases, norms and heads."""
    inside, outside, plain = [], [], []
    for name, weight in net.named_parameters():
        is_layer = ".layer." in name or ".h." in name
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
            loss = loss_of(*batch) if isinstance(batch, Pairs) else loss_of(batch)
        loss.backward()
        nn.utils.clip_grad_norm_(task.net.parameters(), 1.)
        for optimizer in each:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        step += 1
        begun = begun or time.time()  # the first step compiles; the budget starts after it
        if step % report == 0:
            losses.append(round(loss.item(), 3))
            print(f"step {step:,}  loss {losses[-1]}  {step * batch_tokens / (time.time() - begun) / 1e6:.2f} M tokens/s",
                  flush=True)
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
    task.net.half().save_pretrained(partial)
    task.hub_tokenizer().save_pretrained(partial)
    (partial / "training.json").write_text(json.dumps(record, indent=1) + "\n")
    shutil.rmtree(out, ignore_errors=True)
    partial.rename(out)


def train(kind: str, text: Path, out: Path, *, vocabulary=16_384, shape=None, device=None, measure_batches=40,
          **budget) -> dict:
    """Text folder in, model folder out; returns what training.json says."""
    shape = shape or SHAPE
    if kind not in KINDS:
        raise CompanionError(f"Unknown kind {kind!r}: choose one of {', '.join(KINDS)}.")
    if not (text / "train.txt").exists():
        raise CompanionError(f"{text} holds no train.txt: run `python -m lib.pretrain prepare` first.")
    if not (budget.get("minutes") or budget.get("steps")):
        raise CompanionError("Say how long to train: --minutes or --steps.")
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(budget.get("seed", 0))
    torch.set_float32_matmul_precision("high")
    tokenizer = load_tokenizer(kind, text, vocabulary)
    tokens = text_as_tokens(kind, text, "train", tokenizer)
    heldout = text_as_tokens(kind, text, "heldout", tokenizer)
    task = KINDS[kind](tokenizer, **shape)
    task.net.to(device)
    done = fit(task, tokens, device, **budget)
    task.net.half().float().eval()  # measured as it ships, rounded to float16
    with torch.inference_mode(), torch.autocast("cuda", torch.bfloat16, enabled=device == "cuda"):
        measures = task.measure(heldout, device, measure_batches, done["batch_tokens"])
    measures = {name: round(value, 4) for name, value in measures.items()}
    counts = text / "counts.json"
    record = dict(kind=kind, **shape, vocabulary=tokenizer.get_vocab_size(),
                  parameters=sum(p.numel() for p in task.net.parameters()), training=done, heldout=measures,
                  text=json.loads(counts.read_text()) if counts.exists() else None, torch=torch.__version__)
    save(task, out, record)
    return record


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m lib.pretrain", description=__doc__.split("\n")[0])
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
    given = vars(parser.parse_args(arguments))
    try:
        if given.pop("command") == "prepare":
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
