"""Whether today's code still makes the stored measurements: ./reproduce.sh stamp

A measurement under figures/<run>/measured knows the code that made it, module by module
(lib/stale.py). Where that has changed since, a sample of it is computed again, here and now. If it
agrees within the tolerance, today's code is written into the file; if not, the file stays as it is,
and notebooks that show it say "made by older code".

The samples, by what was measured (SAMPLES):
    heads.measure              the scores of all heads in the first fold of the sentences
    heads.measure_ablation     the associations of all targets, in the full model and without the
                               heads that the gradient ranks first and last
    masking.measure            masks 0, 2 and the last: associations of all targets. Not PPPL, whose
                               arithmetic may have been bfloat16
    masking.measure_facts      the same masks
    patching.measure           the first half of the sentences: the full model, and those two heads
                               patched by zero and by their mean. Not "swapped"
    counter.measure_cells      all of it
    alike.measure              all of it
    leace_tables.of_bias       all but random concepts, whose draws depend on the machine's linear
    leace_tables.of_inference  algebra
"""

import inspect
from collections.abc import Callable
from pathlib import Path

import numpy as np

from lib import CompanionError, paths, results, stale
from lib.bias_a_head import counter, heads, masking, patching
from lib.engine import embed, hooks, models, tolerance
from lib.projective import leace_tables, nli
from lib.publish import alike


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
    if question["function"] not in SAMPLES:
        return f"no sample of it is known: {made_from['command']} makes it anew"
    function, sample = SAMPLES[question["function"]]
    code = code_of(function)
    if not stale.reasons(made_from.get("code", {}), code):
        return "made by today's code"
    try:
        name, stored, new = sample(question["arguments"], result, device)
    except CompanionError as error:
        return f"not stamped: {error}"
    differs = []
    for part in stored.keys() | new.keys():
        if part not in stored or part not in new or not agree(stored[part], new[part]):
            differs.append(part)
    if differs:
        return f"not stamped: another {', '.join(sorted(differs))} in {name}"
    results.write(file, result, made_from | {"code": code, "stamped by": name})
    return f"stamped: {name} came out the same"


def code_of(function) -> dict[str, str]:
    """The module of a function and all that it imports, each with a hash."""
    return stale.module(Path(inspect.getsourcefile(function)))


def agree(stored, new) -> bool:
    """Whether all numbers of two arrays agree within the tolerance."""
    stored = np.asarray(stored, dtype=float)
    new = np.asarray(new, dtype=float)
    if stored.shape != new.shape or (np.isnan(stored) != np.isnan(new)).any():
        return False
    there = ~np.isnan(stored)
    pairs = zip(stored[there], new[there], strict=True)
    return all(tolerance.agree(old, now) for old, now in pairs)


# ---- samples: (name, {part: as stored}, {part: as computed now})
Sampled = tuple[str, dict, dict]


def of_heads(arguments: list, result: dict, device: str | None) -> Sampled:
    name, bias, sentences = arguments
    sample = heads.Sample(**sentences)
    sets, contexts = heads.sets_and_contexts(bias, sample)
    first_fold = {word: own[:: sample.folds] for word, own in contexts.items()}
    now = heads.bias_scores(models.load(name, device=device), sets, first_fold, progress="heads")
    stored = {"score": result["folds"][0]}
    return "all heads in the first fold", stored, {"score": now.scores.numpy()}


def of_ablation(arguments: list, result: dict, device: str | None) -> Sampled:
    name, sentences, every_word, _ = arguments
    sets, contexts = heads.sets_and_contexts("gender", heads.Sample(**sentences), every_word)
    model = models.load(name, device=device)
    rows = {"full model": (0, [])}
    for row in (result["gradient"].argmax(), result["gradient"].argmin()):
        layer, head = map(int, result["heads"][row])
        rows[f"model without {layer}-{head}"] = (1 + row, [(layer, head)])
    stored = {}
    now = {}
    for part, (row, off) in rows.items():
        with hooks.head_mask(model, heads.mask(model, off)):
            now[part], _ = heads.associations(model, sets, contexts)
        stored[part] = result["s"][row]
    return "associations without two heads", stored, now


