"""Loading: what comes out is what went in, whole or as a difference; the rest is refused."""

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

from lib import CompanionError, paths
from lib.engine import embed, fill, folders as places, hooks, models, pppl
from tests.tiny import (
    DECODERS,
    FAMILIES,
    READERS,
    batch,
    kind_of,
    refusal,
    save_tiny,
    tiny,
    tokenizer_of,
)

UNTIED = ("llama", "mistral", "qwen2", "qwen3", "phi3", "gpt_neox")
every_reader = pytest.mark.parametrize("family", READERS)
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
    """Replace the tensors of a folder by change(tensors)."""
    file = folder / "model.safetensors"
    save_file(change(load_file(file)), file)


def change_config(folder, **values):
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


def shortened(size):
    """For change_weights: matrices of 400 rows, the vocabulary's, have `size` rows after it."""

    def shorten(tensors):
        changed = {}
        for key, value in tensors.items():
            changed[key] = value[:size].clone() if value.shape[0] == 400 else value
        return changed

    return shorten


def output(model):
    """The first output of a network for two sentences: logits of words."""
    return model.net(**batch(model))[0]


@every_family
def test_a_float16_folder_comes_back_exactly_in_float32_frozen_in_eval_mode(folders, family):
    folder, saved = folders[family]
    stored = load_file(folder / "model.safetensors")
    assert {value.dtype for value in stored.values()} == {torch.float16}
    model = models.load(str(folder), device="cpu")
    assert (model.family, model.n_layers, model.n_heads, model.device.type) == (family, 3, 4, "cpu")
    assert model.is_causal == (family in DECODERS) and model.has_nsp == (family == "bert")
    assert model.has_vocabulary_head and model.why_no_words == ""
    assert not model.net.training
    assert not any(weight.requires_grad for weight in model.net.parameters())
    assert type(model.net) is type(saved.net)
    weights = model.net.state_dict()
    expected = saved.net.state_dict()
    assert weights.keys() == expected.keys()
    for key, value in weights.items():
        assert value.dtype == torch.float32 and torch.equal(value, expected[key]), key
    if family not in UNTIED:  # tied, and stored once
        embeddings = model.net.get_input_embeddings().weight
        assert model.net.get_output_embeddings().weight is embeddings
        assert sum(value.shape == embeddings.shape for value in stored.values()) == 1
    # ALBERT's and GPT-2's GELU runs in another kernel
    tolerance = 1e-5 if family in ("albert", "gpt2") else 0
    assert (output(model) - output(saved)).abs().max() <= tolerance


def test_a_model_can_be_spread_over_all_devices_and_read_as_bfloat16(folders):
    folder, saved = folders["gpt2"]
    model = models.load(folder, device="auto")
    assert models.load(folder, dtype=torch.bfloat16).net.dtype == torch.bfloat16
    placed = model.net(**batch(model).to(model.device)).logits
    torch.testing.assert_close(placed.cpu(), saved.net(**batch(saved)).logits)


def test_a_model_that_does_not_fit_a_device_is_refused(folders, monkeypatch):
    too_large = Mock(side_effect=torch.OutOfMemoryError)
    monkeypatch.setattr(transformers.GPT2LMHeadModel, "to", too_large)
    assert "device='auto'" in refused(folders["gpt2"][0], device="cpu")


def test_the_old_names_of_norms_are_read(bert, folders):
    """The BERTs on the hub call their norms' weights gamma and beta."""

    def aged(key):
        key = key.replace("LayerNorm.weight", "LayerNorm.gamma")
        return key.replace("LayerNorm.bias", "LayerNorm.beta")

    change_weights(bert, lambda tensors: {aged(key): value for key, value in tensors.items()})
    saved = folders["bert"][1]
    assert torch.equal(output(models.load(bert, device="cpu")), output(saved))


def test_a_bert_without_its_next_sentence_head_is_a_masked_language_model(bert, folders):
    def without_head(tensors):
        kept = {}
        for key, value in tensors.items():
            if "pooler" not in key and "seq_relationship" not in key:
                kept[key] = value
        return kept

    change_weights(bert, without_head)
    model = models.load(bert, device="cpu")
    assert isinstance(model.net, transformers.BertForMaskedLM)
    assert not model.has_nsp
    saved = folders["bert"][1]
    expected = saved.net(**batch(saved)).prediction_logits
    assert torch.equal(model.net(**batch(model)).logits, expected)


