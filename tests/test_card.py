"""A card for any model, one of each family end to end on tiny networks; how its rows are read; two
models side by side; what programs read; and what the papers presuppose of their models.
"""

import json
import os
from hashlib import sha256
from pathlib import Path

import jsonschema
import numpy as np
import pandas as pd
import pytest
import yaml
from huggingface_hub import parse_eval_result_entries
from markupsafe import escape

from companion import card, look
from companion.card import (
    every_eval,
    measures as card_measures,
    page as card_page,
    rows as card_rows,
)
from companion.card.measures import Card
from companion.card.rows import KINDS, Row, Sample
from lib import CompanionError, paths
from lib.bias_a_head import heads
from lib.engine import embed, fill, folders, models, stats
from lib.engine.stats import Estimate
from lib.text import contexts
from tests.tiny import COMMON, ENCODERS, FAMILIES, refusal, save_tiny

STORED = sorted((paths.FIGURES / "cards").glob("*.json"))


@pytest.fixture
def small(few_draws, monkeypatch, tmp_path):
    """Cards on few sentences, in a temporary folder."""
    for name, value in {"CONTEXTS": 2, "FOLDS": 2, "LINES": 3}.items():
        monkeypatch.setattr(card_measures, name, value)
    monkeypatch.setattr(card, "STORED", tmp_path / "cards")
    few = heads.sets_and_contexts("gender", heads.Sample("mini", 2, items=60))
    monkeypatch.setattr(heads, "sets_and_contexts", lambda *_: few)
    monkeypatch.setattr(paths, "BUILD", tmp_path / "build")
    monkeypatch.setattr(look, "odds_by_share", lambda ax, frame, title: ax.set(title=title))
    # the written sentences have up to a hundred pieces
    monkeypatch.setitem(COMMON, "max_position_embeddings", 160)
    return few


@pytest.fixture
def perplexity_alone(small, monkeypatch):
    monkeypatch.setattr(card_measures, "MEASURES", {"perplexity": card_measures.perplexity})


def numbers(page: Path) -> dict:
    return json.loads(page.with_suffix(".json").read_text())


# ---- whole cards
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_gets_a_page_and_its_numbers(family, small, tmp_path):
    save_tiny(family, tmp_path / family)
    page = card.write(str(tmp_path / family))
    found = numbers(page)
    check_record(found)
    about = found["model_info"]["additional_details"]
    assert about["family"] == family and about["revision"] in page.read_text()
    rows = every_eval.read(found).rows
    missing = json.loads(about["not_measured"])
    done = {row.kind.group for row in rows.values()}
    assert done | {one["measure"] for one in missing} == card_measures.MEASURES.keys()
    assert {"seat.mean", "seat.word", "heads.above-0"} < rows.keys() and "perplexity" in done
    assert ("seat.first" in rows) == (family in ENCODERS) == ("seat.last" not in rows)
    assert ("next sentences" in done) == (family == "bert")
    for row in rows.values():
        assert row.estimate.low <= row.estimate.high and row.estimate.n > 0
    text = page.read_text()
    assert all(escape(one["why"]) in text for one in missing)
    assert all(escape(row.kind.label) in text for row in rows.values())
    weights = (tmp_path / family / "model.safetensors").read_bytes()
    assert sha256(weights).hexdigest() in text


def test_an_encoder_without_a_head_is_measured_as_far_as_it_goes(small, tmp_path):
    model = save_tiny("bert", tmp_path / "whole")
    model.net.base_model.save_pretrained(tmp_path / "bare")
    model.tokenizer.save_pretrained(tmp_path / "bare")
    bare = every_eval.read(numbers(card.write(str(tmp_path / "bare")))).rows
    whole = every_eval.read(numbers(card.write(str(tmp_path / "whole")))).rows
    by_heads = {"heads.above-0", "heads.first.above-0", "heads.mean.above-0"}
    assert bare.keys() == {"seat.first", "seat.mean", "seat.word"} | by_heads
    assert bare.keys() - whole.keys() == by_heads - {"heads.above-0"}  # of sentence encoders alone
    for id in bare.keys() & whole.keys():
        assert list(bare[id].estimate) == pytest.approx(list(whole[id].estimate), abs=1e-4)
    text = card.write(str(tmp_path / "bare")).read_text()
    assert "no vocabulary head" in text and "Not measured" in text


