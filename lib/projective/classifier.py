"""A model fine-tuned for natural language inference, kept as what differs from it: mini-bert-nli.

    python -m lib.projective.classifier prepare                           encode SNLI
    python -m lib.projective.classifier train --out RUN                   one run, from one seed
    python -m lib.projective.classifier choose RUN... --out FOLDER        keep the best
    python -m lib.projective.classifier make --model bert-base            all three, on all of SNLI

Trained on are the 26,330 training pairs that can be had as files and SNLI's validation pairs, but for
1,000 of these (with all pairs of their premises). Embeddings stay as they are, so that the difference
is small.
"""

import argparse
import json
import shutil
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch

from lib import CompanionError, Lazy, paths
from lib.engine import files, finetune, models, stats
from lib.text import readers
from lib.text.readers import NLI_LABELS

pd = Lazy("pandas")  # `train` can do without

HELD_OUT = 1_000
PREPARED = paths.CACHE / "nli"
USUAL = dict(
    rate=2e-5, epochs=3, batch=32, frozen=()
)  # among those of Devlin et al. 2019, A.3; Projective has none


def _accuracy(logits: np.ndarray, wanted: np.ndarray) -> float:
    return finetune.accuracy(logits.argmax(1), wanted)


def prepare(
    name: str,
    prepared: Path = PREPARED,
    full: bool = False,
    held_out: int = HELD_OUT,
    items: int = 0,
) -> dict[str, int]:
    """Encode the pairs into train.npz, validation.npz (held out) and test.npz; returns how many of each.

    full   all of SNLI, from the model hub: what the paper's BERT-base was trained on
    items  so many pairs of each of SNLI's parts, for a try; 0: all"""
    snli = {
        split: stats.first(readers.snli(split, full), items)
        for split in ("train", "validation", "test")
    }
    premises = snli["validation"]["premise"].unique()
    order = dict(zip(np.random.default_rng(0).permutation(premises), range(len(premises))))
    mixed = snli["validation"].sort_values(
        "premise", key=lambda column: column.map(order), kind="stable"
    )
    apart = mixed["premise"].isin(mixed["premise"].iloc[:held_out])  # whole premises
    parts = snli | {
        "train": pd.concat([snli["train"], mixed[~apart]]),
        "validation": mixed.iloc[:held_out],
    }
    pairs = {
        part: list(
            zip(*(frame[column].str.lower().str.strip() for column in ("premise", "hypothesis")))
        )
        for part, frame in parts.items()
    }
    unseen = {*pairs["validation"], *pairs["test"]}
    parts["train"] = parts["train"][[pair not in unseen for pair in pairs["train"]]]
    model = models.load(name, device="cpu")
    for part, frame in parts.items():
        finetune.encode(
            model,
            list(frame["premise"]),
            list(frame["hypothesis"]),
            [NLI_LABELS.index(label) for label in frame["label"]],
        ).save(prepared / f"{part}.npz")
    finetune.sign(prepared, model, "hub" if full else "files")
    return {part: len(frame) for part, frame in parts.items()}


def train(
    name: str,
    prepared: Path,
    out: Path,
    device: str | None = None,
    frozen=("embeddings",),
    **settings,
) -> dict:
    """One run: the best epoch's model as a difference in `out`; returns what its training.json says.
    Embeddings stay as they are, so that the difference is small, unless `frozen` has them not."""
    made, settings = finetune.check(prepared, name), finetune.Settings(frozen=frozen, **settings)
    parts = {part: finetune.load(prepared / f"{part}.npz") for part in ("train", "validation")}
    torch.manual_seed(settings.seed)  # the new head's weights
    model = models.load(name, device=device, task="sequence-classification", labels=len(NLI_LABELS))
    model.net.config.id2label = dict(enumerate(NLI_LABELS))
    model.net.config.label2id = {label: i for i, label in enumerate(NLI_LABELS)}
    done = finetune.fit(
        model,
        *parts.values(),
        _accuracy,
        settings,
        checkpoint=out.with_name(out.name + ".checkpoint"),
        progress=out.name,
    )
    known = dict(
        source=made["source"], pairs={part: len(examples) for part, examples in parts.items()}
    )
    return models.save_difference(model, name, out, **known, settings=asdict(settings), **done)


