"""GLUE with heads masked: the measurement behind Bias A-head's Table 2, one run per task, mask and seed.

    python -m lib.bias_a_head.glue prepare --model mini-bert    encode the tasks, rank the heads (needs the texts)
    python -m lib.bias_a_head.glue run --model mini-bert --tasks CoLA RTE --part 2/8 --device cuda

`run` needs only the model and what `prepare` wrote, so it can happen on another machine. Each result is a file of its
own, TASK_MASK_SEED.json. None is made twice or removed, nor written over by one of other weights, settings or examples:
that one gets a fingerprint in its name, and `stored` hands out those that are asked for.
A mask is on from the first step of fine-tuning: whether the paper masks before or after it is not stated.
Choices (the best epoch) are made on a part of the training set, never on the evaluation set."""

import argparse
import hashlib
import json
import sys
import tomllib
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from scipy.stats import rankdata

from lib import CompanionError, paths
from lib.bias_a_head import heads
from lib.engine import files, finetune, models, stats
from lib.engine.finetune import accuracy
from lib.text import data, readers

MASKS = {"none": "0 (Full)", "top3": "Top-3", "all": "All"}  # with their names in Table 2
RANDOM = {
    "random3": "Random-3",
    "randomall": "Random-All",
}  # as many heads, drawn by the seed: of tasks learned
LEARNED = 0.02  # by how much the unmasked model must be above one answer for all, or masking has nothing to take away
SEEDS = 6  # of every task and mask
HELD_OUT = 0.1  # of the training set, where the files have no validation part
LARGE = 20_000  # training examples from which on a profile's glue_large applies, not glue_small
MISSING = {
    "QNLI": "of its files only the dev set is at hand",
    "QQP": "its files are not at hand",
    "MNLI": "its files are not at hand",
}  # --profile paper reads them from the model hub


# Metrics, of predictions and labels
def f1(given: np.ndarray, wanted: np.ndarray) -> float:
    """Of class 1; 0 where it is neither given nor wanted."""
    both = ((given == 1) & (wanted == 1)).sum()
    return float(2 * both / max((given == 1).sum() + (wanted == 1).sum(), 1))


def pearson(given: np.ndarray, wanted: np.ndarray) -> float:
    """The correlation; 0 where one side is constant."""
    return float(np.corrcoef(given, wanted)[0, 1]) if np.ptp(given) and np.ptp(wanted) else 0.0


def matthews(given: np.ndarray, wanted: np.ndarray) -> float:
    """Matthews' correlation of two classes is Pearson's of zeros and ones."""
    return pearson(given.astype(float), wanted.astype(float))


def spearman(given: np.ndarray, wanted: np.ndarray) -> float:
    return pearson(rankdata(given), rankdata(wanted))


@dataclass(frozen=True)
class Task:
    """`metrics` as Table 2 prints them; `sets` are the evaluation sets; labels = 1: a number is to be met."""

    metrics: tuple
    labels: int = 2
    sets: tuple[str, ...] = ("evaluation",)

    @property
    def names(self) -> list[str]:
        return (
            [metric.__name__ for metric in self.metrics] if len(self.sets) == 1 else list(self.sets)
        )

    def scores(self, logits: np.ndarray, wanted: np.ndarray) -> list[float]:
        given = logits[:, 0] if self.labels == 1 else logits.argmax(1)
        return [metric(given, wanted) for metric in self.metrics]

    def constant(self, wanted: np.ndarray) -> list[float]:
        """For each metric the best score of one answer for all: a model that has no more has learned nothing."""
        answers = [np.tile(row, (len(wanted), 1)) for row in np.eye(self.labels)]
        return [max(scores) for scores in zip(*(self.scores(logits, wanted) for logits in answers))]


TASKS = {  # in Table 2's order
    "RTE": Task((accuracy,)),
    "SST-2": Task((accuracy,)),
    "WNLI": Task((accuracy,)),
    "QNLI": Task((accuracy,)),
    "CoLA": Task((matthews,)),
    "MRPC": Task((f1, accuracy)),
    "QQP": Task((f1, accuracy)),
    "STS-B": Task((pearson, spearman), labels=1),
    "MNLI": Task((accuracy,), 3, ("matched", "mismatched")),
}


# What all runs share, and where their results are
@dataclass(frozen=True)
class Setup:
    """`sizes` are a profile's: heads_contexts, glue_small, glue_large. `source` is "files", the copies at hand
    (readers.GLUE), or "hub", all nine tasks. `items` cuts each part of a task for a try; 0: all."""

    model: str
    sizes: dict
    out: Path
    source: str = "files"
    items: int = 0
    device: str | None = None

    @property
    def texts(self) -> str:
        """What is learned from, as results name it."""
        return self.source + (f"-limit{self.items}" if self.items else "")

    @property
    def prepared(self) -> Path:
        return paths.CACHE / "glue" / f"{files.slug(self.model)}-{self.texts}"

    @property
    def tasks(self) -> list[str]:
        return [task for task in TASKS if self.source == "hub" or task not in MISSING]

    def settings(self, n_train: int) -> dict:
        return self.sizes["glue_large" if n_train >= LARGE else "glue_small"]


