"""The notebook check: every notebook is run again, and held against the outputs stored in it (nbval).

    python -m tests.notebooks                all of them
    python -m tests.notebooks --quick        three
    python -m tests.notebooks 02 11          these

From an empty cache, into build/ alone, without the user's data: as on a bare machine. What counts
as the same is lib/engine/tolerance.py's to say, and conftest.py's to ask it.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from lib import paths
from lib.publish.__main__ import QUICK

# What others take over comes first, the quick ones last: two processes end about together.
FIRST = ("02", "08", "09", "10")


def ordered(numbers: list[str]) -> list[Path]:
    """The notebooks with these numbers, all where none is given, in the order in which to begin them."""
    every = sorted(paths.NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))
    chosen = [path for path in every if not numbers or path.name[:2] in numbers]
    first = [path for path in chosen if path.name[:2] in FIRST]
    return first + [path for path in reversed(chosen) if path not in first]


def check(numbers: list[str], threads: int | None = None, **variables: str) -> int:
    """Exit status of pytest. `variables` of the environment change the arithmetic: tests/numerics.py."""
    cores = os.cpu_count() or 1
    build = paths.ROOT / "build" / "nbval"
    shutil.rmtree(build, ignore_errors=True)
    environment = {key: value for key, value in os.environ.items() if key != "COMPANION_DATA"}
    environment |= {
        "COMPANION_CACHE": str(build / "cache"),
        "COMPANION_OUT": str(build / "out"),
        "OMP_NUM_THREADS": str(threads or max(1, cores // 2)),
    }
    command = [sys.executable, "-m", "pytest", *map(str, ordered(numbers)), "-q", "--nbval"]
    command += ["--nbval-current-env", "--dist", "loadfile", "--no-loadscope-reorder"]
    command += ["-n", "2" if cores > 1 else "0"]
    return subprocess.run(command, cwd=paths.ROOT, env=environment | variables).returncode


if __name__ == "__main__":
    asked = sys.argv[1:]
    sys.exit(check(QUICK.split(",") if asked == ["--quick"] else asked))
