"""The lists hold what the papers count, the sources are well formed, getting a file fails in sentences."""

import errno
import hashlib
import http.server
import re
import socket
import threading
import tomllib

import pooch
import pytest

from lib import CompanionError, paths
from lib.text import data

LISTS = {  # name: rows, columns
    "gender_pairs": (222, ["female", "male"]),
    "gender_stereotypes": (168, ["word", "stereotype"]),
    "race_words": (7, ["word", "group", "pair"]),
    "race_roles": (11, ["word", "stereotype"]),
    "occupations": (58, ["occupation", "percent_women", "dominated", "singular", "winobias"]),
    "winobias_occupations": (40, ["occupation", "dominated", "percent_women"]),
    "nli_occupations": (164, ["occupation"]),
    "nli_gendered": (6, ["word", "gender"]),
    "nli_objects": (95, ["word", "class"]),
    "nli_verbs": (27, ["verb", "class"]),
    "nli_contexts": (33, ["verb", "object"]),
    "verbalizer": (126, ["word", "gender"]),
    "lpbs_lists": (40, ["word", "list"]),
    "subspace_pairs": (40, ["female", "male", "source"]),
}
NOTEBOOKS = {f"{number:02}" for number in range(1, 13)}
SOURCES = tomllib.loads(paths.SOURCES.read_text(encoding="utf-8"))
FILES = [file for entry in SOURCES.values() for file in entry.get("files", [])]


# ---- word lists


def test_lists_are_those_expected():
    assert {file.stem for file in paths.LISTS.glob("*.csv")} == set(LISTS)


@pytest.mark.parametrize("name", LISTS)
def test_list_has_its_rows_and_columns(name):
    rows, columns = LISTS[name]
    frame = data.words(name)
    assert len(frame) == rows and list(frame.columns) == columns
    for column in frame.columns.drop("percent_women", errors="ignore"):
        assert (frame[column] == frame[column].str.strip()).all()


@pytest.mark.parametrize("name", LISTS)
def test_list_names_its_source(name):
    lines = (paths.LISTS / f"{name}.csv").read_text(encoding="utf-8").splitlines()
    header = [line for line in lines if line.startswith("#")]
    assert lines[:len(header)] == header
    source = next(line for line in header if line.startswith("# Source: "))
    assert "licence" in source or "MIT" in source


def test_gender_pairs_hold_409_words():
    pairs = data.words("gender_pairs")
    female, male = set(pairs["female"]), set(pairs["male"])
    assert (len(female), len(male), len(female | male)) == (202, 207, 409)
    assert pairs.iloc[0].tolist() == ["countrywoman", "countryman"]
    assert pairs.iloc[-1].tolist() == ["heroines", "heros"]
    assert pairs.stack().str.contains("_").sum() == 7  # entries, six words
    assert "mentleman" in male  # as published


def test_gender_stereotypes_alternate():
    frame = data.words("gender_stereotypes")
    assert frame["word"].is_unique
    assert frame["stereotype"].tolist() == ["female", "male"] * 84
    sides = frame.set_index("word")["stereotype"]
    assert sides["nurse"] == sides["tall"] == "female" and sides["engineer"] == sides["gentle"] == "male"


def test_race_pairs_are_three_of_two_groups():
    frame = data.words("race_words")
    paired = frame[frame["pair"] != ""]
    assert len(paired) == 6 and frame[frame["pair"] == ""]["word"].tolist() == ["europe"]
    for pair, members in paired.groupby("pair"):
        by_group = members.set_index("group")["word"]
        assert pair == f"{by_group['african-american']}-{by_group['caucasian']}"
    roles = data.words("race_roles")["stereotype"].value_counts()
    assert roles.to_dict() == {"caucasian": 6, "african-american": 5}


def test_occupations_are_sorted_as_printed():
    frame = data.words("occupations")
    percent = frame["percent_women"]
    assert percent.between(0, 100).all() and percent.is_monotonic_increasing
    assert (percent.iloc[0], percent.iloc[-1]) == (2.9, 94.6)
    assert frame["dominated"].tolist() == ["male"] * 29 + ["female"] * 29
    assert ((percent > 50) == (frame["dominated"] == "female")).all()


def test_occupations_are_spelled_for_use_and_for_winobias():
    frame = data.words("occupations").set_index("occupation")
    changed = frame[frame.index != frame["singular"]]["singular"]
    assert changed.to_dict() == {word: word[:-1] for word in ("counselors", "designers", "hairdressers")}
    assert frame.loc["mechanician", "winobias"] == "mechanic" and frame.loc["pilot", "winobias"] == ""


