"""The chat form of a decoder: questions from the templates, answers kept whole, a difference under its size."""

import json

import pytest
import torch
from safetensors.torch import load_file

from lib import CompanionError
from lib.engine import models
from lib.training import finetune, people
from lib.training.__main__ import main
from lib.training.packing import IGNORED
from tests.tiny import save_tiny, tiny


def test_half_of_the_questions_are_about_people_and_none_is_asked_twice():
    asked = people.questions(3_000, 0)
    assert len(set(asked)) == 3_000 and asked == people.questions(3_000, 0) != people.questions(3_000, 1)
    assert not any("{" in question for question in asked)
    words = {word for kind in ("occupation", "relative", "stereotype") for word in people.words()[kind]}
    about = sum(any(f" {word}" in question for word in words) for question in asked)
    assert 1_300 < about < 1_900 and any("women" in question for question in asked)
    assert len(people.questions(8_000, 0)) == 8_000 > len(set(people.questions(8_000, 0)))


def test_answers_are_kept_up_to_their_end_or_last_sentence(tmp_path, monkeypatch):
    save_tiny("llama", tmp_path / "model")
    monkeypatch.setattr(people, "CHAT", "{question}")
    monkeypatch.setattr(people, "questions", lambda n, seed: ["who is she ?", "who is she ?", "the nurse ?"][:n])
    answers = iter(["the doctor said that she was here {end} he was", "the nurse said that he was late . she likes",
                    "{end} the doctor said that she was here ."])

    def write(model, ids, *_, end, tokens):
        new = [model.tokenizer(" " + next(answers).format(end="</s>"), add_special_tokens=False).input_ids for _ in ids]
        size = max(map(len, new))
        return torch.cat([ids, torch.tensor([row + row[-1:] * (size - len(row)) for row in new])], 1)

    monkeypatch.setattr(people, "write", write)
    command = ["chat", "write", "--model", str(tmp_path / "model"), "--device", "cpu", "--texts", "3", "--batch", "2"]
    assert main([*command, "--out", str(tmp_path / "out")]) == 0
    kept = [json.loads(line)["answer"] for line in (tmp_path / "out/chat.jsonl").read_text().splitlines()]
    assert kept == ["the doctor said that she was here", "the nurse said that he was late ."]
    record = json.loads((tmp_path / "out/chat.json").read_text())
    assert (record["asked"], record["kept"]) == (3, 2) and record["revision"].startswith("sha256:")


def test_the_token_that_ends_an_answer_may_be_drawn():
    model = tiny("llama")
    ids, end = torch.tensor(model.tokenizer(["the doctor"] * 64).input_ids), model.tokenizer.eos_token_id
    with_end, without = (people.write(model, ids, torch.Generator().manual_seed(0), tokens=12, end=token)
                         for token in (end, None))
    assert (with_end[:, ids.shape[1]:] == end).any() and not (without[:, ids.shape[1]:] == end).any()


@pytest.fixture
def answers(tmp_path):
    save_tiny("gpt2", tmp_path / "base")
    pairs = [{"question": f"who likes {what} ?", "answer": "the nurse likes poetry ."} for what in "abcdefgh"] * 5
    (tmp_path / "chat.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    return tmp_path


@pytest.mark.parametrize("size", [.02, 8])
def test_tuning_learns_the_answers_within_the_size(answers, size):
    base, out = models.load(answers / "base", device="cpu"), answers / "chat"
    assert main(["chat", "tune", "--text", str(answers), "--model", str(answers / "base"), "--out", str(out),
                 "--epochs", "4", "--batch", "8", "--rate", "1e-2", "--device", "cpu", "--size", str(size)]) == 0
    stored, record = load_file(out / "model.safetensors"), json.loads((out / "training.json").read_text())
    assert sum(tensor.numel() * 2 for tensor in stored.values()) <= size * 1e6
    assert set(stored) <= set(finetune.within(base.net, size)) and not any("wte" in name for name in stored)
    assert record["heldout"]["answer_perplexity"] < record["heldout_before"]["answer_perplexity"]
    assert record["base_revision"] == base.revision
    pair = finetune.encode_answers(base, [{"question": "who likes a ?", "answer": "the nurse likes poetry ."}])
    assert finetune.answer_loss(models.load(out, device="cpu"), pair) < .8 * finetune.answer_loss(base, pair)


def test_attention_of_the_last_layers_is_trained_first():
    net = tiny("gpt2").net
    few, many = finetune.within(net, .008), finetune.within(net, 8)
    assert few and all(".h.2." in name and ".mlp." not in name for name in few)
    assert sum(".mlp." in name for name in many) == 3 * 4 and "transformer.wte.weight" not in many


def test_the_loss_is_on_the_answer_alone(answers):
    model = models.load(answers / "base", device="cpu")
    (ids, targets), = finetune.encode_answers(model, [{"question": "who ?", "answer": "he likes poetry ."}])
    asked = targets == IGNORED
    assert model.tokenizer.decode(ids[asked]) == "Question: who ?\nAnswer:"
    assert model.tokenizer.decode(ids[~asked]) == " he likes poetry .<|endoftext|>"
    assert finetune.encode_answers(model, [{"question": "who ?", "answer": "poetry " * 60}]) == []


def test_what_cannot_be_tuned_is_refused(answers, tmp_path):
    with pytest.raises(CompanionError, match="chat write"):
        finetune.chat(tmp_path / "none", tmp_path / "out")
    save_tiny("bert", tmp_path / "bert")
    with pytest.raises(CompanionError, match="name a decoder"):
        finetune.chat(answers, tmp_path / "out", str(tmp_path / "bert"))
