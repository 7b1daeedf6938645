"""Getting data: what ships with the repository by name, what lives elsewhere by name, hash and licence.

An outside file (data/sources.toml lists them) is looked for in the folder that COMPANION_DATA names, laid out as the
names are, then in the cache, and is then downloaded into the cache. Nothing is used whose hash is wrong, and no
download happens without a line that says so. readers.py gives the files a shape."""

from __future__ import annotations  # pd.DataFrame is not looked up, so that pandas stays unimported

import csv
import difflib
import os
import sys
import tomllib
from functools import lru_cache
from itertools import dropwhile
from pathlib import Path

from lib import CompanionError, Lazy, paths
from lib.engine.files import is_full, read_text, read_toml, sha256

pd = Lazy("pandas")
_parsed = lru_cache(maxsize=1)(tomllib.loads)  # a second's work for a table of all files
BY_HAND = "set COMPANION_DATA to a folder that has it"


def sources() -> pd.DataFrame:
    """Every outside data set: name, title, licence, files (how many), MB (millions of bytes), used_by (notebooks) and
    status: "at hand", "to fetch", "not fetchable" (a file has no address; the set's note says why) or "hub"."""
    rows = []
    for name, entry in _table().items():
        files = entry.get("files", [])
        megabytes = (
            sum(file.get("bytes", float("nan")) for file in files) / 1e6 if files else float("nan")
        )
        rows.append(
            {
                "name": name,
                "title": entry["title"],
                "licence": entry["licence"],
                "files": len(files),
                "MB": round(megabytes, 3),
                "used_by": ", ".join(entry["used_by"]),
                "status": _status(entry),
            }
        )
    return pd.DataFrame(rows)


def _status(entry: dict) -> str:
    if "hub" in entry:
        return "hub"
    if all(available(file["name"]) for file in entry["files"]):
        return "at hand"
    return "to fetch" if all("url" in file for file in entry["files"]) else "not fetchable"


def path(name: str) -> Path:
    """Where the outside file `name` ("wikitext2_raw/wiki.test.raw") lies, downloaded first if it must be."""
    entry, given = _file(name), _given_folder()
    if given and (given / name).exists():
        digest = sha256(given / name).hex()
        if digest != entry.get("sha256", digest):
            raise CompanionError(
                f"{given / name} is not the published file (sha256 {digest}, expected "
                f"{entry['sha256']}): put the published one in its place, or take it away "
                "to have it downloaded."
            )
        return given / name
    if "url" not in entry:
        raise CompanionError(
            f"{name} has no address of its own: {f'put it into {given}' if given else BY_HAND}, or "
            f"use what it stands in for (its note in {paths.SOURCES.name} says what)."
        )
    return _fetch(name, entry, reason=f"{name} is not in {given}: " if given else "")


def available(name: str) -> bool:
    """Whether `path(name)` would need no download. Looks at presence and size; `path` checks the hash."""
    entry = _file(name)
    places = [folder / name for folder in (_given_folder(), paths.CACHE / "sources") if folder]
    file = next((place for place in places if place.exists()), None)
    return file is not None and file.stat().st_size == entry.get("bytes", file.stat().st_size)


def hub(name: str, config: str, split: str):
    """One split of a hub set of data/sources.toml, at the revision pinned there, as a `datasets.Dataset`."""
    entry = _one_of(
        {key: value for key, value in _table().items() if "hub" in value}, name, "hub data set"
    )
    _one_of(dict.fromkeys(entry["configs"]), config, f"configuration of {name}")
    import datasets  # slow to import, and needed by the paper profile alone

    try:
        return datasets.load_dataset(entry["hub"], config, split=split, revision=entry["revision"])
    except (
        Exception
    ) as error:  # of datasets, of the hub's client, of what this fetches by: however they word it
        if is_full(error):
            raise CompanionError(
                f"The disk is full, {entry['hub']} could not be kept: free some space, or set HF_HOME "
                "to a folder on another disk, and run again."
            ) from error
        raise CompanionError(
            f"{entry['hub']} ({config}, {split}) could not be had from the model hub ({_short(error)}"
            "): connect to the network and run again, or use --data mini."
        ) from error


def words(name: str) -> pd.DataFrame:
    """The word list data/lists/<name>.csv ("occupations"), its # header skipped. Words such as "null" stay words."""
    return _shipped(paths.LISTS, name, "word list")


def rows(name: str, folder: Path | None = None) -> list[dict[str, str]]:
    """The same list as `words`, one dict per row, every value a string: for machines without pandas."""
    lines = read_text((folder or paths.LISTS) / f"{name}.csv").splitlines(keepends=True)
    return list(csv.DictReader(dropwhile(lambda line: line.startswith("#"), lines)))