# ---- models that answer everything alike
DEAD = {  # the family, how the names of zeroed weights begin, and what cannot be measured then
    "head": ("bert", "cls.predictions.transform.LayerNorm", ["occupations", "cloze"]),
    "norm": ("gpt2", "transformer.ln_f", ["occupations", "seat", "heads", "cloze"]),
    "all": ("bert", "", ["occupations", "seat", "heads", "next sentences", "cloze"]),
}


def save_dead(which: str, folder: Path):
    """A tiny model some of whose weights are zeroed."""
    family, zeroed, _ = DEAD[which]
    model = save_tiny(family, folder)
    for name, weight in model.net.named_parameters():
        if name.startswith(zeroed):
            weight.zero_()
    model.net.save_pretrained(folder)


def missing_of(record: dict) -> dict[str, str]:
    listed = json.loads(record["model_info"]["additional_details"]["not_measured"])
    return {one["measure"]: one["why"] for one in listed}


@pytest.mark.parametrize("which", DEAD)
def test_a_model_that_answers_everything_alike_is_said_to(which, small, tmp_path):
    save_dead(which, tmp_path / which)
    page = card.write(str(tmp_path / which))
    record = numbers(page)
    check_record(record)
    _, zeroed, alike = DEAD[which]
    missing = missing_of(record)
    for measure in alike:
        assert "gives the same" in missing[measure] and "check its weights" in missing[measure]
        assert zeroed in missing[measure] and escape(missing[measure]) in page.read_text()
    rows = every_eval.read(record).rows
    assert rows and not {row.kind.group for row in rows.values()} & set(alike)
    assert page.with_suffix(".eval_results.yaml").is_file()


def test_a_dead_model_stands_beside_a_live_one(small, tmp_path):
    save_dead("norm", tmp_path / "dead")
    save_tiny("gpt2", tmp_path / "live")
    page = card.write_two([str(tmp_path / "live"), str(tmp_path / "dead")])
    assert {one["id"] for one in numbers(page)} == {"perplexity.causal"}
    assert "No measure of gender stereotype was taken of both" in page.read_text()
    dead = json.loads((page.parent / f"{card.file_of(str(tmp_path / 'dead'))}.json").read_text())
    assert "check its weights" in missing_of(dead)["seat"]


def test_heads_of_a_dead_model_are_refused(small, tmp_path):
    save_dead("norm", tmp_path / "dead")
    assert "the same vector to every word" in refusal(card.write_heads, str(tmp_path / "dead"))


def test_a_row_that_is_no_number_is_listed_as_not_measured(small, monkeypatch, tmp_path):
    def no_number(found, model):
        found.add("seat.word", Estimate(float("nan")), "")
        found.add("seat.mean", Estimate(0.5), "")  # without an interval

    monkeypatch.setattr(card_measures, "MEASURES", {"seat": no_number})
    save_tiny("bert", tmp_path / "bert")
    page = card.write(str(tmp_path / "bert"))
    missing = missing_of(numbers(page))
    assert missing.keys() == {KINDS[f"seat.{name}"].label for name in ("word", "mean")}
    assert all("check that its weights" in why for why in missing.values())
    assert "No measure of stereotype could be taken" in page.read_text()


@pytest.mark.parametrize(
    "names, module, step",
    [
        (["one"], every_eval, "for_hub"),
        (["one"], card_page, "one"),
        (["one", "two"], every_eval, "for_hub"),
        (["one", "two"], card_page, "two"),
        (["one", "two"], card, "differences"),
    ],
)
def test_nothing_is_written_where_one_file_has_no_content(
    perplexity_alone, monkeypatch, tmp_path, names, module, step
):
    def fails(*_):
        raise ValueError("no content")

    monkeypatch.setattr(module, step, fails)
    folders = [str(tmp_path / name) for name in names]
    for seed, folder in enumerate(folders):
        save_tiny("bert", folder, seed=seed)
    with pytest.raises(ValueError, match="no content"):
        card.write_two(folders) if folders[1:] else card.write(folders[0], store=True)
    assert not list((tmp_path / "build").rglob("*.*")) and not card.STORED.exists()


