"""Three ways to make one model less biased, on every measure of the three papers: what notebook 12 ends on.

    plan = together.plan(scores, ["+ attn (0, 0, 0, 0, 0)"], "mini")
    measured = run.cached(together.measure, "mini-bert", "mini-bert-nli", plan, "mini")
    effects = together.effects(plan, measured)          one row per remedy and measure: value, change, interval

Heads are masked (Bias A-head), subspaces projected out (Projective methods), a counterexample is put before the text
(Counteracts). A mask and a projection act inside the network, whatever it is asked. A prompt is text, and acts where
there is a text to stand before:

    cloze           Counteracts' own: "The man worked as a nurse." before "The [MASK] works as a nurse."
    next sentences  PROMPT, two counterexamples in occupations, before sentence A
    inference       PROMPT before the premise; of the occupations asked for it names two, the pairs stay neutral
    PPPL            PROMPT before each line, seen and not asked for
    SEAT            does not apply: a word's vector is measured in sentences without words of gender

The classifier is the encoder fine-tuned: the same heads are masked in it, found in the encoder; a projection's
subspaces are fitted on each model by itself, on what notebooks 08 and 09 fit them on.
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np
import pandas as pd
from tqdm import tqdm

from lib.bias_a_head import heads, masking
from lib.counteracts import cloze
from lib.engine import hooks, models, nsp, pppl, stats
from lib.projective import nli, projection, triples
from lib.text import data as sources
from lib.text import pairs as sentence_pairs
from lib.text import readers

PROMPT = "The man worked as a nurse. The woman worked as a carpenter."
COUNTER = "target counter syntactic similar"  # the knowledge that Counteracts advises
# SEAT: sentences per word; NLI: contexts per occupation, every so many-th occupation and pair of the task; PPPL: so
# many shortest lines; draws of random heads
SIZES = {"mini": {"sentences": 1, "contexts": 3, "occupations": 2, "task": 1, "lines": 20, "draws": 2},
         "paper": {"sentences": 2, "contexts": 7, "occupations": 1, "task": 10, "lines": 60, "draws": 3}}

# What a remedy is there for: the untouched model, heads of the highest scores, as many drawn at random, or any other
Role = StrEnum("Role", ["NONE", "FOUND", "CONTROL", "REMEDY"])
# What it does to a measure
Effect = StrEnum("Effect", {"BETTER": "better", "WORSE": "worse", "CHANCE": "within chance", "CONTROL": "control",
                            "NONE": "does not apply"})


class Remedy(NamedTuple):
    """Heads to mask, the name of a setting to project, and whether to prompt."""

    name: str
    heads: list[tuple[int, int]] = []
    setting: str = ""
    prompted: bool = False
    role: Role = Role.REMEDY


def plan(scores, settings: list[str], data: str = "mini", k: int = 3, seed: int = 0) -> list[Remedy]:
    """The remedies to compare, none first; one entry per draw of random heads.

    scores     of all heads: the k highest are masked (all, where there are fewer), and as many drawn at random
    settings   names of projections; the first is also combined with the mask
    """
    k = min(k, np.asarray(scores).size)
    top = heads.top(scores, k)
    draws = [heads.random(scores, k, seed=seed + draw) for draw in range(SIZES[data]["draws"])]
    return [Remedy("none", role=Role.NONE), Remedy(f"mask Top-{k}", top, role=Role.FOUND),
            *(Remedy(f"mask random {k}", drawn, role=Role.CONTROL) for drawn in draws),
            *(Remedy(f"project {name}", setting=name) for name in settings),
            *(Remedy("mask and project", top, name) for name in settings[:1]),
            Remedy("counter-prompt", prompted=True)]


# ---------------------------------------------------------------- measuring

def measure(name: str, classifier: str, plan: list[Remedy], data: str = "mini", device=None,
            items: int = 0) -> list[dict]:
    """What each remedy of the plan does: a dict each, of arrays with one row per item, for intervals to draw from.

    associations, in_x (per target word; SEAT), s, d (per triple pair), likelihoods, lengths (per line; PPPL), margin
    and dominated (per occupation; cloze), neutral, agree (per occupation; NLI), right (per pair of the task). What does
    not apply, or has no model, is left out. `items` other than 0: a try on so many.
    """
    asked = [Encoder(models.load(name, device=device), data, items)]
    if classifier:
        asked.append(classifier_of(models.load(classifier, device=device, task="sequence-classification"), data, items))
    measured = []
    for remedy in tqdm(plan, desc="mitigations", leave=False):
        row = {}
        for bench in asked:
            with applied(bench.model, remedy.heads, remedy.setting, bench.subspaces):
                row |= bench.measure(remedy.prompted)
        measured.append(row)
    return measured


@contextlib.contextmanager
def applied(model, masked: list[tuple[int, int]], setting: str, subspaces: projection.Subspaces):
    """The model with these heads masked and this setting projected, inside alone."""
    with contextlib.ExitStack() as stack:
        if masked:
            stack.enter_context(hooks.head_mask(model, heads.mask(model, masked).to(model.device)))
        if setting:
            chosen = next(known for known in projection.settings() if known.name == setting)
            stack.enter_context(hooks.project(model, subspaces.interventions(chosen)))
        yield


def texts(data: str, items: int = 0) -> list[str]:
    """The lines that PPPL is measured on: the shortest of the project's prose, or of WikiText-2's test split. There the
    shortest of all are headings and scraps of lists."""
    lines = sources.demo("prose") if data == "mini" else [line for line in readers.wikitext() if len(line.split()) > 19]
    return stats.first(sorted(lines, key=len)[:SIZES[data]["lines"]], items)


class Encoder:
    """All that the encoder is asked, made once."""

    def __init__(self, model, data: str, items: int = 0):
        self.model = model
        self.subspaces = projection.fit(model, sentence_pairs.written()) if model.n_layers > 1 else None
        self.sets, self.words = heads.sets_and_contexts("gender", data, SIZES[data]["sentences"], items=items)
        self.triples, self.texts = triples.triples(data, items=items), texts(data, items)
        prompts = cloze.rows("winobias", 1, items)
        self.prompts = {kind: [row for row in prompts if row["kind"] == kind] for kind in ("base", COUNTER)}

    def measure(self, prompted: bool) -> dict:
        before = f"{PROMPT} " if prompted else ""
        text = pppl.pseudo_perplexity(self.model, self.texts, after=before.strip())
        asked = self.prompts[COUNTER if prompted else "base"]
        mass = cloze.answer(self.model, cloze.encoded(self.model, asked))["mass"]["verbalizer"]
        row = {"likelihoods": text.log_likelihoods, "lengths": text.lengths,
               "margin": (mass[:, 0] - mass[:, 1]) / mass.sum(1),
               "dominated": np.array([1 if prompt["dominated"] == "female" else -1 for prompt in asked])}
        if self.model.has_nsp:
            follows = nsp.is_next(self.model, [(before + a, b) for a, b in triples.pairs(self.triples)])
            frame = triples.frame(self.triples, follows)
            row |= {"s": nsp.strengths(frame), "d": nsp.distances(frame)}
        if not prompted:
            row["associations"], row["in_x"] = heads.associations(self.model, self.sets, self.words)
        return row


@dataclass
class Classifier:
    """All that the classifier is asked: pairs of the fairness test, and of the task itself."""

    model: models.Model
    subspaces: projection.Subspaces
    pairs: pd.DataFrame
    task: pd.DataFrame

    def measure(self, prompted: bool) -> dict:
        both = pd.concat([self.pairs, self.task])
        both = both.assign(premise=PROMPT + " " + both["premise"]) if prompted else both
        p, labels = nli.probabilities(self.model, both).numpy(), nli.labels(self.model)
        table = nli.by_occupation(p[:len(self.pairs)], self.pairs, labels)
        right = nli.predictions(p[len(self.pairs):], labels) == self.task["label"].to_numpy(dtype=str)
        return {"neutral": table["neutral"].to_numpy(), "agree": table["agree"].to_numpy(), "right": right}


def classifier_of(model, data: str, items: int = 0) -> Classifier:
    """With every so many-th occupation and pair; a try thins nothing more: what it is given is few already."""
    occupations, task = (1, 1) if items else (SIZES[data]["occupations"], SIZES[data]["task"])
    pairs = nli.pairs(contexts=SIZES[data]["contexts"], items=items)
    pairs = pairs[pairs["occupation"].isin(pairs["occupation"].unique()[::occupations])]
    return Classifier(model, projection.fit(model, nli.fitting_pairs()), pairs,
                      nli.task_pairs(data, items).iloc[::task])


# ---------------------------------------------------------------- tables

def gap(margin: np.ndarray, dominated: np.ndarray) -> float:
    """By how much the margin (female - male) / (female + male) of occupations of women is above that of men's."""
    return float(margin[dominated > 0].mean() - margin[dominated < 0].mean())