def demo(name: str) -> pd.DataFrame | list[str]:
    """data/demo/<name>: a table where it is a .csv, a list of lines where it is a .txt."""
    return _shipped(paths.DEMO, name, "demo file")


def _shipped(folder: Path, name: str, kind: str) -> pd.DataFrame | list[str]:
    files = {
        file.stem: file for file in sorted(folder.glob("*")) if file.suffix in (".csv", ".txt")
    }
    file = _one_of(files, name, kind)
    lines = read_text(file).splitlines()
    header = next((i for i, line in enumerate(lines) if not line.startswith("#")), len(lines))
    if file.suffix == ".txt":
        return [line for line in lines[header:] if line.strip()]
    # An empty percentage is a missing number; anything else empty, or spelled "nan" or "null", is a string.
    return pd.read_csv(
        file, skiprows=header, keep_default_na=False, na_values={"percent_women": [""]}
    )


def _table() -> dict:
    try:
        return _parsed(read_text(paths.SOURCES))
    except tomllib.TOMLDecodeError:
        return read_toml(paths.SOURCES)  # which says what is wrong with it


def _file(name: str) -> dict:
    files = {file["name"]: file for entry in _table().values() for file in entry.get("files", [])}
    return _one_of(files, name, "data file")


def _one_of(known: dict, name: str, kind: str):
    if name in known:
        return known[name]
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
    guess = f" (is it {' or '.join(map(repr, close))}?)" if close else ""
    there = (
        f"choose one of {', '.join(known) or 'none'}"
        if len(known) <= 20
        else f"{paths.SOURCES} lists them all"
    )
    raise CompanionError(f"There is no {kind} {name!r}{guess}: {there}.")


def _given_folder() -> Path | None:
    """The folder that COMPANION_DATA names, relative to the repository; None if the variable is not set."""
    named = os.environ.get("COMPANION_DATA")
    folder = paths.ROOT / Path(named).expanduser() if named else None
    if folder and not folder.is_dir():
        raise CompanionError(
            f"COMPANION_DATA names {folder}, which is not a folder: correct it or unset it."
        )
    return folder


def _fetch(name: str, entry: dict, reason: str) -> Path:
    """The file in the cache, downloaded if it is not there with the right hash.
    pooch writes to a temporary file and renames it once the hash is right: a download that fails leaves nothing."""
    target, known = paths.CACHE / "sources" / name, entry.get("sha256")
    if target.exists():
        if known is None or sha256(target).hex() == known:
            return target
        reason += "the copy in the cache is damaged: "
    import pooch  # here, so that a machine that has the files needs no downloader

    print(f"{reason}fetching {name} from {entry['url']}", file=sys.stderr)
    pooch.get_logger().setLevel("WARNING")  # the line above says it
    bar = sys.stderr.isatty() or "ipykernel" in sys.modules
    download = pooch.HTTPDownloader(progressbar=bar, chunk_size=1 << 16, timeout=30)
    try:
        pooch.retrieve(
            entry["url"], known, fname=target.name, path=target.parent, downloader=download
        )
    except (OSError, ValueError) as error:
        raise CompanionError(_why_not(error, name, entry)) from error
    if known is None:
        print(
            f"{name}: no hash is published; what came has sha256 {sha256(target).hex()}",
            file=sys.stderr,
        )
    return target


def _why_not(error: OSError | ValueError, name: str, entry: dict) -> str:
    """What went wrong with a download, and its fix, in a sentence."""
    from requests import exceptions

    match error:
        case exceptions.HTTPError():
            return f"{entry['url']} answers {error.response.status_code}: find {name} elsewhere and {BY_HAND}."
        case exceptions.ChunkedEncodingError():
            return f"The download of {name} broke off and was thrown away: run again."
        case exceptions.RequestException():
            return (
                f"{name} could not be downloaded, {entry['url']} is out of reach: "
                f"connect to the network and run again, or {BY_HAND}."
            )
        case ValueError():  # pooch's word for a wrong hash
            return (
                f"What came from {entry['url']} is not the published file (its sha256 is not "
                f"{entry.get('sha256')}) and was thrown away: run again, or {BY_HAND}."
            )
    fix = (
        "the disk is full: free some space"
        if is_full(error)
        else f"{_short(error)}: make that folder writable"
    )
    return f"{name} could not be written to {paths.CACHE / 'sources'}, {fix}, or set COMPANION_CACHE to another folder."


def _short(error: Exception) -> str:
    """The first line of what an error says, to be quoted inside a sentence."""
    return (str(error).splitlines() or [type(error).__name__])[0]
