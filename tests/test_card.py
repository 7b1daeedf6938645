"""A card for any model, end to end on tiny networks; a planted bias that it finds; how its rows are
read; two models side by side; and what programs read.
"""

import json
import os
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import pytest
import torch
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
from lib import paths
from lib.bias_a_head import heads
from lib.engine import embed, folders, models, stats
from lib.engine.stats import Estimate
from tests.tiny import COMMON, ENCODERS, refusal, save_tiny

STORED = sorted((paths.FIGURES / "cards").glob("*.json"))


@pytest.fixture
def small(few_draws, monkeypatch, tmp_path):
    """Cards on few sentences, in a temporary folder; what gives sets and sentences."""
    for name, value in {"FOLDS": 2, "LINES": 3, "DRAWS": 1}.items():
        monkeypatch.setattr(card_measures, name, value)
    every = heads.sets_and_contexts

    def few(bias, sample, **options):
        few_sentences = replace(sample, contexts=min(2, sample.contexts), items=60)
        return every(bias, few_sentences, **options)

    monkeypatch.setattr(heads, "sets_and_contexts", few)
    monkeypatch.setattr(card, "STORED", tmp_path / "cards")
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


def rows_of(page: Path) -> dict[str, Row]:
    return every_eval.read(numbers(page)).rows


def missing_of(page: Path) -> dict[str, str]:
    listed = json.loads(numbers(page)["model_info"]["additional_details"]["missing"])
    return {one["measure"]: one["why"] for one in listed}


# ---- whole cards
@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_a_page_and_its_numbers_have_what_fits_the_model(family, small, tmp_path):
    save_tiny(family, tmp_path / family)
    page = card.write(str(tmp_path / family))
    check_record(numbers(page))
    rows, missing, text = rows_of(page), missing_of(page), page.read_text()
    done = {row.kind.group for row in rows.values()}
    assert done | missing.keys() == card_measures.MEASURES.keys()
    everywhere = {"seat.mean", "seat.word", "seat.race", "heads.above-0", "heads.top-tenth"}
    assert everywhere < rows.keys() and "perplexity" in done
    assert ("seat.first" in rows) == (family in ENCODERS) == ("seat.last" not in rows)
    assert ("next sentences" in done) == (family == "bert")
    for row in rows.values():
        assert row.kind.by_p or row.estimate.low <= row.estimate.high and row.estimate.n > 0
        assert escape(row.kind.label) in text
    assert all(escape(why) in text for why in missing.values())
    model = models.load(str(tmp_path / family), device="cpu")
    assert card_measures.hash_of(model) in text and model.revision in text


def test_an_encoder_without_a_head_is_measured_as_far_as_it_goes(small, tmp_path):
    model = save_tiny("bert", tmp_path / "whole")
    model.net.base_model.save_pretrained(tmp_path / "bare")
    model.tokenizer.save_pretrained(tmp_path / "bare")
    page = card.write(str(tmp_path / "bare"))
    by_heads = {f"heads.{name}" for name in ("above-0", "first.above-0", "mean.above-0")}
    whole = Card("whole", "", "bert", "")
    card_measures.seat(whole, model)
    bare = rows_of(page)
    assert bare.keys() == {row.id for row in whole.rows} | by_heads | {"heads.top-tenth"}
    for row in whole.rows:
        assert [*bare[row.id].estimate] == pytest.approx([*row.estimate], abs=1e-4, nan_ok=True)
    assert "no vocabulary head" in page.read_text()


def test_a_bias_that_is_planted_is_found(small):
    """In mini-bert's embedding the stereotyped words move towards words of their gender."""
    sets, _ = small("gender", heads.Sample("mini", 2))
    cards = []
    for size in (0, 2):
        model = models.load("mini-bert", device="cpu")
        weights = model.net.get_input_embeddings().weight
        place = {
            word: model.tokenizer(word, add_special_tokens=False).input_ids for word in sets.words
        }
        gap = torch.stack([weights[place[w][0]] for w in sets.A]).mean(0)
        gap = gap - torch.stack([weights[place[w][0]] for w in sets.B]).mean(0)
        for side, sign in ((sets.X, 1), (sets.Y, -1)):
            for piece in {piece for word in side for piece in place[word]}:
                weights[piece] += sign * size * gap
        cards.append(Card("mini-bert", "", "bert", ""))
        card_measures.seat(cards[-1], model)
    before, after = (one.row("seat.word") for one in cards)
    assert after.estimate.is_above(1) and card_rows.moved(before, after) == "more stereotype"
    assert card_rows.moved(before, before) == "no difference shown"


# ---- models that answer everything alike
DEAD = {  # the family, how the names of zeroed weights begin, and what cannot be measured then
    "head": ("bert", "cls.predictions.transform.LayerNorm", ["occupations", "cloze"]),
    "norm": ("gpt2", "transformer.ln_f", ["occupations", "seat", "heads", "cloze"]),
}


def save_dead(which: str, folder: Path):
    """A tiny model some of whose weights are zeroed."""
    family, zeroed, _ = DEAD[which]
    model = save_tiny(family, folder)
    for name, weight in model.net.named_parameters():
        if name.startswith(zeroed):
            weight.zero_()
    model.net.save_pretrained(folder)


