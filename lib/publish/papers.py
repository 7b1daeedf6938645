"""The papers, in the order in which pages show them, and all their claims.

A paper is a folder of lib that has PAPER in its __init__.py and CLAIMS in claims.py; its line here
is all that registers it (CONTRIBUTING.md, "A paper").
"""

from importlib import import_module

from lib import verdict
from lib.publish import published
from lib.verdict import Claim, Paper

REGISTERED = (
    "bias_a_head",
    "projective",
    "counteracts",
)

# Runs as readers see them, nearest to the papers first: a figure is taken from the first that has
# it.
RUNS = {
    "paper": "the papers' models on the papers' data",
    "mini-real": "the bundled models on the papers' data or stand-ins",
    "mini": "the bundled models on sentences written for this project",
}
SHORT_NAMES = {
    "paper": "the papers' models",
    "mini-real": "the papers' data",
    "mini": "our sentences",
    verdict.UNTRAINED: "untrained control",
    verdict.GENDER_SWAPPED: "gender-swapped control",
    published.PROFILE: "published models",
}
RETRAININGS = "trainings-"  # how the runs of retrainings are called: trainings-seed1, ...


def run_name(run: str) -> str:
    """A run as readers see it: "our sentences" of mini, "retraining 1" of trainings-seed1."""
    if run.startswith(RETRAININGS):
        return f"retraining {run.removeprefix(RETRAININGS).removeprefix('seed')}"
    if is_published(run):
        rest = run.removeprefix(published.PROFILE).strip("-")
        return f"published models, {rest}" if rest else SHORT_NAMES[published.PROFILE]
    base = run.removesuffix("-real")
    if run not in SHORT_NAMES and base != run and base in SHORT_NAMES:
        return f"{SHORT_NAMES[base]}, the papers' data"
    return SHORT_NAMES.get(run, run)


def is_published(run: str) -> bool:
    """Whether a run is of models that others published."""
    return run.startswith(published.PROFILE)


def _papers() -> dict[str, Paper]:
    return {key: import_module(f"lib.{key}").PAPER for key in REGISTERED}


def _claims() -> dict[str, Claim]:
    claims = []
    for key in REGISTERED:
        claims += import_module(f"lib.{key}.claims").CLAIMS.values()
    return verdict.by_id(claims)


PAPERS = _papers()
CLAIMS = _claims()


def paper_of(notebook: str) -> Paper | None:
    """The paper that a notebook recreates, by its number; None of 00, 01 and 12."""
    for paper in PAPERS.values():
        if notebook in paper.notebooks:
            return paper
    return None
