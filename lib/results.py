"""Where the results of runs are, stored in the repository or made here, and how measurements are
kept.

figures/<run>/            what the repository stores of a run; --store alone writes there
build/<run>/figures/      what a run made here
.../NN_name.csv, .png     a table or a figure of notebook NN, with NN_name.json beside it
.../claims/NN.json        its verdicts;  numbers/NN.json  its numbers beside the printed ones
.../measured/             heavy measurements, made without notebooks (lib/publish/measure.py)
"""

import dataclasses
import io
import json
import shutil
from pathlib import Path

import numpy as np

from lib import CompanionError, paths
from lib.engine.files import new_folder, replace, slug
from lib.profiles import LIMITED

RESERVED = ("plain", "made_from")  # what a measurement's file has beside its arrays, as JSON
FILES = "[0-9][0-9]_*.*"  # tables and figures of a run's folder
RECORDS = ("claims/*.json", "numbers/*.json")


# ---- folders
def stored_folder(run: str) -> Path:
    """Where the repository keeps a run: another draw of untrained networks, null@3, with
    the first.
    """
    name, at, rest = run.partition("@")
    if not at:
        return paths.FIGURES / name
    draw, dash, data = rest.partition("-")
    return paths.FIGURES / f"{name}{dash}{data}" / "draws" / draw


def made_folder(run: str) -> Path:
    """Where a run writes."""
    return paths.BUILD / run / "figures"


def has_records(folder: Path) -> bool:
    """Whether a notebook of a run came to its end: notebooks end in records."""
    return any(file for pattern in RECORDS for file in folder.glob(pattern))


def runs() -> dict[str, Path]:
    """{run: its folder}, of all that are stored."""
    folders = sorted(paths.FIGURES.glob("*"))
    return {folder.name: folder for folder in folders if has_records(folder)}


def runs_made() -> dict[str, Path]:
    """{run: its folder}, of all that were made here, without tries and other draws of controls."""
    made = {}
    for folder in sorted(paths.BUILD.glob("*/figures")):
        name = folder.parent.name
        if has_records(folder) and not LIMITED.fullmatch(name) and "@" not in name:
            made[name] = folder
    return made


def runs_shown() -> dict[str, Path]:
    """{run: folder} for the report: of each notebook what was made here, else what is stored."""
    folders = runs()
    for name, folder in runs_made().items():
        folders[name] = shown(name, folder)
    return dict(sorted(folders.items()))


def shown(run: str, made: Path) -> Path:
    """A folder with all results of a run: of each notebook what was made here, else what
    is stored.
    """
    stored = stored_folder(run)
    here = {file.name[:2] for file in made.glob(FILES)}
    if not here:
        return stored
    folder = paths.BUILD / run / "shown"
    with new_folder(folder) as merged:
        for pattern in (FILES, *RECORDS):
            for file in stored.glob(pattern):
                if file.name[:2] not in here:
                    _copy(file, stored, merged)
            for file in made.glob(pattern):
                _copy(file, made, merged)
        for file in stored.glob("draws/*/claims/*.json"):  # of untrained networks: never made anew
            _copy(file, stored, merged)
    return folder


def _copy(file: Path, source: Path, target: Path):
    """A file of one folder to its place in another."""
    place = target / file.relative_to(source)
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, place)


# ---- measurements that are kept
def place(folder: Path, function, args) -> Path:
    """The file of a measurement in a folder, named by the function and the names among its
    arguments.
    """
    names = [_name(function)]
    for arg in args:
        if isinstance(arg, str):
            names.append(arg)
        elif dataclasses.is_dataclass(arg) and hasattr(arg, "source"):
            names.append(arg.source)
    return folder / f"{slug('_'.join(names))}.npz"


def question(function, args, weights: dict[str, str]) -> dict:
    """What has to agree for a stored measurement to be taken, as JSON has it: tuples
    become lists.
    """
    asked = {"function": _name(function), "arguments": args, "weights": weights}
    return json.loads(json.dumps(asked, default=dataclasses.asdict))


def _name(function) -> str:
    """heads.measure: by the module alone, so that a result outlives a move to another folder."""
    return f"{function.__module__.split('.')[-1]}.{function.__name__}"


def write(file: Path, result: dict, made_from: dict):
    """Keep a dict of arrays and plain values, with what it was made from; opening it runs
    no code.
    """
    arrays = {}
    plain = {}
    for name, value in result.items():
        (arrays if isinstance(value, np.ndarray) else plain)[name] = value
    content = io.BytesIO()
    np.savez_compressed(content, **arrays, plain=json.dumps(plain), made_from=json.dumps(made_from))
    replace(file, content.getvalue())


def read(file: Path) -> tuple[dict, dict]:
    """A stored measurement, and what it was made from."""
    try:
        with np.load(file, allow_pickle=False) as kept:
            result = {name: kept[name] for name in kept.files if name not in RESERVED}
            plain = json.loads(str(kept["plain"]))
            made_from = json.loads(str(kept["made_from"]))
    except (OSError, ValueError, KeyError, EOFError) as error:
        raise CompanionError(
            f"{file} is not a stored result, or damaged: restore it with git, or delete it to "
            "compute it here."
        ) from error
    return result | plain, made_from
