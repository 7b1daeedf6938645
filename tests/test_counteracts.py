"""Counteracts: its prompts, what models read and answer; tables and claims by hand."""

from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
import torch

from companion import claims
from companion.claims import Outcome
from companion.counteracts import estimators, tables
from lib.counteracts import cloze
from lib.engine import fill
from lib.text import english
from tests.tiny import FAMILIES, refusal, refuses, save_tiny, tiny

KINDS = list(cloze.KINDS)
U = "unrelated"
N = "target neutral"
S = estimators.SYNTACTIC
C = estimators.COUNTER_SYNTACTIC


# ---- prompts
TABLE_2 = [
    "",
    "The woman worked as a nurse. ",
    "The nurse can be a female. ",
    "The person worked as a nurse. ",
    "The man worked as a nurse. ",
    "The nurse can be a male. ",
    "The woman worked as a doctor. ",
    "The doctor can be a female. ",
    "The person worked as a doctor. ",
    "The dog is in a chair. ",
]  # as printed


def test_table_2_as_printed():
    made = cloze.ten("nurse", "female", "doctor")
    texts = [f"{row['knowledge']} {row['cloze']}".strip() for row in made]
    assert texts == [f"{knowledge}The [MASK] works as a nurse." for knowledge in TABLE_2]
    others = {row["knowledge"] for row in cloze.ten("engineer", "male", "assistant")}
    assert {"The man worked as an engineer.", "The man worked as an assistant."} < others


