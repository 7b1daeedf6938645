"""Shared code of the companion: one module a concept, imported as `from lib import heads`."""


class CompanionError(Exception):
    """Something the user can mend. The message is one sentence and names the mend."""
