"""GLUE with heads masked: Bias A-head's Table 2, a run a task, mask and seed, each a small file of its own.

    python -m lib.bias_a_head.glue prepare --model mini-bert        encode the tasks, rank the heads (needs the texts)
    python -m lib.bias_a_head.glue run --model mini-bert --tasks CoLA,RTE --masks none,top3,all --seeds 0,1,2 --device cuda

`run` needs nothing but the model and what `prepare` wrote, so it can happen on another machine; what is done already
is not done again, and `--part 2/8` takes the second eighth of the runs, for several processes side by side.
A mask holds from the first step of fine-tuning on: whether the paper masks before or after it is not stated.
Choices (the best epoch) are made on a part of the training set, never on the evaluation set.
"""

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch

from lib import CompanionError, paths
from lib.engine import limit, models
from lib.publish.profile import read_profile
from lib.publish.run import replace, slug
from lib.training import finetune
from lib.training.finetune import accuracy

MASKS = {"none": "0 (Full)", "top3": "Top-3", "all": "All"}  # with their names in Table 2
HELD_OUT = .1  # of the training set, where the files have no validation part
LARGE = 20_000  # training examples from which on a profile's glue_large applies, not glue_small
RANKING, ABOUT = "heads.json", "tasks.json"  # beside the results: which heads, and what is known of the tasks
MISSING = {"QNLI": "of its files only the dev set is at hand", "QQP": "its files are not at hand",
           "MNLI": "its files are not at hand"}  # --profile paper reads them from the model hub


# Metrics, of predictions and labels

def f1(found: np.ndarray, wanted: np.ndarray) -> float:
    """Of class 1; 0 where it is neither found nor wanted."""
    both = ((found == 1) & (wanted == 1)).sum()
    return float(2 * both / max((found == 1).sum() + (wanted == 1).sum(), 1))


def matthews(found: np.ndarray, wanted: np.ndarray) -> float:
    """Matthews' correlation of two classes: Pearson's of zeros and ones, 0 where one side has a single class."""
    return pearson(found.astype(float), wanted.astype(float))


def pearson(found: np.ndarray, wanted: np.ndarray) -> float:
    found, wanted = found - found.mean(), wanted - wanted.mean()
    scale = np.sqrt((found ** 2).sum() * (wanted ** 2).sum())
    return float((found * wanted).sum() / scale) if scale else 0.


def spearman(found: np.ndarray, wanted: np.ndarray) -> float:
    """Pearson's of the ranks, equal values sharing their mean rank."""
    def ranks(values):
        _, which, count = np.unique(values, return_inverse=True, return_counts=True)
        return (count.cumsum() - (count - 1) / 2)[which]
    return pearson(ranks(found), ranks(wanted))


@dataclass(frozen=True)
class Task:
    """`metrics` as Table 2 prints them; `sets` are the evaluation sets; labels = 1: a number is to be met."""
    metrics: tuple
    labels: int = 2
    sets: tuple[str, ...] = ("evaluation",)

    @property
    def names(self) -> list[str]:
        return [metric.__name__ for metric in self.metrics] if len(self.sets) == 1 else list(self.sets)

    def scores(self, logits: np.ndarray, wanted: np.ndarray) -> list[float]:
        found = logits[:, 0] if self.labels == 1 else logits.argmax(1)
        return [metric(found, wanted) for metric in self.metrics]


TASKS = {  # in Table 2's order
    "RTE": Task((accuracy,)), "SST-2": Task((accuracy,)), "WNLI": Task((accuracy,)), "QNLI": Task((accuracy,)),
    "CoLA": Task((matthews,)), "MRPC": Task((f1, accuracy)), "QQP": Task((f1, accuracy)),
    "STS-B": Task((pearson, spearman), labels=1), "MNLI": Task((accuracy,), 3, ("matched", "mismatched")),
}


# Preparing

