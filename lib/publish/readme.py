"""The parts of README.md that the runs make: what stands between <!-- scoreboard --> and <!-- /scoreboard -->, say.

`./reproduce.sh readme` writes them again from what is stored in figures/, as every run with --store does. Nobody writes
them by hand: a test fails when they say something else than figures/ does.
"""

import re

from lib import CompanionError, paths
from lib.engine.files import replace
from lib.publish import page, scoreboard
from lib.publish.run import runs

PAGE = paths.ROOT / "README.md"
BEST = {"Bias A-head": "02_fig2_heatmaps", "Projective Methods": "09_strength", "Counteracts": "11_slopes"}
RUNS = {  # nearest to the papers first: a figure is taken from the first that has it
    "paper": "the papers' models on the papers' data", "mini-real": "the shipped models on the papers' data",
    "mini": "the shipped models on sentences written for this project"}


def write():
    """Bring README.md up to date; whether anything had to be changed."""
    old = PAGE.read_text(encoding="utf-8")
    new = renewed(old)
    if new != old:
        replace(PAGE, new.encode())
    return new != old


def renewed(text: str) -> str:
    """A page with its made parts made again; what stands outside of them stays as it is."""
    for name, make in {"scoreboard": scoreboard_part, "figures": figures_part}.items():
        before, after = f"<!-- {name} -->", f"<!-- /{name} -->"
        count = text.count(before), text.count(after)
        if count == (0, 0):
            continue
        if count != (1, 1) or text.index(before) > text.index(after):
            raise CompanionError(f"README.md must have {before} and then {after}, once each: put them back.")
        head, rest = text.split(before)
        text = f"{head}{before}\n{make()}\n{after}{rest.split(after)[1]}"
    return text


def scoreboard_part() -> str:
    """Claims by paper and run, with what each run is, and how much depends on the training's seed."""
    stored = {name: folder for name, folder in runs().items() if name in RUNS}
    means = "; ".join(f"`{name}`: {RUNS[name]}" for name in stored)
    seeds = scoreboard.seeds()
    luck = "" if seeds.empty else (f"\n\nThe model, or the luck of its training? {scoreboard.alike(seeds)} "
                                   "([notebook 12](notebooks/12_scoreboard.ipynb)).")
    return f"{scoreboard.summary(stored)}\n\n{means}.{luck}"


def figures_part() -> str:
    """The best figure of each paper, under what it found, from the run nearest to the paper's."""
    parts, results = [], page.collect(runs())
    for paper, name in BEST.items():
        shown = next((result for run in RUNS for result in results
                      if result.run == run and result.name == name and not result.is_table), None)
        if shown is None:
            raise CompanionError(f"No run has the figure {name}: make it with ./reproduce.sh --only {name[:2]}.")
        _, address, _, question = page.PAPERS[paper]
        notebook = next(paths.NOTEBOOKS.glob(f"{shown.number}_*.ipynb"))
        picture = shown.file.relative_to(paths.ROOT).as_posix()
        words = re.sub(r"[\[\]]", "", f"{shown.finding}. {shown.caption}")
        parts.append(f"**{shown.finding}.** [{paper}]({address}) asks: {question[0].lower()}{question[1:]} "
                     f"(`{shown.run}`, [notebook {shown.number}](notebooks/{notebook.name}))\n\n"
                     f"![{words}]({picture})")
    return "\n\n".join(parts)
