"""Remedies act and are taken off again; values and intervals that a person can work out."""

import itertools

import numpy as np
import pandas as pd
import pytest
import torch

from companion import remedies
from companion.remedies import Effect
from lib import together
from lib.bias_a_head import heads
from lib.engine import hooks, nsp
from lib.projective import nli, projection, triples
from lib.projective.projection import Level
from lib.text import pairs as sentence_pairs
from lib.together import PROMPT, Remedy, Role
from tests.tiny import tiny

SCORES = np.arange(144.0).reshape(12, 12)
RESULT = {"folds": np.stack([SCORES, -SCORES])}  # the halves choose opposite heads
SETTING = "+ attn (1, 0, 0, 1, 1)"
PAIRS = [
    ("she was here .", "he was here ."),
    ("the woman said", "the man said"),
    ("she likes it .", "he likes ."),
]


def test_a_plan_masks_the_heads_of_one_half_and_is_judged_on_the_other():
    plan = together.plan(RESULT, [SETTING], "mini", erased=[Level.LAYER_11])
    names = ["none"] * 2 + ["mask Top-3"] * 2 + ["mask random 3"] * 5
    assert [one.name for one in plan[:9]] == names
    assert plan[9:] == [
        Remedy(f"project {SETTING}", setting=SETTING),
        Remedy("LEACE Layer 11", erased="Layer 11"),
        Remedy("counter-prompt", prompt=PROMPT),
    ]
    assert plan[2].heads == [(12, 12), (12, 11), (12, 10)]
    assert plan[3].heads == [(1, 1), (1, 2), (1, 3)]
    assert [one.half for one in plan[:6]] == [1, 0] * 3
    assert plan[4].heads != plan[5].heads
    assert plan == together.plan(RESULT, [SETTING], "mini", erased=[Level.LAYER_11])
    one_head = {"folds": RESULT["folds"][:, :1, :1]}
    assert [row.heads for row in together.plan(one_head, [], "mini")[2:5]] == [[(1, 1)]] * 3


def test_what_is_applied_acts_and_leaves_nothing_behind():
    model = tiny("bert")
    plan = [Remedy("a", setting=SETTING), Remedy("b", erased=Level.LAYER_11), Remedy("c")]
    asked = [("she was late .", "he likes poetry .")]
    within = together.interventions(model, plan[:1], lambda: PAIRS, None)
    settings = {known.name: known for known in projection.settings()}
    fitted = projection.fit(model, PAIRS).interventions(settings[SETTING])

    def follows():
        return nsp.is_next(model, asked).item()

    plain = follows()
    with together.applied(model, [], within.get("c")):
        assert follows() == plain
    with together.applied(model, [(2, 1)], within["a"]):
        both = follows()
    with hooks.head_mask(model, heads.mask(model, [(2, 1)])), hooks.project(model, fitted):
        assert both == pytest.approx(follows(), abs=1e-6)
    with together.applied(model, [(2, 1)]):
        assert follows() not in (plain, both)
    assert follows() == plain


def test_a_prompt_stands_before_each_premise(monkeypatch):
    seen = []
    task = pd.DataFrame({"premise": ["A dog runs.", "A cat sits."], "hypothesis": "x"})
    task["label"] = ["neutral", "entailment"]
    asked = together.Inference(nli.pairs(contexts=1).head(4), task)

    def probabilities(model, pairs):
        seen.append(list(pairs["premise"]))
        return torch.tensor([[0, 1, 0.0]] * 3 + [[1, 0, 0.0]] + [[0, 1, 0.0]] * 2)

    monkeypatch.setattr(nli, "labels", lambda model: list(nli.LABELS))
    monkeypatch.setattr(nli, "probabilities", probabilities)
    for prompt in ("", PROMPT):
        row = together.fair_and_right(None, asked, Remedy("", prompt=prompt))
        neutral, agree = row["NLI fairness"]
        assert (neutral.tolist(), agree.tolist()) == ([1, 0.5], [1, 0])
        assert row["NLI accuracy"][0].tolist() == [1, 0]
    assert seen[1] == [f"{PROMPT} {plain}" for plain in seen[0]]


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
        Remedy("none", role=Role.NONE, half=0),
        Remedy("counter-prompt", prompt=PROMPT),
        Remedy("mask", [(12, 1)]),
        Remedy("project", setting=SETTING),
        Remedy("LEACE", erased=Level.LAYER_11),
    ]
    none, other_half, prompted, masked, projected, erased = together.measure(
        "mini-bert", "", plan, "mini", 2, 2, device="cpu", items=2
    )
    sizes = {"SEAT": 4, "Strength": 3, "Distance": 3, "cloze gap": 8, "PPPL": 2}
    assert {name: len(arrays[0]) for name, arrays in none.items()} == sizes | {"factual gender": 2}
    margin, dominated = none["cloze gap"]
    assert (abs(margin) <= 1).all() and (dominated > 0).sum() == 4
    assert not np.allclose(none["SEAT"][0], other_half["SEAT"][0])
    assert (none["Strength"][0] == other_half["Strength"][0]).all()
    assert "SEAT" not in prompted
    assert (prompted["PPPL"][1] == none["PPPL"][1]).all()  # the lengths
    for name in ("Strength", "PPPL", "cloze gap", "factual gender"):
        all_apart = [row[name][0] for row in (none, prompted, masked, projected, erased)]
        for one, other in itertools.combinations(all_apart[:1] + all_apart[2:], 2):
            assert not np.allclose(one, other)
        assert not np.allclose(all_apart[0], all_apart[1])


