"""A card for any model, one of each family end to end on tiny networks; and what the papers
presuppose of theirs.
"""

import json

import numpy as np
import pandas as pd
import pytest
from markupsafe import escape

from lib import look, paths
from lib.bias_a_head import heads
from lib.engine import fill, models
from lib.engine.stats import Estimate
from lib.publish import card
from lib.text import contexts
from lib.verdict import Outcome
from tests.tiny import COMMON, FAMILIES, save_tiny


@pytest.fixture
def small(few_draws, monkeypatch, tmp_path):
    for name, value in {
        "CONTEXTS": 2,
        "FOLDS": 2,
        "LINES": 3,
        "STORED": tmp_path / "cards",
    }.items():
        monkeypatch.setattr(card, name, value)
    few = heads.sets_and_contexts("gender", heads.Sample("mini", 2, items=60))
    monkeypatch.setattr(heads, "sets_and_contexts", lambda *_: few)
    monkeypatch.setattr(paths, "BUILD", tmp_path / "build")
    monkeypatch.setattr(look, "odds_by_share", lambda ax, frame, title: ax.set(title=title))
    monkeypatch.setitem(
        COMMON, "max_position_embeddings", 160
    )  # the written sentences have up to a hundred pieces


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_gets_a_page_and_its_json(family, small, tmp_path):
    save_tiny(family, tmp_path / family)
    page = card.write(str(tmp_path / family))
    found = json.loads(page.with_suffix(".json").read_text())
    assert found["family"] == family and found["revision"] in page.read_text()
    done = {row["measure"] for row in found["rows"]}
    missing = {row["measure"]: row["why"] for row in found["missing"]}
    assert done | missing.keys() == set(card.MEASURES) and "seat" in done and "perplexity" in done
    assert ("next sentences" in done) == (family == "bert")
    for row in found["rows"]:
        assert row["low"] <= row["high"] and row["n"] > 0
    assert all(escape(why) in page.read_text() for why in missing.values())


def test_a_stored_card_stands_beside_another_only_while_its_weights_are_the_same(
    small, tmp_path, monkeypatch
):
    save_tiny("bert", tmp_path / "one")
    save_tiny("bert", tmp_path / "two", seed=1)
    monkeypatch.setattr(card, "BESIDE", [str(tmp_path / "one")])
    monkeypatch.setattr(card, "MEASURES", {"perplexity": card.perplexity})
    card.write(str(tmp_path / "one"), store=True)
    assert (
        f'<th scope="col">{tmp_path / "one"}</th>' in card.write(str(tmp_path / "two")).read_text()
    )
    save_tiny("bert", tmp_path / "one", seed=2)
    assert card.beside() == []


@pytest.mark.parametrize("name", ["mini-bert", "mini-gpt2"])
def test_odds_are_those_of_the_blank(name):
    model = models.load(name, device="cpu")
    nurse = contexts.pronoun_odds(model).set_index("occupation").loc["nurse"]
    top = fill.top(model, contexts.pronoun_prompt(model, "nurse"), k=100)
    she, he = (top.probability[top.word.str.lower() == word].item() for word in ("she", "he"))
    assert (nurse.she, nurse.log_odds) == pytest.approx((she, np.log2(she / he)), abs=1e-4)


def test_checks_can_fail():
    follows = pd.DataFrame({"label": ["stereotype", "unrelated"], "probability": [0.9, 0.8]})
    both = card.checks({"a": Estimate(-0.2, -0.5, -0.1)}, follows)
    assert [check.outcome for check in both] == [Outcome.CONTRADICTED] * 2 and both[
        0
    ].estimate.value == -0.2
    both = card.checks({"a": Estimate(0.2, 0.1, 0.3)}, follows.assign(probability=[0.9, 0.1]))
    assert [check.outcome for check in both] == [Outcome.SUPPORTED] * 2 and both[
        1
    ].found == "2 of 2 pairs"
    assert card.checks({"a": Estimate(0.2, 0.1, 0.3)}, None)[1].outcome == Outcome.NOT_RUN
