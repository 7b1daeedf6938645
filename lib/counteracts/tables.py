"""What knowledge does to a model's preference, from the answers that cloze.py keeps.

`table` is one of `by_occupation`. k = 3, 5, 10 counts the top k tokens alone, as the paper does; k = 0 (FULL) the whole
distribution. The *margin* is (female - male) / (female + male), from -1 to 1: its sign is the preference. It is
relative, since knowledge also changes how much of the probability falls on gendered words at all."""

import numpy as np
import pandas as pd

from lib.counteracts import cloze
from lib.engine import stats

K, FULL = (3, 5, 10), 0
LITTLE = 0.1  # of the margin: a smaller change keeps the preference, a smaller margin is none. Ours; the paper has none.
CHANGES = ENLARGED, KEPT, WEAKENED, OVERTURNED, NO_TOKEN = [
    "enlarged",
    "kept",
    "weakened",
    "overturned",
    "no gendered token",
]
GENDERS = {1: "female", -1: "male", 0: "neither"}


def k_name(k: int) -> str:
    return f"k = {k}" if k else "full"


def margin(female, male):
    """(female - male) / (female + male); missing where both are zero."""
    female, male = np.asarray(female, float), np.asarray(male, float)
    with np.errstate(invalid="ignore"):
        return (female - male) / (female + male)


def by_occupation(answer: dict, k: int = FULL, words: str = "outputs") -> pd.DataFrame:
    """The probability of female and of male tokens, averaged over backgrounds: one row per occupation and kind. For the
    full distribution with log_odds, the mean of log2 female : male; of the top k either may be zero."""
    table = pd.DataFrame(answer["prompts"])
    if k:
        p, gender = answer["p"][:, :k], answer["genders"][words][:, :k]
        table = table.assign(female=(p * (gender > 0)).sum(1), male=(p * (gender < 0)).sum(1))
    else:
        table = table.assign(female=answer["mass"][words][:, 0], male=answer["mass"][words][:, 1])
        table["log_odds"] = np.log2(table["female"] / table["male"])
    table["kind"] = pd.Categorical(table["kind"], list(cloze.KINDS))
    keys = ["dominated", "occupation", "percent_women", "kind"]
    grouped = table.groupby(keys, sort=False, dropna=False, observed=True)
    return (
        grouped[["female", "male", *table.columns.intersection(["log_odds"])]].mean().reset_index()
    )


def at_every_k(answers: dict[str, dict], summary) -> dict[tuple[str, str], pd.DataFrame]:
    """A summary of `by_occupation` for every model, at every k and in full: {(model, k): summary}."""
    return {
        (name, k_name(k)): summary(by_occupation(one, k))
        for name, one in answers.items()
        for k in (*K, FULL)
    }


def understood(answer: dict, k: int, words: str = "outputs") -> pd.Series:
    """By kind, the share of prompts with a gendered token among the top k, in the group of occupations with fewer."""
    if not k:
        return pd.Series(1.0, list(cloze.KINDS))
    found = pd.DataFrame(answer["prompts"])[["kind", "dominated"]]
    found["any"] = (answer["genders"][words][:, :k] != 0).any(1)
    return found.groupby(["kind", "dominated"])["any"].mean().groupby("kind").min()


def resampled(
    table: pd.DataFrame, pooled: bool = False, draws: int = 2_000, seed: int = 0
) -> dict[str, np.ndarray]:
    """The margin of the means by kind, [1 + draws, groups]: as it is, then of occupations drawn with replacement in
    either group. 0 where there is no gendered token.
    pooled   one group: of the gender that dominates the occupation ("pro-stereotypical", in the paper's Table 1) and
             the other one, over all occupations, in place of female and male in two groups"""
    rng, sides = np.random.default_rng(seed), table[["female", "male"]].to_numpy()
    if pooled:
        sides = np.where(
            (table["dominated"] == "female").to_numpy()[:, None], sides, sides[:, ::-1]
        )
    table, margins = table.assign(first=sides[:, 0], second=sides[:, 1]), []
    for _, group in [("", table)] if pooled else table.groupby("dominated"):
        wide = group.pivot(index="occupation", columns="kind", values=["first", "second"])
        values = np.stack([wide["first"], wide["second"]])  # [2 sides, occupations, kinds]
        n = values.shape[1]
        drawn = np.concatenate([np.arange(n)[None], rng.integers(n, size=(draws, n))])
        margins.append(np.nan_to_num(margin(*values[:, drawn].mean(2))))
    return dict(zip(wide["first"], np.moveaxis(np.stack(margins, -1), 1, 0)))


def bars(table: pd.DataFrame) -> pd.DataFrame:
    """Fig. 2-4's bars: for either group of occupations and each kind the mean female and male probability, with
    Student's interval over the occupations. Columns: dominated, kind, gender, value, low, high."""
    rows = [
        (dominated, kind, gender, *stats.mean(group[gender].to_numpy()))
        for (dominated, kind), group in table.groupby(
            ["dominated", "kind"], sort=False, observed=True
        )
        for gender in ("female", "male")
    ]
    return pd.DataFrame(rows, columns=["dominated", "kind", "gender", "value", "low", "high"])