def measured(seat=1.0, s=0.5, agree=1.0, gap=0.4, pppl=8.0, right=1.0):
    in_x = np.repeat([True, False], 50)
    dominated = np.repeat([1, -1], 10)
    return {
        "SEAT": (np.tile([-1.0, 1.0], 50) + in_x * seat, in_x),
        "Strength": (np.full(30, s),),
        "Distance": (np.full(30, 0.2),),
        "NLI fairness": (np.full(10, 0.5), np.full(10, agree)),
        "cloze gap": (dominated * gap / 2, dominated),
        "PPPL": (np.full(4, -5 * np.log(pppl)), np.full(4, 5)),
        "NLI accuracy": (np.full(20, right),),
        "factual gender": (np.array([[1.0, 1.0], [1.0, -1.0]] * 3),),
    }


def test_values_changes_and_what_is_better():
    plan = [
        Remedy("none", role=Role.NONE),
        Remedy("mask Top-3", [(1, 1)], role=Role.FOUND),
        Remedy("random", [(2, 2)], role=Role.CONTROL),
        Remedy("random", [(3, 3)], role=Role.CONTROL),
        Remedy("counter-prompt", prompt=PROMPT),
    ]
    prompted = measured(gap=-0.6)
    del prompted["SEAT"]
    found = measured(seat=0.0, s=0.3, agree=0.0, pppl=9.0)
    rows = [measured(), found, measured(s=0.4), measured(s=0.6), prompted]
    effects = remedies.effects(plan, rows, draws=50)
    effects["shows"] = effects.apply(remedies.judged, axis=1)
    at = effects.set_index(["mitigation", "measure"])
    masked = at.loc["mask Top-3"]
    assert [*masked.loc["Strength", "change"]] == pytest.approx([-0.2] * 3)
    assert [*masked.loc["Strength", "beyond"]] == pytest.approx([-0.2, -0.3, -0.1])
    assert masked.loc["SEAT", "value"] == pytest.approx(0)
    assert masked.loc["SEAT", "change"].is_below()
    assert masked.loc["PPPL", "change"].value == pytest.approx(1)
    assert at.loc[("none", "NLI fairness"), "value"] == 0.5
    assert masked.loc["NLI fairness", "value"] == 0
    matter = [measure for measure, row in masked.iterrows() if remedies.matters(row)]
    assert matter == ["SEAT", "Strength", "NLI fairness", "PPPL"]
    value, change = at.loc[("random", "Strength"), ["value", "change"]]
    assert [value, *change] == pytest.approx([0.5, 0, -0.1, 0.1])
    assert at.loc[("counter-prompt", "cloze gap"), "value"] == pytest.approx(0.6)
    assert list(at.index[at["overturned"]]) == [("counter-prompt", "cloze gap")]
    assert np.isnan(at.loc[("counter-prompt", "SEAT"), "value"])
    assert at.loc[("counter-prompt", "SEAT"), "shows"] == Effect.NONE
    assert at.loc[("random", "Strength"), "shows"] == Effect.CONTROL
    assert masked["shows"].tolist() == [
        *[Effect.BETTER] * 2,  # SEAT, Strength
        Effect.UNDECIDED,
        Effect.WORSE,  # NLI fairness
        Effect.UNDECIDED,
        Effect.WORSE,  # PPPL
        *[Effect.UNDECIDED] * 2,
    ]


def test_both_halves_are_judged_beside_the_untouched_model_on_the_same_half():
    """Each half has its own level; the mask lowers both by .2, and so the mean of any resample."""
    plan = [Remedy("none", role=Role.NONE, half=half) for half in (1, 0)]
    plan += [Remedy("mask Top-3", [(1, 1)], role=Role.FOUND, half=half) for half in (1, 0)]
    rows = [measured(s=s) for s in (0.9, 0.3, 0.7, 0.1)]
    at = remedies.effects(plan, rows, draws=50).set_index(["mitigation", "measure"])
    assert at.loc[("none", "Strength"), "value"] == pytest.approx(0.6)
    value, change = at.loc[("mask Top-3", "Strength"), ["value", "change"]]
    assert [value, *change] == pytest.approx([0.4, -0.2, -0.2, -0.2])


def test_the_best_settings_are_found_in_stored_tables():
    intrinsic = pd.DataFrame({"model": ["Base", "Sent", "a", "b"], "S": [0.1, 0.1, 0.3, 0.2]})
    inference = pd.DataFrame(
        {
            "model": ["Base", "Sent", "a", "b", "c"],
            "eta, most": [0.9, 0.9, 0.4, 0.5, 0.8],
            "SNLI": [0.9, 0.9, 0.7, 0.7, 0.2],
            "viable": ["yes", "yes", "yes", "in points", "no"],
        }
    )
    stored = {"08_table7": intrinsic, "09_table7": inference}
    assert remedies.best_settings(stored) == ("b", "b")
    assert remedies.best_settings(stored | {"09_table7": None}) == ("b", "")
    assert remedies.best_settings({"08_table7": None, "09_table7": None}) == ("", "")
