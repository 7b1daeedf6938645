"""Bias in natural language inference (Projective methods, section 3): does an occupation imply a gender?

    pairs = nli.pairs()                              "The doctor prepared a pie." / "The woman prepared a pie."
    p = nli.probabilities(model, pairs)              [pairs, labels]
    nli.fairness(p, pairs, nli.labels(model))        what accuracy, parity and eta are means of, by occupation

Every pair is neutral: the premise says nothing of gender. So accuracy is the share of neutral predictions, parity the
share of occupations whose prediction does not depend on gender, and eta (equation 4) their product.

The paper leaves two things open, and both variants are computed. It has 66 pairs per occupation: 33 contexts with man
and woman, or 11 contexts with the six gendered words of Dev et al. And every parity that it prints is a multiple of
1/164, so an occupation has parity or has not: because all of its contexts agree (strict), or more than half (majority).

The subspaces are fitted on the fine-tuned model (the paper does not say on which), and in two ways, since it does not
say on what either: on single sentences, as notebook 08 does, or on premises with hypotheses, as a classifier reads."""

import numpy as np
import pandas as pd
import torch

from lib import CompanionError
from lib.engine import batches, models, stats
from lib.projective import projection
from lib.text import data as sources, english, pairs as sentence_pairs, readers

LABELS = tuple(readers.NLI_LABELS)  # SNLI's order; a model's own may be another, see `labels`
GENDERS = ("male", "female")
READINGS = {"man, woman": 33, "six words": 11}  # contexts that make 66 pairs per occupation
GOES_WITH = {
    "commerce": "household",
    "driving": "vehicles",
    "eating": "food",
    "interaction": "farm_animals",
}
SHOWN = ("doctor", "nurse", "mechanic")  # by notebook 09, so in every try
NO_ARTICLE = {"breakfast", "lunch", "dinner", "headphones"}
PAIRS, SINGLE = "premise and hypothesis", "single sentences"  # what the subspaces are fitted on


