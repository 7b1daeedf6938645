"""Batching, blanks and next sentences: the fast way gives what one text at a time gives."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lib import CompanionError
from lib.engine import batches, fill, models, nsp
from tests.tiny import FAMILIES, SENTENCES, tiny

TEXTS = ["She was late.", "A man and a woman met the engineer in the office.", "He likes poetry.", "The doctor."]


@given(sizes=st.lists(st.integers(1, 50), max_size=40), tokens=st.integers(1, 200))
def test_batches_hold_every_index_once_keep_the_budget_and_pad_little(sizes, tokens):
    made = list(batches.by_length(sizes, tokens))
    assert sorted(i for batch in made for i in batch) == list(range(len(sizes)))
    for batch in made:
        assert len(batch) == 1 or len(batch) * max(sizes[i] for i in batch) <= tokens
        for j, i in enumerate(batch):
            assert sizes[i] > .95 * sizes[batch[0]] or 4 * j * sizes[batch[0]] < tokens
    for batch, after in itertools.pairwise(made):  # no batch ends without need
        longest = sizes[batch[0]]
        is_unlike = sizes[after[0]] <= .95 * longest
        assert (len(batch) + 1) * longest > tokens or is_unlike and 4 * len(batch) * longest >= tokens
    order = [sizes[i] for batch in made for i in batch]
    assert order == sorted(order, reverse=True)


def prompts_for(model):
    return [text.replace(".", f" {fill.BLANK}.") for text in TEXTS]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_blank_is_filled_as_the_plain_network_fills_it(family):
    model = tiny(family)
    together = fill.probabilities(model, prompts_for(model))
    for prompt, row in zip(prompts_for(model), together):
        ids = model.tokenizer(fill.written(model, prompt), return_tensors="pt")
        with torch.inference_mode():
            out = model.net(**ids)
        logits = getattr(out, "logits", None)
        logits = out.prediction_logits if logits is None else logits
        place = -1 if model.is_causal else ids.input_ids[0].tolist().index(model.tokenizer.mask_token_id)
        torch.testing.assert_close(row, logits[0, place].softmax(-1), atol=1e-6, rtol=1e-4)
    torch.testing.assert_close(together.sum(1), torch.ones(len(TEXTS)))


def test_word_probabilities_read_the_right_tokens():
    model = tiny("bert")
    frame = fill.word_probabilities(model, ["The [MASK] was late.", "A [MASK] said that."], ["doctor", "nurse"])
    whole = fill.probabilities(model, ["The [MASK] was late.", "A [MASK] said that."])
    assert frame.shape == (2, 2)
    assert frame.loc[1, "nurse"] == pytest.approx(whole[1, model.token_id("nurse")].item())


@pytest.mark.parametrize("prompt, mend", [("No blank here.", "exactly one"), ("[MASK] and [MASK].", "exactly one")])
def test_a_prompt_needs_one_blank(prompt, mend):
    with pytest.raises(CompanionError, match=mend):
        fill.probabilities(tiny("bert"), [prompt])


def test_a_decoder_cannot_fill_the_first_word():
    with pytest.raises(CompanionError, match="later"):
        fill.probabilities(tiny("gpt2"), ["[MASK] works as a nurse."])


def test_a_text_that_is_too_long_is_not_cut_silently():
    model = tiny("bert")
    with pytest.raises(CompanionError, match="shorten it"):
        batches.encode(model, ["doctor " * (model.tokenizer.model_max_length + 1)])


def test_a_batch_that_does_not_fit_is_halved():
    model, sizes = tiny("bert"), []

    def hungry(batch, indices):
        sizes.append(len(indices))
        if len(indices) > 2:
            raise torch.OutOfMemoryError
        return batch["input_ids"][:, 1]

    encoded = batches.encode(model, TEXTS * 2)
    assert batches.each(model, encoded, hungry, tokens=10_000) == [e["input_ids"][1] for e in encoded]
    assert sizes == [8, 4, 2, 2, 4, 2, 2]


def test_one_text_that_does_not_fit_names_the_mend():
    def too_much(batch, indices):
        raise torch.OutOfMemoryError

    model = tiny("bert")
    with pytest.raises(CompanionError, match="smaller model"):
        batches.each(model, batches.encode(model, ["The doctor."]), too_much)


def test_next_sentences_batched_equal_one_by_one():
    model = tiny("bert")
    pairs = [(a, b) for a in TEXTS for b in TEXTS]
    together = nsp.is_next(model, pairs)
    alone = torch.cat([nsp.is_next(model, [pair]) for pair in pairs])
    torch.testing.assert_close(together, alone, atol=1e-6, rtol=1e-5)
    ids = model.tokenizer(*pairs[1], return_tensors="pt")
    with torch.inference_mode():
        logits = model.net(**ids).seq_relationship_logits
    torch.testing.assert_close(together[1], logits.softmax(-1)[0, 0], atol=1e-6, rtol=1e-5)


def test_next_sentences_need_a_head_and_pairs():
    with pytest.raises(CompanionError, match="next-sentence head"):
        nsp.is_next(tiny("roberta"), [("a", "b")])
    with pytest.raises(CompanionError, match="at least one"):
        nsp.is_next(tiny("bert"), [])


# ---------------------------------------------------------------- the shipped models, as they ship

@pytest.fixture(scope="module")
def mini_bert():
    return models.load("mini-bert", device="cpu")


def test_mini_bert_knows_what_its_card_says(mini_bert):
    words = fill.top(mini_bert, "[MASK] works as a nurse.", 2)
    assert words.word.tolist() == ["she", "he"]
    follows, unrelated = nsp.is_next(mini_bert, [("The children were hungry after school.", "They asked for a snack."),
                                                 ("The children were hungry after school.", "Basalt is a dark rock.")])
    assert follows > .9 and unrelated < .5


@settings(max_examples=3, deadline=None)
@given(threads=st.sampled_from([1, 2]))
def test_results_do_not_depend_on_threads(mini_bert, threads):
    """The tolerance of the project on one machine: 1e-6 in a probability (see LIMITS.md)."""
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        found = fill.probabilities(mini_bert, ["The [MASK] sat on the mat."])
        torch.set_num_threads(1)
        torch.testing.assert_close(found, fill.probabilities(mini_bert, ["The [MASK] sat on the mat."]),
                                   atol=1e-6, rtol=0)
    finally:
        torch.set_num_threads(before)


def test_shipped_models_are_small_and_safe():
    from lib import paths
    folders = [p for p in paths.MODELS.iterdir() if p.is_dir()]
    assert {p.name for p in folders} >= {"mini-bert", "mini-roberta", "mini-albert", "mini-gpt2"}
    for folder in folders:
        assert sum(f.stat().st_size for f in folder.glob("*.safetensors")) <= 36e6
        assert {f.suffix for f in folder.iterdir()} <= {".json", ".safetensors"}
    assert sum(f.stat().st_size for f in paths.MODELS.rglob("*")) < 170e6


def test_mini_bert_reads_stereoset(mini_bert, real_data):
    """The model card's number: next-sentence accuracy on the authors' 702 rows."""
    from lib.text import readers
    rows = readers.stereoset()
    follows = nsp.is_next(mini_bert, list(zip(rows.context, rows.next_sentence))).numpy() > .5
    assert (follows == (rows.label != "unrelated")).mean() == pytest.approx(.838, abs=.003)


@pytest.mark.parametrize("family", FAMILIES)
def test_padding_is_the_tokenizers_own(family):
    model = tiny(family)
    encoded = batches.encode(model, SENTENCES[:5])
    ours, theirs = batches.pad(model, encoded), model.tokenizer.pad(encoded, return_tensors="pt")
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    bare = batches.pad(model, [{"input_ids": one["input_ids"]} for one in encoded])  # the mask follows from the lengths
    assert torch.equal(bare["attention_mask"], theirs["attention_mask"])
