"""The shared code of three papers: whatever touches a network or a word.

    model = lib.load("mini-bert")                        a bundled name, a ./folder or a hub id
    lib.fill.top(model, "The nurse said [MASK] left.")   the likeliest words, with probabilities
    with lib.head_mask(model, mask): ...                 multiply heads: 0 removes one, 1 leaves it
    with lib.project(model, {"layer.11": lib.Projection(basis)}): ...  take out a subspace
    with lib.record(model, ["attn.out.8"]) as seen: ...  keep what each head of the 9th layer says

Folders use only those below them:

together.py  winogender.py                 the papers' remedies on one model; pronouns
bias_a_head/  projective/  counteracts/    a paper each: what a network answers, as arrays
text/                                      words and sentences
engine/                                    models, hooks, batches, statistics: knows no paper
"""

from importlib import import_module

# What a visitor needs, and its module of lib/engine.
HOMES = {
    "load": "models",
    "head_mask": "hooks",
    "project": "hooks",
    "record": "hooks",
    "Projection": "hooks",
    "Estimate": "stats",
    "fill": "fill",
}
__all__ = ["CompanionError", *HOMES]


class CompanionError(Exception):
    """Something that the user can fix. The message is one sentence and names the fix."""


def __getattr__(name):
    """Import what a visitor needs when it is first used, so that `import lib` stays light."""
    if name not in HOMES:
        raise AttributeError(f"lib has no {name}: it has {', '.join(__all__)}, and its folders")
    home = import_module(f"lib.engine.{HOMES[name]}")
    return getattr(home, name, home)  # `fill` is the module itself
