"""Notebooks on models of any shape in which there is nothing to find: they run to their end and say
so.
"""

import pytest
import torch
import transformers

from companion import claims, look, profiles
from companion.counteracts import estimators
from companion.projective import halves
from companion.run import Run
from lib.projective import nli
from tests import tiny as tiny_models
from tests.tiny import SHAPE, save_tiny, tiny

NETS = {
    "language model": transformers.BertForPreTraining,
    "classifier": transformers.BertForSequenceClassification,
}


def save(folder, kind="language model", layers=2, collapsed=False):
    """A BERT before its training; collapsed, it gives one answer to everything."""
    names = dict(enumerate(nli.LABELS))
    about = {"id2label": names, "label2id": {label: i for i, label in names.items()}}
    shape = SHAPE | {"num_hidden_layers": layers, "max_position_embeddings": 256}
    net = NETS[kind](transformers.BertConfig(vocab_size=400, **shape, **about))
    if collapsed:
        head = net.classifier if kind == "classifier" else net.cls.seq_relationship
        torch.nn.init.zeros_(head.weight)
    net.save_pretrained(folder)
    tokenizer = tiny("bert").tokenizer
    tokenizer.model_max_length = 256
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture
def execute(cells, few_draws, tmp_path, monkeypatch):
    """Call it with a notebook's number and a model's folder: what it judges."""
    monkeypatch.setattr(halves, "DRAWS", 9)
    monkeypatch.setattr(estimators, "DRAWS", 200)
    monkeypatch.setattr(look, "name_points", lambda *given: None)

    def judged(number, model, encoder="", judges=True):
        def choose(names):
            if encoder and "run" in names:
                names["run"].encoder = encoder

        out = tmp_path / "out"
        given = {"profile": "mini-limit8", "model": model, "device": "cpu", "out": str(out)}
        names = cells(number, choose, **given)
        return claims.read(out / "claims" / f"{number}.json") if judges else names

    return judged


@pytest.mark.parametrize(
    "number, layers, collapsed",
    [("07", 2, True), ("08", 3, False), ("09", 2, True)],
)
def test_they_run_to_their_end(number, layers, collapsed, execute, tmp_path, capsys):
    encoder = save(tmp_path / "encoder", layers=layers, collapsed=collapsed)
    classifier = ""
    if number == "09":
        classifier = save(tmp_path / "classifier", "classifier", layers, collapsed)
    tests = execute(number, classifier or encoder, encoder)
    known = claims.claims()
    assert {known[test.claim].notebook for test in tests} == {number}
    if collapsed:
        found = {claims.outcome(known[test.claim], test)[0] for test in tests}
        assert found == {claims.Outcome.NOT_TESTED}
    if number == "07":
        assert "not applicable" in capsys.readouterr().out


@pytest.mark.parametrize("family, is_control", [("bert", True), ("gpt2", False)])
def test_the_cloze_notebooks_find_nothing_that_a_claim_needs(
    family, is_control, execute, tmp_path, monkeypatch
):
    """Untrained: no gendered tokens, no preference, nothing that moves; nor is an effect supported
    without its preconditions.
    """
    monkeypatch.setitem(tiny_models.COMMON, "max_position_embeddings", 160)
    monkeypatch.setattr(Run, "is_control", is_control)
    save_tiny(family, tmp_path / "model")
    model = str(tmp_path / "model")
    if family == "bert":
        assert len(execute("10", model, judges=False)["verbalizer"]["female"]) == 63
    tests = execute("11", model)
    known = claims.claims()
    of_paper = [claim for claim in known.values() if claim.notebook == "11"]
    asked = [one.id for one in of_paper if not one.families or family in one.families]
    decides = [test for test in tests if test.variant == known[test.claim].main]
    assert [test.claim for test in decides] == asked
    for test in decides:
        found, _ = claims.outcome(known[test.claim], test, is_control=True)
        if known[test.claim].asks == "effect" and found == claims.Outcome.SUPPORTED:
            assert test.unmet  # so that it is no working control


def test_notebooks_end_on_a_model_of_two_heads(cells, few_draws, tmp_path, monkeypatch):
    # Tiny vocabularies cut words into letters.
    monkeypatch.setitem(tiny_models.COMMON, "max_position_embeddings", 160)
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    monkeypatch.setattr(tiny_models, "SHAPE", shape | {"intermediate_size": 64})
    chosen = {"encoder": "bert", "decoder": "gpt2", "debiased": "bert"}
    for name, family in chosen.items():
        save_tiny(family, tmp_path / name, seed=int(name == "debiased"))
        chosen[name] = str(tmp_path / name)
    profile = profiles.read("mini-limit8")
    chosen["debiased"] = [chosen["debiased"]]
    profile.models.update(**chosen, cloze=[], llama=[])
    monkeypatch.setattr(profiles, "read", lambda name: profile)
    monkeypatch.setenv("COMPANION_OUT", str(tmp_path / "out"))
    tests = {}
    for number in ("02", "03", "04", "05", "06"):
        cells(number)
        found = claims.read(tmp_path / "out" / "claims" / f"{number}.json")
        tests |= {test.claim: test for test in found}
    for claim in ("mask-lpbs", "glue-top3", "chat-seat"):
        assert claim not in tests or tests[claim].estimate is None
    assert tests["mask-top3-seat"].unmet  # there are not three
