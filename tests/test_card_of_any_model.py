"""A card for any model: one of each family, and an untrained one, end to end on tiny networks."""

import json

import pytest

from lib import look, paths
from lib.publish import card
from tests.tiny import COMMON, FAMILIES, save_tiny


@pytest.fixture(autouse=True)
def small(few_draws, monkeypatch, tmp_path):
    monkeypatch.setattr(card, "CONTEXTS", 2)
    monkeypatch.setattr(card, "FOLDS", 2)
    monkeypatch.setattr(card, "LINES", 3)
    monkeypatch.setattr(card, "STORED", tmp_path / "cards")
    monkeypatch.setattr(paths, "BUILD", tmp_path / "build")
    monkeypatch.setattr(look, "odds_by_share", lambda ax, frame, title: ax.set(title=title))
    monkeypatch.setitem(COMMON, "max_position_embeddings", 160)  # the written sentences have up to a hundred pieces


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_gets_a_page_and_its_json(family, tmp_path):
    save_tiny(family, tmp_path / family)
    page = card.write(str(tmp_path / family))
    found = json.loads(page.with_suffix(".json").read_text())
    assert found["family"] == family and found["revision"] in page.read_text()
    done = {row["measure"] for row in found["rows"]}
    missing = {row["measure"]: row["why"] for row in found["missing"]}
    assert done | missing.keys() == set(card.MEASURES) and "seat" in done and "perplexity" in done
    assert ("next sentences" in done) == (family == "bert")
    for row in found["rows"]:
        assert row["low"] <= row["value"] <= row["high"] and row["n"] > 0
    assert all(why in page.read_text() or "&#39;" in page.read_text() for why in missing.values())


def test_a_stored_card_stands_beside_another_only_while_its_weights_are_the_same(tmp_path, monkeypatch):
    save_tiny("bert", tmp_path / "one")
    save_tiny("bert", tmp_path / "two", seed=1)
    monkeypatch.setattr(card, "BESIDE", [str(tmp_path / "one")])
    card.write(str(tmp_path / "one"), store=True)
    assert f"<th scope=\"col\">{tmp_path / 'one'}</th>" in card.write(str(tmp_path / "two")).read_text()
    save_tiny("bert", tmp_path / "one", seed=2)
    assert card.beside() == []
