"""Vectors of words and of sentences, from a model's final layer.

    embed.words(model, {"nurse": ["The nurse smiled.", ...], ...})   static vectors, one row each
    embed.sentences(model, ["This is a nurse.", ...])                as SEAT does, one row each
    embed.each(model, [("nurse", "The nurse smiled."), ...], use)    word vectors batch by batch

A word's static vector is the mean over its contexts of the mean over its word pieces (Bias A-head,
footnote 3). The paper says so of attribute words; that it averages target words too is inferred.
"""

import re
from collections.abc import Callable

import torch

from lib import CompanionError
from lib.engine import batches, models

CHUNK = 4_096  # sentences tokenized at a time: memory does not grow with the corpus


def words(model, contexts: dict[str, list[str]], bos: bool | None = None) -> torch.Tensor:
    """[n_words, hidden]: the static vector of each word; `bos` as in batches.encode."""
    models.check(model)
    row, count = rows(contexts)
    pairs = []
    for word, sentences in contexts.items():
        for sentence in sentences:
            pairs.append((word, sentence))
    total = torch.zeros(len(contexts), model.net.config.hidden_size, dtype=torch.float64)

    def add(vectors, indices):
        total.index_add_(0, row[indices], vectors.cpu().double())

    with torch.no_grad():
        each(model, pairs, add, bos=bos)
    return batches.finite(model, (total / count[:, None]).to(model.net.dtype))


def rows(contexts: dict[str, list[str]]) -> tuple[torch.Tensor, torch.Tensor]:
    """For all sentences in one list the number of their word, and how many each word has."""
    if not isinstance(contexts, dict) or not contexts:
        raise CompanionError("There are no words: give a dict, each word with its sentences.")
    for word, sentences in contexts.items():
        if not sentences or isinstance(sentences, str):
            raise CompanionError(
                f"'{word}' has no sentence to stand in: leave it out, or give a list of some."
            )
    count = torch.tensor([len(sentences) for sentences in contexts.values()])
    return torch.arange(len(count)).repeat_interleave(count), count


def each(
    model,
    pairs: list[tuple[str, str]],
    use: Callable,
    progress: str = "",
    tokens: int | None = None,
    bos: bool | None = None,
    pooling: str = "word",
):
    """Call use(vectors, indices) for batches of (word, sentence) pairs.

    use       `vectors` is [n, hidden], and `indices` says which pairs these are. The vectors carry
              a graph unless the caller is inside torch.no_grad(); they are not kept after the call.
    pooling   "word": the mean over the word's own tokens; or one of POOLINGS, the whole sentence's
    """
    for start in range(0, len(pairs), CHUNK):
        encoded, places = prepare(model, pairs[start : start + CHUNK], bos, pooling)

        def at_words(batch, indices, places=places, start=start):
            states = model.net.base_model(**batch).last_hidden_state
            vectors = pool(states, [places[i] for i in indices])
            use(vectors, [start + i for i in indices])
            return indices  # batches.each wants one item for each text

        batches.each(model, encoded, at_words, tokens, progress)


def prepare(
    model, pairs: list[tuple[str, str]], bos: bool | None = None, pooling: str = "word"
) -> tuple[list[dict], list[range]]:
    """For each (word, sentence) the encoded sentence, and the positions of the tokens whose mean
    is its vector; `pooling` as in `each`.
    """
    texts = batches.checked(model, [sentence for _, sentence in pairs], "sentences")
    if pooling != "word":
        _check_pooling(pooling)
        encoded = batches.encode(model, texts, bos=bos)
        return encoded, [_place_of_sentence(model, row, pooling) for row in encoded]
    spans = [find(word, sentence) for word, sentence in pairs]
    shift = batches.opening(model, bos)
    places = []
    for place in tokens_of(model, texts, spans):
        places.append(range(place.start + shift, place.stop + shift))
    encoded = batches.encode(model, texts, bos=bos)
    if model.is_causal:
        encoded = [_up_to(row, place) for row, place in zip(encoded, places)]
    return encoded, places


def _place_of_sentence(model, encoded: dict, pooling: str) -> range:
    """The tokens whose mean is a sentence's vector, by one of POOLINGS."""
    length = len(encoded["input_ids"])
    if pooling == "mean":
        return range(length)
    return range(length - 1, length) if model.is_causal else range(1)


