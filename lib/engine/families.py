"""Everything that depends on a model's family, one row per family: THE place to add one.

A row (model.anatomy, or FAMILIES["gpt2"]) says which classes have the language-model head, where the parts of a network
are (as module paths: q to ffn inside a layer, embeddings, norm and pooler inside the base model), and what the family
does unlike the others. Names are a config's model_type. tests/test_families.py adds two more families, one row each."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from torch import nn

from lib import CompanionError


@dataclass(frozen=True)
class Family:
    name: str
    # Classes with a language-model head, the fullest first: the first whose weights are all there is taken, so a BERT
    # saved without its next-sentence head becomes a BertForMaskedLM, not one with a random head.
    classes: tuple[str, ...]
    vocabulary_head: Callable[
        [nn.Module], Callable
    ]  # network -> what turns hidden states into vocabulary logits
    layers: Callable[[nn.Module], list[nn.Module]]  # base model -> one module per layer
    q: str  # one module for q, k and v: a third of its output each
    k: str
    v: str
    out: str
    ffn: str
    embeddings: str
    norm: str | None = None  # closes the last layer
    pooler: str | None = None  # the module that hands out the sentence vector
    pool: Callable = lambda base, first: base.pooler(
        first[:, None]
    )  # the same vector, from first tokens [n, hidden]
    next_sentence: str | None = None  # the next-sentence head, inside the network
    classifier: Callable | None = lambda net: (
        net.classifier
    )  # of a fine-tuned one: sentence vectors -> logits
    is_causal: bool = False  # reads from left to right, and is asked for the next token
    can_open: bool = (
        False  # its texts may stand with or without the tokenizer's token that opens a text, bos
    )
    has_segments: bool = False  # token types tell the two sentences of a pair apart
    separator: str = (
        "sep_token"  # the tokenizer's token between two sentences, where one writes it oneself
    )
    unused_positions: Callable = lambda config: 0  # those before the first that a token can have


def of(family: str | None, name: str = "This model") -> Family:
    """The row of a config's model_type. `name` is for the message."""
    if family not in FAMILIES:
        raise CompanionError(
            f"{name} is of the architecture '{family}', which is not supported: choose a model of "
            f"{', '.join(FAMILIES)}."
        )
    return FAMILIES[family]


def _albert_layers(base):
    """ALBERT runs the same few layers again and again: list each as often as it runs."""
    groups, runs = base.encoder.albert_layer_groups, base.config.num_hidden_layers
    return [
        layer for run in range(runs) for layer in groups[run * len(groups) // runs].albert_layers
    ]


_BERT = Family(
    "bert",
    ("BertForPreTraining", "BertForMaskedLM"),
    lambda net: net.cls.predictions,
    lambda base: base.encoder.layer,
    "attention.self.query",
    "attention.self.key",
    "attention.self.value",
    "attention.output.dense",
    "intermediate",
    "embeddings",
    pooler="pooler",
    next_sentence="cls.seq_relationship",
    has_segments=True,
)

FAMILIES = {
    family.name: family
    for family in (
        _BERT,
        replace(
            _BERT,
            name="roberta",
            classes=("RobertaForMaskedLM",),
            vocabulary_head=lambda net: net.lm_head,
            next_sentence=None,
            has_segments=False,
            classifier=lambda net: (
                lambda vectors: net.classifier(vectors[:, None])
            ),  # looks for the first token itself
            separator="bos_token",  # <s>, as Counteracts writes it
            unused_positions=lambda config: config.pad_token_id + 1,
        ),
        Family(
            "albert",
            ("AlbertForMaskedLM",),
            lambda net: net.predictions,
            _albert_layers,
            "attention.query",
            "attention.key",
            "attention.value",
            "attention.dense",
            "ffn",
            "encoder.embedding_hidden_mapping_in",
            pooler="pooler_activation",
            pool=lambda base, first: base.pooler_activation(base.pooler(first)),
            has_segments=True,
        ),
        Family(
            "distilbert",
            ("DistilBertForMaskedLM",),
            lambda net: (
                lambda states: net.vocab_projector(
                    net.vocab_layer_norm(net.activation(net.vocab_transform(states)))
                )
            ),
            lambda base: base.transformer.layer,
            "attention.q_lin",
            "attention.k_lin",
            "attention.v_lin",
            "attention.out_lin",
            "ffn",
            "embeddings",
            classifier=lambda net: (
                lambda vectors: net.classifier(net.pre_classifier(vectors).relu())
            ),
        ),
        Family(
            "gpt2",
            ("GPT2LMHeadModel",),
            lambda net: net.lm_head,
            lambda base: base.h,
            "attn.c_attn",
            "attn.c_attn",
            "attn.c_attn",
            "attn.c_proj",
            "mlp",
            "drop",
            norm="ln_f",
            classifier=None,
            is_causal=True,
            can_open=True,
        ),
        Family(
            "llama",
            ("LlamaForCausalLM",),
            lambda net: net.lm_head,
            lambda base: base.layers,
            "self_attn.q_proj",
            "self_attn.k_proj",
            "self_attn.v_proj",
            "self_attn.o_proj",
            "mlp",
            "embed_tokens",
            norm="norm",
            classifier=None,
            is_causal=True,
            can_open=True,
        ),
    )
}
