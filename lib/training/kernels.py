"""A Triton kernel for training on a GPU: attention inside short texts that lie end to end in one row.

Flash kernels are made for long texts: they keep sums of exponentials for the way back, and there add up the queries'
gradients in float32, in memory. Here all keys of a text (at most 256) fit on the chip at once, so that the softmax is
computed as it stands, and once more on the way back; nothing but queries, keys, values and their gradients is read or
written. A kernel is launched for each of three sizes of text; a program whose text has another returns.

Where there is no GPU torch does the same. tests/test_kernels.py compares the two in Triton's interpreter,
benchmarks/pretraining.py on a GPU, where it also measures the kernel beside torch's variable-length one."""

import math

import torch
import torch.nn.functional as F

try:
    import triton
    import triton.language as tl
except ImportError:  # a CPU build of torch comes without
    triton = None

LONGEST = 256
# For texts longer than the first and at most as long as the second number: (queries at a time, warps, heads a program),
# forward and back; the fastest of those tried on an H200 with heads of 24.
SIZES = {(0, 64): [(64, 4, 4), (64, 4, 1)], (64, 128): [(64, 4, 1), (64, 4, 1)], (128, 256): [(64, 4, 3), (64, 4, 1)]}
LOG2_E = 1.4426950408889634

if triton is not None:
    @triton.jit
    def _softmax(q, k, j, n, scale):
        """Not yet divided by its sums, and one over these."""
        scores = tl.dot(q, tl.trans(k)) * scale
        scores = tl.where(j[None, :] < n, scores, -float("inf"))
        weights = tl.exp2(scores - tl.max(scores, 1)[:, None])
        return weights, 1. / tl.sum(weights, 1)

    @triton.jit
    def _attend(qkv, out, bounds, scale, LOW: tl.constexpr, N: tl.constexpr, LAST: tl.constexpr, M: tl.constexpr,
                GROUP: tl.constexpr, HEADS: tl.constexpr, WIDTH: tl.constexpr, D: tl.constexpr):
        groups: tl.constexpr = HEADS // GROUP
        inner: tl.constexpr = HEADS * WIDTH
        text, group = tl.program_id(0) // groups, tl.program_id(0) % groups
        begin = tl.load(bounds + text).to(tl.int64)
        n = (tl.load(bounds + text + 1) - begin).to(tl.int32)
        d = tl.arange(0, D)
        if (n > LOW) & (n <= N):
            j = tl.arange(0, N)
            there = (j < n)[:, None] & (d < WIDTH)[None, :]
            for head in range(group * GROUP, group * GROUP + GROUP):
                rows = out + begin * inner + head * WIDTH
                base = qkv + begin * 3 * inner + head * WIDTH
                keys = base + inner + j[:, None] * (3 * inner) + d[None, :]
                k = tl.load(keys, there, 0.)
                v = tl.load(keys + inner, there, 0.)
                for m in range(0, n, M):
                    i = m + tl.arange(0, M)
                    mine = (i < n)[:, None] & (d < WIDTH)[None, :]
                    q = tl.load(base + i[:, None] * (3 * inner) + d[None, :], mine, 0.)
                    p, over = _softmax(q, k, j, n, scale)
                    mixed = tl.dot(p.to(v.dtype), v) * over[:, None]
                    tl.store(rows + i[:, None] * inner + d[None, :], mixed.to(out.dtype.element_ty), mine)
        if LAST:
            if n > N:  # padding alone is so long
                for head in range(group * GROUP, group * GROUP + GROUP):
                    for m in range(0, n, M):
                        i = m + tl.arange(0, M)
                        mine = (i < n)[:, None] & (d < WIDTH)[None, :]
                        rows = out + begin * inner + head * WIDTH + i[:, None] * inner + d[None, :]
                        tl.store(rows, tl.zeros([M, D], out.dtype.element_ty), mine)

    @triton.jit
    def _attend_back(qkv, gradient, out, bounds, scale, factor, LOW: tl.constexpr, N: tl.constexpr, LAST: tl.constexpr,
                     M: tl.constexpr, GROUP: tl.constexpr, HEADS: tl.constexpr, WIDTH: tl.constexpr, D: tl.constexpr):
        groups: tl.constexpr = HEADS // GROUP
        inner: tl.constexpr = HEADS * WIDTH
        text, group = tl.program_id(0) // groups, tl.program_id(0) % groups
        begin = tl.load(bounds + text).to(tl.int64)
        n = (tl.load(bounds + text + 1) - begin).to(tl.int32)
        d = tl.arange(0, D)
        if (n > LOW) & (n <= N):
            j = tl.arange(0, N)
            columns = inner + j[:, None] * (3 * inner) + d[None, :]
            there = (j < n)[:, None] & (d < WIDTH)[None, :]
            for head in range(group * GROUP, group * GROUP + GROUP):
                place = begin * 3 * inner + head * WIDTH
                k = tl.load(qkv + place + columns, there, 0.)
                v = tl.load(qkv + place + columns + inner, there, 0.)
                dk = tl.zeros([N, D], tl.float32)
                dv = tl.zeros([N, D], tl.float32)
                for m in range(0, n, M):
                    i = m + tl.arange(0, M)
                    mine = (i < n)[:, None] & (d < WIDTH)[None, :]
                    q = tl.load(qkv + place + i[:, None] * (3 * inner) + d[None, :], mine, 0.)
                    g = tl.load(gradient + begin * inner + head * WIDTH + i[:, None] * inner + d[None, :], mine, 0.)
                    p, over = _softmax(q, k, j, n, scale)
                    p = p * over[:, None]
                    dp = tl.dot(g, tl.trans(v))
                    ds = (p * (dp - tl.sum(p * dp, 1)[:, None])).to(k.dtype)
                    dv += tl.dot(tl.trans(p.to(v.dtype)), g)
                    dk += tl.dot(tl.trans(ds), q)
                    dq = tl.dot(ds, k) * factor
                    tl.store(out + place + i[:, None] * (3 * inner) + d[None, :], dq.to(out.dtype.element_ty), mine)
                tl.store(out + place + columns, (dk * factor).to(out.dtype.element_ty), there)
                tl.store(out + place + columns + inner, dv.to(out.dtype.element_ty), there)
        if LAST:
            if n > N:
                for head in range(group * GROUP, group * GROUP + GROUP):
                    for m in range(0, n, M):
                        i = m + tl.arange(0, M)
                        mine = (i < n)[:, None] & (d < WIDTH)[None, :]
                        rows = out + begin * 3 * inner + head * WIDTH + i[:, None] * (3 * inner) + d[None, :]
                        nothing = tl.zeros([M, D], out.dtype.element_ty)
                        tl.store(rows, nothing, mine)
                        tl.store(rows + inner, nothing, mine)
                        tl.store(rows + 2 * inner, nothing, mine)


