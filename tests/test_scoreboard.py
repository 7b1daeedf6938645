"""The scoreboard on made-up runs: numbers find their place, claims are counted, seeds are compared."""

import pandas as pd
import pytest

from lib import CompanionError, paths
from lib import printed as paper
from lib.publish import claims, plots_scoreboard, report, scoreboard
from lib.publish.run import replace

COMPARED = {"table": "Table 5", "row": "Base", "column": "S", "paper": "0.3069", "ours": "0.127", "difference": "-0.18",
            "verdict": "other model"}


@pytest.fixture
def folder(tmp_path):
    def store(run, **tables):
        for name, rows in tables.items():
            replace(tmp_path / run / f"{name[1:]}.csv", pd.DataFrame(rows).to_csv(index=False).encode())
        return tmp_path / run
    return store


def placed(table):
    return table.set_index(["source", "table", "row", "column"]).sort_index()


# ---------------------------------------------------------------- numbers

def test_every_printed_number_has_a_row_and_finds_ours(folder):
    quantity = {"quantity": "SEAT, gender (footnote 9)", "paper": "gpt2: 0.351", "ours": "mini-gpt2: 1.08",
                "difference": "+0.73", "verdict": "other model"}
    weight = {"figure": "3", "bias": "gender", "heads": "biased", "measure": "weight original", "paper": .017,
              "ours": .564, "model": "mini-bert", "difference": .548, "verdict": "other model"}
    masked = COMPARED | {"table": "1", "row": "Top-3", "column": "PPPL", "ours": "10.7"}
    table = scoreboard.numbers({"mini": folder("mini", _02_paper=[quantity], _03_verdicts=[weight],
                                               _04_against_paper=[masked], _08_against_paper=[COMPARED])})
    assert len(table) == sum(len(paper.numbers(name)) for name in claims.NAMES)
    told = placed(table)[["printed", "ours, mini", "verdict, mini"]]
    for key, ours in {("Bias A-head", "Footnote 9", "gpt2", "SEAT"): "mini-gpt2: 1.08",
                      ("Bias A-head", "Figure 3", "biased", "weight original"): "0.564",
                      ("Bias A-head", "Table 1", "Top-3", "PPPL"): "10.7",
                      ("Bias A-head", "Appendix A", "Top-3", "PPPL"): "10.7",  # printed once more in the text
                      ("Projective Methods", "Table 5", "Base", "S"): "0.127"}.items():
        assert told.loc[key, ["ours, mini", "verdict, mini"]].tolist() == [ours, "other model"]
    assert told.loc[("Bias A-head", "Table 3", "5", "math / arts")].tolist() == [
        "", "", "not run (the printed number is lost)"]
    assert told.loc[("Bias A-head", "Table 1", "full", "SEAT")].tolist() == ["1.35", "", "not run"]


def test_counts_hang_on_no_model():
    told = placed(scoreboard.numbers({"none": paths.ROOT / "nowhere"}))["verdict, none"]
    assert told["Bias A-head", "Section 4", "gender", "attribute pairs"] == "matches"
    assert told["Bias A-head", "Section 4", "gender", "attribute words"].startswith("differs: ")  # 409, not 444
    assert told["Projective Methods", "Section 3", "test set", "sentence pairs"] == "matches"
    assert told["Projective Methods", "Section 4", "debiased models", "number"] == "matches"
    assert (told.loc["Counteracts", "Table 1"] == "matches").all()


def test_fig_4s_p_and_n_come_from_the_table_of_tests(folder):
    tests = [{"figure": "4a mini-bert gender", "heads": "biased", "unit": unit, "n": n, "p": p}
             for unit, n, p in (("sentence", 500, "0.98"), ("target", 91, "0.50"))]
    t = {"figure": "4a", "bias": "gender", "heads": "biased", "measure": "t", "paper": 3.182, "ours": -2.159,
         "model": "mini-bert", "difference": -5.341, "verdict": "other model"}
    told = placed(scoreboard.numbers({"mini": folder("mini", _03_verdicts=[t], _03_tests=tests)}))
    ours = told.loc["Bias A-head", "Figure 4a", "biased"][["ours, mini", "verdict, mini"]]
    assert ours.loc["p"].tolist() == ["0.98", "other model"] and ours.loc["N"].tolist() == ["500", "matches"]


def test_a_number_that_no_paper_prints_is_refused(folder):
    with pytest.raises(CompanionError, match=r"08_against_paper.csv compares .*'Bass'.* which data/paper/projective"):
        scoreboard.numbers({"mini": folder("mini", _08_against_paper=[COMPARED | {"row": "Bass"}])})


def test_coverage_counts_what_is_printed_lost_and_measured(folder):
    table = scoreboard.coverage(scoreboard.numbers({"mini": folder("mini", _08_against_paper=[COMPARED])}))
    rows = table.set_index(["paper", "table"])
    assert rows.loc[("Projective Methods", "Table 5"), ["printed", "lost", "mini"]].tolist() == [36, 0, 1]
    assert rows.loc[("Bias A-head", "Table 3"), ["printed", "lost", "mini"]].tolist() == [25, 6, 0]
    assert rows.loc[("all", ""), "printed"] == rows["printed"].iloc[:-1].sum() and rows.loc[("all", ""), "lost"] == 8


