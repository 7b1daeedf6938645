"""Everything that the runs under figures/ hold on one page, build/report/inventory.html: what the article rests on.

Verdicts come from the records in claims/NN.json, printed numbers from numbers/NN.json, figures and tables from their
files and the json beside each. The same files give the same page: the only times on it are those of the notebooks
executed here. Look and filters are in page.html. `write_readme` puts the board and three figures into README.md."""

import base64
import csv
import io
import json
import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from urllib.parse import quote

from PIL import Image

from lib import CompanionError, paths, printed, verdict
from lib.engine.files import replace
from lib.publish import article, card, compare, scoreboard
from lib.publish.article import PAPERS, RUNS, TEMPLATES
from lib.publish.run import runs, runs_shown
from lib.publish.scoreboard import ALL_PAPERS, KINDS

TABLE_ROWS = 40  # of a table among the figures; the whole is in its file
IS_NUMBER = re.compile(r"\s*[-+<]?\s?\d*\.?\d+(e[-+]?\d+)?%?( \[.*\])?\s*")


class Result:
    """A figure or a table of a run, with what Run.save wrote beside it: `made`, empty where that is missing."""

    def __init__(self, run: str, file: Path):
        self.run, self.file, self.id = run, file, f"{run}.{file.stem}"
        self.name, self.number, self.is_table = file.stem, file.name[:2], file.suffix == ".csv"
        self.made, self.damaged, beside = (
            {},
            None,
            file.with_suffix(".json"),
        )  # damaged: not what it should be
        try:
            self.made = (
                dict(json.loads(beside.read_text(encoding="utf-8"))) if beside.is_file() else {}
            )
        except (ValueError, TypeError):
            self.damaged = beside
        self.finding = self.made.get("finding", "")  # what the title of a figure says
        self.caption = self.made.get("caption") or (
            f"{self.name[3:].replace('_', ' ').capitalize()} (no caption was stored)."
        )
        self.words = (
            f"{self.finding}. {self.caption}" if self.finding else self.caption
        )  # in place of a figure

    def content(self):
        """What the page shows of it: `rows` or `picture`; None where the file is damaged."""
        try:
            return self.rows() if self.is_table else self.picture()
        except (
            OSError,
            ValueError,
            csv.Error,
        ):  # what PIL raises for anything but a picture, and decoding
            self.damaged = self.file

    @property
    def provenance(self):
        """(what, value) pairs to print below it."""
        pairs = [
            (what, self.made.get(what))
            for what in ("models", "data", "seed", "command", "versions")
        ]
        return [
            (
                what,
                ", ".join(f"{key} {each}" for key, each in value.items())
                if isinstance(value, dict)
                else value,
            )
            for what, value in pairs
            if value not in (None, "", {})
        ]

    @property
    def files(self):
        """(kind, address seen from the page) of the files it is stored in."""
        return [
            (kind, _address(file))
            for kind in ("svg", "png", "csv", "json")
            if (file := self.file.with_suffix(f".{kind}")).is_file()
        ]

    def rows(self):
        """Of a table: its header and its rows, all text. A header of two lines, as pandas writes it, becomes one."""
        with open(self.file, newline="", encoding="utf-8") as stream:
            rows = [row for row in csv.reader(stream) if row]
        if len(rows) > 3 and not any(rows[2][1:]) and len(set(rows[0][1:])) < len(rows[0][1:]):
            return [rows[2][0], *map("{}: {}".format, rows[0][1:], rows[1][1:])], rows[3:]
        return (rows[0], rows[1:]) if rows else ([], [])

    def picture(self):
        """(data address, width, height): the drawing where it is small, or else its pixels, in at most 128 colours."""
        drawing, packed = self.file.with_suffix(".svg"), io.BytesIO()
        small = (
            drawing.is_file() and drawing.stat().st_size < 0.7 * self.file.stat().st_size
        )  # what packing leaves
        with Image.open(self.file) as image:
            size = image.size
            if not small:
                few = image.convert("RGB").quantize(
                    128, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE
                )
                few.save(packed, "PNG")
        kind, content = ("svg+xml", drawing.read_bytes()) if small else ("png", packed.getvalue())
        return f"data:image/{kind};base64,{base64.b64encode(content).decode()}", *size


