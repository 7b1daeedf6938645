"""Fetching: what is pinned, and what happens when something breaks.

Then there is one sentence, no half file, and the next run gets it all. A server on this machine
stands for the model hub, and speaks as much of its language as fetching needs.
"""

import errno
import gzip
import hashlib
import io
import json
import re
import shutil
import tarfile
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import datasets
import pooch
import pytest
import torch
from huggingface_hub import constants, file_download
from huggingface_hub.utils import _http

from lib import paths
from lib.engine import folders, models
from lib.text import data
from tests import hub as stand_in
from tests.tiny import disk, refusal, save_tiny

COMMIT = "c" * 40
PULL_COMMIT = "e" * 40
OTHER_COMMIT = "d" * 40
WEIGHTS = "model.safetensors"
NOWHERE = "http://127.0.0.1:9"  # an address at which nothing answers
# The error of a full disk: as the system says it, and as hf_xet does, which fetches large files.
FULL = [
    partial(OSError, errno.ENOSPC, "No space left on device"),
    partial(
        RuntimeError,
        "Task error: File reconstruction error: IO Error: No space left on device (os error 28)",
    ),
]


@dataclass
class Break:
    """A line that breaks off after `size` bytes of a file, and then before the first byte."""

    name: str = ""
    size: int = 0
    times: int = 0  # how often in all


class Hub(BaseHTTPRequestHandler):
    """Serves the files of `server.folder` as those of whatever repository is asked for.

    server.breaks   a Break
    server.sent     notes each file asked for, and from which byte on
    server.error    if there is one, everything is answered with this code and reason
    server.pulls    who opened its pull requests, the newest first; the folder `converted` beside
                    `server.folder` is served as what each of them would make of it
    """

    def do_GET(self):
        parts = self.path.split("?")[0].split("/")
        commits = [part for part in parts if len(part) == 40]
        self.commit = commits[0] if commits else COMMIT
        if "refs%2Fpr%2F" in self.path:
            self.commit = PULL_COMMIT
        self.folder = self.server.folder
        if self.commit == PULL_COMMIT:
            self.folder = self.folder.with_name("converted")
        file = self.folder / parts[-1]
        if self.server.error:
            code, reason = self.server.error
            self.send(b"", code, {"X-Error-Code": reason})
        elif parts[-1] == "discussions":
            self.send_json(self.discussions())
        elif "/tree/" in self.path:
            self.send_json(self.tree())
        elif self.path.startswith("/api/"):
            self.send_json(self.repository())
        elif not file.is_file():
            self.send(b"", 404, {"X-Error-Code": "EntryNotFound"})
        else:
            self.send_file(file)

    do_HEAD = do_GET

    def tree(self) -> list[dict]:
        """What the hub says of the files of a folder."""
        files = []
        for file in sorted(self.folder.iterdir()):
            size = file.stat().st_size
            files.append({"type": "file", "path": file.name, "size": size, "oid": sha1(file)})
        return files

    def repository(self) -> dict:
        """What the hub says of a repository."""
        files = sorted(self.folder.iterdir())
        siblings = [{"rfilename": file.name} for file in files]
        return {"id": "org/name", "sha": self.commit, "siblings": siblings}

    def discussions(self) -> dict:
        """What the hub says of the pull requests of a repository."""
        said = []
        for i, author in enumerate(self.server.pulls):
            said.append(
                {
                    "title": "Adding safetensors",
                    "num": len(self.server.pulls) - i,
                    "author": {"name": author},
                    "createdAt": "2023-01-01T00:00:00.000Z",
                    "status": "open",
                    "repo": {"name": "org/model", "type": "model"},
                    "isPullRequest": True,
                }
            )
        return {"discussions": said, "count": len(said), "start": 0}

    def send_file(self, file):
        content = file.read_bytes()
        start = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").split("-")[0])
        end = None
        if self.command == "GET":
            self.server.sent.append((file.name, start))
            breaks = self.server.breaks
            if file.name == breaks.name and breaks.times:
                end = max(breaks.size - start, 0)
                breaks.times -= 1
        headers = {"ETag": f'"{sha1(file)}"'}
        if start:
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        self.send(content[start:], 206 if start else 200, headers, end)

    def send_json(self, content):
        self.send(json.dumps(content).encode())

    def send(self, content, code=200, headers=(), end=None):
        """Answer; only the first `end` bytes of the content are sent."""
        self.send_response(code)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.send_header("X-Repo-Commit", self.commit)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content[:end])

    def log_message(self, *_):
        pass


