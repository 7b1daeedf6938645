"""Projective Methods: 74 projections inside BERT, by Dawkins, Nejadgholi, Gillis and McCuaig."""

from companion.claims import Paper

PAPER = Paper(
    key="projective",
    title="Projective Methods",
    authors="Dawkins, Nejadgholi, Gillis and McCuaig",
    address="https://arxiv.org/abs/2403.18803",
    question="What does a projection inside BERT remove, and what does it cost?",
    notebooks=("07", "08", "09"),
    deciding=("lower-s", "attn-viable"),
    figure="08_plane",
    repeated={
        ("Section 5", "Base", "eta"): ("Table 7", "Base", "eta"),
        ("Section 5", "Layer 11 (0, 0, 1, 1, 1)", "eta"): (
            "Table 7",
            "Layer 11 (0, 0, 1, 1, 1)",
            "eta",
        ),
    },
)
