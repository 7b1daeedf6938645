"""Corpus, packing and training: what is sampled is in the text; packing changes no output."""

import json
import lzma
import random
import re
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from lib.bias_a_head import lpbs
from lib.counteracts import cloze
from lib.engine import models
from lib.text import data, english, swaps
from tests.tiny import refusal
from training import corpus, loop, people
from training.__main__ import main
from training.corpus import Tokens
from training.loop import Muon
from training.objectives import KINDS
from training.packing import IGNORED, PRONOUNS, PairSampler, SpanSampler, WindowSampler

SHAPE = dict(layers=2, heads=2, hidden=32, longest=64)
TEXT = (
    "the a cat dog bird sat ran flew on under over mat tree house old young red blue quickly home"
)
WORDS = TEXT.split()


def toy_documents(n=120, seed=0):
    """Documents on one animal each, so that next sentences can be told."""
    rng, texts = random.Random(seed), []
    for i in range(n):
        animal = ("cat", "dog", "bird", "horse", "goat", "owl")[i % 6]
        paragraphs = [
            " ".join(
                f"The {animal} {' '.join(rng.choices(WORDS, k=rng.randint(3, 8)))}."
                for _ in range(rng.randint(2, 6))
            )
            for _ in range(rng.randint(1, 3))
        ]
        texts.append("\n".join(paragraphs))
    return texts


@pytest.fixture(scope="module")
def text_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    (folder / "all.txt").write_text("\n\n".join(toy_documents()))
    corpus.prepare({"natural": [folder / "all.txt"]}, [], folder / "out", heldout=0.2)
    return folder / "out"


@cache
def encoded(kind, folder):
    """The text's tokenizer and its token stream, of a kind."""
    tokenizer = loop.load_tokenizer(KINDS[kind].stream, folder, 400)
    return tokenizer, corpus.encode(tokenizer, corpus.documents([folder / "train.txt"]), workers=1)


FILLER = [f"Filler {i} and nothing else here at all today my friend." for i in range(50)]


def written(path, texts):
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n\n".join(texts))
    return path


def test_prepare_drops_documents_that_share_a_ten_gram(tmp_path):
    texts = FILLER.copy()
    texts[7] = "Before it. One, two -- three four FIVE six seven (eight) nine ten! After."
    texts[8] = "He asked: a PROMPT of the papers, and more."
    texts[9] = "One two three four five six seven eight nine, which is only nine words of it."
    judge = written(
        tmp_path / "judge/test.txt",
        ["prefix one two three four five six seven eight nine ten suffix"],
    )
    record = corpus.prepare(
        {"natural": [written(tmp_path / "all.txt", texts)]},
        [judge],
        tmp_path / "out",
        heldout=0.2,
        prompts=["A prompt of the papers."],
    )
    kept = (tmp_path / "out/train.txt").read_text() + (tmp_path / "out/heldout.txt").read_text()
    assert record["dropped_for"] == {"judge/test.txt": 1, "prompts": 1}
    assert "Before it" not in kept and "He asked" not in kept and "only nine words" in kept
    counts = record["sources"]["natural"]
    assert (
        counts["dropped"] == 2
        and counts["train"] + counts["heldout"] == 48
        and counts["share"] == 1
    )
    assert json.loads((tmp_path / "out/counts.json").read_text()) == record


def test_prepare_counts_each_source_and_leaves_openers_out(tmp_path):
    about = [f"My best friend works as a baker, number {i}. Good.\nMore." for i in range(20)]
    about += [f"The baker number {i} was late.\nMy friend works as a baker." for i in range(40)]
    sources = {
        "natural": [written(tmp_path / "a.txt", FILLER)],
        "people": [written(tmp_path / "b.txt", about)],
    }
    record = corpus.prepare(sources, [], tmp_path / "out", leave_out=[people.LEFT_OUT], heldout=0.2)
    parts = {file.name: list(corpus.documents([file])) for file in (tmp_path / "out").glob("*.txt")}
    assert set(parts) == {"train.txt", "heldout.txt", "heldout-people.txt"}
    kept = sum(parts.values(), [])
    assert len(kept) == len(set(kept)) == 90 and not any(
        "best friend" in document for document in kept
    )
    assert all("Filler" in document for document in parts["heldout.txt"])
    assert all("baker" in document for document in parts["heldout-people.txt"])
    counts = record["sources"]
    assert counts["people"]["left_out"] == 20 and counts["natural"]["left_out"] == 0
    assert sum(source["characters"] for source in counts.values()) == sum(
        map(len, parts["train.txt"])
    )
    assert sum(source["share"] for source in counts.values()) == pytest.approx(1, abs=1e-3)


