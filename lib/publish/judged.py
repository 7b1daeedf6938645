"""The tests of every run, held against the control models."""

import functools
from pathlib import Path

from lib import results
from lib.publish.controls import Controls
from lib.publish.papers import CLAIMS
from lib.publish.records import control_of, verdicts
from lib.verdict import Verdict

RECORDS = ("claims/*.json", "draws/*/claims/*.json")  # of a run, and of other draws of it


def judged(folders: dict[str, Path] | None = None) -> dict[str, list[Verdict]]:
    """{run: its tests}: of controls as stored, of all others held against the controls.

    They are read once, until a record or a claim changes: tables of one board ask many times.

    folders   {run: folder}, all stored runs where it is left out
    """
    known = tuple((folders or results.runs()).items())
    times = []
    for _, folder in known:
        for pattern in RECORDS:
            for file in sorted(folder.glob(pattern)):
                times.append((file, file.stat().st_mtime_ns))
    return dict(_judged(known, tuple(times), tuple(CLAIMS.values())))


@functools.lru_cache(maxsize=4)
def _judged(known: tuple, times: tuple, claims: tuple) -> dict[str, list[Verdict]]:
    """As `judged`; times and claims are what has to stay the same."""
    folders = dict(known)
    stored = Controls.stored(folders)
    tests = {}
    for run, found in verdicts(folders).items():
        tests[run] = found if control_of(run) else stored.beside(found, run)
    return tests
