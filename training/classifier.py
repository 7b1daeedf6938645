"""A model fine-tuned for natural language inference, kept as what differs from it: mini-bert-nli.

    python -m training nli prepare                           encode SNLI
    python -m training nli train --out RUN                   one run, from one seed
    python -m training nli choose RUN... --out FOLDER        keep the best
    python -m training nli make --model bert-base            all three, on all of SNLI

Trained on are the 26,330 training pairs that can be had as files and SNLI's validation pairs, but
for 1,000 of these (with all pairs of their premises). Embeddings stay as they are, so that the
difference is small.
"""

import json
import shutil
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from lib import CompanionError, paths
from lib.engine import files, folders, models, stats
from lib.text import readers, swaps
from lib.text.readers import NLI_LABELS
from training import finetune

HELD_OUT = 1_000
PREPARED = paths.CACHE / "nli"
# Settings of `make`: among those of Devlin et al. 2019, A.3; Projective methods gives none.
USUAL = {"rate": 2e-5, "epochs": 3, "batch": 32, "frozen": ()}


def _accuracy(logits: np.ndarray, wanted: np.ndarray) -> float:
    return finetune.accuracy(logits.argmax(1), wanted)


# ---- the examples
def prepare(
    name: str,
    prepared: Path = PREPARED,
    full: bool = False,
    held_out: int = HELD_OUT,
    items: int = 0,
    balanced: bool = False,
) -> dict[str, int]:
    """Encode the pairs into train.npz, validation.npz (held out) and test.npz; how many of each.

    full      all of SNLI, from the model hub: what the paper's BERT-base was trained on
    items     so many pairs of each of SNLI's parts, for a try; 0: all
    balanced  swap the gender words and first names of half of the premises with all their
              hypotheses, for a classifier that can hold no stereotype of gender
    """
    snli = {}
    for split in ("train", "validation", "test"):
        snli[split] = stats.first(readers.snli(split, full), items)
        if balanced:
            snli[split] = _balanced(snli[split])
    parts = _divided(snli, held_out)
    model = models.load(name, device="cpu")
    for part, frame in parts.items():
        labels = [NLI_LABELS.index(label) for label in frame["label"]]
        examples = finetune.encode(model, list(frame["premise"]), list(frame["hypothesis"]), labels)
        examples.save(prepared / f"{part}.npz")
    finetune.sign(prepared, model, "hub" if full else "files")
    return {part: len(frame) for part, frame in parts.items()}


def _balanced(frame: pd.DataFrame) -> pd.DataFrame:
    """The pairs, by a coin for each premise with gender words and first names swapped."""
    premises = frame["premise"].unique()
    coin = np.random.default_rng(0)
    is_swapped = dict(zip(premises, coin.random(len(premises)) < 0.5))
    chosen = frame["premise"].map(is_swapped)
    swapped = frame.copy()
    for column in ("premise", "hypothesis"):
        texts = frame.loc[chosen, column]
        swapped.loc[chosen, column] = [swaps.swap_all(text, names=True) for text in texts]
    return swapped


def _divided(snli: dict[str, pd.DataFrame], held_out: int) -> dict[str, pd.DataFrame]:
    """SNLI's parts with all of its validation pairs but `held_out` moved to the training pairs.

    Premises are shuffled first. None of those held out is trained on, and no pair that is held out
    or in the test set, in whatever case it is written.
    """
    shuffled = _shuffled_by_premise(snli["validation"])
    validation = shuffled.iloc[:held_out]
    has_held_out_premise = shuffled["premise"].isin(validation["premise"])
    train = pd.concat([snli["train"], shuffled[~has_held_out_premise]])
    unseen = {*_plain_pairs(validation), *_plain_pairs(snli["test"])}
    is_new = [pair not in unseen for pair in _plain_pairs(train)]
    return {"train": train[is_new], "validation": validation, "test": snli["test"]}


