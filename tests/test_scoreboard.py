"""The board, its numbers and the README: cells, counts, controls and seeds of made-up runs; what is stored adds up."""

import re

import numpy as np
import pandas as pd
import pytest

from lib import paths, printed
from lib.engine.files import replace
from lib.engine.stats import Estimate
from lib.publish import page, scoreboard
from lib.publish.run import Run, runs
from lib.publish.scoreboard import CLAIMS, KINDS, MATCHED, NO_CONTROL
from lib.verdict import NOT_TESTABLE, PAPERS, Control, Outcome, Verdict
from tests.tiny import refusal

SUPPORTED, CONTRADICTED, INCONCLUSIVE, NOT_APPLICABLE, NOT_RUN = Outcome
NEAR, LAYERS, READ_OFF = "heads-near-zero", "heads-all-layers", "seat-order"  # of notebook 02


def said(claim, outcome, on="mini-bert", reason="", models=()):
    return Verdict(claim, outcome, on=on, found="1 of 2", reason=reason, models=list(models))


@pytest.fixture
def folder(tmp_path):
    """A function that stores a run: its verdicts of notebook 02, and numbers {key: (ours, match)} of a paper."""

    def store(run, *verdicts, paper="projective", **numbers):
        made = Run(out=tmp_path / run)
        made.judged("02", verdicts)
        if numbers:
            made.compared("08", paper, numbers["numbers"])
        return made.out

    return store


def test_every_claim_has_a_notebook_or_a_reason_and_is_tested_in_the_stored_run(folder):
    assert list(dict.fromkeys(claim.paper for claim in CLAIMS.values())) == list(PAPERS)
    for claim in CLAIMS.values():
        assert bool(claim.not_testable) == (not claim.notebook) == (not claim.figure), claim.id
        assert claim.figure[:2] == claim.notebook, claim.id
    tested = {each.claim for each in scoreboard.verdicts()["mini"]}
    assert tested == {claim.id for claim in CLAIMS.values() if not claim.not_testable}
    table = scoreboard.board()
    without = {run for run in runs() if run not in table and not scoreboard.control_of(run)}
    assert len(table) == len(CLAIMS) and without == {
        "mini-smollm2-135m-instruct"
    }  # decides nothing
    assert all(
        set(scoreboard.kinds(table[run])) <= set(map(str, KINDS))
        for run in set(runs()) & set(table)
    )
    control = Control("random heads", Estimate(0.1), Estimate(0.4, 0.2, 0.6))
    full = Verdict(
        NEAR,
        SUPPORTED,
        "m",
        "50 %",
        estimate=Estimate(0.5, 0.3, 0.7),
        control=control,
        preconditions={"SEAT": True},
    )
    samples_met = Verdict(
        NEAR,
        SUPPORTED,
        "n",
        "3 of 4",
        estimate=Estimate(3),
        samples_met=0.981,
        preconditions={"a": True, "b": False},
    )
    rows = scoreboard.evidence({"mini": folder("mini", full, samples_met)})
    columns = ["interval", "preconditions", "control", "null result"]
    null = "; ".join(f"{name}: {NO_CONTROL}" for name in CLAIMS[NEAR].controls)
    assert rows[columns].to_numpy().tolist() == [
        ["0.5 [0.3, 0.7]", "SEAT open", "random heads 0.1, difference 0.4 [0.2, 0.6]", null],
        ["met in 98.1% of samples", "a open, b shut", "", null],
    ]


@pytest.mark.parametrize(
    "outcomes, text, kind",
    [
        ([SUPPORTED], "supported", SUPPORTED),
        ([SUPPORTED, CONTRADICTED, NOT_APPLICABLE], "mixed (1 of 3)", "mixed"),
        ([], "not run", NOT_RUN),
    ],
)
def test_one_cell_of_several_verdicts(outcomes, text, kind):
    tests = [said(NEAR, outcome) for outcome in outcomes]
    cell, apart = (
        scoreboard.Cell(CLAIMS[NEAR], tests, is_specific) for is_specific in (True, False)
    )
    assert (str(cell), cell.kind, cell.reason) == (text, kind, text.removeprefix(kind).strip(" ()"))
    shown = (
        (f"{text}, matched by controls", MATCHED) if SUPPORTED in outcomes else (text, kind)
    )  # else none is needed
    assert (str(apart), apart.kind) == shown


