"""A run is one profile, one data set and one set of models: its name, its sizes, and where it writes.

    run = Run(profile=profile, data=data, model=model, device=device, seed=seed, recompute=recompute, out=out)
    run.encoder, run.decoder, run.classifier, run.cloze, run.sizes.nsp_examples, run.seed, run.device
    bert = run.load(run.encoder)                        # its revision is recorded with every result
    scores = run.cached(heads.scores, run.encoder)      # from disk when it was computed before
    run.save(figure_or_table, "fig1a", "What it shows.")
    run.judged("02", verdicts)                          # for the board

A profile is a file of lib/publish/profiles. "paper-limit8" is the profile paper on few items, for a try: sizes.items is
8 and all other sizes are cut to match; it writes below build/ and shares no stored result with a full run. "null" is
the profile mini with untrained models, "null@3" another draw of them, which keeps its verdicts alone, in
figures/null/draws/3; "balanced" is mini with a BERT whose text has no stereotype of gender. A model of the hub may be
asked for at another commit than the pinned one: "org/name@commit"."""

import ast
import dataclasses
import hashlib
import inspect
import io
import json
import os
import re
import shlex
import shutil
import threading
import tomllib
from functools import cache
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import lib
from lib import CompanionError, Lazy, paths, verdict
from lib.engine.files import fingerprint, new_folder, replace, room_for, slug

# a GPU machine may lack pandas, and the command line's --help can do without any
np, pd, plt, joblib = Lazy("numpy"), Lazy("pandas"), Lazy("matplotlib.pyplot"), Lazy("joblib")
display, look, readers = Lazy("IPython.display"), Lazy("lib.look"), Lazy("lib.text.readers")
inputtransformer2 = Lazy("IPython.core.inputtransformer2")
models, families = Lazy("lib.engine.models"), Lazy("lib.engine.families")

OTHER_DATA = {
    "mini": "demo",
    "paper": "real",
}  # what a run is called whose data are not its profile's own
LIMITED, CONTROL = (
    re.compile(r"(.+)-limit(\d+)"),
    re.compile(rf"{verdict.UNTRAINED}(?:@(\d+))?|{verdict.GENDER_SWAPPED}"),
)
# How a limit cuts a profile's sizes: those that multiply others to a quarter, those that count no items not at all.
MULTIPLY = ("contexts", "folds", "draws", "backgrounds")  # how their names end
NOT_ITEMS = {
    "items",
    "ablation_every",
    "masking_curve",
    "masking_amplify",
    "lpbs_step",
    "glue_small",
    "glue_large",
}
DPI, SCREEN_DPI = 150, 110  # of a figure's png: as it is saved, and as large as a notebook shows it
PARSING = (
    threading.Lock()
)  # two notebooks start at once, and Python 3.11 cannot parse in two threads
RESERVED = "plain", "made_from"  # what a stored measurement's file has beside its arrays, as JSON


