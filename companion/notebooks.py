"""The notebooks of a run: which of them are up to date and why not, executing one, keeping its
outputs.

A notebook is up to date while its cells and parameters, the weights and records of the run's
models, the data and the code of lib and companion are what they were when it ran
(companion/stale.py), and its results are the files that it wrote.
"""

import base64
import contextlib
import hashlib
import json
import os
import re
import shlex
import signal
import sys
import weakref
from functools import cache
from pathlib import Path

import huggingface_hub as hub
import latex2mathml.converter
import nbconvert
import nbformat
from ipykernel.kernelspec import get_kernel_dict
from jupyter_client import AsyncKernelManager
from jupyter_client.kernelspec import KernelSpec
from markupsafe import Markup
from nbclient.exceptions import DeadKernelError
from papermill import PapermillExecutionError, execute_notebook
from papermill.exceptions import strip_color
from pygments.formatters import HtmlFormatter

from companion import ledger, results, stale
from companion.report.page import TEMPLATES
from companion.run import Run
from lib import CompanionError, paths
from lib.engine import folders
from lib.engine.files import fingerprint, replace

# What `execute` raises where the notebook is to blame.
Failed = (PapermillExecutionError, DeadKernelError)
# The roles of a run's models, as notebooks name them: run.encoder, ...
ROLES = (
    "encoder",
    "decoder",
    "classifier",
    "cloze",
    "debiased",
    "llama",
    "base",
    "company",
)
# $$...$$ by itself, $...$ in a line
FORMULA = re.compile(r"\$\$(.+?)\$\$|\$([^$\n]+?)\$", re.DOTALL)
NEIGHBOUR = re.compile(r'href="(\d\d_\w+)\.ipynb')  # a link to another notebook
WIDGET = "application/vnd.jupyter.widget-view+json"
NO_WIDGET = "<p>A widget stands here: it answers where the notebook is open in Jupyter.</p>"
UNFOLDED = 8  # lines of code that a page shows; of longer cells it shows the word "code"
FOLDED = 2  # code cells that open a notebook, imports and parameters: JupyterLab shows them folded


class Kernel(AsyncKernelManager):
    """A kernel of the interpreter that runs this, whatever else is installed under the name
    python3.
    """

    running = weakref.WeakSet()

    def __init__(self, **options):
        super().__init__(**options)
        Kernel.running.add(self)

    @classmethod
    def seeing(cls, **variables: str) -> type["Kernel"]:
        """Kernels that see these variables of the environment besides those of this process."""
        # it would warn on the terminal of an unencrypted connection (to itself), and complain at
        # Ctrl-C
        about = get_kernel_dict(extra_arguments=["--log-level=CRITICAL"])
        return type("OwnKernel", (cls,), {"kernel_spec": KernelSpec(**about, env=variables)})

    @classmethod
    def end_all(cls):
        """End every kernel of this process at once, and what it started."""
        for kernel in list(cls.running):
            pid = getattr(kernel.provisioner, "pid", None)
            if pid and kernel.has_kernel:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)  # Jupyter starts each at the head of a group


