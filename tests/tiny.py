"""Tiny random models of the real classes, one per family: 3 layers, 4 heads, hidden size 32.

Their heads are of size 8, but for families whose heads together may be wider than the hidden size:
there they are of size 16. Windows of attention are shorter than the sentences.

A family has an entry in each of three tables: NETS makes its network, OUTPUT_PROJECTIONS says where
the matrix is that mixes its heads, and TOKENIZERS (without an entry: BERT's) how it reads a text.
"""

import copy
import io
import re
import string
from dataclasses import dataclass
from functools import cache

import pytest
import torch
import transformers
from tokenizers import (
    Tokenizer,
    decoders,
    models as token_models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from companion import claims
from lib import CompanionError
from lib.engine import families, models

FAMILIES = list(families.FAMILIES)
SENTENCES = [
    "the doctor said that she was here .",
    "the nurse said that he was late .",
    "he likes poetry .",
    "a man and a woman met the engineer in the office .",
    "she likes mathematics .",
] * 4
COMMON = dict(vocab_size=400, max_position_embeddings=40)
SHAPE = dict(hidden_size=32, num_hidden_layers=3, num_attention_heads=4, intermediate_size=64)
# What the newer families are known for, in small.
GROUPED = dict(num_key_value_heads=2)  # two heads of queries for each of keys and values
KINDS = ["sliding_attention", "full_attention", "sliding_attention"]
WINDOWS = dict(sliding_window=6, layer_types=KINDS)
# Their usual ones are beyond 400.
SPECIAL = dict(pad_token_id=0, bos_token_id=1, eos_token_id=2)


# ---------------------------------------------------------------------------------------- networks

# What each family's configuration has beside COMMON.
NETS = {
    "bert": SHAPE,
    "roberta": SHAPE,
    "albert": SHAPE | dict(embedding_size=16),
    "distilbert": dict(dim=32, n_layers=3, n_heads=4, hidden_dim=64),
    "electra": SHAPE | dict(embedding_size=16),
    "xlm-roberta": SHAPE,
    "mpnet": SHAPE,
    "modernbert": SHAPE | SPECIAL | dict(layer_types=KINDS, local_attention=8),
    "gpt2": dict(n_embd=32, n_layer=3, n_head=4, bos_token_id=0, eos_token_id=0),
    "llama": SHAPE | GROUPED,
    "mistral": SHAPE | GROUPED | dict(head_dim=16, sliding_window=6),
    "qwen2": SHAPE | GROUPED | WINDOWS | dict(use_sliding_window=True),
    "qwen3": SHAPE | GROUPED | WINDOWS | dict(use_sliding_window=True, head_dim=16),
    "gemma2": SHAPE
    | GROUPED
    | WINDOWS
    | dict(
        head_dim=16,
        query_pre_attn_scalar=20,
        attn_logit_softcapping=2.0,
        final_logit_softcapping=3.0,
    ),
    "gemma3_text": SHAPE
    | GROUPED
    | WINDOWS
    | dict(head_dim=16, query_pre_attn_scalar=20, final_logit_softcapping=3.0),
    "phi3": SHAPE
    | GROUPED
    | SPECIAL
    | dict(pad_token_id=None, original_max_position_embeddings=40, sliding_window=6),
    "gpt_neox": SHAPE
    | dict(
        rope_parameters={"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}
    ),
}


def net_of(family: str) -> transformers.PreTrainedModel:
    """A random network of the family's fullest class."""
    kind = getattr(transformers, families.FAMILIES[family].classes[0])
    return kind(kind.config_class(**COMMON, **NETS[family]))


# Where W^O of a layer is: spelled out here a second time, so that families.py is checked by it.
OUTPUT_PROJECTIONS = {
    "bert": "bert.encoder.layer.{layer}.attention.output.dense",
    "roberta": "roberta.encoder.layer.{layer}.attention.output.dense",
    "albert": "albert.encoder.albert_layer_groups.{layer}.albert_layers.0.attention.dense",
    "distilbert": "distilbert.transformer.layer.{layer}.attention.out_lin",
    "electra": "electra.encoder.layer.{layer}.attention.output.dense",
    "xlm-roberta": "roberta.encoder.layer.{layer}.attention.output.dense",
    "mpnet": "mpnet.encoder.layer.{layer}.attention.attn.o",
    "modernbert": "model.layers.{layer}.attn.Wo",
    "gpt2": "transformer.h.{layer}.attn.c_proj",
    "llama": "model.layers.{layer}.self_attn.o_proj",
    **dict.fromkeys(
        ("mistral", "qwen2", "qwen3", "gemma2", "gemma3_text", "phi3"),
        "model.layers.{layer}.self_attn.o_proj",
    ),
    "gpt_neox": "gpt_neox.layers.{layer}.attention.dense",
}


def output_projection(net, layer: int) -> torch.Tensor:
    """W^O of a layer, [hidden out, hidden in]."""
    path = OUTPUT_PROJECTIONS[net.config.model_type].format(layer=layer)
    module = net.get_submodule(path)
    if isinstance(module, transformers.pytorch_utils.Conv1D):  # GPT-2's is [in, out]
        return module.weight.T
    return module.weight


# -------------------------------------------------------------------------------------- tokenizers


@dataclass(frozen=True)
class TokenizerKind:
    """How a family reads a text."""

    is_byte_level: bool  # byte-level BPE, else WordPiece
    special: dict[str, str]  # special tokens, by what transformers calls them
    # what stands around one text, and around a pair; None: nothing
    single: str | None = None
    pair: str | None = None


def _kind(special: str, single=None, pair=None, is_byte_level=True) -> TokenizerKind:
    """Of special tokens written as `pad [PAD] unk [UNK]`."""
    words = special.split()
    named = {f"{name}_token": token for name, token in zip(words[::2], words[1::2])}
    return TokenizerKind(is_byte_level, named, single, pair)


_BERT = "pad [PAD] unk [UNK] cls [CLS] sep [SEP] mask [MASK]"
WORDPIECE = _kind(_BERT, "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", is_byte_level=False)
_AROUND = "<s> $A </s>", "<s> $A </s> </s> $B </s>"
_ROBERTA = _kind("bos <s> pad <pad> eos </s> unk <unk> mask <mask>", *_AROUND)
_MPNET = _kind("cls <s> pad <pad> sep </s> unk [UNK] mask <mask>", *_AROUND, is_byte_level=False)
_GPT2 = _kind("bos <|endoftext|> eos <|endoftext|> unk <|endoftext|>")
_LLAMA = _kind("unk <unk> bos <s> eos </s>", "<s> $A", "<s> $A $B")
_GEMMA = _kind("pad <pad> eos <eos> bos <bos> unk <unk>", "<bos> $A", "<bos> $A $B")
_QWEN = _kind("pad <|endoftext|> eos <|im_end|>")  # nothing opens a text
TOKENIZERS = {
    **dict.fromkeys(("roberta", "xlm-roberta"), _ROBERTA),
    "mpnet": _MPNET,
    "modernbert": _kind(_BERT, "[CLS] $A [SEP]", "[CLS] $A [SEP] $B [SEP]"),
    **dict.fromkeys(("gpt2", "gpt_neox"), _GPT2),
    **dict.fromkeys(("llama", "mistral", "phi3"), _LLAMA),
    **dict.fromkeys(("gemma2", "gemma3_text"), _GEMMA),
    **dict.fromkeys(("qwen2", "qwen3"), _QWEN),
}


def kind_of(family: str) -> TokenizerKind:
    return TOKENIZERS.get(family, WORDPIECE)


def opens(family: str) -> bool:
    """Whether a family's tokenizer puts a token before a text."""
    return kind_of(family).single is not None


# From the tokenizers, so that families.py is checked by it: what can mask a word is no decoder.
ENCODERS = [family for family in FAMILIES if "mask_token" in kind_of(family).special]
DECODERS = [family for family in FAMILIES if family not in ENCODERS]
# One family of each kind of tokenizer: for what depends on tokens alone.
READERS = list({repr(kind_of(family)): family for family in reversed(FAMILIES)}.values())


@cache
def _backend(family: str) -> str:
    """The JSON of a tokenizer of the family's kind that knows SENTENCES."""
    kind = kind_of(family)
    special = list(dict.fromkeys(kind.special.values()))
    backend = _byte_level(special) if kind.is_byte_level else _wordpiece(special)
    if kind.single:
        around = []
        for token in special:
            if token in kind.single:
                around.append((token, backend.token_to_id(token)))
        backend.post_processor = processors.TemplateProcessing(
            single=kind.single, pair=kind.pair, special_tokens=around
        )
    return backend.to_str()


def _byte_level(special: list[str]) -> Tokenizer:
    """Byte-level BPE, trained on SENTENCES."""
    backend = Tokenizer(token_models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(SENTENCES, trainer)
    return backend


def _wordpiece(special: list[str]) -> Tokenizer:
    """WordPiece of the words of SENTENCES, all letters and all pairs of letters in these words.

    It is not trained: WordPiece's trainer finds other pieces in each process.
    """
    words = sorted(set(" ".join(SENTENCES).split()) - {"."})
    parts = set(string.ascii_lowercase)
    for word in words:
        parts.update(word[i : i + 2] for i in range(len(word) - 1))
    parts = sorted(parts)
    inside = ["##" + part for part in parts]
    pieces = dict.fromkeys([*special, ".", *words, *parts, *inside])
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    backend = Tokenizer(token_models.WordPiece(vocabulary, unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return backend


def tokenizer_of(family: str) -> transformers.PreTrainedTokenizerFast:
    """A family's tokenizer as it is saved.

    It pads on the left, and GPT-2's has no padding token: both are for models.load to fix.
    """
    kind = kind_of(family)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(_backend(family)), padding_side="left", **kind.special
    )


# ------------------------------------------------------------------------------------------ models


def tiny(family, attention="sdpa", dtype=torch.float32, seed=0) -> models.Model:
    """A new random model in memory, as models.load returns one, with weights that matter."""
    torch.manual_seed(seed)
    net = net_of(family)
    for weight in net.parameters():  # biases too, which are zero at the start
        is_scale_of_norm = weight.dim() == 1 and weight[0] == 1
        torch.nn.init.normal_(weight, mean=1.0 if is_scale_of_norm else 0.0, std=0.2)
    if net._supports_sdpa or attention == "eager":
        net.set_attn_implementation(attention)
    tokenizer = models.prepare(tokenizer_of(family), net.config)
    frozen = net.to(dtype).eval().requires_grad_(False)
    return models.Model(frozen, tokenizer, f"tiny {family}", "in memory")


def save_tiny(family, folder, seed=0) -> models.Model:
    """Save a tiny model in float16, as the bundled ones are.

    Returns it with its weights rounded in the same way.
    """
    model = tiny(family, seed=seed)
    rounded = {name: weight.half() for name, weight in model.net.state_dict().items()}
    model.net.load_state_dict(rounded)
    copy.deepcopy(model.net).half().save_pretrained(folder)
    tokenizer_of(family).save_pretrained(folder)
    return model


def batch(model, texts=("the doctor said that she was late .", "he likes poetry .")):
    """Two sentences of different lengths, padded."""
    return model.tokenizer(list(texts), padding=True, return_tensors="pt")


# ---------------------------------------------------------------------------------------- refusals


def refusal(call, *args, **options):
    """The message of the CompanionError that a call raises: one sentence, which names the fix."""
    with pytest.raises(CompanionError) as caught:
        call(*args, **options)
    message = str(caught.value)
    assert "\n" not in message and ": " in message, message
    return message


def refuses(*cases):
    """A test that each call is refused in a sentence that has these words: (call, pattern), ..."""

    @pytest.mark.parametrize("call, said", cases)
    def test(call, said):
        assert re.search(said, refusal(call))

    return test


def keep_tests(folder, *tests: claims.Test):
    """Tests as the notebooks of a run keep them; the folder."""
    by_notebook = {}
    for test in tests:
        by_notebook.setdefault(claims.claims()[test.claim].notebook, []).append(test)
    for notebook, own in by_notebook.items():
        claims.write(folder / "claims" / f"{notebook}.json", own)
    return folder


def disk(room, error):
    """A class that opens files on a disk which takes `room` bytes of each, then raises `error`."""

    class Disk(io.FileIO):
        def write(self, content):
            if self.tell() + len(content) > room:
                raise error
            return super().write(content)

    return Disk
