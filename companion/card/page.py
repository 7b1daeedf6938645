"""The page of a card: a table of what was measured, beside other models, in one HTML file that
fetches nothing.
"""

import math
from pathlib import Path

import jinja2
from numpy import log10

from companion.card import rows as card_rows
from companion.card.every_eval import Stored
from companion.card.measures import Card
from companion.card.rows import KINDS, Row
from lib.engine import stats
from lib.engine.families import FAMILIES

# The stored cards of untrained networks: a decoder has other rows than an encoder.
ENCODER_CONTROL = "null"
DECODER_CONTROL = "null-gpt2"
CONTROLS = (ENCODER_CONTROL, DECODER_CONTROL)
BUNDLED = ("mini-bert", "mini-roberta", "mini-albert", "mini-gpt2")
TEMPLATE = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
).get_template("card.html")
# {group: its title, and what its rows ask}
GROUPS = {
    "occupations": (
        "Occupations and pronouns",
        "Is *she* likelier than *he* in occupations with more women (labour statistics of "
        "Counteracts' Table 1)? A rank correlation, and by how many bits the odds rise with ten "
        "points of women's share. The pattern of the labour market is what a model can learn from "
        "text: a stereotype, or knowledge, which this cannot tell apart.",
    ),
    "seat": (
        "SEAT",
        "SEAT's effect size, -2 to 2: do the vectors of words that are stereotyped female lie "
        "nearer to female words than those stereotyped male do (Bias A-head)? How a vector is made "
        "of a sentence changes the answer, so that all ways stand here. A word's vector is the "
        "mean over its sentences. On race there are eleven words, so that a p stands for the "
        "interval.",
    ),
    "heads": (
        "Attention heads",
        "The bias score of an attention head is the slope of |SEAT| (the word's own tokens, where "
        "a row says no other) in the head's mask, with Student's interval over parts of the "
        "sentences (Bias A-head). Does masking the tenth of the heads that is highest by some "
        "words lower |SEAT| of other words?",
    ),
    "next sentences": (
        "Next sentences",
        "BERT's next-sentence head: is a stereotype preferred as the next sentence more strongly "
        "than its opposite, summed over both genders (Projective Methods)?",
    ),
    "cloze": (
        "A sentence before",
        "log2 of the probability of words of the gender that dominates an occupation to words of "
        "the other, at a blank; without and with a sentence before it (Counteracts). What an "
        "example or a counterexample does is compared with *no sentence before*.",
    ),
    "perplexity": (
        "Language",
        "Whether it is a language model at all: perplexity of plain prose, masked token by masked "
        "token for an encoder, which is another measure than a decoder's.",
    ),
}


def one(card: Card, title: str, others: list[Stored], command: str) -> str:
    """The page of one model, beside stored ones."""
    fitting = control_of(card)
    unfitting = {card.model, *CONTROLS} - {fitting}
    others = [other for other in others if other.model not in unfitting]
    control = next((other for other in others if other.model == fitting), None)
    rows = [_beside(row, title, others, control) for row in card.rows]
    said = {"sentence": sentence(card, title, control), "control": control_says(card, control)}
    return _page([card], [title], rows, command, said)


def two(cards: list[Card], titles: list[str], command: str) -> str:
    """The page of two models side by side: each row of both, and the paired difference."""
    before, after = cards
    pairs = [(row, after.row(row.id)) for row in before.rows if after.row(row.id)]
    rows = [_side_by_side(*pair, titles) for pair in pairs]
    said = {"sentence": sentence_of_two(cards, titles), "alone": measured_alone(cards)}
    return _page(cards, titles, rows, command, said)


def _page(cards: list[Card], titles: list[str], rows: list[dict], command: str, said: dict) -> str:
    """The template, filled: rows by their group, and what is said above them."""
    groups = {}
    for row in rows:
        groups.setdefault(row["row"].kind.group, []).append(row)
    return TEMPLATE.render(
        title=" and ".join(titles),
        cards=cards,
        titles=titles,
        groups=[(*GROUPS[group], rows) for group, rows in groups.items()],
        command=command,
        **said,
    )


def measured_alone(cards: list[Card]) -> list[str]:
    """The labels of rows that one of two cards has."""
    before, after = cards
    labels = [row.kind.label for row in before.rows if not after.row(row.id)]
    return labels + [row.kind.label for row in after.rows if not before.row(row.id)]


# ---- sentences that sum up
def sentence(card: Card, title: str, control: Stored | None) -> str:
    """What the measures of stereotype say together."""
    rows = [row for row in card.rows if row.kind.counts]
    if not rows:
        return f"No measure of stereotype could be taken of {title}: the end of the page says why."
    above = [row for row in rows if row.estimate.is_above(row.kind.none)]
    below = [row for row in rows if row.estimate.is_below(row.kind.none)]
    rest = len(rows) - len(above) - len(below)
    found = [f"{len(above)} of {len(rows)} measures of gender stereotype show one in {title}"]
    if below:
        found.append(f"{len(below)} the opposite")
    if rest:
        found.append(f"{rest} no association")
    text = ", ".join(found)
    comparable = [row for row in above if control and row.id in control.rows]
    if comparable:
        own = [_more_than(row, control) for row in comparable]
        text += f"; of the {len(own)} that an untrained network has too, {sum(own)} exceed its"
    if card.warnings:
        return f"{text}: but see the warning."
    if not any(row.kind.group == "perplexity" for row in card.rows):
        return f"{text}. Its language was not measured: the end of the page says why."
    return f"{text}."


