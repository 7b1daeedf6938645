"""Debiased models beside their base (Bias A-head, Fig. 5), chat models beside theirs (Fig. 6-7).

Which of the models are available, which base each is compared with, and what became of its heads.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np

from companion.bias_a_head import estimators
from lib import CompanionError
from lib.bias_a_head import heads, masking
from lib.engine import folders, stats

FOLLOWED = 5  # the base's most anti-biased heads, which Fig. 5 boxes
BY_CHANCE = 0.025  # of heads without an effect have an interval above 0
# layers, heads and width of the bases of Fig. 5
SHAPES = {"bert-base": (12, 12, 768), "bert-large": (24, 16, 1024)}


# ---- which models
def short(name: str) -> str:
    """A model as tables and figures call it: a folder or a hub id by its last part."""
    return Path(name).name


def at_hand(names: list[str]) -> tuple[list[str], list[dict]]:
    """The models that can be loaded here; for each other one a record: model, why it is not run."""
    available = []
    missing = []
    for name in names:
        try:
            folders.locate(name)
            available.append(name)
        except CompanionError as error:
            missing.append({"model": short(name), "not run, since": str(error)})
    return available, missing


def of_run(run) -> tuple[list[str], list[dict]]:
    """`at_hand` of a `Run`'s debiased models.

    A model of the user's own takes their place: the run's base is then what it is compared with.
    """
    available, missing = at_hand(run.debiased)
    if run.model in available:
        try:
            run.base = base_of(run.model, run.base)
        except CompanionError as error:
            return [], [{"model": short(run.model), "not run, since": str(error)}]
    return [name for name in available if name != run.base], missing


def base_of(name: str, usual: str) -> str:
    """What a model is compared with: the base that its folder names, or one of its shape.

    Where the folder names none, it is `usual` or one of Fig. 5's, whichever has the model's shape.
    """
    folder, _ = folders.locate(name)
    named = folders.base_of(folder)
    if named:
        return named
    usual_folder, _ = folders.locate(usual)
    shapes = {usual: _shape(usual_folder)} | SHAPES
    wanted = _shape(folder)
    for base, shape in shapes.items():
        if shape == wanted:
            return base
    raise CompanionError(
        f"{name} has the shape of none of {', '.join(shapes)}: there is no base to compare its "
        "heads with."
    )


def _shape(folder: Path) -> tuple[int, int, int]:
    """Layers, heads and width; 0 where the configuration does not say."""
    config = folders.config_of(folder)
    keys = ("num_hidden_layers", "num_attention_heads", "hidden_size")
    return tuple(config.get(key, 0) for key in keys)


def pairs(names: list[str]) -> list[tuple[str, str]]:
    """(base, chat model), as a profile lists them in turn; of a single model, ("", model)."""
    if len(names) == 1:
        return [("", names[0])]
    bases = names[::2]
    chats = names[1::2]
    return list(zip(bases, chats))


# ---- what is measured of them
def followed(base: np.ndarray) -> list[tuple[int, int]]:
    """The base's FOLLOWED most anti-biased heads; all, where it has fewer."""
    return heads.bottom(base, min(FOLLOWED, base.size))


def count_turned(scores: np.ndarray, base: np.ndarray) -> np.ndarray:
    """How many of the heads followed have a positive score; scores [..., n_layers, n_heads]."""
    layers, places = np.transpose(followed(base)) - 1
    is_positive = scores[..., layers, places] > 0
    return is_positive.sum(-1)


def turned(result: dict, base: dict) -> np.ndarray:
    """How many of the base's most anti-biased heads are positive in another model: [1 + draws].

    The heads are chosen on one half of the sentences and counted on the other: the mean of both
    ways, as it is, and with folds resampled.
    """
    of_base = masking.halves(base)
    counts = []
    for half, scores in enumerate(masking.halves(result)):
        judging = {"scores": scores, "folds": result["folds"][half::2]}
        resampled = estimators.with_resamples(judging)
        counts.append(count_turned(resampled, of_base[1 - half]))
    return np.mean(counts, axis=0)


def turned_heads(result: dict, base: dict) -> tuple[stats.Estimate, stats.Estimate, stats.Estimate]:
    """How many of the base's most anti-biased heads are positive in another model; how many of
    them in the base itself, on other sentences; and the difference.
    """
    in_model = turned(result, base)
    in_base = turned(base, base)
    counts = (in_model, in_base, in_model - in_base)
    return tuple(estimators.interval_of_count(count, FOLLOWED) for count in counts)


def more_biased(result: dict, base: dict) -> stats.Estimate:
    """How many more heads have a positive score than in the base, over folds of the sentences."""
    now = stats.settled(result["folds"]) > 0
    before = stats.settled(base["folds"]) > 0
    more = now.sum((1, 2)) - before.sum((1, 2))
    return replace(stats.mean(more), unit="folds")


def beyond_chance(hits: np.ndarray) -> stats.Estimate:
    """How many heads are hits beyond those expected by chance, with Wilson's interval."""
    n = hits.size
    beyond = stats.wilson(hits.ravel()) * n - BY_CHANCE * n
    return replace(beyond, unit="heads")


def darker_beyond_chance(result: dict, base: dict) -> stats.Estimate:
    """How many slightly biased heads are darker than in the base, beyond those by chance.

    Which heads are slightly biased depends on the half of the sentences that chooses them. The
    estimate takes the mean number of darker heads, of the larger number of slight ones.
    """
    both = darker(result, base)
    n_slight = max(map(len, both))
    n_darker = round(np.mean([hits.sum() for hits in both]))
    return beyond_chance(np.arange(n_slight) < n_darker)  # which of them does not matter


def darker(result: dict, base: dict) -> list[np.ndarray]:
    """For each slightly biased head of the base, whether it is darker in another model.

    A head is slightly biased where one half of the sentences gives it a positive score within a
    quarter of the largest one. It is darker where the paired difference of the scores on the other
    half is above 0. One array for each choice of the half.
    """
    grown = result["folds"] - base["folds"]
    both = []
    for half, scores in enumerate(masking.halves(base)):
        most = np.abs(scores).max() / 4
        is_slight = (scores > 0) & (scores < most)
        is_darker = estimators.above_zero(grown[1 - half :: 2])
        both.append(is_darker[is_slight])
    return both


def pronounced(base: np.ndarray, chat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Heads beyond the base's upper Tukey fence, in the base and in the chat model.

    Both are scores [..., n_layers, n_heads].
    """
    _, in_base = estimators.outliers(base, (-2, -1), of=base)
    _, in_chat = estimators.outliers(chat, (-2, -1), of=base)
    return in_base, in_chat


def more_pronounced(base: dict, chat: dict) -> stats.Estimate:
    """How many more heads of the chat model than of its base are beyond the base's fence."""
    of_base = estimators.with_resamples(base)
    of_chat = estimators.with_resamples(chat)
    in_base, in_chat = pronounced(of_base, of_chat)
    return estimators.interval_of_count(in_chat - in_base, base["scores"].size)


def spread_change(base: dict, other: dict) -> stats.Estimate:
    """By what the standard deviation of the scores of heads is multiplied, over folds."""
    before = estimators.with_resamples(base).std(axis=(-2, -1))
    after = estimators.with_resamples(other).std(axis=(-2, -1))
    ratio = after / before
    return estimators.percentile_interval(ratio[0], ratio[1:])
