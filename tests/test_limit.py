"""A try: few items everywhere, a name and a place of its own, and nothing shared with a full run."""

import pandas as pd
import pytest

from lib import CompanionError, paths, together
from lib.counteracts import cloze
from lib.engine import limit
from lib.projective import nli, nli_sweep, stereoset
from lib.publish.profile import read_profile
from lib.publish.run import Run
from lib.text import english
from lib.text import pairs as sentence_pairs


@pytest.fixture
def eight(monkeypatch):
    monkeypatch.setenv("COMPANION_LIMIT", "8")


def test_without_a_limit_nothing_is_cut():
    sizes = read_profile("paper")["sizes"]
    assert limit.items() == limit.few() == 0 and limit.suffix() == ""
    assert limit.sizes(sizes) is sizes and len(limit.first(range(100))) == 100


def test_sizes_are_cut_and_steps_are_not(eight):
    sizes = limit.sizes({"counter_sentences": 500, "nsp_examples": 4, "masking_lines": {"mini": 40, "paper": 0},
                         "heads_contexts": 100, "heads_folds": 10, "masking_draws": {"paper": 20},
                         "cloze_backgrounds": 0, "lpbs_step": 50, "masking_curve": {"paper": [10, 20]},
                         "glue_small": {"rate": 2e-5, "epochs": 30}})
    assert sizes == {"counter_sentences": 8, "nsp_examples": 4, "masking_lines": {"mini": 8, "paper": 8},
                     "heads_contexts": 2, "heads_folds": 2, "masking_draws": {"paper": 2}, "cloze_backgrounds": 2,
                     "lpbs_step": 50, "masking_curve": {"paper": [10, 20]}, "glue_small": {"rate": 2e-5, "epochs": 30}}


@pytest.mark.parametrize("profile", ["mini", "paper"])
def test_every_size_of_the_profiles_is_cut_or_counts_no_items(eight, profile):
    def numbers(value):
        return [number for part in value.values() for number in numbers(part)] if isinstance(value, dict) else [value]

    for name, value in vars(Run(profile=profile).sizes).items():
        assert name in limit.NOT_ITEMS or all(isinstance(n, int) and 1 <= n <= 8 for n in numbers(value)), name


def test_the_first_ones_and_those_that_something_needs(eight):
    assert limit.first(list(range(5))) == [0, 1, 2, 3, 4]
    assert limit.first(tuple(range(20))) == [0, 1, 2, 3, 4, 5, 6, 7]
    assert limit.first(list(range(20)), always=[19, 3], n=4) == [0, 1, 3, 19]
    assert limit.first(list(range(20)), always=[19, 3, 9], n=2) == [3, 9, 19]
    table = limit.first(pd.DataFrame({"x": range(20)}), always=[12])
    assert table["x"].tolist() == [0, 1, 2, 3, 4, 5, 6, 12]


@pytest.mark.parametrize("given", ["1", "-8", "eight"])
def test_what_is_no_limit_is_refused(monkeypatch, given):
    monkeypatch.setenv("COMPANION_LIMIT", given)
    with pytest.raises(CompanionError, match="--limit 2 or more"):
        Run()


def test_a_try_has_its_own_name_and_place(eight, monkeypatch):
    monkeypatch.delenv("COMPANION_OUT", raising=False)
    run = Run(profile="paper", model="roberta-base")
    assert run.name == "paper-roberta-base-limit8" and run.out == paths.BUILD / run.name / "figures"
    assert run.flags == ["--profile", "paper", "--model", "roberta-base", "--limit", "8"]


def test_a_try_shares_no_result_with_a_full_run(monkeypatch, tmp_path):
    monkeypatch.setattr(paths, "CACHE", tmp_path)
    asked = []
    monkeypatch.setattr(english, "article", lambda word: asked.append(word) or len(asked))
    english.article.__module__, english.article.__qualname__ = "lib.text.english", "article"
    monkeypatch.setattr("inspect.getsourcefile", lambda function: str(paths.ROOT / "lib" / "english.py"))
    assert [Run().cached(english.article, "hour") for _ in range(2)] == [1, 1]
    monkeypatch.setenv("COMPANION_LIMIT", "8")
    assert [Run().cached(english.article, "hour") for _ in range(2)] == [2, 2]
    monkeypatch.setenv("COMPANION_LIMIT", "4")
    assert Run().cached(english.article, "hour") == 3
    monkeypatch.delenv("COMPANION_LIMIT")
    assert Run().cached(english.article, "hour") == 1


def test_what_is_made_is_few_and_has_what_notebooks_show(eight):
    prompts = cloze.prompts("winobias", items=8)
    assert {"nurse", "librarian"} < set(prompts["occupation"]) and set(prompts["dominated"]) == {"female", "male"}
    assert set(prompts["kind"]) == set(cloze.KINDS) and len(prompts) == 8 * (7 + 3 * 2)
    for table in (prompts, cloze.prompts("table1", backgrounds=50, items=8)):
        assert not table.duplicated().any()
        assert table.groupby("dominated")["occupation"].nunique().to_dict() == {"female": 4, "male": 4}
    pairs = nli.pairs(contexts=2)
    assert set(pairs["occupation"]) == set(nli.SHOWN) and len(pairs) == 3 * 2 * 2
    assert len(sentence_pairs.natural()) == len(sentence_pairs.contexts()) == 8
    assert len(together.texts("mini", items=8)) == 8 == len(nli_sweep.task_pairs("mini"))
    triples = stereoset.triples()
    assert triples["context_id"].nunique() == 8 and len(triples) == 24 and list(triples.index) == list(range(24))