def sha1(file):
    return hashlib.sha1(file.read_bytes()).hexdigest()


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub with an empty folder to serve, and empty caches of what it serves."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        server.folder = tmp_path / "repository"
        server.folder.mkdir()
        server.breaks = Break()
        server.sent = []
        server.error = None
        server.pulls = []
        address = f"http://127.0.0.1:{server.server_port}"
        hub_constants = {
            "HF_HUB_CACHE": str(tmp_path / "cache"),
            "HF_HUB_OFFLINE": False,
            "ENDPOINT": address,
            "HUGGINGFACE_CO_URL_TEMPLATE": address + "/{repo_id}/resolve/{revision}/{filename}",
            "DOWNLOAD_CHUNK_SIZE": 1_000,  # smaller than the file, as with real weights
        }
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        for name, value in hub_constants.items():
            monkeypatch.setattr(constants, name, value)
        for module in (file_download, _http):  # they wait before they try again
            monkeypatch.setattr(module, "time", SimpleNamespace(sleep=lambda seconds: None))
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def model(hub):
    """The tiny BERT that the hub serves as org/model."""
    return save_tiny("bert", hub.folder)


@contextmanager
def full_disk(error):
    """The disk takes 3,000 bytes of each file that the hub serves, and then raises `error`."""
    http_get = file_download.http_get

    def get(url, file, **options):
        return http_get(url, disk(3_000, error())(file.name, "a"), **options)

    with pytest.MonkeyPatch.context() as meanwhile:
        meanwhile.setattr(file_download, "http_get", get)
        yield


def kept(hub):
    """The names of files that the hub's cache has; none of them is half a file."""
    cache = Path(constants.HF_HUB_CACHE)
    named = list(cache.rglob("snapshots/*/*"))
    served = {file.read_bytes() for file in hub.folder.iterdir()}
    for file in [*named, *cache.rglob("blobs/*")]:
        assert file.read_bytes() in served
    return {file.name for file in named}


def loaded(model, name="org/model", commit=COMMIT, **options):
    """Whether a model now loads, at this commit and with the very weights that were saved."""
    fetched = models.load(name, device="cpu", **options)
    weights = fetched.net.state_dict()
    for key, weight in model.net.state_dict().items():
        assert torch.equal(weights[key], weight), key
    return fetched.revision == commit


def test_every_hub_model_of_the_registry_is_pinned():
    hub_models = [entry for entry in folders.REGISTRY.values() if isinstance(entry.source, str)]
    assert hub_models
    for entry in hub_models:
        if entry.source.startswith("google/multiberts-"):  # no public repository names a commit
            continue
        assert re.fullmatch("[0-9a-f]{40}", entry.revision), entry.source


PIN = folders.pinned("google-bert/bert-base-uncased")


@pytest.mark.filterwarnings("error::UserWarning")
@pytest.mark.parametrize(
    "name, options, commit",
    [
        ("bert-base", {}, PIN),
        ("google-bert/bert-base-uncased", {}, PIN),
        ("bert-base", {"revision": OTHER_COMMIT}, OTHER_COMMIT),
        ("org/model", {"revision": OTHER_COMMIT}, OTHER_COMMIT),
    ],
)
def test_a_model_is_fetched_at_its_pinned_commit_or_the_one_asked_for(
    hub, model, name, options, commit
):
    assert loaded(model, name, commit, **options)


def test_a_model_without_a_pin_is_fetched_at_its_newest_commit_with_a_warning(hub, model):
    said = f"org/model has no pinned revision, its newest is {COMMIT}"
    with pytest.warns(UserWarning, match=said):
        assert loaded(model)


@pytest.fixture
def pickled(hub, model):
    """The model, whose main branch has its weights as a pickle alone."""
    shutil.copytree(hub.folder, hub.folder.with_name("converted"))
    (hub.folder / WEIGHTS).rename(hub.folder / "pytorch_model.bin")
    return model


@pytest.mark.parametrize("name", ["org/model", "multiberts-seed24"])
def test_safetensors_that_stand_in_a_conversion_alone_are_taken(hub, pickled, name, monkeypatch):
    hub.pulls = ["somebody", folders.CONVERTER, "another"]
    said = f"its newest is {PULL_COMMIT} .at refs/pr/2: its main branch has no safetensors"
    with pytest.warns(UserWarning, match=said):
        assert loaded(pickled, name, PULL_COMMIT)
    assert "pytorch_model.bin" not in {file for file, _ in hub.sent}
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)  # what was fetched is found again
    with pytest.warns(UserWarning, match=said):
        assert loaded(pickled, name, PULL_COMMIT)


