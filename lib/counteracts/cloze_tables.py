"""What knowledge does to a model's preference: the tables of Counteracts, from the answers that lib/counteracts/cloze.py keeps.

    table = cloze_tables.by_occupation(found, k=3)         female and male probability by occupation and kind
    cloze_tables.changes(table), cloze_tables.shares(table)
    cloze_tables.relative(found), cloze_tables.slopes(table)

k = 3, 5, 10 counts the top k tokens alone, as the paper does; k = 0 (FULL) the whole distribution. The *margin* is
(female - male) / (female + male), from -1 to 1: its sign is the preference. It is relative, since knowledge also
changes how much of the probability falls on gendered words at all.
"""

import numpy as np
import pandas as pd

from lib import printed as paper
from lib.counteracts import cloze
from lib.engine import stats
from lib.text import data

K, FULL = (3, 5, 10), 0
LITTLE = .1  # of the margin: a smaller change keeps the preference, a smaller margin is none. Ours; the paper has none.
CHANGES = ["enlarged", "kept", "weakened", "overturned", "no gendered token"]


def table1() -> pd.DataFrame:
    """Table 1 in its own arrangement: the 29 male-dominated occupations, beside them the 29 female-dominated ones."""
    jobs = data.words("occupations").rename(columns={"percent_women": "%"})
    halves = {f"{side}-dominated": jobs[jobs["dominated"] == side].reset_index(drop=True)[["occupation", "%"]]
              for side in ("male", "female")}
    return pd.concat(halves, axis=1)


def counts() -> pd.DataFrame:
    """How many prompts of each kind either list of occupations gives."""
    table = pd.DataFrame({which: cloze.prompts(which)["kind"].value_counts() for which in cloze.OCCUPATIONS})
    table = table.reindex(list(cloze.KINDS))
    table.loc["all"] = table.sum()
    return table


def against_paper() -> pd.DataFrame:
    """The numbers that the paper prints of its prompts, and ours. They are counts, not a model's: they can match."""
    jobs, words, prompts = data.words("occupations"), cloze.words(), cloze.prompts("winobias")
    ours = {("Dataset", "occupations"): len(jobs), ("Dataset", "prompts"): len(prompts),
            ("Dataset", "female-dominated"): (jobs["dominated"] == "female").sum(),
            ("Dataset", "male-dominated"): (jobs["dominated"] == "male").sum(),
            ("Abstract", "kinds of prompts"): prompts.loc[prompts["knowledge"] != "", "kind"].nunique(),
            ("Verbalizer", "tokens"): sum(map(len, words.values())),
            ("Verbalizer", "ratio"): len(words["female"]) / sum(map(len, words.values()))}
    return paper.compare("counteracts", {("prose", *key): value for key, value in ours.items()}, same_model=True,
                         digits=1)


def top(found: dict[str, dict], occupation: str, kinds: list[str], n: int = 5) -> pd.DataFrame:
    """The n likeliest tokens of an occupation's prompts, with their probabilities: a row a model and kind."""
    prompts = cloze.prompts()
    rows = {}
    for name, answer in found.items():
        for kind in kinds:
            i = prompts.index[(prompts["occupation"] == occupation) & (prompts["kind"] == kind)][0]
            rows[name, kind] = [f"{token} {p:.2f}" for token, p in zip(answer["tokens"][i][:n], answer["p"][i])]
    return pd.DataFrame(rows, index=range(1, n + 1)).T.rename_axis(["model", "kind"])


def k_name(k: int) -> str:
    return f"k = {k}" if k else "full"


def margin(female, male):
    """(female - male) / (female + male); missing where both are zero."""
    female, male = np.asarray(female, float), np.asarray(male, float)
    with np.errstate(invalid="ignore"):
        return (female - male) / (female + male)


def answers(found: dict, k: int = FULL, words: str = "verbalizer", which: str = "winobias",
            backgrounds: int = 0) -> pd.DataFrame:
    """The prompts that a model was asked, with columns female and male: the probability of such tokens."""
    table = cloze.prompts(which, backgrounds)
    if k:
        p, gender = found["p"][:, :k], found["genders"][words][:, :k]
        return table.assign(female=(p * (gender > 0)).sum(1), male=(p * (gender < 0)).sum(1))
    return table.assign(female=found["mass"][words][:, 0], male=found["mass"][words][:, 1])


