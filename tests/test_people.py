"""Texts about people: openers, filter and files of the writer; a decoder's chat form."""

import json
import math
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings, strategies as st
from safetensors.torch import load_file

from lib.engine import folders, models
from lib.text import swaps
from tests.tiny import refusal, save_tiny, tiny
from training import chat, corpus, people
from training.__main__ import main
from training.objectives import seeded
from training.packing import IGNORED

STORY = (
    "The baker met Ann at the market and asked about her garden. It had rained since Monday, so "
    "nothing grew but weeds. They laughed, bought apples from a boy with red boots, and walked "
    "home along the river before dark."
)


def test_no_opener_states_the_gender_of_the_person_and_half_of_the_questions_are_about_people():
    words = people.words()
    openers = {kind: people.OPENERS[kind]["openers"] for kind in people.OPENERS if kind in words}
    occupation = openers["occupation"]
    assert set(map(swaps.swap_all, occupation)) == set(occupation)  # what is said is said of both
    gendered = [opener for opener in occupation if swaps.count(opener)[1]]
    assert sorted(gendered) == ["Her boss, {a} {word},", "His boss, {a} {word},"]  # someone else's
    for opener in sum(openers.values(), []):
        assert opener.count("{word}") == 1
        assert "works as" not in opener  # the sentence that is evaluated
    gender = swaps.counterparts("gender")
    groups = [gender[word][0] for word in words["relative"] if word in gender]
    assert groups.count("female") == groups.count("male") >= 10
    for draw, n in (people.opened, 400), (people.questions, 3_000):
        drawn, again, other = (draw(n, seed) for seed in (0, 0, 1))
        assert drawn == again != other and not any("{" in text for text in drawn)
        assert all(text.lstrip('"')[0].isupper() for text in drawn)
    assert len(set(drawn)) == 3_000  # none is asked twice before all were
    known = sum(words.values(), [])
    about = sum(any(f" {word}" in question for word in known) for question in drawn)
    assert 1_300 < about < 1_900


ODD = [*STORY.split()[:12], "Then", "it", "rained.", "\n", "[1]", "http", "é", "7", "“No”"]


@settings(max_examples=25)
@given(st.lists(st.sampled_from(ODD) | st.text(max_size=4), max_size=30))
def test_what_passes_is_whole_plain_paragraphs(words):
    kept = people.clean(f"{STORY} {' '.join(words)}")
    if kept is not None:
        assert people.clean(kept) == kept and len(kept) >= 200  # nothing is left to do
        assert kept[-1] in ".!?\"'" and not people.BAD.search(kept)
        assert all(line and line == " ".join(line.split()) for line in kept.split("\n"))
        assert kept.startswith(STORY)  # only the end is cut


@pytest.mark.parametrize(
    "text, passes",
    [
        (STORY, True),
        (STORY + " And then the", True),
        (f"{STORY}\n\n{STORY.replace('baker', 'old baker')}", False),
        (STORY[:150] + ".", False),
        (f"{STORY} Can you help me?", False),
        (f"{STORY} **bold** text.", False),
        (f"{STORY} As an AI, I cannot.", False),
        (f"{STORY} Ωμέγα Ωμέγα Ωμέγα.", False),
        (f"{STORY} {'12 + 3 = 15; ' * 8}.", False),
    ],
)
def test_short_repeated_marked_up_and_chatty_texts_are_refused(text, passes):
    assert people.clean(text) == (STORY if passes else None)


# ----------------------------------------------------------------------------------------- writing


