"""Heavy measurements without notebooks, where a GPU is; a notebook then shows the result as stored.

    python -m lib.publish measure heads  --data paper                 head scores of notebooks 02 to 04
    python -m lib.publish measure table1 --data paper --device cuda   Table 1 of notebook 04, from the encoder's scores
    python -m lib.publish measure table1 --data paper --part 2/4      the second of four processes that share it
    python -m lib.publish measure table1 --data paper --limit 2       a try: 2 masks, 2 lines of text, nothing stored

A result is one small file under figures/<run>/measured, or under --out. `table1` writes what it has after every mask
into a file of its part beside it, so that a run that was stopped loses one mask; whichever process ends last puts the
parts together. Needs torch, transformers, numpy and tqdm alone.
"""

import hashlib
import json
import shlex
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from tqdm.auto import tqdm

from lib import CompanionError
from lib.bias_a_head import heads, masking
from lib.engine import models
from lib.publish.run import Run, place, question, read, write


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


def _scores(run: Run, options, name: str, bias: str) -> np.ndarray:
    """The scores as stored, or computed and stored."""
    args = heads.asked(run, name, bias)
    precision = str(models.usual_dtype(name)).removeprefix("torch.")
    made_from = _made_from(run, heads.measure, args, "heads", run.flags, precision)
    for file in (place(run.name, heads.measure, args), _file(run, heads.measure, args, options)):
        if file.exists() and read(file)[1]["question"] == made_from["question"]:
            return read(file)[0]["scores"]
    result = heads.measure(*args, device=run.device)
    write(file, result, made_from)
    print(file, flush=True)
    return result["scores"]


def table1(run: Run, options):
    """`masking.measure`, its masks shared out among the parts, each mask kept as soon as it is done."""
    args = masking.asked(run, _scores(run, options, run.encoder, "gender"))
    if options.limit:
        name, plan, data, contexts, _, *rest = args
        args = name, plan[:options.limit], data, contexts, options.limit, *rest
    flags = [*run.flags, *(["--precision", options.precision] if options.precision != "float32" else [])]
    made_from = _made_from(run, masking.measure, args, "table1", flags, options.precision)
    file = _file(run, masking.measure, args, options)
    key = json.dumps([made_from["question"], options.precision])
    part, parts = _share(options.part)
    mine = file.with_suffix(f".{hashlib.sha256(key.encode()).hexdigest()[:8]}.{part}-of-{parts}.part.npz")

    rows = {row["step"]: row for row in _kept(mine)}
    done = {row["step"] for row in _all_kept(mine)}
    waiting = [step for step in range(part - 1, len(args[1]), parts) if step not in done]
    if waiting:
        bench = masking.prepare(*args, device=run.device, precision=options.precision)
    for step in tqdm(waiting, desc=f"masks, part {options.part}"):
        rows[step] = masking.under(bench, step)
        if not options.limit:
            write(mine, masking.columns(list(rows.values())), made_from)
    every = {row["step"]: row for row in (rows.values() if options.limit else _all_kept(mine))}
    print(f"{len(every)} of {len(args[1])} masks are done")
    for row in every.values() if options.limit else ():
        print(f"{row['strategy']:9} {row['k']:3} heads  |SEAT| {row['seat']:.4f}  PPPL {row['pppl']:.4f}")
    if not options.limit and len(every) == len(args[1]):
        write(file, masking.columns(list(every.values())), made_from)
        print(file)


MEASUREMENTS = {"heads": head_scores, "table1": table1}


def _file(run: Run, function, args, options) -> Path:
    file = place(run.name, function, args)
    return Path(options.out) / file.name if options.out else file


def _made_from(run: Run, function, args, name: str, flags: list[str], precision: str) -> dict:
    cuda = torch.cuda.is_available() and not str(run.device).startswith("cpu")
    return {"question": question(function, args, run.weights(args)), "precision": precision, "run": run.name,
            "command": shlex.join(["python", "-m", "lib.publish", "measure", name, *flags]),
            "device": torch.cuda.get_device_name() if cuda else "cpu",
            "versions": {name: version(name).split("+")[0] for name in ("torch", "transformers", "numpy")}}


def _share(part: str) -> tuple[int, int]:
    """Which of how many: "2/4" is (2, 4)."""
    number, _, of = part.partition("/")
    if not (number.isdigit() and of.isdigit() and 1 <= int(number) <= int(of)):
        raise CompanionError(f"'{part}' is no part: write 1/4 to 4/4 for four processes.")
    return int(number), int(of)


def _kept(file: Path) -> list[dict]:
    """The rows of a part's file; none where there is none yet."""
    if not file.exists():
        return []
    columns = read(file)[0]
    return [{name: values[i] for name, values in columns.items()} for i in range(len(columns["step"]))]


def _all_kept(mine: Path) -> list[dict]:
    """The rows of all parts of the same question, however many parts it was shared into."""
    same = mine.name.rsplit(".", 3)[0]
    return [row for file in sorted(mine.parent.glob(f"{same}.*-of-*.part.npz")) for row in _kept(file)]
