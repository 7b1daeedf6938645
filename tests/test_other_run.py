"""What another run has stored is shown with the command that made it; a missing file is said, not raised."""

import json
from types import SimpleNamespace

import pandas as pd
import pytest

from lib import paths
from lib.publish import other_run
from lib.publish.run import replace

MINI = SimpleNamespace(name="mini")


@pytest.fixture(autouse=True)
def figures(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "FIGURES", tmp_path)
    made = {"command": "./reproduce.sh --only 09 --data paper", "models": {"mini-bert-nli": "x"}, "caption": "A table."}
    for file, content in ("09_a.csv", b"level,eta\n+ attn,0.5\nnull,\n"), ("09_b.png", b"\x89PNG\r\n\x1a\n"):
        replace(tmp_path / "mini-real" / file, content)
        replace((tmp_path / "mini-real" / file).with_suffix(".json"), json.dumps(made).encode())


def test_a_table_with_its_command(capsys):
    table = other_run.show(MINI, "09_a")
    pd.testing.assert_frame_equal(table, pd.DataFrame({"level": ["+ attn", "null"], "eta": ["0.5", ""]}))
    said = capsys.readouterr().out
    assert "--data paper (models mini-bert-nli): A table." in said and "figures/mini-real" in said


def test_a_picture():
    assert other_run.show(MINI, "09_b").data.startswith(b"\x89PNG")


def test_what_is_not_there(capsys):
    assert other_run.show(MINI, "09_c") is None
    assert "./reproduce.sh --only 09 --data paper" in capsys.readouterr().out
    assert other_run.show(SimpleNamespace(name="mini-real"), "09_a") is None
    assert "itself" in capsys.readouterr().out
