"""Whatever touches a network or a word: the shared GPU code. Imports point downwards only:

together.py  winogender.py                 the papers' remedies on one model; pronouns
bias_a_head/  projective/  counteracts/    a paper each: what a network answers, as arrays
text/                                      words and sentences
engine/                                    models, hooks, batches, statistics: knows no paper
"""

from importlib import import_module

# What a visitor needs, and where it is.
HOMES = {
    "load": "lib.engine.models",
    "head_mask": "lib.engine.hooks",
    "project": "lib.engine.hooks",
    "record": "lib.engine.hooks",
    "Projection": "lib.engine.hooks",
    "Estimate": "lib.engine.stats",
    "fill": "lib.engine",
}
__all__ = ["CompanionError", *HOMES]


class CompanionError(Exception):
    """Something that the user can fix. The message is one sentence and names the fix."""


def __getattr__(name):
    """Import what a visitor needs when it is first used, so that `import lib` stays light."""
    if name not in HOMES:
        raise AttributeError(f"lib has no {name}: it has {', '.join(__all__)}, and its folders")
    home = import_module(HOMES[name])
    if hasattr(home, name):
        return getattr(home, name)
    return import_module(f"{HOMES[name]}.{name}")
