"""Fetching: what is pinned, and one sentence, no half file and a next run that gets it all when something breaks.

A server on this machine stands for the model hub, and speaks as much of its language as fetching takes."""

import errno
import hashlib
import json
import re
import threading
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import datasets
import pandas as pd
import pooch
import pytest
import torch
from fsspec.implementations.local import LocalFileOpener
from huggingface_hub import HfFileSystem, constants, file_download
from huggingface_hub.utils import _http

from lib import paths
from lib.engine import models
from lib.text import data
from tests import hub as stand_in
from tests.tiny import disk, refusal, save_tiny

COMMIT = "c" * 40
NEVER = "", 0, 0
WEIGHTS, SPLIT = "model.safetensors", "train-00000-of-00001.parquet"
# How a full disk is met: as the system says it, and in the words of hf_xet, by which the hub serves large files.
FULL = [
    partial(OSError, errno.ENOSPC, "No space left on device"),
    partial(
        RuntimeError,
        "Task error: File reconstruction error: IO Error: No space left on device (os error 28)",
    ),
]


class Hub(BaseHTTPRequestHandler):
    """Serves the files of `server.folder` as those of whatever repository is asked for.

    With `server.breaks = name, size, times`, the line breaks off after `size` bytes of the file `name`, and then before
    the first byte, `times` times in all. `server.sent` notes each file asked for, and from which byte on. Where there
    is a `server.error`, all is answered with that code and reason."""

    def do_GET(self):
        parts = self.path.split("?")[0].split("/")
        self.commit = next((part for part in parts if len(part) == 40), COMMIT)
        file, files = self.server.folder / parts[-1], sorted(self.server.folder.iterdir())
        if self.server.error:
            self.send(b"", self.server.error[0], {"X-Error-Code": self.server.error[1]})
        elif "/tree/" in self.path:
            self.send(
                json.dumps(
                    [
                        {
                            "type": "file",
                            "path": one.name,
                            "size": one.stat().st_size,
                            "oid": sha1(one),
                        }
                        for one in files
                    ]
                ).encode()
            )
        elif self.path.startswith("/api/"):
            siblings = [{"rfilename": one.name} for one in files]
            self.send(
                json.dumps({"id": "org/name", "sha": self.commit, "siblings": siblings}).encode()
            )
        elif not file.is_file():
            self.send(b"", 404, {"X-Error-Code": "EntryNotFound"})
        else:
            self.send_file(file)

    do_HEAD = do_GET

    def send_file(self, file):
        content, end = file.read_bytes(), None
        start = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").split("-")[0])
        if self.command == "GET":
            self.server.sent.append((file.name, start))
            name, size, times = self.server.breaks
            if file.name == name and times:
                end = max(size - start, 0)
                self.server.breaks = name, size, times - 1
        place = (
            {"Content-Range": f"bytes {start}-{len(content) - 1}/{len(content)}"} if start else {}
        )
        self.send(content[start:], 206 if start else 200, {"ETag": f'"{sha1(file)}"'} | place, end)

    def send(self, content, code=200, headers=(), end=None):
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
        server.folder, server.breaks, server.sent, server.error = (
            tmp_path / "repository",
            NEVER,
            [],
            None,
        )
        server.folder.mkdir()
        address = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        for name, value in dict(
            HF_HUB_CACHE=str(tmp_path / "cache"),
            HF_HUB_OFFLINE=False,
            ENDPOINT=address,
            HUGGINGFACE_CO_URL_TEMPLATE=address + "/{repo_id}/resolve/{revision}/{filename}",
            DOWNLOAD_CHUNK_SIZE=1_000,
        ).items():  # smaller than the file, as with real weights
            monkeypatch.setattr(constants, name, value)
        for module in (file_download, _http):  # they wait before they try again
            monkeypatch.setattr(module, "time", SimpleNamespace(sleep=lambda seconds: None))
        for name, value in dict(
            HF_ENDPOINT=address, HF_HUB_OFFLINE=False, HF_DATASETS_CACHE=str(tmp_path / "datasets")
        ).items():
            monkeypatch.setattr(datasets.config, name, value)
        HfFileSystem.clear_instance_cache()  # they remember what was where
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
    """The disk has room for 3,000 bytes of each file that the hub serves, and then meets `error`."""
    http_get = file_download.http_get
    with pytest.MonkeyPatch.context() as meanwhile:
        meanwhile.setattr(
            file_download,
            "http_get",
            lambda url, file, **more: http_get(url, disk(3_000, error())(file.name, "a"), **more),
        )
        yield


