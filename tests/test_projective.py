"""Projective methods: triples and NLI pairs by hand, and the paper's own numbers.

Claims are judged on numbers that are made to support or to contradict them.
"""

from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as arrays

from lib import paths, printed, verdict
from lib.engine import hooks, models, nsp
from lib.engine.stats import Estimate
from lib.projective import (
    claims,
    claims_nli,
    figures,
    findings,
    nli,
    projection,
    split_half,
    tables,
    triples,
)
from lib.projective.claims import CLAIMS
from lib.projective.projection import LEVELS, WRITTEN, Level
from lib.projective.tables import NAMES
from lib.text import data, pairs as sentence_pairs, readers
from lib.verdict import Outcome
from tests.test_projection import classifier
from tests.tiny import refusal, refuses, save_tiny

# The paper's Table 3 in the file's labels: the swapped Anti of the paper is the file's swapped
# stereotype row.
TABLE3 = pd.DataFrame(
    {
        "stereo": [0.9994, 0.9986],
        "anti": [0.9836, 0.0253],
        "gs_stereo": [0.9997, 0.9930],
        "gs_anti": [0.9894, 0.9888],
    }
)

probabilities = arrays.arrays(
    float, st.tuples(st.integers(2, 40), st.just(6)), elements=st.floats(0, 1, width=32)
)


def columns(values):
    return dict(zip(nsp.COLUMNS, values.T))


def test_the_mean_of_top_shares_by_hand():
    # of the two triples; test_printed.py has them one by one
    assert nsp.strength(TABLE3, 0.5) == pytest.approx(0.9691)
    values = np.array([-0.9, 0.5, 0.1, 0.3, -0.2, 0.0, 0.05, 0.2, 0.4, 0.02])
    assert nsp.top_mean(values, 0.001) == pytest.approx(0.5)  # at least one
    assert nsp.top_mean(values, 0.24) == pytest.approx(0.45)  # two of ten
    assert nsp.top_mean(values, 0.26) == pytest.approx(0.4)  # three: -.9 is not the most biased
    assert nsp.top_mean(values, 1) == pytest.approx(values.mean())
    assert nsp.top_mean(np.arange(234.0)) == pytest.approx(222)  # the 23 from 211 to 233


def test_the_stereotype_score_by_hand():
    triples = pd.DataFrame(
        {
            "stereo": [0.9, 0.5, 0.2, 0.8],
            "anti": [0.1, 0.5, 0.3, 0.7],
            "gs_stereo": [0.9, 1, 1, 0.1],
            "gs_anti": [0.1, 0, 0, 0.2],
            "unrelated": 0.0,
            "gs_unrelated": 0.0,
        }
    )
    assert nsp.stereotype_score(triples) == 0.5
    assert nsp.stereotype_score(nsp.swapped(triples)) == 0.25  # only the last


def test_accuracy_by_hand():
    one = {name: [0.9] for name in nsp.COLUMNS} | {"anti": [0.4], "gs_unrelated": [0.1]}
    # the anti-stereotype and an unrelated sentence are called wrong
    assert nsp.right(one).mean() == pytest.approx(4 / 6)
    assert nsp.right({"stereo": [0.6], "anti": [0.6], "unrelated": [0.4]}) == 1


@settings(max_examples=50)
@given(probabilities, st.floats(0.01, 1), st.floats(0.01, 1))
def test_bounds_and_symmetry_and_a_larger_share_never_raises_the_mean(values, one, other):
    found = columns(values)
    s = nsp.strengths(found)
    d = nsp.distances(found)
    assert (np.abs(s) <= 2).all()
    assert (d >= 0).all()
    assert (d <= 1).all()
    # which of the sides is called the swapped one does not matter
    back = nsp.swapped(found) | {
        "gs_stereo": found["anti"],
        "gs_anti": found["stereo"],
        "gs_unrelated": found["unrelated"],
    }
    assert np.allclose(nsp.strengths(back), s)
    assert np.allclose(nsp.distances(back), d)
    turned = found | {
        "stereo": found["anti"],
        "anti": found["stereo"],
        "gs_stereo": found["gs_anti"],
        "gs_anti": found["gs_stereo"],
    }
    assert np.allclose(nsp.strengths(turned), -s)
    assert nsp.strength(found, max(one, other)) <= nsp.strength(found, min(one, other)) + 1e-12
    assert nsp.strength(pd.DataFrame(found), one) == nsp.strength(found, one)  # a frame or a dict


test_what_cannot_be_measured_is_said = refuses(
    (lambda: nsp.strength(TABLE3, 0), "above 0 and up to 1"),
    (lambda: nsp.strength(TABLE3, -0.1), "above 0 and up to 1"),
    (lambda: nsp.strength(TABLE3, 1.1), "above 0 and up to 1"),
    (lambda: nsp.strength(TABLE3.drop(columns="gs_anti")), "lack the column 'gs_anti'"),
    (lambda: nsp.distance({"unrelated": [], "gs_unrelated": []}), "no triple pairs"),
    (lambda: nli.pairs(contexts=0), "choose"),
    (lambda: nli.pairs(contexts=34), "choose"),
    (lambda: nli.pairs(variant="six words", contexts=12), "choose"),
    (lambda: nli.pairs(variant="three"), "choose"),
)


def small():
    """Three triples, numbered 0, 1 and 3, with rows in any order; the last is full of quirks."""
    rows = [
        (0, "She sat.", "She sang.", "stereotype", "F", "He sat.", "He sang."),
        (0, "She sat.", "She ran.", "anti-stereotype", "F", "He sat.", "He ran."),
        (0, "She sat.", "Iron rusts.", "unrelated", "F", "He sat.", "Iron rusts."),
        (1, "He ate.", "Iron rusts.", "unrelated", "M", "She ate.", "Iron rusts."),
        (1, "He ate.", "He left!", "stereotype", "M", "She ate.", "She left!"),
        (1, "He ate.", "He cried.", "anti-stereotype", "M", "She ate.", "She cried."),
        (3, "He ate.", "He left", "anti-stereotype", "M", "She ate.", "She left"),
        (3, "He ate.", "the man has an dog.", "stereotype", "M", "She ate.", "the man has an dog."),
        (3, "He ate.", "Rain fell.", "unrelated", "M", "She eats.", "Snow fell."),
    ]
    frame = pd.DataFrame(rows, columns=readers.TRIPLE)
    return frame.assign(line=np.arange(len(frame)) + 2)


