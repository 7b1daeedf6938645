"""Sentences for the word lists: from patterns written for this project, or found in a corpus.

Bias A-head takes both from corpora: contexts from News-commentary (section 4), stereotypes from
Reddit (section 5.2). The project's own patterns are in data/demo.
"""

import random
import re
from collections.abc import Iterable, Iterator

import numpy as np
import pandas as pd

from lib import CompanionError
from lib.engine import fill
from lib.text import data, english

# Where a pronoun is asked for. An encoder fills the first word; a decoder, which reads from left
# to right, continues the text.
ENCODER_PROMPT = f"{fill.BLANK} works as {{a}} {{job}}."
DECODER_PROMPT = f"The {{job}} said that {fill.BLANK}"
# Whole words as embed.find has them; the lists write mr. and mrs. with their full stops.
WORD = re.compile(r"mrs?\.|[\w-]+", re.IGNORECASE)
UNUSABLE = "unusable"  # the kind of words that patterns cannot be filled with
LENGTH = range(2, 129)  # words of a line that from_text takes, as context-debias does


def usable(words: Iterable[str]) -> list[str]:
    """Those of `words` that patterns can be filled with, in their order."""
    kinds = _kinds()
    return [word for word in words if kinds.get(word, UNUSABLE) != UNUSABLE]


def _kinds() -> dict[str, str]:
    """{word: its kind (person, adjective, ...)} of data/demo/word_kinds.csv."""
    table = data.demo("word_kinds")
    return dict(zip(table["word"], table["kind"]))


def from_patterns(words: Iterable[str], n: int, seed: int = 0) -> dict[str, list[str]]:
    """n distinct sentences for each word, as embed.words reads them; fewer where a kind has fewer.

    Words of one kind (data/demo/word_kinds.csv) get the same patterns in the same order: their
    vectors then differ by the word alone. No pattern holds a gender, race or stereotype word,
    which keeps the rule of the corpus handling that the paper cites: a target's line has no
    attribute word.
    """
    if n < 1:
        raise CompanionError(f"{n} sentences a word cannot be made: ask for 1 or more.")
    words = list(words)
    kinds = _kinds()
    for word in words:
        _check_kind(word, kinds)
    chosen = {}
    for kind, patterns in data.demo("contexts").groupby("kind")["pattern"]:
        # Seeded by the kind's name too: its sentences do not depend on the other words asked for.
        rng = random.Random(f"{seed} {kind}")
        chosen[kind] = rng.sample(list(patterns), min(n, len(patterns)))
    found = {}
    for word in words:
        patterns = chosen[kinds[word]]
        found[word] = [english.sentence(pattern, word=word) for pattern in patterns]
    return found


def _check_kind(word: str, kinds: dict[str, str]):
    """Refuse a word that no pattern can be filled with."""
    if word not in kinds:
        raise CompanionError(
            f"{word!r} has no kind: add it to word_kinds.csv, or pass usable(words)."
        )
    if kinds[word] == UNUSABLE:
        raise CompanionError(
            f"{word!r} is not found in ordinary text: leave it out, pass usable(words)."
        )


def from_text(
    words: Iterable[str],
    texts: Iterable[str],
    n: int,
    seed: int = 0,
    apart: Iterable[Iterable[str]] = (),
) -> dict[str, list[str]]:
    """Up to n random sentences of the texts for each word; words without one are left out.

    The rules are those of the corpus handling that Bias A-head cites (context-debias): lines of
    2 to 128 words; a line serves a word of one group only if it holds no word of another; it
    serves a word of no group, a target, only if it holds no word of any group.

    apart: groups of attribute words (female, male)
    """
    groups = [frozenset(group) for group in apart]
    serving = {word: [] for word in words}
    for line in dict.fromkeys(_lines(texts)):
        if len(line.split()) not in LENGTH:
            continue
        held = {word.lower() for word in WORD.findall(line)}
        groups_held = [group for group in groups if group & held]
        for word in held & serving.keys():
            if all(word in group for group in groups_held):
                serving[word].append(line)
    found = {}
    for word, lines in serving.items():
        if lines:
            rng = random.Random(f"{seed} {word}")
            found[word] = rng.sample(lines, min(n, len(lines)))
    return found


