"""What each family of models learns from text, and how well it has learned it.

A task is a network, its tokenizer and a loss: `sampler` draws batches from a token stream, `loss` takes one, `measure`
says what held-out text is worth, `shipped` and `hub_tokenizer` are what is saved. The three encoders see packed texts
(packing.py) and differ as the papers' models do: BERT tells next sentences, ALBERT their order, RoBERTa neither.
"""

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

from lib.training.corpus import Tokens
from lib.training.packing import PairSampler, SpanSampler, WindowSampler

SHAPE = dict(layers=12, heads=12, hidden=288, longest=256)
NO_DROPOUT = dict(hidden_dropout_prob=0., attention_probs_dropout_prob=0.)


def seeded(device, seed: int) -> torch.Generator:
    return torch.Generator(device).manual_seed(seed)


class Task:
    """What all four share."""

    shape = SHAPE
    batch_tokens, learning_rate = 131_072, 2.5e-3
    vocabulary_of = None  # the kind whose tokenizer and token stream this one reads

    def __init__(self, tokenizer, layers, heads, hidden, longest):
        self.tokenizer, self.longest = tokenizer, longest
        self.net = self.network(tokenizer.get_vocab_size(), layers, heads, hidden)

    def shipped(self):
        """The network as it is saved."""
        return self.net


class Encoder(Task):
    """Masked words, and where the batch has them pairs of sentences with a label each."""

    label_name = None  # what the accuracy on the pairs' labels is called

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

    def loss(self, ids, positions, types, bounds, masked, targets, first, not_next):
        words, labels = self.outputs(ids, positions, types, bounds, masked, first)
        return F.cross_entropy(words.float(), targets) + F.cross_entropy(labels.float(), not_next)

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

    def loss(self, ids, positions, bounds, masked, targets):
        return F.cross_entropy(self.outputs(ids, positions, bounds, masked)[0].float(), targets)

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

    def sampler(self, tokens: Tokens, device, longest=None):
        return WindowSampler(tokens, self.tokenizer, device, longest or self.longest)

    def loss(self, ids, reduction="mean"):
        logits = self.net(ids, use_cache=False).logits[:, :-1]
        return F.cross_entropy(logits.flatten(0, 1).float(), ids[:, 1:].flatten(), reduction=reduction)

    def measure(self, tokens: Tokens, device, batches: int, batch_tokens: int) -> dict:
        """Perplexity of a token, in windows of the model's length and of half of it."""
        measures = {}
        for longest in (self.longest, self.longest // 2):
            sampler, generator = self.sampler(tokens, device, longest), seeded(device, 1)
            losses = [self.loss(sampler.draw(batch_tokens, generator)).item() for _ in range(batches)]
            measures[f"perplexity_{longest}"] = math.exp(sum(losses) / len(losses))
        return measures

    def hub_tokenizer(self):
        mark = "<|endoftext|>"
        return PreTrainedTokenizerFast(tokenizer_object=self.tokenizer, unk_token=mark, bos_token=mark, eos_token=mark,
                                       model_max_length=self.longest,
                                       model_input_names=["input_ids", "attention_mask"])


KINDS = {"bert": Bert, "roberta": Roberta, "albert": Albert, "gpt2": Gpt2}
