"""One way in for every model: a name from the registry (data/models.toml), a folder, or a hub id.

    models.load("mini-bert")                     # bundled with the repository
    models.load("bert-base")                     # a paper's, from the hub, at a pinned commit
    models.load("./my-bert", attention="eager")  # a folder
    models.load("org/name", revision="v1")       # a hub model at a commit, branch or tag
    models.load("null"), models.load("null@3")   # untrained, of mini-bert's shape, seed 0 or 3

Weights come in float32 unless told otherwise, frozen and in eval mode. Only untrained models have
weights that are made up: a checkpoint that lacks one is refused. folders.py says where its files
are, families.py where the parts of its network.
"""

import contextlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import torch
import transformers

from lib import CompanionError
from lib.engine import families, folders
from lib.engine.files import first_line

TASKS = (None, "sequence-classification")
ATTENTIONS = ("sdpa", "eager")
DTYPES = (torch.float32, torch.bfloat16, torch.float16)


@dataclass
class Model:
    """A network and its tokenizer. It belongs to one thread: masks and hooks change it for all who
    use it meanwhile.

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
        if self.tokenizer.mask_token is None:
            raise CompanionError(
                f"{self.name} has no mask token: choose an encoder, such as mini-bert, with the "
                "tokenizer that it was trained with."
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


def check(model):
    """Refuse what is no loaded model, such as its name or its bare network."""
    if not isinstance(model, Model):
        raise CompanionError(
            f"A {type(model).__name__} is no model: load one, models.load('mini-bert')."
        )


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
    folder, commit = folders.locate(name, revision=revision)
    config = folders.config_of(folder)
    family = families.of(config.get("model_type"), name)
    _check_config(name, config, family)
    request = _Request(
        name=name,
        folder=folder,
        family=family,
        dtype=dtype or _usual_dtype(name),
        attention=attention,
        task=task,
        labels=labels,
        is_spread=device == "auto",
    )
    with _quiet():
        net = _network(request)
        tokenizer = _tokenizer(name, folder, net.config)
    if device != "auto":
        net = _moved(name, net, device)
    _check_weights(name, net)
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
    if dtype is not None and dtype not in DTYPES:
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
    reversing = "use_bidirectional_attention" if family.is_causal else "is_decoder"
    if config.get(reversing):
        raise CompanionError(
            f"{name} is a {family.name} that reads a text the other way ({reversing} in its "
            "config.json), which is not supported: choose one that reads as its family does."
        )


def _moved(name, net, device: str):
    """The network on a device."""
    try:
        return net.to(device)
    except torch.OutOfMemoryError:
        raise CompanionError(
            f"{name} does not fit {device}: use torch.bfloat16 or device='auto'."
        ) from None


def _check_weights(name, net):
    """Refuse weights that are NaN or infinite, or all zero.

    A NaN may vanish in a fused kernel and leave results that look right; in a network of zeros
    every text has the same vector.
    """
    is_blank = True
    for key, weight in net.named_parameters():
        if weight.is_meta:  # accelerate has put it on a disk
            is_blank = False
            continue
        if not weight.isfinite().all():
            raise CompanionError(
                f"{name} has weights that are infinite or no numbers (in {key}): "
                "fetch it again, or save one whose training went well."
            )
        is_blank = is_blank and (weight.dim() < 2 or not weight.any())
    if is_blank:
        raise CompanionError(f"All weights of {name} are zero: fetch it again, or save another.")


def usable_device(device=None) -> str:
    """The name of a device that this machine has: the one asked for, "auto", or the best one."""
    device = str(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    if device == "auto":
        return device
    has = {
        "cpu": 1,
        "cuda": torch.cuda.device_count() if torch.cuda.is_available() else 0,
        "mps": int(torch.backends.mps.is_available()),
    }
    try:
        asked = torch.device(device)
    except RuntimeError:  # torch knows no such name
        asked = torch.device("meta")
    if (asked.index or 0) >= has.get(asked.type, 0):
        there = [kind for kind in has if has[kind]]
        raise CompanionError(
            f"This machine has no device '{device}': choose {' or '.join(there)}, or leave it out."
        )
    return device


def _usual_dtype(name) -> torch.dtype:
    """In which precision a model's weights are read unless told otherwise."""
    return folders.REGISTRY[name].dtype if name in folders.REGISTRY else torch.float32


def bare_class(family: families.Family) -> str:
    """How transformers calls a network of a family that has no head: BertModel."""
    return transformers.MODEL_MAPPING[transformers.CONFIG_MAPPING[family.name]].__name__


# -------------------------------------------------------------------------- networks and tokenizers


def _network(request: _Request):
    """The network with every weight read from the folder.

    With `labels`, the classifier is new and random; an untrained network is drawn from its seed.
    """
    config = _network_config(request)
    classes = _classes(request)
    draw = folders.draw_of(request.name)
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
    if getattr(config, "chunk_size_feed_forward", 0):
        config.chunk_size_feed_forward = 0  # the same function, on all tokens at once
    for key in ("hidden_act", "activation_function"):
        if getattr(config, key, "") == "gelu_new":
            setattr(config, key, "gelu_pytorch_tanh")  # the same function, one kernel for seven
    if request.labels:
        config.num_labels = request.labels
    return config


def _drawn(request: _Request, kind, config, seed: int):
    """An untrained network, its weights drawn from a seed; no other random draw is disturbed."""
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
    base = folders.base_of(request.folder)
    if base:
        source = None
        base_folder, _ = folders.locate(base)
        different = folders.tensors_in(request.folder)
        own = set(different)
        options["state_dict"] = folders.tensors_in(base_folder) | different
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


def _try_class(request: _Request, kind, source: Path | None, options: dict):
    """A network of one class, the weights that it lacks, and those in the files that it has not."""
    if not kind._supports_sdpa:  # MPNet, and Gemma 2 for its caps: the same function, more slowly
        options = options | {"attn_implementation": "eager"}
    try:
        net, report = kind.from_pretrained(source, **options)
    except Exception as error:  # transformers, safetensors and torch raise many kinds
        sizes_differ = isinstance(error, RuntimeError)  # which says no more
        why = "sizes differ" if sizes_differ else first_line(error)
        raise CompanionError(
            f"{request.name} cannot be read as a {kind.__name__} ({why}): fetch or save it again, "
            "its weights together with their config.json."
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


def _tokenizer(name, folder: Path, config):
    """The model's own tokenizer, of a difference its base's; none is made up."""
    base = folders.base_of(folder)
    if base:
        folder, _ = folders.locate(base)
    tokenizer = None
    if any((folder / file).is_file() for file in folders.VOCABULARIES):
        # tokenizers and transformers raise many kinds
        with contextlib.suppress(Exception):
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    if tokenizer is None or not tokenizer.is_fast:
        raise CompanionError(
            f"{name} has no fast tokenizer of its own that can be read: put its tokenizer.json "
            "there."
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
