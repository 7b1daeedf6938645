"""Whether an environment has the versions that lists of requirements pin: `python -m
companion.pins LIST ...`

For an environment that somebody else made, such as conda's. Needs nothing but Python.
"""

import re
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


def wrong(*lists: Path) -> list[str]:
    """What is not as pinned, "torch 2.11.0 in place of 2.13.0", in the order of the lists."""
    pins = "\n".join(file.read_text(encoding="utf-8") for file in lists)
    found = []
    for name, pinned in re.findall(r"^([\w.-]+)==([\w.]+)", pins, re.M):
        try:
            here = version(name).partition("+")[0]  # torch 2.13.0+cpu and 2.13.0 are one release
        except PackageNotFoundError:
            here = "missing"
        if here != pinned:
            found.append(f"{name} {here} in place of {pinned}")
    return found


def main(lists: list[str]) -> int:
    """Exit status, with a sentence on standard error where a version is another."""
    found = wrong(*map(Path, lists))
    if not found:
        return 0
    others = f" and {len(found) - 3} more" if len(found) > 3 else ""
    print(
        f"The environment at {sys.prefix} has {', '.join(found[:3])}{others}: bring it up to date "
        "with `conda env update -f environment.yml`, or deactivate it to have .venv used.",
        file=sys.stderr,
    )
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
