"""What notebook 07 says of triples: the paper's examples, SS, Strength, Distance, its tests.

    stereoset.examples("Table 1", sentences, p_next, data)
    stereoset.summary(p_next)
    stereoset.by_a_hair(p_next)

`sentences` are those of triples.triples, `p_next` the probabilities of triples.frame. With data
"paper" an example is one of the authors' own, told by context_id and line; no sentence of theirs is
shown. With data "mini" it is the triple of this project that shows the same best.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from companion import printed
from companion.projective import halves
from companion.projective.table7 import PAPER
from lib.engine import nsp, stats
from lib.engine.stats import Estimate
from lib.projective import triples

# Whose probabilities each table shows, and what they are called: on the swapped side Stereo and
# Anti change places.
SHOWN = {
    "Table 1": ["stereo", "anti", "unrelated"],
    "Table 3": ["stereo", "anti", "gs_stereo", "gs_anti"],
    "Table 4": ["unrelated", "gs_unrelated"],
}
LABELS = {
    "stereo": "Stereo",
    "anti": "Anti",
    "unrelated": "Unr",
    "gs_stereo": "Anti",
    "gs_anti": "Stereo",
    "gs_unrelated": "Unr",
}
MEASURES = {"Table 3": ("s", nsp.strengths), "Table 4": ("d", nsp.distances)}
DIGITS = {"Table 1": 5}  # of p(next); 4 in the others
# The variants of claims on triples, where both of the authors' files are read: the paper reads the
# development file alone. Of more triples more is known, so that both files decide.
BOTH_FILES = "both files"
PAPERS_FILE = "the paper's file"
SAME = 1e-6  # a smaller difference is none: of a model that gives one answer to everything
# "almost indistinguishable": less than a hundredth of the spread of p(next), which is from 2.5 to
# 97.5 % of all sentences.
HAIR = 0.01
# "s close to 0": within a fifth of the mean of the highest tenth of |s|. Of normally distributed s
# 32 % lie there, of doubly exponential ones 48 %: most is a longer tail than either.
CLOSE = 0.2
# So many triples have to be read right, as Table 1's is, before a share of them says anything.
ENOUGH = 10
BLIND = "next sentences are told from unrelated ones no better than by chance"  # what reads not
# Which of the six sentences of nsp.COLUMNS belong to their context.
BELONGS = np.array([not name.endswith("unrelated") for name in nsp.COLUMNS])


# ---- Tables 1, 3 and 4
def chosen(p_next: pd.DataFrame, data: str) -> dict[tuple[str, str], int]:
    """{(table, row): context_id}, of the rows that there is a triple for."""
    if data != "mini":
        authors = triples.printed_ids()
        places = zip(authors["table"], authors["row"])
        return dict(zip(places, authors["value"]))
    s = pd.Series(nsp.strengths(p_next), p_next.index)
    d = pd.Series(nsp.distances(p_next), p_next.index)
    ahead = p_next["stereo"] - p_next["anti"]
    is_ahead = ahead > 0
    is_right = is_ahead & (p_next["anti"] > 0.5) & (p_next["unrelated"] < 0.5)
    size = s[is_ahead].abs()
    farthest = d.nlargest(2).index
    candidates = {
        ("Table 1", "triple"): ahead[is_right].nsmallest(1).index,
        ("Table 3", "a"): size.nsmallest(1).index,
        ("Table 3", "b"): s.nlargest(1).index,
        ("Table 4", "a"): farthest[:1],
        ("Table 4", "b"): farthest[1:],
    }
    ids = {}
    for place, found in candidates.items():
        if len(found):
            ids[place] = int(found[0])
    return ids


def examples(table: str, sentences: pd.DataFrame, p_next: pd.DataFrame, data: str) -> pd.DataFrame:
    """A table as the paper prints it, the printed probabilities beside the authors' own triples."""
    rows = _rows(table, sentences, p_next, data)
    if not rows:
        return pd.DataFrame(columns=["row", "label", "p(next)"])
    shown = pd.DataFrame(rows).round(DIGITS.get(table, 4))
    if table in MEASURES:
        name, _ = MEASURES[table]
        shown[name] += 0.0  # no -0.0
    if data != "mini":
        theirs = printed.numbers(PAPER).set_index(["table", "row", "column"])["value"]
        in_paper = [theirs[key] for key in _keys(table, shown)]
        place = shown.columns.get_loc("p(next)")
        shown.insert(place, "paper's p", in_paper)
    return shown.astype(object).fillna("")


