"""The board, its numbers and the README: cells, counts and seeds of made-up runs, and what is stored adds up."""

import json
import re
import shutil

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lib import CompanionError, paths, printed
from lib.engine.files import replace
from lib.projective import tables
from lib.publish import board_figures, page, scoreboard
from lib.publish.run import Run, runs
from lib.publish.scoreboard import CLAIMS, KINDS
from lib.verdict import CHANCE, PAPERS, UNTESTABLE, Outcome, Verdict

HOLDS, FAILS, NO_CASE, NOT_RUN = Outcome.HOLDS, Outcome.FAILS, Outcome.NO_CASE, Outcome.NOT_RUN
NEAR, LAYERS, READ_OFF = "heads-near-zero", "heads-all-layers", "seat-order"  # of notebook 02


def said(claim, outcome, on="mini-bert", reason="", models=()):
    return Verdict(claim, outcome, on=on, found="1 of 2", reason=reason, models=list(models))


@pytest.fixture
def folder(tmp_path):
    """A function that stores a run: its verdicts of notebook 02, and numbers {key: (ours, match)} of a paper."""
    def store(run, *verdicts, paper="projective_methods", **numbers):
        made = Run(out=tmp_path / run)
        made.judged("02", verdicts)
        if numbers:
            made.compared("08", paper, numbers["numbers"])
        return made.out
    return store


def placed(table):
    return table.set_index(["source", "table", "row", "column"]).sort_index()


# ---- claims

def test_every_claim_is_of_a_paper_and_has_a_notebook_and_a_figure_or_a_reason():
    assert list(dict.fromkeys(claim.paper for claim in CLAIMS.values())) == list(PAPERS)
    sources = {path.name[:2]: path.read_text() for path in paths.NOTEBOOKS.glob("[0-9]*.ipynb")}
    for claim in CLAIMS.values():
        assert claim.where and 0 < len(claim.says) <= 90
        assert bool(claim.untestable) == (not claim.notebook) == (not claim.figure), claim.id
        # 03_fig4a and 11_fig2 are made of a name and a number
        assert not claim.figure or claim.figure.rstrip("abc23") in sources[claim.figure[:2]], claim.id


def test_every_stored_verdict_is_of_a_claim_and_every_claim_is_tested():
    found = scoreboard.verdicts()
    assert {one.claim for one in found["mini"]} == {claim.id for claim in CLAIMS.values() if not claim.untestable}
    table = scoreboard.board()
    assert len(table) == len(CLAIMS) and set(runs()) - set(table) == {"mini-smollm2-135m-instruct"}  # decides nothing
    for run in set(runs()) & set(table):
        assert set(scoreboard.kinds(table[run])) <= set(map(str, KINDS))


@pytest.mark.parametrize("several, text, kind, chance", [
    ([(HOLDS, ""), (HOLDS, "")], "holds", HOLDS, False), ([(FAILS, "")], "fails", FAILS, False),
    ([(HOLDS, ""), (FAILS, CHANCE), (FAILS, "")], "in part (1 of 3)", "in part", False),
    ([(HOLDS, CHANCE), (HOLDS, "")], "holds (within chance)", HOLDS, True),
    ([(FAILS, "holds at k = 3")], "fails", FAILS, False), ([], "not run", NOT_RUN, False),
    ([(NOT_RUN, "no model")], "not run", NOT_RUN, False), ([(NOT_RUN, "x"), (HOLDS, "")], "holds", HOLDS, False),
    ([(NO_CASE, "none is viable")], "no case", NO_CASE, False), ([(NO_CASE, "x"), (FAILS, "")], "fails", FAILS, False)])
def test_one_cell_of_several_verdicts(several, text, kind, chance):
    cell = scoreboard.Cell(CLAIMS[NEAR], [said(NEAR, outcome, reason=reason) for outcome, reason in several])
    assert (str(cell), cell.kind, cell.chance) == (text, kind, chance)


