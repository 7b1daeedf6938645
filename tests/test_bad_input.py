"""What people give by mistake: refused in one sentence that names the fix, never a number that is
wrong.

Each test was a fault of version 0.17.0: a silently wrong number, a measurement lost at its end, a
traceback.
"""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from companion import __main__ as command, card, pins, stale
from companion.card import every_eval, measures as card_measures
from companion.estimate import estimate
from companion.run import Run
from lib import paths
from lib.bias_a_head import heads, masking
from lib.engine import embed, fill, models, nsp, pppl, stats
from lib.engine.files import check_writable, read_text, read_toml, replace
from lib.engine.hooks import Projection, head_mask, patch, project
from lib.text import data
from tests.tiny import COMMON, refusal, save_tiny, tiny


@pytest.fixture(scope="module")
def bert():
    return tiny("bert")


# ---- silently wrong
def test_an_interval_of_seat_has_its_sign():
    """Of |SEAT| it could never include 0, not even in an untrained network."""
    rng = np.random.default_rng(0)
    associations, in_x = rng.normal(size=60), np.arange(60) < 30
    interval = stats.bootstrap(masking.signed_seat, associations, in_x)
    assert interval.low < 0 < interval.high
    assert masking.signed_seat(-associations, in_x) == -masking.signed_seat(associations, in_x)


@pytest.fixture
def small_card(few_draws, monkeypatch, tmp_path):
    """Cards on few sentences, in a temporary folder."""
    for name, value in {"CONTEXTS": 2, "FOLDS": 2, "LINES": 3}.items():
        monkeypatch.setattr(card_measures, name, value)
    monkeypatch.setattr(card, "STORED", tmp_path / "cards")
    monkeypatch.setattr(paths, "BUILD", tmp_path / "build")
    monkeypatch.setitem(COMMON, "max_position_embeddings", 160)
    return tmp_path


def test_a_card_of_an_untrained_network_has_seat_around_0_and_says_that_it_is_untrained(
    small_card, monkeypatch
):
    few = heads.sets_and_contexts("gender", heads.Sample("mini", 2, items=60))
    monkeypatch.setattr(heads, "sets_and_contexts", lambda *asked: few)
    chosen = {"seat": card_measures.seat, "perplexity": card_measures.perplexity}
    monkeypatch.setattr(card_measures, "MEASURES", chosen)
    save_tiny("bert", small_card / "random")
    page = card.write(str(small_card / "random"))
    rows = every_eval.read(json.loads(page.with_suffix(".json").read_text())).rows
    for pooling in ("first", "mean", "word"):
        assert rows[f"seat.{pooling}"].estimate.low < 0 < rows[f"seat.{pooling}"].estimate.high
    assert "worse than the frequencies of its words" in page.read_text()


def test_a_prompt_that_fills_the_window_is_refused_before_its_tokens_are_counted(bert):
    assert "shorten the prompt" in refusal(
        pppl.pseudo_perplexity, bert, ["The nurse."], after="word " * 600
    )


def test_the_models_own_mask_token_in_a_prompt_is_refused():
    assert "<mask>" in refusal(fill.top, tiny("roberta"), "<mask> says [MASK] works.")


@pytest.mark.parametrize("prompts, pairs", [(2, 1), (1, 2), (0, 0)])
def test_log_odds_want_a_pair_for_each_prompt(bert, prompts, pairs):
    said = refusal(
        fill.log_odds, bert, ["the [MASK] was here ."] * prompts, [("she", "he")] * pairs
    )
    assert f"{prompts} prompts and {pairs} pairs" in said


@pytest.mark.parametrize("pair", ["ab", ("a",), ("a", "b", "a")])
def test_letters_and_triples_are_no_pair_of_words(bert, pair):
    """All three letters are words of its vocabulary."""
    assert "is no pair of words" in refusal(fill.log_odds, bert, ["the [MASK] was here ."], [pair])


