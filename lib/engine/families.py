"""Everything that depends on a model's family, one row per family: THE place to add one.

A row (model.anatomy, or FAMILIES["gpt2"]) says which classes have the language-model head, where
the parts of a network are, and what the family does unlike the others. Parts are module paths: `q`
to `ffn` inside a layer; `norm` and `pooler` inside the base model. Names are a config's model_type.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import nn

from lib import CompanionError


def _pool(base: nn.Module, first):
    """Sentence vectors by a BERT's pooler, which takes the first of a row of tokens."""
    return base.pooler(first[:, None])


def _classifier(net: nn.Module) -> nn.Module:
    """The classifier of most fine-tuned encoders: a module that takes sentence vectors."""
    return net.classifier


def _no_unused_positions(config) -> int:
    return 0


@dataclass(frozen=True)
class Family:
    """One family of models; the module's docstring says how its parts are named."""

    name: str
    # Classes with a language-model head, the fullest first. The first class whose weights are all
    # in the checkpoint is taken: a BERT saved without its next-sentence head becomes a
    # BertForMaskedLM, not a BERT with a random next-sentence head.
    classes: tuple[str, ...]
    # network -> what turns hidden states into vocabulary logits
    vocabulary_head: Callable[[nn.Module], Callable]
    # base model -> one module per layer
    layers: Callable[[nn.Module], list[nn.Module]]
    # If q, k and v are one module, its output is all queries, then all keys, then all values,
    # unless qkv_by_head.
    q: str
    k: str
    v: str
    out: str
    ffn: str  # what the feed-forward part enters by
    ffn_out: str  # the module whose output it gives to the stream
    norm: str | None = None  # closes the last layer
    pooler: str | None = None  # the module whose output is the sentence vector
    # (base model, first tokens [n, hidden]) -> the same sentence vectors
    pool: Callable = _pool
    next_sentence: str | None = None  # the next-sentence head, inside the network
    # fine-tuned network -> what turns sentence vectors into class logits
    classifier: Callable | None = _classifier
    qkv_by_head: bool = (
        False  # the one module's output has each head's query, key and value in turn
    )
    # its layers hand on a tuple, of which the first are the hidden states
    layers_give_tuples: bool = False
    is_causal: bool = False  # reads from left to right and predicts the next token
    can_open: bool = False  # a text may have the tokenizer's beginning token (bos), or not
    has_segments: bool = False  # token types tell the two sentences of a pair apart
    # the tokenizer's token between two sentences, for prompts that write it themselves
    separator: str = "sep_token"
    # heads that its bare encoder may be published with: what they say is no word, and is left out
    other_heads: tuple[str, ...] = ()
    # config -> how many positions come before the first that a token can have
    unused_positions: Callable = _no_unused_positions


def of(family: str | None, name: str = "This model") -> Family:
    """The row of a config's model_type. `name` is for the message."""
    family = str(family)  # a config.json may hold anything
    if family in REFUSED:
        raise CompanionError(f"{name} is of the architecture '{family}', {REFUSED[family]}.")
    if family not in FAMILIES:
        raise CompanionError(
            f"{name} is of the architecture '{family}', which is not supported: choose a model of "
            f"{', '.join(FAMILIES)}, or give it a row in lib/engine/families.py "
            "of the companion's repository, as CONTRIBUTING.md there shows."
        )
    return FAMILIES[family]


def _lm_head(net: nn.Module) -> nn.Module:
    return net.lm_head


_BERT = Family(
    name="bert",
    classes=("BertForPreTraining", "BertForMaskedLM"),
    vocabulary_head=lambda net: net.cls.predictions,
    layers=lambda base: base.encoder.layer,
    q="attention.self.query",
    k="attention.self.key",
    v="attention.self.value",
    out="attention.output.dense",
    ffn="intermediate",
    ffn_out="output.dense",
    pooler="pooler",
    next_sentence="cls.seq_relationship",
    has_segments=True,
)


