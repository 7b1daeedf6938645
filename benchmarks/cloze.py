"""What one vocabulary row a prompt saves: python -m benchmarks.cloze [--device cuda]

On the CPU: a sample of the 2,680 cloze prompts through lib/counteracts/cloze.py and through transformers' fill-mask
pipeline, one prompt at a time and at several batch sizes, in turn for so many rounds: medians, with the probabilities
compared.
On a GPU: all 2,680 through randomly initialised networks of the paper's seven shapes; tokens are the shipped models'.
"""

import argparse
from functools import partial
from statistics import median

import torch
import transformers

from benchmarks import flops, timing
from lib.counteracts import cloze
from lib.engine import batches, models

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


def masked_head(model) -> torch.nn.Module:
    """The network with the masked-word head alone, as Transformers itself loads it and other libraries want it."""
    folder, _ = models.locate(model.name)
    return transformers.AutoModelForMaskedLM.from_pretrained(folder, dtype=torch.float32).eval()


def against_pipeline(name: str, n: int, rounds: int):
    """Every so many-th prompt, so that n are left, by both."""
    model = models.load(name, device="cpu")
    asked = cloze.rows("winobias")
    asked = asked[:: max(1, len(asked) // n)]
    texts = [cloze.written(model, row) for row in asked]
    pipeline = transformers.pipeline(
        "fill-mask", model=masked_head(model), tokenizer=model.tokenizer, device="cpu", top_k=10
    )

    ways = {"one row a prompt": lambda: cloze.answer(model, cloze.encoded(model, asked))}
    ways |= {
        f"pipeline, batches of {size:3}": partial(pipeline, texts, batch_size=size)
        for size in SIZES
    }
    cloze.answer(model, cloze.encoded(model, asked[:32]))  # to warm up
    pipeline(texts[:8])
    took, results = timing.in_turns(ways, rounds)
    ours, *theirs = ways
    print(
        f"{name}, {len(asked)} prompts, {rounds} rounds, torch {torch.__version__}, "
        f"{torch.get_num_threads()} threads"
    )
    print(f"  {ours:24} {1e3 * median(took[ours]) / len(asked):6.2f} ms a prompt")
    for way in theirs:
        gap = max(
            abs(float(p) - answer["score"])
            for row, answers in zip(results[ours]["p"], results[way])
            for p, answer in zip(row, answers)
        )
        print(
            f"  {way:24} {1e3 * median(took[way]) / len(asked):6.2f} ms a prompt: "
            f"{timing.ratio(took[way], took[ours])}   largest difference of a probability {gap:.1e}"
        )


def on_gpu(device: str, limit: int = 0):
    """All prompts through each of the seven shapes: seconds, prompts a second, share of peak, where the time goes."""
    asked, took, work = cloze.rows("winobias")[: limit or None], 0.0, 0.0
    for name, config in SHAPES.items():
        family = config.model_type
        kind = (
            transformers.AutoModelForCausalLM
            if family == "gpt2"
            else transformers.AutoModelForMaskedLM
        )
        model = flops.random_model(config, f"mini-{family}", name, device, kind=kind)
        texts = cloze.encoded(model, asked)
        cloze.answer(model, texts[:200])  # to warm up
        answer = partial(cloze.answer, model, texts)
        taken = min(flops.seconds(answer)[0] for _ in range(3))
        sizes = [len(text["input_ids"]) for text in texts]
        needed = flops.needed(config, sizes, rows=len(texts))
        took, work = took + taken, work + needed
        print(
            f"{name:14} {model.net.num_parameters() / 1e6:4.0f} M  {taken:6.2f} s  {len(texts) / taken:6.0f} a second"
            f"  {flops.share_of_peak(needed, taken, 'float32')}\n"
            f"    {flops.where_time_goes(answer)}",
            flush=True,
        )
        del model, answer
    print(f"all seven: {took:.2f} s; {flops.share_of_peak(work, took, 'float32')}")


if __name__ == "__main__":
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
    else:
        card = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
        print(
            f"{card}, torch {torch.__version__}, transformers {transformers.__version__}, "
            f"float32, {batches.TOKENS['cuda']:,} tokens a batch"
        )
        on_gpu("cpu" if options.device == "try" else options.device, options.limit)
