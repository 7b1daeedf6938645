"""A run is one profile, one data set and one set of models: its name, its sizes, and where it writes.

    run = Run(profile=profile, data=data, model=model, device=device, seed=seed, recompute=recompute, out=out)
    run.encoder, run.decoder, run.classifier, run.cloze, run.sizes.nsp_examples, run.seed, run.device
    bert = run.load(run.encoder)                        # its revision is recorded with every result
    scores = run.cached(heads.scores, run.encoder)      # from disk when it was computed before
    run.save(figure_or_table, "fig1a", "What it shows.")
    run.judged("02", verdicts); run.compared("02", "bias_a_head", {(table, row, column): (ours, match)})
    run.show_other("02_claims")                         # what the run on the papers' data has stored

A profile is a file of lib/publish/profiles. One may be tried on few items: "paper-limit8" is the profile paper with
sizes.items = 8 and all other sizes cut to match. Numbers of a try mean nothing: its run is called paper-limit8, writes
below build/ and shares no stored result with a full one. A model of the hub may be asked for at another commit than
the pinned one: "org/name@commit".

Heavy measurements are kept in figures/<run>/measured as .npz files without pickles, which opening cannot make run code.
"""

import ast
import dataclasses
import inspect
import io
import json
import os
import re
import shlex
import tomllib
from functools import cache
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

from lib import CompanionError, Lazy, paths, verdict
from lib.engine.files import fingerprint, replace, room_for, slug

np, models = Lazy("numpy"), Lazy("lib.engine.models")  # the command line's --help can do without
families = Lazy("lib.engine.families")

OTHER_DATA = {"mini": "demo", "paper": "real"}  # what a run is called whose data are not its profile's own
LIMITED = re.compile(r"(.+)-limit(\d+)")
# How a limit cuts a profile's sizes: those that multiply others to a quarter, those that count no items not at all.
MULTIPLY = ("contexts", "folds", "draws", "backgrounds")  # how their names end
NOT_ITEMS = {"items", "ablation_every", "masking_curve", "masking_amplify", "lpbs_step", "glue_small", "glue_large"}
RESERVED = "plain", "made_from"  # what a stored measurement's file has beside its arrays, as JSON


