"""What Bias A-head claims of GLUE with heads masked (Table 2), each claim beside its test.

Notebook 05. Our scores are over the tasks that the unmasked model has learned, a task once, by its
first metric there; intervals are over seeds.
"""

from dataclasses import replace

import pandas as pd

from lib.bias_a_head import glue, tables
from lib.bias_a_head.claims_shared import PAPER
from lib.engine import stats
from lib.verdict import CONTROLS, Asks, Claim, Control, Side, Verdict, judge, not_run

COMPARABLE = 0.01  # how much lower a GLUE score may be
TABLE2 = "App. A, Table 2"

TOP3 = Claim(
    id="glue-top3",
    paper=PAPER,
    where=TABLE2,
    says="Masking the Top-3 leaves GLUE scores comparable",
    notebook="05",
    figure="05_changes",
    short="Masking the top 3 heads keeps the scores comparable",
    side=Side.ABOVE,
    threshold=-COMPARABLE,
    controls=CONTROLS,
    asks=Asks.COST,
    on_any_data=True,
)
ALL = Claim(
    id="glue-all",
    paper=PAPER,
    where=TABLE2,
    says="Masking all biased heads worsens GLUE scores",
    notebook="05",
    figure="05_changes",
    short="Masking all biased heads worsens them",
    side=Side.BELOW,
    controls=CONTROLS,
    asks=Asks.COST,
    on_any_data=True,
)
OF_GLUE = [TOP3, ALL]


def of_glue(runs: pd.DataFrame, model: str, **about) -> list[Verdict]:
    """Verdicts on all claims of OF_GLUE; runs: see tables.py; about: options of `judge`.

    Both are about cost: as many random heads, where they were masked too, are only shown.
    """
    runs = runs[runs["row"].isin(tables.learned(runs))]
    if runs.empty:
        why = "no task is done that the unmasked model has learned"
        return [not_run(claim, why) for claim in OF_GLUE]
    first_metric = runs.groupby("task")["row"].first()
    runs = runs[runs["row"].isin(first_metric)]
    scores = runs.pivot(index=["task", "seed"], columns="mask", values="score")
    of_top3, _ = _compared(scores, "top3", "random3")
    of_all, control = _compared(scores, "all", "randomall")
    return [
        judge(TOP3, of_top3[0], found=of_top3[1], models=[model], **about),
        judge(ALL, of_all[0], found=of_all[1], models=[model], control=control, **about),
    ]


def _compared(
    scores: pd.DataFrame, mask: str, random: str
) -> tuple[tuple[stats.Estimate, str], Control | None]:
    """The change of the scores under a mask, and in words; random heads, where they were masked.

    scores         [(task, seed), mask], by the names of masks in Table 2
    mask, random   keys of glue.MASKS and glue.RANDOM
    """
    masked = scores[glue.MASKS[mask]]
    full = scores[glue.MASKS["none"]]
    change, tasks = _mean_over_seeds(masked - full)
    found = f"{change:+.3f}, {tasks}"
    name = glue.RANDOM[random]
    if name not in scores:
        return (change, found), None
    cost, tasks = _mean_over_seeds(scores[name] - full)
    difference, _ = _mean_over_seeds(masked - scores[name])
    found += f"; {name} {cost:+.3f}, {tasks}"
    return (change, found), Control(name, cost, difference)


def _mean_over_seeds(changes: pd.Series) -> tuple[stats.Estimate, str]:
    """The mean change over seeds, of the tasks where every seed has one; and these tasks."""
    complete = changes.unstack("seed").dropna()
    return replace(stats.mean(complete.mean()), unit="seeds"), ", ".join(complete.index)
