"""Remedies act and are taken off again; values and intervals that a person can work out."""

import numpy as np
import pandas as pd
import pytest
import torch

from lib import together
from lib.bias_a_head import heads
from lib.engine import hooks, nsp
from lib.projective import nli, projection, triples
from lib.projective.projection import Level
from lib.text import pairs as sentence_pairs
from lib.together import Effect, Remedy, Role
from tests.tiny import tiny

SCORES = np.arange(144.0).reshape(12, 12)
RESULT = {
    "scores": -SCORES,
    "folds": np.stack([SCORES, -SCORES]),
}  # the halves choose opposite heads
SETTING = "+ attn (1, 0, 0, 1, 1)"
PAIRS = [
    ("she was here .", "he was here ."),
    ("the woman said", "the man said"),
    ("she likes it .", "he likes ."),
]


def test_a_plan_has_none_first_and_what_is_applied_acts_and_leaves_nothing_behind():
    plan = together.plan(RESULT, [SETTING, "SENT 0"], "mini")
    assert [name for name, *_ in plan] == [
        *["none"] * 2,
        *["mask Top-3"] * 2,
        *["mask random 3"] * 5,
        f"project {SETTING}",
        "project SENT 0",
        "counter-prompt",
    ]
    assert [row.heads for row in plan[2:4]] == [
        [(12, 12), (12, 11), (12, 10)],
        [(1, 1), (1, 2), (1, 3)],
    ]
    assert [row.half for row in plan[:6]] == [1, 0] * 3
    assert plan[4].heads != plan[5].heads
    assert plan == together.plan(RESULT, [SETTING, "SENT 0"], "mini")
    (erased,) = together.plan(RESULT, [], "mini", erased=[Level.LAYER_11])[-2:-1]
    assert erased == Remedy("LEACE Layer 11", erased="Layer 11")
    one = {"folds": RESULT["folds"][:, :1, :1]}  # one head in all
    assert [row.heads for row in together.plan(one, [], "mini")[2:5]] == [[(1, 1)]] * 3
    model = tiny("bert")
    subspaces = projection.fit(model, PAIRS)
    asked = [("she was late .", "he likes poetry .")]

    def follows():
        return nsp.is_next(model, asked).item()

    plain = follows()
    chosen = next(known for known in projection.settings() if known.name == SETTING)
    with together.applied(model, []):
        assert follows() == plain
    with together.applied(model, [(2, 1)], subspaces.interventions(chosen)):
        both = follows()
    with (
        hooks.head_mask(model, heads.mask(model, [(2, 1)])),
        hooks.project(model, subspaces.interventions(chosen)),
    ):
        assert both == pytest.approx(follows(), abs=1e-6)
    with together.applied(model, [(2, 1)]):
        assert follows() not in (plain, both)
    assert follows() == plain


def test_a_prompt_stands_before_each_premise(monkeypatch):
    seen = []
    task = pd.DataFrame(
        {
            "premise": ["A dog runs.", "A cat sits."],
            "hypothesis": "x",
            "label": ["neutral", "entailment"],
        }
    )
    classifier = object.__new__(together.Classifier)
    classifier.model = None
    classifier.pairs = nli.pairs(contexts=1).head(4)
    classifier.task = task
    monkeypatch.setattr(nli, "labels", lambda model: list(nli.LABELS))

    def probabilities(model, pairs):
        seen.append(list(pairs["premise"]))
        return torch.tensor([[0, 1, 0.0]] * 3 + [[1, 0, 0.0]] + [[0, 1, 0.0]] * 2)

    monkeypatch.setattr(nli, "probabilities", probabilities)
    row = classifier.measure(Remedy("", prompted=False))
    prompted = classifier.measure(Remedy("", prompted=True))
    assert [len(texts) for texts in seen] == [6, 6]
    assert seen[1] == [f"{together.PROMPT} {plain}" for plain in seen[0]]
    assert row["neutral"].tolist() == [1, 0.5]
    assert row["agree"].tolist() == [1, 0]
    assert row["right"].tolist() == [1, 0]
    assert all((row[key] == prompted[key]).all() for key in row)


