"""LEACE: by hand, by its properties, and beside the package of its authors.

In the networks each eraser is compared with whole forwards under hooks.
"""

import concept_erasure
import numpy as np
import pandas as pd
import pytest
import torch

from companion import results
from companion.projective import leace_tables, tables
from lib.engine import batches, hooks, models, nsp
from lib.projective import leace, nli, projection, triples
from lib.projective.leace import LEACE, METHODS, ORTHOGONAL
from lib.projective.projection import BASE, Cut, Level, Setting
from lib.text import factual, pairs as sentence_pairs
from tests.test_projection import NEXT, PAIRS, TEXTS, classifier, whole
from tests.tiny import refusal, tiny

CLASSES = 3


def example(n=200, width=6, classes=2, seed=0):
    """Correlated representations [n, width] whose means depend on a class, and the classes."""
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(width, width))
    means = 2 * rng.normal(size=(classes, width))
    labels = np.arange(n) % classes
    states = rng.normal(size=(n, width)) @ mixing + means[labels] + rng.normal(size=width)
    return torch.tensor(states), labels


def concepts(shrink=True):
    """Two classes by a label each, and three by a column each, under both methods."""
    cases = []
    for method in METHODS:
        states, labels = example()
        cases.append((states, labels, leace.estimate(states, labels, method, shrink)))
        states, labels = example(classes=CLASSES)
        one_hot = np.eye(CLASSES)[labels]
        cases.append((states, labels, leace.estimate(states, one_hot, method, shrink)))
    return cases


def class_means(states, labels):
    return torch.stack([states[labels == label].mean(0) for label in np.unique(labels)])


# ---- the method
def test_four_points_by_hand():
    """Sigma_XX is [[2, 1], [1, 1]], its inverse [[1, -1], [-1, 2]], and the means differ in x.

    So r(x, y) = (y, y) around the mean: both classes become the same two points. The orthogonal
    variant makes x the mean's, which is twice as far.
    """
    mean = torch.tensor([3.0, 5.0])
    states = torch.tensor([[2.0, 1], [0, -1], [0, 1], [-2, -1]]) + mean
    labels = [1, 1, 0, 0]
    oblique = leace.estimate(states, labels, shrink=False).eraser
    erased = oblique(states) - mean
    torch.testing.assert_close(erased, torch.tensor([[1.0, 1], [-1, -1], [1, 1], [-1, -1]]))
    assert oblique.read.flatten().abs().tolist() == pytest.approx([1, 1])
    assert oblique.basis.flatten().abs().tolist() == pytest.approx([1, 0])
    orthogonal = leace.estimate(states, labels, ORTHOGONAL, shrink=False).eraser
    erased = orthogonal(states) - mean
    torch.testing.assert_close(erased, torch.tensor([[0.0, 1], [0, -1], [0, 1], [0, -1]]))
    assert changed(oblique, states) == pytest.approx(1)
    assert changed(orthogonal, states) == pytest.approx(2)


def changed(eraser, states) -> float:
    """The mean square of how far the representations are moved."""
    return (eraser(states) - states).square().sum(-1).mean().item()


@pytest.mark.parametrize("shrink", [False, True])
def test_the_formula_of_the_paper(shrink):
    """r(x) = x - W^+ P W (x - mean), with the matrices written out."""
    for states, _, concept in concepts(shrink):
        whitening = np.eye(len(concept.mean))
        if concept.method == LEACE:
            values, vectors = np.linalg.eigh(concept.covariance)
            whitening = vectors @ np.diag(values**-0.5) @ vectors.T
        left, size, _ = np.linalg.svd(whitening @ concept.directions, full_matrices=False)
        columns = left[:, size > 1e-9]
        matrix = np.linalg.pinv(whitening) @ columns @ columns.T @ whitening
        expected = states - (states - states.mean(0)) @ torch.tensor(matrix).T
        torch.testing.assert_close(concept.eraser(states), expected, atol=1e-9, rtol=0)


