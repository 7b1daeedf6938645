"""GLUE: metrics a person can work out, files in one shape, runs that are kept, and Table 2 from them."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from lib import CompanionError
from lib import printed as paper
from lib.bias_a_head import glue, glue_tables, heads, plots_glue
from lib.publish.profile import read_profile
from lib.publish.run import Run
from lib.text import data, readers
from tests.tiny import one_thread, save_tiny  # noqa: F401

pytestmark = pytest.mark.usefixtures("one_thread")
FOUND, WANTED = np.array([1, 1, 1, 0, 0, 1]), np.array([1, 0, 1, 0, 1, 1])  # 3 hits, 1 false alarm, 1 miss


# metrics

def test_metrics_by_hand():
    assert glue.accuracy(FOUND, WANTED) == 4 / 6
    assert glue.f1(FOUND, WANTED) == 2 * 3 / (4 + 4)
    assert glue.matthews(FOUND, WANTED) == pytest.approx((3 * 1 - 1 * 1) / (4 * 4 * 2 * 2) ** .5)
    assert glue.pearson(np.array([1., 2, 3]), np.array([2., 4, 7])) == pytest.approx(5 / (2 * 38 / 3) ** .5)
    assert glue.spearman(np.array([1., 2, 30, 4]), np.array([0., 0, 9, 5])) == pytest.approx(
        scipy_stats.spearmanr([1, 2, 30, 4], [0, 0, 9, 5]).statistic)


def test_metrics_where_one_class_is_all_there_is():
    ones, zeros = np.ones(4, int), np.zeros(4, int)
    assert glue.matthews(ones, np.array([0, 1, 1, 0])) == 0 and glue.f1(zeros, zeros) == 0 and glue.f1(ones, ones) == 1


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=3, max_size=40))
def test_correlations_are_scipys(pairs):
    found, wanted = np.array(pairs, float).T
    if len(set(found)) > 1 and len(set(wanted)) > 1:
        assert glue.pearson(found, wanted) == pytest.approx(scipy_stats.pearsonr(found, wanted).statistic, abs=1e-9)
        assert glue.spearman(found, wanted) == pytest.approx(scipy_stats.spearmanr(found, wanted).statistic, abs=1e-9)


def test_tasks_score_what_table_2_prints():
    logits = np.eye(2)[FOUND]
    assert glue.TASKS["MRPC"].scores(logits, WANTED) == [glue.f1(FOUND, WANTED), glue.accuracy(FOUND, WANTED)]
    assert glue.TASKS["STS-B"].scores(np.array([[1.], [2.]]), np.array([0., 5.])) == [1., 1.]
    rows = [f"{task} {name}" for task, rule in glue.TASKS.items() for name in rule.names]
    printed = paper.printed("bias_a_head", "Table 2")
    assert rows == list(printed.index) and list(printed.columns) == list(glue.MASKS.values())
    assert printed.loc["CoLA matthews"].tolist() == [.5625, .5702, .5584] and printed.notna().all().all()


# files

def test_readers_know_each_files_manners(monkeypatch, tmp_path):
    files = {"CoLA_dev": 'gj04\t0\t*\tThe "car honked down.\n', "WNLI_val": '7\tA "b.\tC.\t1\n',
             "MRPC_becel_train": 'index\tlabel\tsentence1\tsentence2\n3\t1\t"He said "" no "" ."\tnull\n',
             "STS-B_train": "\t".join(["4", *"abcdef", "A man.", "A boy.", "4.250"]) + "\n",
             "SST-2_alps_test": "sentence\tlabel\ngood \t1\n"}
    for name, text in files.items():
        (tmp_path / f"{name}.tsv").write_text(text)
    monkeypatch.setattr(data, "path", lambda name: tmp_path / name.removeprefix("glue/"))
    assert readers.glue("CoLA", "evaluation").values.tolist() == [['The "car honked down.', "", 0]]
    assert readers.glue("WNLI", "validation").values.tolist() == [['A "b.', "C.", 1]]
    assert readers.glue("MRPC", "train").values.tolist() == [['He said " no " .', "null", 1]]
    assert readers.glue("STS-B", "train").values.tolist() == [["A man.", "A boy.", 4.25]]
    assert readers.glue("SST-2", "evaluation").values.tolist() == [["good", "", 1]]
    with pytest.raises(CompanionError, match="not at hand"):
        readers.glue("MNLI", "train")
    with pytest.raises(CompanionError, match="not at hand"):
        readers.glue("RTE", "validation")


def test_the_hub_has_all_nine(monkeypatch):
    asked = []

    class Split:
        def to_pandas(self):
            return pd.DataFrame({"question": ["Who?"], "sentence": ["He."], "label": [1], "idx": [0]})

    monkeypatch.setattr(data, "hub", lambda *names: asked.append(names) or Split())
    assert readers.glue("QNLI", "evaluation", full=True).values.tolist() == [["Who?", "He.", 1]]
    readers.glue("MNLI", "matched", full=True)
    readers.glue("SST-2", "train", full=True)
    assert asked == [("hub_glue", "qnli", "validation"), ("hub_glue", "mnli", "validation_matched"),
                     ("hub_glue", "sst2", "train")]
    assert set(glue.available("hub")) - set(glue.available("files")) == {"QNLI", "QQP", "MNLI"}


def test_the_real_files(real_data):
    sizes = {task: [len(readers.glue(task, part)) for part in parts] for task, parts in readers.GLUE.items()}
    assert sizes == {"RTE": [2490, 277], "SST-2": [60614, 6735, 872], "WNLI": [518, 117, 71],
                     "CoLA": [7250, 1301, 1043], "MRPC": [3668, 408], "STS-B": [4249, 1500]}
    for task, parts in readers.GLUE.items():
        frames = [readers.glue(task, part) for part in parts]
        assert all((frame["first"] != "").all() for frame in frames)
        assert all(((frame["second"] == "") == (task in ("CoLA", "SST-2"))).all() for frame in frames)
        labels = set(frames[0]["label"])
        assert labels == {0, 1} or task == "STS-B" and min(labels) == 0 and max(labels) == 5
        shared = frames[-1].merge(frames[0][["first", "second"]].drop_duplicates(), on=["first", "second"])
        assert len(shared) <= .02 * len(frames[-1]), (task, len(shared))  # GLUE's own sets share a few


# runs

@pytest.fixture
def small(monkeypatch, tmp_path):
    """A tiny model, two tiny tasks prepared for it, and a ranking of heads: (model folder, prepared, out)."""
    save_tiny("bert", tmp_path / "bert")
    texts = ["he likes poetry .", "she likes mathematics .", "the nurse .", "a man met a woman ."] * 5
    frames = {"RTE": pd.DataFrame({"first": texts, "second": texts[::-1], "label": [0, 1, 1, 0] * 5}),
              "STS-B": pd.DataFrame({"first": texts, "second": texts[::-1], "label": [0., 2.5, 5., 1.] * 5})}
    monkeypatch.setattr(readers, "glue", lambda task, part, full=False: frames[task])
    monkeypatch.setattr(heads, "measure", lambda *_: {
        "scores": np.arange(12.).reshape(3, 4) - 7, "seat": .5, "sentences": 9})
    name, prepared, out = str(tmp_path / "bert"), tmp_path / "prepared", tmp_path / "out"
    glue.prepare(name, "files", ["RTE", "STS-B"], prepared, out)
    glue.rank(name, "paper", 1, out / glue.RANKING)
    return name, prepared, out


PROFILE = {"sizes": {"glue_small": {"rate": 1e-3, "epochs": 2, "batch": 8}}}


def test_a_run_is_kept_and_not_done_again(small, monkeypatch):
    name, prepared, out = small
    assert json.loads((out / glue.RANKING).read_text())["heads"] == [[3, 4], [3, 3], [3, 2], [3, 1]]
    done = {mask: glue.run(name, PROFILE, prepared, out, "RTE", mask, 0, "cpu") for mask in glue.MASKS}
    assert [done[mask]["heads"] for mask in glue.MASKS] == [0, 3, 4]
    assert done["none"]["examples"] == {"train": 18, "validation": 2, "evaluation": 20}
    assert len({str(run["history"]) for run in done.values()}) == 3
    assert sorted(file.name for file in out.iterdir()) == [
        "RTE_all_0.json", "RTE_none_0.json", "RTE_top3_0.json", "heads.json", "tasks.json"]
    about = json.loads((out / glue.ABOUT).read_text())
    assert about["RTE"] == {"examples": done["none"]["examples"], "constant": [.5]}
    assert about["STS-B"]["constant"] == [0, 0]
    monkeypatch.setattr(glue.finetune, "fit", None)  # calling it would fail
    again = glue.run(name, PROFILE, prepared, out, "RTE", "none", 0, "cpu")
    assert again == json.loads(json.dumps(done["none"]))
    other = {"sizes": {"glue_small": PROFILE["sizes"]["glue_small"] | {"rate": 1e-4}}}
    with pytest.raises(TypeError):  # made from other settings: done again
        glue.run(name, other, prepared, out, "RTE", "none", 0, "cpu")


def test_the_command_line_shares_out_runs(small, monkeypatch, capsys):
    name, prepared, out = small
    monkeypatch.setattr(glue, "read_profile", lambda _: PROFILE | {"models": {"encoder": name}})
    common = ["run", "--prepared", str(prepared), "--out", str(out), "--device", "cpu", "--limit", "6",
              "--seeds", "0,1"]
    for part in ("1/2", "2/2"):
        assert glue.main([*common, "--tasks", "RTE,STS-B", "--masks", "none,all", "--part", part]) == 0
    assert len(list(out.glob("*_*_*.json"))) == 8 and len(capsys.readouterr().out.splitlines()) == 8
    assert glue.main([*common, "--tasks", "MNLI"]) == 2 and glue.main([*common, "--masks", "top9"]) == 2
    (out / glue.RANKING).unlink()
    assert glue.main([*common, "--tasks", "RTE", "--masks", "top3"]) == 2
    assert "lib.glue prepare" in capsys.readouterr().err


def test_settings_go_by_size():
    for name in ("mini", "paper"):
        profile = read_profile(name)
        assert glue.settings(profile, 60_614, 2).batch == profile["sizes"]["glue_large"]["batch"]
        assert glue.settings(profile, 2_000, 2).epochs == profile["sizes"]["glue_small"]["epochs"]


# tables

@pytest.fixture
def stored(tmp_path):
    """RTE and MRPC with three seeds: Top-3 as good as the full model, All a tenth worse; and a task half done."""
    shift = {"none": 0, "top3": 0, "all": -.1}
    for task, scores in {"RTE": [.6], "MRPC": [.8, .7], "CoLA": [.1]}.items():
        for mask in glue.MASKS:
            for seed in range(3 if task != "CoLA" or mask == "none" else 1):
                wobble = .01 * (seed - 1) if mask == "none" else 0
                (tmp_path / f"{task}_{mask}_{seed}.json").write_text(json.dumps({
                    "task": task, "mask": mask, "seed": seed, "scores": [s + shift[mask] + wobble for s in scores],
                    "model": "m", "revision": "r", "device": "cpu", "torch": "2"}))
    about = {"RTE": {"constant": [.5]}, "MRPC": {"constant": [.5, .5]}, "CoLA": {"constant": [0]}}
    (tmp_path / glue.ABOUT).write_text(json.dumps(about))
    (tmp_path / glue.RANKING).write_text("{}")
    return glue_tables.read(tmp_path)


@pytest.fixture
def found(stored):
    return glue_tables.whole(stored)


def test_table_2_beside_the_papers(stored, found):
    table = glue_tables.table2(found)
    assert list(table.index) == list(paper.printed("bias_a_head", "Table 2").index)
    assert table.loc["MRPC f1"].tolist() == ["0.500", "0.800 ± 0.010", "0.8701", "0.800 ± 0.000", "0.8748",
                                             "0.700 ± 0.000", "0.8729"]
    assert table.loc["CoLA matthews", "All"] == "-" and table.loc["QQP f1", "constant"] == ""
    missing = glue_tables.not_run(stored).set_index("task")
    assert list(missing.index) == ["SST-2", "WNLI", "QNLI", "CoLA", "QQP", "STS-B", "MNLI"]
    assert missing.loc["CoLA", "state"] == "partly run" and missing.loc["CoLA", "why"].startswith("5 of 9 runs")
    assert missing.loc["MNLI"].tolist() == ["not run", "its files are not at hand"]


def test_changes_are_against_the_same_seed(found):
    moved = glue_tables.changes(found).set_index(["row", "mask"])
    rte = moved.loc[("RTE accuracy", "All")]
    assert rte["value"] == pytest.approx(-.1) and rte["printed"] == -.0453
    assert rte["high"] - rte["value"] == pytest.approx(4.3027 * .01 / 3 ** .5, rel=1e-4)
    assert np.isnan(moved.loc[("MNLI matched", "Top-3"), "value"])


def test_claims_hold_and_fail(found):
    held = glue_tables.claims(found)
    assert list(held["verdict"]) == ["holds (within chance)", "holds", "holds"]
    assert held["ours"].tolist()[1:] == ["-0.100 [-0.125, -0.075], RTE, MRPC", "3 of 3"]
    turned = found.assign(mask=found["mask"].replace({"Top-3": "All", "All": "Top-3"}))
    verdicts = list(glue_tables.claims(turned)["verdict"])  # All moves by nothing, so chance decides the second
    assert [verdicts[0], verdicts[2]] == ["fails", "fails"] and verdicts[1].endswith("(within chance)")


def test_what_was_not_learned_bears_no_claim_out(found):
    assert glue_tables.learned(found) == ["RTE accuracy", "MRPC f1", "MRPC accuracy"]
    poor = found.assign(constant=found["constant"].where(found["row"] != "RTE accuracy", .59))
    assert glue_tables.learned(poor) == ["MRPC f1", "MRPC accuracy"]
    assert glue_tables.claims(poor)["ours"].iloc[2] == "2 of 2"
    for nothing in (found.iloc[:0], found.assign(constant=1.)):
        table = glue_tables.claims(nothing)
        assert table["verdict"].str.startswith("not run").all()
        assert table["paper"].tolist() == ["+0.004, 9 tasks", "-0.011, 9 tasks", "13 of 13"]


def test_against_the_paper(found):
    other, same = (glue_tables.against_paper(found, model).set_index(["row", "column"]) for model in (False, True))
    assert set(other["verdict"]) == {"other model", "not run (see the list of tasks not run)"}
    assert same.loc[("RTE accuracy", "0 (Full)"), "verdict"].startswith("differs")
    assert len(other) == 39


def test_the_figure_says_what_was_found(found):
    figure = plots_glue.changes(found, glue_tables.changes(found), glue_tables.learned(found), "m")
    assert figure.get_suptitle() == "Top-3 masked +0.000, All -0.100: mean over the 3 of 3 scores learned"
    nothing = found.iloc[:0]
    figure = plots_glue.changes(nothing, glue_tables.changes(nothing), [], "m")
    assert "no task" in figure.get_suptitle()
    assert (glue_tables.table2(nothing)[list(glue.MASKS.values())] == "-").all().all()


def test_a_mini_run_shows_what_the_real_one_stored(monkeypatch):
    monkeypatch.setattr(glue, "run", None)  # nothing is computed
    assert glue_tables.folder(Run()).parts[-2:] == ("mini-real", "05_glue")
    assert glue_tables.folder(Run(data="paper")) == glue_tables.folder(Run(recompute=True)) == glue_tables.folder(Run())
    assert glue_tables.folder(Run(model="roberta-base")).parts[-2] == "mini-real-roberta-base"
