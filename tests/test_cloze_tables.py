"""Tables and claims of Counteracts: answers that fit in the head."""

import numpy as np
import pandas as pd
import pytest

from lib import printed as paper
from lib.counteracts import cloze, cloze_claims, cloze_tables, plots_cloze

KINDS = list(cloze.KINDS)


def table(margins: dict, scatter: float = 0.0):
    """As by_occupation gives it: three occupations a group; margins by kind, one or (female-, male-dominated)."""
    rows = []
    for group, dominated in enumerate(("female", "male")):
        for i in range(3):
            for kind in KINDS:
                margin = np.broadcast_to(margins.get(kind, margins["base"]), 2)[group] + scatter * (i - 1)
                rows.append((dominated, f"{dominated} {i}", 20 + 10 * i + 30 * group, kind, .1 * (1 + margin),
                             .1 * (1 - margin), i))
    names = ["dominated", "occupation", "percent_women", "kind", "female", "male", "log_odds"]
    frame = pd.DataFrame(rows, columns=names)
    return frame.assign(kind=pd.Categorical(frame["kind"], KINDS))


def found(p, genders, mass=(.2, .1)):
    """As cloze.answer gives it: the same row for every prompt of winobias, 1 female, -1 male, 0 neither."""
    n = len(cloze.rows())
    p, ids, genders, mass = (np.tile(np.asarray(row), (n, 1)) for row in (p, range(len(p)), genders, mass))
    names = ("verbalizer", "six", "larger", "whole pairs", "no space", "either")
    return {"family": "bert", "p": p, "ids": ids, "tokens": [list("abcdefghij")] * n,
            "whole": dict.fromkeys(names, [3, 4]), "genders": dict.fromkeys(names, genders),
            "mass": dict.fromkeys(names, mass)}


P = [.3, .2, .1, .05, .04, .03, .02, .01, .01, .01]
GENDERS = [0, 1, -1, 1, 0, 0, 0, 0, 0, -1]


@pytest.mark.parametrize("k, female, male", [(3, .2, .1), (5, .25, .1), (10, .25, .11), (0, .2, .1)])
def test_female_and_male_probability_of_the_top_k(k, female, male):
    rows = cloze_tables.by_occupation(found(P, GENDERS), k)
    assert len(rows) == 400
    np.testing.assert_allclose(rows[["female", "male"]], [[female, male]] * 400)
    drawn = cloze_tables.bars(rows)
    assert drawn["value"].round(6).unique().tolist() == [female, male] and len(drawn) == 2 * 10 * 2


def test_backgrounds_are_averaged_first():
    answer = found(P, GENDERS)
    prompts = cloze.prompts()
    mine = (prompts["occupation"] == "nurse") & (prompts["kind"] == cloze.WITH_BACKGROUND[0])
    mass = answer["mass"]["verbalizer"].copy()
    mass[np.flatnonzero(mine)[:10]] = .4, .8  # half of its 20 backgrounds
    answer["mass"]["verbalizer"] = mass
    row = cloze_tables.by_occupation(answer).set_index(["occupation", "kind"]).loc[("nurse", cloze.WITH_BACKGROUND[0])]
    assert row[["female", "male", "log_odds"]].tolist() == pytest.approx([.3, .45, 0])


@pytest.mark.parametrize("base, after, change", [
    (.5, .8, "enlarged"), (-.5, -.8, "enlarged"), (.5, .58, "kept"), (.5, .2, "weakened"), (-.5, -.2, "weakened"),
    (.5, -.1, "overturned"), (-.02, .03, "overturned"), (np.nan, .5, "no gendered token"),
    (.5, np.nan, "no gendered token")])
def test_a_change_of_preference(base, after, change):
    assert cloze_tables._change(base, after) == change


def test_shares_add_up_to_one():
    shares = cloze_tables.shares(table({"base": .4, "unrelated": (.4, -.4), "target neutral": .9}))
    wide = shares.pivot(index="kind", columns="change", values="value")
    assert wide.sum(axis=1).round(9).eq(1).all()
    assert wide.loc["unrelated", "overturned"] == .5 and wide.loc["target neutral", "enlarged"] == 1


