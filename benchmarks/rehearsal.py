"""`--profile paper` in earnest, without the authors' models: random weights of their shapes.

    python -m benchmarks.rehearsal --out rehearsal.json      notebooks 01 to 11, then pace
    python -m benchmarks.rehearsal --only 04,pace --limit-seconds 300
    python -m benchmarks.rehearsal --memory-gb 22            as on a card of 24 GB
    python -m benchmarks.rehearsal --tiny --items 8 --device cpu    a try

Every notebook runs as a plain script in a process of its own, with an empty cache: seconds, the
GPU's peak memory, the process's, and how it ended. The job pace trains on a part of every GLUE task
and of SNLI, since 05 and the classifier of 09 take hours: their times are counted from it.

Real are the code, the files that COMPANION_DATA holds, the shapes and the vocabularies' sizes.
Stand-ins, in the rehearsal's processes alone: a hub's cache that holds random weights at the pinned
commits; tokens of the bundled models; the BBC's articles for News-commentary; SNLI and GLUE by
drawing from the files at hand as many rows as the hub has. Packages that only show things (Jupyter,
seaborn) may be missing: what asks for them gets nothing. pytest has to be there, for tests/hub.py.
"""

import argparse
import contextlib
import importlib.abc
import importlib.machinery
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
import traceback
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

from tests import hub

ROOT = Path(__file__).parents[1]
NOTEBOOKS = [f"{number:02d}" for number in range(1, 12)]
PACE_ITEMS = 3_200  # examples that pace trains on, of each task
GRACE = 60  # seconds after which a process that does not stop by itself is killed
SHOWS = (
    *("IPython", "ipywidgets", "seaborn", "adjustText", "pooch", "nbformat", "jinja2"),
    *("latex2mathml", "markupsafe", "pygments"),
)
# as transformers' configs have it: what differs from a class's own defaults
BERT_LARGE = dict(
    hidden_size=1024, intermediate_size=4096, num_hidden_layers=24, num_attention_heads=16
)
ROBERTA = dict(vocab_size=50265, max_position_embeddings=514, type_vocab_size=1)
ALBERT = dict(hidden_size=768, intermediate_size=3072, num_attention_heads=12)
ALBERT |= dict(hidden_act="gelu_new", max_position_embeddings=512)
SMOLLM2 = dict(
    vocab_size=49152,
    hidden_size=576,
    intermediate_size=1536,
    num_hidden_layers=30,
    num_attention_heads=9,
    num_key_value_heads=3,
    tie_word_embeddings=True,
)
LLAMA_7B = dict(max_position_embeddings=4096)
# by hub id or folder of the cache: class of the network, shape, whose tokenizer
SHAPES = {
    "google-bert/bert-base-uncased": ("BertForPreTraining", {}, "mini-bert"),
    "google-bert/bert-large-uncased": ("BertForPreTraining", BERT_LARGE, "mini-bert"),
    "FacebookAI/roberta-base": ("RobertaForMaskedLM", ROBERTA, "mini-roberta"),
    "FacebookAI/roberta-large": ("RobertaForMaskedLM", ROBERTA | BERT_LARGE, "mini-roberta"),
    "albert/albert-base-v2": ("AlbertForMaskedLM", ALBERT, "mini-albert"),
    "openai-community/gpt2": ("GPT2LMHeadModel", {}, "mini-gpt2"),
    "openai-community/gpt2-medium": (
        "GPT2LMHeadModel",
        dict(n_embd=1024, n_layer=24, n_head=16),
        "mini-gpt2",
    ),
    "openai-community/gpt2-large": (
        "GPT2LMHeadModel",
        dict(n_embd=1280, n_layer=36, n_head=20),
        "mini-gpt2",
    ),
    "meta-llama/Llama-2-7b-hf": ("LlamaForCausalLM", LLAMA_7B, "mini-gpt2"),
    "meta-llama/Llama-2-7b-chat-hf": ("LlamaForCausalLM", LLAMA_7B, "mini-gpt2"),
    "HuggingFaceTB/SmolLM2-135M": ("LlamaForCausalLM", SMOLLM2, "mini-gpt2"),
    "HuggingFaceTB/SmolLM2-135M-Instruct": ("LlamaForCausalLM", SMOLLM2, "mini-gpt2"),
    "nli/bert-base-nli": ("BertForSequenceClassification", {}, "mini-bert"),
    "debias/bert-base-cda": ("BertForPreTraining", {}, "mini-bert"),
    "debias/bert-base-dropout": ("BertForPreTraining", {}, "mini-bert"),
}
TINY = dict(hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4)
TINY_GPT2 = dict(n_embd=64, n_layer=2, n_head=4)
# training and validation rows of the tasks that no file holds, and how many labels each has
ONLY_ON_HUB = {
    "mnli": (392_702, 9_815, 3),
    "qnli": (104_743, 5_463, 2),
    "qqp": (363_846, 40_430, 2),
}
SNLI_ROWS = 550_152  # in SNLI's training part on the hub


