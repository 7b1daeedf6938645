"""What README says first: numbers, outcomes and how sure, from records; pictures under plain
titles.
"""

from collections import Counter
from dataclasses import replace as changed

import pandas as pd
import pytest

from lib import paths
from lib.engine.stats import Estimate
from lib.publish import headlines
from lib.publish.cells import Cell
from lib.publish.headlines import HEADLINES, PICTURES
from lib.publish.papers import CLAIMS, PAPERS
from lib.run import Run
from lib.verdict import Outcome, Verdict

SMALL = "heads-small-set"


def test_four_claims_and_a_picture_of_each_paper():
    assert Counter(CLAIMS[one.claim].paper for one in HEADLINES) == dict.fromkeys(PAPERS, 4)
    assert [one.paper for one in PICTURES] == list(PAPERS)
    assert all(claim in CLAIMS for one in PICTURES for claim in one.rests_on)


@pytest.mark.parametrize(
    "estimate, seen",
    [
        (Estimate(0.416, 0.33, 0.505), "the top tenth carries 42 % [33, 50]"),
        (Estimate(0.416), "the top tenth carries 42 %"),
    ],
)
def test_a_number_is_written_with_its_interval_after_the_unit(estimate, seen):
    assert HEADLINES[0].seen(estimate) == seen


def test_what_a_claim_says_is_lowered_is_a_number_above_0():
    (masked,) = (one for one in HEADLINES if one.claim == "mask-top3-seat")
    assert masked.seen(Estimate(-0.109, -0.196, -0.046)) == "by 0.11 [0.05, 0.20]"


@pytest.fixture
def told(tmp_path):
    """A function that stores runs, {run: (value, low, high)} of the first headline's claim on
    mini-bert, of a run that ends in _b on mini-gpt2, and gives its row of the table.
    """

    def row(**ends):
        folders = {}
        for name, numbers in ends.items():
            run = name.replace("_", "-")
            made = Run(out=tmp_path / run)
            one = Verdict(
                SMALL,
                Outcome.SUPPORTED,
                estimate=Estimate(*numbers, n=10),
                variant="gradient",
                models=["mini-gpt2" if name.endswith("_b") else "mini-bert"],
            )
            made.judged("02", [one])
            folders[run] = made.out
        table = headlines.table(folders).set_index("id")
        return table.loc[SMALL]

    return row


def test_our_sentences_are_told_and_what_real_text_says_stands_beside_and_is_a_doubt(told):
    row = told(mini=(0.4, 0.3, 0.45), mini_real=(0.6, 0.55, 0.65))
    assert (row["outcome"], row["run"]) == ("contradicted", "our sentences")
    assert row["seen"] == "the top tenth carries 40 % [30, 45]"
    assert row["real"] == "Supported: 60 % [55, 65]"
    assert row["why"] == "supported on real text; one training"  # no retraining is stored
    assert row["sure"] == "low" and row["published"] == ""


def test_real_text_alone_is_told_once(told):
    row = told(mini_real=(0.6, 0.55, 0.65))
    assert (row["outcome"], row["run"], row["real"]) == ("supported", "real text", "")


def test_what_the_readme_tells_is_what_its_first_command_makes():
    rows = headlines.table()
    assert set(rows["run"]) == {"our sentences", ""}  # the latter of claims on no data set
    assert set(rows.loc[rows["real"] != "", "paper"]) == {"bias_a_head", "projective"}


def test_each_doubt_is_a_step_and_what_is_not_decided_is_not_sure(told):
    row = told(mini=(0.4, 0.3, 0.45))
    assert (row["outcome"], row["sure"], row["why"]) == ("contradicted", "medium", "one training")
    again = {f"trainings_seed{k}": (0.4, 0.38, 0.42) for k in range(3)}
    row = told(mini=(0.4, 0.3, 0.45), **again)
    assert (row["sure"], row["why"]) == ("high", "")
    row = told(mini=(0.6, 0.55, 0.65), **again)
    assert row["why"] == "no working control; contradicted over retrainings"
    row = told(mini=(0.6, 0.55, 0.65), mini_real=(0.4, 0.3, 0.45), **again)
    assert row["why"] == "contradicted on real text and over retrainings; no working control"
    assert row["sure"] == "low"  # three doubts, two of them in one breath
    row = told(mini=(0.5, 0.4, 0.6))
    assert (row["outcome"], row["sure"]) == ("inconclusive", "")


