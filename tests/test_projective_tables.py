"""Numbers of the 76 models: the paper's own give back what it prints of them; numbers that a person can check."""

from functools import cache

import numpy as np
import pandas as pd
import pytest

from lib import printed
from lib.engine import nsp
from lib.projective import nli, tables
from lib.projective.projection import WRITTEN, Level
from lib.projective.tables import NAMES

PRINTED = tables.as_printed()
PRINTED = PRINTED.assign(**{"eta low": PRINTED["eta"], "eta high": PRINTED["eta"]})


def projected(strength, distance=None, pairs=40):
    """What projection.measure gives, where every triple pair of a model has the same s and the same d.

    Random directions change nothing.
    """
    s, d = (np.broadcast_to(np.asarray(values, float)[None, :, None], (1, 76, pairs)).copy()
            for values in (strength, strength if distance is None else distance))
    random = {key: np.broadcast_to(values[:, :1], (2, 76, pairs)) for key, values in (("s", s), ("d", d))}
    return {"fits": [WRITTEN], "s": s, "d": d, "accuracy": np.ones_like(s), "random": random}


def both_fits():
    """What nli.measure returns, of few occupations and drawn at random; the two fits are the same."""
    rng, asked = np.random.default_rng(0), {"reading": "man, woman", "contexts": 3, "items": 40}
    p = rng.dirichlet(np.ones(3), size=(1, 76, len(nli.pairs(**asked))))
    right, about = rng.random((1, 76, 60)) < .8, asked | {"labels": list(nli.LABELS)}
    neutral, agree = nli.by_model(about | {"probabilities": p[:, :1].repeat(76, 1)})  # random directions: as base
    return about | {"fits": [nli.PAIRS, nli.SINGLE], "probabilities": p.repeat(2, 0), "right": right.repeat(2, 0),
                    "random": {"neutral": neutral, "agree": agree, "right": right.mean(-1)}}


def inferred():
    """What nli.under returns of these."""
    return nli.under(both_fits(), nli.PAIRS)


@cache
def scored():
    return tables.scores(inferred(), draws=20)


# ---- notebook 08

def test_the_rows_are_those_of_table_7_in_its_order():
    assert list(printed.printed(tables.PAPER, "Table 7").index) == NAMES
    assert PRINTED["np"].value_counts().to_dict() == {0: 37, 1: 37} and list(PRINTED["level"].unique()) == list(Level)


def test_strength_and_distance_are_those_of_nsp():
    measured = projected(np.zeros(76), pairs=23)
    measured["s"], measured["d"] = np.random.default_rng(0).normal(size=(2, 1, 76, 23))
    frame = tables.by_model(measured)
    for i in (0, 5, 75):
        assert frame["S"].iloc[i] == pytest.approx(nsp.top_mean(measured["s"][0, i]))
        assert frame["D"].iloc[i] == pytest.approx(nsp.top_mean(measured["d"][0, i]))


# ---- notebook 09, on the printed numbers

def test_table_6_follows_from_table_7():
    """Means, increase and its standard deviation (ddof 1) of the 37 pairs are the printed ones up to rounding."""
    pairs, theirs = tables.gains(PRINTED), printed.printed(tables.PAPER, "Table 6")
    groups = [*pairs.groupby("level", sort=False), ("All", pairs)]
    assert [len(group) for _, group in groups] == [1, 4, 16, 16, 37] and (pairs["increase"] > 0).all()
    for level, group in groups:
        ours = group.mean(numeric_only=True).to_dict() | {"sd": group["increase"].std(ddof=1)}
        for column, number in ours.items():
            assert number == pytest.approx(theirs.loc[level, column], abs=1.6e-4, nan_ok=True)


def test_the_contradictions_are_those_that_a_reader_finds():
    contradictions = tables.contradictions().set_index("where")
    assert contradictions.loc["Table 7, SENT 1, eta", ["printed", "recomputed"]].tolist() == ["0.1231", "0.069"]
    recomputed = contradictions["recomputed"]
    assert recomputed["Section 5, Spearman of S and eta"] == "-0.0405"
    assert recomputed["Table 5, + attn, S"] == "0.1934" and recomputed["Table 5, + attn, eta"] == "0.5263"
    assert recomputed["Section 5, viable with np = 0 at Layer 11 and + attn, absolute 5 %"] == "1"
    assert recomputed["Section 5, viable with np = 1 at Layer 12, relative 5 %"] == "3"
    assert len(contradictions) == 9 and not (contradictions["printed"] == recomputed).any()


# ---- notebook 09, of predictions

def test_scores_are_those_of_each_model_by_itself():
    measured, scores = inferred(), scored()
    pd.testing.assert_frame_equal(scores[tables.ABOUT.columns], tables.ABOUT)
    for place in (0, 40):
        alone = nli.by_occupation(measured["probabilities"][place], nli.asked(measured))
        neutral, agree = (values[place] for values in nli.by_model(measured))
        np.testing.assert_allclose(alone[["neutral", "agree"]], np.transpose([neutral, agree]))
        assert scores["eta"].iloc[place] == pytest.approx(alone["neutral"].mean() * (alone["agree"] == 1).mean())
        assert scores["majority"].iloc[place] == pytest.approx((alone["agree"] > .5).mean())
        assert scores["SNLI"].iloc[place] == measured["right"][place].mean()
    assert scores["eta low"].le(scores["eta"]).all() and scores["eta"].le(scores["eta high"]).all()


def test_most_puts_the_other_reading_in_place():
    scores, other = scored(), tables.most(scored())
    assert (other["eta"] == scores["eta majority"]).all() and (other["parity high"] == scores["majority high"]).all()
    assert (other["eta"] >= scores["eta"]).all() and (other["SNLI"] == scores["SNLI"]).all()


def test_the_best_of_the_printed_models_are_viable():
    base = PRINTED.loc["Base", "SNLI"]
    assert tables.best(PRINTED[2:], base).name == "+ attn (1, 1, 1, 1, 1)"
    levels = tables.by_level(PRINTED)
    assert levels["Layer 12"]["settings"] == "(0, 0, 1)"  # as printed
    assert levels["Layer 11"]["settings"] == "(1, 1, 1, 0, 1)"  # the printed choice is not viable
    viable = dict(zip(NAMES, tables.viability(PRINTED)))
    assert viable["Layer 11 (1, 0, 1, 1, 0)"] == "in points" and viable["Layer 11 (0, 0, 1, 1, 1)"] == "no"
    none = PRINTED.assign(SNLI=PRINTED["SNLI"].where(PRINTED["level"] != "+ attn", .1))
    assert tables.by_level(none)["+ attn"] is None
