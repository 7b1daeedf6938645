"""What each family of models learns from text, and how well it has learned it.

A task is a network, its tokenizer and a loss. The three encoders see packed texts (packing.py) and differ as the
papers' models do: BERT tells next sentences, ALBERT their order, RoBERTa neither.

`plain_loss` goes through transformers' modules, which under autocast keep the states between layers in float32 and cast
some sixty weights one by one. `fast_loss` computes the same by the functions of this module: one dtype throughout
(bfloat16 on a GPU; norms in float32 inside), query, key and value as one product, a layer compiled once for all. The
weights stay those of the transformers model, in float32, and get the gradients. It has no dropout."""

import functools
import math

import torch
import torch.nn.functional as F
import transformers
from tokenizers import AddedToken

from lib.training import kernels
from lib.training.corpus import Tokens
from lib.training.packing import PairSampler, SpanSampler, WindowSampler


def seeded(device, seed: int) -> torch.Generator:
    return torch.Generator(device).manual_seed(seed)


# ---------------------------------------------------------------- layers as functions
# A function compiled for a GPU; call it with tensors and numbers alone.
compiled = functools.cache(functools.partial(torch.compile, dynamic=False))


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


# ---------------------------------------------------------------- tasks
class Task:
    """What all four share. A kind says which class of transformers it is (`architecture`), which tokenizer and token
    stream it reads (`stream`), how batches are drawn from that (`draws`), and what its special tokens are."""
    shape = dict(layers=12, heads=12, hidden=288, longest=256)
    batch_tokens, learning_rate = 131_072, 2.5e-3
    plain = torch.cuda.is_available() and kernels.triton is None  # train through transformers' modules
    reads = ["input_ids", "attention_mask"]
    attention = None

    def __init__(self, tokenizer, layers, heads, hidden, longest):
        self.tokenizer, self.longest = tokenizer, longest
        self.plain = self.plain or longest > kernels.LONGEST
        config = self.architecture.config_class(**self.config(tokenizer.get_vocab_size(), layers, heads, hidden))
        self.net = self.architecture._from_config(config, attn_implementation=self.attention)

    def sampler(self, tokens: Tokens, device, **options):
        return self.draws(tokens, self.tokenizer, device, **dict(longest=self.longest) | options)

    def loss(self, *batch) -> torch.Tensor:
        return self.plain_loss(*batch) if self.plain else self.fast_loss(*batch)

    @property
    def dtype(self) -> torch.dtype:
        """Of the states in fast_loss."""
        return torch.bfloat16 if self.net.device.type == "cuda" else torch.float32

    def shipped(self):
        """The network as it is saved."""
        return self.net

    def hub_tokenizer(self):
        return transformers.PreTrainedTokenizerFast(tokenizer_object=self.tokenizer, model_max_length=self.longest,
                                                    model_input_names=self.reads, **self.special)


class Encoder(Task):
    """Masked words, and where the batch has them pairs of sentences with a label each. Where a kind has its weights is
    said by the names of its modules, in the order in which the functions above take them."""
    attention = "packed"
    first_position = 0
    layer_modules = ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense",
                     "attention.output.LayerNorm", "intermediate.dense", "output.dense", "output.LayerNorm")
    widening = None  # between embeddings and layers, where these are wider
    label_modules = label_name = None  # pooler and classifier; what the accuracy on the pairs' labels is called

    def config(self, vocabulary, layers, heads, hidden) -> dict:
        return dict(vocab_size=vocabulary, hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads,
                    intermediate_size=4 * hidden, max_position_embeddings=self.longest, hidden_dropout_prob=0.,
                    attention_probs_dropout_prob=0.)

    def layers(self) -> list[torch.nn.Module]:
        return list(self.net.base_model.encoder.layer)

    def outputs(self, ids, positions, bounds, masked, types=None, first=None):
        """Vocabulary logits at the masked places, and label logits of the pairs where there are any."""
        states = self.net.base_model(
            input_ids=ids[None], position_ids=positions[None] + self.first_position, bounds=bounds,
            token_type_ids=None if types is None else types[None], longest=self.longest).last_hidden_state[0]
        words = self.net.get_submodule(self.word_module)(states[masked])
        if first is None:
            return words, None
        pooler, classifier = map(self.net.get_submodule, self.label_modules)
        return words, classifier(pooler(states[first]).tanh())

    def plain_loss(self, ids, positions, bounds, masked, targets, types=None, first=None, not_next=None):
        words, labels = self.outputs(ids, positions, bounds, masked, types, first)
        loss = F.cross_entropy(words.float(), targets)
        return loss if labels is None else loss + F.cross_entropy(labels.float(), not_next)

    def fast_loss(self, ids, positions, bounds, masked, targets, types=None, first=None, not_next=None):
        config, part, module = self.net.config, self.net.base_model.embeddings, self.net.get_submodule
        eps, tanh = config.layer_norm_eps, config.hidden_act != "gelu"
        states = on(ids, embedded)(
            ids, positions + self.first_position, types, part.word_embeddings.weight, part.position_embeddings.weight,
            part.token_type_embeddings.weight, *both(part.LayerNorm), eps, self.dtype)
        if self.widening:
            states = on(states, linear)(states, *both(module(self.widening)))
        for layer in self.layers():
            states = on(states, encoder_layer)(states, bounds, config.num_attention_heads, eps, tanh,
                                               *both(*map(layer.get_submodule, self.layer_modules)))
        words = [f"{self.word_module}.{name}" for name in self.word_modules]
        loss = on(states, vocabulary_loss)(states, masked, targets, *both(*map(module, words)), eps, tanh)
        if first is None:
            return loss
        return loss + on(states, label_loss)(states, first, not_next, *both(*map(module, self.label_modules)))

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