@pytest.mark.parametrize("which", DEAD)
def test_a_model_that_answers_everything_alike_is_said_to(which, small, tmp_path):
    save_dead(which, tmp_path / which)
    page = card.write(str(tmp_path / which))
    check_record(numbers(page))
    _, zeroed, alike = DEAD[which]
    missing, rows = missing_of(page), rows_of(page)
    for measure in alike:
        assert "gives the same" in missing[measure] and "check its weights" in missing[measure]
        assert zeroed in missing[measure] and escape(missing[measure]) in page.read_text()
    assert rows and not {row.kind.group for row in rows.values()} & set(alike)


# ---- the measures
@pytest.mark.parametrize("family, place", [("bert", "first"), ("gpt2", "last")])
def test_vectors_by_pooling_are_those_of_the_engine(small, tmp_path, family, place):
    """All three against the functions that the notebooks use, one sentence at a time."""
    _, sentences = small("gender", heads.Sample("mini", 2))
    few = {word: sentences[word] for word in list(sentences)[:4]}
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


def test_masked_heads_are_held_against_the_mean_of_random_ones():
    in_x = np.array([True, True, False, False])
    near, far = np.array([0.1, 0.0, 0.0, 0.1]), np.array([1.0, 0.9, 0.0, 0.1])
    # (.95 - .05) / sd of far, sd = sqrt((.25 + .16 + .25 + .16) / 3)
    by_hand = 0.9 / np.sqrt(0.82 / 3)
    assert card_measures.beyond_random(in_x, near, far, -far) == pytest.approx(-by_hand)
    assert card_measures.beyond_random(in_x, far, far) == 0


# ---- what is said of a model
def test_a_vocabulary_of_other_words_or_another_language_is_warned_of(tmp_path):
    for name in card_page.BUNDLED:
        bundled = models.load(name, device="cpu")
        assert card_measures.not_english(bundled) + card_measures.other_words(bundled) == []
    of_400_pieces = save_tiny("bert", tmp_path / "small")
    assert "hardly one of English" in card_measures.not_english(of_400_pieces)[0]
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


def test_stored_cards_stand_beside_others_while_their_weights_are_the_same_or_not_here(
    perplexity_alone, tmp_path, monkeypatch
):
    model = save_tiny("bert", tmp_path / "one")
    model.net.save_pretrained(tmp_path / "again", max_shard_size="50KB")
    model.tokenizer.save_pretrained(tmp_path / "again")
    entry = folders.Entry(tmp_path / "one", family="bert", note="")
    monkeypatch.setitem(folders.REGISTRY, "known", entry)
    card.write("known", store=True)
    assert "weights identical to known" in card.write(str(tmp_path / "again")).read_text()
    assert "| known |" in card.in_markdown()
    save_tiny("bert", tmp_path / "other", seed=1)
    page = card.write(str(tmp_path / "other")).read_text()
    assert "<span>known</span>" in page and "weights identical to" not in page
    save_tiny("bert", tmp_path / "one", seed=2)
    assert card.beside() == []
    (stored,) = (tmp_path / "cards").glob("*.json")
    stored.write_text(stored.read_text().replace('"known"', '"published-model"'))
    assert [other.model for other in card.beside()] == ["published-model"]


def damaged(change) -> str:
    record = numbers(paths.FIGURES / "cards" / "null.json")
    change(record["evaluation_results"][0]["score_details"])
    return json.dumps(record)


@pytest.mark.parametrize(
    "content",
    [
        "[" * 100_000,
        "[]",
        damaged(lambda score: score["details"].update(value="nan")),
        damaged(lambda score: score["details"].update(low="nan", high="nan")),
        damaged(lambda score: score["details"].update(value="0.9876")),
    ],
)
def test_a_damaged_stored_card_is_left_out_and_named(content, tmp_path, monkeypatch):
    monkeypatch.setattr(card, "STORED", tmp_path)
    (tmp_path / "null.json").write_text(content)
    with pytest.warns(UserWarning, match="null.json is damaged"):
        assert card.beside() == []


# ---- how rows are read
def row_of(id: str, value: float, low: float, high: float) -> Row:
    return Row(id, Estimate(value, low, high, 10))


def test_a_control_that_shows_as_much_is_named():
    own = row_of("seat.word", 0.5, 0.3, 0.7)
    weak, strong = row_of("seat.word", 0.1, 0.0, 0.2), row_of("seat.word", 0.4, 0.2, 0.6)
    assert card_rows.against_control(own, weak) == "more than in an untrained network"
    assert card_rows.against_control(own, strong) == "no more than in an untrained network"
    assert card_rows.against_control(row_of("seat.word", 0.1, -0.1, 0.3), weak) == ""
    assert card_rows.against_control(own, None) == "no untrained network to compare with"


@pytest.fixture(scope="module")
def stored():
    return card.beside()


