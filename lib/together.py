"""Three ways to make one model less biased, on every measure of the three papers (notebook 12).

Heads are masked (Bias A-head), subspaces projected out (Projective methods), a counterexample is
put before the text (Counteracts). LEACE stands beside the projections: what erases a concept with
the least change (lib/projective/leace.py). All but the prompt act inside the network, whatever
it is asked; a prompt acts where it can precede text:

    cloze           as in Counteracts: "The man worked as a nurse." before "The [MASK] works as a
                    nurse."
    next sentences  PROMPT, two counterexamples in occupations, before sentence A
    inference       PROMPT before the premise; it names two of the occupations asked for, and the
                    pairs stay neutral
    PPPL            PROMPT before each line, which is seen and not scored
    factual gender  PROMPT before each sentence about a queen or a king
    SEAT            does not apply: a word's vector is measured in sentences without words of gender

Heads are chosen on one half of the sentences and SEAT is measured on the other, both ways; no other
measure has a part in the choice. The classifier is the encoder fine-tuned: the heads found in the
encoder are masked in it. A projection's subspaces and LEACE's erasers are fitted on each model by
itself, on what notebooks 08 and 09 fit them on.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pandas as pd
from tqdm import tqdm

from lib.bias_a_head import heads, masking
from lib.counteracts import cloze
from lib.engine import hooks, models, nsp, pppl, stats
from lib.projective import leace, nli, projection, triples
from lib.text import data as sources, factual, pairs as sentence_pairs, readers

PROMPT = "The man worked as a nurse. The woman worked as a carpenter."
COUNTER = "target counter syntactic similar"  # the knowledge that Counteracts advises
# In mini, 95 % intervals of a change reach about .1 either way for SEAT (165 words), .06 for
# fairness (28 occupations), .1 for accuracy (66 pairs).
#   sentences    of SEAT, per word
#   contexts     of NLI, per occupation
#   occupations  of NLI: every so many-th one is taken
#   task         of NLI: every so many-th pair is taken
#   lines        of PPPL: the shortest ones
#   draws        of random heads
SIZES = {
    "mini": {"sentences": 1, "contexts": 3, "occupations": 6, "task": 3, "lines": 20, "draws": 5},
    "paper": {"sentences": 2, "contexts": 7, "occupations": 1, "task": 10, "lines": 60, "draws": 5},
}


class Role(StrEnum):
    """What a remedy is compared as."""

    NONE = "none"  # the untouched model
    FOUND = "found"  # masks the heads of the highest scores
    CONTROL = "control"  # masks as many heads, drawn at random
    REMEDY = "remedy"  # any other


class Effect(StrEnum):
    """What a remedy does to a measure."""

    BETTER = "better"
    WORSE = "worse"
    UNDECIDED = "undecided"
    CONTROL = "control"
    NONE = "does not apply"


class Remedy(NamedTuple):
    """What is done to the model, and on which half of the sentences SEAT is measured."""

    name: str
    heads: list[tuple[int, int]] = []  # to mask: (layer, head), from 1
    setting: str = ""  # to project: a name of projection.settings
    erased: str = ""  # where LEACE erases gender: a key of leace.SETTINGS
    prompted: bool = False  # whether a counterexample is put before the text
    role: Role = Role.REMEDY
    half: int = 1


def plan(  # noqa: PLR0913, each says what is tried
    result: dict,
    settings: list[str],
    data: str = "mini",
    k: int = 3,
    seed: int = 0,
    erased: Sequence[str] = (),
) -> list[Remedy]:
    """The remedies to compare, none first.

    There is one entry per half of the sentences, or per draw of random heads.

    result     of heads.measure: the k highest heads by either half of its folds are masked (all,
               where there are fewer) and judged on the other half; and as many drawn at random
    settings   names of projections
    erased     where LEACE erases gender: keys of leace.SETTINGS
    """
    by_half = masking.halves(result)
    k = min(k, by_half[0].size)
    remedies = [Remedy("none", role=Role.NONE, half=half) for half in (1, 0)]
    for half in (1, 0):
        highest = heads.top(by_half[1 - half], k)
        remedies.append(Remedy(f"mask Top-{k}", highest, role=Role.FOUND, half=half))
    for draw in range(SIZES[data]["draws"]):
        drawn = heads.random(by_half[0], k, seed=seed + draw)
        half = (draw + 1) % 2
        remedies.append(Remedy(f"mask random {k}", drawn, role=Role.CONTROL, half=half))
    remedies += [Remedy(f"project {name}", setting=name) for name in settings]
    remedies += [Remedy(f"LEACE {level}", erased=level) for level in erased]
    remedies.append(Remedy("counter-prompt", prompted=True))
    return remedies


def measure(  # noqa: PLR0913, notebook 12 passes these by position
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
    """What each remedy of the plan does: a dict of arrays each, with one row per item.

        associations, in_x    per target word (SEAT)
        s, d                  per triple pair
        likelihoods, lengths  per line (PPPL)
        facts                 per pair of sentences
        margin, dominated     per occupation (cloze)
        neutral, agree        per occupation (NLI)
        right                 per pair of the task (NLI)

    What does not apply, or has no model, is left out.

    n, folds, seed   of the sentences that the heads were chosen on, as in heads.measure
    items            other than 0, a try on so many
    """
    encoder = Encoder(models.load(name, device=device), data, n, folds, seed, items)
    benches = [encoder]
    if classifier:
        net = models.load(classifier, device=device, task="sequence-classification")
        benches.append(Classifier(net, data, items))
    measured = []
    for remedy in tqdm(plan, desc="mitigations", leave=False):
        row = _same_on_another_half(remedy, plan, measured)
        if row:
            with applied(encoder.model, remedy.heads, encoder.interventions(remedy)):
                row = row | encoder.seat(remedy)
        else:
            row = {}
            for bench in benches:
                with applied(bench.model, remedy.heads, bench.interventions(remedy)):
                    row |= bench.measure(remedy)
        measured.append(row)
    return measured


def _same_on_another_half(remedy: Remedy, plan: list[Remedy], measured: list[dict]) -> dict | None:
    """What was measured of the same remedy on the other half, where only SEAT differs; or None."""
    for other, row in zip(plan, measured):
        if other == remedy._replace(half=other.half):
            return row
    return None


@contextlib.contextmanager
def applied(model, masked: list[tuple[int, int]], interventions: dict | None = None):
    """Inside the block the model has these heads masked and these projections (hooks.project)."""
    with contextlib.ExitStack() as stack:
        if masked:
            mask = heads.mask(model, masked).to(model.device)
            stack.enter_context(hooks.head_mask(model, mask))
        if interventions:
            stack.enter_context(hooks.project(model, interventions))
        yield


class Bench:
    """A model, and what can be taken out of it: fitted once, where a remedy asks for it."""

    def __init__(self, model, data: str, items: int = 0):
        self.model = model
        self.data = data
        self.items = items

    def interventions(self, remedy: Remedy) -> dict | None:
        """What a remedy projects out or erases, for `applied`; None for other remedies."""
        if remedy.erased:
            return self.erasers.interventions(leace.SETTINGS[remedy.erased])
        if remedy.setting:
            known = {setting.name: setting for setting in projection.settings()}
            return self.subspaces.interventions(known[remedy.setting])
        return None


class Encoder(Bench):
    """All that the encoder is asked, made once."""

    def __init__(self, model, data: str, n: int, folds: int, seed: int = 0, items: int = 0):
        super().__init__(model, data, items)
        self._choose_sentences(data, n, folds, seed)
        self.triples = triples.triples(data, items=items)
        shortest = sorted(_lines(data), key=len)[: SIZES[data]["lines"]]
        self.texts = stats.first(shortest, items)
        prompts = cloze.rows("winobias", 1, items)
        self.prompts = {}
        for kind in ("base", COUNTER):
            self.prompts[kind] = [row for row in prompts if row["kind"] == kind]

    @cached_property
    def subspaces(self) -> projection.Subspaces:
        return projection.fit(self.model, sentence_pairs.written())

    @cached_property
    def erasers(self) -> projection.Subspaces:
        return leace.fit(self.model, leace.many_contexts(self.data, self.items))

    def _choose_sentences(self, data: str, n: int, folds: int, seed: int):
        """The words of SEAT that have sentences in both halves, and their sentences by half."""
        sample = heads.Sample(
            source=data,
            contexts=n,
            seed=seed,
            items=self.items,
            attributes=masking.ATTRIBUTES[data],
        )
        sets, found = heads.sets_and_contexts("gender", sample)
        per_word = SIZES[data]["sentences"]
        self.sets, self.words = masking.in_halves(sets, found, folds, per_word)

    def measure(self, remedy: Remedy) -> dict:
        before = PROMPT if remedy.prompted else ""
        row = self._perplexity(before) | self._cloze(remedy.prompted)
        facts = factual.log_odds(self.model, before, self.items, file=factual.FILE_200)
        if len(facts):
            row["facts"] = facts.reshape(-1, 2)
        if self.model.has_nsp:
            row |= self._next_sentences(before)
        if not remedy.prompted:
            row |= self.seat(remedy)
        return row

    def _perplexity(self, before: str) -> dict:
        text = pppl.pseudo_perplexity(self.model, self.texts, after=before)
        return {"likelihoods": text.log_likelihoods, "lengths": text.lengths}

    def _cloze(self, prompted: bool) -> dict:
        prompts = self.prompts[COUNTER if prompted else "base"]
        answer = cloze.answer(self.model, cloze.encoded(self.model, prompts))
        mass = answer["mass"]["verbalizer"]
        dominated = [1 if prompt["dominated"] == "female" else -1 for prompt in prompts]
        return {
            "margin": (mass[:, 0] - mass[:, 1]) / mass.sum(1),
            "dominated": np.array(dominated),
        }

    def _next_sentences(self, before: str) -> dict:
        pairs = triples.pairs(self.triples)
        if before:
            pairs = [(f"{before} {first}", second) for first, second in pairs]
        frame = triples.frame(self.triples, nsp.is_next(self.model, pairs))
        return {"s": nsp.strengths(frame), "d": nsp.distances(frame)}

    def seat(self, remedy: Remedy) -> dict:
        sentences = self.words[remedy.half]
        associations, in_x = heads.associations(self.model, self.sets, sentences)
        return {"associations": associations, "in_x": in_x}


def _lines(data: str) -> list[str]:
    """The lines of which the shortest are scored by PPPL."""
    if data == "mini":
        return sources.demo("prose")
    # Of WikiText, those of fewer than 20 words are headings and scraps of lists.
    return [line for line in readers.wikitext() if len(line.split()) > 19]


class Classifier(Bench):
    """All that the classifier is asked: pairs of the fairness test, and of the task itself.

    Every so many-th occupation and pair is taken, except in a try, which has few already.
    """

    def __init__(self, model, data: str, items: int = 0):
        super().__init__(model, data, items)
        size = SIZES[data]
        every_occupation = 1 if items else size["occupations"]
        every_pair = 1 if items else size["task"]
        pairs = nli.pairs(contexts=size["contexts"], items=items)
        chosen = pairs["occupation"].unique()[::every_occupation]
        self.pairs = pairs[pairs["occupation"].isin(chosen)]
        self.task = nli.task_pairs(data, items).iloc[::every_pair]

    @cached_property
    def subspaces(self) -> projection.Subspaces:
        return projection.fit(self.model, nli.fitting_pairs())

    @cached_property
    def erasers(self) -> projection.Subspaces:
        return leace.fit(self.model, nli.fitting_pairs())

    def measure(self, remedy: Remedy) -> dict:
        both = pd.concat([self.pairs, self.task])
        if remedy.prompted:
            both = both.assign(premise=PROMPT + " " + both["premise"])
        p = nli.probabilities(self.model, both).numpy()
        labels = nli.labels(self.model)
        n_pairs = len(self.pairs)
        neutral, agree = nli.fairness(p[:n_pairs], self.pairs, labels)
        predicted = nli.predictions(p[n_pairs:], labels)
        right = predicted == self.task["label"].to_numpy(dtype=str)
        return {"neutral": neutral, "agree": agree, "right": right}


def gap(margin: np.ndarray, dominated: np.ndarray) -> float:
    """By how much the mean margin of women's occupations is above that of men's.

    A margin is (female - male) / (female + male).
    """
    return float(margin[dominated > 0].mean() - margin[dominated < 0].mean())


def size_of_gap(margin: np.ndarray, dominated: np.ndarray) -> float:
    return abs(gap(margin, dominated))


def fairness(neutral: np.ndarray, agree: np.ndarray) -> float:
    """The mean share of neutral answers, times the share of occupations that mostly agree."""
    return neutral.mean() * (agree > 0.5).mean()


def share_right(log_odds: np.ndarray) -> float:
    """The share of sentences in which the right pronoun is the likelier one."""
    return (log_odds > 0).mean()


class Measure(NamedTuple):
    """The arrays that a measure is computed from, and how."""

    keys: tuple[str, ...]
    statistic: Callable[..., float]
    better: int  # the direction in which bias or cost is smaller: -1 lower, 1 higher
    is_cost: bool = False
    missing: str = ""  # what a table says where there is none
    # The same with its direction, which a remedy can overturn.
    signed: Callable[..., float] | None = None


MEASURES = {
    "SEAT": Measure(
        keys=("associations", "in_x"),
        statistic=masking.seat_of,
        better=-1,
        missing="does not apply",
    ),
    "Strength": Measure(
        keys=("s",),
        statistic=nsp.top_mean,
        better=-1,
        missing="no next-sentence head",
    ),
    "Distance": Measure(
        keys=("d",),
        statistic=nsp.top_mean,
        better=-1,
        missing="no next-sentence head",
    ),
    "NLI fairness": Measure(
        keys=("neutral", "agree"),
        statistic=fairness,
        better=1,
        missing="no classifier",
    ),
    "cloze gap": Measure(
        keys=("margin", "dominated"),
        statistic=size_of_gap,
        better=-1,
        signed=gap,
    ),
    "PPPL": Measure(
        keys=("likelihoods", "lengths"),
        statistic=pppl.perplexity,
        better=-1,
        is_cost=True,
    ),
    "NLI accuracy": Measure(
        keys=("right",),
        statistic=np.mean,
        better=1,
        is_cost=True,
        missing="no classifier",
    ),
    "factual gender": Measure(
        keys=("facts",),
        statistic=share_right,
        better=1,
        is_cost=True,
        missing="no such words",
    ),
}
COSTS = tuple(name for name, measure in MEASURES.items() if measure.is_cost)
COLUMNS = ["mitigation", "role", "measure", "value", "change", "draws", "overturned", "beyond"]


class Pair(NamedTuple):
    """A measure's arrays with a remedy, and those of the untouched model on the same half."""

    after: list[np.ndarray]
    before: list[np.ndarray]


