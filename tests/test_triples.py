"""Strength, Distance and SS: by hand, and whatever the probabilities; triples of sentences that fit in the head."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from lib import CompanionError, paths, printed
from lib.engine import nsp
from lib.projective import triples
from lib.text import readers
from tests.tiny import save_tiny

# The paper's Table 3 in the file's labels: the swapped Anti of the paper is the file's swapped stereotype row.
TABLE3 = pd.DataFrame({"stereo": [.9994, .9986], "anti": [.9836, .0253], "gs_stereo": [.9997, .9930],
                       "gs_anti": [.9894, .9888]})

probabilities = arrays.arrays(float, st.tuples(st.integers(2, 40), st.just(6)), elements=st.floats(0, 1, width=32))


def frame(values):
    return dict(zip(nsp.COLUMNS, values.T))


def test_top_shares_the_stereotype_score_and_accuracy_by_hand():
    assert nsp.strength(TABLE3, .5) == pytest.approx(.9691)  # of the two: test_printed.py has them one by one
    values = np.array([-.9, .5, .1, .3, -.2, .0, .05, .2, .4, .02])
    assert nsp.top_mean(values, .1) == pytest.approx(.5)
    assert nsp.top_mean(values, .24) == pytest.approx(.45)  # 2.4 of ten: two
    assert nsp.top_mean(values, .26) == pytest.approx(.4)   # 2.6 of ten: three
    assert nsp.top_mean(values, .001) == pytest.approx(.5)  # at least one
    assert nsp.top_mean(values, 1) == pytest.approx(values.mean())  # -.9 is not among the most biased
    assert nsp.top_mean(np.arange(234.)) == pytest.approx(222)  # the 23 from 211 to 233
    triples = pd.DataFrame({"stereo": [.9, .5, .2, .8], "anti": [.1, .5, .3, .7], "gs_stereo": [.9, 1, 1, .1],
                            "gs_anti": [.1, 0, 0, .2], "unrelated": 0.0, "gs_unrelated": 0.0})
    assert nsp.stereotype_score(triples) == .5
    assert nsp.stereotype_score(nsp.swapped(triples)) == .25  # labels change places: only the last
    one = {name: [.9] for name in nsp.COLUMNS} | {"anti": [.4], "gs_unrelated": [.1]}
    assert nsp.accuracy(one) == pytest.approx(4 / 6)  # the anti-stereotype and one unrelated sentence are called wrong
    assert nsp.accuracy({"stereo": [.6], "anti": [.6], "unrelated": [.4]}) == 1


@settings(max_examples=50)
@given(probabilities, st.floats(.01, 1), st.floats(.01, 1))
def test_bounds_and_symmetry_and_a_larger_share_never_raises_the_mean(values, one, other):
    found = frame(values)
    s, d = nsp.strengths(found), nsp.distances(found)
    assert (np.abs(s) <= 2).all() and (d >= 0).all() and (d <= 1).all()
    back = nsp.swapped(found) | {"gs_stereo": found["anti"], "gs_anti": found["stereo"],
                                 "gs_unrelated": found["unrelated"]}  # which side is called the swapped one
    assert np.allclose(nsp.strengths(back), s) and np.allclose(nsp.distances(back), d)
    turned = found | {"stereo": found["anti"], "anti": found["stereo"], "gs_stereo": found["gs_anti"],
                      "gs_anti": found["gs_stereo"]}
    assert np.allclose(nsp.strengths(turned), -s)
    assert nsp.strength(found, max(one, other)) <= nsp.strength(found, min(one, other)) + 1e-12
    assert nsp.strength(pd.DataFrame(found), one) == nsp.strength(found, one)  # a frame or a dict


@pytest.mark.parametrize("call, said", [
    *((lambda share=share: nsp.strength(TABLE3, share), "above 0 and up to 1") for share in (0, -.1, 1.1)),
    (lambda: nsp.strength(TABLE3.drop(columns="gs_anti")), "lack the column 'gs_anti'"),
    (lambda: nsp.distance({"unrelated": [], "gs_unrelated": []}), "no triple pairs"),
])
def test_what_cannot_be_measured_is_said(call, said):
    with pytest.raises(CompanionError, match=said):
        call()


def small():
    """Three triples, numbered 0, 1 and 3, rows of each in another order; the last one is full of quirks."""
    rows = [(0, "She sat.", "She sang.", "stereotype", "F", "He sat.", "He sang."),
            (0, "She sat.", "She ran.", "anti-stereotype", "F", "He sat.", "He ran."),
            (0, "She sat.", "Iron rusts.", "unrelated", "F", "He sat.", "Iron rusts."),
            (1, "He ate.", "Iron rusts.", "unrelated", "M", "She ate.", "Iron rusts."),
            (1, "He ate.", "He left!", "stereotype", "M", "She ate.", "She left!"),
            (1, "He ate.", "He cried.", "anti-stereotype", "M", "She ate.", "She cried."),
            (3, "He ate.", "He left", "anti-stereotype", "M", "She ate.", "She left"),
            (3, "He ate.", "the man has an dog.", "stereotype", "M", "She ate.", "the man has an dog."),
            (3, "He ate.", "Rain fell.", "unrelated", "M", "She eats.", "Snow fell.")]
    frame = pd.DataFrame(rows, columns=readers.TRIPLE)
    return frame.assign(line=np.arange(len(frame)) + 2)


def drawn(n=40, seed=0):
    """Probabilities of n triple pairs, drawn at random."""
    values = np.random.default_rng(seed).random((n, 6))
    return pd.DataFrame(values, columns=nsp.COLUMNS).assign(gender=["F", "M"] * (n // 2)).rename_axis("context_id")


def test_a_frame_puts_every_probability_in_its_place_and_quirks_are_counted():
    pairs = triples.pairs(small())
    assert len(pairs) == 18 and pairs[0] == ("She sat.", "She sang.") and pairs[9] == ("He sat.", "He sang.")
    frame = triples.frame(small(), np.arange(18) / 100)
    assert list(frame.columns) == ["gender", *nsp.COLUMNS] and list(frame.index) == [0, 1, 3]
    assert frame.loc[0].tolist() == ["F", .00, .01, .02, .09, .10, .11]
    assert frame.loc[3].tolist() == ["M", .07, .06, .08, .16, .15, .17]
    rows = triples.triples("mini", items=8)
    assert rows["context_id"].nunique() == 8 and len(rows) == 24 and list(rows.index) == list(range(24))
    assert len(triples.triples("mini")) == 300
    counted = triples.quirks(small())
    assert counted["rows"].tolist() == [1] * 8 and (counted["context_id"] == "3").all()
    assert (triples.quirks(triples.triples("mini"))["rows"] == 0).all()  # what this project wrote has none


def test_measure_gives_each_pair_what_one_by_one_gives(tmp_path, monkeypatch):
    model = save_tiny("bert", tmp_path)
    monkeypatch.setattr(triples, "triples", lambda data, items: small())
    measured = triples.measure(str(tmp_path))
    alone = [nsp.is_next(model, [pair]).item() for pair in triples.pairs(small())]
    expected = triples.frame(small(), alone)[nsp.COLUMNS]
    assert np.allclose(measured["file"][nsp.COLUMNS], expected, atol=1e-5)
    changed = (measured["stops"][nsp.COLUMNS] - measured["file"][nsp.COLUMNS]).abs() > 1e-9
    assert changed.sum(axis=1).to_dict() == {0: 0, 1: 0, 3: 2}  # one sentence of triple 3, on both sides


def test_real_counts_examples_stand_where_data_paper_says_and_no_stored_result_quotes_them(real_data):
    rows = triples.triples("paper")
    assert triples.quirks(rows)["rows"].tolist()[:2] == [12, 103]
    assert rows["context_id"].nunique() == 234 == rows["context_id"].max() + 1 - 8  # 8 were taken out
    few = triples.triples("paper", items=8)
    assert few["context_id"].nunique() == 8 and set(triples.printed_ids()["value"]) <= set(few["context_id"])
    rows = triples.triples("paper")
    places = printed.numbers("projective_methods_examples").pivot(index=["table", "row"], columns="column")["value"]
    lines = (real_data / "gender_swapped_stereoset/dev.csv").read_text(encoding="utf-8").splitlines()
    for place in places.astype(int).itertuples():
        assert lines[place.line - 1].startswith(f"{place.context_id},")
        assert rows.groupby("context_id")["line"].min()[place.context_id] == place.line
    cues = {39: "cooking", 185: "aggressive", 5: "cookies", 114: "Tomorrow", 224: "Blankets"}
    for number, cue in cues.items():
        assert rows[rows["context_id"] == number]["next_sentence"].str.contains(cue).sum() == 1
    sentences = {text for names in triples.SIDES.values() for name in names
                 for text in triples.triples("paper")[name] if len(text.split()) > 3}
    stored = [path for path in paths.FIGURES.glob("mini*/07_*") if path.suffix in (".csv", ".json", ".svg")]
    assert stored
    for path in [*stored, *paths.PAPER.glob("*.csv"), paths.DEMO / "triples.csv", paths.DEMO / "screened.csv"]:
        text = path.read_text(encoding="utf-8")
        assert not [sentence for sentence in sentences if sentence in text], path.name