# Sentence encoders: files of a bare encoder, with a pooler (all-MiniLM-L6-v2, all-mpnet-base-v2) or
# without it. What they were saved as in config.json does not decide: MPNet's says MPNetForMaskedLM.


def save_bare(family, folder, kind, **options):
    """Save a bare encoder; returns it with its tokenizer, as it should come back."""
    whole = tiny(family)
    torch.manual_seed(1)
    base = kind(whole.net.config, **options).eval().requires_grad_(False)
    base.load_state_dict(whole.net.base_model.state_dict(), strict=False)
    base.save_pretrained(folder)
    tokenizer_of(family).save_pretrained(folder)
    change_config(folder, architectures=[type(whole.net).__name__])
    return base, whole


@pytest.mark.parametrize(
    "family, kind",
    [("bert", transformers.BertModel), ("mpnet", transformers.MPNetModel)],
)
@pytest.mark.parametrize("has_pooler", [True, False])
def test_a_bare_encoder_is_loaded_whole_and_says_what_it_lacks(tmp_path, family, kind, has_pooler):
    base, whole = save_bare(family, tmp_path, kind, add_pooling_layer=has_pooler)
    if has_pooler:  # a buffer that older versions stored
        positions = {"embeddings.position_ids": torch.arange(40)[None]}
        change_weights(tmp_path, lambda tensors: tensors | positions)
    model = models.load(tmp_path, device="cpu")
    assert type(model.net) is kind and (model.n_layers, model.n_heads) == (3, 4)
    expected = base.state_dict()
    assert model.net.state_dict().keys() == expected.keys()
    for key, value in model.net.state_dict().items():
        assert torch.equal(value, expected[key]), key
    assert (model.net.pooler is not None) == has_pooler
    assert not model.has_vocabulary_head and not model.has_nsp
    assert f"no vocabulary head, it was saved as a {kind.__name__}" in model.why_no_words
    said = refusal(fill.probabilities, model, ["the [MASK] was here ."])
    assert said == model.why_no_words == refusal(pppl.pseudo_perplexity, model, ["he likes it ."])
    # its vectors are those of the network under a head
    sentences = ["the doctor said that she was here .", "he likes poetry ."]
    for pooling in embed.POOLINGS:
        vectors = embed.sentences(model, sentences, pooling=pooling)
        torch.testing.assert_close(vectors, embed.sentences(whole, sentences, pooling=pooling))
    contexts = {"doctor": sentences[:1], "poetry": sentences[1:]}
    torch.testing.assert_close(embed.words(model, contexts), embed.words(whole, contexts))
    mask = torch.ones(3, 4)
    mask[1, 2] = 0
    with hooks.head_mask(model, mask), hooks.head_mask(whole, mask):
        masked = embed.words(model, contexts)
        torch.testing.assert_close(masked, embed.words(whole, contexts))
    assert not torch.allclose(masked, embed.words(model, contexts), atol=1e-4)


def test_an_electra_that_tells_replaced_tokens_is_a_bare_encoder(tmp_path):
    """As google/electra-base-discriminator is: what its head says is no word."""
    whole = tiny("electra")
    net = transformers.ElectraForPreTraining(whole.net.config).eval()
    net.electra.load_state_dict(whole.net.electra.state_dict())
    net.save_pretrained(tmp_path)
    tokenizer_of("electra").save_pretrained(tmp_path)
    model = models.load(tmp_path, device="cpu")
    assert type(model.net) is transformers.ElectraModel and not model.has_vocabulary_head
    texts = ["the doctor said that she was here ."]
    vectors = embed.sentences(model, texts)
    torch.testing.assert_close(vectors, embed.sentences(whole, texts))