def collect(folders):
    """Every figure and table of these runs, by name and then by run, so that runs stand side by side."""
    results = [
        Result(run, file)
        for run, folder in folders.items()
        for file in folder.glob("[0-9][0-9]_*")
        if file.suffix in (".png", ".csv")
    ]
    if not results:
        raise CompanionError("There are no figures to report on: make them with ./reproduce.sh.")
    return sorted(results, key=lambda result: (result.name, result.run))


def write(folders: dict[str, Path] | None = None) -> Path:
    """Make both pages of these runs, {name: folder}, all that are stored or made here where left out; the article's
    path. What is damaged is left out, and said."""
    damaged, target = [], paths.BUILD / "report" / "index.html"
    folders = runs_shown() if folders is None else folders
    reproduced = compare.made_here()
    folders = {run: folder for run, folder in folders.items() if _readable(run, folder, damaged)}
    pages = {
        "inventory.html": render(folders, damaged, reproduced),
        "index.html": article.render(folders, reproduced),
    }
    print(*damaged, sep="\n", end="\n" if damaged else "", file=sys.stderr)
    try:
        for name in sorted(pages):
            replace(target.with_name(name), pages[name].encode())
    except OSError as error:
        raise CompanionError(
            f"The report could not be written ({error.strerror}): make {target.parent} writable, "
            "then run ./reproduce.sh report."
        ) from None
    return target


def render(folders, damaged, reproduced=()):
    """The inventory, as text; sentences on what had to be left out are added to `damaged`.
    reproduced: comparisons with what is stored, of the runs that were made here"""
    folders = dict(sorted(folders.items()))
    results = collect(folders)
    shown = [result for result in results if result.made.get("kind") not in ("claims", "numbers")]
    shown.sort(key=lambda result: (result.number, result.is_table))  # figures first
    with ThreadPoolExecutor() as pool:  # packing a picture takes time
        contents = dict(zip([result.id for result in shown], pool.map(Result.content, shown)))
    for result in results:
        if result.damaged:
            made = [
                each.made["command"]
                for each in results
                if "command" in each.made and (each.run, each.number) == (result.run, result.number)
            ]
            make = f", or make it again with `{made[0]}`" if made else ""
            place = os.path.relpath(result.damaged, paths.ROOT)
            damaged.append(f"{place} is damaged: restore it with `git checkout {place}`{make}.")
    shown = [result for result in shown if contents[result.id]]
    pictures = {result.id for result in shown if not result.is_table}
    table = scoreboard.board(folders)
    names = [run for run in folders if run in table]
    board = [_cells(row, names, pictures) for row in table.to_dict("records")] if names else []
    claims, numbers = list(_claims(folders, pictures)), list(_numbers(folders))
    kinds = {row["kind"] for row in claims + numbers} | {
        cell["kind"] for row in board for cell in row["verdicts"]
    }
    notebooks = _notebooks(
        {row["number"] for row in claims + numbers} | {each.number for each in results}, folders
    )
    return TEMPLATES.get_template("page.html").render(
        runs=list(folders),
        notebooks=notebooks,
        board=_grouped(board, "paper"),
        board_runs=names,
        verdicts=[
            kind for kind in dict.fromkeys(map(str, (*KINDS, *verdict.Match))) if kind in kinds
        ],
        claims=_grouped(claims, "number", "claim", "where"),
        numbers=_grouped(numbers, "number", "what"),
        gallery=[
            (number, list(group))
            for number, group in groupby(shown, key=lambda result: result.number)
        ],
        by_paper=[(paper, list(group)) for paper, group in groupby(notebooks, key=paper_of)],
        contents=contents,
        damaged=damaged,
        reproduced=reproduced,
        paper_of=paper_of,
        is_number=IS_NUMBER.fullmatch,
        table_rows=TABLE_ROWS,
        n_board=len(board),
        n_claims=len(claims),
        n_numbers=len(numbers),
        n_figures=len(pictures),
    )


