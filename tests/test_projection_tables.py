"""Notebook 08's tables: the paper's statements counted on its own numbers, and numbers that a person can check."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from tiny import tiny

from lib import printed as paper
from lib.engine import hooks, models, nsp
from lib.projective import projection, projection_fits, projection_tables, stereoset
from lib.projective.projection import Cut
from lib.projective.projection_tables import MODELS, NAMES


def made(strength, distance=None, pairs=40, fits=1):
    """What `measure` gives, where every triple pair of a model has the same s and the same d."""
    s, d = (np.broadcast_to(np.asarray(values, float)[None, :, None], (fits, 76, pairs)).copy()
            for values in (strength, strength if distance is None else distance))
    names = [projection_fits.WRITTEN, *(f"fit {i}" for i in range(1, fits))]
    return {"fits": names, "s": s, "d": d, "accuracy": np.ones_like(s)}


def printed(column):
    return paper.printed("projective_methods", "Table 7").loc[NAMES, column].to_numpy()


def test_the_rows_are_those_of_table_7_in_its_order():
    assert list(paper.printed("projective_methods", "Table 7").index) == NAMES
    found = projection_tables.table7(made(printed("S"), printed("D")))
    assert len(found) == 76 and (found["S"] - found["S, paper"]).abs().max() < 6e-4
    assert found.index[0] == "Base" and found.index[-1] == "+ attn (1, 1, 1, 1, 1)"


def test_on_the_papers_own_numbers_its_claims_are_counted_as_it_counts_them():
    found = projection_tables.claims(made(printed("S"), printed("D")), draws=3).set_index("claim")
    counted = found.drop(index=[name for name in found.index if name.startswith("The threshold")])
    assert (counted["paper"] == counted["ours"]).all()
    assert set(counted["verdict"]) == {"holds"} and set(counted["redrawn"]) == {"1.00"}
    said = found["paper"].to_dict()
    assert said["At Layer 11 (0, 1) has the worst S, all else equal"] == "8 of 8"
    assert said["Attention lowers S of the 24 without (0, 1) at Layer 11"] == "24 of 24"
    assert said["Attention does not lower S of the 8 with it"] == "8 of 8"
    assert sum(text == "3 of 3 lower it; (0, 1) does not" for text in said.values()) == 2
    assert said["Every deeper level has a better best S"] == "3 of 3 steps: 0.308, 0.288, 0.246, 0.193"


def test_claims_fail_where_the_numbers_are_turned_round():
    turned = projection_tables.claims(made(1 - printed("S"), 1 - printed("D")), draws=0).set_index("claim")["verdict"]
    for start in ("SENT alone lowers", "Of 4 extensions", "At Layer 11", "Attention"):
        assert set(turned[turned.index.str.startswith(start)]) == {"fails"}, start
    rising = projection_tables.claims(made(np.linspace(.1, .2, 76)), draws=0).set_index("claim")["verdict"]
    assert set(rising[rising.index.str.startswith("Every deeper level")]) == {"fails"}


def test_a_claim_that_hangs_on_one_triple_is_within_chance():
    """SENT's D is below base's in all pairs but one, which is always in the top when it is drawn, and decides."""
    found = made(printed("S"), printed("D"), pairs=10)
    found["d"][0, 0, 0] = 2.0
    found["d"][0, 0, 1:] = .1
    table = projection_tables.claims(found, draws=200).set_index("claim").loc["SENT alone lowers D"]
    assert table["verdict"] == "holds (within chance)"
    assert abs(float(table["redrawn"]) - (1 - .9 ** 10)) < .1


def test_table_5_takes_the_best_of_each_level():
    table = projection_tables.table5(made(printed("S"), printed("D")))
    theirs = paper.printed("projective_methods", "Table 5")
    assert list(table.index) == ["Base", "Sent-debias", "SENT", "Layer 12", "Layer 11", "+ attn"]
    assert table.loc["Layer 11", "S settings, paper"] == theirs.loc["Layer 11", "S settings"] == "(0, 0, 0, 1, 0)"
    assert table.loc["Layer 12", "D settings, ours"] == theirs.loc["Layer 12", "D settings"] == "(1, 1, 0)"
    assert table.loc["+ attn", "S, paper"] == .193  # where Table 5 prints .1938


def test_strength_and_distance_are_those_of_nsp():
    rng = np.random.default_rng(0)
    found = made(np.zeros(76), pairs=23)
    found["s"], found["d"] = rng.normal(size=(2, 1, 76, 23))
    frame = projection_tables.summary(found)
    for i in (0, 5, 75):
        assert frame["S"].iloc[i] == pytest.approx(nsp.top_mean(found["s"][0, i]))
        assert frame["D"].iloc[i] == pytest.approx(nsp.top_mean(found["d"][0, i]))


def test_intervals_hold_the_gap_to_base():
    rng = np.random.default_rng(1)
    found = made(np.zeros(76), pairs=50)
    noise = rng.normal(size=50)
    found["s"][0] = noise - np.where([one.level == "Layer 12" for one in MODELS], .5, 0)[:, None]
    table = projection_tables.intervals(found).query("measure == 'S'").set_index("level")
    assert table.loc["Layer 12", ["below base", "low", "high"]].tolist() == pytest.approx([.5, .5, .5])
    assert table.loc["Layer 11", "below base"] == 0


def test_sensitivity_compares_with_the_first_fit():
    found = made(printed("S"), printed("D"), fits=2)
    found["s"][1] = 1 - found["s"][1]
    table = projection_tables.sensitivity(found)
    assert table["rho of S"].tolist() == [1, -1] and table["rho of D"].tolist() == [1, 1]
    assert table["claims that hold"].iloc[0] > table["claims that hold"].iloc[1]


@pytest.mark.parametrize("same_model, verdict", [(False, "other model"), (True, "matches")])
def test_numbers_against_the_papers(same_model, verdict):
    table = projection_tables.against_paper(made(printed("S"), printed("D")), same_model)
    assert len(table) == 2 * 76 + 2 * 6
    seven = table[table["table"] == "Table 7"]
    assert set(seven["verdict"]) == {verdict}
    five = table[(table["table"] == "Table 5") & (table["verdict"] != verdict)]
    assert list(five["row"]) == (["+ attn"] if same_model else [])  # .1938 is printed, .1934 is Table 7's


def test_explained_variance_is_listed_by_head_and_component():
    parts = {("cls", projection.BASE): projection.Subspace(torch.eye(2, 4), torch.tensor([.6, .3])),
             ("cls", replace(projection.BASE, tokens=Cut(True))): projection.Subspace(torch.eye(2, 4), torch.ones(2)),
             ("q", projection.BASE): projection.Subspace(torch.ones(3, 1, 1), torch.tensor([[.5], [.4], [.3]]))}
    table = projection_fits.explained({"a fit": projection.Subspaces(parts, 3)})
    expected = [("cls", 0, 1, .6), ("cls", 0, 2, .3), ("q", 1, 1, .5), ("q", 2, 1, .4), ("q", 3, 1, .3)]
    pd.testing.assert_frame_equal(table.drop(columns="fit"),
                                  pd.DataFrame(expected, columns=["part", "head", "component", "share"]), rtol=1e-6)


def test_cosines_compare_first_components_whatever_their_sign():
    def fitted(rows, refitted=False):
        one = projection.Subspace(torch.tensor(rows), torch.ones(len(rows)))
        parts = {(part, projection.BASE): one for part in ("q", "k", "v", "tokens", "cls", "sent")}
        return projection.Subspaces(parts, 3, refitted)

    table = projection_fits.cosines({"a": fitted([[1.0, 0]]), "b": fitted([[-.6, .8]]), "c": fitted([[1.0, 0]], True)})
    assert list(table.index) == ["b"] and table.loc["b"].tolist() == pytest.approx([.6] * 6)


def test_the_measurement_puts_each_probability_in_its_place(monkeypatch):
    """A tiny BERT, two settings, two fits: s, d and accuracy as nsp.py makes them of stereoset.frame."""
    model = tiny("bert")
    rows = stereoset.triples("mini")
    rows = rows[rows["context_id"].isin([2, 0, 5])].reset_index(drop=True)
    pairs = [("she likes poetry .", "he likes poetry ."), ("a woman was late .", "a man was late ."),
             ("she was here .", "he was here .")]
    chosen = {"one": projection.fit(model, pairs), "two": projection.fit(model, pairs, center=True)}
    monkeypatch.setattr(models, "load", lambda name, device=None: model)
    monkeypatch.setattr(stereoset, "triples", lambda data: rows)
    monkeypatch.setattr(stereoset, "pairs", lambda rows, run=stereoset.pairs: [
        (a[:24], b[:24]) for a, b in run(rows)])  # the tiny model reads letters, and has 40 positions
    monkeypatch.setattr(projection_fits, "fits", lambda model, data, seed: chosen)
    monkeypatch.setattr(projection, "models", lambda: projection.settings()[::40])
    found = projection_fits.measure("tiny", "mini")
    assert found["s"].shape == found["d"].shape == found["accuracy"].shape == (2, 2, 3)
    with hooks.project(model, chosen["two"].interventions(projection.settings()[40])):
        frame = stereoset.frame(rows, nsp.is_next(model, stereoset.pairs(rows)))
    np.testing.assert_allclose(found["s"][1, 1], nsp.strengths(frame), atol=1e-5)
    np.testing.assert_allclose(found["d"][1, 1], nsp.distances(frame), atol=1e-5)
    assert found["accuracy"][1, 1].mean() == pytest.approx(nsp.accuracy(frame))