class Run:
    """What a notebook's parameters mean. `data` may be left out: it is then the profile's own."""

    def __init__(self, profile="mini", data="", model="", device="", seed=0, recompute=False, out=""):
        chosen = read_profile(profile)
        self.profile, items = chosen["name"], chosen["sizes"]["items"]
        own = chosen["data"][0]
        self.data = data or own
        if self.data not in chosen["data"]:
            raise CompanionError(f"The profile {self.profile} does not run on the data set {data}: "
                                 f"choose data {' or '.join(chosen['data'])}.")
        self.model, self.revision = _at_commit(model)
        self.device, self.seed, self.recompute = device or None, seed, recompute
        self.sizes = SimpleNamespace(**chosen["sizes"])
        self._choose_models(chosen["models"])

        limit = ["--limit", str(items)] if items else []
        self.flags = [*(["--profile", self.profile] if self.profile != "mini" else []),
                      *(["--data", self.data] if self.data != own else []),
                      *(["--model", self.model] if model else []),
                      *(["--revision", self.revision] if self.revision else []),
                      *(["--device", device] if device else []), *limit]
        self.name = self.profile if self.data == own else f"{self.profile}-{OTHER_DATA[self.data]}"
        self.name += (f"-{slug(model)}" if model else "") + (f"-limit{items}" if items else "")
        # a relative folder is one of the repository: notebooks and command line work in different ones
        usual = paths.BUILD / self.name / "figures" if items else paths.FIGURES / self.name
        self.out = paths.ROOT / (out or os.environ.get("COMPANION_OUT") or usual)
        self.revisions = {}  # of the models used so far
        self._compared = {}  # by notebook: what was held against printed numbers so far

    def _choose_models(self, given: dict):
        """The profile's models, and `model` in the place where it fits."""
        model = self.model
        self.encoder, self.decoder, self.classifier = (given[role] for role in ("encoder", "decoder", "classifier"))
        self.cloze, self.debiased, self.llama = (given[role] for role in ("cloze", "debiased", "llama"))
        self.base = self.encoder  # of the debiased models
        if self.sizes.items and self.classifier and not (paths.MODELS / self.classifier).is_dir():
            self.classifier = str(paths.CACHE / "nli" / f"{self.classifier}-limit{self.sizes.items}")  # made on few
        if not model:
            return
        self.cloze = [model]
        if self.revision:
            _pin(model, self.revision)
        if _is_classifier(model):
            self.classifier = model
        elif _family(model) in families.FAMILIES and families.FAMILIES[_family(model)].is_causal:
            self.decoder = model
            if _family(model) == "llama":
                self.llama, self.debiased = [model], []  # the debiased BERTs are the profile's own run's
        else:
            self.encoder, self.classifier = model, ""  # the profile's was made from another encoder
            self.debiased = [model]  # from the profile's encoder, as notebook 06 takes it

    def __repr__(self):
        models = f"{self.encoder} and {self.decoder}"
        return f"Run {self.name}: models {models}, data {self.data}, seed {self.seed}"

    def load(self, name, **options):
        """`models.load` on this run's device; the revision goes with everything saved from here on."""
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
        file = Path(inspect.getsourcefile(function))
        code = fingerprint(file, *sources(file.read_text()) - {file})
        name = f"{function.__module__}.{function.__qualname__}"
        key = [name, code, _data_hash(), weights, _versions("torch", "transformers")]
        key += [self.sizes.items] if self.sizes.items else []
        # joblib keeps pickles: the user's own, in a folder that git ignores. None is ever shipped or fetched.
        with room_for(paths.CACHE / "results"):
            stored = joblib.Memory(paths.CACHE / "results", verbose=0).cache(_call, ignore=["function"])
            if self.recompute:
                return stored.call(function, args, kwargs, key)[0]
            return stored(function, args, kwargs, key)

    def measured(self, function, *args):
        """`function(*args, device=...)` as `python -m lib.publish measure` stored it for this run; otherwise `cached`.

        A stored result is taken when function, arguments and the models' weights are the same. It is shown with the
        command that made it; `recompute` computes it here.
        """
        file, weights = place(self.name, function, args), self.weights(args)
        if file.exists() and not self.recompute:
            result, made_from = read(file)
            if made_from["question"] == question(function, args, weights):
                self.revisions |= weights
                print("{}, as stored: {command} ({device}, {precision})".format(file.name, **made_from))
                return result
            print(f"{file.name} was made from other arguments or weights: computed again")
        return self.cached(function, *args, device=self.device)

    def weights(self, args):
        """The revisions of this run's models among the arguments of a function."""
        given = {value for value in args if isinstance(value, str)}
        own = {self.encoder, self.decoder, self.classifier, self.base, *self.cloze, *self.debiased, *self.llama} - {""}
        return {name: models.locate(name)[1] for name in sorted(given & own)}

    def save(self, result, name, caption, kind=""):
        """Write a figure (svg, png) or a table (csv), with its provenance (json), to `out`, and show it.

        kind  figure, table, or claims and numbers: tables whose rows the page has already, from `judged` and
              `compared`. Left out, it is told by the columns.
        """
        import pandas as pd
        from IPython.display import display

        if isinstance(result, (pd.DataFrame, pd.Series)):
            contents, about = {".csv": _csv(result)}, {"kind": kind or _kind(getattr(result, "columns", []))}
        else:
            result = result.figure  # of a figure, of axes, or of a seaborn grid
            title = result.get_suptitle().replace("-\n", "-").replace("\n", " ")
            contents, about = _images(result), {"kind": kind or "figure", "finding": title}
        contents[".json"] = _json({"caption": caption, **about} | self.provenance())
        for suffix, content in contents.items():
            replace(self.out / f"{name}{suffix}", content)
        display(result)

    def judged(self, notebook: str, verdicts):
        """Keep a notebook's verdicts, unrounded, for the board: claims/NN.json."""
        verdict.write(self.out / "claims" / f"{notebook}.json", verdicts)

    def compared(self, notebook: str, paper: str, numbers: dict):
        """Keep what a notebook holds against printed numbers: {(table, row, column): (ours as shown, match)}.

        A notebook may call it several times: what it said before is kept. A match is text, as a table shows it
        (verdict.match); `kind` is the verdict.Match that it opens with, so that no reader has to look for it.
        """
        known = self._compared.setdefault(notebook, {})
        for key, (ours, match) in numbers.items():
            kind = next(kind for kind in verdict.Match if match.startswith(kind))
            known[paper, *key] = ours, match, kind
        rows = [dict(zip(("paper", "table", "row", "column", "ours", "match", "kind"), (*key, *said)))
                for key, said in known.items()]
        replace(self.out / "numbers" / f"{notebook}.json", _json(rows))

    def show_other(self, name: str, other: str = "mini-real"):
        """What another run has saved, with the command that made it: a DataFrame or an image for the notebook."""
        if self.name == other:
            print(f"This is the run {other} itself: see above.")
            return None
        files = [paths.FIGURES / other / f"{name}{kind}" for kind in (".csv", ".png")]
        file = next((file for file in files if file.is_file()), None)
        if file is None:
            print(f"figures/{other} has no {name} yet: run ./reproduce.sh --only {name[:2]} --data paper.")
            return None
        made = json.loads(file.with_suffix(".json").read_text(encoding="utf-8"))
        print(f"As stored in figures/{other}, made by {made['command']} (models {', '.join(made['models'])}): "
              f"{made['caption']}")
        if file.suffix == ".png":
            from IPython.display import Image

            return Image(file)
        import pandas as pd

        return pd.read_csv(file, keep_default_na=False)

    def provenance(self):
        """What a result was made from. Free of dates and times, so that the same result is the same file."""
        notebook = Path(os.environ.get("JPY_SESSION_NAME", "")).stem  # Jupyter and lib/publish/notebooks.py set it
        only = ["--only", notebook[:2]] if notebook[:2].isdigit() else []
        return {
            "run": self.name,
            "command": shlex.join(["./reproduce.sh", *only, *self.flags]),
            "notebook": notebook,
            "models": dict(sorted(self.revisions.items())),
            "data": {self.data: _data_hash()},
            "seed": self.seed,
            "sizes": vars(self.sizes),
            "versions": _versions("torch", "transformers", "numpy", "scipy", "pandas", "matplotlib"),
        }


