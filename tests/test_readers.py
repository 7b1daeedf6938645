"""Readers on files small enough to read by eye, and on the real ones where they are at hand."""

import gzip
import json
from types import SimpleNamespace

import pandas as pd
import pytest

from lib import CompanionError
from lib.text import data, readers


@pytest.fixture
def files(monkeypatch, tmp_path):
    """Outside files by name, as a test writes them: files["seat/x.jsonl"] = text."""

    class Files(dict):
        def __setitem__(self, name, text):
            file = tmp_path / name
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
            super().__setitem__(name, file)

    written = Files()
    monkeypatch.setattr(data, "path", written.__getitem__)
    return written


def test_stereoset_normalises_labels(files):
    files["gender_swapped_stereoset/dev.csv"] = ",".join(readers.TRIPLE) + (
        "\n0,She sat.,She sang.,Stereotype,F,He sat.,He sang."
        "\n0,She sat.,She ran.,anti_stereotype,F,He sat.,He ran."
        '\n0,She sat.,"Null, void.",unrelated,F,He sat.,"Null, void."\n')
    frame = readers.stereoset()
    assert frame["label"].tolist() == ["stereotype", "anti-stereotype", "unrelated"]
    assert frame["next_sentence"].iloc[2] == "Null, void."


def test_snli_labels_become_words_and_train_joins_two_codings(files):
    files["snli_becel/test.tsv"] = 'premise\thypothesis\tlabel\nA.\tB.\t0\nC.\tD.\t1\n"E ""x""."\tnull\t2\n'
    assert readers.snli("test").values.tolist() == [["A.", "B.", "entailment"], ["C.", "D.", "neutral"],
                                                    ['E "x".', "null", "contradiction"]]
    files["snli_cat/train.csv"] = "1\t1\tA.\tB.\n2\t2\tC.\tD.\n3\t3\tE.\tF.\n"
    files["snli_cad/all_combined_train.tsv"] = "sentence1\tsentence2\tgold_label\nG.\tH.\tentailment\n"
    frame = readers.snli("train")
    assert list(frame.columns) == ["premise", "hypothesis", "label"] and list(frame.index) == [0, 1, 2, 3]
    assert frame["label"].tolist() == ["neutral", "contradiction", "entailment", "entailment"]
    assert frame["premise"].tolist() == ["A.", "C.", "E.", "G."]


def test_what_is_unknown_is_refused(files):
    files["snli_becel/test.tsv"] = "premise\thypothesis\tlabel\nA.\tB.\t3\n"
    with pytest.raises(AssertionError, match="label code"):
        readers.snli("test")
    for call, said in ((lambda: readers.snli("dev"), "no split 'dev'"), (lambda: readers.news("cnn"), "source 'cnn'"),
                       (lambda: readers.glue("QQP", "train"), "GLUE's QQP is not at hand")):
        with pytest.raises(CompanionError, match=said):
            call()


def test_snli_from_the_hub_drops_pairs_without_a_label(monkeypatch):
    table = pd.DataFrame({"premise": ["A.", "B."], "hypothesis": ["C.", "D."], "label": [-1, 2]})
    monkeypatch.setattr(data, "hub", lambda name, config, split: SimpleNamespace(to_pandas=lambda: table))
    assert readers.snli("train", full=True).values.tolist() == [["B.", "D.", "contradiction"]]


