"""A run is one profile, one data set and one set of models: its name, its sizes, and where it writes.

    run = Run(profile=profile, data=data, model=model, device=device, seed=seed, recompute=recompute, out=out)
    run.encoder, run.decoder, run.classifier, run.cloze, run.sizes.nsp_examples, run.seed, run.device
    bert = run.load(run.encoder)                        # its revision is recorded with every result
    scores = run.cached(heads.scores, run.encoder)      # from disk when it was computed before
    run.save(figure_or_table, "fig1a", "What it shows.")
"""

import ast
import inspect
import io
import json
import os
import shlex
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

from lib import CompanionError, paths, verdict
from lib.engine import limit
from lib.engine.files import fingerprint, replace, room_for, slug
from lib.publish.profile import read_profile

DECODERS = ("gpt2", "llama")  # families that --model puts in the decoder's place; the others are encoders
OTHER_DATA = {"mini": "demo", "paper": "real"}  # what a run is called whose data are not its profile's own


class Run:
    """What a notebook's parameters mean. `data` may be left out: it is then the profile's own."""

    def __init__(self, profile="mini", data="", model="", device="", seed=0, recompute=False, out=""):
        chosen = read_profile(profile)
        data = data or chosen["data"][0]
        if data not in chosen["data"]:
            raise CompanionError(f"The profile {profile} does not run on the data set {data}: "
                                 f"choose data {' or '.join(chosen['data'])}.")
        self.profile, self.data, self.model, self.seed, self.recompute = profile, data, model, seed, recompute
        self.device = device or None
        self.sizes = SimpleNamespace(**limit.sizes(chosen["sizes"]))
        self.encoder, self.decoder = chosen["models"]["encoder"], chosen["models"]["decoder"]
        self.cloze = [model] if model else chosen["models"].get("cloze", [])
        self.classifier = chosen["models"].get("classifier", "")
        self.base = self.encoder  # of the debiased models
        self.debiased, self.llama = (chosen["models"].get(name, []) for name in ("debiased", "llama"))
        if model and _is_classifier(model):
            self.classifier = model
        elif model and _family(model) in DECODERS:
            self.decoder = model
            if _family(model) == "llama":
                self.llama, self.debiased = [model], []  # the debiased BERTs are the profile's own run's
        elif model:
            self.encoder, self.classifier = model, ""  # the profile's was made from another encoder
            self.debiased = [model]  # from the profile's encoder, as notebook 06 takes it

        self.flags = ["--profile", profile] if profile != "mini" else []
        self.flags += ["--data", data] if data != chosen["data"][0] else []
        self.flags += ["--model", model] if model else []
        self.flags += ["--device", device] if device else []
        self.flags += ["--limit", str(limit.items())] if limit.items() else []
        self.name = profile if data == chosen["data"][0] else f"{profile}-{OTHER_DATA[data]}"
        self.name += (f"-{slug(model)}" if model else "") + limit.suffix()
        # a relative folder is one of the repository: notebooks and command line work in different ones
        usual = paths.BUILD / self.name / "figures" if limit.items() else paths.FIGURES / self.name
        self.out = paths.ROOT / (out or os.environ.get("COMPANION_OUT") or usual)
        self.revisions = {}  # of the models used so far

    def __repr__(self):
        models = f"{self.encoder} and {self.decoder}"
        return f"Run {self.name}: models {models}, data {self.data}, seed {self.seed}"

    def load(self, name, **options):
        """`models.load` on this run's device; the revision goes with everything saved from here on."""
        from lib.engine import models  # imports torch, which the command line can do without

        model = models.load(name, device=self.device, **options)
        self.revisions[name] = model.revision
        return model

    def cached(self, function, *args, **kwargs):
        """`function(*args, **kwargs)`, kept on disk and computed again only when what it depends on changed.

        That is the arguments, the code of its module and of what this imports from lib, the word lists and
        sentences, the weights of the run's models among the arguments, and the versions of torch and
        transformers. Arguments are small and plain: a model goes by name.
        """
        import joblib

        weights = self.weights([*args, *kwargs.values()])
        self.revisions |= weights
        code = fingerprint(*_sources(Path(inspect.getsourcefile(function))))
        name = f"{function.__module__}.{function.__qualname__}"
        key = [name, code, _data_hash(), weights, _versions("torch", "transformers")]
        key += [limit.items()] if limit.items() else []
        # joblib keeps pickles: the user's own, in a folder that git ignores. None is ever shipped or fetched.
        with room_for(paths.CACHE / "results"):
            stored = joblib.Memory(paths.CACHE / "results", verbose=0).cache(_call, ignore=["function"])
            if self.recompute:
                return stored.call(function, args, kwargs, key)[0]
            return stored(function, args, kwargs, key)

    def measured(self, function, *args):
        """`function(*args, device=...)` as lib/publish/measure.py stored it for this run, saying so; otherwise `cached`.

        A stored result is taken when function, arguments and the models' weights are the same. It is shown with the
        command that made it; `recompute` computes it here.
        """
        from lib.publish import stored

        file, weights = stored.place(self.name, function, args), self.weights(args)
        if file.exists() and not self.recompute:
            result, made_from = stored.read(file)
            if made_from["question"] == stored.question(function, args, weights):
                self.revisions |= weights
                print("{}, as stored: {command} ({device}, {precision})".format(file.name, **made_from))
                return result
            print(f"{file.name} was made from other arguments or weights: computed anew")
        return self.cached(function, *args, device=self.device)

    def weights(self, args):
        """The revisions of this run's models among the arguments of a function."""
        from lib.engine import models

        given = {value for value in args if isinstance(value, str)}
        own = {self.encoder, self.decoder, self.classifier, self.base, *self.cloze, *self.debiased, *self.llama} - {""}
        return {name: models.locate(name)[1] for name in sorted(given & own)}

    def save(self, result, name, caption):
        """Write a figure (svg, png) or a table (csv), with its provenance (json), to `out`, and show it."""
        import pandas as pd
        from IPython.display import display

        if isinstance(result, (pd.DataFrame, pd.Series)):
            contents = {".csv": _csv(result)}
        else:
            result = result.figure  # of a figure, of axes, or of a seaborn grid
            contents = _images(result)
        made_from = json.dumps(self.provenance(caption), indent=1, ensure_ascii=False)
        contents[".json"] = (made_from + "\n").encode()
        for suffix, content in contents.items():
            replace(self.out / f"{name}{suffix}", content)
        display(result)

    def judged(self, notebook: str, verdicts):
        """Keep a notebook's verdicts, unrounded, for the board: claims/NN.json."""
        verdict.write(self.out / "claims" / f"{notebook}.json", verdicts)

    def compared(self, notebook: str, paper: str, found: dict):
        """Keep what a notebook holds against printed numbers: {(table, row, column): (ours as shown, match)}."""
        rows = [{"paper": paper, "table": table, "row": row, "column": column, "ours": ours, "match": match}
                for (table, row, column), (ours, match) in found.items()]
        replace(self.out / "numbers" / f"{notebook}.json", (json.dumps(rows, indent=1, ensure_ascii=False) + "\n").encode())

    def provenance(self, caption):
        """What a result was made from. Free of dates and times, so that the same result is the same file."""
        notebook = Path(os.environ.get("JPY_SESSION_NAME", "")).stem  # Jupyter and lib/publish/reproduce.py set it
        only = ["--only", notebook[:2]] if notebook[:2].isdigit() else []
        return {
            "caption": caption,
            "run": self.name,
            "command": shlex.join(["./reproduce.sh", *only, *self.flags]),
            "notebook": notebook,
            "models": dict(sorted(self.revisions.items())),
            "data": {self.data: _data_hash()},
            "seed": self.seed,
            "sizes": vars(self.sizes),
            "versions": _versions("torch", "transformers", "numpy", "scipy", "pandas", "matplotlib"),
        }