def test_runs_stand_side_by_side_and_are_counted_by_paper(folder):
    folders = {
        "mini": folder(
            "mini",
            said(READ_OFF, SUPPORTED),
            said(NEAR, SUPPORTED),
            said(NEAR, CONTRADICTED, "mini-gpt2"),
            said(LAYERS, CONTRADICTED),
        ),
        "paper": folder("paper", said(NEAR, SUPPORTED)),
        "none": folder("none", said(NEAR, NOT_RUN, reason="why")),
    }
    rows = scoreboard.evidence(folders)
    assert [NEAR, "mini", "mini-bert", "1 of 2", "supported"] in rows.iloc[:, :5].to_numpy().tolist()
    order = sorted([READ_OFF, NEAR, NEAR, LAYERS], key=lambda id: not CLAIMS[id].short)
    assert rows["id"].tolist() == [*order, NEAR, NEAR]  # what its own table leaves out comes last
    board = scoreboard.board(folders).set_index("id")
    assert "none" not in board and len(board) == len(CLAIMS)
    assert board.loc[[NEAR, LAYERS, "fast"], ["mini", "paper"]].to_numpy().tolist() == [
        ["mixed (1 of 2)", "supported"],
        ["contradicted", "not run"],
        [NOT_TESTABLE, NOT_TESTABLE],
    ]
    folders = {
        "mini": folder("mini", said(NEAR, SUPPORTED), said(LAYERS, CONTRADICTED), said(READ_OFF, INCONCLUSIVE)),
        "paper": folder("paper", said(NEAR, SUPPORTED), said(NEAR, CONTRADICTED), said(LAYERS, NOT_APPLICABLE)),
    }
    lines = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in scoreboard.summary(folders).splitlines()
    ]
    ours = sum(claim.paper == "bias_a_head" for claim in CLAIMS.values())
    assert lines[2] == [
        "*Bias A-head*",
        str(ours),
        f"1 hold, 1 fail, 1 undecided, {ours - 3} not run",
        f"1 in part, 1 no case, {ours - 2} not run",
    ]
    assert lines[4][2:] == ["not run", "not run"] and lines[5][1] == str(len(CLAIMS))


@pytest.fixture
def controlled(folder, monkeypatch):
    """A function that stores mini, where NEAR holds and LAYERS fails, with draws of null and a training of balanced;
    null may speak of both claims, balanced of NEAR. Gives what the board says of NEAR and LAYERS."""
    for claim, controls in ((NEAR, ("null", "balanced")), (LAYERS, ("null",))):
        monkeypatch.setitem(
            CLAIMS, claim, CLAIMS[claim].__class__(**vars(CLAIMS[claim]) | {"controls": speaks})
        )

    def board(draws=(), balanced=(), null="null"):
        folders = {"mini": folder("mini", said(NEAR, SUPPORTED), said(LAYERS, CONTRADICTED))}
        for k, outcomes in enumerate(draws):
            place = null + (f"/draws/{k}" if k else "")
            tests = [
                said(claim, outcome, models=[f"null@{k}"])
                for claim in (NEAR, LAYERS)
                for outcome in outcomes
            ]
            folders.setdefault(null, folder(place, *tests, said(NEAR, SUPPORTED, models=["mini-gpt2"])))
        if balanced:
            folders["balanced"] = folder("balanced", *balanced)
        table = scoreboard.board(folders).set_index("id")
        assert null not in table and "balanced" not in table
        return table.loc[[NEAR, LAYERS], ["mini", "null result"]].to_numpy().tolist()

    return board