def test_prepare_drops_every_prompt_of_the_papers(tmp_path):
    blank = [
        row["cloze"].replace("[MASK]", gender)
        for row in cloze.rows()
        for gender in ("woman", "man")
    ]
    known = [row["knowledge"] for row in cloze.rows() if row["knowledge"]]
    targets = [row["word"] for row in data.rows("lpbs_lists")]
    pairs = [
        f"{pattern.format(subject=words[0], target=word)}"
        for pattern, *both in lpbs.TEMPLATES
        for words in both
        for word in targets
    ]
    long = [text for text in pairs if len(text.split()) >= corpus.SHORTEST]
    asked = sorted(
        {*blank, *known, *long, "She works as a nurse.", "The nurse said that she was tired."}
    )
    assert len(cloze.rows()) == 2_680 and len(long) == 2 * 40
    around = [f"So we read. {text} And on." for text in asked]
    texts = written(
        tmp_path / "all.txt",
        around + FILLER + ["The nurse works as usual.", "He is interested in that."],
    )
    record = corpus.prepare(
        {"natural": [texts]}, [], tmp_path / "out", prompts=corpus.papers_prompts(), heldout=0.2
    )
    counts = record["sources"]["natural"]
    assert counts["dropped"] == record["dropped_for"]["prompts"] == len(around)
    assert counts["train"] + counts["heldout"] == len(FILLER) + 2


def test_a_balanced_text_has_whole_documents_swapped_by_a_coin(tmp_path):
    texts = [
        f"Mary met her uncle {i} times. She and John like the queen's garden.\nHers is here."
        for i in range(400)
    ]
    sources = {"natural": [written(tmp_path / "all.txt", texts)]}
    plain = corpus.prepare(sources, [], tmp_path / "plain", heldout=0.2, seed=3)
    options = dict(heldout=0.2, balanced=True, seed=3)
    balanced = corpus.prepare(sources, [], tmp_path / "balanced", **options)
    again = corpus.prepare(sources, [], tmp_path / "again", workers=2, **options)
    assert again == balanced
    for part in ("train.txt", "heldout.txt"):  # the number of processes changes nothing
        one, other = tmp_path / "balanced" / part, tmp_path / "again" / part
        assert one.read_bytes() == other.read_bytes()
    swapped = 0
    for part in ("train.txt", "heldout.txt"):
        before, after = (
            list(corpus.documents([tmp_path / name / part])) for name in ("plain", "balanced")
        )
        assert len(before) == len(after)  # the same documents, in the same order
        for one, other in zip(before, after):
            assert other in (one, swaps.swap_all(one, names=True))
            assert "Mary met her" in other or "James met his" in other
            swapped += one != other
    assert plain["balanced"] is None and balanced["balanced"] == {
        "seed": 3,
        "documents_swapped": swapped,
    }
    assert 150 < swapped < 250  # of 400


def test_streams_are_kept_cut_and_do_not_depend_on_the_number_of_workers(text_folder, tmp_path):
    tokenizer, tokens = encoded("bert", text_folder)
    tokens.save(tmp_path / "kept.npz")
    assert same(Tokens.load(tmp_path / "kept.npz"), tokens)
    ends = [*tokens.documents[1:], len(tokens.ids)]
    single = []
    for low, high in zip(tokens.documents, ends):
        inside = (tokens.sentences >= low) & (tokens.sentences < high)
        single.append(Tokens(tokens.ids[low:high], tokens.sentences[inside] - low, np.array([0])))
    (tmp_path / "t.txt.xz").write_bytes(
        lzma.compress(b"a\nb\n\n\nc\n")
    )  # documents are apart by blank lines
    assert list(corpus.documents([tmp_path / "t.txt.xz"])) == ["a\nb", "c"]
    assert same(Tokens.joined(single), tokens) and same(
        Tokens.joined(single[::2]), tokens.every_other_document()
    )
    texts = (
        list(corpus.documents([text_folder / "train.txt"])) * 8
    )  # more than one chunk of documents
    alone, many = (
        corpus.encode(tokenizer, texts, workers=1),
        corpus.encode(tokenizer, texts, workers=2),
    )
    assert same(alone, many) and np.array_equal(alone.ids[: len(tokens.ids)], tokens.ids)


