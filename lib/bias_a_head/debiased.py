"""Debiased models beside their base (Bias A-head, Fig. 5), and chat models beside theirs (Fig. 6-7).

Which of the models are at hand, which base each is compared with, and what is measured beyond `heads.measure`: the
association of every target word, for an interval of the change of SEAT; the odds of she and he; heads that turned.
"""

from pathlib import Path

import numpy as np
from scipy import stats as scipy_stats

from lib import CompanionError
from lib.bias_a_head import heads
from lib.bias_a_head.masking import seat_of
from lib.engine import models, stats
from lib.text import contexts

FOLLOWED = 5  # the base's most anti-biased heads, which Fig. 5 boxes
SHAPES = {"bert-base": (12, 12, 768), "bert-large": (24, 16, 1024)}  # layers, heads, width: the bases of Fig. 5


def short(name: str) -> str:
    """A model as tables and figures call it: a folder or a hub id by its last part."""
    return Path(name).name


def at_hand(names: list[str]) -> tuple[list[str], list[dict]]:
    """Those of the models that can be loaded here, and a record for each other one: model, why it is not run."""
    there, missing = [], []
    for name in names:
        try:
            models.locate(name)
            there.append(name)
        except CompanionError as error:
            missing.append({"model": short(name), "not run, since": str(error)})
    return there, missing


def base_of(name: str, usual: str) -> str:
    """What a model is compared with: the base that its folder names, else `usual` or the model of Fig. 5, whichever
    has its shape."""
    folder = models.locate(name)[0]
    if base := models.base_of(folder):
        return base
    shapes = {usual: _shape(models.locate(usual)[0])} | SHAPES
    fitting = [base for base, shape in shapes.items() if shape == _shape(folder)]
    if not fitting:
        raise CompanionError(f"{name} has the shape of none of {', '.join(shapes)}: there is no base to compare its "
                             "heads with.")
    return fitting[0]


def _shape(folder: Path) -> tuple[int, int, int]:
    config = models.config_of(folder)
    return tuple(config.get(key, 0) for key in ("num_hidden_layers", "num_attention_heads", "hidden_size"))


def pairs(names: list[str]) -> list[tuple[str, str]]:
    """Base and chat models as the profile lists them in turn; a model alone is taken as a chat model without a base."""
    return list(zip(names[::2], names[1::2])) if len(names) > 1 else [("", name) for name in names]


def associations(name: str, source: str, n: int, seed: int = 0, items: int = 0,
                 device: str | None = None) -> dict[str, np.ndarray]:
    """The association of each target word with the female and the male words, in a model: s, in_x (see seat.py)."""
    sets, sentences = heads.sets_and_contexts("gender", source, n, seed, items=items)
    s, in_x = heads.associations(models.load(name, device=device), sets, sentences)
    return {"s": s, "in_x": in_x}


def seat_change(base: dict, other: dict) -> stats.Estimate:
    """|SEAT| of the other model less the base's, with an interval over target words, drawn for both alike."""
    return stats.bootstrap(lambda s, t, in_x: seat_of(t, in_x) - seat_of(s, in_x), base["s"], other["s"], base["in_x"])


def leaning(name: str, device: str | None = None) -> dict:
    """Another look at bias than SEAT: what the model puts for "[MASK] works as a nurse.", over 58 occupations.

    Keys: size, the mean |log2 odds she : he|; and rho, their rank correlation with the share of women."""
    jobs = contexts.pronoun_odds(models.load(name, device=device))
    return {"size": float(jobs.log_odds.abs().mean()),
            "rho": stats.bootstrap(stats.rank_correlation, jobs.percent_women, jobs.log_odds)}


def followed(base: np.ndarray) -> list[tuple[int, int]]:
    """The base's FOLLOWED most anti-biased heads; all, where it has fewer."""
    return heads.bottom(base, min(FOLLOWED, base.size))


def count_turned(scores: np.ndarray, base: np.ndarray) -> int:
    """How many of the heads followed have a positive score."""
    return sum(scores[layer - 1, head - 1] > 0 for layer, head in followed(base))


def pronounced(base: np.ndarray, chat: np.ndarray) -> tuple[int, int, float]:
    """Heads beyond the base's upper Tukey fence: how many in the base, how many in the chat model, and p of the exact
    one-sided test (McNemar's) on the heads that are pronounced in one alone."""
    low, high = np.quantile(base, [.25, .75])
    fence = high + 1.5 * (high - low)
    lost, gained = ((base > fence) & (chat <= fence)).sum(), ((chat > fence) & (base <= fence)).sum()
    p = scipy_stats.binomtest(int(lost), int(lost + gained), alternative="greater").pvalue if lost + gained else 1.
    return int((base > fence).sum()), int((chat > fence).sum()), float(p)
