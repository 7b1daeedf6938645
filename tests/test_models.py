"""Loading: what comes out equals what went in, and whatever cannot be loaded is refused in one sentence."""

import json
import os
import pickle
import shutil

import pytest
import safetensors.torch
import torch
import transformers

from lib import CompanionError, paths
from lib.engine import families, models
from tests.tiny import FAMILIES, batch, one_thread, save_tiny  # noqa: F401

every_family = pytest.mark.parametrize("family", FAMILIES)
pytestmark = pytest.mark.usefixtures("one_thread")


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
    safetensors.torch.save_file(change(safetensors.torch.load_file(file)), file)


def change_config(folder, **values):
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


def refusal(name, **options):
    """The message with which a model is refused: one sentence on one line."""
    with pytest.raises(CompanionError) as caught:
        models.load(name, **options)
    message = str(caught.value)
    assert "\n" not in message and ": " in message, message
    return message


# what is loaded

@every_family
def test_a_float16_folder_comes_back_exactly_in_float32(folders, family):
    folder, saved = folders[family]
    stored = safetensors.torch.load_file(folder / "model.safetensors")
    assert {value.dtype for value in stored.values()} == {torch.float16}
    model = models.load(str(folder), device="cpu")

    assert type(model.net) is type(saved.net)
    assert (model.family, model.n_layers, model.n_heads, model.device.type) == (family, 3, 4, "cpu")
    assert model.is_causal == (family in ("gpt2", "llama")) and model.has_nsp == (family == "bert")
    assert not model.net.training and model.net.config._attn_implementation == "sdpa"
    weights, expected = model.net.state_dict(), saved.net.state_dict()
    assert weights.keys() == expected.keys()
    for key, value in weights.items():
        assert value.dtype == torch.float32 and torch.equal(value, expected[key]), key
    assert not any(weight.requires_grad for weight in model.net.parameters())
    assert torch.equal(model.net(**batch(model))[0], saved.net(**batch(saved))[0])


@pytest.mark.parametrize("family", ["bert", "roberta", "albert", "distilbert", "gpt2"])
def test_the_decoder_is_tied_to_the_embeddings_and_not_stored_twice(folders, family):
    model = models.load(folders[family][0], device="cpu")
    decoder, embeddings = model.net.get_output_embeddings(), model.net.get_input_embeddings()
    assert decoder.weight.data_ptr() == embeddings.weight.data_ptr()
    stored = safetensors.torch.load_file(folders[family][0] / "model.safetensors")
    assert sum(value.shape == embeddings.weight.shape for value in stored.values()) == 1


@every_family
def test_both_attentions_and_the_tokens_agree(folders, family):
    folder, saved = folders[family]
    sdpa, eager = models.load(folder, device="cpu"), models.load(folder, device="cpu", attention="eager")
    torch.testing.assert_close(sdpa.net(**batch(sdpa))[0], eager.net(**batch(eager))[0], rtol=1e-5, atol=1e-5)
    maps = eager.net(**batch(eager), output_attentions=True).attentions
    assert len(maps) == 3 and all(one is not None for one in maps)
    assert torch.equal(batch(sdpa).input_ids, batch(saved).input_ids)


def test_a_dtype_can_be_asked_for(folders):
    assert models.load(folders["gpt2"][0], device="cpu", dtype=torch.bfloat16).net.dtype == torch.bfloat16


def test_accelerate_places_a_model_on_request(folders):
    model, saved = models.load(folders["gpt2"][0], device="auto"), folders["gpt2"][1]
    placed = model.net(**batch(model).to(model.device)).logits
    torch.testing.assert_close(placed.cpu(), saved.net(**batch(saved)).logits)


def test_old_names_of_the_layer_norm_are_read(bert, folders):
    """The BERTs on the hub call them gamma and beta."""
    def aged(key):
        return key.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")

    change_weights(bert, lambda weights: {aged(key): value for key, value in weights.items()})
    assert any(key.endswith("gamma") for key in safetensors.torch.load_file(bert / "model.safetensors"))
    saved = folders["bert"][1]
    assert torch.equal(models.load(bert, device="cpu").net(**batch(saved))[0], saved.net(**batch(saved))[0])


def test_a_bert_without_next_sentence_head_is_a_masked_language_model(bert, folders):
    change_weights(bert, lambda weights: {key: value for key, value in weights.items()
                                          if "pooler" not in key and "seq_relationship" not in key})
    model, saved = models.load(bert, device="cpu"), folders["bert"][1]
    assert isinstance(model.net, transformers.BertForMaskedLM) and not model.has_nsp
    assert torch.equal(model.net(**batch(model)).logits, saved.net(**batch(saved)).prediction_logits)


