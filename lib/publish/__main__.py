"""The command line: run the notebooks in order, each once, and say where to look.

Executed copies go to build/<run>/, as notebooks and as web pages; build/report/ shows all runs on one page. A notebook
whose copy is complete and up to date is not run again; so a run that failed or was stopped goes on where it was.
"""

import argparse
import shlex
import subprocess
import sys
import time
from pathlib import Path

from lib import CompanionError, paths
from lib.engine.files import is_full

EPILOG = """\
also:
  ./reproduce.sh test                     run the tests, and every notebook against its stored outputs
  ./reproduce.sh lab                      open the notebooks in JupyterLab
  ./reproduce.sh report                   make the page build/report/index.html again, from what is in figures/
  ./reproduce.sh estimate                 what a run would fetch, make and take; nothing is run
  ./reproduce.sh measure heads            a heavy measurement without notebooks, stored for them: heads, table1
  ./reproduce.sh readme                   for developers: write what the runs found into README.md

examples:
  ./reproduce.sh                          every table and figure, on the shipped models
  ./reproduce.sh --only 02-05             those of notebooks 02 to 05
  ./reproduce.sh --data paper             the shipped models on the papers' data sets
  ./reproduce.sh --profile paper          the papers' models on the papers' data sets; wants a GPU
  ./reproduce.sh --model roberta-base     another encoder in place of the profile's
  ./reproduce.sh --profile paper --list   what that would fetch, make and take; nothing is run
  ./reproduce.sh --profile paper --limit 8    a try: few items in every measurement, into build/paper-limit8
"""


def parser():
    it = argparse.ArgumentParser(
        prog="./reproduce.sh", epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Recreate the tables and figures of three papers on bias in language models.")
    it.add_argument("command", nargs="?", default="run", choices=["run", "report", "readme", "measure", "estimate"],
                    help=argparse.SUPPRESS)
    it.add_argument("name", nargs="?", default="", help=argparse.SUPPRESS)  # of a measurement
    it.add_argument("--profile", default="mini", help="mini (the default), paper, or a file of lib/publish/profiles")
    it.add_argument("--only", metavar="02,04", default="", help="these notebooks alone; 02-05 is a range")
    it.add_argument("--model", metavar="NAME_OR_FOLDER", default="", help="this model, where it fits")
    it.add_argument("--revision", metavar="COMMIT", default="", help="of --model, if it is one of the model hub: this "
                    "commit in place of the pinned or newest one")
    it.add_argument("--data", choices=["mini", "paper"], default="", help="what ships, or the papers' own")
    it.add_argument("--with-smollm2", action="store_true", help="also install and convert a small chat model, once: "
                    "then --model smollm2-135m-instruct names it")
    it.add_argument("--device", default="", help="cpu, cuda, ...; left out, a GPU if there is one")
    it.add_argument("--limit", metavar="N", type=int, default=0, help="a try: at most N items in a measurement; writes "
                    "to build/, never over a full run")
    it.add_argument("--recompute", action="store_true", help="run and compute again what is there already")
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
    try:
        if options.name and options.command != "measure":
            raise CompanionError(f"'{options.name}' says nothing after {options.command}: leave it out.")
        return {"run": reproduce, "estimate": reproduce, "measure": measure, "readme": write_readme,
                "report": lambda options: write_report()}[options.command](options)
    except CompanionError as error:
        print(error, file=sys.stderr)
        return 2


def reproduce(options):
    """Run the notebooks, or say what that would take."""
    from lib.publish.notebooks import Notebook, estimate, select  # here, so that --help needs no environment
    from lib.publish.run import Run

    if options.with_smollm2:
        from lib.training import people

        people.convert()
    if options.revision and not options.model:
        raise CompanionError("--revision is of a model of the hub: name it by --model.")
    is_folder = options.model and Path(options.model).is_dir()  # spelled out, since notebooks run elsewhere
    model = str(Path(options.model).resolve()) if is_folder else options.model
    run = Run(profile=options.profile + (f"-limit{options.limit}" if options.limit else ""), data=options.data,
              device=options.device, model=f"{model}@{options.revision}" if options.revision else model)
    if options.store and run.flags:
        raise CompanionError("--store is for the run mini: leave the flags that choose another out.")
    available = sorted(paths.NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))
    notebooks = [Notebook(path, run) for path in select(available, options.only)]

    print(run)
    width = max(len(notebook.name) for notebook in notebooks)
    listing = options.list or options.command == "estimate"
    if listing:
        for notebook in notebooks:
            state = "up to date" if notebook.is_done() else "to run"
            print(f"{notebook.name:{width}}  {state:10}  {notebook.title}")
    elif options.recompute:
        for notebook in notebooks:
            notebook.forget()
    for line in estimate(run, notebooks):
        print(line)
    if listing:
        return 0
    for i, notebook in enumerate(notebooks):
        status = make_classifier(run, notebook, width) or carry_out(notebook, options.recompute, width)
        if status:
            rest = ["--recompute", "--only", ",".join(later.number for later in notebooks[i:])]
            again = rest if options.recompute else ["--only", options.only] if options.only else []
            so_far = f"Its copy so far is {short(notebook.copy)}. " if notebook.copy.exists() else ""
            print(f"{so_far}To go on from there: {shlex.join(['./reproduce.sh', *run.flags, *again])}")
            return status
    if options.store:
        for notebook in notebooks:
            notebook.store()
        write_readme()
    print(f"Figures and tables: {short(run.out)}")
    print(f"Executed notebooks, as web pages too: {short(notebooks[0].copy.parent)}")
    if run.sizes.items:
        print(f"This was a try on {run.sizes.items} items in each measurement: its numbers say nothing")
        return 0
    print("To explore them: ./reproduce.sh lab")
    return write_report({run.name: run.out})


