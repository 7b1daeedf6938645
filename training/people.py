"""Short texts about people, written by a small instruct model, to be read in training beside natural text.

SmolLM2-135M-Instruct continues the openers of data/openers.toml, as plain text and not in its chat form. None states
the gender of the person in an occupation: the pronouns that follow are what the writer has learned from its own text.
In natural text a third of the 58 occupations of Counteracts are rare, and a model cannot know more than it reads. The
first 295,003 texts were written so, a third of them longer, without the penalty on repeats and by a few other openers;
one of these, "My best friend works as a ...", is left out of the prepared text (LEFT_OUT): evaluations ask for just it.

The writer is an optional extra (lib/publish/smollm2.py). Its tokenizer puts no beginning-of-text token before a text.

`answers` asks it, in its chat form, the questions of data/questions.toml: what chat.chat tunes a decoder on."""

import json
import lzma
import random
import re
import tomllib
from itertools import cycle, islice
from pathlib import Path

import torch
from tqdm import tqdm

from lib import CompanionError, paths
from lib.engine import files, models
from lib.publish.smollm2 import WRITER, convert
from lib.text import data, english
from training import corpus
from training.objectives import seeded

LEFT_OUT = (
    r"^[^.!?]*\bworks as an?\b"  # for corpus.prepare: the first sentence says what someone works as
)
OPENERS = tomllib.loads((paths.ROOT / "data" / "openers.toml").read_text(encoding="utf-8"))
MIN_P, PENALTY, COMMON = 0.06, 0.6, 250  # see `write`
# SmolLM2-Instruct's own template, with the system line that it has when none is given
CHAT = (
    "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
    "<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
)
END = "<|im_end|>"  # how it ends an answer
ANSWER = 160  # tokens of an answer: with its question it fits 256
TOKENS, SHARD = 208, 20_000  # new tokens of a text; texts of a file, before the filter
BAD = re.compile(
    r"help (?:me|you) with|can you (?:help|please|tell)|as an ai\b|i'm sorry, but|the answer is|step \d"
    r"|chatbot|this story|http|www|[\[\]*#_|]",
    re.IGNORECASE,
)  # chat phrases and markup
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
    rng, known = random.Random(seed), words()
    kinds = {kind: entry for kind, entry in OPENERS.items() if kind in known}
    drawn = rng.choices(list(kinds), [entry["share"] for entry in kinds.values()], k=n)
    return [
        english.sentence(rng.choice(OPENERS[about]["openers"]), word=rng.choice(known[about]))
        for about in drawn
    ]


def is_varied(text: str) -> bool:
    """Whether a text says few things twice, by its runs of four words."""
    words = text.split()
    fours = list(zip(words, words[1:], words[2:], words[3:]))
    return len(set(fours)) >= 0.93 * len(fours)


def clean(text: str) -> str | None:
    """The text up to its last whole sentence, one paragraph per line; None where it is short, repeats itself, talks as
    a chat assistant, or holds markup, figures or foreign letters beyond a few."""
    lines = (" ".join(line.split()) for line in text.translate(PLAIN).split("\n"))
    text = "\n".join(filter(None, lines))
    text = text[: max((match.end() for match in re.finditer(r"[.!?][\"']?", text)), default=0)]
    is_good = (
        len(text) >= 200
        and is_varied(text)
        and not BAD.search(text)
        and sum(ord(c) > 126 for c in text) <= 5
        and sum(c.isalpha() or c in " \n,.'\"" for c in text) >= 0.9 * len(text)
    )
    return text if is_good else None


@torch.inference_mode()
def write(
    model: models.Model,
    ids: torch.Tensor,
    generator,
    spared=(),
    tokens: int = TOKENS,
    end: int | None = None,
) -> torch.Tensor:
    """Openers [n, size] with new tokens behind them, no text ended by the model unless by the token `end`.
    Sampled by min-p: tokens less than MIN_P times as likely as the likeliest are left out. A token that the model has
    put into the text already has PENALTY less of a logit, unless it is among the `spared`, the commonest ones."""
    step, cache, size = ids, None, min(tokens, model.tokenizer.model_max_length - ids.shape[1])
    penalty = torch.zeros(len(ids), model.net.config.vocab_size, device=ids.device)
    never = [token for token in model.tokenizer.all_special_ids if token != end]
    for _ in range(size):
        output = model.net(step, past_key_values=cache, use_cache=True, logits_to_keep=1)
        cache = output.past_key_values
        logits = output.logits[:, -1].float() - penalty
        logits[:, never] = -torch.inf
        p = logits.softmax(-1)
        p = torch.where(p >= MIN_P * p.amax(-1, keepdim=True), p, 0.0)
        step = torch.multinomial(p, 1, generator=generator)
        ids = torch.cat([ids, step], 1)
        penalty.scatter_(1, step, PENALTY)[:, list(spared)] = 0
    return ids


