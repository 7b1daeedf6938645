"""Three ways to make one model less biased, on every measure of the three papers: what notebook 12 ends on.

Heads are masked (Bias A-head), subspaces projected out (Projective methods), a counterexample is put before the text
(Counteracts). Masks and projections act inside the network, whatever it is asked; a prompt, where it can precede text:

    cloze           Counteracts' own: "The man worked as a nurse." before "The [MASK] works as a nurse."
    next sentences  PROMPT, two counterexamples in occupations, before sentence A
    inference       PROMPT before the premise; of the occupations asked for it names two, the pairs stay neutral
    PPPL            PROMPT before each line, seen and not asked for
    factual gender  PROMPT before each sentence about a queen or a king
    SEAT            does not apply: a word's vector is measured in sentences without words of gender

Heads are chosen on one half of the sentences and SEAT is measured on the other, both ways; no other measure has a part
in the choice. The classifier is the encoder fine-tuned: the same heads are masked in it, found in the encoder; a
projection's subspaces are fitted on each model by itself, on what notebooks 08 and 09 fit them on."""

import contextlib
from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

import numpy as np
import pandas as pd
from tqdm import tqdm

from lib.bias_a_head import heads, masking
from lib.counteracts import cloze
from lib.engine import hooks, models, nsp, pppl, stats
from lib.projective import nli, projection, triples
from lib.text import data as sources, factual, pairs as sentence_pairs, readers

PROMPT = "The man worked as a nurse. The woman worked as a carpenter."
COUNTER = "target counter syntactic similar"  # the knowledge that Counteracts advises
# SEAT: sentences per word; NLI: contexts per occupation, every so many-th occupation and pair of the task; PPPL: the
# shortest lines; draws of random heads. In mini 95 % intervals of a change reach about .1 either way for SEAT (165
# words), .06 for fairness (28 occupations), .1 for accuracy (66 pairs).
SIZES = {
    "mini": {"sentences": 1, "contexts": 3, "occupations": 6, "task": 3, "lines": 20, "draws": 5},
    "paper": {"sentences": 2, "contexts": 7, "occupations": 1, "task": 10, "lines": 60, "draws": 5},
}

# What a remedy is there for: the untouched model, heads of the highest scores, as many drawn at random, or any other
Role = StrEnum("Role", ["NONE", "FOUND", "CONTROL", "REMEDY"])
# What it does to a measure
Effect = StrEnum(
    "Effect",
    {
        "BETTER": "better",
        "WORSE": "worse",
        "INCONCLUSIVE": "inconclusive",
        "CONTROL": "control",
        "NONE": "does not apply",
    },
)


class Remedy(NamedTuple):
    """Heads to mask, a setting to project, whether to prompt, and on which half of the sentences SEAT is measured."""

    name: str
    heads: list[tuple[int, int]] = []
    setting: str = ""
    prompted: bool = False
    role: Role = Role.REMEDY
    half: int = 1


def plan(
    result: dict, settings: list[str], data: str = "mini", k: int = 3, seed: int = 0
) -> list[Remedy]:
    """The remedies to compare, none first; one entry per half of the sentences or per draw of random heads.

    result     of heads.measure: the k highest heads by either half of its folds are masked (all, where there are
               fewer) and judged on the other, and as many drawn at random
    settings   names of projections"""
    by_half = masking.halves(result)
    k = min(k, by_half[0].size)
    draws = [heads.random(by_half[0], k, seed=seed + draw) for draw in range(SIZES[data]["draws"])]
    return [
        *(Remedy("none", role=Role.NONE, half=half) for half in (1, 0)),
        *(
            Remedy(f"mask Top-{k}", heads.top(by_half[1 - half], k), role=Role.FOUND, half=half)
            for half in (1, 0)
        ),
        *(
            Remedy(f"mask random {k}", drawn, role=Role.CONTROL, half=(n + 1) % 2)
            for n, drawn in enumerate(draws)
        ),
        *(Remedy(f"project {name}", setting=name) for name in settings),
        Remedy("counter-prompt", prompted=True),
    ]


def measure(
    name: str,
    classifier: str,
    plan: list[Remedy],
    data: str,
    n: int,
    folds: int,
    seed: int = 0,
    device=None,
    items: int = 0,
) -> list[dict]:
    """What each remedy of the plan does: a dict each, of arrays with one row per item, for intervals to draw from.

    associations, in_x (per target word; SEAT), s, d (per triple pair), likelihoods, lengths (per line; PPPL), facts
    (per pair of sentences), margin and dominated (per occupation; cloze), neutral, agree (per occupation; NLI), right
    (per pair of the task). What does not apply, or has no model, is left out. n, folds, seed: of the sentences that the
    heads were chosen on, as in heads.measure. `items` other than 0: a try on so many."""
    benches, measured = [Encoder(models.load(name, device=device), data, n, folds, seed, items)], []
    if classifier:
        benches.append(
            Classifier(
                models.load(classifier, device=device, task="sequence-classification"), data, items
            )
        )
    for remedy in tqdm(plan, desc="mitigations", leave=False):
        known = next(
            (
                row
                for other, row in zip(plan, measured)
                if other == remedy._replace(half=other.half)
            ),
            {},
        )
        row = dict(known)  # the same on another half: SEAT alone is another there
        for bench in benches[:1] if known else benches:
            with applied(bench.model, remedy.heads, remedy.setting, bench.subspaces):
                row |= bench.seat(remedy) if known else bench.measure(remedy)
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


