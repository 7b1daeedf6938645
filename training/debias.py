"""Debiased forms of a BERT by continued training, for Bias A-head's Fig. 5: CDA and Dropout (Webster et al., 2020).

Both go on with masked words and next sentences, on passages of the same text that speak of women and men. CDA,
counterfactual data augmentation, reads each passage and its twin with all gender words swapped (two-sided; swaps.py).
Dropout reads the passages alone, under the rates of the authors' BERT checkpoint. The authors trained CDA from scratch;
here both start from the finished model. Trained are the attention of all layers and the layers' norms: a head is
compared with itself before only while the words and the feed-forward memory around it stay as they were. So the
difference (models.save_difference) takes a quarter of the base, 8 MB for mini-bert."""

from collections import Counter
from functools import partial
from pathlib import Path

import torch
from torch import nn

from lib import CompanionError, paths
from lib.engine import finetune, models
from lib.text import swaps
from training import corpus, loop
from training.corpus import Tokens
from training.objectives import Bert

# longest: of a pair in training, in tokens; attention with dropout is computed in padded rows, expensive for long ones
WAYS = {
    "cda": dict(twins=True, hidden=0.0, attention=0.0, longest=256),
    "dropout": dict(twins=False, hidden=0.20, attention=0.15, longest=128),
}
PREPARED = paths.CACHE / "debias"
GENDERED = 0.03  # share of gender words from which a passage speaks of women and men
PASSAGE = 2_000  # characters: long enough for a pair of 256 tokens, short enough for a twin to compress against
PER_DOCUMENT = 20  # passages, or a few novels would be most of the text


def is_trained(name: str) -> bool:
    """Whether a weight of this name is trained: attention, and the norms after attention and feed-forward."""
    return ".attention." in name or ".output.LayerNorm." in name


def passages(document: str) -> list[str]:
    """A document's paragraphs in runs of at least PASSAGE characters; the last may be shorter."""
    runs = [[]]
    for paragraph in document.split("\n"):
        if sum(map(len, runs[-1])) >= PASSAGE:
            runs.append([])
        runs[-1].append(paragraph)
    return ["\n".join(run) for run in runs]


def prepare(
    text: Path, prepared: Path = PREPARED, name: str = "mini-bert", tokens: int = 5_000_000
) -> dict:
    """Encode passages, each followed by its twin, from the front of train.txt until the passages have so many tokens,
    and all of heldout.txt: passages.npz, heldout.npz, and counts in prepared.json."""
    loop.check_text(text)
    model = models.load(name, device="cpu")
    counts, chunks, fresh = Counter(), [], []
    encode = partial(corpus.encode, model.tokenizer.backend_tokenizer, workers=1)
    for document in corpus.documents([text / "train.txt"]):
        counted = [(passage, *swaps.count(passage)) for passage in passages(document)]
        taken = [row for row in counted if row[2] >= max(1, GENDERED * row[1])][:PER_DOCUMENT]
        counts.update(
            documents=int(bool(taken)),
            passages=len(taken),
            words=sum(words for _, words, _ in taken),
            swapped=sum(swapped for _, _, swapped in taken),
        )
        fresh += [text for passage, *_ in taken for text in (passage, swaps.swap_all(passage))]
        if len(fresh) >= 1_000:
            chunks, fresh = [*chunks, encode(fresh)], []
            if sum(len(chunk.ids) for chunk in chunks) >= 2 * tokens:
                break
    chunks += [encode(fresh)] if fresh else []
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
    """mini-bert's own task, from its weights on: only `is_trained` weights learn, under the dropout asked for."""

    def __init__(self, model: models.Model, hidden: float = 0.0, attention: float = 0.0):
        if not model.has_nsp:
            raise CompanionError(
                f"{model.name} has no next-sentence head to go on training: choose a full BERT."
            )
        self.net, self.tokenizer = model.net, model.tokenizer.backend_tokenizer
        self.longest = min(256, model.tokenizer.model_max_length)
        self.net.set_attn_implementation("packed")
        for name, weight in self.net.named_parameters():
            weight.requires_grad_(is_trained(name))
        for name, module in self.net.named_modules():
            if isinstance(module, nn.Dropout):
                module.p = attention if name.endswith("attention.self.dropout") else hidden


def train(
    way: str,
    out: Path | None = None,
    prepared: Path = PREPARED,
    name: str = "mini-bert",
    device: str | None = None,
    learning_rate: float = 1e-3,
    warmup: int = 50,
    measure_batches: int = 40,
    kept: float = 1.0,
    **budget,
) -> dict:
    """Continue training by a way of WAYS, for `minutes` or `steps`; writes the difference, returns training.json.

    kept   of the way from the base's weights to the trained ones, the share that is shipped (Wortsman et al., 2022)"""
    if not 0 < kept <= 1:
        raise CompanionError(
            f"--kept {kept:g} is no share of the way to the trained weights: give 0 to 1."
        )
    loop.check_budget(budget)
    made, out = finetune.check(prepared, name), out or PREPARED / f"{name}-{way}"
    model, how = models.load(name, device=device), WAYS[way]
    torch.set_float32_matmul_precision("high")
    tokens, heldout = (Tokens.load(prepared / f"{part}.npz") for part in ("passages", "heldout"))
    task, where = Continued(model, how["hidden"], how["attention"]), model.device.type
    measuring = heldout, where, measure_batches, budget.get("batch_tokens") or task.batch_tokens
    before, full = loop.measured(task, *measuring), task.longest
    trained = [weight for weight in model.net.parameters() if weight.requires_grad]
    base = [weight.detach().clone() for weight in trained]
    model.net.train()
    task.longest = min(full, how["longest"])
    done = loop.fit(
        task,
        tokens if how["twins"] else tokens.every_other_document(),
        where,
        learning_rate=learning_rate,
        warmup=warmup,
        report=100,
        checkpoint=out.with_name(out.name + ".checkpoint"),
        **budget,
    )
    task.longest = full
    with torch.no_grad():
        for weight, start in zip(trained, base):
            weight.copy_(
                (weight if kept == 1 else start.lerp(weight, kept)).half()
            )  # measured as it ships
    return models.save_difference(
        model,
        name,
        out,
        way=way,
        **how,
        kept=kept,
        trained="attention and norms",
        training=done | {"warmup": warmup},
        heldout_before=before,
        heldout=loop.measured(task, *measuring),
        text=made,
    )