def test_winobias_agrees_with_table_1():
    winobias = data.words("winobias_occupations").set_index("occupation")
    assert winobias.index.is_unique
    assert winobias["dominated"].value_counts().to_dict() == {"female": 20, "male": 20}
    assert winobias.index[winobias["percent_women"].isna()].tolist() == ["tailor"]
    table = data.words("occupations")
    table = table[table["winobias"] != ""].set_index("winobias")
    assert set(table.index) == set(winobias.index) - {"tailor"}
    for column in ("percent_women", "dominated"):
        assert (table[column] == winobias.loc[table.index, column]).all()


def test_nli_lists():
    assert data.words("nli_occupations")["occupation"].is_unique
    assert data.words("nli_gendered")["gender"].value_counts().to_dict() == {"male": 3, "female": 3}
    assert set(data.words("nli_verbs")["class"]) == {"commerce", "driving", "eating", "interaction"}
    assert data.words("nli_objects").set_index("word").loc["pizza", "class"] == "food"


def test_lpbs_lists_hold_eight_words_each():
    sizes = data.words("lpbs_lists")["list"].value_counts().to_dict()
    assert sizes == dict.fromkeys(["career", "family", "math", "arts", "science"], 8)


def test_subspace_pairs_differ_in_gender_words_alone():
    definitional = {"woman-man", "girl-boy", "she-he", "mother-father", "daughter-son", "gal-guy",
                    "female-male", "her-his", "herself-himself", "Mary-John"}
    frame = data.words("subspace_pairs")
    assert set(frame["source"]) == definitional and not frame.duplicated().any()
    for female, male, source in frame.itertuples(index=False):
        left, right = (re.findall(r"\w+|[^\w\s]", sentence) for sentence in (female, male))
        differing = {f"{a}-{b}".lower() for a, b in zip(left, right, strict=True) if a != b}
        assert source.lower() in differing
        assert differing <= {pair.lower() for pair in definitional}


def test_words_that_look_like_missing_values_stay_words(monkeypatch, tmp_path):
    monkeypatch.setattr(paths, "LISTS", tmp_path)
    (tmp_path / "odd.csv").write_text("# Source: none\n# two lines\nword,group\nnull,a\nnan,#b\n")
    assert data.words("odd").values.tolist() == [["null", "a"], ["nan", "#b"]]


def test_demo_reads_tables_and_lines(monkeypatch, tmp_path):
    monkeypatch.setattr(paths, "DEMO", tmp_path)
    (tmp_path / "lines.txt").write_text("# written here\nOne.\n\nTwo.\n", encoding="utf-8")
    (tmp_path / "table.csv").write_text("# written here\nid,text\n1,One.\n", encoding="utf-8")
    assert data.demo("lines") == ["One.", "Two."]
    assert data.demo("table").to_dict("records") == [{"id": 1, "text": "One."}]
    with pytest.raises(CompanionError, match=r"no demo file 'tables' .is it 'table'.*lines, table"):
        data.demo("tables")


def test_unknown_list_is_answered_with_what_there_is():
    with pytest.raises(CompanionError) as error:
        data.words("xyz")
    assert all(name in str(error.value) for name in LISTS)


# ---- sources.toml


@pytest.mark.parametrize("name", SOURCES)
def test_source_is_well_formed(name):
    entry = SOURCES[name]
    assert entry["title"] and entry["licence"] and entry["note"] and entry["home"].startswith("https://")
    assert entry["used_by"] and set(entry["used_by"]) <= NOTEBOOKS
    assert ("hub" in entry) != ("files" in entry)
    if "hub" in entry:
        assert entry["configs"] and re.fullmatch("[0-9a-f]{40}", entry["revision"])


@pytest.mark.parametrize("file", FILES, ids=lambda file: file["name"])
def test_file_is_well_formed(file):
    assert re.fullmatch(r"[a-z0-9_]+/[\w.+-]+", file["name"])
    if file["name"] == "news_commentary/news-commentary-v15.en.gz":  # no hash is published
        assert "sha256" not in file
    else:
        assert re.fullmatch("[0-9a-f]{64}", file["sha256"]) and file["bytes"] > 0
    if file["name"] == "bbc_news/bbc.jsonl.gz":  # packed from many files
        assert "url" not in file
    else:
        assert re.fullmatch(r"https://[\w./%~-]+", file["url"])  # a bare + is a space to some servers
    assert file["name"].split("/")[0] in SOURCES


def test_files_are_listed_once():
    names = [file["name"] for file in FILES]
    assert len(names) == len(set(names))


# ---- getting a file


PUBLISHED = b"The published text.\n" * 5000


class Server(http.server.BaseHTTPRequestHandler):
    """Answers every request with `body`; a cut connection falls short of the `promised` length."""

    body, promised, asked = PUBLISHED, len(PUBLISHED), 0

    def do_GET(self):
        type(self).asked += 1
        if self.path == "/gone":
            return self.send_error(404)
        self.send_response(200)
        self.send_header("Content-Length", str(self.promised))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *args):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(Server, "asked", 0)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}/text"
        running.shutdown()
        thread.join()


