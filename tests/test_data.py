"""Lists hold what the papers count, sources are well formed, readers know their files."""

import gzip
import json
import re
import tomllib
from types import SimpleNamespace

import pandas as pd
import pytest

from companion.run import Run
from lib import paths
from lib.bias_a_head import heads
from lib.text import data, readers
from tests.tiny import refusal, refuses

ROWS = {
    "gender_pairs": 222,
    "gender_stereotypes": 168,
    "race_words": 7,
    "race_roles": 11,
    "occupations": 58,
    "winobias_occupations": 40,
    "nli_occupations": 164,
    "nli_gendered": 6,
    "nli_objects": 95,
    "nli_verbs": 27,
    "nli_contexts": 33,
    "verbalizer": 126,
    "lpbs_lists": 40,
    "subspace_pairs": 40,
}
SOURCES = tomllib.loads(paths.SOURCES.read_text(encoding="utf-8"))
FILES = [file for entry in SOURCES.values() for file in entry.get("files", [])]


def test_lists_have_the_papers_rows_and_counts_and_name_their_source():
    assert {file.stem: len(data.words(file.stem)) for file in paths.LISTS.glob("*.csv")} == ROWS
    assert all(
        re.search("(?m)^# Source: .*(licence|MIT)", file.read_text())
        for file in paths.LISTS.glob("*.csv")
    )
    pairs = data.words("gender_pairs")
    female, male = set(pairs["female"]), set(pairs["male"])
    assert (len(female), len(male), len(female | male)) == (202, 207, 409)
    stereotypes = data.words("gender_stereotypes")
    assert (
        stereotypes["word"].is_unique
        and stereotypes["stereotype"].tolist() == ["female", "male"] * 84
    )
    assert data.words("race_roles")["stereotype"].value_counts().to_dict() == {
        "caucasian": 6,
        "african-american": 5,
    }
    frame, winobias = (
        data.words("occupations"),
        data.words("winobias_occupations").set_index("occupation"),
    )
    percent = frame["percent_women"]
    assert percent.is_monotonic_increasing and (percent.iloc[0], percent.iloc[-1]) == (2.9, 94.6)
    assert ((percent > 50) == (frame["dominated"] == "female")).all() and sum(percent > 50) == 29
    shared = frame[frame["winobias"] != ""].set_index("winobias")
    assert set(shared.index) == set(winobias.index) - {"tailor"}  # which has no percentage there
    for column in ("percent_women", "dominated"):
        assert (shared[column] == winobias.loc[shared.index, column]).all()


def test_shipped_tables_and_outside_texts_are_read_as_they_are(monkeypatch, tmp_path, files):
    monkeypatch.setattr(paths, "LISTS", tmp_path)
    monkeypatch.setattr(paths, "DEMO", tmp_path)
    (tmp_path / "odd.csv").write_text("# Source: none\n# two lines\nword,group\nnull,a\nnan,#b\n")
    (tmp_path / "lines.txt").write_text("# written here\nOne.\n\nTwo.\n", encoding="utf-8")
    assert data.words("odd").values.tolist() == [["null", "a"], ["nan", "#b"]]  # not missing values
    assert data.rows("odd") == [{"word": "null", "group": "a"}, {"word": "nan", "group": "#b"}]
    assert data.demo("lines") == ["One.", "Two."]
    assert re.search(r"no demo file 'line' .is it 'lines'.*lines, odd", refusal(data.demo, "line"))
    files["wikitext2_raw/wiki.test.raw"] = " = A title = \n\n Some text . \n"
    files["seat/t.jsonl"] = json.dumps(
        {part: {"examples": [part]} for part in ("attr2", "attr1", "targ2", "targ1")}
    )
    files["reddit_top/sub.csv"] = 'title,selftext\nSalt &amp; pepper,\nnull,"Two\nlines"\n'
    assert readers.wikitext() == ["= A title =", "Some text ."]
    assert readers.reddit("sub") == ["Salt & pepper", "null\nTwo\nlines"]
    assert readers.seat("t") == {"X": ["targ1"], "Y": ["targ2"], "A": ["attr1"], "B": ["attr2"]}


