"""Short texts about people, written by a small instruct model, to train on beside natural text.

SmolLM2-135M-Instruct continues the openers of data/openers.toml, as plain text and not in its chat
form. None states the gender of the person in an occupation: the pronouns that follow are what the
writer has learned from its own text. In natural text a third of the 58 occupations of Counteracts
are rare, and a model cannot know more than it reads. The first 295,003 texts were written so, a
third of them longer, without the penalty on repeats and by a few other openers; one of these, "My
best friend works as a ...", is left out of the prepared text (LEFT_OUT): evaluations ask for it.

The writer is a published model that is fetched and converted beforehand (data/models.toml says
how). Its tokenizer puts no beginning-of-text token before a text.

`answers` asks the writer, in its chat form, the questions of data/questions.toml: what chat.chat
tunes a decoder on.
"""

import json
import lzma
import math
import random
import re
import tomllib
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path

import torch
from tqdm import tqdm

from lib import CompanionError, paths
from lib.engine import files, models
from lib.text import data, english
from training import corpus
from training.objectives import seeded

WRITER = "smollm2-135m-instruct"
# For corpus.prepare: the first sentence says what someone works as.
LEFT_OUT = r"^[^.!?]*\bworks as an?\b"
OPENERS = tomllib.loads((paths.ROOT / "data" / "openers.toml").read_text(encoding="utf-8"))

# How texts are sampled; see `write`.
MIN_P = 0.06
PENALTY = 0.6
COMMON = 250  # of the tokens, so many commonest ones are spared the penalty
TOKENS = 208  # new tokens of a text
SHARD = 20_000  # texts of a file, before the filter

# SmolLM2-Instruct's own template, with the system line that it has when none is given.
CHAT = (
    "<|im_start|>system\n"
    "You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
    "<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
)
END = "<|im_end|>"  # how it ends an answer
ANSWER = 160  # tokens of an answer: with its question it fits 256

# Chat phrases and markup.
BAD = re.compile(
    r"help (?:me|you) with|can you (?:help|please|tell)|as an ai\b|i'm sorry, but|the answer is"
    r"|step \d|chatbot|this story|http|www|[\[\]*#_|]",
    re.IGNORECASE,
)
PLAIN = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "–": "-", "—": "-", "\u00a0": " "})


def words() -> dict[str, list[str]]:
    """What fills the slot of each kind of opener."""
    occupations = {row["singular"] for row in data.rows("occupations")}
    occupations |= {row["occupation"] for row in data.rows("nli_occupations")}
    return {
        "occupation": sorted(occupations),
        "relative": OPENERS["relatives"].split(),
        "stereotype": [row["word"] for row in data.rows("gender_stereotypes")],
    }


def opened(n: int, seed) -> list[str]:
    """n openers with a word each, drawn by the seed."""
    rng = random.Random(seed)
    known = words()
    kinds = [kind for kind in OPENERS if kind in known]
    shares = [OPENERS[kind]["share"] for kind in kinds]
    found = []
    for kind in rng.choices(kinds, shares, k=n):
        opener = rng.choice(OPENERS[kind]["openers"])
        word = rng.choice(known[kind])
        found.append(english.sentence(opener, word=word))
    return found


def is_varied(text: str) -> bool:
    """Whether a text says few things twice: 93 % of its runs of four words are distinct."""
    words = text.split()
    fours = list(zip(words, words[1:], words[2:], words[3:]))
    return len(set(fours)) >= 0.93 * len(fours)


def clean(text: str) -> str | None:
    """The text up to its last whole sentence, one paragraph per line; None if it is unfit.

    Unfit is what is short, repeats itself, talks as a chat assistant, or holds markup, figures or
    foreign letters beyond a few.
    """
    paragraphs = []
    for line in text.translate(PLAIN).split("\n"):
        paragraph = " ".join(line.split())
        if paragraph:
            paragraphs.append(paragraph)
    text = "\n".join(paragraphs)
    ends = [match.end() for match in re.finditer(r"[.!?][\"']?", text)]
    text = text[: max(ends, default=0)]

    foreign = sum(ord(character) > 126 for character in text)
    plain = sum(character.isalpha() or character in " \n,.'\"" for character in text)
    is_short = len(text) < 200
    is_odd = foreign > 5 or plain < 0.9 * len(text)
    if is_short or is_odd or BAD.search(text) or not is_varied(text):
        return None
    return text


