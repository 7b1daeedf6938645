"""Three ways to make one model less biased, asked by every measure of the three papers.

A remedy is a name, and a context manager inside which the model has it (`applied`): heads are
masked (Bias A-head), subspaces projected out (Projective methods), a counterexample is put before
the text (Counteracts). LEACE stands beside the projections: what erases a concept with the least
change. A measure is a function of a model, of what it is asked and of the remedy: it returns
{name: arrays}, with one row per item. What is made of these is in companion/remedies.py.

A remedy inside the network acts whatever is asked; a prompt acts where it can precede text:

    cloze           as in Counteracts: "The man worked as a nurse." before "The [MASK] works as a
                    nurse."
    next sentences  PROMPT, two counterexamples in occupations, before sentence A
    inference       PROMPT before the premise; it names two of the occupations asked for, and the
                    pairs stay neutral
    PPPL            PROMPT before each line, which is seen and not scored
    factual gender  PROMPT before each sentence about a queen or a king
    SEAT            does not apply: a word's vector is measured in sentences without words of gender

Heads are chosen on one half of the sentences and SEAT is measured on the other, both ways; no other
measure has a part in the choice. The classifier is the encoder fine-tuned: the heads found in the
encoder are masked in it. A projection's subspaces and LEACE's erasers are fitted on each model by
itself, on what notebooks 08 and 09 fit them on.
"""

import contextlib
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd
from tqdm import tqdm

from lib.bias_a_head import heads, masking
from lib.counteracts import cloze
from lib.engine import hooks, models, nsp, pppl, stats
from lib.projective import leace, nli, projection, triples
from lib.text import data as sources, factual, pairs as sentence_pairs, readers

PROMPT = "The man worked as a nurse. The woman worked as a carpenter."
COUNTER = "target counter syntactic similar"  # the knowledge that Counteracts advises
# In mini, 95 % intervals of a change reach about .1 either way for SEAT (165 words), .06 for
# fairness (28 occupations), .1 for accuracy (66 pairs).
#   sentences    of SEAT, per word
#   contexts     of NLI, per occupation
#   occupations  of NLI: every so many-th one is taken
#   task         of NLI: every so many-th pair is taken
#   lines        of PPPL: the shortest ones
#   draws        of random heads
SIZES = {
    "mini": {"sentences": 1, "contexts": 3, "occupations": 6, "task": 3, "lines": 20, "draws": 5},
    "paper": {"sentences": 2, "contexts": 7, "occupations": 1, "task": 10, "lines": 60, "draws": 5},
}


# ---- remedies
class Role(StrEnum):
    """What a remedy is compared as."""

    NONE = "none"  # the untouched model
    FOUND = "found"  # masks the heads of the highest scores
    CONTROL = "control"  # masks as many heads, drawn at random
    REMEDY = "remedy"  # any other


class Remedy(NamedTuple):
    """What is done to the model, and on which half of the sentences SEAT is measured."""

    name: str
    heads: list[tuple[int, int]] = []  # to mask: (layer, head), from 1
    setting: str = ""  # to project: a name of projection.settings
    erased: str = ""  # where LEACE erases gender: a key of leace.SETTINGS
    prompt: str = ""  # to put before the text
    role: Role = Role.REMEDY
    half: int = 1

    def before(self, text: str) -> str:
        """The text with the remedy's prompt before it."""
        return f"{self.prompt} {text}" if self.prompt else text


def plan(  # noqa: PLR0913, each says what is tried
    result: dict,
    settings: list[str],
    data: str = "mini",
    k: int = 3,
    seed: int = 0,
    erased: Sequence[str] = (),
) -> list[Remedy]:
    """The remedies to compare, none first.

    There is one entry per half of the sentences, or per draw of random heads.

    result     of heads.measure: the k highest heads by either half of its folds are masked (all,
               where there are fewer) and judged on the other half; and as many drawn at random
    settings   names of projections
    erased     where LEACE erases gender: keys of leace.SETTINGS
    """
    by_half = masking.halves(result)
    k = min(k, by_half[0].size)
    remedies = [Remedy("none", role=Role.NONE, half=half) for half in (1, 0)]
    for half in (1, 0):
        highest = heads.top(by_half[1 - half], k)
        remedies.append(Remedy(f"mask Top-{k}", highest, role=Role.FOUND, half=half))
    for draw in range(SIZES[data]["draws"]):
        drawn = heads.random(by_half[0], k, seed=seed + draw)
        half = (draw + 1) % 2
        remedies.append(Remedy(f"mask random {k}", drawn, role=Role.CONTROL, half=half))
    remedies += [Remedy(f"project {name}", setting=name) for name in settings]
    remedies += [Remedy(f"LEACE {level}", erased=level) for level in erased]
    remedies.append(Remedy("counter-prompt", prompt=PROMPT))
    return remedies


