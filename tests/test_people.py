"""Texts about people: openers that state no gender, a filter that holds what it says, files that depend on the seed."""

import json
import math
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.engine import models
from lib.text import swaps
from lib.training import corpus, people
from lib.training.__main__ import main
from lib.training.objectives import seeded
from tests.tiny import save_tiny, tiny

STORY = ("The baker met Ann at the market and asked about her garden. It had rained since Monday, so nothing grew but "
         "weeds. They laughed, bought apples from a boy with red boots, and walked home along the river before dark.")


# ---------------------------------------------------------------- openers

def test_no_opener_states_the_gender_of_the_person_in_the_occupation():
    openers = {kind: entry["openers"] for kind, entry in people.OPENERS.items() if kind in people.words()}
    occupation = openers["occupation"]
    assert {swaps.swap_all(opener) for opener in occupation} == set(occupation)  # whatever is said is said of both
    gendered = [opener for opener in occupation if swaps.count(opener)[1]]
    assert sorted(gendered) == ["Her boss, {a} {word},", "His boss, {a} {word},"]  # someone else's
    for opener in sum(openers.values(), []):
        assert opener.count("{word}") == 1 and "works as" not in opener  # the sentence that is evaluated


def test_the_lists_fill_the_openers():
    words = people.words()
    assert (len(words["occupation"]), len(words["stereotype"])) == (182, 168)
    gender = swaps.counterparts("gender")
    groups = [gender[word][0] for word in words["relative"] if word in gender]
    assert groups.count("female") == groups.count("male") >= 10
    opened = people.opened(400, seed=1)
    assert opened == people.opened(400, seed=1) != people.opened(400, seed=2)
    assert not any("{" in text for text in opened) and all(text.lstrip('"')[0].isupper() for text in opened)


# ---------------------------------------------------------------- the filter

@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from([*STORY.split(), "Then", "it", "rained.", "\n", "[1]", "http", "é", "7", "“No”"])
                | st.text(max_size=4), max_size=120).map(lambda words: f"{STORY} {' '.join(words)}"))
def test_what_passes_is_whole_plain_paragraphs(text):
    kept = people.clean(text)
    if kept is not None:
        assert people.clean(kept) == kept and len(kept) >= 200  # nothing is left to do
        assert kept[-1] in ".!?\"'" and not people.BAD.search(kept)
        assert all(line and line == " ".join(line.split()) for line in kept.split("\n"))
        assert kept.startswith(STORY)  # only the end is cut


@pytest.mark.parametrize("text, passes", [
    (STORY, True), (STORY + " And then the", True), (f"{STORY}\n\n{STORY.replace('baker', 'old baker')}", False),
    (STORY[:150] + ".", False), (f"{STORY} Can you help me?", False), (f"{STORY} **bold** text.", False),
    (f"{STORY} As an AI, I cannot.", False), (f"{STORY} {'Ωμέγα ' * 3}.", False),
    (f"{STORY} {'12 + 3 = 15; ' * 8}.", False)])
def test_short_repeated_marked_up_and_chatty_texts_are_refused(text, passes):
    assert (people.clean(text) is not None) == passes
    if passes:
        assert people.clean(text) == STORY


# ---------------------------------------------------------------- writing

def test_tokens_are_drawn_by_min_p_and_a_repeat_costs():
    tokenizer, p = tiny("gpt2").tokenizer, torch.tensor([.01, .5, .25, .22, .02])  # token 0 is special, 4 below min-p

    class Net:
        """Five tokens, always of these probabilities."""
        config = SimpleNamespace(vocab_size=5)

        def __call__(self, ids, **_):
            return SimpleNamespace(logits=p.log().expand(len(ids), 1, 5), past_key_values=None)

    model, start = SimpleNamespace(net=Net(), tokenizer=tokenizer), torch.ones(20_000, 1, dtype=torch.long)
    first, second = people.write(model, start, seeded("cpu", 0), tokens=2)[:, 1:].T
    share = first.bincount(minlength=5) / len(first)
    assert share == pytest.approx([0, .5 / .97, .25 / .97, .22 / .97, 0], abs=.02)  # an opener's cost nothing
    again = (second[first == 1] == 1).float().mean().item()
    lowered = .5 * math.exp(-people.PENALTY)
    assert again == pytest.approx(lowered / (lowered + .47), abs=.02)
    first, second = people.write(model, start, seeded("cpu", 0), spared=[1], tokens=2)[:, 1:].T
    assert (second[first == 1] == 1).float().mean().item() == pytest.approx(.5 / .97, abs=.02)


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_cached_steps_give_what_whole_texts_give(family):
    """The likeliest token of each step, which a tiny min-p leaves alone, is that of a forward over the whole text."""
    model = tiny(family)
    ids = torch.tensor(model.tokenizer(["the doctor said that"] * 2).input_ids)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(people, "MIN_P", 1.)
        patch.setattr(people, "PENALTY", 0.)
        written = people.write(model, ids, seeded("cpu", 0), tokens=6)
    for size in range(ids.shape[1], written.shape[1]):
        logits = model.net(written[:, :size]).logits[:, -1]
        logits[:, model.tokenizer.all_special_ids] = -torch.inf
        assert torch.equal(logits.argmax(-1), written[:, size])
    assert people.write(model, ids, seeded("cpu", 0)).shape[1] == 40  # all positions that it has


def test_a_run_writes_corpus_files_by_its_seed_and_goes_on_where_it_stopped(tmp_path, monkeypatch, capsys):
    save_tiny("llama", tmp_path / "model")
    monkeypatch.setattr(people, "clean", lambda text: " ".join(text.split()) if len(text) % 3 else None)
    monkeypatch.setattr(people, "write", partial(people.write, tokens=4))

    def run(name, seed=0):
        assert main(["people", "--out", str(tmp_path / name), "--model", str(tmp_path / "model"), "--texts", "11",
                     "--shard", "4", "--batch", "4", "--device", "cpu", "--seed", str(seed)]) == 0
        return {file.name: list(corpus.documents([file])) for file in sorted((tmp_path / name).glob("*.xz"))}

    first, again, other = run("first"), run("again"), run("other", seed=1)
    assert list(first) == ["people0.txt.xz", "people1.txt.xz", "people2.txt.xz"] and first == again != other
    texts = [text for texts in first.values() for text in texts]
    record = json.loads((tmp_path / "first/people.json").read_text())
    assert 0 < record["kept"] == len(texts) < 11 and record["revision"] == models.locate(str(tmp_path / "model"))[1]
    (tmp_path / "first/people1.txt.xz").unlink()
    (tmp_path / "first/people2.txt.xz").write_bytes((tmp_path / "other/people2.txt.xz").read_bytes())
    resumed = run("first")
    assert resumed["people1.txt.xz"] == first["people1.txt.xz"] and resumed["people2.txt.xz"] == other["people2.txt.xz"]
