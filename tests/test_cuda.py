"""What is measured on a GPU is what a CPU measures, on the bundled encoder.

It is skipped where there is no GPU. Without pytest: PYTHONPATH=. python tests/test_cuda.py
"""

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
LIMITS = {"tf32": 2e-3, "bfloat16": 1e-2}  # relative errors of PPPL


def both():
    """The bundled encoder on a CPU and on the GPU."""
    return models.load("mini-bert", device="cpu"), models.load("mini-bert", device="cuda")


def test_head_scores_agree():
    cpu, gpu = (heads.bias_scores(model, SETS, CONTEXTS, folds=2) for model in both())
    assert abs(cpu.seat - gpu.seat) < 1e-3
    torch.testing.assert_close(cpu.scores, gpu.scores, atol=2e-3, rtol=1e-2)
    torch.testing.assert_close(cpu.folds, gpu.folds, atol=2e-3, rtol=1e-2)


def test_ablations_agree():
    cpu, gpu = (heads.without_each(model, SETS, CONTEXTS)[1] for model in both())
    torch.testing.assert_close(cpu, gpu, atol=2e-3, rtol=1e-2)


def test_sentence_vectors_agree():
    cpu, gpu = (embed.sentences(model, TEXTS) for model in both())
    torch.testing.assert_close(cpu, gpu, atol=2e-3, rtol=2e-3)


def test_pseudo_perplexity_agrees_whatever_the_batch():
    on_cpu, on_gpu = both()
    expected = pppl.pseudo_perplexity(on_cpu, TEXTS)
    for tokens in (None, 1_000):
        found = pppl.pseudo_perplexity(on_gpu, TEXTS, tokens=tokens)
        np.testing.assert_allclose(
            found.log_likelihoods, expected.log_likelihoods, rtol=1e-3, atol=1e-2
        )
        np.testing.assert_array_equal(found.lengths, expected.lengths)


def perplexities(precision: str) -> np.ndarray:
    """PPPL on the GPU of the whole model, and of the model with three heads masked."""
    dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
    model = models.load("mini-bert", device="cuda", dtype=dtype)
    found = []
    for chosen in ((), ((3, 1), (9, 12), (12, 5))):
        with hooks.head_mask(model, heads.mask(model, chosen)), masking.matmuls(precision):
            found.append(pppl.pseudo_perplexity(model, TEXTS).value)
    return np.array(found)


def test_lower_precision_is_near_enough():
    assert set(masking.PRECISIONS) == {"float32", *LIMITS}
    exact = perplexities("float32")
    for precision, limit in LIMITS.items():
        error = np.abs(perplexities(precision) / exact - 1)
        print(f"{precision}: PPPL off by {error.max():.1e}")
        assert (error < limit).all()


if __name__ == "__main__":
    if not torch.cuda.is_available():
        raise SystemExit("There is no GPU: nothing was tested.")
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            test()
            print(f"{name} passed", flush=True)
