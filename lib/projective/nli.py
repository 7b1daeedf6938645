"""Bias in natural language inference: does an occupation imply a gender?

Projective methods, section 3.

    pairs = nli.pairs()                          "The doctor prepared a pie." / "The woman ..."
    p = nli.probabilities(model, pairs)          [pairs, labels]
    nli.fairness(p, pairs, nli.labels(model))    what accuracy, parity and eta are means of

Every pair is neutral: the premise says nothing of gender. So accuracy is the share of neutral
predictions, parity the share of occupations whose prediction does not depend on gender, and eta
(equation 4) their product.

The paper leaves two things open, and both variants are computed. It has 66 pairs per occupation: 33
contexts with man and woman, or 11 contexts with the six gendered words of Dev et al. And every
parity that it prints is a multiple of 1/164, so an occupation has parity or has not: because all of
its contexts agree (strict), or more than half of them (majority).

The subspaces are fitted on the fine-tuned model (the paper does not say on which), and in two ways,
since it does not say on what either: on single sentences, as notebook 08 does, or on premises with
hypotheses, as a classifier reads them.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch

from lib import CompanionError
from lib.engine import batches, models, stats
from lib.projective import projection
from lib.text import data as sources, english, pairs as sentence_pairs, readers

LABELS = tuple(readers.NLI_LABELS)  # SNLI's order; a model's own may be another, see `labels`
# The ways to make 66 pairs per occupation, and how many contexts each takes.
MAN_WOMAN = "man, woman"
SIX_WORDS = "six words"
VARIANTS = {MAN_WOMAN: 33, SIX_WORDS: 11}
# Which class of objects goes with which class of verbs, in Dev et al.'s lists.
GOES_WITH = {
    "commerce": "household",
    "driving": "vehicles",
    "eating": "food",
    "interaction": "farm_animals",
}
SHOWN = ("doctor", "nurse", "mechanic")  # in notebook 09, so in every try
NO_ARTICLE = {"breakfast", "lunch", "dinner", "headphones"}
# What the subspaces are fitted on.
PAIRS = "premise and hypothesis"
SINGLE = "single sentences"


# ---- the test set
def pairs(variant: str = MAN_WOMAN, contexts: int | None = None, items: int = 0) -> pd.DataFrame:
    """The test set: premise, hypothesis, occupation, gender (male, female), context.

    A man's pair always stands next to the woman's: gentleman next to lady, guy next to girl.
    variant    one of VARIANTS
    contexts   take only the first so many of the list, a fixed sample; any first few are varied.
               Left out, all that the variant has: 164 occupations x 66 = 10,824 pairs
    items      for a try: a quarter of so many occupations; 0: all
    """
    if variant not in VARIANTS:
        raise CompanionError(
            f"There is no variant {variant!r} of the NLI pairs: choose {' or '.join(VARIANTS)}."
        )
    most = VARIANTS[variant]
    contexts = most if contexts is None else contexts
    if not 1 <= contexts <= most:
        raise CompanionError(
            f"{contexts} contexts are asked for where there are {most}: choose 1 to {most}."
        )
    acts = [_act(row["verb"], row["object"]) for row in sources.rows("nli_contexts")[:contexts]]
    couples = _couples()
    if variant == MAN_WOMAN:
        couples = couples[:1]
    rows = []
    for job in _occupations(items):
        for act in acts:
            for male, female in couples:
                rows.append((f"The {job} {act}.", f"The {male} {act}.", job, "male", act))
                rows.append((f"The {job} {act}.", f"The {female} {act}.", job, "female", act))
    return pd.DataFrame(rows, columns=["premise", "hypothesis", "occupation", "gender", "context"])


def _act(verb: str, thing: str) -> str:
    """A verb with its object and the article: prepared a pie."""
    return f"{verb} {english.article(thing)} {thing}"


def _occupations(items: int) -> list[str]:
    """All occupations, or a quarter of so many, those that notebook 09 shows among them."""
    jobs = [row["occupation"] for row in sources.rows("nli_occupations")]
    few = max(2, items // 4) if items else 0
    return stats.first(jobs, few, [jobs.index(shown) for shown in SHOWN])


def _couples() -> list[tuple[str, str]]:
    """(male, female): man and woman, gentleman and lady, guy and girl."""
    words = sources.rows("nli_gendered")
    male = [row["word"] for row in words if row["gender"] == "male"]
    female = [row["word"] for row in words if row["gender"] == "female"]
    return list(zip(male, female))


def fitting_pairs() -> list[tuple[tuple[str, str], tuple[str, str]]]:
    """(female, male) inputs in the classifier's own form, to fit gender subspaces on.

    27 x 3 of (("The person donated a clock.", "The woman donated a clock."), ("The person ...",
    "The man ...")). Each of Dev et al.'s verbs has an object that the test does not use with it; no
    occupation occurs.
    """
    fitting = []
    for verb, thing in _unused_acts():
        act = f"{_act(verb, thing)}."
        premise = f"The person {act}"
        for male, female in _couples():
            fitting.append(((premise, f"The {female} {act}"), (premise, f"The {male} {act}")))
    return fitting


def _unused_acts() -> list[tuple[str, str]]:
    """Each verb with the first object of its class that the test does not use with it."""
    used = {(row["verb"], row["object"]) for row in sources.rows("nli_contexts")}
    acts = []
    for verb_class, object_class in GOES_WITH.items():
        left = _objects(object_class)
        for row in sources.rows("nli_verbs"):
            if row["class"] != verb_class:
                continue
            chosen = next(word for word in left if (row["verb"], word) not in used)
            left.remove(chosen)  # to the end, so that the next verb takes another
            left.append(chosen)
            acts.append((row["verb"], chosen))
    return acts


def _objects(object_class: str) -> list[str]:
    """The objects of a class that can follow "a" or "an"."""
    words = [row["word"] for row in sources.rows("nli_objects") if row["class"] == object_class]
    return [word for word in words if word.islower() and word not in NO_ARTICLE]


def task_pairs(data: str, items: int = 0) -> pd.DataFrame:
    """Premise, hypothesis, label of the task: 9,824 of SNLI's test set, or 198 of data/demo."""
    rows = readers.snli("test") if data == "paper" else sources.demo("nli")
    return stats.first(rows, items)


