"""The command line. `./reproduce.sh` calls it; each command is a function here or a module beside
it.

Exit status: 0 done, 1 a notebook failed, 2 cannot be done, 3 a test has not the stored outcome,
130 stopped by Ctrl-C.
"""

import argparse
import sys
from pathlib import Path

from companion import QUICK
from lib import CompanionError, paths
from lib.paths import short

COMMANDS = ("run", "compare", "report", "page", "card", "heads", "measure", "readme")
# what `measure` takes: its functions stand in measure.py, which is slow to import
MEASUREMENTS = ("ablation", "counter", "parts", "patching", "table1")


class Parser(argparse.ArgumentParser):
    """A parser whose refusals are sentences, as all others are."""

    def __init__(self, **options):
        super().__init__(allow_abbrev=False, **options)

    def error(self, message):
        raise CompanionError(
            f"{message[0].upper()}{message[1:]}: {self.prog} --help says what it takes."
        )

    def text(self, flag: str, metavar: str | None, help: str, default: str = ""):
        """A flag that takes a word."""
        self.add_argument(flag, metavar=metavar, default=default, help=help)

    def switch(self, flag: str, help: str):
        """A flag that takes none."""
        self.add_argument(flag, action="store_true", help=help)


def parser() -> Parser:
    """All commands; `run` is the one that is meant where none is named."""
    every = Parser(
        prog="./reproduce.sh",
        description="Recreate the tables and figures of three papers on bias in language models.",
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
    what = "what the papers' measures say of any model, or of two side by side"
    card = commands.add_parser("card", help=what)
    _add_model(card)
    card.add_argument("other", metavar="OTHER", nargs="?", help="a second model: both side by side")
    card.switch("--store", "for developers: keep it in figures/cards, to stand beside others")
    what = "the bias score of every attention head of a model"
    _add_model(commands.add_parser("heads", help=what))
    _add_measure(commands.add_parser("measure", help="a heavy measurement, stored for notebooks"))
    commands.add_parser("readme", help="for developers: write what the runs found into README.md")
    return every


def _add_run(run: Parser):
    _add_choice_of_run(run)
    run.text("--only", "02,04", "these notebooks; 02-05 is a range")
    run.switch("--quick", f"the same as --only {QUICK}")
    run.text("--revision", "COMMIT", "of a --model of the hub, in place of the pinned one")
    believed = "believe nothing stored but GLUE's fine-tunings"
    run.switch("--recompute", f"{believed}: compute all, in full on a GPU")
    drawn = "draws what is computed again of stored measurements; left out, the date does"
    run.text("--sample-seed", "TEXT", drawn)
    run.switch("--keep-going", "after a notebook that fails, run the others")
    run.switch("--list", "say what would run, be fetched and take how long, and stop")
    stored = "figures/, and those of the run mini into notebooks/ and README.md too"
    run.switch("--store", f"for developers: put the results into {stored}")
    kept = "pictures stay as they are stored, since every version of one is kept"
    run.switch("--without-pictures", f"with --store: {kept}")


def _add_choice_of_run(command: Parser):
    """The flags that say which models and data are meant."""
    profiles = "mini (the default), paper, null, or one of companion/profiles"
    command.text("--profile", None, profiles, default="mini")
    command.text("--model", "NAME_OR_FOLDER", "this model, where it fits")
    data = "what is bundled, or the papers' own"
    command.add_argument("--data", choices=["mini", "paper"], default="", help=data)
    _add_device(command)
    few = "a try: at most N items in a measurement; nothing is stored"
    command.add_argument("--limit", metavar="N", type=_at_least_two, default=0, help=few)


def _add_model(command: Parser):
    name = "a bundled model, a folder, or an id of the hub"
    command.add_argument("name", metavar="NAME_OR_FOLDER", help=name)
    _add_device(command)


def _add_device(command: Parser):
    command.text("--device", None, "cpu, cuda, ...; left out, a GPU if there is one")


def _add_measure(measure: Parser):
    measure.add_argument("name", metavar="NAME", help=", ".join(MEASUREMENTS))
    _add_choice_of_run(measure)
    precision = "of PPPL's arithmetic: float32, tf32 or bfloat16"
    measure.text("--precision", None, precision, default="float32")
    measure.text("--out", "FOLDER", "in place of build/<run>/measured")
    measure.switch("--store", "for developers: into figures/<run>/measured")


def _at_least_two(text: str) -> int:
    if not text.isdecimal() or int(text) < 2:
        raise argparse.ArgumentTypeError(f"nothing can be measured on {text} items, give 2 or more")
    return int(text)


def main(arguments: list[str] | None = None) -> int:
    """Do what a command line asks for; exit status."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # a terminal that has no "·" shows a question mark
    try:
        return carry_out(understood(sys.argv[1:] if arguments is None else arguments))
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
    asked = [getattr(options, role, None) or "" for role in ("model", "name", "other")]
    is_folder = [_is_folder(name) for name in asked]
    if is_folder[0]:
        options.model = str(Path(options.model).resolve())  # notebooks run in another folder
    return options


def _is_folder(name: str) -> bool:
    try:
        return bool(name) and Path(name).is_dir()
    except OSError as error:  # thousands of letters
        raise CompanionError(
            f"{name[:40]}... cannot be looked for ({error.strerror}): name a model or its folder."
        ) from None


def carry_out(options: argparse.Namespace) -> int:
    """One command; exit status. Modules are imported where they are needed: --help needs none."""
    if options.command in ("report", "page"):
        from lib.engine.files import check_writable

        check_writable(paths.BUILD)
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
            from companion import card, reproduce

            reproduce.fetch([options.name], options.device or None)
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
    from companion import card, reproduce

    device = options.device or None
    names = [options.name, options.other] if options.other else [options.name]
    if options.other and options.store:
        raise CompanionError("Cards are stored one at a time: leave the second model or --store.")
    reproduce.fetch(names, device)
    if options.other:
        return card.write_two(names, device)
    return card.write(options.name, device, options.store)


if __name__ == "__main__":
    sys.exit(main())
