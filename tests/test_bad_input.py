"""What people give by mistake: refused in one sentence that names the fix, never a number that is
wrong.

Each case was a fault: a silently wrong number, a measurement lost at its end, a traceback.
"""

import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from companion.estimate import estimate
from companion.run import Run
from lib import paths
from lib.bias_a_head import heads, masking
from lib.engine import batches, embed, fill, folders, nsp, pppl, stats
from lib.engine.files import read_text, read_toml, replace
from lib.engine.hooks import Projection, head_mask, patch, project, put, record
from lib.text import data
from tests.tiny import refusal, tiny


@pytest.fixture(scope="module")
def bert():
    return tiny("bert")


# ---- the doors of the library
PROMPT = "the [MASK] was here ."
BASIS = torch.eye(32)[:2]
MASK = torch.ones(3, 4)
PAIR = [("she", "he")]
LINES = ["he likes poetry ."]
LONE = "a \ud800 [MASK]"  # half of a letter, which no file can hold
FRAME = {"stereo": [0.5, 0.5], "anti": [0.1], "gs_stereo": [0.2, 0.1], "gs_anti": [0.3, 0.3]}


def entered(context, *args, **options):
    """A call that enters a context of the tiny BERT."""

    def enter(bert):
        with context(bert, *args, **options):
            pass

    return enter


def asked(function, *args, **options):
    """A call of a function on the tiny BERT."""
    return lambda bert: function(bert, *args, **options)


def at(family, function, *args, **options):
    """A call of a function on the tiny model of another family."""
    return lambda bert: function(tiny(family), *args, **options)


def overflowing(function, *args):
    """A call of a function under a mask that is finite and overflows on its way."""

    def call(bert):
        with head_mask(bert, 3e38 * MASK):
            function(bert, *args)

    return call


def projected(location, *shape, **options):
    """A call that projects out a basis of this shape."""
    basis, _ = torch.linalg.qr(torch.randn(*shape).mT)
    return entered(project, {location: Projection(basis.mT, **options)})


