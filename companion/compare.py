"""Whether a run gave what is stored: every table, title and test, number by number.

A run writes to build/<run>/figures; what the repository holds of it is in figures/<run>. Tables
(csv), titles of figures (the `finding` in their json) and records (claims/NN.json, numbers/NN.json)
count, pictures do not. What the same number is, lib/engine/tolerance.py says. A test is reproduced
if its row is the stored one by that, and both come to the same outcome. What each rests on is
counted too, and a stored measurement whose sample came out otherwise is named.

    ./reproduce.sh compare          says it again of the run mini, without running anything
    ./reproduce.sh compare null     of another run
"""

import csv
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from companion import claims, ledger
from companion.results import LEFT_OUT, Rests, has_records, made_folder, stored_folder
from lib import CompanionError, paths
from lib.engine import tolerance
from lib.engine.files import replace, slug

SHOWN = 20  # departures that are listed; the others are counted
PICTURES = (".png", ".svg")
CHANGED = 3  # exit status: a test has another outcome, or a measurement is not believed


@dataclass(frozen=True)
class Departure:
    """Something that is not what is stored."""

    where: str
    stored: str
    new: str

    def __str__(self):
        return f"{self.where}: {self.stored or 'nothing'} stored, {self.new or 'nothing'} now"


@dataclass
class Count:
    """How many of a kind there are, and how many are as stored."""

    kind: str
    stored: int = 0
    reproduced: int = 0
    rests: Counter = field(default_factory=Counter)  # of the reproduced: results.Rests

    def add(self, is_same: bool, rests: str = ""):
        """Count one that is stored."""
        self.stored += 1
        self.reproduced += is_same
        if is_same and rests:
            self.rests[rests] += 1

    def __str__(self):
        parts = [f"{self.rests[kind]} {kind}" for kind in Rests if self.rests[kind]]
        by_kind = f" ({', '.join(parts)})" if parts else ""
        return f"{self.reproduced} of {self.stored} {self.kind}{by_kind}"


@dataclass
class Comparison:
    """What was found of one run; its text is what a run ends with."""

    run: str
    tables: Count = field(default_factory=lambda: Count("tables"))
    titles: Count = field(default_factory=lambda: Count("titles"))
    tests: Count = field(default_factory=lambda: Count("tests"))
    departures: list[Departure] = field(default_factory=list)
    changed_tests: list[Departure] = field(default_factory=list)
    samples: dict[str, dict] = field(default_factory=dict)  # by stored measurement, as Run.taken
    cut: dict[str, str] = field(default_factory=dict)  # by measurement, as Run.cut
    largest: float = 0.0  # difference of two numbers that agree, as tolerance.size has it
    largest_at: str = ""

    @property
    def status(self) -> int:
        """Exit status: that of a changed outcome or of a measurement not believed, or 0."""
        return CHANGED if self.changed_tests or self.not_believed else 0

    @property
    def not_believed(self) -> list[str]:
        """The stored measurements whose samples came out otherwise here."""
        return [name for name, one in self.samples.items() if not one["agrees"]]

    @property
    def of_samples(self) -> str:
        """How much of the stored measurements was computed again, and which are not believed."""
        checked = [one for one in self.samples.values() if one["sampled"]]
        if not checked and not self.not_believed:
            return ""
        items = sum(one["items"] for one in checked)
        share = sum(one["sampled"] for one in checked) / items if items else 0
        said = f"{len(checked)} stored measurements, {share:.1%} of their items computed again"
        if not self.not_believed:
            return f"{said}: all agree"
        return f"{said}: NOT BELIEVED are {', '.join(self.not_believed)}"

    @property
    def of_sizes(self) -> str:
        """Which measurements were made in a smaller size than the whole, and which were not."""
        left_out = [name for name, how in self.cut.items() if how == LEFT_OUT]
        fewer = [name for name in self.cut if name not in left_out]
        said = {"in the sizes that a CPU can bear": fewer, "left out without a GPU": left_out}
        return "; ".join(f"{how}: {', '.join(names)}" for how, names in said.items() if names)

    @property
    def sentence(self) -> str:
        if not self.tables.stored:
            return f"Nothing is stored of the run {self.run} to compare with."
        is_part = self.changed_tests or self.departures or self.not_believed
        opening = "Reproduced in part" if is_part else "Reproduced"
        at = "no difference"
        if self.largest:
            at = f"largest difference {self.largest:.0e} ({self.largest_at})"
        said = f"{opening}: {self.tables}, {self.titles}, {self.tests}; {at}"
        return "; ".join(filter(None, [said, self.of_samples, self.of_sizes]))

    def __str__(self):
        listed = self.changed_tests + self.departures
        lines = [self.sentence, *(f"  {departure}" for departure in listed[:SHOWN])]
        if len(listed) > SHOWN:
            lines.append(f"  and {len(listed) - SHOWN} more")
        return "\n".join(lines)

    def compare(self, where: str, stored, made, unit: float | None = None) -> bool:
        """Whether two values say the same: texts and numbers, or records of them, however deep.
        Departures and the largest difference are kept.
        """
        if isinstance(stored, dict) and isinstance(made, dict):
            names = dict.fromkeys([*stored, *made])
            pairs = [(f", {name}", stored.get(name, ""), made.get(name, "")) for name in names]
        elif isinstance(stored, list) and isinstance(made, list) and len(stored) == len(made):
            pairs = [("", *both) for both in zip(stored, made, strict=True)]
        else:
            return self._compare_texts(where, stored, made, unit)
        return all([self.compare(where + name, old, new, unit) for name, old, new in pairs])

    def _compare_texts(self, where: str, stored, made, unit: float | None) -> bool:
        if unit is None and not isinstance(stored, str):
            unit = 0.0  # a number of a record is not rounded
        is_same = True
        for found in tolerance.compare(str(stored), str(made), unit):
            if found.is_departure:
                self.departures.append(Departure(where, found.stored, found.new))
                is_same = False
            elif found.size > self.largest:
                self.largest = found.size
                self.largest_at = where
        return is_same