@torch.inference_mode()
def write(
    model: models.Model,
    ids: torch.Tensor,
    generator,
    spared=(),
    tokens: int = TOKENS,
    end: int | None = None,
) -> torch.Tensor:
    """Openers [n, size] with up to `tokens` new tokens behind them: [n, size + new].

    No text is ended by the model, unless by the token `end`. Sampled by min-p: tokens less than
    MIN_P times as likely as the likeliest are left out. A token that the model has put into the
    text already has PENALTY less of a logit, unless it is among the `spared`, the commonest ones.
    """
    new_tokens = min(tokens, model.tokenizer.model_max_length - ids.shape[1])
    penalty = torch.zeros(len(ids), model.net.config.vocab_size, device=ids.device)
    never = [token for token in model.tokenizer.all_special_ids if token != end]
    step = ids  # what the model has not read yet
    cache = None
    for _ in range(new_tokens):
        output = model.net(step, past_key_values=cache, use_cache=True, logits_to_keep=1)
        cache = output.past_key_values
        logits = output.logits[:, -1].float() - penalty
        logits[:, never] = -torch.inf
        p = logits.softmax(-1)
        p = torch.where(p >= MIN_P * p.amax(-1, keepdim=True), p, 0.0)
        step = torch.multinomial(p, 1, generator=generator)
        ids = torch.cat([ids, step], 1)
        penalty.scatter_(1, step, PENALTY)
        penalty[:, list(spared)] = 0
    return ids


def continued(
    model: models.Model, texts: list[str], generator, batch: int, spared=(), **options
) -> Iterator[tuple[list[int], torch.Tensor]]:
    """The openers continued, in batches of one length each.

    Yields the numbers of a batch's openers, and their tokens with the new ones [n, size].
    """
    encoded = model.tokenizer(texts).input_ids
    by_length = {}
    for number, ids in enumerate(encoded):
        by_length.setdefault(len(ids), []).append(number)
    for numbers in by_length.values():
        for start in range(0, len(numbers), batch):
            rows = numbers[start : start + batch]
            ids = torch.tensor([encoded[number] for number in rows], device=model.device)
            yield rows, write(model, ids, generator, spared, **options)


def writer(name: str, device: str | None, batch: int) -> tuple[models.Model, int]:
    """The model that writes, and how many texts it writes at a time."""
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    if device == "cuda":
        return models.load(name, device=device, dtype=torch.bfloat16), batch or 2_048
    return models.load(name, device=device, dtype=torch.float32), batch or 8


def people(
    out: Path,
    name: str = WRITER,
    texts: int = 400_000,
    device: str | None = None,
    batch: int = 0,
    shard: int = SHARD,
    seed: int = 0,
) -> dict:
    """Continue so many openers and write those that pass `clean` to out/people<n>.txt.xz.

    Each file is made of `shard` openers. One that is there is not written again, so a run that was
    stopped can be continued. Returns what people.json says.
    """
    model, batch = writer(name, device, batch)
    spared = common_tokens(model, batch, seed)
    n_files = math.ceil(texts / shard)
    places = [out / f"people{n}.txt.xz" for n in range(n_files)]
    for n, place in enumerate(places):
        if place.exists():
            continue
        openers = opened(min(shard, texts - n * shard), f"{seed} {n}")
        generator = seeded(model.device, 1_000 * (seed + 1) + n)
        kept = []
        with tqdm(total=len(openers), desc=f"{place.name} of {n_files}") as bar:
            for _, ids in continued(model, openers, generator, batch, spared):
                for text in model.tokenizer.batch_decode(ids, skip_special_tokens=True):
                    cleaned = clean(text)
                    if cleaned:
                        kept.append(cleaned)
                bar.update(len(ids))
        random.Random(f"{seed} {n}").shuffle(kept)  # they lie by the length of their openers
        content = "".join(text + "\n\n" for text in kept)
        files.replace(place, lzma.compress(content.encode()))
    record = {
        "model": name,
        "revision": model.revision,
        "seed": seed,
        "texts": texts,
        "files": n_files,
        "kept": sum(1 for _ in corpus.documents(places)),
    }
    write_record(out / "people.json", record)
    return record