@pytest.mark.parametrize("shrink", [False, True])
def test_what_is_erased_is_gone_whatever_the_covariance(shrink):
    for states, labels, concept in concepts(shrink):
        erased = concept.eraser(states)
        means = class_means(erased, labels)
        torch.testing.assert_close(means, means[:1].expand_as(means), atol=1e-5, rtol=0)
        assert class_means(states, labels).std(0).max() > 0.5
        one_hot = torch.tensor(np.eye(labels.max() + 1)[labels])
        covariance = (erased - erased.mean(0)).T @ (one_hot - one_hot.mean(0)) / len(erased)
        assert covariance.abs().max() < 1e-9
        # no linear probe is better than the mean label
        design = torch.column_stack([erased, torch.ones(len(erased))])
        weights = torch.linalg.lstsq(design, one_hot).solution
        torch.testing.assert_close(design @ weights, one_hot.mean(0).expand_as(one_hot))
        # erased again, nothing changes; the mean stays; it is moved within Sigma_XZ alone
        torch.testing.assert_close(concept.eraser(erased), erased)
        torch.testing.assert_close(erased.mean(0), states.mean(0))
        basis = concept.eraser.basis
        assert len(basis) == labels.max()  # one direction fewer than there are classes
        moved = erased - states
        torch.testing.assert_close(moved @ basis.T @ basis, moved)
        directions = torch.tensor(concept.directions)
        torch.testing.assert_close(basis.T @ (basis @ directions), directions)


def test_leace_changes_least():
    """Less than the orthogonal variant, and than others that erase the same by other readings."""
    states, labels = example()
    oblique = leace.estimate(states, labels, shrink=False).eraser
    orthogonal = leace.estimate(states, labels, ORTHOGONAL, shrink=False).eraser
    least = changed(oblique, states)
    assert least < 0.9 * changed(orthogonal, states)
    basis = oblique.basis
    rng = torch.Generator().manual_seed(0)
    for size in (0.01, 0.1, 1.0):
        other = torch.randn(basis.shape, generator=rng, dtype=torch.double)
        aside = size * (other - (other @ basis.T) @ basis)
        near = leace.Eraser(basis=basis, read=oblique.read + aside, mean=oblique.mean)
        means = class_means(near(states), labels)
        torch.testing.assert_close(means[0], means[1])
        assert changed(near, states) > least


def test_shrinkage_serves_where_there_are_fewer_rows_than_numbers_in_each():
    """Fitted on 30 rows of 40 numbers and judged on others: gender is nearly gone, little else."""
    states, labels = example(n=430, width=40)
    fitted, others = states[:30], states[30:]
    few = leace.estimate(fitted, labels[:30]).eraser
    means = class_means(few(fitted), labels[:30])
    torch.testing.assert_close(means[0], means[1], atol=1e-5, rtol=0)
    unshrunk = leace.estimate(fitted, labels[:30], shrink=False).eraser
    means = class_means(unshrunk(fitted), labels[:30])
    torch.testing.assert_close(means[0], means[1], atol=1e-5, rtol=0)
    assert changed(few, others) < changed(unshrunk, others)


def test_a_weight_erases_that_share():
    states, labels = example()
    eraser = leace.estimate(states, labels).eraser
    half = leace.Eraser(basis=eraser.basis, weight=0.5, read=eraser.read, mean=eraser.mean)
    torch.testing.assert_close(half(states), (states + eraser(states)) / 2)


def test_where_the_means_are_equal_nothing_is_erased():
    states, labels = example()
    erased = leace.estimate(states, labels).eraser(states)
    for method in METHODS:
        again = leace.estimate(erased, labels, method).eraser
        assert len(again.basis) == 0
        assert torch.equal(again(states), states)


# ---- the authors' package
@pytest.mark.parametrize("classes", [2, CLASSES])
def test_without_shrinkage_it_is_the_authors_eraser(classes):
    """Theirs without the guard on the trace of the covariance, which departs from the paper."""
    states, labels = example(classes=classes)
    one_hot = np.eye(classes)[labels]
    for method, name in {LEACE: "leace", ORTHOGONAL: "orth"}.items():
        theirs = concept_erasure.LeaceEraser.fit(
            states,
            torch.tensor(one_hot),
            method=name,
            shrinkage=False,
            constrain_cov_trace=False,
        )
        ours = leace.estimate(states, one_hot, method, shrink=False).eraser
        torch.testing.assert_close(ours(states), theirs(states), atol=1e-4, rtol=0)


@pytest.mark.parametrize("n, tolerance", [(2_000, 0.005), (200, 0.01), (60, 0.03)])
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
    apart = (ours(states) - theirs(states)).square().sum(-1).mean().sqrt()
    assert apart < tolerance * changed(ours, states) ** 0.5
    # theirs leaves the classes' means equal too
    means = class_means(theirs(states), labels)
    torch.testing.assert_close(means[0], means[1], atol=1e-5, rtol=0)


