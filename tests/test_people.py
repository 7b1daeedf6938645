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
    openers = {
        kind: entry["openers"] for kind, entry in people.OPENERS.items() if kind in people.words()
    }
    occupation = openers["occupation"]
    assert {swaps.swap_all(opener) for opener in occupation} == set(
        occupation
    )  # whatever is said is said of both
    gendered = [opener for opener in occupation if swaps.count(opener)[1]]
    assert sorted(gendered) == ["Her boss, {a} {word},", "His boss, {a} {word},"]  # someone else's
    for opener in sum(openers.values(), []):
        assert (
            opener.count("{word}") == 1 and "works as" not in opener
        )  # the sentence that is evaluated
    words = people.words()
    assert (len(words["occupation"]), len(words["stereotype"])) == (182, 168)
    gender = swaps.counterparts("gender")
    groups = [gender[word][0] for word in words["relative"] if word in gender]
    assert groups.count("female") == groups.count("male") >= 10
    for draw, n in (people.opened, 400), (people.questions, 3_000):
        drawn, again, other = (draw(n, seed) for seed in (0, 0, 1))
        assert drawn == again != other and not any("{" in text for text in drawn)
        assert all(text.lstrip('"')[0].isupper() for text in drawn)
    asked = people.questions(3_000, 0)
    assert len(set(asked)) == 3_000
    known = {word for kind in ("occupation", "relative", "stereotype") for word in words[kind]}
    about = sum(any(f" {word}" in question for word in known) for question in asked)
    assert 1_300 < about < 1_900 and any("women" in question for question in asked)
    assert len(people.questions(8_000, 0)) == 8_000 > len(set(people.questions(8_000, 0)))


@settings(max_examples=60)
@given(
    st.lists(
        st.sampled_from(
            [*STORY.split(), "Then", "it", "rained.", "\n", "[1]", "http", "é", "7", "“No”"]
        )
        | st.text(max_size=4),
        max_size=40,
    ).map(lambda words: f"{STORY} {' '.join(words)}")
)
def test_what_passes_is_whole_plain_paragraphs(text):
    kept = people.clean(text)
    if kept is not None:
        assert people.clean(kept) == kept and len(kept) >= 200  # nothing is left to do
        assert kept[-1] in ".!?\"'" and not people.BAD.search(kept)
        assert all(line and line == " ".join(line.split()) for line in kept.split("\n"))
        assert kept.startswith(STORY)  # only the end is cut


@pytest.mark.parametrize(
    "text, passes",
    [
        (STORY, STORY),
        (STORY + " And then the", STORY),
        (f"{STORY}\n\n{STORY.replace('baker', 'old baker')}", None),
        (STORY[:150] + ".", None),
        *(
            (f"{STORY} {more}", None)
            for more in (
                "Can you help me?",
                "**bold** text.",
                "As an AI, I cannot.",
                "Ωμέγα Ωμέγα Ωμέγα.",
                "12 + 3 = 15; " * 8 + ".",
            )
        ),
    ],
)
def test_short_repeated_marked_up_and_chatty_texts_are_refused(text, passes):
    assert people.clean(text) == passes