def effects(plan: list[Remedy], measured: list[dict], draws: int = 1_000) -> pd.DataFrame:
    """One row per remedy and measure; change and beyond are Estimates, None where a measure does
    not apply.

    change       items are resampled, the same for both models: target words, triple pairs,
                 occupations, lines, pairs of the task. Where a remedy has several choices of heads,
                 it is their mean, and the choices are resampled too, each beside the untouched
                 model on the same half.
    beyond       for the heads found, the change less that of the random ones
    overturned   whether the preference has the other direction, which its size does not tell
    """
    by_remedy = {}  # {(name, role): [(half, arrays)]}
    for remedy, arrays in zip(plan, measured):
        by_remedy.setdefault((remedy.name, remedy.role), []).append((remedy.half, arrays))
    untouched = dict(by_remedy[plan[0].name, plan[0].role])  # by half
    random = []
    for (_, role), choices in by_remedy.items():
        if role == Role.CONTROL:
            random = choices
            break
    rows = []
    for (name, role), choices in by_remedy.items():
        controls = random if role == Role.FOUND else []
        for title, measure in MEASURES.items():
            row = {
                "mitigation": name,
                "role": role,
                "measure": title,
                "value": np.nan,
                "change": None,
                "draws": len(choices),
                "overturned": False,
                "beyond": None,
            }
            if all(_has(arrays, measure) for _, arrays in choices):
                pairs = _pairs(measure, choices, untouched)
                control_pairs = _pairs(measure, controls, untouched)
                n_draws = 1 if role == Role.NONE else draws
                row |= _effect(measure, pairs, control_pairs, n_draws)
            rows.append(row)
    return pd.DataFrame(rows, columns=COLUMNS)