def test_every_source_is_pinned_licensed_and_counted():
    assert all(
        entry["licence"] and ("files" in entry or re.fullmatch("[0-9a-f]{40}", entry["revision"]))
        for entry in SOURCES.values()
    )
    no_hash = readers.NEWS["news_commentary"]  # as its note says
    for file in FILES:
        assert "url" in file and ("sha256" in file) != (file["name"] == no_hash), file
        assert re.fullmatch("[0-9a-f]{64}", file.get("sha256", "0" * 64)), file
    frame = data.sources().set_index("name")
    assert list(frame.index) == list(SOURCES) and frame.loc["seat", "files"] == 46
    assert frame.loc["gender_swapped_stereoset", ["MB", "used_by"]].tolist() == [0.132, "07, 08"]
    assert set(frame.loc[frame["files"] == 0, "status"]) == {"hub"}


test_unknown_names_are_answered_with_what_there_is = refuses(
    (
        lambda: data.path("wikitext2_raw"),
        "no data file 'wikitext2_raw' .is it .*'wikitext2_raw/wiki.test.raw'",
    ),
    (lambda: data.words("xyz"), "no word list 'xyz'.*gender_pairs.*verbalizer"),
    (
        lambda: data.hub("hub_glue", "colla", "train"),
        "no configuration of hub_glue 'colla' .is it 'cola'",
    ),
    (lambda: data.path(None), "no data file None"),
    (lambda: readers.stereoset(["dev"]), "no part of the gender-swapped StereoSet"),
    (lambda: readers.snli("dev"), "no split 'dev'"),
    (lambda: readers.glue("QQP", "train"), "GLUE's QQP is not at hand"),
)


def test_real_files_have_their_hashes_and_the_lists_are_theirs(real_data):
    """Every file of COMPANION_DATA is the published one, and all that have a hash are there."""
    for file in FILES:
        if "sha256" in file:
            assert (
                data.available(file["name"]) and data.path(file["name"]) == real_data / file["name"]
            )

    def words(name):
        return [line for line in data.path(name).read_text(encoding="utf-8").split("\n") if line]

    assert data.words("gender_pairs")["female"].tolist() == words("context_debias/female.txt")
    assert data.words("gender_pairs")["male"].tolist() == words("context_debias/male.txt")
    assert data.words("gender_stereotypes")["word"].tolist() == words(
        "context_debias/stereotype.txt"
    )
    assert data.words("nli_occupations")["occupation"].tolist() == words(
        "dev_nli/nouns_people_occupations"
    )
    for name, column, by, file in [
        ("winobias_occupations", "occupation", "dominated", "winobias/{}_occupations.txt"),
        ("nli_objects", "word", "class", "dev_nli/nouns_objects_{}"),
        ("nli_verbs", "verb", "class", "dev_nli/verbs_{}_verbs"),
    ]:
        for kind, members in data.words(name).groupby(by):
            assert members[column].tolist() == words(file.format(kind))


@pytest.fixture
def files(monkeypatch, tmp_path):
    """Outside files by name, as a test writes them: files["seat/x.jsonl"] = text."""

    class Files(dict):
        def __setitem__(self, name, text):
            file = tmp_path / name
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(
                gzip.compress(text.encode()) if name.endswith(".gz") else text.encode()
            )
            super().__setitem__(name, file)

    written = Files()
    monkeypatch.setattr(data, "path", written.__getitem__)
    return written