# ---- a classifier
def required(name: str) -> str:
    """The name of a run's classifier, where it has one."""
    if not name:
        raise CompanionError(
            "This encoder has no classifier for natural language inference: make it by python -m "
            "training nli make, then name its folder with --model."
        )
    return name


def labels(model) -> list[str]:
    """A classifier's labels in the order of its outputs: entailment, neutral, contradiction."""
    config = model.net.config
    by_id = {i: str(label).lower() for label, i in (config.label2id or {}).items()}
    names = [by_id.get(i) for i in range(config.num_labels)]
    if sorted(map(str, names)) != sorted(LABELS):
        raise CompanionError(
            f"The labels of {model.name} are {', '.join(map(str, names))}: name its three outputs "
            f"{', '.join(LABELS)} under label2id in its config.json."
        )
    return names


@torch.inference_mode()
def probabilities(model, pairs: pd.DataFrame, progress: str = "") -> torch.Tensor:
    """The classifier's answers to columns premise and hypothesis: [pairs, labels], on the CPU."""
    labels(model)  # refused here rather than after the work
    encoded = batches.encode(model, list(pairs["premise"]), list(pairs["hypothesis"]))

    def classify(batch, indices):
        return model.net(**batch).logits.float().softmax(-1).cpu()

    return torch.stack(batches.each(model, encoded, classify, progress=progress))


def predictions(answers, labels=LABELS) -> np.ndarray:
    """The likeliest labels as words, of probabilities [..., labels]."""
    answers = np.asarray(answers)
    if answers.shape[-1] != len(labels):
        raise CompanionError(
            f"Probabilities of {answers.shape[-1]} labels were given with {len(labels)} names: "
            "pass the labels of the model, nli.labels(model)."
        )
    return np.asarray(labels)[answers.argmax(-1)]


# ---- fairness and viability
def fairness(answers, pairs: pd.DataFrame, labels=LABELS) -> tuple[np.ndarray, np.ndarray]:
    """What accuracy and parity are means of: two arrays [..., occupations], ordered as in `pairs`.

    The first is the share of an occupation's pairs that are called neutral, the second the share of
    its contexts in which man and woman get the same answer.
    answers   probabilities [..., pairs, labels], all pairs of an occupation next to each other
    """
    words = predictions(answers, labels)
    occupations = pairs["occupation"].nunique()
    contexts = len(pairs) // occupations // 2
    # A man's pair stands next to the woman's, so the last axis has length 2.
    words = words.reshape(*words.shape[:-1], occupations, contexts, 2)
    neutral = (words == "neutral").mean((-2, -1))
    agree = (words[..., 0] == words[..., 1]).mean(-1)
    return neutral, agree


