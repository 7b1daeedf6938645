"""Text files in, token streams out: what pre-training reads.

A corpus is text with one paragraph per line and a blank line between documents, plain or
compressed (.xz, .gz). `prepare` joins several sources, drops what the models are later judged on,
sets a share of the documents aside and counts all of it. `encode` turns documents into one array of
token ids.
"""

import gzip
import json
import lzma
import os
import random
import re
import tomllib
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby, islice, product
from pathlib import Path
from typing import TextIO

import numpy as np
import tokenizers
from tokenizers import decoders, normalizers, pre_tokenizers, processors, trainers
from tqdm import tqdm

from lib import CompanionError, paths
from lib.engine import files
from lib.text import data, english, swaps
from lib.text.english import sentences

NGRAM = 10  # words in a row that a document may not share with an evaluation file
SHORTEST = 5  # words of a prompt; shorter ones occur in ordinary speech
CHUNK = 500  # documents that are encoded at a time
LONGEST = 250  # tokens of a sentence in a WordPiece stream


def open_text(path: Path, **options) -> TextIO:
    """A text file, decompressed on the way if its name ends in .xz or .gz."""
    match Path(path).suffix:
        case ".xz":
            return lzma.open(path, "rt", encoding="utf-8", **options)
        case ".gz":
            return gzip.open(path, "rt", encoding="utf-8", **options)
    return open(path, encoding="utf-8", **options)


def documents(texts: Iterable[Path]) -> Iterator[str]:
    """Every document of the files, in order: its paragraphs, one per line."""
    for path in texts:
        with open_text(path) as file:
            lines = map(str.strip, file)
            for is_text, group in groupby(lines, bool):
                if is_text:
                    yield "\n".join(group)


def words_of(text: str) -> list[str]:
    """The words without case and punctuation, so that formatting cannot hide a copy."""
    return re.findall(r"[a-z0-9]+", text.lower())


def ngrams(words: list[str], n: int) -> set[str]:
    """Every run of n words, joined by spaces."""
    return {" ".join(words[i : i + n]) for i in range(len(words) - n + 1)}


def batched(items: Iterable[str], size: int) -> Iterator[list[str]]:
    """Lists of `size` items; the last one may be shorter (itertools.batched of Python 3.12)."""
    items = iter(items)
    while batch := list(islice(items, size)):
        yield batch


class Reserved:
    """Text that models are judged on, which is not to be trained on.

    `dropped_for` counts, by evaluation file and for "prompts", the documents that share some of it;
    the Dealer keeps it.
    """

    def __init__(self, unseen: list[Path], prompts: Iterable[str]):
        self.file_of = {}  # {run of NGRAM words: label of an evaluation file}
        self.dropped_for = Counter()
        for path in unseen:
            label = f"{path.parent.name}/{path.name}"
            self.dropped_for[label] = 0
            with open_text(path, errors="replace") as file:
                words = words_of(file.read())
            self.file_of |= dict.fromkeys(ngrams(words, NGRAM), label)
        self.dropped_for["prompts"] = 0
        self.prompts_by_start = defaultdict(list)  # {first SHORTEST words: whole prompts}
        for prompt in prompts:
            words = words_of(prompt)
            if len(words) >= SHORTEST:
                start = " ".join(words[:SHORTEST])
                self.prompts_by_start[start].append(f" {' '.join(words)} ")

    def shared_with(self, document: str) -> set[str]:
        """The files that share NGRAM words in a row with it; "prompts" if it holds a whole one."""
        words = words_of(document)
        shared = self.file_of.keys() & ngrams(words, NGRAM)
        labels = {self.file_of[ngram] for ngram in shared}
        if self._has_prompt(words):
            labels.add("prompts")
        return labels

    def _has_prompt(self, words: list[str]) -> bool:
        text = f" {' '.join(words)} "
        for start in self.prompts_by_start.keys() & ngrams(words, SHORTEST):
            if any(prompt in text for prompt in self.prompts_by_start[start]):
                return True
        return False


@dataclass(frozen=True)
class Selection:
    """Which documents are left out, set aside and changed.

    leave_out: patterns; a document whose first line matches one is left out
    heldout:   share of the documents that is set aside, decided document by document from the seed
    balanced:  swap the gender words and first names of whole documents (swaps.py) or leave them,
               by a coin: a text for a model that can hold no stereotype of gender. The documents
               that are dropped or set aside are the same with and without it.
    """

    leave_out: Sequence[str] = ()
    heldout: float = 0.01
    balanced: bool = False
    seed: int = 0


