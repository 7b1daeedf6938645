"""Winogender: its files, the blank of a sentence, log odds by hand, correlations that are known."""

import numpy as np
import pandas as pd
import pytest

from lib import winogender
from lib.engine import fill, models
from lib.text import data, factual, readers
from tests.tiny import refuses, tiny

COLUMNS = ["occupation", "participant", "about", "male", "female", "neutral"]
PRONOUNS = {"male": ("he", "his"), "female": ("she", "her"), "neutral": ("they", "their")}


def sentences(jobs: list[str]) -> pd.DataFrame:
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


JOBS = data.words("occupations")
SHARES = pd.DataFrame({"occupation": JOBS["singular"], "bls": JOBS["percent_women"]})


@pytest.fixture
def files(monkeypatch, tmp_path):
    """Call it with a file's name and lines: readers then find it in place of the real one."""
    written = {}
    monkeypatch.setattr(data, "path", written.__getitem__)

    def write(name: str, lines: list[str]):
        written[name] = tmp_path / name.replace("/", "_")
        written[name].write_text("\n".join(lines) + "\n", encoding="utf-8")

    return write


def as_file(frame: pd.DataFrame) -> list[str]:
    """The lines of all_sentences.tsv that hold these sentences."""
    lines = ["sentid\tsentence"]
    for row in frame.itertuples():
        number = int(row.about == "participant")
        for gender in PRONOUNS:
            name = f"{row.occupation}.{row.participant}.{number}.{gender}.txt"
            lines.append(f"{name}\t{getattr(row, gender)}")
    return lines


def test_what_is_written_is_read_in_its_order(files):
    frame = sentences(["potter", "miller", "null"])  # a word that pandas takes for nothing
    files("winogender/all_sentences.tsv", as_file(frame))
    assert readers.winogender().equals(frame)
    files(
        "winogender/occupations-stats.tsv",
        ["occupation\tbergsma_pct_female\tbls_pct_female\tbls_year", "potter\t12.5\t40\t2015"],
    )
    assert readers.winogender_shares().to_dict("list") == {
        "occupation": ["potter"],
        "bls": [40.0],
        "bergsma": [12.5],
    }


def test_a_file_that_lacks_a_pronoun_or_names_a_sentence_otherwise_is_refused(files):
    lines = as_file(sentences(["potter"]))
    files("winogender/all_sentences.tsv", lines[:-1])
    with pytest.raises(AssertionError, match="without one of its three pronouns"):
        readers.winogender()
    files("winogender/all_sentences.tsv", [*lines, "potter.txt\tThe potter left."])
    with pytest.raises(AssertionError, match="a sentid that is not"):
        readers.winogender()


def test_the_published_files(real_data):
    frame = readers.winogender()
    assert list(frame) == COLUMNS and len(frame) == 240
    assert (frame.groupby("occupation").size() == 4).all()
    assert frame["about"].value_counts().to_dict() == {"occupation": 120, "participant": 120}
    assert (frame["participant"] == "someone").sum() == 120
    shares = readers.winogender_shares()
    assert list(shares["occupation"]) == list(dict.fromkeys(frame["occupation"]))
    assert len(shares) == 60
    assert shares.set_index("occupation").loc["plumber"].tolist() == [0.7, 3.34]
    columns = frame[["male", "female", "neutral"]]
    templates = [winogender.template(*row) for row in columns.itertuples(index=False)]
    fillers = pd.Series([(one.he, one.she) for one in templates]).value_counts().to_dict()
    assert fillers == {("he", "she"): 178, ("his", "her"): 54, ("him", "her"): 8}
    assert sum(one.they == "" for one in templates) == 34  # was, were
    assert not any(one.prompt.startswith(fill.BLANK) for one in templates)
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
    (lambda: winogender.by_occupation(pd.DataFrame(), "nobody"), "no sentences about 'nobody'"),
)


def test_an_encoders_odds_are_those_of_its_blank():
    model = models.load("mini-bert", device="cpu")
    frame = sentences(["doctor", "cook"])
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
    frame = sentences(["doctor"])
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


def test_pronouns_that_the_tokenizer_splits_are_not_asked_for():
    """The tiny model knows she and he, not they, her, his, their."""
    model = tiny("bert")
    assert not factual.is_whole(model, "they") and not factual.is_whole(model, "her")
    found = winogender.odds(model, sentences(["doctor", "nurse"]))
    assert found["log_odds"].notna().tolist() == [True, False, True, False]
    assert found["they_log_odds"].isna().all()
    means = winogender.by_occupation(found, shares=SHARES)
    assert means["sentences"].tolist() == [1, 1]
    assert means["log_odds"].tolist() == found["log_odds"].dropna().tolist()
    assert winogender.by_occupation(found, "participant", SHARES).empty


