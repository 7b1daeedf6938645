"""Training batches from a token stream, made on the device, with next to no padding.

`PairSampler` packs sentence pairs for next-sentence prediction end to end into one long row; attention is kept
inside each pair by `packed_attention`, so that a pair of two short sentences costs what its tokens cost and no more.
`WindowSampler` cuts windows for a causal model, which needs no packing.
"""

from dataclasses import dataclass, fields

import torch
import torch.nn.functional as F
from transformers import AttentionInterface

from lib.corpus import Tokens

IGNORED = -100  # cross_entropy's mark for "no target here"


@dataclass
class Pairs:
    """Sentence pairs `[CLS] A [SEP] B [SEP]` end to end in one row of tokens."""

    ids: torch.Tensor        # [tokens], some replaced by [MASK] or a random token
    positions: torch.Tensor  # [tokens], from 0 in every pair
    types: torch.Tensor      # [tokens], 0 in A, 1 in B
    bounds: torch.Tensor     # [pairs + 2], int32: where each pair begins; padding is the last "pair"
    masked: torch.Tensor     # [masked], the places whose token is to be predicted
    targets: torch.Tensor    # [masked], the tokens that stood there
    first: torch.Tensor      # [pairs], the place of [CLS]
    not_next: torch.Tensor   # [pairs], 0: B follows A, 1: B is from elsewhere (BERT's coding)

    def __iter__(self):
        return (getattr(self, field.name) for field in fields(self))