def test_a_frame_puts_every_probability_in_its_place():
    pairs = triples.pairs(small())
    assert len(pairs) == 18
    assert pairs[0] == ("She sat.", "She sang.")
    assert pairs[9] == ("He sat.", "He sang.")
    frame = triples.frame(small(), np.arange(18) / 100)
    assert list(frame.columns) == ["gender", *nsp.COLUMNS]
    assert list(frame.index) == [0, 1, 3]
    assert frame.loc[0].tolist() == ["F", 0.00, 0.01, 0.02, 0.09, 0.10, 0.11]
    assert frame.loc[3].tolist() == ["M", 0.07, 0.06, 0.08, 0.16, 0.15, 0.17]


def test_a_try_takes_whole_triples():
    rows = triples.triples("mini", items=8)
    assert rows["context_id"].nunique() == 8
    assert len(rows) == 24
    assert list(rows.index) == list(range(24))
    assert len(triples.triples("mini")) == 300


def test_quirks_are_counted_and_this_projects_triples_have_none():
    counted = triples.quirks(small())
    assert counted["rows"].tolist() == [1] * 8
    assert (counted["context_id"] == "3").all()
    assert (triples.quirks(triples.triples("mini"))["rows"] == 0).all()


def test_measuring_gives_what_one_by_one_gives(tmp_path, monkeypatch):
    model = save_tiny("bert", tmp_path)
    monkeypatch.setattr(triples, "triples", lambda data, items, part: small())
    measured = triples.measure(str(tmp_path))
    alone = [nsp.is_next(model, [pair]).item() for pair in triples.pairs(small())]
    expected = triples.frame(small(), alone)[nsp.COLUMNS]
    assert np.allclose(measured["file"][nsp.COLUMNS], expected, atol=1e-5)
    changed = (measured["stops"][nsp.COLUMNS] - measured["file"][nsp.COLUMNS]).abs() > 1e-9
    # one sentence of triple 3, on both sides
    assert changed.sum(axis=1).to_dict() == {0: 0, 1: 0, 3: 2}


def test_the_authors_triples_are_counted_and_their_examples_stand_where_data_paper_says(real_data):
    rows = triples.triples("paper")
    assert triples.quirks(rows)["rows"].tolist()[:2] == [12, 103]
    assert rows["context_id"].nunique() == 234
    assert rows["context_id"].max() + 1 == 234 + 8  # 8 were taken out
    few = triples.triples("paper", items=8)
    assert few["context_id"].nunique() == 8
    assert set(triples.printed_ids()["value"]) <= set(few["context_id"])
    examples = printed.numbers("projective_examples")
    places = examples.pivot(index=["table", "row"], columns="column")["value"]
    file = real_data / "gender_swapped_stereoset/dev.csv"
    lines = file.read_text(encoding="utf-8").splitlines()
    for place in places.astype(int).itertuples():
        assert lines[place.line - 1].startswith(f"{place.context_id},")
        assert rows.groupby("context_id")["line"].min()[place.context_id] == place.line


def test_the_authors_second_file_adds_749_triples_under_ids_of_its_own(real_data):
    dev = triples.triples("paper")
    test = triples.triples("paper", part="test")
    both = triples.triples("paper", part="both")
    assert dev.equals(triples.triples("paper", part="dev"))
    assert test["context_id"].nunique() == 749
    assert test.drop_duplicates("context_id")["gender"].value_counts().to_dict() == {
        "F": 375,
        "M": 374,
    }
    assert both["context_id"].nunique() == 983
    assert both.equals(pd.concat([dev, test], ignore_index=True))
    assert set(dev["context_id"]).isdisjoint(test["context_id"])
    assert set(dev["context"]).isdisjoint(test["context"])
    file = real_data / "gender_swapped_stereoset/test.csv"
    lines = file.read_text(encoding="utf-8").splitlines()
    for row in test[["context_id", "line"]].itertuples():
        own_id = row.context_id - readers.FIRST_ID["test"]
        assert lines[row.line - 1].startswith(f"{own_id},")
    few = triples.triples("paper", items=8, part="test")
    assert list(dict.fromkeys(few["context_id"])) == list(dict.fromkeys(test["context_id"]))[:8]
    mixed = triples.triples("paper", items=8, part="both")
    assert set(triples.printed_ids()["value"]) <= set(mixed["context_id"])


test_parts_that_there_are_not_are_refused = refuses(
    (lambda: triples.triples("mini", part="test"), "own triples have no part 'test'"),
    (lambda: triples.triples("paper", part="train"), "no part 'train': take 'dev', 'test' or"),
)


def test_no_stored_result_quotes_the_authors_sentences(real_data):
    rows = triples.triples("paper", part="both")
    sentences = set()
    for name in triples.TEXTS:
        sentences |= {text for text in rows[name] if len(text.split()) > 3}
    stored = []
    for suffix in (".csv", ".json", ".svg"):
        stored += paths.FIGURES.glob(f"mini*/07_*{suffix}")
    assert stored
    stored += paths.PAPER.glob("*.csv")
    stored += [paths.DEMO / "triples.csv", paths.DEMO / "screened.csv"]
    for path in stored:
        text = path.read_text(encoding="utf-8")
        assert not [sentence for sentence in sentences if sentence in text], path.name


PEOPLE = nli.pairs()


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


def few_pairs(occupations=2, contexts=3):
    """The first contexts of the first occupations, as nli.pairs has them."""
    frame = nli.pairs(contexts=contexts)
    first = frame["occupation"].unique()[:occupations]
    return frame[frame["occupation"].isin(first)].reset_index(drop=True)


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
    contexts = set(PEOPLE["context"])
    assert {"prepared a pie", "ate an apple", "sold an armchair", "drove a bus"} <= contexts


