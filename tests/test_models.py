"""Loading: what comes out equals what went in, whole or as a difference; what cannot be loaded is refused."""

import json
import os
import pickle
import re
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from lib import paths
from lib.engine import families, fill, models
from tests.tiny import FAMILIES, batch, refusal, save_tiny

every_family = pytest.mark.parametrize("family", FAMILIES)
refused = partial(refusal, models.load)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """family -> (folder, the model that was saved there)"""
    root = tmp_path_factory.mktemp("models")
    return {family: (root / family, save_tiny(family, root / family)) for family in FAMILIES}


@pytest.fixture
def bert(folders, tmp_path):
    """A copy of the tiny BERT's folder, to be damaged."""
    return shutil.copytree(folders["bert"][0], tmp_path / "bert")


def change_weights(folder, change):
    file = folder / "model.safetensors"
    save_file(change(load_file(file)), file)


def change_config(folder, **values):
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


@every_family
def test_a_float16_folder_comes_back_exactly_in_float32(folders, family):
    folder, saved = folders[family]
    stored = load_file(folder / "model.safetensors")
    assert {value.dtype for value in stored.values()} == {torch.float16}
    model = models.load(str(folder), device="cpu")
    assert type(model.net) is type(saved.net)
    assert (model.family, model.n_layers, model.n_heads, model.device.type) == (family, 3, 4, "cpu")
    assert model.is_causal == (family in ("gpt2", "llama")) and model.has_nsp == (family == "bert")
    assert not model.net.training and model.net.config._attn_implementation == "sdpa"
    assert (weights := model.net.state_dict()).keys() == (expected := saved.net.state_dict()).keys()
    for key, value in weights.items():
        assert value.dtype == torch.float32 and torch.equal(value, expected[key]), key
    assert not any(weight.requires_grad for weight in model.net.parameters())
    apart = (model.net(**batch(model))[0] - saved.net(**batch(saved))[0]).abs().max()
    assert apart <= (
        1e-5 if family in ("albert", "gpt2") else 0
    )  # whose GELU runs in another kernel
    if family != "llama":  # the decoder is tied to the embeddings and not stored twice
        decoder, embeddings = model.net.get_output_embeddings(), model.net.get_input_embeddings()
        assert decoder.weight.data_ptr() == embeddings.weight.data_ptr()
        assert sum(value.shape == embeddings.weight.shape for value in stored.values()) == 1
    eager = models.load(folder, device="cpu", attention="eager")
    outputs = eager.net(**batch(eager), output_attentions=True)
    torch.testing.assert_close(model.net(**batch(model))[0], outputs[0], rtol=1e-5, atol=1e-5)
    assert len(outputs.attentions) == 3 and all(
        attention is not None for attention in outputs.attentions
    )


def test_a_dtype_and_a_placement_can_be_asked_for_and_what_is_too_large_is_refused(
    folders, monkeypatch
):
    assert (
        models.load(folders["gpt2"][0], device="cpu", dtype=torch.bfloat16).net.dtype
        == torch.bfloat16
    )
    model, saved = models.load(folders["gpt2"][0], device="auto"), folders["gpt2"][1]
    placed = model.net(**batch(model).to(model.device)).logits
    torch.testing.assert_close(placed.cpu(), saved.net(**batch(saved)).logits)
    monkeypatch.setattr(
        transformers.GPT2LMHeadModel, "to", Mock(side_effect=torch.OutOfMemoryError)
    )
    assert "device='auto'" in refused(folders["gpt2"][0], device="cpu")


