"""The board: cells, counts and controls of made-up runs; what is stored adds up; today's claims
judge it.
"""

from dataclasses import replace as changed

import pytest

from lib import results, verdict
from lib.engine.stats import Estimate
from lib.publish import cells, controls, earlier, judged, papers, records, scoreboard
from lib.publish.cells import KINDS
from lib.publish.controls import NOT_RUN as NO_CONTROL
from lib.publish.papers import CLAIMS, PAPERS
from lib.run import Run
from lib.verdict import (
    NO_WORKING_CONTROL,
    NOT_TESTABLE,
    Asks,
    Control,
    Outcome,
    Side,
    Verdict,
)
from tests.tiny import refusal

SUPPORTED, CONTRADICTED, NO_EFFECT, MATCHED, INCONCLUSIVE, NOT_APPLICABLE, NOT_RUN = Outcome
NEAR, LAYERS, ORDER = "heads-small-set", "heads-all-layers", "seat-order"  # of notebook 02


def said(claim, outcome, on="mini-bert", reason="", models=()):
    """A verdict without an estimate, which nothing can judge again."""
    return Verdict(claim, outcome, on=on, found="1 of 2", reason=reason, models=list(models))


@pytest.fixture
def folder(tmp_path):
    """A function that stores a run: its verdicts of notebook 02."""

    def store(run, *verdicts):
        made = Run(out=tmp_path / run)
        made.judged("02", verdicts)
        return made.out

    return store


# ---- what is stored
def test_every_claim_has_a_notebook_and_a_figure_or_a_reason():
    assert list(dict.fromkeys(claim.paper for claim in CLAIMS.values())) == list(PAPERS)
    for claim in CLAIMS.values():
        assert bool(claim.not_testable) == (not claim.notebook) == (not claim.figure), claim.id
        assert claim.figure[:2] == claim.notebook, claim.id


def test_claims_of_no_effect_meet_no_control_and_only_effects_have_a_smallest_one():
    for claim in CLAIMS.values():
        if claim.side == Side.WITHIN:
            assert claim.asks == Asks.NO_EFFECT and claim.margin > 0, claim.id
        elif claim.margin or claim.margin_from_data:
            assert claim.asks != Asks.NO_EFFECT and claim.threshold == 0, claim.id


def test_every_testable_claim_is_tested_in_the_stored_run():
    tested = {one.claim for one in records.verdicts()["mini"]}
    assert tested == {claim.id for claim in CLAIMS.values() if not claim.not_testable}


def test_the_board_has_every_claim_and_every_run_that_decides_something():
    table = scoreboard.board()
    stored = [run for run in results.runs() if not records.control_of(run)]
    assert len(table) == len(CLAIMS)
    silent = [run for run in stored if not any((results.runs()[run] / "claims").glob("*.json"))]
    assert [run for run in stored if run not in table] == silent
    for run in set(stored) & set(table):
        assert set(cells.kinds(table[run])) <= set(map(str, KINDS))


def test_todays_claims_give_every_stored_verdict_the_outcome_that_its_notebook_gave():
    """Until a threshold is edited: then runs follow, and their notebooks are run again in time."""
    for run, folder in results.runs().items():
        is_control = bool(records.control_of(run))
        files = [*folder.glob("claims/*.json"), *folder.glob("draws/*/claims/*.json")]
        for file in files:
            for one in verdict.read(file):
                if one.claim in CLAIMS:
                    assert records.rejudged(CLAIMS[one.claim], one, is_control) == one, (run, one)


# ---- judged again
def test_an_edited_threshold_changes_a_stored_verdict():
    kept = Verdict(NEAR, SUPPORTED, estimate=Estimate(0.7, 0.6, 0.8), threshold=0.5)
    stricter = changed(CLAIMS[NEAR], threshold=0.9)
    found = records.rejudged(stricter, kept)
    assert (found.outcome, found.threshold) == (CONTRADICTED, 0.9)


