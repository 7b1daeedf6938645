"""Files that are written whole or not at all, and identified by their content.

files.replace(path, content)            # a reader sees the old file or the new one, never a part
with files.new_folder(path) as folder:  # the same for a folder
files.fingerprint(file, folder, ...)    # changes when any content or name does
"""

import contextlib
import errno
import hashlib
import io
import os
import re
import shlex
import shutil
import tomllib
from pathlib import Path

from lib import CompanionError, paths


def replace(path: Path, content: bytes):
    """Write a file under a temporary name, then rename it; folders are made where needed."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with room_for(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            temporary.write_bytes(content)
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


def save_arrays(path: Path, **arrays):
    """Write arrays into one compressed .npz file, whole or not at all."""
    import numpy as np  # here, since workflow/Snakefile uses this module where numpy is missing

    content = io.BytesIO()
    np.savez_compressed(content, **arrays)
    replace(Path(path), content.getvalue())


@contextlib.contextmanager
def new_folder(path: Path):
    """Yield an empty folder that takes the place of `path` when the block ends without an error.

    Until then `path` keeps what it held. The new folder's name has the process's number, since
    another process may be writing the same folder; the last one to end is kept.
    """
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    with room_for(path):
        try:
            partial.mkdir(parents=True)
            yield partial
            shutil.rmtree(path, ignore_errors=True)
            partial.rename(path)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


@contextlib.contextmanager
def room_for(path: Path):
    """Turn the error of a full disk inside the block into one sentence for the user."""
    try:
        yield
    except OSError as error:
        if not is_full(error):
            raise
        raise CompanionError(
            f"The disk is full, {path} could not be written: free some space and run again."
        ) from None


def is_full(error: BaseException | None) -> bool:
    """Whether an error, or one of its causes, is that of a full disk or an exhausted quota."""
    while error is not None:
        for number in (errno.ENOSPC, errno.EDQUOT):
            # hf_xet, which fetches large files from the hub, raises a RuntimeError that has the
            # number in its message alone
            if getattr(error, "errno", None) == number or f"(os error {number})" in str(error):
                return True
        error = error.__cause__
    return False


def read_text(path: Path) -> str:
    """The text of a file that comes with the repository.

    If it is missing or damaged, the message says how to restore it from git.
    """
    try:
        return path.read_text(encoding="utf-8-sig")  # Excel puts a mark before the first letter
    except FileNotFoundError:
        raise to_restore(path, "is not there") from None
    except (OSError, UnicodeDecodeError):
        raise to_restore(path, "is damaged") from None


def to_restore(path: Path, why: str) -> CompanionError:
    """What is said of a file of the repository that is missing or damaged."""
    return CompanionError(f"{path} {why}: restore it with `git checkout {_from_root(path)}`.")


def read_toml(path: Path) -> dict:
    """The content of a TOML file that comes with the repository, as `read_text`."""
    try:
        return tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise CompanionError(
            f"{path} is not TOML ({error}): mend it, or restore it with "
            f"`git checkout {_from_root(path)}`."
        ) from None


def _from_root(path: Path) -> str:
    """A path relative to the repository, if it lies in it, as a shell takes it for one word."""
    if path.is_relative_to(paths.ROOT):
        path = path.relative_to(paths.ROOT)
    return shlex.quote(str(path))


TRIAL = 4_000_000  # bytes that a folder has to have room for


def check_writable(folder: Path, variable: str = ""):
    """Refuse a folder that cannot be written; `variable` of the environment can name another."""
    trial = folder / ".try"
    try:
        replace(trial, bytes(TRIAL))  # a full disk takes an empty file
        trial.unlink(missing_ok=True)  # another process may try it too
    except OSError as error:
        other = f", or set {variable} to another" if variable else ""
        raise CompanionError(
            f"{folder} cannot be written ({error.strerror}): make it a folder that can{other}."
        ) from None


def sha256(file: Path) -> bytes:
    """The SHA-256 hash of a file's content, 32 bytes."""
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").digest()


def fingerprint(*places: Path) -> str:
    """A short hash of the contents and names of files, and of all files in folders."""
    listed = []
    for place in places:
        listed.append(place)
        listed.extend(place.rglob("*"))
    content = hashlib.sha256()
    for file in sorted(listed):
        if file.is_file() and "__pycache__" not in file.parts:
            content.update(file.name.encode())
            content.update(sha256(file))
    return content.hexdigest()[:16]


def first_line(error: BaseException) -> str:
    """The first line of what an error says, to be quoted inside a sentence."""
    lines = str(error).splitlines()
    return lines[0] if lines else type(error).__name__


def slug(name: str) -> str:
    """A model's name as part of a folder's: org/name_v2 is org-name_v2."""
    return re.sub(r"[^\w.-]+", "-", name).strip("-.")
