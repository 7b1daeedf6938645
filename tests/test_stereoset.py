"""Triples and their tables: counted on sentences that fit in the head, and on the real file where it is at hand."""

import numpy as np
import pandas as pd
import pytest

from lib import paths
from lib import printed as paper
from lib.engine import nsp
from lib.projective import plots_interventions, plots_stereoset, stereoset
from lib.projective import stereoset_tables as tables
from lib.text import readers
from tests.tiny import one_thread, save_tiny  # noqa: F401


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


def found(n=40, seed=0):
    values = np.random.default_rng(seed).random((n, 6))
    return pd.DataFrame(values, columns=nsp.COLUMNS).assign(gender=["F", "M"] * (n // 2)).rename_axis("context_id")


def test_a_frame_puts_every_probability_in_its_place():
    triples = small()
    pairs = stereoset.pairs(triples)
    assert len(pairs) == 18 and pairs[0] == ("She sat.", "She sang.") and pairs[9] == ("He sat.", "He sang.")
    frame = stereoset.frame(triples, np.arange(18) / 100)
    assert list(frame.columns) == ["gender", *nsp.COLUMNS] and list(frame.index) == [0, 1, 3]
    assert frame.loc[0].tolist() == ["F", .00, .01, .02, .09, .10, .11]
    assert frame.loc[3].tolist() == ["M", .07, .06, .08, .16, .15, .17]


def test_measure_gives_each_pair_what_one_by_one_gives(tmp_path, monkeypatch, one_thread):
    model = save_tiny("bert", tmp_path)
    monkeypatch.setattr(stereoset, "triples", lambda data: small())
    measured = stereoset.measure(str(tmp_path))
    alone = [nsp.is_next(model, [pair]).item() for pair in stereoset.pairs(small())]
    expected = stereoset.frame(small(), alone)[nsp.COLUMNS]
    assert np.allclose(measured["file"][nsp.COLUMNS], expected, atol=1e-5)
    changed = (measured["stops"][nsp.COLUMNS] - measured["file"][nsp.COLUMNS]).abs() > 1e-9
    assert changed.sum(axis=1).to_dict() == {0: 0, 1: 0, 3: 2}  # one sentence of triple 3, on both sides


def test_full_stops_are_added_where_one_lacks():
    ended = stereoset.full_stops(small())
    assert ended["next_sentence"].tolist()[4:7] == ["He left!", "He cried.", "He left."]
    assert ended["context"].tolist() == small()["context"].tolist()


def test_quirks_are_counted_and_listed():
    counted = stereoset.quirks(small()).set_index("quirk")
    assert counted["rows"].to_dict() == {
        "unrelated sentence differs between the sides": 1, "other sentence unchanged by the swap": 1,
        "- of these, with a word of the gender lists": 1, "swapped context differs within a triple": 1,
        "context of an earlier triple": 1, "a sentence without an end mark": 1,
        "a sentence that begins in lower case": 1, "a for an, or an for a": 1}
    assert (counted["context_id"] == "3").all()
    assert (stereoset.quirks(stereoset.triples("mini"))["rows"] == 0).all()  # what this project wrote has none


def test_screening_reads_the_gaps_in_the_numbering():
    table = stereoset.screening(small()).set_index("triples")
    assert table["number"].to_dict() == {"numbered": 4, "taken out": 1, "left": 3}
    assert table.loc["taken out", "which"] == "context_id 2" and table.loc["left", "which"].startswith("2 about men")


def test_examples_are_what_each_table_is_to_show():
    frame = stereoset.frame(small(), np.zeros(18))
    frame[nsp.COLUMNS] = [[.9, .8, .1, .9, .8, .3], [.9, .1, .6, .1, .9, .6], [.3, .2, .9, .3, .25, .0]]
    assert stereoset.chosen(frame) == {"Table 1": {"triple": 0}, "Table 3": {"a": 0, "b": 1},
                                       "Table 4": {"a": 3, "b": 0}}
    table3 = stereoset.examples(small(), frame, "mini", "Table 3")
    assert table3["row"].tolist() == ["a", "a", "a_GS", "a_GS", "b", "b", "b_GS", "b_GS"]
    assert table3["label"].tolist() == ["Stereo", "Anti", "Anti", "Stereo"] * 2
    assert table3["s"].tolist() == [0, "", "", "", 1.6, "", "", ""]
    assert table3["sentence B"].tolist()[4:] == ["He left!", "He cried.", "She left!", "She cried."]
    table4 = stereoset.examples(small(), frame, "mini", "Table 4")
    assert table4["d"].tolist() == [.9, "", .2, ""] and table4["p(next)"].tolist() == [.9, 0, .1, .3]
    assert len(stereoset.examples(small(), frame, "mini", "Table 1")) == 3


def test_table_2_has_both_reasons():
    table = stereoset.screened()
    assert table["reason"].nunique() == 2 and table["label"].tolist() == ["Stereo", "Anti", "Unr"] * 2
    assert not set(table["sentence A"]) & set(stereoset.triples("mini")["context"])


# ---- the measures


def test_summary_of_a_model_that_ignores_gender():
    frame = found()
    for name in ("stereo", "anti", "unrelated"):
        frame[f"gs_{name}"] = frame[name]
    values = tables.summary(frame).set_index("measure")["value"]
    assert values["S"] == values["S, opposite"] == values["D"] == values["mean s"] == 0
    assert values["SS, swapped side"] == pytest.approx(1 - values["SS"])
    assert tables.sign_test(frame, draws=50) == 1
    claims = tables.claims(frame).set_index("claim")["verdict"]
    assert claims.iloc[1] == "holds" and claims.iloc[4] == "fails"  # the same sentence always; no stereotype


def test_summary_of_a_model_full_of_stereotypes():
    frame = found()
    frame[["stereo", "gs_anti"]] = .9
    frame[["anti", "gs_stereo"]] = .1
    frame.loc[:19, ["unrelated", "gs_unrelated"]] = .2, .7  # half of the calls flip
    values = tables.summary(frame).set_index("measure")["value"]
    assert values["SS"] == values["SS, swapped side"] == 1 and values["S"] == 1.6 and values["S, opposite"] == -1.6
    assert tables.sign_test(frame, draws=200) < .01
    assert tables.claims(frame)["verdict"].tolist()[1:3] == ["fails", "fails"]
    assert tables.claims(frame)["verdict"].iloc[4] == "holds"


def test_intervals_hold_their_value_and_the_curve_ends_at_the_mean():
    frame = found(60)
    values = tables.estimates(frame)
    assert all(low <= value <= high for value, low, high in values.values())
    assert values["S"].value == nsp.strength(frame) and values["D"].value == nsp.distance(frame)
    curve = tables.threshold(frame, [.1, .5, 1.0], draws=50).set_index(["measure", "share"])["value"]
    assert curve["S", .1] == nsp.strength(frame) and curve["D", 1.0] == pytest.approx(nsp.distances(frame).mean())
    assert curve["S", 1.0] == pytest.approx(-curve["S, opposite", 1.0])


def test_choices_change_what_they_say():
    frame = stereoset.frame(small(), np.random.default_rng(0).random(18))
    ended = frame.assign(unrelated=0.0, gs_unrelated=[.1, .2, .3])
    table = tables.choices({"file": frame, "stops": ended}, small()).set_index("choice")
    assert table["pairs"].tolist() == [3, 3, 3, 2, 2, 1, 3]  # one pair's unrelated sentences differ; two M, one F
    assert table.loc["full stops added where one lacks", "D"] == .3
    women = table.loc["only contexts of women"]
    assert women["S"] == pytest.approx(nsp.strengths(frame.loc[[0]])[0], abs=1e-3)
    assert table.loc["|s| in place of the signed s", "S"] == pytest.approx(np.abs(nsp.strengths(frame)).max(), abs=1e-3)


def test_another_model_never_matches_and_other_triples_were_not_run():
    frame = found()
    table = tables.against_paper(frame, "mini", same_model=False)
    assert table["verdict"].str.startswith("not run").sum() == 19 and (table["verdict"] == "other model").sum() == 2
    assert table["table"].value_counts().to_dict() == {"Table 3": 10, "Table 4": 6, "Table 1": 3, "Table 7": 2}


def test_a_summary_beside_a_stored_one():
    ours = pd.DataFrame({"measure": ["S"], "value": [.2], "low": [.1], "high": [.3]})
    both = tables.side_by_side(ours, ours, "here", "there")
    assert both.to_dict("list") == {"measure": ["S"], "here": ["0.20 [0.10, 0.30]"], "there": ["0.20 [0.10, 0.30]"]}
    assert tables.side_by_side(ours, None, "here", "there").columns.tolist() == ["measure", "here"]


def test_titles_state_what_was_found():
    frame = found()
    frame[["gs_stereo", "gs_anti"]] = frame[["stereo", "anti"]].to_numpy()
    counted = (frame["stereo"] > frame["anti"]).sum()
    assert f"Of {counted} triples that SS counts, {counted} prefer" in plots_stereoset.preferences(
        frame, "m").get_suptitle()
    assert "does not exceed its opposite: 0.00 against 0.00" in plots_stereoset.distributions(frame, "m").get_suptitle()
    words = [text.get_text() for text in plots_interventions.interventions(6, 4).axes[0].texts]
    assert {"layer 6", "layer 5", "layers 1 to 4", "queries\n4 heads"} <= set(words)
    assert any("12 in all" in word for word in words)


# ---- the real file


def test_real_quirks_and_screening(real_data):
    triples = stereoset.triples("paper")
    rows = stereoset.quirks(triples).set_index("quirk")["rows"]
    assert rows["unrelated sentence differs between the sides"] == 12
    assert rows["other sentence unchanged by the swap"] == 103
    numbers = stereoset.screening(triples).set_index("triples")["number"]
    assert numbers.tolist() == [242, 8, 234]


def test_real_examples_stand_where_data_paper_says(real_data):
    triples = stereoset.triples("paper")
    places = paper.numbers("projective_methods_examples").pivot(index=["table", "row"], columns="column")["value"]
    lines = (real_data / "gender_swapped_stereoset/dev.csv").read_text(encoding="utf-8").splitlines()
    for place in places.astype(int).itertuples():
        assert lines[place.line - 1].startswith(f"{place.context_id},")
        assert triples.groupby("context_id")["line"].min()[place.context_id] == place.line
    cues = {39: "cooking", 185: "aggressive", 5: "cookies", 114: "Tomorrow", 224: "Blankets"}
    for number, cue in cues.items():
        assert triples[triples["context_id"] == number]["next_sentence"].str.contains(cue).sum() == 1


def test_real_tables_hold_numbers_and_no_sentence(real_data):
    triples = stereoset.triples("paper")
    frame = stereoset.frame(triples, np.random.default_rng(0).random(2 * len(triples)))
    for table, rows in (("Table 1", 3), ("Table 3", 8), ("Table 4", 4)):
        shown = stereoset.examples(triples, frame, "paper", table)
        assert len(shown) == rows and not {"sentence A", "sentence B"} & set(shown.columns)
        assert shown["paper's p"].astype(float).between(0, 1).all()
    compared = tables.against_paper(frame, "paper", same_model=True)
    assert not compared["verdict"].str.startswith("not run").any() and len(compared) == 21


def test_no_stored_result_quotes_the_file(real_data):
    sentences = {text for names in stereoset.SIDES.values() for name in names
                 for text in stereoset.triples("paper")[name] if len(text.split()) > 3}
    stored = [path for path in paths.FIGURES.glob("mini*/07_*") if path.suffix in (".csv", ".json", ".svg")]
    assert stored
    for path in [*stored, *paths.PAPER.glob("*.csv"), paths.DEMO / "triples.csv", paths.DEMO / "screened.csv"]:
        text = path.read_text(encoding="utf-8")
        assert not [sentence for sentence in sentences if sentence in text], path.name
