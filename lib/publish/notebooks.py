"""The notebooks of a run: which of them are up to date, executing one, keeping its outputs, and what it all will take.

A notebook is up to date while its cells and parameters, the data, the weights and records of the run's models and the
modules of lib that it imports are what they were when it ran, and its results are the files that it wrote. What
`estimate` says of sizes and minutes is data/hub.toml's; nothing is fetched for that."""

import contextlib
import hashlib
import html
import json
import os
import re
import shutil
import signal
import sys
import weakref
from functools import cache
from pathlib import Path

import nbformat
from ipykernel.kernelspec import get_kernel_dict
from jupyter_client import AsyncKernelManager
from jupyter_client.kernelspec import KernelSpec
from nbclient.exceptions import DeadKernelError
from papermill import PapermillExecutionError, execute_notebook
from papermill.exceptions import strip_color

from lib import CompanionError, Lazy, paths
from lib.engine.files import fingerprint, read_toml, replace
from lib.publish.run import sources

# slow to import, and most runs need none of them before their notebooks do
data, models, nbconvert = Lazy("lib.text.data"), Lazy("lib.engine.models"), Lazy("nbconvert")
hub, hub_constants = Lazy("huggingface_hub"), Lazy("huggingface_hub.constants")
latex2mathml = Lazy("latex2mathml.converter")

Failed = (
    PapermillExecutionError,
    DeadKernelError,
)  # what `execute` raises when the notebook is to blame
ROLES = (
    "encoder",
    "decoder",
    "classifier",
    "cloze",
    "debiased",
    "llama",
    "base",
    "company",
)  # of a run's models
FORMULA = re.compile(
    r"\$\$(.+?)\$\$|\$([^$\n]+?)\$", re.DOTALL
)  # $$...$$ by itself, $...$ in a line
WIDGET = "application/vnd.jupyter.widget-view+json"
SPARE = 4  # GB of GPU memory beside the weights: one batch, and what PyTorch itself takes