def test_a_threshold_from_the_data_stays():
    claim = changed(CLAIMS[NEAR], threshold_from_data=True)
    kept = Verdict(NEAR, SUPPORTED, estimate=Estimate(12, 12, 12), threshold=12.0)
    assert records.rejudged(changed(claim, threshold=99.0), kept).threshold == 12.0


def test_preconditions_that_were_not_met_still_are_not_unless_it_is_a_control():
    kept = Verdict(
        NEAR,
        NOT_APPLICABLE,
        reason="gender is not significant",
        estimate=Estimate(0.7, 0.6, 0.8),
        threshold=0.5,
        preconditions={"SEAT of gender": False},
    )
    assert records.rejudged(CLAIMS[NEAR], kept) == kept
    assert records.rejudged(CLAIMS[NEAR], kept, is_control=True).outcome == SUPPORTED


def test_a_claim_that_no_paper_has_is_named(folder):
    said_of = {"mini": folder("mini", said("pigs-fly", SUPPORTED))}
    assert "'pigs-fly'" in refusal(scoreboard.board, said_of)


# ---- cells and counts
@pytest.mark.parametrize(
    "outcomes, text, kind",
    [
        ([SUPPORTED], "supported", SUPPORTED),
        ([SUPPORTED, CONTRADICTED, NOT_APPLICABLE], "mixed (1 supported, 1 contradicted)", "mixed"),
        ([], "not run", NOT_RUN),
    ],
)
def test_one_cell_of_several_verdicts(outcomes, text, kind):
    tests = [said(NEAR, outcome) for outcome in outcomes]
    cell = cells.Cell.of(CLAIMS[NEAR], tests)
    assert (str(cell), cell.kind) == (text, kind)
    assert cell.reason == text.removeprefix(kind).strip(" ()")


def test_brackets_go_where_they_stand_around_all_of_a_reason():
    reasons = {
        "(1 of 2)": "1 of 2",
        "(2 supported); depends on the variant (raw)": "(2 supported); depends on the variant (raw)",
        "(of (a) and (b))": "of (a) and (b)",
        "; robust": "robust",
    }
    for said, reason in reasons.items():
        assert cells.Cell._made(f"supported {said}", "supported").reason == reason


def test_a_supported_cell_says_what_weakens_it():
    tests = [said(NEAR, SUPPORTED, reason=NO_WORKING_CONTROL), said(NEAR, INCONCLUSIVE)]
    cell = cells.Cell.of(CLAIMS[NEAR], tests, beside="not across retrainings")
    text = "supported (1 supported, 1 inconclusive); no working control; not across retrainings"
    assert (str(cell), cell.kind) == (text, SUPPORTED)
    other = cells.Cell.of(CLAIMS[NEAR], [said(NEAR, CONTRADICTED)], beside="not across retrainings")
    assert str(other) == "contradicted"  # it weakens a supported claim alone


def test_runs_stand_side_by_side(folder):
    folders = {
        "mini": folder(
            "mini",
            said(ORDER, SUPPORTED),
            said(NEAR, SUPPORTED),
            said(NEAR, CONTRADICTED, "mini-gpt2"),
            said(LAYERS, CONTRADICTED),
        ),
        "paper": folder("paper", said(NEAR, SUPPORTED)),
        "none": folder("none", said(NEAR, NOT_RUN, reason="why")),
    }
    board = scoreboard.board(folders).set_index("id")
    assert "none" not in board and len(board) == len(CLAIMS)
    assert board.loc[[NEAR, LAYERS, "fast"], ["mini", "paper"]].to_numpy().tolist() == [
        ["mixed (1 supported, 1 contradicted)", f"supported; {NO_WORKING_CONTROL}"],
        ["contradicted", "not run"],
        [NOT_TESTABLE, NOT_TESTABLE],
    ]
    rows = scoreboard.evidence(folders)
    columns = ["id", "run", "tested on", "found", "outcome"]
    shown = [NEAR, "mini", "mini-bert", "1 of 2", f"supported ({NO_WORKING_CONTROL})"]
    assert shown in rows[columns].to_numpy().tolist()
    order = sorted([ORDER, NEAR, NEAR, LAYERS], key=lambda id: not CLAIMS[id].short)
    assert rows["id"].tolist() == [*order, NEAR, NEAR]  # what its own table leaves out comes last