def prepare(name: str, source: str, tasks: list[str], folder: Path, out: Path):
    """Encode the tasks for a model into `folder`: the parts train, validation, and each evaluation set.

    source  "files": the copies at hand (readers.GLUE); "hub": all nine tasks
    out     where ABOUT is written: each task's examples by part, and `constant`, what one answer for all scores
    """
    from lib.text import readers  # these import pandas, which `run` can do without

    model, about = models.load(name, device="cpu"), {}
    for task in tasks:
        parts = {part: limit.first(readers.glue(task, part, source == "hub")) for part in ("train", *TASKS[task].sets)}
        if source == "files" and "validation" in readers.GLUE[task]:
            parts["validation"] = limit.first(readers.glue(task, "validation"))
        else:
            order = np.random.default_rng(0).permutation(len(parts["train"]))  # the same for every seed and mask
            n = round(HELD_OUT * len(order))
            whole = parts["train"]
            parts |= {"validation": whole.iloc[np.sort(order[:n])], "train": whole.iloc[np.sort(order[n:])]}
        for part, frame in parts.items():
            pairs = list(frame["second"]) if (frame["second"] != "").any() else None
            finetune.encode(model, list(frame["first"]), pairs, frame["label"].tolist()).save(
                folder / f"{task}.{part}.npz")
        about[task] = {"examples": {part: len(frame) for part, frame in parts.items()},
                       "constant": [score for part in TASKS[task].sets
                                    for score in constant(TASKS[task], parts[part]["label"].to_numpy())]}
    finetune.sign(folder, model, source)
    replace(out / ABOUT, (json.dumps(about, indent=1) + "\n").encode())


def constant(task: Task, wanted: np.ndarray) -> list[float]:
    """For each metric the best score that one answer for all gets: whoever has not more has learned nothing."""
    answers = [np.tile(row, (len(wanted), 1)) for row in np.eye(task.labels)]
    return [round(max(scores), 6) for scores in zip(*(task.scores(logits, wanted) for logits in answers))]


def rank(name: str, data: str, contexts: int, file: Path, seed: int = 0, device: str | None = None):
    """Write the heads of positive bias score, highest first, as notebook 04 ranks them, to `file`."""
    from lib.bias_a_head import heads

    found = heads.measure(name, "gender", data, contexts, 1, seed, device=device)
    order = heads.positive(found["scores"])
    record = {"model": name, "revision": models.locate(name)[1], "bias": "gender", "data": data, "contexts": contexts,
              "sentences": found["sentences"], "seat": round(found["seat"], 4), "heads": order}
    replace(file, (json.dumps(record) + "\n").encode())


# Running

def settings(profile: dict, n_train: int, seed: int) -> finetune.Settings:
    """As the profile says for a training set of this size."""
    return finetune.Settings(**profile["sizes"]["glue_large" if n_train >= LARGE else "glue_small"], seed=seed)


def run(name: str, profile: dict, prepared: Path, out: Path, task: str, mask: str, seed: int,
        device: str | None = None, limit: int = 0, progress: bool = False) -> dict:
    """One fine-tuning, or what it gave when it was done before. Writes `out`/TASK_MASK_SEED.json.

    limit  take so many examples of each part alone: for a try
    """
    chosen, made = _heads(out, mask), finetune.check(prepared, name)
    parts = {part: finetune.load(prepared / f"{task}.{part}.npz")
             for part in ("train", "validation", *TASKS[task].sets)}
    if limit:
        parts = {part: found.take(range(min(limit, len(found)))) for part, found in parts.items()}
    how = settings(profile, len(parts["train"]), seed)
    record = {"task": task, "mask": mask, "seed": seed, "model": name, "revision": made["revision"],
              "source": made["source"], "heads": len(chosen), "examples": {part: len(parts[part]) for part in parts},
              "cut": sum(int(parts[part].cut) for part in parts), "settings": asdict(how)}
    file = out / f"{task}_{mask}_{seed}.json"
    if file.exists() and _same(stored := json.loads(file.read_text()), record):
        return stored
    torch.manual_seed(seed)  # the new head's weights
    model = models.load(name, device=device, task="sequence-classification", labels=TASKS[task].labels)
    zeros = torch.ones(model.n_layers, model.n_heads)
    for layer, head in chosen:
        zeros[layer - 1, head - 1] = 0
    zeros = zeros.to(model.device) if chosen else None
    record |= finetune.fit(model, parts["train"], parts["validation"],
                           lambda logits, wanted: np.mean(TASKS[task].scores(logits, wanted)), how, zeros,
                           file.with_suffix(".safetensors"), progress=f"{task} {mask} {seed}" if progress else "")
    scores = [score for part in TASKS[task].sets
              for score in TASKS[task].scores(finetune.predict(model, parts[part], zeros), parts[part].targets.numpy())]
    record |= {"scores": [round(score, 6) for score in scores], "device": model.device.type,
               "torch": torch.__version__.split("+")[0]}
    replace(file, (json.dumps(record) + "\n").encode())
    return record


