"""The default run in a fresh clone: python -m benchmarks.default_run

Clones the repository as committed into a folder of its own, runs there what ./reproduce.sh runs, in this
environment, and removes the clone. Linux calls "steal" what other guests of a machine take from it, on idle cores
nothing: so minutes are printed with the share of the processors that was stolen, and with what one float32 product
reached before and after, on one thread. Nothing else should run meanwhile.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

ROOT = Path(__file__).parents[1]


def product(size: int = 1_024, rounds: int = 20) -> float:
    """The best of some square float32 products on one thread: GFLOPs a second."""
    torch.set_num_threads(1)
    a, best = torch.randn(size, size), float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        a @ a
        best = min(best, time.perf_counter() - start)
    return 2 * size**3 / best / 1e9


def ticks() -> tuple[int, int, int]:
    """Of all processors since the machine started: time in all, time in use, and time stolen."""
    values = [int(value) for value in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
    return (
        sum(values),
        sum(values) - values[3] - values[4] - values[7],
        values[7],
    )  # idle, and waiting for a disk


def main():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["git", "clone", "--quiet", "--shared", str(ROOT), folder], check=True)
        environment = {**os.environ, "PYTHONPATH": folder, "TOKENIZERS_PARALLELISM": "false"}
        before, earlier, start = product(), ticks(), time.time()
        done = subprocess.run(
            [sys.executable, "-P", "-m", "lib.publish"], cwd=folder, env=environment
        )
        took, (whole, used, stolen) = time.time() - start, (b - a for a, b in zip(earlier, ticks()))
    print(
        f"{took / 60:.1f} minutes by the clock on {os.cpu_count()} processors, {stolen / whole:.0%} of them stolen; "
        f"{used / os.sysconf('SC_CLK_TCK') / 60:.1f} minutes of processor time; one product reached {before:.0f} "
        f"GFLOPs a second before and {product():.0f} after; exit status {done.returncode}"
    )


if __name__ == "__main__":
    main()