def test_claims_are_counted_by_paper_and_run(folder):
    one = [said(NEAR, SUPPORTED), said(LAYERS, CONTRADICTED), said(ORDER, INCONCLUSIVE)]
    other = [said(NEAR, SUPPORTED), said(NEAR, CONTRADICTED), said(LAYERS, NOT_APPLICABLE)]
    folders = {"mini": folder("mini", *one), "paper": folder("paper", *other)}
    lines = []
    for line in scoreboard.summary(folders).splitlines():
        lines.append([cell.strip() for cell in line.strip("|").split("|")])
    of_paper = [claim for claim in CLAIMS.values() if claim.paper == "bias_a_head"]
    n = sum(not claim.is_ours for claim in of_paper)
    cannot = sum(bool(claim.not_testable) for claim in of_paper)
    assert lines[2] == [
        "*Bias A-head*",
        str(n),
        "1 supported (1 without a working control), 1 contradicted, 1 inconclusive, "
        f"{cannot} not testable, {n - 3 - cannot} not run",
        f"1 mixed, 1 not applicable, {cannot} not testable, {n - 2 - cannot} not run",
    ]
    ours = sum(claim.is_ours for claim in CLAIMS.values())
    assert lines[4][2:] == ["not run", "not run"]
    assert lines[5][:2] == ["All papers", str(len(CLAIMS) - ours)]
    assert lines[6][1] == str(ours) > "0"


def test_what_does_not_depend_on_the_data_is_counted_once(folder, monkeypatch):
    monkeypatch.setitem(CLAIMS, NEAR, changed(CLAIMS[NEAR], on_any_data=True))
    tests = [said(NEAR, SUPPORTED), said(LAYERS, CONTRADICTED)]
    folders = {"mini": folder("mini", *tests), "paper": folder("paper", *tests)}
    table = scoreboard.board(folders)
    rows = table[table["id"].isin([NEAR, LAYERS])]
    assert scoreboard.counts_by_run(rows, ["mini", "paper"]) == [
        "1 supported (1 without a working control), 1 contradicted",
        "1 contradicted; 1 counted before",
    ]


def test_what_stands_behind_a_verdict(folder):
    control = Control("random heads", Estimate(0.1), Estimate(0.4, 0.2, 0.6))
    by_interval = Verdict(
        NEAR,
        SUPPORTED,
        "m",
        "70 %",
        estimate=Estimate(0.7, 0.6, 0.8),
        threshold=0.5,
        control=control,
        preconditions={"SEAT": True},
    )
    by_value = Verdict(
        NEAR,
        NOT_APPLICABLE,
        "n",
        "3 of 4",
        reason="b is not there",
        estimate=Estimate(3),
        threshold=0.5,
        preconditions={"a": True, "b": False},
    )
    rows = scoreboard.evidence({"mini": folder("mini", by_interval, by_value)})
    columns = ["interval", "preconditions", "control", "controls"]
    none = "; ".join(f"{controls.NAMES[name]}: {NO_CONTROL}" for name in CLAIMS[NEAR].controls)
    assert rows[columns].to_numpy().tolist() == [
        ["0.7 [0.6, 0.8]", "SEAT met", "random heads 0.1, difference 0.4 [0.2, 0.6]", none],
        ["3", "a met, b not met", "", none],
    ]


def test_how_much_data_would_decide_is_said():
    estimate = Estimate(0.6, 0.4, 0.8, n=50)
    one = Verdict(NEAR, INCONCLUSIVE, estimate=estimate, threshold=0.5)
    assert scoreboard.needed_text(one) == "about 200 in place of 50"
    close = Estimate(0.6, 0.4995, 0.7, n=150)
    assert scoreboard.needed_text(changed(one, estimate=close)) == "a little more than 150"
    assert scoreboard.needed_text(changed(one, estimate=changed(estimate, n=0))) == (
        "about 4.0 times as much"
    )
    far = Estimate(0.501, 0.3, 0.7, n=50)
    too_much = "nothing here can: more than 100 times as much"
    assert scoreboard.needed_text(changed(one, estimate=far)) == too_much
    assert scoreboard.needed_text(changed(one, outcome=SUPPORTED)) == ""


