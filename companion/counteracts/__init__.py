"""Counteracts: whether counterexamples in the prompt move a model: Zhang."""

from companion.claims import Paper

PAPER = Paper(
    key="counteracts",
    title="Counteracts",
    authors="Zhang",
    address="https://arxiv.org/abs/2301.04347",
    question="Do counterexamples in the prompt move a model?",
    notebooks=("10", "11"),
    deciding=("syntactic-over-semantic", "unrelated-not-overturned"),
    figure="11_slopes",
)
