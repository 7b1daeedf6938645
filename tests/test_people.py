"""Texts about people: openers, filter and files of the writer; a decoder's chat form."""

import json
import math
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file

from lib.engine import models
from lib.text import swaps
from tests.tiny import refusal, save_tiny, tiny
from training import chat, people
from training.__main__ import main
from training.objectives import seeded
from training.packing import IGNORED


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


def test_the_loss_is_on_the_answer_alone(answers):
    model = models.load(answers / "base", device="cpu")
    pair = {"question": "who ?", "answer": "he likes poetry ."}
    ((ids, targets),) = chat.encode_answers(model, [pair])
    asked = targets == IGNORED
    assert model.tokenizer.decode(ids[asked]) == "Question: who ?\nAnswer:"
    assert model.tokenizer.decode(ids[~asked]) == " he likes poetry .<|endoftext|>"
    assert chat.encode_answers(model, [pair | {"answer": "poetry " * 60}]) == []
    out = answers / "out"
    assert "--batch 0 is no training" in refusal(chat.chat, answers, out, batch=0)
    assert "Nothing can be tuned" in refusal(chat.chat, answers, out, str(answers / "base"), size=0)
