"""Text files in, token streams out: what pre-training reads.

A corpus is text with one paragraph per line and a blank line between documents, plain or compressed (.xz, .gz).
`prepare` joins several sources, drops what the models are later judged on, sets a share of the documents aside and
counts all of it; `encode` turns documents into one array of token ids."""

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
from itertools import groupby, product
from pathlib import Path

import numpy as np
import tokenizers
from tokenizers import decoders, normalizers, pre_tokenizers, processors, trainers
from tqdm import tqdm

from lib import CompanionError, paths
from lib.engine import files
from lib.text import data, english, swaps
from lib.text.english import sentences

NGRAM = 10
SHORTEST = 5  # words of a prompt that is told from ordinary speech


def open_text(path: Path, **options):
    """A text file, decompressed on the way where its name says so."""
    opener = {".xz": lzma.open, ".gz": gzip.open}.get(Path(path).suffix, open)
    return opener(path, "rt", encoding="utf-8", **options)


def documents(texts: Iterable[Path]) -> Iterator[str]:
    """Every document of the files, in order: its paragraphs, one per line."""
    for path in texts:
        with open_text(path) as file:
            for is_text, lines in groupby(map(str.strip, file), bool):
                if is_text:
                    yield "\n".join(lines)


def words_of(text: str) -> list[str]:
    """Without case and punctuation, so that formatting cannot hide a copy."""
    return re.findall(r"[a-z0-9]+", text.lower())


def ngrams(words: list[str], n: int) -> set[str]:
    return {" ".join(words[i : i + n]) for i in range(len(words) - n + 1)}


class Reserved:
    """Text that models are judged on, and how many documents were met that share some of it (`dropped_for`)."""

    def __init__(self, unseen: list[Path], prompts: Iterable[str]):
        self.owner, self.prompts = (
            {},
            defaultdict(list),
        )  # files by ten words; prompts by their first words
        labels = [f"{path.parent.name}/{path.name}" for path in unseen]
        self.dropped_for = Counter(dict.fromkeys([*labels, "prompts"], 0))
        for path, label in zip(unseen, labels):
            with open_text(path, errors="replace") as file:
                self.owner |= dict.fromkeys(ngrams(words_of(file.read()), NGRAM), label)
        for prompt in map(words_of, prompts):
            if len(prompt) >= SHORTEST:
                self.prompts[" ".join(prompt[:SHORTEST])].append(f" {' '.join(prompt)} ")

    def holds(self, document: str) -> bool:
        """Whether a document shares ten words in a row with a file, or a whole prompt."""
        words = words_of(document)
        labels = {self.owner[ngram] for ngram in self.owner.keys() & ngrams(words, NGRAM)}
        starts, whole = self.prompts.keys() & ngrams(words, SHORTEST), f" {' '.join(words)} "
        if any(prompt in whole for start in starts for prompt in self.prompts[start]):
            labels.add("prompts")
        self.dropped_for.update(labels)
        return bool(labels)


