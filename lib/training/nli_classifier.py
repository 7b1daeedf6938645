"""Make mini-bert-nli: a shipped model fine-tuned for natural language inference, kept as what differs from it.

    python -m lib.training.nli_classifier make --model bert-base        the paper's: all three steps below on all of SNLI, once

    python -m lib.training.nli_classifier prepare --model mini-bert                             encode SNLI (needs the files)
    python -m lib.training.nli_classifier train --model mini-bert --rate 3e-4 --epochs 6 --out data/cache/nli/runs/a
    python -m lib.training.nli_classifier choose data/cache/nli/runs/* --out data/models/mini-bert-nli

`train` needs nothing but the model and what `prepare` wrote. It learns from the 26,330 training pairs that can be had
as files and from SNLI's validation pairs, but for 1,000 of these (with all pairs of their premises); embeddings stay
as they are, so that the difference is small. `choose` takes the run that does best on the 1,000 and measures that one
on SNLI's test pairs, once. Classes: 0 entailment, 1 neutral, 2 contradiction.
"""

import argparse
import json
import shutil
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch

from lib import CompanionError, paths
from lib.engine import difference, limit, models
from lib.publish.run import slug
from lib.text.readers import NLI_LABELS as LABELS
from lib.training import examples, finetune
from lib.training.finetune import accuracy

HELD_OUT = 1_000
PREPARED = paths.CACHE / "nli"
USUAL = finetune.Settings(rate=2e-5, epochs=3, batch=32)  # among those of Devlin et al. 2019, A.3; Projective has none


def prepare(name: str, folder: Path, full: bool = False, held_out: int = HELD_OUT) -> dict[str, int]:
    """Encode the pairs into train.npz, validation.npz (held out) and test.npz; returns how many of each.

    full  all of SNLI, from the model hub: what the paper's BERT-base was trained on
    """
    import pandas as pd  # `train` can do without

    from lib.text import readers

    files = {split: limit.first(readers.snli(split, full)) for split in ("train", "validation", "test")}
    premises = files["validation"]["premise"].unique()
    order = dict(zip(np.random.default_rng(0).permutation(premises), range(len(premises))))
    mixed = files["validation"].sort_values("premise", key=lambda column: column.map(order), kind="stable")
    apart = mixed["premise"].isin(mixed["premise"].iloc[:held_out])  # whole premises
    parts = {"train": pd.concat([files["train"], mixed[~apart]]), "validation": mixed.iloc[:held_out],
             "test": files["test"]}
    unseen = set(_pairs(parts["validation"])) | set(_pairs(parts["test"]))
    parts["train"] = parts["train"][[pair not in unseen for pair in _pairs(parts["train"])]]
    model = models.load(name, device="cpu")
    for part, frame in parts.items():
        examples.encode(model, list(frame["premise"]), list(frame["hypothesis"]),
                        [LABELS.index(label) for label in frame["label"]]).save(folder / f"{part}.npz")
    examples.sign(folder, model, "hub" if full else "files")
    return {part: len(frame) for part, frame in parts.items()}


def _pairs(frame) -> list[tuple[str, str]]:
    return list(zip(frame["premise"].str.lower().str.strip(), frame["hypothesis"].str.lower().str.strip()))


def train(name: str, prepared: Path, settings: finetune.Settings, out: Path, device: str | None = None,
          limit: int = 0, progress: bool = True) -> dict:
    """One run: the best epoch's model as a difference in `out`; returns what its training.json says."""
    made = examples.check(prepared, name)
    parts = {part: examples.load(prepared / f"{part}.npz") for part in ("train", "validation")}
    if limit:
        parts = {part: found.take(range(min(limit, len(found)))) for part, found in parts.items()}
    torch.manual_seed(settings.seed)  # the new head's weights
    model = models.load(name, device=device, task="sequence-classification", labels=len(LABELS))
    model.net.config.id2label = dict(enumerate(LABELS))
    model.net.config.label2id = {label: i for i, label in enumerate(LABELS)}
    done = finetune.fit(model, parts["train"], parts["validation"], _accuracy, settings,
                        checkpoint=out.with_name(out.name + ".checkpoint"), progress=out.name if progress else "")
    record = {"base": name, "base_revision": model.revision, "source": made["source"],
              "pairs": {part: len(parts[part]) for part in parts},
              "settings": asdict(settings), **done, "torch": torch.__version__.split("+")[0]}
    difference.save(model, name, out, record)
    return record


