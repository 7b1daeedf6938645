"""The lists hold what the papers count, the sources are well formed, and what is not there is said."""

import re
import tomllib

import pytest

from lib import CompanionError, paths
from lib.text import data

ROWS = {"gender_pairs": 222, "gender_stereotypes": 168, "race_words": 7, "race_roles": 11, "occupations": 58,
        "winobias_occupations": 40, "nli_occupations": 164, "nli_gendered": 6, "nli_objects": 95, "nli_verbs": 27,
        "nli_contexts": 33, "verbalizer": 126, "lpbs_lists": 40, "subspace_pairs": 40}
SOURCES = tomllib.loads(paths.SOURCES.read_text(encoding="utf-8"))
FILES = [file for entry in SOURCES.values() for file in entry.get("files", [])]


def test_lists_have_the_papers_rows_and_name_their_source():
    assert {file.stem: len(data.words(file.stem)) for file in paths.LISTS.glob("*.csv")} == ROWS
    assert all(re.search("(?m)^# Source: .*(licence|MIT)", file.read_text()) for file in paths.LISTS.glob("*.csv"))


def test_gender_and_race_lists_hold_what_bias_a_head_counts():
    pairs = data.words("gender_pairs")
    female, male = set(pairs["female"]), set(pairs["male"])
    assert (len(female), len(male), len(female | male)) == (202, 207, 409)
    stereotypes = data.words("gender_stereotypes")
    assert stereotypes["word"].is_unique and stereotypes["stereotype"].tolist() == ["female", "male"] * 84
    roles = data.words("race_roles")["stereotype"].value_counts()
    assert roles.to_dict() == {"caucasian": 6, "african-american": 5}


def test_occupations_are_those_of_table_1_and_agree_with_winobias():
    frame, winobias = data.words("occupations"), data.words("winobias_occupations").set_index("occupation")
    percent = frame["percent_women"]
    assert percent.is_monotonic_increasing and (percent.iloc[0], percent.iloc[-1]) == (2.9, 94.6)
    assert ((percent > 50) == (frame["dominated"] == "female")).all() and sum(percent > 50) == 29
    shared = frame[frame["winobias"] != ""].set_index("winobias")
    assert set(shared.index) == set(winobias.index) - {"tailor"}  # which has no percentage there
    for column in ("percent_women", "dominated"):
        assert (shared[column] == winobias.loc[shared.index, column]).all()


def test_shipped_tables_and_lines_are_read_as_words(monkeypatch, tmp_path):
    monkeypatch.setattr(paths, "LISTS", tmp_path)
    monkeypatch.setattr(paths, "DEMO", tmp_path)
    (tmp_path / "odd.csv").write_text("# Source: none\n# two lines\nword,group\nnull,a\nnan,#b\n")
    (tmp_path / "lines.txt").write_text("# written here\nOne.\n\nTwo.\n", encoding="utf-8")
    assert data.words("odd").values.tolist() == [["null", "a"], ["nan", "#b"]]  # not missing values
    assert data.rows("odd") == [{"word": "null", "group": "a"}, {"word": "nan", "group": "#b"}]
    assert data.demo("lines") == ["One.", "Two."]
    with pytest.raises(CompanionError, match=r"no demo file 'line' .is it 'lines'.*lines, odd"):
        data.demo("line")


def test_every_source_is_pinned_licensed_and_counted():
    assert all(entry["licence"] and ("files" in entry or re.fullmatch("[0-9a-f]{40}", entry["revision"]))
               for entry in SOURCES.values())
    no_hash, no_address = "news_commentary/news-commentary-v15.en.gz", "bbc_news/bbc.jsonl.gz"  # as their notes say
    for file in FILES:
        assert ("sha256" in file) != (file["name"] == no_hash) and ("url" in file) != (file["name"] == no_address), file
        assert re.fullmatch("[0-9a-f]{64}", file.get("sha256", "0" * 64)), file
    frame = data.sources().set_index("name")
    assert list(frame.index) == list(SOURCES)
    assert frame.loc["seat", "files"] == 46 and frame.loc["gender_swapped_stereoset", "MB"] == 0.132
    assert frame.loc["gender_swapped_stereoset", "used_by"] == "07, 08"
    assert set(frame.loc[frame["files"] == 0, "status"]) == {"hub"}


@pytest.mark.parametrize("call, said", [
    (lambda: data.path("wikitext2_raw"), "no data file 'wikitext2_raw' .is it .*'wikitext2_raw/wiki.test.raw'"),
    (lambda: data.words("xyz"), "no word list 'xyz'.*gender_pairs.*verbalizer"),
    (lambda: data.hub("hub_glue", "colla", "train"), "no configuration of hub_glue 'colla' .is it 'cola'"),
])
def test_unknown_names_are_answered_with_what_there_is(call, said):
    with pytest.raises(CompanionError, match=said):
        call()


def test_real_files_have_their_hashes(real_data):
    """Every file that COMPANION_DATA holds is the published one, and it holds all those that have a hash."""
    for file in FILES:
        if "sha256" in file:
            assert data.available(file["name"]) and data.path(file["name"]) == real_data / file["name"]


def test_lists_are_those_of_the_real_files(real_data):
    def words(name):
        return [line for line in data.path(name).read_text(encoding="utf-8").split("\n") if line]

    assert data.words("gender_pairs")["female"].tolist() == words("context_debias/female.txt")
    assert data.words("gender_pairs")["male"].tolist() == words("context_debias/male.txt")
    assert data.words("gender_stereotypes")["word"].tolist() == words("context_debias/stereotype.txt")
    assert data.words("nli_occupations")["occupation"].tolist() == words("dev_nli/nouns_people_occupations")
    for name, column, by, file in [("winobias_occupations", "occupation", "dominated", "winobias/{}_occupations.txt"),
                                   ("nli_objects", "word", "class", "dev_nli/nouns_objects_{}"),
                                   ("nli_verbs", "verb", "class", "dev_nli/verbs_{}_verbs")]:
        for kind, members in data.words(name).groupby(by):
            assert members[column].tolist() == words(file.format(kind))