def same(one, other):
    return all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for name in ("ids", "sentences", "documents")
    )


def test_byte_level_streams_spell_the_text_and_give_a_word_the_space_before_it(text_folder):
    texts = ["First one. Second one.\nA new paragraph. Its end.", "Another document. Done."]
    for kind, mark in ("gpt2", "<|endoftext|>"), ("roberta", ""):
        tokenizer = loop.load_tokenizer(kind, text_folder, 400)
        tokens = corpus.encode(tokenizer, texts, workers=1)
        assert tokenizer.decode(tokens.ids, skip_special_tokens=False) == "".join(
            mark + t for t in texts
        )
        assert len(tokens.documents) == 2 and len(tokens.sentences) == 6
    tokenizer, _ = encoded("roberta", text_folder)
    assert [tokenizer.token_to_id(t) for t in ("<s>", "<pad>", "</s>", "<unk>", "<mask>")] == [
        0,
        1,
        2,
        3,
        4,
    ]
    assert tokenizer.encode("The cat sat.").tokens == [
        "<s>",
        "The",
        "\u0120cat",
        "\u0120sat",
        ".",
        "</s>",
    ]
    assert tokenizer.encode(" The").tokens == ["<s>", "\u0120The", "</s>"]
    # the mask takes the space before it, as the word that it stands for would
    assert tokenizer.encode("The <mask> sat.").tokens == [
        "<s>",
        "The",
        " <mask>",
        "\u0120sat",
        ".",
        "</s>",
    ]


def pairs_of(batch):
    """The batch taken apart again: (token ids with targets put back, types, not_next) of pairs."""
    ids = batch.ids.clone()
    ids[batch.masked[batch.targets >= 0]] = batch.targets[batch.targets >= 0]
    for n, label in enumerate(batch.not_next.tolist()):
        if label != IGNORED:
            low, high = batch.bounds[n], batch.bounds[n + 1]
            yield (
                ids[low:high].tolist(),
                batch.types[low:high].tolist(),
                batch.positions[low:high].tolist(),
                label,
            )


@settings(max_examples=8)
@given(seed=st.integers(0, 10_000), everyday=st.sampled_from([0.0, 0.5, 1.0]))
def test_packed_pairs_are_what_the_text_says(text_folder, seed, everyday):
    tokenizer, tokens = encoded("bert", text_folder)
    sampler = PairSampler(tokens, tokenizer, "cpu", everyday=everyday, longest=64)
    batch = sampler.draw(1024, generator=torch.Generator().manual_seed(seed))
    cls, sep = tokenizer.token_to_id("[CLS]"), tokenizer.token_to_id("[SEP]")
    documents = [" ".join(map(str, ids)) for ids in np.split(tokens.ids, tokens.documents[1:])]
    pairs = list(pairs_of(batch))
    assert len(pairs) > 10
    for ids, types, positions, not_next in pairs:
        assert len(ids) <= 64 and positions == list(range(len(ids)))
        assert ids[0] == cls and ids[-1] == sep and ids.count(sep) == 2
        middle = ids.index(sep)
        assert types == [0] * (middle + 1) + [1] * (len(ids) - middle - 1)
        a, b = ids[1:middle], ids[middle + 1 : -1]
        assert a and b
        joined = " ".join(map(str, a + b))
        if (
            not not_next
        ):  # B follows A in its document (directly, as no sentence of the toy text is cut)
            assert any(joined in document for document in documents)
    assert batch.bounds[-1] == 1024 and (batch.bounds.diff() >= 0).all()


