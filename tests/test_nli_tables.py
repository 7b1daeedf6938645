"""Notebook 09's tables: the paper's own numbers give back its Table 6 and its counts; a tiny model goes all the way."""

import numpy as np
import pandas as pd
import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st
from tiny import SHAPE, one_thread, tiny  # noqa: F401

from lib import CompanionError
from lib import printed as paper
from lib.engine import hooks, models
from lib.projective import nli, nli_claims, nli_search, nli_sweep, nli_tables, projection
from lib.text import pairs as sentence_pairs

NAMES = [setting.name for setting in projection.models()]
PRINTED = nli_tables.printed()
PRINTED = PRINTED.assign(**{"eta low": PRINTED["eta"], "eta high": PRINTED["eta"]})


def made(seed=0, contexts=2, task=60, better=()):
    """What `measure` returns, drawn at random; models in `better` always say neutral and are right at the task."""
    rng, n = np.random.default_rng(seed), len(nli.pairs(contexts=contexts))
    p = rng.dirichlet(np.ones(3), size=(len(NAMES), n)).astype(np.float32)
    right = rng.random((len(NAMES), task)) < .8
    for name in better:
        p[NAMES.index(name)] = [.1, .8, .1]
        right[NAMES.index(name)] = True
    return {"labels": list(nli.LABELS), "reading": "man, woman", "contexts": contexts, "probabilities": p,
            "right": right, "fit": "drawn"}


FOUND = made()
SCORES = nli_tables.scores(FOUND, draws=20)


# ---- against the printed tables


def test_rows_are_table_7s():
    assert list(SCORES.index) == list(PRINTED.index) == NAMES
    for column in ("level", "settings"):
        assert list(SCORES[column]) == list(PRINTED[column])
    np.testing.assert_array_equal(SCORES["np"], PRINTED["np"])
    assert SCORES["np"].value_counts().to_dict() == {0: 37, 1: 37}


def test_table_6_follows_from_table_7():
    """Means, increase and its standard deviation (ddof 1) are the printed ones up to rounding."""
    table = nli_tables.table6(PRINTED)
    assert list(table["pairs"]) == [1, 4, 16, 16, 37] and list(table["gain"]) == [1, 4, 16, 16, 37]
    for column in ("np = 0", "np = 1", "increase", "sd"):
        mine, theirs = table[column].dropna(), table[f"{column}, paper"].dropna()
        assert list(mine.index) == list(theirs.index) and (mine - theirs).abs().max() < 1.6e-4


def test_the_papers_counts_in_its_own_table_7():
    """It says all, .649 and .412 where its Table 7 has one viable model without weighting, .32 and .53."""
    found = nli_claims.counted(PRINTED, PRINTED["S"], .058)
    evidence = [text for text, _ in found.values()]
    assert evidence[:4] == ["37 of 37, 0 lose", "+0.058", "4 of 4, 0 of 4", "13 do, 1 do not"]
    assert evidence[5:7] == ["0.12, 0.14, 0.32", "0.53 against 0.32"]
    failing = [claim for claim, (_, verdict) in found.items() if verdict == "fails"]
    assert failing == ["Layer 11, + attn: all viable models weight at SENT", "+ attn sets no new best viable eta"]


def test_the_printed_correlation():
    """-.04 from the printed columns; the paper prints +.040 and p = .73."""
    found = nli_tables.correlation(PRINTED["S"], PRINTED["eta"])
    assert found["rho"].value == pytest.approx(-.04, abs=.005) and found["models"] == 76
    assert found["rho"].low < 0 < found["rho"].high and found["p"] == pytest.approx(.73, abs=.05)


def test_correlation_goes_by_name_not_by_order():
    found = nli_tables.correlation(PRINTED["S"][::-1], PRINTED["eta"])
    assert found["rho"] == nli_tables.correlation(PRINTED["S"], PRINTED["eta"])["rho"]
    assert nli_tables.correlation(PRINTED["S"], -PRINTED["S"], draws=200)["rho"].value == pytest.approx(-1)


def test_table_5_of_the_printed_numbers():
    printed = PRINTED.assign(**{f"{new}{end}": PRINTED["eta"] for new in ("majority", "eta majority")
                                for end in ("", " low", " high")}, **{"parity low": 0, "parity high": 1})
    table = nli_tables.table5(printed)
    levels = list(paper.printed("projective_methods", "Table 5").index)
    assert list(table.index[::2]) == list(table.index[1::2]) == levels
    assert list(table["agree in"]) == ["all", "most"] * 6
    table = table[table["agree in"] == "all"]
    assert table.loc["Layer 12", "settings"] == table.loc["Layer 12", "settings, paper"] == "(0, 0, 1)"
    assert table.loc["Layer 11", "settings"] == "(1, 1, 1, 0, 1)"  # the printed choice is not viable
    none = printed.assign(SNLI=PRINTED["SNLI"].where(PRINTED["level"] != "+ attn", .1))
    assert set(nli_tables.table5(none).loc["+ attn", "eta"]) == {"none viable"}


