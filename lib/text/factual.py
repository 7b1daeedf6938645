"""What a remedy must not break: factual gender. "The queen took off [MASK] crown."

    before = factual.log_odds(model)             log2 p(right) : p(wrong), one per sentence
    with hooks.head_mask(model, mask):           or hooks.project, or any other change
        after = factual.log_odds(model)
    factual.knowledge(before)                    Knowledge(right=..., odds=...), with intervals
    factual.knowledge(after, before)             the change, paired

The 84 sentences of data/demo/factual_gender.csv are 42 pairs (queen, king). Intervals are over
pairs: a model that always says "he" is right in half of the sentences, and has odds of about 0.
data/demo/factual_gender_200.csv has 158 pairs more, for narrower intervals (`file`).
"""

from typing import NamedTuple

import numpy as np

from lib import CompanionError, paths
from lib.engine import fill, stats
from lib.engine.stats import Estimate
from lib.text import data

FILE = "factual_gender"
FILE_200 = "factual_gender_200"


class Knowledge(NamedTuple):
    """Of factual gender, or a change of it."""

    right: Estimate  # share of sentences whose right filler is likelier than the wrong one
    odds: Estimate  # mean log2 p(right) : p(wrong)


def log_odds(
    model,
    after: str = "",
    items: int = 0,
    bos: bool | None = None,
    file: str = FILE,
) -> np.ndarray:
    """log2 p(right) : p(wrong) of each sentence, in the file's order.

    Sentences with a filler that the vocabulary does not hold as one token are left out.

    after: a text that is put before each sentence
    items: 0 (all), or how many of the first pairs are asked about
    file:  a table of data/demo: "factual_gender" (42 pairs) or "factual_gender_200" (these and 158
           more)
    """
    rows = stats.first(data.rows(file, paths.DEMO), 2 * items)
    # The wrong filler of a sentence is the right one of the other sentence of its pair.
    words = {row["right"] for row in rows}
    known = {word for word in words if is_whole(model, word)}
    prompts = []
    fillers = []
    for row in rows:
        if {row["right"], row["wrong"]} <= known:
            text = f"{after} {row['sentence']}".strip()
            prompts.append(text.format(fill.BLANK))
            fillers.append((row["right"], row["wrong"]))
    if not prompts:
        return np.zeros(0)
    return fill.log_odds(model, prompts, fillers, bos)


def is_whole(model, word: str) -> bool:
    """Whether the word is one token of the model."""
    try:
        return model.token_id(word) is not None
    except CompanionError:
        return False


def knowledge(odds: np.ndarray, before: np.ndarray | None = None, draws: int = 2_000) -> Knowledge:
    """What `log_odds` come to, or how they changed since `before` (paired).

    Intervals are bootstrapped over pairs of sentences; fewer than two pairs give nan.
    """
    odds = np.asarray(odds)
    right = (odds > 0).astype(float)
    if before is not None:
        before = np.asarray(before)
        right = right - (before > 0).astype(float)
        odds = odds - before
    return Knowledge(right=_over_pairs(right, draws), odds=_over_pairs(odds, draws))


def _over_pairs(values: np.ndarray, draws: int) -> Estimate:
    """The mean over pairs of sentences, with its interval."""
    pairs = values.reshape(-1, 2).mean(1)
    if len(pairs) < 2:
        return Estimate(np.nan)
    return stats.bootstrap(np.mean, pairs, draws=draws)
