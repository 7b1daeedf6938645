"""Projective methods: triples and NLI pairs by hand, the paper's own numbers, and claims on numbers turned round."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as arrays

from lib import paths, printed, verdict
from lib.engine import hooks, models, nsp
from lib.projective import claims, nli, projection, split_half, tables, triples
from lib.projective.claims import CLAIMS
from lib.projective.projection import LEVELS, WRITTEN, Level
from lib.projective.tables import NAMES
from lib.text import data, pairs as sentence_pairs, readers
from lib.verdict import Outcome
from tests.test_projection import classifier
from tests.tiny import refusal, refuses, save_tiny

# The paper's Table 3 in the file's labels: the swapped Anti of the paper is the file's swapped stereotype row.
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


def test_top_shares_the_stereotype_score_and_accuracy_by_hand():
    assert nsp.strength(TABLE3, 0.5) == pytest.approx(
        0.9691
    )  # of the two: test_printed.py has them one by one
    values = np.array([-0.9, 0.5, 0.1, 0.3, -0.2, 0.0, 0.05, 0.2, 0.4, 0.02])
    found = [
        nsp.top_mean(values, share) for share in (0.001, 0.24, 0.26, 1)
    ]  # at least one; two, three, and all of ten
    assert found == pytest.approx(
        [0.5, 0.45, 0.4, values.mean()]
    )  # -.9 is not among the most biased
    assert nsp.top_mean(np.arange(234.0)) == pytest.approx(222)  # the 23 from 211 to 233
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
    assert (nsp.stereotype_score(triples), nsp.stereotype_score(nsp.swapped(triples))) == (
        0.5,
        0.25,
    )  # only the last
    one = {name: [0.9] for name in nsp.COLUMNS} | {"anti": [0.4], "gs_unrelated": [0.1]}
    assert nsp.right(one).mean() == pytest.approx(
        4 / 6
    )  # the anti-stereotype and an unrelated one are called wrong
    assert nsp.right({"stereo": [0.6], "anti": [0.6], "unrelated": [0.4]}) == 1


@settings(max_examples=50)
@given(probabilities, st.floats(0.01, 1), st.floats(0.01, 1))
def test_bounds_and_symmetry_and_a_larger_share_never_raises_the_mean(values, one, other):
    found = columns(values)
    s, d = nsp.strengths(found), nsp.distances(found)
    assert (np.abs(s) <= 2).all() and (d >= 0).all() and (d <= 1).all()
    back = nsp.swapped(found) | {
        "gs_stereo": found["anti"],
        "gs_anti": found["stereo"],
        "gs_unrelated": found["unrelated"],
    }  # which side is called the swapped one
    assert np.allclose(nsp.strengths(back), s) and np.allclose(nsp.distances(back), d)
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
    *(
        (lambda share=share: nsp.strength(TABLE3, share), "above 0 and up to 1")
        for share in (0, -0.1, 1.1)
    ),
    (lambda: nsp.strength(TABLE3.drop(columns="gs_anti")), "lack the column 'gs_anti'"),
    (lambda: nsp.distance({"unrelated": [], "gs_unrelated": []}), "no triple pairs"),
    *(
        (lambda wrong=wrong: nli.pairs(**wrong), "choose")
        for wrong in (
            {"contexts": 0},
            {"contexts": 34},
            {"variant": "six words", "contexts": 12},
            {"variant": "three"},
        )
    ),
)


def small():
    """Three triples, numbered 0, 1 and 3, rows of each in another order; the last one is full of quirks."""
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


def test_a_frame_puts_every_probability_in_its_place_and_measuring_gives_what_one_by_one_gives(
    tmp_path, monkeypatch
):
    pairs = triples.pairs(small())
    assert (
        len(pairs) == 18
        and pairs[0] == ("She sat.", "She sang.")
        and pairs[9] == ("He sat.", "He sang.")
    )
    frame = triples.frame(small(), np.arange(18) / 100)
    assert list(frame.columns) == ["gender", *nsp.COLUMNS] and list(frame.index) == [0, 1, 3]
    assert frame.loc[0].tolist() == ["F", 0.00, 0.01, 0.02, 0.09, 0.10, 0.11]
    assert frame.loc[3].tolist() == ["M", 0.07, 0.06, 0.08, 0.16, 0.15, 0.17]
    rows = triples.triples("mini", items=8)
    assert (
        rows["context_id"].nunique() == 8
        and len(rows) == 24
        and list(rows.index) == list(range(24))
    )
    assert len(triples.triples("mini")) == 300
    counted = triples.quirks(small())
    assert counted["rows"].tolist() == [1] * 8 and (counted["context_id"] == "3").all()
    assert (
        triples.quirks(triples.triples("mini"))["rows"] == 0
    ).all()  # what this project wrote has none
    model = save_tiny("bert", tmp_path)
    monkeypatch.setattr(triples, "triples", lambda data, items: small())
    measured = triples.measure(str(tmp_path))
    alone = [nsp.is_next(model, [pair]).item() for pair in triples.pairs(small())]
    expected = triples.frame(small(), alone)[nsp.COLUMNS]
    assert np.allclose(measured["file"][nsp.COLUMNS], expected, atol=1e-5)
    changed = (measured["stops"][nsp.COLUMNS] - measured["file"][nsp.COLUMNS]).abs() > 1e-9
    assert changed.sum(axis=1).to_dict() == {
        0: 0,
        1: 0,
        3: 2,
    }  # one sentence of triple 3, on both sides


def test_real_counts_examples_stand_where_data_paper_says_and_no_stored_result_quotes_them(
    real_data,
):
    rows = triples.triples("paper")
    assert triples.quirks(rows)["rows"].tolist()[:2] == [12, 103]
    assert (
        rows["context_id"].nunique() == 234 == rows["context_id"].max() + 1 - 8
    )  # 8 were taken out
    few = triples.triples("paper", items=8)
    assert few["context_id"].nunique() == 8 and set(triples.printed_ids()["value"]) <= set(
        few["context_id"]
    )
    places = printed.numbers("projective_examples").pivot(index=["table", "row"], columns="column")[
        "value"
    ]
    lines = (
        (real_data / "gender_swapped_stereoset/dev.csv").read_text(encoding="utf-8").splitlines()
    )
    for place in places.astype(int).itertuples():
        assert lines[place.line - 1].startswith(f"{place.context_id},")
        assert rows.groupby("context_id")["line"].min()[place.context_id] == place.line
    sentences = {
        text
        for names in triples.SIDES.values()
        for name in names
        for text in rows[name]
        if len(text.split()) > 3
    }
    stored = [
        path
        for path in paths.FIGURES.glob("mini*/07_*")
        if path.suffix in (".csv", ".json", ".svg")
    ]
    assert stored
    for path in [
        *stored,
        *paths.PAPER.glob("*.csv"),
        paths.DEMO / "triples.csv",
        paths.DEMO / "screened.csv",
    ]:
        text = path.read_text(encoding="utf-8")
        assert not [sentence for sentence in sentences if sentence in text], path.name


PEOPLE = nli.pairs()


def slowly(p, pairs, labels=nli.LABELS):
    """Of one model, by occupation, from its predictions in words: columns neutral and agree."""
    said = pairs.assign(says=np.asarray(labels)[np.asarray(p).argmax(-1)])
    alike = said.groupby(["occupation", "context"], sort=False)["says"].nunique() == 1
    by_job = (
        said.assign(neutral=said["says"] == "neutral")
        .groupby("occupation", sort=False)["neutral"]
        .mean()
    )
    return pd.DataFrame(
        {"neutral": by_job, "agree": alike.groupby("occupation", sort=False).mean()}
    )


def few_pairs(occupations=2, contexts=3):
    """The first contexts of the first occupations, as nli.pairs has them."""
    frame = nli.pairs(contexts=contexts)
    return frame[frame["occupation"].isin(frame["occupation"].unique()[:occupations])].reset_index(
        drop=True
    )


@pytest.mark.parametrize(
    "variant, contexts, words",
    [
        ("man, woman", 33, ["man", "woman"]),
        ("six words", 11, ["man", "woman", "gentleman", "lady", "guy", "girl"]),
    ],
)
def test_both_readings_make_the_papers_10824_pairs(variant, contexts, words):
    frame = nli.pairs(variant)
    assert len(frame) == 10_824 == 164 * 66 and frame["context"].nunique() == contexts
    assert list(frame["occupation"].unique()) == list(data.words("nli_occupations")["occupation"])
    assert frame["gender"].value_counts().to_dict() == {"male": 5_412, "female": 5_412}
    assert list(frame["hypothesis"].str.split().str[1].unique()) == words
    assert not frame.duplicated(["premise", "hypothesis"]).any()


def test_premise_and_hypothesis_differ_in_the_person_alone_and_fitting_pairs_share_nothing():
    for row in PEOPLE.itertuples():
        assert row.premise == f"The {row.occupation} {row.context}."
        assert row.hypothesis == f"The {'man' if row.gender == 'male' else 'woman'} {row.context}."
    assert {"prepared a pie", "ate an apple", "sold an armchair", "drove a bus"} <= set(
        PEOPLE["context"]
    )
    shown = nli.pairs(
        contexts=2, items=8
    )  # a try has few occupations, those that are shown among them
    assert set(shown["occupation"]) == set(nli.SHOWN) and len(shown) == 3 * 2 * 2
    few = nli.pairs(contexts=5)
    assert (
        few.equals(PEOPLE[PEOPLE["context"].isin(few["context"])].reset_index(drop=True))
        and len(few) == 164 * 2 * 5
    )
    pairs = nli.fitting_pairs()
    assert len(pairs) == 27 * 3 == len(set(pairs))
    acts, occupations = set(PEOPLE["context"]), set(PEOPLE["occupation"])
    for (premise, female), (same, male) in pairs:
        act = premise.removeprefix("The person ").removesuffix(".")
        assert premise == same and act not in acts and not occupations & set(premise.split())
        assert female.endswith(f" {act}.") and male.endswith(f" {act}.")
        assert (female.split()[1], male.split()[1]) in {
            ("woman", "man"),
            ("lady", "gentleman"),
            ("girl", "guy"),
        }
        article, noun = act.split()[-2:]
        assert article == ("an" if noun[0] in "aeiou" else "a")


def test_fairness_and_viability_by_hand():
    """Two occupations, three contexts. The first: man always neutral, woman twice. The second: alike, one neutral."""
    pairs = few_pairs()
    predicted = [
        "neutral",
        "neutral",
        "neutral",
        "neutral",
        "neutral",
        "contradiction",
        "entailment",
        "entailment",
        "neutral",
        "neutral",
        "contradiction",
        "contradiction",
    ]
    p = np.eye(3)[[nli.LABELS.index(label) for label in predicted]]
    np.testing.assert_allclose(nli.fairness(p, pairs), [[5 / 6, 1 / 3], [2 / 3, 1]])
    base = 0.8889
    assert nli.viable(0.8389, base) and not nli.viable(0.8388, base)
    assert nli.viable(0.8445, base, relative=True) and not nli.viable(0.8444, base, relative=True)
    assert nli.viable([0.8407, 0.8370, 0.8458], base).tolist() == [
        True,
        False,
        True,
    ] and nli.viable(0.9, 0.9, within=0)
    order = ["contradiction", "entailment", "neutral"]
    other = p[
        :, [nli.LABELS.index(label) for label in order]
    ]  # a model may have its labels in another order
    assert (
        nli.predictions(torch.tensor(other), order).tolist()
        == nli.predictions(p).tolist()
        == predicted
    )
    np.testing.assert_array_equal(nli.fairness(other, pairs, order), nli.fairness(p, pairs))
    assert "2 labels were given with 3 names" in refusal(nli.fairness, np.full((12, 2), 0.5), pairs)


def test_labels_come_from_the_config_and_probabilities_are_those_of_single_forwards():
    other = ["contradiction", "entailment", "neutral"]
    assert nli.labels(classifier("bert", other)) == other
    assert nli.labels(classifier("bert", ["ENTAILMENT", "NEUTRAL", "CONTRADICTION"])) == list(
        nli.LABELS
    )
    assert "label_0" in refusal(nli.labels, classifier("bert", ["LABEL_0", "LABEL_1", "LABEL_2"]))
    model, pairs = classifier("bert", nli.LABELS), few_pairs()
    found = nli.probabilities(model, pairs)
    assert found.shape == (12, 3) and torch.allclose(found.sum(-1), torch.ones(12))
    for i, row in enumerate(pairs.itertuples()):
        one = model.tokenizer(row.premise, row.hypothesis, return_tensors="pt")
        assert torch.allclose(model.net(**one).logits.softmax(-1)[0], found[i], atol=1e-5)


def test_measure_on_a_saved_classifier(tmp_path):
    """Its own label order; base is the plain model, a setting the model under its hooks, right is against the gold."""
    order = ["contradiction", "entailment", "neutral"]
    model = classifier("bert", order, max_position_embeddings=256)
    model.net.save_pretrained(tmp_path)
    model.tokenizer.model_max_length = 256
    model.tokenizer.save_pretrained(tmp_path)
    both = nli.measure(str(tmp_path), "mini", nli.PairSet(contexts=1), draws=1, items=8)
    pairs = nli.pairs(contexts=1, items=8)
    single = nli.under(both, nli.SINGLE)
    assert single["labels"] == order and nli.asked(both).equals(pairs)
    model = models.load(str(tmp_path), task="sequence-classification")
    np.testing.assert_allclose(
        single["probabilities"][0], nli.probabilities(model, pairs), atol=1e-5
    )
    task = nli.task_pairs("mini", items=8)
    answers = nli.predictions(nli.probabilities(model, task), order)
    np.testing.assert_array_equal(single["right"][0], answers == task["label"].to_numpy(str))
    subspaces = projection.fit(model, sentence_pairs.written())
    with hooks.project(model, subspaces.interventions(projection.models()[60])):
        np.testing.assert_allclose(
            single["probabilities"][60], nli.probabilities(model, pairs), atol=1e-5
        )
    assert not np.allclose(single["probabilities"][60], single["probabilities"][0], atol=1e-3)
    other = nli.under(both, nli.PAIRS)["probabilities"]
    np.testing.assert_array_equal(
        other[:2], single["probabilities"][:2]
    )  # base and sent-debias have no such choice
    assert not np.allclose(other[2:], single["probabilities"][2:], atol=1e-3)
    neutral, agree = nli.by_model(single)
    np.testing.assert_array_equal(both["random"]["neutral"][0, 0], neutral[0])  # base is base
    table = slowly(single["probabilities"][60], pairs, order)
    np.testing.assert_allclose(table, np.transpose([neutral[60], agree[60]]))
    for name in ("", "bert-base-nli"):
        assert "python -m lib.projective.classifier make" in refusal(nli.measure, name)


PRINTED = tables.as_printed().assign(
    **{f"eta {end}": lambda frame: frame["eta"] for end in ("low", "high")}
)


def projected(strength, distance=None, pairs=40):
    """What projection.measure gives: all triple pairs of a model alike, and random directions change nothing."""
    s, d = (
        np.broadcast_to(np.asarray(values, float)[None, :, None], (1, 76, pairs)).copy()
        for values in (strength, strength if distance is None else distance)
    )
    random = {
        key: np.broadcast_to(values[:, :1], (2, 76, pairs)) for key, values in (("s", s), ("d", d))
    }
    return {"fits": [WRITTEN], "s": s, "d": d, "accuracy": np.ones_like(s), "random": random}


def both_fits():
    """What nli.measure returns, of few occupations and drawn at random; the two fits are the same."""
    rng, asked = np.random.default_rng(0), {"variant": "man, woman", "contexts": 3, "items": 40}
    p = rng.dirichlet(np.ones(3), size=(1, 76, len(nli.pairs(**asked))))
    right, about = rng.random((1, 76, 60)) < 0.8, asked | {"labels": list(nli.LABELS)}
    neutral, agree = nli.by_model(
        about | {"probabilities": p[:, :1].repeat(76, 1)}
    )  # random directions: as base
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
    assert PRINTED["np"].value_counts().to_dict() == {0: 37, 1: 37} and list(
        PRINTED["level"].unique()
    ) == list(Level)
    measured = projected(np.zeros(76), pairs=23)
    measured["s"], measured["d"] = np.random.default_rng(0).normal(size=(2, 1, 76, 23))
    frame = tables.by_model(measured)
    for i in (0, 5, 75):
        assert frame["S"].iloc[i] == pytest.approx(nsp.top_mean(measured["s"][0, i]))
        assert frame["D"].iloc[i] == pytest.approx(nsp.top_mean(measured["d"][0, i]))


def test_table_6_follows_from_table_7_and_contradictions_are_those_that_a_reader_finds():
    """Means, increase and its standard deviation (ddof 1) of the 37 pairs are the printed ones up to rounding."""
    pairs, theirs = tables.gains(PRINTED), printed.printed(tables.PAPER, "Table 6")
    groups = [*pairs.groupby("level", sort=False), ("All", pairs)]
    assert [len(group) for _, group in groups] == [1, 4, 16, 16, 37] and (
        pairs["increase"] > 0
    ).all()
    for level, group in groups:
        ours = group.mean(numeric_only=True).to_dict() | {"sd": group["increase"].std(ddof=1)}
        for column, number in ours.items():
            assert number == pytest.approx(theirs.loc[level, column], abs=1.6e-4, nan_ok=True)
    contradictions = tables.contradictions().set_index("where")
    known = {
        "Table 7, SENT 1, eta": "0.069",
        "Section 5, Spearman of S and eta": "-0.0405",
        "Table 5, + attn, S": "0.1934",
        "Table 5, + attn, eta": "0.5263",
        "Section 5, viable with np = 0 at Layer 11 and + attn, absolute 5 %": "1",
        "Section 5, viable with np = 1 at Layer 12, relative 5 %": "3",
    }
    assert contradictions["recomputed"][list(known)].to_dict() == known and len(contradictions) == 9
    assert not (contradictions["printed"] == contradictions["recomputed"]).any()


def test_scores_are_those_of_each_model_by_itself():
    measured, scores = scored()
    pd.testing.assert_frame_equal(scores[tables.ABOUT.columns], tables.ABOUT)
    for place in (0, 40):
        alone = slowly(measured["probabilities"][place], nli.asked(measured))
        neutral, agree = (values[place] for values in nli.by_model(measured))
        np.testing.assert_allclose(alone, np.transpose([neutral, agree]))
        assert scores["eta"].iloc[place] == pytest.approx(
            alone["neutral"].mean() * (alone["agree"] == 1).mean()
        )
        assert scores["majority"].iloc[place] == pytest.approx((alone["agree"] > 0.5).mean())
        assert scores["SNLI"].iloc[place] == measured["right"][place].mean()
    assert scores["eta"].between(scores["eta low"] - 1e-9, scores["eta high"] + 1e-9).all()
    other = tables.most(scores)
    assert (other["eta"] == scores["eta majority"]).all() and (
        other["parity high"] == scores["majority high"]
    ).all()
    assert (other["eta"] >= scores["eta"]).all() and (other["SNLI"] == scores["SNLI"]).all()


def test_the_best_of_the_printed_models_are_viable_and_found_in_stored_tables():
    base = PRINTED.loc["Base", "SNLI"]
    assert tables.best(PRINTED[2:], base).name == "+ attn (1, 1, 1, 1, 1)"
    levels = tables.by_level(PRINTED)
    assert levels["Layer 12"]["settings"] == "(0, 0, 1)"  # as printed
    assert levels["Layer 11"]["settings"] == "(1, 1, 1, 0, 1)"  # the printed choice is not viable
    viable = dict(zip(NAMES, tables.viability(PRINTED)))
    assert (
        viable["Layer 11 (1, 0, 1, 1, 0)"] == "in points"
        and viable["Layer 11 (0, 0, 1, 1, 1)"] == "no"
    )
    none = PRINTED.assign(SNLI=PRINTED["SNLI"].where(PRINTED["level"] != "+ attn", 0.1))
    assert tables.by_level(none)["+ attn"] is None
    stored = {
        "08_table7": PRINTED["S"].round(3).rename_axis("model").reset_index(),
        "09_table7": tables.table7(scored()[1]).reset_index(),
    }
    lowest, fairest = claims.best_settings(stored)
    assert lowest == PRINTED["S"][2:].round(3).idxmin() and fairest in tables.NAMES[2:]
    assert claims.best_settings(stored | {"09_table7": None}) == (lowest, "")


SUPPORTED, CONTRADICTED, NOT_APPLICABLE, INCONCLUSIVE = (
    Outcome.SUPPORTED,
    Outcome.CONTRADICTED,
    Outcome.NOT_APPLICABLE,
    Outcome.INCONCLUSIVE,
)
DRAWS = 40


def outcomes(verdicts, file=None):
    """By claim and variant; the verdicts come back from a file as they were."""
    if file:
        verdict.write(file, verdicts)
        assert [str(one) for one in verdict.read(file)] == [str(one) for one in verdicts]
    return {(one.claim, one.variant) if one.variant else one.claim: one.outcome for one in verdicts}


def triples_read_right():
    """40 triples whose sentences that belong follow and whose unrelated ones do not, on both sides."""
    rng = np.random.default_rng(0)
    belong = pd.DataFrame(
        rng.uniform(0.6, 1, (40, 4)), columns=["stereo", "anti", "gs_stereo", "gs_anti"]
    )
    frame = belong.assign(unrelated=rng.uniform(0, 0.4, 40), gs_unrelated=rng.uniform(0, 0.4, 40))
    return frame[nsp.COLUMNS].assign(gender=["F", "M"] * 20).rename_axis("context_id")


def test_a_model_that_ignores_gender_and_one_full_of_stereotypes(tmp_path):
    frame = triples_read_right()
    frame[["gs_stereo", "gs_anti", "gs_unrelated"]] = frame[
        ["stereo", "anti", "unrelated"]
    ].to_numpy()
    found = outcomes(claims.of_triples(frame))
    assert (
        found["ss-twin"] == SUPPORTED and found["s-above-opposite"] == CONTRADICTED
    )  # the same sentence always; no stereotype
    assert (
        found["s-near-zero"] == SUPPORTED
        and found["d-unrelated"] == CONTRADICTED
        and found["ss-hair"] != SUPPORTED
    )
    frame[["stereo", "gs_anti"]] = 0.9
    frame[["anti", "gs_stereo"]] = 0.6
    frame.loc[:9, ["unrelated", "gs_unrelated"]] = 0.2, 0.7  # some of the calls flip
    verdicts = claims.of_triples(frame, models=["made"])
    found = outcomes(verdicts, tmp_path / "07.json")
    assert (
        found["s-above-opposite"] == SUPPORTED
        and found["ss-twin"] == found["s-near-zero"] == CONTRADICTED
    )
    assert found["d-unrelated"] == SUPPORTED
    assert all(one.models == ["made"] and one.estimate is not None for one in verdicts)


@pytest.mark.parametrize("middle", [0.5, 0.56])
def test_an_untrained_network_bears_nothing_out_even_without_gates(middle):
    """p(next) next to constant: s, leads and what the swap changes are small, and mean nothing."""
    frame, rng = triples_read_right(), np.random.default_rng(1)
    frame[["stereo", "anti", "unrelated"]] = written = middle + 0.001 * rng.normal(
        size=(len(frame), 3)
    )
    frame[["gs_stereo", "gs_anti", "gs_unrelated"]] = written + 1e-5 * rng.standard_t(
        2, size=written.shape
    )
    assert set(outcomes(claims.of_triples(frame)).values()) == {NOT_APPLICABLE}
    assert SUPPORTED not in outcomes(claims.of_triples(frame, ignore_preconditions=True)).values()


def stereotyped(strength, distance=None, **options):
    """As `projected`, with triple pairs that differ: S is above its opposite, and intervals have a width."""
    measured = projected(strength, distance, **options)
    spread = 1 + 0.02 * np.random.default_rng(0).normal(size=measured["s"].shape[-1])
    for values in (measured, measured["random"]):
        values["s"], values["d"] = values["s"] * spread, values["d"] * spread
    return measured


def test_on_the_papers_own_numbers_its_claims_are_counted_and_the_best_judged_on_the_other_half(
    tmp_path,
):
    verdicts = claims.of_projections(stereotyped(PRINTED["S"], PRINTED["D"]), DRAWS)
    found = outcomes(verdicts, tmp_path / "08.json")
    assert set(found.values()) == {SUPPORTED} and len(found) == len(claims.OF_PROJECTIONS) + 2
    said = {one.claim: one.found for one in verdicts}
    assert len(CLAIMS) == 33 and set(claims.SAID) == {
        id for id, claim in CLAIMS.items() if not claim.not_testable
    }
    for id in ("hard2-worst", "attention-lowers", "attention-spoilt", "extend-np0", "extend-np1"):
        assert claims.SAID[id] == said[id]
    assert said["deeper-s"].startswith("3 of 3: 0.3") and said["lower-s"].endswith(
        "+ attn (0, 0, 1, 1, 0)"
    )
    lower = next(one for one in verdicts if one.claim == "lower-s")
    assert (
        lower.control.name == claims.RANDOM and lower.control.difference == lower.estimate
    )  # these change nothing
    # settings that differ by luck alone: the best of them is below base in sample, and not where it is judged
    measured, rng = stereotyped(np.full(76, 0.2), pairs=200), np.random.default_rng(0)
    measured["s"] = 0.2 + 0.1 * rng.normal(size=measured["s"].shape)
    halves = claims.of_bias(measured, "S", DRAWS)[WRITTEN]
    best = halves.best(claims.EVERY)
    in_sample = tables.by_model(measured)["S"]
    assert in_sample[2:].min() < in_sample.iloc[0] - 0.02 and best.change.low < 0 < best.change.high
    fitted, base = (
        tables.tops(measured["s"][0][:, half]) for half in split_half.split(200, np.random.default_rng(0))
    )
    assert halves.choose(claims.EVERY) == [2 + base[2:].argmin(), 2 + fitted[2:].argmin()]


def test_claims_fail_are_undecided_or_have_no_case_where_the_numbers_say_so():
    turned = outcomes(claims.of_projections(stereotyped(1 - PRINTED["S"], 1 - PRINTED["D"]), DRAWS))
    for id in (
        "sent-d",
        "extend-np0",
        "extend-np1",
        "hard2-worst",
        "attention-lowers",
        "attention-spoilt",
    ):
        assert turned[id] == CONTRADICTED, id
    rising = outcomes(claims.of_projections(stereotyped(np.linspace(0.1, 0.2, 76)), DRAWS))
    assert {rising[id] for id in ("deeper-s", "deeper-d", "lower-s", "lower-d")} == {CONTRADICTED}
    measured = stereotyped(PRINTED["S"], PRINTED["D"])
    measured["random"] = {key: measured[key].repeat(2, 0) for key in "sd"}
    verdicts = {one.claim: one for one in claims.of_projections(measured, DRAWS)}
    for id in ("lower-s", "lower-d", "sent-d", "deeper-s", "deeper-d", "attention-lowers"):
        assert str(verdicts[id]) == f"inconclusive (no more than {claims.RANDOM})", id
    assert verdicts["hard2-worst"].outcome == SUPPORTED
    measured = stereotyped(PRINTED["S"], PRINTED["D"])
    measured["s"] = measured["s"] * np.where(np.arange(40) % 2, 1, -1)
    verdicts = claims.of_projections(measured, DRAWS)
    of_d = {"lower-d", "sent-d", "deeper-d"}
    assert {one.claim for one in verdicts if one.outcome != NOT_APPLICABLE} == of_d | {
        "sent-debias",
        "ingredients",
    }
    assert (
        NOT_APPLICABLE
        not in outcomes(claims.of_projections(measured, DRAWS, ignore_preconditions=True)).values()
    )
    measured, other = (stereotyped(abs(k - PRINTED["S"]), abs(k - PRINTED["D"])) for k in (0, 1))
    measured |= {"fits": [WRITTEN, "other"]} | {
        key: np.concatenate([measured[key], other[key]]) for key in ("s", "d", "accuracy")
    }
    remarks = {one.claim: one.remark for one in claims.of_projections(measured, DRAWS)}
    assert (
        remarks["hard2-worst"] == f"decided by {WRITTEN}; 0 of 1 other fits agree"
        and not remarks["threshold"]
    )


def fair():
    """Two fits alike in which weighting at SENT is accurate, deeper is fairer, and random directions do nothing."""
    measured, rng = both_fits(), np.random.default_rng(0)
    depth = (
        tables.ABOUT["level"]
        .map({level: i for i, level in enumerate(LEVELS, 1)})
        .fillna(0)
        .to_numpy()
    )
    p = rng.random((76, measured["probabilities"].shape[2] // 2)).repeat(
        2, axis=1
    )  # the same for man and woman
    neutral = p < (0.05 + 0.3 * np.minimum(depth, 3))[:, None]
    probabilities = np.where(neutral[..., None], [0.1, 0.8, 0.1], [0.8, 0.1, 0.1])
    level = 0.9 - 0.01 * depth - 0.2 * (tables.ABOUT["np"] == 0).to_numpy()
    right = ((np.arange(1_600) + 0.5) / 1_600 < level[:, None])[:, rng.permutation(1_600)]
    measured |= {"probabilities": np.stack([probabilities] * 2), "right": np.stack([right] * 2)}
    neutral, agree = nli.by_model(
        measured | {"probabilities": probabilities[:1].repeat(76, 0)[None]}
    )
    return measured | {"random": {"neutral": neutral, "agree": agree}}


def test_claims_are_tested_under_each_reading_that_they_depend_on(tmp_path, few_draws):
    verdicts = claims.of_nli(fair(), PRINTED["S"], DRAWS)
    found = outcomes(verdicts, tmp_path / "09.json")
    assert len(verdicts) == 6 * 2 + 6 * 4 and {claim for claim, _ in found} == {
        one.id for one in claims.OF_NLI
    }
    single = {
        claim: outcome for (claim, variant), outcome in found.items() if variant in (nli.SINGLE,)
    }
    assert (
        single["np-all"]
        == single["np-mean"]
        == single["np-layer12"]
        == single["np-deep"]
        == SUPPORTED
    )
    assert single["deeper-snli"] == SUPPORTED
    higher = [one for one in verdicts if one.claim == "eta-higher"]
    assert {one.variant for one in higher} == {
        f"{fit}; {agree} agree" for fit in (nli.PAIRS, nli.SINGLE) for agree in claims.AGREE
    }
    assert {one.outcome for one in higher} == {SUPPORTED} and higher[1].control.difference.low > 0
    assert found["eta-rises", higher[1].variant] != CONTRADICTED
    rho = next(one for one in verdicts if one.claim == "uncorrelated")
    assert "within np = 0: " in rho.remark and "np = 1: " in rho.found


def test_where_nothing_is_viable_or_the_classifier_guesses_there_is_no_case(few_draws):
    none = fair()
    none["right"][:, 1:] = False
    found = outcomes(claims.of_nli(none, PRINTED["S"], DRAWS))
    for id in ("eta-higher", "eta-rises", "eta-attn", "other-settings"):
        assert {outcome for (claim, _), outcome in found.items() if claim == id} == {
            NOT_APPLICABLE
        }, id
    assert (
        found["np-deep", nli.PAIRS]
        == found["np-layer12", nli.PAIRS]
        == found["attn-viable", nli.PAIRS]
        == NOT_APPLICABLE
    )
    guessing = fair()
    guessing["right"] = np.random.default_rng(0).random(guessing["right"].shape) < 1 / 3
    assert set(outcomes(claims.of_nli(guessing, PRINTED["S"], DRAWS)).values()) == {NOT_APPLICABLE}
