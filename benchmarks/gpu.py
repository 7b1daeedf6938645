"""Pseudo-perplexity and head scores at the papers' sizes on one GPU.

    python -m benchmarks.gpu ceilings                    what this card reaches: products and copies
    python -m benchmarks.gpu heads --shape bert-base     3,000 sentences; also --shape llama-7b
    python -m benchmarks.gpu pppl --precision bfloat16   WikiText-2's test split; also tf32, float32

It prints seconds, memory, the share of the card's peak, and where the time goes. The networks have
random weights of the true shapes. The texts are real (COMPANION_DATA; sentences of BBC articles),
in tokens of the bundled models, whose vocabularies have 16,384 entries; --tokenizer FOLDER takes
another: a BERT's own of 30,522 gives fewer tokens. --device cpu --limit 4 --tiny is a trial.
"""

import argparse
from dataclasses import dataclass
from functools import partial

import torch
import transformers

from benchmarks import flops
from lib.bias_a_head import heads, masking, seat
from lib.engine import batches, embed, models, pppl
from lib.text import readers


@dataclass(frozen=True)
class Shape:
    """A network of random weights."""

    config: transformers.PretrainedConfig
    tokenizer: str  # of which bundled model
    kind: type  # the class of transformers that makes the network
    precision: str  # in which head scores are computed


SHAPES = {
    "bert-base": Shape(
        config=transformers.BertConfig(),
        tokenizer="mini-bert",
        kind=transformers.AutoModelForPreTraining,
        precision="float32",
    ),
    "llama-7b": Shape(
        config=transformers.LlamaConfig(),
        tokenizer="mini-gpt2",
        kind=transformers.AutoModelForCausalLM,
        precision="bfloat16",
    ),
}
TINY = dict(
    hidden_size=64,
    intermediate_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=4,
)


def dtype_of(precision: str) -> torch.dtype:
    return torch.bfloat16 if precision == "bfloat16" else torch.float32


def model_of(
    shape: str, device: str, precision: str, tiny: bool, tokenizer: str | None = None
) -> models.Model:
    """A random model of a shape, or with `tiny` of its family alone."""
    chosen = SHAPES[shape]
    config = chosen.config
    if tiny:
        config = type(config)(**TINY, vocab_size=config.vocab_size)
    return flops.random_model(
        config,
        tokenizer or chosen.tokenizer,
        f"{shape}'s shape",
        device,
        dtype_of(precision),
        chosen.kind,
    )


def ceilings(device: str, size: int):
    """The best of ten square products in each precision, and of ten copies.

    No program on this card can be faster.
    """
    for precision, peak in flops.PEAK.items():
        dtype = dtype_of(precision)
        a = torch.randn(size, size, device=device, dtype=dtype)
        b = torch.randn(size, size, device=device, dtype=dtype)
        with masking.matmuls(precision):
            best = best_of_ten(partial(torch.matmul, a, b))
        reached = 2 * size**3 / best
        print(
            f"{precision:9} products   {reached / 1e12:6.1f} of {peak / 1e12:.1f} TFLOPs a second"
        )
    source = torch.randn(8 * size**2, device=device)
    rate = 2 * source.nbytes / best_of_ten(source.clone)
    print(f"copies (read and written) {rate / 1e12:.2f} TB a second", flush=True)


def best_of_ten(function) -> float:
    """The fewest seconds that one of ten calls took."""
    return min(flops.seconds(function)[0] for _ in range(10))


def contexts(n: int) -> tuple[heads.Sets, dict[str, list[str]]]:
    """The gender words of Bias A-head in n sentences of news.

    All words have equally many sentences, but for those that have fewer and for one less where n
    is exceeded.
    """
    sets, found = heads.sets_and_contexts("gender", heads.Sample("paper", n))
    most = sentences_a_word(found, n)
    found = {word: lines[:most] for word, lines in found.items()}
    for word in reversed(found):
        n_over = count(found) - n
        if n_over and len(found[word]) == most > 1:
            found[word] = found[word][:-1]
    return sets, found


def sentences_a_word(found: dict[str, list[str]], n: int) -> int:
    """The lowest number of sentences a word with which there are n in all."""
    for most in range(1, n):
        if sum(min(most, len(lines)) for lines in found.values()) >= n:
            return most
    raise ValueError(f"the news has fewer than {n} sentences with these words")


def count(found: dict[str, list[str]]) -> int:
    return sum(len(lines) for lines in found.values())


