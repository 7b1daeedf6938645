"""Everything that runs found, on one page: build/report/inventory.html, what the article rests on.

Verdicts come from the records in claims/NN.json (of retrainings what is about their BERT, as on the
board), printed numbers from numbers/NN.json, figures and tables from their files and the json
beside each. The same files give the same page: the only times on it are those of notebooks executed
here. Look and filters are in page.html.
"""

import base64
import csv
import io
import json
import os
import re
import shlex
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from urllib.parse import quote

from PIL import Image

from lib import CompanionError, paths, printed, results, verdict
from lib.engine.files import replace
from lib.publish import article, board as claims_board, card, compare, numbers, scoreboard
from lib.publish.article import TEMPLATES
from lib.publish.cells import KINDS
from lib.publish.judged import judged
from lib.publish.papers import CLAIMS, PAPERS, paper_of
from lib.publish.scoreboard import ALL_PAPERS
from lib.verdict import NOT_TESTABLE, Outcome

TABLE_ROWS = 40  # of a table among the figures; the whole is in its file
COLOURS = 128  # of a picture on the page
IS_NUMBER = re.compile(r"\s*[-+<]?\s?\d*\.?\d+(e[-+]?\d+)?%?( \[.*\])?\s*")
EVERY_CLAIM = CLAIMS | card.CLAIMS


class Result:
    """A figure or a table of a run, with what Run.save wrote beside it."""

    def __init__(self, run: str, file: Path):
        self.run = run
        self.file = file
        self.name = file.stem
        self.id = f"{run}.{file.stem}"
        self.number = file.name[:2]
        self.is_table = file.suffix == ".csv"
        self.damaged = None  # the file that is not what it should be
        self.made = self._record(file.with_suffix(".json"))
        self.finding = self.made.get("finding", "")  # what the title of a figure says
        no_caption = f"{self.name[3:].replace('_', ' ').capitalize()} (no caption was stored)."
        self.caption = self.made.get("caption") or no_caption
        # what is read in place of a figure
        self.words = f"{self.finding}. {self.caption}" if self.finding else self.caption

    def _record(self, file: Path) -> dict:
        """What was written beside it; empty where that is missing or damaged."""
        if not file.is_file():
            return {}
        try:
            return dict(json.loads(file.read_text(encoding="utf-8")))
        except (ValueError, TypeError):
            self.damaged = file
            return {}

    def content(self):
        """What the page shows of it: `rows` or `picture`; None where the file is damaged."""
        try:
            return self.rows() if self.is_table else self.picture()
        except (OSError, ValueError, csv.Error):  # what PIL raises for anything but a picture
            self.damaged = self.file
            return None

    @property
    def provenance(self) -> list[tuple[str, str]]:
        """(what, value) pairs to print below it."""
        pairs = []
        for what in ("models", "data", "seed", "command", "measured", "versions"):
            value = self.made.get(what)
            if value in (None, "", {}):
                continue
            if what == "measured":
                value = "; ".join(f"{name} on {one['device']}" for name, one in value.items())
            elif isinstance(value, dict):
                value = ", ".join(f"{key} {one}" for key, one in value.items())
            pairs.append((what, value))
        return pairs

    @property
    def files(self) -> list[tuple[str, str]]:
        """(kind, address seen from the page) of the files that it is stored in."""
        found = []
        for kind in ("svg", "png", "csv", "json"):
            file = self.file.with_suffix(f".{kind}")
            if file.is_file():
                found.append((kind, _address(file)))
        return found

    def rows(self) -> tuple[list[str], list[list[str]]]:
        """Of a table: its header and its rows, all text. A header of two lines, as pandas writes
        it, becomes one.
        """
        with open(self.file, newline="", encoding="utf-8") as stream:
            rows = [row for row in csv.reader(stream) if row]
        if not rows:
            return [], []
        if _has_two_headers(rows):
            names = [f"{one}: {other}" for one, other in zip(rows[0], rows[1], strict=True)]
            return [rows[2][0], *names[1:]], rows[3:]
        return rows[0], rows[1:]

    def picture(self) -> tuple[str, int, int]:
        """(data address, width, height): the drawing where it is small, else its pixels in few
        colours.
        """
        drawing = self.file.with_suffix(".svg")
        with Image.open(self.file) as image:
            width, height = image.size
            # what packing leaves of the pixels is about seven tenths
            if drawing.is_file() and drawing.stat().st_size < 0.7 * self.file.stat().st_size:
                return _data_address("svg+xml", drawing.read_bytes()), width, height
            few = image.convert("RGB").quantize(
                COLOURS, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE
            )
            packed = io.BytesIO()
            few.save(packed, "PNG")
        return _data_address("png", packed.getvalue()), width, height