def test_equation_1_by_hand():
    """Base: a .3, b .2; after knowledge b .4, c .3: b alone is in both top 2, 2 times as likely."""
    answer = found([.3, .2], [0, 1])
    known = (cloze.prompts()["kind"] != "base").to_numpy()
    answer["ids"][known], answer["p"][known] = [1, 2], [.4, .3]
    answer["genders"] = {"verbalizer": np.where(known[:, None], [1, -1], [0, 1])}
    answer["tokens"] = [["b", "c"] if new else ["a", "b"] for new in known]
    ratios = cloze_tables.relative(answer, k=2)
    assert len(ratios) == known.sum() and set(ratios["token"]) == {"b"} and set(ratios["gender"]) == {"female"}
    np.testing.assert_allclose(ratios["ratio"], 2)
    assert cloze_tables.relative(answer, k=1).empty
    means = cloze_tables.relative_means(ratios)
    assert means.loc["unrelated", ("tokens", "female")] == 40
    assert means.loc["unrelated", ("ratio", "female")] == pytest.approx(2)


def test_the_slope_is_for_ten_percent_more_women():
    frame = table({"base": .4})
    frame["log_odds"] = .03 * frame["percent_women"] + 1
    slopes = cloze_tables.slopes(frame, draws=20)
    np.testing.assert_allclose(slopes["value"], .3)
    frame.loc[frame["occupation"] == "female 0", ["percent_women", "log_odds"]] = np.nan, 99
    np.testing.assert_allclose(cloze_tables.slopes(frame, draws=20)["value"], .3)


def test_follows_counts_moves_towards_the_gender_named():
    own, other = "target syntactic similar", "target counter syntactic similar"
    moved = cloze_tables.follows(table({"base": 0, own: (.5, -.5), other: (.5, -.5)})).set_index("kind")
    assert moved.loc[own, ["names", "value"]].tolist() == ["its own", 1]
    assert moved.loc[other, ["names", "value"]].tolist() == ["the other", 0]
    assert len(moved) == 6


@pytest.mark.parametrize("expectation, kinds, margins, met", [
    ("leans", ["base"], {"base": (-.5, -.3)}, True),
    ("leans", ["base"], {"base": (-.5, -.05)}, False),
    ("kept", ["unrelated"], {"base": .5, "unrelated": .45}, True),
    ("kept", ["unrelated"], {"base": .5, "unrelated": (.45, .2)}, False),
    ("kept", ["unrelated"], {"base": .02, "unrelated": -.02}, False),
    ("overturned", ["unrelated"], {"base": (.5, -.5), "unrelated": (-.1, .1)}, True),
    ("overturned", ["unrelated"], {"base": (.5, -.5), "unrelated": (-.1, -.1)}, False),
    ("not overturned", ["unrelated"], {"base": (.5, -.5), "unrelated": (.1, -.9)}, True),
    ("enlarged", ["unrelated"], {"base": (.5, -.5), "unrelated": (.6, -.6)}, True),
    ("enlarged", ["unrelated"], {"base": (.5, -.5), "unrelated": (.6, .6)}, False),
    ("weakened", ["unrelated"], {"base": (.5, -.5), "unrelated": (.1, .1)}, True),
    ("weakened", ["unrelated"], {"base": (.5, -.5), "unrelated": (.1, .9)}, False),
    ("moved", ["unrelated"], {"base": .5, "unrelated": (.2, .9)}, True),
    ("moved", ["unrelated"], {"base": .5, "unrelated": (.45, .9)}, False),
    ("unchanged or conflicting", ["unrelated"], {"base": .5, "unrelated": (.2, .9)}, True),
    ("unchanged or conflicting", ["unrelated"], {"base": .5, "unrelated": (.2, .3)}, False),
    ("unchanged or conflicting", ["unrelated"], {"base": .5, "unrelated": (.9, .8)}, False),
    ("first moves more", ["unrelated", "target neutral"], {"base": .5, "unrelated": -.5, "target neutral": .4}, True),
    ("first moves more", ["target neutral", "unrelated"], {"base": .5, "unrelated": -.5, "target neutral": .4}, False),
])
def test_an_expectation_is_met_or_not(expectation, kinds, margins, met):
    assert cloze_claims.check(table(margins), kinds, expectation, draws=20) == ("holds" if met else "fails")


def test_within_chance_where_occupations_disagree():
    assert cloze_claims.check(table({"base": .3}, scatter=.5), ["base"], "leans", draws=200).endswith("(within chance)")


