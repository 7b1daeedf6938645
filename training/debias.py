"""Debiased forms of a BERT by retraining, for Bias A-head's Fig. 5: CDA and Dropout.

Both (Webster et al., 2020) continue with masked words and next sentences, on passages of the same
text that speak of women and men. CDA, counterfactual data augmentation, reads each passage and its
twin with all gender words swapped (two-sided; swaps.py). Dropout reads the passages alone, under
the rates of the authors' BERT checkpoint. The authors trained CDA from scratch; here both start
from the finished model. Trained are the attention of all layers and the layers' norms: a head is
compared with itself before only while the words and the feed-forward memory around it stay as they
were. So the difference (folders.save_difference) takes a quarter of the base, 8 MB for mini-bert.
"""

from collections import Counter
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn

from lib import CompanionError, paths
from lib.engine import folders, models
from lib.text import swaps
from training import corpus, finetune, loop
from training.corpus import Tokens
from training.objectives import Bert

# longest: tokens of a pair in training. Attention with dropout is computed in padded rows, which
# is expensive for long ones.
WAYS = {
    "cda": dict(twins=True, hidden=0.0, attention=0.0, longest=256),
    "dropout": dict(twins=False, hidden=0.20, attention=0.15, longest=128),
}
PREPARED = paths.CACHE / "debias"
GENDERED = 0.03  # share of gender words from which a passage speaks of women and men
# Characters of a passage: long enough for a pair of 256 tokens, short enough for a twin to compress
# against.
PASSAGE = 2_000
PER_DOCUMENT = 20  # passages, or a few novels would be most of the text
CHUNK = 1_000  # texts that are encoded at a time
PLAN = dict(learning_rate=1e-3, warmup=50, report=100)  # what differs from loop.Plan's defaults


class Passage(NamedTuple):
    text: str
    words: int
    swapped: int  # words that swaps.swap_all replaces


def is_trained(name: str) -> bool:
    """Whether the weight is trained: attention, and the norms after attention and feed-forward."""
    return ".attention." in name or ".output.LayerNorm." in name


def passages(document: str) -> list[str]:
    """A document's paragraphs in runs of at least PASSAGE characters; the last may be shorter."""
    runs = [[]]
    for paragraph in document.split("\n"):
        if sum(map(len, runs[-1])) >= PASSAGE:
            runs.append([])
        runs[-1].append(paragraph)
    return ["\n".join(run) for run in runs]


def gendered_passages(document: str) -> list[Passage]:
    """The document's first PER_DOCUMENT passages that speak of women and men."""
    found = []
    for text in passages(document):
        words, swapped = swaps.count(text)
        if swapped >= max(1, GENDERED * words):
            found.append(Passage(text, words, swapped))
    return found[:PER_DOCUMENT]


def prepare(
    text: Path, prepared: Path = PREPARED, name: str = "mini-bert", tokens: int = 5_000_000
) -> dict:
    """Encode passages, each followed by its twin, and the held-out text; returns the counts.

    Passages are taken from the front of train.txt until they have `tokens` tokens, their twins not
    counted. Writes passages.npz, heldout.npz and prepared.json.
    """
    loop.check_text(text)
    model = models.load(name, device="cpu")
    encode = partial(corpus.encode, model.tokenizer.backend_tokenizer, workers=1)
    counts = Counter()
    chunks = []
    n_tokens = 0
    waiting = []  # texts that are not encoded yet
    for document in corpus.documents([text / "train.txt"]):
        taken = gendered_passages(document)
        counts.update(
            documents=1 if taken else 0,
            passages=len(taken),
            words=sum(passage.words for passage in taken),
            swapped=sum(passage.swapped for passage in taken),
        )
        for passage in taken:
            waiting += [passage.text, swaps.swap_all(passage.text)]
        if len(waiting) >= CHUNK:
            chunks.append(encode(waiting))
            n_tokens += len(chunks[-1].ids)
            waiting = []
            if n_tokens >= 2 * tokens:
                break
    if waiting:
        chunks.append(encode(waiting))
    if not chunks:
        raise CompanionError(
            f"{text}/train.txt has no passage that speaks of women or men: give more text."
        )
    both = Tokens.joined(chunks)
    both.save(prepared / "passages.npz")
    encode(corpus.documents([text / "heldout.txt"])).save(prepared / "heldout.npz")
    return finetune.sign(
        prepared,
        model,
        "train.txt",
        **counts,
        tokens=len(both.ids),
        tokens_note="passages and twins together",
    )