def asked(run, shown: Path) -> tuple[Setup, bool]:
    """A run's setup, and whether it fine-tunes: on the papers' data, with the profile paper, or where everything is to
    be computed again and the files are at hand. Every other run takes the results in `shown`, the full run's folder."""
    at_hand = all(
        data.available(f"glue/{name}.tsv")
        for parts in readers.GLUE.values()
        for name in parts.values()
    )
    trains = run.data == "paper" and (run.profile == "paper" or run.recompute and at_hand)
    if not trains and (paths.BUILD / shown.name / "figures" / "05_glue").is_dir():  # made here
        shown = paths.BUILD / shown.name / "figures"
    folder, items = (run.out, run.sizes.items) if trains else (shown, 0)
    source = "hub" if run.profile == "paper" else "files"
    return Setup(
        run.encoder, vars(run.sizes), folder / "05_glue", source, items, run.device
    ), trains


def stored(setup: Setup) -> tuple[list[dict], int]:
    """The model's results, one per task, mask and seed; and how many are of other weights, settings or examples."""
    places = sorted(setup.out.glob("*_*_*.json"), key=lambda file: (len(file.name), file.name))
    revision = models.locate(setup.model)[1] if places else ""
    results = {}
    for result in (json.loads(file.read_text()) for file in places):
        same_settings = (
            setup.settings(result["examples"]["train"]).items() <= result["settings"].items()
        )
        same_texts = (
            result["source"] == setup.texts if setup.items else "-limit" not in result["source"]
        )
        if same_settings and same_texts and result["revision"] == revision:
            results.setdefault((result["task"], result["mask"], result["seed"]), result)
    return list(results.values()), len(places) - len(results)


def _place(out: Path, name: str, question: dict) -> Path:
    """Where the answer to a question is stored: name.json, or beside it, where that file answers another one."""
    file, question = out / f"{name}.json", json.loads(json.dumps(question))
    if not file.exists() or question.items() <= json.loads(file.read_text()).items():
        return file
    return (
        out
        / f"{name}.{hashlib.sha256(json.dumps(question, sort_keys=True).encode()).hexdigest()[:8]}.json"
    )


# Preparing and running
def prepare(setup: Setup, tasks: list[str] | None = None):
    """Rank the heads, and encode the parts of the tasks (none: all): train, validation, and each evaluation set."""
    ranked(setup)
    model, on_hub = models.load(setup.model, device="cpu"), setup.source == "hub"
    for task in tasks or setup.tasks:
        own = ["validation"] if not on_hub and "validation" in readers.GLUE.get(task, {}) else []
        parts = {
            part: stats.first(readers.glue(task, part, on_hub), setup.items)
            for part in ("train", *TASKS[task].sets, *own)
        }
        if not own:
            whole = parts["train"]
            order = np.random.default_rng(0).permutation(
                len(whole)
            )  # the same for every seed and mask
            n = round(HELD_OUT * len(order))
            parts |= {
                "validation": whole.iloc[np.sort(order[:n])],
                "train": whole.iloc[np.sort(order[n:])],
            }
        for part, frame in parts.items():
            pairs = list(frame["second"]) if (frame["second"] != "").any() else None
            encoded = finetune.encode(model, list(frame["first"]), pairs, frame["label"].tolist())
            encoded.save(setup.prepared / f"{task}.{part}.npz")
    finetune.sign(setup.prepared, model, setup.texts)


def ranked(setup: Setup) -> list:
    """The heads of positive bias score, highest first, as notebook 04 ranks them on the papers' data; measured once."""
    question = {
        "model": setup.model,
        "revision": models.locate(setup.model)[1],
        "bias": "gender",
        "data": "paper",
        "contexts": setup.sizes["heads_contexts"],
    } | ({"items": setup.items} if setup.items else {})
    file = _place(setup.out, "heads", question)
    if not file.exists():
        readers.corpus(stand_ins=setup.source != "hub")  # the profile paper takes none
        scored = heads.measure(
            setup.model,
            "gender",
            "paper",
            question["contexts"],
            1,
            items=setup.items,
            device=setup.device,
        )
        record = question | {
            "sentences": scored["sentences"],
            "seat": round(scored["seat"], 4),
            "heads": heads.positive(scored["scores"]),
        }
        files.replace(file, (json.dumps(record) + "\n").encode())
    return json.loads(file.read_text())["heads"]


