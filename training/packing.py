"""Training batches from a token stream, made on the device, with next to no padding.

`PairSampler` packs pairs of sentences, `SpanSampler` runs of sentences, end to end into one long
row. `packed_attention` keeps attention inside each text, so that a text of two short sentences
costs what its tokens cost and no more. `WindowSampler` cuts windows for a causal model, which needs
no packing.

`Sources` says how often each source of a stream is drawn from, which can change during training.
Both sentences of a pair are of one source: otherwise a model could often tell a next sentence by
its style.
"""

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
# Those that are masked together.
PRONOUNS = ["he", "she", "his", "her", "him", "hers", "himself", "herself"]
SPACE = "\u0120"  # how byte-level BPE spells a space in its tokens
LINE_BREAK = "\u010a"  # and a line break
LETTERS = set(string.ascii_letters)
SHORT = 128  # tokens that nine in ten texts have at most


class Batch(NamedTuple):
    """Texts end to end in one row of tokens.

    They are pairs `[CLS] A [SEP] B [SEP]`, or runs of sentences `<s> text </s>`. The last three
    fields are None for runs of sentences.
    """

    ids: torch.Tensor  # [tokens], some replaced by the mask or a random token
    positions: torch.Tensor  # [tokens], from 0 in every text
    bounds: torch.Tensor  # [texts + 2], int32: where each text begins; padding is the last "text"
    masked: torch.Tensor  # [masked], the places whose token is to be predicted
    targets: torch.Tensor  # [masked], the tokens that stood there
    types: torch.Tensor | None = None  # [tokens], 0 in A, 1 in B
    first: torch.Tensor | None = None  # [pairs], the place of [CLS]
    not_next: torch.Tensor | None = None  # [pairs], 0: B follows A, 1: it does not (BERT's coding)


class Segment(NamedTuple):
    """One run of tokens of the stream for each of n texts."""

    start: torch.Tensor  # [n], its first token
    size: torch.Tensor  # [n], in tokens


class Layout(NamedTuple):
    """Where texts that are laid end to end lie in a row."""

    bounds: torch.Tensor  # [texts + 2], where each text begins, the padding begins, the row ends
    fits: torch.Tensor  # [texts], whether the text is in the row
    text: torch.Tensor  # [tokens], the number of the text
    offset: torch.Tensor  # [tokens], the place in its text
    inside: torch.Tensor  # [tokens], whether the token is in a text at all


class Sources:
    """Which of a stream's sources texts are drawn from: by their sizes, until `mix` is called."""

    def __init__(self, tokens: Tokens, device, shares: dict[str, float] | None = None):
        first_tokens = list(tokens.sources.values())
        sizes = np.diff([*first_tokens, len(tokens.ids)]).tolist()
        self.first_tokens = torch.tensor(first_tokens, device=device)
        self.sizes = dict(zip(tokens.sources, sizes))
        self.upto = torch.empty(len(self.sizes), device=device)  # shares, summed up
        self.mix(**shares or {})

    def mix(self, **shares: float):
        """From now on draw these sources in these shares, the others in proportion to size."""
        total = sum(shares.values())
        others = sum(size for name, size in self.sizes.items() if name not in shares)
        are_known = shares.keys() <= self.sizes.keys()
        if not are_known or not others or not 0 <= total <= 1:
            raise CompanionError(
                f"The shares {shares} do not fit a text of the sources {', '.join(self.sizes)}: "
                "leave at least one source without, and let them be from 0 to 1 in sum."
            )
        rest = (1 - total) / others
        all_shares = [shares.get(name, rest * size) for name, size in self.sizes.items()]
        self.upto.copy_(torch.tensor(all_shares).cumsum(0))

    def draw(self, n: int, uniform) -> torch.Tensor:
        """A source for each of n texts; where there is only one, this consumes no random draw."""
        if len(self.upto) == 1:
            return torch.zeros(n, dtype=torch.long, device=self.upto.device)
        return torch.searchsorted(self.upto, uniform(n), right=True).clamp(max=len(self.upto) - 1)

    def picker(self, places: torch.Tensor) -> Callable:
        """A function that picks one of the `places` for each of many sources.

        places:  tokens at which something begins, ascending
        returns: pick(source, uniform), which returns indices into `places`
        """
        first = torch.searchsorted(places, self.first_tokens)
        size = first.diff(append=first.new_tensor([len(places)]))

        def pick(source: torch.Tensor, uniform: torch.Tensor) -> torch.Tensor:
            number = torch.minimum((uniform * size[source]).long(), size[source] - 1)
            return first[source] + number

        return pick


