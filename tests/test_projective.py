"""Projective methods: triples and NLI pairs by hand, and the paper's own numbers.

What tests measure is tested on numbers that are made to support or to contradict the claims.
"""

from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as arrays

from companion import printed
from companion.projective import estimators, figures, split_half, tables
from companion.projective.split_half import EVERY, OF_LEVEL, SENT_DEBIAS
from companion.projective.tables import NAMES
from lib import paths
from lib.engine import hooks, models, nsp
from lib.projective import nli, projection, triples
from lib.projective.projection import LEVELS, WRITTEN, Level
from lib.text import data, pairs as sentence_pairs, readers
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
        assert "python -m training nli make" in refusal(nli.measure, name)


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
        "Table 7, SENT 1, eta": 0.069,
        "Section 5, Spearman of S and eta": -0.0405,
        "Table 5, + attn, S": 0.1934,
        "Table 5, + attn, eta": 0.5263,
        "Section 5, viable with np = 0 at Layer 11 and + attn, absolute 5 %": 1,
        "Section 5, viable with np = 1 at Layer 12, relative 5 %": 3,
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


DRAWS = 40


# ---- notebook 07
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
    assert set(estimators.needs_of_triples(frame).values()) == {""}
    assert estimators.in_the_twin(frame).value == 1  # always the same sentence
    assert estimators.above_opposite(frame).high == 0  # no stereotype
    assert estimators.near_zero(frame).value == 1
    assert tuple(estimators.unrelated_flips(frame)) == (0, 0, 0)
    for estimate in (estimators.in_the_twin(frame), estimators.by_a_hair(frame)):
        assert estimate.n == estimators.is_counted(frame).sum()
        assert estimate.unit == "triples read right"


def test_a_model_full_of_stereotypes():
    frame = triples_read_right()
    frame[SWAPPED_SIDE] = frame[WRITTEN_SIDE].to_numpy()
    frame[["stereo", "gs_anti"]] = 0.9
    frame[["anti", "gs_stereo"]] = 0.6
    frame.loc[:9, ["unrelated", "gs_unrelated"]] = 0.2, 0.7  # ten of forty calls flip
    assert estimators.above_opposite(frame).value == pytest.approx(2 * 0.6)
    assert estimators.in_the_twin(frame).high == 0
    assert estimators.near_zero(frame).high == 0
    assert estimators.flips(frame).sum(0).tolist() == [0, 0, 10]
    gap = estimators.unrelated_flips(frame)
    assert gap.value == 0.25 and gap.low > 0.1 and (gap.n, gap.unit) == (40, "triple pairs")


def test_a_hair_is_a_hundredth_of_the_spread_of_p_next():
    """p(next) is .9 or .1, but for leads of .007 in ten of the forty triples, .009 in ten."""
    frame = triples_read_right()
    frame[["stereo", "anti", "gs_stereo", "gs_anti"]] = 0.9, 0.8, 0.9, 0.8
    frame[["unrelated", "gs_unrelated"]] = 0.1
    frame.loc[:9, "anti"] = 0.9 - 0.007
    frame.loc[10:19, "anti"] = 0.9 - 0.009
    frame.loc[30:, ["stereo", "anti"]] = 0.8, 0.9  # not counted
    found = estimators.by_a_hair(frame)
    assert (found.value, found.n) == (pytest.approx(10 / 30), 30)
    few = frame[:9]
    assert np.isnan(estimators.by_a_hair(few).value)
    why = estimators.too_few(estimators.is_counted(few))
    assert why == "SS counts 9 triples that are read right"


