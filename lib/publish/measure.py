"""Heavy measurements without notebooks, where a GPU is; a notebook then shows the result as stored.

    python -m lib.publish measure heads  --data paper                 head scores of notebooks 02 to 04
    python -m lib.publish measure table1 --data paper --part 2/4      Table 1 of notebook 04, the second of 4 processes
    python -m lib.publish measure table1 --data paper --limit 2       a try: 2 masks, 2 lines of text, nothing stored

A result is one small file under figures/<run>/measured, or under --out. `table1` keeps what it has after every mask in
a file of its part beside it; whichever process ends last puts the parts together. Needs no pandas."""

import hashlib
import json
import shlex

import torch
from tqdm import tqdm

from lib import CompanionError
from lib.bias_a_head import heads, masking
from lib.engine import models
from lib.publish.run import Run, place, question, read, versions, write


def measure(options):
    """What the command line asks for: name, profile, data, model, device, precision, part, limit, out."""
    if options.name not in MEASUREMENTS:
        raise CompanionError(f"There is no measurement '{options.name}': choose one of {', '.join(MEASUREMENTS)}.")
    own = Run(profile=options.profile)  # to ask for one of its models is to ask for the profile's own run
    MEASUREMENTS[options.name](Run(profile=options.profile, data=options.data, device=options.device,
                                   model="" if options.model in (own.encoder, own.decoder) else options.model), options)


def head_scores(run: Run, options):
    """`heads.measure` of the run's models on gender and race: seconds to minutes on a CPU."""
    for name in (run.encoder, run.decoder):
        for bias in ("gender", "race"):
            _scores(run, options, name, bias)


def _scores(run: Run, options, name: str, bias: str) -> dict:
    """What `heads.measure` gives, as stored, or computed and stored."""
    args = heads.asked(run, name, bias)
    made_from = _made_from(run, heads.measure, args, "heads", str(models.usual_dtype(name)).removeprefix("torch."))
    for file in (place(run.name, heads.measure, args), place(run.name, heads.measure, args, options.out)):
        if file.exists() and read(file)[1]["question"] == made_from["question"]:
            return read(file)[0]
    result = heads.measure(*args, device=run.device)
    if not options.limit:
        write(file, result, made_from)
        print(file, flush=True)
    return result


def table1(run: Run, options):
    """`masking.measure`, its masks shared out among the parts, each mask kept as soon as it is done."""
    args = masking.asked(run, _scores(run, options, run.encoder, "gender"))
    if options.limit:
        name, plan, data, contexts, _, *rest = args
        args = name, plan[:options.limit], data, contexts, options.limit, *rest
    made_from = _made_from(run, masking.measure, args, "table1", options.precision)
    file, n = place(run.name, masking.measure, args, options.out), len(args[1])
    key = hashlib.sha256(json.dumps([made_from["question"], options.precision]).encode()).hexdigest()[:8]
    number, _, parts = options.part.partition("/")
    if not (number.isdigit() and parts.isdigit() and 1 <= int(number) <= int(parts)):
        raise CompanionError(f"'{options.part}' is no part: write 1/4 to 4/4 for four processes.")
    mine = file.with_suffix(f".{key}.{number}-of-{parts}.part.npz")

    def done(name="*-of-*"):
        """{step: row} of the parts called so; the same question may have been shared into however many."""
        kept = [read(part)[0] for part in sorted(file.parent.glob(f"{file.stem}.{key}.{name}.part.npz"))]
        return {int(step): {name: values[i] for name, values in columns.items()}
                for columns in kept for i, step in enumerate(columns["step"])}

    rows = done(f"{number}-of-{parts}")
    waiting = [step for step in range(int(number) - 1, n, int(parts)) if step not in done()]
    if waiting:
        bench = masking.prepare(*args, device=run.device, precision=options.precision)
    for step in tqdm(waiting, desc=f"masks, part {options.part}"):
        row = rows[step] = masking.under(bench, step)
        if options.limit:
            print(f"{row['strategy']:9} {row['k']:3} heads  |SEAT| {row['seat']:.4f}  PPPL {row['pppl']:.4f}")
        else:
            write(mine, masking.columns(list(rows.values())), made_from)
    every = rows if options.limit else done()
    print(f"{len(every)} of {n} masks are done")
    if len(every) == n and not options.limit:
        write(file, masking.columns(list(every.values())), made_from)
        print(file)


MEASUREMENTS = {"heads": head_scores, "table1": table1}


def _made_from(run: Run, function, args, name: str, precision: str) -> dict:
    on_gpu = torch.cuda.is_available() and not str(run.device).startswith("cpu")
    device = torch.cuda.get_device_name() if on_gpu else "cpu"
    flags = [*run.flags, *(["--precision", precision] if name == "table1" and precision != "float32" else [])]
    return {"question": question(function, args, run.weights(args)), "precision": precision, "run": run.name,
            "command": shlex.join(["python", "-m", "lib.publish", "measure", name, *flags]), "device": device,
            "versions": versions("torch", "transformers", "numpy")}
