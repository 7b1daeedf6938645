"""Head scores: two passes are one big graph, the real change; choosing heads, and masking them."""

from collections import Counter
from types import SimpleNamespace

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


@every_family
def test_two_passes_are_one_big_graph(family, monkeypatch):
    model = tiny(family, dtype=torch.float64)
    mask = ones().requires_grad_()
    whole = size(model, mask)
    (expected,) = torch.autograd.grad(whole, mask)
    monkeypatch.setitem(batches.TOKENS, "cpu", 80)  # some sentences a batch
    found = heads.bias_scores(model, SETS, CONTEXTS)
    torch.testing.assert_close(found.scores.double(), expected, atol=1e-6, rtol=1e-5)
    assert abs(found.seat) == pytest.approx(whole.item()) and expected.abs().max() > 1e-3
    if family in ("bert", "gpt2"):  # all of it in float64: the graph is the real change
        step = torch.zeros(3, 4, dtype=torch.float64)
        step[1, 3] = 1e-5
        rise = (size(model, ones() + step) - size(model, ones() - step)) / 2e-5
        assert found.scores[1, 3].item() == pytest.approx(rise.item(), rel=1e-4, abs=1e-7)


@pytest.mark.parametrize("family", ["bert", "gpt2"])
@pytest.mark.parametrize("pooling", embed.POOLINGS)
def test_heads_are_scored_by_the_vector_of_the_whole_sentence_too(family, pooling):
    model = tiny(family, dtype=torch.float64)
    mask = ones().requires_grad_()
    (expected,) = torch.autograd.grad(size(model, mask, pooling), mask)
    found = heads.bias_scores(model, SETS, CONTEXTS, pooling=pooling)
    torch.testing.assert_close(found.scores.double(), expected, atol=1e-6, rtol=1e-5)
    vectors = [
        embed.sentences(model, CONTEXTS[word], pooling=pooling).mean(0) for word in SETS.words
    ]
    by_sentence = seat.effect_size(*SETS.of(torch.stack(vectors), SETS.words))
    assert found.seat == pytest.approx(by_sentence.item())
    assert "choose token or mean" in refusal(
        heads.bias_scores, model, SETS, CONTEXTS, pooling="all"
    )


@pytest.mark.parametrize("kept", range(4))
def test_each_fold_is_scored_as_if_it_were_all_whether_its_graphs_are_kept_or_made_again(
    kept, monkeypatch
):
    model, fewer = (
        tiny("bert", dtype=torch.float64),
        CONTEXTS | {"poetry": CONTEXTS["poetry"][:2]},
    )  # none in the last
    each, runs = embed.each, []
    monkeypatch.setattr(
        embed, "each", lambda *given, **named: (runs.append(given), each(*given, **named))
    )
    monkeypatch.setattr(
        heads, "KEPT", (0, 100, 160, 1_000)[kept] * heads.KEPT // heads._tokens_with_graph(model)[1]
    )
    found = heads.bias_scores(model, SETS, fewer, folds=3)
    assert len(runs) == 6 - kept  # a fold goes through the model twice, or once
    torch.testing.assert_close(found.scores, heads.bias_scores(model, SETS, fewer).scores)
    for fold in range(3):
        own = {word: sentences[fold::3] for word, sentences in fewer.items() if sentences[fold::3]}
        assert ("poetry" in own) == (fold < 2)
        torch.testing.assert_close(
            found.folds[fold], heads.bias_scores(model, SETS.only(own), own).scores
        )


@every_family
def test_ablation_is_the_model_under_that_mask(family):
    model = tiny(family, dtype=torch.float64)
    chosen, s = heads.without_each(model, SETS, CONTEXTS)
    found = dict(zip([None, *chosen], seat.size_of(s, len(SETS.X)).abs()))
    for head in [(1, 1), (2, 4), (3, 2)]:
        torch.testing.assert_close(
            found[head], size(model, heads.mask(model, [head]).double()).detach()
        )
    assert found[None].item() == pytest.approx(
        masking.seat_of(*heads.associations(model, SETS, CONTEXTS))
    )  # unharmed


