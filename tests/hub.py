"""A stand-in for the model hub: what --profile paper fetches, one model of each kind, with random weights.

Nothing of the hub can be fetched where tests run. So this makes the files that a model's repository has (data/hub.toml
says where that was looked up): config.json, model.safetensors under the names that the checkpoint's keys have, a
tokenizer of its kind with its special tokens. Shapes are small, texts and words the repository's own.
"""

import hashlib
import json
import re
from collections import Counter
from functools import cache
from pathlib import Path

import torch
import transformers
from safetensors.torch import save_file
from tokenizers import Tokenizer, pre_tokenizers, processors, trainers
from tokenizers.models import BPE

from lib import paths
from lib.engine import models
from lib.text import data

COMMON = dict(hidden_size=48, num_hidden_layers=2, num_attention_heads=12, intermediate_size=64,
              max_position_embeddings=514)
SHAPES = {  # by family, with what its checkpoints' configurations have of their own
    "bert": COMMON, "Llama": COMMON, "gpt2": dict(n_embd=48, n_layer=2, n_head=12, n_positions=514),
    "roberta": COMMON | dict(type_vocab_size=1, bos_token_id=0, pad_token_id=1, eos_token_id=2),
    "albert": COMMON | dict(embedding_size=16, bos_token_id=2, eos_token_id=3, pad_token_id=0),
    "SmolLM2": COMMON | dict(num_key_value_heads=4, tie_word_embeddings=True),
}
MODELS = ["google-bert/bert-base-uncased", "openai-community/gpt2", "FacebookAI/roberta-base", "albert/albert-base-v2",
          "meta-llama/Llama-2-7b-hf", "HuggingFaceTB/SmolLM2-135M"]  # one of each kind
CLASSES = {"bert": "BertForPreTraining", "gpt2": "GPT2LMHeadModel", "roberta": "RobertaForMaskedLM",
           "albert": "AlbertForMaskedLM", "Llama": "LlamaForCausalLM", "SmolLM2": "LlamaForCausalLM"}
TIED = {"cls.predictions.decoder.weight", "cls.predictions.decoder.bias", "lm_head.decoder.weight",
        "lm_head.decoder.bias", "predictions.decoder.weight"}  # not in the checkpoints


def snapshot(folder: Path, hub_id: str) -> Path:
    """Where a model's files go: the hub's cache names them by the commit, the pinned one or a made-up one."""
    home = folder / "hub" / f"models--{hub_id.replace('/', '--')}"
    commit = models.pinned(hub_id) or hashlib.sha1(hub_id.encode()).hexdigest()
    (home / "refs").mkdir(parents=True, exist_ok=True)
    (home / "refs" / "main").write_text(commit)
    return home / "snapshots" / commit


def save(folder: Path, hub_id: str):
    """A model in `folder`, which HF_HOME may then name."""
    place = snapshot(folder, hub_id)
    place.mkdir(parents=True)
    family = next(name for name in CLASSES if hub_id.split("/")[1].startswith(name))
    net_class, (tokenizer, settings) = getattr(transformers, CLASSES[family]), TOKENIZERS[family]()
    shape = SHAPES[family] | {"vocab_size": len(tokenizer)}
    if family == "gpt2":
        shape |= dict.fromkeys(["bos_token_id", "eos_token_id"], tokenizer.eos_token_id)
    torch.manual_seed(0)
    net = net_class(net_class.config_class(**shape))
    for weight in net.parameters():
        if weight.dim() > 1:  # large enough to matter
            torch.nn.init.normal_(weight, std=.2)
    net.config.architectures = [CLASSES[family]]
    (place / "config.json").write_text(net.config.to_json_string())
    weights = {key: weight.detach().half().contiguous() for key, weight in _as_on_the_hub(family, net).items()}
    save_file(weights, place / "model.safetensors", metadata={"format": "pt"})
    tokenizer.backend_tokenizer.save(str(place / "tokenizer.json"))
    (place / "tokenizer_config.json").write_text(json.dumps(settings))


def _as_on_the_hub(family: str, net) -> dict[str, torch.Tensor]:
    """The weights under the names of the published checkpoints: old names, no prefix, buffers, tied ones left out."""
    tied = {"lm_head.weight"} if net.config.tie_word_embeddings else set()
    weights = {key: weight for key, weight in net.state_dict().items() if key not in TIED | tied}
    if family == "bert":  # as TensorFlow called them
        for new, old in (("LayerNorm.weight", "LayerNorm.gamma"), ("LayerNorm.bias", "LayerNorm.beta")):
            weights = {key.replace(new, old): weight for key, weight in weights.items()}
    if family == "gpt2":
        weights = {key.removeprefix("transformer."): weight for key, weight in weights.items()}
        n = net.config.n_positions
        weights |= {f"h.{layer}.attn.bias": torch.ones(1, 1, n, n).tril() for layer in range(net.config.n_layer)}
    if family in ("roberta", "albert"):
        weights[f"{family}.embeddings.position_ids"] = torch.arange(net.config.max_position_embeddings)[None]
    if family == "albert":
        weights["predictions.decoder.bias"] = weights["predictions.bias"].clone()
    return weights