def test_old_folders_are_read_with_other_names_no_next_sentence_head_and_a_plain_vocabulary(
    bert, folders
):
    """The BERTs on the hub call their norms' weights gamma and beta."""

    def aged(key):
        return key.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        )

    change_weights(bert, lambda weights: {aged(key): value for key, value in weights.items()})
    saved = folders["bert"][1]
    assert torch.equal(
        models.load(bert, device="cpu").net(**batch(saved))[0], saved.net(**batch(saved))[0]
    )
    change_weights(
        bert,
        lambda weights: {
            key: value
            for key, value in weights.items()
            if "pooler" not in key and "seq_relationship" not in key
        },
    )
    model = models.load(bert, device="cpu")
    assert isinstance(model.net, transformers.BertForMaskedLM) and not model.has_nsp
    assert torch.equal(
        model.net(**batch(model)).logits, saved.net(**batch(saved)).prediction_logits
    )
    (bert / "tokenizer.json").unlink()
    (bert / "tokenizer_config.json").unlink()
    vocabulary = saved.tokenizer.get_vocab()
    (bert / "vocab.txt").write_text("\n".join(sorted(vocabulary, key=vocabulary.get)))
    model = models.load(bert, device="cpu")
    for texts in [("she was here .",), ("she was here .", "He likes mathematicians .")]:
        assert model.tokenizer(*texts) == saved.tokenizer(*texts)


@every_family
def test_a_new_classifier_is_drawn_only_when_its_labels_are_named(tmp_path, folders, family):
    if (
        family == "albert"
    ):  # its language model was saved without the pooler that its classifier needs
        assert "pooler" in refused(
            folders[family][0], device="cpu", task="sequence-classification", labels=3
        )
        return
    assert "lacks" in refused(folders[family][0], device="cpu", task="sequence-classification")
    model = models.load(folders[family][0], device="cpu", task="sequence-classification", labels=3)
    made = model.net(**batch(model)).logits
    assert made.shape == (2, 3)
    model.net.save_pretrained(tmp_path)
    model.tokenizer.save_pretrained(tmp_path)
    again = models.load(tmp_path, device="cpu", task="sequence-classification")
    torch.testing.assert_close(again.net(**batch(again)).logits, made)


@every_family
def test_padding_is_on_the_right_no_text_outgrows_the_positions_and_words_have_their_tokens(
    folders, family
):
    model = models.load(folders[family][0], device="cpu")
    texts = ["she was here .", "she . " * 50]
    rows = model.tokenizer(texts, padding=True, truncation=True, return_tensors="pt")
    assert rows.input_ids.shape[1] == (38 if family == "roberta" else 40)
    assert rows.attention_mask[0].tolist() == sorted(rows.attention_mask[0].tolist(), reverse=True)
    assert torch.isfinite(model.net(**rows)[0]).all()
    if model.is_causal:
        assert model.tokenizer.pad_token == model.tokenizer.eos_token
        assert model.net.config.pad_token_id == model.tokenizer.pad_token_id
        assert "choose an encoder" in refusal(getattr, model, "mask_token")
    if family == "bert":
        assert (
            model.tokenizer("she was here .", "he was late .").token_type_ids == [0] * 6 + [1] * 5
        )
    as_read = model.tokenizer("a woman met the doctor", add_special_tokens=False).input_ids
    assert model.token_id("doctor") == as_read[-1]
    opening = model.tokenizer("the doctor", add_special_tokens=False).input_ids
    assert model.token_id("the", inside=False) == opening[0]
    two_tokens = family in ("roberta", "gpt2", "llama")
    assert (model.token_id("the", inside=False) != model.token_id("the")) == two_tokens
    assert "'mathematician' is not one token of" in refusal(model.token_id, "mathematician")
    assert two_tokens or "UNK" in refusal(model.token_id, "中")


def test_the_registry_is_read_from_its_file_and_wins_over_a_folder_of_that_name(
    tmp_path, bert, folders, monkeypatch
):
    assert {entry.family for entry in models.REGISTRY.values()} <= families.FAMILIES.keys()
    known = {
        "mini-bert": paths.MODELS / "mini-bert",
        "seed1": paths.CACHE / "models" / "seed1",
        "gpt2": "openai-community/gpt2",
    }
    assert {name: models.REGISTRY[name].source for name in known} == known
    assert (models.usual_dtype("gpt2"), models.usual_dtype("llama-2-7b")) == (
        torch.float32,
        torch.bfloat16,
    )
    bert.rename(tmp_path / "mini-gpt2")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(models.REGISTRY, "mini-gpt2", models.Entry(folders["gpt2"][0], "gpt2", ""))
    assert models.load("mini-gpt2", device="cpu").family == "gpt2"
    assert models.load("./mini-gpt2", device="cpu").family == "bert"