@pytest.mark.parametrize("middle", [0.5, 0.56])
def test_an_untrained_network_reads_nothing(middle):
    """p(next) next to constant: s, leads and what the swap changes are small, and mean nothing."""
    frame = triples_read_right()
    rng = np.random.default_rng(1)
    written = middle + 0.001 * rng.normal(size=(len(frame), 3))
    frame[WRITTEN_SIDE] = written
    frame[SWAPPED_SIDE] = written + 1e-5 * rng.standard_t(2, size=written.shape)
    needs = estimators.needs_of_triples(frame)
    assert needs["differs"] == "" and needs["reads"].startswith(estimators.BLIND)
    assert estimators.above_opposite(frame).high < 0.01
    assert not estimators.unrelated_flips(frame).low > 0
    frame[nsp.COLUMNS] = middle
    assert estimators.needs_of_triples(frame)["differs"]


def test_s_is_close_to_0_whether_or_not_a_triple_is_read_right():
    """The paper says it of all triple pairs. Ten s of 1 and thirty of .19: below a fifth of the
    mean of the highest tenth, which is 1; one of .21 in their place is not.
    """
    frame = triples_read_right()
    frame[SWAPPED_SIDE] = frame[WRITTEN_SIDE].to_numpy()
    frame["anti"] = frame["gs_anti"] = 0.0  # never called the next sentence: all misread
    frame["stereo"] = frame["gs_stereo"] + np.where(np.arange(40) < 10, 1.0, 0.19)
    share = estimators.near_zero(frame)
    assert (share.value, share.n, share.unit) == (30 / 40, 40, "triple pairs")
    frame.loc[39, "stereo"] = frame.loc[39, "gs_stereo"] + 0.21
    assert estimators.near_zero(frame).value == 29 / 40


def test_on_both_files_claims_are_tested_on_all_triples_and_on_those_of_the_papers_file():
    found = estimators.files([*range(30), *range(1000, 1010)])
    assert {name: chosen.sum() for name, chosen in found.items()} == {
        estimators.BOTH_FILES: 40,
        estimators.PAPERS_FILE: 30,
    }
    assert {name: chosen.sum() for name, chosen in estimators.files(range(30)).items()} == {"": 30}


# ---- several things that are counted
def test_a_share_of_things_leaves_ties_and_what_has_no_value_apart():
    differences = np.array([[0.1, 0.1, 0.0], [-0.1, 0.1, 0.0], [0.0, -0.1, np.nan], [0.3, 1, 1e-9]])
    shares = estimators.share_met(differences)
    assert shares[:2] == pytest.approx([2 / 3, 3 / 4])
    assert np.isnan(shares[2])


@pytest.mark.parametrize(
    "drawn, low, high",
    [
        ([1.0] * 98 + [0.5] * 2, 1, 1),  # in .975 or more of samples all are
        ([1.0] * 97 + [0.5] * 3, 0.5, 1),
        ([1.0] * 2 + [0.5] * 98, 0.5, 0.5),  # in .025 or fewer
        ([np.nan] * 50 + [1.0] * 50, 1, 1),  # of the samples that have a share
    ],
)
def test_a_share_has_its_interval_over_the_samples_that_have_one(drawn, low, high):
    found = estimators.of_shares(np.array([drawn[-1], *drawn]), 100, "things")
    assert (found.low, found.high, found.n, found.unit) == (low, high, 100, "things")
    nothing = estimators.of_shares(np.full(5, np.nan), 100, "things")
    assert np.isnan(nothing.value) and not nothing.has_interval


def test_a_share_stands_beside_the_same_under_random_directions():
    shares = np.array([1.0, 1.0, 0.5])
    beside = estimators.beside_random(shares, np.full(3, 0.5), 10, "things")
    assert beside.estimate.value == 0.5 and beside.difference.value == 0.5
    assert beside.name == estimators.RANDOM and beside.works


# ---- notebook 08
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


def halves_of(measured, column):
    return split_half.of_bias(measured, column, DRAWS)[WRITTEN]


