"""What a test of a claim of Projective methods finds, and how it is judged."""

from dataclasses import dataclass, replace

import numpy as np

from lib.engine import stats
from lib.engine.stats import Estimate
from lib.projective.split_half import Best
from lib.projective.tables import PAPER
from lib.verdict import Claim, Control, Precondition, Verdict, judge

RANDOM = "random directions"  # the control of equal size
# Of a printed effect: what is smaller is next to nothing. A bundled model is smaller than the
# paper's, and its effects may be; less than a quarter would not be what the paper reports.
SHARE = 0.25
SAME = 1e-6  # a smaller difference is none: of a model that gives one answer to everything


@dataclass(frozen=True, kw_only=True)
class ProjectiveClaim(Claim):
    """A claim of the paper, and what the paper has for it."""

    paper: str = PAPER
    # What the paper says, or what its printed numbers give when they are counted as ours are.
    in_paper: str

    def __post_init__(self):
        if not self.short:  # then the notebook's table names it in full
            object.__setattr__(self, "short", self.says)


@dataclass(frozen=True)
class Finding:
    """What one test of a claim measured."""

    claim: Claim
    estimate: Estimate | float  # it decides, unless `samples_met` does
    text: str  # the same in words
    preconditions: tuple[Precondition, ...] = ()
    samples_met: float | None = None  # the share of bootstrap samples that meet the claim
    control: Control | None = None
    variant: str = ""  # the analysis variant
    remark: str = ""
    margin: float | None = None  # where the claim's comes from the data

    def under(self, *preconditions: Precondition, variant: str = "") -> "Finding":
        """The same with further preconditions, asked first, and of an analysis variant."""
        return replace(
            self,
            preconditions=(*preconditions, *self.preconditions),
            variant=variant or self.variant,
        )

    def judged(self, **about) -> Verdict:
        """The verdict. about: further arguments of verdict.judge."""
        estimate = self.estimate
        claim = self.claim
        if claim.margin_from_data and self.margin is not None:
            claim = replace(claim, margin=self.margin)
        value = estimate.value if isinstance(estimate, Estimate) else estimate
        return judge(
            claim,
            estimate,
            found="" if np.isnan(float(value)) else self.text,
            preconditions=self.preconditions,
            samples_met=self.samples_met,
            control=self.control,
            variant=self.variant,
            remark=self.remark,
            **about,
        )


def of_count(
    claim: Claim,
    counts: np.ndarray,
    text: str,
    *preconditions: Precondition,
    random_counts: np.ndarray | None = None,
) -> Finding:
    """A finding decided by the share of bootstrap samples in which a count meets the claim.

    counts          in the sample, and in bootstrap samples of it
    random_counts   the same under random directions, where the claim is about what a projection
                    does
    """
    control = None
    if random_counts is not None:
        control = Control(
            name=RANDOM,
            estimate=stats.redrawn(random_counts, 0),
            difference=stats.redrawn(counts - random_counts, 0),
        )
    met = [claim.side.has(value, claim.threshold) for value in counts[1:]]
    return Finding(
        claim=claim,
        estimate=float(counts[0]),
        text=text,
        preconditions=preconditions,
        samples_met=float(np.mean(met)),
        control=control,
    )


def beyond_random(best: Best) -> Control:
    """Random directions as the control of what a best setting does."""
    return Control(name=RANDOM, estimate=best.random, difference=best.beyond)
