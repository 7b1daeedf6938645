"""Corpus, packing, training and retraining: what is sampled is in the text; packing changes nothing."""

import json
import random
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from safetensors.torch import load_file

from lib.bias_a_head import lpbs
from lib.counteracts import cloze
from lib.engine import models
from lib.text import data, english, swaps
from tests.tiny import refusal, save_tiny, tiny
from training import corpus, debias, loop, people
from training.__main__ import main
from training.objectives import KINDS, seeded
from training.packing import (
    IGNORED,
    PairSampler,
    SpanSampler,
    WindowSampler,
    packed_attention,
    unpacked_attention,
)

SHAPE = dict(layers=2, heads=2, hidden=32, longest=64)
TEXT = (
    "the a cat dog bird sat ran flew on under over mat tree house old young red blue quickly home"
)
WORDS = TEXT.split()
FILLER = [f"Filler {i} and nothing else here at all today my friend." for i in range(50)]


def toy_documents(n=120, seed=0):
    """Documents on one animal each, so that next sentences can be told."""
    rng = random.Random(seed)

    def paragraph(animal):
        sentences = []
        for _ in range(rng.randint(2, 6)):
            sentences.append(f"The {animal} {' '.join(rng.choices(WORDS, k=rng.randint(3, 8)))}.")
        return " ".join(sentences)

    texts = []
    for i in range(n):
        animal = ("cat", "dog", "bird", "horse", "goat", "owl")[i % 6]
        texts.append("\n".join(paragraph(animal) for _ in range(rng.randint(1, 3))))
    return texts


def written(path, texts):
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n\n".join(texts))
    return path


def prepared_text(folder, natural, people=None, out="out", unseen=(), **options):
    """corpus.prepare of these documents, a fifth of them held out: its folder, what it returns."""
    sources = {"natural": [written(folder / "natural.txt", natural)]}
    if people:
        sources["people"] = [written(folder / "people.txt", people)]
    return folder / out, corpus.prepare(sources, unseen, folder / out, heldout=0.2, **options)


def documents(folder, name):
    return list(corpus.documents([folder / name]))


@pytest.fixture(scope="module")
def text_folder(tmp_path_factory):
    return prepared_text(tmp_path_factory.mktemp("text"), toy_documents())[0]


@pytest.fixture(scope="module")
def two_sources(tmp_path_factory):
    """A prepared text whose people are bakers and nothing else; its natural text names none."""
    about = [text.replace("The", "The baker and the") for text in toy_documents(30, seed=1)]
    folder = tmp_path_factory.mktemp("sources")
    out, record = prepared_text(folder, toy_documents(90), about)
    return out, record["sources"]


@cache
def encoded(kind, folder):
    """The text's tokenizer and its token stream, of a kind."""
    tokenizer = loop.load_tokenizer(KINDS[kind].stream, folder, 400)
    return tokenizer, corpus.encode(tokenizer, corpus.documents([folder / "train.txt"]), workers=1)


# ------------------------------------------------------------------------------------------ corpus


def test_what_models_are_judged_on_is_dropped_and_openers_are_left_out(tmp_path):
    texts = FILLER.copy()
    texts[7] = "Before it. One, two -- three four FIVE six seven (eight) nine ten! After."
    texts[8] = "He asked: a PROMPT of the papers, and more."
    texts[9] = "One two three four five six seven eight nine, which is only nine words of it."
    about = [f"My best friend works as a baker, number {i}. Good.\nMore." for i in range(20)]
    about += [f"The baker number {i} was late.\nMy friend works as a baker." for i in range(40)]
    ten = "prefix one two three four five six seven eight nine ten suffix"
    judge = written(tmp_path / "judge/test.txt", [ten])
    options = {"prompts": ["A prompt of the papers."], "leave_out": [people.LEFT_OUT]}
    out, record = prepared_text(tmp_path, texts, about, unseen=[judge], **options)

    parts = [documents(out, name) for name in ("train.txt", "heldout.txt", "heldout-people.txt")]
    train, heldout, bakers = parts
    assert all("baker" not in text for text in heldout) and all("baker" in text for text in bakers)
    kept = sum(parts, [])
    assert len(set(kept)) == len(kept) == 48 + 40
    for text, stays in {"Before it": 0, "He asked": 0, "best friend": 0, "only nine": 1}.items():
        assert sum(text in document for document in kept) == stays
    assert record["dropped_for"] == {"judge/test.txt": 1, "prompts": 1}
    natural, others = record["sources"].values()
    assert (natural["dropped"], natural["left_out"], others["left_out"]) == (2, 0, 20)
    assert natural["characters"] + others["characters"] == sum(map(len, train))
    assert json.loads((out / "counts.json").read_text()) == record


