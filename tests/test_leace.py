"""LEACE: by hand, by its properties, beside the package of its authors, and in networks.

In networks each eraser is compared with whole forwards under hooks.
"""

import concept_erasure
import numpy as np
import pytest
import torch

from lib.engine import batches, hooks, models, nsp
from lib.projective import leace, nli, projection, triples
from lib.projective.projection import Level
from lib.text import factual, pairs as sentence_pairs
from tests.test_projection import NEXT, PAIRS, TEXTS, classifier, saved_classifier, whole
from tests.tiny import refuses, tiny


def example(n=200, width=6, seed=0):
    """Correlated representations [n, width] whose means depend on a class, and the classes."""
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(width, width))
    means = 2 * rng.normal(size=(2, width))
    labels = np.arange(n) % 2
    states = rng.normal(size=(n, width)) @ mixing + means[labels] + rng.normal(size=width)
    return torch.tensor(states), labels


def apart(states, labels) -> float:
    """How far apart the classes' means are."""
    return (states[labels == 1].mean(0) - states[labels == 0].mean(0)).abs().max().item()


def changed(eraser, states) -> float:
    """The mean square of how far the representations are moved."""
    return (eraser(states) - states).square().sum(-1).mean().item()


# ---- the method
def test_four_points_by_hand():
    """The covariance is [[2, 1], [1, 1]], its inverse [[1, -1], [-1, 2]], and the means differ in x.

    So r(x, y) = (y, y) around the mean: both classes become the same two points.
    """
    mean = torch.tensor([3.0, 5.0])
    states = torch.tensor([[2.0, 1], [0, -1], [0, 1], [-2, -1]]) + mean
    eraser = leace.estimate(states, [1, 1, 0, 0], shrink=False).eraser
    expected = torch.tensor([[1.0, 1], [-1, -1], [1, 1], [-1, -1]]) + mean
    torch.testing.assert_close(eraser(states), expected)
    assert eraser.read.flatten().tolist() == pytest.approx([1, -1])
    assert eraser.basis.flatten().tolist() == pytest.approx([1, 0])
    assert changed(eraser, states) == pytest.approx(1)


@pytest.mark.parametrize("shrink", [False, True])
def test_what_is_erased_is_gone_whatever_the_covariance(shrink):
    states, labels = example()
    eraser = leace.estimate(states, labels, shrink).eraser
    erased = eraser(states)
    assert apart(states, labels) > 0.5 and apart(erased, labels) < 1e-9
    # no linear probe is better than the mean label
    design = torch.column_stack([erased, torch.ones(len(erased))])
    target = torch.tensor(labels, dtype=torch.double)
    weights = torch.linalg.lstsq(design, target[:, None]).solution
    torch.testing.assert_close(design @ weights, target.mean().expand(len(target), 1))
    # erased again, nothing changes, and nothing is found to erase; the mean stays
    torch.testing.assert_close(eraser(erased), erased)
    torch.testing.assert_close(erased.mean(0), states.mean(0))
    again = leace.estimate(erased, labels).eraser
    assert len(again.basis) == 0 and torch.equal(again(states), states)


def test_without_shrinkage_it_is_the_authors_eraser():
    """Theirs without the guard on the trace of the covariance, which departs from the paper."""
    states, labels = example()
    theirs = concept_erasure.LeaceEraser.fit(
        states, torch.tensor(labels), shrinkage=False, constrain_cov_trace=False
    )
    ours = leace.estimate(states, labels, shrink=False).eraser
    torch.testing.assert_close(ours(states), theirs(states), atol=1e-4, rtol=0)


@pytest.mark.parametrize("n, tolerance", [(2_000, 0.005), (60, 0.03)])
def test_with_shrinkage_it_is_near_the_authors_eraser(n, tolerance):
    """Both shrink to a multiple of the identity, by a weight that they estimate otherwise.

    Theirs is Bodnar, Gupta and Parolya's (arXiv 1308.2608), ours Ledoit and Wolf's: with more rows
    both go to 0. The tolerance is a share of how far the representations are moved.
    """
    states, labels = example(n=n, width=20)
    theirs = concept_erasure.LeaceEraser.fit(
        states, torch.tensor(labels), constrain_cov_trace=False
    )
    ours = leace.estimate(states, labels).eraser
    off = (ours(states) - theirs(states)).square().sum(-1).mean().sqrt()
    assert off < tolerance * changed(ours, states) ** 0.5


