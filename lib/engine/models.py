"""One way in for every model: a name from the registry, a local folder, or a hub id.

    models.load("mini-bert")                                        # shipped with the repository
    models.load("bert-base")                                        # a paper's, from the hub or its cache
    models.load("./my-bert", attention="eager")                     # a folder
    models.load("org/name", device="auto", dtype=torch.bfloat16)    # any hub model of a known family

Weights are read from safetensors alone, in float32 unless told, tied where the architecture ties them,
frozen, in eval mode. None is ever made up: a checkpoint that lacks one is refused.
"""

import contextlib
import difflib
import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path

import torch
import transformers
from huggingface_hub import errors as hub_errors
from huggingface_hub import snapshot_download
from safetensors import SafetensorError

from lib import CompanionError, paths
from lib.engine import difference, limit
from lib.engine.files import is_full
from lib.training import smollm2


@dataclass(frozen=True)
class Entry:
    """One line of the registry: `source` is a hub id, or the path of a shipped folder."""
    source: str | Path
    family: str
    note: str
    mend: str = ""  # what makes a folder that does not ship
    dtype: torch.dtype = torch.float32  # unless asked otherwise


REGISTRY = {
    "mini-bert": Entry(paths.MODELS / "mini-bert", "bert", "shipped, made by lib/training/loop.py"),
    "mini-bert-nli": Entry(paths.MODELS / "mini-bert-nli", "bert", "shipped, made by lib/training/nli.py"),
    **{f"mini-bert-{way}": Entry(paths.MODELS / f"mini-bert-{way}", "bert", "shipped, made by lib/training/debias.py")
       for way in ("cda", "dropout")},
    "mini-roberta": Entry(paths.MODELS / "mini-roberta", "roberta", "shipped, made by lib/training/loop.py"),
    "mini-albert": Entry(paths.MODELS / "mini-albert", "albert", "shipped, made by lib/training/loop.py"),
    "mini-gpt2": Entry(paths.MODELS / "mini-gpt2", "gpt2", "shipped, made by lib/training/loop.py"),
    **{f"seed{n}": Entry(paths.CACHE / "models" / f"seed{n}", "bert", "mini-bert trained from another seed",
                         f"train it by python -m lib.training train bert --seed {n} --text data/cache/pretrain "
                         f"--out data/cache/models/seed{n} --minutes 14, on a GPU") for n in (1, 2)},
    "bert-base": Entry("google-bert/bert-base-uncased", "bert", "Bias A-head, Projective, Counteracts"),
    "bert-base-nli": Entry(paths.CACHE / "nli" / f"bert-base-nli{limit.suffix()}", "bert", "Projective; to be made",
                           "make it on a GPU by python -m lib.training nli make --model bert-base"),
    **{f"bert-base-{way}": Entry(paths.CACHE / "debias" / f"bert-base-{way}", "bert", "Bias A-head Fig. 5; to be made",
                                 f"make it on a GPU by python -m lib.training debias {way} --model bert-base, which "
                                 "wants a text: see lib/training/debias.py") for way in ("cda", "dropout")},
    "bert-large": Entry("google-bert/bert-large-uncased", "bert", "Bias A-head Fig. 5, Counteracts"),
    "gpt2": Entry("openai-community/gpt2", "gpt2", "Bias A-head (its GPT-2 small), Counteracts"),
    "gpt2-medium": Entry("openai-community/gpt2-medium", "gpt2", "Counteracts"),
    "gpt2-large": Entry("openai-community/gpt2-large", "gpt2", "Counteracts"),
    "roberta-base": Entry("FacebookAI/roberta-base", "roberta", "Counteracts; no uncased one exists"),
    "roberta-large": Entry("FacebookAI/roberta-large", "roberta", "Counteracts; no uncased one exists"),
    "albert-base": Entry("albert/albert-base-v2", "albert", "Counteracts, which does not say v1 or v2"),
    smollm2.NAME: Entry(smollm2.FOLDER, "llama", "a chat model from PyPI, optional", smollm2.MEND),
    # in bfloat16 13.5 GB, half of what float32 takes: with what a batch needs, a GPU of 24 GB holds it
    **{name.lower(): Entry(f"meta-llama/{name}-hf", "llama", "Bias A-head Fig. 6-7; gated", dtype=torch.bfloat16)
       for name in ("Llama-2-7b", "Llama-2-7b-chat")},
}

