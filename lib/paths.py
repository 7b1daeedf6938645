"""Where things live. Every path of the project is spelled here and nowhere else."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

NOTEBOOKS = ROOT / "notebooks"
PROFILES = ROOT / "companion" / "profiles"
LISTS = ROOT / "data" / "lists"  # word lists: facts, committed
DEMO = ROOT / "data" / "demo"  # sentences written for this project, committed
PAPER = ROOT / "data" / "paper"  # the papers' printed numbers, committed
# The bundled models, committed
MODELS = ROOT / Path(os.environ.get("COMPANION_MODELS") or "data/models").expanduser()
CLAIMS = ROOT / "data" / "claims.csv"  # what the papers claim, a row each
SOURCES = ROOT / "data" / "sources.toml"
REGISTRY = ROOT / "data" / "models.toml"  # the models that go by a name
HUB = ROOT / "data" / "hub.toml"  # sizes of what the hub serves, and how long a run takes

FIGURES = ROOT / "figures"  # what the notebooks draw, one folder per run, committed
BUILD = ROOT / "build"  # executed copies, reports and cards, ignored by git
# fetched data and stored results, ignored by git; a relative folder is one of the repository, as in
# all of COMPANION_*
CACHE = ROOT / Path(os.environ.get("COMPANION_CACHE") or "data/cache").expanduser()


def short(path: Path) -> Path:
    """A path as seen from the repository, where it lies in it."""
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
