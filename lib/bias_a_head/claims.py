"""Every claim of Bias A-head. Those that can be tested are written beside their test, by notebook:

claims_scores.py       scores of heads, SEAT, what the gradient predicts: notebook 02
claims_attention.py    the counter-stereotype test: notebook 03
claims_debiased.py     debiased models and LLaMA: notebook 06

A test returns verdicts, one for each claim and thing that it was tested on; the notebooks' tables
are made of them. The arguments are those of tables.py.
"""

import pandas as pd

from lib.bias_a_head.claims_attention import NEGLIGIBLE, OF_ATTENTION, of_attention, of_example
from lib.bias_a_head.claims_debiased import (
    FIG5,
    OF_CHAT,
    OF_DEBIASED,
    counted,
    of_chat,
    of_debiased,
)
from lib.bias_a_head.claims_scores import (
    MOST,
    NO_EFFECT,
    OF_SCORES,
    RIGHT_SIGN,
    SMALL,
    Comparison,
    of_scores,
)
from lib.bias_a_head.claims_shared import (
    CHANCE,
    PAPER,
    SEVERAL,
    beyond_chance,
    panel_text,
    seat_text,
)
from lib.bias_a_head.debiased import darker, turned
from lib.bias_a_head.tables import above_zero
from lib.verdict import Claim, Verdict, by_id

__all__ = [
    "CHANCE",
    "CHAT",
    "CLAIMS",
    "Comparison",
    "DEBIASED",
    "MOST",
    "NEGLIGIBLE",
    "NO_EFFECT",
    "PAPER",
    "RIGHT_SIGN",
    "SEVERAL",
    "SMALL",
    "above_zero",
    "beyond_chance",
    "counted",
    "darker",
    "of_attention",
    "of_chat",
    "of_debiased",
    "of_example",
    "of_scores",
    "panel_text",
    "seat_text",
    "table",
    "turned",
]

AUTO_DEBIAS = Claim(
    id="debiased-auto",
    paper=PAPER,
    where=FIG5,
    says="Auto-Debias alone turns none of the most anti-biased heads",
    not_testable="no model that Auto-Debias made is at hand, and none was made here",
)
ONE_PASS = Claim(
    id="one-pass",
    paper=PAPER,
    where="3.2",
    says="One pass forward and one back give the scores of all heads",
    not_testable="it follows from the score's equation, whatever the model: notebook 02 does it by "
    "hand; benchmarks/README.md has the times",
)
TESTED = OF_SCORES + OF_ATTENTION + OF_DEBIASED + OF_CHAT
CLAIMS = by_id([*TESTED, AUTO_DEBIAS, ONE_PASS])
DEBIASED = [claim.id for claim in OF_DEBIASED]
CHAT = [claim.id for claim in OF_CHAT]


def table(verdicts: list[Verdict]) -> pd.DataFrame:
    """A notebook's table of the claims that it has a name for: claim, where, ours, verdict."""
    rows = []
    for verdict in verdicts:
        claim = CLAIMS[verdict.claim]
        if claim.short:
            row = {
                "claim": claim.short,
                "where": verdict.on,
                "ours": verdict.found,
                "verdict": str(verdict),
            }
            rows.append(row)
    return pd.DataFrame(rows)
