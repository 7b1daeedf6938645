"""Until nothing outside lib/publish reads profiles: goes at the merge."""

from lib.publish.run import read_profile  # noqa: F401