def _has(arrays: dict, measure: Measure) -> bool:
    return all(key in arrays for key in measure.keys)


def _pairs(measure: Measure, choices: list[tuple[int, dict]], untouched: dict) -> list[Pair]:
    """What a measure is computed from, for each choice of heads; `untouched` by half."""

    def arrays_of(row: dict) -> list[np.ndarray]:
        return [np.asarray(row[key], dtype=float) for key in measure.keys]

    return [Pair(arrays_of(row), arrays_of(untouched[half])) for half, row in choices]


def _effect(measure: Measure, pairs: list[Pair], controls: list[Pair], draws: int) -> dict:
    """The columns of `effects` for one remedy and measure that applies."""
    effect = {
        "value": np.mean([measure.statistic(*pair.after) for pair in pairs]),
        "change": _mean_change(measure.statistic, draws, pairs),
    }
    if controls:
        effect["beyond"] = _mean_change(measure.statistic, draws, pairs, controls)
    if measure.signed is not None:
        signs = [measure.signed(*pair.after) * measure.signed(*pair.before) for pair in pairs]
        effect["overturned"] = all(sign < 0 for sign in signs)
    return effect


def _mean_change(
    statistic: Callable[..., float],
    draws: int,
    pairs: list[Pair],
    controls: list[Pair] | None = None,
) -> stats.Estimate:
    """The mean change of a statistic over the pairs, less that over the controls if there are any.

    The interval resamples the items, and the pairs and controls among themselves. Both are drawn in
    turn from one generator, so that the resamples of two measures on the same items are the same.
    """
    sides = [pairs, controls] if controls else [pairs]
    n = len(pairs[0].after[0])
    rng = np.random.default_rng(0)

    def difference(items, chosen: list) -> float:
        """The change over the chosen pairs, less that over the chosen controls."""
        means = []
        for side, which in zip(sides, chosen):
            changes = []
            for number in which:
                after = statistic(*[array[items] for array in side[number].after])
                before = statistic(*[array[items] for array in side[number].before])
                changes.append(np.subtract(after, before))
            means.append(np.mean(changes))
        return means[0] - sum(means[1:])

    value = difference(np.arange(n), [range(len(side)) for side in sides])
    resampled = []
    for _ in range(draws):
        items = rng.integers(n, size=n)
        chosen = [rng.integers(len(side), size=len(side)) for side in sides]
        resampled.append(difference(items, chosen))
    low, high = np.nanquantile(resampled, [0.025, 0.975])
    return stats.Estimate(value, low, high, n)


