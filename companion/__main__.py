"""The command line. `./reproduce.sh` calls it; each command is a function here or a module beside
it.

Exit status: 0 done, 1 a notebook failed, 2 cannot be done, 3 a test has not the stored outcome,
130 stopped by Ctrl-C.
"""

import argparse
import sys
from pathlib import Path

from lib import CompanionError, paths

COMMANDS = ("run", "compare", "report", "page", "card", "heads", "measure", "readme")
CARD = "what the papers' measures say of any model, or of two side by side"
HEADS = "the bias score of every attention head of a model"
# what `measure` takes: its functions stand in measure.py, which is slow to import
MEASUREMENTS = ("ablation", "counter", "patching", "table1")
QUICK = "00,02,11"  # notebooks for the impatient: one head by hand, head scores, cloze prompts


class Parser(argparse.ArgumentParser):
    """A parser whose refusals are sentences, as all others are."""

    def __init__(self, **options):
        super().__init__(allow_abbrev=False, **options)

    def error(self, message):
        raise CompanionError(
            f"{message[0].upper()}{message[1:]}: {self.prog} --help says what it takes."
        )


def parser() -> Parser:
    """All commands; `run` is the one that is meant where none is named."""
    what = "Recreate the tables and figures of three papers on bias in language models."
    every = Parser(
        prog="./reproduce.sh",
        description=what,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = every.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    run = commands.add_parser("run", help="the notebooks, in order; may be left out")
    _add_run(run)
    options = run.format_help().partition("options:")[2]
    examples = Path(__file__).with_name("help.txt").read_text(encoding="utf-8")
    every.epilog = f"options of a run:{options}\n{examples}"
    compare = commands.add_parser("compare", help="say again whether a run gave what is stored")
    compare.add_argument(
        "name", metavar="RUN", nargs="?", default="mini", help="mini where left out"
    )
    commands.add_parser("report", help="make build/report again, from what is stored or made here")
    commands.add_parser("page", help="make build/report/try.html: a model that runs in a browser")
    add_card(commands.add_parser("card", help=CARD))
    add_heads(commands.add_parser("heads", help=HEADS))
    _add_measure(commands.add_parser("measure", help="a heavy measurement, stored for notebooks"))
    commands.add_parser("readme", help="for developers: write what the runs found into README.md")
    return every


def _add_run(run: Parser):
    _add_choice_of_run(run)
    run.add_argument(
        "--only", metavar="02,04", default="", help="these notebooks; 02-05 is a range"
    )
    run.add_argument("--quick", action="store_true", help=f"the same as --only {QUICK}")
    run.add_argument(
        "--revision",
        metavar="COMMIT",
        default="",
        help="of a --model of the hub, in place of the pinned one",
    )
    run.add_argument(
        "--recompute",
        action="store_true",
        help="believe nothing stored but GLUE's fine-tunings: compute all, in full on a GPU",
    )
    run.add_argument(
        "--sample-seed",
        metavar="TEXT",
        default="",
        help="draws what is computed again of stored measurements; left out, the date does",
    )
    run.add_argument(
        "--keep-going", action="store_true", help="after a notebook that fails, run the others"
    )
    run.add_argument(
        "--list",
        action="store_true",
        help="say what would run, be fetched and take how long, and stop",
    )
    run.add_argument(
        "--store",
        action="store_true",
        help="for developers: put the results into figures/, and those of the run "
        "mini into notebooks/ and README.md too",
    )
    run.add_argument(
        "--without-pictures",
        action="store_true",
        help="with --store: pictures stay as they are stored, since every version of one is kept",
    )


def _add_choice_of_run(command: Parser):
    """The flags that say which models and data are meant."""
    command.add_argument(
        "--profile",
        default="mini",
        help="mini (the default), paper, null, or one of companion/profiles",
    )
    command.add_argument(
        "--model", metavar="NAME_OR_FOLDER", default="", help="this model, where it fits"
    )
    command.add_argument(
        "--data", choices=["mini", "paper"], default="", help="what is bundled, or the papers' own"
    )
    command.add_argument(
        "--device", default="", help="cpu, cuda, ...; left out, a GPU if there is one"
    )
    command.add_argument(
        "--limit",
        metavar="N",
        type=_at_least_two,
        default=0,
        help="a try: at most N items in a measurement; nothing is stored",
    )


def add_card(card: Parser, stores: bool = True):
    """The card's options. stores: whether there is a repository to store it in."""
    _add_model(card)
    card.add_argument("other", metavar="OTHER", nargs="?", help="a second model: both side by side")
    if stores:
        card.add_argument(
            "--store",
            action="store_true",
            help="for developers: keep it in figures/cards, to stand beside others",
        )


def add_heads(heads: Parser):
    """The options of the scores of heads."""
    _add_model(heads)


def _add_model(command: Parser):
    command.add_argument(
        "name", metavar="NAME_OR_FOLDER", help="a bundled model, a folder, or an id of the hub"
    )
    command.add_argument(
        "--device", default="", help="cpu, cuda, ...; left out, a GPU if there is one"
    )


def _add_measure(measure: Parser):
    measure.add_argument("name", metavar="NAME", help=", ".join(MEASUREMENTS))
    _add_choice_of_run(measure)
    measure.add_argument(
        "--precision", default="float32", help="of PPPL's arithmetic: float32, tf32 or bfloat16"
    )
    measure.add_argument("--part", metavar="I/N", default="1/1", help="do the I-th of N shares")
    measure.add_argument(
        "--out", metavar="FOLDER", default="", help="in place of build/<run>/measured"
    )
    measure.add_argument(
        "--store", action="store_true", help="for developers: into figures/<run>/measured"
    )


def _at_least_two(text: str) -> int:
    if not text.isdecimal() or int(text) < 2:
        raise argparse.ArgumentTypeError(f"nothing can be measured on {text} items, give 2 or more")
    return int(text)


def main(arguments: list[str] | None = None) -> int:
    """Do what a command line asks for; exit status."""
    return done(lambda: understood(sys.argv[1:] if arguments is None else arguments))


def done(understand) -> int:
    """Carry out what a command line is understood to ask for; exit status."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # a terminal that has no "·" shows a question mark
    try:
        return carry_out(understand())
    except CompanionError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        return 130


def understood(arguments: list[str]) -> argparse.Namespace:
    """The options of a command line; `run` where it names no command."""
    first = arguments[0] if arguments else ""
    if first in ("-h", "--help"):
        return parser().parse_args(arguments)
    if first and not first.startswith("-") and first not in COMMANDS:
        known = ", ".join(["test", "lab", *COMMANDS[1:]])
        raise CompanionError(
            f"There is no command '{first}': leave it out to run the notebooks, or choose {known}; "
            "several notebooks are named as in --only 02,03."
        )
    if first not in COMMANDS:
        arguments = ["run", *arguments]
    options = parser().parse_args(arguments)
    if getattr(options, "model", "") and Path(options.model).is_dir():
        options.model = str(Path(options.model).resolve())  # notebooks run in another folder
    return options


def carry_out(options: argparse.Namespace) -> int:
    """One command; exit status. Modules are imported where they are needed: --help needs none."""
    match options.command:
        case "run":
            from companion import reproduce

            return reproduce.reproduce(options)
        case "compare":
            from companion import compare

            return compare.say(options.name)
        case "report":
            from companion import trypage
            from companion.report import page

            print(f"The report: {short(page.write())}")
            trypage.beside_the_report()
        case "page":
            from companion import trypage

            print(f"A model in the page: {short(trypage.write())}")
        case "card":
            print(f"The card: {short(_card(options))}")
        case "heads":
            from companion import card

            _fetch_published([options.name], options.device)
            print(f"All heads: {short(card.write_heads(options.name, options.device or None))}")
        case "measure":
            from companion import measure

            measure.measure(options)
        case "readme":
            from companion.report import readme

            print(readme.write())
    return 0


def _card(options: argparse.Namespace) -> Path:
    """The page of one model, or of two."""
    from companion import card

    device = options.device or None
    stores = getattr(options, "store", False)
    if not options.other:
        _fetch_published([options.name], device)
        return card.write(options.name, device, stores)
    if stores:
        raise CompanionError("Cards are stored one at a time: leave the second model or --store.")
    _fetch_published([options.name, options.other], device)
    return card.write_two([options.name, options.other], device)


def _fetch_published(names: list[str], device: str | None):
    """Fetch and convert those of these models that are published ones and not here yet."""
    from companion import published, reproduce

    missing = [name for name in names if name in published.MODELS and not published.is_here(name)]
    if missing:
        reproduce.fetch(missing, device or None)


def short(path: Path) -> Path:
    """A path as seen from the repository, where it lies in it."""
    return path.relative_to(paths.ROOT) if path.is_relative_to(paths.ROOT) else path


if __name__ == "__main__":
    sys.exit(main())
