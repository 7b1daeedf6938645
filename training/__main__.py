"""How the bundled models and the stored fine-tunings were made; each module says what is done.

python -m training people --out data/cache/people
python -m training prepare --source natural TEXT... --source people data/cache/people/*.xz
python -m training train bert --out data/models/mini-bert --minutes 14 --people .4 .3
python -m training debias prepare
python -m training debias cda --out data/models/mini-bert-cda --minutes 2
python -m training chat write --out data/cache/chat
python -m training chat tune --out data/models/mini-gpt2-chat
python -m training nli prepare
python -m training nli train --rate 2e-4 --epochs 16 --seed 3 --out RUN
python -m training nli choose RUN... --out data/models/mini-bert-nli
python -m training nli make --model bert-base --out FOLDER
python -m training glue prepare
python -m training glue run --tasks CoLA RTE --device cuda
"""

import argparse
import json
import os
import sys
from functools import partial
from pathlib import Path

from lib import CompanionError, paths
from training import chat, classifier, corpus, debias, glue, loop, people
from training.objectives import KINDS

TEXT = paths.CACHE / "pretrain"


def main(arguments: list[str] | None = None) -> int:
    """Run a command: the function `call` of its parser, with the command's options by name."""
    options = vars(parser().parse_args(arguments))
    call = options.pop("call")
    try:
        result = call(**options)
    except CompanionError as error:
        print(error, file=sys.stderr)
        return 2
    shown = {name: value for name, value in result.items() if name not in ("history", "settings")}
    print(json.dumps(shown))
    return 0


def parser() -> argparse.ArgumentParser:
    """The parser of all commands; the default `call` of each is the function that runs it."""
    whole = argparse.ArgumentParser(prog="python -m training", description=__doc__.split("\n")[0])
    commands = whole.add_subparsers(required=True)
    add_people(commands)
    add_prepare(commands)
    add_train(commands)

    debiasing = commands.add_parser("debias", help="retrain by CDA or Dropout (debias.py)")
    ways = debiasing.add_subparsers(required=True)
    add_debias_prepare(ways)
    for way in debias.WAYS:
        add_debias_train(ways, way)

    chatting = commands.add_parser("chat", help="a chat form of a decoder")
    steps = chatting.add_subparsers(required=True)
    add_chat_write(steps)
    add_chat_tune(steps)

    inferring = commands.add_parser("nli", help="a classifier of inferences (classifier.py)")
    add_nli(inferring.add_subparsers(required=True))
    gluing = commands.add_parser("glue", help="GLUE with heads masked (glue.py)")
    add_glue(gluing.add_subparsers(required=True))
    return whole


def add_people(commands):
    command = commands.add_parser("people", help="write texts about people (people.py)")
    command.set_defaults(call=people.people)
    command.add_argument("--out", type=Path, required=True, help="folder of the texts")
    add_writer(command)
    command.add_argument("--texts", type=int, default=400_000, help="openers to continue")
    command.add_argument(
        "--shard", type=int, default=people.SHARD, help="texts a file, before the filter"
    )


def add_prepare(commands):
    command = commands.add_parser("prepare", help="clean, count and set aside (corpus.py)")
    command.set_defaults(call=prepare)
    command.add_argument("--out", type=Path, default=TEXT, help="folder of the prepared text")
    command.add_argument(
        "--source",
        nargs="+",
        action="append",
        required=True,
        metavar=("NAME", "TEXT"),
        help="a name and its files, one paragraph per line; the natural text first",
    )
    command.add_argument(
        "--unseen",
        nargs="*",
        type=Path,
        default=[],
        help="more evaluation files, or folders of them, than data/demo and the data sets at hand",
    )
    command.add_argument(
        "--leave-out", nargs="*", default=[people.LEFT_OUT], help="patterns of first lines"
    )
    command.add_argument(
        "--heldout", type=float, default=0.01, help="share of the documents that is set aside"
    )
    command.add_argument(
        "--balanced",
        action="store_true",
        help="swap the gender words and first names of half of the documents",
    )
    command.add_argument(
        "--workers", type=int, default=os.cpu_count(), help="processes that look at documents"
    )
    command.add_argument("--seed", type=int, default=0)