def test_what_controls_bear_out_is_not_specific_and_counted_apart(controlled, folder):
    assert controlled() == [
        ["supported", f"null: {NO_CONTROL}; balanced: {NO_CONTROL}"],
        ["contradicted", f"null: {NO_CONTROL}"],
    ]
    assert (
        controlled([[SUPPORTED, CONTRADICTED], [SUPPORTED, NOT_APPLICABLE]], null="null-real")[1][1]
        == "matched by controls; null: 2 of 3 hold"
    )
    ours, race, other = (
        said(NEAR, SUPPORTED, on, models=[model])
        for on, model in (
            ("balanced, gender", "models/balanced"),
            ("balanced, race", "balanced"),
            ("mini-gpt2, gender", "mini-gpt2"),
        )
    )
    assert controlled([[CONTRADICTED]], [ours, race, other])[0] == [
        "holds, matched by controls",
        "matched by controls; null: 0 of 1 hold; balanced: 1 of 1 hold",
    ]
    assert controlled([[CONTRADICTED]], [said(NEAR, INCONCLUSIVE, models=["balanced"]), race, other])[0] == [
        "supported",
        "null: 0 of 1 hold; balanced: 0 of 1 hold",
    ]
    folders = {
        "mini": folder("mini", said(NEAR, SUPPORTED), said(READ_OFF, SUPPORTED)),
        "null": folder(
            "null", said(NEAR, SUPPORTED, models=["null"]), said(READ_OFF, CONTRADICTED, models=["null"])
        ),
    }
    assert re.search(r"\| 1 hold, 1 matched by controls, \d+ not run \|", scoreboard.summary(folders))
    assert "`null`" not in scoreboard.summary(folders)
    assert set(scoreboard.evidence(folders)["run"]) == {"mini", "null"}


@pytest.mark.parametrize(
    "held, n, is_specific",
    [
        (0, 1, True),
        (1, 1, False),
        (0, 10, True),
        (1, 10, True),
        (2, 10, False),
        (10, 10, False),
        (2, 20, True),
        (3, 20, False),
    ],
)  # 95 % of binomials of 10 and .025 are at most 1, of 20 at most 2
def test_what_untrained_networks_bear_out_too_often_is_not_specific(
    controlled, held, n, is_specific
):
    near, layers = controlled([[SUPPORTED if k < held else INCONCLUSIVE] for k in range(n)])
    apart = "" if is_specific else f"{MATCHED}; "
    assert near == [
        "supported" if is_specific else "holds, matched by controls",
        f"{apart}null: {held} of {n} hold; balanced: {NO_CONTROL}",
    ]
    assert layers == ["contradicted", f"{apart}null: {held} of {n} hold"]  # counted as it failed


def test_which_runs_are_controls_and_in_how_many_seeds_a_claim_holds(folder):
    controls = {
        "null": "null null-real mini-null mini-null-3-1a2b3c",
        "balanced": "balanced mini-real-balanced",
        "": "mini mini-real mini-nullable paper",
    }
    for control, names in controls.items():
        assert {scoreboard.control_of(run) for run in names.split()} == {control}
    folders = {
        name: folder(
            name,
            said(NEAR, near, models=["mini-bert"]),
            said(LAYERS, layers),
            said(NEAR, CONTRADICTED, "mini-gpt2", models=["mini-gpt2"]),
            said(READ_OFF, NOT_APPLICABLE),
        )
        for name, near, layers in (
            ("mini", SUPPORTED, SUPPORTED),
            ("mini-real", SUPPORTED, SUPPORTED),
            ("trainings-seed1", INCONCLUSIVE, SUPPORTED),
            ("trainings-seed2", SUPPORTED, SUPPORTED),
        )
    }
    table = scoreboard.seeds(folders=folders)
    assert (
        table.set_index("id")["holds in"].to_dict() == {NEAR: "1 of 2", LAYERS: "2 of 2"}
        and "mini" not in table
    )
    assert scoreboard.seeds(folders={"mini-real": folders["mini-real"]}).empty