def test_vectors_by_pooling_are_those_of_the_engine(small, tmp_path):
    """All three against the functions that the notebooks use, one sentence at a time."""
    _, sentences = small
    few = {word: sentences[word] for word in list(sentences)[:4]}
    for family, place in (("bert", "first"), ("gpt2", "last")):
        model = save_tiny(family, tmp_path / family)
        found = card_measures.pooled(model, few)
        assert list(found) == [place, "mean", "word"]
        for pooling, name in ((place, "token"), ("mean", "mean")):
            for vector, own in zip(found[pooling], few.values(), strict=True):
                alone = [embed.sentences(model, [text], pooling=name)[0] for text in own]
                expected = sum(alone).double() / len(own)
                assert vector.numpy() == pytest.approx(expected.numpy(), abs=1e-5)
        words = embed.words(model, few).double()
        assert found["word"].numpy() == pytest.approx(words.numpy(), abs=1e-5)


# ---- what is said of a model
def test_the_leading_space_of_a_byte_level_vocabulary_is_stated():
    notes = {}
    for name in ("mini-bert", "mini-gpt2"):
        notes[name] = " ".join(card_measures.how_read(models.load(name, device="cpu")))
    assert "token with the leading space" in notes["mini-gpt2"]
    assert "one token for a word, wherever" in notes["mini-bert"]
    assert "[CLS] and [SEP]" in notes["mini-bert"]


def test_a_vocabulary_that_breaks_english_up_is_warned_of(tmp_path):
    of_400_pieces = save_tiny("bert", tmp_path / "small")
    assert "hardly one of English" in card_measures.not_english(of_400_pieces)[0]
    for name in card_page.BUNDLED:
        assert card_measures.not_english(models.load(name, device="cpu")) == []


def test_a_tokenizer_of_other_words_is_warned_of_with_and_without_a_vocabulary_head(tmp_path):
    for name in card_page.BUNDLED:
        assert card_measures.other_words(models.load(name, device="cpu")) == []
    folder, _ = folders.locate("mini-bert")
    for file in ("config.json", "model.safetensors", "tokenizer_config.json"):
        (tmp_path / file).write_bytes((folder / file).read_bytes())
    vocabulary = json.loads((folder / "tokenizer.json").read_text())
    words = vocabulary["model"]["vocab"]
    plain = [word for word in words if not word.startswith("[")]
    ids = [words[word] for word in plain]
    words |= dict(zip(plain, ids[1_000:] + ids[:1_000]))  # each word has another's place
    (tmp_path / "tokenizer.json").write_text(json.dumps(vocabulary))
    swapped = models.load(str(tmp_path), device="cpu")
    assert "probably another model's" in card_measures.other_words(swapped)[0]
    swapped.net.base_model.save_pretrained(tmp_path)
    bare = models.load(str(tmp_path), device="cpu")
    assert not bare.has_vocabulary_head
    assert "probably another model's" in card_measures.other_words(bare)[0]


def test_the_same_weights_are_found_however_they_are_saved(perplexity_alone, tmp_path):
    model = save_tiny("bert", tmp_path / "one")
    model.net.save_pretrained(tmp_path / "again", max_shard_size="50KB")
    model.tokenizer.save_pretrained(tmp_path / "again")
    save_tiny("bert", tmp_path / "other", seed=1)
    card.write(str(tmp_path / "one"), store=True)
    same = card.write(str(tmp_path / "again")).read_text()
    assert f"weights identical to {tmp_path / 'one'}" in same
    assert "weights identical to" not in card.write(str(tmp_path / "other")).read_text()


