"""Tables and claims of Counteracts: answers that fit in the head."""

from itertools import product

import numpy as np
import pandas as pd
import pytest

from lib.counteracts import claims, cloze, tables
from lib.verdict import Gate, Outcome, judge

KINDS = list(cloze.KINDS)


def table(margins: dict, scatter: float = 0.0):
    """As by_occupation gives it: three occupations a group; margins by kind, one or (female-, male-dominated)."""
    rows = []
    for (group, dominated), i, kind in product(enumerate(("female", "male")), range(3), KINDS):
        margin = np.broadcast_to(margins.get(kind, margins["base"]), 2)[group] + scatter * (i - 1)
        rows.append((dominated, f"{dominated} {i}", 20 + 10 * i + 30 * group, kind, .1 + .1 * margin, .1 - .1 * margin))
    frame = pd.DataFrame(rows, columns=["dominated", "occupation", "percent_women", "kind", "female", "male"])
    return frame.assign(kind=pd.Categorical(frame["kind"], KINDS))


def answered(p, genders, mass=(.2, .1), family="bert", backgrounds=0):
    """As cloze.measure gives it: the same row for every prompt of winobias, 1 female, -1 male, 0 neither."""
    prompts = cloze.rows("winobias", backgrounds)
    n = len(prompts)
    p, ids, genders, mass = (np.tile(np.asarray(row), (n, 1)) for row in (p, range(len(p)), genders, mass))
    names = ("verbalizer", "six", "larger", "whole pairs", "no space", "either")
    return {"family": family, "prompts": prompts, "p": p, "ids": ids, "tokens": [list("abcdefghij")] * n,
            "whole": dict.fromkeys(names, [3, 4]), "genders": dict.fromkeys(names, genders),
            "mass": dict.fromkeys(names, mass)}


P = [.3, .2, .1, .05, .04, .03, .02, .01, .01, .01]
GENDERS = [0, 1, -1, 1, 0, 0, 0, 0, 0, -1]


@pytest.mark.parametrize("k, female, male", [(3, .2, .1), (5, .25, .1), (10, .25, .11), (0, .2, .1)])
def test_female_and_male_probability_of_the_top_k(k, female, male):
    rows = tables.by_occupation(answered(P, GENDERS), k)
    np.testing.assert_allclose(rows[["female", "male"]], [[female, male]] * 400)
    np.testing.assert_allclose(tables.bars(rows)["value"], [female, male] * 20)


def test_backgrounds_are_averaged_first():
    answer = answered(P, GENDERS)
    prompts = cloze.prompts()
    mine = (prompts["occupation"] == "nurse") & (prompts["kind"] == cloze.WITH_BACKGROUND[0])
    mass = answer["mass"]["verbalizer"].copy()
    mass[np.flatnonzero(mine)[:10]] = .4, .8  # half of its 20 backgrounds
    answer["mass"]["verbalizer"] = mass
    row = tables.by_occupation(answer).set_index(["occupation", "kind"]).loc[("nurse", cloze.WITH_BACKGROUND[0])]
    assert row[["female", "male", "log_odds"]].tolist() == pytest.approx([.3, .45, 0])


@pytest.mark.parametrize("base, after, change", [
    (.5, .8, "enlarged"), (-.5, -.8, "enlarged"), (.5, .58, "kept"), (.5, .2, "weakened"), (-.5, -.2, "weakened"),
    (.5, -.1, "overturned"), (-.02, .03, "overturned"), (np.nan, .5, "no gendered token"),
    (.5, np.nan, "no gendered token")])
def test_a_change_of_preference(base, after, change):
    assert tables.change(base, after) == change


def test_shares_add_up_to_one():
    shares = tables.shares(table({"base": .4, "unrelated": (.4, -.4), "target neutral": .9}))
    wide = shares.pivot(index="kind", columns="change", values="value")
    assert wide.sum(axis=1).round(9).eq(1).all()
    assert wide.loc["unrelated", "overturned"] == .5 and wide.loc["target neutral", "enlarged"] == 1


def test_equation_1_by_hand():
    """Base: a .3, b .2; after knowledge b .4, c .3: b alone is in both top 2, 2 times as likely."""
    answer = answered([.3, .2], [0, 1])
    known = (cloze.prompts()["kind"] != "base").to_numpy()
    answer["ids"][known], answer["p"][known] = [1, 2], [.4, .3]
    answer["genders"] = {"verbalizer": np.where(known[:, None], [1, -1], [0, 1])}
    answer["tokens"] = [["b", "c"] if new else ["a", "b"] for new in known]
    ratios = tables.relative(answer, k=2)
    assert len(ratios) == known.sum() and set(ratios["token"]) == {"b"} and set(ratios["gender"]) == {"female"}
    assert tables.relative(answer, k=1).empty
    assert tables.relative_means(ratios).loc["unrelated"].tolist() == pytest.approx([2, 40])


