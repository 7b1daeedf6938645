"""The command `companion` of the installed package: what it has to say of a model, without a clone.

companion card ./my-bert              build/cards/my-bert-....html, in the current folder
companion card ./my-bert ./debiased
companion heads ./my-bert
"""

import sys

from lib.publish.__main__ import CARD, HEADS, Parser, add_card, add_heads, done


def parser() -> Parser:
    """The commands that need no repository."""
    every = Parser(prog="companion", description="Measure stereotypes inside language models.")
    commands = every.add_subparsers(
        dest="command", metavar="COMMAND", parser_class=Parser, required=True
    )
    add_card(commands.add_parser("card", help=CARD), stores=False)
    add_heads(commands.add_parser("heads", help=HEADS))
    return every


def main(arguments: list[str] | None = None) -> int:
    """Do what a command line asks for; exit status."""
    return done(lambda: parser().parse_args(arguments))


if __name__ == "__main__":
    sys.exit(main())
