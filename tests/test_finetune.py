"""Fine-tuning: it learns, keeps the best epoch, holds masks and frozen parts, and a killed run ends the same."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

from lib.bias_a_head import heads
from lib.engine import hooks, models
from lib.text import readers
from lib.training import finetune, nli
from lib.training.__main__ import main
from tests.tiny import refusal, save_tiny

TEXTS = ["the doctor said that she was here .", "the nurse said that he was late .", "he likes poetry .",
         "she likes mathematics .", "a man met the doctor .", "a woman met the engineer in the office ."] * 4
WOMEN = [1, 0, 0, 1, 0, 1] * 4
SETTINGS = finetune.Settings(rate=3e-3, epochs=3, batch=8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    for family in ("bert", "roberta"):
        save_tiny(family, root / family)
    return root


def fresh(folder, family="bert", labels=2):
    torch.manual_seed(0)
    return models.load(str(folder / family), device="cpu", task="sequence-classification", labels=labels)


def right(logits, wanted):
    return float((logits.argmax(1) == wanted).mean())


def fit(model, settings=SETTINGS, targets=WOMEN, metric=right, **options):
    data = finetune.encode(model, TEXTS, None, targets)
    done = finetune.fit(model, data, data, metric, settings, **options)
    return done, finetune.predict(model, data, options.get("mask"))


def test_a_batch_is_what_the_tokenizer_pads_and_what_is_too_long_is_cut_and_counted(folder):
    model = fresh(folder)
    data = finetune.encode(model, TEXTS[:4], TEXTS[2:6], [0, 1, 1, 0])
    wanted = model.tokenizer([TEXTS[2], TEXTS[0]], [TEXTS[4], TEXTS[2]], padding="max_length", max_length=24,
                             return_tensors="pt")
    found = data.batch([2, 0], 24, model.tokenizer.pad_token_id)
    assert {name: value.tolist() for name, value in found.items()} == {
        name: value.tolist() for name, value in wanted.items()}
    data = finetune.encode(model, ["he likes poetry .", "poetry " * 60], None, [0, 1])
    assert data.sizes.tolist() == [6, 40] and int(data.cut) == 1
    assert "no text" in refusal(finetune.encode, model, [], None, [])


def test_examples_are_kept_and_belong_to_a_model(folder, tmp_path):
    model = fresh(folder)
    data = finetune.encode(model, TEXTS[:3], None, [.5, 2., 5.])
    data.save(tmp_path / "train.npz")
    again = finetune.load(tmp_path / "train.npz")
    assert again.ids.tolist() == data.ids.tolist() and again.targets.dtype == torch.float32
    finetune.sign(tmp_path, model, "files")
    assert finetune.check(tmp_path, str(folder / "bert"))["source"] == "files"
    for bad in (lambda: finetune.check(tmp_path, str(folder / "roberta")),
                lambda: finetune.check(folder, str(folder / "bert")), lambda: finetune.load(tmp_path / "none.npz")):
        assert "run the command prepare" in refusal(bad)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=300), st.integers(1, 40), st.integers(0, 3))
def test_an_epoch_has_every_example_once(sizes, batch, seed):
    plan = finetune.shuffled(sizes, batch, seed)
    assert sorted(row for rows, _ in plan for row in rows) == list(range(len(sizes)))
    assert len(plan) == -(-len(sizes) // batch)
    assert all(max(sizes[row] for row in rows) <= width < max(sizes[row] for row in rows) + 8 for rows, width in plan)
    assert plan == finetune.shuffled(sizes, batch, seed)


@pytest.mark.parametrize("family", ["bert", "roberta"])  # the second has no segments
def test_it_learns_and_leaves_a_frozen_model(folder, family):
    model = fresh(folder, family)
    done, logits = fit(model, replace(SETTINGS, dropout=0, epochs=8))
    assert done["validation"] == right(logits, np.array(WOMEN)) >= .9 and done["epochs"] == 8
    assert not model.net.training and not any(weight.requires_grad for weight in model.net.parameters())


def test_it_meets_numbers_and_says_where_it_diverges(folder):
    numbers = [4. + woman for woman in WOMEN]
    done, logits = fit(fresh(folder, labels=1), replace(SETTINGS, epochs=4, dropout=0), numbers,
                       lambda found, wanted: -np.abs(found[:, 0] - wanted).mean())
    assert logits.shape == (len(TEXTS), 1) and done["history"][-1]["loss"] < done["history"][0]["loss"]
    assert done["validation"] == pytest.approx(-np.abs(logits[:, 0] - numbers).mean(), abs=1e-6)
    assert "lower rate" in refusal(fit, fresh(folder, labels=1), SETTINGS, [float("nan")] * len(TEXTS), lambda *_: 0.)


def test_the_best_epoch_is_kept_and_patience_ends_it(folder):
    scores, seen = iter([.1, .7, .7000001, .2, .9]), []  # of equals the first; what is stored has six digits
    done, logits = fit(fresh(folder), replace(SETTINGS, epochs=5, patience=2),
                       metric=lambda logits, _: seen.append(logits) or next(scores))
    assert (done["epochs"], done["best"], done["validation"]) == (4, 2, .7)
    np.testing.assert_array_equal(logits, seen[1])


def test_a_mask_holds_in_training_and_after_and_frozen_embeddings_stay(folder):
    chosen = [(1, 2), (3, 4)]
    model = fresh(folder)
    before = {name: weight.clone() for name, weight in model.net.named_parameters()}
    mask = heads.mask(model, chosen)
    _, logits = fit(model, mask=mask)
    # what a masked head would feed W^O never came: its columns moved by weight decay alone, all by the same factor
    out = "bert.encoder.layer.0.attention.output.dense.weight"
    moved = (model.net.get_parameter(out) / before[out]).unflatten(1, (4, 8)).transpose(0, 1).flatten(1)
    assert moved[1].std() < 1e-5 and moved[1].mean() < 1 and moved[[0, 2, 3]].std(1).min() > 1e-3
    data = finetune.encode(model, TEXTS, None, WOMEN)
    with hooks.head_mask(model, mask):
        np.testing.assert_array_equal(finetune.predict(model, data), logits)
    assert np.abs(finetune.predict(model, data) - logits).max() > 1e-3
    before = {name: weight.clone() for name, weight in model.net.named_parameters()}
    fit(model, replace(SETTINGS, frozen=("embeddings",)))
    same = {name for name, weight in model.net.named_parameters() if torch.equal(weight, before[name])}
    assert same == {name for name in before if ".embeddings." in name} and same


def test_a_killed_run_goes_on_and_ends_the_same(folder, tmp_path):
    whole, logits = fit(fresh(folder))
    file, scores = tmp_path / "run.checkpoint", iter([.5])
    with pytest.raises(StopIteration):
        fit(fresh(folder), metric=lambda *found: right(*found) if next(scores) else 0, checkpoint=file, every=0)
    assert "another run" in refusal(fit, fresh(folder), replace(SETTINGS, rate=1e-3), checkpoint=file)
    model = fresh(folder)
    model.net.classifier.weight.zero_()  # it comes from the checkpoint
    again, after = fit(model, checkpoint=file, every=0)
    assert again == whole and not file.exists()
    np.testing.assert_array_equal(after, logits)
    file.write_bytes(b"no checkpoint")
    assert "remove it" in refusal(fit, fresh(folder), checkpoint=file)


@pytest.fixture
def snli(monkeypatch):
    """SNLI of a few made-up pairs; a test pair hides in train."""
    rows = [(f"{a} .", f"{b} .", label) for a in ("he likes poetry", "she likes mathematics", "a man met a woman")
            for b, label in zip(("he was here", "she was late", "the office"), readers.NLI_LABELS)]
    frame = pd.DataFrame(rows, columns=["premise", "hypothesis", "label"])
    splits = {"validation": frame, "test": frame.assign(premise="The nurse ."), "train": pd.concat(
        [frame.assign(premise="the engineer ."), frame.assign(premise="the NURSE .").iloc[:1]])}
    monkeypatch.setattr(readers, "snli", lambda split, full=False: splits[split])


def test_the_nli_classifier_from_texts_to_folder(folder, tmp_path, snli, capsys):
    base, prepared = str(folder / "bert"), tmp_path / "prepared"
    # 4 of validation: one whole premise and one of the next, whose other two pairs are left out of training
    assert nli.prepare(base, prepared, held_out=4) == {"train": 9 + 3, "validation": 4, "test": 9}
    common = ["--prepared", str(prepared), "--device", "cpu", "--out"]
    for rate in ("1e-3", "1e-6"):
        assert main(["nli", "train", "--model", base, "--rate", rate, "--epochs", "2", "--batch", "4", *common,
                     str(tmp_path / "runs" / rate)]) == 0
    runs = sorted((tmp_path / "runs").iterdir())
    assert [run.name for run in runs] == ["1e-3", "1e-6"]
    stored = load_file(runs[0] / "model.safetensors")
    assert not any("embeddings" in name for name in stored) and "classifier.weight" in stored
    assert main(["nli", "choose", *map(str, runs), *common, str(tmp_path / "nli")]) == 0
    record = json.loads((tmp_path / "nli" / "training.json").read_text())
    assert record["validation"] == max(tried["validation"] for tried in record["tried"]) and len(record["tried"]) == 2
    assert record["pairs"] == {"train": 12, "validation": 4, "test": 9}
    model = models.load(str(tmp_path / "nli"), device="cpu", task="sequence-classification")
    assert [model.net.config.id2label[i] for i in range(3)] == readers.NLI_LABELS
    test = finetune.load(prepared / "test.npz")
    assert record["test"] == round(right(finetune.predict(model, test), test.targets.numpy()), 4)
    assert main(["nli", "train", "--model", base, "--prepared", str(tmp_path), "--out", "x"]) == 2
    assert "run the command prepare" in capsys.readouterr().err


def test_the_classifier_is_made_in_one_command_and_not_prepared_twice(folder, tmp_path, snli, monkeypatch):
    monkeypatch.setattr(nli, "PREPARED", tmp_path)
    make = ["nli", "make", "--model", str(folder / "bert"), "--device", "cpu", "--items", "2"]
    assert main(make) == 0
    made, = tmp_path.glob("*-nli-limit2")
    record = json.loads((made / "training.json").read_text())
    assert record["source"] == "hub" and record["pairs"] == {"train": 2, "validation": 2, "test": 2}
    monkeypatch.setattr(nli, "prepare", None)
    assert main([*make, "--out", str(tmp_path / "again")]) == 0 and (tmp_path / "again/model.safetensors").exists()