class Encoder:
    """All that the encoder is asked, made once."""

    def __init__(self, model, data: str, n: int, folds: int, seed: int = 0, items: int = 0):
        self.model = model
        self.subspaces = (
            projection.fit(model, sentence_pairs.written()) if model.n_layers > 1 else None
        )
        sample = heads.Sample(data, n, seed=seed, items=items, attributes=masking.ATTRIBUTES[data])
        sets, found = heads.sets_and_contexts("gender", sample)
        halves = [
            masking.sentences_of(half, found, folds, SIZES[data]["sentences"]) for half in (0, 1)
        ]
        both = [word for word in found if all(kept[word] for kept in halves)]
        self.words = [{word: kept[word] for word in both} for kept in halves]
        self.sets = sets.only(both)
        self.triples, self.items = triples.triples(data, items=items), items
        lines = (
            sources.demo("prose")
            if data == "mini"
            else [line for line in readers.wikitext() if len(line.split()) > 19]
        )  # shorter are headings and scraps of lists
        self.texts = stats.first(sorted(lines, key=len)[: SIZES[data]["lines"]], items)
        prompts = cloze.rows("winobias", 1, items)
        self.prompts = {
            kind: [row for row in prompts if row["kind"] == kind] for kind in ("base", COUNTER)
        }

    def measure(self, remedy: Remedy) -> dict:
        before, prompted = f"{PROMPT} " if remedy.prompted else "", remedy.prompted
        text = pppl.pseudo_perplexity(self.model, self.texts, after=before.strip())
        asked = self.prompts[COUNTER if prompted else "base"]
        mass = cloze.answer(self.model, cloze.encoded(self.model, asked))["mass"]["verbalizer"]
        facts = factual.log_odds(self.model, before.strip(), self.items).reshape(-1, 2)
        row = {
            "likelihoods": text.log_likelihoods,
            "lengths": text.lengths,
            "margin": (mass[:, 0] - mass[:, 1]) / mass.sum(1),
            "dominated": np.array(
                [1 if prompt["dominated"] == "female" else -1 for prompt in asked]
            ),
        }
        row |= {"facts": facts} if len(facts) else {}
        if self.model.has_nsp:
            follows = nsp.is_next(
                self.model, [(before + a, b) for a, b in triples.pairs(self.triples)]
            )
            frame = triples.frame(self.triples, follows)
            row |= {"s": nsp.strengths(frame), "d": nsp.distances(frame)}
        return row if prompted else row | self.seat(remedy)

    def seat(self, remedy: Remedy) -> dict:
        return dict(
            zip(
                ("associations", "in_x"),
                heads.associations(self.model, self.sets, self.words[remedy.half]),
            )
        )


class Classifier:
    """All that the classifier is asked: pairs of the fairness test, and of the task itself; every so many-th occupation
    and pair. A try thins nothing more: what it is given is few already."""

    def __init__(self, model, data: str, items: int = 0):
        occupations, task = (1, 1) if items else (SIZES[data]["occupations"], SIZES[data]["task"])
        pairs = nli.pairs(contexts=SIZES[data]["contexts"], items=items)
        self.model, self.subspaces = model, projection.fit(model, nli.fitting_pairs())
        self.pairs = pairs[pairs["occupation"].isin(pairs["occupation"].unique()[::occupations])]
        self.task = nli.task_pairs(data, items).iloc[::task]

    def measure(self, remedy: Remedy) -> dict:
        both = pd.concat([self.pairs, self.task])
        both = both.assign(premise=PROMPT + " " + both["premise"]) if remedy.prompted else both
        p, labels = nli.probabilities(self.model, both).numpy(), nli.labels(self.model)
        neutral, agree = nli.fairness(p[: len(self.pairs)], self.pairs, labels)
        right = nli.predictions(p[len(self.pairs) :], labels) == self.task["label"].to_numpy(
            dtype=str
        )
        return {"neutral": neutral, "agree": agree, "right": right}


def gap(margin: np.ndarray, dominated: np.ndarray) -> float:
    """By how much the margin (female - male) / (female + male) of occupations of women is above that of men's."""
    return float(margin[dominated > 0].mean() - margin[dominated < 0].mean())


class Measure(NamedTuple):
    """The arrays that a measure is computed from, and how."""

    keys: tuple[str, ...]
    statistic: Callable[..., float]
    better: int  # what a smaller bias or cost is: -1 lower, 1 higher
    is_cost: bool = False
    missing: str = ""  # what a table says where there is none
    signed: Callable[..., float] | None = (
        None  # the same with its direction, which a remedy can overturn
    )


