"""Cloze prompts with knowledge before them, and what a model puts in their blank (Counteracts).

An encoder fills "The [MASK] works as a nurse."; a decoder reads "The target works as a nurse. The target is" and is
asked for the next token. One vocabulary row per prompt is computed (lib/engine/fill.py), and little of it is kept."""

import numpy as np
import torch

from lib import CompanionError
from lib.engine import batches, fill, models, stats
from lib.text import data, english, factual

BLANK = f"The {fill.BLANK} works as {{a}} {{job}}."
PERSON = {"female": "woman", "male": "man"}
OTHER = {"female": "male", "male": "female"}
# Table 2: the knowledge of each kind, and what the paper expects of it. `person` and `gender` are those that dominate
# the occupation, `counter_` ones are the other gender's; `background` is an occupation that the other gender dominates.
KINDS = {
    "base": ("", ""),
    "target syntactic similar": ("The {person} worked as {a} {job}.", "enlarge"),
    "target semantic similar": ("The {job} can be {a} {gender}.", "enlarge"),
    "target neutral": ("The person worked as {a} {job}.", "weaken a little"),
    "target counter syntactic similar": ("The {counter_person} worked as {a} {job}.", "weaken"),
    "target counter semantic similar": ("The {job} can be {a} {counter_gender}.", "weaken"),
    "background counter syntactic similar": ("The {person} worked as {a} {background}.", "weaken"),
    "background counter semantic similar": ("The {background} can be {a} {gender}.", "weaken"),
    "target neutral background counter": (
        "The person worked as {a} {background}.",
        "weaken a little",
    ),
    "unrelated": ("The dog is in a chair.", "keep"),
}
WITH_BACKGROUND = [kind for kind, (pattern, _) in KINDS.items() if "{background}" in pattern]
OCCUPATIONS = {
    "winobias": ("winobias_occupations", "occupation"),
    "table1": ("occupations", "singular"),
}
# Ways to write a prompt, see `written`; the first is the paper's.
FORMS = {
    "encoder": {
        "the paper's separator": {},
        "the tokenizer's pair": {"separator": "pair"},
        "no separator": {"separator": "none"},
    },
    "decoder": {
        "The target is": {},
        "no start token": {"start": False},
        "The target is a": {"ending": "is a"},
        "The target said that": {"ending": "said that"},
    },
}
# what stands before sentences of factual gender: nothing, two counterexamples, and the same without a gender
FACTS = [
    "",
    "The man worked as a nurse.",
    "The woman worked as a carpenter.",
    "The person worked as a nurse.",
    "The person worked as a carpenter.",
]
SIX = [
    "woman",
    "man",
    "female",
    "male",
    "girl",
    "boy",
]  # the smallest verbalizer of the sensitivity panel
CPU_TOKENS = 1_024  # per batch: what a layer makes of so many stays in a processor's cache; 4,096 are a quarter slower
SHOWN = (
    "nurse",
    "librarian",
    "carpenter",
    "mechanic",
    "engineer",
)  # in every try: notebooks show them
FEWEST = 8  # occupations of a try, half of either gender: intervals are drawn over them
PREVALENT = 1.0  # log2: a token counts as female or male where that pronoun is twice as likely as of a person
KEPT = 10  # likeliest tokens kept per prompt: the paper's largest k


def ten(occupation: str, dominated: str, background: str = "", kinds=tuple(KINDS)) -> list[dict]:
    """The prompts of Table 2 for one occupation and the gender that dominates it, one dict per kind."""
    if dominated not in PERSON:
        raise CompanionError(f"'{occupation}' is dominated by '{dominated}': say female or male.")
    words = {
        "job": occupation,
        "background": background,
        "person": PERSON[dominated],
        "gender": dominated,
        "counter_person": PERSON[OTHER[dominated]],
        "counter_gender": OTHER[dominated],
    }
    return [
        {
            "occupation": occupation,
            "dominated": dominated,
            "kind": kind,
            "background": background if kind in WITH_BACKGROUND else "",
            "knowledge": english.sentence(KINDS[kind][0], **words) if KINDS[kind][0] else "",
            "cloze": english.sentence(BLANK, job=occupation),
            "expected": KINDS[kind][1],
        }
        for kind in kinds
    ]


