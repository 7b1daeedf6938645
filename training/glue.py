"""GLUE with heads masked: the measurement behind Bias A-head's Table 2.

    python -m training glue prepare    # encode the tasks, rank the heads
    python -m training glue run --tasks CoLA RTE --device cuda

There is one run per task, mask and seed. `prepare` needs the texts; `run` needs only the model and
what `prepare` wrote, so that it can happen on another machine. Each result is a file of its own,
TASK_MASK_SEED.json. No result is computed twice, removed, or overwritten by one of other weights,
settings or examples: that one gets a fingerprint in its name, and `stored` returns those asked for.

A mask is on from the first step of fine-tuning: whether the paper masks before or after it is not
stated. Choices (the best epoch) are made on a part of the training set, never on the evaluation
set.
"""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from scipy import stats as scipy_stats
from sklearn import metrics as sklearn_metrics

from lib import paths
from lib.bias_a_head import heads
from lib.engine import files, folders, models, stats
from lib.text import data, readers
from training import finetune

# what is masked, with its name in Table 2
MASKS = {"none": "0 (Full)", "top3": "Top-3", "all": "All"}
# as many heads, drawn by the seed: for tasks that the unmasked model has learned
RANDOM = {"random3": "Random-3", "randomall": "Random-All"}
# by how much the unmasked model must beat one answer for all: otherwise masking can lower nothing
LEARNED = 0.02
SEEDS = 6  # of every task and mask
HELD_OUT = 0.1  # of the training set, where the files have no validation part
LARGE = 20_000  # training examples from which a profile's glue_large applies, not glue_small
# `--profile paper` reads these tasks from the model hub
MISSING = {
    "QNLI": "of its files only the dev set is at hand",
    "QQP": "its files are not at hand",
    "MNLI": "its files are not at hand",
}


# ---- metrics, of predictions and labels
def f1(given: np.ndarray, wanted: np.ndarray) -> float:
    """F1 of class 1; 0 where it is neither given nor wanted."""
    return float(sklearn_metrics.f1_score(wanted, given, zero_division=0))


def matthews(given: np.ndarray, wanted: np.ndarray) -> float:
    """Matthews' correlation of two classes; 0 where one side is constant."""
    if np.ptp(given) == 0 or np.ptp(wanted) == 0:
        return 0.0  # of a single label scikit-learn would warn
    return float(sklearn_metrics.matthews_corrcoef(wanted, given))


def pearson(given: np.ndarray, wanted: np.ndarray) -> float:
    """Pearson's correlation; 0 where one side is constant (scipy gives nan)."""
    if np.ptp(given) == 0 or np.ptp(wanted) == 0:
        return 0.0
    # float64: of a network's float32 outputs scipy would compute in float32
    found = scipy_stats.pearsonr(given.astype(float), wanted.astype(float))
    return float(found.statistic)


def spearman(given: np.ndarray, wanted: np.ndarray) -> float:
    """Spearman's rank correlation; 0 where one side is constant (scipy gives nan)."""
    if np.ptp(given) == 0 or np.ptp(wanted) == 0:
        return 0.0
    return float(scipy_stats.spearmanr(given, wanted).statistic)


@dataclass(frozen=True)
class Task:
    """One task of GLUE."""

    metrics: tuple  # functions, in Table 2's order
    labels: int = 2  # classes; 1: regression
    sets: tuple[str, ...] = ("evaluation",)  # the evaluation sets

    @property
    def names(self) -> list[str]:
        """What Table 2 calls the scores: by metric, or by set where there are several."""
        if len(self.sets) > 1:
            return list(self.sets)
        return [metric.__name__ for metric in self.metrics]

    def scores(self, logits: np.ndarray, wanted: np.ndarray) -> list[float]:
        """The score by each metric."""
        given = logits[:, 0] if self.labels == 1 else logits.argmax(1)
        return [metric(given, wanted) for metric in self.metrics]

    def constant(self, wanted: np.ndarray) -> list[float]:
        """The best score of one answer for all, by each metric: what chance can reach."""
        by_answer = []
        for row in np.eye(self.labels):
            logits = np.tile(row, (len(wanted), 1))
            by_answer.append(self.scores(logits, wanted))
        return [max(scores) for scores in zip(*by_answer)]


