"""Pseudo-perplexity and head scores at the papers' sizes on one GPU: seconds, memory, share of peak, what bounds it.

    python -m benchmarks.gpu ceilings                          what this card reaches: products and copies
    python -m benchmarks.gpu heads --shape bert-base           3,000 sentences; also --shape llama-7b
    python -m benchmarks.gpu pppl --precision bfloat16         WikiText-2's test split; also tf32, float32

The networks have random weights of the true shapes; the texts are real (COMPANION_DATA; sentences of BBC articles), in
tokens of the shipped models, whose vocabularies have 16,384 entries; --tokenizer FOLDER takes another: a BERT's own
of 30,522 gives fewer.
--device cpu --limit 4 --tiny is a try.
"""

import argparse
from functools import partial

import torch
import transformers

from benchmarks import flops
from lib.bias_a_head import heads, masking
from lib.engine import batches, pppl
from lib.text import readers

SHAPES = {
    "bert-base": (
        transformers.BertConfig(),
        "mini-bert",
        transformers.AutoModelForPreTraining,
        "float32",
    ),
    "llama-7b": (
        transformers.LlamaConfig(),
        "mini-gpt2",
        transformers.AutoModelForCausalLM,
        "bfloat16",
    ),
}
TINY = dict(
    hidden_size=64,
    intermediate_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=4,
)


def model_of(shape: str, device: str, precision: str, tiny: bool, tokenizer: str | None = None):
    config, shipped, kind, _ = SHAPES[shape]
    config = type(config)(**TINY, vocab_size=config.vocab_size) if tiny else config
    dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
    return flops.random_model(config, tokenizer or shipped, f"{shape}'s shape", device, dtype, kind)


def ceilings(device: str, size: int):
    """The best of ten square products in each precision, and of ten copies: what no program here can pass."""
    for precision, peak in flops.PEAK.items():
        dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
        a, b = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
        with masking.matmuls(precision):
            best = min(flops.seconds(partial(torch.matmul, a, b))[0] for _ in range(10))
        print(
            f"{precision:9} products   {2 * size**3 / best / 1e12:6.1f} of {peak / 1e12:.1f} TFLOPs a second"
        )
    source = torch.randn(8 * size**2, device=device)
    best = min(flops.seconds(source.clone)[0] for _ in range(10))
    print(
        f"copies (read and written) {2 * source.nbytes / best / 1e12:.2f} TB a second", flush=True
    )


def contexts(n: int) -> tuple[heads.Sets, dict[str, list[str]]]:
    """The gender words of Bias A-head in n sentences of news, the commonest words in as many as that takes."""
    sets, found = heads.sets_and_contexts("gender", "paper", n)
    most = next(
        most for most in range(1, n) if sum(min(most, len(lines)) for lines in found.values()) >= n
    )
    found = {word: lines[:most] for word, lines in found.items()}
    for word in reversed(found):  # a sentence less for so many words: exactly n
        over = sum(map(len, found.values())) - n
        if over and len(found[word]) == most > 1:
            found[word] = found[word][:-1]
    return sets, found


