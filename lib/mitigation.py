"""Three ways to make one model less biased, on every measure of the three papers: what notebook 12 ends on.

    plan = mitigation.plan(scores, ["+ attn (0, 0, 0, 0, 0)"], "mini")
    found = run.cached(mitigation.measure, "mini-bert", "mini-bert-nli", plan, "mini")

Heads are masked (Bias A-head), subspaces projected out (Projective methods), a counterexample is put before the text
(Counteracts). A mask and a projection act inside the network, whatever it is asked: on word vectors (SEAT), next
sentences (Strength, Distance), inference (fairness, accuracy), masked words (PPPL, cloze). A prompt is text, and acts
where there is a text to stand before:

    cloze           Counteracts' own: "The man worked as a nurse." before "The [MASK] works as a nurse."
    next sentences  PROMPT, two counterexamples in occupations, before sentence A
    inference       PROMPT before the premise; of the occupations asked for it names two, the pairs stay neutral
    PPPL            PROMPT before each line, seen and not asked for
    SEAT            does not apply: a word's vector is measured in sentences without words of gender

The classifier is the encoder fine-tuned: the same heads are masked in it, found in the encoder; a projection's
subspaces are fitted on each model by itself, on what notebooks 08 and 09 fit them on.
"""

import contextlib

import numpy as np
import torch
from tqdm.auto import tqdm

from lib import Lazy
from lib.bias_a_head import heads, seat
from lib.counteracts import cloze
from lib.engine import embed, hooks, limit, models, nsp, pppl
from lib.projective import nli, projection, triples
from lib.text import data as sources
from lib.text import pairs as sentence_pairs
from lib.text import readers

pd = Lazy("pandas")

PROMPT = "The man worked as a nurse. The woman worked as a carpenter."
COUNTER = "target counter syntactic similar"  # the knowledge that Counteracts advises
# SEAT: sentences a word; NLI: contexts an occupation, every so many-th occupation and pair of the task; PPPL: so many
# shortest lines; draws of random heads
SIZES = {"mini": {"sentences": 1, "contexts": 3, "occupations": 2, "task": 1, "lines": 20, "draws": 2},
         "paper": {"sentences": 2, "contexts": 7, "occupations": 1, "task": 10, "lines": 60, "draws": 3}}


def plan(scores, settings: list[str], data: str = "mini", k: int = 3, seed: int = 0) -> list[tuple]:
    """(name, heads to mask, setting to project, whether to prompt), a tuple a mitigation, "none" first.

    scores     of all heads: the k highest are masked, and as many drawn at random
    settings   names of projections; the first is also combined with the mask
    """
    top = heads.top(scores, k)
    chosen = [("none", [], "", False), (f"mask Top-{k}", top, "", False)]
    chosen += [(f"mask random {k}", heads.random(scores, k, seed=seed + draw), "", False)
               for draw in range(SIZES[data]["draws"])]
    chosen += [(f"project {name}", [], name, False) for name in settings]
    chosen += [("mask and project", top, name, False) for name in settings[:1]]
    return [*chosen, ("counter-prompt", [], "", True)]


def measure(name: str, classifier: str, plan: list[tuple], data: str = "mini", device=None) -> list[dict]:
    """What each mitigation of the plan does: a dict each, of arrays with a row an item, for intervals to draw from.

    associations, in_x (a target word each; SEAT), s, d (a triple pair), likelihoods, lengths (a line; PPPL), margin
    and dominated (an occupation; cloze), neutral, agree (an occupation; NLI), right (a pair of the task). What does not
    apply, or has no model, is not there.
    """
    encoder = models.load(name, device=device)
    bench = Bench(encoder, data)
    judge, found = None, []
    if classifier:
        judge = Judge(models.load(classifier, device=device, task="sequence-classification"), data)
    for _, masked, setting, prompted in tqdm(plan, desc="mitigations", leave=False):
        with applied(encoder, masked, setting, bench.subspaces):
            row = bench.measure(prompted)
        if judge:
            with applied(judge.model, masked, setting, judge.subspaces):
                row |= judge.measure(prompted)
        found.append(row)
    return found