def test_where_there_is_no_more_data_it_is_said():
    """Four times 40 occupations are 160; Table 1 has 58, and SEAT's lists have no more words."""
    estimate = Estimate(0.1, -0.1, 0.3, n=40)
    one = Verdict("bert-semantic", INCONCLUSIVE, estimate=estimate, threshold=0.0)
    assert scoreboard.needed_text(one) == "about 160 in place of 40: nothing here can, there are 58"
    words = Verdict(
        "mask-bottom3", INCONCLUSIVE, estimate=changed(estimate, unit="target words"), threshold=0.0
    )
    assert scoreboard.needed_text(words).endswith(
        "nothing here can, these are all words of the lists"
    )
    heads = Verdict(
        "chat-heads",
        INCONCLUSIVE,
        estimate=Estimate(-2, -5, 1, n=144, unit="heads"),
        threshold=0.0,
    )
    assert scoreboard.needed_text(heads) == (
        "about 320 in place of 144: nothing here can, these are all heads that there are"
    )
    nan = changed(one, estimate=Estimate(float("nan")), reason="no value")
    assert scoreboard.needed_text(nan) == "nothing here can: no value"


def test_an_end_or_a_value_on_the_threshold_does_not_say_how_much_data_would_decide():
    """A share of 3 in 4 whose interval ends at 1, which is the threshold; a share of 1."""
    cut = Verdict(
        "deeper-s",
        INCONCLUSIVE,
        estimate=Estimate(0.75, 0, 1, n=100, unit="triple pairs"),
        threshold=1.0,
    )
    assert scoreboard.needed_text(cut) == (
        "more; how much, an interval that ends on the threshold does not tell"
    )
    on_it = changed(cut, estimate=changed(cut.estimate, value=1.0))
    assert scoreboard.needed_text(on_it) == (
        "more; how much, a value on the threshold does not tell"
    )


def test_every_inconclusive_test_says_what_would_decide_it_and_no_other_does():
    rows = scoreboard.evidence()
    is_inconclusive = rows["outcome"].str.startswith(INCONCLUSIVE)
    assert ((rows["needed"] != "") == is_inconclusive).all()
    left = scoreboard.undecided()
    board = scoreboard.board().set_index("id")
    for run in ("mini", "mini-real"):
        kinds = cells.kinds(board[run])
        assert set(left.loc[left["run"] == run, "id"]) == set(kinds.index[kinds == INCONCLUSIVE])
    assert (left["needed"] != "").all()


# ---- controls
TRAINED, SWAPPED, RANDOM = "mini-bert", "models/balanced", "null@{}"


def measured(claim, value, low, high, on="mini-bert, gender", models=(TRAINED,), **fields):
    """A verdict that can be judged again."""
    estimate = Estimate(value, low, high, n=144)
    fields = {"threshold": 0.5, "outcome": SUPPORTED} | fields
    return Verdict(claim, on=on, estimate=estimate, models=list(models), **fields)


@pytest.fixture
def controlled(folder, monkeypatch):
    """A function that stores mini, in which .9 [.8, .95] of the heads are near zero, with draws of
    untrained networks and a gender-swapped model. Gives what the board says of it.
    """
    both = changed(CLAIMS[NEAR], controls=("null", "balanced"))
    monkeypatch.setitem(CLAIMS, NEAR, both)

    def board(draws=(), swapped=(), null="null"):
        folders = {"mini": folder("mini", measured(NEAR, 0.9, 0.8, 0.95))}
        for k, tests in enumerate(draws):
            place = folder(f"{null}/draws/{k}" if k else null, *tests)
            folders.setdefault(null, place)
        if swapped:
            folders["balanced"] = folder("balanced", *swapped)
        table = scoreboard.board(folders).set_index("id")
        assert null not in table and "balanced" not in table
        return table.loc[NEAR, ["mini", "controls"]].tolist()

    return board