# ---- in a network
@pytest.mark.parametrize("level", leace.SETTINGS)
@pytest.mark.parametrize("method", METHODS)
def test_at_every_place_of_a_level_the_means_of_the_contexts_are_equal(level, method):
    """In whole forwards under hooks, text by text: each eraser is fitted on what it meets."""
    model = tiny("bert")
    erasers = leace.fit(model, PAIRS)[method]
    setting = leace.SETTINGS[level]
    places = {"tokens": "layer.1", "cls": "layer.2", "sent": "pooler"}
    for part, place in places.items():
        if not getattr(setting, part):
            continue
        apart = []
        for interventions in ({}, erasers.interventions(setting)):
            means = []
            for texts in zip(*PAIRS):
                rows = []
                for text in texts:
                    batch = model.tokenizer([text], return_tensors="pt")
                    with (
                        torch.inference_mode(),
                        hooks.project(model, interventions),
                        hooks.record(model, [place]) as seen,
                    ):
                        model.net.base_model(**batch)
                    found = seen[place][0].double()
                    rows.append(found[:1] if part == "cls" else torch.atleast_2d(found))
                means.append(torch.cat(rows).mean(0))
            apart.append((means[0] - means[1]).abs().max().item())
        before, after = apart
        assert before > 0.01
        assert after < 1e-5


@pytest.mark.parametrize(
    "make, family",
    [(tiny, "bert"), (classifier, "roberta"), (classifier, "albert"), (classifier, "distilbert")],
)
def test_each_model_is_what_a_whole_forward_gives(make, family):
    model = make(family)
    fitted = leace.fit(model, PAIRS)
    encoded = batches.encode(model, TEXTS, NEXT)
    head = projection.head(model)
    (found,) = leace.swept(model, [fitted], encoded, head)
    assert found.shape == (len(leace.NAMES), len(TEXTS), 2)
    base = whole(model, fitted[LEACE], BASE, encoded, head)
    np.testing.assert_allclose(found[0], base.softmax(-1), atol=1e-5)
    for (method, level), answers in zip(leace.MODELS, found[1:]):
        expected = whole(model, fitted[method], leace.SETTINGS[level], encoded, head)
        np.testing.assert_allclose(answers, expected.softmax(-1), atol=1e-5)
        assert np.abs(answers - found[0]).max() > 1e-4


def test_without_a_pooler_nothing_is_left_to_erase_at_sent():
    """There cls and sent are one vector: what acts second finds the means equal."""
    for erasers in leace.fit(classifier("distilbert"), PAIRS).values():
        for setting in (leace.SETTINGS[Level.LAYER_12], leace.SETTINGS[Level.LAYER_11]):
            assert len(erasers.of("cls", setting).eraser.basis) == 1
            assert len(erasers.of("sent", setting).eraser.basis) == 0


def test_random_directions_have_the_rank_mean_and_covariance_of_fitted_ones():
    fitted = leace.fit(tiny("bert"), PAIRS)
    for method in METHODS:
        first, again = [leace.random(fitted[method], 0) for _ in range(2)]
        other = leace.random(fitted[method], 1)
        for key, concept in first.parts.items():
            mine = fitted[method].parts[key]
            assert concept.method == method
            assert concept.mean is mine.mean
            assert concept.covariance is mine.covariance
            assert concept.eraser.basis.shape == mine.eraser.basis.shape
            assert torch.equal(concept.eraser.basis, again.parts[key].eraser.basis)
            assert not torch.allclose(concept.eraser.basis, other.parts[key].eraser.basis)
    both = leace.random_arms(fitted, draws=2)
    key = ("sent", BASE)
    basis = other.parts[key].eraser.basis
    assert torch.equal(both[1][ORTHOGONAL].parts[key].eraser.basis, basis)


def test_random_concepts_are_directions_of_the_representations_spread():
    """As random labels give them: those of much variance are drawn more, and move x further."""
    states, labels = example(n=4_000, width=3)
    states = states * torch.tensor([10.0, 1, 0.1])
    concept = leace.estimate(states, labels)
    fitted = projection.Subspaces({("sent", BASE): concept}, 3)
    drawn = {}
    for spread in (False, True):
        found = [leace.random(fitted, seed, spread).of("sent") for seed in range(1_000)]
        assert len({tuple(one.directions.flat) for one in found}) == 1_000
        drawn[spread] = np.hstack([one.directions for one in found])
        moves = [changed(one.eraser, states) for one in found[:50]]
        drawn[spread, "moved"] = np.mean(moves)
    size = np.abs(concept.covariance).max()
    np.testing.assert_allclose(np.cov(drawn[True]), concept.covariance, atol=0.15 * size)
    np.testing.assert_allclose(np.cov(drawn[False]), np.eye(3), atol=0.15)
    assert drawn[True, "moved"] > 3 * drawn[False, "moved"]


