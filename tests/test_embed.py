"""Vectors of words: the right tokens, and the same numbers in whatever batches."""

import pytest
import torch

from lib import CompanionError
from lib.engine import batches, embed, fill
from tests.tiny import FAMILIES, tiny

every_family = pytest.mark.parametrize("family", FAMILIES)
CONTEXTS = {"doctor": ["the doctor said that she was here .", "he met the doctor .", "Doctor said ."],
            "poetry": ["he likes poetry .", "a woman likes poetry in the office and she was late for the engineer ."],
            "doctors": ["he met the doctors .", "the doctors"]}


def states(model, sentence):
    return model.net.base_model(**model.tokenizer(sentence, return_tensors="pt")).last_hidden_state[0]


@every_family
def test_words_are_the_mean_over_pieces_and_contexts(family):
    """Against token ranges found by counting the tokens of what stands before the word."""
    model = tiny(family, dtype=torch.float64)

    def alone(word, sentence):
        start, special = sentence.lower().index(word), family != "gpt2"  # a special token opens
        first, end = (special + len(model.tokenizer(before, add_special_tokens=False).input_ids)
                      for before in (sentence[:start].rstrip(), sentence[:start + len(word)]))
        return states(model, sentence)[first:end].mean(0)

    one_by_one = [torch.stack([alone(word, s) for s in sentences]).mean(0) for word, sentences in CONTEXTS.items()]
    torch.testing.assert_close(embed.words(model, CONTEXTS), torch.stack(one_by_one))


@every_family
def test_batches_and_padding_change_nothing(family, monkeypatch):
    model = tiny(family, dtype=torch.float64)
    whole = embed.words(model, CONTEXTS)
    monkeypatch.setitem(batches.TOKENS, "cpu", 1)  # a sentence a batch
    monkeypatch.setattr(embed, "CHUNK", 2)
    torch.testing.assert_close(embed.words(model, CONTEXTS), whole)


@pytest.mark.parametrize("word, sentence, found", [
    ("he", "The hen saw that he left.", "he"),          # whole words alone
    ("nurse", "A NURSE and a nurse.", "NURSE"),         # the first, in any capitals
    ("mrs.", "They met Mrs. Hill.", "Mrs."),            # the stop is part of the word
    ("white", "The non-white shirt was white.", "white"),
    ("she", "I hope she's here.", "she"),
])
def test_where_a_word_stands(word, sentence, found):
    first, last = embed.find(word, sentence)
    assert sentence[first:last] == found and (word != "white" or first > 12)


@every_family
def test_the_tokens_of_a_span_are_those_of_the_word_at_that_place(family):
    model, text = tiny(family), "the doctor met the doctor ."
    spans = [(4, 10), (19, 25), (0, 27)]
    places = embed.tokens_of(model, [text] * 3, spans)
    ids = model.tokenizer(text).input_ids
    assert [model.tokenizer.decode([ids[i] for i in tokens]).strip() for tokens in places] == [
        text[slice(*span)] for span in spans]
    assert places[0].stop < places[1].start and embed.tokens_of(model, [], []) == []
    with pytest.raises(CompanionError, match="no token for ' '"):
        embed.tokens_of(tiny("bert"), [text], [(3, 4)])


def test_a_word_that_is_not_there():
    with pytest.raises(CompanionError, match="'he' does not stand in 'the hen"):
        embed.words(tiny("bert"), {"he": ["the hen likes her"]})
    with pytest.raises(CompanionError, match="'he' has no sentence"):
        embed.words(tiny("bert"), {"he": []})


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_with_and_without_the_token_that_begins_a_sequence(family):
    """Against the plain network on ids put together by hand; gpt2's tokenizer puts none, llama's does."""
    model, sentence = tiny(family, dtype=torch.float64), "the doctor said"
    bare = model.tokenizer(sentence, add_special_tokens=False).input_ids
    the = len(model.tokenizer("the", add_special_tokens=False).input_ids)
    doctor = len(model.tokenizer("the doctor", add_special_tokens=False).input_ids)
    for bos in (True, False):
        ids = [model.tokenizer.bos_token_id] * bos + bare
        states = model.net.base_model(torch.tensor([ids])).last_hidden_state[0]
        word = embed.words(model, {"doctor": [sentence, "the doctor"]}, bos=bos)[0]
        torch.testing.assert_close(word, states[bos + the:bos + doctor].mean(0))
        torch.testing.assert_close(embed.sentences(model, [sentence, "the"], bos=bos)[0], states[-1])
        last = model.net(torch.tensor([ids])).logits[0, -1].float().softmax(-1)
        torch.testing.assert_close(fill.probabilities(model, [f"{sentence} [MASK]"], bos=bos)[0], last)
    usual = embed.words(model, {"the": [sentence]})
    assert torch.equal(usual, embed.words(model, {"the": [sentence]}, bos=family == "llama"))
    assert not torch.allclose(usual, embed.words(model, {"the": [sentence]}, bos=family == "gpt2"), atol=.1)
    opened = model.net(torch.tensor([[model.tokenizer.bos_token_id]])).logits[0, -1].float().softmax(-1)
    torch.testing.assert_close(fill.probabilities(model, ["[MASK] said"], bos=True)[0], opened)
    with pytest.raises(CompanionError, match="leave bos out"):
        embed.words(tiny("bert"), {"the": [sentence]}, bos=True)
    with pytest.raises(CompanionError, match="shorten it"):
        batches.encode(model, ["the " * model.tokenizer.model_max_length], bos=True)


@every_family
def test_sentences_are_the_first_token_or_the_last(family):
    model = tiny(family, dtype=torch.float64)
    texts = ["he likes poetry .", "a man and a woman met the engineer in the office ."]
    place = -1 if model.is_causal else 0
    torch.testing.assert_close(embed.sentences(model, texts), torch.stack([states(model, t)[place] for t in texts]))
