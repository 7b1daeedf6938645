"""A run of the notebooks: which of them, two at a time, what came of it, and where to look.

Everything is written to build/<run>/: executed copies, their web pages, and in figures/ what they
save. At the end that is compared with what is stored under figures/<run>/ of the repository, which
`--store` alone replaces. A notebook whose copy is complete and up to date is not run again, so a
run that was stopped goes on where it was.
"""

import os
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import filelock
from tqdm import tqdm

from companion import QUICK, compare, notebooks, published, trypage
from companion.estimate import estimate
from companion.notebooks import Notebook
from companion.report import page, readme
from companion.run import Run
from lib import CompanionError, paths
from lib.engine import models
from lib.engine.files import check_writable, is_full
from lib.paths import short

BOARD = "12"  # reads what all others found, so it runs alone and last
# What others take over comes first, so that two lanes end about together: head scores (02) serve
# 03, 04 and 06, cloze prompts (10) serve 11, projections (08) serve 09.
FIRST = ("02", "10", "08", "09")
WITHOUT_WORDS = "02,03"  # what an encoder without a vocabulary head can be asked
STOPPED = 130
DEFAULT = "mini"  # the run whose outputs stand in notebooks/, and whose numbers in README


def reproduce(options) -> int:
    """What the command line asks for; exit status as in companion/__main__.py."""
    check_flags(options)
    if options.sample_seed:
        os.environ["COMPANION_SAMPLE_SEED"] = options.sample_seed  # notebooks' kernels see it
    if options.recompute:  # what one notebook computes from now on, the others take over
        os.environ["COMPANION_RECOMPUTE_SINCE"] = str(time.time())
    # what a run is can be said without its model, so that it is refused before that is fetched
    lacks_model = options.model in published.MODELS and not published.is_here(options.model)
    run = chosen_run(options, with_model=not lacks_model)
    asked = applicable(options, run)
    wanted = [Notebook(path, run, options.recompute) for path in asked]
    lacking = to_fetch(run, wanted, options.model)
    models.usable_device(run.device)
    if options.list:
        say_what_would_run(run, wanted, lacking, options.model if lacks_model else "")
        return 0
    if lacking:
        fetch(lacking, run.device)
        run = chosen_run(options)
        wanted = [Notebook(path, run, options.recompute) for path in asked]
    print(run)
    for line in estimate(run, wanted):
        print(line)
    if not all(notebook.is_done() for notebook in wanted):
        check(run)
    statuses = execute(run, wanted, options.keep_going)
    if any(statuses.values()) or len(statuses) < len(wanted):
        return say_what_failed(run, wanted, statuses, options)
    return finish(run, wanted, options)


def check_flags(options):
    """Refuse flags that exclude each other, before anything is fetched."""
    if options.quick and options.only:
        raise CompanionError(f"--quick is --only {QUICK}: leave one of the two out.")
    if options.revision and not options.model:
        raise CompanionError("--revision is of a model of the hub: name it by --model.")
    if options.revision and options.model in published.MODELS:
        raise CompanionError(f"{options.model} is a package, not of the hub: leave --revision out.")
    if options.store and options.limit:
        raise CompanionError("A try on few items is never stored: leave --store or --limit out.")


def chosen_run(options, with_model: bool = True) -> Run:
    """The run that the flags mean; without its model, what the rest of them mean."""
    profile = f"{options.profile}-limit{options.limit}" if options.limit else options.profile
    model = f"{options.model}@{options.revision}" if options.revision else options.model
    return Run(
        profile=profile,
        data=options.data,
        model=model if with_model else "",
        device=options.device,
    )


def to_fetch(run: Run, wanted: list[Notebook], model: str) -> list[str]:
    """The published models that these notebooks ask and that are not here yet.

    model   that --model names; the run may be without it, and then has the profile's in its place
    """
    names = set(notebooks.models_of(run, wanted))
    if model in published.MODELS:
        is_encoder = published.is_encoder(model)
        names -= {run.encoder} if is_encoder else {run.decoder, *run.cloze, *run.llama}
        names.add(model)
    return missing(names)


def missing(names: Iterable[str]) -> list[str]:
    """Those of these models that are published ones and not here yet."""
    return [name for name in published.MODELS if name in names and not published.is_here(name)]


def fetch(names: Iterable[str], device: str | None):
    """Fetch and convert what is missing, once the device is known to be there."""
    lacking = missing(names)
    if lacking:
        models.usable_device(device)
    for name in lacking:
        published.convert(name)