def _roberta_classifier(net: nn.Module) -> Callable:
    """RoBERTa's classifier picks the first token out of a row itself: give it rows of one."""

    def classify(vectors):
        return net.classifier(vectors[:, None])

    return classify


_ROBERTA = replace(
    _BERT,
    name="roberta",
    classes=("RobertaForMaskedLM",),
    vocabulary_head=_lm_head,
    next_sentence=None,
    has_segments=False,
    classifier=_roberta_classifier,
    separator="bos_token",  # <s>, as Counteracts writes it
    unused_positions=lambda config: config.pad_token_id + 1,
)


def _albert_layers(base: nn.Module) -> list[nn.Module]:
    """ALBERT runs the same few layers again and again: list each as often as it runs."""
    groups = base.encoder.albert_layer_groups
    n_runs = base.config.num_hidden_layers
    layers = []
    for run in range(n_runs):
        group = groups[run * len(groups) // n_runs]
        layers.extend(group.albert_layers)
    return layers


_ALBERT = Family(
    name="albert",
    classes=("AlbertForMaskedLM",),
    vocabulary_head=lambda net: net.predictions,
    layers=_albert_layers,
    q="attention.query",
    k="attention.key",
    v="attention.value",
    out="attention.dense",
    ffn="ffn",
    ffn_out="ffn_output",
    pooler="pooler_activation",
    pool=lambda base, first: base.pooler_activation(base.pooler(first)),
    has_segments=True,
)


def _distilbert_vocabulary_head(net: nn.Module) -> Callable:
    def logits(states):
        transformed = net.activation(net.vocab_transform(states))
        return net.vocab_projector(net.vocab_layer_norm(transformed))

    return logits


def _distilbert_classifier(net: nn.Module) -> Callable:
    def classify(vectors):
        return net.classifier(net.pre_classifier(vectors).relu())

    return classify


_DISTILBERT = Family(
    name="distilbert",
    classes=("DistilBertForMaskedLM",),
    vocabulary_head=_distilbert_vocabulary_head,
    layers=lambda base: base.transformer.layer,
    q="attention.q_lin",
    k="attention.k_lin",
    v="attention.v_lin",
    out="attention.out_lin",
    ffn="ffn",
    ffn_out="ffn",
    classifier=_distilbert_classifier,
)

_XLM_ROBERTA = replace(_ROBERTA, name="xlm-roberta", classes=("XLMRobertaForMaskedLM",))


def _electra_vocabulary_head(net: nn.Module) -> Callable:
    def logits(states):
        return net.generator_lm_head(net.generator_predictions(states))

    return logits


_ELECTRA = replace(
    _BERT,
    name="electra",
    classes=("ElectraForMaskedLM",),  # its generator
    vocabulary_head=_electra_vocabulary_head,
    pooler=None,
    next_sentence=None,
    classifier=_roberta_classifier,
    other_heads=("discriminator_predictions.",),  # which tokens were replaced
)


def _modernbert_vocabulary_head(net: nn.Module) -> Callable:
    def logits(states):
        return net.decoder(net.head(states))

    return logits


def _modernbert_classifier(net: nn.Module) -> Callable:
    if net.config.classifier_pooling != "cls":
        raise CompanionError(
            "This ModernBERT classifies the mean over tokens, not a sentence vector: "
            "choose one whose classifier_pooling is cls."
        )

    def classify(vectors):
        return net.classifier(net.head(vectors))

    return classify


_MODERNBERT = Family(
    name="modernbert",
    classes=("ModernBertForMaskedLM",),
    vocabulary_head=_modernbert_vocabulary_head,
    layers=lambda base: base.layers,
    q="attn.Wqkv",
    k="attn.Wqkv",
    v="attn.Wqkv",
    out="attn.Wo",
    ffn="mlp",
    ffn_out="mlp",
    norm="final_norm",
    classifier=_modernbert_classifier,
)

_MPNET = replace(
    _BERT,
    name="mpnet",
    classes=("MPNetForMaskedLM",),
    vocabulary_head=_lm_head,
    q="attention.attn.q",
    k="attention.attn.k",
    v="attention.attn.v",
    out="attention.attn.o",
    next_sentence=None,
    has_segments=False,
    classifier=_roberta_classifier,
    layers_give_tuples=True,
    unused_positions=lambda config: 2,  # its code counts from 2, whatever its padding token is
)

_GPT2 = Family(
    name="gpt2",
    classes=("GPT2LMHeadModel",),
    vocabulary_head=_lm_head,
    layers=lambda base: base.h,
    q="attn.c_attn",
    k="attn.c_attn",
    v="attn.c_attn",
    out="attn.c_proj",
    ffn="mlp",
    ffn_out="mlp",
    norm="ln_f",
    classifier=None,
    is_causal=True,
    can_open=True,
)

_LLAMA = Family(
    name="llama",
    classes=("LlamaForCausalLM",),
    vocabulary_head=_lm_head,
    layers=lambda base: base.layers,
    q="self_attn.q_proj",
    k="self_attn.k_proj",
    v="self_attn.v_proj",
    out="self_attn.o_proj",
    ffn="mlp",
    ffn_out="mlp",
    norm="norm",
    classifier=None,
    is_causal=True,
    can_open=True,
)

_MISTRAL = replace(_LLAMA, name="mistral", classes=("MistralForCausalLM",))
_QWEN2 = replace(_LLAMA, name="qwen2", classes=("Qwen2ForCausalLM",))
_QWEN3 = replace(_LLAMA, name="qwen3", classes=("Qwen3ForCausalLM",))


def _capped_lm_head(net: nn.Module) -> Callable:
    """Gemma's logits, which stay between -cap and cap where its config says so."""
    cap = net.config.final_logit_softcapping

    def logits(states):
        raw = net.lm_head(states)
        return cap * torch.tanh(raw / cap) if cap else raw

    return logits


_GEMMA2 = replace(
    _LLAMA,
    name="gemma2",
    classes=("Gemma2ForCausalLM",),
    vocabulary_head=_capped_lm_head,
)
_GEMMA3 = replace(_GEMMA2, name="gemma3_text", classes=("Gemma3ForCausalLM",))

_PHI3 = replace(
    _LLAMA,
    name="phi3",
    classes=("Phi3ForCausalLM",),
    q="self_attn.qkv_proj",
    k="self_attn.qkv_proj",
    v="self_attn.qkv_proj",
)

_GPT_NEOX = Family(
    name="gpt_neox",  # Pythia too
    classes=("GPTNeoXForCausalLM",),
    vocabulary_head=_lm_head,
    layers=lambda base: base.layers,
    q="attention.query_key_value",
    k="attention.query_key_value",
    v="attention.query_key_value",
    qkv_by_head=True,
    out="attention.dense",
    ffn="mlp",
    ffn_out="mlp",
    norm="final_layer_norm",
    classifier=None,
    is_causal=True,
    can_open=True,
)

_ROWS = (
    _BERT,
    _ROBERTA,
    _ALBERT,
    _DISTILBERT,
    _ELECTRA,
    _XLM_ROBERTA,
    _MPNET,
    _MODERNBERT,
    _GPT2,
    _LLAMA,
    _MISTRAL,
    _QWEN2,
    _QWEN3,
    _GEMMA2,
    _GEMMA3,
    _PHI3,
    _GPT_NEOX,
)
FAMILIES = {row.name: row for row in _ROWS}

# Architectures that look as if a row would do, and why it does not.
REFUSED = {
    "deberta-v2": (
        "and DeBERTa-v3's masked-language head was never trained (it learned to tell replaced "
        "tokens): choose ModernBERT or RoBERTa"
    ),
    "gemma3": "which reads images too: choose a Gemma 3 of text alone, of 270M or 1B",
    "opt": (
        "whose feed-forward part joins the tokens of all texts, so that no text's can be found "
        "there: choose a Pythia, which has the same sizes"
    ),
}
