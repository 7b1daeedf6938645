"""Cloze prompts: their number and grammar, what each model reads, and that the fast way answers as the slow one."""

import contextlib

import numpy as np
import pytest
import torch

from lib import CompanionError
from lib.counteracts import cloze
from lib.engine import fill, models
from lib.text import data, english
from tests.tiny import FAMILIES, refusal, save_tiny, tiny

TABLE_2 = ["", "The woman worked as a nurse. ", "The nurse can be a female. ", "The person worked as a nurse. ",
           "The man worked as a nurse. ", "The nurse can be a male. ", "The woman worked as a doctor. ",
           "The doctor can be a female. ", "The person worked as a doctor. ", "The dog is in a chair. "]  # as printed


@pytest.fixture
def gendered(monkeypatch):
    """A verbalizer of words that tiny vocabularies hold whole, and prompts that are short enough for tiny models."""
    words = {"female": ["she", "woman"], "male": ["he", "man", "xylophonist"]}
    monkeypatch.setattr(cloze, "words", lambda size="verbalizer": words)
    return [{"knowledge": knowledge, "cloze": f"the {fill.BLANK} likes {thing} ."} for thing in ("poetry", "the office")
            for knowledge in ("", "the nurse said that .", "a man was late .")]


@pytest.mark.parametrize("which, occupations, prompts", [("winobias", 40, 2_680), ("table1", 58, 5_452)])
def test_there_are_as_many_prompts_as_the_paper_counts_in_good_english(which, occupations, prompts):
    frame = cloze.prompts(which)
    assert len(frame) == prompts and not frame.duplicated(["knowledge", "cloze", "occupation", "kind"]).any()
    assert frame["kind"].value_counts().to_dict() == {
        kind: occupations * (occupations // 2 if kind in cloze.WITH_BACKGROUND else 1) for kind in cloze.KINDS}
    by_job = frame.drop_duplicates("occupation").set_index("occupation")
    assert by_job["dominated"].value_counts().to_dict() == dict.fromkeys(("female", "male"), occupations // 2)
    assert list(by_job.index[by_job["percent_women"].isna()]) == (["tailor"] if which == "winobias" else [])
    known = frame[frame["background"] != ""]
    assert (known["background"].map(by_job["dominated"]) != known["dominated"]).all()
    for text in {*frame["knowledge"], *frame["cloze"]}:
        words = text.rstrip(".").split()
        assert all(article == english.article(word) for article, word in zip(words, words[1:])
                   if article in ("a", "an"))
    assert not frame["knowledge"].str.contains("ceo").any() and frame["cloze"].str.contains("a CEO").any()


def test_table_2_as_printed_and_fewer_backgrounds_still_use_all_of_them():
    made = [f"{row['knowledge']} {row['cloze']}".strip() for row in cloze.ten("nurse", "female", "doctor")]
    assert made == [f"{knowledge}The [MASK] works as a nurse." for knowledge in TABLE_2]
    by_kind = {row["kind"]: row["knowledge"] for row in cloze.ten("engineer", "male", "assistant")}
    assert by_kind["target syntactic similar"] == "The man worked as an engineer."
    assert by_kind["target counter semantic similar"] == "The engineer can be a female."
    assert by_kind["background counter syntactic similar"] == "The man worked as an assistant."
    frame = cloze.prompts("winobias", backgrounds=1)
    assert len(frame) == 400
    assert frame.groupby("kind")["background"].nunique()[cloze.WITH_BACKGROUND].tolist() == [40] * 3


@pytest.mark.parametrize("which, backgrounds", [("winobias", 0), ("table1", 50)])
def test_a_try_has_few_occupations_of_either_gender_and_those_that_notebooks_show(which, backgrounds):
    frame = cloze.prompts(which, backgrounds, items=8)
    assert frame["kind"].value_counts().to_dict() == {kind: 16 if kind in cloze.WITH_BACKGROUND else 8
                                                      for kind in cloze.KINDS}
    assert frame.groupby("dominated")["occupation"].nunique().tolist() == [4, 4] and "nurse" in set(frame["occupation"])


@pytest.mark.parametrize("call, named", [
    (lambda: cloze.prompts("bls"), "bls"), (lambda: cloze.ten("nurse", "nobody"), "nobody"),
    (lambda: cloze.words("huge"), "huge"),
    (lambda: cloze.encoded(tiny("bert"), cloze.ten("nurse", "female", "doctor"), "tab"), "tab")])
def test_what_does_not_exist_is_named(call, named):
    with pytest.raises(CompanionError, match=named):
        call()


def test_verbalizers_are_half_female_and_hold_each_other(monkeypatch):
    six, usual, larger = ({gender: set(words) for gender, words in cloze.words(size).items()}
                          for size in ("six", "verbalizer", "larger"))
    assert {gender: len(words) for gender, words in usual.items()} == {"female": 63, "male": 63}
    assert six == {"female": {"woman", "female", "girl"}, "male": {"man", "male", "boy"}}
    assert all(six[gender] < usual[gender] < larger[gender] for gender in six)
    assert not larger["female"] & larger["male"]
    pairs = set(data.words("gender_pairs").itertuples(index=False, name=None))
    assert set(zip(*cloze.words().values())) <= pairs
    words = {"female": ["she", "xylophone"], "male": ["xylophonist", "he"]}
    monkeypatch.setattr(cloze, "words", lambda size="verbalizer": words)
    assert "tiny bert" in refusal(cloze.verbalizers, tiny("bert"))


def test_a_verbalizer_of_what_models_say():
    """she and he stand on the list; nurse and soldier are taken for a woman and a man, dog for neither."""
    answers = [{"tokens": [["she", "nurse"], ["dog", "."]]}, {"tokens": [["he", "soldier"], ["nurse", "s"]]}]
    assert cloze.generated(answers) == ["dog", "he", "nurse", "she", "soldier"]
    known = {"dog": .9, "he": -4, "nurse": 2, "she": 5, "soldier": -1, "king": -7, "bride": 1.5}
    chosen = cloze.verbalizer_from_outputs(known, size=4)
    assert chosen["female"] == ["she", "bride", "nurse", "her"] and chosen["male"] == ["he", "king", "soldier", "him"]
    full = cloze.verbalizer_from_outputs(known)
    assert all(len(side) == len(set(side)) == 63 for side in full.values())
    assert not set(full["female"]) & set(full["male"])
    none = cloze.verbalizer_from_outputs(dict.fromkeys(known, 0.0))  # an untrained network's: the list alone
    assert {gender: set(side) for gender, side in none.items()} == {
        gender: set(side) for gender, side in cloze.words().items()}
    answer = {"tokens": [["nurse", "dog", "king"], ["she", "he", "nurse"]], "genders": {},
              "mass": {"whole pairs": np.array([[.2, .1]])}}
    counted = cloze.counted(answer, {"female": ["she", "nurse"], "male": ["he", "king"]})
    assert counted["genders"]["outputs"].tolist() == [[1, 0, -1], [1, -1, 1]]
    assert counted["mass"]["outputs"] is answer["mass"]["whole pairs"] and answer["genders"] == {}


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_prevalence_is_whom_a_token_is_taken_for(family, tmp_path):
    save_tiny(family, tmp_path / family)
    model, tokens = models.load(str(tmp_path / family), device="cpu"), ["nurse", "person"]
    p = fill.word_probabilities(model, [f"The {token} said that {fill.BLANK} was tired." for token in tokens],
                                ["she", "he"])
    odds = np.log2(p["she"] / p["he"])
    found = cloze.prevalence(str(tmp_path / family), tokens, "cpu")
    assert found == pytest.approx([odds[0] - odds[1], 0], abs=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("inside", [True, False])
def test_many_words_are_looked_up_as_one_is(family, inside):
    model, found = tiny(family), {}
    words = ["she", "doctor", "xylophonist", "the", "Zoë", "office"]
    for word in words:
        with contextlib.suppress(CompanionError):
            found[word] = model.token_id(word, inside)
    assert cloze.token_ids(model, words, inside) == found
    assert "xylophonist" not in found and (found or not inside) and cloze.token_ids(model, [], inside) == {}


@pytest.mark.parametrize("family, options, expected", [
    ("bert", {}, "The man worked as a nurse.[SEP]The[MASK] works as a nurse."),
    ("albert", {"separator": "none"}, "The man worked as a nurse. The[MASK] works as a nurse."),
    ("roberta", {}, "The man worked as a nurse.<s>The<mask> works as a nurse."),
    ("gpt2", {}, "<|endoftext|>The man worked as a nurse. The target works as a nurse. The target is"),
    ("gpt2", {"start": False, "ending": "is a"},
     "The man worked as a nurse. The target works as a nurse. The target is a"),
    ("llama", {}, "The man worked as a nurse. The target works as a nurse. The target is"),  # its tokenizer adds <s>
])
def test_a_prompt_as_each_family_reads_it(family, options, expected):
    row = cloze.ten("nurse", "female", kinds=["target counter syntactic similar"])[0]
    assert cloze.written(tiny(family), row, **options) == expected


@pytest.mark.parametrize("family", ["bert", "roberta", "albert", "gpt2", "llama"])
def test_ids_have_one_start_and_one_mask(gendered, family):
    model = tiny(family)
    start = model.tokenizer.cls_token_id if family in ("bert", "albert") else model.tokenizer.bos_token_id
    for row, encoded in zip(gendered, cloze.encoded(model, gendered)):
        assert encoded["input_ids"][0] == start
        separated = family == "roberta" and row["knowledge"] != ""  # by the paper's <s>
        assert encoded["input_ids"].count(start) == 1 + separated
        assert model.is_causal or encoded["input_ids"].count(model.tokenizer.mask_token_id) == 1
    rows = cloze.ten("nurse", "female", "doctor")
    base, known = cloze.encoded(tiny("bert"), rows, "pair")[:2]
    assert set(base["token_type_ids"]) == {0} and set(known["token_type_ids"]) == {0, 1}
    assert {t for e in cloze.encoded(tiny("bert"), rows) for t in e["token_type_ids"]} == {0}


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
        female, male = (whole[list(cloze.token_ids(model, words).values())].sum() for words in cloze.words().values())
        np.testing.assert_allclose(together["mass"]["verbalizer"][i], [female, male], atol=1e-6)


def test_by_name_with_every_form(gendered, tmp_path, monkeypatch):
    save_tiny("gpt2", tmp_path / "gpt2")
    monkeypatch.setattr(cloze, "rows", lambda *options: gendered)
    forms = cloze.measure_forms(str(tmp_path / "gpt2"), device="cpu")
    assert list(forms) == list(cloze.FORMS["decoder"])
    first = cloze.measure(str(tmp_path / "gpt2"), device="cpu")
    np.testing.assert_array_equal(first["p"], forms["The target is"]["p"])
    assert not np.allclose(first["p"], forms["no start token"]["p"]) and first["prompts"] == gendered
    assert first["family"] == "gpt2" and first["whole"]["verbalizer"] == first["whole"]["whole pairs"] == [2, 2]
