"""The log probability bias score (LPBS) of Kurita et al. 2019, as in Bias A-head's Table 3.

"[MASK] likes algebra.": how much likelier is the blank male than female, in logs? From that the
prior is subtracted, the same number with the target masked too, "[MASK] likes [MASK].". A test
compares two lists of target words.

There are two variants of the prior. "corrected" reads it at the blank of the subject, as Kurita et
al. describe it. "published" is their notebook, which misses the last mask by one: it reads the verb
or "in" before the target, which is no subject.

The notebook drops target words that are not in BERT's vocabulary, and all 40 are in it. Here every
model gets all 40, and the prior masks as many pieces as the word has, so that the two sentences
differ by the word alone.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd
import torch

from lib import CompanionError
from lib.bias_a_head import heads, masking
from lib.engine import batches, embed, fill, hooks, models, stats
from lib.text import data

# subject and target; words that make the subject male; female
TEMPLATES = [
    ("{subject} likes {target}.", ["he"], ["she"]),
    ("{subject} like {target}.", ["boys", "men"], ["girls", "women"]),
    ("{subject} is interested in {target}.", ["he"], ["she"]),
]
# the first list against the second: positive where the first is closer to men
TESTS = {
    "career / family": ("career", "family"),
    "math / arts": ("math", "arts"),
    "science / arts": ("science", "arts"),
}
PRIORS = ("corrected", "published")


# ---- scores of words
class Question(NamedTuple):
    """One target word in one template, encoded."""

    seen: dict  # the subject is masked
    hidden: dict  # the target's pieces are masked too
    subject: int  # the place of the subject's mask
    target: int  # the place of the target's first piece


@torch.inference_mode()
def score(model, target: str | list[str], progress: str = "") -> pd.DataFrame:
    """log p(male) - log p(female) of the subject, for each target word in each template.

    The probabilities of a gender's words are summed before the log. Columns: target, template,
    bias; and the bias minus either prior: corrected, published.
    """
    targets = [target] if isinstance(target, str) else list(target)
    if not targets:
        raise CompanionError("There is no target word: give at least one.")
    asked = [(word, sentence) for sentence, _, _ in TEMPLATES for word in targets]
    questions = [_masked(model, sentence, word) for word, sentence in asked]
    genders = []
    for _, male, female in TEMPLATES:
        genders += [(_ids(model, male), _ids(model, female))] * len(targets)

    # The bias is read at the subject. The priors are read with the target hidden: at the subject
    # ("corrected"), and at the place before the target ("published").
    texts = [question.seen for question in questions]
    places = [[question.subject] for question in questions]
    for question in questions:
        texts.append(question.hidden)
        places.append([question.subject, question.target - 1])
    odds = _log_odds(model, texts, places, genders * 2, progress)
    bias = np.array(odds[: len(asked)])[:, 0]
    priors = np.array(odds[len(asked) :])

    table = pd.DataFrame(asked, columns=["target", "template"])
    table["bias"] = bias
    for i, prior in enumerate(PRIORS):
        table[prior] = bias - priors[:, i]
    return table


def _masked(model, sentence: str, word: str) -> Question:
    """A template with its subject masked, and with all pieces of the target masked too."""
    start = sentence.format(subject=model.mask_token, target="\0").index("\0")
    text = sentence.format(subject=model.mask_token, target=word)
    (pieces,) = embed.tokens_of(model, [text], [(start, start + len(word))])
    mask_id = model.tokenizer.mask_token_id
    seen = dict(model.tokenizer(text))
    hidden_ids = list(seen["input_ids"])
    hidden_ids[pieces.start : pieces.stop] = [mask_id] * len(pieces)
    return Question(
        seen=seen,
        hidden=seen | {"input_ids": hidden_ids},
        subject=seen["input_ids"].index(mask_id),
        target=pieces.start,
    )


def _ids(model, words: list[str]) -> list[int]:
    """The words as spelled at a sentence's start: capitalised where the vocabulary has capitals."""
    capital, small = model.tokenizer(["He", "he"], add_special_tokens=False).input_ids
    if capital != small:
        words = [word.capitalize() for word in words]
    return [model.token_id(word, inside=False) for word in words]


def _log_odds(
    model, texts: list[dict], places: list[list[int]], genders: list[tuple], progress: str
) -> list[list[float]]:
    """log p(male) - log p(female) at the places of each text; genders: (male, female) token ids."""

    def of_batch(batch, indices):
        rows = []
        columns = []
        for row, i in enumerate(indices):
            for place in places[i]:
                rows.append(row)
                columns.append(place)
        logits = fill.logits_at(model, batch, torch.tensor(rows), torch.tensor(columns))
        log_p = logits.float().log_softmax(-1).cpu()
        odds = [[] for _ in indices]
        for row, at_place in zip(rows, log_p):
            male, female = genders[indices[row]]
            difference = at_place[male].logsumexp(0) - at_place[female].logsumexp(0)
            odds[row].append(difference.item())
        return odds

    return batches.each(model, texts, of_batch, progress=progress)


# ---- effect sizes of tests
def words_of(half: int | None = None) -> dict[str, np.ndarray]:
    """{list: where its words stand among all}; every second word of a list is in one half."""
    places = data.words("lpbs_lists").groupby("list").indices
    if half is None:
        return dict(places)
    return {name: of_list[half::2] for name, of_list in places.items()}


