"""By how much two folders of results differ: every array, table, record and weight.

python -m benchmarks.same build/one build/other
"""

import argparse
import csv
import json
import math
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

SUFFIXES = (".npz", ".json", ".csv", ".safetensors")


def difference(one: Path, other: Path) -> float:
    """The largest difference of a number; inf where anything else differs: files, names, shapes,
    words, or what is nan in one alone.
    """
    files = _results(one)
    if not files:
        raise ValueError(f"{one} has no results.")
    if files != _results(other):
        raise ValueError(f"Other files: {files}, {_results(other)}.")
    return max(of_files(one / file, other / file) for file in files)


def of_files(one: Path, other: Path) -> float:
    """`difference` of two files of one kind."""
    if one.suffix == ".json":
        return of_values(*(json.loads(file.read_text()) for file in (one, other)))
    if one.suffix == ".csv":
        return of_values(*(_cells(file) for file in (one, other)))
    if one.suffix == ".safetensors":
        return of_values(load_file(one), load_file(other))
    with np.load(one, allow_pickle=False) as first, np.load(other, allow_pickle=False) as second:
        return of_values(dict(first), dict(second))


def of_values(one, other) -> float:
    """`difference` of two records, however deep."""
    if isinstance(one, dict) and isinstance(other, dict):
        if one.keys() != other.keys():
            return math.inf
        return max((of_values(one[key], other[key]) for key in one), default=0.0)
    if isinstance(one, list) and isinstance(other, list):
        if len(one) != len(other):
            return math.inf
        return max((of_values(*pair) for pair in zip(one, other)), default=0.0)
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return _of_arrays(one, other)
    if _is_number(one) and _is_number(other):
        return _of_arrays(np.array(one), np.array(other))
    return 0.0 if one == other else math.inf


def _of_arrays(one: np.ndarray, other: np.ndarray) -> float:
    if one.shape != other.shape or one.dtype.kind not in "fiub":
        return 0.0 if np.array_equal(one, other) else math.inf
    first, second = one.astype(float), other.astype(float)
    same = (first == second) | (np.isnan(first) & np.isnan(second))
    apart = np.abs(first[~same] - second[~same])
    if np.isnan(apart).any():
        return math.inf
    return float(apart.max(initial=0.0))


def _is_number(value) -> bool:
    return isinstance(value, (int, float))


def _cells(file: Path) -> list[list]:
    """A table's cells, those that are numbers as numbers."""
    with open(file, newline="", encoding="utf-8") as lines:
        return [[_as_number(cell) for cell in row] for row in csv.reader(lines)]


def _as_number(cell: str) -> float | str:
    try:
        return float(cell)
    except ValueError:
        return cell


def _results(folder: Path) -> list[Path]:
    """The files of results, without those of a measurement that is not done."""
    found = []
    for file in folder.rglob("*"):
        if file.suffix in SUFFIXES and ".part" not in file.name:
            found.append(file.relative_to(folder))
    return sorted(found)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.same")
    parser.add_argument("folders", nargs=2, type=Path)
    print(difference(*parser.parse_args().folders))