# ---- which notebooks
def applicable(options, run: Run) -> list[Path]:
    """The notebooks that are asked for. One that the encoder cannot answer is refused; --quick
    takes those of its own that it can.
    """
    available = sorted(paths.NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))
    chosen = notebooks.select(available, QUICK if options.quick else options.only)
    encoder = options.model if published.is_encoder(options.model) else run.encoder
    is_own = encoder in (options.model, run.model)
    if speaks(encoder, is_own):
        return chosen
    fitting = WITHOUT_WORDS if is_own else published.NOTEBOOKS
    others = [path.name[:2] for path in chosen if path.name[:2] not in fitting.split(",")]
    if options.only and others:
        do_not = "s {} do" if len(others) > 1 else " {} does"
        raise CompanionError(
            f"Notebook{do_not.format(', '.join(others))} not apply, since {encoder} has no "
            f"vocabulary head and all but {fitting} {published.WHY_NOT}: choose from these by "
            "--only."
        )
    kept = [path for path in chosen if path.name[:2] not in others]
    if others:
        numbers = ",".join(path.name[:2] for path in kept)
        print(f"Notebooks {numbers}: {encoder} has no vocabulary head; others {published.WHY_NOT}")
    return kept


def speaks(encoder: str, is_own: bool) -> bool:
    """Whether an encoder has a vocabulary head: of one that --model names by loading it, since what
    a config says it was saved as may be more than its files hold.
    """
    if published.is_encoder(encoder):
        return False
    if not is_own or notebooks.is_bundled(encoder):
        return True
    return models.load(encoder, device="cpu").has_vocabulary_head


def say_what_would_run(run: Run, wanted: list[Notebook], lacking: list[str], lacks: str):
    """What --list says: of a run that lacks its own model no more than what there is to fetch."""
    for line in published.to_fetch(lacking):
        print(line)
    if lacks:
        print(f"{lacks} is fetched and converted first; then --list says the rest.")
        return
    print(run)
    width = max(len(notebook.name) for notebook in wanted)
    for notebook in wanted:
        why = notebook.why_stale()
        state = "up to date" if not why else f"stale: {said(why)}"
        print(f"{notebook.name:{width}}  {state}")
    for line in estimate(run, wanted):
        print(line)


def said(reasons: list[str]) -> str:
    """Why a notebook is stale, the first three reasons."""
    others = f" and {len(reasons) - 3} more" if len(reasons) > 3 else ""
    return ", ".join(reasons[:3]) + others


def check(run: Run):
    """Refuse folders that cannot be written, before anything."""
    check_writable(run.out, "COMPANION_OUT")
    check_writable(paths.BUILD)
    check_writable(paths.CACHE, "COMPANION_CACHE")


# ---- executing
def execute(run: Run, wanted: list[Notebook], keep_going: bool) -> dict[Notebook, int]:
    """{notebook: exit status}, of those that were begun: all, unless one failed or was stopped."""
    lanes = Lanes(how_many(run, wanted), keep_going)
    others = [notebook for notebook in wanted if notebook.number != BOARD]
    if lanes.n > 1:
        others.sort(key=lambda notebook: notebook.number not in FIRST)
    lanes.execute(others)
    lanes.n = 1
    lanes.execute([notebook for notebook in wanted if notebook.number == BOARD])
    return lanes.statuses


def how_many(run: Run, wanted: list[Notebook]) -> int:
    """Notebooks at a time: two where all models are bundled ones, to which a second thread gives
    little; one where a model may fill the memory, or there is but one core."""
    waiting = [notebook for notebook in wanted if not notebook.is_done()]
    is_small = all(notebooks.is_bundled(name) for name in run.models)
    return 2 if is_small and (os.cpu_count() or 1) > 1 and len(waiting) > 1 else 1