def test_over_trainings_a_claim_is_judged_with_another_training_in_mind(folder):
    def stored(run, near, control=None):
        precondition = Verdict(
            LAYERS, NOT_APPLICABLE, "m, gender", estimate=Estimate(3, 2, 4), models=["m"]
        )
        return folder(
            run,
            Verdict(
                NEAR,
                SUPPORTED,
                f"{run}, gender",
                estimate=near,
                threshold=0.5,
                models=[run],
                control=control,
            ),
            precondition,
            Verdict(LAYERS, SUPPORTED, run, samples_met=near.value, models=[run], estimate=Estimate(2)),
        )

    ends = [Estimate(value, value - 0.098, value + 0.098) for value in (0.7, 0.8, 0.9)]
    folders = {
        f"trainings-seed{i}": stored(f"trainings-seed{i}", near) for i, near in enumerate(ends, 1)
    }
    (row,) = scoreboard.across(folders).to_dict("records")
    assert (row["id"], row["on"], row["holds in"], row["outcome"]) == (
        NEAR,
        "gender",
        "3 of 3",
        "supported",
    )
    assert row["share"] == pytest.approx((0.75, 0.8)) and row["mean"].low > 0.5
    (count,) = scoreboard.counts_across(folders).to_dict("records")
    assert (count["samples_met"], count["outcome"], count["holds in"]) == (
        pytest.approx(0.8),
        "inconclusive",
        "3 of 3",
    )
    assert "1 of 1 tests hold and 0 fail; 75% to 80% of the variance" in scoreboard.lasting(
        scoreboard.across(folders)
    )
    shipped = folders | {"mini": stored("mini", ends[0])}
    assert "shipped model, 1 holds over trainings; of 1" in scoreboard.lasting(
        scoreboard.across(folders), shipped
    )
    assert (
        scoreboard.board(shipped).set_index("id").loc[NEAR, "trainings"]
        == "holds in 3 of 3; over them holds"
    )
    mean, each = scoreboard.towards(row)
    assert mean.high - mean.low == pytest.approx(2) and each[:2] == pytest.approx(
        [mean.value * 2 / 3, mean.value]
    )
    assert scoreboard.across({run: folders[run] for run in list(folders)[:2]}).empty  # too few
    folders["trainings-seed3"] = stored("trainings-seed3", Estimate(0.1, 0.002, 0.198))
    (row,) = scoreboard.across(folders).to_dict("records")
    assert row["outcome"] == "inconclusive"  # three trainings that hold and differ widely
    control = Control("random heads", Estimate(0.7), Estimate(0.0, -0.1, 0.1))
    alike = {run: stored(run, ends[0], control) for run in folders}
    assert scoreboard.across(alike)["outcome"].tolist() == ["inconclusive"]  # no more than the control


def test_what_heads_of_one_training_say_of_another(tmp_path):
    scores = np.random.default_rng(0).normal(size=(12, 12)) + 3 * np.arange(12)[:, None]
    moved = {
        "seed1": scores,
        "seed2": scores,
        "seed3": scores[::-1],
        "seed4": np.roll(scores, 5, axis=1),
    }
    for name, table in moved.items():
        rows = [
            (name, "gender", layer + 1, head + 1, value)
            for (layer, head), value in np.ndenumerate(table)
        ]
        rows += [(name, "race", 1, 1, 9.0), ("gpt", "gender", 1, 1, 9.0)]
        heads = pd.DataFrame(rows, columns=["model", "bias", "layer", "head", "score"])
        replace(tmp_path / f"trainings-{name}" / "02_heads.csv", heads.to_csv(index=False).encode())
    found = scoreboard.heads_across(
        {f"trainings-{name}": tmp_path / f"trainings-{name}" for name in moved}
    )
    found = found.set_index("trainings")
    assert found.loc["seed1, seed2", ["heads", "heads within layers", "layers"]].tolist() == [
        1,
        1,
        1,
    ]
    assert (
        found.loc["seed1, seed3", "layers"] == -1
        and found.loc["seed1, seed3", "the ten highest"] < -1
    )
    among = found.loc["seed1, seed4"]  # the same layers, other heads in them
    assert among["layers"] == 1 and abs(among["heads within layers"]) < 0.2 < 0.8 < among["heads"]
    assert len(found) == 7 and found.loc["mean", "layers"] == pytest.approx(
        found["layers"].iloc[:6].mean(), abs=0.01
    )
    assert scoreboard.heads_across({"paper": tmp_path}).empty