def by_occupation(found: dict, k: int = FULL, words: str = "verbalizer", which: str = "winobias",
                  backgrounds: int = 0) -> pd.DataFrame:
    """Of `answers` the mean over backgrounds, a row an occupation and kind; for the full distribution with log_odds,
    the mean of log2 female : male."""
    table = answers(found, k, words, which, backgrounds)
    if k == FULL:  # of the top k either may be zero
        table["log_odds"] = np.log2(table["female"] / table["male"])
    table["kind"] = pd.Categorical(table["kind"], list(cloze.KINDS))
    keys = ["dominated", "occupation", "percent_women", "kind"]
    grouped = table.groupby(keys, sort=False, dropna=False, observed=True)
    return grouped[["female", "male", *table.columns.intersection(["log_odds"])]].mean().reset_index()


def bars(table: pd.DataFrame) -> pd.DataFrame:
    """Fig. 2-4's bars: for either group of occupations and each kind the mean female and male probability, with
    Student's interval over the occupations. Columns: dominated, kind, gender, value, low, high."""
    rows = [(dominated, kind, gender, *stats.mean(part[gender].to_numpy()))
            for (dominated, kind), part in table.groupby(["dominated", "kind"], sort=False, observed=True)
            for gender in ("female", "male")]
    return pd.DataFrame(rows, columns=["dominated", "kind", "gender", "value", "low", "high"])


def all_bars(found: dict[str, dict]) -> pd.DataFrame:
    """`bars` of every model, at every k and in full."""
    parts = {(name, k_name(k)): bars(by_occupation(answer, k)) for name, answer in found.items() for k in (*K, FULL)}
    return pd.concat(parts, names=["model", "k"]).droplevel(2).reset_index()


def changes(table: pd.DataFrame) -> pd.DataFrame:
    """What each kind of knowledge does to each occupation's preference, one of CHANGES: a row an occupation, a column a
    kind. Overturned: the margin changes sign; kept: it moves by at most LITTLE."""
    wide = table.assign(margin=margin(table["female"], table["male"])).pivot(
        index=["dominated", "occupation"], columns="kind", values="margin")
    return wide.drop(columns="base").apply(lambda after: [_change(*pair) for pair in zip(wide["base"], after)])


def _change(base: float, after: float) -> str:
    if np.isnan(base) or np.isnan(after):
        return "no gendered token"
    if base * after < 0:
        return "overturned"
    grown = abs(after) - abs(base)
    return "kept" if abs(grown) <= LITTLE else "enlarged" if grown > 0 else "weakened"


def shares(table: pd.DataFrame) -> pd.DataFrame:
    """The share of occupations under each of CHANGES, by kind, with a bootstrap interval over occupations.

    Columns: kind, change, value, low, high.
    """
    found = changes(table)
    rows = [(kind, change, *stats.share(found[kind] == change)) for kind in found for change in CHANGES]
    return pd.DataFrame(rows, columns=["kind", "change", "value", "low", "high"])


def all_shares(found: dict[str, dict]) -> pd.DataFrame:
    """`shares` of every model, at every k and in full: a row a model, k and kind, a column a change, as text."""
    parts = {(name, k_name(k)): shares(by_occupation(answer, k)) for name, answer in found.items() for k in (*K, FULL)}
    table = pd.concat(parts, names=["model", "k"]).reset_index()
    table["share"] = [str(stats.Estimate(*row)) for row in table[["value", "low", "high"]].to_numpy()]
    wide = table.pivot(index=["model", "k", "kind"], columns="change", values="share")[CHANGES]
    return wide.reindex([(*part, kind) for part in parts for kind in list(cloze.KINDS)[1:]])


def relative(found: dict, k: int = 10) -> pd.DataFrame:
    """Equation 1: p(w | knowledge) / p(w | base) of every token w among the top k of both prompts.

    A row a token and prompt: occupation, kind, token, gender (female, male, neither), ratio.
    """
    table = cloze.prompts()
    names = {1: "female", -1: "male", 0: "neither"}
    base, rows = {}, []
    for i, (occupation, kind) in enumerate(zip(table["occupation"], table["kind"])):
        p, tokens, genders = found["p"][i, :k], found["ids"][i, :k], found["genders"]["verbalizer"][i, :k]
        if kind == "base":  # the first of its occupation
            base = dict(zip(tokens, p))
            continue
        rows += [(occupation, kind, found["tokens"][i][j], names[genders[j]], p[j] / base[token])
                 for j, token in enumerate(tokens) if token in base]
    return pd.DataFrame(rows, columns=["occupation", "kind", "token", "gender", "ratio"])