def of_masks(arguments: list, result: dict, device: str | None) -> Sampled:
    name, plan, sentences, workload = arguments
    steps = _steps(plan)
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


def of_facts(arguments: list, result: dict, device: str | None) -> Sampled:
    name, plan, *items = arguments
    steps = _steps(plan)
    chosen = [masking.Step(*plan[step]) for step in steps]
    now = masking.measure_facts(name, chosen, *items, device=device)
    stored = {"log odds": result["facts"][steps]}
    return f"masks {', '.join(map(str, steps))}", stored, {"log odds": now["facts"]}


def _steps(plan: list) -> list[int]:
    """The masks of a plan that are measured again."""
    return sorted({0, min(2, len(plan) - 1), len(plan) - 1})


def of_patches(arguments: list, result: dict, device: str | None) -> Sampled:
    name, sentences = arguments
    sample = heads.Sample(**sentences)
    sets, contexts = heads.sets_and_contexts("gender", sample)
    model = models.load(name, device=device)
    sets, (half, _) = masking.in_halves(sets, contexts, sample.folds, sample.contexts)
    pairs = [(word, sentence) for word, own in half.items() for sentence in own]
    encoded, _ = embed.prepare(model, pairs)
    mean = patching.mean_outputs(model, encoded)
    stored = {"full model": result["zero"][0, 0]}
    now = {"full model": heads.associations(model, sets, half)[0]}
    for place in (result["gradient"][0].argmax(), result["gradient"][0].argmin()):
        layer, head = divmod(int(place), model.n_heads)
        for kind, value in (("zero", 0.0), ("mean", mean[layer, head])):
            part = f"head {layer + 1}-{head + 1} by {kind}"
            with hooks.patch(model, layer, head, value):
                now[part], _ = heads.associations(model, sets, half)
            stored[part] = result[kind][0, 1 + place]
    return "two heads patched by zero and mean", stored, now


def of_cells(arguments: list, result: dict, device: str | None) -> Sampled:
    return "all of it", result, counter.measure_cells(*arguments, device=device)


def of_answers(arguments: list, result: dict, device: str | None) -> Sampled:
    name, amounts = arguments
    now = alike.measure(name, alike.Amounts(**amounts), device=device)
    return "all of it", result["measures"], now["measures"]


def of_leace(arguments: list, result: dict, device: str | None) -> Sampled:
    now = leace_tables.of_bias(*arguments, device=device)
    return "all but random concepts", _values(result), _values(now)


def of_leace_in_inference(arguments: list, result: dict, device: str | None) -> Sampled:
    name, source, pair_set, *rest = arguments
    now = leace_tables.of_inference(name, source, nli.PairSet(**pair_set), *rest, device=device)
    return "all but random concepts", _values(result), _values(now)


def _values(result: dict) -> dict[str, list[float]]:
    """The numbers that LEACE's rows hold, by what was measured of which model."""
    found = {}
    for row in result["rows"]:
        if "random concepts" in row["what"]:
            continue
        part = f"{row['what']} of {row['model']} fitted on {row['fit']}"
        found[part] = [row[key] for key in ("value", "low", "high")]
    return found


# What measured it, for its code, and what measures a sample of it again.
SAMPLES: dict[str, tuple[Callable, Callable]] = {
    "heads.measure": (heads.measure, of_heads),
    "heads.measure_ablation": (heads.measure_ablation, of_ablation),
    "masking.measure": (masking.measure, of_masks),
    "masking.measure_facts": (masking.measure_facts, of_facts),
    "patching.measure": (patching.measure, of_patches),
    "counter.measure_cells": (counter.measure_cells, of_cells),
    "alike.measure": (alike.measure, of_answers),
    "leace_tables.of_bias": (leace_tables.of_bias, of_leace),
    "leace_tables.of_inference": (leace_tables.of_inference, of_leace_in_inference),
}
