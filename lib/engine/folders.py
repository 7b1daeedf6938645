"""Where a model's files are, and which ones count.

    folders.locate("bert-base")      (its folder in the hub's cache, the commit), fetched if needed
    folders.locate("./my-bert")      (the folder, a hash of its weights, config and tokenizer)
    folders.locate("null@3")         (a folder of the shape and tokenizer alone, which draw it is)
    folders.save_difference(model, "mini-bert", folder)     what a fine-tuning changed, and of what

Weights are read from safetensors files alone: opening a pickle can run code. models.py makes
networks of what is found here.
"""

import difflib
import hashlib
import json
import os
import re
import warnings
from dataclasses import dataclass
from pathlib import Path

import torch
from huggingface_hub import HfApi, errors as hub_errors, snapshot_download
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from lib import CompanionError, paths
from lib.engine import families
from lib.engine.files import check_writable, is_full, new_folder, read_toml, replace, sha256

BASE = "companion_base"  # the key of config.json that names the model which the weights differ from


@dataclass(frozen=True)
class Entry:
    """A model of the registry."""

    source: str | Path  # a hub id, or a folder
    family: str
    note: str
    fix: str = ""  # what makes the folder, if it is not bundled
    dtype: torch.dtype = torch.float32  # unless the caller wants another
    revision: str = ""  # the hub's commit that is taken; "": the newest
    untrained: bool = False  # the folder's shape and tokenizer, weights drawn from a seed


def _entry(source: str, dtype: str = "float32", **rest) -> Entry:
    """One entry of data/models.toml, its folder as a path."""
    if source.startswith("data/"):
        _, place, name = source.split("/", 2)
        roots = {"models": paths.MODELS, "cache": paths.CACHE}
        source = roots[place] / name
    return Entry(source, dtype=getattr(torch, dtype), **rest)


def _registry() -> dict[str, Entry]:
    """All entries of data/models.toml, by name."""
    registry = {}
    try:
        for name, entry in read_toml(paths.REGISTRY).items():
            seeds = entry.pop("seeds", 0)
            if not seeds:
                registry[name] = _entry(**entry)
            for seed in range(seeds):
                numbered = entry | {"source": entry["source"].format(seed=seed)}
                registry[f"{name}{seed}"] = _entry(**numbered)
        return registry
    except (TypeError, ValueError, KeyError, AttributeError):
        # an unknown or missing key, a value of the wrong kind, a folder outside of data/
        raise CompanionError(
            f"{paths.REGISTRY} has an entry that is none: restore it with "
            "`git checkout data/models.toml`."
        ) from None


REGISTRY = _registry()

# What is fetched from a hub repository: never its pickles, TensorFlow or ONNX copies.
WANTED = [
    "config.json",
    "model*.safetensors*",
    "tokenizer*",
    "vocab*",
    "merges.txt",
    "spiece.model",
    "special_tokens_map.json",
    "added_tokens.json",
]
VOCABULARIES = ("tokenizer.json", "tokenizer.model", "vocab.txt", "vocab.json", "spiece.model")


# --------------------------------------------------------------------------------- finding models


def pinned(hub_id: str) -> str | None:
    """The commit of a hub model that `load` takes; None: it has no pin, and the newest is taken."""
    for entry in REGISTRY.values():
        if entry.source == hub_id:
            return entry.revision or None
    return None


def locate(name, as_base: bool = False, revision: str | None = None) -> tuple[Path, str]:
    """The folder that holds a model, and its revision: the hub's full commit, or the files' hash.

    as_base    of a model that others are saved as differences from
    revision   of a hub model, in place of the pinned one
    """
    if not isinstance(name, (str, Path)) or not str(name):
        raise CompanionError(
            f"{name!r} is no model: give a name such as mini-bert, a ./folder or a hub id."
        )
    draw = draw_of(name)
    if draw:
        if revision:
            raise CompanionError(
                f"{name} is drawn from a seed and has no revision: write null@3 for another draw."
            )
        return _shape(*draw)
    source = REGISTRY[name].source if name in REGISTRY else name
    if _is_folder(source):
        folder = _local_folder(name, source, revision)
        known = _hash_of_files(_weight_files(name, folder), folder)
    elif "/" in source:
        folder = _hub_folder(source, revision)
        _weight_files(name, folder)
        known = folder.name  # the hub's cache keeps each commit in a folder of that name
    else:
        close = " or ".join(difflib.get_close_matches(source, REGISTRY, cutoff=0.5))
        suggestion = f" (is it {close}?)" if close else ""
        raise CompanionError(
            f"There is no model '{source}'{suggestion}: name one of {_bundled()}, another of "
            "data/models.toml, a ./folder or a hub id such as org/name."
        )
    base = base_of(folder)
    if base:  # the weights are those of two folders together
        if as_base:
            raise CompanionError(
                f"{name} is itself a difference, from {base}: name a full model as the base."
            )
        _, base_known = locate(base, as_base=True)
        known = _short_hash((known + base_known).encode())
    return folder, known