# ---- the test set
def pairs(variant: str = "man, woman", contexts: int | None = None, items: int = 0) -> pd.DataFrame:
    """The test set, a DataFrame: premise, hypothesis, occupation, gender (male, female), context. contexts: only the
    first so many of the list, a fixed sample; any first few are varied. Left out, all that the variant has: 164
    occupations x 66 = 10,824 pairs. A man's pair always stands next to the woman's (in the other variant gentleman next
    to lady, guy next to girl). items: a quarter as many occupations (0: all)."""
    if variant not in READINGS:
        raise CompanionError(
            f"There is no variant {variant!r} of the NLI pairs: choose {' or '.join(READINGS)}."
        )
    most, few = READINGS[variant], max(2, items // 4) if items else 0
    contexts = most if contexts is None else contexts
    if not 1 <= contexts <= most:
        raise CompanionError(
            f"{contexts} contexts are asked for where there are {most}: choose 1 to {most}."
        )
    acts = [
        f"{row['verb']} {english.article(row['object'])} {row['object']}"
        for row in sources.rows("nli_contexts")[:contexts]
    ]
    couples = _couples()[: 1 if most == 33 else None]
    jobs = [row["occupation"] for row in sources.rows("nli_occupations")]
    rows = [
        (f"The {job} {act}.", f"The {word} {act}.", job, gender, act)
        for job in stats.first(jobs, few, [jobs.index(shown) for shown in SHOWN])
        for act in acts
        for couple in couples
        for word, gender in zip(couple, GENDERS)
    ]
    return pd.DataFrame(rows, columns=["premise", "hypothesis", "occupation", "gender", "context"])


def fitting_pairs() -> list[tuple[tuple[str, str], tuple[str, str]]]:
    """(female, male) to fit gender subspaces on in the classifier's own form of input: 27 x 3 pairs of a premise and a
    hypothesis, (("The person donated a clock.", "The woman donated a clock."), ("The person ...", "The man ...")). Each
    of Dev et al.'s verbs with an object that the test does not use with it; no occupation."""
    used = {(row["verb"], row["object"]) for row in sources.rows("nli_contexts")}
    verbs, fitting = sources.rows("nli_verbs"), []
    for kind, group in GOES_WITH.items():
        objects = [row["word"] for row in sources.rows("nli_objects") if row["class"] == group]
        left = [word for word in objects if word.islower() and word not in NO_ARTICLE]
        for verb in (row["verb"] for row in verbs if row["class"] == kind):
            chosen = next(word for word in left if (verb, word) not in used)
            left.append(left.pop(left.index(chosen)))  # the next verb takes another
            act = f"{verb} {english.article(chosen)} {chosen}."
            fitting += [
                tuple((f"The person {act}", f"The {word} {act}") for word in (female, male))
                for male, female in _couples()
            ]
    return fitting


def _couples() -> list[tuple[str, str]]:
    """(male, female): man and woman, gentleman and lady, guy and girl."""
    words = sources.rows("nli_gendered")
    return list(
        zip(*([row["word"] for row in words if row["gender"] == gender] for gender in GENDERS))
    )


def task_pairs(data: str, items: int = 0) -> pd.DataFrame:
    """Premise, hypothesis, label of the task itself: 9,824 of SNLI's test set, or 198 of data/demo."""
    return stats.first(readers.snli("test") if data == "paper" else sources.demo("nli"), items)


# ---- a classifier
def required(name: str) -> str:
    """The name of a run's classifier, where it has one."""
    if not name:
        raise CompanionError(
            "This encoder has no classifier for natural language inference: make it by python -m "
            "lib.projective.classifier make, then name its folder with --model."
        )
    return name


def labels(model) -> list[str]:
    """A classifier's labels in the order of its output, from its config: entailment, neutral, contradiction."""
    by_id = {i: str(label).lower() for label, i in (model.net.config.label2id or {}).items()}
    names = [by_id.get(i) for i in range(model.net.config.num_labels)]
    if sorted(map(str, names)) != sorted(LABELS):
        raise CompanionError(
            f"The labels of {model.name} are {', '.join(map(str, names))}: name its three outputs "
            f"{', '.join(LABELS)} under label2id in its config.json."
        )
    return names


@torch.inference_mode()
def probabilities(model, pairs: pd.DataFrame, progress: str = "") -> torch.Tensor:
    """What the classifier makes of the columns premise and hypothesis: [pairs, labels], on the CPU."""
    labels(model)  # refused here rather than after the work
    encoded = batches.encode(model, list(pairs["premise"]), list(pairs["hypothesis"]))
    classify = lambda batch, _: model.net(**batch).logits.float().softmax(-1).cpu()
    return torch.stack(batches.each(model, encoded, classify, progress=progress))


def predictions(answers, labels=LABELS) -> np.ndarray:
    """The likeliest labels as words, of probabilities [..., labels]."""
    answers = np.asarray(answers)
    if answers.shape[-1] != len(labels):
        raise CompanionError(
            f"Probabilities of {answers.shape[-1]} labels were given with {len(labels)} names: pass "
            "the labels of the model, nli.labels(model)."
        )
    return np.asarray(labels)[answers.argmax(-1)]


# ---- fairness and viability
def fairness(answers, pairs: pd.DataFrame, labels=LABELS) -> tuple[np.ndarray, np.ndarray]:
    """Of probabilities [..., pairs, labels], those of whole occupations in the order of `pairs`, [..., occupations]:
    `neutral`, the share of its pairs called so, and `agree`, of its contexts where both genders are answered alike."""
    said, occupations = predictions(answers, labels), pairs["occupation"].nunique()
    said = said.reshape(
        *said.shape[:-1], occupations, len(pairs) // occupations // 2, 2
    )  # man's next to woman's
    return (said == "neutral").mean((-2, -1)), (said[..., 0] == said[..., 1]).mean(-1)


def viable(accuracy, base: float, within: float = 0.05, relative: bool = False):
    """Whether accuracy is within 5 % of the base model's: 5 points (the paper's .8889 makes it .8389), or `relative`
    (.8445). The paper does not say which, and neither fits all that it calls viable."""
    least = base * (1 - within) if relative else base - within
    return np.asarray(accuracy) >= least - 1e-9  # as decimals, not as binary fractions


# ---- the 76 models
def measure(
    name: str,
    data: str = "mini",
    contexts: int = 9,
    draws: int = 0,
    variant: str = "man, woman",
    task: bool = True,
    device=None,
    items: int = 0,
) -> dict:
    """The predictions of all models in one sweep, for `run.cached`; without `task` on the generated pairs alone, under
    PAIRS alone. fits, PAIRS and SINGLE; labels, of the classifier's outputs; probabilities [fits, 76, generated pairs,
    labels]; right [fits, 76, pairs of the task]; random, of `draws` random choices of directions with PAIRS' weights:
    neutral and agree [draws, 76, occupations] as of `by_model`, and the accuracy at the task [draws, 76]"""
    model = models.load(required(name), device=device, task="sequence-classification")
    names, made = labels(model), pairs(variant, contexts, items)
    gold = task_pairs(data, items) if task else made.head(0).assign(label="")
    texts = pd.concat([made, gold])
    encoded = batches.encode(model, list(texts["premise"]), list(texts["hypothesis"]))
    chosen = {PAIRS: fitting_pairs()} | ({SINGLE: sentence_pairs.written()} if task else {})
    natural = sentence_pairs.natural(data, items=items)
    fits = [projection.fit(model, fitted_on, natural=natural) for fitted_on in chosen.values()]
    fits += [projection.random(fits[0], seed) for seed in range(draws)]
    logits = projection.sweeps(
        model,
        fits,
        projection.models(),
        encoded,
        projection.head(model),
        progress=f"76 models, {len(texts):,} pairs",
    )
    p = logits.softmax(-1).numpy()
    right = predictions(p[:, :, len(made) :], names) == gold["label"].to_numpy(dtype=str)
    about = {"labels": names, "variant": variant, "contexts": contexts, "items": items}
    n = len(chosen)
    accuracy = right[n:].mean(-1) if task else np.full(right[n:].shape[:-1], np.nan)
    neutral, agree = by_model(about | {"probabilities": p[n:, :, : len(made)]})
    return about | {
        "fits": list(chosen),
        "probabilities": np.ascontiguousarray(p[:n, :, : len(made)]),
        "right": right[:n],
        "random": {"neutral": neutral, "agree": agree, "right": accuracy},
    }


def by_model(measured: dict) -> tuple[np.ndarray, np.ndarray]:
    """`fairness` of every model at once: [..., occupations] each."""
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


def halves(n: int, rng) -> tuple[np.ndarray, np.ndarray]:
    """The numbers below n, in two halves drawn at random."""
    return tuple(np.split(rng.permutation(n), [n // 2]))
