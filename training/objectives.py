"""What each family of models learns from text, and how well it has learned it.

A task is a network, its tokenizer and a loss. The three encoders see packed texts (packing.py) and
differ as the papers' models do: BERT tells next sentences, ALBERT their order, RoBERTa neither.
"""

import functools
import math

import torch
import torch.nn.functional as F
import transformers
from tokenizers import AddedToken

from training.corpus import Tokens
from training.packing import Batch, PairSampler, SpanSampler, WindowSampler


def seeded(device, seed: int) -> torch.Generator:
    return torch.Generator(device).manual_seed(seed)


class Task:
    """What all four kinds share.

    A kind sets `architecture` (its class of transformers), `stream` (the name of the tokenizer and
    token stream that it reads), `draws` (the class that draws batches from the stream) and
    `special` (its special tokens).
    """

    shape = dict(layers=12, heads=12, hidden=288, longest=256)
    batch_tokens = 131_072
    learning_rate = 2.5e-3
    reads = ["input_ids", "attention_mask"]
    attention = None  # the implementation of attention; None: the one of transformers

    def __init__(self, tokenizer, layers: int, heads: int, hidden: int, longest: int):
        self.tokenizer = tokenizer
        self.longest = longest  # tokens of a text
        options = self.config(tokenizer.get_vocab_size(), layers, heads, hidden)
        config = self.architecture.config_class(**options)
        self.net = self.architecture._from_config(config, attn_implementation=self.attention)

    def sampler(self, tokens: Tokens, device, **options):
        """What draws batches from the stream; options are those of its class."""
        options = dict(longest=self.longest) | options
        return self.draws(tokens, self.tokenizer, device, **options)

    def stored_net(self):
        """The network as it is saved."""
        return self.net

    def hub_tokenizer(self) -> transformers.PreTrainedTokenizerFast:
        return transformers.PreTrainedTokenizerFast(
            tokenizer_object=self.tokenizer,
            model_max_length=self.longest,
            model_input_names=self.reads,
            **self.special,
        )