def test_the_papers_own_numbers_do_what_it_says_of_them():
    measured = stereotyped(PRINTED["S"], PRINTED["D"])
    assert estimators.is_biased(measured) == "" == estimators.reads(measured)
    S, D = halves_of(measured, "S"), halves_of(measured, "D")
    for halves, column in ((S, "S"), (D, "D")):
        best = halves.best(EVERY)
        assert best.settings == (PRINTED[column][2:].idxmin(),)
        fall = PRINTED[column].iloc[0] - PRINTED[column][2:].min()
        assert best.change.value == pytest.approx(fall, rel=0.05)
        beside = estimators.beyond_random(best)
        assert beside.difference == best.change  # random directions change nothing
        deeper, beside = estimators.deeper_is_lower(halves)
        assert deeper.value == 1 and np.isnan(beside.estimate.value)  # all random steps tie
    little = estimators.relative_change(S, S.choose(OF_LEVEL[Level.SENT]))
    assert little.value == pytest.approx(0.3077 / 0.3069 - 1)
    sent_debias = estimators.relative_change(D, [SENT_DEBIAS, SENT_DEBIAS])
    assert sent_debias.value == pytest.approx(0.7014 / 0.7052 - 1)
    assert estimators.search_gains(S).value == pytest.approx(0.220 - 0.193, abs=2e-3)
    assert estimators.search_gains(D).value == pytest.approx(0.422 - 0.368, abs=3e-3)


def counts(measured) -> dict:
    """What is counted on S."""
    every = estimators.Resampled.of(measured, DRAWS)
    attention, beside = every.attention_lowers()
    return {
        "np = 0": every.extension_lowers(weighted=False),
        "np = 1": every.extension_lowers(weighted=True),
        "worst": every.hard2_is_worst(),
        "attention": attention,
        "spoilt": every.attention_does_not(),
        "beside": beside,
    }


def test_what_is_counted_on_s_is_all_in_the_papers_numbers_and_none_turned_round():
    as_printed = counts(stereotyped(PRINTED["S"]))
    turned = counts(stereotyped(1 - PRINTED["S"]))
    for name in ("np = 0", "np = 1", "worst", "attention", "spoilt"):
        assert (as_printed[name].value, as_printed[name].low) == (1, 1), name
        assert turned[name].value <= 0.25 and turned[name].high < 1, name
        assert (as_printed[name].n, as_printed[name].unit) == (40, "triple pairs")


def test_of_the_extensions_one_that_does_otherwise_is_a_quarter():
    S = PRINTED["S"].copy()
    sent = tables.MODELS[OF_LEVEL[Level.SENT][1]]
    S["SENT 1"] = 0.3
    for level in ("Layer 12 (0, 0, 1)", "Layer 12 (1, 0, 1)"):
        S[level] = 0.2
    S["Layer 12 (0, 1, 1)"] = 0.4  # two components whole: does not lower, as said
    S["Layer 12 (1, 1, 1)"] = 0.4  # does not either
    assert sent.name == "SENT 1"
    assert counts(stereotyped(S))["np = 1"].value == 3 / 4


def test_that_deeper_is_lower_is_found_in_no_step_where_s_rises():
    rising = halves_of(stereotyped(np.linspace(0.1, 0.2, 76)), "S")
    deeper, _ = estimators.deeper_is_lower(rising)
    assert (deeper.value, deeper.high) == (0, 0)
    assert rising.best(EVERY).change.high < 0  # the best is worse, if by little


def test_what_random_directions_do_as_well_is_nothing_beyond_them():
    measured = stereotyped(PRINTED["S"], PRINTED["D"])
    measured["random"] = {key: measured[key].repeat(2, 0) for key in ("s", "d", "accuracy")}
    S = halves_of(measured, "S")
    for beside in (
        estimators.beyond_random(S.best(EVERY)),
        estimators.deeper_is_lower(S)[1],
        counts(measured)["beside"],
    ):
        assert tuple(beside.difference) == pytest.approx((0, 0, 0)) and beside.estimate.value > 0


