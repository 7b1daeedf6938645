"""Sentence pairs that differ in gender words alone, to fit gender subspaces on: [(female, male), ...].

Projective methods fits on "a small set of paired sentences" and does not give it: notebook 08 shows what that does."""

from lib.engine import stats
from lib.text import data as sources, readers, swaps

# Liang et al.'s ten pairs, which are Bolukbasi et al.'s. "her" is his or him: sentences with it are left out.
PAIRS = {
    "woman": "man",
    "girl": "boy",
    "she": "he",
    "mother": "father",
    "daughter": "son",
    "gal": "guy",
    "female": "male",
    "her": "his",
    "herself": "himself",
    "mary": "john",
}
FEWEST = 4  # pairs that even a try fits subspaces on
AMBIGUOUS = {"her", "hers"}


def written() -> list[tuple[str, str]]:
    """The project's 40 (data/lists/subspace_pairs.csv), four for each of Bolukbasi et al.'s ten word pairs."""
    return list(
        sources.words("subspace_pairs")[["female", "male"]].itertuples(index=False, name=None)
    )


def natural(data: str = "mini", n: int = 200, items: int = 0) -> list[tuple[str, str]]:
    """The first n sentences that speak of one gender, each with its swap, as Liang et al. make theirs for sent-debias:
    of data/demo's prose and captions, or WikiText-2's test split ("paper"), one of theirs. items: of a try; 0: all."""
    if data == "mini":
        captions = sources.demo("nli")
        texts = [*sources.demo("prose"), *captions["premise"], *captions["hypothesis"]]
    else:
        lines = [line for line in readers.wikitext() if not line.startswith("=")]
        texts = [
            sentence + "."
            for line in lines
            for sentence in line.split(" . ")
            if 4 <= len(sentence.split()) <= 40
        ]
    gendered = {
        word
        for side in sources.words("gender_pairs")[["female", "male"]].to_numpy().T
        for word in side
    }
    pairs = [pair for text in dict.fromkeys(texts) if (pair := swapped(text, gendered - {"him"}))]
    return stats.first(pairs[:n], items, range(FEWEST))


def contexts(data: str = "mini", items: int = 0) -> list[tuple[str, str]]:
    """Contexts of the triples, on which bias is measured, with their swaps: each once, if the swap changes it."""
    frame = sources.demo("triples") if data == "mini" else readers.stereoset()
    columns = frame["gender"], frame["context"], frame["gender_swapped_context"]
    pairs = [
        (own, other) if gender == "F" else (other, own)
        for gender, own, other in zip(*columns)
        if own != other
    ]
    return stats.first(list(dict.fromkeys(pairs)), items, range(FEWEST))


def swapped(text: str, gendered: set[str] = frozenset()) -> tuple[str, str] | None:
    """(female, male) sentence, or None where the text has words of both genders or none of the ten pairs, one that
    could be swapped in two ways, or one of `gendered` that none of the ten pairs swaps."""
    to_male, to_female = PAIRS, {male: female for female, male in PAIRS.items()} | {"him": "her"}
    words = {word.lower() for word in swaps.WORD.findall(text)}
    is_female, is_male = words & set(to_male), words & set(to_female)
    if (
        bool(is_female) == bool(is_male)
        or words & AMBIGUOUS
        or (words & gendered) - is_female - is_male
    ):
        return None
    changed = swaps.replaced(
        text, lambda match: (to_male if is_female else to_female).get(match[0].lower())
    )
    return (text, changed) if is_female else (changed, text)