def test_tokens_are_drawn_by_min_p_and_a_repeat_costs():
    tokenizer, p = (
        tiny("gpt2").tokenizer,
        torch.tensor([0.01, 0.5, 0.25, 0.22, 0.02]),
    )  # token 0 is special, 4 below min-p

    class Net:
        """Five tokens, always of these probabilities."""

        config = SimpleNamespace(vocab_size=5)

        def __call__(self, ids, **_):
            return SimpleNamespace(logits=p.log().expand(len(ids), 1, 5), past_key_values=None)

    model, start = (
        SimpleNamespace(net=Net(), tokenizer=tokenizer),
        torch.ones(20_000, 1, dtype=torch.long),
    )
    first, second = people.write(model, start, seeded("cpu", 0), tokens=2)[:, 1:].T
    share = first.bincount(minlength=5) / len(first)
    assert share == pytest.approx(
        [0, 0.5 / 0.97, 0.25 / 0.97, 0.22 / 0.97, 0], abs=0.02
    )  # an opener's cost nothing
    again = (second[first == 1] == 1).float().mean().item()
    lowered = 0.5 * math.exp(-people.PENALTY)
    assert again == pytest.approx(lowered / (lowered + 0.47), abs=0.02)
    first, second = people.write(model, start, seeded("cpu", 0), spared=[1], tokens=2)[:, 1:].T
    assert (second[first == 1] == 1).float().mean().item() == pytest.approx(0.5 / 0.97, abs=0.02)


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_cached_steps_give_what_whole_texts_give(family):
    """The likeliest token of each step is that of a forward pass over the whole text.

    A min-p of 1 leaves no other token.
    """
    model = tiny(family)
    ids = torch.tensor(model.tokenizer(["the doctor said that"] * 2).input_ids)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(people, "MIN_P", 1.0)
        patch.setattr(people, "PENALTY", 0.0)
        written = people.write(model, ids, seeded("cpu", 0), tokens=6)
    for size in range(ids.shape[1], written.shape[1]):
        logits = model.net(written[:, :size]).logits[:, -1]
        logits[:, model.tokenizer.all_special_ids] = -torch.inf
        assert torch.equal(logits.argmax(-1), written[:, size])
    assert people.write(model, ids, seeded("cpu", 0)).shape[1] == 40  # all positions that it has


def test_a_run_writes_corpus_files_by_its_seed_and_goes_on_where_it_stopped(
    tmp_path, monkeypatch, capsys
):
    save_tiny("llama", tmp_path / "model")
    monkeypatch.setattr(
        people, "clean", lambda text: " ".join(text.split()) if len(text) % 3 else None
    )
    monkeypatch.setattr(people, "write", partial(people.write, tokens=4))

    def run(name, seed=0):
        assert (
            main(
                [
                    "people",
                    "--out",
                    str(tmp_path / name),
                    "--model",
                    str(tmp_path / "model"),
                    "--texts",
                    "11",
                    "--shard",
                    "4",
                    "--batch",
                    "4",
                    "--device",
                    "cpu",
                    "--seed",
                    str(seed),
                ]
            )
            == 0
        )
        return {
            file.name: list(corpus.documents([file]))
            for file in sorted((tmp_path / name).glob("*.xz"))
        }

    first, again, other = run("first"), run("again"), run("other", seed=1)
    assert (
        list(first) == ["people0.txt.xz", "people1.txt.xz", "people2.txt.xz"]
        and first == again != other
    )
    texts = [text for texts in first.values() for text in texts]
    record = json.loads((tmp_path / "first/people.json").read_text())
    assert (
        0 < record["kept"] == len(texts) < 11
        and record["revision"] == folders.locate(str(tmp_path / "model"))[1]
    )
    (tmp_path / "first/people1.txt.xz").unlink()
    (tmp_path / "first/people2.txt.xz").write_bytes(
        (tmp_path / "other/people2.txt.xz").read_bytes()
    )
    resumed = run("first")
    assert (
        resumed["people1.txt.xz"] == first["people1.txt.xz"]
        and resumed["people2.txt.xz"] == other["people2.txt.xz"]
    )


def test_answers_are_kept_up_to_their_end_or_last_sentence(tmp_path, monkeypatch):
    save_tiny("llama", tmp_path / "model")
    monkeypatch.setattr(people, "CHAT", "{question}")
    monkeypatch.setattr(
        people, "questions", lambda n, seed: ["who is she ?", "who is she ?", "the nurse ?"][:n]
    )
    answers = iter(
        [
            "the doctor said that she was here {end} he was",
            "the nurse said that he was late . she likes",
            "{end} the doctor said that she was here .",
        ]
    )

    def write(model, ids, *_, end, tokens):
        new = [
            model.tokenizer(
                " " + next(answers).format(end="</s>"), add_special_tokens=False
            ).input_ids
            for _ in ids
        ]
        size = max(map(len, new))
        return torch.cat(
            [ids, torch.tensor([row + row[-1:] * (size - len(row)) for row in new])], 1
        )

    monkeypatch.setattr(people, "write", write)
    command = [
        "chat",
        "write",
        "--model",
        str(tmp_path / "model"),
        "--device",
        "cpu",
        "--texts",
        "3",
        "--batch",
        "2",
    ]
    assert main([*command, "--out", str(tmp_path / "out")]) == 0
    kept = [
        json.loads(line)["answer"]
        for line in (tmp_path / "out/chat.jsonl").read_text().splitlines()
    ]
    assert kept == ["the doctor said that she was here", "the nurse said that he was late ."]
    record = json.loads((tmp_path / "out/chat.json").read_text())
    assert (record["asked"], record["kept"]) == (3, 2) and record["revision"].startswith("sha256:")
    tokenizer = tiny(
        "llama"
    ).tokenizer  # a chat model may end an answer with another token than a text
    nurse = tokenizer.convert_ids_to_tokens(
        tokenizer(" nurse", add_special_tokens=False).input_ids
    )[-1]
    monkeypatch.setattr(people, "END", nurse)
    answers = iter(["the doctor said that she was here nurse he was"] * 3)
    assert main([*command, "--out", str(tmp_path / "other")]) == 0
    assert (tmp_path / "other/chat.jsonl").read_text().count(
        'the doctor said that she was here"'
    ) == 3


