"""Packs the folder `lib` as the package `companion`, with the data that its command needs.

Inside the repository everything imports from `lib`. Nobody should have a package of so common a
name installed, so the wheel holds the same modules under another name: build_py rewrites `lib` to
`companion` in their imports and in the names of modules that stand in strings. An editable install
keeps both names: `lib` for notebooks and tests, `companion` for the command.
"""

import re
import shutil
import sys
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
OURS = find_packages(str(ROOT), include=["lib", "lib.*"])
RENAMED = [re.sub(r"^lib\b", "companion", name) for name in OURS]
IS_EDITABLE = "editable_wheel" in sys.argv

# What the package reads beside its code. Models are not among it: they have 153 MB.
DATA = ["data/*.toml", "data/*.csv", "data/*.json", "data/lists", "data/demo", "data/paper"]
DATA += ["figures/cards"]


def renamed(code: str) -> str:
    """The source of a module of `lib` as one of `companion`."""
    code = re.sub(r"^(\s*)from lib\b", r"\1from companion", code, flags=re.MULTILINE)
    code = re.sub(r"^(\s*)import lib$", r"\1import companion as lib", code, flags=re.MULTILINE)
    return re.sub(r"""(["'])lib\.(?=[\w{])""", r"\1companion.", code)


class Renamed(build_py):
    """Copies the modules under their new name, and the data beside them."""

    def run(self):
        if not self.editable_mode:
            shutil.rmtree(self.build_lib, ignore_errors=True)  # no leftovers of an earlier build
        super().run()
        if self.editable_mode:
            return
        package = Path(self.build_lib) / "companion"
        for file in package.rglob("*.py"):
            file.write_text(renamed(file.read_text(encoding="utf-8")), encoding="utf-8")
        for pattern in DATA:
            for source in ROOT.glob(pattern):
                _copy(source, package / source.relative_to(ROOT))


def _copy(source: Path, goal: Path):
    goal.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, goal)
    else:
        shutil.copyfile(source, goal)


packages = OURS + RENAMED if IS_EDITABLE else RENAMED
setup(packages=packages, package_dir={"companion": "lib"}, cmdclass={"build_py": Renamed})
