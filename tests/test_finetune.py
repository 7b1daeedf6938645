"""Fine-tuning, for inferences and for GLUE: it learns, it holds masks, a killed run ends the same."""

import itertools
import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings, strategies as st
from safetensors.torch import load_file

from companion.bias_a_head import masked
from lib import paths
from lib.bias_a_head import heads
from lib.engine import hooks, models
from lib.text import readers, swaps
from tests.tiny import refusal, save_tiny
from training import classifier, finetune, glue
from training.__main__ import main

TEXTS = [
    "the doctor said that she was here .",
    "the nurse said that he was late .",
    "he likes poetry .",
    "she likes mathematics .",
    "a man met the doctor .",
    "a woman met the engineer in the office .",
] * 4
WOMEN = [1, 0, 0, 1, 0, 1] * 4
SETTINGS = finetune.Settings(rate=3e-3, epochs=2, batch=8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    for family in ("bert", "roberta"):
        save_tiny(family, root / family)
    return root


def fresh(folder, family="bert", labels=2):
    """A tiny model under a new classifier, the same at every call."""
    torch.manual_seed(0)
    task = "sequence-classification"
    return models.load(str(folder / family), device="cpu", task=task, labels=labels)


def right(logits, wanted):
    """The share of texts that are classified right; of values, how near they are."""
    if logits.shape[1] == 1:
        return -float(np.abs(logits[:, 0] - wanted).mean())
    return float((logits.argmax(1) == wanted).mean())


def fit(model, settings=SETTINGS, targets=WOMEN, metric=right, **options):
    """Train and validate on TEXTS: what finetune.fit returns, and the logits after it."""
    data = finetune.encode(model, TEXTS, None, targets)
    done = finetune.fit(model, data, data, metric, settings, **options)
    return done, finetune.predict(model, data, options.get("mask"))


# ---------------------------------------------------------------------------------------- examples


def test_saved_examples_are_what_the_tokenizer_pads_and_cuts(folder, tmp_path):
    model = fresh(folder)
    finetune.encode(model, TEXTS[:4], TEXTS[2:6], [0.5, 2.0, 5.0, 1.0]).save(tmp_path / "train.npz")
    data = finetune.load(tmp_path / "train.npz")
    assert data.targets.dtype == torch.float32
    found = data.batch([2, 0], 24, model)
    pairs = [TEXTS[2], TEXTS[0]], [TEXTS[4], TEXTS[2]]
    padded = {"padding": "max_length", "max_length": 24, "return_tensors": "pt"}
    wanted = model.tokenizer(*pairs, **padded)
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)
    long = finetune.encode(model, ["he likes poetry .", "poetry " * 60], None, [0, 1])
    assert (long.sizes.tolist(), int(long.cut)) == ([6, 40], 1)


@settings(max_examples=30)
@given(
    st.lists(st.integers(1, 50), min_size=1, max_size=300), st.integers(1, 40), st.integers(0, 3)
)
def test_an_epoch_has_every_example_once(sizes, batch, seed):
    plan = finetune.shuffled(sizes, batch, seed)
    assert sorted(itertools.chain(*(rows for rows, _ in plan))) == list(range(len(sizes)))
    assert len(plan) == math.ceil(len(sizes) / batch)
    for rows, width in plan:
        longest = max(sizes[row] for row in rows)
        assert longest <= width < longest + 8
    assert plan == finetune.shuffled(sizes, batch, seed)


# ---------------------------------------------------------------------------------------- training


@pytest.mark.parametrize("family, labels", [("bert", 2), ("roberta", 2), ("bert", 1)])
def test_it_learns_classes_and_values_and_leaves_a_frozen_model(folder, family, labels):
    model = fresh(folder, family, labels)
    targets = WOMEN if labels == 2 else [4.0 + woman for woman in WOMEN]
    done, logits = fit(model, replace(SETTINGS, dropout=0, epochs=8), targets)
    assert done["validation"] == pytest.approx(right(logits, np.array(targets)), abs=1e-6)
    assert labels == 1 or done["validation"] >= 0.9
    assert done["history"][-1]["loss"] < 0.9 * done["history"][0]["loss"]
    assert not model.net.training
    assert not any(weight.requires_grad for weight in model.net.parameters())


def test_the_best_epoch_is_kept_and_training_stops_when_patience_ends(folder):
    """Of equals the first is the best; what is stored has six digits."""
    scores = iter([0.1, 0.7, 0.7000001, 0.2, 0.9])
    seen = []

    def metric(logits, _):
        seen.append(logits)
        return next(scores)

    done, logits = fit(fresh(folder), replace(SETTINGS, epochs=5, patience=2), metric=metric)
    assert (done["epochs"], done["best"], done["validation"]) == (4, 2, 0.7)
    np.testing.assert_array_equal(logits, seen[1])