def viable(accuracy, base: float, within: float = 0.05, relative: bool = False):
    """Whether an accuracy is within 5 % of the base model's.

    That is 5 points (the paper's .8889 makes it .8389), or 5 % of it where `relative` (.8445). The
    paper does not say which, and neither gives all the models that it calls viable.
    """
    least = base * (1 - within) if relative else base - within
    return np.asarray(accuracy) >= least - 1e-9  # as decimals, not as binary fractions


# ---- the 76 models
@dataclass(frozen=True)
class PairSet:
    """Which pairs `measure` generates: the arguments of `pairs`."""

    contexts: int = 9
    variant: str = MAN_WOMAN


def measure(
    name: str,
    data: str = "mini",
    pair_set: PairSet | None = None,
    draws: int = 0,
    task: bool = True,
    device=None,
    items: int = 0,
) -> dict:
    """The predictions of all 76 models in one sweep, for `run.measured`.

    fits            PAIRS and SINGLE; PAIRS alone without `task`
    labels          of the classifier's outputs
    probabilities   [fits, 76, generated pairs, labels]
    right           [fits, 76, pairs of the task]; without `task` none
    random          under `draws` random choices of directions, which have the weights of PAIRS:
                    neutral and agree [draws, 76, occupations] as `by_model` has them
    """
    model = models.load(required(name), device=device, task="sequence-classification")
    labels(model)  # refused here rather than after the work
    fitted = _fitted(model, data, task, items)
    drawn = [projection.random(fitted[PAIRS], seed) for seed in range(draws)]
    pair_set = pair_set or PairSet()
    gold = task_pairs(data, items) if task else None
    return swept(model, fitted, drawn, projection.models(), pair_set, gold, items)


def swept(
    model,
    fitted: dict[str, projection.Subspaces],
    drawn: list[projection.Subspaces],
    settings: list[projection.Setting],
    pair_set: PairSet,
    gold: pd.DataFrame | None = None,
    items: int = 0,
) -> dict:
    """A classifier's predictions under some settings, by fit and by random choice.

    The form is that of `measure`, with these settings in place of the 76.
    gold   pairs of the task with their labels; None where the task is left out
    """
    about = {
        "labels": labels(model),
        "variant": pair_set.variant,
        "contexts": pair_set.contexts,
        "items": items,
    }
    generated = asked(about)
    gold = generated.head(0).assign(label="") if gold is None else gold
    texts = pd.concat([generated, gold])
    encoded = batches.encode(model, list(texts["premise"]), list(texts["hypothesis"]))
    every = [*fitted.values(), *drawn]
    progress = f"{len(settings)} models, {len(texts):,} pairs"
    logits = projection.sweeps(model, every, settings, encoded, projection.head(model), progress)
    p = logits.softmax(-1).numpy()
    of_generated, of_task = np.split(p, [len(generated)], axis=2)
    right = predictions(of_task, about["labels"]) == gold["label"].to_numpy(dtype=str)
    n = len(fitted)
    neutral, agree = by_model(about | {"probabilities": of_generated[n:]})
    return about | {
        "fits": list(fitted),
        "probabilities": np.ascontiguousarray(of_generated[:n]),
        "right": right[:n],
        "random": {"neutral": neutral, "agree": agree},
    }


def _fitted(model, data: str, task: bool, items: int) -> dict[str, projection.Subspaces]:
    """The classifier's gender subspaces, by what they are fitted on."""
    natural = sentence_pairs.natural(data, items=items)
    fitted = {PAIRS: projection.fit(model, fitting_pairs(), natural=natural)}
    if task:
        fitted[SINGLE] = projection.fit(model, sentence_pairs.written(), natural=natural)
    return fitted


def by_model(measured: dict) -> tuple[np.ndarray, np.ndarray]:
    """`fairness` of every model at once: two arrays [..., occupations]."""
    return fairness(measured["probabilities"], asked(measured), measured["labels"])


def under(measured: dict, fit: str) -> dict:
    """What `measure` returned under one fit: the form that tables.py takes."""
    at = measured["fits"].index(fit)
    return measured | {
        "fit": fit,
        "probabilities": measured["probabilities"][at],
        "right": measured["right"][at],
    }


def asked(measured: dict) -> pd.DataFrame:
    """The generated pairs that `measure` was asked for, in the order of its probabilities."""
    return pairs(measured["variant"], measured["contexts"], measured["items"])