def test_every_printed_number_finds_ours_and_what_no_paper_says_is_refused(folder):
    ours = {("Table 1", "Top-3", "PPPL"): ("10.7", "not comparable")}
    counts = {("bias_a_head", "Section 4", "gender", "attribute pairs"): ("222", "matches")}
    folders = {
        "mini": folder("mini", paper="bias_a_head", numbers=ours),
        "none": paths.ROOT / "nowhere",
    }
    table = scoreboard.numbers(counts, folders)
    assert len(table) == sum(len(printed.numbers(name)) for name in PAPERS)
    table = table.set_index(["source", "table", "row", "column"]).sort_index().loc["Bias A-head"]
    shown = table[["printed", "ours, mini", "verdict, mini"]]
    for where in ("Table 1", "Appendix A"):  # printed once more in the text
        assert shown.loc[(where, "Top-3", "PPPL")].tolist()[1:] == ["10.7", "not comparable"]
    assert shown.loc[("Table 3", "5", "math / arts")].tolist() == [
        "",
        "",
        "not run (the printed number is lost)",
    ]
    assert shown.loc[("Table 1", "full", "SEAT")].tolist() == ["1.35", "", "not run"]
    counted = table.loc[("Section 4", "gender", "attribute pairs")]
    assert counted["verdict, mini"] == counted["verdict, none"] == "matches"
    ours = {"S": ("1", "differs: another variant"), "D": ("", "not run (why)")}
    stored = folder(
        "mini", numbers={("Table 5", "Base", column): number for column, number in ours.items()}
    )
    assert [kind for *_, kind in scoreboard.compared("mini", stored).values()] == [
        "differs",
        "not run",
    ]
    assert "'pigs-fly'" in refusal(
        scoreboard.board, {"mini": folder("mini", said("pigs-fly", SUPPORTED))}
    )
    stored = folder("mini", numbers={("Table 5", "Bass", "S"): ("1", "matches")})
    assert "'Bass'" in refusal(scoreboard.numbers, {}, {"mini": stored})
    (stored / "numbers" / "08.json").write_text("<<<<")
    assert "figures/mini/numbers/08.json is damaged" in refusal(
        scoreboard.numbers, {}, {"mini": stored}
    )


def test_the_readme_says_what_the_runs_found_and_what_stands_around_a_part_stays(
    tmp_path, monkeypatch
):
    """When this fails: ./reproduce.sh readme"""
    text = page.README.read_text(encoding="utf-8")
    assert page.renewed(text) == text
    monkeypatch.setattr(page, "README", tmp_path / "README.md")
    page.README.write_text(
        text.replace("<!-- scoreboard -->", "<!-- scoreboard -->\nAnother result."), "utf-8"
    )
    assert page.write_readme() == "README.md now says what the runs found"
    assert page.write_readme() == "README.md is up to date"  # once is enough
    stored, mini = runs(), {"mini": runs()["mini"]}
    monkeypatch.setattr(page, "runs", lambda: mini)
    assert "(figures/mini/02_fig2_heatmaps.png)" in page.figures_part()
    mini |= stored  # a run on real data goes before the one on ours
    assert "(figures/mini-real/02_fig2_heatmaps.png)" in page.figures_part()
    monkeypatch.setitem(page.BEST, "Bias A-head", "02_fig9")
    assert "No run has the figure 02_fig9: make it with" in refusal(page.figures_part)
    monkeypatch.setattr(page, "scoreboard_part", lambda: "S")
    monkeypatch.setattr(page, "figures_part", lambda: "F")
    text = "a\n<!-- scoreboard -->{}<!-- /scoreboard -->b\\1 <!-- figures -->{}<!-- /figures --> c"
    assert (
        page.renewed(text.format("old", "")) == text.format("\nS\n", "\nF\n")
        and page.renewed("a b") == "a b"
    )
    for marks in (
        "<!-- figures -->",
        "<!-- /figures --><!-- figures -->",
        "<!-- figures --><!-- /figures -->" * 2,
    ):
        assert "<!-- /figures -->, once each" in refusal(page.renewed, marks)
