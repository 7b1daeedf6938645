"""The notebook check: every notebook is run again, and held against the outputs stored in it
(nbval).

    python -m tests.notebooks                all of them
    python -m tests.notebooks --quick        three
    python -m tests.notebooks 02 11          these

From an empty cache, into build/ alone, without the user's data: as on a bare machine. Two at a
time; the board comes after all others, since it reads what they found. What counts as the same is
lib/engine/tolerance.py's to say, and conftest.py's to ask it.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from companion import QUICK
from companion.reproduce import BOARD, FIRST
from lib import paths


def check(numbers: list[str], **variables: str) -> int:
    """Exit status. `variables` of the environment change the arithmetic: tests/numerics.py."""
    shutil.rmtree(paths.ROOT / "build" / "nbval", ignore_errors=True)
    every = sorted(paths.NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))
    chosen = [path for path in every if not numbers or path.name[:2] in numbers]
    others = [path for path in chosen if path.name[:2] != BOARD]
    # what others take over comes first, the quick ones last: two processes end about together
    first = [path for path in others if path.name[:2] in FIRST]
    ordered = first + [path for path in reversed(others) if path not in first]
    lanes = 2 if (os.cpu_count() or 1) > 1 else 1
    status = nbval(ordered, lanes, variables)
    return nbval([path for path in chosen if path not in others], 1, variables) or status


def nbval(notebooks: list[Path], lanes: int, variables: dict[str, str]) -> int:
    """Run notebooks against what is stored in them, so many at a time; pytest's exit status."""
    if not notebooks:
        return 0
    build = paths.ROOT / "build" / "nbval"
    environment = {key: value for key, value in os.environ.items() if key != "COMPANION_DATA"}
    environment |= {
        "COMPANION_CACHE": str(build / "cache"),
        "COMPANION_OUT": str(build / "out"),
        "OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // lanes)),
    }
    command = [sys.executable, "-m", "pytest", *map(str, notebooks), "-q", "--nbval"]
    command += ["--nbval-current-env"]
    if lanes > 1:
        command += ["-n", str(lanes), "--dist", "loadfile", "--no-loadscope-reorder"]
    return subprocess.run(command, cwd=paths.ROOT, env=environment | variables).returncode


if __name__ == "__main__":
    asked = sys.argv[1:]
    sys.exit(check(QUICK.split(",") if asked == ["--quick"] else asked))