def test_a_plain_vocabulary_makes_the_same_tokenizer(bert, folders):
    saved = folders["bert"][1]
    (bert / "tokenizer.json").unlink()
    (bert / "tokenizer_config.json").unlink()
    vocabulary = saved.tokenizer.get_vocab()
    (bert / "vocab.txt").write_text("\n".join(sorted(vocabulary, key=vocabulary.get)))
    model = models.load(bert, device="cpu")
    for texts in [("she was here .",), ("she was here .", "He likes mathematicians .")]:
        assert model.tokenizer(*texts) == saved.tokenizer(*texts)


@every_family
def test_a_new_classifier_is_drawn_only_when_its_labels_are_named(tmp_path, folders, family):
    folder, _ = folders[family]
    if family == "albert":  # it was saved without the pooler that its classifier needs
        assert "pooler" in refused(folder, device="cpu", task="sequence-classification", labels=3)
        return
    assert "lacks" in refused(folder, device="cpu", task="sequence-classification")
    model = models.load(folder, device="cpu", task="sequence-classification", labels=3)
    logits = model.net(**batch(model)).logits
    assert logits.shape == (2, 3)
    model.net.save_pretrained(tmp_path)
    model.tokenizer.save_pretrained(tmp_path)
    again = models.load(tmp_path, device="cpu", task="sequence-classification")
    torch.testing.assert_close(again.net(**batch(again)).logits, logits)


@every_reader
def test_padding_is_on_the_right_and_no_text_outgrows_the_positions(folders, family):
    model = models.load(folders[family][0], device="cpu")
    texts = ["she was here .", "she . " * 50]
    rows = model.tokenizer(texts, padding=True, truncation=True, return_tensors="pt")
    assert rows.input_ids.shape[1] == (38 if family in ("roberta", "xlm-roberta", "mpnet") else 40)
    mask = rows.attention_mask[0].tolist()
    assert mask == sorted(mask, reverse=True)
    assert torch.isfinite(model.net(**rows)[0]).all()


@pytest.mark.parametrize("family", DECODERS)
def test_a_decoder_pads_with_its_end_token_and_has_no_mask(folders, family):
    model = models.load(folders[family][0], device="cpu")
    own = kind_of(family).special.get("pad_token")
    assert model.tokenizer.pad_token == (own or model.tokenizer.eos_token)
    assert model.net.config.pad_token_id == model.tokenizer.pad_token_id
    assert "choose an encoder" in refusal(getattr, model, "mask_token")


@every_reader
def test_the_id_of_a_word_is_that_of_its_token_in_a_sentence(folders, family):
    model = models.load(folders[family][0], device="cpu")
    as_read = model.tokenizer("a woman met the doctor", add_special_tokens=False).input_ids
    assert model.token_id("doctor") == as_read[-1]
    opening = model.tokenizer("the doctor", add_special_tokens=False).input_ids
    assert model.token_id("the", inside=False) == opening[0]
    is_byte_level = kind_of(family).is_byte_level
    assert (model.token_id("the", inside=False) != model.token_id("the")) == is_byte_level
    assert "'mathematician' is not one token of" in refusal(model.token_id, "mathematician")
    assert is_byte_level or "UNK" in refusal(model.token_id, "中")


def test_a_name_of_the_registry_wins_over_a_folder_of_that_name(
    tmp_path, bert, folders, monkeypatch
):
    bert.rename(tmp_path / "mini-gpt2")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(places.REGISTRY, "mini-gpt2", places.Entry(folders["gpt2"][0], "gpt2", ""))
    assert models.load("mini-gpt2", device="cpu").family == "gpt2"
    assert models.load("./mini-gpt2", device="cpu").family == "bert"


QUERY = "bert.encoder.layer.1.attention.self.query.weight"
OUTSIDE = "bert.encoder.layer.9.output.dense.bias"
EMBEDDING = "bert.embeddings.word_embeddings.weight"


# Damages: functions of a folder, which may return another.


def without(*keys):
    """Take out the tensors whose names have one of these texts."""

    def remove(tensors):
        return {name: value for name, value in tensors.items() if not any(k in name for k in keys)}

    return lambda folder: change_weights(folder, remove)


def weights(key, value):
    """Replace the first number of a tensor."""

    def spoil(tensors):
        tensors[key].view(-1)[0] = value
        return tensors

    return lambda folder: change_weights(folder, spoil)


