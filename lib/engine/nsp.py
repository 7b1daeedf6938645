"""Next-sentence prediction: how probable it is that B follows A, and the bias that this shows.

    p = nsp.is_next(model, [("My mother came in.", "She sat down.")])
    nsp.strength(frame), nsp.distance(frame), nsp.stereotype_score(frame)

These are the measures of Projective Methods, section 2. A frame (a DataFrame or a dict of arrays)
has one row per pair of triples and the columns COLUMNS: p(next) of its stereotype, anti-stereotype
and unrelated sentence, then of the same three on the gender-swapped side (gs_). Both sides have the
labels of the file, although the swap reverses the stereotype; `strengths` sets the signs right.
"""

import numpy as np
import torch

from lib import CompanionError
from lib.engine import batches, models

# label in the file: name in a frame
LABELS = {"stereotype": "stereo", "anti-stereotype": "anti", "unrelated": "unrelated"}
COLUMNS = ["stereo", "anti", "unrelated", "gs_stereo", "gs_anti", "gs_unrelated"]


@torch.inference_mode()
def is_next(model, pairs: list[tuple[str, str]], progress: str = "") -> torch.Tensor:
    """p(B follows A) for every pair (A, B), on the CPU. BERT's head has class 0 for "follows"."""
    models.check(model)
    if not model.has_nsp:
        raise CompanionError(
            f"{model.name} has no next-sentence head: "
            "choose a BERT, such as mini-bert or bert-base."
        )
    if not isinstance(pairs, (list, tuple)) or not pairs or not all(map(_is_pair, pairs)):
        raise CompanionError("These are no sentence pairs: give a list of at least one (A, B).")
    firsts = batches.checked(model, [first for first, _ in pairs], "sentences")
    seconds = batches.checked(model, [second for _, second in pairs], "sentences")

    def p_next(batch, indices):
        vectors = model.net.base_model(**batch).pooler_output
        return model.nsp_head(vectors).float().softmax(-1)[:, 0].cpu()

    encoded = batches.encode(model, firsts, seconds)
    p = torch.stack(batches.each(model, encoded, p_next, progress=progress))
    return batches.finite(model, p)


def _is_pair(pair) -> bool:
    return isinstance(pair, (list, tuple)) and len(pair) == 2


def strengths(frame) -> np.ndarray:
    """s of each pair of triples, -2 to 2 (equation 2): the preference for the stereotype.

    It is the sum over both sides. The paper's p(Anti)_GS is the file's gs_stereo: on the swapped
    side the same sentence is the anti-stereotype.
    """
    stereo = _column(frame, "stereo")
    anti = _column(frame, "anti")
    gs_stereo = _column(frame, "gs_stereo")
    gs_anti = _column(frame, "gs_anti")
    if not stereo.shape == anti.shape == gs_stereo.shape == gs_anti.shape:
        raise CompanionError(
            "The columns of the triple pairs have unlike lengths: give a value each for every pair."
        )
    return stereo - anti - gs_stereo + gs_anti


def distances(frame) -> np.ndarray:
    """d of each pair of triples, 0 to 1 (equation 3).

    It is the distance between the unrelated sentences of the two genders.
    """
    return np.abs(_column(frame, "unrelated") - _column(frame, "gs_unrelated"))


def strength(frame, share: float = 0.1) -> float:
    """S: the mean s, signed, of the most biased pairs of triples, the top `share` of them."""
    return top_mean(strengths(frame), share)


def distance(frame, share: float = 0.1) -> float:
    """D: the mean d of the most distant pairs of triples, the top `share` of them."""
    return top_mean(distances(frame), share)


def top_mean(values: np.ndarray, share: float = 0.1) -> float:
    """The mean of the highest round(n x share) values, at least one: 23 of 234.

    The paper does not say how it rounds.
    """
    if not 0 < share <= 1:
        raise CompanionError(f"A share of {share} makes no sense: give one above 0 and up to 1.")
    if not len(values):
        raise CompanionError("There are no triple pairs: give at least one.")
    n_top = max(1, round(len(values) * share))
    descending = np.sort(np.asarray(values, dtype=float))[::-1]
    return float(descending[:n_top].mean())


def stereotype_score(frame) -> float:
    """SS as StereoSet defines it: the share of triples whose stereotype beats the anti-stereotype.

    It is of the unswapped side alone, since StereoSet has no other; .5 is no preference. Triples
    with two equal probabilities count as not preferring the stereotype.
    """
    return float(np.mean(_column(frame, "stereo") > _column(frame, "anti")))


def swapped(frame) -> dict:
    """The gender-swapped side as a frame: stereotype and anti-stereotype change places."""
    return {
        "stereo": _column(frame, "gs_anti"),
        "anti": _column(frame, "gs_stereo"),
        "unrelated": _column(frame, "gs_unrelated"),
    }


def right(frame) -> np.ndarray:
    """For each pair of triples the share of its sentences that are classified right at p = .5.

    All sentences follow but the unrelated ones. The mean of these shares is NS of Table 1.
    """
    is_right = []
    for name in COLUMNS:
        if name in frame:
            should_follow = not name.endswith("unrelated")
            is_right.append((_column(frame, name) > 0.5) == should_follow)
    return np.mean(is_right, axis=0)


def _column(frame, name: str) -> np.ndarray:
    if name not in frame:
        raise CompanionError(
            f"The triple pairs lack the column '{name}': give {', '.join(COLUMNS)}."
        )
    return np.asarray(frame[name], dtype=float)
