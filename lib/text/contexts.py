"""Sentences for the word lists: from patterns written for this project (data/demo), or found in a corpus.

Bias A-head takes both from corpora: contexts from News-commentary (section 4), stereotypes from Reddit (5.2)."""

from __future__ import annotations  # pd.DataFrame is not looked up, so that pandas stays unimported

import random
import re
from collections.abc import Iterable

import numpy as np

from lib import CompanionError, Lazy
from lib.engine import fill
from lib.text import data, english

pd = Lazy("pandas")
# Where a pronoun is asked for. An encoder fills the first word; a decoder, which reads from left to right, goes on.
ENCODER_PROMPT = f"{fill.BLANK} works as {{a}} {{job}}."
DECODER_PROMPT = f"The {{job}} said that {fill.BLANK}"
WORD = re.compile(
    r"mrs?\.|[\w-]+", re.IGNORECASE
)  # whole words as embed.find has them; the lists write mr. and mrs.


def usable(words: Iterable[str]) -> list[str]:
    """Those of `words` that patterns can be filled with, in their order."""
    kinds = _kinds()
    return [word for word in words if kinds.get(word, "unusable") != "unusable"]


def _kinds() -> dict[str, str]:
    return dict(data.demo("word_kinds")[["word", "kind"]].to_numpy())


def from_patterns(words: Iterable[str], n: int, seed: int = 0) -> dict[str, list[str]]:
    """n distinct sentences for each word, as embed.words reads them; all that its kind has, where those are fewer.
    Words of one kind (person, adjective, ...; data/demo/word_kinds.csv) get the same patterns in the same order: their
    vectors then differ by the word alone. No pattern holds a gender, race or stereotype word, which keeps the rule of
    the corpus handling that the paper cites: a target's line has no attribute word."""
    if n < 1:
        raise CompanionError(f"{n} sentences a word cannot be made: ask for 1 or more.")
    words, kinds = list(words), _kinds()
    for word in words:
        if word not in kinds:
            raise CompanionError(
                f"{word!r} has no kind: add it to word_kinds.csv, or pass usable(words)."
            )
        if kinds[word] == "unusable":
            raise CompanionError(
                f"{word!r} is not found in ordinary text: leave it out, pass usable(words)."
            )
    # Seeded by the kind's name too, so that a kind's sentences do not depend on the other words asked for.
    chosen = {
        kind: random.Random(f"{seed} {kind}").sample(list(patterns), min(n, len(patterns)))
        for kind, patterns in data.demo("contexts").groupby("kind")["pattern"]
    }
    return {
        word: [english.sentence(pattern, word=word) for pattern in chosen[kinds[word]]]
        for word in words
    }


def from_text(
    words: Iterable[str],
    texts: Iterable[str],
    n: int,
    seed: int = 0,
    apart: Iterable[Iterable[str]] = (),
) -> dict[str, list[str]]:
    """Up to n sentences of the texts for each word, drawn at random; words without one are left out.
    apart: groups of attribute words (female, male). The rules are those of the corpus handling that Bias A-head
    cites (context-debias): lines of 2 to 128 words; a line serves a word of one group only if it holds no word of
    another; it serves a word of no group, a target, only if it holds no word of any."""
    groups = [frozenset(group) for group in apart]
    serving = {word: [] for word in words}
    for line in dict.fromkeys(
        line
        for text in texts
        for paragraph in text.splitlines()
        for line in english.sentences(paragraph)
    ):
        if not 2 <= len(line.split()) <= 128:
            continue
        held = {word.lower() for word in WORD.findall(line)}
        there = [group for group in groups if group & held]
        for word in held & serving.keys():
            if all(word in group for group in there):
                serving[word].append(line)
    return {
        word: random.Random(f"{seed} {word}").sample(lines, min(n, len(lines)))
        for word, lines in serving.items()
        if lines
    }


def counter_sentences(bias: str, n: int = 500, seed: int = 0) -> pd.DataFrame:
    """n sentence pairs for the counter-stereotype experiment on "gender" or "race", one row each.

    As in section 5.2, the original holds one attribute word and a target word that the lists tie to its group; the
    counter sentence has the attribute's counterpart in its place and is the same in every other word. The attribute
    always stands before the target, so that the pairs serve causal models too. The groups take turns, and in each
    every pattern is used once before any is used twice: any first part of the rows is balanced as well."""
    patterns, words = (
        table[table["bias"] == bias] for table in map(data.demo, ("counter", "counter_words"))
    )
    if patterns.empty:
        raise CompanionError(f"There are no sentence pairs on {bias!r}: take 'gender' or 'race'.")
    patterns = patterns.assign(
        pattern_id=[f"{bias}-{number}" for number in range(1, len(patterns) + 1)]
    )
    attributes, targets = (
        words[words["role"] == role].rename(columns={"word": role, "kind": f"{role}_kind"})
        for role in ("attribute", "target")
    )
    # every pattern with every attribute and every target that fits it and each other
    pairs = patterns.merge(
        attributes[["attribute", "attribute_kind", "group", "counterpart"]]
    ).merge(targets[["target", "target_kind", "group"]])
    most = 2 * int(pairs["group"].value_counts().min())
    if not 1 <= n <= most:
        raise CompanionError(
            f"{n} balanced sentence pairs on {bias} cannot be made: ask for 1 to {most}."
        )
    pairs = pairs.sample(frac=1, random_state=seed)
    for turns in (["group", "pattern_id"], ["group"]):
        pairs = pairs.iloc[pairs.groupby(turns).cumcount().to_numpy().argsort(kind="stable")]
    pairs = pairs.head(n).reset_index(drop=True)
    for column, attribute in (("original", "attribute"), ("counter", "counterpart")):
        pairs[column] = [
            english.sentence(pattern, attribute=word, target=target)
            for pattern, word, target in pairs[["pattern", attribute, "target"]].to_numpy()
        ]
    return pairs[
        ["original", "counter", "attribute", "counterpart", "target", "group", "pattern_id"]
    ]


def pronoun_prompt(model, job: str, template: str = "") -> str:
    """The sentence in which this model is asked for a pronoun; a template has {a} {job} and a blank."""
    template = template or (DECODER_PROMPT if model.is_causal else ENCODER_PROMPT)
    return template.format(a=english.article(job), job=job)


def pronoun_odds(model, template: str = "") -> pd.DataFrame:
    """log2 of p(she) : p(he) for the 58 occupations of Counteracts' Table 1, beside the share of women in each."""
    jobs = data.words("occupations")
    prompts = [pronoun_prompt(model, job, template) for job in jobs.singular]
    words = (
        ["She", "He"] if prompts[0].startswith(fill.BLANK) else ["she", "he"]
    )  # a sentence opens with a capital
    she, he = fill.word_probabilities(model, prompts, words).to_numpy().T
    return pd.DataFrame(
        {
            "occupation": jobs.singular,
            "percent_women": jobs.percent_women.astype(float),
            "she": she,
            "he": he,
            "log_odds": np.log2(she / he),
        }
    )
