"""Pseudo-perplexity: the batched way against the slow obvious one, one mask and one plain forward at a time."""

import math

import pytest
import torch

from lib import CompanionError
from lib.engine import pppl
from tests.tiny import FAMILIES, tiny

TEXTS = ["the doctor said that she was here .", "he likes poetry .", "a nurse", "the man met the woman ."]
every_family = pytest.mark.parametrize("family", FAMILIES)


def slowly(model, ids):
    """Log-probability of each token of a sequence but the special ones around it, and GPT-2's first."""
    def log_p(ids):
        outputs = model.net(input_ids=torch.tensor([ids]))
        return (outputs.prediction_logits if model.has_nsp else outputs.logits)[0].log_softmax(-1)

    if model.is_causal:
        return [row[token].item() for row, token in zip(log_p(ids), ids[1:])]
    return [log_p(ids[:place] + [model.tokenizer.mask_token_id] + ids[place + 1:])[place, ids[place]].item()
            for place in range(1, len(ids) - 1)]


def of_text(model, text):
    return slowly(model, model.tokenizer(text).input_ids)


@every_family
def test_it_is_what_one_mask_at_a_time_gives(family):
    model = tiny(family, dtype=torch.float64)
    found, expected = pppl.pseudo_perplexity(model, TEXTS), [of_text(model, text) for text in TEXTS]
    assert found.log_likelihoods.tolist() == pytest.approx([sum(line) for line in expected], rel=1e-6)
    assert found.lengths.tolist() == [len(line) for line in expected]
    tokens = [p for line in expected for p in line]
    assert found.n_tokens == len(tokens)
    assert found.value == pytest.approx(math.exp(-sum(tokens) / len(tokens)), rel=1e-6)


@every_family
def test_a_prompt_before_each_line_is_seen_and_not_asked_for(family):
    model, prompt = tiny(family, dtype=torch.float64), "the nurse said that he was late ."
    found, alone = (pppl.pseudo_perplexity(model, TEXTS, after=text) for text in (prompt, ""))
    for i, text in enumerate(TEXTS):
        n = alone.lengths[i] + (family == "gpt2")  # its first token can be asked for only where something precedes it
        assert found.lengths[i] == n
        assert found.log_likelihoods[i] == pytest.approx(sum(of_text(model, f"{prompt} {text}")[-n:]), rel=1e-6)


@every_family
def test_batches_do_not_matter(family):
    model = tiny(family, dtype=torch.float64)
    usual, *others = (pppl.pseudo_perplexity(model, TEXTS, tokens=tokens) for tokens in (None, 1, 17, 100_000))
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
    expected = sum(sum(slowly(model, frame[:1] + ids[start:start + width] + frame[1:]))
                   for start in range(0, len(ids), width))
    assert found.log_likelihoods[0] == pytest.approx(expected, rel=1e-6)
    # no special token is asked for; of a gpt2 window's tokens the first has nothing before it
    assert found.lengths[0] == len(ids) - (math.ceil(len(ids) / width) if family == "gpt2" else 0)
    assert found.log_likelihoods[1] == pytest.approx(sum(of_text(model, "he likes poetry .")), rel=1e-6)


def test_lines_without_a_token_count_for_nothing():
    model = tiny("bert")
    found = pppl.pseudo_perplexity(model, ["he likes poetry .", ""])
    assert found.lengths[1] == 0 and found.log_likelihoods[1] == 0
    assert found.value == pppl.pseudo_perplexity(model, ["he likes poetry ."]).value


def test_an_interval_over_lines_holds_the_value():
    found = pppl.pseudo_perplexity(tiny("bert"), TEXTS).interval(draws=200)
    assert found.low < found.value < found.high


@pytest.mark.parametrize("texts", [[], [""], "he likes poetry ."])
def test_no_line_is_refused(texts):
    with pytest.raises(CompanionError, match="line"):
        pppl.pseudo_perplexity(tiny("bert"), texts)


def test_a_broken_model_is_noticed():
    model = tiny("bert")
    model.net.cls.predictions.decoder.weight.mul_(1_000)
    with pytest.raises(AssertionError, match="perplexity of"):
        pppl.pseudo_perplexity(model, TEXTS)