def choose(runs: list[Path], prepared: Path, out: Path, device: str | None = None, limit: int = 0) -> dict:
    """Ship the run that does best on validation: measured as it ships, rounded to float16, on the test pairs."""
    records = {run: json.loads((run / "training.json").read_text()) for run in runs}
    best = max(runs, key=lambda run: (records[run]["validation"], run.name))
    test = examples.load(prepared / "test.npz")
    test = test.take(range(min(limit, len(test)))) if limit else test
    model = models.load(str(best), device=device, task="sequence-classification")
    record = records[best] | {
        "pairs": records[best]["pairs"] | {"test": len(test)},
        "test": round(_accuracy(finetune.predict(model, test), test.targets.numpy()), 4),
        "tried": [{name: other["settings"][name] for name in ("rate", "epochs", "dropout", "seed")}
                  | {"validation": other["validation"]} for other in records.values()]}
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(best, out)
    (out / "training.json").write_text(json.dumps(record, indent=1) + "\n")
    return record


def make(name: str, out: Path, device: str | None = None) -> dict:
    """`prepare` all of SNLI, `train` by the usual settings and `choose` the one run there is, into `out`.

    Stopped, it goes on from the pairs that were encoded and the epochs that were done.
    """
    prepared, run = (PREPARED / f"{slug(name)}-{part}{limit.suffix()}" for part in ("hub", "run"))
    try:
        examples.check(prepared, name)
    except CompanionError:
        prepare(name, prepared, full=True)
    train(name, prepared, USUAL, run, device)
    return choose([run], prepared, out, device)


def _accuracy(logits: np.ndarray, wanted: np.ndarray) -> float:
    return accuracy(logits.argmax(1), wanted)


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m lib.training.nli_classifier", description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    each = {name: commands.add_parser(name, help=text) for name, text in {
        "prepare": "encode SNLI", "train": "one run", "choose": "the best run, tested once",
        "make": "all of it, on all of SNLI"}.items()}
    for name in ("prepare", "train", "choose"):
        each[name].add_argument("--prepared", type=Path, default=PREPARED, help="where the encoded pairs lie")
    for name in ("prepare", "train", "make"):
        each[name].add_argument("--model", default="mini-bert")
    for name in ("train", "choose", "make"):
        each[name].add_argument("--out", type=Path, required=name != "make", help="the model's folder")
        each[name].add_argument("--device")
    for name in ("train", "choose"):
        each[name].add_argument("--limit", type=int, default=0, help="so many pairs of each part: for a try")
    each["choose"].add_argument("runs", nargs="+", type=Path)
    each["prepare"].add_argument("--full", action="store_true", help="all of SNLI, from the model hub")
    each["train"].add_argument("--train-embeddings", action="store_true", help="a larger difference")
    for name, value in dict(rate=3e-4, epochs=6, batch=128, dropout=.1, seed=0).items():
        each["train"].add_argument(f"--{name}", type=type(value), default=value)
    given = parser.parse_args(arguments)
    try:
        if given.command == "prepare":
            result = prepare(given.model, given.prepared, given.full)
        elif given.command == "train":
            settings = finetune.Settings(given.rate, given.epochs, given.batch, dropout=given.dropout, seed=given.seed,
                                         frozen=() if given.train_embeddings else ("embeddings",))
            result = train(given.model, given.prepared, settings, given.out, given.device, given.limit)
        elif given.command == "make":
            out = given.out or PREPARED / f"{slug(given.model)}-nli{limit.suffix()}"
            result = make(given.model, out, given.device)
        else:
            result = choose(given.runs, given.prepared, given.out, given.device, given.limit)
    except CompanionError as error:
        print(error, file=sys.stderr)
        return 2
    print(json.dumps({name: value for name, value in result.items() if name not in ("history", "settings")}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