def test_the_encoder_is_asked_everything(monkeypatch):
    """On the bundled model and a few items: one row per item, and a remedy changes what it can."""
    monkeypatch.setattr(sentence_pairs, "written", lambda: PAIRS)
    rows = triples.triples("mini").head(9)
    monkeypatch.setattr(triples, "triples", lambda data, items: rows)
    sets = heads.Sets(
        ("nurse", "cashier"), ("soldier", "captain"), ("she", "mother"), ("he", "father")
    )
    words = {
        word: [f"Nobody saw the {word}.", f"Everyone saw the {word} there."] for word in sets.words
    }
    monkeypatch.setattr(heads, "sets_and_contexts", lambda *_, **options: (sets, words))
    plan = [
        Remedy("none", role=Role.NONE),
        Remedy("mask", [(12, 1)]),
        Remedy("counter-prompt", prompted=True),
        Remedy("project", setting=SETTING),
        Remedy("LEACE", erased=Level.LAYER_11),
        Remedy("none", role=Role.NONE, half=0),
    ]
    none, masked, prompted, projected, erased, other_half = together.measure(
        "mini-bert", "", plan, "mini", 2, 2, device="cpu", items=2
    )
    assert {name: len(values) for name, values in none.items()} == {
        "s": 3,
        "d": 3,
        "likelihoods": 2,
        "lengths": 2,
        "margin": 8,
        "dominated": 8,
        "associations": 4,
        "in_x": 4,
        "facts": 2,
    }
    assert (none["dominated"] > 0).sum() == 4
    assert (abs(none["margin"]) <= 1).all()
    assert not np.allclose(none["associations"], other_half["associations"])
    assert (none["s"] == other_half["s"]).all()
    assert "associations" not in prompted
    assert (prompted["lengths"] == none["lengths"]).all()
    for key in ("s", "likelihoods", "margin", "facts"):
        assert not np.allclose(none[key], masked[key])
        assert not np.allclose(none[key], prompted[key])
    for key in ("s", "likelihoods", "margin", "facts", "associations"):
        assert not np.allclose(none[key], projected[key])
        assert not np.allclose(none[key], erased[key])
        assert not np.allclose(projected[key], erased[key])


def measured(seat=1.0, s=0.5, agree=1.0, gap=0.4, pppl=8.0, right=1.0):
    in_x = np.repeat([True, False], 50)
    noise = np.tile([-1.0, 1.0], 50)
    dominated = np.repeat([1, -1], 10)
    return {
        "associations": noise + in_x * seat,
        "in_x": in_x,
        "s": np.full(30, s),
        "d": np.full(30, 0.2),
        "neutral": np.full(10, 0.5),
        "agree": np.full(10, agree),
        "margin": dominated * gap / 2,
        "dominated": dominated,
        "likelihoods": np.full(4, -5 * np.log(pppl)),
        "lengths": np.full(4, 5),
        "right": np.full(20, right),
        "facts": np.array([[1.0, 1.0], [1.0, -1.0]] * 3),
    }


PLAN = [
    Remedy("none", role=Role.NONE),
    Remedy("mask Top-3", [(1, 1)], role=Role.FOUND),
    Remedy("random", [(2, 2)], role=Role.CONTROL),
    Remedy("random", [(3, 3)], role=Role.CONTROL),
    Remedy("counter-prompt", prompted=True),
]


