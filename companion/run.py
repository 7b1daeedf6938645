"""A run: one profile, one data set and one set of models. What every notebook begins with.

    run = Run(profile=profile, data=data, model=model, device=device, seed=seed, ...)
    run.encoder, run.decoder, run.classifier, run.cloze, run.sizes.nsp_examples, run.seed
    bert = run.load(run.encoder)                        # its revision is recorded with every result
    scores = run.measured(heads.measure, run.encoder, "gender", sample)     # computed once
    run.save(figure_or_table, "02_fig1", "What it shows.")
    run.judged("02", tests)                             # for the ledger

Profiles are in companion/profiles. A run writes to build/<run>/figures; what the repository stores
of it is in figures/<run>. A model of the hub may be asked for at another commit than the pinned
one: "org/name@commit".
"""

import dataclasses
import datetime
import hashlib
import json
import os
import random
import re
import shlex
from functools import partial
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import joblib
import pandas as pd
from IPython import display
from tqdm import tqdm

from companion import claims, formats, ledger, printed, profiles, results, stale
from companion.results import Rests
from lib import CompanionError, paths
from lib.engine import families, folders, models
from lib.engine.files import replace, room_for, slug
from lib.text import readers

TOLD = "mini"  # the run whose outputs stand in notebooks/
SAMPLE = 2  # items of a stored measurement that a run computes again
# What a run is called whose data are not its profile's own: mini-real, ...
DATA_NAMES = {"mini": "demo", "paper": "real"}
OTHER = "what it was made from"  # arguments, weights or data
# The models that the papers print numbers of, as far as a run can have them
PRINTED = {"bert-base", "gpt2", "bert-base-nli", "llama-2-7b", "llama-2-7b-chat"}
CLASSIFIER = "ForSequenceClassification"  # how transformers calls a fine-tuned network's class


