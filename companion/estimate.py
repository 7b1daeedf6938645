"""What a run will fetch and take, said before it begins. Sizes and times are data/hub.toml's;
nothing is fetched to say it.
"""

import shutil
from pathlib import Path

import huggingface_hub as hub
from huggingface_hub import constants

from companion import published
from companion.bias_a_head import debiased
from companion.notebooks import Notebook, hub_id_of, is_bundled, models_of, to_make
from companion.run import Run
from lib import paths
from lib.engine.files import read_toml
from lib.text import data, readers

SPARE = 4  # GB of GPU memory beside the weights: one batch, and what PyTorch itself takes


def estimate(run: Run, notebooks: list[Notebook]) -> list[str]:
    """Lines on what those of the notebooks that are still to run will fetch and take."""
    known = read_toml(paths.HUB)
    waiting = [notebook for notebook in notebooks if not notebook.is_done()]
    if not waiting:
        return []
    names = [name for name in models_of(run, waiting) if not is_bundled(name)]
    lines = _models(names, known["models"]) + _data(run, waiting, known["data"])
    if run.profile == "paper":
        lines += _debiased(run, waiting) + _on_a_gpu(run, waiting, names, known)
    elif run.profile == published.PROFILE:
        lines.append(
            "Published models take their time: 01 and 06 about 2 minutes on an idle core, 02 and "
            "03 10, 10 and 11 about 8; converted they take .1 to .5 GB of disk each"
        )
    elif not (run.model or run.sizes.items or run.data == "paper"):
        seconds = sum(known["seconds"].get(notebook.number, 0) for notebook in waiting)
        lines.append(
            f"About {seconds / 120:.0f} minutes on two slow cores, half of that on quick ones: see "
            "data/hub.toml"
        )
    return lines


def _models(names: list[str], known: dict) -> list[str]:
    """What the hub is asked for, and whose licence has to be accepted."""
    missing = {}
    for name in names:
        hub_id = hub_id_of(name)
        if hub_id and not _is_fetched(hub_id):
            missing[name] = hub_id
    if not missing:
        return []
    listed = []
    total = 0.0
    for name, hub_id in missing.items():
        size = known.get(hub_id, {}).get("GB", 0)
        listed.append(f"{name} {size:.2f} GB" if size else f"{name} (size unknown)")
        total += size
    free = _free_space()
    larger = ": set HF_HOME to a folder on a larger disk" if total > free else ""
    lines = [
        f"To fetch from the model hub: {', '.join(listed)}; {total:.1f} GB in all, "
        f"{free:.0f} GB are free{larger}"
    ]
    gated = [hub_id for hub_id in missing.values() if known.get(hub_id, {}).get("gated")]
    if gated:
        pages = " and at ".join(f"https://huggingface.co/{hub_id}" for hub_id in gated)
        lines.append(
            f"Gated: accept the licence at {pages} (a day or two), then run `hf auth login`"
        )
    return lines


def _free_space() -> float:
    """GB on the disk that the hub's cache is or will be on."""
    place = Path(constants.HF_HUB_CACHE).expanduser()
    while not place.exists():
        place = place.parent
    return shutil.disk_usage(place).free / 1e9


def _is_fetched(hub_id: str) -> bool:
    """Whether the hub's cache has weights of a model."""
    config = hub.try_to_load_from_cache(hub_id, "config.json")
    return isinstance(config, str) and any(Path(config).parent.glob("model*.safetensors"))


def _data(run: Run, notebooks: list[Notebook], known: dict) -> list[str]:
    """What is downloaded from the data sets' homes; the hub's own sets only where a profile reads
    them.
    """
    if run.data != "paper":
        return []
    numbers = {notebook.number for notebook in notebooks}
    wanted = {"to fetch", "hub"} if run.profile == "paper" else {"to fetch"}
    sizes = {}
    for row in data.sources().itertuples():
        is_other_news = row.name in readers.NEWS and row.name != run.news
        is_used = bool(numbers & set(row.used_by.split(", ")))
        if is_used and row.status in wanted and not is_other_news:
            sizes[row.name] = known[row.name]["GB"] * 1e3 if row.name in known else row.MB
    if not sizes:
        return []
    largest = sorted(sizes, key=sizes.get, reverse=True)[:4]
    listed = ", ".join(f"{name} {sizes[name]:.0f}" for name in largest)
    return [
        f"To fetch of {len(sizes)} data sets what is not here yet: {sum(sizes.values()):.0f} MB "
        f"(most: {listed})"
    ]


def _debiased(run: Run, notebooks: list[Notebook]) -> list[str]:
    """Which panels of Fig. 5 are not drawn, since nobody has trained their models here."""
    if run.model or "06" not in [notebook.number for notebook in notebooks]:
        return []
    _, missing = debiased.at_hand(run.debiased)
    if not missing:
        return []
    lacks = "lacks a panel more" if len(missing) < len(run.debiased) else "is not drawn yet"
    whys = "; ".join(one["not run, since"].removesuffix(".") for one in missing)
    return [f"Fig. 5 {lacks}: {whys}"]


def _on_a_gpu(run: Run, notebooks: list[Notebook], names: list[str], known: dict) -> list[str]:
    """How long it takes, but for a try; and the largest model's weights in the precision that it is
    read in.
    """
    lines = []
    if not run.sizes.items:
        minutes = {one.number: known["minutes"].get(one.number, 0) for one in notebooks}
        listed = ", ".join(f"{number} {its}" for number, its in minutes.items())
        total = sum(minutes.values())
        if to_make(run, notebooks):
            extra = known["minutes"]["classifier"]
            listed += f", {extra} of them to make {run.classifier}"
            total += extra
        lines.append(
            f"About {total / 60:.1f} hours on one GPU of 24 GB (notebook and minutes: {listed}): "
            "rough, see data/hub.toml"
        )
    sizes = {}
    for name in names:
        hub_id = hub_id_of(name)
        if hub_id in known["models"]:
            sizes[name] = known["models"][hub_id]["GB"]
    if sizes:
        largest = max(sizes, key=sizes.get)
        lines.append(f"GPU memory: {sizes[largest] + SPARE:.0f} GB, for {largest}")
    return lines