def _same(stored: dict, record: dict) -> bool:
    """Whether a stored run was made from the same things."""
    return all(stored.get(key) == json.loads(json.dumps(value)) for key, value in record.items())


def _heads(out: Path, mask: str) -> list:
    if mask == "none":
        return []
    if not (out / RANKING).is_file():
        raise CompanionError(f"{out} has no {RANKING}, which says what to mask: run `python -m lib.bias_a_head.glue prepare`.")
    ranked = json.loads((out / RANKING).read_text())["heads"]
    return ranked[:3] if mask == "top3" else ranked


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m lib.bias_a_head.glue", description=__doc__.split("\n")[0])
    parser.add_argument("command", choices=["prepare", "run"])
    parser.add_argument("--profile", default="mini", help="whose settings and model are taken")
    parser.add_argument("--model", default="", help="left out: the profile's encoder")
    parser.add_argument("--source", choices=["files", "hub"], help="left out: hub with the profile paper, else files")
    parser.add_argument("--tasks", default="", help="CoLA,RTE; left out: all that the source has")
    parser.add_argument("--masks", default=",".join(MASKS))
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--part", default="1/1", help="2/8: the second eighth of the runs")
    parser.add_argument("--prepared", type=Path, help="where the encoded tasks lie; left out: in the cache")
    parser.add_argument("--out", type=Path, default=paths.FIGURES / "mini-real" / "05_glue", help="where results go")
    parser.add_argument("--limit", type=int, default=0, help="so many examples of each part: for a try")
    parser.add_argument("--device")
    given = parser.parse_args(arguments)
    try:
        profile = read_profile(given.profile)
        name = given.model or profile["models"]["encoder"]
        source = given.source or ("hub" if given.profile == "paper" else "files")
        folder = given.prepared or paths.CACHE / "glue" / f"{slug(name)}-{source}"
        tasks = _names(given.tasks, available(source))
        if given.command == "prepare":
            rank(name, "paper", profile["sizes"]["heads_contexts"], given.out / RANKING, device=given.device)
            prepare(name, source, tasks, folder, given.out)
            return 0
        first, step = map(int, given.part.split("/"))
        for task, mask, seed in plan(tasks, _names(given.masks, list(MASKS)), given.seeds.split(","))[first - 1::step]:
            done = run(name, profile, folder, given.out, task, mask, int(seed), given.device, given.limit, True)
            print(f"{task:6}{mask:5}{seed:2} {done['scores']} epoch {done['best']} of {done['epochs']}", flush=True)
    except CompanionError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def available(source: str) -> list[str]:
    """The tasks that a source has."""
    return [task for task in TASKS if source == "hub" or task not in MISSING]


def plan(tasks: list[str], masks: list[str], seeds: list) -> list[tuple]:
    """Every run, a task's together: dealt out to nine processes, each gets one of every task."""
    return [(task, mask, seed) for task in tasks for mask in masks for seed in seeds]


def _names(given: str, known: list[str]) -> list[str]:
    names = given.split(",") if given else known
    for name in names:
        if name not in known:
            raise CompanionError(f"'{name}' is not among what can be run: choose from {', '.join(known)}.")
    return names


if __name__ == "__main__":
    sys.exit(main())
