"""A model shipped as what differs from another: a folder that names its base and holds the other tensors alone.

    difference.save(model, "mini-bert", folder, record)      config.json, model.safetensors, training.json
    models.load(folder)                                      the full model again

The folder's config.json is an ordinary one with one more line, "companion_base": a model's name, folder or hub id.
Tensors are stored in float16, the base's tensors and tokenizer are taken from the base. Nothing is made up or passed
over in silence: what the network needs and neither has, what does not fit the base, and what no one needs is refused.
"""

import json
import shutil
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from lib import CompanionError

BASE = "companion_base"


def base_of(folder: Path) -> str | None:
    """The name of the model that a folder's weights are a difference from; None if they are all there."""
    return json.loads((folder / "config.json").read_text()).get(BASE)


def merge(folder: Path, base: Path) -> tuple[dict[str, torch.Tensor], set[str]]:
    """The base's tensors with the folder's in their place; and the names of the folder's."""
    own, whole = _tensors(folder), _tensors(base)
    for name, tensor in own.items():
        if name in whole and tensor.shape != whole[name].shape:
            raise CompanionError(f"{name} has the shape {list(tensor.shape)} in {folder} and {list(whole[name].shape)} "
                                 f"in its base {base}: name the base that it was saved against.")
    return whole | own, set(own)


def save(model, base: str, folder: Path, record: dict | None = None):
    """Write what differs from `base` in float16, whole or not at all; `record` becomes training.json."""
    from lib.engine import models  # which imports this module

    whole, state = _tensors(models.locate(base, as_base=True)[0]), model.net.state_dict()
    names = [name for name, _ in model.net.named_parameters()]  # a tied weight under its first name alone
    names += [name for name, _ in model.net.named_buffers() if name in state]
    differ = {name: state[name].cpu().half().contiguous() for name in names
              if name not in whole or not torch.equal(state[name].cpu().float(), whole[name].float())}
    config = model.net.config.to_diff_dict() | {"architectures": [type(model.net).__name__], BASE: base}
    partial = Path(folder).with_name(Path(folder).name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    save_file(differ, partial / "model.safetensors", metadata={"format": "pt"})
    for file, content in {"config.json": config, "training.json": record}.items():
        if content is not None:
            (partial / file).write_text(json.dumps(content, indent=1, default=str) + "\n")
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)


def _tensors(folder: Path) -> dict[str, torch.Tensor]:
    try:
        return {name: tensor for file in sorted(folder.glob("model*.safetensors"))
                for name, tensor in load_file(file).items()}
    except SafetensorError as error:
        raise CompanionError(f"The weights in {folder} are damaged: fetch or save them again.") from error
