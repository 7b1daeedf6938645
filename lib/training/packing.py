"""Training batches from a token stream, made on the device, with next to no padding.

`PairSampler` packs pairs of sentences, `SpanSampler` runs of sentences, end to end into one long row; attention is kept
inside each by `packed_attention`, so that a text of two short sentences costs what its tokens cost and no more.
`WindowSampler` cuts windows for a causal model, which needs no packing.

A stream may hold several sources. `Sources` says how often each is drawn from, and that can change while training goes
on. Both texts of a pair have one source, or telling a next sentence would often be telling two styles apart.
"""

import string
from dataclasses import dataclass, fields

import torch
import torch.nn.functional as F
from transformers import AttentionInterface

from lib import CompanionError
from lib.training.corpus import Tokens
from lib.training.kernels import shared

IGNORED = -100  # cross_entropy's mark for "no target here"
SPACE, LINE_BREAK = "\u0120", "\u010a"  # how byte-level BPE spells them in its tokens
LETTERS = set(string.ascii_letters)


class Batch:
    def __iter__(self):
        return (getattr(self, field.name) for field in fields(self))

    def inputs(self):
        """All but the answers."""
        return (getattr(self, f.name) for f in fields(self) if f.name not in ("targets", "not_next"))


@dataclass
class Pairs(Batch):
    """Sentence pairs `[CLS] A [SEP] B [SEP]` end to end in one row of tokens."""

    ids: torch.Tensor        # [tokens], some replaced by [MASK] or a random token
    positions: torch.Tensor  # [tokens], from 0 in every pair
    types: torch.Tensor      # [tokens], 0 in A, 1 in B
    bounds: torch.Tensor     # [pairs + 2], int32: where each pair begins; padding is the last "pair"
    masked: torch.Tensor     # [masked], the places whose token is to be predicted
    targets: torch.Tensor    # [masked], the tokens that stood there
    first: torch.Tensor      # [pairs], the place of [CLS]
    not_next: torch.Tensor   # [pairs], 0: B follows A, 1: it does not (BERT's coding)


@dataclass
class Spans(Batch):
    """Runs of sentences `<s> text </s>` end to end in one row of tokens; the fields are those of Pairs."""

    ids: torch.Tensor
    positions: torch.Tensor
    bounds: torch.Tensor
    masked: torch.Tensor
    targets: torch.Tensor


class Sources:
    """Which of a stream's sources each text is drawn from: by their sizes, until `mix` says otherwise."""

    def __init__(self, tokens: Tokens, device, shares: dict[str, float] | None = None):
        starts = list(tokens.sources.values())
        sizes = [end - start for start, end in zip(starts, [*starts[1:], len(tokens.ids)])]
        self.sizes, self.first_tokens = dict(zip(tokens.sources, sizes)), torch.tensor(starts, device=device)
        self.upto = torch.empty(len(starts), device=device)  # shares, summed up
        self.mix(**shares or {})

    def mix(self, **shares: float):
        """From now on draw these sources in these shares, the others in proportion to their sizes."""
        others = sum(size for name, size in self.sizes.items() if name not in shares)
        if not shares.keys() <= self.sizes.keys() or not others or not 0 <= sum(shares.values()) <= 1:
            raise CompanionError(f"The shares {shares} do not fit a text of the sources {', '.join(self.sizes)}: leave "
                                 "at least one source without, and let them be from 0 to 1 in sum.")
        rest = (1 - sum(shares.values())) / others
        self.upto.copy_(torch.tensor([shares.get(name, rest * size) for name, size in self.sizes.items()]).cumsum(0))

    def draw(self, n: int, uniform):
        """A source for each of n; where there is one, no chance is spent on it."""
        if len(self.upto) == 1:
            return torch.zeros(n, dtype=torch.long, device=self.upto.device)
        return torch.searchsorted(self.upto, uniform(n), right=True).clamp(max=len(self.upto) - 1)

    def ranges(self, places):
        """Where in `places` (tokens, ascending) each source begins, and how many it has."""
        first = torch.searchsorted(places, self.first_tokens)
        return first, torch.cat([first[1:], first.new_tensor([len(places)])]) - first


