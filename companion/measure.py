"""Heavy measurements without notebooks, where a GPU is; a notebook then shows the result.

    ./reproduce.sh measure ablation                      every head switched off, notebook 02
    ./reproduce.sh measure counter                       written sentences of notebook 03
    ./reproduce.sh measure parts                         embeddings, attention, feed-forward patched
    ./reproduce.sh measure patching                      every head patched, three ways
    ./reproduce.sh measure table1 --data paper           the masks of notebook 04
    ./reproduce.sh measure table1 --data paper --limit 2     a try on 2 items of everything

A result is one small file under build/<run>/measured; under figures/<run>/measured with --store,
or under --out. One that was stopped goes on where it was: run.py keeps each mask of Table 1.
"""

import shlex
from collections.abc import Iterator
from pathlib import Path

import torch

from companion import stale
from companion.results import place, question, write
from companion.run import Run, versions
from lib import CompanionError, paths
from lib.bias_a_head import components, counter, heads, masking, patching
from lib.engine import models


def measure(options):
    """What the command line asks for; what cannot be done is said before anything is computed."""
    if options.name not in MEASUREMENTS:
        choices = ", ".join(MEASUREMENTS)
        raise CompanionError(f"There is no measurement '{options.name}': choose one of {choices}.")
    if options.precision not in masking.PRECISIONS:
        choices = ", ".join(masking.PRECISIONS)
        raise CompanionError(f"There is no precision '{options.precision}': choose {choices}.")
    if options.name != "table1" and options.precision != "float32":
        raise CompanionError("--precision is of table1 alone: leave it out.")
    if options.store and options.limit:
        raise CompanionError("A try on few items is never stored: leave --store or --limit out.")
    models.usable_device(options.device)
    run = _run(options)
    folder = (run.stored if options.store else paths.BUILD / run.name) / "measured"
    folder = Path(options.out or folder)
    for function, args in MEASUREMENTS[options.name](run, options):
        is_other = function is masking.measure and options.precision != "float32"
        precision = {"precision": options.precision} if is_other else {}
        result = run.computed(function, args, precision)
        file = place(folder, function, args)
        write(file, result, _made_from(run, function, args, options))
        print(file, flush=True)


def _run(options) -> Run:
    """The run that is measured: to ask for one of a profile's models is to ask for its own run."""
    own = Run(profile=options.profile)
    is_own = options.model in (own.encoder, own.decoder)
    profile = f"{options.profile}-limit{options.limit}" if options.limit else options.profile
    return Run(
        profile=profile,
        data=options.data,
        device=options.device,
        model="" if is_own else options.model,
    )


# ---- each yields functions and their arguments
def ablations(run: Run, options) -> Iterator[tuple]:
    """`heads.measure_ablation` of both models, every head on all words of the scores: seconds on a
    GPU, ten minutes each on a CPU.
    """
    for name in (run.encoder, run.decoder):
        yield heads.measure_ablation, heads.arguments_of_ablation(run, name, whole=True)


def written_sentences(run: Run, options) -> Iterator[tuple]:
    """`counter.measure_cells` of both models on written sentences: minutes each on a CPU."""
    for name in (run.encoder, run.decoder):
        n = run.sizes.items or counter.WRITTEN
        yield counter.measure_cells, (name, "gender", "mini", n, run.seed)


def patches(run: Run, options) -> Iterator[tuple]:
    """`patching.measure` of both models on gender: a minute on a GPU, half an hour on a CPU."""
    for name in (run.encoder, run.decoder):
        yield patching.measure, patching.arguments(run, name)


def parts(run: Run, options) -> Iterator[tuple]:
    """`components.measure_seat` and `measure_odds` of both models: seconds on a GPU, minutes on a
    CPU.
    """
    for name in (run.encoder, run.decoder):
        yield components.measure_seat, patching.arguments(run, name)
        if run.data == run.own_data:  # its sentences are of no data set
            yield components.measure_odds, (name,)


def table1(run: Run, options) -> Iterator[tuple]:
    """`masking.measure`, and `masking.measure_facts` of the same masks."""
    scores = run.measured(heads.measure, *heads.arguments(run, run.encoder, "gender"))
    patched = run.measured(patching.measure, *patching.arguments(run, run.encoder), quick=None)
    falls = None if patched is None else patching.falls(patched)
    args = masking.arguments(run, scores, whole=not run.sizes.items, falls=falls)
    yield masking.measure, args
    yield masking.measure_facts, masking.facts_arguments(run, args[1])


MEASUREMENTS = {  # by what the command line calls them
    "ablation": ablations,
    "counter": written_sentences,
    "parts": parts,
    "patching": patches,
    "table1": table1,
}


def _made_from(run: Run, function, args, options) -> dict:
    """What a result says of how it was made."""
    on_gpu = torch.cuda.is_available() and not str(run.device).startswith("cpu")
    flags = list(run.flags)
    if options.precision != "float32":
        flags += ["--precision", options.precision]
    return {
        "question": question(function, args, run.weights(args)),
        "precision": options.precision if function is masking.measure else "float32",
        "run": run.name,
        "command": shlex.join(["./reproduce.sh", "measure", options.name, *flags]),
        "device": torch.cuda.get_device_name() if on_gpu else "cpu",
        "versions": versions("torch", "transformers", "numpy"),
        "code": stale.of_function(function),
    }
