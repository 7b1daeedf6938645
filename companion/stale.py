"""Why a result is stale: what it was made from, by name, each with a hash.

    stale.reasons(before, now)          # ["lib/engine/hooks.py changed", "mini-bert is gone"]

An executed notebook is stale where any file of lib, companion or data that could matter is another
than when it ran (`inputs`). A measurement that was kept here is stale where the code of the engine,
of words or of its own paper is another (`of_function`). Comments and docstrings do not count.
"""

import ast
import hashlib
import inspect
import threading
from functools import cache
from pathlib import Path

from lib import CompanionError, paths
from lib.engine.files import fingerprint

# two notebooks start at once, and Python 3.11 cannot parse in two threads
PARSING = threading.Lock()


def reasons(before: dict[str, str], now: dict[str, str]) -> list[str]:
    """What differs, in words: "lib/paths.py changed", "data/demo/nli.csv is new"."""
    found = []
    for name in sorted(before.keys() | now.keys()):
        if name not in before:
            found.append(f"{name} is new")
        elif name not in now:
            found.append(f"{name} is gone")
        elif before[name] != now[name]:
            found.append(f"{name} changed")
    return found


@cache  # for a run: what is edited meanwhile makes stale what runs meanwhile
def inputs() -> dict[str, str]:
    """The hash of every file that any notebook may depend on, by its path in the repository."""
    root = paths.ROOT
    code = [*root.glob("lib/**/*.py"), *root.glob("companion/**/*.py")]
    lists = [*paths.LISTS.glob("*"), *paths.DEMO.glob("*"), *paths.PAPER.glob("*")]
    tables = [paths.CLAIMS, paths.SOURCES, paths.REGISTRY, *paths.PROFILES.glob("*.toml")]
    packages = root.glob("requirements/*")
    return hashes(*code, *lists, *tables, *packages)


def hashes(*files: Path) -> dict[str, str]:
    """The hash of each file, by its path in the repository."""
    found = {}
    for file in files:
        is_ours = file.is_relative_to(paths.ROOT)
        name = file.relative_to(paths.ROOT).as_posix() if is_ours else str(file)
        is_code = file.suffix == ".py"
        found[name] = code_hash(file.read_text("utf-8")) if is_code else fingerprint(file)
    return found


def of_function(function) -> str:
    """One hash of the code behind a function of lib: the engine, words and its own folder. Of one
    of companion: lib, and its own folder.
    """
    file = Path(inspect.getsourcefile(function) or "")
    if "<" in function.__qualname__ or not file.is_file():
        raise CompanionError(
            f"{function.__qualname__} stands in no module of lib, so that nothing says when its "
            "result is stale: give it a name there."
        )
    return _of_folders(paths.ROOT / "lib", file.parent)


@cache
def _of_folders(lib: Path, own: Path) -> str:
    is_of_a_paper = lib in own.parents
    folders = [lib / "engine", lib / "text", own] if is_of_a_paper else [lib, own]
    content = hashlib.sha256()
    for folder in folders:
        for file in sorted(folder.rglob("*.py")):
            content.update(code_hash(file.read_text("utf-8")).encode())
    return content.hexdigest()[:16]


@cache
def code_hash(text: str) -> str:
    """A hash of code without its comments, docstrings and layout."""
    with PARSING:
        tree = ast.parse(text)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        first = body[0] if isinstance(body, list) and body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            del body[0]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()[:16]


def data_hash() -> str:
    """What identifies the data: the bundled files, and sources.toml, which has every
    other's hash.
    """
    return fingerprint(paths.LISTS, paths.DEMO, paths.SOURCES)