class Run:
    """What a notebook's parameters mean. `data` may be left out: it is then the profile's own."""

    def __init__(
        self, profile="mini", data="", model="", device="", seed=0, recompute=False, out=""
    ):
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise CompanionError(f"{seed!r} is no seed: give a whole number, such as 0.")
        if seed < 0 or not isinstance(recompute, bool):
            raise CompanionError(
                f"seed={seed!r}, recompute={recompute!r}: a seed is 0 or more, recompute True or "
                "False without quotes."
            )
        chosen = profiles.read(profile)
        self.profile = chosen.name
        self.draw = chosen.draw
        self.stand_ins = chosen.stand_ins
        self.own_data = chosen.data[0]
        self.data = data or self.own_data
        if self.data not in chosen.data:
            raise CompanionError(
                f"The profile {self.profile} does not run on the data set {data}: "
                f"choose data {' or '.join(chosen.data)}."
            )
        self.model, self.revision = _at_commit(model)
        self.device = device or None
        self.seed = seed
        self.recompute = recompute
        self.sizes = SimpleNamespace(**chosen.sizes)
        self._choose_models(chosen.models)
        self.name = self._named(model)
        self.stored = results.stored_folder(self.name)
        # a relative folder is one of the repository: notebooks and command line work in different
        # ones
        made = out or os.environ.get("COMPANION_OUT") or results.made_folder(self.name)
        self.out = paths.ROOT / made
        self.revisions = {}  # of the models used so far
        self.taken = {}  # stored measurements that were used or refused so far, and their samples
        self.cut = {}  # what was computed on less than the whole, or left out: results.smaller
        self._assembles = False  # whether it has read what other notebooks made
        self._compared = {}  # by notebook: what was held against printed numbers so far

    def __repr__(self):
        return (
            f"Run {self.name}: models {self.encoder} and {self.decoder}, data {self.data}, "
            f"seed {self.seed}"
        )

    def _named(self, model: str) -> str:
        """mini, mini-real, mini-roberta-base, paper-limit8, ..."""
        name = self.profile
        if self.data != self.own_data:
            name += f"-{DATA_NAMES[self.data]}"
        if model:
            name += f"-{tag(model)}"
        if self.sizes.items:
            name += f"-limit{self.sizes.items}"
        return name

    @property
    def flags(self) -> list[str]:
        """The flags of ./reproduce.sh that ask for this run; none for the default one."""
        given = {
            "--profile": self.profile if self.profile != "mini" else "",
            "--data": self.data if self.data != self.own_data else "",
            "--model": self.model,
            "--revision": self.revision,
            "--device": self.device,
            "--limit": self.sizes.items,
        }
        words = []
        for flag, value in given.items():
            if value:
                words += [flag, str(value)]
        return words

    # ---- models
    def _choose_models(self, given: dict):
        """The profile's models, and `model` in the place where it fits."""
        self.encoder = given["encoder"]
        self.decoder = given["decoder"]
        self.classifier = given["classifier"]
        self.cloze = given["cloze"]
        self.debiased = given["debiased"]
        self.llama = given["llama"]
        self.base = self.encoder  # of the debiased models
        is_bundled = bool(self.classifier) and (paths.MODELS / self.classifier).is_dir()
        if self.sizes.items and self.classifier and not is_bundled:  # one made on few examples
            name = f"{self.classifier}-limit{self.sizes.items}"
            self.classifier = str(paths.CACHE / "nli" / name)
        if self.model:
            self._place_model(self.model)

    def _place_model(self, model: str):
        """Put a model that was asked for in the place of its kind."""
        if self.revision:
            _pin(model, self.revision)
        config = _config_of(model)
        family = families.of(config.get("model_type"), model)
        saved_as = config.get("architectures") or []
        self.cloze = [model]
        if CLASSIFIER in str(saved_as):
            self.classifier = model
            return
        known = set(family.classes)
        if not family.is_causal:  # its vectors can be measured: companion/reproduce.py says where
            known.add(models.bare_class(family))
        if saved_as and not known & set(saved_as):
            raise CompanionError(
                f"{model} was saved as {saved_as[0]}, whose head notebooks do not know: choose a "
                f"model saved as {' or '.join(sorted(known))}."
            )
        if family.is_causal:
            self.decoder = model
            self.llama = [model]  # as notebook 06 calls them: the decoders whose heads it shows
            self.debiased = []  # the debiased BERTs are those of the profile's own run
            return
        self.encoder = model
        self.debiased = [model]  # beside the profile's encoder, as notebook 06 takes it
        own = folders.REGISTRY.get(f"{model}-nli")  # the profile's classifier is another encoder's
        self.classifier = f"{model}-nli" if own and Path(own.source).is_dir() else ""

    @property
    def models(self) -> set[str]:
        """All models of the run."""
        one_each = {self.encoder, self.decoder, self.classifier, self.base}
        return (one_each | {*self.cloze, *self.debiased, *self.llama}) - {""}

    @property
    def company(self) -> list[str]:
        """The models that notebook 01 introduces: encoder, the other bundled families, decoder."""
        names = [self.encoder]
        for name in self.cloze:
            if (paths.MODELS / name).is_dir() and name != self.decoder:
                names.append(name)
        return list(dict.fromkeys([*names, self.decoder]))

    @property
    def is_control(self) -> bool:
        """Whether its models are controls: claims are then judged without preconditions."""
        for name in (self.model, self.encoder):
            if folders.draw_of(name) or Path(name).name.startswith(tuple(profiles.CONTROLS)):
                return True
        return False

    def is_papers(self, model: str) -> bool:
        """Whether this is a model that the papers print numbers of, at its pinned commit, on their
        data: no other's number is held against a printed one.
        """
        return self.data == "paper" and model in PRINTED and not self.revision

    @property
    def news(self) -> str:
        """The corpus at hand that contexts come from on the papers' data: results depend on it."""
        if self.data != "paper":
            return ""
        return readers.corpus() if self.stand_ins else "news_commentary"

    def load(self, name: str, **options) -> "models.Model":
        """`models.load` on this run's device; its revision goes with everything saved from
        here on.
        """
        model = models.load(name, device=self.device, **options)
        self.revisions[name] = model.revision
        return model

    def weights(self, args) -> dict[str, str]:
        """The revisions of this run's models among the arguments of a function."""
        given = {value for value in args if isinstance(value, str)}
        return {name: folders.locate(name)[1] for name in sorted(given & self.models)}

    # ---- results that are computed once
    def measured(self, function, *args, quick: tuple | None = (), **options):
        """`function(*args, **options, device=...)`: the one rule for everything that takes time.

        What `./reproduce.sh measure` made here answers, if code, weights and arguments are the
        same. What the repository stores of this run answers, if a sample of it comes out the same
        here and now. Anything else is computed, and kept on disk until something changes that it
        depends on. `recompute` believes neither, nor what was kept before its command began.

        quick   smaller arguments, which are computed where nothing answers and there is no GPU;
                None: nothing is, and None comes back, since it would take hours. Either is said
        """
        weights = self.weights([*args, *options.values()])
        self.revisions |= weights
        if not self.recompute:
            result = self._kept(function, [args, quick or args], weights)
            if result is not None:
                return result
        name = results.place(self.out, function, args).stem
        if quick == () or self.recompute and models.usable_device(self.device) != "cpu":
            quick = args
        if quick is None:
            self.cut[name] = results.LEFT_OUT
            print(f"{name}: not computed here, it takes hours without a GPU")
            return None
        if quick != args:
            self.cut[name] = results.smaller(function, args, quick)
            print(f"{name}: computed here in the size that a CPU can bear: {self.cut[name]}")
        elif self.recompute:
            print(f"{name}: computed here in full")
        return self.computed(function, quick, options)

    def computed(self, function, args: tuple, options: dict | None = None):
        """The result, from joblib's store where it has been computed before. What says of itself
        how it is made `in_steps` is kept step by step too, so that it goes on where it was stopped.
        """
        options = (options or {}) | {"device": self.device}
        given = [*args, *options.values()]
        key = [
            results.name_of(function),
            stale.of_function(function),
            stale.data_hash(),
            self.weights(given),
            versions("torch", "transformers"),
            self.sizes.items,
            self.news,
        ]
        # joblib keeps pickles: the user's own, in a folder that git ignores. None is ever fetched.
        with room_for(paths.CACHE / "results"):
            memory = joblib.Memory(paths.CACHE / "results", verbose=0)
            fresh = _since_it_began if self.recompute else None
            kept = memory.cache(_call, ignore=["function"], cache_validation_callback=fresh)
            if not hasattr(function, "in_steps") or "only" in options:
                return kept(function, args, options, key)

            def in_steps(*args, **options):
                prepare, under, columns = function.in_steps
                bench = prepare(*args, **options)
                rows = []
                for step in tqdm(range(len(bench.plan)), desc="masks", leave=False):
                    whose = [*key, args, options, step]
                    rows.append(kept(partial(under, bench, step), (), {}, whose))
                return columns(rows)

            return kept(in_steps, args, options, key)

    def _kept(self, function, choices: list[tuple], weights: dict):
        """What was measured without a notebook, here or by who stored it, of one of these choices
        of arguments; None: nothing of use, which is said of what is stored.
        """
        here = paths.BUILD / self.name
        for folder in (here, self.stored):
            file = results.place(folder / "measured", function, choices[0])
            if not file.exists():
                continue
            result, made_from = results.read(file)
            asked = made_from["question"]
            same = [args for args in choices if results.question(function, args, weights) == asked]
            if folder == here:
                if same and made_from["code"] == stale.of_function(function):
                    print(results.said_of(file, made_from))
                    return result
                continue
            sample = {"items": 0, "sampled": 0, "agrees": False, "differs": [OTHER]}
            if same:
                sample = self._sampled(function, same[0], result, file.stem)
            self.taken[file.stem] = results.about(made_from) | sample
            print(results.said_of(file, made_from, sample))
            if sample["agrees"]:
                return result
        return None

    def _sampled(self, function, args, result: dict, name: str) -> dict:
        """Some items of a stored result computed again, and whether they are the same.

        They are drawn by `--sample-seed`, today's date unless it is given; joblib's store has them
        once one notebook of a run has asked.
        """
        seed = os.environ.get("COMPANION_SAMPLE_SEED") or datetime.date.today().isoformat()
        items = function.items(result)
        drawn = random.Random(f"{seed} {name}").sample(range(items), min(SAMPLE, items))
        try:
            again = self.computed(function, args, {"only": sorted(drawn)})
            differs = results.differing(result, again)
        except CompanionError as error:  # a network that is none any more, say
            differs = [f"all, since none could be computed ({error})"]
        return {"items": items, "sampled": len(drawn), "agrees": not differs, "differs": differs}

    # ---- what a notebook leaves
    def save(
        self,
        result,
        name: str,
        caption: str,
        rows: int | None = None,
        show: bool = True,
        rests: Rests | None = None,
        digits: int = 2,
    ):
        """Write a figure (svg, png) or a table (csv), with its provenance (json), and show it.

        A table's Estimates are kept as columns of numbers (value, low, high, n), and shown as text.

        rows   of a longer table, so many are shown, and a link to the file that has all
        show   False: a link to the file and the caption alone, for what few will look at
        rests  what it rests on, where that is not what the notebook as a whole has taken so far
        digits after the point, of Estimates as they are shown
        """
        is_table = isinstance(result, (pd.DataFrame, pd.Series))
        _check_result(result, name, is_table)
        if is_table:
            contents = {".csv": formats.csv(formats.numbers(result))}
            result = formats.as_text(result, digits)
            about = {}
        else:
            figure = result.figure  # of a figure, of axes, or of a seaborn grid
            title = figure.get_suptitle().replace("-\n", "-").replace("\n", " ")
            contents = formats.images(figure)
            about = {"finding": title}
        about["rests"] = rests or self.rests
        contents[".json"] = formats.record(
            {"caption": caption, **about} | self.provenance(about["rests"])
        )
        if not self.draw:  # other draws of untrained networks keep their tests alone
            for suffix, content in contents.items():
                replace(self.out / f"{name}{suffix}", content)
        if not show:
            file = f"{self.stored.name}/{name}.{'csv' if is_table else 'png'}"
            display.display(display.Markdown(f"[figures/{file}](../figures/{file}): {caption}"))
        elif is_table and rows is not None:
            self._show_first(result, rows, f"{self.stored.name}/{name}.csv")
        else:
            display.display(result if is_table else formats.image(contents.get(".png"), caption))

    def _show_first(self, table: pd.DataFrame | pd.Series, rows: int, file: str):
        """The first rows of a table, and where all of them are: a file of the stored run, which
        the page of a notebook that was executed here links in its own folder.
        """
        with formats.whole_cells():
            display.display(table.head(rows))
        if len(table) > rows:
            here = f"[figures/{file}](../figures/{file})"
            display.display(display.Markdown(f"{rows} of {len(table):,} rows; all are in {here}."))

    def judged(self, notebook: str, tests: "list[claims.Test]", main_alone: bool = False):
        """Keep a notebook's tests, unrounded, for the ledger: claims/NN.json. Show what each came
        to, held against the stored control models; `main_alone`: those of the paper's own reading.
        """
        claims.write(self._record("claims", notebook), tests)
        self._keep_taken(notebook)
        rows = ledger.of_tests(tests, self.name)
        with formats.whole_cells():
            display.display(ledger.shown(rows[rows["is_main"]] if main_alone else rows))

    def tell(self, text: str):
        """Words on what was found, written for the run whose outputs the repository stores."""
        if self.name == TOLD:
            display.display(display.Markdown(text))
        else:
            print(f"What was found is in the tables: the words of this place are of {TOLD}.")

    def compared(self, notebook: str, paper: str, numbers: dict):
        """Keep what a notebook holds against printed numbers, beside what it kept before:
        numbers/NN.json.

        numbers   {(table, row, column): (ours, match)}; ours is a number or an Estimate, None where
                  there is none; the match is text as a table shows it, and opens with a
                  printed.Match
        """
        known = self._compared.setdefault(notebook, {})
        for key, (ours, match) in numbers.items():
            kind = next(kind for kind in printed.Match if match.startswith(kind))
            known[paper, *key] = formats.number(ours) | {"match": match, "kind": str(kind)}
        rows = []
        for (name, table, row, column), said in known.items():
            rows.append({"paper": name, "table": table, "row": row, "column": column} | said)
        if not self.draw:
            replace(self._record("numbers", notebook), formats.record(rows))
        self._keep_taken(notebook)

    def _record(self, folder: str, notebook: str) -> Path:
        if not re.fullmatch(r"[\w-]+", notebook):
            raise CompanionError(f"{notebook!r} is no notebook's number: give one such as 04.")
        return self.out / folder / f"{notebook}.json"

    @property
    def rests(self) -> Rests:
        """What a result rests on that is made now of all that the notebook has taken so far."""
        used = [one for one in self.taken.values() if one["agrees"]]
        if used:
            is_checked = all(one["sampled"] for one in used)
            return Rests.STORED if is_checked else Rests.UNCHECKED
        if self.revisions:
            return Rests.COMPUTED
        return Rests.ASSEMBLED if self._assembles else Rests.NO_MODEL

    def takes_unchecked(self, name: str, items: int, **about):
        """Say that what follows rests on stored results that no sample can check."""
        self.taken[name] = about | {"items": items, "sampled": 0, "agrees": True}

    def _keep_taken(self, notebook: str):
        """Keep what a notebook's tests and numbers rest on, and what it could not measure in full:
        measured/NN.json.
        """
        if not self.draw:
            taken = {"rests": self.rests, "measured": self.taken}
            if self.cut:
                taken["cut"] = self.cut
            replace(self._record("measured", notebook), formats.record(taken))

    @property
    def shown(self) -> Path:
        """A folder with all results of this run: of each notebook what was made now, else what is
        stored.
        """
        self._assembles = True
        return results.shown(self.name, self.out)

    def show_other(
        self, name: str, other: str = "mini-real", rows: int | None = None, digits: int = 2
    ):
        """What another run has stored, with the command that made it: a DataFrame or an image, or
        None. Of a table longer than `rows` so many are shown, and a link to the file.

        digits   after the point, of what was saved as Estimates
        """
        folder = paths.FIGURES / other
        if self.name == other:
            print(f"This is the run {other} itself: see above.")
            return None
        files = [folder / f"{name}{kind}" for kind in (".csv", ".png")]
        there = [file for file in files if file.is_file()]
        if not there:
            fix = (
                f": run ./reproduce.sh --only {name[:2]} --data paper"
                if other == "mini-real"
                else ""
            )
            print(f"figures/{other} has no {name} yet{fix}.")
            return None
        file = there[0]
        try:
            print(f"As stored in figures/{other}, {_made_by(file.with_suffix('.json'))}")
            if file.suffix != ".csv":
                return display.Image(file)
            table = formats.folded(pd.read_csv(file, keep_default_na=False), digits)
            if rows is None:
                return formats.Whole(table)
            return self._show_first(table, rows, f"{other}/{name}.csv")
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise CompanionError(
                f"figures/{other}/{name} is damaged: restore it with `git checkout "
                f"figures/{other}`, or run its notebook again."
            ) from None

    def provenance(self, rests: str = "") -> dict:
        """What a result was made from. Free of dates and times, so that the same result is the same
        file. Of what this process did not measure, neither its sizes nor its versions are told:
        each stored measurement names its own.
        """
        notebook = Path(os.environ.get("JPY_SESSION_NAME", "")).stem  # Jupyter and publish set it
        only = ["--only", notebook[:2]] if notebook[:2].isdigit() else []
        without = rests == Rests.NO_MODEL
        about = {
            "run": self.name,
            "command": shlex.join(["./reproduce.sh", *only, *self.flags]),
            "notebook": notebook,
            "models": {} if without else dict(sorted(self.revisions.items())),
            "data": {self.data: stale.data_hash()},
            "seed": self.seed,
        }
        if rests in (Rests.STORED, Rests.UNCHECKED):
            about["measured"] = _unsampled(self.taken)
        elif rests != Rests.ASSEMBLED:
            packages = "torch", "transformers", "numpy", "scipy", "pandas", "matplotlib"
            about |= {"sizes": vars(self.sizes), "versions": versions(*packages)}
        return about


