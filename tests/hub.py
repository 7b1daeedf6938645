"""A stand-in for the model hub: what --profile paper fetches, in the hub's own cache layout, with random weights.

    python -m tests.hub FOLDER                 true shapes (large models few layers deep): 4 GB, minutes
    python -m tests.hub FOLDER --small         small shapes with the same files, keys and tokenizers: seconds
    HF_HOME=FOLDER HF_HUB_OFFLINE=1 COMPANION_DATA=... ./reproduce.sh --profile paper --limit 8 --device cpu

Nothing of the hub can be fetched where tests run. So this makes, for every hub model of the registry, the files that
its repository has (data/hub.toml says where that was looked up): config.json, model.safetensors under the names that
the checkpoint's keys have, a tokenizer of its kind with its special tokens and the size of its vocabulary; and the
hub's data sets as `datasets` keeps them. Texts and words are the repository's own.
"""

import argparse
import hashlib
import json
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pandas as pd
import torch
import transformers
from safetensors.torch import save_file
from tokenizers import Tokenizer, pre_tokenizers, processors, trainers
from tokenizers.models import BPE

from lib import paths
from lib.engine import models
from lib.text import data
from lib.text.readers import NLI_LABELS

SMALL = dict(hidden_size=48, num_hidden_layers=12, num_attention_heads=12, intermediate_size=64,
             max_position_embeddings=514)
BERT = dict(vocab_size=30_522, hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3_072)
LARGE = dict(hidden_size=1_024, num_hidden_layers=2, num_attention_heads=16, intermediate_size=4_096)  # truly 24 deep
ROBERTA = BERT | dict(vocab_size=50_265, max_position_embeddings=514, type_vocab_size=1, bos_token_id=0,
                      pad_token_id=1, eos_token_id=2)
ALBERT = BERT | dict(vocab_size=30_000, embedding_size=128, bos_token_id=2, eos_token_id=3, pad_token_id=0)
LLAMA = dict(vocab_size=32_000, hidden_size=4_096, num_hidden_layers=2, num_attention_heads=32,  # truly 32 deep
             intermediate_size=11_008, max_position_embeddings=4_096)
SMOL = dict(vocab_size=49_152, hidden_size=576, num_hidden_layers=30, num_attention_heads=9, num_key_value_heads=3,
            intermediate_size=1_536, max_position_embeddings=8_192, tie_word_embeddings=True)

SHAPES = {  # of every hub model that a profile names
    "google-bert/bert-base-uncased": BERT,
    "google-bert/bert-large-uncased": BERT | LARGE,
    "openai-community/gpt2": dict(n_embd=768, n_layer=12, n_head=12),
    "openai-community/gpt2-medium": dict(n_embd=1_024, n_layer=2, n_head=16),  # truly 24 deep
    "openai-community/gpt2-large": dict(n_embd=1_280, n_layer=2, n_head=20),  # truly 36 deep
    "FacebookAI/roberta-base": ROBERTA,
    "FacebookAI/roberta-large": ROBERTA | LARGE,
    "albert/albert-base-v2": ALBERT,
    "meta-llama/Llama-2-7b-hf": LLAMA,
    "meta-llama/Llama-2-7b-chat-hf": LLAMA,
    "HuggingFaceTB/SmolLM2-135M": SMOL,
    "HuggingFaceTB/SmolLM2-135M-Instruct": SMOL,
}
CLASSES = {"bert": "BertForPreTraining", "gpt2": "GPT2LMHeadModel", "roberta": "RobertaForMaskedLM",
           "albert": "AlbertForMaskedLM", "Llama": "LlamaForCausalLM", "SmolLM2": "LlamaForCausalLM"}
TIED = {"cls.predictions.decoder.weight", "cls.predictions.decoder.bias", "lm_head.decoder.weight",
        "lm_head.decoder.bias", "predictions.decoder.weight"}  # not in the checkpoints


