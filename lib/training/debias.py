"""Debiased forms of a BERT by continued training, for Bias A-head's Fig. 5: CDA and Dropout (Webster et al., 2020).

    python -m lib.training.pretrain debias prepare --text data/cache/pretrain          passages and their twins, encoded (a CPU)
    python -m lib.training.pretrain debias cda --out data/models/mini-bert-cda --minutes 1.3              (a GPU)
    python -m lib.training.pretrain debias dropout --out data/models/mini-bert-dropout --minutes 1.3

Both go on with what the model was pre-trained for, masked words and next sentences, on passages of the same text that
speak of women and men. CDA, counterfactual data augmentation, reads each passage and its twin with all gender words
swapped (two-sided; swaps.py), so that what is said of either is said of both. Dropout reads the passages alone, under
the rates of the authors' BERT checkpoint, .15 of attention and .20 of hidden units, that the association should not
hang on few of them. The authors trained CDA from scratch; here both start from the finished model.

Trained are the attention of all layers and the layers' norms: a question about heads wants every head free to change,
and a head is compared with itself before only while the words and the feed-forward memory around it stay as they were.
So the difference (difference.py) takes a quarter of the base, 8 MB for mini-bert.
"""

import json
from pathlib import Path

import numpy as np
import torch
from torch import nn
from tqdm.auto import tqdm

from lib import CompanionError, paths
from lib.engine import difference, models
from lib.training import corpus, pretrain
from lib.training.corpus import Tokens
from lib.training.objectives import Bert

# longest: of a pair in training, in tokens; attention with dropout is computed in padded rows, dear for long ones
WAYS = {"cda": dict(twins=True, hidden=0., attention=0., longest=256),
        "dropout": dict(twins=False, hidden=.20, attention=.15, longest=128)}
PREPARED = paths.CACHE / "debias"
GENDERED = .03   # share of gender words from which a passage speaks of women and men
PASSAGE = 2_000  # characters: long enough for a pair of 256 tokens, short enough for a twin to compress against
PER_DOCUMENT = 20  # passages, or a few novels would be most of the text


def is_trained(name: str) -> bool:
    """Whether a weight of this name is trained: attention, and the norms after attention and feed-forward."""
    return ".attention." in name or ".output.LayerNorm." in name


# Text

def passages(document: str) -> list[str]:
    """A document's paragraphs in runs of at least PASSAGE characters; the last may be shorter."""
    found, run = [], []
    for paragraph in document.split("\n"):
        run.append(paragraph)
        if sum(map(len, run)) >= PASSAGE:
            found.append("\n".join(run))
            run = []
    return found + ["\n".join(run)] * bool(run)