def test_an_empty_list_has_no_odds_no_means_and_no_correlation():
    for family in ("bert", "gpt2"):
        found = winogender.odds(tiny(family), sentences(["doctor"]).head(0))
        assert found.empty and list(found) == [*COLUMNS, "log_odds", "they_log_odds"]
        means = winogender.by_occupation(found, shares=SHARES)
        assert means.empty
        rank, linear = winogender.agreement(means)
        assert np.isnan(rank.value) and np.isnan(linear.value) and not rank.has_interval


def test_means_and_correlations_by_hand():
    frame = sentences(["potter", "miller", "weaver"])
    odds = frame.assign(log_odds=[1.0, 3.0, -1.0, 1.0, 10.0, np.nan], they_log_odds=np.nan)
    shares = pd.DataFrame(
        {"occupation": ["weaver", "miller", "potter"], "bls": [90, 10, 20], "bergsma": [1, 2, 3]}
    )
    means = winogender.by_occupation(odds, shares=shares)
    assert means["occupation"].tolist() == ["potter", "miller", "weaver"]
    assert means["log_odds"].tolist() == [2.0, 0.0, 10.0]
    assert means["sentences"].tolist() == [2, 2, 1]
    assert means["bls"].tolist() == [20, 10, 90]
    about = winogender.by_occupation(odds, "participant", shares)
    assert about["log_odds"].tolist() == [3.0, 1.0]  # the weaver has none
    rank, linear = winogender.agreement(means, draws=20)
    assert rank.value == pytest.approx(1)
    assert linear.value == pytest.approx(np.corrcoef([20, 10, 90], [2, 0, 10])[0, 1])
    assert winogender.agreement(means, "bergsma", draws=20).rank.value == pytest.approx(-0.5)
    flat = winogender.agreement(means.assign(log_odds=0.0), draws=20)
    assert np.isnan(flat.rank.value) and np.isnan(flat.linear.value)


@pytest.mark.parametrize("name", ["mini-bert", "mini-gpt2"])
def test_trained_models_follow_the_labour_statistics_and_untrained_ones_do_not(name):
    """On sentences made up here, so that the published files are not needed."""
    frame = sentences(list(JOBS["singular"]))
    found = {}
    for model in (name, {"mini-bert": "null", "mini-gpt2": "null-gpt2"}[name]):
        odds = winogender.odds(models.load(model, device="cpu"), frame)
        means = winogender.by_occupation(odds, shares=SHARES)
        found[model] = winogender.agreement(means, draws=500)
    trained, untrained = found.values()
    assert trained.rank.n == 58
    assert trained.rank.is_above() and trained.linear.is_above()
    for estimate in untrained:
        assert estimate.low < 0 < estimate.high


def test_an_untrained_model_has_no_correlation_on_the_published_sentences(real_data):
    odds = winogender.odds(models.load("null", device="cpu"))
    for share in ("bls", "bergsma"):
        for estimate in winogender.agreement(winogender.by_occupation(odds), share, draws=500):
            assert estimate.low < 0 < estimate.high


def test_the_contrast_of_the_two_pronouns_by_hand():
    """About the occupation r is 1, about the other person -1: less is 2."""
    jobs = ["potter", "miller", "weaver"]
    frame = sentences(jobs)
    share = {"potter": 20.0, "miller": 10.0, "weaver": 90.0}
    signs = frame["about"].map({"occupation": 1, "participant": -1})
    odds = frame.assign(log_odds=frame["occupation"].map(share) * signs, they_log_odds=-2.0)
    shares = pd.DataFrame({"occupation": jobs, "bls": list(share.values()), "bergsma": 0.0})
    assert winogender.contrast(odds, shares, draws=20).value == pytest.approx(2)
    few = odds[odds["occupation"] != "weaver"]
    assert np.isnan(winogender.contrast(few, shares, draws=20).value)


def test_the_table_and_its_figure(monkeypatch):
    jobs = ["potter", "miller", "weaver"]
    frame = sentences(jobs)
    shares = pd.DataFrame({"occupation": jobs, "bls": [20.0, 10.0, 90.0], "bergsma": 0.0})
    monkeypatch.setattr(winogender.readers, "winogender_shares", lambda: shares)
    odds = frame.assign(log_odds=frame["occupation"].map(len), they_log_odds=-2.0)
    table = winogender.table({"a": odds, "b": odds.assign(log_odds=np.nan)})
    assert table["about"].tolist() == [*winogender.ABOUT] * 2
    assert table["sentences"].tolist() == [6, 3, 3, 0, 0, 0] and set(table["they"]) == {-2.0}
    assert winogender.published() == (0.425, 0.097)
    (ax,) = winogender.figure(table, winogender.published()).axes
    assert [label.get_text() for label in ax.get_yticklabels()] == ["b", "a"]