def test_the_contexts_are_many_and_those_of_the_triples_are_not_among_them():
    many = leace.many_contexts()
    assert len(many) == len(set(many)) > 900
    assert all(female != male for female, male in many)
    assert not set(many) & set(sentence_pairs.contexts())
    assert set(sentence_pairs.written()) < set(many)
    words = [set(female.lower().split()) ^ set(male.lower().split()) for female, male in many]
    assert np.mean([len(differing) == 2 for differing in words]) > 0.9  # one word for one
    assert leace.many_contexts(items=10) == many[:10]


def test_the_triples_own_texts_are_paired_by_gender():
    rows = triples.triples("mini")
    rows = rows[rows["context_id"].isin([0, 1])].reset_index(drop=True)
    pairs = leace.of_triples(rows)
    assert len(pairs) == 6
    for female, male in pairs:
        assert "aunt" in female[0]
        assert "uncle" in male[0]
    unchanged = rows.assign(
        gender_swapped_context=rows["context"], gender_swapped_next_sentence=rows["next_sentence"]
    )
    assert leace.of_triples(unchanged) == []


def test_the_measurement_has_the_form_of_projections_and_each_number_in_its_place(monkeypatch):
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
    monkeypatch.setattr(sentence_pairs, "written", lambda: PAIRS[:3])
    measured = leace.measure("tiny", "mini", draws=1)
    assert measured["fits"] == [leace.MANY, projection.WRITTEN, leace.TRIPLES]
    for key in ("s", "d", "accuracy"):
        assert measured[key].shape == (3, len(leace.NAMES), 3)
        assert measured["random"][key].shape == (1, len(leace.NAMES), 3)
        assert measured["random_concepts"][key].shape == (1, len(leace.NAMES), 3)
        # base is the same under every fit
        np.testing.assert_array_equal(measured[key][0, 0], measured[key][1, 0])
    setting = leace.SETTINGS[Level.LAYER_11]
    fitted = leace.fit(model, PAIRS[:3])[ORTHOGONAL]
    many = leace.fit(model, PAIRS)[LEACE]
    directions = leace.random(many, 0)
    concepts = leace.random(many, 0, spread=True)
    of_leace = leace.NAMES.index("LEACE, Layer 11")
    for erasers, found, at in (
        (fitted, measured, (1, leace.NAMES.index("orthogonal, Layer 11"))),
        (directions, measured["random"], (0, of_leace)),
        (concepts, measured["random_concepts"], (0, of_leace)),
    ):
        with hooks.project(model, erasers.interventions(setting)):
            frame = triples.frame(rows, nsp.is_next(model, triples.pairs(rows)))
        np.testing.assert_allclose(found["s"][at], nsp.strengths(frame), atol=1e-5)
        np.testing.assert_allclose(found["d"][at], nsp.distances(frame), atol=1e-5)
        np.testing.assert_allclose(found["accuracy"][at], nsp.right(frame))
    left = measured["left"]
    assert (left.loc[leace.TRIPLES] < 1e-4).all(axis=None)
    assert (left.loc[leace.MANY] > 1e-3).all(axis=None)
    assert list(measured["triples"]) == [0, 2, 5]
    kept = measured["facts"]
    assert kept["Base"] == pytest.approx(facts(model))
    with hooks.project(model, many.interventions(setting)):
        assert kept[LEACE][0] == pytest.approx(facts(model))
    with hooks.project(model, concepts.interventions(setting)):
        assert kept["LEACE, random concepts"][0] == pytest.approx(facts(model))
    assert kept[LEACE][0] != pytest.approx(kept["Base"])


def facts(model):
    """In place of factual.log_odds, whose words a tiny vocabulary does not hold: four numbers of
    the hidden states that words meet.
    """
    with torch.inference_mode():
        batch = batches.encode(model, ["ab"])[0]
        ids = torch.tensor([batch["input_ids"]])
        return model.net.base_model(ids).last_hidden_state[0, 1, :4].numpy()


