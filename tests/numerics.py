"""The notebook check under other arithmetic: `./reproduce.sh test --numerics`

Another processor, another library or another number of threads adds the same float32 numbers in
another order. Each variation below is first asked whether it changes a float32 product on this
machine at all; under every one that does, all notebooks are run again and have to say what is
stored, within the tolerance of lib/engine/tolerance.py. What it found is written to
build/numerics.txt; benchmarks/numerics.txt has it from several processors.
"""

import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import torch

from lib import paths
from tests import notebooks

# What is varied, by variables of the environment. What a processor or library does not know changes
# nothing there, and is said to.
VARIATIONS = {
    "PyTorch's own kernels without vector instructions": {"ATEN_CPU_CAPABILITY": "default"},
    "PyTorch's own kernels with AVX2": {"ATEN_CPU_CAPABILITY": "avx2"},
    "without oneDNN": {"PYTHONPATH": str(Path(__file__).parent / "without_onednn")},
    "oneDNN with SSE4.1": {"ONEDNN_MAX_CPU_ISA": "SSE41"},
    "MKL with SSE4.2": {"MKL_ENABLE_INSTRUCTIONS": "SSE4_2"},
    "OpenBLAS for any ARM": {"OPENBLAS_CORETYPE": "ARMV8"},
    "OpenBLAS for Nehalem": {"OPENBLAS_CORETYPE": "NEHALEM"},
    "two threads a notebook in place of one": {"OMP_NUM_THREADS": "2"},
}

# Float32 products, sums and functions, and what mini-bert makes of eighty sentences.
PROBE = """
import json, sys, torch
from torch.nn import functional
from lib import load
draw = torch.Generator().manual_seed(0)
x, w = torch.randn(512, 288, generator=draw), torch.randn(288, 1152, generator=draw)
long = torch.randn(2000, 300, generator=draw)
bert = load("mini-bert", device="cpu")
texts = ["The nurse said that she was late for work.", "A man walked."] * 40
with torch.no_grad():
    states = bert.net.base_model(**bert.tokenizer(texts, padding=True, return_tensors="pt")).last_hidden_state
parts = {"a product": x @ w, "a product of long vectors": long.T @ long, "a sum": long.sum(),
         "gelu": functional.gelu(x), "softmax": x.softmax(-1), "a norm": functional.layer_norm(x, (288,)),
         "mini-bert": states, "NumPy's product": torch.as_tensor(long.numpy().T @ long.numpy())}
json.dump({name: part.double().flatten()[::13].tolist() for name, part in parts.items()}, sys.stdout)
"""


def probe(variables: dict[str, str]) -> dict[str, list[float]]:
    """What this machine computes under these variables."""
    threads = {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // 2))}
    done = subprocess.run(
        [sys.executable, "-c", PROBE],
        cwd=paths.ROOT,
        env=os.environ | threads | variables,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        return {}  # an instruction set that this processor does not have
    return json.loads(done.stdout)


def changes(variables: dict[str, str], usual: dict[str, list[float]]) -> dict[str, float]:
    """By how much of its size each part of the probe differs from the usual, where it does
    at all.
    """
    found = {}
    for name, values in probe(variables).items():
        ours, theirs = torch.tensor(values), torch.tensor(usual[name])
        difference = ((ours - theirs).abs().max() / theirs.abs().max()).item()
        if difference:
            found[name] = difference
    return found


def processor() -> str:
    """What this machine's processor calls itself."""
    done = subprocess.run(["lscpu"], capture_output=True, text=True)
    for line in done.stdout.splitlines():
        if line.startswith("Model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def main() -> int:
    """Exit status: 0 if at least three variations change something, and the check passes under
    each.
    """
    log = paths.BUILD / "numerics.txt"
    lines = [
        f"{processor()} ({platform.machine()}), {os.cpu_count()} cores, torch {torch.__version__}"
    ]
    usual = probe({})
    known = []  # what the variations so far change
    failed = 0
    for title, variables in VARIATIONS.items():
        found = changes(variables, usual)
        if not found:
            outcome = "changes nothing here"
        elif found in known:
            outcome = "changes the same as one above"
        else:
            known.append(found)
            listed = ", ".join(f"{name} by {size:.1e}" for name, size in found.items())
            print(f"{title} changes {listed} of its size", flush=True)
            status, said = checked(sys.argv[1:], variables)
            failed += bool(status)
            outcome = f"changes {listed} of its size; {said}"
        lines.append(f"{title}: {outcome}")
        print(lines[-1], flush=True)
        write(log, lines)
    if len(known) < 3:
        print(f"Only {len(known)} variations change anything: three are wanted.", file=sys.stderr)
    return int(failed > 0 or len(known) < 3)


def checked(numbers: list[str], variables: dict[str, str]) -> tuple[int, str]:
    """(exit status, what came of it in words) of the notebook check under these variables."""
    start = time.time()
    status = notebooks.check(numbers, **variables)
    minutes = (time.time() - start) / 60
    which = f"notebooks {', '.join(numbers)}" if numbers else "all notebooks"
    what = "something else than is stored" if status else "what is stored"
    return status, f"{which} say {what} ({minutes:.0f} minutes)"


def write(log: Path, lines: list[str]):
    log.parent.mkdir(exist_ok=True)
    log.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
