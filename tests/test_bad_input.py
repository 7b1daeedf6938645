"""What people give by mistake: refused in one sentence that names the fix, never a number that is
wrong.

Each case was a fault: a silently wrong number, a measurement lost at its end, a traceback.
"""

import io
import json
import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from companion import __main__ as command, card, pins
from companion.card import every_eval, measures as card_measures
from companion.estimate import estimate
from companion.run import Run
from lib import paths
from lib.bias_a_head import heads, masking
from lib.engine import batches, embed, fill, folders, nsp, pppl, stats
from lib.engine.files import check_writable, read_text, read_toml, replace
from lib.engine.hooks import Projection, head_mask, patch, project, put, record
from lib.text import data, readers
from tests.tiny import COMMON, refusal, save_tiny, tiny


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
    lambda bert: entered(patch, 0, 0, 0.0)("mini-bert"),
    lambda bert: entered(put, "layer.0", 0.0)("mini-bert"),
    lambda bert: entered(project, {"layer.0": Projection(BASIS)})("mini-bert"),
    lambda bert: entered(record, ["layer.0"])("mini-bert"),
    lambda bert: fill.top("mini-bert", PROMPT),
    lambda bert: fill.log_odds("mini-bert", [PROMPT], PAIR),
    lambda bert: embed.sentences("mini-bert", LINES),
    lambda bert: embed.words(bert.net, {"he": LINES}),
    lambda bert: pppl.pseudo_perplexity("mini-bert", LINES),
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
LOCATIONS = ["layer.3", "attn.q.3", "attn.x.0", "layer", "pooler.1", "layer.-1", "", None, 5]
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


def test_an_encoder_without_a_mask_token_is_named_where_one_is_needed():
    model = tiny("bert")
    model.tokenizer.mask_token = None
    assert "has no mask token" in refusal(pppl.pseudo_perplexity, model, LINES)


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


@pytest.mark.parametrize(
    "read, name, said",
    [
        (data.words, None, "no word list None"),
        (data.path, None, "no data file None"),
        (readers.stereoset, ["dev"], "no part of the gender-swapped StereoSet"),
    ],
)
def test_what_is_no_name_of_data_is_refused(read, name, said):
    assert said in refusal(read, name)


def test_a_terminal_without_unicode_gets_question_marks(monkeypatch):
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stdout", terminal)
    assert command.main(["--list", "--only", "00"]) == 0
    terminal.flush()
    assert b"00_start_here" in terminal.buffer.getvalue()


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