def test_no_answer_is_a_nan(bert):
    """Finite masks may overflow on their way, and a config.json may say nan."""
    mask = torch.full((bert.n_layers, bert.n_heads), 3e38)
    with head_mask(bert, mask):
        assert "are no numbers" in refusal(fill.top, bert, "the [MASK] was here .")
        assert "are no numbers" in refusal(
            fill.log_odds, bert, ["the [MASK] was here ."], [("she", "he")]
        )


@pytest.mark.parametrize("dtype, value", [(torch.float32, 1e39), (torch.float16, 1e5)])
def test_what_the_models_precision_makes_infinite_is_refused(dtype, value):
    model = tiny("bert", dtype=dtype)
    mask = torch.full((model.n_layers, model.n_heads), value, dtype=torch.float64)
    assert "infinite" in refusal(head_mask(model, mask).__enter__)
    for wrong in (math.nan, math.inf, value, mask[0, 0]):
        assert "infinite" in refusal(patch(model, 1, 0, wrong).__enter__)


@pytest.mark.parametrize("texts", [["", "a nurse"], [""], [" "], [None]])
def test_an_empty_sentence_has_no_vector(texts):
    assert "empty" in refusal(embed.sentences, tiny("gpt2"), texts)


def test_columns_of_unlike_lengths_are_no_triples():
    frame = {"stereo": [0.5, 0.5], "anti": [0.1], "gs_stereo": [0.2, 0.1], "gs_anti": [0.3, 0.3]}
    assert "unlike lengths" in refusal(nsp.strength, frame)


def test_masks_and_weights_that_are_no_numbers_are_refused(bert):
    ones = torch.ones(bert.n_layers, bert.n_heads)
    for wrong in (ones * math.nan, ones * math.inf, ones.to("meta")):
        with pytest.raises(Exception) as caught, head_mask(bert, wrong):
            pass
        assert "give a number a head" in str(caught.value)
    basis = torch.eye(32)[:2]
    for weight in (math.nan, 5, -0.1, torch.tensor([0.5, math.nan])):
        assert "weight" in refusal(Projection, basis, weight)
    assert "weights for a basis" in refusal(Projection, basis, torch.ones(3))
    assert "no real numbers" in refusal(Projection, basis * math.nan)
    assert "no real numbers" in refusal(Projection, torch.eye(32, dtype=torch.int64))


@pytest.mark.parametrize(
    "interventions", [[Projection(torch.eye(32)[:1])], 5, torch.eye(3), {"layer.0": torch.eye(3)}]
)
def test_project_takes_a_dict_of_projections(bert, interventions):
    with pytest.raises(Exception) as caught, project(bert, interventions):
        pass
    assert "project takes a dict" in str(caught.value)


def test_a_bootstrap_refuses_what_is_missing_or_unpaired():
    assert "not numbers" in refusal(stats.bootstrap, np.mean, [1.0, math.nan, 2.0])
    assert "as many of each" in refusal(stats.bootstrap, np.subtract, [1.0, 2.0], [1.0])
    assert "two or more" in refusal(stats.over_trainings, [stats.Estimate(1.0, 0.0, 2.0)])


@pytest.mark.parametrize("word", [None, "", 5])
def test_no_word_has_no_token(bert, word):
    assert "is no word" in refusal(bert.token_id, word)


@pytest.mark.parametrize(
    "asked, said",
    [
        (dict(seed="a"), "is no seed"),
        (dict(seed=1.5), "is no seed"),
        (dict(profile=None), "is no profile"),
    ],
)
def test_a_run_wants_a_seed_and_a_profile(asked, said):
    assert said in refusal(Run, **asked)


def test_an_encoder_trained_as_a_decoder_is_refused(tmp_path):
    save_tiny("bert", tmp_path)
    change_config(tmp_path, is_decoder=True)
    assert "trained as a decoder" in refusal(models.load, str(tmp_path))