def add_train(commands):
    command = commands.add_parser(
        "train", help="tokenizer, training, measures, model folder (loop.py)"
    )
    command.set_defaults(call=loop.train)
    command.add_argument("kind", choices=KINDS)
    command.add_argument("--text", type=Path, default=TEXT, help="folder that `prepare` wrote")
    command.add_argument("--out", type=Path, required=True, help="folder of the model")
    add_budget(command)
    command.add_argument("--learning-rate", type=float, help="by default the kind's own")
    command.add_argument("--warmup", type=int, default=500, help="steps in which the rate rises")
    command.add_argument("--seed", type=int, default=0)
    command.add_argument("--device")
    command.add_argument(
        "--people",
        nargs=2,
        type=float,
        metavar="SHARE",
        help="share of the texts drawn from the source people, at the beginning and at the end",
    )
    command.add_argument(
        "--together",
        type=float,
        metavar="SHARE",
        help="of the texts with several pronouns, the share in which all of them are masked",
    )


def add_debias_prepare(ways):
    command = ways.add_parser("prepare", help="encode the text")
    command.set_defaults(call=debias.prepare)
    command.add_argument("--text", type=Path, default=TEXT, help="folder that `prepare` wrote")
    command.add_argument("--prepared", type=Path, default=debias.PREPARED, help="folder to write")
    command.add_argument("--model", dest="name", default="mini-bert")
    command.add_argument(
        "--tokens", type=int, default=5_000_000, help="of the passages, without their twins"
    )


def add_debias_train(ways, way: str):
    command = ways.add_parser(way, help="train")
    command.set_defaults(call=debias.train, way=way)
    command.add_argument("--prepared", type=Path, default=debias.PREPARED, help="folder to read")
    command.add_argument("--model", dest="name", default="mini-bert")
    command.add_argument("--out", type=Path, help="folder of the model")
    add_budget(command)
    command.add_argument("--learning-rate", type=float, default=1e-3)
    command.add_argument("--warmup", type=int, default=50, help="steps in which the rate rises")
    command.add_argument(
        "--measure-batches", type=int, default=40, help="batches of held-out text to measure on"
    )
    command.add_argument(
        "--kept", type=float, default=1.0, help="share of the way to the trained weights"
    )
    command.add_argument("--seed", type=int, default=0)
    command.add_argument("--device")


def add_chat_write(steps):
    command = steps.add_parser("write", help="ask a chat model (people.py)")
    command.set_defaults(call=people.answers)
    command.add_argument("--out", type=Path, required=True, help="folder of the answers")
    add_writer(command)
    command.add_argument("--texts", type=int, default=8_000, help="questions to ask")


def add_chat_tune(steps):
    command = steps.add_parser("tune", help="train on the answers (chat.py)")
    command.set_defaults(call=chat.chat)
    command.add_argument(
        "--text", type=Path, default=paths.CACHE / "chat", help="folder that `chat write` wrote"
    )
    command.add_argument("--out", type=Path, required=True, help="folder of the model")
    command.add_argument("--model", dest="name", default="mini-gpt2")
    command.add_argument("--epochs", type=int, default=3)
    command.add_argument("--rate", type=float, default=1e-3, help="learning rate")
    command.add_argument("--batch", type=int, default=32, help="answers in a batch")
    command.add_argument("--size", type=float, default=8.0, help="of the changed weights, in MB")
    command.add_argument("--seed", type=int, default=0)
    command.add_argument("--device")


