"""What the patches of all heads say beside the gradient; `result` is what patching.measure
returns.
"""

import numpy as np

from lib.bias_a_head import patching
from lib.engine import stats

SAME = "same sentences"
OTHER = "other sentences"
ITSELF = "the patch itself, other sentences"


def agreement(result: dict, kind: str) -> dict[str, stats.Estimate]:
    """Rank correlations over heads, each the mean of both halves, with a bootstrap over heads.

    Keys: the gradient's with the fall of |SEAT| on the SAME sentences, and on OTHER ones; and of
    the fall with ITSELF on other sentences: how much can be expected of any score.
    """
    gradient = result["gradient"].reshape(2, -1).astype(float)
    fall = patching.falls(result, kind).reshape(2, -1)
    pairs = {
        SAME: (gradient[0], fall[0], gradient[1], fall[1]),
        OTHER: (gradient[0], fall[1], gradient[1], fall[0]),
        ITSELF: (fall[0], fall[1], fall[1], fall[0]),
    }
    return {name: stats.bootstrap(_mean_rank_correlation, *of) for name, of in pairs.items()}


def _mean_rank_correlation(x, y, other_x, other_y, axis: int = -1):
    of_both = [stats.rank_correlation(x, y, axis), stats.rank_correlation(other_x, other_y, axis)]
    return np.mean(of_both, axis=0)
