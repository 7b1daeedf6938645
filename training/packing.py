"""Training batches from a token stream, made on the device, with next to no padding.

`PairSampler` packs pairs of sentences, `SpanSampler` runs of sentences, end to end into one long row; attention is kept
inside each by `packed_attention`, so that a text of two short sentences costs what its tokens cost and no more.
`WindowSampler` cuts windows for a causal model, which needs no packing.

`Sources` says how often each source of a stream is drawn from, which can change while training goes on. Both texts of a
pair have one source, or telling a next sentence would often be telling two styles apart."""

import string
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from transformers import AttentionInterface

from lib import CompanionError
from training.corpus import Tokens

IGNORED = -100  # cross_entropy's mark for "no target here"
MASKED = 0.15  # share of the tokens that are to be predicted
PRONOUNS = "he she his her him hers himself herself".split()  # those that are masked together
SPACE, LINE_BREAK = "\u0120", "\u010a"  # how byte-level BPE spells them in its tokens
LETTERS = set(string.ascii_letters)


class Batch(NamedTuple):
    """Texts end to end in one row of tokens: pairs `[CLS] A [SEP] B [SEP]`, or runs of sentences `<s> text </s>`."""

    ids: torch.Tensor  # [tokens], some replaced by the mask or a random token
    positions: torch.Tensor  # [tokens], from 0 in every text
    bounds: torch.Tensor  # [texts + 2], int32: where each text begins; padding is the last "text"
    masked: torch.Tensor  # [masked], the places whose token is to be predicted
    targets: torch.Tensor  # [masked], the tokens that stood there
    types: torch.Tensor | None = (
        None  # [tokens], 0 in A, 1 in B; this and what follows: of pairs alone
    )
    first: torch.Tensor | None = None  # [pairs], the place of [CLS]
    not_next: torch.Tensor | None = None  # [pairs], 0: B follows A, 1: it does not (BERT's coding)


class Sources:
    """Which of a stream's sources each text is drawn from: by their sizes, until `mix` says otherwise."""

    def __init__(self, tokens: Tokens, device, shares: dict[str, float] | None = None):
        self.first_tokens = torch.tensor(list(tokens.sources.values()), device=device)
        self.sizes = dict(
            zip(tokens.sources, np.diff([*tokens.sources.values(), len(tokens.ids)]).tolist())
        )
        self.upto = torch.empty(len(self.sizes), device=device)  # shares, summed up
        self.mix(**shares or {})

    def mix(self, **shares: float):
        """From now on draw these sources in these shares, the others in proportion to their sizes."""
        others = sum(size for name, size in self.sizes.items() if name not in shares)
        if (
            not shares.keys() <= self.sizes.keys()
            or not others
            or not 0 <= sum(shares.values()) <= 1
        ):
            raise CompanionError(
                f"The shares {shares} do not fit a text of the sources {', '.join(self.sizes)}: leave "
                "at least one source without, and let them be from 0 to 1 in sum."
            )
        rest = (1 - sum(shares.values())) / others
        self.upto.copy_(
            torch.tensor(
                [shares.get(name, rest * size) for name, size in self.sizes.items()]
            ).cumsum(0)
        )

    def draw(self, n: int, uniform):
        """A source for each of n; where there is one, no chance is spent on it."""
        if len(self.upto) == 1:
            return torch.zeros(n, dtype=torch.long, device=self.upto.device)
        return torch.searchsorted(self.upto, uniform(n), right=True).clamp(max=len(self.upto) - 1)

    def picker(self, places) -> Callable:
        """A function that picks for each of many sources one of the `places` (tokens, ascending) in it, by number."""
        first = torch.searchsorted(places, self.first_tokens)
        size = first.diff(append=first.new_tensor([len(places)]))
        return lambda source, uniform: (
            first[source] + torch.minimum((uniform * size[source]).long(), size[source] - 1)
        )