class Packer:
    """Where sentences and documents lie in a stream, and what all packed batches have in common.

    everyday: share of the texts that is single sentences (or pairs of them); half of those prefer
              the shorter of two candidates, since the evaluations of this project use short
              sentences
    longest:  tokens of a text
    shares:   of the sources, as Sources.mix takes them
    together: in this share of the texts that have several PRONOUNS all of them are masked, and none
              is left or replaced at random: one that can be seen gives the others away. They count
              among the MASKED.
    """

    marks = ()  # the tokens that open a text, close it, fill the end of a row, and mask
    space = ""  # what a token that begins a word inside a sentence begins with

    def __init__(
        self,
        tokens: Tokens,
        tokenizer,
        device,
        everyday: float = 0.5,
        longest: int = 256,
        shares: dict[str, float] | None = None,
        together: float = 0.0,
    ):
        self.device = device
        self.everyday = everyday
        self.longest = longest
        self.together = together
        self.open, self.close, self.pad, self.mask = map(tokenizer.token_to_id, self.marks)
        self.n_special = self.mask + 1
        self.vocabulary = tokenizer.get_vocab_size()

        self.sources = Sources(tokens, device, shares)
        self.ids = torch.from_numpy(tokens.ids.astype("int32")).to(device)
        documents = torch.from_numpy(tokens.documents).to(device)
        document_ends = self._ends(documents)
        self.starts = torch.from_numpy(tokens.sentences).to(device)
        self.ends = self._ends(self.starts)
        document = torch.searchsorted(documents, self.starts, right=True) - 1
        self.document_end = document_ends[document]  # of the document that each sentence is in

        spelled = [tokenizer.id_to_token(i) for i in range(self.vocabulary)]
        are_pronouns = [self._is_pronoun(token) for token in spelled]
        self.is_pronoun = torch.tensor(are_pronouns, device=device)
        self.bare = self._bare(tokenizer, spelled)
        self.openings = self._openings(tokenizer, spelled, documents)
        self.pick_opening = self.sources.picker(self.starts[self.openings])
        segments, _ = self._segments(10_000, partial(torch.rand, device=device))
        self.mean_size = sum(segment.size for segment in segments).float().mean().item()
        self.mean_size += len(segments) + 1

    def _ends(self, starts: torch.Tensor) -> torch.Tensor:
        """Where each of the parts ends that begin at these tokens and fill the stream."""
        return F.pad(starts[1:], (0, 1), value=len(self.ids))

    def _is_pronoun(self, token: str) -> bool:
        """Whether a token is a whole word of PRONOUNS, and not the end of another word."""
        begins_a_word = token.startswith(self.space) or token[0].isupper()
        return token.removeprefix(SPACE).lower() in PRONOUNS and begins_a_word

    def _bare(self, tokenizer, spelled: list[str]) -> torch.Tensor:
        """For each token of the vocabulary, the one that spells it as a text's first token."""
        return torch.arange(self.vocabulary, device=self.device)

    def _openings(self, tokenizer, spelled: list[str], documents: torch.Tensor) -> torch.Tensor:
        """The sentences that may open a text, by their numbers."""
        return torch.arange(len(self.starts), device=self.device)

    def _segments(self, n: int, uniform) -> tuple[list[Segment], torch.Tensor | None]:
        """Which parts of the stream n random texts are made of, and the texts' labels or None."""
        raise NotImplementedError

    def draw(self, n_tokens: int, generator=None) -> Batch:
        """One batch of exactly `n_tokens` tokens; what is left after the last text is padding."""
        uniform = partial(torch.rand, device=self.device, generator=generator)
        # A third more texts than fit on average. Not many more: attention looks at empty ones too.
        n_texts = int(1.33 * n_tokens / self.mean_size)
        segments, labels = self._segments(n_texts, uniform)
        layout = self._layout(segments, n_tokens)
        ids, is_text = self._fill(segments, layout)
        first_choice = None
        if self.together:
            first_choice = self._together(ids, is_text, layout.text, n_texts, uniform)
        ids, masked, targets = self._hide(ids, is_text, uniform, first_choice)
        batch = Batch(
            ids=ids,
            positions=torch.where(layout.inside, layout.offset, 0),
            bounds=layout.bounds.int(),
            masked=masked,
            targets=targets,
        )
        if labels is None:
            return batch
        first_segment = segments[0].size[layout.text] + 2  # with the marks before and after it
        return batch._replace(
            types=(layout.inside & (layout.offset >= first_segment)).long(),
            first=torch.where(layout.fits, layout.bounds[:-2], 0),
            not_next=torch.where(layout.fits, labels, IGNORED),
        )

    def _layout(self, segments: list[Segment], n_tokens: int) -> Layout:
        """Texts of these segments end to end, as many as fit into a row."""
        marks = len(segments) + 1  # one opens the text, and one closes each segment
        size = sum(segment.size for segment in segments) + marks
        end = size.cumsum(0)
        fits = end <= n_tokens
        bounds = F.pad(torch.where(fits, end, n_tokens), (1, 0))
        bounds = F.pad(bounds, (0, 1), value=n_tokens)
        place = torch.arange(n_tokens, device=self.device)
        text = torch.searchsorted(end, place, right=True).clamp(max=len(end) - 1)
        return Layout(
            bounds=bounds,
            fits=fits,
            text=text,
            offset=place - bounds[text],
            inside=fits[text] & (place < bounds[-2]),
        )

    def _fill(self, segments: list[Segment], layout: Layout) -> tuple[torch.Tensor, torch.Tensor]:
        """The row's tokens, marks and padding included; and which of them are text."""
        source = torch.zeros_like(layout.offset)  # place in the stream of each token of the row
        is_text = torch.zeros_like(layout.inside)
        within = layout.offset - 1  # place in the segment; the first one begins after a mark
        for segment in segments:
            size = segment.size[layout.text]
            is_here = layout.inside & (within >= 0) & (within < size)
            source = torch.where(is_here, segment.start[layout.text] + within, source)
            is_text = is_text | is_here
            within = within - size - 1  # the next segment begins after the mark that closes this
        ids = self.ids[source].long()
        ids = torch.where(layout.offset == 1, self.bare[ids], ids)
        ids = torch.where(is_text, ids, self.close)
        ids = torch.where(layout.offset == 0, self.open, ids)
        ids = torch.where(layout.inside, ids, self.pad)
        return ids, is_text

    def _pick(self, source, prefers_short, uniform) -> torch.Tensor:
        """A random opening of the source for each text, the shorter of two where preferred."""
        one, other = self.openings[self.pick_opening(source, uniform)]
        sizes = self.ends - self.starts
        return torch.where(prefers_short & (sizes[other] < sizes[one]), other, one)

    def _room(self, n: int, uniform) -> torch.Tensor:
        """How many tokens each of n texts may have, its marks included."""
        return torch.where(uniform(n) < 0.9, min(SHORT, self.longest), self.longest)

    def _end(self, sentence, wanted, room) -> torch.Tensor:
        """Where a segment that begins with the sentence ends.

        It ends with the last whole sentence in `wanted` tokens, or with its first sentence if that
        is longer. It is cut only where it would have more than `room` tokens.
        """
        start = self.starts[sentence]
        document_end = self.document_end[sentence]
        limit = torch.minimum(start + wanted, document_end)
        last_whole = self.starts[torch.searchsorted(self.starts, limit, right=True) - 1]
        last_whole = torch.where(limit == document_end, document_end, last_whole)
        return torch.minimum(torch.maximum(last_whole, self.ends[sentence]), start + room)

    def _together(self, ids, is_text, text, n_texts: int, uniform) -> torch.Tensor:
        """Whether a token is one of several pronouns that are masked together in its text."""
        is_pronoun = self.is_pronoun[ids] & is_text
        count = torch.zeros(n_texts, device=self.device).index_add(0, text, is_pronoun.float())
        is_chosen = (count > 1) & (uniform(n_texts) < self.together)
        return is_pronoun & is_chosen[text]

    def _hide(self, ids, is_text, uniform, first_choice=None):
        """Choose tokens to predict: 80 % become the mask, 10 % a random token, 10 % stay.

        These are BERT's shares. Those of `first_choice` are all chosen and all become the mask.
        Returns the new ids, the chosen places and the tokens that stood there. Where there is too
        little text, places outside texts are chosen too: they keep their token, and their target
        is IGNORED.
        """
        score = torch.where(is_text, uniform(len(ids)), -1.0)
        if first_choice is not None:
            score = score + first_choice  # the others are below 1
        score, places = score.topk(int(MASKED * len(ids)), sorted=False)
        original = ids[places]
        fate = uniform(len(places))
        ordinary = self.vocabulary - self.n_special
        random = self.n_special + (uniform(len(places)) * ordinary).long()
        hidden = torch.where(fate < 0.9, random, original)
        hidden = torch.where((fate < 0.8) | (score >= 1), self.mask, hidden)
        is_chosen = score >= 0
        ids = ids.scatter(0, places, torch.where(is_chosen, hidden, original))
        return ids, places, torch.where(is_chosen, original, IGNORED)