def add_nli(steps):
    encode = steps.add_parser("prepare", help="encode SNLI")
    encode.set_defaults(call=classifier.prepare)
    encode.add_argument("--full", action="store_true", help="all of SNLI, from the model hub")
    encode.add_argument(
        "--balanced",
        action="store_true",
        help="swap gender words and names of half of the premises",
    )

    one = steps.add_parser("train", help="one run")
    one.set_defaults(call=classifier.train)
    one.add_argument("--rate", type=float, default=3e-4, help="learning rate")
    one.add_argument("--epochs", type=int, default=6)
    one.add_argument("--batch", type=int, default=128, help="pairs in a batch")
    one.add_argument("--dropout", type=float, default=0.1)
    one.add_argument("--seed", type=int, default=0)

    best = steps.add_parser("choose", help="the best run, tested once")
    best.set_defaults(call=classifier.choose)
    best.add_argument("runs", nargs="+", type=Path)

    whole = steps.add_parser("make", help="all of it, on all of SNLI")
    whole.set_defaults(call=classifier.make)

    for command in (encode, one, whole):
        command.add_argument("--model", dest="name", default="mini-bert")
    for command in (encode, one, best):
        command.add_argument("--prepared", type=Path, default=classifier.PREPARED)
    for command in (one, best, whole):
        command.add_argument("--out", type=Path, required=command is not whole)
        command.add_argument("--device")
    for command in (encode, whole):
        command.add_argument("--items", type=int, default=0, help="pairs a part, for a try; 0: all")


def add_glue(steps):
    encode = steps.add_parser("prepare", help="encode the tasks, rank the heads")
    encode.set_defaults(call=partial(with_setup, glue.prepare))
    fit = steps.add_parser("run", help="every fine-tuning that is not stored yet")
    fit.set_defaults(call=partial(with_setup, glue.make))
    for command in (encode, fit):
        command.add_argument(
            "--profile",
            default="mini",
            choices=[file.stem for file in paths.PROFILES.glob("*.toml")],
            help="whose settings and model are taken; paper: with the tasks of the hub",
        )
        command.add_argument("--model", help="left out: the profile's encoder")
        command.add_argument(
            "--tasks", nargs="+", choices=list(glue.TASKS), help="left out: all that there are"
        )
        command.add_argument(
            "--out",
            type=Path,
            default=paths.BUILD / "mini-real" / "figures" / "05_glue",
            help="where results go; figures/mini-real/05_glue for those that are stored",
        )
        command.add_argument(
            "--items", type=int, default=0, help="examples a part, for a try; 0: all"
        )
        command.add_argument("--device")


def with_setup(step, tasks: list[str] | None, **options) -> dict:
    """Call a step of glue.py with the setup that the options describe."""
    return step(glue.setup_by_profile(**options), tasks)


def add_writer(command):
    """The options of both commands that let a model write."""
    command.add_argument("--model", dest="name", default=people.WRITER)
    command.add_argument(
        "--batch", type=int, default=0, help="texts at a time; 0: 2,048 on a GPU, 8 elsewhere"
    )
    command.add_argument("--seed", type=int, default=0)
    command.add_argument("--device")


def add_budget(command):
    """How long to train, and in which steps."""
    command.add_argument("--minutes", type=float)
    command.add_argument("--steps", type=int)
    command.add_argument("--batch-tokens", type=int, help="of a step; by default the kind's own")


def prepare(source: list[list[str]], unseen: list[Path], **options) -> dict:
    """Call corpus.prepare with the named sources, and with all evaluation files at hand.

    Prints the names of the data sets that are not at hand: COMPANION_DATA says where they are.

    source: [name, file, file, ...] of each source
    unseen: more evaluation files; a folder stands for the files in it
    """
    known, missing = corpus.evaluation_files()
    if missing:
        print(f"Not at hand, so not looked for in the text: {', '.join(missing)}", file=sys.stderr)
    for place in unseen:
        for file in [place, *sorted(place.rglob("*"))]:
            if not file.is_dir():
                known.append(file)
    sources = {}
    for name, *texts in source:
        sources[name] = [Path(text) for text in texts]
    return corpus.prepare(sources, known, prompts=corpus.papers_prompts(), **options)


if __name__ == "__main__":
    sys.exit(main())
