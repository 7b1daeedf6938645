"""What every test shares: fixed threads and seeds, and the real data files where the user has them."""

import os
import random
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # so that `pytest` and `python -m pytest` both find lib


@pytest.fixture(scope="session", autouse=True)
def two_threads():
    """The same sums in the same order on any machine, and room left for others."""
    torch.set_num_threads(2)


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
    return ROOT / Path(os.environ["COMPANION_DATA"]).expanduser()