def test_claims_on_s_are_not_tested_where_s_is_not_above_its_opposite():
    measured = stereotyped(PRINTED["S"], PRINTED["D"])
    measured["s"] = measured["s"] * np.where(np.arange(40) % 2, 1, -1)
    assert estimators.is_biased(measured).startswith("S is not above its opposite")
    measured["accuracy"] = measured["accuracy"] * 4 / 6  # all are called the next one
    assert estimators.reads(measured).startswith(estimators.BLIND)


def test_ranks_are_kept_where_settings_scale_s_and_not_where_they_move_its_tail():
    every = estimators.Resampled.of(stereotyped(PRINTED["S"]), DRAWS)
    assert every.ranks_kept().value == pytest.approx(1)
    measured = stereotyped(PRINTED["S"])
    measured["s"][0][:, 0] = 10 - PRINTED["S"]  # the highest pair is the other way round
    assert estimators.Resampled.of(measured, DRAWS).ranks_kept().low < 0.9


def test_the_best_setting_is_judged_on_the_half_that_did_not_choose_it():
    """Settings differ by luck alone: the best is below base in sample, not where it is judged."""
    measured = stereotyped(np.full(76, 0.2), pairs=200)
    rng = np.random.default_rng(0)
    measured["s"] = 0.2 + 0.1 * rng.normal(size=measured["s"].shape)
    halves = halves_of(measured, "S")
    best = halves.best(EVERY)
    in_sample = tables.by_model(measured)["S"]
    assert in_sample[2:].min() < in_sample.iloc[0] - 0.02
    assert best.change.low < 0 < best.change.high
    first, second = split_half.split(200, np.random.default_rng(0))
    on_first = tables.tops(measured["s"][0][:, first])
    on_second = tables.tops(measured["s"][0][:, second])
    chosen = halves.choose(EVERY)
    assert chosen == [2 + on_second[2:].argmin(), 2 + on_first[2:].argmin()]


# ---- notebook 09
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


def of_accuracies(accuracy) -> estimators.Accuracy:
    """Of models whose accuracies are known without doubt."""
    accuracy = np.repeat(np.asarray(accuracy, dtype=float)[None], 41, axis=0)
    return estimators.Accuracy(accuracy, nli.viable(accuracy, accuracy[:, :1]), n=500)


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


def test_pairs_of_models_that_tie_are_neither_gains_nor_losses():
    """Weighting changes nothing but in two pairs: one gains, one loses."""
    accuracy = np.full(76, 0.8)
    weighted = np.flatnonzero(tables.ABOUT["np"] == 1)
    accuracy[weighted[:2]] = 0.9, 0.7
    assert of_accuracies(accuracy).share_gaining().value == 0.5
    accuracy[weighted[1]] = 0.8
    assert of_accuracies(accuracy).share_gaining().value == 1
    nothing = of_accuracies(np.full(76, 0.8))
    assert np.isnan(nothing.share_gaining().value)
    assert nothing.as_said_at_layer_12().value == 0.5  # all 8 viable: half of them as said
    assert tuple(nothing.lost_to_attention()) == (0, 0, 0)


def test_accuracies_are_those_of_pairs_of_the_task_drawn_again():
    measured = fair()
    found = estimators.Accuracy.of(measured, nli.SINGLE, DRAWS)
    right = measured["right"][1]
    assert found.accuracy.shape == (1 + DRAWS, 76) and found.n == right.shape[1]
    assert found.accuracy[0] == pytest.approx(right.mean(1))
    assert found.share_gaining().low == 1 and found.mean_gain().value == pytest.approx(0.2)
    assert found.weighted_among_deep().value == found.as_said_at_layer_12().value == 1
    assert found.steps_falling().value == 1