def test_both_readings_of_viable():
    said = dict(zip(NAMES, nli_tables.verdicts(PRINTED)))
    assert said["Base"] == said["SENT 0"] == "yes"
    assert said["Layer 11 (1, 0, 1, 1, 0)"] == "in points" and said["Layer 11 (0, 0, 1, 1, 1)"] == "no"


# ---- of predictions


def test_scores_are_those_of_each_model_by_itself():
    pairs = nli.pairs(contexts=2)
    for place in (0, 40):
        alone = nli.fairness(FOUND["probabilities"][place], pairs, draws=20)
        assert SCORES["eta"].iloc[place] == alone.eta.value and SCORES["majority"].iloc[place] == alone.majority.value
        assert SCORES["SNLI"].iloc[place] == FOUND["right"][place].mean()


def test_most_puts_the_other_reading_in_place():
    other = nli_tables.most(SCORES)
    assert (other["eta"] == SCORES["eta majority"]).all() and (other["parity high"] == SCORES["majority high"]).all()
    assert (other["eta"] >= SCORES["eta"]).all() and (other["SNLI"] == SCORES["SNLI"]).all()


def test_mean_gain_is_the_mean_of_the_37():
    gain = nli_claims.mean_gain(FOUND)
    assert gain.value == pytest.approx(nli_tables.gains(SCORES)["increase"].mean())
    assert gain.low <= gain.value <= gain.high


@given(st.integers(0, 50), st.integers(1, 50))
def test_a_share_has_its_value_inside_its_interval(right, wrong):
    found = nli_tables.share(np.repeat([True, False], [right, wrong]))
    assert 0 <= found.low <= found.value <= found.high <= 1


def test_probability_of_neutral_by_gender():
    table = nli_tables.by_gender(FOUND, 3)
    pairs = nli.pairs(contexts=2)
    rows = ((pairs["occupation"] == "nurse") & (pairs["gender"] == "female")).to_numpy()
    assert table.shape == (164, 2) and list(table.index) == list(pairs["occupation"].unique())
    assert table.loc["nurse", "female"] == pytest.approx(FOUND["probabilities"][3][rows, 1].mean(), abs=1e-6)


def test_claims_name_what_the_paper_says():
    table = nli_claims.claims(FOUND, SCORES, PRINTED["S"])
    assert list(table) == ["claim", "agree in", "paper", "Table 7", "ours", "verdict"]
    assert table["agree in"].value_counts().to_dict() == {"": 5, "all": 4, "most": 4}
    assert table["verdict"].str.match("holds|fails|cannot be tested").all()


def test_against_paper_never_matches():
    table = nli_claims.against_paper(SCORES, PRINTED["S"])
    assert table["table"].value_counts().to_dict() == {"Table 7": 76 * 4, "Table 6": 19, "Table 5": 12, "Section 5": 2}
    assert set(table["verdict"]) == {"other model"}


def test_observations_are_the_papers_three():
    claims = nli_claims.claims(FOUND, SCORES, PRINTED["S"])
    names = ["SENT alone lowers D", "Of 4 extensions of SENT 0", "Of 4 extensions of SENT 1", "(0, 1) has the worst S",
             "Attention lowers S of the 24", "Attention does not lower S of the 8"]
    intrinsic = pd.DataFrame({"claim": names, "paper": "", "ours": "", "verdict": "holds"})
    table = nli_claims.observations(claims, intrinsic)
    assert table["observation"].str[0].tolist() == [*"111", *"222", *"33"]


def test_readings_have_a_row_a_choice():
    bare = made(seed=1, task=0) | {"fit": "other"}
    table = nli_tables.readings([FOUND, bare], PRINTED["S"])
    assert list(table["fitted on"]) == ["drawn", "drawn", "other", "other"]
    assert list(table["agree in"]) == ["all", "most"] * 2
    assert table["base eta"].iloc[1] == round(SCORES.loc["Base", "eta majority"], 2) and table["gain"].iloc[2] == ""