def zeros(folder):
    change_weights(folder, lambda tensors: {key: value * 0 for key, value in tensors.items()})


def few_words(folder):
    change_weights(folder, shortened(50))
    change_config(folder, vocab_size=50)


def settings(**values):
    return lambda folder: change_config(folder, **values)


def contents(file, content):
    def write(folder):
        (folder / file).write_bytes(content)

    return write


def gone(file):
    return lambda folder: (folder / file).unlink()


def shards(folder):
    """Say that the weights are two files, of which one is there."""
    (folder / "model.safetensors").rename(folder / "model-1.safetensors")
    index = {"weight_map": {QUERY: "model-1.safetensors", EMBEDDING: "model-2.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def bad_index(folder):
    shards(folder)
    (folder / "model.safetensors.index.json").write_text("[]")


def dangling(folder):
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").symlink_to(folder / "nowhere")


def not_unicode(folder):
    return folder.rename(os.fsdecode(bytes(folder) + b"\xe9"))


def pickled_of_no_family(folder):
    change_config(folder, model_type="deberta-v2")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


@pytest.mark.parametrize(
    "damage, said",
    [
        (without(QUERY), "lacks 1 weights of Bert.* task"),
        (without("predictions"), "lacks .* task"),  # its other head is there
        (settings(tie_word_embeddings=False), "lacks .* .cls.predictions.decoder"),
        (settings(hidden_size=64), "sizes differ"),
        (settings(hidden_size="wide"), "config.json of .* is not that of a bert"),
        (settings(num_attention_heads=5), "not a multiple of the number of attention heads"),
        (settings(hidden_act="frob"), "'frob'"),
        (settings(num_hidden_layers=0), "config.json leaves out"),
        (settings(is_decoder=True), "reads a text the other way"),
        (settings(quantization_config={"bits": 4}), "quantised weights, which are not read"),
        (settings(model_type="t5"), "'t5', which is not supported: choose a model of bert"),
        (pickled_of_no_family, "masked-language"),  # said first: converting would not help
        (weights(QUERY, float("nan")), "query.weight"),
        (zeros, "All weights of .* are zero"),
        (gone("tokenizer.json"), "no fast tokenizer of its own"),
        (contents("tokenizer.json", b"{"), "no fast tokenizer of its own"),
        (few_words, "beyond the 50 that its embedding has"),
        (contents("model.safetensors", b"version https://git-lfs"), "header"),
        (contents("config.json", b"{"), "config.json is damaged"),
        (contents("config.json", b"[" * 100_000), "config.json is damaged"),
        (gone("model.safetensors"), "lacks model.safetensors"),
        (gone("config.json"), "no config.json"),
        (dangling, "lacks model.safetensors"),
        (shards, "lacks model-2.safetensors"),
        (bad_index, "index.json is damaged"),
        (not_unicode, "not valid UTF-8"),
    ],
)
def test_a_damaged_folder_is_refused_and_no_weight_is_made_up(bert, damage, said):
    folder = damage(bert) or bert
    before = sorted(folder.rglob("*"))
    with pytest.raises(CompanionError) as caught:
        models.load(folder, device="cpu")
    assert re.search(said, str(caught.value))
    assert sorted(folder.rglob("*")) == before  # nothing was written


@pytest.mark.parametrize(
    "family, damage, said",
    [
        ("llama", without("lm_head.weight"), "lacks 1 weights of LlamaForCausalLM"),
        ("gemma3_text", settings(use_bidirectional_attention=True), "reads a text the other way"),
    ],
)
def test_a_damaged_decoder_is_refused(folders, tmp_path, family, damage, said):
    """Its head is one tensor, and may have been lost."""
    folder = shutil.copytree(folders[family][0], tmp_path / family)
    damage(folder)
    assert said in refused(folder, device="cpu")


def test_a_bare_encoder_that_lacks_a_weight_is_refused(tmp_path):
    save_bare("bert", tmp_path, transformers.BertModel)
    without("encoder.layer.1.attention.self.query.weight")(tmp_path)
    assert "lacks" in refused(tmp_path, device="cpu")


def test_a_vocabulary_without_tokenizer_json_is_part_of_the_revision(bert):
    (bert / "tokenizer.json").unlink()
    revisions = set()
    for vocabulary in ("[UNK]\nnurse\n", "nurse\n[UNK]\n"):
        (bert / "vocab.txt").write_text(vocabulary)
        revisions.add(places.locate(bert)[1])
    assert len(revisions) == 2


def test_an_encoder_whose_tokenizer_has_no_mask_token_says_so(bert):
    file = bert / "tokenizer_config.json"
    changed = json.loads(file.read_text())
    del changed["mask_token"]
    file.write_text(json.dumps(changed))
    model = models.load(bert, device="cpu")
    for call in (pppl.pseudo_perplexity, fill.probabilities):
        assert "has no mask token" in refusal(call, model, ["the doctor [MASK] ."])


LONG = "x" * 300  # more than a disk takes for a name


@pytest.mark.parametrize(
    "name, options, said",
    [
        *((name, {}, "is no model") for name in (None, "", 7)),
        *((name, {}, "no folder") for name in ("./nowhere", "~/surely/nowhere", Path("nowhere"))),
        *((name, {}, "no folder") for name in (f"./{LONG}", "~nobody/model")),
        (LONG, {}, "There is no model"),
        ("bert-bsae", {}, "is it bert-base.*mini-bert, .*gpt2"),
        ("xyzzy", {}, "no model 'xyzzy': name"),
        ("null@x", {}, "names no draw"),
        ("null", dict(revision="3"), "write null@3"),
        ("mini-bert", dict(revision="3"), "is a folder"),
        ("mini-gpt2", dict(attention="flash"), "choose sdpa or eager"),
        ("mini-gpt2", dict(task="translation"), "sequence-classification"),
        *(
            ("mini-bert", dict(dtype=dtype), "Weights cannot be read as .*: choose torch.float32")
            for dtype in (torch.int8, torch.float64, torch.float8_e4m3fn, "half")
        ),
        *(
            ("mini-bert", dict(task="sequence-classification", labels=labels), "classes")
            for labels in (-1, 0, 2.5, "3", True)
        ),
        *(
            ("no/such", dict(device=device), "choose cpu, or leave it out")
            for device in ("cuda", "cuda:1", "mps", "nonsense", "meta", "cpu:x", "cpu:1", 5)
        ),
    ],
)
def test_what_cannot_be_asked_is_refused(name, options, said, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert re.search(said, refused(name, **options))


@pytest.fixture
def untrained(folders, monkeypatch, tmp_path):
    """Call it with a family: the name of an untrained network that has the tiny model's shape."""

    def name_of(family):
        monkeypatch.setattr(paths, "CACHE", tmp_path)
        name = "null" if family == "bert" else f"null-{family}"
        assert places.REGISTRY[name].source == paths.MODELS / f"mini-{family}"
        entry = replace(places.REGISTRY[name], source=folders[family][0])
        monkeypatch.setitem(places.REGISTRY, name, entry)
        return name

    return name_of


@pytest.mark.parametrize("family", ["bert", "gpt2", "roberta", "albert"])
def test_an_untrained_network_has_a_trained_ones_shape_and_weights_of_its_seed_which_is_named(
    family, untrained, folders, tmp_path
):
    _, trained = folders[family]
    name = untrained(family)
    draws = [models.load(one, device="cpu") for one in (name, f"{name}@0", f"{name}@3")]
    first, again, other = (draw.net.state_dict() for draw in draws)
    trained_weights = trained.net.state_dict()
    assert first.keys() == trained_weights.keys()
    for key, value in first.items():
        assert value.shape == trained_weights[key].shape and torch.equal(value, again[key])
        if value.dim() > 1:
            assert not torch.equal(value, other[key])
            assert not torch.equal(value, trained_weights[key])
    assert draws[0].has_nsp == trained.has_nsp
    assert batch(draws[0]).input_ids.tolist() == batch(trained).input_ids.tolist()
    revisions = [draw.revision for draw in draws]
    assert revisions[0] == revisions[1] != revisions[2]
    assert f"{family}, seed 3, sha" in revisions[2]
    folder, _ = places.locate(f"{name}@3")
    assert folder == tmp_path / "models" / f"untrained-{family}"
    assert not list(tmp_path.rglob("*.safetensors"))
    assert not list(tmp_path.rglob("training.json"))


def test_drawing_a_network_disturbs_no_other_random_draw(untrained):
    name = untrained("bert")
    before = torch.get_rng_state()
    models.load(name, device="cpu")
    assert torch.equal(torch.get_rng_state(), before)


def test_a_pickle_is_refused_unopened(bert):
    (bert / "model.safetensors").unlink()

    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(bert / "opened"),)

    (bert / "pytorch_model.bin").write_bytes(pickle.dumps(Trap()))
    assert "pickles are refused" in refused(bert)
    assert not (bert / "opened").exists()


# ALBERT runs one layer as often as its config.json says: any number fits its files.
@pytest.mark.parametrize("family", ["bert", "distilbert", "gpt2", "gemma2"])
def test_a_config_of_fewer_layers_than_the_files_hold_is_refused(folders, tmp_path, family):
    folder = shutil.copytree(folders[family][0], tmp_path / "fewer")
    config = json.loads((folder / "config.json").read_text())
    key = next(key for key in ("num_hidden_layers", "n_layer", "n_layers") if key in config)
    kinds = config.get("layer_types")
    change_config(folder, **{key: 2}, **({"layer_types": kinds[:2]} if kinds else {}))
    assert "weights of layers that its config.json leaves out" in refused(folder, device="cpu")


def test_a_feed_forward_part_sees_all_tokens_at_once(bert, folders):
    """In chunks of three it fails on texts of other lengths, and hooks would see parts."""
    change_config(bert, chunk_size_feed_forward=3)
    assert torch.equal(output(models.load(bert, device="cpu")), output(folders["bert"][1]))


def test_weights_beside_the_layers_are_no_reason_to_refuse(bert):
    """Heads of other tasks, and buffers that older versions stored."""
    others = ("classifier.weight", "qa_outputs.9.weight", "bert.embeddings.position_ids")
    others += ("bert.encoder.layer.0.attention.self.bias", "decoder.encoder.layer.7.weight")
    change_weights(bert, lambda tensors: tensors | {key: torch.ones(2) for key in others})
    assert models.load(bert, device="cpu").n_layers == 3


def test_a_padding_token_that_was_added_is_never_looked_up(tmp_path):
    """As copies of LLaMA have it: 32,000 embeddings, and a tokenizer with one token more."""
    saved = save_tiny("llama", tmp_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    size = len(tokenizer)
    change_weights(tmp_path, shortened(size))
    tokenizer.add_special_tokens({"pad_token": "[PAD]"})
    tokenizer.save_pretrained(tmp_path)
    change_config(tmp_path, vocab_size=size, pad_token_id=size)
    model = models.load(tmp_path, device="cpu")
    assert model.tokenizer.pad_token_id == model.net.config.pad_token_id < size
    texts = ["the doctor said that [MASK]", "he [MASK]"]  # of different lengths
    expected = [fill.probabilities(saved, [text])[0, :size] for text in texts]
    for row, whole in zip(fill.probabilities(model, texts), expected):
        torch.testing.assert_close(row, whole / whole.sum(), rtol=1e-4, atol=1e-6)


@pytest.fixture
def classifier(folders, tmp_path):
    """A classifier on the base with one matrix changed, and the folder of its difference."""
    base = folders["bert"][0]
    torch.manual_seed(1)
    model = models.load(str(base), device="cpu", task="sequence-classification", labels=3)
    model.net.config.id2label = {0: "entailment", 1: "neutral", 2: "contradiction"}
    model.net.state_dict()[QUERY].add_(0.1)
    places.save_difference(model, str(base), tmp_path / "nli", epochs=2)
    return model, tmp_path / "nli"


def load(folder, task="sequence-classification", **options):
    return models.load(str(folder), device="cpu", task=task, **options)


def test_a_difference_holds_what_was_changed_and_gives_back_the_whole(classifier, folders):
    model, folder = classifier
    stored = load_file(folder / "model.safetensors")
    assert set(stored) == {QUERY, "classifier.weight", "classifier.bias"}
    assert {tensor.dtype for tensor in stored.values()} == {torch.float16}
    again = load(folder)
    for name, weight in model.net.state_dict().items():
        assert torch.equal(again.net.state_dict()[name], weight.half().float()), name
    assert again.net.config.id2label[2] == "contradiction"
    text = "she likes poetry ."
    assert again.tokenizer(text).input_ids == model.tokenizer(text).input_ids
    record = json.loads((folder / "training.json").read_text())
    assert record["base"] == str(folders["bert"][0])
    assert record["base_revision"] == model.revision and record["epochs"] == 2


@pytest.mark.parametrize("is_in_parts", [False, True])
def test_files_that_nothing_names_are_no_part_of_a_base(classifier, folders, tmp_path, is_in_parts):
    _, folder = classifier
    before = load(folder).net.state_dict()
    base = shutil.copytree(folders["bert"][0], tmp_path / "base")
    tensors = load_file(base / "model.safetensors")
    if is_in_parts:
        part = "model-00001-of-00001.safetensors"
        (base / "model.safetensors").rename(base / part)
        index = json.dumps({"metadata": {}, "weight_map": dict.fromkeys(tensors, part)})
        (base / "model.safetensors.index.json").write_text(index)
    known = places.locate(base)[1]
    older = {key: torch.full_like(value, 9) for key, value in tensors.items()}
    save_file(older, base / "model_old.safetensors", metadata={"format": "pt"})
    change_config(folder, companion_base=str(base))
    assert places.locate(base)[1] == known  # nor of its revision
    for key, value in load(folder).net.state_dict().items():
        assert torch.equal(value, before[key]), key


def test_the_revision_of_a_difference_changes_with_its_weights_and_with_its_base(
    classifier, folders, tmp_path
):
    _, folder = classifier
    other_base = shutil.copytree(folders["bert"][0], tmp_path / "other")
    change_config(folder, companion_base=str(other_base))
    revisions = {places.locate(str(folder))[1]}
    for place in (folder, other_base):
        weights(QUERY, 1.0)(place)
        revisions.add(places.locate(str(folder))[1])
    assert len(revisions) == 3


@pytest.mark.parametrize(
    "change, options, said",
    [
        (lambda tensors: tensors, {"task": None}, "the task it was saved for"),
        (lambda tensors: tensors | {OUTSIDE: torch.ones(32)}, {}, "layer.9"),
        (lambda tensors: tensors | {QUERY: tensors[QUERY][:8].contiguous()}, {}, "sizes differ"),
        (lambda tensors: {QUERY: tensors[QUERY]}, {}, "classifier.bias"),
    ],
)
def test_a_difference_that_does_not_fit_is_refused(classifier, change, options, said):
    _, folder = classifier
    change_weights(folder, change)
    assert said in refusal(load, folder, **options)


@pytest.fixture
def debiased(folders, tmp_path):
    """A language model with embeddings changed, and the folder of its difference."""
    base = str(folders["bert"][0])
    model = models.load(base, device="cpu")
    model.net.state_dict()[EMBEDDING].mul_(2)
    places.save_difference(model, base, tmp_path / "debiased")
    return model, tmp_path / "debiased"


def test_tied_embeddings_are_stored_once_in_a_difference_and_stay_tied(debiased):
    model, folder = debiased
    assert set(load_file(folder / "model.safetensors")) == {EMBEDDING}
    again = load(folder, task=None)
    assert again.net.get_output_embeddings().weight is again.net.get_input_embeddings().weight
    assert torch.allclose(output(again), output(model), atol=2e-3)


def test_a_difference_can_be_fine_tuned(debiased):
    model, folder = debiased
    labelled = load(folder, labels=2)
    expected = model.net.state_dict()[EMBEDDING].half().float()
    assert torch.equal(labelled.net.state_dict()[EMBEDDING], expected)


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
    base = named or str(folder)
    change_config(folder, companion_base=base)
    assert why in refusal(load, folder)
    another = folder.with_name("another")
    assert why in refusal(places.save_difference, model, base, another)
    assert not another.exists()