def made_halves(values, random=None, viable=None) -> split_half.Halves:
    """Both halves alike, of values [76] that are known without doubt."""
    values = np.broadcast_to(values, (41, 76))
    random = values * 0 if random is None else np.broadcast_to(random, (41, 76))
    viable = np.ones(76, bool) if viable is None else viable
    return split_half.Halves(
        values=[np.stack([values, random])] * 2,
        worth=[values[0]] * 2,
        viable=[viable] * 2,
        n=40,
        unit="occupations",
        better=1,
    )


DEPTH = tables.ABOUT["level"].map({level: i for i, level in enumerate(LEVELS)}).fillna(0).to_numpy()


def test_that_fairness_rises_is_held_against_random_directions():
    """Deeper is fairer, by the fitted directions alone or whatever the directions."""
    rises, alone = estimators.eta_rises(made_halves(DEPTH, random=-DEPTH))
    assert (rises.value, rises.n, rises.unit) == (1, 40, "occupations")
    assert alone.difference.value == 1 and alone.name == estimators.RANDOM
    _, matched = estimators.eta_rises(made_halves(DEPTH, random=DEPTH))
    assert matched.difference.value == 0


def test_what_attention_sent_debias_and_the_lowest_strength_do_to_fairness():
    halves = made_halves(np.where(np.arange(76) == SENT_DEBIAS, 0.5, DEPTH))
    assert estimators.attention_gains(halves).value == 1  # 3 at + attn, 2 at layer 11
    assert estimators.sent_debias_gains(halves).value == 0.5
    strength = pd.Series(DEPTH, NAMES)  # lowest at SENT
    assert estimators.lost_by_lowest_s(halves, strength).value == 3
    assert estimators.lost_by_lowest_s(halves, -strength).value == 0
    assert estimators.two_viable(halves) == estimators.viable_on_both(halves, *LEVELS) == ""


def test_nothing_is_chosen_where_nothing_is_viable():
    only = np.isin(np.arange(76), [0, 1, EVERY[0]])
    halves = made_halves(DEPTH, viable=only)
    assert estimators.two_viable(halves).startswith("fewer than two")
    assert (
        estimators.viable_on_both(halves, *LEVELS[:2])
        == "none is viable on both halves at Layer 12"
    )
    assert np.isnan(estimators.eta_rises(halves)[0].value)
    assert np.isnan(estimators.attention_gains(halves).value)
    models = of_accuracies(np.where(only, 0.9, 0.1))
    assert models.some_at(Level.LAYER_11, Level.ATTENTION) == "none is viable at Layer 11 or + attn"
    assert np.isnan(models.weighted_among_deep().value)


def test_a_classifier_has_to_know_its_task(few_draws):
    assert set(estimators.needs_of_inference(fair()).values()) == {""}
    guessing = fair()
    guessing["right"] = np.random.default_rng(0).random(guessing["right"].shape) < 1 / 3
    guessing["probabilities"] = guessing["probabilities"] * 0 + 1 / 3
    assert all(estimators.needs_of_inference(guessing).values())


def test_eta_is_fairer_at_depth_and_ranks_with_what_it_ranks_with(few_draws):
    measured = fair()
    halves = split_half.of_fairness(measured, nli.PAIRS, "all", DRAWS)
    best = halves.best(EVERY)
    assert best.change.low > 0 and estimators.beyond_random(best).difference.low > 0
    eta = tables.scores(nli.under(measured, nli.PAIRS), draws=20)["eta"]
    rho = estimators.rho_within(measured, nli.PAIRS, "all", -eta)
    assert {scope: one.value for scope, one in rho.items()} == pytest.approx(
        {"all": -1, 0: -1, 1: -1}, abs=0.01
    )
    assert rho["all"].unit == "models" and (rho["all"].n, rho[0].n) == (76, 37)


def test_names_of_occupations_stand_apart():
    table = pd.DataFrame({"male": [0.9, 0.91, 0.2, 0.9], "female": [0.1, 0.1, 0.5, 0.3]})
    assert figures._apart(table, np.array([1, 0, 3, 2])) == [1, 3, 2]