def test_papers_that_disagree_with_themselves():
    table = scoreboard.contradictions()
    assert table["source"].value_counts().to_dict() == {
        "Projective Methods": len(paper.contradictions()), "Bias A-head": 3, "Counteracts": 2}
    assert (table["printed"] != table["found"]).all() and list(table.loc[0, ["printed", "found"]]) == ["4.16", "4.13"]
    assert table.loc[table["where"] == "prompts of 58 occupations", "found"].tolist() == ["5452"]


# ---------------------------------------------------------------- claims

def claimed(*verdicts):
    texts = "most heads lie near zero", "biased heads appear in all layers", "GPT-2 has more negative heads than BERT"
    return [{"claim": text, "where": "m", "ours": "", "verdict": verdict} for text, verdict in zip(texts, verdicts)]


def test_the_summary_counts_claims_by_paper_and_run(folder):
    folders = {"mini": folder("mini", _02_claims=claimed("holds", "fails", "holds (within chance)")),
               "paper": folder("paper", _02_claims=[*claimed("holds"), *claimed("fails")])}
    text = scoreboard.summary(folders)  # a run may be called paper
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
    assert lines[0] == ["paper", "claims", "`mini`", "`paper`"] and set(lines[1]) == {"---"}
    own = (claims.listed()["paper"] == "bias_a_head").sum()
    assert lines[2] == ["*Bias A-head*", str(own), "2 hold, 0 in part, 1 fail (of 3)",
                        "0 hold, 1 in part, 0 fail (of 1)"]
    assert lines[4][0] == "*Counteracts*" and lines[4][2:] == ["not run", "not run"]
    assert lines[5][:2] == [report.ALL_PAPERS, str(len(claims.listed()))]


def test_the_summary_of_what_is_stored_adds_up():
    counted = scoreboard.tally()
    totals = counted.groupby("run")["claims"].sum()
    assert (totals == len(claims.listed())).all() and (counted["within chance"] <= counted["claims"]).all()
    for run, part in counted.groupby("run"):
        board = scoreboard.claims_table()[run].map(claims.kind)
        assert part.groupby("kind")["claims"].sum().to_dict() == {
            kind: int((board == kind).sum()) for kind in scoreboard.KINDS}


def test_claims_that_cannot_be_tested_say_why():
    table = scoreboard.untestable()
    assert len(table) == (claims.listed()["why"] != "").sum() and (table["why"].str.len() > 20).all()


def test_the_report_takes_the_board_and_counts_no_claim_twice():
    board, evidence = scoreboard.claims_table(), scoreboard.evidence_table()
    assert set(board) >= report.BOARD
    assert not {"claim", "verdict"} & set(evidence) and not set(scoreboard.numbers()) >= {"paper", "ours", "verdict"}


# ---------------------------------------------------------------- seeds

def test_the_highest_heads_of_several_seeds(folder):
    def seat(model, top):
        rows = [(model, "gender", top), ("mini-gpt2", "gender", "1-1, 1-2, 1-3"), (model, "race", "1-1, 1-2, 1-3")]
        return [{"model": name, "bias": bias, "SEAT": 1.0, "positive": 70, "highest three": three}
                for name, bias, three in rows]

    folders = {"mini": folder("mini", _02_seat=seat("mini-bert", "1-1, 1-2, 1-3")),
               "mini-real": folder("mini-real", _02_seat=seat("mini-bert", "2-8, 9-6, 6-1")),
               "mini-real-seed1": folder("mini-real-seed1", _02_seat=seat("seed1", "9-6, 6-1, 12-12"))}
    table = scoreboard.top_heads(folders=folders)
    assert table["model"].tolist() == ["mini-bert", "seed1"] and table["shared with the first"].tolist() == [3, 2]
    assert table["mean layer"].tolist() == [5.7, 9.0]
    assert scoreboard.top_heads(folders={"paper": folders["mini"]}).empty


# ---------------------------------------------------------------- figures

def test_figures_show_every_claim_and_say_how_many_hold(folder):
    folders = {"mini": folder("mini", _02_claims=claimed("holds", "fails", "holds (within chance)")),
               "paper": folder("paper", _02_claims=claimed("fails")), "tests nothing": folder("tests nothing")}
    board = scoreboard.claims_table(folders)
    assert "tests nothing" not in board and "tests nothing" not in set(scoreboard.tally(folders)["run"])
    folders.pop("tests nothing")
    figure = plots_scoreboard.wall(board, list(folders))
    assert len(figure.axes[0].patches) == len(board) * 2
    assert "mini: 2 of 3 tested hold" in figure.get_suptitle().replace("\n", " ")
    assert figure.get_figwidth() <= 10.5
    tiles = plots_scoreboard.tiles(board, "Bias A-head", list(folders))
    words = {text.get_text() for text in tiles.axes[0].texts}
    assert set(board.loc[board["source"] == "Bias A-head", "claim"]) <= words
    assert plots_scoreboard.held(board[board["source"] == "Counteracts"], ["mini"]) == "none tested"


def test_the_figure_of_several_trainings_counts_what_comes_out_alike():
    table = pd.DataFrame({"id": ["a", "b", "c"], "claim": ["heads rise", "tails rise", "tails fall"],
                          "mini-real": ["holds", "holds", "fails"],
                          "mini-real-seed1": ["holds (within chance)", "in part (1 of 2)", "fails"]})
    figure = plots_scoreboard.trainings(table)
    told = "Of 3 claims 2 come out alike in 2 trainings of one model (1 hold in all), 1 do not"
    assert figure.get_suptitle().replace("\n", " ") == told and len(figure.axes[0].patches) == 6
