"""Fetching when the line breaks off or the disk is full: one sentence, no half file, and the next run gets it all.

A server on this machine stands for the model hub, and speaks as much of its language as fetching takes.
"""

import errno
import hashlib
import io
import json
import threading
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import datasets
import pandas as pd
import pooch
import pytest
import torch
from fsspec.implementations.local import LocalFileOpener
from huggingface_hub import HfFileSystem, constants, file_download

from lib import CompanionError, paths
from lib.engine import models
from lib.text import data
from tests.tiny import one_thread, save_tiny  # noqa: F401

COMMIT = "c" * 40
NEVER = "", 0, 0
WEIGHTS, SPLIT = "model.safetensors", "train-00000-of-00001.parquet"
# How a full disk is met: as the system says it, and in the words of hf_xet, by which the hub serves large files.
FULL = [partial(OSError, errno.ENOSPC, "No space left on device"),
        partial(RuntimeError, "Task error: File reconstruction error: IO Error: No space left on device (os error 28)")]
pytestmark = pytest.mark.usefixtures("one_thread")


class Hub(BaseHTTPRequestHandler):
    """Serves the files of `server.folder` as those of whatever repository is asked for.

    With `server.breaks = name, size, times`, the line breaks off after `size` bytes of the file `name`, and then before
    the first byte, `times` times in all. `server.sent` notes each file asked for, and from which byte on.
    """

    def do_HEAD(self):
        self.answer()

    def do_GET(self):
        self.answer()

    def answer(self):
        name = self.path.split("?")[0].split("/")[-1]
        file = self.server.folder / name
        if "/tree/" in self.path:
            self.send(json.dumps([self.entry(file) for file in self.files()]).encode())
        elif self.path.startswith("/api/"):
            files = [{"rfilename": file.name} for file in self.files()]
            self.send(json.dumps({"id": "org/name", "sha": self.commit(), "siblings": files}).encode())
        elif not file.is_file():
            self.send(b"", 404, {"X-Error-Code": "EntryNotFound"})
        elif self.command == "GET":
            self.send_file(file)
        else:
            self.send(file.read_bytes(), headers=self.about(file))

    def send_file(self, file):
        start = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").split("-")[0])
        self.server.sent.append((file.name, start))
        name, size, times = self.server.breaks
        content, end = file.read_bytes(), None
        if file.name == name and times:
            end = size if start < size else start
            self.server.breaks = name, size, times - 1
        place = {"Content-Range": f"bytes {start}-{len(content) - 1}/{len(content)}"} if start else {}
        self.send(content[start:], 206 if start else 200, self.about(file) | place, end and end - start)

    def send(self, content, code=200, headers=(), end=None):
        self.send_response(code)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.send_header("X-Repo-Commit", self.commit())
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content[:end])

    def files(self):
        return sorted(self.server.folder.iterdir())

    def entry(self, file):
        return {"type": "file", "path": file.name, "size": file.stat().st_size, "oid": sha1(file)}

    def about(self, file):
        return {"ETag": f'"{sha1(file)}"'}

    def commit(self):
        return next((part for part in self.path.split("?")[0].split("/") if len(part) == 40), COMMIT)

    def log_message(self, *_):
        pass


def sha1(file):
    return hashlib.sha1(file.read_bytes()).hexdigest()


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub with an empty folder to serve, and empty caches of what it serves."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        server.folder, server.breaks, server.sent = tmp_path / "repository", NEVER, []
        server.folder.mkdir()
        address = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "ENDPOINT", address)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE",
                            address + "/{repo_id}/resolve/{revision}/{filename}")
        monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 1_000)  # smaller than the file, as with real weights
        monkeypatch.setattr(file_download, "time", SimpleNamespace(sleep=lambda seconds: None))  # before it tries again
        monkeypatch.setattr(datasets.config, "HF_ENDPOINT", address)
        monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "datasets"))
        HfFileSystem.clear_instance_cache()  # they remember what was where
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": .01})
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
    """The disk has room for 3,000 bytes of each file that the hub serves, and then meets `error`."""
    class Disk:
        def __init__(self, file):
            self.file, self.room = file, 3_000

        def write(self, content):
            self.file.write(content[:self.room])
            self.room -= len(content)
            if self.room < 0:
                raise error()

        def __getattr__(self, name):
            return getattr(self.file, name)

    http_get = file_download.http_get
    with pytest.MonkeyPatch.context() as meanwhile:
        meanwhile.setattr(file_download, "http_get", lambda url, file, **more: http_get(url, Disk(file), **more))
        yield


def refusal(call, *args, **kwargs):
    """What is said in place of a result: one sentence on one line."""
    with pytest.raises(CompanionError) as caught:
        call(*args, **kwargs)
    message = str(caught.value)
    assert "\n" not in message and ": " in message and message.endswith("."), message
    return message


def kept(hub):
    """The names under which the hub's cache has files; none of them is half a file."""
    names, contents = (list(Path(constants.HF_HUB_CACHE).rglob(place)) for place in ("snapshots/*/*", "blobs/*"))
    served = {file.read_bytes() for file in hub.folder.iterdir()}
    assert all(file.read_bytes() in served for file in [*names, *contents])
    return {file.name for file in names}


# models


def loaded(model):
    """Whether org/model now loads, with the very weights that were saved."""
    fetched = models.load("org/model", device="cpu")
    weights = fetched.net.state_dict()
    return fetched.revision == COMMIT and all(torch.equal(weights[name], weight)
                                              for name, weight in model.net.state_dict().items())


