"""Vectors of words and of sentences, from a model's final layer.

    embed.words(model, {"nurse": ["The nurse smiled.", ...], ...})   static vectors, one row per word
    embed.sentences(model, ["This is a nurse.", ...])                SEAT's own way, one row per sentence
    embed.each(model, [("nurse", "The nurse smiled."), ...], use)    word vectors batch by batch, graph and all

A word's static vector is the mean over its contexts of the mean over its pieces (Bias A-head, footnote 3). The paper
says so of attribute words; that targets are averaged too is inferred."""

import re
from collections.abc import Callable

import torch

from lib import CompanionError
from lib.engine import batches

CHUNK = 4_096  # sentences tokenized at a time: memory does not grow with the corpus


def words(model, contexts: dict[str, list[str]], bos: bool | None = None) -> torch.Tensor:
    """[n_words, hidden]: each word's static vector; bos: as batches.encode has it."""
    pairs = [(word, sentence) for word, sentences in contexts.items() for sentence in sentences]
    row, count = rows(contexts)
    total = torch.zeros(len(contexts), model.net.config.hidden_size, dtype=torch.float64)
    with torch.no_grad():
        each(
            model,
            pairs,
            lambda vectors, which: total.index_add_(0, row[which], vectors.cpu().double()),
            bos=bos,
        )
    return (total / count[:, None]).to(model.net.dtype)


def rows(contexts: dict[str, list[str]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Which word each sentence belongs to, when all are put in one line, and how many each word has."""
    if not contexts:
        raise CompanionError("There are no words: give at least one with its sentences.")
    for word, sentences in contexts.items():
        if not sentences:
            raise CompanionError(
                f"'{word}' has no sentence to stand in: leave it out, or find it one."
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
):
    """use(vectors, indices) for batches of (word, sentence): vectors is [n, hidden], indices says which pairs.
    The vectors carry a graph unless the caller says torch.no_grad(); a batch is forgotten once it was used."""
    options = (
        dict(use_cache=False) if model.is_causal else {}
    )  # a decoder would keep the keys and values of all layers
    for start in range(0, len(pairs), CHUNK):
        encoded, places = prepare(model, pairs[start : start + CHUNK], bos)

        def at_words(batch, indices, places=places, start=start):
            states = model.net.base_model(**batch, **options).last_hidden_state
            use(pool(states, [places[i] for i in indices]), [start + i for i in indices])
            return indices  # one item for each is asked for; the vectors are not kept

        batches.each(model, encoded, at_words, tokens, progress)


def prepare(
    model, pairs: list[tuple[str, str]], bos: bool | None = None
) -> tuple[list[dict], list[range]]:
    """For each (word, sentence) the encoded sentence, and the tokens of the word in it."""
    texts = [sentence for _, sentence in pairs]
    moved = batches.opening(model, bos)
    places = [
        range(place.start + moved, place.stop + moved)
        for place in tokens_of(model, texts, [find(word, sentence) for word, sentence in pairs])
    ]
    encoded = batches.encode(model, texts, bos=bos)
    if model.is_causal:  # what follows a word cannot change its vector there: it is not computed
        encoded = [
            {name: values[: tokens.stop] for name, values in e.items()}
            for e, tokens in zip(encoded, places)
        ]
    return encoded, places


def tokens_of(model, texts: list[str], spans: list[tuple[int, int]]) -> list[range]:
    """For each text the tokens that hold some of its span of characters (first, one past last), as `find` gives it.
    Tokens count as the model reads them, special ones included. One may begin with the space before its word."""
    offsets = (
        model.tokenizer(texts, return_offsets_mapping=True, verbose=False)["offset_mapping"]
        if texts
        else []
    )
    places = []
    for text, tokens, (begin, end) in zip(texts, offsets, spans, strict=True):
        inside = [
            i for i, (first, last) in enumerate(tokens) if first < end and last > begin
        ]  # a special one: (0, 0)
        if not inside:
            raise CompanionError(
                f"{model.name} has no token for '{text[begin:end]}' in '{text[:60]}': leave it out."
            )
        places.append(range(inside[0], inside[-1] + 1))
    return places


def pool(states: torch.Tensor, places: list[range]) -> torch.Tensor:
    """[n, hidden]: of each sentence's states [tokens, hidden] the mean over its place."""
    within = inside(places, states).to(states)
    return (within[:, None] @ states)[:, 0] / within.sum(1, keepdim=True)


def inside(places: list[range], batch: torch.Tensor) -> torch.Tensor:
    """[n, tokens]: which tokens of a batch [n, tokens, ...] are those of each place."""
    token = torch.arange(batch.shape[1], device=batch.device)
    span = batches.on(batch.device, [(tokens.start, tokens.stop) for tokens in places])
    return (span[:, :1] <= token) & (token < span[:, 1:])


def find(word: str, sentence: str) -> tuple[int, int]:
    """Where a word stands first in a sentence, whole and in whatever capitals: (first character, one past last)."""
    if not isinstance(word, str) or not word.strip():
        raise CompanionError(
            f"{word!r} is no word: give one that stands in '{str(sentence)[:60]}'."
        )
    closing = r"(?![\w-])" if word[-1].isalnum() else ""  # mr. has its own
    match = re.search(rf"(?<![\w-]){re.escape(word)}{closing}", sentence, re.IGNORECASE)
    if not match:
        raise CompanionError(
            f"'{word}' does not stand in '{sentence[:60]}': give sentences that hold the word."
        )
    return match.span()


@torch.no_grad()
def sentences(model, texts: list[str], progress: str = "", bos: bool | None = None) -> torch.Tensor:
    """[n_texts, hidden]: an encoder's first token ([CLS]), a decoder's last, as SEAT's code (sent-bias) has it."""
    if not texts or isinstance(texts, str):
        raise CompanionError("There are no sentences: give a list of at least one.")
    if not all(isinstance(text, str) and text.strip() for text in texts):
        raise CompanionError(
            "One of the sentences is empty or no text: leave it out, it has no vector."
        )

    def at_end(batch, indices):
        place = (
            batch["attention_mask"].sum(1) - 1 if model.is_causal else 0
        )  # padding is on the right
        return (
            model.net.base_model(**batch).last_hidden_state[torch.arange(len(indices)), place].cpu()
        )

    return torch.stack(
        batches.each(model, batches.encode(model, texts, bos=bos), at_end, progress=progress)
    )