def test_shrinkage_serves_where_there_are_fewer_rows_than_numbers_in_each():
    """Fitted on 30 rows of 40 numbers and judged on others: gender is nearly gone, little else."""
    states, labels = example(n=430, width=40)
    fitted, others = states[:30], states[30:]
    by_shrink = {}
    for shrink in (True, False):
        eraser = leace.estimate(fitted, labels[:30], shrink).eraser
        assert apart(eraser(fitted), labels[:30]) < 1e-5
        by_shrink[shrink] = changed(eraser, others)
    assert by_shrink[True] < by_shrink[False]


# ---- in a network
@pytest.mark.parametrize("level", leace.SETTINGS)
def test_at_every_place_of_a_level_the_means_of_the_contexts_are_equal(level):
    """In whole forwards under hooks, text by text: each eraser is fitted on what it meets."""
    model = tiny("bert")
    setting = leace.SETTINGS[level]
    erasers = leace.fit(model, PAIRS).interventions(setting)
    places = {"tokens": "layer.1", "cls": "layer.2", "sent": "pooler"}
    for part, place in places.items():
        if not getattr(setting, part):
            continue
        assert _apart_at(model, {}, part, place) > 0.01
        assert _apart_at(model, erasers, part, place) < 1e-5


def _apart_at(model, interventions, part, place) -> float:
    """How far apart the mean female and the mean male vector at a place are."""
    means = []
    for texts in zip(*PAIRS):
        rows = []
        for text in texts:
            with (
                torch.inference_mode(),
                hooks.project(model, interventions),
                hooks.record(model, [place]) as seen,
            ):
                model.net.base_model(**model.tokenizer([text], return_tensors="pt"))
            found = seen[place][0].double()
            rows.append(found[:1] if part == "cls" else torch.atleast_2d(found))
        means.append(torch.cat(rows).mean(0))
    return (means[0] - means[1]).abs().max().item()


def test_each_model_is_what_a_whole_forward_gives():
    """Without a pooler: with one the measurement is compared below."""
    model = classifier("distilbert")
    fitted = leace.fit(model, PAIRS)
    encoded = batches.encode(model, TEXTS, NEXT)
    head = projection.head(model)
    found = projection.sweep(model, fitted, leace.MODELS, encoded, head)
    for setting, answers in zip(leace.MODELS, found):
        expected = whole(model, fitted, setting, encoded, head)
        torch.testing.assert_close(answers, expected, atol=1e-5, rtol=0)
    assert (found[1:] - found[0]).abs().amax((1, 2)).min() > 1e-4


def test_without_a_pooler_nothing_is_left_to_erase_at_sent():
    """There cls and sent are one vector: what acts second finds the means equal."""
    erasers = leace.fit(classifier("distilbert"), PAIRS)
    for drawn in (erasers, leace.random(erasers, 0)):
        for level in (Level.LAYER_12, Level.LAYER_11):
            setting = leace.SETTINGS[level]
            assert len(drawn.of("cls", setting).eraser.basis) == 1
            assert len(drawn.of("sent", setting).eraser.basis) == 0


def test_random_concepts_are_directions_of_the_representations_spread():
    """As random labels give them: those of much variance are drawn more."""
    states, labels = example(n=4_000, width=3)
    concept = leace.estimate(states * torch.tensor([10.0, 1, 0.1]), labels)
    fitted = projection.Subspaces({("sent", projection.BASE): concept}, 3)
    found = [leace.random(fitted, seed).of("sent") for seed in range(1_000)]
    drawn = np.array([one.direction for one in found])
    assert len({tuple(direction) for direction in drawn}) == 1_000
    assert found[0].mean is concept.mean and found[0].covariance is concept.covariance
    np.testing.assert_array_equal(leace.random(fitted, 7).of("sent").direction, drawn[7])
    size = np.abs(concept.covariance).max()
    np.testing.assert_allclose(np.cov(drawn.T), concept.covariance, atol=0.15 * size)


def test_the_contexts_are_many_and_those_of_the_triples_are_not_among_them():
    many = leace.many_contexts()
    assert len(many) == len(set(many)) > 900
    assert all(female != male for female, male in many)
    assert not set(many) & set(sentence_pairs.contexts())
    assert set(sentence_pairs.written()) < set(many)
    assert leace.many_contexts(items=10) == many[:10]


