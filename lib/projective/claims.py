"""What Projective methods claims. Each claim is written beside its test, by notebook:

claims_triples.py        SS, s and d: notebook 07
claims_projections.py    projections, S and D: notebook 08
claims_nli.py            projections and natural language inference: notebook 09

    claims.of_triples(frame)
    claims.of_projections(measured)
    claims.of_nli(measured, strength)
    claims.of_bias(measured, "S")[WRITTEN].best(claims.OF_LEVEL["Layer 11"])   see split_half.py
    claims.of_fairness(measured).best(claims.OF_LEVEL["Layer 11"])
"""

from collections.abc import Mapping

import pandas as pd

from lib.engine import stats
from lib.projective.claims_nli import OF_NLI, of_nli, rho_within
from lib.projective.claims_projections import OF_PROJECTIONS, of_projections
from lib.projective.claims_triples import OF_TRIPLES, of_triples
from lib.projective.findings import RANDOM
from lib.projective.split_half import AGREE, EVERY, OF_LEVEL, Best, Halves, of_bias, of_fairness
from lib.projective.tables import PAPER
from lib.projective.triples import strength_lead
from lib.verdict import Claim, by_id

__all__ = [
    "AGREE",
    "CLAIMS",
    "EVERY",
    "OF_LEVEL",
    "OF_NLI",
    "OF_PROJECTIONS",
    "OF_TRIPLES",
    "RANDOM",
    "SAID",
    "Best",
    "Halves",
    "best_settings",
    "of_bias",
    "of_fairness",
    "of_nli",
    "of_projections",
    "of_triples",
    "rho_within",
    "strength_lead",
]

OTHER_ARCHITECTURES = Claim(
    id="other-architectures",
    paper=PAPER,
    where="6",
    says="The methods apply to other architectures as they are",
    not_testable="other families have no next-sentence head to measure S by; that the projections "
    "run there is tested (tests/test_projection.py)",
)
FAST = Claim(
    id="fast",
    paper=PAPER,
    where="1, 6",
    says="Projections are fast to find and apply",
    not_testable="no time or threshold is stated; benchmarks/README.md has the times of this "
    "project",
)
TESTED = OF_TRIPLES + OF_PROJECTIONS + OF_NLI
CLAIMS = by_id([*TESTED, OTHER_ARCHITECTURES, FAST])
# What the paper says, or what its printed numbers give when they are counted as ours are.
SAID = {claim.id: claim.in_paper for claim in TESTED}


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