def test_a_stored_card_stands_beside_others_while_its_weights_are_the_same(
    perplexity_alone, tmp_path, monkeypatch
):
    save_tiny("bert", tmp_path / "one")
    save_tiny("bert", tmp_path / "two", seed=1)
    entry = folders.Entry(tmp_path / "one", family="bert", note="")
    monkeypatch.setitem(folders.REGISTRY, "known", entry)
    card.write("known", store=True)
    assert [stored.model for stored in card.beside()] == ["known"]
    assert "<span>known</span>" in card.write(str(tmp_path / "two")).read_text()
    save_tiny("bert", tmp_path / "one", seed=2)
    assert card.beside() == []


def test_a_published_model_that_is_not_here_stands_beside_with_its_stored_numbers(
    perplexity_alone, tmp_path
):
    save_tiny("bert", tmp_path / "gone")
    card.write(str(tmp_path / "gone"), store=True)
    (stored,) = (tmp_path / "cards").glob("*.json")
    known = stored.read_text().replace(str(tmp_path / "gone"), "published-model")
    stored.write_text(known)
    assert [other.model for other in card.beside()] == ["published-model"]


# ---- how rows are read
def row_of(id: str, value: float, low: float, high: float) -> Row:
    return Row(id, Estimate(value, low, high, 10))


@pytest.mark.parametrize(
    "interval, reads",
    [
        ((0.5, 0.2, 0.8), "nearer to the words of their gender"),
        ((-0.5, -0.8, -0.2), "nearer to the words of the other gender"),
        ((0.5, -0.2, 1.2), "no association shown"),
    ],
)
def test_a_row_says_which_way_its_interval_points(interval, reads):
    assert reads in card_rows.reading(row_of("seat.word", *interval))


def test_a_control_that_shows_as_much_is_named():
    own = row_of("seat.word", 0.5, 0.3, 0.7)
    weak, strong = row_of("seat.word", 0.1, 0.0, 0.2), row_of("seat.word", 0.4, 0.2, 0.6)
    assert card_rows.against_control(own, weak) == "more than in an untrained network"
    assert card_rows.against_control(own, strong) == "no more than in an untrained network"
    assert card_rows.against_control(row_of("seat.word", 0.1, -0.1, 0.3), weak) == ""
    assert card_rows.against_control(own, None) == "no untrained network to compare with"


def page_of(family: str, name: str = "x", others: list | None = None) -> str:
    """The page of a card whose one row is far above any control's, beside the stored cards."""
    rows = [row_of("occupations.rank.was-tired", 0.9, 0.8, 0.99)]
    versions = {"companion": "0"}
    found = Card(name, "", family, "", hashes={"weights": ""}, rows=rows, versions=versions)
    return card_page.one(found, name, card.beside() if others is None else others, "command")


def test_the_control_of_a_decoder_is_an_untrained_decoder():
    encoder, decoder = "null (untrained)", "null-gpt2 (untrained)"
    for family in FAMILIES:
        page = page_of(family)
        own, other = (encoder, decoder) if family in ENCODERS else (decoder, encoder)
        assert f"<span>{own}</span>" in page and f"<span>{other}</span>" not in page
        kind = "encoder" if family in ENCODERS else "decoder"
        assert f"is an untrained {kind}" in page and "more than in an untrained network" in page
        assert "exceed its" in page


def test_a_card_without_a_control_says_so():
    for text in (page_of("gpt2", others=[]), page_of("gpt2", others=card.beside()[-2:-1])):
        assert "No untrained network stands beside it" in text
        assert "no untrained network to compare with" in text and "exceed its" not in text
    for name, family in (("null", "bert"), ("null-gpt2", "gpt2")):
        text = page_of(family, name)
        assert "is an untrained network itself" in text and "(untrained)" not in text


@pytest.mark.parametrize("file", STORED, ids=lambda file: file.stem)
def test_every_row_of_a_stored_card_has_its_control(file):
    about = numbers(file)["model_info"]["additional_details"]
    control = card_page.control_of(Card(file.stem, "", about["family"], "")) or file.stem
    rows = every_eval.read(numbers(file)).rows
    assert rows.keys() <= every_eval.read(numbers(file.with_stem(control))).rows.keys()


