"""What is measured on a GPU is what a CPU measures, on the shipped encoder. Skipped where there is no GPU.

Where pytest is not installed: PYTHONPATH=. python tests/test_cuda.py"""

import numpy as np
import torch

from lib.bias_a_head import heads, masking
from lib.engine import embed, hooks, models, pppl
from lib.text import data

try:
    import pytest
except ImportError:  # a bare GPU machine
    pytest = None
else:
    pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")

TEXTS = sorted(data.demo("prose"), key=len)[:60]
SETS = heads.Sets(
    ("nurse", "cashier", "secretary"),
    ("soldier", "captain", "boss"),
    ("she", "mother"),
    ("he", "father"),
)
CONTEXTS = {
    word: [f"Everyone saw the {word} there.", f"That {word} came back later in the day."]
    for word in SETS.words
}


def both():
    return models.load("mini-bert", device="cpu"), models.load("mini-bert", device="cuda")


def test_states_head_scores_and_ablation_agree():
    cpu, gpu = (heads.bias_scores(model, SETS, CONTEXTS, folds=2) for model in both())
    assert abs(cpu.seat - gpu.seat) < 1e-3
    torch.testing.assert_close(cpu.scores, gpu.scores, atol=2e-3, rtol=1e-2)
    torch.testing.assert_close(cpu.folds, gpu.folds, atol=2e-3, rtol=1e-2)
    cpu, gpu = (heads.without_each(model, SETS, CONTEXTS)[1] for model in both())
    torch.testing.assert_close(cpu, gpu, atol=2e-3, rtol=1e-2)
    torch.testing.assert_close(
        *(embed.sentences(model, TEXTS) for model in both()), atol=2e-3, rtol=2e-3
    )


def test_pseudo_perplexity_agrees_whatever_the_batch():
    cpu, gpu = (pppl.pseudo_perplexity(model, TEXTS) for model in both())
    small = pppl.pseudo_perplexity(both()[1], TEXTS, tokens=1_000)
    for found in (gpu, small):
        np.testing.assert_allclose(found.log_likelihoods, cpu.log_likelihoods, rtol=1e-3, atol=1e-2)
        np.testing.assert_array_equal(found.lengths, cpu.lengths)


def test_lower_precision_is_near_enough():
    """Relative error of PPPL, of the full model and of one with heads masked: 0.2 % for TF32, 1 % for bfloat16."""
    found = {}
    for precision in masking.PRECISIONS:
        model = models.load(
            "mini-bert",
            device="cuda",
            dtype=torch.bfloat16 if precision == "bfloat16" else torch.float32,
        )
        for chosen in ((), ((3, 1), (9, 12), (12, 5))):
            with hooks.head_mask(model, heads.mask(model, chosen)), masking.matmuls(precision):
                found.setdefault(precision, []).append(pppl.pseudo_perplexity(model, TEXTS).value)
    for precision, limit in (("tf32", 2e-3), ("bfloat16", 1e-2)):
        error = np.abs(np.divide(found[precision], found["float32"]) - 1)
        print(f"{precision}: PPPL off by {error.max():.1e}")
        assert (error < limit).all()


if __name__ == "__main__":
    if not torch.cuda.is_available():
        raise SystemExit("There is no GPU: nothing was tested.")
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            test()
            print(f"{name} passed", flush=True)
