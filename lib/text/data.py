"""Getting data: what is bundled by name, what lives elsewhere by name, hash and licence.

An outside file (data/sources.toml lists them) is looked for in the folder that COMPANION_DATA
names, laid out as the names are, then in the cache, and is then downloaded into the cache. Nothing
is used whose hash is wrong, and no download happens without a line that says so. readers.py gives
the files a shape.
"""

import csv
import difflib
import gzip
import hashlib
import io
import json
import os
import sys
import tarfile
import tomllib
import zlib
from functools import lru_cache
from itertools import dropwhile
from pathlib import Path, PurePosixPath

import pandas as pd
import pooch
from requests import exceptions

from lib import CompanionError, paths
from lib.engine.files import first_line, is_full, read_text, read_toml, replace, sha256, to_restore

BY_HAND = "set COMPANION_DATA to a folder that has it"
FEW = 20  # names that an error message lists in full
MOST = 250_000_000  # bytes of an archive that are taken, packed and unpacked; BBC has 7 million


def sources() -> pd.DataFrame:
    """Every outside data set, a row each.

    Columns: name, title, licence, files (how many), MB (millions of bytes), used_by (notebooks)
    and status: "at hand", "to fetch", "not fetchable" (a file has no address; the set's note says
    why) or "hub".
    """
    rows = []
    for name, entry in _table().items():
        files = entry.get("files", [])
        rows.append(
            {
                "name": name,
                "title": entry["title"],
                "licence": entry["licence"],
                "files": len(files),
                "MB": round(_megabytes(files), 3),
                "used_by": ", ".join(entry["used_by"]),
                "status": _status(entry),
            }
        )
    return pd.DataFrame(rows)


def _megabytes(files: list[dict]) -> float:
    """Their size together, in millions of bytes; nan where that of one is not known."""
    if not files:
        return float("nan")
    return sum(file.get("bytes", float("nan")) for file in files) / 1e6


def _status(entry: dict) -> str:
    if "hub" in entry:
        return "hub"
    if all(available(file["name"]) for file in entry["files"]):
        return "at hand"
    if all("url" in file for file in entry["files"]):
        return "to fetch"
    return "not fetchable"


def path(name: str) -> Path:
    """Where the outside file `name` ("wikitext2_raw/wiki.test.raw") lies, downloaded if needed."""
    entry = _file(name)
    given = _given_folder()
    if given and (given / name).is_file():
        _check_hash(given / name, entry)
        return given / name
    if "url" not in entry:
        fix = f"put it into {given}" if given else BY_HAND
        raise CompanionError(
            f"{name} has no address of its own: {fix}, or "
            f"use what it stands in for (its note in {paths.SOURCES.name} says what)."
        )
    return _fetch(name, entry, reason=f"{name} is not in {given}: " if given else "")


def _check_hash(file: Path, entry: dict):
    """Refuse a file that is not the published one; where no hash is published, take any."""
    digest = _digest(file, entry)
    if digest != entry.get("sha256", digest):
        raise CompanionError(
            f"{file} is not the published file (sha256 {digest}, expected "
            f"{entry['sha256']}): put the published one in its place, or take it away "
            "to have it downloaded."
        )


def _digest(file: Path, entry: dict) -> str:
    """The sha256 of a file; of one that is packed here, of what it unpacks to, since compressed
    bytes depend on who compressed them.
    """
    if "members" not in entry:
        return sha256(file).hex()
    try:
        with gzip.open(file) as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    except (OSError, EOFError, zlib.error) as error:
        return f"none, {first_line(error)}"


def available(name: str) -> bool:
    """Whether `path(name)` would need no download, by presence and size; `path` checks the hash."""
    entry = _file(name)
    for folder in (_given_folder(), paths.CACHE / "sources"):
        if folder and (folder / name).is_file():
            size = (folder / name).stat().st_size
            return "members" in entry or size == entry.get("bytes", size)
    return False