def head_scores(shape: str, device: str, limit: int, tiny: bool, tokenizer: str | None):
    """Time the scores of all heads on 3,000 sentences, or `limit`."""
    n = limit or 3_000
    precision = SHAPES[shape].precision
    sets, found = contexts(n)
    model = model_of(shape, device, precision, tiny, tokenizer)
    score = partial(heads.bias_scores, model, sets, found)
    heads.bias_scores(model, *contexts(max(600, n // 4)))  # to warm up
    if device.startswith("cuda"):
        torch.cuda.reset_peak_memory_stats()
    first, _ = flops.seconds(score)
    took, scores = flops.seconds(score)
    pairs = []
    for word in sets.words:
        pairs += [(word, sentence) for sentence in found[word]]
    encoded, _ = embed.prepare(model, pairs)
    sizes = [len(one["input_ids"]) for one in encoded]
    # forward twice, and once back to the mask: frozen weights need no gradients of their own
    work = 3 * flops.needed(model.net.config, sizes)
    print(
        f"head scores, {model.name}, {precision}, {len(pairs):,} sentences, {sum(sizes):,} tokens: "
        f"{took:.2f} s, at first, loading kernels, {first:.2f} s"
    )
    print(f"  {flops.share_of_peak(work, took, precision)}")
    if device.startswith("cuda"):
        reserved = torch.cuda.max_memory_reserved() / 2**30
        print(f"  at most {allocated_gib():.1f} GiB allocated, {reserved:.1f} GiB reserved")
    assert scores.scores.isfinite().all() and scores.scores.abs().max() > 0
    preparing, _ = flops.seconds(lambda: embed.prepare(model, pairs))
    testing, _ = flops.seconds(lambda: p_value_of_random_vectors(sets))
    print(
        f"  of this on the CPU: tokens prepared {preparing:.2f} s, p-value {testing:.2f} s "
        "(the first is done twice)"
    )
    print(f"  {flops.where_time_goes(score)}", flush=True)


def p_value_of_random_vectors(sets: heads.Sets) -> float:
    """The permutation test of SEAT, as head scores run it, on vectors of BERT-base's size."""
    return seat.p_value(*(torch.randn(len(part), 768) for part in sets))


def allocated_gib() -> float:
    return torch.cuda.max_memory_allocated() / 2**30


def perplexity(precision: str, device: str, limit: int, tiny: bool, tokenizer: str | None):
    """Time the pseudo-perplexity of WikiText-2's test split, or about `limit` lines of it."""
    texts = readers.wikitext()
    if limit:
        texts = texts[:: len(texts) // limit]
    model = model_of("bert-base", device, precision, tiny, tokenizer)
    score = partial(pppl.pseudo_perplexity, model, texts, progress="PPPL")
    with masking.matmuls(precision):
        pppl.pseudo_perplexity(model, texts[::60])  # to warm up
        goes = flops.where_time_goes(lambda: pppl.pseudo_perplexity(model, texts[::30]))
        print(f"  every 30th line: {goes}", flush=True)
        first, _ = flops.seconds(score)
        took, found = flops.seconds(score)
    sizes = masked_sizes(model, texts)
    work = flops.needed(model.net.config, sizes, rows=len(sizes))
    print(
        f"PPPL, {model.name}, {precision}, {len(texts):,} lines, {found.n_tokens:,} masks, "
        f"{sum(sizes):,} tokens: {took:.1f} s, at first, loading kernels, {first:.1f} s "
        f"(PPPL {found.value:.6g}, random weights)"
    )
    is_cuda = device.startswith("cuda")
    budget = 8 * batches.TOKENS["cuda"] if is_cuda else batches.TOKENS["cpu"]
    wasted = flops.padding(sizes, batches.by_length(sizes, budget, alike=is_cuda))
    print(f"  {flops.share_of_peak(work, took, precision)}; padding {wasted:.1%}", flush=True)
    if is_cuda:
        print(f"  at most {allocated_gib():.1f} GiB allocated")


def masked_sizes(model, texts: list[str]) -> list[int]:
    """The tokens of each masked copy that pseudo-perplexity sends through the network."""
    windows, _, asked = pppl.encode_windows(model, texts)
    sizes = []
    for window, places in zip(windows, asked):
        sizes += [len(window["input_ids"])] * len(places)
    return sizes


def main():
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
        "--tokenizer", help="a folder with a tokenizer; without: the bundled model's"
    )
    options = parser.parse_args()
    device = options.device
    card = torch.cuda.get_device_name() if device.startswith("cuda") else "CPU"
    print(f"{card}, torch {torch.__version__}, transformers {transformers.__version__}", flush=True)
    if options.what == "ceilings":
        ceilings(device, 512 if options.tiny else 8_192)
    elif options.what == "heads":
        head_scores(options.shape, device, options.limit, options.tiny, options.tokenizer)
    else:
        perplexity(options.precision, device, options.limit, options.tiny, options.tokenizer)


if __name__ == "__main__":
    main()
