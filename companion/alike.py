"""Are the bundled models' answers of the kind that real ones give?

    ./reproduce.sh measure alike --profile published    # one small file a model, minutes each
    alike.table(), alike.figure(table), alike.write()   # from what is stored

The same five questions to bundled, published and untrained models, on the same words and sentences
of this project, in sizes that a CPU manages for 100 million weights. A question that a model cannot
be asked is stored with the reason.
"""

import json
import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from companion import look, published, results
from companion.bias_a_head import estimators
from companion.card import measures as card_measures
from companion.report import readme
from lib import CompanionError, paths
from lib.bias_a_head import heads, masking, seat
from lib.counteracts import cloze
from lib.engine import hooks, models, stats
from lib.engine.files import read_text, replace
from lib.text import contexts

KINDS = {
    "bundled": ("mini-bert", "mini-roberta", "mini-albert", "mini-gpt2"),
    "published": tuple(published.MODELS),
    "untrained": ("null", "null@1", "null-gpt2", "null-gpt2@1"),
}
NAMES = tuple(name for names in KINDS.values() for name in names)
COMPARED = ("bundled", "published")
POOLINGS = ("sentence vector", "mean of all tokens", "word")
OCCUPATIONS = "occupations: rank correlation"
HEADS = "heads whose interval is above 0"
TOP = "masking top heads less random ones"
COUNTEREXAMPLE = "after a counterexample"
UNRELATED = "after an unrelated sentence"
COUNTER_KIND = "target counter syntactic similar"
SHARE_MASKED = 0.1  # of all heads
STORED = paths.FIGURES / published.PROFILE
MEASURED = STORED / "measured"
PAGE = paths.ROOT / "PUBLISHED.md"
MARKER = "<!-- made by ./reproduce.sh measure alike -->"  # before the table and after it
TABLE = STORED / "alike.csv"
FIGURE = TABLE.with_suffix(".png")


def seat_measure(bias: str, pooling: str) -> str:
    return f"SEAT, {bias}: {pooling}"


MEASURES = (
    OCCUPATIONS,
    *(seat_measure("gender", pooling) for pooling in POOLINGS),
    *(seat_measure("race", pooling) for pooling in POOLINGS),
    HEADS,
    TOP,
    COUNTEREXAMPLE,
    UNRELATED,
)
TOLD = (OCCUPATIONS, seat_measure("gender", "word"), COUNTEREXAMPLE)  # in one line


@dataclass(frozen=True)
class Amounts:
    """On how much a model is measured."""

    source: str = "mini"
    contexts: int = 3  # sentences a word for head scores
    folds: int = 3  # disjoint parts of them
    every: int = 4  # one in so many target words for head scores
    attributes: int = 4  # there, one in so many pairs of attribute words of these
    other_attributes: int = 8  # for SEAT and masking, one in so many of all
    targets: int = 30  # at most, of either side, for masking
    draws: int = 3  # random choices of heads


def measure(name: str, amounts: Amounts, device: str | None = None) -> dict:
    """What a model answers: `measures`, {measure: value, low, high, n}, and `missing`, {measure:
    why}; `family`, and `p` of every SEAT.
    """
    return measured(models.load(name, device=device), amounts)


def measured(model, amounts: Amounts) -> dict:
    """As `measure`, of a loaded model."""
    found = {"measures": {}, "missing": {}, "p": {}}
    for ask in (occupations, associations, of_heads, counterexamples):
        try:
            estimates = ask(model, amounts, found)
        except CompanionError as error:
            for name in ASKED[ask.__name__]:
                found["missing"][name] = str(error)
            continue
        for name, estimate in estimates.items():
            found["measures"][name] = [*estimate, estimate.n]
    return found | {"family": model.family, "parameters": model.net.num_parameters()}


ASKED = {
    "occupations": (OCCUPATIONS,),
    "associations": MEASURES[1:7],
    "of_heads": (HEADS, TOP),
    "counterexamples": (COUNTEREXAMPLE, UNRELATED),
}