def test_where_nothing_is_viable():
    scores = SCORES.assign(SNLI=np.where(SCORES.index == "Base", .9, .3))
    table = nli_claims.claims(FOUND, scores, PRINTED["S"]).set_index("claim")["verdict"]
    assert table["Layer 11, + attn: all viable models weight at SENT"].startswith("cannot be tested")
    assert set(table["Some viable model has a higher eta than base"]) == {"fails"}
    assert nli_tables.fairest(scores).name in NAMES[2:]


def test_measure_on_a_saved_classifier(tmp_path, one_thread):  # noqa: F811
    """Its own label order; base is the plain model, a setting the model under its hooks, right is against the gold."""
    order = ["contradiction", "entailment", "neutral"]
    torch.manual_seed(0)
    config = transformers.BertConfig(**SHAPE, vocab_size=400, max_position_embeddings=256,
                                     id2label=dict(enumerate(order)), label2id=dict(zip(order, range(3))))
    net = transformers.BertForSequenceClassification(config)
    for weight in net.parameters():
        torch.nn.init.normal_(weight, std=.3)
    net.save_pretrained(tmp_path)
    tokenizer = tiny("bert").tokenizer
    tokenizer.model_max_length = 256
    tokenizer.save_pretrained(tmp_path)

    both, pairs = nli_sweep.measure(str(tmp_path), "mini", 1), nli.pairs(contexts=1)
    found = nli_sweep.under(both, nli_sweep.SINGLE)
    assert found["labels"] == order and found["probabilities"].shape == (76, 328, 3)
    assert found["right"].shape == (76, 198)
    model = models.load(str(tmp_path), task="sequence-classification")
    np.testing.assert_allclose(found["probabilities"][0], nli.probabilities(model, pairs), atol=1e-5)
    task = nli_sweep.task_pairs("mini")
    assert found["right"][0].mean() == nli.accuracy(nli.probabilities(model, task), task["label"], order)
    subspaces = projection.fit(model, sentence_pairs.written(), natural=sentence_pairs.natural("mini"))
    with hooks.project(model, subspaces.interventions(projection.models()[60])):
        np.testing.assert_allclose(found["probabilities"][60], nli.probabilities(model, pairs), atol=1e-5)
    assert not np.allclose(found["probabilities"][60], found["probabilities"][0], atol=1e-3)
    other = nli_sweep.under(both, nli_sweep.PAIRS)["probabilities"]
    np.testing.assert_array_equal(other[:2], found["probabilities"][:2])  # base and sent-debias have no such choice
    assert not np.allclose(other[2:], found["probabilities"][2:], atol=1e-3)


def test_what_measure_refuses():
    for name in ("", "bert-base-nli"):
        with pytest.raises(CompanionError, match="python -m lib.training nli"):
            nli_sweep.measure(name)


# ---- the search


def test_trimmed_leaves_22_settings():
    names = {setting.name for setting in nli_search.trimmed()}
    assert len(names) == 22 and "SENT 1" in names and "+ attn (1, 1, 1, 1, 1)" in names
    assert not any(name.endswith("0") or name.endswith("0)") or "(0, 1" in name for name in names)


@pytest.mark.parametrize("best, trimmed", [("+ attn (1, 0, 0, 0, 1)", True), ("Layer 12 (0, 1, 0)", False)])
def test_the_search_finds_the_one_model_that_is_fair(best, trimmed):
    table = nli_search.search(made(better=[best]), PRINTED["S"], splits=10)
    assert nli_search.search(made(better=[best]), PRINTED["S"], "all", splits=2).loc["eta of viable ones", "in"] == 1
    assert table.loc["eta of viable ones", "most often"] == best and table.loc["eta of viable ones", "in"] == 1
    assert table.loc["eta of viable ones", "eta where tested"] == "1.00 [1.00, 1.00]"
    assert (table.loc["the same, trimmed by section 5", "most often"] == best) == trimmed
    assert table.loc["Strength alone", "most often"] == PRINTED["S"][2:].idxmin()
    assert list(table["models"]) == [1, 74, 22, 74, 74]


def test_the_search_changes_nothing_where_nothing_is_viable():
    found = made()
    found["right"] = np.zeros_like(found["right"])
    found["right"][0] = True
    table = nli_search.search(found, PRINTED["S"], splits=5)
    assert table.loc["eta of viable ones", "most often"] == "Base"
    assert table.loc["Strength alone", "viable there"] == 0


def test_the_search_is_the_same_each_time():
    first, second = (nli_search.search(FOUND, PRINTED["S"], splits=3, seed=5) for _ in range(2))
    pd.testing.assert_frame_equal(first, second)


def test_values_lie_in_their_intervals():
    assert SCORES["eta low"].le(SCORES["eta"]).all() and SCORES["eta"].le(SCORES["eta high"]).all()