QUERY, EMBEDDING = (
    "bert.encoder.layer.1.attention.self.query.weight",
    "bert.embeddings.word_embeddings.weight",
)


def without(key):
    return lambda folder: change_weights(
        folder, lambda weights: {name: value for name, value in weights.items() if name != key}
    )


def weights(key, value):
    def spoil(tensors):
        tensors[key].view(-1)[0] = value
        return tensors

    return lambda folder: change_weights(folder, spoil)


def settings(**values):
    return lambda folder: change_config(folder, **values)


def contents(file, content):
    return lambda folder: (folder / file).write_bytes(content)


@pytest.mark.parametrize(
    "damage, said",
    [
        *((without(key), "lacks .* task") for key in (QUERY, "cls.predictions.bias", EMBEDDING)),
        (
            settings(tie_word_embeddings=False),
            "cls.predictions.decoder",
        ),  # an untied model must bring its decoder
        (settings(hidden_size=64), "damaged or do not fit"),
        (settings(hidden_size="wide"), "config.json of .* is not that of a bert"),
        (weights(QUERY, float("nan")), "query.weight"),
        (weights("cls.predictions.bias", float("inf")), "cls.predictions"),
        *(
            (contents("tokenizer.json", content), "tokenizer of .* is damaged")
            for content in (b"{}", b"{", b"[]", b"\xe9")
        ),
        (settings(model_type="t5"), "'t5', which is not supported: choose a model of bert"),
        (
            contents("model.safetensors", b"version https://git-lfs.github.com/spec/v1"),
            "damaged or do not fit",
        ),
        *(
            (contents("config.json", content), "config.json is damaged")
            for content in (b"{", b"[]", b'"\xe9"')
        ),
        (lambda folder: (folder / "model.safetensors").unlink(), "no model.safetensors"),
        (lambda folder: (folder / "config.json").unlink(), "no config.json"),
    ],
)
def test_a_damaged_folder_is_refused_and_no_weight_is_made_up(bert, damage, said):
    damage(bert)
    assert re.search(said, refused(bert, device="cpu"))