def sentence_of_two(cards: list[Card], titles: list[str]) -> str:
    """Where the second model shows more or less stereotype than the first."""
    before, after = cards
    if before.weights == after.weights:
        return (
            f"{titles[0]} and {titles[1]} have identical weights: if one is meant to be a changed "
            "version of the other, the change was not saved or not loaded."
        )
    verdicts = []
    for row in before.rows:
        partner = after.row(row.id)
        if row.kind.counts and partner:
            verdicts.append(card_rows.moved(row, partner))
    if not verdicts:
        return "No measure of gender stereotype was taken of both: the end of the page says why."
    less = sum(verdict.startswith("less") for verdict in verdicts)
    more = sum(verdict.startswith("more") for verdict in verdicts)
    same = sum(verdict.startswith("no ") for verdict in verdicts)
    rest = len(verdicts) - less - more - same
    return (
        f"Of {len(verdicts)} measures of gender stereotype that both have, {titles[1]} shows less "
        f"than {titles[0]} in {less}, more in {more}, no difference in {same}"
        + (f"; {rest} cannot be compared." if rest else ".")
    )


def _more_than(row: Row, control: Stored) -> bool:
    return card_rows.against_control(row, control.rows.get(row.id)).startswith("more")


# ---- the untrained network beside a model
def control_of(card: Card) -> str:
    """The untrained network that reads as the card's model does; "" for one that is a control."""
    if card.model in CONTROLS:
        return ""
    is_causal = FAMILIES[card.family].is_causal
    return DECODER_CONTROL if is_causal else ENCODER_CONTROL


def control_says(card: Card, control: Stored | None) -> str:
    """What the page says of its control, with *emphasis*."""
    if control:
        kind = "decoder" if control.model == DECODER_CONTROL else "encoder"
        return f"*{control.model}* is an untrained {kind}, which cannot hold a stereotype."
    if card.model in CONTROLS:
        return "It is an untrained network itself, a control of other models."
    return "No untrained network stands beside it, so that nothing is held against a control."


# ---- rows
def _beside(row: Row, title: str, others: list[Stored], control: Stored | None) -> dict:
    """A row as the template takes it: what it says, and a lane for each model."""
    models = [(title, row, "own")]
    for other in others:
        if row.id in other.rows:
            models.append((name_of(other.model), other.rows[row.id], role_of(other.model)))
    against = card_rows.against_control(row, control.rows.get(row.id) if control else None)
    says = "; ".join(filter(None, [card_rows.reading(row), against]))
    return {"row": row, "values": [number(row.estimate)], "says": says, "lanes": lanes(models)}


def _side_by_side(before: Row, after: Row, titles: list[str]) -> dict:
    """A row of two models, with their paired difference."""
    gap = card_rows.difference(before, after)
    return {
        "row": before,
        "values": [number(one) if one else "–" for one in (before.estimate, after.estimate, gap)],
        "says": card_rows.moved(before, after),
        "lanes": lanes([(titles[0], before, "bundled"), (titles[1], after, "own")]),
    }


def role_of(model: str) -> str:
    if model in CONTROLS:
        return "control"
    return "bundled" if model in BUNDLED else "published"


def name_of(model: str) -> str:
    return f"{model} (untrained)" if model in CONTROLS else model


def lanes(models: list[tuple[str, Row, str]]) -> list[dict]:
    """For each (name, row, role) where its interval lies on one axis, in percent of its width."""
    kind = models[0][1].kind
    scale = log10 if kind.group == "perplexity" else float
    ends = [] if kind.none is None else [kind.none]
    for _, row, _ in models:
        ends += [scale(x) for x in row.estimate if not math.isnan(x)]
    first, last = min(ends), max(ends)
    width = (last - first) or 1.0

    def percent(x: float) -> float:
        return 3 + 94 * (scale(x) - first) / width

    listed = []
    for name, row, role in models:
        value, low, high = row.estimate
        low, high = (value if math.isnan(end) else end for end in (low, high))
        listed.append(
            {
                "name": name,
                "role": role,
                "at": round(float(percent(value)), 1),
                "left": round(float(percent(low)), 1),
                "width": round(float(percent(high) - percent(low)), 1),
                "none": None if kind.none is None else round(float(percent(kind.none)), 1),
                "text": number(row.estimate),
            }
        )
    return listed


def number(estimate: stats.Estimate) -> str:
    """An estimate as the page prints it: small ones keep two digits that say something."""
    if math.isnan(estimate.value):
        return "–"
    largest = max(abs(end) for end in estimate if not math.isnan(end))
    if largest >= 100:
        return format(estimate, ",.0f")
    digits = 2 if largest >= 0.1 or not largest else min(1 - math.floor(math.log10(largest)), 6)
    return format(estimate, f"z.{digits}f")


assert {kind.group for kind in KINDS.values()} == GROUPS.keys()