class Notebook:
    """`path` as part of `run`."""

    def __init__(self, path: Path, run: Run, recompute: bool = False):
        self.path = path
        self.run = run
        self.recompute = recompute  # whether to run it whatever is there
        self.name = path.stem
        self.number = path.name[:2]
        self.copy = paths.BUILD / run.name / path.name
        self.html = self.copy.with_suffix(".html")
        self.done = self.copy.with_suffix(".done")
        self.so_far = self.copy.with_suffix(".part.ipynb")
        self.content = self._read()
        code = [cell.source for cell in self.content.cells if cell.cell_type == "code"]
        self.code = "\n".join(code)

    def _read(self) -> nbformat.NotebookNode:
        try:
            return nbformat.read(self.path, as_version=4)
        except Exception as error:  # not JSON, most often after a merge
            raise CompanionError(
                f"{self.path.name} is not a notebook ({str(error)[:80]!r}): restore it with "
                f"`git checkout {shlex.quote(f'notebooks/{self.path.name}')}`."
            ) from None

    @property
    def title(self) -> str:
        """Its first heading."""
        return _heading(self.content)

    @property
    def parameters(self) -> dict[str, str]:
        """What papermill puts in the place of the defaults: what is not the default run's."""
        run = self.run
        profile = run.profile
        if run.sizes.items:
            profile += f"-limit{run.sizes.items}"
        model = run.model
        if run.revision:
            model += f"@{run.revision}"
        given = {
            "profile": profile,
            "data": run.data,
            "model": model,
            "device": run.device or "",
        }
        return {name: value for name, value in given.items() if value not in ("mini", "")}

    @property
    def _other_models(self) -> str:
        """The models of the run in words; "" of the bundled ones, which the text is written for."""
        is_bundled_run = self.run.profile == "mini" and not self.run.model
        return "" if is_bundled_run else ", ".join(sorted(self.run.models))

    # ---- whether it is up to date
    @property
    def components(self) -> dict[str, str]:
        """What its outputs depend on, by name."""
        asked = [self.parameters, str(self.run.out), self.run.news]
        found = {"its cells": self._cells_hash(), "its parameters": _hash(asked)}
        found |= stale.inputs()
        for folder in (self.run.stored, paths.BUILD / self.run.name):
            found |= stale.hashes(*folder.glob("measured/*.npz"))
        for name in models_of(self.run, [self]):
            found[name] = revision(name)
        if "run.judged(" in self.code:  # what its tests come to depends on these too
            found["tests of control models"] = fingerprint(*_read_by_tests())
        if "ledger.table(" in self.code:
            found["results of other notebooks"] = fingerprint(*_read_by_the_board(self.run))
        return found

    def _cells_hash(self) -> str:
        cells = []
        for cell in self.content.cells:
            cells.append([cell.cell_type, cell.source, cell.metadata.get("tags", [])])
        return _hash(cells)

    @property
    def results(self) -> dict[Path, bytes]:
        """{file of the run's folder: its content}, of those named by this notebook's number."""
        own = [
            *sorted(self.run.out.glob(f"{self.number}_*")),
            *sorted(self.run.out.glob(f"*/{self.number}.json")),
        ]
        return {file: file.read_bytes() for file in own if file.is_file()}

    def is_done(self) -> bool:
        """Whether it ran to its end on these very inputs, and all that it wrote is still
        as it was.
        """
        return not self.why_stale()

    def why_stale(self) -> list[str]:
        """Why it has to run: "companion/look.py changed", ...; nothing where it is up to date."""
        if self.recompute:
            return ["--recompute asks for it"]
        try:
            done = json.loads(self.done.read_text(encoding="utf-8"))
            before = dict(done["components"])
            files = dict(done["files"])
        except (OSError, ValueError, TypeError, KeyError):  # none, or a damaged one
            return ["never run here"]
        if not self.copy.is_file():
            return ["its copy is gone"]
        changed = stale.reasons(before, self.components)
        return changed + stale.reasons(files, self._result_hashes())

    def _result_hashes(self) -> dict[str, str]:
        hashes = {}
        for file, content in self.results.items():
            hashes[str(file.relative_to(self.run.out))] = hashlib.sha256(content).hexdigest()
        return hashes

    # ---- executing
    def execute(self, threads: str = "", lane: int = 0):
        """Run it, cell by cell, into `so_far`, which becomes its copy at the end. If it fails, what
        was there stays; what it does not make again goes, but for folders of parts (05_glue).

        threads   of its arithmetic
        lane      on which line of the terminal its bar stands
        """
        self.copy.parent.mkdir(parents=True, exist_ok=True)
        # as Jupyter does: a result says what made it
        variables = {"JPY_SESSION_NAME": str(self.path)}
        if threads:
            variables["OMP_NUM_THREADS"] = threads
        parameters = dict(self.parameters)
        if self.recompute:
            parameters["recompute"] = True
        components = self.components
        before = self.results
        try:
            for file in before:
                file.unlink()
            execute_notebook(
                self.path,
                self.so_far,
                parameters,
                resources={"metadata": {"path": str(self.path.parent)}},  # where it runs
                kernel_name="python3",
                language="python",
                coalesce_streams=True,
                kernel_manager_class=Kernel.seeing(**variables),
                progress_bar=sys.stderr.isatty()
                and {"desc": self.name, "leave": False, "position": lane},
            )
        except BaseException:
            self._restore(before)
            raise
        content = without_bars(nbformat.read(self.so_far, as_version=4))
        replace(self.copy, (nbformat.writes(content) + "\n").encode())
        self.so_far.unlink()
        replace(self.html, _with_files_here(as_page(content, self._other_models), self.run))
        done = {"components": components, "files": self._result_hashes()}
        replace(self.done, json.dumps(done, indent=1).encode())
        self.recompute = False

    def _restore(self, before: dict[Path, bytes]):
        """Put the results back that were there before it began."""
        for file, content in self.results.items():
            if file not in before:
                file.unlink()
            elif content != before[file]:
                replace(file, before[file])
        for file in before.keys() - self.results.keys():
            replace(file, before[file])

    def store(self, pictures: bool = True):
        """Take the outputs of the copy over into the notebook, without what differs from run to
        run.

        pictures   False: those that are stored stay, if there are as many
        """
        content = nbformat.v4.new_notebook(
            metadata={
                "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
                "language_info": {"name": "python"},
            }
        )
        for cell in nbformat.read(self.copy, as_version=4).cells:
            if "injected-parameters" not in cell.metadata.get("tags", []):
                content.cells.append(cell)
        for i, cell in enumerate(content.cells, start=1):
            cell.id = f"{self.number}-{i:02d}"
            cell.metadata = {"tags": cell.metadata.tags} if cell.metadata.get("tags") else {}
        code = [cell for cell in content.cells if cell.cell_type == "code"]
        for cell in code[:FOLDED]:
            cell.metadata["jupyter"] = {"source_hidden": True}
        for count, cell in enumerate(code, start=1):
            _clean_outputs(cell, count)
        before, now = _pictures(self.content), _pictures(content)
        if not pictures and len(before) == len(now):
            for old, new in zip(before, now, strict=True):
                new["image/png"] = old["image/png"]
        nbformat.validate(content)
        replace(self.path, (nbformat.writes(content) + "\n").encode())