def test_values_changes_and_what_is_better():
    prompted = measured(gap=-0.6)
    del prompted["associations"]
    del prompted["in_x"]
    rows = [
        measured(),
        measured(seat=0.0, s=0.3, agree=0.0, pppl=9.0),
        measured(s=0.4),
        measured(s=0.6),
        prompted,
    ]
    effects = together.effects(PLAN, rows, draws=50)
    at = effects.set_index(["mitigation", "measure"])

    def values(remedy, measure, *columns):
        return at.loc[(remedy, measure), list(columns)].tolist()

    assert values("none", "Strength", "value") == pytest.approx([0.5])
    (change,) = values("mask Top-3", "Strength", "change")
    assert [*change] == pytest.approx([-0.2] * 3)
    seat, change = values("mask Top-3", "SEAT", "value", "change")
    assert seat == pytest.approx(0) and change.is_below()
    assert values("none", "NLI fairness", "value") == [0.5]
    assert values("mask Top-3", "NLI fairness", "value") == [0]
    value, change, draws = values("random", "Strength", "value", "change", "draws")
    assert [value, *change, draws] == pytest.approx([0.5, 0, -0.1, 0.1, 2])
    (beyond,) = values("mask Top-3", "Strength", "beyond")
    assert [*beyond] == pytest.approx([-0.2, -0.3, -0.1])
    found = at.loc["mask Top-3"]
    matters = [measure for measure, row in found.iterrows() if together.matters(row)]
    assert matters == ["SEAT", "Strength", "NLI fairness", "PPPL"]
    assert values("counter-prompt", "cloze gap", "value") == pytest.approx([0.6])
    assert list(at.index[at["overturned"]]) == [("counter-prompt", "cloze gap")]
    value, change = values("mask Top-3", "PPPL", "value", "change")
    assert (value, change.value) == pytest.approx((9, 1))
    assert np.isnan(at.loc[("counter-prompt", "SEAT"), "value"])
    expected = {
        ("mask Top-3", "Strength"): Effect.BETTER,
        ("mask Top-3", "NLI fairness"): Effect.WORSE,
        ("mask Top-3", "PPPL"): Effect.WORSE,
        ("mask Top-3", "Distance"): Effect.UNDECIDED,
        ("random", "Strength"): Effect.CONTROL,
        ("counter-prompt", "SEAT"): Effect.NONE,
    }
    judged = {key: together.judged(effects.iloc[at.index.get_loc(key)]) for key in expected}
    assert judged == expected


def test_both_halves_are_judged_beside_the_untouched_model_on_the_same_half():
    """Each half has its own level; the mask lowers both by .2, and so the mean of any resample."""
    plan = [
        *(Remedy("none", role=Role.NONE, half=half) for half in (1, 0)),
        *(Remedy("mask Top-3", [(1, 1)], role=Role.FOUND, half=half) for half in (1, 0)),
    ]
    rows = [measured(s=s) for s in (0.9, 0.3, 0.7, 0.1)]
    at = together.effects(plan, rows, draws=50).set_index(["mitigation", "measure"])
    assert at.loc[("none", "Strength"), "value"] == pytest.approx(0.6)
    value, change = at.loc[("mask Top-3", "Strength"), ["value", "change"]]
    assert [value, *change] == pytest.approx([0.4, -0.2, -0.2, -0.2])


def test_the_best_settings_are_found_in_stored_tables():
    intrinsic = pd.DataFrame(
        {"model": ["Base", "Sent-debias", "a", "b"], "S": [0.1, 0.1, 0.3, 0.2]}
    )
    inference = pd.DataFrame(
        {
            "model": ["Base", "Sent-debias", "a", "b", "c"],
            "eta, most": [0.9, 0.9, 0.4, 0.5, 0.8],
            "SNLI": [0.9, 0.9, 0.7, 0.7, 0.2],
            "viable": ["yes", "yes", "yes", "in points", "no"],
        }
    )
    stored = {"08_table7": intrinsic, "09_table7": inference}
    assert together.best_settings(stored) == ("b", "b")
    assert together.best_settings(stored | {"09_table7": None}) == ("b", "")
    assert together.best_settings({"08_table7": None, "09_table7": None}) == ("", "")