def _has_two_headers(rows: list[list[str]]) -> bool:
    """pandas writes two lines of names, then one with the index's name alone."""
    if len(rows) < 4:
        return False
    names = rows[0][1:]
    return not any(rows[2][1:]) and len(set(names)) < len(names)


def _data_address(kind: str, content: bytes) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


def collect(folders: dict[str, Path]) -> list[Result]:
    """Every figure and table of these runs, by name and then by run, so that runs stand side by
    side.
    """
    found = []
    for run, folder in folders.items():
        for file in folder.glob("[0-9][0-9]_*"):
            if file.suffix in (".png", ".csv"):
                found.append(Result(run, file))
    if not found:
        raise CompanionError("There are no figures to report on: make them with ./reproduce.sh.")
    return sorted(found, key=lambda result: (result.name, result.run))


def write(folders: dict[str, Path] | None = None) -> Path:
    """Make the pages of these runs, all that are stored or made here where left out; the article's
    path. What is damaged is left out, and said.
    """
    target = paths.BUILD / "report" / "index.html"
    if folders is None:
        folders = results.runs_shown()
    damaged = []
    readable = {
        run: folder for run, folder in folders.items() if _is_readable(run, folder, damaged)
    }
    reproduced = compare.made_here()
    pages = {
        "inventory.html": render(readable, damaged, reproduced),
        "index.html": article.render(readable, reproduced),
        "board.html": claims_board.page(readable, _pictures(readable)),
    }
    for sentence in damaged:
        print(sentence, file=sys.stderr)
    try:
        for name in ("index.html", "inventory.html", "board.html"):
            replace(target.with_name(name), pages[name].encode())
    except OSError as error:
        raise CompanionError(
            f"The report could not be written ({error.strerror}): make {target.parent} "
            "writable, then run ./reproduce.sh report."
        ) from None
    return target


def _pictures(folders: dict[str, Path]) -> frozenset[str]:
    """The ids of all figures."""
    return frozenset(one.id for one in collect(folders) if not one.is_table)


def _is_readable(run: str, folder: Path, damaged: list[str]) -> bool:
    """Whether a run's records can be read; what is wrong with them is added to `damaged`."""
    try:
        for file in [*folder.glob("claims/*.json"), *folder.glob("draws/*/claims/*.json")]:
            for one in verdict.read(file):
                if one.claim not in EVERY_CLAIM:
                    raise CompanionError(
                        f"{file.name} tests '{one.claim}', which no claims.py has: run it again."
                    )
        numbers.compared(run, folder)
    except CompanionError as error:
        damaged.append(f"The run {run} is left out. {error}")
        return False
    return True