def _pictures(content: nbformat.NotebookNode) -> list[dict]:
    """The data of all outputs that are pictures, in their order."""
    outputs = [output for cell in content.cells for output in cell.get("outputs", [])]
    data = [output.get("data", {}) for output in outputs]
    return [one for one in data if "image/png" in one]


def _hash(value) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def _read_by_tests() -> list[Path]:
    """What the stored control runs found, which tests of others are held against."""
    controls = [folder for run, folder in results.runs().items() if ledger.control_of(run)]
    return [folder / part for folder in controls for part in ("claims", "draws")]


def _read_by_the_board(run: Run) -> list[Path]:
    """What notebook 12 reads of other notebooks: stored, or made in this run."""
    found = []
    for part in ("claims", "draws", "numbers", "0?_table7.csv", "02_heads.csv"):
        found += [*paths.FIGURES.glob(f"*/{part}"), *run.out.glob(part)]
    return found


def _clean_outputs(cell, count: int):
    """Number a code cell, and leave out bars, warnings and widgets, which say nothing without a
    kernel.
    """
    kept = []
    for output in cell.outputs:
        if output.get("name") == "stderr" or WIDGET in output.get("data", {}):
            continue
        if output.output_type == "execute_result":
            output.execution_count = count
        kept.append(output)
    cell.outputs = kept
    cell.execution_count = count


@cache  # for a run, since hashing takes a second
def revision(name: str) -> str:
    """Which model it is now: hashes of a folder's weights and record, or the hub's commit; nothing
    is fetched.
    """
    hub_id = hub_id_of(name)
    if hub_id:
        return folders.pinned(hub_id) or str(hub.try_to_load_from_cache(hub_id, "config.json"))
    try:
        folder, weights = folders.locate(name)
    except CompanionError:  # a classifier that is not made yet
        return ""
    return f"{weights}, {fingerprint(folder / 'training.json')}"


def hub_id_of(name: str) -> str:
    """The hub's id of a model; "" of a folder, a bundled or an untrained one."""
    source = folders.REGISTRY[name].source if name in folders.REGISTRY else name
    if not isinstance(source, str) or Path(source).is_dir():
        return ""
    return source if re.fullmatch(r"[\w.-]+/[\w.-]+", source) else ""


def models_of(run: Run, notebooks: list[Notebook]) -> list[str]:
    """The models that these notebooks name, by the roles that stand in their code (run.encoder)."""
    code = "\n".join(notebook.code for notebook in notebooks)
    named = set(re.findall(r"\brun\.(\w+)", code))
    names = []
    for role in ROLES:
        if role in named:
            given = getattr(run, role)
            names += [given] if isinstance(given, str) else given
    return [name for name in dict.fromkeys(names) if name]


def is_bundled(name: str) -> bool:
    """Whether a model comes with the repository."""
    return name in folders.REGISTRY and (paths.MODELS / name).is_dir()


def to_make(run: Run, notebooks: list[Notebook]) -> str:
    """The folder of a classifier that is to be made from the encoder before one of these notebooks
    runs; "" where there is none to make.
    """
    name = run.classifier
    if name in ("", run.model) or is_bundled(name) or folders.draw_of(name):
        return ""
    if name not in models_of(run, notebooks):
        return ""
    folder = folders.REGISTRY[name].source if name in folders.REGISTRY else Path(name)
    return str(folder) if isinstance(folder, Path) and not folder.is_dir() else ""


