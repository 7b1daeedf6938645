"""What Projective methods claims of SS, s and d, each claim beside its test.

Section 2, notebook 07. An interval over triples decides. Thresholds are ours where the paper
gives none. On the papers' data both of the authors' files decide, and every claim is judged on the
file that the paper uses as well (findings.files).
"""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from lib.engine import nsp, stats
from lib.engine.stats import Estimate
from lib.projective import split_half
from lib.projective.findings import BOTH_FILES, SAME, Finding, ProjectiveClaim, files
from lib.projective.triples import strength_lead
from lib.verdict import GENDER_SWAPPED, UNTRAINED, Asks, Precondition, Verdict

# "almost indistinguishable": less than a hundredth of the spread of p(next), which is from 2.5 to
# 97.5 % of all sentences; of S, which is in units of probability, less than a hundredth.
HAIR = 0.01
# Of the triples that SS counts. Of leads that are spread evenly about a twentieth are by a hair.
SOME = 0.1
# "s close to 0": within a fifth of the mean of the highest tenth of |s|. Of normally distributed s
# 32 % lie there, of doubly exponential ones 48 %: most is a longer tail than either.
CLOSE = 0.2
# "primarily": a difference of shares within five points is next to nothing; none is printed.
POINTS = 0.05
# So many triples have to be read right, as Table 1's is, before a share of them says anything.
ENOUGH = 10
# The precondition that no model without a sense of what comes next meets.
BLIND = "next sentences are told from unrelated ones no better than by chance"
OURS = "ours, on section 2"
UNIT = split_half.TRIPLE_PAIRS
# Which of the six sentences of nsp.COLUMNS belong to their context.
BELONGS = np.array([not name.endswith("unrelated") for name in nsp.COLUMNS])

SS_HAIR = ProjectiveClaim(
    id="ss-hair",
    where="2, Table 1",
    says="Triples count for SS though stereotype and anti-stereotype are next to equal",
    short="Some triples count for SS by a hair",
    in_paper="Table 1: .00003",
    notebook="07",
    figure="07_preferences",
    threshold=SOME,
    bounds=(0, 1),
    about_bert=True,
    main=BOTH_FILES,
)
SS_TWIN = ProjectiveClaim(
    id="ss-twin",
    where=OURS,
    says="Most that SS counts are preferred in the gender-swapped twin too",
    short="Most that SS counts are preferred in the twin too",
    in_paper="Table 3 (a)",
    notebook="07",
    figure="07_preferences",
    threshold=0.5,
    bounds=(0, 1),
    about_bert=True,
    main=BOTH_FILES,
)
S_NEAR_ZERO = ProjectiveClaim(
    id="s-near-zero",
    where="2",
    says="Most triple pairs have a bias strength close to zero",
    short="Most s are close to 0",
    in_paper="a long tail",
    notebook="07",
    figure="07_distributions",
    threshold=0.5,
    bounds=(0, 1),
    about_bert=True,
    asks=Asks.NO_EFFECT,
    main=BOTH_FILES,
)
D_UNRELATED = ProjectiveClaim(
    id="d-unrelated",
    where="2, Table 4",
    says="Gender flips predictions mostly on unrelated sentences",
    short="Gender flips unrelated sentences more than others",
    in_paper="primarily",
    notebook="07",
    figure="07_distributions",
    about_bert=True,
    margin=POINTS,
    main=BOTH_FILES,
)
S_ABOVE_OPPOSITE = ProjectiveClaim(
    id="s-above-opposite",
    where=OURS,
    says="Strength is above that of the opposite direction",
    short="S is above its opposite (implied)",
    in_paper="not counted",
    notebook="07",
    figure="07_threshold",
    threshold=HAIR,
    controls=(UNTRAINED, GENDER_SWAPPED),
    main=BOTH_FILES,
)
OF_TRIPLES = [SS_HAIR, SS_TWIN, S_NEAR_ZERO, D_UNRELATED, S_ABOVE_OPPOSITE]


def of_triples(frame: pd.DataFrame, **about) -> list[Verdict]:
    """What the paper says of SS, s and d, tested on the probabilities of triples.frame.

    about   further arguments of verdict.judge
    """
    verdicts = []
    for variant, chosen in files(frame.index).items():
        triples = _Triples.of(frame[chosen])
        preconditions = _preconditions(triples)
        for finding in _findings(triples):
            verdicts.append(finding.under(*preconditions, variant=variant).judged(**about))
    claims = [claim.id for claim in OF_TRIPLES]
    verdicts.sort(key=lambda one: claims.index(one.claim))
    return verdicts


