"""What a run will need before it starts: what is to be fetched, how much memory, how long. Nothing is fetched here.

    for line in estimate.lines(run, notebooks): print(line)

Sizes and minutes are those of data/hub.toml, which says where they are from. What lies on this machine already is left
out, and so are notebooks that are up to date: so a run that was stopped says what remains.
"""

import re
import shutil
import tomllib
from pathlib import Path

from lib import paths
from lib.engine import limit
from lib.text import data

ROLES = re.compile(r"\brun\.(encoder|decoder|classifier|cloze|debiased|llama|base)\b")
SPARE = 4  # GB of GPU memory beside the weights: one batch, and what PyTorch itself takes


def lines(run, notebooks) -> list[str]:
    """The estimate for those of the notebooks that are still to run."""
    waiting = [notebook for notebook in notebooks if not notebook.is_done()]
    if not waiting:
        return []
    with open(paths.HUB, "rb") as file:
        known = tomllib.load(file)
    names = [name for name in wanted(run, waiting) if not _ships(name)]
    found = [*(_models(names, known["models"]) if names else []), *_data(run, waiting, known["data"])]
    if run.profile == "paper":
        found += _time(run, waiting, known["minutes"]) + _memory(names, known["models"])
    return found


def wanted(run, notebooks) -> list[str]:
    """The models that these notebooks name, by the roles that stand in their code."""
    cells = [cell for notebook in notebooks for cell in notebook.content.cells]
    code = "\n".join(cell.source for cell in cells if cell.cell_type == "code")
    roles = set(ROLES.findall(code)) | ({"encoder", "decoder"} if "company(run)" in code else set())
    given = [getattr(run, role) for role in ("encoder", "decoder", "classifier", "cloze", "debiased", "llama", "base")
             if role in roles]
    return list(dict.fromkeys(name for part in given for name in ([part] if isinstance(part, str) else part) if name))


def to_make(run, notebooks) -> str:
    """The folder of a classifier that is to be made from the encoder before one of these notebooks runs; or nothing."""
    name = run.classifier
    if name != f"{run.encoder}-nli" or _ships(name) or name not in wanted(run, notebooks):
        return ""
    from lib.engine import models

    entry = models.REGISTRY.get(name)
    return str(entry.source) if entry and entry.fix and not Path(entry.source).is_dir() else ""


def _models(names: list[str], known: dict) -> list[str]:
    """What the hub is asked for, and whose licence has to be accepted."""
    from huggingface_hub import constants

    from lib.engine import models

    sources = {name: models.REGISTRY[name].source if name in models.REGISTRY else name for name in names}
    missing = {name: hub_id for name, hub_id in sources.items() if isinstance(hub_id, str) and "/" in hub_id
               and not Path(hub_id).is_dir() and not _fetched(hub_id)}
    if not missing:
        return []
    sizes = {name: known.get(hub_id, {}).get("GB") for name, hub_id in missing.items()}
    listed = ", ".join(f"{name} {f'{size:.2f} GB' if size else '(size unknown)'}" for name, size in sizes.items())
    total, free = sum(size or 0 for size in sizes.values()), _free(constants.HF_HUB_CACHE)
    found = [f"To fetch from the model hub: {listed}; {total:.1f} GB in all, {free:.0f} GB are free"]
    if total > free:
        found[0] += ": set HF_HOME to a folder on a larger disk"
    gated = [hub_id for hub_id in missing.values() if known.get(hub_id, {}).get("gated")]
    if gated:
        found.append("Gated: accept the licence at " + " and at ".join(f"https://huggingface.co/{one}" for one in gated)
                     + " (a day or two), then run `hf auth login`")
    return found


def _fetched(hub_id: str) -> bool:
    """Whether the hub's cache has weights of it."""
    from huggingface_hub import try_to_load_from_cache

    config = try_to_load_from_cache(hub_id, "config.json")
    return isinstance(config, str) and any(Path(config).parent.glob("model*.safetensors"))


def _data(run, notebooks, known: dict) -> list[str]:
    """What is downloaded from the data sets' homes; the hub's own sets only where a profile reads them."""
    if run.data != "paper":
        return []
    table, numbers = data.sources(), {notebook.number for notebook in notebooks}
    used = table[[bool(numbers & set(row.split(", "))) for row in table["used_by"]]]
    stood_in = {"news_commentary"} if data.available("bbc_news/bbc.jsonl.gz") else set()
    found = []
    for row in used.itertuples():
        from_hub = row.status == "hub" and run.profile == "paper"
        if (row.status == "to fetch" or from_hub) and row.name not in stood_in:
            found.append((known[row.name]["GB"] * 1e3 if row.name in known else row.MB, row.name))
    largest = ", ".join(f"{name} {size:.0f}" for size, name in sorted(found, reverse=True)[:4])
    total = sum(size for size, _ in found)
    return [f"To fetch of {len(found)} data sets what is not here yet: {total:.0f} MB (most: {largest})"] * bool(found)


def _time(run, notebooks, minutes: dict) -> list[str]:
    if limit.items():
        return []
    parts = {notebook.number: minutes.get(notebook.number, 0) for notebook in notebooks}
    making = f", {minutes['classifier']} of them to make {run.classifier}" if to_make(run, notebooks) else ""
    total = sum(parts.values()) + (minutes["classifier"] if making else 0)
    listed = ", ".join(f"{number} {value}" for number, value in parts.items())
    return [f"About {total / 60:.1f} hours on one GPU of 24 GB (notebook and minutes: {listed}{making}): rough, see "
            "data/hub.toml"]


def _ships(name: str) -> bool:
    return (paths.MODELS / name).is_dir()


def _memory(names: list[str], known: dict) -> list[str]:
    """The largest model's weights in the precision that it is read in."""
    from lib.engine import models

    sizes = {}
    for name in names:
        entry = models.REGISTRY.get(name)
        hub_id = entry.source if entry else name
        if size := known.get(hub_id, {}).get("GB") if isinstance(hub_id, str) else None:
            sizes[name] = size
    if not sizes:
        return []
    largest = max(sizes, key=sizes.get)
    return [f"GPU memory: {sizes[largest] + SPARE:.0f} GB, for {largest}"]


def _free(folder: str) -> float:
    """GB that can still be written where a folder is, or will be."""
    place = next(place for place in [Path(folder).expanduser(), *Path(folder).expanduser().parents] if place.exists())
    return shutil.disk_usage(place).free / 1e9