class Kernel(AsyncKernelManager):
    """A kernel of the interpreter that runs this, whatever else is installed under the name python3."""

    running = weakref.WeakSet()

    def __init__(self, **options):
        super().__init__(**options)
        Kernel.running.add(self)

    @classmethod
    def seeing(cls, **variables: str) -> type["Kernel"]:
        """Kernels that see these variables of the environment besides those of this process."""
        # it would warn on the terminal of an unencrypted connection (to itself), and complain at Ctrl-C
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

    def __init__(self, path, run, recompute=False):
        self.path, self.run, self.name, self.number = path, run, path.stem, path.name[:2]
        self.copy = paths.BUILD / run.name / path.name
        self.html, self.done, self.so_far = (
            self.copy.with_suffix(end) for end in (".html", ".done", ".part.ipynb")
        )
        self.recompute = recompute  # whether to run it whatever is there
        try:
            self.content = nbformat.read(path, as_version=4)
        except Exception as error:  # not JSON, most often after a merge
            raise CompanionError(
                f"{path.name} is not a notebook ({str(error)[:80]!r}): restore it with "
                f"`git checkout notebooks/{path.name}`."
            ) from None
        self.code = "\n".join(
            cell.source for cell in self.content.cells if cell.cell_type == "code"
        )
        given = {
            "profile": run.profile + (f"-limit{run.sizes.items}" if run.sizes.items else ""),
            "data": run.data,
            "model": f"{run.model}@{run.revision}" if run.revision else run.model,
            "device": run.device or "",
        }
        self.parameters = {key: value for key, value in given.items() if value not in ("mini", "")}

    @property
    def stamp(self):
        """A hash of all that its outputs depend on. The board depends on what other notebooks found, too."""
        code = sources(self.code)
        inputs = [
            *code,
            *(paths.ROOT / name for name in ("requirements.txt", "constraints.txt")),
            paths.LISTS,
            paths.DEMO,
            paths.PAPER,
            paths.SOURCES,
            paths.REGISTRY,
            paths.PROFILES,
            paths.FIGURES / self.run.name / "measured",
        ]
        if any(file.name == "scoreboard.py" for file in code):
            for part in ("claims", "draws", "numbers", "0?_table7.csv", "02_heads.csv"):
                inputs += [*paths.FIGURES.glob(f"*/{part}"), *self.run.out.glob(part)]
        cells = [
            [cell.cell_type, cell.source, cell.metadata.get("tags", [])]
            for cell in self.content.cells
        ]
        weights = {name: revision(self.run, name) for name in wanted(self.run, [self])}
        whole = [
            cells,
            self.parameters,
            self.run.news,
            str(self.run.out),
            weights,
            fingerprint(*inputs),
        ]
        return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()

    @property
    def title(self):
        texts = "\n".join(
            cell.source for cell in self.content.cells if cell.cell_type == "markdown"
        )
        return next(iter(re.findall(r"^#+ (.*)", texts, re.MULTILINE)), "")  # its first heading

    @property
    def results(self):
        """{file below the run's folder: its content}, of those named by this notebook's number."""
        files = sorted(self.run.out.glob(f"{self.number}_*")) + sorted(
            self.run.out.glob(f"*/{self.number}.json")
        )
        return {file: file.read_bytes() for file in files if file.is_file()}

    def is_done(self):
        """Whether it ran to its end on these very inputs, and all that it wrote is still as it was."""
        try:
            done = json.loads(self.done.read_text())
            return (
                not self.recompute
                and self.copy.is_file()
                and done["stamp"] == self.stamp
                and done["files"] == self._hashes()
            )
        except (OSError, ValueError, TypeError, KeyError):  # none, or a damaged one
            return False

    def _hashes(self):
        return {
            str(file.relative_to(self.run.out)): hashlib.sha256(content).hexdigest()
            for file, content in self.results.items()
        }

    def execute(self, threads: str = "", lane: int = 0):
        """Run it, cell by cell, into `so_far`, which becomes its copy at the end. If it fails, what was there stays.
        threads: of its processor's sums. lane: on which line of the terminal its bar stands"""
        self.copy.parent.mkdir(parents=True, exist_ok=True)
        variables = {
            "JPY_SESSION_NAME": str(self.path)
        }  # as Jupyter does: so a result can say what made it
        if threads:
            variables["OMP_NUM_THREADS"] = threads
        stamp, before = self.stamp, self.results
        try:
            execute_notebook(
                self.path,
                self.so_far,
                self.parameters | ({"recompute": True} if self.recompute else {}),
                resources={"metadata": {"path": str(self.path.parent)}},  # where it runs
                kernel_name="python3",
                language="python",
                coalesce_streams=True,
                kernel_manager_class=Kernel.seeing(**variables),
                progress_bar=sys.stderr.isatty()
                and {"desc": self.name, "leave": False, "position": lane},
            )
        except BaseException:
            after = self.results
            for file in after.keys() - before.keys():
                file.unlink()
            for file, content in before.items() - after.items():
                replace(file, content)
            raise
        content = without_bars(nbformat.read(self.so_far, as_version=4))
        replace(self.copy, (nbformat.writes(content) + "\n").encode())
        self.so_far.unlink()
        replace(self.html, as_page(content))
        replace(self.done, json.dumps({"stamp": stamp, "files": self._hashes()}).encode())
        self.recompute = False

    def store(self):
        """Take the outputs of the copy over into the notebook, without what differs from run to run."""
        content = nbformat.v4.new_notebook(
            metadata={
                "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
                "language_info": {"name": "python"},
            }
        )
        content.cells = [
            cell
            for cell in nbformat.read(self.copy, as_version=4).cells
            if "injected-parameters" not in cell.metadata.get("tags", [])
        ]
        for i, cell in enumerate(content.cells, start=1):
            cell.id = f"{self.number}-{i:02d}"
            cell.metadata = {"tags": cell.metadata.tags} if cell.metadata.get("tags") else {}
        for cell in [cell for cell in content.cells if cell.cell_type == "code"][
            :2
        ]:  # imports and parameters, folded
            cell.metadata["jupyter"] = {"source_hidden": True}
        for count, cell in enumerate(
            (cell for cell in content.cells if cell.cell_type == "code"), start=1
        ):
            cell.outputs = [
                output
                for output in cell.outputs
                if output.get("name") != "stderr"  # bars and warnings
                and WIDGET not in output.get("data", {})
            ]  # which says nothing without its kernel
            for numbered in [
                cell,
                *(output for output in cell.outputs if output.output_type == "execute_result"),
            ]:
                numbered.execution_count = count
        nbformat.validate(content)
        replace(self.path, (nbformat.writes(content) + "\n").encode())


@cache  # for a run, since hashing takes a second
def revision(run, name: str) -> str:
    """Which model it is now: hashes of a folder's weights and record, or the hub's commit; nothing is fetched."""
    if hub_id := _hub_ids([name]).get(name):
        return models.pinned(hub_id) or str(hub.try_to_load_from_cache(hub_id, "config.json"))
    try:
        folder, weights = models.locate(name)
        return f"{weights}, {fingerprint(folder / 'training.json')}"
    except CompanionError:  # a classifier that is not made yet
        return ""