def _bundled() -> str:
    """The names of the trained models that come with the repository."""
    names = []
    for name, entry in REGISTRY.items():
        is_here = isinstance(entry.source, Path) and entry.source.is_relative_to(paths.MODELS)
        if is_here and not entry.untrained:
            names.append(name)
    return ", ".join(names)


def _is_folder(source: str | Path) -> bool:
    """Whether a source means a folder: it is a path, begins like one, or exists."""
    if isinstance(source, Path):
        return True
    return source.startswith(("/", "./", "../", "~")) or os.path.isdir(source)


def _local_folder(name, source: str | Path, revision: str | None) -> Path:
    """The folder of a model on this machine."""
    folder = Path(os.path.expanduser(source))
    if not os.path.isdir(folder):  # as Path.is_dir, but for names that no disk takes
        fix = REGISTRY[name].fix if name in REGISTRY else ""
        if fix:
            raise CompanionError(f"{name} is not on this machine yet: {fix}.")
        raise CompanionError(f"There is no folder {folder}: check it, or name one of {_bundled()}.")
    if revision:
        raise CompanionError(
            f"{name} is a folder, it has no revision '{revision}': name a model of the hub."
        )
    return folder


def _hub_folder(hub_id: str, revision: str | None) -> Path:
    """The folder of a hub model in the local cache; warns if nothing pins its revision.

    Its config comes first: of a family that is not known no weights are fetched.
    """
    wanted = revision or pinned(hub_id)
    config = config_of(_fetch(hub_id, wanted, ["config.json"]))
    families.of(config.get("model_type"), hub_id)
    folder = _fetch(hub_id, wanted)
    if wanted:
        return folder
    at = ""
    if not any(folder.glob("model*.safetensors")):
        ref = _conversion(hub_id, folder)
        at = f" (at {ref}: its main branch has no safetensors)"
        folder = _fetch(hub_id, ref)
    warnings.warn(
        f"{hub_id} has no pinned revision, its newest is {folder.name}{at}: "
        "name that one to get it again.",
        stacklevel=3,  # who called `locate`
    )
    return folder


CONVERTER = "SFconvertbot"  # the hub's own account, which offers safetensors of pickles


def _conversion(hub_id: str, folder: Path) -> str:
    """Where the safetensors are of a hub model whose main branch has none: refs/pr/N.

    folder   what was fetched of its main branch
    Anyone may open a pull request: only those of the hub's own converter are taken. Out of the
    hub's reach it is one that was fetched before.
    """
    try:
        pulls = HfApi().get_repo_discussions(hub_id, discussion_type="pull_request")
        refs = [pull.git_reference for pull in pulls if pull.author == CONVERTER]
    except Exception:  # as in _fetch
        home = folder.parent.parent / "refs"
        refs = [str(file.relative_to(home)) for file in sorted(home.glob("refs/pr/*"))]
    if not refs:
        raise CompanionError(
            f"{hub_id} has no safetensors on the hub, and pickled weights are refused since "
            "opening them can run code: name a revision that has model.safetensors, or convert "
            "them at https://huggingface.co/spaces/safetensors/convert."
        )
    return refs[-1]  # its first: newer ones come first


def _hash_of_files(weights: list[Path], folder: Path) -> str:
    """A hash of what decides a model's results: its weights, config and tokenizer.

    Where there is no tokenizer.json, the tokenizer is made from the older files of its vocabulary.
    """
    tokenizer = [folder / "tokenizer.json"]
    if not tokenizer[0].is_file():
        older = [*VOCABULARIES, "merges.txt", "tokenizer_config.json"]
        tokenizer = [folder / file for file in older if (folder / file).is_file()]
    files = [*weights, folder / "config.json", *tokenizer]
    return _short_hash(b"".join(sha256(file) for file in files))


def draw_of(name) -> tuple[Path, int] | None:
    """For an untrained network, the folder whose shape it has and its seed: 3 of "null@3".

    None for any other model.
    """
    bare, at, seed = str(name).partition("@")
    if bare not in REGISTRY or not REGISTRY[bare].untrained:
        return None
    if at and not re.fullmatch("[0-9]{1,9}", seed):
        raise CompanionError(
            f"{name} names no draw: write {bare}@ and a whole number, such as {bare}@3."
        )
    return REGISTRY[bare].source, int(seed or 0)


def _shape(bundled: Path, seed: int) -> tuple[Path, str]:
    """An untrained network's folder, and what names the draw.

    The folder holds a bundled model's config and tokenizer, without its weights and its record.
    """
    if not bundled.is_dir():
        raise CompanionError(f"There is no folder {bundled}: restore it with git.")
    folder = paths.CACHE / "models" / f"untrained-{bundled.name}"
    contents = []
    for file in sorted([bundled / "config.json", *bundled.glob("tokenizer*")]):
        content = file.read_bytes()
        contents.append(content)
        copy = folder / file.name
        if not copy.is_file() or copy.read_bytes() != content:
            check_writable(paths.CACHE, "COMPANION_CACHE")
            replace(copy, content)
    known = f"untrained {bundled.name}, seed {seed}, {_short_hash(b''.join(contents))}"
    return folder, known