@contextlib.contextmanager
def applied(model, masked: list[tuple[int, int]], interventions: dict | None = None):
    """Inside the block the model has these heads masked and these projections (hooks.project)."""
    with contextlib.ExitStack() as stack:
        if masked:
            mask = heads.mask(model, masked).to(model.device)
            stack.enter_context(hooks.head_mask(model, mask))
        if interventions:
            stack.enter_context(hooks.project(model, interventions))
        yield


def interventions(
    model, plan: list[Remedy], to_project: Callable, to_erase: Callable
) -> dict[str, dict]:
    """What each remedy that projects or erases does inside a model, by its name.

    to_project, to_erase   return the pairs of texts that subspaces and erasers are fitted on
    """
    known = {setting.name: setting for setting in projection.settings()}
    found = {}
    if any(remedy.setting for remedy in plan):
        subspaces = projection.fit(model, to_project())
        for remedy in plan:
            if remedy.setting:
                found[remedy.name] = subspaces.interventions(known[remedy.setting])
    if any(remedy.erased for remedy in plan):
        erasers = leace.fit(model, to_erase())
        for remedy in plan:
            if remedy.erased:
                found[remedy.name] = erasers.interventions(leace.SETTINGS[remedy.erased])
    return found


# ---- measures of the encoder
class Texts(NamedTuple):
    """What the encoder is asked under every remedy."""

    sets: heads.Sets
    sentences: list[dict[str, list[str]]]  # of each word of SEAT, by half
    triples: pd.DataFrame
    lines: list[str]
    prompts: dict[str, list[dict]]  # of cloze, by kind of knowledge
    items: int  # other than 0: a try on so many sentences of factual gender


def texts(data: str, n: int, folds: int, seed: int = 0, items: int = 0) -> Texts:
    """n, folds, seed: of the sentences that heads were chosen on, as in heads.measure."""
    sample = heads.Sample(data, n, seed=seed, items=items, attributes=masking.ATTRIBUTES[data])
    sets, found = heads.sets_and_contexts("gender", sample)
    shortest = sorted(_lines(data), key=len)[: SIZES[data]["lines"]]
    prompts = {"base": [], COUNTER: []}
    for row in cloze.rows("winobias", 1, items):
        if row["kind"] in prompts:
            prompts[row["kind"]].append(row)
    return Texts(
        *masking.in_halves(sets, found, folds, SIZES[data]["sentences"]),
        triples=triples.triples(data, items=items),
        lines=stats.first(shortest, items),
        prompts=prompts,
        items=items,
    )


def _lines(data: str) -> list[str]:
    """The lines of which the shortest are scored by PPPL."""
    if data == "mini":
        return sources.demo("prose")
    # Of WikiText, those of fewer than 20 words are headings and scraps of lists.
    return [line for line in readers.wikitext() if len(line.split()) > 19]


def seat(model, asked: Texts, remedy: Remedy) -> dict:
    """The association of each target word, and whether it is of X."""
    if remedy.prompt:
        return {}
    return {"SEAT": heads.associations(model, asked.sets, asked.sentences[remedy.half])}


def next_sentences(model, asked: Texts, remedy: Remedy) -> dict:
    """s and d of each pair of triples."""
    if not model.has_nsp:
        return {}
    pairs = [(remedy.before(first), second) for first, second in triples.pairs(asked.triples)]
    frame = triples.frame(asked.triples, nsp.is_next(model, pairs))
    return {"Strength": (nsp.strengths(frame),), "Distance": (nsp.distances(frame),)}


