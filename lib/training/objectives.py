"""What each family of models learns from text, and how well it has learned it.

A task is a network, its tokenizer and a loss: `sampler` draws batches from a token stream, `loss` takes one, `measure`
says what held-out text is worth, `shipped` and `hub_tokenizer` are what is saved. The three encoders see packed texts
(packing.py) and differ as the papers' models do: BERT tells next sentences, ALBERT their order, RoBERTa neither.

A loss is computed in one of two ways. `plain_loss` goes through transformers' modules: under autocast they keep the
states between layers in float32, read them three times for query, key and value, and cast some sixty weights one by
one. `fast_loss` computes the same by the functions of this module: the states have one dtype throughout (bfloat16 on a
GPU; norms are computed in float32 inside), query, key and value are one product, and a layer is compiled once and used
for all. The weights stay those of the transformers model, in float32, and get the gradients. It has no dropout.
"""

import functools
import math

import torch
import torch.nn.functional as F
from tokenizers import AddedToken
from transformers import (
    AlbertConfig,
    AlbertForMaskedLM,
    AlbertForPreTraining,
    BertConfig,
    BertForPreTraining,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaForMaskedLM,
)

from lib.training import kernels
from lib.training.corpus import Tokens
from lib.training.packing import PairSampler, SpanSampler, WindowSampler

SHAPE = dict(layers=12, heads=12, hidden=288, longest=256)
NO_DROPOUT = dict(hidden_dropout_prob=0., attention_probs_dropout_prob=0.)


def seeded(device, seed: int) -> torch.Generator:
    return torch.Generator(device).manual_seed(seed)


# ---------------------------------------------------------------- layers as functions

@functools.cache
def compiled(function):
    """The function compiled for a GPU; call it with tensors and numbers alone."""
    return torch.compile(function, dynamic=False)


def on(states: torch.Tensor, function):
    """Compiled where the states are on a GPU, as it is elsewhere."""
    return compiled(function) if states.is_cuda else function


def linear(states, weight, bias):
    return F.linear(states, weight.to(states.dtype), bias.to(states.dtype))


def normed(states, norm, bias, eps):
    return F.layer_norm(states.float(), states.shape[-1:], norm.float(), bias.float(), eps).to(states.dtype)


def activated(states, tanh: bool):
    """GELU; tanh: the approximation that GPT-2 and ALBERT have."""
    return F.gelu(states, approximate="tanh" if tanh else "none")


def encoder_layer(states, bounds, heads: int, eps: float, tanh: bool, q, q_bias, k, k_bias, v, v_bias, o, o_bias,
                  norm, norm_bias, up, up_bias, down, down_bias, last_norm, last_norm_bias):
    """Attention inside each text of the packed row [tokens, width], then the feed-forward part; both normed after."""
    qkv = linear(states, torch.cat([q, k, v]), torch.cat([q_bias, k_bias, v_bias]))
    mixed = kernels.attention(qkv.view(len(states), 3, heads, -1), bounds)
    states = normed(states + linear(mixed, o, o_bias), norm, norm_bias, eps)
    inner = activated(linear(states, up, up_bias), tanh)
    return normed(states + linear(inner, down, down_bias), last_norm, last_norm_bias, eps)


def embedded(ids, positions, types, words, places, kinds, norm, norm_bias, eps: float, dtype: torch.dtype):
    """Words, positions and types, summed and normed. Types are weighed rather than looked up: on the way back that is
    a sum, where looking two rows up makes all tokens queue for them."""
    states = words[ids] + places[positions] + kinds[0]
    if types is not None:
        states = states + types[:, None] * (kinds[1] - kinds[0])
    return normed(states, norm, norm_bias, eps).to(dtype)


def vocabulary_loss(states, masked, targets, dense, dense_bias, norm, norm_bias, words, words_bias, eps: float,
                    tanh: bool):
    """Cross-entropy of the tokens at the masked places; no other row meets the vocabulary."""
    rows = activated(linear(states[masked], dense, dense_bias), tanh)
    return F.cross_entropy(linear(normed(rows, norm, norm_bias, eps), words, words_bias).float(), targets)


def label_loss(states, first, labels, pooler, pooler_bias, weight, bias):
    """Cross-entropy of the pairs' labels, read at the first token of each."""
    pooled = linear(states[first], pooler, pooler_bias).tanh()
    return F.cross_entropy(linear(pooled, weight, bias).float(), labels)


