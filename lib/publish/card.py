"""A card for any model: the papers' measures on one page, each with its interval, beside other models.

    ./reproduce.sh card bert-base       a name, a folder or a hub id: build/cards/bert-base.html, and .json for programs

A measure that does not fit the model is listed with the reason. `--store` keeps a card's numbers in figures/cards:
those of the models in BESIDE stand beside a new card while the weights that they were made from are still the same.
Sizes are smaller than the notebooks': a few minutes on two cores for a small model."""

import base64
import contextlib
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

TEMPLATES = {  # for an encoder; a decoder reads up to the blank
    "works as": (
        "[MASK] works as {a} {job}.",
        "The person who works as {a} {job} said that [MASK]",
    ),
    "was tired": ("The {job} said that [MASK] was tired.",) * 2,
    "gets up early": ("My friend is {a} {job}. Every morning [MASK] gets up early.",) * 2,
}
KNOWLEDGE = {
    "base": "no sentence before",
    "target counter syntactic similar": "after a counterexample",
    "target syntactic similar": "after an example",
    "unrelated": "after an unrelated sentence",
}
BESIDE = [
    "mini-bert",
    "mini-roberta",
    "mini-albert",
    "mini-gpt2",
    "null",
]  # shown beside a card, where stored
STORED = paths.FIGURES / "cards"
CONTEXTS = FOLDS = (
    5  # sentences a word for SEAT and the heads' scores, and disjoint parts of them for intervals
)
ABOVE_0 = "heads whose score's interval is above 0"
LINES = 40  # of the project's prose, for perplexity


@dataclass
class Card:
    """What was found of one model: rows of numbers, figures (data addresses), and what could not be measured."""

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
        finite = {
            key: None if value != value else value for key, value in asdict(estimate).items()
        }  # JSON has no nan
        self.rows.append(
            {"measure": measure, "label": label, **finite, "unit": unit, "remark": remark}
        )

    def draw(self, title: str, figure):
        image = io.BytesIO()
        figure.savefig(image, format="png", dpi=130, bbox_inches="tight")
        plt.close(figure)
        self.figures.append({"title": title, "image": base64.b64encode(image.getvalue()).decode()})


# ---- the measures: each fills in its part of the card, or raises a CompanionError that says why it cannot
def occupations(card: Card, model):
    """Rank correlation of the odds of she with the share of women, and bits per ten points of it."""
    figure, axes = look.panels(len(TEMPLATES), width=3.4, height=3)
    for ax, (name, templates) in zip(axes, TEMPLATES.items()):
        frame = contexts.pronoun_odds(model, templates[model.is_causal])
        odds, share = frame.log_odds.to_numpy(), frame.percent_women.to_numpy()
        card.add(
            "occupations",
            f"rank correlation, '{name}'",
            stats.bootstrap(stats.rank_correlation, share, odds),
            "",
            "odds of she : he over 58 occupations, against the share of women in them"
            if ax is axes[0]
            else "",
        )
        slope = stats.bootstrap(lambda x, y: 10 * np.polyfit(x, y, 1)[0], share, odds)
        card.add("occupations", f"slope, '{name}'", slope, "bits per 10 points")
        look.odds_by_share(ax, frame, name)
    card.draw("Odds of she and he over the share of women in 58 occupations", figure)


