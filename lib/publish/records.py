"""The verdicts that runs keep, figures/<run>/claims/NN.json, judged by today's claims.

A record holds the estimate, the control and whether preconditions were met. `judge` is applied to
it again, so that an edited threshold changes every run alike, whenever it was made. What a record
cannot answer, because its threshold or margin came from the data, stays as it was stored.

`folders` is {run: folder}, all stored runs where it is left out.
"""

from dataclasses import replace
from pathlib import Path

from lib import CompanionError, results, verdict
from lib.engine import models
from lib.publish.papers import CLAIMS, RETRAININGS
from lib.verdict import CONTROLS, GENDER_SWAPPED, Claim, Outcome, Precondition, Verdict


def verdicts(folders: dict[str, Path] | None = None) -> dict[str, list[Verdict]]:
    """{run: what its notebooks found of the papers' claims}, in the order of the notebooks; claims
    that the notebook's own table leaves out come last. Of retrainings only what is about their
    BERT, since their decoder is untrained.
    """
    found = {}
    for run, folder in (folders or results.runs()).items():
        kept = stored(run, folder)
        if run.startswith(RETRAININGS):
            kept = [one for one in kept if is_about_bert(one)]
        found[run] = sorted(kept, key=lambda one: not CLAIMS[one.claim].short)
    return found


def stored(run: str, folder: Path) -> list[Verdict]:
    """The verdicts in a run's folder, by notebook."""
    is_control = bool(control_of(run))
    found = []
    for notebook in sorted({claim.notebook for claim in CLAIMS.values() if claim.notebook}):
        file = folder / "claims" / f"{notebook}.json"
        if not file.is_file():
            continue
        for one in verdict.read(file):
            if one.claim not in CLAIMS:
                raise CompanionError(
                    f"figures/{run}/claims tests '{one.claim}', which no paper's claims.py has: "
                    "add it there, or run its notebook again."
                )
            found.append(rejudged(CLAIMS[one.claim], one, is_control))
    return found


def rejudged(claim: Claim, kept: Verdict, is_control: bool = False) -> Verdict:
    """A stored verdict as today's claim has it. Control runs are judged without preconditions."""
    if kept.outcome == Outcome.NOT_RUN or kept.estimate is None:
        return kept
    threshold = claim.threshold
    if claim.threshold_from_data:
        threshold = kept.threshold
    if claim.margin_from_data:
        claim = replace(claim, margin=kept.margin or 0.0)
    preconditions = []
    for name, is_met in kept.preconditions.items():
        preconditions.append(Precondition(name, is_met, kept.reason))
    return verdict.judge(
        claim,
        kept.estimate,
        threshold=threshold,
        preconditions=preconditions,
        control=kept.control,
        ignore_preconditions=is_control,
        on=kept.on,
        found=kept.found,
        variant=kept.variant,
        models=kept.models,
        remark=kept.remark,
    )


def is_about_bert(one: Verdict) -> bool:
    """Whether a verdict is about gender in BERT, or a method with BERT, and about nothing else."""
    claim = CLAIMS[one.claim]
    if not claim.about_bert and GENDER_SWAPPED not in claim.controls:
        return False
    known = [models.REGISTRY[name] for name in one.models if name in models.REGISTRY]
    return all(entry.family == "bert" for entry in known)


def control_of(run: str) -> str:
    """Which control a run is, by its name: null-real is null, mini-balanced balanced; "" of any
    other.
    """
    for control in CONTROLS:
        if control in run.split("-"):
            return control
    return ""