@contextlib.contextmanager
def applied(model, masked: list[tuple[int, int]], setting: str, subspaces: projection.Subspaces):
    """The model with these heads masked and this setting projected, inside alone."""
    with contextlib.ExitStack() as stack:
        if masked:
            stack.enter_context(hooks.head_mask(model, heads.mask(model, masked).to(model.device)))
        if setting:
            chosen = next(one for one in projection.settings() if one.name == setting)
            stack.enter_context(hooks.project(model, subspaces.interventions(chosen)))
        yield


def sizes(data: str) -> dict:
    """SIZES, of which a try (limit.py) thins nothing: what it is given is few already."""
    return SIZES[data] | (dict(occupations=1, task=1) if limit.items() else {})


def texts(data: str) -> list[str]:
    """The lines that PPPL is measured on: the shortest of the project's prose, or of WikiText-2's test split. There the
    shortest of all are headings and scraps of lists."""
    given = sources.demo("prose") if data == "mini" else [one for one in readers.wikitext() if len(one.split()) >= 20]
    return limit.first(sorted(given, key=len)[:SIZES[data]["lines"]])


class Bench:
    """All that the encoder is asked, made once."""

    def __init__(self, model, data: str):
        self.model, self.subspaces = model, projection.fit(model, sentence_pairs.written())
        self.sets, self.words = heads.sets_and_contexts("gender", data, SIZES[data]["sentences"])
        self.triples = triples.triples(data)
        self.texts = texts(data)
        prompts = [row for row in cloze.rows("winobias", 1) if row["kind"] in ("base", COUNTER)]
        self.prompts = {kind: [row for row in prompts if row["kind"] == kind] for kind in ("base", COUNTER)}

    def measure(self, prompted: bool) -> dict:
        before = f"{PROMPT} " if prompted else ""
        follows = nsp.is_next(self.model, [(before + a, b) for a, b in triples.pairs(self.triples)])
        frame = triples.frame(self.triples, follows)
        text = pppl.pseudo_perplexity(self.model, self.texts, after=before.strip())
        asked = self.prompts[COUNTER if prompted else "base"]
        mass = cloze.answer(self.model, cloze.encoded(self.model, asked))["mass"]["verbalizer"]
        row = {"s": nsp.strengths(frame), "d": nsp.distances(frame), "likelihoods": text.log_likelihoods,
               "lengths": text.lengths, "margin": (mass[:, 0] - mass[:, 1]) / mass.sum(1),
               "dominated": np.array([1 if one["dominated"] == "female" else -1 for one in asked])}
        return row if prompted else row | self.seat()

    def seat(self) -> dict:
        x, y, a, b = self.sets.of(embed.words(self.model, self.words).double(), self.words)
        s = seat.associations(torch.cat([x, y]), a, b).numpy()
        return {"associations": s, "in_x": np.repeat([True, False], [len(x), len(y)])}


class Judge:
    """All that the classifier is asked, made once."""

    def __init__(self, model, data: str):
        every, pairs = sizes(data), nli.pairs(contexts=SIZES[data]["contexts"])
        self.model, self.subspaces = model, projection.fit(model, nli.fitting_pairs())
        self.pairs = pairs[pairs["occupation"].isin(pairs["occupation"].unique()[::every["occupations"]])]
        self.task = nli.task_pairs(data).iloc[::every["task"]]

    def measure(self, prompted: bool) -> dict:
        both = pd.concat([self.pairs, self.task])
        both = both.assign(premise=PROMPT + " " + both["premise"]) if prompted else both
        p, labels = nli.probabilities(self.model, both).numpy(), nli.labels(self.model)
        table = nli.by_occupation(p[:len(self.pairs)], self.pairs, labels)
        right = nli.predictions(p[len(self.pairs):], labels) == self.task["label"].to_numpy(dtype=str)
        return {"neutral": table["neutral"].to_numpy(), "agree": table["agree"].to_numpy(), "right": right}
