"""Winogender: its files, the blank of a sentence, log odds by hand, correlations that are known."""

import numpy as np
import pandas as pd
import pytest

from companion import winogender as correlations
from lib import winogender
from lib.engine import fill, models
from lib.text import data, factual, readers
from tests.tiny import refuses, tiny

COLUMNS = ["occupation", "participant", "about", "male", "female", "neutral"]
PRONOUNS = {"male": ("he", "his"), "female": ("she", "her"), "neutral": ("they", "their")}
JOBS = data.words("occupations")


def sentences(*jobs: str) -> pd.DataFrame:
    """Two sentences for each occupation, made up here, as readers.winogender gives them."""
    rows = []
    for job in jobs:
        named = {"occupation": job, "participant": "guest", "about": "occupation"}
        other = {"occupation": job, "participant": "someone", "about": "participant"}
        for gender, (subject, possessive) in PRONOUNS.items():
            named[gender] = f"The {job} told the guest that {subject} had lost the key."
            other[gender] = f"The {job} asked someone for {possessive} key."
        rows += [named, other]
    return pd.DataFrame(rows)[COLUMNS]


@pytest.fixture
def shares(monkeypatch):
    """Call it with percentages of women, by occupation, in place of the published ones."""

    def of(bls: dict[str, float]):
        table = pd.DataFrame({"occupation": list(bls), "bls": list(bls.values()), "bergsma": 0.0})
        monkeypatch.setattr(readers, "winogender_shares", lambda: table)

    of(dict(zip(JOBS["singular"], JOBS["percent_women"])))
    return of


@pytest.fixture
def write(monkeypatch, tmp_path):
    """Call it with a file's name and lines: readers then find it in place of the real one."""
    written = {}
    monkeypatch.setattr(data, "path", written.__getitem__)

    def write(name: str, lines: list[str]):
        written[name] = tmp_path / name.replace("/", "_")
        written[name].write_text("\n".join(lines) + "\n", encoding="utf-8")

    return write


def test_what_is_written_is_read_in_its_order_and_a_damaged_file_refused(write):
    frame = sentences("potter", "miller", "null")  # a word that pandas takes for nothing
    lines = ["sentid\tsentence"]
    for row in frame.itertuples():
        number = int(row.about == "participant")
        for gender in PRONOUNS:
            name = f"{row.occupation}.{row.participant}.{number}.{gender}.txt"
            lines.append(f"{name}\t{getattr(row, gender)}")
    write("winogender/all_sentences.tsv", lines)
    assert readers.winogender().equals(frame)
    header = "occupation\tbergsma_pct_female\tbls_pct_female\tbls_year"
    write("winogender/occupations-stats.tsv", [header, "potter\t12.5\t40\t2015"])
    assert readers.winogender_shares().to_numpy().tolist() == [["potter", 40.0, 12.5]]
    write("winogender/all_sentences.tsv", lines[:-1])
    with pytest.raises(AssertionError, match="without one of its three pronouns"):
        readers.winogender()
    write("winogender/all_sentences.tsv", [*lines, "potter.txt\tThe potter left."])
    with pytest.raises(AssertionError, match="a sentid that is not"):
        readers.winogender()


def test_the_published_files(real_data):
    frame = readers.winogender()
    assert list(frame) == COLUMNS
    assert frame["about"].value_counts().to_dict() == {"occupation": 120, "participant": 120}
    assert (frame["participant"] == "someone").sum() == 120
    known = readers.winogender_shares()
    assert list(known["occupation"]) == list(dict.fromkeys(frame["occupation"]))
    assert len(known) == 60
    assert known.set_index("occupation").loc["plumber"].tolist() == [0.7, 3.34]
    columns = frame[["male", "female", "neutral"]]
    templates = [winogender.template(*row) for row in columns.itertuples(index=False)]
    fillers = pd.Series([(one.he, one.she) for one in templates]).value_counts().to_dict()
    assert fillers == {("he", "she"): 178, ("his", "her"): 54, ("him", "her"): 8}
    assert sum(one.they == "" for one in templates) == 34  # was, were
    for one, row in zip(templates, columns.itertuples(index=False)):
        assert one.prompt.replace(fill.BLANK, one.he) == row.male
        assert one.prompt.replace(fill.BLANK, one.she) == row.female


def test_the_blank_keeps_the_mark_behind_it_and_they_is_left_out_where_the_verb_changes():
    three = [f"The potter saw {word}." for word in ("him", "her", "them")]
    assert winogender.template(*three) == ("The potter saw [MASK].", "him", "her", "them")
    three = [f"The potter said {word} late." for word in ("he was", "she was", "they were")]
    assert winogender.template(*three) == ("The potter said [MASK] was late.", "he", "she", "")


test_what_cannot_be_asked_is_refused = refuses(
    (lambda: winogender.template("He ate.", "She slept.", "They ate."), "more than a pronoun"),
    (lambda: winogender.template("He ate.", "She ate it.", "They ate."), "more than a pronoun"),
    (lambda: winogender.template("It ate.", "It ate.", "It ate."), "more than a pronoun"),
)