# ---- the questions
def occupations(model, amounts: Amounts, found: dict) -> dict[str, stats.Estimate]:
    """Does it say she where women work?"""
    frame = contexts.pronoun_odds(model)
    rho = stats.bootstrap(stats.rank_correlation, frame.percent_women, frame.log_odds)
    found["log_odds"] = frame.log_odds.to_numpy()
    return {OCCUPATIONS: rho}


def associations(model, amounts: Amounts, found: dict) -> dict[str, stats.Estimate]:
    """SEAT, signed, by what is taken for a word's vector in its one sentence; intervals of gender
    are over target words.
    """
    estimates = {}
    for bias in ("gender", "race"):
        attributes = amounts.other_attributes if bias == "gender" else 1
        sample = heads.Sample(amounts.source, contexts=1, attributes=attributes)
        sets, sentences = heads.sets_and_contexts(bias, sample)
        vectors = card_measures.pooled(model, sentences).values()  # in the order of POOLINGS
        for pooling, of_words in zip(POOLINGS, vectors, strict=True):
            x, y, a, b = sets.of(of_words, sentences)
            s = seat.associations(torch.cat([x, y]), a, b).numpy()
            in_x = np.arange(len(s)) < len(x)
            name = seat_measure(bias, pooling)
            if bias == "gender":
                estimates[name] = stats.bootstrap(masking.signed_seat, s, in_x)
            else:  # 11 words: a draw may lack one side, so that p has to do
                estimates[name] = stats.Estimate(masking.signed_seat(s, in_x), n=len(s))
            found["p"][name] = seat.p_value(x, y, a, b, n=10_000)
    return estimates


def of_heads(model, amounts: Amounts, found: dict) -> dict[str, stats.Estimate]:
    """How many heads have a score above 0, and what masking a tenth of them, the highest, does to
    |SEAT| of words that had no part in the scores, less what random heads do.
    """
    sample = heads.Sample(amounts.source, amounts.contexts, amounts.folds, 0, 0, amounts.attributes)
    chosen, sentences = heads.sets_and_contexts("gender", sample, amounts.every)
    result = heads.bias_scores(model, chosen, sentences, amounts.folds)
    frame = estimators.intervals({"scores": result.scores.numpy(), "folds": result.folds.numpy()})
    found["scores"] = result.scores.numpy()

    others = heads.Sample(amounts.source, 1, seed=1, attributes=amounts.other_attributes)
    sets, sentences = heads.sets_and_contexts("gender", others)
    x = [word for word in sets.X if word not in chosen.X]
    y = [word for word in sets.Y if word not in chosen.Y]
    sets = sets._replace(X=tuple(x[: amounts.targets]), Y=tuple(y[: amounts.targets]))
    sentences = {word: sentences[word] for word in sets.words}
    k = max(3, round(SHARE_MASKED * frame.shape[0]))
    masks = [[], heads.top(result.scores, k), *random_heads(model, k, amounts.draws)]
    s = []
    for off in masks:
        with hooks.head_mask(model, heads.mask(model, off)):
            of_mask, in_x = heads.associations(model, sets, sentences)
        s.append(of_mask)
    found["masked"] = np.array([masking.signed_seat(row, in_x) for row in s])
    beyond = stats.bootstrap(beyond_random, in_x, s[1], *s[2:], draws=1_000)
    return {HEADS: stats.wilson(frame.low > 0), TOP: beyond}


def random_heads(model, k: int, draws: int) -> list[list[tuple[int, int]]]:
    """Random choices of k heads, (layer, head), both from 1."""
    every = [(i + 1, j + 1) for i, j in np.ndindex(model.n_layers, model.n_heads)]
    rng = random.Random(0)
    return [rng.sample(every, k) for _ in range(draws)]


def beyond_random(in_x: np.ndarray, top: np.ndarray, *drawn: np.ndarray) -> float:
    """|SEAT| with the top heads masked, less the mean of |SEAT| with random ones masked."""
    of_random = [masking.seat_of(s, in_x) for s in drawn]
    return masking.seat_of(top, in_x) - float(np.mean(of_random))