def prepare(
    sources: dict[str, list[Path]],
    unseen: list[Path],
    out: Path,
    prompts: Iterable[str] = (),
    leave_out: Sequence[str] = (),
    heldout: float = 0.01,
    balanced: bool = False,
    seed: int = 0,
) -> dict:
    """Write train.txt and the held-out documents under `out`; return (and write) what was counted, source by source.
    An older `out` is replaced whole, with the tokenizers and token streams that were made from it.

    sources    {name: files}, the natural text first. Its held-out documents become heldout.txt, by which models are
               compared; those of any other source heldout-<name>.txt.
    unseen     evaluation files: a document that shares ten words in a row with one is dropped
    prompts    sentences: a document that holds one is dropped, unless the sentence has fewer than SHORTEST words
    leave_out  patterns; a document whose first line matches one is left out
    heldout    share of the documents that is set aside, decided document by document from the seed
    balanced   swap the gender words of whole documents (swaps.py; names stay) or leave them, by a coin: a text for a
               model that can hold no stereotype of gender. What is dropped and set aside is as it would be without."""
    is_inside = any(
        text.resolve().is_relative_to(out.resolve()) for texts in sources.values() for text in texts
    )
    if is_inside or out.exists() and any(out.iterdir()) and not (out / "counts.json").exists():
        raise CompanionError(
            f"{out} holds other files, which would be replaced: name a new folder with --out."
        )
    reserved, counts, swapped = Reserved(unseen, prompts), {}, 0
    rng, coin = random.Random(seed), random.Random(f"{seed} balanced")
    with (
        files.new_folder(out) as folder,
        open(folder / "train.txt", "w", encoding="utf-8") as train,
    ):
        for n, (source, texts) in enumerate(sources.items()):
            count = counts[source] = dict(
                documents=0, train=0, heldout=0, left_out=0, dropped=0, characters=0
            )
            with open(
                folder / (f"heldout-{source}.txt" if n else "heldout.txt"), "w", encoding="utf-8"
            ) as aside:
                for document in tqdm(documents(texts), desc=source, unit_scale=True):
                    count["documents"] += 1
                    part = "heldout" if rng.random() < heldout else "train"
                    if any(re.search(pattern, document.split("\n", 1)[0]) for pattern in leave_out):
                        count["left_out"] += 1
                    elif reserved.holds(document):
                        count["dropped"] += 1
                    else:
                        count[part] += 1
                        if balanced and coin.random() < 0.5:
                            document, swapped = swaps.swap_all(document), swapped + 1
                        count["characters"] += len(document) * (part == "train")
                        (train if part == "train" else aside).write(document + "\n\n")
            if not count["train"] or not count["heldout"]:
                raise CompanionError(
                    f"{source} gave {count['train']} training and {count['heldout']} held-out "
                    "documents: give more documents (separated by blank lines) or a larger --heldout."
                )
        total = sum(count["characters"] for count in counts.values())
        record = {
            "sources": {
                source: count | {"share": round(count["characters"] / total, 4)}
                for source, count in counts.items()
            },
            "dropped_for": reserved.dropped_for,
            "balanced": {"seed": seed, "documents_swapped": swapped} if balanced else None,
        }
        (folder / "counts.json").write_text(json.dumps(record, indent=1) + "\n")
    return record


def papers_prompts() -> Iterator[str]:
    """What the papers and this project ask models, by data/prompts.toml: cloze prompts, LPBS, occupation templates."""
    asked = tomllib.loads((paths.ROOT / "data" / "prompts.toml").read_text(encoding="utf-8"))
    words = {
        slot: entry
        if isinstance(entry, list)
        else sorted({row[column] for file, column in entry.items() for row in data.rows(file)})
        for slot, entry in asked["words"].items()
    }
    for pattern in asked["patterns"]:
        slots = [slot for slot in words if f"{{{slot}}}" in pattern]
        for filling in product(*(words[slot] for slot in slots)):
            yield english.sentence(pattern, **dict(zip(slots, filling)))


def evaluation_files() -> tuple[list[Path], list[str]]:
    """The files that models are judged on, of data/demo and of what is at hand; and names of sets that are not."""
    sets = tomllib.loads(paths.SOURCES.read_text(encoding="utf-8"))
    names = {
        key: [file["name"] for file in entry["files"]]
        for key, entry in sets.items()
        if "files" in entry
    }
    missing = [
        key for key, files_of_set in names.items() if not all(map(data.available, files_of_set))
    ]
    there = [data.path(name) for key in names if key not in missing for name in names[key]]
    return sorted(file for file in paths.DEMO.iterdir() if file.is_file()) + there, missing