def margins(table: pd.DataFrame) -> pd.DataFrame:
    """The margin: one row per occupation, one column per kind."""
    return table.assign(margin=margin(table["female"], table["male"])).pivot(
        index=["dominated", "occupation"], columns="kind", values="margin"
    )


def change(base: float, after: float) -> str:
    """What becomes of a margin, one of CHANGES. Overturned: it changes sign; kept: it moves by at most LITTLE."""
    if np.isnan(base) or np.isnan(after):
        return NO_TOKEN
    if base * after < 0:
        return OVERTURNED
    grown = abs(after) - abs(base)
    return KEPT if abs(grown) <= LITTLE else ENLARGED if grown > 0 else WEAKENED


def shares(table: pd.DataFrame) -> pd.DataFrame:
    """The share of occupations under each of CHANGES, with its interval: columns kind, change, value, low, high."""
    wide = margins(table)
    changed = wide.drop(columns="base").apply(
        lambda after: [change(*pair) for pair in zip(wide["base"], after)]
    )
    rows = [
        (kind, name, *stats.share(changed[kind] == name)) for kind in changed for name in CHANGES
    ]
    return pd.DataFrame(rows, columns=["kind", "change", "value", "low", "high"])


def relative(answer: dict, k: int = 10) -> pd.DataFrame:
    """Equation 1: p(w | knowledge) / p(w | base) of every token w among the top k of both prompts. One row per token
    and prompt: occupation, kind, token, gender (female, male, neither), ratio."""
    base, rows = {}, []
    for i, prompt in enumerate(answer["prompts"]):
        p, tokens, genders = (
            answer["p"][i, :k],
            answer["ids"][i, :k],
            answer["genders"]["outputs"][i, :k],
        )
        if prompt["kind"] == "base":  # the first of its occupation
            base = dict(zip(tokens, p))
            continue
        rows += [
            (
                prompt["occupation"],
                prompt["kind"],
                answer["tokens"][i][j],
                GENDERS[genders[j]],
                p[j] / base[token],
            )
            for j, token in enumerate(tokens)
            if token in base
        ]
    return pd.DataFrame(rows, columns=["occupation", "kind", "token", "gender", "ratio"])


def relative_means(ratios: pd.DataFrame) -> pd.DataFrame:
    """Of `relative`, by kind and gender: the geometric mean and how many tokens it is of."""
    grouped = ratios.assign(log=np.log(ratios["ratio"].astype(float))).groupby(["kind", "gender"])[
        "log"
    ]
    mean, size = (
        values.unstack("gender").reindex(
            index=list(cloze.KINDS)[1:], columns=sorted(GENDERS.values())
        )
        for values in (np.exp(grouped.mean()), grouped.size())
    )
    return pd.concat({"ratio": mean, "tokens": size.fillna(0).astype(int)}, axis=1)


def slopes(table: pd.DataFrame, draws: int = 1_000) -> pd.DataFrame:
    """By kind, how log2 odds female : male rise with ten percent more women in an occupation, with a bootstrap interval
    over occupations. Occupations without a percentage are left out. Columns: kind, value, low, high."""
    known = table[table["percent_women"].notna()]
    rows = [
        (
            kind,
            *stats.bootstrap(
                stats.slope,
                group["percent_women"].to_numpy() / 10,
                group["log_odds"].to_numpy(),
                draws=draws,
            ),
        )
        for kind, group in known.groupby("kind", observed=True)
    ]
    return pd.DataFrame(rows, columns=["kind", "value", "low", "high"])


def forms(answers: dict[str, dict]) -> pd.DataFrame:
    """The margin by group of occupations and kind, one row per choice: how prompts are written (cloze.FORMS), then
    which words are counted. Choices that give the very same tokens as the first are left out."""
    first, default = next(iter(answers.items()))
    counted = {
        "six words": "six",
        "all 126 of the list": "verbalizer",
        "larger list": "larger",
        "tokens without the space": "no space",
        "tokens of either form": "either",
    }
    choices = {form: (answer, "whole pairs") for form, answer in answers.items()}
    choices |= {
        f"{first}; {name}": (default, words)
        for name, words in counted.items()
        if not np.allclose(
            default["mass"][words], default["mass"]["whole pairs"], rtol=1e-4, atol=0
        )
    }
    rows = {}
    for name, (answer, words) in choices.items():
        table = by_occupation(answer, FULL, words)
        means = table.groupby(["dominated", "kind"], observed=True)[["female", "male"]].mean()
        rows[name] = pd.Series(margin(means["female"], means["male"]), means.index)
    return pd.DataFrame(rows).T