@pytest.mark.parametrize("authors", [[], ["somebody"]])
def test_a_pickle_without_a_conversion_by_the_hub_is_refused(hub, pickled, authors):
    hub.pulls = authors
    assert "has no safetensors on the hub" in refusal(models.load, "org/model")
    assert "pytorch_model.bin" not in {file for file, _ in hub.sent}


def test_of_a_family_that_is_not_known_no_weights_are_fetched(hub, model):
    config = hub.folder / "config.json"
    config.write_text(config.read_text().replace('"bert"', '"deberta-v2"'))
    assert "masked-language" in refusal(models.load, "org/model")
    assert {file for file, _ in hub.sent} == {"config.json"}


@pytest.mark.filterwarnings("error::UserWarning")
def test_without_a_network_the_commits_that_were_fetched_load(hub, model, monkeypatch):
    assert loaded(model, "bert-base", PIN)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert loaded(model, "bert-base", PIN)
    said = refusal(models.load, "bert-base", revision=OTHER_COMMIT)
    assert f"at revision {OTHER_COMMIT} is not in" in said


@pytest.mark.parametrize(
    "name, code, reason, said",
    [
        (
            "llama-2-7b",
            403,
            "GatedRepo",
            "accept its licence at https://huggingface.co/meta-llama/Llama-2-7b-hf, then run",
        ),
        ("no/such", 404, "RepoNotFound", "no model no/such"),
        (
            "gpt2",
            404,
            "RevisionNotFound",
            "no revision 607a30d783dfa663caf39e06633721c8d4cfcd7e of openai",
        ),
        ("albert-base", 500, "Broken", "is not in this machine's hub cache"),
    ],
)
def test_gated_absent_and_broken_are_told_apart(hub, name, code, reason, said):
    hub.error = code, reason
    assert said in refusal(models.load, name)


@pytest.mark.filterwarnings("ignore:org/model has no pinned revision")
def test_a_model_that_breaks_off_is_not_half_there_and_the_next_run_fetches_the_rest(
    hub, model, monkeypatch
):
    hub.breaks = Break(WEIGHTS, size=5_000, times=99)
    said = refusal(models.load, "org/model", device="cpu")
    assert "org/model is not in this machine's hub cache" in said
    assert (WEIGHTS, 5_000) in hub.sent  # it did try to go on
    assert WEIGHTS not in kept(hub)
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(constants, "HF_HUB_OFFLINE", True)
        said = refusal(models.load, "org/model", device="cpu")
        assert "connect to the network and unset HF_HUB_OFFLINE" in said
    hub.breaks = Break(WEIGHTS, size=7_000, times=1)  # for a moment
    assert loaded(model)
    assert hub.sent[-1] == (WEIGHTS, 7_000)
    others = [name for name, _ in hub.sent if name != WEIGHTS]
    assert sorted(others) == ["config.json", "tokenizer.json", "tokenizer_config.json"]  # once each


@pytest.mark.filterwarnings("ignore:org/model has no pinned revision")
def test_a_model_that_was_fetched_loads_when_the_hub_is_out_of_reach(hub, model, monkeypatch):
    assert loaded(model)
    monkeypatch.setattr(constants, "ENDPOINT", NOWHERE)
    assert loaded(model)
    assert "or use a bundled model such as mini-bert" in refusal(models.load, "bert-base")


@pytest.mark.parametrize("error", FULL, ids=["by http", "by xet"])
@pytest.mark.filterwarnings("ignore:org/model has no pinned revision")
def test_on_a_full_disk_a_model_is_had_once_there_is_room(hub, model, error):
    with full_disk(error):
        said = refusal(models.load, "org/model", device="cpu")
    assert re.match("The disk is full, org/model .*free some space, or set HF_HOME", said)
    assert WEIGHTS not in kept(hub)
    assert loaded(model)