def test_tokens_are_drawn_by_min_p_and_a_repeat_costs():
    p = torch.tensor([0.01, 0.5, 0.25, 0.22, 0.02])  # token 0 is special, 4 below min-p

    class Net:
        """Five tokens, always of these probabilities."""

        config = SimpleNamespace(vocab_size=5)

        def __call__(self, ids, **_):
            return SimpleNamespace(logits=p.log().expand(len(ids), 1, 5), past_key_values=None)

    model = SimpleNamespace(net=Net(), tokenizer=tiny("gpt2").tokenizer)
    start = torch.ones(20_000, 1, dtype=torch.long)

    def drawn(**options):
        return people.write(model, start, seeded("cpu", 0), tokens=2, **options)[:, 1:].T

    first, second = drawn()
    share = first.bincount(minlength=5) / len(first)
    usual = 0.5 / 0.97  # an opener's tokens cost nothing
    assert share == pytest.approx([0, usual, 0.25 / 0.97, 0.22 / 0.97, 0], abs=0.02)
    again = (second[first == 1] == 1).float().mean().item()
    lowered = 0.5 * math.exp(-people.PENALTY)
    assert again == pytest.approx(lowered / (lowered + 0.47), abs=0.02)
    first, second = drawn(spared=[1])
    assert (second[first == 1] == 1).float().mean().item() == pytest.approx(usual, abs=0.02)


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_cached_steps_give_what_whole_texts_give(family, monkeypatch):
    """The likeliest token of each step is that of a forward pass over the whole text."""
    model = tiny(family)
    ids = torch.tensor(model.tokenizer(["the doctor said that"] * 2).input_ids)
    monkeypatch.setattr(people, "MIN_P", 1.0)  # leaves the likeliest token alone
    monkeypatch.setattr(people, "PENALTY", 0.0)
    written = people.write(model, ids, seeded("cpu", 0))
    assert written.shape[1] == 40  # all positions that it has
    for size in range(ids.shape[1], ids.shape[1] + 6):
        logits = model.net(written[:, :size]).logits[:, -1]
        logits[:, model.tokenizer.all_special_ids] = -torch.inf
        assert torch.equal(logits.argmax(-1), written[:, size])


def test_the_token_that_ends_an_answer_may_be_drawn():
    model = tiny("llama")
    ids = torch.tensor(model.tokenizer(["the doctor"] * 64).input_ids)
    end = model.tokenizer.eos_token_id
    for token in (end, None):
        new = people.write(model, ids, seeded("cpu", 0), tokens=12, end=token)[:, ids.shape[1] :]
        assert (new == end).any() == (token == end)


def test_a_run_writes_corpus_files_by_its_seed_and_goes_on_where_it_stopped(tmp_path, monkeypatch):
    model = tmp_path / "model"
    save_tiny("llama", model)

    def clean(text):
        return " ".join(text.split()) if len(text) % 3 else None

    monkeypatch.setattr(people, "clean", clean)
    monkeypatch.setattr(people, "write", partial(people.write, tokens=4))

    def run(name, seed=0):
        options = f"--model {model} --texts 11 --shard 4 --batch 4 --device cpu --seed {seed}"
        assert main(["people", "--out", str(tmp_path / name), *options.split()]) == 0
        files = sorted((tmp_path / name).glob("*.xz"))
        return {file.name[6]: list(corpus.documents([file])) for file in files}

    first, again, other = run("first"), run("again"), run("other", seed=1)
    assert list(first) == ["0", "1", "2"] and first == again != other
    record = json.loads((tmp_path / "first/people.json").read_text())
    assert 0 < record["kept"] == len(sum(first.values(), [])) < 11
    assert record["revision"] == folders.locate(str(model))[1]
    (tmp_path / "first/people1.txt.xz").unlink()
    (tmp_path / "other/people2.txt.xz").rename(tmp_path / "first/people2.txt.xz")
    resumed = run("first")
    assert resumed["1"] == first["1"] and resumed["2"] == other["2"]


