"""The attention kernel against torch, in Triton's interpreter where there is no GPU."""

import os

import pytest
import torch

pytest.importorskip("triton")
if not torch.cuda.is_available() and not os.environ.get("TRITON_INTERPRET"):
    pytest.skip("no GPU: set TRITON_INTERPRET=1 to run the kernels on a CPU", allow_module_level=True)

from lib.training import kernels  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.mark.parametrize("heads, width", [(4, 24), (3, 32)])
def test_short_attention_is_attention_inside_each_text(heads, width):
    torch.manual_seed(0)
    bounds = torch.tensor([0, 50, 50, 180, 181, 400, 464, 520, 520, 800], dtype=torch.int32, device=DEVICE)
    ours = torch.randn(800, 3, heads, width, device=DEVICE, requires_grad=True)
    theirs = ours.detach().clone().requires_grad_()
    found, expected = kernels.short_attention(ours, bounds), kernels.dense(theirs, bounds)
    back = torch.randn_like(found)
    back[520:] = 0
    found.backward(back), expected.backward(back)
    for one, other in (found, expected), (ours.grad, theirs.grad):
        assert (one - other)[:520].abs().max() < 1e-3 * other[:520].abs().max()
    assert not found[520:].any() and not ours.grad[520:].any(), "padding longer than any text is zero"