@pytest.mark.parametrize(
    "error, said",
    [
        *(
            (full, "The disk is full, nyu-mll/glue .*free some space, or set HF_HOME")
            for full in FULL
        ),
        (ConnectionError, r"nyu-mll/glue \(cola, train\) could not .*connect to the network"),
    ],
)
def test_a_data_set_that_cannot_be_had_is_told_in_a_sentence(monkeypatch, error, said):
    monkeypatch.setattr(datasets, "load_dataset", Mock(side_effect=error()))
    assert re.search(said, refusal(data.hub, "hub_glue", "cola", "train"))
    asked = datasets.load_dataset.call_args
    assert asked.args == ("nyu-mll/glue", "cola") and asked.kwargs["split"] == "train"
    assert re.fullmatch("[0-9a-f]{40}", asked.kwargs["revision"])


PUBLISHED = b"The published text.\n" * 5_000
SHA256 = hashlib.sha256(PUBLISHED).hexdigest()


@pytest.fixture
def source(hub, tmp_path, monkeypatch):
    """Call it to list set/text.txt in sources.toml, at an address: what gets the file.

    The cache is empty.
    """
    (hub.folder / "text.txt").write_bytes(PUBLISHED)
    monkeypatch.delenv("COMPANION_DATA", raising=False)
    monkeypatch.setattr(paths, "CACHE", tmp_path / "companion")
    monkeypatch.setattr(paths, "SOURCES", tmp_path / "sources.toml")

    def write(url="{}/text.txt", hashed=True):
        lines = [
            "[set]",
            'title = "A set"',
            'licence = "ours"',
            'used_by = ["01"]',
            "[[set.files]]",
            'name = "set/text.txt"',
        ]
        if url:
            lines.append(f'url = "{url.format(constants.ENDPOINT)}"')
        if hashed:
            lines += [f'sha256 = "{SHA256}"', f"bytes = {len(PUBLISHED)}"]
        paths.SOURCES.write_text("\n".join(lines))
        return lambda: data.path("set/text.txt")

    return write


def state():
    """How the set is listed, and what is in the cache."""
    listed = data.sources().set_index("name").loc["set", "status"]
    return listed, [file.name for file in paths.CACHE.rglob("*") if file.is_file()]


def test_a_file_is_fetched_once_and_again_if_damaged_and_the_user_is_told(hub, source, capsys):
    get = source()
    assert state() == ("to fetch", [])
    found = get()
    assert found == paths.CACHE / "sources" / "set" / "text.txt"
    assert found.read_bytes() == PUBLISHED
    assert f"fetching set/text.txt from {constants.ENDPOINT}" in capsys.readouterr().err
    assert get() == found
    assert len(hub.sent) == 1
    assert capsys.readouterr().err == ""
    assert state() == ("at hand", ["text.txt"])
    found.write_bytes(b"damaged")
    assert state()[0] == "to fetch"
    assert get().read_bytes() == PUBLISHED
    assert "the copy in the cache is damaged" in capsys.readouterr().err


def breaks_off(hub, monkeypatch):
    hub.breaks = Break("text.txt", size=70_000, times=1)


def is_another(hub, monkeypatch):
    (hub.folder / "text.txt").write_bytes(PUBLISHED[:1_000])


def cannot_write(error):
    def arrange(hub, monkeypatch):
        monkeypatch.setattr(pooch.downloaders, "open", disk(70_000, error), raising=False)

    return arrange


@pytest.mark.parametrize(
    "fault, listed, said",
    [
        (breaks_off, {}, "set/text.txt broke off and was thrown away: run again"),
        (breaks_off, {"hashed": False}, "broke off and was thrown away"),
        (is_another, {}, "is not the published file"),
        (cannot_write(FULL[0]()), {}, "disk is full: free some space, or set COMPANION_CACHE"),
        (cannot_write(OSError(errno.EACCES, "no")), {}, "folder writable, or set COMPANION_CACHE"),
        (None, {"url": f"{NOWHERE}/text"}, "out of reach: connect to the network"),
        (None, {"url": "{}/gone"}, "answers 404: find set/text.txt elsewhere"),
    ],
)
def test_a_file_that_cannot_be_had_leaves_nothing_and_is_had_once_it_can(
    hub, source, monkeypatch, capsys, fault, listed, said
):
    with monkeypatch.context() as meanwhile:
        if fault:
            fault(hub, meanwhile)
        get = source(**listed)
        assert said in refusal(get)
    assert state() == ("to fetch", [])
    (hub.folder / "text.txt").write_bytes(PUBLISHED)
    assert source()().read_bytes() == PUBLISHED