def make(folder: Path, small: bool = False, only=tuple(SHAPES)):
    """Every model and data set in `folder`, which HF_HOME may then name. What is there stays."""
    for hub_id in only:
        place = snapshot(folder, hub_id)
        if not (place / "model.safetensors").is_file():
            _save(hub_id, place, small)
    if not (folder / "datasets").is_dir():
        for name, tables in hub_tables().items():
            _save_tables(folder, name, tables)


def snapshot(folder: Path, hub_id: str) -> Path:
    """Where a model's files go: the hub's cache names them by the commit, the pinned one or a made-up one."""
    home = folder / "hub" / f"models--{hub_id.replace('/', '--')}"
    commit = models.pinned(hub_id) or hashlib.sha1(hub_id.encode()).hexdigest()
    (home / "refs").mkdir(parents=True, exist_ok=True)
    (home / "refs" / "main").write_text(commit)
    return home / "snapshots" / commit


def _save(hub_id: str, place: Path, small: bool):
    place.mkdir(parents=True, exist_ok=True)
    family = next(name for name in CLASSES if hub_id.split("/")[1].startswith(name))
    net_class = getattr(transformers, CLASSES[family])
    shape = SHAPES[hub_id] | (_small(SHAPES[hub_id]) if small else {})
    tokenizer, settings = TOKENIZERS[family](0 if small else shape.get("vocab_size", 50_257))
    if small:
        shape["vocab_size"] = len(tokenizer)
    if family == "gpt2":
        shape |= dict.fromkeys(["bos_token_id", "eos_token_id"], tokenizer.eos_token_id)
    torch.manual_seed(0)
    net = net_class(net_class.config_class(**shape))
    for weight in net.parameters():
        if small and weight.dim() > 1:  # large enough to matter
            torch.nn.init.normal_(weight, std=.2)
    net.config.architectures = [CLASSES[family]]
    (place / "config.json").write_text(net.config.to_json_string())
    weights = {key: weight.detach().half().contiguous() for key, weight in _as_on_the_hub(family, net).items()}
    save_file(weights, place / "model.safetensors", metadata={"format": "pt"})
    tokenizer.backend_tokenizer.save(str(place / "tokenizer.json"))
    (place / "tokenizer_config.json").write_text(json.dumps(settings))


def _small(shape: dict) -> dict:
    if "n_embd" in shape:
        return dict(n_embd=48, n_layer=12, n_head=12, n_positions=514)
    return SMALL | ({"embedding_size": 16} if "embedding_size" in shape else {}) | (
        {"num_key_value_heads": 4} if "num_key_value_heads" in shape else {})


def _as_on_the_hub(family: str, net) -> dict[str, torch.Tensor]:
    """The weights under the names of the published checkpoints: old names, no prefix, buffers, tied ones left out."""
    tied = {"lm_head.weight"} if net.config.tie_word_embeddings else set()
    weights = {key: weight for key, weight in net.state_dict().items() if key not in TIED | tied}
    if family == "bert":  # as TensorFlow called them
        for new, old in (("LayerNorm.weight", "LayerNorm.gamma"), ("LayerNorm.bias", "LayerNorm.beta")):
            weights = {key.replace(new, old): weight for key, weight in weights.items()}
    if family == "gpt2":
        weights = {key.removeprefix("transformer."): weight for key, weight in weights.items()}
        n = net.config.n_positions
        weights |= {f"h.{layer}.attn.bias": torch.ones(1, 1, n, n).tril() for layer in range(net.config.n_layer)}
    if family in ("roberta", "albert"):
        weights[f"{family}.embeddings.position_ids"] = torch.arange(net.config.max_position_embeddings)[None]
    if family == "albert":
        weights["predictions.decoder.bias"] = weights["predictions.bias"].clone()
    return weights