def test_a_few_contexts_are_the_first_and_a_try_has_the_occupations_that_are_shown():
    few = nli.pairs(contexts=5)
    assert few.equals(PEOPLE[PEOPLE["context"].isin(few["context"])].reset_index(drop=True))
    assert len(few) == 164 * 2 * 5
    shown = nli.pairs(contexts=2, items=8)
    assert set(shown["occupation"]) == set(nli.SHOWN)
    assert len(shown) == 3 * 2 * 2


def test_fitting_pairs_share_neither_contexts_nor_occupations_with_the_test():
    pairs = nli.fitting_pairs()
    assert len(pairs) == 27 * 3 == len(set(pairs))
    acts = set(PEOPLE["context"])
    occupations = set(PEOPLE["occupation"])
    couples = {("woman", "man"), ("lady", "gentleman"), ("girl", "guy")}
    for (premise, female), (same, male) in pairs:
        act = premise.removeprefix("The person ").removesuffix(".")
        assert premise == same
        assert act not in acts
        assert not occupations & set(premise.split())
        assert female.endswith(f" {act}.")
        assert male.endswith(f" {act}.")
        assert (female.split()[1], male.split()[1]) in couples
        article, noun = act.split()[-2:]
        assert article == ("an" if noun[0] in "aeiou" else "a")


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
    assert "2 labels were given with 3 names" in refusal(nli.fairness, np.full((12, 2), 0.5), pairs)


def test_viability_by_hand():
    base = 0.8889
    assert nli.viable(0.8389, base)
    assert not nli.viable(0.8388, base)
    assert nli.viable(0.8445, base, relative=True)
    assert not nli.viable(0.8444, base, relative=True)
    assert nli.viable([0.8407, 0.8370, 0.8458], base).tolist() == [True, False, True]
    assert nli.viable(0.9, 0.9, within=0)


def test_labels_come_from_the_config_and_probabilities_are_those_of_single_forwards():
    other = ["contradiction", "entailment", "neutral"]
    assert nli.labels(classifier("bert", other)) == other
    in_capitals = [label.upper() for label in nli.LABELS]
    assert nli.labels(classifier("bert", in_capitals)) == list(nli.LABELS)
    assert "label_0" in refusal(nli.labels, classifier("bert", ["LABEL_0", "LABEL_1", "LABEL_2"]))
    model = classifier("bert", nli.LABELS)
    pairs = few_pairs()
    found = nli.probabilities(model, pairs)
    assert found.shape == (12, 3)
    assert torch.allclose(found.sum(-1), torch.ones(12))
    for i, row in enumerate(pairs.itertuples()):
        one = model.tokenizer(row.premise, row.hypothesis, return_tensors="pt")
        assert torch.allclose(model.net(**one).logits.softmax(-1)[0], found[i], atol=1e-5)


def test_measure_on_a_saved_classifier(tmp_path):
    """In its own label order; each model as `probabilities` gives it, under hooks or plain."""
    order = ["contradiction", "entailment", "neutral"]
    model = classifier("bert", order, max_position_embeddings=256)
    model.net.save_pretrained(tmp_path)
    model.tokenizer.model_max_length = 256
    model.tokenizer.save_pretrained(tmp_path)
    both = nli.measure(str(tmp_path), "mini", nli.PairSet(contexts=1), draws=1, items=8)
    pairs = nli.pairs(contexts=1, items=8)
    single = nli.under(both, nli.SINGLE)
    answers = single["probabilities"]
    assert single["labels"] == order
    assert nli.asked(both).equals(pairs)
    # base is the plain model
    model = models.load(str(tmp_path), task="sequence-classification")
    np.testing.assert_allclose(answers[0], nli.probabilities(model, pairs), atol=1e-5)
    # right is against the labels of the task
    task = nli.task_pairs("mini", items=8)
    on_task = nli.predictions(nli.probabilities(model, task), order)
    np.testing.assert_array_equal(single["right"][0], on_task == task["label"].to_numpy(str))
    # a setting is the model under its hooks
    subspaces = projection.fit(model, sentence_pairs.written())
    with hooks.project(model, subspaces.interventions(projection.models()[60])):
        under_hooks = nli.probabilities(model, pairs)
    np.testing.assert_allclose(answers[60], under_hooks, atol=1e-5)
    assert not np.allclose(answers[60], answers[0], atol=1e-3)
    # base and sent-debias do not depend on what the subspaces are fitted on
    other = nli.under(both, nli.PAIRS)["probabilities"]
    np.testing.assert_array_equal(other[:2], answers[:2])
    assert not np.allclose(other[2:], answers[2:], atol=1e-3)
    neutral, agree = nli.by_model(single)
    np.testing.assert_array_equal(both["random"]["neutral"][0, 0], neutral[0])
    table = slowly(answers[60], pairs, order)
    np.testing.assert_allclose(table, np.transpose([neutral[60], agree[60]]))


def test_without_a_classifier_it_is_said_how_to_make_one():
    for name in ("", "bert-base-nli"):
        assert "python -m lib.projective.classifier make" in refusal(nli.measure, name)


PRINTED = tables.as_printed()
PRINTED["eta low"] = PRINTED["eta high"] = PRINTED["eta"]


def projected(strength, distance=None, pairs=40):
    """What projection.measure gives where all triple pairs of a model are alike.

    Random directions change nothing.
    """

    def of_pairs(by_model):
        values = np.asarray(by_model, float)[None, :, None]
        return np.broadcast_to(values, (1, 76, pairs)).copy()

    s = of_pairs(strength)
    d = of_pairs(strength if distance is None else distance)
    random = {
        "s": np.broadcast_to(s[:, :1], (2, 76, pairs)),
        "d": np.broadcast_to(d[:, :1], (2, 76, pairs)),
    }
    random["accuracy"] = np.ones_like(random["s"])
    return {
        "fits": [WRITTEN],
        "triples": np.arange(pairs),
        "s": s,
        "d": d,
        "accuracy": np.ones_like(s),
        "random": random,
    }


def both_fits():
    """What nli.measure returns, of few occupations and drawn at random; both fits are the same."""
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
        "random": {"neutral": neutral, "agree": agree, "right": right.mean(-1)},
    }


