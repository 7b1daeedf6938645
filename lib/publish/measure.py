"""Heavy measurements without notebooks, where a GPU is; a notebook then shows the result.

    ./reproduce.sh measure heads  --data paper               head scores of notebooks 02 to 04
    ./reproduce.sh measure ablation                          every head switched off, notebook 02
    ./reproduce.sh measure counter                           written sentences of notebook 03
    ./reproduce.sh measure patching                          every head patched, three ways
    ./reproduce.sh measure leace  --data paper               LEACE in notebooks 08 and 09
    ./reproduce.sh measure alike --profile published         published models beside bundled ones
    ./reproduce.sh measure table1 --data paper --part 2/4    Table 1 of notebook 04, the second of
                                                             four processes
    ./reproduce.sh measure table1 --data paper --limit 2     a try: 2 masks, 2 lines of text,
                                                             nothing is written

A result is one small file under build/<run>/measured; under figures/<run>/measured with --store,
or under --out. `table1` keeps what it has after every mask in a file of its part beside it;
whichever process ends last puts the parts together. Masks that the stored result has are not
measured again where its plan alone was another.
"""

import hashlib
import inspect
import json
import re
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from tqdm import tqdm

from lib import CompanionError, paths, stale
from lib.bias_a_head import counter, heads, masking, patching
from lib.engine import models
from lib.projective import leace_tables
from lib.results import place, question, read, write
from lib.run import Run, versions

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
    share_of(options.part)
    models.usable_device(options.device)
    own = Run(
        profile=options.profile
    )  # to ask for one of its models is to ask for the profile's run
    is_own = options.name == "alike" or options.model in (own.encoder, own.decoder)
    model = "" if is_own else options.model
    run = Run(profile=options.profile, data=options.data, device=options.device, model=model)
    measurements[options.name](run, options)


def by_name() -> dict[str, Callable]:
    """Every measurement, by what the command line calls it."""
    return {
        "ablation": ablations,
        "alike": answers,
        "counter": written_sentences,
        "heads": head_scores,
        "leace": erasers,
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


def head_scores(run: Run, options):
    """`heads.measure` of the run's models on gender and race: seconds to minutes on a CPU."""
    for name in (run.encoder, run.decoder):
        for bias in ("gender", "race"):
            _scores(run, options, name, bias)


def _scores(run: Run, options, name: str, bias: str) -> dict:
    """What `heads.measure` gives, as stored, or computed and written."""
    args = heads.arguments(run, name, bias)
    precision = str(models.usual_dtype(name)).removeprefix("torch.")
    made_from = _made_from(run, heads.measure, args, "heads", precision)
    file = place(folder_of(run, options), heads.measure, args)
    for known in (place(run.stored / "measured", heads.measure, args), file):
        if known.exists():
            result, known_from = read(known)
            if known_from["question"] == made_from["question"]:
                return result
    result = heads.measure(*args, device=run.device)
    if not options.limit:
        write(file, result, made_from)
        print(file, flush=True)
    return result


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


def erasers(run: Run, options):
    """LEACE in notebooks 08 and 09: a minute or two each on a CPU."""
    bias = leace_tables.bias_arguments(run, options.limit)
    _kept(run, options, "leace", leace_tables.of_bias, bias)
    if run.classifier:
        inference = leace_tables.inference_arguments(run, options.limit)
        _kept(run, options, "leace", leace_tables.of_inference, inference)


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


def answers(run: Run, options):
    """`alike.measure` of bundled, published and untrained models, each kept as soon as it is
    done: minutes each on a CPU.
    """
    from lib.publish import alike, published  # draws figures, which no other measurement does

    for name in [options.model] if options.model else alike.NAMES:
        if name in published.MODELS:
            published.convert(name)
        args = name, alike.Amounts()
        made_from = _made_from(run, alike.measure, args, "alike", "float32")
        made_from["question"]["weights"] = {name: models.locate(name)[1]}
        file = place(folder_of(run, options), alike.measure, args)
        if file.exists() and read(file)[1]["question"] == made_from["question"]:
            continue
        write(file, alike.measure(*args, device=run.device), made_from)
        print(file, flush=True)
    if options.store:
        print(f"{alike.TABLE}; the figure: {alike.write()}")


def table1(run: Run, options):
    """`masking.measure`, its masks shared out among the parts, each kept as soon as it is done;
    and `masking.measure_facts` of the same masks.
    """
    scores = _scores(run, options, run.encoder, "gender")
    args = masking.arguments(run, scores, whole=True, falls=_falls(run, options))
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
    stored = _of_another_plan(place(run.stored / "measured", masking.measure, args), made_from)
    done = stored | _done(file, f"{key}.*-of-*")
    waiting = [step for step in range(number - 1, n_masks, parts) if step not in done]
    if waiting:
        bench = masking.prepare(*args, device=run.device, precision=options.precision)
    for step in tqdm(waiting, desc=f"masks, part {options.part}"):
        row = rows[step] = masking.under(bench, step)
        if options.limit:
            print("{strategy:9} {k:3} heads  |SEAT| {seat:.4f}  PPPL {pppl:.4f}".format(**row))
        else:
            write(mine, masking.columns(list(rows.values())), made_from)
    every = rows if options.limit else stored | _done(file, f"{key}.*-of-*")
    print(f"{len(every)} of {n_masks} masks are done")
    if len(every) == n_masks and not options.limit:
        write(file, masking.columns(list(every.values())), made_from)
        print(file)
    if number == parts:
        of_facts = masking.facts_arguments(run, args[1])
        _kept(run, options, "table1", masking.measure_facts, of_facts)


def _falls(run: Run, options):
    """What `measure patching` found of each head, if it has been run."""
    args = patching.arguments(run, run.encoder)
    asked = question(patching.measure, args, run.weights(args))
    for folder in (folder_of(run, options), run.stored / "measured"):
        file = place(folder, patching.measure, args)
        if file.exists():
            result, made_from = read(file)
            if made_from["question"] == asked:
                return patching.falls(result)
    return None


def _of_another_plan(file: Path, made_from: dict) -> dict[int, dict]:
    """{step: row} of the masks that a stored Table 1 has, if it was made from the same but for its
    plan: a plan may grow by draws. What is taken over is said in `made_from`.
    """
    if not file.exists():
        return {}
    columns, before = read(file)
    plan, others = _but_for_plan(made_from)
    its_plan, its_others = _but_for_plan(before)
    if others != its_others:
        return {}
    columns.pop("facts", None)  # were measured with the masks once
    places = {json.dumps(step): i for i, step in enumerate(its_plan)}
    rows = {}
    for step, mask in enumerate(plan):
        i = places.get(json.dumps(mask))
        if i is not None:
            rows[step] = {name: values[i] for name, values in columns.items()} | {"step": step}
    said = {key: before[key] for key in ("command", "device", "versions")}
    made_from["masks taken over"] = {"how many": len(rows)} | said
    return rows


def _but_for_plan(made_from: dict) -> tuple[list, list]:
    """The plan of a stored Table 1, and all else that its numbers depend on."""
    asked = made_from["question"]
    name, plan, *rest = asked["arguments"]
    return plan, [name, rest, asked["weights"], made_from["precision"]]


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
        "command": shlex.join(["python", "-m", "lib.publish", "measure", name, *flags]),
        "device": torch.cuda.get_device_name() if on_gpu else "cpu",
        "versions": versions("torch", "transformers", "numpy"),
        "code": stale.module(Path(inspect.getsourcefile(function))),
    }