def counterexamples(model, amounts: Amounts, found: dict) -> dict[str, stats.Estimate]:
    """By how many bits a sentence before it moves the blank towards the gender that dominates an
    occupation.
    """
    kinds = ("base", COUNTER_KIND, "unrelated")
    prompts = []
    for row in cloze.rows("table1", backgrounds=1):
        if row["kind"] in kinds:
            prompts.append(row)
    mass = cloze.answer(model, cloze.encoded(model, prompts))["mass"]["verbalizer"]
    dominated = np.array([1 if row["dominated"] == "female" else -1 for row in prompts])
    lean = np.log2(mass[:, 0] / mass[:, 1]) * dominated
    kind = np.array([row["kind"] for row in prompts])
    before, counter, unrelated = (lean[kind == one] for one in kinds)
    found["lean"] = before
    return {
        COUNTEREXAMPLE: stats.mean(counter - before),
        UNRELATED: stats.mean(unrelated - before),
    }


# ---- what is stored, side by side
def file_of(name: str, folder: Path = MEASURED) -> Path:
    """Where the answers of a model are kept."""
    return results.place(folder, measure, (name, Amounts()))


def table(folder: Path = MEASURED) -> pd.DataFrame:
    """A row for each model and measure: kind, model, measure, value, low, high, n, p, and why it
    is missing.
    """
    rows = []
    for kind, names in KINDS.items():
        for name in names:
            file = file_of(name, folder)
            found = results.read(file)[0] if file.is_file() else None
            for measure_ in MEASURES:
                row = {"kind": kind, "model": name, "measure": measure_}
                rows.append(row | _answer(found, measure_))
    return pd.DataFrame(rows)


def _answer(found: dict | None, name: str) -> dict:
    """One measure of a model as a row has it."""
    nothing = {"value": np.nan, "low": np.nan, "high": np.nan, "n": 0, "p": np.nan}
    if found is None:
        return nothing | {"missing": "not run: time"}
    if name not in found["measures"]:
        return nothing | {"missing": f"not applicable: {found['missing'][name]}"}
    value, low, high, n = found["measures"][name]
    p = found["p"].get(name, np.nan)
    return {"value": value, "low": low, "high": high, "n": n, "p": p, "missing": ""}


def sides(frame: pd.DataFrame) -> pd.DataFrame:
    """For each measure (row) and kind of models: the median, and of how many the interval is above
    0, below 0 or neither, as text; and whether the medians of bundled and published models lie on
    the same side of the median of untrained ones.
    """
    rows = []
    for name in MEASURES:
        of_measure = frame[(frame.measure == name) & (frame.missing == "")]
        row = {"measure": name}
        medians = {}
        for kind in KINDS:
            mine = of_measure[of_measure.kind == kind]
            medians[kind] = mine.value.median()
            row[kind] = _count(mine)
        bundled, published = (medians[kind] - medians["untrained"] for kind in COMPARED)
        row["same side"] = _same_side(bundled, published)
        rows.append(row)
    return pd.DataFrame(rows)


def _count(rows: pd.DataFrame) -> str:
    """0.35: 3 above 0, 1 neither. By the interval; by p where there is none."""
    if rows.empty:
        return "-"
    has_interval = rows.low.notna()
    above = int(np.where(has_interval, rows.low > 0, rows.p < 0.05).sum())
    below = int(np.where(has_interval, rows.high < 0, rows.p > 0.95).sum())
    counts = {"above 0": above, "below 0": below, "neither": len(rows) - above - below}
    said = ", ".join(f"{n} {word}" for word, n in counts.items() if n)
    return f"{rows.value.median():.2f}: {said}"


def _same_side(one: float, other: float) -> str:
    if np.isnan(one) or np.isnan(other):
        return ""
    return "yes" if np.sign(one) == np.sign(other) else "no"


def in_a_line(frame: pd.DataFrame, measures: tuple[str, ...] = TOLD) -> str:
    """Of each measure the lowest and the highest model of each kind, published ones first."""
    parts = []
    for name in measures:
        of_measure = frame[(frame.measure == name) & frame.value.notna()]
        ranges = []
        for kind in ("published", "bundled", "untrained"):
            values = of_measure.loc[of_measure.kind == kind, "value"]
            if len(values):
                ranges.append(f"{values.min():z.2f} to {values.max():z.2f} in {len(values)} {kind}")
        parts.append(f"{name} {', '.join(ranges) or 'not run'}")
    return "; ".join(parts)


