"""What compares a run that was killed and taken up again with one that was not."""

import json
import math

import numpy as np
import pytest
from safetensors.numpy import save_file

from benchmarks import same


@pytest.mark.parametrize(
    "one, other, expected",
    [
        ({"a": [1.5, "x"]}, {"a": [1.5, "x"]}, 0),
        ({"a": 1.5e-1}, {"a": 1.5e-7}, 0.15 - 1.5e-7),
        ({"n": 144}, {"n": 3}, 141),
        ({"outcome": "supported"}, {"outcome": "contradicted"}, math.inf),
        ({"a": 1.0}, {"b": 1.0}, math.inf),
        ([1.0, 2.0], [1.0], math.inf),
        (np.array([1.0, math.nan]), np.array([1.0, math.nan]), 0),
        (np.array([1.0, 2.0]), np.array([math.nan, math.nan]), math.inf),
        (np.array([math.inf]), np.array([math.inf]), 0),
        (np.array([1, 2]), np.array([1, 4]), 2),
        (np.zeros(2), np.zeros(3), math.inf),
        (np.array(["a"]), np.array(["b"]), math.inf),
    ],
)
def test_values(one, other, expected):
    assert same.of_values(one, other) == pytest.approx(expected)
    assert same.of_values(other, one) == pytest.approx(expected)


def write(folder, number, extra=False):
    """Results of every kind, with a number in each."""
    folder.mkdir()
    (folder / "a.json").write_text(json.dumps({"value": number}))
    (folder / "b.csv").write_text(f"word,value\nnurse,{number}\n")
    np.savez(folder / "c.npz", value=np.array([number]))
    save_file({"value": np.array([number])}, folder / "d.safetensors")
    if extra:
        (folder / "e.json").write_text("{}")


@pytest.mark.parametrize("file", ["a.json", "b.csv", "c.npz", "d.safetensors"])
def test_every_kind_of_file_is_read(tmp_path, file):
    write(tmp_path / "one", 0.5)
    write(tmp_path / "other", 0.75)
    assert same.of_files(tmp_path / "one" / file, tmp_path / "other" / file) == 0.25
    assert same.difference(tmp_path / "one", tmp_path / "one") == 0


def test_folders_of_other_files_are_not_compared(tmp_path):
    write(tmp_path / "one", 0.5)
    write(tmp_path / "other", 0.5, extra=True)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="Other files"):
        same.difference(tmp_path / "one", tmp_path / "other")
    with pytest.raises(ValueError, match="no results"):
        same.difference(tmp_path / "empty", tmp_path / "one")