def one_of(ranges, source, uniform):
    """A number from the source's range for each."""
    first, size = ranges
    return first[source] + torch.minimum((uniform * size[source]).long(), size[source] - 1)


class Packer:
    """Where sentences and documents lie in a stream, and what all packed batches have in common."""

    marks = ()  # the tokens that open a text, close it, fill the end of a row, and mask

    def __init__(self, tokens: Tokens, tokenizer, device, everyday: float, longest: int, shares=None):
        self.sources = Sources(tokens, device, shares)
        self.ids = torch.from_numpy(tokens.ids.astype("int32")).to(device)
        self.starts = torch.from_numpy(tokens.sentences).to(device)
        self.ends = torch.cat([self.starts[1:], self.starts.new_tensor([len(self.ids)])])
        document = torch.from_numpy(tokens.documents).to(device)
        document_ends = torch.cat([document[1:], document.new_tensor([len(self.ids)])])
        self.document_end = document_ends[torch.searchsorted(document, self.starts, right=True) - 1]
        self.open, self.close, self.pad, self.mask = (tokenizer.token_to_id(t) for t in self.marks)
        self.n_special, self.vocabulary = self.mask + 1, tokenizer.get_vocab_size()
        self.everyday, self.longest, self.device = everyday, longest, device

    def _room(self, uniform):
        """How many tokens there are for a text: nine in ten have 128, the others the model's length."""
        return torch.where(uniform < .9, min(128, self.longest), self.longest)

    def _pick(self, sentences, source, prefers_short, uniform):
        """One of the source's sentences for each, the shorter of two where that is preferred."""
        one, other = sentences[one_of(self.ranges, source, uniform)]
        shorter = (self.ends - self.starts)[other] < (self.ends - self.starts)[one]
        return torch.where(prefers_short & shorter, other, one)

    def _end(self, sentence, wanted, room):
        """Where a segment ends: with the last sentence that ends within `wanted` tokens, but after one sentence at
        least; only a sentence longer than `room` is cut."""
        start, document_end = self.starts[sentence], self.document_end[sentence]
        limit = torch.minimum(start + wanted, document_end)
        last_whole = self.starts[torch.searchsorted(self.starts, limit, right=True) - 1]
        last_whole = torch.where(limit == document_end, document_end, last_whole)
        return torch.minimum(torch.maximum(last_whole, self.ends[sentence]), start + room)

    def _layout(self, size, n_tokens):
        """Texts of these sizes end to end: bounds, which of them fit, and of every token its text, its offset in it,
        and whether it is in one at all (the rest is padding)."""
        end = size.cumsum(0)
        fits = end <= n_tokens
        # Padded twice: writing a number into the last place would copy it from the CPU, which cannot be recorded.
        bounds = F.pad(F.pad(torch.where(fits, end, n_tokens), (1, 0)), (0, 1), value=n_tokens)
        place = torch.arange(n_tokens, device=self.device)
        text = torch.searchsorted(end, place, right=True).clamp(max=len(end) - 1)
        return bounds, fits, text, place - bounds[text], fits[text] & (place < bounds[-2])

    def _hide(self, ids, is_text, share_masked, uniform):
        """Choose tokens to predict: 80 % become the mask, 10 % a random token, 10 % stay, as BERT has it."""
        n_tokens = len(ids)
        score = torch.where(is_text, uniform(n_tokens), -1.)
        chosen, masked = score.topk(int(share_masked * n_tokens), sorted=False)
        original = ids[masked]
        fate = uniform(len(masked))
        random = self.n_special + (uniform(len(masked)) * (self.vocabulary - self.n_special)).long()
        replaced = torch.where(fate < .8, self.mask, torch.where(fate < .9, random, original))
        real = chosen >= 0
        ids = ids.scatter(0, masked, torch.where(real, replaced, original))
        return ids, masked, torch.where(real, original, IGNORED)