def test_an_encoders_odds_are_those_of_its_blank():
    model = models.load("mini-bert", device="cpu")
    frame = sentences("doctor", "cook")
    found = winogender.odds(model, frame)
    assert found[COLUMNS].equals(frame)
    for place, words in enumerate([["he", "she", "they"], ["his", "her", "their"]]):
        prompt = frame["male"][place].replace(f" {words[0]} ", f" {fill.BLANK} ")
        he, she, they = fill.word_probabilities(model, [prompt], words).iloc[0]
        assert found["log_odds"][place] == pytest.approx(np.log2(she / he), abs=1e-3)
        expected = np.log2(they / (he + she))
        assert found["they_log_odds"][place] == pytest.approx(expected, abs=1e-3)


def test_a_decoders_odds_are_those_of_the_whole_sentence_token_by_token():
    model = models.load("mini-gpt2", device="cpu")
    frame = sentences("doctor")
    log2 = {}
    for gender in PRONOUNS:
        ids = model.tokenizer(frame[gender][0], return_tensors="pt").input_ids
        log_p = model.net(input_ids=ids).logits[0].log_softmax(-1)
        after_the_first = ids[0, 1:]
        chosen = log_p[range(len(after_the_first)), after_the_first]
        log2[gender] = chosen.sum().item() / np.log(2)
    found = winogender.odds(model, frame).iloc[0]
    assert found["log_odds"] == pytest.approx(log2["female"] - log2["male"], abs=1e-3)
    both = np.logaddexp2(log2["female"], log2["male"])
    assert found["they_log_odds"] == pytest.approx(log2["neutral"] - both, abs=1e-3)


def test_pronouns_that_the_tokenizer_splits_are_not_asked_for(shares):
    """The tiny model knows she and he, not they, her, his, their."""
    model = tiny("bert")
    assert not factual.is_whole(model, "they") and not factual.is_whole(model, "her")
    found = winogender.odds(model, sentences("doctor", "nurse"))
    assert found["log_odds"].notna().tolist() == [True, False, True, False]
    assert found["they_log_odds"].isna().all()
    means = correlations.by_occupation(found)
    assert means["sentences"].tolist() == [1, 1]
    assert means["log_odds"].tolist() == found["log_odds"].dropna().tolist()
    assert correlations.by_occupation(found, "participant").empty


def test_means_and_correlations_by_hand(shares):
    """About the occupation r is 1, about the other person -1: less is 2."""
    women = {"weaver": 90.0, "miller": 10.0, "potter": 20.0}
    shares(women)
    frame = sentences("potter", "miller", "weaver")
    odds = frame.assign(log_odds=[1.0, 3.0, -1.0, 1.0, 10.0, np.nan], they_log_odds=np.nan)
    means = correlations.by_occupation(odds)
    assert means["occupation"].tolist() == ["potter", "miller", "weaver"]
    assert means["log_odds"].tolist() == [2.0, 0.0, 10.0]
    assert means["sentences"].tolist() == [2, 2, 1]
    assert means["bls"].tolist() == [20, 10, 90]
    r = correlations.correlation(correlations.pearson, means["bls"], means["log_odds"], draws=20)
    assert r.value == pytest.approx(np.corrcoef([20, 10, 90], [2, 0, 10])[0, 1])
    signs = frame["about"].map({"occupation": 1, "participant": -1})
    turned = odds.assign(log_odds=frame["occupation"].map(women) * signs, they_log_odds=-2.0)
    assert correlations.contrast(turned, draws=20).value == pytest.approx(2)
    few = turned[turned["occupation"] != "weaver"]
    assert np.isnan(correlations.contrast(few, draws=20).value)
    table = correlations.table({"a": turned, "b": turned.assign(log_odds=np.nan)})
    assert table["sentences"].tolist() == [6, 3, 3, 0, 0, 0] and set(table["they"]) == {-2.0}
    assert [one.value for one in table["rho"][1:3]] == pytest.approx([1, -1])
    assert table["r"][3:].map(lambda one: np.isnan(one.value)).all()
    flat = correlations.table({"a": turned.assign(log_odds=0.0)})
    assert np.isnan(flat["r"][0].value) and np.isnan(flat["rho"][0].value)


@pytest.mark.parametrize("name, control", [("mini-bert", "null"), ("mini-gpt2", "null-gpt2")])
def test_trained_models_follow_the_labour_statistics_and_untrained_ones_do_not(
    name, control, shares
):
    """On sentences made up here, so that the published files are not needed."""
    frame = sentences(*JOBS["singular"])[::2]
    r = []
    for one in (name, control):
        means = correlations.by_occupation(winogender.odds(models.load(one, device="cpu"), frame))
        samples = means["bls"], means["log_odds"]
        r.append(correlations.correlation(correlations.pearson, *samples, draws=500))
    trained, untrained = r
    assert trained.n == 58 and trained.is_above()
    assert untrained.low < 0 < untrained.high


def test_an_untrained_model_has_no_correlation_on_the_published_sentences(real_data):
    odds = winogender.odds(models.load("null", device="cpu"))
    for estimate in correlations.table({"null": odds}).loc[0, ["r", "rho"]]:
        assert estimate.low < 0 < estimate.high
