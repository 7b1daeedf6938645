"""Notebooks 03 and 05 on heads in use: by hand."""

import numpy as np
import pandas as pd
import pytest
import torch

from companion.bias_a_head.experiment import Experiment
from training import glue


# ---- 03
def test_kinds_of_heads_and_their_contrast_by_hand():
    """Head 1-1 attends to the original by .2 more, head 1-2 to the counter by .1; both in women's
    and men's sentences of two patterns. So biased less regular heads come to 30 points.
    """
    scores = np.array([[0.5, -0.2, 0.0]])
    weights = torch.zeros(4, 2, 1, 3)
    weights[:, 0, 0, 0] = 0.2
    weights[:, 1, 0, 1] = 0.1
    pairs = pd.DataFrame(
        {
            "attribute": ["women", "men"] * 2,
            "counterpart": ["men", "women"] * 2,
            "target": list("abcd"),
            "group": ["female", "male"] * 2,
            "pattern_id": [1, 1, 2, 2],
        }
    )
    both = {"raw": weights, "min-max": weights}
    one = Experiment("m", "gender", {"scores": scores}, pairs, both)
    assert one.kinds == {"biased": [(1, 1)], "regular": [(1, 2)]}
    assert list(one.contrast) == pytest.approx([30, 30, 30])
    assert list(one.favours("biased"))[0] == pytest.approx(20)
    assert one.by_head["difference"].tolist() == pytest.approx([0.2, -0.1, 0])
    alone = Experiment("m", "gender", {"scores": abs(scores)}, pairs, both)
    assert list(alone.kinds) == ["biased"] and alone.contrast is None


# ---- 05
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