TASKS = {  # in Table 2's order
    "RTE": Task((finetune.accuracy,)),
    "SST-2": Task((finetune.accuracy,)),
    "WNLI": Task((finetune.accuracy,)),
    "QNLI": Task((finetune.accuracy,)),
    "CoLA": Task((matthews,)),
    "MRPC": Task((f1, finetune.accuracy)),
    "QQP": Task((f1, finetune.accuracy)),
    "STS-B": Task((pearson, spearman), labels=1),
    "MNLI": Task((finetune.accuracy,), labels=3, sets=("matched", "mismatched")),
}


# ---- what all runs share, and where their results are
@dataclass(frozen=True)
class Setup:
    """What all runs of a model share."""

    model: str
    sizes: dict  # a profile's: heads_contexts, glue_small, glue_large
    out: Path  # the folder of results
    source: str = "files"  # "files": the copies at hand (readers.GLUE); "hub": all nine tasks
    items: int = 0  # cuts each part of a task for a try; 0: all
    device: str | None = None

    @property
    def texts(self) -> str:
        """What is learned from, as results name it."""
        return f"{self.source}-limit{self.items}" if self.items else self.source

    @property
    def prepared(self) -> Path:
        """The folder that `prepare` writes."""
        return paths.CACHE / "glue" / f"{files.slug(self.model)}-{self.texts}"

    @property
    def tasks(self) -> list[str]:
        """The tasks whose texts this source has."""
        return [task for task in TASKS if self.source == "hub" or task not in MISSING]

    def settings(self, n_train: int) -> dict:
        """How a training set of this size is fine-tuned on."""
        return self.sizes["glue_large" if n_train >= LARGE else "glue_small"]


def setup_by_profile(
    profile: str, model: str | None, out: Path, items: int = 0, device: str | None = None
) -> Setup:
    """A profile's settings, for its encoder or another model; `paper` has the tasks of the hub."""
    models_of = {}
    sizes = {}
    for name in ("mini", profile):  # a profile's file says what differs from mini
        content = files.read_toml(paths.PROFILES / f"{name}.toml")
        models_of |= content.get("models", {})
        sizes |= content.get("sizes", {})
    return Setup(
        model=model or models_of["encoder"],
        sizes=sizes,
        out=out,
        source="hub" if profile == "paper" else "files",
        items=items,
        device=device,
    )


def setup_of(run, shown: Path) -> tuple[Setup, bool]:
    """The setup of a run, and whether it fine-tunes.

    It does so on the papers' data, with the profile paper, or where everything is to be computed
    again and the files are at hand. Every other run takes the results in `shown`, the full run's
    folder.
    """
    trains = run.data == "paper" and (
        run.profile == "paper" or (run.recompute and _has_all_files())
    )
    if trains:
        folder = run.out
        items = run.sizes.items
    else:
        made_here = paths.BUILD / shown.name / "figures"
        folder = made_here if (made_here / "05_glue").is_dir() else shown
        items = 0
    setup = Setup(
        model=run.encoder,
        sizes=vars(run.sizes),
        out=folder / "05_glue",
        source="hub" if run.profile == "paper" else "files",
        items=items,
        device=run.device,
    )
    return setup, trains


def _has_all_files() -> bool:
    """Whether the texts of all tasks that do not need the hub are at hand."""
    for parts in readers.GLUE.values():
        for name in parts.values():
            if not data.available(f"glue/{name}.tsv"):
                return False
    return True


def stored(setup: Setup) -> tuple[list[dict], int]:
    """The model's results, one per task, mask and seed; and how many stored ones do not apply.

    Those are of other weights, settings or examples.
    """
    places = sorted(setup.out.glob("*_*_*.json"), key=lambda file: (len(file.name), file.name))
    revision = folders.locate(setup.model)[1] if places else ""
    results = {}
    for file in places:
        result = finetune.read_record(file)
        if result.get("revision") == revision and _has_same_settings(setup, result):
            results.setdefault((result["task"], result["mask"], result["seed"]), result)
    return list(results.values()), len(places) - len(results)


def by_run(results: list[dict]) -> pd.DataFrame:
    """One row per run and metric, in Table 2's order, masks and seeds in turn.

    Columns: task, row (task and metric), mask (as Table 2 calls it), seed, score, and constant: the
    best score that one answer for every example gets.
    """
    tasks = list(TASKS)
    names = MASKS | RANDOM
    masks = list(names)

    def place(result: dict) -> tuple:
        return tasks.index(result["task"]), masks.index(result["mask"]), result["seed"]

    rows = []
    for result in sorted(results, key=place):
        task = result["task"]
        scores = zip(TASKS[task].names, result["scores"], result["constant"])
        for metric, score, constant in scores:
            mask = names[result["mask"]]
            rows.append([task, f"{task} {metric}", mask, result["seed"], score, constant])
    return pd.DataFrame(rows, columns=["task", "row", "mask", "seed", "score", "constant"])


