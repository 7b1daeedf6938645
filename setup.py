"""A clone's own packages: `pip install -e .` gives Python `lib` and the command `companion`."""

import sys

from setuptools import find_packages, setup

if "bdist_wheel" in sys.argv:
    sys.exit("The companion runs from its clone, where its models and data are: pip install -e .")

setup(packages=find_packages(include=["lib*", "companion*", "training*"]))