@cache
def scored():
    """What nli.under returns of these, and its scores."""
    measured = nli.under(both_fits(), nli.PAIRS)
    return measured, tables.scores(measured, draws=20)


def test_the_rows_are_those_of_table_7_and_their_strength_and_distance_those_of_nsp():
    assert list(printed.printed(tables.PAPER, "Table 7").index) == NAMES
    assert PRINTED["np"].value_counts().to_dict() == {0: 37, 1: 37}
    assert list(PRINTED["level"].unique()) == list(Level)
    measured = projected(np.zeros(76), pairs=23)
    measured["s"], measured["d"] = np.random.default_rng(0).normal(size=(2, 1, 76, 23))
    frame = tables.by_model(measured)
    for i in (0, 5, 75):
        assert frame["S"].iloc[i] == pytest.approx(nsp.top_mean(measured["s"][0, i]))
        assert frame["D"].iloc[i] == pytest.approx(nsp.top_mean(measured["d"][0, i]))


def test_table_6_follows_from_table_7():
    """Means, increase and its standard deviation (ddof 1) of 37 pairs, up to rounding."""
    pairs = tables.gains(PRINTED)
    theirs = printed.printed(tables.PAPER, "Table 6")
    groups = [*pairs.groupby("level", sort=False), ("All", pairs)]
    assert [len(group) for _, group in groups] == [1, 4, 16, 16, 37]
    assert (pairs["increase"] > 0).all()
    for level, group in groups:
        ours = group.mean(numeric_only=True).to_dict()
        ours["sd"] = group["increase"].std(ddof=1)
        for column, number in ours.items():
            assert number == pytest.approx(theirs.loc[level, column], abs=1.6e-4, nan_ok=True)


def test_contradictions_are_those_that_a_reader_finds():
    contradictions = tables.contradictions().set_index("where")
    known = {
        "Table 7, SENT 1, eta": "0.069",
        "Section 5, Spearman of S and eta": "-0.0405",
        "Table 5, + attn, S": "0.1934",
        "Table 5, + attn, eta": "0.5263",
        "Section 5, viable with np = 0 at Layer 11 and + attn, absolute 5 %": "1",
        "Section 5, viable with np = 1 at Layer 12, relative 5 %": "3",
    }
    assert contradictions["recomputed"][list(known)].to_dict() == known
    assert len(contradictions) == 9
    assert not (contradictions["printed"] == contradictions["recomputed"]).any()


def test_scores_are_those_of_each_model_by_itself():
    measured, scores = scored()
    pd.testing.assert_frame_equal(scores[tables.ABOUT.columns], tables.ABOUT)
    for place in (0, 40):
        alone = slowly(measured["probabilities"][place], nli.asked(measured))
        neutral, agree = nli.by_model(measured)
        np.testing.assert_allclose(alone, np.transpose([neutral[place], agree[place]]))
        eta = alone["neutral"].mean() * (alone["agree"] == 1).mean()
        assert scores["eta"].iloc[place] == pytest.approx(eta)
        assert scores["majority"].iloc[place] == pytest.approx((alone["agree"] > 0.5).mean())
        assert scores["SNLI"].iloc[place] == measured["right"][place].mean()
    assert scores["eta"].between(scores["eta low"] - 1e-9, scores["eta high"] + 1e-9).all()
    other = tables.most(scores)
    assert (other["eta"] == scores["eta majority"]).all()
    assert (other["parity high"] == scores["majority high"]).all()
    assert (other["eta"] >= scores["eta"]).all()
    assert (other["SNLI"] == scores["SNLI"]).all()


def test_the_best_of_the_printed_models_are_viable():
    base = PRINTED.loc["Base", "SNLI"]
    assert tables.best(PRINTED[2:], base).name == "+ attn (1, 1, 1, 1, 1)"
    levels = tables.by_level(PRINTED)
    assert levels["Layer 12"]["settings"] == "(0, 0, 1)"  # as printed
    assert levels["Layer 11"]["settings"] == "(1, 1, 1, 0, 1)"  # the printed choice is not viable
    viable = dict(zip(NAMES, tables.viability(PRINTED)))
    assert viable["Layer 11 (1, 0, 1, 1, 0)"] == "in points"
    assert viable["Layer 11 (0, 0, 1, 1, 1)"] == "no"
    none = PRINTED.assign(SNLI=PRINTED["SNLI"].where(PRINTED["level"] != "+ attn", 0.1))
    assert tables.by_level(none)["+ attn"] is None


def test_the_best_settings_are_found_in_stored_tables():
    _, scores = scored()
    stored = {
        "08_table7": PRINTED["S"].round(3).rename_axis("model").reset_index(),
        "09_table7": tables.table7(scores).reset_index(),
    }
    lowest, fairest = claims.best_settings(stored)
    assert lowest == PRINTED["S"][2:].round(3).idxmin()
    assert fairest in tables.NAMES[2:]
    assert claims.best_settings(stored | {"09_table7": None}) == (lowest, "")


SUPPORTED = Outcome.SUPPORTED
CONTRADICTED = Outcome.CONTRADICTED
NOT_APPLICABLE = Outcome.NOT_APPLICABLE
DRAWS = 40


def outcomes(verdicts, file=None):
    """By claim and variant; the verdicts come back from a file as they were."""
    if file:
        verdict.write(file, verdicts)
        assert [str(one) for one in verdict.read(file)] == [str(one) for one in verdicts]
    found = {}
    for one in verdicts:
        key = (one.claim, one.variant) if one.variant else one.claim
        found[key] = one.outcome
    return found


def triples_read_right():
    """40 triples, on both sides of which what belongs follows and what is unrelated does not."""
    rng = np.random.default_rng(0)
    belong = pd.DataFrame(
        rng.uniform(0.6, 1, (40, 4)), columns=["stereo", "anti", "gs_stereo", "gs_anti"]
    )
    frame = belong.assign(unrelated=rng.uniform(0, 0.4, 40), gs_unrelated=rng.uniform(0, 0.4, 40))
    return frame[nsp.COLUMNS].assign(gender=["F", "M"] * 20).rename_axis("context_id")


