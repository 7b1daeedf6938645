"""The triples written for this project: swapped word for word, and balanced."""

import re

from lib.text import data, readers

SWAPS = [pair.split("/") for pair in """
    he/she him/her his/her himself/herself man/woman men/women boy/girl boys/girls father/mother dad/mom
    son/daughter brother/sister uncle/aunt nephew/niece husband/wife grandfather/grandmother
    grandson/granddaughter gentleman/lady schoolboy/schoolgirl
    Adam/Amy Albert/Alice Brian/Brenda Carl/Carla David/Diana Edward/Emily Eric/Erica Frank/Frances
    Gary/Gloria George/Grace Harry/Hannah Jack/Jane Julian/Julia Kevin/Karen Larry/Linda Luke/Laura
    Martin/Megan Michael/Michelle Nathan/Nancy Oliver/Olivia Patrick/Patricia Paul/Paula Philip/Phoebe
    Richard/Ruth Robert/Rachel Samuel/Sophie Simon/Susan Steven/Stella Thomas/Teresa Walter/Wendy
    """.lower().split()]
MALE, FEMALE = map(set, zip(*SWAPS))
TRIPLES = data.demo("triples")


def words(text: str) -> list[str]:
    return re.findall(r"[a-z]+(?:['-][a-z]+)*", text.lower())


def test_triples_have_the_shape_of_stereoset_and_half_are_of_each_gender():
    assert list(TRIPLES) == readers.TRIPLE and TRIPLES["context_id"].nunique() >= 90
    assert TRIPLES["next_sentence"].is_unique and TRIPLES["gender_swapped_next_sentence"].is_unique
    for _, triple in TRIPLES.groupby("context_id"):
        assert len(triple) == 3 and set(triple["label"]) == readers.TRIPLE_LABELS
        assert triple[["context", "gender", "gender_swapped_context"]].drop_duplicates().shape[0] == 1
    assert TRIPLES["gender"].value_counts().nunique() == 1
    for row in TRIPLES.itertuples():
        gendered = set(words(row.context)) & (MALE | FEMALE)
        assert gendered and gendered <= (MALE if row.gender == "M" else FEMALE), row.context


def test_the_swap_changes_the_gender_words_and_nothing_else():
    pairs = {(a, b) for a, b in SWAPS} | {(b, a) for a, b in SWAPS}
    for column in ("context", "next_sentence"):
        for text, other in zip(TRIPLES[column], TRIPLES[f"gender_swapped_{column}"], strict=True):
            for a, b in zip(words(text), words(other), strict=True):
                assert (a, b) in pairs if a in MALE | FEMALE else a == b, (text, other)
            assert re.sub(r"\w+", "", text) == re.sub(r"\w+", "", other)
    related = TRIPLES["label"] != "unrelated"
    assert ((TRIPLES["next_sentence"] != TRIPLES["gender_swapped_next_sentence"]) == related).all()