def test_the_slope_is_for_ten_percent_more_women():
    frame = table({"base": .4})
    frame["log_odds"] = .03 * frame["percent_women"] + 1
    frame.loc[frame["occupation"] == "female 0", ["percent_women", "log_odds"]] = np.nan, 99
    np.testing.assert_allclose(tables.slopes(frame, draws=20)["value"], .3)


U, N = "unrelated", "target neutral"


def claim(expectation, *kinds):
    return claims.ClozeClaim("id", "counteracts", "", "", families=("bert",), kinds=kinds, expectation=expectation)


def outcome(expectation, kinds, **margins):
    return claims.read(claim(expectation, *kinds), table({"base": margins["base"], U: margins.get("after", 0),
                                                          N: margins.get("neutral", 0)}), draws=20).outcome


@pytest.mark.parametrize("expectation, base, met, failed", [
    (claims.KEPT, .5, .45, (.45, .2)), (claims.KEPT, .02, .01, -.02), (claims.OVERTURNED, (.5, -.5), (-.1, .1), -.1),
    (claims.NOT_OVERTURNED, (.5, -.5), (.1, -.9), -.1), (claims.ENLARGED, (.5, -.5), (.6, -.6), .6),
    (claims.WEAKENED, (.5, -.5), .1, (.1, .9)), (claims.MOVED, .5, (.2, .9), (.45, .9)),
    (claims.UNCHANGED, .5, (.2, .9), (.2, .3)), (claims.UNCHANGED, .5, .55, (.9, .8))])
def test_an_expectation_is_met_or_not(expectation, base, met, failed):
    """Margins as one number, or one for each group of occupations."""
    assert outcome(expectation, [U], base=base, after=met) == Outcome.HOLDS
    assert outcome(expectation, [U], base=base, after=failed) == Outcome.FAILS


def test_expectations_of_the_base_prompts_and_of_two_kinds():
    assert outcome(claims.LEANS, ["base"], base=(-.5, -.3)) == Outcome.HOLDS
    assert outcome(claims.LEANS, ["base"], base=(-.5, -.05)) == Outcome.FAILS
    assert outcome(claims.MORE, [U, N], base=.5, after=-.5, neutral=.4) == Outcome.HOLDS
    assert outcome(claims.MORE, [U, N], base=.5, after=.4, neutral=-.5) == Outcome.FAILS
    assert claims.read(claim(claims.LEANS, "base"), table({"base": .3}, scatter=.5), draws=200).within_chance


def test_no_gendered_token_is_no_case():
    empty = table({"base": .5})
    empty.loc[(empty["kind"] == "base") & (empty["dominated"] == "male"), ["female", "male"]] = 0
    assert claims.read(claim(claims.KEPT, U), empty, draws=20).outcome == Outcome.NO_CASE


GATE = [Gate("tokens", False, claims.NO_TOKEN)]


@pytest.mark.parametrize("scores, said, reading", [
    ([3, 1, 2, 4], "holds", "k = 5"), ([3, 1, 2, -1], "holds", "k = 5"), ([None, 2, 1, -1], "holds", "k = 10"),
    ([3, -1, 2, 4], "fails (holds at k = 3, 10)", "k = 5"), ([-1, -2, -3, 4], "fails", "k = 10"),
    ([None, None, None, 2], "holds, in the full distribution alone", "full")])
def test_a_verdict_is_over_the_three_figures(scores, said, reading):
    names = ["k = 3", "k = 5", "k = 10", "full"]
    four = [judge(claim(claims.KEPT, U), score or 0, on="mini-bert", gates=[] if score else GATE, reading=name)
            for score, name in zip(scores, names)]
    verdict = claims.overall(four)
    assert str(verdict) == said and verdict.reading == reading and verdict.on == "mini-bert"
    assert verdict.found.startswith("k = 3 no token; k = 5" if scores[0] is None else "k = 3 ")


def test_each_model_of_a_claims_families_has_one_verdict():
    families = {"one": "bert", "two": "gpt2", "three": "t5"}
    readings = claims.readings({name: answered(P, GENDERS, family=family, backgrounds=1)
                                for name, family in families.items()}, draws=10)
    verdicts, shown = [claims.overall(four) for four in readings], claims.table(readings)
    assert len({(verdict.claim, verdict.on) for verdict in verdicts}) == len(verdicts) == len(shown)
    assert [verdict.claim for verdict in verdicts if verdict.on == "two"] == [
        "base-leans", "unrelated-not-overturned", "unrelated-kept", "gpt2-neutral", "gpt2-neutral-background"]
    assert not any(verdict.on == "three" for verdict in verdicts)
    assert list(shown["verdict"]) == list(map(str, verdicts))


def test_choices_that_change_nothing_are_not_shown():
    answer = answered(P, GENDERS, backgrounds=1)
    answer["mass"]["larger"] = np.tile([.1, .3], (len(answer["prompts"]), 1))
    shown = tables.forms({"paper": answer})
    assert list(shown.index) == ["paper", "paper; larger list"]
    np.testing.assert_allclose(shown.loc["paper; larger list"], -.5)