def test_masking_has_berts_proportions_half_of_ordered_pairs_are_swapped_and_windows_begin_right(
    text_folder,
):
    tokenizer, tokens = encoded("bert", text_folder)
    batch = PairSampler(tokens, tokenizer, "cpu", longest=64).draw(
        65_536, generator=torch.Generator().manual_seed(0)
    )
    now = batch.ids[batch.masked]
    assert len(batch.masked) == int(0.15 * 65_536) and (batch.targets >= 5).all()
    assert (now == tokenizer.token_to_id("[MASK]")).float().mean() == pytest.approx(0.8, abs=0.02)
    assert (now == batch.targets).float().mean() == pytest.approx(0.1, abs=0.02)
    is_next = batch.not_next[batch.not_next >= 0] == 0
    assert 0.35 < is_next.float().mean() <= 0.52  # half, less the pairs whose A ends its document
    sampler = PairSampler(tokens, tokenizer, "cpu", longest=64, order=True)
    batch = sampler.draw(16_384, generator=torch.Generator().manual_seed(0))
    sep, stream = tokenizer.token_to_id("[SEP]"), " ".join(map(str, tokens.ids))
    swapped = 0
    for ids, _, _, label in pairs_of(batch):
        a, b = ids[1 : ids.index(sep)], ids[ids.index(sep) + 1 : -1]
        assert " ".join(map(str, b + a if label else a + b)) in stream
        swapped += label
    labelled = (batch.not_next >= 0).sum().item()
    assert labelled > 300 and 0.4 < swapped / labelled < 0.6
    fits = batch.bounds[1:-1] < 16_384
    assert labelled < fits.sum(), "a pair whose first text ends its document has no label"
    tokenizer, tokens = encoded("gpt2", text_folder)
    windows = WindowSampler(tokens, tokenizer, "cpu", 16).draw(
        16 * 400, torch.Generator().manual_seed(0)
    )
    texts = [tokenizer.decode(w.tolist(), skip_special_tokens=False) for w in windows]
    marked = sum(t.startswith("<|endoftext|>") for t in texts)
    assert 60 < marked < 140
    assert all(t.startswith(("<|endoftext|>The", " The", "The")) for t in texts)


@settings(max_examples=8)
@given(seed=st.integers(0, 10_000), everyday=st.sampled_from([0.0, 0.5, 1.0]))
def test_packed_spans_are_spelled_as_the_tokenizer_spells_them(text_folder, seed, everyday):
    tokenizer, tokens = encoded("roberta", text_folder)
    sampler = SpanSampler(tokens, tokenizer, "cpu", everyday, 64)
    batch = sampler.draw(1024, generator=torch.Generator().manual_seed(seed))
    documents = list(corpus.documents([text_folder / "train.txt"]))
    spans = list(spans_of(batch))
    assert len(spans) > 10
    for ids, positions in spans:
        assert len(ids) <= 64 and positions == list(range(len(ids)))
        text = tokenizer.decode(ids)
        assert (
            tokenizer.encode(text).ids == ids
        )  # also at its first word, which had a space before it in its document
        assert any(text in document for document in documents) and text[0] not in " \n"
        assert everyday < 1 or len(english.sentences(text)) == 1
        assert text.endswith(".")  # no sentence of the toy text is cut
    assert (batch.ids[batch.bounds[-2] :] == 1).all() and batch.bounds[-1] == 1024
    assert len(batch.masked) == int(0.15 * 1024) and (batch.targets >= 5).all()


def spans_of(batch):
    """The batch taken apart again: (token ids with targets put back, positions) of spans."""
    ids = batch.ids.clone()
    ids[batch.masked] = batch.targets
    for low, high in zip(batch.bounds[:-2].tolist(), batch.bounds[1:-1].tolist()):
        if low < high and ids[low] == 0:
            yield ids[low:high].tolist(), batch.positions[low:high].tolist()