def finished(runs: pd.DataFrame) -> pd.DataFrame:
    """Of `by_run`, the tasks in which every mask was run with the same seeds, two or more: a mean
    over whatever happens to be done would mislead. Random heads need not have been masked.
    """
    is_of_paper = runs["mask"].isin(MASKS.values())
    tasks = []
    for task, rows in runs[is_of_paper].groupby("task"):
        seeds = rows.groupby("mask")["seed"].agg(frozenset)
        if len(seeds) == len(MASKS) and seeds.nunique() == 1 and len(seeds.iloc[0]) > 1:
            tasks.append(task)
    return runs[runs["task"].isin(tasks)]


def _has_same_settings(setup: Setup, result: dict) -> bool:
    """Whether a stored result was made with this setup's settings, and on as many texts.

    A full setup takes any full result, from files or from the hub.
    """
    wanted = setup.settings(result["examples"]["train"])
    if not wanted.items() <= result["settings"].items():
        return False
    if setup.items:
        return result["source"] == setup.texts
    return "-limit" not in result["source"]


def _place(out: Path, name: str, question: dict) -> Path:
    """Where the answer to a question is stored.

    It is name.json, or a file beside it where that file answers another question.
    """
    file = out / f"{name}.json"
    question = json.loads(json.dumps(question))  # as a file has it: lists for tuples
    if not file.exists() or question.items() <= finetune.read_record(file).items():
        return file
    text = json.dumps(question, sort_keys=True)
    fingerprint = hashlib.sha256(text.encode()).hexdigest()[:8]
    return out / f"{name}.{fingerprint}.json"


# ---- preparing
def prepare(setup: Setup, tasks: list[str] | None = None) -> dict[str, dict[str, int]]:
    """Rank the heads, and encode the parts of the tasks; None: all tasks.

    The parts are train, validation, and each evaluation set; how many examples each has.
    """
    ranked(setup)
    model = models.load(setup.model, device="cpu")
    counts = {}
    for task in tasks or setup.tasks:
        counts[task] = {}
        for part, frame in _parts(setup, task).items():
            has_pairs = (frame["second"] != "").any()
            encoded = finetune.encode(
                model,
                list(frame["first"]),
                list(frame["second"]) if has_pairs else None,
                frame["label"].tolist(),
            )
            encoded.save(setup.prepared / f"{task}.{part}.npz")
            counts[task][part] = len(frame)
    finetune.sign(setup.prepared, model, setup.texts)
    return counts


def _parts(setup: Setup, task: str) -> dict[str, pd.DataFrame]:
    """The texts and labels of a task's parts.

    Where the files have no validation part, it is drawn from the training set.
    """
    on_hub = setup.source == "hub"
    names = ["train", *TASKS[task].sets]
    has_validation = not on_hub and "validation" in readers.GLUE.get(task, {})
    if has_validation:
        names.append("validation")
    parts = {}
    for part in names:
        parts[part] = stats.first(readers.glue(task, part, on_hub), setup.items)
    if not has_validation:
        whole = parts["train"]
        order = np.random.default_rng(0).permutation(len(whole))  # the same for every seed and mask
        n = round(HELD_OUT * len(order))
        parts["validation"] = whole.iloc[np.sort(order[:n])]
        parts["train"] = whole.iloc[np.sort(order[n:])]
    return parts


def ranked(setup: Setup) -> list:
    """The heads of positive bias score on the papers' data, highest first; measured once."""
    question = {
        "model": setup.model,
        "revision": folders.locate(setup.model)[1],
        "bias": "gender",
        "data": "paper",
        "contexts": setup.sizes["heads_contexts"],
    }
    if setup.items:
        question["items"] = setup.items
    file = _place(setup.out, "heads", question)
    if not file.exists():
        readers.corpus(stand_ins=setup.source != "hub")  # the profile paper takes none
        sample = heads.Sample("paper", contexts=question["contexts"], items=setup.items)
        scored = heads.measure(setup.model, "gender", sample, device=setup.device)
        record = question | {
            "sentences": scored["sentences"],
            "seat": round(scored["seat"], 4),
            "heads": heads.positive(scored["scores"]),
        }
        _write(file, record)
    return finetune.read_record(file)["heads"]