def page_of(family: str, others: list) -> str:
    """The page of a card whose one row is far above any control's, beside others."""
    rows = [row_of("occupations.rank.was-tired", 0.9, 0.8, 0.99)]
    found = Card("x", "", family, "", rows=rows, versions={"companion": "0"})
    return card_page.one(found, "x", others, "command")


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_the_control_of_a_decoder_is_an_untrained_decoder(family, stored):
    page = page_of(family, stored)
    own, other = "null (untrained)", "null-gpt2 (untrained)"
    if family not in ENCODERS:
        own, other = other, own
    assert f"<span>{own}</span>" in page and f"<span>{other}</span>" not in page
    assert "more than in an untrained network" in page and "exceed its" in page
    alone = page_of(family, [])
    assert "no untrained network to compare with" in alone and "exceed its" not in alone


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


# ---- two models
def row_with(items: np.ndarray, name: str) -> Row:
    return Row("cloze.base", stats.mean(items), sample=Sample(np.mean, (items,), name))


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
    assert card_rows.moved(before, row_with(items, "others")).startswith("not comparable")
    opposite = card_rows.moved(row_with(items + 5, "same"), row_with(items - 5, "same"))
    assert opposite == "less stereotype, and now the opposite"


def test_two_models_stand_side_by_side_with_differences(small, tmp_path):
    folders = [str(tmp_path / name) for name in ("before", "after")]
    for seed, folder in enumerate(folders):
        save_tiny("bert", folder, seed=seed)
    page = card.write_two(folders)
    listed = {one["id"]: one for one in numbers(page)}
    one, other = (rows_of(page.with_stem(card.file_of(folder))) for folder in folders)
    assert listed.keys() == one.keys() == other.keys()
    for id, found in listed.items():
        gap = other[id].estimate.value - one[id].estimate.value
        assert found["difference"] == pytest.approx(gap)
        assert KINDS[id].by_p or found["low"] <= found["high"]


def test_a_debiased_model_that_is_the_same_model_is_found_out(perplexity_alone, tmp_path):
    for name in ("before", "after"):
        save_tiny("bert", tmp_path / name)
    page = card.write_two([str(tmp_path / "before"), str(tmp_path / "after")])
    assert "identical weights" in page.read_text()
    twice = [str(tmp_path / "before"), str(tmp_path / "before") + "/"]
    assert "named twice" in refusal(card.write_two, twice)
    save_tiny("roberta", tmp_path / "after")  # of another vocabulary
    page = card.write_two([str(tmp_path / "before"), str(tmp_path / "after")])
    assert numbers(page) == [] and "not comparable" in page.read_text()


# ---- for programs
WHOLE = "every_eval_ever/eval.schema.json"


def whole_schema() -> jsonschema.Draft7Validator | None:
    """Every Eval Ever's own schema, of the version that records name; None where it is not at hand."""
    file = paths.ROOT / Path(os.environ.get("COMPANION_DATA") or "nowhere").expanduser() / WHOLE
    if not file.is_file():
        return None
    content = json.loads(file.read_text())
    assert content["version"] == every_eval.SCHEMA
    return jsonschema.Draft7Validator(content)


def check_record(record: dict):
    assert all(isinstance(one, str) for one in record["model_info"]["additional_details"].values())
    if validator := whole_schema():
        validator.validate(record)


def test_a_changed_record_does_not_follow_the_schema(real_data):
    record = numbers(paths.FIGURES / "cards" / "mini-bert.json")
    del record["evaluation_results"][0]["metric_config"]["lower_is_better"]
    for changed in (record, numbers(STORED[0]) | {"unknown_field": "1"}):
        with pytest.raises(jsonschema.ValidationError):
            whole_schema().validate(changed)


def test_stored_cards_follow_the_schema_are_of_todays_models_and_have_controls(stored):
    assert {*card_page.BUNDLED, *card_page.CONTROLS} <= {file.stem for file in STORED}
    cards = {one.model: one for one in stored}
    assert len(cards) == len(STORED)  # none is damaged, none of other weights
    for file in STORED:
        record = numbers(file)
        check_record(record)
        rows = cards[file.stem].rows
        assert len(rows) == len(record["evaluation_results"])
        family = record["model_info"]["additional_details"]["family"]
        control = card_page.control_of(Card(file.stem, "", family, "")) or file.stem
        assert rows.keys() <= cards[control].rows.keys()


def test_a_record_scores_the_distance_from_no_association_and_keeps_the_sign():
    for signed, folded in (
        ((-0.5, -0.8, 0.2), (0.5, 0.0, 0.8)),
        ((-0.5, -0.8, -0.2), (0.5, 0.2, 0.8)),
        ((0.5, 0.2, 0.8), (0.5, 0.2, 0.8)),
    ):
        row = row_of("seat.word", *signed)
        assert list(every_eval.distance(row)) == pytest.approx(list(folded))
        found = Card("x", "r", "f", "s", weights="h", rows=[row])
        back = every_eval.read(every_eval.written(found, "command"))
        assert back.rows["seat.word"].estimate == row.estimate and back.weights == "h"
    perplexity = row_of("perplexity.pseudo", 5, 4, 6)
    assert every_eval.distance(perplexity) == perplexity.estimate