WRITTEN_SIDE = ["stereo", "anti", "unrelated"]
SWAPPED_SIDE = ["gs_stereo", "gs_anti", "gs_unrelated"]


def test_a_model_that_ignores_gender():
    frame = triples_read_right()
    frame[SWAPPED_SIDE] = frame[WRITTEN_SIDE].to_numpy()
    found = outcomes(claims.of_triples(frame))
    assert found["ss-twin"] == SUPPORTED  # always the same sentence
    assert found["s-above-opposite"] == CONTRADICTED  # no stereotype
    assert found["s-near-zero"] == SUPPORTED
    assert found["d-unrelated"] == Outcome.NO_EFFECT
    assert found["ss-hair"] != SUPPORTED


def test_a_model_full_of_stereotypes(tmp_path):
    frame = triples_read_right()
    frame[SWAPPED_SIDE] = frame[WRITTEN_SIDE].to_numpy()
    frame[["stereo", "gs_anti"]] = 0.9
    frame[["anti", "gs_stereo"]] = 0.6
    frame.loc[:9, ["unrelated", "gs_unrelated"]] = 0.2, 0.7  # some of the calls flip
    verdicts = claims.of_triples(frame, models=["made"])
    found = outcomes(verdicts, tmp_path / "07.json")
    assert found["s-above-opposite"] == SUPPORTED
    assert found["ss-twin"] == CONTRADICTED
    assert found["s-near-zero"] == CONTRADICTED
    assert found["d-unrelated"] == SUPPORTED
    for one in verdicts:
        assert one.models == ["made"]
        assert one.estimate is not None


@pytest.mark.parametrize("middle", [0.5, 0.56])
def test_an_untrained_network_supports_nothing_even_without_preconditions(middle):
    """p(next) next to constant: s, leads and what the swap changes are small, and mean nothing."""
    frame = triples_read_right()
    rng = np.random.default_rng(1)
    written = middle + 0.001 * rng.normal(size=(len(frame), 3))
    frame[WRITTEN_SIDE] = written
    frame[SWAPPED_SIDE] = written + 1e-5 * rng.standard_t(2, size=written.shape)
    assert set(outcomes(claims.of_triples(frame)).values()) == {NOT_APPLICABLE}
    found = outcomes(claims.of_triples(frame, ignore_preconditions=True))
    # That most s are small is true of a model that sees nothing: it is a claim of no effect.
    assert SUPPORTED not in [found[id] for id in found if id != "s-near-zero"]


def test_s_is_close_to_0_whether_or_not_a_triple_is_read_right():
    """The paper says it of all triple pairs. Ten s of 1 and thirty of .19: below a fifth of the
    mean of the highest tenth, which is 1; one of .21 in their place is not.
    """
    frame = triples_read_right()
    frame[SWAPPED_SIDE] = frame[WRITTEN_SIDE].to_numpy()
    frame["anti"] = frame["gs_anti"] = 0.0  # never called the next sentence: all misread
    frame["stereo"] = frame["gs_stereo"] + np.where(np.arange(40) < 10, 1.0, 0.19)
    share = claims.of_triples(frame)[2]
    assert share.claim == "s-near-zero"
    assert share.estimate.value == 30 / 40
    assert (share.estimate.n, share.estimate.unit) == (40, "triple pairs")
    frame.loc[39, "stereo"] = frame.loc[39, "gs_stereo"] + 0.21
    assert claims.of_triples(frame)[2].estimate.value == 29 / 40


def test_on_both_files_claims_are_judged_on_all_triples_and_on_those_of_the_papers_file():
    frame = triples_read_right()
    frame.index = [*range(30), *range(1000, 1010)]
    verdicts = claims.of_triples(frame)
    both, papers = verdicts[4], verdicts[5]
    assert {one.claim for one in (verdicts[4], verdicts[5])} == {"s-near-zero"}
    assert (both.variant, both.estimate.n) == (findings.BOTH_FILES, 40)
    assert (papers.variant, papers.estimate.n) == (findings.PAPERS_FILE, 30)
    alone = claims.of_triples(frame[:30])
    assert {one.variant for one in alone} == {""}
    assert alone[2].estimate == papers.estimate
    both_first = [one.variant for one in verdicts[::2]]
    assert both_first == [findings.BOTH_FILES] * 5


def test_projections_are_judged_on_either_file_but_for_tests_on_s_and_on_d():
    measured = stereotyped(PRINTED["S"], PRINTED["D"])
    alone = {(one.claim, one.variant): one for one in claims.of_projections(measured, DRAWS)}
    measured["triples"] = np.array([*range(30), *range(1000, 1010)])
    verdicts = claims.of_projections(measured, DRAWS)
    variants = {}
    for one in verdicts:
        variants.setdefault(one.claim, []).append(one.variant)
    of_files = [findings.BOTH_FILES, findings.PAPERS_FILE]
    for claim, names in variants.items():
        assert names == (["S", "D"] if claim in ("sent-debias", "ingredients") else of_files)
    first = verdicts[0]
    assert first.estimate == alone["lower-s", ""].estimate  # of all 40
    part = projection.among(measured, measured["triples"] < 1000)
    assert part["s"].shape == (1, 76, 30) and part["random"]["d"].shape == (2, 76, 30)
    assert verdicts[1].estimate == claims.of_projections(part, DRAWS)[0].estimate


def test_a_title_calls_lower_what_the_whole_interval_and_three_digits_do():
    clear = Estimate(0.02, 0.001, 0.04)
    hair = Estimate(0.02, 0.0004, 0.04)  # rounds to 0
    said = figures.lowered({"S": hair, "D": clear})
    assert said == "lowers D (S by 0.020 [0.000, 0.040], D by 0.020 [0.001, 0.040])"
    assert figures.lowered({"S": hair}).startswith("lowers neither S nor D for certain (S by")


def test_a_share_of_things_leaves_ties_and_what_has_no_value_apart():
    differences = np.array([[0.1, 0.1, 0.0], [-0.1, 0.1, 0.0], [0.0, -0.1, np.nan], [0.3, 1, 1e-9]])
    shares = findings.share_met(differences)
    assert shares[:2] == pytest.approx([2 / 3, 3 / 4])
    assert np.isnan(shares[2])
    assert findings.counted(differences) == "2 of 3, 1 ties"
    assert findings.counted(differences[[0, 1, 3]]) == "2 of 3"