class Packer:
    """Where sentences and documents lie in a stream, and what all packed batches have in common.

    everyday  share of the texts that is single sentences (or pairs of them); half of those prefer the shorter of two
              candidates, since the evaluations of this project use short sentences
    together  in this share of the texts that have several PRONOUNS all of them are masked, and none is left or replaced
              at random: one that can be seen gives the others away. They are among the MASKED, not beside them"""

    marks = ()  # the tokens that open a text, close it, fill the end of a row, and mask
    space = ""  # what a token that begins a word inside a sentence begins with

    def __init__(
        self,
        tokens: Tokens,
        tokenizer,
        device,
        everyday: float = 0.5,
        longest: int = 256,
        shares=None,
        together: float = 0.0,
    ):
        self.sources = Sources(tokens, device, shares)
        self.ids = torch.from_numpy(tokens.ids.astype("int32")).to(device)
        self.starts, documents = (
            torch.from_numpy(x).to(device) for x in (tokens.sentences, tokens.documents)
        )
        self.ends, document_ends = (
            F.pad(x[1:], (0, 1), value=len(self.ids)) for x in (self.starts, documents)
        )
        self.document_end = document_ends[
            torch.searchsorted(documents, self.starts, right=True) - 1
        ]
        self.open, self.close, self.pad, self.mask = (tokenizer.token_to_id(t) for t in self.marks)
        self.n_special, self.vocabulary = self.mask + 1, tokenizer.get_vocab_size()
        self.everyday, self.longest, self.device, self.together = (
            everyday,
            longest,
            device,
            together,
        )
        spelled = [tokenizer.id_to_token(i) for i in range(self.vocabulary)]
        self.is_pronoun = torch.tensor(
            [
                token.removeprefix(SPACE).lower() in PRONOUNS
                and (token.startswith(self.space) or token[0].isupper())
                for token in spelled
            ],
            device=device,
        )
        self.bare = torch.arange(
            self.vocabulary, device=device
        )  # what a text's first token is spelled as
        self.openings = self._openings(
            tokenizer, spelled, documents
        )  # sentences that may open a text
        self.pick_opening = self.sources.picker(self.starts[self.openings])
        sizes = self._segments(10_000, partial(torch.rand, device=device))[1::2]
        self.mean_size = sum(sizes).float().mean().item() + len(sizes) + 1

    def draw(self, n_tokens: int, generator=None) -> Batch:
        """One batch of exactly `n_tokens` tokens; what is left after the last whole text is padding."""
        uniform = partial(torch.rand, device=self.device, generator=generator)
        # A third more texts than fit on average; not many more, since every empty one still costs attention a look.
        n_texts = int(1.33 * n_tokens / self.mean_size)
        *segments, labels = self._segments(n_texts, uniform)
        sizes = segments[1::2]
        bounds, fits, text, offset, inside = self._layout(sum(sizes) + len(sizes) + 1, n_tokens)
        place = to = offset - 1  # offset in the first segment, then in the second
        is_text = torch.zeros_like(inside)
        for start, size in zip(segments[::2], sizes):
            is_here = inside & (to >= 0) & (to < size[text])
            place, is_text, types = (
                torch.where(is_here, start[text] + to, place),
                is_text | is_here,
                to >= 0,
            )
            to = to - size[text] - 1
        ids = self.ids[place.clamp(0, len(self.ids) - 1)].long()
        ids = torch.where(is_text, torch.where(offset == 1, self.bare[ids], ids), self.close)
        ids = torch.where(inside, torch.where(offset == 0, self.open, ids), self.pad)
        first_choice = (
            self._together(ids, is_text, text, n_texts, uniform) if self.together else None
        )
        ids, masked, targets = self._hide(ids, is_text, uniform, first_choice)
        batch = Batch(ids, torch.where(inside, offset, 0), bounds.int(), masked, targets)
        return (
            batch
            if labels is None
            else batch._replace(
                types=(inside & types).long(),
                first=torch.where(fits, bounds[:-2], 0),
                not_next=torch.where(fits, labels, IGNORED),
            )
        )

    def _pick(self, source, prefers_short, uniform):
        """One of the source's openings for each, the shorter of two where that is preferred."""
        one, other = self.openings[self.pick_opening(source, uniform)]
        sizes = self.ends - self.starts
        return torch.where(prefers_short & (sizes[other] < sizes[one]), other, one)

    def _end(self, sentence, wanted, room):
        """Where a segment ends: with the last sentence in `wanted` tokens, or its first, cut only if over `room`."""
        start, document_end = self.starts[sentence], self.document_end[sentence]
        limit = torch.minimum(start + wanted, document_end)
        last_whole = self.starts[torch.searchsorted(self.starts, limit, right=True) - 1]
        last_whole = torch.where(limit == document_end, document_end, last_whole)
        return torch.minimum(torch.maximum(last_whole, self.ends[sentence]), start + room)

    def _layout(self, size, n_tokens):
        """Texts of these sizes end to end: bounds, which fit; of each token its text, its offset, if it is in one."""
        end = size.cumsum(0)
        fits = end <= n_tokens
        bounds = F.pad(F.pad(torch.where(fits, end, n_tokens), (1, 0)), (0, 1), value=n_tokens)
        place = torch.arange(n_tokens, device=self.device)
        text = torch.searchsorted(end, place, right=True).clamp(max=len(end) - 1)
        return bounds, fits, text, place - bounds[text], fits[text] & (place < bounds[-2])

    def _together(self, ids, is_text, text, n_texts: int, uniform):
        """Whether a token is one of several pronouns of a text in which they are masked together."""
        is_pronoun = self.is_pronoun[ids] & is_text
        several = (
            torch.zeros(n_texts, device=self.device).index_add(0, text, is_pronoun.float()) > 1
        )
        return is_pronoun & (several & (uniform(n_texts) < self.together))[text]

    def _hide(self, ids, is_text, uniform, first_choice=None):
        """Choose tokens to predict: 80 % become the mask, 10 % a random token, 10 % stay, as BERT has it. Those of
        `first_choice` are all chosen and all become the mask."""
        score = torch.where(is_text, uniform(len(ids)), -1.0)
        if first_choice is not None:
            score = score + first_choice  # the others are below 1
        chosen, masked = score.topk(int(MASKED * len(ids)), sorted=False)
        original = ids[masked]
        fate = uniform(len(masked))
        random = self.n_special + (uniform(len(masked)) * (self.vocabulary - self.n_special)).long()
        replaced = torch.where(
            (fate < 0.8) | (chosen >= 1), self.mask, torch.where(fate < 0.9, random, original)
        )
        ids = ids.scatter(0, masked, torch.where(chosen >= 0, replaced, original))
        return ids, masked, torch.where(chosen >= 0, original, IGNORED)