def render(folders: dict[str, Path], damaged: list[str], reproduced=()) -> str:
    """The inventory, as text; sentences on what had to be left out are added to `damaged`.

    reproduced   comparisons with what is stored, of the runs that were made here
    """
    folders = dict(sorted(folders.items()))
    every = collect(folders)
    shown, contents = _readable_results(every, damaged)
    pictures = {result.id for result in shown if not result.is_table}
    table = scoreboard.board(folders)
    board_runs = [run for run in folders if run in table]
    board = []
    if board_runs:
        board = [_board_row(row, board_runs, pictures) for row in table.to_dict("records")]
    claims = list(_claim_rows(folders, pictures))
    compared = list(_number_rows(folders))
    used = {row["number"] for row in claims + compared} | {result.number for result in every}
    notebooks = _notebooks(used, folders)
    return TEMPLATES.get_template("page.html").render(
        runs=list(folders),
        notebooks=notebooks,
        board=_grouped(board, "paper"),
        board_runs=board_runs,
        verdicts=_kinds_that_occur(board, claims + compared),
        claims=_grouped(claims, "number", "claim", "where"),
        numbers=_grouped(compared, "number", "what"),
        gallery=_by(shown, lambda result: result.number),
        by_paper=_by(notebooks, _paper_title),
        contents=contents,
        damaged=damaged,
        reproduced=reproduced,
        paper_of=_paper_title,
        is_number=IS_NUMBER.fullmatch,
        table_rows=TABLE_ROWS,
        n_board=len(board),
        n_claims=len(claims),
        n_numbers=len(compared),
        n_figures=len(pictures),
    )


def _readable_results(every: list[Result], damaged: list[str]) -> tuple[list[Result], dict]:
    """Figures and tables that the page shows, figures first, and their contents by id."""
    shown = [one for one in every if one.made.get("kind") not in ("claims", "numbers")]
    shown.sort(key=lambda result: (result.number, result.is_table))
    with ThreadPoolExecutor() as pool:  # packing a picture takes time
        packed = list(pool.map(Result.content, shown))
    contents = {result.id: content for result, content in zip(shown, packed, strict=True)}
    for result in every:
        if result.damaged:
            damaged.append(_how_to_restore(result, every))
    return [result for result in shown if contents[result.id]], contents


def _how_to_restore(result: Result, every: list[Result]) -> str:
    """A sentence on a damaged file, with the command that made others of its notebook."""
    place = os.path.relpath(result.damaged, paths.ROOT)
    again = ""
    for other in every:
        is_beside = (other.run, other.number) == (result.run, result.number)
        if is_beside and "command" in other.made:
            again = f", or make it again with `{other.made['command']}`"
            break
    return f"{place} is damaged: restore it with `git checkout {shlex.quote(place)}`{again}."


def _kinds_that_occur(board: list[dict], rows: list[dict]) -> list[str]:
    """For the filter: verdicts of claims and of printed numbers that stand on the page."""
    kinds = {row["kind"] for row in rows}
    for row in board:
        kinds |= {cell["kind"] for cell in row["verdicts"]}
    every = dict.fromkeys(map(str, (*KINDS, *verdict.Match)))
    return [kind for kind in every if kind in kinds]


def _board_row(row: dict, runs: list[str], pictures: set[str]) -> dict:
    """One row of the board: the claim, where it is made, what each run says of it, the figure
    behind it.
    """
    tested = [run for run in runs if row[run].kind not in (NOT_TESTABLE, Outcome.NOT_RUN)]
    nearest_first = [f"{run}.{row['figure']}" for run in [*tested[::-1], *runs]]
    figures = [name for name in nearest_first if name in pictures]
    cells = []
    for run in runs:
        cells.append({"run": run, "kind": str(row[run].kind), "reason": row[run].reason})
    return {
        "paper": row["source"],
        "claim": row["claim"],
        "where": row["made in"],
        "number": row["tested by"],
        "figure": figures[0] if figures else "",
        "said": "; ".join(filter(None, (row["controls"], row["retrainings"]))),
        "verdicts": cells,
    }