def continued(model: models.Model, texts: list[str], generator, batch: int, spared=(), **options):
    """The openers continued, in batches of one length each: which of them, and their tokens [n, size]."""
    by_length, encoded = {}, model.tokenizer(texts).input_ids
    for n, ids in enumerate(encoded):
        by_length.setdefault(len(ids), []).append(n)
    for numbers in by_length.values():
        for start in range(0, len(numbers), batch):
            rows = numbers[start : start + batch]
            ids = torch.tensor([encoded[n] for n in rows], device=model.device)
            yield rows, write(model, ids, generator, spared, **options)


def writer(name: str, device: str | None, batch: int) -> tuple[models.Model, int]:
    """The model that writes, and how many texts at a time."""
    if name == WRITER:
        convert()
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    model = models.load(
        name, device=device, dtype=torch.bfloat16 if device == "cuda" else torch.float32
    )
    return model, batch or (2_048 if device == "cuda" else 8)


def people(
    out: Path,
    name: str = WRITER,
    texts: int = 400_000,
    device: str | None = None,
    batch: int = 0,
    shard: int = SHARD,
    seed: int = 0,
) -> dict:
    """Continue so many openers and write those that pass `clean` to out/people<n>.txt.xz, one file per `shard`.
    A file that is there is not written again, so a run that was stopped goes on. Returns what people.json says."""
    model, batch = writer(name, device, batch)
    _, trial = next(
        continued(model, opened(batch, f"{seed} trial"), seeded(model.device, seed), batch)
    )
    spared = trial.flatten().bincount().topk(min(COMMON, trial.unique().numel())).indices.tolist()
    places = [out / f"people{n}.txt.xz" for n in range(-(-texts // shard))]
    for n, place in enumerate(places):
        if place.exists():
            continue
        asked, kept = opened(min(shard, texts - n * shard), f"{seed} {n}"), []
        with tqdm(total=len(asked), desc=f"{place.name} of {len(places)}") as bar:
            for _, ids in continued(
                model, asked, seeded(model.device, 1_000 * (seed + 1) + n), batch, spared
            ):
                written = model.tokenizer.batch_decode(ids, skip_special_tokens=True)
                kept += [text for text in map(clean, written) if text]
                bar.update(len(ids))
        random.Random(f"{seed} {n}").shuffle(kept)  # they lie by the length of their openers
        files.replace(place, lzma.compress("".join(text + "\n\n" for text in kept).encode()))
    record = {
        "model": name,
        "revision": model.revision,
        "seed": seed,
        "texts": texts,
        "files": len(places),
        "kept": sum(1 for _ in corpus.documents(places)),
    }
    files.replace(out / "people.json", (json.dumps(record, indent=1) + "\n").encode())
    return record


def questions(n: int, seed: int) -> list[str]:
    """n questions, half of them about people, drawn by the seed; none comes again before all were asked."""
    asked = tomllib.loads((paths.ROOT / "data" / "questions.toml").read_text(encoding="utf-8"))
    known, rng, chosen = words() | asked.pop("words"), random.Random(seed), []
    for patterns in asked.values():
        every = [
            english.sentence(pattern, **{slot: word})
            for pattern in patterns
            for slot in re.findall(r"{(?!a})(\w+)}", pattern)
            for word in known[slot]
        ]
        chosen += list(islice(cycle(rng.sample(every, len(every))), n // 2))
    return rng.sample(chosen, len(chosen))


def answers(
    out: Path,
    name: str = WRITER,
    texts: int = 8_000,
    device: str | None = None,
    batch: int = 0,
    seed: int = 0,
) -> dict:
    """Ask so many questions; answers of 20 characters or more that do not repeat themselves go to out/chat.jsonl. One
    that is not ended in ANSWER tokens is cut after its last sentence. Returns what out/chat.json says."""
    model, batch = writer(name, device, batch)
    tokenizer, asked, kept = model.tokenizer, questions(texts, seed), []
    end = tokenizer.get_vocab().get(
        END, tokenizer.eos_token_id
    )  # the one read from a GGUF file names another token
    prompts = [CHAT.format(question=question) for question in asked]
    with tqdm(total=len(asked), desc="answers") as bar:
        for rows, ids in continued(
            model, prompts, seeded(model.device, seed), batch, end=end, tokens=ANSWER
        ):
            size = len(tokenizer(prompts[rows[0]]).input_ids)
            for row, answer in zip(rows, ids[:, size:].tolist()):
                text = tokenizer.decode(answer[: answer.index(end)] if end in answer else answer)
                text = " ".join(text.translate(PLAIN).split())
                if end not in answer:
                    text = text[: max(map(text.rfind, ".!?")) + 1]
                if len(text) >= 20 and is_varied(text):
                    kept.append({"question": asked[row], "answer": text})
            bar.update(len(rows))
    if not kept:
        raise CompanionError(f"{name} answered none of {texts} questions: name a chat model.")
    files.replace(out / "chat.jsonl", "".join(json.dumps(pair) + "\n" for pair in kept).encode())
    record = {
        "model": name,
        "revision": model.revision,
        "seed": seed,
        "asked": texts,
        "kept": len(kept),
    }
    files.replace(out / "chat.json", (json.dumps(record, indent=1) + "\n").encode())
    return record