def test_the_token_that_ends_an_answer_may_be_drawn():
    model = tiny("llama")
    ids, end = (
        torch.tensor(model.tokenizer(["the doctor"] * 64).input_ids),
        model.tokenizer.eos_token_id,
    )
    with_end, without = (
        people.write(model, ids, torch.Generator().manual_seed(0), tokens=12, end=token)
        for token in (end, None)
    )
    assert (with_end[:, ids.shape[1] :] == end).any() and not (
        without[:, ids.shape[1] :] == end
    ).any()


@pytest.fixture
def answers(tmp_path):
    save_tiny("gpt2", tmp_path / "base")
    pairs = [
        {"question": f"who likes {what} ?", "answer": "the nurse likes poetry ."}
        for what in "abcdefgh"
    ] * 5
    (tmp_path / "chat.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    return tmp_path


@pytest.mark.parametrize("size", [0.02, 8])
def test_tuning_learns_the_answers_within_the_size(answers, size):
    base, out = models.load(answers / "base", device="cpu"), answers / "chat"
    assert (
        main(
            [
                "chat",
                "tune",
                "--text",
                str(answers),
                "--model",
                str(answers / "base"),
                "--out",
                str(out),
                "--epochs",
                "4",
                "--batch",
                "8",
                "--rate",
                "1e-2",
                "--device",
                "cpu",
                "--size",
                str(size),
            ]
        )
        == 0
    )
    stored, record = (
        load_file(out / "model.safetensors"),
        json.loads((out / "training.json").read_text()),
    )
    assert sum(tensor.numel() * 2 for tensor in stored.values()) <= size * 1e6
    assert set(stored) <= set(chat.within(base.net, size)) and not any(
        "wte" in name for name in stored
    )
    assert record["heldout"]["answer_perplexity"] < record["heldout_before"]["answer_perplexity"]
    assert record["base_revision"] == base.revision
    pair = chat.encode_answers(
        base, [{"question": "who likes a ?", "answer": "the nurse likes poetry ."}]
    )
    assert chat.answer_loss(models.load(out, device="cpu"), pair) < 0.8 * chat.answer_loss(
        base, pair
    )


def test_the_loss_is_on_the_answer_alone_and_attention_of_the_last_layers_is_trained_first(
    answers, tmp_path
):
    model = models.load(answers / "base", device="cpu")
    ((ids, targets),) = chat.encode_answers(
        model, [{"question": "who ?", "answer": "he likes poetry ."}]
    )
    asked = targets == IGNORED
    assert model.tokenizer.decode(ids[asked]) == "Question: who ?\nAnswer:"
    assert model.tokenizer.decode(ids[~asked]) == " he likes poetry .<|endoftext|>"
    assert chat.encode_answers(model, [{"question": "who ?", "answer": "poetry " * 60}]) == []
    net = tiny("gpt2").net
    few, many = chat.within(net, 0.008), chat.within(net, 8)
    assert few and all(".h.2." in name and ".mlp." not in name for name in few)
    assert sum(".mlp." in name for name in many) == 3 * 4 and "transformer.wte.weight" not in many
    assert "chat write" in refusal(chat.chat, tmp_path / "none", tmp_path / "out")
    save_tiny("bert", tmp_path / "bert")
    assert "name a decoder" in refusal(chat.chat, answers, tmp_path / "out", str(tmp_path / "bert"))