def relative_means(ratios: pd.DataFrame) -> pd.DataFrame:
    """Of `relative`, by kind and gender: the geometric mean and how many tokens it is of."""
    grouped = ratios.assign(log=np.log(ratios["ratio"].astype(float))).groupby(["kind", "gender"])["log"]
    table = pd.DataFrame({"ratio": np.exp(grouped.mean()), "tokens": grouped.size()}).unstack("gender")
    table = table.reindex(index=list(cloze.KINDS)[1:])
    counts = [column for column in table if column[0] == "tokens"]
    table[counts] = table[counts].fillna(0)
    return table.astype(dict.fromkeys(counts, int))


def slopes(table: pd.DataFrame, draws: int = 1_000) -> pd.DataFrame:
    """By kind, how log2 odds female : male rise with ten percent more women in an occupation, with a bootstrap interval
    over occupations. Occupations without a percentage are left out. Columns: kind, value, low, high."""
    known = table[table["percent_women"].notna()]
    rows = [(kind, *stats.bootstrap(stats.slope, part["percent_women"].to_numpy() / 10, part["log_odds"].to_numpy(),
                                    draws=draws)) for kind, part in known.groupby("kind", observed=True)]
    return pd.DataFrame(rows, columns=["kind", "value", "low", "high"])


def follows(table: pd.DataFrame) -> pd.DataFrame:
    """By kind, the share of occupations whose margin moves towards the gender that the knowledge names, whatever it
    says of it. Columns: kind, names (the occupation's own gender or the other), value, low, high."""
    wide = table.assign(margin=margin(table["female"], table["male"])).pivot(
        index=["dominated", "occupation"], columns="kind", values="margin")
    own = np.where(wide.index.get_level_values("dominated") == "female", 1, -1)
    rows = []
    for kind, (pattern, _) in cloze.KINDS.items():
        if "person}" in pattern or "gender}" in pattern:
            named = -own if "counter_" in pattern else own
            moved = stats.share(named * (wide[kind] - wide["base"]) > 0)
            rows.append((kind, "the other" if "counter_" in pattern else "its own", *moved))
    return pd.DataFrame(rows, columns=["kind", "names", "value", "low", "high"])


def forms(found: dict[str, dict], backgrounds: int = 1) -> pd.DataFrame:
    """The margin by group of occupations and kind, a row a choice: how prompts are written (cloze.FORMS), then which
    words are counted. Choices that give the very same tokens as the first are left out."""
    first, default = next(iter(found.items()))
    counted = {"six words": "six", "larger list": "larger", "pairs that are tokens both": "whole pairs",
               "tokens without the space": "no space", "tokens of either form": "either"}
    choices = {form: (answer, "verbalizer") for form, answer in found.items()}
    choices |= {f"{first}; {name}": (default, words) for name, words in counted.items()
                if not np.allclose(default["mass"][words], default["mass"]["verbalizer"], rtol=1e-4, atol=0)}
    rows = {}
    for name, (answer, words) in choices.items():
        table = by_occupation(answer, FULL, words, backgrounds=backgrounds)
        means = table.groupby(["dominated", "kind"], observed=True)[["female", "male"]].mean()
        rows[name] = pd.Series(margin(means["female"], means["male"]), means.index)
    return pd.DataFrame(rows).T


def coverage(found: dict) -> dict:
    """How much of a model's answers the verbalizer understands, over all prompts; words are of 63 and 63."""
    female, male = found["whole"]["verbalizer"]
    gendered, p = found["genders"]["verbalizer"] != 0, found["p"]
    with_tokens = gendered.any(1)
    return {"female words": female, "male words": male, "mass": found["mass"]["verbalizer"].sum(1).mean(),
            "mass, larger list": found["mass"]["larger"].sum(1).mean(),
            **{f"top {k}: gendered mass": (p * gendered)[:, :k].sum(1).mean() for k in K},
            "top 10: prompts with a gendered token": with_tokens.mean()}
