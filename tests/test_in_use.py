"""Notebook 05, by hand."""

import pandas as pd
import pytest

from training import glue


def result(mask, seed, score):
    return {"task": "RTE", "mask": mask, "seed": seed, "scores": [score], "constant": [0.5]}


def test_a_task_counts_once_every_mask_has_the_same_seeds():
    results = [result(mask, seed, 0.7) for mask in ("all", "top3", "none") for seed in (1, 0)]
    runs = glue.by_run(results)
    full, top3, every = glue.MASKS.values()
    assert list(zip(runs["mask"], runs["seed"])) == [
        (mask, seed) for mask in (full, top3, every) for seed in (0, 1)
    ]
    assert len(glue.finished(runs)) == 6
    assert glue.finished(runs[1:]).empty  # a seed is missing
    assert glue.finished(runs[runs["seed"] == 0]).empty  # one seed has no interval


def test_changes_are_of_each_seed_against_itself():
    scores = {("none", 0): 0.7, ("none", 1): 0.9, ("top3", 0): 0.6, ("top3", 1): 0.8}
    scores |= {("all", 0): 0.5, ("all", 1): 0.5}
    runs = glue.by_run([result(*key, score) for key, score in scores.items()])
    full, top3, every = glue.MASKS.values()
    printed = pd.DataFrame(
        {full: [0.7, 0.8], top3: [0.71, 0.8], every: [0.6, 0.8]},
        index=["RTE accuracy", "QNLI accuracy"],
    )
    changes = glue.changes(runs, printed).set_index(["row", "mask"])
    assert changes.loc[("RTE accuracy", top3), "value"] == pytest.approx(-0.1)
    assert changes.loc[("RTE accuracy", every), "value"] == pytest.approx(-0.3)
    assert changes.loc[("RTE accuracy", every), "printed"] == -0.1
    assert changes.loc["QNLI accuracy", "value"].isna().all()
