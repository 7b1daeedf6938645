"""Why a result is stale: what it was made from, component by component.

A result depends on code, data, models and versions. Each of these is a component with a hash, so
that a changed one can be named:

    before = {"companion/look.py": "3f2a90c1", "mini-bert": "sha256:3fd6d25a"}
    stale.reasons(before, now)          # ["companion/look.py changed"]

One rule for all: executed notebooks, Run.cached, stored measurements and the Snakefile. Code is
hashed without comments and docstrings, so that saying it better makes nothing stale.

A stored result names its data by one hash. data/fingerprints.json has the files behind each such
hash, so that a file that was added later changes nothing that was said before. After a change of
data/lists, data/demo or data/sources.toml, add today's files:

    python -m companion.stale
"""

import ast
import hashlib
import inspect
import io
import json
import threading
import tokenize
import tomllib
from functools import cache
from pathlib import Path

import lib
from lib import CompanionError, paths
from lib.engine.files import fingerprint, replace

# two notebooks start at once, and Python 3.11 cannot parse in two threads
PARSING = threading.Lock()


def reasons(before: dict[str, str], now: dict[str, str]) -> list[str]:
    """What differs, in words: "lib/paths.py changed", "data/demo is new", "mini-bert is gone"."""
    found = []
    for name in sorted(before.keys() | now.keys()):
        if name not in before:
            found.append(f"{name} is new")
        elif name not in now:
            found.append(f"{name} is gone")
        elif before[name] != now[name]:
            found.append(f"{name} changed")
    return found


def places(*given: Path) -> dict[str, str]:
    """The hash of each file or folder, all that lies in it included, by its path in the
    repository.
    """
    return {_named(place): fingerprint(place) for place in given}


def code(text: str) -> dict[str, str]:
    """The hashes of all modules of lib that some code imports, however deep."""
    files = sorted(modules(text))
    return {_named(file): code_hash(file.read_text(encoding="utf-8")) for file in files}


def inputs(text: str) -> dict[str, str]:
    """What the results of some code depend on besides models and parameters: the modules of lib
    that it imports, data, word lists, printed numbers, profiles and versions of packages.
    """
    files = places(
        paths.ROOT / "requirements" / "base.txt",
        paths.ROOT / "requirements" / "constraints.txt",
        paths.LISTS,
        paths.DEMO,
        paths.PAPER,
        paths.SOURCES,
        paths.REGISTRY,
        paths.PROFILES,
    )
    return code(text) | files


def notebook(file: Path) -> dict[str, str]:
    """`inputs` of a notebook's code cells, and a hash of the cells: for the Snakefile."""
    cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    text = "\n".join(sources)
    return {"its cells": code_hash(text)} | inputs(text)


def module(file: Path) -> dict[str, str]:
    """The hashes of a module and of all modules of lib that it imports."""
    text = file.read_text(encoding="utf-8")
    return {_named(file): code_hash(text)} | code(text)


def of_function(function) -> str:
    """One hash of a function's module and all that it imports."""
    if "<" in function.__qualname__ or not Path(inspect.getsourcefile(function)).is_file():
        raise CompanionError(
            f"{function.__qualname__} stands in no module of lib, so that nothing says when its "
            "result is stale: give it a name there."
        )
    return summary(module(Path(inspect.getsourcefile(function))))


def summary(components: dict[str, str]) -> str:
    """One hash for all of them."""
    listed = "\n".join(f"{name} {value}" for name, value in sorted(components.items()))
    return hashlib.sha256(listed.encode()).hexdigest()[:16]


def _named(place: Path) -> str:
    if place.is_relative_to(paths.ROOT):
        return place.relative_to(paths.ROOT).as_posix()
    return str(place)


# ---- data
def data_hash() -> str:
    """What identifies the data: the bundled files, and sources.toml, which has every
    other's hash.
    """
    return fingerprint(paths.LISTS, paths.DEMO, paths.SOURCES)


