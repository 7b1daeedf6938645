"""Cloze prompts with knowledge before them, and what a model puts in their blank (Counteracts).

An encoder fills "The [MASK] works as a nurse."; a decoder reads "The target works as a nurse. The
target is" and is asked for the next token. One vocabulary row per prompt is computed
(lib/engine/fill.py), and only the likeliest tokens and the mass of gendered ones are kept.
"""

import contextlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch

from lib import CompanionError
from lib.engine import batches, fill, models, stats
from lib.text import data, english, factual


class Knowledge(NamedTuple):
    """A kind of knowledge of Table 2.

    In the pattern, `person` and `gender` are those that dominate the occupation, `counter_person`
    and `counter_gender` are the other ones; `background` is an occupation that the other gender
    dominates.
    """

    pattern: str
    expected: str  # what the paper expects it to do to the preference


BLANK = f"The {fill.BLANK} works as {{a}} {{job}}."
PERSON = {"female": "woman", "male": "man"}
OTHER = {"female": "male", "male": "female"}
KINDS = {
    "base": Knowledge("", ""),
    "target syntactic similar": Knowledge("The {person} worked as {a} {job}.", "enlarge"),
    "target semantic similar": Knowledge("The {job} can be {a} {gender}.", "enlarge"),
    "target neutral": Knowledge("The person worked as {a} {job}.", "weaken a little"),
    "target counter syntactic similar": Knowledge(
        "The {counter_person} worked as {a} {job}.", "weaken"
    ),
    "target counter semantic similar": Knowledge(
        "The {job} can be {a} {counter_gender}.", "weaken"
    ),
    "background counter syntactic similar": Knowledge(
        "The {person} worked as {a} {background}.", "weaken"
    ),
    "background counter semantic similar": Knowledge(
        "The {background} can be {a} {gender}.", "weaken"
    ),
    "target neutral background counter": Knowledge(
        "The person worked as {a} {background}.", "weaken a little"
    ),
    "unrelated": Knowledge("The dog is in a chair.", "keep"),
}
WITH_BACKGROUND = [kind for kind, known in KINDS.items() if "{background}" in known.pattern]
# By name: the list of data/lists, and its column of singulars.
OCCUPATIONS = {
    "winobias": ("winobias_occupations", "occupation"),
    "table1": ("occupations", "singular"),
}
# Ways to write a prompt, as options of `encoded`; the first is the paper's.
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
# Put before sentences of factual gender: nothing, two counterexamples, the same without a gender.
FACTS = [
    "",
    "The man worked as a nurse.",
    "The woman worked as a carpenter.",
    "The person worked as a nurse.",
    "The person worked as a carpenter.",
]
# The smallest verbalizer of the sensitivity panel.
SIX = ["woman", "man", "female", "male", "girl", "boy"]
# Tokens of a batch on a CPU: a layer's output then stays in the cache; 4,096 are a quarter slower.
CPU_TOKENS = 1_024
# Occupations that every try holds, since notebooks show them.
SHOWN = ("nurse", "librarian", "carpenter", "mechanic", "engineer")
FEWEST = 8  # occupations of a try, half of either gender: intervals are drawn over them
# In log2: a token is female or male if its odds of she to he are twice, or half, those of a person.
PREVALENT = 1.0
KEPT = 10  # likeliest tokens kept per prompt: the paper's largest k


def ten(
    occupation: str, dominated: str, background: str = "", kinds: Sequence[str] = tuple(KINDS)
) -> list[dict]:
    """The prompts of Table 2 for an occupation and the gender that dominates it: one per kind."""
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
    prompts = []
    for kind in kinds:
        pattern, expected = KINDS[kind]
        prompt = {
            "occupation": occupation,
            "dominated": dominated,
            "kind": kind,
            "background": background if kind in WITH_BACKGROUND else "",
            "knowledge": english.sentence(pattern, **words) if pattern else "",
            "cloze": english.sentence(BLANK, job=occupation),
            "expected": expected,
        }
        prompts.append(prompt)
    return prompts


