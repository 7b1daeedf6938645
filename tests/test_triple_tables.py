"""Tables of notebook 07: which triples they show, SS, S and D; by hand."""

import numpy as np
import pandas as pd
import pytest

from companion import printed
from companion.projective import tables, triple_tables
from lib.engine import nsp
from lib.projective import triples

# p(next) of four triples: stereo, anti, unrelated, then the same three after the swap.
P_NEXT = pd.DataFrame(
    [
        ("F", 0.90, 0.80, 0.1, 0.80, 0.71, 0.9),  # s = .10 - .09 = .01, d = .8
        ("M", 0.99, 0.97, 0.2, 0.60, 0.90, 0.3),  # s = .02 + .30 = .32, d = .1; nearest in Table 1
        ("F", 0.30, 0.60, 0.4, 0.90, 0.20, 0.4),  # s = -.30 - .70 = -1, d = 0
        ("M", 0.90, 0.20, 0.6, 0.10, 0.70, 0.1),  # s = .70 + .60 = 1.3, d = .5
    ],
    index=pd.Index([0, 1, 3, 5], name="context_id"),
    columns=["gender", *nsp.COLUMNS],
)


def sentences():
    rows = []
    for number in P_NEXT.index:
        for label in nsp.LABELS:
            told = {"context_id": number, "label": label, "line": 10 * number + len(rows) % 3}
            told["gender"] = P_NEXT.loc[number, "gender"]
            for side in ("", "gender_swapped_"):
                told[f"{side}context"] = f"{side}A {number}."
                told[f"{side}next_sentence"] = f"{label} {number}."
            rows.append(told)
    return pd.DataFrame(rows)


def test_of_this_projects_triples_those_are_shown_that_show_what_the_papers_do():
    assert triple_tables.chosen(P_NEXT, "mini") == {
        ("Table 1", "triple"): 1,  # the smallest lead of those called right
        ("Table 3", "a"): 0,  # the s closest to 0 of those that SS counts
        ("Table 3", "b"): 5,
        ("Table 4", "a"): 0,
        ("Table 4", "b"): 5,
    }
    nothing = P_NEXT.assign(stereo=0.0)
    assert ("Table 1", "triple") not in triple_tables.chosen(nothing, "mini")
    empty = triple_tables.examples("Table 1", sentences(), nothing, "mini")
    assert len(empty) == 0 and "p(next)" in empty


def test_an_example_has_a_row_for_each_sentence_and_s_or_d_in_its_first():
    table = triple_tables.examples("Table 3", sentences(), P_NEXT, "mini")
    assert table["row"].tolist() == ["a", "a", "a_GS", "a_GS", "b", "b", "b_GS", "b_GS"]
    # the swap turns the stereotype round
    assert table["label"].tolist() == ["Stereo", "Anti", "Anti", "Stereo"] * 2
    assert table["p(next)"].tolist()[:4] == [0.9, 0.8, 0.8, 0.71]
    assert table["s"].tolist()[:2] == [pytest.approx(0.01), ""]
    assert table["sentence A"][2] == "gender_swapped_A 0."
    table4 = triple_tables.examples("Table 4", sentences(), P_NEXT, "mini")
    assert table4["d"].tolist() == [0.8, "", 0.5, ""]


def test_the_authors_examples_are_told_by_number_and_line_beside_the_printed_numbers(real_data):
    rows = triples.triples("paper", part="both")
    p_next = triples.frame(rows, np.linspace(0, 1, 2 * len(rows)))
    for name in triple_tables.SHOWN:
        table = triple_tables.examples(name, rows, p_next, "paper")
        assert not {"sentence A", "sentence B"} & set(table)
        assert (table["paper's p"] != "").all()
    ours = triple_tables.numbers(rows, p_next)
    theirs = printed.numbers(tables.PAPER).set_index(["table", "row", "column"])["value"]
    shown = [key for key in theirs.index if key[0] in triple_tables.SHOWN]
    assert set(ours) == set(shown)
    number = triples.printed_ids().set_index(["table", "row"])["value"]["Table 3", "b"]
    one = p_next.loc[number]
    by_hand = one["stereo"] - one["anti"] - one["gs_stereo"] + one["gs_anti"]
    assert ours["Table 3", "b", "s"] == pytest.approx(by_hand)


def test_the_summary_has_ss_s_and_d_of_as_many_triples_as_it_says():
    table = triple_tables.summary(P_NEXT)
    found = triple_tables.estimates(table)
    assert found["SS"].value == 0.75
    assert found["S"].value == pytest.approx(1.3)  # the one highest of four
    assert found["S, opposite"].value == pytest.approx(1)
    assert found["mean s"].value == pytest.approx((0.01 + 0.32 - 1 + 1.3) / 4)
    assert found["D"].value == pytest.approx(0.8)
    assert found["accuracy"].value == pytest.approx(nsp.right(P_NEXT).mean())
    assert set(table["n"]) == {4}
    for estimate in found.values():
        assert estimate.low <= estimate.value <= estimate.high
