"""GLUE: metrics a person can work out, files in one shape, results that are kept, and claims on them."""

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from lib import paths, printed
from lib.bias_a_head import claims, glue, heads
from lib.engine import models
from lib.text import data, readers
from lib.verdict import Outcome
from tests.tiny import refusal, save_tiny

GIVEN, WANTED = np.array([1, 1, 1, 0, 0, 1]), np.array([1, 0, 1, 0, 1, 1])  # 3 hits, 1 false alarm, 1 miss
SIZES = {"heads_contexts": 1, "glue_small": {"rate": 1e-3, "epochs": 2, "batch": 8}, "glue_large": {}}


def test_metrics_by_hand_and_tasks_score_what_table_2_prints():
    assert glue.accuracy(GIVEN, WANTED) == 4 / 6
    assert glue.f1(GIVEN, WANTED) == 2 * 3 / (4 + 4)
    assert glue.matthews(GIVEN, WANTED) == pytest.approx((3 * 1 - 1 * 1) / (4 * 4 * 2 * 2) ** .5)
    ones, zeros = np.ones(4, int), np.zeros(4, int)
    assert glue.matthews(ones, np.array([0, 1, 1, 0])) == 0 and glue.f1(zeros, zeros) == 0 and glue.f1(ones, ones) == 1
    assert glue.pearson(np.arange(4.), np.array([0, 1, 1, 2.])) == pytest.approx(3 / (5 * 2) ** .5)
    assert glue.spearman(np.array([1., 9, 4]), np.array([.1, .3, .2])) == pytest.approx(1)
    assert glue.TASKS["MRPC"].constant(np.array([1, 1, 1, 0])) == [2 * 3 / (4 + 3), .75]
    assert glue.TASKS["MRPC"].scores(np.eye(2)[GIVEN], WANTED) == [glue.f1(GIVEN, WANTED), 4 / 6]
    assert glue.TASKS["STS-B"].scores(np.array([[1.], [2.]]), np.array([0., 5.])) == pytest.approx([1, 1])
    table = printed.printed("bias_a_head", "Table 2")
    assert list(table.index) == [f"{task} {name}" for task, rule in glue.TASKS.items() for name in rule.names]
    assert list(table.columns) == list(glue.MASKS.values())


@pytest.mark.parametrize("task, part, file, text, row", [
    ("CoLA", "evaluation", "CoLA_dev", 'gj04\t0\t*\tThe "car honked down.\n', ['The "car honked down.', "", 0]),
    ("WNLI", "validation", "WNLI_val", '7\tA "b.\tC.\t1\n', ['A "b.', "C.", 1]),
    ("MRPC", "train", "MRPC_becel_train", 'index\tlabel\tsentence1\tsentence2\n3\t1\t"He said "" no "" ."\tnull\n',
     ['He said " no " .', "null", 1]),
    ("STS-B", "train", "STS-B_train", "4\ta\tb\tc\td\te\tf\tA man.\tA boy.\t4.250\n", ["A man.", "A boy.", 4.25]),
    ("SST-2", "evaluation", "SST-2_alps_test", "sentence\tlabel\ngood \t1\n", ["good", "", 1])])
def test_readers_know_each_files_manners(monkeypatch, tmp_path, task, part, file, text, row):
    (tmp_path / f"{file}.tsv").write_text(text)
    monkeypatch.setattr(data, "path", lambda name: tmp_path / name.removeprefix("glue/"))
    assert readers.glue(task, part).values.tolist() == [row]
    refusal(readers.glue, "MNLI", "train")


