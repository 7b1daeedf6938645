"""Shared code of the companion: one module a concept, imported as `from lib import heads`."""

import errno
from importlib import import_module


class CompanionError(Exception):
    """Something the user can mend. The message is one sentence and names the mend."""


def is_full(error):
    """Whether an error, or one that it was raised from, is that of a full disk or a used-up quota."""
    while error:
        for number in (errno.ENOSPC, errno.EDQUOT):
            # hf_xet, by which the hub serves large files, raises a RuntimeError that has the system's words alone
            if getattr(error, "errno", None) == number or f"(os error {number})" in str(error):
                return True
        error = error.__cause__
    return False


class Lazy:
    """A module that is imported when something of it is first used: a GPU machine may lack pandas and scipy."""

    def __init__(self, name):
        self._name = name

    def __getattr__(self, attribute):
        return getattr(import_module(self._name), attribute)