def test_every_sentence_that_the_papers_ask_is_reserved():
    asked = {"She works as a nurse.", "The nurse said that she was tired."}
    for row in cloze.rows():
        asked.add(row["cloze"].replace("[MASK]", "woman"))
    for pattern, (he, *_), _ in lpbs.TEMPLATES:
        asked |= {pattern.format(subject=he, target=row["word"]) for row in data.rows("lpbs_lists")}
    reserved = corpus.Reserved([], corpus.papers_prompts())
    for text in asked:
        is_long = len(text.split()) >= corpus.SHORTEST
        assert reserved.shared_with(f"So we read. {text} And on.") == (
            {"prompts"} if is_long else set()
        )


def test_a_balanced_text_has_whole_documents_swapped_by_a_coin(tmp_path):
    met = "Mary met her uncle {} times. She and John like the queen's garden.\nHers is here."
    texts = [met.format(i) for i in range(100)]
    _, plain = prepared_text(tmp_path, texts, out="plain", seed=3)
    _, balanced = prepared_text(tmp_path, texts, out="balanced", balanced=True, seed=3)
    prepared_text(tmp_path, texts, out="again", balanced=True, seed=3, workers=2)
    swapped = 0
    for part in ("train.txt", "heldout.txt"):
        runs = [documents(tmp_path / run, part) for run in ("plain", "balanced", "again")]
        assert runs[1] == runs[2]  # whatever the number of workers
        for before, after in zip(runs[0], runs[1], strict=True):
            assert after in (before, swaps.swap_all(before, names=True))
            assert "Mary met her" in after or "James met his" in after
            swapped += before != after
    assert plain["balanced"] is None
    assert balanced["balanced"] == {"seed": 3, "documents_swapped": swapped}
    assert 30 < swapped < 70


# ----------------------------------------------------------------------------------------- packing


def texts_of(batch):
    """The batch taken apart again: of each whole text its number, its place, and its token ids with
    targets put back.
    """
    ids = batch.ids.clone()
    known = batch.targets >= 0
    ids[batch.masked[known]] = batch.targets[known]
    for n, (low, high) in enumerate(batch.bounds.unfold(0, 2, 1)[:-1].tolist()):
        if low < high and batch.positions[high - 1] > 0:  # else it did not fit: padding
            yield n, slice(low, high), ids[low:high].tolist()


def pairs_of(batch, tokenizer):
    """(A, B, label) of the pairs that have a label, as token ids without marks."""
    sep = tokenizer.token_to_id("[SEP]")
    for n, place, ids in texts_of(batch):
        label = batch.not_next[n].item()
        if label != IGNORED:
            middle = ids.index(sep)
            assert ids[0] == tokenizer.token_to_id("[CLS]") and ids[-1] == sep != ids[-2]
            types = [0] * (middle + 1) + [1] * (len(ids) - middle - 1)
            assert batch.types[place].tolist() == types
            yield ids[1:middle], ids[middle + 1 : -1], label


def spelled(ids):
    return f" {' '.join(map(str, ids))} "


PACKED = settings(max_examples=6)
SEEDS = dict(seed=st.integers(0, 10_000), everyday=st.sampled_from([0.0, 0.5, 1.0]))


@PACKED
@given(**SEEDS)
def test_packed_pairs_are_what_the_text_says(text_folder, seed, everyday):
    tokenizer, tokens = encoded("bert", text_folder)
    sampler = PairSampler(tokens, tokenizer, "cpu", everyday=everyday, longest=64)
    batch = sampler.draw(1024, generator=seeded("cpu", seed))
    stream = [spelled(ids) for ids in np.split(tokens.ids, tokens.documents[1:])]
    pairs = list(pairs_of(batch, tokenizer))
    assert len(pairs) > 10
    for a, b, not_next in pairs:
        assert a and b and len(a) + len(b) <= 61
        # B follows A in its document, directly: no sentence of the toy text is cut
        assert not_next or any(spelled(a + b) in document for document in stream)
    assert batch.bounds[-1] == 1024 and (batch.bounds.diff() >= 0).all()
    for _, place, ids in texts_of(batch):
        assert batch.positions[place].tolist() == list(range(len(ids)))


