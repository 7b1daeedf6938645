"""What every test shares: fixed threads and seeds, and the real data files where the user
has them.
"""

import os
import random
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from hypothesis import settings

from lib import paths
from lib.engine import stats
from tests import browser

sys.modules.setdefault(
    "rfc3987_syntax", None
)  # a grammar that jsonschema, of nbformat, builds for seconds
import nbformat  # noqa: E402

from companion import formats  # noqa: E402

plt.switch_backend("agg")
os.environ["MPLBACKEND"] = "agg"  # in processes that tests start
settings.register_profile("any machine", deadline=None)  # a busy one is slow, not wrong
settings.load_profile("any machine")


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """The same sums in the same order on any machine; on tensors this small, threads wait for each
    other anyway.
    """
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def seeds():
    """Before each test, so that none depends on which ones ran before it."""
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


@pytest.fixture
def real_data() -> Path:
    """The folder that COMPANION_DATA names; where the variable is not set, the test is skipped."""
    if not os.environ.get("COMPANION_DATA"):
        pytest.skip("COMPANION_DATA is not set: the real data files are not at hand")
    return paths.ROOT / Path(os.environ["COMPANION_DATA"]).expanduser()


@pytest.fixture
def few_draws(monkeypatch):
    """Twenty draws in place of every bootstrap's thousands."""
    bootstrap = stats.bootstrap
    monkeypatch.setattr(
        stats,
        "bootstrap",
        lambda *given, draws=0, **options: bootstrap(*given, draws=20, **options),
    )


@pytest.fixture
def cells(tmp_path, monkeypatch):
    """Call it with a notebook's number, what to do after each cell, and parameters: its cells run
    in this process.

    Nothing is shown, figures are drawn and not written, to be quick. Returns the names that the
    notebook leaves.
    """
    monkeypatch.setattr(paths, "CACHE", tmp_path / "cache")
    monkeypatch.setattr("IPython.display.display", lambda *shown, **about: None)
    monkeypatch.setattr(formats, "images", lambda figure: plt.close(figure) or {})

    def execute(number, after=lambda names: None, **parameters):
        (file,) = paths.NOTEBOOKS.glob(f"{number}_*.ipynb")
        names = {}
        for cell in nbformat.read(file, as_version=4).cells:
            if cell.cell_type == "code":
                exec(compile(cell.source, file.name, "exec"), names)
                if "parameters" in cell.metadata.get("tags", []):
                    names |= parameters
                after(names)
        return names

    return execute


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    """A real browser; where there is none, the test is skipped."""
    if browser.PROGRAM is None:
        pytest.skip("Chromium is not installed: on Debian, apt-get install chromium")
    it = browser.Browser(tmp_path_factory.mktemp("profile"))
    yield it
    it.close()
