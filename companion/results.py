"""Where the results of runs are, stored in the repository or made here, and how measurements are
kept.

figures/<run>/            what the repository stores of a run; --store alone writes there
build/<run>/figures/      what a run made here
.../NN_name.csv, .png     a table or a figure of notebook NN, with NN_name.json beside it
.../claims/NN.json        its tests;  numbers/NN.json  its numbers beside the printed ones
.../measured/NN.json      the stored measurements behind it, and what their samples came to
.../measured/*.npz        heavy measurements, made without notebooks (companion/measure.py)
"""

import dataclasses
import hashlib
import inspect
import io
import json
import shutil
import zipfile
import zlib
from enum import StrEnum
from pathlib import Path

import numpy as np

from companion.profiles import LIMITED
from lib import CompanionError, paths
from lib.engine import tolerance
from lib.engine.files import new_folder, replace, slug

RESERVED = ("plain", "made_from", "sha256")  # what a file has beside its arrays
FILES = "[0-9][0-9]_*.*"  # tables and figures of a run's folder
LEFT_OUT = "left out"  # what smaller() says of a measurement that is not made at all
RECORDS = ("claims/*.json", "numbers/*.json")


class Rests(StrEnum):
    """What a result rests on: how much of it a run has seen for itself."""

    COMPUTED = "computed here"
    STORED = "from stored measurements whose samples agree"
    UNCHECKED = "from stored fine-tunings that were not checked"
    ASSEMBLED = "assembled from other results"
    NO_MODEL = "without a model"


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
    names = [name_of(function)]
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
    asked = {"function": name_of(function), "arguments": args, "weights": weights}
    return json.loads(json.dumps(asked, default=dataclasses.asdict))


def name_of(function) -> str:
    """heads.measure: by the module alone, so that a result outlives a move to another folder."""
    return f"{function.__module__.split('.')[-1]}.{function.__name__}"


def smaller(function, args, quick) -> str:
    """What some arguments take less of than others: steps 33 in place of 176, lines 12 in place of
    all; in sizes 0 is all.
    """
    less = []
    for name, whole, part in zip(inspect.signature(function).parameters, args, quick, strict=False):
        of_whole, of_part = ({name: one} for one in (whole, part))
        if dataclasses.is_dataclass(whole):
            of_whole, of_part = vars(whole), vars(part)
        for size, one in of_whole.items():
            if of_part[size] != one:
                amounts = [len(it) if isinstance(it, list) else it for it in (of_part[size], one)]
                less.append("{} {} in place of {}".format(size, *(n or "all" for n in amounts)))
    return ", ".join(less)


def write(file: Path, result: dict, made_from: dict):
    """Keep a dict of arrays and plain values, with what it was made from and a hash of all of it;
    opening it runs no code.
    """
    arrays = {}
    plain = {}
    for name, value in result.items():
        (arrays if isinstance(value, np.ndarray) else plain)[name] = value
    content = io.BytesIO()
    texts = {"plain": json.dumps(plain), "made_from": json.dumps(made_from)}
    np.savez_compressed(content, **arrays, **texts, sha256=_hash(arrays, **texts))
    replace(file, content.getvalue())


def read(file: Path) -> tuple[dict, dict]:
    """A stored measurement, and what it was made from; refused if it is not what was written."""
    try:
        with np.load(file, allow_pickle=False) as kept:
            arrays = {name: kept[name] for name in kept.files if name not in RESERVED}
            texts = {name: str(kept[name]) for name in ("plain", "made_from")}
            is_whole = str(kept["sha256"]) == _hash(arrays, **texts)
        plain, made_from = map(json.loads, texts.values())
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error):
        is_whole = False
    if not is_whole:
        raise CompanionError(
            f"{file} is not a stored result, or damaged: restore it with git, or delete it to "
            "compute it here."
        )
    return arrays | plain, made_from


def _hash(arrays: dict[str, np.ndarray], plain: str, made_from: str) -> str:
    found = hashlib.sha256(f"{plain}\n{made_from}".encode())
    for name, array in sorted(arrays.items()):
        found.update(f"{name} {array.dtype} {array.shape}".encode())
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def differing(stored: dict, again: dict) -> list[str]:
    """The parts of a stored result that are not what was computed again; what was not is nan."""
    found = []
    compared = 0
    for name, value in again.items():
        new, old = np.asarray(value, dtype=float), np.asarray(stored.get(name), dtype=float)
        there = ~np.isnan(new)
        compared += there.sum()
        if old.shape != new.shape or not _agree(old[there], new[there]):
            found.append(name)
    return found if compared else ["nothing, since nothing was computed"]


def _agree(old: np.ndarray, new: np.ndarray) -> bool:
    """Whether all are the same numbers, by the one tolerance; nan agrees with none.

    Rounding grows with what was added up: where numbers are large, so is what is next to nothing.
    """
    size = np.abs(old).mean() if old.size else 0.0
    allowed = tolerance.ABSOLUTE * max(1.0, size) + tolerance.RELATIVE * np.abs(old)
    return bool((np.abs(old - new) <= allowed).all())


def about(made_from: dict) -> dict:
    """What a table says of a measurement behind it; of a long argument, such as a plan of masks,
    how much there is of it.
    """
    arguments = []
    for given in made_from["question"]["arguments"]:
        arguments.append(f"{len(given)} items" if isinstance(given, list) else given)
    known = ("command", "device", "precision", "versions")
    return {"arguments": arguments} | {name: made_from[name] for name in known}


def said_of(file: Path, made_from: dict, sample: dict | None = None) -> str:
    """One line on a measurement that answered, or did not."""
    on = made_from["device"], made_from["precision"], f"torch {made_from['versions']['torch']}"
    made = ", ".join([file.name, *on])
    if sample is None:
        return f"{made}: measured here by {made_from['command']}"
    again = f"{sample['sampled']} of {sample['items']} items computed again here"
    if sample["agrees"]:
        return f"{made}: stored; {again}: agree"
    return f"NOT BELIEVED: {made}: {again} differ in {', '.join(sample['differs'])}"
