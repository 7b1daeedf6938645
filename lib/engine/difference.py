"""A model shipped as what differs from another: a folder that names its base and holds the other tensors alone.

    difference.save(model, "mini-bert", folder, record)      config.json, model.safetensors, training.json
    models.load(folder)                                      the full model again

The folder's config.json is an ordinary one with one more line, "companion_base": a model's name, folder or hub id.
Tensors are stored in float16, the base's tensors and tokenizer are taken from the base. Nothing is made up or passed
over in silence: what the network needs and neither has, what does not fit the base, and what no one needs is refused.
models.py, which reads such folders, does that.
"""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file

from lib.engine.files import new_folder
from lib.engine.models import BASE, base_of, locate, tensors_in

__all__ = ["base_of", "save"]


def save(model, base: str, folder: Path, record: dict | None = None):
    """Write what differs from `base` in float16, whole or not at all; `record` becomes training.json."""
    whole, state = tensors_in(locate(base, as_base=True)[0]), model.net.state_dict()
    names = [name for name, _ in model.net.named_parameters()]  # a tied weight under its first name alone
    names += [name for name, _ in model.net.named_buffers() if name in state]
    differ = {name: state[name].cpu().half().contiguous() for name in names
              if name not in whole or not torch.equal(state[name].cpu().float(), whole[name].float())}
    config = model.net.config.to_diff_dict() | {"architectures": [type(model.net).__name__], BASE: base}
    with new_folder(Path(folder)) as new:
        save_file(differ, new / "model.safetensors", metadata={"format": "pt"})
        for file, content in {"config.json": config, "training.json": record}.items():
            if content is not None:
                (new / file).write_text(json.dumps(content, indent=1, default=str) + "\n")