@cache
def texts() -> tuple[str, ...]:
    """Every word of data/lists, a few times, and the texts of data/demo."""
    listed, written = ([str(cell) for file in sorted(folder.glob("*.csv"))
                        for cell in read(file.stem).to_numpy().ravel()]
                       for folder, read in ((paths.LISTS, data.words), (paths.DEMO, data.demo)))
    return (*[f"the {word}" for word in dict.fromkeys(listed) for _ in range(3)], *written, *data.demo("prose"))


@cache
def words() -> Counter:
    return Counter(word for text in texts() for word in re.findall(r"\w+|[^\w\s]", text.lower()))


def _filled(vocabulary: list[str], size: int) -> list[str]:
    return vocabulary + [f"[unused{n}]" for n in range(size - len(vocabulary))]


def _wordpiece(size: int):
    letters = sorted(set("".join(words())) | set("abcdefghijklmnopqrstuvwxyz0123456789"))
    vocabulary = ["[PAD]", *_filled([], 99), "[UNK]", "[CLS]", "[SEP]", "[MASK]",  # at 0 and 100 to 103
                  *dict.fromkeys([*letters, *(f"##{letter}" for letter in letters), *words()])]
    vocabulary += [f"[unused{n}]" for n in range(99, 99 + size - len(vocabulary))]
    tokenizer = transformers.BertTokenizer(vocab={token: i for i, token in enumerate(vocabulary)}, do_lower_case=True)
    return tokenizer, {"do_lower_case": True, "model_max_length": 512}


def _merged(pre_tokenizer, alphabet=()) -> tuple[list[str], list[tuple[str, str]]]:
    """The pieces of a byte-pair encoding, in their order, and the merges that make them."""
    learner = Tokenizer(BPE())
    learner.pre_tokenizer = pre_tokenizer
    learner.train_from_iterator(texts(), trainers.BpeTrainer(vocab_size=8_000, initial_alphabet=list(alphabet),
                                                             show_progress=False))
    learned = json.loads(learner.to_str())["model"]
    return list(learned["vocab"]), [tuple(pair) for pair in learned["merges"]]


@cache
def _bytes() -> tuple[list[str], list[tuple[str, str]]]:
    return _merged(pre_tokenizers.ByteLevel(add_prefix_space=False), sorted(pre_tokenizers.ByteLevel.alphabet()))


def _byte_level(size: int, kind=transformers.GPT2Tokenizer, first=(), last="<|endoftext|>", positions=1_024):
    pieces, merges = _bytes()
    vocabulary = [*_filled([*first, *pieces], size - 1), last]  # GPT-2's last one is 50256
    tokenizer = kind(vocab={piece: i for i, piece in enumerate(vocabulary)}, merges=merges)
    return tokenizer, {"model_max_length": positions}


def _roberta(size: int):
    return _byte_level(size, transformers.RobertaTokenizer, ["<s>", "<pad>", "</s>", "<unk>"], "<mask>", 512)


def _unigram(size: int):
    letters = sorted(set("".join(words())))
    scored = {f"▁{word}": -5. - i / 1_000 for i, (word, _) in enumerate(words().most_common())}
    scored |= {letter: -20. for letter in ["▁", *letters]} | {f"▁{letter}": -19. for letter in letters
                                                            if f"▁{letter}" not in scored}
    special = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = [(token, 0.) for token in special] + list(scored.items())
    vocabulary += [(f"[unused{n}]", -99.) for n in range(size - len(vocabulary))]
    return transformers.AlbertTokenizer(vocab=vocabulary), {"model_max_length": 512}


def _llama(size: int):
    pieces, merges = _merged(pre_tokenizers.Sequence([pre_tokenizers.Metaspace(), pre_tokenizers.Punctuation()]))
    fallback = [f"<0x{byte:02X}>" for byte in range(256)]
    vocabulary = _filled(["<unk>", "<s>", "</s>", *fallback, *pieces], size)
    tokenizer = transformers.LlamaTokenizer(vocab={piece: i for i, piece in enumerate(vocabulary)}, merges=merges)
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)])
    return tokenizer, {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True, "add_eos_token": False,
                       "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "legacy": False,
                       "model_max_length": 10**30}


