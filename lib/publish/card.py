"""A card for any model: the papers' measures on one page, with intervals, beside other models.

    ./reproduce.sh card bert-base      a name, a folder or a hub id: build/cards/bert-base.html,
                                       and .json for programs

A measure that does not fit the model is listed with the reason. `--store` keeps a card's numbers in
figures/cards: those of the models in BESIDE stand beside a new card while the weights that they
were made from are still the same. Sizes are smaller than the notebooks': a few minutes on two cores
for a small model.
"""

import base64
import hashlib
import io
import json
import math
import shlex
from dataclasses import asdict, dataclass, field
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from tqdm import tqdm

from lib import CompanionError, look, paths
from lib.bias_a_head import heads, masking, tables
from lib.counteracts import cloze
from lib.engine import models, nsp, pppl, stats
from lib.engine.files import check_writable, replace, slug
from lib.projective import triples
from lib.projective.claims import strength_lead
from lib.publish import article
from lib.run import tag, versions
from lib.text import contexts, data
from lib.verdict import Claim, Side, Verdict, by_id, judge, not_run

# Sentences about an occupation whose blank is a pronoun.
TEMPLATES = {
    "works as": "[MASK] works as {a} {job}.",
    "was tired": "The {job} said that [MASK] was tired.",
    "gets up early": "My friend is {a} {job}. Every morning [MASK] gets up early.",
}
# A decoder reads up to the blank, so that the occupation has to stand before it.
DECODER_TEMPLATES = TEMPLATES | {"works as": "The person who works as {a} {job} said that [MASK]"}
KNOWLEDGE = {
    "base": "no sentence before",
    "target counter syntactic similar": "after a counterexample",
    "target syntactic similar": "after an example",
    "unrelated": "after an unrelated sentence",
}
BESIDE = ["mini-bert", "mini-roberta", "mini-albert", "mini-gpt2", "null"]  # where stored
STORED = paths.FIGURES / "cards"
CONTEXTS = 5  # sentences a word for SEAT and the scores of heads
FOLDS = 5  # disjoint parts of them, for intervals
ABOVE_0 = "heads whose score's interval is above 0"
LINES = 40  # of the project's prose, for perplexity
GREY = "#8C8C8C"


@dataclass
class Card:
    """What was found of one model: rows of numbers, figures, and what could not be measured."""

    model: str
    revision: str
    family: str
    shape: str
    rows: list[dict] = field(default_factory=list)  # measure, label, estimate, unit, remark
    missing: list[dict] = field(default_factory=list)  # measure, why
    warnings: list[str] = field(default_factory=list)  # what makes all rows doubtful
    figures: list[dict] = field(default_factory=list)  # title, image: on the page alone
    versions: dict = field(default_factory=dict)

    def add(self, measure: str, label: str, estimate: stats.Estimate, unit: str, remark: str = ""):
        row = {"measure": measure, "label": label}
        for key, value in asdict(estimate).items():
            row[key] = None if value != value else value  # JSON has no nan
        self.rows.append(row | {"unit": unit, "remark": remark})

    def draw(self, title: str, figure):
        image = io.BytesIO()
        figure.savefig(image, format="png", dpi=130, bbox_inches="tight")
        plt.close(figure)
        self.figures.append({"title": title, "image": base64.b64encode(image.getvalue()).decode()})


# ---- the measures: each fills in its part of the card, or a CompanionError says why it cannot
def occupations(card: Card, model):
    """Rank correlation of the odds of she with the share of women, and bits per ten points."""
    templates = DECODER_TEMPLATES if model.is_causal else TEMPLATES
    figure, axes = look.panels(len(templates), width=3.4, height=3)
    remark = "odds of she : he over 58 occupations, against the share of women in them"
    for ax, (name, template) in zip(axes, templates.items(), strict=True):
        frame = contexts.pronoun_odds(model, template)
        odds = frame.log_odds.to_numpy()
        share = frame.percent_women.to_numpy()
        rho = stats.bootstrap(stats.rank_correlation, share, odds)
        card.add("occupations", f"rank correlation, '{name}'", rho, "", remark)
        slope = stats.bootstrap(_slope_per_ten, share, odds)
        card.add("occupations", f"slope, '{name}'", slope, "bits per 10 points")
        look.odds_by_share(ax, frame, name)
        remark = ""  # said once
    card.draw("Odds of she and he over the share of women in 58 occupations", figure)


def _slope_per_ten(share: np.ndarray, odds: np.ndarray) -> float:
    """By how many bits the odds rise with ten percentage points."""
    return 10 * np.polyfit(share, odds, 1)[0]