def test_runs_stand_side_by_side(folder):
    folders = {"mini": folder("mini", said(READ_OFF, HOLDS), said(NEAR, HOLDS), said(NEAR, FAILS, "mini-gpt2"),
                              said(LAYERS, FAILS, reason=CHANCE)),
               "paper": folder("paper", said(NEAR, HOLDS)), "none": folder("none", said(NEAR, NOT_RUN, reason="why"))}
    rows = scoreboard.evidence(folders)
    assert list(rows) == ["id", "run", "tested on", "found", "outcome"]
    assert rows.iloc[0].tolist() == [NEAR, "mini", "mini-bert", "1 of 2", "holds"]
    assert rows["id"].tolist() == [NEAR, NEAR, LAYERS, READ_OFF, NEAR, NEAR]  # what its own table leaves out comes last
    assert rows["outcome"].iloc[-1] == "not run: why"
    board = scoreboard.board(folders).set_index("id")
    assert "none" not in board and len(board) == len(CLAIMS)
    assert board.loc[NEAR, ["mini", "paper"]].tolist() == ["in part (1 of 2)", "holds"]
    assert board.loc[LAYERS, ["mini", "paper"]].tolist() == ["fails (within chance)", "not run"]
    assert board.loc["fast", ["source", "mini", "paper"]].tolist() == ["Projective Methods", UNTESTABLE, UNTESTABLE]


def test_a_claim_that_no_paper_makes_is_refused(folder):
    with pytest.raises(CompanionError, match="figures/mini/claims tests 'pigs-fly', which no paper's claims.py has"):
        scoreboard.board({"mini": folder("mini", said("pigs-fly", HOLDS))})


def test_the_summary_counts_claims_by_paper_and_run(folder):
    folders = {"mini": folder("mini", said(NEAR, HOLDS), said(LAYERS, FAILS), said(READ_OFF, HOLDS, reason=CHANCE)),
               "paper": folder("paper", said(NEAR, HOLDS), said(NEAR, FAILS))}  # a run may be called paper
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in scoreboard.summary(folders).splitlines()]
    own = str(sum(claim.paper == "bias_a_head" for claim in CLAIMS.values()))
    assert lines[0] == ["paper", "claims", "`mini`", "`paper`"] and set(lines[1]) == {"---"}
    assert lines[2][:2] == ["*Bias A-head*", own]
    assert lines[2][2:] == ["2 hold, 0 in part, 1 fail (of 3)", "0 hold, 1 in part, 0 fail (of 1)"] == lines[5][2:]
    assert lines[4] == ["*Counteracts*", lines[4][1], "not run", "not run"] and lines[5][1] == str(len(CLAIMS))


def test_claims_that_cannot_be_tested_say_why():
    table = scoreboard.untestable()
    assert len(table) == sum(bool(claim.untestable) for claim in CLAIMS.values())
    assert (table["why"].str.len() > 20).all()


# ---- seeds

def test_in_how_many_seeds_a_claim_holds(folder):
    folders = {name: folder(name, said(NEAR, near, models=["mini-bert"]), said(LAYERS, layers, reason=reason),
                            said(NEAR, FAILS, "mini-gpt2", models=["mini-gpt2"]))
               for name, near, layers, reason in (
                   ("mini", HOLDS, HOLDS, ""), ("mini-real", HOLDS, HOLDS, ""), ("mini-real-seed1", FAILS, HOLDS, ""),
                   ("mini-real-seed2", HOLDS, HOLDS, CHANCE))}
    table = scoreboard.seeds(folders=folders)
    assert table.set_index("id")["holds in"].to_dict() == {NEAR: "2 of 3", LAYERS: "3 of 3"} and "mini" not in table
    told = "Of 2 claims 1 come out alike in 3 trainings of one model (1 hold in all), 1 do not"
    assert scoreboard.alike(table) == told
    figure = board_figures.trainings(table)
    assert figure.get_suptitle().replace("\n", " ") == told and len(figure.axes[0].patches) == 6
    assert scoreboard.seeds(folders={"mini-real": folders["mini-real"]}).empty


