"""The companion's code, in layers whose imports point downwards only (pyproject.toml):

publish/                                   the command line, pages and cards
together.py                                the three papers' remedies on one model
bias_a_head/  projective/  counteracts/    a paper each: measurements, estimators, figures
run.py                                     what every notebook begins with
ledger.py                                  all tests of all runs, and what they come to
claims.py  results.py  stale.py  profiles/ claims and outcomes; where results are, why one is stale
printed.py  look.py                        printed numbers; one look
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
    "Run": "lib.run",
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