def _unsampled(taken: dict) -> dict:
    """Stored measurements that were used, without what the day's sample drew."""
    kept = {}
    for name, one in taken.items():
        if one["agrees"]:
            kept[name] = {key: value for key, value in one.items() if key != "differs"}
    return kept


def _check_result(result, name: str, is_table: bool):
    if not isinstance(name, str) or not re.fullmatch(r"\w+", name):
        raise CompanionError(
            f"A result cannot be called {name!r}: give it a name of letters, digits and _ alone."
        )
    if not is_table and not hasattr(result, "figure"):
        raise CompanionError(
            f"A {type(result).__name__} cannot be saved: give a figure or a DataFrame."
        )


# ---- models
def tag(model: str) -> str:
    """A model as part of a folder's name.

    Where characters have to be replaced, a hash is added, so that "c b" and "c-b" differ.
    """
    plain = slug(model)
    if plain == model:
        return plain
    return f"{plain}-{hashlib.sha256(model.encode()).hexdigest()[:6]}"


def _at_commit(model: str) -> tuple[str, str]:
    """(name, commit) of "org/name@commit"; no commit of a plain name, of null@3 and of a folder."""
    if folders.draw_of(model) or Path(model).exists():
        return model, ""
    name, _, commit = model.rpartition("@")
    if name and re.fullmatch(r"[\w.-]+", commit):
        return name, commit
    return model, ""


