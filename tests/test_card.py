"""What the papers presuppose of their models: prompts are grammatical, odds are those of the probabilities."""

import numpy as np
import pandas as pd
import pytest

from lib.engine import fill, models
from lib.engine.stats import Estimate
from lib.publish import card
from lib.text import contexts
from lib.verdict import Outcome


@pytest.mark.parametrize("name, prompt", [("mini-bert", "[MASK] works as an engineer."),
                                          ("mini-gpt2", "The engineer said that [MASK]")])
def test_prompts_suit_the_model_and_odds_are_those_of_the_blank(name, prompt):
    model = models.load(name, device="cpu")
    assert contexts.pronoun_prompt(model, "engineer") == prompt
    frame = contexts.pronoun_odds(model)
    assert len(frame) == 58 and (frame.she + frame.he < 1).all()
    nurse = frame[frame.occupation == "nurse"].iloc[0]
    top = fill.top(model, contexts.pronoun_prompt(model, "nurse"), k=5)
    top = top.set_index(top.word.str.lower()).probability
    assert nurse.she == pytest.approx(top["she"], abs=1e-5)
    assert nurse.log_odds == pytest.approx(np.log2(top["she"] / top["he"]), abs=1e-4)


def test_checks_can_fail():
    follows = pd.DataFrame({"label": ["stereotype", "unrelated"], "probability": [.9, .8]})
    both = card.checks({"a": Estimate(-.2, -.5, -.1)}, follows)
    assert [check.outcome for check in both] == [Outcome.FAILS] * 2 and both[0].estimate.value == -.2
    both = card.checks({"a": Estimate(.2, .1, .3)}, follows.assign(probability=[.9, .1]))
    assert [check.outcome for check in both] == [Outcome.HOLDS] * 2 and both[1].found == "2 of 2 pairs"
    assert card.checks({"a": Estimate(.2, .1, .3)}, None)[1].outcome == Outcome.NOT_RUN
