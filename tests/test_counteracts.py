"""Tables and claims of Counteracts: answers that fit in the head."""

from itertools import product

import numpy as np
import pandas as pd
import pytest

from lib.counteracts import claims, cloze, tables
from lib.engine.stats import Estimate
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
    names = ("outputs", "verbalizer", "six", "larger", "whole pairs", "no space", "either")
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


def test_backgrounds_are_averaged_first_and_prompts_that_are_understood_counted():
    answer = answered(P, GENDERS)
    prompts = cloze.prompts()
    mine = (prompts["occupation"] == "nurse") & (prompts["kind"] == cloze.WITH_BACKGROUND[0])
    mass = answer["mass"]["outputs"].copy()
    mass[np.flatnonzero(mine)[:10]] = .4, .8  # half of its 20 backgrounds
    answer["mass"]["outputs"] = mass
    row = tables.by_occupation(answer).set_index(["occupation", "kind"]).loc[("nurse", cloze.WITH_BACKGROUND[0])]
    assert row[["female", "male", "log_odds"]].tolist() == pytest.approx([.3, .45, 0])
    answer = answered(P, GENDERS)
    assert tables.understood(answer, 3).eq(1).all() and tables.understood(answer, 0).eq(1).all()
    genders = answer["genders"]["outputs"].copy()
    prompts = cloze.prompts()
    genders[(prompts["kind"] == "base") & (prompts["dominated"] == "male") & (prompts["occupation"] != "chief")] = 0
    answer["genders"] = {"outputs": genders}
    assert tables.understood(answer, 3)["base"] == 1 / 20 and tables.understood(answer, 3)[N] == 1
    assert tables.understood(answer, 1).eq(0).all()  # the likeliest token is neither


@pytest.mark.parametrize("base, after, change", [
    (.5, .8, "enlarged"), (-.5, -.8, "enlarged"), (.5, .58, "kept"), (.5, .2, "weakened"), (-.5, -.2, "weakened"),
    (.5, -.1, "overturned"), (-.02, .03, "overturned"), (np.nan, .5, "no gendered token"),
    (.5, np.nan, "no gendered token")])
def test_a_change_of_preference(base, after, change):
    assert tables.change(base, after) == change


def test_shares_slopes_and_equation_1_by_hand():
    shares = tables.shares(table({"base": .4, "unrelated": (.4, -.4), "target neutral": .9}))
    wide = shares.pivot(index="kind", columns="change", values="value")
    assert wide.sum(axis=1).round(9).eq(1).all()
    assert wide.loc["unrelated", "overturned"] == .5 and wide.loc["target neutral", "enlarged"] == 1
    frame = table({"base": .4})
    frame["log_odds"] = .03 * frame["percent_women"] + 1
    frame.loc[frame["occupation"] == "female 0", ["percent_women", "log_odds"]] = np.nan, 99
    np.testing.assert_allclose(tables.slopes(frame, draws=20)["value"], .3)
    # base: a .3, b .2; after knowledge b .4, c .3: b alone is in both top 2, 2 times as likely
    answer = answered([.3, .2], [0, 1])
    known = (cloze.prompts()["kind"] != "base").to_numpy()
    answer["ids"][known], answer["p"][known] = [1, 2], [.4, .3]
    answer["genders"] = {"outputs": np.where(known[:, None], [1, -1], [0, 1])}
    answer["tokens"] = [["b", "c"] if new else ["a", "b"] for new in known]
    ratios = tables.relative(answer, k=2)
    assert len(ratios) == known.sum() and set(ratios["token"]) == {"b"} and set(ratios["gender"]) == {"female"}
    assert tables.relative(answer, k=1).empty
    means = tables.relative_means(ratios)
    assert means.loc["unrelated", [("ratio", "female"), ("tokens", "female")]].tolist() == pytest.approx([2, 40])
    none = tables.relative_means(tables.relative(answer, k=1))  # an untrained network may share no token
    assert none.shape == means.shape and none["ratio"].isna().all(axis=None) and not none["tokens"].any(axis=None)


U, N, S, C = "unrelated", "target neutral", claims.SYNTACTIC, claims.COUNTER_SYNTACTIC
FOLLOWS = {S: (.8, -.8), C: (-.8, .8)}  # the margin follows whoever is named: a model that can be moved
EVERY = pd.Series(1.0, KINDS)


def claim(expectation, *kinds):
    return claims.ClozeClaim(id="id", paper="counteracts", where="", says="", families=("bert",), kinds=kinds,
                             expectation=expectation)