def test_texts(files, monkeypatch):
    files["wikitext2_raw/wiki.test.raw"] = " = A title = \n\n Some text . \n"
    files["bbc_news/bbc.jsonl.gz"] = json.dumps({"path": "a", "text": "Title\n\nBody.\n"}) + "\n"
    files["news_commentary/news-commentary-v15.en.gz"] = "One.\n\nTwo.\n"
    files["seat/t.jsonl"] = json.dumps({part: {"examples": [part]} for part in ("attr2", "attr1", "targ2", "targ1")})
    files["reddit_top/sub.csv"] = 'title,selftext\nSalt &amp; pepper,\nnull,"Two\nlines"\n'
    assert readers.wikitext() == ["= A title =", "Some text ."]
    assert readers.news("bbc_news") == ["Title\n\nBody."]
    assert readers.news("news_commentary") == ["One.", "Two."]
    assert readers.reddit("sub") == ["Salt & pepper", "null\nTwo\nlines"]
    assert readers.seat("t") == {"X": ["targ1"], "Y": ["targ2"], "A": ["attr1"], "B": ["attr2"]}
    served = {"text": ["", " = A title = \n", " Some text . \n"]}
    monkeypatch.setattr(data, "hub", lambda name, config, split: served)
    assert readers.wikitext(full=True) == readers.wikitext()


@pytest.mark.parametrize("at_hand, taken, said", [
    (["news_commentary", "bbc_news"], ["One."], "news_commentary"), (["news_commentary"], ["One."], "news_commentary"),
    (["bbc_news"], ["Body."], "bbc_news (stands in for news_commentary, the paper's own: put news_commentary/news-c"),
    ([], ["One."], "news_commentary")])
def test_news_is_what_lies_at_hand_and_says_so(files, monkeypatch, capsys, at_hand, taken, said):
    files["bbc_news/bbc.jsonl.gz"] = json.dumps({"path": "a", "text": "Body."}) + "\n"
    files["news_commentary/news-commentary-v15.en.gz"] = "One.\n"
    monkeypatch.setattr(data, "available", lambda file: file.split("/")[0] in at_hand)
    assert readers.news() == taken
    assert capsys.readouterr().out.startswith(f"News texts: {said}")
    assert readers.news(stand_in=False) == ["One."]  # the paper's own, or nothing
    del files["news_commentary/news-commentary-v15.en.gz"]
    with pytest.raises(KeyError):  # data.path says in a sentence what is missing
        readers.news(stand_in=False)


def test_real_stereoset(real_data):
    frame = readers.stereoset()
    assert len(frame) == 702
    triples = frame.groupby("context_id")
    assert len(triples) == 234 and (triples["label"].nunique() == 3).all() and (triples.size() == 3).all()
    assert triples["gender"].first().value_counts().to_dict() == {"M": 121, "F": 113}
    assert not (frame == "").any().any()


def test_real_snli(real_data):
    sizes = {"train": 26330, "validation": 9842, "test": 9824}
    splits = {split: readers.snli(split) for split in sizes}
    assert {split: len(frame) for split, frame in splits.items()} == sizes
    for frame in splits.values():
        assert frame["label"].value_counts(normalize=True)[readers.NLI_LABELS].between(.32, .35).all()
        assert not (frame == "").any().any()
    pairs = {split: set((frame["premise"] + "|" + frame["hypothesis"]).str.lower().str.replace(" ", ""))
             for split, frame in splits.items()}
    assert not pairs["train"] & (pairs["test"] | pairs["validation"])


def test_real_snli_codings_agree(real_data):
    """The two training files share pairs; where they do, the words their codes were given must agree."""
    train = readers.snli("train")
    own, augmented = train[:18000], train[18000:]
    both = own.merge(augmented.drop_duplicates(["premise", "hypothesis"]), on=["premise", "hypothesis"])
    assert len(both) > 40 and (both["label_x"] == both["label_y"]).mean() > .95


def test_real_texts(real_data):
    assert len(readers.wikitext()) == 2891 and readers.wikitext()[0] == "= Robert Boulter ="
    assert len(readers.news()) == 2225
    for name in ("TheRedPill", "MensRights", "seduction", "AskMen", "AskWomen", "relationships"):
        assert len(readers.reddit(name)) == (999 if name == "relationships" else 1000)
    sets = readers.seat("sent-weat6")
    assert {key: len(sentences) for key, sentences in sets.items()} == {"X": 64, "Y": 64, "A": 101, "B": 112}
    assert sets["X"][0] == "This is John." and sets["Y"][0] == "This is Amy."
