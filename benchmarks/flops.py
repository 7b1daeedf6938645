"""What the benchmarks on a GPU share: networks of random weights, seconds, the FLOPs a model needs, where time goes.

Model FLOPs are those of the products with weights, of attention and of the vocabulary rows that are asked for, over
real tokens alone: padding, norms and everything computed again count as nothing. Divided by seconds and by the peak of
the precision they give the utilisation (MFU).
"""

import re
import time

import numpy as np
import torch
import transformers

from lib import paths
from lib.engine import models

# Dense FLOPs a second of an H200 (SXM), by its data sheet.
PEAK = {"float32": 67e12, "tf32": 494.5e12, "bfloat16": 989.5e12}

# Kinds of kernels by their names, the first that fits: cuBLAS' products are called gemm or, on Hopper, nvjet.
KERNELS = {
    "attention": r"fmha|flash|sdpa|attention",
    "products": r"gemm|nvjet|cutlass|xmma|splitk",
    "copies": r"memcpy|memset",
    "norms, GELU, sums and the like": "",
}


def random_model(
    config,
    tokenizer: str,
    name: str,
    device: str,
    dtype=torch.float32,
    kind=transformers.AutoModelForPreTraining,
) -> models.Model:
    """Random weights, made where they are used, and a shipped model's tokenizer: its ids are all in range."""
    torch.manual_seed(0)
    with torch.device(device):
        net = kind.from_config(config, dtype=dtype, attn_implementation="sdpa")
    tokenizer = transformers.AutoTokenizer.from_pretrained(paths.MODELS / tokenizer)
    tokenizer.model_max_length = (
        config.max_position_embeddings
    )  # the shipped one's is its own model's
    assert len(tokenizer) <= config.vocab_size
    return models.Model(
        net.eval().requires_grad_(False), models.prepare(tokenizer, net.config), name, "random"
    )


def seconds(function) -> tuple[float, object]:
    """Of one call, by the clock, and what it returned."""
    wait()
    start = time.perf_counter()
    result = function()
    wait()
    return time.perf_counter() - start, result


def wait():
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def needed(config, sizes, rows: int = 0) -> float:
    """Model FLOPs of one forward of texts of so many tokens each.

    rows   where words are asked for: how many. Each has a row of the vocabulary, and the last layer's feed-forward
           part, which no other token needs, is counted for them alone
    """
    sizes, width, layers = (
        np.asarray(sizes, dtype=float),
        config.hidden_size,
        config.num_hidden_layers,
    )
    inner = getattr(config, "intermediate_size", None) or 4 * width
    feed_forward = (3 if config.model_type == "llama" else 2) * width * inner
    causal = config.model_type in ("gpt2", "llama")  # looks back alone: half of the attention
    products = 2 * (4 * width**2 + feed_forward) * layers * sizes.sum()
    attention = (2 if causal else 4) * width * layers * (sizes**2).sum()
    saved = 2 * feed_forward * (sizes.sum() - rows) if rows else 0
    vocabulary = 2 * rows * getattr(config, "embedding_size", width) * config.vocab_size
    return products + attention - saved + vocabulary


def share_of_peak(work: float, took: float, precision: str) -> str:
    return f"{work / 1e12:,.1f} TFLOPs, {work / took / 1e12:.0f} a second: {work / took / PEAK[precision]:.1%} of peak"


def where_time_goes(function) -> str:
    """The share of the clock's time that each kind of kernel takes, and the rest, in which the GPU waits for the CPU.

    The profiler slows the CPU down, so the rest is an upper bound. What prevents it from measuring is said, not raised.
    """
    try:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
            took, _ = seconds(function)
        spent = dict.fromkeys(KERNELS, 0.0)
        for event in seen.key_averages():
            if event.device_type == torch.autograd.DeviceType.CUDA:
                kind = next(
                    kind
                    for kind, names in KERNELS.items()
                    if re.search(names, event.key, re.IGNORECASE)
                )
                spent[kind] += event.self_device_time_total / 1e6
        spent["GPU waiting"] = max(0.0, took - sum(spent.values()))
        return (
            ", ".join(f"{kind} {part / took:.0%}" for kind, part in spent.items())
            + f" of {took:.2f} s"
        )
    except Exception as error:  # a measurement must not be lost for its explanation
        return f"not measured ({type(error).__name__}: {error})"


def padding(sizes, batches) -> float:
    """The share of padding in batches, which are lists of indices of texts of these sizes."""
    padded = sum(len(batch) * max(sizes[i] for i in batch) for batch in batches)
    return 1 - sum(sizes) / padded