SCORES = torch.tensor([[0.3, -0.2, 0.0], [0.1, 0.5, -0.4]])


def test_heads_are_chosen_from_one_and_at_random_by_the_seed():
    assert heads.top(SCORES, 2) == [(2, 2), (1, 1)]
    assert heads.bottom(SCORES, 2) == [(2, 3), (1, 2)]
    assert heads.positive(SCORES) == [(2, 2), (1, 1), (2, 1)]
    assert heads.positive(heads.HeadScores(SCORES, 0.1, 0.5, SCORES[None])) == heads.positive(
        SCORES
    )
    drawn, again, other = (heads.random(SCORES, 4, seed=seed) for seed in (1, 1, 2))
    assert len(set(drawn)) == 4 and drawn == again != other
    expected = torch.ones(3, 4)  # and a mask has zeros at what was chosen alone
    expected[0, 3] = expected[2, 1] = 0
    assert torch.equal(heads.mask(tiny("bert"), [(1, 4), (3, 2)]), expected)


test_what_cannot_be_is_said = refuses(
    *(
        (call, "")
        for call in (
            lambda: heads.top(SCORES, 7),
            lambda: heads.top(SCORES * torch.nan, 1),
            lambda: heads.bottom(SCORES / 0, 1),
            lambda: heads.random(SCORES, -1),
            lambda: heads.mask(tiny("bert"), [(0, 1)]),
            lambda: heads.mask(tiny("bert"), [(1, 5)]),
            lambda: heads.sets_and_contexts("age", heads.Sample("mini", 1)),
            lambda: heads.associations(tiny("bert"), SETS, {"she": ["she"]}),
        )
    )
)


def test_the_sets_are_the_papers_fewer_are_a_part_of_them_and_another_question():
    gender, race = heads.gender_sets(), heads.race_sets()
    assert [len(side) for side in gender + race] == [82, 84, 202, 207, 5, 6, 3, 3]
    firsts = ("beautiful", "soldier", "she", "he"), ("criminal", "manager", "black", "white")
    assert all(
        word in side
        for sets, words in zip((gender, race), firsts)
        for word, side in zip(words, sets)
    )
    assert not set(gender.X + gender.Y) & set(gender.A + gender.B)
    assert [len(side) for side in heads.gender_sets(every=111)] == [1, 1, 2, 2]
    whole, _ = heads.sets_and_contexts("race", heads.Sample("mini", 1))
    few, _ = heads.sets_and_contexts("race", heads.Sample("mini", 1, items=12))
    assert few == tuple(side[:3] for side in whole)
    thin = heads.gender_sets(attributes=4)
    assert (
        (thin.X, thin.Y) == (gender.X, gender.Y)
        and set(thin.A) < set(gender.A)
        and len(thin.A) < 60
    )
    assert heads.gender_sets(2, 2).A == heads.gender_sets(4).A == thin.A
    run = SimpleNamespace(
        data="paper",
        stand_ins=True,
        seed=0,
        sizes=SimpleNamespace(
            heads_contexts=100,
            heads_race_contexts=50,
            heads_folds=10,
            heads_attributes={"paper": 1},
            items=0,
        ),
    )
    sample = heads.Sample("paper", contexts=50, folds=10, seed=0, items=0, attributes=1)
    assert heads.arguments(run, "bert-base", "race") == ("bert-base", "race", sample)
    run.sizes.items = 8
    run.sizes.heads_attributes["paper"] = 2  # of gender alone: race has three pairs
    sample = heads.Sample("paper", contexts=100, folds=10, seed=0, items=8, attributes=2)
    assert heads.arguments(run, "gpt2", "gender") == ("gpt2", "gender", sample)
    sample = heads.Sample("paper", contexts=50, folds=10, seed=0, items=8, attributes=1)
    assert heads.arguments(run, "gpt2", "race") == ("gpt2", "race", sample)