# A family's classes with a language-model head, the fullest first: the first whose weights are all there is
# taken, so a BERT saved without its next-sentence head becomes a BertForMaskedLM, not one with a random head.
LANGUAGE_MODELS = {"bert": ("BertForPreTraining", "BertForMaskedLM"), "roberta": ("RobertaForMaskedLM",),
                   "albert": ("AlbertForMaskedLM",), "distilbert": ("DistilBertForMaskedLM",),
                   "gpt2": ("GPT2LMHeadModel",), "llama": ("LlamaForCausalLM",)}

# What is fetched from a hub repository: never its pickles, TensorFlow or ONNX copies.
WANTED = ["config.json", "model*.safetensors*", "tokenizer*", "vocab*", "merges.txt", "spiece.model",
          "special_tokens_map.json", "added_tokens.json"]
VOCABULARIES = ("tokenizer.json", "tokenizer.model", "vocab.txt", "vocab.json", "spiece.model")
CONVERT = ("import torch; from safetensors.torch import save_file; save_file({k: v.clone() for k, v in "
           "torch.load('%s', map_location='cpu', weights_only=True).items()}, 'model.safetensors')")


@dataclass
class Model:
    """A network and its tokenizer. `revision` says which weights: the hub's commit, or a folder's hash."""
    net: transformers.PreTrainedModel = field(repr=False)
    tokenizer: transformers.PreTrainedTokenizerBase = field(repr=False)
    name: str
    revision: str

    @property
    def family(self) -> str:
        return self.net.config.model_type

    @property
    def n_layers(self) -> int:
        """Layers that a token passes; in ALBERT these are the same few weights used again and again."""
        return self.net.config.num_hidden_layers * getattr(self.net.config, "inner_group_num", 1)

    @property
    def n_heads(self) -> int:
        return self.net.config.num_attention_heads

    @property
    def device(self) -> torch.device:
        return self.net.device

    @property
    def is_causal(self) -> bool:
        return self.family in ("gpt2", "llama")

    @property
    def has_nsp(self) -> bool:
        return isinstance(self.net, transformers.BertForPreTraining)

    @property
    def mask_token(self) -> str:
        if self.tokenizer.mask_token is None:
            raise CompanionError(f"{self.name} has no mask token: choose an encoder, such as mini-bert.")
        return self.tokenizer.mask_token

    def token_id(self, word: str, inside: bool = True) -> int:
        """Id of a word that the vocabulary holds whole, `inside` a sentence (after a space) or opening it."""
        def ids(text):
            return self.tokenizer(text, add_special_tokens=False).input_ids

        # to BPE these are two tokens, to WordPiece one: reading the id off a context spares knowing which
        found = ids("the " + word)[len(ids("the")):] if inside else ids(word)
        if len(found) != 1 or found[0] == self.tokenizer.unk_token_id:
            pieces = " ".join(self.tokenizer.convert_ids_to_tokens(found))
            raise CompanionError(f"'{word}' is not one token of {self.name}, which reads it as '{pieces}': "
                                 "choose a word that its vocabulary holds whole.")
        return found[0]


