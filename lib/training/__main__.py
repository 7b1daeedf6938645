"""How the shipped models were made, in five commands; each module says what its own does.

    python -m lib.training people --out data/cache/people
    python -m lib.training prepare --source natural TEXT... --source people data/cache/people/*.xz --unseen FILE...
    python -m lib.training train bert --out data/models/mini-bert --minutes 14
    python -m lib.training debias prepare            then: debias cda --out data/models/mini-bert-cda --minutes 2
    python -m lib.training nli prepare               then: nli train --out RUN, nli choose RUN... --out FOLDER
    python -m lib.training nli make --model bert-base                                 all three on all of SNLI
"""

import argparse
import json
import sys
from pathlib import Path

from lib import CompanionError, paths
from lib.training import corpus, debias, finetune, loop, nli, people
from lib.training.objectives import KINDS

TEXT = paths.CACHE / "pretrain"


def parser() -> argparse.ArgumentParser:
    whole = argparse.ArgumentParser(prog="python -m lib.training", description=__doc__.split("\n")[0])
    commands = whole.add_subparsers(dest="command", required=True)

    write = commands.add_parser("people", help="write texts about people (people.py)")
    add(write, out=Path, model=people.smollm2.NAME, texts=400_000, shard=people.SHARD, batch=0, seed=0, device=str)

    prepare = commands.add_parser("prepare", help="clean, count and set aside (corpus.py)")
    prepare.add_argument("--source", nargs="+", action="append", required=True, metavar=("NAME", "TEXT"),
                         help="a name and its files, one paragraph per line; the natural text first")
    prepare.add_argument("--unseen", nargs="*", type=Path, default=[],
                         help="evaluation files, files of prompts, or folders of such; data/demo is always among them")
    prepare.add_argument("--leave-out", nargs="*", default=[people.LEFT_OUT], help="patterns of first lines")
    add(prepare, out=TEXT, heldout=.01, seed=0)

    train = commands.add_parser("train", help="tokenizer, training, measures, model folder (loop.py)")
    train.add_argument("kind", choices=KINDS)
    add(train, text=TEXT, out=Path, minutes=float, steps=int, batch_tokens=int, learning_rate=float, warmup=500, seed=0,
        device=str)

    ways = commands.add_parser("debias", help="go on training a BERT by CDA or Dropout (debias.py)")
    ways.add_argument("way", choices=["prepare", *debias.WAYS], help="encode the text, or train")
    add(ways, text=TEXT, tokens=5_000_000, prepared=debias.PREPARED, model="mini-bert", out=Path, minutes=float,
        steps=int, batch_tokens=int, learning_rate=1e-3, warmup=50, measure_batches=40, seed=0, device=str)

    infer = commands.add_parser("nli", help="fine-tune for natural language inference (nli.py)")
    infer.add_argument("way", choices=["prepare", "train", "choose", "make"])
    infer.add_argument("runs", nargs="*", type=Path, help="choose: the folders of runs")
    infer.add_argument("--full", action="store_true", help="prepare: all of SNLI, from the model hub")
    infer.add_argument("--train-embeddings", action="store_true", help="train: a larger difference")
    add(infer, prepared=nli.PREPARED, model="mini-bert", out=Path, items=0, rate=3e-4, epochs=6, batch=128, dropout=.1,
        seed=0, device=str)
    return whole


def add(command: argparse.ArgumentParser, **options):
    """Options by their default value, or by their type where there is none."""
    for name, value in options.items():
        kind, default = (value, None) if isinstance(value, type) else (type(value), value)
        command.add_argument(f"--{name.replace('_', '-')}", type=kind, default=default)


def run(command: str, given: argparse.Namespace) -> dict:
    """Call what a command asks for."""
    if not given.out and (command in ("people", "train") or getattr(given, "way", "") == "choose"):
        raise CompanionError("Say where the result goes: --out.")
    if command == "people":
        return people.people(given.out, given.model, given.texts, given.device, given.batch, given.shard, given.seed)
    if command == "prepare":
        unseen = [file for place in [*given.unseen, paths.DEMO]
                  for file in (sorted(place.rglob("*")) if place.is_dir() else [place]) if not file.is_dir()]
        sources = {name: [Path(file) for file in texts] for name, *texts in given.source}
        return corpus.prepare(sources, unseen, given.out, (), given.leave_out, given.heldout, given.seed)
    options = {name: value for name, value in vars(given).items() if name != "command"}
    if command == "train":
        return loop.train(**options)
    if command == "debias":
        options["name"], text, tokens = options.pop("model"), options.pop("text"), options.pop("tokens")
        return (debias.prepare(text, given.prepared, given.model, tokens) if given.way == "prepare"
                else debias.train(**options))
    if given.way == "prepare":
        return nli.prepare(given.model, given.prepared, given.full, items=given.items)
    if given.way == "train":
        settings = finetune.Settings(given.rate, given.epochs, given.batch, dropout=given.dropout, seed=given.seed,
                                     frozen=() if given.train_embeddings else ("embeddings",))
        return nli.train(given.model, given.prepared, settings, given.out, given.device)
    if given.way == "choose":
        return nli.choose(given.runs, given.prepared, given.out, given.device)
    return nli.make(given.model, given.out, given.device, given.items)


def main(arguments: list[str] | None = None) -> int:
    given = parser().parse_args(arguments)
    try:
        result = run(given.command, given)
    except CompanionError as error:
        print(error, file=sys.stderr)
        return 2
    print(json.dumps({name: value for name, value in result.items() if name not in ("history", "settings")}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