@pytest.mark.parametrize(
    "name, options, said",
    [
        *((name, {}, "is no model") for name in (None, "", 7)),
        *((name, {}, "no folder") for name in ("./nowhere", "~/surely/nowhere", Path("nowhere"))),
        ("bert-bsae", {}, "is it bert-base.*mini-bert, .*gpt2"),
        ("xyzzy", {}, "no model 'xyzzy': name"),
        ("null@x", {}, "names no draw"),
        ("null", dict(revision="3"), "write null@3"),
        ("null", dict(task="sequence-classification"), "name its labels"),
        ("mini-gpt2", dict(attention="flash"), "choose sdpa or eager"),
        ("mini-gpt2", dict(task="translation"), "sequence-classification"),
        *(
            ("no/such", dict(device=device), "choose cpu, or leave it out")
            for device in ("cuda", "cuda:1", "mps")
        ),
        *(
            ("no/such", dict(device=device), "use cpu, cuda, mps or auto")
            for device in ("nonsense", "meta", "cpu:x")
        ),
    ],
)
def test_what_cannot_be_asked_is_refused(name, options, said, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert re.search(said, refused(name, **options))


@pytest.mark.parametrize("family", ["bert", "gpt2", "roberta", "albert"])
def test_an_untrained_network_is_drawn_from_its_seed(family, folders, monkeypatch, tmp_path):
    name, (shipped, trained) = "null" if family == "bert" else f"null-{family}", folders[family]
    assert models.REGISTRY[name].source == paths.MODELS / f"mini-{family}"
    monkeypatch.setattr(paths, "CACHE", tmp_path)
    monkeypatch.setitem(models.REGISTRY, name, replace(models.REGISTRY[name], source=shipped))
    before = torch.get_rng_state()
    first, again, other = (
        models.load(draw, device="cpu") for draw in (name, f"{name}@0", f"{name}@3")
    )
    assert torch.equal(torch.get_rng_state(), before)
    weights, shape = first.net.state_dict(), trained.net.state_dict()
    assert {key: value.shape for key, value in weights.items()} == {
        key: value.shape for key, value in shape.items()
    }
    assert all(torch.equal(value, again.net.state_dict()[key]) for key, value in weights.items())
    matrices = [key for key, value in weights.items() if value.dim() > 1]
    assert not any(torch.equal(weights[key], other.net.state_dict()[key]) for key in matrices)
    assert not any(torch.equal(weights[key], shape[key]) for key in matrices)
    assert (
        first.revision == again.revision != other.revision
        and f"{family}, seed 3, sha" in other.revision
    )
    assert models.locate(other.name) == (
        tmp_path / "models" / f"untrained-{family}",
        other.revision,
    )
    assert not list(tmp_path.rglob("*.safetensors")) and not list(tmp_path.rglob("training.json"))
    assert (
        first.has_nsp == trained.has_nsp
        and batch(first).input_ids.tolist() == batch(trained).input_ids.tolist()
    )


def test_a_pickle_is_refused_unopened_and_the_sentence_says_how_to_convert_it(
    bert, folders, monkeypatch
):
    (bert / "model.safetensors").unlink()

    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(bert / "opened"),)

    (bert / "pytorch_model.bin").write_bytes(pickle.dumps(Trap()))
    message = refused(bert)
    assert "pickled" in message and not (bert / "opened").exists()
    saved = folders["bert"][1]
    torch.save(saved.net.state_dict(), bert / "pytorch_model.bin")  # tied weights and all
    command = message[message.index('python -c "') + len('python -c "') : -1]
    monkeypatch.chdir(bert)
    exec(command, {})
    assert torch.equal(
        models.load(bert, device="cpu").net(**batch(saved))[0], saved.net(**batch(saved))[0]
    )


@every_family
def test_a_missing_tokenizer_is_refused_not_made_up_and_so_is_another_models(
    tmp_path, folders, family
):
    shutil.copytree(folders[family][0], tmp_path, dirs_exist_ok=True)
    if family == "bert":
        change_weights(
            tmp_path,
            lambda weights: {  # fewer entries than the tokenizer has
                key: value[:50].clone() if value.shape[0] == 400 else value
                for key, value in weights.items()
            },
        )
        change_config(tmp_path, vocab_size=50)
        assert "beyond the 50 that its embedding has" in refused(tmp_path, device="cpu")
    (tmp_path / "tokenizer.json").unlink()
    assert "tokenizer of its own" in refused(tmp_path, device="cpu")


