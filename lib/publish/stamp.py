"""Whether today's code still makes the stored measurements: ./reproduce.sh stamp

A measurement under figures/<run>/measured knows the code that made it, module by module
(lib/stale.py). Where that has changed since, a sample of it is computed again, here and now. If it
agrees within the tolerance, today's code is written into the file; if not, the file stays as it is,
and notebooks that show it say "made by older code".

The samples, by what was measured:
    heads.measure      the scores of all heads in the first fold of the sentences
    masking.measure    masks 0, 2 and the last: associations of all targets. Not PPPL, whose
                       arithmetic may have been bfloat16
"""

import inspect
from pathlib import Path

import numpy as np

from lib import CompanionError, paths, results, stale
from lib.bias_a_head import heads, masking
from lib.engine import models, tolerance

FUNCTIONS = {"heads.measure": heads.measure, "masking.measure": masking.measure}


def stamp(device: str | None = None) -> int:
    """Check every stored measurement that older code made, and say what came of it; exit status."""
    failed = 0
    for file in sorted(paths.FIGURES.glob("*/measured/*.npz")):
        outcome = stamped(file, device)
        failed += outcome.startswith("not stamped")
        print(f"{file.relative_to(paths.FIGURES)}: {outcome}", flush=True)
    return 1 if failed else 0


def stamped(file: Path, device: str | None = None) -> str:
    """Write today's code into a stored measurement if it makes the same sample; what came of it."""
    result, made_from = results.read(file)
    question = made_from["question"]
    function = FUNCTIONS.get(question["function"])
    if function is None:
        return f"not stamped: nothing is known of {question['function']}"
    code = code_of(function)
    changed = stale.reasons(made_from.get("code", {}), code)
    if not changed:
        return "made by today's code"
    try:
        name, stored, new = sample(question, result, device)
    except CompanionError as error:
        return f"not stamped: {error}"
    differs = [part for part in stored if not agree(stored[part], new[part])]
    if differs:
        return f"not stamped: another {', '.join(differs)} in {name}"
    results.write(file, result, made_from | {"code": code, "stamped by": name})
    return f"stamped: {name} came out the same"


def code_of(function) -> dict[str, str]:
    """The module of a function and all that it imports, each with a hash."""
    return stale.module(Path(inspect.getsourcefile(function)))


def sample(question: dict, result: dict, device: str | None) -> tuple[str, dict, dict]:
    """(the sample's name, its parts as stored, the same parts computed now)."""
    if question["function"] == "heads.measure":
        return _sample_of_heads(question["arguments"], result, device)
    return _sample_of_masks(question["arguments"], result, device)


def _sample_of_heads(arguments: list, result: dict, device: str | None) -> tuple[str, dict, dict]:
    name, bias, sentences = arguments
    sample = heads.Sample(**sentences)
    sets, contexts = heads.sets_and_contexts(bias, sample)
    first_fold = {word: own[:: sample.folds] for word, own in contexts.items()}
    now = heads.bias_scores(models.load(name, device=device), sets, first_fold, progress="heads")
    stored = {"score": result["folds"][0]}
    return "all heads in the first fold", stored, {"score": now.scores.numpy()}


def _sample_of_masks(arguments: list, result: dict, device: str | None) -> tuple[str, dict, dict]:
    name, plan, sentences, workload = arguments
    steps = sorted({0, min(2, len(plan) - 1), len(plan) - 1})
    bench = masking.prepare(
        name,
        [masking.Step(*step) for step in plan],
        heads.Sample(**sentences),
        masking.Workload(**workload),
        device=device,
    )
    stored = {}
    now = {}
    for step in steps:
        associations, _ = masking.associations(bench, step)
        stored[f"associations under mask {step}"] = result["associations"][step]
        now[f"associations under mask {step}"] = associations
    return f"masks {', '.join(map(str, steps))} without PPPL", stored, now


def agree(stored, new) -> bool:
    """Whether all numbers of two arrays agree within the tolerance."""
    stored = np.asarray(stored, dtype=float)
    new = np.asarray(new, dtype=float)
    if stored.shape != new.shape:
        return False
    pairs = zip(stored.ravel(), new.ravel(), strict=True)
    return all(tolerance.agree(old, now) for old, now in pairs)