class Run:
    """What a notebook's parameters mean. `data` may be left out: it is then the profile's own."""

    def __init__(
        self, profile="mini", data="", model="", device="", seed=0, recompute=False, out=""
    ):
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise CompanionError(f"{seed!r} is no seed: give a whole number, such as 0.")
        chosen = read_profile(profile)
        self.profile, self.draw, items = chosen["name"], chosen["draw"], chosen["sizes"]["items"]
        own, self.stand_ins = chosen["data"][0], chosen["stand_ins"]
        self.data = data or own
        if self.data not in chosen["data"]:
            raise CompanionError(
                f"The profile {self.profile} does not run on the data set {data}: "
                f"choose data {' or '.join(chosen['data'])}."
            )
        self.model, self.revision = _at_commit(model)
        self.device, self.seed, self.recompute = device or None, seed, recompute
        self.sizes = SimpleNamespace(**chosen["sizes"])
        self._choose_models(chosen["models"])
        given = {
            "--profile": self.profile if self.profile != "mini" else "",
            "--data": self.data if self.data != own else "",
            "--model": self.model,
            "--revision": self.revision,
            "--device": device,
            "--limit": items,
        }
        self.flags = [word for flag, value in given.items() if value for word in (flag, str(value))]
        self.name = self.profile if self.data == own else f"{self.profile}-{OTHER_DATA[self.data]}"
        self.name += (f"-{tag(model)}" if model else "") + (f"-limit{items}" if items else "")
        self.stored = stored_folder(self.name)
        # a relative folder is one of the repository: notebooks and command line work in different ones
        made = out or os.environ.get("COMPANION_OUT") or made_folder(self.name)
        self.out = paths.ROOT / made
        self.revisions = {}  # of the models used so far
        self._compared = {}  # by notebook: what was held against printed numbers so far

    def _choose_models(self, given: dict):
        """The profile's models, and `model` in the place where it fits."""
        self.encoder, self.decoder, self.classifier = (
            given[role] for role in ("encoder", "decoder", "classifier")
        )
        self.cloze, self.debiased, self.llama = (
            given[role] for role in ("cloze", "debiased", "llama")
        )
        self.base = self.encoder  # of the debiased models
        if self.sizes.items and self.classifier and not (paths.MODELS / self.classifier).is_dir():
            self.classifier = str(
                paths.CACHE / "nli" / f"{self.classifier}-limit{self.sizes.items}"
            )  # made on few
        if not (model := self.model):
            return
        self.cloze = [model]
        if self.revision:
            _pin(model, self.revision)
        entry = models.REGISTRY.get(model)
        named = entry and isinstance(
            entry.source, str
        )  # a paper's language model: said without fetching it
        config = (
            {"model_type": entry.family} if named else models.config_of(models.locate(model)[0])
        )
        family = config.get("model_type")
        anatomy = families.of(family, model)
        saved_as = config.get("architectures") or []
        if (
            "ForSequenceClassification" not in str(saved_as)
            and saved_as
            and not {*saved_as} & {*anatomy.classes}
        ):
            raise CompanionError(
                f"{model} was saved as {saved_as[0]}, without a language-model head: notebooks need "
                f"one, choose a model saved as {' or '.join(anatomy.classes)}."
            )
        if "ForSequenceClassification" in str(saved_as):
            self.classifier = model
        elif anatomy.is_causal:
            self.decoder = model
            if family == "llama":
                self.llama, self.debiased = (
                    [model],
                    [],
                )  # the debiased BERTs are the profile's own run's
        else:
            self.encoder = model
            own = f"{model}-nli"  # the profile's was made from another encoder
            self.classifier = (
                own if own in models.REGISTRY and models.REGISTRY[own].source.is_dir() else ""
            )
            self.debiased = [model]  # from the profile's encoder, as notebook 06 takes it

    @property
    def news(self):
        """The corpus that contexts come from on the papers' data, as things lie now: results depend on it."""
        return (
            ""
            if self.data != "paper"
            else readers.corpus()
            if self.stand_ins
            else "news_commentary"
        )

    @property
    def is_control(self):
        """Whether it is of a model that cannot have the effect, untrained or balanced: its claims ignore preconditions."""
        return any(
            models.draw_of(name) or Path(name).name.startswith(verdict.GENDER_SWAPPED)
            for name in (self.model, self.encoder)
        )

    @property
    def company(self):
        """The models that notebook 01 introduces: encoder, decoder and, between them, the other families that ship."""
        others = [
            name for name in self.cloze if (paths.MODELS / name).is_dir() and name != self.decoder
        ]
        return list(dict.fromkeys([self.encoder, *others, self.decoder]))

    def __repr__(self):
        return f"Run {self.name}: models {self.encoder} and {self.decoder}, data {self.data}, seed {self.seed}"

    def load(self, name, **options):
        """`models.load` on this run's device; the revision goes with everything saved from here on."""
        model = models.load(name, device=self.device, **options)
        self.revisions[name] = model.revision
        return model

    def cached(self, function, *args, **kwargs):
        """`function(*args, **kwargs)`, kept on disk and computed again only when what it depends on changed: arguments
        (small and plain, a model by name), the models' weights, code of lib, word lists and sentences, versions."""
        weights = self.weights([*args, *kwargs.values()])
        self.revisions |= weights
        file = Path(inspect.getsourcefile(function))
        code = fingerprint(file, *sources(file.read_text()) - {file})
        name = f"{function.__module__}.{function.__qualname__}"
        key = [
            name,
            code,
            _data_hash(),
            weights,
            versions("torch", "transformers"),
            self.sizes.items,
            self.news,
        ]
        # joblib keeps pickles: the user's own, in a folder that git ignores. None is ever shipped or fetched.
        with room_for(paths.CACHE / "results"):
            stored = joblib.Memory(paths.CACHE / "results", verbose=0).cache(
                _call, ignore=["function"]
            )
            given = function, args, kwargs, key
            return stored.call(*given)[0] if self.recompute else stored(*given)

    def measured(self, function, *args):
        """`function(*args, device=...)` as `python -m lib.publish measure` stored it for this run, and its command;
        `cached` where that was made from other arguments or weights, or `recompute` asks for it."""
        weights = self.weights(args)
        here, stored = (
            place(folder / "measured", function, args)
            for folder in (paths.BUILD / self.name, self.stored)
        )
        file = here if here.exists() else stored
        if file.exists() and not self.recompute:
            result, made_from = read(file)
            if made_from["question"] == question(function, args, weights):
                self.revisions |= weights
                print(
                    "{}, as stored: {command} ({device}, {precision})".format(
                        file.name, **made_from
                    )
                )
                return result
            print(f"{file.name} was made from other arguments or weights: computed again")
        return self.cached(function, *args, device=self.device)

    @property
    def models(self):
        return {
            self.encoder,
            self.decoder,
            self.classifier,
            self.base,
            *self.cloze,
            *self.debiased,
            *self.llama,
        } - {""}

    def weights(self, args):
        """The revisions of this run's models among the arguments of a function."""
        given = {value for value in args if isinstance(value, str)}
        return {name: models.locate(name)[1] for name in sorted(given & self.models)}

    def save(self, result, name, caption, kind=""):
        """Write a figure (svg, png) or a table (csv), with its provenance (json), to `out`, and show it.
        kind  of a table: claims and numbers are those whose rows the page has already; "": as its columns say"""
        if not isinstance(name, str) or not re.fullmatch(r"\w+", name):
            raise CompanionError(
                f"A result cannot be called {name!r}: give it a name of letters, digits and _ alone."
            )
        if not (isinstance(result, (pd.DataFrame, pd.Series)) or hasattr(result, "figure")):
            raise CompanionError(
                f"A {type(result).__name__} cannot be saved: give a figure or a DataFrame."
            )
        if isinstance(result, (pd.DataFrame, pd.Series)):
            named = not isinstance(result.index, pd.RangeIndex)
            # six digits: what follows differs from machine to machine
            contents = {
                ".csv": result.to_csv(
                    index=named, float_format="%.6g", lineterminator="\n"
                ).encode()
            }
            about = {"kind": kind or _kind(getattr(result, "columns", []))}
        else:
            result = result.figure  # of a figure, of axes, or of a seaborn grid
            title = result.get_suptitle().replace("-\n", "-").replace("\n", " ")
            contents, about = _images(result), {"kind": kind or "figure", "finding": title}
            if not self.flags:  # a long name of another model must not stop its run
                look.check(result)
        contents[".json"] = _json({"caption": caption, **about} | self.provenance())
        if not self.draw:
            for suffix, content in contents.items():
                replace(self.out / f"{name}{suffix}", content)
        if png := contents.get(
            ".png"
        ):  # shown as it was saved, not drawn once more; its bytes 16 to 19 say how wide
            result = display.Image(
                png, width=round(int.from_bytes(png[16:20]) / DPI * SCREEN_DPI), alt=caption
            )
        display.display(result)

    @property
    def shown(self) -> Path:
        """A folder with all results of this run: of each notebook those made now, else those stored."""
        return shown(self.name, self.out)

    def judged(self, notebook: str, verdicts):
        """Keep a notebook's verdicts, unrounded, for the board: claims/NN.json."""
        verdict.write(self.out / "claims" / f"{notebook}.json", verdicts)

    def compared(self, notebook: str, paper: str, numbers: dict):
        """Keep what a notebook holds against printed numbers: {(table, row, column): (ours as shown, match)}, beside
        what it said before. `kind` is the verdict.Match that a match, text as a table shows it, opens with."""
        known = self._compared.setdefault(notebook, {})
        for key, (ours, match) in numbers.items():
            known[paper, *key] = (
                ours,
                match,
                next(kind for kind in verdict.Match if match.startswith(kind)),
            )
        rows = [
            dict(zip(("paper", "table", "row", "column", "ours", "match", "kind"), (*key, *said)))
            for key, said in known.items()
        ]
        if not self.draw:
            replace(self.out / "numbers" / f"{notebook}.json", _json(rows))

    def show_other(self, name: str, other: str = "mini-real"):
        """What another run has saved, with the command that made it: a DataFrame or an image for the notebook."""
        file = next(
            filter(
                Path.is_file, (paths.FIGURES / other / f"{name}{kind}" for kind in (".csv", ".png"))
            ),
            None,
        )
        if file is None or self.name == other:
            fix = (
                f": run ./reproduce.sh --only {name[:2]} --data paper"
                if other == "mini-real"
                else ""
            )
            print(
                f"This is the run {other} itself: see above."
                if self.name == other
                else f"figures/{other} has no {name} yet{fix}."
            )
            return None
        try:
            made = json.loads(file.with_suffix(".json").read_text(encoding="utf-8"))
            ((data, files),) = made["data"].items()
            print(
                f"As stored in figures/{other}, made by {made['command']} (models {', '.join(made['models'])}; data "
                f"{data}{', whose files have changed since' if files != _data_hash() else ''}): {made['caption']}"
            )
            return (
                pd.read_csv(file, keep_default_na=False)
                if file.suffix == ".csv"
                else display.Image(file)
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise CompanionError(
                f"figures/{other}/{name} is damaged: restore it with `git checkout figures/{other}`, "
                "or run its notebook again."
            ) from None

    def provenance(self):
        """What a result was made from. Free of dates and times, so that the same result is the same file."""
        notebook = Path(
            os.environ.get("JPY_SESSION_NAME", "")
        ).stem  # Jupyter and lib/publish/notebooks.py set it
        only = ["--only", notebook[:2]] if notebook[:2].isdigit() else []
        return {
            "run": self.name,
            "command": shlex.join(["./reproduce.sh", *only, *self.flags]),
            "notebook": notebook,
            "models": dict(sorted(self.revisions.items())),
            "data": {self.data: _data_hash()},
            "seed": self.seed,
            "sizes": vars(self.sizes),
            "versions": versions("torch", "transformers", "numpy", "scipy", "pandas", "matplotlib"),
        }


def stored_folder(name: str) -> Path:
    """Where the repository keeps a run; another draw of untrained networks, null@3, with the first one."""
    run, at, rest = name.partition("@")
    if not at:
        return paths.FIGURES / run
    draw, dash, data = rest.partition("-")
    return paths.FIGURES / f"{run}{dash}{data}" / "draws" / draw


def made_folder(name: str) -> Path:
    """Where a run writes."""
    return paths.BUILD / name / "figures"


def runs() -> dict[str, Path]:
    """{name of a run: its folder}, for all that are stored and have a finished notebook: these end in records."""
    return {
        folder.name: folder for folder in sorted(paths.FIGURES.glob("*")) if has_records(folder)
    }


def has_records(folder: Path) -> bool:
    return any(folder.glob("claims/*.json")) or any(folder.glob("numbers/*.json"))


def runs_shown() -> dict[str, Path]:
    """The same, and those that were made here; of each notebook what was made here, else what is stored."""
    made = {
        folder.parent.name: folder
        for folder in paths.BUILD.glob("*/figures")
        if has_records(folder)
    }
    full = {
        name: folder
        for name, folder in made.items()
        if not LIMITED.fullmatch(name) and "@" not in name
    }
    return dict(
        sorted((runs() | {name: shown(name, folder) for name, folder in full.items()}).items())
    )


def shown(name: str, made: Path) -> Path:
    """A folder with all results of a run: of each notebook those that were made here, else those stored."""
    stored = stored_folder(name)
    here = {file.name[:2] for file in made.glob("[0-9][0-9]_*")}
    if not here:
        return stored
    folder = paths.BUILD / name / "shown"
    with new_folder(folder) as merged:
        for source, is_made in ((stored, False), (made, True)):
            for pattern in (
                "[0-9][0-9]_*.*",
                "claims/*.json",
                "numbers/*.json",
                "draws/*/claims/*.json",
            ):
                for file in source.glob(pattern):
                    if (
                        is_made == (file.name[:2] in here)
                        or "draws" in file.relative_to(source).parts
                    ):
                        target = merged / file.relative_to(source)
                        target.parent.mkdir(parents=True, exist_ok=True)
                        shutil.copyfile(file, target)
    return folder


# ---- profiles
def read_profile(name):
    """A profile, cut to a limit, with its name and its draw. It has the keys of mini.toml, no more and no fewer."""
    there = sorted(file.stem for file in paths.PROFILES.glob("*.toml"))
    if not isinstance(name, str):
        raise CompanionError(f"{name!r} is no profile: choose one of {', '.join(there)}.")
    limited = LIMITED.fullmatch(name) if name not in there else None
    name, items = (limited[1], int(limited[2])) if limited else (name, 0)
    control = CONTROL.fullmatch(name) if name not in there else None
    if name not in there and not control:
        choices = [*there, verdict.UNTRAINED, f"{verdict.UNTRAINED}@1", verdict.GENDER_SWAPPED]
        raise CompanionError(
            f"There is no profile {name}: choose one of {', '.join(choices)}, or add "
            f"lib/publish/profiles/{name}.toml."
        )
    profile = _parse("mini" if control else name)
    if control:
        profile["models"] |= _control(name)
    has, wanted = _keys(profile), _keys(_parse("mini"))
    for key in [*sorted(has - wanted), *sorted(wanted - has)]:
        wrong = (
            f"has the unknown key {key}: remove it, or add it to mini.toml"
            if key in has
            else f"lacks the key {key}: take it over from mini.toml"
        )
        raise CompanionError(f"lib/publish/profiles/{name}.toml {wrong}.")
    if limited and items < 2:
        raise CompanionError(f"Nothing can be measured on {items} items: give --limit 2 or more.")
    sizes = (
        profile["sizes"]
        if not limited
        else {
            size: value
            if size in NOT_ITEMS
            else _at_most(value, max(2, items // 4) if size.endswith(MULTIPLY) else items)
            for size, value in profile["sizes"].items()
        }
        | {"items": items}
    )
    return profile | {"name": name, "sizes": sizes, "draw": control[1] or "" if control else ""}


def _control(profile):
    """Models that cannot have the effect: untrained ones of a draw, "null@3", or the balanced BERT among such."""
    kind, at, draw = profile.partition("@")
    bert, classifier, roberta, albert, gpt2 = (
        f"null{which}{at}{draw}" for which in ("", "-nli", "-roberta", "-albert", "-gpt2")
    )
    if kind == verdict.GENDER_SWAPPED:
        return {
            "encoder": kind,
            "decoder": gpt2,
            "classifier": f"{kind}-nli",
            "cloze": [kind],
            "debiased": [],
            "llama": [],
        }
    other = f"@{100 + int(draw or 0)}"  # 06: another draw, as unlike its base as a debiased or a chat model
    return {
        "encoder": bert,
        "decoder": gpt2,
        "classifier": classifier,
        "cloze": [bert, roberta, albert, gpt2],
        "debiased": [f"null{other}"],
        "llama": [gpt2, f"null-gpt2{other}"],
    }


def _at_most(value, n):
    """A size cut to n; 0, which says all, becomes n."""
    if isinstance(value, dict):
        return {data: _at_most(size, n) for data, size in value.items()}
    return min(value, n) or n if isinstance(value, int) else value


def _parse(name):
    try:
        return tomllib.loads((paths.PROFILES / f"{name}.toml").read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise CompanionError(
            f"lib/publish/profiles/{name}.toml is not TOML: fix what is wrong there ({error})."
        ) from None


def _keys(profile):
    """data, models.encoder, models.decoder, sizes.nsp_examples, ..."""
    return {
        f"{key}.{inner}" if inner else key
        for key, value in profile.items()
        for inner in (value if isinstance(value, dict) else [""])
    }


# ---- models
def tag(model):
    """A model as part of a folder's name; what that cannot spell is told apart by a hash: c b and c-b."""
    plain = slug(model)
    return plain if plain == model else f"{plain}-{hashlib.sha256(model.encode()).hexdigest()[:6]}"


def _at_commit(model):
    """(name, commit) of "org/name@commit"; no commit where none is given, or where that is a folder's name."""
    name, _, commit = (
        model.rpartition("@") if not models.draw_of(model) else ("", "", "")
    )  # null@3 is a name
    return (
        (name, commit)
        if name and re.fullmatch(r"[\w.-]+", commit) and not Path(model).exists()
        else (model, "")
    )


def _pin(name, revision):
    """Have whatever loads this model by name take this commit of the hub."""
    source = models.REGISTRY[name].source if name in models.REGISTRY else name
    if not isinstance(source, str) or Path(source).is_dir():
        raise CompanionError(f"{name} is a folder, not a model of the hub: leave --revision out.")
    same = {key: entry for key, entry in models.REGISTRY.items() if entry.source == source}
    same = same or {f"{source} as asked": models.Entry(source, "", "at a commit asked for")}
    models.REGISTRY.update(
        {key: dataclasses.replace(entry, revision=revision) for key, entry in same.items()}
    )


# ---- results that are kept
def place(folder: Path, function, args) -> Path:
    """The file of a measurement in a folder, named by the function and the names among its arguments."""
    names = [_name(function), *(arg for arg in args if isinstance(arg, str))]
    return folder / f"{slug('_'.join(names))}.npz"


def question(function, args, weights: dict[str, str]) -> dict:
    """What must agree for a stored measurement to be taken: JSON has lists alone, so tuples become lists."""
    return json.loads(
        json.dumps({"function": _name(function), "arguments": args, "weights": weights})
    )


def _name(function) -> str:
    """heads.measure: by the module alone, so that a stored result outlives a move of the module to another folder."""
    return f"{function.__module__.split('.')[-1]}.{function.__name__}"


def write(file: Path, result: dict, made_from: dict):
    """Keep a dict of arrays and plain values, with what it was made from, without pickles: opening it runs no code."""
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
            return {
                name: kept[name] for name in kept.files if name not in RESERVED
            } | plain, made_from
    except (OSError, ValueError, KeyError, EOFError) as error:
        raise CompanionError(
            f"{file} is not a stored result, or damaged: restore it with git, or delete it to "
            "compute it here."
        ) from error


def _call(function, args, kwargs, key):
    return function(*args, **kwargs)


def sources(code: str) -> set[Path]:
    """The files of lib that some code imports, however deep."""
    files, waiting = set(), set(_imported(code))
    while waiting:
        file = paths.ROOT / waiting.pop()
        if file not in files and file.is_file():
            files.add(file)
            waiting |= _imported(file.read_text())
    return files


def _tree(code: str) -> ast.AST:
    """Code as a tree; that of a notebook may have magics (%matplotlib inline), which IPython knows."""
    try:
        return ast.parse(code)
    except SyntaxError:
        pass
    try:
        return ast.parse(inputtransformer2.TransformerManager().transform_cell(code))
    except SyntaxError:  # the notebook will say so when it runs
        return ast.Module([], [])


@cache
def _imported(code: str) -> set[Path]:
    """Where modules of lib that this code imports anywhere would lie, seen from the repository."""
    names = []
    with PARSING:
        tree = _tree(code)
    for node in ast.walk(tree):
        if isinstance(
            node, ast.ImportFrom
        ):  # from lib.engine import hooks; from lib.engine.hooks import project
            homes = (
                lib._NAMES if node.module == "lib" else {}
            )  # from lib import load: that is lib.engine.models.load
            names += [f"{homes.get(alias.name, node.module)}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):  # import lib.engine.hooks
            names += [alias.name for alias in node.names]
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "Lazy"
        ):
            names += [
                argument.value for argument in node.args if isinstance(argument, ast.Constant)
            ]
    # lib.engine.hooks.project is lib/engine/hooks.py, and lib/engine/__init__.py is read on the way
    modules = [Path(*name.split(".")) for name in names if name.split(".")[0] == "lib"]
    return {
        file
        for module in modules
        for place in (module, *module.parents[:-1])
        for file in (place.with_suffix(".py"), place / "__init__.py")
    }


def _data_hash():
    """What identifies the data: the shipped files, and sources.toml, which holds the hash of every other."""
    return fingerprint(paths.LISTS, paths.DEMO, paths.SOURCES)


def versions(*packages):
    """Without the local part: torch 2.13.0+cpu and 2.13.0 are one release."""
    return {package: version(package).split("+")[0] for package in packages}


def _kind(columns):
    """Of a table: claims and numbers have a verdict in each row."""
    if not any(str(name).startswith("verdict") for name in columns):
        return "table"
    return (
        "claims"
        if "claim" in columns
        else "numbers"
        if {"paper", "ours"} <= set(columns)
        else "table"
    )


def _json(made):
    return (json.dumps(made, indent=1, ensure_ascii=False) + "\n").encode()


def _images(figure):
    """The same bytes for the same figure: no date, version or random ids. Laid out once for both: the slowest part."""
    svg, png = io.BytesIO(), io.BytesIO()
    figure.draw_without_rendering()
    figure.set_layout_engine(
        None
    )  # not "none", which would be asked, by one more drawing, in each savefig
    frame = figure.get_tightbbox().padded(plt.rcParams["savefig.pad_inches"])
    with plt.rc_context({"svg.hashsalt": "companion"}):
        figure.savefig(
            svg, format="svg", bbox_inches=frame, metadata={"Date": None, "Creator": None}
        )
        figure.savefig(png, format="png", bbox_inches=frame, metadata={"Software": None}, dpi=DPI)
    plt.close(figure)  # or Jupyter would show it a second time
    return {".svg": svg.getvalue(), ".png": png.getvalue()}