def sizes(scores: pd.DataFrame, draws: int) -> pd.DataFrame:
    """Every test under both variants of the prior: columns test, corrected, low, high, published.

    The effect size is (mean score of the test's first list - of its second) / standard deviation of
    both together, ddof 1. low, high: a 95 % bootstrap interval of the corrected one over target
    words; a word's templates are kept together. scores: of all words, as `score` returns them.
    """
    corrected = _effect_sizes(_by_word(scores), _resampled(words_of(), draws))
    low, high = np.quantile(corrected[1:], [0.025, 0.975], axis=0)
    return pd.DataFrame(
        {
            "test": list(TESTS),
            "corrected": corrected[0],
            "low": low,
            "high": high,
            "published": _effect_sizes(_by_word(scores, "published"), words_of()),
        }
    )


def _by_word(scores: pd.DataFrame, prior: str = "corrected") -> np.ndarray:
    """Scores as [words, templates], the words in the order of the lists."""
    by_template = scores[prior].to_numpy().reshape(len(TEMPLATES), -1)
    return by_template.T


def _resampled(words: dict[str, np.ndarray], draws: int) -> dict[str, np.ndarray]:
    """[1 + draws, words] of each list: the words as they are, then drawn with replacement."""
    rng = np.random.default_rng(0)
    result = {}
    for name, places in words.items():
        indices = stats.bootstrap_indices(len(places), draws, rng)
        result[name] = np.vstack([places, places[indices]])
    return result


def _effect_sizes(values: np.ndarray, words: dict[str, np.ndarray]) -> np.ndarray:
    """LPBS of each test, [..., tests], from scores [..., words, templates] of the lists' words."""
    found = []
    for first_list, second_list in TESTS.values():
        first = values[..., words[first_list], :]
        second = values[..., words[second_list], :]
        spread = np.concatenate([first, second], axis=-2).std(axis=(-2, -1), ddof=1)
        found.append((first.mean((-2, -1)) - second.mean((-2, -1))) / spread)
    return np.stack(found, axis=-1)


def _mean_size(values: np.ndarray, words: dict[str, np.ndarray]) -> np.ndarray:
    """The mean of |LPBS| over the tests."""
    return np.abs(_effect_sizes(values, words)).mean(-1)


# ---- Table 3
def top_k(
    name: str,
    ranked: list[tuple[int, int]],
    step: int = 5,
    draws: int = 5,
    seed: int = 0,
    device: str | None = None,
) -> tuple[pd.DataFrame, dict]:
    """Table 3: effect sizes with the first 0, step, 2 step, ... and all of the ranked heads masked.

    Returns that table, with a column k; and what masking does at the best K, judged on words that
    did not choose it (`held_out`), with the key best. By name, for Run.measured.
    """
    model = models.load(name, device=device)
    words = data.words("lpbs_lists")["word"]

    def score_without(masked):
        with hooks.head_mask(model, heads.mask(model, masked)):
            return score(model, words)

    table = []
    values = {}
    for k in [*range(0, len(ranked), step), len(ranked)]:
        scores = score_without(ranked[:k])
        values[k] = _by_word(scores)
        table.append(sizes(scores, draws=500).assign(k=k))
    best = [_best_k(values, words_of(half)) for half in (0, 1)]
    every_head = torch.zeros(model.n_layers, model.n_heads)
    drawn = {}
    for k in set(best):
        of_draws = []
        for draw in range(draws):
            scores = score_without(heads.random(every_head, k, seed=seed + draw))
            of_draws.append(_by_word(scores))
        drawn[k] = np.stack(of_draws)
    return pd.concat(table, ignore_index=True), held_out(values, best, drawn) | {"best": best}


def _best_k(values: dict[int, np.ndarray], words: dict[str, np.ndarray]) -> int:
    """The K with the lowest mean |LPBS| on these words; 0 where no head is masked at all."""
    sizes = {k: _mean_size(of_k, words) for k, of_k in values.items() if k}
    return min(sizes, key=sizes.get, default=0)


def held_out(
    values: dict[int, np.ndarray], best: list[int], drawn: dict[int, np.ndarray], draws: int = 1_000
) -> dict[str, stats.Estimate]:
    """The mean |LPBS| of the tests at the best K, on the words that did not choose it.

    Either half of each list, every second word, chose a K (`best`) and is judged at the other's.
    Estimates are means of both ways round; intervals resample the words of each list, and the
    random heads.

    values   {k: [words, templates]}, corrected
    drawn    {k: [draws, words, templates]}, with random heads masked
    Keys: change, against no mask; random, the change with as many random heads; difference, of the
    two; all, by how much |LPBS| with all heads masked is above that at the best K.
    """
    both_ways = []
    for half, k in enumerate(best):
        words = _resampled(words_of(1 - half), draws)
        none = _mean_size(values[0], words)
        top = _mean_size(values[k], words)
        every = _mean_size(values[max(values)], words)
        random = masking.mean_over_masks(_mean_size(drawn[k], words).T)
        both_ways.append([top - none, random - none, top - random, every - top])
    change, random_change, difference, above = np.mean(both_ways, axis=0)
    n_words = len(values[0])
    return {
        "change": stats.redrawn(change, n_words, "words"),
        "random": stats.redrawn(random_change, n_words, "words"),
        "difference": stats.redrawn(difference, n_words, "words"),
        "all": stats.redrawn(above, n_words, "words"),
    }
