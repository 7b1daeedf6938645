"""Muon for many matrices of few shapes.

The update is torch.optim.Muon's, which takes the matrices one by one; here all of one shape are orthogonalised in
one batched product. On an H200 torch's took 34 ms for the 72 matrices of mini-bert, a third of the training step: some
2,000 launches of tiny kernels. On a CPU, which launches nothing, there is no gain. tests/test_pretrain.py proves the two
equal, benchmarks/pretraining.py measures them side by side.
"""

import math

import torch

COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # of the quintic iteration (Jordan et al. 2024)


def orthogonal(updates: torch.Tensor, steps: int = 5) -> torch.Tensor:
    """Each matrix of [n, rows, columns] with its singular values brought near 1, in bfloat16."""
    a, b, c = COEFFICIENTS
    tall = updates.shape[1] > updates.shape[2]
    x = (updates.mT if tall else updates).bfloat16()
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)
    for _ in range(steps):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x


class Muon(torch.optim.Optimizer):
    """Nesterov momentum, orthogonalised; the step's size matches AdamW's, so that they share a learning rate."""

    def __init__(self, matrices, lr: float, weight_decay: float = .1, momentum: float = .95):
        by_shape = {}
        for matrix in matrices:
            by_shape.setdefault(matrix.shape, []).append(matrix)
        groups = [dict(params=group) for group in by_shape.values()]
        super().__init__(groups, dict(lr=lr, weight_decay=weight_decay, momentum=momentum))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            matrices, momentum, lr = group["params"], group["momentum"], group["lr"]
            gradients = torch.stack([matrix.grad for matrix in matrices])
            state = self.state[matrices[0]]  # one buffer for the whole shape
            if "buffer" not in state:
                state["buffer"] = torch.zeros_like(gradients)
            state["buffer"].lerp_(gradients, 1 - momentum)
            updates = orthogonal(gradients.lerp_(state["buffer"], momentum)).to(matrices[0].dtype)
            torch._foreach_mul_(matrices, 1 - lr * group["weight_decay"])
            torch._foreach_add_(matrices, list(updates.unbind()), alpha=-lr * .2 * math.sqrt(max(matrices[0].shape)))