def hub(name: str, config: str, split: str):
    """One split of a hub set of data/sources.toml, at its pinned revision: a `datasets.Dataset`."""
    sets = {key: entry for key, entry in _table().items() if "hub" in entry}
    entry = one_of(sets, name, "hub data set")
    one_of(dict.fromkeys(entry["configs"]), config, f"configuration of {name}")
    import datasets  # slow to import, and needed by the paper profile alone

    try:
        return datasets.load_dataset(entry["hub"], config, split=split, revision=entry["revision"])
    except Exception as error:  # datasets, the hub's client and its transports each have their own
        if is_full(error):
            raise CompanionError(
                f"The disk is full, {entry['hub']} could not be kept: free some space, or set "
                "HF_HOME to a folder on another disk, and run again."
            ) from error
        raise CompanionError(
            f"{entry['hub']} ({config}, {split}) could not be had from the model hub "
            f"({first_line(error)}): connect to the network and run again, or use --data mini."
        ) from error


def words(name: str) -> pd.DataFrame:
    """The word list data/lists/<name>.csv ("occupations"), its # header skipped.

    Words such as "null" stay words.
    """
    return _bundled(paths.LISTS, name, "word list")


def rows(name: str, folder: Path | None = None) -> list[dict[str, str]]:
    """The same list as `words`, one dict per row, every value a string."""
    folder = folder or paths.LISTS
    return list(csv.DictReader(_lines(folder / f"{name}.csv")))


def demo(name: str) -> pd.DataFrame | list[str]:
    """data/demo/<name>: a table where it is a .csv, a list of lines where it is a .txt."""
    return _bundled(paths.DEMO, name, "demo file")


def _bundled(folder: Path, name: str, kind: str) -> pd.DataFrame | list[str]:
    files = {}
    for file in sorted(folder.glob("*")):
        if file.suffix in (".csv", ".txt"):
            files[file.stem] = file
    file = one_of(files, name, kind)
    if file.suffix == ".txt":
        return [line.strip("\n") for line in _lines(file) if line.strip()]
    # An empty percentage is a missing number; anything else empty, or spelled "nan" or "null", is
    # a string.
    return pd.read_csv(
        io.StringIO("".join(_lines(file))),
        keep_default_na=False,
        na_values={"percent_women": [""]},
    )


def _lines(file: Path) -> list[str]:
    """The lines of a bundled file after its # header; a table that is none is refused."""
    text = read_text(file)
    lines = list(dropwhile(lambda line: line.startswith("#"), text.splitlines(keepends=True)))
    if file.suffix == ".csv":
        rows = [row for row in csv.reader(lines) if row]
        is_table = len({len(row) for row in rows}) == 1 and len(rows) > 1
        # a spreadsheet may have saved it with other separators
        if not is_table or ";" in lines[0] or "\0" in text:
            raise to_restore(file, "is damaged")
    return lines


def _table() -> dict:
    """data/sources.toml: {name of a data set: its entry}."""
    try:
        return _parsed(read_text(paths.SOURCES))
    except tomllib.TOMLDecodeError:
        return read_toml(paths.SOURCES)  # which says what is wrong with it


@lru_cache(maxsize=1)
def _parsed(text: str) -> dict:
    """Kept, since `sources` asks for every file, and reading the table takes a while."""
    return tomllib.loads(text)


def _file(name: str) -> dict:
    """The entry of an outside file in data/sources.toml."""
    files = {}
    for entry in _table().values():
        for file in entry.get("files", []):
            files[file["name"]] = file
    return one_of(files, name, "data file")


def one_of(known: dict, name: str, kind: str):
    """known[name]; an unknown name is refused in a sentence that suggests known ones."""
    if isinstance(name, str) and name in known:
        return known[name]
    close = difflib.get_close_matches(str(name), known, n=3, cutoff=0.4)
    guess = f" (is it {' or '.join(map(repr, close))}?)" if close else ""
    if len(known) <= FEW:
        fix = f"choose one of {', '.join(known) or 'none'}"
    else:
        fix = f"{paths.SOURCES} lists them all"
    raise CompanionError(f"There is no {kind} {name!r}{guess}: {fix}.")


def _given_folder() -> Path | None:
    """The folder that COMPANION_DATA names, relative to the repository; None if it is not set."""
    named = os.environ.get("COMPANION_DATA")
    if not named:
        return None
    folder = paths.ROOT / Path(named).expanduser()
    if not folder.is_dir():
        raise CompanionError(
            f"COMPANION_DATA names {folder}, which is not a folder: correct it or unset it."
        )
    return folder


