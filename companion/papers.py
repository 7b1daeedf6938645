"""The papers, in the order in which pages show them, and what readers call a run.

A paper is a folder here that has PAPER in its __init__.py, and rows of data/claims.csv; its line
here is all that registers it (CONTRIBUTING.md, "A paper").
"""

from importlib import import_module

from companion.claims import Paper
from companion.ledger import PUBLISHED, RETRAININGS, SWAPPED, UNTRAINED

REGISTERED = (
    "bias_a_head",
    "projective",
    "counteracts",
)
PAPERS: dict[str, Paper] = {key: import_module(f"companion.{key}").PAPER for key in REGISTERED}

# Runs as readers see them, nearest to the papers first: a figure is taken from the first that has
# it.
RUNS = {
    "paper": "the papers' models on the papers' data",
    "mini-real": "the bundled models on the papers' data or stand-ins",
    "mini": "the bundled models on sentences written for this project",
}
SHORT_NAMES = {
    "paper": "the papers' models",
    "mini-real": "real text",
    "mini": "our sentences",
    UNTRAINED: "untrained control",
    SWAPPED: "gender-swapped control",
    PUBLISHED: "published models",
}


def run_name(run: str) -> str:
    """A run as readers see it: "our sentences" of mini, "retraining 1" of trainings-seed1."""
    if run.startswith(RETRAININGS):
        return f"retraining {run.removeprefix(RETRAININGS).removeprefix('seed')}"
    if run.startswith(PUBLISHED):
        rest = run.removeprefix(PUBLISHED).strip("-")
        return f"published models, {rest}" if rest else SHORT_NAMES[PUBLISHED]
    base = run.removesuffix("-real")
    if run not in SHORT_NAMES and base != run and base in SHORT_NAMES:
        return f"{SHORT_NAMES[base]}, real text"
    return SHORT_NAMES.get(run, run)