def test_no_gendered_token_is_no_preference():
    empty = table({"base": .5})
    empty.loc[(empty["kind"] == "base") & (empty["dominated"] == "male"), ["female", "male"]] = 0
    assert cloze_claims.check(empty, ["unrelated"], "kept", draws=20) == "no token"


@pytest.mark.parametrize("met, verdict", [
    (["holds"] * 4, "holds"), (["holds", "holds (within chance)", "holds", "fails"], "holds (within chance)"),
    (["holds", "fails", "holds", "holds"], "fails (holds at k = 3, 10)"), (["fails"] * 4, "fails"),
    (["no token", "holds", "holds", "fails"], "holds"),
    (["no token"] * 3 + ["holds"], "holds, in the full distribution alone")])
def test_a_verdict_is_over_the_three_figures(met, verdict):
    assert cloze_claims._verdict(*met) == verdict


def test_claims_name_each_model_of_their_families_once():
    answers = {"one": found(P, GENDERS), "two": found(P, GENDERS) | {"family": "gpt2"}}
    claims = cloze_claims.claims(answers, draws=20)
    assert not claims.duplicated(["model", "knowledge", "claim"]).any()
    assert set(claims.loc[claims["model"] == "two", "claim"]) == {"leans", "not overturned", "kept"}
    assert all(kind in cloze.KINDS for _, kinds, _ in cloze_claims.CLAIMS for kind in kinds)


def test_choices_that_change_nothing_are_not_shown():
    answer = found(P, GENDERS)
    n = len(cloze.rows("winobias", 1))
    answer["mass"] = {name: mass[:n] for name, mass in answer["mass"].items()}
    answer["mass"]["larger"] = np.tile([.1, .3], (n, 1))
    shown = cloze_tables.forms({"paper": answer})
    assert list(shown.index) == ["paper", "paper; larger list"]
    np.testing.assert_allclose(shown.loc["paper; larger list"], -.5)


def test_coverage_by_hand():
    covered = cloze_tables.coverage(found(P, GENDERS))
    assert covered["female words"] == 3 and covered["mass"] == pytest.approx(.3)
    assert [covered[f"top {k}: gendered mass"] for k in (3, 5)] == pytest.approx([.3, .35])


def test_every_printed_count_is_met():
    compared = cloze_tables.against_paper()
    assert len(compared) == 7 and set(compared["verdict"]) == {"matches"}
    assert cloze_tables.counts().loc["all"].tolist() == [2_680, 5_452]


def test_table_1_in_the_printed_arrangement():
    shown = cloze_tables.table1()
    assert shown.shape == (29, 4) and shown.iloc[0].tolist() == ["mechanician", 2.9, "attendant", 52.3]


def test_the_likeliest_tokens_as_text():
    shown = cloze_tables.top({"one": found(P, GENDERS)}, "nurse", ["base", "unrelated"], n=2)
    assert shown.loc[("one", "unrelated")].tolist() == ["a 0.30", "b 0.20"]


def test_all_shares_have_a_row_for_every_model_k_and_kind():
    every = cloze_tables.all_shares({"one": found(P, GENDERS), "two": found(P, GENDERS)})
    assert len(cloze_tables.all_bars({"one": found(P, GENDERS)})) == 4 * 2 * 10 * 2
    assert len(every) == 2 * 4 * 9 and every.loc[("one", "k = 3", "unrelated"), "kept"] == "1.00 [1.00, 1.00]"


def test_printed_numbers_are_the_lists():
    printed = paper.printed("counteracts", "Table 1")
    assert len(printed) == 58 and printed.loc["hairdressers", "percent women"] == 92.4


def test_figures_are_drawn_for_any_number_of_models():
    tables = {name: table({"base": -.2}) for name in "abcde"}
    drawn = {name: cloze_tables.bars(part) for name, part in tables.items()}
    assert len(plots_cloze.bars(drawn, 3, "made from").axes) == 10
    empty = {name: part.assign(value=0.0, low=0.0, high=0.0) for name, part in drawn.items()}
    assert "no preference" in plots_cloze.bars(empty, 3, "made from")._suptitle.get_text()
    assert plots_cloze.shares({n: cloze_tables.shares(t) for n, t in tables.items()}, "Top 3", "made from")
    assert plots_cloze.slopes({n: cloze_tables.slopes(t, 20) for n, t in tables.items()}, "made from")
