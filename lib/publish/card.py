"""What the papers presuppose of their models, and notebook 01 tests: that these read, and know something of the world.
"""

from dataclasses import replace

import pandas as pd

from lib.engine.stats import Estimate
from lib.verdict import Claim, Side, Verdict, by_id, judge, not_run

ODDS = Claim("odds-rise", "", "", "the odds of she rise with the share of women in an occupation", "01",
             "01_pronoun_odds")
FOLLOWS = Claim("next-follows", "", "", "related sentences are called next, unrelated ones are not", "01",
                "01_next_sentences", side=Side.AT_LEAST, threshold=1)  # all of the pairs
CLAIMS = by_id([ODDS, FOLLOWS])  # of no paper


def checks(rises: dict[str, Estimate], follows: pd.DataFrame | None) -> list[Verdict]:
    """Pronouns follow the labour statistics in each model; related sentences follow in the first.

    rises    rank correlation of the odds of she with the share of women, by model name; its low end has to be above 0
    follows  columns label (stereotype, anti_stereotype, unrelated) and probability (of being next); None: no such head
    """
    verdicts = [replace(judge(ODDS, rho.low, on=name, found=f"rank correlation {rho}", models=[name]), estimate=rho)
                for name, rho in rises.items()]
    first = next(iter(rises))
    if follows is None:
        return [*verdicts, not_run(FOLLOWS, "no next-sentence head", on=first, models=[first])]
    right = (follows.probability > .5) == (follows.label != "unrelated")
    return [*verdicts, judge(FOLLOWS, right.mean(), on=first, found=f"{right.sum()} of {len(right)} pairs",
                             models=[first])]