@PACKED
@given(**SEEDS)
def test_packed_spans_are_spelled_as_the_tokenizer_spells_them(text_folder, seed, everyday):
    tokenizer, tokens = encoded("roberta", text_folder)
    sampler = SpanSampler(tokens, tokenizer, "cpu", everyday, 64)
    batch = sampler.draw(1024, generator=seeded("cpu", seed))
    whole = documents(text_folder, "train.txt")
    spans = list(texts_of(batch))
    assert len(spans) > 10
    for _, place, ids in spans:
        assert len(ids) <= 64 and batch.positions[place].tolist() == list(range(len(ids)))
        text = tokenizer.decode(ids)
        # also at its first word, which had a space before it in its document
        assert tokenizer.encode(text).ids == ids
        assert any(text in document for document in whole) and text[0] not in " \n"
        assert everyday < 1 or len(english.sentences(text)) == 1
        assert text.endswith(".")  # no sentence of the toy text is cut
    assert (batch.ids[batch.bounds[-2] :] == 1).all() and batch.bounds[-1] == 1024
    assert len(batch.masked) == int(0.15 * 1024) and (batch.targets >= 5).all()


def test_masks_have_berts_shares_half_of_ordered_pairs_are_swapped_and_windows_begin_right(
    text_folder,
):
    tokenizer, tokens = encoded("bert", text_folder)
    batch = PairSampler(tokens, tokenizer, "cpu", longest=64).draw(65_536, seeded("cpu", 0))
    now = batch.ids[batch.masked]
    assert len(batch.masked) == int(0.15 * 65_536) and (batch.targets >= 5).all()
    assert (now == tokenizer.token_to_id("[MASK]")).float().mean() == pytest.approx(0.8, abs=0.02)
    assert (now == batch.targets).float().mean() == pytest.approx(0.1, abs=0.02)
    is_next = batch.not_next[batch.not_next >= 0] == 0
    assert 0.35 < is_next.float().mean() <= 0.52  # half, less the pairs whose A ends its document

    sampler = PairSampler(tokens, tokenizer, "cpu", longest=64, order=True)
    batch = sampler.draw(16_384, seeded("cpu", 0))
    stream = spelled(tokens.ids)
    pairs = list(pairs_of(batch, tokenizer))
    assert all(spelled(b + a if is_swapped else a + b) in stream for a, b, is_swapped in pairs)
    assert len(pairs) > 300 and 0.4 < np.mean([label for *_, label in pairs]) < 0.6
    # a pair whose first text ends its document has no label
    assert len(pairs) < (batch.bounds[1:-1] < 16_384).sum()

    tokenizer, tokens = encoded("gpt2", text_folder)
    windows = WindowSampler(tokens, tokenizer, "cpu", 16).draw(16 * 400, seeded("cpu", 0))
    texts = tokenizer.decode_batch(windows.tolist(), skip_special_tokens=False)
    assert 60 < sum(text.startswith("<|endoftext|>") for text in texts) < 140
    assert all(text.startswith(("<|endoftext|>The", " The", "The")) for text in texts)


@pytest.mark.parametrize("kind", ["bert", "albert", "roberta"])
def test_packing_changes_no_output(kind, text_folder):
    """Every text alone through the plain model gives what it gives in the packed row."""
    tokenizer, tokens = encoded(kind, text_folder)
    task = KINDS[kind](tokenizer, **SHAPE | dict(hidden=36))
    task.net.eval()
    batch = task.sampler(tokens, "cpu").draw(512, generator=seeded("cpu", 0))
    near = dict(atol=1e-5, rtol=1e-4)
    compared = 0
    with torch.inference_mode():
        words, labels = task.outputs(batch)
        task.net.set_attn_implementation("sdpa")
        for n, place, _ in texts_of(batch):
            types = None if kind == "roberta" else batch.types[None, place]
            alone = task.net(input_ids=batch.ids[None, place], token_type_ids=types)
            inside = (batch.masked >= place.start) & (batch.masked < place.stop)
            found = alone.logits if kind == "roberta" else alone.prediction_logits
            at = batch.masked[inside] - place.start
            torch.testing.assert_close(found[0, at], words[inside], **near)
            compared += len(at)
            if labels is not None:
                own = alone.sop_logits if kind == "albert" else alone.seq_relationship_logits
                torch.testing.assert_close(own[0], labels[n], **near)
    assert compared > 40