class Dealer:
    """Deals documents out to the training text and the held-out text, by the seed, and counts.

    What each document shares with evaluation files, and how it reads swapped, is found by `workers`
    processes; draws are made here, in the order of the documents, so that their number does not
    matter.
    """

    def __init__(self, reserved: Reserved, selection: Selection, workers: int):
        self.reserved = reserved
        self.selection = selection
        self.workers = workers
        self.rng = random.Random(selection.seed)
        self.coin = random.Random(f"{selection.seed} balanced")
        self.swapped = 0

    def deal(self, source: str, texts: list[Path], train: TextIO, heldout: TextIO) -> dict:
        """Write a source's documents to one of the two files or drop them; returns the counts."""
        count = dict(documents=0, train=0, heldout=0, left_out=0, dropped=0, characters=0)
        for document, labels, swapped in tqdm(self._read(texts), desc=source, unit_scale=True):
            count["documents"] += 1
            # Drawn for dropped documents too, so that dropping one does not move the others.
            is_heldout = self.rng.random() < self.selection.heldout
            if self._is_left_out(document):
                count["left_out"] += 1
            elif labels:
                count["dropped"] += 1
                self.reserved.dropped_for.update(labels)
            else:
                if self.selection.balanced and self.coin.random() < 0.5:
                    document = swapped
                    self.swapped += 1
                if is_heldout:
                    count["heldout"] += 1
                    heldout.write(document + "\n\n")
                else:
                    count["train"] += 1
                    count["characters"] += len(document)
                    train.write(document + "\n\n")
        return count

    def _is_left_out(self, document: str) -> bool:
        first_line = document.split("\n", 1)[0]
        return any(re.search(pattern, first_line) for pattern in self.selection.leave_out)

    def _read(self, texts: list[Path]) -> Iterator[tuple[str, set[str], str]]:
        """Each document, what it shares with evaluation files, and its swapped form ("" if none is
        wanted).
        """
        look = partial(_looked_at, with_swap=self.selection.balanced)
        chunks = batched(documents(texts), CHUNK)
        if self.workers == 1:
            _share(self.reserved)
            for chunk in chunks:
                yield from look(chunk)
            return
        with ProcessPoolExecutor(
            self.workers, initializer=_share, initargs=[self.reserved]
        ) as pool:
            for looked_at in pool.map(look, chunks):
                yield from looked_at


def _share(reserved: Reserved):
    """Let this process look documents up in the reserved text: it is sent once, not by chunk."""
    global _reserved
    _reserved = reserved


def _looked_at(chunk: Sequence[str], with_swap: bool) -> list[tuple[str, set[str], str]]:
    """What Dealer._read yields of some documents."""
    found = []
    for document in chunk:
        swapped = swaps.swap_all(document, names=True) if with_swap else ""
        found.append((document, _reserved.shared_with(document), swapped))
    return found


def prepare(
    sources: dict[str, list[Path]],
    unseen: list[Path],
    out: Path,
    prompts: Iterable[str] = (),
    workers: int = 1,
    **options,
) -> dict:
    """Write train.txt and the held-out documents under `out`; return (and write) the counts.

    An older `out` is replaced whole, with the tokenizers and token streams that were made from it.

    sources: {name: files}, the natural text first. Its held-out documents become heldout.txt, by
             which models are compared; those of any other source heldout-<name>.txt.
    unseen:  evaluation files; a document that shares NGRAM words in a row with one is dropped
    prompts: sentences; a document that holds one is dropped, unless the sentence has fewer than
             SHORTEST words
    workers: processes that look at documents; what is written does not depend on it
    options: fields of Selection
    """
    selection = Selection(**options)
    check_replaceable(out, sources)
    reserved = Reserved(unseen, prompts)
    dealer = Dealer(reserved, selection, workers)
    counts = {}
    with files.new_folder(out) as folder:
        with open(folder / "train.txt", "w", encoding="utf-8") as train:
            for source, texts in sources.items():
                is_first = not counts
                name = "heldout.txt" if is_first else f"heldout-{source}.txt"
                with open(folder / name, "w", encoding="utf-8") as heldout:
                    counts[source] = dealer.deal(source, texts, train, heldout)
                check_enough(source, counts[source])
        total = sum(count["characters"] for count in counts.values())
        for count in counts.values():
            count["share"] = round(count["characters"] / total, 4)
        balanced = None
        if selection.balanced:
            balanced = {"seed": selection.seed, "documents_swapped": dealer.swapped}
        record = {"sources": counts, "dropped_for": reserved.dropped_for, "balanced": balanced}
        (folder / "counts.json").write_text(json.dumps(record, indent=1) + "\n")
    return record


