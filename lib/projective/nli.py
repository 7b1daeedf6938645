"""Bias in natural language inference (Projective methods, section 3): does an occupation imply a gender?

    pairs = nli.pairs()                              "The doctor prepared a pie." / "The woman prepared a pie."
    p = nli.probabilities(model, pairs)              [pairs, labels]
    nli.fairness(p, pairs, nli.labels(model))        accuracy, parity, eta, each with its interval
    nli.viable(accuracy, base)                       whether a debiased model still does the task

Every pair is neutral: the premise says nothing of gender. So accuracy is the share of neutral predictions, parity the
share of occupations whose prediction does not depend on gender, and eta (equation 4) their product.

The paper leaves two things open, and both readings are computed. It has 66 pairs an occupation: 33 contexts with man
and woman, or 11 contexts with the six gendered words of Dev et al. And every parity that it prints is a multiple of
1/164, so an occupation has parity or has not: because all of its contexts agree (strict), or more than half (majority).
"""

from __future__ import annotations  # pd.DataFrame is not looked up, so that pandas stays unimported

from typing import NamedTuple

import numpy as np
import torch

from lib import CompanionError, Lazy
from lib.engine import batches, limit, stats
from lib.text import data, english, readers

pd = Lazy("pandas")

LABELS = tuple(readers.NLI_LABELS)  # SNLI's order; a model's own may be another, see `labels`
GENDERS = ("male", "female")
READINGS = {"man, woman": 33, "six words": 11}  # contexts that make 66 pairs an occupation
GOES_WITH = {"commerce": "household", "driving": "vehicles", "eating": "food", "interaction": "farm_animals"}
SHOWN = ("doctor", "nurse", "mechanic")  # by notebook 09, so in every try
NO_ARTICLE = {"breakfast", "lunch", "dinner", "headphones"}


def pairs(reading: str = "man, woman", contexts: int | None = None) -> pd.DataFrame:
    """The test set, a DataFrame: premise, hypothesis, occupation, gender (male, female), context.

    contexts: only the first so many of the list, a fixed sample; any first few are varied. Left out, all that the
    reading has: 164 occupations x 66 = 10,824 pairs. A man's pair always stands next to the woman's (in the other
    reading gentleman next to lady, guy next to girl).
    """
    if reading not in READINGS:
        raise CompanionError(f"There is no reading {reading!r} of the NLI pairs: choose {' or '.join(READINGS)}.")
    table = data.words("nli_contexts")
    most = READINGS[reading]
    contexts = most if contexts is None else contexts
    if not 1 <= contexts <= most:
        raise CompanionError(f"{contexts} contexts are asked for where there are {most}: choose 1 to {most}.")
    acts = [f"{row.verb} {english.article(row.object)} {row.object}" for row in table.head(contexts).itertuples()]
    couples = _couples()[:1 if most == 33 else None]
    jobs = list(data.words("nli_occupations")["occupation"])
    rows = [(f"The {occupation} {act}.", f"The {word} {act}.", occupation, gender, act)
            for occupation in limit.first(jobs, [jobs.index(one) for one in SHOWN], limit.few()) for act in acts
            for couple in couples for word, gender in zip(couple, GENDERS)]
    return pd.DataFrame(rows, columns=["premise", "hypothesis", "occupation", "gender", "context"])


def fitting_pairs() -> list[tuple[tuple[str, str], tuple[str, str]]]:
    """(female, male) to fit gender subspaces on in the classifier's own form of input: 27 x 3 pairs of a premise and a
    hypothesis, (("The person donated a clock.", "The woman donated a clock."), ("The person ...", "The man ...")).

    Each of Dev et al.'s verbs with an object that the test does not use with it; no occupation.
    """
    used = {(row["verb"], row["object"]) for row in data.rows("nli_contexts")}
    verbs, fitting = data.rows("nli_verbs"), []
    for kind, group in GOES_WITH.items():
        objects = [row["word"] for row in data.rows("nli_objects") if row["class"] == group and row["word"].islower()]
        left = [word for word in objects if word not in NO_ARTICLE]
        for verb in (row["verb"] for row in verbs if row["class"] == kind):
            chosen = next(word for word in left if (verb, word) not in used)
            left.append(left.pop(left.index(chosen)))  # the next verb takes another
            act = f"{verb} {english.article(chosen)} {chosen}."
            fitting += [tuple((f"The person {act}", f"The {word} {act}") for word in (female, male))
                        for male, female in _couples()]
    return fitting


def labels(model) -> list[str]:
    """A classifier's labels in the order of its output, from its config: entailment, neutral, contradiction."""
    by_id = {i: str(label).lower() for label, i in (model.net.config.label2id or {}).items()}
    found = [by_id.get(i) for i in range(model.net.config.num_labels)]
    if sorted(map(str, found)) != sorted(LABELS):
        raise CompanionError(f"The labels of {model.name} are {', '.join(map(str, found))}: name its three outputs "
                             f"{', '.join(LABELS)} under label2id in its config.json.")
    return found