# ---- the measurements
def facts(model):
    """In place of factual.log_odds, whose words a tiny vocabulary does not hold: four numbers of
    the hidden states that words meet.
    """
    with torch.inference_mode():
        batch = batches.encode(model, ["ab"])[0]
        ids = torch.tensor([batch["input_ids"]])
        return model.net.base_model(ids).last_hidden_state[0, 1, :4].numpy()


def test_each_number_of_the_measurement_is_in_its_place(monkeypatch):
    model = tiny("bert")
    rows = triples.triples("mini")
    rows = rows[rows["context_id"].isin([2, 0, 5])].reset_index(drop=True)
    whole_pairs = triples.pairs

    def short_pairs(rows):
        """The tiny model reads letters, and has 40 positions."""
        return [(first[:18], second[:18]) for first, second in whole_pairs(rows)]

    monkeypatch.setattr(models, "load", lambda name, device=None: model)
    monkeypatch.setattr(triples, "triples", lambda data, items, part: rows)
    monkeypatch.setattr(factual, "log_odds", lambda model, items, file: facts(model))
    monkeypatch.setattr(triples, "pairs", short_pairs)
    monkeypatch.setattr(leace, "many_contexts", lambda data, items: PAIRS)
    measured = leace.measure("tiny", "mini", draws=1)
    many = leace.fit(model, PAIRS)
    concepts = leace.random(many, 0)
    setting = leace.SETTINGS[Level.LAYER_11]
    for kind, erasers, found in (
        ("gender", many, measured),
        ("random concepts", concepts, measured["random"]),
    ):
        assert found["s"].shape == (1, len(leace.NAMES), 3)
        with hooks.project(model, erasers.interventions(setting)):
            frame = triples.frame(rows, nsp.is_next(model, triples.pairs(rows)))
            assert measured["facts"][kind][0] == pytest.approx(facts(model))
        np.testing.assert_allclose(found["s"][0, 3], nsp.strengths(frame), atol=1e-5)
        np.testing.assert_allclose(found["d"][0, 3], nsp.distances(frame), atol=1e-5)
        np.testing.assert_allclose(found["accuracy"][0, 3], nsp.right(frame))
    assert measured["facts"]["Base"] == pytest.approx(facts(model))


def test_the_measurement_on_a_saved_classifier(tmp_path):
    """Base as nli.probabilities gives it, each eraser as whole forwards under hooks do."""
    order = ["contradiction", "entailment", "neutral"]
    model = saved_classifier(tmp_path, order)
    measured = leace.measure_nli(str(tmp_path), "mini", nli.PairSet(contexts=1), draws=1, items=8)
    pairs = nli.pairs(contexts=1, items=8)
    task = nli.task_pairs("mini", items=8)
    own = leace.fit(model, nli.fitting_pairs())
    setting = leace.SETTINGS[Level.LAYER_12]
    with hooks.project(model, own.interventions(setting)):
        expected = nli.probabilities(model, pairs)
        right = nli.predictions(nli.probabilities(model, task), order)
    np.testing.assert_allclose(measured["probabilities"][0, 2], expected, atol=1e-5)
    np.testing.assert_array_equal(measured["right"][0, 2], right == task["label"].to_numpy(str))
    base = nli.probabilities(model, pairs)
    np.testing.assert_allclose(measured["probabilities"][0, 0], base, atol=1e-5)
    assert (expected - base).abs().max() > 1e-3
    with hooks.project(model, leace.random(own, 0).interventions(setting)):
        neutral, agree = nli.fairness(nli.probabilities(model, pairs), pairs, order)
    np.testing.assert_array_equal(measured["random"]["neutral"][0, 2], neutral)
    np.testing.assert_array_equal(measured["random"]["agree"][0, 2], agree)


STATES, LABELS = example()
test_what_cannot_be_erased_is_said = refuses(
    (lambda: leace.estimate(STATES, np.ones(len(STATES))), "of two classes"),
    (lambda: leace.estimate(STATES, np.where(LABELS, np.nan, 0)), "of two classes"),
    (lambda: leace.estimate(STATES[:0], LABELS[:0]), "of two classes"),
    (lambda: leace.estimate(STATES * np.inf, LABELS), "of finite numbers"),
    (lambda: leace.estimate(STATES, LABELS[:-1]), "do not fit classes"),
    (lambda: leace.estimate(STATES[0], LABELS[:6]), "do not fit classes"),
    (lambda: leace.fit(tiny("bert"), []), "no contexts"),
    (lambda: leace.fit(tiny("gpt2"), PAIRS), "no sentence vector"),
    (lambda: leace.measure_nli(""), "has no classifier"),
)