@every_family
def test_a_new_classifier_is_drawn_only_when_its_labels_are_named(tmp_path, folders, family):
    if family == "albert":  # its language model was saved without the pooler that its classifier needs
        assert "pooler" in refusal(folders[family][0], device="cpu", task="sequence-classification", labels=3)
        return
    message = refusal(folders[family][0], device="cpu", task="sequence-classification")
    assert "lacks" in message
    model = models.load(folders[family][0], device="cpu", task="sequence-classification", labels=3)
    made = model.net(**batch(model)).logits
    assert made.shape == (2, 3)
    model.net.save_pretrained(tmp_path)
    model.tokenizer.save_pretrained(tmp_path)
    again = models.load(tmp_path, device="cpu", task="sequence-classification")
    torch.testing.assert_close(again.net(**batch(again)).logits, made)


def test_the_revision_of_a_folder_follows_its_content(bert):
    first = models.load(bert, device="cpu").revision
    assert first.startswith("sha256:") and models.load(bert, device="cpu").revision == first
    change_weights(bert, lambda weights: {key: value + 1 for key, value in weights.items()})
    second = models.load(bert, device="cpu").revision
    change_config(bert, hidden_dropout_prob=0.3)
    assert len({first, second, models.load(bert, device="cpu").revision}) == 3


# tokenizers

@every_family
def test_padding_is_on_the_right_and_no_text_outgrows_the_positions(folders, family):
    model = models.load(folders[family][0], device="cpu")
    texts = ["she was here .", "she . " * 50]
    rows = model.tokenizer(texts, padding=True, truncation=True, return_tensors="pt")
    assert rows.input_ids.shape[1] == (38 if family == "roberta" else 40)
    assert rows.attention_mask[0].tolist() == sorted(rows.attention_mask[0].tolist(), reverse=True)
    assert torch.isfinite(model.net(**rows)[0]).all()
    if model.is_causal:
        assert model.tokenizer.pad_token == model.tokenizer.eos_token
        assert model.net.config.pad_token_id == model.tokenizer.pad_token_id


def test_a_pair_of_sentences_has_two_segments(folders):
    model = models.load(folders["bert"][0], device="cpu")
    pair = model.tokenizer("she was here .", "he was late .")
    assert pair.token_type_ids == [0] * 6 + [1] * 5


@every_family
def test_the_token_of_a_word_inside_a_sentence_and_at_its_start(folders, family):
    model = models.load(folders[family][0], device="cpu")
    as_read = model.tokenizer("a woman met the doctor", add_special_tokens=False).input_ids
    assert model.token_id("doctor") == as_read[-1]
    opening = model.tokenizer("the doctor", add_special_tokens=False).input_ids
    assert model.token_id("the", inside=False) == opening[0]
    two_tokens = family in ("roberta", "gpt2", "llama")
    assert (model.token_id("the", inside=False) != model.token_id("the")) == two_tokens
    with pytest.raises(CompanionError, match="'mathematician' is not one token of .* '.?math.*: choose"):
        model.token_id("mathematician")
    if not two_tokens:
        with pytest.raises(CompanionError, match="UNK"):
            model.token_id("中")


def test_the_mask_token(folders):
    assert models.load(folders["roberta"][0], device="cpu").mask_token == "<mask>"
    with pytest.raises(CompanionError, match="no mask token: choose an encoder"):
        getattr(models.load(folders["gpt2"][0], device="cpu"), "mask_token")  # noqa: B009


# what is refused

def test_the_registry_is_read_from_its_file():
    assert {entry.family for entry in models.REGISTRY.values()} <= families.FAMILIES.keys()
    assert models.REGISTRY["mini-bert"].source == paths.MODELS / "mini-bert"
    assert models.REGISTRY["seed1"].source == paths.CACHE / "models" / "seed1"
    assert "--seed 1" in models.REGISTRY["seed1"].fix
    assert models.REGISTRY["gpt2"].source == "openai-community/gpt2" and models.usual_dtype("gpt2") == torch.float32
    assert models.usual_dtype("llama-2-7b") == torch.bfloat16 and models.pinned("org/unknown") is None


@pytest.mark.parametrize("name", [None, "", 7])
def test_what_is_no_name_is_refused(name):
    assert "is no model" in refusal(name)


@pytest.mark.parametrize("content", [b"{", b"[]", b'"\xe9"'])
def test_a_damaged_config_is_refused(bert, content):
    (bert / "config.json").write_bytes(content)
    assert "config.json is damaged" in refusal(bert)


def test_an_unknown_name_is_answered_with_its_neighbours_and_the_registry():
    message = refusal("bert-bsae")
    assert "is it bert-base" in message and all(name in message for name in models.REGISTRY)
    assert "is it" not in refusal("xyzzy")