def kept(hub):
    """The names under which the hub's cache has files; none of them is half a file."""
    names, contents = (
        list(Path(constants.HF_HUB_CACHE).rglob(place)) for place in ("snapshots/*/*", "blobs/*")
    )
    served = {file.read_bytes() for file in hub.folder.iterdir()}
    assert all(file.read_bytes() in served for file in [*names, *contents])
    return {file.name for file in names}


def loaded(model, name="org/model", commit=COMMIT, **options):
    """Whether a model now loads, with the very weights that were saved."""
    fetched = models.load(name, device="cpu", **options)
    weights = fetched.net.state_dict()
    return fetched.revision == commit and all(
        torch.equal(weights[name], weight) for name, weight in model.net.state_dict().items()
    )


@pytest.mark.filterwarnings("error")
def test_a_model_is_fetched_at_its_pinned_commit_unless_told(hub, model, monkeypatch):
    pins = [entry.revision for entry in models.REGISTRY.values() if isinstance(entry.source, str)]
    assert pins and all(len(pin) == 40 for pin in pins)  # every hub model of the registry
    pin, other = models.pinned("google-bert/bert-base-uncased"), "d" * 40
    for name in ("bert-base", "google-bert/bert-base-uncased"):
        assert loaded(model, name, pin)
    assert loaded(model, "bert-base", other, revision=other)
    assert loaded(model, "org/model", other, revision=other)
    with pytest.warns(
        UserWarning, match=f"org/model has no pinned revision, its newest is {COMMIT}"
    ):
        assert loaded(model)
    assert "is a folder" in refusal(models.load, str(hub.folder), revision=other)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert loaded(model, "bert-base", pin)
    assert f"at revision {'e' * 40} is not in" in refusal(
        models.load, "bert-base", revision="e" * 40
    )


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
        ("a/b/c", 404, "", "no model a/b/c"),
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


def test_a_model_that_breaks_off_is_not_half_there_and_the_next_run_and_the_cache_serve_it(
    hub, model, monkeypatch
):
    hub.breaks = WEIGHTS, 5_000, 99
    assert "org/model is not in this machine's hub cache" in refusal(
        models.load, "org/model", device="cpu"
    )
    assert 5_000 in {start for name, start in hub.sent if name == WEIGHTS}  # it did try to go on
    assert WEIGHTS not in kept(hub)
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(constants, "HF_HUB_OFFLINE", True)
        assert "connect to the network and unset HF_HUB_OFFLINE" in refusal(
            models.load, "org/model", device="cpu"
        )
    hub.breaks = WEIGHTS, 7_000, 1  # for a moment
    assert loaded(model) and hub.sent[-1] == (WEIGHTS, 7_000)
    others = [name for name, _ in hub.sent if name != WEIGHTS]
    assert sorted(others) == [
        "config.json",
        "tokenizer.json",
        "tokenizer_config.json",
    ]  # each once: what came stays
    assert loaded(model)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    assert loaded(model)
    assert "or use a shipped model such as mini-bert" in refusal(models.load, "bert-base")


@pytest.fixture
def cola(hub):
    """GLUE's CoLA, as the hub serves it: a function that says whether it can be had, whole."""
    table = pd.DataFrame(
        {"sentence": [f"Sentence {n} of them." for n in range(500)], "label": [0, 1] * 250}
    )
    table.to_parquet(hub.folder / SPLIT)
    (hub.folder / "README.md").write_text(
        "---\nconfigs:\n- config_name: cola\n  data_files:\n  - split: train\n"
        "    path: train-*\n---\n"
    )
    return lambda: data.hub("hub_glue", "cola", "train").to_pandas().equals(table)