def read(expectation, margins, kinds=(N,), scatter=0.0, understood=EVERY, **options):
    drawn = tables.resampled(table(FOLLOWS | {U: margins["base"]} | margins, scatter), draws=50)
    return claims.read(claim(expectation, *kinds), drawn, understood, **options)


def test_margins_by_group_and_pooled_as_they_are_and_drawn():
    frame = table({"base": (.5, -.3)}, scatter=.2)
    by_group, pooled = (tables.resampled(frame, pooled, draws=30)["base"] for pooled in (False, True))
    assert by_group.shape == (31, 2) and pooled.shape == (31, 1)
    assert by_group[0].tolist() == pytest.approx([.5, -.3]) and pooled[0].tolist() == pytest.approx([.4])
    assert (by_group[1:] != by_group[0]).any() and np.abs(by_group - by_group[0]).max() <= .2 + 1e-9
    frame[["female", "male"]] = 0
    assert not tables.resampled(frame, draws=2)["base"].any()


@pytest.mark.parametrize("expectation, base, met, failed", [
    (claims.KEPT, .5, .45, (.45, .2)), (claims.OVERTURNED, (.5, -.5), (-.1, .1), -.1),
    (claims.NOT_OVERTURNED, (.5, -.5), (.1, -.9), -.1), (claims.ENLARGED, (.5, -.5), (.6, -.6), .6),
    (claims.WEAKENED, (.5, -.5), .1, (.1, .9)), (claims.MOVED, .5, (.2, .9), (.45, .9)),
    (claims.UNCHANGED, .5, (.2, .9), (.2, .3)), (claims.UNCHANGED, .5, .55, (.9, .8))])
def test_an_expectation_is_met_or_not(expectation, base, met, failed):
    """Margins as one number, or one for each group of occupations."""
    assert read(expectation, {"base": base, N: met}).outcome == Outcome.HOLDS
    assert read(expectation, {"base": base, N: failed}).outcome == Outcome.FAILS


def test_expectations_of_the_base_prompts_and_of_two_kinds():
    assert read(claims.LEANS, {"base": (-.5, -.3)}, ["base"]).outcome == Outcome.HOLDS
    assert read(claims.LEANS, {"base": (-.5, -.05)}, ["base"]).outcome == Outcome.FAILS
    assert read(claims.LEANS, {"base": .3}, ["base"], scatter=.5).outcome == Outcome.UNDECIDED
    assert read(claims.MORE, {"base": .5, U: -.5, N: .4}, [U, N]).outcome == Outcome.HOLDS
    assert read(claims.MORE, {"base": .5, U: .4, N: -.5}, [U, N]).outcome == Outcome.FAILS
    assert read(claims.MORE, {"base": .5, U: .55, N: .5}, [U, N]).outcome == Outcome.FAILS  # more, but hardly at all
    # occupations at -.1, .2 and .5 in both groups, after knowledge at .1, .4, .7: whether that overturns depends on
    # which occupations are drawn
    assert read(claims.NOT_OVERTURNED, {"base": .2, N: .4}, scatter=.3).outcome == Outcome.UNDECIDED


@pytest.mark.parametrize("expectation, margins, why", [
    (claims.KEPT, {"base": .05, N: .05}, "no preference in the base prompts"),
    (claims.OVERTURNED, {"base": (.5, -.05), N: (-.5, .5)}, "no preference in the base prompts"),
    (claims.KEPT, {"base": .95, N: .95}, "at the ceiling"), (claims.ENLARGED, {"base": .95, N: 1}, "at the ceiling"),
    (claims.KEPT, {"base": .5, N: .5, S: .5, C: .5}, "does not follow a named gender"),
    (claims.LEANS, {"base": .5, S: -.8, C: .8}, "does not follow a named gender")])
def test_no_case_where_there_is_nothing_to_keep_or_no_room_or_nothing_moves(expectation, margins, why):
    shut = read(expectation, margins)
    assert (shut.outcome, shut.reason) == (Outcome.NO_CASE, why) and not all(shut.gates.values())
    if why != "at the ceiling":  # a model that cannot have the effect does not bear the claim out by having nothing
        assert read(expectation, margins, ignore_gates=True).outcome == Outcome.FAILS


def test_few_gendered_tokens_are_no_case_on_a_control_too():
    for ignored in (False, True):
        few = read(claims.KEPT, {"base": .5}, understood=EVERY.where(EVERY.index != N, .45), ignore_gates=ignored)
        assert (few.outcome, few.reason) == (Outcome.NO_CASE, "gendered tokens in 45% of the prompts")
    assert read(claims.KEPT, {"base": .5}, understood=EVERY.where(EVERY.index != S, .45)).outcome == Outcome.HOLDS
    margins = {"base": (.5, -.5), N: (-.2, .2)}
    assert read(claims.OVERTURNED, margins).control.difference.value == pytest.approx(.7)
    as_much = read(claims.OVERTURNED, margins | {U: (-.2, .2)})
    assert (as_much.outcome, as_much.reason) == (Outcome.UNDECIDED, "no more than unrelated knowledge")