def numbers(sentences: pd.DataFrame, p_next: pd.DataFrame) -> dict[tuple[str, str, str], float]:
    """The authors' own examples as data/paper names them: {(table, row, column): number}."""
    found = {}
    for table in SHOWN:
        rows = pd.DataFrame(_rows(table, sentences, p_next, "paper"))
        keys = _keys(table, rows)
        found |= dict(zip(keys, rows["p(next)"]))
    for (table, row), context_id in chosen(p_next, "paper").items():
        if table in MEASURES:
            name, measure = MEASURES[table]
            of_triple = measure(p_next.loc[[context_id]])
            found[table, row, name] = float(of_triple[0])
    return found


def _rows(table: str, sentences: pd.DataFrame, p_next: pd.DataFrame, data: str) -> list[dict]:
    """One row per sentence of a table; s or d stands in the first row of its triple."""
    labels = sentences["label"].map(nsp.LABELS)
    sentence_of = sentences.assign(label=labels).set_index(["context_id", "label"])
    rows = []
    for (where, row), context_id in chosen(p_next, data).items():
        if where != table:
            continue
        first = len(rows)
        for column in SHOWN[table]:
            side = "gs_" if column.startswith("gs_") else ""
            label = column.removeprefix(side)
            sentence = sentence_of.loc[(context_id, label)]
            told = {"row": f"{row}_GS" if side else row}
            if data == "mini":
                one, other = triples.SIDES[side]
                told["sentence A"] = sentence[one]
                told["sentence B"] = sentence[other]
            else:
                told["context_id"] = context_id
                told["line"] = sentence["line"]
            told["label"] = LABELS[column]
            told["p(next)"] = p_next.loc[context_id, column]
            rows.append(told)
        if table in MEASURES:
            name, measure = MEASURES[table]
            of_triple = measure(p_next.loc[[context_id]])
            rows[first][name] = of_triple[0]
    return rows


def _keys(table: str, rows: pd.DataFrame) -> list[tuple[str, str, str]]:
    """Where data/paper has each of these probabilities: table, row, column."""
    if table == "Table 1":
        return [(table, label, "p") for label in rows["label"]]
    return [(table, row, label) for row, label in zip(rows["row"], rows["label"])]


# ---- SS, Strength and Distance
def summary(p_next: pd.DataFrame) -> pd.DataFrame:
    """Measures of some triples with their 95 % intervals and n."""
    tenth = max(1, round(len(p_next) * 0.1))
    s = nsp.strengths(p_next)
    d = nsp.distances(p_next)
    twin = nsp.swapped(p_next)
    prefers = p_next["stereo"] > p_next["anti"]
    prefers_swapped = twin["stereo"] > twin["anti"]
    measures = [
        ("SS", "share of triples with the stereotype likelier", np.mean, prefers),
        ("SS, swapped side", "the same on the swapped side", np.mean, prefers_swapped),
        ("S", f"Strength: mean of the {tenth} highest s", nsp.top_mean, s),
        ("S, opposite", f"minus the mean of the {tenth} lowest s", nsp.top_mean, -s),
        ("mean s", "of all triple pairs", np.mean, s),
        ("D", f"Distance: mean of the {tenth} highest d", nsp.top_mean, d),
        ("mean d", "of all triple pairs", np.mean, d),
        ("accuracy", "sentences called right at .5", np.mean, nsp.right(p_next)),
    ]
    rows = []
    for name, what, statistic, values in measures:
        estimate = stats.bootstrap(statistic, np.asarray(values, float))
        rows.append((name, what, *estimate, estimate.n))
    return pd.DataFrame(rows, columns=["measure", "what", "value", "low", "high", "n"])


def estimates(table: pd.DataFrame) -> dict[str, Estimate]:
    """The rows of `summary` as estimates, by measure."""
    found = {}
    for row in table.itertuples():
        found[row.measure] = Estimate(row.value, row.low, row.high, row.n)
    return found


# ---- what the claims' tests measure
def files(context_ids: Sequence[int]) -> dict[str, np.ndarray]:
    """Which triples a claim is tested on, a mask by variant; "" where there is but one."""
    is_papers = triples.is_papers(context_ids)
    every = np.ones(len(is_papers), dtype=bool)
    if is_papers.all():
        return {"": every}
    return {BOTH_FILES: every, PAPERS_FILE: is_papers}