@pytest.mark.parametrize("error", FULL, ids=["by http", "by xet"])
def test_on_a_full_disk_models_and_data_sets_are_had_once_there_is_room(hub, model, cola, error):
    with full_disk(error):
        for call, name in (
            (lambda: models.load("org/model", device="cpu"), "org/model"),
            (cola, "nyu-mll/glue"),
        ):
            assert re.match(
                f"The disk is full, {name} .*free some space, or set HF_HOME", refusal(call)
            )
    assert not {WEIGHTS, SPLIT} & kept(hub)
    assert loaded(model) and cola()


def test_a_data_set_that_breaks_off_or_meets_a_full_disk_is_had_by_the_next_run(
    hub, cola, monkeypatch
):
    hub.breaks = SPLIT, 3_000, 99
    assert re.match(
        r"nyu-mll/glue \(cola, train\) could not .*connect to the network", refusal(cola)
    )
    assert SPLIT not in kept(hub)
    hub.breaks, hub.sent = NEVER, []
    with monkeypatch.context() as meanwhile:  # what datasets writes its tables by
        meanwhile.setattr(LocalFileOpener, "write", Mock(side_effect=FULL[0]()), raising=False)
        assert "The disk is full" in refusal(cola)
    assert cola()
    assert [start for name, start in hub.sent if name == SPLIT] == [
        0
    ]  # what was fetched is not fetched again


PUBLISHED = b"The published text.\n" * 5_000
SHA256 = hashlib.sha256(PUBLISHED).hexdigest()


@pytest.fixture
def source(hub, tmp_path, monkeypatch):
    """A sources.toml that lists the file set/text.txt, at an address that the test may choose, and an empty cache."""
    (hub.folder / "text.txt").write_bytes(PUBLISHED)
    monkeypatch.delenv("COMPANION_DATA", raising=False)
    monkeypatch.setattr(paths, "CACHE", tmp_path / "companion")
    monkeypatch.setattr(paths, "SOURCES", tmp_path / "sources.toml")

    def write(url=f"{constants.ENDPOINT}/text.txt", hashed=True):
        file = [f'url = "{url}"'] * bool(url) + [
            f'sha256 = "{SHA256}"',
            f"bytes = {len(PUBLISHED)}",
        ] * hashed
        paths.SOURCES.write_text(
            "\n".join(
                [
                    "[set]",
                    'title = "A set"',
                    'licence = "ours"',
                    'used_by = ["01"]',
                    "[[set.files]]",
                    'name = "set/text.txt"',
                    *file,
                ]
            )
        )
        return lambda: data.path("set/text.txt")

    return write


def state():
    """How the set is listed, and what is in the cache."""
    listed = data.sources().set_index("name").loc["set", "status"]
    return listed, [file.name for file in paths.CACHE.rglob("*") if file.is_file()]


def test_a_file_is_fetched_once_aloud_and_again_where_the_copy_is_damaged(hub, source, capsys):
    get = source()
    assert state() == ("to fetch", [])
    found = get()
    assert found == paths.CACHE / "sources" / "set" / "text.txt" and found.read_bytes() == PUBLISHED
    assert f"fetching set/text.txt from {constants.ENDPOINT}" in capsys.readouterr().err
    assert get() == found and len(hub.sent) == 1 and state() == ("at hand", ["text.txt"])
    assert capsys.readouterr().err == ""
    found.write_bytes(b"damaged")
    assert state()[0] == "to fetch" and get().read_bytes() == PUBLISHED and len(hub.sent) == 2
    assert "the copy in the cache is damaged" in capsys.readouterr().err
    for hashed in (True, False):
        found.unlink()
        hub.breaks, get = ("text.txt", 70_000, 1), source(hashed=hashed)
        assert "set/text.txt broke off and was thrown away: run again" in refusal(get)
        assert state() == ("to fetch", []) and get().read_bytes() == PUBLISHED
    assert SHA256 in capsys.readouterr().err  # of what came, where none is published