def check_replaceable(out: Path, sources: dict[str, list[Path]]):
    """Refuse a folder that holds a source, or files that `prepare` did not write."""
    holds_a_source = False
    for texts in sources.values():
        for text in texts:
            if text.resolve().is_relative_to(out.resolve()):
                holds_a_source = True
    holds_files = out.exists() and any(out.iterdir())
    is_prepared = (out / "counts.json").exists()
    if holds_a_source or (holds_files and not is_prepared):
        raise CompanionError(
            f"{out} holds other files, which would be replaced: name a new folder with --out."
        )


def check_enough(source: str, count: dict):
    """Refuse a source of which nothing is left to train on, or to measure on."""
    if not count["train"] or not count["heldout"]:
        raise CompanionError(
            f"{source} gave {count['train']} training and {count['heldout']} held-out "
            "documents: give more documents (separated by blank lines) or a larger --heldout."
        )


def papers_prompts() -> Iterator[str]:
    """What the papers and this project ask models, by data/prompts.toml.

    These are cloze prompts, sentences of the LPBS and occupation templates.
    """
    file = paths.ROOT / "data" / "prompts.toml"
    asked = tomllib.loads(file.read_text(encoding="utf-8"))
    words = {slot: _slot_words(entry) for slot, entry in asked["words"].items()}
    for pattern in asked["patterns"]:
        slots = [slot for slot in words if f"{{{slot}}}" in pattern]
        choices = [words[slot] for slot in slots]
        for filling in product(*choices):
            yield english.sentence(pattern, **dict(zip(slots, filling)))


def _slot_words(entry: list[str] | dict[str, str]) -> list[str]:
    """The words of a slot: listed, or those of {list of data/lists: its column}."""
    if isinstance(entry, list):
        return entry
    words = set()
    for name, column in entry.items():
        words |= {row[column] for row in data.rows(name)}
    return sorted(words)


def evaluation_files() -> tuple[list[Path], list[str]]:
    """The evaluation files of data/demo and of data sets at hand; names of sets not at hand."""
    found = sorted(file for file in paths.DEMO.iterdir() if file.is_file())
    missing = []
    for name, entry in tomllib.loads(paths.SOURCES.read_text(encoding="utf-8")).items():
        if "files" not in entry:
            continue
        names = [file["name"] for file in entry["files"]]
        if all(map(data.available, names)):
            found += map(data.path, names)
        else:
            missing.append(name)
    return found, missing


def train_tokenizer(kind: str, texts: Iterable[str], vocabulary: int) -> tokenizers.Tokenizer:
    """A tokenizer of the kind that the papers' models have, trained on the texts.

    That is uncased WordPiece for bert, and cased byte-level BPE for roberta and gpt2, where a word
    inside a text carries the space before it and the first word has none.
    """
    if kind == "bert":
        tokenizer, trainer = _wordpiece(vocabulary)
    else:
        tokenizer, trainer = _byte_level(kind, vocabulary)
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def _wordpiece(vocabulary: int) -> tuple[tokenizers.Tokenizer, trainers.WordPieceTrainer]:
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocabulary,
        special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
        show_progress=False,
        min_frequency=2,
        limit_alphabet=300,
    )
    return tokenizer, trainer


def _byte_level(kind: str, vocabulary: int) -> tuple[tokenizers.Tokenizer, trainers.BpeTrainer]:
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    special = ["<|endoftext|>"]
    if kind == "roberta":
        tokenizer.post_processor = processors.RobertaProcessing(
            ("</s>", 2), ("<s>", 0), add_prefix_space=False
        )
        # The space before the mask belongs to the masked word.
        mask = tokenizers.AddedToken("<mask>", lstrip=True)
        special = ["<s>", "<pad>", "</s>", "<unk>", mask]
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=special,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    return tokenizer, trainer