@pytest.fixture
def one_source(monkeypatch, tmp_path):
    """A sources.toml with the one file set/text.txt, at an address the test chooses, and an empty cache."""
    monkeypatch.delenv("COMPANION_DATA", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(paths, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(paths, "SOURCES", tmp_path / "sources.toml")

    def write(url: str | None, hashed: bool = True):
        lines = ["[set]", 'title = "A set"', 'licence = "ours"', 'used_by = ["01"]', "[[set.files]]",
                 'name = "set/text.txt"']
        lines += [f'url = "{url}"'] if url else []
        if hashed:
            lines += [f'sha256 = "{hashlib.sha256(PUBLISHED).hexdigest()}"', f"bytes = {len(PUBLISHED)}"]
        paths.SOURCES.write_text("\n".join(lines), encoding="utf-8")

    return write


@pytest.fixture
def given(monkeypatch, tmp_path):
    """The folder that COMPANION_DATA names, with room for set/text.txt."""
    (tmp_path / "given" / "set").mkdir(parents=True)
    monkeypatch.setenv("COMPANION_DATA", str(tmp_path / "given"))
    return tmp_path / "given"


def left_in_cache():
    return [file for file in paths.CACHE.rglob("*") if file.is_file()]


def status():
    return data.sources().set_index("name").loc["set", "status"]


def test_download_is_kept_and_not_repeated(one_source, server, capsys):
    one_source(server)
    assert not data.available("set/text.txt") and status() == "to fetch"
    found = data.path("set/text.txt")
    assert found == paths.CACHE / "sources" / "set" / "text.txt" and found.read_bytes() == PUBLISHED
    assert f"fetching set/text.txt from {server}" in capsys.readouterr().err
    assert data.available("set/text.txt") and status() == "at hand"
    assert data.path("set/text.txt") == found and Server.asked == 1
    assert left_in_cache() == [found]
    assert capsys.readouterr().err == ""


def test_damaged_cache_is_fetched_again(one_source, server, capsys):
    one_source(server)
    found = data.path("set/text.txt")
    found.write_bytes(b"damaged")
    assert not data.available("set/text.txt")
    assert data.path("set/text.txt").read_bytes() == PUBLISHED and Server.asked == 2
    assert "the copy in the cache is damaged" in capsys.readouterr().err


def test_file_without_a_hash_is_fetched_and_its_hash_printed(one_source, server, capsys):
    one_source(server, hashed=False)
    assert data.path("set/text.txt").read_bytes() == PUBLISHED
    assert hashlib.sha256(PUBLISHED).hexdigest() in capsys.readouterr().err


@pytest.mark.parametrize("hashed", [True, False])
def test_connection_that_breaks_off_leaves_nothing(one_source, server, monkeypatch, hashed):
    one_source(server, hashed)
    monkeypatch.setattr(Server, "body", PUBLISHED[:1000])
    with pytest.raises(CompanionError, match="set/text.txt broke off and was thrown away: run again"):
        data.path("set/text.txt")
    assert left_in_cache() == [] and not data.available("set/text.txt")


def test_truncated_file_is_refused_and_leaves_nothing(one_source, server, monkeypatch):
    one_source(server)
    monkeypatch.setattr(Server, "body", PUBLISHED[:1000])
    monkeypatch.setattr(Server, "promised", 1000)
    with pytest.raises(CompanionError, match="is not the published file .* thrown away: run again"):
        data.path("set/text.txt")
    assert left_in_cache() == [] and not data.available("set/text.txt")


def test_no_network_is_said_in_a_sentence(one_source):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        one_source(f"http://127.0.0.1:{free.getsockname()[1]}/text")  # bound, but nobody listens
        with pytest.raises(CompanionError, match="out of reach: connect to the network .* COMPANION_DATA"):
            data.path("set/text.txt")
    assert left_in_cache() == []


def test_file_gone_from_its_home_is_said_in_a_sentence(one_source, server):
    one_source(server.replace("/text", "/gone"))
    with pytest.raises(CompanionError, match="answers 404: find set/text.txt elsewhere"):
        data.path("set/text.txt")
    assert left_in_cache() == []


@pytest.mark.parametrize("number, said", [(errno.ENOSPC, "the disk is full: free some space"),
                                          (errno.EACCES, "make that folder writable")])
def test_disk_that_cannot_be_written(one_source, monkeypatch, number, said):
    def fill(self, url, output, pooch, check_only=False):
        with open(output, "wb") as file:
            file.write(PUBLISHED[:1000])
        raise OSError(number, "as the system says it")

    one_source("http://127.0.0.1:1/text")
    monkeypatch.setattr(pooch.HTTPDownloader, "__call__", fill)
    with pytest.raises(CompanionError, match=f"{said}, or set COMPANION_CACHE"):
        data.path("set/text.txt")
    assert left_in_cache() == []


def test_given_folder_comes_first(one_source, server, given):
    one_source(server)
    (given / "set" / "text.txt").write_bytes(PUBLISHED)
    assert data.available("set/text.txt") and data.path("set/text.txt") == given / "set" / "text.txt"
    assert Server.asked == 0 and left_in_cache() == []


def test_given_folder_may_be_relative_to_the_repository(one_source, given, monkeypatch):
    one_source(None)
    (given / "set" / "text.txt").write_bytes(PUBLISHED)
    monkeypatch.setattr(paths, "ROOT", given.parent)
    monkeypatch.setenv("COMPANION_DATA", "given")
    assert data.path("set/text.txt") == given / "set" / "text.txt"


def test_wrong_hash_in_given_folder_is_refused_and_not_downloaded(one_source, server, given):
    one_source(server)
    wrong = PUBLISHED.replace(b"published", b"Published", 1)  # of the right size
    (given / "set" / "text.txt").write_bytes(wrong)
    with pytest.raises(CompanionError) as error:
        data.path("set/text.txt")
    for part in (str(given / "set" / "text.txt"), hashlib.sha256(wrong).hexdigest(),
                 hashlib.sha256(PUBLISHED).hexdigest(), "put the published one in its place"):
        assert part in str(error.value)
    assert Server.asked == 0


def test_file_missing_from_given_folder_is_fetched_aloud(one_source, server, given, capsys):
    one_source(server)
    assert not data.available("set/text.txt")
    assert data.path("set/text.txt").read_bytes() == PUBLISHED
    assert f"set/text.txt is not in {given}: fetching" in capsys.readouterr().err


def test_given_folder_that_does_not_exist(one_source, monkeypatch, tmp_path):
    one_source("http://127.0.0.1:1/text")
    monkeypatch.setenv("COMPANION_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(CompanionError, match="nowhere, which is not a folder: correct it or unset it"):
        data.path("set/text.txt")


def test_file_without_an_address(one_source):
    one_source(None)
    assert status() == "not fetchable"
    with pytest.raises(CompanionError, match="no address of its own: set COMPANION_DATA to a folder"):
        data.path("set/text.txt")


@pytest.mark.parametrize("name, meant", [("wikitext2_raw", "wikitext2_raw/wiki.test.raw"),
                                         ("seat/sent_weat6.jsonl", "seat/sent-weat6.jsonl")])
def test_unknown_file_is_answered_with_close_names(name, meant):
    with pytest.raises(CompanionError, match=f"no data file '{name}' .is it .*'{meant}'"):
        data.path(name)


def test_hub_set_is_asked_for_at_its_revision(monkeypatch):
    import datasets

    asked = {}
    monkeypatch.setattr(datasets, "load_dataset", lambda *args, **kwargs: asked.update(args=args, **kwargs))
    data.hub("hub_glue", "cola", "train")
    revision = SOURCES["hub_glue"]["revision"]
    assert asked == {"args": ("nyu-mll/glue", "cola"), "split": "train", "revision": revision}
    with pytest.raises(CompanionError, match="no configuration of hub_glue 'colla' .is it 'cola'"):
        data.hub("hub_glue", "colla", "train")


def test_hub_out_of_reach_is_said_in_a_sentence(monkeypatch):
    import datasets

    def unreachable(*args, **kwargs):
        raise ConnectionError("Couldn't reach the Hub\nand a long story")

    monkeypatch.setattr(datasets, "load_dataset", unreachable)
    with pytest.raises(CompanionError, match=r"Couldn't reach the Hub\): connect to the network"):
        data.hub("hub_snli", "plain_text", "train")


def test_inventory_counts_files_and_sizes():
    frame = data.sources().set_index("name")
    assert list(frame.index) == list(SOURCES)
    assert frame.loc["seat", "files"] == 46 and frame.loc["gender_swapped_stereoset", "MB"] == 0.132
    assert frame.loc["gender_swapped_stereoset", "used_by"] == "07, 08"
    assert set(frame.loc[frame["files"] == 0, "status"]) == {"hub"}


# ---- the real files


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
    winobias = data.words("winobias_occupations")
    for gender in ("female", "male"):
        ours = winobias[winobias["dominated"] == gender]["occupation"].tolist()
        assert ours == words(f"winobias/{gender}_occupations.txt")
    for kind, members in data.words("nli_objects").groupby("class"):
        assert members["word"].tolist() == words(f"dev_nli/nouns_objects_{kind}")
    for kind, members in data.words("nli_verbs").groupby("class"):
        assert members["verb"].tolist() == words(f"dev_nli/verbs_{kind}_verbs")