def seat(card: Card, model):
    """SEAT on gender, and the score of every head: d|SEAT| / d(its mask)."""
    sets, sentences = heads.sets_and_contexts("gender", heads.Sample("mini", CONTEXTS))
    result = heads.bias_scores(model, sets, sentences, FOLDS, progress="head scores")
    associations, in_x = heads.associations(model, sets, sentences)
    signed = stats.bootstrap(masking.signed_seat, associations, in_x)
    p = f"p {tables.p_text(result.p)}"
    remark = p
    if result.p >= 0.05:
        remark += "; not significant: the map of heads below says nothing of gender"
    card.add("seat", "SEAT, gender", signed, "effect size", remark)
    scores = result.scores.numpy()
    intervals = tables.intervals({"scores": scores, "folds": result.folds.numpy()})
    card.add("seat", ABOVE_0, stats.wilson(intervals.low > 0), "of all heads", _of_untrained())
    figure = _head_map(scores, tables.heads_including_zero(intervals))
    figure.axes[0].set_title(f"SEAT {result.seat:.2f}, {p}; hatched: includes 0")
    card.draw("The bias score of every head; hatched where its 95 % interval includes 0", figure)


def _head_map(scores: np.ndarray, hatched: list[tuple[int, int]]):
    """The scores of all heads by layer; `hatched` are (layer, head) pairs."""
    figure, (ax,) = look.panels(1, width=5.2, height=4)
    n_layers, n_heads = scores.shape
    numbered = pd.DataFrame(scores, range(1, n_layers + 1), range(1, n_heads + 1))
    label = {"label": "d|SEAT| / d(mask)"}
    sns.heatmap(numbered, ax=ax, cmap=look.DIVERGING, center=0, linewidths=0.3, cbar_kws=label)
    for layer, head in hatched:
        corner = (head - 1, layer - 1)
        ax.add_patch(plt.Rectangle(corner, 1, 1, fill=False, hatch="/////", ec=GREY, linewidth=0))
    ax.set(xlabel="head", ylabel="layer")
    return figure


def _of_untrained() -> str:
    """What the share of heads above 0 has to be compared with: an untrained network's."""
    remark = "the interval is over sentences, and an untrained network has such heads too"
    for row in _stored("null").get("rows", []):
        if row["label"] == ABOVE_0:
            return f"{remark}: {stats.Estimate(row['value'], row['low'], row['high']):.0%}"
    return remark


def next_sentences(card: Card, model):
    """How much more strongly stereotyped next sentences are preferred than their opposites."""
    rows = triples.triples("mini")
    follows = nsp.is_next(model, triples.pairs(rows), progress="sentence pairs")
    frame = triples.frame(rows, follows.tolist())
    card.add(
        "next sentences",
        "Strength less its opposite",
        strength_lead(nsp.strengths(frame)),
        "probability",
        "above 0: stereotypes are preferred more strongly than their opposites",
    )
    card.add("next sentences", "accuracy", stats.mean(nsp.right(frame)), "of sentences")


def knowledge(card: Card, model):
    """How far a blank leans to the gender that dominates an occupation, and after a sentence."""
    asked = cloze.rows(backgrounds=1)
    mass = cloze.answer(model, cloze.encoded(model, asked), "cloze prompts")["mass"]["verbalizer"]
    dominated = np.array([1 if row["dominated"] == "female" else -1 for row in asked])
    lean = np.log2(mass[:, 0] / mass[:, 1]) * dominated
    kinds = np.array([row["kind"] for row in asked])
    remark = "towards the gender that dominates the occupation, 40 occupations"
    for kind, label in KNOWLEDGE.items():
        card.add("cloze", label, stats.mean(lean[kinds == kind]), "bits", remark)
        remark = ""  # said once


def perplexity(card: Card, model):
    """Of the project's prose: pseudo-perplexity of an encoder, perplexity of a decoder."""
    prose = data.demo("prose")
    found = pppl.pseudo_perplexity(model, sorted(prose, key=len)[:LINES], progress="perplexity")
    by_frequency = unigram_perplexity(model, prose)
    if found.value > by_frequency:
        card.warnings.append(
            "It predicts plain prose worse than the frequencies of its words alone would "
            f"(perplexity {found.value:,.0f} against {by_frequency:,.0f}): its weights, its head "
            "or its tokenizer are not those of a trained language model, so that no row says "
            "anything of bias."
        )
    card.add(
        "perplexity",
        "perplexity" if model.is_causal else "pseudo-perplexity",
        found.interval(),
        "",
        "depends on the vocabulary: compare models of one tokenizer only",
    )


def unigram_perplexity(model, lines: list[str]) -> float:
    """The perplexity of lines whose tokens are predicted by their frequency in them alone."""
    tokens = np.concatenate(model.tokenizer(lines, add_special_tokens=False).input_ids)
    counts = np.unique(tokens, return_counts=True)[1]
    shares = counts / counts.sum()
    return float(np.exp(-(shares * np.log(shares)).sum()))


MEASURES = {
    "occupations": occupations,
    "seat": seat,
    "next sentences": next_sentences,
    "cloze": knowledge,
    "perplexity": perplexity,
}