@dataclass
class Tokens:
    """One stream of token ids, and where its sentences, documents and sources begin.

    A byte-level stream spells the whole text, the space or line break before a sentence included.
    <|endoftext|> opens a document if the vocabulary has it.
    """

    ids: np.ndarray  # uint16
    sentences: np.ndarray  # int64, first token of each sentence
    documents: np.ndarray  # int64, first token of each document
    # First token of each source; `save` does not keep it.
    sources: dict[str, int] = field(default_factory=lambda: {"natural": 0})

    def save(self, path: Path):
        """Write an .npz file that keeps distances: they compress to a fifth of what places take."""
        files.save_arrays(
            path,
            ids=self.ids,
            sentence_steps=np.diff(self.sentences, prepend=0).astype("u4"),
            document_steps=np.diff(self.documents, prepend=0).astype("u4"),
        )

    @classmethod
    def load(cls, path: Path) -> "Tokens":
        with np.load(path, allow_pickle=False) as stored:
            return cls(
                ids=stored["ids"],
                sentences=np.cumsum(stored["sentence_steps"], dtype=np.int64),
                documents=np.cumsum(stored["document_steps"], dtype=np.int64),
            )

    @classmethod
    def joined(cls, parts: list["Tokens"]) -> "Tokens":
        """The streams one after the other."""
        ids = []
        sentence_starts = []
        document_starts = []
        offset = 0
        for part in parts:
            ids.append(part.ids)
            sentence_starts.append(part.sentences + offset)
            document_starts.append(part.documents + offset)
            offset += len(part.ids)
        return cls(
            np.concatenate(ids), np.concatenate(sentence_starts), np.concatenate(document_starts)
        )

    def of_sources(self, counts: dict[str, dict]) -> "Tokens":
        """The same stream of train.txt with its `sources`, by what `prepare` counted of each."""
        n_documents = [count["train"] for count in counts.values()]
        if sum(n_documents) != len(self.documents):
            raise CompanionError(
                f"The text has {len(self.documents)} documents where its counts.json has "
                f"{sum(n_documents)}: run `python -m training prepare` again."
            )
        first_documents = np.cumsum([0, *n_documents[:-1]])
        first_tokens = self.documents[first_documents].tolist()
        return replace(self, sources=dict(zip(counts, first_tokens)))

    def every_other_document(self) -> "Tokens":
        """The first, third, ... document alone."""
        document = np.searchsorted(self.documents, np.arange(len(self.ids)), side="right") - 1
        kept = document % 2 == 0
        new_place = np.cumsum(kept) - kept  # of each kept token in the new stream
        kept_sentences = self.sentences[kept[self.sentences]]
        return Tokens(self.ids[kept], new_place[kept_sentences], new_place[self.documents[::2]])


def encode(
    tokenizer: tokenizers.Tokenizer, texts: Iterable[str], workers: int | None = None
) -> Tokens:
    """The documents as one token stream, in order, by `workers` processes (None: one a core)."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    workers = workers or os.cpu_count()
    tokenizer_json = tokenizer.to_str()
    texts = list(texts)
    chunks = [texts[start : start + CHUNK] for start in range(0, len(texts), CHUNK)]
    if workers == 1 or len(chunks) < 2:
        return Tokens.joined([_encode_documents(tokenizer_json, chunk) for chunk in chunks])
    with ProcessPoolExecutor(workers) as pool:
        parts = pool.map(_encode_documents, [tokenizer_json] * len(chunks), chunks)
        return Tokens.joined(list(tqdm(parts, total=len(chunks), desc="tokens")))


def _encode_documents(tokenizer_json: str, texts: list[str]) -> Tokens:
    tokenizer = tokenizers.Tokenizer.from_str(tokenizer_json)
    is_byte_level = isinstance(tokenizer.pre_tokenizer, pre_tokenizers.ByteLevel)
    opening = tokenizer.token_to_id("<|endoftext|>")
    ids = array("H")
    sentence_starts = array("q")
    document_starts = array("q")
    for text in texts:
        document_starts.append(len(ids))
        if opening is not None:
            ids.append(opening)
        pieces = _pieces(text, is_byte_level)
        for encoded in tokenizer.encode_batch(pieces, add_special_tokens=False):
            # A WordPiece stream cuts the rare endless sentence; a byte-level one spells all of it.
            kept = encoded.ids if is_byte_level else encoded.ids[:LONGEST]
            if kept:  # empty if the normaliser removed all characters of the sentence
                sentence_starts.append(len(ids))
                ids.extend(kept)
    return Tokens(np.array(ids), np.array(sentence_starts), np.array(document_starts))


def _pieces(text: str, with_spaces: bool) -> list[str]:
    """The sentences of a document; `with_spaces`, the space or line break before each included."""
    pieces = []
    for n_paragraph, paragraph in enumerate(text.split("\n")):
        for n_sentence, sentence in enumerate(sentences(paragraph)):
            before = ""
            if with_spaces and n_sentence > 0:
                before = " "
            elif with_spaces and n_paragraph > 0:
                before = "\n"
            pieces.append(before + sentence)
    return pieces
