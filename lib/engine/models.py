"""One way in for every model: a name from the registry (data/models.toml), a folder, or a hub id.

    models.load("mini-bert")                     # bundled with the repository
    models.load("bert-base")                     # a paper's, from the hub, at a pinned commit
    models.load("./my-bert", attention="eager")  # a folder
    models.load("org/name", revision="v1")       # a hub model at a commit, branch or tag
    models.load("null"), models.load("null@3")   # untrained, of mini-bert's shape, seed 0 or 3

Weights are read from safetensors files alone, in float32 unless told otherwise, frozen and in eval
mode. Only untrained models have weights that are made up: a checkpoint that lacks one is refused.
"""

import contextlib
import difflib
import hashlib
import json
import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import torch
import transformers
from huggingface_hub import HfApi, errors as hub_errors, snapshot_download
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from lib import CompanionError, paths
from lib.engine import families
from lib.engine.files import is_full, new_folder, read_toml, replace, sha256

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
# It names no file: whoever pastes it would run what somebody wrote into the name.
CONVERT = (
    "import glob, torch; from safetensors.torch import save_file; save_file({k: v.clone() for k, v "
    "in torch.load(sorted(glob.glob('*.bin'))[0], map_location='cpu', weights_only=True).items()}, "
    "'model.safetensors')"
)
TASKS = (None, "sequence-classification")
ATTENTIONS = ("sdpa", "eager")


@dataclass
class Model:
    """A network and its tokenizer.

    `revision` says which weights these are: the hub's commit, or a hash of a folder's files.
    """

    net: "transformers.PreTrainedModel" = field(repr=False)
    tokenizer: "transformers.PreTrainedTokenizerBase" = field(repr=False)
    name: str
    revision: str

    def __post_init__(self):
        self.family = self.net.config.model_type
        self.n_heads = self.net.config.num_attention_heads
        self.anatomy = families.of(self.family, self.name)
        self.is_causal = self.anatomy.is_causal
        # layers that a token passes: in ALBERT these are the same few weights used again and again
        self.n_layers = len(self.anatomy.layers(self.net.base_model))
        # turns sentence vectors into next-sentence logits, class 0 for "follows"; or None
        self.nsp_head = dict(self.net.named_modules()).get(self.anatomy.next_sentence)
        self.has_nsp = self.nsp_head is not None
        # a bare encoder, such as a sentence encoder, or a classifier has none: see why_no_words
        self.has_vocabulary_head = type(self.net).__name__ in self.anatomy.classes

    @property
    def device(self) -> torch.device:
        return self.net.device

    @property
    def why_no_words(self) -> str:
        """Why this model can say nothing of words, in a sentence; "" where it can.

        What asks for words is not applicable to it then; vectors, and so SEAT and head scores, are.
        """
        if self.has_vocabulary_head:
            return ""
        return (
            f"{self.name} has no vocabulary head, it was saved as a {type(self.net).__name__}: "
            "measure its vectors, or choose a language model."
        )

    @property
    def mask_token(self) -> str:
        if self.tokenizer.mask_token is None and not self.is_causal:
            raise CompanionError(
                f"The tokenizer of {self.name} has no mask token: put the one there that it was "
                "trained with."
            )
        if self.tokenizer.mask_token is None:
            raise CompanionError(
                f"{self.name} has no mask token: choose an encoder, such as mini-bert."
            )
        return self.tokenizer.mask_token

    def token_id(self, word: str, inside: bool = True) -> int:
        """The id of a word that is one token.

        inside   whether the word stands inside a sentence, after a space, or opens it
        """
        if not isinstance(word, str) or not word:
            raise CompanionError(
                f"{word!r} is no word: give a text that the vocabulary of {self.name} may hold."
            )
        # " word" and "word" are two tokens to BPE, one to WordPiece: the id is read off a context
        if inside:
            texts = ["the", f"the {word}"]
            before, whole = self.tokenizer(texts, add_special_tokens=False).input_ids
            tokens = whole[len(before) :]
        else:
            tokens = self.tokenizer(word, add_special_tokens=False).input_ids
        if len(tokens) != 1 or tokens[0] == self.tokenizer.unk_token_id:
            pieces = " ".join(self.tokenizer.convert_ids_to_tokens(tokens))
            raise CompanionError(
                f"'{word}' is not one token of {self.name}, which reads it as '{pieces}': "
                "choose a word that its vocabulary holds whole."
            )
        return tokens[0]


