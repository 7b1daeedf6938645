"""Head scores: two passes are one big graph, the real change; choosing heads, and masking them."""

from collections import Counter

import numpy as np
import pytest
import torch

from lib.bias_a_head import heads, masking, seat
from lib.engine import batches, embed, hooks, models, pppl
from lib.text import data, factual
from tests.tiny import FAMILIES, SENTENCES, refusal, refuses, save_tiny, tiny

every_family = pytest.mark.parametrize("family", FAMILIES)
SETS = heads.Sets(
    X=("nurse", "poetry"),
    Y=("doctor", "engineer", "mathematics"),
    A=("she", "woman"),
    B=("he", "man"),
)
CONTEXTS = {
    word: [
        f"the {word} was late .",
        f"a doctor likes the {word} and poetry",
        f"they met {word} here .",
    ]
    for word in SETS.words
}


def size(model, mask, pooling="word"):
    """|SEAT| under a mask, in one graph."""
    pairs = [(word, sentence) for word in SETS.words for sentence in CONTEXTS[word]]
    encoded, places = embed.prepare(model, pairs, pooling=pooling)
    with hooks.head_mask(model, mask):
        batch = model.tokenizer.pad(encoded, return_tensors="pt")
        vectors = embed.pool(model.net.base_model(**batch).last_hidden_state, places)
    row, _ = embed.rows(CONTEXTS)
    vectors = torch.stack([vectors[row == i].mean(0) for i in range(len(SETS.words))])
    return seat.effect_size(*SETS.of(vectors, SETS.words)).abs()


def ones():
    return torch.ones(3, 4, dtype=torch.float64)


@pytest.mark.parametrize(
    "family, pooling",
    [(family, "word") for family in FAMILIES]
    + [(family, pooling) for family in ("bert", "gpt2") for pooling in embed.POOLINGS],
)
def test_two_passes_are_one_big_graph(family, pooling, monkeypatch):
    model = tiny(family, dtype=torch.float64)
    mask = ones().requires_grad_()
    whole = size(model, mask, pooling)
    (expected,) = torch.autograd.grad(whole, mask)
    monkeypatch.setitem(batches.TOKENS, "cpu", 80)  # some sentences a batch
    found = heads.bias_scores(model, SETS, CONTEXTS, pooling=pooling)
    torch.testing.assert_close(found.scores.double(), expected, atol=1e-6, rtol=1e-5)
    assert abs(found.seat) == pytest.approx(whole.item()) and expected.abs().max() > 1e-3
    if family in ("bert", "gpt2"):  # all of it in float64: the graph is the real change
        step = torch.zeros(3, 4, dtype=torch.float64)
        step[1, 3] = 1e-5
        rise = size(model, ones() + step, pooling) - size(model, ones() - step, pooling)
        slope = rise.item() / 2e-5
        assert found.scores[1, 3].item() == pytest.approx(slope, rel=1e-4, abs=1e-7)


