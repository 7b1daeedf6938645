"""What a run is called, how few it may take, that it writes whole files, when it computes again,
heavy measurements.
"""

import dataclasses
import errno
import importlib.util
import json
import os
import pathlib
import re
import runpy
import shutil
import time
from types import SimpleNamespace

import joblib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from joblib._store_backends import FileSystemStoreBackend

from companion import __main__ as command, look, notebooks, printed, profiles, results, stale
from companion.claims import Test
from companion.run import Run
from lib import paths
from lib.bias_a_head import heads, masking, patching
from lib.engine import folders, models
from lib.engine.files import fingerprint, new_folder, replace
from lib.engine.stats import Estimate
from tests.tiny import disk, refusal


@pytest.fixture(autouse=True)
def apart(tmp_path, monkeypatch):
    """Cache and figures in a temporary folder, whatever the caller's environment says."""
    monkeypatch.delenv("COMPANION_OUT", raising=False)
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    monkeypatch.setattr(paths, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(paths, "FIGURES", tmp_path / "figures")
    monkeypatch.setattr(paths, "BUILD", tmp_path / "build")


@pytest.mark.parametrize(
    "parameters, name, is_control",
    [
        (dict(), "mini", False),
        (dict(data="paper"), "mini-real", False),
        (dict(profile="paper"), "paper", False),
        (dict(model="gpt2-medium"), "mini-gpt2-medium", False),
        (dict(model="null-gpt2"), "mini-null-gpt2", True),
        (dict(profile="null"), "null", True),
        (dict(model="null"), "mini-null", True),
        (dict(profile="paper", model="roberta-base", device="cpu"), "paper-roberta-base", False),
    ],
)
def test_name_and_place_and_whether_it_is_a_control(
    parameters, name, is_control, tmp_path, monkeypatch
):
    assert Run(**parameters).name == name and Run(**parameters).is_control == is_control
    assert Run(**parameters).out == paths.BUILD / name / "figures"
    assert Run(**parameters).stored == paths.FIGURES / name
    monkeypatch.setenv("COMPANION_OUT", str(tmp_path / "elsewhere"))
    assert Run(**parameters).out == tmp_path / "elsewhere"
    assert Run(**parameters, out="figures/mine").out == paths.ROOT / "figures" / "mine"


def test_untrained_networks_are_a_profile_and_their_other_draws_keep_tests_alone(tmp_path):
    drawn, first, balanced = (Run(profile=name) for name in ("null@3", "null", "balanced"))
    assert drawn.models == {
        *("null@3", "null-gpt2@3", "null-nli@3", "null-roberta@3", "null-albert@3"),
        *("null@103", "null-gpt2@103"),
    }
    assert (first.debiased, first.llama) == (["null@100"], ["null-gpt2", "null-gpt2@100"])
    assert vars(drawn.sizes) == vars(Run().sizes) and drawn.flags == ["--profile", "null@3"]
    assert drawn.stored == paths.FIGURES / "null" / "draws" / "3" and balanced.is_control
    assert (balanced.cloze, balanced.decoder) == (["balanced"], "null-gpt2")
    assert Run(profile="null@3", data="paper").stored == paths.FIGURES / "null-real" / "draws" / "3"
    assert Run(profile="null@3-limit8").name == "null@3-limit8"
    run = Run(profile="null@3", out=tmp_path)
    run.save(pd.DataFrame({"a": [1]}), "02_table", "A table.")
    run.compared("02", "bias_a_head", {("Table 1", "full", "SEAT"): ("1.2", "not comparable")})
    run.judged("02", [Test("heads-near-zero", Estimate(0.5, 0.4, 0.6, 9), "null@3")])
    (kept,) = tmp_path.rglob("*.*")
    assert kept.relative_to(tmp_path).as_posix() == "claims/02.json"


def test_no_two_models_share_a_run_and_a_relative_cache_is_one_of_the_repository(
    tmp_path, monkeypatch
):
    names = set()
    for folder, is_control in {
        "c b": False,
        "c-b": False,
        "c/b": False,
        "unbalanced": False,
        "balanced": True,
    }.items():
        replace(tmp_path / folder / "config.json", b'{"model_type": "bert"}')
        replace(tmp_path / folder / "model.safetensors", b"")
        names.add(Run(model=str(tmp_path / folder)).name)
        assert Run(model=str(tmp_path / folder)).is_control == is_control
    assert len(names) == 5
    for config in (b"{", b'{"a": "\xe9"}', b"[]"):  # not JSON, latin-1, a list
        replace(tmp_path / "c b" / "config.json", config)
        assert "config.json is damaged" in refusal(Run, model=str(tmp_path / "c b"))
    monkeypatch.chdir(tmp_path)  # notebooks and command line work in different folders
    for given, expected in ("my/cache", paths.ROOT / "my/cache"), (str(tmp_path), tmp_path):
        monkeypatch.setenv("COMPANION_CACHE", given)
        assert runpy.run_path(paths.__file__)["CACHE"] == expected


@pytest.mark.parametrize("profile", ["mini", "paper"])
def test_on_the_papers_data_table_3_has_the_rows_that_the_paper_prints(profile):
    """All but the last are numbers of heads: 0, 5, 10, ..., 40."""
    rows = printed.printed("bias_a_head", "Table 3").index
    theirs = {int(row) for row in rows if row.isdigit()}
    step = Run(profile=profile, data="paper").sizes.lpbs_step["paper"]
    assert set(range(0, 41, step)) == theirs


def test_a_try_is_a_profile_of_its_own():
    full, few = (profiles.read(name).sizes for name in ("paper", "paper-limit8"))
    assert full["items"] == 0 and few["items"] == 8 and full.keys() == few.keys()
    assert (few["counter_sentences"], few["heads_contexts"]) == (8, 2)
    assert (few["masking_lines"]["paper"], few["masking_draws"]["paper"]) == (8, 2)
    assert all(few[name] == full[name] for name in profiles.NOT_ITEMS - {"items"})
    for name in few.keys() - profiles.NOT_ITEMS:
        assert all(1 <= int(n) <= 8 for n in re.findall(r"\d+", str(few[name]))), name
    run = Run(profile="paper-limit8", model="roberta-base")
    assert run.name == "paper-roberta-base-limit8" and run.profile == "paper"
    assert run.flags == ["--profile", "paper", "--model", "roberta-base", "--limit", "8"]
    made = paths.CACHE / "nli" / "bert-base-nli-limit8"  # one trained on few examples
    assert Run(profile="paper-limit8").classifier == str(made)
    assert Run(profile="mini-limit8").classifier == "mini-bert-nli"  # ships
    assert "--limit 2 or more" in refusal(Run, profile="mini-limit1")


@pytest.mark.parametrize(
    "architecture, roles",
    [
        ("LlamaForCausalLM", ("mini-bert", "X", "mini-bert-nli", [])),
        ("Qwen2ForCausalLM", ("mini-bert", "X", "mini-bert-nli", [])),
        (
            "BertForSequenceClassification",
            ("mini-bert", "mini-gpt2", "X", ["mini-bert-cda", "mini-bert-dropout"]),
        ),
        ("BertForPreTraining", ("X", "mini-gpt2", "", ["X"])),
        ("AlbertForMaskedLM", ("X", "mini-gpt2", "", ["X"])),
    ],
)
def test_a_model_takes_the_place_of_its_kind(tmp_path, architecture, roles):
    config = {
        "model_type": architecture.partition("For")[0].lower(),
        "architectures": [architecture],
    }
    replace(tmp_path / "config.json", json.dumps(config).encode())
    replace(tmp_path / "model.safetensors", b"")
    run = Run(model=str(tmp_path))
    found = json.dumps([run.encoder, run.decoder, run.classifier, run.debiased]).replace(
        str(tmp_path), "X"
    )
    assert json.loads(found) == list(roles) and run.cloze == [str(tmp_path)]
    is_decoder = run.decoder == str(tmp_path)
    assert run.llama == ([str(tmp_path)] if is_decoder else ["mini-gpt2", "mini-gpt2-chat"])


def test_models_that_are_named(monkeypatch):
    assert Run().company == ["mini-bert", "mini-roberta", "mini-albert", "mini-gpt2"]
    assert Run(model="mini-albert").company == ["mini-albert", "mini-gpt2"]
    assert Run(profile="paper").company == ["bert-base", "gpt2"]
    monkeypatch.setattr(folders, "REGISTRY", dict(folders.REGISTRY))
    run = Run(model="roberta-base@0123abc")
    assert run.encoder == "roberta-base" and run.name.startswith("mini-roberta-base-0123abc-")
    assert run.flags == ["--model", "roberta-base", "--revision", "0123abc"]
    assert folders.pinned("FacebookAI/roberta-base") == "0123abc"
    run = Run(model="null@3")
    assert (run.encoder, run.revision, run.classifier) == ("null@3", "", "")
    assert run.weights(["null@3"])["null@3"] != Run(model="null").weights(["null"])["null"]
    nowhere = dataclasses.replace(folders.REGISTRY["seed1"], source=paths.ROOT / "nowhere")
    folders.REGISTRY["seed1"] = nowhere
    refused = {"mini-brt": "no model", "mini-bert@0123abc": "is a folder", "seed1": "train it"}
    for name, said in refused.items():
        assert said in refusal(Run, data="paper", model=name)


@pytest.mark.parametrize(
    "text, message",
    [
        ('data = ["mini"]\nspeed = 1\n', "unknown key speed"),
        ("[sizes]\ndrows = 5\n", "unknown key sizes.drows"),
        ("data = [", "is not TOML"),
    ],
)
def test_a_profile_says_what_differs_from_mini_and_a_wrong_one_is_named(
    tmp_path, monkeypatch, text, message
):
    shutil.copytree(paths.PROFILES, tmp_path / "profiles")
    monkeypatch.setattr(paths, "PROFILES", tmp_path / "profiles")
    mine = paths.PROFILES / "mine.toml"
    assert "no profile mine: choose one of mini" in refusal(Run, profile="mine")
    mine.write_text('data = ["paper"]\n[sizes]\nglue_small = {rate = 1e-5}\n')
    run = Run(profile="mine")
    assert run.data == "paper" and run.encoder == "mini-bert"
    assert vars(run.sizes) == vars(Run().sizes) | {"glue_small": {"rate": 1e-5}}
    mine.write_text(text)
    said = refusal(Run, profile="mine")
    assert "mine.toml" in said and message in said


def figure():
    axes = plt.subplots()[1]
    axes.plot([1, 2, 4], marker="o", label="a line")
    axes.fill_between([0, 1], [1, 2], hatch="/")
    axes.legend()
    return axes.figure


def test_figures_are_the_same_to_the_byte_and_a_result_says_what_it_is(tmp_path):
    def saved(folder):
        Run(out=folder).save(look.sign(figure(), "A line that goes up", "nobody"), "fig", "A line.")
        return {file.name: file.read_bytes() for file in folder.iterdir()}

    plt.close("all")
    made = saved(tmp_path / "one")
    assert sorted(made) == ["fig.json", "fig.png", "fig.svg"] and saved(tmp_path / "two") == made
    assert not plt.get_fignums()  # closed, so that Jupyter shows it once
    run = Run()
    run.save(look.sign(figure(), "Most heads of mini-\nbert do\nnothing", "mini-bert"), "a", "")
    run.save(pd.DataFrame({"x": [Estimate(0.5, 0.25, 0.75, n=8), None]}), "b", "")
    assert (run.out / "b.csv").read_text() == "x,x low,x high,x n\n0.5,0.25,0.75,8\n,,,\n"
    made = {name: json.loads((run.out / f"{name}.json").read_text()) for name in "ab"}
    assert (
        made["a"]["finding"] == "Most heads of mini-bert do nothing" and "finding" not in made["b"]
    )


def test_a_result_says_what_it_was_made_from(monkeypatch):
    monkeypatch.setenv("JPY_SESSION_NAME", "notebooks/03_counter_stereotype.ipynb")
    loaded = SimpleNamespace(revision="r1")
    monkeypatch.setattr(models, "load", lambda name, device: loaded)
    run = Run(profile="paper", model="gpt2-large", device="cuda", seed=7)
    run.load(run.decoder)
    words = pd.Index(["nurse"], name="word")
    run.save(pd.DataFrame({"x": [1 / 3]}, index=words), "table", "Said in one line.")
    assert (run.out / "table.csv").read_text() == "word,x\nnurse,0.333333\n"
    made = json.loads((run.out / "table.json").read_text())
    assert (made["caption"], made["models"]) == ("Said in one line.", {"gpt2-large": "r1"})
    assert (made["run"], made["seed"], list(made["data"])) == ("paper-gpt2-large", 7, ["paper"])
    command = "./reproduce.sh --only 03 --profile paper --model gpt2-large --device cuda"
    assert made["command"] == command and "+" not in made["versions"]["torch"]


def test_what_another_run_has_stored_is_shown_with_its_command(capsys):
    other = Run(data="paper")
    long = "a cell of more than fifty letters, which a table of claims has in each row"
    Run(out=other.stored, data="paper").save(pd.DataFrame({"level": [long, "null"]}), "09_a", "A.")
    shown = Run().show_other("09_a")
    assert shown["level"].tolist() == [long, "null"]  # a word, not a missing value
    assert long in repr(shown) and long in shown._repr_html_()
    printed = capsys.readouterr().out
    assert "./reproduce.sh --data paper (data paper): A." in printed
    record = other.stored / "09_a.json"
    record.write_text(record.read_text().replace(stale.data_hash(), "0"))
    Run().show_other("09_a")
    assert "data paper, whose files have changed since" in capsys.readouterr().out
    for damaged in (b"", b"[]"):
        replace(record, damaged)
        assert "09_a is damaged: restore it with" in refusal(Run().show_other, "09_a")
    assert Run().show_other("09_c") is None and other.show_other("09_a") is None
    printed = capsys.readouterr().out
    assert "./reproduce.sh --only 09 --data paper" in printed and "itself" in printed


def test_of_a_long_table_ten_rows_are_shown_and_all_are_linked(monkeypatch):
    shown = []
    monkeypatch.setattr("companion.run.display.display", shown.append)
    Run().save(pd.DataFrame({"x": range(1234)}), "09_a", "Long.", rows=10)
    first, link = shown
    assert first["x"].tolist() == list(range(10))
    assert "10 of 1,234 rows" in link.data and "(../figures/mini/09_a.csv)" in link.data
    assert len(pd.read_csv(Run().out / "09_a.csv")) == 1234


def test_links_of_an_executed_page_lead_to_the_results_made_here():
    page = b'<a href="../figures/mini/a.csv"> <a href="../figures/mini-real/a.csv">'
    assert notebooks._with_files_here(page, Run()) == (
        b'<a href="figures/a.csv"> <a href="../../figures/mini-real/a.csv">'
    )


def test_a_full_disk_is_one_sentence_and_leaves_the_old_files(monkeypatch):
    write = pathlib.Path.write_bytes

    def half(self, content):
        write(self, content[: len(content) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    run = Run()
    run.save(pd.DataFrame({"x": [1]}), "table", "")
    run.compared("02", "bias_a_head", {("Table 1", "full", "SEAT"): ("1.0", "not comparable")})
    run.compared("02", "bias_a_head", {("Table 1", "full", "PPPL"): ("2.0", "matches")})
    rows = json.loads((run.out / "numbers" / "02.json").read_text())
    assert [(row["column"], row["ours"]) for row in rows] == [
        ("SEAT", "1.0"),
        ("PPPL", "2.0"),
    ]  # the second is added
    before = fingerprint(run.out)
    monkeypatch.setattr(pathlib.Path, "write_bytes", half)
    for name in "table", "another":
        said = refusal(run.save, pd.DataFrame({"x": [2]}), name, "")
        assert said.startswith("The disk is full, ") and f"{name}.csv" in said
    assert fingerprint(run.out) == before


def test_two_processes_may_make_the_same_folder(tmp_path, monkeypatch):
    made = tmp_path / "made"
    with new_folder(made) as folder:
        (folder / "x").write_text("one")
        monkeypatch.setattr(os, "getpid", lambda: 1)
        with new_folder(made) as other:
            (other / "x").write_text("other")
        assert (made / "x").read_text() == "other"
    with pytest.raises(KeyError), new_folder(made):
        raise KeyError
    assert [*tmp_path.iterdir()] == [made] and (made / "x").read_text() == "one"


def noted(log, value, name="", device=None):
    """Doubles a value, and leaves a line in a log to show that it was called."""
    with open(log, "a") as stream:
        stream.write("called\n")
    return 2 * value


def test_a_result_is_computed_once(tmp_path, monkeypatch):
    log, weights, run = tmp_path / "log", {"mini-bert": "r1"}, Run()
    monkeypatch.setattr(folders, "locate", lambda name: (None, weights[name]))

    def calls(run, *args, **kwargs):
        log.write_text("")
        assert run.measured(noted, str(log), *args, **kwargs) == 2 * args[0]
        return log.read_text().count("called")

    assert (calls(run, 21), calls(run, 21)) == (1, 0)
    assert calls(Run(seed=1), 21) == 0  # another object, another process: the same result
    assert calls(run, 22) == 1
    assert calls(Run(profile="mini-limit8"), 21) == 1  # a try shares nothing with a full run
    assert (calls(Run(recompute=True), 21), calls(run, 21)) == (1, 0)
    monkeypatch.setenv("COMPANION_RECOMPUTE_SINCE", str(time.time()))  # ./reproduce.sh --recompute
    assert [calls(Run(recompute=True), 21) for _ in range(2)] == [1, 0]
    monkeypatch.delenv("COMPANION_RECOMPUTE_SINCE")  # by hand
    assert [calls(Run(recompute=True), 21) for _ in range(2)] == [1, 1]
    assert (calls(run, 21, name="mini-bert"), calls(run, 21, name="mini-bert")) == (1, 0)
    weights["mini-bert"] = "r2"
    assert calls(run, 21, name="mini-bert") == 1 and run.revisions == {"mini-bert": "r2"}
    assert calls(run, 21) == 0  # that a model was used meanwhile is no matter
    monkeypatch.setattr(paths, "LISTS", tmp_path / "lists")
    replace(paths.LISTS / "words.csv", b"nurse")
    assert calls(run, 21) == 1


@pytest.mark.parametrize(
    "folder, changed, again",
    [
        ("lib/paper", "lib/paper/main.py", True),
        ("lib/paper", "lib/engine/hooks.py", True),
        ("lib/paper", "lib/text/words.py", True),
        ("lib/paper", "lib/other/main.py", False),
        ("companion", "lib/other/main.py", True),
        ("companion", "companion/main.py", True),
    ],
)
def test_a_result_is_computed_again_when_its_code_changes(
    tmp_path, monkeypatch, folder, changed, again
):
    """That of the engine, of words and of its own paper; a comment is no code."""
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    for name in {"lib/engine/hooks.py", "lib/text/words.py", "lib/other/main.py", changed}:
        replace(tmp_path / name, b"n = 1")
    file, log = tmp_path / folder / "main.py", tmp_path / "log"
    replace(file, b"def answer(log, device=None):\n    open(log, 'a').write('x')\n")
    spec = importlib.util.spec_from_file_location("main", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def calls():
        stale._of_folders.cache_clear()  # as in a new process
        log.write_text("")
        Run().measured(module.answer, str(log))
        return len(log.read_text())

    assert (calls(), calls()) == (1, 0)
    for text, expected in (("\n# said better\n", 0), ("\nm = 2\n", int(again))):
        with open(tmp_path / changed, "a") as stream:
            stream.write(text)
        assert calls() == expected


def plan_of(log, n, device=None):
    return SimpleNamespace(plan=range(n), log=log)


def noted_step(bench, step):
    if step == int(os.environ.get("STOP_AT", -1)):
        raise KeyboardInterrupt
    with open(bench.log, "a") as stream:
        stream.write(f"{step} ")
    return 2 * step


def doubled(log, n, device=None):
    raise AssertionError("it is made in steps")


doubled.in_steps = plan_of, noted_step, list


def test_a_measurement_that_is_stopped_goes_on_where_it_was(tmp_path, monkeypatch):
    log = tmp_path / "log"
    monkeypatch.setenv("STOP_AT", "2")
    with pytest.raises(KeyboardInterrupt):
        Run().measured(doubled, str(log), 4)
    monkeypatch.delenv("STOP_AT")
    for _ in range(2):
        assert Run().measured(doubled, str(log), 4) == [0, 2, 4, 6]
    assert log.read_text() == "0 1 2 3 "


def test_on_a_full_disk_nothing_is_begun(tmp_path, monkeypatch):
    log = tmp_path / "log"
    monkeypatch.setattr(joblib.memory, "_FUNCTION_HASHES", {})  # as in a new process
    full = disk(0, OSError(errno.ENOSPC, "No space left on device"))
    monkeypatch.setattr(
        FileSystemStoreBackend, "_open_item", lambda self, name, mode: full(name, mode)
    )
    assert refusal(Run().measured, noted, str(log), 21).startswith("The disk is full, ")
    assert not log.exists()


SCORES = np.linspace(-1, 1, 144).reshape(12, 12)
RESULT = {"scores": SCORES, "folds": np.stack([SCORES, SCORES])}


def under(plan, step):
    chosen = plan.plan[step]
    row = {"step": step, "strategy": chosen.strategy, "k": len(chosen.heads), "seat": step / 10}
    plan.steps.append(step)
    return row


def no_facts(*args, **options):
    return {"facts": np.zeros(1)}


@pytest.fixture
def counted(monkeypatch):
    """table1 with an instant measurement; the steps that it was asked for, and what patching
    gave.
    """
    steps = []
    real = Run.measured
    known = {heads.measure: RESULT, patching.measure: None}

    def measured(self, asked, *args, **options):
        return known[asked] if asked in known else real(self, asked, *args, **options)

    def prepare(name, plan, *args, **options):
        return SimpleNamespace(plan=plan, steps=steps)

    monkeypatch.setattr(Run, "measured", measured)
    monkeypatch.setattr(masking, "measure_facts", no_facts)
    monkeypatch.setattr(masking.measure, "in_steps", (prepare, under, masking.columns))
    return SimpleNamespace(steps=steps, known=known)


def table1(*flags):
    assert command.main(["measure", "table1", *flags]) == 0


def test_table_1_is_measured_once_and_its_notebook_takes_it(counted, capsys):
    run = Run()
    args = masking.arguments(run, RESULT, whole=True)
    table1("--model", "mini-bert")
    n = len(args[1])
    assert counted.steps == list(range(n))
    file = results.place(paths.BUILD / "mini" / "measured", masking.measure, args)
    np.testing.assert_allclose(results.read(file)[0]["seat"], np.arange(n) / 10)
    assert run.measured(masking.measure, *args)["step"].tolist() == list(range(n))
    assert "measured here by ./reproduce.sh measure table1" in capsys.readouterr().out
    table1()
    assert len(counted.steps) == n
    table1("--precision", "bfloat16")  # another measurement: nothing of the first is taken
    assert len(counted.steps) == 2 * n
    assert results.read(file)[1]["precision"] == "bfloat16"
    table1("--limit", "8")  # a try is a run of its own
    assert [*paths.BUILD.glob("mini-limit8/measured/masking*")]
    assert len(counted.steps) < 3 * n


def test_the_papers_models_are_masked_by_the_profiles_own_sizes_with_or_without_measure():
    """A small model's `measure` takes more than its notebook, the papers' as much."""
    run = Run(profile="paper")
    whole, own = (masking.arguments(run, RESULT, whole=whole) for whole in (True, False))
    assert whole == own
    assert whole[3] == masking.Workload(sentences=100, lines=0, sampled_lines=300)
    draws = [step.draw for step in whole[1] if step.strategy == "random"]
    assert max(draws) + 1 == run.sizes.masking_draws["paper"]
    small = Run(data="paper")
    whole, own = (masking.arguments(small, RESULT, whole=whole) for whole in (True, False))
    assert whole[3] == masking.WHOLE["paper"] and len(whole[1]) > len(own[1])


def test_heads_of_the_highest_patches_are_masked_where_heads_were_patched(counted):
    run = Run()
    rng = np.random.default_rng(0)
    found = counted.known[patching.measure] = {
        "in_x": np.arange(6) < 3,
        "gradient": np.zeros((2, 3, 4)),
        "zero": rng.normal(size=(2, 13, 6)),
    }
    table1("--store")
    _, plan, *_ = args = masking.arguments(run, RESULT, whole=True, falls=patching.falls(found))
    assert [step.strategy for step in plan[-2:]] == ["patched", "patched"]
    columns, _ = results.read(results.place(run.stored / "measured", masking.measure, args))
    assert len(columns["seat"]) == len(plan) and columns["strategy"][-1] == "patched"