def test_the_highest_heads_of_several_seeds(tmp_path):
    folders = {}
    for run, model, top in (("mini", "mini-bert", "1-1, 1-2, 1-3"), ("mini-real", "mini-bert", "2-8, 9-6, 6-1"),
                            ("mini-real-seed1", "seed1", "9-6, 6-1, 12-12")):
        rows = [{"model": model, "bias": bias, "SEAT": 1.0, "positive": 70, "highest three": three}
                for bias, three in (("gender", top), ("race", "1-1, 1-2, 1-3"))]
        folders[run] = tmp_path / run
        replace(folders[run] / "02_seat.csv", pd.DataFrame(rows).to_csv(index=False).encode())
    table = scoreboard.top_heads(folders=folders)
    assert table["model"].tolist() == ["mini-bert", "seed1"] and table["shared with the first"].tolist() == [3, 2]
    assert table["mean layer"].tolist() == [5.7, 9.0] and scoreboard.top_heads(folders={"paper": tmp_path}).empty


def test_settings_for_strength_and_for_fairness(tmp_path):
    intrinsic = [{"model": name, "S": s} for name, s in (("Base", .3), ("Sent-debias", .1), ("SENT 0", .31),
                                                         ("SENT 1", .2))]
    nli = [{"model": name, "eta, most": eta, "SNLI": right, "viable": viable} for name, eta, right, viable in
           (("Base", .9, .9, "yes"), ("Sent-debias", .95, .9, "yes"), ("SENT 0", .5, .8, "in points"),
            ("SENT 1", .8, .3, "no"), ("Layer 12 (0, 0, 0)", .5, .85, "yes"))]
    run = Run(out=tmp_path)
    for name, rows in ("08_table7", intrinsic), ("09_table7", nli):
        replace(tmp_path / f"{name}.csv", pd.DataFrame(rows).to_csv(index=False).encode())
    assert scoreboard.best_settings(run) == ("SENT 1", "Layer 12 (0, 0, 0)")


# ---- numbers

def test_every_printed_number_has_a_row_and_finds_ours(folder):
    ours = {("Table 1", "Top-3", "PPPL"): ("10.7", "other model")}
    table = scoreboard.numbers({"mini": folder("mini", paper="bias_a_head", numbers=ours)})
    assert len(table) == sum(len(printed.numbers(name)) for name in PAPERS)
    told = placed(table)[["printed", "ours, mini", "verdict, mini"]]
    for where in ("Table 1", "Appendix A"):  # printed once more in the text
        assert told.loc[("Bias A-head", where, "Top-3", "PPPL")].tolist()[1:] == ["10.7", "other model"]
    assert told.loc[("Bias A-head", "Table 3", "5", "math / arts")].tolist() == [
        "", "", "not run (the printed number is lost)"]
    assert told.loc[("Bias A-head", "Table 1", "full", "SEAT")].tolist() == ["1.35", "", "not run"]
    rows = scoreboard.coverage(table).set_index(["paper", "table"])
    assert rows.loc[("Bias A-head", "Table 1"), "mini"] == 1
    assert rows.loc[("Bias A-head", "Table 3"), ["printed", "lost", "mini"]].tolist() == [25, 6, 0]
    assert rows.loc[("all", ""), "printed"] == rows["printed"].iloc[:-1].sum() and rows.loc[("all", ""), "lost"] == 8


def test_counts_depend_on_no_model():
    told = placed(scoreboard.numbers({"none": paths.ROOT / "nowhere"}))["verdict, none"]
    assert told["Bias A-head", "Section 4", "gender", "attribute pairs"] == "matches"
    assert told["Bias A-head", "Section 4", "gender", "attribute words"].startswith("differs: ")  # 409, not 444
    assert told["Projective Methods", "Section 3", "test set", "sentence pairs"] == "matches"
    assert told["Projective Methods", "Section 4", "debiased models", "number"] == "matches"
    assert (told.loc["Counteracts", "Table 1"] == "matches").all()


def test_a_number_that_no_paper_prints_and_a_damaged_file_are_refused(folder):
    with pytest.raises(CompanionError, match=r"figures/mini/numbers compares .*'Bass'.* which data/paper/projective"):
        scoreboard.numbers({"mini": folder("mini", numbers={("Table 5", "Bass", "S"): ("1", "matches")})})
    (folder("mini") / "numbers" / "08.json").write_text("<<<<")
    with pytest.raises(CompanionError, match="figures/mini/numbers/08.json is damaged"):
        scoreboard.numbers({"mini": folder("mini")})


def test_papers_that_disagree_with_themselves():
    table = scoreboard.contradictions()
    assert table["source"].value_counts().to_dict() == {
        "Projective Methods": len(tables.contradictions()), "Bias A-head": 3, "Counteracts": 2}
    assert (table["printed"] != table["found"]).all() and list(table.loc[0, ["printed", "found"]]) == ["4.16", "4.13"]