def test_a_file_on_a_full_disk_is_had_once_there_is_room(source, monkeypatch):
    get = source()
    for error, said in (
        (FULL[0](), "the disk is full: free some space"),
        (OSError(errno.EACCES, "as the system says it"), "make that folder writable"),
    ):
        with monkeypatch.context() as meanwhile:
            meanwhile.setattr(pooch.downloaders, "open", disk(70_000, error), raising=False)
            assert f"{said}, or set COMPANION_CACHE" in refusal(get)
        assert state() == ("to fetch", [])
    assert get().read_bytes() == PUBLISHED


def test_what_is_not_the_published_file_or_cannot_be_reached_is_said_and_not_kept(
    hub, source, monkeypatch
):
    assert "out of reach: connect to the network" in refusal(source("http://127.0.0.1:9/text"))
    assert "answers 404: find set/text.txt elsewhere" in refusal(
        source(f"{constants.ENDPOINT}/gone")
    )
    assert "no address of its own: set COMPANION_DATA to a folder" in refusal(source(url=None))
    assert state() == ("not fetchable", [])
    (hub.folder / "text.txt").write_bytes(PUBLISHED[:1_000])
    assert "is not the published file" in refusal(source()) and state() == ("to fetch", [])
    monkeypatch.setenv("COMPANION_DATA", "no/where")
    assert "which is not a folder: correct it or unset it" in refusal(source())


def test_the_given_folder_comes_first_and_must_hold_the_published_files(
    hub, source, tmp_path, monkeypatch, capsys
):
    get, given = source(), tmp_path / "given"
    file = given / "set" / "text.txt"
    file.parent.mkdir(parents=True)
    monkeypatch.setenv("COMPANION_DATA", str(given))
    assert not data.available("set/text.txt") and get().read_bytes() == PUBLISHED
    assert f"set/text.txt is not in {given}: fetching" in capsys.readouterr().err
    file.write_bytes(PUBLISHED)
    assert data.available("set/text.txt") and get() == file
    monkeypatch.setattr(paths, "ROOT", given.parent)
    monkeypatch.setenv("COMPANION_DATA", "given")  # relative to the repository
    assert get() == file and len(hub.sent) == 1
    file.write_bytes(wrong := PUBLISHED.replace(b"published", b"Published", 1))  # of the right size
    said = refusal(get)
    assert (
        all(part in said for part in (str(file), SHA256, hashlib.sha256(wrong).hexdigest()))
        and len(hub.sent) == 1
    )


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
    """Old names of weights, missing prefixes and buffers, an absent pooler; the tokenizer's own special tokens."""
    offline(hub_id)
    names = [name for name, entry in models.REGISTRY.items() if entry.source == hub_id]
    model = models.load(*names or [hub_id], device="cpu")
    around, mask = SPECIAL[model.family] if "Smol" not in hub_id else ([], None)
    ids = model.tokenizer("the nurse").input_ids
    tokens = model.tokenizer.convert_ids_to_tokens(ids)
    assert [token for token in tokens if token in model.tokenizer.all_special_tokens] == around
    assert len(tokens) == len(around) + 2 and model.tokenizer.mask_token == mask
    assert model.has_nsp == (model.family == "bert") and (model.n_layers, model.n_heads) == (2, 12)
    assert model.net.dtype == (torch.bfloat16 if "7b" in hub_id else torch.float32)
    assert model.tokenizer.decode(ids, skip_special_tokens=True).strip().lower() == "the nurse"


def test_a_notebook_runs_to_its_end(offline, cells, tmp_path, monkeypatch):
    """One that is quick on small models; the others get models in the same way."""
    offline("albert/albert-base-v2")
    monkeypatch.delenv("COMPANION_OUT", raising=False)
    monkeypatch.setattr(paths, "BUILD", tmp_path / "build")
    names = cells("10", profile="paper-limit2", data="paper", device="cpu", model="albert-base")
    assert (names["run"].out / "10_coverage.csv").is_file()