def _readable(run, folder, damaged):
    try:
        for file in [*folder.glob("claims/*.json"), *folder.glob("draws/*/claims/*.json")]:
            if (
                unknown := {test.claim for test in verdict.read(file)}
                - (scoreboard.CLAIMS | card.CLAIMS).keys()
            ):
                raise CompanionError(
                    f"{file.name} tests '{unknown.pop()}', which no claims.py has: run it again."
                )
        scoreboard.compared(run, folder)
        return True
    except CompanionError as error:
        damaged.append(f"The run {run} is left out. {error}")
        return False


def paper_of(number):
    return next(
        (paper for paper, about in PAPERS.items() if int(number) in about["notebooks"]), ALL_PAPERS
    )


def _cells(row, names, pictures):
    """One row of the board: the claim, where it is made, what each run says of it, the figure behind it."""
    tested = [
        run for run in names if row[run].kind not in (verdict.NOT_TESTABLE, verdict.Outcome.NOT_RUN)
    ]
    figures = [
        f"{run}.{row['figure']}" for run in [*tested[::-1], *names]
    ]  # nearest to the papers first
    return {
        "paper": row["source"],
        "claim": row["claim"],
        "where": row["made in"],
        "number": row["tested by"],
        "figure": next((name for name in figures if name in pictures), ""),
        "null": "; ".join(filter(None, (row["null result"], row["trainings"]))),
        "verdicts": [
            {"run": run, "kind": str(row[run].kind), "reason": row[run].reason} for run in names
        ],
    }


def _claims(folders, pictures):
    """One row per test of a claim, by notebook: what, on what, its verdict, what is behind it, and the figure."""
    known, specific = scoreboard.CLAIMS | card.CLAIMS, scoreboard.specificity(folders)
    files = [
        (file.stem, run, file)
        for run, folder in folders.items()
        for file in folder.glob("claims/*.json")
    ]
    for number, run, file in sorted(files):
        for test in verdict.read(file):
            claim = known[test.claim]
            figure = f"{run}.{claim.figure}"
            yield {
                "run": run,
                "number": number,
                "claim": claim.says,
                "kind": str(test.outcome),
                "reason": test.reason,
                "where": test.on or ", ".join(test.models),
                "evidence": test.found,
                "behind": "; ".join(
                    f"{what} {text}"
                    for what, text in scoreboard.behind(test, specific).items()
                    if text and not test.outcome == verdict.Outcome.NOT_RUN
                ),
                "figure": figure if figure in pictures else f"figures-{number}",
                "alone": figure in pictures,
            }


def _numbers(folders):
    """One row per printed number, by notebook: what it is of, the paper's, ours."""
    theirs = {
        (paper, row.table, row.row, row.column): row.value
        for paper in verdict.PAPERS
        for row in printed.numbers(paper).fillna("").itertuples()
    }
    files = [
        (file.stem, run)
        for run, folder in folders.items()
        for file in folder.glob("numbers/*.json")
    ]
    for number, run in sorted(files):
        for key, (ours, match, kind) in scoreboard.compared(run, folders[run], number).items():
            yield {
                "run": run,
                "number": number,
                "what": ", ".join(key[1:]),
                "kind": kind,
                "reason": match.removeprefix(kind).strip(" :()"),
                "paper": theirs.get(key, ""),
                "ours": ours,
            }


def _grouped(rows, *keys):
    """Rows by their first key, and within it by the next: a list of (key, list), in order of appearance."""
    if not keys:
        return rows
    groups = {}
    for row in rows:
        groups.setdefault(row[keys[0]], []).append(row)
    return [(key, _grouped(group, *keys[1:])) for key, group in groups.items()]