def seat(card: Card, model):
    """SEAT on gender, and the score of every head: d|SEAT| / d(its mask)."""
    sets, sentences = heads.sets_and_contexts("gender", heads.Sample("mini", CONTEXTS))
    result = heads.bias_scores(model, sets, sentences, FOLDS, progress="head scores")
    associations, in_x = heads.associations(model, sets, sentences)
    signed = stats.bootstrap(masking.signed_seat, associations, in_x)
    p = f"p {tables.p_text(result.p)}"
    remark = (
        ""
        if result.p < 0.05
        else "; not significant: the map of heads below says nothing of gender"
    )
    card.add("seat", "SEAT, gender", signed, "effect size", p + remark)
    scores = result.scores.numpy()
    intervals = tables.intervals({"scores": scores, "folds": result.folds.numpy()})
    card.add("seat", ABOVE_0, stats.wilson(intervals.low > 0), "of all heads", _of_untrained())
    figure, (ax,) = look.panels(1, width=5.2, height=4)
    numbered = pd.DataFrame(scores, *(range(1, n + 1) for n in scores.shape))
    sns.heatmap(
        numbered,
        ax=ax,
        cmap=look.DIVERGING,
        center=0,
        linewidths=0.3,
        cbar_kws={"label": "d|SEAT| / d(mask)"},
    )
    for layer, head in tables.heads_including_zero(intervals):
        ax.add_patch(
            plt.Rectangle(
                (head - 1, layer - 1), 1, 1, fill=False, hatch="/////", ec="#8C8C8C", linewidth=0
            )
        )
    ax.set(xlabel="head", ylabel="layer", title=f"SEAT {result.seat:.2f}, {p}; hatched: includes 0")
    card.draw("The bias score of every head; hatched where its 95 % interval includes 0", figure)


def _of_untrained() -> str:
    """What the share of heads above 0 is to be held against: an interval over sentences is no mark of a stereotype."""
    known = _stored("null")
    rows = [row for row in known.get("rows", []) if row["label"] == ABOVE_0]
    share = (
        f": {stats.Estimate(rows[0]['value'], rows[0]['low'], rows[0]['high']):.0%}" if rows else ""
    )
    return f"the interval is over sentences, and an untrained network has such heads too{share}"


def next_sentences(card: Card, model):
    """Strength of the preference for stereotyped next sentences, beside its opposite, on the project's triples."""
    rows = triples.triples("mini")
    frame = triples.frame(
        rows, nsp.is_next(model, triples.pairs(rows), progress="sentence pairs").tolist()
    )
    card.add(
        "next sentences",
        "Strength less its opposite",
        strength_lead(nsp.strengths(frame)),
        "probability",
        "above 0: stereotypes are preferred more strongly than their opposites",
    )
    card.add("next sentences", "accuracy", stats.mean(nsp.right(frame)), "of sentences")


def knowledge(card: Card, model):
    """How far the blank leans to the gender that dominates an occupation, plain and after a sentence."""
    asked = cloze.rows(backgrounds=1)
    mass = cloze.answer(model, cloze.encoded(model, asked), "cloze prompts")["mass"]["verbalizer"]
    lean = np.log2(mass[:, 0] / mass[:, 1]) * [
        1 if row["dominated"] == "female" else -1 for row in asked
    ]
    for kind, label in KNOWLEDGE.items():
        card.add(
            "cloze",
            label,
            stats.mean(lean[[row["kind"] == kind for row in asked]]),
            "bits",
            "towards the gender that dominates the occupation, 40 occupations"
            if kind == "base"
            else "",
        )


def perplexity(card: Card, model):
    """Of the project's prose: pseudo-perplexity of an encoder, perplexity of a decoder."""
    prose = data.demo("prose")
    found = pppl.pseudo_perplexity(model, sorted(prose, key=len)[:LINES], progress="perplexity")
    by_frequency = unigram_perplexity(model, prose)
    if found.value > by_frequency:
        card.warnings.append(
            "It predicts plain prose worse than the frequencies of its words alone would (perplexity "
            f"{found.value:,.0f} against {by_frequency:,.0f}): its weights, its head or its tokenizer are not "
            "those of a trained language model, so that no row says anything of bias."
        )
    card.add(
        "perplexity",
        "perplexity" if model.is_causal else "pseudo-perplexity",
        found.interval(),
        "",
        "depends on the vocabulary: compare models of one tokenizer only",
    )