def test_a_masked_head_learns_nothing_and_stays_masked_and_frozen_parts_stay(folder):
    """Nothing flows through its columns of W^O: weight decay alone changes them, all alike."""
    model = fresh(folder)
    before = {name: weight.clone() for name, weight in model.net.named_parameters()}
    mask = heads.mask(model, [(1, 2), (3, 4)])
    _, logits = fit(model, replace(SETTINGS, frozen=("embeddings",)), mask=mask)
    out = "bert.encoder.layer.0.attention.output.dense.weight"
    change = model.net.get_parameter(out) / before[out]
    by_head = change.unflatten(1, (4, 8)).transpose(0, 1).flatten(1)
    assert by_head[1].std() < 1e-5 and by_head[1].mean() < 1
    assert by_head[[0, 2, 3]].std(1).min() > 1e-3
    after = dict(model.net.named_parameters())
    same = {name for name in before if torch.equal(after[name], before[name])}
    assert same == {name for name in before if ".embeddings." in name} != set()

    data = finetune.encode(model, TEXTS, None, WOMEN)
    with hooks.head_mask(model, mask):
        np.testing.assert_array_equal(finetune.predict(model, data), logits)
    assert np.abs(finetune.predict(model, data) - logits).max() > 1e-3


@pytest.fixture
def killed(folder, tmp_path):
    """The checkpoint of a run that was killed in its second epoch."""
    file = tmp_path / "run.checkpoint"
    epochs = iter(["the first"])

    def metric(*found):
        next(epochs)
        return right(*found)

    with pytest.raises(StopIteration):
        fit(fresh(folder), metric=metric, checkpoint=file, every=0)
    return file


def test_a_killed_run_goes_on_and_ends_the_same(folder, killed):
    whole, expected = fit(fresh(folder))
    model = fresh(folder)
    model.net.classifier.weight.zero_()  # it comes from the checkpoint
    again, logits = fit(model, checkpoint=killed, every=0)
    assert again == whole
    np.testing.assert_array_equal(logits, expected)
    assert not killed.exists()