def test_answers_are_kept_up_to_their_end_or_last_sentence(tmp_path, monkeypatch):
    save_tiny("llama", tmp_path / "model")
    tokenizer = tiny("llama").tokenizer
    here = "the doctor said that she was here"
    written = iter([f" {here} </s> he was", f" {here} . he", f" </s> {here} ."])

    def write(model, ids, *_, end, tokens):
        assert end == tokenizer.eos_token_id
        new = tokenizer(next(written), add_special_tokens=False).input_ids
        return torch.cat([ids, torch.tensor([new])], 1)

    monkeypatch.setattr(people, "CHAT", "{question}")
    monkeypatch.setattr(people, "questions", lambda n, seed: ["who is she ?"] * n)
    monkeypatch.setattr(people, "write", write)
    options = f"--model {tmp_path / 'model'} --device cpu --texts 3 --batch 1 --out {tmp_path}"
    assert main(["chat", "write", *options.split()]) == 0
    lines = (tmp_path / "chat.jsonl").read_text().splitlines()
    assert [json.loads(line)["answer"] for line in lines] == [here, f"{here} ."]
    record = json.loads((tmp_path / "chat.json").read_text())
    assert (record["asked"], record["kept"]) == (3, 2)


# ------------------------------------------------------------------------------------------ tuning


@pytest.fixture
def answers(tmp_path):
    save_tiny("gpt2", tmp_path / "base")
    pairs = []
    for what in "abcdefgh" * 5:
        pairs.append({"question": f"who likes {what} ?", "answer": "the nurse likes poetry ."})
    (tmp_path / "chat.jsonl").write_text("\n".join(map(json.dumps, pairs)))
    return tmp_path


@pytest.mark.parametrize("size", [0.02, 8])
def test_tuning_learns_the_answers_within_the_size(answers, size):
    base, out = models.load(answers / "base", device="cpu"), answers / "chat"
    options = f"--epochs 4 --batch 8 --rate 1e-2 --device cpu --size {size}"
    folders = ["--text", str(answers), "--model", str(answers / "base"), "--out", str(out)]
    assert main(["chat", "tune", *folders, *options.split()]) == 0
    stored = load_file(out / "model.safetensors")
    assert sum(tensor.numel() * 2 for tensor in stored.values()) <= size * 1e6
    assert set(stored) <= set(chat.within(base.net, size))
    assert not any("wte" in name for name in stored)
    record = json.loads((out / "training.json").read_text())
    assert record["heldout"]["answer_perplexity"] < record["heldout_before"]["answer_perplexity"]
    assert record["base_revision"] == base.revision
    pair = {"question": "who likes a ?", "answer": "the nurse likes poetry ."}
    rows = chat.encode_answers(base, [pair])
    tuned = models.load(out, device="cpu")
    assert chat.answer_loss(tuned, rows) < 0.8 * chat.answer_loss(base, rows)


def test_the_loss_is_on_the_answer_alone_and_attention_of_the_last_layers_is_trained_first(
    answers, tmp_path
):
    model = models.load(answers / "base", device="cpu")
    pair = {"question": "who ?", "answer": "he likes poetry ."}
    ((ids, targets),) = chat.encode_answers(model, [pair])
    asked = targets == IGNORED
    assert model.tokenizer.decode(ids[asked]) == "Question: who ?\nAnswer:"
    assert model.tokenizer.decode(ids[~asked]) == " he likes poetry .<|endoftext|>"
    assert chat.encode_answers(model, [pair | {"answer": "poetry " * 60}]) == []
    few, many = (chat.within(model.net, size) for size in (0.008, 8))
    assert few and all(".h.2." in name and ".mlp." not in name for name in few)
    assert sum(".mlp." in name for name in many) == 3 * 4 and "transformer.wte.weight" not in many
    save_tiny("bert", tmp_path / "bert")
    out = tmp_path / "out"
    assert "chat write" in refusal(chat.chat, tmp_path / "none", out)
    assert "name a decoder" in refusal(chat.chat, answers, out, str(tmp_path / "bert"))
    assert "--batch 0 is no training" in refusal(chat.chat, answers, out, batch=0)
    assert "Nothing can be tuned" in refusal(chat.chat, answers, out, str(answers / "base"), size=0)