def _shuffled_by_premise(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows with their premises in random order; those of one premise stay together."""
    premises = frame["premise"].unique()
    shuffled = np.random.default_rng(0).permutation(premises)
    order = {premise: place for place, premise in enumerate(shuffled)}
    return frame.sort_values("premise", key=lambda column: column.map(order), kind="stable")


def _plain_pairs(frame: pd.DataFrame) -> list[tuple[str, str]]:
    """(premise, hypothesis) in lower case and without spaces around them."""
    premises = frame["premise"].str.lower().str.strip()
    hypotheses = frame["hypothesis"].str.lower().str.strip()
    return list(zip(premises, hypotheses))


# ---- training
def train(
    name: str,
    prepared: Path,
    out: Path,
    device: str | None = None,
    frozen=("embeddings",),
    **settings,
) -> dict:
    """One run: the best epoch's model as a difference in `out`; returns its training.json.

    Embeddings stay as they are, so that the difference is small, unless `frozen` leaves them out.
    """
    made = finetune.check(prepared, name)
    settings = finetune.Settings(frozen=frozen, **settings)
    training = finetune.load(prepared / "train.npz")
    validation = finetune.load(prepared / "validation.npz")
    torch.manual_seed(settings.seed)  # the new head's weights
    model = models.load(name, device=device, task="sequence-classification", labels=len(NLI_LABELS))
    model.net.config.id2label = dict(enumerate(NLI_LABELS))
    model.net.config.label2id = {label: i for i, label in enumerate(NLI_LABELS)}
    done = finetune.fit(
        model,
        training,
        validation,
        _accuracy,
        settings,
        checkpoint=out.with_name(out.name + ".checkpoint"),
        progress=out.name,
    )
    return folders.save_difference(
        model,
        name,
        out,
        source=made["source"],
        pairs={"train": len(training), "validation": len(validation)},
        settings=asdict(settings),
        **done,
    )


def choose(runs: list[Path], prepared: Path, out: Path, device: str | None = None) -> dict:
    """Copy the training of highest validation accuracy to `out`; returns its record.

    Of equals the last by name. It alone sees the test pairs, as it is stored: in float16.
    """
    records = {run: finetune.read_record(run / "training.json") for run in runs}
    for run, record in records.items():
        if "validation" not in record:
            raise CompanionError(f"{run} holds no trained classifier: name a folder of nli train.")
    best = max(runs, key=lambda run: (records[run]["validation"], run.name))
    test = finetune.load(prepared / "test.npz")
    model = models.load(str(best), device=device, task="sequence-classification")
    record = dict(records[best])
    record["pairs"] = record["pairs"] | {"test": len(test)}
    record["test"] = round(_accuracy(finetune.predict(model, test), test.targets.numpy()), 4)
    record["tried"] = [_tried(one) for one in records.values()]
    with files.new_folder(out) as folder:
        shutil.copytree(best, folder, dirs_exist_ok=True)
        (folder / "training.json").write_text(json.dumps(record, indent=1) + "\n")
    return record


def _tried(record: dict) -> dict:
    """What a run was trained with, and what it came to."""
    tried = {name: record["settings"][name] for name in ("rate", "epochs", "dropout", "seed")}
    return tried | {"validation": record["validation"]}


def make(name: str, out: Path | None = None, device: str | None = None, items: int = 0) -> dict:
    """`prepare` all of SNLI, `train` by the usual settings and `choose` the one run there is.

    Stopped, it goes on from the pairs that were encoded and the epochs that were done.
    out   left out, in the cache
    """
    limit = f"-limit{items}" if items else ""
    prepared = PREPARED / f"{files.slug(name)}-hub{limit}"
    run = PREPARED / f"{files.slug(name)}-run{limit}"
    kept = PREPARED / f"{files.slug(name)}-nli{limit}"
    try:
        finetune.check(prepared, name)
    except CompanionError:
        prepare(name, prepared, full=True, items=items)
    train(name, prepared, run, device, **USUAL)
    return choose([run], prepared, out or kept, device)