def without_bars(content):
    """A notebook without what progress bars leave behind, which a page would show as empty red boxes."""
    for cell in content.cells:
        if cell.cell_type == "code":
            cell.outputs = [
                output
                for output in cell.outputs
                if output.get("name") != "stderr" or output.text.strip()
            ]
    return content


def as_page(content) -> bytes:
    """A notebook as a web page without scripts that fetches nothing: MathML formulas, captions as alternative texts."""
    captions = iter(
        [
            output.metadata.get("image/png", {}).get("alt", "a stored figure, described above it")
            for cell in content.cells
            for output in cell.get("outputs", [])
            if "image/png" in output.get("data", {})
        ]
    )
    for cell in content.cells:
        if cell.cell_type == "markdown":
            cell.source = FORMULA.sub(
                lambda found: latex2mathml.convert(
                    found[1] or found[2], display="block" if found[1] else "inline"
                ),
                cell.source,
            )
    page, _ = nbconvert.HTMLExporter(filters={"clean_html": lambda code: code}).from_notebook_node(
        content
    )
    page = re.sub(
        r'(?<=<img alt=")No description[^"]*', lambda _: html.escape(next(captions)), page
    )
    return re.sub(r"<script\b.*?</script>", "", page, flags=re.DOTALL).encode()


def explain(error):
    """Why a notebook failed, on one screen."""
    if isinstance(error, DeadKernelError):
        return (
            "Its Python process died, most often for want of memory: close other programs, "
            "or choose a smaller model with --model."
        )
    if error.ename == "CompanionError":  # written to be read as it is
        return error.evalue
    summary = f"In [{error.exec_count}]  {error.ename}: {error.evalue}".splitlines()[0]
    trace = strip_color("\n".join(error.traceback)).splitlines()[-20:]
    return "\n".join(
        line[:200] for line in [summary, "", *error.source.strip().splitlines()[-6:], "", *trace]
    )


def select(notebooks, only):
    """Those of the notebooks that `only` names, by numbers and ranges; all of them where it names none."""
    numbers = {int(path.name[:2]): path for path in notebooks}
    there = ", ".join(f"{number:02d}" for number in numbers)
    if not numbers:
        raise CompanionError("There are no notebooks: restore them with `git checkout notebooks`.")
    chosen = set()
    for part in only.split(",") if only else [f"{min(numbers)}-{max(numbers)}"]:
        bounds = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", part)
        low, high = (int(bounds[1]), int(bounds[2] or bounds[1])) if bounds else (1, 0)
        if low > high:
            raise CompanionError(
                f"'{only}' names no notebooks: write --only 02,05-07, from {there}."
            )
        these = {number for number in numbers if low <= number <= high}
        if not these:
            raise CompanionError(f"There is no notebook {part.strip()}: choose from {there}.")
        chosen |= these
    return [numbers[number] for number in sorted(chosen)]


# ---- what a run will take
def estimate(run, notebooks) -> list[str]:
    """Lines that say what those of the notebooks that are still to run will fetch and take."""
    waiting = [notebook for notebook in notebooks if not notebook.is_done()]
    known = read_toml(paths.HUB)
    names = [name for name in wanted(run, waiting) if not is_bundled(name)]
    lines = [*_models(names, known["models"]), *_data(run, waiting, known["data"])]
    if run.profile == "paper" and waiting:
        lines += _on_a_gpu(run, waiting, names, known)
    elif waiting and not (run.model or run.sizes.items or run.data == "paper"):
        seconds = sum(known["seconds"].get(notebook.number, 0) for notebook in waiting)
        minutes = f"{seconds / 120:.0f}"
        lines.append(
            f"About {minutes} minutes on two slow cores, half of that on quick ones: see data/hub.toml"
        )
    return lines


def wanted(run, notebooks) -> list[str]:
    """The models that these notebooks name, by the roles that stand in their code (run.encoder)."""
    named = set(re.findall(r"\brun\.(\w+)", "\n".join(notebook.code for notebook in notebooks)))
    given = [getattr(run, role) for role in ROLES if role in named]
    names = [name for models in given for name in ([models] if isinstance(models, str) else models)]
    return list(dict.fromkeys(filter(None, names)))


