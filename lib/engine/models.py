"""One way in for every model: a name from the registry (data/models.toml), a local folder, or a hub id.

    models.load("mini-bert")                     # shipped with the repository
    models.load("bert-base")                     # a paper's, from the hub, at a pinned commit
    models.load("./my-bert", attention="eager")  # a folder
    models.load("org/name", revision="v1")       # any hub model of a known family, at a commit, branch or tag
    models.load("null"), models.load("null@3")   # untrained, of mini-bert's shape, drawn from the seed 0 or 3

Weights are read from safetensors alone, in float32 unless told, frozen, in eval mode. None is made up but those of the
untrained ones: a checkpoint that lacks one is refused."""

import contextlib
import difflib
import hashlib
import json
import re
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import torch
from huggingface_hub import errors as hub_errors, snapshot_download
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from lib import CompanionError, Lazy, paths
from lib.engine import families
from lib.engine.files import is_full, new_folder, read_toml, replace, sha256

transformers = Lazy("transformers")  # seconds to import: `load` alone needs it
BASE = "companion_base"  # the line of a config.json that names the model which the folder's weights differ from


@dataclass(frozen=True)
class Entry:
    source: str | Path  # a hub id, or a folder
    family: str
    note: str
    fix: str = ""  # what makes a folder that does not ship
    dtype: torch.dtype = torch.float32  # unless asked otherwise
    revision: str = ""  # the hub's commit that is taken; "": the newest
    untrained: bool = False  # the folder's shape and tokenizer, weights drawn from a seed


def _entry(source: str, dtype: str = "float32", **rest) -> Entry:
    """One entry of data/models.toml, its folder as a path."""
    if source.startswith("data/"):
        _, place, name = source.split("/", 2)
        source = {"models": paths.MODELS, "cache": paths.CACHE}[place] / name
    return Entry(source, dtype=getattr(torch, dtype), **rest)


def _registry() -> dict[str, Entry]:
    try:
        return {name: _entry(**entry) for name, entry in read_toml(paths.REGISTRY).items()}
    except (
        TypeError,
        ValueError,
        KeyError,
        AttributeError,
    ):  # an unknown key, a folder that is none
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
CONVERT = (
    "import torch; from safetensors.torch import save_file; save_file({k: v.clone() for k, v in "
    "torch.load('%s', map_location='cpu', weights_only=True).items()}, 'model.safetensors')"
)


@dataclass
class Model:
    """A network and its tokenizer. `revision` says which weights: the hub's commit, or a folder's hash."""

    net: "transformers.PreTrainedModel" = field(repr=False)
    tokenizer: "transformers.PreTrainedTokenizerBase" = field(repr=False)
    name: str
    revision: str

    def __post_init__(self):
        self.family, self.n_heads = self.net.config.model_type, self.net.config.num_attention_heads
        self.anatomy = families.of(self.family, self.name)
        self.is_causal = self.anatomy.is_causal
        # layers that a token passes: in ALBERT these are the same few weights used again and again
        self.n_layers = len(self.anatomy.layers(self.net.base_model))
        # what makes next-sentence logits of sentence vectors, or None; class 0 is "follows"
        self.nsp_head = dict(self.net.named_modules()).get(self.anatomy.next_sentence)
        self.has_nsp = self.nsp_head is not None

    @property
    def device(self) -> torch.device:
        return self.net.device

    @property
    def mask_token(self) -> str:
        if self.tokenizer.mask_token is None:
            raise CompanionError(
                f"{self.name} has no mask token: choose an encoder, such as mini-bert."
            )
        return self.tokenizer.mask_token

    def token_id(self, word: str, inside: bool = True) -> int:
        """Id of a word that the vocabulary holds whole, `inside` a sentence (after a space) or opening it."""
        if not isinstance(word, str) or not word:
            raise CompanionError(
                f"{word!r} is no word: give a text that the vocabulary of {self.name} may hold."
            )
        # to BPE " word" and "word" are two tokens, to WordPiece one: reading the id off a context spares knowing which
        opening, tokens = self.tokenizer(
            ["the", f"the {word}" if inside else word], add_special_tokens=False
        ).input_ids
        tokens = tokens[len(opening) :] if inside else tokens
        if len(tokens) != 1 or tokens[0] == self.tokenizer.unk_token_id:
            pieces = " ".join(self.tokenizer.convert_ids_to_tokens(tokens))
            raise CompanionError(
                f"'{word}' is not one token of {self.name}, which reads it as '{pieces}': "
                "choose a word that its vocabulary holds whole."
            )
        return tokens[0]