def test_folders_that_hold_no_model(tmp_path, bert, monkeypatch):
    assert "no folder" in refusal(tmp_path / "nowhere") and "no folder" in refusal("./nowhere")
    assert "no folder" in refusal("~/surely/nowhere")
    (tmp_path / "empty").mkdir()
    assert "no config.json" in refusal(str(tmp_path / "empty"))
    (bert / "model.safetensors").unlink()
    assert "no model.safetensors" in refusal(bert)
    monkeypatch.chdir(tmp_path)
    assert "no model.safetensors" in refusal("bert")  # an existing folder needs no ./


def test_a_registry_name_wins_over_a_folder_of_that_name(tmp_path, bert, folders, monkeypatch):
    bert.rename(tmp_path / "mini-gpt2")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(models.REGISTRY, "mini-gpt2", models.Entry(folders["gpt2"][0], "gpt2", ""))
    assert models.load("mini-gpt2", device="cpu").family == "gpt2"
    assert models.load("./mini-gpt2", device="cpu").family == "bert"


def test_a_pickle_is_refused_unopened_and_the_sentence_says_how_to_convert_it(bert, folders, monkeypatch):
    (bert / "model.safetensors").unlink()

    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(bert / "opened"),)

    (bert / "pytorch_model.bin").write_bytes(pickle.dumps(Trap()))
    message = refusal(bert)
    assert "pickled" in message and not (bert / "opened").exists()

    saved = folders["bert"][1]
    torch.save(saved.net.state_dict(), bert / "pytorch_model.bin")  # tied weights and all
    command = message[message.index('python -c "') + len('python -c "'):-1]
    monkeypatch.chdir(bert)
    exec(command, {})
    assert torch.equal(models.load(bert, device="cpu").net(**batch(saved))[0], saved.net(**batch(saved))[0])


@pytest.mark.parametrize("key", ["bert.encoder.layer.1.attention.self.query.weight", "cls.predictions.bias",
                                 "bert.embeddings.word_embeddings.weight"])
def test_missing_weights_are_refused_not_made_up(bert, key):
    change_weights(bert, lambda weights: {name: value for name, value in weights.items() if name != key})
    message = refusal(bert, device="cpu")
    assert "lacks" in message and "task" in message


def test_an_untied_model_must_bring_its_decoder(bert):
    change_config(bert, tie_word_embeddings=False)
    assert "cls.predictions.decoder" in refusal(bert, device="cpu")


def test_damaged_weights_are_refused(bert):
    change_config(bert, hidden_size=64)
    assert "damaged or do not fit" in refusal(bert, device="cpu")
    (bert / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1")
    assert "damaged or do not fit" in refusal(bert, device="cpu")


def test_an_unsupported_architecture_is_refused(bert):
    change_config(bert, model_type="t5")
    assert "'t5', which is not supported: choose a model of bert" in refusal(bert)


def test_a_tokenizer_of_another_model_is_refused(bert, folders):
    change_weights(bert, lambda weights: {  # fewer entries than the tokenizer has
        key: value[:50].clone() if value.shape[0] == 400 else value for key, value in weights.items()})
    change_config(bert, vocab_size=50)
    assert "tokenizer of its own" in refusal(bert, device="cpu")


@every_family
def test_a_missing_tokenizer_is_refused_not_made_up(tmp_path, folders, family):
    shutil.copytree(folders[family][0], tmp_path, dirs_exist_ok=True)
    (tmp_path / "tokenizer.json").unlink()
    assert "tokenizer of its own" in refusal(tmp_path, device="cpu")


def test_an_old_folder_with_a_plain_vocabulary_is_read(bert, folders):
    (bert / "tokenizer.json").unlink()
    (bert / "tokenizer_config.json").unlink()
    vocabulary = folders["bert"][1].tokenizer.get_vocab()
    (bert / "vocab.txt").write_text("\n".join(sorted(vocabulary, key=vocabulary.get)))
    model, saved = models.load(bert, device="cpu"), folders["bert"][1]
    for texts in [("she was here .",), ("she was here .", "He likes mathematicians .")]:
        assert model.tokenizer(*texts) == saved.tokenizer(*texts)


def test_wrong_options_are_refused(folders, monkeypatch):
    folder = folders["gpt2"][0]
    assert "choose sdpa or eager" in refusal(folder, attention="flash")
    assert "sequence-classification" in refusal(folder, task="translation")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert "use device='cpu'" in refusal(folder, device="cuda")

    def full(self, *args):
        raise torch.OutOfMemoryError

    monkeypatch.setattr(transformers.GPT2LMHeadModel, "to", full)
    assert "device='auto'" in refusal(folder, device="cpu")