def test_a_file_without_an_address_is_asked_for(source):
    assert "no address of its own: set COMPANION_DATA to a folder" in refusal(source(url=None))
    assert state() == ("not fetchable", [])


@pytest.fixture
def given_file(tmp_path, monkeypatch):
    """Where set/text.txt would be in the folder that COMPANION_DATA names."""
    file = tmp_path / "given" / "set" / "text.txt"
    file.parent.mkdir(parents=True)
    monkeypatch.setenv("COMPANION_DATA", str(tmp_path / "given"))
    return file


def test_what_the_given_folder_lacks_is_fetched(source, given_file, capsys):
    get = source()
    assert not data.available("set/text.txt")
    assert get().read_bytes() == PUBLISHED
    folder = given_file.parents[1]
    assert f"set/text.txt is not in {folder}: fetching" in capsys.readouterr().err


def test_the_given_folder_comes_first_and_must_hold_the_published_file(
    hub, source, given_file, monkeypatch
):
    get = source()
    given_file.write_bytes(PUBLISHED)
    assert data.available("set/text.txt")
    assert get() == given_file
    monkeypatch.setattr(paths, "ROOT", given_file.parents[2])
    monkeypatch.setenv("COMPANION_DATA", "given")  # relative to the repository
    assert get() == given_file
    wrong = PUBLISHED.replace(b"published", b"Published", 1)  # of the right size
    given_file.write_bytes(wrong)
    said = refusal(get)
    assert str(given_file) in said
    assert SHA256 in said and hashlib.sha256(wrong).hexdigest() in said
    assert not hub.sent


# BBC's articles come as an archive of a repository, and one packed file is kept.
ARTICLES = {
    "bbc/tech/001.txt": b"Two\n",
    "bbc/art/002.txt": "It costs £2.\n\nSo?\n".encode("latin-1"),
    "bbc/art/001.txt": "It costs £1.\n\n".encode(),
}
LINES = """\
{"path": "bbc/art/001.txt", "text": "It costs £1.\\n\\n"}
{"path": "bbc/art/002.txt", "text": "It costs £2.\\n\\nSo?\\n"}
{"path": "bbc/tech/001.txt", "text": "Two\\n"}
""".encode()
SIZE = 1_000  # of a download, roughly: not that of the packed file
ENTRY = {"members": "bbc/*/*.txt", "sha256": hashlib.sha256(LINES).hexdigest(), "bytes": SIZE}
NEWS = "bbc_news/bbc.jsonl.gz"


def archived(files, **options):
    """A .tar.gz as GitHub makes it: all files in a folder named by the commit.

    options   how the last file differs from a plain one
    """
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", format=tarfile.PAX_FORMAT) as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(f"repository-{COMMIT}/{name}")
            info.size = len(content)
            if name == list(files)[-1]:
                for option, value in options.items():
                    setattr(info, option, value)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


@pytest.fixture
def packed(hub, tmp_path, monkeypatch):
    """Call it with an archive to serve, and maybe another address: what gets the packed file."""
    monkeypatch.delenv("COMPANION_DATA", raising=False)
    monkeypatch.setattr(paths, "CACHE", tmp_path / "companion")

    def serve(archive, url=None):
        (hub.folder / "commit.tar.gz").write_bytes(archive)
        file = ENTRY | {"name": NEWS, "url": url or f"{constants.ENDPOINT}/commit.tar.gz"}
        table = {"set": {"title": "", "licence": "", "used_by": [], "files": [file]}}
        monkeypatch.setattr(data, "_table", lambda: table)
        return lambda: data.path(NEWS)

    return serve


SPARSE = {"GNU.sparse.map": "0,1", "GNU.sparse.size": str(10**15)}