def decoder_layer(states, heads: int, eps: float, norm, norm_bias, qkv, qkv_bias, o, o_bias, last_norm, last_norm_bias,
                  up, up_bias, down, down_bias):
    """Causal attention in windows [windows, tokens, width], then the feed-forward part; both normed before."""
    n, tokens, width = states.shape
    mixed = linear(normed(states, norm, norm_bias, eps), qkv.T, qkv_bias).view(n, tokens, 3, heads, -1)
    q, k, v = mixed.permute(2, 0, 3, 1, 4)
    mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(n, tokens, width)
    states = states + linear(mixed, o.T, o_bias)
    inner = activated(linear(normed(states, last_norm, last_norm_bias, eps), up.T, up_bias), True)
    return states + linear(inner, down.T, down_bias)


def decoder_start(ids, words, places, dtype: torch.dtype):
    return (words[ids] + places[: ids.shape[1]]).to(dtype)


def decoder_loss(states, ids, norm, norm_bias, words, eps: float):
    """Cross-entropy of every token from those before it."""
    rows = normed(states[:, :-1].flatten(0, 1), norm, norm_bias, eps)
    return F.cross_entropy(F.linear(rows, words.to(rows.dtype)).float(), ids[:, 1:].flatten())


def both(*modules) -> list[torch.Tensor]:
    """Weight and bias of each."""
    return [tensor for module in modules for tensor in (module.weight, module.bias)]


def bert_layer(layer) -> list[torch.Tensor]:
    """The weights of a BertLayer or RobertaLayer in the order of encoder_layer."""
    inside, out = layer.attention.self, layer.attention.output
    return both(inside.query, inside.key, inside.value, out.dense, out.LayerNorm, layer.intermediate.dense,
                layer.output.dense, layer.output.LayerNorm)


def albert_layer(layer) -> list[torch.Tensor]:
    one = layer.attention
    return both(one.query, one.key, one.value, one.dense, one.LayerNorm, layer.ffn, layer.ffn_output,
                layer.full_layer_layer_norm)


def gpt2_layer(block) -> list[torch.Tensor]:
    return both(block.ln_1, block.attn.c_attn, block.attn.c_proj, block.ln_2, block.mlp.c_fc, block.mlp.c_proj)


# ---------------------------------------------------------------- tasks

class Task:
    """What all four share."""

    shape = SHAPE
    batch_tokens, learning_rate = 131_072, 2.5e-3
    vocabulary_of = None  # the kind whose tokenizer and token stream this one reads
    plain = torch.cuda.is_available() and kernels.triton is None  # train through transformers' modules

    def __init__(self, tokenizer, layers, heads, hidden, longest):
        self.tokenizer, self.longest = tokenizer, longest
        self.plain = self.plain or longest > kernels.LONGEST
        self.net = self.network(tokenizer.get_vocab_size(), layers, heads, hidden)

    def shipped(self):
        """The network as it is saved."""
        return self.net

    @property
    def dtype(self) -> torch.dtype:
        """Of the states in fast_loss."""
        return torch.bfloat16 if self.net.device.type == "cuda" else torch.float32

    def loss(self, *batch) -> torch.Tensor:
        return self.plain_loss(*batch) if self.plain else self.fast_loss(*batch)


class Encoder(Task):
    """Masked words, and where the batch has them pairs of sentences with a label each."""

    label_name = None  # what the accuracy on the pairs' labels is called

    def embed(self, ids, positions, types=None):
        part = self.net.base_model.embeddings
        words, places, kinds = part.word_embeddings, part.position_embeddings, part.token_type_embeddings
        return on(ids, embedded)(ids, positions, types, words.weight, places.weight, kinds.weight,
                                 *both(part.LayerNorm), part.LayerNorm.eps, self.dtype)

    def run(self, states, bounds, weights: list[list[torch.Tensor]]):
        """All layers, one after the other."""
        config = self.net.config
        for each in weights:
            states = on(states, encoder_layer)(states, bounds, config.num_attention_heads, config.layer_norm_eps,
                                               config.hidden_act != "gelu", *each)
        return states

    def word_loss(self, states, masked, targets):
        config = self.net.config
        return on(states, vocabulary_loss)(states, masked, targets, *self.word_head(), config.layer_norm_eps,
                                           config.hidden_act != "gelu")

    def measure(self, tokens: Tokens, device, batches: int, batch_tokens: int) -> dict:
        """Perplexity of masked words and accuracy on the pairs' labels: on the training mixture of lengths, and on
        single sentences (or pairs of them)."""
        measures = {}
        for name, options in {"": {}, "_single_sentences": dict(everyday=1.)}.items():
            sampler, generator = self.sampler(tokens, device, **options), seeded(device, 1)
            surprise, words, right, pairs = 0., 0, 0, 0
            for _ in range(batches):
                batch = sampler.draw(batch_tokens, generator=generator)
                logits, labels = self.outputs(*batch.inputs())
                surprise += F.cross_entropy(logits.float(), batch.targets, reduction="sum").item()
                words += (batch.targets >= 0).sum().item()
                if labels is not None:
                    right += (labels.argmax(1) == batch.not_next).sum().item()
                    pairs += (batch.not_next >= 0).sum().item()
            measures[f"mlm_perplexity{name}"] = math.exp(surprise / words)
            if pairs:
                measures[f"{self.label_name}_accuracy{name}"] = right / pairs
        return measures