def _pin(name: str, revision: str):
    """Have whatever loads this model by name take this commit of the hub."""
    source = folders.REGISTRY[name].source if name in folders.REGISTRY else name
    if not isinstance(source, str) or Path(source).is_dir():
        raise CompanionError(f"{name} is a folder, not a model of the hub: leave --revision out.")
    same = [key for key, entry in folders.REGISTRY.items() if entry.source == source]
    if not same:
        entry = folders.Entry(source, "", "at a commit asked for", revision=revision)
        folders.REGISTRY[f"{source} as asked"] = entry
    for key in same:
        folders.REGISTRY[key] = dataclasses.replace(folders.REGISTRY[key], revision=revision)


def _config_of(model: str) -> dict:
    """A model's config; of a paper's language model its family alone, which needs no fetching."""
    entry = folders.REGISTRY.get(model)
    if entry and isinstance(entry.source, str):
        return {"model_type": entry.family}
    return folders.config_of(folders.locate(model)[0])


# ---- what is said of stored results
def _made_by(record: Path) -> str:
    """made by ./reproduce.sh ... (models ...; data ...): the caption."""
    made = json.loads(record.read_text(encoding="utf-8"))
    ((data, files),) = made["data"].items()
    changed = ", whose files have changed since" if files != stale.data_hash() else ""
    models_of = f"models {', '.join(made['models'])}; " if made["models"] else ""
    return f"made by {made['command']} ({models_of}data {data}{changed}): {made['caption']}"


def versions(*packages: str) -> dict[str, str]:
    """Without the local part: torch 2.13.0+cpu and 2.13.0 are one release."""
    return {package: version(package).split("+")[0] for package in packages}


def _call(function, args, kwargs, key):
    """What joblib keeps: the function itself is left out of its key, since `key` says more
    of it.
    """
    return function(*args, **kwargs)


def _since_it_began(kept: dict) -> bool:
    """Whether joblib kept a result after `./reproduce.sh --recompute` began; never, in a notebook
    that was opened by hand.
    """
    return kept.get("time", 0) > float(os.environ.get("COMPANION_RECOMPUTE_SINCE") or "inf")