# ---------------------------------------------------------------------------------------- loading


def load(
    name, device=None, dtype=None, attention="sdpa", task=None, labels=None, revision=None
) -> Model:
    """Load a registry name, else a folder (starts with ./ ../ / or ~, or exists), else a hub id.

    device     None: the GPU if there is one; "auto": accelerate spreads a big model over all
               devices
    dtype      of the weights; None: the registry's, which is float32 but for 7B models
    attention  "sdpa", or "eager" where attention maps are needed (SDPA returns none)
    task       None: the language model; "sequence-classification": a fine-tuned classifier, or with
               labels=n a language model under a new, random head for n classes
    revision   of a hub model: a commit, branch or tag in place of the pinned one
    """
    _check_options(dtype, attention, task, labels)
    device = usable_device(device)
    folder, commit = locate(name, revision=revision)
    config = config_of(folder)
    family = families.of(config.get("model_type"), name)
    _check_config(name, config, family)
    request = _Request(
        name=name,
        folder=folder,
        family=family,
        dtype=dtype or usual_dtype(name),
        attention=attention,
        task=task,
        labels=labels,
        is_spread=device == "auto",
    )
    with _quiet():
        net = _network(request)
        tokenizer = _tokenizer(name, _tokenizer_folder(folder), net.config)
    if device != "auto":
        net = _moved(name, net, device)
    _check_finite(name, net)
    _check_precision(name, net)
    _warn_of_zeros(name, net)
    if family.is_causal:
        net.config.use_cache = False  # or every forward keeps the keys and values of all layers
    return Model(net.eval().requires_grad_(False), tokenizer, str(name), commit)


@dataclass(frozen=True)
class _Request:
    """What network `load` has to make."""

    name: str | Path
    folder: Path
    family: families.Family
    dtype: torch.dtype
    attention: str
    task: str | None
    labels: int | None
    is_spread: bool  # over all devices, by accelerate


