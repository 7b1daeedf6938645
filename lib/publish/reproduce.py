"""The command line: run the notebooks in order, each once, and say where to look.

Executed copies go to build/<run>/, as notebooks and as web pages; build/report/ shows all runs on one page. A notebook
whose copy is complete and up to date is not run again; so a run that failed or was stopped goes on where it was.
"""

import argparse
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

from lib import CompanionError, paths
from lib.engine import limit
from lib.engine.files import is_full

EPILOG = """\
also:
  ./reproduce.sh test                     run the tests, and every notebook against its stored outputs
  ./reproduce.sh lab                      open the notebooks in JupyterLab
  ./reproduce.sh report                   make the page build/report/index.html anew, from what is in figures/
  ./reproduce.sh readme                   for developers: write what the runs found into README.md

examples:
  ./reproduce.sh                          every table and figure, on the shipped models
  ./reproduce.sh --only 02-05             those of notebooks 02 to 05
  ./reproduce.sh --data paper             the shipped models on the papers' data sets
  ./reproduce.sh --profile paper          the papers' models on the papers' data sets; wants a GPU
  ./reproduce.sh --model roberta-base     another encoder in place of the profile's
  ./reproduce.sh --profile paper --list   what that would fetch, make and take; nothing is run
  ./reproduce.sh --profile paper --limit 8    a try: a few items a measurement, into build/paper-limit8
"""


def parser():
    it = argparse.ArgumentParser(
        prog="./reproduce.sh", epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Recreate the tables and figures of three papers on bias in language models.")
    it.add_argument("page", metavar="report", nargs="?", choices=["report", "readme"], help=argparse.SUPPRESS)
    it.add_argument("--profile", default="mini", help="mini (the default), paper, or a file of lib/publish/profiles")
    it.add_argument("--only", metavar="02,04", default="", help="these notebooks alone; 02-05 is a range")
    it.add_argument("--model", metavar="NAME_OR_FOLDER", default="", help="this model, where it fits")
    it.add_argument("--data", choices=["mini", "paper"], default="", help="what ships, or the papers' own")
    it.add_argument("--with-smollm2", action="store_true", help="also install and convert a small chat model, once: "
                    "then --model smollm2-135m-instruct names it")
    it.add_argument("--device", default="", help="cpu, cuda, ...; left out, a GPU if there is one")
    it.add_argument("--limit", metavar="N", type=int, default=0, help="a try: at most N items a measurement; writes to "
                    "build/, never over a full run")
    it.add_argument("--recompute", action="store_true", help="run and compute again what is there already")
    it.add_argument("--list", action="store_true", help="say what would run, be fetched and take how long, and stop")
    it.add_argument("--store", action="store_true", help="for developers: put outputs into notebooks/")
    return it


def main(argv=None):
    """Exit status: 0 done, 1 a notebook failed, 2 cannot be done, 130 stopped by Ctrl-C."""
    try:
        return reproduce(parser().parse_args(argv))
    except CompanionError as error:
        print(error, file=sys.stderr)
        return 2


def reproduce(options):
    """Do what the command line asks for."""
    if options.page == "report":
        return write_report()
    if options.page == "readme":
        return write_readme()
    if options.limit:
        os.environ["COMPANION_LIMIT"] = str(options.limit)  # for the notebooks too, which are processes of their own
        limit.items()
    from lib.publish import estimate  # here, so that --help needs no environment
    from lib.publish.notebook import Notebook
    from lib.publish.run import Run, fingerprint

    if options.with_smollm2:
        from lib.training import smollm2

        smollm2.convert()
    is_folder = options.model and Path(options.model).is_dir()  # spelled out, since notebooks run elsewhere
    run = Run(profile=options.profile, data=options.data, device=options.device,
              model=str(Path(options.model).resolve()) if is_folder else options.model)
    if options.store and run.flags:
        raise CompanionError("--store is for the run mini: leave the flags that choose another out.")
    inputs = fingerprint(
        paths.ROOT / "lib", paths.ROOT / "requirements.txt", paths.ROOT / "constraints.txt",
        paths.LISTS, paths.DEMO, paths.PAPER, paths.MODELS, paths.SOURCES)
    available = sorted(paths.NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))
    notebooks = [Notebook(path, run, inputs) for path in select(available, options.only)]

    print(run)
    width = max(len(notebook.name) for notebook in notebooks)
    if options.list:
        for notebook in notebooks:
            state = "up to date" if notebook.is_done() else "to run"
            print(f"{notebook.name:{width}}  {state:10}  {notebook.title}")
    elif options.recompute:
        for notebook in notebooks:
            notebook.forget()
    for line in estimate.lines(run, notebooks):
        print(line)
    if options.list:
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
    if limit.items():
        print(f"This was a try on {limit.items()} items a measurement: its numbers say nothing")
        return 0
    print("To explore them: ./reproduce.sh lab")
    return write_report({run.name: run.out})


def write_report(fresh=None):
    """Put all stored runs, and in place of its stored one a run just made, on one page; say where that is."""
    from lib.publish import report

    page = report.write(report.runs() | (fresh or {}))
    print(f"All of it on one page: {short(page)}")
    return 0


def make_classifier(run, notebook, width):
    """Make the classifier that a notebook is about to use and that does not ship, once; exit status, 0 if it is there.

    In a process of its own, so that what it takes of the GPU is free again for the notebook.
    """
    from lib.publish import estimate

    folder = "" if notebook.is_done() else estimate.to_make(run, [notebook])
    if not folder:
        return 0
    print(f"{run.classifier:{width}}  to be made from {run.encoder}, once", flush=True)
    command = ["-m", "lib.training", "nli", "make", "--model", run.encoder, "--out", folder]
    try:
        return subprocess.run([sys.executable, *command, *(["--device", run.device] if run.device else [])],
                              cwd=paths.ROOT).returncode
    except KeyboardInterrupt:
        return 130


def write_readme():
    """Bring the made parts of README.md up to date."""
    from lib.publish import readme

    print("README.md says anew what the runs found" if readme.write() else "README.md is up to date")
    return 0


def carry_out(notebook, recompute, width):
    """Execute a notebook unless it is up to date, and say how that went."""
    from lib.publish.notebook import Failed, explain

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


def select(notebooks, only):
    """Those of the notebooks that `only` names, by numbers and ranges; all of them where it names none."""
    numbers = {int(path.name[:2]): path for path in notebooks}
    there = ", ".join(f"{number:02d}" for number in numbers)
    if not numbers:
        raise CompanionError("There are no notebooks: restore them with `git checkout notebooks`.")
    chosen = set()
    for part in only.split(",") if only else [f"{min(numbers)}-{max(numbers)}"]:
        bounds = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip())
        found = bounds and numbers.keys() & range(int(bounds[1]), int(bounds[2] or bounds[1]) + 1)
        if not found:
            raise CompanionError(f"There is no notebook {part.strip() or repr(only)}: choose from {there}.")
        chosen |= found
    return [numbers[number] for number in sorted(chosen)]


def short(path):
    """A path as seen from the repository, where it lies in it."""
    return path.relative_to(paths.ROOT) if path.is_relative_to(paths.ROOT) else path


if __name__ == "__main__":
    sys.exit(main())