def train_tokenizer(kind: str, texts: Iterable[str], vocabulary: int) -> tokenizers.Tokenizer:
    """A tokenizer of the kind the papers' models have: uncased WordPiece for bert, cased byte-level BPE for roberta
    and gpt2, where a word inside a text carries the space before it and the first word has none."""
    if kind == "bert":
        tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token="[UNK]"))
        tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
        tokenizer.pre_tokenizer, tokenizer.decoder = (
            pre_tokenizers.BertPreTokenizer(),
            decoders.WordPiece(),
        )
        tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
        special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        trainer = trainers.WordPieceTrainer(
            vocab_size=vocabulary,
            special_tokens=special,
            show_progress=False,
            min_frequency=2,
            limit_alphabet=300,
        )
    else:
        tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
        tokenizer.decoder = decoders.ByteLevel()
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        if kind == "roberta":
            tokenizer.post_processor = processors.RobertaProcessing(
                ("</s>", 2), ("<s>", 0), add_prefix_space=False
            )
        mask = tokenizers.AddedToken(
            "<mask>", lstrip=True
        )  # the space before it is the masked word's own
        special = ["<|endoftext|>"] if kind == "gpt2" else ["<s>", "<pad>", "</s>", "<unk>", mask]
        trainer = trainers.BpeTrainer(
            vocab_size=vocabulary,
            special_tokens=special,
            show_progress=False,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


@dataclass
class Tokens:
    """One stream of token ids and where its sentences and documents begin.
    A byte-level stream spells the text, space or line break before a sentence too. <|endoftext|> opens documents."""

    ids: np.ndarray  # uint16
    sentences: np.ndarray  # int64, first token of each sentence
    documents: np.ndarray  # int64, first token of each document
    sources: dict[str, int] = field(
        default_factory=lambda: {"natural": 0}
    )  # first token of each; not kept by `save`

    def save(self, path: Path):
        """Kept as distances, which compress to a fifth of what places take."""
        files.save_arrays(
            path,
            ids=self.ids,
            sentence_steps=np.diff(self.sentences, prepend=0).astype("u4"),
            document_steps=np.diff(self.documents, prepend=0).astype("u4"),
        )

    @classmethod
    def load(cls, path: Path) -> "Tokens":
        with np.load(path, allow_pickle=False) as stored:
            steps = stored["sentence_steps"], stored["document_steps"]
            return cls(stored["ids"], *(np.cumsum(each, dtype=np.int64) for each in steps))

    @classmethod
    def joined(cls, parts: list["Tokens"]) -> "Tokens":
        offsets = np.cumsum([0] + [len(p.ids) for p in parts[:-1]])
        places = (
            [getattr(p, name) + o for p, o in zip(parts, offsets)]
            for name in ("sentences", "documents")
        )
        return cls(np.concatenate([p.ids for p in parts]), *map(np.concatenate, places))

    def of_sources(self, counts: dict[str, dict]) -> "Tokens":
        """The same stream of train.txt, told where each source begins by what `prepare` counted of it."""
        n = [count["train"] for count in counts.values()]
        if sum(n) != len(self.documents):
            raise CompanionError(
                f"The text has {len(self.documents)} documents where its counts.json has {sum(n)}: "
                "run `python -m training prepare` again."
            )
        return replace(
            self, sources=dict(zip(counts, self.documents[np.cumsum([0, *n[:-1]])].tolist()))
        )

    def every_other_document(self) -> "Tokens":
        """The first, third, ... document alone."""
        document = np.searchsorted(self.documents, np.arange(len(self.ids)), side="right") - 1
        kept = document % 2 == 0
        place = np.cumsum(kept) - kept  # of each token in the new stream
        return Tokens(
            self.ids[kept], place[self.sentences[kept[self.sentences]]], place[self.documents[::2]]
        )


def _encode_documents(tokenizer_json: str, texts: list[str], longest: int = 250) -> Tokens:
    tokenizer = tokenizers.Tokenizer.from_str(tokenizer_json)
    spaced = isinstance(tokenizer.pre_tokenizer, pre_tokenizers.ByteLevel)
    opening = tokenizer.token_to_id("<|endoftext|>")
    ids, sentence_starts, document_starts = array("H"), array("q"), array("q")
    for text in texts:
        pieces = []
        for n, paragraph in enumerate(text.split("\n")):
            first, *rest = sentences(paragraph)
            pieces += ["\n" * bool(spaced and n) + first] + [" " * spaced + s for s in rest]
        document_starts.append(len(ids))
        if opening is not None:
            ids.append(opening)
        for encoded in tokenizer.encode_batch(pieces, add_special_tokens=False):
            # WordPiece streams cut the rare endless sentence; byte-level ones must go on spelling the text.
            kept = encoded.ids if spaced else encoded.ids[:longest]
            if kept:  # an empty piece is one whose characters the normaliser removed
                sentence_starts.append(len(ids))
                ids.extend(kept)
    return Tokens(*map(np.array, (ids, sentence_starts, document_starts)))


def encode(
    tokenizer: tokenizers.Tokenizer, texts: Iterable[str], workers: int | None = None
) -> Tokens:
    """The documents as one token stream, in order, by `workers` processes (default: one per core)."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    workers, spelled, texts = workers or os.cpu_count(), tokenizer.to_str(), list(texts)
    chunks = [texts[i : i + 500] for i in range(0, len(texts), 500)]
    if workers == 1 or len(chunks) < 2:
        return Tokens.joined([_encode_documents(spelled, chunk) for chunk in chunks])
    with ProcessPoolExecutor(workers) as pool:
        parts = pool.map(_encode_documents, [spelled] * len(chunks), chunks)
        return Tokens.joined(list(tqdm(parts, total=len(chunks), desc="tokens")))
