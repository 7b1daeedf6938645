"""What notebooks 03, 05 and 06 say of heads in use: by hand."""

import numpy as np
import pandas as pd
import pytest
import torch

from lib.bias_a_head import (
    claims_attention,
    claims_debiased,
    findings_in_use as findings,
    glue,
)
from lib.bias_a_head.experiment import Experiment
from lib.engine import stats
from lib.verdict import Control, Outcome, Verdict

ABOVE = stats.Estimate(0.2, 0.1, 0.3, n=4)
BELOW = stats.Estimate(-0.2, -0.3, -0.1, n=4)
OPEN = stats.Estimate(0.1, -0.1, 0.3, n=4)


def verdict(claim, outcome, estimate=OPEN, **about):
    return Verdict(claim.id, Outcome(outcome), estimate=estimate, **about)


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
    assert one.by_head["difference"].tolist() == pytest.approx([0.2, -0.1, 0])
    alone = Experiment("m", "gender", {"scores": abs(scores)}, pairs, both)
    assert list(alone.kinds) == ["biased"] and alone.contrast is None


@pytest.mark.parametrize(
    ("estimate", "outcome", "words"),
    [
        (ABOVE, "supported", "look away from the swapped word"),
        (ABOVE, "matched by controls", "and regular heads nearly as much"),
        (BELOW, "contradicted", "look harder"),
        (OPEN, "inconclusive", "no clear fall"),
        (stats.Estimate(np.nan), "inconclusive", "too few heads"),
    ],
)
def test_the_title_of_one_sentence(estimate, outcome, words):
    title = findings.fig3_title(verdict(claims_attention.EXAMPLE, outcome, estimate))
    assert words in title and not any(letter.isdigit() for letter in title)
    of_two = findings.fig3_title(verdict(claims_attention.EXAMPLE, outcome, estimate), True)
    assert ("both heads drawn" in of_two) == (estimate is OPEN)


def test_conclusions_take_the_main_variant_on_gender_of_each_model():
    contrast = claims_attention.CONTRAST
    about = {"models": ["e"], "on": "4a e gender"}
    verdicts = [
        verdict(contrast, "inconclusive", OPEN, variant="min-max", **about),
        verdict(contrast, "contradicted", BELOW, variant="raw", **about),
        verdict(contrast, "supported", ABOVE, variant="raw", models=["d"], on="4c d race"),
        verdict(contrast, "not applicable", None, variant="raw", models=["d"], on="4b d gender",
                reason="no bias"),
    ]  # fmt: skip
    said = findings.of_attention(verdicts, {"4a": ("e", "gender"), "4b": ("d", "gender")})
    assert said.splitlines() == [
        "- **Biased heads react more than regular ones: contradicted.** "
        "-0.200 [-0.300, -0.100] percentage points of attention in e.",
        "- **The same in the decoder: not applicable** in d, since no bias. "
        "**The same on race: supported in d.**",
    ]
    regular = verdict(claims_attention.REGULAR, "supported", OPEN, variant="paper's test",
                      found="t 2.2, p 0.01; rest", **about)  # fmt: skip
    said = findings.of_attention([regular], {"4a": ("e", "gender"), "4b": ("d", "gender")})
    assert said.endswith("in e. The paper's own test for a difference: t 2.2, p 0.01.")


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


# ---- 06
def test_titles_of_debiased_and_chat_models_go_by_the_verdicts():
    of_turned = [
        verdict(claims_debiased.TURNED, "supported", ABOVE, on="a"),
        verdict(claims_debiased.TURNED, "inconclusive", OPEN, on="b"),
    ]
    assert findings.turned_title("m", of_turned, "x")[0].endswith("work for it in a")
    assert "not shown to turn" in findings.turned_title("m", of_turned[1:], "x")[0]
    own = Control("the base on other sentences", ABOVE, OPEN)
    beside = [verdict(claims_debiased.TURNED, "inconclusive", OPEN, on="b", control=own)]
    below = findings.turned_title("m", beside, "x")[1]
    assert "0.1 [-0.1, 0.3] in b and 0.2 [0.1, 0.3] in m itself; x" in below
    for estimate, words in ((BELOW, "Fewer"), (ABOVE, "More"), (OPEN, "It cannot be told")):
        one = verdict(claims_debiased.CHAT_HEADS, "inconclusive", estimate, on="chat against m")
        assert findings.pronounced_title([one], "x")[0].startswith(words)
    said = findings.moved_title({"a": ABOVE, "b": ABOVE}, "after")
    assert said == "Head scores after correlate with the base's at 0.20 and 0.20"
    assert "not always" in findings.moved_title({"a": ABOVE, "b": OPEN}, "after")
    said = findings.of_debiased(of_turned)
    assert said == (
        "- **The most anti-biased heads turn biased: supported in a and inconclusive in b.** "
        "0.2 [0.1, 0.3] of 5 heads in a and 0.1 [-0.1, 0.3] in b."
    )
    lower = [verdict(claims_debiased.SEAT, "supported", BELOW, on=name) for name in ("a", "b")]
    remain = [verdict(claims_debiased.REMAIN, "supported", ABOVE, on=name) for name in ("a", "b")]
    fewer = [verdict(claims_debiased.FEWER, "supported", BELOW, on="a")]
    seat, heads = findings.of_debiased([*lower, *remain, *fewer], {"a": BELOW}).splitlines()
    assert seat.startswith(
        "- **Debiased models are less biased by SEAT: supported in a and b.** -0.20"
    )
    assert seat.endswith("women's share of occupations changes by -0.20 [-0.30, -0.10] in a.")
    assert heads.endswith("That a number of them remain is supported in a and b.")