def judged(row) -> Effect:
    """What a row of `effects` shows, by the measure's own direction and the change's interval."""
    if row["change"] is None:
        return Effect.NONE
    if row["role"] == Role.CONTROL:
        return Effect.CONTROL
    sign = row["change"].is_above() - row["change"].is_below()
    if not sign:
        return Effect.UNDECIDED
    return Effect.BETTER if sign == MEASURES[row["measure"]].better else Effect.WORSE


def matters(row) -> bool:
    """Whether the heads found change a measure, and by more than random heads do.

    Both intervals have to lie on the same side of 0.
    """
    both = row["change"], row["beyond"]
    return all(one.is_above() for one in both) or all(one.is_below() for one in both)


def best_settings(stored: Mapping[str, pd.DataFrame | None]) -> tuple[str, str]:
    """Names of the setting of lowest S (08) and of the fairest viable one (09); "" where unknown.

    In the latter most contexts agree, and viable is within 5 points of base, as notebook 09 marks
    it. Of equals the first is taken, or the more accurate one.
    stored   08_table7 and 09_table7 as the notebooks save them, None where one is missing
    """
    lowest = ""
    if stored["08_table7"] is not None:
        intrinsic = stored["08_table7"].set_index("model")[2:]
        lowest = stats.settled(intrinsic["S"]).idxmin()
    if stored["09_table7"] is None:
        return lowest, ""
    inference = stored["09_table7"].set_index("model")[2:]
    viable = inference[inference["viable"].isin(["yes", "in points"])]
    ranked = viable.sort_values(["eta, most", "SNLI"], ascending=False, kind="stable").index
    return lowest, ranked[0] if len(ranked) else ""