# ---- figures and README

def test_figures_show_every_claim_and_say_how_many_hold(folder):
    folders = {"mini": folder("mini", said(NEAR, HOLDS), said(LAYERS, FAILS), said(READ_OFF, HOLDS, reason=CHANCE)),
               "paper": folder("paper", said(NEAR, FAILS))}
    board = scoreboard.board(folders)
    figure = board_figures.wall(board, list(folders))
    assert len(figure.axes[0].patches) == len(board) * 2 and figure.get_figwidth() <= 10.5
    assert "mini: 2 of 3 tested hold" in figure.get_suptitle().replace("\n", " ")
    tiles = board_figures.tiles(board, "Bias A-head", list(folders))
    assert set(board.loc[board["source"] == "Bias A-head", "claim"]) <= {it.get_text() for it in tiles.axes[0].texts}
    assert board_figures.held(board[board["source"] == "Counteracts"], ["mini"]) == "none tested"


def test_the_readme_says_what_the_runs_found():
    """When this fails: ./reproduce.sh readme"""
    text = page.README.read_text(encoding="utf-8")
    assert page.renewed(text) == text
    assert all(f"<!-- {name} -->" in text for name in ("scoreboard", "figures"))


def test_another_result_is_another_readme(tmp_path, monkeypatch):
    """The stored runs' verdicts and the README's figures, in a folder where they can be changed."""
    figures = tmp_path / "figures"
    for run, folder in runs().items():
        shutil.copytree(folder / "claims", figures / run / "claims")
        for name in page.BEST.values():
            for file in folder.glob(f"{name}.*"):
                shutil.copy(file, figures / run)
    shutil.copy(page.README, tmp_path)
    for name, value in {"ROOT": tmp_path, "FIGURES": figures}.items():
        monkeypatch.setattr(paths, name, value)
    monkeypatch.setattr(page, "README", tmp_path / "README.md")
    assert not page.write_readme() and "(figures/mini-real/02_fig2_heatmaps.png)" in page.figures_part()

    file = figures / "mini" / "claims" / "11.json"
    file.write_text(file.read_text().replace('"outcome": "holds"', '"outcome": "fails"'))
    sidecar = figures / "mini-real" / "02_fig2_heatmaps.json"
    sidecar.write_text(json.dumps(json.loads(sidecar.read_text()) | {"finding": "No layer has"}))
    assert page.write_readme() and not page.write_readme()  # once is enough
    text = page.README.read_text()
    assert "**No layer has.**" in text and re.search(r"\*Counteracts\* \| \d+ \| 0 hold", text)

    shutil.copytree(figures / "mini-real", figures / "paper")  # nearest to the papers
    assert "(figures/paper/02_fig2_heatmaps.png)" in page.figures_part()
    for run in ("paper", "mini-real", "mini"):
        (figures / run / "02_fig2_heatmaps.png").unlink()
    with pytest.raises(CompanionError, match="No run has the figure 02_fig2_heatmaps: make it with"):
        page.figures_part()


@settings(max_examples=30)
@given(st.text(), st.text(), st.text())
def test_what_stands_around_a_part_stays(before, between, after):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page, "scoreboard_part", lambda: "S")
        patch.setattr(page, "figures_part", lambda: "F")
        text = f"{before}<!-- scoreboard -->old<!-- /scoreboard -->{between}<!-- figures --><!-- /figures -->{after}"
        new = (f"{before}<!-- scoreboard -->\nS\n<!-- /scoreboard -->{between}<!-- figures -->\nF\n"
               f"<!-- /figures -->{after}")
        assert page.renewed(text) == new == page.renewed(new) and page.renewed(before) == before


@pytest.mark.parametrize("text", ["<!-- figures -->", "<!-- /figures -->", "<!-- /figures --><!-- figures -->",
                                  "<!-- figures --><!-- figures --><!-- /figures -->"])
def test_marks_that_do_not_fit_are_told(text):
    with pytest.raises(CompanionError, match="README.md must have <!-- figures --> and then <!-- /figures -->, once"):
        page.renewed(text)
