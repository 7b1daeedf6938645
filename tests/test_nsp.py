"""Strength, Distance and SS: by hand, and what must hold whatever the probabilities."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from lib import CompanionError
from lib.engine import nsp

# The paper's Table 3 in the file's labels: the swapped Anti of the paper is the file's swapped stereotype row.
TABLE3 = pd.DataFrame({"stereo": [.9994, .9986], "anti": [.9836, .0253], "gs_stereo": [.9997, .9930],
                       "gs_anti": [.9894, .9888]})

probabilities = arrays.arrays(float, st.tuples(st.integers(2, 40), st.just(6)), elements=st.floats(0, 1, width=32))


def frame(values):
    return dict(zip(nsp.COLUMNS, values.T))


def test_the_top_share_is_rounded_and_signed():
    assert nsp.strength(TABLE3, .5) == pytest.approx(.9691)  # of the two: test_printed.py has them one by one
    values = np.array([-.9, .5, .1, .3, -.2, .0, .05, .2, .4, .02])
    assert nsp.top_mean(values, .1) == pytest.approx(.5)
    assert nsp.top_mean(values, .24) == pytest.approx(.45)  # 2.4 of ten: two
    assert nsp.top_mean(values, .26) == pytest.approx(.4)   # 2.6 of ten: three
    assert nsp.top_mean(values, .001) == pytest.approx(.5)  # at least one
    assert nsp.top_mean(values, 1) == pytest.approx(values.mean())  # -.9 is not among the most biased
    assert nsp.top_mean(np.arange(234.)) == pytest.approx(222)  # the 23 from 211 to 233


def test_stereotype_score_counts_strict_preferences_of_one_side():
    triples = pd.DataFrame({"stereo": [.9, .5, .2, .8], "anti": [.1, .5, .3, .7], "gs_stereo": [.9, 1, 1, .1],
                            "gs_anti": [.1, 0, 0, .2], "unrelated": 0.0, "gs_unrelated": 0.0})
    assert nsp.stereotype_score(triples) == .5
    assert nsp.stereotype_score(nsp.swapped(triples)) == .25  # labels change places: only the last


def test_accuracy_by_hand():
    one = {name: [.9] for name in nsp.COLUMNS} | {"anti": [.4], "gs_unrelated": [.1]}
    assert nsp.accuracy(one) == pytest.approx(4 / 6)  # the anti-stereotype and one unrelated sentence are called wrong
    assert nsp.accuracy({"stereo": [.6], "anti": [.6], "unrelated": [.4]}) == 1


@settings(max_examples=50, deadline=None)
@given(probabilities)
def test_bounds_and_symmetry(values):
    found = frame(values)
    s, d = nsp.strengths(found), nsp.distances(found)
    assert (np.abs(s) <= 2).all() and (d >= 0).all() and (d <= 1).all()
    back = nsp.swapped(found) | {"gs_stereo": found["anti"], "gs_anti": found["stereo"],
                                 "gs_unrelated": found["unrelated"]}  # which side is called the swapped one
    assert np.allclose(nsp.strengths(back), s) and np.allclose(nsp.distances(back), d)
    turned = found | {"stereo": found["anti"], "anti": found["stereo"], "gs_stereo": found["gs_anti"],
                      "gs_anti": found["gs_stereo"]}
    assert np.allclose(nsp.strengths(turned), -s)


@settings(max_examples=50, deadline=None)
@given(probabilities, st.floats(.01, 1), st.floats(.01, 1))
def test_a_larger_share_never_raises_the_mean(values, one, other):
    found = frame(values)
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
