"""What a remedy must not break: factual gender. "The queen took off [MASK] crown." is no stereotype.

    with hooks.head_mask(model, mask):                 or hooks.project, or any other change of the model
        after = factual.log_odds(model)                log2 p(right) : p(wrong), one per sentence
    before = factual.log_odds(model)
    factual.knowledge(before)                          Knowledge(right=..., odds=...), each with its interval
    factual.knowledge(after, before)                   the change, paired

The 84 sentences of data/demo/factual_gender.csv are 42 pairs (queen, king), which intervals are drawn over: a model
that says "he" whatever it reads is right in half of them, and has odds of about 0."""

from typing import NamedTuple

import numpy as np

from lib import CompanionError, paths
from lib.engine import fill, stats
from lib.engine.stats import Estimate
from lib.text import data


class Knowledge(NamedTuple):
    """Of factual gender, or a change of it."""

    right: Estimate  # share of sentences whose right filler is likelier than the wrong one
    odds: Estimate  # mean log2 p(right) : p(wrong)


def log_odds(model, after: str = "", items: int = 0, bos: bool | None = None) -> np.ndarray:
    """log2 p(right) : p(wrong) of each sentence, in the file's order; of pairs whose fillers the vocabulary holds.
    after: a text that stands before each sentence; items: other than 0, of the first so many pairs."""
    asked = stats.first(data.rows("factual_gender", paths.DEMO), 2 * items)
    known = {word for word in {row["right"] for row in asked} if _is_whole(model, word)}
    asked = [row for row in asked if {row["right"], row["wrong"]} <= known]
    prompts = [f"{after} {row['sentence']}".strip().format(fill.BLANK) for row in asked]
    return (
        fill.log_odds(model, prompts, [(row["right"], row["wrong"]) for row in asked], bos)
        if asked
        else np.zeros(0)
    )


def _is_whole(model, word: str) -> bool:
    try:
        return model.token_id(word) is not None
    except CompanionError:
        return False


def knowledge(odds: np.ndarray, before: np.ndarray | None = None, draws: int = 2_000) -> Knowledge:
    """What `log_odds` come to, with intervals over pairs of sentences (nan for fewer than 2); or a change, paired."""

    def estimate(of):
        pairs = (of(odds) - (of(before) if before is not None else 0.0)).reshape(-1, 2).mean(1)
        return stats.bootstrap(np.mean, pairs, draws=draws) if len(pairs) > 1 else Estimate(np.nan)

    return Knowledge(estimate(lambda values: (values > 0).astype(float)), estimate(np.asarray))
