"""The processes that notebooks run in.

Every notebook imports PyTorch, Transformers and what draws, for eight seconds of a processor. In a run of small models
a server imports them once, and forks a process for each notebook (Python's forkserver, which runs nothing else)."""

import multiprocessing
import os
import threading
from multiprocessing.context import ForkServerContext, ForkServerProcess

from ipykernel.kernelspec import get_kernel_dict
from jupyter_client import AsyncKernelManager
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.provisioning import LocalProvisioner

SHARED = ["ipykernel.kernelapp", "jupyter_client.provisioning", "ipywidgets", "joblib", "pandas", "scipy.stats",
          "seaborn", "torch", *(f"transformers.models.{family}.modeling_{family}" for family in
                                ("albert", "auto", "bert", "gpt2", "roberta"))]


class ThisPython(AsyncKernelManager):
    """Kernels of the interpreter that runs this, whatever else is installed under the name python3."""

    # it would warn on the terminal of an unencrypted connection (to itself), and complain at Ctrl-C
    kernel_spec = KernelSpec(**get_kernel_dict(extra_arguments=["--log-level=CRITICAL"]))


class Forked(ThisPython):
    """The same, with SHARED imported already."""
    def __init__(self, **options):
        super().__init__(**options)
        self.provisioner = _Forks(kernel_spec=self.kernel_spec, parent=self)


class _Forks(LocalProvisioner):
    """Jupyter's way to a process of this machine, but that it is forked."""

    async def launch_kernel(self, cmd, **options):
        os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")  # read when it is imported
        ForkServerContext().set_forkserver_preload(SHARED)
        process = _Process(target=_serve, args=(cmd[cmd.index("-f"):], options["env"], os.getcwd()))
        try:
            process.start()
        except OSError:  # no socket to the server: the path of temporary files may be too long for one
            return await super().launch_kernel(cmd, **options)
        self.process, self.pid, self.pgid = process, process.pid, process.pid
        return self.connection_info


class _Process(ForkServerProcess):
    """With what Jupyter asks a subprocess for."""
    stdin = stdout = stderr = None
    wait = ForkServerProcess.join

    def poll(self):
        return self.exitcode

    def send_signal(self, number):
        os.kill(self.pid, number)


def _serve(arguments, environment, folder):
    """A kernel in the process forked for it, at the head of a group of its own, as Jupyter starts one."""
    import torch
    from ipykernel import kernelapp
    os.setsid()
    end_with_parent()
    os.environ.update(environment)
    os.chdir(folder)
    torch.set_num_threads(int(environment.get("OMP_NUM_THREADS") or os.cpu_count()))  # the server may have others
    kernelapp.launch_new_instance(arguments)


def end_with_parent():
    """Let this process end with the one that started it, however that ends."""
    threading.Thread(target=lambda: (multiprocessing.parent_process().join(), os._exit(1)), daemon=True).start()
