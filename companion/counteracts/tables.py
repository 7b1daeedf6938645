"""What knowledge does to a model's preference, from answers of lib/counteracts/cloze.py.

`table` is one of `by_occupation`. k = 3, 5, 10 counts the top k tokens alone, as the paper does;
k = 0 (FULL) the whole distribution. The *margin* is (female - male) / (female + male), from -1 to
1: its sign is the preference. It is relative, since knowledge also changes how much of the
probability falls on gendered words at all.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from lib.counteracts import cloze
from lib.engine import stats

K = (3, 5, 10)
FULL = 0
# Of the margin: a smaller change keeps the preference, and a smaller margin is none. The threshold
# is ours; the paper has none.
LITTLE = 0.1
ENLARGED = "enlarged"
KEPT = "kept"
WEAKENED = "weakened"
OVERTURNED = "overturned"
NO_TOKEN = "no gendered token"
CHANGES = [ENLARGED, KEPT, WEAKENED, OVERTURNED, NO_TOKEN]
GENDERS = {1: "female", -1: "male", 0: "neither"}
# Verbalizers beside the main one, by what `forms` calls them.
OTHER_WORDS = {
    "six words": "six",
    "all 126 of the list": "verbalizer",
    "larger list": "larger",
    "tokens without the space": "no space",
    "tokens of either form": "either",
}


class Asked(NamedTuple):
    """What the models of a run answered, and the verbalizer that was made of it."""

    answers: dict[str, dict]  # by model, to the prompts of Table 1's 58 occupations
    of_forty: dict[str, dict]  # to the paper's 2,680 prompts, as inferred
    verbalizer: dict[str, list[str]]
    tokens: list[str]  # that models generate


def asked(run) -> Asked:
    """Ask all models of a `Run`; answers are kept, so that the second notebook asks nothing."""
    n = run.sizes.cloze_backgrounds
    items = run.sizes.items
    everything = {}
    for name in run.cloze:
        everything[name] = run.measured(cloze.measure, name, "both", n, items=items)
    tokens = cloze.generated(everything.values())
    by_model = [run.measured(cloze.prevalence, name, tokens) for name in run.cloze]
    prevalence = np.mean(by_model, axis=0)
    verbalizer = cloze.verbalizer_from_outputs(dict(zip(tokens, prevalence)))
    answers = {}
    of_forty = {}
    for name, answer in everything.items():
        counted = cloze.counted(answer, verbalizer)
        in_table1 = cloze.of_table1(answer)
        in_papers_prompts = cloze.rows(items=items)
        answers[name] = cloze.part(counted, in_table1)
        of_forty[name] = cloze.part(counted, in_papers_prompts)
    return Asked(answers, of_forty, verbalizer, tokens)


def k_name(k: int) -> str:
    return f"k = {k}" if k else "full"


def margin(female, male):
    """(female - male) / (female + male); missing where both are zero."""
    female = np.asarray(female, float)
    male = np.asarray(male, float)
    with np.errstate(invalid="ignore"):
        return (female - male) / (female + male)


def by_occupation(answer: dict, k: int = FULL, words: str = "outputs") -> pd.DataFrame:
    """The probability of female and of male tokens: one row per occupation and kind.

    They are averaged over backgrounds. For the full distribution there is also log_odds, the mean
    of log2 female : male; among the top k either may be zero.

    words   the name of the verbalizer that is counted
    """
    table = pd.DataFrame(answer["prompts"])
    measures = ["female", "male"]
    if k:
        p = answer["p"][:, :k]
        gender = answer["genders"][words][:, :k]
        of_female = np.where(gender > 0, p, 0)
        of_male = np.where(gender < 0, p, 0)
        table["female"] = of_female.sum(1)
        table["male"] = of_male.sum(1)
    else:
        mass = answer["mass"][words]
        table["female"] = mass[:, 0]
        table["male"] = mass[:, 1]
        table["log_odds"] = np.log2(table["female"] / table["male"])
        measures.append("log_odds")
    table["kind"] = pd.Categorical(table["kind"], list(cloze.KINDS))
    keys = ["dominated", "occupation", "percent_women", "kind"]
    grouped = table.groupby(keys, sort=False, dropna=False, observed=True)
    return grouped[measures].mean().reset_index()


def at_every_k(
    answers: dict[str, dict], summary: Callable[[pd.DataFrame], pd.DataFrame]
) -> dict[tuple[str, str], pd.DataFrame]:
    """{(model, k): summary} of `by_occupation` for every model, at every k and in full."""
    summaries = {}
    for name, answer in answers.items():
        for k in (*K, FULL):
            table = by_occupation(answer, k)
            summaries[name, k_name(k)] = summary(table)
    return summaries


def understood(answer: dict, k: int) -> pd.Series:
    """By kind, the share of prompts with a gendered token among the top k.

    It is that of the group of occupations (of women, of men) in which it is smaller; 1 in full.
    """
    if not k:
        return pd.Series(1.0, list(cloze.KINDS))
    found = pd.DataFrame(answer["prompts"])[["kind", "dominated"]]
    gender = answer["genders"]["outputs"][:, :k]
    found["any"] = (gender != 0).any(1)
    by_group = found.groupby(["kind", "dominated"])["any"].mean()
    return by_group.groupby("kind").min()


def resampled(
    table: pd.DataFrame, pooled: bool = False, draws: int = 2_000, seed: int = 0
) -> dict[str, np.ndarray]:
    """By kind, the margin of the means [1 + draws, groups]: of all occupations, then of resamples.

    A resample draws occupations with replacement in either group. The margin is 0 where there is no
    gendered token.

    pooled   one group in place of two, of all occupations: the gender that dominates an occupation
             ("pro-stereotypical", in the paper's Table 1) stands in place of female, the other one
             in place of male
    """
    rng = np.random.default_rng(seed)
    if pooled:
        is_female = table["dominated"] == "female"
        first = table["female"].where(is_female, table["male"])
        second = table["male"].where(is_female, table["female"])
        groups = [table.assign(first=first, second=second)]
    else:
        table = table.assign(first=table["female"], second=table["male"])
        groups = [group for _, group in table.groupby("dominated")]
    by_group = []
    for group in groups:
        wide = group.pivot(index="occupation", columns="kind", values=["first", "second"])
        values = np.stack([wide["first"], wide["second"]])  # [2 sides, occupations, kinds]
        n = values.shape[1]
        drawn = np.vstack([np.arange(n), stats.bootstrap_indices(n, draws, rng)])
        first, second = values[:, drawn].mean(2)
        of_group = margin(first, second)
        by_group.append(np.nan_to_num(of_group))
    margins = np.stack(by_group, -1)  # [1 + draws, kinds, groups]
    by_kind = np.moveaxis(margins, 1, 0)
    return dict(zip(wide["first"], by_kind))


def n_by_group(table: pd.DataFrame, pooled: bool = False) -> list[int]:
    """How many occupations each group of `resampled` has."""
    n = table.groupby("dominated")["occupation"].nunique()
    return [int(n.sum())] if pooled else n.tolist()


def moved_groups(margins: dict[str, np.ndarray], kind: str) -> int:
    """In how many groups of occupations the margin moves by more than LITTLE, with its whole
    interval.

    margins   of `resampled`
    """
    changes = margins[kind][1:] - margins["base"][1:]
    low, high = np.quantile(changes, [0.025, 0.975], axis=0)
    is_moved = (low > LITTLE) | (high < -LITTLE)
    return int(is_moved.sum())


def mean_change(margins: Sequence[dict], kind: str) -> tuple[stats.Estimate, int]:
    """The mean change of the pooled margin over models, and in how many its interval excludes 0.

    margins   of `resampled`, of each model: the same occupations are drawn in all
    """
    changes = []
    for of_model in margins:
        moved = of_model[kind] - of_model["base"]
        changes.append(moved[:, 0])
    changes = np.array(changes)
    low, high = np.quantile(changes[:, 1:], stats.ENDS, axis=1)
    is_above = stats.settled(low) > 0
    is_below = stats.settled(high) < 0
    n_beyond = int((is_above | is_below).sum())
    mean = stats.redrawn(changes.mean(0), len(margins), "models")
    return mean, n_beyond


def bars(table: pd.DataFrame) -> pd.DataFrame:
    """The bars of Fig. 2-4: the mean female and male probability of a group of occupations.

    With Student's interval over occupations. Columns: dominated, kind, gender, value, low, high.
    """
    rows = []
    groups = table.groupby(["dominated", "kind"], sort=False, observed=True)
    for (dominated, kind), group in groups:
        for gender in ("female", "male"):
            p = group[gender].to_numpy()
            mean = stats.mean(p)
            rows.append((dominated, kind, gender, *mean))
    return pd.DataFrame(rows, columns=["dominated", "kind", "gender", "value", "low", "high"])


def margins(table: pd.DataFrame) -> pd.DataFrame:
    """The margin: one row per occupation, one column per kind."""
    of_each = margin(table["female"], table["male"])
    table = table.assign(margin=of_each)
    return table.pivot(index=["dominated", "occupation"], columns="kind", values="margin")


def change(base, after) -> np.ndarray:
    """What becomes of margins, one of CHANGES each.

    It is overturned if it changes sign, however little; otherwise kept if its size changes by at
    most LITTLE; NO_TOKEN where either is nan.
    """
    growth = np.abs(after) - np.abs(base)
    cases = {
        NO_TOKEN: np.isnan(growth),
        OVERTURNED: np.multiply(base, after) < 0,
        KEPT: np.abs(growth) <= LITTLE,
        ENLARGED: growth > 0,
    }
    return np.select(list(cases.values()), list(cases), WEAKENED)


def shares(table: pd.DataFrame) -> pd.DataFrame:
    """The share of occupations under each of CHANGES, with its interval.

    Columns: kind, change, value, low, high.
    """
    wide = margins(table)
    rows = []
    for kind in wide.columns.drop("base"):
        changes = change(wide["base"], wide[kind])
        for name in CHANGES:
            share = stats.share(changes == name)
            rows.append((kind, name, *share))
    return pd.DataFrame(rows, columns=["kind", "change", "value", "low", "high"])


def overturned(by_model: Sequence[pd.DataFrame]) -> dict[str, stats.Estimate]:
    """By kind, the mean share of occupations whose preference is overturned, and of the ends of its
    intervals, since the models' occupations are the same. Models without a gendered token in base
    prompts are left out.

    by_model   of `shares`
    """
    rows = []
    for table in by_model:
        without = table.loc[table["change"] == NO_TOKEN, "value"]
        if (without < 1).any():
            is_overturned = table["change"] == OVERTURNED
            rows.append(table[is_overturned])
    if not rows:
        return {}
    by_kind = pd.concat(rows).groupby("kind")
    means = by_kind[["value", "low", "high"]].mean()
    return {kind: stats.Estimate(*mean) for kind, mean in means.T.items()}


def relative(answer: dict, k: int = 10) -> pd.DataFrame:
    """Equation 1: p(w | knowledge) / p(w | base) of every token w among the top k of both prompts.

    One row per token and prompt. Columns: occupation, kind, token, gender (female, male, neither),
    ratio.
    """
    prompts = pd.DataFrame(answer["prompts"])
    of_prompt = prompts.index.repeat(k)
    said = prompts.loc[of_prompt, ["occupation", "kind"]].reset_index(drop=True)
    signs = answer["genders"]["outputs"][:, :k]
    said["token"] = [token for tokens in answer["tokens"] for token in tokens[:k]]
    said["gender"] = [GENDERS[sign] for sign in signs.ravel()]
    said["id"] = answer["ids"][:, :k].ravel()
    said["p"] = answer["p"][:, :k].ravel()
    is_base = said["kind"] == "base"
    in_base = said.loc[is_base, ["occupation", "id", "p"]]
    with_knowledge = said[~is_base]
    both = with_knowledge.merge(in_base, on=["occupation", "id"], suffixes=("", " in base"))
    both["ratio"] = both["p"] / both["p in base"]
    return both[["occupation", "kind", "token", "gender", "ratio"]]


def relative_means(ratios: pd.DataFrame) -> pd.DataFrame:
    """Of `relative`, by kind and gender: the geometric mean, and of how many tokens it is."""
    logs = np.log(ratios["ratio"].astype(float))
    groups = logs.groupby([ratios["kind"], ratios["gender"]])
    mean = np.exp(groups.mean()).unstack("gender")
    size = groups.size().unstack("gender")
    kinds = list(cloze.KINDS)[1:]
    genders = sorted(GENDERS.values())
    mean = mean.reindex(index=kinds, columns=genders)
    size = size.reindex(index=kinds, columns=genders)
    size = size.fillna(0).astype(int)
    return pd.concat({"ratio": mean, "tokens": size}, axis=1)


def mean_ratio(ratios: pd.DataFrame) -> stats.Estimate:
    """The geometric mean of rows of `relative`, with Student's interval over occupations.

    The tokens of one occupation are not independent. A mean of one occupation has no interval.
    """
    logs = np.log(ratios["ratio"].astype(float))
    occupations = logs.groupby(ratios["occupation"])
    sums = occupations.sum()
    n = occupations.size()
    mean = sums.sum() / n.sum()
    low = np.nan
    high = np.nan
    if len(n) > 1:
        residuals = (sums - mean * n) / n.mean()
        mean, low, high = stats.mean(residuals) + mean
    value, low, high = np.exp([mean, low, high])
    unit = f"tokens of {len(n)} occupations"
    return stats.Estimate(value, low, high, int(n.sum()), unit)


def slopes(table: pd.DataFrame, draws: int = 1_000) -> pd.DataFrame:
    """By kind, how log2 odds female : male rise with ten percent more women in an occupation.

    With a bootstrap interval over occupations; those without a percentage are left out. Columns:
    kind, value, low, high.
    """
    known = table[table["percent_women"].notna()]
    rows = []
    for kind, group in known.groupby("kind", observed=True):
        tens = group["percent_women"].to_numpy() / 10
        log_odds = group["log_odds"].to_numpy()
        slope = stats.bootstrap(stats.slope, tens, log_odds, draws=draws)
        rows.append((kind, *slope))
    return pd.DataFrame(rows, columns=["kind", "value", "low", "high"])


def forms(answers: dict[str, dict]) -> pd.DataFrame:
    """The margin by group of occupations and kind, under other choices: one row per choice.

    First how prompts are written (cloze.FORMS), then which words are counted. Choices that give the
    same probabilities as one before are left out: where the tokenizer itself puts a start token
    before every text, there is no form without it.

    answers   of cloze.measure_forms, by form
    """
    first, default = next(iter(answers.items()))
    choices = []
    for form, answer in answers.items():
        choices.append((form, answer, "whole pairs"))
    for name, words in OTHER_WORDS.items():
        choices.append((f"{first}; {name}", default, words))
    rows = {}
    shown = []
    for choice, answer, words in choices:
        mass = answer["mass"][words]
        is_shown = any(np.allclose(mass, other, rtol=1e-4, atol=0) for other in shown)
        if is_shown:
            continue
        shown.append(mass)
        rows[choice] = _group_margins(answer, words)
    return pd.DataFrame(rows).T


def flips(table: pd.DataFrame) -> pd.DataFrame:
    """Of `forms`, where a choice has another preference than the first one, both beyond LITTLE."""
    is_large = table.abs() > LITTLE
    leans = np.sign(table.where(is_large, 0))
    return leans * leans.iloc[0] < 0


def _group_margins(answer: dict, words: str) -> pd.Series:
    """The margin of the means by group of occupations and kind, over the whole distribution."""
    table = by_occupation(answer, FULL, words)
    groups = table.groupby(["dominated", "kind"], observed=True)
    means = groups[["female", "male"]].mean()
    return pd.Series(margin(means["female"], means["male"]), means.index)