def run(setup: Setup, task: str, mask: str, seed: int, again: bool = False) -> dict:
    """One fine-tuning, or what it gave when it was done before, unless it is to be done `again`."""
    rule, made = TASKS[task], finetune.check(setup.prepared, setup.model)
    chosen = [] if mask == "none" else ranked(setup)[: 3 if mask.endswith("3") else None]
    parts = {
        part: finetune.load(setup.prepared / f"{task}.{part}.npz")
        for part in ("train", "validation", *rule.sets)
    }
    how = finetune.Settings(**setup.settings(len(parts["train"])), seed=seed)
    record = {
        "task": task,
        "mask": mask,
        "seed": seed,
        "model": setup.model,
        "revision": made["revision"],
        "source": made["source"],
        "heads": len(chosen),
        "examples": {part: len(parts[part]) for part in parts},
        "cut": sum(int(parts[part].cut) for part in parts),
        "settings": asdict(how),
    }
    file = _place(setup.out, f"{task}_{mask}_{seed}", record)
    if file.exists() and not again:
        return json.loads(file.read_text())
    torch.manual_seed(seed)  # the new head's weights
    model = models.load(
        setup.model, device=setup.device, task="sequence-classification", labels=rule.labels
    )
    if mask in RANDOM:
        chosen = heads.random(torch.ones(model.n_layers, model.n_heads), len(chosen), seed)
    zeros = heads.mask(model, chosen).to(model.device) if chosen else None
    record |= finetune.fit(
        model,
        parts["train"],
        parts["validation"],
        lambda logits, wanted: np.mean(rule.scores(logits, wanted)),
        how,
        zeros,
        file.with_suffix(".safetensors"),
        progress=f"{task} {mask} {seed}",
    )
    record |= {
        "scores": [],
        "constant": [],
        "device": model.device.type,
        "torch": torch.__version__.split("+")[0],
    }
    for part in rule.sets:
        wanted = parts[part].targets.numpy()
        scores = rule.scores(finetune.predict(model, parts[part], zeros), wanted)
        record["scores"] += [round(score, 6) for score in scores]
        record["constant"] += [round(score, 6) for score in rule.constant(wanted)]
    files.replace(file, (json.dumps(record) + "\n").encode())
    return record


def make(setup: Setup, tasks: list[str] | None = None, part: str = "1/1", again: bool = False):
    """Every run of these tasks (none: all) that is not stored yet, or all of them `again`: hours on a CPU. Random heads
    are masked in tasks that the unmasked model is known to have learned: ask again once it is done."""
    first, step = map(int, part.split("/"))
    full = [result for result in stored(setup)[0] if result["mask"] == "none"]
    learned = {
        result["task"] for result in full if result["scores"][0] > result["constant"][0] + LEARNED
    }
    every = [
        (task, mask, seed)
        for task in tasks or setup.tasks
        for mask in MASKS | (RANDOM if task in learned else {})
        for seed in range(2 if setup.items else SEEDS)
    ]  # dealt out to nine processes, each gets one of every task
    for task, mask, seed in every[first - 1 :: step]:
        done = run(setup, task, mask, seed, again)
        print(
            f"{task:6}{mask:5}{seed:2} {done['scores']} epoch {done['best']} of {done['epochs']}",
            flush=True,
        )


def main(arguments=None):
    parser = argparse.ArgumentParser(
        prog="python -m lib.bias_a_head.glue", description=__doc__.split("\n")[0]
    )
    parser.add_argument("command", choices=["prepare", "run"])
    parser.add_argument(
        "--profile",
        default="mini",
        choices=[file.stem for file in paths.PROFILES.glob("*.toml")],
        help="whose settings and model are taken; paper: with the tasks of the hub",
    )
    parser.add_argument("--model", help="left out: the profile's encoder")
    parser.add_argument(
        "--tasks", nargs="+", choices=list(TASKS), help="left out: all that there are"
    )
    parser.add_argument("--part", default="1/1", help="2/8: the second eighth of the runs")
    parser.add_argument(
        "--out",
        type=Path,
        default=paths.BUILD / "mini-real" / "figures" / "05_glue",
        help="where results go; figures/mini-real/05_glue for those that the repository stores",
    )
    parser.add_argument(
        "--limit", type=int, default=0, help="so many examples of each part: for a try"
    )
    parser.add_argument("--device")
    given = parser.parse_args(arguments)
    try:
        profile = tomllib.loads((paths.PROFILES / f"{given.profile}.toml").read_text())
        setup = Setup(
            given.model or profile["models"]["encoder"],
            profile["sizes"],
            given.out,
            "hub" if given.profile == "paper" else "files",
            given.limit,
            given.device,
        )
        prepare(setup, given.tasks) if given.command == "prepare" else make(
            setup, given.tasks, given.part
        )
    except CompanionError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
