"""The default run in a fresh clone: python -m benchmarks.default_run

Clones the repository as committed into a folder of its own, runs there what ./reproduce.sh runs, in
this environment, and removes the clone. Minutes say little without what the processors could do
meanwhile. So they are printed with the share of processor time that was stolen, and with what one
float32 product reached before and after, on one thread. ("Steal" is Linux's word for what other
guests take from a virtual machine; on idle cores it is 0.) Nothing else should run meanwhile.
"""

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import torch

ROOT = Path(__file__).parents[1]


def product(size: int = 1_024, rounds: int = 20) -> float:
    """The best of some square float32 products on one thread: GFLOPs a second."""
    torch.set_num_threads(1)
    matrix = torch.randn(size, size)
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        matrix @ matrix
        best = min(best, time.perf_counter() - start)
    return 2 * size**3 / best / 1e9


@dataclass(frozen=True)
class Ticks:
    """Time of all processors together, in clock ticks."""

    whole: int
    used: int
    stolen: int

    def since(self, earlier: "Ticks") -> "Ticks":
        return Ticks(
            whole=self.whole - earlier.whole,
            used=self.used - earlier.used,
            stolen=self.stolen - earlier.stolen,
        )


def ticks() -> Ticks:
    """The time of all processors since the machine started."""
    all_processors = Path("/proc/stat").read_text().split("\n")[0]
    fields = [int(value) for value in all_processors.split()[1:9]]
    _, _, _, idle, waiting_for_disk, _, _, stolen = fields
    whole = sum(fields)
    return Ticks(whole=whole, used=whole - idle - waiting_for_disk - stolen, stolen=stolen)


def main():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["git", "clone", "--quiet", "--shared", str(ROOT), folder], check=True)
        environment = {**os.environ, "PYTHONPATH": folder, "TOKENIZERS_PARALLELISM": "false"}
        speed_before = product()
        ticks_before = ticks()
        start = time.time()
        done = subprocess.run(
            [sys.executable, "-P", "-m", "companion"], cwd=folder, env=environment
        )
        took = time.time() - start
        passed = ticks().since(ticks_before)
    processor_seconds = passed.used / os.sysconf("SC_CLK_TCK")
    print(
        f"{took / 60:.1f} minutes by the clock on {os.cpu_count()} processors, "
        f"{passed.stolen / passed.whole:.0%} of them stolen; "
        f"{processor_seconds / 60:.1f} minutes of processor time; one product reached "
        f"{speed_before:.0f} GFLOPs a second before and {product():.0f} after; "
        f"exit status {done.returncode}"
    )


if __name__ == "__main__":
    main()