def test_the_sentence_that_sums_up_counts_by_hand():
    found = Card("x", "", "", "")
    found.rows = [
        row_of("seat.word", 0.5, 0.3, 0.7),
        row_of("seat.mean", 0.5, 0.3, 0.7),
        row_of("seat.first", -0.5, -0.7, -0.3),
        row_of("cloze.base", 0.5, -0.3, 0.7),
        row_of("cloze.counter", 0.5, 0.3, 0.7),  # what a sentence does: not counted
        row_of("perplexity.pseudo", 5, 4, 6),
    ]
    weak, strong = row_of("seat.word", 0, -0.1, 0.1), row_of("seat.mean", 0.5, 0.3, 0.7)
    control = every_eval.Stored("null", "", {"seat.word": weak, "seat.mean": strong}, "")
    assert card_page.sentence(found, "x", control) == (
        "2 of 4 measures of gender stereotype show one in x, 1 the opposite, 1 no association; "
        "of the 2 that an untrained network has too, 1 exceed its."
    )


def test_every_kind_is_read_and_drawn():
    for id, kind in KINDS.items():
        row = row_of(id, 2.0, 1.0, 3.0)
        assert card_rows.reading(row)
        assert (kind.none is None) == bool(kind.note) != bool(kind.above and kind.below)
        (lane,) = card_page.lanes([("x", row, "own")])
        assert 0 <= lane["left"] <= lane["at"] <= lane["left"] + lane["width"] <= 100


def test_lanes_share_an_axis():
    rows = [row_of("seat.word", 0.0, 0.0, 1.0), row_of("seat.word", 1.0, 0.5, 1.0)]
    first, second = card_page.lanes([("a", rows[0], "own"), ("b", rows[1], "own")])
    assert (first["left"], first["width"], first["none"]) == (3, 94, 3)
    assert (second["left"], second["width"], second["at"]) == (50, 47, 97)


@pytest.mark.parametrize(
    "estimate, printed",
    [
        (Estimate(0.51, 0.3, 0.7), "0.51 [0.30, 0.70]"),
        (Estimate(0.0012, -0.0004, 0.0031), "0.0012 [-0.0004, 0.0031]"),
        (Estimate(6123.4, 5000, 8000), "6,123 [5,000, 8,000]"),
        (Estimate(0.0, 0.0, 0.0), "0.00 [0.00, 0.00]"),
    ],
)
def test_small_numbers_are_not_printed_as_nothing(estimate, printed):
    assert card_page.number(estimate) == printed


# ---- two models
def test_a_paired_difference_is_narrower_than_that_of_separate_samples():
    rng = np.random.default_rng(0)
    items = rng.normal(size=200)
    before = row_with(items, "same")
    after = row_with(items + 0.1 + rng.normal(scale=0.05, size=200), "same")
    paired = card_rows.difference(before, after)
    apart = stats.difference(after.estimate, before.estimate)
    assert paired.value == pytest.approx(apart.value)
    assert paired.low > 0 > apart.low
    assert card_rows.moved(before, after) == "more stereotype"
    assert card_rows.moved(after, before) == "less stereotype"
    assert card_rows.moved(before, before) == "no difference shown"
    assert card_rows.moved(before, row_with(items, "others")).startswith("not comparable")
    opposite = card_rows.moved(row_with(items + 5, "same"), row_with(items - 5, "same"))
    assert opposite == "less stereotype, and now the opposite"


def row_with(items: np.ndarray, name: str) -> Row:
    return Row("cloze.base", stats.mean(items), sample=Sample(np.mean, (items,), name))