def common_tokens(model: models.Model, batch: int, seed: int) -> list[int]:
    """The COMMON commonest tokens of one trial batch, in which every repeat has its penalty."""
    openers = opened(batch, f"{seed} trial")
    _, ids = next(continued(model, openers, seeded(model.device, seed), batch))
    n = min(COMMON, ids.unique().numel())
    return ids.flatten().bincount().topk(n).indices.tolist()


def write_record(file: Path, record: dict):
    files.replace(file, (json.dumps(record, indent=1) + "\n").encode())


def questions(n: int, seed: int) -> list[str]:
    """n questions, half of them about people, drawn by the seed.

    None is asked again before all of its half were asked.
    """
    file = paths.ROOT / "data" / "questions.toml"
    halves = tomllib.loads(file.read_text(encoding="utf-8"))
    known = words() | halves.pop("words")
    rng = random.Random(seed)
    chosen = []
    for patterns in halves.values():
        filled = []
        for pattern in patterns:
            for slot in re.findall(r"{(?!a})(\w+)}", pattern):
                for word in known[slot]:
                    filled.append(english.sentence(pattern, **{slot: word}))
        shuffled = rng.sample(filled, len(filled))
        chosen += islice(cycle(shuffled), n // 2)
    return rng.sample(chosen, len(chosen))


def answers(
    out: Path,
    name: str = WRITER,
    texts: int = 8_000,
    device: str | None = None,
    batch: int = 0,
    seed: int = 0,
) -> dict:
    """Ask so many questions, and write the answers that are kept to out/chat.jsonl.

    Kept are answers of 20 characters or more that do not repeat themselves. Returns what
    out/chat.json says.
    """
    model, batch = writer(name, device, batch)
    asked = questions(texts, seed)
    prompts = [CHAT.format(question=question) for question in asked]
    # A tokenizer that was read from a GGUF file names another token as its eos_token.
    end = model.tokenizer.get_vocab().get(END, model.tokenizer.eos_token_id)
    generator = seeded(model.device, seed)
    kept = []
    with tqdm(total=len(asked), desc="answers") as bar:
        for rows, ids in continued(model, prompts, generator, batch, end=end, tokens=ANSWER):
            prompt_size = len(model.tokenizer(prompts[rows[0]]).input_ids)
            for row, tokens in zip(rows, ids[:, prompt_size:].tolist()):
                text = answer_text(model.tokenizer, tokens, end)
                if len(text) >= 20 and is_varied(text):
                    kept.append({"question": asked[row], "answer": text})
            bar.update(len(rows))
    if not kept:
        raise CompanionError(f"{name} answered none of {texts} questions: name a chat model.")
    content = "".join(json.dumps(pair) + "\n" for pair in kept)
    files.replace(out / "chat.jsonl", content.encode())
    record = {
        "model": name,
        "revision": model.revision,
        "seed": seed,
        "asked": texts,
        "kept": len(kept),
    }
    write_record(out / "chat.json", record)
    return record


def answer_text(tokenizer, tokens: list[int], end: int) -> str:
    """An answer up to its token `end`; one without it is cut after its last sentence."""
    if end in tokens:
        text = tokenizer.decode(tokens[: tokens.index(end)])
        return " ".join(text.translate(PLAIN).split())
    text = tokenizer.decode(tokens)
    text = " ".join(text.translate(PLAIN).split())
    last_stop = max(text.rfind(mark) for mark in ".!?")
    return text[: last_stop + 1]