def make_classifier(run, notebook, width):
    """Make the classifier that a notebook is about to use and that does not ship, once; exit status, 0 if it is there.

    In a process of its own, so that what it takes of the GPU is free again for the notebook.
    """
    from lib.publish.notebooks import to_make

    folder = "" if notebook.is_done() else to_make(run, [notebook])
    if not folder:
        return 0
    print(f"{run.classifier:{width}}  to be made from {run.encoder}, once", flush=True)
    command = ["-m", "lib.training", "nli", "make", "--model", run.encoder, "--out", folder]
    command += [*(["--device", run.device] if run.device else []),
                *(["--items", str(run.sizes.items)] if run.sizes.items else [])]
    try:
        return subprocess.run([sys.executable, *command], cwd=paths.ROOT).returncode
    except KeyboardInterrupt:
        return 130


def carry_out(notebook, recompute, width):
    """Execute a notebook unless it is up to date, and say how that went."""
    from lib.publish.notebooks import Failed, explain

    def say(outcome):
        print(f"{notebook.name:{width}}  {outcome}", flush=True)

    if notebook.is_done():
        say("up to date")
        return 0
    start = time.time()
    try:
        notebook.execute(recompute)
    except KeyboardInterrupt:
        say("stopped")
        return 130
    except Failed as error:
        say(f"failed after {time.time() - start:.0f} s\n\n{explain(error)}\n")
        return 1
    except OSError as error:  # of its copy, which is written cell by cell
        if not is_full(error):
            raise
        say("failed, the disk is full: free some space")
        return 1
    say(f"done in {time.time() - start:.0f} s")
    return 0


def measure(options):
    """Measure without notebooks, and store it."""
    from lib.publish.measure import measure

    measure(options)
    return 0


def write_report(fresh=None):
    """Put all stored runs, and in place of its stored one a run just made, on one page; say where that is."""
    from lib.publish import page
    from lib.publish.run import runs

    print(f"All of it on one page: {short(page.write(runs() | (fresh or {})))}")
    return 0


def write_readme(options=None):
    """Bring the made parts of README.md up to date."""
    from lib.publish import page

    print("README.md now says what the runs found" if page.write_readme() else "README.md is up to date")
    return 0


def short(path):
    """A path as seen from the repository, where it lies in it."""
    return path.relative_to(paths.ROOT) if path.is_relative_to(paths.ROOT) else path


if __name__ == "__main__":
    sys.exit(main())