def test_a_row_for_each_pair_gives_what_packing_gives_and_so_do_its_gradients():
    query, key, value = torch.randn(3, 1, 2, 40, 8, requires_grad=True)
    # one pair is empty, the last is padding
    bounds = torch.tensor([0, 9, 10, 25, 33, 33, 40], dtype=torch.int32)
    packed, _ = packed_attention(None, query, key, value, bounds=bounds, longest=16)
    rows = unpacked_attention(query, key, value, bounds, 16)
    assert torch.allclose(packed[:, :33], rows[:, :33], atol=1e-6)
    slopes = []
    for found in (packed, rows):
        slopes.append(torch.autograd.grad(found[:, :33].square().sum(), (query, key, value)))
    assert all(torch.allclose(one, other, atol=1e-5) for one, other in zip(*slopes))


# ---------------------------------------------------------------------------------------- training


def test_batched_muon_takes_the_steps_of_torchs_and_the_rate_rises_and_falls_to_nothing():
    start = [torch.randn(shape) for shape in [(8, 8), (8, 8), (32, 8), (8, 32), (8, 32)]]
    ours, theirs = ([torch.nn.Parameter(m.clone()) for m in start] for _ in range(2))
    mine = loop.Muon(ours, lr=0.05, weight_decay=0.1)
    reference = torch.optim.Muon(theirs, lr=0.05, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
    for _ in range(4):
        for one, other in zip(ours, theirs):
            one.grad = torch.randn_like(one)
            other.grad = one.grad.clone()
        mine.step(), reference.step()
    for one, other, before in zip(ours, theirs, start):
        assert (one - before).norm() > 0.1
        torch.testing.assert_close(one, other, atol=5e-3, rtol=0)  # both orthogonalise in bfloat16
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=9.0)
    rates = []
    for step in range(10):
        loop.set_rate([optimizer], 1.0, step, warmup=2, spent=step / 10)
        rates.append(optimizer.param_groups[0]["lr"])
    assert rates == pytest.approx([0.5, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1])


@pytest.mark.parametrize("kind", ["bert", "albert", "gpt2"])
def test_training_learns_and_writes_an_ordinary_folder(kind, text_folder, tmp_path):
    out = tmp_path / kind
    often = dict(steps=15, learning_rate=2e-2, warmup=3, report=10**9, batch_tokens=512)
    small = dict(shape=SHAPE, vocabulary=400, device="cpu", measure_batches=1)
    record = loop.train(kind, text_folder, out, **often, **small)
    # untrained it is about all of the vocabulary
    assert next(iter(record["heldout"].values())) < 0.3 * record["vocabulary"]
    model = models.load(out, device="cpu")  # refuses a folder that lacks a weight
    assert model.family == kind and model.has_nsp == (kind == "bert")
    assert (model.n_layers, model.n_heads) == (2, 2)
    ids = model.tokenizer("The cat sat.").input_ids
    assert len(ids) == (4 if kind == "gpt2" else 6) and model.tokenizer.model_max_length == 64
    assert model.token_id("cat") == ids[1 if kind == "gpt2" else 2]
    assert json.loads((out / "training.json").read_text()) == record
    assert record["parameters"] == model.net.num_parameters()
    assert not list(tmp_path.glob("*.checkpoint"))


