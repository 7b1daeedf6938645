"""What the benchmarks on a GPU share: random networks, seconds, model FLOPs, where time goes.

Model FLOPs are those of the products with weights, of attention and of the vocabulary rows that are
needed, over real tokens alone: padding, norms and everything computed again count as nothing.
Divided by seconds and by the peak of the precision they give the utilisation (MFU).
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

# Kinds of kernels by patterns of their names, the first that fits. cuBLAS calls its products gemm
# or, on Hopper, nvjet.
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
    """A model of random weights, made on its device, with a bundled model's tokenizer.

    kind   the class of transformers that makes the network
    """
    torch.manual_seed(0)
    with torch.device(device):
        net = kind.from_config(config, dtype=dtype, attn_implementation="sdpa")
    tokenizer = transformers.AutoTokenizer.from_pretrained(paths.MODELS / tokenizer)
    # the bundled tokenizer has the number of positions of its own model
    tokenizer.model_max_length = config.max_position_embeddings
    assert len(tokenizer) <= config.vocab_size
    frozen = net.eval().requires_grad_(False)
    return models.Model(frozen, models.prepare(tokenizer, net.config), name, "random")


def seconds(function) -> tuple[float, object]:
    """How long one call took, by the clock, and what it returned."""
    wait()
    start = time.perf_counter()
    result = function()
    wait()
    return time.perf_counter() - start, result


def wait():
    """Wait until the GPU, if there is one, has done its work."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def needed(config, sizes, rows: int = 0) -> float:
    """Model FLOPs of one forward of texts that have so many tokens each.

    rows   how many words are predicted, if any. Each needs a row of the vocabulary, and the last
           layer's feed-forward part, which no other token needs, is counted for them alone
    """
    sizes = np.asarray(sizes, dtype=float)
    width = config.hidden_size
    layers = config.num_hidden_layers
    inner = getattr(config, "intermediate_size", None) or 4 * width
    feed_forward = (3 if config.model_type == "llama" else 2) * width * inner
    is_causal = config.model_type in ("gpt2", "llama")  # looks back alone: half of the attention
    products = 2 * (4 * width**2 + feed_forward) * layers * sizes.sum()
    attention = (2 if is_causal else 4) * width * layers * (sizes**2).sum()
    saved = 2 * feed_forward * (sizes.sum() - rows) if rows else 0
    vocabulary = 2 * rows * getattr(config, "embedding_size", width) * config.vocab_size
    return products + attention - saved + vocabulary


def share_of_peak(work: float, took: float, precision: str) -> str:
    """FLOPs, FLOPs a second and the share of the card's peak, as a text."""
    rate = work / took
    share = rate / PEAK[precision]
    return f"{work / 1e12:,.1f} TFLOPs, {rate / 1e12:.0f} a second: {share:.1%} of peak"


def where_time_goes(function) -> str:
    """The share of the clock's time of each kind of kernel, and of waiting for the CPU.

    The profiler slows the CPU down, so that the waiting is an upper bound. If something prevents
    the profiler from measuring, the text says so: the benchmark goes on.
    """
    try:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            took, _ = seconds(function)
        spent = dict.fromkeys(KERNELS, 0.0)
        for event in profile.key_averages():
            if event.device_type == torch.autograd.DeviceType.CUDA:
                spent[_kind_of_kernel(event.key)] += event.self_device_time_total / 1e6
        spent["GPU waiting"] = max(0.0, took - sum(spent.values()))
        shares = [f"{kind} {part / took:.0%}" for kind, part in spent.items()]
        return f"{', '.join(shares)} of {took:.2f} s"
    except Exception as error:  # a measurement must not be lost for its explanation
        return f"not measured ({type(error).__name__}: {error})"


def _kind_of_kernel(name: str) -> str:
    """The first kind of KERNELS whose pattern fits a kernel's name; the last one fits all."""
    for kind, pattern in KERNELS.items():
        if re.search(pattern, name, re.IGNORECASE):
            return kind
    raise ValueError(f"no kind of kernel fits {name}")


def padding(sizes, batches) -> float:
    """The share of padding in batches, which are lists of indices of texts of these sizes."""
    padded = 0
    for batch in batches:
        padded += len(batch) * max(sizes[i] for i in batch)
    return 1 - sum(sizes) / padded
