"""What a test of a claim of Projective methods finds, how it is judged, and how notebooks 07 to 09
conclude.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from lib.engine import stats
from lib.engine.stats import Estimate
from lib.projective import triples
from lib.projective.split_half import Best
from lib.projective.tables import PAPER
from lib.verdict import Claim, Control, Outcome, Precondition, Verdict, judge

RANDOM = "random directions"  # the control of equal size
# Of a printed effect: what is smaller is next to nothing. A bundled model is smaller than the
# paper's, and its effects may be; less than a quarter would not be what the paper reports.
SHARE = 0.25
SAME = 1e-6  # a smaller difference is none: of a model that gives one answer to everything
# The analysis variants of claims on triples, where both of the authors' files are read: the paper
# reads the development file alone. Of more triples more is known, so that both files decide.
BOTH_FILES = "both files"
PAPERS_FILE = "the paper's file"


def files(context_ids: Sequence[int]) -> dict[str, np.ndarray]:
    """Which triples a claim is tested on, a mask by analysis variant; "" where there is but one."""
    is_papers = triples.is_papers(context_ids)
    every = np.ones(len(is_papers), dtype=bool)
    if is_papers.all():
        return {"": every}
    return {BOTH_FILES: every, PAPERS_FILE: is_papers}


@dataclass(frozen=True, kw_only=True)
class ProjectiveClaim(Claim):
    """A claim of the paper, and what the paper has for it."""

    paper: str = PAPER
    # What the paper says, or what its printed numbers give when they are counted as ours are.
    in_paper: str

    def __post_init__(self):
        if not self.short:  # then the notebook's table names it in full
            object.__setattr__(self, "short", self.says)
        if self.threshold == 1:  # all of several things: a share of them is estimated
            object.__setattr__(self, "bounds", (0, 1))


@dataclass(frozen=True)
class Finding:
    """What one test of a claim measured."""

    claim: Claim
    estimate: Estimate  # it decides
    text: str  # the same in words
    preconditions: tuple[Precondition, ...] = ()
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
        claim = self.claim
        if claim.margin_from_data and self.margin is not None:
            claim = replace(claim, margin=self.margin)
        return judge(
            claim,
            self.estimate,
            found="" if np.isnan(self.estimate.value) else self.text,
            preconditions=self.preconditions,
            control=self.control,
            variant=self.variant,
            remark=self.remark,
            **about,
        )


# ---- claims that count several things
def share_met(differences: np.ndarray) -> np.ndarray:
    """Of several things [things, samples], the share whose difference is above 0; [samples].

    Ties are apart, as is what has no value: they are neither above 0 nor below it. nan where all
    are.
    """
    values = stats.settled(np.asarray(differences, dtype=float))
    above = (values > 0).sum(0)
    decided = above + (values < 0).sum(0)
    return np.where(decided > 0, above / np.maximum(decided, 1), np.nan)


def counted(differences: np.ndarray) -> str:
    """The same of the sample in words: 23 of 37, or 23 of 29, 8 ties."""
    values = stats.settled(np.asarray(differences, dtype=float)[:, 0])
    ties = (values == 0).sum()
    text = f"{(values > 0).sum()} of {len(values) - ties}"
    return f"{text}, {ties} ties" if ties else text


def of_shares(
    claim: Claim,
    shares: np.ndarray,
    text: str,
    n: int,
    *preconditions: Precondition,
    unit: str = "",
    random_shares: np.ndarray | None = None,
) -> Finding:
    """A finding decided by a share of things, with its interval over the items of the test.

    Its words are `text` and that interval, where it is more than a point.

    shares          in the sample, and in bootstrap samples of it; nan where there is none
    n, unit         the items that were resampled
    random_shares   the same under random directions, where the claim is about what a projection
                    does
    """
    control = None
    if random_shares is not None:
        control = Control(
            name=RANDOM,
            estimate=_over_samples(random_shares, n, unit),
            difference=_over_samples(shares - random_shares, n, unit),
        )
    share = _over_samples(shares, n, unit)
    if share.has_interval and share.low < share.high:
        text += f"; interval {share.low:.0%} to {share.high:.0%}"
    return Finding(claim, share, text, preconditions, control=control)


def _over_samples(shares: np.ndarray, n: int, unit: str) -> Estimate:
    """The sample's share, its interval over those bootstrap samples that have one."""
    value, *drawn = np.asarray(shares, dtype=float)
    known = [share for share in drawn if not np.isnan(share)]
    if np.isnan(value) or not known:
        return Estimate(np.nan, n=n, unit=unit)
    # No mean of two neighbours: a share of three things is 0, a third, two thirds or 1.
    return stats.redrawn([value, *known], n, unit, method="inverted_cdf")