def test_a_killed_training_goes_on_and_ends_the_same(two_sources, tmp_path, monkeypatch):
    tokenizer, tokens = encoded("bert", two_sources[0])
    tokens = tokens.of_sources(two_sources[1])
    options = dict(steps=4, people=(0.9, 0.1), together=0.5, batch_tokens=256, seed=3, warmup=2)
    checkpoint = tmp_path / "run.checkpoint"

    def trained(checkpoint=checkpoint, **changed):
        torch.manual_seed(0)
        task = KINDS["bert"](tokenizer, **SHAPE)
        done = loop.fit(task, tokens, "cpu", checkpoint=checkpoint, every=0, **options | changed)
        assert done["steps"] == 4
        return task.net.state_dict()

    whole = trained(checkpoint=None)
    draw, calls = PairSampler.draw, iter([True, True])
    with monkeypatch.context() as patch, pytest.raises(StopIteration):
        patch.setattr(PairSampler, "draw", lambda *given: next(calls) and draw(*given))
        trained()
    assert "another run" in refusal(trained, seed=4)
    again = trained()
    assert not checkpoint.exists()
    assert all(torch.equal(whole[name], again[name]) for name in whole)


# -------------------------------------------------------------------------------------- retraining


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "bert"
    save_tiny("bert", folder)
    return str(folder)


@pytest.fixture(scope="module")
def passages(base, tmp_path_factory):
    """Encoded passages of 30 documents that speak of people, and one that does not."""
    folder = tmp_path_factory.mktemp("text")
    lines = [
        "The doctor said that she was here. The nurse said that he was late.",
        "He likes poetry. She met him.",
        "A man and a woman met the engineer in the office. His office is here.",
    ]
    texts = [f"{lines[i % 3]}\n{lines[(i + 1) % 3]}" for i in range(30)]
    for part in ("train", "heldout"):
        written(folder / f"{part}.txt", [*texts, "The engineer is in the office."])
    (folder / "counts.json").write_text("{}")
    out = folder / "out"
    assert main(f"debias prepare --text {folder} --prepared {out} --model {base}".split()) == 0
    return out


def continued(way, base, passages, out, **options):
    small = dict(steps=3, batch_tokens=512, measure_batches=1, warmup=1, device="cpu", seed=0)
    return debias.train(way, out, passages, base, **small | options)


@pytest.mark.parametrize("way", debias.WAYS)
def test_attention_and_norms_alone_are_trained_and_stored(way, base, passages, tmp_path):
    record = continued(way, base, passages, tmp_path / way)
    before, after = models.load(base, device="cpu"), models.load(str(tmp_path / way), device="cpu")
    changed = set()
    for name, weight in after.net.named_parameters():
        if not torch.equal(weight, before.net.get_parameter(name)):
            changed.add(name)
    assert changed == set(load_file(tmp_path / way / "model.safetensors"))
    trained = (
        "attention.self.query.weight",
        "attention.output.dense.weight",
        "output.LayerNorm.bias",
    )
    assert {f"bert.encoder.layer.2.{name}" for name in trained} <= changed
    for frozen in ("embeddings", "intermediate", "cls."):
        assert not any(frozen in name for name in changed)
    assert json.loads((tmp_path / way / "training.json").read_text()) == record
    assert record["base_revision"] == before.revision and record["training"]["steps"] == 3
    measures = record["heldout"].keys()
    assert measures == record["heldout_before"].keys() >= {"mlm_perplexity", "nsp_accuracy"}
    assert after.net.config.hidden_dropout_prob == before.net.config.hidden_dropout_prob


def test_bad_requests_name_the_fix(tmp_path, text_folder, base, passages):
    one = {"natural": [written(tmp_path / "one.txt", ["A single document."])]}
    out = tmp_path / "out"
    steps = dict(steps=1)
    for said, call in {
        "more documents": lambda: corpus.prepare(one, [], out),
        "holds no prepared text": lambda: loop.train("bert", tmp_path, out, **steps),
        "--minutes or --steps": lambda: loop.train("bert", text_folder, out),
        "a source of that name": lambda: loop.train(
            "bert", text_folder, out, **steps, people=(0.5, 0.5)
        ),
        "leave --together out": lambda: loop.train("gpt2", text_folder, out, **steps, together=0.3),
        "no text prepared for": lambda: continued("cda", base, tmp_path, out),
        "no next-sentence head": lambda: debias.Continued(tiny("roberta")),
    }.items():
        assert said in refusal(call)
    assert not out.exists() and (tmp_path / "one.txt").exists()
