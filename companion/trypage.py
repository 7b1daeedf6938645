"""A model in the page: build/report/try.html, one file that needs no kernel and no network.

    write()                 make it from the bundled weights and the stored results
    pack(model, direction)  the weights as 8-bit integers, a scale for each row, and where each is
    rounded(model)          the same weights in the network itself, to compare with

mini-bert is taken since it is the encoder that most notebooks speak of, and since its file is of
the size that a page can have: 17 million numbers of 8 bits. What is computed is in try/model.js,
what is written in try/tokenizer.js, what is seen in try/page.*; the texts beside it are those of
try/things.toml, with stored results filled in by companion/totry.py.
"""

import base64
import hashlib
import statistics
from pathlib import Path

import torch
from markupsafe import Markup

from companion import look, totry
from companion.report.page import TEMPLATES
from lib import CompanionError, load, paths
from lib.engine.files import check_writable, replace
from lib.projective import projection
from lib.text import contexts, pairs

FOLDER = Path(__file__).parent / "try"
MODEL = "mini-bert"
LARGEST = 127  # of an 8-bit integer with a sign; -128 is not used
# Names in the page of what transformers calls otherwise; {} is a layer, from 0.
EMBEDDINGS = {
    "words": "bert.embeddings.word_embeddings.weight",
    "positions": "bert.embeddings.position_embeddings.weight",
    "embeddings.gain": "bert.embeddings.LayerNorm.weight",
    "embeddings.shift": "bert.embeddings.LayerNorm.bias",
    "transform": "cls.predictions.transform.dense.weight",
    "transform.bias": "cls.predictions.transform.dense.bias",
    "transform.gain": "cls.predictions.transform.LayerNorm.weight",
    "transform.shift": "cls.predictions.transform.LayerNorm.bias",
    "words.bias": "cls.predictions.bias",
}
PRODUCTS = {
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "mix": "attention.output.dense",
    "wide": "intermediate.dense",
    "narrow": "output.dense",
}
NORMS = {"seen.": "attention.output.LayerNorm", "": "output.LayerNorm"}


def write(target: Path | None = None) -> Path:
    """Make the page; its path."""
    target = target or paths.BUILD / "report" / "try.html"
    check_writable(target.parent)
    replace(target, render().encode())
    return target


def beside_the_report():
    """Make the page where the stored results that it shows are at hand: it takes seconds, and the
    article links it.
    """
    if totry.has_results():
        try:
            write()
        except CompanionError as error:  # the report is made all the same
            print(f"There is no page with a model in it: {error}")


def render() -> str:
    """The page as text: its scripts, its weights, and what was found with this model."""
    model = load(MODEL, device="cpu")
    subspaces = projection.fit(model, pairs.written())
    direction = subspaces.of("tokens").basis[0]
    odds = contexts.pronoun_odds(model)["log_odds"]
    manifest, weights = pack(model, direction)
    rounded(model)
    off = (contexts.pronoun_odds(model)["log_odds"] - odds).abs()
    data = {
        "model": {"layers": model.n_layers, "heads": model.n_heads, "manifest": manifest},
        "tokenizer": tokenizer_tables(model.tokenizer),
        "heads": totry.heads(MODEL),
        "things": totry.things(MODEL),
    }
    script = _script("page.js")
    return TEMPLATES.get_template("try/page.html").render(
        style=Markup(_script("page.css")),
        page=Markup(script),
        # the only script that may run, but for the worker made from the other
        allowed="sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        worker=Markup("\n".join(map(_script, ("tokenizer.js", "model.js", "worker.js")))),
        data=data,
        weights=Markup(base64.b64encode(weights).decode()),
        look=look,
        name=MODEL,
        revision=model.revision,
        millions=round(sum(one.numel() for one in model.net.bert.parameters()) / 1e6),
        median=f"{statistics.median(off):.2f}",
        largest=f"{max(off):.2f}",
        jobs=len(off),
        things=data["things"],
    )


def _script(name: str) -> str:
    """A file of the page, which must not end the element that it is put into."""
    text = (FOLDER / name).read_text(encoding="utf-8")
    if "</s" in text:
        raise CompanionError(f"{name} holds '</s', which would end it early: write it otherwise.")
    return text


