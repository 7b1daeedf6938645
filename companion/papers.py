"""The papers, in the order in which pages show them, and what readers call a run.

An entry of PAPERS is all that registers a paper (CONTRIBUTING.md, "A paper").
"""

from dataclasses import dataclass, field

from companion.ledger import PUBLISHED, RETRAININGS, SWAPPED, UNTRAINED


@dataclass(frozen=True)
class Paper:
    """What pages say of a paper."""

    key: str  # in data/claims.csv; its numbers are in data/paper/<key>.csv
    title: str  # as readers see it
    authors: str
    address: str
    question: str
    # numbers that the text prints once more: {(table, row, column): where it stands first}
    repeated: dict[tuple, tuple] = field(default_factory=dict)


BIAS_A_HEAD = Paper(
    key="bias_a_head",
    title="Bias A-head",
    authors="Yang, Duan, Abbasi, Lalor and Tam",
    address="https://arxiv.org/abs/2311.10395",
    question="Which attention heads carry a stereotype?",
    repeated={
        ("Appendix A", row, "PPPL"): ("Table 1", row, "PPPL") for row in ("full", "Top-3", "All")
    },
)
PROJECTIVE = Paper(
    key="projective",
    title="Projective Methods",
    authors="Dawkins, Nejadgholi, Gillis and McCuaig",
    address="https://arxiv.org/abs/2403.18803",
    question="What does a projection inside BERT remove, and what does it cost?",
    repeated={
        ("Section 5", row, "eta"): ("Table 7", row, "eta")
        for row in ("Base", "Layer 11 (0, 0, 1, 1, 1)")
    },
)
COUNTERACTS = Paper(
    key="counteracts",
    title="Counteracts",
    authors="Zhang",
    address="https://arxiv.org/abs/2301.04347",
    question="Do counterexamples in the prompt move a model?",
)
PAPERS = {paper.key: paper for paper in (BIAS_A_HEAD, PROJECTIVE, COUNTERACTS)}

# Where a run stands: a figure is taken from the first, nearest to the papers, that has it.
NEAREST = ("paper", "mini-real", "mini")
NAMES = {
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
    if run.startswith(f"{PUBLISHED}-"):
        return f"{NAMES[PUBLISHED]}, {run.removeprefix(f'{PUBLISHED}-')}"
    base = run.removesuffix("-real")
    if run not in NAMES and base in NAMES:
        return f"{NAMES[base]}, real text"
    return NAMES.get(run, run)
