"""Triples: counted on sentences that fit in the head, and on the real file."""

import numpy as np
import pandas as pd

from lib import paths, printed
from lib.engine import nsp
from lib.projective import triples
from lib.text import readers
from tests.tiny import save_tiny


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


# ---- the measurement

def test_a_frame_puts_every_probability_in_its_place():
    pairs = triples.pairs(small())
    assert len(pairs) == 18 and pairs[0] == ("She sat.", "She sang.") and pairs[9] == ("He sat.", "He sang.")
    frame = triples.frame(small(), np.arange(18) / 100)
    assert list(frame.columns) == ["gender", *nsp.COLUMNS] and list(frame.index) == [0, 1, 3]
    assert frame.loc[0].tolist() == ["F", .00, .01, .02, .09, .10, .11]
    assert frame.loc[3].tolist() == ["M", .07, .06, .08, .16, .15, .17]


def test_measure_gives_each_pair_what_one_by_one_gives(tmp_path, monkeypatch):
    model = save_tiny("bert", tmp_path)
    monkeypatch.setattr(triples, "triples", lambda data, items: small())
    measured = triples.measure(str(tmp_path))
    alone = [nsp.is_next(model, [pair]).item() for pair in triples.pairs(small())]
    expected = triples.frame(small(), alone)[nsp.COLUMNS]
    assert np.allclose(measured["file"][nsp.COLUMNS], expected, atol=1e-5)
    changed = (measured["stops"][nsp.COLUMNS] - measured["file"][nsp.COLUMNS]).abs() > 1e-9
    assert changed.sum(axis=1).to_dict() == {0: 0, 1: 0, 3: 2}  # one sentence of triple 3, on both sides


def test_a_try_has_few_triples():
    rows = triples.triples("mini", items=8)
    assert rows["context_id"].nunique() == 8 and len(rows) == 24 and list(rows.index) == list(range(24))
    assert len(triples.triples("mini")) == 300


# ---- the file

def test_quirks_are_counted_and_listed():
    counted = triples.quirks(small())
    assert counted["rows"].tolist() == [1] * 8 and (counted["context_id"] == "3").all()
    assert (triples.quirks(triples.triples("mini"))["rows"] == 0).all()  # what this project wrote has none


# ---- the real file

def test_real_quirks_and_counts(real_data):
    rows = triples.triples("paper")
    assert triples.quirks(rows)["rows"].tolist()[:2] == [12, 103]
    assert rows["context_id"].nunique() == 234 == rows["context_id"].max() + 1 - 8  # 8 were taken out
    few = triples.triples("paper", items=8)
    assert few["context_id"].nunique() == 8 and set(triples.printed_ids()["value"]) <= set(few["context_id"])


def test_real_examples_stand_where_data_paper_says(real_data):
    rows = triples.triples("paper")
    places = printed.numbers("projective_methods_examples").pivot(index=["table", "row"], columns="column")["value"]
    lines = (real_data / "gender_swapped_stereoset/dev.csv").read_text(encoding="utf-8").splitlines()
    for place in places.astype(int).itertuples():
        assert lines[place.line - 1].startswith(f"{place.context_id},")
        assert rows.groupby("context_id")["line"].min()[place.context_id] == place.line
    cues = {39: "cooking", 185: "aggressive", 5: "cookies", 114: "Tomorrow", 224: "Blankets"}
    for number, cue in cues.items():
        assert rows[rows["context_id"] == number]["next_sentence"].str.contains(cue).sum() == 1


def test_no_stored_result_quotes_the_file(real_data):
    sentences = {text for names in triples.SIDES.values() for name in names
                 for text in triples.triples("paper")[name] if len(text.split()) > 3}
    stored = [path for path in paths.FIGURES.glob("mini*/07_*") if path.suffix in (".csv", ".json", ".svg")]
    assert stored
    for path in [*stored, *paths.PAPER.glob("*.csv"), paths.DEMO / "triples.csv", paths.DEMO / "screened.csv"]:
        text = path.read_text(encoding="utf-8")
        assert not [sentence for sentence in sentences if sentence in text], path.name
