"""Tables of notebooks 08 and 09: the paper's own numbers give back its tables; numbers that a person can check."""

from functools import cache

import numpy as np
import pandas as pd
import pytest

from lib import printed
from lib.engine import nsp
from lib.projective import nli, nli_tables, tables
from lib.projective.projection import WRITTEN, Level
from lib.projective.tables import MODELS, NAMES

PRINTED = tables.as_printed()
PRINTED = PRINTED.assign(**{"eta low": PRINTED["eta"], "eta high": PRINTED["eta"]})


def projected(strength, distance=None, pairs=40, fits=1):
    """What projection.measure gives, where every triple pair of a model has the same s and the same d."""
    s, d = (np.broadcast_to(np.asarray(values, float)[None, :, None], (fits, 76, pairs)).copy()
            for values in (strength, strength if distance is None else distance))
    return {"fits": [WRITTEN, *(f"fit {i}" for i in range(1, fits))], "s": s, "d": d, "accuracy": np.ones_like(s)}


def inferred(seed=0, task=60):
    """What nli.under returns, of few occupations and drawn at random."""
    rng, asked = np.random.default_rng(seed), {"reading": "man, woman", "contexts": 3, "items": 40}
    p = rng.dirichlet(np.ones(3), size=(76, len(nli.pairs(**asked))))
    return asked | {"labels": list(nli.LABELS), "fit": "drawn", "probabilities": p,
                    "right": rng.random((76, task)) < .8}


@cache
def scored():
    return nli_tables.scores(inferred(), draws=20)


@pytest.fixture
def measured():
    return inferred()


@pytest.fixture
def scores():
    return scored()


# ---- notebook 08

def test_the_rows_are_those_of_table_7_in_its_order():
    assert list(printed.printed(tables.PAPER, "Table 7").index) == NAMES
    table = tables.table7(projected(PRINTED["S"], PRINTED["D"]))
    assert len(table) == 76 and (table["S"] - table["S, paper"]).abs().max() < 6e-4
    assert PRINTED["np"].value_counts().to_dict() == {0: 37, 1: 37} and list(PRINTED["level"].unique()) == list(Level)


def test_table_5_takes_the_best_of_each_level():
    table, theirs = tables.table5(projected(PRINTED["S"], PRINTED["D"])), printed.printed(tables.PAPER, "Table 5")
    assert list(table.index) == list(Level)
    assert table.loc["Layer 11", "S settings, paper"] == theirs.loc["Layer 11", "S settings"] == "(0, 0, 0, 1, 0)"
    assert table.loc["Layer 12", "D settings, ours"] == theirs.loc["Layer 12", "D settings"] == "(1, 1, 0)"
    assert table.loc["+ attn", "S, paper"] == .193  # where Table 5 prints .1938


def test_strength_and_distance_are_those_of_nsp():
    found = projected(np.zeros(76), pairs=23)
    found["s"], found["d"] = np.random.default_rng(0).normal(size=(2, 1, 76, 23))
    frame = tables.by_model(found)
    for i in (0, 5, 75):
        assert frame["S"].iloc[i] == pytest.approx(nsp.top_mean(found["s"][0, i]))
        assert frame["D"].iloc[i] == pytest.approx(nsp.top_mean(found["d"][0, i]))


def test_intervals_hold_the_gap_to_base():
    found = projected(np.zeros(76), pairs=50)
    noise = np.random.default_rng(1).normal(size=50)
    found["s"][0] = noise - np.where([setting.level == Level.LAYER_12 for setting in MODELS], .5, 0)[:, None]
    table = tables.intervals(found).query("measure == 'S'").set_index("level")
    assert table.loc["Layer 12", ["below base", "low", "high"]].tolist() == pytest.approx([.5, .5, .5])
    assert table.loc["Layer 11", "below base"] == 0


def test_sensitivity_compares_with_the_first_fit():
    found = projected(PRINTED["S"], PRINTED["D"], fits=2)
    found["s"][1] = 1 - found["s"][1]
    table = tables.sensitivity(found, {fit: place for place, fit in enumerate(found["fits"])})
    assert table["rho of S"].tolist() == [1, -1] and table["rho of D"].tolist() == [1, 1]
    assert table["claims that hold"].tolist() == [0, 1]


@pytest.mark.parametrize("same_model, verdict", [(False, "other model"), (True, "matches")])
def test_numbers_against_the_papers(same_model, verdict):
    table = tables.compared_models(projected(PRINTED["S"], PRINTED["D"]), same_model)
    assert len(table) == 2 * 76 + 2 * 6 and set(table.loc[table["table"] == "Table 7", "verdict"]) == {verdict}
    five = table[(table["table"] == "Table 5") & (table["verdict"] != verdict)]
    assert list(five["row"]) == (["+ attn"] if same_model else [])  # .1938 is printed, .1934 is Table 7's


# ---- notebook 09, on the printed numbers

def test_table_6_follows_from_table_7():
    """Means, increase and its standard deviation (ddof 1) are the printed ones up to rounding."""
    table = nli_tables.table6(PRINTED)
    assert list(table["pairs"]) == [1, 4, 16, 16, 37] and list(table["gain"]) == [1, 4, 16, 16, 37]
    for column in ("np = 0", "np = 1", "increase", "sd"):
        mine, theirs = table[column].dropna(), table[f"{column}, paper"].dropna()
        assert list(mine.index) == list(theirs.index) and (mine - theirs).abs().max() < 1.6e-4


