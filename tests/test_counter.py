"""Attention read off the right entry, sentences swapped, tests that equal scipy's by hand."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

from lib.bias_a_head import counter
from lib.text import contexts
from tests.tiny import FAMILIES, refuses, tiny


def pairs_of(*rows):
    """(original, attribute, target) -> the pairs, with their twins."""
    made = [
        (text, *counter.swap(text, attribute), attribute, target)
        for text, attribute, target in rows
    ]
    return pd.DataFrame(made, columns=["original", "counter", "counterpart", "attribute", "target"])


PAIRS = pairs_of(
    ("The woman met a nurse in the office.", "woman", "nurse"),
    ("The mothers met a mechanic.", "mothers", "mechanic"),
    ("A man said that an engineer was late and that the doctor was here.", "man", "doctor"),
)


def by_decoding(model, text, word):
    """The tokens of a word: those of the text up to its end that the text up to its start lacks."""
    start, end = counter.place(text, word)
    special = model.tokenizer(text, return_special_tokens_mask=True)["special_tokens_mask"].index(0)
    before, upto = (
        model.tokenizer(part, add_special_tokens=False).input_ids
        for part in (text[:start].rstrip(), text[:end])
    )
    found = range(len(before), len(upto))  # byte-level ones may be a space
    return [special + i for i in found if model.tokenizer.decode(upto[i]).strip()]


@pytest.mark.parametrize("family", FAMILIES)
def test_attention_is_the_entry_of_the_models_own_maps(family, monkeypatch):
    """Pieces found by decoding token after token, in place of the offsets that the code uses."""
    model = tiny(family, attention="eager")
    found, scaled = counter.attention(model, PAIRS).values()
    assert found.shape == scaled.shape == (3, 2, 3, 4)
    assert len(by_decoding(model, "The mothers met a mechanic.", "mechanic")) > 1  # in pieces
    for i, row in enumerate(PAIRS.itertuples()):
        twins = (row.original, row.attribute), (row.counter, row.counterpart)
        for side, (text, attribute) in enumerate(twins):
            ids = model.tokenizer(text, return_tensors="pt")
            maps = torch.stack(model.net(**ids, output_attentions=True).attentions)[:, 0]
            rows, columns = (by_decoding(model, text, word) for word in (row.target, attribute))
            expected = maps[:, :, rows][..., columns].sum(-1).mean(-1)
            torch.testing.assert_close(found[i, side], expected)
            words = [  # the tokens that min-max is over
                place
                for place, id in enumerate(ids.input_ids[0].tolist())
                if id not in model.tokenizer.all_special_ids
                and any(map(str.isalnum, model.tokenizer.decode(id)))
                and not (model.is_causal and place > rows[-1])
            ]
            over = maps[:, :, rows].mean(2)[..., words]
            least, most = over.amin(-1), over.amax(-1)
            by_hand = (expected - least) / (most - least)
            torch.testing.assert_close(scaled[i, side], by_hand, rtol=1e-3, atol=1e-4)
    monkeypatch.setattr(counter, "MAP_BYTES", 1)  # a sentence does not depend on its batch
    torch.testing.assert_close(found, counter.attention(model, PAIRS)["raw"], rtol=1e-4, atol=1e-6)


LATE = pairs_of(("The nurse likes her office.", "her", "nurse"))


def broken():
    """A model of which one weight is not a number."""
    model = tiny("bert", attention="eager")
    with torch.no_grad():
        model.net.base_model.embeddings.LayerNorm.weight[0] = torch.nan
    return model


test_what_cannot_be_is_said = refuses(
    (lambda: counter.attention(tiny("gpt2", attention="eager"), LATE), "causal=True"),
    (lambda: counter.attention(tiny("bert", attention="eager"), PAIRS.head(0)), "at least one"),
    (lambda: counter.attention(tiny("bert"), PAIRS), "load it with attention='eager'"),
    (lambda: counter.attention(broken(), PAIRS), "nan or infinite"),
    (lambda: counter.test(made_up(), []), "at least one"),
    (lambda: counter.sentences("gender", "posts"), "'mini' or"),
    (lambda: counter.from_texts(["Women."], "age"), "'gender' or 'race'"),
)


def test_sentences_have_one_attribute_and_one_target_of_its_group():
    texts = [
        "Women are emotional. Men are emotional. Women and men are emotional.\n"
        "The women saw a boss.",
        "Women are emotional and sweet. Women are emotional and strong. Women are here.",
        "An emotional woman spoke. The waiter is weak. The waiter left the room. A woman is pretty "
        "much a dancer.",
        "Men are strong. Men are strong, see http://example.org. I miss you and all the pink.",
    ]
    found = counter.from_texts(texts, "gender").set_index("original")
    assert found["counter"].to_dict() == {
        "Women are emotional.": "Men are emotional.",
        "An emotional woman spoke.": "An emotional man spoke.",
        "Men are strong.": "Women are strong.",
    }
    first = found.loc["Women are emotional."]
    assert list(first[1:]) == ["women", "men", "emotional", "female", "text-1"]
    causal = counter.from_texts(texts, "gender", causal=True)
    assert set(causal["original"]) == {"Women are emotional.", "Men are strong."}
    assert counter.from_texts(["Nothing here."], "race").empty


def test_sentences_are_drawn_by_the_seed_without_copies_and_have_one_form_from_any_source():
    texts = [f"Women from town {i} are emotional." for i in range(30)] * 2
    assert len(counter.from_texts(texts, "gender", n=100)) == 30
    drawn = [counter.from_texts(texts, "gender", n=10, seed=seed) for seed in (1, 1, 2)]
    assert len(drawn[0]) == 10 and drawn[0].equals(drawn[1]) and not drawn[0].equals(drawn[2])
    bundled = contexts.counter_sentences("race", 20)
    assert counter.sentences("race", "mini", 20).equals(bundled)
    assert list(bundled) == list(drawn[0])
    for row in bundled.itertuples():
        assert counter.swap(row.original, row.attribute, "race") == (row.counter, row.counterpart)


def made_up(n=60):
    """Weights in which head 2-1 has a true difference, and the other five have none."""
    weights = torch.rand(n, 2, 3, 2, generator=torch.Generator().manual_seed(0))
    weights[:, 0, 1, 0] += 0.5
    return weights


def test_the_papers_test_is_scipys_for_heads_together_and_each():
    weights = made_up()
    both = torch.stack([weights[:, :, 1, 0], weights[:, :, 2, 1]]).double().mean(0).numpy()
    expected = stats.ttest_rel(*both.T, alternative="greater")
    interval = stats.ttest_rel(*both.T).confidence_interval()
    row = counter.test(weights, [(2, 1), (3, 2)]).loc["sentence"]
    assert (row["t"], row["p"]) == pytest.approx((expected.statistic, expected.pvalue))
    assert (row["low"], row["high"]) == pytest.approx((interval.low, interval.high))
    pairs = torch.tensor([[1.0, 0], [2, 0], [3, 0]])[..., None, None]  # mean 2, deviation 1
    row = counter.test(pairs, [(1, 1)]).loc["sentence"]
    assert (row["n"], row["original"], row["counter"], row["difference"]) == (3, 2, 0, 2)
    assert row["t"] == pytest.approx(12**0.5)
    found = counter.per_head(weights)
    each = stats.ttest_rel(*weights.double().unbind(1), alternative="greater")
    np.testing.assert_allclose(found["t"], each.statistic.ravel())
    q = stats.false_discovery_control(each.pvalue.ravel())
    np.testing.assert_allclose(found["q"], q, rtol=1e-5)
    passed = found[found["q"] < 0.05]
    assert list(zip(passed["layer"], passed["head"])) == [(2, 1)]


def frame_of(n, **columns):
    """The columns of sentence pairs that tests look at: all different, women and men in turn."""
    group = ["female", "male"] * (n // 2)
    columns = {"pattern_id": range(n), "target": range(n), "group": group} | columns
    is_female = np.array(columns["group"]) == "female"
    words = {
        "attribute": np.where(is_female, "women", "men"),
        "counterpart": np.where(is_female, "men", "women"),
    }
    return pd.DataFrame(words | columns)


def balanced(weights, pairs, *chosen):
    added = counter.cells({"raw": weights}, pairs)
    return counter.balanced(added["raw"], added["counts"], *chosen)


def test_copies_of_a_sentence_add_nothing():
    weights, pairs = made_up(20), frame_of(20)
    copies = weights.repeat(5, 1, 1, 1), pd.concat([pairs] * 5)
    once = counter.test(weights, [(2, 1)], pairs)
    again = counter.test(copies[0], [(2, 1)], copies[1])
    assert again["t"]["sentence"] > 2 * once["t"]["sentence"]
    for unit in ("pattern", "target"):
        assert again["t"][unit] == pytest.approx(once["t"]["sentence"])
        assert again["n"][unit] == 20
    assert (again["n"]["female only"], again["n"]["male only"]) == (50, 50)
    clear = balanced(weights, pairs, [(2, 1)], [(1, 1), (3, 2)])
    assert clear.low > 0
    assert balanced(*copies, [(2, 1)], [(1, 1), (3, 2)]).low == pytest.approx(clear.low)


def test_both_groups_weigh_alike_by_hand():
    """Women's three sentences of one pattern change by 1, 2 and 3 in the first head, men's one by
    6; all by 1 in the second.
    """
    weights = torch.zeros(4, 2, 1, 2)
    weights[:, 0, 0, 0], weights[:, 0, 0, 1] = torch.tensor([1.0, 2, 3, 6]), 1
    pairs = frame_of(4, group=["female"] * 3 + ["male"], pattern_id=["a", "a", "a", "b"])
    added = counter.cells({"raw": weights, "min-max": weights}, pairs)
    assert added["raw"][:, :, 0, 0].tolist() == [[600, 0], [0, 600]]
    found = counter.shifts(added, {"biased": [(1, 1)], "regular": [(1, 2)]})
    assert found["raw", "biased"].value == pytest.approx(100 * (2 + 6) / 2)
    assert found["raw", "contrast"].value == pytest.approx(300)
    assert found["raw", "biased"].n == 4
    assert balanced(weights, pairs, [(1, 1)], [(1, 1)]).high == 0
    assert np.isnan(balanced(weights, pairs.assign(group="female"), [(1, 1)]).value)


def test_a_head_that_likes_one_groups_words_is_not_taken_for_a_stereotype():
    """A head that sees the first word of four pairs 1 more than the second, whatever is said.

    With nine sentences in ten about the first, that looks like a stereotype and is none.
    """
    group = np.array((["female"] * 9 + ["male"]) * 40)
    is_female = group == "female"
    first, second = (np.char.add(name, (np.arange(400) // 100).astype(str)) for name in "ab")
    pairs = frame_of(
        400,
        group=group,
        attribute=np.where(is_female, first, second),
        counterpart=np.where(is_female, second, first),
    )
    noise = torch.randn(400, generator=torch.Generator().manual_seed(0)) * 0.5
    change = torch.tensor(np.where(is_female, 1.0, -1.0)) + noise
    weights = torch.stack([change, torch.zeros(400)], 1)[..., None, None]
    found, even = counter.test(weights, [(1, 1)], pairs), balanced(weights, pairs, [(1, 1)])
    assert found["p"]["sentence"] < 1e-6 and found["n"]["word pair"] == 4
    assert found["p"]["word pair"] > 0.05 and abs(found["difference"]["word pair"]) < 0.15
    assert even.low < 0 < even.high and even.n == 400  # in percentage points
    assert found["difference"]["female only"] > 0.8 and found["difference"]["male only"] < -0.8
    one_way = frame_of(20, group=["female"] * 20)  # no pair of words occurs both ways round
    assert "word pair" not in counter.test(made_up(20), [(2, 1)], one_way).index