def data_files() -> dict[str, str]:
    """The hash of each word list, each file of sentences, and each source by its name.

    A source is what it serves: hashes of its files, or a revision of the hub. A better note on it,
    or a further notebook that uses it, does not change it.
    """
    files = {}
    for folder in (paths.LISTS, paths.DEMO):
        for file in sorted(folder.iterdir()):
            files[f"{folder.name}/{file.name}"] = fingerprint(file)
    for name, entry in tomllib.loads(paths.SOURCES.read_text(encoding="utf-8")).items():
        served = []
        for file in entry.get("files", []):
            served.append((file["name"], file.get("sha256", "")))
        hub = [entry.get(field) for field in ("hub", "configs", "revision")]
        content = json.dumps([served, hub])
        files[name] = hashlib.sha256(content.encode()).hexdigest()[:16]
    return files


def data_changed(before: str, data: str) -> bool:
    """Whether a file that a result could be made from has changed: not where files were added.

    before   the data_hash that the result was made with
    data     the data set: "mini" is the bundled files, "paper" the sources too
    """
    if before == data_hash():
        return False
    known = json.loads(paths.FINGERPRINTS.read_text(encoding="utf-8"))
    if before not in known:
        return True
    now = data_files()
    for name, value in known[before].items():
        is_bundled = "/" in name
        if (is_bundled or data == "paper") and now.get(name) != value:
            return True
    return False


def keep_data_files():
    """Add today's data files to data/fingerprints.json."""
    known = {}
    if paths.FINGERPRINTS.is_file():
        known = json.loads(paths.FINGERPRINTS.read_text(encoding="utf-8"))
    known[data_hash()] = data_files()
    replace(paths.FINGERPRINTS, (json.dumps(known, indent=1) + "\n").encode())


# ---- code
@cache
def code_hash(text: str) -> str:
    """A hash of code without its comments, docstrings and blank lines."""
    kept = _without_comments(text)
    documented = _docstring_lines(text)
    lines = []
    for number, line in enumerate(kept.splitlines(), start=1):
        if line.strip() and number not in documented:
            lines.append(line.rstrip())
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _without_comments(text: str) -> str:
    lines = text.splitlines()
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                row, column = token.start
                lines[row - 1] = lines[row - 1][:column]
    except (tokenize.TokenError, IndentationError):  # no Python: hashed as it is
        return text
    return "\n".join(lines)


def _docstring_lines(text: str) -> set[int]:
    """The numbers (from 1) of the lines that docstrings and the like take."""
    lines = set()
    for node in ast.walk(parsed(text)):
        body = getattr(node, "body", None)
        if not isinstance(body, list) or not body or not isinstance(body[0], ast.Expr):
            continue
        first = body[0]
        if isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
            lines |= set(range(first.lineno, first.end_lineno + 1))
    return lines


@cache
def parsed(text: str) -> ast.AST:
    """Code as a tree. A notebook's may have magics (%matplotlib inline), which IPython translates;
    what is no Python even so is an empty module: running it will say what is wrong."""
    with PARSING:
        try:
            return ast.parse(text)
        except SyntaxError:
            pass
        from IPython.core.inputtransformer2 import TransformerManager  # slow, and seldom needed

        try:
            return ast.parse(TransformerManager().transform_cell(text))
        except SyntaxError:
            return ast.Module([], [])


def modules(text: str) -> set[Path]:
    """The files of lib that some code imports, however deep."""
    found = set()
    waiting = [text]
    while waiting:
        for file in _imported(waiting.pop()):
            if file not in found and file.is_file():
                found.add(file)
                waiting.append(file.read_text(encoding="utf-8"))
    return found


def _imported(text: str) -> set[Path]:
    """Where the modules of lib that this code imports, anywhere in it, would lie."""
    files = set()
    for name in _imported_names(text):
        parts = name.split(".")
        if parts[0] not in ("lib", "companion", "training"):
            continue
        # lib.engine.hooks.project is in lib/engine/hooks.py, and lib/engine/__init__.py is read
        # first
        for depth in range(1, len(parts) + 1):
            place = paths.ROOT.joinpath(*parts[:depth])
            files |= {place.with_suffix(".py"), place / "__init__.py"}
    return files


def _imported_names(text: str) -> list[str]:
    """lib.engine.hooks.project of `from lib.engine.hooks import project`, and so on."""
    names = []
    for node in ast.walk(parsed(text)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                # `from lib import load` is lib.engine.models.load
                home = lib.HOMES.get(alias.name) if node.module == "lib" else None
                names.append(f"{home or node.module}.{alias.name}")
    return names


if __name__ == "__main__":
    keep_data_files()