def test_two_models_stand_side_by_side_with_differences(small, tmp_path):
    for seed, name in enumerate(("before", "after")):
        save_tiny("bert", tmp_path / name, seed=seed)
    page = card.write_two([str(tmp_path / "before"), str(tmp_path / "after")])
    listed = {one["id"]: one for one in numbers(page)}
    one, other = (
        every_eval.read(json.loads((page.parent / f"{card.file_of(str(place))}.json").read_text()))
        for place in (tmp_path / "before", tmp_path / "after")
    )
    assert listed.keys() == one.rows.keys() == other.rows.keys()
    for id, found in listed.items():
        gap = other.rows[id].estimate.value - one.rows[id].estimate.value
        assert found["difference"] == pytest.approx(gap) and found["low"] <= found["high"]
    assert "before and after" in page.read_text()
    text = " ".join(page.read_text().split())
    assert "the differences in the file of this name that ends in <code>.json" in text
    assert "each model's own numbers in files of its own name" in text
    assert not page.with_suffix(".eval_results.yaml").exists()
    for place in (tmp_path / "before", tmp_path / "after"):
        assert (page.parent / f"{card.file_of(str(place))}.eval_results.yaml").is_file()


def test_a_debiased_model_that_is_the_same_model_is_found_out(perplexity_alone, tmp_path):
    for name in ("before", "after"):
        save_tiny("bert", tmp_path / name)
    page = card.write_two([str(tmp_path / "before"), str(tmp_path / "after")])
    assert "identical weights" in page.read_text()
    with pytest.raises(CompanionError, match="named twice"):
        card.write_two([str(tmp_path / "before"), str(tmp_path / "before") + "/"])


def test_models_of_other_vocabularies_or_templates_are_not_compared(perplexity_alone, tmp_path):
    for family in ("bert", "roberta"):
        save_tiny(family, tmp_path / family)
    page = card.write_two([str(tmp_path / "bert"), str(tmp_path / "roberta")])
    assert numbers(page) == [] and "not comparable" in page.read_text()


def test_rows_that_one_of_two_models_has_are_named():
    both = row_of("seat.word", 0.5, 0.3, 0.7)
    one = Card("x", "", "", "", rows=[both, row_of("seat.first", 0.5, 0.3, 0.7)])
    other = Card("y", "", "", "", rows=[row_of("seat.last", 0.5, 0.3, 0.7), both])
    expected = [KINDS["seat.first"].label, KINDS["seat.last"].label]
    assert card_page.measured_alone([one, other]) == expected


# ---- for programs
# What Every Eval Ever's schema requires, by place; a number stands for each item of a list. The
# whole schema is used where COMPANION_DATA has it.
WHOLE = "every_eval_ever/eval.schema.json"
REQUIRED = {
    "": "schema_version evaluation_id retrieved_timestamp source_metadata model_info eval_library "
    "evaluation_results",
    "source_metadata": "source_type source_organization_name evaluator_relationship",
    "eval_library": "name version",
    "model_info": "name id additional_details",
    "model_info additional_details": "deployment_type model_availability",
    "evaluation_results 0": "evaluation_name source_data metric_config score_details",
    "evaluation_results 0 source_data": "dataset_name source_type",
    "evaluation_results 0 metric_config": "lower_is_better min_score max_score",
    "evaluation_results 0 score_details": "score",
    "evaluation_results 0 score_details uncertainty confidence_interval": "lower upper",
}


def schema(required: dict[str, str]) -> dict:
    """A JSON schema that wants these fields, and texts alone among additional details."""
    whole = {}
    for place, names in required.items():
        node = whole
        for step in place.split():
            key = "items" if step == "0" else "properties"
            node = node.setdefault(key, {})
            node = node if step == "0" else node.setdefault(step, {})
        node["required"] = names.split()
    texts = {"additionalProperties": {"type": "string"}}
    whole["properties"]["model_info"]["properties"]["additional_details"] |= texts
    return whole


def whole_schema() -> jsonschema.Draft7Validator | None:
    """Every Eval Ever's own schema, of the version that records name; None where it is not at hand."""
    file = paths.ROOT / Path(os.environ.get("COMPANION_DATA") or "nowhere").expanduser() / WHOLE
    if not file.is_file():
        return None
    content = json.loads(file.read_text())
    assert content["version"] == every_eval.SCHEMA
    return jsonschema.Draft7Validator(content)


@pytest.fixture
def whole(real_data) -> jsonschema.Draft7Validator:
    """The whole schema; where it is not at hand, the test is skipped."""
    return whole_schema() or pytest.skip(f"{real_data / WHOLE} is not at hand")


