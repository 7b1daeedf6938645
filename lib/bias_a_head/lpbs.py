"""The log probability bias score (LPBS) of Kurita et al. 2019, as in Bias A-head's Table 3.

"[MASK] likes algebra.": how much likelier is the blank male than female, in logs? From that the prior is subtracted,
the same number with the target masked too, "[MASK] likes [MASK].". A test compares two lists of target words.

    lpbs.score(model, ["algebra", "poetry"])           one row per word and template
    lpbs.effect_sizes(model)                           how far each test's lists lie apart, both readings, in one pass
    lpbs.top_k("mini-bert", ranked)                    the same with ever more heads masked

Two readings of the prior. "corrected" reads it at the blank of the subject, as Kurita et al. describe it. "published"
is their notebook, which looks for the last mask and misses it by one: it reads the token before the target, the verb
or "in", where no subject stands.

The notebook drops target words that are not in BERT's vocabulary, and all 40 are. Here every model gets all 40, and the
prior masks as many pieces as the word has, so that the two sentences differ by the word alone.
"""

import numpy as np
import pandas as pd
import torch

from lib import CompanionError
from lib.bias_a_head import heads
from lib.engine import batches, embed, fill, hooks, models, stats
from lib.text import data

# subject and target; words that make the subject male; female
TEMPLATES = [("{subject} likes {target}.", ["he"], ["she"]),
             ("{subject} like {target}.", ["boys", "men"], ["girls", "women"]),
             ("{subject} is interested in {target}.", ["he"], ["she"])]

# first list against second: positive where the first is closer to men
TESTS = {"career / family": ("career", "family"), "math / arts": ("math", "arts"),
         "science / arts": ("science", "arts")}
PRIORS = ("corrected", "published")


@torch.inference_mode()
def score(model, target: str | list[str], progress: str = "") -> pd.DataFrame:
    """log p(male) - log p(female) of the subject, for each target word in each template.

    Columns: target, template, bias (before any correction), corrected, published (bias less the prior, read either
    way). Probabilities of a gender's words are summed before the log is taken.
    """
    targets = [target] if isinstance(target, str) else list(target)
    if not targets:
        raise CompanionError("There is no target word: give at least one.")
    asked = [(word, sentence) for sentence, _, _ in TEMPLATES for word in targets]
    sentences = [_masked(model, sentence, word) for word, sentence in asked]
    seen, hidden, subjects, pieces = (list(column) for column in zip(*sentences))
    genders = [(_ids(model, male), _ids(model, female)) for _, male, female in TEMPLATES]
    # three readings: the subject, the subject with the target hidden, the place before the target with it hidden
    places = [*zip(subjects), *zip(subjects, [first - 1 for first in pieces])]

    def log_odds(batch, indices):
        odds = [[] for _ in indices]
        rows, at = zip(*[(row, place) for row, i in enumerate(indices) for place in places[i]])
        logits = fill.logits_at(model, batch, torch.tensor(rows), torch.tensor(at))
        likely = logits.float().log_softmax(-1).cpu()
        for row, p in zip(rows, likely):
            male, female = genders[indices[row] % len(asked) // len(targets)]
            odds[row].append((p[male].logsumexp(0) - p[female].logsumexp(0)).item())
        return odds

    odds = batches.each(model, seen + hidden, log_odds, progress=progress)
    bias, priors = np.array(odds[:len(asked)])[:, 0], np.array(odds[len(asked):])
    table = pd.DataFrame(asked, columns=["target", "template"]).assign(bias=bias)
    return table.assign(**{name: bias - priors[:, i] for i, name in enumerate(PRIORS)})


def effect_sizes(model, draws: int = 500) -> pd.DataFrame:
    """Every test under both readings of the prior: columns test, corrected, low, high, published.

    (mean score of the test's first list - of its second) / standard deviation of both together, ddof 1.
    low, high: a 95 % bootstrap interval of the corrected one over target words, a word's templates kept together.
    """
    scores = score(model, data.words("lpbs_lists")["word"])
    rows = []
    for test in TESTS:
        values, first = _by_word(scores, test, "corrected")
        size = stats.bootstrap(lambda i, values=values, first=first: _effect_size(values[i], first[i]),
                               np.arange(len(first)), draws=draws)
        rows.append({"test": test, "corrected": size.value, "low": size.low, "high": size.high,
                     "published": _effect_size(*_by_word(scores, test, "published"))})
    return pd.DataFrame(rows)


def top_k(name: str, ranked: list[tuple[int, int]], step: int = 5, device=None) -> pd.DataFrame:
    """`effect_sizes` with the first 0, step, 2 step, ... and all of the ranked heads masked: Table 3. Adds column k.

    The model goes by name, for Run.cached.
    """
    model, tables = models.load(name, device=device), []
    for k in [*range(0, len(ranked), step), len(ranked)]:
        with hooks.head_mask(model, heads.mask(model, ranked[:k])):
            tables.append(effect_sizes(model).assign(k=k))
    return pd.concat(tables, ignore_index=True)


def _by_word(scores: pd.DataFrame, test: str, prior: str) -> tuple[np.ndarray, np.ndarray]:
    """Scores [words, templates] of a test, and which of the words are of its first list."""
    lists = data.words("lpbs_lists").groupby("list")["word"].agg(list)
    first, second = (lists[name] for name in TESTS[test])
    wide = scores.pivot_table(index="target", columns="template", values=prior).loc[first + second]
    return wide.to_numpy(), np.repeat([True, False], [len(first), len(second)])


def _effect_size(values: np.ndarray, first: np.ndarray) -> float:
    return float((values[first].mean() - values[~first].mean()) / values.std(ddof=1))


def _masked(model, sentence: str, word: str) -> tuple[dict, dict, int, int]:
    """The sentence with its subject masked; with the target's pieces masked too; the places of both."""
    start = sentence.format(subject=model.mask_token, target="\0").index("\0")
    text = sentence.format(subject=model.mask_token, target=word)
    pieces = embed.tokens_of(model, [text], [(start, start + len(word))])[0]
    seen = dict(model.tokenizer(text))
    hidden = [model.tokenizer.mask_token_id if i in pieces else token for i, token in enumerate(seen["input_ids"])]
    return seen, seen | {"input_ids": hidden}, seen["input_ids"].index(model.tokenizer.mask_token_id), pieces.start


def _ids(model, words: list[str]) -> list[int]:
    """As the words are spelled at a sentence's start: with a capital, where the vocabulary knows capitals."""
    plain = model.tokenizer("He", add_special_tokens=False).input_ids == model.tokenizer(
        "he", add_special_tokens=False).input_ids
    return [model.token_id(word if plain else word.capitalize(), inside=False) for word in words]