def untrained(values, **fields):
    """Draws of untrained networks whose heads near zero have these shares."""
    draws = []
    for k, value in enumerate(values):
        models = (f"null@{k}",) if k else ("null",)
        draws.append([measured(NEAR, value, value - 0.01, value + 0.01, models=models, **fields)])
    return draws


def test_a_control_that_was_not_run_is_said(controlled):
    assert controlled() == [
        f"supported; {NO_WORKING_CONTROL}",
        f"untrained networks: {NO_CONTROL}; the gender-swapped model: {NO_CONTROL}",
    ]


@pytest.mark.parametrize(
    "values, cell, share",
    [
        ([0.01, 0.02, 0.03], "supported", "2 %"),  # small, whatever its own interval says
        ([0.88, 0.9, 0.92], "matched by controls", "100 %"),
        ([0.5, 0.9, 0.7], "matched by controls", "78 %"),  # draws that differ say less
    ],
)
def test_untrained_networks_count_by_the_size_of_what_they_show(controlled, values, cell, share):
    found, text = controlled(untrained(values))
    assert found == cell
    assert text.startswith(f"untrained networks: {share} of it")


def test_a_control_that_could_not_have_said_yes_says_nothing(controlled):
    unable = {"preconditions": {"reads": False}, "outcome": INCONCLUSIVE}
    cell, text = controlled(untrained([0.9, 0.9], **unable))
    assert cell == f"supported; {NO_WORKING_CONTROL}"
    assert text.startswith("untrained networks: cannot show it (reads: not met)")
    nothing = [[measured(NEAR, float("nan"), float("nan"), float("nan"), models=["null"])]]
    assert controlled(nothing, null="null-a")[1].startswith("untrained networks: no value")
    same = [[measured(NEAR, 0.9, 0.9, 0.9, models=[name])] for name in ("null", "null@1")]
    assert controlled(same, null="null-b")[1].startswith(
        "untrained networks: the same in every draw"
    )


def test_draws_that_cannot_do_the_task_are_left_out_of_the_mean(controlled):
    draws = untrained([0.01, 0.02, 0.03])
    draws.append([measured(NEAR, 0.9, 0.8, 1.0, models=["null@3"], preconditions={"reads": False})])
    assert controlled(draws)[1].startswith("untrained networks: 2 % of it")
    nothing = measured(NEAR, float("nan"), float("nan"), float("nan"), models=["null"])
    unable = measured(NEAR, 0.9, 0.8, 1.0, models=["null@1"], preconditions={"reads": False})
    text = controlled([[nothing], [unable]], null="null-a")[1]
    assert text.startswith("untrained networks: no value")


def test_only_tests_of_the_control_itself_and_of_its_family_count(controlled):
    of_trained = measured(NEAR, 0.9, 0.85, 0.95, models=["mini-bert"])
    of_gpt2 = measured(NEAR, 0.9, 0.85, 0.95, models=["null-gpt2"])
    assert controlled([[of_trained, of_gpt2]])[1].startswith(f"untrained networks: {NO_CONTROL}")


@pytest.mark.parametrize(
    "name, family",
    [
        ("mini-bert", "bert"),
        ("null-gpt2@3", "gpt2"),
        (SWAPPED, "bert"),
        ("openai-community/gpt2", "gpt2"),  # as the registry knows it
        ("gemma3-270m", "gemma3_text"),
        ("EleutherAI/pythia-70m", ""),
        ("no/folder", ""),
    ],
)
def test_the_family_of_a_model_is_told_or_unknown(name, family):
    assert controls._family(name) == family


def test_the_family_of_a_folder_is_what_its_config_says(tmp_path):
    config = tmp_path / "config.json"
    config.write_text('{"model_type": "roberta"}')
    assert controls._family(str(tmp_path)) == "roberta"
    for said in ("{}", '{"model_type": null}', "damaged"):
        config.write_text(said)
        assert controls._family(str(tmp_path)) == ""


