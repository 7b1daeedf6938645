"""Model cards: the prompts are grammatical, the odds are those of the probabilities, the headline says what was found."""

import numpy as np
import pandas as pd
import pytest

from lib import cards, fill, models


@pytest.fixture(scope="module")
def minis():
    return [models.load(name, device="cpu") for name in ("mini-bert", "mini-gpt2")]


def test_prompts_suit_the_model(minis):
    bert, gpt2 = minis
    assert cards.prompt(bert, "engineer") == "[MASK] works as an engineer."
    assert cards.prompt(gpt2, "engineer") == "The engineer said that [MASK]"


def test_odds_are_those_of_the_blank(minis):
    for model in minis:
        frame = cards.pronoun_odds(model)
        assert len(frame) == 58 and (frame.she + frame.he < 1).all()
        nurse = frame[frame.occupation == "nurse"].iloc[0]
        top = fill.top(model, cards.prompt(model, "nurse"), k=5).set_index("word").probability
        assert nurse.she == pytest.approx(top["she"], abs=1e-5)
        assert nurse.log_odds == pytest.approx(np.log2(top["she"] / top["he"]), abs=1e-4)


def test_cards_tell_how_a_shipped_model_was_trained(minis):
    facts = cards.describe(minis[0])
    assert facts["layers x heads"] == "12 x 12" and facts["held-out mlm perplexity"] < 13.5
    assert cards.describe(minis[1])["held-out perplexity 256"] < 45


def frame_with(slope):
    share = np.arange(0, 100, 5.)
    return pd.DataFrame({"percent_women": share, "log_odds": slope * share})


def test_the_headline_says_what_was_found():
    up, down = frame_with(.1), frame_with(-.1)
    assert cards.odds_headline({"a": up, "b": up}) == "Where more women work, a and b say she more often"
    assert cards.odds_headline({"a": up, "b": down}) == ("Where more women work, a says she more often but "
                                                         "b says she no more often where more women work")


def test_checks_can_fail():
    follows = pd.DataFrame({"label": ["stereotype", "unrelated"], "probability": [.9, .8]})
    found = cards.checks({"a": frame_with(-.1)}, follows)
    assert found.verdict.tolist() == ["fails", "fails"]
    found = cards.checks({"a": frame_with(.1)}, follows.assign(probability=[.9, .1]))
    assert found.verdict.tolist() == ["holds", "holds"]
    assert cards.checks({"a": frame_with(.1)}, None).verdict.iloc[-1].startswith("not run")


def test_the_inventory_names_every_shipped_file():
    from lib import paths
    table = cards.inventory()
    shipped = [p for folder in (paths.LISTS, paths.DEMO) for p in folder.iterdir() if p.suffix in (".csv", ".txt")]
    assert len(table) == len(shipped) and (table.rows > 0).all() and (table.what != "").all()
