"""Files: written whole or not at all, and identified by what they hold.

files.replace(path, content)            # whoever reads meanwhile sees the old file, or the new one
with files.new_folder(path) as folder:  # the same for a folder
files.fingerprint(file, folder, ...)    # changes when any content or name does"""

import contextlib
import errno
import hashlib
import io
import os
import re
import shutil
import tomllib
from pathlib import Path

from lib import CompanionError, paths


def replace(path: Path, content: bytes):
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with room_for(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            temporary.write_bytes(content)
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


def save_arrays(path: Path, **arrays):
    """Compressed into one .npz file, whole or not at all."""
    import numpy as np  # here, so that a Snakefile can use this module without it

    content = io.BytesIO()
    np.savez_compressed(content, **arrays)
    replace(Path(path), content.getvalue())


@contextlib.contextmanager
def new_folder(path: Path):
    """Yield an empty folder that takes the place of `path` when the block ends well; what it held is kept till then.
    Its name has the process's number: another process may be making the same, and the last one to end is kept."""
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
    """Says in one sentence that the disk is full."""
    try:
        yield
    except OSError as error:
        if not is_full(error):
            raise
        raise CompanionError(
            f"The disk is full, {path} could not be written: free some space and run again."
        ) from None


def is_full(error) -> bool:
    """Whether an error, or one that it was raised from, is that of a full disk or a used-up quota."""
    # hf_xet, by which the hub serves large files, raises a RuntimeError that has the system's words alone
    return error is not None and (
        is_full(error.__cause__)
        or any(
            getattr(error, "errno", None) == number or f"(os error {number})" in str(error)
            for number in (errno.ENOSPC, errno.EDQUOT)
        )
    )


def read_text(path: Path) -> str:
    """A text file that comes with the repository; what is missing or damaged can be had back from git."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = "is not there" if isinstance(error, FileNotFoundError) else "is damaged"
        raise CompanionError(
            f"{path} {why}: restore it with `git checkout {_seen(path)}`."
        ) from None


def read_toml(path: Path) -> dict:
    """The same of a table of settings."""
    try:
        return tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise CompanionError(
            f"{path} is not TOML ({error}): mend it, or restore it with `git checkout {_seen(path)}`."
        ) from None


def _seen(path: Path) -> Path:
    """A path as seen from the repository, where it lies in it."""
    return path.relative_to(paths.ROOT) if path.is_relative_to(paths.ROOT) else path


def check_writable(folder: Path, variable: str = ""):
    """Refuse a folder that nothing can be written to; `variable` of the environment names another."""
    try:
        replace(folder / ".try", b"")
        (folder / ".try").unlink(missing_ok=True)  # another process may try it too
    except OSError as error:
        other = f", or set {variable} to another" if variable else ""
        raise CompanionError(
            f"{folder} cannot be written ({error.strerror}): make it a folder that can{other}."
        ) from None


def sha256(file: Path) -> bytes:
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").digest()


def fingerprint(*places: Path) -> str:
    """A short hash of the contents and names of files, and of all files in folders."""
    listed = sorted(file for place in places for file in [place, *place.rglob("*")])
    return hashlib.sha256(
        b"".join(
            file.name.encode() + sha256(file)
            for file in listed
            if file.is_file() and "__pycache__" not in file.parts
        )
    ).hexdigest()[:16]


def slug(name: str) -> str:
    """A model's name as part of a folder's: org/name_v2 is org-name_v2."""
    return re.sub(r"[^\w.-]+", "-", name).strip("-.")