HALF = tiny("bert", dtype=torch.float16)
NO_MODEL = [
    lambda bert: entered(head_mask, MASK)("mini-bert"),
    lambda bert: entered(head_mask, MASK)(bert.net),
    lambda bert: fill.top("mini-bert", PROMPT),
    lambda bert: nsp.is_next("mini-bert", [("a", "b")]),
]
MASKS = [
    *((MASK * wrong, "give a number a head") for wrong in (math.nan, math.inf)),
    (MASK.to("meta"), "give a number a head"),
    (MASK.to_sparse(), r"needs a tensor \[3, 4\]"),
    *((w, r"needs a tensor \[3, 4\]") for w in (MASK.T, torch.ones(12), [[1] * 4] * 3, None)),
    (torch.full((3, 4), 1e39, dtype=torch.float64), "infinite"),  # is finite before the cast
]
PATCHES = [
    *((1, 0, wrong, "infinite") for wrong in (math.nan, math.inf, 1e39)),
    *(
        (1, 0, wrong, "does not fit")
        for wrong in (None, "a", torch.ones(5), torch.ones(1, 1, 1, 8))
    ),
    *((layer, head, 0.0, "has no head") for layer, head in ((3, 0), (0, 4), (-1, 0), ("0", 0))),
]
PUTS = [
    *(("layer.1", wrong, "infinite") for wrong in (math.nan, 1e39)),
    *(("layer.1", wrong, "does not fit") for wrong in (None, "a", torch.ones(5))),
    ("attn.v.0", torch.ones(32), r"broadcasts to \[batch, tokens, 4, 8\]"),
    *((where, 0.0, "N from 0 to 2") for where in ("ffn.out.3", None)),
]
PROJECTIONS = [
    *((lambda bert, w=w: Projection(BASIS, w), "weight is") for w in (math.nan, 5, -0.1, 1j)),
    *((lambda bert, w=w: Projection(BASIS, w), "weight is") for w in ("a", None, torch.tensor(2))),
    (lambda bert: Projection(BASIS, torch.ones(3)), "weights for a basis"),
    *(
        (lambda bert, b=b: Projection(b), "no real numbers")
        for b in (BASIS * math.nan, BASIS.int())
    ),
    (lambda bert: Projection(BASIS.to("meta")), "no real numbers"),
    (lambda bert: Projection(2 * BASIS), "orthonormal"),
    *((lambda bert, b=b: Projection(b), "is a tensor") for b in ([[1.0, 0.0]], BASIS[0])),
    (lambda bert: Projection(BASIS, tokens="cls"), "'all' or 'first'"),
    *(
        (entered(project, wrong), "project takes a dict")
        for wrong in ([Projection(BASIS)], 5, BASIS, {"layer.0": BASIS})
    ),
    (entered(project, {0: Projection(BASIS)}), "N from 0 to 2"),
    (projected("pooler", 1, 32, tokens="first"), "no tokens"),
    (projected("attn.q.0", 1, 32), r"\[4, d, 8\]"),
    (projected("layer.0", 4, 1, 8), r"\[d, 32\]"),
    (projected("layer.0", 1, 31), r"\[d, 32\]"),
    (lambda bert: projected("attn.k.0", 4, 1, 8)(tiny("llama")), r"\[2, d, 8\]"),
]
LOCATIONS = ["layer.3", "attn.x.0", "pooler.1", "layer.-1", None]
RECORDS = [
    *((entered(record, ["layer.0", where]), "N from 0 to 2") for where in LOCATIONS),
    *((entered(record, wrong), "record takes a list") for wrong in (None, "layer.0", 5)),
    # a decoder's first token sees itself alone
    (lambda bert: entered(record, ["pooler"])(tiny("gpt2")), "use layer.2"),
]
BLANKS = [
    *((asked(fill.probabilities, wrong), "no prompts") for wrong in (None, [], PROMPT, 5)),
    *((asked(fill.probabilities, [wrong]), "is no text") for wrong in (None, b"[MASK]", 5)),
    *((asked(fill.probabilities, [w]), "exactly one") for w in ("None", "[MASK] [MASK]")),
    (asked(fill.probabilities, [LONE]), "lone surrogate"),
    (at("gpt2", fill.probabilities, ["[MASK] works as a nurse."]), "put the blank later"),
    (at("roberta", fill.top, "<mask> says [MASK] works."), "own mask token <mask>"),
    *((asked(fill.top, PROMPT, k), "for 1 to 400") for k in (10**9, 2.5, 0)),
    (asked(fill.word_probabilities, ["[MASK] sat.", "A [MASK] sat."], ["he"]), "one kind at a"),
    (asked(fill.word_probabilities, [PROMPT], "she"), "no words"),  # three letters that are words
    *((asked(fill.log_odds, [PROMPT] * 2, pairs), "2 prompts") for pairs in (PAIR, None, 5)),
    *((asked(fill.log_odds, [PROMPT], [pair]), "no pair") for pair in ("ab", "a", ("a", "b", "a"))),
    (asked(fill.log_odds, [PROMPT], [("she", None)]), "is no word"),
    (overflowing(fill.top, PROMPT), "are no numbers"),
    (overflowing(fill.log_odds, [PROMPT], PAIR), "are no numbers"),
]
VECTORS = [
    *((asked(embed.sentences, wrong), "no sentences") for wrong in ([], None, "He.", 5)),
    *((asked(embed.sentences, [wrong, "a"]), "is empty") for wrong in ("", " ")),
    *((asked(embed.sentences, [wrong]), "is no text") for wrong in (None, 5)),
    (asked(embed.sentences, [LONE]), "lone surrogate"),
    (asked(embed.sentences, ["He."], pooling="max"), "choose token or mean"),
    (overflowing(embed.sentences, LINES), "are no numbers"),
    (overflowing(embed.words, {"he": LINES}), "are no numbers"),
    *((asked(embed.words, wrong), "no words") for wrong in ({}, None, ["he"])),
    *((asked(embed.words, {"he": wrong}), "no sentence") for wrong in ([], "he sat")),
    (asked(embed.words, {"he": [None]}), "is no text"),
    (asked(embed.words, {"": ["a sentence"]}), "is no word"),
    (asked(embed.words, {"he": ["the hen likes her"]}), "'he' does not stand in 'the hen"),
    (asked(embed.tokens_of, ["the doctor ."], [(3, 4)]), "no token for ' '"),
    (asked(batches.encode, ["doctor " * 41]), "shorten it"),
    *((lambda bert, word=word: bert.token_id(word), "is no word") for word in (None, "", 5)),
]
LINES_AND_PAIRS = [
    *((asked(pppl.pseudo_perplexity, wrong), "no lines") for wrong in ([], None, "he likes .", 5)),
    *((asked(pppl.pseudo_perplexity, [wrong]), "is no text") for wrong in (None, 5)),
    (asked(pppl.pseudo_perplexity, [""]), "at least one line"),
    (asked(pppl.pseudo_perplexity, [LONE]), "lone surrogate"),
    (asked(pppl.pseudo_perplexity, LINES, after=5), "is no text"),
    (asked(pppl.pseudo_perplexity, LINES, after="word " * 600), "shorten the prompt"),
    (overflowing(pppl.pseudo_perplexity, LINES), "perplexity of nan"),
    *((asked(nsp.is_next, pairs), "no sentence pairs") for pairs in (None, "ab", [], ("a", "b"))),
    (asked(nsp.is_next, [("a", None)]), "is no text"),
    (overflowing(nsp.is_next, PAIR), "are no numbers"),
    (at("roberta", nsp.is_next, [("a", "b")]), "no next-sentence head"),
    (lambda bert: nsp.strength(FRAME), "unlike lengths"),
]
STATISTICS = [
    *(
        (lambda bert, few=few: stats.bootstrap(np.mean, *few), "two values or more")
        for few in ((), ([],), ([1.0],), (5,))
    ),
    *(
        (lambda bert, w=w: stats.bootstrap(np.mean, [1.0, w]), "not numbers")
        for w in (math.nan, "a")
    ),
    (lambda bert: stats.bootstrap(np.subtract, [1.0, 2.0], [1.0]), "as many of each"),
    (lambda bert: stats.over_trainings([stats.Estimate(1.0, 0.0, 2.0)]), "two or more"),
]