def test_some_heads_are_switched_off_as_all_are_also_where_memory_runs_out_half_way(monkeypatch):
    model = tiny("bert", dtype=torch.float64)
    chosen, s = heads.without_each(model, SETS, CONTEXTS, 3)
    assert {layer for layer, _ in chosen} == {1, 2, 3} and len(chosen) == len(s) - 1 == 4
    every, plain = heads.without_each(model, SETS, CONTEXTS)
    torch.testing.assert_close(s, plain[[0, *(1 + every.index(head) for head in chosen)]])
    torch.testing.assert_close(s[0], heads.bias_scores(model, SETS, CONTEXTS).s)
    s, in_x = heads.associations(model, SETS, CONTEXTS)
    assert in_x.tolist() == [True, True, False, False, False]
    by_hand = (s[in_x].mean() - s[~in_x].mean()) / s.std(ddof=1)
    assert by_hand == pytest.approx(heads.bias_scores(model, SETS, CONTEXTS).seat)
    assert masking.seat_of(s, in_x) == pytest.approx(abs(by_hand))
    pool, calls = embed.pool, []

    def tight(*args):
        calls.append(1)
        if len(calls) == 5:
            raise torch.OutOfMemoryError
        return pool(*args)

    monkeypatch.setattr(embed, "pool", tight)
    torch.testing.assert_close(heads.without_each(model, SETS, CONTEXTS)[1], plain)


RANKED = np.array(
    [[0.5, -0.1, 0.3, -0.2], [0.1, 0.2, -0.3, -0.4], [0.05, 0.04, -0.05, 0.4]]
)  # 7 positive
RESULT = {
    "scores": RANKED,
    "folds": np.stack([RANKED, -RANKED, RANKED, -RANKED]),
}  # the two halves contradict


def test_a_plan_has_table_1s_strategies_with_random_heads_beside_each_size():
    plan = masking.plan(RESULT, draws=4, curve=[2, 5, 50], amplify=[2])
    assert masking.sizes(RANKED) == (3, 7, 4)  # a share of 45 of 144 heads
    assert Counter((s, len(chosen)) for s, _, _, chosen, _ in plan) == {
        ("full", 0): 2,
        **{("top", k): 2 for k in (3, 4, 5, 7)},
        ("bottom", 3): 2,
        ("amplified", 3): 2,
        **{("random", k): 4 for k in (3, 4, 5, 7)},
        ("random amplified", 3): 4,
    }
    drawn = {(len(chosen), draw): chosen for s, draw, _, chosen, _ in plan if s == "random"}
    assert len({tuple(drawn[3, draw]) for draw in range(4)}) == 4
    assert all(
        drawn[7, draw][:3] == drawn[3, draw] for draw in range(4)
    )  # of one draw they contain each other
    more = masking.plan(RESULT, draws=4, curve=[2, 5, 50], amplify=[2], draws_of_three=9)
    assert [step for step in more if step in plan] == plan  # a plan that grows keeps its masks
    assert Counter(len(chosen) for s, *_, chosen, _ in more if s == "random") == {
        3: 9,
        4: 4,
        5: 4,
        7: 4,
    }
    falls = np.stack([RANKED, -RANKED])
    with_patched = masking.plan(RESULT, draws=4, curve=[2, 5, 50], amplify=[2], falls=falls)
    assert with_patched[: len(plan)] == plan
    assert with_patched[len(plan) :] == [  # chosen on the other half
        masking.Step("patched", 0, 0.0, heads.top(-RANKED, 3), 0),
        masking.Step("patched", 0, 0.0, heads.top(RANKED, 3), 1),
    ]
    for few in (-np.abs(RANKED), RANKED[:1, :2]):  # no positive head; fewer than three heads
        sizes = {
            len(chosen)
            for strategy, *_, chosen, _ in masking.plan(RESULT | {"scores": few}, draws=1)
            if strategy == "random"
        }
        assert min(sizes) == min(3, few.size)
    plan = masking.plan(RESULT, draws=1)
    by_half = {half: chosen for s, _, _, chosen, half in plan if s == "top" and len(chosen) == 3}
    assert by_half == {1: heads.top(RANKED, 3), 0: heads.top(-RANKED, 3)}
    sentences = {"nurse": [f"s{i}" for i in range(10)]}
    assert masking.sentences_of(0, sentences, 10, 9)["nurse"] == ["s0", "s2", "s4", "s6", "s8"]
    assert masking.sentences_of(1, sentences, 3, 2)["nurse"] == [
        "s1",
        "s4",
    ]  # as three folds deal them out