def _write(file: Path, record: dict):
    files.replace(file, (json.dumps(record) + "\n").encode())


# ---- running
def run(setup: Setup, task: str, mask: str, seed: int, again: bool = False) -> dict:
    """One fine-tuning, or its stored result, unless it is to be done `again`."""
    made = finetune.check(setup.prepared, setup.model)
    parts = {}
    for part in ("train", "validation", *TASKS[task].sets):
        parts[part] = finetune.load(setup.prepared / f"{task}.{part}.npz")
    chosen = _heads_to_mask(setup, mask)
    settings = finetune.Settings(**setup.settings(len(parts["train"])), seed=seed)
    record = {
        "task": task,
        "mask": mask,
        "seed": seed,
        "model": setup.model,
        "revision": made["revision"],
        "source": made["source"],
        "heads": len(chosen),
        "examples": {part: len(examples) for part, examples in parts.items()},
        "cut": sum(int(examples.cut) for examples in parts.values()),
        "settings": asdict(settings),
    }
    file = _place(setup.out, f"{task}_{mask}_{seed}", record)
    if file.exists() and not again:
        return finetune.read_record(file)
    checkpoint = file.with_suffix(".checkpoint")  # torch reads .safetensors as what it is called
    record |= _fine_tuned(setup, record, parts, chosen, settings, checkpoint)
    _write(file, record)
    return record


def _heads_to_mask(setup: Setup, mask: str) -> list:
    """(layer, head) of the heads of a mask; of a random one these say how many."""
    if mask == "none":
        return []
    if mask.endswith("3"):
        return ranked(setup)[:3]
    return ranked(setup)


def _fine_tuned(
    setup: Setup,
    about: dict,
    parts: dict[str, finetune.Examples],
    chosen: list,
    settings: finetune.Settings,
    checkpoint: Path,
) -> dict:
    """Fine-tune with heads masked, and score the evaluation sets: what a record says of that."""
    rule = TASKS[about["task"]]
    torch.manual_seed(settings.seed)  # the new head's weights
    model = models.load(
        setup.model, device=setup.device, task="sequence-classification", labels=rule.labels
    )
    if about["mask"] in RANDOM:
        every_head = torch.ones(model.n_layers, model.n_heads)
        chosen = heads.random(every_head, len(chosen), settings.seed)
    zeros = heads.mask(model, chosen).to(model.device) if chosen else None
    found = finetune.fit(
        model,
        parts["train"],
        parts["validation"],
        lambda logits, wanted: np.mean(rule.scores(logits, wanted)),
        settings,
        zeros,
        checkpoint,
        progress="{task} {mask} {seed}".format(**about),
    )
    scores = []
    constant = []
    for part in rule.sets:
        wanted = parts[part].targets.numpy()
        logits = finetune.predict(model, parts[part], zeros)
        scores += [round(score, 6) for score in rule.scores(logits, wanted)]
        constant += [round(score, 6) for score in rule.constant(wanted)]
    return found | {
        "scores": scores,
        "constant": constant,
        "device": model.device.type,
        "torch": torch.__version__.split("+")[0],
    }


def make(setup: Setup, tasks: list[str] | None = None, again: bool = False) -> dict[str, int]:
    """Every run of these tasks that is not stored yet, or all of them `again`: hours on a CPU.

    Random heads are masked in tasks that the unmasked model is known to have learned: call it a
    second time once those are done. Returns how many runs there are.

    tasks   None: all
    """
    every = _runs(setup, tasks or setup.tasks)
    for task, mask, seed in every:
        done = run(setup, task, mask, seed, again)
        print(
            f"{task:6}{mask:5}{seed:2} {done['scores']} epoch {done['best']} of {done['epochs']}",
            flush=True,
        )
    return {"runs": len(every)}


def _runs(setup: Setup, tasks: list[str]) -> list[tuple[str, str, int]]:
    """(task, mask, seed) of every run that these tasks ask for."""
    learned = set()
    for result in stored(setup)[0]:
        is_unmasked = result["mask"] == "none"
        if is_unmasked and result["scores"][0] > result["constant"][0] + LEARNED:
            learned.add(result["task"])
    seeds = 2 if setup.items else SEEDS
    every = []
    for task in tasks:
        masks = [*MASKS, *RANDOM] if task in learned else [*MASKS]
        for mask in masks:
            every += [(task, mask, seed) for seed in range(seeds)]
    return every
