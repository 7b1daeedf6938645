"""What one vocabulary row a prompt saves: python -m benchmarks.cloze [--device cuda]

On the CPU: a sample of the 2,680 cloze prompts through lib/counteracts/cloze.py and through transformers' fill-mask
pipeline, one prompt at a time and at several batch sizes, in turn for so many rounds: medians, with the probabilities
compared.
On a GPU: all 2,680 through randomly initialised networks of the paper's seven shapes; tokens are the shipped models'.
"""

import argparse
import copy
import time
from functools import partial
from statistics import median

import torch
import transformers

from benchmarks import flops
from lib.counteracts import cloze
from lib.engine import batches, models

# The paper's seven, as their published configurations have them.
LARGE = dict(hidden_size=1_024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4_096)
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


def seconds(function):
    """How long the function took, and what it returned. On one thread it is processor time, which others on the
    machine do not disturb; else the clock's."""
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    start = clock()
    result = function()
    return clock() - start, result


def against_pipeline(name: str, n: int, rounds: int):
    """Every so many-th prompt, so that n are left, by both."""
    model = models.load(name, device="cpu")
    asked = cloze.rows("winobias")
    asked = asked[:: max(1, len(asked) // n)]
    texts = [cloze.written(model, row) for row in asked]
    net = copy.deepcopy(model.net)
    if model.has_nsp:  # the pipeline wants the masked-word head alone
        net = transformers.BertForMaskedLM(model.net.config)
        net.load_state_dict({**model.net.state_dict()}, strict=False)
    pipeline = transformers.pipeline("fill-mask", model=net.eval(), tokenizer=model.tokenizer, device="cpu", top_k=10)

    ways = {"one row a prompt": lambda: cloze.answer(model, cloze.encoded(model, asked))}
    ways |= {f"pipeline, batches of {size:3}": partial(pipeline, texts, batch_size=size) for size in SIZES}
    cloze.answer(model, cloze.encoded(model, asked[:32]))  # to warm up
    pipeline(texts[:8])
    took = {way: [] for way in ways}
    for _ in range(rounds):  # all ways in turn, so that what disturbs the machine disturbs none of them alone
        found = {}
        for way, function in ways.items():
            taken, found[way] = seconds(function)
            took[way].append(taken)
    ours, *theirs = ways
    print(f"{name}, {len(asked)} prompts, {rounds} rounds, torch {torch.__version__}, "
          f"{torch.get_num_threads()} threads")
    print(f"  {ours:24} {1e3 * median(took[ours]) / len(asked):6.2f} ms a prompt")
    for way in theirs:
        ratios = [their / our for their, our in zip(took[way], took[ours])]
        gap = max(abs(float(p) - answer["score"]) for row, answers in zip(found[ours]["p"], found[way])
                  for p, answer in zip(row, answers))
        print(f"  {way:24} {1e3 * median(took[way]) / len(asked):6.2f} ms a prompt   ratio {median(ratios):5.2f} "
              f"({min(ratios):.2f} to {max(ratios):.2f})   largest difference of a probability {gap:.1e}")


def on_gpu(device: str, limit: int = 0):
    """All prompts through each of the seven shapes: seconds, prompts a second, share of peak, where the time goes."""
    asked, took, work = cloze.rows("winobias")[:limit or None], 0.0, 0.0
    for name, config in SHAPES.items():
        family = config.model_type
        kind = transformers.AutoModelForCausalLM if family == "gpt2" else transformers.AutoModelForMaskedLM
        model = flops.random_model(config, f"mini-{family}", name, device, kind=kind)
        texts = cloze.encoded(model, asked)
        cloze.answer(model, texts[:200])  # to warm up
        answer = partial(cloze.answer, model, texts)
        taken = min(flops.seconds(answer)[0] for _ in range(3))
        sizes = [len(text["input_ids"]) for text in texts]
        needed = flops.needed(config, sizes, rows=len(texts))
        took, work = took + taken, work + needed
        print(f"{name:14} {model.net.num_parameters() / 1e6:4.0f} M  {taken:6.2f} s  {len(texts) / taken:6.0f} a second"
              f"  {flops.share_of_peak(needed, taken, 'float32')}\n"
              f"    {flops.where_time_goes(answer)}", flush=True)
        del model, answer
    print(f"all seven: {took:.2f} s; {flops.share_of_peak(work, took, 'float32')}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu", help="cuda: the seven shapes; try: these on the CPU, with --limit")
    parser.add_argument("--limit", type=int, default=0, help="prompts for the seven shapes; 0: all")
    parser.add_argument("--model", default="mini-bert")
    parser.add_argument("--prompts", type=int, default=536)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    if options.device == "cpu":
        against_pipeline(options.model, options.prompts, options.rounds)
    else:
        card = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
        print(f"{card}, torch {torch.__version__}, transformers {transformers.__version__}, "
              f"float32, {batches.TOKENS['cuda']:,} tokens a batch")
        on_gpu("cpu" if options.device == "try" else options.device, options.limit)
