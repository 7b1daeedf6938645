"""Fine-tuning, GLUE and debiasing.

They learn, keep what is best and hold masks, and a killed run ends the same.
"""

import itertools
import json
import math
import random
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, strategies as st
from safetensors.torch import load_file

from companion import printed
from companion.bias_a_head import masked
from lib import paths
from lib.bias_a_head import heads
from lib.engine import hooks, models
from lib.text import data, readers, swaps
from tests.tiny import refusal, save_tiny, tiny
from training import classifier, debias, finetune, glue
from training.__main__ import main
from training.corpus import Tokens
from training.packing import packed_attention, unpacked_attention

TEXTS = [
    "the doctor said that she was here .",
    "the nurse said that he was late .",
    "he likes poetry .",
    "she likes mathematics .",
    "a man met the doctor .",
    "a woman met the engineer in the office .",
] * 4
WOMEN = [1, 0, 0, 1, 0, 1] * 4
SETTINGS = finetune.Settings(rate=3e-3, epochs=3, batch=8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    for family in ("bert", "roberta"):
        save_tiny(family, root / family)
    return root


def fresh(folder, family="bert", labels=2):
    """A tiny model under a new classifier, the same at every call."""
    torch.manual_seed(0)
    return models.load(
        str(folder / family), device="cpu", task="sequence-classification", labels=labels
    )


def right(logits, wanted):
    """The share of texts that are classified right."""
    return float((logits.argmax(1) == wanted).mean())


def fit(model, settings=SETTINGS, targets=WOMEN, metric=right, **options):
    """Train and validate on TEXTS: what finetune.fit returns, and the logits after it."""
    data = finetune.encode(model, TEXTS, None, targets)
    done = finetune.fit(model, data, data, metric, settings, **options)
    return done, finetune.predict(model, data, options.get("mask"))


def weights_of(model):
    return {name: weight.clone() for name, weight in model.net.named_parameters()}


# ---------------------------------------------------------------------------------------- examples


def test_a_batch_is_what_the_tokenizer_pads(folder):
    model = fresh(folder)
    data = finetune.encode(model, TEXTS[:4], TEXTS[2:6], [0, 1, 1, 0])
    found = data.batch([2, 0], 24, model)
    wanted = model.tokenizer(
        [TEXTS[2], TEXTS[0]],
        [TEXTS[4], TEXTS[2]],
        padding="max_length",
        max_length=24,
        return_tensors="pt",
    )
    assert found.keys() == wanted.keys()
    for name, value in found.items():
        assert torch.equal(value, wanted[name])


def test_a_text_that_is_too_long_is_cut_and_counted(folder):
    texts = ["he likes poetry .", "poetry " * 60]
    data = finetune.encode(fresh(folder), texts, None, [0, 1])
    assert data.sizes.tolist() == [6, 40]
    assert int(data.cut) == 1


def test_no_text_is_refused(folder):
    assert "no text" in refusal(finetune.encode, fresh(folder), [], None, [])


def test_examples_are_saved_and_loaded(folder, tmp_path):
    data = finetune.encode(fresh(folder), TEXTS[:3], None, [0.5, 2.0, 5.0])
    data.save(tmp_path / "train.npz")
    again = finetune.load(tmp_path / "train.npz")
    assert again.ids.tolist() == data.ids.tolist()
    assert again.targets.dtype == torch.float32
    assert "run the command prepare" in refusal(finetune.load, tmp_path / "none.npz")


def test_prepared_text_is_for_one_model_alone(folder, tmp_path):
    finetune.sign(tmp_path, fresh(folder), "files")
    assert finetune.check(tmp_path, str(folder / "bert"))["source"] == "files"
    for_another = refusal(finetune.check, tmp_path, str(folder / "roberta"))
    assert "run the command prepare" in for_another
    nothing_prepared = refusal(finetune.check, folder, str(folder / "bert"))
    assert "run the command prepare" in nothing_prepared


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


@pytest.mark.parametrize("family", ["bert", "roberta"])  # the second has no segments
def test_it_learns_and_leaves_a_frozen_model(folder, family):
    model = fresh(folder, family)
    done, logits = fit(model, replace(SETTINGS, dropout=0, epochs=8))
    assert done["validation"] == right(logits, np.array(WOMEN)) >= 0.9
    assert done["epochs"] == 8
    assert not model.net.training
    assert not any(weight.requires_grad for weight in model.net.parameters())


def test_a_regression_learns_numbers(folder):
    numbers = [4.0 + woman for woman in WOMEN]

    def closeness(found, wanted):
        return -np.abs(found[:, 0] - wanted).mean()

    settings = replace(SETTINGS, epochs=4, dropout=0)
    done, logits = fit(fresh(folder, labels=1), settings, numbers, closeness)
    assert logits.shape == (len(TEXTS), 1)
    assert done["history"][-1]["loss"] < done["history"][0]["loss"]
    assert done["validation"] == pytest.approx(closeness(logits, numbers), abs=1e-6)


def test_a_training_that_diverges_is_refused(folder):
    no_numbers = [float("nan")] * len(TEXTS)
    said = refusal(fit, fresh(folder, labels=1), SETTINGS, no_numbers, lambda *_: 0.0)
    assert "lower rate" in said


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


def test_a_masked_head_learns_nothing(folder):
    """Nothing flows through its columns of W^O: weight decay alone changes them, all alike."""
    model = fresh(folder)
    before = weights_of(model)
    fit(model, mask=heads.mask(model, [(1, 2), (3, 4)]))
    out = "bert.encoder.layer.0.attention.output.dense.weight"
    change = model.net.get_parameter(out) / before[out]
    by_head = change.unflatten(1, (4, 8)).transpose(0, 1).flatten(1)
    assert by_head[1].std() < 1e-5
    assert by_head[1].mean() < 1
    assert by_head[[0, 2, 3]].std(1).min() > 1e-3


def test_a_mask_of_training_holds_in_prediction(folder):
    model = fresh(folder)
    mask = heads.mask(model, [(1, 2), (3, 4)])
    _, logits = fit(model, mask=mask)
    data = finetune.encode(model, TEXTS, None, WOMEN)
    with hooks.head_mask(model, mask):
        np.testing.assert_array_equal(finetune.predict(model, data), logits)
    assert np.abs(finetune.predict(model, data) - logits).max() > 1e-3


def test_frozen_parts_stay(folder):
    model = fresh(folder)
    before = weights_of(model)
    fit(model, replace(SETTINGS, frozen=("embeddings",)))
    same = set()
    for name, weight in model.net.named_parameters():
        if torch.equal(weight, before[name]):
            same.add(name)
    assert same and same == {name for name in before if ".embeddings." in name}


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


def test_the_checkpoint_of_another_run_is_refused(folder, killed):
    other = replace(SETTINGS, rate=1e-3)
    assert "another run" in refusal(fit, fresh(folder), other, checkpoint=killed)


def test_the_checkpoint_of_other_texts_as_many_is_refused(folder, killed):
    model = fresh(folder)
    other = finetune.encode(model, TEXTS[::-1], None, WOMEN)
    run = finetune.fit, model, other, other, right, SETTINGS
    assert "another run" in refusal(*run, checkpoint=killed)


def test_a_file_that_is_no_checkpoint_is_refused(folder, tmp_path):
    file = tmp_path / "run.checkpoint"
    file.write_bytes(b"no checkpoint")
    assert "remove it" in refusal(fit, fresh(folder), checkpoint=file)


# ------------------------------------------------------------------------------ the NLI classifier


@pytest.fixture
def snli(monkeypatch):
    """SNLI of a few made-up pairs; a test pair hides in train."""
    rows = [
        (f"{a} .", f"{b} .", label)
        for a in ("he likes poetry", "she likes mathematics", "a man met a woman")
        for b, label in zip(("he was here", "she was late", "the office"), readers.NLI_LABELS)
    ]
    frame = pd.DataFrame(rows, columns=["premise", "hypothesis", "label"])
    splits = {
        "validation": frame,
        "test": frame.assign(premise="The nurse ."),
        "train": pd.concat(
            [frame.assign(premise="the engineer ."), frame.assign(premise="the NURSE .").iloc[:1]]
        ),
    }
    monkeypatch.setattr(readers, "snli", lambda split, full=False: splits[split])


@pytest.fixture
def prepared_nli(folder, tmp_path, snli):
    """The tokens of SNLI for the tiny BERT."""
    classifier.prepare(str(folder / "bert"), tmp_path / "prepared", held_out=4)
    return tmp_path / "prepared"


@pytest.fixture
def nli_runs(folder, prepared_nli, tmp_path):
    """The folders of two runs that learn at different rates."""
    runs = []
    for rate in ("1e-3", "1e-6"):
        run = tmp_path / "runs" / rate
        command = ["train", "--model", str(folder / "bert"), "--prepared", str(prepared_nli)]
        command += ["--rate", rate, "--epochs", "2", "--batch", "4"]
        command += ["--device", "cpu", "--out", str(run)]
        assert classifier.main(command) == 0
        runs.append(run)
    return runs


def test_test_pairs_and_split_premises_are_left_out_of_training(folder, tmp_path, snli):
    """4 of validation: one whole premise and one pair of the next, whose other two go."""
    counts = classifier.prepare(str(folder / "bert"), tmp_path / "prepared", held_out=4)
    assert counts == {"train": 9 + 3, "validation": 4, "test": 9}


def test_a_balanced_classifier_sees_whole_premises_swapped_by_a_coin(snli):
    before = pd.concat([readers.snli("validation")] * 20, ignore_index=True)
    before["premise"] = [f"{i // 3}: Mary said: {text}" for i, text in enumerate(before["premise"])]
    after = classifier._balanced(before)
    swapped = after["premise"] != before["premise"]
    assert 0.3 < swapped.mean() < 0.7  # of 60 premises
    assert (swapped.groupby(before["premise"]).nunique() == 1).all()
    for column in ("premise", "hypothesis"):
        as_asked = [swaps.swap_all(text, names=True) for text in before[column]]
        assert list(after[column]) == list(before[column].where(~swapped, as_asked))
    assert list(after["label"]) == list(before["label"])


def test_an_nli_run_stores_no_embeddings(nli_runs):
    stored = load_file(nli_runs[0] / "model.safetensors")
    assert not any("embeddings" in name for name in stored)
    assert "classifier.weight" in stored


def test_the_best_nli_run_is_chosen_and_tested(nli_runs, prepared_nli, tmp_path):
    command = ["choose", *map(str, nli_runs), "--prepared", str(prepared_nli)]
    assert classifier.main([*command, "--device", "cpu", "--out", str(tmp_path / "nli")]) == 0
    record = json.loads((tmp_path / "nli" / "training.json").read_text())
    assert len(record["tried"]) == 2
    assert record["validation"] == max(tried["validation"] for tried in record["tried"])
    assert record["pairs"] == {"train": 12, "validation": 4, "test": 9}
    model = models.load(str(tmp_path / "nli"), device="cpu", task="sequence-classification")
    assert [model.net.config.id2label[i] for i in range(3)] == readers.NLI_LABELS
    test = finetune.load(prepared_nli / "test.npz")
    assert record["test"] == round(right(finetune.predict(model, test), test.targets.numpy()), 4)


def test_an_nli_run_without_prepared_text_is_refused(folder, tmp_path, capsys):
    command = ["train", "--model", str(folder / "bert"), "--prepared", str(tmp_path)]
    assert classifier.main([*command, "--out", "x"]) == 2
    assert "run the command prepare" in capsys.readouterr().err


def test_what_a_classifier_learned_from_is_said_of_those_made_here_alone(folder):
    assert "35,170 pairs: the training pairs that can" in classifier.learned_from("mini-bert-nli")
    assert (
        classifier.learned_from("null-nli") == classifier.learned_from(str(folder / "bert")) == ""
    )


def test_an_nli_classifier_is_made_at_once_and_text_is_prepared_once(
    folder, tmp_path, snli, monkeypatch
):
    monkeypatch.setattr(classifier, "PREPARED", tmp_path)
    make = ["make", "--model", str(folder / "bert"), "--device", "cpu", "--items", "2"]
    assert classifier.main(make) == 0
    (made,) = tmp_path.glob("*-nli-limit2")
    record = json.loads((made / "training.json").read_text())
    assert record["pairs"] == {"train": 2, "validation": 2, "test": 2}
    said = classifier.learned_from(str(made))
    assert (
        "learned from 2 pairs: SNLI's training pairs, and SNLI's validation pairs but for 2" in said
    )
    monkeypatch.setattr(classifier, "prepare", None)  # calling it would fail
    again = tmp_path / "again"
    assert classifier.main([*make, "--out", str(again)]) == 0
    assert (again / "model.safetensors").exists()


# -------------------------------------------------------------------------------------------- GLUE

# 3 hits, 1 false alarm, 1 miss
GIVEN = np.array([1, 1, 1, 0, 0, 1])
WANTED = np.array([1, 0, 1, 0, 1, 1])
SIZES = {
    "heads_contexts": 1,
    "glue_small": {"rate": 1e-3, "epochs": 2, "batch": 8},
    "glue_large": {},
}


def test_metrics_by_hand():
    assert glue.accuracy(GIVEN, WANTED) == 4 / 6
    assert glue.f1(GIVEN, WANTED) == 2 * 3 / (4 + 4)
    assert glue.matthews(GIVEN, WANTED) == pytest.approx((3 * 1 - 1 * 1) / (4 * 4 * 2 * 2) ** 0.5)
    pearson = glue.pearson(np.arange(4.0), np.array([0, 1, 1, 2.0]))
    assert pearson == pytest.approx(3 / (5 * 2) ** 0.5)
    assert glue.spearman(np.array([1.0, 9, 4]), np.array([0.1, 0.3, 0.2])) == pytest.approx(1)


def test_metrics_of_one_answer_to_everything_are_zero():
    assert glue.matthews(np.ones(4, int), np.array([0, 1, 1, 0])) == 0
    assert glue.f1(np.zeros(4, int), np.zeros(4, int)) == 0


def test_tasks_are_scored_by_their_metrics():
    assert glue.TASKS["MRPC"].constant(np.array([1, 1, 1, 0])) == [2 * 3 / (4 + 3), 0.75]
    assert glue.TASKS["MRPC"].scores(np.eye(2)[GIVEN], WANTED) == [glue.f1(GIVEN, WANTED), 4 / 6]
    found = glue.TASKS["STS-B"].scores(np.array([[1.0], [2.0]]), np.array([0.0, 5.0]))
    assert found == pytest.approx([1, 1])


def test_tasks_and_masks_are_the_rows_and_columns_of_table_2():
    rows, columns = printed.printed("bias_a_head", "Table 2").axes
    expected = []
    for task, rule in glue.TASKS.items():
        expected += [f"{task} {name}" for name in rule.names]
    assert list(rows) == expected
    assert list(columns) == list(glue.MASKS.values())


@pytest.mark.parametrize(
    "task, part, file, text, row",
    [
        (
            "CoLA",
            "evaluation",
            "CoLA_dev",
            'gj04\t0\t*\tThe "car honked down.\n',
            ['The "car honked down.', "", 0],
        ),
        (
            "MRPC",
            "train",
            "MRPC_becel_train",
            'index\tlabel\tsentence1\tsentence2\n3\t1\t"He said "" no "" ."\tnull\n',
            ['He said " no " .', "null", 1],
        ),
        (
            "STS-B",
            "train",
            "STS-B_train",
            "4\ta\tb\tc\td\te\tf\tA man.\tA boy.\t4.250\n",
            ["A man.", "A boy.", 4.25],
        ),
        ("SST-2", "evaluation", "SST-2_alps_test", "sentence\tlabel\ngood \t1\n", ["good", "", 1]),
    ],
)
def test_readers_know_each_files_manners(monkeypatch, tmp_path, task, part, file, text, row):
    (tmp_path / f"{file}.tsv").write_text(text)
    monkeypatch.setattr(data, "path", lambda name: tmp_path / name.removeprefix("glue/"))
    assert readers.glue(task, part).values.tolist() == [row]
    refusal(readers.glue, "MNLI", "train")


@pytest.fixture
def setup(monkeypatch, tmp_path):
    """A tiny model, two tiny tasks prepared for it, and a ranking of its heads."""
    save_tiny("bert", tmp_path / "bert")
    texts, labels = TEXTS[2:6] * 5, {"RTE": [0, 1, 1, 0], "STS-B": [0.0, 2.5, 5.0, 1.0]}
    frames = {
        task: pd.DataFrame({"first": texts, "second": texts[::-1], "label": label * 5})
        for task, label in labels.items()
    }
    monkeypatch.setattr(readers, "glue", lambda task, part, full=False: frames[task])
    monkeypatch.setattr(
        heads,
        "measure",
        lambda *_, **__: {"scores": np.arange(12.0).reshape(3, 4) - 7, "seat": 0.5, "sentences": 9},
    )
    monkeypatch.setattr(paths, "CACHE", tmp_path / "cache")
    setup = glue.Setup(str(tmp_path / "bert"), SIZES, tmp_path / "out", device="cpu")
    glue.prepare(setup, ["RTE", "STS-B"])
    return setup


def test_a_killed_glue_run_goes_on_from_the_file_that_it_wrote(setup, monkeypatch):
    """The file's name matters: torch reads one that ends in .safetensors as such."""
    whole = glue.run(setup, "RTE", "none", 0)
    other = replace(setup, out=setup.out.with_name("killed"))
    monkeypatch.setattr(finetune, "fit", partial(finetune.fit, every=0))
    epochs = iter(["the first"])

    def predict(*found):
        next(epochs)
        return done(*found)

    done = finetune.predict
    with monkeypatch.context() as patched, pytest.raises(StopIteration):
        patched.setattr(finetune, "predict", predict)
        glue.run(other, "RTE", "none", 0)
    names = [file.name for file in other.out.iterdir()]
    assert "RTE_none_0.checkpoint" in names and "RTE_none_0.json" not in names
    assert glue.run(other, "RTE", "none", 0) == whole
    assert not list(other.out.glob("*.checkpoint"))


def test_a_result_is_kept_and_never_written_over_by_one_of_other_settings(setup, monkeypatch):
    done = {mask: glue.run(setup, "RTE", mask, 0) for mask in glue.MASKS}
    assert glue.ranked(setup) == [[3, 4], [3, 3], [3, 2], [3, 1]]
    assert [done[mask]["heads"] for mask in glue.MASKS] == [0, 3, 4]
    assert done["none"]["examples"] == {"train": 18, "validation": 2, "evaluation": 20}
    assert (
        done["none"]["constant"] == [0.5]
        and len({str(run["history"]) for run in done.values()}) == 3
    )
    before = {file: file.read_bytes() for file in setup.out.iterdir()}
    assert sorted(file.stem for file in before) == [
        "RTE_all_0",
        "RTE_none_0",
        "RTE_top3_0",
        "heads",
    ]
    slow = SIZES | {"glue_small": SIZES["glue_small"] | {"rate": 1e-4}}
    other = glue.Setup(setup.model, slow, setup.out, device="cpu")
    slower = glue.run(other, "RTE", "none", 0)
    monkeypatch.setattr(glue.finetune, "fit", None)  # calling it would fail
    assert glue.run(setup, "RTE", "none", 0) == json.loads(json.dumps(done["none"]))
    assert glue.run(other, "RTE", "none", 0) == json.loads(json.dumps(slower)) != done["none"]
    with pytest.raises(TypeError):
        glue.run(setup, "RTE", "none", 0, again=True)
    assert {file: file.read_bytes() for file in before} == before
    results, others = glue.stored(setup)
    assert (
        len(results) == 3
        and others == 1
        and {result["settings"]["rate"] for result in results} == {1e-3}
    )
    assert [len(glue.stored(other)[0]), glue.stored(other)[1]] == [1, 3]
    save_tiny("bert", setup.model, seed=1)  # other weights: nothing of theirs is stored
    assert glue.stored(setup) == ([], 4)


def test_the_command_line_shares_out_runs(setup, monkeypatch, capsys):
    monkeypatch.setattr(
        glue.tomllib, "loads", lambda _: {"sizes": SIZES, "models": {"encoder": setup.model}}
    )
    monkeypatch.setattr(glue, "LEARNED", 2.0)  # nothing is learned so well, whatever the luck
    common = ["--out", str(setup.out), "--device", "cpu", "--limit", "6"]
    assert glue.main(["prepare", *common, "--tasks", "RTE"]) == 0
    for part in ("1/2", "2/2"):
        assert glue.main(["run", *common, "--tasks", "RTE", "--part", part]) == 0
    assert (
        len(list(setup.out.glob("RTE_*_?.json"))) == len(capsys.readouterr().out.splitlines()) == 6
    )
    assert glue.stored(setup) == ([], 6)  # a try is not shown
    limited = glue.Setup(setup.model, SIZES, setup.out, items=6, device="cpu")
    monkeypatch.setattr(glue, "LEARNED", -1.0)  # now as many random heads are asked for too
    glue.make(limited, ["RTE"])
    assert {file.name.split("_")[1] for file in setup.out.glob("RTE_*_?.json")} == {
        *glue.MASKS,
        *glue.RANDOM,
    }
    assert glue.main(["run", *common, "--tasks", "MNLI"]) == 2


@pytest.fixture
def runs():
    """RTE and MRPC with three seeds: Top-3 as good as the full model, All a tenth worse."""
    rows = []
    for row, score in {"RTE accuracy": 0.6, "MRPC f1": 0.8, "MRPC accuracy": 0.7}.items():
        for mask, shift in zip(glue.MASKS.values(), (0, 0, -0.1)):
            wobble = 0.01 if mask == "0 (Full)" else 0
            rows += [
                (row.split()[0], row, mask, seed, score + shift + wobble * (seed - 1), 0.5)
                for seed in range(3)
            ]
    return pd.DataFrame(rows, columns=["task", "row", "mask", "seed", "score", "constant"])


def test_scores_change_by_task_against_the_same_seed_where_the_model_has_learned(runs):
    full, top3, every = glue.MASKS.values()
    lost = masked.score_change(runs, every, full)
    assert lost.value == pytest.approx(-0.1) and (lost.n, lost.unit) == (3, "seeds")
    assert lost.high + 0.1 == pytest.approx(4.3027 * 0.01 / 3**0.5, rel=1e-4)  # of the wobble
    kept = masked.score_change(runs, top3, full)
    assert kept.value == pytest.approx(0) and kept.low < 0 < kept.high
    f1_alone = runs.assign(score=runs["score"].where(runs["row"] != "MRPC accuracy", 0.9))
    assert masked.score_change(f1_alone, every, full) == lost  # a task counts once
    random = runs[(runs["mask"] == every) & (runs["task"] == "RTE")].assign(mask="Random-All")
    both = pd.concat([runs, random])  # so far of one task
    assert masked.score_change(both, "Random-All", full).value == pytest.approx(-0.1)
    assert tuple(masked.score_change(both, every, "Random-All")) == pytest.approx((0, 0, 0))
    for nothing in (runs.iloc[:0], runs.assign(constant=1.0)):
        assert math.isnan(masked.score_change(nothing, every, full).value)


def test_a_row_for_each_pair_gives_what_packing_gives_and_dropout_has_the_rate_asked_for():
    torch.manual_seed(0)
    query, key, value = torch.randn(3, 1, 2, 40, 8, requires_grad=True)
    bounds = torch.tensor(
        [0, 9, 10, 25, 33, 33, 40], dtype=torch.int32
    )  # one pair is empty, the last is padding
    packed = packed_attention(None, query, key, value, bounds=bounds, longest=16)[0]
    rows = unpacked_attention(query, key, value, bounds, 16)
    assert torch.allclose(packed[:, :33], rows[:, :33], atol=1e-6)
    ways = [
        torch.autograd.grad(found[:, :33].square().sum(), (query, key, value))
        for found in (packed, rows)
    ]
    for one, other in zip(*ways):
        assert torch.allclose(one, other, atol=1e-5)
    torch.manual_seed(0)
    query, key = torch.zeros(
        2, 1, 1, 4_000, 1
    )  # alike, so each of a pair's four tokens gets a quarter
    bounds = torch.arange(0, 4_004, 4, dtype=torch.int32)
    mixed = packed_attention(
        None, query, key, torch.ones_like(key), bounds=bounds, longest=4, dropout=0.15
    )[0]
    kept = mixed.mean() * 0.85  # a kept weight is divided by the share of those kept
    assert kept.item() == pytest.approx(0.85, abs=0.02)
    assert len(mixed.unique()) == 5  # 0 to 4 of the four kept


@pytest.fixture(scope="module")
def base(folder):
    return str(folder / "bert")


@pytest.fixture(scope="module")
def prepared(base, tmp_path_factory):
    """A text of 30 documents that speak of people, and one that does not."""
    folder = tmp_path_factory.mktemp("text")
    lines = [
        "The doctor said that she was here. The nurse said that he was late.",
        "He likes poetry. She met him.",
        "A man and a woman met the engineer in the office. His office is here.",
    ]
    texts = [f"{lines[i % 3]}\n{lines[(i + 1) % 3]}" for i in range(30)] + [
        "The engineer is in the office."
    ]
    for part in ("train", "heldout"):
        (folder / f"{part}.txt").write_text("\n\n".join(texts))
    (folder / "counts.json").write_text("{}")
    assert (
        main(
            [
                "debias",
                "prepare",
                "--text",
                str(folder),
                "--prepared",
                str(folder / "out"),
                "--model",
                base,
            ]
        )
        == 0
    )
    return folder / "out"


def test_passages_are_runs_of_paragraphs_each_followed_by_its_twin(base, prepared):
    tokenizer = models.load(base, device="cpu").tokenizer
    both = Tokens.load(prepared / "passages.npz")
    alone = both.every_other_document()
    assert (
        len(both.documents) == 60 and len(alone.documents) == 30
    )  # the text without a gender word is left out
    first, twin = (
        tokenizer.decode(both.ids[a:b]) for a, b in zip(both.documents[:2], both.documents[1:3])
    )
    assert "doctor said that she was" in first and "doctor said that he was" in twin
    assert tokenizer.decode(alone.ids).startswith(first)
    counts = json.loads((prepared / "prepared.json").read_text())
    assert (
        counts["passages"] == 30 and counts["swapped"] >= 90 and counts["tokens"] == len(both.ids)
    )
    document = "\n".join(f"{i} " + "word " * random.Random(i).randint(1, 300) for i in range(40))
    passages = debias.passages(document)
    assert "\n".join(passages) == document and len(passages) > 3
    assert all(len(passage) >= debias.PASSAGE for passage in passages[:-1])
    assert all(len("".join(passage.split("\n")[:-1])) < debias.PASSAGE for passage in passages)


def continued(way, base, prepared, out, **options):
    options = (
        dict(steps=3, batch_tokens=512, measure_batches=1, warmup=1, device="cpu", seed=0) | options
    )
    return debias.train(way, out, prepared, base, **options)


@pytest.mark.parametrize("way", debias.WAYS)
def test_only_attention_and_norms_change_and_the_difference_is_the_model(
    way, base, prepared, tmp_path
):
    record = continued(way, base, prepared, tmp_path / way)
    before, after = models.load(base, device="cpu"), models.load(str(tmp_path / way), device="cpu")
    changed = {
        name
        for name, weight in after.net.named_parameters()
        if not torch.equal(weight, before.net.get_parameter(name))
    }
    stored = load_file(tmp_path / way / "model.safetensors")
    assert changed == set(stored) and changed and all(debias.is_trained(name) for name in changed)
    assert {
        f"bert.encoder.layer.2.{name}"
        for name in (
            "attention.self.query.weight",
            "attention.output.dense.weight",
            "output.LayerNorm.bias",
        )
    } <= changed
    assert not any(
        "embeddings" in name or "intermediate" in name or "cls." in name for name in changed
    )
    assert json.loads((tmp_path / way / "training.json").read_text()) == record
    assert record["base_revision"] == before.revision and record["training"]["steps"] == 3
    assert (
        record["heldout"].keys()
        == record["heldout_before"].keys()
        >= {"mlm_perplexity", "nsp_accuracy"}
    )
    assert after.net.config.hidden_dropout_prob == before.net.config.hidden_dropout_prob


def test_a_share_of_the_way_to_the_trained_weights_is_shipped_and_dropout_is_in_its_place(
    base, prepared, tmp_path
):
    start = models.load(base, device="cpu").net.state_dict()
    ends = {
        kept: continued("dropout", base, prepared, tmp_path / str(kept), kept=kept)
        for kept in (1.0, 0.25)
    }
    whole, part = (load_file(tmp_path / str(kept) / "model.safetensors") for kept in ends)
    for name in part:
        torch.testing.assert_close(
            part[name].float(),
            0.75 * start[name] + 0.25 * whole[name].float(),
            atol=2e-3,
            rtol=2e-3,
        )
    assert ends[1.0]["heldout"] != ends[0.25]["heldout"]  # measured as it ships
    task = debias.Continued(models.load(base, device="cpu"), hidden=0.2, attention=0.15)
    layer = task.net.bert.encoder.layer[1]
    assert (
        layer.attention.self.dropout.p,
        layer.attention.output.dropout.p,
        layer.output.dropout.p,
    ) == (0.15, 0.2, 0.2)
    assert task.net.bert.embeddings.dropout.p == 0.2
    assert "Say how long" in refusal(debias.train, "cda", tmp_path, prepared, base)
    assert "no share" in refusal(continued, "cda", base, prepared, tmp_path / "out", kept=1.5)
    assert "holds no text prepared for" in refusal(
        continued, "cda", base, tmp_path, tmp_path / "out"
    )
    assert "holds no prepared text" in refusal(debias.prepare, tmp_path, tmp_path / "out", base)
    assert "no next-sentence head" in refusal(debias.Continued, tiny("roberta"))