# ---- models
def is_folder(source: str) -> bool:
    """Whether a model of SHAPES is a folder that a user makes, and not a model of the hub."""
    return source.startswith(("nli/", "debias/"))


def make_model(source: str, place: Path, options):
    """Random weights of a model's shape, written where transformers will look for them."""
    import torch
    import transformers

    from lib import paths

    kind, shape, bundled = SHAPES[source]
    kind = getattr(transformers, kind)
    own = json.loads((paths.MODELS / bundled / "config.json").read_text())
    ids = {key: own[key] for key in ("pad_token_id", "bos_token_id", "eos_token_id") if key in own}
    if options.tiny:
        small = TINY_GPT2 if kind.base_model_prefix == "transformer" else TINY
        shape = shape | small | ({"num_key_value_heads": 4} if "Llama" in kind.__name__ else {})
    config = kind.config_class(**ids, **shape)
    if "nli" in source:
        labels = ("entailment", "neutral", "contradiction")
        config.id2label = dict(enumerate(labels))
        config.label2id = {label: i for i, label in enumerate(labels)}
    config.architectures = [kind.__name__]
    is_big = config.hidden_size >= 4096
    torch.manual_seed(len(source))
    with torch.device(options.device or ("cuda" if torch.cuda.is_available() else "cpu")):
        net = kind._from_config(config, dtype=torch.bfloat16 if is_big else torch.float32)
    net.save_pretrained(place, max_shard_size="5GB")
    shutil.copy(paths.MODELS / bundled / "tokenizer.json", place)
    words = json.loads((paths.MODELS / bundled / "tokenizer_config.json").read_text())
    words["model_max_length"] = config.max_position_embeddings
    (place / "tokenizer_config.json").write_text(json.dumps(words))


def place_of(source: str, options) -> Path:
    """Where a model's files belong: in a hub's cache, under the commit that is pinned."""
    if is_folder(source):
        limit = f"-limit{options.items}" if options.items and source.startswith("nli/") else ""
        return options.folder / "made" / f"{source}{limit}"
    return hub.snapshot(options.folder, source)


def in_hub(options, hub_id: str, revision: str | None, files: list[str] = ()) -> Path:
    """What `folders._fetch` returns: out of the hub's reach its client may want a look at it."""
    folder = hub.snapshot(options.folder, hub_id)
    if not folder.is_dir():
        raise FileNotFoundError(f"{hub_id} at {revision} was not made")
    return folder


def provide(source: str, options):
    """A model of SHAPES on disk, made in a process of its own unless it is there."""
    place = place_of(source, options)
    if place.is_dir():
        return
    new = (
        options.folder / "new" / f"{os.getpid()}-{place.name}"
    )  # another rehearsal may make it too
    if source.endswith("chat-hf"):  # 13.5 GB: the base's files once more
        base = "meta-llama/Llama-2-7b-hf"
        provide(base, options)
        shutil.copytree(place_of(base, options), new, copy_function=os.link)
    else:
        made = run_child(
            {"kind": "model", "source": source, "place": str(new)}, options, seconds=600
        )
        if made["ended"] != "done":
            raise RuntimeError(f"{source} could not be made: {made}")
    place.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(OSError):  # it is there by now
        new.rename(place)