def choose(runs: list[Path], prepared: Path, out: Path, device: str | None = None) -> dict:
    """Ship the run that does best on validation: measured as it ships, rounded to float16, once, on the test pairs."""
    records = {run: json.loads((run / "training.json").read_text()) for run in runs}
    best = max(runs, key=lambda run: (records[run]["validation"], run.name))
    test = finetune.load(prepared / "test.npz")
    model = models.load(str(best), device=device, task="sequence-classification")
    record = records[best] | {
        "pairs": records[best]["pairs"] | {"test": len(test)},
        "test": round(_accuracy(finetune.predict(model, test), test.targets.numpy()), 4),
        "tried": [
            {name: one["settings"][name] for name in ("rate", "epochs", "dropout", "seed")}
            | {"validation": one["validation"]}
            for one in records.values()
        ],
    }
    with files.new_folder(out) as folder:
        shutil.copytree(best, folder, dirs_exist_ok=True)
        (folder / "training.json").write_text(json.dumps(record, indent=1) + "\n")
    return record


def make(name: str, out: Path | None = None, device: str | None = None, items: int = 0) -> dict:
    """`prepare` all of SNLI, `train` by the usual settings and `choose` the one run there is.
    Stopped, it goes on from the pairs that were encoded and the epochs that were done. out: left out, in the cache"""
    prepared, run, usual = (
        PREPARED / f"{files.slug(name)}-{part}{f'-limit{items}' if items else ''}"
        for part in ("hub", "run", "nli")
    )
    try:
        finetune.check(prepared, name)
    except CompanionError:
        prepare(name, prepared, full=True, items=items)
    train(name, prepared, run, device, **USUAL)
    return choose([run], prepared, out or usual, device)


def parser() -> argparse.ArgumentParser:
    every = argparse.ArgumentParser(
        prog="python -m lib.projective.classifier", description=__doc__.split("\n")[0]
    )
    commands = every.add_subparsers(dest="command", required=True)
    encode = commands.add_parser("prepare", help="encode SNLI")
    encode.add_argument("--full", action="store_true", help="all of SNLI, from the model hub")
    fit = commands.add_parser("train", help="one run")
    for option, value in (
        ("rate", 3e-4),
        ("epochs", 6),
        ("batch", 128),
        ("dropout", 0.1),
        ("seed", 0),
    ):
        fit.add_argument(f"--{option}", type=type(value), default=value)
    best = commands.add_parser("choose", help="the best run, tested once")
    best.add_argument("runs", nargs="+", type=Path)
    whole = commands.add_parser("make", help="all of it, on all of SNLI")
    for command in (encode, fit, whole):
        command.add_argument("--model", default="mini-bert", dest="name")
    for command in (encode, fit, best):
        command.add_argument(
            "--prepared", type=Path, default=PREPARED, help="folder of encoded pairs"
        )
    for command in (encode, whole):
        command.add_argument("--items", type=int, default=0, help="so many pairs a part, for a try")
    for command in (fit, best, whole):
        command.add_argument("--out", type=Path, required=command is not whole)
        command.add_argument("--device")
    return every


def main(arguments: list[str] | None = None) -> int:
    """Exit status: 0, or 2 where something cannot be done."""
    given = vars(parser().parse_args(arguments))
    commands = {"prepare": prepare, "train": train, "choose": choose, "make": make}
    try:
        result = commands[given.pop("command")](**given)
    except CompanionError as error:
        print(error, file=sys.stderr)
        return 2
    shown = {name: value for name, value in result.items() if name not in ("history", "settings")}
    print(json.dumps(shown))
    return 0


if __name__ == "__main__":
    sys.exit(main())