def runs():
    """{name of a run: its folder}, for all that are stored."""
    return {folder.name: folder for folder in sorted(paths.FIGURES.glob("*")) if folder.is_dir()}


# ---- profiles

def read_profile(name):
    """The profile lib/publish/profiles/<name>.toml, with its name. It has the keys of mini.toml, no more and no fewer.

    "<name>-limit8" is that profile, cut to 8 items.
    """
    there = sorted(file.stem for file in paths.PROFILES.glob("*.toml"))
    limited = LIMITED.fullmatch(name) if name not in there else None
    name, items = (limited[1], int(limited[2])) if limited else (name, 0)
    if name not in there:
        raise CompanionError(f"There is no profile {name}: choose one of {', '.join(there)}, or add {_file(name)}.")
    profile = _parse(name)
    has, wanted = _keys(profile), _keys(_parse("mini"))
    for key in sorted(has - wanted):
        raise CompanionError(f"{_file(name)} has the unknown key {key}: remove it, or add it to mini.toml.")
    for key in sorted(wanted - has):
        raise CompanionError(f"{_file(name)} lacks the key {key}: take it over from mini.toml.")
    if limited and items < 2:
        raise CompanionError(f"Nothing can be measured on {items} items: give --limit 2 or more.")
    sizes = profile["sizes"] if not limited else {
        size: value if size in NOT_ITEMS else _at_most(value, max(2, items // 4) if size.endswith(MULTIPLY) else items)
        for size, value in profile["sizes"].items()} | {"items": items}
    return profile | {"name": name, "sizes": sizes}


def _at_most(value, n):
    """A size cut to n; 0, which says all, becomes n."""
    if isinstance(value, dict):
        return {data: _at_most(part, n) for data, part in value.items()}
    return min(value, n) or n if isinstance(value, int) else value


def _file(name):
    return f"lib/publish/profiles/{name}.toml"


def _parse(name):
    try:
        return tomllib.loads((paths.PROFILES / f"{name}.toml").read_text())
    except tomllib.TOMLDecodeError as error:
        raise CompanionError(f"{_file(name)} is not TOML: fix what is wrong there ({error}).") from None


def _keys(profile):
    """data, models.encoder, models.decoder, sizes.nsp_examples, ..."""
    keys = set()
    for key, value in profile.items():
        keys |= {f"{key}.{inner}" for inner in value} if isinstance(value, dict) else {key}
    return keys


# ---- models

def _at_commit(model):
    """(name, commit) of "org/name@commit"; no commit where none is given, or where that is a folder's name."""
    name, _, commit = model.rpartition("@") if not models.draw_of(model) else ("", "", "")  # null@3 is a name
    return (name, commit) if name and re.fullmatch(r"[\w.-]+", commit) and not Path(model).exists() else (model, "")


def _pin(name, revision):
    """Have whatever loads this model by name take this commit of the hub."""
    entry = models.REGISTRY.get(name)
    key, entry = (name, entry) if entry else (f"{name}@{revision}", models.Entry(name, "", "at a commit asked for"))
    if not isinstance(entry.source, str):
        raise CompanionError(f"{name} is a folder, not a model of the hub: leave --revision out.")
    models.REGISTRY[key] = dataclasses.replace(entry, revision=revision)


def _family(name):
    if name in models.REGISTRY:  # said without fetching it
        return models.REGISTRY[name].family
    return _config(name).get("model_type")


def _is_classifier(name):
    if name in models.REGISTRY and isinstance(models.REGISTRY[name].source, str):  # a paper's language model
        return False
    return any("ForSequenceClassification" in kind for kind in _config(name).get("architectures") or [])


def _config(name):
    return json.loads((models.locate(name)[0] / "config.json").read_text())


# ---- results that are kept

def place(run: str, function, args) -> Path:
    """The file of a stored measurement: named by the run, the function and the names among its arguments."""
    names = [_name(function), *(arg for arg in args if isinstance(arg, str))]
    return paths.FIGURES / run / "measured" / (re.sub(r"[^\w.-]+", "-", "_".join(names)) + ".npz")


def question(function, args, weights: dict[str, str]) -> dict:
    """What must agree for a stored measurement to be taken: JSON has lists alone, so tuples become lists."""
    return json.loads(json.dumps({"function": _name(function), "arguments": args, "weights": weights}))


def _name(function) -> str:
    """heads.measure: by the module alone, so that a stored result outlives a move of the module to another folder."""
    return f"{function.__module__.split('.')[-1]}.{function.__name__}"


def write(file: Path, result: dict, made_from: dict):
    """Keep a dict of arrays and plain values, with what it was made from, whole or not at all."""
    if taken := result.keys() & set(RESERVED):
        raise CompanionError(f"A result may not have the key {taken.pop()}, which the file itself uses: rename it.")
    arrays = {name: value for name, value in result.items() if isinstance(value, np.ndarray)}
    plain = {name: value for name, value in result.items() if name not in arrays}
    content = io.BytesIO()
    np.savez_compressed(content, **arrays, plain=json.dumps(plain), made_from=json.dumps(made_from))
    replace(file, content.getvalue())


def read(file: Path) -> tuple[dict, dict]:
    """A stored measurement and what it was made from."""
    try:
        with np.load(file, allow_pickle=False) as kept:
            plain, made_from = (json.loads(str(kept[name])) for name in RESERVED)
            return {name: kept[name] for name in kept.files if name not in RESERVED} | plain, made_from
    except (OSError, ValueError, KeyError, EOFError) as error:
        raise CompanionError(f"{file} is not a stored result, or damaged: restore it with git, or delete it to "
                             "compute it here.") from error


def _call(function, args, kwargs, key):
    return function(*args, **kwargs)


def sources(code: str) -> set[Path]:
    """The files of lib that some code imports, however deep."""
    found, waiting = set(), {paths.ROOT / file for file in _imported(code)}
    while waiting:
        file = waiting.pop()
        if file not in found and file.is_file():
            found.add(file)
            waiting |= {paths.ROOT / file for file in _imported(file.read_text())}
    return found


@cache
def _imported(code: str) -> set[Path]:
    """Where modules of lib would lie, seen from the repository, that this code imports anywhere."""
    names = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom):  # from lib.engine import hooks; from lib.engine.hooks import project
            names += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):  # import lib.engine.hooks
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Lazy":
            names += [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
    # lib.engine.hooks.project is lib/engine/hooks.py, and lib/engine/__init__.py is read on the way
    parts = [name.split(".") for name in names if name.split(".")[0] == "lib"]
    places = [Path(*part[:n]) for part in parts for n in range(1, len(part) + 1)]
    return {file for place in places for file in (place.with_suffix(".py"), place / "__init__.py")}


def _data_hash():
    """What identifies the data: the shipped files, and sources.toml, which holds the hash of every other."""
    return fingerprint(paths.LISTS, paths.DEMO, paths.SOURCES)


def _versions(*packages):
    """Without the local part: torch 2.13.0+cpu and 2.13.0 are one release."""
    return {package: version(package).split("+")[0] for package in packages}


def _kind(columns):
    """Of a table: numbers and claims have a verdict in each row; what is left is a table like any other."""
    judged = any(str(name).startswith("verdict") for name in columns)
    if judged and "claim" in columns:
        return "claims"
    return "numbers" if judged and {"paper", "ours"} <= set(columns) else "table"


def _json(made):
    return (json.dumps(made, indent=1, ensure_ascii=False) + "\n").encode()


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