class PairEncoder(Encoder):
    """`[CLS] A [SEP] B [SEP]` on the uncased WordPiece stream."""

    vocabulary_of = "bert"

    def outputs(self, ids, positions, types, bounds, masked, first):
        """Vocabulary logits at the masked places, label logits of the pairs."""
        states = self.net.base_model(input_ids=ids[None], position_ids=positions[None], token_type_ids=types[None],
                                     bounds=bounds, longest=self.longest).last_hidden_state[0]
        return self.words(states[masked]), self.labels(states[first])

    def plain_loss(self, ids, positions, types, bounds, masked, targets, first, not_next):
        words, labels = self.outputs(ids, positions, types, bounds, masked, first)
        return F.cross_entropy(words.float(), targets) + F.cross_entropy(labels.float(), not_next)

    def fast_loss(self, ids, positions, types, bounds, masked, targets, first, not_next):
        states = self.layers(self.embed(ids, positions, types), bounds)
        return (self.word_loss(states, masked, targets)
                + on(states, label_loss)(states, first, not_next, *self.label_head()))

    def hub_tokenizer(self):
        return PreTrainedTokenizerFast(
            tokenizer_object=self.tokenizer, unk_token="[UNK]", sep_token="[SEP]", pad_token="[PAD]",
            cls_token="[CLS]", mask_token="[MASK]", model_max_length=self.longest,
            model_input_names=["input_ids", "token_type_ids", "attention_mask"])


class Bert(PairEncoder):
    """Masked words and next sentences."""

    label_name = "nsp"

    def network(self, vocabulary, layers, heads, hidden):
        return BertForPreTraining._from_config(BertConfig(
            vocab_size=vocabulary, hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads,
            intermediate_size=4 * hidden, max_position_embeddings=self.longest, **NO_DROPOUT),
            attn_implementation="packed")

    def sampler(self, tokens: Tokens, device, **options):
        return PairSampler(tokens, self.tokenizer, device, longest=self.longest, **options)

    def words(self, states):
        return self.net.cls.predictions(states)

    def labels(self, states):
        return self.net.cls.seq_relationship(self.net.bert.pooler(states[:, None]))

    def layers(self, states, bounds):
        return self.run(states, bounds, [bert_layer(one) for one in self.net.bert.encoder.layer])

    def word_head(self):
        head = self.net.cls.predictions
        return both(head.transform.dense, head.transform.LayerNorm, head.decoder)

    def label_head(self):
        return both(self.net.bert.pooler.dense, self.net.cls.seq_relationship)


class Albert(PairEncoder):
    """Masked words and the order of sentences. One layer is run `layers` times, and embeddings are a third as wide as
    the layer. It ships without pooler and order head, which nothing here uses, and its inner width is 3.25 times the
    outer (ALBERT's own is 4): both so that the folder stays under 8 MB."""

    shape = SHAPE | dict(hidden=384)
    label_name = "order"

    def network(self, vocabulary, layers, heads, hidden):
        return AlbertForPreTraining._from_config(AlbertConfig(
            vocab_size=vocabulary, embedding_size=hidden // 3, hidden_size=hidden, num_hidden_layers=layers,
            num_attention_heads=heads, intermediate_size=13 * hidden // 4, max_position_embeddings=self.longest,
            classifier_dropout_prob=0., pad_token_id=0, bos_token_id=2, eos_token_id=3, **NO_DROPOUT),
            attn_implementation="packed")

    def sampler(self, tokens: Tokens, device, **options):
        return PairSampler(tokens, self.tokenizer, device, longest=self.longest, order=True, **options)

    def words(self, states):
        return self.net.predictions(states)

    def labels(self, states):
        base = self.net.albert
        return self.net.sop_classifier(base.pooler_activation(base.pooler(states)))

    def layers(self, states, bounds):
        encoder = self.net.albert.encoder
        states = on(states, linear)(states, *both(encoder.embedding_hidden_mapping_in))
        one = albert_layer(encoder.albert_layer_groups[0].albert_layers[0])
        return self.run(states, bounds, [one] * self.net.config.num_hidden_layers)

    def word_head(self):
        return both(self.net.predictions.dense, self.net.predictions.LayerNorm, self.net.predictions.decoder)

    def label_head(self):
        return both(self.net.albert.pooler, self.net.sop_classifier.classifier)

    def shipped(self):
        net = AlbertForMaskedLM(self.net.config)
        net.load_state_dict({name: weight for name, weight in self.net.state_dict().items()
                             if not name.startswith(("albert.pooler", "sop_classifier"))})
        return net