def cloze_gap(model, asked: Texts, remedy: Remedy) -> dict:
    """The margin of each occupation, and whether women (1) or men (-1) dominate it."""
    prompts = asked.prompts[COUNTER if remedy.prompt else "base"]
    mass = cloze.answer(model, cloze.encoded(model, prompts))["mass"]["verbalizer"]
    margin = (mass[:, 0] - mass[:, 1]) / mass.sum(1)
    dominated = [1 if prompt["dominated"] == "female" else -1 for prompt in prompts]
    return {"cloze gap": (margin, np.array(dominated))}


def perplexity(model, asked: Texts, remedy: Remedy) -> dict:
    """The log-likelihood of each line, and its length."""
    text = pppl.pseudo_perplexity(model, asked.lines, after=remedy.prompt)
    return {"PPPL": (text.log_likelihoods, text.lengths)}


def factual_gender(model, asked: Texts, remedy: Remedy) -> dict:
    """The log odds of the right pronoun, of each pair of sentences about a queen and a king."""
    odds = factual.log_odds(model, remedy.prompt, asked.items, file=factual.FILE_200)
    return {"factual gender": (odds.reshape(-1, 2),)} if len(odds) else {}


OF_ENCODER = (seat, next_sentences, cloze_gap, perplexity, factual_gender)


# ---- measures of the classifier
class Inference(NamedTuple):
    """What the classifier is asked under every remedy."""

    pairs: pd.DataFrame  # of the fairness test: occupations in contexts
    task: pd.DataFrame  # of the task that it was trained on, with their labels


def inference(data: str, items: int = 0) -> Inference:
    """Every so many-th occupation and pair, except in a try, which has few already."""
    every_occupation = 1 if items else SIZES[data]["occupations"]
    every_pair = 1 if items else SIZES[data]["task"]
    pairs = nli.pairs(contexts=SIZES[data]["contexts"], items=items)
    chosen = pairs["occupation"].unique()[::every_occupation]
    task = nli.task_pairs(data, items).iloc[::every_pair]
    return Inference(pairs[pairs["occupation"].isin(chosen)], task)


def fair_and_right(model, asked: Inference, remedy: Remedy) -> dict:
    """Of each occupation the share of neutral answers and of contexts that agree; of each pair of
    the task whether the answer is right.
    """
    both = pd.concat(asked)
    both = both.assign(premise=both["premise"].map(remedy.before))
    p = nli.probabilities(model, both).numpy()
    labels = nli.labels(model)
    n_pairs = len(asked.pairs)
    predicted = nli.predictions(p[n_pairs:], labels)
    return {
        "NLI fairness": nli.fairness(p[:n_pairs], asked.pairs, labels),
        "NLI accuracy": (predicted == asked.task["label"].to_numpy(dtype=str),),
    }


OF_CLASSIFIER = (fair_and_right,)


# ---- all measures under each remedy
def measure(  # noqa: PLR0913, notebook 12 passes these by position
    name: str,
    classifier: str,
    plan: list[Remedy],
    data: str,
    n: int,
    folds: int,
    seed: int = 0,
    device=None,
    items: int = 0,
) -> list[dict]:
    """What each measure returns under each remedy of the plan: {name of the measure: arrays}.

    What does not apply, or has no model, is left out.

    n, folds, seed   of the sentences that the heads were chosen on, as in heads.measure
    items            other than 0, a try on so many
    """
    model = models.load(name, device=device)
    to_erase = partial(leace.many_contexts, data, items)
    within = interventions(model, plan, sentence_pairs.written, to_erase)
    rows = _under_each(model, plan, within, OF_ENCODER, texts(data, n, folds, seed, items))
    if classifier:
        model = models.load(classifier, device=device, task="sequence-classification")
        within = interventions(model, plan, nli.fitting_pairs, nli.fitting_pairs)
        of_pairs = _under_each(model, plan, within, OF_CLASSIFIER, inference(data, items))
        rows = [row | more for row, more in zip(rows, of_pairs)]
    return rows


def _under_each(model, plan: list[Remedy], within: dict, measures, asked) -> list[dict]:
    rows = []
    for remedy in tqdm(plan, desc=model.name, leave=False):
        row = {}
        with applied(model, remedy.heads, within.get(remedy.name)):
            for ask in measures:
                row |= ask(model, asked, remedy)
        rows.append(row)
    return rows