def test_the_table_of_factual_gender_by_hand():
    """Two pairs of sentences, base right in three of four; erasers take odds of 1 off, or 3."""
    before = np.array([2.0, 2.0, 2.0, -2.0])
    found = {"Base": before}
    for method in METHODS:
        found[method] = before[None] - 3
        found[f"{method}, random concepts"] = np.array([before - 1, before + 1])
    table = leace_tables.kept_facts(found, draws=50)
    assert list(table["directions"]) == ["gender", "random concepts"] * 2
    own, random = table.iloc[0], table.iloc[1]
    assert (own["right"].value, own["change"]) == (0, -0.75)
    assert tuple(own["change of log odds"]) == (-3, -3, -3)
    assert (random["right"].value, random["change"]) == (0.75, 0)
    assert random["change of log odds"].value == 0


# ---- tables
def made_up(fits=2, draws=3, pairs=20, seed=0):
    """What leace.measure returns, drawn at random; the base model is the same everywhere."""
    rng = np.random.default_rng(seed)
    found = {}
    for key in ("s", "d", "accuracy"):
        values = rng.random((fits + draws, len(leace.NAMES), pairs))
        values[:, 0] = values[0, 0]
        found[key] = values
    random = {key: values[fits:] for key, values in found.items()}
    concepts = {key: values[fits:] / 2 for key, values in found.items()}
    fitted = {key: values[:fits] for key, values in found.items()}
    names = {"fits": [leace.MANY, projection.WRITTEN]}
    return names | {"random": random, "random_concepts": concepts, **fitted}


def test_the_tables_rows_stand_below_those_of_the_76():
    measured = made_up()
    table = leace_tables.by_model(measured, projection.WRITTEN)
    assert list(table.index) == leace.NAMES
    assert list(table.columns) == ["level", "settings", "np", "S", "D", "accuracy"]
    row = table.loc["orthogonal, Layer 12"]
    assert (row["level"], row["settings"]) == (Level.LAYER_12, ORTHOGONAL)
    assert row["S"] == pytest.approx(nsp.top_mean(measured["s"][1, 5]))
    assert row["D"] == pytest.approx(nsp.top_mean(measured["d"][1, 5]))
    assert row["accuracy"] == pytest.approx(measured["accuracy"][1, 5].mean())
    of_76 = tables.ABOUT.assign(S=0.0, D=0.0, accuracy=0.0)
    assert len(pd.concat([of_76, table.iloc[1:]])) == 76 + 6


@pytest.mark.parametrize("control", ["random", "random_concepts"])
def test_changes_are_against_base_and_against_random_erasers(control):
    measured = made_up()
    found = leace_tables.changes(measured, control=control, draws=50)
    assert list(found) == ["S", "D"]
    assert list(found["D"]) == leace.NAMES
    change = found["D"]["LEACE, Layer 11"]
    value = nsp.top_mean(measured["d"][0, 3])
    base = nsp.top_mean(measured["d"][0, 0])
    random = np.mean([nsp.top_mean(values[3]) for values in measured[control]["d"]])
    expected = [value, base - value, base - random, random - value]
    assert [estimate.value for estimate in change.estimates] == pytest.approx(expected)
    assert change.judged.low < value < change.judged.high
    assert found["S"]["Base"].change.value == 0


