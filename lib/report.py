"""One page of everything that the runs under figures/ hold: build/report/index.html, with nothing fetched from outside.

What a table is, its columns say, so that a notebook needs no entry here:
- with `verdict` and `claim` (or `presupposed`): claims. `where`, or else `model`, `data` and `bias`, say what a claim
  was tested on (without these: the models of its provenance), `figure` names the figure behind it (4a is NN_fig4a;
  without it: the notebook's figures), and every other column is its evidence.
- with `verdict`, `paper` and `ours`: printed numbers beside ours, named by the columns that are left.
- any other is shown as it is, among the figures.
A verdict begins with one of VERDICTS; what follows, in brackets or after a colon, is its reason. The same files give
the same page: it holds no date. Its look and its filters are in report.html.
"""

import base64
import csv
import io
import json
import os
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from urllib.parse import quote

from lib import CompanionError, paths
from lib.run import replace

# the only addresses outside that the page links to
PAPERS = {
    "Bias A-head": (range(2, 7), "https://arxiv.org/abs/2311.10395", "Yang, Duan, Abbasi, Lalor and Tam",
                    "Which attention heads carry a stereotype?"),
    "Projective Methods": (range(7, 10), "https://arxiv.org/abs/2403.18803", "Dawkins, Nejadgholi, Gillis and McCuaig",
                           "What does a projection inside BERT remove, and what does it cost?"),
    "Counteracts": (range(10, 12), "https://arxiv.org/abs/2301.04347", "Zhang",
                    "Do counterexamples in the prompt move a model?"),
}
ALL_PAPERS = "All three papers"  # notebooks that belong to none alone
VERDICTS = ("holds", "fails", "cannot be tested", "matches", "within interval", "differs", "other model", "not run")
CLAIM, WHERE = ("claim", "presupposed"), ("model", "data", "bias")
TABLE_ROWS = 40  # of a table among the figures; the whole is in its file


@dataclass
class Result:
    """A figure or a table of a run, with what it was made from."""

    run: str
    file: Path  # figures/mini/02_fig1.png, or .csv
    made: dict  # provenance, as Run.save wrote it; empty where its json is missing

    @property
    def name(self):
        return self.file.stem

    @property
    def number(self):
        return self.name[:2]

    @property
    def id(self):
        return f"{self.run}.{self.name}"

    @property
    def is_table(self):
        return self.file.suffix == ".csv"

    @property
    def caption(self):
        return self.made.get("caption") or f"{self.name[3:].replace('_', ' ').capitalize()} (no caption was stored)."

    @property
    def provenance(self):
        """(what, value) pairs to print below it."""
        def listed(key, join=" "):
            return ", ".join(f"{name}{join}{value}" for name, value in self.made.get(key, {}).items())

        pairs = {"models": listed("models"), "data": listed("data"), "seed": self.made.get("seed"),
                 "command": self.made.get("command"), "versions": listed("versions")}
        return [(what, value) for what, value in pairs.items() if value not in (None, "")]

    @property
    def files(self):
        """(kind, address seen from the page) of the files it is stored in."""
        kinds = [self.file.with_suffix(suffix) for suffix in (".svg", ".png", ".csv", ".json")]
        return [(file.suffix[1:], _address(file)) for file in kinds if file.is_file()]

    def rows(self):
        """Of a table: its header and its rows, all text. A header of two lines, as pandas writes it, becomes one."""
        with open(self.file, newline="", encoding="utf-8") as stream:
            rows = [row for row in csv.reader(stream) if row]
        if not rows:
            return [], []
        if len(rows) > 3 and not any(rows[2][1:]) and len(set(rows[0][1:])) < len(rows[0][1:]):
            pairs = zip(rows[0][1:], rows[1][1:])
            return [rows[2][0], *(f"{upper}: {lower}" for upper, lower in pairs)], rows[3:]
        return rows[0], rows[1:]

    def records(self):
        header, rows = self.rows()
        return [dict(zip(header, row)) for row in rows]

    def picture(self):
        """(data address, width, height): the drawing, or its pixels (lossless WebP), whichever is smaller."""
        from PIL import Image

        try:
            with Image.open(self.file) as image:
                packed = io.BytesIO()
                image.convert("RGB").save(packed, "WEBP", lossless=True, method=2)
                size = image.size
        except OSError:  # what PIL raises for anything but a picture
            raise CompanionError(f"{self._path} is no picture any more: make it again with "
                                 f"`./reproduce.sh --only {self.number} --recompute`.") from None
        drawing = self.file.with_suffix(".svg")
        if drawing.is_file() and drawing.stat().st_size < len(packed.getvalue()):
            return _data("image/svg+xml", drawing.read_bytes()), *size
        return _data("image/webp", packed.getvalue()), *size

    @property
    def _path(self):
        return f"{self.file.parent.name}/{self.file.name}"