def test_the_real_files(real_data):
    sizes = {task: [len(readers.glue(task, part)) for part in parts] for task, parts in readers.GLUE.items()}
    assert sizes == {"RTE": [2490, 277], "SST-2": [60614, 6735, 872], "WNLI": [518, 117, 71],
                     "CoLA": [7250, 1301, 1043], "MRPC": [3668, 408], "STS-B": [4249, 1500]}
    for task, parts in readers.GLUE.items():
        train, *_, last = (readers.glue(task, part) for part in parts)
        assert set(train["label"]) == {0, 1} or task == "STS-B" and train["label"].between(0, 5).all()
        shared = last.merge(train[["first", "second"]].drop_duplicates(), on=["first", "second"])
        assert len(shared) <= .02 * len(last), (task, len(shared))  # GLUE's own sets share a few


@pytest.fixture
def setup(monkeypatch, tmp_path):
    """A tiny model, two tiny tasks prepared for it, and a ranking of its heads."""
    save_tiny("bert", tmp_path / "bert")
    texts = ["he likes poetry .", "she likes mathematics .", "the nurse .", "a man met a woman ."] * 5
    frames = {"RTE": pd.DataFrame({"first": texts, "second": texts[::-1], "label": [0, 1, 1, 0] * 5}),
              "STS-B": pd.DataFrame({"first": texts, "second": texts[::-1], "label": [0., 2.5, 5., 1.] * 5})}
    monkeypatch.setattr(readers, "glue", lambda task, part, full=False: frames[task])
    monkeypatch.setattr(heads, "measure", lambda *_, **__: {
        "scores": np.arange(12.).reshape(3, 4) - 7, "seat": .5, "sentences": 9})
    monkeypatch.setattr(paths, "CACHE", tmp_path / "cache")
    setup = glue.Setup(str(tmp_path / "bert"), SIZES, tmp_path / "out", device="cpu")
    glue.prepare(setup, ["RTE", "STS-B"])
    return setup


def test_a_result_is_kept_and_never_written_over_by_one_of_other_settings(setup, monkeypatch):
    done = {mask: glue.run(setup, "RTE", mask, 0) for mask in glue.MASKS}
    assert glue.ranked(setup) == [[3, 4], [3, 3], [3, 2], [3, 1]]
    assert [done[mask]["heads"] for mask in glue.MASKS] == [0, 3, 4]
    assert done["none"]["examples"] == {"train": 18, "validation": 2, "evaluation": 20}
    assert done["none"]["constant"] == [.5] and len({str(run["history"]) for run in done.values()}) == 3
    names = ["RTE_all_0.json", "RTE_none_0.json", "RTE_top3_0.json", "heads.json"]
    before = {name: (setup.out / name).read_bytes() for name in names}
    assert sorted(file.name for file in setup.out.iterdir()) == names
    slow = SIZES | {"glue_small": SIZES["glue_small"] | {"rate": 1e-4}}
    other = glue.Setup(setup.model, slow, setup.out, device="cpu")
    slower = glue.run(other, "RTE", "none", 0)
    monkeypatch.setattr(glue.finetune, "fit", None)  # calling it would fail
    assert glue.run(setup, "RTE", "none", 0) == json.loads(json.dumps(done["none"]))
    assert glue.run(other, "RTE", "none", 0) == json.loads(json.dumps(slower)) != done["none"]
    with pytest.raises(TypeError):
        glue.run(setup, "RTE", "none", 0, again=True)
    assert {name: (setup.out / name).read_bytes() for name in names} == before
    results, others = glue.stored(setup)
    assert len(results) == 3 and others == 1 and {result["settings"]["rate"] for result in results} == {1e-3}
    assert [len(glue.stored(other)[0]), glue.stored(other)[1]] == [1, 3]
    save_tiny("bert", setup.model, seed=1)  # other weights: nothing of theirs is stored
    assert glue.stored(setup) == ([], 4)