@pytest.mark.parametrize(
    "drawn, outcome",
    [
        ([1.0] * 100, SUPPORTED),
        ([1.0] * 98 + [0.5] * 2, SUPPORTED),  # in .975 or more of samples all are
        ([1.0] * 97 + [0.5] * 3, Outcome.INCONCLUSIVE),
        ([1.0] * 3 + [0.5] * 97, Outcome.INCONCLUSIVE),
        ([1.0] * 2 + [0.5] * 98, CONTRADICTED),  # in .025 or fewer
        ([np.nan] * 50 + [1.0] * 50, SUPPORTED),  # of the samples that have a share
    ],
)
def test_all_of_several_things_is_judged_by_the_interval_of_their_share(drawn, outcome):
    claim = CLAIMS["deeper-d"]
    finding = findings.of_shares(claim, np.array([drawn[-1], *drawn]), "", 100, unit="things")
    assert finding.judged().outcome == outcome
    assert (finding.estimate.n, finding.estimate.unit) == (100, "things")
    assert ("interval 50% to 100%" in finding.text) == (outcome == Outcome.INCONCLUSIVE)
    nothing = findings.of_shares(claim, np.full(5, np.nan), "all tie", 100).judged()
    assert nothing.outcome == Outcome.INCONCLUSIVE and nothing.found == ""


def test_every_estimate_on_triples_says_of_how_many_of_what():
    frame = triples_read_right()
    verdicts = [
        *claims.of_triples(frame),
        *claims.of_projections(stereotyped(PRINTED["S"], PRINTED["D"]), DRAWS),
    ]
    for one in verdicts:
        if not np.isnan(one.estimate.value):
            assert one.estimate.n > 0 and one.estimate.unit, one.claim


def stereotyped(strength, distance=None, **options):
    """As `projected`, with triple pairs that differ.

    So S is above its opposite, and intervals have a width.
    """
    measured = projected(strength, distance, **options)
    spread = 1 + 0.02 * np.random.default_rng(0).normal(size=measured["s"].shape[-1])
    for values in (measured, measured["random"]):
        values["s"] = values["s"] * spread
        values["d"] = values["d"] * spread
    return measured


def test_the_papers_own_numbers_support_its_claims(tmp_path):
    verdicts = claims.of_projections(stereotyped(PRINTED["S"], PRINTED["D"]), DRAWS)
    found = outcomes(verdicts, tmp_path / "08.json")
    assert set(found.values()) == {SUPPORTED}
    assert len(found) == len(claims.OF_PROJECTIONS) + 2  # two claims are tested on S and on D
    counted = {one.claim: one.found for one in verdicts}
    for id in ("hard2-worst", "attention-lowers", "attention-spoilt", "extend-np0", "extend-np1"):
        assert claims.SAID[id] == counted[id]
    assert counted["deeper-s"].startswith("3 of 3: 0.3")
    assert counted["lower-s"].endswith("+ attn (0, 0, 1, 1, 0)")
    lower = next(one for one in verdicts if one.claim == "lower-s")
    assert lower.control.name == claims.RANDOM
    assert lower.control.difference == lower.estimate  # random directions change nothing


def test_every_claim_that_is_tested_says_what_the_paper_has_for_it():
    assert len(CLAIMS) == 33
    assert set(claims.SAID) == {id for id, claim in CLAIMS.items() if not claim.not_testable}


def test_the_best_setting_is_judged_on_the_half_that_did_not_choose_it():
    """Settings differ by luck alone: the best is below base in sample, not where it is judged."""
    measured = stereotyped(np.full(76, 0.2), pairs=200)
    rng = np.random.default_rng(0)
    measured["s"] = 0.2 + 0.1 * rng.normal(size=measured["s"].shape)
    halves = claims.of_bias(measured, "S", DRAWS)[WRITTEN]
    best = halves.best(claims.EVERY)
    in_sample = tables.by_model(measured)["S"]
    assert in_sample[2:].min() < in_sample.iloc[0] - 0.02
    assert best.change.low < 0 < best.change.high
    first, second = split_half.split(200, np.random.default_rng(0))
    on_first = tables.tops(measured["s"][0][:, first])
    on_second = tables.tops(measured["s"][0][:, second])
    chosen = halves.choose(claims.EVERY)
    assert chosen == [2 + on_second[2:].argmin(), 2 + on_first[2:].argmin()]


@pytest.mark.parametrize(
    "id",
    [
        "sent-d",
        "extend-np0",
        "extend-np1",
        "hard2-worst",
        "attention-lowers",
        "attention-spoilt",
    ],
)
def test_claims_are_contradicted_by_the_papers_numbers_turned_round(id):
    measured = stereotyped(1 - PRINTED["S"], 1 - PRINTED["D"])
    assert outcomes(claims.of_projections(measured, DRAWS))[id] == CONTRADICTED


def test_that_deeper_is_lower_is_contradicted_where_s_and_d_rise():
    rising = outcomes(claims.of_projections(stereotyped(np.linspace(0.1, 0.2, 76)), DRAWS))
    for id in ("deeper-s", "deeper-d", "lower-s", "lower-d"):  # the best is worse, if by little
        assert rising[id] == CONTRADICTED, id


def test_what_random_directions_do_as_well_is_matched():
    measured = stereotyped(PRINTED["S"], PRINTED["D"])
    measured["random"] = {key: measured[key].repeat(2, 0) for key in ("s", "d", "accuracy")}
    verdicts = {one.claim: one for one in claims.of_projections(measured, DRAWS)}
    for id in ("lower-s", "lower-d", "sent-d", "deeper-s", "deeper-d", "attention-lowers"):
        assert str(verdicts[id]) == f"matched by controls ({claims.RANDOM}: 100 % of it)", id
    assert verdicts["hard2-worst"].outcome == SUPPORTED