def runs():
    """{name of a run: its folder}, for all that are stored."""
    return {folder.name: folder for folder in sorted(paths.FIGURES.glob("*")) if folder.is_dir()}


def collect(folders):
    """Every figure and table of these runs, by name and then by run, so that runs stand side by side."""
    results = []
    for run, folder in folders.items():
        for file in folder.glob("[0-9][0-9]_*"):
            if file.suffix in (".png", ".csv"):
                results.append(Result(run, file, _made(file.with_suffix(".json"))))
    if not results:
        raise CompanionError("There are no figures to report on: make them with ./reproduce.sh.")
    return sorted(results, key=lambda result: (result.name, result.run))


def write(folders=None):
    """Make the page of these runs (all that are stored) and return its path."""
    page = render(collect(folders or runs()))
    target = paths.BUILD / "report" / "index.html"
    try:
        replace(target, page.encode())
    except OSError as error:
        raise CompanionError(f"The report could not be written ({error.strerror}): make room for "
                             f"{len(page) / 1e6:.0f} MB in {target.parent}, then run ./reproduce.sh report.") from None
    return target


def render(results):
    """The page, as text."""
    from jinja2 import Environment, StrictUndefined

    kinds = [(result, _kind(result)) for result in results]
    shown = [result for result, kind in kinds if kind in ("picture", "table")]
    shown.sort(key=lambda result: (result.number, result.is_table))  # figures first
    claims = [row for result, kind in kinds if kind == "claims" for row in _claims(result, results)]
    numbers = [row for result, kind in kinds if kind == "numbers" for row in _numbers(result)]
    with ThreadPoolExecutor() as pool:  # packing a picture takes a tenth of a second
        drawn = [result for result in shown if not result.is_table]
        pictures = dict(zip([result.id for result in drawn], pool.map(Result.picture, drawn)))
    names = sorted({result.run for result in results})
    notebooks = _notebooks(results, names)
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(Path(__file__).with_suffix(".html").read_text(encoding="utf-8")).render(
        runs=names, papers=PAPERS, notebooks=notebooks, glance=_glance(claims, names),
        verdicts=[kind for kind in (*VERDICTS, "other") if any(row["kind"] == kind for row in claims + numbers)],
        claims=_grouped(claims, "number", "claim", "where"), numbers=_grouped(numbers, "number", "what"),
        gallery=[(number, list(part)) for number, part in groupby(shown, key=lambda result: result.number)],
        by_paper=[(paper, list(part)) for paper, part in groupby(notebooks, key=paper_of)],
        pictures=pictures, paper_of=paper_of, is_number=_is_number, table_rows=TABLE_ROWS,
        n_claims=len(claims), n_numbers=len(numbers), n_figures=sum(not result.is_table for result in results))


def paper_of(number):
    """Which paper the notebook of this number is on."""
    return next((paper for paper, (numbers, *_) in PAPERS.items() if int(number) in numbers), ALL_PAPERS)


def verdict(text):
    """(kind, reason) of a verdict: `holds (within chance)` is holds, for the reason of being within chance."""
    kind = next((kind for kind in VERDICTS if re.match(rf"{kind}\b", text)), "other")
    reason = text.removeprefix(kind).strip(" :,;")
    return kind, reason[1:-1] if reason.startswith("(") and reason.endswith(")") else reason