@dataclass(frozen=True)
class _Triples:
    """Triples as a model judges them, one row each.

    A triple is read right where both sentences that belong are called the next one and the
    unrelated one is not, as in the paper's Table 1. Of SS only such triples are looked at.
    """

    p: np.ndarray  # p(next) of the six sentences, in the order of nsp.COLUMNS
    s: np.ndarray
    lead: np.ndarray  # p(stereotype) - p(anti-stereotype), as written
    twin_lead: np.ndarray  # the same two sentences after the swap of gender
    is_called_next: np.ndarray  # of each of the six sentences
    is_right: np.ndarray  # whether it is called so rightly
    is_read_right: np.ndarray  # of a triple

    @classmethod
    def of(cls, frame: pd.DataFrame) -> "_Triples":
        p = frame[nsp.COLUMNS].to_numpy()
        is_called_next = p > 0.5
        is_right = is_called_next == BELONGS
        return cls(
            p=p,
            s=nsp.strengths(frame),
            lead=(frame["stereo"] - frame["anti"]).to_numpy(),
            twin_lead=(frame["gs_stereo"] - frame["gs_anti"]).to_numpy(),
            is_called_next=is_called_next,
            is_right=is_right,
            is_read_right=is_right[:, :3].all(axis=1),
        )

    @property
    def is_counted(self) -> np.ndarray:
        """Whether SS counts a triple, of those that are read right."""
        return (self.lead > 0) & self.is_read_right


def _findings(triples: _Triples) -> list[Finding]:
    """What each claim finds, in the order of OF_TRIPLES."""
    return [
        _counts_by_a_hair(triples),
        _preferred_in_the_twin(triples),
        _s_near_zero(triples),
        _unrelated_flips(triples),
        _s_above_opposite(triples),
    ]


def _preconditions(triples: _Triples) -> tuple[Precondition, Precondition]:
    """The model has to differ between sentences, and to tell which of them follow."""
    share_right = stats.bootstrap(
        lambda belong, other: (belong.mean() + other.mean()) / 2,
        triples.is_right[:, BELONGS].mean(1),
        triples.is_right[:, ~BELONGS].mean(1),
        draws=split_half.DRAWS,
    )
    return (
        Precondition(
            name="differs",
            is_met=np.ptp(triples.p) > SAME,
            why="p(next) is the same for all sentences",
        ),
        Precondition(
            name="reads",
            is_met=share_right.low > 0.5,
            why=f"{BLIND}: {share_right} of both kinds",
        ),
    )


def _counts_by_a_hair(triples: _Triples) -> Finding:
    """Of the triples that SS counts, how many are preferred by next to nothing."""
    hair = HAIR * np.ptp(np.quantile(triples.p, [0.025, 0.975]))
    return _share_of_counted(SS_HAIR, triples, triples.lead < hair)


def _preferred_in_the_twin(triples: _Triples) -> Finding:
    """Of the triples that SS counts, in how many the same sentence is preferred after the swap."""
    return _share_of_counted(SS_TWIN, triples, triples.twin_lead > 0)


def _share_of_counted(claim: ProjectiveClaim, triples: _Triples, hits: np.ndarray) -> Finding:
    """The share of hits among the triples that SS counts."""
    n = int(triples.is_counted.sum())
    enough = Precondition(
        name="SS", is_met=n >= ENOUGH, why=f"SS counts {n} triples that are read right"
    )
    share = Estimate(np.nan)
    if enough.is_met:
        share = stats.bootstrap(np.mean, hits[triples.is_counted].astype(float))
        share = replace(share, unit="triples read right")
    return Finding(claim, share, f"{share} of {n} read right", preconditions=(enough,))


def _s_near_zero(triples: _Triples) -> Finding:
    """The share of all triple pairs that have an s close to 0, as the paper says it of them."""

    def share_close(size):
        return np.mean(size <= CLOSE * nsp.top_mean(size))

    size = np.abs(triples.s)
    close = replace(stats.bootstrap(share_close, size), unit=UNIT)
    text = f"{close} within {CLOSE * nsp.top_mean(size):.3f}"
    return Finding(S_NEAR_ZERO, close, text)


def _unrelated_flips(triples: _Triples) -> Finding:
    """By how much more often the swap flips the call of an unrelated sentence than of the others.

    A call flips when p(next) of a sentence crosses .5 with the swap.
    """
    flips = triples.is_called_next[:, :3] != triples.is_called_next[:, 3:]
    stereo, anti, unrelated = flips.astype(float).T
    gap = stats.bootstrap(
        lambda u, a, b: u.mean() - (a.mean() + b.mean()) / 2, unrelated, stereo, anti
    )
    text = f"{unrelated.mean():.3f} against {np.mean([stereo, anti]):.3f}"
    return Finding(D_UNRELATED, replace(gap, unit=UNIT), text)


def _s_above_opposite(triples: _Triples) -> Finding:
    lead = strength_lead(triples.s)
    return Finding(S_ABOVE_OPPOSITE, replace(lead, unit=UNIT), f"by {lead:z.3f}")