def _check_options(dtype, attention, task, labels):
    """Refuse values that `load` does not know."""
    for given, known in ((attention, ATTENTIONS), (task, TASKS)):
        if given not in known:
            raise CompanionError(
                f"models.load does not know '{given}': choose {known[0]} or {known[1]}."
            )
    if dtype is not None and not (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
        raise CompanionError(
            f"Weights cannot be read as {dtype}: choose torch.float32, bfloat16 or float16."
        )
    if labels is not None and (type(labels) is not int or labels < 1):
        raise CompanionError(
            f"A classifier cannot have {labels!r} classes: give a whole number from 1, or leave "
            "labels out."
        )


def _check_config(name, config: dict, family: families.Family):
    """Refuse, before any weight is read, a model that would be read as something else."""
    if "quantization_config" in config:
        raise CompanionError(
            f"{name} has quantised weights, which are not read: give the weights in full precision."
        )
    if config.get("is_decoder") and not family.is_causal:
        raise CompanionError(
            f"{name} is a {family.name} trained as a decoder (is_decoder in its config.json), "
            "which is not supported: choose an encoder, or a decoder such as GPT-2."
        )
    if config.get("use_bidirectional_attention") and family.is_causal:
        raise CompanionError(
            f"{name} is a {family.name} that reads in both directions (config.json says so), which "
            "is not supported: choose one that predicts the next token."
        )
    layers = _first_of(config, ("num_hidden_layers", "n_layer", "n_layers"), default=1)
    if isinstance(layers, int) and layers < 1:
        raise CompanionError(
            f"{name} has {layers} layers: mend its config.json, or save the model again."
        )
    width = _first_of(config, ("hidden_size", "n_embd", "dim"), default=0)
    heads = _first_of(config, ("num_attention_heads", "n_head", "n_heads"), default=1)
    if not _divides(heads, width, has_head_size=bool(config.get("head_dim"))):
        raise CompanionError(
            f"{name} has {heads} heads for a width of {width}, which they do not divide: mend its "
            "config.json, or save the model again."
        )


def _first_of(config: dict, keys: tuple[str, ...], default):
    """The value of the first of the keys that a config has: families name one thing differently."""
    for key in keys:
        if key in config:
            return config[key]
    return default


def _divides(heads, width, has_head_size: bool) -> bool:
    """Whether so many heads fit a width, which they must divide unless their size is given."""
    if not isinstance(heads, int) or heads <= 0:
        return False
    if has_head_size or not isinstance(width, int):
        return True
    return width % heads == 0


def _moved(name, net, device: str):
    """The network on a device."""
    try:
        return net.to(device)
    except torch.OutOfMemoryError:
        raise CompanionError(
            f"{name} does not fit {device}: use torch.bfloat16 or device='auto'."
        ) from None


def _check_finite(name, net):
    """Refuse weights that are NaN or infinite.

    A NaN may vanish in a fused kernel and leave results that look right.
    """
    for key, weight in net.named_parameters():
        if not weight.is_meta and not weight.isfinite().all():
            raise CompanionError(
                f"{name} has weights that are infinite or no numbers (in {key}): "
                "fetch it again, or save one whose training went well."
            )


def _warn_of_zeros(name, net):
    """Warn of a network all of whose matrices are zero: every text has the same vector in it."""
    matrices = (weight for weight in net.parameters() if weight.dim() > 1 and not weight.is_meta)
    first = next(matrices, None)
    if first is None or first.any() or any(weight.any() for weight in matrices):
        return
    warnings.warn(
        f"All weights of {name} are zero, no measurement of it means anything: fetch or save it "
        "again.",
        stacklevel=3,  # who called `load`
    )


def _check_precision(name, net):
    """Refuse windows of attention in float64, where padding that sees padding alone becomes NaN.

    transformers' eager mask is the least float64 then, and its softmax runs in float32.
    """
    is_eager = net.config._attn_implementation == "eager"
    has_windows = getattr(net.config, "sliding_window", None)
    if net.dtype == torch.float64 and is_eager and has_windows:
        raise CompanionError(
            f"{name} attends within windows, which float64 breaks: read it as torch.float32."
        )


def usable_device(device=None) -> str:
    """The name of a device that this machine has: the one asked for, "auto", or the best one."""
    if not device:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    device = str(device)
    kind, _, number = device.partition(":")
    counts = {
        "auto": 1,
        "cpu": 1,
        "cuda": torch.cuda.device_count() if torch.cuda.is_available() else 0,
        "mps": int(torch.backends.mps.is_available()),
    }
    is_number = not number or number.isdecimal()
    if kind not in counts or not is_number or (kind == "auto" and number):
        raise CompanionError(f"There is no device '{device}': use cpu, cuda, mps or auto.")
    if int(number or 0) >= counts[kind]:
        if kind == "cpu":
            fix = "write cpu"
        elif not counts[kind]:
            fix = "choose cpu"
        else:
            fix = f"choose {kind}:0"
        raise CompanionError(f"This machine has no device '{device}': {fix}, or leave it out.")
    return device


def usual_dtype(name) -> torch.dtype:
    """In which precision `load` reads a model's weights unless told otherwise."""
    return REGISTRY[name].dtype if name in REGISTRY else torch.float32


def bare_class(family: families.Family) -> str:
    """How transformers calls a network of a family that has no head: BertModel."""
    return transformers.MODEL_MAPPING[transformers.CONFIG_MAPPING[family.name]].__name__


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
        _weight_files(name, folder)  # refuses what cannot be read
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
    return source.startswith(("/", "./", "../", "~")) or Path(source).is_dir()


def _local_folder(name, source: str | Path, revision: str | None) -> Path:
    """The folder of a model on this machine."""
    folder = Path(source).expanduser()
    if not folder.is_dir():
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
    _check_family(hub_id, _fetch(hub_id, wanted, ["config.json"]))
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
            replace(copy, content)
    known = f"untrained {bundled.name}, seed {seed}, {_short_hash(b''.join(contents))}"
    return folder, known


def _weight_files(name, folder: Path) -> list[Path]:
    """A folder's files of weights; a folder that cannot be read as a model is refused."""
    if not (folder / "config.json").is_file():
        raise CompanionError(
            f"{folder} has no config.json: give the folder that save_pretrained wrote."
        )
    readable = str(folder).encode("utf-8", "replace").decode("utf-8")
    if readable != str(folder):  # letters that are no Unicode
        raise CompanionError(
            f"The path {readable} has letters that are not UTF-8: rename the folder."
        )
    _check_family(name, folder)
    for file in sorted(folder.glob("model*.safetensors")):
        if not file.is_file():
            raise CompanionError(f"{file} is a link to nothing: fetch or save the model again.")
    weights = _named_weights(folder)
    if any(folder.glob("*.bin")) and not weights:
        raise CompanionError(
            f"{folder} holds only pickled weights, refused since opening them can run code: "
            f'convert them, in that folder, by python -c "{CONVERT}"'
        )
    if not weights:
        raise CompanionError(
            f"{name} has no model.safetensors: save it with save_pretrained, or convert it."
        )
    return weights


def _check_family(name, folder: Path):
    """Refuse a family that is not known, before anything is said of weights or of fetching them."""
    if (folder / "config.json").is_file():
        families.of(config_of(folder).get("model_type"), name)


def _named_weights(folder: Path) -> list[Path]:
    """The files that a folder's weights are read from: model.safetensors, else all that its index
    names. Others beside them, such as a model_old.safetensors, are never read.

    A model of several files of which one is missing is refused.
    """
    index = folder / "model.safetensors.index.json"
    shards = []
    if index.is_file():
        try:
            names = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
            shards = sorted(set(names))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise CompanionError(f"{index} is damaged: fetch or save the model again.") from None
    missing = [shard for shard in shards if not (folder / shard).is_file()]
    if missing:
        raise CompanionError(
            f"{folder} lacks {len(missing)} of its {len(shards)} files of weights "
            f"({missing[0]}, ...): fetch or save it again."
        )
    whole = folder / "model.safetensors"
    return [whole] if whole.is_file() else [folder / shard for shard in shards]


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
    except ValueError:  # no JSON, or no UTF-8
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


# -------------------------------------------------------------------------- networks and tokenizers


def _network(request: _Request):
    """The network with every weight read from the folder.

    With `labels`, the classifier is new and random; an untrained network is drawn from its seed.
    """
    config = _network_config(request)
    classes = _classes(request)
    draw = draw_of(request.name)
    if draw:
        _, seed = draw
        return _drawn(request, classes[0], config, seed)
    return _read(request, classes, config)


def _classes(request: _Request) -> list:
    """The classes of transformers to try, the fullest first."""
    if request.task:
        config_class = transformers.CONFIG_MAPPING[request.family.name]
        return [transformers.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING[config_class]]
    return [getattr(transformers, name) for name in request.family.classes]


def _network_config(request: _Request):
    """The folder's config as transformers reads it, with what this project changes in it."""
    try:
        config = transformers.AutoConfig.from_pretrained(request.folder, trust_remote_code=False)
    except Exception as error:  # values of the wrong kind: transformers raises many kinds
        raise CompanionError(
            f"The config.json of {request.name} is not that of a {request.family.name}: "
            "fetch or save it again."
        ) from error
    if (config.pad_token_id or 0) >= config.vocab_size:
        config.pad_token_id = None  # an added token; padding is masked, so any other token will do
    for key in ("hidden_act", "activation_function"):
        if getattr(config, key, "") == "gelu_new":
            setattr(config, key, "gelu_pytorch_tanh")  # the same function, one kernel for seven
    if request.labels:
        config.num_labels = request.labels
    return config


def _drawn(request: _Request, kind, config, seed: int):
    """An untrained network, its weights drawn from a seed; no other random draw is disturbed."""
    needs_classifier = request.task and not request.labels
    if needs_classifier and not any(
        "ForSequenceClassification" in name for name in config.architectures
    ):
        raise CompanionError(
            f"{request.name} is untrained and no classifier: name its labels, or choose another."
        )
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        net = kind._from_config(config, attn_implementation=request.attention)
        return net.to(request.dtype)


def _read(request: _Request, classes: list, config):
    """The network of the first class all of whose weights are there, and which uses all of ours.

    Ours: the tensors in the folder of a model that is a difference from a base.
    """
    options = {
        "config": config,
        "dtype": request.dtype,
        "attn_implementation": request.attention,
        "use_safetensors": True,
        "device_map": "auto" if request.is_spread else None,
        "output_loading_info": True,
    }
    source = request.folder
    own = set()
    base = base_of(request.folder)
    if base:
        source = None
        own, options["state_dict"] = _with_base(request.folder, base)
    for kind in classes:
        net, missing, unknown = _try_class(request, kind, source, options)
        unused = [] if request.labels else sorted(own & unknown)
        if not missing and not unused:
            return net
    bare = None if base or request.task else _without_head(request, config, options)
    if bare:
        return bare
    if not missing:
        raise CompanionError(
            f"{request.name} differs from {base} in {len(unused)} weights that "
            f"{type(net).__name__} has not ({unused[0]}, ...): "
            "load it with the task it was saved for."
        )
    raise CompanionError(
        f"{request.name} lacks {len(missing)} weights of {type(net).__name__} ({missing[0]}, ...): "
        "load it with the task it was saved for, or save it with that head."
    )


def _with_base(folder: Path, base: str) -> tuple[set[str], dict[str, torch.Tensor]]:
    """The names of a folder's own tensors, and these together with the others of its base."""
    base_folder, _ = locate(base)
    whole = tensors_in(base_folder)
    different = tensors_in(folder)
    for key in whole.keys() & different.keys():
        if whole[key].shape != different[key].shape:
            raise CompanionError(
                f"{key} has the shape {list(different[key].shape)} in {folder} and "
                f"{list(whole[key].shape)} in its base {base}: name the base that fits."
            )
    return set(different), whole | different


def _try_class(request: _Request, kind, source: Path | None, options: dict):
    """A network of one class, the weights that it lacks, and those in the files that it has not."""
    if not kind._supports_sdpa:  # MPNet, and Gemma 2 for its caps: the same function, more slowly
        options = options | {"attn_implementation": "eager"}
    try:
        net, report = kind.from_pretrained(source, **options)
    except (SafetensorError, RuntimeError) as error:
        raise CompanionError(
            f"The weights of {request.name} are damaged or do not fit its config.json: "
            "fetch or save them again."
        ) from error
    beyond = _of_further_layers(net, report["unexpected_keys"])
    if beyond:
        raise CompanionError(
            f"{request.name} has weights of layers that its config.json leaves out ({beyond[0]}, "
            "...): put the config.json there that it was saved with, or save it again."
        )
    missing = sorted(report["missing_keys"])
    if request.labels:  # a new classifier: its weights are outside of the base model
        body = kind.base_model_prefix + "."
        missing = [key for key in missing if key.startswith(body)]
    return net, missing, set(report["unexpected_keys"])


def _of_further_layers(net, unknown: Iterable[str]) -> list[str]:
    """Those of the weights that a network has not which belong to a layer after its last."""
    modules = dict(net.base_model.named_modules())
    beyond = []
    for key in sorted(unknown):
        path = key.removeprefix(f"{net.base_model_prefix}.")  # a bare encoder's keys have none
        match = re.match(r"(\D+)\.(\d+)\.", path)
        layers = modules.get(match[1]) if match else None
        if isinstance(layers, torch.nn.ModuleList) and int(match[2]) >= len(layers):
            beyond.append(key)
    return beyond


def _without_head(request: _Request, config, options: dict):
    """The bare encoder of files that hold its weights and no head, with its pooler or without it.

    None where they hold anything else: a head that is there in part is damaged, not left out.
    """
    if request.family.is_causal:  # its head is one tensor, and may have been lost
        return None
    kind = transformers.MODEL_MAPPING[type(config)]
    for changed in ({}, {"add_pooling_layer": False}) if request.family.pooler else ({},):
        net, missing, unknown = _try_class(request, kind, request.folder, options | changed)
        weights = [key for key in unknown if not key.endswith("position_ids")]
        heads = [key for key in weights if not key.startswith(request.family.other_heads)]
        if not missing and not heads:
            return net
    return None


def _tokenizer_folder(folder: Path) -> Path:
    """Where a model's tokenizer is: a difference has that of its base."""
    base = base_of(folder)
    if not base:
        return folder
    base_folder, _ = locate(base)
    return base_folder


def _tokenizer(name, folder: Path, config):
    """The model's own tokenizer; transformers would make up an empty one where there is none."""
    has_vocabulary = any((folder / file).is_file() for file in VOCABULARIES)
    tokenizer = None
    if has_vocabulary:
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        except Exception as error:  # tokenizers and transformers raise many kinds
            raise CompanionError(
                f"The tokenizer of {name} is damaged: put its tokenizer.json there again."
            ) from error
    if tokenizer is None or not tokenizer.is_fast:
        raise CompanionError(
            f"{name} has no fast tokenizer of its own: put its tokenizer.json there."
        )
    beyond = [token for token, i in tokenizer.get_vocab().items() if i >= config.vocab_size]
    if beyond == [tokenizer.pad_token]:  # copies of LLaMA: padding is masked, any token will do
        tokenizer.pad_token = tokenizer.eos_token
    elif beyond:
        raise CompanionError(
            f"The tokenizer of {name} has {len(beyond)} tokens ('{beyond[0]}', ...) beyond the "
            f"{config.vocab_size} that its embedding has: put the tokenizer there that it was "
            "trained with."
        )
    return prepare(tokenizer, config)


def prepare(tokenizer, config):
    """Set a tokenizer up for this project, and return it.

    It pads on the right, with the end token if it has no other; marks the segments of a pair where
    the family has them; and knows how many positions the model has.
    """
    tokenizer.padding_side = "right"
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    if config.pad_token_id is None:
        config.pad_token_id = tokenizer.pad_token_id
    family = families.of(config.model_type)
    if family.has_segments:  # a plain tokenizers file would leave a pair's segments out
        tokenizer.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    positions = config.max_position_embeddings - family.unused_positions(config)
    tokenizer.model_max_length = min(tokenizer.model_max_length, positions)
    return tokenizer


@contextlib.contextmanager
def _quiet():
    """Silence transformers' bars and loading report: what it would warn of is raised here."""
    log = transformers.utils.logging
    level = log.get_verbosity()
    has_bars = log.is_progress_bar_enabled()
    log.set_verbosity_error()
    log.disable_progress_bar()
    try:
        yield
    finally:
        log.set_verbosity(level)
        if has_bars:
            log.enable_progress_bar()
