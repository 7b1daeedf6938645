"""Results of heavy measurements, kept in figures/<run>/measured and shown as stored: written by lib/publish/measure.py.

A result is a dict of arrays and plain values. It is kept as one .npz file without pickles, which opening cannot make
run code, with what it was made from: function, arguments, weights, command, device, precision, versions.
"""

import io
import json
import re
from pathlib import Path

import numpy as np

from lib import CompanionError, paths

RESERVED = "plain", "made_from"  # what is kept in the file beside the arrays, as JSON


def place(run: str, function, args) -> Path:
    """The file of a function's result: named by the run, the function and the names among its arguments."""
    names = [_name(function), *(arg for arg in args if isinstance(arg, str))]
    return paths.FIGURES / run / "measured" / (re.sub(r"[^\w.-]+", "-", "_".join(names)) + ".npz")


def question(function, args, weights: dict[str, str]) -> dict:
    """What must agree for a stored result to be taken: JSON has lists alone, so tuples become lists."""
    return json.loads(json.dumps({"function": _name(function), "arguments": args, "weights": weights}))


def _name(function) -> str:
    """heads.measure: by the module alone, so that a stored result outlives a move of the module to another folder."""
    return f"{function.__module__.split('.')[-1]}.{function.__name__}"


def write(file: Path, result: dict, made_from: dict):
    """Keep a result, whole or not at all."""
    from lib.publish.run import replace

    if taken := result.keys() & set(RESERVED):
        raise CompanionError(f"A result may not have the key {taken.pop()}, which the file itself uses: rename it.")
    arrays = {name: value for name, value in result.items() if isinstance(value, np.ndarray)}
    plain = {name: value for name, value in result.items() if name not in arrays}
    content = io.BytesIO()
    np.savez_compressed(content, **arrays, plain=json.dumps(plain), made_from=json.dumps(made_from))
    replace(file, content.getvalue())


def read(file: Path) -> tuple[dict, dict]:
    """A result and what it was made from."""
    try:
        with np.load(file, allow_pickle=False) as kept:
            plain, made_from = (json.loads(str(kept[name])) for name in RESERVED)
            return {name: kept[name] for name in kept.files if name not in RESERVED} | plain, made_from
    except (OSError, ValueError, KeyError, EOFError) as error:
        raise CompanionError(f"{file} is not a stored result, or damaged: restore it with git, or delete it to "
                             "compute it here.") from error