def test_the_measurement_on_a_saved_classifier(tmp_path, monkeypatch):
    """Base as nli.probabilities gives it, each eraser as whole forwards under hooks do."""
    order = ["contradiction", "entailment", "neutral"]
    model = classifier("bert", order, max_position_embeddings=256)
    model.net.save_pretrained(tmp_path)
    model.tokenizer.model_max_length = 256
    model.tokenizer.save_pretrained(tmp_path)
    monkeypatch.setattr(leace, "many_contexts", lambda data, items: PAIRS)
    few = nli.PairSet(contexts=1)
    measured = leace.measure_nli(str(tmp_path), "mini", few, draws=1, items=8)
    assert measured["fits"] == [nli.PAIRS, leace.MANY]
    pairs = nli.pairs(contexts=1, items=8)
    assert nli.asked(measured).equals(pairs)
    model = models.load(str(tmp_path), task="sequence-classification")
    task = nli.task_pairs("mini", items=8)
    setting = leace.SETTINGS[Level.LAYER_12]
    at = leace.NAMES.index("LEACE, Layer 12")
    many = leace.fit(model, PAIRS)[LEACE]
    own = leace.fit(model, nli.fitting_pairs())[LEACE]
    with hooks.project(model, many.interventions(setting)):
        expected = nli.probabilities(model, pairs)
        right = nli.predictions(nli.probabilities(model, task), order) == task["label"].to_numpy(
            str
        )
    np.testing.assert_allclose(measured["probabilities"][1, at], expected, atol=1e-5)
    np.testing.assert_array_equal(measured["right"][1, at], right)
    base = nli.probabilities(model, pairs)
    np.testing.assert_allclose(measured["probabilities"][0, 0], base, atol=1e-5)
    assert (expected - base).abs().max() > 1e-3
    for spread, key in enumerate(["random", "random_concepts"]):
        drawn = leace.random(own, 0, spread=bool(spread))
        with hooks.project(model, drawn.interventions(setting)):
            neutral, agree = nli.fairness(nli.probabilities(model, pairs), pairs, order)
        np.testing.assert_array_equal(measured[key]["neutral"][0, at], neutral)
        np.testing.assert_array_equal(measured[key]["agree"][0, at], agree)
        assert measured[key]["right"].shape == (1, len(leace.NAMES))
    table = leace_tables.scores(measured, leace.MANY, draws=20)
    assert list(table.index) == leace.NAMES
    neutral, agree = nli.fairness(expected, pairs, order)
    row = table.loc["LEACE, Layer 12"]
    assert row["eta"] == pytest.approx(neutral.mean() * (agree == 1).mean())
    assert row["SNLI"] == pytest.approx(right.mean())


def inferred():
    """What leace.measure_nli returns of two occupations in one context, by hand.

    Base calls three of four pairs neutral and has parity in the first occupation: eta .75 x .5. The
    eraser at SENT calls all neutral: 1. One random choice does nothing, another does the same.
    """
    n_pairs = len(nli.pairs(contexts=1, items=8))
    occupations = n_pairs // 2
    assert occupations >= 3
    neutral = np.ones((len(leace.NAMES), n_pairs), bool)
    neutral[0, 2] = False  # the man of the second occupation
    p = np.where(neutral[..., None], [0.1, 0.8, 0.1], [0.8, 0.1, 0.1])
    right = np.zeros((len(leace.NAMES), 10), bool)
    right[0, :6] = True
    right[1, :4] = True
    about = {"labels": list(nli.LABELS), "variant": nli.MAN_WOMAN, "contexts": 1, "items": 8}
    as_all = np.ones((1, len(leace.NAMES), occupations))
    as_base = as_all.copy()
    as_base[..., 1] = 0.5
    parity = as_all.copy()
    parity[..., 1] = 0
    random = {"neutral": np.concatenate([as_base, as_all])}
    random["agree"] = np.concatenate([parity, as_all])
    found = {"fits": [nli.PAIRS, leace.MANY], "probabilities": np.stack([p, p])}
    found |= {"right": np.stack([right, right]), "random": random}
    return about | found | {"random_concepts": {key: values[:1] for key, values in random.items()}}


def test_fairness_and_its_price_by_hand():
    measured = inferred()
    n = measured["random"]["neutral"].shape[-1]
    base = (n - 0.5) / n * (n - 1) / n
    found = leace_tables.fairness(measured, control="random", draws=50)["LEACE, SENT"]
    expected = [1, 1 - base, (1 - base) / 2, (1 - base) / 2]
    assert [one.value for one in found.estimates] == pytest.approx(expected)
    assert (found.change.n, found.change.unit) == (n, "occupations")
    concepts = leace_tables.fairness(measured, draws=50)["LEACE, SENT"]
    assert [one.value for one in concepts.estimates] == pytest.approx([1, 1 - base, 0, 1 - base])
    price = leace_tables.accuracies(measured)
    assert price["LEACE, SENT"].value == pytest.approx(-0.2)
    assert price["LEACE, SENT"].n == 10 and price["Base"].value == 0


