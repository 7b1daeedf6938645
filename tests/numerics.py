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

# What is varied, by variables of the environment. Those that a processor does not know change nothing there.
VARIATIONS = {
    "PyTorch's own kernels without vector instructions": {"ATEN_CPU_CAPABILITY": "default"},
    "PyTorch's own kernels with AVX2": {"ATEN_CPU_CAPABILITY": "avx2"},
    "oneDNN with SSE4.1": {"ONEDNN_MAX_CPU_ISA": "SSE41"},
    "oneDNN with AVX2": {"ONEDNN_MAX_CPU_ISA": "AVX2"},
    "MKL with SSE4.2": {"MKL_ENABLE_INSTRUCTIONS": "SSE4_2"},
    "MKL with AVX2": {"MKL_ENABLE_INSTRUCTIONS": "AVX2"},
    "OpenBLAS for any ARM": {"OPENBLAS_CORETYPE": "ARMV8"},
    "OpenBLAS for Cortex-A57": {"OPENBLAS_CORETYPE": "CORTEXA57"},
    "OpenBLAS for ThunderX2": {"OPENBLAS_CORETYPE": "THUNDERX2T99"},
    "OpenBLAS for Nehalem": {"OPENBLAS_CORETYPE": "NEHALEM"},
    "one thread": {"OMP_NUM_THREADS": "1"},
    "two threads": {"OMP_NUM_THREADS": "2"},
}

# Float32 products, sums and functions in the shapes of mini-bert, and a gradient through them.
PROBE = """
import json, sys, numpy, torch
draw = torch.Generator().manual_seed(0)
x = torch.randn(512, 288, generator=draw)
w = torch.randn(288, 1152, generator=draw, requires_grad=True)
h = torch.nn.functional.gelu(x @ w).softmax(-1)
(h @ w.T).square().sum().sqrt().backward()
n = numpy.random.default_rng(0).normal(size=(300, 300)).astype(numpy.float32)
parts = {"product": x @ w, "softmax": h, "gradient": w.grad, "norm": torch.nn.functional.layer_norm(x, (288,)),
         "numpy": torch.as_tensor(n @ n)}
json.dump({name: part.double().flatten()[:20000:7].tolist() for name, part in parts.items()}, sys.stdout)
"""


def probe(variables: dict[str, str]) -> dict[str, list[float]]:
    """What this machine computes under these variables."""
    threads = {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // 2))}
    done = subprocess.run(
        [sys.executable, "-c", PROBE], env=os.environ | threads | variables, capture_output=True, text=True
    )
    if done.returncode:
        return {}  # an instruction set that this processor does not have
    return json.loads(done.stdout)


def changes(variables: dict[str, str], usual: dict[str, list[float]]) -> dict[str, float]:
    """By how much of its size each part of the probe differs from the usual, where it does at all."""
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
    names = [line.partition(":")[2].strip() for line in done.stdout.splitlines() if line.startswith("Model name")]
    return names[0] if names else platform.processor() or platform.machine()


def main() -> int:
    """Exit status: 0 if at least three variations change something, and the check passes under each."""
    log = paths.BUILD / "numerics.txt"
    lines = [f"{processor()} ({platform.machine()}), {os.cpu_count()} cores, torch {torch.__version__}"]
    usual, failed, tried = probe({}), 0, 0
    for title, variables in VARIATIONS.items():
        found = changes(variables, usual)
        setting = " ".join(f"{name}={value}" for name, value in variables.items())
        if not found:
            lines.append(f"{title} ({setting}): changes nothing here")
            print(lines[-1], flush=True)
            continue
        listed = ", ".join(f"{name} by {size:.1e}" for name, size in found.items())
        print(f"{title} ({setting}) changes {listed} of its size", flush=True)
        start = time.time()
        status = notebooks.check(sys.argv[1:], **variables)
        tried += 1
        failed += bool(status)
        outcome = "every notebook says what is stored" if not status else "notebooks say something else"
        lines.append(f"{title} ({setting}): changes {listed}; {outcome} ({(time.time() - start) / 60:.0f} minutes)")
        print(lines[-1], flush=True)
        write(log, lines)
    write(log, lines)
    if tried < 3:
        print(f"Only {tried} variations change anything on this processor: three are wanted.", file=sys.stderr)
    return int(failed > 0 or tried < 3)


def write(log: Path, lines: list[str]):
    log.parent.mkdir(exist_ok=True)
    log.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