def _kind(result):
    if not result.is_table:
        return "picture"
    columns = set(result.rows()[0])
    if "verdict" in columns and columns & set(CLAIM):
        return "claims"
    return "numbers" if columns >= {"verdict", "paper", "ours"} else "table"


def _claims(result, results):
    """A row a claim: what, where, its verdict and the figure behind it."""
    known = {other.id for other in results if not other.is_table}
    for row in result.records():
        what = next(row[name] for name in CLAIM if name in row)
        where = row.get("where") or ", ".join(row[name] for name in WHERE if row.get(name))
        kind, reason = verdict(row["verdict"])
        figure = row.get("figure") or ""
        named = (f"{result.run}.{result.number}_fig{figure}", f"{result.run}.{figure}") if figure else ()
        target = next((name for name in named if name in known), f"figures-{result.number}")
        evidence = [(name, value) for name, value in row.items()
                    if value and name not in (*CLAIM, *WHERE, "where", "verdict", "figure")]
        yield {"run": result.run, "number": result.number, "claim": what, "kind": kind, "reason": reason,
               "where": where or ", ".join(result.made.get("models", {})), "evidence": evidence, "figure": target,
               "figure_name": figure if target in known else f"all of {result.number}"}


def _numbers(result):
    """A row a printed number: what it is of, the paper's, ours."""
    for row in result.records():
        kind, reason = verdict(row["verdict"])
        named = [(name, value) for name, value in row.items()
                 if value and name not in ("paper", "ours", "difference", "verdict")]
        what = ", ".join(f"{name.capitalize()} {value}" if name in ("table", "figure") and value[0].isdigit() else value
                         for name, value in named)
        yield {"run": result.run, "number": result.number, "what": what, "kind": kind, "reason": reason,
               "paper": row["paper"], "ours": row["ours"], "difference": row.get("difference", "")}


def _grouped(rows, *keys):
    """Rows by their first key, and within it by the next: a list of (key, list), in order of appearance."""
    if not keys:
        return rows
    groups = {}
    for row in rows:
        groups.setdefault(row[keys[0]], []).append(row)
    return [(key, _grouped(part, *keys[1:])) for key, part in groups.items()]


def _glance(claims, names):
    """(paper, [of a run: (kind, count, how many of these within chance), ...]) for every paper with tested claims."""
    rows = []
    for paper in (*PAPERS, ALL_PAPERS):
        of_paper = [row for row in claims if paper_of(row["number"]) == paper]
        counts = []
        for run in names:
            kinds = [(row["kind"], "chance" in row["reason"]) for row in of_paper if row["run"] == run]
            told = [(kind, kinds.count((kind, False)), kinds.count((kind, True))) for kind in (*VERDICTS, "other")]
            counts.append([(kind, sure + chance, chance) for kind, sure, chance in told if sure + chance])
        if of_paper:
            rows.append((paper, counts))
    return rows


def _notebooks(results, names):
    """{number: (title, {run: address of the executed copy})} for every notebook that made something."""
    stems = {file.stem[:2]: file.stem for file in sorted(paths.NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))}
    found = {}
    for number in dict.fromkeys(result.number for result in results):
        stem = stems.get(number, f"{number}_notebook")
        copies = {run: paths.BUILD / run / f"{stem}.html" for run in names}
        links = {run: _address(copy) for run, copy in copies.items() if copy.is_file()}
        found[number] = stem[3:].replace("_", " ").capitalize(), links
    return found


def _made(file):
    """The provenance in a json file; none where there is no file."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError:
        raise CompanionError(f"{file.parent.name}/{file.name} is not JSON any more: make it again with "
                             f"`./reproduce.sh --only {file.name[:2]} --recompute`.") from None


def _address(file):
    """Seen from the page."""
    return quote(os.path.relpath(file, paths.BUILD / "report").replace(os.sep, "/"))


def _data(kind, content):
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def _is_number(text):
    return bool(re.fullmatch(r"[-+<]?\s?\d*\.?\d+(e[-+]?\d+)?%?( \[.*\])?", text.strip()))