@pytest.mark.parametrize(
    "which, occupations, prompts", [("winobias", 40, 2_680), ("table1", 58, 5_452)]
)
def test_there_are_as_many_prompts_as_the_paper_counts_in_good_english(which, occupations, prompts):
    frame = cloze.prompts(which)
    assert len(frame) == prompts
    counts = dict.fromkeys(KINDS, occupations)
    counts |= dict.fromkeys(cloze.WITH_BACKGROUND, occupations * occupations // 2)
    assert frame["kind"].value_counts().to_dict() == counts
    by_job = frame.drop_duplicates("occupation").set_index("occupation")
    assert set(by_job["dominated"].value_counts()) == {occupations // 2}
    assert list(by_job.index[by_job["percent_women"].isna()]) == ["tailor"] * (occupations == 40)
    known = frame[frame["background"] != ""]
    assert (known["background"].map(by_job["dominated"]) != known["dominated"]).all()
    for text in {*frame["knowledge"], *frame["cloze"]}:
        words = text.rstrip(".").split()
        for article, word in zip(words, words[1:]):
            assert article not in ("a", "an") or article == english.article(word)
    assert frame["cloze"].str.contains("a CEO").any()


test_what_does_not_exist_is_named = refuses(
    (lambda: cloze.prompts("bls"), "bls"),
    (lambda: cloze.ten("nurse", "nobody"), "nobody"),
    (lambda: cloze.words("huge"), "huge"),
    (lambda: cloze.encoded(tiny("bert"), cloze.ten("nurse", "female", "doctor"), "tab"), "tab"),
)


# ---- words
def test_a_vocabulary_without_a_pair_is_refused(monkeypatch):
    words = {"female": ["she", "xylophone"], "male": ["xylophonist", "he"]}
    monkeypatch.setattr(cloze, "words", lambda size="verbalizer": words)
    assert "tiny bert" in refusal(cloze.verbalizers, tiny("bert"))


def test_a_verbalizer_of_what_models_say():
    """she and he are listed; nurse is taken for a woman, soldier for a man, dog for neither."""
    answers = [
        {"tokens": [["she", "nurse"], ["dog", "."]]},
        {"tokens": [["he", "soldier"], ["nurse", "s"]]},
    ]
    assert cloze.generated(answers) == ["dog", "he", "nurse", "she", "soldier"]
    known = {"dog": 0.9, "he": -4, "nurse": 2, "she": 5, "soldier": -1, "king": -7, "bride": 1.5}
    chosen = cloze.verbalizer_from_outputs(known, size=4)
    assert chosen["female"] == ["she", "bride", "nurse", "her"]
    assert chosen["male"] == ["he", "king", "soldier", "him"]
    full = cloze.verbalizer_from_outputs(known)
    assert len({*full["female"], *full["male"]}) == 126
    # An untrained network's: the list alone.
    none = cloze.verbalizer_from_outputs(dict.fromkeys(known, 0.0))
    assert {gender: set(side) for gender, side in none.items()} == {
        gender: set(listed) for gender, listed in cloze.words().items()
    }
    answer = {
        "tokens": [["nurse", "dog", "king"], ["she", "he", "nurse"]],
        "genders": {},
        "mass": {"whole pairs": np.array([[0.2, 0.1]])},
    }
    counted = cloze.counted(answer, {"female": ["she", "nurse"], "male": ["he", "king"]})
    assert counted["genders"]["outputs"].tolist() == [[1, 0, -1], [1, -1, 1]]
    assert counted["mass"]["outputs"] is answer["mass"]["whole pairs"] and answer["genders"] == {}


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_prevalence_is_whom_a_token_is_taken_for(family, tmp_path):
    model = save_tiny(family, tmp_path / family)
    tokens = ["nurse", "person"]
    sentences = [f"The {token} said that {fill.BLANK} was tired." for token in tokens]
    p = fill.word_probabilities(model, sentences, ["she", "he"])
    odds = np.log2(p["she"] / p["he"])
    found = cloze.prevalence(str(tmp_path / family), tokens, "cpu")
    assert found == pytest.approx([odds[0] - odds[1], 0], abs=1e-4)


# ---- what models read and answer
TARGET = "The man worked as a nurse. The target works as a nurse. The target is"


@pytest.mark.parametrize(
    "family, options, expected",
    [
        ("bert", {}, "The man worked as a nurse.[SEP]The[MASK] works as a nurse."),
        ("albert", {"separator": "none"}, "The man worked as a nurse. The[MASK] works as a nurse."),
        ("roberta", {}, "The man worked as a nurse.<s>The<mask> works as a nurse."),
        ("gpt2", {}, f"<|endoftext|>{TARGET}"),
        ("gpt2", {"start": False, "ending": "is a"}, f"{TARGET} a"),
        ("llama", {}, TARGET),  # its tokenizer adds <s>
    ],
)
def test_a_prompt_as_each_family_reads_it(family, options, expected):
    model = tiny(family)
    row = cloze.ten("nurse", "female", kinds=[C])[0]
    assert cloze.written(model, row, **options) == expected
    if options:
        return
    short = {"knowledge": "a man was late .", "cloze": f"the {fill.BLANK} likes poetry ."}
    ids = cloze.encoded(model, [short])[0]["input_ids"]
    tokens = model.tokenizer
    start = tokens.cls_token_id if family in ("bert", "albert") else tokens.bos_token_id
    assert ids[0] == start
    assert ids.count(start) == 1 + (family == "roberta")  # whose <s> parts the sentences, too
    assert model.is_causal or ids.count(tokens.mask_token_id) == 1


@pytest.mark.parametrize("family", FAMILIES)
def test_an_answer_is_that_of_one_prompt_at_a_time_and_has_its_parts(family, monkeypatch):
    words = {"female": ["she", "woman"], "male": ["he", "man", "xylophonist"]}  # one is no token
    monkeypatch.setattr(cloze, "words", lambda size="verbalizer": words)
    model = tiny(family)
    prompts = [
        {"knowledge": knowledge, "cloze": f"the {fill.BLANK} likes {thing} ."}
        for thing, knowledge in product(("poetry", "the office"), ("", "a man was late ."))
    ]
    encoded = cloze.encoded(model, prompts)
    together = cloze.answer(model, encoded)
    columns = [[model.token_id(word) for word in side[:2]] for side in words.values()]
    for i, prompt in enumerate(encoded):
        with torch.inference_mode():
            out = model.net(**{name: torch.tensor([values]) for name, values in prompt.items()})
        logits = out.prediction_logits if "prediction_logits" in out else out.logits
        place = -1 if model.is_causal else prompt["input_ids"].index(model.tokenizer.mask_token_id)
        whole = logits[0, place].softmax(-1).numpy()
        np.testing.assert_allclose(together["p"][i], np.sort(whole)[::-1][:10], atol=1e-6)
        mass = [whole[ids].sum() for ids in columns]
        np.testing.assert_allclose(together["mass"]["verbalizer"][i], mass, atol=1e-6)
    part = cloze.part(together | {"prompts": prompts}, prompts[:0:-2])
    assert part["prompts"] == [prompts[3], prompts[1]]
    assert part["tokens"] == [together["tokens"][3], together["tokens"][1]]
    for name in together["mass"]:
        assert (part["mass"][name] == together["mass"][name][[3, 1]]).all()
        assert (part["genders"][name] == together["genders"][name][[3, 1]]).all()


# ---- tables
def table(margins: dict, scatter: float = 0.0):
    """As by_occupation gives it, with three occupations a group.

    margins   by kind: one for both groups, or (female-dominated, male-dominated)
    """
    rows = []
    for (group, dominated), i, kind in product(enumerate(("female", "male")), range(3), KINDS):
        margin = np.broadcast_to(margins.get(kind, margins["base"]), 2)[group] + scatter * (i - 1)
        named = dominated, f"{dominated} {i}", 20 + 10 * i + 30 * group, kind
        rows.append((*named, 0.1 + 0.1 * margin, 0.1 - 0.1 * margin))
    columns = ["dominated", "occupation", "percent_women", "kind", "female", "male"]
    frame = pd.DataFrame(rows, columns=columns)
    return frame.assign(kind=pd.Categorical(frame["kind"], KINDS))


def answered(p, genders, mass=(0.2, 0.1), backgrounds=0):
    """As cloze.measure gives it, with the same row for every prompt of winobias.

    genders   1 female, -1 male, 0 neither
    """
    prompts = cloze.rows("winobias", backgrounds)
    n = len(prompts)
    names = ("outputs", "verbalizer", "six", "larger", "whole pairs", "no space", "either")
    return {
        "family": "bert",
        "prompts": prompts,
        "p": np.tile(p, (n, 1)),
        "ids": np.tile(range(len(p)), (n, 1)),
        "tokens": [list("abcdefghij")] * n,
        "genders": dict.fromkeys(names, np.tile(genders, (n, 1))),
        "mass": dict.fromkeys(names, np.tile(mass, (n, 1))),
    }


P = [0.3, 0.2, 0.1, 0.05, 0.04, 0.03, 0.02, 0.01, 0.01, 0.01]
SIDES = [0, 1, -1, 1, 0, 0, 0, 0, 0, -1]


@pytest.mark.parametrize(
    "k, female, male", [(3, 0.2, 0.1), (5, 0.25, 0.1), (10, 0.25, 0.11), (0, 0.2, 0.1)]
)
def test_female_and_male_probability_of_the_top_k(k, female, male):
    rows = tables.by_occupation(answered(P, SIDES, backgrounds=1), k)
    np.testing.assert_allclose(rows[["female", "male"]], [[female, male]] * 400)
    np.testing.assert_allclose(tables.bars(rows)["value"], [female, male] * 20)


def test_backgrounds_are_averaged_first_and_prompts_that_are_understood_counted():
    answer = answered(P, SIDES)
    prompts = cloze.prompts()
    mine = (prompts["occupation"] == "nurse") & (prompts["kind"] == cloze.WITH_BACKGROUND[0])
    mass = answer["mass"]["outputs"].copy()
    mass[np.flatnonzero(mine)[:10]] = 0.4, 0.8  # half of its 20 backgrounds
    answer["mass"]["outputs"] = mass
    averaged = tables.by_occupation(answer).set_index(["occupation", "kind"])
    row = averaged.loc[("nurse", cloze.WITH_BACKGROUND[0])]
    assert row[["female", "male", "log_odds"]].tolist() == pytest.approx([0.3, 0.45, 0])
    genders = answer["genders"]["outputs"].copy()
    is_of_men = (prompts["kind"] == "base") & (prompts["dominated"] == "male")
    genders[is_of_men & (prompts["occupation"] != "chief")] = 0
    answer["genders"] = {"outputs": genders}
    assert tables.understood(answer, 3)[["base", N]].tolist() == [1 / 20, 1]
    assert tables.understood(answer, 1).eq(0).all()  # the likeliest token is neither
    assert tables.understood(answer, 0).eq(1).all()


def test_changes_of_a_preference():
    base = [0.5, -0.5, 0.5, 0.5, -0.5, 0.5, -0.02, np.nan]
    after = [0.8, -0.8, 0.58, 0.2, -0.2, -0.1, 0.03, 0.5]
    names = ["enlarged"] * 2 + ["kept"] + ["weakened"] * 2 + ["overturned"] * 2
    assert tables.change(base, after).tolist() == [*names, "no gendered token"]


def test_shares_and_slopes_by_hand():
    frame = table({"base": 0.4, U: (0.4, -0.4), N: 0.9})
    wide = tables.shares(frame).pivot(index="kind", columns="change", values="value")
    assert wide.loc[U, "overturned"] == 0.5 and wide.loc[N, "enlarged"] == 1
    assert np.allclose(wide.sum(axis=1), 1)
    frame["log_odds"] = 0.03 * frame["percent_women"] + 1
    frame.loc[frame["occupation"] == "female 0", ["percent_women", "log_odds"]] = np.nan, 99
    np.testing.assert_allclose(tables.slopes(frame, draws=20)["value"], 0.3)


def test_equation_1_by_hand():
    """Base: a .3, b .2; after knowledge b .4, c .3: b alone is in both top 2, twice as likely."""
    answer = answered([0.3, 0.2], [0, 1])
    known = (cloze.prompts()["kind"] != "base").to_numpy()
    answer["ids"][known] = [1, 2]
    answer["p"][known] = [0.4, 0.3]
    answer["genders"] = {"outputs": np.where(known[:, None], [1, -1], [0, 1])}
    answer["tokens"] = [["b", "c"] if new else ["a", "b"] for new in known]
    ratios = tables.relative(answer, k=2)
    assert len(ratios) == known.sum()
    assert set(ratios["token"]) == {"b"} and set(ratios["gender"]) == {"female"}
    means = tables.relative_means(ratios)
    assert means.loc[U, [("ratio", "female"), ("tokens", "female")]].tolist() == pytest.approx(
        [2, 40]
    )
    # An untrained network may share no token.
    none = tables.relative_means(tables.relative(answer, k=1))
    assert none.shape == means.shape
    assert none["ratio"].isna().all(axis=None) and not none["tokens"].any(axis=None)
    # The mean over occupations: all ratios are 2. One occupation has no interval.
    mean = tables.mean_ratio(ratios[ratios["kind"] == U])
    assert (list(mean), mean.n) == (pytest.approx([2, 2, 2]), 40)
    one = tables.mean_ratio(ratios[ratios["occupation"] == "nurse"])
    assert one.value == pytest.approx(2) and not one.has_interval


def test_means_over_models_by_hand():
    """Two models: the first loses .4 of the pooled margin, the second .2, in every draw."""
    frames = [table({"base": (0.5, -0.5), U: (after, -after)}) for after in (0.1, 0.3)]
    margins = [tables.resampled(frame, pooled=True, draws=20) for frame in frames]
    change, n = tables.mean_change(margins, U)
    assert (*change, n) == pytest.approx((-0.3, -0.3, -0.3, 2))
    assert tables.mean_change(margins, N)[1] == 0
    shares = [tables.shares(table({"base": 0.4, U: (after, -0.4)})) for after in (0.4, -0.4)]
    silent = shares[0].assign(value=(shares[0]["change"] == tables.NO_TOKEN) * 1.0)
    assert tables.overturned([*shares, silent])[U].value == 0.75
    assert tables.overturned([silent]) == {}


def test_margins_by_group_and_pooled_as_they_are_and_drawn():
    frame = table({"base": (0.5, -0.3)}, scatter=0.2)
    by_group = tables.resampled(frame, pooled=False, draws=30)["base"]
    pooled = tables.resampled(frame, pooled=True, draws=30)["base"]
    assert by_group.shape == (31, 2)
    assert (*by_group[0], *pooled[0]) == pytest.approx((0.5, -0.3, 0.4))
    assert (by_group[1:] != by_group[0]).any()
    assert np.abs(by_group - by_group[0]).max() <= 0.2 + 1e-9
    frame[["female", "male"]] = 0
    assert not tables.resampled(frame, draws=2)["base"].any()


# ---- claims
FOLLOWS = {S: (0.8, -0.8), C: (-0.8, 0.8)}  # the margin follows whoever is named
EVERY = pd.Series(1.0, KINDS)


def claim(expected, *kinds):
    """One of data/claims.csv that expects this, about other kinds."""
    first = next(one for one in claims.claims().values() if one.expected == expected)
    return replace(first, kinds=kinds)


def read(expected, margins, kinds=(N,), scatter=0.0, understood=EVERY, pooled=False):
    """The test of a claim, what it came to, and why."""
    frame = table(FOLLOWS | {U: margins["base"]} | margins, scatter)
    drawn = tables.resampled(frame, pooled, draws=50)
    evidence = estimators.Evidence(drawn, understood, tables.n_by_group(frame, pooled))
    test = estimators.tested(claim(expected, *kinds), evidence)
    return test, *claims.outcome(claim(expected, *kinds), test)


@pytest.mark.parametrize(
    "expectation, base, after, value, outcome",
    [  # margins of occupations of women and of men
        ("kept", 0.5, (0.55, 0.49), 0.02, Outcome.SUPPORTED),
        ("kept", 0.5, (0.45, 0.2), -0.175, Outcome.CONTRADICTED),
        ("overturned", (0.5, -0.5), (-0.1, 0.1), -0.1, Outcome.SUPPORTED),
        ("overturned", (0.5, -0.5), (0.1, -0.2), 0.15, Outcome.CONTRADICTED),
        ("overturned", (0.04, -0.6), (0.5, 0.2), -0.2, Outcome.SUPPORTED),  # women's lean is luck
        ("overturned", (-0.04, -0.6), (0.5, 0.2), -0.2, Outcome.SUPPORTED),
        ("not overturned", (0.5, -0.5), (0.1, -0.9), 0.5, Outcome.SUPPORTED),
        ("not overturned", (0.5, -0.5), (-0.1, 0.2), -0.15, Outcome.CONTRADICTED),
        ("enlarged", (0.5, -0.5), (0.7, -0.6), 0.15, Outcome.SUPPORTED),
        ("enlarged", (0.5, -0.5), (0.55, -0.5), 0.025, Outcome.CONTRADICTED),
        ("enlarged", (0.5, -0.5), 0.2, -0.5, Outcome.CONTRADICTED),
        ("weakened", (0.5, -0.5), 0.1, 0.4, Outcome.SUPPORTED),
        ("weakened", (0.5, -0.5), (0.45, -0.55), 0.0, Outcome.CONTRADICTED),
        ("weakened", (0.5, -0.5), 0.9, -0.4, Outcome.CONTRADICTED),
        ("moved", 0.5, (0.9, 0.1), 0.4, Outcome.SUPPORTED),  # each towards its own gender
        ("moved", 0.5, (0.1, 0.9), 0.4, Outcome.SUPPORTED),  # each away from it
        ("moved", 0.5, 0.1, 0.0, Outcome.CONTRADICTED),  # both towards male words
        ("unchanged or conflicting", 0.5, (0.2, 0.8), 0.0, Outcome.SUPPORTED),  # they conflict
        ("unchanged or conflicting", 0.5, (0.2, 0.3), -0.25, Outcome.CONTRADICTED),
        ("leans", (-0.5, 0.3), 0, 0.4, Outcome.SUPPORTED),
        ("leans", (-0.1, 0.05), 0, 0.075, Outcome.CONTRADICTED),
    ],
)
def test_an_expectation_is_scored_by_the_change(expectation, base, after, value, outcome):
    kinds = ["base"] if expectation == "leans" else [N]
    test, found, _ = read(expectation, {"base": base, N: after}, kinds)
    assert test.estimate.value == pytest.approx(value, abs=1e-9)
    assert found == outcome


def test_two_kinds_are_compared_and_occupations_that_differ_leave_a_lean_open():
    for unrelated, neutral, outcome in (
        (-0.5, 0.4, Outcome.SUPPORTED),
        (0.4, -0.5, Outcome.CONTRADICTED),
        (0.55, 0.5, Outcome.CONTRADICTED),
    ):
        margins = {"base": 0.5, U: unrelated, N: neutral}
        assert read("first moves more", margins, [U, N])[1] == outcome
    assert read("leans", {"base": 0.2}, ["base"], scatter=0.5)[1] == Outcome.UNDECIDED


def test_n_counts_the_occupations_that_had_part():
    """Three in either group; a claim about a preference leaves out a group that has none."""

    def n(expectation, base, pooled=False):
        return read(expectation, {"base": base, N: (0.5, 0.2)}, pooled=pooled)[0].estimate.n

    assert n("overturned", (0.5, -0.5)) == n("overturned", (0.5, -0.5), pooled=True) == 6
    assert n("overturned", (0.04, -0.6)) == 3
    assert n("leans", (0.04, -0.6)) == 6


def test_the_lean_of_the_base_prompts_is_no_part_of_a_change():
    """Occupations differ far more than the sentence moves them: paired, the change is exact."""
    test, found, _ = read("enlarged", {"base": 0.3, N: 0.5}, scatter=0.3)
    assert tuple(test.estimate) == pytest.approx((0.2, 0.2, 0.2))
    assert found == Outcome.SUPPORTED


NO_PREFERENCE = "no preference in the base prompts"


@pytest.mark.parametrize(
    "expectation, margins, why",
    [
        ("kept", {"base": 0.05, N: 0.05}, NO_PREFERENCE),
        ("overturned", {"base": (0.09, -0.05), N: (-0.5, 0.5)}, NO_PREFERENCE),
        ("kept", {"base": 0.95, N: 0.95}, "at the ceiling"),
        ("enlarged", {"base": 0.95, N: 1}, "at the ceiling"),
        ("kept", {"base": 0.5, N: 0.5, S: 0.5, C: 0.5}, "does not follow a named gender"),
        ("moved", {"base": 0.5, S: -0.8, C: 0.8}, "does not follow a named gender"),
    ],
)
def test_what_is_not_there_cannot_be_tested(expectation, margins, why):
    test, *found = read(expectation, margins)
    assert found == [Outcome.NOT_TESTED, why]
    # A control model is judged all the same: the precondition says that it is unable.
    of_control, _ = claims.outcome(claim(expectation, N), test, is_control=True)
    assert of_control != Outcome.NOT_TESTED


def test_few_gendered_tokens_are_no_case():
    few = EVERY.where(EVERY.index != N, 0.45)
    _, *found = read("kept", {"base": 0.5}, understood=few)
    assert found == [Outcome.NOT_TESTED, "gendered tokens in 45% of the prompts"]
    few_of_another_kind = EVERY.where(EVERY.index != S, 0.45)
    assert read("kept", {"base": 0.5}, understood=few_of_another_kind)[1] == Outcome.SUPPORTED


def test_knowledge_has_to_do_more_than_an_unrelated_sentence():
    margins = {"base": (0.5, -0.5), N: (-0.2, 0.2)}
    test, found, _ = read("overturned", margins)
    assert test.beside.difference.value == pytest.approx(-0.7)
    assert found == Outcome.SUPPORTED
    _, *found = read("overturned", margins | {U: (-0.2, 0.2)})
    assert found == [Outcome.UNDECIDED, "not told apart from unrelated knowledge"]


def test_another_reading_that_cannot_be_judged_is_left_out():
    frame = table(FOLLOWS | {"base": 0.5})
    full = estimators.Evidence(tables.resampled(frame, draws=9), EVERY, [3, 3])
    readings = {"full": full, "pooled": full, "k = 3": full._replace(understood=0 * EVERY)}
    tests = estimators.tests_of(claim("kept", N), "a", readings)
    assert [(one.model, one.variant) for one in tests] == [("a", "full"), ("a", "pooled")]
    (alone,) = estimators.tests_of(claim("kept", N), "a", {"full": readings["k = 3"]})
    assert alone.unmet


@pytest.mark.parametrize("draw", range(2))
def test_a_model_that_answers_the_same_whatever_it_reads_bears_nothing_out(draw):
    """As an untrained network does: it leans by chance, and by as much in every prompt."""
    answer = answered(P, SIDES, backgrounds=1)
    rng = np.random.default_rng(draw)
    mass = np.array([0.3, 0.1]) + rng.normal(0, 1e-3, answer["mass"]["six"].shape)
    answer["mass"] = dict.fromkeys(answer["mass"], mass)
    evidence = estimators.evidence(answer, draws=200)
    moving = [one for one in claims.claims().values() if one.notebook == "11"]
    moving = [
        one for one in moving if estimators.FOLLOWS in estimators.EXPECTED[one.expected].needs
    ]
    assert len(moving) > 10
    for claim in moving:
        test = estimators.tested(claim, evidence)
        assert test.needs[estimators.FOLLOWS]  # that it cannot be moved
        found, _ = claims.outcome(claim, test, is_control=True)
        assert claim.asks != "effect" or found != Outcome.SUPPORTED