class Continued(Bert):
    """mini-bert's own task, continued from its weights.

    Only weights that `is_trained` names are trained, under the given rates of dropout.
    """

    def __init__(self, model: models.Model, hidden: float = 0.0, attention: float = 0.0):
        if not model.has_nsp:
            raise CompanionError(
                f"{model.name} has no next-sentence head to go on training: choose a full BERT."
            )
        self.net = model.net
        self.tokenizer = model.tokenizer.backend_tokenizer
        self.longest = min(256, model.tokenizer.model_max_length)
        self.net.set_attn_implementation("packed")
        for name, weight in self.net.named_parameters():
            weight.requires_grad_(is_trained(name))
        for name, module in self.net.named_modules():
            if isinstance(module, nn.Dropout):
                is_attention = name.endswith("attention.self.dropout")
                module.p = attention if is_attention else hidden


def train(
    way: str,
    out: Path | None = None,
    prepared: Path = PREPARED,
    name: str = "mini-bert",
    device: str | None = None,
    *,
    measure_batches: int = 40,
    kept: float = 1.0,
    **options,
) -> dict:
    """Retrain by a way of WAYS, for `minutes` or `steps`; write the difference, return its record.

    kept:    share of the way from the base's weights to the trained ones at which the written ones
             lie (Wortsman et al., 2022)
    options: fields of loop.Plan
    """
    check_kept(kept)
    loop.check_budget(options)
    options = PLAN | options
    about_text = finetune.check(prepared, name)
    out = out or PREPARED / f"{name}-{way}"
    model = models.load(name, device=device)
    torch.set_float32_matmul_precision("high")
    heldout = Tokens.load(prepared / "heldout.npz")
    tokens = Tokens.load(prepared / "passages.npz")
    choices = WAYS[way]
    if not choices["twins"]:
        tokens = tokens.every_other_document()
    task = Continued(model, choices["hidden"], choices["attention"])
    batch_tokens = options.get("batch_tokens") or task.batch_tokens
    measure = partial(
        loop.measured, task, heldout, model.device.type, measure_batches, batch_tokens
    )
    before = measure()
    checkpoint = out.with_name(out.name + ".checkpoint")
    done = retrain(task, tokens, choices["longest"], kept, checkpoint=checkpoint, **options)
    return folders.save_difference(
        model,
        name,
        out,
        way=way,
        **choices,
        kept=kept,
        trained="attention and norms",
        training=done | {"warmup": options["warmup"]},
        heldout_before=before,
        heldout=measure(),
        text=about_text,
    )


def check_kept(kept: float):
    """Refuse a share that is not between 0 (excluded) and 1."""
    if not 0 < kept <= 1:
        raise CompanionError(
            f"--kept {kept:g} is no share of the way to the trained weights: give 0 to 1."
        )


def retrain(task: Continued, tokens: Tokens, longest: int, kept: float, **options) -> dict:
    """Train on pairs of up to `longest` tokens; returns what loop.fit returns.

    The weights end at the share `kept` of their way, rounded to float16, as they are stored.
    """
    weights = [weight for weight in task.net.parameters() if weight.requires_grad]
    base = [weight.detach().clone() for weight in weights]
    longest_read = task.longest
    task.longest = min(longest_read, longest)
    task.net.train()
    done = loop.fit(task, tokens, task.net.device.type, **options)
    task.longest = longest_read
    with torch.no_grad():
        for weight, start in zip(weights, base):
            moved = weight if kept == 1 else start.lerp(weight, kept)
            weight.copy_(moved.half())
    return done