class Bert(Encoder):
    """Masked words and next sentences: `[CLS] A [SEP] B [SEP]` on the uncased WordPiece stream."""
    architecture, stream, draws, label_name = transformers.BertForPreTraining, "bert", PairSampler, "nsp"
    special = dict(unk_token="[UNK]", sep_token="[SEP]", pad_token="[PAD]", cls_token="[CLS]", mask_token="[MASK]")
    reads = ["input_ids", "token_type_ids", "attention_mask"]
    word_module, word_modules = "cls.predictions", ("transform.dense", "transform.LayerNorm", "decoder")
    label_modules = ("bert.pooler.dense", "cls.seq_relationship")


class Albert(Encoder):
    """Masked words and the order of sentences. One layer is run `layers` times, and embeddings are a third as wide as
    the layer. It ships without pooler and order head, which nothing here uses, and its inner width is 3.25 times the
    outer (ALBERT's own is 4): both so that the folder stays under 8 MB."""
    architecture, stream, label_name = transformers.AlbertForPreTraining, "bert", "order"
    draws = functools.partial(PairSampler, order=True)
    shape = Task.shape | dict(hidden=384)
    special, reads = Bert.special, Bert.reads
    layer_modules = ("attention.query", "attention.key", "attention.value", "attention.dense", "attention.LayerNorm",
                     "ffn", "ffn_output", "full_layer_layer_norm")
    widening = "albert.encoder.embedding_hidden_mapping_in"
    word_module, word_modules = "predictions", ("dense", "LayerNorm", "decoder")
    label_modules = ("albert.pooler", "sop_classifier.classifier")

    def config(self, vocabulary, layers, heads, hidden) -> dict:
        return super().config(vocabulary, layers, heads, hidden) | dict(
            embedding_size=hidden // 3, intermediate_size=13 * hidden // 4, classifier_dropout_prob=0., pad_token_id=0,
            bos_token_id=2, eos_token_id=3)

    def layers(self):
        return [*self.net.albert.encoder.albert_layer_groups[0].albert_layers] * self.net.config.num_hidden_layers

    def shipped(self):
        net = transformers.AlbertForMaskedLM(self.net.config)
        net.load_state_dict({name: weight for name, weight in self.net.state_dict().items()
                             if not name.startswith(("albert.pooler", "sop_classifier"))})
        return net


class Roberta(Encoder):
    """Masked words alone, on runs of sentences, cased. Positions begin behind the padding token's id, which is 1."""
    architecture, stream, draws = transformers.RobertaForMaskedLM, "roberta", SpanSampler
    first_position = 2
    special = dict(bos_token="<s>", eos_token="</s>", unk_token="<unk>", sep_token="</s>", pad_token="<pad>",
                   cls_token="<s>", mask_token=AddedToken("<mask>", lstrip=True))
    word_module, word_modules = "lm_head", ("dense", "layer_norm", "decoder")

    def config(self, vocabulary, layers, heads, hidden) -> dict:
        return super().config(vocabulary, layers, heads, hidden) | dict(
            max_position_embeddings=self.longest + self.first_position, type_vocab_size=1, layer_norm_eps=1e-5,
            bos_token_id=0, pad_token_id=1, eos_token_id=2)


class Gpt2(Task):
    """The next token, on windows of the stream."""
    architecture, stream, draws = transformers.GPT2LMHeadModel, "gpt2", WindowSampler
    batch_tokens = 65_536
    special = dict.fromkeys(["unk_token", "bos_token", "eos_token"], "<|endoftext|>")

    def config(self, vocabulary, layers, heads, hidden) -> dict:
        return dict(vocab_size=vocabulary, n_embd=hidden, n_layer=layers, n_head=heads, n_positions=self.longest,
                    resid_pdrop=0., embd_pdrop=0., attn_pdrop=0., bos_token_id=0, eos_token_id=0)

    def plain_loss(self, ids):
        logits = self.net(ids, use_cache=False).logits[:, :-1]
        return F.cross_entropy(logits.flatten(0, 1).float(), ids[:, 1:].flatten())

    def fast_loss(self, ids):
        base, heads, eps = self.net.transformer, self.net.config.n_head, self.net.config.layer_norm_epsilon
        states = on(ids, decoder_start)(ids, base.wte.weight, base.wpe.weight, self.dtype)
        for block in base.h:
            parts = block.ln_1, block.attn.c_attn, block.attn.c_proj, block.ln_2, block.mlp.c_fc, block.mlp.c_proj
            states = on(ids, decoder_layer)(states, heads, eps, *both(*parts))
        return on(ids, decoder_loss)(states, ids, *both(base.ln_f), base.wte.weight, eps)

    def measure(self, tokens: Tokens, device, batches: int, batch_tokens: int) -> dict:
        """Perplexity of a token, in windows of the model's length and of half of it."""
        measures = {}
        for longest in (self.longest, self.longest // 2):
            sampler, generator = self.sampler(tokens, device, longest=longest), seeded(device, 1)
            losses = [self.plain_loss(sampler.draw(batch_tokens, generator)).item() for _ in range(batches)]
            measures[f"perplexity_{longest}"] = math.exp(sum(losses) / len(losses))
        return measures


KINDS = {"bert": Bert, "roberta": Roberta, "albert": Albert, "gpt2": Gpt2}