class PairSampler:
    """Draws packed pairs from a WordPiece stream.

    A share `everyday` of the pairs is one sentence and one sentence; half of those prefer the shorter of two
    candidates, since the evaluations of this project use short sentences. The rest are runs of sentences that fill
    128 tokens, one in ten 256. In half of all pairs B is what follows A in its document.
    """

    def __init__(self, tokens: Tokens, tokenizer, device, everyday: float = .5, longest: int = 256):
        self.ids = torch.from_numpy(tokens.ids.astype("int32")).to(device)
        self.starts = torch.from_numpy(tokens.sentences).to(device)
        self.ends = torch.cat([self.starts[1:], self.starts.new_tensor([len(self.ids)])])
        document = torch.from_numpy(tokens.documents).to(device)
        document_ends = torch.cat([document[1:], document.new_tensor([len(self.ids)])])
        self.document_end = document_ends[torch.searchsorted(document, self.starts, right=True) - 1]
        self.cls, self.sep, self.mask = (tokenizer.token_to_id(t) for t in ("[CLS]", "[SEP]", "[MASK]"))
        self.n_special, self.vocabulary = self.mask + 1, tokenizer.get_vocab_size()
        self.everyday, self.longest, self.device = everyday, longest, device
        _, a_size, _, b_size, _ = self._segments(10_000, lambda *shape: torch.rand(*shape, device=device))
        self.mean_size = (a_size + b_size).float().mean().item() + 3

    def draw(self, n_tokens: int, share_masked: float = .15, generator=None) -> Pairs:
        """One batch of exactly `n_tokens` tokens; what is left after the last whole pair is padding."""
        def uniform(*shape): return torch.rand(*shape, device=self.device, generator=generator)
        # A third more pairs than fit on average; not many more, since every empty one still costs attention a look.
        n_pairs = int(1.33 * n_tokens / self.mean_size)
        return self._pack(*self._segments(n_pairs, uniform), n_tokens, share_masked, uniform)

    def _segments(self, n: int, uniform):
        """Where n pairs lie in the stream: start and size of A and of B, and whether B follows A."""
        everyday = uniform(n) < self.everyday
        prefers_short = everyday & (uniform(n) < .5)

        def pick_sentence():
            one, other = (uniform(2, n) * len(self.starts)).long()
            shorter = (self.ends - self.starts)[other] < (self.ends - self.starts)[one]
            return torch.where(prefers_short & shorter, other, one)

        room = torch.where(uniform(n) < .9, min(128, self.longest), self.longest) - 3
        a = pick_sentence()
        a_room = torch.where(everyday, room // 2, room - 16)
        a_end = self._end(a, torch.where(everyday, 0, (uniform(n) * a_room).long()), a_room)
        following = torch.searchsorted(self.starts, a_end).clamp(max=len(self.starts) - 1)
        is_next = (uniform(n) < .5) & (self.starts[following] >= a_end) & (self.starts[following] < self.document_end[a])
        b = torch.where(is_next, following, pick_sentence())
        b_room = room - (a_end - self.starts[a])
        b_end = self._end(b, torch.where(everyday, 0, b_room), b_room)
        return self.starts[a], a_end - self.starts[a], self.starts[b], b_end - self.starts[b], is_next

    def _end(self, sentence, wanted, room):
        """Where a segment ends: with the last sentence that ends within `wanted` tokens, but after one sentence at
        least; only a sentence longer than `room` is cut."""
        start, document_end = self.starts[sentence], self.document_end[sentence]
        limit = torch.minimum(start + wanted, document_end)
        last_whole = self.starts[torch.searchsorted(self.starts, limit, right=True) - 1]
        last_whole = torch.where(limit == document_end, document_end, last_whole)
        return torch.minimum(torch.maximum(last_whole, self.ends[sentence]), start + room)

    def _pack(self, a_start, a_size, b_start, b_size, is_next, n_tokens, share_masked, uniform) -> Pairs:
        size = a_size + b_size + 3
        end = size.cumsum(0)
        fits = end <= n_tokens
        bounds = F.pad(torch.where(fits, end, n_tokens), (1, 1), value=0)
        bounds[-1] = n_tokens
        place = torch.arange(n_tokens, device=self.device)
        pair = torch.searchsorted(end, place, right=True).clamp(max=len(end) - 1)
        offset = place - bounds[pair]
        in_pair = fits[pair] & (place < bounds[-2])
        to_a, to_b = offset - 1, offset - 2 - a_size[pair]
        is_a = in_pair & (to_a >= 0) & (to_a < a_size[pair])
        is_b = in_pair & (to_b >= 0) & (to_b < b_size[pair])
        source = torch.where(is_a, a_start[pair] + to_a, b_start[pair] + to_b).clamp(0, len(self.ids) - 1)
        ids = torch.where(is_a | is_b, self.ids[source].long(), self.sep)
        ids = torch.where(in_pair & (offset == 0), self.cls, ids)
        ids = torch.where(in_pair, ids, 0)
        types = (in_pair & (to_b >= 0)).long()

        score = torch.where(is_a | is_b, uniform(n_tokens), -1.)
        chosen, masked = score.topk(int(share_masked * n_tokens), sorted=False)
        original = ids[masked]
        fate = uniform(len(masked))  # 80 % [MASK], 10 % a random token, 10 % unchanged, as BERT has it
        random = self.n_special + (uniform(len(masked)) * (self.vocabulary - self.n_special)).long()
        replaced = torch.where(fate < .8, self.mask, torch.where(fate < .9, random, original))
        real = chosen >= 0
        ids = ids.scatter(0, masked, torch.where(real, replaced, original))
        return Pairs(ids, torch.where(in_pair, offset, 0), types, bounds.int(), masked,
                     torch.where(real, original, IGNORED), torch.where(fits, bounds[:-2], 0),
                     torch.where(fits, (~is_next).long(), IGNORED))


class WindowSampler:
    """Draws windows from a byte-level stream: a quarter begin at <|endoftext|>, the rest at some sentence,
    so that the model meets prompts with and without the mark before them."""

    def __init__(self, tokens: Tokens, tokenizer, device, longest: int = 256):
        self.ids = torch.from_numpy(tokens.ids.astype("int32")).to(device)
        self.documents = torch.from_numpy(tokens.documents).to(device)
        sentences = torch.from_numpy(tokens.sentences).to(device)
        # A paragraph's first sentence carries the line break before it; a window starts behind that.
        self.sentences = sentences + (self.ids[sentences] == tokenizer.encode("\n").ids[0])
        self.longest, self.device = longest, device

    def draw(self, n_tokens: int, generator=None) -> torch.Tensor:
        """Token ids [windows, longest], about n_tokens in all."""
        n = n_tokens // self.longest
        def pick(starts): return starts[(torch.rand(n, device=self.device, generator=generator) * len(starts)).long()]
        opening = torch.rand(n, device=self.device, generator=generator) < .25
        start = torch.where(opening, pick(self.documents), pick(self.sentences))
        start = start.clamp(max=len(self.ids) - self.longest)
        return self.ids[start[:, None] + torch.arange(self.longest, device=self.device)].long()


def packed_attention(module, query, key, value, attention_mask=None, *, bounds, longest, scaling=None, **kwargs):
    """Attention inside each pair of a packed row [1, heads, tokens, width]; transformers calls it as "packed".

    On a GPU the variable-length flash kernel; elsewhere, for tests, one dense mask that says who shares a pair.
    """
    if query.is_cuda:
        from torch.nn.attention.varlen import varlen_attn  # needs a CUDA build

        q, k, v = (x[0].transpose(0, 1) for x in (query, key, value))
        return varlen_attn(q, k, v, bounds, bounds, longest, longest)[None], None
    pair = torch.searchsorted(bounds[1:-1].long(), torch.arange(query.shape[2]), right=True)
    same = pair[:, None] == pair[None, :]
    return F.scaled_dot_product_attention(query, key, value, same).transpose(1, 2), None


AttentionInterface.register("packed", packed_attention)
