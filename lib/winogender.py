"""Winogender: does a model say she where women work? "The technician said that [MASK] ..."

    odds = winogender.odds(model)                     a row per sentence, 240
    means = winogender.by_occupation(odds)            a row per occupation, 60, with shares of women
    rank, linear = winogender.agreement(means)        Spearman's and Pearson's correlation
    winogender.contrast(odds)                         about the occupation less about the other one
    winogender.figure(table, published, made_from)    both correlations of each model

The sentences and shares are those of Rudinger et al. 2018 (readers.winogender). Each sentence has
an occupation, another person and one pronoun, which refers to one of the two: half of the sentences
are about the occupation. In half of the sentences the other person is "someone".

How this differs from published numbers: Rudinger et al., and MultiBERTs (mean r = .425 over 25
seeds, data/paper/reference.csv), run a coreference system that was fine-tuned for the task. Their
score of an occupation is the share of female pronouns that the system resolves to it, minus the
share of male ones; r is Pearson's, with the BLS shares. Here no model is fine-tuned and nothing is
resolved: the score is how much likelier a language model finds she than he. Signs and ranks can be
compared, sizes cannot.
"""

import warnings
from typing import NamedTuple

import numpy as np
import pandas as pd
import scipy.stats

from lib import CompanionError
from lib.engine import fill, pppl, stats
from lib.engine.stats import Estimate
from lib.text import factual, readers

ABOUT = ("everyone", "occupation", "participant")
FEWEST = 3  # occupations; any two have a correlation of 1 or -1


class Template(NamedTuple):
    """A sentence with its blank, and what fills it in the case that the sentence needs."""

    prompt: str
    he: str
    she: str
    they: str  # "" where the sentence with they has another verb too ("was", "were")


class Agreement(NamedTuple):
    """How log odds go with the shares of women; intervals are over occupations."""

    rank: Estimate  # Spearman's correlation
    linear: Estimate  # Pearson's


def template(male: str, female: str, neutral: str) -> Template:
    """The sentence that three sentences with he, she and they have in common."""
    he_words = male.split()
    she_words = female.split()
    they_words = neutral.split()
    places = _different(he_words, she_words)
    if places is None or len(places) != 1:
        raise CompanionError(
            f"'{male}' and '{female}' differ in more than a pronoun: give sentences that differ in "
            "one word."
        )
    place = places[0]
    he = he_words[place].rstrip(".,;:!?")
    mark = he_words[place].removeprefix(he)
    before = he_words[:place]
    after = he_words[place + 1 :]
    prompt = " ".join([*before, fill.BLANK + mark, *after])
    they = ""
    if _different(he_words, they_words) == places:
        they = they_words[place].removesuffix(mark)
    return Template(prompt, he, she_words[place].removesuffix(mark), they)


def _different(words: list[str], others: list[str]) -> list[int] | None:
    """Places at which two sentences have different words; None if their lengths differ."""
    if len(words) != len(others):
        return None
    return [place for place, word in enumerate(words) if word != others[place]]


def odds(model, sentences: pd.DataFrame | None = None) -> pd.DataFrame:
    """The sentences (readers.winogender, or others with its columns) with a model's log odds.

    Two columns are added, both in bits:
    log_odds        log2 p(she) : p(he)
    they_log_odds   log2 p(they) : p(he) + p(she)

    In an encoder p is the probability of the pronoun at the blank, with the whole sentence in view.
    Both are nan where a pronoun is not one token of the vocabulary; they_log_odds is nan also where
    they needs another verb, since the sentence around the blank then rules it out. In a decoder p
    is the probability of the whole sentence with this pronoun, and its verb: a decoder that only
    read what stands before the blank would not know whom the sentence is about.
    """
    if sentences is None:
        sentences = readers.winogender()
    if not len(sentences):
        none = np.zeros(0)
        return sentences.assign(log_odds=none, they_log_odds=none)
    if model.is_causal:
        she, they = _of_sentences(model, sentences)
    else:
        she, they = _at_blanks(model, sentences)
    with np.errstate(invalid="ignore"):  # nan stays nan
        both = np.logaddexp2(0, she)  # log2 of p(he) + p(she), relative to p(he)
    return sentences.assign(log_odds=she, they_log_odds=they - both)