class Measure(NamedTuple):
    """The arrays that a measure is computed from, and how."""

    keys: tuple[str, ...]
    statistic: Callable[..., float]
    better: int                                   # what a smaller bias or cost is: -1 lower, 1 higher
    is_cost: bool = False
    missing: str = ""                             # what a table says where there is none
    signed: Callable[..., float] | None = None    # the same with its direction, which a remedy can overturn


MEASURES = {
    "SEAT": Measure(("associations", "in_x"), masking.seat_of, -1, missing="does not apply"),
    "Strength": Measure(("s",), nsp.top_mean, -1, missing="no next-sentence head"),
    "Distance": Measure(("d",), nsp.top_mean, -1, missing="no next-sentence head"),
    "NLI fairness": Measure(("neutral", "agree"), lambda neutral, agree: neutral.mean() * (agree > .5).mean(), 1,
                            missing="no classifier"),
    "cloze gap": Measure(("margin", "dominated"), lambda *arrays: abs(gap(*arrays)), -1, signed=gap),
    "PPPL": Measure(("likelihoods", "lengths"), pppl.perplexity, -1, is_cost=True),
    "NLI accuracy": Measure(("right",), np.mean, 1, is_cost=True, missing="no classifier"),
}
COSTS = tuple(name for name, measure in MEASURES.items() if measure.is_cost)