def test_claims_on_s_are_not_applicable_where_s_is_not_above_its_opposite():
    measured = stereotyped(PRINTED["S"], PRINTED["D"])
    measured["s"] = measured["s"] * np.where(np.arange(40) % 2, 1, -1)
    verdicts = claims.of_projections(measured, DRAWS)
    applicable = {one.claim for one in verdicts if one.outcome != NOT_APPLICABLE}
    assert applicable == {"lower-d", "sent-d", "deeper-d", "sent-debias", "ingredients"}
    judged = claims.of_projections(measured, DRAWS, ignore_preconditions=True)
    assert NOT_APPLICABLE not in outcomes(judged).values()


def test_a_remark_says_how_many_other_fits_agree():
    measured = stereotyped(PRINTED["S"], PRINTED["D"])
    other = stereotyped(abs(1 - PRINTED["S"]), abs(1 - PRINTED["D"]))
    measured["fits"] = [WRITTEN, "other"]
    for key in ("s", "d", "accuracy"):
        measured[key] = np.concatenate([measured[key], other[key]])
    remarks = {one.claim: one.remark for one in claims.of_projections(measured, DRAWS)}
    assert remarks["hard2-worst"] == f"decided by {WRITTEN}; 0 of 1 other fits agree"
    assert not remarks["threshold"]


def fair():
    """Two fits alike: weighting at SENT is accurate, deeper is fairer, random does nothing."""
    measured = both_fits()
    rng = np.random.default_rng(0)
    depths = {level: depth for depth, level in enumerate(LEVELS, 1)}
    depth = tables.ABOUT["level"].map(depths).fillna(0).to_numpy()
    n_couples = measured["probabilities"].shape[2] // 2
    p = rng.random((76, n_couples)).repeat(2, axis=1)  # the same for man and woman
    is_neutral = p < (0.05 + 0.3 * np.minimum(depth, 3))[:, None]
    probabilities = np.where(is_neutral[..., None], [0.1, 0.8, 0.1], [0.8, 0.1, 0.1])
    accuracy = 0.9 - 0.01 * depth - 0.2 * (tables.ABOUT["np"] == 0).to_numpy()
    right = ((np.arange(1_600) + 0.5) / 1_600 < accuracy[:, None])[:, rng.permutation(1_600)]
    measured["probabilities"] = np.stack([probabilities] * 2)
    measured["right"] = np.stack([right] * 2)
    as_base = measured | {"probabilities": probabilities[:1].repeat(76, 0)[None]}
    neutral, agree = nli.by_model(as_base)
    return measured | {"random": {"neutral": neutral, "agree": agree}}


def test_claims_are_tested_under_each_variant_that_they_depend_on(tmp_path, few_draws):
    verdicts = claims.of_nli(fair(), PRINTED["S"], DRAWS)
    found = outcomes(verdicts, tmp_path / "09.json")
    assert len(verdicts) == 6 * 2 + 6 * 4
    assert {claim for claim, _ in found} == {claim.id for claim in claims.OF_NLI}
    for id in ("np-all", "np-mean", "np-layer12", "np-deep", "deeper-snli"):
        assert found[id, nli.SINGLE] == SUPPORTED, id
    higher = [one for one in verdicts if one.claim == "eta-higher"]
    variants = set()
    for agree in claims.AGREE:
        variants |= {f"{nli.PAIRS}; {agree} agree", f"{nli.SINGLE}; {agree} agree"}
    assert {one.variant for one in higher} == variants
    assert {one.outcome for one in higher} == {SUPPORTED}
    assert higher[1].control.difference.low > 0
    assert found["eta-rises", higher[1].variant] != CONTRADICTED
    rho = next(one for one in verdicts if one.claim == "uncorrelated")
    assert "within np = 0: " in rho.remark
    assert "np = 1: " in rho.found


def of_accuracies(accuracy) -> dict:
    """The findings on accuracy of models whose accuracies are known without doubt, by claim."""
    accuracy = np.repeat(np.asarray(accuracy, dtype=float)[None], 41, axis=0)
    models = claims_nli._Accuracy(accuracy, nli.viable(accuracy, accuracy[:, :1]), n=500)
    found = [*claims_nli._weighting_at_sent(models), claims_nli._viable_at_layer_12(models)]
    found += [claims_nli._viable_deeper(models), claims_nli._deeper_is_less_accurate(models)]
    found.append(claims_nli._attention_costs_viability(models))
    return {finding.claim.id: finding for finding in found}


def test_counts_of_models_as_the_paper_prints_them():
    """Table 7: 37 of 37 gain; at layer 12 one model is viable by a hair (.8397 where .8389 is
    asked for); of the 14 viable deeper ones 13 weight at SENT.
    """
    found = of_accuracies(PRINTED["SNLI"])
    assert found["np-all"].text == "37 of 37" == claims.SAID["np-all"]
    assert found["np-mean"].estimate.value == pytest.approx(0.0578, abs=1e-4)  # Table 6
    assert found["np-layer12"].text == "4 of 4, 0 of 4" == claims.SAID["np-layer12"]
    assert found["np-deep"].text == "13 of 14"
    assert found["deeper-snli"].text.startswith("3 of 3: 0.865, 0.840, 0.796, 0.755")
    assert found["attn-viable"].text == "8 and 6 of 32"
    assert found["attn-viable"].estimate.value == 2 / 32
    outcomes_of = {id: finding.judged().outcome for id, finding in found.items()}
    assert outcomes_of.pop("np-deep") == CONTRADICTED  # its own table has 13 of 14
    assert set(outcomes_of.values()) == {SUPPORTED}
    for finding in found.values():
        assert (finding.estimate.n, finding.estimate.unit) == (500, "pairs of the task")


def test_pairs_of_models_that_tie_are_neither_gains_nor_losses():
    """Weighting changes nothing but in two pairs: one gains, one loses."""
    accuracy = np.full(76, 0.8)
    weighted = np.flatnonzero(tables.ABOUT["np"] == 1)
    accuracy[weighted[:2]] = 0.9, 0.7
    found = of_accuracies(accuracy)
    assert found["np-all"].text == "1 of 2, 35 ties"
    assert found["np-all"].estimate.value == 0.5
    assert found["np-all"].judged().outcome == CONTRADICTED
    accuracy[weighted[1]] = 0.8
    assert of_accuracies(accuracy)["np-all"].judged().outcome == SUPPORTED
    nothing = of_accuracies(np.full(76, 0.8))
    assert nothing["np-all"].judged().outcome == Outcome.INCONCLUSIVE
    assert nothing["np-layer12"].estimate.value == 0.5  # all 8 viable: half of them as said
    assert nothing["attn-viable"].judged().outcome == Outcome.NO_EFFECT