def test_published_models_stand_beside_where_they_are_stored(told):
    row = told(mini=(0.6, 0.55, 0.65), published_a=(0.7, 0.6, 0.8), published_b=(0.3, 0.2, 0.4))
    assert row["run"] == "our sentences"
    said = "30 to 70 %; tests: 1 supported, 1 contradicted"
    assert row["published"] == said
    nan = float("nan")  # a test that has no value counts, and is no end of the range
    row = told(published_a=(0.7, 0.6, 0.8), published_b=(nan, nan, nan), mini=(0.6, 0.5, 0.7))
    assert row["published"] == "70 %; tests: 1 supported, 1 inconclusive"
    # a run of another model has its companion's tests again, which count once
    ends = {"mini": (0.6, 0.55, 0.65), "published_b": (0.3, 0.2, 0.4)}
    again = told(published_a=(0.7, 0.6, 0.8), published_c=(0.7, 0.6, 0.8), **ends)
    assert again["published"] == said


def test_nothing_stored_is_said_and_not_made_up():
    rows = headlines.table({"none": paths.ROOT / "nowhere"})
    assert set(rows["outcome"]) == {"not run"} and set(rows["seen"]) == {""}


def test_a_table_names_models_and_data_once_and_departures_beside_the_line():
    row = {
        "says": "A",
        "outcome": "supported",
        "seen": "by 1",
        "reason": "",
        "models": "a",
        "run": "our sentences",
        "real": "",
        "published": "",
        "sure": "low",
        "why": "x; y",
    }
    rows = pd.DataFrame([row, row | {"models": "b", "seen": "", "reason": "none is there"}, row])
    lines = headlines._paper_in_markdown("P", rows).splitlines()
    assert lines[0] == "|*P* says|We see (a, our sentences)|Sure?|"
    assert lines[2] == "|A|Supported: by 1|low: x; y|"
    assert lines[3] == "|A|Supported: none is there (b)|low: x; y|"
    rows.loc[1, ["models", "run"]] = ["b, a", "real text"]
    line = headlines._paper_in_markdown("P", rows).splitlines()[3]
    assert line == "|A|Supported: none is there (b, real text)|low: x; y|"
    rows.loc[0, "real"] = "Contradicted: 2"
    lines = headlines._paper_in_markdown("P", rows).splitlines()
    assert lines[0] == "|*P* says|We see (a, our sentences)|Real text|Sure?|"
    assert lines[2] == "|A|Supported: by 1|Contradicted: 2|low: x; y|"


def test_a_plain_title_stands_while_records_bear_it_out():
    picture = changed(PICTURES[1], rests_on={SMALL: Outcome.SUPPORTED}, finding="4 of 4")

    def title(outcome, finding):
        cell = Cell.of(CLAIMS[SMALL], [Verdict(SMALL, outcome, models=["mini-bert"])])
        board = pd.DataFrame({"id": [SMALL], "mini": pd.Series([cell], dtype=object)})
        return headlines.plain_title(picture, "mini", finding, board)

    assert title(Outcome.SUPPORTED, "In 4 of 4 models") == picture.title
    assert title(Outcome.INCONCLUSIVE, "In 4 of 4 models") == "In 4 of 4 models"
    assert title(Outcome.SUPPORTED, "In 3 of 4 models") == "In 3 of 4 models"


def test_the_readme_has_at_most_800_words():
    text = (paths.ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.split()) <= 800  # as wc -w counts: tables and code too
