"""A search of one's own: for a fine-tuned classifier, the setting that is fairest and still does the task.

Projective methods ends on this advice: intrinsic bias does not tell which setting a task wants, so measure the task's
own bias on a development set, search the settings there, and trim the search by what section 5 observed.

    nli_search.search(found, strength)      what each way of choosing gives on data that it did not choose by
    nli_search.trimmed()                    the settings that section 5's observations leave

`found` is what nli_sweep.py makes of any classifier; the 76 models come from one sweep, so a search costs nothing
beyond it.
"""

import numpy as np
import pandas as pd

from lib.projective import nli, projection


def trimmed() -> list[projection.Setting]:
    """The settings with weighting at SENT and no second component taken out whole: 22 of 74."""
    def hard(cut):
        return cut is not None and cut.second and not cut.weighted

    return [one for one in projection.settings() if one.sent.weighted and not hard(one.tokens) and not hard(one.cls)]


def search(found: dict, strength: pd.Series, agree: str = "most", splits: int = 200, seed: int = 0) -> pd.DataFrame:
    """Choose on a random half of occupations and task pairs, test on the other half; the mean over `splits` of both.

    A row a way of choosing: from how many models; the one chosen most often and in which share of the splits; eta
    where chosen and where tested (with the range that 95 % of the splits fall in); accuracy at the task; the share of
    splits in which the chosen model was viable (within 5 points) when tested. agree: "all" contexts, or "most".
    """
    every = projection.models()
    pairs, rng = nli.pairs(found["reading"], found["contexts"]), np.random.default_rng(seed)
    tables = [nli.by_occupation(p, pairs, found["labels"]) for p in found["probabilities"]]
    neutral, same = (np.array([table[column] for table in tables]) for column in ("neutral", "agree"))
    parity, right = same == 1 if agree == "all" else same > .5, found["right"]
    intrinsic = strength.loc[[setting.name for setting in every]].to_numpy()
    every_place = [every.index(setting) for setting in projection.settings()]
    trimmed_place = [every.index(setting) for setting in trimmed()]
    ways = {"the base model": [0], "eta of viable ones": every_place, "the same, trimmed by section 5": trimmed_place,
            "Strength alone": every_place, "Strength of viable ones": every_place}
    rows = {way: [] for way in ways}
    for _ in range(splits):
        first, second = (_halves(rng, n) for n in (neutral.shape[1], right.shape[1]))
        eta = [neutral[:, part].mean(1) * parity[:, part].mean(1) for part in first]
        accuracy = [right[:, part].mean(1) for part in second]
        viable = [nli.viable(part, part[0]) for part in accuracy]
        for way, places in ways.items():
            fit = np.array(places)
            kept = fit[viable[0][fit]] if "viable" in way or "same" in way else fit
            kept = kept if len(kept) else np.array([0])  # nothing is viable: nothing is changed
            worth = -intrinsic if "Strength" in way else eta[0]
            chosen = max(kept, key=lambda i: (worth[i], accuracy[0][i]))
            rows[way].append((chosen, eta[0][chosen], eta[1][chosen], accuracy[1][chosen], viable[1][chosen]))
    return pd.DataFrame([_summary(way, len(ways[way]), rows[way], every) for way in ways]).set_index("chosen by")


def _halves(rng, n: int) -> tuple[np.ndarray, np.ndarray]:
    order = rng.permutation(n)
    return order[:n // 2], order[n // 2:]


def _summary(way: str, searched: int, rows: list[tuple], every: list) -> dict:
    chosen, before, after, accuracy, viable = (np.array(column) for column in zip(*rows))
    most, times = max(zip(*np.unique(chosen, return_counts=True)), key=lambda pair: pair[1])
    low, high = np.quantile(after, [.025, .975])
    return {"chosen by": way, "models": searched, "most often": every[most].name, "in": round(times / len(rows), 2),
            "eta where chosen": round(before.mean(), 2),
            "eta where tested": f"{after.mean():.2f} [{low:.2f}, {high:.2f}]",
            "SNLI where tested": round(accuracy.mean(), 3), "viable there": round(viable.mean(), 2)}