def prepare(text: Path, out: Path = PREPARED, name: str = "mini-bert", tokens: int = 5_000_000) -> dict:
    """Encode passages, each followed by its twin, from the front of train.txt (its documents are shuffled) until the
    passages have so many tokens, and all of heldout.txt: passages.npz, heldout.npz, and counts in prepared.json."""
    from lib.text import swaps  # wants pandas, which training can do without

    if not (text / "train.txt").exists():
        raise CompanionError(f"{text} holds no train.txt: run `python -m lib.training.pretrain prepare` first.")
    model = models.load(name, device="cpu")
    tokenizer = model.tokenizer.backend_tokenizer
    counts, chunks, fresh = dict(documents=0, passages=0, tokens=0, words=0, swapped=0), [], []
    with tqdm(total=tokens, desc="tokens", unit_scale=True) as bar:
        for document in corpus.documents([text / "train.txt"]):
            taken = [one for one in passages(document) if _speaks_of_gender(swaps.count(one))][:PER_DOCUMENT]
            for passage in taken:
                words, swapped = swaps.count(passage)
                counts["words"], counts["swapped"] = counts["words"] + words, counts["swapped"] + swapped
                fresh += [passage, swaps.swap_all(passage)]
            counts["documents"] += bool(taken)
            counts["passages"] += len(taken)
            if len(fresh) >= 1_000:
                chunks.append(corpus.encode(tokenizer, fresh, workers=1))
                counts["tokens"], fresh = counts["tokens"] + len(chunks[-1].ids) // 2, []
                bar.update(len(chunks[-1].ids) // 2)
            if counts["tokens"] >= tokens:
                break
    chunks += [corpus.encode(tokenizer, fresh, workers=1)] if fresh else []
    if not chunks:
        raise CompanionError(f"{text}/train.txt has no passage that speaks of women or men: give more text.")
    out.mkdir(parents=True, exist_ok=True)
    save(Tokens.joined(chunks), out / "passages.npz")
    save(corpus.encode(tokenizer, corpus.documents([text / "heldout.txt"]), workers=1), out / "heldout.npz")
    counts |= dict(tokens=sum(len(part.ids) for part in chunks), tokens_note="passages and twins together",
                   model=name, revision=model.revision)
    (out / "prepared.json").write_text(json.dumps(counts, indent=1) + "\n")
    return counts


def _speaks_of_gender(counted: tuple[int, int]) -> bool:
    words, gendered = counted
    return gendered >= max(1, GENDERED * words)


def save(tokens: Tokens, file: Path):
    """Lengths in place of places, compressed: a fifth of what Tokens.save takes."""
    places = np.searchsorted(tokens.sentences, tokens.documents)
    np.savez_compressed(file, ids=tokens.ids, sentences=np.diff(tokens.sentences, append=len(tokens.ids)).astype("u2"),
                        documents=np.diff(places, append=len(tokens.sentences)).astype("u4"))


def load(file: Path, twins: bool = True) -> Tokens:
    """What `save` wrote; without `twins`, every other document alone."""
    if not file.exists():
        raise CompanionError(f"{file} is not there: run `python -m lib.training.pretrain debias prepare` first.")
    with np.load(file, allow_pickle=False) as kept:
        ids, sentences, documents = (kept[part] for part in ("ids", "sentences", "documents"))
    if not twins:
        wanted = np.repeat(np.arange(len(documents)) % 2 == 0, documents)
        ids, sentences, documents = ids[np.repeat(wanted, sentences)], sentences[wanted], documents[::2]
    begin = np.concatenate([[0], np.cumsum(sentences, dtype=np.int64)])[:-1]
    return Tokens(ids, begin, begin[np.concatenate([[0], np.cumsum(documents, dtype=np.int64)])[:-1]])


# Training

class Continued(Bert):
    """mini-bert's own task, from its weights on: only `is_trained` weights learn, under the dropout asked for."""

    def __init__(self, model: models.Model, hidden: float = 0., attention: float = 0.):
        if not model.has_nsp:
            raise CompanionError(f"{model.name} has no next-sentence head to go on training: choose a full BERT.")
        self.net, self.tokenizer = model.net, model.tokenizer.backend_tokenizer
        self.longest = min(256, model.tokenizer.model_max_length)
        self.net.set_attn_implementation("packed")
        for name, weight in self.net.named_parameters():
            weight.requires_grad_(is_trained(name))
        for name, part in self.net.named_modules():
            if isinstance(part, nn.Dropout):
                part.p = attention if name.endswith("attention.self.dropout") else hidden


def train(way: str, out: Path, prepared: Path = PREPARED, name: str = "mini-bert", device: str | None = None,
          learning_rate: float = 1e-3, warmup: int = 50, measure_batches: int = 40, **budget) -> dict:
    """Continue training by a way of WAYS, for `minutes` or `steps`; writes the difference, returns training.json."""
    if not (budget.get("minutes") or budget.get("steps")):
        raise CompanionError("Say how long to train: --minutes or --steps.")
    made = json.loads((prepared / "prepared.json").read_text()) if (prepared / "prepared.json").exists() else {}
    model, how = models.load(name, device=device), WAYS[way]
    if made.get("revision") != model.revision:
        raise CompanionError(f"{prepared} holds no text for {name} as it is: run `python -m lib.training.pretrain debias "
                             f"prepare --model {name}` first.")
    torch.set_float32_matmul_precision("high")
    tokens, heldout = load(prepared / "passages.npz", how["twins"]), load(prepared / "heldout.npz")
    task, where = Continued(model, how["hidden"], how["attention"]), model.device.type
    frozen = {key: value.clone() for key, value in model.net.named_parameters() if not is_trained(key)}
    size = budget.get("batch_tokens") or task.batch_tokens

    def measured() -> dict:
        torch.manual_seed(0)  # how many pairs a batch is made of is estimated from random ones
        model.net.eval()
        with torch.inference_mode(), torch.autocast("cuda", torch.bfloat16, enabled=where == "cuda"):
            found = task.measure(heldout, where, measure_batches, size)
        return {key: round(value, 4) for key, value in found.items()}

    before, full = measured(), task.longest
    model.net.train()
    task.longest = min(full, how["longest"])
    done = pretrain.fit(task, tokens, where, learning_rate=learning_rate, warmup=warmup, report=100, **budget)
    task.longest = full
    model.net.half().float()  # measured as it ships
    assert all(torch.equal(value, frozen[key]) for key, value in model.net.named_parameters() if key in frozen)
    record = {"base": name, "base_revision": model.revision, "way": way, **how, "trained": "attention and norms",
              "training": done | {"warmup": warmup}, "heldout_before": before, "heldout": measured(), "text": made,
              "torch": torch.__version__.split("+")[0]}
    difference.save(model, name, out, record)
    return record


# The command, which lib/training/pretrain.py offers

def options(parser):
    parser.add_argument("way", choices=["prepare", *WAYS], help="encode the text, or train")
    parser.add_argument("--text", type=Path, default=paths.CACHE / "pretrain", help="prepare: what pretrain's wrote")
    parser.add_argument("--tokens", type=int, default=5_000_000, help="prepare: of passages, before their twins")
    parser.add_argument("--prepared", type=Path, default=PREPARED, help="where the encoded text lies")
    parser.add_argument("--model", dest="name", default="mini-bert", help="the base")
    parser.add_argument("--out", type=Path, help="the model's folder; left out, data/cache/debias/<base>-<way>")
    parser.add_argument("--device")
    for name, kind in dict(minutes=float, steps=int, batch_tokens=int).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind)
    for name, value in dict(learning_rate=1e-3, warmup=50, measure_batches=40, seed=0).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=value)


def command(way, text, tokens, prepared, name, out, **training) -> dict:
    """What `options` asked for."""
    if way == "prepare":
        return prepare(text, prepared, name, tokens)
    return train(way, out or PREPARED / f"{name}-{way}", prepared, name, **training)