GATE = [Gate("tokens", False, "gendered tokens in 2% of the prompts")]


def four(scores):
    """Verdicts at k = 3, 5, 10 and in full: above 0 met, below not, 0 undecided, None not judged."""
    return [judge(claim(claims.KEPT, N), Estimate(score or 0, (score or -1) - .5, (score or 1) + .5), on="mini-bert",
                  gates=[] if score is not None else GATE, reading=name)
            for score, name in zip(scores, ["k = 3", "k = 5", "k = 10", "full"])]


@pytest.mark.parametrize("scores, said, reading", [
    ([3, 1, 2, 4], "holds", "k = 5"), ([3, 1, 2, -1], "holds", "k = 5"), ([None, 2, 1, -1], "holds", "k = 10"),
    ([3, -1, 2, 4], "fails, decided at k = 5", "k = 5"), ([-1, -2, -3, 4], "fails", "k = 10"),
    ([3, 0, 2, 4], "undecided, decided at k = 5", "k = 5"),
    ([None, None, None, 2], "holds, in the full distribution alone", "full")])
def test_a_verdict_is_over_the_three_figures(scores, said, reading):
    verdict = claims.overall({"main": four(scores)})
    assert str(verdict) == said and verdict.reading == reading and verdict.on == "mini-bert"
    assert verdict.found.startswith("k = 3 gendered tokens in 2% of the prompts; k" if scores[0] is None else "k = 3 ")


def test_readings_that_disagree_are_named_and_choices_that_change_nothing_are_not_shown():
    lines = {"main": four([1, 1, 1, 1]), "dictionary": four([None] * 3 + [-1]), "pooled": four([2, 2, 2, 2])}
    assert str(claims.overall(lines)) == "holds, dictionary: fails"
    lines["pooled"] = four([0, 1, 1, 1])
    assert str(claims.overall(lines)) == "holds, dictionary: fails; pooled: undecided"
    answer = answered(P, GENDERS, backgrounds=1)
    answer["mass"]["larger"] = np.tile([.1, .3], (len(answer["prompts"]), 1))
    shown = tables.forms({"paper": answer})
    assert list(shown.index) == ["paper", "paper; larger list"]
    np.testing.assert_allclose(shown.loc["paper; larger list"], -.5)


def test_each_model_of_a_claims_families_has_one_verdict():
    families = {"one": "bert", "two": "gpt2", "three": "t5"}
    answers = {name: answered(P, GENDERS, family=family, backgrounds=1) for name, family in families.items()}
    forms = {"two": {"The target is": answers["two"], "no start token": answers["two"]}}
    readings = claims.readings(answers, forms, draws=10)
    verdicts, shown = [claims.overall(lines) for lines in readings], claims.table(readings)
    assert len({(verdict.claim, verdict.on) for verdict in verdicts}) == len(verdicts) == len(shown)
    assert [verdict.claim for verdict in verdicts if verdict.on == "two"] == [
        "base-leans", "unrelated-not-overturned", "gpt2-neutral", "gpt2-neutral-background"]
    assert not any(verdict.on == "three" for verdict in verdicts)
    assert list(shown["verdict"]) == list(map(str, verdicts)) and list(shown)[-1] == "verdict"
    assert (shown["no start token"] != "").tolist() == (shown["model"] == "two").tolist()
    every = claims.readings({"three": answers["three"]}, every=True, draws=10, ignore_gates=True)
    assert len(every) == sum(not claim.untestable for claim in claims.CLAIMS.values())


@pytest.mark.parametrize("draw", range(3))
def test_a_model_that_answers_the_same_whatever_it_reads_bears_nothing_out(draw):
    """As an untrained network does: a lean that is there by chance, and the same in every prompt."""
    answer, rng = answered(P, GENDERS, backgrounds=1), np.random.default_rng(draw)
    mass = np.array([.3, .1]) + rng.normal(0, 1e-3, answer["mass"]["six"].shape)
    answer["mass"] = dict.fromkeys(answer["mass"], mass)
    answer["genders"] = dict.fromkeys(answer["genders"], 0 * answer["genders"]["six"])
    readings = claims.readings({"null": answer}, every=True, ignore_gates=True, draws=200)
    assert Outcome.HOLDS not in {claims.over_k(four).outcome for lines in readings for four in lines.values()}
