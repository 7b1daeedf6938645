"""A stand-in for the model hub: one model of each kind that --profile paper fetches.

Nothing can be fetched from the hub where tests run. So this makes the files that a model's
repository has (data/hub.toml says where that was looked up): config.json, model.safetensors with
the keys of the published checkpoint, a tokenizer of its kind with its special tokens. Weights are
random, shapes small, words those of tests/tiny.py.
"""

import hashlib
import json
from functools import partial
from pathlib import Path

import torch
import transformers
from safetensors.torch import save_file
from tokenizers import Tokenizer, pre_tokenizers, processors, trainers
from tokenizers.models import BPE

from lib.engine import folders
from tests import tiny

COMMON = dict(
    hidden_size=48,
    num_hidden_layers=2,
    num_attention_heads=12,
    intermediate_size=64,
    max_position_embeddings=514,
)
# By family, with what is peculiar to the configurations of its checkpoints.
SHAPES = {
    "bert": COMMON,
    "Llama": COMMON,
    "gpt2": dict(n_embd=48, n_layer=2, n_head=12, n_positions=514),
    "roberta": COMMON | dict(type_vocab_size=1, bos_token_id=0, pad_token_id=1, eos_token_id=2),
    "albert": COMMON | dict(embedding_size=16, bos_token_id=2, eos_token_id=3, pad_token_id=0),
    "SmolLM2": COMMON | dict(num_key_value_heads=4, tie_word_embeddings=True),
}
# One of each kind.
MODELS = [
    "google-bert/bert-base-uncased",
    "openai-community/gpt2",
    "FacebookAI/roberta-base",
    "albert/albert-base-v2",
    "meta-llama/Llama-2-7b-hf",
    "HuggingFaceTB/SmolLM2-135M",
]
CLASSES = {
    "bert": "BertForPreTraining",
    "gpt2": "GPT2LMHeadModel",
    "roberta": "RobertaForMaskedLM",
    "albert": "AlbertForMaskedLM",
    "Llama": "LlamaForCausalLM",
    "SmolLM2": "LlamaForCausalLM",
}
# Tied weights, which the checkpoints leave out.
TIED = {
    "cls.predictions.decoder.weight",
    "cls.predictions.decoder.bias",
    "lm_head.decoder.weight",
    "lm_head.decoder.bias",
    "predictions.decoder.weight",
}


def snapshot(folder: Path, hub_id: str) -> Path:
    """Where a model's files go in the hub's cache: in a folder named by the commit.

    The commit is the pinned one, or a made-up one.
    """
    home = folder / "hub" / f"models--{hub_id.replace('/', '--')}"
    commit = folders.pinned(hub_id) or hashlib.sha1(hub_id.encode()).hexdigest()
    (home / "refs").mkdir(parents=True, exist_ok=True)
    (home / "refs" / "main").write_text(commit)
    return home / "snapshots" / commit


def save(folder: Path, hub_id: str):
    """Write a model into `folder`, which HF_HOME may then name."""
    place = snapshot(folder, hub_id)
    place.mkdir(parents=True)
    family = _family_of(hub_id)
    tokenizer, settings = TOKENIZERS[family]()
    net = _network(family, tokenizer)
    weights = {}
    for key, weight in _as_on_the_hub(family, net).items():
        weights[key] = weight.detach().half().contiguous()
    (place / "config.json").write_text(net.config.to_json_string())
    save_file(weights, place / "model.safetensors", metadata={"format": "pt"})
    tokenizer.backend_tokenizer.save(str(place / "tokenizer.json"))
    (place / "tokenizer_config.json").write_text(json.dumps(settings))


def _family_of(hub_id: str) -> str:
    _, name = hub_id.split("/")
    for family in CLASSES:
        if name.startswith(family):
            return family
    raise ValueError(f"{hub_id} is of no family that is made here")


def _network(family: str, tokenizer):
    """A network of random weights, large enough to matter."""
    net_class = getattr(transformers, CLASSES[family])
    shape = SHAPES[family] | {"vocab_size": len(tokenizer)}
    if family == "gpt2":
        shape |= {"bos_token_id": tokenizer.eos_token_id, "eos_token_id": tokenizer.eos_token_id}
    torch.manual_seed(0)
    net = net_class(net_class.config_class(**shape))
    for weight in net.parameters():
        if weight.dim() > 1:
            torch.nn.init.normal_(weight, std=0.2)
    net.config.architectures = [CLASSES[family]]
    return net


