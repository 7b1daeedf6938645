"""The log probability bias score (LPBS) of Kurita et al. 2019, as in Bias A-head's Table 3.

"[MASK] likes algebra.": how much likelier is the blank male than female, in logs? From that the prior is subtracted,
the same number with the target masked too, "[MASK] likes [MASK].". A test compares two lists of target words.

Two variants of the prior. "corrected" reads it at the blank of the subject, as Kurita et al. describe it. "published"
is their notebook, which misses the last mask by one: it reads the verb or "in" before the target, which is no subject.

The notebook drops target words that are not in BERT's vocabulary, and all 40 are. Here every model gets all 40, and the
prior masks as many pieces as the word has, so that the two sentences differ by the word alone."""

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
# first list against second: positive where the first is closer to men
TESTS = {
    " / ".join(lists): lists
    for lists in [("career", "family"), ("math", "arts"), ("science", "arts")]
}
PRIORS = ("corrected", "published")


@torch.inference_mode()
def score(model, target: str | list[str], progress: str = "") -> pd.DataFrame:
    """log p(male) - log p(female) of the subject, for each target word in each template; a gender's words are summed
    before the log. Columns: target, template, bias, and less the prior, read either way: corrected, published."""
    targets = [target] if isinstance(target, str) else list(target)
    if not targets:
        raise CompanionError("There is no target word: give at least one.")
    asked = [(word, sentence) for sentence, _, _ in TEMPLATES for word in targets]
    seen, hidden, subjects, pieces = map(
        list, zip(*(_masked(model, sentence, word) for word, sentence in asked))
    )
    genders = [(_ids(model, male), _ids(model, female)) for _, male, female in TEMPLATES]
    # three variants: the subject, the subject with the target hidden, the place before the target with it hidden
    places = [*zip(subjects), *zip(subjects, [first - 1 for first in pieces])]

    def log_odds(batch, indices):
        odds = [[] for _ in indices]
        rows, at = zip(*[(row, place) for row, i in enumerate(indices) for place in places[i]])
        likely = (
            fill.logits_at(model, batch, torch.tensor(rows), torch.tensor(at))
            .float()
            .log_softmax(-1)
            .cpu()
        )
        for row, p in zip(rows, likely):
            male, female = genders[indices[row] % len(asked) // len(targets)]
            odds[row].append((p[male].logsumexp(0) - p[female].logsumexp(0)).item())
        return odds

    odds = batches.each(model, seen + hidden, log_odds, progress=progress)
    bias, priors = np.array(odds[: len(asked)])[:, 0], np.array(odds[len(asked) :])
    table = pd.DataFrame(asked, columns=["target", "template"]).assign(bias=bias)
    return table.assign(**{name: bias - priors[:, i] for i, name in enumerate(PRIORS)})


def top_k(
    name: str,
    ranked: list[tuple[int, int]],
    step: int = 5,
    draws: int = 5,
    seed: int = 0,
    device=None,
) -> tuple[pd.DataFrame, dict]:
    """`sizes` with the first 0, step, 2 step, ... and all of the ranked heads masked: Table 3, with column k. And what
    is left at the best K where the words that chose it do not judge it (`held_out`). By name, for Run.cached."""
    model, words = models.load(name, device=device), data.words("lpbs_lists")["word"]

    def under(masked):
        with hooks.head_mask(model, heads.mask(model, masked)):
            return score(model, words)

    by_k = {k: under(ranked[:k]) for k in [*range(0, len(ranked), step), len(ranked)]}
    table = pd.concat(
        [sizes(scores, 500).assign(k=k) for k, scores in by_k.items()], ignore_index=True
    )
    every = torch.zeros(model.n_layers, model.n_heads)
    values = {k: _values(scores) for k, scores in by_k.items()}
    best = [
        min(
            (k for k in values if k), default=0, key=lambda k: _mean_size(values[k], words_of(half))
        )
        for half in (0, 1)
    ]
    drawn = {
        k: np.stack(
            [_values(under(heads.random(every, k, seed=seed + draw))) for draw in range(draws)]
        )
        for k in set(best)
    }
    return table, held_out(values, best, drawn) | {"best": best}


def held_out(
    values: dict[int, np.ndarray], best: list[int], drawn: dict[int, np.ndarray], draws: int = 1_000
) -> dict[str, stats.Estimate]:
    """Every second word of each list chose a K (`best`): the mean |LPBS| of the tests there, on the other words.
    values   {k: [words, templates]}, corrected;   drawn  {k: [draws, words, templates]}, of random heads
    Keys: change, against no mask; random, the same of as many random heads; difference, of the two; all, by how much
    masking all is above. Means of both ways round; intervals draw words of each list again, and the random heads."""
    rows = []
    for half, k in enumerate(best):
        words = _again(words_of(1 - half), draws)
        none, top, every = (_mean_size(values[size], words) for size in (0, k, max(values)))
        random = masking.over_draws(_mean_size(drawn[k], words).T)
        rows.append([top - none, random - none, top - random, every - top])
    return {
        name: stats.redrawn(way, len(values[0]), "words")
        for name, way in zip(("change", "random", "difference", "all"), np.mean(rows, axis=0))
    }


def words_of(half: int | None = None) -> dict[str, np.ndarray]:
    """Of each list, where its words stand among all; of a half every second one."""
    return {
        name: places if half is None else places[half::2]
        for name, places in data.words("lpbs_lists").groupby("list").indices.items()
    }


def _again(words: dict[str, np.ndarray], draws: int) -> dict[str, np.ndarray]:
    """[1 + draws, words] of each list: as they are, and drawn with replacement."""
    rng = np.random.default_rng(0)
    return {
        name: np.vstack([places, rng.choice(places, (draws, len(places)))])
        for name, places in words.items()
    }


def _sizes(values: np.ndarray, words: dict[str, np.ndarray]) -> np.ndarray:
    """LPBS of each test, [..., tests], from scores [..., words, templates] of these words of each list."""
    sizes = []
    for names in TESTS.values():
        first, second = (values[..., words[name], :] for name in names)
        spread = np.concatenate([first, second], axis=-2).std(axis=(-2, -1), ddof=1)
        sizes.append((first.mean((-2, -1)) - second.mean((-2, -1))) / spread)
    return np.stack(sizes, axis=-1)


def _mean_size(values: np.ndarray, words: dict[str, np.ndarray]) -> np.ndarray:
    return np.abs(_sizes(values, words)).mean(-1)


def _values(scores: pd.DataFrame, prior: str = "corrected") -> np.ndarray:
    """Scores as [words, templates], the words in the order of the lists."""
    return (
        scores[prior].to_numpy().reshape(len(TEMPLATES), -1).T
    )  # `score` has a template's words together


def sizes(scores: pd.DataFrame, draws: int) -> pd.DataFrame:
    """Every test under both variants of the prior, of all words' scores: columns test, corrected, low, high, published.
    (mean score of the test's first list - of its second) / standard deviation of both together, ddof 1. low, high: a
    95 % bootstrap interval of the corrected one over target words, a word's templates kept together."""
    of_words = _sizes(_values(scores), _again(words_of(), draws))
    low, high = np.quantile(of_words[1:], [0.025, 0.975], axis=0)
    return pd.DataFrame(
        {
            "test": list(TESTS),
            "corrected": of_words[0],
            "low": low,
            "high": high,
            "published": _sizes(_values(scores, "published"), words_of()),
        }
    )


def _masked(model, sentence: str, word: str) -> tuple[dict, dict, int, int]:
    """The sentence with its subject masked; with the target's pieces masked too; the places of both."""
    start = sentence.format(subject=model.mask_token, target="\0").index("\0")
    text = sentence.format(subject=model.mask_token, target=word)
    pieces = embed.tokens_of(model, [text], [(start, start + len(word))])[0]
    seen = dict(model.tokenizer(text))
    hidden = [
        model.tokenizer.mask_token_id if i in pieces else token
        for i, token in enumerate(seen["input_ids"])
    ]
    return (
        seen,
        seen | {"input_ids": hidden},
        seen["input_ids"].index(model.tokenizer.mask_token_id),
        pieces.start,
    )


def _ids(model, words: list[str]) -> list[int]:
    """As the words are spelled at a sentence's start: with a capital, where the vocabulary knows capitals."""
    capital, small = model.tokenizer(["He", "he"], add_special_tokens=False).input_ids
    return [
        model.token_id(word if capital == small else word.capitalize(), inside=False)
        for word in words
    ]
