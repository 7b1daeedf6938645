"""Next-sentence prediction: how probable it is that B follows A, and the bias that this shows (Projective methods, 2).

    p = nsp.is_next(model, [("My mother came in.", "She sat down.")])
    nsp.strength(frame), nsp.distance(frame), nsp.stereotype_score(frame)

A frame (a DataFrame or a dict of arrays) has one row per triple pair and the columns COLUMNS: p(next) of its
stereotype, anti-stereotype and unrelated sentence, then of the same three on the gender-swapped side (gs_). Labels are
those of the file on both sides, though the swap turns the stereotype round; `strengths` puts the signs right."""

from collections.abc import Sequence

import numpy as np
import torch

from lib import CompanionError
from lib.engine import batches

LABELS = {
    "stereotype": "stereo",
    "anti-stereotype": "anti",
    "unrelated": "unrelated",
}  # of a file: of a frame
COLUMNS = [side + name for side in ("", "gs_") for name in LABELS.values()]


@torch.inference_mode()
def is_next(model, pairs: list[tuple[str, str]], progress: str = "") -> torch.Tensor:
    """p(B follows A) for every pair (A, B), on the CPU. BERT's head has class 0 for "follows"."""
    if not model.has_nsp:
        raise CompanionError(
            f"{model.name} has no next-sentence head: choose a BERT, such as mini-bert or bert-base."
        )
    if (
        not isinstance(pairs, Sequence)
        or isinstance(pairs, str)
        or not len(pairs)
        or not all(
            isinstance(pair, Sequence)
            and not isinstance(pair, str)
            and len(pair) == 2
            and all(isinstance(text, str) for text in pair)
            for pair in pairs
        )
    ):
        raise CompanionError("These are no sentence pairs: give a list of at least one (A, B).")
    ask = lambda batch, _: (
        model.nsp_head(model.net.base_model(**batch).pooler_output).float().softmax(-1)[:, 0].cpu()
    )
    encoded = batches.encode(model, *map(list, zip(*pairs)))
    return torch.stack(batches.each(model, encoded, ask, progress=progress))


def strengths(frame) -> np.ndarray:
    """s of each triple pair, -2 to 2, equation 2: how much the stereotype is preferred, on both sides together.
    The paper's p(Anti)_GS is the file's gs_stereo: on the swapped side the same sentence is the anti-stereotype."""
    columns = [_column(frame, name) for name in ("stereo", "anti", "gs_stereo", "gs_anti")]
    if len({column.shape for column in columns}) > 1:
        raise CompanionError(
            "The columns of the triple pairs have unlike lengths: give a value each for every pair."
        )
    stereo, anti, gs_stereo, gs_anti = columns
    return stereo - anti - gs_stereo + gs_anti


def distances(frame) -> np.ndarray:
    """d of each triple pair, 0 to 1, equation 3: how far apart the two genders' unrelated sentences are."""
    return np.abs(_column(frame, "unrelated") - _column(frame, "gs_unrelated"))


def strength(frame, share: float = 0.1) -> float:
    """S: the mean s of the most biased triple pairs, signed, the top `share` of them."""
    return top_mean(strengths(frame), share)


def distance(frame, share: float = 0.1) -> float:
    """D: the mean d of the most distant triple pairs, the top `share` of them."""
    return top_mean(distances(frame), share)


def top_mean(values: np.ndarray, share: float = 0.1) -> float:
    """The mean of the highest round(n x share) values, at least one: 23 of 234. The paper is silent on rounding."""
    if not 0 < share <= 1:
        raise CompanionError(f"A share of {share} makes no sense: give one above 0 and up to 1.")
    if not len(values):
        raise CompanionError("There are no triple pairs: give at least one.")
    return float(
        np.sort(np.asarray(values, dtype=float))[::-1][: max(1, round(len(values) * share))].mean()
    )


def stereotype_score(frame) -> float:
    """SS as StereoSet defines it: the share of triples whose stereotype is likelier than their anti-stereotype.
    Of the unswapped side alone, since StereoSet has no other; .5 is no preference. Equal probabilities do not count."""
    return float(np.mean(_column(frame, "stereo") > _column(frame, "anti")))


def swapped(frame) -> dict:
    """The gender-swapped side as a frame of triples: its stereotype is what was the anti-stereotype."""
    return {
        "stereo": _column(frame, "gs_anti"),
        "anti": _column(frame, "gs_stereo"),
        "unrelated": _column(frame, "gs_unrelated"),
    }


def right(frame) -> np.ndarray:
    """Share of a triple pair's sentences called right at .5: all follow but the unrelated. Its mean is Table 1's NS."""
    columns = [name for name in COLUMNS if name in frame]
    return np.mean(
        [(_column(frame, name) > 0.5) != name.endswith("unrelated") for name in columns], axis=0
    )


def _column(frame, name: str) -> np.ndarray:
    if name not in frame:
        raise CompanionError(
            f"The triple pairs lack the column '{name}': give {', '.join(COLUMNS)}."
        )
    return np.asarray(frame[name], dtype=float)