def test_the_command_line_shares_out_runs(setup, monkeypatch, capsys):
    monkeypatch.setattr(glue.tomllib, "loads", lambda _: {"sizes": SIZES, "models": {"encoder": setup.model}})
    common = ["--out", str(setup.out), "--device", "cpu", "--limit", "6"]
    assert glue.main(["prepare", *common, "--tasks", "RTE"]) == 0
    for part in ("1/2", "2/2"):
        assert glue.main(["run", *common, "--tasks", "RTE", "--part", part]) == 0
    assert len(list(setup.out.glob("RTE_*_?.json"))) == len(capsys.readouterr().out.splitlines()) == 6
    assert glue.stored(setup) == ([], 6)  # a try is not shown
    limited = glue.Setup(setup.model, SIZES, setup.out, items=6, device="cpu")
    monkeypatch.setattr(glue, "LEARNED", -1.)  # now as many random heads are asked for too
    glue.make(limited, ["RTE"])
    assert {file.name.split("_")[1] for file in setup.out.glob("RTE_*_?.json")} == {*glue.MASKS, *glue.RANDOM}
    assert glue.main(["run", *common, "--tasks", "MNLI"]) == 2


def test_a_run_on_other_data_shows_results_of_its_weights_alone_and_trains_nothing(tmp_path):
    sizes = SimpleNamespace(glue_small=dict(rate=1e-4, epochs=10, batch=32, patience=0, dropout=0.),
                            glue_large=dict(rate=1e-4, epochs=3, batch=128, patience=3))
    run = SimpleNamespace(profile="mini", data="mini", recompute=True, encoder="mini-bert", device=None, sizes=sizes)
    setup, trains = glue.asked(run, paths.FIGURES / "mini-real")
    results, others = glue.stored(setup)
    assert not trains and len(results) + others == len(list(setup.out.glob("*_*_*.json")))
    assert {result["revision"] for result in results} <= {models.locate("mini-bert")[1]}
    run.data, run.profile, run.out, sizes.items = "paper", "paper", tmp_path, 0
    setup, trains = glue.asked(run, paths.FIGURES / "paper")
    assert trains and setup.out == tmp_path / "05_glue" and setup.tasks == list(glue.TASKS)
    assert glue.stored(setup) == ([], 0)


@pytest.fixture
def runs():
    """RTE and MRPC with three seeds: Top-3 as good as the full model, All a tenth worse."""
    rows = []
    for row, score in {"RTE accuracy": .6, "MRPC f1": .8, "MRPC accuracy": .7}.items():
        for mask, shift in zip(glue.MASKS.values(), (0, 0, -.1)):
            wobble = .01 if mask == "0 (Full)" else 0
            rows += [(row.split()[0], row, mask, seed, score + shift + wobble * (seed - 1), .5) for seed in range(3)]
    return pd.DataFrame(rows, columns=["task", "row", "mask", "seed", "score", "constant"])


def test_claims_hold_and_fail_on_what_was_learned(runs):
    kept, lost = claims.of_glue(runs, "m")
    assert (kept.outcome, lost.outcome) == (Outcome.UNDECIDED, Outcome.HOLDS)  # three seeds: a wide interval
    assert lost.estimate.value == pytest.approx(-.1) and lost.models == ["m"]
    assert lost.estimate.high + .1 == pytest.approx(4.3027 * .01 / 3 ** .5, rel=1e-4)  # against the same seed
    assert lost.found.endswith("RTE, MRPC")
    swapped = runs.assign(mask=runs["mask"].replace({"Top-3": "All", "All": "Top-3"}))
    assert [verdict.outcome for verdict in claims.of_glue(swapped, "m")] == [Outcome.FAILS, Outcome.UNDECIDED]
    random = runs[runs["mask"] == "All"].assign(mask="Random-All")
    lost = claims.of_glue(pd.concat([runs, random]), "m")[1]
    assert lost.outcome == Outcome.UNDECIDED and lost.reason == "no more than Random-All"
    for nothing in (runs.iloc[:0], runs.assign(constant=1.)):
        assert {verdict.outcome for verdict in claims.of_glue(nothing, "m")} == {Outcome.NOT_RUN}
