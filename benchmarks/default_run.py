"""The default run in a fresh clone: python -m benchmarks.default_run

Clones the repository as committed into a folder of its own, runs there what ./reproduce.sh runs, in this
environment, and removes the clone. Linux calls "steal" what other guests of a machine take from it, on idle cores
nothing: so minutes are printed with the share of the processors that was stolen, and with what one float32 product
reached before and after, on one thread. Nothing else should run meanwhile.
"""

import os
import resource
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
    return 2 * size ** 3 / best / 1e9


def ticks() -> tuple[int, int]:
    """Of all processors since the machine started: time in all, and time stolen."""
    values = [int(value) for value in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
    return sum(values), values[7]


def main():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["git", "clone", "--quiet", "--shared", str(ROOT), folder], check=True)
        environment = {**os.environ, "PYTHONPATH": folder, "TOKENIZERS_PARALLELISM": "false"}
        before, (whole, stolen), start = product(), ticks(), time.time()
        done = subprocess.run([sys.executable, "-P", "-m", "lib.publish"], cwd=folder, env=environment)
        took, (whole_after, stolen_after) = time.time() - start, ticks()
        share = (stolen_after - stolen) / (whole_after - whole)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{took / 60:.1f} minutes by the clock on {os.cpu_count()} processors, {share:.0%} of them stolen; "
          f"{(used.ru_utime + used.ru_stime) / 60:.1f} minutes of processor time; one product reached {before:.0f} "
          f"GFLOPs a second before and {product():.0f} after; exit status {done.returncode}")


if __name__ == "__main__":
    main()