def load(
    name, device=None, dtype=None, attention="sdpa", task=None, labels=None, revision=None
) -> Model:
    """Load a registry name, else a folder (what starts with ./ ../ / or ~, or exists), else a hub id.

    device     None: the GPU if there is one; "auto": accelerate spreads a big model over all there is
    dtype      of the weights; None: the registry's, which is float32 but for 7B models
    attention  "sdpa", or "eager" where attention maps are wanted (SDPA returns none)
    task       None: the language model; "sequence-classification": a fine-tuned classifier, or with
               labels=n a language model under a new, random head for n classes
    revision   of a hub model: a commit, branch or tag in place of the pinned one"""
    for given, known in (attention, ("sdpa", "eager")), (task, (None, "sequence-classification")):
        if given not in known:
            raise CompanionError(
                f"models.load does not know '{given}': choose {known[0]} or {known[1]}."
            )
    if dtype is not None and not (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
        raise CompanionError(
            f"Weights cannot be read as {dtype}: choose torch.float32, bfloat16 or float16."
        )
    device = usable_device(device)
    folder, commit = locate(name, revision=revision)
    family = families.of(config_of(folder).get("model_type"), name)
    _check_config(name, config_of(folder), family)
    with _quiet():
        net = _weights(
            name, folder, family, device, dtype or usual_dtype(name), attention, task, labels
        )
        tokenizer = _tokenizer(
            name, locate(base)[0] if (base := base_of(folder)) else folder, net.config
        )
    try:
        net = net if device == "auto" else net.to(device)
    except torch.OutOfMemoryError:
        raise CompanionError(
            f"{name} does not fit {device}: use torch.bfloat16 or device='auto'."
        ) from None
    for (
        key,
        weight,
    ) in (
        net.named_parameters()
    ):  # a NaN may vanish in a fused kernel and leave results that look right
        if not weight.is_meta and not weight.isfinite().all():
            raise CompanionError(
                f"{name} has weights that are infinite or no numbers (in {key}): fetch it again, or "
                "save one whose training went well."
            )
    return Model(net.eval().requires_grad_(False), tokenizer, str(name), commit)


def _check_config(name, config: dict, family: families.Family):
    """Refuse, before any weight is read, what would be read as something that it is not."""
    if "quantization_config" in config:
        raise CompanionError(
            f"{name} has quantised weights, which are not read: give the weights in full precision."
        )
    if config.get("is_decoder") and not family.is_causal:
        raise CompanionError(
            f"{name} is a {family.name} trained as a decoder (is_decoder in its config.json), which "
            "is not supported: choose an encoder, or a decoder such as GPT-2."
        )
    width = next((config[key] for key in ("hidden_size", "n_embd", "dim") if key in config), 0)
    heads = next(
        (config[key] for key in ("num_attention_heads", "n_head", "n_heads") if key in config), 1
    )
    is_whole = isinstance(heads, int) and heads > 0
    if not is_whole or isinstance(width, int) and width % heads and not config.get("head_dim"):
        raise CompanionError(
            f"{name} has {heads} heads for a width of {width}, which they do not divide: mend its "
            "config.json, or save the model again."
        )


def usable_device(device=None) -> str:
    """The name of a device that this machine has: "auto", the one that was asked for, or what suits if none was."""
    device = str(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    kind, _, number = device.partition(":")
    count = {
        "auto": 1,
        "cpu": 1,
        "cuda": torch.cuda.device_count() if torch.cuda.is_available() else 0,
        "mps": int(torch.backends.mps.is_available()),
    }
    if kind not in count or number and not number.isdecimal() or kind == "auto" and number:
        raise CompanionError(f"There is no device '{device}': use cpu, cuda, mps or auto.")
    if int(number or 0) >= count[kind]:
        fix = (
            "write cpu"
            if kind == "cpu"
            else "choose cpu"
            if not count[kind]
            else f"choose {kind}:0"
        )
        raise CompanionError(f"This machine has no device '{device}': {fix}, or leave it out.")
    return device


def usual_dtype(name) -> torch.dtype:
    """What `load` reads a model's weights in when it is not told."""
    return REGISTRY[name].dtype if name in REGISTRY else torch.float32


def pinned(hub_id: str) -> str | None:
    """The commit of a hub model that `load` takes unless told; None: it has no pin, and the newest is taken."""
    return (
        next((entry.revision for entry in REGISTRY.values() if entry.source == hub_id), None)
        or None
    )


def locate(name, as_base: bool = False, revision: str | None = None) -> tuple[Path, str]:
    """The folder that holds a model, and which weights are in it: the hub's full commit, or the files' hash.
    as_base: a model that others are saved as differences from. revision: of a hub model, in place of the pinned one."""
    if not isinstance(name, (str, Path)) or not str(name):
        raise CompanionError(
            f"{name!r} is no model: give a name such as mini-bert, a ./folder or a hub id."
        )
    if draw := draw_of(name):
        if revision:
            raise CompanionError(
                f"{name} is drawn from a seed and has no revision: write null@3 for another draw."
            )
        return _shape(*draw)
    source = REGISTRY[name].source if name in REGISTRY else name
    if (
        isinstance(source, Path)
        or source.startswith(("/", "./", "../", "~"))
        or Path(source).is_dir()
    ):
        folder, commit = Path(source).expanduser(), None
        if not folder.is_dir():
            fix = REGISTRY[name].fix if name in REGISTRY else ""
            raise CompanionError(
                f"{name} is not on this machine yet: {fix}."
                if fix
                else f"There is no folder {folder}: check it, or name {' or '.join(REGISTRY)}."
            )
        if revision:
            raise CompanionError(
                f"{name} is a folder, it has no revision '{revision}': name a model of the hub."
            )
    elif "/" in source:
        folder = _fetch(source, revision or pinned(source))
        commit = folder.name  # the hub's cache keeps each commit in a folder called so
        if not revision and not pinned(source):  # shown once a model
            warnings.warn(
                f"{source} has no pinned revision, its newest is {commit}: name that one to get it again.",
                stacklevel=2,
            )
    else:
        close = " or ".join(difflib.get_close_matches(source, REGISTRY, cutoff=0.5))
        raise CompanionError(
            f"There is no model '{source}'{f' (is it {close}?)' if close else ''}: name one "
            f"of {', '.join(REGISTRY)}, or give a ./folder or a hub id such as org/name."
        )
    files = [*_weight_files(name, folder), folder / "config.json", *folder.glob("tokenizer.json")]
    known = commit or _short_hash(b"".join(map(sha256, files)))
    if base := base_of(folder):  # the weights are the two folders' together
        if as_base:
            raise CompanionError(
                f"{name} is itself a difference, from {base}: name a full model as the base."
            )
        known = _short_hash((known + locate(base, True)[1]).encode())
    return folder, known


def draw_of(name) -> tuple[Path, int] | None:
    """The folder whose shape an untrained network has, and its seed: 3 of "null@3". None: it is another model."""
    bare, at, seed = str(name).partition("@")
    if bare not in REGISTRY or not REGISTRY[bare].untrained:
        return None
    if at and not re.fullmatch("[0-9]{1,9}", seed):
        raise CompanionError(
            f"{name} names no draw: write {bare}@ and a whole number, such as {bare}@3."
        )
    return REGISTRY[bare].source, int(seed or 0)


def _shape(shipped: Path, seed: int) -> tuple[Path, str]:
    """A folder with a shipped model's config and tokenizer, without its weights and its record; what names the draw."""
    folder = paths.CACHE / "models" / f"untrained-{shipped.name}"
    contents = {
        file.name: file.read_bytes()
        for file in sorted([shipped / "config.json", *shipped.glob("tokenizer*")])
    }
    for name, content in contents.items():
        if not (folder / name).is_file() or (folder / name).read_bytes() != content:
            replace(folder / name, content)
    return (
        folder,
        f"untrained {shipped.name}, seed {seed}, {_short_hash(b''.join(contents.values()))}",
    )


def _weight_files(name, folder: Path) -> list[Path]:
    if not (folder / "config.json").is_file():
        raise CompanionError(
            f"{folder} has no config.json: give the folder that save_pretrained wrote."
        )
    if str(folder).encode("utf-8", "replace").decode("utf-8") != str(
        folder
    ):  # letters that are no Unicode
        readable = str(folder).encode("utf-8", "replace").decode()
        raise CompanionError(
            f"The path {readable} has letters that are not UTF-8: rename the folder."
        )
    weights, pickles = sorted(folder.glob("model*.safetensors")), sorted(folder.glob("*.bin"))
    for file in weights:
        if not file.is_file():
            raise CompanionError(f"{file} is a link to nothing: fetch or save the model again.")
    if (folder / "model.safetensors.index.json").is_file():
        _check_shards(name, folder)
    if pickles and not weights:
        raise CompanionError(
            f"{folder} holds only pickled weights, refused since opening them can run code: "
            f'convert them, in that folder, by python -c "{CONVERT % pickles[0].name}"'
        )
    if not weights:
        raise CompanionError(
            f"{name} has no model.safetensors: save it with save_pretrained, or convert it."
        )
    return weights


def _check_shards(name, folder: Path):
    """Refuse a model of several files of which one is missing."""
    file = folder / "model.safetensors.index.json"
    try:
        index = json.loads(file.read_text(encoding="utf-8"))
        shards = sorted(set(index["weight_map"].values()))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise CompanionError(f"{file} is damaged: fetch or save {name} again.") from None
    missing = [shard for shard in shards if not (folder / shard).is_file()]
    if missing:
        raise CompanionError(
            f"{name} lacks {len(missing)} of its {len(shards)} files of weights ({missing[0]}, ...): "
            "fetch or save it again."
        )


def _short_hash(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()[:12]


def base_of(folder: Path) -> str | None:
    """The name of the model that a folder's weights are a difference from; None if they are all there."""
    return config_of(folder).get(BASE)


def config_of(folder: Path) -> dict:
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except ValueError:  # no JSON, or no UTF-8
        config = None
    if not isinstance(config, dict):
        raise CompanionError(f"{folder / 'config.json'} is damaged: fetch or save the model again.")
    return config


def save_difference(model, base: str, folder: Path, **record) -> dict:
    """Write what differs from `base` in float16, whole or not at all; returns training.json: base, record, torch.
    Such a folder's config.json names its base (BASE): `load` takes the other tensors and the tokenizer from there, and
    refuses what neither has, what does not fit and what no one needs."""
    whole, state = tensors_in(locate(base, as_base=True)[0]), model.net.state_dict()
    names = [
        name for name, _ in model.net.named_parameters()
    ]  # a tied weight under its first name alone
    names += [name for name, _ in model.net.named_buffers() if name in state]
    differ = {
        name: state[name].cpu().half().contiguous()
        for name in names
        if name not in whole or not torch.equal(state[name].cpu().float(), whole[name].float())
    }
    config = model.net.config.to_diff_dict() | {
        "architectures": [type(model.net).__name__],
        BASE: base,
    }
    record = {
        "base": base,
        "base_revision": model.revision,
        **record,
        "torch": torch.__version__.split("+")[0],
    }
    with new_folder(Path(folder)) as new:
        save_file(differ, new / "model.safetensors", metadata={"format": "pt"})
        for file, content in {"config.json": config, "training.json": record}.items():
            (new / file).write_text(json.dumps(content, indent=1, default=str) + "\n")
    return record


def tensors_in(folder: Path) -> dict[str, torch.Tensor]:
    try:
        return {
            name: tensor
            for file in sorted(folder.glob("model*.safetensors"))
            for name, tensor in load_file(file).items()
        }
    except SafetensorError as error:
        raise CompanionError(
            f"The weights in {folder} are damaged: fetch or save them again."
        ) from error


def _fetch(hub_id, revision) -> Path:
    """The folder of a hub model in the local cache, fetched first where it is not there yet."""
    try:
        return Path(snapshot_download(hub_id, revision=revision, allow_patterns=WANTED))
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
    except (
        Exception
    ) as error:  # no network, a proxy, a hub that is down: however the client words it
        if is_full(error):
            raise CompanionError(
                f"The disk is full, {hub_id} is fetched in part: free some space, or set HF_HOME to "
                "a folder on another disk, and run again."
            ) from error
        at = f" at revision {revision}" if revision else ""
        raise CompanionError(
            f"{hub_id}{at} is not in this machine's hub cache and could not be fetched "
            f"({type(error).__name__}): connect to the network and unset HF_HUB_OFFLINE, "
            "or use a shipped model such as mini-bert."
        ) from error


def _weights(name, folder, family, device, dtype, attention, task, labels):
    """The network with every weight read from the folder; with `labels`, all but the new classifier's."""
    classes = [getattr(transformers, kind) for kind in family.classes]
    if task:
        classes = [
            transformers.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING[
                transformers.CONFIG_MAPPING[family.name]
            ]
        ]
    try:
        config = transformers.AutoConfig.from_pretrained(folder, trust_remote_code=False)
    except Exception as error:  # values of the wrong kind: however transformers words it
        raise CompanionError(
            f"The config.json of {name} is not that of a {family.name}: fetch or save it again."
        ) from error
    if (
        config.pad_token_id or 0
    ) >= config.vocab_size:  # an added token: padding is masked, and another one serves
        config.pad_token_id = None
    for act in ("hidden_act", "activation_function"):
        if (
            getattr(config, act, "") == "gelu_new"
        ):  # the same function, in one kernel where that takes seven
            setattr(config, act, "gelu_pytorch_tanh")
    if labels:
        config.num_labels = labels
    if draw := draw_of(name):
        if (
            task
            and not labels
            and not any("ForSequenceClassification" in kind for kind in config.architectures)
        ):
            raise CompanionError(
                f"{name} is untrained and no classifier: name its labels, or choose another."
            )
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(draw[1])
            return classes[0]._from_config(config, attn_implementation=attention).to(dtype)
    options = dict(
        config=config,
        dtype=dtype,
        attn_implementation=attention,
        use_safetensors=True,
        device_map="auto" if device == "auto" else None,
        output_loading_info=True,
    )
    source, base, own = folder, base_of(folder), set()
    if base:
        whole, different = tensors_in(locate(base)[0]), tensors_in(folder)
        for key in whole.keys() & different.keys():
            if whole[key].shape != different[key].shape:
                raise CompanionError(
                    f"{key} has the shape {list(different[key].shape)} in {folder} and "
                    f"{list(whole[key].shape)} in its base {base}: name the base that fits."
                )
        source, own, options["state_dict"] = None, set(different), whole | different
    for kind in classes:
        try:
            net, report = kind.from_pretrained(source, **options)
        except (SafetensorError, RuntimeError) as error:
            raise CompanionError(
                f"The weights of {name} are damaged or do not fit its config.json: "
                "fetch or save them again."
            ) from error
        body = kind.base_model_prefix + "."  # what is outside of it, a new classifier adds
        missing = sorted(
            key for key in report["missing_keys"] if not labels or key.startswith(body)
        )
        unused = sorted(own & set(report["unexpected_keys"])) if not labels else []
        if not missing and not unused:
            return net
    if not missing:
        raise CompanionError(
            f"{name} differs from {base} in {len(unused)} weights that {type(net).__name__} has not "
            f"({unused[0]}, ...): load it with the task it was saved for."
        )
    raise CompanionError(
        f"{name} lacks {len(missing)} weights of {type(net).__name__} ({missing[0]}, ...): "
        "load it with the task it was saved for, or save it with that head."
    )


def _tokenizer(name, folder, config):
    """The model's own tokenizer; transformers would make up an empty one where there is none."""
    there = any((folder / file).is_file() for file in VOCABULARIES)
    try:
        tokenizer = there and transformers.AutoTokenizer.from_pretrained(
            folder, trust_remote_code=False
        )
    except Exception as error:  # of tokenizers and transformers: however they word it
        raise CompanionError(
            f"The tokenizer of {name} is damaged: put its tokenizer.json there again."
        ) from error
    if not there or not tokenizer.is_fast:
        raise CompanionError(
            f"{name} has no fast tokenizer of its own: put its tokenizer.json there."
        )
    beyond = [token for token, i in tokenizer.get_vocab().items() if i >= config.vocab_size]
    if beyond == [tokenizer.pad_token]:  # copies of LLaMA: padding is masked, so any token serves
        tokenizer.pad_token = tokenizer.eos_token
    elif beyond:
        raise CompanionError(
            f"The tokenizer of {name} has {len(beyond)} tokens ('{beyond[0]}', ...) beyond the "
            f"{config.vocab_size} that its embedding has: put the tokenizer there that it was trained "
            "with."
        )
    return prepare(tokenizer, config)


def prepare(tokenizer, config):
    """Pad on the right, with the end token if need be; mark a pair's segments; keep to the positions."""
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
    """Silence transformers' bars and loading report: what the report would warn of is raised here instead."""
    log = transformers.utils.logging
    level, bars = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity_error()
    log.disable_progress_bar()
    try:
        yield
    finally:
        log.set_verbosity(level)
        if bars:
            log.enable_progress_bar()