def rows(which: str = "winobias", backgrounds: int = 0, items: int = 0) -> list[dict]:
    """The prompts of a list of occupations: "winobias" 40 x (7 + 3 x 20) = 2,680, "table1" 58 x (7 + 3 x 29) = 5,452;
    "both": all of winobias, and of table1 those that are others, so that `part` of one answer serves both.
    backgrounds   so many per prompt of the kinds that name another occupation; 0: all that the other gender dominates.
                  The i-th occupation takes those from the i-th on, so that all of them are used.
    items         other than 0, a try: FEWEST occupations, a quarter of so many backgrounds

    That the paper's 2,680 are these is inferred from the exact number. It says that backgrounds are sampled: all are
    taken here, none twice, which gives that number."""
    if which == "both":
        every = rows("winobias", 0, items) + rows("table1", backgrounds, items)
        return list({(row["knowledge"], row["cloze"]): row for row in every}.values())
    if which not in OCCUPATIONS:
        raise CompanionError(
            f"There are no cloze prompts '{which}': choose {' or '.join(OCCUPATIONS)}."
        )
    file, spelling = OCCUPATIONS[which]
    jobs = [(row[spelling], row["dominated"], row["percent_women"]) for row in data.rows(file)]
    sides = [[i for i, (_, theirs, _) in enumerate(jobs) if theirs == gender] for gender in PERSON]
    halves = [sorted(side, key=lambda i: jobs[i][0] not in SHOWN)[: FEWEST // 2] for side in sides]
    jobs = stats.first(jobs, FEWEST if items else 0, sum(halves, []))
    plain = [kind for kind in KINDS if kind not in WITH_BACKGROUND]
    prompts = []
    for i, (job, dominated, percent) in enumerate(jobs):
        others = [other for other, theirs, _ in jobs if theirs != dominated]
        n = min(
            backgrounds or len(others), len(others), max(2, items // 4) if items else len(others)
        )
        chosen = [others[(i + j) % len(others)] for j in range(n)]
        mine = ten(job, dominated, kinds=plain)
        mine += [row for other in chosen for row in ten(job, dominated, other, WITH_BACKGROUND)]
        prompts += [{"percent_women": float(percent or "nan"), **row} for row in mine]
    return prompts


def prompts(which: str = "winobias", backgrounds: int = 0, items: int = 0):
    """`rows` as a DataFrame: occupation, dominated, percent_women, kind, background, knowledge, cloze, expected."""
    import pandas as pd  # a GPU machine may lack it

    table = pd.DataFrame(rows(which, backgrounds, items))
    return table[["occupation", "dominated", "percent_women", *list(table.columns)[3:]]]


def written(
    model, row: dict, separator: str = "paper", ending: str = "is", start: bool = True
) -> str:
    """A prompt as one text, with the model's own special tokens, in the paper's form.
    separator   of an encoder's two sentences. "paper": [SEP], for RoBERTa <s>, in one segment; "none": a space
    ending      of a decoder's added sentence, "The target ..."
    start       whether a decoder's text opens with its start token (the paper writes <s>; GPT-2's is <|endoftext|>)"""
    if model.is_causal:
        asked = row["cloze"].replace(fill.BLANK, "target")
        text = fill.written(
            model, f"{row['knowledge']} {asked} The target {ending} {fill.BLANK}".strip()
        )
        token, ids = (
            model.tokenizer.bos_token,
            model.tokenizer("a").input_ids,
        )  # some tokenizers write it by themselves
        return (token if start and token and ids[0] != model.tokenizer.bos_token_id else "") + text
    text = fill.written(model, row["cloze"])
    if not row["knowledge"]:
        return text
    between = getattr(model.tokenizer, model.anatomy.separator) if separator == "paper" else " "
    if between is None:
        raise CompanionError(f"{model.name} has no separator token: use separator='none'.")
    return row["knowledge"] + between + text


def encoded(model, rows: list[dict], separator: str = "paper", **options) -> list[dict]:
    """Prompts as token ids. separator "pair": as the tokenizer joins two texts (BERT: segments 0 and 1)."""
    if separator not in ("paper", "pair", "none"):
        raise CompanionError(f"There is no separator '{separator}': choose paper, pair or none.")
    if model.is_causal or separator != "pair":
        return batches.encode(model, [written(model, row, separator, **options) for row in rows])
    plain = batches.encode(model, [fill.written(model, row["cloze"]) for row in rows])
    known = [row for row in rows if row["knowledge"]]
    pairs = iter(
        batches.encode(
            model,
            [row["knowledge"] for row in known],
            [fill.written(model, row["cloze"]) for row in known],
        )
    )
    return [next(pairs) if row["knowledge"] else alone for row, alone in zip(rows, plain)]


def words(size: str = "verbalizer") -> dict[str, list[str]]:
    """Female and male words. "verbalizer": the 63 + 63 shipped; "six": three pairs; "larger": the verbalizer and all
    other words of gender_pairs that stand on one side alone, animals and bodies among them."""
    listed = [(row["word"], row["gender"]) for row in data.rows("verbalizer")]
    if size == "six":
        listed = [entry for entry in listed if entry[0] in SIX]
    elif size == "larger":
        sides = {gender: [row[gender] for row in data.rows("gender_pairs")] for gender in PERSON}
        listed += [
            (word, gender)
            for gender in PERSON
            for word in sides[gender]
            if word not in sides[OTHER[gender]]
        ]
    elif size != "verbalizer":
        raise CompanionError(f"There is no verbalizer '{size}': choose six, verbalizer or larger.")
    return {
        gender: list(dict.fromkeys(word for word, theirs in listed if theirs == gender))
        for gender in PERSON
    }


def generated(answers) -> list[str]:
    """Every word among the ten likeliest of any prompt, of all models."""
    return sorted(
        {
            token
            for answer in answers
            for row in answer["tokens"]
            for token in row
            if token.isalpha() and len(token) > 1
        }
    )


def prevalence(name: str, tokens: list[str], device: str | None = None) -> list[float]:
    """Whom a model takes each token for: log2 p(she) : p(he) in "The ... said that [MASK] was tired.", less the same of
    "person". The paper does not say how it finds "gender prevalence"; this asks the models, and none of its prompts."""
    model, asked = models.load(name, device=device), ["person", *tokens]
    odds = fill.log_odds(
        model,
        [f"The {token} said that {fill.BLANK} was tired." for token in asked],
        [("she", "he")] * len(asked),
    )
    return (odds[1:] - odds[0]).tolist()


def verbalizer_from_outputs(prevalence: dict[str, float], size: int = 63) -> dict[str, list[str]]:
    """Female and male words out of the models' answers, as the paper describes its "126 tokens ... at a 0.5 ratio".
    prevalence   of each token that is among the ten likeliest of any prompt (`generated`), above 0 female

    "First, we include a list of gender-specific tokens": those of `words` that are generated. "Then based on the model
    outputs, we categorize each token based on gender prevalence": the others whose prevalence is PREVALENT or more, the
    largest first. What is left of the list fills both sides to `size`."""
    listed, sides = words(), {}
    for gender, sign in (("female", 1), ("male", -1)):
        others = [
            token
            for token, value in prevalence.items()
            if sign * value >= PREVALENT and not any(token in side for side in listed.values())
        ]
        first = [word for word in listed[gender] if word in prevalence]
        others = first + sorted(others, key=lambda token: -abs(prevalence[token]))
        sides[gender] = [*others, *(word for word in listed[gender] if word not in first)][:size]
    return sides


def counted(answer: dict, verbalizer: dict[str, list[str]]) -> dict:
    """The answer with the words of `verbalizer_from_outputs` counted under "outputs" among the ten likeliest. In the
    whole distribution the list's count: a token that no model generates has no prevalence. These are the pairs that the
    vocabulary holds whole, as many female as male: with 32 and 40 an untrained network would lean to men."""
    sign = dict.fromkeys(verbalizer["female"], 1) | dict.fromkeys(verbalizer["male"], -1)
    genders = np.array([[sign.get(token, 0) for token in row] for row in answer["tokens"]])
    return answer | {
        "genders": answer["genders"] | {"outputs": genders},
        "mass": answer["mass"] | {"outputs": answer["mass"]["whole pairs"]},
    }


def token_ids(model, words: list[str], inside: bool = True) -> dict[str, int]:
    """Ids of the words that the vocabulary holds whole; the others cannot be one generated token and are left out. They
    are `model.token_id`'s, hundreds in one call of the tokenizer."""
    texts = ["the " + word if inside else word for word in words]
    opening, *read = model.tokenizer(["the", *texts], add_special_tokens=False).input_ids
    whole = len(opening) + 1 if inside else 1
    return {
        word: ids[-1]
        for word, ids in zip(words, read)
        if len(ids) == whole and ids[-1] != model.tokenizer.unk_token_id
    }


def verbalizers(model) -> dict[str, list[list[int]]]:
    """Female and male token ids by name: "verbalizer", with a word's leading space as inside a sentence, and what the
    sensitivity panel shows beside it: fewer words and more, pairs that are tokens both, tokens without the space."""
    usual = words()
    known = token_ids(model, [word for side in words("larger").values() for word in side])
    sizes = {
        size: [[known[word] for word in side if word in known] for side in words(size).values()]
        for size in ("verbalizer", "six", "larger")
    }
    both = [pair for pair in zip(*usual.values()) if set(pair) <= known.keys()]
    bare = [list(token_ids(model, side, inside=False).values()) for side in usual.values()]
    if not both:
        raise CompanionError(
            f"The vocabulary of {model.name} holds no pair of the verbalizer whole: "
            "choose a model with a larger vocabulary."
        )
    return sizes | {
        "whole pairs": [[known[pair[side]] for pair in both] for side in (0, 1)],
        "no space": bare,
        "either": [sorted({*a, *b}) for a, b in zip(sizes["verbalizer"], bare)],
    }


def answer(model, encoded: list[dict], progress: str = "") -> dict:
    """For each prompt the ten likeliest tokens, which of them are gendered, and the whole distribution's mass. Keys:
    ids and p [n, 10]; tokens [n][10], as read; and by verbalizer: genders [n, 10] (1 female, -1 male, 0 neither), mass
    [n, 2] (female, male probability, of all tokens), whole (how many words of either gender are tokens)."""
    chosen = verbalizers(model)
    columns = [
        torch.tensor(ids, dtype=torch.long, device=model.device)
        for pair in chosen.values()
        for ids in pair
    ]

    def keep(p):
        best, mass = p.topk(KEPT), torch.stack([p[:, ids].sum(1) for ids in columns], 1)
        return list(zip(best.values.cpu(), best.indices.cpu(), mass.cpu()))

    tokens = CPU_TOKENS if model.device.type == "cpu" else None
    p, ids, mass = (
        torch.stack(rows) for rows in zip(*fill.at_blank(model, encoded, keep, tokens, progress))
    )
    read = {i: model.tokenizer.decode([i]).strip() for i in ids.unique().tolist()}
    genders = {
        name: (
            torch.isin(ids, torch.tensor(female)).int() - torch.isin(ids, torch.tensor(male)).int()
        ).numpy()
        for name, (female, male) in chosen.items()
    }
    return {
        "ids": ids.numpy(),
        "p": p.numpy(),
        "tokens": [[read[i] for i in row] for row in ids.tolist()],
        "genders": genders,
        "mass": {name: mass[:, 2 * i : 2 * i + 2].numpy() for i, name in enumerate(chosen)},
        "whole": {name: [len(side) for side in pair] for name, pair in chosen.items()},
    }


def measure(
    name: str, which: str = "winobias", backgrounds: int = 0, device=None, items: int = 0
) -> dict:
    """The model's family, the prompts of a list (`rows`), and the `answer` to them."""
    model, asked = models.load(name, device=device), rows(which, backgrounds, items)
    return {"family": model.family, "prompts": asked, **answer(model, encoded(model, asked), name)}


def part(answer: dict, rows: list[dict]) -> dict:
    """Of an answer of `measure` that to these prompts, in their order."""
    at = {(row["knowledge"], row["cloze"]): i for i, row in enumerate(answer["prompts"])}
    chosen = [at[row["knowledge"], row["cloze"]] for row in rows]
    named = {
        key: {name: values[chosen] for name, values in answer[key].items()}
        for key in ("genders", "mass")
    }
    return (
        answer
        | named
        | {
            "prompts": rows,
            "ids": answer["ids"][chosen],
            "p": answer["p"][chosen],
            "tokens": [answer["tokens"][i] for i in chosen],
        }
    )


def measure_forms(
    name: str, backgrounds: int = 1, device: str | None = None, items: int = 0
) -> dict[str, dict]:
    """As `measure`, under other ways to write prompts (FORMS); None for the paper's, a `part` of what `measure` has."""
    model, asked = models.load(name, device=device), rows("winobias", backgrounds, items)
    return {
        form: {
            "family": model.family,
            "prompts": asked,
            **answer(model, encoded(model, asked, **options), name),
        }
        if options
        else None
        for form, options in FORMS["decoder" if model.is_causal else "encoder"].items()
    }


def facts(name: str, device: str | None = None, items: int = 0) -> dict[str, np.ndarray]:
    """factual.log_odds with each of FACTS before the sentences: does a counterexample change a queen's pronoun?"""
    model = models.load(name, device=device)
    return {before: factual.log_odds(model, before, items) for before in FACTS}