def _family(name):
    from lib.engine import models

    if name in models.REGISTRY:  # said without fetching it
        return models.REGISTRY[name].family
    return _config(name).get("model_type")


def _is_classifier(name):
    from lib.engine import models

    if name in models.REGISTRY and isinstance(models.REGISTRY[name].source, str):  # a paper's language model
        return False
    return any("ForSequenceClassification" in kind for kind in _config(name).get("architectures") or [])


def _config(name):
    from lib.engine import models

    return json.loads((models.locate(name)[0] / "config.json").read_text())


def _call(function, args, kwargs, key):
    return function(*args, **kwargs)


def _sources(file):
    """A file, and the files of lib that it imports, however deep."""
    found, waiting = set(), [file]
    while waiting:
        file = waiting.pop()
        if file in found or not file.is_file():
            continue
        found.add(file)
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom):  # from lib.engine import hooks; from lib.engine.hooks import project
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Import):  # import lib.engine.hooks
                names = [alias.name for alias in node.names]
            else:
                continue
            # lib.engine.hooks.project is lib/engine/hooks.py, and lib/engine/__init__.py is read on the way
            parts = [name.split(".") for name in names if name.split(".")[0] == "lib"]
            places = [paths.ROOT.joinpath(*part[:n]) for part in parts for n in range(1, len(part) + 1)]
            waiting += [file for place in places for file in (place.with_suffix(".py"), place / "__init__.py")]
    return found


def _data_hash():
    """What identifies the data: the shipped files, and sources.toml, which holds the hash of every other."""
    return fingerprint(paths.LISTS, paths.DEMO, paths.SOURCES)


def _versions(*packages):
    """Without the local part: torch 2.13.0+cpu and 2.13.0 are one release."""
    return {package: version(package).split("+")[0] for package in packages}


def _csv(table):
    """Six digits: what follows differs from machine to machine."""
    import pandas as pd

    named = not isinstance(table.index, pd.RangeIndex)
    return table.to_csv(index=named, float_format="%.6g", lineterminator="\n").encode()


def _images(figure):
    """The same bytes for the same figure: no date, no version, no random ids."""
    import matplotlib.pyplot as plt

    svg, png = io.BytesIO(), io.BytesIO()
    with plt.rc_context({"svg.hashsalt": "companion"}):
        figure.savefig(svg, format="svg", bbox_inches="tight", metadata={"Date": None, "Creator": None})
        figure.savefig(png, format="png", bbox_inches="tight", metadata={"Software": None}, dpi=150)
    plt.close(figure)  # or Jupyter would show it a second time
    return {".svg": svg.getvalue(), ".png": png.getvalue()}