def _lines(texts: Iterable[str]) -> Iterator[str]:
    """Every sentence of the texts."""
    for text in texts:
        for paragraph in text.splitlines():
            yield from english.sentences(paragraph)


def counter_sentences(bias: str, n: int = 500, seed: int = 0) -> pd.DataFrame:
    """n sentence pairs for the counter-stereotype experiment on "gender" or "race", a row each.

    As in section 5.2, the original holds one attribute word and a target word that the lists tie
    to its group; the counter sentence has the attribute's counterpart in its place and is the same
    in every other word. The attribute always stands before the target, so that the pairs serve
    causal models too. The groups take turns, and in each every pattern is used once before any is
    used twice: the first rows are therefore balanced, however many are taken.
    """
    pairs = _fitting(bias)
    most = 2 * int(pairs["group"].value_counts().min())
    if not 1 <= n <= most:
        raise CompanionError(
            f"{n} balanced sentence pairs on {bias} cannot be made: ask for 1 to {most}."
        )
    pairs = pairs.sample(frac=1, random_state=seed)
    pairs = _in_turns(pairs, ["group", "pattern_id"])
    pairs = _in_turns(pairs, ["group"])
    pairs = pairs.head(n).reset_index(drop=True)
    pairs["original"] = _filled(pairs, "attribute")
    pairs["counter"] = _filled(pairs, "counterpart")
    return pairs[
        ["original", "counter", "attribute", "counterpart", "target", "group", "pattern_id"]
    ]


def _fitting(bias: str) -> pd.DataFrame:
    """A row for every pattern with every attribute and target that fit it and each other."""
    patterns = data.demo("counter")
    patterns = patterns[patterns["bias"] == bias]
    if patterns.empty:
        raise CompanionError(f"There are no sentence pairs on {bias!r}: take 'gender' or 'race'.")
    numbers = range(1, len(patterns) + 1)
    patterns = patterns.assign(pattern_id=[f"{bias}-{number}" for number in numbers])
    words = data.demo("counter_words")
    words = words[words["bias"] == bias]
    attributes = words[words["role"] == "attribute"]
    attributes = attributes.rename(columns={"word": "attribute", "kind": "attribute_kind"})
    attributes = attributes[["attribute", "attribute_kind", "group", "counterpart"]]
    targets = words[words["role"] == "target"]
    targets = targets.rename(columns={"word": "target", "kind": "target_kind"})
    targets = targets[["target", "target_kind", "group"]]
    # Both merges join on the columns that the two tables share: kinds and groups.
    return patterns.merge(attributes).merge(targets)


def _in_turns(pairs: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    """The rows in rounds, each of which has one row of every group of `columns` that still has any.

    Inside a round, and inside a group, the order stays as it was.
    """
    round_of_row = pairs.groupby(columns).cumcount().to_numpy()
    return pairs.iloc[round_of_row.argsort(kind="stable")]


def _filled(pairs: pd.DataFrame, attribute: str) -> list[str]:
    """The patterns filled with their targets and with the words of the column `attribute`."""
    sentences = []
    for pattern, word, target in zip(pairs["pattern"], pairs[attribute], pairs["target"]):
        sentences.append(english.sentence(pattern, attribute=word, target=target))
    return sentences


def pronoun_prompt(model, job: str, template: str = "") -> str:
    """The sentence in which this model is asked for a pronoun.

    template: a text with {a}, {job} and a blank; by default the prompt for the model's direction
    """
    if not template:
        template = DECODER_PROMPT if model.is_causal else ENCODER_PROMPT
    return template.format(a=english.article(job), job=job)


def pronoun_odds(model, template: str = "") -> pd.DataFrame:
    """log2 p(she) : p(he) for the 58 occupations of Counteracts' Table 1, a row each.

    Beside it stand both probabilities and the percentage of women in the occupation.
    """
    jobs = data.words("occupations")
    prompts = [pronoun_prompt(model, job, template) for job in jobs.singular]
    opens_the_sentence = prompts[0].startswith(fill.BLANK)
    words = ["She", "He"] if opens_the_sentence else ["she", "he"]
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