def test_what_cannot_be_trained_on_is_refused_in_a_sentence(folder, tmp_path, killed):
    model, name = fresh(folder), str(folder / "bert")
    finetune.sign(tmp_path, model, "files")
    assert finetune.check(tmp_path, name)["source"] == "files"
    finetune.encode(model, TEXTS, None, WOMEN).save(tmp_path / "cut.npz")
    whole = (tmp_path / "cut.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "training.json").write_text("[")
    (tmp_path / "checkpoint").write_bytes(b"no checkpoint")
    no_numbers = [float("nan")] * len(TEXTS)
    here = replace(SETTINGS, rate=1e-3)
    for said, call in {
        "no text": lambda: finetune.encode(model, [], None, []),
        "run the command prepare": lambda: finetune.load(tmp_path / "none.npz"),
        "cut.npz are damaged": lambda: finetune.load(tmp_path / "cut.npz"),
        "no text prepared for": lambda: finetune.check(tmp_path, str(folder / "roberta")),
        "lower rate": lambda: fit(fresh(folder, labels=1), targets=no_numbers),
        "another run": lambda: fit(model, here, checkpoint=killed),
        "--rate nan is no training": lambda: fit(model, replace(SETTINGS, rate=math.nan)),
        "remove it": lambda: fit(model, checkpoint=tmp_path / "checkpoint"),
        "training.json is damaged": lambda: classifier.choose([tmp_path], folder, tmp_path),
    }.items():
        assert said in refusal(call)


# ------------------------------------------------------------------------------ the NLI classifier


@pytest.fixture
def snli(monkeypatch):
    """SNLI of a few made-up pairs; a test pair hides in train."""
    premises = "he likes poetry .", "she likes mathematics .", "a man met a woman ."
    hypotheses = dict(zip(("he was here .", "she was late .", "the office ."), readers.NLI_LABELS))
    rows = [(premise, *pair) for premise in premises for pair in hypotheses.items()]
    frame = pd.DataFrame(rows, columns=["premise", "hypothesis", "label"])
    hidden = frame.assign(premise="the NURSE .").iloc[:1]
    splits = {
        "validation": frame,
        "test": frame.assign(premise="The nurse ."),
        "train": pd.concat([frame.assign(premise="the engineer ."), hidden]),
    }
    monkeypatch.setattr(readers, "snli", lambda split, full=False: splits[split])


def test_a_balanced_classifier_sees_whole_premises_swapped_by_a_coin(snli):
    before = pd.concat([readers.snli("validation")] * 10, ignore_index=True)
    before["premise"] = [f"{i // 3}: Mary said: {text}" for i, text in enumerate(before["premise"])]
    after = classifier._balanced(before)
    swapped = after["premise"] != before["premise"]
    assert 0.3 < swapped.mean() < 0.7  # of 30 premises
    assert (swapped.groupby(before["premise"]).nunique() == 1).all()
    for column in ("premise", "hypothesis"):
        as_asked = [swaps.swap_all(text, names=True) for text in before[column]]
        assert list(after[column]) == list(before[column].where(~swapped, as_asked))
    assert list(after["label"]) == list(before["label"])


def test_the_best_nli_run_is_chosen_tested_and_stored_without_embeddings(folder, tmp_path, snli):
    """Of validation 4 pairs are held out: one whole premise and one pair of the next, whose other
    two go."""
    prepared, name = tmp_path / "prepared", str(folder / "bert")
    counts = classifier.prepare(name, prepared, held_out=4)
    assert counts == {"train": 9 + 3, "validation": 4, "test": 9}
    runs = []
    for rate in ("1e-3", "1e-6"):
        runs.append(str(tmp_path / "runs" / rate))
        options = f"--rate {rate} --epochs 2 --batch 4 --device cpu --out {runs[-1]}".split()
        assert main(["nli", "train", "--model", name, "--prepared", str(prepared), *options]) == 0
    out = ["--prepared", str(prepared), "--device", "cpu", "--out", str(tmp_path / "nli")]
    assert main(["nli", "choose", *runs, *out]) == 0
    stored = load_file(tmp_path / "nli" / "model.safetensors")
    assert "classifier.weight" in stored and not any("embeddings" in name for name in stored)
    record = json.loads((tmp_path / "nli" / "training.json").read_text())
    assert len(record["tried"]) == 2 and record["pairs"] == counts
    assert record["validation"] == max(tried["validation"] for tried in record["tried"])
    model = models.load(str(tmp_path / "nli"), device="cpu", task="sequence-classification")
    assert [model.net.config.id2label[i] for i in range(3)] == readers.NLI_LABELS
    test = finetune.load(prepared / "test.npz")
    assert record["test"] == round(right(finetune.predict(model, test), test.targets.numpy()), 4)


# -------------------------------------------------------------------------------------------- GLUE

# 3 hits, 1 false alarm, 1 miss
GIVEN = np.array([1, 1, 1, 0, 0, 1])
WANTED = np.array([1, 0, 1, 0, 1, 1])
ONES, MIXED, RISING = np.ones(4, int), np.array([0, 1, 1, 0]), np.arange(4.0)
SIZES = {
    "heads_contexts": 1,
    "glue_small": {"rate": 1e-3, "epochs": 2, "batch": 8},
    "glue_large": {},
}


@pytest.mark.parametrize(
    "found, by_hand",
    [
        (finetune.accuracy(GIVEN, WANTED), 4 / 6),
        (glue.f1(GIVEN, WANTED), 2 * 3 / (4 + 4)),
        (glue.f1(1 - ONES, 1 - ONES), 0),
        (glue.matthews(GIVEN, WANTED), (3 * 1 - 1 * 1) / (4 * 4 * 2 * 2) ** 0.5),
        (glue.matthews(ONES, MIXED), 0),
        (glue.pearson(RISING, np.array([0, 1, 1, 2.0])), 3 / (5 * 2) ** 0.5),
        (glue.pearson(ONES, RISING), 0),
        (glue.spearman(np.array([1.0, 9, 4]), np.array([0.1, 0.3, 0.2])), 1),
        (glue.TASKS["MRPC"].constant(np.array([1, 1, 1, 0])), [2 * 3 / (4 + 3), 0.75]),
        (glue.TASKS["MRPC"].scores(np.eye(2)[GIVEN], WANTED), [6 / 8, 4 / 6]),
        (glue.TASKS["STS-B"].scores(np.array([[1.0], [2.0]]), np.array([0.0, 5.0])), [1, 1]),
    ],
)
def test_scores_by_hand(found, by_hand):
    assert found == pytest.approx(by_hand)


@pytest.fixture
def setup(folder, monkeypatch, tmp_path):
    """A tiny model, two tiny tasks prepared for it, and a ranking of its heads."""
    texts, labels = TEXTS[2:6] * 5, {"RTE": [0, 1, 1, 0], "STS-B": [0.0, 2.5, 5.0, 1.0]}
    frames = {}
    for task, label in labels.items():
        frames[task] = pd.DataFrame({"first": texts, "second": texts[::-1], "label": label * 5})
    scored = {"scores": np.arange(12.0).reshape(3, 4) - 7, "seat": 0.5, "sentences": 9}
    monkeypatch.setattr(readers, "glue", lambda task, part, full=False: frames[task])
    monkeypatch.setattr(heads, "measure", lambda *_, **__: scored)
    monkeypatch.setattr(paths, "CACHE", tmp_path / "cache")
    setup = glue.Setup(str(folder / "bert"), SIZES, tmp_path / "out", device="cpu")
    glue.prepare(setup, ["RTE", "STS-B"])
    return setup


def test_a_result_is_kept_and_never_written_over_by_one_of_other_settings(setup, monkeypatch):
    done = {mask: glue.run(setup, "RTE", mask, 0) for mask in glue.MASKS}
    assert glue.ranked(setup) == [[3, 4], [3, 3], [3, 2], [3, 1]]
    assert [done[mask]["heads"] for mask in glue.MASKS] == [0, 3, 4]
    assert done["none"]["examples"] == {"train": 18, "validation": 2, "evaluation": 20}
    assert len({str(run["history"]) for run in done.values()}) == 3
    before = {file: file.read_bytes() for file in setup.out.iterdir()}

    slow = SIZES | {"glue_small": SIZES["glue_small"] | {"rate": 1e-4}}
    other = replace(setup, sizes=slow)
    slower = glue.run(other, "RTE", "none", 0)
    monkeypatch.setattr(finetune, "fit", None)  # calling it would fail
    assert glue.run(setup, "RTE", "none", 0) == json.loads(json.dumps(done["none"]))
    assert glue.run(other, "RTE", "none", 0) == json.loads(json.dumps(slower)) != done["none"]
    with pytest.raises(TypeError):
        glue.run(setup, "RTE", "none", 0, again=True)
    assert {file: file.read_bytes() for file in before} == before
    results, others = glue.stored(setup)
    assert (len(results), others) == (3, 1)
    assert {result["settings"]["rate"] for result in results} == {1e-3}
    assert [len(glue.stored(other)[0]), glue.stored(other)[1]] == [1, 3]
    elsewhere = replace(setup, model=str(setup.out.with_name("seed1")))
    save_tiny("bert", elsewhere.model, seed=1)  # other weights: nothing of theirs is stored
    assert glue.stored(elsewhere) == ([], 4)


FULL, TOP3, EVERY = glue.MASKS.values()


def result(mask, seed):
    return {"task": "RTE", "mask": mask, "seed": seed, "scores": [0.7], "constant": [0.5]}


def test_a_task_counts_once_every_mask_has_the_same_seeds():
    runs = glue.by_run([result(mask, seed) for mask in ("all", "top3", "none") for seed in (1, 0)])
    in_turn = [(mask, seed) for mask in (FULL, TOP3, EVERY) for seed in (0, 1)]
    assert list(zip(runs["mask"], runs["seed"])) == in_turn
    assert len(glue.finished(runs)) == 6
    assert glue.finished(runs[1:]).empty  # a seed is missing
    assert glue.finished(runs[runs["seed"] == 0]).empty  # one seed has no interval


def test_scores_change_by_task_against_the_same_seed():
    """RTE and MRPC with three seeds: Top-3 as good as the full model, All a tenth worse."""
    rows = []
    for row, score in {"RTE accuracy": 0.6, "MRPC f1": 0.8, "MRPC accuracy": 0.7}.items():
        for seed in range(3):
            scores = {FULL: score + 0.01 * (seed - 1), TOP3: score, EVERY: score - 0.1}
            rows += [(row.split()[0], row, mask, seed, scores[mask]) for mask in scores]
    runs = pd.DataFrame(rows, columns=["task", "row", "mask", "seed", "score"])
    lost = masked.score_change(runs, EVERY, FULL)
    assert lost.value == pytest.approx(-0.1) and (lost.n, lost.unit) == (3, "seeds")
    assert lost.high + 0.1 == pytest.approx(4.3027 * 0.01 / 3**0.5, rel=1e-4)  # of the wobble
    kept = masked.score_change(runs, TOP3, FULL)
    assert kept.value == pytest.approx(0) and kept.low < 0 < kept.high
    f1_alone = runs.assign(score=runs["score"].where(runs["row"] != "MRPC accuracy", 0.9))
    assert masked.score_change(f1_alone, EVERY, FULL) == lost  # a task counts once
    random = runs[(runs["mask"] == EVERY) & (runs["task"] == "RTE")].assign(mask="Random-All")
    both = pd.concat([runs, random])  # so far of one task
    assert masked.score_change(both, "Random-All", FULL).value == pytest.approx(-0.1)
    assert tuple(masked.score_change(both, EVERY, "Random-All")) == pytest.approx((0, 0, 0))
    assert math.isnan(masked.score_change(runs.iloc[:0], EVERY, FULL).value)