def change_config(folder: Path, **values):
    config = json.loads((folder / "config.json").read_text())
    replace(folder / "config.json", json.dumps(config | values).encode())


# ---- a measurement lost at its end
def test_two_models_have_two_cards_and_one_model_has_one_however_it_is_spelled(
    small_card, monkeypatch
):
    monkeypatch.setattr(card_measures, "MEASURES", {"perplexity": card_measures.perplexity})
    for place in ("one", "two"):
        save_tiny("bert", small_card / place / "ckpt")
    monkeypatch.chdir(small_card / "one")
    spelled = ["ckpt", "ckpt/", "./ckpt", str(small_card / "one" / "ckpt")]
    pages = {card.write(name) for name in spelled}
    assert len(pages) == 1 and pages.pop() != card.write(str(small_card / "two" / "ckpt"))
    assert (
        card.canonical(str(paths.MODELS / "mini-bert"))
        == "mini-bert"
        == card.canonical("mini-bert")
    )


def test_a_perplexity_beyond_all_bounds_is_a_line_of_the_card(small_card, monkeypatch):
    monkeypatch.setattr(card_measures, "MEASURES", {"perplexity": card_measures.perplexity})
    model = save_tiny("bert", small_card / "model")
    model.net.cls.predictions.decoder.weight.mul_(1e4)
    model.net.save_pretrained(small_card / "model")
    found = json.loads(card.write(str(small_card / "model")).with_suffix(".json").read_text())
    missing = found["model_info"]["additional_details"]["missing"]
    assert "far beyond blind guessing" in json.loads(missing)[0]["why"]


def test_where_a_card_cannot_be_written_nothing_is_measured(small_card, monkeypatch):
    monkeypatch.setattr(card, "measure", lambda *asked: pytest.fail("it was measured"))
    paths.BUILD.write_text("a file")
    assert "cannot be written" in refusal(card.write, "mini-bert")


@pytest.mark.parametrize(
    "stored", [b"{}", b"[]", b"nonsense", b'{"model": "gone", "revision": "x", "rows": []}']
)
def test_a_card_stands_alone_where_those_beside_it_are_damaged_or_gone(
    small_card, monkeypatch, stored
):
    replace(card.STORED / "null.json", stored)
    with pytest.warns(UserWarning, match="null.json is damaged and left out: restore it with git"):
        assert card.beside() == []


def test_a_stored_card_with_a_sign_turned_round_stands_beside_no_other(small_card):
    whole = (paths.FIGURES / "cards" / "null.json").read_text()
    content = json.loads(whole)
    details = content["evaluation_results"][0]["score_details"]["details"]
    details["value"] = str(float(details["value"]) - 5)
    replace(card.STORED / "null.json", json.dumps(content).encode())
    with pytest.warns(UserWarning, match="damaged"):
        assert card.beside() == []


# ---- a sentence in place of a traceback
@pytest.mark.parametrize(
    "code",
    [
        "%matplotlib inline\nfrom lib.engine import fill",
        "!ls\nfrom lib.engine import fill",
        "fill?\nfrom lib.engine import fill",
    ],
)
def test_magics_of_a_notebook_hide_no_import(code):
    assert paths.ROOT / "lib" / "engine" / "fill.py" in stale.modules(code)
    assert stale.modules("this is no code (") == set()