COLORS = {"bundled": look.FEMALE, "published": look.BAD, "untrained": look.NEITHER}


def figure(frame: pd.DataFrame):
    """One panel a measure, one point a model with its 95 % interval, colored by kind."""
    fig, axes = look.panels(len(MEASURES), width=3.3, height=2.9, sharey=True)
    names = list(dict.fromkeys(frame.model))
    for ax, name in zip(axes, MEASURES):
        of_measure = frame[frame.measure == name].set_index("model").loc[names]
        for y, row in enumerate(of_measure.itertuples()):
            if row.missing:
                said = "no vocabulary head" if "applicable" in row.missing else "not run"
                ax.text(0.02, y, said, size=6, va="center", transform=ax.get_yaxis_transform())
                continue
            arms = look.arms(row.value, row.low, row.high)
            ax.errorbar(row.value, y, xerr=arms, fmt="o", ms=4, color=COLORS[row.kind])
        ax.axvline(0, color=look.PALE, zorder=0, linestyle=":")
        ax.set_yticks(range(len(names)), names)
        ax.set_ylim(len(names) - 0.5, -0.5)
        ax.set_title(name.replace(" less", "\nless").replace(": ", ":\n"), fontsize=9)
    return fig


def in_markdown(frame: pd.DataFrame) -> str:
    """The table as PUBLISHED.md shows it: a row a measure, a column a model but for further draws
    of untrained ones; SEAT on race with its p.
    """
    names = [name for name in NAMES if "@" not in name]
    lines = ["| " + " | ".join(["", *names]) + " |", "| --- " * (len(names) + 1) + "|"]
    for name, rows in frame.groupby("measure", sort=False):
        cells = [_cell(row) for row in rows.set_index("model").loc[names].itertuples()]
        lines.append("| " + " | ".join([name, *cells]) + " |")
    return "\n".join(lines)


def _cell(row) -> str:
    """An estimate with its interval, or with p where there is none; a dash where it is missing."""
    if row.missing:
        return "-"
    said = f"{stats.Estimate(row.value, row.low, row.high):z.2f}"
    return said if np.isfinite(row.low) else f"{said}, p {estimators.p_text(row.p)}"


def provenance(caption: str, names: tuple[str, ...], folder: Path = MEASURED) -> bytes:
    """What stands beside a table of these models' stored answers: what they were measured from."""
    about = {"caption": caption, "kind": "table", "models": {}}
    for file in (file_of(name, folder) for name in names):
        if file.is_file():
            _, made_from = results.read(file)
            question = made_from["question"]
            about["models"] |= question["weights"]
            about |= {"sizes": question["arguments"][1]}
            for key in ("run", "command", "precision", "device", "versions"):
                about[key] = made_from[key]  # alike in all of them
    return f"{json.dumps(about, indent=1, ensure_ascii=False)}\n".encode()


def write() -> Path:
    """The table into figures/published and PUBLISHED.md, and the figure beside it."""
    frame = table()
    shown = readme.between(PAGE.name, read_text(PAGE), MARKER, in_markdown(frame), MARKER)
    replace(PAGE, shown.encode())
    replace(TABLE, frame.to_csv(index=False, float_format="%.6g", lineterminator="\n").encode())
    caption = "What bundled, published and untrained models answer to the same five questions."
    replace(TABLE.with_suffix(".json"), provenance(caption, NAMES))
    look.style()
    drawn = figure(frame)
    same = sides(frame)["same side"]
    look.sign(
        drawn,
        f"Bundled and published models lie on the same side of untrained ones in "
        f"{(same == 'yes').sum()} of {(same != '').sum()} comparisons",
        "medians of models; sentences of data/demo; blue: bundled, orange: published, grey: "
        "untrained; bars: 95 % intervals over words, heads, occupations",
    )
    drawn.savefig(FIGURE, dpi=130, bbox_inches="tight")
    return FIGURE