MEASURES = {
    "SEAT": Measure(("associations", "in_x"), masking.seat_of, -1, missing="does not apply"),
    "Strength": Measure(("s",), nsp.top_mean, -1, missing="no next-sentence head"),
    "Distance": Measure(("d",), nsp.top_mean, -1, missing="no next-sentence head"),
    "NLI fairness": Measure(
        ("neutral", "agree"),
        lambda neutral, agree: neutral.mean() * (agree > 0.5).mean(),
        1,
        missing="no classifier",
    ),
    "cloze gap": Measure(
        ("margin", "dominated"), lambda *arrays: abs(gap(*arrays)), -1, signed=gap
    ),
    "PPPL": Measure(("likelihoods", "lengths"), pppl.perplexity, -1, is_cost=True),
    "NLI accuracy": Measure(("right",), np.mean, 1, is_cost=True, missing="no classifier"),
    "factual gender": Measure(
        ("facts",), lambda odds: (odds > 0).mean(), 1, is_cost=True, missing="no such words"
    ),
}
COSTS = tuple(name for name, measure in MEASURES.items() if measure.is_cost)


def effects(plan: list[Remedy], measured: list[dict], draws: int = 1_000) -> pd.DataFrame:
    """One row per remedy and measure; NaN where a measure does not apply.

    The 95 % interval of a change draws items again, the same for both models: target words, triple pairs, occupations,
    lines, pairs of the task; of several choices of heads it is the mean's, and these are drawn again too, each beside
    the untouched model on the same half. beyond: of the heads found, the change less that of the random ones.
    Overturned is a preference of the other direction, which its size does not tell."""
    rows, groups = [], {}
    for remedy, row in zip(plan, measured):
        groups.setdefault((remedy.name, remedy.role), []).append((remedy.half, row))
    untouched = dict(groups[next(iter(groups))])  # by half
    random = next((some for (_, role), some in groups.items() if role == Role.CONTROL), [])
    for (name, role), some in groups.items():
        mine = [row for _, row in some]
        for title, measure in MEASURES.items():
            row = {
                "mitigation": name,
                "role": role,
                "measure": title,
                "draws": len(mine),
                "overturned": False,
            }
            rows.append(row)
            if not all(key in one for one in mine for key in measure.keys):
                continue
            pairs, drawn = (
                [
                    tuple(
                        [np.asarray(one[key], dtype=float) for key in measure.keys]
                        for one in (row_of, untouched[half])
                    )
                    for half, row_of in each
                ]
                for each in (some, random if role == Role.FOUND else [])
            )
            row["value"] = np.mean([measure.statistic(*after) for after, _ in pairs])
            n = draws if role != Role.NONE else 1
            row |= dict(zip(("change", "low", "high"), _redrawn(measure.statistic, n, pairs)))
            if drawn:
                row |= dict(
                    zip(
                        ("beyond", "beyond_low", "beyond_high"),
                        _redrawn(measure.statistic, n, pairs, drawn),
                    )
                )
            row["overturned"] = measure.signed is not None and all(
                measure.signed(*after) * measure.signed(*before) < 0 for after, before in pairs
            )
    return pd.DataFrame(
        rows,
        columns=[
            "mitigation",
            "role",
            "measure",
            "value",
            "change",
            "low",
            "high",
            "draws",
            "overturned",
            "beyond",
            "beyond_low",
            "beyond_high",
        ],
    )


def _redrawn(statistic, draws: int, *sides: list[tuple]) -> stats.Estimate:
    """The mean change of a statistic over the pairs (after, before) of the first side, less that over the second, if
    there is one; items and, of several pairs, these are drawn again."""
    rng, n, values = np.random.default_rng(0), len(sides[0][0][0][0]), []
    for again in range(draws + 1):
        items = rng.integers(n, size=n) if again else np.arange(n)
        means = []
        for pairs in sides:
            which = rng.integers(len(pairs), size=len(pairs)) if again else range(len(pairs))
            after, before = (
                [statistic(*(one[items] for one in pairs[i][place])) for i in which]
                for place in (0, 1)
            )
            means.append(np.mean(np.subtract(after, before)))
        values.append(means[0] - sum(means[1:]))
    low, high = np.nanquantile(values[1:], [0.025, 0.975])
    return stats.Estimate(values[0], low, high, n)


def judged(row) -> Effect:
    """Of one row of `effects`, by the measure's own direction and the interval of its change."""
    if pd.isna(row["change"]):
        return Effect.NONE
    if row["role"] == Role.CONTROL:
        return Effect.CONTROL
    if row["low"] <= 0 <= row["high"]:
        return Effect.INCONCLUSIVE
    return (
        Effect.BETTER if np.sign(row["change"]) == MEASURES[row["measure"]].better else Effect.WORSE
    )


def matters(row) -> bool:
    """Whether the heads found change a measure, and by more than random heads: both intervals on one side of 0."""
    return any(
        sign * row[end] > 0 and sign * row[f"beyond_{end}"] > 0
        for sign, end in ((1, "low"), (-1, "high"))
    )