class Roberta(Encoder):
    """Masked words alone, on runs of sentences, cased. Positions begin behind the padding token's id."""

    vocabulary_of = "roberta"

    def network(self, vocabulary, layers, heads, hidden):
        start, self.pad, end = (self.tokenizer.token_to_id(t) for t in ("<s>", "<pad>", "</s>"))
        return RobertaForMaskedLM._from_config(RobertaConfig(
            vocab_size=vocabulary, hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads,
            intermediate_size=4 * hidden, max_position_embeddings=self.longest + self.pad + 1, type_vocab_size=1,
            layer_norm_eps=1e-5, bos_token_id=start, pad_token_id=self.pad, eos_token_id=end, **NO_DROPOUT),
            attn_implementation="packed")

    def sampler(self, tokens: Tokens, device, **options):
        return SpanSampler(tokens, self.tokenizer, device, longest=self.longest, **options)

    def outputs(self, ids, positions, bounds, masked):
        """Vocabulary logits at the masked places; no labels."""
        states = self.net.roberta(input_ids=ids[None], position_ids=positions[None] + self.pad + 1,
                                  bounds=bounds, longest=self.longest).last_hidden_state[0]
        return self.net.lm_head(states[masked]), None

    def plain_loss(self, ids, positions, bounds, masked, targets):
        return F.cross_entropy(self.outputs(ids, positions, bounds, masked)[0].float(), targets)

    def fast_loss(self, ids, positions, bounds, masked, targets):
        layers = [bert_layer(one) for one in self.net.roberta.encoder.layer]
        return self.word_loss(self.run(self.embed(ids, positions + self.pad + 1), bounds, layers), masked, targets)

    def word_head(self):
        return both(self.net.lm_head.dense, self.net.lm_head.layer_norm, self.net.lm_head.decoder)

    def hub_tokenizer(self):
        return PreTrainedTokenizerFast(
            tokenizer_object=self.tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>", sep_token="</s>",
            pad_token="<pad>", cls_token="<s>", mask_token=AddedToken("<mask>", lstrip=True),
            model_max_length=self.longest, model_input_names=["input_ids", "attention_mask"])


class Gpt2(Task):
    """The next token, on windows of the stream."""

    batch_tokens = 65_536
    vocabulary_of = "gpt2"

    def network(self, vocabulary, layers, heads, hidden):
        return GPT2LMHeadModel._from_config(GPT2Config(
            vocab_size=vocabulary, n_embd=hidden, n_layer=layers, n_head=heads, n_positions=self.longest,
            resid_pdrop=0., embd_pdrop=0., attn_pdrop=0., bos_token_id=0, eos_token_id=0))

    def sampler(self, tokens: Tokens, device, longest=None, **options):
        return WindowSampler(tokens, self.tokenizer, device, longest or self.longest, **options)

    def plain_loss(self, ids):
        logits = self.net(ids, use_cache=False).logits[:, :-1]
        return F.cross_entropy(logits.flatten(0, 1).float(), ids[:, 1:].flatten())

    def fast_loss(self, ids):
        base, heads, eps = self.net.transformer, self.net.config.n_head, self.net.config.layer_norm_epsilon
        states = on(ids, decoder_start)(ids, base.wte.weight, base.wpe.weight, self.dtype)
        for block in base.h:
            states = on(ids, decoder_layer)(states, heads, eps, *gpt2_layer(block))
        return on(ids, decoder_loss)(states, ids, *both(base.ln_f), base.wte.weight, eps)

    def measure(self, tokens: Tokens, device, batches: int, batch_tokens: int) -> dict:
        """Perplexity of a token, in windows of the model's length and of half of it."""
        measures = {}
        for longest in (self.longest, self.longest // 2):
            sampler, generator = self.sampler(tokens, device, longest), seeded(device, 1)
            losses = [self.plain_loss(sampler.draw(batch_tokens, generator)).item() for _ in range(batches)]
            measures[f"perplexity_{longest}"] = math.exp(sum(losses) / len(losses))
        return measures

    def hub_tokenizer(self):
        mark = "<|endoftext|>"
        return PreTrainedTokenizerFast(tokenizer_object=self.tokenizer, unk_token=mark, bos_token=mark, eos_token=mark,
                                       model_max_length=self.longest,
                                       model_input_names=["input_ids", "attention_mask"])


KINDS = {"bert": Bert, "roberta": Roberta, "albert": Albert, "gpt2": Gpt2}
