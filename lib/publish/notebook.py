"""One notebook of a run: whether it is up to date, executing it, and keeping its outputs."""

import hashlib
import json
import os
import time

import nbformat
from ipykernel.kernelspec import get_kernel_dict
from jupyter_client import AsyncKernelManager
from jupyter_client.kernelspec import KernelSpec
from nbclient.exceptions import DeadKernelError
from papermill import PapermillExecutionError, execute_notebook
from papermill.exceptions import strip_color

from lib import CompanionError, paths
from lib.publish.run import replace

Failed = (PapermillExecutionError, DeadKernelError)  # what `execute` raises when the notebook is to blame


class ThisPython(AsyncKernelManager):
    """Kernels of the interpreter that runs this, whatever else is installed under the name python3."""

    @property
    def kernel_spec(self):
        # it would warn on the terminal of an unencrypted connection (to itself), and complain at Ctrl-C
        return KernelSpec(**get_kernel_dict(extra_arguments=["--log-level=CRITICAL"]))


class Notebook:
    """`path` as part of `run`; `inputs` is a hash of whatever else its outputs depend on."""

    def __init__(self, path, run, inputs):
        self.path, self.run, self.name, self.number = path, run, path.stem, path.name[:2]
        self.copy = paths.BUILD / run.name / path.name
        self.html, self.done = self.copy.with_suffix(".html"), self.copy.with_suffix(".done")
        try:
            self.content = nbformat.read(path, as_version=4)
        except Exception as error:  # not JSON, most often after a merge
            raise CompanionError(f"{path.name} is not a notebook ({str(error)[:80]!r}): restore it with "
                                 f"`git checkout notebooks/{path.name}`.") from None
        given = {"profile": run.profile, "data": run.data, "model": run.model, "device": run.device or ""}
        usual = {"profile": "mini", "data": "mini", "model": "", "device": ""}
        self.parameters = {key: value for key, value in given.items() if value != usual[key]}
        cells = [[cell.cell_type, cell.source, cell.metadata.get("tags", [])] for cell in self.content.cells]
        whole = json.dumps([cells, self.parameters, str(run.out), inputs], sort_keys=True)
        self.stamp = hashlib.sha256(whole.encode()).hexdigest()

    @property
    def title(self):
        """Its first heading."""
        texts = "\n".join(cell.source for cell in self.content.cells if cell.cell_type == "markdown")
        return next((line.lstrip("# ") for line in texts.splitlines() if line.startswith("#")), "")

    def is_done(self):
        """Whether it ran to its end on these very inputs, and all that it wrote is still there."""
        if not (self.copy.exists() and self.done.exists()):
            return False
        done = json.loads(self.done.read_text())
        return done["stamp"] == self.stamp and all((self.run.out / file).exists() for file in done["files"])

    def forget(self):
        """Not done any more."""
        self.done.unlink(missing_ok=True)

    def execute(self, recompute=False):
        """Run it into its copy, cell by cell. Only when the end is reached does `is_done` become true."""
        self.forget()
        self.html.unlink(missing_ok=True)
        self.copy.parent.mkdir(parents=True, exist_ok=True)
        os.environ["JPY_SESSION_NAME"] = str(self.path)  # as Jupyter does: so a result can say what made it
        start = time.time()
        execute_notebook(
            self.path, self.copy, self.parameters | ({"recompute": True} if recompute else {}),
            cwd=self.path.parent,
            kernel_name="python3", language="python", kernel_manager_class=ThisPython, coalesce_streams=True,
            progress_bar={"desc": self.name, "leave": False})
        replace(self.html, _html(self.copy))
        written = sorted(file.name for file in self.run.out.glob("*") if file.stat().st_mtime >= start)
        replace(self.done, json.dumps({"stamp": self.stamp, "files": written}).encode())

    def store(self):
        """Take the outputs of the copy over into the notebook, without what differs from run to run."""
        cells = [cell for cell in nbformat.read(self.copy, as_version=4).cells
                 if "injected-parameters" not in cell.metadata.get("tags", [])]
        count = 0
        for i, cell in enumerate(cells, start=1):
            cell.id = f"{self.number}-{i:02d}"
            cell.metadata = {"tags": cell.metadata.tags} if cell.metadata.get("tags") else {}
            if cell.cell_type == "code":
                count += 1
                cell.execution_count = count
                # progress bars and warnings go to stderr
                cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
                for output in cell.outputs:
                    if output.output_type == "execute_result":
                        output.execution_count = count
        metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
                    "language_info": {"name": "python"}}
        content = nbformat.v4.new_notebook(cells=cells, metadata=metadata)
        nbformat.validate(content)
        replace(self.path, (nbformat.writes(content) + "\n").encode())


def explain(error):
    """Why a notebook failed, on one screen."""
    if isinstance(error, DeadKernelError):
        return ("Its Python process died, most often for want of memory: close other programs, "
                "or choose a smaller model with --model.")
    if error.ename == "CompanionError":  # written to be read as it is
        return error.evalue
    source = error.source.strip().splitlines()[-6:]
    trace = strip_color("\n".join(error.traceback)).splitlines()[-20:]
    summary = f"In [{error.exec_count}]  {error.ename}: {error.evalue}".splitlines()[0]
    return "\n".join(line[:200] for line in [summary, "", *source, "", *trace])


def _html(notebook):
    from nbconvert import HTMLExporter  # slow to import

    return HTMLExporter().from_filename(str(notebook))[0].encode()