def beyond_random(best: Best) -> Control:
    """Random directions as the control of what a best setting does."""
    return Control(name=RANDOM, estimate=best.random, difference=best.beyond)


# ---- the table of a notebook
def table(verdicts: Sequence[Verdict], claims: dict[str, Claim], digits: int = 2) -> pd.DataFrame:
    """What verdicts say of the claims, a row each: as the notebooks show it.

    digits   of what random directions do
    """
    rows = []
    for one in verdicts:
        claim = claims[one.claim]
        row = {
            "claim": claim.short,
            "variant": one.variant,
            "paper": claim.in_paper,
            "ours": one.found,
            "random": format(one.control.estimate, f"z.{digits}f") if one.control else "",
            "verdict": str(one),
        }
        rows.append(row)
    return pd.DataFrame(rows)


# ---- the conclusions of a notebook
def listed(said: Sequence[str]) -> str:
    """Sentences as bullets in markdown."""
    return "\n".join(f"- {sentence}" for sentence in said if sentence)


def of_triples(verdicts: Sequence[Verdict]) -> str:
    """Five bullets in markdown on SS, Strength and Distance: notebook 07."""
    tested = _first(verdicts)
    said = [
        _bullet("Most that SS counts is preferred after the swap of gender too", tested, "ss-twin"),
        _bullet("SS counts some preferences that are there by a hair", tested, "ss-hair"),
        _bullet("Most triples have an s close to 0", tested, "s-near-zero"),
        _bullet("Strength is above its opposite", tested, "s-above-opposite"),
        _bullet("Gender flips mostly unrelated sentences", tested, "d-unrelated",
                "share of calls that flip, unrelated sentences against others: "),
    ]  # fmt: skip
    return listed(said)


def of_projections(verdicts: Sequence[Verdict]) -> list[str]:
    """Whether a projection lowers Strength and Distance, a sentence each: notebook 08."""
    tested = _first(verdicts)
    said = []
    for measure, claim in {"Strength": "lower-s", "Distance": "lower-d"}.items():
        one = tested.get(claim)
        sentence = _bullet(f"Some projection lowers {measure}", tested, claim)
        if one is not None and _has_number(one):
            head = sentence.partition("** ")[0]
            beside = f", by {RANDOM} {one.control.estimate.value:z.3f}" if one.control else ""
            sentence = f"{head}** By {one.estimate:z.3f}{beside}."
        said.append(sentence)
    return said


def of_inference(verdicts: Sequence[Verdict], keep: Mapping[str, int]) -> list[str]:
    """Whether projections make inference fairer, and at what price, a sentence each: notebook 09.

    keep   by fit, the one that decides first: how many settings keep the accuracy at the task
    """
    tested = _first(verdicts)
    fairer = _bullet("Some setting that keeps the accuracy is fairer", tested, "eta-higher")
    counts = []
    for place, (fit, n_settings) in enumerate(keep.items()):
        of_fit = [one for one in verdicts if one.claim == "eta-higher" and fit in one.variant]
        outcome = f", fairer: {of_fit[0].outcome}" if place and of_fit else ""
        counts.append(f"{n_settings} of 74 keep it with directions of {fit}{outcome}")
    rho = tested.get("uncorrelated")
    if rho is not None and _has_number(rho):  # the rest of what it found is in the table of claims
        tested["uncorrelated"] = replace(rho, found=rho.found.partition(";")[0])
    return [
        f"{fairer} {'; '.join(counts)}.",
        _bullet("The baseline sent-debias does little for fairness", tested, "sent-debias-eta",
                "eta changes by "),
        _bullet("Weighting at SENT raises accuracy in all pairs of settings", tested, "np-all"),
        _bullet("Strength and fairness are not correlated", tested, "uncorrelated"),
    ]  # fmt: skip


def _first(verdicts: Sequence[Verdict]) -> dict[str, Verdict]:
    """By claim, its first test: of all triples, or of the main variant."""
    tested = {}
    for verdict in verdicts:
        tested.setdefault(verdict.claim, verdict)
    return tested


def _has_number(one: Verdict) -> bool:
    return one.estimate is not None and one.outcome not in (Outcome.NOT_RUN, Outcome.NOT_APPLICABLE)


def _bullet(words: str, tested: Mapping[str, Verdict], claim: str, before: str = "") -> str:
    """**A claim: supported.** 0.88 [0.76, 0.98] of 41 read right.

    before   what it found is said after these words
    """
    one = tested.get(claim)
    if one is None:
        return ""
    if not _has_number(one):
        return f"**{words}: {one.outcome}**, since {one.reason}."
    found = before + one.found
    return f"**{words}: {one.outcome}.** {found[:1].upper()}{found[1:]}."