class Lanes:
    """Executes notebooks, n at a time. After a failure those that run end, and no other begins,
    unless they are to keep going; after Ctrl-C none goes on."""

    def __init__(self, n: int, keep_going: bool):
        self.n = n
        self.keep_going = keep_going
        self.statuses: dict[Notebook, int] = {}
        self.no_more = threading.Event()  # none is to begin
        self.interrupted = threading.Event()

    def execute(self, wanted: list[Notebook]):
        with ThreadPoolExecutor(self.n) as pool:
            futures = [pool.submit(self.carry_out, notebook) for notebook in wanted]
            try:
                for future in futures:
                    future.result()
            except KeyboardInterrupt:
                self.interrupted.set()
                self.no_more.set()
                notebooks.Kernel.end_all()

    def carry_out(self, notebook: Notebook):
        """Execute a notebook unless it is up to date, and say how that went."""
        if self.no_more.is_set():
            return
        start = time.time()
        try:
            status, outcome = self.done(notebook, start)
        except Exception as error:
            if self.interrupted.is_set():
                status, outcome = STOPPED, "stopped"
            else:
                status, outcome = 1, why_failed(error, time.time() - start)
        self.statuses[notebook] = status
        if status and not self.keep_going:
            self.no_more.set()
        tqdm.write(f"{notebook.name:22}  {outcome}")

    def done(self, notebook: Notebook, start: float) -> tuple[int, str]:
        """Its exit status and a word on it, once it is done."""
        if notebook.is_done():
            return 0, "up to date"
        if make_classifier(notebook):
            return 1, f"needs {notebook.run.classifier}, which could not be made"
        lane = int(threading.current_thread().name.rpartition("_")[2])
        threads = os.environ.get("OMP_NUM_THREADS") or str(max(1, (os.cpu_count() or 1) // self.n))
        notebook.execute(threads, lane)
        return 0, f"done in {time.time() - start:.0f} s"


def why_failed(error: Exception, seconds: float) -> str:
    """What ended a notebook: its cell on one screen, anything else, such as a kernel that does not
    start, in a line."""
    if isinstance(error, notebooks.Failed):
        return f"failed after {seconds:.0f} s\n\n{notebooks.explain(error)}\n"
    if is_full(error):  # of its copy, which is written cell by cell
        return "failed, the disk is full: free some space"
    if isinstance(error, CompanionError):  # written to be read as it is
        return f"failed: {error}"
    return f"failed: {type(error).__name__}: {' '.join(str(error).split())}"


def make_classifier(notebook: Notebook) -> int:
    """Make a notebook's classifier that is not bundled, once; exit status. In a process of its own,
    whose end frees the GPU."""
    run = notebook.run
    folder = notebooks.to_make(run, [notebook])
    if not folder:
        return 0
    tqdm.write(f"{run.classifier:22}  to be made from {run.encoder}, once")
    Path(folder).parent.mkdir(parents=True, exist_ok=True)
    command = [
        sys.executable,
        "-m",
        "training",
        "nli",
        "make",
        "--model",
        run.encoder,
        "--out",
        folder,
    ]
    if run.device:
        command += ["--device", run.device]
    if run.sizes.items:
        command += ["--items", str(run.sizes.items)]
    with filelock.FileLock(f"{folder}.lock"):  # another run may be making it
        if notebooks.to_make(run, [notebook]):
            status = subprocess.run(command, cwd=paths.ROOT).returncode
        else:
            status = 0
    notebooks.revision.cache_clear()
    return status


# ---- saying what came of it
def say_what_failed(
    run: Run, wanted: list[Notebook], statuses: dict[Notebook, int], options
) -> int:
    """Name what failed or was not reached, and the command that goes on from there; exit status."""
    failed = [notebook for notebook in wanted if statuses.get(notebook)]
    left = [notebook for notebook in wanted if statuses.get(notebook, 1)]
    for notebook in failed:
        if notebook.so_far.exists():
            print(f"Its copy so far is {short(notebook.so_far)}.")
    if STOPPED in statuses.values():
        print(f"To go on from there: {again(run, options, left)}")
        return STOPPED
    if options.keep_going:
        names = ", ".join(notebook.name for notebook in failed)
        print(f"{len(failed)} of {len(wanted)} failed: {names}.")
        print(f"To try these again: {again(run, options, left)}")
    else:
        print(f"To go on from there: {again(run, options, left)}")
    return 1


def again(run: Run, options, left: list[Notebook]) -> str:
    """The command that does what is left of a run. What is done is not done again, so the same
    command serves, unless it says --recompute."""
    flags = list(run.flags)
    for flag in ("recompute", "keep_going", "store"):
        if getattr(options, flag):
            flags.append(f"--{flag.replace('_', '-')}")
    if options.recompute or options.keep_going:
        flags += ["--only", ",".join(notebook.number for notebook in left)]
    elif options.quick:
        flags.append("--quick")
    elif options.only:
        flags += ["--only", options.only]
    return shlex.join(["./reproduce.sh", *flags])


def finish(run: Run, wanted: list[Notebook], options) -> int:
    """Compare with what is stored, store if asked to, make the report; exit status."""
    if run.sizes.items:
        print(f"Figures and tables: {short(run.out)}")
        items = f"{run.sizes.items} items in each measurement"
        print(f"This was a try on {items}: its numbers say nothing")
        return 0
    found = compare.run(run, {notebook.number for notebook in wanted})
    if options.store:
        store(run, wanted, pictures=not options.without_pictures)
    print(f"Figures and tables: {short(run.out)}")
    print(f"Executed notebooks, as web pages too: {short(wanted[0].copy.parent)}")
    print("To explore them: ./reproduce.sh lab")
    print(f"The report: {short(page.write())}")
    print(found)
    trypage.beside_the_report()
    return 0 if options.store else found.status


def store(run: Run, wanted: list[Notebook], pictures: bool):
    """Put results where the repository keeps them, outputs into notebooks, and the board into
    README.
    """
    numbers = {notebook.number for notebook in wanted}
    changed = compare.store(run, numbers, pictures)
    print(f"Stored in {short(run.stored)}: {changed} files changed")
    if run.name == DEFAULT:  # on whatever device
        for notebook in wanted:
            notebook.store(pictures)
        print(readme.write())