def test_model_folders_that_are_not_whole_are_named(tmp_path):
    def saved(name, **config):
        save_tiny("bert", tmp_path / name)
        change_config(tmp_path / name, **config)
        return str(tmp_path / name)

    shards = saved("shards")
    index = {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model.safetensors"}}
    replace(Path(shards) / "model.safetensors.index.json", json.dumps(index).encode())
    assert "lacks 1 of its 2 files of weights" in refusal(models.load, shards)
    replace(Path(shards) / "model.safetensors.index.json", b"[]")
    assert "index.json is damaged" in refusal(models.load, shards)
    dangling = saved("dangling")
    (Path(dangling) / "model.safetensors").unlink()
    (Path(dangling) / "model.safetensors").symlink_to(tmp_path / "nowhere")
    assert "a link to nothing" in refusal(models.load, dangling)
    assert "quantised weights" in refusal(
        models.load, saved("int8", quantization_config={"bits": 8})
    )
    for heads_ in (0, 5, -4, "four"):
        assert "which they do not divide" in refusal(
            models.load, saved("heads", num_attention_heads=heads_)
        )


def test_an_encoder_without_a_mask_token_is_named_where_one_is_needed():
    model = tiny("bert")
    model.tokenizer.mask_token = None
    assert "has no mask token" in refusal(pppl.pseudo_perplexity, model, ["he likes poetry ."])


@pytest.mark.parametrize("name", ["card", "report", "run"])
def test_ctrl_c_is_130_and_no_traceback(monkeypatch, capsys, name):
    def stop(options):
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "carry_out", stop)
    assert command.main([name, "mini-bert"] if name == "card" else [name]) == 130
    assert capsys.readouterr().err == "Stopped.\n"


def test_a_network_of_one_head_is_ablated_too(tmp_path, monkeypatch):
    import transformers

    config = transformers.BertConfig(
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=8,
        vocab_size=400,
        max_position_embeddings=160,
    )
    transformers.BertForPreTraining(config).save_pretrained(tmp_path)
    tiny("bert").tokenizer.save_pretrained(tmp_path)
    sample = heads.Sample("mini", 1, items=8)
    found = heads.measure_ablation(str(tmp_path), sample, 8, 3, device="cpu")
    assert found["heads"].tolist() == [[1, 1]] and len(found["ablation"]) == 1


def test_folders_that_cannot_be_written_are_named_with_the_variable_that_names_another(tmp_path):
    (tmp_path / "file").write_text("")
    assert "set COMPANION_CACHE to another" in refusal(
        check_writable, tmp_path / "file", "COMPANION_CACHE"
    )
    check_writable(tmp_path / "new")
    assert not list((tmp_path / "new").iterdir())


def test_damaged_and_missing_files_of_the_repository_are_to_be_restored(tmp_path, monkeypatch):
    replace(tmp_path / "models.toml", b"[a")
    assert "is not TOML" in refusal(read_toml, tmp_path / "models.toml")
    assert "is not there: restore it with `git checkout" in refusal(
        read_toml, tmp_path / "hub.toml"
    )
    monkeypatch.setattr(paths, "REGISTRY", tmp_path / "registry.toml")
    replace(paths.REGISTRY, b'[mini-bert]\nsource = "data/models/mini-bert"\nspeed = 1\n')
    assert "git checkout data/models.toml" in refusal(models._registry)
    monkeypatch.setattr(paths, "LISTS", tmp_path)
    assert "gender_pairs.csv is not there" in refusal(data.rows, "gender_pairs")
    assert "git checkout '/a;touch b'`" in refusal(read_text, Path("/a;touch b"))
    replace(tmp_path / "gender_pairs.csv", b"\xff\xfe\x00")
    assert "gender_pairs.csv is damaged" in refusal(data.words, "gender_pairs")
    monkeypatch.setattr(paths, "HUB", tmp_path / "hub.toml")
    assert "hub.toml is not there" in refusal(estimate, Run(), [])


