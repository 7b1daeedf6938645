"""The odds of she against he that a model gives a person of an occupation."""

import numpy as np
import pandas as pd

from lib.engine import fill
from lib.text import data, english

# Where a pronoun is asked for. An encoder fills the first word; a decoder, which reads from left to right, goes on.
ENCODER_PROMPT = f"{fill.BLANK} works as {{a}} {{job}}."
DECODER_PROMPT = f"The {{job}} said that {fill.BLANK}"


def prompt(model, job: str) -> str:
    """The sentence in which this model is asked for a pronoun."""
    return (DECODER_PROMPT if model.is_causal else ENCODER_PROMPT).format(a=english.article(job), job=job)


def pronoun_odds(model) -> pd.DataFrame:
    """log2 of p(she) : p(he) for the 58 occupations of Counteracts' Table 1, beside the share of women in each.

    Columns: occupation, percent_women, she, he (probabilities), log_odds.
    """
    jobs = data.words("occupations")
    words = ["she", "he"] if model.is_causal else ["She", "He"]  # what opens a sentence has a capital
    table = fill.word_probabilities(model, [prompt(model, job) for job in jobs.singular], words)
    she, he = (table[word].to_numpy() for word in words)
    return pd.DataFrame({"occupation": jobs.singular, "percent_women": jobs.percent_women.astype(float),
                         "she": she, "he": he, "log_odds": np.log2(she / he)})