@pytest.mark.parametrize(
    "name, options",
    [
        ("bbc/art/003.md", {}),
        ("../../../out.txt", {}),
        ("bbc/art/003.txt", {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"}),
        ("bbc/art/003.txt", {"pax_headers": SPARSE}),  # claims a petabyte
    ],
)
def test_an_archive_is_packed_by_path_and_nothing_else_of_it_is_kept(
    hub, packed, tmp_path, capsys, name, options
):
    get = packed(archived(ARTICLES | {name: b"x"}, **options))
    assert state() == ("to fetch", [])
    before = set(tmp_path.rglob("*"))
    found = get()
    assert gzip.decompress(found.read_bytes()) == LINES
    assert {file for file in set(tmp_path.rglob("*")) - before if file.is_file()} == {found}
    assert f"fetching {NEWS} from {constants.ENDPOINT}" in capsys.readouterr().err
    assert get() == found and len(hub.sent) == 1
    assert state() == ("at hand", ["bbc.jsonl.gz"])


WHOLE = archived(ARTICLES)
NOT_PUBLISHED = {
    "cut by a proxy that does not say so": WHOLE[:-30],
    "a page": b"<html>Not found</html>",
    "an article is another": archived(ARTICLES | {"bbc/art/001.txt": b"Another\n"}),
    "too large once unpacked": archived(ARTICLES | {"README.md": bytes(200_000)}),
    "too large as it comes": WHOLE + bytes(200_000),
}


@pytest.mark.parametrize("archive", NOT_PUBLISHED.values(), ids=list(NOT_PUBLISHED))
def test_an_archive_that_is_not_the_published_one_leaves_nothing(packed, monkeypatch, archive):
    monkeypatch.setattr(data, "MOST", 100_000)
    said = refusal(packed(archive))
    assert re.fullmatch(
        rf"What came from \S+ is not the published file .the sha256 of its texts is not "
        rf"{ENTRY['sha256']}. and was thrown away: run again, or set COMPANION_DATA.*",
        said,
    )
    assert state() == ("to fetch", [])
    assert gzip.decompress(packed(WHOLE)().read_bytes()) == LINES


DAMAGED = {
    "no gzip": b"damaged",
    "another": gzip.compress(b"x"),
}


@pytest.mark.parametrize("damaged", DAMAGED.values(), ids=list(DAMAGED))
def test_a_packed_file_is_known_by_what_it_unpacks_to(hub, packed, tmp_path, monkeypatch, damaged):
    get = packed(WHOLE)
    get().write_bytes(damaged)
    assert gzip.decompress(get().read_bytes()) == LINES
    assert len(hub.sent) == 2
    given = tmp_path / "given" / NEWS
    given.parent.mkdir(parents=True)
    monkeypatch.setenv("COMPANION_DATA", str(tmp_path / "given"))
    given.write_bytes(gzip.compress(LINES, 1))  # compressed by somebody else
    assert data.available(NEWS) and get() == given
    given.write_bytes(damaged)
    assert f"{given} is not the published file" in refusal(get)


def test_the_articles_packed_from_files_are_the_published_ones(real_data):
    with gzip.open(real_data / NEWS) as stream:
        articles = {one["path"]: one["text"].encode() for one in map(json.loads, stream)}
    pound = "bbc/sport/199.txt"  # as its collectors have it
    articles[pound] = articles[pound].decode().encode("latin-1")
    with gzip.open(io.BytesIO(data._packed(archived(articles), data._file(NEWS)))) as stream:
        assert len(stream.readlines()) == len(articles) == 2225


# The profile paper on small random models in the hub's layout, which tests/hub.py makes.
SPECIAL = {
    "bert": (["[CLS]", "[SEP]"], "[MASK]"),
    "gpt2": ([], None),
    "roberta": (["<s>", "</s>"], "<mask>"),
    "albert": (["[CLS]", "[SEP]"], "[MASK]"),
    "llama": (["<s>"], None),
}


@pytest.fixture
def offline(tmp_path, monkeypatch):
    """A function that saves a model where the hub's cache would have it."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return partial(stand_in.save, tmp_path)


@pytest.mark.parametrize("hub_id", stand_in.MODELS)
def test_a_model_of_each_kind_is_read_as_the_hub_has_it(offline, hub_id):
    """With old names of weights, missing prefixes and buffers, and an absent pooler."""
    offline(hub_id)
    names = [name for name, entry in folders.REGISTRY.items() if entry.source == hub_id]
    model = models.load(*names or [hub_id], device="cpu")
    around, mask = SPECIAL[model.family] if "Smol" not in hub_id else ([], None)
    ids = model.tokenizer("the nurse").input_ids
    tokens = model.tokenizer.convert_ids_to_tokens(ids)
    assert [token for token in tokens if token in model.tokenizer.all_special_tokens] == around
    assert len(tokens) == len(around) + 2 and model.tokenizer.mask_token == mask
    assert model.has_nsp == (model.family == "bert") and (model.n_layers, model.n_heads) == (2, 12)
    assert model.net.dtype == (torch.bfloat16 if "7b" in hub_id else torch.float32)
    assert model.tokenizer.decode(ids, skip_special_tokens=True).strip().lower() == "the nurse"