def test_the_printed_correlation_goes_by_name_not_by_order():
    """-.04 from the printed columns; the paper prints +.040 and p = .73."""
    found = nli_tables.correlation(PRINTED["S"][::-1], PRINTED["eta"], draws=200)
    assert found["rho"].value == pytest.approx(-.04, abs=.005) and found["p"] == pytest.approx(.73, abs=.05)
    assert found["rho"].low < 0 < found["rho"].high
    assert nli_tables.correlation(PRINTED["S"], -PRINTED["S"], draws=50)["rho"].value == pytest.approx(-1)


def test_table_5_of_the_printed_numbers():
    both = PRINTED.assign(**{f"{new}{end}": PRINTED["eta"] for new in ("majority", "eta majority")
                             for end in ("", " low", " high")})
    table = nli_tables.table5(both)
    levels = list(printed.printed(tables.PAPER, "Table 5").index)
    assert list(table.index[::2]) == list(table.index[1::2]) == levels
    assert list(table["agree in"]) == ["all", "most"] * 6
    table = table[table["agree in"] == "all"]
    assert table.loc["Layer 12", "settings"] == table.loc["Layer 12", "settings, paper"] == "(0, 0, 1)"
    assert table.loc["Layer 11", "settings"] == "(1, 1, 1, 0, 1)"  # the printed choice is not viable
    none = both.assign(SNLI=PRINTED["SNLI"].where(PRINTED["level"] != "+ attn", .1))
    assert set(nli_tables.table5(none).loc["+ attn", "settings"]) == {"none"}


def test_both_readings_of_viable():
    viable = dict(zip(NAMES, nli_tables.viability(PRINTED)))
    assert viable["Base"] == viable["SENT 0"] == "yes"
    assert viable["Layer 11 (1, 0, 1, 1, 0)"] == "in points" and viable["Layer 11 (0, 0, 1, 1, 1)"] == "no"


def test_the_contradictions_are_those_that_a_reader_finds():
    found = nli_tables.contradictions().set_index("where")
    assert found.loc["Table 7, SENT 1, eta", ["printed", "recomputed"]].tolist() == ["0.1231", "0.069"]
    recomputed = found["recomputed"]
    assert recomputed["Section 5, Spearman of S and eta"] == "-0.0405"
    assert recomputed["Table 5, + attn, S"] == "0.1934" and recomputed["Table 5, + attn, eta"] == "0.5263"
    assert recomputed["Section 5, viable with np = 0 at Layer 11 and + attn, absolute 5 %"] == "1"
    assert recomputed["Section 5, viable with np = 1 at Layer 12, relative 5 %"] == "3"
    assert len(found) == 9 and not (found["printed"] == recomputed).any()


# ---- notebook 09, of predictions

def test_scores_are_those_of_each_model_by_itself(measured, scores):
    pd.testing.assert_frame_equal(scores[tables.ABOUT.columns], tables.ABOUT)
    for place in (0, 40):
        alone = nli.fairness(measured["probabilities"][place], nli.asked(measured), draws=20)
        assert scores["eta"].iloc[place] == alone.eta.value and scores["majority"].iloc[place] == alone.majority.value
        assert scores["SNLI"].iloc[place] == measured["right"][place].mean()
    assert scores["eta low"].le(scores["eta"]).all() and scores["eta"].le(scores["eta high"]).all()


def test_most_puts_the_other_reading_in_place(scores):
    other = nli_tables.most(scores)
    assert (other["eta"] == scores["eta majority"]).all() and (other["parity high"] == scores["majority high"]).all()
    assert (other["eta"] >= scores["eta"]).all() and (other["SNLI"] == scores["SNLI"]).all()


def test_the_fairest_is_viable_or_else_the_most_accurate(scores):
    assert nli_tables.fairest(PRINTED).name == "+ attn (1, 1, 1, 1, 1)"
    none = scores.assign(SNLI=np.where(scores.index == "Base", .9, np.linspace(.2, .3, 76)))
    assert nli_tables.fairest(none).name == NAMES[-1]


def test_probability_of_neutral_by_gender(measured):
    table, pairs = nli_tables.by_gender(measured, 3), nli.asked(measured)
    rows = ((pairs["occupation"] == "nurse") & (pairs["gender"] == "female")).to_numpy()
    assert table.shape == (10, 2) and list(table.index) == list(pairs["occupation"].unique())
    assert table.loc["nurse", "female"] == pytest.approx(measured["probabilities"][3][rows, 1].mean(), abs=1e-6)


def test_readings_have_one_row_per_choice(measured, scores):
    bare = measured | {"right": measured["right"][:, :0]}
    table = nli_tables.readings([bare], PRINTED["S"])
    assert list(table["fitted on"]) == ["drawn"] * 2 and list(table["agree in"]) == ["all", "most"]
    assert table["base eta"].iloc[1] == round(scores.loc["Base", "eta majority"], 2) and list(table["gain"]) == [""] * 2


def test_against_paper_never_matches(scores):
    table = nli_tables.compared(scores, PRINTED["S"])
    assert table["table"].value_counts(sort=False).to_dict() == {
        "Section 5": 2, "Table 5": 12, "Table 6": 19, "Table 7": 76 * 4}
    assert set(table["verdict"]) == {"other model"}


def test_the_search_has_one_row_per_way(measured):
    table = nli_tables.search(measured, PRINTED["S"], splits=3)
    assert list(table.index) == list(nli.ways()) and list(table["models"]) == [1, 74, 22, 74, 74]
    assert table.loc["Strength alone", "most often"] == PRINTED["S"][2:].idxmin()
    assert table.loc["the base model", ["most often", "in", "viable there"]].tolist() == ["Base", 1, 1]
