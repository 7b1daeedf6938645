"""The parts of README.md that stored runs make: what stands between <!-- headlines --> and <!--
/headlines -->, say. Nobody writes them by hand, and a test fails where they say something else.
"""

from lib import CompanionError, paths, results
from lib.engine.files import replace
from lib.publish import headlines, marks, scoreboard
from lib.publish.page import Result, collect
from lib.publish.papers import RUNS, run_name

README = paths.ROOT / "README.md"


def write() -> str:
    """Bring README.md up to date; a sentence that says whether anything had to be changed."""
    old = README.read_text(encoding="utf-8")
    new = renewed(old)
    if new == old:
        return "README.md is up to date"
    replace(README, new.encode())
    return "README.md now says what the runs found"


def renewed(text: str) -> str:
    """A page with its made parts made again; what stands outside of them stays as it is."""
    for name, make in PARTS.items():
        before = f"<!-- {name} -->"
        after = f"<!-- /{name} -->"
        if before not in text and after not in text:
            continue
        text = marks.between("README.md", text, before, make(), after)
    return text


def headlines_part() -> str:
    return headlines.as_markdown()


def figures_part() -> str:
    """A picture of each paper under a plain title, from the run nearest to the paper's."""
    folders = results.runs()
    figures = {one.id: one for one in collect(folders) if not one.is_table}
    board = scoreboard.board(folders)
    return "\n\n".join(_picture(one, figures, board) for one in headlines.PICTURES)


def _picture(picture: headlines.Picture, figures: dict[str, Result], board) -> str:
    found = [run for run in RUNS if f"{run}.{picture.figure}" in figures]
    if not found:
        raise CompanionError(
            f"No run has the figure {picture.figure}: make it with ./reproduce.sh --only "
            f"{picture.figure[:2]}."
        )
    shown = figures[f"{found[0]}.{picture.figure}"]
    title = headlines.plain_title(picture, found[0], shown.finding, board)
    place = shown.file.relative_to(paths.ROOT).as_posix()
    data = picture.data or run_name(found[0])
    return f"**{title}** ({data})\n\n![{picture.shows}.]({place})"


# What runs make of README.md, by the name of its marks.
PARTS = {
    "headlines": headlines_part,
    "figures": figures_part,
}