def test_labels_become_words_whatever_the_coding_and_pairs_without_one_are_dropped(
    files, monkeypatch
):
    files["snli_becel/test.tsv"] = (
        'premise\thypothesis\tlabel\nA.\tB.\t0\nC.\tD.\t1\n"E ""x""."\tnull\t2\n'
    )
    assert readers.snli("test").values.tolist() == [
        ["A.", "B.", "entailment"],
        ["C.", "D.", "neutral"],
        ['E "x".', "null", "contradiction"],
    ]
    files["snli_cat/train.csv"] = "1\t1\tA.\tB.\n2\t2\tC.\tD.\n3\t3\tE.\tF.\n"
    files["snli_cad/all_combined_train.tsv"] = (
        "sentence1\tsentence2\tgold_label\nG.\tH.\tentailment\n"
    )
    assert readers.snli("train").to_dict("list") == {
        "premise": ["A.", "C.", "E.", "G."],
        "hypothesis": ["B.", "D.", "F.", "H."],
        "label": ["neutral", "contradiction", "entailment", "entailment"],
    }
    table = pd.DataFrame({"premise": ["A.", "B."], "hypothesis": ["C.", "D."], "label": [-1, 2]})
    monkeypatch.setattr(
        data, "hub", lambda name, config, split: SimpleNamespace(to_pandas=lambda: table)
    )
    assert readers.snli("train", full=True).values.tolist() == [["B.", "D.", "contradiction"]]
    files["gender_swapped_stereoset/dev.csv"] = ",".join(readers.TRIPLE) + (
        "\n0,She sat.,She sang.,Stereotype,F,He sat.,He sang."
        "\n0,She sat.,She ran.,anti_stereotype,F,He sat.,He ran."
        '\n0,She sat.,"Null, void.",unrelated,F,He sat.,"Null, void."\n'
    )
    assert readers.stereoset()[["label", "next_sentence"]].values.tolist() == [
        ["stereotype", "She sang."],
        ["anti-stereotype", "She ran."],
        ["unrelated", "Null, void."],
    ]

TWO_TRIPLES = [
    "7,She sat.,She sang.,stereotype,F,He sat.,He sang.",
    "7,She sat.,She ran.,anti-stereotype,F,He sat.,He ran.",
    "7,She sat.,Rain fell.,unrelated,F,He sat.,Rain fell.",
    "0,He ate.,He cooked.,anti-stereotype,M,She ate.,She cooked.",
    "0,He ate.,He drove.,stereotype,M,She ate.,She drove.",
    "0,He ate.,Snow fell.,unrelated,M,She ate.,Snow fell.",
]
MISSPELT_HEADER = (
    "context_id,context,next_sentence,label,gender,"
    "gender_swapped_conext,gender_swapped_next_sentence"
)


def test_the_second_file_of_triples_has_its_column_mended_and_its_ids_kept_apart(files):
    files["gender_swapped_stereoset/dev.csv"] = "\n".join([",".join(readers.TRIPLE), *TWO_TRIPLES])
    files["gender_swapped_stereoset/test.csv"] = "\n".join([MISSPELT_HEADER, *TWO_TRIPLES])
    dev, test, both = (readers.stereoset(part) for part in ("dev", "test", "both"))
    assert list(test) == list(both) == readers.TRIPLE
    assert test["gender_swapped_context"].tolist() == ["He sat."] * 3 + ["She ate."] * 3
    assert dev["context_id"].tolist() == [7] * 3 + [0] * 3
    assert test["context_id"].tolist() == [1007] * 3 + [1000] * 3
    assert both.equals(pd.concat([dev, test], ignore_index=True))
    assert readers.stereoset().equals(dev)


@pytest.mark.parametrize("rows", [TWO_TRIPLES[:5], TWO_TRIPLES[:3] + TWO_TRIPLES[:1]])
def test_a_file_of_triples_that_lacks_a_row_or_has_one_twice_is_refused(files, rows):
    files["gender_swapped_stereoset/test.csv"] = "\n".join([MISSPELT_HEADER, *rows])
    with pytest.raises(AssertionError, match="without one row for each label"):
        readers.stereoset("test")


