"""The companion's code, in layers whose imports point downwards only (pyproject.toml):

together.py  publish/                   the three remedies on one model; runs, board, pages, the command line
bias_a_head/  projective/  counteracts/ a folder for each paper: measurements, tables, figures, claims
printed.py  look.py  verdict.py         what the papers print; one look for figures; the one place that decides
engine/  text/  training/               models and the GPU code; words and sentences; how the models were made"""

from importlib import import_module

_NAMES = {
    "load": "lib.engine.models",
    "head_mask": "lib.engine.hooks",
    "project": "lib.engine.hooks",
    "record": "lib.engine.hooks",
    "Projection": "lib.engine.hooks",
    "Estimate": "lib.engine.stats",
    "fill": "lib.engine",
    "Run": "lib.publish.run",
}
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
    """What a visitor needs is imported when it is first used, so that `import lib` stays light."""
    if name not in _NAMES:
        raise AttributeError(f"lib has no {name}: it has {', '.join(__all__)}, and its folders")
    home = import_module(_NAMES[name])
    return getattr(home, name) if hasattr(home, name) else import_module(f"{_NAMES[name]}.{name}")