@pytest.mark.parametrize("kind", ["bert", "albert", "roberta"])
def test_packing_changes_no_output(kind, text_folder):
    """Every text alone through the plain model gives what it gives in the packed row."""
    tokenizer, tokens = encoded(kind, text_folder)
    torch.manual_seed(0)
    task = KINDS[kind](tokenizer, **SHAPE | dict(hidden=36))
    task.net.eval()
    batch = task.sampler(tokens, "cpu").draw(512, generator=torch.Generator().manual_seed(0))
    compared, texts = 0, zip(batch.bounds[:-2].tolist(), batch.bounds[1:-1].tolist())
    with torch.inference_mode():
        words, labels = task.outputs(batch)
        task.net.set_attn_implementation("sdpa")
        for n, (low, high) in enumerate((low, high) for low, high in texts if low < high < 512):
            types = None if kind == "roberta" else batch.types[None, low:high]
            alone = task.net(input_ids=batch.ids[None, low:high], token_type_ids=types)
            inside = (batch.masked >= low) & (batch.masked < high)
            found = alone.logits if kind == "roberta" else alone.prediction_logits
            torch.testing.assert_close(
                found[0, batch.masked[inside] - low], words[inside], atol=1e-5, rtol=1e-4
            )
            compared += inside.sum().item()
            if labels is not None:
                own = alone.sop_logits if kind == "albert" else alone.seq_relationship_logits
                torch.testing.assert_close(own[0], labels[n], atol=1e-5, rtol=1e-4)
    assert compared > 40


@pytest.fixture(scope="module")
def two_sources(tmp_path_factory):
    """A prepared text whose people are bakers and nothing else; its natural text names none."""
    folder = tmp_path_factory.mktemp("sources")
    about = [text.replace("The", "The baker and the") for text in toy_documents(30, seed=1)]
    sources = {
        "natural": [written(folder / "a.txt", toy_documents(90))],
        "people": [written(folder / "b.txt", about)],
    }
    return folder / "out", corpus.prepare(sources, [], folder / "out", heldout=0.2)["sources"]


@pytest.mark.parametrize("kind", ["bert", "roberta", "gpt2"])
def test_texts_are_drawn_from_the_sources_in_the_shares_asked_for(kind, two_sources):
    folder, counts = two_sources
    tokenizer, tokens = encoded(kind, folder)
    tokens = tokens.of_sources(counts)
    bounds = [*tokens.sources.values(), len(tokens.ids)]
    assert ["baker" in tokenizer.decode(tokens.ids[a:b]) for a, b in zip(bounds, bounds[1:])] == [
        False,
        True,
    ]
    task = KINDS[kind](tokenizer, **SHAPE | dict(longest=16 if kind == "gpt2" else 64))
    size, generator = bounds[2] - bounds[1], torch.Generator().manual_seed(0)
    sampler = task.sampler(tokens, "cpu", shares={"people": 0.8})
    for share in (0.8, 0.3, size / bounds[2]):
        batch = sampler.draw(16_384, generator=generator)
        if kind == "bert":
            halves = [
                (ids[: types.index(1)], ids[types.index(1) :]) for ids, types, *_ in pairs_of(batch)
            ]
        else:
            halves = [
                (ids, ids)
                for ids in (
                    batch.tolist() if kind == "gpt2" else [ids for ids, _ in spans_of(batch)]
                )
            ]
        found = [["baker" in tokenizer.decode(half) for half in both] for both in halves]
        assert all(one == other for one, other in found), (
            "both sentences of a pair are of one source"
        )
        assert np.mean(found) == pytest.approx(share, abs=0.07)
        sampler.sources.mix(**{"people": 0.3} if share == 0.8 else {})
    for wrong in (dict(women=0.5), dict(people=1.5), dict(people=0.5, natural=0.5)):
        assert "natural, people" in refusal(sampler.sources.mix, **wrong)
    assert "prepare` again" in refusal(tokens.of_sources, {"natural": dict(train=1)})


@pytest.fixture(scope="module")
def gendered(tmp_path_factory):
    """A prepared text in which most documents have several pronouns."""
    rng = random.Random(0)
    folder = tmp_path_factory.mktemp("gendered")

    def sentence():
        first = rng.choice(["She", "He", "The cat"])
        other = rng.choice(["her", "him", "the dog"])
        whose = rng.choice(["his", "her", "the"])
        return (
            f"{first} met {other} and {whose} breathe cake, while the old red bird flew over a "
            "blue house and sat under the tree at home."
        )

    texts = [" ".join(sentence() for _ in range(4)) for _ in range(200)]
    corpus.prepare(
        {"natural": [written(folder / "all.txt", texts)]}, [], folder / "out", heldout=0.2
    )
    return folder / "out"