def say(name: str) -> int:
    """Print the comparison of a run that was made here; exit status."""
    made = made_folder(name)
    if name != slug(name) or not has_records(made):
        raise CompanionError(
            f"No notebook of a run {name!r} came to its end here: run ./reproduce.sh first."
        )
    found = folders(name, stored_folder(name), made)
    print(found)
    return found.status


def made_here() -> list[Comparison]:
    """Every run that was made here and is stored, compared: for the report."""
    made = [folder for folder in sorted(paths.BUILD.glob("*/figures")) if has_records(folder)]
    found = [folders(one.parent.name, stored_folder(one.parent.name), one) for one in made]
    return [one for one in found if one.tables.stored]


def run(run, numbers: Iterable[str]) -> Comparison:
    """The comparison of what these notebooks of a run just made."""
    return folders(run.name, run.stored, run.out, set(numbers))


def folders(name: str, stored: Path, made: Path, numbers: set[str] | None = None) -> Comparison:
    """Two folders of results, of the notebooks with these numbers; None: of those in `made`."""
    if numbers is None:
        numbers = {file.name[:2] for file in made.glob("[0-9][0-9]_*")}
    found = Comparison(name)
    if not has_records(stored):  # another model's run, say: there is nothing to depart from
        return found
    for old, new in _both(stored, made, "[0-9][0-9]_*.csv", numbers):
        _compare_tables(found, old, new)
    if any(map(_title, stored.glob("[0-9][0-9]_*.json"))):  # else it is stored without figures
        for old, new in _both(stored, made, "[0-9][0-9]_*.json", numbers):
            _compare_titles(found, old, new)
    for old, new in _both(stored, made, "numbers/[0-9][0-9].json", numbers):
        is_same = found.compare(f"numbers/{old.stem}", _by_place(old), _by_place(new))
        if old.is_file():
            found.tables.add(is_same, _rests(new))
    for _, new in _both(made, made, "measured/[0-9][0-9].json", numbers):
        taken = _json(new)
        found.samples |= taken["measured"]
        found.cut |= taken.get("cut", {})
    _compare_tests(found, _both(stored, made, "claims/[0-9][0-9].json", numbers))
    return found


def _both(stored: Path, made: Path, pattern: str, numbers: set[str]) -> list[tuple[Path, Path]]:
    """(file as stored, as made) of every file that either folder has; one of the two may be
    missing.
    """
    names = set()
    for folder in (stored, made):
        names |= {file.relative_to(folder) for file in folder.glob(pattern)}
    return [(stored / name, made / name) for name in sorted(names) if _number(name) in numbers]


def _number(name: Path) -> str:
    """Which notebook a file is of: 02 of 02_heads.csv, claims/02.json and 02_parts/a.json."""
    return next(part[:2] for part in (name.name, name.parts[0]) if part[:2].isdigit())


def _json(file: Path):
    """What a record holds; nothing where there is none."""
    try:
        return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    except ValueError:
        raise CompanionError(
            f"{file} is damaged: restore it with git, or run its notebook again."
        ) from None


def _title(record: Path) -> str:
    """What a figure says above it; a table has no title."""
    return _json(record).get("finding", "")


def _compare_titles(found: Comparison, old: Path, new: Path):
    is_same = found.compare(f"title of {old.stem}", _title(old), _title(new))
    if _title(old):
        found.titles.add(is_same)


def _by_place(record: Path) -> dict[str, dict]:
    """What stands beside each printed number."""
    rows = {}
    for row in _json(record):
        place = " ".join(row[part] for part in ("paper", "table", "row", "column"))
        rows[place] = {part: row.get(part, "") for part in ("ours", "low", "high", "match")}
    return rows


def _rests(record: Path) -> str:
    """What a notebook's tests, or its numbers beside printed ones, rest on."""
    return _json(record.parents[1] / "measured" / record.name).get("rests", "")


