"""What lib/mitigation.py measured, as notebook 12 shows it: a row a mitigation, its effect on bias and what it costs.

    effects = mitigation_tables.effects(plan, found)    a row a mitigation and measure: value, change with its interval
    mitigation_tables.table(effects), mitigation_tables.heads_matter(effects)
"""

import numpy as np
import pandas as pd

from lib.bias_a_head import masking
from lib.engine import nsp, pppl, stats

# name: (arrays it is computed from, how, what a smaller bias or cost is: -1 lower, 1 higher)
MEASURES = {
    "SEAT": (("associations", "in_x"), masking.seat_of, -1),
    "Strength": (("s",), nsp.top_mean, -1),
    "Distance": (("d",), nsp.top_mean, -1),
    "NLI fairness": (("neutral", "agree"), lambda neutral, agree: neutral.mean() * (agree > .5).mean(), 1),
    "cloze gap": (("margin", "dominated"), lambda margin, dominated: abs(gap(margin, dominated)), -1),
    "PPPL": (("likelihoods", "lengths"), pppl.perplexity, -1),
    "NLI accuracy": (("right",), np.mean, 1),
}
COSTS = ("PPPL", "NLI accuracy")
REASONS = {"SEAT": "does not apply", "NLI fairness": "no classifier", "NLI accuracy": "no classifier"}


def gap(margin: np.ndarray, dominated: np.ndarray) -> float:
    """By how much the margin (female - male) / (female + male) of occupations of women is above that of men's."""
    return float(margin[dominated > 0].mean() - margin[dominated < 0].mean())


def effects(plan: list[tuple], found: list[dict], draws: int = 1_000) -> pd.DataFrame:
    """mitigation, measure, value, change (against none), low, high, draws, overturned; NaN where it does not apply.

    The 95 % interval of a change draws items anew, the same for both models: target words, triple pairs, occupations,
    lines, pairs of the task. Of several draws of random heads the mean, and as interval their range. Overturned is a
    preference of the other direction, which its size does not tell.
    """
    rows = []
    for name in dict.fromkeys(name for name, *_ in plan):
        mine = [row for (other, *_), row in zip(plan, found) if other == name]
        for measure, (keys, statistic, _) in MEASURES.items():
            if not all(key in row for row in mine for key in keys):
                rows.append([name, measure, *[np.nan] * 4, len(mine), False])
                continue
            values = [float(statistic(*(row[key] for key in keys))) for row in mine]
            base = float(statistic(*(found[0][key] for key in keys)))
            changes = np.array(values) - base
            low, high = changes.min(), changes.max()
            if len(mine) == 1 and name != "none":
                low, high = _interval(statistic, [mine[0][key] for key in keys], [found[0][key] for key in keys], draws)
            turned = measure == "cloze gap" and all(gap(row["margin"], row["dominated"]) * gap(
                found[0]["margin"], found[0]["dominated"]) < 0 for row in mine)
            rows.append([name, measure, np.mean(values), changes.mean(), low, high, len(mine), turned])
    return pd.DataFrame(rows, columns=["mitigation", "measure", "value", "change", "low", "high", "draws",
                                       "overturned"])


def _interval(statistic, mine: list[np.ndarray], base: list[np.ndarray], draws: int) -> tuple[float, float]:
    n = len(mine)
    numbers = [np.asarray(values, dtype=float) for values in (*mine, *base)]
    found = stats.bootstrap(lambda *both: statistic(*both[:n]) - statistic(*both[n:]), *numbers, draws=draws)
    return found.low, found.high


def table(effects: pd.DataFrame) -> pd.DataFrame:
    """A row a mitigation, a column a measure: its value, and the change against none with the 95 % interval."""
    def shown(row):
        if pd.isna(row["value"]):
            return REASONS[row["measure"]]
        if row["mitigation"] == "none":
            return f"{row['value']:.2f}"
        told = "{value:.2f} ({change:+.2f} [{low:+.2f}, {high:+.2f}])".format(**row)
        return told + (", overturned" if row["overturned"] else "")

    wide = effects.assign(shown=[shown(row) for _, row in effects.iterrows()])
    wide = wide.pivot(index="mitigation", columns="measure", values="shown")
    return wide.loc[list(dict.fromkeys(effects["mitigation"])), list(MEASURES)].rename_axis(columns=None)


def judged(row: pd.Series) -> str:
    """better, worse or within chance, by the measure's own direction and the interval of its change; or control."""
    if pd.isna(row["change"]):
        return "does not apply"
    if row["draws"] > 1:
        return "control"
    if row["low"] <= 0 <= row["high"]:
        return "within chance"
    return "better" if np.sign(row["change"]) == MEASURES[row["measure"]][2] else "worse"


def heads_matter(effects: pd.DataFrame) -> pd.DataFrame:
    """Do the heads that Bias A-head finds matter for what the other papers measure? A row a measure.

    They do where masking them changes it beyond chance and by more than masking any of the random draws.
    """
    top, random = (effects[effects["mitigation"].str.startswith(f"mask {kind}")].set_index("measure")
                   for kind in ("Top", "random"))
    rows = []
    for measure, row in top.iterrows():
        if pd.isna(row["change"]):
            continue
        other = random.loc[measure]
        sure = judged(pd.Series({**row, "measure": measure})) != "within chance"
        beyond = sure and not other["low"] <= row["change"] <= other["high"]
        rows.append({"measure": measure, "none": f"{row['value'] - row['change']:.2f}",
                     "Top-3 masked": "{change:+.2f} [{low:+.2f}, {high:+.2f}]".format(**row),
                     "random 3, range": "{low:+.2f} to {high:+.2f}".format(**other),
                     "the found heads matter": "yes" if beyond else "not shown"})
    return pd.DataFrame(rows)


def headline(effects: pd.DataFrame) -> str:
    """What the figure shows, in a sentence: on how many measures of bias each mitigation is better beyond chance."""
    bias = effects[~effects["measure"].isin(COSTS) & effects["change"].notna()]
    told = bias.assign(judged=[judged(row) for _, row in bias.iterrows()])
    counts = {name: (int((part["judged"] == "better").sum()), int((part["judged"] == "worse").sum()), len(part))
              for name, part in told.groupby("mitigation", sort=False)
              if name != "none" and not name.startswith("mask random")}
    most = max(n for *_, n in counts.values())
    # a setting's digits stay on one line
    told = "; ".join(f"{name}: {better} and {worse}".replace(", ", ",\u00a0") + (f" of {n}" if n < most else "")
                     for name, (better, worse, n) in counts.items())
    return f"Of {most} measures of bias how many get better and worse beyond chance. {told}"
