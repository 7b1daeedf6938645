"""Heavy measurements without notebooks, where a GPU is; a notebook then shows the result.

    ./reproduce.sh measure ablation                          every head switched off, notebook 02
    ./reproduce.sh measure counter                           written sentences of notebook 03
    ./reproduce.sh measure patching                          every head patched, three ways
    ./reproduce.sh measure table1 --data paper --part 2/4    Table 1 of notebook 04, the second of
                                                             four processes
    ./reproduce.sh measure table1 --data paper --limit 2     a try: 2 masks, 2 lines of text,
                                                             nothing is written

A result is one small file under build/<run>/measured; under figures/<run>/measured with --store,
or under --out. `table1` keeps what it has after every mask in a file of its part beside it;
whichever process ends last puts the parts together.
"""

import hashlib
import json
import re
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from tqdm import tqdm

from companion import stale
from companion.results import place, question, read, write
from companion.run import Run, versions
from lib import CompanionError, paths
from lib.bias_a_head import counter, heads, masking, patching
from lib.engine import models

PRECISIONS = ("float32", "tf32", "bfloat16")


def measure(options):
    """What the command line asks for; what cannot be done is said before anything is computed."""
    measurements = by_name()
    if options.name not in measurements:
        choices = ", ".join(measurements)
        raise CompanionError(f"There is no measurement '{options.name}': choose one of {choices}.")
    if options.precision not in PRECISIONS:
        choices = ", ".join(PRECISIONS)
        raise CompanionError(f"There is no precision '{options.precision}': choose {choices}.")
    if options.name != "table1" and (options.part != "1/1" or options.precision != "float32"):
        raise CompanionError("--part and --precision are of table1 alone: leave them out.")
    share_of(options.part)
    models.usable_device(options.device)
    own = Run(
        profile=options.profile
    )  # to ask for one of its models is to ask for the profile's run
    is_own = options.model in (own.encoder, own.decoder)
    model = "" if is_own else options.model
    run = Run(profile=options.profile, data=options.data, device=options.device, model=model)
    measurements[options.name](run, options)


def by_name() -> dict[str, Callable]:
    """Every measurement, by what the command line calls it."""
    return {
        "ablation": ablations,
        "counter": written_sentences,
        "patching": patches,
        "table1": table1,
    }


def share_of(part: str) -> tuple[int, int]:
    """Which share of how many: (2, 4) of "2/4"."""
    match = re.fullmatch(r"(\d+)/(\d+)", part)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise CompanionError(f"'{part}' is no part: write 1/4 to 4/4 for four processes.")
    return int(match[1]), int(match[2])


def folder_of(run: Run, options) -> Path:
    """Where results go."""
    if options.out:
        return Path(options.out)
    return (run.stored if options.store else paths.BUILD / run.name) / "measured"


def ablations(run: Run, options):
    """`heads.measure_ablation` of both models, every head on all words of the scores: seconds on a
    GPU, ten minutes each on a CPU.
    """
    for name in (run.encoder, run.decoder):
        args = heads.arguments_of_ablation(run, name, whole=True)
        _kept(run, options, "ablation", heads.measure_ablation, args)


def patches(run: Run, options):
    """`patching.measure` of both models on gender: a minute on a GPU, half an hour on a CPU."""
    for name in (run.encoder, run.decoder):
        _kept(run, options, "patching", patching.measure, patching.arguments(run, name))


def written_sentences(run: Run, options):
    """`counter.measure_cells` of both models on written sentences: minutes each on a CPU."""
    for name in (run.encoder, run.decoder):
        n = options.limit or counter.WRITTEN
        args = name, "gender", "mini", n, run.seed
        _kept(run, options, "counter", counter.measure_cells, args)


def _kept(run: Run, options, name: str, function, args):
    """Compute, and write unless it is a try, which takes few words of a sample."""
    if options.limit:
        args = [_on_few(arg, options.limit) for arg in args]
    made_from = _made_from(run, function, args, name, "float32")
    result = function(*args, device=run.device)
    if not options.limit:
        file = place(folder_of(run, options), function, args)
        write(file, result, made_from)
        print(file, flush=True)


def _on_few(arg, items: int):
    """A sample on so many items; any other argument as it is."""
    return replace(arg, items=items) if isinstance(arg, heads.Sample) else arg


def table1(run: Run, options):
    """`masking.measure`, its masks shared out among the parts, each kept as soon as it is done;
    and `masking.measure_facts` of the same masks.
    """
    scores = run.measured(heads.measure, *heads.arguments(run, run.encoder, "gender"))
    patches = run.measured(patching.measure, *patching.arguments(run, run.encoder), quick=None)
    falls = None if patches is None else patching.falls(patches)
    args = masking.arguments(run, scores, whole=True, falls=falls)
    if options.limit:
        name, plan, sample, workload = args
        args = name, plan[: options.limit], sample, replace(workload, lines=options.limit)
    made_from = _made_from(run, masking.measure, args, "table1", options.precision)
    file = place(folder_of(run, options), masking.measure, args)
    n_masks = len(args[1])
    number, parts = share_of(options.part)
    key = _key(made_from["question"], options.precision)
    mine = file.with_suffix(f".{key}.{number}-of-{parts}.part.npz")
    rows = _done(file, f"{key}.{number}-of-{parts}")
    done = _done(file, f"{key}.*-of-*")
    waiting = [step for step in range(number - 1, n_masks, parts) if step not in done]
    if waiting:
        bench = masking.prepare(*args, device=run.device, precision=options.precision)
    for step in tqdm(waiting, desc=f"masks, part {options.part}"):
        row = rows[step] = masking.under(bench, step)
        if options.limit:
            print("{strategy:9} {k:3} heads  |SEAT| {seat:.4f}  PPPL {pppl:.4f}".format(**row))
        else:
            write(mine, masking.columns(list(rows.values())), made_from)
    every = rows if options.limit else _done(file, f"{key}.*-of-*")
    print(f"{len(every)} of {n_masks} masks are done")
    if len(every) == n_masks and not options.limit:
        write(file, masking.columns(list(every.values())), made_from)
        print(file)
    if number == parts:
        of_facts = masking.facts_arguments(run, args[1])
        _kept(run, options, "table1", masking.measure_facts, of_facts)


def _key(asked: dict, precision: str) -> str:
    """Which question a part answers: the same one may have been shared into however many parts."""
    return hashlib.sha256(json.dumps([asked, precision]).encode()).hexdigest()[:8]


def _done(file: Path, part: str) -> dict[int, dict]:
    """{step: row} of the parts whose names match."""
    rows = {}
    for kept in sorted(file.parent.glob(f"{file.stem}.{part}.part.npz")):
        columns = read(kept)[0]
        for i, step in enumerate(columns["step"]):
            rows[int(step)] = {name: values[i] for name, values in columns.items()}
    return rows


def _made_from(run: Run, function, args, name: str, precision: str) -> dict:
    """What a result says of how it was made."""
    on_gpu = torch.cuda.is_available() and not str(run.device).startswith("cpu")
    flags = list(run.flags)
    if name == "table1" and precision != "float32":
        flags += ["--precision", precision]
    return {
        "question": question(function, args, run.weights(args)),
        "precision": precision,
        "run": run.name,
        "command": shlex.join(["./reproduce.sh", "measure", name, *flags]),
        "device": torch.cuda.get_device_name() if on_gpu else "cpu",
        "versions": versions("torch", "transformers", "numpy"),
        "code": stale.of_function(function),
    }