def _fetch(name: str, entry: dict, reason: str) -> Path:
    """The file in the cache, downloaded if it is not there with the right hash.

    It is written to a temporary file that is renamed once the hash is right: a download that fails
    leaves nothing.
    """
    target = paths.CACHE / "sources" / name
    known = entry.get("sha256")
    if target.exists():
        if known is None or _digest(target, entry) == known:
            return target
        reason += "the copy in the cache is damaged: "
    print(f"{reason}fetching {name} from {entry['url']}", file=sys.stderr)
    pooch.get_logger().setLevel("WARNING")  # the line above says it
    bar = sys.stderr.isatty() or "ipykernel" in sys.modules
    download = pooch.HTTPDownloader(progressbar=bar, chunk_size=1 << 16, timeout=30)
    try:
        if "members" in entry:
            archive = _Archive()
            download(entry["url"], archive, None)
            replace(target, _packed(archive.getvalue(), entry))
        else:
            pooch.retrieve(
                entry["url"], known, fname=target.name, path=target.parent, downloader=download
            )
    except (OSError, ValueError) as error:
        raise CompanionError(_why_not(error, name, entry)) from error
    if known is None:
        digest = sha256(target).hex()
        print(f"{name}: no hash is published; what came has sha256 {digest}", file=sys.stderr)
    return target


class _Archive(io.BytesIO):
    """What a download is written to; it takes no more than MOST bytes."""

    def write(self, chunk: bytes) -> int:
        if self.tell() + len(chunk) > MOST:
            raise ValueError(f"more than {MOST} bytes")
        return super().write(chunk)


def _packed(archive: bytes, entry: dict) -> bytes:
    """The texts of a .tar.gz in one .gz: a line of JSON each, path and text, in the order of paths.

    Nothing is written under a name that the archive gives. ValueError where the lines are not the
    published ones.
    """
    try:
        texts = _texts(archive, entry["members"])
    except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
        raise ValueError("no whole archive") from error
    lines = []
    for name in sorted(texts):
        line = {"path": name, "text": texts[name]}
        lines.append(json.dumps(line, ensure_ascii=False) + "\n")
    content = "".join(lines).encode()
    if hashlib.sha256(content).hexdigest() != entry["sha256"]:
        raise ValueError("other texts")
    return gzip.compress(content, mtime=0)


def _texts(archive: bytes, members: str) -> dict[str, str]:
    """The files of a .tar.gz whose paths match, by path."""
    with gzip.open(io.BytesIO(archive)) as stream:
        content = stream.read(MOST)
    texts = {}
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as files:
        for file in files:
            _, _, name = file.name.partition("/")  # all lies in a folder named by the commit
            is_plain = file.isreg() and not file.issparse()  # a sparse file can claim any size
            if is_plain and PurePosixPath(name).match(members):
                texts[name] = _decoded(files.extractfile(file).read())
    return texts


def _decoded(text: bytes) -> str:
    """UTF-8, or else Latin-1: the pound sign of bbc/sport/199.txt is a single byte."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text.decode("latin-1")


def _why_not(error: OSError | ValueError, name: str, entry: dict) -> str:
    """What went wrong with a download, and its fix, in a sentence."""
    url = entry["url"]
    match error:
        case exceptions.HTTPError():
            code = error.response.status_code
            return f"{url} answers {code}: find {name} elsewhere and {BY_HAND}."
        case exceptions.ChunkedEncodingError():
            return f"The download of {name} broke off and was thrown away: run again."
        case exceptions.RequestException():
            return (
                f"{name} could not be downloaded, {url} is out of reach: "
                f"connect to the network and run again, or {BY_HAND}."
            )
        case ValueError():  # which pooch raises for a wrong hash
            what = "the sha256 of its texts" if "members" in entry else "its sha256"
            return (
                f"What came from {url} is not the published file ({what} is not "
                f"{entry.get('sha256')}) and was thrown away: run again, or {BY_HAND}."
            )
    if is_full(error):
        fix = "the disk is full: free some space"
    else:
        fix = f"{first_line(error)}: make that folder writable"
    return (
        f"{name} could not be written to {paths.CACHE / 'sources'}, {fix}, "
        "or set COMPANION_CACHE to another folder."
    )