def to_make(run, notebooks) -> str:
    """The folder of a classifier that is to be made from the encoder before one of these notebooks runs; or nothing."""
    name = run.classifier
    if (
        name in ("", run.model)
        or is_bundled(name)
        or models.draw_of(name)
        or name not in wanted(run, notebooks)
    ):
        return ""
    folder = models.REGISTRY[name].source if name in models.REGISTRY else Path(name)
    return str(folder) if isinstance(folder, Path) and not folder.is_dir() else ""


def _models(names: list[str], known: dict) -> list[str]:
    """What the hub is asked for, and whose licence has to be accepted."""
    missing = {name: hub_id for name, hub_id in _hub_ids(names).items() if not _fetched(hub_id)}
    if not missing:
        return []
    sizes = {name: known.get(hub_id, {}).get("GB", 0) for name, hub_id in missing.items()}
    listed = ", ".join(
        f"{name} {f'{size:.2f} GB' if size else '(size unknown)'}" for name, size in sizes.items()
    )
    cache = Path(hub_constants.HF_HUB_CACHE).expanduser()
    place = next(place for place in (cache, *cache.parents) if place.exists())
    total, free = sum(sizes.values()), shutil.disk_usage(place).free / 1e9
    larger = ": set HF_HOME to a folder on a larger disk" if total > free else ""
    gated = [
        f"https://huggingface.co/{hub_id}"
        for hub_id in missing.values()
        if known.get(hub_id, {}).get("gated")
    ]
    accept = f"Gated: accept the licence at {' and at '.join(gated)} (a day or two), then run `hf auth login`"
    return [
        f"To fetch from the model hub: {listed}; {total:.1f} GB in all, {free:.0f} GB are free{larger}",
        *([accept] if gated else []),
    ]


def _hub_ids(names: list[str]) -> dict[str, str]:
    """Of those models that are the hub's."""
    every = {
        name: models.REGISTRY[name].source if name in models.REGISTRY else name for name in names
    }
    return {
        name: source
        for name, source in every.items()
        if isinstance(source, str)
        and not Path(source).is_dir()
        and re.fullmatch(r"[\w.-]+/[\w.-]+", source)
    }


def _fetched(hub_id: str) -> bool:
    """Whether the hub's cache has weights of it."""
    config = hub.try_to_load_from_cache(hub_id, "config.json")
    return isinstance(config, str) and any(Path(config).parent.glob("model*.safetensors"))


def _data(run, notebooks, known: dict) -> list[str]:
    """What is downloaded from the data sets' homes; the hub's own sets only where a profile reads them."""
    if run.data != "paper":
        return []
    numbers = {notebook.number for notebook in notebooks}
    from_hub = {"hub"} if run.profile == "paper" else set()
    sizes = {
        row.name: known[row.name]["GB"] * 1e3 if row.name in known else row.MB
        for row in data.sources().itertuples()
        if numbers & set(row.used_by.split(", "))
        and row.status in {"to fetch"} | from_hub
        and (row.name, run.news) != ("news_commentary", "bbc_news")
    }
    largest = ", ".join(
        f"{name} {sizes[name]:.0f}" for name in sorted(sizes, key=sizes.get, reverse=True)[:4]
    )
    return [
        f"To fetch of {len(sizes)} data sets what is not here yet: {sum(sizes.values()):.0f} MB "
        f"(most: {largest})"
    ] * bool(sizes)


def _on_a_gpu(run, notebooks, names: list[str], known: dict) -> list[str]:
    """How long it takes, but for a try; and the largest model's weights in the precision that it is read in."""
    lines, minutes, models = [], known["minutes"], known["models"]
    if not run.sizes.items:
        each = {notebook.number: minutes.get(notebook.number, 0) for notebook in notebooks}
        extra = minutes["classifier"] if to_make(run, notebooks) else 0
        listed = ", ".join(f"{number} {its}" for number, its in each.items())
        listed += f", {extra} of them to make {run.classifier}" if extra else ""
        lines.append(
            f"About {(sum(each.values()) + extra) / 60:.1f} hours on one GPU of 24 GB (notebook and minutes: "
            f"{listed}): rough, see data/hub.toml"
        )
    sizes = {
        name: models[hub_id]["GB"] for name, hub_id in _hub_ids(names).items() if hub_id in models
    }
    if largest := max(sizes, key=sizes.get, default=""):
        lines.append(f"GPU memory: {sizes[largest] + SPARE:.0f} GB, for {largest}")
    return lines


def is_bundled(name: str) -> bool:
    """Whether a model comes with the repository."""
    return (paths.MODELS / name).is_dir()