def rows(which: str = "winobias", backgrounds: int = 0, items: int = 0) -> list[dict]:
    """The prompts of a list of occupations, as dicts.

    "winobias" has 40 x (7 + 3 x 20) = 2,680, "table1" 58 x (7 + 3 x 29) = 5,452. "both" has all of
    winobias, and of table1 those that winobias does not have, so that `part` of one answer serves
    both.

    That the paper's 2,680 are these is inferred from the exact number. It says that backgrounds are
    sampled: here each is taken once, which gives that number.

    backgrounds   how many each prompt of the kinds WITH_BACKGROUND has; 0: all occupations that the
                  other gender dominates. The i-th occupation takes those from the i-th on, so that
                  all of them are used.
    items         other than 0, a try: FEWEST occupations, a quarter of so many backgrounds
    """
    if which == "both":
        return _both(backgrounds, items)
    occupations = _occupations(which, is_try=items > 0)
    without_background = [kind for kind in KINDS if kind not in WITH_BACKGROUND]
    prompts = []
    for number, (occupation, dominated, percent) in enumerate(occupations):
        mine = ten(occupation, dominated, kinds=without_background)
        others = [name for name, gender, _ in occupations if gender != dominated]
        n = _n_backgrounds(len(others), backgrounds, items)
        for shift in range(n):
            background = others[(number + shift) % len(others)]
            mine += ten(occupation, dominated, background, WITH_BACKGROUND)
        percent_women = float(percent or "nan")
        prompts += [{"percent_women": percent_women, **row} for row in mine]
    return prompts


def _both(backgrounds: int, items: int) -> list[dict]:
    """All prompts of winobias and table1; one that both have is as table1 has it."""
    by_text = {}
    for row in rows("winobias", 0, items) + rows("table1", backgrounds, items):
        by_text[row["knowledge"], row["cloze"]] = row
    return list(by_text.values())


