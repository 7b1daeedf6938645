"""Model cards: prompts are grammatical, odds are those of the probabilities, headlines say what was seen."""

import numpy as np
import pandas as pd
import pytest

from lib import paths
from lib.engine import fill, models
from lib.engine.stats import Estimate
from lib.publish import card
from lib.publish.run import Run
from lib.text import contexts, english
from lib.verdict import Outcome


@pytest.fixture(scope="module")
def minis():
    return [models.load(name, device="cpu") for name in ("mini-bert", "mini-gpt2", "mini-roberta", "mini-albert")]


def test_prompts_suit_the_model(minis):
    bert, gpt2, *_ = minis
    assert contexts.pronoun_prompt(bert, "engineer") == "[MASK] works as an engineer."
    assert contexts.pronoun_prompt(gpt2, "engineer") == "The engineer said that [MASK]"


def test_odds_are_those_of_the_blank(minis):
    for model in minis[:2]:
        frame = contexts.pronoun_odds(model)
        assert len(frame) == 58 and (frame.she + frame.he < 1).all()
        nurse = frame[frame.occupation == "nurse"].iloc[0]
        top = fill.top(model, contexts.pronoun_prompt(model, "nurse"), k=5)
        top = top.set_index(top.word.str.lower()).probability
        assert nurse.she == pytest.approx(top["she"], abs=1e-5)
        assert nurse.log_odds == pytest.approx(np.log2(top["she"] / top["he"]), abs=1e-4)


def test_cards_tell_how_a_shipped_model_was_trained(minis):
    facts = card.describe(minis[0])
    assert facts["layers x heads"] == "12 x 12" and facts["held-out mlm perplexity"] < 13.5
    assert card.describe(minis[1])["held-out perplexity 256"] < 45
    assert card.describe(minis[2])["held-out mlm perplexity"] < 13.5  # cased, in pieces of its own
    albert = card.describe(minis[3])
    assert albert["parameters, M"] == 3.8 and albert["held-out order accuracy"] > .65


def frame_with(slope):
    share = np.arange(0, 100, 5.)
    return pd.DataFrame({"percent_women": share, "log_odds": slope * share})


def test_the_headline_says_what_was_found(monkeypatch):
    monkeypatch.setattr(card, "_rise", lambda frame: Estimate(0., frame.log_odds.iloc[-1]))  # with its sign
    up, down = frame_with(.1), frame_with(-.1)
    assert card.odds_headline({"a": up, "b": up}) == "Where more women work, a and b say she more often"
    assert card.odds_headline({"a": up, "b": down, "c": down}) == ("Where more women work, a says she more often, "
                                                                    "b and c do not clearly")
    assert card.odds_headline({"b": down}) == "b does not clearly say she more often where more women work"
    words = {name: pd.DataFrame({"word": [word]}) for name, word in dict(a="she", b="he", c="She").items()}
    assert card.fillers_headline(words, "nurse") == "A nurse is she to a and c and he to b"
    assert [english.listed(list(names)) for names in ("a", "ab", "abc")] == ["a", "a and b", "a, b and c"]


def test_the_models_that_a_run_introduces():
    assert card.company(Run()) == ["mini-bert", "mini-roberta", "mini-albert", "mini-gpt2"]
    assert card.company(Run(model="mini-albert")) == ["mini-albert", "mini-gpt2"]
    assert card.company(Run(profile="paper")) == ["bert-base", "gpt2"]


def test_checks_can_fail():
    follows = pd.DataFrame({"label": ["stereotype", "unrelated"], "probability": [.9, .8]})
    both = card.checks({"a": frame_with(-.1)}, follows)
    assert [one.outcome for one in both] == [Outcome.FAILS] * 2 and both[0].estimate.value == pytest.approx(-1)
    both = card.checks({"a": frame_with(.1)}, follows.assign(probability=[.9, .1]))
    assert [one.outcome for one in both] == [Outcome.HOLDS] * 2 and both[1].found == "2 of 2 pairs"
    assert card.checks({"a": frame_with(.1)}, None)[1].outcome == Outcome.NOT_RUN
    assert card.checks_table(both)["model"].tolist() == ["a", "a"]


def test_the_inventory_names_every_shipped_file():
    table = card.inventory()
    shipped = [p for folder in (paths.LISTS, paths.DEMO) for p in folder.iterdir() if p.suffix in (".csv", ".txt")]
    assert len(table) == len(shipped) and (table.rows > 0).all() and (table.what != "").all()