def test_a_terminal_without_unicode_gets_question_marks():
    environment = os.environ | {"PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    done = subprocess.run(
        [sys.executable, "-m", "companion", "--list", "--only", "00"],
        cwd=paths.ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and "00_start_here" in done.stdout, done.stderr


@pytest.mark.parametrize("prompt", [None, b"[MASK]", 5, "a \ud800 [MASK]"])
def test_no_prompt_is_refused(bert, prompt):
    assert refusal(fill.probabilities, bert, [prompt])


def test_library_calls_with_nothing_in_them(bert):
    assert "ask" in refusal(fill.top, bert, "the [MASK] .", k=2.5)
    assert "is no word" in refusal(embed.words, bert, {"": ["a sentence"]})
    for pairs in (None, "ab", [("a", None)], []):
        assert "no sentence pairs" in refusal(nsp.is_next, bert, pairs)
    assert refusal(pppl.pseudo_perplexity, bert, None)
    assert "Weights cannot be read" in refusal(models.load, "mini-bert", dtype=torch.int8)
    for labels in (-1, 0, 2.5, "3", True):
        said = refusal(models.load, "mini-bert", task="sequence-classification", labels=labels)
        assert f"cannot have {labels!r} classes" in said
    assert "cannot be saved" in refusal(Run().save, None, "a", "")


# ---- misleading or ignored
def test_a_family_that_is_not_known_and_a_model_without_a_head_are_refused_before_a_notebook_runs(
    tmp_path,
):
    save_tiny("bert", tmp_path)
    change_config(tmp_path, architectures=["BertForQuestionAnswering"])
    assert "whose head notebooks do not know" in refusal(Run, model=str(tmp_path))
    change_config(tmp_path, model_type="mamba", architectures=["MambaForCausalLM"])
    assert "'mamba', which is not supported" in refusal(Run, model=str(tmp_path))


def test_an_encoder_without_a_vocabulary_head_is_asked_what_it_can_answer(tmp_path, capsys):
    """By its files: what it was saved as may promise more than they hold."""
    model = save_tiny("bert", tmp_path)
    model.net.base_model.save_pretrained(tmp_path)
    for saved_as in ("BertModel", "BertForMaskedLM"):
        change_config(tmp_path, architectures=[saved_as])
        asked = ["--model", str(tmp_path), "--list"]
        assert command.main(asked) == 0
        printed = capsys.readouterr().out
        assert "02_biased_heads" in printed and "03_counter" in printed
        assert "04_masking" not in printed and "has no vocabulary head" in printed
        assert command.main([*asked, "--only", "02,04"]) == 2
        assert "all but 02,03 ask it for words" in capsys.readouterr().err
    model.net.save_pretrained(tmp_path)
    assert command.main(asked) == 0 and "04_masking" in capsys.readouterr().out
    save_tiny("gpt2", tmp_path / "decoder")
    change_config(tmp_path / "decoder", architectures=["GPT2Model"])
    assert "GPT2Model, whose head" in refusal(Run, model=str(tmp_path / "decoder"))


def test_a_path_that_is_no_unicode_is_not_called_damaged(tmp_path):
    folder = os.fsdecode(bytes(tmp_path) + b"/caf\xe9")
    save_tiny("bert", tmp_path / "model")
    os.rename(tmp_path / "model", folder)
    with pytest.raises(Exception) as caught:
        models.load(folder)
    assert "not UTF-8: rename the folder" in str(caught.value)


@pytest.mark.parametrize("name", ["../../x", "a/b", "", "02 x", None])
def test_a_result_stays_in_its_folder(name, tmp_path):
    assert "cannot be called" in refusal(
        Run(out=tmp_path / "out").save, pd.DataFrame({"a": [1]}), name, ""
    )
    assert list(tmp_path.iterdir()) == []


def test_an_environment_with_other_versions_is_not_trusted(tmp_path, capsys):
    (tmp_path / "list.txt").write_text(
        "torch==0.1\nnosuchpackage==1.0  # why\npytest==" + pytest.__version__ + "\n"
    )
    assert pins.main([str(tmp_path / "list.txt")]) == 2
    said = capsys.readouterr().err
    assert (
        "in place of 0.1, nosuchpackage missing in place of 1.0: bring it up to date with `conda env"
        in said
    )
    assert pins.main([str(paths.ROOT / "requirements" / "test.txt")]) == 0