def _launch(kernel, back: bool, bounds, heads: int, width: int, *arguments):
    for (low, size), ways in SIZES.items():
        queries, warps, group = ways[back]
        group = math.gcd(group, heads)
        kernel[((len(bounds) - 1) * (heads // group),)](
            *arguments, LOW=low, N=size, LAST=size == LONGEST, M=queries, GROUP=group, HEADS=heads, WIDTH=width,
            D=max(16, triton.next_power_of_2(width)), num_warps=warps, num_stages=1)


@torch.library.custom_op("companion::short_attention", mutates_args=())
def short_attention(qkv: torch.Tensor, bounds: torch.Tensor) -> torch.Tensor:
    tokens, _, heads, width = qkv.shape
    qkv, out = qkv.contiguous(), torch.empty(tokens, heads * width, dtype=qkv.dtype, device=qkv.device)
    _launch(_attend, False, bounds, heads, width, qkv, out, bounds, width ** -.5 * LOG2_E)
    return out


@short_attention.register_fake
def _(qkv, bounds):
    return qkv.new_empty(qkv.shape[0], qkv.shape[2] * qkv.shape[3])


@torch.library.custom_op("companion::short_attention_back", mutates_args=())
def short_attention_back(qkv: torch.Tensor, gradient: torch.Tensor, bounds: torch.Tensor) -> torch.Tensor:
    _, _, heads, width = qkv.shape
    qkv, gradient = qkv.contiguous(), gradient.contiguous()
    out = torch.empty_like(qkv)
    _launch(_attend_back, True, bounds, heads, width, qkv, gradient, out, bounds, width ** -.5 * LOG2_E, width ** -.5)
    return out


@short_attention_back.register_fake
def _(qkv, gradient, bounds):
    return torch.empty_like(qkv, memory_format=torch.contiguous_format)


def _attention_gradients(ctx, gradient):
    qkv, bounds = ctx.saved_tensors
    return short_attention_back(qkv, gradient, bounds), None


short_attention.register_autograd(
    _attention_gradients, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs))


def shared(bounds: torch.Tensor, tokens: int) -> torch.Tensor:
    """Which tokens share a text: a mask [tokens, tokens], for short rows."""
    text = torch.searchsorted(bounds[1:-1].long(), torch.arange(tokens, device=bounds.device), right=True)
    return text[:, None] == text[None, :]


def dense(qkv: torch.Tensor, bounds: torch.Tensor) -> torch.Tensor:
    """The same by a mask."""
    q, k, v = qkv.permute(1, 2, 0, 3)[:, None]
    return F.scaled_dot_product_attention(q, k, v, shared(bounds, len(qkv)))[0].transpose(0, 1).flatten(1)


def attention(qkv: torch.Tensor, bounds: torch.Tensor) -> torch.Tensor:
    """Attention inside each text: qkv [tokens, 3, heads, width], bounds int32 [texts + 1]; out [tokens, heads * width].
    No text but the last, the padding, may have more than LONGEST tokens. Of longer padding the result is zero."""
    return short_attention(qkv, bounds) if qkv.is_cuda else dense(qkv, bounds)