class Encoder(Task):
    """Masked words, and where the batch has them pairs of sentences with a label each."""

    attention = "packed"
    first_position = 0
    word_module = None  # name of the module that makes vocabulary logits of states
    label_modules = None  # names of pooler and classifier of the pairs' labels
    label_name = None  # what the accuracy on these labels is called

    def config(self, vocabulary: int, layers: int, heads: int, hidden: int) -> dict:
        return dict(
            vocab_size=vocabulary,
            hidden_size=hidden,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            intermediate_size=4 * hidden,
            max_position_embeddings=self.longest,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )

    def outputs(self, batch: Batch) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Vocabulary logits at the masked places, and label logits of the pairs or None."""
        output = self.net.base_model(
            batch.ids[None],
            token_type_ids=None if batch.types is None else batch.types[None],
            bounds=batch.bounds,
            position_ids=batch.positions[None] + self.first_position,
            longest=self.longest,
        )
        states = output.last_hidden_state[0]
        words = self.net.get_submodule(self.word_module)(states[batch.masked])
        if batch.first is None:
            return words, None
        pooler_name, classifier_name = self.label_modules
        pooler = self.net.get_submodule(pooler_name)
        classifier = self.net.get_submodule(classifier_name)
        return words, classifier(pooler(states[batch.first]).tanh())

    def loss(self, batch: Batch) -> torch.Tensor:
        words, labels = self.outputs(batch)
        loss = F.cross_entropy(words.float(), batch.targets)
        if labels is None:
            return loss
        return loss + F.cross_entropy(labels.float(), batch.not_next)

    def measure(self, tokens: Tokens, device, batches: int, batch_tokens: int) -> dict:
        """Perplexity of masked words and accuracy on the pairs' labels.

        On texts as in training, and on single sentences (or pairs of them).
        """
        measures = {}
        for suffix, options in (("", {}), ("_single_sentences", dict(everyday=1.0))):
            sampler = self.sampler(tokens, device, **options)
            perplexity, accuracy = self._measure(sampler, device, batches, batch_tokens)
            measures[f"mlm_perplexity{suffix}"] = perplexity
            if accuracy is not None:
                measures[f"{self.label_name}_accuracy{suffix}"] = accuracy
        return measures

    def _measure(
        self, sampler, device, batches: int, batch_tokens: int
    ) -> tuple[float, float | None]:
        """Perplexity of masked words, and accuracy on labels; None if there are none."""
        generator = seeded(device, 1)
        surprise = 0.0  # in nats
        words = 0
        right = 0
        pairs = 0
        for _ in range(batches):
            batch = sampler.draw(batch_tokens, generator)
            logits, labels = self.outputs(batch)
            surprise += F.cross_entropy(logits.float(), batch.targets, reduction="sum").item()
            words += (batch.targets >= 0).sum().item()
            if labels is not None:
                right += (labels.argmax(1) == batch.not_next).sum().item()
                pairs += (batch.not_next >= 0).sum().item()
        perplexity = math.exp(surprise / words)
        return perplexity, right / pairs if pairs else None


class Bert(Encoder):
    """Masked words and next sentences: `[CLS] A [SEP] B [SEP]` on the uncased WordPiece stream."""

    architecture = transformers.BertForPreTraining
    stream = "bert"
    draws = PairSampler
    special = dict(
        unk_token="[UNK]",
        sep_token="[SEP]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        mask_token="[MASK]",
    )
    reads = ["input_ids", "token_type_ids", "attention_mask"]
    word_module = "cls.predictions"
    label_modules = ("bert.pooler.dense", "cls.seq_relationship")
    label_name = "nsp"


class Albert(Encoder):
    """Masked words and the order of sentences.

    One layer is run `layers` times, and embeddings are a third as wide as the layer. It is stored
    without pooler and order head, which nothing here uses, and its inner width is 3.25 times the
    outer (ALBERT's own is 4): both so that the folder stays under 8 MB.
    """

    architecture = transformers.AlbertForPreTraining
    stream = "bert"
    draws = functools.partial(PairSampler, order=True)
    special = Bert.special
    reads = Bert.reads
    shape = Task.shape | dict(hidden=384)
    word_module = "predictions"
    label_modules = ("albert.pooler", "sop_classifier.classifier")
    label_name = "order"

    def config(self, vocabulary: int, layers: int, heads: int, hidden: int) -> dict:
        return super().config(vocabulary, layers, heads, hidden) | dict(
            embedding_size=hidden // 3,
            intermediate_size=13 * hidden // 4,
            classifier_dropout_prob=0.0,
            pad_token_id=0,
            bos_token_id=2,
            eos_token_id=3,
        )

    def stored_net(self):
        net = transformers.AlbertForMaskedLM(self.net.config)
        weights = {}
        for name, weight in self.net.state_dict().items():
            if not name.startswith(("albert.pooler", "sop_classifier")):
                weights[name] = weight
        net.load_state_dict(weights)
        return net


class Roberta(Encoder):
    """Masked words alone, on runs of sentences, cased.

    Positions begin behind the padding token's id, which is 1.
    """

    architecture = transformers.RobertaForMaskedLM
    stream = "roberta"
    draws = SpanSampler
    first_position = 2
    special = dict(
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
        sep_token="</s>",
        pad_token="<pad>",
        cls_token="<s>",
        mask_token=AddedToken("<mask>", lstrip=True),
    )
    word_module = "lm_head"

    def config(self, vocabulary: int, layers: int, heads: int, hidden: int) -> dict:
        return super().config(vocabulary, layers, heads, hidden) | dict(
            max_position_embeddings=self.longest + self.first_position,
            bos_token_id=0,
            pad_token_id=1,
            eos_token_id=2,
            type_vocab_size=1,
            layer_norm_eps=1e-5,
        )


class Gpt2(Task):
    """The next token, on windows of the stream."""

    architecture = transformers.GPT2LMHeadModel
    stream = "gpt2"
    draws = WindowSampler
    batch_tokens = 65_536
    special = dict.fromkeys(["unk_token", "bos_token", "eos_token"], "<|endoftext|>")

    def config(self, vocabulary: int, layers: int, heads: int, hidden: int) -> dict:
        return dict(
            vocab_size=vocabulary,
            n_embd=hidden,
            n_layer=layers,
            n_head=heads,
            n_positions=self.longest,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            bos_token_id=0,
            eos_token_id=0,
        )

    def loss(self, ids: torch.Tensor) -> torch.Tensor:
        logits = self.net(ids, use_cache=False).logits[:, :-1]
        return F.cross_entropy(logits.flatten(0, 1).float(), ids[:, 1:].flatten())

    def measure(self, tokens: Tokens, device, batches: int, batch_tokens: int) -> dict:
        """Perplexity of a token, in windows of the model's length and of half of it."""
        measures = {}
        for longest in (self.longest, self.longest // 2):
            sampler = self.sampler(tokens, device, longest=longest)
            generator = seeded(device, 1)
            losses = []
            for _ in range(batches):
                batch = sampler.draw(batch_tokens, generator)
                losses.append(self.loss(batch).item())
            measures[f"perplexity_{longest}"] = math.exp(sum(losses) / len(losses))
        return measures


KINDS = {"bert": Bert, "roberta": Roberta, "albert": Albert, "gpt2": Gpt2}
