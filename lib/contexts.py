"""Sentences for the word lists, from patterns written for this project (data/demo): nothing is downloaded.

    contexts.from_patterns(["king", "queen"], n=20)   {word: sentences}, as embed.words reads them
    contexts.counter_sentences("gender", n=500)       the sentence pairs of the counter-stereotype experiment

Bias A-head takes both from corpora: contexts from News-commentary (section 4), stereotypes from Reddit (5.2).
"""

import random
from collections.abc import Iterable

import pandas as pd

from lib import CompanionError, data, english


def usable(words: Iterable[str]) -> list[str]:
    """Those of `words` that patterns can be filled with, in their order."""
    kinds = _kinds()
    return [word for word in words if kinds.get(word, "unusable") != "unusable"]


def from_patterns(words: Iterable[str], n: int, seed: int = 0) -> dict[str, list[str]]:
    """n distinct sentences for each word; all that its kind has, where those are fewer than n.

    Words of one kind (person, adjective, ...; data/demo/word_kinds.csv) get the same patterns in the same
    order. Their vectors then differ by the word alone: with patterns of their own, "king" and "queen" would
    also differ by what happened to be said around them. No pattern holds a gender, race or stereotype word,
    which keeps the rule of the corpus handling that the paper cites: a target's line has no attribute word.
    """
    if n < 1:
        raise CompanionError(f"{n} sentences a word cannot be made: ask for 1 or more.")
    words = list(words)
    kinds, patterns = _kinds(), _patterns()
    for word in words:
        if word not in kinds:
            raise CompanionError(f"{word!r} has no kind: add it to word_kinds.csv, or pass usable(words).")
        if kinds[word] == "unusable":
            raise CompanionError(f"{word!r} is not found in ordinary text: leave it out, pass usable(words).")
    # Seeded by the kind's name too, so that a kind's sentences do not depend on the other words asked for.
    chosen = {kind: random.Random(f"{seed} {kind}").sample(patterns[kind], min(n, len(patterns[kind])))
              for kind in {kinds[word] for word in words}}
    return {word: [english.sentence(pattern, word=word) for pattern in chosen[kinds[word]]] for word in words}


def counter_sentences(bias: str, n: int = 500, seed: int = 0) -> pd.DataFrame:
    """n sentence pairs for the counter-stereotype experiment on "gender" or "race", a row each.

    Columns: original, counter, attribute, counterpart, target, group (the attribute's), pattern_id. As in
    section 5.2, the original holds one attribute word and a target word that the lists tie to its group; the
    counter sentence has the attribute's counterpart in its place and is the same in every other word. The
    attribute always stands before the target, so that the pairs serve causal models too.

    The groups take turns, and in each group every pattern is used once before any is used twice (as long as
    it has words left), so that any first part of the rows is balanced as well. Words are as in the lists.
    """
    pairs = _combinations(bias)
    most = 2 * int(pairs["group"].value_counts().min())
    if not 1 <= n <= most:
        raise CompanionError(f"{n} balanced sentence pairs on {bias} cannot be made: ask for 1 to {most}.")
    pairs = pairs.sample(frac=1, random_state=seed)
    for turns in (["group", "pattern_id"], ["group"]):
        pairs = pairs.iloc[pairs.groupby(turns).cumcount().to_numpy().argsort(kind="stable")]
    pairs = pairs.head(n).reset_index(drop=True)
    for column, attribute in (("original", "attribute"), ("counter", "counterpart")):
        pairs[column] = [english.sentence(pattern, attribute=word, target=target) for pattern, word, target
                         in zip(pairs["pattern"], pairs[attribute], pairs["target"])]
    return pairs[["original", "counter", "attribute", "counterpart", "target", "group", "pattern_id"]]


def _combinations(bias: str) -> pd.DataFrame:
    """Every pattern of a bias with every attribute and every target that fits it and each other."""
    patterns, words = (table[table["bias"] == bias] for table in map(data.demo, ("counter", "counter_words")))
    if patterns.empty:
        raise CompanionError(f"There are no sentence pairs on {bias!r}: take 'gender' or 'race'.")
    patterns = patterns.assign(pattern_id=[f"{bias}-{number}" for number in range(1, len(patterns) + 1)])
    attributes, targets = (words[words["role"] == role].rename(columns={"word": role, "kind": f"{role}_kind"})
                           for role in ("attribute", "target"))
    return (patterns.merge(attributes[["attribute", "attribute_kind", "group", "counterpart"]])
            .merge(targets[["target", "target_kind", "group"]]))


def _kinds() -> dict[str, str]:
    table = data.demo("word_kinds")
    return dict(zip(table["word"], table["kind"]))


def _patterns() -> dict[str, list[str]]:
    return {kind: list(part["pattern"]) for kind, part in data.demo("contexts").groupby("kind")}