def test_what_is_stored_is_what_was_measured(monkeypatch, tmp_path):
    """Through the file and back, as the notebooks show it; random ones beside their own fit."""
    made = made_up() | {"facts": {}, "left": pd.DataFrame({"fit": ["a"]}).set_index("fit")}
    monkeypatch.setattr(leace, "measure", lambda *args: made)
    monkeypatch.setattr(leace, "measure_nli", lambda *args: inferred())
    row = leace_tables.facts_row("a", "gender", np.ones((2, 4)), np.ones(4), draws=20)
    monkeypatch.setattr(leace_tables, "kept_facts", lambda found: pd.DataFrame([row]))
    bias = leace_tables.of_bias("mini-bert", "mini")
    inference = leace_tables.of_inference("mini-bert-nli", "mini", nli.PairSet(contexts=1))
    results.write(tmp_path / "kept.npz", bias, {})
    assert str(results.read(tmp_path / "kept.npz")[0]) == str(bias)  # as text nan is nan
    assert leace_tables.facts(bias["facts"]).to_dict("records") == [row]
    change = leace_tables.changes(made, control="random")["S"]["LEACE, Layer 11"]
    columns = ["S below base", "S beyond random directions", "accuracy"]
    table = leace_tables.wide(bias["rows"], leace.MANY, columns)
    assert list(table.index) == leace.NAMES
    assert table.loc["LEACE, Layer 11", columns[0]] == change.change
    assert table.loc["LEACE, Layer 11", columns[1]] == change.beyond
    assert table.loc["Base", "accuracy"].value == made["accuracy"][0, 0].mean()
    whats = {row["what"] for row in bias["rows"] if row["fit"] == projection.WRITTEN}
    assert whats == {"S", "S below base", "D", "D below base", "accuracy"}
    every = [(row["fit"], row["model"], row["what"]) for row in inference["rows"]]
    assert len(every) == len(set(every))
    eta = leace_tables.fairness(inferred(), agree="most")["LEACE, SENT"]
    shown = leace_tables.wide(inference["rows"], nli.PAIRS, ["eta, most", "SNLI above base"])
    assert shown.loc["LEACE, SENT", "eta, most"] == eta.judged
    assert shown.loc["LEACE, SENT", "SNLI above base"].value == pytest.approx(-0.2)
    both = leace_tables.by_measure(bias["rows"], leace.MANY, ["S", "D"], "below base")
    assert list(both["measure"]) == ["S"] * 7 + ["D"] * 7
    row = both.iloc[3]
    assert (row.name, row["below base"]) == ("LEACE, Layer 11", change.change)
    assert row["random directions"] == change.random
    assert row["beyond random directions"] == change.beyond
    fits = leace_tables.of_fits(inference["rows"])
    assert list(fits["fitted on"]) == [nli.PAIRS] * 7 + [leace.MANY] * 7
    assert list(fits["viable"][:2]) == ["yes", "no"]  # .6 of base, .4 at SENT
    assert 0 < fits["eta, all beyond random concepts"].iloc[1].value < 1
    assert fits["eta, all beyond random concepts"].iloc[8] is None


# ---- bad input
def test_what_cannot_be_estimated_is_said():
    states, labels = example()
    assert "of one class" in refusal(leace.estimate, states, np.ones(len(states)))
    assert "of one class" in refusal(leace.estimate, states, np.ones((len(states), 2)))
    assert "fewer than two" in refusal(leace.estimate, states[:1], labels[:1])
    assert "fewer than two" in refusal(leace.estimate, states[:0], labels[:0])
    broken = states.clone()
    broken[3, 1] = float("nan")
    assert "nan or infinite" in refusal(leace.estimate, broken, labels)
    assert "nan or infinite" in refusal(leace.estimate, states, np.where(labels, np.nan, 0))
    assert "do not fit labels" in refusal(leace.estimate, states, labels[:-1])
    assert "do not fit labels" in refusal(leace.estimate, states[0], labels[:6])
    assert "LEACE or orthogonal" in refusal(leace.estimate, states, labels, "INLP")


def test_what_cannot_be_fitted_or_measured_is_said(monkeypatch):
    assert "no contexts" in refusal(leace.fit, tiny("bert"), [])
    same = [(female, female) for female, _ in PAIRS]
    for erasers in leace.fit(tiny("bert"), same).values():
        assert len(erasers.of("sent", Setting(sent=Cut(weighted=False))).eraser.basis) == 0
    assert "no sentence vector" in refusal(leace.fit, tiny("gpt2"), PAIRS)
    monkeypatch.setattr(models, "load", lambda name, device=None: tiny("roberta"))
    assert "sequence-classification" in refusal(leace.measure, "roberta")
    assert "python -m training nli make" in refusal(leace.measure_nli, "")