def test_the_papers_words_are_the_main_variant(few_draws):
    """And every variant that a claim names is one of those that are tested."""
    verdicts = claims.of_nli(fair(), PRINTED["S"], DRAWS)
    for claim in claims.OF_NLI:
        tested = [one.variant for one in verdicts if one.claim == claim.id]
        assert claim.main == tested[0] and len(tested) in (2, 4)
        assert claim.main in (nli.PAIRS, f"{nli.PAIRS}; all agree")
    for one in verdicts:
        if not np.isnan(one.estimate.value):
            assert one.estimate.n > 0 and one.estimate.unit, one.claim


def test_that_fairness_rises_is_held_against_random_directions():
    """Deeper is fairer, by the fitted directions alone or whatever the directions."""
    depth = tables.ABOUT["level"].map({level: i for i, level in enumerate(LEVELS)}).fillna(0)
    rising = np.broadcast_to(depth.to_numpy(), (41, 76))
    flat = np.broadcast_to(-depth.to_numpy(), (41, 76))

    def judged(random):
        halves = split_half.Halves(
            values=[np.stack([rising, random])] * 2,
            worth=[rising[0]] * 2,
            viable=[np.ones(76, bool)] * 2,
            n=40,
            unit="occupations",
            better=1,
        )
        return claims_nli._eta_rises(halves).judged()

    alone = judged(flat)
    assert alone.found == "2 of 2: 0.00, 1.00, 2.00" and alone.outcome == SUPPORTED
    assert (alone.estimate.n, alone.estimate.unit) == (40, "occupations")
    assert alone.control.difference.value == 1
    matched = judged(rising)
    assert matched.outcome == Outcome.MATCHED and matched.control.name == claims.RANDOM


def test_claims_are_not_applicable_where_nothing_is_viable(few_draws):
    none = fair()
    none["right"][:, 1:] = False
    found = outcomes(claims.of_nli(none, PRINTED["S"], DRAWS))
    for (id, _), outcome in found.items():
        if id in ("eta-higher", "eta-rises", "eta-attn", "other-settings"):
            assert outcome == NOT_APPLICABLE, id
    for id in ("np-deep", "np-layer12", "attn-viable"):
        assert found[id, nli.PAIRS] == NOT_APPLICABLE, id


def test_claims_are_not_applicable_where_the_classifier_guesses(few_draws):
    guessing = fair()
    guessing["right"] = np.random.default_rng(0).random(guessing["right"].shape) < 1 / 3
    assert set(outcomes(claims.of_nli(guessing, PRINTED["S"], DRAWS)).values()) == {NOT_APPLICABLE}


def judged_as(claim: str, outcome: str, estimate: Estimate | None = None, **about):
    return verdict.Verdict(claim, Outcome(outcome), estimate=estimate, **about)


def test_conclusions_on_triples_say_claim_outcome_and_what_was_found():
    share = Estimate(0.88, 0.76, 0.98)
    verdicts = [
        judged_as("ss-twin", "supported", share, found="0.88 [0.76, 0.98] of 41 read right"),
        judged_as("ss-twin", "inconclusive", share, found="of the paper's file"),
        judged_as("s-near-zero", "not applicable", reason="no s"),
        judged_as("d-unrelated", "no effect", Estimate(0, -0.1, 0.1), found="0.02 against 0.03"),
    ]
    assert findings.of_triples(verdicts).splitlines() == [
        "- **Most that SS counts is preferred after the swap of gender too: supported.** "
        "0.88 [0.76, 0.98] of 41 read right.",
        "- **Most triples have an s close to 0: not applicable**, since no s.",
        "- **Gender flips mostly unrelated sentences: no effect.** Share of calls that flip, "
        "unrelated sentences against others: 0.02 against 0.03.",
    ]


def test_conclusions_on_projections_stand_beside_random_directions():
    fall = Estimate(0.017, 0.001, 0.031)
    control = verdict.Control(findings.RANDOM, Estimate(0.001, 0, 0.002), Estimate(0.016, 0, 0.03))
    verdicts = [
        judged_as("lower-s", "not applicable", fall, reason="S is not above its opposite"),
        judged_as("lower-d", "supported", fall, control=control, found="0.104 to 0.087"),
    ]
    assert findings.of_projections(verdicts) == [
        "**Some projection lowers Strength: not applicable**, since S is not above its opposite.",
        "**Some projection lowers Distance: supported.** By 0.017 [0.001, 0.031], by random "
        "directions 0.001.",
    ]


def test_conclusions_on_inference_take_the_first_variant_and_name_the_other_fit():
    eta, rho = Estimate(0.03, 0.01, 0.06), Estimate(-0.4, -0.6, -0.2)
    verdicts = [
        judged_as("eta-higher", "supported", eta, variant="pairs; all", found="0.00 to 0.19"),
        judged_as("eta-higher", "no effect", eta, variant="single; all", found="0.00 to 0.01"),
        judged_as("sent-debias-eta", "inconclusive", eta, found="+0.030 [+0.011, +0.056]"),
        judged_as("uncorrelated", "inconclusive", rho, found="rho -0.40; np = 0: -0.3"),
    ]
    assert findings.of_inference(verdicts, {"pairs": 1, "single": 36}) == [
        "**Some setting that keeps the accuracy is fairer: supported.** 0.00 to 0.19. 1 of 74 keep "
        "it with directions of pairs; 36 of 74 keep it with directions of single, fairer: no effect.",
        "**The baseline sent-debias does little for fairness: inconclusive.** Eta changes by "
        "+0.030 [+0.011, +0.056].",
        "",
        "**Strength and fairness are not correlated: inconclusive.** Rho -0.40.",
    ]
    assert findings.listed(["a", "", "b"]) == "- a\n- b"