def _claim_rows(folders: dict[str, Path], pictures: set[str]) -> Iterator[dict]:
    """One row per test of a claim, by notebook: what, on what, its verdict, what is behind it."""
    held = judged(folders)
    tests = []
    for run, folder in folders.items():
        for test in [*held.get(run, []), *_of_cards(folder)]:
            claim = EVERY_CLAIM[test.claim]
            tests.append((claim.notebook, run, claim, test))
    for number, run, claim, test in sorted(tests, key=lambda one: one[:2]):
        figure = f"{run}.{claim.figure}"
        has_own = figure in pictures
        yield {
            "run": run,
            "number": number,
            "claim": claim.says,
            "kind": str(test.outcome),
            "reason": test.reason,
            "where": test.on or ", ".join(test.models),
            "evidence": test.found,
            "behind": _behind(test),
            "figure": figure if has_own else f"figures-{number}",
            "alone": has_own,
        }


def _of_cards(folder: Path) -> list[verdict.Verdict]:
    """A run's tests of the cards' claims, which are checks and no paper's."""
    tests = [one for file in sorted(folder.glob("claims/*.json")) for one in verdict.read(file)]
    return [one for one in tests if one.claim in card.CLAIMS]


def _behind(test: verdict.Verdict) -> str:
    """What stands behind a verdict, in one line."""
    if test.outcome == Outcome.NOT_RUN:
        return ""
    parts = scoreboard.behind(test)
    return "; ".join(f"{what} {text}" for what, text in parts.items() if text)


def _number_rows(folders: dict[str, Path]) -> Iterator[dict]:
    """One row per printed number, by notebook: what it is of, the paper's, ours."""
    theirs = {}
    for key in PAPERS:
        for row in printed.numbers(key).fillna("").itertuples():
            theirs[key, row.table, row.row, row.column] = row.value
    files = []
    for run, folder in folders.items():
        files += [(file.stem, run) for file in folder.glob("numbers/*.json")]
    for number, run in sorted(files):
        for key, one in numbers.compared(run, folders[run], number).items():
            yield {
                "run": run,
                "number": number,
                "what": ", ".join(key[1:]),
                "kind": one.kind,
                "reason": one.match.removeprefix(one.kind).strip(" :()"),
                "paper": theirs.get(key, ""),
                "ours": one.ours,
            }


def _grouped(rows: list[dict], *keys: str) -> list:
    """Rows by their first key, and within it by the next: (key, rows) pairs in order of
    appearance.
    """
    if not keys:
        return rows
    groups = {}
    for row in rows:
        groups.setdefault(row[keys[0]], []).append(row)
    return [(key, _grouped(group, *keys[1:])) for key, group in groups.items()]


def _by(sequence, key) -> list[tuple]:
    """Neighbours that share a key, as (key, list) pairs."""
    return [(name, list(group)) for name, group in groupby(sequence, key=key)]


def _paper_title(number: str) -> str:
    paper = paper_of(number)
    return paper.title if paper else ALL_PAPERS


def _notebooks(used: set[str], folders: dict[str, Path]) -> dict:
    """{number: (title, {run: (address of the executed copy, when)})} of notebooks that made
    something.
    """
    files = sorted(paths.NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))
    stems = {file.stem[:2]: file.stem for file in files}
    found = {}
    for number in sorted(used):
        stem = stems.get(number, f"{number}_notebook")
        links = {}
        for run in folders:
            copy = paths.BUILD / run / f"{stem}.html"
            if copy.is_file():
                links[run] = _address(copy), _when(copy)
        found[number] = stem[3:].replace("_", " ").capitalize(), links
    return found


def _when(copy: Path) -> str:
    """When a notebook was executed here, and how long it took."""
    try:
        content = json.loads(copy.with_suffix(".ipynb").read_text(encoding="utf-8"))
        noted = content["metadata"]["papermill"]
        return f"{noted['end_time'][:16].replace('T', ' ')} UTC, {noted['duration']:.0f} s"
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
    ):  # no copy, or one that did not come to its end
        return ""


def _address(file: Path) -> str:
    """Seen from the page."""
    return quote(os.path.relpath(file, paths.BUILD / "report").replace(os.sep, "/"))