def _weight_files(name, folder: Path) -> list[Path]:
    """A folder's files of weights; a folder that cannot be read as a model is refused."""
    families.of(config_of(folder).get("model_type"), name)
    weights = _named_weights(folder)
    lacking = [file.name for file in weights if not file.is_file()]
    if lacking or not weights:
        pickles = ""
        if any(folder.glob("*.bin")):
            pickles = ", and pickles are refused since opening them can run code"
        raise CompanionError(
            f"{folder} lacks {', '.join(lacking or ['model.safetensors'])}{pickles}: fetch the "
            "model again, or save it with save_pretrained."
        )
    return weights


def _named_weights(folder: Path) -> list[Path]:
    """The files that a folder's weights are read from: model.safetensors, else all that its index
    names. Others beside them, such as a model_old.safetensors, are never read.
    """
    whole = folder / "model.safetensors"
    index = folder / "model.safetensors.index.json"
    if whole.is_file() or not index.is_file():
        return [whole] if whole.is_file() else []
    try:
        names = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
        return [folder / name for name in sorted(set(names))]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise CompanionError(f"{index} is damaged: fetch or save the model again.") from None


def _short_hash(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()[:12]


def _fetch(hub_id: str, revision: str | None, files: list[str] = WANTED) -> Path:
    """The folder of a hub model in the local cache, its files fetched first where they are not
    there yet.
    """
    try:
        return Path(snapshot_download(hub_id, revision=revision, allow_patterns=files))
    except hub_errors.GatedRepoError:
        raise CompanionError(
            f"{hub_id} is gated: accept its licence at https://huggingface.co/{hub_id}, "
            "then run `hf auth login`."
        ) from None
    except hub_errors.RevisionNotFoundError:
        raise CompanionError(
            f"The hub has no revision {revision} of {hub_id}: name a commit, branch or tag."
        ) from None
    except (hub_errors.RepositoryNotFoundError, hub_errors.HFValidationError):
        raise CompanionError(
            f"The hub has no model {hub_id}: check it, or run `hf auth login`."
        ) from None
    except Exception as error:  # no network, a proxy, a hub that is down: clients raise many kinds
        if is_full(error):
            raise CompanionError(
                f"The disk is full, {hub_id} is fetched in part: free some space, "
                "or set HF_HOME to a folder on another disk, and run again."
            ) from error
        at = f" at revision {revision}" if revision else ""
        raise CompanionError(
            f"{hub_id}{at} is not in this machine's hub cache and could not be fetched "
            f"({type(error).__name__}): connect to the network and unset HF_HUB_OFFLINE, "
            "or use a bundled model such as mini-bert."
        ) from error


# ------------------------------------------------------------------- folders of configs and weights


def config_of(folder: Path) -> dict:
    """The content of a folder's config.json."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CompanionError(
            f"{folder} has no config.json: give the folder that save_pretrained wrote."
        ) from None
    except (ValueError, RecursionError):  # no JSON, no UTF-8, or brackets without end
        config = None
    if not isinstance(config, dict):
        raise CompanionError(f"{folder / 'config.json'} is damaged: fetch or save the model again.")
    return config


def base_of(folder: Path) -> str | None:
    """The name of the model that a folder's weights are a difference from; None: they are whole."""
    return config_of(folder).get(BASE)


def tensors_in(folder: Path) -> dict[str, torch.Tensor]:
    """All tensors of the files that a folder's weights are read from, by name."""
    tensors = {}
    try:
        for file in _named_weights(folder):
            tensors.update(load_file(file))
    except SafetensorError as error:
        raise CompanionError(
            f"The weights in {folder} are damaged: fetch or save them again."
        ) from error
    return tensors


def save_difference(model, base: str, folder: Path, **record) -> dict:
    """Write, in float16, the tensors of a model that differ from those of its base.

    The folder is written whole or not at all, and its config.json names the base (BASE). `load`
    takes the other tensors and the tokenizer from there, and refuses tensors that neither folder
    has, that do not fit, or that the network has not. Returns what training.json holds: base,
    record, torch's version.
    """
    base_folder, _ = locate(base, as_base=True)
    config = model.net.config.to_diff_dict()
    config["architectures"] = [type(model.net).__name__]
    config[BASE] = base
    record = {
        "base": base,
        "base_revision": model.revision,
        **record,
        "torch": torch.__version__.split("+")[0],
    }
    different = _different_tensors(model.net, tensors_in(base_folder))
    with new_folder(Path(folder)) as new:
        save_file(different, new / "model.safetensors", metadata={"format": "pt"})
        for file, content in (("config.json", config), ("training.json", record)):
            (new / file).write_text(json.dumps(content, indent=1, default=str) + "\n")
    return record


def _different_tensors(net, whole: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The tensors of a network, in float16, that are not in `whole` or differ from it."""
    state = net.state_dict()
    names = [name for name, _ in net.named_parameters()]  # a tied weight under one name alone
    names += [name for name, _ in net.named_buffers() if name in state]
    different = {}
    for name in names:
        tensor = state[name].cpu()
        if name not in whole or not torch.equal(tensor.float(), whole[name].float()):
            different[name] = tensor.half().contiguous()
    return different
