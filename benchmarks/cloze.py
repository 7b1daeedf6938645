"""What one vocabulary row a prompt saves: python -m benchmarks.cloze [--device cuda]

On the CPU: a sample of the 2,680 cloze prompts through lib/counteracts/cloze.py and through
transformers' fill-mask pipeline, one prompt at a time and at several batch sizes. The ways take
turns; the medians are printed, and the probabilities compared.
On a GPU: all 2,680 through randomly initialised networks of the paper's seven shapes; tokens are
those of the bundled models.
"""

import argparse
from functools import partial
from statistics import median

import torch
import transformers

from benchmarks import flops, timing
from lib.counteracts import cloze
from lib.engine import batches, folders, models

# The paper's seven, as their published configurations have them.
LARGE = dict(
    hidden_size=1_024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4_096
)
BASE = dict(hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3_072)
ROBERTA = dict(vocab_size=50_265, max_position_embeddings=514, type_vocab_size=1)
SHAPES = {
    "BERT-base": transformers.BertConfig(**BASE),
    "BERT-large": transformers.BertConfig(**LARGE),
    "ALBERT-base": transformers.AlbertConfig(**BASE, vocab_size=30_000, embedding_size=128),
    "RoBERTa-base": transformers.RobertaConfig(**BASE, **ROBERTA),
    "RoBERTa-large": transformers.RobertaConfig(**LARGE, **ROBERTA),
    "GPT-2-medium": transformers.GPT2Config(n_embd=1_024, n_layer=24, n_head=16),
    "GPT-2-large": transformers.GPT2Config(n_embd=1_280, n_layer=36, n_head=20),
}
SIZES = (1, 8, 32, 64, 128)  # of the pipeline's batches
OURS = "one row a prompt"


def masked_head(model) -> torch.nn.Module:
    """The network with the masked-word head alone, as transformers loads it."""
    folder, _ = folders.locate(model.name)
    return transformers.AutoModelForMaskedLM.from_pretrained(folder, dtype=torch.float32).eval()


def against_pipeline(name: str, n: int, rounds: int):
    """About n prompts, evenly spread over all, by this project's way and by the pipeline."""
    model = models.load(name, device="cpu")
    prompts = cloze.rows("winobias")
    prompts = prompts[:: max(1, len(prompts) // n)]
    texts = [cloze.written(model, row) for row in prompts]
    pipeline = transformers.pipeline(
        "fill-mask", model=masked_head(model), tokenizer=model.tokenizer, device="cpu", top_k=10
    )
    ways = {OURS: lambda: cloze.answer(model, cloze.encoded(model, prompts))}
    for size in SIZES:
        ways[f"pipeline, batches of {size:3}"] = partial(pipeline, texts, batch_size=size)
    cloze.answer(model, cloze.encoded(model, prompts[:32]))  # to warm up
    pipeline(texts[:8])
    took, results = timing.in_turns(ways, rounds)
    print(
        f"{name}, {len(prompts)} prompts, {rounds} rounds, torch {torch.__version__}, "
        f"{torch.get_num_threads()} threads"
    )
    for way in ways:
        milliseconds = 1e3 * median(took[way]) / len(prompts)
        line = f"  {way:24} {milliseconds:6.2f} ms a prompt"
        if way != OURS:
            gap = largest_difference(results[OURS]["p"], results[way])
            line += (
                f": {timing.ratio(took[way], took[OURS])}   "
                f"largest difference of a probability {gap:.1e}"
            )
        print(line)


def largest_difference(ours, theirs: list[list[dict]]) -> float:
    """Between the probabilities of each prompt's likeliest words, and the pipeline's."""
    gaps = []
    for row, answers in zip(ours, theirs):
        for p, answer in zip(row, answers):
            gaps.append(abs(float(p) - answer["score"]))
    return max(gaps)


def on_gpu(device: str, limit: int = 0):
    """All prompts through each of the seven shapes: time, rate, share of peak, kinds of kernels."""
    prompts = cloze.rows("winobias")
    if limit:
        prompts = prompts[:limit]
    took = 0.0
    work = 0.0
    for name, config in SHAPES.items():
        taken, needed = one_shape(name, config, prompts, device)
        took += taken
        work += needed
    print(f"all seven: {took:.2f} s; {flops.share_of_peak(work, took, 'float32')}")


def one_shape(name: str, config, prompts, device: str) -> tuple[float, float]:
    """Print what one shape takes; returns seconds, the best of three, and model FLOPs."""
    family = config.model_type
    kind = transformers.AutoModelForMaskedLM
    if family == "gpt2":
        kind = transformers.AutoModelForCausalLM
    model = flops.random_model(config, f"mini-{family}", name, device, kind=kind)
    texts = cloze.encoded(model, prompts)
    cloze.answer(model, texts[:200])  # to warm up
    answer = partial(cloze.answer, model, texts)
    taken = min(flops.seconds(answer)[0] for _ in range(3))
    sizes = [len(text["input_ids"]) for text in texts]
    needed = flops.needed(config, sizes, rows=len(texts))
    print(
        f"{name:14} {model.net.num_parameters() / 1e6:4.0f} M  {taken:6.2f} s  "
        f"{len(texts) / taken:6.0f} a second  {flops.share_of_peak(needed, taken, 'float32')}\n"
        f"    {flops.where_time_goes(answer)}",
        flush=True,
    )
    return taken, needed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--device",
        default="cpu",
        help="cuda: the seven shapes; try: these on the CPU, with --limit",
    )
    parser.add_argument("--limit", type=int, default=0, help="prompts for the seven shapes; 0: all")
    parser.add_argument("--model", default="mini-bert")
    parser.add_argument("--prompts", type=int, default=536)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    if options.device == "cpu":
        against_pipeline(options.model, options.prompts, options.rounds)
        return
    card = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    print(
        f"{card}, torch {torch.__version__}, transformers {transformers.__version__}, "
        f"float32, {batches.TOKENS['cuda']:,} tokens a batch"
    )
    on_gpu("cpu" if options.device == "try" else options.device, options.limit)


if __name__ == "__main__":
    main()