@pytest.mark.parametrize(
    "models", [["EleutherAI/pythia-70m"], ["gemma3-270m"], ["gemma3-270m", "mini-bert"]]
)
def test_no_berts_control_is_held_against_a_model_of_another_or_an_unknown_family(models):
    stored = controls.Controls({"null": untrained([0.88, 0.9]), "balanced": untrained([0.9])})
    for name in ("null", "balanced"):
        one = measured(NEAR, 0.9, 0.8, 0.95, models=models)
        assert stored._control(name, "mini", one, 0).why_idle == NO_CONTROL
        of_bert = measured(NEAR, 0.9, 0.8, 0.95)
        assert stored._control(name, "mini", of_bert, 0).why_idle != NO_CONTROL


def test_the_gender_swapped_model_speaks_where_it_has_no_bias_itself(controlled):
    race = measured(NEAR, 0.9, 0.85, 0.95, "balanced, race", [SWAPPED])
    without = {"SEAT of gender": False}
    own = measured(NEAR, 0.9, 0.85, 0.95, "balanced, gender", [SWAPPED], preconditions=without)
    cell, text = controlled(untrained([0.01, 0.02]), [race, own])
    assert (cell, text) == (
        MATCHED,
        "untrained networks: 2 % of it; the gender-swapped model: 100 % of it",
    )
    biased = changed(own, preconditions={"SEAT of gender": True})
    cell, text = controlled(untrained([0.01, 0.02]), [race, biased])
    assert cell == "supported"
    assert text.endswith("has the bias itself (SEAT of gender)")
    assert controlled((), [race])[1].endswith(f"the gender-swapped model: {NO_CONTROL}")


def test_a_variant_on_other_sentences_meets_the_control_of_the_variant_itself():
    draws = []
    for change in (0.0, 0.01):
        tests = []
        for variant, value in (("raw", 0.9), ("min-max", 0.1)):
            one = measured(NEAR, value + change, value - 0.1, value + 0.1, models=["null"])
            tests.append(changed(one, variant=variant))
        draws.append(tests)
    one = changed(measured(NEAR, 0.9, 0.8, 0.95), variant="min-max, r/TheRedPill alone")
    found = controls.Controls({"null": draws})._control("null", "mini", one, 0)
    assert found.estimate.value == pytest.approx(0.105)


def test_on_the_papers_data_the_control_of_the_same_data_speaks_where_there_is_one():
    one = measured(NEAR, 0.9, 0.8, 0.95)
    small, large = untrained([0.01, 0.03]), untrained([0.8, 0.9])
    both = controls.Controls({"null": small, "null-real": large})
    alone = controls.Controls({"null": small})
    shown = {}
    for name, stored in {"both": both, "alone": alone}.items():
        for run in ("mini", "mini-real"):
            shown[name, run] = stored._control("null", run, one, 0).estimate.value
    assert shown["both", "mini"] == shown["alone", "mini"] == pytest.approx(0.02)
    assert shown["both", "mini-real"] == pytest.approx(0.85)
    assert shown["alone", "mini-real"] == pytest.approx(0.02)  # not made on the papers' data


@pytest.mark.parametrize("run", ("mini-real", "trainings-seed1", "paper", "paper-bert-base"))
def test_runs_on_the_papers_data_meet_controls_on_them(run):
    both = controls.Controls({"null": untrained([0.01]), "null-real": untrained([0.8])})
    one = measured(NEAR, 0.9, 0.8, 0.95)
    assert both._control("null", run, one, 0).estimate.value == pytest.approx(0.8)


def test_claims_of_cost_meet_no_control(controlled, monkeypatch):
    monkeypatch.setitem(CLAIMS, NEAR, changed(CLAIMS[NEAR], asks=Asks.COST))
    cell, text = controlled(untrained([0.9, 0.92]))
    assert (cell, text) == ("supported", "a claim of cost meets no control")


def test_the_stored_controls_are_ten_draws_and_one_gender_swapped_model():
    stored = controls.Controls.stored()
    assert {name: len(draws) for name, draws in stored.draws.items()} == {
        "null": 10,
        "null-real": 10,
        "balanced": 1,
        "balanced-real": 1,
    }
    for draws in stored.draws.values():
        assert all(draws)