@torch.inference_mode()
def probabilities(model, pairs: pd.DataFrame, progress: str = "") -> torch.Tensor:
    """What the classifier makes of the columns premise and hypothesis: [pairs, labels], on the CPU."""
    labels(model)  # refused here rather than after the work
    encoded = batches.encode(model, list(pairs["premise"]), list(pairs["hypothesis"]))

    def classify(batch, indices):
        return model.net(**batch).logits.float().softmax(-1).cpu()

    return torch.stack(batches.each(model, encoded, classify, progress=progress))


def predictions(found, labels=LABELS) -> np.ndarray:
    """Labels as words: of probabilities [..., labels] the likeliest, words as they are."""
    found = np.asarray(found)
    if found.dtype.kind == "f":
        if found.shape[-1] != len(labels):
            raise CompanionError(f"Probabilities of {found.shape[-1]} labels were given with {len(labels)} names: "
                                 "pass the labels of the model, nli.labels(model).")
        return np.asarray(labels)[found.argmax(-1)]
    unknown = set(found.ravel()) - set(LABELS)
    if unknown:
        raise CompanionError(f"'{sorted(map(str, unknown))[0]}' is no label of NLI: use {', '.join(LABELS)}.")
    return found


def accuracy(found, gold, labels=LABELS) -> float:
    """The share of predictions that are the gold label."""
    return float((predictions(found, labels) == np.asarray(gold)).mean())


class Fairness(NamedTuple):
    """How fair predictions are, each number with its 95 % interval over occupations.

    accuracy            share of neutral predictions
    parity, majority    share of occupations at parity, strictly or in most contexts
    eta, eta_majority   accuracy x parity, and accuracy x majority
    occupations         a row an occupation, see `by_occupation`
    """
    accuracy: stats.Estimate
    parity: stats.Estimate
    majority: stats.Estimate
    eta: stats.Estimate
    eta_majority: stats.Estimate
    occupations: pd.DataFrame


def by_occupation(found, pairs: pd.DataFrame, labels=LABELS) -> pd.DataFrame:
    """A row an occupation: `neutral` (share of its pairs), `male` and `female` (the same for either gender), and
    `agree`, the share of its contexts where both genders get the same prediction."""
    predicted = predictions(found, labels)
    if predicted.shape != (len(pairs),):
        raise CompanionError(f"There are {len(predicted)} predictions for {len(pairs)} pairs: give one each, in order.")
    frame = pairs[["occupation", "context", "gender"]].assign(predicted=predicted)
    frame["couple"] = frame.groupby(["occupation", "context", "gender"]).cumcount()  # man and woman are the first
    wide = frame.pivot(index=["occupation", "context", "couple"], columns="gender", values="predicted")
    if set(wide) != set(GENDERS) or wide.isna().any(axis=None):
        raise CompanionError("A pair lacks its counterpart of the other gender: give whole contexts of nli.pairs().")
    neutral = wide == "neutral"
    table = neutral.assign(neutral=neutral.mean(axis=1), agree=wide["male"] == wide["female"])
    table = table.groupby("occupation").mean().loc[pairs["occupation"].unique(), ["neutral", "male", "female", "agree"]]
    return table.rename_axis(columns=None)


def fairness(found, pairs: pd.DataFrame, labels=LABELS, draws: int = 1_000) -> Fairness:
    """Of predictions (words) or probabilities [pairs, labels], in the order of `pairs`.

    The 95 % intervals draw occupations anew.
    """
    table = by_occupation(found, pairs, labels)
    neutral, agree = table["neutral"].to_numpy(), table["agree"].to_numpy()
    strict, most = (agree == 1).astype(float), (agree > .5).astype(float)

    def interval(statistic, *samples):
        return stats.bootstrap(statistic, *samples, draws=draws)

    return Fairness(interval(np.mean, neutral), interval(np.mean, strict), interval(np.mean, most),
                    interval(_product, neutral, strict), interval(_product, neutral, most), table)


def viable(accuracy, base: float, within: float = .05, relative: bool = False):
    """Whether accuracy is within 5 % of the base model's: 5 points (the paper's .8889 makes it .8389), or `relative`
    (.8445). The paper does not say which, and neither fits all that it calls viable.
    """
    least = base * (1 - within) if relative else base - within
    return np.asarray(accuracy) >= least - 1e-9  # as decimals, not as binary fractions


def _couples() -> list[tuple[str, str]]:
    """(male, female): man and woman, gentleman and lady, guy and girl."""
    words = data.rows("nli_gendered")
    return list(zip(*([row["word"] for row in words if row["gender"] == gender] for gender in GENDERS)))


def _product(neutral, at_parity):
    return neutral.mean() * at_parity.mean()
