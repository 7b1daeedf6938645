"""Bias A-head? Which attention heads carry a stereotype: Yang, Duan, Abbasi, Lalor and Tam."""

from companion.claims import Paper

PAPER = Paper(
    key="bias_a_head",
    title="Bias A-head",
    authors="Yang, Duan, Abbasi, Lalor and Tam",
    address="https://arxiv.org/abs/2311.10395",
    question="Which attention heads carry a stereotype?",
    notebooks=("02", "03", "04", "05", "06"),
    deciding=("heads-small-set", "mask-top3-seat"),
    figure="02_fig2_heatmaps",
    repeated={
        ("Appendix A", "full", "PPPL"): ("Table 1", "full", "PPPL"),
        ("Appendix A", "Top-3", "PPPL"): ("Table 1", "Top-3", "PPPL"),
        ("Appendix A", "All", "PPPL"): ("Table 1", "All", "PPPL"),
    },
)