def test_a_model_that_breaks_off_is_not_half_there_and_the_next_run_fetches_the_rest(hub, model):
    hub.breaks = WEIGHTS, 5_000, 99
    message = refusal(models.load, "org/model", device="cpu")
    assert message.startswith("org/model is not in this machine's hub cache and could not be fetched (RemoteProtocol")
    assert 5_000 in {start for name, start in hub.sent if name == WEIGHTS}  # it did try to go on
    assert WEIGHTS not in kept(hub)

    hub.breaks = NEVER
    assert loaded(model)
    others = [name for name, _ in hub.sent if name != WEIGHTS]
    assert sorted(others) == ["config.json", "tokenizer.json", "tokenizer_config.json"]  # each once: what came stays


def test_a_model_fetched_in_part_is_not_taken_for_one_when_the_network_is_gone(hub, model, monkeypatch):
    hub.breaks = WEIGHTS, 5_000, 99
    refusal(models.load, "org/model", device="cpu")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert "connect to the network and unset HF_HUB_OFFLINE" in refusal(models.load, "org/model", device="cpu")


def test_a_line_that_breaks_for_a_moment_is_taken_up_where_it_was(hub, model):
    hub.breaks = WEIGHTS, 5_000, 1
    assert loaded(model)
    assert [start for name, start in hub.sent if name == WEIGHTS] == [0, 5_000]


@pytest.mark.parametrize("error", FULL, ids=["by http", "by xet"])
def test_a_model_on_a_full_disk_is_fetched_once_there_is_room(hub, model, error):
    with full_disk(error):
        message = refusal(models.load, "org/model", device="cpu")
    assert message.startswith("The disk is full, org/model is fetched in part: free some space, or set HF_HOME")
    assert WEIGHTS not in kept(hub)
    assert loaded(model)


# data sets of the hub


@pytest.fixture
def cola(hub):
    """GLUE's CoLA, as the hub serves it: a function that says whether it can be had, whole."""
    table = pd.DataFrame({"sentence": [f"Sentence {n} of them." for n in range(500)], "label": [0, 1] * 250})
    table.to_parquet(hub.folder / SPLIT)
    (hub.folder / "README.md").write_text("---\nconfigs:\n- config_name: cola\n  data_files:\n  - split: train\n"
                                          "    path: train-*\n---\n")
    return lambda: data.hub("hub_glue", "cola", "train").to_pandas().equals(table)


def test_a_data_set_that_breaks_off_is_had_by_the_next_run(hub, cola):
    hub.breaks = SPLIT, 3_000, 99
    message = refusal(cola)
    assert message.startswith("nyu-mll/glue (cola, train) could not be had from the model hub (")
    assert message.endswith("): connect to the network and run again, or use --data mini.")
    assert SPLIT not in kept(hub)
    hub.breaks = NEVER
    assert cola()


@pytest.mark.parametrize("error", FULL, ids=["by http", "by xet"])
def test_a_data_set_on_a_full_disk_is_had_once_there_is_room(hub, cola, error):
    with full_disk(error):
        assert refusal(cola).startswith("The disk is full, nyu-mll/glue could not be kept: free some space, or set HF")
    assert SPLIT not in kept(hub)
    assert cola()


def test_a_disk_that_is_full_when_a_data_set_is_unpacked(hub, cola, monkeypatch):
    def write(*_):
        raise FULL[0]()

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(LocalFileOpener, "write", write, raising=False)  # what datasets writes its tables by
        assert refusal(cola).startswith("The disk is full, nyu-mll/glue could not be kept: free some space, or set HF")
    assert cola()
    assert [start for name, start in hub.sent if name == SPLIT] == [0]  # what was fetched is not fetched again


# files from elsewhere: tests/test_data.py shows what is said and that nothing is left


@pytest.fixture
def text(hub, tmp_path, monkeypatch):
    """A published file, its address in a sources.toml of its own."""
    published = b"The published text.\n" * 5_000
    (hub.folder / "text.txt").write_bytes(published)
    monkeypatch.delenv("COMPANION_DATA", raising=False)
    monkeypatch.setattr(paths, "CACHE", tmp_path / "companion")
    monkeypatch.setattr(paths, "SOURCES", tmp_path / "sources.toml")
    paths.SOURCES.write_text(f"""[[set.files]]\nname = "set/text.txt"\nurl = "{constants.ENDPOINT}/text.txt"
                                 sha256 = "{hashlib.sha256(published).hexdigest()}"\n""")
    return published


def test_a_file_that_breaks_off_is_had_by_the_next_run(hub, text):
    hub.breaks = "text.txt", 70_000, 1
    assert "broke off and was thrown away: run again" in refusal(data.path, "set/text.txt")
    assert data.path("set/text.txt").read_bytes() == text


def test_a_file_on_a_full_disk_is_had_once_there_is_room(hub, text, monkeypatch):
    class Disk(io.FileIO):
        def write(self, content):
            if self.tell() + len(content) > 70_000:
                raise FULL[0]()
            return super().write(content)

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(pooch.downloaders, "open", Disk, raising=False)
        assert "could not be written to" in (message := refusal(data.path, "set/text.txt"))
        assert "the disk is full: free some space" in message
    assert not [file for file in paths.CACHE.rglob("*") if file.is_file()]
    assert data.path("set/text.txt").read_bytes() == text
