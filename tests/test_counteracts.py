"""Counteracts: its prompts, what models read and answer; tables and claims by hand."""

import contextlib
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
import torch

from companion import claims
from companion.claims import Outcome
from companion.counteracts import estimators, tables
from lib import CompanionError
from lib.counteracts import cloze
from lib.engine import fill, models
from lib.text import data, english, factual
from tests.tiny import FAMILIES, refusal, refuses, save_tiny, tiny

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


@pytest.fixture
def gendered(monkeypatch):
    """A verbalizer of words that are tokens of tiny vocabularies, and prompts for tiny models."""
    words = {"female": ["she", "woman"], "male": ["he", "man", "xylophonist"]}
    monkeypatch.setattr(cloze, "words", lambda size="verbalizer": words)
    return [
        {"knowledge": knowledge, "cloze": f"the {fill.BLANK} likes {thing} ."}
        for thing in ("poetry", "the office")
        for knowledge in ("", "the nurse said that .", "a man was late .")
    ]


@pytest.mark.parametrize(
    "which, occupations, prompts", [("winobias", 40, 2_680), ("table1", 58, 5_452)]
)
def test_there_are_as_many_prompts_as_the_paper_counts_in_good_english(which, occupations, prompts):
    frame = cloze.prompts(which)
    assert len(frame) == prompts
    assert not frame.duplicated(["knowledge", "cloze", "occupation", "kind"]).any()
    counts = dict.fromkeys(cloze.KINDS, occupations)
    counts |= dict.fromkeys(cloze.WITH_BACKGROUND, occupations * occupations // 2)
    assert frame["kind"].value_counts().to_dict() == counts
    by_job = frame.drop_duplicates("occupation").set_index("occupation")
    assert by_job["dominated"].value_counts().to_dict() == dict.fromkeys(
        ("female", "male"), occupations // 2
    )
    assert list(by_job.index[by_job["percent_women"].isna()]) == (
        ["tailor"] if which == "winobias" else []
    )
    known = frame[frame["background"] != ""]
    assert (known["background"].map(by_job["dominated"]) != known["dominated"]).all()
    for text in {*frame["knowledge"], *frame["cloze"]}:
        words = text.rstrip(".").split()
        for article, word in zip(words, words[1:]):
            if article in ("a", "an"):
                assert article == english.article(word)
    assert not frame["knowledge"].str.contains("ceo").any()
    assert frame["cloze"].str.contains("a CEO").any()


@pytest.mark.parametrize("which", ["winobias", "table1"])
def test_a_try_has_few_prompts_of_either_gender_and_those_that_notebooks_show(which):
    few = cloze.prompts(which, 50, items=8)
    counts = dict.fromkeys(cloze.KINDS, 8) | dict.fromkeys(cloze.WITH_BACKGROUND, 16)
    assert few["kind"].value_counts().to_dict() == counts
    assert few.groupby("dominated")["occupation"].nunique().tolist() == [4, 4]
    assert "nurse" in set(few["occupation"])


def test_table_2_as_printed_and_fewer_backgrounds_still_use_all_of_them():
    made = [
        f"{row['knowledge']} {row['cloze']}".strip()
        for row in cloze.ten("nurse", "female", "doctor")
    ]
    assert made == [f"{knowledge}The [MASK] works as a nurse." for knowledge in TABLE_2]
    made = {row["knowledge"] for row in cloze.ten("engineer", "male", "assistant")}
    assert {
        "The man worked as an engineer.",
        "The engineer can be a female.",
        "The man worked as an assistant.",
    } < made
    frame = cloze.prompts("winobias", backgrounds=1)
    assert len(frame) == 400
    assert frame.groupby("kind")["background"].nunique()[cloze.WITH_BACKGROUND].tolist() == [40] * 3


test_what_does_not_exist_is_named = refuses(
    (lambda: cloze.prompts("bls"), "bls"),
    (lambda: cloze.ten("nurse", "nobody"), "nobody"),
    (lambda: cloze.words("huge"), "huge"),
    (lambda: cloze.encoded(tiny("bert"), cloze.ten("nurse", "female", "doctor"), "tab"), "tab"),
)


def test_verbalizers_are_half_female_and_hold_each_other(monkeypatch):
    six = {gender: set(words) for gender, words in cloze.words("six").items()}
    usual = {gender: set(words) for gender, words in cloze.words("verbalizer").items()}
    larger = {gender: set(words) for gender, words in cloze.words("larger").items()}
    assert six == {"female": {"woman", "female", "girl"}, "male": {"man", "male", "boy"}}
    for gender in ("female", "male"):
        assert six[gender] < usual[gender] < larger[gender]
        assert len(usual[gender]) == 63
    assert not larger["female"] & larger["male"]
    pairs = set(data.words("gender_pairs").itertuples(index=False, name=None))
    assert set(zip(*cloze.words().values())) <= pairs
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
    assert all(len(side) == len(set(side)) == 63 for side in full.values())
    assert not set(full["female"]) & set(full["male"])
    # An untrained network's: the list alone.
    none = cloze.verbalizer_from_outputs(dict.fromkeys(known, 0.0))
    for gender, listed in cloze.words().items():
        assert set(none[gender]) == set(listed)
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


@pytest.mark.parametrize("family", FAMILIES)
def test_many_words_are_looked_up_as_one_is(family):
    model = tiny(family)
    words = ["she", "doctor", "xylophonist", "the", "Zoë", "office"]
    for inside in (True, False):
        found = {}
        for word in words:
            with contextlib.suppress(CompanionError):
                found[word] = model.token_id(word, inside)
        assert cloze.token_ids(model, words, inside) == found
        assert cloze.token_ids(model, [], inside) == {}
        assert "xylophonist" not in found
        assert found or not inside


@pytest.mark.parametrize(
    "family, options, expected",
    [
        ("bert", {}, "The man worked as a nurse.[SEP]The[MASK] works as a nurse."),
        ("albert", {"separator": "none"}, "The man worked as a nurse. The[MASK] works as a nurse."),
        ("roberta", {}, "The man worked as a nurse.<s>The<mask> works as a nurse."),
        (
            "gpt2",
            {},
            "<|endoftext|>The man worked as a nurse. The target works as a nurse. The target is",
        ),
        (
            "gpt2",
            {"start": False, "ending": "is a"},
            "The man worked as a nurse. The target works as a nurse. The target is a",
        ),
        ("llama", {}, "The man worked as a nurse. The target works as a nurse. The target is"),
    ],
)  # its tokenizer adds <s>
def test_a_prompt_as_each_family_reads_it(family, options, expected):
    row = cloze.ten("nurse", "female", kinds=["target counter syntactic similar"])[0]
    assert cloze.written(tiny(family), row, **options) == expected


@pytest.mark.parametrize("family", ["bert", "roberta", "albert", "gpt2", "llama"])
def test_ids_have_one_start_and_one_mask(gendered, family):
    model = tiny(family)
    start = (
        model.tokenizer.cls_token_id
        if family in ("bert", "albert")
        else model.tokenizer.bos_token_id
    )
    for row, encoded in zip(gendered, cloze.encoded(model, gendered)):
        assert encoded["input_ids"][0] == start
        separated = family == "roberta" and row["knowledge"] != ""  # by the paper's <s>
        assert encoded["input_ids"].count(start) == 1 + separated
        assert model.is_causal or encoded["input_ids"].count(model.tokenizer.mask_token_id) == 1
    base, known = cloze.encoded(tiny("bert"), cloze.ten("nurse", "female", "doctor"), "pair")[:2]
    assert set(base["token_type_ids"]) == {0} and set(known["token_type_ids"]) == {0, 1}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_batch_answers_as_one_prompt_at_a_time_and_as_the_whole_distribution(gendered, family):
    model = tiny(family)
    encoded = cloze.encoded(model, gendered)
    together = cloze.answer(model, encoded)
    for i, prompt in enumerate(encoded):
        alone = cloze.answer(model, [prompt])
        np.testing.assert_allclose(together["p"][i], alone["p"][0], atol=1e-6)
        with torch.inference_mode():
            out = model.net(**{name: torch.tensor([values]) for name, values in prompt.items()})
        logits = out.prediction_logits if "prediction_logits" in out else out.logits
        place = -1 if model.is_causal else prompt["input_ids"].index(model.tokenizer.mask_token_id)
        whole = logits[0, place].softmax(-1).numpy()
        np.testing.assert_allclose(together["p"][i], np.sort(whole)[::-1][:10], atol=1e-6)
        mass = []
        for words in cloze.words().values():
            ids = list(cloze.token_ids(model, words).values())
            mass.append(whole[ids].sum())
        np.testing.assert_allclose(together["mass"]["verbalizer"][i], mass, atol=1e-6)


def test_one_answer_serves_both_lists_of_occupations(gendered):
    def texts(which, backgrounds):
        return {(row["knowledge"], row["cloze"]) for row in cloze.rows(which, backgrounds)}

    both = texts("both", 3)
    assert texts("winobias", 0) | texts("table1", 3) == both
    assert len(cloze.rows("both", 3)) == len(both) == 3_114
    model = tiny("bert")
    some = gendered[:0:-2]
    assert len(some) > 1
    whole = cloze.answer(model, cloze.encoded(model, gendered))
    whole |= {"family": "bert", "prompts": gendered}
    part = cloze.part(whole, some)
    alone = cloze.answer(model, cloze.encoded(model, some))
    assert part["prompts"] == some
    assert part["tokens"] == alone["tokens"]
    assert part["family"] == "bert"
    for key in ("p", "ids"):
        np.testing.assert_allclose(part[key], alone[key], atol=1e-6)
    for key, name in product(("genders", "mass"), alone["mass"]):
        np.testing.assert_allclose(part[key][name], alone[key][name], atol=1e-6)


KINDS = list(cloze.KINDS)


def table(margins: dict, scatter: float = 0.0):
    """As by_occupation gives it, with three occupations a group.

    margins   by kind: one for both groups, or (female-dominated, male-dominated)
    """
    rows = []
    for (group, dominated), i, kind in product(enumerate(("female", "male")), range(3), KINDS):
        margin = np.broadcast_to(margins.get(kind, margins["base"]), 2)[group] + scatter * (i - 1)
        rows.append(
            (
                dominated,
                f"{dominated} {i}",
                20 + 10 * i + 30 * group,
                kind,
                0.1 + 0.1 * margin,
                0.1 - 0.1 * margin,
            )
        )
    frame = pd.DataFrame(
        rows, columns=["dominated", "occupation", "percent_women", "kind", "female", "male"]
    )
    return frame.assign(kind=pd.Categorical(frame["kind"], KINDS))


def answered(p, genders, mass=(0.2, 0.1), family="bert", backgrounds=0):
    """As cloze.measure gives it, with the same row for every prompt of winobias.

    genders   1 female, -1 male, 0 neither
    """
    prompts = cloze.rows("winobias", backgrounds)
    n = len(prompts)

    def for_every_prompt(row):
        return np.tile(np.asarray(row), (n, 1))

    names = ("outputs", "verbalizer", "six", "larger", "whole pairs", "no space", "either")
    return {
        "family": family,
        "prompts": prompts,
        "p": for_every_prompt(p),
        "ids": for_every_prompt(range(len(p))),
        "tokens": [list("abcdefghij")] * n,
        "whole": dict.fromkeys(names, [3, 4]),
        "genders": dict.fromkeys(names, for_every_prompt(genders)),
        "mass": dict.fromkeys(names, for_every_prompt(mass)),
    }


P = [0.3, 0.2, 0.1, 0.05, 0.04, 0.03, 0.02, 0.01, 0.01, 0.01]
SIDES = [0, 1, -1, 1, 0, 0, 0, 0, 0, -1]


@pytest.mark.parametrize(
    "k, female, male", [(3, 0.2, 0.1), (5, 0.25, 0.1), (10, 0.25, 0.11), (0, 0.2, 0.1)]
)
def test_female_and_male_probability_of_the_top_k(k, female, male):
    rows = tables.by_occupation(answered(P, SIDES), k)
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
    answer = answered(P, SIDES)
    assert tables.understood(answer, 3).eq(1).all()
    assert tables.understood(answer, 0).eq(1).all()
    genders = answer["genders"]["outputs"].copy()
    is_base = prompts["kind"] == "base"
    is_of_men = prompts["dominated"] == "male"
    genders[is_base & is_of_men & (prompts["occupation"] != "chief")] = 0
    answer["genders"] = {"outputs": genders}
    assert tables.understood(answer, 3)["base"] == 1 / 20
    assert tables.understood(answer, 3)[N] == 1
    assert tables.understood(answer, 1).eq(0).all()  # the likeliest token is neither


@pytest.mark.parametrize(
    "base, after, change",
    [
        (0.5, 0.8, "enlarged"),
        (-0.5, -0.8, "enlarged"),
        (0.5, 0.58, "kept"),
        (0.5, 0.2, "weakened"),
        (-0.5, -0.2, "weakened"),
        (0.5, -0.1, "overturned"),
        (-0.02, 0.03, "overturned"),
        (np.nan, 0.5, "no gendered token"),
    ],
)
def test_a_change_of_preference(base, after, change):
    assert tables.change(base, after) == change


def test_shares_and_slopes_by_hand():
    shares = tables.shares(table({"base": 0.4, "unrelated": (0.4, -0.4), "target neutral": 0.9}))
    wide = shares.pivot(index="kind", columns="change", values="value")
    assert wide.loc["unrelated", "overturned"] == 0.5
    assert wide.loc["target neutral", "enlarged"] == 1
    assert np.allclose(wide.sum(axis=1), 1)
    frame = table({"base": 0.4})
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
    assert set(ratios["token"]) == {"b"}
    assert set(ratios["gender"]) == {"female"}
    assert tables.relative(answer, k=1).empty
    means = tables.relative_means(ratios)
    unrelated = means.loc["unrelated", [("ratio", "female"), ("tokens", "female")]]
    assert unrelated.tolist() == pytest.approx([2, 40])
    # An untrained network may share no token.
    none = tables.relative_means(tables.relative(answer, k=1))
    assert none.shape == means.shape
    assert none["ratio"].isna().all(axis=None)
    assert not none["tokens"].any(axis=None)
    # The mean over occupations: all ratios are 2. One occupation has no interval.
    mean = tables.mean_ratio(ratios[ratios["kind"] == "unrelated"])
    assert (list(mean), mean.n) == (pytest.approx([2, 2, 2]), 40)
    one = tables.mean_ratio(ratios[ratios["occupation"] == "nurse"])
    assert one.value == pytest.approx(2)
    assert not one.has_interval


def test_which_gender_is_followed_and_named_by_hand():
    frame = table(
        {"base": 0.0, estimators.SYNTACTIC: (0.5, -0.5), estimators.COUNTER_SYNTACTIC: 0.5}
    )
    follows = tables.follows(frame)
    assert follows["names"].tolist() == ["its own"] * 2 + ["the other"] * 2 + ["its own"] * 2
    assert follows.loc[estimators.SYNTACTIC, "share"].value == 1
    assert (
        follows.loc[estimators.COUNTER_SYNTACTIC, "share"].value == 0.5
    )  # men's occupations alone
    odds = {before: np.full(4, float(place)) for place, before in enumerate(cloze.FACTS)}
    named = {who: values.tolist() for who, values in tables.by_named_gender(odds).items()}
    assert named == {
        "nothing": [0, 0, 0, 0],
        "a person": [3, 4, 3, 4],
        "its own gender": [2, 1, 2, 1],  # the woman, the man
        "the other gender": [1, 2, 1, 2],
    }


def test_what_the_verbalizer_covers():
    covered = tables.coverage(answered([0.3, 0.2, 0.1, 0.05], [0, 0, 0, 1]))
    assert (covered["female words"], covered["male words"]) == (3, 4)
    assert covered["mass"] == pytest.approx(0.3)
    assert (covered["top 3: outputs"], covered["top 5: outputs"]) == (0, 1)
    assert (covered["base, top 3"], covered["base, top 5"]) == (0, 1)


U = "unrelated"
N = "target neutral"
S = estimators.SYNTACTIC
C = estimators.COUNTER_SYNTACTIC
# The margin follows whoever is named: a model that can be moved.
FOLLOWS = {S: (0.8, -0.8), C: (-0.8, 0.8)}
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


@pytest.mark.parametrize(
    "expectation, base, after, value, outcome",
    [  # margins of occupations of women and of men
        ("kept", 0.5, (0.55, 0.49), 0.02, Outcome.SUPPORTED),
        ("kept", 0.5, (0.45, 0.2), -0.175, Outcome.CONTRADICTED),
        ("overturned", (0.5, -0.5), (-0.1, 0.1), -0.1, Outcome.SUPPORTED),
        ("overturned", (0.5, -0.5), (0.1, -0.2), 0.15, Outcome.CONTRADICTED),
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
    ],
)
def test_an_expectation_is_scored_by_the_change(expectation, base, after, value, outcome):
    test, found, _ = read(expectation, {"base": base, N: after})
    assert test.estimate.value == pytest.approx(value, abs=1e-9)
    assert found == outcome


def test_expectations_of_the_base_prompts_and_of_two_kinds():
    for base, outcome in ((-0.5, 0.3), Outcome.SUPPORTED), ((-0.1, 0.05), Outcome.CONTRADICTED):
        assert read("leans", {"base": base}, ["base"])[1] == outcome
    assert read("leans", {"base": 0.2}, ["base"], scatter=0.5)[1] == Outcome.UNDECIDED
    for unrelated, neutral, outcome in (
        (-0.5, 0.4, Outcome.SUPPORTED),
        (0.4, -0.5, Outcome.CONTRADICTED),
        (0.55, 0.5, Outcome.CONTRADICTED),
    ):
        margins = {"base": 0.5, U: unrelated, N: neutral}
        assert read("first moves more", margins, [U, N])[1] == outcome


def test_a_group_without_a_preference_is_no_part_of_a_claim_about_one():
    """Occupations of women lean by a hair: which way is luck, and what becomes of it says nothing."""
    for hair in (0.04, -0.04):
        test, found, _ = read("overturned", {"base": (hair, -0.6), N: (0.5, 0.2)})
        assert test.estimate.value == pytest.approx(-0.2)
        assert found == Outcome.SUPPORTED


@pytest.mark.parametrize(
    "expectation, base, pooled, n",
    [  # three occupations a group
        ("overturned", (0.5, -0.5), False, 6),
        ("overturned", (0.04, -0.6), False, 3),
        ("overturned", (0.5, -0.5), True, 6),
        ("leans", (0.04, -0.6), False, 6),  # not of a preference
    ],
)
def test_n_counts_the_occupations_that_had_part(expectation, base, pooled, n):
    test, _, _ = read(expectation, {"base": base, N: (0.5, 0.2)}, pooled=pooled)
    assert test.estimate.n == n
    assert not test.beside or test.beside.estimate.n == n


def test_the_lean_of_the_base_prompts_is_no_part_of_a_change():
    """Occupations differ far more than the sentence moves them: paired, the change is exact."""
    test, found, _ = read("enlarged", {"base": 0.3, N: 0.5}, scatter=0.3)
    assert tuple(test.estimate) == pytest.approx((0.2, 0.2, 0.2))
    assert found == Outcome.SUPPORTED


@pytest.mark.parametrize(
    "expectation, margins, why",
    [
        ("kept", {"base": 0.05, N: 0.05}, "no preference in the base prompts"),
        (
            "overturned",
            {"base": (0.09, -0.05), N: (-0.5, 0.5)},
            "no preference in the base prompts",
        ),
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
    _, found, _ = read("kept", {"base": 0.5}, understood=few_of_another_kind)
    assert found == Outcome.SUPPORTED


def test_knowledge_has_to_do_more_than_an_unrelated_sentence():
    margins = {"base": (0.5, -0.5), N: (-0.2, 0.2)}
    test, found, _ = read("overturned", margins)
    assert test.beside.difference.value == pytest.approx(-0.7)
    assert found == Outcome.SUPPORTED
    _, *found = read("overturned", margins | {U: (-0.2, 0.2)})
    assert found == [Outcome.UNDECIDED, "unrelated knowledge: as much"]


def test_another_reading_that_cannot_be_judged_is_left_out():
    frame = table(FOLLOWS | {"base": 0.5})
    full = estimators.Evidence(tables.resampled(frame, draws=9), EVERY, [3, 3])
    readings = {"full": full, "pooled": full, "k = 3": full._replace(understood=0 * EVERY)}
    tests = estimators.tests_of(claim("kept", N), "a", readings)
    assert [(one.model, one.variant) for one in tests] == [("a", "full"), ("a", "pooled")]
    (alone,) = estimators.tests_of(claim("kept", N), "a", {"full": readings["k = 3"]})
    assert alone.unmet


def test_choices_that_change_nothing_are_not_shown():
    answer = answered(P, SIDES, backgrounds=1)
    for words in ("larger", "no space", "either"):  # the three are alike, so the first is shown
        answer["mass"][words] = np.tile([0.1, 0.3], (len(answer["prompts"]), 1))
    shown = tables.forms({"paper": answer})
    assert list(shown.index) == ["paper", "paper; larger list"]
    np.testing.assert_allclose(shown.loc["paper; larger list"], -0.5)
    # a tokenizer that puts the start token there by itself has no form without it
    assert list(tables.distinct({"The target is": answer, "no start token": answer})) == [
        "The target is"
    ]
    other = answered(P, SIDES, mass=(0.1, 0.1), backgrounds=1)
    assert "no start token" in tables.distinct({"The target is": answer, "no start token": other})


def test_a_change_of_sign_near_0_is_no_preference_turned_round():
    margins = pd.DataFrame([[0.5, 0.05, -0.5], [0.4, -0.05, 0.05], [-0.2, 0.5, -0.3]])
    assert np.argwhere(tables.flips(margins).to_numpy()).tolist() == [[2, 0]]


def test_means_over_models_by_hand():
    """Two models: the first loses .4 of the pooled margin, the second .2, in every draw."""
    margins = []
    for after in (0.1, 0.3):
        frame = table({"base": (0.5, -0.5), U: (after, -after)})
        margins.append(tables.resampled(frame, pooled=True, draws=20))
    change, n = tables.mean_change(margins, U)
    assert (*change, n) == pytest.approx((-0.3, -0.3, -0.3, 2))
    assert tables.mean_change(margins, N)[1] == 0
    shares = [tables.shares(table({"base": 0.4, U: (after, -0.4)})) for after in (0.4, -0.4)]
    assert tables.overturned(shares)[U].value == 0.75
    silent = shares[0].assign(value=(shares[0]["change"] == tables.NO_TOKEN) * 1.0)
    assert tables.overturned([*shares, silent])[U].value == 0.75
    assert tables.overturned([silent]) == {}


@pytest.mark.parametrize("draw", range(2))
def test_a_model_that_answers_the_same_whatever_it_reads_bears_nothing_out(draw):
    """As an untrained network does: it leans by chance, and by as much in every prompt."""
    answer = answered(P, SIDES, backgrounds=1)
    rng = np.random.default_rng(draw)
    mass = np.array([0.3, 0.1]) + rng.normal(0, 1e-3, answer["mass"]["six"].shape)
    answer["mass"] = dict.fromkeys(answer["mass"], mass)
    answer["genders"] = dict.fromkeys(answer["genders"], 0 * answer["genders"]["six"])
    evidence = estimators.evidence(answer, draws=200)
    for claim in claims.claims().values():
        if claim.notebook != "11":
            continue
        test = estimators.tested(claim, evidence)
        if estimators.FOLLOWS in estimators.EXPECTED[claim.expected].needs:
            assert test.needs[estimators.FOLLOWS]  # that it cannot be moved
            if claim.asks == "effect":
                found, _ = claims.outcome(claim, test, is_control=True)
                assert found != Outcome.SUPPORTED


def test_claims_have_all_58_occupations_with_every_background_that_was_asked():
    """Nurse is in both lists: WinoBias' 20 backgrounds, and those of Table 1 that are none of them.
    Tailor is in WinoBias alone, and has no percentage.
    """
    table = pd.DataFrame(cloze.of_table1({"prompts": cloze.rows("both", 3)}))
    listed = list(dict.fromkeys(row["occupation"] for row in cloze.rows("table1", 1)))
    by_occupation = table.groupby("occupation", sort=False)
    assert list(by_occupation.groups) == listed and len(listed) == 58 and "tailor" not in listed
    assert by_occupation["percent_women"].nunique(dropna=False).eq(1).all()
    assert by_occupation["kind"].nunique().eq(10).all()
    assert by_occupation["kind"].first().eq("base").all()  # as tables.relative needs it
    assert not table.duplicated(["knowledge", "cloze"]).any()

    def backgrounds(rows):
        is_asked = (rows["occupation"] == "nurse") & (
            rows["kind"] == "target neutral background counter"
        )
        return set(rows.loc[is_asked, "background"])

    of_either = backgrounds(cloze.prompts()) | backgrounds(cloze.prompts("table1", 3))
    assert backgrounds(table) == of_either and len(of_either) > 20


def test_a_counterexample_is_put_before_all_200_pairs(monkeypatch):
    asked = []

    def log_odds(model, before, items, file):
        asked.append((before, file))
        return np.zeros(2)

    monkeypatch.setattr(factual, "log_odds", log_odds)
    monkeypatch.setattr(models, "load", lambda name, device=None: name)
    assert list(cloze.facts("any")) == cloze.FACTS
    assert asked == [(before, "factual_gender_200") for before in cloze.FACTS]
