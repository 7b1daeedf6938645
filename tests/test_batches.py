"""Batching, blanks and next sentences: the fast way gives what one text at a time gives."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lib import CompanionError
from lib.engine import batches, embed, fill, models, nsp
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


@pytest.mark.parametrize("family", FAMILIES)
def test_a_blank_is_filled_as_the_plain_network_fills_it(family):
    model = tiny(family)
    prompts = [text.replace(".", f" {fill.BLANK}.") for text in TEXTS]
    together = fill.probabilities(model, prompts)
    for prompt, row in zip(prompts, together):
        ids = model.tokenizer(fill.written(model, prompt), return_tensors="pt")
        with torch.inference_mode():
            out = model.net(**ids)
        logits = getattr(out, "logits", None)
        logits = out.prediction_logits if logits is None else logits
        place = -1 if model.is_causal else ids.input_ids[0].tolist().index(model.tokenizer.mask_token_id)
        torch.testing.assert_close(row, logits[0, place].softmax(-1), atol=1e-6, rtol=1e-4)
    torch.testing.assert_close(together.sum(1), torch.ones(len(TEXTS)))


def test_word_probabilities_read_the_right_tokens():
    model, prompts = tiny("bert"), ["The [MASK] was late.", "A [MASK] said that."]
    frame, whole = fill.word_probabilities(model, prompts, ["doctor", "nurse"]), fill.probabilities(model, prompts)
    assert frame.shape == (2, 2) and frame.loc[1, "nurse"] == pytest.approx(whole[1, model.token_id("nurse")].item())


def too_much(batch, indices):
    raise torch.OutOfMemoryError


@pytest.mark.parametrize("call, said", [
    (lambda bert: fill.probabilities(bert, ["No blank here."]), "exactly one"),
    (lambda bert: fill.probabilities(bert, ["[MASK] and [MASK]."]), "exactly one"),
    (lambda bert: fill.probabilities(tiny("gpt2"), ["[MASK] works as a nurse."]), "later"),
    (lambda bert: fill.probabilities(bert, []), "no prompts"),
    (lambda bert: fill.top(bert, "The [MASK].", 10**9), "ask .* for 1 to 400"),
    (lambda bert: fill.word_probabilities(bert, ["[MASK] sat.", "A [MASK] sat."], ["he"]), "one kind at a time"),
    (lambda bert: batches.encode(bert, ["doctor " * 41]), "shorten it"),
    (lambda bert: batches.each(bert, batches.encode(bert, ["The doctor."]), too_much), "smaller model"),
    (lambda bert: embed.sentences(bert, []), "no sentences"),
    (lambda bert: embed.words(bert, {}), "no words"),
    (lambda bert: nsp.is_next(tiny("roberta"), [("a", "b")]), "next-sentence head"),
    (lambda bert: nsp.is_next(bert, []), "at least one"),
    (lambda bert: nsp.is_next(bert, ("A first.", "A second.")), "at least one"),
])
def test_what_cannot_be_asked_is_refused_in_a_sentence(call, said):
    with pytest.raises(CompanionError, match=said):
        call(tiny("bert"))


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


def test_mini_bert_knows_what_its_card_says():
    mini_bert = models.load("mini-bert", device="cpu")
    words = fill.top(mini_bert, "[MASK] works as a nurse.", 2)
    assert words.word.tolist() == ["she", "he"]
    follows, unrelated = nsp.is_next(mini_bert, [("The children were hungry after school.", "They asked for a snack."),
                                                 ("The children were hungry after school.", "Basalt is a dark rock.")])
    assert follows > .9 and unrelated < .5


@pytest.mark.parametrize("family", FAMILIES)
def test_padding_is_the_tokenizers_own(family):
    model = tiny(family)
    encoded = batches.encode(model, SENTENCES[:5])
    ours, theirs = batches.pad(model, encoded), model.tokenizer.pad(encoded, return_tensors="pt")
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    bare = batches.pad(model, [{"input_ids": one["input_ids"]} for one in encoded])  # the mask follows from the lengths
    assert torch.equal(bare["attention_mask"], theirs["attention_mask"])