class PairSampler(Packer):
    """Draws packed pairs from a WordPiece stream.

    A share `everyday` of the pairs is one sentence and one sentence; half of those prefer the shorter of two
    candidates, since the evaluations of this project use short sentences. The rest are runs of sentences that fill
    128 tokens, one in ten 256. In half of all pairs B is what follows A in its document (BERT's next sentences).
    With `order` it always is, unless the document ends, and half of the pairs are swapped (ALBERT's sentence order).
    """

    marks = ("[CLS]", "[SEP]", "[PAD]", "[MASK]")

    def __init__(self, tokens: Tokens, tokenizer, device, everyday: float = .5, longest: int = 256, order=False,
                 shares=None):
        super().__init__(tokens, tokenizer, device, everyday, longest, shares)
        self.order, self.all = order, torch.arange(len(self.starts), device=device)
        self.ranges = self.sources.ranges(self.starts)
        _, a_size, _, b_size, _ = self._segments(10_000, lambda *shape: torch.rand(*shape, device=device))
        self.mean_size = (a_size + b_size).float().mean().item() + 3

    def draw(self, n_tokens: int, share_masked: float = .15, generator=None) -> Pairs:
        """One batch of exactly `n_tokens` tokens; what is left after the last whole pair is padding."""
        def uniform(*shape): return torch.rand(*shape, device=self.device, generator=generator)
        # A third more pairs than fit on average; not many more, since every empty one still costs attention a look.
        n_pairs = int(1.33 * n_tokens / self.mean_size)
        return self._pack(*self._segments(n_pairs, uniform), n_tokens, share_masked, uniform)

    def _segments(self, n: int, uniform):
        """Where n pairs lie in the stream: start and size of A and of B, and the pair's label."""
        everyday = uniform(n) < self.everyday
        prefers_short = everyday & (uniform(n) < .5)
        room = self._room(uniform(n)) - 3
        source = self.sources.draw(n, uniform)
        a = self._pick(self.all, source, prefers_short, uniform(2, n))
        a_room = torch.where(everyday, room // 2, room - 16)
        a_end = self._end(a, torch.where(everyday, 0, (uniform(n) * a_room).long()), a_room)
        following = torch.searchsorted(self.starts, a_end).clamp(max=len(self.starts) - 1)
        has_next = (self.starts[following] >= a_end) & (self.starts[following] < self.document_end[a])
        coin = uniform(n) < .5
        is_next = has_next & (coin | self.order)
        b = torch.where(is_next, following, self._pick(self.all, source, prefers_short, uniform(2, n)))
        b_room = room - (a_end - self.starts[a])
        b_end = self._end(b, torch.where(everyday, 0, b_room), b_room)
        a_start, b_start = self.starts[a], self.starts[b]
        a_size, b_size = a_end - a_start, b_end - b_start
        if not self.order:
            return a_start, a_size, b_start, b_size, (~is_next).long()
        return (torch.where(coin, a_start, b_start), torch.where(coin, a_size, b_size),
                torch.where(coin, b_start, a_start), torch.where(coin, b_size, a_size),
                torch.where(is_next, (~coin).long(), IGNORED))

    def _pack(self, a_start, a_size, b_start, b_size, label, n_tokens, share_masked, uniform) -> Pairs:
        bounds, fits, pair, offset, in_pair = self._layout(a_size + b_size + 3, n_tokens)
        to_a, to_b = offset - 1, offset - 2 - a_size[pair]
        is_a = in_pair & (to_a >= 0) & (to_a < a_size[pair])
        is_b = in_pair & (to_b >= 0) & (to_b < b_size[pair])
        source = torch.where(is_a, a_start[pair] + to_a, b_start[pair] + to_b).clamp(0, len(self.ids) - 1)
        ids = torch.where(is_a | is_b, self.ids[source].long(), self.close)
        ids = torch.where(in_pair & (offset == 0), self.open, ids)
        ids = torch.where(in_pair, ids, self.pad)
        types = (in_pair & (to_b >= 0)).long()
        ids, masked, targets = self._hide(ids, is_a | is_b, share_masked, uniform)
        return Pairs(ids, torch.where(in_pair, offset, 0), types, bounds.int(), masked, targets,
                     torch.where(fits, bounds[:-2], 0), torch.where(fits, label, IGNORED))


class SpanSampler(Packer):
    """Draws packed runs of sentences from a byte-level stream, for RoBERTa, which knows no pairs.

    A share `everyday` is one sentence, as in PairSampler; half of the rest fill 128 tokens (one in ten 256), half
    end anywhere before that. To the tokenizer the first word of a text has no space before it, and inside its document
    it had one. So a span opens with a paragraph, or with a sentence whose first word is one token with a twin that
    lacks the space, which then takes its place: that is how the tokenizer itself would spell the span.
    """

    marks = ("<s>", "</s>", "<pad>", "<mask>")

    def __init__(self, tokens: Tokens, tokenizer, device, everyday: float = .5, longest: int = 256, shares=None):
        super().__init__(tokens, tokenizer, device, everyday, longest, shares)
        spelled = [tokenizer.id_to_token(i) for i in range(self.vocabulary)]
        twins = [tokenizer.token_to_id(t[1:]) if t[0] == SPACE and set(t[1:]) <= LETTERS else None for t in spelled]
        self.bare = torch.tensor([i if twin is None else twin for i, twin in enumerate(twins)], device=device)
        has_twin = torch.tensor([twin is not None for twin in twins], device=device)
        ends_word = torch.tensor([t[0] in SPACE + LINE_BREAK + string.punctuation for t in spelled], device=device)
        after_break = self.ids[self.starts] == tokenizer.token_to_id(LINE_BREAK)
        self.begins = self.starts + after_break  # a paragraph's first sentence carries the line break before it
        opens_document = torch.isin(self.starts, torch.from_numpy(tokens.documents).to(device))
        next_token = self.ids[(self.starts + 1).clamp(max=len(self.ids) - 1)]
        can_open = opens_document | after_break | has_twin[self.ids[self.starts]] & ends_word[next_token]
        self.openings = (can_open & (self.begins < self.ends)).nonzero().flatten()
        self.ranges = self.sources.ranges(self.starts[self.openings])
        _, size = self._segments(10_000, lambda *shape: torch.rand(*shape, device=device))
        self.mean_size = size.float().mean().item() + 2

    def draw(self, n_tokens: int, share_masked: float = .15, generator=None) -> Spans:
        """One batch of exactly `n_tokens` tokens; what is left after the last whole span is padding."""
        def uniform(*shape): return torch.rand(*shape, device=self.device, generator=generator)
        start, size = self._segments(int(1.33 * n_tokens / self.mean_size), uniform)
        bounds, _, span, offset, in_span = self._layout(size + 2, n_tokens)
        is_text = in_span & (offset >= 1) & (offset <= size[span])
        ids = self.ids[(start[span] + offset - 1).clamp(0, len(self.ids) - 1)].long()
        ids = torch.where(offset == 1, self.bare[ids], ids)
        ids = torch.where(is_text, ids, torch.where(offset == 0, self.open, self.close))
        ids = torch.where(in_span, ids, self.pad)
        ids, masked, targets = self._hide(ids, is_text, share_masked, uniform)
        return Spans(ids, torch.where(in_span, offset, 0), bounds.int(), masked, targets)

    def _segments(self, n: int, uniform):
        """Where n spans lie in the stream: start and size."""
        everyday = uniform(n) < self.everyday
        room = self._room(uniform(n)) - 2
        wanted = torch.where(uniform(n) < .5, room, (uniform(n) * room).long())
        sentence = self._pick(self.openings, self.sources.draw(n, uniform), everyday & (uniform(n) < .5), uniform(2, n))
        end = self._end(sentence, torch.where(everyday, 0, wanted), room)
        return self.begins[sentence], end - self.begins[sentence]


class WindowSampler:
    """Draws windows from a byte-level stream: a quarter begin at <|endoftext|>, the rest at some sentence,
    so that the model meets prompts with and without the mark before them."""

    def __init__(self, tokens: Tokens, tokenizer, device, longest: int = 256, shares=None):
        self.sources = Sources(tokens, device, shares)
        self.ids = torch.from_numpy(tokens.ids.astype("int32")).to(device)
        self.documents = torch.from_numpy(tokens.documents).to(device)
        sentences = torch.from_numpy(tokens.sentences).to(device)
        # A paragraph's first sentence carries the line break before it; a window starts behind that.
        self.sentences = sentences + (self.ids[sentences] == tokenizer.encode("\n").ids[0])
        self.in_documents, self.in_sentences = (self.sources.ranges(one) for one in (self.documents, sentences))
        self.longest, self.device = longest, device

    def draw(self, n_tokens: int, generator=None) -> torch.Tensor:
        """Token ids [windows, longest], about n_tokens in all."""
        n = n_tokens // self.longest
        def uniform(n): return torch.rand(n, device=self.device, generator=generator)
        opening, source = uniform(n) < .25, self.sources.draw(n, uniform)
        start = torch.where(opening, self.documents[one_of(self.in_documents, source, uniform(n))],
                            self.sentences[one_of(self.in_sentences, source, uniform(n))])
        start = start.clamp(max=len(self.ids) - self.longest)
        return self.ids[start[:, None] + torch.arange(self.longest, device=self.device)].long()


def packed_attention(module, query, key, value, attention_mask=None, *, bounds, longest, dropout=0., scaling=None,
                     **kwargs):
    """Attention inside each pair of a packed row [1, heads, tokens, width]; transformers calls it as "packed".

    On a GPU the variable-length flash kernel; elsewhere, for tests, one dense mask that says who shares a pair. Neither
    drops attention out: with `dropout` each pair gets a row of its own.
    """
    if dropout:
        return unpacked_attention(query, key, value, bounds, longest, dropout), None
    if query.is_cuda:
        from torch.nn.attention.varlen import varlen_attn  # needs a CUDA build

        q, k, v = (x[0].transpose(0, 1) for x in (query, key, value))
        return varlen_attn(q, k, v, bounds, bounds, longest, longest)[None], None
    return F.scaled_dot_product_attention(query, key, value, shared(bounds, query.shape[2])).transpose(1, 2), None


def unpacked_attention(query, key, value, bounds, longest: int, dropout: float = 0.):
    """The same with a padded row for each pair, by a kernel that has dropout; back in the packed order."""
    place = torch.arange(query.shape[2], device=query.device)
    pair = torch.searchsorted(bounds[1:-1].long(), place, right=True)
    offset = (place - bounds[pair]).clamp(max=longest - 1)  # what fills the end of the row may be longer
    rows = [torch.zeros(len(bounds) - 1, longest, *x.shape[1::2], dtype=x.dtype, device=x.device).index_put(
        (pair, offset), x[0].transpose(0, 1)).transpose(1, 2) for x in (query, key, value)]
    there = torch.arange(longest, device=query.device) < bounds.diff()[:, None].clamp(min=1)  # an empty row sees zeros
    mixed = F.scaled_dot_product_attention(*rows, there[:, None, None], dropout)
    return mixed.transpose(1, 2)[pair, offset][None]


AttentionInterface.register("packed", packed_attention)