@cache
def texts() -> tuple[str, ...]:
    """Every word of data/lists, a few times, and the texts of data/demo."""
    listed, written = ([str(cell) for file in sorted(folder.glob("*.csv"))
                        for cell in read(file.stem).to_numpy().ravel()]
                       for folder, read in ((paths.LISTS, data.words), (paths.DEMO, data.demo)))
    return (*[f"the {word}" for word in dict.fromkeys(listed) for _ in range(3)], *written, *data.demo("prose"))


@cache
def words() -> Counter:
    return Counter(word for text in texts() for word in re.findall(r"\w+|[^\w\s]", text.lower()))


def _numbered(vocabulary) -> dict[str, int]:
    return {token: i for i, token in enumerate(vocabulary)}


def _wordpiece():
    letters = sorted(set("".join(words())) | set("abcdefghijklmnopqrstuvwxyz0123456789"))
    vocabulary = ["[PAD]", *(f"[unused{n}]" for n in range(99)), "[UNK]", "[CLS]", "[SEP]", "[MASK]",  # at 100 to 103
                  *dict.fromkeys([*letters, *(f"##{letter}" for letter in letters), *words()])]
    tokenizer = transformers.BertTokenizer(vocab=_numbered(vocabulary), do_lower_case=True)
    return tokenizer, {"do_lower_case": True, "model_max_length": 512}


def _merged(pre_tokenizer, alphabet=()) -> tuple[list[str], list[tuple[str, str]]]:
    """The pieces of a byte-pair encoding, in their order, and the merges that make them."""
    learner = Tokenizer(BPE())
    learner.pre_tokenizer = pre_tokenizer
    learner.train_from_iterator(texts(), trainers.BpeTrainer(vocab_size=8_000, initial_alphabet=list(alphabet),
                                                             show_progress=False))
    learned = json.loads(learner.to_str())["model"]
    return list(learned["vocab"]), [tuple(pair) for pair in learned["merges"]]


@cache
def _bytes() -> tuple[list[str], list[tuple[str, str]]]:
    return _merged(pre_tokenizers.ByteLevel(add_prefix_space=False), sorted(pre_tokenizers.ByteLevel.alphabet()))


def _byte_level(kind=transformers.GPT2Tokenizer, first=(), last="<|endoftext|>", positions=1_024):
    pieces, merges = _bytes()
    tokenizer = kind(vocab=_numbered([*first, *pieces, last]), merges=merges)
    return tokenizer, {"model_max_length": positions}


def _roberta():
    return _byte_level(transformers.RobertaTokenizer, ["<s>", "<pad>", "</s>", "<unk>"], "<mask>", 512)


def _unigram():
    letters = sorted(set("".join(words())))
    scored = {f"▁{word}": -5. - i / 1_000 for i, (word, _) in enumerate(words().most_common())}
    scored |= {letter: -20. for letter in ["▁", *letters]} | {f"▁{letter}": -19. for letter in letters
                                                            if f"▁{letter}" not in scored}
    vocabulary = [(token, 0.) for token in ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")] + list(scored.items())
    return transformers.AlbertTokenizer(vocab=vocabulary), {"model_max_length": 512}


def _llama():
    pieces, merges = _merged(pre_tokenizers.Sequence([pre_tokenizers.Metaspace(), pre_tokenizers.Punctuation()]))
    fallback = [f"<0x{byte:02X}>" for byte in range(256)]
    vocabulary = ["<unk>", "<s>", "</s>", *fallback, *pieces]
    tokenizer = transformers.LlamaTokenizer(vocab=_numbered(vocabulary), merges=merges)
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)])
    return tokenizer, {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True, "add_eos_token": False,
                       "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "legacy": False,
                       "model_max_length": 10**30}


def _smol():
    token = dict.fromkeys(["bos_token", "eos_token", "unk_token"], "<|endoftext|>")
    return _byte_level()[0], {"tokenizer_class": "GPT2Tokenizer", "model_max_length": 8_192, **token}


TOKENIZERS = {"bert": _wordpiece, "gpt2": _byte_level, "roberta": _roberta, "albert": _unigram, "Llama": _llama,
              "SmolLM2": _smol}