def test_controls_are_no_column_but_stand_in_the_evidence(folder):
    null = [said(NEAR, SUPPORTED, models=["null"]), said(ORDER, CONTRADICTED, models=["null"])]
    folders = {
        "mini": folder("mini", said(NEAR, SUPPORTED), said(ORDER, SUPPORTED)),
        "null": folder("null", *null),
    }
    again = {"trainings-seed1": folder("trainings-seed1", said(NEAR, SUPPORTED))}
    others = {"published": folder("published", said(NEAR, SUPPORTED))}
    counts = scoreboard.summary(folders | again | others)
    assert "retraining" not in counts and "published" not in counts
    assert "`null`" not in counts and "untrained" not in counts
    assert set(scoreboard.evidence(folders)["run"]) == {"mini", "null"}


# ---- the rules of an earlier version
def test_a_result_that_was_seen_before_its_rule_was_written_is_post_hoc():
    kept = earlier._tests(earlier.FOLDER / "0.18_tests.csv")
    (run, claim, on, variant), (value, *_) = next(iter(kept.items()))
    seen = Verdict(claim, SUPPORTED, on=on, variant=variant, estimate=Estimate(value))
    assert earlier.is_post_hoc(run, seen)
    assert not earlier.is_post_hoc("paper", seen)
    other = changed(seen, estimate=Estimate(value + 0.01))
    assert not earlier.is_post_hoc(run, other)
    assert not earlier.is_post_hoc(run, changed(seen, estimate=None))


def test_old_and_new_outcomes_stand_side_by_side():
    table = earlier.outcomes(scoreboard.board())
    mini = table[table["run"] == "mini"]
    assert set(mini["id"]) <= set(CLAIMS) and not mini["id"].duplicated().any()
    assert (mini["0.18"] == "inconclusive").sum() == 42  # as the README of that version counts
    crossed = earlier.crossed(scoreboard.board(), "mini")
    assert crossed.to_numpy().sum() == len(mini)


def test_a_claim_that_moved_says_whether_rules_or_data_moved_it(monkeypatch):
    """NEAR, of which 0.18 had one estimate of .25."""
    monkeypatch.setattr(earlier, "is_post_hoc", lambda run, one: one.estimate.value == 0.25)

    def moved(*values, outcome=SUPPORTED):
        tests = [
            Verdict(NEAR, outcome, on=f"{value}", estimate=Estimate(value)) for value in values
        ]
        return earlier._moved_by("mini", CLAIMS[NEAR], tests)

    assert moved(0.25) == "rules"
    assert moved(0.5) == "data"
    assert moved(0.25, 0.5) == "rules and data"
    assert moved(0.5, outcome=Outcome.NOT_APPLICABLE) == "rules"
    monkeypatch.setattr(earlier, "REDEFINED", {NEAR})
    assert moved(0.5) == moved(0.25) == "definition"
    assert moved(0.5, outcome=Outcome.NOT_APPLICABLE) == "rules"


def test_every_claim_that_moved_has_its_row():
    board = scoreboard.board()
    both = earlier.outcomes(board)
    table = earlier.moved(board, judged.judged())
    assert len(table) == (both["0.18"] != both["now"]).sum() > 0
    assert (table["0.18"] != table["now"]).all()
    assert set(table["moved by"]) <= {"rules", "definition", "data", "rules and data"}
    assert set(CLAIMS) >= earlier.REDEFINED


@pytest.mark.parametrize(
    "control, names",
    [
        ("null", "null null-real mini-null mini-null-3-1a2b3c"),
        ("balanced", "balanced mini-real-balanced"),
        ("", "mini mini-real mini-nullable paper"),
    ],
)
def test_which_runs_are_controls(control, names):
    assert {records.control_of(run) for run in names.split()} == {control}


def test_readers_see_what_a_run_is():
    assert papers.run_name("mini") == "our sentences"
    assert papers.run_name("null") == "untrained control"
    assert papers.run_name("trainings-seed3") == "retraining 3"
    assert papers.run_name("mini-roberta-base") == "mini-roberta-base"