def select(notebooks: list[Path], only: str) -> list[Path]:
    """Those of the notebooks that `only` names, by numbers and ranges; all of them where it names
    none.
    """
    numbers = {int(path.name[:2]): path for path in notebooks}
    if not numbers:
        raise CompanionError("There are no notebooks: restore them with `git checkout notebooks`.")
    if not only:
        return [numbers[number] for number in sorted(numbers)]
    there = ", ".join(f"{number:02d}" for number in numbers)
    chosen = set()
    for part in only.split(","):
        bounds = re.fullmatch(r"\s*(\d{1,4})\s*(?:-\s*(\d{1,4})\s*)?", part)
        if not bounds or int(bounds[1]) > int(bounds[2] or bounds[1]):
            raise CompanionError(
                f"'{only}' names no notebooks: write --only 02,05-07, from {there}."
            )
        low = int(bounds[1])
        high = int(bounds[2] or bounds[1])
        these = {number for number in numbers if low <= number <= high}
        if not these:
            raise CompanionError(f"There is no notebook {part.strip()}: choose from {there}.")
        chosen |= these
    return [numbers[number] for number in sorted(chosen)]


# ---- what is shown of an executed notebook
def without_bars(content: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """A notebook without what progress bars leave behind, which a page would show as empty red
    boxes.
    """
    for cell in content.cells:
        if cell.cell_type == "code":
            is_bar = [one.get("name") == "stderr" and not one.text.strip() for one in cell.outputs]
            outputs = zip(cell.outputs, is_bar, strict=True)
            cell.outputs = [output for output, is_empty in outputs if not is_empty]
    return content


def as_page(content: nbformat.NotebookNode, other_models: str = "") -> bytes:
    """A notebook as a web page without scripts that fetches nothing: MathML formulas, captions as
    alternative texts, long code folded.

    other_models   those that it ran on, where these are not the ones that its text speaks of
    """
    for cell in content.cells:
        if cell.cell_type == "markdown":
            cell.source = FORMULA.sub(_mathml, cell.source)
        for output in cell.get("outputs", []):
            if WIDGET in output.get("data", {}):
                output.data = {"text/html": NO_WIDGET}
    cells = (Path(__file__).parent / "report" / "notebook_cells.html").read_text(encoding="utf-8")
    exporter = nbconvert.HTMLExporter(raw_template=cells, filters={"clean_html": lambda code: code})
    body, _ = exporter.from_notebook_node(content, {"folded_above": UNFOLDED})
    body = re.sub(r'(?<=src=")\.\./(figures/[\w.-]+\.svg)', _embedded, body)
    body = NEIGHBOUR.sub(r'href="\1.html', body)
    body = body.replace(
        'href="../', 'href="../../'
    )  # a copy lies one folder deeper than a notebook
    page = TEMPLATES.get_template("notebook.html").render(
        title=_heading(content),
        cells=Markup(body),
        other_models=other_models,
        highlighting=Markup(_highlighting("xcode")),
        dark_highlighting=Markup(_highlighting("github-dark")),
    )
    return page.encode()


def _embedded(drawing: re.Match) -> str:
    """A drawing that the text shows, as part of the page, which fetches nothing."""
    content = (paths.ROOT / drawing[1]).read_bytes()
    return "data:image/svg+xml;base64," + base64.b64encode(content).decode()


def _heading(content: nbformat.NotebookNode) -> str:
    """The first heading of a notebook, "" where it has none."""
    texts = [cell.source for cell in content.cells if cell.cell_type == "markdown"]
    found = re.search(r"^#+ (.*)", "\n".join(texts), re.MULTILINE)
    return found[1] if found else ""


def _highlighting(style: str) -> str:
    """The rules that colour code, in one of Pygments' styles."""
    return HtmlFormatter(style=style).get_style_defs(".highlight")


def _with_files_here(page: bytes, run: Run) -> bytes:
    """A notebook's page, whose links to stored results lead to those of this run where they are of
    this run: the page is two folders deep, a notebook one.
    """
    own = page.replace(f'href="../figures/{run.stored.name}/'.encode(), b'href="figures/')
    return own.replace(b'href="../figures/', b'href="../../figures/')


def _mathml(found: re.Match) -> str:
    display = "block" if found[1] else "inline"
    try:
        formula = latex2mathml.converter.convert(found[1] or found[2], display=display)
    except Exception:  # no formula: it stays as it was typed
        return found[0]
    formula = formula.replace("&#x029F5;", "&#x0005C;")  # few fonts have the sign of "without"
    return f'<span class="formula">{formula}</span>' if found[1] else formula


def explain(error: Exception) -> str:
    """Why a notebook failed, on one screen."""
    if isinstance(error, DeadKernelError):
        return (
            "Its Python process died, most often out of memory: close other programs, or choose a "
            "smaller model with --model."
        )
    if error.ename == "CompanionError":  # written to be read as it is
        return error.evalue
    summary = f"In [{error.exec_count}]  {error.ename}: {error.evalue}".splitlines()[0]
    source = error.source.strip().splitlines()[-6:]
    trace = strip_color("\n".join(error.traceback)).splitlines()[-20:]
    return "\n".join(line[:200] for line in [summary, "", *source, "", *trace])
