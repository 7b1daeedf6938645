"""Shared code of the companion: one module a concept, imported as `from lib import heads`."""

from importlib import import_module


class CompanionError(Exception):
    """Something the user can mend. The message is one sentence and names the mend."""


class Lazy:
    """A module that is imported when something of it is first used: a GPU machine may lack pandas and scipy."""

    def __init__(self, name):
        self._name = name

    def __getattr__(self, attribute):
        return getattr(import_module(self._name), attribute)