def _smol(size: int):
    token = dict.fromkeys(["bos_token", "eos_token", "unk_token"], "<|endoftext|>")
    return _byte_level(size)[0], {"tokenizer_class": "GPT2Tokenizer", "model_max_length": 8_192, **token}


TOKENIZERS = {"bert": _wordpiece, "gpt2": _byte_level, "roberta": _roberta, "albert": _unigram, "Llama": _llama,
              "SmolLM2": _smol}


def hub_tables() -> dict[str, dict[str, dict[str, pd.DataFrame]]]:
    """{set of data/sources.toml: {configuration: {split: table}}}, in the columns that the hub's have."""
    pairs = data.demo("nli")
    labels = pairs["label"].map(NLI_LABELS.index)
    snli = pd.DataFrame({"premise": pairs["premise"], "hypothesis": pairs["hypothesis"], "label": labels})
    two, index = labels.clip(upper=1), range(len(pairs))
    glue = {name: pairs.rename(columns=dict(zip(["premise", "hypothesis"], columns)))[columns].assign(
            label=labels.astype(float) if name == "stsb" else labels if name == "mnli" else two, idx=index)
            for name, columns in {
                "cola": ["sentence"], "sst2": ["sentence"], "mrpc": ["sentence1", "sentence2"],
                "stsb": ["sentence1", "sentence2"], "qqp": ["question1", "question2"],
                "mnli": ["premise", "hypothesis"], "qnli": ["question", "sentence"], "rte": ["sentence1", "sentence2"],
                "wnli": ["sentence1", "sentence2"]}.items()}
    held = {"mnli": ["validation_matched", "validation_mismatched"]}
    parts = {split: snli.iloc[start::3].reset_index(drop=True)  # no pair is in two of them
             for start, split in enumerate(["train", "validation", "test"])}
    return {"hub_snli": {"plain_text": parts},
            "hub_wikitext2": {"wikitext-2-raw-v1": {"test": pd.DataFrame({"text": ["", *data.demo("prose")]})}},
            "hub_glue": {name: dict.fromkeys(["train", *held.get(name, ["validation"])], table)
                         for name, table in glue.items()}}


def _save_tables(folder: Path, name: str, tables: dict):
    """As load_dataset leaves a set behind, so that without a network it is found again."""
    from datasets import Dataset, DatasetInfo, Split, SplitDict, SplitInfo
    from datasets.arrow_writer import ArrowWriter

    entry = data._table()[name]
    short = entry["hub"].split("/")[1]
    for config, splits in tables.items():
        place = folder / "datasets" / entry["hub"].replace("/", "___") / config / "0.0.0" / entry["revision"]
        place.mkdir(parents=True)
        found = SplitDict(dataset_name=short)
        for split, table in splits.items():
            rows = Dataset.from_pandas(table, preserve_index=False)
            with ArrowWriter(path=str(place / f"{short}-{split}.arrow"), features=rows.features) as writer:
                writer.write_table(rows.data.table)
                n, size = writer.finalize()
            found.add(SplitInfo(name=str(Split(split)), num_bytes=size, num_examples=n, dataset_name=short))
        DatasetInfo(builder_name="parquet", dataset_name=short, config_name=config, version="0.0.0", splits=found,
                    features=rows.features).write_to_directory(str(place))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.hub", description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, help="what HF_HOME is to name")
    parser.add_argument("--small", action="store_true", help="small shapes: seconds")
    given = parser.parse_args()
    make(given.folder, given.small)
    print(f"HF_HOME={given.folder.resolve()} HF_HUB_OFFLINE=1 stands for the hub: {len(SHAPES)} random models")
