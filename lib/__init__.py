"""The companion's code. Below each paper's folder lies the engine; above it, what publishes the results.

    engine/  text/  training/               models and the GPU code; words and sentences; how the models were made
    printed.py  look.py  verdict.py         what the papers print; one look for figures; the one place that decides
    bias_a_head/  projective/  counteracts/ a folder for each paper: measurements, tables, figures, claims
    together.py  publish/                   the three remedies on one model; runs, board, pages, the command line

Imports point downwards only; pyproject.toml states it and the tests check it. The names below are what a visitor needs.
"""

from importlib import import_module

_NAMES = {"load": "lib.engine.models", "head_mask": "lib.engine.hooks", "project": "lib.engine.hooks",
          "record": "lib.engine.hooks", "Projection": "lib.engine.hooks", "Estimate": "lib.engine.stats",
          "fill": "lib.engine", "Run": "lib.publish.run"}
__all__ = ["CompanionError", *_NAMES]


class CompanionError(Exception):
    """Something that the user can fix. The message is one sentence and names the fix."""


class Lazy:
    """A module that is imported when something of it is first used: a GPU machine may lack pandas and scipy."""

    def __init__(self, name):
        self._name = name

    def __getattr__(self, attribute):
        return getattr(import_module(self._name), attribute)


def __getattr__(name):
    """The names above are imported when they are first used, so that `import lib` stays light."""
    if name not in _NAMES:
        raise AttributeError(f"lib has no {name}: it has {', '.join(__all__)}, and its folders")
    home = import_module(_NAMES[name])
    return getattr(home, name) if hasattr(home, name) else import_module(f"{_NAMES[name]}.{name}")
