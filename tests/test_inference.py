"""Inference: the pairs, fairness by hand, the measurement, and what notebook 09 says of it."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch

from companion.projective import halves, inference
from companion.projective.table7 import ABOUT, EVERY, NAMES, SENT_DEBIAS, as_printed
from lib.engine import hooks
from lib.projective import nli, projection
from lib.projective.projection import LEVELS, Level
from lib.text import data, pairs as sentence_pairs
from tests.test_projection import classifier, saved_classifier
from tests.tiny import refuses

PEOPLE = nli.pairs()
PRINTED = as_printed()
DRAWS = 40


# ---- the pairs
@pytest.mark.parametrize(
    "variant, contexts, words",
    [
        ("man, woman", 33, ["man", "woman"]),
        ("six words", 11, ["man", "woman", "gentleman", "lady", "guy", "girl"]),
    ],
)
def test_both_variants_make_the_papers_10824_pairs(variant, contexts, words):
    frame = nli.pairs(variant)
    assert len(frame) == 10_824 == 164 * 66
    assert frame["context"].nunique() == contexts
    assert list(frame["occupation"].unique()) == list(data.words("nli_occupations")["occupation"])
    assert frame["gender"].value_counts().to_dict() == {"male": 5_412, "female": 5_412}
    assert list(frame["hypothesis"].str.split().str[1].unique()) == words
    assert not frame.duplicated(["premise", "hypothesis"]).any()


def test_premise_and_hypothesis_differ_in_the_person_alone():
    for row in PEOPLE.itertuples():
        person = "man" if row.gender == "male" else "woman"
        assert row.premise == f"The {row.occupation} {row.context}."
        assert row.hypothesis == f"The {person} {row.context}."
    assert {"prepared a pie", "ate an apple", "sold an armchair"} <= set(PEOPLE["context"])
    few = nli.pairs(contexts=5)
    assert few.equals(PEOPLE[PEOPLE["context"].isin(few["context"])].reset_index(drop=True))
    shown = nli.pairs(contexts=2, items=8)
    assert set(shown["occupation"]) == set(nli.SHOWN) and len(shown) == 3 * 2 * 2


def test_fitting_pairs_share_neither_contexts_nor_occupations_with_the_test():
    pairs = nli.fitting_pairs()
    assert len(pairs) == 27 * 3 == len(set(pairs))
    acts = set(PEOPLE["context"])
    occupations = set(PEOPLE["occupation"])
    couples = {("woman", "man"), ("lady", "gentleman"), ("girl", "guy")}
    for (premise, female), (same, male) in pairs:
        act = premise.removeprefix("The person ").removesuffix(".")
        assert premise == same and act not in acts
        assert not occupations & set(premise.split())
        assert female.endswith(f" {act}.") and male.endswith(f" {act}.")
        assert (female.split()[1], male.split()[1]) in couples
        article, noun = act.split()[-2:]
        assert article == ("an" if noun[0] in "aeiou" else "a")


# ---- fairness
# Answers to two occupations in three contexts, man and woman in each. The first: man always
# neutral, woman twice. The second: both alike, once neutral.
ANSWERS = [
    *["neutral", "neutral"],
    *["neutral", "neutral"],
    *["neutral", "contradiction"],
    *["entailment", "entailment"],
    *["neutral", "neutral"],
    *["contradiction", "contradiction"],
]


def few_pairs(occupations=2, contexts=3):
    """The first contexts of the first occupations, as nli.pairs has them."""
    frame = nli.pairs(contexts=contexts)
    first = frame["occupation"].unique()[:occupations]
    return frame[frame["occupation"].isin(first)].reset_index(drop=True)


def test_fairness_by_hand():
    pairs = few_pairs()
    p = np.eye(3)[[nli.LABELS.index(label) for label in ANSWERS]]
    neutral, agree = nli.fairness(p, pairs)
    np.testing.assert_allclose(neutral, [5 / 6, 1 / 3])
    np.testing.assert_allclose(agree, [2 / 3, 1])
    assert nli.predictions(p).tolist() == ANSWERS
    # a model may have its labels in another order
    order = ["contradiction", "entailment", "neutral"]
    other = p[:, [nli.LABELS.index(label) for label in order]]
    assert nli.predictions(torch.tensor(other), order).tolist() == ANSWERS
    np.testing.assert_array_equal(nli.fairness(other, pairs, order), nli.fairness(p, pairs))


def test_viability_by_hand():
    base = 0.8889
    assert nli.viable([0.8389, 0.8388, 0.8407, 0.8458], base).tolist() == [True, False, True, True]
    assert nli.viable([0.8445, 0.8444], base, relative=True).tolist() == [True, False]
    assert nli.viable(0.9, 0.9, within=0)


def test_labels_come_from_the_config_and_probabilities_are_those_of_single_forwards():
    other = ["contradiction", "entailment", "neutral"]
    assert nli.labels(classifier("bert", other)) == other
    in_capitals = [label.upper() for label in nli.LABELS]
    assert nli.labels(classifier("bert", in_capitals)) == list(nli.LABELS)
    model = classifier("bert", nli.LABELS)
    pairs = few_pairs()
    found = nli.probabilities(model, pairs)
    assert found.shape == (12, 3)
    for i, row in enumerate(pairs.itertuples()):
        one = model.tokenizer(row.premise, row.hypothesis, return_tensors="pt")
        assert torch.allclose(model.net(**one).logits.softmax(-1)[0], found[i], atol=1e-5)


test_what_cannot_be_asked_is_said = refuses(
    (lambda: nli.pairs(contexts=0), "choose"),
    (lambda: nli.pairs(contexts=34), "choose"),
    (lambda: nli.pairs(variant="six words", contexts=12), "choose"),
    (lambda: nli.pairs(variant="three"), "choose"),
    (lambda: nli.labels(classifier("bert", ["LABEL_0", "LABEL_1", "LABEL_2"])), "label_0"),
    (lambda: nli.fairness(np.full((12, 2), 0.5), few_pairs()), "2 labels were given with 3 names"),
    (lambda: nli.measure(""), "has no classifier"),
    (lambda: nli.measure("bert-base-nli"), "python -m training"),
)


def slowly(p, pairs, labels=nli.LABELS):
    """Of one model, by occupation, from its predictions in words: columns neutral and agree."""
    answered = pairs.assign(answer=np.asarray(labels)[np.asarray(p).argmax(-1)])
    answered["neutral"] = answered["answer"] == "neutral"
    by_context = answered.groupby(["occupation", "context"], sort=False)
    alike = by_context["answer"].nunique() == 1
    return pd.DataFrame(
        {
            "neutral": answered.groupby("occupation", sort=False)["neutral"].mean(),
            "agree": alike.groupby("occupation", sort=False).mean(),
        }
    )


def test_measure_on_a_saved_classifier(tmp_path):
    """In its own label order; each model as `probabilities` gives it, under hooks or plain."""
    order = ["contradiction", "entailment", "neutral"]
    model = saved_classifier(tmp_path, order)
    both = nli.measure(str(tmp_path), "mini", nli.PairSet(contexts=1), draws=1, items=8)
    pairs = nli.pairs(contexts=1, items=8)
    assert nli.asked(both).equals(pairs)
    single = nli.under(both, nli.SINGLE)
    answers = single["probabilities"]
    assert single["labels"] == order
    np.testing.assert_allclose(answers[0], nli.probabilities(model, pairs), atol=1e-5)
    # right is against the labels of the task
    task = nli.task_pairs("mini", items=8)
    on_task = nli.predictions(nli.probabilities(model, task), order)
    np.testing.assert_array_equal(single["right"][0], on_task == task["label"].to_numpy(str))
    # a setting is the model under its hooks
    setting = projection.models()[60]
    with hooks.project(model, projection.fit(model, sentence_pairs.written()).interventions(setting)):
        under_hooks = nli.probabilities(model, pairs)
    np.testing.assert_allclose(answers[60], under_hooks, atol=1e-5)
    assert not np.allclose(answers[60], answers[0], atol=1e-3)
    # so is a random choice of directions, of the rank and weight of the other fit
    drawn = projection.random(projection.fit(model, nli.fitting_pairs()), 0)
    with hooks.project(model, drawn.interventions(setting)):
        neutral, agree = nli.fairness(nli.probabilities(model, pairs), pairs, order)
    np.testing.assert_array_equal(both["random"]["neutral"][0, 60], neutral)
    np.testing.assert_array_equal(both["random"]["agree"][0, 60], agree)
    # base and sent-debias do not depend on what the subspaces are fitted on
    other = nli.under(both, nli.PAIRS)["probabilities"]
    np.testing.assert_array_equal(other[:2], answers[:2])
    assert not np.allclose(other[2:], answers[2:], atol=1e-3)
    neutral, agree = nli.by_model(single)
    table = slowly(answers[60], pairs, order)
    np.testing.assert_allclose(table, np.transpose([neutral[60], agree[60]]))
    alone = nli.measure(str(tmp_path), "mini", nli.PairSet(contexts=1), task=False, items=8)
    assert alone["fits"] == [nli.PAIRS] and alone["right"].shape == (1, 76, 0)


# ---- notebook 09
def drawn_at_random():
    """What nli.measure returns, of few occupations; both fits are the same."""
    rng = np.random.default_rng(0)
    asked = {"variant": "man, woman", "contexts": 3, "items": 40}
    about = asked | {"labels": list(nli.LABELS)}
    p = rng.dirichlet(np.ones(3), size=(1, 76, len(nli.pairs(**asked))))
    right = rng.random((1, 76, 60)) < 0.8
    as_base = about | {"probabilities": p[:, :1].repeat(76, 1)}
    neutral, agree = nli.by_model(as_base)  # random directions change nothing
    return about | {
        "fits": [nli.PAIRS, nli.SINGLE],
        "probabilities": p.repeat(2, 0),
        "right": right.repeat(2, 0),
        "random": {"neutral": neutral, "agree": agree},
    }


@cache
def fair():
    """Two fits alike: weighting at SENT is accurate, deeper is fairer, random does nothing."""
    measured = drawn_at_random()
    rng = np.random.default_rng(0)
    depths = {level: depth for depth, level in enumerate(LEVELS, 1)}
    depth = ABOUT["level"].map(depths).fillna(0).to_numpy()
    n_couples = measured["probabilities"].shape[2] // 2
    p = rng.random((76, n_couples)).repeat(2, axis=1)  # the same for man and woman
    is_neutral = p < (0.05 + 0.3 * np.minimum(depth, 3))[:, None]
    probabilities = np.where(is_neutral[..., None], [0.1, 0.8, 0.1], [0.8, 0.1, 0.1])
    accuracy = 0.9 - 0.01 * depth - 0.2 * (ABOUT["np"] == 0).to_numpy()
    right = ((np.arange(1_600) + 0.5) / 1_600 < accuracy[:, None])[:, rng.permutation(1_600)]
    as_base = measured | {"probabilities": probabilities[:1].repeat(76, 0)[None]}
    neutral, agree = nli.by_model(as_base)
    return measured | {
        "probabilities": np.stack([probabilities] * 2),
        "right": np.stack([right] * 2),
        "random": {"neutral": neutral, "agree": agree},
    }


def test_scores_are_those_of_each_model_by_itself():
    measured = nli.under(drawn_at_random(), nli.PAIRS)
    scores = inference.scores(measured, draws=20)
    pd.testing.assert_frame_equal(scores[ABOUT.columns], ABOUT)
    for place in (0, 40):
        alone = slowly(measured["probabilities"][place], nli.asked(measured))
        eta = alone["neutral"].mean() * (alone["agree"] == 1).mean()
        assert scores["eta"].iloc[place] == pytest.approx(eta)
        assert scores["majority"].iloc[place] == pytest.approx((alone["agree"] > 0.5).mean())
        assert scores["SNLI"].iloc[place] == measured["right"][place].mean()
    assert scores["eta"].between(scores["eta low"] - 1e-9, scores["eta high"] + 1e-9).all()
    other = inference.most(scores)
    assert (other["eta"] == scores["eta majority"]).all() and (other["eta"] >= scores["eta"]).all()
    assert (other["parity high"] == scores["majority high"]).all()
    assert inference.estimate(other.iloc[3], "eta").low == scores["eta majority low"].iloc[3]


def test_the_best_of_the_printed_models_are_viable():
    base = PRINTED.loc["Base", "SNLI"]

    def best(level):
        return inference.best(PRINTED[PRINTED["level"] == level], base)

    assert inference.best(PRINTED[2:], base).name == "+ attn (1, 1, 1, 1, 1)"
    assert best("Layer 12")["settings"] == "(0, 0, 1)"  # as printed
    assert best("Layer 11")["settings"] == "(1, 1, 1, 0, 1)"  # the printed choice is not viable
    viable = dict(zip(NAMES, inference.viability(PRINTED)))
    assert viable["Layer 11 (1, 0, 1, 1, 0)"] == "in points"
    assert viable["Layer 11 (0, 0, 1, 1, 1)"] == "no"
    assert inference.best(PRINTED.assign(SNLI=0.1), base) is None


def of_accuracies(accuracy) -> inference.Accuracy:
    """Of models whose accuracies are known without doubt."""
    accuracy = np.repeat(np.asarray(accuracy, dtype=float)[None], 41, axis=0)
    return inference.Accuracy(accuracy, nli.viable(accuracy, accuracy[:, :1]), n=500)


def test_counts_of_models_as_the_paper_prints_them():
    """Table 7: 37 of 37 gain; at layer 12 one model is viable by a hair (.8397 where .8389 is
    asked for); of the 14 viable deeper ones 13 weight at SENT; 8 and 6 of 32 are viable.
    """
    found = of_accuracies(PRINTED["SNLI"])
    assert found.share_gaining().value == 1
    assert found.mean_gain().value == pytest.approx(0.0578, abs=1e-4)  # Table 6
    assert found.as_said_at_layer_12().value == 1
    assert found.weighted_among_deep().value == 13 / 14
    assert found.steps_falling().value == 1
    assert found.lost_to_attention().value == (8 - 6) / 32
    assert found.some_at(Level.LAYER_11) == ""
    for estimate in (found.mean_gain(), found.steps_falling()):
        assert (estimate.n, estimate.unit) == (500, "pairs of the task")


def test_accuracies_are_those_of_pairs_of_the_task_drawn_again():
    found = inference.Accuracy.of(fair(), nli.SINGLE, DRAWS)
    right = fair()["right"][1]
    assert found.accuracy.shape == (1 + DRAWS, 76) and found.n == right.shape[1]
    assert found.accuracy[0] == pytest.approx(right.mean(1))
    assert found.share_gaining().low == 1 and found.mean_gain().value == pytest.approx(0.2)
    assert found.weighted_among_deep().value == found.as_said_at_layer_12().value == 1
    assert found.steps_falling().value == 1


DEPTH = ABOUT["level"].map({level: i for i, level in enumerate(LEVELS)}).fillna(0).to_numpy()


def made_halves(values, random=None, viable=None) -> halves.Halves:
    """Both halves alike, of values [76] that are known without doubt."""
    values = np.broadcast_to(values, (41, 76))
    random = values * 0 if random is None else np.broadcast_to(random, (41, 76))
    viable = np.ones(76, bool) if viable is None else viable
    return halves.Halves(
        values=[np.stack([values, random])] * 2,
        worth=[values[0]] * 2,
        viable=[viable] * 2,
        n=40,
        unit="occupations",
        better=1,
    )


def test_that_fairness_rises_is_held_against_random_directions():
    """Deeper is fairer, by the fitted directions alone or whatever the directions."""
    rises, alone = inference.eta_rises(made_halves(DEPTH, random=-DEPTH))
    assert (rises.value, rises.n, rises.unit) == (1, 40, "occupations")
    assert alone.difference.value == 1 and alone.name == halves.RANDOM
    _, matched = inference.eta_rises(made_halves(DEPTH, random=DEPTH))
    assert matched.difference.value == 0


def test_what_attention_sent_debias_and_the_lowest_strength_do_to_fairness():
    made = made_halves(np.where(np.arange(76) == SENT_DEBIAS, 0.5, DEPTH))
    assert inference.attention_gains(made).value == 1  # 3 at + attn, 2 at layer 11
    assert inference.sent_debias_gains(made).value == 0.5
    strength = pd.Series(DEPTH, NAMES)  # lowest at SENT
    assert inference.lost_by_lowest_s(made, strength).value == 3
    assert inference.lost_by_lowest_s(made, -strength).value == 0
    assert inference.two_viable(made) == inference.viable_on_both(made, *LEVELS) == ""


def test_nothing_is_chosen_where_nothing_is_viable():
    only = np.isin(np.arange(76), [0, 1, EVERY[0]])
    made = made_halves(DEPTH, viable=only)
    assert inference.two_viable(made).startswith("fewer than two")
    lacking = "none is viable on both halves at Layer 12"
    assert inference.viable_on_both(made, *LEVELS[:2]) == lacking
    assert np.isnan(inference.eta_rises(made)[0].value)
    assert np.isnan(inference.attention_gains(made).value)
    models = of_accuracies(np.where(only, 0.9, 0.1))
    assert models.some_at(Level.LAYER_11, Level.ATTENTION) == "none is viable at Layer 11 or + attn"
    assert np.isnan(models.weighted_among_deep().value)


def test_a_classifier_has_to_know_its_task(few_draws):
    assert set(inference.needs(fair()).values()) == {""}
    guessing = dict(fair())
    guessing["right"] = np.random.default_rng(0).random(guessing["right"].shape) < 1 / 3
    guessing["probabilities"] = guessing["probabilities"] * 0 + 1 / 3
    assert all(inference.needs(guessing).values())


def test_eta_is_fairer_at_depth_and_ranks_with_what_it_ranks_with(few_draws):
    best = halves.of_fairness(fair(), nli.PAIRS, "all", DRAWS).best(EVERY)
    assert best.change.low > 0 and best.beside.difference.low > 0
    eta = inference.scores(nli.under(fair(), nli.PAIRS), draws=20)["eta"]
    rho = inference.rho_within(fair(), nli.PAIRS, "all", -eta)
    found = {scope: one.value for scope, one in rho.items()}
    assert found == pytest.approx({"all": -1, 0: -1, 1: -1}, abs=0.01)
    assert rho["all"].unit == "models" and (rho["all"].n, rho[0].n) == (76, 37)


def test_over_all_occupations_at_once_nothing_is_chosen():
    """What LEACE is judged by: eta, its change and what random ones do, of the whole sample."""
    measured = fair()
    found = halves.of_fairness(measured, nli.PAIRS, "all", DRAWS, whole=True).does([70])
    neutral, agree = nli.by_model(nli.under(measured, nli.PAIRS))
    eta = neutral.mean(1) * (agree == 1).mean(1)
    drawn = measured["random"]["neutral"][0, 70].mean()
    drawn *= (measured["random"]["agree"][0, 70] == 1).mean()
    expected = [eta[70], eta[70] - eta[0], drawn - eta[0], eta[70] - drawn]
    assert [one.value for one in found.estimates] == pytest.approx(expected)
    assert found.judged.n == neutral.shape[1] and found.judged.low < eta[70] < found.judged.high