class PairSampler(Packer):
    """Draws packed pairs from a WordPiece stream.

    They are pairs of single sentences, or of runs that fill 128 tokens, one in ten 256. In half of
    all pairs B is what follows A in its document (BERT's next sentences). With `order` it always
    is, unless the document ends, and half of the pairs are swapped (ALBERT's sentence order).
    """

    marks = ("[CLS]", "[SEP]", "[PAD]", "[MASK]")

    def __init__(self, *args, order: bool = False, **options):
        self.order = order
        super().__init__(*args, **options)

    def _segments(self, n: int, uniform) -> tuple[list[Segment], torch.Tensor]:
        """A and B of n random pairs, and the labels of the pairs."""
        everyday = uniform(n) < self.everyday
        prefers_short = everyday & (uniform(n) < 0.5)
        room = self._room(n, uniform) - 3  # three marks
        source = self.sources.draw(n, uniform)

        a = self._pick(source, prefers_short, uniform(2, n))
        a_room = torch.where(everyday, room // 2, room - 16)
        a_wanted = torch.where(everyday, 0, (uniform(n) * a_room).long())
        a_end = self._end(a, a_wanted, a_room)
        a_segment = Segment(self.starts[a], a_end - self.starts[a])

        following = torch.searchsorted(self.starts, a_end).clamp(max=len(self.starts) - 1)
        next_start = self.starts[following]
        has_next = (next_start >= a_end) & (next_start < self.document_end[a])
        coin = uniform(n) < 0.5
        is_next = has_next & (coin | self.order)

        other = self._pick(source, prefers_short, uniform(2, n))
        b = torch.where(is_next, following, other)
        b_room = room - a_segment.size
        b_wanted = torch.where(everyday, 0, b_room)
        b_end = self._end(b, b_wanted, b_room)
        b_segment = Segment(self.starts[b], b_end - self.starts[b])

        if not self.order:
            return [a_segment, b_segment], (~is_next).long()
        first = self._either(coin, a_segment, b_segment)
        second = self._either(coin, b_segment, a_segment)
        return [first, second], torch.where(is_next, (~coin).long(), IGNORED)

    @staticmethod
    def _either(condition: torch.Tensor, one: Segment, other: Segment) -> Segment:
        start = torch.where(condition, one.start, other.start)
        size = torch.where(condition, one.size, other.size)
        return Segment(start, size)


class SpanSampler(Packer):
    """Draws packed runs of sentences from a byte-level stream, for RoBERTa, which knows no pairs.

    Of those that are no single sentence half fill 128 tokens (one in ten 256), half end anywhere
    before that. To the tokenizer the first word of a text has no space before it, and inside its
    document it had one. So a span opens with a paragraph, or with a sentence whose first word is
    one token with a twin that lacks the space, which then takes its place: that is how the
    tokenizer itself would spell the span.
    """

    marks = ("<s>", "</s>", "<pad>", "<mask>")
    space = SPACE

    def _bare(self, tokenizer, spelled: list[str]) -> torch.Tensor:
        """Each token that is a whole word with a space before it becomes the one without."""
        bare = []
        for number, token in enumerate(spelled):
            twin = None
            if token[0] == SPACE and set(token[1:]) <= LETTERS:
                twin = tokenizer.token_to_id(token[1:])
            bare.append(number if twin is None else twin)
        return torch.tensor(bare, device=self.device)

    def _openings(self, tokenizer, spelled: list[str], documents: torch.Tensor) -> torch.Tensor:
        """The sentences that may open a span, by their numbers; also sets where each begins."""
        has_twin = self.bare != torch.arange(self.vocabulary, device=self.device)
        word_ends = SPACE + LINE_BREAK + string.punctuation
        ends_word = torch.tensor([token[0] in word_ends for token in spelled], device=self.device)
        # A paragraph's first sentence carries the line break before it; a span begins after that.
        first_token = self.ids[self.starts]
        after_break = first_token == tokenizer.token_to_id(LINE_BREAK)
        self.begins = self.starts + after_break
        second_token = self.ids[(self.starts + 1).clamp(max=len(self.ids) - 1)]
        is_whole_word = has_twin[first_token] & ends_word[second_token]
        can_open = is_whole_word | after_break | torch.isin(self.starts, documents)
        return (can_open & (self.begins < self.ends)).nonzero().flatten()

    def _segments(self, n: int, uniform) -> tuple[list[Segment], None]:
        """The one segment of each of n random spans, and no labels."""
        everyday = uniform(n) < self.everyday
        room = self._room(n, uniform) - 2  # two marks
        fills_room = uniform(n) < 0.5
        wanted = torch.where(fills_room, room, (uniform(n) * room).long())
        wanted = torch.where(everyday, 0, wanted)
        source = self.sources.draw(n, uniform)
        prefers_short = everyday & (uniform(n) < 0.5)
        sentence = self._pick(source, prefers_short, uniform(2, n))
        start = self.begins[sentence]
        size = self._end(sentence, wanted, room) - start
        return [Segment(start, size)], None


class WindowSampler:
    """Draws windows from a byte-level stream, for a causal model.

    A quarter begin at <|endoftext|>, the rest at some sentence, so that the model meets prompts
    with and without the mark before them.
    """

    def __init__(
        self,
        tokens: Tokens,
        tokenizer,
        device,
        longest: int = 256,
        shares: dict[str, float] | None = None,
    ):
        self.longest = longest
        self.device = device
        self.sources = Sources(tokens, device, shares)
        self.ids = torch.from_numpy(tokens.ids.astype("int32")).to(device)
        self.documents = torch.from_numpy(tokens.documents).to(device)
        starts = torch.from_numpy(tokens.sentences).to(device)
        # A paragraph's first sentence carries the line break before it; a window begins after that.
        self.sentences = starts + (self.ids[starts] == tokenizer.encode("\n").ids[0])
        self.pick_document = self.sources.picker(self.documents)
        self.pick_sentence = self.sources.picker(starts)

    def draw(self, n_tokens: int, generator=None) -> torch.Tensor:
        """Token ids [windows, longest], about n_tokens in all."""
        n = n_tokens // self.longest
        uniform = partial(torch.rand, device=self.device, generator=generator)
        opens_document = uniform(n) < 0.25
        source = self.sources.draw(n, uniform)
        document = self.documents[self.pick_document(source, uniform(n))]
        sentence = self.sentences[self.pick_sentence(source, uniform(n))]
        start = torch.where(opens_document, document, sentence)
        start = start.clamp(max=len(self.ids) - self.longest)
        places = start[:, None] + torch.arange(self.longest, device=self.device)
        return self.ids[places].long()


def packed_attention(  # noqa: PLR0913, the signature is the one by which transformers calls it
    module, query, key, value, attention_mask=None, *, bounds, longest, dropout=0.0, **kwargs
):
    """Attention inside each text of a packed row [1, heads, tokens, width]; also returns None.

    transformers calls it as "packed". On a GPU it is the variable-length flash kernel; elsewhere,
    for tests, one dense mask of the tokens that share a text. Neither has dropout: with `dropout`
    each text gets a row of its own.
    """
    if dropout:
        return unpacked_attention(query, key, value, bounds, longest, dropout), None
    if query.is_cuda:
        from torch.nn.attention.varlen import varlen_attn  # needs a CUDA build

        q = query[0].transpose(0, 1)
        k = key[0].transpose(0, 1)
        v = value[0].transpose(0, 1)
        return varlen_attn(q, k, v, bounds, bounds, longest, longest)[None], None
    text = text_of_tokens(bounds, torch.arange(query.shape[2]))
    mixed = F.scaled_dot_product_attention(query, key, value, text[:, None] == text)
    return mixed.transpose(1, 2), None


def unpacked_attention(query, key, value, bounds, longest: int, dropout: float = 0.0):
    """The same with a padded row for each text, by a kernel that has dropout; in packed order."""
    place = torch.arange(query.shape[2], device=query.device)
    text = text_of_tokens(bounds, place)
    # The padding at the end of the row, which is the last "text", may be longer than a text.
    offset = (place - bounds[text]).clamp(max=longest - 1)

    def in_rows(packed: torch.Tensor) -> torch.Tensor:
        """[1, heads, tokens, width] as [texts, heads, longest, width]."""
        _, heads, _, width = packed.shape
        shape = (len(bounds) - 1, longest, heads, width)
        rows = torch.zeros(shape, dtype=packed.dtype, device=packed.device)
        return rows.index_put((text, offset), packed[0].transpose(0, 1)).transpose(1, 2)

    sizes = bounds.diff()[:, None].clamp(min=1)  # an empty row attends to one zero
    is_token = torch.arange(longest, device=query.device) < sizes
    mixed = F.scaled_dot_product_attention(
        in_rows(query), in_rows(key), in_rows(value), is_token[:, None, None], dropout
    )
    return mixed.transpose(1, 2)[text, offset][None]


def text_of_tokens(bounds: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
    """The number of the text that each place of a packed row is in."""
    return torch.searchsorted(bounds[1:-1].long(), place, right=True)


AttentionInterface.register("packed", packed_attention)
