"""What the three papers' remedies come to on one model, from arrays of lib/together.py.

Every measure is compared with that of the untouched model on the same items. A remedy that chooses
heads is judged on the half of the sentences that did not choose them.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from companion import look
from lib.bias_a_head import masking
from lib.engine import nsp, pppl, stats
from lib.together import Remedy, Role


class Effect(StrEnum):
    """What a remedy does to a measure."""

    BETTER = "better"
    WORSE = "worse"
    UNDECIDED = "undecided"
    CONTROL = "control"
    NONE = "does not apply"


COLOURS = {Effect.BETTER: look.GOOD, Effect.WORSE: look.BAD}  # of others grey


# ---- measures
def gap(margin: np.ndarray, dominated: np.ndarray) -> float:
    """By how much the mean margin of women's occupations is above that of men's.

    A margin is (female - male) / (female + male).
    """
    return float(margin[dominated > 0].mean() - margin[dominated < 0].mean())


def size_of_gap(margin: np.ndarray, dominated: np.ndarray) -> float:
    return abs(gap(margin, dominated))


def fairness(neutral: np.ndarray, agree: np.ndarray) -> float:
    """The mean share of neutral answers, times the share of occupations that mostly agree."""
    return neutral.mean() * (agree > 0.5).mean()


def share_right(log_odds: np.ndarray) -> float:
    """The share of sentences in which the right pronoun is the likelier one."""
    return (log_odds > 0).mean()


class Measure(NamedTuple):
    """How a measure is computed from its arrays (lib/together.py)."""

    statistic: Callable[..., float]
    better: int  # the direction in which bias or cost is smaller: -1 lower, 1 higher
    is_cost: bool = False
    missing: str = ""  # what a table says where there is none
    # The same with its direction, which a remedy can overturn.
    signed: Callable[..., float] | None = None


MEASURES = {
    "SEAT": Measure(masking.seat_of, -1, missing="does not apply"),
    "Strength": Measure(nsp.top_mean, -1, missing="no next-sentence head"),
    "Distance": Measure(nsp.top_mean, -1, missing="no next-sentence head"),
    "NLI fairness": Measure(fairness, 1, missing="no classifier"),
    "cloze gap": Measure(size_of_gap, -1, signed=gap),
    "PPPL": Measure(pppl.perplexity, -1, is_cost=True),
    "NLI accuracy": Measure(np.mean, 1, is_cost=True, missing="no classifier"),
    "factual gender": Measure(share_right, 1, is_cost=True, missing="no such words"),
}
COSTS = tuple(name for name, measure in MEASURES.items() if measure.is_cost)


# ---- effects
def effects(plan: list[Remedy], measured: list[dict], draws: int = 1_000) -> pd.DataFrame:
    """One row per remedy and measure; change and beyond are Estimates, None where a measure does
    not apply. Columns: mitigation, role, measure, and these:

    value        of a remedy with several choices of heads their mean
    change       to the untouched model on the same half of the sentences
    beyond       for the heads found, the change less that of the random ones
    overturned   whether the preference has the other direction, which its size does not tell
    """
    untouched = {}  # by half
    choices = {}  # of heads, by remedy: what was measured, and of the untouched model
    for remedy, arrays in zip(plan, measured):
        if remedy.role == Role.NONE:
            untouched[remedy.half] = arrays
        pair = arrays, untouched[remedy.half]
        choices.setdefault((remedy.name, remedy.role), []).append(pair)
    random = next((pairs for (_, role), pairs in choices.items() if role == Role.CONTROL), [])
    rows = []
    for (name, role), chosen in choices.items():
        for title in MEASURES:
            row = {"mitigation": name, "role": role, "measure": title, "value": np.nan}
            row |= {"change": None, "overturned": False, "beyond": None}
            if title in chosen[0][0]:
                controls = random if role == Role.FOUND else []
                row |= _effect(title, chosen, controls, draws)
            rows.append(row)
    return pd.DataFrame(rows)


def _effect(title: str, chosen: list[tuple], controls: list[tuple], draws: int) -> dict:
    """The columns of `effects` for one remedy and a measure that applies."""
    measure = MEASURES[title]
    pairs, of_controls = ([_floats(pair, title) for pair in some] for some in (chosen, controls))
    effect = {
        "value": np.mean([measure.statistic(*after) for after, _ in pairs]),
        "change": _mean_change(measure.statistic, pairs, [], draws),
    }
    if controls:
        effect["beyond"] = _mean_change(measure.statistic, pairs, of_controls, draws)
    if measure.signed is not None:
        signs = [measure.signed(*after) * measure.signed(*before) for after, before in pairs]
        effect["overturned"] = all(sign < 0 for sign in signs)
    return effect


def _floats(pair: tuple[dict, dict], title: str) -> list[list[np.ndarray]]:
    return [[np.asarray(array, float) for array in arrays[title]] for arrays in pair]


def _mean_change(
    statistic: Callable[..., float], pairs: list, controls: list, draws: int
) -> stats.Estimate:
    """The mean change of a statistic over the pairs, less that over the controls.

    A draw takes items anew, the same for both models and all choices of heads, and then the choices
    themselves.
    """
    n = len(pairs[0][0][0])
    rng = np.random.default_rng(0)

    def change(pair, items) -> float:
        after, before = ([array[items] for array in arrays] for arrays in pair)
        return float(statistic(*after)) - float(statistic(*before))

    def beyond(items, pairs, controls) -> float:
        of_pairs = np.mean([change(pair, items) for pair in pairs])
        return of_pairs - sum(change(pair, items) for pair in controls) / max(1, len(controls))

    def drawn_from(some: list) -> list:
        return [some[place] for place in rng.integers(len(some), size=len(some))] if some else []

    drawn = [beyond(np.arange(n), pairs, controls)]
    for _ in range(draws):
        items = rng.integers(n, size=n)
        drawn.append(beyond(items, drawn_from(pairs), drawn_from(controls)))
    known = np.array(drawn)[~np.isnan(drawn)]  # a draw of one gender alone has no gap
    return stats.redrawn(known, n)


def judged(row) -> Effect:
    """What a row of `effects` shows, by the measure's own direction and the change's interval."""
    if row["change"] is None:
        return Effect.NONE
    if row["role"] == Role.CONTROL:
        return Effect.CONTROL
    sign = row["change"].is_above() - row["change"].is_below()
    if not sign:
        return Effect.UNDECIDED
    return Effect.BETTER if sign == MEASURES[row["measure"]].better else Effect.WORSE


def matters(row) -> bool:
    """Whether the heads found change a measure, and by more than random heads do.

    Both intervals have to lie on the same side of 0.
    """
    both = row["change"], row["beyond"]
    return all(one.is_above() for one in both) or all(one.is_below() for one in both)


def best_settings(stored: Mapping[str, pd.DataFrame | None]) -> tuple[str, str]:
    """Names of the setting of lowest S (08) and of the fairest viable one (09); "" where unknown.

    In the latter most contexts agree, and viable is within 5 points of base, as notebook 09 marks
    it. Of equals the first is taken, or the more accurate one.
    stored   08_table7 and 09_table7 as the notebooks save them, None where one is missing
    """
    lowest = ""
    if stored["08_table7"] is not None:
        intrinsic = stored["08_table7"].set_index("model")[2:]
        lowest = stats.settled(intrinsic["S"]).idxmin()
    if stored["09_table7"] is None:
        return lowest, ""
    inference = stored["09_table7"].set_index("model")[2:]
    viable = inference[inference["viable"].isin(["yes", "in points"])]
    ranked = viable.sort_values(["eta, most", "SNLI"], ascending=False, kind="stable").index
    return lowest, ranked[0] if len(ranked) else ""


# ---- the figure
def figure(changes: pd.DataFrame):
    """What each remedy changes on each measure (`effects` without the untouched model), a panel a
    measure.
    """
    remedies = changes["mitigation"].unique()
    size = (look.PAGE + 1.5, 0.72 * len(remedies) + 2.6)
    columns = len(MEASURES) // 2
    figure, axes = plt.subplots(2, columns, figsize=size, layout="constrained", sharey=True)
    for ax, measure in zip(axes.flat, MEASURES):
        _draw_changes(ax, changes[changes["measure"] == measure], measure)
    look.rows(axes[0, 0], remedies)
    return figure


def _draw_changes(ax, rows: pd.DataFrame, measure: str):
    """Of one measure: the change by remedy, in the order of the rows, with its interval."""
    for y, row in enumerate(rows.to_dict("records")):
        if row["change"] is None:
            across = ax.get_yaxis_transform()
            text = ax.text(0.5, y, "does not apply", fontsize=7, transform=across)
            text.set(color=look.NEITHER, ha="center", va="center")
        else:
            look.dots(ax, [row["change"]], [y], color=COLOURS.get(judged(row), look.NEITHER))
    is_cost = measure in COSTS
    better = "better →" if MEASURES[measure].better > 0 else "← better"
    look.mark(ax)
    ax.set_title(measure, fontsize=9)
    ax.set_xlabel(f"cost: {better}" if is_cost else better, fontsize=7.5)
    ax.tick_params(labelsize=7)
    ax.locator_params(axis="x", nbins=3)
    if is_cost:
        ax.set_facecolor("#F7F7F5")