@pytest.fixture
def encoder(tmp_path, monkeypatch):
    sets = heads.Sets(("nurse", "poetry"), ("doctor", "engineer"), ("she", "woman"), ("he", "man"))
    words = {word: [f"the {word} was late .", f"the {word} was here ."] for word in sets.words}
    monkeypatch.setattr(heads, "sets_and_contexts", lambda *given, **options: (sets, words))
    monkeypatch.setattr(data, "demo", lambda name: [text for text in dict.fromkeys(SENTENCES)])
    asked = [
        {"sentence": f"the {who} said that {{}} was here .", "right": right, "wrong": wrong}
        for who, right, wrong in (("woman", "she", "he"), ("man", "he", "she"))
    ]
    monkeypatch.setattr(data, "rows", lambda *_: asked)
    save_tiny("bert", tmp_path)
    return (
        str(tmp_path),
        sets,
        [{word: [both[half]] for word, both in words.items()} for half in (0, 1)],
    )


PLAN = [
    masking.Step("full", 0, 0.0, [], 0),
    masking.Step("full", 0, 0.0, [], 1),
    masking.Step("top", 0, 0.0, [(1, 1)], 0),
    masking.Step("top", 0, 0.0, [(1, 1), (2, 2)], 1),
    masking.Step("random", 0, 0.0, [(2, 4)], 0),
    masking.Step("amplified", 0, 2.0, [(3, 2)], 1),
]
SAMPLE = heads.Sample("mini", contexts=2, folds=2)
SHORT = masking.Workload(sentences=1, lines=2, sampled_lines=0)


def test_random_heads_read_a_sample_and_seat_is_of_the_judging_half(encoder):
    name, sets, words = encoder
    workload = masking.Workload(sentences=1, lines=3, sampled_lines=2)
    found = masking.measure(name, PLAN, SAMPLE, workload, device="cpu")
    assert {name: len(values) for name, values in found.items()} == dict.fromkeys(found, len(PLAN))
    assert list(np.isnan(found["pppl"])) == [False, True, False, False, True, True]
    assert list((found["lengths"] > 0).sum(1)) == [3, 2, 3, 3, 2, 2]
    prose = data.demo("prose")
    texts = [prose[0], prose[len(prose) // 2 - 1], prose[-1]]  # evenly spaced
    model = models.load(name, device="cpu")
    with hooks.head_mask(model, heads.mask(model, [(1, 1), (2, 2)])):
        sample = pppl.pseudo_perplexity(model, [texts[0], texts[2]]).value
        size = masking.seat_of(*heads.associations(model, sets, words[1]))
        facts = factual.log_odds(model, file=factual.FILE_200)
    under_masks = masking.measure_facts(name, PLAN, device="cpu")["facts"]
    assert len(under_masks) == len(PLAN) and len(facts) == 2
    np.testing.assert_allclose(under_masks[3], facts, atol=1e-4)
    assert np.abs(under_masks[0] - under_masks[3]).max() > 1e-4
    assert found["pppl_sample"][3] == pytest.approx(sample, rel=1e-4)
    assert found["seat"][3] == pytest.approx(size, abs=1e-5)
    assert found["seat"][0] != pytest.approx(found["seat"][1], abs=1e-5)
    with hooks.head_mask(model, 2 - heads.mask(model, [(3, 2)])):  # twice as loud
        size = masking.seat_of(*heads.associations(model, sets, words[1]))
    assert found["seat"][5] == pytest.approx(size, abs=1e-5)
    given = name, PLAN[2:4], SAMPLE, SHORT, "cpu"
    full = masking.measure(*given)
    quick = masking.measure(*given, precision="bfloat16")
    assert 0 < np.abs(quick["pppl"] / full["pppl"] - 1).max() < 0.1
    np.testing.assert_allclose(quick["seat"], full["seat"], rtol=1e-4)
    refusal(masking.measure, *given, precision="int8")
