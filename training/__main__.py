"""How the shipped models were made, in five commands; each module says what its own does.

python -m training people --out data/cache/people
python -m training prepare --source natural TEXT... --source people data/cache/people/*.xz --unseen FILE...
python -m training train bert --out data/models/mini-bert --minutes 14 --people .4 .3
python -m training debias prepare            then: debias cda --out data/models/mini-bert-cda --minutes 2
python -m training chat write --out data/cache/chat   then: chat tune --out data/models/mini-gpt2-chat"""

import argparse
import json
import sys
from functools import partial
from pathlib import Path

from lib import CompanionError, paths
from training import chat, corpus, debias, loop, people
from training.objectives import KINDS

TEXT = paths.CACHE / "pretrain"
BUDGET = dict(minutes=float, steps=int, batch_tokens=int)


def command(group, name: str, call, about: str, **options) -> argparse.ArgumentParser:
    """A command that calls a function with its options, each given by its default or type. out=None may be left out."""
    parser = group.add_parser(name, help=about)
    parser.set_defaults(call=call)
    for option, value in options.items():
        kind = value if isinstance(value, type) else Path if value is None else type(value)
        parser.add_argument(
            f"--{option.replace('_', '-')}",
            type=kind,
            default=None if value is kind else value,
            dest="name" if option == "model" else option,
            required=option == "out" and value is Path,
        )
    return parser


def commands() -> argparse.ArgumentParser:
    whole = argparse.ArgumentParser(prog="python -m training", description=__doc__.split("\n")[0])
    top = whole.add_subparsers(required=True)
    command(
        top,
        "people",
        people.people,
        "write texts about people (people.py)",
        out=Path,
        model=people.WRITER,
        texts=400_000,
        shard=people.SHARD,
        batch=0,
        seed=0,
        device=str,
    )

    cleaned = command(
        top,
        "prepare",
        prepare,
        "clean, count and set aside (corpus.py)",
        out=TEXT,
        heldout=0.01,
        seed=0,
    )
    cleaned.add_argument(
        "--source",
        nargs="+",
        action="append",
        required=True,
        metavar=("NAME", "TEXT"),
        help="a name and its files, one paragraph per line; the natural text first",
    )
    cleaned.add_argument(
        "--unseen",
        nargs="*",
        type=Path,
        default=[],
        help="more evaluation files, or folders of them, than data/demo and the data sets at hand",
    )
    cleaned.add_argument(
        "--leave-out", nargs="*", default=[people.LEFT_OUT], help="patterns of first lines"
    )
    cleaned.add_argument(
        "--balanced", action="store_true", help="swap the gender words of half of the documents"
    )

    trained = command(
        top,
        "train",
        loop.train,
        "tokenizer, training, measures, model folder (loop.py)",
        text=TEXT,
        out=Path,
        **BUDGET,
        learning_rate=float,
        warmup=500,
        seed=0,
        device=str,
    )
    trained.add_argument("kind", choices=KINDS)
    trained.add_argument(
        "--people",
        nargs=2,
        type=float,
        metavar="SHARE",
        help="share of the texts drawn from the source people, at the beginning and at the end",
    )
    trained.add_argument(
        "--together",
        type=float,
        metavar="SHARE",
        help="of the texts with several pronouns, the share in which all of them are masked",
    )

    ways = top.add_parser(
        "debias", help="go on training by CDA or Dropout (debias.py)"
    ).add_subparsers(required=True)
    command(
        ways,
        "prepare",
        debias.prepare,
        "encode the text",
        text=TEXT,
        prepared=debias.PREPARED,
        model="mini-bert",
        tokens=5_000_000,
    )
    for way in debias.WAYS:
        command(
            ways,
            way,
            partial(debias.train, way),
            "train",
            prepared=debias.PREPARED,
            model="mini-bert",
            device=str,
            out=None,
            **BUDGET,
            learning_rate=1e-3,
            warmup=50,
            measure_batches=40,
            kept=1.0,
            seed=0,
        )

    ways = top.add_parser("chat", help="a chat form of a decoder").add_subparsers(required=True)
    command(
        ways,
        "write",
        people.answers,
        "ask a chat model (people.py)",
        out=Path,
        model=people.WRITER,
        texts=8_000,
        batch=0,
        seed=0,
        device=str,
    )
    command(
        ways,
        "tune",
        chat.chat,
        "train on the answers (chat.py)",
        text=paths.CACHE / "chat",
        out=Path,
        model="mini-gpt2",
        epochs=3,
        rate=1e-3,
        batch=32,
        size=8.0,
        seed=0,
        device=str,
    )

    return whole


def prepare(source, unseen, **options) -> dict:
    """A folder stands for the files in it. Data sets that are not at hand are named: COMPANION_DATA says where."""
    known, missing = corpus.evaluation_files()
    if missing:
        print(f"Not at hand, so not looked for in the text: {', '.join(missing)}", file=sys.stderr)
    known += [
        file for place in unseen for file in [place, *sorted(place.rglob("*"))] if not file.is_dir()
    ]
    return corpus.prepare(
        {name: [Path(text) for text in texts] for name, *texts in source},
        known,
        prompts=corpus.papers_prompts(),
        **options,
    )


def main(arguments: list[str] | None = None) -> int:
    given = vars(commands().parse_args(arguments))
    try:
        result = given.pop("call")(**given)
    except CompanionError as error:
        print(error, file=sys.stderr)
        return 2
    print(
        json.dumps(
            {name: value for name, value in result.items() if name not in ("history", "settings")}
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