def unigram_perplexity(model, lines: list[str]) -> float:
    """The perplexity of lines whose tokens are guessed by how often each stands in them, whatever stands beside it."""
    tokens = [
        token for ids in model.tokenizer(lines, add_special_tokens=False).input_ids for token in ids
    ]
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
    """Everything that fits the model, with a bar that says how far it is."""
    look.style()
    model = models.load(name, device=device)
    card = Card(
        model.name,
        model.revision,
        model.family,
        f"{model.n_layers} layers x {model.n_heads} heads, "
        f"{model.net.num_parameters() / 1e6:.1f} M parameters",
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
    for card in filter(None, map(_stored, BESIDE)):
        with contextlib.suppress(CompanionError):  # a bundled model that was removed
            if models.locate(card["model"])[1] == card["revision"]:
                kept.append(card)
    return kept


def canonical(name: str) -> str:
    """One spelling of a model, however its folder is written: its name, where the registry has that folder."""
    if name in models.REGISTRY or not Path(name).expanduser().is_dir():
        return name
    folder = Path(name).expanduser().resolve()
    known = [
        key
        for key, entry in models.REGISTRY.items()
        if entry.source == folder and not entry.untrained
    ]
    return known[0] if known else str(folder)


def file_of(name: str) -> str:
    """What the card of a model is called: a folder by its own name, told apart from its namesakes by a hash."""
    if not Path(name).is_absolute():
        return tag(name)
    return f"{slug(Path(name).name)}-{hashlib.sha256(name.encode()).hexdigest()[:6]}"


def write(name: str, device=None, store: bool = False):
    """Measure a model and write its page and its json, whole or not at all; `store` keeps the json for other cards."""
    check_writable(paths.BUILD / "cards")
    name = canonical(name)
    card = measure(name, device)
    content = {key: value for key, value in asdict(card).items() if key != "figures"}
    plain = (json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()
    others = [other for other in beside() if other["model"] != card.model]
    shown = {
        other["model"]: {(row["measure"], row["label"]): row for row in other["rows"]}
        for other in others
    }
    page, template = (
        paths.BUILD / "cards" / f"{file_of(name)}.html",
        article.TEMPLATES.get_template("card.html"),
    )
    command = shlex.join(["./reproduce.sh", "card", name])
    title = Path(name).name if Path(name).is_absolute() else name
    replace(
        page,
        template.render(
            card=card, title=title, others=shown, estimate=_shown, command=command
        ).encode(),
    )
    replace(page.with_suffix(".json"), plain)
    if store:
        replace(STORED / f"{tag(name)}.json", plain)
    return page


def _shown(row: dict | None) -> str:
    if row is None or row["value"] is None:
        return "–"
    ends = (math.nan if row[end] is None else row[end] for end in ("value", "low", "high"))
    return format(stats.Estimate(*ends), "z.2f" if abs(row["value"]) < 100 else ".0f")


# ---- what the papers presuppose of their models, and notebook 01 tests: that these read, and know of the world
ODDS = Claim(
    "odds-rise",
    "",
    "",
    "the odds of she rise with the share of women in an occupation",
    "01",
    "01_pronoun_odds",
)
FOLLOWS = Claim(
    "next-follows",
    "",
    "",
    "related sentences are called next, unrelated ones are not",
    "01",
    "01_next_sentences",
    side=Side.AT_LEAST,
    threshold=1,
    exact=True,
)  # all of the pairs
CLAIMS = by_id([ODDS, FOLLOWS])  # of no paper


def checks(rises: dict[str, stats.Estimate], follows: pd.DataFrame | None) -> list[Verdict]:
    """Pronouns follow the labour statistics in each model; related sentences follow in the first.
    rises    rank correlation of the odds of she with the share of women, by model name
    follows  columns label (stereotype, anti_stereotype, unrelated) and probability (of being next); None: no head"""
    verdicts = [
        judge(ODDS, rho, on=name, found=f"rank correlation {rho}", models=[name])
        for name, rho in rises.items()
    ]
    first = next(iter(rises))
    if follows is None:
        return [*verdicts, not_run(FOLLOWS, "no next-sentence head", on=first, models=[first])]
    right = (follows.probability > 0.5) == (follows.label != "unrelated")
    return [
        *verdicts,
        judge(
            FOLLOWS,
            right.mean(),
            on=first,
            found=f"{right.sum()} of {len(right)} pairs",
            models=[first],
        ),
    ]
