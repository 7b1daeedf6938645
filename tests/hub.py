"""A stand-in for the model hub: what --profile paper fetches, one model of each kind, with random weights.

Nothing of the hub can be fetched where tests run. So this makes the files that a model's repository has (data/hub.toml
says where that was looked up): config.json, model.safetensors under the names that the checkpoint's keys have, a
tokenizer of its kind with its special tokens. Shapes are small, words those of tests/tiny.py."""

import hashlib
import json
from functools import partial
from pathlib import Path

import torch
import transformers
from safetensors.torch import save_file
from tokenizers import Tokenizer, pre_tokenizers, processors, trainers
from tokenizers.models import BPE

from lib.engine import models
from tests import tiny

COMMON = dict(
    hidden_size=48,
    num_hidden_layers=2,
    num_attention_heads=12,
    intermediate_size=64,
    max_position_embeddings=514,
)
SHAPES = {  # by family, with what its checkpoints' configurations have of their own
    "bert": COMMON,
    "Llama": COMMON,
    "gpt2": dict(n_embd=48, n_layer=2, n_head=12, n_positions=514),
    "roberta": COMMON | dict(type_vocab_size=1, bos_token_id=0, pad_token_id=1, eos_token_id=2),
    "albert": COMMON | dict(embedding_size=16, bos_token_id=2, eos_token_id=3, pad_token_id=0),
    "SmolLM2": COMMON | dict(num_key_value_heads=4, tie_word_embeddings=True),
}
MODELS = [
    "google-bert/bert-base-uncased",
    "openai-community/gpt2",
    "FacebookAI/roberta-base",
    "albert/albert-base-v2",
    "meta-llama/Llama-2-7b-hf",
    "HuggingFaceTB/SmolLM2-135M",
]  # one of each kind
CLASSES = {
    "bert": "BertForPreTraining",
    "gpt2": "GPT2LMHeadModel",
    "roberta": "RobertaForMaskedLM",
    "albert": "AlbertForMaskedLM",
    "Llama": "LlamaForCausalLM",
    "SmolLM2": "LlamaForCausalLM",
}
TIED = {
    "cls.predictions.decoder.weight",
    "cls.predictions.decoder.bias",
    "lm_head.decoder.weight",
    "lm_head.decoder.bias",
    "predictions.decoder.weight",
}  # not in the checkpoints


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
            torch.nn.init.normal_(weight, std=0.2)
    net.config.architectures = [CLASSES[family]]
    (place / "config.json").write_text(net.config.to_json_string())
    weights = {
        key: weight.detach().half().contiguous()
        for key, weight in _as_on_the_hub(family, net).items()
    }
    save_file(weights, place / "model.safetensors", metadata={"format": "pt"})
    tokenizer.backend_tokenizer.save(str(place / "tokenizer.json"))
    (place / "tokenizer_config.json").write_text(json.dumps(settings))


def _as_on_the_hub(family: str, net) -> dict[str, torch.Tensor]:
    """The weights under the names of the published checkpoints: old names, no prefix, buffers, tied ones left out."""
    tied = {"lm_head.weight"} if net.config.tie_word_embeddings else set()
    weights = {key: weight for key, weight in net.state_dict().items() if key not in TIED | tied}
    if family == "bert":  # as TensorFlow called them
        for new, old in (
            ("LayerNorm.weight", "LayerNorm.gamma"),
            ("LayerNorm.bias", "LayerNorm.beta"),
        ):
            weights = {key.replace(new, old): weight for key, weight in weights.items()}
    if family == "gpt2":
        weights = {key.removeprefix("transformer."): weight for key, weight in weights.items()}
        n = net.config.n_positions
        weights |= {
            f"h.{layer}.attn.bias": torch.ones(1, 1, n, n).tril()
            for layer in range(net.config.n_layer)
        }
    if family in ("roberta", "albert"):
        weights[f"{family}.embeddings.position_ids"] = torch.arange(
            net.config.max_position_embeddings
        )[None]
    if family == "albert":
        weights["predictions.decoder.bias"] = weights["predictions.bias"].clone()
    return weights


def _learned(family) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """The pieces of the tiny model's tokenizer, and the merges that make them where there are some."""
    learned = json.loads(tiny._backend(family)[0])["model"]
    return learned["vocab"], [tuple(pair) for pair in learned.get("merges", ())]


def _wordpiece():
    tokenizer = transformers.BertTokenizer(vocab=_learned("bert")[0], do_lower_case=True)
    return tokenizer, {"do_lower_case": True, "model_max_length": 512}


def _byte_level(family="gpt2", kind=transformers.GPT2Tokenizer, positions=1_024):
    vocabulary, merges = _learned(family)
    return kind(vocab=vocabulary, merges=merges), {"model_max_length": positions}


def _unigram():
    words = [piece for piece in _learned("bert")[0] if piece.isalpha()]  # letters are among them
    scored = {f"▁{word}": -5.0 - i / 1_000 for i, word in enumerate(words)} | dict.fromkeys(
        ["▁", *"".join(words)], -20.0
    )
    vocabulary = [(token, 0.0) for token in ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")] + list(
        scored.items()
    )
    return transformers.AlbertTokenizer(vocab=vocabulary), {"model_max_length": 512}


def _llama():
    learner = Tokenizer(BPE())
    learner.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Metaspace(), pre_tokenizers.Punctuation()]
    )
    learner.train_from_iterator(
        tiny.SENTENCES, trainers.BpeTrainer(vocab_size=400, show_progress=False)
    )
    learned = json.loads(learner.to_str())["model"]
    pieces = [
        "<unk>",
        "<s>",
        "</s>",
        *(f"<0x{byte:02X}>" for byte in range(256)),
        *learned["vocab"],
    ]
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
    token = dict.fromkeys(["bos_token", "eos_token", "unk_token"], "<|endoftext|>")
    return _byte_level()[0], {
        "tokenizer_class": "GPT2Tokenizer",
        "model_max_length": 8_192,
        **token,
    }


TOKENIZERS = {
    "bert": _wordpiece,
    "gpt2": _byte_level,
    "albert": _unigram,
    "Llama": _llama,
    "SmolLM2": _smol,
    "roberta": partial(_byte_level, "roberta", transformers.RobertaTokenizer, 512),
}
