"""How a model's pronouns follow the share of women in an occupation, in Winogender's sentences.

How this differs from published numbers: Rudinger et al., and MultiBERTs (mean r = .425 over 25
seeds, data/paper/reference.csv), run a coreference system that was fine-tuned for the task. Their
score of an occupation is the share of female pronouns that the system resolves to it, minus the
share of male ones; r is Pearson's, with the BLS shares. Here no model is fine-tuned and nothing is
resolved: the score is how much likelier a language model finds she than he (lib/winogender.py).
Signs and ranks can be compared, sizes cannot.
"""

import warnings

import numpy as np
import pandas as pd
import scipy.stats

from companion import look, printed
from lib.engine import stats
from lib.engine.stats import Estimate
from lib.text import readers

FEWEST = 3  # occupations; any two have a correlation of 1 or -1
# Whom a pronoun is about, as the legend says it: colour, and height in a model's row.
PRONOUNS = {
    "occupation": ("the pronoun is about the occupation", look.BAD, -0.13),
    "participant": ("about the other person", look.NEITHER, 0.13),
}
ABOUT = ("everyone", *PRONOUNS)


def by_occupation(odds: pd.DataFrame, about: str = "everyone") -> pd.DataFrame:
    """The mean log odds of each occupation's sentences, beside its percentage of women.

    Columns: occupation, log_odds, sentences (how many have log odds), bls (percentage of women in
    the labour statistics), bergsma (in mentions). Occupations without log odds are left out.

    odds    of lib.winogender.odds
    about   one of ABOUT: sentences whose pronoun refers to it. The participant is no member of the
            occupation: a model that resolves pronouns should there follow the occupation's share of
            women less
    """
    if about != "everyone":
        odds = odds[odds["about"] == about]
    log_odds = odds.dropna(subset="log_odds").groupby("occupation", sort=False)["log_odds"]
    means = log_odds.agg(log_odds="mean", sentences="size").reset_index()
    return means.merge(readers.winogender_shares(), on="occupation", how="left", validate="1:1")


def correlation(statistic, *samples, draws: int = 2_000) -> Estimate:
    """A correlation with its interval over occupations; nan for fewer than FEWEST."""
    if len(samples[0]) < FEWEST:
        return Estimate(np.nan)
    return stats.bootstrap(statistic, *(one.to_numpy(float) for one in samples), draws=draws)


def pearson(x, y, axis: int = -1):
    """Pearson's correlation along an axis; nan where all values are the same."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", scipy.stats.ConstantInputWarning)
        return scipy.stats.pearsonr(x, y, axis=axis).statistic


def contrast(odds: pd.DataFrame, draws: int = 2_000) -> Estimate:
    """Pearson's correlation where the pronoun is about the occupation, less that where it is about
    the other person; both of the same occupations, drawn together.

    A model that resolves pronouns has it above 0. One that takes an occupation's gender along to
    whoever stands beside it has it at 0.
    """
    own = by_occupation(odds, "occupation")
    other = by_occupation(odds, "participant")[["occupation", "log_odds"]]
    both = own.merge(other, on="occupation", suffixes=("", "_other"))

    def less(share, own, other, axis: int = -1):
        return pearson(share, own, axis) - pearson(share, other, axis)

    return correlation(less, both["bls"], both["log_odds"], both["log_odds_other"], draws=draws)


def table(odds_of: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """{model: odds} as correlations with the labour statistics: a row per model and whom the
    pronoun is about.

    Columns: model, about, sentences, occupations, r (Pearson's) and rho (Spearman's), both
    Estimates; less, the `contrast`, in rows about the occupation; they, the mean log2 odds of they.
    """
    rows = []
    for name, odds in odds_of.items():
        for about in ABOUT:
            means = by_occupation(odds, about)
            samples = means["bls"], means["log_odds"]
            of_them = odds if about == "everyone" else odds[odds["about"] == about]
            rows.append(
                {
                    "model": name,
                    "about": about,
                    "sentences": int(means["sentences"].sum()),
                    "occupations": len(means),
                    "r": correlation(pearson, *samples),
                    "rho": correlation(stats.rank_correlation, *samples),
                    "less": contrast(odds) if about == "occupation" else None,
                    "they": of_them["they_log_odds"].mean(),
                }
            )
    return pd.DataFrame(rows)


def figure(correlations: pd.DataFrame):
    """Correlations of log odds with labour statistics: a dot with its interval per model and
    pronoun, and a band for MultiBERTs: mean and standard deviation over 25 seeds.

    correlations   of `table`
    """
    models = correlations["model"].unique()
    drawing, (ax,) = look.panels(1, width=0.8 * look.PAGE, height=1.4 + 0.5 * len(models))
    known = printed.reference().set_index("what")["value"]
    mean = float(known["Winogender occupation correlation, mean of 25 seeds"])
    deviation = float(known["Winogender occupation correlation, sd over seeds"])
    label = "MultiBERTs' coreference score (another measure): mean and sd of 25 seeds"
    ax.axvspan(mean - deviation, mean + deviation, color=look.SKY, alpha=0.25, lw=0, label=label)
    look.mark(ax, mean, color=look.SKY, linestyle="-")
    look.mark(ax)
    for about, (label, color, shift) in PRONOUNS.items():
        r = correlations.loc[correlations["about"] == about, "r"]
        look.dots(ax, r, np.arange(len(r)) + shift, color=color, label=label)
    look.rows(ax, models)
    ax.set_xlabel("Pearson's r with the share of women (BLS)")
    look.legend_below(drawing, ax, columns=2)
    return drawing
