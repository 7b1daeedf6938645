"""Triples: SS, Strength and Distance by hand, the files, and what notebook 07 says of them."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as arrays

from companion import printed
from companion.projective import stereoset
from lib import paths
from lib.engine import nsp
from lib.projective import triples
from lib.text import readers
from tests.tiny import refuses, save_tiny

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


# ---- the measures
def test_the_mean_of_top_shares_by_hand():
    # of the two triples; test_printed.py has them one by one
    assert nsp.strength(TABLE3, 0.5) == pytest.approx(0.9691)
    values = np.array([-0.9, 0.5, 0.1, 0.3, -0.2, 0.0, 0.05, 0.2, 0.4, 0.02])
    assert nsp.top_mean(values, 0.001) == pytest.approx(0.5)  # at least one
    assert nsp.top_mean(values, 0.24) == pytest.approx(0.45)  # two of ten
    assert nsp.top_mean(values, 0.26) == pytest.approx(0.4)  # three: -.9 is not the most biased
    assert nsp.top_mean(values, 1) == pytest.approx(values.mean())
    assert nsp.top_mean(np.arange(234.0)) == pytest.approx(222)  # the 23 from 211 to 233


def test_the_stereotype_score_and_accuracy_by_hand():
    frame = pd.DataFrame(
        {
            "stereo": [0.9, 0.5, 0.2, 0.8],
            "anti": [0.1, 0.5, 0.3, 0.7],
            "gs_stereo": [0.9, 1, 1, 0.1],
            "gs_anti": [0.1, 0, 0, 0.2],
            "unrelated": 0.0,
            "gs_unrelated": 0.0,
        }
    )
    assert nsp.stereotype_score(frame) == 0.5
    assert nsp.stereotype_score(nsp.swapped(frame)) == 0.25  # only the last
    one = {name: [0.9] for name in nsp.COLUMNS} | {"anti": [0.4], "gs_unrelated": [0.1]}
    # the anti-stereotype and an unrelated sentence are called wrong
    assert nsp.right(one).mean() == pytest.approx(4 / 6)


PROBABILITIES = arrays.arrays(
    float, st.tuples(st.integers(2, 40), st.just(6)), elements=st.floats(0, 1, width=32)
)


@settings(max_examples=25)
@given(PROBABILITIES, st.floats(0.01, 1), st.floats(0.01, 1))
def test_bounds_and_symmetry_and_a_larger_share_never_raises_the_mean(values, one, other):
    found = dict(zip(nsp.COLUMNS, values.T))
    s = nsp.strengths(found)
    d = nsp.distances(found)
    assert (np.abs(s) <= 2).all() and (d >= 0).all() and (d <= 1).all()
    # with the sides exchanged s has the other sign, d the same
    other_side = dict(zip(nsp.COLUMNS, np.roll(values, 3, axis=1).T))
    assert np.allclose(nsp.strengths(other_side), -s) and np.allclose(nsp.distances(other_side), d)
    assert nsp.strength(found, max(one, other)) <= nsp.strength(found, min(one, other)) + 1e-12


test_what_cannot_be_measured_is_said = refuses(
    (lambda: nsp.strength(TABLE3, 0), "above 0 and up to 1"),
    (lambda: nsp.strength(TABLE3, 1.1), "above 0 and up to 1"),
    (lambda: nsp.strength(TABLE3.drop(columns="gs_anti")), "lack the column 'gs_anti'"),
    (lambda: nsp.distance({"unrelated": [], "gs_unrelated": []}), "no triple pairs"),
    (lambda: triples.triples("mini", part="test"), "own triples have no part 'test'"),
    (lambda: triples.triples("paper", part="train"), "StereoSet 'train'.*: choose one of dev, test"),
)


# ---- the files
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
    assert (pairs[0], pairs[9]) == (("She sat.", "She sang."), ("He sat.", "He sang."))
    frame = triples.frame(small(), np.arange(18) / 100)
    assert list(frame.columns) == ["gender", *nsp.COLUMNS]
    assert list(frame.index) == [0, 1, 3]
    assert frame.loc[0].tolist() == ["F", 0.00, 0.01, 0.02, 0.09, 0.10, 0.11]
    assert frame.loc[3].tolist() == ["M", 0.07, 0.06, 0.08, 0.16, 0.15, 0.17]


def test_a_try_takes_whole_triples_and_quirks_are_counted():
    rows = triples.triples("mini", items=8)
    assert rows["context_id"].nunique() == 8 and list(rows.index) == list(range(24))
    assert len(triples.triples("mini")) == 300
    counted = triples.quirks(small())
    assert counted["rows"].tolist() == [1] * 8 and (counted["context_id"] == "3").all()
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


def test_the_authors_two_files_have_ids_of_their_own_and_their_examples_stand_where_data_says(
    real_data,
):
    dev, test, both = (triples.triples("paper", part=part) for part in ("dev", "test", "both"))
    assert dev.equals(triples.triples("paper"))
    assert triples.quirks(dev)["rows"].tolist()[:2] == [12, 103]
    assert dev["context_id"].nunique() == 234 == dev["context_id"].max() + 1 - 8  # 8 taken out
    genders = test.drop_duplicates("context_id")["gender"].value_counts().to_dict()
    assert genders == {"F": 375, "M": 374}
    assert both.equals(pd.concat([dev, test], ignore_index=True))
    assert set(dev["context_id"]).isdisjoint(test["context_id"])
    for part, rows in (("dev", dev), ("test", test)):
        file = real_data / f"gender_swapped_stereoset/{part}.csv"
        lines = file.read_text(encoding="utf-8").splitlines()
        first_id = readers.FIRST_ID["test"] if part == "test" else 0
        for row in rows[["context_id", "line"]].itertuples():
            assert lines[row.line - 1].startswith(f"{row.context_id - first_id},")
    examples = printed.numbers("projective_examples")
    places = examples.pivot(index=["table", "row"], columns="column")["value"].astype(int)
    first_line = dev.groupby("context_id")["line"].min()
    assert (first_line[places["context_id"]].to_numpy() == places["line"]).all()
    for part in ("dev", "both"):
        few = triples.triples("paper", items=8, part=part)
        assert few["context_id"].nunique() == 8
        assert set(triples.printed_ids()["value"]) <= set(few["context_id"])


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


# ---- notebook 07: what claims are tested by
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
    assert set(stereoset.needs(frame).values()) == {""}
    assert stereoset.in_the_twin(frame).value == 1  # always the same sentence
    assert stereoset.above_opposite(frame).high == 0  # no stereotype
    assert stereoset.near_zero(frame).value == 1
    assert tuple(stereoset.unrelated_flips(frame)) == (0, 0, 0)
    counted = stereoset.is_counted(frame).sum()
    assert stereoset.in_the_twin(frame).n == stereoset.by_a_hair(frame).n == counted


def test_a_model_full_of_stereotypes():
    frame = triples_read_right()
    frame[SWAPPED_SIDE] = frame[WRITTEN_SIDE].to_numpy()
    frame[["stereo", "gs_anti"]] = 0.9
    frame[["anti", "gs_stereo"]] = 0.6
    frame.loc[:9, ["unrelated", "gs_unrelated"]] = 0.2, 0.7  # ten of forty calls flip
    assert stereoset.above_opposite(frame).value == pytest.approx(2 * 0.6)
    assert stereoset.in_the_twin(frame).high == 0
    assert stereoset.near_zero(frame).high == 0
    assert stereoset.flips(frame).sum(0).tolist() == [0, 0, 10]
    gap = stereoset.unrelated_flips(frame)
    assert gap.value == 0.25 and gap.low > 0.1 and (gap.n, gap.unit) == (40, "triple pairs")


def test_a_hair_is_a_hundredth_of_the_spread_of_p_next():
    """p(next) is .9 or .1, but for leads of .007 in ten of the forty triples, .009 in ten."""
    frame = triples_read_right()
    frame[["stereo", "anti", "gs_stereo", "gs_anti"]] = 0.9, 0.8, 0.9, 0.8
    frame[["unrelated", "gs_unrelated"]] = 0.1
    frame.loc[:9, "anti"] = 0.9 - 0.007
    frame.loc[10:19, "anti"] = 0.9 - 0.009
    frame.loc[30:, ["stereo", "anti"]] = 0.8, 0.9  # not counted
    found = stereoset.by_a_hair(frame)
    assert (found.value, found.n) == (pytest.approx(10 / 30), 30)
    few = frame[:9]
    assert np.isnan(stereoset.by_a_hair(few).value)
    assert stereoset.too_few(stereoset.is_counted(few)).startswith("SS counts 9 triples")


@pytest.mark.parametrize("middle", [0.5, 0.56])
def test_an_untrained_network_reads_nothing(middle):
    """p(next) next to constant: s, leads and what the swap changes are small, and mean nothing."""
    frame = triples_read_right()
    rng = np.random.default_rng(1)
    written = middle + 0.001 * rng.normal(size=(len(frame), 3))
    frame[WRITTEN_SIDE] = written
    frame[SWAPPED_SIDE] = written + 1e-5 * rng.standard_t(2, size=written.shape)
    needs = stereoset.needs(frame)
    assert needs["differs"] == "" and needs["reads"].startswith(stereoset.BLIND)
    assert stereoset.above_opposite(frame).high < 0.01
    assert not stereoset.unrelated_flips(frame).low > 0
    frame[nsp.COLUMNS] = middle
    assert stereoset.needs(frame)["differs"]


def test_s_is_close_to_0_whether_or_not_a_triple_is_read_right():
    """The paper says it of all triple pairs. Ten s of 1 and thirty of .19: below a fifth of the
    mean of the highest tenth, which is 1; one of .21 in their place is not.
    """
    frame = triples_read_right()
    frame[SWAPPED_SIDE] = frame[WRITTEN_SIDE].to_numpy()
    frame["anti"] = frame["gs_anti"] = 0.0  # never called the next sentence: all misread
    frame["stereo"] = frame["gs_stereo"] + np.where(np.arange(40) < 10, 1.0, 0.19)
    assert stereoset.near_zero(frame).value == 30 / 40
    frame.loc[39, "stereo"] = frame.loc[39, "gs_stereo"] + 0.21
    assert stereoset.near_zero(frame).value == 29 / 40


def test_on_both_files_claims_are_tested_on_all_triples_and_on_those_of_the_papers_file():
    both = stereoset.files([*range(30), *range(1000, 1010)])
    assert {name: chosen.sum() for name, chosen in both.items()} == {
        stereoset.BOTH_FILES: 40,
        stereoset.PAPERS_FILE: 30,
    }
    assert {name: chosen.sum() for name, chosen in stereoset.files(range(30)).items()} == {"": 30}