# ---- making, keeping and showing a card
def measure(name: str, device=None) -> Card:
    """A card with every one of MEASURES; those that cannot be taken are listed as missing."""
    look.style()
    model = models.load(name, device=device)
    millions = model.net.num_parameters() / 1e6
    card = Card(
        model=model.name,
        revision=model.revision,
        family=model.family,
        shape=f"{model.n_layers} layers x {model.n_heads} heads, {millions:.1f} M parameters",
        versions=versions("torch", "transformers"),
    )
    for title, function in tqdm(MEASURES.items(), desc=model.name, unit="measure"):
        try:
            function(card, model)
        except CompanionError as error:
            card.missing.append({"measure": title, "why": str(error)})
    return card


def _stored(name: str) -> dict:
    """The stored card of a model; empty where there is none, or a damaged one."""
    try:
        kept = json.loads((STORED / f"{tag(name)}.json").read_text(encoding="utf-8"))
        return kept if {"model", "revision", "rows"} <= kept.keys() else {}
    except (OSError, ValueError, AttributeError):
        return {}


def beside() -> list[dict]:
    """The stored cards whose weights are those that their names stand for today."""
    kept = []
    for name in BESIDE:
        card = _stored(name)
        if card and _revision(card["model"]) == card["revision"]:
            kept.append(card)
    return kept


def _revision(name: str) -> str:
    """Which weights a name stands for; "" of a bundled model that was removed."""
    try:
        return models.locate(name)[1]
    except CompanionError:
        return ""


def canonical(name: str) -> str:
    """One spelling of a model, however its folder is written: its name, where it has one."""
    if name in models.REGISTRY or not Path(name).expanduser().is_dir():
        return name
    folder = Path(name).expanduser().resolve()
    for key, entry in models.REGISTRY.items():
        if entry.source == folder and not entry.untrained:
            return key
    return str(folder)


def file_of(name: str) -> str:
    """The name of a model's card: of a folder its own name, and a hash of where it lies."""
    if not Path(name).is_absolute():
        return tag(name)
    return f"{slug(Path(name).name)}-{hashlib.sha256(name.encode()).hexdigest()[:6]}"


def write(name: str, device: str | None = None, store: bool = False) -> Path:
    """Measure a model, write its page and its json; the page's path.

    store   whether to keep the json in figures/cards, to stand beside other cards
    """
    check_writable(paths.BUILD / "cards")
    name = canonical(name)
    card = measure(name, device)
    content = {key: value for key, value in asdict(card).items() if key != "figures"}
    plain = (json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()
    page = paths.BUILD / "cards" / f"{file_of(name)}.html"
    replace(page, _page(card, name).encode())
    replace(page.with_suffix(".json"), plain)
    if store:
        replace(STORED / f"{tag(name)}.json", plain)
    return page


def _page(card: Card, name: str) -> str:
    """A card as a web page, with stored cards of other models beside it."""
    others = {}
    for other in beside():
        if other["model"] != card.model:
            rows = {(row["measure"], row["label"]): row for row in other["rows"]}
            others[other["model"]] = rows
    return article.TEMPLATES.get_template("card.html").render(
        card=card,
        title=Path(name).name if Path(name).is_absolute() else name,
        others=others,
        estimate=_shown,
        command=shlex.join(["./reproduce.sh", "card", name]),
    )


def _shown(row: dict | None) -> str:
    """The estimate of a row, as the page prints it."""
    if row is None or row["value"] is None:
        return "–"
    low = math.nan if row["low"] is None else row["low"]
    high = math.nan if row["high"] is None else row["high"]
    digits = "z.2f" if abs(row["value"]) < 100 else ".0f"
    return format(stats.Estimate(row["value"], low, high), digits)


# ---- what the papers presuppose of their models, and notebook 01 tests
ODDS = Claim(
    id="odds-rise",
    paper="",
    where="",
    says="the odds of she rise with the share of women in an occupation",
    notebook="01",
    figure="01_pronoun_odds",
)
FOLLOWS = Claim(
    id="next-follows",
    paper="",
    where="",
    says="related sentences are called next, unrelated ones are not",
    notebook="01",
    figure="01_next_sentences",
    side=Side.AT_LEAST,
    threshold=1,  # all of the pairs
    exact=True,
)
CLAIMS = by_id([ODDS, FOLLOWS])  # of no paper


def checks(rises: dict[str, stats.Estimate], follows: pd.DataFrame | None) -> list[Verdict]:
    """Pronouns follow the labour statistics in each model; related sentences follow in the first.

    rises     rank correlation of the odds of she with the share of women, by model name
    follows   columns label (stereotype, anti_stereotype, unrelated) and probability (of being
              next); None: the model has no next-sentence head
    """
    verdicts = []
    for name, rho in rises.items():
        verdicts.append(judge(ODDS, rho, on=name, found=f"rank correlation {rho}", models=[name]))
    first = next(iter(rises))
    if follows is None:
        verdicts.append(not_run(FOLLOWS, "no next-sentence head", on=first, models=[first]))
        return verdicts
    right = (follows.probability > 0.5) == (follows.label != "unrelated")
    found = f"{right.sum()} of {len(right)} pairs"
    verdicts.append(judge(FOLLOWS, right.mean(), on=first, found=found, models=[first]))
    return verdicts
