"""What a run stored under figures/: figures and tables, each with the provenance that Run.save wrote beside it."""

import base64
import csv
import html
import io
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from lib import CompanionError, paths


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
    def finding(self):
        """What the title of a figure says: its drawing has each line as a comment, before letters of 12 points."""
        drawing = self.file.with_suffix(".svg")
        text = drawing.read_text(encoding="utf-8") if drawing.is_file() else ""
        found = re.findall(r"<!-- ((?:(?!-->).)*) -->\s*<g [^>]*scale\(0\.12 ", text, flags=re.DOTALL)
        return html.unescape(" ".join(found))

    @property
    def words(self):
        """For those who do not see the figure."""
        return f"{self.finding}. {self.caption}" if self.finding else self.caption

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
        return [(file.suffix[1:], address(file)) for file in kinds if file.is_file()]

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


def _made(file):
    """The provenance in a json file; none where there is no file."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError:
        raise CompanionError(f"{file.parent.name}/{file.name} is not JSON any more: make it again with "
                             f"`./reproduce.sh --only {file.name[:2]} --recompute`.") from None


def address(file):
    """Seen from the page."""
    return quote(os.path.relpath(file, paths.BUILD / "report").replace(os.sep, "/"))


def _data(kind, content):
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"