def head_scores(shape: str, device: str, limit: int, tiny: bool, tokenizer: str | None):
    precision = SHAPES[shape][3]
    sets, found = contexts(limit or 3_000)
    model = model_of(shape, device, precision, tiny, tokenizer)
    heads.bias_scores(model, *contexts(max(600, (limit or 3_000) // 4)))  # to warm up
    if device.startswith("cuda"):
        torch.cuda.reset_peak_memory_stats()
    first, _ = flops.seconds(lambda: heads.bias_scores(model, sets, found))
    took, scores = flops.seconds(lambda: heads.bias_scores(model, sets, found))
    pairs = [(word, sentence) for word in sets.words for sentence in found[word]]
    sizes = [len(one["input_ids"]) for one in heads.embed.prepare(model, pairs)[0]]
    # forward twice, and once back to the mask: frozen weights need no gradients of their own
    work = 3 * flops.needed(model.net.config, sizes)
    print(
        f"head scores, {model.name}, {precision}, {len(pairs):,} sentences, {sum(sizes):,} tokens: {took:.2f} s, "
        f"at first, loading kernels, {first:.2f} s"
    )
    print(f"  {flops.share_of_peak(work, took, precision)}")
    if device.startswith("cuda"):
        print(
            f"  at most {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB allocated, "
            f"{torch.cuda.max_memory_reserved() / 2**30:.1f} GiB reserved"
        )
    assert scores.scores.isfinite().all() and scores.scores.abs().max() > 0
    apart = {
        "tokens prepared": lambda: heads.embed.prepare(model, pairs),
        "p-value": lambda: heads.seat.p_value(*(torch.randn(len(part), 768) for part in sets)),
    }
    parts = ", ".join(
        f"{name} {flops.seconds(function)[0]:.2f} s" for name, function in apart.items()
    )
    print(f"  of this on the CPU: {parts} (the first is done twice)")
    print(f"  {flops.where_time_goes(lambda: heads.bias_scores(model, sets, found))}", flush=True)


def perplexity(precision: str, device: str, limit: int, tiny: bool, tokenizer: str | None):
    texts = readers.wikitext()
    texts = texts[:: len(texts) // limit] if limit else texts
    model = model_of("bert-base", device, precision, tiny, tokenizer)
    with masking.matmuls(precision):
        pppl.pseudo_perplexity(model, texts[::60])  # to warm up
        goes = flops.where_time_goes(lambda: pppl.pseudo_perplexity(model, texts[::30]))
        print(f"  every 30th line: {goes}", flush=True)
        first, _ = flops.seconds(lambda: pppl.pseudo_perplexity(model, texts, progress="PPPL"))
        took, found = flops.seconds(lambda: pppl.pseudo_perplexity(model, texts, progress="PPPL"))
    windows, _, asked = pppl._windows(model, texts)
    sizes = [len(window["input_ids"]) for window, places in zip(windows, asked) for _ in places]
    work = flops.needed(model.net.config, sizes, rows=len(sizes))
    budget = 8 * batches.TOKENS["cuda"] if device.startswith("cuda") else batches.TOKENS["cpu"]
    wasted = flops.padding(sizes, batches.by_length(sizes, budget, alike=device.startswith("cuda")))
    print(
        f"PPPL, {model.name}, {precision}, {len(texts):,} lines, {found.n_tokens:,} masks, {sum(sizes):,} tokens: "
        f"{took:.1f} s, at first, loading kernels, {first:.1f} s (PPPL {found.value:.6g}, random weights)"
    )
    print(f"  {flops.share_of_peak(work, took, precision)}; padding {wasted:.1%}", flush=True)
    if device.startswith("cuda"):
        print(f"  at most {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB allocated")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["ceilings", "heads", "pppl"])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--shape", choices=SHAPES, default="bert-base")
    parser.add_argument("--precision", choices=flops.PEAK, default="float32")
    parser.add_argument("--limit", type=int, default=0, help="lines or sentences; 0: all")
    parser.add_argument(
        "--tiny", action="store_true", help="two narrow layers in place of the true shape"
    )
    parser.add_argument(
        "--tokenizer", help="a folder with a tokenizer; without: the shipped model's"
    )
    options = parser.parse_args()
    card = torch.cuda.get_device_name() if options.device.startswith("cuda") else "CPU"
    print(f"{card}, torch {torch.__version__}, transformers {transformers.__version__}", flush=True)
    if options.what == "ceilings":
        ceilings(options.device, 512 if options.tiny else 8_192)
    elif options.what == "heads":
        head_scores(options.shape, options.device, options.limit, options.tiny, options.tokenizer)
    else:
        perplexity(
            options.precision, options.device, options.limit, options.tiny, options.tokenizer
        )