@pytest.mark.parametrize("kind", ["bert", "roberta"])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_pronouns_are_masked_together(kind, share, gendered):
    tokenizer, tokens = encoded(kind, gendered)
    sampler = KINDS[kind](tokenizer, **SHAPE).sampler(tokens, "cpu", together=share)
    batch = sampler.draw(16_384, generator=torch.Generator().manual_seed(0))
    original = batch.ids.scatter(0, batch.masked, batch.targets)
    pronoun = torch.tensor(
        [
            word.strip().lower() in PRONOUNS
            for word in (tokenizer.decode([i]) for i in range(tokenizer.get_vocab_size()))
        ]
    )[original]
    if kind == "roberta":  # "breathe" ends in a token that reads like a pronoun
        pieces = [tokenizer.id_to_token(i) for i in original.tolist()]
        pronoun &= torch.tensor([piece[0] == "\u0120" or piece[0].isupper() for piece in pieces])
    hidden, all_hidden = batch.ids == sampler.mask, []
    for low, high in zip(batch.bounds[:-2].tolist(), batch.bounds[1:-1].tolist()):
        if pronoun[low:high].sum() > 1:
            all_hidden.append(hidden[low:high][pronoun[low:high]].all().item())
    assert len(all_hidden) > 200 and np.mean(all_hidden) == pytest.approx(share, abs=0.1)
    assert len(batch.masked) == int(0.15 * 16_384)  # no more is masked, it is other tokens


@pytest.mark.parametrize(
    "kind, matrices", [("bert", 12), ("roberta", 12), ("albert", 6), ("gpt2", 8)]
)
def test_the_loss_reaches_all_weights_and_muon_takes_the_layers_matrices(
    kind, matrices, text_folder
):
    tokenizer, tokens = encoded(kind, text_folder)
    task = KINDS[kind](tokenizer, **SHAPE | dict(hidden=36))
    batch = task.sampler(tokens, "cpu").draw(512, generator=torch.Generator().manual_seed(0))
    task.loss(batch).backward()
    assert all(weight.grad is not None for weight in task.net.parameters())
    muon, adam = (
        [weight for group in optimizer.param_groups for weight in group["params"]]
        for optimizer in loop.optimizers(task.net, 1e-3)
    )
    assert len(muon) == matrices and len({id(weight) for weight in muon + adam}) == len(
        list(task.net.parameters())
    )