@pytest.mark.parametrize("kept", range(4))
def test_each_fold_is_scored_as_if_it_were_all_whether_its_graphs_are_kept_or_made_again(
    kept, monkeypatch
):
    model = tiny("bert", dtype=torch.float64)
    fewer = CONTEXTS | {"poetry": CONTEXTS["poetry"][:2]}  # none in the last fold
    each, runs = embed.each, []

    def counted(*given, **named):
        runs.append(given)
        return each(*given, **named)

    monkeypatch.setattr(embed, "each", counted)
    tokens = (0, 100, 160, 1_000)[kept]
    monkeypatch.setattr(heads, "KEPT", tokens * heads.KEPT // heads._tokens_with_graph(model)[1])
    found = heads.bias_scores(model, SETS, fewer, folds=3)
    assert len(runs) == 6 - kept  # a fold goes through the model twice, or once
    torch.testing.assert_close(found.scores, heads.bias_scores(model, SETS, fewer).scores)
    for fold in range(3):
        own = {word: sentences[fold::3] for word, sentences in fewer.items() if sentences[fold::3]}
        assert ("poetry" in own) == (fold < 2)
        of_fold = heads.bias_scores(model, SETS.only(own), own).scores
        torch.testing.assert_close(found.folds[fold], of_fold)


@every_family
def test_ablation_is_the_model_under_that_mask(family):
    model = tiny(family, dtype=torch.float64)
    chosen, s = heads.without_each(model, SETS, CONTEXTS)
    found = dict(zip([None, *chosen], seat.size_of(s, len(SETS.X)).abs()))
    for head in [(1, 1), (2, 4), (3, 2)]:
        expected = size(model, heads.mask(model, [head]).double()).detach()
        torch.testing.assert_close(found[head], expected)
    unharmed = masking.seat_of(*heads.associations(model, SETS, CONTEXTS))
    assert found[None].item() == pytest.approx(unharmed)


def test_some_heads_are_switched_off_as_all_are_also_where_memory_runs_out_half_way(monkeypatch):
    model = tiny("bert", dtype=torch.float64)
    chosen, s = heads.without_each(model, SETS, CONTEXTS, 3)
    assert {layer for layer, _ in chosen} == {1, 2, 3} and len(chosen) == len(s) - 1 == 4
    every, plain = heads.without_each(model, SETS, CONTEXTS)
    torch.testing.assert_close(s, plain[[0, *(1 + every.index(head) for head in chosen)]])
    torch.testing.assert_close(s[0], heads.bias_scores(model, SETS, CONTEXTS).s)
    pool, calls = embed.pool, []

    def tight(*args):
        calls.append(1)
        if len(calls) == 5:
            raise torch.OutOfMemoryError
        return pool(*args)

    monkeypatch.setattr(embed, "pool", tight)
    torch.testing.assert_close(heads.without_each(model, SETS, CONTEXTS)[1], plain)


SCORES = torch.tensor([[0.3, -0.2, 0.0], [0.1, 0.5, -0.4]])


def test_heads_are_chosen_from_one_and_at_random_by_the_seed():
    assert heads.top(SCORES, 2) == [(2, 2), (1, 1)]
    assert heads.bottom(SCORES, 2) == [(2, 3), (1, 2)]
    assert heads.positive(SCORES) == [(2, 2), (1, 1), (2, 1)]
    drawn, again, other = (heads.random(SCORES, 4, seed=seed) for seed in (1, 1, 2))
    assert len(set(drawn)) == 4 and drawn == again != other
    expected = torch.ones(3, 4)  # and a mask has zeros at what was chosen alone
    expected[0, 3] = expected[2, 1] = 0
    assert torch.equal(heads.mask(tiny("bert"), [(1, 4), (3, 2)]), expected)


test_what_cannot_be_is_said = refuses(
    (lambda: heads.top(SCORES, 7), "ask for 0 to 6"),
    (lambda: heads.top(SCORES * torch.nan, 1), "have no rank"),
    (lambda: heads.bottom(SCORES / 0, 1), "have no rank"),
    (lambda: heads.random(SCORES, -1), "ask for 0 to 6"),
    (lambda: heads.mask(tiny("bert"), [(0, 1)]), "has no head 0-1"),
    (lambda: heads.mask(tiny("bert"), [(1, 5)]), "has no head 1-5"),
    (lambda: heads.sets_and_contexts("age", heads.Sample("mini", 1)), "take gender or race"),
    (lambda: heads.sets_and_contexts("race", heads.Sample("nowhere", 1)), "mini or paper"),
    (lambda: heads.associations(tiny("bert"), SETS, {"she": ["she"]}), "have no contexts"),
    (
        lambda: heads.bias_scores(tiny("bert"), SETS, CONTEXTS, pooling="all"),
        "choose token or mean",
    ),
)


def test_the_sets_are_the_papers_and_fewer_are_a_part_of_them():
    gender, race = heads.gender_sets(), heads.race_sets()
    assert [len(side) for side in gender + race] == [82, 84, 202, 207, 5, 6, 3, 3]
    firsts = ("beautiful", "soldier", "she", "he", "criminal", "manager", "black", "white")
    assert all(word in side for word, side in zip(firsts, gender + race, strict=True))
    assert not set(gender.X + gender.Y) & set(gender.A + gender.B)
    assert [len(side) for side in heads.gender_sets(every=111)] == [1, 1, 2, 2]
    whole, _ = heads.sets_and_contexts("race", heads.Sample("mini", 1))
    few, _ = heads.sets_and_contexts("race", heads.Sample("mini", 1, items=12))
    assert few == tuple(side[:3] for side in whole)
    thin = heads.gender_sets(attributes=4)
    assert (thin.X, thin.Y) == (gender.X, gender.Y) and set(thin.A) < set(gender.A)
    assert heads.gender_sets(2, 2).A == heads.gender_sets(4).A == thin.A


# ---- masking
RANKED = np.array([[0.5, -0.1, 0.3, -0.2], [0.1, 0.2, -0.3, -0.4], [0.05, 0.04, -0.05, 0.4]])
RESULT = {"scores": RANKED, "folds": np.stack([RANKED, -RANKED] * 2)}  # the halves contradict


def test_a_plan_has_table_1s_strategies_with_random_heads_beside_each_size():
    plan = masking.plan(RESULT, draws=4, curve=[2, 5, 50], amplify=[2])
    assert masking.sizes(RANKED) == (3, 7, 4)  # 7 are positive; a share of 45 of 144 heads
    assert Counter((step.strategy, len(step.heads)) for step in plan) == {
        ("full", 0): 2,
        **{("top", k): 2 for k in (3, 4, 5, 7)},
        ("bottom", 3): 2,
        ("amplified", 3): 2,
        **{("random", k): 4 for k in (3, 4, 5, 7)},
        ("random amplified", 3): 4,
    }
    drawn = {(len(s.heads), s.draw): s.heads for s in plan if s.strategy == "random"}
    assert len({tuple(drawn[3, draw]) for draw in range(4)}) == 4
    assert all(drawn[7, draw][:3] == drawn[3, draw] for draw in range(4))  # nested
    by_half = {s.half: s.heads for s in plan if (s.strategy, len(s.heads)) == ("top", 3)}
    assert by_half == {1: heads.top(RANKED, 3), 0: heads.top(-RANKED, 3)}


def test_a_plan_that_grows_keeps_its_masks():
    plan = masking.plan(RESULT, draws=4)
    more = masking.plan(RESULT, draws=4, draws_of_three=9)
    assert [step for step in more if step in plan] == plan
    sizes = Counter(len(step.heads) for step in more if step.strategy == "random")
    assert sizes == {3: 9, 4: 4, 7: 4}
    with_patched = masking.plan(RESULT, draws=4, falls=np.stack([RANKED, -RANKED]))
    assert with_patched[: len(plan)] == plan
    assert with_patched[len(plan) :] == [  # chosen on the other half
        masking.Step("patched", 0, 0.0, heads.top(-RANKED, 3), 0),
        masking.Step("patched", 0, 0.0, heads.top(RANKED, 3), 1),
    ]
    for few in (-np.abs(RANKED), RANKED[:1, :2]):  # no positive head; fewer than three heads
        steps = masking.plan(RESULT | {"scores": few}, draws=1)
        drawn = [len(step.heads) for step in steps if step.strategy == "random"]
        assert min(drawn) == min(3, few.size)


@pytest.fixture
def encoder(tmp_path, monkeypatch):
    sets = heads.Sets(("nurse", "poetry"), ("doctor", "engineer"), ("she", "woman"), ("he", "man"))
    words = {word: [f"the {word} was late .", f"the {word} was here ."] for word in sets.words}
    monkeypatch.setattr(heads, "sets_and_contexts", lambda *given, **options: (sets, words))
    monkeypatch.setattr(data, "demo", lambda name: list(dict.fromkeys(SENTENCES)))
    asked = [
        {"sentence": f"the {who} said that {{}} was here .", "right": right, "wrong": wrong}
        for who, right, wrong in (("woman", "she", "he"), ("man", "he", "she"))
    ]
    monkeypatch.setattr(data, "rows", lambda *_: asked)
    save_tiny("bert", tmp_path)
    halves = [{word: [both[half]] for word, both in words.items()} for half in (0, 1)]
    return str(tmp_path), sets, halves


PLAN = [
    masking.Step("full", 0, 0.0, [], 0),
    masking.Step("full", 0, 0.0, [], 1),
    masking.Step("top", 0, 0.0, [(1, 1)], 0),
    masking.Step("top", 0, 0.0, [(1, 1), (2, 2)], 1),
    masking.Step("random", 0, 0.0, [(2, 4)], 0),
    masking.Step("amplified", 0, 2.0, [(3, 2)], 1),
]
SAMPLE = heads.Sample("mini", contexts=2, folds=2)


def test_random_heads_read_a_sample_and_seat_is_of_the_judging_half(encoder):
    name, sets, words = encoder
    workload = masking.Workload(sentences=1, lines=3, sampled_lines=2)
    found = masking.measure(name, PLAN, SAMPLE, workload, device="cpu")
    assert {len(values) for values in found.values()} == {len(PLAN)}
    assert list(np.isnan(found["pppl"])) == [False, True, False, False, True, True]
    assert list((found["lengths"] > 0).sum(1)) == [3, 2, 3, 3, 2, 2]
    prose = data.demo("prose")
    model = models.load(name, device="cpu")
    with hooks.head_mask(model, heads.mask(model, [(1, 1), (2, 2)])):
        sample = pppl.pseudo_perplexity(model, [prose[0], prose[-1]]).value  # evenly spaced
        size = masking.seat_of(*heads.associations(model, sets, words[1]))
        facts = factual.log_odds(model, file=factual.FILE_200)
    assert found["pppl_sample"][3] == pytest.approx(sample, rel=1e-4)
    assert found["seat"][3] == pytest.approx(size, abs=1e-5)
    assert found["seat"][0] != pytest.approx(found["seat"][1], abs=1e-5)
    under_masks = masking.measure_facts(name, PLAN, device="cpu")["facts"]
    np.testing.assert_allclose(under_masks[3], facts, atol=1e-4)
    assert np.abs(under_masks[0] - under_masks[3]).max() > 1e-4
    with hooks.head_mask(model, 2 - heads.mask(model, [(3, 2)])):  # twice as loud
        size = masking.seat_of(*heads.associations(model, sets, words[1]))
    assert found["seat"][5] == pytest.approx(size, abs=1e-5)


def test_half_precision_is_near_and_no_other_is_taken(encoder):
    short = masking.Workload(sentences=1, lines=2, sampled_lines=0)
    given = encoder[0], PLAN[2:4], SAMPLE, short, "cpu"
    full = masking.measure(*given)
    quick = masking.measure(*given, precision="bfloat16")
    assert 0 < np.abs(quick["pppl"] / full["pppl"] - 1).max() < 0.1
    np.testing.assert_allclose(quick["seat"], full["seat"], rtol=1e-4)
    refusal(masking.measure, *given, precision="int8")
