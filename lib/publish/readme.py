"""The parts of README.md that stored runs make: what stands between <!-- scoreboard --> and <!--
/scoreboard -->, say. Nobody writes them by hand, and a test fails where they say something else.
"""

import re

from lib import CompanionError, paths, results
from lib.engine.files import replace
from lib.publish import retrainings, scoreboard
from lib.publish.controls import NOT_RUN
from lib.publish.page import Result, collect
from lib.publish.papers import PAPERS, RUNS, run_name
from lib.publish.records import control_of
from lib.verdict import Outcome, Paper

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
    for name, make in {"scoreboard": scoreboard_part, "figures": figures_part}.items():
        before = f"<!-- {name} -->"
        after = f"<!-- /{name} -->"
        if before not in text and after not in text:
            continue
        parts = re.fullmatch(f"(.*{before}).*({after}.*)", text, re.DOTALL)
        if not parts or (text.count(before), text.count(after)) != (1, 1):
            raise CompanionError(
                f"README.md must have {before} and then {after}, once each: put them back."
            )
        text = f"{parts[1]}\n{make()}\n{parts[2]}"
    return text


def scoreboard_part() -> str:
    """Claims by paper and run, with what each run is, what controls say, and what depends on the
    seed.
    """
    stored = {}
    for name, folder in results.runs().items():
        if name in RUNS or control_of(name):
            stored[name] = folder
    known = [name for name in stored if name in RUNS]
    means = "; ".join(f"*{run_name(name)}* (`{name}`): {RUNS[name]}" for name in known)
    controls = f"Whether control models show as much is not known: {NOT_RUN}"
    if any(control_of(name) for name in stored):
        matched = Outcome.MATCHED.capitalize()
        controls = (
            f"*{matched}*: random interventions, or models that cannot have the effect, show as "
            f"much. *{Outcome.NO_EFFECT.capitalize()}*: measured, and next to nothing"
        )
    over = retrainings.across()
    lasting = "Not run: three retrainings of one model"
    if len(over):
        lasting = scoreboard.lasting(over, results.runs())  # `stored` has no retrainings
    return (
        f"{scoreboard.summary(stored)}\n\n{means}. {controls}.\n\n{lasting} "
        "([notebook 12](notebooks/12_scoreboard.ipynb))."
    )


def figures_part() -> str:
    """The best figure of each paper, under what it found, from the run nearest to the paper's."""
    figures = {one.id: one for one in collect(results.runs()) if not one.is_table}
    return "\n\n".join(_figure(paper, figures) for paper in PAPERS.values())


def _figure(paper: Paper, figures: dict[str, Result]) -> str:
    found = [figures[f"{run}.{paper.figure}"] for run in RUNS if f"{run}.{paper.figure}" in figures]
    if not found:
        raise CompanionError(
            f"No run has the figure {paper.figure}: make it with ./reproduce.sh --only "
            f"{paper.figure[:2]}."
        )
    shown = found[0]
    notebook = next(paths.NOTEBOOKS.glob(f"{shown.number}_*.ipynb"))
    question = paper.question[0].lower() + paper.question[1:]
    words = re.sub(r"[\[\]]", "", shown.caption)  # the finding stands above it
    place = shown.file.relative_to(paths.ROOT).as_posix()
    return (
        f"**{shown.finding}.** [{paper.title}]({paper.address}) asks: {question} "
        f"({run_name(shown.run)}, [notebook {shown.number}](notebooks/{notebook.name}))\n\n"
        f"![{words}]({place})"
    )