def _as_on_the_hub(family: str, net) -> dict[str, torch.Tensor]:
    """The weights with the keys of the published checkpoints.

    These have old names, no prefix, buffers among them, and leave tied weights out.
    """
    left_out = set(TIED)
    if net.config.tie_word_embeddings:
        left_out.add("lm_head.weight")
    weights = {}
    for key, weight in net.state_dict().items():
        if key not in left_out:
            weights[_old_key(family, key)] = weight
    if family == "gpt2":
        n = net.config.n_positions
        for layer in range(net.config.n_layer):
            weights[f"h.{layer}.attn.bias"] = torch.ones(1, 1, n, n).tril()
    if family in ("roberta", "albert"):
        positions = torch.arange(net.config.max_position_embeddings)
        weights[f"{family}.embeddings.position_ids"] = positions[None]
    if family == "albert":
        weights["predictions.decoder.bias"] = weights["predictions.bias"].clone()
    return weights


def _old_key(family: str, key: str) -> str:
    """What a published checkpoint calls a weight."""
    if family == "bert":  # as TensorFlow called them
        key = key.replace("LayerNorm.weight", "LayerNorm.gamma")
        return key.replace("LayerNorm.bias", "LayerNorm.beta")
    if family == "gpt2":
        return key.removeprefix("transformer.")
    return key


def _learned(family) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """The vocabulary of a tiny model's tokenizer, and its merges, if it has some."""
    learned = json.loads(tiny._backend(family))["model"]
    return learned["vocab"], [tuple(pair) for pair in learned.get("merges", ())]


def _wordpiece():
    vocabulary, _ = _learned("bert")
    tokenizer = transformers.BertTokenizer(vocab=vocabulary, do_lower_case=True)
    return tokenizer, {"do_lower_case": True, "model_max_length": 512}


def _byte_level(family="gpt2", kind=transformers.GPT2Tokenizer, positions=1_024):
    vocabulary, merges = _learned(family)
    return kind(vocab=vocabulary, merges=merges), {"model_max_length": positions}


def _unigram():
    """Words that begin with a space, likelier than letters."""
    pieces, _ = _learned("bert")
    words = [piece for piece in pieces if piece.isalpha()]  # letters are among them
    vocabulary = [(token, 0.0) for token in ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")]
    vocabulary += [(f"▁{word}", -5.0 - i / 1_000) for i, word in enumerate(words)]
    vocabulary += [(letter, -20.0) for letter in dict.fromkeys(["▁", *"".join(words)])]
    return transformers.AlbertTokenizer(vocab=vocabulary), {"model_max_length": 512}


def _llama():
    learner = Tokenizer(BPE())
    learner.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Metaspace(), pre_tokenizers.Punctuation()]
    )
    trainer = trainers.BpeTrainer(vocab_size=400, show_progress=False)
    learner.train_from_iterator(tiny.SENTENCES, trainer)
    learned = json.loads(learner.to_str())["model"]
    bytes_spelled = [f"<0x{byte:02X}>" for byte in range(256)]
    pieces = ["<unk>", "<s>", "</s>", *bytes_spelled, *learned["vocab"]]
    tokenizer = transformers.LlamaTokenizer(
        vocab={piece: i for i, piece in enumerate(pieces)},
        merges=[tuple(pair) for pair in learned["merges"]],
    )
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)]
    )
    return tokenizer, {
        "tokenizer_class": "LlamaTokenizer",
        "add_bos_token": True,
        "add_eos_token": False,
        "bos_token": "<s>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
        "legacy": False,
        "model_max_length": 10**30,
    }


def _smol():
    tokenizer, _ = _byte_level()
    return tokenizer, {
        "tokenizer_class": "GPT2Tokenizer",
        "model_max_length": 8_192,
        "bos_token": "<|endoftext|>",
        "eos_token": "<|endoftext|>",
        "unk_token": "<|endoftext|>",
    }


TOKENIZERS = {
    "bert": _wordpiece,
    "gpt2": _byte_level,
    "albert": _unigram,
    "Llama": _llama,
    "SmolLM2": _smol,
    "roberta": partial(_byte_level, "roberta", transformers.RobertaTokenizer, 512),
}