def _occupations(which: str, is_try: bool) -> list[tuple[str, str, str]]:
    """(occupation, gender that dominates it, percentage of women or "") of a list.

    A try has FEWEST of them, half of either gender, those SHOWN first.
    """
    if which not in OCCUPATIONS:
        raise CompanionError(
            f"There are no cloze prompts '{which}': choose {' or '.join(OCCUPATIONS)}."
        )
    file, column = OCCUPATIONS[which]
    jobs = [(row[column], row["dominated"], row["percent_women"]) for row in data.rows(file)]
    if not is_try:
        return jobs
    chosen = []
    for gender in PERSON:
        places = [place for place, job in enumerate(jobs) if job[1] == gender]
        shown = [place for place in places if jobs[place][0] in SHOWN]
        others = [place for place in places if jobs[place][0] not in SHOWN]
        chosen += (shown + others)[: FEWEST // 2]
    return stats.first(jobs, FEWEST, chosen)


def _n_backgrounds(available: int, wanted: int, items: int) -> int:
    """How many backgrounds a prompt has: those wanted (0: all), in a try a quarter of `items`."""
    n = min(wanted or available, available)
    return min(n, max(2, items // 4)) if items else n


def prompts(which: str = "winobias", backgrounds: int = 0, items: int = 0) -> pd.DataFrame:
    """`rows` as a table.

    Columns: occupation, dominated, percent_women, kind, background, knowledge, cloze, expected.
    """
    table = pd.DataFrame(rows(which, backgrounds, items))
    return table[["occupation", "dominated", "percent_women", *list(table.columns)[3:]]]


def written(
    model, row: dict, separator: str = "paper", ending: str = "is", start: bool = True
) -> str:
    """A prompt as one text, with the model's own special tokens, in the paper's form.

    separator   between an encoder's two sentences. "paper": [SEP], for RoBERTa <s>, in one segment;
                "none": a space
    ending      of a decoder's added sentence, "The target ..."
    start       whether a decoder's text opens with its start token (the paper writes <s>; GPT-2's
                is <|endoftext|>)
    """
    if model.is_causal:
        return _written_for_decoder(model, row, ending, start)
    text = fill.written(model, row["cloze"])
    if not row["knowledge"]:
        return text
    between = " "
    if separator == "paper":
        between = getattr(model.tokenizer, model.anatomy.separator)
    if between is None:
        raise CompanionError(f"{model.name} has no separator token: use separator='none'.")
    return row["knowledge"] + between + text


def _written_for_decoder(model, row: dict, ending: str, start: bool) -> str:
    asked = row["cloze"].replace(fill.BLANK, "target")
    text = f"{row['knowledge']} {asked} The target {ending} {fill.BLANK}".strip()
    text = fill.written(model, text)
    token = model.tokenizer.bos_token
    if not start or not token:
        return text
    adds_it_itself = model.tokenizer("a").input_ids[0] == model.tokenizer.bos_token_id
    return text if adds_it_itself else token + text


def encoded(model, rows: list[dict], separator: str = "paper", **options) -> list[dict]:
    """Prompts as token ids.

    separator   as in `written`, or "pair": as the tokenizer joins two texts (BERT: segments 0, 1)
    options     of `written`
    """
    if separator not in ("paper", "pair", "none"):
        raise CompanionError(f"There is no separator '{separator}': choose paper, pair or none.")
    if model.is_causal or separator != "pair":
        return batches.encode(model, [written(model, row, separator, **options) for row in rows])
    alone = batches.encode(model, [fill.written(model, row["cloze"]) for row in rows])
    with_knowledge = [row for row in rows if row["knowledge"]]
    knowledge = [row["knowledge"] for row in with_knowledge]
    cloze = [fill.written(model, row["cloze"]) for row in with_knowledge]
    pairs = iter(batches.encode(model, knowledge, cloze))
    return [next(pairs) if row["knowledge"] else single for row, single in zip(rows, alone)]


def words(size: str = "verbalizer") -> dict[str, list[str]]:
    """Female and male words.

    "verbalizer": the 63 + 63 of the bundled list; "six": three pairs of them; "larger": the
    verbalizer, and all words of gender_pairs that stand on one side alone, animals and bodies among
    them.
    """
    if size not in ("six", "verbalizer", "larger"):
        raise CompanionError(f"There is no verbalizer '{size}': choose six, verbalizer or larger.")
    by_gender = {gender: [] for gender in PERSON}
    for row in data.rows("verbalizer"):
        if size != "six" or row["word"] in SIX:
            by_gender[row["gender"]].append(row["word"])
    if size == "larger":
        pairs = data.rows("gender_pairs")
        for gender, other in OTHER.items():
            words_of_other = {row[other] for row in pairs}
            mine = [row[gender] for row in pairs]
            by_gender[gender] += [word for word in mine if word not in words_of_other]
    return {gender: list(dict.fromkeys(found)) for gender, found in by_gender.items()}


def generated(answers: Iterable[dict]) -> list[str]:
    """Every word among the ten likeliest of any prompt, of all models."""
    found = set()
    for answer in answers:
        for tokens in answer["tokens"]:
            found.update(tokens)
    return sorted(token for token in found if token.isalpha() and len(token) > 1)


def prevalence(name: str, tokens: list[str], device: str | None = None) -> list[float]:
    """Whom a model takes each token for: above 0 a woman, below 0 a man.

    That is log2 p(she) : p(he) in "The ... said that [MASK] was tired.", less the same of "person".
    The paper does not say how it finds "gender prevalence"; this asks the models, and by none of
    its prompts.
    """
    model = models.load(name, device=device)
    subjects = ["person", *tokens]
    sentences = [f"The {subject} said that {fill.BLANK} was tired." for subject in subjects]
    odds = fill.log_odds(model, sentences, [("she", "he")] * len(subjects))
    return (odds[1:] - odds[0]).tolist()


def verbalizer_from_outputs(prevalence: dict[str, float], size: int = 63) -> dict[str, list[str]]:
    """Female and male words from the models' answers: the paper's "126 tokens ... at a 0.5 ratio".

    "First, we include a list of gender-specific tokens": those of `words` that are generated. "Then
    based on the model outputs, we categorize each token based on gender prevalence": the others
    whose prevalence is PREVALENT or more, the largest first. The rest of the list fills both sides
    to `size`.

    prevalence   of each token that is among the ten likeliest of any prompt (`generated`)
    """
    listed = words()
    every_listed = {word for side in listed.values() for word in side}
    sides = {}
    for gender, sign in (("female", 1), ("male", -1)):
        others = []
        for token, value in prevalence.items():
            if sign * value >= PREVALENT and token not in every_listed:
                others.append(token)
        others.sort(key=lambda token: -abs(prevalence[token]))
        said = [word for word in listed[gender] if word in prevalence]
        unsaid = [word for word in listed[gender] if word not in prevalence]
        sides[gender] = (said + others + unsaid)[:size]
    return sides


def counted(answer: dict, verbalizer: dict[str, list[str]]) -> dict:
    """The answer with the words of `verbalizer_from_outputs` counted under the name "outputs".

    They are counted among the ten likeliest tokens. In the whole distribution the list's words are
    counted instead, since a token that no model generates has no prevalence: the pairs of which the
    vocabulary holds both, as many female as male. With 32 and 40 an untrained network would lean to
    men.
    """
    sign = dict.fromkeys(verbalizer["female"], 1) | dict.fromkeys(verbalizer["male"], -1)
    genders = []
    for tokens in answer["tokens"]:
        genders.append([sign.get(token, 0) for token in tokens])
    return answer | {
        "genders": answer["genders"] | {"outputs": np.array(genders)},
        "mass": answer["mass"] | {"outputs": answer["mass"]["whole pairs"]},
    }


def token_ids(model, words: list[str], inside: bool = True) -> dict[str, int]:
    """Ids of the words that are one token of the vocabulary; the others are left out.

    inside   as inside a sentence, where a byte-level token has the space before the word
    """
    found = {}
    for word in words:
        with contextlib.suppress(CompanionError):
            found[word] = model.token_id(word, inside)
    return found


def verbalizers(model) -> dict[str, list[list[int]]]:
    """Token ids of female and of male words, by the name of the verbalizer.

    "verbalizer" has each word with its leading space, as inside a sentence. The sensitivity panel
    shows the others beside it: fewer words ("six") and more ("larger"), pairs of which both words
    are tokens ("whole pairs"), tokens without the space ("no space"), and either form ("either").
    """
    usual = words()
    larger = words("larger")
    known = token_ids(model, larger["female"] + larger["male"])
    chosen = {}
    for size in ("verbalizer", "six", "larger"):
        chosen[size] = []
        for side in words(size).values():
            chosen[size].append([known[word] for word in side if word in known])

    pairs = []
    for female, male in zip(usual["female"], usual["male"]):
        if female in known and male in known:
            pairs.append((known[female], known[male]))
    if not pairs:
        raise CompanionError(
            f"The vocabulary of {model.name} holds no pair of the verbalizer whole: "
            "choose a model with a larger vocabulary."
        )
    chosen["whole pairs"] = [[female for female, _ in pairs], [male for _, male in pairs]]

    bare = [list(token_ids(model, side, inside=False).values()) for side in usual.values()]
    chosen["no space"] = bare
    chosen["either"] = [sorted({*a, *b}) for a, b in zip(chosen["verbalizer"], bare)]
    return chosen


def answer(model, encoded: list[dict], progress: str = "") -> dict:
    """What a model says to n prompts: the ten likeliest tokens, and the mass of gendered ones.

    ids, p    [n, 10], the likeliest tokens and their probabilities
    tokens    [n][10], as read
    genders   {verbalizer: [n, 10]}, 1 female, -1 male, 0 neither
    mass      {verbalizer: [n, 2]}, the probability of all female and of all male tokens
    whole     {verbalizer: [2]}, how many female and male words are tokens
    """
    chosen = verbalizers(model)
    columns = []  # female, male of the first verbalizer, then of the second, ...
    for pair in chosen.values():
        for side in pair:
            columns.append(torch.tensor(side, dtype=torch.long, device=model.device))

    def keep(p: torch.Tensor) -> list[tuple]:
        """What is kept of each row of probabilities [rows, vocabulary]."""
        best = p.topk(KEPT)
        mass = torch.stack([p[:, column].sum(1) for column in columns], 1)
        return list(zip(best.values.cpu(), best.indices.cpu(), mass.cpu()))

    batch_tokens = CPU_TOKENS if model.device.type == "cpu" else None
    kept = fill.at_blank(model, encoded, keep, batch_tokens, progress)
    p, ids, mass = map(torch.stack, zip(*kept))
    spelled = {i: model.tokenizer.decode([i]).strip() for i in ids.unique().tolist()}
    genders = {}
    mass_of = {}
    for number, (name, (female, male)) in enumerate(chosen.items()):
        is_female = torch.isin(ids, torch.tensor(female)).int()
        is_male = torch.isin(ids, torch.tensor(male)).int()
        genders[name] = (is_female - is_male).numpy()
        mass_of[name] = mass[:, 2 * number : 2 * number + 2].numpy()
    return {
        "ids": ids.numpy(),
        "p": p.numpy(),
        "tokens": [list(map(spelled.get, row)) for row in ids.tolist()],
        "genders": genders,
        "mass": mass_of,
        "whole": {name: [len(female), len(male)] for name, (female, male) in chosen.items()},
    }


def measure(
    name: str, which: str = "winobias", backgrounds: int = 0, device=None, items: int = 0
) -> dict:
    """The model's family, the prompts of a list (`rows`), and the `answer` to them."""
    model = models.load(name, device=device)
    prompts = rows(which, backgrounds, items)
    answers = answer(model, encoded(model, prompts), name)
    return {"family": model.family, "prompts": prompts, **answers}


def of_table1(answer: dict) -> list[dict]:
    """Of the prompts of an answer to "both", those of Table 1's 58 occupations, in its order, with
    every background that was asked. Claims are judged over them: 40 occupations leave more open.
    """
    by_occupation = {}
    for occupation, _, percent in _occupations("table1", is_try=False):
        by_occupation[occupation] = float(percent), []
    for row in answer["prompts"]:
        if row["occupation"] in by_occupation:
            percent, prompts = by_occupation[row["occupation"]]
            prompts.append(row | {"percent_women": percent})
    return [row for _, prompts in by_occupation.values() for row in prompts]


def part(answer: dict, rows: list[dict]) -> dict:
    """Of an answer of `measure` that to these prompts, in their order."""
    place = {}
    for number, row in enumerate(answer["prompts"]):
        place[row["knowledge"], row["cloze"]] = number
    chosen = [place[row["knowledge"], row["cloze"]] for row in rows]
    return answer | {
        "prompts": rows,
        "ids": answer["ids"][chosen],
        "p": answer["p"][chosen],
        "tokens": [answer["tokens"][number] for number in chosen],
        "genders": {name: values[chosen] for name, values in answer["genders"].items()},
        "mass": {name: values[chosen] for name, values in answer["mass"].items()},
    }


def measure_forms(
    name: str, backgrounds: int = 1, device: str | None = None, items: int = 0
) -> dict[str, dict | None]:
    """As `measure`, under other ways to write prompts (FORMS).

    The paper's own form is None: it is a `part` of what `measure` returns.
    """
    model = models.load(name, device=device)
    prompts = rows("table1", backgrounds, items)
    by_form = {}
    for form, options in FORMS["decoder" if model.is_causal else "encoder"].items():
        if not options:
            by_form[form] = None
            continue
        answers = answer(model, encoded(model, prompts, **options), name)
        by_form[form] = {"family": model.family, "prompts": prompts, **answers}
    return by_form


def facts(name: str, device: str | None = None, items: int = 0) -> dict[str, np.ndarray]:
    """factual.log_odds of 200 pairs, with each of FACTS before the sentences.

    They say whether a counterexample changes the pronoun of a queen or a king.
    """
    model = models.load(name, device=device)
    odds = {}
    for before in FACTS:
        odds[before] = factual.log_odds(model, before, items, file=factual.FILE_200)
    return odds