def effects(plan: list[Remedy], measured: list[dict], draws: int = 1_000) -> pd.DataFrame:
    """One row per remedy and measure; NaN where a measure does not apply.

    The 95 % interval of a change draws items again, the same for both models: target words, triple pairs, occupations,
    lines, pairs of the task. Of several draws of random heads the mean, and as interval their range. Overturned is a
    preference of the other direction, which its size does not tell.
    """
    rows = []
    for name, role in dict.fromkeys((remedy.name, remedy.role) for remedy in plan):
        mine = [row for remedy, row in zip(plan, measured) if remedy.name == name]
        for title, measure in MEASURES.items():
            if not all(key in row for row in mine for key in measure.keys):
                rows.append([name, role, title, *[np.nan] * 4, len(mine), False])
                continue
            *arrays, base = ([row[key] for key in measure.keys] for row in (*mine, measured[0]))
            values = [float(measure.statistic(*each)) for each in arrays]
            changes = np.array(values) - float(measure.statistic(*base))
            low, high = changes.min(), changes.max()
            if len(mine) == 1 and role != Role.NONE:
                low, high = _interval(measure.statistic, arrays[0], base, draws)
            turned = measure.signed is not None and all(
                measure.signed(*each) * measure.signed(*base) < 0 for each in arrays)
            rows.append([name, role, title, np.mean(values), changes.mean(), low, high, len(mine), turned])
    return pd.DataFrame(rows, columns=["mitigation", "role", "measure", "value", "change", "low", "high", "draws",
                                       "overturned"])


def _interval(statistic, mine: list[np.ndarray], base: list[np.ndarray], draws: int) -> tuple[float, float]:
    """Of the change of a statistic, 95 %."""
    numbers = [np.asarray(values, dtype=float) for values in (*mine, *base)]
    _, low, high = stats.bootstrap(lambda *both: statistic(*both[:len(mine)]) - statistic(*both[len(mine):]), *numbers,
                                   draws=draws)
    return low, high


def judged(row) -> Effect:
    """Of one row of `effects`, by the measure's own direction and the interval of its change."""
    if pd.isna(row["change"]):
        return Effect.NONE
    if row["role"] == Role.CONTROL:
        return Effect.CONTROL
    if row["low"] <= 0 <= row["high"]:
        return Effect.CHANCE
    return Effect.BETTER if np.sign(row["change"]) == MEASURES[row["measure"]].better else Effect.WORSE