class PairSampler(Packer):
    """Draws packed pairs from a WordPiece stream: of single sentences, or runs that fill 128 tokens, one in ten 256.
    In half of all pairs B is what follows A in its document (BERT's next sentences). With `order` it always is, unless
    the document ends, and half of the pairs are swapped (ALBERT's sentence order)."""

    marks = ("[CLS]", "[SEP]", "[PAD]", "[MASK]")

    def __init__(self, *args, order: bool = False, **options):
        self.order = order
        super().__init__(*args, **options)

    def _openings(self, *_):
        return torch.arange(len(self.starts), device=self.device)

    def _segments(self, n: int, uniform):
        """Where n pairs lie in the stream: start and size of A and of B, and the pair's label."""
        everyday = uniform(n) < self.everyday
        prefers_short = everyday & (uniform(n) < 0.5)
        room = (
            torch.where(uniform(n) < 0.9, min(128, self.longest), self.longest) - 3
        )  # but for the marks
        source = self.sources.draw(n, uniform)
        a = self._pick(source, prefers_short, uniform(2, n))
        a_room = torch.where(everyday, room // 2, room - 16)
        a_end = self._end(a, torch.where(everyday, 0, (uniform(n) * a_room).long()), a_room)
        following = torch.searchsorted(self.starts, a_end).clamp(max=len(self.starts) - 1)
        has_next = (self.starts[following] >= a_end) & (
            self.starts[following] < self.document_end[a]
        )
        coin = uniform(n) < 0.5
        is_next = has_next & (coin | self.order)
        b = torch.where(is_next, following, self._pick(source, prefers_short, uniform(2, n)))
        b_room = room - (a_end - self.starts[a])
        b_end = self._end(b, torch.where(everyday, 0, b_room), b_room)
        a, b = (self.starts[a], a_end - self.starts[a]), (self.starts[b], b_end - self.starts[b])
        if not self.order:
            return *a, *b, (~is_next).long()
        swapped = (torch.where(coin, one, other) for one, other in zip(a + b, b + a))
        return *swapped, torch.where(is_next, (~coin).long(), IGNORED)


class SpanSampler(Packer):
    """Draws packed runs of sentences from a byte-level stream, for RoBERTa, which knows no pairs.

    Half of those that are no single sentence fill 128 tokens (one in ten 256), half end anywhere before that. To the
    tokenizer the first word of a text has no space before it, and inside its document it had one. So a span opens with
    a paragraph, or with a sentence whose first word is one token with a twin that lacks the space, which then takes its
    place: that is how the tokenizer itself would spell the span."""

    marks, space = ("<s>", "</s>", "<pad>", "<mask>"), SPACE

    def _openings(self, tokenizer, spelled, documents):
        twins = [
            tokenizer.token_to_id(t[1:]) if t[0] == SPACE and set(t[1:]) <= LETTERS else None
            for t in spelled
        ]
        self.bare = torch.tensor(
            [i if twin is None else twin for i, twin in enumerate(twins)], device=self.device
        )
        has_twin = torch.tensor([twin is not None for twin in twins], device=self.device)
        ends_word = torch.tensor(
            [t[0] in SPACE + LINE_BREAK + string.punctuation for t in spelled], device=self.device
        )
        after_break = self.ids[self.starts] == tokenizer.token_to_id(LINE_BREAK)
        self.begins = (
            self.starts + after_break
        )  # a paragraph's first sentence carries the line break before it
        next_token = self.ids[(self.starts + 1).clamp(max=len(self.ids) - 1)]
        can_open = has_twin[self.ids[self.starts]] & ends_word[next_token] | after_break
        can_open |= torch.isin(self.starts, documents)
        return (can_open & (self.begins < self.ends)).nonzero().flatten()

    def _segments(self, n: int, uniform):
        """Where n spans lie in the stream: start, size, and no label."""
        everyday = uniform(n) < self.everyday
        room = (
            torch.where(uniform(n) < 0.9, min(128, self.longest), self.longest) - 2
        )  # but for the marks
        wanted = torch.where(uniform(n) < 0.5, room, (uniform(n) * room).long())
        sentence = self._pick(
            self.sources.draw(n, uniform), everyday & (uniform(n) < 0.5), uniform(2, n)
        )
        end = self._end(sentence, torch.where(everyday, 0, wanted), room)
        return self.begins[sentence], end - self.begins[sentence], None


class WindowSampler:
    """Draws windows from a byte-level stream: a quarter begin at <|endoftext|>, the rest at some sentence,
    so that the model meets prompts with and without the mark before them."""

    def __init__(self, tokens: Tokens, tokenizer, device, longest: int = 256, shares=None):
        self.sources = Sources(tokens, device, shares)
        self.ids = torch.from_numpy(tokens.ids.astype("int32")).to(device)
        self.documents, sentences = (
            torch.from_numpy(x).to(device) for x in (tokens.documents, tokens.sentences)
        )
        # A paragraph's first sentence carries the line break before it; a window starts behind that.
        self.sentences = sentences + (self.ids[sentences] == tokenizer.encode("\n").ids[0])
        self.pick_document, self.pick_sentence = map(
            self.sources.picker, (self.documents, sentences)
        )
        self.longest, self.device = longest, device

    def draw(self, n_tokens: int, generator=None) -> torch.Tensor:
        """Token ids [windows, longest], about n_tokens in all."""
        n = n_tokens // self.longest
        uniform = partial(torch.rand, device=self.device, generator=generator)
        opening, source = uniform(n) < 0.25, self.sources.draw(n, uniform)
        start = torch.where(
            opening,
            self.documents[self.pick_document(source, uniform(n))],
            self.sentences[self.pick_sentence(source, uniform(n))],
        )
        start = start.clamp(max=len(self.ids) - self.longest)
        return self.ids[start[:, None] + torch.arange(self.longest, device=self.device)].long()


def packed_attention(
    module, query, key, value, attention_mask=None, *, bounds, longest, dropout=0.0, **kwargs
):
    """Attention inside each pair of a packed row [1, heads, tokens, width]; transformers calls it as "packed".
    On a GPU the variable-length flash kernel; elsewhere, for tests, one dense mask that says who shares a pair. Neither
    drops attention out: with `dropout` each pair gets a row of its own."""
    if dropout:
        return unpacked_attention(query, key, value, bounds, longest, dropout), None
    if query.is_cuda:
        from torch.nn.attention.varlen import varlen_attn  # needs a CUDA build

        q, k, v = (x[0].transpose(0, 1) for x in (query, key, value))
        return varlen_attn(q, k, v, bounds, bounds, longest, longest)[None], None
    pair = torch.searchsorted(bounds[1:-1].long(), torch.arange(query.shape[2]), right=True)
    return F.scaled_dot_product_attention(query, key, value, pair[:, None] == pair).transpose(
        1, 2
    ), None


def unpacked_attention(query, key, value, bounds, longest: int, dropout: float = 0.0):
    """The same with a padded row for each pair, by a kernel that has dropout; back in the packed order."""
    place = torch.arange(query.shape[2], device=query.device)
    pair = torch.searchsorted(bounds[1:-1].long(), place, right=True)
    offset = (place - bounds[pair]).clamp(
        max=longest - 1
    )  # what fills the end of the row may be longer
    rows = [
        torch.zeros(len(bounds) - 1, longest, *x.shape[1::2], dtype=x.dtype, device=x.device)
        .index_put((pair, offset), x[0].transpose(0, 1))
        .transpose(1, 2)
        for x in (query, key, value)
    ]
    there = torch.arange(longest, device=query.device) < bounds.diff()[:, None].clamp(
        min=1
    )  # an empty row sees zeros
    return F.scaled_dot_product_attention(*rows, there[:, None, None], dropout).transpose(1, 2)[
        pair, offset
    ][None]


AttentionInterface.register("packed", packed_attention)
