"""Tiny random models of the real classes, one per family: 3 layers, 4 heads, hidden size 32."""

import copy
import io
import re
import string
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

from lib import CompanionError
from lib.engine import families, models

FAMILIES = list(families.FAMILIES)
ENCODERS = [family for family in FAMILIES if not families.FAMILIES[family].is_causal]
SENTENCES = [
    "the doctor said that she was here .",
    "the nurse said that he was late .",
    "he likes poetry .",
    "a man and a woman met the engineer in the office .",
    "she likes mathematics .",
] * 4
COMMON = dict(vocab_size=400, max_position_embeddings=40)
SHAPE = dict(hidden_size=32, num_hidden_layers=3, num_attention_heads=4, intermediate_size=64)


# Tokenizers, WordPiece or byte-level BPE: their special tokens, and those that stand around a text and a pair.
_WORDPIECE = (
    dict(
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    ),
    ("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1"),
)
_BYTES = {
    "roberta": (
        dict(
            bos_token="<s>",
            pad_token="<pad>",
            eos_token="</s>",
            unk_token="<unk>",
            mask_token="<mask>",
        ),
        ("<s> $A </s>", "<s> $A </s> </s> $B </s>"),
    ),
    "gpt2": (dict.fromkeys(["bos_token", "eos_token", "unk_token"], "<|endoftext|>"), None),
    "llama": (dict(unk_token="<unk>", bos_token="<s>", eos_token="</s>"), ("<s> $A", "<s> $A $B")),
}
NETS = {
    "bert": lambda: transformers.BertForPreTraining(transformers.BertConfig(**SHAPE, **COMMON)),
    "roberta": lambda: transformers.RobertaForMaskedLM(
        transformers.RobertaConfig(**SHAPE, **COMMON)
    ),
    "albert": lambda: transformers.AlbertForMaskedLM(
        transformers.AlbertConfig(**SHAPE, **COMMON, embedding_size=16)
    ),
    "distilbert": lambda: transformers.DistilBertForMaskedLM(
        transformers.DistilBertConfig(dim=32, n_layers=3, n_heads=4, hidden_dim=64, **COMMON)
    ),
    "gpt2": lambda: transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            n_embd=32,
            n_layer=3,
            n_head=4,
            n_positions=COMMON["max_position_embeddings"],
            vocab_size=400,
            bos_token_id=0,
            eos_token_id=0,
        )
    ),
    "llama": lambda: transformers.LlamaForCausalLM(
        transformers.LlamaConfig(**SHAPE, **COMMON, num_key_value_heads=2)
    ),
}


@cache
def _backend(family):
    """A tokenizer of the family's kind that knows the sentences; a family that is not above reads as BERT."""
    special, frame = _BYTES.get(family, _WORDPIECE)
    if family in _BYTES:
        backend = Tokenizer(token_models.BPE())
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        backend.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=400,
            special_tokens=list(dict.fromkeys(special.values())),
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        backend.train_from_iterator(SENTENCES, trainer)
    else:  # its trainer finds other pieces in each process; these are the same in all
        words = sorted(set(" ".join(SENTENCES).split()) - {"."})
        parts = sorted(
            {
                *string.ascii_lowercase,
                *(word[i : i + 2] for word in words for i in range(len(word) - 1)),
            }
        )
        pieces = dict.fromkeys(
            [*special.values(), ".", *words, *parts, *("##" + part for part in parts)]
        )
        backend = Tokenizer(
            token_models.WordPiece({piece: i for i, piece in enumerate(pieces)}, unk_token="[UNK]")
        )
        backend.normalizer = normalizers.BertNormalizer(lowercase=True)
        backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    if frame:
        around = [
            (token, backend.token_to_id(token))
            for token in dict.fromkeys(special.values())
            if token in frame[0]
        ]
        backend.post_processor = processors.TemplateProcessing(
            single=frame[0], pair=frame[1], special_tokens=around
        )
    return backend.to_str(), special


def _tokenizer(family):
    """As it is saved: padding on the left, and GPT-2 without a padding token, are for the loader to fix."""
    text, special = _backend(family)
    backend = Tokenizer.from_str(text)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, padding_side="left", **special
    )


def tiny(family, attention="sdpa", dtype=torch.float32, seed=0) -> models.Model:
    """A fresh random model in memory, as models.load hands one out, with weights large enough to matter."""
    torch.manual_seed(seed)
    net = NETS[family]()
    for weight in net.parameters():  # biases too, which are zero at the start
        torch.nn.init.normal_(
            weight, mean=1.0 if weight.dim() == 1 and weight[0] == 1 else 0.0, std=0.2
        )
    net.set_attn_implementation(attention)
    tokenizer = models.prepare(_tokenizer(family), net.config)
    return models.Model(
        net.to(dtype).eval().requires_grad_(False), tokenizer, f"tiny {family}", "in memory"
    )


def save_tiny(family, folder, seed=0) -> models.Model:
    """Save a tiny model in float16, as the shipped ones are, and return it with its weights rounded so."""
    model = tiny(family, seed=seed)
    model.net.load_state_dict(
        {name: weight.half() for name, weight in model.net.state_dict().items()}
    )
    copy.deepcopy(model.net).half().save_pretrained(folder)
    _tokenizer(family).save_pretrained(folder)
    return model


def refusal(call, *args, **options):
    """What is said in place of a result: one sentence on one line, which names the fix."""
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


def disk(room, error):
    """What opens files on a disk that takes `room` bytes of each and then meets `error`."""

    class Disk(io.FileIO):
        def write(self, content):
            if self.tell() + len(content) > room:
                raise error
            return super().write(content)

    return Disk


def batch(model, texts=("the doctor said that she was late .", "he likes poetry .")):
    """Two sentences of unlike length, padded."""
    return model.tokenizer(list(texts), padding=True, return_tensors="pt")