# ---- tables
def _rows(file: Path) -> list[list[str]]:
    if not file.is_file():
        return []
    with open(file, newline="", encoding="utf-8") as stream:
        return list(csv.reader(stream))


def _compare_tables(found: Comparison, old: Path, new: Path):
    """Cell by cell. A column knows how far its numbers are rounded; a text knows it of its own."""
    stored, made = _rows(old), _rows(new)
    shapes = [_shape(rows) for rows in (stored, made)]
    is_same = shapes[0] == shapes[1]
    if not is_same:
        found.departures.append(Departure(old.stem, *shapes))
    else:
        units = _units(stored, made)
        for before, after in zip(stored, made, strict=True):
            for column, (old_cell, new_cell) in enumerate(zip(before, after, strict=True)):
                where = ", ".join(filter(None, [old.stem, _label(before), stored[0][column]]))
                is_number = tolerance.parse(old_cell) is not None
                unit = units[column] if is_number else None
                is_same &= found.compare(where, old_cell, new_cell, unit)
    if old.is_file():
        found.tables.add(is_same, _json(new.with_suffix(".json")).get("rests", ""))


def _shape(rows: list[list[str]]) -> str:
    return f"{len(rows)} rows of {len(rows[0])}" if rows else "no table"


def _units(*tables: list[list[str]]) -> list[float]:
    """For each column one unit of the last place that any of its numbers has: .50 is
    written 0.5.
    """
    units = []
    for column in range(len(tables[0][0]) if tables[0] else 0):
        cells = [tolerance.parse(row[column]) for rows in tables for row in rows]
        places = [cell.unit for cell in cells if cell and cell.unit]
        units.append(min(places, default=0.0))
    return units


def _label(row: list[str]) -> str:
    """What a row is called: the words that it opens with."""
    words = []
    for cell in row[:3]:
        if tolerance.parse(cell) is not None:
            break
        words.append(cell[:40])
    return " ".join(filter(None, words))


# ---- tests
def _compare_tests(found: Comparison, files: list[tuple[Path, Path]]):
    """Test by test, in the order that notebooks keep; then what each rests on."""
    paired = []
    for old, new in files:
        kept = [claims.read(file) if file.is_file() else [] for file in (old, new)]
        if len(kept[0]) == len(kept[1]):
            paired += [(*both, new) for both in zip(*kept, strict=True)]
            continue
        found.tests.stored += len(kept[0])
        departure = Departure(f"claims/{old.stem}", f"{len(kept[0])} tests", f"{len(kept[1])}")
        is_new = not kept[0]  # a notebook of which nothing is stored changes no test
        (found.departures if is_new else found.changed_tests).append(departure)
    before = _outcomes(found.run, [stored for stored, _, _ in paired])
    after = _outcomes(found.run, [made for _, made, _ in paired])
    for (stored, made, file), was, now in zip(paired, before, after, strict=True):
        where = " ".join(filter(None, (stored.claim, stored.model, stored.bias, stored.variant)))
        is_same = was == now
        if is_same:
            is_same = found.compare(where, asdict(stored), asdict(made))
        else:
            found.changed_tests.append(Departure(where, was, now))
        found.tests.add(is_same, _rests(file))


def _outcomes(run: str, tests: list[claims.Test]) -> list[str]:
    """What tests come to, held against the stored control models."""
    judged = ledger.of_tests(tests, run) if tests else {"claim": [], "outcome": []}
    return [" ".join(both) for both in zip(judged["claim"], judged["outcome"], strict=True)]


# ---- storing
def store(run, numbers: set[str], pictures: bool = True) -> int:
    """Put what these notebooks of a run made where the repository keeps it; how many files changed.

    A table or record that agrees with the stored one stays as it is, so that another machine's last
    digits make no history. What a notebook no longer makes is removed, but for the folders of parts
    (05_glue): these are made over days, and a notebook shows what there is.

    pictures   False: of those that are stored, none is replaced
    """
    changed = 0
    parts = "[0-9][0-9]_*/*.json"
    records = [f"{folder}/[0-9][0-9].json" for folder in ("claims", "numbers", "measured")]
    for pattern in ("[0-9][0-9]_*.*", *records, parts):
        for old, new in _both(run.stored, run.out, pattern, numbers):
            if old.suffix in PICTURES and old.is_file() and new.is_file() and not pictures:
                continue
            if not new.is_file():
                if pattern == parts:
                    continue
                old.unlink()
            elif old.is_file() and (old.read_bytes() == new.read_bytes() or _agree(old, new)):
                continue
            else:
                replace(old, new.read_bytes())
            changed += 1
    return changed


def _agree(old: Path, new: Path) -> bool:
    """Whether a table or a record says what the stored one does; of a picture nobody can tell."""
    if old.suffix in PICTURES:
        return False
    found = Comparison("")
    if old.suffix == ".csv":
        _compare_tables(found, old, new)
    else:
        found.compare("", _json(old), _json(new))
    return not found.departures