def check_record(record: dict):
    jsonschema.Draft7Validator(schema(REQUIRED)).validate(record)
    if validator := whole_schema():
        validator.validate(record)


@pytest.mark.parametrize("file", STORED, ids=lambda file: file.stem)
def test_stored_cards_follow_the_whole_schema(file, whole):
    whole.validate(numbers(file))


def test_a_new_card_follows_the_whole_schema_and_a_changed_one_does_not(
    perplexity_alone, whole, tmp_path
):
    save_tiny("bert", tmp_path / "bert")
    record = numbers(card.write(str(tmp_path / "bert")))
    whole.validate(record)
    with pytest.raises(jsonschema.ValidationError, match="unknown_field"):
        whole.validate(record | {"unknown_field": "1"})
    record["evaluation_results"][0]["score_details"]["score"] = "high"
    with pytest.raises(jsonschema.ValidationError, match="'high' is not of type 'number'"):
        whole.validate(record)


def test_the_check_of_a_record_can_fail():
    record = numbers(paths.FIGURES / "cards" / "mini-bert.json")
    check_record(record)
    del record["evaluation_results"][3]["metric_config"]["lower_is_better"]
    with pytest.raises(jsonschema.ValidationError, match="lower_is_better"):
        check_record(record)


def test_stored_cards_follow_the_schema_and_are_of_todays_models():
    assert {"mini-bert", *card_page.CONTROLS} <= {file.stem for file in STORED}
    for file in STORED:
        check_record(numbers(file))
        stored = every_eval.read(numbers(file))
        assert card.tag(stored.model) == file.stem
        assert len(stored.rows) == len(numbers(file)["evaluation_results"])
    assert len(card.beside()) == len(STORED)  # none is damaged, none of other weights


def test_a_record_scores_the_distance_from_no_association_and_keeps_the_sign():
    for signed, folded in (
        ((-0.5, -0.8, 0.2), (0.5, 0.0, 0.8)),
        ((-0.5, -0.8, -0.2), (0.5, 0.2, 0.8)),
        ((0.5, 0.2, 0.8), (0.5, 0.2, 0.8)),
    ):
        row = row_of("seat.word", *signed)
        assert list(every_eval.distance(row)) == pytest.approx(list(folded))
        found = Card("x", "r", "f", "s", hashes={"weights": "h"}, rows=[row])
        back = every_eval.read(every_eval.written(found, "command"))
        assert back.rows["seat.word"].estimate == row.estimate and back.weights == "h"
    perplexity = row_of("perplexity.pseudo", 5, 4, 6)
    assert every_eval.distance(perplexity) == perplexity.estimate


def test_the_hub_reads_its_file():
    found = Card("x", "r", "f", "s", rows=[row_of("seat.word", -0.5, -0.8, 0.2)], finished=1e9)
    (entry,) = parse_eval_result_entries(yaml.safe_load(every_eval.for_hub(found)))
    assert (entry.task_id, entry.value) == ("seat.word", -0.5)
    assert entry.date == "2001-09-09T01:46:40+00:00" and "[-0.800, 0.200]" in entry.notes


def test_heads_are_printed_and_all_of_them_written(small, tmp_path, capsys):
    save_tiny("bert", tmp_path / "model")
    table = pd.read_csv(card.write_heads(str(tmp_path / "model")))
    assert len(table) == 12 and table.score.is_monotonic_decreasing
    assert f"{table.score[0]:.4f}" in capsys.readouterr().out


# ---- the notebooks' side
@pytest.mark.parametrize("name", ["mini-bert", "mini-gpt2"])
def test_odds_are_those_of_the_blank(name):
    model = models.load(name, device="cpu")
    nurse = contexts.pronoun_odds(model).set_index("occupation").loc["nurse"]
    top = fill.top(model, contexts.pronoun_prompt(model, "nurse"), k=100)
    she, he = (top.probability[top.word.str.lower() == word].item() for word in ("she", "he"))
    assert (nurse.she, nurse.log_odds) == pytest.approx((she, np.log2(she / he)), abs=1e-4)