def _notebooks(numbers, folders):
    """{number: (title, {run: (address of the executed copy, when)})} for every notebook that made something."""
    stems = {
        file.stem[:2]: file.stem for file in sorted(paths.NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))
    }
    made = {}
    for number in sorted(numbers):
        stem = stems.get(number, f"{number}_notebook")
        links = {
            run: (_address(copy), _when(copy))
            for run in folders
            if (copy := paths.BUILD / run / f"{stem}.html").is_file()
        }
        made[number] = stem[3:].replace("_", " ").capitalize(), links
    return made


def _when(copy):
    """When a notebook was executed here, and how long it took."""
    try:
        noted = json.loads(copy.with_suffix(".ipynb").read_text(encoding="utf-8"))["metadata"][
            "papermill"
        ]
        return f"{noted['end_time'][:16].replace('T', ' ')} UTC, {noted['duration']:.0f} s"
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
    ):  # no copy, or one that did not come to its end
        return ""


def _address(file):
    """Seen from the page."""
    return quote(os.path.relpath(file, paths.BUILD / "report").replace(os.sep, "/"))


# ---- the parts of README.md that the runs make: what stands between <!-- scoreboard --> and <!-- /scoreboard -->, say.
# Nobody writes them by hand: a test fails when they say something else than figures/ does.

README = paths.ROOT / "README.md"
BEST = {
    "Bias A-head": "02_fig2_heatmaps",
    "Projective Methods": "08_plane",
    "Counteracts": "11_slopes",
}


def write_readme() -> str:
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
        before, after = f"<!-- {name} -->", f"<!-- /{name} -->"
        if before in text or after in text:
            parts = re.fullmatch(f"(.*{before}).*({after}.*)", text, re.DOTALL)
            if not parts or (text.count(before), text.count(after)) != (1, 1):
                raise CompanionError(
                    f"README.md must have {before} and then {after}, once each: put them back."
                )
            text = f"{parts[1]}\n{make()}\n{parts[2]}"
    return text


def scoreboard_part() -> str:
    """Claims by paper and run, with what each run is, what controls say, and how much depends on the seed."""
    stored = {
        name: folder
        for name, folder in runs().items()
        if name in RUNS or scoreboard.control_of(name)
    }
    means = "; ".join(f"`{name}`: {RUNS[name]}" for name in stored if name in RUNS)
    specific = (
        f"*{scoreboard.MATCHED.capitalize()}*: models that cannot have the effect bear it out too"
        if any(map(scoreboard.control_of, stored))
        else f"Whether what holds is specific to stereotypes is not known: {scoreboard.NO_CONTROL}"
    )
    over = scoreboard.across()
    luck = (
        scoreboard.lasting(over, stored) if len(over) else "Not run: three trainings of one model"
    )
    return (
        f"{scoreboard.summary(stored)}\n\n{means}. {specific}.\n\n{luck} "
        "([notebook 12](notebooks/12_scoreboard.ipynb))."
    )


def figures_part() -> str:
    """The best figure of each paper, under what it found, from the run nearest to the paper's."""
    parts, figures = [], {result.id: result for result in collect(runs()) if not result.is_table}
    for paper, name in BEST.items():
        shown = next((figures[f"{run}.{name}"] for run in RUNS if f"{run}.{name}" in figures), None)
        if shown is None:
            raise CompanionError(
                f"No run has the figure {name}: make it with ./reproduce.sh --only {name[:2]}."
            )
        address, question = PAPERS[paper]["address"], PAPERS[paper]["question"]
        notebook = next(paths.NOTEBOOKS.glob(f"{shown.number}_*.ipynb"))
        words = re.sub(r"[\[\]]", "", shown.caption)  # the finding stands above it
        parts.append(
            f"**{shown.finding}.** [{paper}]({address}) asks: {question[0].lower()}{question[1:]} "
            f"(`{shown.run}`, [notebook {shown.number}](notebooks/{notebook.name}))\n\n"
            f"![{words}]({shown.file.relative_to(paths.ROOT).as_posix()})"
        )
    return "\n\n".join(parts)