def _check_pooling(pooling: str):
    if pooling not in POOLINGS:
        raise CompanionError(f"There is no pooling '{pooling}': choose {' or '.join(POOLINGS)}.")


def _up_to(encoded: dict, place: range) -> dict:
    """A decoder's encoded sentence up to its word: what follows cannot change the word's vector."""
    return {name: values[: place.stop] for name, values in encoded.items()}


def tokens_of(model, texts: list[str], spans: list[tuple[int, int]]) -> list[range]:
    """For each text the tokens that overlap its span of characters (first, one past last).

    Spans are those that `find` returns. Positions are those of the plain tokenizer, special tokens
    included; another bos shifts them (`prepare`). A token may begin with the space before its word.
    """
    if not texts:
        return []
    encoded = model.tokenizer(texts, return_offsets_mapping=True, verbose=False)
    places = []
    for text, offsets, (begin, end) in zip(texts, encoded["offset_mapping"], spans, strict=True):
        overlapping = []
        for token, (first, last) in enumerate(offsets):
            if first < end and last > begin:  # never a special token: its offsets are (0, 0)
                overlapping.append(token)
        if not overlapping:
            raise CompanionError(
                f"{model.name} has no token for '{text[begin:end]}' in '{text[:60]}': leave it out."
            )
        places.append(range(overlapping[0], overlapping[-1] + 1))
    return places


def pool(states: torch.Tensor, places: list[range]) -> torch.Tensor:
    """[n, hidden]: the mean of each sentence's states [tokens, hidden] over its place."""
    within = inside(places, states).to(states)
    return (within[:, None] @ states)[:, 0] / within.sum(1, keepdim=True)


def inside(places: list[range], batch: torch.Tensor) -> torch.Tensor:
    """[n, tokens], boolean: which tokens of a batch [n, tokens, ...] lie in each text's place."""
    token = torch.arange(batch.shape[1], device=batch.device)
    span = batches.on(batch.device, [(place.start, place.stop) for place in places])
    return (span[:, :1] <= token) & (token < span[:, 1:])


def find(word: str, sentence: str) -> tuple[int, int]:
    """Where a whole word first occurs in a sentence, ignoring case: (first, one past last)."""
    if not isinstance(word, str) or not word.strip():
        raise CompanionError(
            f"{word!r} is no word: give one that stands in '{str(sentence)[:60]}'."
        )
    # "mr." ends with a sign that closes it already
    closing = r"(?![\w-])" if word[-1].isalnum() else ""
    match = re.search(rf"(?<![\w-]){re.escape(word)}{closing}", sentence, re.IGNORECASE)
    if not match:
        raise CompanionError(
            f"'{word}' does not stand in '{sentence[:60]}': give sentences that hold the word."
        )
    return match.span()


POOLINGS = ("token", "mean")


@torch.no_grad()
def sentences(
    model,
    texts: list[str],
    progress: str = "",
    bos: bool | None = None,
    pooling: str = "token",
) -> torch.Tensor:
    """[n_texts, hidden]: one vector of the last layer for each text; `bos` as in batches.encode.

    pooling   "token": the state of an encoder's first token ([CLS]), or of a decoder's last, which
              SEAT's code (sent-bias) takes; "mean": the mean over all tokens, special ones
              included, which sentence encoders are trained for
    """
    _check_pooling(pooling)
    texts = batches.checked(model, texts, "sentences")
    if not all(text.strip() for text in texts):
        raise CompanionError("One of the sentences is empty: leave it out, it has no vector.")

    def at_place(batch, indices):
        lengths = batch["attention_mask"].sum(1)  # padding is on the right
        states = model.net.base_model(**batch).last_hidden_state
        if pooling == "mean":
            return pool(states, [range(length) for length in lengths.tolist()]).cpu()
        places = lengths - 1 if model.is_causal else 0
        return states[torch.arange(len(indices)), places].cpu()

    encoded = batches.encode(model, texts, bos=bos)
    vectors = torch.stack(batches.each(model, encoded, at_place, progress=progress))
    return batches.finite(model, vectors)