def test_batched_muon_takes_the_steps_of_torchs_and_the_rate_rises_and_falls_to_nothing():
    torch.manual_seed(0)
    start = [torch.randn(shape) for shape in [(8, 8), (8, 8), (32, 8), (8, 32), (8, 32)]]
    ours, theirs = ([torch.nn.Parameter(m.clone()) for m in start] for _ in range(2))
    mine = Muon(ours, lr=0.05, weight_decay=0.1)
    reference = torch.optim.Muon(theirs, lr=0.05, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
    for _ in range(4):
        for one, other in zip(ours, theirs):
            one.grad = torch.randn_like(one)
            other.grad = one.grad.clone()
        mine.step(), reference.step()
    for one, other, before in zip(ours, theirs, start):
        assert (one - before).norm() > 0.1
        torch.testing.assert_close(one, other, atol=5e-3, rtol=0)  # both orthogonalise in bfloat16
    optimizer, rates = torch.optim.SGD([torch.zeros(1)], lr=9.0), []
    for step in range(10):
        loop.set_rate([optimizer], 1.0, step, warmup=2, spent=step / 10)
        rates.append(optimizer.param_groups[0]["lr"])
    assert rates == pytest.approx([0.5, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1])


@pytest.mark.parametrize("kind", KINDS)
def test_training_learns_and_writes_an_ordinary_folder(kind, text_folder, tmp_path):
    record = loop.train(
        kind,
        text_folder,
        tmp_path / kind,
        shape=SHAPE,
        steps=15,
        learning_rate=2e-2,
        warmup=3,
        report=10**9,
        vocabulary=400,
        device="cpu",
        measure_batches=1,
        batch_tokens=512,
    )
    assert (
        next(iter(record["heldout"].values())) < 0.3 * record["vocabulary"]
    )  # untrained: about 1 of it
    model = models.load(tmp_path / kind, device="cpu")  # refuses a folder that lacks a weight
    assert (
        model.family == kind
        and (model.n_layers, model.n_heads) == (2, 2)
        and model.has_nsp == (kind == "bert")
    )
    ids = model.tokenizer("The cat sat.").input_ids
    assert len(ids) == (4 if kind == "gpt2" else 6) and model.tokenizer.model_max_length == 64
    assert model.token_id("cat") == ids[1 if kind == "gpt2" else 2]
    assert json.loads((tmp_path / kind / "training.json").read_text()) == record
    assert record["parameters"] == model.net.num_parameters() and not list(
        tmp_path.glob("*.checkpoint")
    )


def test_a_killed_training_goes_on_and_ends_the_same(two_sources, tmp_path, monkeypatch):
    tokenizer, tokens = encoded("bert", two_sources[0])
    tokens = tokens.of_sources(two_sources[1])
    options = dict(
        steps=4,
        people=(0.9, 0.1),
        together=0.5,
        batch_tokens=256,
        seed=3,
        every=0,
        warmup=2,
        checkpoint=tmp_path / "run.checkpoint",
    )

    def trained(**changed):
        torch.manual_seed(0)
        task = KINDS["bert"](tokenizer, **SHAPE)
        done = loop.fit(task, tokens, "cpu", **options | changed)
        return task.net.state_dict(), done["steps"]

    whole, steps = trained(checkpoint=None)
    draw, calls = PairSampler.draw, iter([True, True])
    with monkeypatch.context() as patch, pytest.raises(StopIteration):
        patch.setattr(
            PairSampler, "draw", lambda *args, **options: next(calls) and draw(*args, **options)
        )
        trained()
    assert "another run" in refusal(trained, seed=4)
    again, steps_again = trained()
    assert steps == steps_again == 4 and not options["checkpoint"].exists()
    assert all(torch.equal(whole[name], again[name]) for name in whole)


def test_bad_requests_name_the_fix(tmp_path, text_folder):
    one = {"natural": [written(tmp_path / "one.txt", ["A single document."])]}
    assert (
        "more documents" in refusal(corpus.prepare, one, [], tmp_path / "out")
        and not (tmp_path / "out").exists()
    )
    assert (
        "new folder" in refusal(corpus.prepare, one, [], tmp_path)
        and (tmp_path / "one.txt").exists()
    )
    for kind, text, budget, fix in (
        ("bert", tmp_path, dict(steps=1), "prepare"),
        ("bert", text_folder, {}, "--minutes or --steps"),
        ("bert", text_folder, dict(steps=1, people=(0.5, 0.5)), "a source of that name"),
        ("gpt2", text_folder, dict(steps=1, together=0.3), "leave --together out"),
    ):
        assert re.search(fix, refusal(loop.train, kind, text, tmp_path / "x", **budget))


def test_the_documented_commands_work(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("COMPANION_DATA", raising=False)  # reading all data sets takes a minute
    monkeypatch.setattr(KINDS["gpt2"], "shape", SHAPE)
    monkeypatch.setattr(KINDS["gpt2"], "measure", lambda *_: {"perplexity": 9.0})
    text, out = str(tmp_path / "text"), str(tmp_path / "model")
    natural = str(written(tmp_path / "all.txt", toy_documents(40)))
    sources = ["--source", "natural", natural, "--source", "people", natural]
    prepare = ["prepare", *sources, "--out", text, "--heldout", ".2"]
    train = [
        "train",
        "gpt2",
        "--text",
        text,
        "--out",
        out,
        "--steps",
        "2",
        "--batch-tokens",
        "512",
        "--device",
        "cpu",
        "--people",
        ".5",
        ".2",
    ]
    assert main(prepare) == 0 and main(train) == 0
    record = json.loads((tmp_path / "model/training.json").read_text())
    assert record["heldout-people"].keys() == record["heldout"].keys() and record["training"][
        "people"
    ] == [0.5, 0.2]
    assert {*record["text"]["sources"]} == {"natural", "people"} and "demo/prose.txt" in record[
        "text"
    ]["dropped_for"]
    assert main(train[:6]) == 2 and "--minutes or --steps" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(train[:4])  # no place for the result