def load(name, device=None, dtype=None, attention="sdpa", task=None, labels=None) -> Model:
    """Load a registry name, else a folder (what starts with ./ ../ / or ~, or exists), else a hub id.

    device     None: the GPU if there is one; "auto": accelerate spreads a big model over all there is
    dtype      of the weights, whatever the file holds; None: the registry's, which is float32 but for 7B models
    attention  "sdpa", or "eager" where attention maps are wanted (SDPA returns none)
    task       None: the language model; "sequence-classification": a fine-tuned classifier, or with
               labels=n a language model under a new, random head for n classes
    """
    for given, known in (attention, ("sdpa", "eager")), (task, (None, "sequence-classification")):
        if given not in known:
            raise CompanionError(f"models.load does not know '{given}': choose {known[0]} or {known[1]}.")
    device = str(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise CompanionError(f"There is no GPU for device '{device}': use device='cpu'.")

    folder, revision = locate(name)
    family = json.loads((folder / "config.json").read_text()).get("model_type")
    if family not in LANGUAGE_MODELS:
        raise CompanionError(f"{name} is of the architecture '{family}', which is not supported: "
                             f"choose a model of {', '.join(LANGUAGE_MODELS)}.")
    with _quiet():
        net = _weights(name, folder, family, device, dtype or usual_dtype(name), attention, task, labels)
        base = difference.base_of(folder)
        tokenizer = _tokenizer(name, locate(base)[0] if base else folder, net.config)
    try:
        net = net if device == "auto" else net.to(device)
    except torch.OutOfMemoryError:
        raise CompanionError(f"{name} does not fit {device}: use torch.bfloat16 or device='auto'.") from None
    return Model(net.eval().requires_grad_(False), tokenizer, str(name), revision)


def usual_dtype(name) -> torch.dtype:
    """What `load` reads a model's weights in when it is not told."""
    return REGISTRY[name].dtype if name in REGISTRY else torch.float32


def locate(name, as_base: bool = False) -> tuple[Path, str]:
    """The folder that holds a model, and the revision of what is in it; `as_base`: a model that others differ from."""
    source, commit = REGISTRY[name].source if name in REGISTRY else name, None
    if isinstance(source, Path) or source.startswith(("/", "./", "../", "~")) or Path(source).is_dir():
        folder = Path(source).expanduser()
        if not folder.is_dir() and name in REGISTRY and REGISTRY[name].mend:
            raise CompanionError(f"{name} is not on this machine yet: {REGISTRY[name].mend}.")
        if not folder.is_dir():
            raise CompanionError(f"There is no folder {folder}: check it, or name {' or '.join(REGISTRY)}.")
    elif "/" in source:
        folder = _fetch(source)
        commit = folder.name  # the hub's cache keeps each commit in a folder called so
    else:
        close = " or ".join(difflib.get_close_matches(source, REGISTRY, cutoff=0.5))
        raise CompanionError(f"There is no model '{source}'{f' (is it {close}?)' if close else ''}: name one "
                             f"of {', '.join(REGISTRY)}, or give a ./folder or a hub id such as org/name.")
    if not (folder / "config.json").is_file():
        raise CompanionError(f"{folder} has no config.json: give the folder that save_pretrained wrote.")
    weights, pickles = sorted(folder.glob("model*.safetensors")), sorted(folder.glob("*.bin"))
    if pickles and not weights:
        raise CompanionError(f"{folder} holds only pickled weights, refused since opening them can run code: "
                             f"convert them, in that folder, by python -c \"{CONVERT % pickles[0].name}\"")
    if not weights:
        raise CompanionError(f"{name} has no model.safetensors: save it with save_pretrained, or convert it.")
    revision = commit or _digest([*weights, folder / "config.json", *folder.glob("tokenizer.json")])
    if base := difference.base_of(folder):  # the weights are the two folders' together
        if as_base:
            raise CompanionError(f"{name} is itself a difference, from {base}: name a full model as the base.")
        revision = "sha256:" + hashlib.sha256((revision + locate(base, True)[1]).encode()).hexdigest()[:12]
    return folder, revision


def _fetch(hub_id) -> Path:
    """The folder of a hub model in the local cache, fetched first where it is not there yet."""
    try:
        return Path(snapshot_download(hub_id, allow_patterns=WANTED))
    except hub_errors.GatedRepoError:
        raise CompanionError(f"{hub_id} is gated: accept its licence at https://huggingface.co/{hub_id}, "
                             "then run `hf auth login`.") from None
    except (hub_errors.RepositoryNotFoundError, hub_errors.HFValidationError):
        raise CompanionError(f"The hub has no model {hub_id}: check it, or run `hf auth login`.") from None
    except Exception as error:  # no network, a proxy, a hub that is down: however the client words it
        if is_full(error):
            raise CompanionError(f"The disk is full, {hub_id} is fetched in part: free some space, or set HF_HOME to "
                                 "a folder on another disk, and run again.") from error
        raise CompanionError(f"{hub_id} is not in this machine's hub cache and could not be fetched "
                             f"({type(error).__name__}): connect to the network and unset HF_HUB_OFFLINE, "
                             "or use a shipped model such as mini-bert.") from error


def _digest(files) -> str:
    whole = hashlib.sha256()
    for file in files:
        with open(file, "rb") as stream:
            whole.update(hashlib.file_digest(stream, "sha256").digest())
    return "sha256:" + whole.hexdigest()[:12]


def _weights(name, folder, family, device, dtype, attention, task, labels):
    """The network with every weight read from the folder; with `labels`, all but the new classifier's."""
    options = dict(dtype=dtype, attn_implementation=attention, use_safetensors=True, trust_remote_code=False,
                   device_map="auto" if device == "auto" else None, output_loading_info=True)
    options |= dict(num_labels=labels) if labels else {}
    source, base, own = folder, difference.base_of(folder), set()
    if base:
        merged, own = difference.merge(folder, locate(base)[0])
        kinds = dict(num_labels=options.pop("num_labels")) if labels else {}
        config = transformers.AutoConfig.from_pretrained(folder, **kinds)
        source, options = None, options | dict(config=config, state_dict=merged)
    classifier = transformers.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING[transformers.CONFIG_MAPPING[family]]
    for head in (classifier,) if task else (getattr(transformers, name) for name in LANGUAGE_MODELS[family]):
        try:
            net, report = head.from_pretrained(source, **options)
        except (SafetensorError, RuntimeError) as error:
            raise CompanionError(f"The weights of {name} are damaged or do not fit its config.json: "
                                 "fetch or save them again.") from error
        new = ("classifier.", "pre_classifier.", "score.") if labels else ()  # what a classifier adds
        missing = sorted(key for key in report["missing_keys"] if not key.startswith(new))
        unused = sorted(own & set(report["unexpected_keys"])) if not labels else []
        if not missing and not unused:
            return net
    if not missing:
        raise CompanionError(f"{name} differs from {base} in {len(unused)} weights that {type(net).__name__} has not "
                             f"({unused[0]}, ...): load it with the task it was saved for.")
    raise CompanionError(f"{name} lacks {len(missing)} weights of {type(net).__name__} ({missing[0]}, ...): "
                         "load it with the task it was saved for, or save it with that head.")


def _tokenizer(name, folder, config):
    """The model's own tokenizer; transformers would make up an empty one where there is none."""
    there = any((folder / file).is_file() for file in VOCABULARIES)
    tokenizer = there and transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    if not there or not tokenizer.is_fast or len(tokenizer) > config.vocab_size:
        raise CompanionError(f"{name} has no fast tokenizer of its own: put its tokenizer.json there.")
    return prepare(tokenizer, config)


def prepare(tokenizer, config):
    """Pad on the right, with the end token if need be; mark a pair's segments; keep to the positions."""
    tokenizer.padding_side = "right"
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    if config.pad_token_id is None:
        config.pad_token_id = tokenizer.pad_token_id
    if config.model_type in ("bert", "albert"):  # a plain tokenizers file would leave a pair's segments out
        tokenizer.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    unused = config.pad_token_id + 1 if config.model_type == "roberta" else 0  # its positions start there
    tokenizer.model_max_length = min(tokenizer.model_max_length, config.max_position_embeddings - unused)
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