def _of_sentences(model, sentences: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """log2 p : p(with he) of each sentence with she, and with they; for a decoder."""
    texts = [*sentences["male"], *sentences["female"], *sentences["neutral"]]
    log_likelihoods = pppl.pseudo_perplexity(model, texts).log_likelihoods
    male, female, neutral = log_likelihoods.reshape(3, len(sentences)) / np.log(2)
    return female - male, neutral - male


def _at_blanks(model, sentences: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """log2 p : p(he) of she, and of they, at the blank of each sentence; for an encoder."""
    templates = []
    for row in sentences.itertuples():
        templates.append(template(row.male, row.female, row.neutral))
    she = _against_he(model, templates, [one.she for one in templates])
    they = _against_he(model, templates, [one.they for one in templates])
    return she, they


def _against_he(model, templates: list[Template], words: list[str]) -> np.ndarray:
    """log2 p(word) : p(he) for the word of each template; nan where one is not one token."""
    asked = []
    prompts = []
    pairs = []
    for place, word in enumerate(words):
        he = templates[place].he
        if factual.is_whole(model, word) and factual.is_whole(model, he):
            asked.append(place)
            prompts.append(templates[place].prompt)
            pairs.append((word, he))
    found = np.full(len(words), np.nan)
    if asked:
        found[asked] = fill.log_odds(model, prompts, pairs)
    return found


def by_occupation(
    odds: pd.DataFrame, about: str = "everyone", shares: pd.DataFrame | None = None
) -> pd.DataFrame:
    """The mean log odds of each occupation's sentences, beside its percentage of women.

    Columns: occupation, log_odds, they_log_odds (nan where no sentence has one), sentences (how
    many have log odds), bls, bergsma. Occupations without log odds are left out.

    about:  "everyone"; or "occupation" or "participant", for sentences whose pronoun refers to it.
            The participant is no member of the occupation: a model that resolves pronouns should
            there follow the occupation's share of women less
    shares: in place of readers.winogender_shares
    """
    if about not in ABOUT:
        raise CompanionError(
            f"Winogender has no sentences about {about!r}: take one of {', '.join(ABOUT)}."
        )
    if about != "everyone":
        odds = odds[odds["about"] == about]
    if shares is None:
        shares = readers.winogender_shares()
    groups = odds.dropna(subset="log_odds").groupby("occupation", sort=False)
    means = groups[["log_odds", "they_log_odds"]].mean()
    means["sentences"] = groups.size()
    return means.reset_index().merge(shares, on="occupation", how="left", validate="1:1")


def agreement(
    means: pd.DataFrame, share: str = "bls", draws: int = 2_000, seed: int = 0
) -> Agreement:
    """The correlations of log odds of she : he with the share of women, over occupations.

    Both are nan for fewer than FEWEST occupations.

    means: from `by_occupation`
    share: "bls" (labour statistics) or "bergsma" (mentions in text)
    """
    if len(means) < FEWEST:
        return Agreement(Estimate(np.nan), Estimate(np.nan))
    samples = (means[share].to_numpy(float), means["log_odds"].to_numpy(float))
    return Agreement(
        rank=stats.bootstrap(stats.rank_correlation, *samples, draws=draws, seed=seed),
        linear=stats.bootstrap(_pearson, *samples, draws=draws, seed=seed),
    )


def contrast(
    odds: pd.DataFrame, shares: pd.DataFrame | None = None, draws: int = 2_000, seed: int = 0
) -> Estimate:
    """Pearson's correlation where the pronoun is about the occupation, less that where it is about
    the other person; both of the same occupations, drawn together.

    A model that resolves pronouns has it above 0. One that takes an occupation's gender along to
    whoever stands beside it has it at 0.
    """
    own = by_occupation(odds, "occupation", shares)
    other = by_occupation(odds, "participant", shares)
    both = own.merge(other[["occupation", "log_odds"]], on="occupation", suffixes=("", "_other"))
    if len(both) < FEWEST:
        return Estimate(np.nan)
    samples = [both[name].to_numpy(float) for name in ("bls", "log_odds", "log_odds_other")]
    return stats.bootstrap(_less, *samples, draws=draws, seed=seed)


def _less(share, own, other, axis: int = -1):
    return _pearson(share, own, axis) - _pearson(share, other, axis)


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
            found = agreement(means)
            of_them = odds if about == "everyone" else odds[odds["about"] == about]
            rows.append(
                {
                    "model": name,
                    "about": about,
                    "sentences": int(means["sentences"].sum()),
                    "occupations": len(means),
                    "r": found.linear,
                    "rho": found.rank,
                    "less": contrast(odds) if about == "occupation" else None,
                    "they": of_them["they_log_odds"].mean(),
                }
            )
    return pd.DataFrame(rows)


def _pearson(x, y, axis: int = -1):
    """Pearson's correlation along an axis; nan where all values are the same."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", scipy.stats.ConstantInputWarning)
        return scipy.stats.pearsonr(x, y, axis=axis).statistic