def test_a_padding_token_that_was_added_is_never_looked_up(tmp_path, folders):
    """As copies of LLaMA have it: 32,000 embeddings, and a tokenizer with one token more."""
    saved = save_tiny("llama", tmp_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    size = len(tokenizer)
    change_weights(
        tmp_path,
        lambda tensors: {
            key: value[:size].clone() if value.shape[0] == 400 else value
            for key, value in tensors.items()
        },
    )
    tokenizer.add_special_tokens({"pad_token": "[PAD]"})
    tokenizer.save_pretrained(tmp_path)
    change_config(tmp_path, vocab_size=size, pad_token_id=size)
    model = models.load(tmp_path, device="cpu")
    assert model.tokenizer.pad_token_id == model.net.config.pad_token_id < size
    texts = ["the doctor said that [MASK]", "he [MASK]"]  # of unlike length
    expected = [fill.probabilities(saved, [text])[0, :size] for text in texts]
    for row, whole in zip(fill.probabilities(model, texts), expected):
        torch.testing.assert_close(row, whole / whole.sum(), rtol=1e-4, atol=1e-6)


@pytest.fixture
def classifier(folders, tmp_path):
    """A classifier on the base with one matrix changed, and the folder of its difference, to be damaged."""
    base = folders["bert"][0]
    torch.manual_seed(1)
    model = models.load(str(base), device="cpu", task="sequence-classification", labels=3)
    model.net.config.id2label = {0: "entailment", 1: "neutral", 2: "contradiction"}
    model.net.state_dict()[QUERY].add_(0.1)
    models.save_difference(model, str(base), tmp_path / "nli", epochs=2)
    return model, tmp_path / "nli"


def load(folder, task="sequence-classification", **options):
    return models.load(str(folder), device="cpu", task=task, **options)


def test_a_difference_gives_back_the_whole_has_a_revision_and_is_refused_where_damaged(
    classifier, folders, tmp_path
):
    (model, folder), base = classifier, folders["bert"][0]
    assert {
        name: tensor.dtype for name, tensor in load_file(folder / "model.safetensors").items()
    } == dict.fromkeys((QUERY, "classifier.weight", "classifier.bias"), torch.float16)
    again = load(folder)
    for name, weight in model.net.state_dict().items():
        assert torch.equal(again.net.state_dict()[name], weight.half().float()), name
    assert again.net.config.id2label[2] == "contradiction"
    record = json.loads((folder / "training.json").read_text())
    assert (record["base"], record["base_revision"], record["epochs"]) == (
        str(base),
        model.revision,
        2,
    )
    assert (
        again.tokenizer("she likes poetry .").input_ids
        == model.tokenizer("she likes poetry .").input_ids
    )
    revisions, other = {models.locate(str(folder))[1]}, shutil.copytree(base, tmp_path / "other")
    for place in (folder, other):  # its own weights, those of its base
        weights(QUERY, 1.0)(place)
        change_config(folder, companion_base=str(other))
        revisions.add(models.locate(str(folder))[1])
    assert len(revisions) == 3
    assert "the task it was saved for" in refusal(load, folder, task=None)
    good = load_file(folder / "model.safetensors")
    for wrong, said in (
        (good | {"bert.encoder.layer.9.output.dense.bias": torch.ones(32)}, "layer.9"),  # of no use
        (
            good | {QUERY: good[QUERY][:8].contiguous()},
            r"\[8, 32\].*\[32, 32\]|\[32, 32\].*\[8, 32\]",
        ),
        ({name: good[name] for name in (QUERY, "classifier.bias")}, "classifier.weight"),
    ):
        save_file(wrong, folder / "model.safetensors")
        assert re.search(said, refusal(load, folder))
    (folder / "model.safetensors").write_bytes(b"not weights")
    assert "damaged" in refusal(load, folder)
    model = models.load(str(base), device="cpu")
    model.net.state_dict()[EMBEDDING].mul_(2)
    models.save_difference(model, str(base), tmp_path / "debiased")
    assert set(load_file(tmp_path / "debiased" / "model.safetensors")) == {EMBEDDING}
    again = load(tmp_path / "debiased", task=None)
    assert again.net.get_output_embeddings().weight is again.net.get_input_embeddings().weight
    inputs = batch(model)
    assert torch.allclose(
        again.net(**inputs).prediction_logits, model.net(**inputs).prediction_logits, atol=2e-3
    )
    labelled = load(tmp_path / "debiased", labels=2)  # and it can be fine-tuned
    assert torch.equal(labelled.net.state_dict()[EMBEDDING], again.net.state_dict()[EMBEDDING])


@pytest.mark.parametrize(
    "named, why",
    [
        ("no-such-model", "There is no model"),
        ("./gone", "There is no folder"),
        (None, "itself a difference"),
    ],
)
def test_bad_bases_are_refused(classifier, named, why):
    model, folder = classifier
    change_config(folder, companion_base=named or str(folder))
    assert why in refusal(load, folder)
    assert why in refusal(
        models.save_difference, model, named or str(folder), folder.with_name("another")
    )
    assert not folder.with_name("another").exists()