# ---- weights
def names(n_layers: int) -> dict[str, str]:
    """{name in the page: name in the network} of every weight that is packed."""
    every = dict(EMBEDDINGS)
    for layer in range(n_layers):
        inside = f"bert.encoder.layer.{layer}."
        for short, long in PRODUCTS.items():
            every[f"{layer}.{short}"] = f"{inside}{long}.weight"
            every[f"{layer}.{short}.bias"] = f"{inside}{long}.bias"
        for short, long in NORMS.items():
            every[f"{layer}.{short}gain"] = f"{inside}{long}.weight"
            every[f"{layer}.{short}shift"] = f"{inside}{long}.bias"
    return every


def quantised(matrix: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(integers [rows, columns], scale [rows]): the largest of each row becomes 127 or -127."""
    scale = matrix.abs().amax(1) / LARGEST
    scale[scale == 0] = 1
    return (matrix / scale[:, None]).round().to(torch.int8), scale


def pack(model, direction: torch.Tensor) -> tuple[dict, bytes]:
    """(manifest, bytes). The manifest has for each name its `shape`, where its `floats` begin (the
    numbers, or of a matrix the scales of its rows) and, of a matrix, its `integers`.
    """
    floats, integers, manifest = [], [], {}
    at = {"floats": 0, "integers": 0}
    state = model.net.state_dict()
    tensors = {name: state[long].float() for name, long in names(model.n_layers).items()}
    tensors["kind"] = state["bert.embeddings.token_type_embeddings.weight"][0].float()
    tensors["direction"] = direction
    for name, tensor in tensors.items():
        entry = {"shape": list(tensor.shape), "floats": at["floats"]}
        numbers = tensor
        if tensor.dim() == 2:
            small, numbers = quantised(tensor)
            entry["integers"] = at["integers"]
            integers.append(small.numpy().tobytes())
            at["integers"] += small.numel()
        floats.append(numbers.contiguous().numpy().astype("<f4").tobytes())
        at["floats"] += 4 * numbers.numel()
        manifest[name] = entry
    for entry in manifest.values():
        if "integers" in entry:
            entry["integers"] += at["floats"]  # they follow all floats
    return manifest, b"".join(floats + integers)


@torch.no_grad()
def rounded(model):
    """Put the page's weights into the network: each matrix as its integers times their scales."""
    state = dict(model.net.named_parameters())
    for long in names(model.n_layers).values():
        if state[long].dim() == 2:
            small, scale = quantised(state[long])
            state[long].copy_(small * scale[:, None])


# ---- the tokenizer
def tokenizer_tables(tokenizer) -> dict:
    """Vocabulary, special tokens, and which characters are removed, spaces, alone or punctuation.

    The classes are what the tokenizer does to each character alone: its Unicode is not the one that
    a browser has. Planes beyond the third hold no letters.
    """
    normalise = tokenizer.backend_tokenizer.normalizer.normalize_str
    divide = tokenizer.backend_tokenizer.pre_tokenizer.pre_tokenize_str
    classes = {"removed": [], "space": [], "alone": [], "punctuation": []}
    for point in [*range(0xD800), *range(0xE000, 0x31000), *range(0xE0000, 0x110000)]:
        character = chr(point)
        plain = normalise(character)
        if plain == "":
            _extend(classes["removed"], point)
        elif plain == " ":
            _extend(classes["space"], point)
        elif plain[0] == plain[-1] == " ":
            _extend(classes["alone"], point)
        elif len(divide(f"a{character}a")) == 3:
            _extend(classes["punctuation"], point)
    vocabulary = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    special = {
        token: tokenizer.convert_tokens_to_ids(token) for token in tokenizer.all_special_tokens
    }
    return {"vocabulary": [word for word, _ in vocabulary], "special": special, "tables": classes}


def _extend(edges: list[int], point: int):
    """Add a point to ranges [first, last, first, last, ...] that grow upwards."""
    if edges and edges[-1] == point - 1:
        edges[-1] = point
    else:
        edges += [point, point]