def test_a_truncated_file_of_triples_is_refused_by_its_hash(tmp_path, monkeypatch):
    file = tmp_path / "gender_swapped_stereoset" / "test.csv"
    file.parent.mkdir()
    file.write_text("\n".join([MISSPELT_HEADER, *TWO_TRIPLES]), encoding="utf-8")
    monkeypatch.setenv("COMPANION_DATA", str(tmp_path))
    assert not data.available("gender_swapped_stereoset/test.csv")
    assert "test.csv is not the published file" in refusal(readers.stereoset, "test")


def test_news_is_what_lies_at_hand_and_says_so_but_the_profile_paper_takes_no_stand_in(
    files, monkeypatch, capsys
):
    bbc, own = readers.NEWS["bbc_news"], readers.NEWS["news_commentary"]
    files[bbc], files[own] = (
        json.dumps({"path": "a", "text": "Title\n\nBody.\n"}) + "\n",
        "One.\n\nTwo.\n",
    )
    paper, mini = Run(profile="paper"), Run(data="paper")
    stands_in = f"bbc_news (stands in for news_commentary, the paper's own: put {own} into"
    for at_hand, taken, said in [
        ([bbc, own], ["One.", "Two."], "news_commentary"),
        ([bbc], ["Title\n\nBody."], stands_in),
        ([], ["Title\n\nBody."], stands_in),
    ]:
        monkeypatch.setattr(data, "available", at_hand.__contains__)
        assert readers.news() == taken and capsys.readouterr().out.startswith(f"News texts: {said}")
        assert (paper.news, mini.news, Run().news) == (
            "news_commentary",
            said.split()[0],
            "",
        )  # results are kept by it
        assert (
            heads.arguments(paper, "bert-base", "gender")[2].source == "paper"
        )  # its own is fetched
    out_of_reach = {}
    monkeypatch.setattr(data, "path", lambda file: data.one_of(out_of_reach, file, "file"))
    said = refusal(heads.arguments, paper, "bert-base", "gender")
    assert re.search(f"'{own}': .*; a profile with stand_ins = true takes the BBC's", said)
    assert heads.arguments(mini, "mini-bert", "race")[2].source == "paper"


def test_real_files(real_data):
    """Their hashes are fixed: what is tested is that all rows are found and labels decoded."""
    sizes = {"train": 26330, "validation": 9842, "test": 9824}
    splits = {split: readers.snli(split) for split in sizes}
    assert {split: len(frame) for split, frame in splits.items()} == sizes
    for frame in splits.values():
        assert (
            frame["label"]
            .value_counts(normalize=True)[readers.NLI_LABELS]
            .between(0.32, 0.35)
            .all()
        )
    # the two training files share pairs; where they do, the words their codes were given must agree
    own, augmented = splits["train"][:18000], splits["train"][18000:]
    both = own.merge(
        augmented.drop_duplicates(["premise", "hypothesis"]), on=["premise", "hypothesis"]
    )
    assert len(both) > 40 and (both["label_x"] == both["label_y"]).mean() > 0.95
    for part, triples in {"dev": 234, "test": 749, "both": 983}.items():
        frame = readers.stereoset(part)
        assert frame.groupby(["context_id", "label"]).size().eq(1).sum() == 3 * triples
    assert (
        len(readers.wikitext()) == 2891
        and len(readers.news()) == 2225
        and len(readers.reddit("AskMen")) == 1000
    )
    assert {key: len(sentences) for key, sentences in readers.seat("sent-weat6").items()} == {
        "X": 64,
        "Y": 64,
        "A": 101,
        "B": 112,
    }
    glue = {
        task: [len(readers.glue(task, part)) for part in parts]
        for task, parts in readers.GLUE.items()
    }
    assert glue == {
        "RTE": [2490, 277],
        "SST-2": [60614, 6735, 872],
        "WNLI": [518, 117, 71],
        "CoLA": [7250, 1301, 1043],
        "MRPC": [3668, 408],
        "STS-B": [4249, 1500],
    }