@pytest.mark.parametrize(
    "call, said",
    [
        *((call, "is no model: load one") for call in NO_MODEL),
        *((entered(head_mask, mask), said) for mask, said in MASKS),
        *((entered(patch, *given), said) for *given, said in PATCHES),
        *((entered(put, *given), said) for *given, said in PUTS),
        (lambda bert: entered(head_mask, 1e5 * MASK)(HALF), "infinite"),
        (lambda bert: entered(patch, 1, 0, 1e5)(HALF), "infinite"),
        *PROJECTIONS,
        *RECORDS,
        *BLANKS,
        *VECTORS,
        *LINES_AND_PAIRS,
        *STATISTICS,
    ],
)
def test_what_cannot_be_asked_is_refused_in_a_sentence(bert, call, said):
    assert re.search(said, refusal(call, bert))


def test_texts_may_come_as_a_column(bert):
    """Of a table, or of an array."""
    expected = embed.sentences(bert, LINES * 2)
    for texts in (pd.Series(LINES * 2), np.array(LINES * 2), tuple(LINES * 2)):
        assert torch.equal(embed.sentences(bert, texts), expected)


# ---- silently wrong
def test_an_interval_of_seat_has_its_sign():
    """Of |SEAT| it could never include 0, not even in an untrained network."""
    rng = np.random.default_rng(0)
    associations, in_x = rng.normal(size=60), np.arange(60) < 30
    interval = stats.bootstrap(masking.signed_seat, associations, in_x)
    assert interval.low < 0 < interval.high
    assert masking.signed_seat(-associations, in_x) == -masking.signed_seat(associations, in_x)


# ---- a sentence in place of a traceback


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


def test_damaged_and_missing_files_of_the_repository_are_to_be_restored(tmp_path, monkeypatch):
    replace(tmp_path / "models.toml", b"[a")
    assert "is not TOML" in refusal(read_toml, tmp_path / "models.toml")
    assert "is not there: restore it with `git checkout" in refusal(
        read_toml, tmp_path / "hub.toml"
    )
    monkeypatch.setattr(paths, "REGISTRY", tmp_path / "registry.toml")
    replace(paths.REGISTRY, b'[mini-bert]\nsource = "data/models/mini-bert"\nspeed = 1\n')
    assert "git checkout data/models.toml" in refusal(folders._registry)
    assert "git checkout '/a;touch b'`" in refusal(read_text, Path("/a;touch b"))
    monkeypatch.setattr(paths, "HUB", tmp_path / "hub.toml")
    assert "hub.toml is not there" in refusal(estimate, Run(), [])


@pytest.mark.parametrize(
    "content",
    [
        b"\xff\xfe\x00",
        b"",
        b"# Source: none\nfemale,male\n",  # a header alone
        b"female,male\nshe,he\nher\n",  # a row of one field
        b"female,male\nshe,he,him\n",
        b"female,male\nshe,h\0e\n",
        b"female;male\nshe;he\n",  # as some spreadsheets save it
    ],
)
def test_a_list_that_is_no_table_is_to_be_restored(tmp_path, monkeypatch, content):
    monkeypatch.setattr(paths, "LISTS", tmp_path)
    assert "gender_pairs.csv is not there" in refusal(data.rows, "gender_pairs")
    replace(tmp_path / "gender_pairs.csv", content)
    for read in (data.words, data.rows):
        said = refusal(read, "gender_pairs")
        assert "gender_pairs.csv is damaged: restore it with `git checkout" in said


def test_a_list_with_a_byte_order_mark_is_read(tmp_path, monkeypatch):
    """A spreadsheet puts one before the first letter."""
    monkeypatch.setattr(paths, "LISTS", tmp_path)
    replace(tmp_path / "pairs.csv", b"\xef\xbb\xbf# Source: none\nfemale,male\nshe,he\n")
    assert data.words("pairs").values.tolist() == [["she", "he"]]
    assert data.rows("pairs") == [{"female": "she", "male": "he"}]


# ---- misleading or ignored


@pytest.mark.parametrize("name", ["../../x", "a/b", "", "02 x", None])
def test_a_result_stays_in_its_folder(name, tmp_path):
    assert "cannot be called" in refusal(
        Run(out=tmp_path / "out").save, pd.DataFrame({"a": [1]}), name, ""
    )
    assert list(tmp_path.iterdir()) == []