def needs(p_next: pd.DataFrame) -> dict[str, str]:
    """The model has to differ between sentences, and to tell which of them follow."""

    def mean_of_both(belong, other):
        return (belong.mean() + other.mean()) / 2

    is_right = _is_right(p_next)
    belong = is_right[:, BELONGS].mean(1)
    other = is_right[:, ~BELONGS].mean(1)
    share_right = stats.bootstrap(mean_of_both, belong, other, draws=halves.DRAWS)
    why_not = {"differs": "", "reads": ""}
    differs = np.ptp(p_next[nsp.COLUMNS].to_numpy()) > SAME
    if not differs:
        why_not["differs"] = "p(next) is the same for all sentences"
    reads = share_right.low > 0.5
    if not reads:
        why_not["reads"] = f"{BLIND}: {share_right} of both kinds"
    return why_not


def _is_right(p_next: pd.DataFrame) -> np.ndarray:
    """Whether each of the six sentences is called rightly the next one, or not."""
    return (p_next[nsp.COLUMNS].to_numpy() > 0.5) == BELONGS


def is_counted(p_next: pd.DataFrame) -> np.ndarray:
    """Which triples SS counts, of those that are read right.

    Read right: both sentences that belong are called the next one and the unrelated one is not, as
    in the paper's Table 1.
    """
    is_read_right = _is_right(p_next)[:, :3].all(axis=1)
    prefers = p_next["stereo"] > p_next["anti"]
    return prefers.to_numpy() & is_read_right


def too_few(counted: np.ndarray) -> str:
    """A precondition: SS counts so many triples that a share of them says something."""
    n = int(counted.sum())
    if n >= ENOUGH:
        return ""
    return f"SS counts {n} triples that are read right"


def by_a_hair(p_next: pd.DataFrame) -> Estimate:
    """Of the triples that SS counts, the share that is preferred by next to nothing."""
    low, high = np.quantile(p_next[nsp.COLUMNS].to_numpy(), [0.025, 0.975])
    ahead = p_next["stereo"] - p_next["anti"]
    return _share_of_counted(p_next, ahead < HAIR * (high - low))


def in_the_twin(p_next: pd.DataFrame) -> Estimate:
    """Of the triples that SS counts, the share that prefers the same sentence after the swap."""
    prefers_same = p_next["gs_stereo"] > p_next["gs_anti"]
    return _share_of_counted(p_next, prefers_same)


def _share_of_counted(p_next: pd.DataFrame, hits: pd.Series) -> Estimate:
    counted = is_counted(p_next)
    if too_few(counted):
        return Estimate(np.nan)
    hits = hits.to_numpy()[counted]
    share = stats.bootstrap(np.mean, hits.astype(float))
    return replace(share, unit="triples read right")


def near_zero(p_next: pd.DataFrame) -> Estimate:
    """The share of all triple pairs that have an s close to 0, as the paper says it of them."""

    def share_close(size):
        return np.mean(size <= CLOSE * nsp.top_mean(size))

    size = np.abs(nsp.strengths(p_next))
    share = stats.bootstrap(share_close, size)
    return replace(share, unit=halves.TRIPLE_PAIRS)


def flips(p_next: pd.DataFrame) -> np.ndarray:
    """Whether the swap flips the call of a sentence: p(next) crosses .5; [triples, 3]."""
    is_called_next = p_next[nsp.COLUMNS].to_numpy() > 0.5
    return is_called_next[:, :3] != is_called_next[:, 3:]


def unrelated_flips(p_next: pd.DataFrame) -> Estimate:
    """By how much more often the swap flips an unrelated sentence than the mean of the others."""

    def lead(unrelated, stereo, anti):
        return unrelated.mean() - (stereo.mean() + anti.mean()) / 2

    stereo, anti, unrelated = flips(p_next).astype(float).T
    gap = stats.bootstrap(lead, unrelated, stereo, anti)
    return replace(gap, unit=halves.TRIPLE_PAIRS)


def above_opposite(p_next: pd.DataFrame) -> Estimate:
    """By how much Strength exceeds its opposite."""
    lead = triples.strength_lead(nsp.strengths(p_next))
    return replace(lead, unit=halves.TRIPLE_PAIRS)