def sources_of(job: str) -> list[str]:
    """The models of SHAPES that a job asks for, by the roles that stand in its notebook's code."""
    from companion import profiles
    from lib.engine import folders

    chosen = profiles.read("paper").models
    if job == "pace":
        return ["google-bert/bert-base-uncased"]
    code = "\n".join(cells_of(job))
    names = []
    for role, given in chosen.items():
        is_named = re.search(rf"\brun\.{role}\b", code)
        if is_named or role == "encoder" or (role == "decoder" and "run.company" in code):
            names += [given] if isinstance(given, str) else given
    sources = []
    for name in dict.fromkeys(names):
        source = folders.REGISTRY[name].source if name in folders.REGISTRY else name
        if isinstance(source, Path):
            source = f"{source.parent.name}/{source.name}"
        sources.append(source)
    return sources


def cells_of(number: str) -> list[str]:
    """The code cells of a notebook."""
    (file,) = (ROOT / "notebooks").glob(f"{number}_*.ipynb")
    cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


# ---- data
def hub_stand_in(name: str, config: str, split: str):
    """What `data.hub` returns, with as many rows as the hub has, drawn from the files at hand."""
    frame = _snli(split) if name == "hub_snli" else _glue(config, split)
    return SimpleNamespace(to_pandas=lambda: frame)


def _snli(split: str):
    from lib.text import readers

    frame = readers.snli(split)
    frame["label"] = frame["label"].map(readers.NLI_LABELS.index)
    return _drawn(frame, SNLI_ROWS) if split == "train" else frame


def _glue(config: str, split: str):
    from lib.text import readers
    from training import glue

    if config in ONLY_ON_HUB:
        n_train, n_validation, labels = ONLY_ON_HUB[config]
        pairs = _snli("test").rename(columns={"premise": "sentence1", "hypothesis": "sentence2"})
        pairs["label"] %= labels
        return _drawn(pairs, n_train if split == "train" else n_validation).assign(idx=0)
    task = next(task for task in glue.TASKS if task.lower().replace("-", "") == config)
    part = "train" if split == "train" else "evaluation"
    return readers._glue_from_file(task, part).assign(idx=0)


def _drawn(frame, n: int):
    """So many rows, drawn with repetition."""
    return frame.sample(n, replace=True, random_state=0, ignore_index=True)


# ---- a process of its own
class Stopped(BaseException):
    """The time of a job is over; no `except Exception` of a notebook catches it."""


class Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives packages that only show things, where they are not installed, as nothing."""

    def __init__(self):
        self.used = set()

    def find_spec(self, name, path=None, target=None):
        package = name.partition(".")[0]
        if package not in SHOWS:
            return None
        self.used.add(package)
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return MagicMock(name=spec.name, version_info=(99, 0))  # matplotlib asks IPython for it

    def exec_module(self, module):
        pass


def stand_in(options) -> Absent:
    """Puts the stand-ins of this page in place; what comes back knows the absent packages."""
    import matplotlib.pyplot as plt
    import transformers  # noqa: F401 (now: absent packages will seem to be there)

    plt.switch_backend("Agg")
    absent = Absent()
    sys.meta_path.append(absent)
    from lib.engine import folders
    from lib.text import data, readers

    data.hub = hub_stand_in
    readers.corpus = lambda stand_ins=True: "bbc_news"
    folders._fetch = partial(in_hub, options)
    return absent


def child(job: dict, options) -> dict:
    """One job, in this process: how it ended, and what it took."""
    if job["kind"] == "model":
        make_model(job["source"], Path(job["place"]), options)
        return {"ended": "done"}
    import torch

    absent = stand_in(options)
    signal.signal(signal.SIGALRM, _stop)
    signal.alarm(job["seconds"])
    start = time.perf_counter()
    record = {}
    if options.memory_gb:
        whole = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(options.memory_gb * 2**30 / whole)
    try:
        if job["kind"] == "pace":
            pace(job, options, record)
        else:
            run_notebook(job, options, record)
        record["ended"] = "done"
    except Stopped:
        record["ended"] = f"stopped after {job['seconds']} s"
    except Exception:
        record["ended"] = "failed"
        record["error"] = traceback.format_exc()[-2_000:]
    signal.alarm(0)
    record["seconds"] = round(time.perf_counter() - start, 1)
    record["absent"] = sorted(absent.used)
    return record | peaks()


def peaks() -> dict:
    """The most memory that this process had by now: its own, and the GPU's."""
    import torch

    known = {"RSS, GB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9}
    if torch.cuda.is_available():
        known["GPU, GB"] = torch.cuda.max_memory_allocated() / 1e9
        known["GPU reserved, GB"] = torch.cuda.max_memory_reserved() / 1e9
    return {name: round(size, 2) for name, size in known.items()}


def _stop(number, frame):
    raise Stopped


def run_notebook(job: dict, options, record: dict):
    """The code cells of a notebook, one after the other; `record` says how far it came."""
    profile = f"paper-limit{options.items}" if options.items else "paper"
    given = {"profile": profile, "data": "paper", "device": options.device, "out": job["out"]}
    cells = cells_of(job["name"])
    names = {"__name__": "__main__"}
    begun = time.perf_counter()
    record["cells"] = len(cells)
    record["cell begun at, s"] = []
    for i, code in enumerate(cells, start=1):
        record["cell begun at, s"].append(round(time.perf_counter() - begun, 1))
        Path(job["progress"]).write_text(
            json.dumps(record | peaks())
        )  # a killed process cannot tell
        exec(compile(code, f"{job['name']}, cell {i}", "exec"), names)
        if "profile = " in code and "recompute = " in code:  # the cell of parameters
            names |= given


# ---- hours of training, counted from minutes
# training rows of GLUE's tasks; the stand-ins have as many of some and fewer of others
GLUE_ROWS = {
    **{"RTE": 2_490, "SST-2": 67_349, "WNLI": 635, "QNLI": 104_743, "CoLA": 8_551},
    **{"MRPC": 3_668, "QQP": 363_846, "STS-B": 5_749, "MNLI": 392_702},
}


def pace(job: dict, options, record: dict):
    """Minutes of training three epochs on all rows of each task, from PACE_ITEMS of them. Scoring
    is left out; WNLI is run twice, since a GPU's first steps are slow."""
    from companion import profiles
    from training import classifier, finetune, glue

    spent = []  # seconds of each epoch
    run_epoch = finetune._Training.run_epoch

    def timed(training) -> float:
        start = time.perf_counter()
        loss = run_epoch(training)
        spent.append(time.perf_counter() - start)
        return loss

    finetune._Training.run_epoch = timed
    setup = glue.Setup(
        model="bert-base",
        sizes=profiles.read("paper").sizes,
        out=Path(job["out"]),
        source="hub",
        items=options.items or PACE_ITEMS,
        device=options.device or None,
    )
    for task in ("WNLI", *GLUE_ROWS, "SNLI"):
        spent.clear()
        start = time.perf_counter()
        if task == "SNLI":
            classifier.make("bert-base", Path(job["out"]) / "nli", setup.device, setup.items)
            trained, rows = setup.items, SNLI_ROWS
        else:
            glue.prepare(setup, [task])
            trained = glue.run(setup, task, "none", seed=0, again=True)["examples"]["train"]
            rows = GLUE_ROWS[task]
        record[task] = {
            "rows": trained,
            "training, s": round(sum(spent), 2),
            "encoding and scoring, s": round(time.perf_counter() - start - sum(spent), 1),
            "training on all rows, minutes": round(sum(spent) / 60 * rows / trained, 2),
        }


# ---- the processes
def run_child(job: dict, options, seconds: int) -> dict:
    """A job in a process of its own, with a cache and an output folder of its own, empty at
    first.
    """
    name = job.get("name") or job["source"].replace("/", "--")
    home = options.folder / "jobs" / name
    shutil.rmtree(home, ignore_errors=True)  # of an earlier rehearsal, which may have been stopped
    for folder in (home / "out", home / "cache", options.folder / "new"):
        folder.mkdir(parents=True, exist_ok=True)
    for made in ("nli", "debias"):
        for model in (options.folder / "made" / made).glob("*"):
            link = home / "cache" / made / model.name
            link.parent.mkdir(exist_ok=True)
            link.symlink_to(model)
    result, progress = home / "result.json", home / "progress.json"
    job = job | {"out": str(home / "out"), "result": str(result), "seconds": seconds}
    job["progress"] = str(progress)
    environment = os.environ | {
        "HF_HUB_OFFLINE": "1",
        "HF_HUB_CACHE": str(options.folder / "hub"),
        "COMPANION_CACHE": str(home / "cache"),
        "TOKENIZERS_PARALLELISM": "true",
    }
    command = [sys.executable, "-m", "benchmarks.rehearsal", "--job", json.dumps(job)]
    command += ["--folder", str(options.folder), "--device", options.device]
    command += ["--items", str(options.items)] + ["--tiny"] * options.tiny
    command += ["--memory-gb", str(options.memory_gb)]
    with open(home / "log.txt", "ab") as log:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
        try:
            ended = f"exit {process.wait(seconds + GRACE)}"
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            ended = f"stopped by force after {seconds + GRACE} s"
    tail = {"log": (home / "log.txt").read_bytes()[-1_500:].decode(errors="replace")}
    if not result.exists():
        known = json.loads(progress.read_text()) if progress.exists() else {}
        return known | {"ended": ended} | tail
    record = json.loads(result.read_text())
    return record if record["ended"] == "done" else record | tail


def rehearse(options):
    """Every job that is asked for; what is known is written after each."""
    every = [*NOTEBOOKS, "pace"]
    chosen = options.only.split(",") if options.only else every
    unknown = set(chosen) - set(every)
    if unknown:
        raise SystemExit(f"There is no {', '.join(unknown)}: choose of {', '.join(every)}.")
    if not os.environ.get("COMPANION_DATA"):
        raise SystemExit("Set COMPANION_DATA to the folder of the papers' data files.")
    done = json.loads(options.out.read_text()) if options.out.exists() else {}
    for name in chosen:
        start = time.perf_counter()
        try:
            for source in sources_of(name):
                provide(source, options)
            making = round(time.perf_counter() - start, 1)
            kind = "pace" if name == "pace" else "notebook"
            job = {"kind": kind, "name": name}
            done[name] = run_child(job, options, options.limit_seconds)
            done[name]["models made in, s"] = making
        except Exception:  # the next job may well do
            done[name] = {"ended": "failed", "error": traceback.format_exc()[-2_000:]}
        done[name]["tiny"] = options.tiny
        done[name]["items"] = options.items
        done[name]["memory, GiB at most"] = options.memory_gb
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(done, indent=1) + "\n")
        print(name, json.dumps(done[name], indent=1), flush=True)
        for place in ("cache", "out"):  # checkpoints and kept results take room
            shutil.rmtree(options.folder / "jobs" / name / place, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rehearsal")
    parser.add_argument("--only", default="", help="04,06,pace: of 01 to 11, pace")
    parser.add_argument("--limit-seconds", type=int, default=120, help="of every notebook")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "rehearsal.json")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "rehearsal")
    parser.add_argument("--memory-gb", type=float, default=0, help="GiB that torch may take")
    parser.add_argument("--items", type=int, default=0, help="of everything, for a try")
    parser.add_argument("--tiny", action="store_true", help="two layers, for a try")
    parser.add_argument("--device", default="")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.folder = options.folder.absolute()
    if not options.job:
        rehearse(options)
        return
    job = json.loads(options.job)
    Path(job["result"]).write_text(json.dumps(child(job, options)))


if __name__ == "__main__":
    main()
